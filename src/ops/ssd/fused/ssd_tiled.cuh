// SPDX-License-Identifier: Apache-2.0
/* ssd_tiled.cuh -- variant `fused` of ssd for heads and states of other widths than 64 and 128: kernels and launchers.
 *
 * The kernels are those of ssd_fused_cuda.cu with TILED (ssd_fused.cuh): a head is one or more tiles of 64 p x 128 n,
 * and the tensor maps fill tiles with zeros beyond P, beyond N and beyond the last head. Zeros cost products, not
 * traffic: the maps do not read or write what lies beyond an axis. Work is divided into whole items or segments, not
 * into ranges. ssd_tiled_cuda.cu compiles TILED = 1 (N up to 128), ssd_tiled_wide_cuda.cu TILED = 2 (N up to 256).
 *
 * TILED = 2. Both warpgroups of a block of ssd_tiled_scan process the same tile of p, with one tile of n each. Each
 * computes its share of the output of all positions; they exchange halves of the positions through shared memory, and
 * each scales and stores one half. A block of ssd_tiled_bc owns one tile of n of dB and dC; dCB is computed for each.
 *
 * kernel     ssd_tiled_prep          as ssd_prep
 * kernel     ssd_tiled_states        as ssd_states
 * kernel     ssd_tiled_scan, ssd_tiled_scan_rev    as ssd_scan, ssd_scan_rev
 * kernel     ssd_tiled_slow          as ssd_bwd_slow
 * kernel     ssd_tiled_bc            as ssd_bwd_bc
 * kernel     ssd_tiled_finish, ssd_tiled_sums    as ssd_finish, ssd_sums; they add up the tiles of a head
 * takes      sm_90a, bf16, P and N multiples of 8, P <= 256, N <= 256, rows aligned to 16 bytes; an odd number of tiles
 *            of p per group only with one group
 * order      as `fused` */
#ifndef MBA_SSD_TILED_CUH
#define MBA_SSD_TILED_CUH

#include "ops/ssd/fused/ssd_fused_bc.cuh"
#include "ops/ssd/fused/ssd_fused_prep.cuh"
#include "ops/ssd/fused/ssd_fused_scan.cuh"
#include "ops/ssd/fused/ssd_fused_slow.cuh"
#include "ops/ssd/fused/ssd_fused_states.cuh"
#include "ops/ssd/fused/ssd_fused_sums.cuh"
#include "ops/ssd/fused/ssd_fused_task.cuh"
#include "ops/ssd/fused/ssd_tiled_pad.cuh"

template <int TILED> static __global__ void __launch_bounds__(256) ssd_tiled_prep(const __grid_constant__ fused_task a)
{
    prepare_block<false, TILED>(a);
}

template <int TILED, bool REV, int NHEADS>
static __global__ void __launch_bounds__(128 * (NHEADS + 1), 1)
    ssd_tiled_states(const __grid_constant__ fused_task a, const __grid_constant__ scan_maps maps)
{
#if MBA_HOPPER
    states_block_run<REV, NHEADS, false, TILED>(a, maps);
#endif
}

template <int TILED, int WHAT>
static __global__ void __launch_bounds__(128 * (HEADS + 1), 1)
    ssd_tiled_scan(const __grid_constant__ fused_task a, const __grid_constant__ scan_maps maps)
{
#if MBA_HOPPER
    scan_block_run<false, false, WHAT, WHOLE, TILED>(a, maps, nullptr);
#endif
}

template <int TILED>
static __global__ void __launch_bounds__(128 * (HEADS + 1), 1)
    ssd_tiled_scan_rev(const __grid_constant__ fused_task a, const __grid_constant__ scan_maps maps)
{
#if MBA_HOPPER
    scan_block_run<false, true, SCAN_OUT, WHOLE, TILED>(a, maps, nullptr);
#endif
}

template <int TILED>
static __global__ void __launch_bounds__(PAIR, 1) ssd_tiled_slow(const __grid_constant__ fused_task a)
{
    slow_block_run<false, TILED>(a);
}

template <int TILED, bool DOCS>
static __global__ void __launch_bounds__(384, 1)
    ssd_tiled_bc(const __grid_constant__ fused_task a, const __grid_constant__ bc_maps maps)
{
#if MBA_HOPPER
    bc_block_run<false, DOCS, TILED>(a, maps);
#endif
}

template <int TILED>
static __global__ void __launch_bounds__(1024) ssd_tiled_finish(const __grid_constant__ fused_task a)
{
    finish_block<TILED>(a);
}
template <int TILED>
static __global__ void __launch_bounds__(32 * SUM_COLS) ssd_tiled_sums(const __grid_constant__ fused_task a)
{
    sums_block<TILED>(a);
}

