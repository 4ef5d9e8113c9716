// SPDX-License-Identifier: Apache-2.0
/* fill_slots.h -- what the files of fill share: slots by name and the declarations of variants. */
#ifndef MBA_FILL_SLOTS_H
#define MBA_FILL_SLOTS_H

#include "core/op.h"

enum { Y };

void fill_ref(const mba_ref_call *c);
MBA_CPU_DECLARE(fill_fwd);
mba_launch_fn fill_cuda;

#endif
