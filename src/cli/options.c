// SPDX-License-Identifier: Apache-2.0
/* options.c -- see options.h. */
#include "cli/options.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/say.h"
#include "core/nearest.h"

enum { HELP_COLUMN = 27, HELP_WIDTH = 80 };

static mba_opt kind_of(const mba_option *o) { return (mba_opt)(o->kind & MBA_OPT_KINDS); }

/* ---- the table ---- */

static bool is_option(const mba_option *o) { return kind_of(o) != MBA_OPT_ALIAS && kind_of(o) != MBA_OPT_GROUP; }

const mba_option *mba_option_from(const mba_option *o)
{
    while (o->name && !is_option(o)) o++;
    return o->name ? o : NULL;
}

/* The row of a table with this name: an option or an alias. */
static const mba_option *find_row(const mba_option *table, const char *name, size_t n)
{
    for (const mba_option *o = table; o->name; o++)
        if (kind_of(o) != MBA_OPT_GROUP && strlen(o->name) == n && !strncmp(o->name, name, n)) return o;
    return NULL;
}

const mba_option *mba_option_find(const mba_option *table, const char *name, size_t n)
{
    const mba_option *o = find_row(table, name, n);
    if (!o || kind_of(o) != MBA_OPT_ALIAS) return o;
    const mba_option *now = find_row(table, o->help, strlen(o->help));
    mba_assert(now && kind_of(now) != MBA_OPT_ALIAS);
    return now;
}

/* ---- help ---- */

/* Prints the words in lines that start at HELP_COLUMN. The caller has printed the start of the first line. */
static void print_words(const char *text)
{
    int at = HELP_COLUMN;
    while (*text) {
        const int n = (int)strcspn(text, " ");
        if (at > HELP_COLUMN && at + 1 + n > HELP_WIDTH) printf("\n%*s", at = HELP_COLUMN, "");
        else if (at > HELP_COLUMN) at += printf(" ");
        at += printf("%.*s", n, text);
        text += n + (text[n] == ' ');
    }
    putchar('\n');
}

static void print_help(const mba_usage *u)
{
    printf("usage: mambascope %s %s\n\n%s\n", u->command, u->synopsis, u->about);
    const bool grouped = u->options->name && kind_of(u->options) == MBA_OPT_GROUP;
    if (!grouped) puts("\nOptions");
    for (const mba_option *o = u->options; o->name; o++) {
        char head[64];
        if (kind_of(o) == MBA_OPT_GROUP) printf("\n%s\n", o->name);
        if (!is_option(o)) continue;
        snprintf(head, sizeof head, "%s%s%s", o->name, o->value ? " " : "", o->value ? o->value : "");
        printf("  %-*s ", HELP_COLUMN - 3, head);
        print_words(o->help);
    }
    printf("  %-*s %s\n\nExamples\n", HELP_COLUMN - 3, "--help", "show this text");
    for (const char *e = u->examples; *e;) {
        const size_t n = strcspn(e, "\n");
        printf("  %.*s\n", (int)n, e);
        e += n + (e[n] == '\n');
    }
}

/* Prints text as roff, with its markup characters escaped. */
static void print_roff(const char *s)
{
    bool first = true; // of a line
    for (; *s; s++) {
        if (first && (*s == '.' || *s == '\'')) fputs("\\&", stdout);
        first = *s == '\n';
        if (*s == '\\') fputs("\\e", stdout);
        else if (*s == '-') fputs("\\-", stdout);
        else putchar(*s);
    }
}

static void print_manual(const mba_usage *u)
{
    printf(".SS \"");
    print_roff(u->command);
    putchar(' ');
    print_roff(u->synopsis);
    puts("\"");
    print_roff(u->about);
    putchar('\n');
    for (const mba_option *o = mba_option_from(u->options); o; o = mba_option_from(o + 1)) {
        fputs(".TP\n.BR ", stdout);
        print_roff(o->name);
        if (o->value) fputs(" \" ", stdout), print_roff(o->value), putchar('"');
        putchar('\n');
        print_roff(o->help);
        putchar('\n');
    }
    puts(".PP\nExamples:\n.nf");
    print_roff(u->examples);
    puts(".fi");
}

