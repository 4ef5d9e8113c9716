// SPDX-License-Identifier: Apache-2.0
/* selective_scan_lane_plan.c -- launch plans of variant `lane` of selective_scan, which takes every node: one channel
 * per lane, states in scratch (kernels: selective_scan_lane_cuda.cu). The backward pass runs the forward kernel for the
 * states, then its own, then the sums. */
#include "ops/selective_scan/selective_scan_plan.h"

/* Values of one block: a sequence of 32 channels. */
static double lane_values(scan_dims d) { return (double)(d.L * LANE_CHANNELS); }

/* Bytes of saved states per block. */
static double lane_saved(scan_dims d) { return 4.0 * (double)(mba_ceil(d.L, LANE_CHUNK) * LANE_CHANNELS * d.N); }

static mba_launch *begin_lane(mba_plan *p, const mba_node *n, scan_dims d, const char *kernel, int regs)
{
    mba_launch *l = mba_plan_launch(p, kernel, MBA_VECTOR, d.B, LANE_CHANNELS);
    l->grid[1] = channel_blocks(d, LANE_CHANNELS);
    l->regs = regs;
    load_operand(l, n, U, lane_values(d));
    load_operand(l, n, DELTA, lane_values(d));
    load_states(l, n, d, LANE_CHANNELS, BM, CM, (double)d.L);
    return l;
}

/* states: for the backward pass, without output. */
static void plan_lane(mba_plan *p, const mba_node *n, scan_dims d, bool states)
{
    const double values = lane_values(d), elements = values * (double)d.N;
    mba_launch  *l = begin_lane(p, n, d, "scan_fwd_lane", 80);
    mba_phase_move(l, MBA_LOAD, MBA_ARG_SCRATCH(CU_SPACE), elements * 8);
    mba_phase_work(l, MBA_SFU, elements, NULL);
    mba_phase_work(l, MBA_FMA, elements * 4, NULL);
    mba_phase_move(l, MBA_STORE, MBA_ARG_SCRATCH(CU_SPACE), elements * 4);
    if (states) {
        mba_phase_move(l, MBA_STORE, MBA_ARG_SCRATCH(CU_KEPT), lane_saved(d));
        return;
    }
    load_operand(l, n, Z, values);
    if (n->out[KEPT]) store_operand(l, n, KEPT, (double)mba_elems(n->out[KEPT]) / (double)(l->grid[0] * l->grid[1]));
    store_operand(l, n, YS, values);
    store_operand(l, n, OUT, values);
}

static void plan_bwd_lane(mba_plan *p, const mba_node *n, scan_dims d)
{
    const double values = lane_values(d), elements = values * (double)d.N;
    mba_launch  *l = begin_lane(p, n, d, "scan_bwd_lane", 128);
    load_operand(l, n, Z, values);
    load_operand(l, n, DOUT, values);
    mba_phase_move(l, MBA_LOAD, MBA_ARG_SCRATCH(CU_KEPT), lane_saved(d));
    mba_phase_move(l, MBA_LOAD, MBA_ARG_SCRATCH(CU_SPACE), elements * 24);
    mba_phase_work(l, MBA_SFU, elements * 2, NULL);
    mba_phase_work(l, MBA_FMA, elements * 20, NULL);
    mba_phase_move(l, MBA_STORE, MBA_ARG_SCRATCH(CU_SPACE), elements * 12);
    store_operand(l, n, DU, values);
    store_operand(l, n, DDELTA, values);
    store_operand(l, n, DZ, values);
    mba_phase_move(l, MBA_STORE, MBA_ARG_SCRATCH(CU_BC), (double)(d.L * 2 * d.N * 4));
    mba_phase_move(l, MBA_STORE, MBA_ARG_SCRATCH(CU_SUMS), (double)(LANE_CHANNELS * (d.N + 2) * 4));
}

static mba_status lane_takes(scan_dims d, const mba_machine *m, bool back)
{
    enum { SUMS_BYTES = 16 * 33 * 4 }; // scan_sums_items, the only kernel with shared memory
    MBA_REFUSE_IF(m->cc < 80, "a device of compute capability %d", m->cc);
    MBA_REFUSE_IF(d.L > INT_LIMIT || d.D > INT_LIMIT / 32 || d.B > INT_LIMIT || d.N > INT_LIMIT,
                  "more than %d tokens or channels", INT_LIMIT);
    MBA_REFUSE_IF(channel_blocks(d, LANE_CHANNELS) > 65535, "%lld groups", (long long)d.G);
    MBA_REFUSE_IF(back && SUMS_BYTES > m->smem_block_bytes,
                  "gradients of a scan\nwhy: a block needs %d bytes of shared memory, the machine has %lld", SUMS_BYTES,
                  (long long)m->smem_block_bytes);
    return MBA_OK;
}

/* Scratch in the order of CU_*. arrays: arrays of N values per lane. */
static void plan_scratch_lane(mba_plan *p, scan_dims d, int64_t arrays, bool back)
{
    scan_scratch_segments(p, d, d.B, 1, false);
    mba_plan_scratch(p, "kept states",
                     back ? sizeof(float) * (size_t)(d.B * mba_ceil(d.L, LANE_CHUNK) * d.D * d.N) : 0);
    mba_plan_scratch(p, "y", 0);
    if (back) scan_scratch_sums(p, d, d.B, LANE_CHANNELS);
    else
        for (int k = 0; k < 2; k++) mba_plan_scratch(p, "no sums", 0);
    mba_plan_scratch(p, "states",
                     sizeof(float) * (size_t)(d.B * channel_blocks(d, LANE_CHANNELS) * arrays * d.N * LANE_CHANNELS));
}

mba_status selective_scan_lane_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    const scan_dims d = scan_dims_of(n);
    MBA_TRY(lane_takes(d, m, false));
    plan_scratch_lane(p, d, 2, false);
    plan_lane(p, n, d, false);
    return MBA_OK;
}

mba_status selective_scan_bwd_lane_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    const scan_dims d = scan_dims_of(n);
    MBA_TRY(lane_takes(d, m, true));
    plan_scratch_lane(p, d, LANE_CHUNK + 4, true);
    plan_lane(p, n, d, true);
    plan_bwd_lane(p, n, d);
    scan_plan_sums(p, n, d, d.B, LANE_CHANNELS);
    return MBA_OK;
}
