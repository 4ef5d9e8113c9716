// SPDX-License-Identifier: Apache-2.0
/* accumulate_slots.h -- what the files of accumulate share: slots by name and the declarations of variants. */
#ifndef MBA_ACCUMULATE_SLOTS_H
#define MBA_ACCUMULATE_SLOTS_H

#include "core/op.h"

enum { X };
enum { Y };

void accumulate_ref(const mba_ref_call *c);
MBA_CPU_DECLARE(accumulate_fwd);
mba_launch_fn accumulate_cuda;

#endif
