// SPDX-License-Identifier: Apache-2.0
/* attention_wgmma_cuda.cu -- softmax attention with bf16 heads by wgmma, for Hopper: the passes of attention_cuda.cu.
 *
 *   o_t = sum_s p_ts v_s,   p_ts = exp(scale <q_t, k_s> - LSE_t)
 *   q, o (B, L, H, P)   k, v (B, Lk, Hk, P) bf16     LSE, delta (B, H, L) fp32
 *
 * kernel     attention_fwd_wgmma   128 queries per block, 64 per warpgroup; keys and values in tiles of 64, two ahead
 * takes      sm_90a, bf16, P 64 or 128, L and Lk >= 128, heads that begin at multiples of 16 bytes, scale > 0
 * launch     grid B H ceil(L/128), block 256, dynamic smem 128 + 3 x 128 rows of P bf16
 * resources  sm_90a, CUDA 13.0: 127 to 161 registers, no spill  [docs]
 *            two blocks per SM at P = 64
 * moves      q, o once; keys and values once per block, from L2: bound by tensor cores and exponentials alike at P = 64
 * floor      B=8 L=2048 H=16 P=64 causal: 69 GFLOP, 88 us at 780 TFLOP/s
 * measured   H200: 424 us, 41 % of floor (tensor), special 43 % busy; hybrid-headline, 4 x 4096  [docs]
 * order      fixed: keys ascend
 *
 * kernel     attention_bwd_wgmma   128 queries (dq, delta) or 192 keys (dk, dv) per block, 64 per warpgroup
 * takes      as forward
 * launch     grid B H ceil(L/128) (dq), block 256, then B Hk ceil(Lk/192) (dk, dv), block 384 (P = 128: 128, 256);
 *            dynamic smem 2 x P bf16 per row, and 3 x 128 rows of P bf16
 * resources  sm_90a, CUDA 13.0: 128 to 238 registers, no spill  [docs]
 * moves      q, k, v, do once per block, from L2 except for the first time (attention_together); 7 products instead of
 *            5, so that no sum needs atomics
 * floor      B=8 L=2048 H=16 P=64 causal: 172 GFLOP (5 products), 220 us at 780 TFLOP/s
 * measured   H200: 808 us, 43 % of floor (tensor), L1/shared 48 % busy; hybrid-headline, 4 x 4096  [docs]
 * order      fixed: columns ascend, heads of a group in order */
#include "device/cuda/wgmma.cuh"
#include "ops/attention/attention_tensor.cuh"

enum { COLUMNS = ATT_WGMMA_COLUMNS, STAGES = ATT_WGMMA_STAGES, GROUP = 64, N = COLUMNS / 8 };

/* Rows of a block; each has two threads. */
template <int PP, bool KEYS> struct rows_of {
    enum { N = KEYS && PP == 64 ? ATT_WGMMA_KEYS : ATT_WGMMA_ROWS };
};

/* R rows of a head: blocks of 64 columns, each a tile of mma.cuh. */
template <int PP, int R> struct tiles {
    unsigned char                             at[PP / 64][R * TILE_ROW_BYTES];
    __device__ __forceinline__ unsigned char *vec(int row, int i) { return at[i / 8] + tile_at(row, i % 8); }
};

template <int THREADS, int PP, int R>
static __device__ __forceinline__ void stage_rows(tiles<PP, R> &to, const bf16 *from, int64_t pitch, int first,
                                                  int rows)
{
    constexpr int VECTORS = PP / 8,
                  AT_ONCE = THREADS
                            / VECTORS; // rows per step: a multiple of 8, so a vector's swizzled column is constant
    const int      r = threadIdx.x / VECTORS, c = threadIdx.x % VECTORS;
    unsigned char *at = to.vec(r, c);
    from += (first + r) * pitch + c * 8;
#pragma unroll
    for (int i = 0; i < R; i += AT_ONCE)
        if (i + AT_ONCE <= R || i + r < R) cp_async16(at + i * TILE_ROW_BYTES, from + i * pitch, first + i + r < rows);
}

template <typename W> static __device__ __forceinline__ void stage_words(W *to, const W *from, int first, int rows)
{
    const int i = threadIdx.x;
    if (i < COLUMNS) cp_async4(to + i, first + i < rows ? from + first + i : from, first + i < rows);
}

/* s (64, 64) = a b^T, with 64 rows of a from `row` on. Does not wait for the product. */
template <int PP, int R>
static __device__ __forceinline__ void scores(float (&s)[N][4], const tiles<PP, R> &a, int row,
                                              const tiles<PP, COLUMNS> &b)
{
    const uint64_t x = tile_rows(a.at[0] + row * TILE_ROW_BYTES), y = tile_rows(b.at[0]);
    wgmma_rows<true>(s, x, y);
#pragma unroll
    for (int k = 1; k < PP / 16; k++)
        wgmma_rows<false>(s, step(x, k / 4 * R * TILE_ROW_BYTES + k % 4 * 32),
                          step(y, k / 4 * COLUMNS * TILE_ROW_BYTES + k % 4 * 32));
}

