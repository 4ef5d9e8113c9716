/* selective_scan_bwd_cpu.c -- the backward scan: blocks of channels in parallel, each in strips.
 *
 * A strip goes through its segments of time from the last to the first. In a segment, GROUP states of one vector
 * of channels run forward once more, leaving decays and a h behind, and then the adjoint runs back over them.
 * Partial sums of dB and dC (over the channels of a block) and of the parameters (over the tokens of a sequence)
 * are added up in a second pass, in a fixed order. */
#include "core/device.h"
#include "ops/selective_scan/selective_scan_strip.h"

/* Space of one thread. Arrays over time are as in span, states [N][STRIP]. */
typedef struct space {
    float *A2, *lam, *dA, *h;                     /* h: one state per segment, before it */
    float *dt, *x, *y;                            /* as in span */
    float *dy, *dgate, *slope;                    /* dout silu(z), dout silu'(z), the slope of softplus */
    float *lamB, *lamA;                           /* sums over states: lam B, and lam w A log2 e */
    float *a, *w;                                 /* [steps][GROUP] vectors: the decay, and decay times state */
} space;

static space space_at(float *p, scan_dims d)
{
    const int64_t state = d.N * STRIP, line = scan_segment(d) * STRIP;
    space m = { .A2 = p, .lam = p + state, .dA = p + 2 * state, .h = p + 3 * state };
    float **const array[] = { &m.dt, &m.x, &m.y, &m.dy, &m.dgate, &m.slope, &m.lamB, &m.lamA };
    p = m.h + state * scan_segments(d);
    for (int i = 0; i < 8; i++, p += line) *array[i] = p;
    m.a = p;
    m.w = p + scan_segment(d) * GROUP * MBA_LANES;
    return m;
}

/* What the segment needs of n channels at every step. */
MBA_SIMD void begin_back_channels(const strip *s, const span *q, rows dout, const space *m, const int64_t n)
{
    const vf zero = vf_set(0);
    for (int64_t t = 0; t < q->T; t++) {
        const int64_t at = q->t0 + t;
        const float  *u_row = s->u.p + at * s->u.ld, *delta_row = s->delta.p + at * s->delta.ld;
        const float  *z_row = s->z.p + at * s->z.ld, *dout_row = dout.p + at * dout.ld;
        for (int v = 0; v * MBA_LANES < n; v++) {
            const int64_t i = span_at(q, t, v);
            vf slope, gate_slope = zero, gate = vf_set(1);
            const vf u = load_lanes(u_row, v, n), g = dout.p ? load_lanes(dout_row, v, n) : zero;
            const vf dt = vf_softplus_and_slope(load_lanes(delta_row, v, n) + s->bias[v], &slope);
            if (s->z.p) gate = vf_silu_and_slope(load_lanes(z_row, v, n), &gate_slope);
            vf_store(m->dt + i, dt);
            vf_store(m->x + i, dt * u);
            vf_store(m->y + i, s->skip[v] * u);
            vf_store(m->dy + i, g * gate);
            vf_store(m->dgate + i, g * gate_slope);
            vf_store(m->slope + i, slope);
        }
    }
}

static void begin_back(const strip *s, const span *q, rows dout, const space *m)
{
    if (s->n == STRIP) begin_back_channels(s, q, dout, m, STRIP);          // the compiler sees whole vectors
    else               begin_back_channels(s, q, dout, m, s->n);
}

MBA_SIMD void add4(float *p, v4 x) { v4_store(p, v4_load(p) + x); }

