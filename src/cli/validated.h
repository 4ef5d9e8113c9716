// SPDX-License-Identifier: Apache-2.0
/* validated.h -- the simulator against the measured set: for `validate`, and for whoever prints a prediction. */
#ifndef MBA_VALIDATED_H
#define MBA_VALIDATED_H

#include "sim/error_bands.h"
#include "sim/step.h"

/* Predicts every point of `path` (NULL: the built-in set) on `machine` with `changes` (NULL: none). */
MBA_MUST mba_status mba_validation_points(mba_measured **out, const char *path, const char *machine,
                                          const char *changes);

/* Predicts every kernel of `path` (NULL: the built-in set): from what it was counted to do in its plan's order, and
 * from its plan alone. */
MBA_MUST mba_status mba_validation_kernels(mba_profiled_set **out, const char *path, const char *machine,
                                           const char *changes);

/* Writes down the plans of this tree beside the kernels of `path`, which were measured with it: to `out`. */
MBA_MUST mba_status mba_validation_serialize(const char *out, const char *path, const char *machine);

/* Measured over predicted time on the H200. Of whole steps, from the least to the most, and 1, which is the prediction:
 * the band around any predicted step. Of operators (NULL: not asked) by what limits them. `sim` remembers kernels for
 * what is asked besides. */
MBA_MUST mba_status mba_validation_bands(mba_band *steps, mba_error_bands *operators, mba_sim *sim);

MBA_MUST mba_status mba_validation_operators(mba_error_bands *out, const mba_measured *predicted);

/* The same of kernels that are known by their counts alone, no plan and no code: every kernel of the built-in set as if
 * a store had it, by class; and of the kernels of its steps together. */
MBA_MUST mba_status mba_validation_foreign(mba_error_bands *kernels, mba_band *steps);

#endif
