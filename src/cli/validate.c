// SPDX-License-Identifier: Apache-2.0
/* validate.c -- `mambascope validate`: the errors of the simulator, for each measured point and in summary. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/command.h"
#include "cli/options.h"
#include "cli/power_tables.h"
#include "cli/say.h"
#include "cli/store_files.h"
#include "cli/table.h"
#include "cli/validate_scores.h"
#include "sim/engine.h"
#include "study/validation.h"

typedef struct options {
    const char *machine, *changes, *data, *kernels, *imitated, *freeze;
    bool        json, csv, points, published, links;
} options;

static const char *const set_names[] = { "fitted", "held out", "not counted" };

static const mba_column point_columns[] = { { "set", "set", NULL },
                                            { "source", "source", NULL },
                                            { "subject", "subject", NULL },
                                            { "operator", "operator", NULL },
                                            { "which", "which", NULL },
                                            { "measured_ms", "measured, ms", "%.3f" },
                                            { "predicted_ms", "predicted, ms", "%.3f" },
                                            { "error", "error, %", "%+.1f" },
                                            { "roofline_error", "roofline error, %", "%+.1f" },
                                            { 0 } };

static void point_row(mba_table *t, const mba_point *p)
{
    const bool said = p->predicted_ms > 0 && p->ms > 0;
    mba_table_text(t, "%s", p->source == MBA_POINT_TOTAL ? "step" : set_names[p->set]);
    mba_table_text(t, "%s", mba_point_sources[p->source]);
    mba_table_text(t, "%s", p->subject);
    mba_table_text(t, "%s", p->operator);
    mba_table_text(t, "%s", p->which);
    mba_table_number(t, p->ms);
    mba_table_number(t, p->predicted_ms > 0 ? p->predicted_ms : NAN);
    mba_table_number(t, said ? 100 * (p->predicted_ms / p->ms - 1) : NAN);
    mba_table_number(t, said && p->roofline_ms > 0 ? 100 * (p->roofline_ms / p->ms - 1) : NAN);
}

static const mba_column score_columns[] = { { "set", "set", NULL },
                                            { "points", "points", "%.0f" },
                                            { "kernel_time_mape", "mean error, %", "%.1f" },
                                            { "p90", "90th percentile, %", "%.1f" },
                                            { "worst", "worst, %", "%.1f" },
                                            { "log_correlation", "correlation of logs", "%.4f" },
                                            { "roofline_mape", "roofline's mean error, %", "%.1f" },
                                            { 0 } };

static void score_row(mba_table *t, const char *name, const mba_error_stats *s)
{
    mba_table_text(t, "%s", name);
    mba_table_number(t, s->points);
    mba_table_number(t, s->mape);
    mba_table_number(t, s->p90);
    mba_table_number(t, s->worst);
    mba_table_number(t, s->log_correlation);
    mba_table_number(t, s->roofline_mape);
}

static const mba_column kernel_columns[] = { { "set", "set", NULL },
                                             { "workload", "workload", NULL },
                                             { "op", "operator", NULL },
                                             { "kernel", "kernel", NULL },
                                             { "place", "place", "%.0f" },
                                             { "launches", "launches", "%.0f" },
                                             { "measured_us", "measured, us", "%.2f" },
                                             { "predicted_us", "profile-driven, us", "%.2f" },
                                             { "error", "error, %", "%+.1f" },
                                             { "planned_us", "plan-driven, us", "%.2f" },
                                             { "planned_error", "error, %", "%+.1f" },
                                             { "roofline_error", "roofline error, %", "%+.1f" },
                                             { "limit", "limit", NULL },
                                             { "dram_error", "DRAM bytes of the launch plan, %", "%+.1f" },
                                             { 0 } };

static void kernel_row(mba_table *t, const mba_profiled_kernel *c)
{
    mba_table_text(t, "%s", set_names[c->set]);
    mba_table_text(t, "%s", c->workload);
    mba_table_text(t, "%s", c->op);
    mba_table_text(t, "%s", c->kernel);
    mba_table_number(t, c->place);
    mba_table_number(t, c->launches);
    mba_table_number(t, c->us);
    mba_table_number(t, c->bound_us > 0 ? c->bound_us : NAN);
    mba_table_number(t, mba_error_percent(c->bound_us, c->us));
    mba_table_number(t, c->planned_us > 0 ? c->planned_us : NAN);
    mba_table_number(t, mba_error_percent(c->planned_us, c->us));
    mba_table_number(t, mba_error_percent(c->roofline_us, c->us));
    mba_table_text(t, "%s", c->met ? mba_sim_limits[c->limit] : "-");
    mba_table_number(t, mba_error_percent(c->dram_rd + c->dram_wr, c->n[MBA_N_DRAM_RD] + c->n[MBA_N_DRAM_WR]));
}

static mba_status print_kernels(const mba_profiled_set *k, bool csv)
{
    mba_table *t = NULL;
    MBA_TRY(mba_table_create(&t, kernel_columns));
    for (int i = 0; i < k->n; i++)
        if (!k->one[i].again) kernel_row(t, &k->one[i]);
    const mba_status st = mba_table_print(t, stdout, csv ? MBA_TABLE_CSV : MBA_TABLE_TEXT);
    mba_table_destroy(t);
    return st;
}

/* ---- emulated machines ---- */

