/* foreign_store.h -- the trace of a process that is not ours into a store: kernels classified by rules.
 *
 *     MBA_TRY(mba_foreign_store(store, "run.db.trace", rules, machine));        // machine NULL: not known, no occupancy
 *
 * Any number of events in bounded memory: the file is read twice, once for when it begins. No CUDA. */
#ifndef MBA_SCOPE_FOREIGN_STORE_H
#define MBA_SCOPE_FOREIGN_STORE_H

#include "scope/rules.h"
#include "scope/store.h"

typedef struct mba_foreign_summary {
    int64_t events, kernels;
    double  busy_ns, classified_ns;                /* of kernels; classified: a rule fits */
    bool    complete;                              /* the process ended by itself */
    char    note[256];                             /* the first that the process left; "": none */
} mba_foreign_summary;

MBA_MUST mba_status mba_foreign_store(mba_store *s, const char *path, const mba_rules *rules, const mba_machine *m,
                                      mba_foreign_summary *out);

#endif
