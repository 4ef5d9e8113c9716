// SPDX-License-Identifier: Apache-2.0
/* sweep.c -- `mambascope sweep`: simulated steps over one or two axes, and how much each number of a machine matters.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "cli/options.h"
#include "cli/progress.h"
#include "cli/simulated.h"
#include "cli/table.h"
#include "cli/validated.h"

enum { VALUES_MAX = 64, TEXT_MAX = 512, POINT_COLUMNS = 12 };

typedef struct axis {
    char name[32];
    char value[VALUES_MAX][24];
    int  n;
} axis;
typedef struct options {
    mba_workload w;
    const char  *axis[2], *experiment;
    int64_t      part; /* of an experiment: this table alone; 0: all */
    bool         json, csv, elasticity, balance, spread;
    mba_band     validated; /* of measured steps around predicted ones */
    mba_sim     *sim;       /* what was simulated for one table need not be for the next */
} options;
typedef struct totals {
    int64_t points, kernels, events;
    double  began, simulating;
} totals; /* simulating: seconds */

/* Bands, which draw hundreds of machines, are not in it. */
static void add_to(totals *sum, const mba_simulated *r)
{
    sum->kernels += r->step.unique;
    sum->events += r->step.events;
    sum->simulating += r->seconds_taken;
}

/* What an axis is called above its column: with its unit, if it has one. Factors ("x2") have none. */
static void heading_of(char *out, size_t space, const axis *a)
{
    static const struct {
        const char *name, *unit;
    } others[] = { { "batch", "sequences, images or graphs" },
                   { "length", "tokens" },
                   { "chunk", "tokens" },
                   { "ratio", "tensor FLOPs per FMA FLOP" },
                   { "ring", "stages" },
                   { "persistent", "0 or 1" },
                   { "clock", "times" },
                   { "launch", "times" } };
    const char *unit = NULL;
    for (int k = 0; k < MBA_GPU_KEYS; k++)
        if (!strcmp(a->name, mba_gpu_keys[k].name)) unit = mba_gpu_keys[k].unit;
    for (size_t k = 0; k < sizeof others / sizeof *others; k++)
        if (!strcmp(a->name, others[k].name)) unit = others[k].unit;
    bool factors = a->n > 0;
    for (int i = 0; i < a->n; i++) factors &= a->value[i][0] == 'x';
    snprintf(out, space, "%s%s%s", *a->name ? a->name : "-", unit ? ", " : "", !unit ? "" : factors ? "times" : unit);
}

/* "hbm=x0.5:x1:x2", "xu=8:16:32", "length=512:2048" */
static mba_status axis_of(axis *a, const char *text)
{
    const size_t n = strcspn(text, "=");
    *a = (axis){ 0 };
    if (n >= sizeof a->name || text[n] != '=')
        return mba_fail(MBA_E_ARG,
                        "cannot read the axis '%s'\nwhy: an axis is name=value:value\nfix: --axis hbm=x0.5:x1:x2",
                        text);
    memcpy(a->name, text, n);
    for (const char *s = text + n + 1; *s;) {
        const size_t len = strcspn(s, ":");
        if (a->n == VALUES_MAX || len == 0 || len >= sizeof *a->value)
            return mba_fail(MBA_E_ARG,
                            "cannot read the axis '%s'\nwhy: it may have at most %d values, none of them empty\nfix: "
                            "--axis hbm=x0.5:x1:x2",
                            text, VALUES_MAX);
        memcpy(a->value[a->n++], s, len);
        s += len + (s[len] == ':');
    }
    return a->n ? MBA_OK
                : mba_fail(MBA_E_ARG, "cannot read the axis '%s'\nwhy: it has no values\nfix: --axis hbm=x0.5:x1:x2",
                           text);
}

static mba_status whole_number(int64_t *out, const char *name, const char *value)
{
    char *end;
    *out = strtoll(value, &end, 10);
    return end != value && !*end && *out > 0
               ? MBA_OK
               : mba_fail(MBA_E_ARG, "--axis %s=%s\nwhy: it must be a whole number", name, value);
}

static mba_status append(char *text, const char *fmt, const char *a, const char *b)
{
    const size_t n = strlen(text);
    const int    m = snprintf(text + n, TEXT_MAX - n, fmt, n ? "," : "", a, b);
    return m >= 0 && (size_t)m < TEXT_MAX - n ? MBA_OK
                                              : mba_fail(MBA_E_ARG, "there are too many changes\nfix: use fewer");
}