static const mba_column emulated_columns[] = { { "kernel", "kernel", NULL },
                                               { "axis", "what is changed", NULL },
                                               { "factor", "to", "x%.3g" },
                                               { "us", "here, us", "%.1f" },
                                               { "imitated_us", "emulated, us", "%.1f" },
                                               { "measured", "times as long", "%.3f" },
                                               { "predicted", "predicted", "%.3f" },
                                               { "error", "error, %", "%+.1f" },
                                               { "share", "share of the effect, %", "%.0f" },
                                               { "unchanged_error", "if nothing changed, %", "%+.1f" },
                                               { 0 } };

static void emulated_rows(mba_table *t, const mba_emulated_set *d, const mba_emulation_agreement *a)
{
    for (int i = 0; i < d->n; i++) {
        const mba_emulated *r = &d->one[i];
        mba_table_text(t, "%s", r->kernel);
        mba_table_text(t, "%s", r->axis);
        mba_table_number(t, r->what.factor);
        mba_table_number(t, r->us);
        mba_table_number(t, r->imitated_us);
        mba_table_number(t, r->slower);
        mba_table_number(t, a->predicted[i]);
        mba_table_number(t, 100 * (a->predicted[i] / r->slower - 1));
        mba_table_number(t, 100 * mba_effect_share(r->slower, a->predicted[i]));
        mba_table_number(t, 100 * (1 / r->slower - 1));
    }
}

/* Prints how much of the changes is predicted, beside a model that predicts none. */
static void say_effects(const mba_emulated_set *d, const mba_emulation_agreement *a)
{
    double share[MBA_EFFECTS_MAX];
    int    null = 0;
    mba_assert(d->n <= MBA_EFFECTS_MAX);
    for (int i = 0; i < d->n; i++) {
        const double slower = d->one[i].slower;
        share[i] = mba_effect_share(slower, a->predicted[i]);
        null += slower <= 2.1 && fabs(1 / slower - 1) <= 0.1;
    }
    const mba_effect_sum s = mba_effect_sum_of(share, d->n);
    printf(
        "%d effects of 3 %% or more: share predicted %.0f %%, median %.0f %%. The model \"nothing changes\": share 0 "
        "%%, %d of %d within 10 %%\n",
        s.effects, s.mean, s.median, null, a->near);
}

