/* classes.h -- how far predictions of a kind are off, by what limits them: the band of the next one.
 *
 *     mba_residual r[] = { { "ssd", MBA_SIM_MEMORY, measured / predicted }, .. };
 *     mba_class_bands b;
 *     MBA_TRY(mba_class_bands_of(&b, r, n));
 *     mba_band x = b.of[MBA_SIM_MEMORY].band;             // 80 % of what memory limits took x times what was predicted
 *
 * How well the bands hold is counted on the same residuals, each by a band that its class makes without its family (an
 * operator and its backward): a new operator is one whose like nobody has measured, too. */
#ifndef MBA_SIM_CLASSES_H
#define MBA_SIM_CLASSES_H

#include "sim/counted.h"

typedef struct mba_residual { const char *operator; mba_sim_cause class; double times; } mba_residual;

typedef struct mba_class_bands {
    struct { mba_band band; int points, inside; } of[MBA_SIM_CAUSES];
    int points, inside;                           /* inside: of the band that the others of the class make */
} mba_class_bands;

MBA_MUST mba_status mba_class_bands_of(mba_class_bands *out, const mba_residual *r, int n);

#endif
