// SPDX-License-Identifier: Apache-2.0
/* ssd_ref.c -- the reference of ssd in fp64: the recurrence of ssd.md, against which every variant is checked. */
#include <math.h>
#include <string.h>

#include "ops/ssd/ssd_slots.h"

/* ---- steps and resets ---- */

static double raw_of(const mba_ref_call *c, const ssd_dims *d, int64_t t, int64_t h)
{
    return c->in[DT][t * d->H + h] + (c->in[DT_BIAS] ? c->in[DT_BIAS][h] : 0);
}

static double softplus(double x) { return x > 20 ? x : log1p(exp(x)); }

static double step_of(const mba_ref_call *c, const ssd_dims *d, int64_t t, int64_t h)
{
    return fmin(fmax(softplus(raw_of(c, d, t, h)), d->dt_min), d->dt_max);
}

/* d step / d raw: 0 where a limit is active. */
static double slope_of(const mba_ref_call *c, const ssd_dims *d, int64_t t, int64_t h)
{
    const double raw = raw_of(c, d, t, h), s = softplus(raw);
    return s < d->dt_min || s > d->dt_max ? 0 : raw > 20 ? 1 : 1 / (1 + exp(-raw));
}

static double skip_of(const mba_ref_call *c, const ssd_dims *d, int64_t h, int64_t p)
{
    return d->C == 0 ? 0 : c->in[SKIP][d->C == 1 ? h : h * d->P + p];
}

/* t counts tokens of all sequences; the first token of a sequence is never a reset. */
static bool reset_at(const mba_ref_call *c, const ssd_dims *d, int64_t t)
{
    return c->in[IDS] && t % d->L && c->in[IDS][t] != c->in[IDS][t - 1];
}

/* Adds the gradients of dt, dt_bias and A_log of one step. ddA: gradient of the log decay; dstep: of the explicit
 * step. */
static void step_gradient(const mba_ref_call *c, const ssd_dims *d, int64_t t, int64_t h, double ddA, double dstep)
{
    const double A = -exp(c->in[A_LOG][h]), draw = (A * ddA + dstep) * slope_of(c, d, t, h);
    c->out[DDT][t * d->H + h] = draw;
    if (c->out[DDT_BIAS]) c->out[DDT_BIAS][h] += draw;
    c->out[DA_LOG][h] += ddA * step_of(c, d, t, h) * A;
}

static void skip_gradient(const mba_ref_call *c, const ssd_dims *d, int64_t t, int64_t h)
{
    for (int64_t p = 0; p < d->P && d->C; p++) {
        const int64_t i = (t * d->H + h) * d->P + p;
        c->out[DSKIP][d->C == 1 ? h : h * d->P + p] += c->in[DY] ? c->in[DY][i] * c->in[X][i] : 0;
    }
}

/* ---- the recurrence ---- */

/* The states of one head: (L+1, P, N), the one before each token and the last. Behind them in the call's space is that
 * of one more, the gradient of a state. */
static int64_t states_elems(const ssd_dims *d) { return (d->L + 1) * d->P * d->N; }

int64_t ssd_ref_space(const mba_node *n)
{
    const ssd_dims d = ssd_dims_of(n);
    return states_elems(&d) + d.P * d.N;
}

static const double *states_of(const mba_ref_call *c, const ssd_dims *d, int64_t b, int64_t h)
{
    const int64_t PN = d->P * d->N;
    double       *s = c->space;
    memset(s, 0, sizeof *s * (size_t)PN);
    if (c->in[INITIAL]) memcpy(s, c->in[INITIAL] + (b * d->H + h) * PN, sizeof *s * (size_t)PN);
    for (int64_t l = 0; l < d->L; l++, s += PN) {
        const int64_t t = b * d->L + l;
        const double  step = step_of(c, d, t, h), keep = reset_at(c, d, t) ? 0 : exp(-exp(c->in[A_LOG][h]) * step);
        const double *x = c->in[X] + (t * d->H + h) * d->P, *B = c->in[BM] + (t * d->G + h / d->J) * d->N;
        for (int64_t p = 0; p < d->P; p++)
            for (int64_t n = 0, i = p * d->N; n < d->N; n++, i++) s[PN + i] = keep * s[i] + step * x[p] * B[n];
    }
    return s - d->L * PN;
}

void ssd_ref(const mba_ref_call *c)
{
    const ssd_dims d = ssd_dims_of(c->node);
    const int64_t  PN = d.P * d.N;
    for (int64_t bh = 0; bh < d.B * d.H; bh++) {
        const int64_t b = bh / d.H, h = bh % d.H;
        const double *s = states_of(c, &d, b, h);
        for (int64_t l = 0; l < d.L; l++)
            for (int64_t p = 0; p < d.P; p++) {
                const int64_t t = b * d.L + l, i = (t * d.H + h) * d.P + p;
                double        y = skip_of(c, &d, h, p) * c->in[X][i];
                for (int64_t n = 0; n < d.N; n++)
                    y += s[(l + 1) * PN + p * d.N + n] * c->in[CM][(t * d.G + h / d.J) * d.N + n];
                c->out[Y][i] = y;
            }
        if (c->out[FINAL]) memcpy(c->out[FINAL] + bh * PN, s + d.L * PN, sizeof *s * (size_t)PN);
    }
}

/* One token backwards: lam is the gradient of the state after it, and becomes that of the state before it. */
static void token_backward(const mba_ref_call *c, const ssd_dims *d, int64_t t, int64_t h, const double *before,
                           double *lam)
{
    const int64_t N = d->N, xi = (t * d->H + h) * d->P, bi = (t * d->G + h / d->J) * N;
    const double *after = before + d->P * N, *B = c->in[BM] + bi, *C = c->in[CM] + bi;
    const double  step = step_of(c, d, t, h), keep = reset_at(c, d, t) ? 0 : exp(-exp(c->in[A_LOG][h]) * step);
    double        ddA = 0, dstep = 0;
    for (int64_t p = 0; p < d->P; p++) {
        const double x = c->in[X][xi + p], dy = c->in[DY] ? c->in[DY][xi + p] : 0;
        double       through = 0; // <lam, B>: what x_p feeds
        for (int64_t n = 0; n < N; n++) {
            double *g = &lam[p * N + n];
            *g += dy * C[n];
            c->out[DCM][bi + n] += dy * after[p * N + n];
            c->out[DBM][bi + n] += step * x * *g;
            through += *g * B[n];
            ddA += keep * before[p * N + n] * *g;
            *g *= keep;
        }
        c->out[DX][xi + p] = step * through + skip_of(c, d, h, p) * dy;
        dstep += through * x;
    }
    skip_gradient(c, d, t, h);
    step_gradient(c, d, t, h, ddA, dstep);
}

void ssd_bwd_ref(const mba_ref_call *c)
{
    const ssd_dims d = ssd_dims_of(c->node);
    const int64_t  PN = d.P * d.N;
    double        *lam = c->space + states_elems(&d);
    for (int64_t bh = 0; bh < d.B * d.H; bh++) {
        const double *s = states_of(c, &d, bh / d.H, bh % d.H);
        for (int64_t i = 0; i < PN; i++) lam[i] = c->in[DFINAL] ? c->in[DFINAL][bh * PN + i] : 0;
        for (int64_t l = d.L - 1; l >= 0; l--) token_backward(c, &d, bh / d.H * d.L + l, bh % d.H, s + l * PN, lam);
        if (c->out[DINITIAL]) memcpy(c->out[DINITIAL] + bh * PN, lam, sizeof *lam * (size_t)PN);
    }
}
