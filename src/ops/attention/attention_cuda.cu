// SPDX-License-Identifier: Apache-2.0
/* attention_cuda.cu -- softmax attention with bf16 heads on the tensor cores by mma.sync, forward and backward.
 *
 *   o_t = sum_s p_ts v_s,   p_ts = exp(scale <q_t, k_s> - LSE_t)
 *   q, o (B, L, H, P)   k, v (B, Lk, Hk, P) bf16     LSE, delta (B, H, L) fp32
 *
 * kernel     attention_fwd_mma     32 queries per warp; keys and values in tiles of 64, the next one copied ahead
 * takes      bf16, P <= 128 and a multiple of 8, heads that begin at multiples of 16 bytes, scale > 0
 * launch     grid B H ceil(L / (32 warps)), block 32 to 128, a query per thread
 * resources  sm_90a, CUDA 13.0: 139 to 218 registers, no spill  [docs]
 * moves      q, o once; keys and values once per block, from L2: bound by the tensor cores, short rows by DRAM
 * measured   H200: 74 us, 22 % of floor (memory); mambavision-t, 128 images  [docs]
 * order      fixed: keys ascend
 *
 * kernel     attention_bwd_mma     rows are queries (dq, delta) or keys (dk, dv), 32 per warp (16 if P > 64)
 * takes      as forward
 * launch     grid B H ceil(L/128) (dq), then B Hk ceil(Lk/128) (dk, dv), block 128; half the rows if P > 64
 * resources  sm_90a, CUDA 13.0: 142 to 242 registers, no spill  [docs]
 * moves      q, k, v, do once per block and again from L2; 7 products instead of 5, so that no sum needs atomics
 * measured   not yet  [docs]
 * order      fixed: columns ascend, heads of a group in order
 *
 * kernel     attention_bwd_one_tile   one block per head: q, k, v and do stay in shared memory for both passes
 * takes      as forward, L and Lk <= 256, P <= 64, a key head for each query head
 * launch     grid B H, block 32 to 128, dynamic smem 4 max(L, Lk) rows of P + 8 bf16
 * resources  sm_90a, CUDA 13.0: 176 to 250 registers, no spill  [docs]
 * moves      every operand once: bound by DRAM
 * measured   H200: 181 us, 18 % of floor (memory), L1/shared 57 % busy; mambavision-t, 128 images  [docs]
 * order      fixed: columns ascend */
#include "ops/attention/attention_tensor.cuh"

enum { COLUMNS = ATT_MMA_COLUMNS }; /* columns per tile; a step takes 8 N of them */

template <int PP> struct tile_row {
    bf16 x[PP + 8];
}; /* padded by 8: rows are an odd number of vectors apart, against bank conflicts */

/* Copies n rows of a head, from `first` on, into shared memory; rows and columns beyond the head become zero. */
template <int PP>
static __device__ __forceinline__ void stage_rows(tile_row<PP> *to, int n, const bf16 *from, int64_t step, int first,
                                                  int rows, int P)
{
    constexpr int VECTORS = PP / 8;
#pragma unroll 1 // there are few copies, and registers are scarce
    for (int i = threadIdx.x; i < n * VECTORS; i += blockDim.x) {
        const int  r = i / VECTORS, c = i % VECTORS * 8;
        const bool in = first + r < rows && c < P;
        cp_async16(&to[r].x[c], from + (first + r) * step + c, in);
    }
}

/* Copies n words; words beyond the end become zero. */
template <typename W>
static __device__ __forceinline__ void stage_words(W *to, int n, const W *from, int first, int rows)
{
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        cp_async4(to + i, first + i < rows ? from + first + i : from, first + i < rows);
}

/* ---- products: a is T x 16 rows in shared memory or fragments, b is rows in shared memory ---- */

template <int PP, int T>
static __device__ __forceinline__ void left_rows(uint32_t (&f)[T][4], const tile_row<PP> *a, int k)
{
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int m = 0; m < T; m++) ldmatrix(f[m], &a[m * 16 + lane % 16].x[k + lane / 16 * 8]);
}

