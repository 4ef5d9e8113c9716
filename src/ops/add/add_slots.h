// SPDX-License-Identifier: Apache-2.0
/* add_slots.h -- what the files of add share: slots by name and the declarations of variants. */
#ifndef MBA_ADD_SLOTS_H
#define MBA_ADD_SLOTS_H

#include "core/op.h"

enum { A, B };
enum { Y };

void add_ref(const mba_ref_call *c);
MBA_CPU_DECLARE(add_fwd);
mba_launch_fn add_cuda;

#endif
