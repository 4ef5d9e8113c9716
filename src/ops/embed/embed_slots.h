// SPDX-License-Identifier: Apache-2.0
/* embed_slots.h -- what the files of embed share: slots by name, attributes, scratch and the declarations of
 * variants. */
#ifndef MBA_EMBED_SLOTS_H
#define MBA_EMBED_SLOTS_H

#include "ops/vec_access.h"

enum { TOKEN, TABLE }; /* forward: in, out */
enum { Y };
enum { TOKENB, DY }; /* backward: in, out */
enum { DTABLE };
typedef struct embed_attr {
    int64_t   padding;
    mba_dtype out;
} embed_attr; /* padding: the padding token, or -1 */
typedef struct embed_bwd_attr {
    int64_t  padding;
    mba_type table;
} embed_bwd_attr;

/* Offset of element i of a view. Tokens may be columns of a wider batch. */
static inline int64_t embed_at(const mba_tensor *t, int64_t i)
{
    return i < t->run ? i : i / t->run * t->pitch + i % t->run; // dense: no division
}

/* CUDA. A vector has four values, which are 16 bytes of the wider type. A chunk is the part of the sorted order that
 * one block of the backward pass sums. A range is the part of the vocabulary that one block sorts; its rows stay in
 * shared memory if there are at most EMBED_KEPT. A block that writes zeros has EMBED_CLEAR rows: 16 bytes of flags say
 * which of them are used. */
enum {
    EMBED_THREADS = 256,
    EMBED_DEPTH = 2,
    EMBED_WIDTH = 4,
    EMBED_CHUNK = 32,
    EMBED_SORT_THREADS = 1024,
    EMBED_SPAN_MAX = 512,
    EMBED_KEPT = 3072,
    EMBED_PREFETCH_BYTES = 20 << 20,
    EMBED_CLEAR = 16
};
enum { EMBED_ORDER, EMBED_VALUE, EMBED_MINE, EMBED_HEAD, EMBED_TAIL, EMBED_MET }; /* scratch of the backward pass */

static inline int embed_width(const mba_node *n)
{
    return mba__vec_aligned(n->in[TABLE], EMBED_WIDTH) && mba__vec_aligned(n->out[Y], EMBED_WIDTH) ? EMBED_WIDTH : 1;
}

static inline int embed_bwd_width(const mba_node *n)
{
    return mba__vec_aligned(n->in[DY], EMBED_WIDTH) && mba__vec_aligned(n->out[DTABLE], EMBED_WIDTH) ? EMBED_WIDTH : 1;
}

void embed_ref(const mba_ref_call *c);
void embed_bwd_ref(const mba_ref_call *c);
MBA_CPU_DECLARE(embed_fwd);
MBA_CPU_DECLARE(embed_bwd);
mba_launch_fn embed_cuda, embed_bwd_cuda;

#endif
