// SPDX-License-Identifier: Apache-2.0
/* swiglu_slots.h -- what the files of swiglu share: slots by name and the declarations of variants. */
#ifndef MBA_SWIGLU_SLOTS_H
#define MBA_SWIGLU_SLOTS_H

#include "ops/rows.h"

enum { VALUE, GATE, DY }; /* in; the last only backward */
enum { Y };               /* forward: out */
enum { DVALUE, DGATE };   /* backward: out */

void swiglu_ref(const mba_ref_call *c);
void swiglu_bwd_ref(const mba_ref_call *c);
MBA_CPU_DECLARE(swiglu_fwd);
MBA_CPU_DECLARE(swiglu_bwd);
mba_launch_fn swiglu_cuda, swiglu_bwd_cuda;

#endif
