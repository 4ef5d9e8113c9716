/* selective_scan_strip.h -- sixteen channels of one sequence going forward in time: what both directions of the CPU
 * path do. Lanes are channels; GROUP states of one vector of channels stay in registers while time runs. */
#ifndef MBA_SELECTIVE_SCAN_STRIP_H
#define MBA_SELECTIVE_SCAN_STRIP_H

#include <math.h>
#include <omp.h>
#include <string.h>

#include "device/cpu/simd.h"
#include "ops/rows.h"
#include "ops/selective_scan/selective_scan_slots.h"

enum { VECS = STRIP / MBA_LANES };
static const float LOG2_E = 0x1.715476p0f, LN_2 = 0x1.62e43p-1f;

/* One sequence that holds a ragged batch ends where the batch does; what lies behind it becomes zeros. */
static inline scan_dims real_dims_of(const mba_call *c)
{
    scan_dims d = scan_dims_of(c->node);
    if (c->node->in[U]->type.steps != MBA_ALL) d.L = mba__real_rows(c->node->in[U], c->step);
    return d;
}

static inline void zero_behind(const mba_call *c, int out, scan_dims d)
{
    const mba_tensor *t = c->node->out[out];
    if (!t || mba_adds(c->node, out)) return;
    const int64_t each = mba_rows(t) / (t->type.dim[0] * t->type.dim[1]);
    mba__zero_rows(mba__rows_of(t, c->out[out]), d.B * d.L * each, mba_rows(t));
}

/* Row t of a sequence is at p + t * ld. */
typedef struct rows { float *p; int64_t ld; } rows;

static inline rows rows_of(const mba_tensor *t, void *p, int64_t b, int64_t n_rows, int64_t width)
{
    const int64_t i = b * n_rows * width;
    if (!t) return (rows){ NULL, 0 };
    if (t->run == width) return (rows){ (float *)p + i / width * t->pitch, t->pitch };
    mba_assert(!b || t->run % (n_rows * width) == 0);
    return (rows){ (float *)p + i / t->run * t->pitch + i % t->run, width };
}

typedef struct strip {
    scan_dims d;
    int64_t   b, c, n;                            /* sequence, first channel, number of channels */
    rows      u, delta, z, B, C, ids;             /* at the strip's first channel and group */
    vf        skip[VECS], bias[VECS];
} strip;

static inline rows shifted(rows r, int64_t by) { return (rows){ r.p ? r.p + by : NULL, r.ld }; }

/* Lanes behind the last channel hold zeros. */
MBA_SIMD vf load_lanes(const float *row, int v, int64_t n) { return vf_load_n(row + v * MBA_LANES, n - v * MBA_LANES); }

static inline strip strip_open(const mba_call *call, int64_t b, int64_t group, int64_t first, int64_t n)
{
    const mba_node *o = call->node;
    const scan_dims d = real_dims_of(call);
    const int64_t   c = group * (d.D / d.G) + first;
    strip s = { .d = d, .b = b, .c = c, .n = n };
    s.u     = shifted(rows_of(o->in[U], call->in[U], b, d.L, d.D), c);
    s.delta = shifted(rows_of(o->in[DELTA], call->in[DELTA], b, d.L, d.D), c);
    s.z     = shifted(rows_of(o->in[Z], call->in[Z], b, d.L, d.D), c);
    s.B     = shifted(rows_of(o->in[BM], call->in[BM], b, d.L, d.G * d.N), group * d.N);
    s.C     = shifted(rows_of(o->in[CM], call->in[CM], b, d.L, d.G * d.N), group * d.N);
    s.ids   = rows_of(o->in[IDS], call->in[IDS], b, d.L, 1);
    for (int v = 0; v < VECS && v * MBA_LANES < n; v++) {
        s.skip[v] = o->in[SKIP] ? load_lanes((float *)call->in[SKIP] + c, v, n) : vf_set(0);
        s.bias[v] = o->in[DT_BIAS] ? load_lanes((float *)call->in[DT_BIAS] + c, v, n) : vf_set(0);
    }
    return s;
}

/* A log2 e, [N][STRIP]: exp(dt A) becomes exp2 of one product. */
static inline void read_A(const strip *s, const mba_call *call, float *A2)
{
    const rows a = rows_of(call->node->in[A_LOG], call->in[A_LOG], 0, s->d.D, s->d.N);
    for (int64_t k = 0; k < s->d.N; k++)
        for (int64_t j = 0; j < STRIP; j++)
            A2[k * STRIP + j] = j < s->n ? -expf(a.p[(s->c + j) * a.ld + k]) * LOG2_E : 0;
}

/* A state (B, D, N) to and from [N][STRIP]. */
static inline void read_state(const strip *s, const mba_tensor *t, void *p, float *h)
{
    const rows r = rows_of(t, p, s->b, s->d.D, s->d.N);
    for (int64_t k = 0; k < s->d.N; k++)
        for (int64_t j = 0; j < STRIP; j++) h[k * STRIP + j] = r.p && j < s->n ? r.p[(s->c + j) * r.ld + k] : 0;
}

