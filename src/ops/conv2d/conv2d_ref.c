// SPDX-License-Identifier: Apache-2.0
/* conv2d_ref.c -- the reference of conv2d: fp64, dense arrays, plain loops. */
#include "ops/conv2d/conv2d_slots.h"

/* One product of the sum: output (b, p, q, co), input (b, y, x, ci), tap (i, j). */
typedef struct term {
    int64_t y, x, w;
} term;

/* Calls `use` for every product whose input is inside the image. */
static void each_term(const mba_ref_call *c, void (*use)(const mba_ref_call *, term))
{
    const conv2d_dims d = conv2d_dims_of(c->node);
    for (int64_t out = 0; out < d.B * d.Ho * d.Wo * d.Co; out++) {
        const int64_t at = out / d.Co, co = out % d.Co, q = at % d.Wo, p = at / d.Wo % d.Ho, b = at / d.Wo / d.Ho;
        for (int64_t i = 0; i < d.kh; i++)
            for (int64_t j = 0; j < d.kw; j++) {
                const int64_t y = d.stride * p + i - d.pad, x = d.stride * q + j - d.pad;
                if (y < 0 || y >= d.H || x < 0 || x >= d.W) continue;
                for (int64_t ci = 0; ci < d.Ci; ci++)
                    use(c, (term){ .y = out,
                                   .x = ((b * d.H + y) * d.W + x) * d.Ci + ci,
                                   .w = ((co * d.Ci + ci) * d.kh + i) * d.kw + j });
            }
    }
}

static void forward(const mba_ref_call *c, term t) { c->out[Y][t.y] += c->in[W][t.w] * c->in[X][t.x]; }

static void backward(const mba_ref_call *c, term t)
{
    c->out[DW][t.w] += c->in[DY][t.y] * c->in[X][t.x];
    if (c->out[DX]) c->out[DX][t.x] += c->in[DY][t.y] * c->in[W][t.w];
}

void conv2d_ref(const mba_ref_call *c)
{
    const conv2d_dims d = conv2d_dims_of(c->node);
    for (int64_t i = 0; i < d.B * d.Ho * d.Wo * d.Co; i++) c->out[Y][i] = c->in[BIAS] ? c->in[BIAS][i % d.Co] : 0;
    each_term(c, forward);
}

void conv2d_bwd_ref(const mba_ref_call *c)
{
    const conv2d_dims d = conv2d_dims_of(c->node);
    for (int64_t i = 0; c->out[DBIAS] && i < d.B * d.Ho * d.Wo * d.Co; i++) c->out[DBIAS][i % d.Co] += c->in[DY][i];
    each_term(c, backward);
}
