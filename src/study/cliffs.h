// SPDX-License-Identifier: Apache-2.0
/* cliffs.h -- operators of a step that run far below what their best variant reaches, because it refuses their shape.
 *
 *     mba_cliffs c;
 *     MBA_TRY(mba_cliffs_find(&c, &session_options, "h200"));
 *     for (int i = 0; i < c.n; i++) printf("%s runs '%s': %s\n", c.of[i].op, c.of[i].variant, c.of[i].mend);
 *
 * Both variants are simulated, each at a shape that it takes, and compared by their distance from the operator's floor.
 * The other shape is found by trial: the options are planned again with one field of the model changed. So a cliff is
 * always one that a field, or the precision, mends. */
#ifndef MBA_STUDY_CLIFFS_H
#define MBA_STUDY_CLIFFS_H

#include "train/session.h"

enum { MBA_CLIFFS_MAX = 8 };
typedef struct mba_cliff {
    const char *op, *variant, *best;
    char        why[192]; /* what `best` says about the shape; one line */
    char        mend[96]; /* "--set state=16" or "--precision bf16" */
    double      slower; /* how many times further from its floor than `best` with the mend; of fp32: how much longer */
    double      step_part; /* of the time of the step, 0 to 1 */
} mba_cliff;

typedef struct mba_cliffs {
    mba_cliff of[MBA_CLIFFS_MAX]; /* the longest first */
    int       n;
} mba_cliffs;

/* Plans and simulates a step with these options on a machine that the simulator knows. Operators whose variant the
 * options name are left out. A step in which every operator runs its best variant costs only the plan. */
MBA_MUST mba_status mba_cliffs_find(mba_cliffs *out, const mba_session_options *so, const char *machine);

/* The machine of the simulator that stands for a GPU: that of its name, else the first of its compute capability, else
 * NULL. */
const char *mba_cliffs_machine(const mba_machine *gpu);

#endif
