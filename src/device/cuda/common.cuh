// SPDX-License-Identifier: Apache-2.0
/* common.cuh -- what every kernel uses: launches by plan, conversions, 16-byte vectors, strided views, warp and block
 * sums, ragged batches, Philox.
 *
 *     template <typename T> __global__ void relu(strided_view<T> y, strided_view<const T> x, int64_t cols) { .. }
 *
 *     extern "C" mba_status relu_cuda(const mba_call *c)
 *     {
 *         MBA_WITH_DTYPE(c->node->in[X]->type.dtype, T,
 *             MBA_KERNEL(c, 0, relu<T>, mba_strided_view<T>(c->node->out[Y], c->out[Y]), ..));   // launch 0 of the
 *             plan
 *         return MBA_OK;
 *     }
 *
 * Arithmetic is fp32 for every operand type. Nothing here waits for another block, and no sum depends on the order in
 * which blocks run. */
#ifndef MBA_DEVICE_CUDA_COMMON_CUH
#define MBA_DEVICE_CUDA_COMMON_CUH

#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <math.h>
#include <stdint.h>

#include "device/cuda/cuda.h"

typedef __nv_bfloat16 bf16;

/* ---- launching ---- */

static inline dim3 mba_grid(const mba_launch *l)
{
    return dim3((unsigned)l->grid[0], (unsigned)(l->grid[1] ? l->grid[1] : 1), (unsigned)(l->grid[2] ? l->grid[2] : 1));
}

/* Launches `kernel` with the geometry of launch k of the plan. */
#define MBA_KERNEL(c, k, kernel, ...) \
    do { \
        const int         k_ = (k); \
        const mba_launch *l_ = &(c)->plan->launch[k_]; \
        MBA_TRY(mba__cuda_allow_smem((const void *)(kernel), l_->smem_bytes)); \
        kernel<<<mba_grid(l_), (unsigned)l_->block, l_->smem_bytes, mba_cuda_stream(c)>>>(__VA_ARGS__); \
        MBA_TRY(mba__cuda_launch_check((c), k_)); \
    } while (0)

/* Expands the statements once per tensor type; T is float or bf16 in them. */
#define MBA_WITH_DTYPE(dtype, T, ...) \
    do { \
        if ((dtype) == MBA_BF16) { \
            typedef bf16 T; \
            __VA_ARGS__; \
        } else { \
            typedef float T; \
            __VA_ARGS__; \
        } \
    } while (0)

/* Turns a run-time flag into a compile-time constant. */
#define MBA_WITH_BOOL(flag, NAME, ...) \
    do { \
        if (flag) { \
            constexpr bool NAME = true; \
            __VA_ARGS__; \
        } else { \
            constexpr bool NAME = false; \
            __VA_ARGS__; \
        } \
    } while (0)

/* ---- numbers ---- */

static __device__ __forceinline__ float                   to_float(float x) { return x; }
static __device__ __forceinline__ float                   to_float(bf16 x) { return __bfloat162float(x); }
template <typename T> static __device__ __forceinline__ T from_float(float x);
template <> __device__ __forceinline__ float              from_float<float>(float x) { return x; }
template <> __device__ __forceinline__ bf16               from_float<bf16>(float x) { return __float2bfloat16_rn(x); }

/* exp and related functions by the special-function unit, without the instructions that preserve denormals. Error 2
 * ulp; for exp another 1.2 |x| ulp from the rounded exponent, below 1e-6 relative for |x| < 8. */
