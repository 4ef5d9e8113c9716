// SPDX-License-Identifier: Apache-2.0
/* linear_cross_entropy_cpu.c -- linear_cross_entropy on the CPU: blocks of rows, in an order that depends only on the
 * shape.
 *
 * A product (device/cpu/gemm.h) computes the logits of a block. A loop over its rows computes the loss and replaces the
 * logits by their gradient, which two more products use. Each step is parallel; blocks follow one another. */
#include <string.h>

#include "device/cpu/gemm.h"
#include "ops/cross_entropy/cross_entropy_rows.h"
#include "ops/linear_cross_entropy/linear_cross_entropy_slots.h"

/* Rows r .. r + m - 1 of x, and their logits. */
typedef struct block {
    int64_t r, m, V, pitch;
    float  *z;
    double *each;
} block;

/* z = x w^T */
static void logits(const mba_call *c, const block *b)
{
    const mba_tensor *x = c->node->in[X], *w = c->node->in[W];
    mba_gemm(&(mba_gemm_args){ .m = b->m,
                               .n = b->V,
                               .k = mba_cols(x),
                               .tb = true,
                               .a = (const float *)c->in[X] + b->r * mba_ld(x),
                               .lda = mba_ld(x),
                               .b = c->in[W],
                               .ldb = mba_ld(w),
                               .c = b->z,
                               .ldc = b->pitch });
}

/* Computes the loss of every row. With `gradient` it replaces logits by their gradient: k (softmax - 1[target]), 0 if
 * the target is ignored. */
static void pass(const mba_call *c, const block *b, bool gradient, float k)
{
    const int32_t *target = c->in[TARGET];
    MBA_PARALLEL_FOR(i, b->m)
    {
        float        *z = b->z + i * b->pitch;
        const int64_t y = target[ce_at(c->node->in[TARGET], b->r + i)];
        b->each[i] = 0;
        if (y >= 0) {
            ce_sum s = CE_SUM_NONE;
            ce_sum_add(&s, z, b->V);
            const float lse = ce_lse(s);
            b->each[i] = (double)lse - (double)z[y];
            if (gradient) {
                ce_gradient(z, z, b->V, lse, k, false);
                z[y] -= k;
            }
        } else if (gradient) {
            memset(z, 0, sizeof(float) * (size_t)b->V);
        }
    }
}

/* dx (rows of the block) = dz w */
static void make_dx(const mba_call *c, const block *b)
{
    const mba_tensor *w = c->node->in[W], *dx = c->node->out[DX];
    mba_gemm(&(mba_gemm_args){ .m = b->m,
                               .n = mba_cols(w),
                               .k = b->V,
                               .adds = mba_adds(c->node, DX),
                               .a = b->z,
                               .lda = b->pitch,
                               .b = c->in[W],
                               .ldb = mba_ld(w),
                               .c = (float *)c->out[DX] + b->r * mba_ld(dx),
                               .ldc = mba_ld(dx) });
}

/* dw = dz^T x, summed over the blocks */
static void add_dw(const mba_call *c, const block *b)
{
    const mba_tensor *x = c->node->in[X], *dw = c->node->out[DW];
    mba_gemm(&(mba_gemm_args){ .m = b->V,
                               .n = mba_cols(x),
                               .k = b->m,
                               .ta = true,
                               .adds = b->r > 0 || mba_adds(c->node, DW),
                               .a = b->z,
                               .lda = b->pitch,
                               .b = (const float *)c->in[X] + b->r * mba_ld(x),
                               .ldb = mba_ld(x),
                               .c = c->out[DW],
                               .ldc = mba_ld(dw) });
}

mba_status MBA_CPU_FN(lce)(const mba_call *c)
{
    MBA_TRY(mba_gemm_ready());
    const mba_node *n = c->node;
    const int64_t   R = mba_rows(n->in[X]), V = mba_rows(n->in[W]);
    const double    scale = ce_scale(c->step, n->in[TARGET], c->in[TARGET]);
    const float     k = n->in[DLOSS] ? (float)(*(const float *)c->in[DLOSS] * scale) : 0;
    block           b = { .V = V,
                          .pitch = V + LCE_PAD,
                          .z = (float *)(void *)(c->work + c->plan->scratch[LOGITS].offset),
                          .each = (double *)(void *)(c->work + c->plan->scratch[ROWS].offset) };
    double          loss = 0;
    for (; b.r < R; b.r += LCE_ROWS) {
        b.m = R - b.r < LCE_ROWS ? R - b.r : LCE_ROWS;
        logits(c, &b);
        pass(c, &b, n->out[DX] || n->out[DW], k);
        for (int64_t i = 0; i < b.m; i++) loss += b.each[i];
        if (n->out[DX]) make_dx(c, &b);
        if (n->out[DW]) add_dw(c, &b);
    }
    *(float *)c->out[LOSS] = (float)(loss * scale);
    return MBA_OK;
}