/* s += (columns k .. k + 15 of a) (those of 8 N rows of b)^T */
template <int PP, int T, int N>
static __device__ __forceinline__ void add_scores(float (&s)[T][N][4], const uint32_t (&a)[T][4], const tile_row<PP> *b,
                                                  int k)
{
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int j = 0; j < N; j += 2) {
        uint32_t y[4];
        ldmatrix(y, &b[j * 8 + lane % 8 + lane / 16 * 8].x[k + lane / 8 % 2 * 8]);
#pragma unroll
        for (int m = 0; m < T; m++) {
            mma(s[m][j], a[m], y[0], y[1]);
            mma(s[m][j + 1], a[m], y[2], y[3]);
        }
    }
}

/* s = a b^T */
template <int PP, int T, int N>
static __device__ __forceinline__ void scores(float (&s)[T][N][4], const tile_row<PP> *a, const tile_row<PP> *b)
{
    zero(s);
#pragma unroll(PP > 64 ? 2 : PP / 16)
    for (int k = 0; k < PP; k += 16) {
        uint32_t x[T][4];
        left_rows(x, a, k);
        add_scores(s, x, b, k);
    }
}

/* o += p b, p rounded to bf16 */
template <int PP, int T, int N>
static __device__ __forceinline__ void add_product(float (&o)[T][PP / 8][4], const float (&p)[T][N][4],
                                                   const tile_row<PP> *b)
{
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int j = 0; j < N; j += 2) {
        uint32_t x[T][4];
#pragma unroll
        for (int m = 0; m < T; m++) as_left(x[m], p[m], j / 2);
#pragma unroll
        for (int n = 0; n < PP / 8; n += 2) {
            uint32_t y[4];
            ldmatrix_t(y, &b[j * 8 + lane % 16].x[n * 8 + lane / 16 * 8]);
#pragma unroll
            for (int m = 0; m < T; m++) {
                mma(o[m][n], x[m], y[0], y[1]);
                mma(o[m][n + 1], x[m], y[2], y[3]);
            }
        }
    }
}

/* ---- forward ---- */

template <int PP> struct fwd_smem {
    tile_row<PP> k[2][COLUMNS], v[2][COLUMNS];
    int32_t      ids[2][COLUMNS];
    tile_row<PP> q[]; /* one row per thread of the block */
};

template <int PP>
static __device__ __forceinline__ void stage_keys(fwd_smem<PP> &sm, const attention_operands<bf16> &p,
                                                  const rows_of_block &r, const mask_range &g, int tile)
{
    const int b = tile & 1, first = tile * COLUMNS, head = r.head / p.group;
    stage_rows<PP>(sm.k[b], COLUMNS, p.k.of(r.b, head), p.k.row, first, p.Lk, p.P);
    stage_rows<PP>(sm.v[b], COLUMNS, p.v.of(r.b, head), p.v.row, first, p.Lk, p.P);
    if (g.ids) stage_words(sm.ids[b], COLUMNS, g.ids, first, p.Lk);
    cp_commit();
}

template <int PP>
__global__ void __maxnreg__(PP <= 64 ? 168 : 255) attention_fwd_mma(const __grid_constant__ attention_operands<bf16> p)
{
    constexpr int  T = 2, N = PP <= 96 ? 4 : 2, STEP = 8 * N, ROWS = T * 16;
    constexpr bool KEPT = PP <= 48; // queries stay in registers; wider heads would not fit
    MBA_DYNAMIC_SMEM(smem);
    fwd_smem<PP>       &sm = *(fwd_smem<PP> *)smem;
    const int           warp = warp_of_block();
    const rows_of_block r = rows_of_block_of(p, blockDim.x, false);
    const column_tiles  c = column_tiles_of(p, r.first, blockDim.x, COLUMNS, false);
    const mask_range    g = sight_of(p, r.b, false);
    const int           row = r.first + warp * ROWS;
    const tile_row<PP> *mine = sm.q + warp * ROWS;
    stage_rows<PP>(sm.q, blockDim.x, p.q.of(r.b, r.head), p.q.row, r.first, p.L, p.P);
    stage_keys(sm, p, r, g, c.first);

    uint32_t q[KEPT ? PP / 16 : 1][T][4];
    if (KEPT) {
        cp_wait<0>();
        __syncthreads();
#pragma unroll
        for (int k = 0; k < PP / 16; k++) left_rows(q[KEPT ? k : 0], mine, k * 16);
    }
    const float scale = p.scale * LOG2E;
    float       o[T][PP / 8][4];
    running<T>  w;
    zero(o);
    nothing_yet(w);
    for (int tile = c.first; tile < c.last; tile++) {
        cp_wait<0>();
        __syncthreads(); // the tile has arrived, and all warps are done with the previous one
        if (tile + 1 < c.last) stage_keys(sm, p, r, g, tile + 1);
#pragma unroll 1
        for (int at = 0; at < COLUMNS; at += STEP) {
            const int first = tile * COLUMNS + at;
            if (row >= p.L || sees_nothing<false>(g, row, ROWS, first, STEP)) break;
            float s[T][N][4];
            if constexpr (KEPT) {
                zero(s);
#pragma unroll
                for (int k = 0; k < PP / 16; k++) add_scores(s, q[k], sm.k[tile & 1] + at, k * 16);
            } else scores(s, mine, sm.k[tile & 1] + at);
            if (!sees_all<false>(g, row, ROWS, first, STEP))
#pragma unroll
                for (int m = 0; m < T; m++) hide<false>(s[m], g, row + m * 16, p.L, first, sm.ids[tile & 1] + at);
            soften(s, o, w, scale);
            add_product(o, s, sm.v[tile & 1] + at);
        }
    }
    finish(w, p.lse + (r.b * p.H + r.head) * p.L, row, p.L, scale);
#pragma unroll
    for (int m = 0; m < T; m++)
        put_rows(p.out.of(r.b, r.head), p.out.row, o[m], w.sum[m], row + m * 16, p.L, p.P, false);
}

