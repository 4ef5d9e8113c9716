// SPDX-License-Identifier: Apache-2.0
/* export.c -- `mambascope export FILE.db`: writes a store as CSV files, as JSON, or as a trace for Perfetto and
 * chrome://tracing; `mambascope export RUN --tensorboard DIR` writes the curves of a training run. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "cli/options.h"
#include "cli/say.h"
#include "cli/store_files.h"
#include "core/file.h"
#include "data/listing.h"
#include "report/report.h"
#include "scope/export.h"
#include "scope/tensorboard.h"

static mba_status print_schema(void)
{
    static const char *const type[] = {
        [MBA_CELL_INT] = "integer", [MBA_CELL_REAL] = "real", [MBA_CELL_TEXT] = "text"
    };
    for (int t = 0; t < MBA_ROWS_COUNT; t++) {
        const mba_store_table *table = &mba_store_tables[t];
        printf("%s### `%s`\n\n%c%s.\n\n| column | type | unit | what |\n|---|---|---|---|\n", t ? "\n" : "",
               table->name, toupper((unsigned char)table->doc[0]), table->doc + 1);
        for (int i = 0; i < table->ncolumns; i++) {
            const mba_store_column *c = &table->column[i];
            printf("| `%s` | %s | %s | %s", c->name, type[c->cell], c->unit, c->doc);
            if (c->since > 1) printf(" (since version %d)", c->since);
            puts(" |");
        }
    }
    return MBA_OK;
}

static ssize_t put(void *writer, const char *bytes, size_t n)
{
    return mba_writer_put(writer, bytes, n) == MBA_OK ? (ssize_t)n : 0;
}

typedef struct written {
    mba_store     *store;
    mba_export_fn *all;
    mba_store_rows table;
} written;

/* Writes a file as a whole or not at all. */
static mba_status to_file(const written *what, const char *path)
{
    mba_writer *w = NULL;
    MBA_TRY(mba_writer_create(&w, path));
    FILE      *f = fopencookie(w, "w", (cookie_io_functions_t){ .write = put });
    mba_status st = !f          ? mba_fail(MBA_E_NOMEM, "no memory to write '%s'", path)
                    : what->all ? what->all(f, what->store)
                                : mba_export_csv(f, what->store, what->table);
    if (f) fclose(f); // the writer reports what went wrong
    if (st == MBA_OK) st = mba_writer_commit(w);
    mba_writer_destroy(w);
    return st;
}

static mba_status to_file_or_stdout(mba_store *s, mba_export_fn *write, const char *path)
{
    if (!strcmp(path, "-")) return write(stdout, s);
    MBA_TRY(mba_output_check(path));
    MBA_TRY(to_file(&(written){ .store = s, .all = write }, path));
    mba_say(stderr, "wrote %s\n", path);
    return MBA_OK;
}

/* Writes one file per table that has rows. */
static mba_status to_folder(mba_store *s, const char *folder)
{
    char path[4096];
    MBA_TRY(mba_mkdirs(folder));
    for (int t = 0; t < MBA_ROWS_COUNT; t++) {
        int64_t n;
        MBA_TRY(mba_store_count(s, (mba_store_rows)t, &n));
        if (!n) continue;
        snprintf(path, sizeof path, "%s/%s.csv", folder, mba_store_tables[t].name);
        MBA_TRY(to_file(&(written){ .store = s, .table = (mba_store_rows)t }, path));
        mba_say(stderr, "wrote %s (%lld rows)\n", path, (long long)n);
    }
    return MBA_OK;
}

