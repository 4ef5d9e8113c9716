// SPDX-License-Identifier: Apache-2.0
/* step_power.h -- clock, time and energy of a step under a power limit, and how far off they are.
 *
 *     mba_power_curve c;
 *     MBA_TRY(mba_power_curve_find(&c, &workload, sim));           // four simulations, at pinned clocks
 *     const mba_step_power p = mba_step_power_at(&c, &c.model, 500);
 *     printf("%.2f GHz, %.1f ms, %.1f J at 500 W\n", p.ghz, 1e3 * p.seconds, p.watts * p.seconds);
 *
 * All kernels of a step run at one clock: the driver changes it more slowly than kernels follow each other. */
#ifndef MBA_STUDY_STEP_POWER_H
#define MBA_STUDY_STEP_POWER_H

#include "sim/power.h"
#include "study/simulated_step.h"

enum { MBA_POWER_CLOCKS = 4 };
typedef struct mba_power_curve {
    double          seconds[MBA_POWER_CLOCKS]; /* of the step at the fractions 1, 0.85, 0.7, 0.55 of the boost clock */
    double          boost_ghz, limit_w;
    mba_power_rates work; /* events of the step, 10^12 */
    mba_power_model model;
} mba_power_curve;
MBA_MUST mba_status mba_power_curve_find(mba_power_curve *out, const mba_workload *w, mba_sim *sim);
double              mba_power_curve_seconds(const mba_power_curve *c, double x); /* between and beyond the clocks */

/* The highest clock at which the step does not exceed `limit_w`, down to a tenth of the boost clock. */
typedef struct mba_step_power {
    double ghz, seconds, watts;
} mba_step_power;
mba_step_power mba_step_power_at(const mba_power_curve *c, const mba_power_model *p, double limit_w);

/* Scales the clocks of `m`, none above clk_boost, as the clock of the step changes from the power limit and energies at
 * which they hold to those that `m` has now. Does nothing if these are the same. The clocks of a card (sim/machine.h)
 * hold on another machine: they change as the clock of the step does from that machine to this. */
MBA_MUST mba_status mba_power_clocks(mba_gpu *m, const mba_workload *w, mba_sim *sim);

/* The same for any work: `run` simulates it on `m`, for its seconds and its events, 10^12. */
typedef mba_status (*mba_power_run)(double *seconds, mba_power_rates *work, void *of, const mba_gpu *m);
MBA_MUST mba_status mba_power_clocks_of(mba_gpu *m, mba_power_run run, void *of);

/* A measured step: time, power and clock by the driver. Predictions leave its workload out of the fit. */
typedef struct mba_power_step {
    char            workload[160];
    double          seconds, watts, ghz;
    mba_power_curve curve;
    mba_step_power  predicted;
} mba_power_step;

enum { MBA_POWER_STEPS_MAX = 64 };
typedef struct mba_power_set {
    mba_power_step  step[MBA_POWER_STEPS_MAX];
    mba_power_point loop[MBA_POWER_STEPS_MAX]; /* of fixed mixes of work (tools/power_loops.cu) */
    int             steps, loops;
    mba_power_model all; /* fitted to everything: the machine file has it */
} mba_power_set;
extern const char   mba_power_text[]; /* src/sim/data/power.tsv */
MBA_MUST mba_status mba_power_set_parse(mba_power_set *out, const char *where, const char *text);
/* Predicts every step with a fit without the steps of its model. Times and work are those of known code (known_code.h)
 * that was counted in other workloads. */
MBA_MUST mba_status mba_power_set_predict(mba_power_set *d, const char *machine);

bool mba_power_same_model(const char *a, const char *b); /* of two workloads, by their first words */

/* Workloads whose clock is within 3 %; those each of whose measured steps has an energy within 8 %; and of those that
 * the limit leaves alone, which draw it by construction otherwise, those whose power is within 8 %. */
typedef struct mba_power_score {
    int workloads, clock, energy, unlimited, power;
} mba_power_score;
mba_power_score mba_power_score_of(const mba_power_set *d);

#endif
