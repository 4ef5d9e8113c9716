// SPDX-License-Identifier: Apache-2.0
/* sweep.c -- `mambascope sweep`: simulates steps over one or two axes, and how much each number of a machine
 * matters. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "cli/model_options.h"
#include "cli/options.h"
#include "cli/table.h"
#include "scope/clock.h"
#include "study/sweep.h"
#include "study/validation.h"

enum { POINT_COLUMNS = 12 };

typedef struct options {
    mba_sweep   s;
    const char *axis[2], *experiment;
    int64_t     part; /* print only this table of the experiment; 0: all */
    bool        json, csv, elasticity, balance;
} options;

/* Writes the heading of an axis: its name and unit, or "times" for factors ("x2"). */
static void heading_of(char *out, size_t space, const mba_sweep_axis *a)
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
    const int   key = mba_gpu_key_find(a->name);
    if (key >= 0) unit = mba_gpu_keys[key].unit;
    for (size_t k = 0; k < sizeof others / sizeof *others; k++)
        if (!strcmp(a->name, others[k].name)) unit = others[k].unit;
    bool factors = a->n > 0;
    for (int i = 0; i < a->n; i++) factors &= a->value[i][0] == 'x';
    snprintf(out, space, "%s%s%s", *a->name ? a->name : "-", unit ? ", " : "", !unit ? "" : factors ? "times" : unit);
}

static void point_row(mba_table *t, const mba_sweep_point *p, bool drawn)
{
    mba_table_text(t, "%s", p->model);
    for (int i = 0; i < 2; i++) mba_table_text(t, "%s", p->value[i]);
    mba_table_number(t, p->ms);
    mba_table_number(t, p->low_ms);
    mba_table_number(t, p->high_ms);
    mba_table_number(t, p->speedup);
    if (drawn) {
        mba_table_number(t, p->speedup * p->ratio.band.low);
        mba_table_number(t, p->speedup * p->ratio.band.high);
        mba_table_number(t, 100 * p->ratio.above);
    }
    mba_table_number(t, p->units_s);
    mba_table_number(t, p->dram_gbs);
    mba_table_text(t, "%s", *p->refused ? p->refused : mba_sim_limits[p->limit]);
    mba_table_text(t, "%c", p->grade);
}

static mba_status point_rows(mba_table *t, mba_sweep *s, const mba_model_options *model)
{
    const int        n = mba_sweep_size(s);
    mba_sweep_point *p = calloc((size_t)n + 1, sizeof *p);
    if (!p) return mba_fail(MBA_E_NOMEM, "no memory for %d points", n);
    const mba_status st = mba_sweep_points(p, s, model);
    for (int i = 0; i < n && st == MBA_OK; i++) point_row(t, &p[i], mba_sweep_draws(s));
    free(p);
    return st;
}

static mba_status elasticity_row(mba_table *t, mba_sweep *s, const mba_model_options *model)
{
    double per_percent[MBA_SWEEP_NUMBERS];
    MBA_TRY(mba_sweep_elasticity(per_percent, s, model));
    mba_table_text(t, "%s", model->name);
    for (int k = 0; k < MBA_SWEEP_NUMBERS; k++) mba_table_number(t, per_percent[k]);
    return MBA_OK;
}

static const mba_column balance_columns[] = { { "model", "model", NULL },
                                              { "operator", "operator", NULL },
                                              { "ms", "ms", "%.3f" },
                                              { "tensor", "tensor busy, %", "%.1f" },
                                              { "vector", "busiest of the others, %", "%.1f" },
                                              { "which", "which", NULL },
                                              { "balance", "balanced at ratio", "%.2f" },
                                              { 0 } };

static mba_status balance_rows(mba_table *t, mba_sweep *s, const mba_model_options *model)
{
    mba_balance b[MBA_BALANCE_ROWS];
    int         n;
    MBA_TRY(mba_sweep_balance(b, &n, s, model));
    for (int k = 0; k < n; k++) {
        mba_table_text(t, "%s", model->name);
        mba_table_text(t, "%s", b[k].op);
        mba_table_number(t, b[k].ms);
        mba_table_number(t, b[k].tensor_percent);
        mba_table_number(t, b[k].vector_percent);
        mba_table_text(t, "%s", mba_sim_limits[b[k].pipe]);
        mba_table_number(t, b[k].ratio);
    }
    return MBA_OK;
}

/* ---- the command ---- */

