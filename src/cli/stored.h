// SPDX-License-Identifier: Apache-2.0
/* stored.h -- the kernels of a store, ours or another program's, by what was counted of them: for `simulate --store`.
 *
 *     mba_store_kernels s;
 *     MBA_TRY(mba_store_kernels_load(&s, "peer.db"));
 *     MBA_TRY(mba_profiled_lower(&kernel, &s.kernels.one[0], gpu));        // longest in a step first
 *     mba_store_kernels_free(&s);
 *
 * Kernels whose instructions, loads and bytes nobody counted are left out and told apart: `without`, `without_us` of a
 * step. MBA_E_FORMAT where the store has no kernel with counts. */
#ifndef MBA_CLI_STORED_H
#define MBA_CLI_STORED_H

#include "scope/store.h"
#include "sim/profiled.h"

typedef struct mba_store_kernels {
    mba_profiled_set kernels;  /* launches: of one step; us: the median of those watched */
    char             gpu[128]; /* where it was counted */
    int              without;
    double           without_us;
} mba_store_kernels;

MBA_MUST mba_status mba_store_kernels_load(mba_store_kernels *out, const char *path);
MBA_MUST mba_status mba_store_kernels_read(mba_store_kernels *out, mba_store *s); /* of an open store */
void                mba_store_kernels_free(mba_store_kernels *s);

#endif
