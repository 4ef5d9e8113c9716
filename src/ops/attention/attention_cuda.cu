/* attention_cuda.cu -- softmax attention with bf16 heads on the tensor cores (mma.sync), forward and backward.
 *
 *   o_t = sum_s p_ts v_s,   p_ts = exp(scale <q_t, k_s> - LSE_t)
 *   q, o (B, L, H, P)   k, v (B, Lk, Hk, P) bf16     LSE, delta (B, H, L) fp32
 *
 * kernel     attention_fwd_mma     64 queries a block, 16 a warp; keys and values in tiles of 64, two of them on their way
 * takes      bf16, P <= 128, heads that begin at multiples of 16 bytes
 * launch     grid ceil(L/64) B H, block 128, dynamic smem 5 tiles of 64 (P + 8) bf16
 * resources  sm_90a, CUDA 13.0: 123 registers (P = 32), 145 (64), 182 (128), no spill
 * moves      q, k, v, o once per block; keys and values again for every 64 queries, from L2: bound by the tensor cores
 * measured   none yet
 * order      fixed: keys ascend
 *
 * kernel     attention_bwd_mma     64 queries (dq) or 64 keys (dk, dv) a block; probabilities made again from LSE
 * takes      as forward
 * launch     grid ceil(L/64) B H (dq), then ceil(Lk/64) B Hk (dk, dv), block 128, dynamic smem 4 tiles of 64 (P + 8) bf16
 * resources  sm_90a, CUDA 13.0: dq 112 to 168 registers, dk and dv 131 to 230, no spill
 * moves      q, k, v, do once per block and again from L2; 7 products instead of the least 5, for no sum needs an atomic
 * measured   none yet
 * order      fixed: columns ascend, heads of a group in order
 *
 * kernel     attention_delta_rows  a warp per row of a head
 * takes      everything
 * launch     grid ceil(B L H / 8), block 256
 * resources  sm_90a, CUDA 13.0: 32 registers, no spill
 * moves      o and do once
 * measured   none yet
 * order      fixed */
#include "ops/attention/attention_cuda.cuh"

enum { ROWS = 64, WARPS = 4, THREADS = 32 * WARPS, FWD_COLUMNS = 64, BWD_COLUMNS = 32 };

template <int PP> struct tile_row { bf16 x[PP + 8]; };         /* 8 more: rows lie 4 banks apart for ldmatrix */

/* N rows from `first` on of a head, into shared memory; what lies beyond the head is zero. */
template <int PP, int N> static __device__ __forceinline__ void
stage_rows(tile_row<PP> *to, const bf16 *from, int64_t row, int first, int rows, int P)
{
    constexpr int PIECES = PP / 8;
    for (int i = threadIdx.x; i < N * PIECES; i += THREADS) {
        const int r = i / PIECES, c = i % PIECES * 8;
        if (first + r < rows && c < P) copy_async<16>(&to[r].x[c], from + (first + r) * row + c);
        else                           *(uint4 *)&to[r].x[c] = make_uint4(0, 0, 0, 0);
    }
}

/* Fragments: rows of a as the left side (16 x 16 at column k), rows of b as the right side of a b^T (16 rows from n on, columns
 * k ..), rows of b as the right side of a b (16 rows from k on, columns n ..). */
template <int PP> static __device__ __forceinline__ void left(uint32_t (&f)[4], const tile_row<PP> *a, int k, int lane)
{
    load_8x8_4(f, &a[lane % 16].x[k + lane / 16 * 8]);
}

template <int PP> static __device__ __forceinline__ void right_transposed(uint32_t (&f)[4], const tile_row<PP> *b, int n, int k, int lane)
{
    load_8x8_4(f, &b[n + lane % 8 + lane / 16 * 8].x[k + lane / 8 % 2 * 8]);
}

template <int PP> static __device__ __forceinline__ void right(uint32_t (&f)[4], const tile_row<PP> *b, int k, int n, int lane)
{
    load_8x8_4_transposed(f, &b[k + lane % 16].x[n + lane / 16 * 8]);
}

