// SPDX-License-Identifier: Apache-2.0
/* foreign_store.h -- writes the trace of an external process into a store, with kernels classified by rules (rules.h).
 *
 *     MBA_TRY(mba_foreign_store(store, "run.db.trace", rules, machine, &end, &sum));
 *
 * machine NULL: not known, so no occupancy; end NULL: it is not known how the process ended. Memory is bounded for any
 * number of events: the file is read three times, for its steps, its timeline and the rest. No CUDA. */
#ifndef MBA_SCOPE_FOREIGN_STORE_H
#define MBA_SCOPE_FOREIGN_STORE_H

#include "scope/foreign_child.h"
#include "scope/foreign_steps.h"
#include "scope/rules.h"
#include "scope/store.h"

/* Steps in which nothing was recorded: how many, and from when to when by mba_clock_s. */
typedef struct mba_foreign_window {
    int64_t steps;
    double  from_s, to_s;
} mba_foreign_window;

typedef struct mba_foreign_summary {
    int64_t            events, kernels;
    double             busy_ns, classified_ns; /* kernel time; of kernels that match a rule */
    bool               complete, marked;       /* the trace has its end; NVTX ranges mark the steps */
    mba_foreign_window attached;
    mba_foreign_loop   loop;                      /* its steps, if they are not marked */
    char               note[256];                 /* the first note of the trace; "": none */
    char               missing[256], memory[320]; /* lost events of a killed process; failed allocations; "": none */
} mba_foreign_summary;

MBA_MUST mba_status mba_foreign_store(mba_store *s, const char *path, const mba_rules *rules, const mba_machine *m,
                                      const mba_child_end *end, mba_foreign_summary *out);

#endif
