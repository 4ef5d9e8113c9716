// SPDX-License-Identifier: Apache-2.0
/* simulated_step.h -- simulates a training step of a workload on a machine that need not be here, its uncertainty and
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

typedef struct mba_known_code mba_known_code; /* known_code.h */

typedef struct mba_workload {
    const char       *machine, *changes;  /* as mba_gpu_load and mba_gpu_set take them */
    mba_model_options model;              /* name, set, shape, precision, recompute, variants */
    bool              stream, persistent; /* launch kernels one by one; use persistent blocks */
    int64_t           ring;               /* stages of every ring buffer of asynchronous copies; 0: as planned */
    const char       *keep;               /* scratch that stays on the chip: mba_sim_how */
    mba_known_code   *code;               /* counts of kernels that are known; NULL: launch plans alone */
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
    double       units, seconds_taken; /* tokens, images or graphs of a step; duration of the simulation */
} mba_simulated;

/* Sets up the machine alone: programs can be planned for r->device. Do not copy r: its parts point at each other. */
MBA_MUST mba_status mba_simulated_machine(mba_simulated *r, const char *machine, const char *changes);
/* The session that mba_simulated_plan plans, on r->device. */
MBA_MUST mba_status mba_simulated_options(mba_session_options *so, const mba_simulated *r, const mba_workload *w);
MBA_MUST mba_status mba_simulated_plan(mba_simulated *r, const mba_workload *w);
/* The same on a machine that is loaded; that of the workload is not read. */
MBA_MUST mba_status mba_simulated_plan_on(mba_simulated *r, const mba_workload *w, const mba_gpu *m);
/* Simulates a training step of r->session, which is planned. Reads only the launch options of the workload. */
MBA_MUST mba_status mba_simulated_step(mba_simulated *r, const mba_workload *w, mba_sim *sim);
/* Plans, lets power set the clocks (step_power.h), then simulates a training step. */
MBA_MUST mba_status mba_simulated_run(mba_simulated *r, const mba_workload *w, mba_sim *sim);
/* Writes MBA_GPU_SAMPLES ratios: the time of the same step on a machine with sampled numbers (sim/uncertainty.h) over
 * its time on this machine. `part` gives for every node which of `parts` it belongs to; as many ratios follow for each
 * part. NULL and 0: no parts. */
MBA_MUST mba_status mba_simulated_draws(double *times, const mba_simulated *r, const mba_workload *w, mba_sim *sim,
                                        const int *part, int parts);
void                mba_simulated_end(mba_simulated *r); /* accepts one whose simulation failed */

/* 'A': kernels checked by counters on a calibrated machine; none is yet. 'B': validated against measured times of that
 * machine. 'C': another machine, a changed one, or kernels that were never compiled for it. */
char mba_simulated_grade(const mba_gpu *m);

#endif
