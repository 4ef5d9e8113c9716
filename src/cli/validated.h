/* validated.h -- the simulator against the measured set: for `validate`, and for whoever prints a prediction. */
#ifndef MBA_VALIDATED_H
#define MBA_VALIDATED_H

#include "sim/counted.h"
#include "sim/step.h"

/* Predicts every point of `path` (NULL: the built-in set) on `machine` with `changes` (NULL: none). */
MBA_MUST mba_status mba_validated(mba_measured **out, const char *path, const char *machine, const char *changes);

/* Predicts every kernel of `path` (NULL: the built-in set): from what it was counted to do in its plan's order, and from
 * its plan alone. */
MBA_MUST mba_status mba_validated_kernels(mba_counted_set **out, const char *path, const char *machine,
                                          const char *changes);

/* Writes down the plans of this tree beside the kernels of `path`, which were measured with it: to `out`. */
MBA_MUST mba_status mba_validated_freeze(const char *out, const char *path, const char *machine);

/* Measured over predicted time of whole steps on the H200, from the least to the most, and 1, which is the prediction:
 * the band around any predicted step. `sim` remembers kernels for what is asked besides. */
MBA_MUST mba_status mba_validated_band(mba_band *out, mba_sim *sim);

#endif
