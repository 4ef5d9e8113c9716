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

static __global__ void __launch_bounds__(256) ssd_prep(const __grid_constant__ fused_task a) { prepare_block(a); }
static __global__ void __launch_bounds__(SLOW_THREADS, 1) ssd_bwd_slow(const __grid_constant__ fused_task a)
{
#if MBA_HOPPER
    slow_block_run(a);
#endif
}

template <int WHAT> static mba_status launch_scan_fwd(fused_call &f, const scan_maps &m)
{
    const ssd_split_kind how = f.s.split.how;
    if (how == SSD_STATE_PASSED) MBA_KERNEL(f.c, f.k++, (ssd_scan_split<WHAT, STATE_PASSED>), f.a, m, f.s.table);
    else if (how == SSD_STATE_RECOMPUTED)
        MBA_KERNEL(f.c, f.k++, (ssd_scan_split<WHAT, STATE_RECOMPUTED>), f.a, m, f.s.table);
    else MBA_KERNEL(f.c, f.k++, ssd_scan<WHAT>, f.a, m);
    return MBA_OK;
}

/* Inference: the scan starts by dependent launch while ssd_prep drains. A training step has ordinary launches:
 * the gain there is small, and overlapping kernels are hard to read in timelines (ssd.md, "Tried"). */
static mba_status launch_scan_inference(fused_call &f, const scan_maps &m)
{
    const ssd_split_kind how = f.s.split.how;
    if (launches_states(f.s)) return launch_scan_fwd<SCAN_OUT>(f, m);
    if (how == SSD_STATE_PASSED)
        MBA_KERNEL_DEPENDENT(f.c, f.k, (ssd_scan_split<SCAN_OUT, STATE_PASSED>), f.a, m, f.s.table);
    else if (how == SSD_STATE_RECOMPUTED)
        MBA_KERNEL_DEPENDENT(f.c, f.k, (ssd_scan_split<SCAN_OUT, STATE_RECOMPUTED>), f.a, m, f.s.table);
    else MBA_KERNEL_DEPENDENT(f.c, f.k, ssd_scan<SCAN_OUT>, f.a, m);
    return MBA_OK;
}

extern "C" mba_status ssd_fused_cuda(const mba_call *c)
{
    if (ssd_is_tiled(c->node)) return ssd_dims_of(c->node).N > FN ? ssd_tiled_wide_cuda(c) : ssd_tiled_cuda(c);
    fused_call f = fused_call_of(c, false);
    scan_maps  m;
    MBA_TRY(scan_maps_of(&m, f.a, f.a.x, f.result, false));
    MBA_KERNEL(c, f.k++, ssd_prep, f.a);
    MBA_TRY(launch_states<false>(f, m));
    return f.kept ? launch_scan_fwd<SCAN_KEEP>(f, m) : launch_scan_inference(f, m);
}

/* ---- backward ---- */

static mba_status launch_scan_bwd(fused_call &f, const scan_maps &m)
{
    const ssd_split_kind how = f.s.split.how;
    if (how == SSD_STATE_PASSED)
        MBA_KERNEL(f.c, f.k++, (ssd_scan_rev_split<SCAN_OUT, STATE_PASSED>), f.a, m, f.s.table);
    else if (how == SSD_STATE_RECOMPUTED)
        MBA_KERNEL(f.c, f.k++, (ssd_scan_rev_split<SCAN_OUT, STATE_RECOMPUTED>), f.a, m, f.s.table);
    else MBA_KERNEL(f.c, f.k++, ssd_scan_rev<SCAN_OUT>, f.a, m);
    return MBA_OK;
}

extern "C" mba_status ssd_bwd_fused_cuda(const mba_call *c)
{
    if (ssd_is_tiled(c->node)) return ssd_dims_of(c->node).N > FN ? ssd_bwd_tiled_wide_cuda(c) : ssd_bwd_tiled_cuda(c);
    fused_call f = fused_call_of(c, true);
    scan_maps  forward, backward;
    bc_maps    bc;
    MBA_TRY(scan_maps_of(&backward, f.a, f.a.dy, f.result, true));
    MBA_TRY(bc_maps_of(&bc, f.a));
    if (!f.kept) {
        MBA_TRY(scan_maps_of(&forward, f.a, f.a.x, strided<bf16>(), false));
        MBA_KERNEL(c, f.k++, ssd_prep, f.a);
        MBA_TRY(launch_states<false>(f, forward));
        MBA_TRY(launch_scan_fwd<SCAN_SAVE>(f, forward));
    } else if (f.a.state_ready) { // otherwise ssd_prep clears the flags
        CUDA_TRY(cudaMemsetAsync(f.a.state_ready, 0, sizeof(int) * HEADS * (size_t)f.a.states, mba_cuda_stream(c)));
    }
    MBA_TRY(launch_states<true>(f, backward));
    MBA_TRY(launch_scan_bwd(f, backward));
    MBA_KERNEL(c, f.k++, ssd_bwd_slow, f.a);
    if (f.a.ids.at) MBA_KERNEL(c, f.k++, ssd_bwd_bc<true>, f.a, bc);
    else MBA_KERNEL(c, f.k++, ssd_bwd_bc<false>, f.a, bc);
    MBA_KERNEL(c, f.k++, ssd_finish, f.a);
    MBA_KERNEL(c, f.k, ssd_sums, f.a);
    return MBA_OK;
}
