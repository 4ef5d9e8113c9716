// SPDX-License-Identifier: Apache-2.0
/* ssd_fused_cuda.cu -- launchers of ssd's variant `fused` for sm_90a, forward and backward.
 *
 * Forward:  ssd_prep, ssd_states (if segments), ssd_scan or ssd_scan_split.
 * Backward: the same without output, unless the forward pass saved its states; then ssd_states (if segments),
 *           ssd_scan_rev or ssd_scan_rev_split, ssd_bwd_slow, ssd_bwd_bc, ssd_finish, ssd_sums.
 * The maths and the list of files: ssd_fused.cuh. The launches follow the plan of ssd_fused.c. */
#include "ops/ssd/fused/ssd_fused_bc.cuh"
#include "ops/ssd/fused/ssd_fused_prep.cuh"
#include "ops/ssd/fused/ssd_fused_scan.cuh"
#include "ops/ssd/fused/ssd_fused_slow.cuh"
#include "ops/ssd/fused/ssd_fused_states.cuh"
#include "ops/ssd/fused/ssd_fused_sums.cuh"
#include "ops/ssd/fused/ssd_fused_task.cuh"

static __global__ void __launch_bounds__(256) ssd_prep(const __grid_constant__ fused_task a)
{
    prepare_block<false>(a);
}
static __global__ void __launch_bounds__(PAIR, 1) ssd_bwd_slow(const __grid_constant__ fused_task a)
{
    slow_block_run<false>(a);
}

/* Launches ssd_states where the plan has it. k: the next launch of the plan. */
template <bool REV>
static mba_status launch_states(const mba_call *c, int *k, const fused_task &a, const scan_maps &m, const work_split &s)
{
    const ssd_dims d = ssd_dims_of(c->node);
    if (!launches_states(s)) return MBA_OK;
    if (ssd_state_heads(&d) > HEADS) MBA_KERNEL(c, *k, (ssd_states<REV, 2 * HEADS>), a, m);
    else MBA_KERNEL(c, *k, (ssd_states<REV, HEADS>), a, m);
    *k += 1;
    return MBA_OK;
}

template <int WHAT>
static mba_status launch_scan_fwd(const mba_call *c, int *k, const fused_task &a, const scan_maps &m,
                                  const work_split &s)
{
    if (s.split.how == SSD_STATE_PASSED) MBA_KERNEL(c, *k, (ssd_scan_split<WHAT, STATE_PASSED>), a, m, s.table);
    else if (s.split.how == SSD_STATE_RECOMPUTED)
        MBA_KERNEL(c, *k, (ssd_scan_split<WHAT, STATE_RECOMPUTED>), a, m, s.table);
    else MBA_KERNEL(c, *k, ssd_scan<WHAT>, a, m);
    *k += 1;
    return MBA_OK;
}

/* Inference: the scan starts by dependent launch while ssd_prep drains. A training step has ordinary launches:
 * the gain there is small, and overlapping kernels are hard to read in timelines (ssd.md, "Tried"). */
static mba_status launch_scan_inference(const mba_call *c, int *k, const fused_task &a, const scan_maps &m,
                                        const work_split &s)
{
    if (launches_states(s)) return launch_scan_fwd<SCAN_OUT>(c, k, a, m, s);
    if (s.split.how == SSD_STATE_PASSED)
        MBA_KERNEL_DEPENDENT(c, *k, (ssd_scan_split<SCAN_OUT, STATE_PASSED>), a, m, s.table);
    else if (s.split.how == SSD_STATE_RECOMPUTED)
        MBA_KERNEL_DEPENDENT(c, *k, (ssd_scan_split<SCAN_OUT, STATE_RECOMPUTED>), a, m, s.table);
    else MBA_KERNEL_DEPENDENT(c, *k, ssd_scan<SCAN_OUT>, a, m);
    *k += 1;
    return MBA_OK;
}

