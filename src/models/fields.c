// SPDX-License-Identifier: Apache-2.0
/* fields.c -- see fields.h: parses assignments and checks their values. */
#include "models/fields.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/nearest.h"

int mba_field_word(const mba_field *f, const char *text, size_t n)
{
    for (int i = 0; f->words[i]; i++)
        if (strlen(f->words[i]) == n && !strncmp(f->words[i], text, n)) return i;
    return -1;
}

static const mba_field *find(const mba_field *fields, const char *name, size_t n)
{
    for (; fields->name; fields++)
        if (strlen(fields->name) == n && !strncmp(fields->name, name, n)) return fields;
    return NULL;
}

/* Parses the integer at the start of text, which must end at `end` or at a colon. */
static bool whole(int64_t *out, const char *text, const char *end, const char **rest)
{
    char           *stop;
    const long long v = strtoll(text, &stop, 10);
    *out = v;
    *rest = stop;
    return stop != text && (stop == end || *stop == ':') && v >= -MBA_FIELD_MOST && v <= MBA_FIELD_MOST;
}

static bool set_list(int64_t *to, int count, const char *text, const char *end)
{
    int64_t v[64] = { 0 };
    int     n = 0;
    for (const char *s = text; n < count && n < 64; s++) {
        if (!whole(&v[n++], s, end, &s)) return false;
        if (s == end) {
            memcpy(to, v, sizeof *v * (size_t)count);
            return true;
        }
    }
    return false;
}

static int64_t most_of(const mba_field *f) { return f->most ? f->most : MBA_FIELD_MOST; }

static bool set_value(void *to, const mba_field *f, const char *text, const char *end)
{
    const size_t n = (size_t)(end - text);
    const char  *rest;
    char        *stop;
    int64_t      v;
    switch (f->kind) {
    case MBA_FIELD_INT:
        if (!whole(&v, text, end, &rest) || rest != end || v < f->least || v > most_of(f)) return false;
        *(int64_t *)to = v;
        return true;
    case MBA_FIELD_BOOL:
        if (!whole(&v, text, end, &rest) || rest != end || v < 0 || v > 1) return false;
        *(bool *)to = v != 0;
        return true;
    case MBA_FIELD_REAL:
        *(double *)to = strtod(text, &stop);
        if (stop != end || stop == text || !isfinite(*(double *)to)) return false;
        return *(double *)to > 0 || (*(double *)to == 0 && f->standard == 0); // 0 would mean the default
    case MBA_FIELD_LIST: return set_list(to, f->count, text, end);
    case MBA_FIELD_WORD: *(int *)to = mba_field_word(f, text, n); return *(int *)to >= 0;
    default:
        if (n >= (size_t)f->count) return false;
        memcpy(to, text, n);
        ((char *)to)[n] = 0;
        return true;
    }
}

static mba_status no_field(const mba_field *fields, const char *text, size_t n, size_t name)
{
    mba_nearest near = mba_nearest_to(text, name);
    for (const mba_field *f = fields; f->name; f++) mba_nearest_try(&near, f->name, f->meaning);
    return mba_fail(MBA_E_ARG,
                    "cannot set '%.*s'\nwhy: this model has no field '%.*s'\nfix: %smambascope list fields names them",
                    (int)n, text, (int)name, text, mba_did_you_mean(&near).text);
}

/* Fails for a value that cannot be assigned, and says what the field accepts. */
static mba_status refuse(const mba_field *f, const char *text, size_t n, const char *eq)
{
    static const char *const wants[] = {
        [MBA_FIELD_BOOL] = "0 or 1 belongs there",
        [MBA_FIELD_REAL] = "a number that is not below 0 belongs there",
        [MBA_FIELD_LIST] = "whole numbers with colons between them belong there, 1:3:8:4",
    };
    const size_t kinds = sizeof wants / sizeof *wants;
    char         range[160];
    const char  *why = !eq                                         ? "it has no ="
                       : (size_t)f->kind < kinds && wants[f->kind] ? wants[f->kind]
                                                                   : "it is too long";
    if (f && f->kind == MBA_FIELD_REAL && f->standard != 0) why = "a number above 0 belongs there";
    if (f && f->kind == MBA_FIELD_INT) {
        snprintf(range, sizeof range, "it must be a whole number from %lld to %lld", (long long)f->least,
                 (long long)most_of(f));
        why = range;
    }
    if (f && f->kind == MBA_FIELD_WORD) {
        int at = snprintf(range, sizeof range, "it must be one of");
        for (int i = 0; f->words[i] && at < (int)sizeof range; i++)
            at += snprintf(range + at, sizeof range - (size_t)at, " %s", f->words[i]);
        why = range;
    }
    return mba_fail(MBA_E_ARG,
                    "cannot set '%.*s'\nwhy: %s\nfix: write NAME=VALUE; `mambascope list fields` shows the names",
                    (int)n, text, why);
}

mba_status mba_fields_set(void *config, const mba_field *fields, const char *assignments)
{
    for (const char *s = assignments; s && *s;) {
        const size_t     n = strcspn(s, ",");
        const char      *eq = memchr(s, '=', n);
        const mba_field *f = eq ? find(fields, s, (size_t)(eq - s)) : NULL;
        if (eq && !f) return no_field(fields, s, n, (size_t)(eq - s));
        if (!f || !set_value(mba_field_at(config, f), f, eq + 1, s + n)) return refuse(f, s, n, eq);
        s += n + (s[n] == ',');
    }
    return MBA_OK;
}