/* o (64, PP) += p b, with p rounded to bf16. Does not wait: the registers of p must stay valid until the product is
 * done. */
template <int PP>
static __device__ __forceinline__ void add_product(float (&o)[PP / 8][4], const uint32_t (&p)[COLUMNS / 16][4],
                                                   const tiles<PP, COLUMNS> &b)
{
    const uint64_t y = tile_columns(b.at[0], COLUMNS * TILE_ROW_BYTES);
#pragma unroll
    for (int k = 0; k < COLUMNS / 16; k++) wgmma_columns(o, p[k], step(y, k * 16 * TILE_ROW_BYTES));
}

static __device__ __forceinline__ void as_left(uint32_t (&x)[COLUMNS / 16][4], const float (&p)[N][4])
{
#pragma unroll
    for (int k = 0; k < COLUMNS / 16; k++) as_left(x[k], p, k);
}

/* ---- forward ---- */

template <int PP> struct fwd_smem {
    tiles<PP, ATT_WGMMA_ROWS> q;
    tiles<PP, COLUMNS>        k[STAGES], v[STAGES];
    int32_t                   ids[STAGES][COLUMNS];
};

template <int PP>
static __device__ __forceinline__ void stage_keys(fwd_smem<PP> &sm, const attention_operands<bf16> &p,
                                                  const rows_of_block &r, const mask_range &g, int slot, int first)
{
    constexpr int THREADS = 2 * ATT_WGMMA_ROWS;
    const int     head = r.head / p.group;
    stage_rows<THREADS>(sm.k[slot], p.k.of(r.b, head), p.k.row, first, p.Lk);
    stage_rows<THREADS>(sm.v[slot], p.v.of(r.b, head), p.v.row, first, p.Lk);
    if (g.ids) stage_words(sm.ids[slot], g.ids, first, p.Lk);
}

template <int PP>
__global__ void __launch_bounds__(2 * ATT_WGMMA_ROWS, PP == 64 ? 2 : 1)
    attention_fwd_wgmma(const __grid_constant__ attention_operands<bf16> p)
{
    constexpr int ROWS = ATT_WGMMA_ROWS;
    MBA_DYNAMIC_SMEM(smem);
    fwd_smem<PP>       &sm = *(fwd_smem<PP> *)smem;
    const rows_of_block r = rows_of_block_of(p, ROWS, false);
    const column_tiles  c = column_tiles_of(p, r.first, ROWS, COLUMNS, false);
    const mask_range    g = sight_of(p, r.b, false);
    const int           part = warpgroup() * GROUP, top = r.first + part, row = top + threadIdx.x / 32 % 4 * 16;
    stage_rows<2 * ROWS>(sm.q, p.q.of(r.b, r.head), p.q.row, r.first, p.L);
    for (int i = 0; i < STAGES - 1; i++) {
        if (c.first + i < c.last) stage_keys(sm, p, r, g, i, (c.first + i) * COLUMNS);
        cp_commit();
    }
    const float scale = p.scale * LOG2E;
    float       o[1][PP / 8][4];
    running<1>  w;
    zero(o[0]);
    nothing_yet(w);
    int slot = 0, free = STAGES - 1;
    for (int tile = c.first; tile < c.last; tile++) {
        const int first = tile * COLUMNS, next = tile + STAGES - 1;
        cp_wait<STAGES - 2>();
        fence_proxy_async();
        __syncthreads(); // the tile has arrived, and all warps are done with the previous one
        if (next < c.last) stage_keys(sm, p, r, g, free, next * COLUMNS);
        cp_commit();
        if (top < p.L && !sees_nothing<false>(g, top, GROUP, first, COLUMNS)) {
            float    s[1][N][4];
            uint32_t x[COLUMNS / 16][4];
            warpgroup_arrive();
            scores(s[0], sm.q, part, sm.k[slot]);
            warpgroup_commit_batch();
            warpgroup_wait<0>();
            opt_barrier(s[0]);
            if (!sees_all<false>(g, row, 16, first, COLUMNS)) hide<false>(s[0], g, row, p.L, first, sm.ids[slot]);
            soften(s, o, w, scale);
            as_left(x, s[0]);
            opt_barrier(o[0]);
            warpgroup_arrive();
            add_product<PP>(o[0], x, sm.v[slot]);
            warpgroup_commit_batch();
            warpgroup_wait<0>();
            opt_barrier(o[0]);
        }
        slot = slot + 1 == STAGES ? 0 : slot + 1;
        free = free + 1 == STAGES ? 0 : free + 1;
    }
    finish(w, p.lse + (r.b * p.H + r.head) * p.L, row, p.L, scale);
    put_rows(p.out.of(r.b, r.head), p.out.row, o[0], w.sum[0], row, p.L, PP, false);
}

