// SPDX-License-Identifier: Apache-2.0
/* error_bands.h -- how far predictions of a kind are off, by what limits them: the band of the next one.
 *
 *     mba_prediction_residual r[] = { { "ssd", MBA_SIM_MEMORY, measured / predicted }, .. };
 *     mba_error_bands b;
 *     MBA_TRY(mba_error_bands_of(&b, r, n));
 *     mba_band x = b.of[MBA_SIM_MEMORY].band;             // 80 % of what memory limits took x times what was predicted
 *
 * How well the bands hold is counted on the same residuals, each by a band that its class makes without its family (an
 * operator and its backward): a new operator is one whose like nobody has measured, too. */
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
    int points, inside; /* inside: of the band that the others of the class make */
} mba_error_bands;

MBA_MUST mba_status mba_error_bands_of(mba_error_bands *out, const mba_prediction_residual *r, int n);

#endif
