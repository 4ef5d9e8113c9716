/* selective_scan_cpu.c -- the forward scan: strips of channels in parallel, each through time in segments. */
#include "core/device.h"
#include "ops/selective_scan/selective_scan_strip.h"

/* out = y, or y silu(z). */
MBA_SIMD void end_channels(const strip *s, const span *q, rows out, const bool whole)
{
    for (int64_t t = 0; t < q->T; t++) {
        const float *z_row = s->z.p + (q->t0 + t) * s->z.ld;
        for (int v = 0; v < s->vecs; v++) {
            vf y = vf_load(q->y + span_at(q, t, v));
            if (s->z.p) y *= vf_silu(load_lanes(s, z_row, v, whole));
            store_lanes(s, out.p + (q->t0 + t) * out.ld, v, whole, y);
        }
    }
}

static void end_span(const strip *s, const span *q, rows out)
{
    if (is_whole(s)) end_channels(s, q, out, true);
    else             end_channels(s, q, out, false);
}

static void scan_strip_forward(const mba_call *c, const strip *s, float *space)
{
    const mba_node *o = c->node;
    const rows      out = shifted(rows_of(o->out[OUT], c->out[OUT], s->b, s->d.L, s->d.D), s->c);
    const int64_t   line = scan_segment(s->d) * STRIP;
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
    const scan_dims d      = real_dims_of(c);
    const size_t    floats = selective_scan_fwd_thread_floats(d);
    float          *space  = mba__scratch(c, SCRATCH_THREADS);
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads_of(c, floats))
    for (int64_t i = 0; i < d.B * d.G * scan_strips(d); i++) {
        const strip s = strip_open(c, i);
        scan_strip_forward(c, &s, space + floats * (size_t)omp_get_thread_num());
    }
    zero_behind(c, OUT, d);
    return MBA_OK;
}
