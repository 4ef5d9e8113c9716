// SPDX-License-Identifier: Apache-2.0
/* suite_summary.c -- see suite.h. Everything is read from the stores, so that a resumed suite ends like any other. */
#include "cli/suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/say.h"
#include "cli/store_files.h"
#include "cli/table.h"
#include "core/file.h"
#include "core/print.h"
#include "core/version.h"
#include "report/figure.h"
#include "scope/doubts.h"
#include "study/step_breakdown.h"
#include "study/validation.h"
#include "study/verdict_matrix.h"

enum { MAIN_PARTS = 5 }; /* shown on a page if no store is a workload's main one */
typedef struct ending {
    mba_stores r;
    mba_table *step, *kinds, *training;
} ending;

/* The name of the part. */
static const char *name_of(const mba_run *run)
{
    const char *part = mba_env_find(run->a, "suite.part");
    return part ? part : run->label;
}

/* ---- tables ---- */

static mba_status make_tables(ending *e)
{
    mba_column kinds[MBA_RUNS_MAX + 2] = { { "kind", "operators", NULL } };
    for (int i = 0; i < e->r.shown; i++)
        kinds[i + 1] = (mba_column){ name_of(&e->r.run[i]), name_of(&e->r.run[i]), "%.1f" };
    MBA_TRY(mba_table_create(&e->step, (const mba_column[]){ { "part", "part", NULL },
                                                             { "model", "model", NULL },
                                                             { "parameters_m", "parameters, M", "%.1f" },
                                                             { "batch", "batch", NULL },
                                                             { "plan_gb", "memory plan, GB", "%.3g" },
                                                             { "step_ms", "step, ms", "%.1f" },
                                                             { "units_per_s", "rate", "%.1f" },
                                                             { "unit", "unit", NULL },
                                                             { "percent_of_floor", "% of floor", "%.0f" },
                                                             { 0 } }));
    MBA_TRY(mba_table_create(&e->kinds, kinds));
    return mba_table_create(&e->training, (const mba_column[]){ { "workload", "workload", NULL },
                                                                { "steps", "steps", "%.0f" },
                                                                { "units", "trained on", "%.0f" },
                                                                { "unit", "unit", NULL },
                                                                { "first_loss", "first loss", "%.3f" },
                                                                { "last_loss", "last loss", "%.3f" },
                                                                { "valid_loss", "validation", "%.3f" },
                                                                { "score", "score", NULL },
                                                                { "units_per_s", "units/s", "%.0f" },
                                                                { 0 } });
}

static const char *parameter(const mba_row_parameter *p, int64_t n, const char *name)
{
    for (int64_t i = 0; i < n; i++)
        if (p[i].name && p[i].value && !strcmp(p[i].name, name)) return p[i].value;
    return NULL;
}

static double number(const char *text) { return text ? strtod(text, NULL) : NAN; }

/* A step without profiler; an external program's has our library attached. */
static double step_s(const mba_analysis *a) { return isnan(a->plain_s) ? a->attached_s : a->plain_s; }

static mba_status step_row(mba_table *t, const mba_run *run)
{
    const mba_analysis *a = run->a;
    mba_row_parameter  *p;
    int64_t             n;
    MBA_TRY(mba_load_parameter(run->store, &p, &n));
    mba_table_text(t, "%s", name_of(run));
    mba_table_text(t, "%s", a->workload);
    mba_table_number(t, number(parameter(p, n, "parameters")) / 1e6);
    mba_table_text(t, "%s", parameter(p, n, "batch") ? parameter(p, n, "batch") : "-");
    mba_table_number(t, number(parameter(p, n, "plan_bytes")) / 1e9);
    mba_table_number(t, 1e3 * step_s(a));
    mba_table_number(t, a->units / step_s(a));
    mba_table_text(t, "%s/s", *a->unit ? a->unit : "units");
    mba_table_number(t, mba_bounds_of(a, MBA_ALL_KERNELS).percent_of_floor);
    return MBA_OK;
}

static void training_row(mba_table *t, const mba_run *run)
{
    const mba_analysis *a = run->a;
    const double        score = mba_env_value(a, "train.score");
    if (isnan(mba_env_value(a, "train.steps"))) return;
    mba_table_text(t, "%s", name_of(run));
    mba_table_number(t, mba_env_value(a, "train.steps"));
    mba_table_number(t, mba_env_value(a, "train.units"));
    mba_table_text(t, "%s", a->unit);
    mba_table_number(t, mba_env_value(a, "train.first_loss"));
    mba_table_number(t, mba_env_value(a, "train.last_loss"));
    mba_table_number(t, mba_env_value(a, "train.valid_loss"));
    if (isnan(score)) mba_table_text(t, "-");
    else mba_table_text(t, "%s %.3f", mba_env_unit(a, "train.score"), score);
    mba_table_number(t, mba_env_value(a, "train.units_per_s"));
}

