// SPDX-License-Identifier: Apache-2.0
/* page.c -- builds the report page: head, findings, figures with their switches and tables, explorer, claims, method,
 * raw data, and the JSON for the script. */
#include <math.h>
#include <string.h>

#include "core/version.h"
#include "report/glossary.h"
#include "report/parts.h"
#include "scope/doubts.h"

/* ---- runs ---- */

void mba_run_switch(mba_buf *b, const mba_stores *r)
{
    if (r->shown < 2) return;
    mba_buf_put(b, "<div class=\"ctl\"><span class=\"lab\">run</span><div class=\"seg\" data-for=\"main\" "
                   "data-key=\"run\" role=\"group\" aria-label=\"run\">");
    for (int i = 0; i < r->shown; i++) {
        mba_buf_add(b, "<button value=\"%d\" aria-pressed=\"%s\" title=\"", i, i ? "false" : "true");
        mba_buf_html(b, mba_run_store(&r->run[i]).s);
        mba_buf_put(b, "\">");
        mba_buf_html(b, mba_run_label(r, i));
        mba_buf_put(b, "</button>");
    }
    mba_buf_put(b, "</div></div>");
}

void mba_run_open(mba_buf *b, const mba_stores *r, int run)
{
    mba_assert(run >= 0 && run < r->shown);
    if (r->shown < 2) mba_buf_put(b, "<div>");
    else mba_buf_add(b, "<div data-run=\"%d\"%s>", run, run ? " hidden" : "");
}

void mba_run_end(mba_buf *b) { mba_buf_put(b, "</div>\n"); }

/* ---- a figure ---- */

static bool has_data(const mba_figure *f, const mba_stores *r)
{
    if (f->across) return f->has(r, -1);
    for (int i = 0; i < r->shown; i++)
        if (f->has(r, i)) return true;
    return false;
}

static void frame(mba_canvas *c, const mba_figure *f)
{
    char why[512];
    snprintf(why, sizeof why, "needs %s", f->needs);
    mba_question_open(&c->out, f);
    mba_buf_add(&c->out, "<h2>%s: no data yet</h2><p class=\"sub\">", f->nav);
    mba_terms_html(&c->out, f->sub);
    mba_buf_put(&c->out, "</p><div class=\"plot\">");
    mba_svg_frame(c, MBA_WIDE, f->nav, "", "", why);
    mba_svg_frame(c, MBA_NARROW, f->nav, "", "", why);
    mba_buf_put(&c->out, "</div>");
}

static mba_status drawings(mba_canvas *c, const mba_figure *f, const mba_stores *r, int run)
{
    mba_assert(run >= -1 && run < r->n && f->across == (run < 0));
    const int place = run < 0 ? 0 : run;
    if (f->views) {
        mba_buf_add(&c->out,
                    "<div class=\"ctl\"><span class=\"lab\">show</span><div class=\"seg\" "
                    "data-for=\"p-%s-%d\" role=\"group\" aria-label=\"view\">",
                    f->name, place);
        for (int v = 0; f->views[v]; v++)
            mba_buf_add(&c->out, "<button value=\"%d\" aria-pressed=\"%s\">%s</button>", v, v ? "false" : "true",
                        f->views[v]);
        mba_buf_put(&c->out, "</div></div>");
    }
    mba_buf_add(&c->out, "<div class=\"plot\" id=\"p-%s-%d\">", f->name, place);
    if (f->legend) {
        mba_buf_put(&c->out, "<ul class=\"legend\">");
        f->legend(&c->out, r, run);
        mba_buf_put(&c->out, "</ul>");
    }
    for (int v = 0; v == 0 || (f->views && f->views[v]); v++) {
        mba_buf_add(&c->out, "<div data-view=\"%d\"%s>", v, v ? " hidden" : "");
        MBA_TRY(f->draw(c, MBA_WIDE, r, run, v));
        MBA_TRY(f->draw(c, MBA_NARROW, r, run, v));
        mba_buf_put(&c->out, "</div>");
    }
    mba_buf_put(&c->out, "</div>");
    return MBA_OK;
}