static mba_status print_imitated(const options *o)
{
    mba_emulated_set        d;
    mba_emulation_agreement a;
    mba_table              *t = NULL;
    mba_gpu                 m;
    MBA_TRY(mba_gpu_load(&m, o->machine));
    MBA_TRY(mba_gpu_set(&m, o->changes));
    MBA_TRY(mba_emulated_load(&d, strcmp(o->imitated, "-") ? o->imitated : NULL));
    if (!d.n)
        return mba_fail(MBA_E_FORMAT,
                        "there is no emulated machine in '%s'\nfix: write it with `mambascope "
                        "calibrate --emulate FILE`",
                        o->imitated);
    MBA_TRY(mba_emulation_compare(&a, &d, &m));
    MBA_TRY(mba_table_create(&t, emulated_columns));
    emulated_rows(t, &d, &a);
    const mba_status st = mba_table_print(t, stdout, mba_table_form_of(o->json, o->csv));
    if (st == MBA_OK && !o->csv && !o->json)
        printf("%d of %d predictions have the opposite sign, %d changes of more than 1 %% were not predicted, "
               "%d were predicted but did not occur; %d of %d changes up to a factor of two are within 10 %%\n",
               a.opposite, d.n, a.missed, a.invented, a.within, a.near);
    if (st == MBA_OK && !o->csv && !o->json) say_effects(&d, &a);
    mba_table_destroy(t);
    return st;
}

static void json_number(double v)
{
    if (isnan(v)) fputs("null", stdout);
    else printf("%.4g", v);
}

static void json_score(const char *name, const mba_error_stats *s)
{
    printf("\"%s\": {\"points\": %d, \"kernel_time_mape\": ", name, s->points);
    json_number(s->mape);
    fputs(", \"p90\": ", stdout);
    json_number(s->p90);
    fputs(", \"worst\": ", stdout);
    json_number(s->worst);
    fputs(", \"log_correlation\": ", stdout);
    json_number(s->log_correlation);
    fputs(", \"roofline_mape\": ", stdout);
    json_number(s->roofline_mape);
    fputs("}", stdout);
}

static const mba_column cover_columns[] = { { "class", "kernels limited by", NULL },
                                            { "fitted", "fitted", "%.0f" },
                                            { "low", "took at least, times", "%.2f" },
                                            { "high", "at most", "%.2f" },
                                            { "held_out", "held out", "%.0f" },
                                            { "inside", "inside, %", "%.0f" },
                                            { 0 } };

/* Prints the bands of predictions from counters, computed from held-out kernels, and how many of them lie in the band
 * that is computed without their workload. */
static mba_status print_coverage(const mba_profiled_set *k, mba_table_form form)
{
    mba_coverage v;
    mba_table   *t = NULL;
    MBA_TRY(mba_profiled_coverage(&v, k));
    MBA_TRY(mba_table_create(&t, cover_columns));
    for (int c = 0; c < MBA_SIM_LIMITERS; c++) {
        mba_table_text(t, "%s", mba_sim_causes[c]);
        mba_table_number(t, v.of[c].fitted);
        mba_table_number(t, v.of[c].band.low);
        mba_table_number(t, v.of[c].band.high);
        mba_table_number(t, v.of[c].held);
        mba_table_number(t, v.of[c].held ? 100.0 * v.of[c].inside / v.of[c].held : NAN);
    }
    if (form == MBA_TABLE_JSON)
        printf(",\n \"coverage\": {\"asked\": 80, \"held_out\": %.4g, \"classes\": ",
               v.held ? 100.0 * v.inside / v.held : 0);
    const mba_status st = mba_table_print(t, stdout, form);
    if (form == MBA_TABLE_JSON) putchar('}');
    else
        printf("of %d held-out kernels, %.0f %% lie in the band of their class, computed without their workload\n\n",
               v.held, v.held ? 100.0 * v.inside / v.held : 0);
    mba_table_destroy(t);
    return st;
}

/* Prints the bands of a class, computed from all its residuals, and how many points lie in the band that is computed
 * without their operator. */