static void print_names(const mba_usage *u)
{
    for (const mba_option *o = mba_option_from(u->options); o; o = mba_option_from(o + 1))
        printf("%s\t%s\t%s\n", o->name, o->value ? o->value : "", o->help);
}

static mba_status no_option(const mba_usage *u, const char *arg, size_t n)
{
    mba_nearest near = mba_nearest_to(arg, n);
    for (const mba_option *o = mba_option_from(u->options); o; o = mba_option_from(o + 1))
        mba_nearest_try(&near, o->name, o->help);
    return mba_fail(MBA_E_ARG, "there is no option %s\nfix: %smambascope %s --help lists them", arg,
                    mba_did_you_mean(&near).text, u->command);
}

/* ---- values ---- */

static mba_status bad_value(const mba_option *o, const char *text)
{
    if (kind_of(o) == MBA_OPT_BYTES)
        return mba_fail(MBA_E_ARG, "%s must be a number of bytes, not %s\nfix: %s 20KB, 6GB, 6GiB or a plain number",
                        o->name, text, o->name);
    const char *kind = kind_of(o) == MBA_OPT_REAL ? "a number" : "a whole number";
    if (o->most > o->least)
        return mba_fail(MBA_E_ARG, "%s must be %s from %.13g to %.13g, not %s\nfix: %s %s: %s", o->name, kind, o->least,
                        o->most, text, o->name, o->value, o->help);
    return mba_fail(MBA_E_ARG, "%s must be %s, not %s\nfix: %s %s: %s", o->name, kind, text, o->name, o->value,
                    o->help);
}

bool mba_option_takes(const mba_option *o, double v) { return o->most <= o->least || (v >= o->least && v <= o->most); }

/* 6G and 6GB are 6e9 bytes, like every size that is printed; 6GiB is 6 x 2^30. */
static mba_status set_bytes(const mba_option *o, const char *text)
{
    static const char units[] = "KMGT";
    char             *end;
    const double      v = strtod(text, &end);
    const char       *unit = *end ? strchr(units, toupper((unsigned char)*end)) : NULL;
    const bool        binary = unit && end[1] == 'i' && end[2] == 'B';
    const double      k = unit ? pow(binary ? 1024 : 1000, (double)(unit - units) + 1) : 1;
    if (unit) end += binary ? 2 : 1;
    if (*end == 'B') end++;
    if (end == text || *end || !(v > 0) || v * k > 9e18) return bad_value(o, text);
    *(int64_t *)o->to = (int64_t)(v * k);
    return MBA_OK;
}

static mba_status add_word(mba_operands *words, const char *arg)
{
    if (words->n == MBA_OPERANDS_MAX)
        return mba_fail(MBA_E_ARG,
                        "there are more than %d arguments\nfix: split "
                        "them over several calls",
                        MBA_OPERANDS_MAX);
    words->word[words->n++] = arg;
    return MBA_OK;
}

static mba_status set_value(const mba_option *o, const char *text)
{
    char *end = NULL;
    errno = 0;
    if (kind_of(o) == MBA_OPT_TEXT) {
        *(const char **)o->to = text;
    } else if (kind_of(o) == MBA_OPT_TEXTS) {
        return add_word(o->to, text);
    } else if (kind_of(o) == MBA_OPT_BYTES) {
        return set_bytes(o, text);
    } else if (kind_of(o) != MBA_OPT_REAL) {
        const long long v = strtoll(text, &end, 10);
        if (end == text || *end || errno || !mba_option_takes(o, (double)v)) return bad_value(o, text);
        *(int64_t *)o->to = v;
    } else {
        const double v = strtod(text, &end);
        if (end == text || *end || isnan(v) || !mba_option_takes(o, v)) return bad_value(o, text);
        *(double *)o->to = v;
    }
    return MBA_OK;
}

/* Who gives two lists K=V,.. means both, but the second would replace the first. Of other options the last one
 * counts. */
static bool is_second_list(const mba_option *o, int i, char **argv)
{
    const size_t n = strlen(o->name), v = o->value ? strlen(o->value) : 0;
    bool         before = false;
    for (int k = 1; k < i; k++) before |= !strncmp(argv[k], o->name, n) && (!argv[k][n] || argv[k][n] == '=');
    return before && kind_of(o) == MBA_OPT_TEXT && v > 5 && !strcmp(o->value + v - 5, "=V,..");
}

