// SPDX-License-Identifier: Apache-2.0
/* report.c -- see report.h: opens and names stores, and writes pages, single figures, CSV and the summary. page.c
 * builds the page. */
#include "report/report.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/file.h"
#include "core/nearest.h"
#include "core/scan.h"
#include "report/parts.h"
#include "scope/doubts.h"
#include "study/verdict_matrix.h"

/* ---- stores ---- */

/* The file name of a store without its folders; *length: without its extension. */
static const char *stem_of(const mba_run *run, int *length)
{
    const char *path = mba_store_path(run->store), *slash = strrchr(path, '/'), *file = slash ? slash + 1 : path;
    const char *dot = strrchr(file, '.');
    *length = dot && dot > file ? (int)(dot - file) : (int)strlen(file);
    return file;
}

/* Adds the number of layers to the label of an external program that was run with --layers: it is not the full
 * model. */
static void name_layers(mba_run *run)
{
    static const char word[] = " --layers ";
    const char       *command = mba_run_is_foreign(run->a) ? mba_env_find(run->a, "run.command") : NULL;
    const char       *at = command ? strstr(command, word) : NULL;
    const size_t      n = strlen(run->label);
    int64_t           layers;
    if (!at) return;
    at += sizeof word - 1;
    if (mba_scan_int(&at, &layers) && layers > 0)
        snprintf(run->label + n, sizeof run->label - n, ", %" PRId64 " layers", layers);
}

/* Labels a run by its workload, else by its file; by both if another run has the same workload. Runs that are shown
 * only need to differ from each other. */
static void name_run(mba_stores *r, int i)
{
    mba_assert(i >= 0 && i < r->n && r->shown <= r->n);
    mba_run    *run = &r->run[i];
    const char *workload = run->a->workload;
    int         stem, alone = 1;
    const char *file = stem_of(run, &stem);
    for (int k = 0; k < (i < r->shown ? r->shown : r->n); k++)
        alone &= k == i || strcmp(workload, r->run[k].a->workload) != 0;
    const size_t family = strcspn(workload, "-");               // mamba2-130m.chunked.db, mamba2-512.db
    const bool   theirs = !alone && mba_run_is_foreign(run->a); // peer_mamba2.db
    if (!*workload || theirs || (!alone && !strncmp(file, workload, family) && stem > (int)family))
        snprintf(run->label, sizeof run->label, "%.*s", stem, file);
    else if (alone) snprintf(run->label, sizeof run->label, "%s", mba_short(workload, 60).s);
    else snprintf(run->label, sizeof run->label, "%s (%.*s)", mba_short(workload, 40).s, stem < 40 ? stem : 40, file);
    name_layers(run);
}

/* Runs that stand for a column of the matrix of verdicts have its title, everywhere on the page; a set of fewer than
 * two columns has none. */
static void name_by_column(mba_stores *r)
{
    const mba_analysis *column[MBA_COLUMNS];
    mba_analysis       *store[MBA_RUNS_MAX];
    for (int i = 0; i < r->n; i++) store[i] = r->run[i].a;
    mba_matrix_choose(column, store, r->n);
    for (int i = 0; i < r->n; i++) {
        for (int c = 0; c < MBA_COLUMNS && mba_has_matrix(r); c++)
            if (column[c] == store[i])
                snprintf(r->run[i].label, sizeof r->run[i].label, "%s", mba_matrix_column_title((mba_matrix_column)c));
    }
}

bool mba_run_is_empty(const mba_run *run) { return isnan(run->a->plain_s) && run->a->nkernels == 0; }

void mba_stores_show(mba_stores *r, int shown)
{
    r->shown = shown > 0 && shown < r->n ? shown : r->n;
    for (int i = 0; i < r->n; i++) name_run(r, i);
    name_by_column(r);
}

static void set_beside(mba_stores *r)
{
    for (int i = 0; i < r->n; i++) {
        int n = 0;
        for (int k = 0; k < r->n; k++)
            if (k != i) r->run[i].beside[n++] = r->run[k].a;
        mba_assert(n == r->n - 1 && n <= MBA_BESIDE_MAX);
        r->run[i].a->beside = r->run[i].beside;
        r->run[i].a->nbeside = n;
    }
}

static mba_status count_rows(mba_run *run)
{
    MBA_TRY(mba_store_count(run->store, MBA_ROWS_operand, &run->operands));
    MBA_TRY(mba_store_count(run->store, MBA_ROWS_parameter, &run->parameters));
    return mba_store_count(run->store, MBA_ROWS_block, &run->blocks);
}

