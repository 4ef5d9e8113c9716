// SPDX-License-Identifier: Apache-2.0
/* whatif.h -- simulations for the models of a report: other machines, other sizes, and their validation.
 *
 *     mba_whatif *w = calloc(1, sizeof *w);
 *     MBA_TRY(mba_whatif_make(w, runs, n));                      // some hundred simulated steps: a few seconds
 *     mba_doubled d = mba_wi_doubled(w, -1, MBA_WI_STEP);
 *     printf("twice the %s: %.2f times as fast\n", w->curve[d.axis].name, d.gain);
 *
 * The result is plain numbers, so that drawing them needs no simulator. Everything is SIMULATED except measured_ms and
 * the measured set. */
#ifndef MBA_STUDY_WHATIF_H
#define MBA_STUDY_WHATIF_H

#include "scope/analysis.h"
#include "study/best_ratio.h"

enum {
    MBA_WI_MODELS = 5,
    MBA_WI_VALUES = 6,
    MBA_WI_SLIDERS = 3,
    MBA_WI_GRID = 72,
    MBA_WI_CURVES = 10,
    MBA_WI_BOUNDS = 7,
    MBA_WI_MACHINES = 8,
    MBA_WI_SIZES = 5,
    MBA_WI_STEPS = 24,
    MBA_WI_OPS = 64,
    MBA_WI_SCORES = 3
};

typedef struct mba_wi_axis {
    const char *key, *name;
    int         n;
    double      value[MBA_WI_VALUES];
} mba_wi_axis;

/* The time of a step and its parts, by what limits the longest launch of each operator; the same for its SSM operators
 * alone. */
typedef struct mba_wi_time {
    double ms, share[MBA_WI_BOUNDS];
} mba_wi_time;
typedef enum mba_wi_of { MBA_WI_STEP, MBA_WI_SSM, MBA_WI_PARTS } mba_wi_of;
typedef struct mba_wi_step {
    mba_wi_time of[MBA_WI_PARTS];
} mba_wi_step;

/* All launches of an operator in a step. */
typedef struct mba_wi_op {
    char   name[48];
    double ms[MBA_WI_MACHINES];
} mba_wi_op;

/* A step on another machine, and its band as `simulate` prints it. Software as it is: each machine runs the kernels
 * that this program chooses for it. Equal kernels: operators whose kernels would differ run the variant that most
 * machines choose. */
typedef enum mba_wi_set { MBA_WI_AS_IT_IS, MBA_WI_EQUAL, MBA_WI_SETS } mba_wi_set;
typedef struct mba_wi_on {
    double ms, low_ms, high_ms; /* NaN: the machine cannot run it */
} mba_wi_on;

typedef struct mba_wi_model {
    char name[64], batch[128], unit[16];
    /* measured on the machine that is simulated, else NaN; of a part: the sum of its kernels */
    double      units, measured_ms[MBA_WI_PARTS];
    bool        text;
    mba_wi_step base, grid[MBA_WI_GRID]; /* grid: all values of the sliders, the last one fastest */
    double      curve_ms[MBA_WI_PARTS][MBA_WI_CURVES][MBA_WI_VALUES]; /* NaN: the machine is too small for it */
    double      elasticity[MBA_WI_CURVES];                            /* of the step: mba_elasticity */
    mba_wi_on   machine[MBA_WI_SETS][MBA_WI_MACHINES];
    char        equal[256]; /* what the equal kernels are: "ssd=chunked,ssd_bwd=chunked"; "": they are equal anyway */
    double      size_us[MBA_WI_SIZES][MBA_WI_VALUES]; /* per unit; of text */
    mba_wi_op   op[MBA_WI_OPS];
    int         nops;
} mba_wi_model;

/* A set of measured points, and the errors of their predictions in percent. */
typedef struct mba_wi_score {
    const char *name;
    int         points;
    double      mean, p90, worst, correlation, roofline;
} mba_wi_score;
typedef struct mba_wi_measured {
    char   subject[96];
    double measured_ms, predicted_ms;
} mba_wi_measured;

typedef struct mba_whatif {
    char            machine[64]; /* the machine that is changed: "h200" */
    char            grade;       /* grade of the unchanged machine; changed ones are C */
    double          low, high;   /* measured over predicted time of whole steps, least and most; 1 lies between */
    mba_wi_axis     slider[MBA_WI_SLIDERS], curve[MBA_WI_CURVES], size[MBA_WI_SIZES];
    int             ncurves, nsizes;
    char            machines[MBA_WI_MACHINES][32];
    char            grades[MBA_WI_MACHINES];
    int             nmachines;
    mba_wi_model    model[MBA_WI_MODELS];
    int             nmodels;
    mba_wi_score    score[MBA_WI_SCORES];   /* held out, fitted, machines imitated on an H200 */
    int             effects, effects_right; /* on SSM kernels (emulated_operators.h): 3 % or more; of the right sign */
    double          effects_share;          /* the part of them that is predicted, percent */
    mba_wi_measured step[MBA_WI_STEPS];
    int             nsteps;
    mba_best_ratio  ratio;
} mba_whatif;

extern const char *const mba_wi_bounds[MBA_WI_BOUNDS]; /* "DRAM", "L2", .. */

/* Simulates the models of those runs that ran on a GPU, at their sizes, on the machine of the first; if none did, the
 * five workloads at full size on an H200. The caller owns `out`. */
MBA_MUST mba_status mba_whatif_make(mba_whatif *out, const mba_analysis *const *run, int runs);

/* The built-in machine file of the GPU that a run used; NULL: it ran on the CPU, or there is no file. */
const char *mba_machine_of_run(const mba_analysis *a);

/* Index of the unchanged machine on an axis; -1: not on it. */
int mba_wi_base(const mba_wi_axis *a);
int mba_wi_grid_size(const mba_whatif *w);

/* Time on the unchanged machine over that with value i of a curve. */
double mba_wi_speedup(const mba_whatif *w, int model, mba_wi_of part, int axis, int i);

/* The number of the machine that speeds a model up most when it is doubled; model -1: the model that gains most. The
 * clock is left out, because it speeds up everything. gain 0: no axis was doubled. */
typedef struct mba_doubled {
    double gain;
    int    axis, model;
} mba_doubled;
mba_doubled mba_wi_doubled(const mba_whatif *w, int model, mba_wi_of part);

/* The largest elasticity of a model's step; *axis: its curve. The clock is left out. */
double mba_whatif_gain(const mba_whatif *w, const mba_wi_model *m, int *axis);

#endif
