// SPDX-License-Identifier: Apache-2.0
/* gelu_slots.h -- what the files of gelu share: slots by name, attributes and the declarations of variants. */
#ifndef MBA_GELU_SLOTS_H
#define MBA_GELU_SLOTS_H

#include "ops/rows.h"

enum { X }; /* forward: in, out */
enum { Y };
enum { DY, XB }; /* backward: in, out */
enum { DX };

typedef struct gelu_attr {
    int64_t tanh_form;
} gelu_attr;
#define GELU_CUBE 0.044715
#define GELU_ROOT 0.79788456080286535588 /* sqrt(2 / pi) */

void gelu_ref(const mba_ref_call *c);
void gelu_bwd_ref(const mba_ref_call *c);
MBA_CPU_DECLARE(gelu_fwd);
MBA_CPU_DECLARE(gelu_bwd);
mba_launch_fn gelu_cuda, gelu_bwd_cuda;

#endif
