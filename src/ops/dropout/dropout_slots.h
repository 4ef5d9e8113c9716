// SPDX-License-Identifier: Apache-2.0
/* dropout_slots.h -- what the files of dropout share: slots by name, attributes and the declarations of variants. */
#ifndef MBA_DROPOUT_SLOTS_H
#define MBA_DROPOUT_SLOTS_H

#include "ops/rows.h"

enum { X };
enum { Y };

typedef struct dropout_attr {
    float p;
} dropout_attr;

void dropout_ref(const mba_ref_call *c);
MBA_CPU_DECLARE(dropout_fwd);
mba_launch_fn dropout_cuda;

#endif
