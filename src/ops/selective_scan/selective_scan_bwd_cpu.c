// SPDX-License-Identifier: Apache-2.0
/* selective_scan_bwd_cpu.c -- selective_scan backward on the CPU: strips of channels in parallel.
 *
 * A strip processes its segments of time from the last to the first, each from the state that the forward pass saved
 * before it. In a segment, GROUP states of one vector of channels run forward once more and store every decay and the
 * state before it; then the adjoint runs back over them. A second pass adds the partial sums of dB and dC (over the
 * channels of a strip) and of the parameters (over the tokens of a sequence) in a fixed order. */
#include "core/device.h"
#include "ops/selective_scan/selective_scan_strip.h"

static const float LN_2 = 0x1.62e43p-1f;

/* Buffers of one thread. Arrays over time have the layout of span, states [N][STRIP]. */
typedef struct space {
    float *A2, *h, *lam;       /* h: before the segment; lam: the adjoint after it */
    float *dA, *dskip, *dbias; /* sums over the sequence, contiguous: [N + 2][STRIP] */
    float *u, *dt, *x, *y;     /* dt, x, y as in span */
    float *dy, *dgate, *slope; /* dout silu(z), dout silu'(z), derivative of softplus */
    float *lamB, *lamA;        /* sums over states: lam B, and lam w A log2 e */
    float *a, *before;         /* [steps][GROUP] vectors: the decay, and the state before it */
} space;

static space space_at(float *p, scan_dims d)
{
    const int64_t state = d.N * STRIP, line = scan_line_floats(d);
    space         m = { .A2 = p, .h = p + state, .lam = p + 2 * state, .dA = p + 3 * state };
    float **const array[] = { &m.u, &m.dt, &m.x, &m.y, &m.dy, &m.dgate, &m.slope, &m.lamB, &m.lamA };
    m.dskip = m.dA + state;
    m.dbias = m.dskip + STRIP;
    p = m.dbias + STRIP;
    for (int i = 0; i < 9; i++, p += line) *array[i] = p;
    m.a = p;
    m.before = p + scan_segment(d) * GROUP * MBA_LANES;
    return m;
}

/* Computes the per-channel values of every step of a segment. */
MBA_SIMD void begin_back_channels(const strip *of, const span *when, rows dout, const space *to, const bool whole)
{
    const strip s = *of;
    const span  q = *when;
    const space m = *to;
    const vf    zero = vf_set(0);
    for (int64_t t = 0; t < q.T; t++) {
        const int64_t at = q.t0 + t;
        const float  *u_row = s.u.p + at * s.u.ld, *delta_row = s.delta.p + at * s.delta.ld;
        const float  *z_row = s.z.p ? s.z.p + at * s.z.ld : NULL, *dout_row = dout.p ? dout.p + at * dout.ld : NULL;
        for (int v = 0; v < s.vecs; v++) {
            const int64_t i = span_at(&q, t, v);
            vf            slope, gate_slope = zero, gate = vf_set(1);
            const vf      u = load_lanes(&s, u_row, v, whole), g = dout.p ? load_lanes(&s, dout_row, v, whole) : zero;
            const vf      dt = vf_softplus_and_slope(load_lanes(&s, delta_row, v, whole) + s.bias[v], &slope);
            if (s.z.p) gate = vf_silu_and_slope(load_lanes(&s, z_row, v, whole), &gate_slope);
            vf_store(m.u + i, u);
            vf_store(m.dt + i, dt);
            vf_store(m.x + i, dt * u);
            vf_store(m.y + i, s.skip[v] * u);
            vf_store(m.dy + i, g * gate);
            vf_store(m.dgate + i, g * gate_slope);
            vf_store(m.slope + i, slope);
        }
    }
}

static void begin_back(const strip *s, const span *q, rows dout, const space *m)
{
    if (is_whole(s)) begin_back_channels(s, q, dout, m, true);
    else begin_back_channels(s, q, dout, m, false);
}

MBA_SIMD void add4(float *p, v4 x) { v4_store(p, v4_load(p) + x); }

/* Up to four values that multiply vectors, one after the other: in a register on Arm, where a multiplication can take
 * one lane of it; in memory on x86, where loads broadcast. */
