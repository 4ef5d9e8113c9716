// SPDX-License-Identifier: Apache-2.0
/* wgmma.cuh -- wgmma for attention and convolutions (sm_90a only): a warpgroup multiplies 64 rows, operands from shared
 * memory.
 *
 *     fence_proxy_async();  __syncthreads();                      // cp.async and wgmma use different proxies
 *     warpgroup_arrive();                                            // registers are ready
 *     wgmma_rows<true>(s, tile_rows(a), tile_rows(b));             // s (64, 64) = a b^T, 16 columns of a and b
 *     wgmma_columns(o, p, tile_columns(b, bytes));                 // o (64, 8 W) += p (64, 16) b, 16 rows of b
 *     warpgroup_commit_batch();  warpgroup_wait<0>();  opt_barrier(s);
 *
 * Tiles are those of mma.cuh (rows of 64 bf16, vector ^ row % 8), aligned to 1024 bytes. The next 16 columns are 32
 * bytes further on, the next 16 rows 2048 bytes: step(tile, 32). A lane holds the same elements of its warp's 16 rows
 * as after mma.sync. Until warpgroup_wait returns, no code may touch the registers of a product; opt_barrier enforces
 * it. */
#ifndef MBA_WGMMA_CUH
#define MBA_WGMMA_CUH

#include "device/cuda/mma.cuh"

/* Descriptor: 128-byte swizzle, groups of 8 rows 1024 bytes apart. beside: bytes to the next 64 columns, if rows are
 * k. */
static __device__ __forceinline__ uint64_t tile_columns(const void *tile, int beside)
{
    return (uint64_t)(smem_address(tile) & 0x3ffff) >> 4 | (uint64_t)(beside >> 4) << 16 | (uint64_t)(1024 >> 4) << 32
           | (uint64_t)1 << 62;
}
static __device__ __forceinline__ uint64_t tile_rows(const void *tile) { return tile_columns(tile, 16); }

/* Descriptor without swizzle: matrices of 8 vectors of 16 bytes beside each other. along_k, along_n: bytes to the next
 * 8 in each direction. */
static __device__ __forceinline__ uint64_t vectors(const void *first, int along_k, int along_n)
{
    return (uint64_t)(smem_address(first) & 0x3ffff) >> 4 | (uint64_t)(along_k >> 4) << 16
           | (uint64_t)(along_n >> 4) << 32;
}
static __device__ __forceinline__ uint64_t step(uint64_t tile, int bytes) { return tile + (bytes >> 4); }

template <int W> static __device__ __forceinline__ void opt_barrier(float (&d)[W][4])
{
#pragma unroll
    for (int i = 0; i < W; i++)
#pragma unroll
        for (int e = 0; e < 4; e++) asm volatile("" : "+f"(d[i][e])::"memory");
}

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

static __device__ __forceinline__ void fence_proxy_async()
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
static __device__ __forceinline__ void warpgroup_arrive() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
static __device__ __forceinline__ void warpgroup_commit_batch()
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int PENDING> static __device__ __forceinline__ void warpgroup_wait()
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}

#define ACC(C, d, i) C(d[i][0]), C(d[i][1]), C(d[i][2]), C(d[i][3])
#define ACC8(C, d, i) \
    ACC(C, d, i), ACC(C, d, i + 1), ACC(C, d, i + 2), ACC(C, d, i + 3), ACC(C, d, i + 4), ACC(C, d, i + 5), \
        ACC(C, d, i + 6), ACC(C, d, i + 7)
#define OUT32 \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define OUT64 \
    OUT32 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
          "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"

/* d (64, 64) = or += a b^T over 16 columns of the tiles. */
template <bool FIRST> static __device__ __forceinline__ void wgmma_rows(float (&d)[8][4], uint64_t a, uint64_t b)
{
    if constexpr (FIRST)
        asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" OUT32 "}, %32, %33, 0, 1, 1, 0, 0;"
                     : ACC8("=f", d, 0)
                     : "l"(a), "l"(b));
    else
        asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" OUT32 "}, %32, %33, 1, 1, 1, 0, 0;"
                     : ACC8("+f", d, 0)
                     : "l"(a), "l"(b));
}

/* d (64, 80) += a (64, 16) b^T over 16 columns of b. */
static __device__ __forceinline__ void wgmma_rows(float (&d)[10][4], const uint32_t (&a)[4], uint64_t b)
{
    asm volatile("wgmma.mma_async.sync.aligned.m64n80k16.f32.bf16.bf16 {" OUT32
                 ", %32, %33, %34, %35, %36, %37, %38, %39}, {%40, %41, %42, %43}, %44, 1, 1, 1, 0;"
                 : ACC8("+f", d, 0), ACC("+f", d, 8), ACC("+f", d, 9)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

/* d (64, 64 or 128) += a (64, 16) b over 16 rows of the tile. */
static __device__ __forceinline__ void wgmma_columns(float (&d)[8][4], const uint32_t (&a)[4], uint64_t b)
{
    asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" OUT32 "}, "
                 "{%32, %33, %34, %35}, %36, 1, 1, 1, 1;"
                 : ACC8("+f", d, 0)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
static __device__ __forceinline__ void wgmma_columns(float (&d)[16][4], const uint32_t (&a)[4], uint64_t b)
{
    asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" OUT64 "}, "
                 "{%64, %65, %66, %67}, %68, 1, 1, 1, 1;"
                 : ACC8("+f", d, 0), ACC8("+f", d, 8)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

#undef ACC
#undef ACC8
#undef OUT32
#undef OUT64

#else /* compiled for every architecture, launched on sm_90a only */

static __device__ __forceinline__ void                        fence_proxy_async() { __trap(); }
static __device__ __forceinline__ void                        warpgroup_arrive() { __trap(); }
static __device__ __forceinline__ void                        warpgroup_commit_batch() { __trap(); }
template <int PENDING> static __device__ __forceinline__ void warpgroup_wait() { __trap(); }
template <bool FIRST> static __device__ __forceinline__ void  wgmma_rows(float (&d)[8][4], uint64_t, uint64_t)
{
    opt_barrier(d);
}
static __device__ __forceinline__ void wgmma_rows(float (&d)[10][4], const uint32_t (&)[4], uint64_t)
{
    opt_barrier(d);
}
template <int W> static __device__ __forceinline__ void wgmma_columns(float (&d)[W][4], const uint32_t (&)[4], uint64_t)
{
    opt_barrier(d);
}

#endif
#endif
