// SPDX-License-Identifier: Apache-2.0
/* rules.c -- see rules.h. */
#include "scope/rules.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/aliases.h"
#include "core/file.h"
#include "core/print.h"

extern const char   mba_rules_text[]; /* kernels.rules, by CMake */
extern const size_t mba_rules_bytes;

struct mba_rules {
    char     *text;
    mba_rule *rule;
    int       n;
    char      note[512]; /* about the first rule with an earlier name of a kernel; "" */
};

static mba_status bad(const char *name, int line, const char *why)
{
    return mba_fail(
        MBA_E_FORMAT,
        "cannot read the rules '%s'\nwhy: line %d: %s\nfix: PATTERN OPERATOR CLASS on every line, # for comments", name,
        line, why);
}

static char *next_word(char **at)
{
    char *p = *at + strspn(*at, " \t");
    char *end = p + strcspn(p, " \t");
    *at = *end ? end + 1 : end;
    *end = 0;
    return *p ? p : NULL;
}

/* Adds the pattern with the kernel's current name, if the rule has an earlier one. Both fit: the profiled program may
 * contain kernels of either release. */
static mba_status add_current_name(mba_rules *r, const char *name, mba_rule *rule)
{
    char        now[2 * MBA_RULE_FIELD_MAX];
    const char *was, *is;
    if (!mba_alias_pattern(now, sizeof now, rule->pattern, &was, &is)) return MBA_OK;
    rule->now = strdup(now);
    if (!rule->now) return mba_fail(MBA_E_NOMEM, "no memory for rules");
    if (!*r->note)
        snprintf(r->note, sizeof r->note, "rules '%.200s', line %d: kernel %s is now called %s; the rule matches both",
                 name, rule->line, was, is);
    return MBA_OK;
}

/* The class is the rest of the line, because one class has a space in it. */
static mba_status read_line(mba_rules *r, const char *name, int line, char *text)
{
    text[strcspn(text, "#\r")] = 0;
    char *at = text, *pattern = next_word(&at);
    if (!pattern) return MBA_OK;
    char *op = next_word(&at);
    if (!op) return bad(name, line, "there is no operator");
    at += strspn(at, " \t");
    for (size_t n = strlen(at); n && strchr(" \t", at[n - 1]); n--) at[n - 1] = 0;
    if (strlen(pattern) >= MBA_RULE_FIELD_MAX || strlen(op) >= MBA_RULE_FIELD_MAX)
        return bad(name, line, "a word is longer than 255 characters");
    for (int k = 0; k < MBA_KINDS; k++)
        if (!strcmp(at, mba_kind_name((mba_kind)k))) {
            if (r->n == MBA_RULES_MAX) return bad(name, line, "more than 4096 rules");
            mba_rule *rule = &r->rule[r->n++];
            *rule = (mba_rule){ .pattern = pattern, .op = op, .kind = (mba_kind)k, .line = line };
            return add_current_name(r, name, rule);
        }
    return bad(name, line,
               *at ? "no such class: gemm, ssm, conv, attention, norm, element-wise, .. (`mambascope list ops`)"
                   : "there is no class");
}

mba_status mba_rules_read(mba_rules **out, const char *name, const char *text, size_t n)
{
    *out = NULL;
    mba_rules *r = calloc(1, sizeof *r);
    if (r) r->text = malloc(n + 1);
    if (r) r->rule = calloc(MBA_RULES_MAX, sizeof *r->rule);
    mba_status st = r && r->text && r->rule ? MBA_OK : mba_fail(MBA_E_NOMEM, "no memory for rules");
    if (st == MBA_OK && memchr(text, 0, n)) st = bad(name, 1, "it has zero bytes: not a text");
    if (st == MBA_OK) {
        memcpy(r->text, text, n);
        r->text[n] = 0;
        int line = 0;
        for (char *at = r->text, *next; st == MBA_OK && at; at = next) {
            next = strchr(at, '\n');
            if (next) *next++ = 0;
            st = read_line(r, name, ++line, at);
        }
    }
    if (st == MBA_OK) *out = r;
    else mba_rules_free(r);
    return st;
}

mba_status mba_rules_open(mba_rules **out, const char *path)
{
    char  *text;
    size_t bytes;
    *out = NULL;
    if (!path) return mba_rules_read(out, "kernels.rules", mba_rules_text, mba_rules_bytes);
    MBA_TRY(mba_file_read(&text, &bytes, path, 1 << 20));
    const mba_status st = mba_rules_read(out, path, text, bytes);
    free(text);
    return st;
}

/* Whether the name fits the pattern. Going back to the last star is enough: it fits whatever an earlier one would. */
static bool fits(const char *pattern, const char *name)
{
    const char *star = NULL, *back = NULL;
    while (*name) {
        if (*pattern == '*') {
            star = pattern++;
            back = name;
        } else if (*pattern == '?' || *pattern == *name) {
            pattern++;
            name++;
        } else if (star) {
            pattern = star + 1;
            name = ++back;
        } else {
            return false;
        }
    }
    while (*pattern == '*') pattern++;
    return !*pattern;
}

const mba_rule *mba_rules_match(const mba_rules *r, const char *kernel)
{
    for (int i = 0; i < r->n; i++)
        if (fits(r->rule[i].pattern, kernel) || (r->rule[i].now && fits(r->rule[i].now, kernel))) return &r->rule[i];
    return NULL;
}

const char *mba_rules_note(const mba_rules *r) { return *r->note ? r->note : NULL; }

int             mba_rules_count(const mba_rules *r) { return r->n; }
const mba_rule *mba_rules_at(const mba_rules *r, int i) { return &r->rule[i]; }

void mba_rules_free(mba_rules *r)
{
    if (!r) return;
    for (int i = 0; i < r->n; i++) free(r->rule[i].now);
    free(r->text);
    free(r->rule);
    free(r);
}
