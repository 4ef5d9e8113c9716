// SPDX-License-Identifier: Apache-2.0
/* emulate.c -- see emulate.h: the tables of kernels and of changes. */
#include "core/emulate.h"

#include <string.h>

#define MB ((int64_t)1 << 20)

/*                              bytes, passes; threads, blocks of an SM; vectors; special, fma; stores */
const mba_emulated_kernel mba_emulated_kernels[] = {
    { "copy", 256 * MB, 1, 256, 8, 2, 0, 0, true },  { "special", 64 * MB, 1, 256, 8, 2, 16, 16, true },
    { "mixed", 128 * MB, 1, 256, 8, 2, 6, 6, true }, { "reread", 32 * MB, 8, 512, 2, 4, 0, 0, false },
    { "short", 64 * MB, 1, 128, 4, 2, 0, 0, true },  { 0 },
};

const mba_emulation mba_emulations[] = {
    { "special", "xu", 2 / 3.0 }, { "special", "xu", 0.5 },      { "mixed", "xu", 2 / 3.0 },
    { "mixed", "xu", 0.5 },       { "copy", "sm", 0.75 },        { "copy", "sm", 0.5 },
    { "special", "sm", 0.75 },    { "special", "sm", 0.5 },      { "reread", "sm", 0.75 },
    { "reread", "l2", 0.75 },     { "reread", "l2", 0.5 },       { "copy", "rf", 0.5 },
    { "copy", "rf", 0.25 },       { "special", "rf", 0.5 },      { "special", "rf", 0.25 },
    { "copy", "block_start", 4 }, { "short", "block_start", 2 }, { "short", "block_start", 3 },
    { "short", "sm", 0.75 },      { "short", "sm", 0.5 },        { 0 },
};

const mba_emulated_kernel *mba_emulated_kernel_find(const char *name)
{
    for (const mba_emulated_kernel *k = mba_emulated_kernels; k->name; k++)
        if (!strcmp(k->name, name)) return k;
    return NULL;
}