mba_status mba_stores_open(mba_stores *r, const char *const *path, int n)
{
    mba_status st = MBA_OK;
    *r = (mba_stores){ .n = 0 };
    if (n < 1 || n > MBA_RUNS_MAX)
        return mba_fail(MBA_E_ARG, "a report of %d stores is not possible\nfix: name 1 to %d stores", n, MBA_RUNS_MAX);
    for (int i = 0; i < n && st == MBA_OK; i++) {
        mba_run *run = &r->run[r->n++];
        run->l2_bytes_s = run->l1_bytes_s = NAN;
        st = mba_store_open(&run->store, path[i]);
        if (st == MBA_OK) st = mba_analysis_create(&run->a, run->store);
        if (st == MBA_OK) st = count_rows(run);
        if (st == MBA_OK) st = mba_energy_of(&run->energy, run->a);
    }
    if (st == MBA_OK) {
        mba_stores_show(r, n);
        set_beside(r);
        return MBA_OK;
    }
    const mba_status closed = mba_stores_close(r); // st has the first error
    (void)closed;
    return st;
}

mba_status mba_stores_close(mba_stores *r)
{
    mba_status st = MBA_OK;
    for (int i = 0; i < r->n; i++) {
        mba_analysis_destroy(r->run[i].a);
        const mba_status closed = mba_store_close(r->run[i].store);
        if (st == MBA_OK) st = closed;
    }
    if (r->before_store) {
        mba_analysis_destroy(r->before);
        const mba_status closed = mba_store_close(r->before_store);
        if (st == MBA_OK) st = closed;
    }
    *r = (mba_stores){ .n = 0 };
    return st;
}

/* ---- an earlier store behind them ---- */

mba_status mba_stores_baseline(mba_stores *r, const char *path)
{
    bool any = false;
    mba_assert(!r->before_store);
    MBA_TRY(mba_store_open(&r->before_store, path));
    MBA_TRY(mba_analysis_create(&r->before, r->before_store));
    for (int i = 0; i < r->n; i++) any |= mba_has_before(r, i);
    if (any) return MBA_OK;
    return mba_fail(
        MBA_E_ARG,
        "the baseline '%s' is of another workload\nwhy: it is of %s, and no store of the page is\nfix: name an "
        "earlier store of the same model",
        path, *r->before->workload ? r->before->workload : "an unnamed program");
}

bool mba_has_before(const mba_stores *r, int run)
{
    mba_assert(run >= 0 && run < r->n);
    return r->before && *r->before->workload && !strcmp(r->before->workload, r->run[run].a->workload);
}

static bool same_words(const char *a, const char *b) { return !strcmp(a ? a : "", b ? b : ""); }

const mba_kernel_view *mba_kernel_before(const mba_stores *r, int run, const mba_kernel_view *k)
{
    if (!mba_has_before(r, run) || !k->row->name) return NULL;
    for (int64_t i = 0; i < r->before->nkernels; i++) {
        const mba_kernel_view *b = &r->before->kernel[i];
        if (same_words(b->row->name, k->row->name) && same_words(b->row->op, k->row->op)
            && same_words(b->row->phase, k->row->phase) && same_words(b->row->shape, k->row->shape))
            return b;
    }
    return NULL;
}

/* ---- one figure ---- */

const char *mba_report_figure_title(int i) { return mba_figures[i] ? mba_figures[i]->eyebrow : NULL; }
const char *mba_report_figure_name(int i) { return mba_figures[i] ? mba_figures[i]->name : NULL; }

static mba_status figure_named(const mba_figure **out, const char *name)
{
    name = mba_report_figure_now(name);
    for (int i = 0; mba_figures[i]; i++)
        if (!strcmp(mba_figures[i]->name, name)) {
            *out = mba_figures[i];
            return MBA_OK;
        }
    mba_nearest near = mba_nearest_to(name, strlen(name));
    for (int i = 0; mba_figures[i]; i++) mba_nearest_try(&near, mba_figures[i]->name, mba_figures[i]->eyebrow);
    return mba_fail(MBA_E_ARG, "there is no figure '%s'\nfix: %smambascope report --list names them", name,
                    mba_did_you_mean(&near).text);
}

/* The light value of a CSS variable: "#0072b2" of --gemm:light-dark(#0072b2,#1b78bb). */
static mba_word light_value(const char *name, size_t length)
{
    mba_word w = { "currentColor" };
    char     token[64];
    snprintf(token, sizeof token, "--%.*s:", (int)length, name);
    const char *at = strstr(mba_report_css, token);
    if (!at) return w;
    at += strlen(token);
    if (!strncmp(at, "light-dark(", 11)) at += 11;
    snprintf(w.s, sizeof w.s, "%.*s", (int)strcspn(at, ",;)}"), at);
    return w;
}

