// SPDX-License-Identifier: Apache-2.0
/* ssd_fma_product.cuh -- the products of ssd_fma.cuh: a tile of 64 x 64 by a block of four warps, fp32 operands on
 * tensor cores, and what its accumulators are read by.
 *
 *     __shared__ fma_tiles t;
 *     float acc[8][4] = {};
 *     const auto copy = [&](float *to, int step) {    // 16 of k
 *         copy_part<true>(to, u, l0, FMA_K * step);   // A: rows l0 .. l0 + 63 of u, whose columns are k
 *         copy_part<false>(to + FMA_PART, w, FMA_K * step, n0); // B: columns n0 .. n0 + 63 of w, whose rows are k
 *     };
 *     auto steps = stream_of(t, fma_steps(K), copy);
 *     multiply<A::SPLIT, true, false>(acc, steps, K);
 *     for_quads(acc, [&](int quad, int r, float (&v)[4]) { store_quad(to + row_of(r) * N + column_of(quad), v, ..); });
 *
 * A block has one stream of steps, through several products and all heads: it copies step + 2 while it multiplies.
 *
 * Tensor cores multiply TF32, of 11 bits. With SPLIT an operand is the sum of two such numbers, and a product three of
 * theirs: 22 bits, half as exact as fp32 (3 x bf16, twice as fast, has 16 bits and fails the tests by up to 4 times
 * their tolerance). Without it (--precision tf32) a product is one, of operands rounded to nearest. Shared memory has
 * operands as memory has them, zero outside their ranges; warps scale and split what they read. */
#ifndef MBA_SSD_FMA_PRODUCT_CUH
#define MBA_SSD_FMA_PRODUCT_CUH

#include <limits.h>

#include "device/cuda/async.cuh"
#include "device/cuda/mma_fragments.cuh"
#include "ops/ssd/ssd_task.cuh"

enum { FMA_K = 16, FMA_THREADS = 128, FMA_STAGES = 3, FMA_PART = SSD_TILE * FMA_K, FMA_TABLE = 256 };

/* SPLIT: see above. Vector kernels take the base, so that both have the same. */
template <typename TT, bool S> struct fma_task : task<TT, double, float> {
    static constexpr bool SPLIT = S;
};

/* Stages of A and B; column sums of warps; for 256 of k logarithms of decays, as sums of two, and factors. */
struct __align__(16) fma_tiles
{
    float stage[FMA_STAGES][2 * FMA_PART], red[FMA_THREADS / 32][SSD_TILE];
    float high[FMA_TABLE], low[FMA_TABLE], factor[FMA_TABLE];
};

/* ---- operands ---- */

/* W values from `from` on, the first `there` of them in one load if it is aligned; the others are zero. */
template <int W, typename T> static __device__ __forceinline__ void load_some(float (&v)[W], const T *from, int there)
{
    if (there >= W && (uintptr_t)from % (W * sizeof(T)) == 0) {
        load(v, from);
        return;
    }
#pragma unroll
    for (int e = 0; e < W; e++) v[e] = e < there ? to_float(from[e]) : 0;
}

/* Stores the first `room` of four values. */
template <typename T> static __device__ __forceinline__ void store_quad(T *to, const float (&v)[4], int room)
{
    if (room >= 4 && (uintptr_t)to % (4 * sizeof(T)) == 0) store(to, v);
    else
        for (int c = 0; c < 4; c++)
            if (c < room) to[c] = from_float<T>(v[c]);
}

/* Elements (l, i) of a strided view in fp32; zero from row `real` and column `width` on. */
template <typename T> struct operand {
    const T                        *at;
    int                             step, real, width;
    __device__ __forceinline__ void along(float (&v)[4], int l, int i) const
    {
        load_some(v, at + (int64_t)l * step + i, l < real ? width - i : 0);
    }
};
template <typename T>
static __device__ __forceinline__ operand<T> operand_of(const strided<const T> &w, int b, int64_t l, int h, int real,
                                                        int width)
{
    const operand<T> o = { w.at ? w.row(b, l, h) : NULL, (int)w.axis[1], w.at ? real : 0, width };
    return o;
}

/* ---- copies ---- */

