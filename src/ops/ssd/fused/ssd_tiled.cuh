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
    prepare_block<TILED>(a);
}

template <int TILED, bool REV, int NHEADS>
static __global__ void __launch_bounds__(128 * (NHEADS + 1), 1)
    ssd_tiled_states(const __grid_constant__ fused_task a, const __grid_constant__ scan_maps maps)
{
#if MBA_HOPPER
    states_block_run<REV, NHEADS, TILED>(a, maps);
#endif
}

template <int TILED, int WHAT>
static __global__ void __launch_bounds__(128 * (HEADS + 1), 1)
    ssd_tiled_scan(const __grid_constant__ fused_task a, const __grid_constant__ scan_maps maps)
{
#if MBA_HOPPER
    scan_block_run<scan_policy<false, WHAT, WHOLE, TILED>>(a, maps, nullptr);
#endif
}

template <int TILED>
static __global__ void __launch_bounds__(128 * (HEADS + 1), 1)
    ssd_tiled_scan_rev(const __grid_constant__ fused_task a, const __grid_constant__ scan_maps maps)
{
#if MBA_HOPPER
    scan_block_run<scan_policy<true, SCAN_OUT, WHOLE, TILED>>(a, maps, nullptr);
#endif
}

template <int TILED, bool DOCS>
static __global__ void __launch_bounds__(384, 1)
    ssd_tiled_bc(const __grid_constant__ fused_task a, const __grid_constant__ bc_maps maps)
{
#if MBA_HOPPER
    bc_block_run<DOCS, TILED>(a, maps);
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

template <int TILED, bool REV> static mba_status launch_tiled_states(fused_call &f, const scan_maps &m)
{
    const ssd_dims d = ssd_dims_of(f.c->node), tiles = ssd_tile_dims(&d);
    if (!launches_states(f.s)) return MBA_OK;
    if (ssd_state_heads(&tiles) > HEADS) MBA_KERNEL(f.c, f.k++, (ssd_tiled_states<TILED, REV, 2 * HEADS>), f.a, m);
    else MBA_KERNEL(f.c, f.k++, (ssd_tiled_states<TILED, REV, HEADS>), f.a, m);
    return MBA_OK;
}

template <int TILED> static mba_status launch_tiled(const mba_call *c)
{
    fused_call  f = fused_call_of(c, false);
    padded_task pads;
    scan_maps   m;
    MBA_TRY(pad_operands(&pads, f, false));
    MBA_TRY(scan_maps_of(&m, f.a, f.a.x, f.result, false));
    MBA_KERNEL(c, f.k++, ssd_tiled_prep<TILED>, f.a);
    MBA_TRY((launch_tiled_states<TILED, false>(f, m)));
    if (f.kept) MBA_KERNEL(c, f.k++, (ssd_tiled_scan<TILED, SCAN_KEEP>), f.a, m);
    else if (launches_states(f.s)) MBA_KERNEL(c, f.k++, (ssd_tiled_scan<TILED, SCAN_OUT>), f.a, m);
    else MBA_KERNEL_DEPENDENT(c, f.k++, (ssd_tiled_scan<TILED, SCAN_OUT>), f.a, m); // as launch_scan_inference()
    return unpad_results(pads, f);
}

template <int TILED> static mba_status launch_tiled_bwd(const mba_call *c)
{
    fused_call  f = fused_call_of(c, true);
    padded_task pads;
    scan_maps   forward, backward;
    bc_maps     bc;
    MBA_TRY(pad_operands(&pads, f, true));
    MBA_TRY(scan_maps_of(&backward, f.a, f.a.dy, f.result, true));
    MBA_TRY(bc_maps_of(&bc, f.a));
    if (!f.kept) {
        MBA_TRY(scan_maps_of(&forward, f.a, f.a.x, strided<bf16>(), false));
        MBA_KERNEL(c, f.k++, ssd_tiled_prep<TILED>, f.a);
        MBA_TRY((launch_tiled_states<TILED, false>(f, forward)));
        MBA_KERNEL(c, f.k++, (ssd_tiled_scan<TILED, SCAN_SAVE>), f.a, forward);
    }
    MBA_TRY((launch_tiled_states<TILED, true>(f, backward)));
    MBA_KERNEL(c, f.k++, ssd_tiled_scan_rev<TILED>, f.a, backward);
    MBA_TRY(launch_tiled_slow(f, TILED));
    if (f.a.ids.at) MBA_KERNEL(c, f.k++, (ssd_tiled_bc<TILED, true>), f.a, bc);
    else MBA_KERNEL(c, f.k++, (ssd_tiled_bc<TILED, false>), f.a, bc);
    MBA_KERNEL(c, f.k++, ssd_tiled_finish<TILED>, f.a);
    MBA_KERNEL(c, f.k++, ssd_tiled_sums<TILED>, f.a);
    return unpad_results(pads, f);
}

#endif
