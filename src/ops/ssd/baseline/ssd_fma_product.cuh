// SPDX-License-Identifier: Apache-2.0
/* ssd_fma_product.cuh -- the products of ssd_fma.cuh: a tile of 64 x 64 by a block of four warps, fp32 operands on
 * tensor cores, and what its accumulators are read by.
 *
 *     __shared__ fma_tiles t;
 *     float acc[8][4] = {};
 *     multiply<A::SPLIT, true, false>(acc, t, K, [&](float (&v)[4], int i, int k) { u.along(v, i, k); },
 *                           [&](float (&v)[4], int j, int k) { w.across(v, k, j); });
 *     for_pairs(acc, [&](int i, int j, float (&v)[2]) { store_pair(to + i * N + j, v, N - j); });
 *
 * Tensor cores multiply TF32, of 11 bits. With SPLIT an operand is the sum of two such numbers, and a product three of
 * theirs: 22 bits, half as exact as fp32 (3 x bf16, twice as fast, has 16 bits and fails the tests by up to 4 times
 * their tolerance). Without it (--precision tf32) a product is one, of operands rounded to nearest. Operands pass
 * through registers to shared memory: scaled, and zero outside their ranges. */
#ifndef MBA_SSD_FMA_PRODUCT_CUH
#define MBA_SSD_FMA_PRODUCT_CUH

#include <limits.h>

#include "device/cuda/mma_fragments.cuh"
#include "ops/ssd/ssd_task.cuh"

enum { FMA_K = 16, FMA_THREADS = 128 };

/* SPLIT: see above. Vector kernels take the base, so that both have the same. */
template <typename TT, bool S> struct fma_task : task<TT, double, float> {
    static constexpr bool SPLIT = S;
};

/* Two stages, [i][k] and [j][k] with four k per vector; red: column sums of warps. */
struct fma_tiles {
    float4 a[2][SSD_TILE * FMA_K / 4], b[2][SSD_TILE * FMA_K / 4];
    float  red[FMA_THREADS / 32][SSD_TILE];
};

/* Where vector `quad` of a row is: eight rows of one vector, and two rows of four, are in different banks. */
static __device__ __forceinline__ int quad_at(int row, int quad) { return row * 4 + (quad ^ (row >> 1 & 3)); }

/* x as hi + lo, of which tensor cores take the 11 leading bits. With ROUND neither has a bias; without it takes one
 * instruction less, and lo loses 2^-23 of x on average. One operand of a product is rounded, so that the product of
 * both lo, which is left out, has no bias either. */
template <bool ROUND> static __device__ __forceinline__ void split_tf32(float (&hi)[4], float (&lo)[4], const float4 &x)
{
    const float v[4] = { x.x, x.y, x.z, x.w };
#pragma unroll
    for (int e = 0; e < 4; e++) {
        hi[e] = __uint_as_float((__float_as_uint(v[e]) + (ROUND ? 0x1000u : 0)) & 0xffffe000u);
        lo[e] = v[e] - hi[e];
    }
}

/* Four operands as shared memory holds them. cvt.rna keeps NaN; rounding by adding half a unit makes zero of some. */
template <bool SPLIT> static __device__ __forceinline__ float4 quad_of(const float (&v)[4])
{
    if constexpr (SPLIT) return make_float4(v[0], v[1], v[2], v[3]);
    else return make_float4(round_tf32(v[0]), round_tf32(v[1]), round_tf32(v[2]), round_tf32(v[3]));
}

/* acc += A B of one stage: 16 rows of this warp, 64 columns. Lane t of a row has k 4t .. 4t + 3, in two steps. Tensor
 * cores truncate their sums. That is 2^-23 per 8 k, far less than TF32 rounds from operands. */
static __device__ __forceinline__ void multiply_rounded(float (&acc)[8][4], const float4 *a, const float4 *b)
{
    const int    row = (threadIdx.x & 31) / 4, t = threadIdx.x & 3, first = (int)threadIdx.x / 32 * 16 + row;
    const float4 u = a[quad_at(first, t)], v = a[quad_at(first + 8, t)];
#pragma unroll
    for (int n = 0; n < 8; n++) {
        const float4 w = b[quad_at(8 * n + row, t)];
        mma_tf32_k8(acc[n], u.x, v.x, u.y, v.y, w.x, w.y);
        mma_tf32_k8(acc[n], u.z, v.z, u.w, v.w, w.z, w.w);
    }
}