static void kind_rows(ending *e)
{
    for (int k = 0; k < MBA_BREAKDOWN_KINDS; k++) {
        double most = 0;
        for (int i = 0; i < e->r.shown; i++) most = fmax(most, mba_kind_s(e->r.run[i].a, k));
        if (!(most > 0)) continue;
        mba_table_text(e->kinds, "%s", mba_breakdown_kind_name(k));
        for (int i = 0; i < e->r.shown; i++) {
            const double s = mba_kind_s(e->r.run[i].a, k);
            mba_table_number(e->kinds, s > 0 ? 100 * s / e->r.run[i].a->busy_s : NAN);
        }
    }
}

static mba_status fill_tables(ending *e)
{
    MBA_TRY(make_tables(e));
    for (int i = 0; i < e->r.n; i++) MBA_TRY(step_row(e->step, &e->r.run[i]));
    for (int i = 0; i < e->r.n; i++) training_row(e->training, &e->r.run[i]);
    kind_rows(e);
    return mba_table_status(e->training); // it is not printed if it has no rows
}

static mba_status print_json(const ending *e)
{
    fputs("{\"version\": \"" MBA_VERSION "\", \"commit\": \"" MBA_COMMIT "\",\n\"step\": ", stdout);
    MBA_TRY(mba_table_print(e->step, stdout, MBA_TABLE_JSON));
    fputs(",\"operators\": ", stdout);
    MBA_TRY(mba_table_print(e->kinds, stdout, MBA_TABLE_JSON));
    fputs(",\"training\": ", stdout);
    MBA_TRY(mba_table_print(e->training, stdout, MBA_TABLE_JSON));
    puts("}");
    return MBA_OK;
}

static mba_status print_tables(const ending *e)
{
    printf("%s: a training step (forward, loss, backward, AdamW), %s; random tokens and pixels, SYNTHETIC graphs\n",
           mba_run_device(e->r.run[0].a), mba_env_find(e->r.run[0].a, "run.precision"));
    MBA_TRY(mba_table_print(e->step, stdout, MBA_TABLE_TEXT));
    puts("\nWhere the time goes, % of the step");
    MBA_TRY(mba_table_print(e->kinds, stdout, MBA_TABLE_TEXT));
    if (!mba_table_rows(e->training)) return MBA_OK;
    puts("\nSmall models of each family trained on SYNTHETIC data: text (bytes), shapes, peptides");
    return mba_table_print(e->training, stdout, MBA_TABLE_TEXT);
}

/* ---- files ---- */

static mba_status write_files(ending *e, const char *out)
{
    char        path[4096];
    mba_buf     summary = { 0 };
    mba_writer *w = NULL;
    snprintf(path, sizeof path, "%s/report.html", out);
    mba_status st = mba_report_write(&e->r, path);
    if (st == MBA_OK) st = mba_report_summary(&summary, &e->r);
    snprintf(path, sizeof path, "%s/summary.json", out);
    if (st == MBA_OK) st = mba_writer_create(&w, path);
    if (st == MBA_OK) st = mba_writer_put(w, summary.s, summary.n);
    if (st == MBA_OK) st = mba_writer_commit(w);
    mba_writer_destroy(w);
    mba_buf_free(&summary);
    return st;
}

/* ---- summary lines ---- */

static void workload_line(FILE *f, const mba_run *run)
{
    const mba_analysis *a = run->a;
    const mba_bounds    b = mba_bounds_of(a, MBA_ALL_KERNELS);
    mba_say(f, "%-11s %s ms a step, %s %s/s; GEMM %.0f %%, SSM %.0f %% of GPU time; %.0f %% of floor\n", name_of(run),
            mba_num(1e3 * a->plain_s).s, mba_num(a->units / a->plain_s).s, a->unit, 100 * mba_products_s(a) / a->busy_s,
            100 * mba_kind_s(a, MBA_SSM) / a->busy_s, b.percent_of_floor);
    if (b.percent_of_floor > 100) mba_say(f, "            note: above 100 %% of floor: %s\n", mba_above_all(a).text);
}

