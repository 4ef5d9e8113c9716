/* suite.c -- `mambascope suite`: the main job. Today: the five workloads on the CPU, measured and trained. */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "cli/measure.h"
#include "cli/options.h"
#include "cli/progress.h"
#include "cli/suite_simulated.h"
#include "cli/table.h"
#include "core/file.h"
#include "core/print.h"
#include "core/version.h"
#include "report/report.h"
#include "scope/analysis.h"
#include "scope/collect.h"
#include "train/feed.h"
#include "train/train.h"

/* A workload: the preset whose step is measured, and a small relative of it that is trained. */
typedef struct workload {
    const char     *name, *preset, *small;
    mba_batch_shape step, batch;         /* of the measured step (length 0: the suite's), of the small model */
    double          lr;
} workload;

static const workload workloads[] = {
    { "mamba1", "mamba-130m",  "width=128,layers=4,vocab=264", { .batch = 1 }, { .batch = 8, .length = 128 }, 4e-3 },
    { "mamba2", "mamba2-130m", "width=128,layers=4,vocab=264,state=32,head_dim=32,chunk=64", { .batch = 1 }, { .batch = 8, .length = 128 }, 4e-3 },
    { "hybrid", "hybrid-130m", "width=128,vocab=264,state=32,head_dim=32,chunk=64,q_heads=4,kv_heads=2,attn_dim=32,mlp=256,pattern=M-*-M-",
      { .batch = 1 }, { .batch = 8, .length = 128 }, 4e-3 },
    { "mambavision", "mambavision-t", "dim=16,in_dim=16,depths=1:1:2:2,heads=2:2:4:8,windows=0:0:2:1,drop_path=0", { .batch = 1 },
      { .batch = 16 }, 2e-3 },
    { "graphmamba", "graphmamba-peptides-func", "layers=2,width=48,pe_count=0,pe_width=0", { .graphs = 16 }, { .graphs = 16 }, 2e-3 },
};
enum { WORKLOADS = sizeof workloads / sizeof *workloads };

typedef struct suite {
    int64_t      length, repeats, steps;
    const char  *out;
    char         command[512];
    bool         json;
    mba_ceilings ceilings;
    double       kind_s[WORKLOADS][MBA_KINDS], all_s[WORKLOADS], first_loss;
    mba_table   *step, *kinds, *training;
    mba_train_report last;
    mba_progress bar;
} suite;

/* The row of a workload in the tables, from what its store says. */
static void tell(suite *u, int w, const mba_session *s, const mba_analysis *a, double gemm_s)
{
    double floor_s = 0;
    for (int k = 0; k < MBA_BREAKDOWN_KINDS; k++)
        for (int p = 0; p < MBA_PHASES; p++) {
            if (k < MBA_KINDS) u->kind_s[w][k] += a->time_s[k][p];
            floor_s += a->floor_s[k][p];
        }
    u->all_s[w] = a->busy_s;
    mba_table_text(u->step, "%s", workloads[w].preset);
    mba_table_number(u->step, (double)mba_session_parameters(s) / 1e6);
    mba_table_text(u->step, "%s", mba_model_batch_words(&s->model).text);
    mba_table_number(u->step, (double)mba_program_bytes(s->program) / 1e9);
    mba_table_number(u->step, 1e3 * a->plain_s);
    mba_table_number(u->step, a->plain_s / gemm_s);
    mba_table_number(u->step, a->units / a->plain_s);
    mba_table_text(u->step, "%s/s", mba_task_unit(s->model.task));
    mba_table_number(u->step, 100 * floor_s / a->plain_s);
}

/* Its products alone, with the same operands. */
static mba_status measure_products(double *gemm_s, mba_session *s, int repeats)
{
    mba_step step = { .seed = 1, .lr = 1e-4f };
    MBA_TRY(mba_feed_example(s, &step));
    return mba_measure_products(gemm_s, s, &step, repeats);
}

