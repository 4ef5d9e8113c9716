// SPDX-License-Identifier: Apache-2.0
/* cast_cpu.c -- cast on the CPU: element by element, between fp32 and bf16. */
#include "ops/cast/cast_slots.h"

static inline int64_t where(const mba_tensor *t, int64_t i) { return i / t->run * t->pitch + i % t->run; }

static inline float value(const mba_tensor *t, const void *x, int64_t i)
{
    return t->type.dtype == MBA_BF16 ? mba_from_bf16(((const uint16_t *)x)[where(t, i)])
                                     : ((const float *)x)[where(t, i)];
}

mba_status MBA_CPU_FN(cast_fwd)(const mba_call *c)
{
    const mba_tensor *x = c->node->in[X], *y = c->node->out[Y];
    const bool        adds = mba_adds(c->node, Y);
    MBA_PARALLEL_FOR(i, mba_elems(x))
    {
        const float v = value(x, c->in[X], i) + (adds ? value(y, c->out[Y], i) : 0);
        if (y->type.dtype == MBA_BF16) ((uint16_t *)c->out[Y])[where(y, i)] = mba_to_bf16(v);
        else ((float *)c->out[Y])[where(y, i)] = v;
    }
    return MBA_OK;
}
