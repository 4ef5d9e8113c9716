// SPDX-License-Identifier: Apache-2.0
/* lap_encoder_ref.c -- the reference of lap_encoder: fp64, dense arrays, plain loops. */
#include <math.h>

#include "ops/lap_encoder/lap_encoder_slots.h"

typedef struct pair {
    double in[2], hidden[LAP_HIDDEN_MAX];
    bool   there;
} pair;

static pair encode(const mba_ref_call *c, int64_t v, int64_t k)
{
    const int64_t K = mba_cols(c->node->in[PHI]), p = mba_elems(c->node->in[BB]);
    pair q = { .in = { c->in[PHI][v * K + k] * (double)lap_sign(c->node, c->step, k), c->in[LAM][v * K + k] } };
    q.there = !isnan(q.in[0]) && !isnan(q.in[1]);
    for (int64_t m = 0; m < 2 * p; m++)
        q.hidden[m] = fmax(0, c->in[WA][2 * m] * q.in[0] + c->in[WA][2 * m + 1] * q.in[1] + c->in[BA][m]);
    return q;
}

static double before_relu(const mba_ref_call *c, const pair *q, int64_t o)
{
    const int64_t M = mba_cols(c->node->in[WB]);
    double        s = c->in[BB][o];
    for (int64_t m = 0; m < M; m++) s += c->in[WB][o * M + m] * q->hidden[m];
    return s;
}

void lap_encoder_ref(const mba_ref_call *c)
{
    const int64_t N = mba__valid_entries(c->node->in[PHI], c->step), K = mba_cols(c->node->in[PHI]),
                  p = mba_elems(c->node->in[BB]);
    for (int64_t i = 0; i < N * K; i++) {
        const pair q = encode(c, i / K, i % K);
        for (int64_t o = 0; o < p && q.there; o++) c->out[Y][i / K * p + o] += fmax(0, before_relu(c, &q, o));
    }
}

static void add_gradients(const mba_ref_call *c, const pair *q, const double *dy)
{
    const int64_t p = mba_elems(c->node->in[BB]), M = 2 * p;
    for (int64_t o = 0; o < p; o++) {
        if (before_relu(c, q, o) <= 0) continue;
        c->out[DBB][o] += dy[o];
        for (int64_t m = 0; m < M; m++) {
            c->out[DWB][o * M + m] += dy[o] * q->hidden[m];
            if (q->hidden[m] <= 0) continue;
            const double dh = dy[o] * c->in[WB][o * M + m];
            c->out[DBA][m] += dh;
            c->out[DWA][2 * m] += dh * q->in[0];
            c->out[DWA][2 * m + 1] += dh * q->in[1];
        }
    }
}

void lap_encoder_bwd_ref(const mba_ref_call *c)
{
    const int64_t N = mba__valid_entries(c->node->in[PHI], c->step), K = mba_cols(c->node->in[PHI]),
                  p = mba_elems(c->node->in[BB]);
    for (int64_t i = 0; i < N * K; i++) {
        const pair q = encode(c, i / K, i % K);
        if (q.there) add_gradients(c, &q, c->in[DY] + i / K * p);
    }
}