static __device__ __forceinline__ float fast_exp2(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

static __device__ __forceinline__ float fast_reciprocal(float x)
{
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

static __device__ __forceinline__ float sigmoid(float x) { return fast_reciprocal(1.0f + fast_exp2(-1.44269504f * x)); }
static __device__ __forceinline__ float silu(float x) { return x * sigmoid(x); }

/* ---- 16-byte vectors: vec16<T>::N values that move in one instruction ---- */

template <typename T> struct vec16 {
    enum { N = 16 / sizeof(T) };
};

/* N values (N * sizeof(T) = 4, 8 or 16 bytes, aligned to that) to and from fp32 registers. */
template <int BYTES> struct word;
template <> struct word<2> {
    typedef uint16_t type;
};
template <> struct word<4> {
    typedef uint32_t type;
};
template <> struct word<8> {
    typedef uint2 type;
};
template <> struct word<16> {
    typedef uint4 type;
};

/* Converts the values of a word to fp32. Of two bf16 in a register, a shift converts the low one and a mask the high
 * one; the compiler's own code takes three instructions for the two. */
template <int N> static __device__ __forceinline__ void spread(float (&to)[N], const float (&v)[N])
{
#pragma unroll
    for (int i = 0; i < N; i++) to[i] = v[i];
}

template <int N> static __device__ __forceinline__ void spread(float (&to)[N], const bf16 (&v)[N])
{
    if constexpr (N == 1) {
        to[0] = to_float(v[0]);
    } else {
        union {
            bf16     v[N];
            uint32_t pair[N / 2];
        } u;
#pragma unroll
        for (int i = 0; i < N; i++) u.v[i] = v[i];
#pragma unroll
        for (int i = 0; i < N / 2; i++) {
            to[2 * i] = __uint_as_float(u.pair[i] << 16);
            to[2 * i + 1] = __uint_as_float(u.pair[i] & 0xffff0000u);
        }
    }
}

template <int N, typename T> static __device__ __forceinline__ void load(float (&to)[N], const T *from)
{
    union {
        typename word<N * sizeof(T)>::type w;
        T                                  v[N];
    } u;
    u.w = *(const typename word<N * sizeof(T)>::type *)from;
    spread(to, u.v);
}

template <int N, typename T> static __device__ __forceinline__ void store(T *to, const float (&from)[N])
{
    union {
        typename word<N * sizeof(T)>::type w;
        T                                  v[N];
    } u;
#pragma unroll
    for (int i = 0; i < N; i++) u.v[i] = from_float<T>(from[i]);
    *(typename word<N * sizeof(T)>::type *)to = u.w;
}

/* ---- strided views: element i is at[(i / run) * pitch + i % run] (tensor.h) ---- */

template <typename T> struct strided_view {
    T                            *at;
    int64_t                       run, pitch;
    __device__ __forceinline__ T *element(int64_t i) const
    {
        return run == pitch ? at + i : at + i / run * pitch + i % run;
    }
    /* row r of `cols` values; a row never spans two runs */
    __device__ __forceinline__ T *row(int64_t r, int64_t cols) const
    {
        return run == cols ? at + r * pitch : element(r * cols);
    }
};

/* The view of a tensor; for an absent one `at` is NULL. A dense tensor has rows of its last axis. */
template <typename T> static inline strided_view<T> mba_strided_view(const mba_tensor *t, void *at)
{
    strided_view<T> w = { NULL, 1, 1 };
    if (!t) return w;
    w.at = (T *)at;
    w.run = mba_dense(t) ? mba_cols(t) : t->run;
    w.pitch = mba_dense(t) ? mba_cols(t) : t->pitch;
    return w;
}

/* Whether every row consists of whole, aligned vectors of n values: checks address, row length and pitch. */
static inline bool mba_vec_aligned(const mba_tensor *t, const void *at, int n)
{
    if (!t) return true;
    const int64_t bytes = n * (int64_t)mba_dtype_bytes(t->type.dtype);
    return (uintptr_t)at % (size_t)bytes == 0 && mba_cols(t) % n == 0 && (mba_dense(t) || t->pitch % n == 0);
}

/* ---- sums and maxima; every thread gets the result ---- */

static __device__ __forceinline__ float warp_sum(float x)
{
#pragma unroll
    for (int d = 16; d; d >>= 1) x += __shfl_xor_sync(0xffffffffu, x, d);
    return x;
}

static __device__ __forceinline__ float warp_max(float x)
{
#pragma unroll
    for (int d = 16; d; d >>= 1) x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, d));
    return x;
}

