// SPDX-License-Identifier: Apache-2.0
/* power_tables.c -- see power_tables.h. */
#include "cli/power_tables.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "study/step_power.h"
#include "study/validation.h"

static const mba_column columns[] = { { "step", "power: step of", NULL },
                                      { "ghz", "measured, GHz", "%.3f" },
                                      { "predicted_ghz", "predicted, GHz", "%.3f" },
                                      { "clock_error", "error, %", "%+.1f" },
                                      { "joules", "measured, J", "%.2f" },
                                      { "predicted_joules", "predicted, J", "%.2f" },
                                      { "energy_error", "error, %", "%+.1f" },
                                      { "power_error", "of it the power, %", "%+.1f" },
                                      { "unchanged_error", "without energies, %", "%+.1f" },
                                      { 0 } };

/* A step at the limit draws the limit, by construction. */
static bool is_limited(const mba_power_step *s) { return s->predicted.watts > 0.999 * s->curve.limit_w; }

/* What knows no energies: the mean measured clock of the limited steps of other models, or the highest clock for steps
 * that are not limited. */
static double others_ghz(const mba_power_set *d, const mba_power_step *s)
{
    double sum = 0;
    int    n = 0;
    if (!is_limited(s)) return s->curve.boost_ghz;
    for (int i = 0; i < d->steps; i++)
        if (is_limited(&d->step[i]) && !mba_power_same_model(d->step[i].workload, s->workload))
            sum += d->step[i].ghz, n++;
    return n ? sum / n : NAN;
}

static void power_row(mba_table *t, const mba_power_set *d, const mba_power_step *s)
{
    const double joules = s->watts * s->seconds, predicted = s->predicted.watts * s->predicted.seconds;
    mba_table_text(t, "%s", s->workload);
    mba_table_number(t, s->ghz);
    mba_table_number(t, s->predicted.ghz);
    mba_table_number(t, mba_error_percent(s->predicted.ghz, s->ghz));
    mba_table_number(t, joules);
    mba_table_number(t, predicted);
    mba_table_number(t, mba_error_percent(predicted, joules));
    mba_table_number(t, mba_error_percent(s->predicted.watts, s->watts));
    mba_table_number(t, mba_error_percent(others_ghz(d, s), s->ghz));
}

static void say_power(const mba_power_set *d)
{
    mba_power_score s = mba_power_score_of(d);
    int             null = 0;
    for (int i = 0; i < d->steps; i++)
        if (!i || strcmp(d->step[i].workload, d->step[i - 1].workload))
            null += fabs(mba_error_percent(others_ghz(d, &d->step[i]), d->step[i].ghz)) <= 3;
    printf("of %d workloads, each predicted without the steps of its model: clock within 3 %% in %d (%d without "
           "energies: the highest clock, or that of other limited models), energy of every step within 8 %% in %d; of "
           "%d that the limit leaves alone, power within 8 %% in %d\n",
           s.workloads, s.clock, null, s.energy, s.unlimited, s.power);
    const mba_power_model *m = &d->all;
    printf("fitted to all: idle %.0f W, vector %.1f pJ, tensor %.2f pJ, DRAM %.0f pJ a byte, voltage %.2f + %.2f x\n\n",
           m->idle_w, m->vector_pj, m->tensor_pj, m->dram_pj, m->v_floor, 1 - m->v_floor);
}

mba_status mba_print_power(const char *machine, mba_table_form form)
{
    mba_power_set *d = calloc(1, sizeof *d);
    mba_table     *t = NULL;
    mba_status     st = d ? mba_power_set_parse(d, "the built-in powers", mba_power_text)
                          : mba_fail(MBA_E_NOMEM, "no memory for measured powers");
    if (st == MBA_OK) st = mba_power_set_predict(d, machine);
    if (st == MBA_OK) st = mba_table_create(&t, columns);
    for (int i = 0; st == MBA_OK && i < d->steps; i++) power_row(t, d, &d->step[i]);
    if (st == MBA_OK && form == MBA_TABLE_JSON) fputs(",\n \"power\": ", stdout);
    if (st == MBA_OK) st = mba_table_print(t, stdout, form);
    if (st == MBA_OK && form == MBA_TABLE_TEXT) say_power(d);
    mba_table_destroy(t);
    free(d);
    return st;
}

mba_status mba_print_power_limit(const mba_workload *w, double limit_w, mba_sim *sim)
{
    mba_power_curve c;
    MBA_TRY(mba_power_curve_find(&c, w, sim));
    const mba_step_power own = mba_step_power_at(&c, &c.model, c.limit_w),
                         now = mba_step_power_at(&c, &c.model, limit_w);
    printf("power: %.0f W at %.2f GHz, %.2f J a step; limited to %.0f W: %.0f W at %.2f GHz, time x%.3f, %.2f J a "
           "step%s\n",
           own.watts, own.ghz, own.watts * own.seconds, limit_w, now.watts, now.ghz, now.seconds / own.seconds,
           now.watts * now.seconds,
           now.watts > 1.001 * limit_w ? " (the limit cannot be held: the card at rest and DRAM draw more)" : "");
    return MBA_OK;
}