static mba_status write_store(suite *u, const char *path, mba_session *s)
{
    mba_store *store;
    MBA_TRY(mba_store_create(&store, path));
    const mba_status st = mba_collect(store, s,
                                      &(mba_collect_options){ .steps = u->repeats, .ceilings = &u->ceilings,
                                                              .command = u->command });
    const mba_status closed = mba_store_close(store);
    return st == MBA_OK ? closed : st;
}

static mba_status read_store(suite *u, int w, const char *path, mba_session *s)
{
    mba_store    *store = NULL;
    mba_analysis *a = NULL;
    double        gemm_s;
    mba_status st = measure_products(&gemm_s, s, (int)u->repeats);
    if (st == MBA_OK) st = mba_store_open(&store, path);
    if (st == MBA_OK) st = mba_analysis_create(&a, store);
    if (st == MBA_OK) tell(u, w, s, a, gemm_s);
    mba_analysis_destroy(a);
    const mba_status closed = mba_store_close(store);
    return st == MBA_OK ? closed : st;
}

static mba_status measure(suite *u, int w)
{
    char                path[4096];
    mba_session         s  = { 0 };
    mba_session_options so = { .backward = true, .update = true, .adamw = mba_adamw_defaults() };
    mba_batch_shape     shape = workloads[w].step;
    mba_status st = mba_model_preset(&so.model, workloads[w].preset);
    snprintf(path, sizeof path, "%s/%s.db", u->out, workloads[w].name);
    if (so.model.task == MBA_TASK_TEXT) shape.length = u->length;
    if (st == MBA_OK) st = mba_model_shape(&so.model, &shape);
    if (st == MBA_OK) st = mba_session_plan(&s, &so);
    if (st == MBA_OK) st = mba_session_bind(&s, 1);
    if (st == MBA_OK) st = write_store(u, path, &s);
    if (st == MBA_OK) st = read_store(u, w, path, &s);
    mba_session_end(&s);
    return st;
}

static void note_step(void *ctx, const mba_train_report *r)
{
    suite *u = ctx;
    char   note[64];
    if (r->step == 1) u->first_loss = r->loss;
    u->last = *r;
    snprintf(note, sizeof note, "loss %.3f", r->loss);
    mba_progress_show(&u->bar, r->step, note);
}

static mba_status train(suite *u, int w)
{
    mba_train_options o = { .feed = { .validation = 0.1, .smoothing = -1, .mixup = -1, .cutmix = -1 }, .seed = 1, .valid_batches = 8,
                            .guard = 8, .report = note_step, .ctx = u,
                            .schedule = { .lr = workloads[w].lr, .lr_min = 1e-4, .warmup = 5, .steps = u->steps } };
    o.session.adamw = mba_adamw_defaults();
    MBA_TRY(mba_model_preset(&o.session.model, workloads[w].preset));
    MBA_TRY(mba_model_set(&o.session.model, workloads[w].small));
    MBA_TRY(mba_model_shape(&o.session.model, &workloads[w].batch));
    u->bar = mba_progress_start(workloads[w].name, u->steps);
    const mba_status st = mba_train(&o);
    mba_progress_end(&u->bar);
    if (st != MBA_OK) return st;
    mba_table_text(u->training, "%s", workloads[w].name);
    mba_table_number(u->training, (double)u->last.step);
    mba_table_number(u->training, (double)u->last.units);
    mba_table_text(u->training, "%s", u->last.unit);
    mba_table_number(u->training, u->first_loss);
    mba_table_number(u->training, u->last.loss);
    mba_table_number(u->training, u->last.valid.loss);
    if (u->last.valid.scores) mba_table_text(u->training, "%s %.3f", u->last.valid.score[0].name, u->last.valid.score[0].value);
    else                      mba_table_text(u->training, "-");
    mba_table_number(u->training, (double)u->last.units / u->last.run_s);
    return MBA_OK;
}

