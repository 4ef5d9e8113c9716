// SPDX-License-Identifier: Apache-2.0
/* ssd_bwd_cpu.c -- ssd backward on the CPU (variant `streaming`), equations of ssd.md.
 *
 * A work item (block of heads) first recomputes the states that enter its chunks, then processes the chunks from the
 * last to the first: dx, ddt, and its contribution to dB, dC and dCB. These are summed over the heads of the item; a
 * last step adds the items of a group in a fixed order. All products are those of ssd_tile.h; ssd_chunk.h has the
 * rest. */
#include "ops/ssd/ssd_chunk.h"

static const float ONE = 1;

static void load_scaled_rows(float *y, int64_t ld, rows x, int64_t l0, const float *s, int64_t n, int64_t width)
{
    for (int64_t l = 0; l < n; l++) copy_row(y + l * ld, x.p + (l0 + l) * x.step, s[l], width);
}

/* ---- loops over whole vectors ---- */

static void scale_columns(float *y, const float *x, int64_t ld, const float *s, int64_t n, int64_t width)
{
    for (int64_t l = 0; l < n; l++)
        for (int64_t i = 0; i < width; i += MBA_LANES)
            vf_store(y + l * ld + i, vf_load(s + i) * vf_load(x + l * ld + i));
}

static float dot(const float *x, const float *y, int64_t n)
{
    vf s = vf_set(0), t = s;
    for (int64_t i = 0; i < n; i += MBA_LANES) {
        s += vf_load(x + i) * vf_load(y + i);
        if ((i += MBA_LANES) < n) t += vf_load(x + i) * vf_load(y + i);
    }
    return vf_sum(s + t);
}

static void add_to(float *y, const float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i += MBA_LANES) vf_store(y + i, vf_load(y + i) + vf_load(x + i));
}

/* ---- what the heads of a group share, and partial sums ---- */

typedef struct bwd_packed {
    float *Bt, *B, *C, *CB;
} bwd_packed; /* (N, s), (s, N), (l, N), (l, s) */

static bwd_packed bwd_packed_of(const run *r, int64_t b, int64_t g, int64_t k)
{
    float     *p = packed_of(r, b, g, k);
    bwd_packed s;
    s.Bt = carve(&p, r->w.N * r->w.ldq);
    s.B = carve(&p, Q * r->w.ldn);
    s.C = carve(&p, Q * r->w.ldn);
    s.CB = p;
    return s;
}

/* Writes zeros where the source comes after l, or a reset lies between. */
static void mask_cb(float *CB, const run *r, const resets *m, int64_t q)
{
    for (int64_t l = 0; l < q; l++) {
        memset(CB + l * r->w.ldq, 0, sizeof *CB * (size_t)m->since[l]);
        memset(CB + l * r->w.ldq + l + 1, 0, sizeof *CB * (size_t)(Q - l - 1));
    }
}

static void bwd_pack(const run *r, int64_t b, int64_t g, int64_t k, int thread)
{
    const ssd_work  *w = &r->w;
    const bwd_packed p = bwd_packed_of(r, b, g, k);
    const int64_t    q = length_of(r, k);
    float           *Ct = pack_buffer(r, thread, w->N * w->ldq);
    resets           m;
    resets_of(&m, r, b, k);
    pack_rows(p.B, r, BM, b, g, k);
    pack_rows(p.C, r, CM, b, g, k);
    transpose(p.Bt, w->ldq, p.B, w->ldn, Q, w->N);
    transpose(Ct, w->ldq, p.C, w->ldn, Q, w->N);
    multiply(&(product){
        .size = { q, Q, r->d.N }, .a = { Ct, w->ldq }, .b = { p.Bt, w->ldq }, .c = { p.CB, w->ldq }, .c_part = BELOW });
    mask_cb(p.CB, r, &m, q);
}

/* Sums over the heads of a block, per chunk; dCB is not yet masked. */
typedef struct bwd_part {
    float *dB, *dC, *dCB;
} bwd_part;

static bwd_part bwd_part_of(const run *r, int64_t b, int64_t h, int64_t k)
{
    float *p = (float *)(r->c->work + r->c->plan->scratch[r->w.scratch_part].offset)
               + (((b - r->b0) * (r->d.H / r->w.block) + h / r->w.block) * r->w.chunks + k) * r->w.part;
    return (bwd_part){ .dB = p, .dC = p + Q * r->w.ldn, .dCB = p + 2 * Q * r->w.ldn };
}

