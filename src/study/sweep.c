// SPDX-License-Identifier: Apache-2.0
/* sweep.c -- see sweep.h. */
#include "study/sweep.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_MAX = 512 };

/* ---- axes ---- */

/* Parses an axis: "hbm=x0.5:x1:x2", "xu=8:16:32", "length=512:2048". */
static mba_status axis_of(mba_sweep_axis *a, const char *text)
{
    const size_t n = strcspn(text, "=");
    *a = (mba_sweep_axis){ 0 };
    if (n >= sizeof a->name || text[n] != '=')
        return mba_fail(MBA_E_ARG,
                        "cannot read the axis '%s'\nwhy: an axis is name=value:value\nfix: --axis hbm=x0.5:x1:x2",
                        text);
    memcpy(a->name, text, n);
    const int key = mba_gpu_key_find(a->name);
    if (key >= 0) snprintf(a->name, sizeof a->name, "%s", mba_gpu_keys[key].name); // the text may have an old name
    for (const char *s = text + n + 1; *s;) {
        const size_t len = strcspn(s, ":");
        if (a->n == MBA_SWEEP_VALUES || len == 0 || len >= sizeof *a->value)
            return mba_fail(MBA_E_ARG,
                            "cannot read the axis '%s'\nwhy: it may have at most %d values, none of them empty\nfix: "
                            "--axis hbm=x0.5:x1:x2",
                            text, MBA_SWEEP_VALUES);
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
               : mba_fail(MBA_E_ARG,
                          "--axis %s=%s cannot be used\nwhy: the value must be a whole number above 0\n"
                          "fix: for example --axis %s=1:2:4",
                          name, value, name);
}

static mba_status append(char *text, const char *fmt, const char *a, const char *b)
{
    const size_t n = strlen(text);
    const int    m = snprintf(text + n, TEXT_MAX - n, fmt, n ? "," : "", a, b);
    return m >= 0 && (size_t)m < TEXT_MAX - n
               ? MBA_OK
               : mba_fail(MBA_E_ARG, "there are too many changes of the machine or the model\nfix: use "
                                     "a shorter --set or --model-set");
}

/* Axes that multiply several numbers of the machine at once. */
static const struct {
    const char *name, *numbers[6];
} groups[] = {
    { "clock", { "clk", "clk_tc", "clk_busy", "clk_mma" } },
    { "launch", { "t_kernel", "block_start", "block_start_warp", "block_exit", "gap_graph", "gap_stream" } },
};
enum { GROUPS = sizeof groups / sizeof *groups };

static mba_status move_group(char *machine, int g, const char *value)
{
    if (*value != 'x')
        return mba_fail(MBA_E_ARG,
                        "--axis %s=%s cannot be used\nwhy: %s multiplies several numbers of the machine\n"
                        "fix: write factors: --axis %s=x0.5:x1:x2",
                        groups[g].name, value, groups[g].name, groups[g].name);
    for (size_t k = 0; k < sizeof groups[g].numbers / sizeof *groups[g].numbers && groups[g].numbers[k]; k++)
        MBA_TRY(append(machine, "%s%s=%s", groups[g].numbers[k], value));
    return MBA_OK;
}

/* Sets the tensor rate to `value` tensor FLOPs per FMA FLOP, at the vector rate that all other changes leave. */
static mba_status move_ratio(const mba_workload *w, char *machine, const char *value)
{
    mba_gpu      m;
    char         rate[32], *end;
    const double r = strtod(value, &end);
    if (!(r > 0) || *end)
        return mba_fail(MBA_E_ARG,
                        "--axis ratio=%s cannot be used\nwhy: the ratio must be a number above 0\n"
                        "fix: for example --axis ratio=4:8:16",
                        value);
    MBA_TRY(mba_gpu_load(&m, w->machine));
    MBA_TRY(mba_gpu_set(&m, machine));
    snprintf(rate, sizeof rate, "%.6g", 2 * r * m.v[MBA_GPU_fma]);
    return append(machine, "%s%s=%s", "mma16", rate);
}

static bool is_machine(const mba_sweep_axis *a) { return !strcmp(a->name, "machine"); }
static bool is_ratio(const mba_sweep_axis *a) { return !strcmp(a->name, "ratio"); }

/* Whether an axis changes this number of the machine. */
static bool moves(const mba_sweep_axis *a, const char *number)
{
    if (!strcmp(a->name, number) || (is_ratio(a) && !strcmp(number, "mma16"))) return true;
    for (int g = 0; g < GROUPS; g++)
        for (size_t k = 0; k < sizeof groups[g].numbers / sizeof *groups[g].numbers && groups[g].numbers[k]; k++)
            if (!strcmp(a->name, groups[g].name) && !strcmp(number, groups[g].numbers[k])) return true;
    return false;
}

/* If two axes changed the same number, the second would win, and rows would name a value that was not simulated. */
static mba_status check_apart(const mba_sweep_axis *a)
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

mba_status mba_sweep_axes(mba_sweep *s, const char *axis, const char *by)
{
    s->axis[0] = s->axis[1] = (mba_sweep_axis){ 0 };
    if (axis) MBA_TRY(axis_of(&s->axis[0], axis));
    if (by) MBA_TRY(axis_of(&s->axis[1], by));
    return axis && by ? check_apart(s->axis) : MBA_OK;
}

int mba_sweep_size(const mba_sweep *s) { return s->axis[0].n * (s->axis[1].n ? s->axis[1].n : 1); }

bool mba_sweep_draws(const mba_sweep *s) { return s->spread || is_machine(&s->axis[0]) || is_machine(&s->axis[1]); }

/* Moves a workload along an axis. Any name that is not an axis of the workload is a number of the machine. */
static mba_status move_to(mba_workload *w, char *machine, char *model, const mba_sweep_axis *a, const char *value)
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
                   : mba_fail(MBA_E_ARG, "--axis persistent=%s cannot be used\nwhy: it is a switch\nfix: use 0 or 1",
                              value);
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

/* Refuses an axis of chunks if no kernel of the step has that parameter: all rows would be the same. */
static mba_status check_chunks(const mba_simulated *r)
{
    static const char *const have[] = { "chunked",  "persistent", "persistent_dynamic", "persistent_prefetch",
                                        "bc_fused", "fma" };
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
                          "fix: add --op ssd=chunked,ssd_bwd=chunked")
               : mba_fail(MBA_E_ARG, "--axis chunk would change nothing\nwhy: this model has no ssd\n"
                                     "fix: choose a model with ssd, for example --model mamba2-130m");
}