/* K states of vector v forward through a segment: leaves a and w, adds to y and to dC (bc + GROUP). */
MBA_SIMD void forward_states(const int K, const strip *s, const span *q, const space *m, int v, int64_t k,
                             const float *h_at, float *bc)
{
    const int64_t ldB = s->B.ld, ldC = s->C.ld, T = q->T;
    const float  *B = s->B.p + q->t0 * ldB + k, *C = s->C.p + q->t0 * ldC + k;
    const float  *dt = q->dt + span_at(q, 0, v), *x = q->x + span_at(q, 0, v), *dy = m->dy + span_at(q, 0, v);
    float        *y = q->y + span_at(q, 0, v), *to_a = m->a, *to_w = m->w;
    vf A[GROUP], h[GROUP], a[GROUP], c[GROUP] = { { 0 } };
    for (int j = 0; j < K; j++) A[j] = vf_load(m->A2 + (k + j) * STRIP + v * MBA_LANES);
    for (int j = 0; j < K; j++) h[j] = vf_load(h_at + (k + j) * STRIP + v * MBA_LANES);
    bc += q->t0 * 2 * GROUP + GROUP;
    int64_t t = 0;
    do {
        const int64_t end = run_end(s, q->t0 + t, q->t0 + T) - q->t0;
        const bool    fresh = starts_document(s, q->t0 + t);
        float        *first = to_a;
        if (fresh)
            for (int j = 0; j < K; j++) h[j] = vf_set(0);
        do {
            const vf step = vf_load(dt), in = vf_load(x), g = vf_load(dy);
            vf sum = vf_load(y);
            for (int j = 0; j < K; j++) a[j] = vf_exp2_neg(step * A[j]);
            for (int j = 0; j < K; j++) {
                const vf w = a[j] * h[j];
                h[j] = w + in * B[j];
                sum += h[j] * C[j];
                c[j] = g * h[j];
                vf_store(to_a + j * MBA_LANES, a[j]);
                vf_store(to_w + j * MBA_LANES, w);
            }
            vf_store(y, sum);
            add4(bc, vf_sum4(c[0], c[1], c[2], c[3]));
            to_a += GROUP * MBA_LANES; to_w += GROUP * MBA_LANES; bc += 2 * GROUP; B += ldB; C += ldC;
            dt += MBA_LANES; x += MBA_LANES; dy += MBA_LANES; y += MBA_LANES;
        } while (++t < end);
        if (fresh) memset(first, 0, sizeof(vf) * (size_t)K);                // nothing flows back into another document
    } while (t < T);
}

/* The same states backwards: lam, dA, and the sums over states and (bc) over channels. */
MBA_SIMD void backward_states(const int K, const strip *s, const span *q, const space *m, int v, int64_t k, float *bc)
{
    const int64_t ldB = s->B.ld, ldC = s->C.ld, last = q->T - 1, i = span_at(q, last, v);
    const float  *B = s->B.p + (q->t0 + last) * ldB + k, *C = s->C.p + (q->t0 + last) * ldC + k;
    const float  *dt = q->dt + i, *x = q->x + i, *dy = m->dy + i;
    const float  *a = m->a + last * GROUP * MBA_LANES, *w = m->w + last * GROUP * MBA_LANES;
    float        *lamB = m->lamB + i, *lamA = m->lamA + i;
    vf A[GROUP], dA[GROUP], carry[GROUP], b[GROUP] = { { 0 } };             // carry: a lam of the step after
    for (int j = 0; j < K; j++) A[j] = vf_load(m->A2 + (k + j) * STRIP + v * MBA_LANES);
    for (int j = 0; j < K; j++) dA[j] = vf_load(m->dA + (k + j) * STRIP + v * MBA_LANES);
    for (int j = 0; j < K; j++) carry[j] = vf_load(m->lam + (k + j) * STRIP + v * MBA_LANES);
    bc += (q->t0 + last) * 2 * GROUP;
    int64_t t = last;
    do {
        const vf step = vf_load(dt), in = vf_load(x), g = vf_load(dy);
        vf sumB = k ? vf_load(lamB) : vf_set(0), sumA = k ? vf_load(lamA) : vf_set(0);   // the first group begins them
        for (int j = 0; j < K; j++) {
            const vf lam = carry[j] + g * C[j], lw = lam * vf_load(w + j * MBA_LANES);
            carry[j] = lam * vf_load(a + j * MBA_LANES);
            sumB    += lam * B[j];
            sumA    += lw * A[j];
            dA[j]   += lw * step;
            b[j]     = lam * in;
        }
        vf_store(lamB, sumB);
        vf_store(lamA, sumA);
        add4(bc, vf_sum4(b[0], b[1], b[2], b[3]));
        a -= GROUP * MBA_LANES; w -= GROUP * MBA_LANES; bc -= 2 * GROUP; B -= ldB; C -= ldC;
        dt -= MBA_LANES; x -= MBA_LANES; dy -= MBA_LANES; lamB -= MBA_LANES; lamA -= MBA_LANES;
    } while (--t >= 0);
    for (int j = 0; j < K; j++) vf_store(m->dA + (k + j) * STRIP + v * MBA_LANES, dA[j]);
    for (int j = 0; j < K; j++) vf_store(m->lam + (k + j) * STRIP + v * MBA_LANES, carry[j]);
}

