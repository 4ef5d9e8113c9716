// SPDX-License-Identifier: Apache-2.0
/* report.c -- `mambascope report A.db [B.db ..]`: writes one self-contained page, or prints one figure, of stores or of
 * training runs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "cli/options.h"
#include "cli/say.h"
#include "cli/store_files.h"
#include "core/lock.h"
#include "data/listing.h"
#include "report/report.h"
#include "report/training.h"

typedef struct wanted {
    const char *figure, *view, *baseline;
    bool        csv, study, simulation;
    int         shown; /* stores that get sections of their own */
} wanted;

static mba_status print_figure(const mba_stores *r, const wanted *w)
{
    mba_buf          b = { 0 };
    const mba_status st = w->csv ? mba_report_csv(&b, r, w->figure) : mba_report_svg(&b, r, w->figure, w->view);
    if (st == MBA_OK && b.s) fputs(b.s, stdout);
    mba_buf_free(&b);
    return st;
}

/* Whether only the simulator has numbers for the figure. */
static bool is_simulated(const char *figure)
{
    static const char *const names[] = { "fig13", "sensitivity", "machines", "sizes", "validation", "ratio" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(mba_report_figure_now(figure), names[i])) return true;
    return false;
}

static bool is_stdout(const char *path) { return !strcmp(path, "-"); }

static mba_status write_page(const mba_stores *r, const char *path)
{
    if (is_stdout(path)) {
        mba_buf          b = { 0 };
        const mba_status st = mba_report_page(&b, r);
        if (st == MBA_OK) fwrite(b.s, 1, b.n, stdout);
        mba_buf_free(&b);
        return st;
    }
    MBA_TRY(mba_report_write(r, path));
    mba_say(stderr, "wrote %s; open it in a browser\n", path);
    return MBA_OK;
}

/* ---- training runs ---- */

static mba_status print_of_runs(const mba_trainings *r, const wanted *w)
{
    mba_buf          b = { 0 };
    const mba_status st = !w->figure ? mba_training_page(&b, r)
                          : w->csv   ? mba_training_csv(&b, r, w->figure)
                                     : mba_training_svg(&b, r, w->figure, w->view);
    if (st == MBA_OK && b.s) fwrite(b.s, 1, b.n, stdout);
    mba_buf_free(&b);
    return st;
}

/* Names the damaged lines of a log, as the page does. */
static void warn_of_damage(const mba_trainings *r)
{
    for (int i = 0; i < r->n; i++) {
        const mba_training *t = r->run[i].t;
        if (t->half)
            mba_say(
                stderr,
                "note: the last line of '%s/log.jsonl' is incomplete and is left out: the run is still writing, was "
                "killed, or the disk is full\n",
                t->path);
        if (t->damaged)
            mba_say(stderr,
                    "note: %lld line%s of '%s/log.jsonl' could not be read and %s left out; the first is line %lld\n",
                    (long long)t->damaged, t->damaged == 1 ? "" : "s", t->path, t->damaged == 1 ? "is" : "are",
                    (long long)t->damaged_line);
    }
}

static mba_status report_runs(const mba_operands *words, const wanted *want, const char *out)
{
    mba_trainings r;
    MBA_TRY(mba_trainings_open(&r, words->word, words->n));
    warn_of_damage(&r);
    mba_status st = want->figure || is_stdout(out) ? print_of_runs(&r, want) : mba_training_page_write(&r, out);
    if (st == MBA_OK && !want->figure && !is_stdout(out)) mba_say(stderr, "wrote %s; open it in a browser\n", out);
    mba_trainings_close(&r);
    return st;
}

