/* measure.h -- times of programs on the CPU: a step, its GEMMs alone, every node.
 *
 *     double *best = calloc(nodes, sizeof *best);
 *     MBA_TRY(mba_measure_nodes(best, program, MBA_STEP, &step, 5));        // seconds, best of five
 *
 * The best of several runs is reported: on a shared machine the mean measures the neighbours. */
#ifndef MBA_MEASURE_H
#define MBA_MEASURE_H

#include "core/program.h"
#include "device/cpu/ceilings.h"

/* One run of the passes, in seconds: best of `repeats`. */
MBA_MUST mba_status mba_measure_run(double *best_s, mba_program *p, unsigned passes, const mba_step *step, int repeats);

/* The same with only the nodes of one kind: what a step made of its GEMMs alone would take, in the same
 * process, with the same tiles and operands. */
MBA_MUST mba_status mba_measure_kind(double *best_s, mba_program *p, mba_kind kind, int repeats);

/* Every node of the passes by itself; best_s has one entry per node and starts at 0. The caches are swept
 * between runs when `cold`. */
MBA_MUST mba_status mba_measure_nodes(double *best_s, mba_program *p, unsigned passes, const mba_step *step, int repeats, bool cold);

#endif
