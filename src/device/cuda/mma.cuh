// SPDX-License-Identifier: Apache-2.0
/* mma.cuh -- tensor cores by mma.sync (sm_80 and later): bf16 operands, fp32 accumulators, tiles in shared memory.
 *
 *     load_tile<64, 256>(tile, x, step, rows, cols);  cp_commit();  cp_wait<0>();  __syncthreads();
 *     uint32_t a[4], b[4];
 *     a_rows(a, tile, m0, k0);                        // A (m, k) from a tile of rows m
 *     b_rows(b, other, n0, k0);                       // B (k, n) from a tile of rows n: two blocks of 8 columns
 *     mma(acc[0], a, b[0], b[1]);  mma(acc[1], a, b[2], b[3]);
 *
 * A tile has any number of rows of 64 bf16 (128 bytes). The 16-byte vectors of a row are swizzled (vector ^ row % 8),
 * so that eight rows of one column, and eight vectors of one row, are in different banks.
 *
 * Fragments of a lane, with g = lane / 4 and t = lane % 4:
 *   A (16, 16)  a[0] row g, k 2t and 2t+1; a[1] row g+8; a[2] row g, k+8; a[3] row g+8, k+8
 *   B (16, 8)   b0 k 2t and 2t+1, column g; b1 k+8
 *   C (16, 8)   c[0], c[1] row g, columns 2t and 2t+1; c[2], c[3] row g+8 */
#ifndef MBA_MMA_CUH
#define MBA_MMA_CUH

#include "device/cuda/common.cuh"

#define MBA_DYNAMIC_SMEM(name) extern __shared__ __align__(1024) unsigned char name[]

enum { TILE_ROW_BYTES = 128 };

static __device__ __forceinline__ int tile_at(int row, int vec)
{
    return row * TILE_ROW_BYTES + ((vec ^ (row & 7)) << 4);
}

/* ---- asynchronous copies ---- */

static __device__ __forceinline__ uint32_t smem_address(const void *p) { return (uint32_t)__cvta_generic_to_shared(p); }

/* Copies 16 bytes, or writes 16 zero bytes without reading `from`. */
static __device__ __forceinline__ void cp_async16(void *to, const void *from, bool read)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(smem_address(to)), "l"(from), "r"(read ? 16 : 0)
                 : "memory");
}
/* The same for 4 bytes. */
static __device__ __forceinline__ void cp_async4(void *to, const void *from, bool read)
{
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(smem_address(to)), "l"(from), "r"(read ? 4 : 0)
                 : "memory");
}
static __device__ __forceinline__ void cp_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int PENDING> static __device__ __forceinline__ void cp_wait()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}

/* Copies ROWS rows of 64 columns; rows from `rows` and columns from `cols` (a multiple of 8) on are zero. */
template <int ROWS, int THREADS>
static __device__ __forceinline__ void load_tile(unsigned char *tile, const bf16 *from, int64_t step, int rows,
                                                 int cols)
{
#pragma unroll
    for (int i = 0; i < ROWS * 8; i += THREADS) {
        const int r = (i + (int)threadIdx.x) >> 3, vec = threadIdx.x & 7;
        cp_async16(tile + tile_at(r, vec), from + r * step + vec * 8, r < rows && vec * 8 < cols);
    }
}

/* ---- fragments ---- */

static __device__ __forceinline__ void ldmatrix(uint32_t (&r)[4], const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(smem_address(row))
                 : "memory");
}
static __device__ __forceinline__ void ldmatrix_t(uint32_t (&r)[4], const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(smem_address(row))
                 : "memory");
}
static __device__ __forceinline__ void mma(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* x (hi + lo) for two bf16 at once, with one rounding: a factor of nearly fp32 precision in two instructions. */
static __device__ __forceinline__ uint32_t times(uint32_t x, uint32_t hi, uint32_t lo)
{
    uint32_t r;
    asm("{\n.reg .b32 q;\nfma.rn.bf16x2 q, %1, %3, %4;\nfma.rn.bf16x2 %0, %1, %2, q;\n}\n"
        : "=r"(r)
        : "r"(x), "r"(hi), "r"(lo), "r"(0x80008000u));
    return r;
}

/* Two values as bf16 in one word, the first in the low half. */
static __device__ __forceinline__ uint32_t pack(float a, float b)
{
    union {
        __nv_bfloat162 v;
        uint32_t       w;
    } u;
    u.v = __floats2bfloat162_rn(a, b);
    return u.w;
}
static __device__ __forceinline__ float low_of(uint32_t w) { return __uint_as_float(w << 16); }
static __device__ __forceinline__ float high_of(uint32_t w) { return __uint_as_float(w & 0xffff0000u); }

/* Splits two factors into the hi and lo words of times(): value and rounding residual. */
static __device__ __forceinline__ uint2 split(float a, float b)
{
    const uint32_t hi = pack(a, b);
    return make_uint2(hi, pack(a - low_of(hi), b - high_of(hi)));
}

/* A (16 m, 16 k) from a tile whose rows are m (a_rows) or k (a_columns). */
static __device__ __forceinline__ void a_rows(uint32_t (&a)[4], const unsigned char *tile, int m, int k)
{
    const int lane = threadIdx.x & 31;
    ldmatrix(a, tile + tile_at(m + (lane & 15), (k >> 3) + (lane >> 4)));
}
static __device__ __forceinline__ void a_columns(uint32_t (&a)[4], const unsigned char *tile, int m, int k)
{
    const int lane = threadIdx.x & 31;
    ldmatrix_t(a, tile + tile_at(k + (lane & 7) + (lane >> 4) * 8, (m >> 3) + (lane >> 3 & 1)));
}

/* B (16 k, 16 n) from a tile whose rows are n (b_rows) or k (b_columns): b[0], b[1] for columns 0-7, b[2], b[3] for
 * 8-15. */
static __device__ __forceinline__ void b_rows(uint32_t (&b)[4], const unsigned char *tile, int n, int k)
{
    const int lane = threadIdx.x & 31;
    ldmatrix(b, tile + tile_at(n + (lane & 7) + (lane >> 4) * 8, (k >> 3) + (lane >> 3 & 1)));
}
static __device__ __forceinline__ void b_columns(uint32_t (&b)[4], const unsigned char *tile, int n, int k)
{
    const int lane = threadIdx.x & 31;
    ldmatrix_t(b, tile + tile_at(k + (lane & 15), (n >> 3) + (lane >> 4)));
}

#endif
