// SPDX-License-Identifier: Apache-2.0
/* conv1d_ref.c -- the reference of conv1d: fp64, dense arrays, plain loops. */
#include <math.h>

#include "ops/conv1d/conv1d_slots.h"

/* The input of channel ch at time s of sequence b; NULL if there is none, which counts as 0. */
static const double *input(const mba_ref_call *c, int64_t b, int64_t s, int64_t ch)
{
    const conv1d_dims d = conv1d_dims_of(c->node);
    if (s >= d.L) return NULL;
    if (s >= 0) return &c->in[X][(b * d.L + s) * d.C + ch];
    return c->in[INITIAL] ? &c->in[INITIAL][(b * (d.taps - 1) + s + d.taps - 1) * d.C + ch] : NULL;
}

static double id(const mba_ref_call *c, int64_t b, int64_t t)
{
    return c->in[IDS] ? c->in[IDS][b * conv1d_dims_of(c->node).L + (t < 0 ? 0 : t)] : 0;
}

/* True if the output at time t depends on time s. */
static bool meets(const mba_ref_call *c, int64_t b, int64_t s, int64_t t)
{
    return id(c, b, t) >= 0 && id(c, b, s) == id(c, b, t);
}

static double before_silu(const mba_ref_call *c, int64_t b, int64_t t, int64_t ch)
{
    const conv1d_dims d = conv1d_dims_of(c->node);
    double            a = c->in[BIAS] ? c->in[BIAS][ch] : 0;
    for (int64_t k = 0, s = t - d.past; k < d.taps; k++, s++)
        if (input(c, b, s, ch) && meets(c, b, s, t)) a += c->in[W][ch * d.taps + k] * *input(c, b, s, ch);
    return a;
}

void conv1d_ref(const mba_ref_call *c)
{
    const conv1d_dims d = conv1d_dims_of(c->node);
    const bool        silu = ((const conv1d_attr *)c->node->attr)->silu;
    for (int64_t b = 0; b < d.B; b++)
        for (int64_t ch = 0; ch < d.C; ch++) {
            for (int64_t t = 0; t < d.L; t++) {
                const double a = before_silu(c, b, t, ch);
                c->out[Y][(b * d.L + t) * d.C + ch] = id(c, b, t) < 0 ? 0 : silu ? a / (1 + exp(-a)) : a;
            }
            for (int64_t k = 0; c->out[FINAL] && k < d.taps - 1; k++) {
                const double *x = input(c, b, d.L - (d.taps - 1) + k, ch);
                c->out[FINAL][(b * (d.taps - 1) + k) * d.C + ch] = x ? *x : 0;
            }
        }
}

/* Where the gradient of an input goes; NULL if there is no input. */
static double *input_grad(const mba_ref_call *c, int64_t b, int64_t s, int64_t ch)
{
    const conv1d_dims d = conv1d_dims_of(c->node);
    if (s >= 0) return &c->out[DX][(b * d.L + s) * d.C + ch];
    return c->out[DINITIAL] ? &c->out[DINITIAL][(b * (d.taps - 1) + s + d.taps - 1) * d.C + ch] : NULL;
}

static void bwd_step(const mba_ref_call *c, int64_t b, int64_t t, int64_t ch)
{
    const conv1d_dims d = conv1d_dims_of(c->node);
    const double      a = before_silu(c, b, t, ch), s = 1 / (1 + exp(-a));
    double            g = c->in[DY] && id(c, b, t) >= 0 ? c->in[DY][(b * d.L + t) * d.C + ch] : 0;
    if (((const conv1d_attr *)c->node->attr)->silu) g *= s * (1 + a * (1 - s));
    if (c->out[DBIAS]) c->out[DBIAS][ch] += g;
    for (int64_t k = 0, from = t - d.past; k < d.taps; k++, from++)
        if (input(c, b, from, ch) && meets(c, b, from, t)) {
            c->out[DW][ch * d.taps + k] += g * *input(c, b, from, ch);
            *input_grad(c, b, from, ch) += g * c->in[W][ch * d.taps + k];
        }
}

void conv1d_bwd_ref(const mba_ref_call *c)
{
    const conv1d_dims d = conv1d_dims_of(c->node);
    for (int64_t b = 0; b < d.B; b++)
        for (int64_t ch = 0; ch < d.C; ch++) {
            for (int64_t t = 0; t < d.L; t++) bwd_step(c, b, t, ch);
            for (int64_t k = 0; c->in[DFINAL] && k < d.taps - 1; k++) {
                double *dx = input_grad(c, b, d.L - (d.taps - 1) + k, ch);
                if (dx) *dx += c->in[DFINAL][(b * (d.taps - 1) + k) * d.C + ch];
            }
        }
}