/* THREADS is the size of the block. Two barriers; consecutive calls need none between them. */
template <int THREADS> static __device__ __forceinline__ float block_sum(float x)
{
    __shared__ float part[THREADS / 32];
    x = warp_sum(x);
    if (THREADS == 32) return x;
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = x;
    __syncthreads();
    x = 0;
#pragma unroll
    for (int w = 0; w < THREADS / 32; w++) x += part[w];
    __syncthreads();
    return x;
}

template <int THREADS> static __device__ __forceinline__ float block_max(float x)
{
    __shared__ float part[THREADS / 32];
    x = warp_max(x);
    if (THREADS == 32) return x;
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = x;
    __syncthreads();
    x = part[0];
#pragma unroll
    for (int w = 1; w < THREADS / 32; w++) x = fmaxf(x, part[w]);
    __syncthreads();
    return x;
}

/* The same in double, for losses and norms. */
static __device__ __forceinline__ double warp_sum(double x)
{
#pragma unroll
    for (int d = 16; d; d >>= 1) x += __shfl_xor_sync(0xffffffffu, x, d);
    return x;
}

template <int THREADS> static __device__ __forceinline__ double block_sum(double x)
{
    __shared__ double part[THREADS / 32];
    x = warp_sum(x);
    if (THREADS == 32) return x;
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = x;
    __syncthreads();
    x = 0;
    for (int w = 0; w < THREADS / 32; w++) x += part[w];
    __syncthreads();
    return x;
}

/* ---- ragged batches: shapes are capacities; the step says how many leading rows (or elements) are valid ---- */

struct ragged {
    mba_count kind;
    int64_t   all, entries, each;
}; /* all = entries of axis 0 times rows of each */

static __device__ __forceinline__ int64_t valid_rows_of(ragged r, const mba_step *step)
{
    return r.kind == MBA_ALL ? r.all : mba_step_rows(step, r.kind, r.entries) * r.each;
}

static inline ragged mba_all(int64_t rows)
{
    const ragged r = { MBA_ALL, rows, rows, 1 };
    return r;
}

static inline ragged mba_ragged_rows(const mba_tensor *t) /* mba__valid_rows of ops/rows.h */
{
    const int64_t entries = t->type.dim[0];
    const ragged  r = { t->type.rank > 1 ? t->type.count : MBA_ALL, mba_rows(t), entries, mba_rows(t) / entries };
    return r;
}

static inline ragged mba_ragged_elems(const mba_tensor *t)
{
    const int64_t entries = t->type.dim[0];
    const ragged  r = { t->type.count, mba_elems(t), entries, mba_elems(t) / entries };
    return r;
}

/* ---- random numbers: core/rng.h's Philox, same bits as on the CPU ---- */

static __device__ __forceinline__ void philox(uint32_t (&u)[4], uint64_t key, uint64_t hi, uint64_t lo)
{
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    uint32_t c0 = (uint32_t)lo, c1 = (uint32_t)(lo >> 32), c2 = (uint32_t)hi, c3 = (uint32_t)(hi >> 32);
#pragma unroll
    for (int round = 0; round < 10; round++) {
        const uint32_t h0 = __umulhi(0xD2511F53u, c0), l0 = 0xD2511F53u * c0;
        const uint32_t h1 = __umulhi(0xCD9E8D57u, c2), l1 = 0xCD9E8D57u * c2;
        c0 = h1 ^ c1 ^ k0;
        c1 = l1;
        c2 = h0 ^ c3 ^ k1;
        c3 = l0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    u[0] = c0;
    u[1] = c1;
    u[2] = c2;
    u[3] = c3;
}

#endif
