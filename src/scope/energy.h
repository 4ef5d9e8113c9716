// SPDX-License-Identifier: Apache-2.0
/* energy.h -- the energy of a step, by the rows of a store.
 *
 *     mba_energy e;
 *     MBA_TRY(mba_energy_of(&e, analysis));
 *     if (isnan(e.step_j)) puts(e.why);
 *     else printf("%g J a step, %g of them in products\n", e.step_j, mba_energy_kind_j(&e, analysis, MBA_GEMM));
 *
 * A window counts if the meter's resolution does not matter in it: 2 s of readings between changes of the meter
 * (meter.h), 5 s of a plain difference. A mean power above the card's limit is not reported: the meter is wrong. */
#ifndef MBA_SCOPE_ENERGY_H
#define MBA_SCOPE_ENERGY_H

#include "scope/analysis.h"

#define MBA_ENERGY_S_MIN         5.0 /* of a difference of two readings */
#define MBA_ENERGY_SAMPLED_S_MIN 2.0 /* between changes of the meter */
#define MBA_ENERGY_SAMPLED       "nvmlDeviceGetTotalEnergyConsumption, between its changes"

typedef struct mba_energy {
    double      step_j, unit_j, watts, units_per_j; /* NaN: not measured, or not reported; units/J = units/s per W */
    double      window_s, limit_w;                  /* NaN: not known */
    const char *mode;                               /* of the steps: "plain", "attached"; NULL: none; the store's */
    char        why[160];                           /* why nothing is reported; "" if something is */
} mba_energy;

MBA_MUST mba_status mba_energy_of(mba_energy *out, const mba_analysis *a);
bool                mba_energy_counts(const mba_row_energy *e); /* the window is long enough */

/* The energy of an operator class in a step. The meter does not separate kernels, so the step's energy is divided by
 * time: a class that draws less than the mean gets too much. NaN: not known. */
double mba_energy_kind_j(const mba_energy *e, const mba_analysis *a, int kind);
double mba_energy_gaps_j(const mba_energy *e, const mba_analysis *a); /* of the gaps between kernels */

#endif
