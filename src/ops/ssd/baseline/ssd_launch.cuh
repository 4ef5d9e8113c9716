// SPDX-License-Identifier: Apache-2.0
/* ssd_launch.cuh -- launchers of the multi-kernel variants of ssd: arguments of the kernels from a call and its plan,
 * and the sequence of launches of `chunked`, `persistent*` and `bc_fused`.
 *
 * ssd_cuda.cu instantiates `chunked` and `bc_fused` and adds `fma`; ssd_persistent_cuda.cu instantiates `persistent*`.
 * The kernels are in ssd_steps.cuh, ssd_mma.cuh, ssd_mma_scan.cuh and ssd_mma_grads.cuh, the plans in ssd_plan.c. */
#ifndef MBA_SSD_LAUNCH_CUH
#define MBA_SSD_LAUNCH_CUH

#include "ops/ssd/baseline/ssd_mma_grads.cuh"
#include "ops/ssd/baseline/ssd_mma_scan.cuh"
#include "ops/ssd/baseline/ssd_steps.cuh"

/* Sets the pointers to scratch (ssd_task.cuh has their shapes). */
template <typename A> static void set_scratch(A &a, const mba_call *c, const ssd_tiling &t, bool backward)
{
    const int64_t BHKQ = (int64_t)a.B * a.H * a.KQ, BKQGN = (int64_t)a.B * a.KQ * a.G * a.N;
    char         *steps = (char *)mba_cuda_scratch(c, SSD_STEPS_WORK);
    a.step = take<float>(steps, BHKQ);
    a.in = take<float>(steps, BHKQ);
    a.out = take<float>(steps, BHKQ);
    a.cs = (typename A::CS *)mba_cuda_scratch(c, SSD_CS_WORK);
    a.since = a.ids.at ? (int *)mba_cuda_scratch(c, SSD_SINCE_WORK) : NULL;
    a.states = (typename A::ST *)mba_cuda_scratch(c, SSD_STATES_WORK);
    a.cb = (typename A::ST *)mba_cuda_scratch(c, SSD_CB_WORK);
    if (!backward) return;
    char *sums = (char *)mba_cuda_scratch(c, SSD_SUMS_WORK), *parts = (char *)mba_cuda_scratch(c, SSD_PARTS_WORK);
    a.dstates = (typename A::ST *)mba_cuda_scratch(c, SSD_DSTATES_WORK);
    a.dcb = (typename A::ST *)mba_cuda_scratch(c, SSD_DCB_WORK);
    a.dbs = (float *)mba_cuda_scratch(c, SSD_DBC_WORK);
    a.dcs = a.dbs + BKQGN;
    a.rowsum = take<float>(sums, t.tiles * BHKQ);
    a.colsum = take<float>(sums, t.tiles * BHKQ);
    a.r = take<float>(sums, t.ntiles * BHKQ);
    a.q = take<float>(sums, t.ntiles * BHKQ);
    a.dstep = take<float>(sums, (A::TENSOR ? 1 : t.ptiles) * BHKQ);
    a.ddA = take<float>(sums, BHKQ);
    a.dchunk = take<float>(parts, (int64_t)a.B * a.H * a.K * a.cparts);
    a.dpar = take<float>(parts, 2 * (int64_t)a.B * a.K * a.H);
    a.dD = take<float>(parts, t.dD);
    a.cb_low = A::TENSOR ? (typename A::ST *)mba_cuda_scratch(c, SSD_CB_LOW_WORK) : NULL;
}

/* The arguments of all kernels of a launch sequence. */
template <typename A> static A task_of(const mba_call *c, const ssd_tiling &t, bool backward)
{
    typedef typename A::T T;
    const mba_node       *n = c->node;
    const ssd_dims        d = ssd_dims_of(n);
    A                     a = {};
    a.B = (int)d.B;
    a.L = (int)d.L;
    a.H = (int)d.H;
    a.P = (int)d.P;
    a.G = (int)d.G;
    a.N = (int)d.N;
    a.J = (int)d.J;
    a.Q = (int)d.Q;
    a.K = (int)t.K;
    a.KQ = (int)t.KQ;
    a.tiles = (int)t.tiles;
    a.ptiles = (int)t.ptiles;
    a.ntiles = (int)t.ntiles;
    a.rtiles = (int)t.rtiles;
    a.xtiles = (int)t.xtiles;
    a.pairs = (int)t.pairs;
    a.cparts = (int)t.cparts;
    set_inputs<T>(a, c);
    if (!backward) {
        a.y = strided_of<T>(n->out[Y], c->out[Y]);
        a.final = strided_of<float>(n->out[FINAL], c->out[FINAL]);
    } else {
        a.dx = strided_of<T>(n->out[DX], c->out[DX]);
        set_gradients<T>(a, c);
    }
    set_scratch(a, c, t, backward);
    return a;
}

static ssd_tiling tiling_of(const mba_call *c, ssd_baseline_kind kind)
{
    const ssd_dims d = ssd_dims_of(c->node);
    return ssd_tiling_of(&d, kind);
}