/* Axes that move several numbers of the machine at once, by factors. */
static const struct {
    const char *name, *numbers[6];
} groups[] = {
    { "clock", { "clk", "clk_tc", "clk_busy", "clk_mma" } },
    { "launch", { "t_kernel", "t_blk", "t_blk_w", "t_exit", "gap_graph", "gap_stream" } },
};
enum { GROUPS = sizeof groups / sizeof *groups };

static mba_status move_group(char *machine, int g, const char *value)
{
    if (*value != 'x')
        return mba_fail(MBA_E_ARG,
                        "--axis %s=%s\nwhy: it stands for several numbers of the machine\nfix: --axis %s=x0.5:x1:x2",
                        groups[g].name, value, groups[g].name);
    for (size_t k = 0; k < sizeof groups[g].numbers / sizeof *groups[g].numbers && groups[g].numbers[k]; k++)
        MBA_TRY(append(machine, "%s%s=%s", groups[g].numbers[k], value));
    return MBA_OK;
}

/* Tensor FLOPs per FMA FLOP, at the vector rate of the machine with all its other changes. */
static mba_status move_ratio(const mba_workload *w, char *machine, const char *value)
{
    mba_gpu      m;
    char         rate[32], *end;
    const double r = strtod(value, &end);
    if (!(r > 0) || *end) return mba_fail(MBA_E_ARG, "--axis ratio=%s\nwhy: it must be a number above 0", value);
    MBA_TRY(mba_gpu_load(&m, w->machine));
    MBA_TRY(mba_gpu_set(&m, machine));
    snprintf(rate, sizeof rate, "%.6g", 2 * r * m.v[MBA_GPU_fma]);
    return append(machine, "%s%s=%s", "mma16", rate);
}

static bool is_machine(const axis *a) { return !strcmp(a->name, "machine"); }
static bool draws_each(const options *o, const axis *a) { return o->spread || is_machine(&a[0]) || is_machine(&a[1]); }
static bool is_ratio(const axis *a) { return !strcmp(a->name, "ratio"); }

/* A number of the machine that an axis moves. */
static bool moves(const axis *a, const char *number)
{
    if (!strcmp(a->name, number) || (is_ratio(a) && !strcmp(number, "mma16"))) return true;
    for (int g = 0; g < GROUPS; g++)
        for (size_t k = 0; k < sizeof groups[g].numbers / sizeof *groups[g].numbers && groups[g].numbers[k]; k++)
            if (!strcmp(a->name, groups[g].name) && !strcmp(number, groups[g].numbers[k])) return true;
    return false;
}

/* Of two axes that move the same thing the last would win, and rows would say what nobody has simulated. */
static mba_status check_apart(const axis *a)
{
    bool both = !strcmp(a[0].name, a[1].name);
    for (int k = 0; k < MBA_GPU_KEYS; k++)
        both |= moves(&a[0], mba_gpu_keys[k].name) && moves(&a[1], mba_gpu_keys[k].name);
    return both ? mba_fail(MBA_E_ARG,
                           "--axis %s and --by %s cannot be combined\nwhy: both change the same "
                           "number\nfix: leave one out; for more values, --axis %s=%s:..",
                           a[0].name, a[1].name, a[0].name, a[0].value[0])
                : MBA_OK;
}

static mba_status axes_of(axis *a, const options *o)
{
    for (int i = 0; i < 2 && o->axis[i]; i++) MBA_TRY(axis_of(&a[i], o->axis[i]));
    return o->axis[0] && o->axis[1] ? check_apart(a) : MBA_OK;
}

