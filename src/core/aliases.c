// SPDX-License-Identifier: Apache-2.0
/* aliases.c -- see aliases.h. */
#include "core/aliases.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

typedef struct alias {
    const char *op, *old, *now;
} alias;

#define KERNEL(was, is) { NULL, #was, #is },
#define VARIANT(of, was, is)
static const alias kernels[] = {
#include "core/aliases.def"
};
#undef KERNEL
#undef VARIANT

#define KERNEL(was, is)
#define VARIANT(of, was, is) { #of, #was, #is },
static const alias variants[] = {
#include "core/aliases.def"
};
#undef KERNEL
#undef VARIANT

const char *mba_alias_kernel(const char *name)
{
    for (size_t i = 0; name && i < sizeof kernels / sizeof *kernels; i++)
        if (!strcmp(kernels[i].old, name)) return kernels[i].now;
    return name;
}

/* Where the digits begin that end at `at`; `at`: there are none. */
static const char *digits_before(const char *at, const char *start)
{
    while (at > start && isdigit((unsigned char)at[-1])) at--;
    return at;
}

/* Whether the name at `at`, n bytes long, is a whole identifier of the pattern. In a mangled name its length stands
 * before it, and the types of its arguments follow at once. */
static bool is_identifier(const char *pattern, const char *at, size_t n, bool *mangled)
{
    const char *digits = digits_before(at, pattern);
    char        length[24];
    snprintf(length, sizeof length, "%zu", n);
    *mangled = strlen(length) == (size_t)(at - digits) && !strncmp(digits, length, strlen(length));
    if (*mangled) return true;
    const unsigned char before = at > pattern ? (unsigned char)at[-1] : '*', after = (unsigned char)at[n];
    return !isalnum(before) && before != '_' && !islower(after) && !isdigit(after) && after != '_';
}

bool mba_alias_pattern(char *out, size_t room, const char *pattern, const char **old, const char **now)
{
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++) {
        const size_t n = strlen(kernels[i].old);
        for (const char *at = pattern; (at = strstr(at, kernels[i].old)); at++) {
            bool mangled;
            if (!is_identifier(pattern, at, n, &mangled)) continue;
            char length[24] = "";
            if (mangled) snprintf(length, sizeof length, "%zu", strlen(kernels[i].now));
            *old = kernels[i].old;
            *now = kernels[i].now;
            const char *upto = mangled ? digits_before(at, pattern) : at;
            return snprintf(out, room, "%.*s%s%s%s", (int)(upto - pattern), pattern, length, *now, at + n) < (int)room;
        }
    }
    return false;
}

/* Is it `op`, or its backward operator? */
static bool is_of(const char *name, const char *op)
{
    const size_t n = strlen(op);
    return !strncmp(name, op, n) && (!name[n] || !strcmp(name + n, "_bwd"));
}

const char *mba_alias_variant(const char *op, const char *name)
{
    for (size_t i = 0; op && name && i < sizeof variants / sizeof *variants; i++)
        if (!strcmp(variants[i].old, name) && is_of(op, variants[i].op)) return variants[i].now;
    return name;
}
