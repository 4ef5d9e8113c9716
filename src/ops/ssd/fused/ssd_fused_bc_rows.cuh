// SPDX-License-Identifier: Apache-2.0
/* ssd_fused_bc_rows.cuh -- basic operations of a consumer warpgroup of ssd_bwd_bc on its rows of shared-memory tiles:
 * addresses, scaled rows as left operands in registers, wgmma products, and dot products of rows.
 *
 * A warp owns 16 of the 64 rows of a chunk; a thread holds rows `row` and `row + 8` of accumulators. The loop that uses
 * these is in ssd_fused_bc_chunk.cuh, the maths in ssd_fused_bc.cuh. */
#ifndef MBA_SSD_FUSED_BC_ROWS_CUH
#define MBA_SSD_FUSED_BC_ROWS_CUH

#include "ops/ssd/fused/ssd_fused_pairs.cuh"

#if MBA_HOPPER || !defined(__CUDA_ARCH__)

struct bc_rows {
    typedef uint32_t fragments[4][4];
    int              tid, warp, lane, t4, row;
    uint32_t         moff; /* byte offset of this lane's row for ldmatrix and stmatrix */

    /* Recomputes the indices from an opaque thread number. Called at the start of each phase; otherwise the compiler
     * would keep values derived from them in registers across phases. */
    __device__ __forceinline__ void recompute_lane_indices()
    {
        uint32_t thread = threadIdx.x;
        opt_barrier(thread);
        tid = (int)thread & 127;
        warp = tid >> 5;
        lane = tid & 31;
        t4 = lane & 3;
        row = 16 * warp + (lane >> 2);
        const int r = 16 * warp + (lane & 15);
        moff = (uint32_t)(r * 128);
    }
    /* Broadcasts lane 0's value, so that the compiler knows it to be warp-uniform. It then computes wgmma descriptors
     * in uniform registers: one R2UR per head instead of two per product. */
    static __device__ __forceinline__ unsigned warp_broadcast(unsigned v) { return __shfl_sync(0xffffffffu, v, 0); }
    /* Byte offset of columns 16 i .. 16 i + 15 of this lane's row in a swizzled tile. */
    __device__ __forceinline__ uint32_t tile_offset(int i) const
    {
        return moff + (((2 * i + (uint32_t)(lane >> 4)) ^ (moff >> 7 & 7)) << 4);
    }
    static __device__ __forceinline__ uint32_t word_of(const uint4 &v, int c)
    {
        return c == 0 ? v.x : c == 1 ? v.y : c == 2 ? v.z : v.w;
    }
    /* Stores two rows of B or C to shared memory in the column order of saved states: each 16-byte vector becomes parts
     * of two fragments. */
    __device__ __forceinline__ void store_rows_permuted(unsigned char *tiles, const uint4 (&vectors)[4][2]) const
    {
#pragma unroll
        for (int i = 0; i < 8; i++) {
            uint32_t v[4];
#pragma unroll
            for (int e = 0; e < 4; e++) v[e] = word_of(vectors[i >> 1][e & 1], 2 * (i & 1) + (e >> 1));
            stmatrix_at(smem_address(tiles) + (i >> 2) * TILE_BYTES + tile_offset(i & 3), v);
        }
    }

    /* ---- left operands; s0, s1: factors of rows `row` and `row + 8` ---- */

