// SPDX-License-Identifier: Apache-2.0
/* cast_slots.h -- what the files of cast share: slots by name, attributes and the declarations of variants. */
#ifndef MBA_CAST_SLOTS_H
#define MBA_CAST_SLOTS_H

#include "core/op.h"

enum { X }; /* in */
enum { Y }; /* out */

typedef struct cast_attr {
    mba_dtype to;
} cast_attr;

void cast_ref(const mba_ref_call *c);
MBA_CPU_DECLARE(cast_fwd);
mba_launch_fn cast_cuda;

#endif
