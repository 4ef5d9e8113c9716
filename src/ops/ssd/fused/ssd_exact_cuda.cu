// SPDX-License-Identifier: Apache-2.0
/* ssd_exact_cuda.cu -- the variant `exact` of ssd: kernels and launchers. Only results are rounded to bf16 (ssd.md).
 *
 * The kernels are those of `fused` (ssd_fused.cuh) with EXACT: each bf16 operand is a value and the residual of its
 * rounding, and a product of two operands is computed as value times value, value times residual and residual times
 * value. They take about twice the time of `fused`.
 *
 * kernel     ssd_exact_prep          as ssd_prep; C B^T with residuals
 * kernel     ssd_states              with EXACT: x' with residuals, twice the products
 * kernel     ssd_exact_scan, ssd_exact_scan_rev    as ssd_scan, ssd_scan_rev; a ring of two stages, and x of a chunk is
 *            loaded when it is needed. Products per product of `fused`: state term 2, update 2, C B^T term 3
 * kernel     ssd_exact_bc            as ssd_bwd_bc; one head in shared memory at a time. Products per product of
 *            `fused`: with states 3, of dCB 1, whose factors are applied after it in fp32
 * kernel     ssd_exact_slow          as ssd_bwd_slow
 * takes      as `fused`; items are not split into ranges, and the backward pass recomputes the states
 * resources  sm_90a, CUDA 13.0: 72 to 255 registers, 35840 B of shared memory, no spill  [docs]
 * order      as `fused` */
#include "ops/ssd/fused/ssd_fused_bc.cuh"
#include "ops/ssd/fused/ssd_fused_prep.cuh"
#include "ops/ssd/fused/ssd_fused_scan.cuh"
#include "ops/ssd/fused/ssd_fused_slow.cuh"
#include "ops/ssd/fused/ssd_fused_states.cuh"
#include "ops/ssd/fused/ssd_fused_sums.cuh"
#include "ops/ssd/fused/ssd_fused_task.cuh"

static __global__ void __launch_bounds__(256) ssd_exact_prep(const __grid_constant__ fused_task a)
{
    prepare_block<true>(a);
}

template <int WHAT>
static __global__ void __launch_bounds__(128 * (HEADS + 1), 1)
    ssd_exact_scan(const __grid_constant__ fused_task a, const __grid_constant__ scan_maps maps)
{
#if MBA_HOPPER
    scan_block_run<scan_policy<false, WHAT, WHOLE, 0, true>>(a, maps, nullptr);
#endif
}

static __global__ void __launch_bounds__(128 * (HEADS + 1), 1)
    ssd_exact_scan_rev(const __grid_constant__ fused_task a, const __grid_constant__ scan_maps maps)
{
#if MBA_HOPPER
    scan_block_run<scan_policy<true, SCAN_OUT, WHOLE, 0, true>>(a, maps, nullptr);
#endif
}

template <bool DOCS>
static __global__ void __launch_bounds__(384, 1)
    ssd_exact_bc(const __grid_constant__ fused_task a, const __grid_constant__ bc_maps maps)
{
#if MBA_HOPPER
    bc_block_run<true, DOCS>(a, maps);
#endif
}

static __global__ void __launch_bounds__(SLOW_THREADS, 1) ssd_exact_slow(const __grid_constant__ fused_task a)
{
#if MBA_HOPPER
    slow_block_run<true>(a);
#endif
}

/* ---- launchers ---- */

/* Launches what precedes the forward scan: C B^T, factors, states of segments. */
static mba_status prepare(fused_call &f, const scan_maps &m)
{
    MBA_KERNEL(f.c, f.k++, ssd_exact_prep, f.a);
    return launch_states<false, true>(f, m);
}

extern "C" mba_status ssd_exact_cuda(const mba_call *c)
{
    fused_call f = fused_call_of(c, false);
    scan_maps  m;
    MBA_TRY(scan_maps_of(&m, f.a, f.a.x, f.result, false, true));
    MBA_TRY(prepare(f, m));
    MBA_KERNEL(c, f.k, ssd_exact_scan<SCAN_OUT>, f.a, m);
    return MBA_OK;
}

extern "C" mba_status ssd_bwd_exact_cuda(const mba_call *c)
{
    fused_call f = fused_call_of(c, true);
    scan_maps  forward, backward;
    bc_maps    bc;
    MBA_TRY(scan_maps_of(&forward, f.a, f.a.x, strided<bf16>(), false, true));
    MBA_TRY(scan_maps_of(&backward, f.a, f.a.dy, f.result, true, true));
    MBA_TRY(bc_maps_of(&bc, f.a, true));
    MBA_TRY(prepare(f, forward));
    MBA_KERNEL(c, f.k++, ssd_exact_scan<SCAN_SAVE>, f.a, forward);
    MBA_TRY((launch_states<true, true>(f, backward)));
    MBA_KERNEL(c, f.k++, ssd_exact_scan_rev, f.a, backward);
    MBA_KERNEL(c, f.k++, ssd_exact_slow, f.a);
    if (f.a.ids.at) MBA_KERNEL(c, f.k++, ssd_exact_bc<true>, f.a, bc);
    else MBA_KERNEL(c, f.k++, ssd_exact_bc<false>, f.a, bc);
    MBA_KERNEL(c, f.k++, ssd_finish, f.a);
    MBA_KERNEL(c, f.k, ssd_sums, f.a);
    return MBA_OK;
}
