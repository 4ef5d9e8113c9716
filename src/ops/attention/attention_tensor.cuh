// SPDX-License-Identifier: Apache-2.0
/* attention_tensor.cuh -- shared by the tensor-core variants of attention: masks, online softmax, storing heads.
 *
 * Scores and sums are in the register layout of mma.sync and wgmma: a warp has 16 rows; of every 8 columns a lane holds
 * x[0], x[1] (row lane/4, columns 2 (lane%4) and + 1) and x[2], x[3] (the same of row lane/4 + 8). */
#ifndef MBA_ATTENTION_TENSOR_CUH
#define MBA_ATTENTION_TENSOR_CUH

#include "device/cuda/mma.cuh"
#include "ops/attention/attention_cuda.cuh"

#define EVERY_LANE 0xffffffffu

/* Index of the warp and of the warpgroup. The broadcast tells the compiler that all lanes have the same value.
 * Otherwise a branch on it might diverge: the compiler would serialize the products of a warpgroup and guard every
 * shuffle. */
static __device__ __forceinline__ int warp_of_block(void) { return __shfl_sync(EVERY_LANE, threadIdx.x / 32, 0); }
static __device__ __forceinline__ int warpgroup(void) { return __shfl_sync(EVERY_LANE, threadIdx.x / 128, 0); }

template <int W> static __device__ __forceinline__ void zero(float (&x)[W][4])
{
#pragma unroll
    for (int n = 0; n < W; n++) x[n][0] = x[n][1] = x[n][2] = x[n][3] = 0;
}

template <int T, int W> static __device__ __forceinline__ void zero(float (&x)[T][W][4])
{
#pragma unroll
    for (int m = 0; m < T; m++) zero(x[m]);
}

/* ---- masks. Rows are queries and columns keys, or (KEYS) the other way round ---- */

struct mask_range {
    const int32_t *ids;     /* of the sequence, or NULL */
    int            columns; /* number of columns */
    bool           causal;
};

static __device__ __forceinline__ mask_range sight_of(const attention_operands<bf16> &p, int64_t b, bool keys)
{
    const mask_range s = { p.ids ? p.ids + b * p.ids_row : NULL, keys ? p.L : p.Lk, p.causal };
    return s;
}

/* True if no row of row .. row + rows - 1 sees any column of column .. column + width - 1; sees_all: if each row sees
 * all of them. */
template <bool KEYS>
static __device__ __forceinline__ bool sees_nothing(const mask_range &g, int row, int rows, int column, int width)
{
    return column >= g.columns || (g.causal && (KEYS ? row > column + width - 1 : column > row + rows - 1));
}

template <bool KEYS>
static __device__ __forceinline__ bool sees_all(const mask_range &g, int row, int rows, int column, int width)
{
    return !g.ids && column + width <= g.columns
           && !(g.causal && (KEYS ? row + rows - 1 > column : column + width - 1 > row));
}

/* Masks scores with -inf: columns beyond the length or the diagonal, and columns of other documents. `ids` are those of
 * the columns from `column` on, in shared memory; the ids of the rows are read from global memory. */
template <bool KEYS, int N>
static __device__ __forceinline__ void hide(float (&s)[N][4], const mask_range &g, int row, int rows, int column,
                                            const int32_t *ids)
{
    const int lane = threadIdx.x % 32, x = lane % 4 * 2;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const int      r = row + lane / 4 + i * 8, from = KEYS && g.causal ? r : 0;
        const int      to = !KEYS && g.causal ? min(r + 1, g.columns) : g.columns;
        const unsigned visible = max(to - from, 0);
#pragma unroll
        for (int j = 0; j < N; j++)
#pragma unroll
            for (int e = 0; e < 2; e++)
                s[j][2 * i + e] = (unsigned)(column + x - from + j * 8 + e) < visible ? s[j][2 * i + e] : -INFINITY;
        if (!g.ids) continue;
        const int32_t id = r < rows ? g.ids[r] : 0;
#pragma unroll
        for (int j = 0; j < N; j++) {
            const int2 of_column = *(const int2 *)(ids + j * 8 + x);
            s[j][2 * i] = of_column.x == id ? s[j][2 * i] : -INFINITY;
            s[j][2 * i + 1] = of_column.y == id ? s[j][2 * i + 1] : -INFINITY;
        }
    }
}