/* Parameter gradients of a head from one sequence: dA_log / A, ddt_bias, then dD per channel. */
static float *bwd_param_of(const run *r, int64_t b, int64_t h)
{
    return (float *)(r->c->work + r->c->plan->scratch[r->w.scratch_param].offset) + (b * r->d.H + h) * (r->w.P + 2);
}

typedef struct bwd_buffers {
    float     *x, *dy, *dyw, *acc;           /* (l, P) */
    float     *xt, *dyt, *xwt, *dywt;        /* (P, l) */
    float     *U, *Z;                        /* (l, s): (C_l . B_s) decay; dy_l . x_s */
    float     *G, *dC;                       /* (P, N): gradient of the leaving state; (l, N) */
    float     *col, *across, *r, *q, *dstep; /* sums for the gradient of the decay, per position */
    float     *Gt, *skip;                    /* per head of the block: G as (N, P); dD */
    float     *states;                       /* per head and chunk: (P, N), entering */
    ssd_steps *steps;                        /* per head and chunk */
} bwd_buffers;

static bwd_buffers bwd_buffers_of(const run *r, float *mine)
{
    const ssd_work *w = &r->w;
    const int64_t   qp = Q * w->ldp, pq = w->P * w->ldq, qq = Q * w->ldq;
    float          *p = mine + w->buffers;
    bwd_buffers     e;
    e.x = carve(&mine, qp);
    e.dy = carve(&mine, qp);
    e.dyw = carve(&mine, qp);
    e.acc = carve(&mine, qp);
    e.xt = carve(&mine, pq);
    e.dyt = carve(&mine, pq);
    e.xwt = carve(&mine, pq);
    e.dywt = carve(&mine, pq);
    e.U = carve(&mine, qq);
    e.Z = carve(&mine, qq);
    e.G = carve(&mine, w->P * w->ldn);
    e.dC = carve(&mine, Q * w->ldn);
    e.col = carve(&mine, Q);
    e.across = carve(&mine, Q);
    e.r = carve(&mine, Q);
    e.q = carve(&mine, Q);
    e.dstep = carve(&mine, Q);
    e.Gt = carve(&mine, w->block * w->N * w->ldp);
    e.skip = carve(&mine, w->block * (w->P + SSD_PAD));
    e.states = carve(&p, w->block * w->chunks * w->P * w->ldn);
    e.steps = (ssd_steps *)p;
    return e;
}

/* One (chunk, head) of the block. */
typedef struct chunk_of_head {
    int64_t b, h, j, k, q; /* sequence, head, its number in the block, chunk, positions */
    bool    starts, ends;  /* no state enters; no gradient of a state comes from later chunks */
    bool    first;         /* first head of its block: partial sums are stored, not added */
} chunk_of_head;

static float *state_at(const run *r, const bwd_buffers *e, int64_t j, int64_t k)
{
    return e->states + (j * r->w.chunks + k) * r->w.P * r->w.ldn;
}
static ssd_steps *steps_at(const run *r, const bwd_buffers *e, int64_t j, int64_t k)
{
    return e->steps + j * r->w.chunks + k;
}
static float *adjoint_at(const run *r, const bwd_buffers *e, int64_t j) { return e->Gt + j * r->w.N * r->w.ldp; }

