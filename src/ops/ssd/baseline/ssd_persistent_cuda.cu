// SPDX-License-Identifier: Apache-2.0
/* ssd_persistent_cuda.cu -- variant `persistent` of ssd: the kernels of `chunked` with persistent blocks. The grid has
 * as many blocks as fit on the GPU, and each loops over tiles (for_tiles in ssd_task.cuh). Tiles and arithmetic are
 * those of `chunked`, so the bits are the same. It answers the study's question what persistence alone gains
 * (ssd.md). */
#include "ops/ssd/baseline/ssd_launch.cuh"

extern "C" mba_status ssd_persistent_cuda(const mba_call *c) { return launch_tensor<true, false>(c, false); }
extern "C" mba_status ssd_bwd_persistent_cuda(const mba_call *c) { return launch_tensor<true, false>(c, true); }
