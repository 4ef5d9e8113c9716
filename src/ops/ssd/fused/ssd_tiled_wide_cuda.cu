// SPDX-License-Identifier: Apache-2.0
/* ssd_tiled_wide_cuda.cu -- kernels of ssd_tiled.cuh for states of more than 128. */
#include "ops/ssd/fused/ssd_tiled.cuh"

extern "C" mba_status ssd_tiled_wide_cuda(const mba_call *c) { return launch_tiled<2>(c); }
extern "C" mba_status ssd_bwd_tiled_wide_cuda(const mba_call *c) { return launch_tiled_bwd<2>(c); }
