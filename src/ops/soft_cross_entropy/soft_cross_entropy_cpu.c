// SPDX-License-Identifier: Apache-2.0
/* soft_cross_entropy_cpu.c -- soft_cross_entropy on the CPU: rows in parallel; the losses of rows are added in order,
 * in double. The loops over a row of logits are those of ops/cross_entropy. */
#include "ops/cross_entropy/cross_entropy_rows.h"
#include "ops/soft_cross_entropy/soft_cross_entropy_slots.h"

enum { UNROLL = 4 };

typedef struct row_sums {
    float dot, all;
} row_sums;

/* sum t z and sum t; without t, all weights are 1. */
static row_sums sums_of(const float *t, const float *z, int64_t n)
{
    vf      d[UNROLL] = { { 0 } }, a[UNROLL] = { { 0 } };
    int64_t i = 0;
    for (; i + UNROLL * MBA_LANES <= n; i += UNROLL * MBA_LANES)
        for (int u = 0; u < UNROLL; u++) {
            const vf w = t ? vf_load(t + i + u * MBA_LANES) : vf_set(1);
            d[u] += w * vf_load(z + i + u * MBA_LANES);
            a[u] += w;
        }
    for (; i < n; i += MBA_LANES) {
        const vf w = t ? vf_load_n(t + i, n - i) : vf_set(1);
        d[0] += w * vf_load_n(z + i, n - i);
        a[0] += w;
    }
    return (row_sums){ vf_sum((d[0] + d[1]) + (d[2] + d[3])), vf_sum((a[0] + a[1]) + (a[2] + a[3])) };
}

/* The label of row r; -1 if the row does not count; 0 for soft targets, which all count. */
static int32_t label_of(const mba_tensor *t, const void *target, int64_t r)
{
    if (t->type.dtype != MBA_I32) return 0;
    const int32_t y = ((const int32_t *)target)[ce_at(t, r)];
    return y < 0 ? -1 : y;
}

static double scale_of(const mba_step *step, const mba_tensor *t, const void *target, int64_t M)
{
    int64_t valid = 0;
    for (int64_t r = 0; r < M; r++) valid += label_of(t, target, r) >= 0;
    return soft_ce_scale(step, valid);
}

mba_status MBA_CPU_FN(soft_cross_entropy_fwd)(const mba_call *c)
{
    const mba_node   *n = c->node;
    const mba_tensor *t = n->in[TARGET];
    const int64_t     R = mba_rows(n->in[Z]), V = mba_cols(n->in[Z]), M = mba__valid_rows(n->in[Z], c->step);
    const mba__rows   vz = mba__rows_of(n->in[Z], c->in[Z]), vt = mba__rows_of(t, c->in[TARGET]);
    const double      smoothing = ((const soft_ce_attr *)n->attr)->smoothing;
    const bool        hard = t->type.dtype == MBA_I32;
    float            *lse = c->out[LSE];
    double           *losses = mba__scratch(c, 0), loss = 0;
    MBA_PARALLEL_FOR(r, R)
    {
        const float  *z = mba__row(vz, r);
        const int32_t y = r < M ? label_of(t, c->in[TARGET], r) : -1;
        ce_sum        s = CE_SUM_NONE;
        ce_sum_add(&s, z, V);
        lse[r] = ce_lse(s);
        losses[r] = 0;
        if (y < 0) continue;
        const row_sums k = hard && smoothing == 0 ? (row_sums){ 0 } : sums_of(hard ? NULL : mba__row(vt, r), z, V);
        losses[r] = hard ? (double)lse[r] - (1 - smoothing) * (double)z[y] - smoothing / (double)V * (double)k.dot
                         : (double)k.all * (double)lse[r] - (double)k.dot;
    }
    for (int64_t r = 0; r < M; r++) loss += losses[r];
    *(float *)c->out[LOSS] = (float)(loss * scale_of(c->step, t, c->in[TARGET], M));
    return MBA_OK;
}

static void subtract(float *dz, const float *t, float k, int64_t n) // t: soft targets, or NULL for a constant k
{
    for (int64_t i = 0; i < n; i += MBA_LANES)
        vf_store_n(dz + i, vf_load_n(dz + i, n - i) - (t ? k * vf_load_n(t + i, n - i) : vf_set(k)), n - i);
}

mba_status MBA_CPU_FN(soft_cross_entropy_bwd)(const mba_call *c)
{
    const mba_node   *n = c->node;
    const mba_tensor *t = n->in[TARGETB];
    const int64_t     V = mba_cols(n->in[ZB]), M = mba__valid_rows(n->in[ZB], c->step);
    const mba__rows   vz = mba__rows_of(n->in[ZB], c->in[ZB]), vt = mba__rows_of(t, c->in[TARGETB]);
    const mba__rows   vd = mba__rows_of(n->out[DZ], c->out[DZ]);
    const double      smoothing = ((const soft_ce_attr *)n->attr)->smoothing;
    const float       k = (float)(*(const float *)c->in[DLOSS] * scale_of(c->step, t, c->in[TARGETB], M));
    const float      *lse = c->in[LSEB];
    const bool        adds = mba_adds(n, DZ), hard = t->type.dtype == MBA_I32;
    MBA_PARALLEL_FOR(r, mba_rows(n->in[ZB]))
    {
        const float  *z = mba__row(vz, r), *soft = hard ? NULL : mba__row(vt, r);
        float        *dz = mba__row(vd, r);
        const int32_t y = r < M ? label_of(t, c->in[TARGETB], r) : -1;
        if (y < 0) {
            if (!adds) memset(dz, 0, sizeof(float) * (size_t)V);
            continue;
        }
        ce_gradient(dz, z, V, lse[r], hard ? k : k * sums_of(soft, soft, V).all, adds);
        if (!hard || smoothing > 0) subtract(dz, soft, hard ? k * (float)(smoothing / (double)V) : k, V);
        if (hard) dz[y] -= k * (float)(1 - smoothing);
    }
    return MBA_OK;
}