/* ---- backward. For rows x and columns y: S = x1 y1^T, dP = x2 y2^T, dS = P (dP - delta). The gradient of x1 is scale
 * dS y1; for KEYS the gradient of x2 is P y2. Rows are queries (q, do) or KEYS (k, v); columns are the other ---- */

template <int PP, int T, bool KEYS> struct sums {
    float d1[T][PP / 8][4], d2[KEYS ? T : 1][KEYS ? PP / 8 : 1][4];
};

/* Rows of a warp; LSE and delta are set only for queries. */
template <int T> struct rows_of_warp {
    int   row, rows;
    float lse[T][2], delta[T][2];
};

/* The columns of a step, in shared memory. */
template <int PP> struct columns_at {
    const tile_row<PP> *y1, *y2;
    const float        *lse, *delta;
    const int32_t      *ids;
    int                 first;
};

template <int N, int PP, int T, bool KEYS>
static __device__ __forceinline__ void add_columns(sums<PP, T, KEYS> &sum, const rows_of_warp<T> &w,
                                                   const tile_row<PP> *x1, const tile_row<PP> *x2,
                                                   const columns_at<PP> &y, const mask_range &g, float scale)
{
    float s[T][N][4], d[T][N][4];
    scores(s, x1, y.y1);
    scores(d, x2, y.y2);
    if (!sees_all<KEYS>(g, w.row, T * 16, y.first, 8 * N))
#pragma unroll
        for (int m = 0; m < T; m++) hide<KEYS>(s[m], g, w.row + m * 16, w.rows, y.first, y.ids);
#pragma unroll
    for (int m = 0; m < T; m++) {
        probabilities<KEYS>(s[m], scale, y.lse, w.lse[m]);
        gradients<KEYS>(d[m], s[m], y.delta, w.delta[m]);
    }
    if constexpr (KEYS) add_product(sum.d2, s, y.y2);
    add_product(sum.d1, d, y.y1);
}

template <int PP, int T, bool KEYS>
static __device__ __forceinline__ void put_sums(const sums<PP, T, KEYS> &sum, const attention_operands<bf16> &p,
                                                int64_t b, int head, int row)
{
    const heads<bf16> &to = KEYS ? p.dk : p.dq;
    const int          rows = KEYS ? p.Lk : p.L;
    const float        scale[2] = { p.scale, p.scale }, one[2] = { 1, 1 };
#pragma unroll
    for (int m = 0; m < T; m++) {
        put_rows(to.of(b, head), to.row, sum.d1[m], scale, row + m * 16, rows, p.P, p.adds >> (KEYS ? DK : DQ) & 1);
        if constexpr (KEYS)
            put_rows(p.dv.of(b, head), p.dv.row, sum.d2[m], one, row + m * 16, rows, p.P, p.adds >> DV & 1);
    }
}

/* delta of query t, whose do is in shared memory. */
template <int PP>
static __device__ __forceinline__ float delta_of(const attention_operands<bf16> &p, int64_t b, int head, int t,
                                                 const tile_row<PP> &dout)
{
    const bf16 *o = p.o.of(b, head) + t * p.o.row;
    float       sum = 0;
#pragma unroll 2
    for (int c = 0; c < PP; c += 8)
        if (c < p.P) sum = dot_vec16(*(const uint4 *)&dout.x[c], *(const uint4 *)(o + c), sum);
    return sum;
}

