// SPDX-License-Identifier: Apache-2.0
/* bce_slots.h -- what the files of bce share: slots by name, attributes and the declarations of variants. */
#ifndef MBA_BCE_SLOTS_H
#define MBA_BCE_SLOTS_H

#include "ops/rows.h"

enum { Z, TARGET };                  /* forward: in, out */
enum { LOSS, SCALE };                /* scale (2): weight of an entry of class 0 and of class 1 */
enum { DLOSS, ZB, TARGETB, SCALEB }; /* backward: in, out */
enum { DZ };

typedef struct bce_attr {
    int64_t weighted;
} bce_attr;

/* Offset of element i of a view. */
static inline int64_t bce_at(const mba_tensor *t, int64_t i)
{
    return i < t->run ? i : i / t->run * t->pitch + i % t->run;
}

static inline int64_t bce_real(const mba_tensor *z, const mba_step *s) /* entries of the valid rows */
{
    return mba__valid_entries(z, s) * (mba_elems(z) / z->type.dim[0]);
}

void bce_ref(const mba_ref_call *c);
void bce_bwd_ref(const mba_ref_call *c);
MBA_CPU_DECLARE(bce_fwd);
MBA_CPU_DECLARE(bce_bwd);
mba_launch_fn bce_cuda, bce_bwd_cuda;

#endif
