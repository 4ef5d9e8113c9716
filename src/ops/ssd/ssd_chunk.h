// SPDX-License-Identifier: Apache-2.0
/* ssd_chunk.h -- what the forward and backward pass of ssd on the CPU share: operands of a chunk, steps and decays,
 * scratch memory and the loop over work items (equations: ssd.md).
 *
 * The CPU has its own chunk of SSD_CHUNK tokens, whatever the node says: results depend on it only by rounding. Every
 * product is that of ssd_tile.h, so operands are stored with k as the outer axis.
 *
 *   1. pack: once per (sequence, group, chunk), what the heads of a group share: B, C, their transposes, C B^T
 *   2. block: one work item per (sequence, block of heads of a group)
 *
 * Masks (causal, resets) are zeros in C B^T. What they multiply must be finite, so buffers start as zeros. */
#ifndef MBA_SSD_CHUNK_H
#define MBA_SSD_CHUNK_H

#include <math.h>
#include <omp.h>
#include <string.h>

#include "core/device.h"
#include "ops/ssd/ssd_slots.h"
#include "ops/ssd/ssd_tile.h"

enum { Q = SSD_CHUNK };

typedef struct run {
    ssd_dims        d;
    ssd_work        w;
    const mba_call *c;
    int64_t         b0; /* first sequence of the slab */
} run;

static inline int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t length_of(const run *r, int64_t k) { return min64(Q, r->d.L - k * Q); }

/* ---- strided views ---- */

static inline int64_t place_of(const mba_tensor *t, int64_t i) { return i / t->run * t->pitch + i % t->run; }

/* Rows of one head (or group) of a sequence: row l is at p + l * step. A token has H rows of P values. */
typedef struct rows {
    float  *p;
    int64_t step;
} rows;

static inline rows rows_of(const mba_tensor *t, void *p, int64_t H, int64_t P, int64_t L, int64_t b, int64_t h)
{
    if (!t) return (rows){ 0 };
    const int64_t first = place_of(t, b * L * H * P), second = L > 1 ? place_of(t, (b * L + 1) * H * P) : first;
    return (rows){ (float *)p + place_of(t, (b * L * H + h) * P), second - first };
}

static inline rows head_in(const run *r, int slot, int64_t b, int64_t h)
{
    return rows_of(r->c->node->in[slot], r->c->in[slot], r->d.H, slot == DT ? 1 : r->d.P, r->d.L, b, h);
}
static inline rows head_out(const run *r, int slot, int64_t b, int64_t h)
{
    return rows_of(r->c->node->out[slot], r->c->out[slot], r->d.H, slot == DDT ? 1 : r->d.P, r->d.L, b, h);
}

/* A row of a state: (b, h, p). */
static inline float *state_row(const mba_tensor *t, void *p, const ssd_dims *d, int64_t b, int64_t h, int64_t i)
{
    return (float *)p + place_of(t, ((b * d->H + h) * d->P + i) * d->N);
}

/* y = s x. A loop, because a call of memcpy costs as much as the few vectors of a head. */
MBA_SIMD void copy_row(float *y, const float *x, float s, int64_t n)
{
    int64_t i = 0;
    for (; i + MBA_LANES <= n; i += MBA_LANES) vf_store(y + i, s * vf_load(x + i));
    for (; i < n; i++) y[i] = s * x[i];
}

/* Copies rows l0 .. l0 + n - 1 of x, of `width` values, to rows of stride ld; zeros if there is no x. */
static inline void load_rows(float *y, int64_t ld, rows x, int64_t l0, int64_t n, int64_t width)
{
    for (int64_t l = 0; l < n; l++) {
        if (x.p) copy_row(y + l * ld, x.p + (l0 + l) * x.step, 1, width);
        else memset(y + l * ld, 0, sizeof *y * (size_t)width);
    }
}

static inline void scale_rows(float *y, const float *x, int64_t ld, const float *s, int64_t n, int64_t width)
{
    for (int64_t l = 0; l < n; l++)
        for (int64_t i = 0; i < width; i += MBA_LANES) vf_store(y + l * ld + i, s[l] * vf_load(x + l * ld + i));
}

/* ---- resets and steps of a chunk ---- */

/* since[l]: first source that reaches position l. The entering state reaches positions before `first`; sources from
 * `last` on reach the end of the chunk. */
typedef struct resets {
    int64_t first, last;
    int32_t since[Q];
} resets;

static inline void resets_of(resets *m, const run *r, int64_t b, int64_t k)
{
    const mba_tensor *t = r->c->node->in[IDS];
    const int32_t    *ids = r->c->in[IDS];
    const int64_t     q = length_of(r, k), i0 = b * r->d.L + k * Q;
    *m = (resets){ .first = q };
    for (int64_t l = 0; l < q && ids; l++) {
        if (k * Q + l > 0 && ids[place_of(t, i0 + l)] != ids[place_of(t, i0 + l - 1)]) {
            m->first = min64(m->first, l);
            m->last = l;
        }
        m->since[l] = (int32_t)m->last;
    }
}

/* The decay from position s to l >= s, given cs_l - cs_s as high and low parts. Over a chunk cs grows to hundreds,
 * where its last bit would be visible in the decay between neighbours; with the residuals cs_low the difference is
 * accurate to its own last bit. Positive differences belong to masked pairs and must only stay finite. */
MBA_SIMD vf decay(vf high, vf low) { return vf_exp2_neg(vf_min(vf_set(0), high + low)); }