/* Inserts the columns of the speed-up's band after the speed-up, if every point is sampled. */
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
    char             heading[2][96], number[MBA_SWEEP_NUMBERS][32];
    const mba_column point_columns[POINT_COLUMNS] = {
        { "model", "model", NULL },           { "first", heading[0], NULL },
        { "second", heading[1], NULL },       { "step_ms", "step, ms", "%.3f" },
        { "low_ms", "at least", "%.3f" },     { "high_ms", "at most", "%.3f" },
        { "speedup", "speed-up", "%.3f" },    { "units_per_s", "tokens, images or graphs/s", "%.0f" },
        { "dram_gbs", "DRAM, GB/s", "%.0f" }, { "bound", "longest node limited by", NULL },
        { "grade", "grade", NULL },           { 0 }
    };
    mba_column              drawn[POINT_COLUMNS + 3], many[MBA_SWEEP_NUMBERS + 2] = { { "model", "model", NULL } };
    const mba_model_options one[] = { o->s.w.model, { 0 } }, *models = o->s.w.model.name ? one : mba_full_size;
    const char             *machine = o->s.w.machine, *changes = o->s.w.changes;
    mba_sweep               s = o->s;
    mba_table              *t = NULL;
    const double            began = mba_clock_s();
    for (int k = 0; k < MBA_SWEEP_NUMBERS; k++) {
        snprintf(number[k], sizeof number[k], "%s, %%/%%", mba_sweep_numbers[k]);
        many[k + 1] = (mba_column){ mba_sweep_numbers[k], number[k], "%.3f" };
    }
    MBA_TRY(mba_sweep_axes(&s, o->axis[0], o->axis[1]));
    for (int i = 0; i < 2; i++) heading_of(heading[i], sizeof heading[i], &s.axis[i]);
    add_ratio(drawn, point_columns);
    mba_status st = mba_table_create(&t, o->elasticity         ? many
                                         : o->balance          ? balance_columns
                                         : mba_sweep_draws(&s) ? drawn
                                                               : point_columns);
    for (const mba_model_options *m = models; m->name && st == MBA_OK; m++)
        st = o->elasticity ? elasticity_row(t, &s, m) : o->balance ? balance_rows(t, &s, m) : point_rows(t, &s, m);
    if (st == MBA_OK) {
        st = mba_table_print(t, stdout, mba_table_form_of(o->json, o->csv));
        fprintf(stderr,
                "SIMULATED on %s%s%s: %lld points in %.2f s; %lld kernels simulated, %lld events, %.2f M events/s\n",
                machine, changes ? " with " : "", changes ? changes : "", (long long)s.points, mba_clock_s() - began,
                (long long)s.kernels, (long long)s.events, (double)s.events / s.seconds / 1e6);
        if (o->axis[0] && mba_sweep_draws(&s))
            fprintf(stderr,
                    "bands of speed-ups come from %d paired samples: shared uncertainty cancels; model "
                    "error is not included\n",
                    MBA_GPU_SAMPLES);
    }
    mba_table_destroy(t);
    return st;
}

static int parts_of(const char *id)
{
    int n = 0;
    for (const mba_experiment *e = mba_experiments; e->id; e++) n += !strcmp(e->id, id);
    return n;
}

/* JSON is one document. An empty line separates tables of CSV; --part selects one of them. */
static void print_title(const options *o, const mba_experiment *e, bool first)
{
    if (o->json)
        printf("%s{\"experiment\": \"%s\", \"question\": \"%s\", \"rows\":\n", first ? "[" : ", ", e->id, e->question);
    else if (o->csv) printf("%s", first ? "" : "\n");
    else printf("%s%s: %s\n", first ? "" : "\n", e->id, e->question);
}

static mba_status run_experiment(const options *o)
{
    int part = 0, printed = 0;
    for (const mba_experiment *e = mba_experiments; e->id; e++) {
        options one = *o;
        if (strcmp(e->id, o->experiment) || (++part != o->part && o->part)) continue;
        one.axis[0] = e->axis;
        one.axis[1] = e->by;
        one.elasticity = e->elasticity;
        one.balance = e->balance;
        if (!one.s.w.model.name) one.s.w.model.name = e->model;
        if (!one.s.w.model.variants) one.s.w.model.variants = e->op;
        print_title(o, e, printed++ == 0);
        MBA_TRY(run(&one));
        if (o->json) puts("}");
    }
    if (o->json) puts("]");
    return MBA_OK;
}

/* Prints with every table how far measured steps are from their predictions. */
static void say_band(const options *o)
{
    fprintf(stderr, "error band: measured steps on the H200 were %.2f to %.2f times as long as predicted ones%s\n",
            o->s.validated.low, o->s.validated.high,
            o->elasticity || o->balance
                ? ""
                : "; \"at least\" and \"at most\" combine it with the uncertainty of the machine's numbers");
}