/* Begins to copy four values, the first `there` of them. bf16 is converted on the way. */
static __device__ __forceinline__ void copy_quad(float *to, const float *from, int there, bool aligned)
{
    there = min(max(there, 0), 4);
    if (aligned) copy_async_first<16>(to, from, 4 * there);
    else
        for (int e = 0; e < 4; e++) copy_async_or_zero<4>(to + e, from + e, e < there);
}
static __device__ __forceinline__ void copy_quad(float *to, const bf16 *from, int there, bool)
{
    float v[4];
    load_some(v, from, there);
    store(to, v);
}

/* Begins to copy the part of a stage that starts at (row, column) of an operand: 64 rows of 16 if its columns are k
 * (ALONG), otherwise 16 rows of 64. Vectors are where fragment() finds those of a warp in different banks. */
template <bool ALONG, typename T>
static __device__ __forceinline__ void copy_part(float *to, const operand<T> &o, int row, int column)
{
    const int  thread = thread_id_reread(); // registers are short
    const bool aligned = ((uintptr_t)o.at | (unsigned)o.step * sizeof(T)) % 16 == 0;
#pragma unroll
    for (int j = 0; j < 2; j++) {
        const int y = ALONG ? thread / 4 + 32 * j : thread / 16 + 8 * j, quad = thread % (ALONG ? 4 : 16), l = row + y,
                  i = column + 4 * quad,
                  at = ALONG ? 4 * (y ^ ((y >> 1 ^ y >> 2) & 1)) + quad : 16 * y + (quad ^ 2 * (y >> 2));
        copy_quad(to + 4 * at, o.at + (int64_t)l * o.step + i, l < o.real ? o.width - i : 0, aligned);
    }
}

static __device__ __forceinline__ int fma_steps(int K) { return (max(K, 0) + FMA_K - 1) / FMA_K; }

/* The steps of a block. copy(stage, step) begins the copies of one; next() waits for one, and begins the copies of the
 * step after the next one. */
template <typename F> struct fma_stream {
    fma_tiles                              &t;
    const F                                &copy;
    int                                     all, done;
    __device__ __forceinline__ const float *next()
    {
        const int step = done++, ahead = step + FMA_STAGES - 1;
        copy_async_wait<FMA_STAGES - 2>();
        __syncthreads();
        if (ahead < all) copy(t.stage[ahead % FMA_STAGES], ahead);
        copy_async_commit();
        return t.stage[step % FMA_STAGES];
    }
};
template <typename F> static __device__ __forceinline__ fma_stream<F> stream_of(fma_tiles &t, int steps, const F &copy)
{
#pragma unroll
    for (int i = 0; i < FMA_STAGES - 1; i++) {
        if (i < steps) copy(t.stage[i], i);
        copy_async_commit();
    }
    return { t, copy, steps, 0 };
}

/* ---- products ---- */

/* Rows ROWS g .. of a lane from `row` on, columns from `column` on in the result, at k 4t .. 4t + 3. ALONG: as
 * copy_part. A phase of a load, of eight or sixteen lanes, has all t and two or four neighbours g. */
template <int ROWS, bool ALONG>
static __device__ __forceinline__ void fragment(float (&v)[ROWS][4], const float *part, int row)
{
    const int g = (threadIdx.x & 31) / 4, t = threadIdx.x & 3, odd = (ROWS == 4 ? g : g ^ g >> 1) & 1;
#pragma unroll
    for (int i = 0; i < (ALONG ? ROWS : 4); i++)
        if constexpr (ALONG) {
            const int r = ROWS == 4 ? i ^ i >> 1 : i; // of its row in memory, but for `odd`
            load(v[i], part + 16 * (row + ROWS * g) + 4 * t + 16 * r + (r & 1 ? -16 : 16) * odd);
        } else {
            float rows[ROWS];
            load(rows, part + SSD_TILE * (4 * t + i) + ((row + ROWS * g) ^ 8 * t));
#pragma unroll
            for (int r = 0; r < ROWS; r++) v[r][i] = rows[r];
        }
}

/* x as hi + lo, of which tensor cores take the 11 leading bits. With ROUND neither has a bias; without it takes one
 * instruction less, and lo loses 2^-23 of x on average. One operand of a product is rounded, so that the product of
 * both lo, which is left out, has no bias either. */
