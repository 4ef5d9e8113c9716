// SPDX-License-Identifier: Apache-2.0
/* adamw_slots.h -- what the files of adamw share: slots by name, attributes and the declarations of variants. */
#ifndef MBA_ADAMW_SLOTS_H
#define MBA_ADAMW_SLOTS_H

#include "ops/adamw/adamw.h"
#include "ops/moments.h"

typedef struct adamw_attr {
    mba_adamw_options o;
    int64_t           zero;
} adamw_attr; /* zero: clear the gradients */

/* Factors of a step, in double: 1 - beta^t loses half its digits in float. */
typedef struct adamw_factors {
    bool   skip;
    double clip, lr, unbias1, unbias2; /* unbias: 1 / (1 - beta^t) */
} adamw_factors;
adamw_factors adamw_factors_of(const adamw_attr *a, const mba_step *s, double norm, bool skip);

void adamw_ref(const mba_ref_call *c);
MBA_CPU_DECLARE(adamw_fwd);
mba_launch_fn adamw_cuda;
enum { ADAMW_BLOCK = 256, ADAMW_VALUES = 4 }; /* threads per CUDA block, values per thread and trip */

#endif