    static __device__ __forceinline__ void scale(uint32_t (&to)[4], const uint32_t (&v)[4], uint2 u0, uint2 u1)
    {
        to[0] = times(v[0], u0.x, u0.y);
        to[1] = times(v[1], u1.x, u1.y);
        to[2] = times(v[2], u0.x, u0.y);
        to[3] = times(v[3], u1.x, u1.y);
    }
    static __device__ __forceinline__ void opt_barrier_all(fragments &f, int from = 0, int to = 4)
    {
#pragma unroll
        for (int i = from; i < to; i++)
#pragma unroll
            for (int j = 0; j < 4; j++) opt_barrier(f[i][j]);
    }
    /* f = this warp's rows of a tile, scaled. */
    __device__ __forceinline__ void scaled(fragments &f, const unsigned char *tile, float s0, float s1)
    {
        const uint2 u0 = split(s0, s0), u1 = split(s1, s1);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            uint32_t v[4];
            ldmatrix_at(v, smem_address(tile) + tile_offset(i));
            scale(f[i], v, u0, u1);
        }
        opt_barrier_all(f);
    }
    /* Half of the columns of this warp's rows: load_half() loads them, scale_half() writes them to f. */
    typedef uint32_t                half_rows[2][4];
    __device__ __forceinline__ void load_half(half_rows &v, const unsigned char *tile, int half) const
    {
#pragma unroll
        for (int i = 0; i < 2; i++) ldmatrix_at(v[i], smem_address(tile) + tile_offset(2 * half + i));
    }
    static __device__ __forceinline__ void scale_half(fragments &f, half_rows &v, float s0, float s1, int half)
    {
        const uint2 u0 = split(s0, s0), u1 = split(s1, s1);
#pragma unroll
        for (int i = 0; i < 2; i++) {
#pragma unroll
            for (int j = 0; j < 4; j++) opt_barrier(v[i][j]);
            scale(f[2 * half + i], v[i], u0, u1);
        }
        opt_barrier_all(f, 2 * half, 2 * half + 2);
    }
    /* Splits dCB into value and residual, both bf16, with zeros where `counts` has no bit. Rounding it to one bf16
     * would cost dB and dC as much accuracy as their own rounding, and its products run only once for all heads. */
    static __device__ __forceinline__ void split_dcb(fragments (&p)[2], const float (&sums)[32], uint32_t counts)
    {
#pragma unroll
        for (int i = 0; i < 4; i++)
#pragma unroll
            for (int j = 0; j < 4; j++) {
                const int   e = 8 * i + 4 * (j >> 1) + 2 * (j & 1);
                const uint2 w = split(counts >> e & 1 ? sums[e] : 0, counts >> (e + 1) & 1 ? sums[e + 1] : 0);
                p[0][i][j] = w.x;
                p[1][i][j] = w.y;
            }
    }
    /* Overwrites this warp's rows of C B^T, which no other warp reads any more, with dCB. */
    __device__ __forceinline__ void store_dcb(unsigned char *tile, const fragments &p) const
    {
#pragma unroll
        for (int i = 0; i < 4; i++) stmatrix_at(smem_address(tile) + tile_offset(i), p[i]);
    }

    /* ---- products ---- */

    /* by_state: sums += f (state of 64 p x 128 n); by_rows: sums += f (rows of x')^T; fragments `from` to `to` of f. */
    static __device__ __forceinline__ void by_state(float (&sums)[64], const fragments &f, const unsigned char *state,
                                                    int from = 0, int to = 4)
    {
        const uint64_t d = wgmma_smem_desc(smem_address(state), TILE_BYTES);
#pragma unroll
        for (int i = from; i < to; i++) wgmma_n128_rs<1>(sums, f[i], d + ((i * 2048) >> 4), 1);
    }
    static __device__ __forceinline__ void by_rows(float (&sums)[32], const fragments &f, const unsigned char *tile,
                                                   int from = 0, int to = 4)
    {
        const uint64_t d = wgmma_smem_desc(smem_address(tile));
#pragma unroll
        for (int i = from; i < to; i++) wgmma_n64_rs<0>(sums, f[i], d + ((i * 32) >> 4), 1);
    }
    static __device__ __forceinline__ void finish_products()
    {
        wgmma_commit();
        wgmma_wait<0>();
    }

    /* ---- sums of rows ---- */

    /* This thread's part of the dot products of accumulator rows with tile rows. */
    template <int COUNT> __device__ __forceinline__ float2 rows_dot(const float (&sums)[COUNT], const void *tiles) const
    {
        return dot_of_rows<COUNT>(sums, [&](uint32_t(&v)[4], int i) {
            ldmatrix_at(v, smem_address(tiles) + (i >> 2) * TILE_BYTES + tile_offset(i & 3));
        });
    }
    /* The same for a diagonal block of 64 x 64, on and below the diagonal only: above it e f may overflow, and zero
     * times infinity is NaN. Warp w has rows 16 w + g (+ 8); accumulators 8 i .. belong to columns 16 i + 2 t .. */
    __device__ __forceinline__ float2 lower_dot(const float (&sums)[32], const void *tile) const
    {
        const int first = 2 * t4, g = lane >> 2;
        float2    u = make_float2(0, 0);
        fragments m;
#pragma unroll
        for (int i = 0; i < 4; i++) ldmatrix_at(m[i], smem_address(tile) + tile_offset(i)); // all loads first
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const float    *d = sums + 8 * i;
            const uint32_t *v = m[i];
            if (i > warp) continue;
            u.y += low_of(v[1]) * d[2] + high_of(v[1]) * d[3];
            if (i < warp || first <= g) {
                u.x += low_of(v[0]) * d[0];
                u.y += low_of(v[3]) * d[6];
            }
            if (i < warp || first < g) {
                u.x += high_of(v[0]) * d[1];
                u.y += high_of(v[3]) * d[7];
            }
            if (i < warp) u.x += low_of(v[2]) * d[4] + high_of(v[2]) * d[5];
        }
        return u;
    }
};

#endif

#endif