/* ---- online softmax of T x 16 rows. `top` is close to the maximum so far: it is updated only if some row of the warp
 * has grown by more than 2^8. The result is exact all the same, and updates are rare after the first columns ---- */

static __device__ __forceinline__ float four_max(float x)
{
    x = fmaxf(x, __shfl_xor_sync(EVERY_LANE, x, 1));
    return fmaxf(x, __shfl_xor_sync(EVERY_LANE, x, 2));
}

static __device__ __forceinline__ float four_sum(float x)
{
    x += __shfl_xor_sync(EVERY_LANE, x, 1);
    return x + __shfl_xor_sync(EVERY_LANE, x, 2);
}

template <int T> struct running {
    float top[T][2], sum[T][2];
}; /* per lane: sums over its own columns */

template <int T> static __device__ __forceinline__ void nothing_yet(running<T> &w)
{
#pragma unroll
    for (int m = 0; m < T; m++) {
        w.top[m][0] = w.top[m][1] = -1e30f;
        w.sum[m][0] = w.sum[m][1] = 0;
    }
}

/* s becomes 2^(scale (s - top)); o and the sums are rescaled to a new top. scale > 0. */
template <int T, int N, int W>
static __device__ __forceinline__ void soften(float (&s)[T][N][4], float (&o)[T][W][4], running<T> &w, float scale)
{
    float high[T][2];
    bool  grows = false;
#pragma unroll
    for (int m = 0; m < T; m++)
#pragma unroll
        for (int r = 0; r < 2; r++) {
            high[m][r] = fmaxf(s[m][0][2 * r], s[m][0][2 * r + 1]);
#pragma unroll
            for (int j = 1; j < N; j++) high[m][r] = fmaxf(high[m][r], fmaxf(s[m][j][2 * r], s[m][j][2 * r + 1]));
            grows = grows || (high[m][r] - w.top[m][r]) * scale > 8;
        }
    if (__any_sync(EVERY_LANE, grows)) {
#pragma unroll
        for (int m = 0; m < T; m++)
#pragma unroll
            for (int r = 0; r < 2; r++) {
                const float top = fmaxf(w.top[m][r], four_max(high[m][r])), a = fast_exp2((w.top[m][r] - top) * scale);
                w.top[m][r] = top;
                w.sum[m][r] *= a;
#pragma unroll
                for (int n = 0; n < W; n++) {
                    o[m][n][2 * r] *= a;
                    o[m][n][2 * r + 1] *= a;
                }
            }
    }
#pragma unroll
    for (int m = 0; m < T; m++)
#pragma unroll
        for (int r = 0; r < 2; r++) {
            const float top = w.top[m][r] * scale;
#pragma unroll
            for (int j = 0; j < N; j++)
#pragma unroll
                for (int e = 2 * r; e < 2 * r + 2; e++) {
                    s[m][j][e] = fast_exp2(fmaf(s[m][j][e], scale, -top));
                    w.sum[m][r] += s[m][j][e];
                }
        }
}

/* After the last columns: computes 1 / sum of each row and stores its LSE (`lse` points to row 0). */
template <int T>
static __device__ __forceinline__ void finish(running<T> &w, float *lse, int row, int rows, float scale)
{
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int m = 0; m < T; m++)
#pragma unroll
        for (int r = 0; r < 2; r++) {
            const int   t = row + m * 16 + lane / 4 + r * 8;
            const float sum = four_sum(w.sum[m][r]);
            w.sum[m][r] = 1 / sum;
            if (lane % 4 == 0 && t < rows) lse[t] = LN2 * (w.top[m][r] * scale + log2f(sum));
        }
}

/* ---- backward: s becomes p = 2^(scale s - LSE), d becomes dS = p (dP - delta). LSE and delta belong to a lane's two
 * rows, or (KEYS) to the columns of s, in shared memory ---- */

template <bool KEYS, int N>
static __device__ __forceinline__ void probabilities(float (&s)[N][4], float scale, const float *lse,
                                                     const float (&row_lse)[2])
{
#pragma unroll
    for (int j = 0; j < N; j++) {
        const float2 of_column = KEYS ? *(const float2 *)(lse + j * 8 + threadIdx.x % 4 * 2) : make_float2(0, 0);
#pragma unroll
        for (int e = 0; e < 4; e++) {
            const float less = LOG2E * (KEYS ? (e % 2 ? of_column.y : of_column.x) : row_lse[e / 2]);
            s[j][e] = fast_exp2(fmaf(s[j][e], scale, -less));
        }
    }
}

