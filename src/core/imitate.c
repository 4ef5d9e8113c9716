/* imitate.c -- see imitate.h. */
#include "core/imitate.h"

#include <string.h>

#define MB ((int64_t)1 << 20)
const mba_imitated_kernel mba_imitated_kernels[] = {
    {.name = "copy", .bytes = 256 * MB, .passes = 1, .threads = 256, .blocks_sm = 8, .pieces = 2, .stores = true},
    {.name      = "special",
     .bytes     = 64 * MB,
     .passes    = 1,
     .threads   = 256,
     .blocks_sm = 8,
     .pieces    = 2,
     .special   = 16,
     .fma       = 16,
     .stores    = true},
    {.name      = "mixed",
     .bytes     = 128 * MB,
     .passes    = 1,
     .threads   = 256,
     .blocks_sm = 8,
     .pieces    = 2,
     .special   = 6,
     .fma       = 6,
     .stores    = true},
    {.name = "reread", .bytes = 32 * MB, .passes = 8, .threads = 512, .blocks_sm = 2, .pieces = 4},
    {.name = "short", .bytes = 64 * MB, .passes = 1, .threads = 128, .blocks_sm = 4, .pieces = 2, .stores = true},
    {0},
};

const mba_imitation mba_imitations[] = {
    {"special", "xu", 2 / 3.0}, {"special", "xu", 0.5}, {"mixed", "xu", 2 / 3.0},
    {"mixed", "xu", 0.5},       {"copy", "sm", 0.75},   {"copy", "sm", 0.5},
    {"special", "sm", 0.75},    {"special", "sm", 0.5}, {"reread", "sm", 0.75},
    {"reread", "l2", 0.75},     {"reread", "l2", 0.5},  {"copy", "rf", 0.5},
    {"copy", "rf", 0.25},       {"special", "rf", 0.5}, {"special", "rf", 0.25},
    {"copy", "t_blk", 4},       {"short", "t_blk", 2},  {"short", "t_blk", 3},
    {"short", "sm", 0.75},      {"short", "sm", 0.5},   {0},
};

const mba_imitated_kernel *mba_imitated_kernel_find(const char *name)
{
    for (const mba_imitated_kernel *k = mba_imitated_kernels; k->name; k++)
        if (!strcmp(k->name, name)) return k;
    return NULL;
}