/* ---- launchers ---- */

template <int TILED, bool REV>
static mba_status launch_states(const mba_call *c, int *k, const fused_task &a, const scan_maps &m, const work_split &s)
{
    const ssd_dims d = ssd_dims_of(c->node), tiles = ssd_tile_dims(&d);
    if (!launches_states(s)) return MBA_OK;
    if (ssd_state_heads(&tiles) > HEADS) MBA_KERNEL(c, *k, (ssd_tiled_states<TILED, REV, 2 * HEADS>), a, m);
    else MBA_KERNEL(c, *k, (ssd_tiled_states<TILED, REV, HEADS>), a, m);
    *k += 1;
    return MBA_OK;
}

/* Launches what precedes the forward scan: C B^T, factors, states of segments. */
template <int TILED>
static mba_status prepare(const mba_call *c, int *k, const fused_task &a, const scan_maps &m, const work_split &s)
{
    MBA_KERNEL(c, *k, ssd_tiled_prep<TILED>, a);
    *k += 1;
    return launch_states<TILED, false>(c, k, a, m, s);
}

template <int TILED> static mba_status launch_tiled(const mba_call *c)
{
    const mba_node   *n = c->node;
    const bool        keeps = n->out[KEPT_STATES] != NULL;
    const ssd_padding pad = ssd_padding_of(n);
    const work_split  s = work_split_of(c, keeps);
    fused_task        a = fused_task_of(c, s);
    scan_maps         m;
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
    MBA_TRY(tiled_scan_maps_of(&m, a, a.x, y, false));
    MBA_TRY(prepare<TILED>(c, &k, a, m, s));
    if (keeps) MBA_KERNEL(c, k, (ssd_tiled_scan<TILED, SCAN_KEEP>), a, m);
    else if (launches_states(s)) MBA_KERNEL(c, k, (ssd_tiled_scan<TILED, SCAN_OUT>), a, m);
    else MBA_KERNEL_DEPENDENT(c, k, (ssd_tiled_scan<TILED, SCAN_OUT>), a, m); // as launch_scan_inference()
    if (pad.x) MBA_KERNEL(c, k + 1, ssd_tiled_unpad, pads.out);
    return MBA_OK;
}

template <int TILED> static mba_status launch_tiled_bwd(const mba_call *c)
{
    const work_split    s = work_split_of(c, true);
    const bool          kept = ssd_has_saved(c->plan, c->node);
    const ssd_padding   pad = ssd_padding_of(c->node);
    const strided<bf16> none = {};
    fused_task          a = fused_task_of(c, s);
    scan_maps           forward, backward;
    bc_maps             bc;
    int                 k = 0;
    set_gradients(a, c, kept);
    strided<bf16> dx = strided_of<bf16>(c->node->out[DX], c->out[DX]);
    padded_task   pads = {};
    if (pad.x || pad.b) {
        pads = pad_all(a, dx, (char *)mba_cuda_scratch(c, SSD_PADDED_WORK), pad, true);
        MBA_KERNEL(c, k, ssd_tiled_pad, pads.in);
        k++;
    }
    MBA_TRY(tiled_scan_maps_of(&backward, a, a.dy, dx, true));
    MBA_TRY(bc_maps_of(&bc, a, false));
    if (!kept) {
        MBA_TRY(tiled_scan_maps_of(&forward, a, a.x, none, false));
        MBA_TRY(prepare<TILED>(c, &k, a, forward, s));
        MBA_KERNEL(c, k, (ssd_tiled_scan<TILED, SCAN_SAVE>), a, forward);
        k++;
    }
    MBA_TRY((launch_states<TILED, true>(c, &k, a, backward, s)));
    MBA_KERNEL(c, k, ssd_tiled_scan_rev<TILED>, a, backward);
    MBA_KERNEL(c, k + 1, ssd_tiled_slow<TILED>, a);
    if (a.ids.at) MBA_KERNEL(c, k + 2, (ssd_tiled_bc<TILED, true>), a, bc);
    else MBA_KERNEL(c, k + 2, (ssd_tiled_bc<TILED, false>), a, bc);
    MBA_KERNEL(c, k + 3, ssd_tiled_finish<TILED>, a);
    MBA_KERNEL(c, k + 4, ssd_tiled_sums<TILED>, a);
    if (pad.x || pad.b) MBA_KERNEL(c, k + 5, ssd_tiled_unpad, pads.out);
    return MBA_OK;
}

#endif
