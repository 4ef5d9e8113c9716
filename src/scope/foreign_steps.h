// SPDX-License-Identifier: Apache-2.0
/* foreign_steps.h -- finds the steps of an external program that has no NVTX ranges, and the step of each event.
 *
 *     mba_foreign_steps *s;
 *     MBA_TRY(mba_foreign_steps_create(&s));
 *     MBA_TRY(mba_foreign_steps_add(s, &event, symbol, name, updates));         // every kernel, in any order
 *     MBA_TRY(mba_foreign_steps_find(s));
 *     const int64_t step = mba_foreign_steps_of(s, &event);                     // -1: none
 *     mba_foreign_steps_destroy(s);
 *
 * A step is a repeated sequence of launches (repeats.h), in the order in which the host made them. Four attempts: all
 * launches or those of the busiest stream, identified with their grids or by name alone. Copies belong to the step they
 * serve: inputs to the next one, results to the previous one. */
#ifndef MBA_SCOPE_FOREIGN_STEPS_H
#define MBA_SCOPE_FOREIGN_STEPS_H

#include "scope/events.h"
#include "scope/repeats.h"

enum { MBA_FOREIGN_LAUNCHES_MAX = 1 << 21 }; /* only the first launches are searched */

typedef struct mba_foreign_steps mba_foreign_steps;

/* The result. n 0: no loop was found. */
typedef struct mba_foreign_loop {
    int64_t n, found, length, beyond; /* steps kept, steps found; launches per step; launches not searched */
    double  of_launches, of_time;     /* share of launches and of kernel time inside steps */
    bool    by_name;                  /* grids differ between steps */
} mba_foreign_loop;

MBA_MUST mba_status mba_foreign_steps_create(mba_foreign_steps **out);
MBA_MUST mba_status mba_foreign_steps_add(mba_foreign_steps *s, const mba_event *e, int64_t symbol, int64_t name,
                                          bool updates);
MBA_MUST mba_status mba_foreign_steps_find(mba_foreign_steps *s);
mba_foreign_loop    mba_foreign_steps_loop(const mba_foreign_steps *s);
int64_t             mba_foreign_steps_of(const mba_foreign_steps *s, const mba_event *e);
/* From the end of the previous step to the end of this one; NaN if something else ran in between. */
double mba_foreign_steps_seconds(const mba_foreign_steps *s, int64_t step);
void   mba_foreign_steps_destroy(mba_foreign_steps *s); /* NULL is fine */

#endif