MBA_SIMD void states_back(const int K, const strip *s, const span *q, const space *m, int v, int64_t k, const float *h,
                          float *bc)
{
    forward_states(K, s, q, m, v, k, h, bc);
    backward_states(K, s, q, m, v, k, bc);
}

static void segment_back(const strip *s, const span *q, const space *m, const float *h, float *bc)
{
    const int64_t line = s->d.L * 2 * GROUP;                               // partial sums of one group of states
    for (int v = 0; v < VECS && v * MBA_LANES < s->n; v++) {
        int64_t k = 0;
        for (; k + GROUP <= s->d.N; k += GROUP) states_back(GROUP, s, q, m, v, k, h, bc + k / GROUP * line);
        if (s->d.N - k == 3) states_back(3, s, q, m, v, k, h, bc + k / GROUP * line);
        if (s->d.N - k == 2) states_back(2, s, q, m, v, k, h, bc + k / GROUP * line);
        if (s->d.N - k == 1) states_back(1, s, q, m, v, k, h, bc + k / GROUP * line);
    }
}

/* Gradients of the sequence tensors, where they are wanted, beside the one they come from. */
typedef struct grads { rows dout, du, ddelta, dz; bool add_u, add_delta, add_z; } grads;

MBA_SIMD void put(rows r, bool adds, int64_t t, int v, int64_t n, vf x)
{
    if (!r.p) return;
    float *p = r.p + t * r.ld + v * MBA_LANES;
    vf_store_n(p, adds ? vf_load_n(p, n - v * MBA_LANES) + x : x, n - v * MBA_LANES);
}

/* Rows are pages apart, where no hardware prefetcher follows: asks for row t of the strip beside this one. */
MBA_SIMD void expect_beside(rows r, int64_t t)
{
    if (r.p) __builtin_prefetch(r.p + t * r.ld + STRIP, 0, 2);
}

/* Everything per channel and step that waited for the sums over states; dD and the bias sum over the steps. */
MBA_SIMD void end_back_channels(const strip *s, const span *q, const space *m, const grads *to, vf dskip[VECS],
                                vf dbias[VECS], const int64_t n)
{
    for (int64_t t = 0; t < q->T; t++) {
        const int64_t at = q->t0 + t;
        const float  *u_row = s->u.p + at * s->u.ld;
        expect_beside(s->u, at);
        expect_beside(s->delta, at);
        expect_beside(s->z, at);
        expect_beside(to->dout, at);
        for (int v = 0; v * MBA_LANES < n; v++) {
            const int64_t i = span_at(q, t, v);
            const vf u = load_lanes(u_row, v, n), dy = vf_load(m->dy + i), lamB = vf_load(m->lamB + i);
            const vf ddelta = (u * lamB + LN_2 * vf_load(m->lamA + i)) * vf_load(m->slope + i);
            put(to->dz, to->add_z, at, v, n, vf_load(m->dgate + i) * vf_load(m->y + i));
            put(to->du, to->add_u, at, v, n, s->skip[v] * dy + vf_load(m->dt + i) * lamB);
            put(to->ddelta, to->add_delta, at, v, n, ddelta);
            dskip[v] += dy * u;
            dbias[v] += ddelta;
        }
    }
}

