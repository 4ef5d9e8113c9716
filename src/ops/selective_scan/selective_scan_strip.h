// SPDX-License-Identifier: Apache-2.0
/* selective_scan_strip.h -- what the forward and backward pass of selective_scan on the CPU share: a strip (adjacent
 * channels of one sequence, the work item) and its segments of time. Vector lanes are channels. */
#ifndef MBA_SELECTIVE_SCAN_STRIP_H
#define MBA_SELECTIVE_SCAN_STRIP_H

#include <omp.h>
#include <string.h>

#include "device/cpu/simd.h"
#include "ops/rows.h"
#include "ops/selective_scan/selective_scan_lines.h"

enum { VECS = STRIP / MBA_LANES };
static const float LOG2_E = 0x1.715476p0f;

/* A ragged batch is one sequence that ends where the batch ends; rows after it become zeros. */
static inline scan_dims real_dims_of(const mba_call *c)
{
    scan_dims d = scan_dims_of(c->node);
    if (c->node->in[U]->type.steps != MBA_ALL) d.L = mba__valid_rows(c->node->in[U], c->step);
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
typedef struct rows {
    float  *p;
    int64_t ld;
} rows;

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
    int64_t   b, c, n;                /* sequence, first channel, number of channels (<= STRIP) */
    int       vecs;                   /* vectors per row */
    rows      u, delta, z, B, C, ids; /* at the strip's first channel and group */
    vf        skip[VECS], bias[VECS];
} strip;

static inline rows shifted(rows r, int64_t by) { return (rows){ r.p ? r.p + by : NULL, r.ld }; }

/* Vector v of a row. Lanes beyond the last channel are zero. whole: there are none. */
MBA_SIMD vf load_lanes(const strip *s, const float *row, int v, const bool whole)
{
    return whole ? vf_load(row + v * MBA_LANES) : vf_load_n(row + v * MBA_LANES, s->n - v * MBA_LANES);
}

MBA_SIMD void store_lanes(const strip *s, float *row, int v, const bool whole, vf x)
{
    if (whole) vf_store(row + v * MBA_LANES, x);
    else vf_store_n(row + v * MBA_LANES, x, s->n - v * MBA_LANES);
}

static inline bool is_whole(const strip *s) { return s->n % MBA_LANES == 0; }

/* Work item i of both passes: strips of a group, groups of a sequence, sequences. */
static inline strip strip_open(const mba_call *call, int64_t i)
{
    const mba_node *o = call->node;
    const scan_dims d = real_dims_of(call);
    const int64_t   width = d.D / d.G, first = i % scan_strips(d) * scan_strip(d), rest = width - first;
    const int64_t   group = i / scan_strips(d) % d.G, b = i / scan_strips(d) / d.G, c = group * width + first;
    strip           s = { .d = d, .b = b, .c = c, .n = rest < scan_strip(d) ? rest : scan_strip(d) };
    s.vecs = (int)mba_ceil(s.n, MBA_LANES);
    s.u = shifted(rows_of(o->in[U], call->in[U], b, d.L, d.D), c);
    s.delta = shifted(rows_of(o->in[DELTA], call->in[DELTA], b, d.L, d.D), c);
    s.z = shifted(rows_of(o->in[Z], call->in[Z], b, d.L, d.D), c);
    s.B = shifted(rows_of(o->in[BM], call->in[BM], b, d.L, d.G * d.N), group * d.N);
    s.C = shifted(rows_of(o->in[CM], call->in[CM], b, d.L, d.G * d.N), group * d.N);
    s.ids = rows_of(o->in[IDS], call->in[IDS], b, d.L, 1);
    for (int v = 0; v < s.vecs; v++) {
        s.skip[v] = o->in[SKIP] ? load_lanes(&s, (float *)call->in[SKIP] + c, v, false) : vf_set(0);
        s.bias[v] = o->in[DT_BIAS] ? load_lanes(&s, (float *)call->in[DT_BIAS] + c, v, false) : vf_set(0);
    }
    return s;
}

