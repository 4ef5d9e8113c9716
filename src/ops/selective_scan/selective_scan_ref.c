// SPDX-License-Identifier: Apache-2.0
/* selective_scan_ref.c -- the reference of selective_scan: fp64, one channel at a time, all states stored. */
#include <math.h>

#include "ops/selective_scan/selective_scan_slots.h"

/* One channel of one sequence. A is computed once, because exponentials take most of the reference's time. */
typedef struct channel {
    const mba_ref_call *c;
    scan_dims           d;
    int64_t             b, j, g;
    const double       *A;
} channel;

static channel channel_at(const mba_ref_call *c, scan_dims d, int64_t i, double *A)
{
    const int64_t j = i % d.D;
    for (int64_t k = 0; k < d.N; k++) A[k] = -exp(c->in[A_LOG][j * d.N + k]);
    return (channel){ c, d, i / d.D, j, j / (d.D / d.G), A };
}

static int64_t at_u(const channel *h, int64_t t) { return (h->b * h->d.L + t) * h->d.D + h->j; }
static int64_t at_bc(const channel *h, int64_t t, int64_t k)
{
    return ((h->b * h->d.L + t) * h->d.G + h->g) * h->d.N + k;
}
static int64_t at_state(const channel *h, int64_t k) { return (h->b * h->d.D + h->j) * h->d.N + k; }

static double sigmoid(double t) { return 1 / (1 + exp(-t)); }

/* delta + dt_bias, the argument of softplus. */
static double raw_step(const channel *h, int64_t t)
{
    return h->c->in[DELTA][at_u(h, t)] + (h->c->in[DT_BIAS] ? h->c->in[DT_BIAS][h->j] : 0);
}

static double step_size(const channel *h, int64_t t)
{
    const double p = raw_step(h, t);
    return p > 20 ? p : log1p(exp(p));
}

static bool reset(const channel *h, int64_t t)
{
    const double *ids = h->c->in[IDS] ? h->c->in[IDS] + h->b * h->d.L : NULL;
    return ids && t > 0 && ids[t] != ids[t - 1];
}

static double decay(const channel *h, int64_t t, double dt, int64_t k) { return reset(h, t) ? 0 : exp(dt * h->A[k]); }

static double initial(const channel *h, int64_t k) { return h->c->in[INITIAL] ? h->c->in[INITIAL][at_state(h, k)] : 0; }

static double gate(const channel *h, int64_t t)
{
    if (!h->c->in[Z]) return 1;
    const double z = h->c->in[Z][at_u(h, t)];
    return z * sigmoid(z);
}

/* state[t][k] = h_t,k for all t, and y_t. */
static void run_channel(const channel *h, double *state, double *y)
{
    const int64_t N = h->d.N;
    for (int64_t t = 0; t < h->d.L; t++) {
        const double u = h->c->in[U][at_u(h, t)], dt = step_size(h, t);
        y[t] = h->c->in[SKIP] ? h->c->in[SKIP][h->j] * u : 0;
        for (int64_t k = 0; k < N; k++) {
            const double before = t ? state[(t - 1) * N + k] : initial(h, k);
            state[t * N + k] = decay(h, t, dt, k) * before + dt * u * h->c->in[BM][at_bc(h, t, k)];
            y[t] += h->c->in[CM][at_bc(h, t, k)] * state[t * N + k];
        }
    }
}

/* Scratch of a channel: its states, y before the gate, A and, in the backward pass, the gradient of a state. */
typedef struct room {
    double *state, *y, *A, *lam;
} room;

static room room_of(const mba_ref_call *c, scan_dims d)
{
    double *s = c->space;
    return (room){ .state = s, .y = s + d.L * d.N, .A = s + d.L * d.N + d.L, .lam = s + d.L * d.N + d.L + d.N };
}

int64_t selective_scan_ref_space(const mba_node *n)
{
    const scan_dims d = scan_dims_of(n);
    return d.L * d.N + d.L + 2 * d.N;
}

/* Saves for the backward pass: the state before every SAVE_EVERY tokens of its pack, and y before the gate. */
static void keep(const channel *h, const double *state, const double *y)
{
    const mba_tensor *kept = h->c->node->out[KEPT];
    for (int64_t t = 0; t < h->d.L && h->c->out[YS]; t++) h->c->out[YS][at_u(h, t)] = y[t];
    for (int64_t t = 0; t < h->d.L && kept; t++) {
        const int64_t pack = mba_ceil(h->d.B, kept->type.dim[0]), at = h->b % pack * h->d.L + t;
        double *to = h->c->out[KEPT] + ((h->b / pack * kept->type.dim[1] + at / SAVE_EVERY) * h->d.D + h->j) * h->d.N;
        for (int64_t k = 0; k < h->d.N && at % SAVE_EVERY == 0; k++)
            to[k] = t ? state[(t - 1) * h->d.N + k] : initial(h, k);
    }
}