template <bool ROUND>
static __device__ __forceinline__ void split_tf32(float (&hi)[4], float (&lo)[4], const float (&x)[4])
{
#pragma unroll
    for (int e = 0; e < 4; e++) {
        hi[e] = __uint_as_float((__float_as_uint(x[e]) + (ROUND ? 0x1000u : 0)) & 0xffffe000u);
        lo[e] = x[e] - hi[e];
    }
}

/* Adds half a unit of the last place of TF32, which tensor cores truncate to. NaN stays NaN: an integer addition makes
 * zero of some. */
static __device__ __forceinline__ void round_quad(float (&x)[4])
{
#pragma unroll
    for (int e = 0; e < 4; e++) x[e] = fmaf(__uint_as_float(__float_as_uint(x[e]) & 0xff800000u), 0x1p-11f, x[e]);
}

/* acc += A B of one stage, of A that is read already: 16 rows of this warp, 64 columns. Tensor cores truncate their
 * sums. That is 2^-23 per 8 k, far less than TF32 rounds from operands. */
template <bool BK>
static __device__ __forceinline__ void multiply_rounded(float (&acc)[8][4], float (&a)[2][4], const float *part)
{
    for (int r = 0; r < 2; r++) round_quad(a[r]);
#pragma unroll
    for (int q = 0; q < 2; q++) {
        float b[4][4];
        fragment<4, BK>(b, part, 32 * q);
#pragma unroll
        for (int j = 0; j < 4; j++) {
            round_quad(b[j]);
            mma_tf32_k8(acc[4 * q + j], a[0][0], a[1][0], a[0][1], a[1][1], b[j][0], b[j][1]);
            mma_tf32_k8(acc[4 * q + j], a[0][2], a[1][2], a[0][3], a[1][3], b[j][2], b[j][3]);
        }
    }
}

/* The same of split operands. Long sums are fp32 additions, which do not truncate. */
template <bool BK>
static __device__ __forceinline__ void multiply_split(float (&acc)[8][4], float (&a)[2][4], const float *part)
{
    float hi[2][4], lo[2][4];
    for (int r = 0; r < 2; r++) split_tf32<true>(hi[r], lo[r], a[r]);
#pragma unroll
    for (int q = 0; q < 2; q++) {
        float b[4][4];
        fragment<4, BK>(b, part, 32 * q);
#pragma unroll
        for (int j = 0; j < 4; j++) {
            float bh[4], bl[4], c[4] = {};
            split_tf32<false>(bh, bl, b[j]);
#pragma unroll
            for (int e = 0; e < 4; e += 2) {
                mma_tf32_k8(c, lo[0][e], lo[1][e], lo[0][e + 1], lo[1][e + 1], bh[e], bh[e + 1]);
                mma_tf32_k8(c, hi[0][e], hi[1][e], hi[0][e + 1], hi[1][e + 1], bl[e], bl[e + 1]);
            }
#pragma unroll
            for (int e = 0; e < 4; e += 2)
                mma_tf32_k8(c, hi[0][e], hi[1][e], hi[0][e + 1], hi[1][e + 1], bh[e], bh[e + 1]);
#pragma unroll
            for (int i = 0; i < 4; i++) acc[4 * q + j][i] += c[i];
        }
    }
}

struct unchanged {
    __device__ __forceinline__ void operator()(float (&)[2][4], int) const {}
};
struct k_range { // k from first to last: others contribute nothing to the rows of a warp
    int first, last;
};

/* acc += A B of the next K of a stream; warp w owns rows 16 w .. 16 w + 15 (row_of, column_of). change(v, k) changes
 * the operands v of A in both rows of the thread and k .. k + 3. AK, BK: how A and B are copied, ALONG in copy_part. */