/* ---- one point ---- */

/* Adds the cost of one simulation. The cost of sampling, MBA_GPU_SAMPLES simulations, is not counted. */
static void add_cost(mba_sweep *s, const mba_simulated *r)
{
    s->kernels += r->step.unique;
    s->events += r->step.events;
    s->seconds += r->seconds_taken;
}

/* `times`, unless NULL, gets MBA_GPU_SAMPLES ratios: the step on sampled machines over the step on this one. */
static mba_status point(double *ms, double *times, mba_simulated *r, const mba_sweep *s, const mba_model_options *model,
                        const mba_sweep_axis *a, const int *at, int axes)
{
    char         machine[TEXT_MAX] = "", set[TEXT_MAX] = "";
    mba_workload w = s->w;
    w.model = *model;
    w.model.threads = s->w.model.threads;
    w.model.precision = s->w.model.precision;
    w.model.recompute = s->w.model.recompute;
    if (!w.model.variants) w.model.variants = s->w.model.variants;
    if (s->w.changes) MBA_TRY(append(machine, "%s%s%s", s->w.changes, ""));
    if (model->set) MBA_TRY(append(set, "%s%s%s", model->set, ""));
    for (int last = 0; last < 2; last++) // the ratio comes last: it depends on the vector rate
        for (int i = 0; i < axes; i++)
            if (is_ratio(&a[i]) == last) MBA_TRY(move_to(&w, machine, set, &a[i], a[i].value[at[i]]));
    w.changes = *machine ? machine : NULL;
    w.model.set = *set ? set : NULL;
    MBA_TRY(mba_simulated_run(r, &w, s->sim));
    for (int i = 0; i < axes; i++)
        if (!strcmp(a[i].name, "chunk")) MBA_TRY(check_chunks(r));
    *ms = 1e3 * r->step.seconds;
    return times ? mba_simulated_draws(times, r, &w, s->sim, NULL, 0) : MBA_OK;
}

/* Whether an axis changes kernels into a form in which they were never compiled. */
static bool is_uncompiled(const char *name, const char *value)
{
    if (!strcmp(name, "keep")) return strcmp(value, "none") != 0;
    if (!strcmp(name, "persistent")) return strcmp(value, "0") != 0;
    return !strcmp(name, "ring");
}

/* Grade C for kernels that were never compiled in this form, whatever the machine. */
static char grade_of(const mba_simulated *r, const mba_sweep *s, const int *at)
{
    for (int i = 0; i < 2; i++)
        if (s->axis[i].n && is_uncompiled(s->axis[i].name, s->axis[i].value[at[i]])) return 'C';
    return mba_simulated_grade(&r->gpu);
}