#ifdef __ARM_NEON
typedef v4    four;
MBA_SIMD four four_of(const float *p, const int n)
{
    if (n == 4) return v4_load(p);
    four v = { 0 };
    for (int j = 0; j < n; j++) v[j] = p[j];
    return v;
}
#else
typedef const float *four;
MBA_SIMD four        four_of(const float *p, const int n)
{
    (void)n;
    return p;
}
#endif

/* The decays of K states of vector v, in a separate loop so that the constants of exp2 stay in registers. */
MBA_SIMD void decays(const int K, const span *q, const space *m, int v, int64_t k)
{
    const int64_t T = q->T;
    const float  *dt = q->dt + span_at(q, 0, v);
    float        *to = m->a;
    vf            A[GROUP], a[GROUP];
    for (int j = 0; j < K; j++) A[j] = vf_load(m->A2 + (k + j) * STRIP + v * MBA_LANES);
    int64_t t = 0;
    do {
        const vf step = vf_load(dt);
        for (int j = 0; j < K; j++) a[j] = vf_exp2_neg(step * A[j]);
        for (int j = 0; j < K; j++) vf_store(to + j * MBA_LANES, a[j]);
        dt += MBA_LANES;
        to += GROUP * MBA_LANES;
    } while (++t < T);
}

/* Runs K states of vector v forward through a segment: stores the states before each step, adds to y and dC (bc +
 * GROUP). */
MBA_SIMD void forward_states(const int K, const strip *s, const span *q, const space *m, int v, int64_t k, float *bc)
{
    const int64_t ldB = s->B.ld, ldC = s->C.ld, T = q->T;
    const float  *B = s->B.p + q->t0 * ldB + k, *C = s->C.p + q->t0 * ldC + k;
    const float  *x = q->x + span_at(q, 0, v), *dy = m->dy + span_at(q, 0, v);
    float        *y = q->y + span_at(q, 0, v), *a = m->a, *before = m->before;
    vf            h[GROUP], d[GROUP], c[GROUP] = { { 0 } };
    for (int j = 0; j < K; j++) h[j] = vf_load(m->h + (k + j) * STRIP + v * MBA_LANES);
    bc += q->t0 * 2 * GROUP + GROUP;
    int64_t t = 0;
    do {
        const int64_t end = run_end(s, q->t0 + t, q->t0 + T) - q->t0;
        const bool    fresh = starts_document(s, q->t0 + t);
        float        *first = a;
        if (fresh)
            for (int j = 0; j < K; j++) h[j] = vf_set(0);
        do {
            const vf   in = vf_load(x), g = vf_load(dy);
            const four B4 = four_of(B, K), C4 = four_of(C, K);
            vf         sum = vf_load(y);
            for (int j = 0; j < K; j++) d[j] = vf_load(a + j * MBA_LANES);
            for (int j = 0; j < K; j++) {
                vf_store(before + j * MBA_LANES, h[j]);
                h[j] = d[j] * h[j] + in * B4[j];
                sum += h[j] * C4[j];
                c[j] = g * h[j];
            }
            vf_store(y, sum);
            add4(bc, vf_sum4(c[0], c[1], c[2], c[3]));
            a += GROUP * MBA_LANES;
            before += GROUP * MBA_LANES;
            bc += 2 * GROUP;
            B += ldB;
            C += ldC;
            x += MBA_LANES;
            dy += MBA_LANES;
            y += MBA_LANES;
        } while (++t < end);
        if (fresh) memset(first, 0, sizeof(vf) * (size_t)K); // no gradient into another document
    } while (t < T);
}

/* Runs the adjoint of the same states back: lam, dA, the sums over states (the first group stores, others add), and the
 * sums over channels (bc). */
