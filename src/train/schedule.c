// SPDX-License-Identifier: Apache-2.0
/* schedule.c -- see schedule.h: the formulas of the schedules. */
#include "train/schedule.h"

#include <math.h>
#include <stdbool.h>

/* The progress from step `from` to the end, 0 .. 1. */
static double progress(const mba_schedule *s, int64_t from, int64_t step)
{
    return (double)(step - from) / (double)(s->steps - from);
}

static int64_t cooldown_start(const mba_schedule *s)
{
    const int64_t start = s->steps - llround(s->cooldown * (double)s->steps);
    return start > s->warmup ? start : s->warmup;
}

double mba_schedule_lr(const mba_schedule *s, int64_t step)
{
    const bool    wsd = s->kind == MBA_LR_WSD || s->kind == MBA_LR_WSD_SQRT;
    const int64_t from = wsd ? cooldown_start(s) : s->warmup;
    if (step < s->warmup) return s->lr * (double)(step + 1) / (double)s->warmup;
    if (s->kind == MBA_LR_CONSTANT || (wsd && step < from)) return s->lr;
    if (step >= s->steps) return s->lr_min;
    const double q = progress(s, from, step);
    const double left = s->kind == MBA_LR_COSINE ? 0.5 * (1 + cos(3.14159265358979323846 * q))
                        : s->kind == MBA_LR_WSD  ? 1 - q
                                                 : 1 - sqrt(q);
    return s->lr_min + left * (s->lr - s->lr_min);
}

const char *mba_schedule_name(mba_schedule_kind kind)
{
    static const char *const names[] = {
#define X(kind, name) name,
        MBA_SCHEDULE_LIST(X)
#undef X
    };
    return names[kind];
}
