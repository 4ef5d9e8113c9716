// SPDX-License-Identifier: Apache-2.0
/* simulated.h -- a workload on a machine that is not there: what `simulate`, `sweep`, `validate` and `suite` share.
 *
 *     mba_workload w = { .machine = "h200", .model = { .name = "mamba2-130m" } };     // 8 x 2048 unless told
 *     mba_simulated r;
 *     MBA_TRY(mba_simulated_run(&r, &w, sim));
 *     printf("%.1f ms\n", 1e3 * r.step.seconds);
 *     mba_simulated_end(&r);
 */
#ifndef MBA_SIMULATED_H
#define MBA_SIMULATED_H

#include "cli/model_options.h"
#include "sim/machine_names.h"
#include "sim/uncertainty.h"
#include "sim/step.h"

typedef struct mba_workload {
    const char       *machine, *changes;  /* as mba_gpu_load and mba_gpu_set take them */
    mba_model_options model;              /* name, set, shape, precision, recompute, variants */
    bool              stream, persistent; /* launched one by one; with persistent blocks, which take tiles in a loop */
    int64_t           ring;               /* stages of every ring of asynchronous copies; 0: as planned */
    const char       *keep;               /* scratch that never leaves the chip: mba_sim_how */
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
    double       units, seconds_taken; /* tokens, images or graphs of a step; of this computer */
} mba_simulated;

/* The machine alone: r->device is one to plan for. r must stay where it is, its parts point at each other. */
MBA_MUST mba_status mba_simulated_machine(mba_simulated *r, const char *machine, const char *changes);
MBA_MUST mba_status mba_simulated_plan(mba_simulated *r, const mba_workload *w);
/* A training step of the session that is planned; of the workload only how it is launched. */
MBA_MUST mba_status mba_simulated_step(mba_simulated *r, const mba_workload *w, mba_sim *sim);
/* Plans, then simulates a training step. */
MBA_MUST mba_status mba_simulated_run(mba_simulated *r, const mba_workload *w, mba_sim *sim);
/* How many times as long the same step takes on MBA_GPU_SAMPLES machines within the spreads of its numbers
 * (sim/uncertainty.h). `part` says for every node which of `parts` it belongs to: MBA_GPU_SAMPLES times follow for each
 * of them. NULL and 0: none. */
MBA_MUST mba_status mba_simulated_draws(double *times, const mba_simulated *r, const mba_workload *w, mba_sim *sim,
                                        const int *part, int parts);
void                mba_simulated_end(mba_simulated *r); /* half-made ones are fine */

/* 'A': kernels checked by counters on a calibrated machine; none is yet. 'B': validated against measured times of that
 * machine. 'C': another machine, a changed one, or kernels imagined to run there. */
char mba_simulated_grade(const mba_gpu *m);

/* Options that name a workload; `w` is a pointer to mba_workload. */
#define MBA_WORKLOAD_OPTIONS(w) \
    { "--machine", MBA_OPT_TEXT, &(w)->machine, "NAME", MBA_GPU_NAMES ", or a machine file", 0, 0 }, \
        { "--set", \
          MBA_OPT_TEXT, \
          &(w)->changes, \
          "K=V,..", \
          "change the machine: hbm=6000, or hbm=x1.25 for a factor; see simulate --keys", \
          0, \
          0 }, \
        { "--model", MBA_OPT_TEXT, &(w)->model.name, "NAME", "preset; `mambascope list models` shows them", 0, 0 }, \
        { "--model-set", \
          MBA_OPT_TEXT, \
          &(w)->model.set, \
          "K=V,..", \
          "override fields of the model; see `mambascope list fields`", \
          0, \
          0 }, \
        MBA_SHAPE_OPTIONS(&(w)->model.shape), \
        { "--precision", MBA_OPT_TEXT, &(w)->model.precision, "TYPE", "bf16 or fp32 [bf16]", 0, 0 }, \
        { "--recompute", \
          MBA_OPT_TEXT, \
          &(w)->model.recompute, \
          "WHEN", \
          "recompute activations: auto (only if memory is short), on, off, states (SSD only) [auto]", \
          0, \
          0 }, \
        { "--op", \
          MBA_OPT_TEXT, \
          &(w)->model.variants, \
          "OP=V,..", \
          "force operator variants; see `mambascope list ops`", \
          0, \
          0 }, \
    { \
        "--threads", MBA_OPT_INT, &(w)->model.threads, "N", "CPU threads; does not change results", 1, 4096 \
    }

#endif