static mba_status check_experiment(const options *o)
{
    const int parts = parts_of(o->experiment);
    if (!parts)
        return mba_fail(MBA_E_ARG, "there is no experiment '%s'\nfix: choose q1, q2, q3, d1, d2, d3, n1 or n2",
                        o->experiment);
    return o->part > parts ? mba_fail(MBA_E_ARG, "there is no --part %lld\nwhy: %s has %d\nfix: choose 1 to %d",
                                      (long long)o->part, o->experiment, parts, parts)
                           : MBA_OK;
}

/* Checks the question before anything is simulated: the bands alone take a third of a second. */
static mba_status check_question(const options *o)
{
    if (o->experiment) return check_experiment(o);
    mba_sweep s;
    return mba_sweep_axes(&s, o->axis[0], o->axis[1]);
}

/* Refuses options without effect. The five workloads have their own sizes. */
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
    if (o->s.w.model.name) return MBA_OK;
    if (o->s.w.model.set || memcmp(&o->s.w.model.shape, &none, sizeof none))
        return mba_fail(MBA_E_ARG,
                        "%s needs --model\nwhy: the five workloads have their own sizes\nfix: add --model NAME",
                        o->s.w.model.set ? "--model-set" : "a size");
    return MBA_OK;
}

mba_status mba_command_sweep(int argc, char **argv)
{
    options          o = { .s = { .w = { .machine = "h200" } } };
    bool             help;
    const mba_option table[] = {
        MBA_OPTION_GROUP("Axes"),
        { "--axis", MBA_OPT_TEXT, &o.axis[0], "K=V:V..",
          "values of one axis: a key of the machine (x2 = a factor), clock, launch, ratio, machine, persistent, ring, "
          "keep, batch, length or chunk",
          0, 0 },
        { "--by", MBA_OPT_TEXT, &o.axis[1], "K=V:V..", "values of a second axis", 0, 0 },
        { "--experiment", MBA_OPT_TEXT, &o.experiment, "ID",
          "run a prepared experiment instead: q1 q2 q3 d1 d2 d3 n1 n2", 0, 0 },
        { "--part", MBA_OPT_INT, &o.part, "N", "--experiment: print only its table N", 1, 9 },
        { "--elasticity", MBA_OPT_FLAG, &o.elasticity, NULL,
          "print instead by how many percent a step gets faster per percent more of each number of the machine", 0, 0 },

        MBA_WORKLOAD_OPTIONS(&o.s.w, "all five workloads"),

        MBA_OPTION_GROUP("Simulation and output"),
        { "--uncertainty", MBA_OPT_FLAG, &o.s.spread, NULL,
          "add bands from the uncertainty of the machine's numbers, and how often each point wins", 0, 0 },
        MBA_OPTION_ALIAS("--spread", "--uncertainty"),
        MBA_TABLE_OPTIONS(&o.json, &o.csv),
        MBA_WORKLOAD_THREADS(&o.s.w),
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
                              "keep        scratch that a fused kernel keeps on the chip: none, all, CB, states",
                              table,
                              "mambascope sweep --axis ratio=2:4:8:16:32:64 --by xu=x1:x2\n"
                              "mambascope sweep --axis block_start=0:350:1000 --by persistent=0:1\n"
                              "mambascope sweep --elasticity --csv > elasticity.csv\n"
                              "mambascope sweep --experiment q2\n"
                              "mambascope sweep --axis xu=x1.5:x2 --model mamba-130m --uncertainty\n" };
    MBA_TRY(mba_options_parse(&usage, argc, argv, NULL, &help));
    if (help) return MBA_OK;
    if (o.s.w.changes && !*o.s.w.changes) o.s.w.changes = NULL;
    MBA_TRY(check_options(&o));
    if (!o.axis[0] && !o.elasticity && !o.experiment)
        return mba_fail(MBA_E_ARG, "no axis is given\nfix: add --axis hbm=x0.5:x1:x2, --experiment q1 or --elasticity");
    MBA_TRY(check_question(&o));
    MBA_TRY(mba_sim_create(&o.s.sim));
    mba_status st = mba_validation_bands(&o.s.validated, NULL, o.s.sim, NULL);
    if (st == MBA_OK) st = o.experiment ? run_experiment(&o) : run(&o);
    if (st == MBA_OK) say_band(&o);
    mba_sim_destroy(o.s.sim);
    return st;
}
