// SPDX-License-Identifier: Apache-2.0
/* ssd_fused_bc_feed.cuh -- shared memory of a block of ssd_bwd_bc, the producer thread, and the two warps for <H1, G1>.
 *
 * The producer fills a ring of two stages by TMA, one head of a pair of chunks per stage: first x, G1 and the records
 * (barrier full), then dy and H1 (barrier full_late). Consumers and dot warps release a stage through `empty`. The
 * maths is in ssd_fused_bc.cuh. */
#ifndef MBA_SSD_FUSED_BC_FEED_CUH
#define MBA_SSD_FUSED_BC_FEED_CUH

#include "ops/ssd/fused/ssd_fused_items.cuh"
#include "ops/ssd/fused/ssd_fused_pairs.cuh"

enum { BC_STAGES = 2 };

struct bc_stage {
    unsigned char dy[2][TILE_BYTES], x[2][TILE_BYTES], h[2 * TILE_BYTES], g[2 * TILE_BYTES];
};
struct bc_smem {
    bc_stage      st[BC_STAGES];                              /* consumers replace x by x' in place */
    unsigned char c[2][2 * TILE_BYTES], b[2][2 * TILE_BYTES]; /* C, B of both chunks, columns as in saved states */
    unsigned char m[3][TILE_BYTES];                           /* C B^T, blocks 00, 10, 11; at the end dCB */
    float         rec[BC_STAGES][2][REC];
    float4        previous[256];     /* per thread: products with the sums before this head: q, row */
    float         previous_end[256]; /* and the product that goes into `ends` */
    unsigned      iteration[256];    /* with resets: heads so far, because registers are short */
    uint64_t      full[BC_STAGES], full_late[BC_STAGES], empty[BC_STAGES]; /* full: x, G1, records; late: dy, H1 */
    uint64_t      scaled[2][BC_STAGES];                                    /* x' of a chunk is ready */
    uint64_t      cb_full;                                                 /* C B^T has arrived */
    int           pair[BC_STAGES]; /* (sequence, head, pair of chunks) of a stage */
    int           resets[2][FQ];
    struct {
        pair_block at;
        unsigned   block, n;
        int        slow;
    } current[2];    /* per warpgroup: its work item; slow: some
                                                          head has a wide-range chunk */
    unsigned blocks; /* work items of the grid */
    struct {
        volatile int b, c2, tile;
        tile_place   place;
    } feed; /* TILED: what the producer loads next */
};
static_assert(sizeof(bc_smem) + 1024 <= SSD_BC_SMEM, "the plan asks for less");

static_assert(sizeof(bc_stage) % 1024 == 0, "tiles begin at multiples of 1 KB");

struct bc_maps {
    CUtensorMap x, dy, h, g, cb, low;
};

#if MBA_HOPPER || !defined(__CUDA_ARCH__)

template <int TILED> static __device__ __forceinline__ unsigned pair_blocks(const fused_task &a)
{
    return (unsigned)(a.B * (a.K / 2) * pair_groups<TILED>(a));
}