static mba_status numbers(mba_buf *b, const mba_figure *f, const mba_stores *r, int run)
{
    mba_grid    g;
    char        caption[160];
    const char *label = run < 0 ? "all runs" : mba_run_label(r, run);
    const char *preset = run < 0 || !strcmp(label, r->run[run].a->workload) ? "" : r->run[run].a->workload;
    snprintf(caption, sizeof caption, "%s, %.60s%s%.60s", f->name, label, *preset ? ", " : "", preset);
    mba_grid_begin(&g, f->columns);
    const mba_status st = f->numbers(&g, r, run);
    mba_assert(st != MBA_OK || mba_grid_is_whole(&g));
    b->failed |= g.failed;
    if (f->draw) mba_buf_put(b, "<details class=\"dt\"><summary>Numbers of this figure</summary>");
    mba_buf_add(b, "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"numbers of %s\">", f->name);
    mba_grid_html(&g, b, caption);
    mba_buf_put(b, f->draw ? "</div></details>" : "</div>");
    mba_grid_end(&g);
    return st;
}

static void source(mba_buf *b, const mba_stores *r, int run)
{
    if (run < 0 && r->n > 1) {
        mba_buf_add(b, "<p class=\"src\">all %d stores; the sections of single runs name their commands</p>", r->n);
        return;
    }
    const mba_analysis *a = r->run[run < 0 ? 0 : run].a;
    const char         *command = mba_env_find(a, "run.command"), *date = mba_env_find(a, "run.date");
    mba_buf_put(b, "<p class=\"src\">");
    mba_buf_html(b, mba_run_label(r, run < 0 ? 0 : run));
    mba_buf_put(b, " · ");
    mba_buf_html(b, mba_run_store(&r->run[run < 0 ? 0 : run]).s);
    mba_buf_put(b, " · ");
    mba_buf_html(b, *mba_run_device(a) ? mba_run_device(a) : "unknown device");
    if (a->whole_program) mba_buf_put(b, " · the whole program");
    else if (a->steps) mba_buf_add(b, " · %lld step%s profiled", (long long)a->steps, a->steps == 1 ? "" : "s");
    if (date) mba_buf_put(b, " · "), mba_buf_html(b, date);
    if (command) mba_buf_put(b, "<br><code>"), mba_buf_html(b, mba_short(command, 200).s), mba_buf_put(b, "</code>");
    mba_doubt d[MBA_DOUBTS_MAX];
    const int n = mba_doubts_of(d, a);
    for (int i = 0; i < n; i++)
        mba_buf_add(b, "%s%s", i ? ", " : "<br><a href=\"#doubts\">with ", mba_doubt_name(d[i].kind));
    mba_buf_put(b, n ? "</a></p>" : "</p>");
}

static mba_status block(mba_canvas *c, const mba_figure *f, const mba_stores *r, int run)
{
    mba_buf *b = &c->out;
    if (!f->has(r, run)) {
        frame(c, f);
        return MBA_OK;
    }
    mba_question_open(b, f);
    mba_buf_put(b, "<h2>");
    f->heading(b, r, run);
    MBA_TRY(mba_buf_status(b, "the report"));
    mba_buf_put(b, "</h2>");
    mba_question_sure(b, f, r);
    mba_buf_put(b, "<p class=\"sub\">");
    mba_terms_html(b, f->sub);
    mba_buf_add(b, "</p><div class=\"cols%s\"><div>", f->draw ? "" : " full"); // a table has the whole width
    if (f->draw) MBA_TRY(drawings(c, f, r, run));
    if (!strcmp(f->name, "fig13")) mba_buf_put(b, "<div class=\"wi\" id=\"wi\"></div>");
    if (!strcmp(f->name, "timeline")) mba_buf_add(b, "<div class=\"zoom\" data-events=\"%d\"></div>", run);
    MBA_TRY(numbers(b, f, r, run));
    mba_buf_put(b, "</div><div class=\"notes\"><p><b>How to read.</b> ");
    mba_terms_html(b, f->reading);
    mba_buf_put(b, "</p>");
    if (!strcmp(f->name, "fig8")) mba_registers_explained(b, r, run);
    source(b, r, run);
    mba_buf_put(b, "</div></div>");
    return MBA_OK;
}

