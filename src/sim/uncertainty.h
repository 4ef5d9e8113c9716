// SPDX-License-Identifier: Apache-2.0
/* uncertainty.h -- what the spreads of a machine's numbers do to an answer: the machine drawn MBA_GPU_SAMPLES times.
 *
 *     for (int i = 0; i < MBA_GPU_SAMPLES; i++) {
 *         mba_gpu_sample(&drawn, &gpu, i);
 *         ..; times[i] = r.seconds / answer;                  // that machine's answer
 *     }
 *     mba_band b = mba_band_of_samples(times);                  // 80 % of them are b.low to b.high times the answer
 *
 * A Latin hypercube: of every number with a spread, each 64th of a normal distribution is drawn once, in an order that
 * Philox gives for the number's name. Draw i is the same for every question, so that ratios of two answers are taken
 * draw by draw and what both share cancels. No answer depends on compilers, threads or the order of asking. */
#ifndef MBA_SIM_UNCERTAINTY_H
#define MBA_SIM_UNCERTAINTY_H

#include "sim/machine.h"

enum { MBA_GPU_SAMPLES = 64 };

typedef struct mba_band {
    double low, high;
} mba_band; /* times the answer; 1 lies between */

/* The numbers of `m`, each moved within its spread and what its key may be. */
void mba_gpu_sample(mba_gpu *out, const mba_gpu *m, int draw);

/* Sorts `times`, MBA_GPU_SAMPLES of them. */
mba_band mba_band_of_samples(double *times);

/* Of a ratio of two answers a / b, by the draws of both, pair by pair: what both share cancels. `above`: of 1, how many
 * draws have it above 1; those that have it within a thousandth count half (queues that change order make as much). */
typedef struct mba_ratio {
    mba_band band;
    double   above;
} mba_ratio;
mba_ratio mba_ratio_of_samples(double ratio, const double *a_times, const double *b_times);

/* Of n times that others of its kind took: a tenth lie below the band and a tenth above, and of the next one's chances
 * as many. Sorts them. Fewer than nine say nothing: 0 to infinity. */
mba_band mba_band_of_residuals(double *times, int n);

/* Of two causes that know nothing of each other: squares of logarithms add. */
mba_band mba_band_combine(mba_band a, mba_band b);

#endif