/* Axes of the workload by name; anything else is a number of the machine. */
static mba_status move_to(mba_workload *w, char *machine, char *model, const axis *a, const char *value)
{
    if (!strcmp(a->name, "batch"))
        return whole_number(w->model.name && strstr(w->model.name, "graph") ? &w->model.shape.graphs
                                                                            : &w->model.shape.batch,
                            a->name, value);
    if (!strcmp(a->name, "length")) return whole_number(&w->model.shape.length, a->name, value);
    if (!strcmp(a->name, "ring")) return whole_number(&w->ring, a->name, value);
    if (!strcmp(a->name, "keep")) {
        w->keep = strcmp(value, "none") ? value : NULL;
        return MBA_OK;
    }
    if (!strcmp(a->name, "persistent")) {
        w->persistent = !strcmp(value, "1");
        return w->persistent || !strcmp(value, "0")
                   ? MBA_OK
                   : mba_fail(MBA_E_ARG, "--axis persistent=%s\nwhy: it is a switch\nfix: use 0 or 1", value);
    }
    if (!strcmp(a->name, "machine")) {
        w->machine = value;
        return MBA_OK;
    }
    if (!strcmp(a->name, "chunk")) {
        int64_t tokens;
        MBA_TRY(whole_number(&tokens, a->name, value));
        return append(model, "%s%s=%s", "chunk", value);
    }
    if (is_ratio(a)) return move_ratio(w, machine, value);
    for (int g = 0; g < GROUPS; g++)
        if (!strcmp(a->name, groups[g].name)) return move_group(machine, g, value);
    return append(machine, "%s%s=%s", a->name, value);
}

/* Rows that differ in a chunk that no kernel of the step has would all say the same. */
static mba_status check_chunks(const mba_simulated *r)
{
    static const char *const have[] = { "chunked", "persistent", "bc_fused", "fma" };
    const mba_program       *p = r->session.program;
    bool                     any = false;
    for (int32_t i = 0; i < p->graph->nnodes; i++) {
        if (strcmp(p->graph->nodes[i]->op->name, "ssd")) continue;
        any = true;
        for (size_t k = 0; k < sizeof have / sizeof *have; k++)
            if (!strcmp(p->plan[i]->variant, have[k])) return MBA_OK;
    }
    return any ? mba_fail(MBA_E_ARG,
                          "--axis chunk would change nothing\nwhy: the ssd kernels that run always use chunks of 64\n"
                          "fix: --op ssd=chunked,ssd_bwd=chunked")
               : mba_fail(MBA_E_ARG,
                          "--axis chunk would change nothing\nwhy: this model has no ssd\nfix: --model mamba2-130m");
}

/* `times`, unless NULL: what the spreads of this point's machine do to it, MBA_GPU_SAMPLES of them. */
static mba_status point(double *ms, double *times, mba_simulated *r, const options *o, mba_sim *sim,
                        const mba_model_options *model, const axis *a, const int *at, int axes)
{
    char         machine[TEXT_MAX] = "", set[TEXT_MAX] = "";
    mba_workload w = o->w;
    w.model = *model;
    w.model.threads = o->w.model.threads;
    w.model.precision = o->w.model.precision;
    w.model.recompute = o->w.model.recompute;
    if (!w.model.variants) w.model.variants = o->w.model.variants;
    if (o->w.changes) MBA_TRY(append(machine, "%s%s%s", o->w.changes, ""));
    if (model->set) MBA_TRY(append(set, "%s%s%s", model->set, ""));
    for (int last = 0; last < 2; last++) // the ratio is one of the machine that all else has made
        for (int i = 0; i < axes; i++)
            if (is_ratio(&a[i]) == last) MBA_TRY(move_to(&w, machine, set, &a[i], a[i].value[at[i]]));
    w.changes = *machine ? machine : NULL;
    w.model.set = *set ? set : NULL;
    MBA_TRY(mba_simulated_run(r, &w, sim));
    for (int i = 0; i < axes; i++)
        if (!strcmp(a[i].name, "chunk")) MBA_TRY(check_chunks(r));
    *ms = 1e3 * r->step.seconds;
    return times ? mba_simulated_draws(times, r, &w, sim, NULL, 0) : MBA_OK;
}

/* Kernels as nobody has compiled them are C, whatever the machine. */
static char grade_of(const mba_simulated *r, const axis *a, const int *at)
{
    for (int i = 0; i < 2; i++) {
        const char *name = a[i].name, *value = a[i].value[at[i]];
        if (!strcmp(name, "ring") || (!strcmp(name, "keep") && strcmp(value, "none"))
            || (!strcmp(name, "persistent") && strcmp(value, "0")))
            return 'C';
    }
    return mba_simulated_grade(&r->gpu);
}

/* A point beside the unchanged one; the ratio's band where both were drawn. */
typedef struct beside {
    double    ms, base;
    mba_band  spread;
    bool      drawn;
    mba_ratio ratio;
} beside;

