// SPDX-License-Identifier: Apache-2.0
/* store_kernels.h -- loads the kernels of a store, of our program or another, for the simulator: launch geometry,
 * counters, launches and time of one step.
 *
 *     mba_store_kernels s;
 *     MBA_TRY(mba_store_kernels_load(&s, "peer.db"));
 *     MBA_TRY(mba_profiled_lower(&kernel, &s.kernels.one[0], gpu));        // the longest in a step comes first
 *     mba_store_kernels_free(&s);
 *
 * Kernels without counters of instructions, loads and bytes are left out; `without` and `without_us` (of a step) say
 * how many. Fails with MBA_E_FORMAT if no kernel of the store has those counters. */
#ifndef MBA_STUDY_STORE_KERNELS_H
#define MBA_STUDY_STORE_KERNELS_H

#include "scope/store.h"
#include "sim/profiled.h"

typedef struct mba_store_kernels {
    mba_profiled_set kernels;  /* launches: of one step; us: median over the recorded launches */
    char             gpu[128]; /* the GPU that was profiled */
    int              without;
    double           without_us;
} mba_store_kernels;

MBA_MUST mba_status mba_store_kernels_load(mba_store_kernels *out, const char *path);
MBA_MUST mba_status mba_store_kernels_read(mba_store_kernels *out, mba_store *s); /* the same for an open store */
void                mba_store_kernels_free(mba_store_kernels *s);

#endif