/* Computes the states that enter the chunks of a head, as in the forward pass but stored as (P, N). */
static void compute_states(const run *r, const bwd_buffers *e, int64_t b, int64_t h, int64_t j)
{
    const ssd_work   *w = &r->w;
    const mba_tensor *in = r->c->node->in[INITIAL];
    for (int64_t p = 0; p < r->d.P && in; p++) {
        float *to = state_at(r, e, j, 0) + p * w->ldn;
        memcpy(to, state_row(in, r->c->in[INITIAL], &r->d, b, h, p), sizeof *to * (size_t)r->d.N);
        memset(to + r->d.N, 0, sizeof *to * (size_t)(w->ldn - r->d.N));
    }
    for (int64_t k = 0; k < w->chunks; k++) {
        ssd_steps    *s = steps_at(r, e, j, k);
        const int64_t q = length_of(r, k);
        const bool    empty = k == 0 && !in;
        steps_of(s, r, b, h, k);
        if (k + 1 == w->chunks) break;
        load_scaled_rows(e->x, w->ldp, head_in(r, X, b, h), k * Q, s->feed, q, r->d.P);
        multiply(&(product){ .size = { r->d.P, w->N, q },
                             .a = { e->x, w->ldp },
                             .b = { bwd_packed_of(r, b, h / r->d.J, k).B, w->ldn },
                             .c = { state_at(r, e, j, k + 1), w->ldn },
                             .c0 = empty ? NULL : state_at(r, e, j, k),
                             .beta = &s->all });
    }
}

/* Computes Z = dy x^T below the diagonal, and from it U, the contribution to dCB, and across[l]: the sum of M over the
 * pairs i < l <= j, which position l lies between. Rows run from the last to the first, so that col[i] is the sum over
 * rows j >= l. A difference of sums would leave rounding errors behind. */
static void pairs_backward(const run *r, const bwd_buffers *e, const chunk_of_head *o, const float *CB, float *dCB)
{
    const ssd_steps *s = steps_at(r, e, o->j, o->k);
    const int64_t    ld = r->w.ldq;
    vi               count = { 0 };
    for (int i = 0; i < MBA_LANES; i++) count[i] = i;
    multiply(&(product){
        .size = { o->q, Q, r->d.P }, .a = { e->dyt, ld }, .b = { e->xt, ld }, .c = { e->Z, ld }, .c_part = BELOW });
    memset(e->col, 0, sizeof *e->col * Q);
    for (int64_t l = o->q - 1; l >= 0; l--) {
        vf sum = vf_set(0);
        for (int64_t i = 0; i < Q && i < l + ROWS; i += MBA_LANES) { // register tiles read beyond it
            const vf keep = decay(s->cs[l] - vf_load(s->cs + i), s->cs_low[l] - vf_load(s->cs_low + i));
            const vf u = vf_load(CB + l * ld + i) * keep, z = vf_load(s->dt + i) * vf_load(e->Z + l * ld + i);
            const vf col = vf_load(e->col + i) + vf_select(count + (int32_t)i < (int32_t)l, u * z, vf_set(0));
            vf_store(e->U + l * ld + i, u);
            vf_store(dCB + l * ld + i, o->first ? keep * z : vf_load(dCB + l * ld + i) + keep * z);
            vf_store(e->col + i, col);
            sum += vf_select(count + (int32_t)i < (int32_t)l, col, vf_set(0));
        }
        e->across[l] = vf_sum(sum);
    }
}

/* Computes dx, the gradient of the explicit factor dt (dstep), and r, which passes through the leaving state. */
static void inputs_backward(const run *r, const bwd_buffers *e, const chunk_of_head *o, const float *Bt)
{
    const ssd_work  *w = &r->w;
    const ssd_steps *s = steps_at(r, e, o->j, o->k);
    const rows       dx = head_out(r, DX, o->b, o->h);
    const float     *D = r->c->in[SKIP];
    memset(e->r, 0, sizeof *e->r * Q);
    if (!o->ends) {
        multiply(&(product){ .size = { o->q, w->P, r->d.N },
                             .a = { Bt, w->ldq },
                             .b = { adjoint_at(r, e, o->j), w->ldp },
                             .c = { e->acc, w->ldp } });
        for (int64_t l = 0; l < o->q; l++) e->r[l] = s->feed[l] * dot(e->acc + l * w->ldp, e->x + l * w->ldp, w->P);
    }
    multiply(&(product){ .size = { o->q, w->P, o->q },
                         .a = { e->U, w->ldq },
                         .a_part = ABOVE,
                         .b = { e->dy, w->ldp },
                         .c = { e->acc, w->ldp },
                         .c0 = o->ends ? NULL : e->acc,
                         .beta = s->out,
                         .beta_step = 1 });
    for (int64_t l = 0; l < o->q; l++) {
        const float *acc = e->acc + l * w->ldp, *dy = e->dy + l * w->ldp;
        float       *to = dx.p + (o->k * Q + l) * dx.step;
        const bool   adds = mba_adds(r->c->node, DX);
        const float  skip = r->d.C == 1 ? D[o->h] : 0;
        e->dstep[l] = dot(acc, e->x + l * w->ldp, w->P);
        for (int64_t p = 0; p < r->d.P; p++)
            to[p] = (adds ? to[p] : 0) + s->dt[l] * acc[p] + (r->d.C > 1 ? D[o->h * r->d.P + p] : skip) * dy[p];
    }
}