static void gain_line(FILE *f, const mba_stores *r)
{
    const mba_gain most = mba_most_to_gain(r);
    if (!most.kernel) {
        fputs("largest possible gain: unknown, no kernel has a floor\n", f);
        return;
    }
    mba_say(f, "largest possible gain: %s in %s, %.1f %% of the step above its floor (set by %s)\n",
            mba_short(most.kernel->row->name, 40).s, name_of(most.run), 100 * most.part,
            mba_floor_words(most.kernel->bound));
}

/* The verdicts over all stores, which is what "up to" and "all workloads" are about. */
static mba_status claims_line(FILE *f, const mba_stores *r)
{
    static const mba_verdict order[] = { MBA_REPRODUCED, MBA_DEPENDS, MBA_REFUTED, MBA_OPEN, MBA_NOT_APPLICABLE };
    mba_analysis            *a[1 + MBA_BESIDE_MAX];
    mba_matrix              *m;
    int                      n = 0;
    for (int i = 0; i < r->n && n < 1 + MBA_BESIDE_MAX; i++) a[n++] = r->run[i].a;
    mba_assert(n > 0);
    if (strncmp(a[0]->device, "cuda", 4)) {
        fputs("claims of the study: open, because they are about GPUs; mambascope suite --device cuda judges them\n",
              f);
        return MBA_OK;
    }
    MBA_TRY(mba_matrix_create(&m, a, n));
    fprintf(f, "claims of the study, over %d stores:", n);
    for (size_t v = 0, any = 0; v < sizeof order / sizeof *order; v++) {
        int found = 0;
        for (int i = 0; i < MBA_CLAIMS; i++) {
            if (m->suite[i] != order[v]) continue;
            if (!found++) fprintf(f, "%s %s", any++ ? ";" : "", mba_verdict_name(order[v]));
            fprintf(f, " F%d", i + 1);
        }
    }
    fputs("\n", f);
    mba_matrix_destroy(m);
    return MBA_OK;
}

static void training_line(FILE *f, const mba_stores *r)
{
    int n = 0;
    fputs("trained, first to last loss: ", f);
    for (int i = 0; i < r->shown; i++) {
        const double first = mba_env_value(r->run[i].a, "train.first_loss");
        if (isnan(first)) continue;
        fprintf(f, "%s%s %.2f to %.2f", n++ ? ", " : "", name_of(&r->run[i]), first,
                mba_env_value(r->run[i].a, "train.last_loss"));
    }
    fputs(n ? "\n" : "nothing\n", f);
}

static void help_line(FILE *f, const mba_whatif *w)
{
    fprintf(f, "which resource helps most (SIMULATED %s, %% less time per %% more of it): ", w->machine);
    for (int i = 0; i < w->nmodels; i++) {
        int          axis;
        const double gain = mba_whatif_gain(w, &w->model[i], &axis);
        fprintf(f, "%s%s %s %.2f", i ? ", " : "", w->model[i].name, w->curve[axis].name, gain);
    }
    fputs("\n", f);
}

static mba_status print_summary(FILE *f, const mba_stores *r, const char *out)
{
    fputs("\n", f);
    for (int i = 0; i < r->shown; i++) workload_line(f, &r->run[i]);
    mba_stores_tell_doubts(f, r);
    gain_line(f, r);
    MBA_TRY(claims_line(f, r));
    training_line(f, r);
    if (r->whatif) help_line(f, r->whatif);
    mba_say(f, "report: %s/report.html; its numbers: %s/summary.json\n", out, out);
    return MBA_OK;
}

/* ---- without a measured GPU: full-size workloads on simulated ones ---- */

static const mba_column simulated_columns[] = { { "machine", "machine", NULL },       { "model", "model", NULL },
                                                { "batch", "batch", NULL },           { "step_ms", "step, ms", "%.1f" },
                                                { "units_per_s", "per s", "%.0f" },   { "gemm", "GEMM, %", "%.0f" },
                                                { "ssm", "SSM, %", "%.0f" },          { "norm", "norms, %", "%.0f" },
                                                { "dram_gbs", "DRAM, GB/s", "%.0f" }, { "tensor", "tensor, %", "%.0f" },
                                                { "vector", "vector, %", "%.0f" },    { 0 } };