template <int T>
static __device__ __forceinline__ void know_rows(rows_of_warp<T> &w, int row, int rows, const float *lse,
                                                 const float *delta)
{
    const int lane = threadIdx.x % 32;
    w.row = row;
    w.rows = rows;
#pragma unroll
    for (int m = 0; m < T; m++)
#pragma unroll
        for (int i = 0; i < 2; i++) {
            w.lse[m][i] = lse ? lse[m * 16 + lane / 4 + i * 8] : 0;
            w.delta[m][i] = lse ? delta[m * 16 + lane / 4 + i * 8] : 0;
        }
}

template <int PP, int ROWS> struct bwd_smem {
    tile_row<PP> x1[ROWS], x2[ROWS], y1[2][COLUMNS], y2[2][COLUMNS];
    float        row_lse[ROWS], row_delta[ROWS], lse[2][COLUMNS], delta[2][COLUMNS];
    int32_t      ids[2][COLUMNS];
};

template <int PP, int ROWS, bool KEYS>
static __device__ __forceinline__ void stage_columns(bwd_smem<PP, ROWS> &sm, const attention_operands<bf16> &p,
                                                     int64_t b, int head, const mask_range &g, int slot, int first)
{
    const heads<const bf16> &h1 = KEYS ? p.q : p.k, &h2 = KEYS ? p.dout : p.v;
    stage_rows<PP>(sm.y1[slot], COLUMNS, h1.of(b, head), h1.row, first, g.columns, p.P);
    stage_rows<PP>(sm.y2[slot], COLUMNS, h2.of(b, head), h2.row, first, g.columns, p.P);
    if (g.ids) stage_words(sm.ids[slot], COLUMNS, g.ids, first, g.columns);
    if (KEYS) {
        stage_words(sm.lse[slot], COLUMNS, (const float *)p.lse + (b * p.H + head) * p.L, first, g.columns);
        stage_words(sm.delta[slot], COLUMNS, (const float *)p.delta + (b * p.H + head) * p.L, first, g.columns);
    }
    cp_commit();
}

/* Computes delta and loads LSE of the block's queries, for this pass and the next one. */
template <int PP, int ROWS>
static __device__ __forceinline__ void know_queries(bwd_smem<PP, ROWS> &sm, const attention_operands<bf16> &p,
                                                    const rows_of_block &r)
{
    const int64_t at = (r.b * p.H + r.head) * p.L;
    for (int i = threadIdx.x; i < ROWS; i += blockDim.x) {
        const int t = r.first + i;
        sm.row_lse[i] = t < p.L ? p.lse[at + t] : 0;
        sm.row_delta[i] = t < p.L ? delta_of<PP>(p, r.b, r.head, t, sm.x2[i]) : 0;
        if (t < p.L) p.delta[at + t] = sm.row_delta[i];
    }
}