static void point_row(mba_table *t, const options *o, const mba_simulated *r, const axis *a, const int *at,
                      const beside *p)
{
    const mba_band both = mba_band_combine(p->spread, o->validated);
    const double   ms = p->ms;
    int            longest = 0;
    double         busiest = -1;
    for (int32_t i = 0; i < r->session.graph->nnodes; i++)
        if (r->step.node[i].seconds > busiest) {
            busiest = r->step.node[i].seconds;
            longest = r->step.node[i].limit;
        }
    mba_table_text(t, "%s", mba_model_name(&r->session.model));
    for (int i = 0; i < 2; i++) mba_table_text(t, "%s", o->axis[i] ? a[i].value[at[i]] : "-");
    mba_table_number(t, ms);
    mba_table_number(t, ms * both.low);
    mba_table_number(t, ms * both.high);
    mba_table_number(t, p->base / ms);
    if (p->drawn) {
        mba_table_number(t, p->base / ms * p->ratio.band.low);
        mba_table_number(t, p->base / ms * p->ratio.band.high);
        mba_table_number(t, 100 * p->ratio.above);
    }
    mba_table_number(t, r->units / ms * 1e3);
    mba_table_number(t, (r->step.dram_read + r->step.dram_write) / r->step.seconds / 1e9);
    mba_table_text(t, "%s", mba_sim_limits[longest]);
    mba_table_text(t, "%c", grade_of(r, a, at));
}

static void absent_row(mba_table *t, const options *o, const mba_model_options *model, const axis *a, const int *at)
{
    mba_table_text(t, "%s", model->name);
    for (int i = 0; i < 2; i++) mba_table_text(t, "%s", o->axis[i] ? a[i].value[at[i]] : "-");
    for (int i = 0; i < (draws_each(o, a) ? 9 : 6); i++) mba_table_number(t, NAN);
    mba_table_text(t, "%.*s", (int)strcspn(mba_message(), "\n"), mba_message());
    mba_table_text(t, "-");
}

/* The machine's numbers are drawn where nothing is changed, and what that does to the step stands for all points of the
 * workload; other machines have spreads of their own. Where every point is drawn, so is its ratio to the unchanged
 * one. */
static mba_status sweep_model(mba_table *t, totals *sum, const options *o, mba_sim *sim, const mba_model_options *model,
                              const axis *a)
{
    const int     axes = o->axis[1] ? 2 : 1;
    double        unchanged[MBA_GPU_SAMPLES], times[MBA_GPU_SAMPLES];
    beside        p = { .drawn = draws_each(o, a) };
    mba_simulated r = { 0 };
    mba_status    st = point(&p.base, unchanged, &r, o, sim, model, a, (const int[]){ 0, 0 }, 0);
    add_to(sum, &r);
    mba_simulated_end(&r);
    memcpy(times, unchanged, sizeof times);
    if (st == MBA_OK) p.spread = mba_band_of_samples(times);
    for (int i = 0; i < a[0].n && st == MBA_OK; i++)
        for (int j = 0; j < (axes > 1 ? a[1].n : 1) && st == MBA_OK; j++) {
            const int at[2] = { i, j };
            st = point(&p.ms, p.drawn ? times : NULL, &r, o, sim, model, a, at, axes);
            if (st == MBA_OK) {
                if (p.drawn) p.ratio = mba_ratio_of_samples(p.base / p.ms, unchanged, times);
                if (p.drawn) p.spread = mba_band_of_samples(times);
                point_row(t, o, &r, a, at, &p);
                sum->points++;
                add_to(sum, &r);
            } else if (st == MBA_E_UNSUPPORTED) { // a machine too small for a kernel is an answer, too
                absent_row(t, o, model, a, at);
                st = MBA_OK;
            } else {
                st = mba_where(st, "%s at %s=%s", model->name, a[0].name, a[0].value[i]);
            }
            mba_simulated_end(&r);
        }
    return st;
}

/* ---- elasticity: percent of time per percent of a number ---- */

static const char *const numbers[] = { "clk",    "fma",   "alu", "xu",      "mma16", "issue",    "smem_bw",
                                       "l2_c50", "l2_rd", "hbm", "hbm_lat", "t_blk", "gap_graph" };
enum { NUMBERS = sizeof numbers / sizeof *numbers };

