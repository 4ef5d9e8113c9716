// SPDX-License-Identifier: Apache-2.0
/* foreign_store.h -- the trace of a process that is not ours into a store: kernels classified by rules.
 *
 *     MBA_TRY(mba_foreign_store(store, "run.db.trace", rules, machine, &end, &sum));
 *
 * machine NULL: not known, no occupancy; end NULL: nobody knows how the process ended. Any number of events in bounded
 * memory: the file is read three times, for its steps, its timeline and the rest. No CUDA. */
#ifndef MBA_SCOPE_FOREIGN_STORE_H
#define MBA_SCOPE_FOREIGN_STORE_H

#include "scope/foreign_child.h"
#include "scope/foreign_steps.h"
#include "scope/rules.h"
#include "scope/store.h"

typedef struct mba_foreign_summary {
    int64_t          events, kernels;
    double           busy_ns, classified_ns;    /* of kernels; classified: a rule fits */
    bool             complete, marked;          /* the process ended by itself; its ranges tell steps apart */
    mba_foreign_loop loop;                      /* its steps, where they are not marked */
    char             note[256];                 /* the first that the process left; "": none */
    char             missing[256], memory[320]; /* of a process that was killed; that asked for too much. "": no */
} mba_foreign_summary;

MBA_MUST mba_status mba_foreign_store(mba_store *s, const char *path, const mba_rules *rules, const mba_machine *m,
                                      const mba_child_end *end, mba_foreign_summary *out);

#endif
