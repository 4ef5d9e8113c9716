// SPDX-License-Identifier: Apache-2.0
/* uncertainty.h -- propagates the uncertainty of a machine's numbers to a prediction, by MBA_GPU_SAMPLES random samples
 * of the machine, and combines error bands.
 *
 *     for (int i = 0; i < MBA_GPU_SAMPLES; i++) {
 *         mba_gpu_sample(&drawn, &gpu, i);
 *         ..; times[i] = r.seconds / predicted;               // the prediction for that sample
 *     }
 *     mba_band b = mba_band_of_samples(times);                  // 80 % lie within b.low to b.high times `predicted`
 *
 * Latin hypercube sampling: for every number with a standard deviation, each 64th of a normal distribution is drawn
 * once, in an order that Philox gives for the key's name. Sample i is the same machine for every prediction, so the
 * ratio of two predictions is taken sample by sample and common errors cancel. The samples do not depend on compilers,
 * threads or call order. */
#ifndef MBA_SIM_UNCERTAINTY_H
#define MBA_SIM_UNCERTAINTY_H

#include "sim/machine.h"

enum { MBA_GPU_SAMPLES = 64 };

typedef struct mba_band {
    double low, high;
} mba_band; /* factors of the prediction; 1 lies between */

/* Sample `draw` of machine m: each number moved by its standard deviation, within the limits of its key. */
void mba_gpu_sample(mba_gpu *out, const mba_gpu *m, int draw);

/* Sorts `times`, MBA_GPU_SAMPLES of them. */
mba_band mba_band_of_samples(double *times);

/* The band of a ratio of two predictions a / b, from their samples pair by pair. `above`: the share of samples in which
 * the ratio is above 1; those within 0.001 of it count half (event order alone changes results by as much). */
typedef struct mba_ratio {
    mba_band band;
    double   above;
} mba_ratio;
mba_ratio mba_ratio_of_samples(double ratio, const double *a_times, const double *b_times);

/* The band of n residuals (measured / predicted): a tenth lies below and a tenth above, and so does the next one with
 * that probability. Sorts them. Fewer than nine give 0 to infinity. */
mba_band mba_band_of_residuals(double *times, int n);

/* The band of two independent causes: the squares of logarithms add. */
mba_band mba_band_combine(mba_band a, mba_band b);

#endif
