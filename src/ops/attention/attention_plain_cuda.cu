// SPDX-License-Identifier: Apache-2.0
/* attention_plain_cuda.cu -- softmax attention in fp32, for heads of any type, alignment and width up to 256.
 *
 * kernel     attention_fwd_plain     32 queries per block, tiles of 32 keys; a thread has 2 x 4 scores and 2 rows of o
 * takes      fp32 or bf16, P <= 256
 * launch     grid ceil(L/32) B H, block 128, dynamic smem 3 tiles of 32 (P + 4) fp32 and one of scores
 * resources  sm_90a, CUDA 13.0: 105 to 179 registers, no spill  [docs]
 * moves      q, o once; keys and values for every 32 queries, from L2: bound by FMA and shared memory
 * measured   not yet  [docs]
 * order      fixed: keys ascend
 *
 * kernel     attention_bwd_plain     32 queries (dq) or 32 keys (dk, dv) per block
 * takes      fp32 or bf16, P <= 256
 * launch     grid ceil(L/32) B H (dq), then ceil(Lk/32) B Hk (dk, dv), block 128, dynamic smem 4 tiles of 32 (P + 4)
 *            fp32, 2 of scores
 * resources  sm_90a, CUDA 13.0: 127 to 239 registers, no spill  [docs]
 * moves      q, k, v, do once per block and again from L2
 * measured   not yet  [docs]
 * order      fixed: columns ascend, heads of a group in order
 *
 * kernel     attention_delta_rows  a warp per row of a head
 * takes      everything
 * launch     grid ceil(B L H / 8), block 256
 * resources  sm_90a, CUDA 13.0: 30 to 32 registers, no spill  [docs]
 * moves      o and do once
 * measured   not yet  [docs]
 * order      fixed */
#include "ops/attention/attention_cuda.cuh"

enum { TILE = 32, THREADS = 128 };

/* Thread (ty, tx) = (tid/8, tid%8) owns rows 2 ty and 2 ty + 1: scores of columns tx + 8 j, values of columns 4 tx + 32
 * j .. + 3. */
template <int PP> struct tile_row {
    float x[PP + 4];
}; /* padded by 4: eight rows are 4 banks apart */
struct score_row {
    float x[TILE + 1];
};

template <typename T, int PP>
static __device__ __forceinline__ void stage_rows(tile_row<PP> *to, const T *from, int64_t row, int first, int rows,
                                                  int P)
{
    for (int i = threadIdx.x; i < TILE * PP; i += THREADS) {
        const int r = i / PP, e = i % PP;
        to[r].x[e] = first + r < rows && e < P ? to_float(from[(first + r) * row + e]) : 0;
    }
}

/* s (2 x 4) = <rows 2 ty + i of a, rows tx + 8 j of b>. */
template <int PP>
static __device__ __forceinline__ void scores(float (&s)[2][4], const tile_row<PP> *a, const tile_row<PP> *b, int ty,
                                              int tx)
{
#pragma unroll
    for (int j = 0; j < 4; j++) s[0][j] = s[1][j] = 0;
#pragma unroll 4
    for (int e = 0; e < PP; e += 4) {
        const float4 x0 = *(const float4 *)&a[2 * ty].x[e], x1 = *(const float4 *)&a[2 * ty + 1].x[e];
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const float4 y = *(const float4 *)&b[tx + 8 * j].x[e];
            s[0][j] = fmaf(x0.x, y.x, fmaf(x0.y, y.y, fmaf(x0.z, y.z, fmaf(x0.w, y.w, s[0][j]))));
            s[1][j] = fmaf(x1.x, y.x, fmaf(x1.y, y.y, fmaf(x1.z, y.z, fmaf(x1.w, y.w, s[1][j]))));
        }
    }
}

