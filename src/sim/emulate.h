// SPDX-License-Identifier: Apache-2.0
/* emulate.h -- predictions for machines that were emulated on a real GPU (core/emulate.h): they validate what the
 * simulator says about machines that do not exist.
 *
 *     mba_emulated_set d;
 *     MBA_TRY(mba_emulated_load(&d, NULL));                    // NULL: the built-in set
 *     double slower;                                           // time on the emulated machine / on the real one
 *     MBA_TRY(mba_emulation_simulate(&slower, &d.one[0].what, gpu)); */
#ifndef MBA_SIM_EMULATE_H
#define MBA_SIM_EMULATE_H

#include "core/emulate.h"
#include "sim/kernel.h"

/* Predicts the time on a machine with the axis changed, divided by the time on m. */
MBA_MUST mba_status mba_emulation_simulate(double *slower, const mba_emulation *w, const mba_gpu *m);

/* A measured emulation. A row of the table is: kernel, axis, factor, us, us on the emulated machine. */
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