/* s (16 x 8 N) = a b^T over PP columns. */
template <int PP, int N> static __device__ __forceinline__ void scores(float (&s)[N][4], const tile_row<PP> *a, const tile_row<PP> *b, int lane)
{
#pragma unroll
    for (int j = 0; j < N; j++) s[j][0] = s[j][1] = s[j][2] = s[j][3] = 0;
#pragma unroll(PP > 96 ? 2 : PP / 16)                          // wide heads are short of registers
    for (int k = 0; k < PP; k += 16) {
        uint32_t x[4], y[4];
        left(x, a, k, lane);
#pragma unroll
        for (int j = 0; j < N; j += 2) {
            right_transposed(y, b, j * 8, k, lane);
            mma_bf16_k16(s[j], x, y[0], y[1]);
            mma_bf16_k16(s[j + 1], x, y[2], y[3]);
        }
    }
}

/* o (16 x PP) += p (16 x 8 N, rounded to bf16) b. */
template <int PP, int N> static __device__ __forceinline__ void add_product(float (&o)[PP / 8][4], const float (&p)[N][4], const tile_row<PP> *b, int lane)
{
#pragma unroll
    for (int j = 0; j < N; j += 2) {
        const uint32_t x[4] = { pack_bf16(p[j][0], p[j][1]), pack_bf16(p[j][2], p[j][3]), pack_bf16(p[j + 1][0], p[j + 1][1]),
                                pack_bf16(p[j + 1][2], p[j + 1][3]) };
#pragma unroll
        for (int n = 0; n < PP / 8; n += 2) {
            uint32_t y[4];
            right(y, b, j * 8, n * 8, lane);
            mma_bf16_k16(o[n], x, y[0], y[1]);
            mma_bf16_k16(o[n + 1], x, y[2], y[3]);
        }
    }
}

static __device__ __forceinline__ float four_max(float x)
{
    x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
    return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
}

static __device__ __forceinline__ float four_sum(float x)
{
    x += __shfl_xor_sync(0xffffffffu, x, 1);
    return x + __shfl_xor_sync(0xffffffffu, x, 2);
}

/* Two neighbouring values of a row. */
static __device__ __forceinline__ void put2(bf16 *to, float a, float b, bool add)
{
    if (add) {
        a += to_float(to[0]);
        b += to_float(to[1]);
    }
    *(uint32_t *)to = pack_bf16(a, b);
}

/* Rows lane/4 and + 8 of a warp's 16, times f0 and f1. */
template <int PP> static __device__ __forceinline__ void
put_rows(const heads<bf16> &h, const rows_of_block &r, int rows, int P, const float (&o)[PP / 8][4], float f0, float f1, int warp, int lane, bool add)
{
    const int t = r.first + warp * 16 + lane / 4;
    bf16     *to = h.of(r.b, r.head) + t * h.row + lane % 4 * 2;
#pragma unroll
    for (int n = 0; n < PP / 8; n++) {
        if (n * 8 >= P) continue;
        if (t < rows)     put2(to + n * 8, o[n][0] * f0, o[n][1] * f0, add);
        if (t + 8 < rows) put2(to + 8 * h.row + n * 8, o[n][2] * f1, o[n][3] * f1, add);
    }
}

/* ---- forward ---- */

template <int PP> struct fwd_smem {
    tile_row<PP> q[ROWS], k[2][FWD_COLUMNS], v[2][FWD_COLUMNS];
    int32_t      ids[2][FWD_COLUMNS];
};

