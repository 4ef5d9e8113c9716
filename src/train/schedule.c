/* schedule.c -- see schedule.h. */
#include "train/schedule.h"

#include <math.h>

double mba_schedule_lr(const mba_schedule *s, int64_t step)
{
    if (step < s->warmup) return s->lr * (double)(step + 1) / (double)s->warmup;
    if (step >= s->steps) return s->lr_min;
    const double q = (double)(step - s->warmup) / (double)(s->steps - s->warmup);
    return s->lr_min + 0.5 * (1 + cos(3.14159265358979323846 * q)) * (s->lr - s->lr_min);
}
