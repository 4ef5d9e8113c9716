// SPDX-License-Identifier: Apache-2.0
/* show.c -- `mambascope show FILE.db`: prints the tables of a store as text, CSV or JSON. */
#include <stdio.h>
#include <string.h>

#include "cli/command.h"
#include "cli/options.h"
#include "cli/say.h"
#include "cli/show_tables.h"
#include "core/nearest.h"
#include "scope/doubts.h"
#include "scope/export.h"
#include "study/verdict_matrix.h"

static mba_status make(mba_table **out, const mba_show_table *s, const mba_analysis *a, bool full)
{
    MBA_TRY(mba_table_create(out, s->columns));
    mba_status st = s->fill(*out, a, full);
    if (st == MBA_OK) st = mba_table_status(*out);
    if (st != MBA_OK) mba_table_destroy(*out);
    return st;
}

static void print_heading(const mba_show_table *s)
{
    printf("%s\n", s->title);
    if (*s->convention) printf("(%s)\n", s->convention);
}

/* Claims and notes are sentences: they are printed as blocks, not as a table. */
static void print_claims(const mba_analysis *a)
{
    mba_claim c[MBA_CLAIMS];
    mba_claims_judge(a, c);
    for (int i = 0; i < MBA_CLAIMS; i++) {
        printf("%-3s %-10s %s\n    target    %s\n", c[i].id, mba_verdict_name(c[i].verdict), c[i].claim, c[i].target);
        printf("    rule      %s\n    refuted   by %s\n", c[i].rule, c[i].refuted_by);
        if (*c[i].measured) mba_say(stdout, "    measured  %s\n", c[i].measured);
        if (*c[i].sensitivity) printf("    here      %s; %s\n", mba_verdict_name(c[i].here), c[i].sensitivity);
        if (*c[i].needs)
            printf("    %s %s\n", c[i].verdict == MBA_OPEN ? "not measured here: needs" : "also needs", c[i].needs);
    }
}

/* A line per claim: its verdict on the set of stores and why; below it each column's number with a mark. */
static mba_status print_matrix(const mba_analysis *a)
{
    mba_analysis     *store[1 + MBA_BESIDE_MAX] = { (mba_analysis *)a };
    static const char mark[MBA_VERDICTS] = { '?', '+', '-', '~', ' ', ' ' };
    mba_matrix       *m;
    int               n = 1;
    for (int i = 0; i < a->nbeside && n < 1 + MBA_BESIDE_MAX; i++) store[n++] = a->beside[i];
    MBA_TRY(mba_matrix_create(&m, store, n));
    for (int i = 0; i < MBA_CLAIMS; i++) {
        const mba_claim *of = NULL;
        for (int c = 0; c < MBA_COLUMNS && !of; c++) of = m->store[c] ? &m->cell[i][c] : NULL;
        if (!of) continue;
        mba_say(stdout, "%-3s %-14s %s (%s)\n", of->id, mba_verdict_name(m->suite[i]), of->claim, of->target);
        if (*m->sentence[i]) mba_say(stdout, "    %s\n", m->sentence[i]);
        fputs("   ", stdout);
        for (int c = 0; c < MBA_COLUMNS; c++)
            if (m->store[c])
                mba_say(stdout, " %s %s%c", mba_matrix_column_name((mba_matrix_column)c), m->cell[i][c].cell,
                        mark[m->cell[i][c].here]);
        putchar('\n');
    }
    puts("(each column's number: + the claim holds there, - it does not, ~ depends, ? open)");
    mba_matrix_destroy(m);
    return MBA_OK;
}

static void print_notes(const mba_analysis *a)
{
    for (int64_t i = 0; i < a->nnotes; i++) {
        const mba_row_note *n = &a->note[i];
        mba_say(stdout, "%s, %s: %s\n", n->topic ? n->topic : "-", n->severity ? n->severity : "-",
                n->text ? n->text : "-");
        if (n->fix) mba_say(stdout, "    %s\n", n->fix);
    }
}

/* Text shows only the first rows of long tables, and says so, because sums over them would be wrong. */
static mba_status tell_left_out(const mba_show_table *s, const mba_analysis *a, size_t shown)
{
    mba_table *all;
    MBA_TRY(make(&all, s, a, true));
    const size_t rows = mba_table_rows(all);
    if (rows > shown)
        mba_say(stdout, "(%zu of %zu rows; mambascope show %s %s --csv prints all)\n", shown, rows,
                mba_store_path(a->store), s->name);
    mba_table_destroy(all);
    return MBA_OK;
}

