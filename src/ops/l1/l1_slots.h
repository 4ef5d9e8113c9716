// SPDX-License-Identifier: Apache-2.0
/* l1_slots.h -- what the files of l1 share: slots by name and the declarations of variants. */
#ifndef MBA_L1_SLOTS_H
#define MBA_L1_SLOTS_H

#include "ops/rows.h"

enum { Y, TARGET };                  /* forward: in, out */
enum { LOSS, SCALE };                /* scale (1): one over the number of targets */
enum { DLOSS, YB, TARGETB, SCALEB }; /* backward: in, out */
enum { DY };

/* Offset of element i of a view. */
static inline int64_t l1_at(const mba_tensor *t, int64_t i)
{
    return i < t->run ? i : i / t->run * t->pitch + i % t->run;
}

static inline int64_t l1_real(const mba_tensor *y, const mba_step *s) /* entries of the valid rows */
{
    return mba__valid_entries(y, s) * (mba_elems(y) / y->type.dim[0]);
}

void l1_ref(const mba_ref_call *c);
void l1_bwd_ref(const mba_ref_call *c);
MBA_CPU_DECLARE(l1_fwd);
MBA_CPU_DECLARE(l1_bwd);
mba_launch_fn l1_cuda, l1_bwd_cuda;

#endif