MBA_SIMD void backward_states(const int K, const bool begins, const strip *s, const span *q, const space *m, int v,
                              int64_t k, float *bc)
{
    const int64_t ldB = s->B.ld, ldC = s->C.ld, last = q->T - 1, i = span_at(q, last, v);
    const float  *B = s->B.p + (q->t0 + last) * ldB + k, *C = s->C.p + (q->t0 + last) * ldC + k;
    const float  *dt = q->dt + i, *x = q->x + i, *dy = m->dy + i;
    const float  *a = m->a + last * GROUP * MBA_LANES, *before = m->before + last * GROUP * MBA_LANES;
    float        *lamB = m->lamB + i, *lamA = m->lamA + i;
    vf            A[GROUP], dA[GROUP], carry[GROUP], b[GROUP] = { { 0 } }; // carry: a lam of the next step
    for (int j = 0; j < K; j++) A[j] = vf_load(m->A2 + (k + j) * STRIP + v * MBA_LANES);
    for (int j = 0; j < K; j++) dA[j] = vf_load(m->dA + (k + j) * STRIP + v * MBA_LANES);
    for (int j = 0; j < K; j++) carry[j] = vf_load(m->lam + (k + j) * STRIP + v * MBA_LANES);
    bc += (q->t0 + last) * 2 * GROUP;
    int64_t t = last;
    do {
        const vf   step = vf_load(dt), in = vf_load(x), g = vf_load(dy);
        const four B4 = four_of(B, K), C4 = four_of(C, K);
        vf         sumB = begins ? vf_set(0) : vf_load(lamB), sumA = begins ? vf_set(0) : vf_load(lamA);
        for (int j = 0; j < K; j++) {
            const vf lam = carry[j] + g * C4[j];
            carry[j] = lam * vf_load(a + j * MBA_LANES);
            const vf lw = carry[j] * vf_load(before + j * MBA_LANES);
            sumB += lam * B4[j];
            sumA += lw * A[j];
            dA[j] += lw * step;
            b[j] = lam * in;
        }
        vf_store(lamB, sumB);
        vf_store(lamA, sumA);
        add4(bc, vf_sum4(b[0], b[1], b[2], b[3]));
        a -= GROUP * MBA_LANES;
        before -= GROUP * MBA_LANES;
        bc -= 2 * GROUP;
        B -= ldB;
        C -= ldC;
        dt -= MBA_LANES;
        x -= MBA_LANES;
        dy -= MBA_LANES;
        lamB -= MBA_LANES;
        lamA -= MBA_LANES;
    } while (--t >= 0);
    for (int j = 0; j < K; j++) vf_store(m->dA + (k + j) * STRIP + v * MBA_LANES, dA[j]);
    for (int j = 0; j < K; j++) vf_store(m->lam + (k + j) * STRIP + v * MBA_LANES, carry[j]);
}

MBA_SIMD void states_back(const int K, const strip *s, const span *q, const space *m, int v, int64_t k, float *bc)
{
    decays(K, q, m, v, k);
    forward_states(K, s, q, m, v, k, bc);
    if (k) backward_states(K, false, s, q, m, v, k, bc);
    else backward_states(K, true, s, q, m, v, k, bc);
}

/* Not inlined: inlined, its loops over time are 4 % slower, because the caller needs registers too. */
static __attribute__((noinline)) void segment_back(const strip *s, const span *q, const space *m, float *bc)
{
    const int64_t line = s->d.L * 2 * GROUP; // partial sums of one group of states
    for (int64_t i = 0; i < scan_groups(s->d); i++)
        memset(bc + i * line + q->t0 * 2 * GROUP, 0, sizeof(float) * (size_t)(q->T * 2 * GROUP));
    for (int v = 0; v < s->vecs; v++) {
        int64_t k = 0;
        for (; k + GROUP <= s->d.N; k += GROUP) states_back(GROUP, s, q, m, v, k, bc + k / GROUP * line);
        if (s->d.N - k == 3) states_back(3, s, q, m, v, k, bc + k / GROUP * line);
        if (s->d.N - k == 2) states_back(2, s, q, m, v, k, bc + k / GROUP * line);
        if (s->d.N - k == 1) states_back(1, s, q, m, v, k, bc + k / GROUP * line);
    }
}

/* Gradients of the sequence tensors that are requested. */
typedef struct grads {
    rows du, ddelta, dz;
    bool add_u, add_delta, add_z;
} grads;

static grads grads_of(const mba_call *c, const strip *s)
{
    rows r[3];
    for (int i = 0; i < 3; i++) {
        const int slot = (const int[]){ DU, DDELTA, DZ }[i];
        r[i] = shifted(rows_of(c->node->out[slot], c->out[slot], s->b, s->d.L, s->d.D), s->c);
    }
    return (grads){ r[0], r[1], r[2], mba_adds(c->node, DU), mba_adds(c->node, DDELTA), mba_adds(c->node, DZ) };
}