static mba_status print_classes(const mba_error_bands *b, const char *key, const char *what, mba_table_form form)
{
    mba_table       *t = NULL;
    const double     inside = b->points ? 100.0 * b->inside / b->points : 0;
    const mba_column columns[] = { { "class", what, NULL },
                                   { "points", "points", "%.0f" },
                                   { "low", "took at least, times", "%.2f" },
                                   { "high", "at most", "%.2f" },
                                   { "inside", "inside the others' band, %", "%.0f" },
                                   { 0 } };
    MBA_TRY(mba_table_create(&t, columns));
    for (int c = 0; c < MBA_SIM_LIMITERS; c++) {
        mba_table_text(t, "%s", mba_sim_causes[c]);
        mba_table_number(t, b->of[c].points);
        mba_table_number(t, b->of[c].points ? b->of[c].band.low : NAN);
        mba_table_number(t, b->of[c].points && isfinite(b->of[c].band.high) ? b->of[c].band.high : NAN);
        mba_table_number(t, b->of[c].points ? 100.0 * b->of[c].inside / b->of[c].points : NAN);
    }
    if (form == MBA_TABLE_JSON) printf(",\n \"%s\": {\"asked\": 80, \"left_out\": %.4g, \"classes\": ", key, inside);
    const mba_status st = mba_table_print(t, stdout, form);
    if (form == MBA_TABLE_JSON) putchar('}');
    else
        printf("of %d points, %.0f %% lie in the band of their class, computed without their operator\n\n", b->points,
               inside);
    mba_table_destroy(t);
    return st;
}

/* Prints the bands of kernels (profile-driven), of operators (plan-driven), and of kernels known by counters alone
 * (`simulate --store`). */
static mba_status print_bands(const mba_measured *d, const mba_profiled_set *k, mba_table_form form)
{
    mba_error_bands operators, foreign;
    mba_band        steps;
    MBA_TRY(print_coverage(k, form));
    MBA_TRY(mba_validation_operators(&operators, d));
    MBA_TRY(mba_validation_foreign(&foreign, &steps));
    MBA_TRY(print_classes(&operators, "operator_coverage", "held-out operators limited by", form));
    return print_classes(&foreign, "foreign_coverage", "kernels of a store limited by", form);
}

static const mba_column step_columns[] = { { "workload", "step of", NULL },
                                           { "measured_ms", "measured, ms", "%.2f" },
                                           { "predicted_ms", "profile-driven, ms", "%.2f" },
                                           { "error", "error, %", "%+.1f" },
                                           { "planned_ms", "plan-driven, ms", "%.2f" },
                                           { "planned_error", "error, %", "%+.1f" },
                                           { "dram_gb", "DRAM, GB", "%.2f" },
                                           { "planned_dram_error", "of launch plans, %", "%+.1f" },
                                           { 0 } };

static void step_row(mba_table *t, const mba_point *p, const mba_profiled_set *k)
{
    const double ms = mba_step_ms_from_counters(k, p);
    mba_table_text(t, "%s", p->subject);
    mba_table_number(t, p->ms);
    mba_table_number(t, ms > 0 ? ms : NAN);
    mba_table_number(t, mba_error_percent(ms, p->ms));
    mba_table_number(t, p->predicted_ms);
    mba_table_number(t, mba_error_percent(p->predicted_ms, p->ms));
    const double bytes = mba_step_dram_bytes(k, p->subject);
    mba_table_number(t, bytes > 0 ? 1e-9 * bytes : NAN);
    mba_table_number(t, mba_error_percent(p->dram_bytes, bytes));
}

