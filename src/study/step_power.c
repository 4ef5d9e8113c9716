// SPDX-License-Identifier: Apache-2.0
/* step_power.c -- see step_power.h. */
#include "study/step_power.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "sim/tsv.h"
#include "study/known_code.h"
#include "study/validation.h"

static const double fraction[MBA_POWER_CLOCKS] = { 1, 0.85, 0.7, 0.55 }, LEAST = 0.1;
static const double LOOP_WEIGHT = 0.1; // loops are simpler than steps: they settle what steps leave open

static mba_status curve_of(mba_power_curve *out, const mba_gpu *m, mba_power_run run, void *of)
{
    *out = (mba_power_curve){ .boost_ghz = m->v[MBA_GPU_clk_boost],
                              .limit_w = m->v[MBA_GPU_power_limit],
                              .model = mba_power_model_of(m) };
    for (int i = 0; i < MBA_POWER_CLOCKS; i++) {
        mba_gpu         pinned = *m;
        mba_power_rates work = { 0 };
        for (int k = 0; k < MBA_GPU_CLOCKS; k++) pinned.v[mba_gpu_clocks[k]] = out->boost_ghz * fraction[i];
        MBA_TRY(run(&out->seconds[i], &work, of, &pinned));
        if (!i) out->work = work;
    }
    return MBA_OK;
}

typedef struct step_work {
    const mba_workload *w;
    mba_sim            *sim;
} step_work;

static mba_status run_step(double *seconds, mba_power_rates *work, void *of, const mba_gpu *m)
{
    const step_work *s = of;
    mba_simulated    r = { 0 };
    mba_status       st = mba_simulated_plan_on(&r, s->w, m);
    if (st == MBA_OK) st = mba_simulated_step(&r, s->w, s->sim);
    *seconds = r.step.seconds;
    if (st == MBA_OK) *work = mba_power_rates_of(&r.step, 1);
    mba_simulated_end(&r);
    return st;
}

mba_status mba_power_curve_find(mba_power_curve *out, const mba_workload *w, mba_sim *sim)
{
    mba_gpu m;
    *out = (mba_power_curve){ 0 };
    MBA_TRY(mba_gpu_load(&m, w->machine ? w->machine : "h200"));
    MBA_TRY(mba_gpu_set(&m, w->changes));
    return curve_of(out, &m, run_step, &(step_work){ w, sim });
}

/* Linear in the length of a cycle: what waits for DRAM does not depend on it. */
double mba_power_curve_seconds(const mba_power_curve *c, double x)
{
    int i = 0;
    mba_assert(x > 0);
    while (i + 2 < MBA_POWER_CLOCKS && x < fraction[i + 1]) i++;
    const double a = 1 / fraction[i], b = 1 / fraction[i + 1];
    return c->seconds[i] + (c->seconds[i + 1] - c->seconds[i]) * (1 / x - a) / (b - a);
}

static mba_power_rates rates_at(const mba_power_curve *c, double seconds)
{
    return (mba_power_rates){ c->work.vector / seconds, c->work.tensor / seconds, c->work.dram / seconds };
}

static double watts_at(const mba_power_curve *c, const mba_power_model *p, double x)
{
    const mba_power_rates r = rates_at(c, mba_power_curve_seconds(c, x));
    return mba_power_w(p, &r, x);
}

mba_step_power mba_step_power_at(const mba_power_curve *c, const mba_power_model *p, double limit_w)
{
    double low = LEAST, high = 1;
    for (int i = 0; i < 40 && watts_at(c, p, high) > limit_w; i++) {
        const double x = (low + high) / 2;
        if (watts_at(c, p, x) > limit_w) high = x;
        else low = x;
        if (i == 39) high = low;
    }
    const double x = watts_at(c, p, high) > limit_w ? low : high;
    return (mba_step_power){ c->boost_ghz * x, mba_power_curve_seconds(c, x), watts_at(c, p, x) };
}

/* The machine on which the clocks of `m` hold. False: it is `m`. */
static bool clocks_hold_elsewhere(mba_gpu *then, const mba_gpu *m)
{
    bool same = true;
    *then = *m;
    for (int i = 0; i < MBA_GPU_POWERS; i++) {
        const int k = mba_gpu_powers[i];
        same &= m->v[k] == m->clocks_on[k];
        then->v[k] = m->clocks_on[k];
    }
    if (m->card) memcpy(then->v, m->clocks_on, sizeof then->v);
    return m->card || !same;
}

mba_status mba_power_clocks_of(mba_gpu *m, mba_power_run run, void *of)
{
    mba_gpu then;
    if (!clocks_hold_elsewhere(&then, m)) return MBA_OK;
    mba_power_curve here, there;
    MBA_TRY(curve_of(&here, m, run, of));
    there = here;
    if (m->card) MBA_TRY(curve_of(&there, &then, run, of));
    const mba_power_model was = mba_power_model_of(&then), is = mba_power_model_of(m);
    const double          before = mba_step_power_at(&there, &was, then.v[MBA_GPU_power_limit]).ghz,
                 now = mba_step_power_at(&here, &is, m->v[MBA_GPU_power_limit]).ghz, boost = m->v[MBA_GPU_clk_boost];
    for (int i = 0; i < MBA_GPU_CLOCKS; i++) {
        double      *v = &m->v[mba_gpu_clocks[i]];
        const double held = then.v[mba_gpu_clocks[i]];
        if (m->card) *v = fmin((*v == fmin(held, boost) ? held : *v) * now / before, boost);
        else *v = now > before ? fmax(*v, fmin(*v * now / before, boost)) : *v * now / before;
    }
    return MBA_OK;
}