/* Sets *runs if the operands are training runs. A page shows stores or runs, which share no axis; a folder is a run. */
static mba_status runs_or_stores(const mba_operands *words, bool *runs)
{
    const char *run = NULL, *store = NULL;
    for (int i = 0; i < words->n; i++)
        if (mba_is_folder(words->word[i])) run = words->word[i];
        else store = words->word[i];
    *runs = run != NULL;
    return !run || !store
               ? MBA_OK
               : mba_fail(
                   MBA_E_ARG,
                   "'%s' is a training run, '%s' is not\nwhy: one page shows training runs or stores of `profile`, not "
                   "both\nfix: make a page of each: mambascope report %s --out training.html",
                   run, store, run);
}

/* Warns of empty stores: their page has no content, and the program that was profiled probably failed. */
static void warn_of_empty(const mba_stores *r)
{
    for (int i = 0; i < r->n; i++)
        if (mba_run_is_empty(&r->run[i]))
            mba_say(stderr, "note: '%s' has no step and no kernel: the profiled program did not run a step\n",
                    mba_store_path(r->run[i].store));
}

static mba_status report_stores(const mba_operands *words, const wanted *want, const char *out)
{
    mba_stores r;
    int        first = want->shown < words->n ? want->shown : words->n;
    MBA_TRY(mba_stores_open_good(&r, words->word, words->n, &first));
    mba_stores_show(&r, first);
    warn_of_empty(&r);
    if (!want->figure) mba_stores_tell_doubts(stderr, &r);
    mba_status st = want->baseline ? mba_stores_baseline(&r, want->baseline) : MBA_OK;
    char       left_out[sizeof r.left_out];
    memcpy(left_out, r.left_out, sizeof left_out);
    const bool  simulate = want->simulation && (!want->figure || is_simulated(want->figure));
    mba_whatif *whatif = NULL;
    if (st == MBA_OK) st = mba_stores_simulate(&r, &whatif, simulate);
    r.study = want->study || want->figure;
    if (st == MBA_OK) st = want->figure ? print_figure(&r, want) : write_page(&r, out);
    free(whatif);
    const mba_status closed = mba_stores_close(&r);
    if (st != MBA_OK || closed != MBA_OK) return st == MBA_OK ? closed : st;
    return *left_out ? mba_fail(MBA_E_FORMAT,
                                "the page is without %s\nwhy: the lines above say why\nfix: leave them out, or profile "
                                "them again",
                                left_out)
                     : MBA_OK;
}

/* ---- the command ---- */

typedef struct options {
    const char *out;
    wanted      want;
    int64_t     shown;
    bool        svg, list, measured;
} options;

static mba_status parse(options *o, mba_operands *words, int argc, char **argv, bool *help)
{
    const mba_option table[] = {
        { "--out", MBA_OPT_TEXT, &o->out, "FILE.html", "page to write; - = stdout [report.html]", 0, 0 },
        { "--figure", MBA_OPT_TEXT, &o->want.figure, "NAME",
          "print one figure instead of the page; figures of one store show the first", 0, 0 },
        { "--svg", MBA_OPT_FLAG, &o->svg, NULL, "--figure: print it as SVG, for papers [default]", 0, 0 },
        { "--csv", MBA_OPT_FLAG, &o->want.csv, NULL, "--figure: print its numbers as CSV", 0, 0 },
        { "--view", MBA_OPT_TEXT, &o->want.view, "NAME",
          "--svg: another view of it, by its name in the switch above the figure", 0, 0 },
        { "--study", MBA_OPT_FLAG, &o->want.study, NULL, "show the numbers of the study (arXiv 2508.17679) beside ours",
          0, 0 },
        { "--baseline", MBA_OPT_TEXT, &o->want.baseline, "OLD.db",
          "draw an earlier store of the same workload behind: roofline, kernels, their cards", 0, 0 },
        { "--main", MBA_OPT_INT, &o->shown, "N",
          "give only the first N stores their own sections; comparisons show all [all]", 1, MBA_RUNS_MAX },
        { "--no-simulation", MBA_OPT_FLAG, &o->measured, NULL,
          "leave out simulated what-ifs, machines and sizes, which saves seconds", 0, 0 },
        { "--list", MBA_OPT_FLAG, &o->list, NULL, "list the figures and what they show", 0, 0 },
        { 0 },
    };
    const mba_usage usage = { "report", "A.db [B.db ..] | RUN [RUN2 ..] [options]",
                              "Writes one HTML file from stores of `mambascope profile`: findings, figures, kernels,\n"
                              "claims, method, raw data. It needs no network and no GPU. Several stores are shown\n"
                              "side by side; claims that need several stores are judged with all of them.\n"
                              "From folders of training runs (`train --out RUN`) it shows loss, gradient norm,\n"
                              "learning rate, speed, skipped steps and samples, and compares the runs.",
                              table,
                              "mambascope report base wide --out training.html\n"
                              "mambascope report base --figure loss --csv > loss.csv\n"
                              "mambascope report run.db\n"
                              "mambascope report mamba1.db mamba2.db --out both.html\n"
                              "mambascope report new.db --baseline old.db\n"
                              "mambascope report run.db --figure fig2 --svg > roofline.svg\n"
                              "mambascope report run.db --figure fig1 --view 'by phase' > phases.svg\n"
                              "mambascope report run.db --figure fig4 --csv > bandwidth.csv\n"
                              "mambascope report --study --main 2 mamba1.db mamba2.db mamba2-chunked.db\n" };
    return mba_options_parse(&usage, argc, argv, words, help);
}