template <bool KEYS, int N>
static __device__ __forceinline__ void gradients(float (&d)[N][4], const float (&p)[N][4], const float *delta,
                                                 const float (&row_delta)[2])
{
#pragma unroll
    for (int j = 0; j < N; j++) {
        const float2 of_column = KEYS ? *(const float2 *)(delta + j * 8 + threadIdx.x % 4 * 2) : make_float2(0, 0);
#pragma unroll
        for (int e = 0; e < 4; e++)
            d[j][e] = p[j][e] * (d[j][e] - (KEYS ? (e % 2 ? of_column.y : of_column.x) : row_delta[e / 2]));
    }
}

/* Columns 16 k .. of a 16-row tile as the left operand of a product, rounded to bf16. */
template <int N> static __device__ __forceinline__ void as_left(uint32_t (&x)[4], const float (&p)[N][4], int k)
{
#pragma unroll
    for (int i = 0; i < 4; i++) x[i] = pack(p[2 * k + i / 2][i % 2 * 2], p[2 * k + i / 2][i % 2 * 2 + 1]);
}

/* sum + <a, b> for vectors of eight values. */
static __device__ __forceinline__ float dot_vec16(uint4 a, uint4 b, float sum)
{
    const uint32_t x[4] = { a.x, a.y, a.z, a.w }, y[4] = { b.x, b.y, b.z, b.w };
#pragma unroll
    for (int i = 0; i < 4; i++) sum = fmaf(low_of(x[i]), low_of(y[i]), fmaf(high_of(x[i]), high_of(y[i]), sum));
    return sum;
}

/* ---- storing ---- */

/* Lane t of four gets word t of each lane: the columns of four lanes become whole 16-byte vectors. */
static __device__ __forceinline__ void transpose_4(uint32_t (&w)[4])
{
    const bool odd = threadIdx.x & 1, upper = threadIdx.x & 2;
#pragma unroll
    for (int i = 0; i < 4; i += 2) {
        const uint32_t got = __shfl_xor_sync(EVERY_LANE, odd ? w[i] : w[i + 1], 1);
        if (odd) w[i] = got;
        else w[i + 1] = got;
    }
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const uint32_t got = __shfl_xor_sync(EVERY_LANE, upper ? w[i] : w[i + 2], 2);
        if (upper) w[i] = got;
        else w[i + 2] = got;
    }
}

static __device__ __forceinline__ void add_two(bf16 *to, float a, float b)
{
    const uint32_t was = *(const uint32_t *)to;
    *(uint32_t *)to = pack(a + low_of(was), b + high_of(was));
}

/* Stores a warp's 16 rows from `row` on, times f, into a head at `to`, or adds them to it. */
template <int W>
static __device__ __forceinline__ void put_rows(bf16 *to, int64_t step, const float (&o)[W][4], const float (&f)[2],
                                                int row, int rows, int P, bool add)
{
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int r = 0; r < 2; r++) {
        const int t = row + lane / 4 + r * 8;
        bf16     *at = to + t * step;
#pragma unroll
        for (int n = 0; n < W; n += 4) {
            uint32_t w[4];
#pragma unroll
            for (int i = 0; i < 4; i++)
                w[i] = pack(o[n + i < W ? n + i : 0][2 * r] * f[r], o[n + i < W ? n + i : 0][2 * r + 1] * f[r]);
            if (add) {
#pragma unroll
                for (int i = 0; i < 4; i++)
                    if (n + i < W && (n + i) * 8 < P && t < rows)
                        add_two(at + (n + i) * 8 + lane % 4 * 2, o[n + i < W ? n + i : 0][2 * r] * f[r],
                                o[n + i < W ? n + i : 0][2 * r + 1] * f[r]);
            } else {
                transpose_4(w);
                if (t < rows && (n + lane % 4) * 8 < P)
                    *(uint4 *)(at + (n + lane % 4) * 8) = make_uint4(w[0], w[1], w[2], w[3]);
            }
        }
    }
}

#endif