/* An option with an optional value has none if it is the last word, or if another option follows. */
static bool stands_alone(const mba_option *o, int i, int argc, char **argv)
{
    return kind_of(o) == MBA_OPT_MOST && (i + 1 == argc || argv[i + 1][0] == '-');
}

bool mba_option_given(const mba_usage *u, const mba_option *o, int argc, char **argv)
{
    bool given = false;
    for (int i = 1; i < argc && strcmp(argv[i], "--"); i++) {
        const char       *eq = strchr(argv[i], '=');
        const mba_option *at = argv[i][0] != '-' ? NULL
                                                 : mba_option_find(u->options, argv[i],
                                                                   eq ? (size_t)(eq - argv[i]) : strlen(argv[i]));
        given |= at == o;
        if (at && !eq && kind_of(at) != MBA_OPT_FLAG && !stands_alone(at, i, argc, argv)) i++; // its value
    }
    return given;
}

static mba_status take_word(const mba_usage *u, mba_operands *words, const char *arg)
{
    if (words) return add_word(words, arg);
    return mba_fail(MBA_E_ARG, "unexpected argument '%s'\nfix: mambascope %s --help shows what it takes", arg,
                    u->command);
}

/* Tells of a former spelling, once. */
static void tell_alias(const mba_option *o, int i, char **argv, size_t n)
{
    if (strlen(o->name) == n && !strncmp(o->name, argv[i], n)) return;
    for (int k = 1; k < i; k++)
        if (!strncmp(argv[k], argv[i], n) && (!argv[k][n] || argv[k][n] == '=')) return;
    mba_say(stderr, "note: %.*s is now %s\n", (int)n, argv[i], o->name);
}

mba_status mba_options_parse(const mba_usage *u, int argc, char **argv, mba_operands *words, bool *help)
{
    bool ended = false; // by --: only words follow
    *help = false;
    for (int i = 1; i < argc; i++) {
        const char *arg = argv[i], *eq = strchr(arg, '=');
        if (ended || arg[0] != '-' || !arg[1]) {
            MBA_TRY(take_word(u, words, arg));
            continue;
        }
        if (!strcmp(arg, "--")) {
            ended = true;
            continue;
        }
        if (!strcmp(arg, "--help") || !strcmp(arg, "-h")) {
            *help = true;
            print_help(u);
            return MBA_OK;
        }
        if (!strcmp(arg, "--manual") || !strcmp(arg, "--list-options")) { // for `manual` and for shells
            *help = true;
            if (arg[2] == 'm') print_manual(u);
            else print_names(u);
            return MBA_OK;
        }
        const size_t      n = eq ? (size_t)(eq - arg) : strlen(arg);
        const mba_option *o = mba_option_find(u->options, arg, n);
        if (!o) return no_option(u, arg, n);
        tell_alias(o, i, argv, n);
        if (kind_of(o) == MBA_OPT_FLAG) {
            if (eq) return mba_fail(MBA_E_ARG, "%s takes no value\nfix: write %s alone", o->name, o->name);
            *(bool *)o->to = true;
            continue;
        }
        if (!eq && stands_alone(o, i, argc, argv)) {
            *(int64_t *)o->to = (int64_t)o->most;
            continue;
        }
        if (!eq && i + 1 == argc)
            return mba_fail(MBA_E_ARG, "%s needs a value\nfix: %s %s", o->name, o->name, o->value);
        if (is_second_list(o, i, argv))
            return mba_fail(MBA_E_ARG,
                            "%s is given twice\nwhy: the second would replace the first\nfix: write one list, %s %s",
                            o->name, o->name, o->value);
        MBA_TRY(set_value(o, eq ? eq + 1 : argv[++i]));
    }
    const mba_option *json = mba_option_find(u->options, "--json", 6), *csv = mba_option_find(u->options, "--csv", 5);
    if (json && csv && kind_of(json) == MBA_OPT_FLAG && kind_of(csv) == MBA_OPT_FLAG && *(bool *)json->to
        && *(bool *)csv->to)
        return mba_fail(MBA_E_ARG, "--json and --csv cannot be combined\nfix: leave one of them out");
    return MBA_OK;
}
