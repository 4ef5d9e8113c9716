// SPDX-License-Identifier: Apache-2.0
/* ssd_persistent_cuda.cu -- variant `persistent` of ssd: the kernels of `chunked` with blocks that stay, a grid of as
 * many as fit, each taking one of every grid tiles. Same tiles, same arithmetic, same bits (ssd.md). */
#include "ops/ssd/ssd_launch.cuh"

extern "C" mba_status ssd_persistent_cuda(const mba_call *c) { return launch_tensor<true, false>(c, false); }
extern "C" mba_status ssd_bwd_persistent_cuda(const mba_call *c) { return launch_tensor<true, false>(c, true); }