static mba_status elasticity_row(mba_table *t, totals *sum, const options *o, mba_sim *sim,
                                 const mba_model_options *model)
{
    static const int up[2] = { 0, 0 }, down[2] = { 1, 0 };
    mba_table_text(t, "%s", model->name);
    for (int k = 0; k < NUMBERS; k++) {
        axis          a = { .value = { "x1.05", "x0.95" }, .n = 2 };
        mba_simulated r = { 0 };
        double        more, less;
        snprintf(a.name, sizeof a.name, "%s", numbers[k]);
        mba_status st = point(&more, NULL, &r, o, sim, model, &a, up, 1);
        add_to(sum, &r);
        mba_simulated_end(&r);
        if (st == MBA_OK) st = point(&less, NULL, &r, o, sim, model, &a, down, 1);
        add_to(sum, &r);
        mba_simulated_end(&r);
        MBA_TRY(st);
        sum->points += 2;
        mba_table_number(t, -log(more / less) / log(1.05 / 0.95));
    }
    return MBA_OK;
}

/* ---- balance: tensor FLOPs per FMA FLOP at which an operator's products take as long as its other arithmetic ---- */

static const mba_column balance_columns[] = { { "model", "model", NULL },
                                              { "operator", "operator", NULL },
                                              { "ms", "ms", "%.3f" },
                                              { "tensor", "tensor busy, %", "%.1f" },
                                              { "vector", "busiest of the others, %", "%.1f" },
                                              { "which", "which", NULL },
                                              { "balance", "balanced at ratio", "%.2f" },
                                              { 0 } };

typedef struct group {
    const char *op;
    double      seconds, busy[MBA_PIPES];
} group;

static void balance_row(mba_table *t, const char *model, const group *g, double ratio)
{
    static const int others[] = { MBA_P_FMA, MBA_P_ALU, MBA_P_XU, MBA_P_ISSUE };
    int              busiest = MBA_P_FMA;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (g->busy[others[i]] > g->busy[busiest]) busiest = others[i];
    mba_table_text(t, "%s", model);
    mba_table_text(t, "%s", g->op);
    mba_table_number(t, 1e3 * g->seconds);
    mba_table_number(t, 100 * g->busy[MBA_P_MMA] / g->seconds);
    mba_table_number(t, 100 * g->busy[busiest] / g->seconds);
    mba_table_text(t, "%s", mba_sim_limits[busiest]);
    mba_table_number(t, ratio * g->busy[MBA_P_MMA] / g->busy[busiest]);
}

/* Operators that have products, and the whole step. */
static mba_status balance_model(mba_table *t, totals *sum, const options *o, mba_sim *sim,
                                const mba_model_options *model)
{
    enum { OPS = 128 };
    group         g[OPS + 1] = { { .op = "whole step" } };
    int           n = 1;
    double        ms;
    mba_simulated r = { 0 };
    MBA_TRY(point(&ms, NULL, &r, o, sim, model, NULL, NULL, 0));
    for (int32_t i = 0; i < r.session.graph->nnodes; i++) {
        const mba_sim_node *s = &r.step.node[i];
        const char         *op = r.session.graph->nodes[i]->op->name;
        int                 k = 1;
        while (k < n && strcmp(g[k].op, op)) k++;
        if (k == n && n <= OPS) g[n++] = (group){ .op = op };
        if (k > OPS) continue;
        for (int which = 0; which < 2; which++) {
            group *to = &g[which ? k : 0];
            to->seconds += s->kernels_s;
            for (int p = 0; p < MBA_PIPES; p++) to->busy[p] += s->busy[p] * s->kernels_s;
        }
    }
    const double ratio = r.gpu.v[MBA_GPU_mma16] / (2 * r.gpu.v[MBA_GPU_fma]);
    for (int k = 0; k < n; k++)
        if (g[k].busy[MBA_P_MMA] > 0) balance_row(t, model->name, &g[k], ratio);
    sum->points++;
    add_to(sum, &r);
    mba_simulated_end(&r);
    return MBA_OK;
}

/* ---- the command ---- */

/* Where every point is drawn, the band of its ratio stands behind the ratio. */
static void add_ratio(mba_column out[POINT_COLUMNS + 3], const mba_column *point)
{
    static const mba_column ratio[] = { { "speedup_low", "speed at least", "%.3f" },
                                        { "speedup_high", "at most", "%.3f" },
                                        { "faster_percent", "faster, % of samples", "%.0f" } };
    for (; point->key; point++) {
        *out++ = *point;
        for (int i = 0; i < 3 && !strcmp(point->key, "speedup"); i++) *out++ = ratio[i];
    }
    *out = (mba_column){ 0 };
}

