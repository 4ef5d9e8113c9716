// SPDX-License-Identifier: Apache-2.0
/* validation.h -- compares the simulator with measured times: predicts every measured point and every profiled kernel,
 * and computes the bands around other predictions from the errors.
 *
 *     mba_measured *d;
 *     MBA_TRY(mba_validation_points(&d, NULL, "h200", NULL));
 *     printf("%.1f %%\n", mba_measured_score(d, MBA_POINT_HELD).mape);
 *     mba_measured_destroy(d);
 */
#ifndef MBA_STUDY_VALIDATION_H
#define MBA_STUDY_VALIDATION_H

#include "sim/emulate.h"
#include "sim/error_bands.h"
#include "sim/step.h"
#include "study/simulated_step.h"

/* Predicts every point of `path` (NULL: the built-in set) on `machine` with `changes` (NULL: none). */
MBA_MUST mba_status mba_validation_points(mba_measured **out, const char *path, const char *machine,
                                          const char *changes);

/* Predicts every kernel of `path` (NULL: the built-in set) twice: from its counters in the order of its launch plan,
 * and from the plan alone. */
MBA_MUST mba_status mba_validation_kernels(mba_profiled_set **out, const char *path, const char *machine,
                                           const char *changes);

/* The row of a launch of a program that was planned for this workload, or NULL. */
mba_profiled_kernel *mba_validation_row(mba_profiled_set *d, const char *workload, const mba_program *p, int32_t node,
                                        int launch);

/* Predicts all points of `d` that are parts of steps; `sim` remembers kernels. */
MBA_MUST mba_status mba_validation_steps(mba_measured *d, mba_sim *sim, const char *machine, const char *changes);

/* Predicts the same points again, with the code of kernels that were counted in other workloads (known_code.h);
 * `code` leaves out nothing afterwards. */
MBA_MUST mba_status mba_validation_known_code(mba_measured *d, const char *machine, const char *changes);
MBA_MUST mba_status mba_validation_with_code(mba_measured *d, mba_sim *sim, const char *machine, const char *changes,
                                             mba_known_code *code);

/* The same for the built-in steps at other sizes and layers of SSD variants. */
MBA_MUST mba_status mba_validation_sizes(mba_measured **out, const char *machine, const char *changes);

/* Parses the operands of `bench step` ("mamba2-130m --set chunk=128 --batch 8"); cuts `words` in place. */
MBA_MUST mba_status mba_workload_parse(mba_workload *w, char *words);

/* Copies the kernels of `path` to `out` and appends to each the launch plan of this tree, which must be the one that
 * was measured. */
MBA_MUST mba_status mba_validation_serialize(const char *out, const char *path, const char *machine);

/* Widens the band to one more measured time over its prediction. */
void mba_band_take_in(mba_band *b, double times);

/* The range of measured over predicted time (`known`: with known code) of the whole steps of `d`, widened to contain 1.
 */
MBA_MUST mba_status mba_step_band_of(mba_band *out, const mba_measured *d, bool known);

/* Measured over predicted time on the H200. `steps`: the range over whole steps, widened to contain 1: the band around
 * any predicted step. `operators` (may be NULL): bands by what limits an operator. `sim` remembers the kernels for
 * later calls. `code`: steps are predicted with it, without what was counted in them; NULL: from their plans. */
MBA_MUST mba_status mba_validation_bands(mba_band *steps, mba_error_bands *operators, mba_sim *sim,
                                         mba_known_code *code);

MBA_MUST mba_status mba_validation_operators(mba_error_bands *out, const mba_measured *predicted);

/* The same for kernels that are known by their counters alone, without plan and SASS: every kernel of the built-in
 * set as if it came from a store, by class; and for the kernels of a step together. */
MBA_MUST mba_status mba_validation_foreign(mba_error_bands *kernels, mba_band *steps);

/* ---- statistics ---- */

double mba_error_percent(double predicted, double measured); /* signed; NaN if one of them is not above 0 */

/* A step of p's workload, ms: its kernels from their counters, and the inputs, which counters do not see. 0: not
 * profiled. */
double mba_step_ms_from_counters(const mba_profiled_set *k, const mba_point *p);

/* Counted DRAM bytes of a step: every kernel of the workload as often as it runs. 0: not counted. */
double mba_step_dram_bytes(const mba_profiled_set *k, const char *workload);

/* The held-out kernel whose time is predicted worst, or NULL. */
const mba_profiled_kernel *mba_worst_kernel(const mba_profiled_set *k);

/* The whole step that is predicted worst: its error in percent, signed. 0: no step. */
double mba_worst_step_percent(const mba_measured *predicted);

/* Predicted against measured slow-down on emulated machines (sim/emulate.h). A change is more than 1 %. */
typedef struct mba_emulation_agreement {
    double predicted[MBA_EMULATED_MAX]; /* of row i */
    int    opposite, missed, invented;  /* changes: of the other sign; not predicted; predicted but not measured */
    int    near, within;                /* rows up to 2.1 times as long; those predicted within 10 % */
} mba_emulation_agreement;
MBA_MUST mba_status mba_emulation_compare(mba_emulation_agreement *out, const mba_emulated_set *d, const mba_gpu *m);

#endif