extern "C" mba_status ssd_fused_cuda(const mba_call *c)
{
    const mba_node *n = c->node;
    const ssd_dims  d = ssd_dims_of(n);
    const bool      keeps = n->out[KEPT_STATES] != NULL;
    if (ssd_is_tiled(n)) return d.N > FN ? ssd_tiled_wide_cuda(c) : ssd_tiled_cuda(c);
    const work_split s = work_split_of(c, keeps);
    fused_task       a = fused_task_of(c, s);
    scan_maps        m;
    int              k = 0;
    if (keeps) set_saved(a, c->out[KEPT_STATES], (float *)c->out[KEPT_RECORDS], c->out[KEPT_PAIRS]);
    if (keeps && n->in[IDS]) set_masked_rows(a, c->out[KEPT_REACH]);
    a.final = strided_of<float>(n->out[FINAL], c->out[FINAL]);
    MBA_TRY(scan_maps_of(&m, a, a.x, strided_of<bf16>(n->out[Y], c->out[Y]), false, false));
    MBA_KERNEL(c, k, ssd_prep, a);
    k++;
    MBA_TRY(launch_states<false>(c, &k, a, m, s));
    return keeps ? launch_scan_fwd<SCAN_KEEP>(c, &k, a, m, s) : launch_scan_inference(c, &k, a, m, s);
}

/* ---- backward ---- */

static mba_status launch_scan_bwd(const mba_call *c, int *k, const fused_task &a, const scan_maps &m,
                                  const work_split &s)
{
    if (s.split.how == SSD_STATE_PASSED) MBA_KERNEL(c, *k, (ssd_scan_rev_split<SCAN_OUT, STATE_PASSED>), a, m, s.table);
    else if (s.split.how == SSD_STATE_RECOMPUTED)
        MBA_KERNEL(c, *k, (ssd_scan_rev_split<SCAN_OUT, STATE_RECOMPUTED>), a, m, s.table);
    else MBA_KERNEL(c, *k, ssd_scan_rev<SCAN_OUT>, a, m);
    *k += 1;
    return MBA_OK;
}

static mba_status launch_bwd_bc(const mba_call *c, int k, const fused_task &a)
{
    bc_maps m;
    MBA_TRY(bc_maps_of(&m, a, false));
    MBA_KERNEL(c, k, ssd_bwd_slow, a);
    if (a.ids.at) MBA_KERNEL(c, k + 1, ssd_bwd_bc<true>, a, m);
    else MBA_KERNEL(c, k + 1, ssd_bwd_bc<false>, a, m);
    MBA_KERNEL(c, k + 2, ssd_finish, a);
    MBA_KERNEL(c, k + 3, ssd_sums, a);
    return MBA_OK;
}

extern "C" mba_status ssd_bwd_fused_cuda(const mba_call *c)
{
    const ssd_dims d = ssd_dims_of(c->node);
    if (ssd_is_tiled(c->node)) return d.N > FN ? ssd_bwd_tiled_wide_cuda(c) : ssd_bwd_tiled_cuda(c);
    const work_split    s = work_split_of(c, true);
    const bool          kept = ssd_has_saved(c->plan, c->node);
    const strided<bf16> none = {};
    fused_task          a = fused_task_of(c, s);
    scan_maps           forward, backward;
    int                 k = 0;
    set_gradients(a, c, kept);
    MBA_TRY(scan_maps_of(&backward, a, a.dy, strided_of<bf16>(c->node->out[DX], c->out[DX]), true, false));
    if (!kept) {
        MBA_TRY(scan_maps_of(&forward, a, a.x, none, false, false));
        MBA_KERNEL(c, k, ssd_prep, a);
        k++;
        MBA_TRY(launch_states<false>(c, &k, a, forward, s));
        MBA_TRY(launch_scan_fwd<SCAN_SAVE>(c, &k, a, forward, s));
    } else if (a.state_ready) { // otherwise ssd_prep clears the flags
        CUDA_TRY(cudaMemsetAsync(a.state_ready, 0, sizeof(int) * HEADS * (size_t)a.states, mba_cuda_stream(c)));
    }
    MBA_TRY(launch_states<true>(c, &k, a, backward, s));
    MBA_TRY(launch_scan_bwd(c, &k, a, backward, s));
    return launch_bwd_bc(c, k, a);
}