/* Launches kernel n of the plan, with its own counter of tiles, and increments n. The last argument is the number of
 * tiles. */
#define SSD_LAUNCH(c, n, a, kernel) \
    do { \
        const mba_launch *launch_ = &(c)->plan->launch[n]; \
        tensor_task       task_ = a; \
        if (task_.counter) task_.counter += n; \
        MBA_KERNEL(c, n, kernel, task_, (unsigned)(launch_->persistent ? launch_->tiles : launch_->grid[0])); \
        (n)++; \
    } while (0)

/* ---- tensor cores. PERSISTENT: blocks loop over tiles. CB_INSIDE: kernels that use C B^T compute it. MT: tiles of 64
 * rows per block. ---- */

template <bool PERSISTENT, bool CB_INSIDE, int MT> static mba_status launch_fwd(const mba_call *c, const tensor_task &a)
{
    int n = 0;
    SSD_LAUNCH(c, n, a, (chunk_cumsum_fwd<PERSISTENT, tensor_task>));
    SSD_LAUNCH(c, n, a, chunk_state_fwd<PERSISTENT>);
    SSD_LAUNCH(c, n, a, (state_passing_fwd<PERSISTENT, 8, tensor_task>));
    if constexpr (CB_INSIDE) {
        SSD_LAUNCH(c, n, a, bc_chunk_scan_fwd<SSD_BC_PAIRS>);
    } else {
        SSD_LAUNCH(c, n, a, bmm_chunk_fwd<PERSISTENT>);
        SSD_LAUNCH(c, n, a, (chunk_scan_fwd<PERSISTENT, MT>));
    }
    return MBA_OK;
}

template <bool PERSISTENT, bool CB_INSIDE, int MT> static mba_status launch_bwd(const mba_call *c, const tensor_task &a)
{
    int n = 0;
    SSD_LAUNCH(c, n, a, (chunk_cumsum_fwd<PERSISTENT, tensor_task>));
    if constexpr (!CB_INSIDE) SSD_LAUNCH(c, n, a, bmm_chunk_fwd<PERSISTENT>);
    SSD_LAUNCH(c, n, a, chunk_state_fwd<PERSISTENT>);
    SSD_LAUNCH(c, n, a, (state_passing_fwd<PERSISTENT, 8, tensor_task>));
    SSD_LAUNCH(c, n, a, chunk_scan_bwd_dstates<PERSISTENT>);
    SSD_LAUNCH(c, n, a, (state_passing_bwd<PERSISTENT, 8, tensor_task>));
    if constexpr (CB_INSIDE) SSD_LAUNCH(c, n, a, bc_chunk_scan_bwd_dx<SSD_BC_PAIRS>);
    else SSD_LAUNCH(c, n, a, (chunk_scan_chunk_state_bwd_dx<PERSISTENT, MT>));
    SSD_LAUNCH(c, n, a, (chunk_state_bwd_db<PERSISTENT, MT>));
    SSD_LAUNCH(c, n, a, (chunk_scan_bwd_dc<PERSISTENT, MT>));
    SSD_LAUNCH(c, n, a, (chunk_scan_bwd_dcb<PERSISTENT, CB_INSIDE>));
    SSD_LAUNCH(c, n, a, (bmm_chunk_bwd<PERSISTENT, false>));
    SSD_LAUNCH(c, n, a, (bmm_chunk_bwd<PERSISTENT, true>));
    SSD_LAUNCH(c, n, a, (chunk_scan_bwd_ddacs_stable<PERSISTENT, tensor_task>));
    SSD_LAUNCH(c, n, a, (chunk_cumsum_bwd<PERSISTENT, tensor_task>));
    SSD_LAUNCH(c, n, a, (ssd_sum_parts<PERSISTENT, tensor_task>));
    return MBA_OK;
}

/* kind: one of those that PERSISTENT and CB_INSIDE stand for. The counters of tiles are cleared in each call: it may be
 * part of a captured step, which runs many times. */
template <bool PERSISTENT, bool CB_INSIDE>
static mba_status launch_tensor(const mba_call *c, ssd_baseline_kind kind, bool backward)
{
    const ssd_tiling t = tiling_of(c, kind);
    tensor_task      a = task_of<tensor_task>(c, t, backward);
    if (kind == SSD_PERSISTENT_DYNAMIC) {
        a.counter = (unsigned *)(a.out + (int64_t)a.B * a.H * a.KQ); // behind the decays
        CUDA_TRY(cudaMemsetAsync(a.counter, 0, SSD_LAUNCHES_MAX * sizeof *a.counter, mba_cuda_stream(c)));
    }
    a.prefetch = kind == SSD_PERSISTENT_PREFETCH;
    if (t.rows == 128)
        return backward ? launch_bwd<PERSISTENT, CB_INSIDE, 2>(c, a) : launch_fwd<PERSISTENT, CB_INSIDE, 2>(c, a);
    return backward ? launch_bwd<PERSISTENT, CB_INSIDE, 1>(c, a) : launch_fwd<PERSISTENT, CB_INSIDE, 1>(c, a);
}

#endif
