// SPDX-License-Identifier: Apache-2.0
/* ssd_ref.c -- the reference of ssd in fp64: the recurrence of ssd.md, against which every variant is checked, and the
 * chunked form, which proves the equations of ssd.md that the fast variants use. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ops/ssd/ssd_slots.h"

/* ---- shared by both: steps and resets ---- */

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

/* ---- the chunked form ---- */

/* One (chunk, head) under the names of ssd.md. Positions count inside the chunk. */
typedef struct cell {
    const ssd_dims *d;
    int64_t         b, k, h, t0, q;   /* sequence, chunk, head, first token, positions that exist */
    const double   *dt, *cs, *CB, *H; /* (Q), (Q), (Q, Q), (P, N): entering state */
    bool            resets;           /* the entering state does not reach the end */
    int64_t         tail;             /* first source that does */
} cell;

static int64_t first_source(const mba_ref_call *c, const ssd_dims *d, int64_t t0, int64_t l)
{
    for (; l > 0; l--)
        if (reset_at(c, d, t0 + l)) return l;
    return 0;
}

static bool state_reaches(const mba_ref_call *c, const ssd_dims *d, int64_t t0, int64_t l)
{
    return first_source(c, d, t0, l) == 0 && !reset_at(c, d, t0);
}

static cell cell_of(const mba_ref_call *c, const ssd_dims *d, const ssd_parts *p, int64_t b, int64_t k, int64_t h)
{
    const int64_t n = mba_ceil(d->L, d->Q), bhk = (b * d->H + h) * n + k, t0 = b * d->L + k * d->Q;
    const int64_t q = k + 1 < n ? d->Q : d->L - k * d->Q;
    return (cell){ .d = d,
                   .b = b,
                   .k = k,
                   .h = h,
                   .t0 = t0,
                   .q = q,
                   .dt = p->dt + bhk * d->Q,
                   .cs = p->cs + bhk * d->Q,
                   .CB = p->CB + ((b * n + k) * d->G + h / d->J) * d->Q * d->Q,
                   .H = p->H + ((b * n + k) * d->H + h) * d->P * d->N,
                   .resets = !state_reaches(c, d, t0, q - 1),
                   .tail = first_source(c, d, t0, q - 1) };
}

static const double *x_row(const mba_ref_call *c, const cell *e, int64_t l)
{
    return c->in[X] + ((e->t0 + l) * e->d->H + e->h) * e->d->P;
}
static int64_t bc_row(const cell *e, int64_t l) { return ((e->t0 + l) * e->d->G + e->h / e->d->J) * e->d->N; }

/* Decays: from the chunk's start to l, from source s to the chunk's end, across the chunk; 0 across a reset. */
static double decay_in(const mba_ref_call *c, const cell *e, int64_t l)
{
    return state_reaches(c, e->d, e->t0, l) ? exp(e->cs[l]) : 0;
}
static double decay_out(const cell *e, int64_t s) { return s < e->tail ? 0 : exp(e->cs[e->d->Q - 1] - e->cs[s]); }
static double decay_all(const cell *e) { return e->resets ? 0 : exp(e->cs[e->d->Q - 1]); }

static void cumulate_steps(const mba_ref_call *c, const ssd_dims *d, ssd_parts *p)
{
    const int64_t n = mba_ceil(d->L, d->Q);
    for (int64_t i = 0; i < d->B * d->H * n * d->Q; i++) {
        const int64_t l = i % (n * d->Q), h = i / (n * d->Q) % d->H, b = i / (n * d->Q) / d->H;
        p->dt[i] = l < d->L ? step_of(c, d, b * d->L + l, h) : 0;
        p->cs[i] = (l % d->Q ? p->cs[i - 1] : 0) - p->dt[i] * exp(c->in[A_LOG][h]);
    }
}

static void multiply_cb(const mba_ref_call *c, const ssd_dims *d, ssd_parts *p)
{
    const int64_t n = mba_ceil(d->L, d->Q), Q = d->Q;
    for (int64_t i = 0; i < d->B * n * d->G; i++) {
        const int64_t g = i % d->G, k = i / d->G % n, b = i / d->G / n, t0 = b * d->L + k * Q;
        for (int64_t l = 0; l < Q && k * Q + l < d->L; l++)
            for (int64_t s = first_source(c, d, t0, l); s <= l; s++)
                for (int64_t m = 0; m < d->N; m++)
                    p->CB[(i * Q + l) * Q + s] += c->in[CM][((t0 + l) * d->G + g) * d->N + m]
                                                  * c->in[BM][((t0 + s) * d->G + g) * d->N + m];
    }
}