/* Copies the rules of the style sheet between two of its comments, with variables replaced by light colours: SVG
 * viewers do not know variables. */
static void rules_between(mba_buf *b, const char *from, const char *to)
{
    const char *at = strstr(mba_report_css, from), *end = strstr(mba_report_css, to);
    while (at && end && at < end) {
        const char *var = strstr(at, "var(--");
        const char *stop = var && var < end ? var : end;
        mba_buf_add(b, "%.*s", (int)(stop - at), at);
        if (stop == end) break;
        const size_t length = strcspn(var + 6, ")");
        mba_buf_put(b, light_value(var + 6, length).s);
        at = var + 6 + length + 1;
    }
}

mba_status mba_view_named(int *out, const char *figure, const char *const *views, const char *name)
{
    char all[256] = "";
    *out = 0;
    if (!name) return MBA_OK;
    for (int v = 0; views && views[v]; v++) {
        if (!strcmp(views[v], name)) {
            *out = v;
            return MBA_OK;
        }
        const size_t n = strlen(all);
        snprintf(all + n, sizeof all - n, "%s'%s'", n ? ", " : "", views[v]);
    }
    return mba_fail(MBA_E_ARG, "'%s' has no view '%s'\nfix: %s%s", figure, name,
                    *all ? "choose one of "
                         : "it has one view; "
                           "leave --view out",
                    all);
}

void mba_drawing_alone(mba_buf *out, const mba_canvas *c, bool curves)
{
    const char *open = c->out.s ? strchr(c->out.s, '>') : NULL;
    out->failed |= c->out.failed;
    if (!open) return;
    mba_buf_add(out, "%.*s", (int)(open + 1 - c->out.s), c->out.s);
    mba_buf_put(out, "<style>svg{background:#fff}");
    rules_between(out, "/* drawing", "/* end of drawing");
    if (curves) rules_between(out, "/* curves", "/* end of curves");
    mba_buf_put(out, "</style>");
    mba_buf_put(out, open + 1);
    mba_buf_put(out, "\n");
}

mba_status mba_report_svg(mba_buf *out, const mba_stores *r, const char *figure, const char *view)
{
    const mba_figure *f = NULL;
    mba_canvas        c = { .alone = true };
    int               which;
    MBA_TRY(figure_named(&f, figure));
    MBA_TRY(mba_view_named(&which, f->name, f->views, view));
    const int run = f->across ? -1 : 0;
    if (!f->draw) return mba_fail(MBA_E_ARG, "'%s' is a table\nfix: use --csv instead of --svg", figure);
    if (!f->has(r, run))
        return mba_fail(MBA_E_ARG, "these stores have no data for '%s'\nfix: it needs %s", figure, f->needs);
    const mba_status st = f->draw(&c, MBA_WIDE, r, run, which);
    if (st == MBA_OK) mba_drawing_alone(out, &c, false);
    mba_canvas_free(&c);
    return st == MBA_OK ? mba_buf_status(out, figure) : st;
}

mba_status mba_report_csv(mba_buf *out, const mba_stores *r, const char *figure)
{
    const mba_figure *f = NULL;
    bool              any = false;
    MBA_TRY(figure_named(&f, figure));
    for (int run = f->across ? -1 : 0; run < (f->across ? 0 : r->n); run++) {
        mba_grid g;
        if (!f->has(r, run)) continue;
        mba_grid_begin(&g, f->columns);
        const mba_status st = f->numbers(&g, r, run);
        mba_assert(st != MBA_OK || mba_grid_is_whole(&g));
        out->failed |= g.failed;
        if (!any) mba_grid_csv_heading(&g, out, !f->across);
        mba_grid_csv_rows(&g, out, f->across ? NULL : mba_run_label(r, run));
        mba_grid_end(&g);
        MBA_TRY(st);
        any = true;
    }
    return any ? mba_buf_status(out, figure)
               : mba_fail(MBA_E_ARG, "these stores have no data for '%s'\nfix: it needs %s", figure, f->needs);
}

/* ---- files ---- */

mba_status mba_page_save(const mba_buf *page, const char *path)
{
    mba_writer *w = NULL;
    mba_status  st = mba_writer_create(&w, path);
    if (st == MBA_OK) st = mba_writer_put(w, page->s, page->n);
    if (st == MBA_OK) st = mba_writer_commit(w);
    mba_writer_destroy(w);
    return st;
}