static mba_status run(const options *o)
{
    char             heading[2][96], number[NUMBERS][32];
    const mba_column point_columns[POINT_COLUMNS] = {
        { "model", "model", NULL },           { "first", heading[0], NULL },
        { "second", heading[1], NULL },       { "step_ms", "step, ms", "%.3f" },
        { "low_ms", "at least", "%.3f" },     { "high_ms", "at most", "%.3f" },
        { "speedup", "speed-up", "%.3f" },    { "units_per_s", "tokens, images or graphs/s", "%.0f" },
        { "dram_gbs", "DRAM, GB/s", "%.0f" }, { "bound", "longest node bound by", NULL },
        { "grade", "grade", NULL },           { 0 }
    };
    mba_column              drawn[POINT_COLUMNS + 3], many[NUMBERS + 2] = { { "model", "model", NULL } };
    const mba_model_options one[] = { o->w.model, { 0 } }, *models = o->w.model.name ? one : mba_full_size;
    axis                   *a = calloc(2, sizeof *a);
    mba_table              *t = NULL;
    totals                  sum = { .began = mba_seconds() };
    for (int k = 0; k < NUMBERS; k++) {
        snprintf(number[k], sizeof number[k], "%s, %%/%%", numbers[k]);
        many[k + 1] = (mba_column){ numbers[k], number[k], "%.3f" };
    }
    mba_status st = a ? axes_of(a, o) : mba_fail(MBA_E_NOMEM, "no memory for the axes");
    for (int i = 0; i < 2 && st == MBA_OK; i++) heading_of(heading[i], sizeof heading[i], &a[i]);
    add_ratio(drawn, point_columns);
    if (st == MBA_OK)
        st = mba_table_create(&t, o->elasticity      ? many
                                  : o->balance       ? balance_columns
                                  : draws_each(o, a) ? drawn
                                                     : point_columns);
    for (const mba_model_options *m = models; m->name && st == MBA_OK; m++)
        st = o->elasticity ? elasticity_row(t, &sum, o, o->sim, m)
             : o->balance  ? balance_model(t, &sum, o, o->sim, m)
                           : sweep_model(t, &sum, o, o->sim, m, a);
    if (st == MBA_OK) {
        st = mba_table_print(t, stdout, mba_table_form_of(o->json, o->csv));
        const double s = mba_seconds() - sum.began;
        fprintf(stderr,
                "SIMULATED on %s%s%s: %lld points in %.2f s; %lld kernels simulated, %lld events, %.2f M events/s\n",
                o->w.machine, o->w.changes ? " with " : "", o->w.changes ? o->w.changes : "", (long long)sum.points, s,
                (long long)sum.kernels, (long long)sum.events, (double)sum.events / sum.simulating / 1e6);
        if (o->axis[0] && draws_each(o, a))
            fprintf(stderr,
                    "bands of speed-ups come from %d paired samples: shared uncertainty cancels; model "
                    "error is not included\n",
                    MBA_GPU_SAMPLES);
    }
    mba_table_destroy(t);
    free(a);
    return st;
}

#define BASELINE "ssd=chunked,ssd_bwd=chunked"

/* The project's questions: what is swept for each (docs/results/simulator.md). */
static const struct experiment {
    const char *id, *question, *axis, *by, *model, *op;
    bool        elasticity, balance;
} experiments[] = {
    { .id = "q1", .question = "persistent blocks", .axis = "t_blk=0:350:700:1000", .by = "persistent=0:1" },
    { .id = "q2", .question = "tensor to vector ratio", .axis = "ratio=2:4:8:12:16:24:32:64", .by = "xu=x0.5:x1:x2" },
    { .id = "q2", .question = "the ratio at which products and the rest are balanced", .balance = true },
    { .id = "q2",
      .question = "the same with the study's kernels",
      .balance = true,
      .model = "mamba2-130m",
      .op = BASELINE },
    { .id = "q3",
      .question = "scratch that never leaves the chip: the study's kernels",
      .axis = "keep=none:CB:states:dstates:all",
      .by = "l2_c50=x0.5:x1:x4",
      .model = "mamba2-130m",
      .op = BASELINE },
    { .id = "q3",
      .question = "scratch that never leaves the chip: our kernels",
      .axis = "keep=none:all",
      .by = "l2_c50=x0.5:x1:x4" },
    { .id = "d1", .question = "on-chip bandwidth", .axis = "smem_bw=64:128:256:512", .by = "l2_rd=x0.5:x1:x2:x4" },
    { .id = "d1", .question = "percent of time per percent of a number", .elasticity = true },
    { .id = "d2", .question = "stages of asynchronous copies", .axis = "ring=1:2:3:4:8", .by = "async_kb=16:32:48:96" },
    { .id = "d3", .question = "registers of an SM", .axis = "rf=128:192:256:320:384:512:1024" },
    { .id = "n1",
      .question = "batch and length",
      .axis = "batch=1:2:4:8:16:32",
      .by = "length=512:2048:8192",
      .model = "mamba2-130m" },
    { .id = "n1",
      .question = "chunk of the state-space product",
      .axis = "chunk=64:128:256",
      .model = "mamba2-130m",
      .op = BASELINE },
    { .id = "n2", .question = "machines", .axis = "machine=v100:a100:h100:h200:b200:mi300x" },
};

