// SPDX-License-Identifier: Apache-2.0
/* ssd_persistent_cuda.cu -- variants `persistent*` of ssd: the kernels of `chunked` with persistent blocks. The grid
 * has as many blocks as fit on the GPU, and each loops over tiles (for_tiles in ssd_task.cuh): over those that are
 * assigned to it beforehand (`persistent`), or each takes its next tile from a counter in device memory
 * (`persistent_dynamic`). `persistent_prefetch` is `persistent`, and a block prefetches the inputs of its next tile
 * into L2: all that chunk_state_fwd, chunk_scan_bwd_dstates, chunk_scan_fwd and chunk_scan_chunk_state_bwd_dx read of
 * activations, states and C B^T, when it begins a tile; what chunk_state_bwd_db and chunk_scan_bwd_dc begin with,
 * before it stores a tile.
 *
 * Tiles and arithmetic are those of `chunked`, and no sum crosses tiles: the bits are the same whichever block takes a
 * tile. These variants answer the study's question what persistence alone gains (ssd.md). */
#include "ops/ssd/baseline/ssd_launch.cuh"

#define LAUNCHERS(NAME, KIND) \
    extern "C" mba_status ssd_##NAME##_cuda(const mba_call *c) { return launch_tensor<true, false>(c, KIND, false); } \
    extern "C" mba_status ssd_bwd_##NAME##_cuda(const mba_call *c) { return launch_tensor<true, false>(c, KIND, true); }

LAUNCHERS(persistent, SSD_PERSISTENT)
LAUNCHERS(persistent_dynamic, SSD_PERSISTENT_DYNAMIC)
LAUNCHERS(persistent_prefetch, SSD_PERSISTENT_PREFETCH)