static void end_back(const strip *s, const span *q, const space *m, const grads *to, vf dskip[VECS], vf dbias[VECS])
{
    if (s->n == STRIP) end_back_channels(s, q, m, to, dskip, dbias, STRIP);
    else               end_back_channels(s, q, m, to, dskip, dbias, s->n);
}

static span segment_of(const strip *s, const space *m, int64_t index)
{
    const int64_t t0 = index * SEGMENT;
    return (span){ t0, s->d.L - t0 < SEGMENT ? s->d.L - t0 : SEGMENT, m->dt, m->x, m->y };
}

/* What of a span the state behind it depends on: where documents are packed, the last one that starts in it. */
static span since_document(const strip *s, span q)
{
    for (int64_t t = q.t0 + q.T - 1; t > q.t0; t--)
        if (starts_document(s, t)) return (span){ t, q.t0 + q.T - t, q.dt, q.x, q.y };
    return q;
}

/* The state before every segment. */
static void find_states(const mba_call *c, const strip *s, const space *m)
{
    const int64_t state = s->d.N * STRIP;
    read_state(s, c->node->in[INITIAL], c->in[INITIAL], m->h);
    for (int64_t i = 0; i + 1 < scan_segments(s->d); i++) {
        const span q = since_document(s, segment_of(s, m, i));
        memcpy(m->h + (i + 1) * state, m->h + i * state, sizeof(float) * (size_t)state);
        begin_span(s, &q);
        advance_span(s, &q, m->A2, m->h + (i + 1) * state);
    }
}

/* sums: dA_log [D][N], dD and ddt_bias [D] of this sequence. */
static void strip_back(const mba_call *c, const strip *s, const space *m, float *bc, float *sums)
{
    const mba_node *n = c->node;
    const scan_dims d = s->d;
    const rows  dout = shifted(rows_of(n->in[DOUT], c->in[DOUT], s->b, d.L, d.D), s->c);
    const grads to = { dout, shifted(rows_of(n->out[DU], c->out[DU], s->b, d.L, d.D), s->c),
                       shifted(rows_of(n->out[DDELTA], c->out[DDELTA], s->b, d.L, d.D), s->c),
                       shifted(rows_of(n->out[DZ], c->out[DZ], s->b, d.L, d.D), s->c),
                       mba_adds(n, DU), mba_adds(n, DDELTA), mba_adds(n, DZ) };
    vf dskip[VECS] = { { 0 } }, dbias[VECS] = { { 0 } };
    read_A(s, c, m->A2);
    read_state(s, n->in[DFINAL], c->in[DFINAL], m->lam);
    memset(m->dA, 0, sizeof(float) * (size_t)(d.N * STRIP));
    find_states(c, s, m);
    for (int64_t i = scan_segments(d) - 1; i >= 0; i--) {
        const span q = segment_of(s, m, i);
        begin_back(s, &q, dout, m);
        segment_back(s, &q, m, m->h + i * d.N * STRIP, bc);
        end_back(s, &q, m, &to, dskip, dbias);
    }
    write_state(s, n->out[DINITIAL], c->out[DINITIAL], m->lam, mba_adds(n, DINITIAL));
    for (int64_t j = 0; j < s->n; j++) {
        for (int64_t k = 0; k < d.N; k++)
            sums[(s->c + j) * d.N + k] = m->dA[k * STRIP + j] * m->A2[k * STRIP + j] * LN_2;
        sums[d.D * d.N + s->c + j]       = dskip[j / MBA_LANES][j % MBA_LANES];
        sums[d.D * (d.N + 1) + s->c + j] = dbias[j / MBA_LANES][j % MBA_LANES];
    }
}