/* Computes the steps of a (chunk, head). Positions beyond the chunk's end must be finite: raw = 0, dt = 0. */
static inline void steps_of(ssd_steps *s, const run *r, int64_t b, int64_t h, int64_t k)
{
    const float  *A_log = r->c->in[A_LOG], *bias = r->c->in[DT_BIAS];
    const rows    raws = head_in(r, DT, b, h);
    const int64_t q = length_of(r, k);
    const double  rate = -exp((double)A_log[h]) * 1.4426950408889634; // log2 of the decay per unit of step
    const vf      lo = vf_set((float)r->d.dt_min), hi = vf_set((float)r->d.dt_max), zero = vf_set(0);
    resets        m;
    float         raw[Q] = { 0 };
    double        sum = 0;
    resets_of(&m, r, b, k);
    for (int64_t l = 0; l < q; l++) raw[l] = raws.p[(k * Q + l) * raws.step] + (bias ? bias[h] : 0);
    for (int64_t l = 0; l < Q; l += MBA_LANES) {
        const vf x = vf_load(raw + l), y = vf_softplus(x);
        vf_store(s->dt + l, vf_min(hi, vf_max(lo, y)));
        vf_store(s->slope + l, vf_select((y < lo) | (y > hi), zero, vf_sigmoid(x)));
    }
    for (int64_t l = 0; l < Q; l++) {
        if (l >= q) s->dt[l] = 0;
        s->cs[l] = (float)(sum += rate * s->dt[l]);
        s->cs_low[l] = (float)(sum - (double)s->cs[l]);
    }
    for (int64_t l = 0; l < Q; l += MBA_LANES) {
        vf_store(s->in + l, vf_exp2_neg(vf_load(s->cs + l)));
        vf_store(s->out + l, decay(s->cs[Q - 1] - vf_load(s->cs + l), s->cs_low[Q - 1] - vf_load(s->cs_low + l)));
    }
    s->all = m.first < q ? 0 : s->in[q - 1];
    for (int64_t l = m.first; l < q; l++) s->in[l] = 0;
    for (int64_t l = 0; l < m.last; l++) s->out[l] = 0;
    for (int64_t l = 0; l < Q; l++) s->feed[l] = s->dt[l] * s->out[l];
}

/* ---- what the heads of a group share ---- */

/* Packs rows of B or C of a chunk, padded with zeros to whole vectors. */
static inline void pack_rows(float *y, const run *r, int slot, int64_t b, int64_t g, int64_t k)
{
    const int64_t q = length_of(r, k);
    const rows    x = rows_of(r->c->node->in[slot], r->c->in[slot], r->d.G, r->d.N, r->d.L, b, g);
    for (int64_t l = 0; l < Q; l++) memset(y + l * r->w.ldn + r->d.N, 0, sizeof *y * (size_t)(r->w.ldn - r->d.N));
    for (int64_t l = q; l < Q; l++) memset(y + l * r->w.ldn, 0, sizeof *y * (size_t)r->d.N);
    load_rows(y, r->w.ldn, x, k * Q, q, r->d.N);
}

static inline float *packed_of(const run *r, int64_t b, int64_t g, int64_t k)
{
    return (float *)(r->c->work + r->c->plan->scratch[r->w.scratch_packed].offset)
           + (((b - r->b0) * r->d.G + g) * r->w.chunks + k) * r->w.packed;
}

/* The number of threads, limited by the scratch of the plan, and the buffers of one thread. */
static inline int thread_count(const run *r)
{
    const size_t one = sizeof(float) * (size_t)(r->w.buffers + r->w.states);
    const int    planned = (int)(r->c->plan->scratch[r->w.scratch_thread].bytes / one), now = mba_cpu_threads();
    return planned < now ? planned : now;
}
static inline float *thread_buffer(const run *r, int thread)
{
    return (float *)(r->c->work + r->c->plan->scratch[r->w.scratch_thread].offset)
           + (int64_t)thread * (r->w.buffers + r->w.states);
}
static inline void clear_buffers(const run *r)
{
    for (int i = 0; i < thread_count(r); i++) memset(thread_buffer(r, i), 0, sizeof(float) * (size_t)r->w.buffers);
}
/* The buffer of `pack`: the end of the thread's buffers, so that the zeros of the rest stay intact. */
static inline float *pack_buffer(const run *r, int thread, int64_t n)
{
    return thread_buffer(r, thread) + r->w.buffers - n;
}

/* Runs one pass over a slab of sequences at a time: `pack` for every (sequence, group, chunk), `block` for every
 * (sequence, block of heads), then `reduce`, if any, for every (sequence, group, chunk). */
typedef void chunk_fn(const run *r, int64_t b, int64_t g, int64_t k, int thread);
typedef void block_fn(const run *r, int64_t b, int64_t h0, float *mine);

static inline void for_chunks(const run *r, int64_t B, int threads, chunk_fn *fn)
{
    const int64_t GK = r->d.G * r->w.chunks;
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads)
    for (int64_t i = 0; i < B * GK; i++)
        fn(r, r->b0 + i / GK, i / r->w.chunks % r->d.G, i % r->w.chunks, omp_get_thread_num());
}

static inline void run_slabs(run *r, chunk_fn *pack, block_fn *block, chunk_fn *reduce)
{
    const int     threads = thread_count(r);
    const int64_t blocks = r->d.H / r->w.block;
    clear_buffers(r);
    for (; r->b0 < r->d.B; r->b0 += r->w.slab) {
        const int64_t B = min64(r->w.slab, r->d.B - r->b0);
        for_chunks(r, B, threads, pack);
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads)
        for (int64_t i = 0; i < B * blocks; i++)
            block(r, r->b0 + i / blocks, i % blocks * r->w.block, thread_buffer(r, omp_get_thread_num()));
        if (reduce) for_chunks(r, B, threads, reduce);
    }
}

/* Takes n floats from a buffer and advances it. */
static inline float *carve(float **from, int64_t n)
{
    float *p = *from;
    *from += n;
    return p;
}

#endif
