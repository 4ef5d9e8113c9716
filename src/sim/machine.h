// SPDX-License-Identifier: Apache-2.0
/* machine.h -- a GPU as a table of numbers: reads machine files, applies --set changes, and gives plans their view.
 *
 *     mba_gpu m;
 *     MBA_TRY(mba_gpu_load(&m, "h200"));                    // a built-in machine, or a path
 *     MBA_TRY(mba_gpu_set(&m, "hbm=x1.5,xu=32"));           // x: a factor
 *     double gbs = m.v[MBA_GPU_hbm];
 *
 * A file has one `key = value unit +- sigma  # source` per line. `include = h200` must come first; it takes all numbers
 * of another machine, built-in or a file at or below the folder of the file that includes it. Every key must be given,
 * by the file or by what it includes, once per file and with its unit. machine_keys.def lists the keys. Reading
 * allocates at most the file and follows at most 8 includes. */
#ifndef MBA_SIM_MACHINE_H
#define MBA_SIM_MACHINE_H

#include <stdbool.h>

#include "core/plan.h"

typedef enum mba_gpu_key {
#define KEY(name, unit, least, most, meaning) MBA_GPU_##name,
#include "sim/machine_keys.def"
#undef KEY
    MBA_GPU_KEYS
} mba_gpu_key;

typedef struct mba_gpu {
    char   name[64];
    bool   built_in, changed;                    /* changed: by mba_gpu_set; its predictions are graded C */
    double v[MBA_GPU_KEYS], sigma[MBA_GPU_KEYS]; /* sigma: one standard deviation, same unit */
    bool   known[MBA_GPU_KEYS];
} mba_gpu;

typedef struct mba_gpu_key_info {
    const char *name, *unit, *meaning;
    double      least, most;
} mba_gpu_key_info;
extern const mba_gpu_key_info mba_gpu_keys[MBA_GPU_KEYS];

/* `name` is a built-in machine (mba_gpu_name), or a path if it has a '/' or ends in ".ini". */
MBA_MUST mba_status mba_gpu_load(mba_gpu *out, const char *name);

/* Parses the text of one file. `where` names it in messages; included files are relative to it. */
MBA_MUST mba_status mba_gpu_parse(mba_gpu *out, const char *where, const char *bytes, size_t n);

/* Applies "key=value,key=xfactor"; a unit may follow the value. NULL is fine. A factor of a count is rounded. A change
 * of the size of L2 scales the half point of its hit curve too, here as in files, unless that is given as well. */
MBA_MUST mba_status mba_gpu_set(mba_gpu *m, const char *changes);

/* The machine as launch plans see it; `name` points into m. */
mba_machine mba_gpu_for_plans(const mba_gpu *m);

const char *mba_gpu_name(int i); /* built-in machine i; NULL past the last */

#endif
