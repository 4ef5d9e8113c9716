// SPDX-License-Identifier: Apache-2.0
/* kernel_names.c -- see kernel_names.h: the identifiers of a mangled name, and the choice of one that distinguishes. */
#include "scope/kernel_names.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/lookup.h"
#include "scope/events.h"

/* More than TOLD_MOST kernels get numbers only, because the comparison is quadratic. */
enum { WORD_LEAST = 3, WORD_MOST = 100, SHORT_MOST = 140, TOLD_MOST = 8192 };

typedef struct word {
    const char *at;
    size_t      n;
} word;

/* ---- identifiers of a mangled name ---- */

static const char *past(const char *p, const char *which, char end)
{
    while (*p && strchr(which, *p)) p++;
    return *p == end ? p + 1 : NULL;
}

/* Skips what has digits but is not an identifier: substitutions S1_, parameters T0_, values Li128E. */
static const char *past_other(const char *p)
{
    const char *next = NULL;
    if (*p == 'S' || *p == 'T') next = past(p + 1, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ", '_');
    if (*p == 'L' && islower((unsigned char)p[1])) next = past(p + 2, "n0123456789", 'E');
    return next ? next : p + 1;
}

/* The next identifier at or after *at; n 0: none. */
static word next_word(const char **at)
{
    const char *p = *at;
    while (*p) {
        if (!isdigit((unsigned char)*p)) {
            p = past_other(p);
            continue;
        }
        size_t n = 0;
        while (isdigit((unsigned char)*p) && n < 4096) n = 10 * n + (size_t)(*p++ - '0');
        const bool fits = n && strnlen(p, n) == n && (isalpha((unsigned char)*p) || *p == '_');
        if (!fits) continue;
        *at = p + n;
        if (n >= WORD_LEAST && strncmp(p, "_GLOBAL__N_", n < 11 ? n : 11)) return (word){ p, n };
        p += n;
    }
    *at = p;
    return (word){ p, 0 };
}

static bool has_word(const char *symbol, word w)
{
    for (word one = next_word(&symbol); one.n; one = next_word(&symbol))
        if (one.n == w.n && !memcmp(one.at, w.at, w.n)) return true;
    return false;
}

/* ---- distinguishing names ---- */

static bool shares(const mba_kernel_named *a, const mba_kernel_named *b) { return !strcmp(a->name, b->name); }

/* The mangled template arguments and parameters, after the name; "" if the symbol is not mangled. */
static const char *arguments_of(const mba_kernel_named *k)
{
    const char *found = strncmp(k->symbol, "_Z", 2) ? NULL : strstr(k->symbol, k->name);
    return found ? found + strlen(k->name) : "";
}

/* The first identifier of the arguments that not all members of the group have. */
static word difference(const mba_kernel_named *k, const mba_kernel_named *all, int64_t n, const bool *member)
{
    const char *at = arguments_of(k);
    for (word w = next_word(&at); w.n; w = next_word(&at))
        for (int64_t i = 0; i < n; i++)
            if (member[i] && !has_word(all[i].symbol, w)) return w;
    return (word){ at, 0 };
}

static void number(char name[256], const void *bytes, size_t n)
{
    const uint64_t h = mba_hash(MBA_HASH_BEGIN, bytes, n);
    const size_t   at = strlen(name);
    mba_assert(at < 256);
    snprintf(name + at, 256 - at, "#%04x", (unsigned)((h ^ h >> 16 ^ h >> 32 ^ h >> 48) & 0xffff));
}

/* Names the members of a group. The old names stay until all new ones are made, because difference() uses them. */
static void name_group(mba_kernel_named *k, int64_t n, const bool *member, char (*made)[256])
{
    for (int64_t i = 0; i < n; i++) {
        if (!member[i]) continue;
        const word w = difference(&k[i], k, n, member);
        const int  most = (int)(w.n < WORD_MOST ? w.n : WORD_MOST);
        snprintf(made[i], sizeof made[i], w.n ? "%.*s<%.*s>" : "%.*s", SHORT_MOST, k[i].name, most, w.at);
    }
    for (int64_t i = 0; i < n; i++) {
        bool again = false;
        for (int64_t j = 0; j < n && member[i]; j++)
            again |= j != i && member[j] && strcmp(k[i].symbol, k[j].symbol) && !strcmp(made[i], made[j]);
        if (member[i]) snprintf(k[i].name, sizeof k[i].name, "%s", made[i]);
        if (again) number(k[i].name, k[i].symbol, strlen(k[i].symbol));
    }
}

static bool same_code(const mba_kernel_named *a, const mba_kernel_named *b)
{
    static const int32_t unknown[3];
    return !memcmp(a->code, b->code, sizeof a->code) || !memcmp(a->code, unknown, sizeof unknown)
           || !memcmp(b->code, unknown, sizeof unknown);
}

static void number_code(mba_kernel_named *k, int64_t n, bool *other)
{
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n && !other[i]; j++)
            other[i] = !same_code(&k[i], &k[j]) && !strcmp(k[i].symbol, k[j].symbol);
    for (int64_t i = 0; i < n; i++)
        if (other[i]) number(k[i].name, k[i].code, sizeof k[i].code);
}

static void number_all(mba_kernel_named *k, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        k[i].name[SHORT_MOST] = 0;
        number(k[i].name, k[i].symbol, strlen(k[i].symbol));
        number(k[i].name, k[i].code, sizeof k[i].code);
    }
}

mba_status mba_kernel_names(mba_kernel_named *k, int64_t n)
{
    bool *member = calloc((size_t)n + 1, sizeof *member), *done = calloc((size_t)n + 1, sizeof *done);
    char(*made)[256] = calloc((size_t)n + 1, sizeof *made);
    const bool ok = member && done && made;
    for (int64_t i = 0; i < n; i++) mba_kernel_short(k[i].name, sizeof k[i].name, k[i].symbol);
    if (ok && n > TOLD_MOST) number_all(k, n);
    for (int64_t i = 0; ok && n <= TOLD_MOST && i < n; i++) {
        if (done[i]) continue;
        bool shared = false;
        for (int64_t j = 0; j < n; j++) {
            member[j] = !done[j] && j >= i && shares(&k[i], &k[j]);
            shared |= member[j] && strcmp(k[i].symbol, k[j].symbol);
        }
        for (int64_t j = i; j < n; j++) done[j] |= member[j];
        if (shared) name_group(k, n, member, made);
    }
    if (ok && n <= TOLD_MOST) {
        memset(done, 0, (size_t)n * sizeof *done);
        number_code(k, n, done);
    }
    free(member);
    free(done);
    free(made);
    return ok ? MBA_OK : mba_fail(MBA_E_NOMEM, "no memory for the names of %lld kernels", (long long)n);
}
