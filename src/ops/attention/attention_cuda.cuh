// SPDX-License-Identifier: Apache-2.0
/* attention_cuda.cuh -- shared by the CUDA kernels of attention: addresses of heads, and the tiles that a block
 * processes. */
#ifndef MBA_ATTENTION_CUDA_CUH
#define MBA_ATTENTION_CUDA_CUH

#include "device/cuda/common.cuh"
extern "C" {
#include "ops/attention/attention_slots.h"
#include "ops/heads.h"
}

#define LOG2E 1.4426950408889634f
#define LN2   0.6931471805599453f

/* Heads (B, L, H, P): row t of head h of sequence b is at + b batch + t row + h head. */
template <typename T> struct heads {
    T                            *at;
    int64_t                       batch, row, head;
    __device__ __forceinline__ T *of(int64_t b, int64_t h) const { return at + b * batch + h * head; }
};

template <typename T> struct attention_operands {
    heads<const T> q, k, v, dout, o;
    heads<T>       out, dq, dk, dv;
    const int32_t *ids; /* (B, L), ids_row apart */
    int64_t        ids_row;
    float         *lse;   /* (B, H, L) */
    float         *delta; /* (B, H, L), scratch: <do, o> */
    int            B, L, Lk, H, Hk, group, P;
    int            together[2]; /* attention_together for blocks of queries, of keys */
    float          scale;
    bool           causal;
    uint32_t       adds;
};

template <typename T> static inline heads<T> heads_at(const mba_tensor *t, void *at)
{
    heads<T>  h = {};
    mba_heads s;
    if (!t || !mba_heads_of(&s, t)) return h;
    h.at = (T *)at;
    h.batch = s.batch;
    h.row = s.row;
    h.head = s.head;
    return h;
}

template <typename T> static inline attention_operands<T> attention_operands_of(const mba_call *c)
{
    const mba_node       *n = c->node;
    const attention_attr *a = (const attention_attr *)n->attr;
    const attention_dims  d = attention_dims_of(n);
    attention_operands<T> p = {};
    p.q = heads_at<const T>(n->in[Q], c->in[Q]);
    p.k = heads_at<const T>(n->in[K], c->in[K]);
    p.v = heads_at<const T>(n->in[V], c->in[V]);
    if (n->in[IDS]) {
        p.ids = (const int32_t *)c->in[IDS];
        p.ids_row = mba_dense(n->in[IDS]) ? d.L : n->in[IDS]->pitch;
    }
    p.B = (int)d.B;
    p.L = (int)d.L;
    p.Lk = (int)d.Lk;
    p.P = (int)d.P;
    p.H = (int)d.H;
    p.Hk = (int)d.Hk;
    p.group = (int)d.group;
    for (int keys = 0; keys < 2; keys++) p.together[keys] = (int)attention_together(&d, sizeof(T), keys);
    p.scale = (float)a->scale;
    p.causal = a->causal;
    p.adds = n->adds;
    return p;
}

template <typename T> static inline attention_operands<T> attention_bwd_operands_of(const mba_call *c)
{
    const mba_node       *n = c->node;
    attention_operands<T> p = attention_operands_of<T>(c);
    p.dout = heads_at<const T>(n->in[DOUT], c->in[DOUT]);
    p.o = heads_at<const T>(n->in[OUT], c->in[OUT]);
    p.lse = (float *)c->in[LSES];
    p.delta = c->plan->nscratch ? (float *)mba_cuda_scratch(c, 0) : NULL;
    p.dq = heads_at<T>(n->out[DQ], c->out[DQ]);
    p.dk = heads_at<T>(n->out[DK], c->out[DK]);
    p.dv = heads_at<T>(n->out[DV], c->out[DV]);
    return p;
}

/* A block has `ROWS` rows of one head: queries, or keys (backward, KEYS). Keys are combined with the queries of all
 * heads of their group. */
struct rows_of_block {
    int     first, head;
    int64_t b;
};

/* Orders blocks so that rows with most work come first: causal queries from the end, causal keys from the beginning.
 * Heads run in turns, so that the columns of a turn stay in L2 (attention_together). */
template <typename T>
static __device__ __forceinline__ rows_of_block rows_of_block_of(const attention_operands<T> &p, int rows, bool keys)
{
    const int             H = keys ? p.Hk : p.H, tiles = ((keys ? p.Lk : p.L) + rows - 1) / rows;
    const attention_place at = attention_place_of(blockIdx.x, tiles, p.B * H, p.together[keys]);
    rows_of_block         r;
    r.first = (keys ? at.tile : tiles - 1 - at.tile) * rows;
    r.head = at.head % H;
    r.b = at.head / H;
    return r;
}

/* The column tiles first .. last-1 that are visible to some row of the block. */
struct column_tiles {
    int first, last;
};

template <typename T>
static __device__ __forceinline__ column_tiles column_tiles_of(const attention_operands<T> &p, int row, int rows,
                                                               int columns, bool keys)
{
    column_tiles c = { 0, ((keys ? p.L : p.Lk) + columns - 1) / columns };
    if (!p.causal) return c;
    if (keys) c.first = row / columns;                         // queries from the first key on
    else c.last = min(c.last, (row + rows - 1) / columns + 1); // keys up to the last query
    return c;
}

static __device__ __forceinline__ float masked(float score, bool sees) { return sees ? score : -INFINITY; }

#endif