/* Copies row `first` of the leading axes of a tensor (.., D, N) from or to [N][STRIP]. */
static inline void read_state(const strip *s, const mba_tensor *t, void *p, int64_t first, float *h)
{
    const rows r = rows_of(t, p, first, s->d.D, s->d.N);
    memset(h, 0, sizeof(float) * (size_t)(s->d.N * STRIP));
    for (int64_t j = 0; j < s->n && r.p; j++)
        for (int64_t k = 0; k < s->d.N; k++) h[k * STRIP + j] = r.p[(s->c + j) * r.ld + k];
}

static inline void write_state(const strip *s, const mba_tensor *t, void *p, int64_t first, const float *h, bool adds)
{
    const rows r = rows_of(t, p, first, s->d.D, s->d.N);
    for (int64_t j = 0; j < s->n && r.p; j++)
        for (int64_t k = 0; k < s->d.N; k++) {
            float *to = r.p + (s->c + j) * r.ld + k;
            *to = h[k * STRIP + j] + (adds ? *to : 0);
        }
}

/* A log2 e, [N][STRIP]: exp(dt A) becomes exp2 of one product. */
static inline void read_A(const strip *s, const mba_call *call, float *A2)
{
    read_state(s, call->node->in[A_LOG], call->in[A_LOG], 0, A2);
    for (int64_t k = 0; k < s->d.N; k++)
        for (int v = 0; v < s->vecs; v++) {
            float *at = A2 + k * STRIP + v * MBA_LANES;
            vf_store(at, vf_exp(vf_load(at)) * -LOG2_E);
        }
}

/* Whether a document begins at step t. Token 0 continues from the initial state. */
static inline bool starts_document(const strip *s, int64_t t)
{
    if (!s->ids.p || t <= 0) return false;
    const float *p = s->ids.p + t * s->ids.ld;
    return memcmp(p, p - s->ids.ld, sizeof *p) != 0;
}

/* Whether steps t .. t + 3 belong to the document of step t - 1. */
static inline bool goes_on(const float *ids)
{
    uint64_t now[2], before[2];
    memcpy(now, ids, sizeof now);
    memcpy(before, ids - 1, sizeof before);
    return !((now[0] ^ before[0]) | (now[1] ^ before[1]));
}

/* The first step after t that begins a document, or `end`. Every group of states calls it, so it checks four at a
 * time. */
static inline int64_t run_end(const strip *s, int64_t t, int64_t end)
{
    if (!s->ids.p) return end;
    t++;
    while (s->ids.ld == 1 && t + 4 <= end && goes_on(s->ids.p + t)) t += 4;
    while (t < end && !starts_document(s, t)) t++;
    return t;
}

/* Steps t0 .. t0 + T - 1. Arrays are [VECS][T + SPREAD][MBA_LANES]: each vector of channels has a contiguous line.
 * Loops that store vectors copy these structs first: a vector store may alias anything, so pointers in memory would be
 * reloaded after every store. */
typedef struct span {
    int64_t t0, T;
    float  *dt, *x, *y;
} span;
MBA_SIMD int64_t span_at(const span *q, int64_t t, int v) { return (v * (q->T + SPREAD) + t) * MBA_LANES; }

/* Segment i of the strip. */
static inline span span_of(const strip *s, int64_t i, float *dt, float *x, float *y)
{
    const int64_t t0 = i * SEGMENT, rest = s->d.L - t0;
    return (span){ t0, rest < SEGMENT ? rest : SEGMENT, dt, x, y };
}

/* Index in `starts` (B, segments - 1, D, N) of the state before segment i > 0 of sequence b. */
static inline int64_t start_of(const mba_tensor *starts, int64_t b, int64_t i)
{
    return starts ? b * starts->type.dim[1] + i - 1 : 0;
}

/* The number of threads, limited by the scratch of the plan. */
static inline int threads_of(const mba_call *call, size_t thread_floats)
{
    const int planned = (int)(call->plan->scratch[SCRATCH_THREADS].bytes / (sizeof(float) * thread_floats));
    return planned < mba_cpu_threads() ? planned : mba_cpu_threads();
}

#endif
