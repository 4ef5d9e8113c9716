/* selective_scan_cpu.c -- the forward scan: strips of sixteen channels in parallel, each through time in chunks. */
#include "core/device.h"
#include "ops/selective_scan/selective_scan_strip.h"

/* out = y, or y silu(z), for n channels. */
MBA_SIMD void end_channels(const strip *s, const span *q, rows out, const int64_t n)
{
    for (int64_t t = 0; t < q->T; t++) {
        const float *z_row = s->z.p + (q->t0 + t) * s->z.ld;
        for (int v = 0; v * MBA_LANES < n; v++) {
            vf y = vf_load(q->y + span_at(q, t, v));
            if (s->z.p) y *= vf_silu(load_lanes(z_row, v, n));
            vf_store_n(out.p + (q->t0 + t) * out.ld + v * MBA_LANES, y, n - v * MBA_LANES);
        }
    }
}

static void end_span(const strip *s, const span *q, rows out)
{
    if (s->n == STRIP) end_channels(s, q, out, STRIP);
    else               end_channels(s, q, out, s->n);
}

static void scan_strip(const mba_call *c, const strip *s, float *space)
{
    const scan_dims d  = s->d;
    const rows      out = shifted(rows_of(c->node->out[OUT], c->out[OUT], s->b, d.L, d.D), s->c);
    float          *A2 = space, *h = A2 + d.N * STRIP, *dt = h + d.N * STRIP;
    read_A(s, c, A2);
    read_state(s, c->node->in[INITIAL], c->in[INITIAL], h);
    for (int64_t t = 0; t < d.L; t += CHUNK) {
        const span q = { t, d.L - t < CHUNK ? d.L - t : CHUNK, dt, dt + CHUNK * STRIP, dt + 2 * CHUNK * STRIP };
        begin_span(s, &q);
        advance_span(s, &q, A2, h);
        end_span(s, &q, out);
    }
    write_state(s, c->node->out[FINAL], c->out[FINAL], h, false);
}

mba_status MBA_CPU_FN(selective_scan_fwd)(const mba_call *c)
{
    const scan_dims d      = real_dims_of(c);
    const size_t    floats = selective_scan_fwd_thread_floats(d);
    const int64_t   width  = d.D / d.G, strips = mba_ceil(width, STRIP);
    float          *space  = (float *)(c->work + c->plan->scratch[SCRATCH_THREADS].offset);
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads_of(c, floats))
    for (int64_t i = 0; i < d.B * d.G * strips; i++) {
        const int64_t first = i % strips * STRIP, group = i / strips % d.G;
        const strip   s = strip_open(c, i / strips / d.G, group, first, width - first < STRIP ? width - first : STRIP);
        scan_strip(c, &s, space + floats * (size_t)omp_get_thread_num());
    }
    zero_behind(c, OUT, d);
    return MBA_OK;
}