/* Explains percentages of floors above 100, one line per reason. */
static void explain_above(const mba_show_table *s, const mba_analysis *a)
{
    static const char *const tables[] = { "breakdown", "operators", "kernels", "roofline" };
    bool                     has = false;
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) has |= !strcmp(s->name, tables[i]);
    for (int why = MBA_NOT_ABOVE + 1; has && why < MBA_ABOVES; why++) {
        const mba_kernel_view *most = NULL;
        int64_t                n = 0;
        for (int64_t i = 0; i < a->nkernels; i++) {
            const mba_kernel_view *k = &a->kernel[i];
            if (!(k->launches > 0) || mba_above_floor(a, k) != (mba_above)why) continue;
            if (!most || k->step_s > most->step_s) most = k;
            n++;
        }
        if (!most) continue;
        mba_say(stdout, "(above 100 %% of floor, %s", most->row->name ? most->row->name : "?");
        if (n > 1) printf(" and %lld more", (long long)n - 1);
        mba_say(stdout, ": %s)\n", mba_above_words(a, (mba_above)why).text);
    }
}

static mba_status print_text(const mba_show_table *s, const mba_analysis *a, bool asked)
{
    mba_status st = MBA_OK;
    mba_table *t;
    MBA_TRY(make(&t, s, a, false));
    if (mba_table_rows(t)) {
        print_heading(s);
        if (!strcmp(s->name, "claims")) print_claims(a);
        else if (!strcmp(s->name, "matrix")) st = print_matrix(a);
        else if (!strcmp(s->name, "notes")) print_notes(a);
        else {
            st = mba_table_print(t, stdout, MBA_TABLE_TEXT);
            if (st == MBA_OK) st = tell_left_out(s, a, mba_table_rows(t));
            explain_above(s, a);
        }
        putchar('\n');
    } else if (asked && !strcmp(s->name, "matrix")) {
        printf("%s\n(needs several stores: mambascope show %s matrix --compare OTHER.db,..)\n", s->title,
               mba_store_path(a->store));
    } else if (asked) {
        printf("%s\n(%s", s->title, strcmp(s->name, "notes") ? "not measured: the store has no rows for it" : "none");
        if (a->nnotes) mba_say(stdout, "; `mambascope show %s notes` says why", mba_store_path(a->store));
        puts(")");
    }
    mba_table_destroy(t);
    return st;
}

static mba_status print_form(const mba_show_table *s, const mba_analysis *a, mba_table_form form)
{
    mba_table *t;
    MBA_TRY(make(&t, s, a, true));
    const mba_status st = mba_table_print(t, stdout, form);
    mba_table_destroy(t);
    return st;
}

static bool wanted(const mba_show_table *s, const mba_operands *words)
{
    for (int i = 1; i < words->n; i++)
        if (!strcmp(words->word[i], s->name)) return true;
    return words->n == 1;
}

/* Doubts about the measurement come first. In CSV they go to stderr, so that the file holds one table. */
static void print_doubts(const mba_analysis *a, mba_table_form form)
{
    mba_doubt d[MBA_DOUBTS_MAX];
    const int n = mba_doubts_of(d, a);
    for (int i = 0; i < n && form != MBA_TABLE_JSON; i++)
        mba_say(form == MBA_TABLE_TEXT ? stdout : stderr, "note: %s\n", d[i].text);
    if (n && form == MBA_TABLE_TEXT) putchar('\n');
    if (form != MBA_TABLE_JSON) return;
    fputs("{\"doubts\": [", stdout);
    for (int i = 0; i < n; i++) {
        if (i) fputs(", ", stdout);
        mba_export_string(stdout, d[i].text);
    }
    fputs("]", stdout);
}

static mba_status print_all(const mba_analysis *a, const mba_operands *words, mba_table_form form)
{
    const char *between = ",\n";
    print_doubts(a, form);
    for (const mba_show_table *s = mba_show_tables; s->name; s++) {
        if (!wanted(s, words)) continue;
        if (form == MBA_TABLE_JSON) printf("%s\"%s\": ", between, s->name);
        MBA_TRY(form == MBA_TABLE_TEXT ? print_text(s, a, words->n > 1) : print_form(s, a, form));
        between = ",\n";
    }
    if (form == MBA_TABLE_JSON) puts("}");
    return MBA_OK;
}