/* Adds the contributions to dB and dC through the states, and moves the adjoint back by one chunk. Returns
 * exp(cs_end) <H, G'>. */
static float states_backward(const run *r, const bwd_buffers *e, const chunk_of_head *o, const bwd_packed *p,
                             const bwd_part *part)
{
    const ssd_work  *w = &r->w;
    const ssd_steps *s = steps_at(r, e, o->j, o->k);
    float           *Gt = adjoint_at(r, e, o->j), *state = state_at(r, e, o->j, o->k), through = 0;
    const int64_t    part_bytes = (int64_t)sizeof(float) * o->q * w->ldn;
    if (!o->ends) {
        transpose(e->G, w->ldn, Gt, w->ldp, w->N, w->P);
        scale_columns(e->xwt, e->xt, w->ldq, s->feed, r->d.P, Q);
        multiply(&(product){ .size = { o->q, w->N, r->d.P },
                             .a = { e->xwt, w->ldq },
                             .b = { e->G, w->ldn },
                             .c = { part->dB, w->ldn },
                             .c0 = o->first ? NULL : part->dB,
                             .beta = &ONE });
    } else if (o->first) memset(part->dB, 0, (size_t)part_bytes);
    memset(e->q, 0, sizeof *e->q * Q);
    if (!o->starts) {
        scale_columns(e->dywt, e->dyt, w->ldq, s->in, r->d.P, Q);
        float *dC = o->first ? part->dC : e->dC;
        multiply(&(product){
            .size = { o->q, w->N, r->d.P }, .a = { e->dywt, w->ldq }, .b = { state, w->ldn }, .c = { dC, w->ldn } });
        for (int64_t l = 0; l < o->q; l++) {
            e->q[l] = dot(dC + l * w->ldn, p->C + l * w->ldn, w->N);
            if (!o->first) add_to(part->dC + l * w->ldn, dC + l * w->ldn, w->N);
        }
    } else if (o->first) memset(part->dC, 0, (size_t)part_bytes);
    for (int64_t i = 0; i < r->d.P && !o->starts && !o->ends; i++)
        through += dot(state + i * w->ldn, e->G + i * w->ldn, w->N);
    if (o->k > 0 || r->c->out[DINITIAL]) {
        scale_rows(e->dyw, e->dy, w->ldp, s->in, o->q, w->P);
        multiply(&(product){ .size = { r->d.N, w->P, o->q },
                             .a = { p->C, w->ldn },
                             .b = { e->dyw, w->ldp },
                             .c = { Gt, w->ldp },
                             .c0 = o->ends ? NULL : Gt,
                             .beta = &s->all });
    }
    return s->all * through;
}

/* Computes ddA of each step from all that passes over it (the state to the end of the chunk, reads at or after it,
 * sources before it, pairs around it), then ddt. */
static void steps_backward(const run *r, const bwd_buffers *e, const chunk_of_head *o, float dchunk)
{
    const ssd_steps *s = steps_at(r, e, o->j, o->k);
    const rows       ddt = head_out(r, DDT, o->b, o->h);
    const bool       adds = mba_adds(r->c->node, DDT);
    const double     A = -exp((double)((const float *)r->c->in[A_LOG])[o->h]);
    float           *param = bwd_param_of(r, o->b, o->h);
    double           fed = dchunk, sum_A = 0, sum_raw = 0;
    for (int64_t l = o->q - 2; l >= 0; l--) e->q[l] += e->q[l + 1]; // suffix sum: reads at l and later
    for (int64_t l = 0; l < o->q; l++) {
        const double ddA = fed + (double)e->q[l] + (double)e->across[l];
        const double raw = (A * ddA + e->dstep[l]) * s->slope[l];
        float       *to = ddt.p + (o->k * Q + l) * ddt.step;
        *to = (adds ? *to : 0) + (float)raw;
        sum_raw += raw;
        sum_A += ddA * s->dt[l];
        fed += (double)e->r[l];
    }
    param[0] += (float)sum_A;
    param[1] += (float)sum_raw;
}

