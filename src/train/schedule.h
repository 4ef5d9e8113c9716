/* schedule.h -- the learning rate of a step: linear warm-up, then half a cosine down to the least.
 *
 *     const mba_schedule all = { .lr = 3e-3, .lr_min = 1e-5, .warmup = 100, .steps = 4800 };
 *     s.lr = (float)mba_schedule_lr(&all, s.index);
 */
#ifndef MBA_SCHEDULE_H
#define MBA_SCHEDULE_H

#include <stdint.h>

typedef struct mba_schedule { double lr, lr_min; int64_t warmup, steps; } mba_schedule;

double mba_schedule_lr(const mba_schedule *s, int64_t step);

#endif
