// SPDX-License-Identifier: Apache-2.0
/* selective_scan_channels_plan.c -- launch plans of variant `channels` of selective_scan: up to 4 states, a thread per
 * channel, no segments (kernels: selective_scan_channels_cuda.cu). The backward pass runs the forward kernel for the
 * states before spans, then its own, then the sums. */
#include "ops/selective_scan/selective_scan_plan.h"

static int64_t warps_of(scan_dims d)
{
    const int64_t chunks = mba_ceil(d.L, CHANNELS_CHUNK);
    return chunks < CHANNELS_WARPS ? chunks : CHANNELS_WARPS;
}

static int64_t spans_of(scan_dims d) { return mba_ceil(d.L, warps_of(d) * CHANNELS_CHUNK); }

/* Fewer blocks than SMs leave the GPU idle: `tiles` cuts sequences into segments then. */
static mba_status channels_takes(const mba_node *n, const mba_machine *m)
{
    const scan_dims d = scan_dims_of(n);
    MBA_TRY(scan_takes(n, m));
    MBA_REFUSE_IF(d.N > CHANNELS_STATES, "%lld states: wants at most %d", (long long)d.N, CHANNELS_STATES);
    MBA_REFUSE_IF(d.B * channel_blocks(d, TILE_CHANNELS) < m->sm, "%lld blocks of 32 channels: wants one per SM",
                  (long long)(d.B * channel_blocks(d, TILE_CHANNELS)));
    for (int k = 0; k < MBA_IN_MAX + MBA_OUT_MAX; k++) {
        const mba_tensor *t = k < MBA_IN_MAX ? n->in[k] : n->out[k - MBA_IN_MAX];
        MBA_REFUSE_IF(t && t->pitch > INT_LIMIT / 4 && !mba_dense(t), "rows %lld values apart", (long long)t->pitch);
    }
    return MBA_OK;
}

/* A block: `values` values in one trip of its loop over spans, from zero and from the true state. */
static mba_launch *begin_channels(mba_plan *p, const mba_node *n, scan_dims d, const char *kernel, double values,
                                  double passes)
{
    const int64_t states = d.N == 3 ? 4 : d.N;
    mba_launch   *l = mba_plan_launch(p, kernel, MBA_VECTOR, d.B, (int)(32 * warps_of(d)));
    l->grid[1] = channel_blocks(d, TILE_CHANNELS);
    mba_phase_work(l, MBA_LOOP, (double)spans_of(d), NULL);
    load_operand(l, n, U, values);
    load_operand(l, n, DELTA, values);
    load_states(l, n, d, TILE_CHANNELS, BM, CM, values / TILE_CHANNELS);
    mba_phase_work(l, MBA_BARRIER, 1, NULL);
    mba_phase_work(l, MBA_SFU, values * (1 + passes * (double)states), NULL);
    mba_phase_work(l, MBA_FMA, values * (16 + 3 * passes * (double)states), NULL);
    return l;
}

static void plan_channels(mba_plan *p, const mba_node *n, scan_dims d, bool states)
{
    const double values = (double)(d.L * TILE_CHANNELS) / (double)spans_of(d);
    mba_launch  *l = begin_channels(p, n, d, "scan_fwd_channels", values, states ? 2 : 3);
    l->regs = 80;
    if (states) {
        mba_phase_move(l, MBA_STORE, MBA_ARG_SCRATCH(CU_KEPT), (double)(4 * TILE_CHANNELS * scan_padded_states(d.N)));
    } else {
        load_operand(l, n, Z, values);
        mba_phase_work(l, MBA_SFU, 2 * values, NULL);
        store_operand(l, n, OUT, values);
    }
    mba_phase_work(l, MBA_END, 0, NULL);
}

mba_status selective_scan_channels_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    const scan_dims d = scan_dims_of(n);
    MBA_TRY(channels_takes(n, m));
    plan_channels(p, n, d, false);
    return MBA_OK;
}

mba_status selective_scan_bwd_channels_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    const scan_dims d = scan_dims_of(n);
    const double    values = (double)(d.L * TILE_CHANNELS) / (double)spans_of(d);
    MBA_TRY(channels_takes(n, m));
    for (int k = 0; k < CU_KEPT; k++) mba_plan_scratch(p, "no segments", 0);
    mba_plan_scratch(p, "kept states", sizeof(float) * (size_t)(d.B * spans_of(d) * d.D * scan_padded_states(d.N)));
    mba_plan_scratch(p, "no y", 0);
    scan_scratch_sums(p, d, d.B);
    plan_channels(p, n, d, true);
    mba_launch *l = begin_channels(p, n, d, "scan_bwd_channels", values, 6);
    l->regs = 128;
    load_operand(l, n, Z, values);
    load_operand(l, n, DOUT, values);
    mba_phase_move(l, MBA_LOAD, MBA_ARG_SCRATCH(CU_KEPT), (double)(4 * TILE_CHANNELS * scan_padded_states(d.N)));
    mba_phase_work(l, MBA_SFU, 3 * values, NULL);
    mba_phase_work(l, MBA_FMA, values * (40 + 12 * (double)d.N), NULL);
    store_operand(l, n, DU, values);
    store_operand(l, n, DDELTA, values);
    store_operand(l, n, DZ, values);
    mba_phase_move(l, MBA_STORE, MBA_ARG_SCRATCH(CU_BC),
                   4.0 * values / TILE_CHANNELS * (double)(2 * scan_padded_states(d.N)));
    mba_phase_work(l, MBA_END, 0, NULL);
    mba_phase_move(l, MBA_STORE, MBA_ARG_SCRATCH(CU_SUMS), (double)(TILE_CHANNELS * (d.N + 2) * 4));
    scan_plan_sums(p, n, d, d.B);
    return MBA_OK;
}
