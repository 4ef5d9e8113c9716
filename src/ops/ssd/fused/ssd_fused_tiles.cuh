// SPDX-License-Identifier: Apache-2.0
/* ssd_fused_tiles.cuh -- a consumer warpgroup of TILED scan kernels (ssd_fused.cuh): where its tile lies in its head,
 * and for states of two tiles (TILED = 2) how two warpgroups that share a tile of p divide the output. Each has the
 * products of its tile of n, for all positions of a chunk; they exchange halves, and each scales and writes one
 * half. */
#ifndef MBA_SSD_FUSED_TILES_CUH
#define MBA_SSD_FUSED_TILES_CUH

#include "ops/ssd/fused/ssd_fused_group.cuh"

#if MBA_HOPPER || !defined(__CUDA_ARCH__)

struct tiled_warpgroup : consumer_warpgroup {
    using consumer_warpgroup::consumer_warpgroup;

    /* ---- the tile ---- */

    /* TILED: whether (p, n) of this tile exists in its head. */
    template <int TILED> __device__ __forceinline__ bool in_head(int p, int n) const
    {
        return !TILED
               || (head_of_tile<TILED>(a, head) < a.heads && tile_p<TILED>(a, head) + p < a.P
                   && tile_n<TILED>(head) + n < a.N);
    }
    /* Row p of this head or tile of a state of the operator. */
    template <int TILED, typename T> __device__ __forceinline__ T *state_row(const strided<T> &state, int p) const
    {
        return state.row(it.b, head_of_tile<TILED>(a, head), tile_p<TILED>(a, head) + p) + tile_n<TILED>(head);
    }
    /* TILED: D of row p of this tile. */
    template <int TILED> __device__ __forceinline__ float skip_of_row(int p) const
    {
        const int h = record_head<TILED>(a, head), in = tile_p<TILED>(a, head) + p;
        return a.skip_cols == 1 ? a.skip[h] : in < a.P ? a.skip[h * a.P + in] : 0;
    }
    /* TILED: keeps the position in shared memory, where the chunk loop reads it. */
    template <int TILED> __device__ __forceinline__ void spill_tile()
    {
        __syncwarp();
        if (lane == 0) {
            sm.spilled[wg * 4 + warp].b = it.b;
            sm.spilled[wg * 4 + warp].head = head;
        }
        if (tid == 0) set_place<TILED>(sm.place[wg], a, head); // for the thread that starts copies
        __syncwarp();
    }

    /* ---- the output ---- */

    /* y = out Y + D x of 16 positions, bf16. */
    __device__ __forceinline__ void output_of(uint32_t (&o)[4], const float *v, const float4 &e,
                                              const uint32_t (&x)[4]) const
    {
        o[0] = pack(v[0] * e.x + D0 * low_of(x[0]), v[1] * e.y + D0 * high_of(x[0]));
        o[1] = pack(v[2] * e.x + D1 * low_of(x[1]), v[3] * e.y + D1 * high_of(x[1]));
        o[2] = pack(v[4] * e.z + D0 * low_of(x[2]), v[5] * e.w + D0 * high_of(x[2]));
        o[3] = pack(v[6] * e.z + D1 * low_of(x[3]), v[7] * e.w + D1 * high_of(x[3]));
    }
    /* 16 positions of the output, v: their sums, to their place in the tile; reverse: reads x there first. */
    template <bool REV>
    __device__ __forceinline__ void write_output(uint32_t at, float *src, float2 &dD, const float *v, int k)
    {
        uint32_t o[4];
        output_of(o, v, out[k], raw[k]);
        if (REV) source_sums(src, dD, v, out[k], raw[k], at);
        stmatrix_t_at(at, o);
    }
    /* TILED = 2: half of the sum per warpgroup; exchange_outputs() adds them. */
    template <bool REV> __device__ __forceinline__ void cb_term_of_half(const fragments &x, const void *cb)
    {
        const uint64_t d = wgmma_smem_desc(smem_address(cb)) + (uint64_t)(half * ((REV ? 2 * 2048 : 2 * 32) >> 4));
        uint32_t       own[2][4];
#pragma unroll
        for (int k = 0; k < 2; k++)
#pragma unroll
            for (int j = 0; j < 4; j++) {
                own[k][j] = half ? x[k + 2][j] : x[k][j];
                opt_barrier(own[k][j]);
            }
        wgmma_fence();
#pragma unroll
        for (int k = 0; k < 2; k++)
            if (REV) wgmma_n64_rs<1>(y, own[k], d + ((k * 2048) >> 4), 1);
            else wgmma_n64_rs<0>(y, own[k], d + ((k * 32) >> 4), 1);
    }
    /* TILED = 2: the same for eight sums; each lane ends with one position of this warpgroup's half. */
    __device__ __forceinline__ void reduce_half_of_sources(float (&src)[16])
    {
        reduce_scatter<4, 16>(src);
        reduce_scatter<2, 8>(src);
        reduce_scatter<1, 4>(src);
        const int l = 32 * half + 16 * (lane >> 4) + 8 * (lane >> 3 & 1) + 2 * t4 + (lane >> 2 & 1);
        *source_partial<false, 2>(warp, l) = src[0];
    }
    /* TILED = 2: each warpgroup has the share of its tile of n in all positions. They give each other half of the
     * positions; v is the sum of the half that this one keeps. */
    __device__ __forceinline__ void exchange_outputs(float (&v)[16])
    {
        float *give = (float *)sm.y[1] + half * 16 * 128 + tid, *take = (float *)sm.y[1] + (half ^ 1) * 16 * 128 + tid;
#pragma unroll
        for (int i = 0; i < 16; i++) give[i * 128] = half ? y[i] : y[i + 16];
        bar_sync<3, 128 * HEADS>();
#pragma unroll
        for (int i = 0; i < 16; i++) v[i] = (half ? y[i + 16] : y[i]) + take[i * 128];
    }
    /* TILED = 2: the half of the positions that this warpgroup stores. */
    template <bool REV, bool WIDE_RANGE>
    __device__ __forceinline__ void write_half_of_output(uint32_t tile, float (&src)[16], float2 &dD)
    {
        float v[16];
        exchange_outputs(v);
#pragma unroll
        for (int k = 0; k < 2 && WIDE_RANGE; k++) { // all four are loaded
#pragma unroll
            for (int j = 0; j < 4; j++) raw[k][j] = half ? raw[k + 2][j] : raw[k][j];
            out[k] = half ? out[k + 2] : out[k];
        }
        if (REV) mbar_wait(smem_address(&sm.x_full[0][chunks_done & 1]), chunks_done >> 1 & 1);
#pragma unroll
        for (int k = 0; k < 2; k++)
            write_output<REV>(tile + matrix_offset + (2 * half + k) * 16 * 128, src + 4 * k, dD, v + 8 * k, k);
    }
    /* TILED = 2: stores <x', gradient of x'> of this warpgroup's half of a chunk; the first tile of n has them. */
    __device__ __forceinline__ void store_half_of_sources(int b, int tile, int c)
    {
        const int l = 32 * half + tid;
        if (tid < FQ / 2)
            a.src[(((int64_t)b * a.H + (tile & ~1)) * a.K + c) * FQ + l] = *source_partial<false, 2>(0, l)
                                                                           + *source_partial<false, 2>(1, l)
                                                                           + *source_partial<false, 2>(2, l)
                                                                           + *source_partial<false, 2>(3, l);
    }
};

#endif

#endif