/* Writes the numbers of every figure that has data, also of figures that compare several stores. */
static mba_status figures_to_folder(const mba_operands *stores, const char *folder, bool simulate)
{
    char       path[4096];
    mba_stores r;
    MBA_TRY(mba_mkdirs(folder));
    MBA_TRY(mba_stores_open(&r, stores->word, stores->n));
    mba_whatif *whatif;
    mba_status  st = mba_stores_simulate(&r, &whatif, simulate);
    r.study = true;
    for (int i = 0; mba_report_figure_name(i) && st == MBA_OK; i++) {
        mba_buf          b = { 0 };
        mba_writer      *w = NULL;
        const mba_status made = mba_report_csv(&b, &r, mba_report_figure_name(i));
        if (made != MBA_OK && made != MBA_E_ARG) st = made; // MBA_E_ARG: these stores have no data for it
        if (made == MBA_OK && b.s) {
            snprintf(path, sizeof path, "%s/%s.csv", folder, mba_report_figure_name(i));
            st = mba_writer_create(&w, path);
            if (st == MBA_OK) st = mba_writer_put(w, b.s, b.n);
            if (st == MBA_OK) st = mba_writer_commit(w);
            if (st == MBA_OK) mba_say(stderr, "wrote %s\n", path);
            mba_writer_destroy(w);
        }
        mba_buf_free(&b);
    }
    free(whatif);
    const mba_status closed = mba_stores_close(&r);
    return st == MBA_OK ? closed : st;
}

/* ---- training runs ---- */

/* Writes one run into the folder itself, several into a folder each: TensorBoard tells runs apart by folder. */
static mba_status to_tensorboard(const mba_operands *runs, const char *folder)
{
    char path[4096], own[4096];
    for (int i = 0; i < runs->n; i++) {
        mba_training *t = NULL;
        MBA_TRY(mba_training_read(&t, runs->word[i]));
        const int  n = snprintf(own, sizeof own, "%s%s%s", folder, runs->n > 1 ? "/" : "", runs->n > 1 ? t->label : "");
        mba_status st = n < (int)sizeof own
                            ? mba_tensorboard_write(path, sizeof path, t, own)
                            : mba_fail(MBA_E_ARG, "the path '%s' is too long\nfix: choose a shorter --tensorboard",
                                       folder);
        if (st == MBA_OK)
            mba_say(stderr, "wrote %s (%lld steps%s); open it with: tensorboard --logdir %s\n", path, (long long)t->n,
                    t->half || t->damaged ? ", without damaged lines" : "", folder);
        mba_training_free(t);
        MBA_TRY(st);
    }
    return MBA_OK;
}

/* ---- the command ---- */

typedef struct options {
    const char *csv, *json, *trace, *small, *figures, *tensorboard;
    int64_t     steps; /* of the timeline, in `small` */
    bool        schema, check, measured;
} options;

static mba_status parse(options *o, mba_operands *words, int argc, char **argv, bool *help)
{
    const mba_option table[] = {
        { "--csv", MBA_OPT_TEXT, &o->csv, "FOLDER", "write one CSV file per table", 0, 0 },
        { "--json", MBA_OPT_TEXT, &o->json, "FILE", "write all tables as one JSON object; - = stdout", 0, 0 },
        { "--trace", MBA_OPT_TEXT, &o->trace, "FILE",
          "write the timeline for Perfetto or chrome://tracing, a lane per stream and per SM; - = stdout", 0, 0 },
        { "--figures", MBA_OPT_TEXT, &o->figures, "FOLDER",
          "write the numbers of every figure of the report, one CSV file each; takes several stores, as report does", 0,
          0 },
        { "--no-simulation", MBA_OPT_FLAG, &o->measured, NULL,
          "--figures: leave out simulated numbers, which saves seconds", 0, 0 },
        { "--store", MBA_OPT_TEXT, &o->small, "FILE.db",
          "write a smaller store: environment, kernels, counters but the simulator's, one of several equal layers, the "
          "first --steps of the timeline; without operands, blocks and instructions",
          0, 0 },
        { "--steps", MBA_OPT_INT, &o->steps, "N",
          "--store: number of steps of the timeline to keep; with fewer than it has, medians and shares of kernels "
          "change [1]",
          1, 4000 },
        { "--tensorboard", MBA_OPT_TEXT, &o->tensorboard, "FOLDER",
          "training runs: write losses, scores, norm, rate and speed as TensorBoard events; takes several runs", 0, 0 },
        { "--check", MBA_OPT_FLAG, &o->check, NULL, "check the file for damage", 0, 0 },
        { "--schema", MBA_OPT_FLAG, &o->schema, NULL, "print tables, columns, units and meanings; needs no file", 0,
          0 },
        { 0 },
    };
    const mba_usage usage = {
        "export", "FILE.db [B.db ..] | RUN [RUN2 ..] [options]",
        "Writes a store of `mambascope profile` in other forms, or the curves of training runs (`train "
        "--out RUN`) for TensorBoard.",
        table,
        "mambascope export run.db --csv run\n"
        "mambascope export run.db --trace run.json      # open it at ui.perfetto.dev\n"
        "mambascope export run.db --json - | jq .step\n"
        "mambascope export run.db --store small.db --steps 2\n"
        "mambascope export mamba1.db mamba2.db peer.db --figures figures\n"
        "mambascope export run --tensorboard boards/run       # tensorboard --logdir boards\n"
    };
    return mba_options_parse(&usage, argc, argv, words, help);
}