static mba_status figure(mba_canvas *c, const mba_figure *f, const mba_stores *r)
{
    mba_buf *b = &c->out;
    mba_buf_add(b, "<article id=\"%s\"%s aria-label=\"%s\">", f->name, has_data(f, r) ? "" : " class=\"none\"",
                f->eyebrow);
    if (mba_figure_old_name(f)) mba_buf_add(b, "<span id=\"%s\"></span>", mba_figure_old_name(f));
    mba_buf_add(b, "<p class=\"eyebrow\">%s</p>", f->eyebrow);
    if (!has_data(f, r)) {
        frame(c, f);
    } else if (f->across) {
        MBA_TRY(block(c, f, r, -1));
    } else {
        mba_run_switch(b, r);
        for (int i = 0; i < r->shown; i++) {
            mba_run_open(b, r, i);
            MBA_TRY(block(c, f, r, i));
            mba_run_end(b);
        }
    }
    mba_buf_put(b, "</article>\n");
    return MBA_OK;
}

/* ---- sections ---- */

static bool is_last(const mba_outline *o) { return !o->section && !o->figure && !o->part; }

/* Whether a part or a figure of the section has something to show. */
static bool section_has_data(const mba_outline *section, const mba_stores *r)
{
    for (const mba_outline *o = section + 1; !is_last(o) && !o->section; o++)
        if (o->part || has_data(o->figure, r)) return true;
    return false;
}

static mba_status part(mba_buf *b, const char *name, const mba_stores *r)
{
    static const struct {
        const char *name, *open;
    } parts[] = {
        { "explorer", "<article id=\"explorer\" aria-label=\"kernel explorer\"><h2>Every kernel: time, distance "
                      "from its floor, and what limits it</h2>" },
        { "claims", "<article id=\"claims\" aria-label=\"claims\"><p class=\"eyebrow\">Claims F1–F11 of arXiv "
                    "2508.17679</p><h2>Claims of the study, and what these stores show</h2>" },
        { "method", "<article id=\"method\" aria-label=\"method\"><p class=\"eyebrow\">Method</p><h2>How the "
                    "numbers were measured</h2>" }
    };
    mba_status st = MBA_OK;
    if (!strcmp(name, "raw")) {
        mba_page_raw(b);
        return MBA_OK;
    }
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (!strcmp(parts[i].name, name)) mba_buf_put(b, parts[i].open);
    if (!strcmp(name, "explorer")) st = mba_part_explorer(b, r);
    else if (!strcmp(name, "claims")) st = mba_part_claims(b, r);
    else st = mba_part_method(b, r);
    mba_buf_put(b, "</article>\n");
    return st;
}

static mba_status sections(mba_canvas *c, const mba_stores *r)
{
    int number = 1; // the answer
    for (const mba_outline *o = mba_page_outline; !is_last(o); o++) {
        if (o->section)
            mba_buf_add(&c->out, "%s<section id=\"s-%s\"%s aria-label=\"%s\"><p class=\"no\"><b>%d</b> %s</p>\n",
                        number > 1 ? "</section>\n" : "", o->section, section_has_data(o, r) ? "" : " class=\"none\"",
                        o->words, number + 1, o->words);
        number += o->section != NULL;
        if (o->figure && !(o->rare && !has_data(o->figure, r))) MBA_TRY(figure(c, o->figure, r));
        if (o->part) MBA_TRY(part(&c->out, o->part, r));
    }
    mba_buf_put(&c->out, "</section>\n");
    return MBA_OK;
}

