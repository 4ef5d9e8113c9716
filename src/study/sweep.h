// SPDX-License-Identifier: Apache-2.0
/* sweep.h -- simulated training steps over one or two axes, the elasticity of a step to every number of a machine,
 * and the tensor-to-vector ratio at which operators are balanced.
 *
 *     mba_sweep s = { .w = { .machine = "h200" }, .sim = sim, .validated = band };
 *     MBA_TRY(mba_sweep_axes(&s, "hbm=x0.5:x1:x2", NULL));
 *     mba_sweep_point *p = calloc((size_t)mba_sweep_size(&s), sizeof *p);
 *     MBA_TRY(mba_sweep_points(p, &s, &mba_full_size[1]));
 *     printf("%s=%s: %.2f ms\n", s.axis[0].name, p[0].value[0], p[0].ms);
 *
 * Axes are the keys of a machine ("xu=8:16", "hbm=x0.5:x2" by a factor), groups of them (clock, launch, ratio: tensor
 * FLOPs per FMA FLOP), machine, and what changes the workload or its kernels: batch, length, chunk, ring, keep,
 * persistent. */
#ifndef MBA_STUDY_SWEEP_H
#define MBA_STUDY_SWEEP_H

#include "study/simulated_step.h"

enum { MBA_SWEEP_VALUES = 64, MBA_SWEEP_NUMBERS = 13, MBA_BALANCE_ROWS = 129 };

typedef struct mba_sweep_axis {
    char name[32];
    char value[MBA_SWEEP_VALUES][24];
    int  n;
} mba_sweep_axis;

typedef struct mba_sweep {
    mba_workload   w;         /* of its model only threads, precision, recompute and variants are read */
    mba_sweep_axis axis[2];   /* n 0: none */
    bool           spread;    /* sample the machine's numbers at every point, not only at the unchanged one */
    mba_band       validated; /* measured over predicted steps: mba_validation_bands */
    mba_sim       *sim;       /* of the caller; it remembers kernels between calls */
    /* Cost of all calls without sampling: points, kernels that were not remembered, events, seconds. */
    int64_t points, kernels, events;
    double  seconds;
} mba_sweep;

/* Reads one axis or two ("hbm=x0.5:x1:x2"). MBA_E_ARG: not an axis, or both change the same number. */
MBA_MUST mba_status mba_sweep_axes(mba_sweep *s, const char *axis, const char *by);
int                 mba_sweep_size(const mba_sweep *s);  /* points of a model */
bool                mba_sweep_draws(const mba_sweep *s); /* whether every point has a band of its speed-up */

typedef struct mba_sweep_point {
    char        model[64];
    const char *value[2];            /* of the axes, points into `s`; "-": no such axis */
    char        refused[512];        /* why this machine cannot run the step; all numbers are then NaN. "": it can */
    double      ms, low_ms, high_ms; /* the step and its band */
    double      speedup;             /* against the unchanged machine and workload */
    mba_ratio   ratio;               /* band of the speed-up, if mba_sweep_draws */
    double      units_s, dram_gbs;   /* tokens, images or graphs; of the step */
    int         limit;               /* of its longest node: mba_sim_limits */
    char        grade;               /* C if the kernels were never compiled in this form */
} mba_sweep_point;

/* Simulates every point of a model; the second axis varies fastest. */
MBA_MUST mba_status mba_sweep_points(mba_sweep_point *out, mba_sweep *s, const mba_model_options *model);

/* Elasticity: percent of speed per percent more of a number, from the step with 5 % more and with 5 % less of it. */
enum { MBA_ELASTICITY_PCT = 5 };
double mba_elasticity(double more_ms, double less_ms);

/* That of each of these numbers. */
extern const char *const mba_sweep_numbers[MBA_SWEEP_NUMBERS];
MBA_MUST mba_status mba_sweep_elasticity(double out[MBA_SWEEP_NUMBERS], mba_sweep *s, const mba_model_options *model);

/* The whole step and every operator with matrix products: at which ratio of tensor to FMA rate its products take as
 * long as its other arithmetic. */
typedef struct mba_balance {
    const char *op;
    double      ms, tensor_percent, vector_percent; /* busy: tensor units; the busiest other pipe, */
    int         pipe;                               /* which is this one (mba_sim_limits) */
    double      ratio;
} mba_balance;
MBA_MUST mba_status mba_sweep_balance(mba_balance out[MBA_BALANCE_ROWS], int *n, mba_sweep *s,
                                      const mba_model_options *model);

/* The questions of docs/results/simulator.md, some in several parts; the last has no id. */
typedef struct mba_experiment {
    const char *id, *question, *axis, *by, *model, *op;
    bool        elasticity, balance;
} mba_experiment;
extern const mba_experiment mba_experiments[];

#endif