/* Prints every kernel and every point of operators and steps, with the keys of their CSV columns. */
static mba_status print_json_points(const mba_measured *d, const mba_profiled_set *k)
{
    mba_table *kernels = NULL, *points = NULL;
    mba_status st = mba_table_create(&kernels, kernel_columns);
    if (st == MBA_OK) st = mba_table_create(&points, point_columns);
    if (st == MBA_OK) {
        for (int i = 0; i < k->n; i++)
            if (!k->one[i].again) kernel_row(kernels, &k->one[i]);
        for (int i = 0; i < d->n; i++) point_row(points, &d->point[i]);
        fputs(",\n \"kernels\": ", stdout);
        st = mba_table_print(kernels, stdout, MBA_TABLE_JSON);
        fputs(" ,\"points\": ", stdout);
        if (st == MBA_OK) st = mba_table_print(points, stdout, MBA_TABLE_JSON);
    }
    mba_table_destroy(kernels);
    mba_table_destroy(points);
    return st;
}

static mba_status print_json(const mba_measured *d, const mba_measured *sizes, const mba_profiled_set *k,
                             bool every_point)
{
    const mba_error_stats held = mba_profiled_score(k, MBA_POINT_HELD, false),
                          fitted = mba_profiled_score(k, MBA_POINT_FITTED, false);
    char key[256];
    bool first = true;
    putchar('{');
    json_score("held_out", &held);
    fputs(",\n ", stdout);
    json_score("fitted", &fitted);
    fputs(",\n \"step_error\": {", stdout);
    for (int i = 0; i < d->n; i++) {
        const mba_point *p = &d->point[i];
        const double     ms = mba_step_ms_from_counters(k, p);
        if (p->source != MBA_POINT_TOTAL) continue;
        const int name = strstr(p->subject, "--op") ? (int)strlen(p->subject) : (int)strcspn(p->subject, " ");
        snprintf(key, sizeof key, "%.*s", name, p->subject);
        if (!first) fputs(", ", stdout);
        MBA_TRY(mba_table_json_text(stdout, key));
        fputs(": ", stdout);
        json_number(100 * fabs((ms > 0 ? ms : p->predicted_ms) / p->ms - 1));
        first = false;
    }
    putchar('}');
    MBA_TRY(mba_print_weighted(k, MBA_TABLE_JSON));
    MBA_TRY(print_bands(d, k, MBA_TABLE_JSON));
    if (sizes) MBA_TRY(mba_print_sizes(d, sizes, MBA_TABLE_JSON));
    if (sizes) MBA_TRY(mba_print_sealed(MBA_TABLE_JSON));
    if (sizes) MBA_TRY(mba_print_power("h200", MBA_TABLE_JSON));
    if (every_point) MBA_TRY(print_json_points(d, k));
    puts("}");
    return MBA_OK;
}

static void print_worst(const mba_profiled_set *k, const mba_point *operator)
{
    const mba_profiled_kernel *worst = mba_worst_kernel(k);
    if (worst) mba_say(stdout, "worst held out: kernel %.64s of %s\n", worst->kernel, worst->workload);
    if (operator)
        mba_say(stdout, "worst held out: operator %s of %s, plan-driven\n", operator->operator, operator->subject);
    putchar('\n');
}