/* ---- head ---- */

static void navigation(mba_buf *b, const mba_stores *r)
{
    int number = 1;
    mba_buf_put(b, "<nav aria-label=\"sections\"><ol><li><a href=\"#answer\"><span>1</span> Answer</a></li>");
    for (const mba_outline *o = mba_page_outline; !is_last(o); o++)
        if (o->section)
            mba_buf_add(b, "<li><a href=\"#s-%s\"%s><span>%d</span> %s</a></li>", o->section,
                        section_has_data(o, r) ? "" : " class=\"nodata\"", ++number, o->words);
    mba_buf_put(b, "</ol><p class=\"key\">○ no data yet</p></nav>");
}

/* What a warning says of each run, where more than one has it. */
static void doubts_of_runs(mba_buf *b, const mba_stores *r, mba_doubt_kind kind)
{
    mba_buf_put(b, "<details class=\"dt\"><summary>each run</summary>");
    for (int i = 0; i < r->n; i++) {
        mba_doubt d[MBA_DOUBTS_MAX];
        for (int k = 0, n = mba_doubts_of(d, r->run[i].a); k < n; k++) {
            if (d[k].kind != kind) continue;
            mba_buf_put(b, "<b>");
            mba_buf_html(b, mba_run_label(r, i));
            mba_buf_put(b, "</b>: ");
            mba_buf_html(b, d[k].text);
            mba_buf_put(b, "<br>");
        }
    }
    mba_buf_put(b, "</details>");
}

/* The warnings of doubts.h, a line of each kind. */
static void doubts(mba_buf *b, const mba_stores *r)
{
    mba_analysis *a[MBA_RUNS_MAX];
    mba_doubt     d[MBA_DOUBTS_MAX];
    for (int i = 0; i < r->n; i++) a[i] = r->run[i].a;
    const int n = mba_doubts_together(d, a, r->n);
    for (int k = 0; k < n; k++) {
        mba_buf_put(b, k ? "<p>" : "<div class=\"banner\" id=\"doubts\"><p>");
        if (d[k].stores == 1) mba_buf_html(b, mba_run_label(r, d[k].first)), mba_buf_put(b, ": ");
        mba_buf_html(b, d[k].text);
        mba_buf_put(b, "</p>");
        if (d[k].stores > 1) doubts_of_runs(b, r, d[k].kind);
    }
    if (n) mba_buf_put(b, "</div>");
}

/* What a reader must know before the first number: synthetic data, stores left out, warnings. */
static void banner(mba_buf *b, const mba_stores *r)
{
    int synthetic = 0, uncounted = 0, beside = 0, foreign = 0, empty = 0;
    for (int i = 0; i < r->n; i++) {
        empty += mba_run_is_empty(&r->run[i]);
        synthetic += mba_env_value(r->run[i].a, "run.synthetic") > 0;
        uncounted += i < r->shown && r->run[i].a->ncounters == 0;
        beside += i >= r->shown && r->run[i].a->ncounters == 0;
        foreign += mba_run_is_foreign(r->run[i].a);
    }
    if (!synthetic && !uncounted && !beside && !foreign && !empty && !*r->left_out) return;
    mba_buf_put(b, "<p class=\"banner\">");
    if (*r->left_out) {
        mba_buf_put(b, "LEFT OUT, because they could not be read: ");
        mba_buf_html(b, r->left_out);
        mba_buf_put(b, ". ");
    }
    if (empty) mba_buf_add(b, "NOTHING WAS MEASURED in %d of %d runs. ", empty, r->n);
    if (synthetic) mba_buf_add(b, "%d of %d runs used SYNTHETIC data of realistic shapes. ", synthetic, r->n);
    if (uncounted)
        mba_buf_add(b,
                    "%d of %d runs have no hardware counters: their bytes and FLOPs are the least "
                    "work. ",
                    uncounted, r->shown);
    if (beside)
        mba_buf_add(b, "%d further stores have no counters, on purpose: they are used for their times only. ", beside);
    if (foreign) mba_buf_add(b, "%d of %d runs are of external programs.", foreign, r->n);
    mba_buf_put(b, "</p>");
}

