// SPDX-License-Identifier: Apache-2.0
/* gather_rows_slots.h -- what the files of gather_rows share: slots by name and the declarations of variants. */
#ifndef MBA_GATHER_ROWS_SLOTS_H
#define MBA_GATHER_ROWS_SLOTS_H

#include "ops/columns.h"
#include "ops/rows.h"

enum { X, INDEX, INVERSE };
enum { Y };

void gather_rows_ref(const mba_ref_call *c);
MBA_CPU_DECLARE(gather_rows_fwd);
mba_launch_fn gather_rows_cuda;

#endif
