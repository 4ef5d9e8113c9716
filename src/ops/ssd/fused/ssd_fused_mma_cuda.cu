// SPDX-License-Identifier: Apache-2.0
/* ssd_fused_mma_cuda.cu -- launchers of ssd's variant `fused_mma` for sm_80 and later, forward and backward.
 *
 * Forward:  ssd_tiled_prep, ssd_mma_states (if segments), ssd_mma_scan.
 * Backward: the same without output, unless the forward pass saved its states; then ssd_mma_states (if segments),
 *           ssd_mma_scan_rev, ssd_tiled_slow, ssd_mma_bc, ssd_tiled_finish, ssd_tiled_sums.
 * Kernels by the name of ssd_tiled.cuh are that file's: they need nothing of sm_90. The launches follow the plan of
 * ssd_fused.c. */
#include "ops/ssd/fused/ssd_fused_mma_bc.cuh"
#include "ops/ssd/fused/ssd_tiled.cuh"

template <int NT, int WHAT>
static __global__ void __launch_bounds__(MMA_THREADS, 1)
    ssd_mma_scan(const __grid_constant__ fused_task a, const __grid_constant__ mma_operands o)
{
    mma_scan_run<false, WHAT, NT>(a, o);
}
template <int NT>
static __global__ void __launch_bounds__(MMA_THREADS, 1)
    ssd_mma_scan_rev(const __grid_constant__ fused_task a, const __grid_constant__ mma_operands o)
{
    mma_scan_run<true, SCAN_OUT, NT>(a, o);
}
template <int NT, bool REV>
static __global__ void __launch_bounds__(MMA_THREADS, 1)
    ssd_mma_states(const __grid_constant__ fused_task a, const __grid_constant__ mma_operands o)
{
    mma_states_run<REV, NT>(a, o);
}

/* ---- launchers ---- */

template <bool REV, int WHAT, int NT> static int stages_of(const mba_call *c, int k)
{
    return (int)(c->plan->launch[k].smem_bytes / mma_stage<REV, WHAT, NT>::BYTES);
}

/* Operands of a scan; x: what it scales (x or dy), y: what it writes. */
static mma_operands operands_of(const mba_call *c, const fused_task &a, const strided<bf16> &y, bool rev)
{
    const ssd_dims d = ssd_dims_of(c->node), tiles = ssd_tile_dims(&d);
    mma_operands   o = {};
    o.x = rev ? a.dy : a.x;
    o.other = a.x;
    o.y = y;
    o.k = rev ? a.bm : a.cm;
    o.u = rev ? a.cm : a.bm;
    o.rows = a.L;
    o.cols = (int)(mba_ceil(a.N, SSD_PAD_TO) * SSD_PAD_TO);
    o.state_pairs = (int)(ssd_state_heads(&tiles) / HEADS);
    if (a.b_end) {
        const int64_t       width = (int64_t)tiles_of_n(a) * FN, token = a.G * width;
        strided<const bf16> bm = { a.b_end, { a.K * FQ * token, token, width } }, cm = bm;
        cm.at = a.c_begin;
        o.k = rev ? bm : cm;
        o.u = rev ? cm : bm;
        o.rows = a.K * FQ;
        o.cols = (int)width;
    }
    return o;
}

template <bool REV, int NT>
static mba_status launch_mma_states(const mba_call *c, int *k, const fused_task &a, mma_operands o, const work_split &s)
{
    if (!launches_states(s)) return MBA_OK;
    o.stages = stages_of<REV, SCAN_STATES, NT>(c, *k);
    MBA_KERNEL(c, *k, (ssd_mma_states<NT, REV>), a, o);
    *k += 1;
    return MBA_OK;
}
template <int NT, int WHAT>
static mba_status launch_mma_scan(const mba_call *c, int *k, const fused_task &a, mma_operands o)
{
    o.stages = stages_of<false, WHAT, NT>(c, *k);
    MBA_KERNEL(c, *k, (ssd_mma_scan<NT, WHAT>), a, o);
    *k += 1;
    return MBA_OK;
}
template <int NT> static mba_status launch_mma_scan_rev(const mba_call *c, int *k, const fused_task &a, mma_operands o)
{
    o.stages = stages_of<true, SCAN_OUT, NT>(c, *k);
    MBA_KERNEL(c, *k, ssd_mma_scan_rev<NT>, a, o);
    *k += 1;
    return MBA_OK;
}