static const char readers[] =
    "<div class=\"readers\"><div><h3>You design GPUs</h3><ul><li><a href=\"#fig2\">What limits: "
    "roofline</a></li><li><a "
    "href=\"#fig6\">Tensor : vector : special functions</a></li>"
    "<li><a href=\"#fig8\">Stall reasons</a></li><li><a href=\"#fig13\">What would "
    "help</a></li></ul></div><div><h3>You write kernels</h3><ul><li><a href=\"#explorer\">Which kernel, and "
    "why</a></li>"
    "<li><a href=\"#roofline_time\">Distance from the floor</a></li><li><a href=\"#fig3\">Caches</a></li><li><a "
    "href=\"#fig5\">Block lifetimes</a></li></ul></div>"
    "<div><h3>You train models</h3><ul><li><a href=\"#fig1\">Where the step goes</a></li><li><a "
    "href=\"#timeline\">Timeline</a></li><li><a href=\"#fig10\">Mamba-1 or Mamba-2</a></li>"
    "<li><a href=\"#memory\">Memory</a></li></ul></div></div>";

void mba_page_begin(mba_buf *b, const char *title)
{
    /* The page loads nothing and has one script, allowed by its hash: no other script can run, whatever a name
     * contains. Marks have colours in their style attributes. */
    mba_buf_put(
        b,
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta http-equiv=\"Content-Security-Policy\" "
        "content=\"default-src 'none'; script-src 'sha256-");
    mba_buf_put(b, mba_report_js_sha256);
    mba_buf_put(
        b, "'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'\"><meta name=\"viewport\" "
           "content=\"width=device-width, initial-scale=1\"><title>mambascope report: ");
    mba_buf_html(b, title);
    mba_buf_put(b, "</title>\n<style>\n");
    mba_buf_put(b, mba_report_css);
    mba_buf_put(b, "</style></head>\n<body><a class=\"skip\" href=\"#main\">Skip to the figures</a><div "
                   "class=\"page\">");
}

static void answers(mba_canvas *c, const mba_stores *r)
{
    mba_buf_put(&c->out, "<article id=\"answers\" aria-label=\"five answers\">");
    mba_part_answers(c, r);
    mba_buf_put(&c->out, "</article>");
}

/* Several kinds of models have verdicts: those come first. One has numbers: its answers do. */
static void head(mba_canvas *c, const mba_stores *r, const mba_matrix *m)
{
    mba_buf *b = &c->out;
    mba_page_begin(b, mba_run_label(r, 0));
    mba_part_top(b, r);
    navigation(b, r);
    mba_buf_put(b, "<main id=\"main\"><section id=\"answer\" class=\"head\" aria-label=\"answer\">");
    mba_part_title(b, r);
    if (m) mba_part_verdicts(c, r, m);
    mba_part_lead(b, r);
    if (!m) answers(c, r);
    mba_part_cards(b, r, m);
    mba_part_questions(b, r);
    mba_part_overview(c, r);
    banner(b, r);
    doubts(b, r);
    if (m) answers(c, r);
    mba_buf_put(b, "<article id=\"findings\" aria-label=\"findings\">");
    mba_part_findings(c, r);
    mba_buf_put(b, "</article>");
    mba_buf_put(b, readers);
    mba_buf_put(b, "</section>\n");
}

/* ---- data for the script ---- */

void mba_page_tips(mba_canvas *c)
{
    mba_buf_put(&c->out, "[");
    for (int i = 0; i < c->ntips; i++) {
        if (i) mba_buf_put(&c->out, ",\n");
        mba_buf_json(&c->out, c->tip[i]);
    }
    mba_buf_put(&c->out, "]");
}

