// SPDX-License-Identifier: Apache-2.0
/* residual_cpu.c -- residual on the CPU: parts of rows in parallel; a dropped branch is not read. y may share the
 * memory of v, and dv that of dy. */
#include "ops/residual/residual_slots.h"

static float factor_of(const mba_call *c, int slot, int64_t sample)
{
    const float *given = c->in[slot];
    return given ? given[sample] : (float)residual_draw(c->node, c->step, sample);
}

static void join(float *y, const float *x, const float *v, const float *gamma, float f, int64_t C)
{
    if (gamma) {
        MBA_SIMD_LOOP
        for (int64_t i = 0; i < C; i++) y[i] = x[i] + f * gamma[i] * v[i];
    } else {
        MBA_SIMD_LOOP
        for (int64_t i = 0; i < C; i++) y[i] = x[i] + f * v[i];
    }
}

mba_status MBA_CPU_FN(residual_fwd)(const mba_call *c)
{
    const mba_node *n = c->node;
    const int64_t   R = mba_rows(n->in[X]), C = mba_cols(n->in[X]), sample = ((const residual_attr *)n->attr)->rows;
    const mba__rows x = mba__rows_of(n->in[X], c->in[X]), v = mba__rows_of(n->in[BRANCH], c->in[BRANCH]);
    const mba__rows y = mba__rows_of(n->out[Y], c->out[Y]);
    MBA_PARALLEL_FOR(p, mba__parts(R))
    {
        float f = 0;
        for (int64_t r = p * MBA__PART_ROWS; r < mba__part_end(p, R); r++) {
            if (r == p * MBA__PART_ROWS || r % sample == 0) f = factor_of(c, FACTOR, r / sample);
            if (f != 0) join(mba__row(y, r), mba__row(x, r), mba__row(v, r), c->in[GAMMA], f, C);
            else memmove(mba__row(y, r), mba__row(x, r), sizeof(float) * (size_t)C);
        }
    }
    return MBA_OK;
}

typedef struct grads {
    const float *dy, *v, *gamma;
    float       *dv, *dgamma;
    float        f;
    bool         adds;
} grads;

static void scaled(grads g, int64_t C) // without gamma
{
    if (g.adds) {
        MBA_SIMD_LOOP
        for (int64_t i = 0; i < C; i++) g.dv[i] += g.f * g.dy[i];
    } else {
        MBA_SIMD_LOOP
        for (int64_t i = 0; i < C; i++) g.dv[i] = g.f * g.dy[i];
    }
}

static void back_row(grads g, int64_t C)
{
    if (g.f == 0) {
        if (!g.adds) memset(g.dv, 0, sizeof(float) * (size_t)C);
        return;
    }
    if (!g.gamma) {
        scaled(g, C);
        return;
    }
    MBA_SIMD_LOOP
    for (int64_t i = 0; i < C; i++) {
        const float d = g.f * g.dy[i], before = g.adds ? g.dv[i] : 0;
        g.dgamma[i] += d * g.v[i];
        g.dv[i] = before + d * g.gamma[i];
    }
}

mba_status MBA_CPU_FN(residual_bwd)(const mba_call *c)
{
    const mba_node *n = c->node;
    const int64_t   R = mba_rows(n->in[DY]), C = mba_cols(n->in[DY]), sample = ((const residual_attr *)n->attr)->rows;
    const mba__rows dy = mba__rows_of(n->in[DY], c->in[DY]), v = mba__rows_of(n->in[VB], c->in[VB]);
    const mba__rows dv = mba__rows_of(n->out[DV], c->out[DV]);
    float          *part = c->in[GAMMAB] ? mba__scratch(c, 0) : NULL;
    const bool      adds = mba_adds(n, DV);
    MBA_PARALLEL_FOR(p, mba__parts(R))
    {
        float *dgamma = part ? memset(part + p * C, 0, sizeof(float) * (size_t)C) : NULL;
        float  f = 0;
        for (int64_t r = p * MBA__PART_ROWS; r < mba__part_end(p, R); r++) {
            if (r == p * MBA__PART_ROWS || r % sample == 0) f = factor_of(c, FACTORB, r / sample);
            back_row((grads){ mba__row(dy, r), mba__row(v, r), c->in[GAMMAB], mba__row(dv, r), dgamma, f, adds }, C);
        }
    }
    if (part) mba__sum_parts(c->out[DGAMMA], part, mba__parts(R), C, mba_adds(n, DGAMMA));
    return MBA_OK;
}
