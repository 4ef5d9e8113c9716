// SPDX-License-Identifier: Apache-2.0
/* bias_slots.h -- what the files of bias share: slots by name and the declarations of variants. */
#ifndef MBA_BIAS_SLOTS_H
#define MBA_BIAS_SLOTS_H

#include "ops/columns.h"

enum { X, BIAS }; /* forward: in, out */
enum { Y };
enum { DY }; /* backward: in, out */
enum { DBIAS };
enum { BIAS_PART_ROWS = 128 }; /* rows per partial sum of the backward pass */

void bias_ref(const mba_ref_call *c);
void bias_bwd_ref(const mba_ref_call *c);
MBA_CPU_DECLARE(bias_fwd);
MBA_CPU_DECLARE(bias_bwd);
mba_launch_fn bias_cuda, bias_bwd_cuda;

#endif
