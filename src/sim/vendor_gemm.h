// SPDX-License-Identifier: Apache-2.0
/* vendor_gemm.h -- cuBLAS GEMM kernels as they were launched. The kernel's name states its tiling:
 * nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_TNT has tiles of 256 x 128, K steps of 64 and four stages.
 *
 *     mba_vendor_gemm_tile t;
 *     if (mba_vendor_gemm_tile_of(&t, counts)) mba_vendor_gemm_lower(&kernel, counts, &t, gpu);
 *
 * Blocks are persistent and take whole tiles, so some take one more than others. If both warp groups of a block work on
 * one tile ("coop"), stores do not overlap with products; else one group stores while the other multiplies. */
#ifndef MBA_SIM_VENDOR_GEMM_H
#define MBA_SIM_VENDOR_GEMM_H

#include "sim/profiled.h"

typedef struct mba_vendor_gemm_tile {
    double m, n, k, stages; /* tile; depth of a K step; stages of the ring */
    double tiles, steps;    /* tiles of the launch; K steps of a tile */
    bool   together;        /* all warp groups of a block work on one tile */
} mba_vendor_gemm_tile;

/* False: the name does not state it, or the counters do not fit such a kernel. */
bool mba_vendor_gemm_tile_of(mba_vendor_gemm_tile *out, const mba_profiled_kernel *c);

/* The order of work of such a kernel; amounts are those of mba_profiled_apply. */
void mba_vendor_gemm_lower(mba_sim_kernel *k, const mba_profiled_kernel *c, const mba_vendor_gemm_tile *t,
                           const mba_gpu *m);

#endif