/* Saves for the backward pass of the CPU: the state before each segment but the first. */
static void keep_starts(const channel *h, const double *state)
{
    const mba_tensor *starts = h->c->node->out[STARTS];
    for (int64_t i = 1; i < scan_segments(h->d) && starts; i++) {
        double *to = h->c->out[STARTS] + ((h->b * starts->type.dim[1] + i - 1) * h->d.D + h->j) * h->d.N;
        for (int64_t k = 0; k < h->d.N; k++) to[k] = state[(i * SEGMENT - 1) * h->d.N + k];
    }
}

void selective_scan_ref(const mba_ref_call *c)
{
    const scan_dims d = scan_dims_of(c->node);
    const room      w = room_of(c, d);
    for (int64_t i = 0; i < d.B * d.D; i++) {
        const channel h = channel_at(c, d, i, w.A);
        run_channel(&h, w.state, w.y);
        keep(&h, w.state, w.y);
        keep_starts(&h, w.state);
        for (int64_t t = 0; t < d.L; t++) c->out[OUT][at_u(&h, t)] = w.y[t] * gate(&h, t);
        for (int64_t k = 0; k < d.N && c->out[FINAL]; k++)
            c->out[FINAL][at_state(&h, k)] = w.state[(d.L - 1) * d.N + k];
    }
}

static void add(double *x, int64_t i, double v)
{
    if (x) x[i] += v;
}

/* One adjoint step of a channel: lam[k] is a_{t+1,k} lam_{t+1,k} on entry and a_t,k lam_t,k on exit. */
static void step_back(const channel *h, int64_t t, double dy, const double *state, double *lam)
{
    const mba_ref_call *c = h->c;
    const double        u = c->in[U][at_u(h, t)], dt = step_size(h, t), p = raw_step(h, t);
    double              ddt = 0;
    for (int64_t k = 0; k < h->d.N; k++) {
        const double before = t ? state[(t - 1) * h->d.N + k] : initial(h, k);
        const double a = decay(h, t, dt, k), A = h->A[k], B = c->in[BM][at_bc(h, t, k)];
        lam[k] += c->in[CM][at_bc(h, t, k)] * dy;
        add(c->out[DC], at_bc(h, t, k), dy * state[t * h->d.N + k]);
        add(c->out[DB], at_bc(h, t, k), lam[k] * dt * u);
        add(c->out[DU], at_u(h, t), lam[k] * dt * B);
        ddt += lam[k] * (u * B + A * a * before);
        add(c->out[DA_LOG], h->j * h->d.N + k, lam[k] * dt * a * before * A);
        lam[k] *= a;
    }
    const double ddelta = ddt * (p > 20 ? 1 : sigmoid(p));
    add(c->out[DDELTA], at_u(h, t), ddelta);
    add(c->out[DDT_BIAS], h->j, ddelta);
}

static void channel_back(const channel *h, const double *state, const double *y, double *lam)
{
    const mba_ref_call *c = h->c;
    for (int64_t k = 0; k < h->d.N; k++) lam[k] = c->in[DFINAL] ? c->in[DFINAL][at_state(h, k)] : 0;
    for (int64_t t = h->d.L - 1; t >= 0; t--) {
        const double dout = c->in[DOUT] ? c->in[DOUT][at_u(h, t)] : 0, dy = dout * gate(h, t);
        const double u = c->in[U][at_u(h, t)], z = c->in[Z] ? c->in[Z][at_u(h, t)] : 0;
        add(c->out[DZ], at_u(h, t), dout * y[t] * sigmoid(z) * (1 + z * (1 - sigmoid(z))));
        add(c->out[DSKIP], h->j, dy * u);
        add(c->out[DU], at_u(h, t), c->in[SKIP] ? c->in[SKIP][h->j] * dy : 0);
        step_back(h, t, dy, state, lam);
    }
    for (int64_t k = 0; k < h->d.N; k++) add(c->out[DINITIAL], at_state(h, k), lam[k]);
}

void selective_scan_bwd_ref(const mba_ref_call *c)
{
    const scan_dims d = scan_dims_of(c->node);
    const room      w = room_of(c, d);
    for (int64_t i = 0; i < d.B * d.D; i++) {
        const channel h = channel_at(c, d, i, w.A);
        run_channel(&h, w.state, w.y);
        channel_back(&h, w.state, w.y, w.lam);
    }
}