static mba_status print_text(const mba_measured *d, const mba_measured *sizes, const mba_profiled_set *k,
                             const options *o)
{
    mba_table            *scores = NULL, *steps = NULL, *points = NULL;
    const mba_error_stats held = mba_measured_score(d, MBA_POINT_HELD),
                          fitted = mba_measured_score(d, MBA_POINT_FITTED);
    const mba_error_stats kernels[] = { mba_profiled_score(k, MBA_POINT_HELD, false),
                                        mba_profiled_score(k, MBA_POINT_FITTED, false),
                                        mba_profiled_score(k, MBA_POINT_HELD, true),
                                        mba_profiled_score(k, MBA_POINT_FITTED, true) };
    MBA_TRY(mba_table_create(&scores, score_columns));
    mba_status st = mba_table_create(&steps, step_columns);
    if (st == MBA_OK) st = mba_table_create(&points, point_columns);
    if (st == MBA_OK) {
        score_row(scores, "kernels, profile-driven, held out", &kernels[0]);
        score_row(scores, "kernels, profile-driven, fitted", &kernels[1]);
        score_row(scores, "kernels, plan-driven, held out", &kernels[2]);
        score_row(scores, "kernels, plan-driven, fitted", &kernels[3]);
        score_row(scores, "operators, plan-driven, held out", &held);
        score_row(scores, "operators, plan-driven, fitted", &fitted);
        for (int i = 0; i < d->n; i++) {
            if (d->point[i].source == MBA_POINT_TOTAL) step_row(steps, &d->point[i], k);
            if (o->points) point_row(points, &d->point[i]);
        }
        if (!o->csv) st = mba_print_weighted(k, MBA_TABLE_TEXT);
        if (st == MBA_OK && !o->csv) st = mba_table_print(scores, stdout, MBA_TABLE_TEXT);
        if (!o->csv) print_worst(k, held.worst_point);
        if (st == MBA_OK && !o->csv) st = print_bands(d, k, MBA_TABLE_TEXT);
        if (st == MBA_OK && !o->csv) st = mba_table_print(steps, stdout, MBA_TABLE_TEXT);
        if (st == MBA_OK && !o->csv) putchar('\n');
        if (st == MBA_OK && !o->csv && sizes) st = mba_print_sizes(d, sizes, MBA_TABLE_TEXT);
        if (st == MBA_OK && !o->csv && sizes) st = mba_print_sealed(MBA_TABLE_TEXT);
        if (st == MBA_OK && !o->csv && sizes) st = mba_print_power(o->machine, MBA_TABLE_TEXT);
        if (st == MBA_OK && (o->points || o->csv))
            st = mba_table_print(o->points ? points : steps, stdout, o->csv ? MBA_TABLE_CSV : MBA_TABLE_TEXT);
    }
    mba_table_destroy(scores);
    mba_table_destroy(steps);
    mba_table_destroy(points);
    return st;
}

/* The built-in points were measured on an H200, and compared with another GPU's numbers they test nothing. A driver
 * rounds the bandwidth of the same GPU differently: 10 %. */
static mba_status note_another_gpu(const options *o)
{
    mba_gpu h200, m;
    if (o->data && o->kernels) return MBA_OK;
    MBA_TRY(mba_gpu_load(&h200, "h200"));
    MBA_TRY(mba_gpu_load(&m, o->machine));
    MBA_TRY(mba_gpu_set(&m, o->changes));
    const double sm = m.v[MBA_GPU_sm], hbm = m.v[MBA_GPU_hbm], h200_sm = h200.v[MBA_GPU_sm],
                 h200_hbm = h200.v[MBA_GPU_hbm];
    if (sm != h200_sm || fabs(hbm / h200_hbm - 1) > 0.1)
        mba_say(stderr,
                "note: the points were measured on an H200 (%.0f SMs, %.0f GB/s), the machine here has %.0f SMs and "
                "%.0f GB/s: these errors do not test it\n",
                h200_sm, h200_hbm, sm, hbm);
    return MBA_OK;
}

