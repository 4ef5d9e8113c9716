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
 * resources  sm_90a, CUDA 13.0: 72 to 248 registers, 6144 to 35840 B of shared memory, no spill  [docs]
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
    scan_block_run<true, false, WHAT, WHOLE>(a, maps, nullptr);
#endif
}

static __global__ void __launch_bounds__(128 * (HEADS + 1), 1)
    ssd_exact_scan_rev(const __grid_constant__ fused_task a, const __grid_constant__ scan_maps maps)
{
#if MBA_HOPPER
    scan_block_run<true, true, SCAN_OUT, WHOLE>(a, maps, nullptr);
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

static __global__ void __launch_bounds__(PAIR, 1) ssd_exact_slow(const __grid_constant__ fused_task a)
{
    slow_block_run<true>(a);
}

/* ---- launchers ---- */

template <bool REV>
static mba_status launch_states(const mba_call *c, int *k, const fused_task &a, const scan_maps &m, const work_split &s)
{
    const ssd_dims d = ssd_dims_of(c->node);
    if (!launches_states(s)) return MBA_OK;
    if (ssd_state_heads(&d) > HEADS) MBA_KERNEL(c, *k, (ssd_states<REV, 2 * HEADS, true>), a, m);
    else MBA_KERNEL(c, *k, (ssd_states<REV, HEADS, true>), a, m);
    *k += 1;
    return MBA_OK;
}

/* Launches what precedes the forward scan: C B^T, factors, states of segments. */
static mba_status prepare(const mba_call *c, int *k, const fused_task &a, const scan_maps &m, const work_split &s)
{
    MBA_KERNEL(c, *k, ssd_exact_prep, a);
    *k += 1;
    return launch_states<false>(c, k, a, m, s);
}

extern "C" mba_status ssd_exact_cuda(const mba_call *c)
{
    const mba_node  *n = c->node;
    const work_split s = work_split_of(c, false);
    fused_task       a = fused_task_of(c, s);
    scan_maps        m;
    int              k = 0;
    a.final = strided_of<float>(n->out[FINAL], c->out[FINAL]);
    MBA_TRY(scan_maps_of(&m, a, a.x, strided_of<bf16>(n->out[Y], c->out[Y]), false, true));
    MBA_TRY(prepare(c, &k, a, m, s));
    MBA_KERNEL(c, k, ssd_exact_scan<SCAN_OUT>, a, m);
    return MBA_OK;
}

static mba_status launch_bwd_bc(const mba_call *c, int k, const fused_task &a)
{
    bc_maps m;
    MBA_TRY(bc_maps_of(&m, a, true));
    MBA_KERNEL(c, k, ssd_exact_slow, a);
    if (a.ids.at) MBA_KERNEL(c, k + 1, ssd_exact_bc<true>, a, m);
    else MBA_KERNEL(c, k + 1, ssd_exact_bc<false>, a, m);
    MBA_KERNEL(c, k + 2, ssd_finish, a);
    MBA_KERNEL(c, k + 3, ssd_sums, a);
    return MBA_OK;
}

extern "C" mba_status ssd_bwd_exact_cuda(const mba_call *c)
{
    const work_split    s = work_split_of(c, true);
    const strided<bf16> none = {};
    fused_task          a = fused_task_of(c, s);
    scan_maps           forward, backward;
    int                 k = 0;
    set_gradients(a, c, false);
    MBA_TRY(scan_maps_of(&forward, a, a.x, none, false, true));
    MBA_TRY(scan_maps_of(&backward, a, a.dy, strided_of<bf16>(c->node->out[DX], c->out[DX]), true, true));
    MBA_TRY(prepare(c, &k, a, forward, s));
    MBA_KERNEL(c, k, ssd_exact_scan<SCAN_SAVE>, a, forward);
    k++;
    MBA_TRY(launch_states<true>(c, &k, a, backward, s));
    MBA_KERNEL(c, k, ssd_exact_scan_rev, a, backward);
    return launch_bwd_bc(c, k + 1, a);
}
