// SPDX-License-Identifier: Apache-2.0
/* ssd_tiled_cuda.cu -- kernels of ssd_tiled.cuh for states of up to 128. */
#include "ops/ssd/fused/ssd_tiled.cuh"

extern "C" mba_status ssd_tiled_cuda(const mba_call *c) { return launch_tiled<1>(c); }
extern "C" mba_status ssd_bwd_tiled_cuda(const mba_call *c) { return launch_tiled_bwd<1>(c); }
