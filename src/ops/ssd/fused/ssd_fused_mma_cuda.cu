// SPDX-License-Identifier: Apache-2.0
/* ssd_fused_mma_cuda.cu -- launchers of ssd's variant `fused_mma` for sm_80 and later, forward and backward.
 *
 * Forward:  ssd_tiled_prep, ssd_mma_states (if segments), ssd_mma_scan.
 * Backward: the same without output, unless the forward pass saved its states; then ssd_mma_states (if segments),
 *           ssd_mma_scan_rev, ssd_tiled_slow, ssd_mma_bc, ssd_tiled_finish, ssd_tiled_sums.
 * Kernels whose names begin with ssd_tiled are those of ssd_tiled.cuh and ssd_tiled_slow_cuda.cu: they need nothing of
 * sm_90. The launches follow the plan of ssd_fused.c. */
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

template <bool REV, int NT> static mba_status launch_mma_states(fused_call &f, mma_operands o)
{
    if (!launches_states(f.s)) return MBA_OK;
    o.stages = stages_of<REV, SCAN_STATES, NT>(f.c, f.k);
    MBA_KERNEL(f.c, f.k++, (ssd_mma_states<NT, REV>), f.a, o);
    return MBA_OK;
}
template <int NT, int WHAT> static mba_status launch_mma_scan(fused_call &f, mma_operands o)
{
    o.stages = stages_of<false, WHAT, NT>(f.c, f.k);
    MBA_KERNEL(f.c, f.k++, (ssd_mma_scan<NT, WHAT>), f.a, o);
    return MBA_OK;
}
template <int NT> static mba_status launch_mma_scan_rev(fused_call &f, mma_operands o)
{
    o.stages = stages_of<true, SCAN_OUT, NT>(f.c, f.k);
    MBA_KERNEL(f.c, f.k++, ssd_mma_scan_rev<NT>, f.a, o);
    return MBA_OK;
}

template <int NT> static mba_status launch_mma(const mba_call *c)
{
    fused_call  f = fused_call_of(c, false);
    padded_task pads;
    MBA_TRY(pad_operands(&pads, f, false));
    const mma_operands o = operands_of(c, f.a, f.result, false);
    MBA_KERNEL(c, f.k++, ssd_tiled_prep<NT>, f.a);
    MBA_TRY((launch_mma_states<false, NT>(f, o)));
    if (f.kept) MBA_TRY((launch_mma_scan<NT, SCAN_KEEP>(f, o)));
    else MBA_TRY((launch_mma_scan<NT, SCAN_OUT>(f, o)));
    return unpad_results(pads, f);
}

template <int NT> static mba_status launch_mma_bwd(const mba_call *c)
{
    fused_call  f = fused_call_of(c, true);
    padded_task pads;
    MBA_TRY(pad_operands(&pads, f, true));
    const mma_operands forward = operands_of(c, f.a, f.result, false), backward = operands_of(c, f.a, f.result, true);
    if (!f.kept) {
        MBA_KERNEL(c, f.k++, ssd_tiled_prep<NT>, f.a);
        MBA_TRY((launch_mma_states<false, NT>(f, forward)));
        MBA_TRY((launch_mma_scan<NT, SCAN_SAVE>(f, forward)));
    }
    MBA_TRY((launch_mma_states<true, NT>(f, backward)));
    MBA_TRY((launch_mma_scan_rev<NT>(f, backward)));
    MBA_TRY(launch_tiled_slow(f, NT));
    const bool two = c->plan->launch[f.k].smem_bytes > SSD_MMA_BC_SMEM; // stages of its ring
    if (f.a.ids.at) MBA_KERNEL(c, f.k++, (ssd_mma_bc<NT, true>), f.a, two);
    else MBA_KERNEL(c, f.k++, (ssd_mma_bc<NT, false>), f.a, two);
    MBA_KERNEL(c, f.k++, ssd_tiled_finish<NT>, f.a);
    MBA_KERNEL(c, f.k++, ssd_tiled_sums<NT>, f.a);
    return unpad_results(pads, f);
}

extern "C" mba_status ssd_fused_mma_cuda(const mba_call *c)
{
    return ssd_dims_of(c->node).N > FN ? launch_mma<2>(c) : launch_mma<1>(c);
}
extern "C" mba_status ssd_bwd_fused_mma_cuda(const mba_call *c)
{
    return ssd_dims_of(c->node).N > FN ? launch_mma_bwd<2>(c) : launch_mma_bwd<1>(c);
}