/* o (2 rows, columns 4 tx + 32 j ..) += s b. */
template <int PP>
static __device__ __forceinline__ void add_product(float (&o)[2][PP / 32][4], const score_row *s, const tile_row<PP> *b,
                                                   int ty, int tx)
{
#pragma unroll 2
    for (int k = 0; k < TILE; k++) {
        const float p0 = s[2 * ty].x[k], p1 = s[2 * ty + 1].x[k];
#pragma unroll
        for (int j = 0; j < PP / 32; j++) {
            const float4 y = *(const float4 *)&b[k].x[4 * tx + 32 * j];
            o[0][j][0] = fmaf(p0, y.x, o[0][j][0]);
            o[0][j][1] = fmaf(p0, y.y, o[0][j][1]);
            o[0][j][2] = fmaf(p0, y.z, o[0][j][2]);
            o[0][j][3] = fmaf(p0, y.w, o[0][j][3]);
            o[1][j][0] = fmaf(p1, y.x, o[1][j][0]);
            o[1][j][1] = fmaf(p1, y.y, o[1][j][1]);
            o[1][j][2] = fmaf(p1, y.z, o[1][j][2]);
            o[1][j][3] = fmaf(p1, y.w, o[1][j][3]);
        }
    }
}

static __device__ __forceinline__ float eight_max(float x)
{
#pragma unroll
    for (int d = 1; d < 8; d *= 2) x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, d));
    return x;
}

static __device__ __forceinline__ float eight_sum(float x)
{
#pragma unroll
    for (int d = 1; d < 8; d *= 2) x += __shfl_xor_sync(0xffffffffu, x, d);
    return x;
}

template <typename T, int PP>
static __device__ __forceinline__ void put_rows(const heads<T> &h, const rows_of_block &r, int rows, int P,
                                                const float (&o)[2][PP / 32][4], const float (&f)[2], int ty, int tx,
                                                bool add)
{
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const int t = r.first + 2 * ty + i;
        T        *to = h.of(r.b, r.head) + t * h.row;
#pragma unroll
        for (int j = 0; j < PP / 32; j++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const int at = 4 * tx + 32 * j + e;
                if (t < rows && at < P) to[at] = from_float<T>(o[i][j][e] * f[i] + (add ? to_float(to[at]) : 0));
            }
    }
}

template <int PP> struct fwd_smem {
    tile_row<PP> q[TILE], k[TILE], v[TILE];
    score_row    s[TILE];
    int32_t      ids[TILE];
};

template <typename T, int PP>
__global__ void __launch_bounds__(THREADS, PP <= 64 ? 4 : 2)
    attention_fwd_plain(const __grid_constant__ attention_operands<T> p)
{
    extern __shared__ __align__(16) char smem[];
    fwd_smem<PP>                        &sm = *(fwd_smem<PP> *)smem;
    const int                            ty = threadIdx.x / 8, tx = threadIdx.x % 8;
    const rows_of_block                  r = rows_of_block_of(p, TILE, false);
    const column_tiles                   c = column_tiles_of(p, r.first, TILE, TILE, false);
    const int32_t                       *ids = p.ids ? p.ids + r.b * p.ids_row : NULL;
    float                                o[2][PP / 32][4] = {}, top[2] = { -1e30f, -1e30f }, sum[2] = { 0, 0 }, s[2][4];
    int32_t                              id[2] = { 0, 0 };
    for (int i = 0; i < 2; i++)
        if (ids && r.first + 2 * ty + i < p.L) id[i] = ids[r.first + 2 * ty + i];
    stage_rows<T, PP>(sm.q, p.q.of(r.b, r.head), p.q.row, r.first, p.L, p.P);
    const float scale = p.scale * LOG2E;
    for (int tile = c.first; tile < c.last; tile++) {
        const int first = tile * TILE;
        __syncthreads(); // all warps are done with the previous tile
        stage_rows<T, PP>(sm.k, p.k.of(r.b, r.head / p.group), p.k.row, first, p.Lk, p.P);
        stage_rows<T, PP>(sm.v, p.v.of(r.b, r.head / p.group), p.v.row, first, p.Lk, p.P);
        if (ids && threadIdx.x < TILE)
            sm.ids[threadIdx.x] = first + (int)threadIdx.x < p.Lk ? ids[first + threadIdx.x] : 0;
        __syncthreads();
        scores<PP>(s, sm.q, sm.k, ty, tx);
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const int t = r.first + 2 * ty + i;
            float     top_new = top[i], part = 0;
#pragma unroll
            for (int j = 0; j < 4; j++) {
                const int key = first + tx + 8 * j;
                s[i][j] = masked(s[i][j] * scale,
                                 key < p.Lk && !(p.causal && key > t) && (!ids || sm.ids[tx + 8 * j] == id[i]));
                top_new = fmaxf(top_new, s[i][j]);
            }
            top_new = eight_max(top_new);
            const float a = exp2f(top[i] - top_new);
#pragma unroll
            for (int j = 0; j < 4; j++) {
                s[i][j] = exp2f(s[i][j] - top_new);
                part += s[i][j];
                sm.s[2 * ty + i].x[tx + 8 * j] = s[i][j];
            }
            top[i] = top_new;
            sum[i] = sum[i] * a + part;
#pragma unroll
            for (int j = 0; j < PP / 32; j++) {
                o[i][j][0] *= a;
                o[i][j][1] *= a;
                o[i][j][2] *= a;
                o[i][j][3] *= a;
            }
        }
        __syncwarp(); // eight lanes of one warp share a row of scores
        add_product<PP>(o, sm.s, sm.v, ty, tx);
    }
    float f[2];
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const int   t = r.first + 2 * ty + i;
        const float all = eight_sum(sum[i]);
        f[i] = 1 / all;
        if (tx == 0 && t < p.L) p.lse[(r.b * p.H + r.head) * p.L + t] = LN2 * top[i] + logf(all);
    }
    put_rows<T, PP>(p.out, r, p.L, p.P, o, f, ty, tx, false);
}