/* The same of split operands. Long sums are fp32 additions, which do not truncate. */
static __device__ __forceinline__ void multiply_split(float (&acc)[8][4], const float4 *a, const float4 *b)
{
    const int row = (threadIdx.x & 31) / 4, t = threadIdx.x & 3, first = (int)threadIdx.x / 32 * 16 + row;
    float     hi[2][4], lo[2][4];
    for (int r = 0; r < 2; r++) split_tf32<true>(hi[r], lo[r], a[quad_at(first + 8 * r, t)]);
#pragma unroll
    for (int n = 0; n < 8; n++) {
        float bh[4], bl[4], c[4] = {};
        split_tf32<false>(bh, bl, b[quad_at(8 * n + row, t)]);
#pragma unroll
        for (int e = 0; e < 4; e += 2) {
            mma_tf32_k8(c, lo[0][e], lo[1][e], lo[0][e + 1], lo[1][e + 1], bh[e], bh[e + 1]);
            mma_tf32_k8(c, hi[0][e], hi[1][e], hi[0][e + 1], hi[1][e + 1], bl[e], bl[e + 1]);
        }
#pragma unroll
        for (int e = 0; e < 4; e += 2) mma_tf32_k8(c, hi[0][e], hi[1][e], hi[0][e + 1], hi[1][e + 1], bh[e], bh[e + 1]);
#pragma unroll
        for (int i = 0; i < 4; i++) acc[n][i] += c[i];
    }
}

/* The quads that thread copies: ALONG rows, whose k is contiguous, or across them. */
template <bool ALONG> static __device__ __forceinline__ int quad_row(int j)
{
    return ALONG ? (int)threadIdx.x / 4 + 32 * j : (int)threadIdx.x % SSD_TILE;
}
template <bool ALONG> static __device__ __forceinline__ int quad_k(int j)
{
    return 4 * (ALONG ? (int)threadIdx.x % 4 : (int)threadIdx.x / SSD_TILE + 2 * j);
}

struct no_scale {
};
struct k_range { // k from first to last: others contribute nothing to the rows of a warp
    int first, last;
};
static __device__ __forceinline__ float                       scale_of(const no_scale &, int) { return 1; }
template <typename F> static __device__ __forceinline__ float scale_of(const F &f, int k) { return f(k); }
static __device__ __forceinline__ void                        scale_quad(float (&)[4], float, int, const no_scale &) {}
template <typename F> static __device__ __forceinline__ void  scale_quad(float (&v)[4], float f, int k, const F &)
{
#pragma unroll
    for (int e = 0; e < 4; e++) v[e] *= __shfl_sync(0xffffffffu, f, k + e);
}

/* acc += A B for the tile; warp w owns rows 16 w .. 16 w + 15 (row_of, column_of). a(v, i, k) and b(v, j, k) set the
 * operands of k .. k + 3, zero out of range; scale(k) multiplies those of a. AK, BK: k is the contiguous axis of A,
 * of B. */
template <bool SPLIT, bool AK, bool BK, typename FA, typename FB, typename FS = no_scale>
static __device__ __forceinline__ void multiply(float (&acc)[8][4], fma_tiles &s, int K, const FA &a, const FB &b,
                                                const FS &scale = {}, k_range live = { 0, INT_MAX })
{
    float u[2][4] = {}, v[2][4] = {};
    auto  fetch = [&](int k0) {
        const float f = scale_of(scale, k0 + (int)threadIdx.x % FMA_K);
#pragma unroll
        for (int j = 0; j < 2; j++) {
            a(u[j], quad_row<AK>(j), k0 + quad_k<AK>(j));
            b(v[j], quad_row<BK>(j), k0 + quad_k<BK>(j));
            scale_quad(u[j], f, quad_k<AK>(j), scale);
        }
    };
    __syncthreads();
    for (int k0 = -FMA_K; k0 < K; k0 += FMA_K) { // the first round only loads
        const int stage = k0 / FMA_K & 1;
        if (k0 >= 0) {
#pragma unroll
            for (int j = 0; j < 2; j++) {
                s.a[stage][quad_at(quad_row<AK>(j), quad_k<AK>(j) / 4)] = quad_of<SPLIT>(u[j]);
                s.b[stage][quad_at(quad_row<BK>(j), quad_k<BK>(j) / 4)] = quad_of<SPLIT>(v[j]);
            }
            __syncthreads();
        }
        if (k0 + FMA_K < K) fetch(k0 + FMA_K);
        if (k0 < 0 || k0 + FMA_K <= live.first || k0 > live.last) continue;
        if constexpr (SPLIT) multiply_split(acc, s.a[stage], s.b[stage]);
        else multiply_rounded(acc, s.a[stage], s.b[stage]);
    }
}

/* acc[n][2 r + c] of a thread is at row_of(r), column_of(n) + c of the tile. */
static __device__ __forceinline__ int row_of(int r)
{
    return (int)threadIdx.x / 32 * 16 + 8 * r + (int)(threadIdx.x & 31) / 4;
}
static __device__ __forceinline__ int column_of(int n) { return 8 * n + 2 * (int)(threadIdx.x & 3); }