/* ---- all points of a model ---- */

/* A point and the unchanged one (`base`); the band of their ratio, if both are sampled. */
typedef struct beside {
    double    ms, base;
    mba_band  spread;
    bool      drawn;
    mba_ratio ratio;
} beside;

static void fill_point(mba_sweep_point *out, const mba_sweep *s, const mba_simulated *r, const int *at, const beside *p)
{
    const mba_band both = mba_band_combine(p->spread, s->validated);
    double         longest = -1;
    for (int32_t i = 0; i < r->session.graph->nnodes; i++)
        if (r->step.node[i].seconds > longest) {
            longest = r->step.node[i].seconds;
            out->limit = r->step.node[i].limit;
        }
    snprintf(out->model, sizeof out->model, "%s", mba_model_name(&r->session.model));
    out->ms = p->ms;
    out->low_ms = p->ms * both.low;
    out->high_ms = p->ms * both.high;
    out->speedup = p->base / p->ms;
    out->ratio = p->ratio;
    out->units_s = r->units / p->ms * 1e3;
    out->dram_gbs = (r->step.dram_read + r->step.dram_write) / r->step.seconds / 1e9;
    out->grade = grade_of(r, s, at);
}

static void fill_refused(mba_sweep_point *out, const mba_model_options *model)
{
    snprintf(out->model, sizeof out->model, "%s", model->name);
    snprintf(out->refused, sizeof out->refused, "%.*s", (int)strcspn(mba_message(), "\n"), mba_message());
    out->ms = out->low_ms = out->high_ms = out->speedup = out->units_s = out->dram_gbs = NAN;
    out->ratio = (mba_ratio){ { NAN, NAN }, NAN };
    out->grade = '-';
}

static mba_status change_point(mba_sweep_point *out, mba_sweep *s, const mba_model_options *model, const int *at,
                               beside *p, const double *unchanged)
{
    double        times[MBA_GPU_SAMPLES];
    mba_simulated r = { 0 };
    *out = (mba_sweep_point){ .limit = 0 };
    for (int i = 0; i < 2; i++) out->value[i] = s->axis[i].n ? s->axis[i].value[at[i]] : "-";
    mba_status st = point(&p->ms, p->drawn ? times : NULL, &r, s, model, s->axis, at, s->axis[1].n ? 2 : 1);
    if (st == MBA_OK) {
        if (p->drawn) p->ratio = mba_ratio_of_samples(p->base / p->ms, unchanged, times);
        if (p->drawn) p->spread = mba_band_of_samples(times);
        fill_point(out, s, &r, at, p);
        s->points++;
        add_cost(s, &r);
    } else if (st == MBA_E_UNSUPPORTED) { // a machine that cannot run a kernel is an answer, too
        fill_refused(out, model);
        st = MBA_OK;
    } else {
        st = mba_where(st, "%s at %s=%s", model->name, s->axis[0].name, s->axis[0].value[at[0]]);
    }
    mba_simulated_end(&r);
    return st;
}

/* Samples the numbers of the unchanged machine; the resulting band applies to all points of the workload. If every
 * point is sampled (mba_sweep_draws), each has its own band and the band of its ratio to the unchanged one. */
mba_status mba_sweep_points(mba_sweep_point *out, mba_sweep *s, const mba_model_options *model)
{
    double        unchanged[MBA_GPU_SAMPLES], sorted[MBA_GPU_SAMPLES];
    beside        p = { .drawn = mba_sweep_draws(s) };
    mba_simulated r = { 0 };
    mba_status    st = point(&p.base, unchanged, &r, s, model, s->axis, (const int[]){ 0, 0 }, 0);
    add_cost(s, &r);
    mba_simulated_end(&r);
    MBA_TRY(st);
    memcpy(sorted, unchanged, sizeof sorted);
    p.spread = mba_band_of_samples(sorted);
    const int n = s->axis[1].n ? s->axis[1].n : 1;
    for (int k = 0; k < mba_sweep_size(s); k++)
        MBA_TRY(change_point(&out[k], s, model, (const int[]){ k / n, k % n }, &p, unchanged));
    return MBA_OK;
}

/* ---- elasticity ---- */

const char *const mba_sweep_numbers[MBA_SWEEP_NUMBERS] = { "clk",     "fma",         "alu",           "xu",    "mma16",
                                                           "issue",   "smem_bw",     "l2_half_reuse", "l2_rd", "hbm",
                                                           "hbm_lat", "block_start", "gap_graph" };