/* ---- backward: rows x and columns y as in attention_cuda.cu ---- */

template <int PP, int ROWS> struct bwd_smem {
    tiles<PP, ROWS>    x1, x2;
    tiles<PP, COLUMNS> y1[STAGES], y2[STAGES];
    float              row_lse[ROWS], row_delta[ROWS], lse[STAGES][COLUMNS], delta[STAGES][COLUMNS];
    int32_t            ids[STAGES][COLUMNS];
};

template <bool KEYS, int PP, int ROWS>
static __device__ __forceinline__ void stage_columns(bwd_smem<PP, ROWS> &sm, const attention_operands<bf16> &p,
                                                     int64_t b, int head, const mask_range &g, int slot, int first)
{
    const heads<const bf16> &h1 = KEYS ? p.q : p.k, &h2 = KEYS ? p.dout : p.v;
    stage_rows<2 * ROWS>(sm.y1[slot], h1.of(b, head), h1.row, first, g.columns);
    stage_rows<2 * ROWS>(sm.y2[slot], h2.of(b, head), h2.row, first, g.columns);
    if (g.ids) stage_words(sm.ids[slot], g.ids, first, g.columns);
    if (KEYS) {
        stage_words(sm.lse[slot], (const float *)p.lse + (b * p.H + head) * p.L, first, g.columns);
        stage_words(sm.delta[slot], (const float *)p.delta + (b * p.H + head) * p.L, first, g.columns);
    }
}

/* Computes delta = <do, o> and loads LSE of the block's queries, for this pass and the next one. */
template <int PP, int ROWS>
static __device__ __forceinline__ void know_queries(bwd_smem<PP, ROWS> &sm, const attention_operands<bf16> &p,
                                                    const rows_of_block &r)
{
    const int     i = threadIdx.x, t = r.first + i;
    const int64_t at = (r.b * p.H + r.head) * p.L + t;
    if (i >= ROWS) return;
    float sum = 0;
    if (t < p.L) {
        const bf16 *o = p.o.of(r.b, r.head) + t * p.o.row;
#pragma unroll 2
        for (int c = 0; c < PP / 8; c++)
            sum = dot_vec16(*(const uint4 *)sm.x2.vec(i, c), *(const uint4 *)(o + c * 8), sum);
        p.delta[at] = sum;
    }
    sm.row_lse[i] = t < p.L ? p.lse[at] : 0;
    sm.row_delta[i] = sum;
}