enum { EXPERIMENTS = sizeof experiments / sizeof *experiments };

static int parts_of(const char *id)
{
    int n = 0;
    for (size_t i = 0; i < EXPERIMENTS; i++) n += !strcmp(experiments[i].id, id);
    return n;
}

/* JSON is one document; tables of CSV have an empty line between them, and --part has one alone. */
static void print_title(const options *o, const struct experiment *e, bool first)
{
    if (o->json)
        printf("%s{\"experiment\": \"%s\", \"question\": \"%s\", \"rows\":\n", first ? "[" : ", ", e->id, e->question);
    else if (o->csv) printf("%s", first ? "" : "\n");
    else printf("%s%s: %s\n", first ? "" : "\n", e->id, e->question);
}

static mba_status run_experiment(const options *o)
{
    int part = 0, printed = 0;
    for (size_t i = 0; i < EXPERIMENTS; i++) {
        const struct experiment *e = &experiments[i];
        options                  one = *o;
        if (strcmp(e->id, o->experiment) || (++part != o->part && o->part)) continue;
        one.axis[0] = e->axis;
        one.axis[1] = e->by;
        one.elasticity = e->elasticity;
        one.balance = e->balance;
        if (!one.w.model.name) one.w.model.name = e->model;
        if (!one.w.model.variants) one.w.model.variants = e->op;
        print_title(o, e, printed++ == 0);
        MBA_TRY(run(&one));
        if (o->json) puts("}");
    }
    if (o->json) puts("]");
    return MBA_OK;
}

/* Said with every answer: how far steps that were measured are from predicted ones. */
static void say_band(const options *o)
{
    fprintf(stderr, "error band: measured steps on the H200 were %.2f to %.2f times as long as predicted ones%s\n",
            o->validated.low, o->validated.high,
            o->elasticity || o->balance
                ? ""
                : "; \"at least\" and \"at most\" combine it with the uncertainty of the machine's numbers");
}

static mba_status check_experiment(const options *o)
{
    const int parts = parts_of(o->experiment);
    if (!parts)
        return mba_fail(MBA_E_ARG, "there is no experiment '%s'\nfix: choose q1, q2, q3, d1, d2, d3, n1, n2",
                        o->experiment);
    return o->part > parts ? mba_fail(MBA_E_ARG, "there is no --part %lld\nwhy: %s has %d\nfix: choose 1 to %d",
                                      (long long)o->part, o->experiment, parts, parts)
                           : MBA_OK;
}

/* What can be told before anything is simulated: the bands alone take a third of a second. */
static mba_status check_question(const options *o)
{
    if (o->experiment) return check_experiment(o);
    axis      *a = calloc(2, sizeof *a);
    mba_status st = a ? axes_of(a, o) : mba_fail(MBA_E_NOMEM, "no memory for the axes");
    free(a);
    return st;
}