template <bool SPLIT, bool AK, bool BK, typename F, typename C = unchanged>
static __device__ __forceinline__ void multiply(float (&acc)[8][4], fma_stream<F> &s, int K, const C &change = {},
                                                k_range live = { 0, INT_MAX })
{
    for (int k = 0; k < K; k += FMA_K) {
        const float *stage = s.next();
        if (k + FMA_K <= live.first || k > live.last) continue;
        float a[2][4];
        fragment<2, AK>(a, stage, (int)threadIdx.x / 32 * 16);
        change(a, k + 4 * (int)(threadIdx.x & 3));
        if constexpr (SPLIT) multiply_split<BK>(acc, a, stage + FMA_PART);
        else multiply_rounded<BK>(acc, a, stage + FMA_PART);
    }
}

/* ---- results ---- */

/* acc[4 q + j][2 r + c] of a thread is at row_of(r), column_of(2 q + c) + j of the tile. */
static __device__ __forceinline__ int row_of(int r)
{
    return (int)threadIdx.x / 32 * 16 + 2 * ((int)(threadIdx.x & 31) / 4) + r;
}
static __device__ __forceinline__ int column_of(int quad)
{
    return 32 * (quad / 2) + 8 * (int)(threadIdx.x & 3) + 4 * (quad % 2);
}

/* Calls f(quad, r, v) for the rows and quads of a thread, and stores what f leaves in v. */
template <typename F> static __device__ __forceinline__ void for_quads(float (&acc)[8][4], const F &f)
{
#pragma unroll
    for (int i = 0; i < 8; i++) {
        const int quad = i / 2, r = i % 2, n = quad / 2 * 4, e = 2 * r + quad % 2;
        float     v[4] = { acc[n][e], acc[n + 1][e], acc[n + 2][e], acc[n + 3][e] };
        f(quad, r, v);
#pragma unroll
        for (int j = 0; j < 4; j++) acc[n + j][e] = v[j];
    }
}

/* Zero, unknown to the compiler: addresses with it are computed for each head, not kept in registers for all. */
static __device__ __forceinline__ int unknown_zero()
{
    int zero = 0;
    asm volatile("" : "+r"(zero));
    return zero;
}

/* Sums over heads in the layout of for_quads. A thread uses its own; they are in shared memory because registers are
 * short. */
struct fma_totals {
    float4                          of[8][FMA_THREADS];
    __device__ __forceinline__ void clear()
    {
        for (int n = 0; n < 8; n++) of[n][threadIdx.x] = make_float4(0, 0, 0, 0);
    }
    __device__ __forceinline__ void add(int quad, int r, const float (&v)[4])
    {
        float4 &t = of[2 * quad + r][threadIdx.x];
        t = make_float4(t.x + v[0], t.y + v[1], t.z + v[2], t.w + v[3]);
    }
    template <typename F> __device__ __forceinline__ void for_each(const F &f) const
    {
#pragma unroll
        for (int i = 0; i < 8; i++) {
            const float4 t = of[i][threadIdx.x];
            float        v[4] = { t.x, t.y, t.z, t.w };
            f(i / 2, i % 2, v);
        }
    }
};

/* Sum over the four threads that share a row; all of them get it. */
static __device__ __forceinline__ float row_sum(float x)
{
    x += __shfl_xor_sync(0xffffffffu, x, 1);
    return x + __shfl_xor_sync(0xffffffffu, x, 2);
}

/* Column sums over the block of v[quad][j]: thread j < 64 gets column j. */
static __device__ __forceinline__ float column_sum(fma_tiles &s, float (&v)[4][4])
{
    const int lane = threadIdx.x & 31, half = lane / 16, j = lane / 8 % 2 * 2 + lane / 4 % 2;
    float     sum = 0;
#pragma unroll
    for (int c = 0; c < 2; c++) { // lanes go on with half of the quads, then of j
#pragma unroll
        for (int i = 0; i < 4; i++) v[c][i] = fold(v[c][i], v[c + 2][i], 16);
        for (int i = 0; i < 2; i++) v[c][i] = fold(v[c][i], v[c][i + 2], 8);
        v[c][0] = fold(v[c][0], v[c][1], 4);
    }
    __syncthreads();
    for (int c = 0; c < 2; c++) s.red[threadIdx.x / 32][column_of(2 * half + c) + j] = v[c][0];
    __syncthreads();
    if (threadIdx.x < SSD_TILE)
        for (int i = 0; i < FMA_THREADS / 32; i++) sum += s.red[i][threadIdx.x];
    return sum;
}

#endif