/* Refuses forms that do not fit the operands or each other. */
static mba_status check_forms(const options *o, const mba_operands *words)
{
    const bool  of_one_store = o->csv || o->json || o->trace || o->small || o->check;
    const char *first = words->word[0];
    if (o->tensorboard)
        return !of_one_store && !o->figures
                   ? MBA_OK
                   : mba_fail(MBA_E_ARG,
                              "--tensorboard cannot be combined with another form\nwhy: it exports training runs, "
                              "the others export stores\nfix: leave one of them out");
    if (mba_is_folder(first))
        return mba_fail(MBA_E_ARG,
                        "'%s' is a folder, not a store\nfix: for a training run use --tensorboard FOLDER, or for CSV: "
                        "mambascope report %s --figure loss --csv",
                        first, first);
    if (words->n > 1 && of_one_store)
        return mba_fail(MBA_E_ARG, "export which of %d stores?\nfix: name one; only --figures takes several", words->n);
    if (!of_one_store && !o->figures)
        return mba_fail(MBA_E_ARG,
                        "export as what?\nfix: add --csv FOLDER, --json FILE, --trace FILE, --figures FOLDER, --store "
                        "FILE.db or --check; for a training run --tensorboard FOLDER");
    if (o->json && o->trace && !strcmp(o->json, "-") && !strcmp(o->trace, "-"))
        return mba_fail(MBA_E_ARG,
                        "--json and --trace cannot both go to stdout\nwhy: two objects in a row are not valid JSON\n"
                        "fix: write one of them to a file");
    return MBA_OK;
}

static mba_status export_store(const options *o, const mba_operands *words)
{
    mba_store *s = NULL;
    MBA_TRY(mba_store_open(&s, words->word[0]));
    mba_status st = o->check ? mba_store_check(s) : MBA_OK;
    if (st == MBA_OK && o->check) mba_say(stderr, "%s is undamaged\n", words->word[0]);
    if (st == MBA_OK && o->csv) st = to_folder(s, o->csv);
    if (st == MBA_OK && o->json) st = to_file_or_stdout(s, mba_export_json, o->json);
    if (st == MBA_OK && o->trace) st = to_file_or_stdout(s, mba_export_trace, o->trace);
    if (st == MBA_OK && o->small) st = mba_export_store(s, o->small, o->steps);
    if (st == MBA_OK && o->small) mba_say(stderr, "wrote %s\n", o->small);
    if (st == MBA_OK && o->figures) st = figures_to_folder(words, o->figures, !o->measured);
    const mba_status closed = mba_store_close(s);
    return st == MBA_OK ? closed : st;
}

mba_status mba_command_export(int argc, char **argv)
{
    options      o = { .steps = 1 };
    mba_operands words = { 0 };
    bool         help;
    MBA_TRY(parse(&o, &words, argc, argv, &help));
    if (help) return MBA_OK;
    if (o.schema) return print_schema();
    if (words.n < 1) return mba_fail(MBA_E_ARG, "export which store?\nfix: mambascope export FILE.db --csv FOLDER");
    MBA_TRY(check_forms(&o, &words));
    return o.tensorboard ? to_tensorboard(&words, o.tensorboard) : export_store(&o, &words);
}