/* The stores of --compare, for claims that need more than one. */
typedef struct others {
    mba_store    *store[MBA_BESIDE_MAX];
    mba_analysis *analysis[MBA_BESIDE_MAX];
    int           n;
} others;

static mba_status open_others(others *o, const char *list)
{
    char path[4096];
    for (const char *at = list; at && *at; at += strcspn(at, ","), at += *at == ',') {
        snprintf(path, sizeof path, "%.*s", (int)strcspn(at, ","), at);
        if (o->n == MBA_BESIDE_MAX)
            return mba_fail(MBA_E_ARG, "--compare takes at most %d stores\nfix: name fewer", MBA_BESIDE_MAX);
        MBA_TRY(mba_store_open(&o->store[o->n++], path));
        MBA_TRY(mba_analysis_create(&o->analysis[o->n - 1], o->store[o->n - 1]));
    }
    return MBA_OK;
}

static mba_status close_others(others *o)
{
    mba_status st = MBA_OK;
    for (int i = 0; i < o->n; i++) {
        mba_analysis_destroy(o->analysis[i]);
        const mba_status closed = mba_store_close(o->store[i]);
        if (st == MBA_OK) st = closed;
    }
    return st;
}

static mba_status show(const mba_operands *words, const char *beside, mba_table_form form)
{
    mba_store    *s = NULL;
    mba_analysis *a = NULL;
    others        o = { .n = 0 };
    mba_status    st = mba_store_open(&s, words->word[0]);
    if (st == MBA_OK) st = mba_analysis_create(&a, s);
    if (st == MBA_OK) st = open_others(&o, beside);
    if (st == MBA_OK) {
        a->beside = o.analysis;
        a->nbeside = o.n;
        st = print_all(a, words, form);
    }
    mba_analysis_destroy(a);
    const mba_status closed = mba_store_close(s), others_closed = close_others(&o);
    return st != MBA_OK ? st : closed != MBA_OK ? closed : others_closed;
}

static mba_status no_table(const char *name)
{
    mba_nearest near = mba_nearest_to(name, strlen(name));
    for (const mba_show_table *s = mba_show_tables; s->name; s++) mba_nearest_try(&near, s->name, NULL);
    return mba_fail(MBA_E_ARG, "there is no table '%s'\nfix: %smambascope show --help lists them", name,
                    mba_did_you_mean(&near).text);
}

mba_status mba_command_show(int argc, char **argv)
{
    bool             json = false, csv = false, help;
    const char      *beside = NULL;
    const mba_option options[] = {
        { "--compare", MBA_OPT_TEXT, &beside, "B.db,..",
          "further stores for claims that compare runs (another variant, other sizes, the other Mamba) and for the "
          "matrix of claims over a set of stores",
          0, 0 },
        MBA_OPTION_ALIAS("--beside", "--compare"),
        { "--json", MBA_OPT_FLAG, &json, NULL, "print JSON, an object with one array per table", 0, 0 },
        { "--csv", MBA_OPT_FLAG, &csv, NULL, "print CSV, of one table", 0, 0 },
        { 0 },
    };
    const mba_usage usage = {
        "show", "FILE.db [TABLE..] [options]",
        "Prints the tables of a store by `mambascope profile`. Without table names it prints\n"
        "every table that has rows: environment parameters ceilings steps energy\n"
        "collection breakdown operators unmatched kernels counters roofline intensity\n"
        "classes caches reuse bandwidth blocks ratio bounds occupancy source advice claims\n"
        "matrix notes.",
        options,
        "mambascope show run.db\nmambascope show run.db breakdown roofline claims\nmambascope show run.db kernels "
        "--csv > kernels.csv\n"
        "mambascope show mamba1.db claims --compare mamba2.db\n"
        "mambascope show mamba2.db matrix --compare mamba1.db,hybrid.db,peer.db\n"
    };
    mba_operands words = { 0 };
    MBA_TRY(mba_options_parse(&usage, argc, argv, &words, &help));
    if (help) return MBA_OK;
    if (!words.n) return mba_fail(MBA_E_ARG, "show what?\nfix: mambascope show FILE.db");
    for (int i = 1; i < words.n; i++)
        if (!mba_show_table_find(words.word[i])) return no_table(words.word[i]);
    if (csv && words.n != 2)
        return mba_fail(MBA_E_ARG, "--csv prints one table, not %d\nfix: name one: mambascope show %s kernels --csv",
                        words.n - 1, words.word[0]);
    return show(&words, beside, mba_table_form_of(json, csv));
}
