/* linear_cross_entropy_cpu.c -- tile by tile: rows of x by rows of w, in an order that only the shape decides.
 *
 * Inside a tile the products (device/cpu/gemm.h) and the loops over its rows are parallel; tiles follow one
 * another. A tile of logits stays in the outer cache from the product that makes it to those that use it. */
#include <string.h>

#include "device/cpu/gemm.h"
#include "ops/cross_entropy/cross_entropy_rows.h"
#include "ops/linear_cross_entropy/linear_cross_entropy_slots.h"

/* Rows r .. r + m of x, columns v .. v + n of the logits. */
typedef struct tile { int64_t r, m, v, n, pitch; float *z; } tile;

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

static tile tile_at(const mba_call *c, int64_t r, int64_t R, int64_t v, int64_t V)
{
    float *z = (float *)(void *)(c->work + c->plan->scratch[TILE].offset);
    return (tile){ .r = r, .m = least(LCE_ROWS, R - r), .v = v, .n = least(LCE_COLS, V - v),
                   .pitch = least(LCE_COLS, V) + LCE_PAD, .z = z };
}

/* z = x w^T */
static void logits(const tile *t, const float *x, int64_t ldx, const float *w, int64_t ldw, int64_t M)
{
    mba_gemm(&(mba_gemm_args){ .m = t->m, .n = t->n, .k = M, .tb = true, .a = x + t->r * ldx, .lda = ldx,
                               .b = w + t->v * ldw, .ldb = ldw, .c = t->z, .ldc = t->pitch });
}

/* Takes the tile into the sums of its rows, and picks the logit of the target where it is in here. */
static void reduce(const tile *t, ce_sum *sum, float *picked, const mba_tensor *tt, const int32_t *target)
{
    MBA_PARALLEL_FOR(i, t->m) {
        const float  *z = t->z + i * t->pitch;
        const int64_t y = target[ce_at(tt, t->r + i)] - t->v;
        ce_sum_add(&sum[i], z, t->n);
        if (y >= 0 && y < t->n) picked[i] = z[y];
    }
}

mba_status MBA_CPU_FN(lce_fwd)(const mba_call *c)
{
    const mba_tensor *x = c->node->in[X], *w = c->node->in[W], *tt = c->node->in[TARGET];
    const int64_t     R = mba_rows(x), V = mba_rows(w);
    const int32_t    *target = c->in[TARGET];
    ce_sum           *sum = (ce_sum *)(void *)(c->work + c->plan->scratch[SUMS].offset);
    float            *picked = (float *)(void *)(c->work + c->plan->scratch[PICKED].offset), *lse = c->out[LSE];
    double            loss = 0;
    for (int64_t r = 0; r < R; r += LCE_ROWS) {
        const int64_t m = least(LCE_ROWS, R - r);
        for (int64_t i = 0; i < m; i++) sum[i] = CE_SUM_NONE;
        for (int64_t v = 0; v < V; v += LCE_COLS) {
            const tile t = tile_at(c, r, R, v, V);
            logits(&t, c->in[X], mba_ld(x), c->in[W], mba_ld(w), mba_cols(x));
            reduce(&t, sum, picked, tt, target);
        }
        for (int64_t i = 0; i < m; i++) {
            lse[r + i] = ce_lse(sum[i]);
            if (target[ce_at(tt, r + i)] >= 0) loss += (double)lse[r + i] - (double)picked[i];
        }
    }
    *(float *)c->out[LOSS] = (float)(loss * ce_scale(c->step, tt, target));
    return MBA_OK;
}

/* Logits become their gradient: k (softmax - 1[target]), 0 where the target is ignored. */
static void differentiate(const tile *t, const float *lse, float k, const mba_tensor *tt, const int32_t *target)
{
    MBA_PARALLEL_FOR(i, t->m) {
        float        *z = t->z + i * t->pitch;
        const int64_t y = target[ce_at(tt, t->r + i)];
        if (y < 0) {
            memset(z, 0, sizeof(float) * (size_t)t->n);
        } else {
            ce_gradient(z, z, t->n, lse[t->r + i], k, false);
            if (y >= t->v && y < t->v + t->n) z[y - t->v] -= k;
        }
    }
}

/* dx (rows of the tile) = dz w, to be added up over all v */
static void add_dx(const mba_call *c, const tile *t)
{
    const mba_tensor *w = c->node->in[WB], *dx = c->node->out[DX];
    mba_gemm(&(mba_gemm_args){ .m = t->m, .n = mba_cols(w), .k = t->n, .adds = t->v > 0 || mba_adds(c->node, DX),
                               .a = t->z, .lda = t->pitch,
                               .b = (const float *)c->in[WB] + t->v * mba_ld(w), .ldb = mba_ld(w),
                               .c = (float *)c->out[DX] + t->r * mba_ld(dx), .ldc = mba_ld(dx) });
}

/* dw (columns of the tile) = dz^T x, to be added up over all r */
static void add_dw(const mba_call *c, const tile *t)
{
    const mba_tensor *x = c->node->in[XB], *dw = c->node->out[DW];
    mba_gemm(&(mba_gemm_args){ .m = t->n, .n = mba_cols(x), .k = t->m, .ta = true,
                               .adds = t->r > 0 || mba_adds(c->node, DW), .a = t->z, .lda = t->pitch,
                               .b = (const float *)c->in[XB] + t->r * mba_ld(x), .ldb = mba_ld(x),
                               .c = (float *)c->out[DW] + t->v * mba_ld(dw), .ldc = mba_ld(dw) });
}

mba_status MBA_CPU_FN(lce_bwd)(const mba_call *c)
{
    const mba_node   *n = c->node;
    const mba_tensor *x = n->in[XB], *w = n->in[WB], *tt = n->in[TARGETB];
    const int64_t     R = mba_rows(x), V = mba_rows(w);
    const float       k = (float)(*(const float *)c->in[DLOSS] * ce_scale(c->step, tt, c->in[TARGETB]));
    for (int64_t r = 0; r < R; r += LCE_ROWS)
        for (int64_t v = 0; v < V; v += LCE_COLS) {
            const tile t = tile_at(c, r, R, v, V);
            logits(&t, c->in[XB], mba_ld(x), c->in[WB], mba_ld(w), mba_cols(x));
            differentiate(&t, c->in[LSEB], k, tt, c->in[TARGETB]);
            if (n->out[DX]) add_dx(c, &t);
            if (n->out[DW]) add_dw(c, &t);
        }
    return MBA_OK;
}
