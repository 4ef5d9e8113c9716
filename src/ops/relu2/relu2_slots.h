// SPDX-License-Identifier: Apache-2.0
/* relu2_slots.h -- what the files of relu2 share: slots by name and the declarations of variants. */
#ifndef MBA_RELU2_SLOTS_H
#define MBA_RELU2_SLOTS_H

#include "core/op.h"

enum { X }; /* forward: in, out */
enum { Y };
enum { DY, XB }; /* backward: in, out */
enum { DX };

void relu2_ref(const mba_ref_call *c);
void relu2_bwd_ref(const mba_ref_call *c);
MBA_CPU_DECLARE(relu2_fwd);
MBA_CPU_DECLARE(relu2_bwd);
mba_launch_fn relu2_cuda, relu2_bwd_cuda;

#endif