/* ---- second pass: partial sums, in the order of blocks and of sequences ---- */

/* dB and dC of token t of sequence b. */
static void combine_token(const mba_call *c, scan_dims d, const float *bc, int64_t b, int64_t t)
{
    const int64_t line = d.L * 2 * GROUP, block = line * scan_groups(d);
    for (int which = DB; which <= DC; which++) {
        const rows r = rows_of(c->node->out[which], c->out[which], b, d.L, d.G * d.N);
        if (!r.p) continue;
        for (int64_t g = 0; g < d.G; g++)
            for (int64_t k = 0; k < d.N; k += GROUP) {
                const float *p = bc + (b * d.G + g) * scan_blocks(d) * block + k / GROUP * line + t * 2 * GROUP
                               + (which == DC ? GROUP : 0);
                float       *to = r.p + t * r.ld + g * d.N + k;
                v4           x  = v4_load(p);
                for (int64_t i = 1; i < scan_blocks(d); i++) x += v4_load(p + i * block);
                for (int j = 0; j < GROUP && k + j < d.N; j++) to[j] = x[j] + (mba_adds(c->node, which) ? to[j] : 0);
            }
    }
}

/* One parameter gradient of n values, from the same place of each sequence's sums. */
static void combine_sums(const mba_call *c, int slot, const float *sums, int64_t stride, int64_t rows_n, int64_t width)
{
    const rows r = rows_of(c->node->out[slot], c->out[slot], 0, rows_n, width);
    for (int64_t i = 0; i < rows_n * width && r.p; i++) {
        float *to = r.p + i / width * r.ld + i % width, x = sums[i];
        for (int64_t b = 1; b < scan_dims_of(c->node).B; b++) x += sums[b * stride + i];
        *to = x + (mba_adds(c->node, slot) ? *to : 0);
    }
}

mba_status MBA_CPU_FN(selective_scan_bwd)(const mba_call *c)
{
    const scan_dims d      = real_dims_of(c);
    const size_t    floats = selective_scan_bwd_thread_floats(d);
    const int64_t   width  = d.D / d.G, blocks = scan_blocks(d), part = scan_groups(d) * d.L * 2 * GROUP;
    const int64_t   stride = d.D * (d.N + 2);
    float *threads = (float *)(c->work + c->plan->scratch[SCRATCH_THREADS].offset);
    float *bc      = (float *)(c->work + c->plan->scratch[SCRATCH_BC].offset);
    float *sums    = (float *)(c->work + c->plan->scratch[SCRATCH_SUMS].offset);
    mba_assert(MBA_LANES <= 4 << mba_cpu_isa());
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads_of(c, floats))
    for (int64_t i = 0; i < d.B * d.G * blocks; i++) {
        const space   m    = space_at(threads + floats * (size_t)omp_get_thread_num(), d);
        const int64_t b    = i / blocks / d.G, from = i % blocks * BLOCK;
        const int64_t to   = from + BLOCK < width ? from + BLOCK : width;
        memset(bc + i * part, 0, sizeof(float) * (size_t)part);
        for (int64_t j = from; j < to; j += STRIP) {
            const strip s = strip_open(c, b, i / blocks % d.G, j, to - j < STRIP ? to - j : STRIP);
            strip_back(c, &s, &m, bc + i * part, sums + b * stride);
        }
    }
    MBA_PARALLEL_FOR(i, d.B * d.L) combine_token(c, d, bc, i / d.L, i % d.L);
    for (int k = 0; k < 5; k++) zero_behind(c, (const int[]){ DU, DDELTA, DB, DC, DZ }[k], d);
    combine_sums(c, DA_LOG, sums, stride, d.D, d.N);
    combine_sums(c, DSKIP, sums + d.D * d.N, stride, d.D, 1);
    combine_sums(c, DDT_BIAS, sums + d.D * (d.N + 1), stride, d.D, 1);
    return MBA_OK;
}