mba_status mba_power_clocks(mba_gpu *m, const mba_workload *w, mba_sim *sim)
{
    return mba_power_clocks_of(m, run_step, &(step_work){ w, sim });
}

/* ---- measured steps and loops ---- */

static bool take_row(mba_power_set *d, const mba_tsv_row *t)
{
    const char *at = t->at;
    char        kind[16], name[160];
    double      v[5];
    if (!mba_tsv_cell(&at, t->end, kind, sizeof kind) || !mba_tsv_cell(&at, t->end, name, sizeof name)) return false;
    const bool loop = !strcmp(kind, "loop");
    if (!loop && strcmp(kind, "step")) return false;
    for (int i = 0; i < (loop ? 4 : 3); i++)
        if (!mba_tsv_number(&at, t->end, 1e18, &v[i])) return false;
    if (at != t->end || !(v[0] > 0) || d->loops == MBA_POWER_STEPS_MAX || d->steps == MBA_POWER_STEPS_MAX) return false;
    if (loop) {
        d->loop[d->loops++] = (mba_power_point){
            { 1e-12 * v[1], 1e-12 * v[2], 1e-12 * v[3] }, .x = 1, .watts = v[0], .weight = LOOP_WEIGHT
        };
        return true;
    }
    mba_power_step *s = &d->step[d->steps++];
    *s = (mba_power_step){ .seconds = 1e-3 * v[0], .watts = v[1], .ghz = v[2] };
    snprintf(s->workload, sizeof s->workload, "%s", name);
    return v[1] > 0 && v[2] > 0;
}

mba_status mba_power_set_parse(mba_power_set *out, const char *where, const char *text)
{
    mba_tsv rows = { text, text + strlen(text), 0 };
    *out = (mba_power_set){ 0 };
    for (mba_tsv_row r; mba_tsv_next(&rows, &r);)
        if (!take_row(out, &r))
            return mba_fail(MBA_E_FORMAT,
                            "%s, line %d: this is no measured power\nwhy: a loop has name, W and events per second of "
                            "vector, tensor and DRAM; a step has workload, ms, W and GHz\nfix: correct the row",
                            where, r.line);
    return MBA_OK;
}

bool mba_power_same_model(const char *a, const char *b)
{
    const size_t n = strcspn(a, " ");
    return n == strcspn(b, " ") && !strncmp(a, b, n);
}

/* Without the steps of a model, whatever their size and kernels. A step enters the fit at its measured clock and power,
 * with its simulated time there, as predictions have it. */
static mba_power_model fit_without(const mba_power_set *d, const char *workload)
{
    mba_power_point p[2 * MBA_POWER_STEPS_MAX];
    int             n = 0;
    for (int i = 0; i < d->loops; i++) p[n++] = d->loop[i];
    for (int i = 0; i < d->steps; i++) {
        const mba_power_step *s = &d->step[i];
        if (workload && mba_power_same_model(s->workload, workload)) continue;
        const double x = fmin(1, s->ghz / s->curve.boost_ghz);
        p[n++] = (mba_power_point){ rates_at(&s->curve, mba_power_curve_seconds(&s->curve, x)), x, s->watts, 1 };
    }
    return mba_power_fit(p, n);
}

mba_power_score mba_power_score_of(const mba_power_set *d)
{
    mba_power_score out = { 0 };
    for (int i = 0, next; i < d->steps; i = next) {
        const mba_power_step *s = &d->step[i];
        const bool            limited = s->predicted.watts > 0.999 * s->curve.limit_w;
        bool                  energy = true, power = true;
        for (next = i; next < d->steps && !strcmp(d->step[next].workload, s->workload); next++) {
            const mba_power_step *k = &d->step[next];
            energy &= fabs(mba_error_percent(k->predicted.watts * k->predicted.seconds, k->watts * k->seconds)) <= 8;
            power &= fabs(mba_error_percent(k->predicted.watts, k->watts)) <= 8;
        }
        out.workloads++;
        out.clock += fabs(mba_error_percent(s->predicted.ghz, s->ghz)) <= 3;
        out.energy += energy;
        out.unlimited += !limited;
        out.power += !limited && power;
    }
    return out;
}

mba_status mba_power_set_predict(mba_power_set *d, const char *machine)
{
    mba_sim        *sim = NULL;
    mba_known_code *code = NULL;
    mba_status      st = mba_known_code_load(&code);
    if (st == MBA_OK) st = mba_sim_create(&sim);
    for (int i = 0; i < d->steps && st == MBA_OK; i++) {
        char         words[sizeof d->step->workload];
        mba_workload w = { .machine = machine, .code = code };
        snprintf(words, sizeof words, "%s", d->step[i].workload);
        mba_known_code_leave_out(code, d->step[i].workload);
        st = mba_workload_parse(&w, words);
        if (st == MBA_OK && i && !strcmp(d->step[i].workload, d->step[i - 1].workload))
            d->step[i].curve = d->step[i - 1].curve;
        else if (st == MBA_OK) st = mba_power_curve_find(&d->step[i].curve, &w, sim);
    }
    for (int i = 0; i < d->steps && st == MBA_OK; i++) {
        mba_power_step       *s = &d->step[i];
        const mba_power_model p = fit_without(d, s->workload);
        s->predicted = mba_step_power_at(&s->curve, &p, s->curve.limit_w);
    }
    if (st == MBA_OK) d->all = fit_without(d, NULL);
    mba_sim_destroy(sim);
    mba_known_code_free(code);
    return st;
}