static void bwd_chunk(const run *r, const bwd_buffers *e, const chunk_of_head *o)
{
    const ssd_work  *w = &r->w;
    const bwd_packed p = bwd_packed_of(r, o->b, o->h / r->d.J, o->k);
    const bwd_part   part = bwd_part_of(r, o->b, o->h, o->k);
    float           *skip = e->skip + o->j * (w->P + SSD_PAD);
    load_rows(e->x, w->ldp, head_in(r, X, o->b, o->h), o->k * Q, o->q, r->d.P);
    load_rows(e->dy, w->ldp, head_in(r, DY, o->b, o->h), o->k * Q, o->q, r->d.P);
    transpose(e->xt, w->ldq, e->x, w->ldp, Q, w->P);
    transpose(e->dyt, w->ldq, e->dy, w->ldp, Q, w->P);
    pairs_backward(r, e, o, p.CB, part.dCB);
    inputs_backward(r, e, o, p.Bt);
    steps_backward(r, e, o, states_backward(r, e, o, &p, &part));
    for (int64_t i = 0; i < w->P && r->d.C; i += MBA_LANES) {
        vf sum = vf_load(skip + i);
        for (int64_t l = 0; l < o->q; l++) sum += vf_load(e->dy + l * w->ldp + i) * vf_load(e->x + l * w->ldp + i);
        vf_store(skip + i, sum);
    }
}

/* The adjoint starts as the gradient of the final state and ends as that of the initial one. */
static void load_adjoint(const run *r, const bwd_buffers *e, int64_t b, int64_t h, int64_t j)
{
    const mba_tensor *t = r->c->node->in[DFINAL];
    for (int64_t p = 0; p < r->d.P && t; p++) {
        const float *row = state_row(t, r->c->in[DFINAL], &r->d, b, h, p);
        for (int64_t n = 0; n < r->d.N; n++) adjoint_at(r, e, j)[n * r->w.ldp + p] = row[n];
    }
}

static void store_adjoint(const run *r, const bwd_buffers *e, int64_t b, int64_t h, int64_t j)
{
    const mba_tensor *t = r->c->node->out[DINITIAL];
    for (int64_t p = 0; p < r->d.P && t; p++) {
        float *row = state_row(t, r->c->out[DINITIAL], &r->d, b, h, p);
        for (int64_t n = 0; n < r->d.N; n++)
            row[n] = (mba_adds(r->c->node, DINITIAL) ? row[n] : 0) + adjoint_at(r, e, j)[n * r->w.ldp + p];
    }
}

static void bwd_block(const run *r, int64_t b, int64_t h0, float *mine)
{
    const ssd_work   *w = &r->w;
    const bwd_buffers e = bwd_buffers_of(r, mine);
    memset(e.skip, 0, sizeof *e.skip * (size_t)(w->block * (w->P + SSD_PAD)));
    for (int64_t j = 0; j < w->block; j++) {
        memset(bwd_param_of(r, b, h0 + j), 0, sizeof(float) * 2);
        compute_states(r, &e, b, h0 + j, j);
        load_adjoint(r, &e, b, h0 + j, j);
    }
    for (int64_t k = w->chunks - 1; k >= 0; k--)
        for (int64_t j = 0; j < w->block; j++)
            bwd_chunk(r, &e,
                      &(chunk_of_head){ .b = b,
                                        .h = h0 + j,
                                        .j = j,
                                        .k = k,
                                        .q = length_of(r, k),
                                        .first = j == 0,
                                        .starts = k == 0 && !r->c->in[INITIAL],
                                        .ends = k + 1 == w->chunks && !r->c->in[DFINAL] });
    for (int64_t j = 0; j < w->block; j++) {
        store_adjoint(r, &e, b, h0 + j, j);
        memcpy(bwd_param_of(r, b, h0 + j) + 2, e.skip + j * (w->P + SSD_PAD), sizeof(float) * (size_t)w->P);
    }
}