/* Rows x and columns y as in attention_bwd_mma. */
template <int PP> struct bwd_smem {
    tile_row<PP> x1[TILE], x2[TILE], y1[TILE], y2[TILE];
    score_row    p[TILE], d[TILE];
    float        lse[TILE], delta[TILE];
    int32_t      ids[TILE];
};

template <typename T, int PP, bool KEYS>
__global__ void __launch_bounds__(THREADS, PP <= 64 ? 3 : 1)
    attention_bwd_plain(const __grid_constant__ attention_operands<T> p)
{
    extern __shared__ __align__(16) char smem[];
    bwd_smem<PP>                        &sm = *(bwd_smem<PP> *)smem;
    const int ty = threadIdx.x / 8, tx = threadIdx.x % 8, rows = KEYS ? p.Lk : p.L, columns = KEYS ? p.L : p.Lk;
    const rows_of_block   r = rows_of_block_of(p, TILE, KEYS);
    const column_tiles    c = column_tiles_of(p, r.first, TILE, TILE, KEYS);
    const heads<const T> &x1 = KEYS ? p.k : p.q, &x2 = KEYS ? p.v : p.dout, &y1 = KEYS ? p.q : p.k,
                         &y2 = KEYS ? p.dout : p.v;
    const int32_t *ids = p.ids ? p.ids + r.b * p.ids_row : NULL;
    const int      per_head = max(c.last - c.first, 0), steps = per_head * (KEYS ? p.group : 1);
    float          d1[2][PP / 32][4] = {}, d2[2][KEYS ? PP / 32 : 1][4] = {}, lse[2] = { 0, 0 }, delta[2] = { 0, 0 };
    int32_t        id[2] = { 0, 0 };
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const int t = r.first + 2 * ty + i;
        if (t >= rows) continue;
        if (ids) id[i] = ids[t];
        if (KEYS) continue;
        lse[i] = p.lse[(r.b * p.H + r.head) * p.L + t] * LOG2E;
        delta[i] = p.delta[(r.b * p.H + r.head) * p.L + t];
    }
    stage_rows<T, PP>(sm.x1, x1.of(r.b, r.head), x1.row, r.first, rows, p.P);
    stage_rows<T, PP>(sm.x2, x2.of(r.b, r.head), x2.row, r.first, rows, p.P);
    const float scale = p.scale * LOG2E;
    for (int step = 0; step < steps; step++) {
        const int first = (c.first + step % per_head) * TILE,
                  head = KEYS ? r.head * p.group + step / per_head : r.head / p.group;
        __syncthreads();
        stage_rows<T, PP>(sm.y1, y1.of(r.b, head), y1.row, first, columns, p.P);
        stage_rows<T, PP>(sm.y2, y2.of(r.b, head), y2.row, first, columns, p.P);
        if (threadIdx.x < TILE) {
            const int  t = first + threadIdx.x;
            const bool in = t < columns;
            if (ids) sm.ids[threadIdx.x] = in ? ids[t] : 0;
            if (KEYS) {
                sm.lse[threadIdx.x] = in ? p.lse[(r.b * p.H + head) * p.L + t] * LOG2E : 0;
                sm.delta[threadIdx.x] = in ? p.delta[(r.b * p.H + head) * p.L + t] : 0;
            }
        }
        __syncthreads();
        float s[2][4], d[2][4];
        scores<PP>(s, sm.x1, sm.y1, ty, tx);
        scores<PP>(d, sm.x2, sm.y2, ty, tx);
#pragma unroll
        for (int i = 0; i < 2; i++)
#pragma unroll
            for (int j = 0; j < 4; j++) {
                const int  at = tx + 8 * j, column = first + at, row = r.first + 2 * ty + i;
                const bool sees = column < columns && row < rows && !(p.causal && (KEYS ? row > column : column > row))
                                  && (!ids || sm.ids[at] == id[i]);
                const float w = sees ? exp2f(fmaf(s[i][j], scale, -(KEYS ? sm.lse[at] : lse[i]))) : 0;
                sm.d[2 * ty + i].x[at] = w * (d[i][j] - (KEYS ? sm.delta[at] : delta[i]));
                if (KEYS) sm.p[2 * ty + i].x[at] = w;
            }
        __syncwarp();
        add_product<PP>(d1, sm.d, sm.y1, ty, tx);
        if constexpr (KEYS) add_product<PP>(d2, sm.p, sm.y2, ty, tx);
    }
    const float f[2] = { p.scale, p.scale }, one[2] = { 1, 1 };
    put_rows<T, PP>(KEYS ? p.dk : p.dq, r, rows, p.P, d1, f, ty, tx, p.adds >> (KEYS ? DK : DQ) & 1);
    if constexpr (KEYS) put_rows<T, PP>(p.dv, r, rows, p.P, d2, one, ty, tx, p.adds >> DV & 1);
}