static inline void write_state(const strip *s, const mba_tensor *t, void *p, const float *h, bool adds)
{
    const rows r = rows_of(t, p, s->b, s->d.D, s->d.N);
    for (int64_t j = 0; j < s->n && r.p; j++)
        for (int64_t k = 0; k < s->d.N; k++) {
            float *to = r.p + (s->c + j) * r.ld + k;
            *to = h[k * STRIP + j] + (adds ? *to : 0);
        }
}

/* True where a document begins: the state before it is not its own. Token 0 goes on from the initial state. */
static inline bool starts_document(const strip *s, int64_t t)
{
    const float *p = s->ids.p + t * s->ids.ld;
    return s->ids.p && t > 0 && memcmp(p, p - s->ids.ld, sizeof *p) != 0;
}

/* The first step behind t that begins a document, or `end`. */
static inline int64_t run_end(const strip *s, int64_t t, int64_t end)
{
    if (!s->ids.p) return end;
    for (t++; t < end && !starts_document(s, t);) t++;
    return t;
}

/* Steps t0 .. t0 + T - 1; arrays are [VECS][T][MBA_LANES]: a vector of channels goes through lines of its own. */
typedef struct span { int64_t t0, T; float *dt, *x, *y; } span;
MBA_SIMD int64_t span_at(const span *q, int64_t t, int v) { return (v * q->T + t) * MBA_LANES; }

/* Step sizes dt, their products x with u, and y begun with D u, for n channels. */
MBA_SIMD void begin_channels(const strip *s, const span *q, const int64_t n)
{
    for (int64_t t = 0; t < q->T; t++) {
        const float *u_row = s->u.p + (q->t0 + t) * s->u.ld, *delta_row = s->delta.p + (q->t0 + t) * s->delta.ld;
        for (int v = 0; v * MBA_LANES < n; v++) {
            const vf u = load_lanes(u_row, v, n), dt = vf_softplus(load_lanes(delta_row, v, n) + s->bias[v]);
            const int64_t i = span_at(q, t, v);
            vf_store(q->dt + i, dt);
            vf_store(q->x + i, dt * u);
            vf_store(q->y + i, s->skip[v] * u);
        }
    }
}

static inline void begin_span(const strip *s, const span *q)
{
    if (s->n == STRIP) begin_channels(s, q, STRIP);                        // the compiler sees whole vectors
    else               begin_channels(s, q, s->n);
}

/* K states from k on of vector v, through the span; h [N][STRIP] is the state before and after. */
MBA_SIMD void advance_states(const int K, const strip *s, const span *q, int v, int64_t k, const float *A2, float *h_at)
{
    const int64_t ldB = s->B.ld, ldC = s->C.ld, T = q->T;
    const float  *B = s->B.p + q->t0 * ldB + k, *C = s->C.p + q->t0 * ldC + k;
    const float  *dt = q->dt + span_at(q, 0, v), *x = q->x + span_at(q, 0, v);
    float        *y = q->y + span_at(q, 0, v);
    vf A[GROUP], h[GROUP], a[GROUP];
    for (int j = 0; j < K; j++) A[j] = vf_load(A2 + (k + j) * STRIP + v * MBA_LANES);
    for (int j = 0; j < K; j++) h[j] = vf_load(h_at + (k + j) * STRIP + v * MBA_LANES);
    int64_t t = 0;
    do {
        const int64_t end = run_end(s, q->t0 + t, q->t0 + T) - q->t0;
        if (starts_document(s, q->t0 + t))
            for (int j = 0; j < K; j++) h[j] = vf_set(0);
        do {
            const vf step = vf_load(dt), in = vf_load(x);
            vf sum = vf_load(y);
            for (int j = 0; j < K; j++) a[j] = vf_exp2_neg(step * A[j]);
            for (int j = 0; j < K; j++) {
                h[j] = a[j] * h[j] + in * B[j];
                sum += h[j] * C[j];
            }
            vf_store(y, sum);
            dt += MBA_LANES; x += MBA_LANES; y += MBA_LANES; B += ldB; C += ldC;
        } while (++t < end);
    } while (t < T);
    for (int j = 0; j < K; j++) vf_store(h_at + (k + j) * STRIP + v * MBA_LANES, h[j]);
}

static inline void advance_span(const strip *s, const span *q, const float *A2, float *h)
{
    for (int v = 0; v < VECS && v * MBA_LANES < s->n; v++) {
        int64_t k = 0;
        for (; k + GROUP <= s->d.N; k += GROUP) advance_states(GROUP, s, q, v, k, A2, h);
        if (s->d.N - k == 3) advance_states(3, s, q, v, k, A2, h);
        if (s->d.N - k == 2) advance_states(2, s, q, v, k, A2, h);
        if (s->d.N - k == 1) advance_states(1, s, q, v, k, A2, h);
    }
}

/* Work items in any order on at most as many threads as the plan has space for. */
static inline int threads_of(const mba_call *call, size_t thread_floats)
{
    const int planned = (int)(call->plan->scratch[SCRATCH_THREADS].bytes / (sizeof(float) * thread_floats));
    return planned < mba_cpu_threads() ? planned : mba_cpu_threads();
}

#endif