/* Computes the chunk's own contribution S, and the state that leaves it. */
static void pass_state(const mba_ref_call *c, const cell *e, double *S, double *leaving)
{
    const int64_t N = e->d->N;
    for (int64_t s = 0; s < e->q; s++)
        for (int64_t i = 0; i < e->d->P * N; i++)
            S[i] += x_row(c, e, s)[i / N] * c->in[BM][bc_row(e, s) + i % N] * decay_out(e, s) * e->dt[s];
    for (int64_t i = 0; i < e->d->P * N; i++) leaving[i] = decay_all(e) * e->H[i] + S[i];
}

/* All parts come from one allocation. `work` is scratch of the backward pass: dy, the gradient of a state, and the sums
 * of one (chunk, head). */
static int64_t dy_elems(const ssd_dims *d) { return d->B * d->L * d->H * d->P; }
static int64_t cell_elems(const ssd_dims *d) { return d->Q * (5 + d->P); }

static mba_status parts_create(ssd_parts *p, const ssd_dims *d)
{
    const int64_t PN = d->P * d->N, n = mba_ceil(d->L, d->Q);
    const int64_t steps = d->B * d->H * n * d->Q, states = d->B * n * d->H * PN;
    const int64_t sizes[] = {
        steps, steps, states, states, d->B * n * d->G * d->Q * d->Q, d->B * d->H * PN, dy_elems(d) + PN + cell_elems(d)
    };
    double **part[] = { &p->dt, &p->cs, &p->S, &p->H, &p->CB, &p->last, &p->work };
    int64_t  all = 0;
    for (int k = 0; k < 7; k++) all += sizes[k];
    double *memory = calloc((size_t)all, sizeof *memory);
    if (!memory) return mba_fail(MBA_E_NOMEM, "no memory for a reference run");
    for (int k = 0; k < 7; memory += sizes[k++]) *part[k] = memory;
    return MBA_OK;
}

mba_status ssd_parts_of(ssd_parts *out, const mba_ref_call *c)
{
    const ssd_dims d = ssd_dims_of(c->node);
    const int64_t  n = mba_ceil(d.L, d.Q), PN = d.P * d.N;
    ssd_parts      p;
    MBA_TRY(parts_create(&p, &d));
    cumulate_steps(c, &d, &p);
    multiply_cb(c, &d, &p);
    for (int64_t bh = 0; bh < d.B * d.H; bh++) {
        const int64_t b = bh / d.H, h = bh % d.H;
        if (c->in[INITIAL]) memcpy(p.H + (b * n * d.H + h) * PN, c->in[INITIAL] + bh * PN, sizeof(double) * (size_t)PN);
        for (int64_t k = 0; k < n; k++) {
            const cell    e = cell_of(c, &d, &p, b, k, h);
            const int64_t at = ((b * n + k) * d.H + h) * PN;
            pass_state(c, &e, p.S + at, k + 1 < n ? p.H + at + d.H * PN : p.last + bh * PN);
        }
    }
    *out = p;
    return MBA_OK;
}

void ssd_parts_free(ssd_parts *p) { free(p->dt); }

mba_status ssd_chunked_ref(const mba_ref_call *c)
{
    const ssd_dims d = ssd_dims_of(c->node);
    ssd_parts      p;
    MBA_TRY(ssd_parts_of(&p, c));
    for (int64_t i = 0; i < d.B * d.L * d.H * d.P; i++) {
        const int64_t j = i % d.P, h = i / d.P % d.H, t = i / d.P / d.H, l = t % d.L % d.Q;
        const cell    e = cell_of(c, &d, &p, t / d.L, t % d.L / d.Q, h);
        double        y = skip_of(c, &d, h, j) * c->in[X][i];
        for (int64_t n = 0; n < d.N; n++) y += decay_in(c, &e, l) * c->in[CM][bc_row(&e, l) + n] * e.H[j * d.N + n];
        for (int64_t s = 0; s <= l; s++) y += e.CB[l * d.Q + s] * exp(e.cs[l] - e.cs[s]) * e.dt[s] * x_row(c, &e, s)[j];
        c->out[Y][i] = y;
    }
    if (c->out[FINAL]) memcpy(c->out[FINAL], p.last, sizeof *p.last * (size_t)(d.B * d.H * d.P * d.N));
    ssd_parts_free(&p);
    return MBA_OK;
}

/* The gradient equations of ssd.md for one (chunk, head), given the gradient G of the state that leaves it. */
typedef struct adjoint {
    double *col, *row, *r, *q, *dstep, dchunk;
} adjoint;

