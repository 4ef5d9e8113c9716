// SPDX-License-Identifier: Apache-2.0
/* selective_scan_chunked_plan.c -- launch plans of `chunked` (selective_scan_chunked_cuda.cu): few states, one channel
 * per lane, one chunk of time per warp. */
#include "ops/selective_scan/selective_scan_plan.h"

enum { PITCH_MAX = 1 << 28, BLOCKS_PER_SM = 3 };

static mba_status chunked_takes(const mba_node *n, const mba_machine *m)
{
    const scan_dims d = scan_dims_of(n);
    MBA_TRY(scan_takes(n, m));
    MBA_REFUSE_IF(d.N > CHUNKED_STATES, "%lld states: wants at most %d", (long long)d.N, CHUNKED_STATES);
    for (int k = 0; k < MBA_IN_MAX + MBA_OUT_MAX; k++) {
        const mba_tensor *t = k < MBA_IN_MAX ? n->in[k] : n->out[k - MBA_IN_MAX];
        MBA_REFUSE_IF(t && t->pitch > PITCH_MAX && !mba_dense(t), "rows %lld values apart", (long long)t->pitch);
    }
    return MBA_OK;
}

/* A launch over `items` in rounds of as many chunks as a block has warps, and what both directions do in one. */
static mba_launch *plan_rounds(mba_plan *p, const mba_node *n, scan_dims d, int64_t items, const char *kernel,
                               bool back, double *values)
{
    const int64_t        most = back ? CHUNKED_WARPS_BACK : CHUNKED_WARPS;
    const int64_t        e = (int64_t)mba_dtype_bytes(n->in[U]->type.dtype);
    const scan_partition c = scan_partition_of(d, items);
    const int64_t        chunks = mba_ceil(c.pack * c.segment, SAVE_EVERY);
    const int64_t        warps = chunks < most ? chunks : most;
    mba_launch          *l = mba_plan_launch(p, kernel, MBA_VECTOR, items, 32 * (int)warps);
    l->grid[1] = scan_channel_blocks(d, TILE_CHANNELS);
    l->smem_bytes = ORIGINS_BYTES // chunk_smem: passages, states of warps, staged chunks
                    + (size_t)(most * d.N * (4 * TILE_CHANNELS * (back ? 7 : 6) + 8 * SAVE_EVERY)
                               + most * 2 * (back ? 4 : 3) * SAVE_EVERY * TILE_CHANNELS * e);
    *values = (double)(warps * SAVE_EVERY * TILE_CHANNELS);
    mba_phase_work(l, MBA_LOOP, (double)mba_ceil(chunks, warps), NULL);
    scan_load(l, n, U, *values);
    scan_load(l, n, DELTA, *values);
    scan_load(l, n, Z, *values);
    scan_load_states(l, n, d, TILE_CHANNELS, BM, CM, *values / TILE_CHANNELS);
    return l;
}

/* states: for the backward pass, without output. */
static void plan_forward(mba_plan *p, const mba_node *n, scan_dims d, int64_t items, bool states)
{
    const double N = (double)d.N, runs = d.N > 1 ? 2 : 1; // exponentials are computed in both runs of a chunk
    double       values;
    if (items > d.B) scan_plan_carries(p, n, d, items, 1, false);
    mba_launch *l = plan_rounds(p, n, d, items, "scan_fwd_chunked", false, &values);
    l->regs = 80;
    mba_phase_work(l, MBA_SFU, values * (runs * N + (n->in[Z] && !states ? 3 : 1)), NULL);
    mba_phase_work(l, MBA_FMA, values * (14 + 7 * N), NULL);
    mba_phase_work(l, MBA_ALU, values * 10, NULL);
    mba_phase_work(l, MBA_SMEM, values * 3 * N, NULL);
    mba_phase_work(l, MBA_BARRIER, 1, NULL);
    if (states) mba_phase_move(l, MBA_STORE, MBA_ARG_SCRATCH(CU_KEPT), 4 * values / SAVE_EVERY * (double)d.N);
    else {
        scan_store(l, n, OUT, values);
        scan_store(l, n, KEPT, values / SAVE_EVERY * (double)d.N);
    }
    mba_phase_work(l, MBA_END, 0, NULL);
}

mba_status selective_scan_chunked_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    const scan_dims d = scan_dims_of(n);
    double          time;
    MBA_TRY(chunked_takes(n, m));
    REFUSE_PACKS(n, d, n->out[KEPT], false);
    const int64_t items = scan_best_items(d, TILE_CHANNELS, BLOCKS_PER_SM * (int64_t)m->sm, scan_can_pack(n, d, false),
                                          n->out[KEPT], &time);
    scan_scratch_segments(p, d, items, 1, false, 0);
    plan_forward(p, n, d, items, false);
    return MBA_OK;
}

mba_status selective_scan_bwd_chunked_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    const scan_dims   d = scan_dims_of(n);
    const mba_tensor *kept = n->in[KEPT_IN];
    double            time, values;
    MBA_TRY(chunked_takes(n, m));
    REFUSE_PACKS(n, d, kept, true);
    const int64_t items = scan_best_items(d, TILE_CHANNELS, BLOCKS_PER_SM * (int64_t)m->sm, scan_can_pack(n, d, true),
                                          kept, &time);
    const int64_t sub = scan_carry_parts(d, items, m);
    const scan_partition c = scan_partition_of(d, items);
    const int64_t rows = c.segments > 1 ? d.B * mba_ceil(d.L, SAVE_EVERY) : items * mba_ceil(c.pack * d.L, SAVE_EVERY);
    scan_scratch_segments(p, d, items, sub, true, 0);
    mba_plan_scratch(p, "kept states", kept ? 0 : sizeof(float) * (size_t)(rows * d.D * d.N));
    mba_plan_scratch(p, "no y", 0);
    scan_scratch_sums(p, d, items, d.N);
    if (!kept) plan_forward(p, n, d, items, true);
    if (items > d.B) scan_plan_carries(p, n, d, items, sub, true);
    const double N = (double)d.N;
    mba_launch  *l = plan_rounds(p, n, d, items, "scan_bwd_chunked", true, &values);
    l->regs = 168;
    scan_load(l, n, DOUT, values);
    if (kept) scan_load(l, n, KEPT_IN, values / SAVE_EVERY * (double)d.N);
    else mba_phase_move(l, MBA_LOAD, MBA_ARG_SCRATCH(CU_KEPT), 4 * values / SAVE_EVERY * (double)d.N);
    mba_phase_work(l, MBA_SFU, values * (2 * N + 4), NULL);
    mba_phase_work(l, MBA_FMA, values * (30 + 15 * N), NULL);
    mba_phase_work(l, MBA_ALU, values * (20 + 6 * N), NULL);
    mba_phase_work(l, MBA_SMEM, values * 6 * N, NULL);
    mba_phase_work(l, MBA_BARRIER, 1, NULL);
    scan_store(l, n, DU, values);
    scan_store(l, n, DDELTA, values);
    scan_store(l, n, DZ, values);
    mba_phase_move(l, MBA_STORE, MBA_ARG_SCRATCH(CU_BC), 4 * values / TILE_CHANNELS * 2 * (double)d.N);
    mba_phase_work(l, MBA_END, 0, NULL);
    mba_phase_move(l, MBA_STORE, MBA_ARG_SCRATCH(CU_SUMS), 4.0 * TILE_CHANNELS * (double)(d.N + 2));
    scan_plan_sums(p, n, d, items, d.N);
    return MBA_OK;
}