static void simulated_row(mba_table *t, const mba_simulated *r)
{
    const mba_step_shares s = mba_step_shares_of(r);
    mba_table_text(t, "%s", r->gpu.name);
    mba_table_text(t, "%s", mba_model_name(&r->session.model));
    mba_table_text(t, "%s", mba_model_batch_words(&r->session.model).text);
    mba_table_number(t, 1e3 * r->step.seconds);
    mba_table_number(t, r->units / r->step.seconds);
    mba_table_number(t, s.kind[MBA_GEMM]);
    mba_table_number(t, s.kind[MBA_SSM]);
    mba_table_number(t, s.kind[MBA_NORM]);
    mba_table_number(t, (r->step.dram_read + r->step.dram_write) / r->step.seconds / 1e9);
    mba_table_number(t, s.tensor);
    mba_table_number(t, s.vector);
}

static mba_status simulated_rows(mba_table *t, mba_sim *sim, const char *machine)
{
    mba_status st = MBA_OK;
    for (const mba_model_options *m = mba_full_size; m->name && st == MBA_OK; m++) {
        mba_simulated r = { 0 };
        st = mba_simulated_run(&r, &(mba_workload){ .machine = machine, .model = *m }, sim);
        if (st == MBA_OK) simulated_row(t, &r);
        mba_simulated_end(&r);
    }
    return st;
}

static mba_status print_simulation_error(void)
{
    mba_measured *d;
    MBA_TRY(mba_validation_points(&d, NULL, "h200", NULL));
    const mba_error_stats held = mba_measured_score(d, MBA_POINT_HELD);
    printf("error against the H200, %d points held out: mean %.0f %%, 90th percentile %.0f %%; worst whole step "
           "%+.0f %%. H100: not validated.\n",
           held.points, held.mape, held.p90, mba_worst_step_percent(d));
    mba_measured_destroy(d);
    return MBA_OK;
}

/* Prints simulated steps, labelled as such, with the errors that `validate` finds. */
static mba_status print_simulated(void)
{
    mba_table *t = NULL;
    mba_sim   *sim = NULL;
    MBA_TRY(mba_table_create(&t, simulated_columns));
    mba_status st = mba_sim_create(&sim);
    if (st == MBA_OK) st = simulated_rows(t, sim, "h200");
    if (st == MBA_OK) st = simulated_rows(t, sim, "h100");
    if (st == MBA_OK) {
        puts("\nSIMULATED: a training step at full size, bf16 with fp32 master weights, one CUDA graph");
        st = mba_table_print(t, stdout, MBA_TABLE_TEXT);
        if (st == MBA_OK) st = print_simulation_error();
    }
    mba_sim_destroy(sim);
    mba_table_destroy(t);
    return st;
}

static mba_status print_all(const ending *e, const char *out, bool json, bool simulate)
{
    MBA_TRY(json ? print_json(e) : print_tables(e));
    if (simulate && !json) MBA_TRY(print_simulated());
    return print_summary(json ? stderr : stdout, &e->r, out);
}

/* Writes the files first: the reader of a pipe may close it after a line. */
static mba_status end_with(ending *e, const char *out, bool json)
{
    bool cuda = false;
    for (int i = 0; i < e->r.n; i++) cuda |= !strncmp(e->r.run[i].a->device, "cuda", 4);
    MBA_TRY(fill_tables(e));
    const char *scale = mba_env_find(e->r.run[0].a, "suite.scale");
    const bool  tiny = scale && !strcmp(scale, "tiny"); // its results are not quoted: skip the simulations
    mba_whatif *whatif;
    mba_status  st = mba_stores_simulate(&e->r, &whatif, !tiny);
    e->r.study = true;
    if (st == MBA_OK) st = write_files(e, out);
    if (st == MBA_OK) {
        st = print_all(e, out, json, !cuda && !tiny);
    } else { // the first error counts
        const mba_status printed = (json ? print_json : print_tables)(e);
        (void)printed;
    }
    e->r.whatif = NULL;
    free(whatif);
    return st;
}

mba_status mba_suite_summary(const char *out, const char *const *path, int n, int shown, bool json)
{
    ending e = { .step = NULL };
    MBA_TRY(mba_stores_open_good(&e.r, path, n, &shown));
    mba_stores_show(&e.r, shown ? shown : e.r.n < MAIN_PARTS ? e.r.n : MAIN_PARTS);
    const mba_status st = end_with(&e, out, json);
    mba_table_destroy(e.step);
    mba_table_destroy(e.kinds);
    mba_table_destroy(e.training);
    const mba_status closed = mba_stores_close(&e.r);
    return st == MBA_OK ? closed : st;
}