template <int PP> __global__ void __launch_bounds__(THREADS, PP <= 64 ? 3 : 2) attention_fwd_mma(const __grid_constant__ attention_operands<bf16> p)
{
    constexpr int N = FWD_COLUMNS / 8;
    extern __shared__ __align__(16) char smem[];
    fwd_smem<PP> &sm = *(fwd_smem<PP> *)smem;
    const int           lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const rows_of_block r = rows_of_block_of(p, ROWS, false);
    const column_tiles  c = column_tiles_of(p, r.first, ROWS, FWD_COLUMNS, false);
    const bf16 *k = p.k.of(r.b, r.head / p.group), *v = p.v.of(r.b, r.head / p.group);
    const int32_t *ids = p.ids ? p.ids + r.b * p.ids_row : NULL;
    const int t0 = r.first + warp * 16 + lane / 4, t1 = t0 + 8;
    const int32_t id0 = ids && t0 < p.L ? ids[t0] : 0, id1 = ids && t1 < p.L ? ids[t1] : 0;
    auto stage = [&](int tile) {
        const int b = tile & 1, first = tile * FWD_COLUMNS;
        stage_rows<PP, FWD_COLUMNS>(sm.k[b], k, p.k.row, first, p.Lk, p.P);
        stage_rows<PP, FWD_COLUMNS>(sm.v[b], v, p.v.row, first, p.Lk, p.P);
        if (ids && threadIdx.x < FWD_COLUMNS) sm.ids[b][threadIdx.x] = first + (int)threadIdx.x < p.Lk ? ids[first + threadIdx.x] : 0;
        copies_commit();
    };
    stage_rows<PP, ROWS>(sm.q, p.q.of(r.b, r.head), p.q.row, r.first, p.L, p.P);
    stage(c.first);

    const float scale = p.scale * LOG2E;
    float o[PP / 8][4], top0 = -1e30f, top1 = -1e30f, sum0 = 0, sum1 = 0;
#pragma unroll
    for (int n = 0; n < PP / 8; n++) o[n][0] = o[n][1] = o[n][2] = o[n][3] = 0;
    for (int tile = c.first; tile < c.last; tile++) {
        const int b = tile & 1, first = tile * FWD_COLUMNS;
        copies_wait<0>();
        __syncthreads();                                      // the tile is there, and nobody reads the one before
        if (tile + 1 < c.last) stage(tile + 1);
        float s[N][4];
        scores<PP, N>(s, sm.q + warp * 16, sm.k[b], lane);
        // 1. scores, masked: 2^x everywhere
        float new0 = top0, new1 = top1;
#pragma unroll
        for (int j = 0; j < N; j++)
#pragma unroll
            for (int e = 0; e < 2; e++) {
                const int  key = first + j * 8 + lane % 4 * 2 + e;
                const int  id = ids ? sm.ids[b][key - first] : 0;
                s[j][e]     = masked(s[j][e] * scale, key < p.Lk && !(p.causal && key > t0) && id == id0);
                s[j][e + 2] = masked(s[j][e + 2] * scale, key < p.Lk && !(p.causal && key > t1) && id == id1);
                new0 = fmaxf(new0, s[j][e]);
                new1 = fmaxf(new1, s[j][e + 2]);
            }
        // 2. online softmax
        new0 = four_max(new0);
        new1 = four_max(new1);
        const float a0 = exp2_fast(top0 - new0), a1 = exp2_fast(top1 - new1);
        top0 = new0;
        top1 = new1;
        sum0 *= a0;
        sum1 *= a1;
#pragma unroll
        for (int j = 0; j < N; j++)
#pragma unroll
            for (int e = 0; e < 2; e++) {
                s[j][e]     = exp2_fast(s[j][e] - top0);
                s[j][e + 2] = exp2_fast(s[j][e + 2] - top1);
                sum0 += s[j][e];
                sum1 += s[j][e + 2];
            }
#pragma unroll
        for (int n = 0; n < PP / 8; n++) { o[n][0] *= a0; o[n][1] *= a0; o[n][2] *= a1; o[n][3] *= a1; }
        add_product<PP, N>(o, s, sm.v[b], lane);
    }
    sum0 = four_sum(sum0);
    sum1 = four_sum(sum1);
    put_rows<PP>(p.out, r, p.L, p.P, o, 1 / sum0, 1 / sum1, warp, lane, false);
    float *lse = p.lse + (r.b * p.H + r.head) * p.L;
    if (lane % 4) return;
    if (t0 < p.L) lse[t0] = LN2 * top0 + logf(sum0);
    if (t1 < p.L) lse[t1] = LN2 * top1 + logf(sum1);
}

/* ---- backward. Rows x meet columns y: S = x1 y1^T, dP = x2 y2^T, dS = P (dP - delta); then x1's gradient is scale dS y1 and, of
 * keys, x2's is P y2. Rows are queries (q, do) or KEYS (k, v); columns the other ---- */

template <int PP> struct bwd_smem {
    tile_row<PP> x1[ROWS], x2[ROWS], y1[2][BWD_COLUMNS], y2[2][BWD_COLUMNS];
    float        lse[2][BWD_COLUMNS], delta[2][BWD_COLUMNS];
    int32_t      ids[2][BWD_COLUMNS];
};

