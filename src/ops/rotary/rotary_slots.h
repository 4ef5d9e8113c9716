// SPDX-License-Identifier: Apache-2.0
/* rotary_slots.h -- what the files of rotary share: slots by name, attributes, scratch and the declarations of
 * variants. */
#ifndef MBA_ROTARY_SLOTS_H
#define MBA_ROTARY_SLOTS_H

#include "core/op.h"
#include "ops/heads.h"

enum { X };
enum { Y };

typedef struct rotary_attr {
    double  base;
    int64_t dims, first;       /* values that are rotated; position of row 0 */
    int32_t interleaved, sign; /* sign: 1 forward, -1 for the gradient */
} rotary_attr;

enum { ROTARY_TABLE };         /* scratch: cos and sin (L, 2, dims/2) */
enum { ROTARY_THREADS = 256 }; /* per CUDA block */

/* Pairs per CUDA thread: 16 bytes of each half, or one pair. */
static inline int rotary_width(const mba_node *n)
{
    const rotary_attr *a = (const rotary_attr *)n->attr;
    const int64_t      W = 16 / (int64_t)mba_dtype_bytes(n->in[0]->type.dtype);
    bool               whole = !a->interleaved && a->dims / 2 % W == 0;
    for (int k = 0; k < 2; k++) {
        const mba_tensor *t = k ? n->out[0] : n->in[0];
        mba_heads         h;
        if (!mba_heads_of(&h, t)) return 1;
        whole &= t->offset % W == 0 && h.P % W == 0 && h.head % W == 0 && h.row % W == 0 && h.batch % W == 0;
    }
    return whole ? (int)W : 1;
}

void rotary_ref(const mba_ref_call *c);
MBA_CPU_DECLARE(rotary_fwd);
mba_launch_fn rotary_cuda;

#endif
