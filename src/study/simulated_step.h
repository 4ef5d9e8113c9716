// SPDX-License-Identifier: Apache-2.0
/* simulated_step.h -- a training step of a workload on a machine that need not be here: one simulation, its draws,
 * its grade.
 *
 *     mba_workload w = { .machine = "h200", .model = { .name = "mamba2-130m" } };     // 8 x 2048 tokens by default
 *     mba_simulated r;
 *     MBA_TRY(mba_simulated_run(&r, &w, sim));
 *     printf("%.1f ms\n", 1e3 * r.step.seconds);
 *     mba_simulated_end(&r);
 */
#ifndef MBA_STUDY_SIMULATED_STEP_H
#define MBA_STUDY_SIMULATED_STEP_H

#include "sim/step.h"
#include "sim/uncertainty.h"
#include "train/run_options.h"

typedef struct mba_workload {
    const char       *machine, *changes;  /* as mba_gpu_load and mba_gpu_set take them */
    mba_model_options model;              /* name, set, shape, precision, recompute, variants */
    bool              stream, persistent; /* launched one by one; persistent blocks that loop over tiles */
    int64_t           ring;               /* stages of every ring buffer of asynchronous copies; 0: as planned */
    const char       *keep;               /* scratch that stays on the chip: mba_sim_how */
} mba_workload;

/* The five workloads at full size: 130m language models at 8 x 2048 tokens, 128 images, 128 graphs. The last has no
 * name. */
extern const mba_model_options mba_full_size[];

typedef struct mba_simulated {
    mba_gpu      gpu;
    mba_machine  machine;
    mba_device   device;
    mba_session  session; /* planned, never bound */
    mba_sim_step step;
    double       units, seconds_taken; /* tokens, images or graphs of a step; what the simulation took */
} mba_simulated;

/* Only the machine: programs can be planned for r->device. r must not move, because its parts point at each other. */
MBA_MUST mba_status mba_simulated_machine(mba_simulated *r, const char *machine, const char *changes);
MBA_MUST mba_status mba_simulated_plan(mba_simulated *r, const mba_workload *w);
/* Simulates a training step of r->session, which is planned. Of the workload, only how it is launched is read. */
MBA_MUST mba_status mba_simulated_step(mba_simulated *r, const mba_workload *w, mba_sim *sim);
/* Plans, then simulates a training step. */
MBA_MUST mba_status mba_simulated_run(mba_simulated *r, const mba_workload *w, mba_sim *sim);
/* How many times as long the same step takes on MBA_GPU_SAMPLES machines within the spreads of its numbers
 * (sim/uncertainty.h). `part` says for every node which of `parts` it belongs to: MBA_GPU_SAMPLES times follow for
 * each of them. NULL and 0: none. */
MBA_MUST mba_status mba_simulated_draws(double *times, const mba_simulated *r, const mba_workload *w, mba_sim *sim,
                                        const int *part, int parts);
void                mba_simulated_end(mba_simulated *r); /* a half-made one is fine */

/* 'A': kernels checked by counters on a calibrated machine; none is yet. 'B': validated against measured times of that
 * machine. 'C': another machine, a changed one, or kernels imagined to run there. */
char mba_simulated_grade(const mba_gpu *m);

#endif