/* Calls f(row, column, v) for the pairs of a thread, and stores what f leaves in v. */
template <typename F> static __device__ __forceinline__ void for_pairs(float (&acc)[8][4], const F &f)
{
#pragma unroll
    for (int r = 0; r < 2; r++)
#pragma unroll
        for (int n = 0; n < 8; n++) {
            float v[2] = { acc[n][2 * r], acc[n][2 * r + 1] };
            f(row_of(r), column_of(n), v);
            acc[n][2 * r] = v[0];
            acc[n][2 * r + 1] = v[1];
        }
}

/* Zero, unknown to the compiler: addresses with it are computed for each head, not kept in registers for all. */
static __device__ __forceinline__ int unknown_zero()
{
    int zero = 0;
    asm volatile("" : "+r"(zero));
    return zero;
}

/* Sums over heads in the layout of acc. A thread uses its own; they are in shared memory because registers are
 * short. */
struct fma_totals {
    float4                          of[8][FMA_THREADS];
    __device__ __forceinline__ void clear()
    {
        for (int n = 0; n < 8; n++) of[n][threadIdx.x] = make_float4(0, 0, 0, 0);
    }
    __device__ __forceinline__ void add(int n, const float (&v)[4])
    {
        const float4 t = of[n][threadIdx.x];
        of[n][threadIdx.x] = make_float4(t.x + v[0], t.y + v[1], t.z + v[2], t.w + v[3]);
    }
    /* Calls f as for_pairs does. */
    template <typename F> __device__ __forceinline__ void for_each(const F &f) const
    {
        float acc[8][4];
#pragma unroll
        for (int n = 0; n < 8; n++) {
            const float4 t = of[n][threadIdx.x];
            acc[n][0] = t.x, acc[n][1] = t.y, acc[n][2] = t.z, acc[n][3] = t.w;
        }
        for_pairs(acc, f);
    }
};

/* Sum over the four threads that share a row; all of them get it. */
static __device__ __forceinline__ float row_sum(float x)
{
    x += __shfl_xor_sync(0xffffffffu, x, 1);
    return x + __shfl_xor_sync(0xffffffffu, x, 2);
}

/* Column sums over the block of v[n][c]: thread j < 64 gets column j. */
static __device__ __forceinline__ float column_sum(fma_tiles &s, float (&v)[8][2])
{
    const int lane = threadIdx.x & 31;
    float     sum = 0;
#pragma unroll
    for (int step = 0, n = 4; step < 3; step++, n /= 2) // lanes go on with n of the blocks of 8 columns
#pragma unroll
        for (int i = 0; i < 8; i++)
            if (i < 2 * n) v[i / 2][i % 2] = fold(v[i / 2][i % 2], v[i / 2 + n][i % 2], 4 * n);
    __syncthreads();
    s.red[threadIdx.x / 32][2 * lane] = v[0][0];
    s.red[threadIdx.x / 32][2 * lane + 1] = v[0][1];
    __syncthreads();
    if (threadIdx.x < SSD_TILE)
        for (int i = 0; i < FMA_THREADS / 32; i++) sum += s.red[i][threadIdx.x];
    return sum;
}

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

/* Four values `step` apart; those after the first `there` are zero. */
template <typename T>
static __device__ __forceinline__ void load_across(float (&v)[4], const T *from, int step, int there)
{
#pragma unroll
    for (int e = 0; e < 4; e++, from += step) v[e] = e < there ? to_float(*from) : 0;
}

/* Stores the first `room` of two values. */
template <typename T> static __device__ __forceinline__ void store_pair(T *to, const float (&v)[2], int room)
{
    if (room >= 2 && (uintptr_t)to % (2 * sizeof(T)) == 0) store(to, v);
    else
        for (int c = 0; c < 2; c++)
            if (c < room) to[c] = from_float<T>(v[c]);
}

/* Elements (l, i) of a strided view in fp32, along a row or across four; zero from row `real` and column `width` on. */
template <typename T> struct operand {
    const T *at;
    int      step, real, width;

    template <int W> __device__ __forceinline__ void along(float (&v)[W], int l, int i) const
    {
        load_some(v, at + (int64_t)l * step + i, l < real ? width - i : 0);
    }
    __device__ __forceinline__ void across(float (&v)[4], int l, int i) const
    {
        load_across(v, at + (int64_t)l * step + i, step, i < width ? real - l : 0);
    }
};
template <typename T>
static __device__ __forceinline__ operand<T> operand_of(const strided<const T> &w, int b, int64_t l, int h, int real,
                                                        int width)
{
    const operand<T> o = { w.at ? w.row(b, l, h) : NULL, (int)w.axis[1], w.at ? real : 0, width };
    return o;
}

#endif
