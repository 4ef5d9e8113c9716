// SPDX-License-Identifier: Apache-2.0
/* error_bands.h -- error bands of plan-driven predictions, one per limiting resource, from measured residuals.
 *
 *     mba_prediction_residual r[] = { { "ssd", MBA_SIM_MEMORY, measured / predicted }, .. };
 *     mba_error_bands b;
 *     MBA_TRY(mba_error_bands_of(&b, r, n));
 *     mba_band x = b.of[MBA_SIM_MEMORY].band;             // measured / predicted of 80 % of the memory-bound kernels
 *
 * The coverage of the bands is counted by leave-one-family-out: each residual is tested against the band of its class
 * without its own family (an operator and its backward), as if the operator were new. */
#ifndef MBA_SIM_ERROR_BANDS_H
#define MBA_SIM_ERROR_BANDS_H

#include "sim/profiled.h"

typedef struct mba_prediction_residual {
    const char *operator;
    mba_sim_limiter class;
    double times;
} mba_prediction_residual;

typedef struct mba_error_bands {
    struct {
        mba_band band;
        int      points, inside;
    } of[MBA_SIM_LIMITERS];
    int points, inside; /* inside the band of the other families of the class */
} mba_error_bands;

MBA_MUST mba_status mba_error_bands_of(mba_error_bands *out, const mba_prediction_residual *r, int n);

#endif
