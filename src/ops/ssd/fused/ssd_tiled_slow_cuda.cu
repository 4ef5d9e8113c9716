// SPDX-License-Identifier: Apache-2.0
/* ssd_tiled_slow_cuda.cu -- ssd_bwd_slow for heads of any width, which `fused` and `fused_mma` share: it needs nothing
 * of sm_90. By itself, because the compiler takes longer for it than for all else of either variant.
 *
 * kernel     ssd_tiled_slow          as ssd_bwd_slow (ssd_fused_slow.cuh)
 * takes      what ssd_tiled.cuh and ssd_fused_mma.cuh take */
#include "ops/ssd/fused/ssd_fused_slow.cuh"
#include "ops/ssd/fused/ssd_fused_task.cuh"

template <int TILED>
static __global__ void __launch_bounds__(SLOW_THREADS, 1) ssd_tiled_slow(const __grid_constant__ fused_task a)
{
    slow_block_run<TILED>(a);
}

mba_status launch_tiled_slow(fused_call &f, int tiled)
{
    if (tiled > 1) MBA_KERNEL(f.c, f.k++, ssd_tiled_slow<2>, f.a);
    else MBA_KERNEL(f.c, f.k++, ssd_tiled_slow<1>, f.a);
    return MBA_OK;
}
