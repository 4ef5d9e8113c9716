// SPDX-License-Identifier: Apache-2.0
/* measure.h -- times of programs on the CPU: a step, its matrix products alone, every node.
 *
 *     double *best = calloc(nodes, sizeof *best);
 *     MBA_TRY(mba_measure_nodes(best, program, MBA_STEP, &step, 5, false)); // seconds, best of five
 *
 * The best of several runs is reported: on a shared machine the mean measures the neighbours. */
#ifndef MBA_MEASURE_H
#define MBA_MEASURE_H

#include "core/program.h"
#include "device/cpu/ceilings.h"
#include "train/session.h"

/* One run of the passes, in seconds: the best and the median of `repeats` runs. */
MBA_MUST mba_status mba_measure_run(double *best_s, double *median_s, mba_program *p, unsigned passes,
                                    const mba_step *step, int repeats);

/* The same with only the nodes that are matrix products, GEMMs and convolutions of images: what a step made of them
 * alone would take, in the same process, with the same tiles and operands. Convolutions count in the form that is a
 * matrix product of patches, whatever form the step uses. */
MBA_MUST mba_status mba_measure_gemms(double *best_s, const mba_session *s, const mba_step *step, int repeats);

/* Times every node of the passes separately; best_s has one entry per node and starts at 0. `cold`: the caches are
 * flushed between runs. */
MBA_MUST mba_status mba_measure_nodes(double *best_s, mba_program *p, unsigned passes, const mba_step *step,
                                      int repeats, bool cold);

/* Times a copy that moves `bytes`, half read and half written, under the same conditions as a single node: caches
 * flushed before each run, the best of `repeats` runs of every copy method. No operator that moves as many bytes does
 * less work, so this is the copy rate that launch, ramp and tail leave at this size. */
MBA_MUST mba_status mba_measure_copy(double *best_s, const mba_device *d, double bytes, int repeats);

/* Times a whole training step of a bound session: the median time of the step (peers' times are medians) and its
 * best, the best times of the host (a GPU continues by itself), of its matrix products only and of every node; the
 * floors of all nodes and of each (of the valid part of a padded batch); and the units of the step. The caller frees
 * node_s and node_floor_s. */
typedef struct mba_step_times {
    double step_s, median_s, host_s, gemm_s, floor_s, nodes_s, units, *node_s, *node_floor_s;
} mba_step_times;
MBA_MUST mba_status mba_measure_step(mba_step_times *out, mba_session *s, const mba_ceilings *c, int repeats);

#endif
