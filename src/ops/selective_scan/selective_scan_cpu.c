// SPDX-License-Identifier: Apache-2.0
/* selective_scan_cpu.c -- selective_scan forward on the CPU: strips of channels in parallel. A strip processes time in
 * segments; in a segment, GROUP states of one vector of channels stay in registers. */
#include "core/device.h"
#include "ops/selective_scan/selective_scan_strip.h"

/* Computes step sizes dt, their products x with u, and y = D u. */
MBA_SIMD void begin_channels(const strip *of, const span *at, const bool whole)
{
    const strip s = *of;
    const span  q = *at;
    for (int64_t t = 0; t < q.T; t++) {
        const float *u_row = s.u.p + (q.t0 + t) * s.u.ld, *delta_row = s.delta.p + (q.t0 + t) * s.delta.ld;
        for (int v = 0; v < s.vecs; v++) {
            const vf      u = load_lanes(&s, u_row, v, whole);
            const vf      dt = vf_softplus(load_lanes(&s, delta_row, v, whole) + s.bias[v]);
            const int64_t i = span_at(&q, t, v);
            vf_store(q.dt + i, dt);
            vf_store(q.x + i, dt * u);
            vf_store(q.y + i, s.skip[v] * u);
        }
    }
}

static void begin_span(const strip *s, const span *q)
{
    if (is_whole(s)) begin_channels(s, q, true);
    else begin_channels(s, q, false);
}

/* Runs K states from k on of vector v through the span; h [N][STRIP] is the state before and after. */
MBA_SIMD void advance_states(const int K, const strip *s, const span *q, int v, int64_t k, const float *A2, float *h_at)
{
    const int64_t ldB = s->B.ld, ldC = s->C.ld, T = q->T;
    const float  *B = s->B.p + q->t0 * ldB + k, *C = s->C.p + q->t0 * ldC + k;
    const float  *dt = q->dt + span_at(q, 0, v), *x = q->x + span_at(q, 0, v);
    float        *y = q->y + span_at(q, 0, v);
    vf            A[GROUP], h[GROUP], a[GROUP];
    for (int j = 0; j < K; j++) A[j] = vf_load(A2 + (k + j) * STRIP + v * MBA_LANES);
    for (int j = 0; j < K; j++) h[j] = vf_load(h_at + (k + j) * STRIP + v * MBA_LANES);
    int64_t t = 0;
    do {
        const int64_t end = run_end(s, q->t0 + t, q->t0 + T) - q->t0;
        if (starts_document(s, q->t0 + t))
            for (int j = 0; j < K; j++) h[j] = vf_set(0);
        do {
            const vf step = vf_load(dt), in = vf_load(x);
            vf       sum = vf_load(y);
            for (int j = 0; j < K; j++) a[j] = vf_exp2_neg(step * A[j]);
            for (int j = 0; j < K; j++) {
                h[j] = a[j] * h[j] + in * B[j];
                sum += h[j] * C[j];
            }
            vf_store(y, sum);
            dt += MBA_LANES;
            x += MBA_LANES;
            y += MBA_LANES;
            B += ldB;
            C += ldC;
        } while (++t < end);
    } while (t < T);
    for (int j = 0; j < K; j++) vf_store(h_at + (k + j) * STRIP + v * MBA_LANES, h[j]);
}

static void advance_span(const strip *s, const span *q, const float *A2, float *h)
{
    for (int v = 0; v < s->vecs; v++) {
        int64_t k = 0;
        for (; k + GROUP <= s->d.N; k += GROUP) advance_states(GROUP, s, q, v, k, A2, h);
        if (s->d.N - k == 3) advance_states(3, s, q, v, k, A2, h);
        if (s->d.N - k == 2) advance_states(2, s, q, v, k, A2, h);
        if (s->d.N - k == 1) advance_states(1, s, q, v, k, A2, h);
    }
}

/* out = y, or y silu(z). */
MBA_SIMD void end_channels(const strip *of, const span *at, rows out, const bool whole)
{
    const strip s = *of;
    const span  q = *at;
    for (int64_t t = 0; t < q.T; t++) {
        const float *z_row = s.z.p ? s.z.p + (q.t0 + t) * s.z.ld : NULL;
        for (int v = 0; v < s.vecs; v++) {
            vf y = vf_load(q.y + span_at(&q, t, v));
            if (s.z.p) y *= vf_silu(load_lanes(&s, z_row, v, whole));
            store_lanes(&s, out.p + (q.t0 + t) * out.ld, v, whole, y);
        }
    }
}

static void end_span(const strip *s, const span *q, rows out)
{
    if (is_whole(s)) end_channels(s, q, out, true);
    else end_channels(s, q, out, false);
}

static void scan_strip_forward(const mba_call *c, const strip *s, float *space)
{
    const mba_node *o = c->node;
    const rows      out = shifted(rows_of(o->out[OUT], c->out[OUT], s->b, s->d.L, s->d.D), s->c);
    const int64_t   line = scan_line_floats(s->d);
    float          *A2 = space, *h = A2 + s->d.N * STRIP, *dt = h + s->d.N * STRIP;
    read_A(s, c, A2);
    read_state(s, o->in[INITIAL], c->in[INITIAL], s->b, h);
    for (int64_t i = 0; i < scan_segments(s->d); i++) {
        const span q = span_of(s, i, dt, dt + line, dt + 2 * line);
        if (i) write_state(s, o->out[STARTS], c->out[STARTS], start_of(o->out[STARTS], s->b, i), h, false);
        begin_span(s, &q);
        advance_span(s, &q, A2, h);
        end_span(s, &q, out);
    }
    write_state(s, o->out[FINAL], c->out[FINAL], s->b, h, false);
}

mba_status MBA_CPU_FN(selective_scan_fwd)(const mba_call *c)
{
    const scan_dims d = real_dims_of(c);
    const size_t    floats = selective_scan_fwd_thread_floats(d);
    float          *space = mba__scratch(c, SCRATCH_THREADS);
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads_of(c, floats))
    for (int64_t i = 0; i < d.B * d.G * scan_strips(d); i++) {
        const strip s = strip_open(c, i);
        scan_strip_forward(c, &s, space + floats * (size_t)omp_get_thread_num());
    }
    zero_behind(c, OUT, d);
    return MBA_OK;
}
