// SPDX-License-Identifier: Apache-2.0
/* lamb_slots.h -- what the files of lamb share: slots by name, attributes, scratch and the declarations of variants. */
#ifndef MBA_LAMB_SLOTS_H
#define MBA_LAMB_SLOTS_H

#include "ops/lamb/lamb.h"
#include "ops/moments.h"
#include "ops/rows.h"

typedef struct lamb_attr {
    mba_lamb_options o;
    int64_t          zero;
} lamb_attr; /* zero: clear the gradients */

/* Factors of a step, in double: 1 - beta^t loses half its digits in float. */
typedef struct lamb_factors {
    bool   skip;
    double clip, lr, unbias1, unbias2; /* unbias: 1 / (1 - beta^t) */
} lamb_factors;
lamb_factors lamb_factors_of(const lamb_attr *a, const mba_step *s, double norm, bool skip);

/* Tensors of a flat group: tensor k is elements lamb_start(p, k) .. lamb_start(p, k + 1)-1, padded with zeros. */
static inline int64_t lamb_tensors(const mba_tensor *p) { return p->st->nstarts; }
static inline int64_t lamb_start(const mba_tensor *p, int64_t k)
{
    return k < p->st->nstarts ? p->st->start[k] : p->st->elems;
}

/* Blocks of values never cross the end of a tensor; they depend only on the graph. */
enum { LAMB_BLOCK = 16384 };
typedef struct lamb_block {
    int64_t from, count, tensor;
    double  pp, uu;
} lamb_block; /* sums of p^2 and update^2 */
int64_t lamb_blocks(const mba_tensor *p);

/* CUDA: scratch, and the number of tensors per launch, whose starts are an argument (at most 4 KB). */
enum { BLOCKS, STRETCH, BLOCK_OF, FACTORS, LAMB_TABLE = 240, LAMB_FACTORS_BYTES = 64 };

void lamb_ref(const mba_ref_call *c);
MBA_CPU_DECLARE(lamb_fwd);
mba_launch_fn lamb_cuda;

#endif