template <int PP, bool KEYS>
__global__ void __launch_bounds__((2 * rows_of<PP, KEYS>::N), PP == 64 && !KEYS ? 2 : 1)
    attention_bwd_wgmma(const __grid_constant__ attention_operands<bf16> p)
{
    constexpr int ROWS = rows_of<PP, KEYS>::N;
    MBA_DYNAMIC_SMEM(smem);
    bwd_smem<PP, ROWS>      &sm = *(bwd_smem<PP, ROWS> *)smem;
    const rows_of_block      r = rows_of_block_of(p, ROWS, KEYS);
    const column_tiles       c = column_tiles_of(p, r.first, ROWS, COLUMNS, KEYS);
    const mask_range         g = sight_of(p, r.b, KEYS);
    const heads<const bf16> &h1 = KEYS ? p.k : p.q, &h2 = KEYS ? p.v : p.dout;
    const int                rows = KEYS ? p.Lk : p.L, steps = (c.last - c.first) * (KEYS ? p.group : 1);
    const int part = warpgroup() * GROUP, top = r.first + part, in_block = part + threadIdx.x / 32 % 4 * 16;
    int       ahead = c.first, head = KEYS ? r.head * p.group : r.head / p.group;
    auto      stage_next = [&](int slot) { // the query heads of a group follow each other
        stage_columns<KEYS>(sm, p, r.b, head, g, slot, ahead * COLUMNS);
        if (++ahead == c.last) {
                 ahead = c.first;
                 head++;
        }
    };
    stage_rows<2 * ROWS>(sm.x1, h1.of(r.b, r.head), h1.row, r.first, rows);
    stage_rows<2 * ROWS>(sm.x2, h2.of(r.b, r.head), h2.row, r.first, rows);
    for (int i = 0; i < STAGES - 1; i++) {
        if (i < steps) stage_next(i);
        cp_commit();
    }
    float row_lse[2] = { 0, 0 }, row_delta[2] = { 0, 0 };
    if (!KEYS) {
        cp_wait<STAGES - 2>();
        __syncthreads();
        know_queries(sm, p, r);
        __syncthreads();
#pragma unroll
        for (int i = 0; i < 2; i++) {
            row_lse[i] = sm.row_lse[in_block + threadIdx.x % 32 / 4 + i * 8];
            row_delta[i] = sm.row_delta[in_block + threadIdx.x % 32 / 4 + i * 8];
        }
    }
    const float scale = p.scale * LOG2E;
    float       d1[PP / 8][4], d2[KEYS ? PP / 8 : 1][4];
    zero(d1);
    zero(d2);
    int slot = 0, free = STAGES - 1, tile = c.first;
    for (int i = 0; i < steps; i++) {
        const int first = tile * COLUMNS;
        cp_wait<STAGES - 2>();
        fence_proxy_async();
        __syncthreads(); // the tile has arrived, and all warps are done with the previous one
        if (i + STAGES - 1 < steps) stage_next(free);
        cp_commit();
        if (top < rows && !sees_nothing<KEYS>(g, top, GROUP, first, COLUMNS)) {
            float    s[N][4], d[N][4];
            uint32_t x[COLUMNS / 16][4], y[KEYS ? COLUMNS / 16 : 1][4];
            warpgroup_arrive();
            scores(s, sm.x1, part, sm.y1[slot]);
            warpgroup_commit_batch();
            scores(d, sm.x2, part, sm.y2[slot]);
            warpgroup_commit_batch();
            warpgroup_wait<1>();
            opt_barrier(s);
            if (!sees_all<KEYS>(g, r.first + in_block, 16, first, COLUMNS))
                hide<KEYS>(s, g, r.first + in_block, rows, first, sm.ids[slot]);
            probabilities<KEYS>(s, scale, sm.lse[slot], row_lse);
            warpgroup_wait<0>();
            opt_barrier(d);
            gradients<KEYS>(d, s, sm.delta[slot], row_delta);
            as_left(x, d);
            if constexpr (KEYS) as_left(y, s);
            opt_barrier(d1);
            opt_barrier(d2);
            warpgroup_arrive();
            if constexpr (KEYS) add_product<PP>(d2, y, sm.y2[slot]);
            add_product<PP>(d1, x, sm.y1[slot]);
            warpgroup_commit_batch();
            warpgroup_wait<0>();
            opt_barrier(d1);
            opt_barrier(d2);
        }
        slot = slot + 1 == STAGES ? 0 : slot + 1;
        free = free + 1 == STAGES ? 0 : free + 1;
        if (++tile == c.last) tile = c.first;
    }
    const heads<bf16> &to = KEYS ? p.dk : p.dq;
    const float        factor[2] = { p.scale, p.scale }, one[2] = { 1, 1 };
    put_rows(to.of(r.b, r.head), to.row, d1, factor, r.first + in_block, rows, PP, p.adds >> (KEYS ? DK : DQ) & 1);
    if constexpr (KEYS)
        put_rows(p.dv.of(r.b, r.head), p.dv.row, d2, one, r.first + in_block, rows, PP, p.adds >> DV & 1);
}

/* ---- launchers ---- */

extern "C" mba_status attention_wgmma_cuda(const mba_call *c)
{
    attention_operands<bf16> p = attention_operands_of<bf16>(c);
    p.out = heads_at<bf16>(c->node->out[O], c->out[O]);
    p.lse = (float *)c->out[LSE];
    const bool narrow = p.P == 64;
    mba_assert((narrow ? sizeof(fwd_smem<64>) : sizeof(fwd_smem<128>)) <= c->plan->launch[0].smem_bytes);
    auto *kernel = narrow ? attention_fwd_wgmma<64> : attention_fwd_wgmma<128>;
    MBA_KERNEL(c, 0, kernel, p);
    return MBA_OK;
}

extern "C" mba_status attention_bwd_wgmma_cuda(const mba_call *c)
{
    const attention_operands<bf16> p = attention_bwd_operands_of<bf16>(c);
    const mba_launch              *l = c->plan->launch;
    const bool                     narrow = p.P == 64;
    const size_t                   wide = sizeof(bwd_smem<128, ATT_WGMMA_ROWS>);
    mba_assert((narrow ? sizeof(bwd_smem<64, ATT_WGMMA_ROWS>) : wide) <= l[0].smem_bytes);
    mba_assert((narrow ? sizeof(bwd_smem<64, ATT_WGMMA_KEYS>) : wide) <= l[1].smem_bytes);
    auto *queries = narrow ? attention_bwd_wgmma<64, false> : attention_bwd_wgmma<128, false>;
    auto *keys = narrow ? attention_bwd_wgmma<64, true> : attention_bwd_wgmma<128, true>;
    MBA_KERNEL(c, 0, queries, p);
    MBA_KERNEL(c, 1, keys, p);
    return MBA_OK;
}