double mba_elasticity(double more_ms, double less_ms)
{
    return -log(more_ms / less_ms) / log((100.0 + MBA_ELASTICITY_PCT) / (100 - MBA_ELASTICITY_PCT));
}

mba_status mba_sweep_elasticity(double out[MBA_SWEEP_NUMBERS], mba_sweep *s, const mba_model_options *model)
{
    for (int k = 0; k < MBA_SWEEP_NUMBERS; k++) {
        mba_sweep_axis a = { .n = 2 };
        double         ms[2];
        for (int side = 0; side < 2; side++)
            snprintf(a.value[side], sizeof a.value[0], "x%g", 1 + (side ? -0.01 : 0.01) * MBA_ELASTICITY_PCT);
        snprintf(a.name, sizeof a.name, "%s", mba_sweep_numbers[k]);
        for (int side = 0; side < 2; side++) {
            mba_simulated    r = { 0 };
            const mba_status st = point(&ms[side], NULL, &r, s, model, &a, (const int[]){ side, 0 }, 1);
            add_cost(s, &r);
            mba_simulated_end(&r);
            MBA_TRY(st);
            s->points++;
        }
        out[k] = mba_elasticity(ms[0], ms[1]);
    }
    return MBA_OK;
}

/* ---- balance ---- */

typedef struct group {
    const char *op;
    double      seconds, busy[MBA_PIPES];
} group;

static mba_balance balance_of(const group *g, double ratio)
{
    static const int others[] = { MBA_P_FMA, MBA_P_ALU, MBA_P_XU, MBA_P_ISSUE };
    int              busiest = MBA_P_FMA;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (g->busy[others[i]] > g->busy[busiest]) busiest = others[i];
    return (mba_balance){ .op = g->op,
                          .ms = 1e3 * g->seconds,
                          .tensor_percent = 100 * g->busy[MBA_P_MMA] / g->seconds,
                          .vector_percent = 100 * g->busy[busiest] / g->seconds,
                          .pipe = busiest,
                          .ratio = ratio * g->busy[MBA_P_MMA] / g->busy[busiest] };
}

/* Writes the step to g[0] and its operators after it; returns their number. */
static int group_operators(group g[MBA_BALANCE_ROWS], const mba_simulated *r)
{
    int n = 1;
    g[0] = (group){ .op = "whole step" };
    for (int32_t i = 0; i < r->session.graph->nnodes; i++) {
        const mba_sim_node *s = &r->step.node[i];
        const char         *op = r->session.graph->nodes[i]->op->name;
        int                 k = 1;
        while (k < n && strcmp(g[k].op, op)) k++;
        if (k == MBA_BALANCE_ROWS) continue;
        if (k == n) g[n++] = (group){ .op = op };
        for (int which = 0; which < 2; which++) {
            group *to = &g[which ? k : 0];
            to->seconds += s->kernels_s;
            for (int p = 0; p < MBA_PIPES; p++) to->busy[p] += s->busy[p] * s->kernels_s;
        }
    }
    return n;
}

mba_status mba_sweep_balance(mba_balance out[MBA_BALANCE_ROWS], int *n, mba_sweep *s, const mba_model_options *model)
{
    group         g[MBA_BALANCE_ROWS];
    double        ms;
    mba_simulated r = { 0 };
    *n = 0;
    const mba_status st = point(&ms, NULL, &r, s, model, NULL, NULL, 0);
    if (st == MBA_OK) {
        const int    all = group_operators(g, &r);
        const double ratio = r.gpu.v[MBA_GPU_mma16] / (2 * r.gpu.v[MBA_GPU_fma]);
        for (int k = 0; k < all; k++)
            if (g[k].busy[MBA_P_MMA] > 0) out[(*n)++] = balance_of(&g[k], ratio);
        s->points++;
        add_cost(s, &r);
    }
    mba_simulated_end(&r);
    return st;
}

/* ---- prepared questions ---- */

#define BASELINE "ssd=chunked,ssd_bwd=chunked"

const mba_experiment mba_experiments[] = {
    { .id = "q1", .question = "persistent blocks", .axis = "block_start=0:350:700:1000", .by = "persistent=0:1" },
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
      .by = "l2_half_reuse=x0.5:x1:x4",
      .model = "mamba2-130m",
      .op = BASELINE },
    { .id = "q3",
      .question = "scratch that never leaves the chip: our kernels",
      .axis = "keep=none:all",
      .by = "l2_half_reuse=x0.5:x1:x4" },
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
    { 0 },
};