static mba_status list_figures(void)
{
    for (int i = 0; mba_report_figure_name(i); i++)
        printf("%-12s %s\n", mba_report_figure_name(i), mba_report_figure_title(i));
    for (int i = 0; mba_training_figure_name(i); i++)
        printf("%-12s %s (training runs)\n", mba_training_figure_name(i), mba_training_figure_title(i));
    return MBA_OK;
}

/* Refuses options that need a figure or exclude each other. */
static mba_status check_figure(const options *o)
{
    const wanted *w = &o->want;
    if ((o->svg || w->csv || w->view) && !w->figure)
        return mba_fail(MBA_E_ARG, "%s needs a figure\nfix: add --figure fig2; mambascope report --list names them",
                        o->svg   ? "--svg"
                        : w->csv ? "--csv"
                                 : "--view");
    if (w->csv && (o->svg || w->view))
        return mba_fail(MBA_E_ARG, "--%s and --csv cannot be combined\nfix: leave one of them out",
                        o->svg ? "svg" : "view");
    return MBA_OK;
}

mba_status mba_command_report(int argc, char **argv)
{
    options      o = { .out = "report.html", .shown = MBA_RUNS_MAX };
    mba_operands words = { 0 };
    bool         help, runs;
    MBA_TRY(parse(&o, &words, argc, argv, &help));
    if (help) return MBA_OK;
    if (o.list) return list_figures();
    MBA_TRY(check_figure(&o));
    if (!words.n)
        return mba_fail(MBA_E_ARG, "a report of what?\nfix: mambascope report run.db, or the folder of a training run");
    MBA_TRY(runs_or_stores(&words, &runs));
    if (runs && (o.want.study || o.want.baseline || o.measured || o.shown < MBA_RUNS_MAX))
        return mba_fail(MBA_E_ARG, "--%s is for stores, but '%s' is a training run\nfix: leave it out",
                        o.want.study      ? "study"
                        : o.want.baseline ? "baseline"
                        : o.measured      ? "no-simulation"
                                          : "main",
                        words.word[0]);
    mba_lock *lock = NULL;
    if (!o.want.figure && !is_stdout(o.out)) {
        MBA_TRY(mba_output_check(o.out)); // a wrong path fails before the simulations
        MBA_TRY(mba_lock_beside(&lock, o.out));
    }
    o.want.simulation = !o.measured;
    o.want.shown = (int)o.shown;
    const mba_status st = runs ? report_runs(&words, &o.want, o.out) : report_stores(&words, &o.want, o.out);
    mba_lock_release(lock);
    return st;
}
