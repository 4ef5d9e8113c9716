// SPDX-License-Identifier: Apache-2.0
/* schedule.h -- the learning rate of each step: linear warm-up, then cosine, constant or warm-up-stable-decay.
 *
 *     const mba_schedule all = { .lr = 3e-3, .lr_min = 1e-5, .warmup = 100, .steps = 4800 };
 *     s.lr = (float)mba_schedule_lr(&all, s.index);
 */
#ifndef MBA_SCHEDULE_H
#define MBA_SCHEDULE_H

#include <stdint.h>

/* WSD is warm-up, stable, decay: the rate stays constant until the cooldown, the last part of the steps. */
// clang-format off
#define MBA_SCHEDULE_LIST(X) \
    X(COSINE,   "cosine")              /* half a cosine from lr down to lr_min, over all steps after the warm-up */ \
    X(CONSTANT, "constant")            /* lr */ \
    X(WSD,      "wsd")                 /* the cooldown falls on a line */ \
    X(WSD_SQRT, "wsd-sqrt")            /* the cooldown falls as 1 - sqrt(part of it that is over): steep at first */
// clang-format on

typedef enum mba_schedule_kind {
#define X(kind, name) MBA_LR_##kind,
    MBA_SCHEDULE_LIST(X)
#undef X
        MBA_SCHEDULES
} mba_schedule_kind;

typedef struct mba_schedule {
    double            lr, lr_min; /* the largest rate; the final rate of a schedule that falls */
    int64_t           warmup, steps;
    mba_schedule_kind kind;
    double            cooldown; /* of WSD: fraction of the steps, 0 .. 1; never begins before the warm-up ends */
} mba_schedule;

double mba_schedule_lr(const mba_schedule *s, int64_t step);

const char *mba_schedule_name(mba_schedule_kind kind);

#endif
