// SPDX-License-Identifier: Apache-2.0
/* ssd_cuda.cu -- launchers of the variants `chunked`, `bc_fused` and `fma` of ssd: five launches forward, fifteen
 * backward, under the names of mamba_ssm's Triton kernels.
 *
 *   ssd_steps.cuh       vector kernels of all three: steps and decays, state passing, gradients of decays
 *   ssd_mma*.cuh        `chunked`: products on tensor cores; `bc_fused`: C B^T is computed in the blocks that use it
 *   ssd_fma*.cuh        `fma`: products of fp32 operands in three TF32 products each, any size
 *   ssd_launch.cuh      arguments and the launch sequence of the tensor-core variants */
#include "ops/ssd/baseline/ssd_fma.cuh"
#include "ops/ssd/baseline/ssd_launch.cuh"

extern "C" mba_status ssd_chunked_cuda(const mba_call *c) { return launch_tensor<false, false>(c, SSD_CHUNKED, false); }
extern "C" mba_status ssd_bwd_chunked_cuda(const mba_call *c)
{
    return launch_tensor<false, false>(c, SSD_CHUNKED, true);
}

/* Shares most kernels with `chunked`. */
extern "C" mba_status ssd_bc_fused_cuda(const mba_call *c)
{
    return launch_tensor<false, true>(c, SSD_BC_FUSED, false);
}
extern "C" mba_status ssd_bwd_bc_fused_cuda(const mba_call *c)
{
    return launch_tensor<false, true>(c, SSD_BC_FUSED, true);
}

/* ---- `fma` ---- */

template <typename T, bool SPLIT> static mba_status fwd_fma(const mba_call *c)
{
    typedef fma_task<T, SPLIT>     A;
    typedef task<T, double, float> plain_task;
    const A                        a = task_of<A>(c, tiling_of(c, SSD_FMA), false);
    const plain_task              &plain = a;
    MBA_KERNEL(c, 0, (chunk_cumsum_fwd<false, plain_task>), plain, 0);
    MBA_KERNEL(c, 1, chunk_state_fwd_fma<A>, a);
    MBA_KERNEL(c, 2, (state_passing_fwd<false, 1, plain_task>), plain, 0);
    MBA_KERNEL(c, 3, bmm_chunk_fwd_fma<A>, a);
    MBA_KERNEL(c, 4, chunk_scan_fwd_fma<A>, a);
    return MBA_OK;
}

template <typename T, bool SPLIT> static mba_status bwd_fma(const mba_call *c)
{
    typedef fma_task<T, SPLIT>     A;
    typedef task<T, double, float> plain_task;
    const A                        a = task_of<A>(c, tiling_of(c, SSD_FMA), true);
    const plain_task              &plain = a;
    MBA_KERNEL(c, 0, (chunk_cumsum_fwd<false, plain_task>), plain, 0);
    MBA_KERNEL(c, 1, bmm_chunk_fwd_fma<A>, a);
    MBA_KERNEL(c, 2, chunk_state_fwd_fma<A>, a);
    MBA_KERNEL(c, 3, (state_passing_fwd<false, 1, plain_task>), plain, 0);
    MBA_KERNEL(c, 4, chunk_scan_bwd_dstates_fma<A>, a);
    MBA_KERNEL(c, 5, (state_passing_bwd<false, 1, plain_task>), plain, 0);
    MBA_KERNEL(c, 6, chunk_scan_chunk_state_bwd_dx_fma<A>, a);
    MBA_KERNEL(c, 7, chunk_state_bwd_db_fma<A>, a);
    MBA_KERNEL(c, 8, chunk_scan_bwd_dc_fma<A>, a);
    MBA_KERNEL(c, 9, chunk_scan_bwd_dcb_fma<A>, a);
    MBA_KERNEL(c, 10, (bmm_chunk_bwd_fma<false, A>), a);
    MBA_KERNEL(c, 11, (bmm_chunk_bwd_fma<true, A>), a);
    MBA_KERNEL(c, 12, (chunk_scan_bwd_ddacs_stable<false, plain_task>), plain, 0);
    MBA_KERNEL(c, 13, (chunk_cumsum_bwd<false, plain_task>), plain, 0);
    MBA_KERNEL(c, 14, (ssd_sum_parts<false, plain_task>), plain, 0);
    return MBA_OK;
}

/* The one TF32 product has an instance in fp32 alone: bf16 operands come with --precision bf16. */
extern "C" mba_status ssd_fma_cuda(const mba_call *c)
{
    if (c->node->in[X]->type.dtype == MBA_BF16) return fwd_fma<bf16, true>(c);
    return c->node->tf32 ? fwd_fma<float, false>(c) : fwd_fma<float, true>(c);
}

extern "C" mba_status ssd_bwd_fma_cuda(const mba_call *c)
{
    if (c->node->in[X]->type.dtype == MBA_BF16) return bwd_fma<bf16, true>(c);
    return c->node->tf32 ? bwd_fma<float, false>(c) : bwd_fma<float, true>(c);
}
