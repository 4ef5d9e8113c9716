/* stored.h -- the kernels of a store, ours or another program's, by what was counted of them: for `simulate --store`.
 *
 *     mba_stored s;
 *     MBA_TRY(mba_stored_load(&s, "peer.db"));
 *     MBA_TRY(mba_counted_foreign(&kernel, &s.kernels.one[0], gpu));        // longest in a step first
 *     mba_stored_free(&s);
 *
 * Kernels whose instructions, loads and bytes nobody counted are left out and told apart: `without`, `without_us` of a
 * step. MBA_E_FORMAT where the store has no kernel with counts. */
#ifndef MBA_CLI_STORED_H
#define MBA_CLI_STORED_H

#include "scope/store.h"
#include "sim/counted.h"

typedef struct mba_stored {
    mba_counted_set kernels;                      /* launches: of one step; us: the median of those watched */
    char            gpu[128];                     /* where it was counted */
    int             without;
    double          without_us;
} mba_stored;

MBA_MUST mba_status mba_stored_load(mba_stored *out, const char *path);
MBA_MUST mba_status mba_stored_read(mba_stored *out, mba_store *s);          /* of an open store */
void                mba_stored_free(mba_stored *s);

#endif
