// SPDX-License-Identifier: Apache-2.0
/* relu_slots.h -- what the files of relu share: slots by name and the declarations of variants. */
#ifndef MBA_RELU_SLOTS_H
#define MBA_RELU_SLOTS_H

#include "ops/rows.h"

enum { X }; /* forward: in, out */
enum { Y };
enum { DY, YB }; /* backward: in, out */
enum { DX };

void relu_ref(const mba_ref_call *c);
void relu_bwd_ref(const mba_ref_call *c);
MBA_CPU_DECLARE(relu_fwd);
MBA_CPU_DECLARE(relu_bwd);
mba_launch_fn relu_cuda, relu_bwd_cuda;

#endif