template <typename T>
__global__ void __launch_bounds__(256) attention_delta_rows(const __grid_constant__ attention_operands<T> p)
{
    const int64_t i = (int64_t)blockIdx.x * 8 + threadIdx.x / 32;
    if (i >= (int64_t)p.B * p.L * p.H) return;
    const int64_t h = i % p.H, t = i / p.H % p.L, b = i / p.H / p.L;
    const T      *o = p.o.of(b, h) + t * p.o.row, *d = p.dout.of(b, h) + t * p.dout.row;
    float         sum = 0;
    for (int e = threadIdx.x % 32; e < p.P; e += 32) sum = fmaf(to_float(o[e]), to_float(d[e]), sum);
    sum = warp_sum(sum);
    if (threadIdx.x % 32 == 0) p.delta[(b * p.H + h) * p.L + t] = sum;
}

/* ---- launchers ---- */

#define WITH_WIDTH(P, ...) \
    do { \
        if ((P) <= 32) { \
            constexpr int PP = 32; \
            __VA_ARGS__; \
        } else if ((P) <= 64) { \
            constexpr int PP = 64; \
            __VA_ARGS__; \
        } else if ((P) <= 128) { \
            constexpr int PP = 128; \
            __VA_ARGS__; \
        } else { \
            constexpr int PP = 256; \
            __VA_ARGS__; \
        } \
    } while (0)

extern "C" mba_status attention_plain_cuda(const mba_call *c)
{
    MBA_WITH_DTYPE(c->node->in[Q]->type.dtype, T, attention_operands<T> p = attention_operands_of<T>(c);
                   p.out = heads_at<T>(c->node->out[O], c->out[O]); p.lse = (float *)c->out[LSE];
                   WITH_WIDTH(p.P, auto *kernel = attention_fwd_plain<T, PP>;
                              mba_assert(sizeof(fwd_smem<PP>) <= c->plan->launch[0].smem_bytes);
                              MBA_KERNEL(c, 0, kernel, p)));
    return MBA_OK;
}

extern "C" mba_status attention_bwd_plain_cuda(const mba_call *c)
{
    MBA_WITH_DTYPE(c->node->in[Q]->type.dtype, T, const attention_operands<T> p = attention_bwd_operands_of<T>(c);
                   MBA_KERNEL(c, 0, attention_delta_rows<T>, p);
                   WITH_WIDTH(p.P, auto *queries = attention_bwd_plain<T, PP, false>;
                              auto *keys = attention_bwd_plain<T, PP, true>;
                              mba_assert(sizeof(bwd_smem<PP>) <= c->plan->launch[1].smem_bytes);
                              MBA_KERNEL(c, 1, queries, p); MBA_KERNEL(c, 2, keys, p)));
    return MBA_OK;
}
