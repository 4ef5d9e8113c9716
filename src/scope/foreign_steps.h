// SPDX-License-Identifier: Apache-2.0
/* foreign_steps.h -- which step an event of a watched program belongs to, where the program does not say it.
 *
 *     mba_foreign_steps *s;
 *     MBA_TRY(mba_foreign_steps_create(&s));
 *     MBA_TRY(mba_foreign_steps_add(s, &event, symbol, name, updates));         // every kernel, in any order
 *     MBA_TRY(mba_foreign_steps_find(s));
 *     const int64_t step = mba_foreign_steps_of(s, &event);                     // -1: none
 *     mba_foreign_steps_destroy(s);
 *
 * Launches are taken in the order in which the host made them, first all of them, then those of the busiest stream;
 * first with their grids, then by their names. Copies go with the step they serve: inputs with the one that follows,
 * results with the one before. */
#ifndef MBA_SCOPE_FOREIGN_STEPS_H
#define MBA_SCOPE_FOREIGN_STEPS_H

#include "scope/events.h"
#include "scope/repeats.h"

enum { MBA_FOREIGN_LAUNCHES_MAX = 1 << 21 }; /* launches among which steps are looked for: the first */

typedef struct mba_foreign_steps mba_foreign_steps;

/* What was found. n 0: no loop, the program is a whole. */
typedef struct mba_foreign_loop {
    int64_t n, found, length, beyond; /* told apart, of so many found; launches of a step; launches not looked at */
    double  of_launches, of_time;
    bool    by_name; /* grids differ from step to step */
} mba_foreign_loop;

MBA_MUST mba_status mba_foreign_steps_create(mba_foreign_steps **out);
MBA_MUST mba_status mba_foreign_steps_add(mba_foreign_steps *s, const mba_event *e, int64_t symbol, int64_t name,
                                          bool updates);
MBA_MUST mba_status mba_foreign_steps_find(mba_foreign_steps *s);
mba_foreign_loop    mba_foreign_steps_loop(const mba_foreign_steps *s);
int64_t             mba_foreign_steps_of(const mba_foreign_steps *s, const mba_event *e);
/* From the end of the step before to the end of this one; NaN where something else ran between. */
double mba_foreign_steps_seconds(const mba_foreign_steps *s, int64_t step);
void   mba_foreign_steps_destroy(mba_foreign_steps *s); /* NULL is fine */

#endif
