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

/* What decides the clock under load: limit, rest, energies, voltage. */
enum { MBA_GPU_POWERS = 6 };
extern const mba_gpu_key mba_gpu_powers[MBA_GPU_POWERS];

enum { MBA_GPU_CLOCKS = 4 };
extern const mba_gpu_key mba_gpu_clocks[MBA_GPU_CLOCKS]; /* clk, clk_tc, clk_busy, clk_mma */

typedef struct mba_gpu {
    char   name[64];
    bool   built_in, changed;                    /* changed: by mba_gpu_set; its predictions are graded C */
    double v[MBA_GPU_KEYS], sigma[MBA_GPU_KEYS]; /* sigma: one standard deviation, same unit */
    bool   known[MBA_GPU_KEYS];
    bool   card;                    /* its file gives a power limit and no clocks: power sets them (step_power.h) */
    double clocks_on[MBA_GPU_KEYS]; /* the machine on which the clocks hold: of a card the one whose clocks it takes,
                                         otherwise this one with mba_gpu_powers of the file that gives the clocks */
} mba_gpu;

typedef struct mba_gpu_key_info {
    const char *name, *unit, *meaning;
    double      least, most;
} mba_gpu_key_info;
extern const mba_gpu_key_info mba_gpu_keys[MBA_GPU_KEYS];

/* The key of that name, which may be the one it had a release ago (machine_renamed.def); -1: there is none. */
int mba_gpu_key_find(const char *name);

/* "t_blk is now block_start": the old names that this process has used so far; false: none. One line, for people. */
bool mba_gpu_keys_renamed(char *text, size_t space);

/* The name that seeds the draws of a key: the first it had. */
const char *mba_gpu_key_seed(int key);

/* `name` is a machine that comes with the program (mba_gpu_name), or a path if it has a '/' or ends in ".ini". */
MBA_MUST mba_status mba_gpu_load(mba_gpu *out, const char *name);

/* Parses the text of one file. `where` names it in messages; included files are relative to it. */
MBA_MUST mba_status mba_gpu_parse(mba_gpu *out, const char *where, const char *bytes, size_t n);

/* "key=value,key=xfactor"; a unit may stand behind the value. NULL is fine. A factor of what is counted rounds; l2
 * takes l2_half_reuse with it unless that is named too, in files as here. */
MBA_MUST mba_status mba_gpu_set(mba_gpu *m, const char *changes);

/* The machine as launch plans see it; `name` points into m. */
mba_machine mba_gpu_for_plans(const mba_gpu *m);

const char *mba_gpu_name(int i); /* built-in machine i; NULL past the last */

#endif