template <int PP, bool KEYS>
__global__ void __launch_bounds__(ATT_MMA_THREADS, 2)
    attention_bwd_mma(const __grid_constant__ attention_operands<bf16> p)
{
    constexpr int T = PP <= 64 ? 2 : 1, ROWS = T * 16 * (ATT_MMA_THREADS / 32);
    constexpr int N = KEYS && PP == 64 ? 2 : 4, STEP = 8 * N;
    MBA_DYNAMIC_SMEM(smem);
    bwd_smem<PP, ROWS>      &sm = *(bwd_smem<PP, ROWS> *)smem;
    const int                warp = warp_of_block(), rows = KEYS ? p.Lk : p.L;
    const rows_of_block      r = rows_of_block_of(p, ROWS, KEYS);
    const column_tiles       c = column_tiles_of(p, r.first, ROWS, COLUMNS, KEYS);
    const mask_range         g = sight_of(p, r.b, KEYS);
    const int                row = r.first + warp * T * 16;
    const heads<const bf16> &h1 = KEYS ? p.k : p.q, &h2 = KEYS ? p.v : p.dout;
    int                      head = KEYS ? r.head * p.group : r.head / p.group;
    const int                steps = max(c.last - c.first, 0) * (KEYS ? p.group : 1);
    stage_rows<PP>(sm.x1, ROWS, h1.of(r.b, r.head), h1.row, r.first, rows, p.P);
    stage_rows<PP>(sm.x2, ROWS, h2.of(r.b, r.head), h2.row, r.first, rows, p.P);
    stage_columns<PP, ROWS, KEYS>(sm, p, r.b, head, g, 0, c.first * COLUMNS);
    if (!KEYS) {
        cp_wait<0>();
        __syncthreads();
        know_queries(sm, p, r);
        __syncthreads();
    }
    rows_of_warp<T> w;
    know_rows(w, row, rows, KEYS ? NULL : sm.row_lse + warp * T * 16, sm.row_delta + warp * T * 16);

    sums<PP, T, KEYS> sum;
    zero(sum.d1);
    zero(sum.d2);
    const float scale = p.scale * LOG2E;
    for (int step = 0, tile = c.first; step < steps; step++) {
        const int slot = step & 1, here = tile * COLUMNS;
        cp_wait<0>();
        __syncthreads(); // the tile has arrived, and all warps are done with the previous one
        if (++tile == c.last) {
            tile = c.first;
            head++;
        } // the query heads of a group follow each other
        if (step + 1 < steps) stage_columns<PP, ROWS, KEYS>(sm, p, r.b, head, g, slot ^ 1, tile * COLUMNS);
#pragma unroll 1
        for (int at = 0; at < COLUMNS; at += STEP) {
            if (row >= rows || sees_nothing<KEYS>(g, row, T * 16, here + at, STEP)) continue;
            const columns_at<PP> y = { sm.y1[slot] + at,    sm.y2[slot] + at,  sm.lse[slot] + at,
                                       sm.delta[slot] + at, sm.ids[slot] + at, here + at };
            add_columns<N>(sum, w, sm.x1 + warp * T * 16, sm.x2 + warp * T * 16, y, g, scale);
        }
    }
    put_sums<PP, T, KEYS>(sum, p, r.b, r.head, row);
}

/* ---- backward of short rows: both passes of a head use one copy in shared memory ---- */

/* Pointers into shared memory: q, k, v, do, then LSE, delta and ids, one per row. */
template <int PP> struct one_tile_smem {
    tile_row<PP> *q, *k, *v, *dout;
    float        *lse, *delta;
    int32_t      *ids;
};

template <int PP> static __device__ __forceinline__ one_tile_smem<PP> one_tile_smem_at(void *at, int rows)
{
    one_tile_smem<PP> sm;
    sm.q = (tile_row<PP> *)at;
    sm.k = sm.q + rows;
    sm.v = sm.k + rows;
    sm.dout = sm.v + rows;
    sm.lse = (float *)(sm.dout + rows);
    sm.delta = sm.lse + rows;
    sm.ids = (int32_t *)(sm.delta + rows);
    return sm;
}

template <int PP, int T, bool KEYS>
static __device__ __forceinline__ void one_tile_pass(const one_tile_smem<PP> &sm, const attention_operands<bf16> &p,
                                                     int64_t b, int head)
{
    constexpr int       N = 2, STEP = 8 * N;
    const int           rows = KEYS ? p.Lk : p.L;
    const tile_row<PP> *x1 = KEYS ? sm.k : sm.q, *x2 = KEYS ? sm.v : sm.dout;
    const tile_row<PP> *y1 = KEYS ? sm.q : sm.k, *y2 = KEYS ? sm.dout : sm.v;
    const mask_range    g = sight_of(p, b, KEYS);
    const float         scale = p.scale * LOG2E;
#pragma unroll 1
    for (int row = warp_of_block() * T * 16; row < rows; row += blockDim.x / 32 * T * 16) {
        rows_of_warp<T>   w;
        sums<PP, T, KEYS> sum;
        know_rows(w, row, rows, KEYS ? NULL : sm.lse + row, sm.delta + row);
        zero(sum.d1);
        zero(sum.d2);
#pragma unroll 1
        for (int at = 0; at < g.columns; at += STEP) {
            if (sees_nothing<KEYS>(g, row, T * 16, at, STEP)) continue;
            const columns_at<PP> y = { y1 + at, y2 + at, sm.lse + at, sm.delta + at, sm.ids + at, at };
            add_columns<N>(sum, w, x1 + row, x2 + row, y, g, scale);
        }
        put_sums<PP, T, KEYS>(sum, p, b, head, row);
    }
}