static void pairs_backward(const mba_ref_call *c, const cell *e, const double *dy, adjoint *a, double *acc)
{
    const int64_t P = e->d->P, N = e->d->N, Q = e->d->Q, stride = e->d->H * P;
    for (int64_t l = 0; l < e->q; l++)
        for (int64_t s = first_source(c, e->d, e->t0, l); s <= l; s++) {
            const double decay = exp(e->cs[l] - e->cs[s]);
            double       z = 0;
            for (int64_t p = 0; p < P; p++) z += dy[l * stride + p] * x_row(c, e, s)[p];
            for (int64_t p = 0; p < P; p++) acc[s * P + p] += e->CB[l * Q + s] * decay * dy[l * stride + p];
            for (int64_t n = 0; n < N; n++) {
                c->out[DBM][bc_row(e, s) + n] += e->dt[s] * decay * z * c->in[CM][bc_row(e, l) + n];
                c->out[DCM][bc_row(e, l) + n] += e->dt[s] * decay * z * c->in[BM][bc_row(e, s) + n];
            }
            a->col[s] += e->dt[s] * e->CB[l * Q + s] * decay * z;
            a->row[l] += e->dt[s] * e->CB[l * Q + s] * decay * z;
        }
}

static void states_backward(const mba_ref_call *c, const cell *e, const double *dy, const double *G, adjoint *a,
                            double *acc)
{
    const int64_t P = e->d->P, N = e->d->N, stride = e->d->H * P;
    for (int64_t i = 0; i < P * N; i++) a->dchunk += decay_all(e) * e->H[i] * G[i];
    for (int64_t l = 0; l < e->q; l++) {
        const double *B = c->in[BM] + bc_row(e, l), *C = c->in[CM] + bc_row(e, l), *x = x_row(c, e, l);
        for (int64_t i = 0; i < P * N; i++) {
            const double dB = e->dt[l] * decay_out(e, l) * x[i / N] * G[i];
            const double dC = decay_in(c, e, l) * dy[l * stride + i / N] * e->H[i];
            acc[l * P + i / N] += decay_out(e, l) * B[i % N] * G[i];
            c->out[DBM][bc_row(e, l) + i % N] += dB;
            c->out[DCM][bc_row(e, l) + i % N] += dC;
            a->r[l] += dB * B[i % N];
            a->q[l] += dC * C[i % N];
        }
    }
}

static void cell_backward(const mba_ref_call *c, const cell *e, const double *dy, double *G, double *work)
{
    const int64_t P = e->d->P, N = e->d->N, Q = e->d->Q, stride = e->d->H * P;
    double       *acc = work + 5 * Q, diag = 0, next = 0, prev = 0;
    adjoint       a = { work, work + Q, work + 2 * Q, work + 3 * Q, work + 4 * Q, 0 };
    memset(work, 0, sizeof *work * (size_t)cell_elems(e->d));
    pairs_backward(c, e, dy, &a, acc);
    states_backward(c, e, dy, G, &a, acc);
    for (int64_t l = 0; l < e->q; l++) prev += a.q[l];
    for (int64_t l = 0; l < e->q; l++) {
        const double *x = x_row(c, e, l);
        for (int64_t p = 0; p < P; p++) {
            a.dstep[l] += acc[l * P + p] * x[p];
            c->out[DX][((e->t0 + l) * e->d->H + e->h) * P + p] = e->dt[l] * acc[l * P + p]
                                                                 + skip_of(c, e->d, e->h, p) * dy[l * stride + p];
        }
        skip_gradient(c, e->d, e->t0 + l, e->h);
        step_gradient(c, e->d, e->t0 + l, e->h, diag + next + prev + a.dchunk, a.dstep[l]);
        diag += a.col[l] - a.row[l]; // ddA of ssd.md: sum over j < l
        next += a.r[l];
        prev -= a.q[l];
    }
    for (int64_t i = 0; i < P * N; i++) {
        G[i] *= decay_all(e);
        for (int64_t l = 0; l < e->q; l++)
            G[i] += dy[l * stride + i / N] * decay_in(c, e, l) * c->in[CM][bc_row(e, l) + i % N];
    }
}

mba_status ssd_bwd_chunked_ref(const mba_ref_call *c)
{
    const ssd_dims d = ssd_dims_of(c->node);
    const int64_t  n = mba_ceil(d.L, d.Q), PN = d.P * d.N;
    ssd_parts      p;
    MBA_TRY(ssd_parts_of(&p, c));
    double *dy = p.work, *G = dy + dy_elems(&d);
    if (c->in[DY]) memcpy(dy, c->in[DY], sizeof *dy * (size_t)dy_elems(&d));
    for (int64_t bh = 0; bh < d.B * d.H; bh++) {
        for (int64_t i = 0; i < PN; i++) G[i] = c->in[DFINAL] ? c->in[DFINAL][bh * PN + i] : 0;
        for (int64_t k = n - 1; k >= 0; k--) {
            const cell e = cell_of(c, &d, &p, bh / d.H, k, bh % d.H);
            cell_backward(c, &e, dy + (e.t0 * d.H + e.h) * d.P, G, G + PN);
        }
        if (c->out[DINITIAL]) memcpy(c->out[DINITIAL] + bh * PN, G, sizeof *G * (size_t)PN);
    }
    ssd_parts_free(&p);
    return MBA_OK;
}