static mba_status data(mba_canvas *c, const mba_stores *r)
{
    mba_buf *b = &c->out;
    mba_buf_put(b, "<script type=\"application/json\" id=\"data\">{\"meta\":{\"program\":\"mambascope " MBA_VERSION
                   "\",\"runs\":[");
    for (int i = 0; i < r->shown; i++) {
        if (i) mba_buf_put(b, ",");
        mba_buf_json(b, mba_run_label(r, i));
    }
    mba_buf_put(b, "],\"workloads\":[");
    for (int i = 0; i < r->shown; i++) {
        if (i) mba_buf_put(b, ",");
        mba_buf_json(b, r->run[i].a->workload);
    }
    mba_buf_put(b, "],\"paint\":[");
    for (int k = 0; k < MBA_BREAKDOWN_KINDS; k++) mba_buf_add(b, "%s\"%s\"", k ? "," : "", mba_kind_paint(k));
    mba_buf_put(b, "],\"kinds\":[");
    for (int k = 0; k < MBA_BREAKDOWN_KINDS; k++) mba_buf_add(b, "%s\"%s\"", k ? "," : "", mba_kind_long(k));
    mba_buf_put(b, "],\"light\":["); // classes that need dark text
    for (int k = 0; k < MBA_BREAKDOWN_KINDS; k++) mba_buf_add(b, "%s%d", k ? "," : "", mba_kind_is_light(k));
    mba_buf_put(b, "],\"phase\":[");
    for (int p = 0; p < MBA_PHASES; p++) mba_buf_add(b, "%s\"%s\"", p ? "," : "", mba_phase_name(p));
    mba_buf_put(b, "]},\n\"events\":[");
    for (int i = 0; i < r->shown; i++) {
        if (i) mba_buf_put(b, ",\n");
        MBA_TRY(mba_timeline_json(b, r->run[i].a));
    }
    mba_buf_put(b, "],\n\"kernels\":");
    MBA_TRY(mba_part_kernels_json(b, r));
    mba_buf_put(b, ",\n\"whatif\":");
    mba_part_whatif_json(b, r);
    mba_buf_put(b, ",\n\"tips\":");
    mba_page_tips(c);
    mba_buf_put(b, "}</script>\n");
    return MBA_OK;
}

static const char raw_section[] =
    "<article id=\"raw\" aria-label=\"raw data\"><p class=\"eyebrow\">Raw data · every number of this page</p><h2>"
    "Download the numbers</h2><div class=\"ctl\">"
    "<label>table <select id=\"raw-pick\"></select></label><button id=\"raw-csv\">CSV</button><button "
    "id=\"raw-json\">JSON, everything</button></div>"
    "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"raw data\" id=\"raw-view\"></div></article>";

void mba_page_raw(mba_buf *b) { mba_buf_put(b, raw_section); }

void mba_page_end(mba_buf *b)
{
    mba_buf_put(b, "<script>"); // only the file follows: the policy has its hash
    mba_buf_put(b, mba_report_js);
    mba_buf_put(b, "</script></body></html>\n");
}

static mba_status body(mba_canvas *c, const mba_stores *r)
{
    mba_buf    *b = &c->out;
    mba_matrix *m;
    MBA_TRY(mba_matrix_of_stores(&m, r));
    head(c, r, m);
    mba_matrix_destroy(m);
    MBA_TRY(mba_buf_status(b, "the report"));
    MBA_TRY(sections(c, r));
    mba_buf_put(b, "</main></div><div id=\"tip\" role=\"tooltip\"></div>\n");
    MBA_TRY(data(c, r));
    mba_page_end(b);
    return mba_buf_status(b, "the report");
}

mba_status mba_report_page(mba_buf *out, const mba_stores *r)
{
    mba_canvas       c = { 0 };
    const mba_status st = body(&c, r);
    if (st == MBA_OK) *out = c.out, c.out = (mba_buf){ 0 };
    mba_canvas_free(&c);
    return st;
}