template <int PP>
__global__ void __maxnreg__(PP <= 48 ? 200 : 255)
    attention_bwd_one_tile(const __grid_constant__ attention_operands<bf16> p)
{
    constexpr int T = 2;
    MBA_DYNAMIC_SMEM(smem);
    const int               all = (max(p.L, p.Lk) + 31) / 32 * 32;
    const one_tile_smem<PP> sm = one_tile_smem_at<PP>(smem, all);
    const int64_t           b = blockIdx.x / p.H, at = (int64_t)blockIdx.x * p.L;
    const int               head = blockIdx.x % p.H;
    stage_rows<PP>(sm.dout, all, p.dout.of(b, head), p.dout.row, 0, p.L, p.P);
    cp_commit();
    stage_rows<PP>(sm.q, all, p.q.of(b, head), p.q.row, 0, p.L, p.P);
    stage_rows<PP>(sm.k, all, p.k.of(b, head), p.k.row, 0, p.Lk, p.P);
    stage_rows<PP>(sm.v, all, p.v.of(b, head), p.v.row, 0, p.Lk, p.P);
    stage_words(sm.lse, all, (const float *)p.lse + at, 0, p.L);
    if (p.ids) stage_words(sm.ids, all, p.ids + b * p.ids_row, 0, p.L);
    cp_commit();
    cp_wait<1>();
    __syncthreads();
    for (int t = threadIdx.x; t < all; t += blockDim.x)
        sm.delta[t] = t < p.L ? delta_of<PP>(p, b, head, t, sm.dout[t]) : 0;
    cp_wait<0>();
    __syncthreads();
    one_tile_pass<PP, T, false>(sm, p, b, head);
    one_tile_pass<PP, T, true>(sm, p, b, head);
}

/* ---- launchers ---- */

/* Runs the statements with PP, the padded width of a head, as a compile-time constant. */
#define WITH_NARROW(P, ...) \
    do { \
        if ((P) <= 32) { \
            constexpr int PP = 32; \
            __VA_ARGS__; \
        } else if ((P) <= 48) { \
            constexpr int PP = 48; \
            __VA_ARGS__; \
        } else { \
            constexpr int PP = 64; \
            __VA_ARGS__; \
        } \
    } while (0)

#define WITH_WIDTH(P, ...) \
    do { \
        if ((P) <= 64) WITH_NARROW(P, __VA_ARGS__); \
        else if ((P) <= 96) { \
            constexpr int PP = 96; \
            __VA_ARGS__; \
        } else { \
            constexpr int PP = 128; \
            __VA_ARGS__; \
        } \
    } while (0)

extern "C" mba_status attention_mma_cuda(const mba_call *c)
{
    attention_operands<bf16> p = attention_operands_of<bf16>(c);
    p.out = heads_at<bf16>(c->node->out[O], c->out[O]);
    p.lse = (float *)c->out[LSE];
    const mba_launch *l = &c->plan->launch[0];
    WITH_WIDTH(p.P, mba_assert(sizeof(fwd_smem<PP>) + sizeof(tile_row<PP>) * (size_t)l->block <= l->smem_bytes);
               MBA_KERNEL(c, 0, attention_fwd_mma<PP>, p));
    return MBA_OK;
}

extern "C" mba_status attention_bwd_mma_cuda(const mba_call *c)
{
    const attention_operands<bf16> p = attention_bwd_operands_of<bf16>(c);
    WITH_WIDTH(p.P, auto *queries = attention_bwd_mma<PP, false>; auto *keys = attention_bwd_mma<PP, true>;
               mba_assert(sizeof(bwd_smem<PP, (PP <= 64 ? 128 : 64)>) <= c->plan->launch[0].smem_bytes);
               MBA_KERNEL(c, 0, queries, p); MBA_KERNEL(c, 1, keys, p));
    return MBA_OK;
}

extern "C" mba_status attention_bwd_one_tile_cuda(const mba_call *c)
{
    attention_operands<bf16> p = attention_bwd_operands_of<bf16>(c);
    const size_t             rows = (size_t)(mba_ceil(p.L > p.Lk ? p.L : p.Lk, 32) * 32);
    WITH_NARROW(p.P, mba_assert(rows * (4 * sizeof(tile_row<PP>) + 12) <= c->plan->launch[0].smem_bytes);
                MBA_KERNEL(c, 0, attention_bwd_one_tile<PP>, p));
    return MBA_OK;
}
