// SPDX-License-Identifier: Apache-2.0
/* profile_prediction.h -- predicts kernels that are known by their counters alone, on one machine: each with its band,
 * and their sum over a step.
 *
 *     mba_profile_sum s;
 *     MBA_TRY(mba_profile_sum_begin(&s, gpu));
 *     for (int i = 0; i < d->n; i++) MBA_TRY(mba_profile_predict(&p, &s, &d->one[i], gpu));
 *     mba_band b = mba_profile_sum_band(&s);                     // around s.us
 */
#ifndef MBA_STUDY_PROFILE_PREDICTION_H
#define MBA_STUDY_PROFILE_PREDICTION_H

#include "sim/engine.h"
#include "sim/error_bands.h"

typedef struct mba_profile_sum {
    mba_error_bands kernels;         /* bands from errors of such predictions on the H200, by what limits a kernel */
    mba_band        steps;           /* the same for all kernels of a step together */
    bool            draws;           /* the machine is not the unchanged H200: the spreads of its numbers count, too */
    double          us, measured_us; /* all launches of a step: simulated; measured on the profiled GPU */
    double          drawn_us[MBA_GPU_SAMPLES];
} mba_profile_sum;

typedef struct mba_profile_prediction {
    mba_sim_kernel kernel;
    mba_sim_result result;
    mba_band       band; /* around result.seconds */
} mba_profile_prediction;

MBA_MUST mba_status mba_profile_sum_begin(mba_profile_sum *s, const mba_gpu *m);
/* Adds the launches of c to the sum. */
MBA_MUST mba_status mba_profile_predict(mba_profile_prediction *out, mba_profile_sum *s, const mba_profiled_kernel *c,
                                        const mba_gpu *m);
mba_band            mba_profile_sum_band(const mba_profile_sum *s);

#endif
