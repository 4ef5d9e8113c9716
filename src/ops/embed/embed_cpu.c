// SPDX-License-Identifier: Apache-2.0
/* embed_cpu.c -- embed on the CPU. Forward: rows in parallel. Backward: classes of tokens and blocks of columns in
 * parallel, rows in order, so that each sum over equal tokens has a fixed order and no two threads write the same
 * row. */
#include <string.h>

#include "ops/embed/embed_slots.h"

enum { CLASSES = 8, BLOCK_COLS = 384 }; // see embed.md

mba_status MBA_CPU_FN(embed_fwd)(const mba_call *c)
{
    const mba_node *n = c->node;
    const int64_t   M = mba_cols(n->out[Y]), ld = mba_ld(n->in[TABLE]);
    const int32_t  *token = c->in[TOKEN];
    const float    *table = c->in[TABLE];
    float          *y = c->out[Y];
    MBA_PARALLEL_FOR(r, mba_rows(n->out[Y]))
    {
        const int64_t v = token[embed_at(n->in[TOKEN], r)];
        memcpy(y + embed_at(n->out[Y], r * M), table + v * ld, sizeof(float) * (size_t)M);
    }
    return MBA_OK;
}

/* dtable[token[r], from .. from + cols) += dy[r, same) for the rows whose token belongs to this class, in order. */
static void add_rows(const mba_call *c, int64_t class, int64_t from, int64_t cols)
{
    const mba_node *n = c->node;
    const int64_t   M = mba_cols(n->in[DY]), ld = mba_ld(n->out[DTABLE]);
    const int64_t   padding = ((const embed_bwd_attr *)n->attr)->padding;
    const int32_t  *token = c->in[TOKENB];
    for (int64_t r = 0; r < mba_rows(n->in[DY]); r++) {
        const int64_t v = token[embed_at(n->in[TOKENB], r)];
        if (v % CLASSES != class || v == padding) continue;
        const float *dy = (const float *)c->in[DY] + embed_at(n->in[DY], r * M) + from;
        float       *dt = (float *)c->out[DTABLE] + v * ld + from;
        for (int64_t i = 0; i < cols; i++) dt[i] += dy[i];
    }
}

mba_status MBA_CPU_FN(embed_bwd)(const mba_call *c)
{
    const mba_node *n = c->node;
    const int64_t   M = mba_cols(n->in[DY]), ld = mba_ld(n->out[DTABLE]);
    float          *dt = c->out[DTABLE];
    if (!mba_adds(n, DTABLE))
        MBA_PARALLEL_FOR(v, mba_rows(n->out[DTABLE])) memset(dt + v * ld, 0, sizeof(float) * (size_t)M);
    MBA_PARALLEL_TILES(t, CLASSES * mba_ceil(M, BLOCK_COLS))
    {
        const int64_t from = t / CLASSES * BLOCK_COLS;
        add_rows(c, t % CLASSES, from, from + BLOCK_COLS < M ? BLOCK_COLS : M - from);
    }
    return MBA_OK;
}