mba_status mba_report_write(const mba_stores *r, const char *path)
{
    mba_buf b = { 0 };
    MBA_TRY(mba_report_page(&b, r));
    const mba_status st = mba_page_save(&b, path);
    mba_buf_free(&b);
    return st;
}

/* ---- summary ---- */

static void number(mba_buf *b, const char *key, double v)
{
    mba_buf_add(b, ", \"%s\": ", key);
    mba_buf_json_number(b, v);
}

static void summary_of(mba_buf *b, const mba_analysis *a)
{
    mba_claim claim[MBA_CLAIMS];
    number(b, "step_ms", 1e3 * a->plain_s);
    number(b, "units_per_s", a->units / a->plain_s);
    number(b, "kernel_ms", 1e3 * a->busy_s);
    number(b, "idle_ms", 1e3 * a->idle_s);
    number(b, "launches", mba_launches_of(a));
    number(b, "gemm_percent", 100 * mba_products_s(a) / a->busy_s);
    number(b, "ssm_percent", 100 * mba_kind_s(a, MBA_SSM) / a->busy_s);
    number(b, "percent_of_floor", mba_percent_of_least(a, MBA_ALL_KERNELS));
    number(b, "ssm_bandwidth_gb_s", mba_bandwidth_of(a, MBA_SSM_KERNELS).mean / 1e9);
    if (!isnan(mba_env_value(a, "train.steps"))) {
        number(b, "train_steps", mba_env_value(a, "train.steps"));
        number(b, "train_first_loss", mba_env_value(a, "train.first_loss"));
        number(b, "train_last_loss", mba_env_value(a, "train.last_loss"));
        number(b, "train_valid_loss", mba_env_value(a, "train.valid_loss"));
    }
    mba_doubt d[MBA_DOUBTS_MAX];
    mba_buf_put(b, ",\n   \"doubts\": [");
    for (int i = 0, n = mba_doubts_of(d, a); i < n; i++) mba_buf_put(b, i ? ", " : ""), mba_buf_json(b, d[i].text);
    mba_buf_put(b, "]");
    mba_claims_judge(a, claim);
    mba_buf_put(b, ",\n   \"claims\": [");
    for (int i = 0; i < MBA_CLAIMS; i++) {
        mba_buf_add(b, "%s{\"id\": \"%s\", \"verdict\": \"%s\", \"measured\": ", i ? ",\n    " : "", claim[i].id,
                    mba_verdict_name(claim[i].verdict));
        mba_buf_json(b, claim[i].measured);
        mba_buf_put(b, "}");
    }
    mba_buf_put(b, "]}");
}

/* The claims over all runs: verdict, and why. */
static void summary_of_claims(mba_buf *b, const mba_stores *r)
{
    mba_analysis *a[1 + MBA_BESIDE_MAX];
    mba_matrix   *m;
    int           n = 0;
    for (int i = 0; i < r->n && n < 1 + MBA_BESIDE_MAX; i++) a[n++] = r->run[i].a;
    const mba_status st = n ? mba_matrix_create(&m, a, n) : MBA_OK;
    mba_buf_fail(b, st);
    if (st != MBA_OK || !n) return;
    mba_buf_put(b, ",\n \"claims\": [");
    for (int i = 0; i < MBA_CLAIMS; i++) {
        mba_buf_add(b, "%s{\"id\": \"F%d\", \"verdict\": \"%s\", \"measured\": ", i ? ",\n  " : "\n  ", i + 1,
                    mba_verdict_name(m->suite[i]));
        mba_buf_json(b, m->sentence[i]);
        mba_buf_put(b, "}");
    }
    mba_buf_put(b, "]");
    mba_matrix_destroy(m);
}

mba_status mba_report_summary(mba_buf *out, const mba_stores *r)
{
    mba_buf_put(out, "{\"runs\": [");
    for (int i = 0; i < r->n; i++) {
        mba_buf_put(out, i ? ",\n  {\"name\": " : "\n  {\"name\": ");
        mba_buf_json(out, mba_run_label(r, i));
        mba_buf_put(out, ", \"store\": ");
        const char *path = mba_store_path(r->run[i].store), *slash = strrchr(path, '/');
        mba_buf_json(out, slash ? slash + 1 : path); // the store lies beside the summary
        mba_buf_put(out, ", \"device\": ");
        mba_buf_json(out, mba_run_device(r->run[i].a));
        summary_of(out, r->run[i].a);
    }
    mba_buf_put(out, "\n]");
    summary_of_claims(out, r);
    mba_buf_put(out, "}\n");
    return mba_buf_status(out, "the summary");
}
