// SPDX-License-Identifier: Apache-2.0
/* ema_cpu.c -- ema on the CPU: blocks in parallel. The form e + (1 - decay) (p - e) has a rounding error relative to
 * the change, and none where p equals e. */
#include "ops/ema/ema_slots.h"

enum { BLOCK = 16384 };

mba_status MBA_CPU_FN(ema_fwd)(const mba_call *c)
{
    const int64_t elems = mba_elems(c->node->in[P]);
    const float   k = (float)(1 - ((const ema_attr *)c->node->attr)->decay);
    MBA_PARALLEL_FOR(b, mba_ceil(elems, BLOCK))
    {
        const float  *p = (const float *)c->in[P] + b * BLOCK;
        float        *e = (float *)c->out[EO] + b * BLOCK;
        const int64_t n = (b + 1) * BLOCK < elems ? BLOCK : elems - b * BLOCK;
        MBA_SIMD_LOOP
        for (int64_t i = 0; i < n; i++) e[i] += k * (p[i] - e[i]);
    }
    return MBA_OK;
}