static void store_group(const run *r, int out, const float *x, int64_t b, int64_t g, int64_t k)
{
    const rows y = rows_of(r->c->node->out[out], r->c->out[out], r->d.G, r->d.N, r->d.L, b, g);
    const bool adds = mba_adds(r->c->node, out);
    for (int64_t l = 0; l < length_of(r, k); l++) {
        float *to = y.p + (k * Q + l) * y.step;
        for (int64_t n = 0; n < r->d.N; n++) to[n] = (adds ? to[n] : 0) + x[l * r->w.ldn + n];
    }
}

/* dB and dC of a chunk: adds the partial sums of all blocks in order, then the products with dCB. */
static void bwd_group(const run *r, int64_t b, int64_t g, int64_t k, int thread)
{
    const ssd_work  *w = &r->w;
    const bwd_packed p = bwd_packed_of(r, b, g, k);
    const bwd_part   sum = bwd_part_of(r, b, g * r->d.J, k);
    float           *transposed = bwd_buffers_of(r, thread_buffer(r, thread)).U;
    const int64_t    q = length_of(r, k);
    resets           m;
    for (int64_t j = w->block; j < r->d.J; j += w->block) {
        const bwd_part part = bwd_part_of(r, b, g * r->d.J + j, k);
        add_to(sum.dB, part.dB, q * w->ldn);
        add_to(sum.dC, part.dC, q * w->ldn);
        for (int64_t l = 0; l < q; l++) add_to(sum.dCB + l * w->ldq, part.dCB + l * w->ldq, l + 1);
    }
    resets_of(&m, r, b, k);
    mask_cb(sum.dCB, r, &m, q);
    transpose(transposed, w->ldq, sum.dCB, w->ldq, Q, Q);
    multiply(&(product){ .size = { q, w->N, q },
                         .a = { sum.dCB, w->ldq },
                         .b = { p.C, w->ldn },
                         .c = { sum.dB, w->ldn },
                         .c0 = sum.dB,
                         .beta = &ONE,
                         .a_part = ABOVE });
    multiply(&(product){ .size = { q, w->N, q },
                         .a = { transposed, w->ldq },
                         .b = { p.B, w->ldn },
                         .c = { sum.dC, w->ldn },
                         .c0 = sum.dC,
                         .beta = &ONE,
                         .a_part = BELOW });
    store_group(r, DBM, sum.dB, b, g, k);
    store_group(r, DCM, sum.dC, b, g, k);
}

/* Sums the parameter gradients over sequences, in order. */
static void bwd_params(const run *r)
{
    const mba_call *c = r->c;
    float          *dA = c->out[DA_LOG], *dbias = c->out[DDT_BIAS], *dD = c->out[DSKIP];
    for (int64_t h = 0; h < r->d.H; h++) {
        double A = 0, bias = 0, skip = 0;
        for (int64_t b = 0; b < r->d.B; b++) {
            A += (double)bwd_param_of(r, b, h)[0];
            bias += (double)bwd_param_of(r, b, h)[1];
        }
        A *= -exp((double)((const float *)c->in[A_LOG])[h]);
        dA[h] = (float)((mba_adds(c->node, DA_LOG) ? (double)dA[h] : 0) + A);
        if (dbias) dbias[h] = (float)((mba_adds(c->node, DDT_BIAS) ? (double)dbias[h] : 0) + bias);
        for (int64_t p = 0; p < r->d.P && dD; p++) {
            for (int64_t b = 0; b < r->d.B; b++) skip += (double)bwd_param_of(r, b, h)[2 + p];
            if (r->d.C == 1 && p + 1 < r->d.P) continue; // one D per head: sum all channels first
            float *to = dD + (r->d.C == 1 ? h : h * r->d.P + p);
            *to = (float)((mba_adds(c->node, DSKIP) ? (double)*to : 0) + skip);
            skip = 0;
        }
    }
}

mba_status MBA_CPU_FN(ssd_bwd)(const mba_call *c)
{
    run r = { .d = ssd_dims_of(c->node), .c = c };
    r.w = ssd_work_of(&r.d, true);
    run_slabs(&r, bwd_pack, bwd_block, bwd_group);
    bwd_params(&r);
    return MBA_OK;
}