MBA_SIMD void put(const strip *s, rows r, bool adds, int64_t t, int v, const bool whole, vf x)
{
    if (!r.p) return;
    float *row = r.p + t * r.ld;
    store_lanes(s, row, v, whole, adds ? load_lanes(s, row, v, whole) + x : x);
}

MBA_SIMD void add(float *p, vf x) { vf_store(p, vf_load(p) + x); }

/* Prefetches rows that will be written: they are pages apart, which the hardware prefetcher does not follow. */
MBA_SIMD void expect_stores(const strip *s, rows r, int64_t t)
{
    enum { LINE = 16 };
    for (int64_t j = 0; j < s->n && r.p; j += LINE) __builtin_prefetch(r.p + t * r.ld + j, 1);
}

/* Computes what needs the sums over states, per channel and step; sums dD and ddt_bias over the steps. */
MBA_SIMD void end_back_channels(const strip *of, const span *when, const space *from, const grads *into,
                                const bool whole)
{
    enum { AHEAD = 12 };
    const strip s = *of;
    const span  q = *when;
    const space m = *from;
    const grads to = *into;
    for (int64_t t = 0; t < q.T; t++) {
        const int64_t at = q.t0 + t;
        if (t + AHEAD < q.T) {
            expect_stores(&s, to.dz, at + AHEAD);
            expect_stores(&s, to.du, at + AHEAD);
            expect_stores(&s, to.ddelta, at + AHEAD);
        }
        for (int v = 0; v < s.vecs; v++) {
            const int64_t i = span_at(&q, t, v);
            const vf      u = vf_load(m.u + i), dy = vf_load(m.dy + i), lamB = vf_load(m.lamB + i);
            const vf      ddelta = (u * lamB + LN_2 * vf_load(m.lamA + i)) * vf_load(m.slope + i);
            put(&s, to.dz, to.add_z, at, v, whole, vf_load(m.dgate + i) * vf_load(m.y + i));
            put(&s, to.du, to.add_u, at, v, whole, s.skip[v] * dy + vf_load(m.dt + i) * lamB);
            put(&s, to.ddelta, to.add_delta, at, v, whole, ddelta);
            add(m.dskip + v * MBA_LANES, dy * u);
            add(m.dbias + v * MBA_LANES, ddelta);
        }
    }
}

static void end_back(const strip *s, const span *q, const space *m, const grads *to)
{
    if (is_whole(s)) end_back_channels(s, q, m, to, true);
    else end_back_channels(s, q, m, to, false);
}

/* sums: [N + 2][STRIP] of this strip and sequence. */
static void strip_back(const mba_call *c, const strip *s, const space *m, float *bc, float *sums)
{
    const mba_node *n = c->node;
    const int64_t   state = s->d.N * STRIP, all = state + 2 * STRIP;
    const rows      dout = shifted(rows_of(n->in[DOUT], c->in[DOUT], s->b, s->d.L, s->d.D), s->c);
    const grads     to = grads_of(c, s);
    read_A(s, c, m->A2);
    read_state(s, n->in[DFINAL], c->in[DFINAL], s->b, m->lam);
    memset(m->dA, 0, sizeof(float) * (size_t)all);
    for (int64_t i = scan_segments(s->d) - 1; i >= 0; i--) {
        const span q = span_of(s, i, m->dt, m->x, m->y);
        if (i) read_state(s, n->in[STARTS_IN], c->in[STARTS_IN], start_of(n->in[STARTS_IN], s->b, i), m->h);
        else read_state(s, n->in[INITIAL], c->in[INITIAL], s->b, m->h);
        begin_back(s, &q, dout, m);
        segment_back(s, &q, m, bc);
        end_back(s, &q, m, &to);
    }
    write_state(s, n->out[DINITIAL], c->out[DINITIAL], s->b, m->lam, mba_adds(n, DINITIAL));
    for (int64_t i = 0; i < state; i++) sums[i] = m->dA[i] * m->A2[i] * LN_2;
    memcpy(sums + state, m->dskip, sizeof(float) * (size_t)(2 * STRIP));
}

