// SPDX-License-Identifier: Apache-2.0
/* emulate.h -- predictions of machines that were imitated on a GPU (core/emulate.h): what is said about machines that
 * do not exist is checked where it can be.
 *
 *     mba_emulated_set d;
 *     MBA_TRY(mba_emulated_load(&d, NULL));                    // NULL: what comes with the program
 *     double slower;                                           // time on the imitated machine / on the real one
 *     MBA_TRY(mba_emulation_simulate(&slower, &d.one[0].what, gpu)); */
#ifndef MBA_SIM_EMULATE_H
#define MBA_SIM_EMULATE_H

#include "core/emulate.h"
#include "sim/kernel.h"

/* Time on a machine with the axis changed over time on m. */
MBA_MUST mba_status mba_emulation_simulate(double *slower, const mba_emulation *w, const mba_gpu *m);

/* A measured one: rows of kernel, axis, factor, us, us on the imitated machine. */
typedef struct mba_emulated {
    mba_emulation what; /* points into this row */
    char          kernel[32], axis[16];
    double        us, imitated_us, slower;
} mba_emulated;

enum { MBA_EMULATED_MAX = 64 };
typedef struct mba_emulated_set {
    mba_emulated one[MBA_EMULATED_MAX];
    int          n;
} mba_emulated_set;

MBA_MUST mba_status mba_emulated_parse(mba_emulated_set *out, const char *where, const char *text, size_t bytes);
MBA_MUST mba_status mba_emulated_load(mba_emulated_set *out, const char *path);

#endif
