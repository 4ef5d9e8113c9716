// SPDX-License-Identifier: Apache-2.0
/* bench_power.c -- see bench_power.h. */
#include "cli/bench_power.h"

#include <math.h>
#include <stdio.h>

#include "scope/clock.h"
#include "scope/meter.h"
#include "study/validation.h"
#include "train/feed.h"

static const double WARM_S = 0.6, METERED_S = 2.1; // power and clock settle in the first; the second counts

static const mba_column columns[] = { { "step", "step of", NULL },
                                      { "ms", "ms", "%.3f" },
                                      { "watts", "W", "%.1f" },
                                      { "ghz", "GHz", "%.4f" },
                                      { "joules", "J", "%.3f" },
                                      { "limit_w", "limit, W", "%.0f" },
                                      { 0 } };

/* Runs steps for `seconds`, some ahead of the device; waits for them. */
static mba_status run_for(const mba_session *s, const mba_step *step, double seconds, int64_t *steps)
{
    enum { AHEAD = 4 };
    const double from = mba_clock_s();
    for (*steps = 0; mba_clock_s() - from < seconds; ++*steps) {
        MBA_TRY(mba_program_run(s->program, MBA_STEP, step, NULL));
        if (*steps % AHEAD == AHEAD - 1) MBA_TRY(mba_program_wait(s->program));
    }
    return mba_program_wait(s->program);
}

static mba_status meter_steps(mba_table *t, const char *workload, const mba_session *s, const mba_step *step)
{
    mba_meter *m = NULL;
    int64_t    steps = 0;
    MBA_TRY(run_for(s, step, WARM_S, &steps));
    MBA_TRY(mba_meter_start(&m, s->device->bus_id));
    const double     from = mba_clock_s();
    const mba_status st = run_for(s, step, METERED_S, &steps);
    const double     to = mba_clock_s();
    mba_meter_stop(m);
    const double seconds = (to - from) / (double)steps, watts = mba_meter_mean_w(m, from, to);
    mba_table_text(t, "%s", workload);
    mba_table_number(t, 1e3 * seconds);
    mba_table_number(t, watts);
    mba_table_number(t, mba_meter_mean_ghz(m, from, to));
    mba_table_number(t, watts * seconds);
    mba_table_number(t, mba_meter_limit_w(m));
    mba_meter_destroy(m);
    return st;
}

static mba_status bench_workload(mba_table *t, const char *workload)
{
    char                words[256];
    mba_workload        w = { 0 };
    mba_session         s = { 0 };
    mba_session_options so = { .backward = true, .update = true };
    mba_step            step = { .seed = 1, .lr = 1e-4f };
    snprintf(words, sizeof words, "%s", workload);
    MBA_TRY(mba_workload_parse(&w, words));
    w.model.device = "cuda";
    so.adamw = mba_adamw_defaults();
    MBA_TRY(mba_model_options_apply(&w.model, &so));
    mba_status st = mba_session_plan(&s, &so);
    if (st == MBA_OK) st = mba_session_bind(&s, 1);
    if (st == MBA_OK) st = mba_feed_example(&s, &step);
    if (st == MBA_OK) st = meter_steps(t, workload, &s, &step);
    mba_session_end(&s);
    return st == MBA_OK ? st : mba_where(st, "%s", workload);
}

mba_status mba_bench_power(const mba_operands *words, mba_table_form form)
{
    mba_table *t = NULL;
    MBA_TRY(mba_table_create(&t, columns));
    mba_status st = MBA_OK;
    for (int i = 1; i < words->n && st == MBA_OK; i++) {
        st = bench_workload(t, words->word[i]);
        if (st == MBA_OK) st = mba_table_flow(t, stdout, form, false);
    }
    if (st == MBA_OK) st = mba_table_flow(t, stdout, form, true);
    mba_table_destroy(t);
    return st;
}
