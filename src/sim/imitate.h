/* imitate.h -- predictions of machines that were imitated on a GPU (core/imitate.h): what is said about machines that
 * do not exist is checked where it can be.
 *
 *     mba_imitated_set d;
 *     MBA_TRY(mba_imitated_load(&d, NULL));                    // NULL: what comes with the program
 *     double slower;                                           // time on the imitated machine over that on the real one
 *     MBA_TRY(mba_imitation_simulate(&slower, &d.one[0].what, gpu)); */
#ifndef MBA_SIM_IMITATE_H
#define MBA_SIM_IMITATE_H

#include "core/imitate.h"
#include "sim/kernel.h"

/* Time on a machine with the axis changed over time on m. */
MBA_MUST mba_status mba_imitation_simulate(double *slower, const mba_imitation *w, const mba_gpu *m);

/* A measured one: rows of kernel, axis, factor, us, us on the imitated machine. */
typedef struct mba_imitated {
    mba_imitation what; /* points into this row */
    char          kernel[32], axis[16];
    double        us, imitated_us, slower;
} mba_imitated;

typedef struct mba_imitated_set {
    mba_imitated one[64];
    int          n;
} mba_imitated_set;

MBA_MUST mba_status mba_imitated_parse(mba_imitated_set *out, const char *where, const char *text, size_t bytes);
MBA_MUST mba_status mba_imitated_load(mba_imitated_set *out, const char *path);

#endif