/* What would not be looked at is refused; the five workloads have sizes of their own. */
static mba_status check_options(const options *o)
{
    const mba_batch_shape none = { 0 };
    if (o->experiment && (o->axis[0] || o->axis[1] || o->elasticity))
        return mba_fail(MBA_E_ARG,
                        "--experiment %s and %s cannot be combined\nwhy: an experiment has its own axes\nfix: leave "
                        "one of them out",
                        o->experiment,
                        o->elasticity ? "--elasticity"
                        : o->axis[0]  ? "--axis"
                                      : "--by");
    if (o->elasticity && (o->axis[0] || o->axis[1]))
        return mba_fail(MBA_E_ARG,
                        "--elasticity and %s cannot be combined\nwhy: it changes every number of the machine in "
                        "turn\nfix: leave one of them out",
                        o->axis[0] ? "--axis" : "--by");
    if (o->part && !o->experiment)
        return mba_fail(MBA_E_ARG, "--part needs --experiment\nfix: for example --experiment q2 --part 1");
    if (o->w.model.name) return MBA_OK;
    if (o->w.model.set || memcmp(&o->w.model.shape, &none, sizeof none))
        return mba_fail(MBA_E_ARG,
                        "%s needs --model\nwhy: the five workloads have sizes of their own\nfix: add --model NAME",
                        o->w.model.set ? "--model-set" : "a size");
    return MBA_OK;
}

mba_status mba_command_sweep(int argc, char **argv)
{
    options          o = { .w = { .machine = "h200" } };
    bool             help;
    const mba_option table[] = {
        { "--axis", MBA_OPT_TEXT, &o.axis[0], "K=V:V..",
          "values of one axis: a key of the machine (x2 = a factor), clock, launch, ratio, machine, persistent, ring, "
          "keep, batch, length or chunk",
          0, 0 },
        { "--by", MBA_OPT_TEXT, &o.axis[1], "K=V:V..", "values of a second axis", 0, 0 },
        { "--experiment", MBA_OPT_TEXT, &o.experiment, "ID", "run a prepared study instead: q1 q2 q3 d1 d2 d3 n1 n2", 0,
          0 },
        { "--part", MBA_OPT_INT, &o.part, "N", "--experiment: print only its table N", 1, 9 },
        { "--elasticity", MBA_OPT_FLAG, &o.elasticity, NULL,
          "print instead how many percent a step gets faster per percent more of each number", 0, 0 },
        { "--uncertainty", MBA_OPT_FLAG, &o.spread, NULL,
          "add bands from the uncertainty of the machine's numbers, and how often each point wins", 0, 0 },
        MBA_OPTION_ALIAS("--spread", "--uncertainty"),
        MBA_WORKLOAD_OPTIONS(&o.w),
        MBA_TABLE_OPTIONS(&o.json, &o.csv),
        { 0 },
    };
    const mba_usage usage = { "sweep", "--axis K=V:V.. [--by K=V:V..] [options]",
                              "Simulates training steps over one or two axes; without --model, of all five\n"
                              "workloads at full size. Besides the keys of a machine there are these axes:\n"
                              "\n"
                              "ratio       tensor FLOPs per FMA FLOP at the machine's vector rate (H100: 16)\n"
                              "clock       all four clocks, by a factor\n"
                              "launch      the cost of starting kernels and blocks, by a factor\n"
                              "persistent  1: persistent blocks, which loop over the work\n"
                              "ring        stages of asynchronous copies\n"
                              "keep        scratch that a merged kernel would keep on the chip: none, all, CB, states",
                              table,
                              "mambascope sweep --axis ratio=2:4:8:16:32:64 --by xu=x1:x2\nmambascope sweep --axis "
                              "t_blk=0:350:1000 --by persistent=0:1 --model mamba2-130m\n"
                              "mambascope sweep --elasticity --csv > elasticity.csv\n"
                              "mambascope sweep --experiment q2\n"
                              "mambascope sweep --axis xu=x1.5:x2 --model mamba-130m --uncertainty\n" };
    MBA_TRY(mba_options_parse(&usage, argc, argv, NULL, &help));
    if (help) return MBA_OK;
    if (o.w.changes && !*o.w.changes) o.w.changes = NULL;
    MBA_TRY(check_options(&o));
    if (!o.axis[0] && !o.elasticity && !o.experiment)
        return mba_fail(MBA_E_ARG, "sweep over what?\nfix: --axis hbm=x0.5:x1:x2, or --elasticity");
    MBA_TRY(check_question(&o));
    MBA_TRY(mba_sim_create(&o.sim));
    mba_status st = mba_validation_bands(&o.validated, NULL, o.sim);
    if (st == MBA_OK) st = o.experiment ? run_experiment(&o) : run(&o);
    if (st == MBA_OK) say_band(&o);
    mba_sim_destroy(o.sim);
    return st;
}