template <int NT> static mba_status launch_mma(const mba_call *c)
{
    const mba_node   *n = c->node;
    const bool        keeps = n->out[KEPT_STATES] && !(c->plan->leaves >> KEPT_STATES & 1);
    const ssd_padding pad = ssd_padding_of(n);
    const work_split  s = work_split_of(c, keeps);
    fused_task        a = fused_task_of(c, s);
    int               k = 0;
    if (keeps) set_saved(a, c->out[KEPT_STATES], (float *)c->out[KEPT_RECORDS], c->out[KEPT_PAIRS]);
    if (keeps && n->in[IDS]) set_masked_rows(a, c->out[KEPT_REACH]);
    a.final = strided_of<float>(n->out[FINAL], c->out[FINAL]);
    strided<bf16> y = strided_of<bf16>(n->out[Y], c->out[Y]);
    padded_task   pads = {};
    if (pad.x || pad.b) {
        pads = pad_all(a, y, (char *)mba_cuda_scratch(c, SSD_PADDED_FWD_WORK), pad, false);
        MBA_KERNEL(c, k, ssd_tiled_pad, pads.in);
        k++;
    }
    const mma_operands o = operands_of(c, a, y, false);
    MBA_KERNEL(c, k, ssd_tiled_prep<NT>, a);
    k++;
    MBA_TRY((launch_mma_states<false, NT>(c, &k, a, o, s)));
    if (keeps) MBA_TRY((launch_mma_scan<NT, SCAN_KEEP>(c, &k, a, o)));
    else MBA_TRY((launch_mma_scan<NT, SCAN_OUT>(c, &k, a, o)));
    if (pad.x) MBA_KERNEL(c, k, ssd_tiled_unpad, pads.out);
    return MBA_OK;
}

template <int NT> static mba_status launch_mma_bwd(const mba_call *c)
{
    const work_split  s = work_split_of(c, true);
    const bool        kept = ssd_has_saved(c->plan, c->node);
    const ssd_padding pad = ssd_padding_of(c->node);
    fused_task        a = fused_task_of(c, s);
    int               k = 0;
    set_gradients(a, c, kept);
    strided<bf16> dx = strided_of<bf16>(c->node->out[DX], c->out[DX]);
    padded_task   pads = {};
    if (pad.x || pad.b) {
        pads = pad_all(a, dx, (char *)mba_cuda_scratch(c, SSD_PADDED_WORK), pad, true);
        MBA_KERNEL(c, k, ssd_tiled_pad, pads.in);
        k++;
    }
    const mma_operands forward = operands_of(c, a, dx, false), backward = operands_of(c, a, dx, true);
    if (!kept) {
        MBA_KERNEL(c, k, ssd_tiled_prep<NT>, a);
        k++;
        MBA_TRY((launch_mma_states<false, NT>(c, &k, a, forward, s)));
        MBA_TRY((launch_mma_scan<NT, SCAN_SAVE>(c, &k, a, forward)));
    }
    MBA_TRY((launch_mma_states<true, NT>(c, &k, a, backward, s)));
    MBA_TRY((launch_mma_scan_rev<NT>(c, &k, a, backward)));
    MBA_KERNEL(c, k, ssd_tiled_slow<NT>, a);
    const bool two = c->plan->launch[k + 1].smem_bytes > SSD_MMA_BC_SMEM; // stages of its ring
    if (a.ids.at) MBA_KERNEL(c, k + 1, (ssd_mma_bc<NT, true>), a, two);
    else MBA_KERNEL(c, k + 1, (ssd_mma_bc<NT, false>), a, two);
    MBA_KERNEL(c, k + 2, ssd_tiled_finish<NT>, a);
    MBA_KERNEL(c, k + 3, ssd_tiled_sums<NT>, a);
    if (pad.x || pad.b) MBA_KERNEL(c, k + 4, ssd_tiled_unpad, pads.out);
    return MBA_OK;
}

extern "C" mba_status ssd_fused_mma_cuda(const mba_call *c)
{
    return ssd_dims_of(c->node).N > FN ? launch_mma<2>(c) : launch_mma<1>(c);
}
extern "C" mba_status ssd_bwd_fused_mma_cuda(const mba_call *c)
{
    return ssd_dims_of(c->node).N > FN ? launch_mma_bwd<2>(c) : launch_mma_bwd<1>(c);
}