/* ---- second pass: adds partial sums in the order of strips and of sequences ---- */

/* part 0 += part 1, += part 2, ..: n floats each. */
static void sum_parts(float *part, int64_t parts, int64_t stride, int64_t n)
{
    for (int64_t p = 1; p < parts; p++)
        for (int64_t i = 0; i < n; i++) part[i] += part[p * stride + i];
}

/* dB and dC of a segment from t0 on for GROUP states, columns from k on. part: partial sums of the first strip. */
static void combine_bc(const mba_call *c, scan_dims d, float *part, int64_t b, int64_t k, int64_t t0)
{
    const int64_t T = d.L - t0 < SEGMENT ? d.L - t0 : SEGMENT, rest = d.N - k % d.N;
    const int64_t states = rest < GROUP ? rest : GROUP;
    sum_parts(part, scan_strips(d), scan_groups(d) * d.L * 2 * GROUP, T * 2 * GROUP);
    for (int which = DB; which <= DC; which++) {
        const rows   r = rows_of(c->node->out[which], c->out[which], b, d.L, d.G * d.N);
        const float *from = part + (which == DC ? GROUP : 0);
        for (int64_t t = 0; t < T && r.p; t++, from += 2 * GROUP) {
            float *to = r.p + (t0 + t) * r.ld + k;
            for (int64_t j = 0; j < states; j++) to[j] = from[j] + (mba_adds(c->node, which) ? to[j] : 0);
        }
    }
}

/* Parameter gradients of one strip, summed over sequences. */
static void combine_sums(const mba_call *c, const strip *s, float *sums, int64_t stride)
{
    const scan_dims d = s->d;
    sum_parts(sums, d.B, stride, (d.N + 2) * STRIP);
    write_state(s, c->node->out[DA_LOG], c->out[DA_LOG], 0, sums, mba_adds(c->node, DA_LOG));
    for (int i = 0; i < 2; i++) {
        const int    slot = i ? DDT_BIAS : DSKIP;
        const rows   r = rows_of(c->node->out[slot], c->out[slot], 0, d.D, 1);
        const float *from = sums + (d.N + i) * STRIP;
        for (int64_t j = 0; j < s->n && r.p; j++) {
            float *to = r.p + (s->c + j) * r.ld;
            *to = from[j] + (mba_adds(c->node, slot) ? *to : 0);
        }
    }
}

mba_status MBA_CPU_FN(selective_scan_bwd)(const mba_call *c)
{
    const scan_dims d = real_dims_of(c);
    const size_t    floats = selective_scan_bwd_thread_floats(d);
    const int64_t   strips = scan_strips(d), groups = scan_groups(d), segments = scan_segments(d);
    const int64_t   line = d.L * 2 * GROUP, each = (d.N + 2) * STRIP;
    float          *threads = mba__scratch(c, SCRATCH_THREADS), *bc = mba__scratch(c, SCRATCH_BC);
    float          *sums = mba__scratch(c, SCRATCH_SUMS);
    mba_assert(MBA_LANES <= 4 << mba_cpu_isa());
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads_of(c, floats))
    for (int64_t i = 0; i < d.B * d.G * strips; i++) {
        const space m = space_at(threads + floats * (size_t)omp_get_thread_num(), d);
        const strip s = strip_open(c, i);
        strip_back(c, &s, &m, bc + i * groups * line, sums + i * each);
    }
    MBA_PARALLEL_FOR(i, d.B * d.G * groups * segments)
    {
        const int64_t bg = i / segments / groups, group = i / segments % groups, t0 = i % segments * SEGMENT;
        float        *part = bc + (bg * strips * groups + group) * line + t0 * 2 * GROUP;
        combine_bc(c, d, part, bg / d.G, bg % d.G * d.N + group * GROUP, t0);
    }
    MBA_PARALLEL_FOR(i, d.G * strips)
    {
        const strip s = strip_open(c, i);
        combine_sums(c, &s, sums + i * each, d.G * strips * each);
    }
    for (int k = 0; k < 5; k++) zero_behind(c, (const int[]){ DU, DDELTA, DB, DC, DZ }[k], d);
    return MBA_OK;
}
