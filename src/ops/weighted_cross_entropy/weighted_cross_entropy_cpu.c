// SPDX-License-Identifier: Apache-2.0
/* weighted_cross_entropy_cpu.c -- weighted_cross_entropy on the CPU: rows in parallel; counts and losses are added in
 * order. */
#include "ops/cross_entropy/cross_entropy_rows.h"
#include "ops/weighted_cross_entropy/weighted_cross_entropy_slots.h"

/* weight[v] = (n - n_v) / sum of that over the rows. Counts of rows are exact in a float (below 2^24). */
static void class_weights(float *weight, const mba_tensor *t, const int32_t *target, int64_t R, int64_t V)
{
    double n = 0, sum = 0;
    memset(weight, 0, sizeof(float) * (size_t)V);
    for (int64_t r = 0; r < R; r++)
        if (target[ce_at(t, r)] >= 0) {
            weight[target[ce_at(t, r)]]++;
            n++;
        }
    for (int64_t v = 0; v < V; v++) sum += (double)weight[v] * (n - (double)weight[v]);
    for (int64_t v = 0; v < V; v++) weight[v] = weight[v] > 0 && sum > 0 ? (float)((n - (double)weight[v]) / sum) : 0;
}

mba_status MBA_CPU_FN(weighted_cross_entropy_fwd)(const mba_call *c)
{
    const mba_tensor *z = c->node->in[Z], *t = c->node->in[TARGET];
    const mba__rows   logits = mba__rows_of(z, c->in[Z]);
    const int64_t     all = mba_rows(z), R = mba__valid_entries(z, c->step), V = mba_cols(z);
    const int32_t    *target = c->in[TARGET];
    float            *lse = c->out[LSE], *weight = c->out[WEIGHT];
    double            loss = 0;
    class_weights(weight, t, target, R, V);
    MBA_PARALLEL_FOR(r, R)
    {
        ce_sum s = CE_SUM_NONE;
        ce_sum_add(&s, mba__row(logits, r), V);
        lse[r] = ce_lse(s);
    }
    for (int64_t r = R; r < all; r++) lse[r] = 0;
    for (int64_t r = 0; r < R; r++) {
        const int32_t y = target[ce_at(t, r)];
        if (y >= 0) loss += (double)weight[y] * ((double)lse[r] - (double)mba__row(logits, r)[y]);
    }
    *(float *)c->out[LOSS] = (float)loss;
    return MBA_OK;
}

mba_status MBA_CPU_FN(weighted_cross_entropy_bwd)(const mba_call *c)
{
    const mba_node   *n = c->node;
    const mba_tensor *t = n->in[TARGETB];
    const mba__rows   logits = mba__rows_of(n->in[ZB], c->in[ZB]), grad = mba__rows_of(n->out[DZ], c->out[DZ]);
    const int64_t     R = mba__valid_entries(n->in[ZB], c->step), V = logits.cols;
    const int32_t    *target = c->in[TARGETB];
    const float      *lse = c->in[LSEB], *weight = c->in[WEIGHTB], dloss = *(const float *)c->in[DLOSS];
    const bool        adds = mba_adds(n, DZ);
    MBA_PARALLEL_FOR(r, R)
    {
        const int32_t y = target[ce_at(t, r)];
        if (y >= 0) {
            const float k = dloss * weight[y];
            ce_gradient(mba__row(grad, r), mba__row(logits, r), V, lse[r], k, adds);
            mba__row(grad, r)[y] -= k;
        } else if (!adds) {
            mba__zero_rows(grad, r, r + 1);
        }
    }
    if (!adds) mba__zero_rows(grad, R, mba_rows(n->out[DZ]));
    return MBA_OK;
}
