// SPDX-License-Identifier: Apache-2.0
/* mma_fragments.cuh -- mma.sync on values in registers (tf32, bf16), and named barriers between the roles of a block.
 *
 *     float c[4] = { 0, 0, 0, 0 };                    // 16 x 8: rows lane/4 and lane/4 + 8, columns 2 (lane%4) and + 1
 *     mma_bf16_k16(c, a, b);                          // c += a (16 x 16) b (16 x 8)
 *
 * Fragments are those of mma.sync, sm_80 and later. In a 16 x 8 accumulator c[0], c[1] are row lane/4, c[2], c[3] row
 * lane/4 + 8. Tensor cores truncate tf32 operands to 10 bits of mantissa: round operands with round_tf32 first. */
#ifndef MBA_DEVICE_CUDA_MMA_FRAGMENTS_CUH
#define MBA_DEVICE_CUDA_MMA_FRAGMENTS_CUH

#include "device/cuda/common.cuh"

/* ---- tf32: c += a (16 x K) b (K x 8); a[0] (row lane/4, column lane%4), a[1] row + 8; with K = 8 a[2], a[3] the same
 * at column + 4; b[0] (row lane%4, column lane/4), b[1] row + 4 ---- */

static __device__ __forceinline__ float round_tf32(float x)
{
    uint32_t r;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(x));
    return __uint_as_float(r);
}

static __device__ __forceinline__ void mma_tf32_k4(float (&c)[4], float a0, float a1, float b0)
{
    asm("mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(__float_as_uint(a0)), "r"(__float_as_uint(a1)), "r"(__float_as_uint(b0)));
}

static __device__ __forceinline__ void mma_tf32_k8(float (&c)[4], float a0, float a1, float a2, float a3, float b0,
                                                   float b1)
{
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(__float_as_uint(a0)), "r"(__float_as_uint(a1)), "r"(__float_as_uint(a2)), "r"(__float_as_uint(a3)),
          "r"(__float_as_uint(b0)), "r"(__float_as_uint(b1)));
}

/* ---- bf16, two values in a register, the lower column (or row of b) in the lower half: a[0] (row lane/4, columns
 * 2 (lane%4) and + 1), a[1] row + 8, a[2], a[3] the same at column + 8; b[0] (rows 2 (lane%4) and + 1, column lane/4),
 * b[1] rows + 8 ---- */

static __device__ __forceinline__ uint32_t pack_bf16(float low, float high)
{
    uint32_t r;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
    return r;
}

static __device__ __forceinline__ void mma_bf16_k8(float (&c)[4], uint32_t a0, uint32_t a1, uint32_t b0)
{
    asm("mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a0), "r"(a1), "r"(b0));
}

static __device__ __forceinline__ void mma_bf16_k16(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* Transposes an 8 x 8 matrix of 16-bit values; lane/4 is the row. */
static __device__ __forceinline__ uint32_t transpose_8x8(uint32_t a)
{
    uint32_t d;
    asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(d) : "r"(a));
    return d;
}

/* ---- special-function unit ---- */

static __device__ __forceinline__ float tanh_fast(float x) // 2^-11 relative
{
    float r;
    asm("tanh.approx.f32 %0, %1;" : "=f"(r) : "f"(x));
    return r;
}

/* ---- registers ---- */

/* threadIdx.x, read again from the special register, so that values derived from it need not stay in registers. */
static __device__ __forceinline__ int thread_id_reread(void)
{
    int t;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(t));
    return t;
}

/* ---- named barriers (1 .. 15): some threads arrive and continue, others wait for them; `threads` counts both.
 * Barriers ID and ID + 1 alternate. Their numbers are constants: an SM has few barriers, and a block whose numbers the
 * compiler does not know reserves all sixteen, so that few blocks fit on an SM ---- */

#ifndef MBA_RACECHECK
/* Arrivals per warp at mbarriers that count warps: one lane arrives after the warp has synchronized. */
enum { ARRIVALS_OF_A_WARP = 1 };

template <int ID> static __device__ __forceinline__ void barrier_begin(int) {}
/* For lanes that took part in an mma: its result orders the reads of all lanes before it, so nothing is needed. */
static __device__ __forceinline__ void warp_sync(void) {}

template <int ID> static __device__ __forceinline__ void barrier_wait(int turn, int threads)
{
    if (turn & 1) asm volatile("bar.sync %0, %1;" ::"n"(ID + 1), "r"(threads) : "memory");
    else asm volatile("bar.sync %0, %1;" ::"n"(ID), "r"(threads) : "memory");
}

template <int ID> static __device__ __forceinline__ void barrier_arrive(int turn, int threads)
{
    if (turn & 1) asm volatile("bar.arrive %0, %1;" ::"n"(ID + 1), "r"(threads) : "memory");
    else asm volatile("bar.arrive %0, %1;" ::"n"(ID), "r"(threads) : "memory");
}
#else
/* For compute-sanitizer only (tests/cuda_race_test): racecheck does not follow named barriers (selective_scan.md), so
 * each is an mbarrier here, at which every thread arrives by itself, whether it waits or not. Places and counts are the
 * same. One thread calls barrier_begin before the block synchronizes. An arrival orders only its own lane, so all lanes
 * of a warp arrive. */
enum { ARRIVALS_OF_A_WARP = 32 };

static __device__ __forceinline__ void warp_sync(void) { __syncwarp(); }

template <int ID> static __device__ __forceinline__ uint32_t barrier_at(int turn)
{
    __shared__ uint64_t at[2];
    return (uint32_t)__cvta_generic_to_shared(&at[turn & 1]);
}

template <int ID> static __device__ __forceinline__ void barrier_begin(int threads)
{
    for (int turn = 0; turn < 2; turn++)
        asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(barrier_at<ID>(turn)), "r"(threads) : "memory");
}

template <int ID> static __device__ __forceinline__ uint64_t barrier_arrive(int turn, int)
{
    uint64_t phase;
    asm volatile("mbarrier.arrive.shared.b64 %0, [%1];" : "=l"(phase) : "r"(barrier_at<ID>(turn)) : "memory");
    return phase;
}

template <int ID> static __device__ __forceinline__ void barrier_wait(int turn, int threads)
{
    const uint64_t phase = barrier_arrive<ID>(turn, threads);
    for (uint32_t done = 0; !done;)
        asm volatile("{ .reg .pred p; mbarrier.test_wait.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                     : "=r"(done)
                     : "r"(barrier_at<ID>(turn)), "l"(phase)
                     : "memory");
}
#endif

/* ---- reduce-scatter over lanes ---- */

/* One step between lanes that differ in bit `mask`: lanes without the bit get the sum of their a, lanes with it of
 * b. */
static __device__ __forceinline__ float fold(float a, float b, int mask)
{
    const bool  upper = threadIdx.x & mask;
    const float keep = upper ? b : a, give = upper ? a : b;
    return keep + __shfl_xor_sync(0xffffffffu, give, mask);
}

#endif
