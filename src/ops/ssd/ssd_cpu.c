// SPDX-License-Identifier: Apache-2.0
/* ssd_cpu.c -- ssd forward on the CPU (variant `streaming`): the chunks of a head in sequence, its state (N, P) in
 * cache.
 *
 * Per chunk and head: y = decay (C state) + W x with W = C B^T, decays and dt; then state = decay state + B (dt x). All
 * products are those of ssd_tile.h; ssd_chunk.h has packing, steps, threads and scratch. */
#include "ops/ssd/ssd_chunk.h"

typedef struct fwd_packed {
    float *Ct, *B, *BCt;
} fwd_packed; /* (N, l), (s, N), (s, l) */

static fwd_packed fwd_packed_of(const run *r, int64_t b, int64_t g, int64_t k)
{
    float *p = packed_of(r, b, g, k);
    return (fwd_packed){ .Ct = p, .B = p + r->w.N * r->w.ldq, .BCt = p + r->w.N * r->w.ldq + Q * r->w.ldn };
}

static void fwd_pack(const run *r, int64_t b, int64_t g, int64_t k, int thread)
{
    const ssd_work  *w = &r->w;
    const fwd_packed p = fwd_packed_of(r, b, g, k);
    const int64_t    q = length_of(r, k);
    float           *C = pack_buffer(r, thread, Q * w->ldn + w->N * w->ldq), *Bt = C + Q * w->ldn;
    resets           m;
    resets_of(&m, r, b, k);
    pack_rows(p.B, r, BM, b, g, k);
    pack_rows(C, r, CM, b, g, k);
    transpose(p.Ct, w->ldq, C, w->ldn, Q, w->N);
    transpose(Bt, w->ldq, p.B, w->ldn, Q, w->N);
    multiply(&(product){ .size = { q, Q, r->d.N },
                         .a = { Bt, w->ldq },
                         .b = { p.Ct, w->ldq },
                         .c = { p.BCt, w->ldq },
                         .c_part = ABOVE });
    for (int64_t s = 0; s < q; s++) {
        for (int64_t l = 0; l < s; l++) p.BCt[s * w->ldq + l] = 0;
        for (int64_t l = s; l < q; l++)
            if (m.since[l] > s) p.BCt[s * w->ldq + l] = 0;
    }
}

/* Buffers of a work item; states: one per head. */
typedef struct fwd_buffers {
    float     *x, *xw, *y, *Wt;
    ssd_steps *s;
    float     *states;
} fwd_buffers;

/* Wt (s, l) = (B_s . C_l) decay(s to l) dt_s, plus D on the diagonal: the weight of x_s in y_l. */
static void decay_cb(float *Wt, const run *r, const float *BCt, const ssd_steps *s, int64_t q, float D)
{
    const int64_t ld = r->w.ldq;
    for (int64_t i = 0; i < q; i++) {
        const int64_t from = (i > ROWS ? i - ROWS : 0) / MBA_LANES * MBA_LANES; // register tiles read beyond it
        for (int64_t l = from; l < q; l += MBA_LANES) {
            const vf e = decay(vf_load(s->cs + l) - s->cs[i], vf_load(s->cs_low + l) - s->cs_low[i]);
            vf_store(Wt + i * ld + l, vf_load(BCt + i * ld + l) * (s->dt[i] * e));
        }
        Wt[i * ld + i] += D;
    }
}

/* One (chunk, head). `state` (N, P) is the entering state and becomes the leaving one. empty: it is zero, not read. */
static void fwd_chunk(const run *r, const fwd_buffers *e, float *state, int64_t b, int64_t h, int64_t k, bool empty)
{
    const ssd_work  *w = &r->w;
    const fwd_packed p = fwd_packed_of(r, b, h / r->d.J, k);
    const int64_t    q = length_of(r, k);
    const rows       x = head_in(r, X, b, h), y = head_out(r, Y, b, h);
    const float     *D = r->c->in[SKIP];
    steps_of(e->s, r, b, h, k);
    load_rows(e->x, w->ldp, x, k * Q, q, r->d.P);
    decay_cb(e->Wt, r, p.BCt, e->s, q, r->d.C == 1 ? D[h] : 0);
    if (!empty)
        multiply(&(product){
            .size = { q, w->P, r->d.N }, .a = { p.Ct, w->ldq }, .b = { state, w->ldp }, .c = { e->y, w->ldp } });
    multiply(&(product){ .size = { q, w->P, q },
                         .a = { e->Wt, w->ldq },
                         .b = { e->x, w->ldp },
                         .c = { e->y, w->ldp },
                         .c0 = empty ? NULL : e->y,
                         .beta = e->s->in,
                         .beta_step = 1,
                         .a_part = BELOW });
    for (int64_t l = 0; l < q; l++) {
        float *to = y.p + (k * Q + l) * y.step, *from = e->y + l * w->ldp;
        for (int64_t i = 0; i < r->d.P && r->d.C > 1; i++) from[i] += D[h * r->d.P + i] * e->x[l * w->ldp + i];
        copy_row(to, from, 1, r->d.P);
    }
    if (k + 1 == w->chunks && !r->c->out[FINAL]) return;
    scale_rows(e->xw, e->x, w->ldp, e->s->feed, q, w->P);
    multiply(&(product){ .size = { r->d.N, w->P, q },
                         .a = { p.B, w->ldn },
                         .b = { e->xw, w->ldp },
                         .c = { state, w->ldp },
                         .c0 = empty ? NULL : state,
                         .beta = &e->s->all });
}

/* One work item. The loop over heads is the inner one, so that what heads share is in cache for the second head. */
static void fwd_block(const run *r, int64_t b, int64_t h0, float *mine)
{
    const ssd_work *w = &r->w;
    fwd_buffers     e = { .s = (ssd_steps *)mine };
    mine += SSD_STEPS;
    e.x = carve(&mine, Q * w->ldp);
    e.xw = carve(&mine, Q * w->ldp);
    e.y = carve(&mine, Q * w->ldp);
    e.Wt = carve(&mine, Q * w->ldq);
    e.states = mine;
    const mba_tensor *in = r->c->node->in[INITIAL], *out = r->c->node->out[FINAL];
    const int64_t     one = w->N * w->ldp;
    for (int64_t i = 0; i < w->block * r->d.P && in; i++) {
        const float *row = state_row(in, r->c->in[INITIAL], &r->d, b, h0, i);
        for (int64_t n = 0; n < r->d.N; n++) e.states[i / r->d.P * one + n * w->ldp + i % r->d.P] = row[n];
    }
    for (int64_t k = 0; k < w->chunks; k++)
        for (int64_t j = 0; j < w->block; j++) fwd_chunk(r, &e, e.states + j * one, b, h0 + j, k, k == 0 && !in);
    for (int64_t i = 0; i < w->block * r->d.P && out; i++) {
        float *row = state_row(out, r->c->out[FINAL], &r->d, b, h0, i);
        for (int64_t n = 0; n < r->d.N; n++) row[n] = e.states[i / r->d.P * one + n * w->ldp + i % r->d.P];
    }
}

mba_status MBA_CPU_FN(ssd_fwd)(const mba_call *c)
{
    run r = { .d = ssd_dims_of(c->node), .c = c };
    r.w = ssd_work_of(&r.d, false);
    run_slabs(&r, fwd_pack, fwd_block, NULL);
    return MBA_OK;
}
