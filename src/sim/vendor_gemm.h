// SPDX-License-Identifier: Apache-2.0
/* vendor_gemm.h -- products of libraries as they were launched. A library's kernel says in its name what it is built
 * of: nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_TNT has tiles of 256 x 128, steps of 64, four of them in flight.
 *
 *     mba_vendor_gemm_tile t;
 *     if (mba_vendor_gemm_tile_of(&t, counts)) mba_vendor_gemm_lower(&kernel, counts, &t, gpu);
 *
 * Blocks stay and take whole tiles, so that some take one more than others. Where both groups of a block work at one
 * tile ("coop") nobody multiplies while it is stored; else one group stores while the other multiplies. */
#ifndef MBA_SIM_VENDOR_GEMM_H
#define MBA_SIM_VENDOR_GEMM_H

#include "sim/profiled.h"

typedef struct mba_vendor_gemm_tile {
    double m, n, k, stages; /* of a tile; of a step of it; steps in flight */
    double tiles, steps;    /* of the launch; of a tile */
    bool   together;        /* all groups of a block work at one tile */
} mba_vendor_gemm_tile;

/* False: its name does not say, or its counts are not those of such a kernel. */
bool mba_vendor_gemm_tile_of(mba_vendor_gemm_tile *out, const mba_profiled_kernel *c);

/* The order of work of such a kernel; amounts are those of mba_profiled_apply. */
void mba_vendor_gemm_lower(mba_sim_kernel *k, const mba_profiled_kernel *c, const mba_vendor_gemm_tile *t,
                           const mba_gpu *m);

#endif