template <int PP, bool KEYS>
__global__ void __launch_bounds__(THREADS, PP <= 64 ? 3 : 2) attention_bwd_mma(const __grid_constant__ attention_operands<bf16> p)
{
    constexpr int N = BWD_COLUMNS / 8;
    extern __shared__ __align__(16) char smem[];
    bwd_smem<PP> &sm = *(bwd_smem<PP> *)smem;
    const int           lane = threadIdx.x % 32, warp = threadIdx.x / 32, rows = KEYS ? p.Lk : p.L, columns = KEYS ? p.L : p.Lk;
    const rows_of_block r = rows_of_block_of(p, ROWS, KEYS);
    const column_tiles  c = column_tiles_of(p, r.first, ROWS, BWD_COLUMNS, KEYS);
    const heads<const bf16> &h1 = KEYS ? p.q : p.k, &h2 = KEYS ? p.dout : p.v;
    const int32_t *ids = p.ids ? p.ids + r.b * p.ids_row : NULL;
    const int t0 = r.first + warp * 16 + lane / 4, t1 = t0 + 8, per_head = max(c.last - c.first, 0);
    const int steps = per_head * (KEYS ? p.group : 1);
    const int32_t id0 = ids && t0 < rows ? ids[t0] : 0, id1 = ids && t1 < rows ? ids[t1] : 0;
    float row_lse[2] = { 0, 0 }, row_delta[2] = { 0, 0 };
    if (!KEYS) {
        const int64_t at = (r.b * p.H + r.head) * p.L;
        if (t0 < p.L) { row_lse[0] = p.lse[at + t0] * LOG2E; row_delta[0] = p.delta[at + t0]; }
        if (t1 < p.L) { row_lse[1] = p.lse[at + t1] * LOG2E; row_delta[1] = p.delta[at + t1]; }
    }
    auto stage = [&](int step) {
        const int b = step & 1, first = (c.first + step % per_head) * BWD_COLUMNS;
        const int head = KEYS ? r.head * p.group + step / per_head : r.head / p.group;
        stage_rows<PP, BWD_COLUMNS>(sm.y1[b], h1.of(r.b, head), h1.row, first, columns, p.P);
        stage_rows<PP, BWD_COLUMNS>(sm.y2[b], h2.of(r.b, head), h2.row, first, columns, p.P);
        if (threadIdx.x < BWD_COLUMNS) {
            const int  t = first + threadIdx.x;
            const bool in = t < columns;
            if (ids) sm.ids[b][threadIdx.x] = in ? ids[t] : 0;
            if (KEYS) {
                const int64_t at = (r.b * p.H + head) * p.L + t;
                sm.lse[b][threadIdx.x]   = in ? p.lse[at] * LOG2E : 0;
                sm.delta[b][threadIdx.x] = in ? p.delta[at] : 0;
            }
        }
        copies_commit();
    };
    stage_rows<PP, ROWS>(sm.x1, (KEYS ? p.k : p.q).of(r.b, r.head), (KEYS ? p.k : p.q).row, r.first, rows, p.P);
    stage_rows<PP, ROWS>(sm.x2, (KEYS ? p.v : p.dout).of(r.b, r.head), (KEYS ? p.v : p.dout).row, r.first, rows, p.P);
    if (steps) stage(0);

    float d1[PP / 8][4], d2[KEYS ? PP / 8 : 1][4];
#pragma unroll
    for (int n = 0; n < PP / 8; n++) {
        d1[n][0] = d1[n][1] = d1[n][2] = d1[n][3] = 0;
        if (KEYS) d2[n % (KEYS ? PP / 8 : 1)][0] = d2[n % (KEYS ? PP / 8 : 1)][1] = d2[n % (KEYS ? PP / 8 : 1)][2] = d2[n % (KEYS ? PP / 8 : 1)][3] = 0;
    }
    const float scale = p.scale * LOG2E;
    for (int step = 0; step < steps; step++) {
        const int b = step & 1, first = (c.first + step % per_head) * BWD_COLUMNS;
        copies_wait<0>();
        __syncthreads();
        if (step + 1 < steps) stage(step + 1);
        float s[N][4], d[N][4];
        scores<PP, N>(s, sm.x1 + warp * 16, sm.y1[b], lane);
        scores<PP, N>(d, sm.x2 + warp * 16, sm.y2[b], lane);
#pragma unroll
        for (int j = 0; j < N; j++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const int   at = j * 8 + lane % 4 * 2 + e % 2, column = first + at, row = e < 2 ? t0 : t1;
                const int   id = ids ? sm.ids[b][at] : 0;
                const bool  sees = column < columns && row < rows && !(p.causal && (KEYS ? row > column : column > row)) && id == (e < 2 ? id0 : id1);
                const float lse = KEYS ? sm.lse[b][at] : row_lse[e / 2], delta = KEYS ? sm.delta[b][at] : row_delta[e / 2];
                s[j][e] = sees ? exp2_fast(fmaf(s[j][e], scale, -lse)) : 0;
                d[j][e] = s[j][e] * (d[j][e] - delta);
            }
        add_product<PP, N>(d1, d, sm.y1[b], lane);
        if constexpr (KEYS) add_product<PP, N>(d2, s, sm.y2[b], lane);
    }
    put_rows<PP>(KEYS ? p.dk : p.dq, r, rows, p.P, d1, p.scale, p.scale, warp, lane, p.adds >> (KEYS ? DK : DQ) & 1);
    if constexpr (KEYS) put_rows<PP>(p.dv, r, rows, p.P, d2, 1, 1, warp, lane, p.adds >> DV & 1);
}