static void fill_kinds(suite *u)
{
    for (int k = 0; k < MBA_KINDS; k++) {
        double most = 0;
        for (int w = 0; w < WORKLOADS; w++) most = fmax(most, u->kind_s[w][k]);
        if (!(most > 0)) continue;
        mba_table_text(u->kinds, "%s", mba_kind_name((mba_kind)k));
        for (int w = 0; w < WORKLOADS; w++) mba_table_number(u->kinds, u->kind_s[w][k] > 0 ? 100 * u->kind_s[w][k] / u->all_s[w] : NAN);
    }
}

static void print_all(suite *u)
{
    const mba_table_form form = u->json ? MBA_TABLE_JSON : MBA_TABLE_TEXT;
    fill_kinds(u);
    if (u->json) {
        printf("{\"version\": \"%s\", \"commit\": \"%s\", \"threads\": %d, \"isa\": \"%s\",\n\"ceilings\": {\"stream_gb_s\": %.2f, \"fma_gflop_s\": %.2f, "
               "\"exp_g_s\": %.3f},\n\"step\": ", MBA_VERSION, MBA_COMMIT, mba_cpu_threads(), mba_cpu_isa_name(), u->ceilings.stream_bytes / 1e9,
               u->ceilings.fma_flops / 1e9, u->ceilings.exp_ops / 1e9);
        mba_table_print(u->step, stdout, form);
        fputs(",\"operators\": ", stdout);
        mba_table_print(u->kinds, stdout, form);
        fputs(",\"training\": ", stdout);
        mba_table_print(u->training, stdout, form);
        puts("}");
        return;
    }
    printf("CPU, %d threads, %s: stream %.1f GB/s, FMA %.1f GFLOP/s, exp %.2f G/s (measured)\n\n", mba_cpu_threads(), mba_cpu_isa_name(),
           u->ceilings.stream_bytes / 1e9, u->ceilings.fma_flops / 1e9, u->ceilings.exp_ops / 1e9);
    puts("A training step (forward, loss, backward, AdamW), fp32, random tokens and pixels, SYNTHETIC graphs");
    mba_table_print(u->step, stdout, form);
    puts("\nWhere its time goes, % of the step");
    mba_table_print(u->kinds, stdout, form);
    printf("\nAll of it: mambascope show %s/%s.db, and the same for the others\n", u->out, workloads[1].name);
    puts("\nSmall models of each family trained on SYNTHETIC data: text (bytes), shapes, peptides");
    mba_table_print(u->training, stdout, form);
}

/* The page and the summary of the stores that were just written. */
static mba_status write_report(suite *u)
{
    char        path[WORKLOADS][4096], file[4096];
    const char *paths[WORKLOADS];
    mba_stores  r;
    mba_buf     summary = { 0 };
    mba_writer *w = NULL;
    for (int i = 0; i < WORKLOADS; i++) {
        snprintf(path[i], sizeof path[i], "%s/%s.db", u->out, workloads[i].name);
        paths[i] = path[i];
    }
    MBA_TRY(mba_stores_open(&r, paths, WORKLOADS));
    snprintf(file, sizeof file, "%s/report.html", u->out);
    mba_status st = mba_report_write(&r, file);
    if (st == MBA_OK) st = mba_report_summary(&summary, &r);
    snprintf(file, sizeof file, "%s/summary.json", u->out);
    if (st == MBA_OK) st = mba_writer_create(&w, file);
    if (st == MBA_OK) st = mba_writer_put(w, summary.s, summary.n);
    if (st == MBA_OK) st = mba_writer_commit(w);
    mba_writer_destroy(w);
    mba_buf_free(&summary);
    const mba_status closed = mba_stores_close(&r);
    if (st == MBA_OK && closed == MBA_OK) fprintf(stderr, "\nthe report: %s/report.html; its numbers: %s/summary.json\n", u->out, u->out);
    return st == MBA_OK ? closed : st;
}