/* The loop of the producer thread; it has 24 registers. */
static __device__ __forceinline__ void bc_producer(bc_smem &sm, const fused_task &a, const bc_maps &maps)
{
    unsigned iteration = 0;
    for (unsigned block = blockIdx.x; block < pair_blocks<0>(a); block += gridDim.x) {
        const pair_block k = pair_block_of(a, block);
#pragma unroll 1
        for (int i = 0; i < a.J; i++, iteration++) {
            const int      s = iteration % BC_STAGES, h = k.g * a.J + i, z = (k.b * a.H + h) * (a.K / 2) + k.c2;
            const uint32_t full = smem_address(&sm.full[s]), full_late = smem_address(&sm.full_late[s]);
            bc_stage      &t = sm.st[s];
            mbar_wait(smem_address(&sm.empty[s]), (iteration / BC_STAGES & 1) ^ 1);
            sm.pair[s] = z;
            mbar_expect(full, 4 * TILE_BYTES + 2 * REC * 4);
            mbar_expect(full_late, 4 * TILE_BYTES);
#pragma unroll 1
            for (int c = 0; c < 2; c++) { // operands of the first product first
                bulk_load(smem_address(sm.rec[s][c]), a.rec_plain + ((int64_t)z * 2 + c) * REC, REC * 4, full);
                tma_load3(smem_address(t.x[c]), &maps.x, full, h * FP, k.c2 * PAIR + FQ * c, k.b);
                tma_load3(smem_address(t.g) + c * TILE_BYTES, &maps.g, full, 64 * c, 0, z);
            }
#pragma unroll 1
            for (int c = 0; c < 2; c++) {
                tma_load3(smem_address(t.dy[c]), &maps.dy, full_late, h * FP, k.c2 * PAIR + FQ * c, k.b);
                tma_load3(smem_address(t.h) + c * TILE_BYTES, &maps.h, full_late, 64 * c, 0, z);
            }
        }
    }
}
/* TILED: the copies of one tile into stage s. What outlives a copy is in shared memory. */
template <int TILED>
static __device__ __forceinline__ void load_pair_tile(bc_smem &sm, const fused_task &a, const bc_maps &maps, int s)
{
    const uint32_t full = smem_address(&sm.full[s]), full_late = smem_address(&sm.full_late[s]);
    bc_stage      &t = sm.st[s];
    sm.pair[s] = (sm.feed.b * a.H + sm.feed.tile) * (a.K / 2) + sm.feed.c2;
    mbar_expect(full, 4 * TILE_BYTES + 2 * REC * 4);
    mbar_expect(full_late, 4 * TILE_BYTES);
#pragma unroll 1
    for (int c = 0; c < 2; c++) { // operands of the first product first
        const int row = (sm.feed.b * a.heads + sm.feed.place.head) * a.K + 2 * sm.feed.c2 + c;
        bulk_load(smem_address(sm.rec[s][c]), a.rec_plain + (int64_t)(unsigned)row * REC, REC * 4, full);
        load_x_tile<TILED>(smem_address(t.x[c]), &maps.x, full, sm.feed.place, 0, sm.feed.c2 * PAIR + FQ * c,
                           sm.feed.b);
        tma_load3(smem_address(t.g) + c * TILE_BYTES, &maps.g, full, 64 * c, 0, *(volatile int *)&sm.pair[s]);
    }
#pragma unroll 1
    for (int c = 0; c < 2; c++) {
        load_x_tile<TILED>(smem_address(t.dy[c]), &maps.dy, full_late, sm.feed.place, 0, sm.feed.c2 * PAIR + FQ * c,
                           sm.feed.b);
        tma_load3(smem_address(t.h) + c * TILE_BYTES, &maps.h, full_late, 64 * c, 0, *(volatile int *)&sm.pair[s]);
    }
}
template <int TILED>
static __device__ __forceinline__ void bc_tiled_producer(bc_smem &sm, const fused_task &a, const bc_maps &maps)
{
    unsigned iteration = 0;
    for (unsigned block = blockIdx.x; block < pair_blocks<TILED>(a); block += gridDim.x) {
        const pair_block k = pair_block_of(a, block);
        sm.feed.b = k.b;
        sm.feed.c2 = k.c2;
        sm.feed.tile = tile_of_group<TILED>(a, k.g, 0);
        set_place<TILED>(sm.feed.place, a, sm.feed.tile);
#pragma unroll 1
        for (int i = 0; i < group_heads<TILED>(a); i++, iteration++) {
            mbar_wait(smem_address(&sm.empty[iteration % BC_STAGES]), (iteration / BC_STAGES & 1) ^ 1);
            load_pair_tile<TILED>(sm, a, maps, iteration % BC_STAGES);
            sm.feed.tile += TILED;
            sm.feed.place.p += FP;
            if (sm.feed.place.p < a.P) continue;
            sm.feed.place.p = 0;
            sm.feed.place.head++;
        }
    }
}

/* kappa <H1, G1> per head, by two warps that are otherwise idle. Both tiles have the same swizzle, so that the order of
 * elements does not matter. */
template <int TILED> static __device__ __forceinline__ void bc_dot(bc_smem &sm, const fused_task &a)
{
    const int      thread = (int)threadIdx.x - 256 - 32;
    const unsigned blocks = (pair_blocks<TILED>(a) - blockIdx.x + gridDim.x - 1) / gridDim.x;
    const unsigned iterations = blocks * (unsigned)group_heads<TILED>(a);
    for (unsigned iteration = 0; iteration < iterations; iteration++) {
        const int    s = iteration % BC_STAGES;
        const uint4 *u = (const uint4 *)sm.st[s].h + thread;
        float        sum = 0;
        mbar_wait(smem_address(&sm.full[s]), iteration / BC_STAGES & 1);
        mbar_wait(smem_address(&sm.full_late[s]), iteration / BC_STAGES & 1);
#pragma unroll 2
        for (int e = 0; e < 2 * TILE_BYTES / 16 / (32 * DOT_WARPS); e++, u += 32 * DOT_WARPS)
            add_dot(sum, u[0], u[2 * TILE_BYTES / 16]); // g follows h in bc_stage
        const int   flags = (int)sm.rec[s][0][REC_FLAGS] | (int)sm.rec[s][1][REC_FLAGS], pair = sm.pair[s];
        const float kappa = sm.rec[s][1][REC_BEFORE] + sm.rec[s][0][REC_AFTER]; // log kappa
        mbar_release(smem_address(&sm.empty[s]), thread % 32);
        sum = warp_sum(sum);
        if (thread % 32) continue;
        a.ends[(int64_t)pair * SSD_ENDS + thread / 32] = flags ? 0 : sum * __expf(kappa);
    }
}
#endif

#endif