template <typename T> __global__ void __launch_bounds__(256) attention_delta_rows(const __grid_constant__ attention_operands<T> p)
{
    const int64_t i = (int64_t)blockIdx.x * 8 + threadIdx.x / 32;
    if (i >= (int64_t)p.B * p.L * p.H) return;
    const int64_t h = i % p.H, t = i / p.H % p.L, b = i / p.H / p.L;
    const T *o = p.o.of(b, h) + t * p.o.row, *d = p.dout.of(b, h) + t * p.dout.row;
    float    sum = 0;
    for (int e = threadIdx.x % 32; e < p.P; e += 32) sum = fmaf(to_float(o[e]), to_float(d[e]), sum);
    sum = warp_sum(sum);
    if (threadIdx.x % 32 == 0) p.delta[(b * p.H + h) * p.L + t] = sum;
}

/* ---- launchers ---- */

template <typename T> mba_status attention_delta(const mba_call *c, const attention_operands<T> &p)
{
    MBA_KERNEL(c, 0, attention_delta_rows<T>, p);
    return MBA_OK;
}
template mba_status attention_delta<float>(const mba_call *, const attention_operands<float> &);
template mba_status attention_delta<bf16>(const mba_call *, const attention_operands<bf16> &);

/* The statements with PP, the padded width of a head, as a constant. */
#define WITH_WIDTH(P, ...)                                                                            \
    do {                                                                                              \
        if ((P) <= 32)      { constexpr int PP = 32;  __VA_ARGS__; }                                  \
        else if ((P) <= 48) { constexpr int PP = 48;  __VA_ARGS__; }                                  \
        else if ((P) <= 64) { constexpr int PP = 64;  __VA_ARGS__; }                                  \
        else if ((P) <= 96) { constexpr int PP = 96;  __VA_ARGS__; }                                  \
        else                { constexpr int PP = 128; __VA_ARGS__; }                                  \
    } while (0)

extern "C" mba_status attention_mma_cuda(const mba_call *c)
{
    attention_operands<bf16> p = attention_operands_of<bf16>(c);
    p.out = heads_at<bf16>(c->node->out[O], c->out[O]);
    p.lse = (float *)c->out[LSE];
    WITH_WIDTH(p.P, mba_assert(sizeof(fwd_smem<PP>) <= c->plan->launch[0].smem_bytes); MBA_KERNEL(c, 0, attention_fwd_mma<PP>, p));
    return MBA_OK;
}

extern "C" mba_status attention_bwd_mma_cuda(const mba_call *c)
{
    const attention_operands<bf16> p = attention_bwd_operands_of<bf16>(c);
    MBA_TRY(attention_delta(c, p));
    WITH_WIDTH(p.P,
        auto *queries = attention_bwd_mma<PP, false>;
        auto *keys    = attention_bwd_mma<PP, true>;
        mba_assert(sizeof(bwd_smem<PP>) <= c->plan->launch[1].smem_bytes);
        MBA_KERNEL(c, 1, queries, p);
        MBA_KERNEL(c, 2, keys, p));
    return MBA_OK;
}