static mba_status make_tables(suite *u)
{
    MBA_TRY(mba_table_create(&u->step, (const mba_column[]){
        { "model", "model", NULL }, { "parameters_m", "parameters, M", "%.1f" }, { "batch", "batch", NULL }, { "plan_gb", "plan, GB", "%.2f" },
        { "step_ms", "step, ms", "%.0f" }, { "step_over_gemms", "step / GEMMs", "%.2f" }, { "units_per_s", "rate", "%.1f" },
        { "unit", "in", NULL }, { "percent_of_floor", "% of floor", "%.0f" }, { 0 } }));
    MBA_TRY(mba_table_create(&u->kinds, (const mba_column[]){ { "kind", "operators", NULL }, { "mamba1", "mamba1", "%.1f" },
                                                              { "mamba2", "mamba2", "%.1f" }, { "hybrid", "hybrid", "%.1f" },
                                                              { "mambavision", "mambavision", "%.1f" }, { "graphmamba", "graphmamba", "%.1f" }, { 0 } }));
    return mba_table_create(&u->training, (const mba_column[]){
        { "workload", "workload", NULL }, { "steps", "steps", "%.0f" }, { "units", "seen", "%.0f" }, { "unit", "", NULL }, { "first_loss", "first loss", "%.3f" },
        { "last_loss", "last loss", "%.3f" }, { "valid_loss", "validation", "%.3f" }, { "score", "score", NULL }, { "units_per_s", "per s", "%.0f" }, { 0 } });
}

mba_status mba_command_suite(int argc, char **argv)
{
    suite   u = { .length = 256, .repeats = 3, .steps = 120, .out = "results/suite" };
    int64_t threads = 0;
    bool    help;
    const mba_option options[] = {
        { "--length",  MBA_OPT_INT,  &u.length,  "L", "tokens of the measured step (256)", 1, 1 << 20 },
        { "--repeats", MBA_OPT_INT,  &u.repeats, "N", "steps that are watched; the median counts (3)", 1, 100 },
        { "--steps",   MBA_OPT_INT,  &u.steps,   "N", "updates of the small models (120)", 1, 1000000 },
        { "--out",     MBA_OPT_TEXT, &u.out,     "FOLDER", "a store of every workload, report.html and summary.json go there (results/suite)", 0, 0 },
        { "--threads", MBA_OPT_INT,  &threads,   "N", "threads (one per core)", 1, 4096 },
        { "--json",    MBA_OPT_FLAG, &u.json,    NULL, "as JSON: ceilings, step, operators, training", 0, 0 },
        { 0 },
    };
    const mba_usage usage = { "suite", "[options]",
        "Measures a training step of the five workloads on this machine, shows where the time goes, and trains a small\n"
        "model of each. What was measured goes into one store per workload, and from them into report.html and summary.json. A few\n"
        "minutes on two cores.", options,
        "mambascope suite\nmambascope show results/suite/mamba2.db\nmambascope suite --length 1024 --repeats 5 --json > suite.json\n" };
    MBA_TRY(mba_options_parse(&usage, argc, argv, NULL, &help));
    if (help) return MBA_OK;
    mba_cpu_set_threads((int)threads);
    MBA_TRY(mba_mkdirs(u.out));
    snprintf(u.command, sizeof u.command, "mambascope suite --length %lld --repeats %lld", (long long)u.length,
             (long long)u.repeats);
    mba_progress  bar = mba_progress_start("suite", 2 * WORKLOADS);
    u.ceilings = mba_ceilings_measure(0.5);
    mba_status st = make_tables(&u);
    for (int w = 0; w < WORKLOADS && st == MBA_OK; w++) {
        mba_progress_show(&bar, w, workloads[w].preset);
        st = measure(&u, w);
    }
    mba_progress_end(&bar);
    for (int w = 0; w < WORKLOADS && st == MBA_OK; w++) st = train(&u, w);
    if (st == MBA_OK) print_all(&u);
    if (st == MBA_OK && !u.json) st = mba_suite_simulated();
    if (st == MBA_OK) st = write_report(&u);
    mba_table_destroy(u.step);
    mba_table_destroy(u.kinds);
    mba_table_destroy(u.training);
    return st;
}