mba_status mba_command_validate(int argc, char **argv)
{
    options           o = { .machine = "h200" };
    mba_measured     *d = NULL, *sizes = NULL;
    mba_profiled_set *k = NULL;
    bool              help;
    const mba_option  table[] = {
         { "--machine", MBA_OPT_TEXT, &o.machine, "NAME",
           "machine that was measured: h200, or a file by calibrate [h200]", 0, 0 },
         { "--set", MBA_OPT_TEXT, &o.changes, "K=V,..",
           "change numbers of the machine; see `mambascope simulate --keys`", 0, 0 },
         { "--data", MBA_OPT_TEXT, &o.data, "FILE", "other measured points, by tools/measured_points", 0, 0 },
         { "--kernels", MBA_OPT_TEXT, &o.kernels, "FILE", "other counted kernels, by tools/kernel_points", 0, 0 },
         { "--serialize", MBA_OPT_TEXT, &o.freeze, "OUT",
           "write this build's launch plans beside --kernels, which were measured with it, and exit", 0, 0 },
         MBA_OPTION_ALIAS("--freeze", "--serialize"),
         { "--counterfactual", MBA_OPT_TEXT, &o.imitated, "FILE",
           "compare with machines emulated on a GPU, by calibrate --emulate; - = those that come with the program; "
            "operators = the kernels of SSM operators on such machines; planned = predictions of those",
           0, 0 },
         { "--public", MBA_OPT_FLAG, &o.published, NULL,
           "compare ratios between GPUs with published ones, each with its source", 0, 0 },
         { "--links", MBA_OPT_FLAG, &o.links, NULL,
           "compare bandwidths of collectives with published ones, each with its source", 0, 0 },
         { "--points", MBA_OPT_FLAG, &o.points, NULL, "print every point", 0, 0 },
         { "--json", MBA_OPT_FLAG, &o.json, NULL,
           "print JSON: held_out, fitted, step_error in percent; with --points also kernels and points", 0, 0 },
         { "--csv", MBA_OPT_FLAG, &o.csv, NULL, "print the points as CSV", 0, 0 },
         { 0 },
    };
    const mba_usage usage = { "validate", "[options]",
                              "Predicts every measured point of a set [src/sim/data/measured.tsv] and prints\n"
                              "the errors of the predictions: first SSM kernels, weighted by time, then all,\n"
                              "then steps at every measured size and variants of SSD. Which points constants\n"
                              "may be fitted to was decided before the first comparison; the others are held\n"
                              "out. Beside the errors stand those of a roofline and of \"nothing changes\".",
                              table,
                              "mambascope validate\nmambascope validate --points --csv > points.csv\nmambascope "
                              "validate --public\nmambascope validate --links\nmambascope validate --json\n" };
    MBA_TRY(mba_options_parse(&usage, argc, argv, NULL, &help));
    if (help) return MBA_OK;
    if (o.published) return mba_print_public(mba_table_form_of(o.json, o.csv));
    if (o.imitated && (!strcmp(o.imitated, "operators") || !strcmp(o.imitated, "planned")))
        return mba_print_emulated(o.machine, !strcmp(o.imitated, "planned"), mba_table_form_of(o.json, o.csv));
    if (o.links) return mba_print_public_links(mba_table_form_of(o.json, o.csv));
    if (o.imitated) return print_imitated(&o);
    if (o.freeze && !o.kernels) return mba_fail(MBA_E_ARG, "--serialize needs --kernels\nfix: add --kernels FILE");
    if (o.freeze) MBA_TRY(mba_output_check(o.freeze));
    if (o.freeze) return mba_validation_serialize(o.freeze, o.kernels, o.machine);
    MBA_TRY(note_another_gpu(&o));
    MBA_TRY(mba_validation_points(&d, o.data, o.machine, o.changes));
    mba_status st = mba_validation_kernels(&k, o.kernels, o.machine, o.changes);
    if (st == MBA_OK && !o.data && !o.csv) st = mba_validation_sizes(&sizes, o.machine, o.changes);
    if (st == MBA_OK && sizes) st = mba_validation_known_code(d, o.machine, o.changes);
    if (st == MBA_OK && sizes) st = mba_validation_known_code(sizes, o.machine, o.changes);
    if (st == MBA_OK && o.json) st = print_json(d, sizes, k, o.points);
    else if (st == MBA_OK) {
        if (o.points) st = print_kernels(k, o.csv);
        if (o.points) putchar('\n'); // tables of CSV have an empty line between them
        if (st == MBA_OK) st = print_text(d, sizes, k, &o);
    }
    mba_profiled_destroy(k);
    mba_measured_destroy(sizes);
    mba_measured_destroy(d);
    return st;
}
