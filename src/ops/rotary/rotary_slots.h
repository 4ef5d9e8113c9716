/* rotary_slots.h -- what the files of this folder share. */
#ifndef MBA_ROTARY_SLOTS_H
#define MBA_ROTARY_SLOTS_H

#include "core/op.h"

enum { X };
enum { Y };

typedef struct rotary_attr {
    double  base;
    int64_t dims, first;                          /* values that turn; position of row 0 */
    int32_t interleaved, sign;                    /* sign: 1 forward, -1 for the gradient */
} rotary_attr;

enum { ROTARY_TABLE };                            /* scratch: cos and sin (L, dims/2, 2) */

void rotary_ref(const mba_ref_call *c);
MBA_CPU_DECLARE(rotary_fwd);

#endif
