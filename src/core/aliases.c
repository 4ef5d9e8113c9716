// SPDX-License-Identifier: Apache-2.0
/* aliases.c -- see aliases.h. */
#include "core/aliases.h"

#include <stdbool.h>
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
