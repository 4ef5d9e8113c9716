// SPDX-License-Identifier: Apache-2.0
/* ssd_fused_bc_feed.cuh -- a block of ssd_bwd_bc: its shared memory, the thread that fills it, and the two warps that
 * make <H1, G1> of what lies there. */
#ifndef MBA_SSD_FUSED_BC_FEED_CUH
#define MBA_SSD_FUSED_BC_FEED_CUH

#include "ops/ssd/ssd_fused_pairs.cuh"

enum { BC_STAGES = 2, DOT_WARPS = 2 };

/* Parts of `ends`: kappa <H1, G1>; out_s of chunk 0; q_l of chunk 1, by warps. */
enum { END_DOT = 0, END_OUT = DOT_WARPS, END_Q = END_OUT + 4 };
static_assert(END_Q + 4 == SSD_ENDS, "what the plan asks for");

struct bc_stage {
    unsigned char dy[2][TILE_BYTES], x[2][TILE_BYTES], h[2 * TILE_BYTES], g[2 * TILE_BYTES];
};
struct bc_smem {
    bc_stage      st[BC_STAGES];                              /* x becomes x' where it lies */
    unsigned char c[2][2 * TILE_BYTES], b[2][2 * TILE_BYTES]; /* C, B of both chunks, n in the order of states */
    unsigned char m[3][TILE_BYTES];                           /* C B^T 00, 10, 11; at the end dCB */
    float         rec[BC_STAGES][2][REC];
    float4        had[256];     /* products with the sums before this head: q, row */
    float         had_end[256]; /* and the one that goes into `ends` */
    unsigned      turn[256];    /* with resets: heads so far, as registers are short */
    uint64_t      full[BC_STAGES], late[BC_STAGES], empty[BC_STAGES]; /* x, G1, records; dy, H1 */
    uint64_t      scaled[2][BC_STAGES];                               /* x' of a chunk is there */
    uint64_t      pairs;                                              /* C B^T is */
    int           pair[BC_STAGES];                                    /* (sequence, head, pair of chunks) of a stage */
    int           resets[2][FQ];
    struct {
        pair_block at;
        unsigned   block, n;
        int        slow;
    } where[2]; /* each warpgroup's own; slow: some head is */
    unsigned blocks;
};
static_assert(sizeof(bc_smem) + 1024 <= SSD_BC_SMEM, "the plan asks for less");

/* Exact, in the place of the ring: states as two bf16 leave room for one head, in two parts that are filled in turn (x
 * and G1; dy and H1; full[0] and full[1], empty[0] and empty[1]), and for what the rounding of C B^T lost. */
struct exact_stage {
    unsigned char x[2][TILE_BYTES], g[2][2 * TILE_BYTES], dy[2][TILE_BYTES], h[2][2 * TILE_BYTES], m[3][TILE_BYTES];
};
static_assert(sizeof(exact_stage) <= BC_STAGES * sizeof(bc_stage), "room for it");
static __device__ __forceinline__ exact_stage &exact_of(bc_smem &sm) { return *(exact_stage *)sm.st; }
static_assert(sizeof(bc_stage) % 1024 == 0, "tiles begin at multiples of 1 KB");

struct bc_maps {
    CUtensorMap x, dy, h, g, cb, low;
};

#if MBA_HOPPER || !defined(__CUDA_ARCH__)

static __device__ __forceinline__ unsigned pair_blocks(const fused_task &a)
{
    return (unsigned)(a.B * (a.K / 2) * a.G);
}

/* This and the next have 24 registers. */
static __device__ __forceinline__ void bc_produce(bc_smem &sm, const fused_task &a, const bc_maps &maps)
{
    unsigned turn = 0;
    for (unsigned block = blockIdx.x; block < pair_blocks(a); block += gridDim.x) {
        const pair_block k = pair_block_of(a, block);
#pragma unroll 1
        for (int i = 0; i < a.J; i++, turn++) {
            const int      s = turn % BC_STAGES, h = k.g * a.J + i, z = (k.b * a.H + h) * (a.K / 2) + k.c2;
            const uint32_t full = smem_address(&sm.full[s]), late = smem_address(&sm.late[s]);
            bc_stage      &t = sm.st[s];
            mbar_wait(smem_address(&sm.empty[s]), (turn / BC_STAGES & 1) ^ 1);
            sm.pair[s] = z;
            mbar_expect(full, 4 * TILE_BYTES + 2 * REC * 4);
            mbar_expect(late, 4 * TILE_BYTES);
#pragma unroll 1
            for (int c = 0; c < 2; c++) { // what the first product wants comes first
                bulk_load(smem_address(sm.rec[s][c]), a.rec_plain + ((int64_t)z * 2 + c) * REC, REC * 4, full);
                tma_load3(smem_address(t.x[c]), &maps.x, full, h * FP, k.c2 * PAIR + FQ * c, k.b);
                tma_load3(smem_address(t.g) + c * TILE_BYTES, &maps.g, full, 64 * c, 0, z);
            }
#pragma unroll 1
            for (int c = 0; c < 2; c++) {
                tma_load3(smem_address(t.dy[c]), &maps.dy, late, h * FP, k.c2 * PAIR + FQ * c, k.b);
                tma_load3(smem_address(t.h) + c * TILE_BYTES, &maps.h, late, 64 * c, 0, z);
            }
        }
    }
}

static __device__ __forceinline__ void exact_produce(bc_smem &sm, const fused_task &a, const bc_maps &maps)
{
    exact_stage &t = exact_of(sm);
    unsigned     turn = 0;
    for (unsigned block = blockIdx.x; block < pair_blocks(a); block += gridDim.x) {
        const pair_block k = pair_block_of(a, block);
#pragma unroll 1
        for (int i = 0; i < a.J; i++, turn++) {
            const int      s = turn % BC_STAGES, h = k.g * a.J + i, z = (k.b * a.H + h) * (a.K / 2) + k.c2;
            const uint32_t first = smem_address(&sm.full[0]), second = smem_address(&sm.full[1]);
            mbar_wait(smem_address(&sm.empty[0]), (turn & 1) ^ 1);
            sm.pair[s] = z;
            mbar_expect(first, 6 * TILE_BYTES + 2 * REC * 4);
#pragma unroll 1
            for (int c = 0; c < 2; c++) {
                bulk_load(smem_address(sm.rec[s][c]), a.rec_plain + ((int64_t)z * 2 + c) * REC, REC * 4, first);
                tma_load3(smem_address(t.x[c]), &maps.x, first, h * FP, k.c2 * PAIR + FQ * c, k.b);
                tma_load3(smem_address(t.g[0]) + c * TILE_BYTES, &maps.g, first, 64 * c, 0, z);
                tma_load3(smem_address(t.g[1]) + c * TILE_BYTES, &maps.g, first, 64 * c, 0,
                          z + residual_offset_states(a));
            }
            mbar_wait(smem_address(&sm.empty[1]), (turn & 1) ^ 1);
            mbar_expect(second, 6 * TILE_BYTES);
#pragma unroll 1
            for (int c = 0; c < 2; c++) {
                tma_load3(smem_address(t.dy[c]), &maps.dy, second, h * FP, k.c2 * PAIR + FQ * c, k.b);
                tma_load3(smem_address(t.h[0]) + c * TILE_BYTES, &maps.h, second, 64 * c, 0, z);
                tma_load3(smem_address(t.h[1]) + c * TILE_BYTES, &maps.h, second, 64 * c, 0,
                          z + residual_offset_states(a));
            }
        }
    }
}

/* kappa <H1, G1>, by two warps that would have nothing to do; both tiles lie in the same order. */
static __device__ __forceinline__ void bc_dot(bc_smem &sm, const fused_task &a)
{
    const int      thread = (int)threadIdx.x - 256 - 32;
    const unsigned turns = (pair_blocks(a) - blockIdx.x + gridDim.x - 1) / gridDim.x * (unsigned)a.J;
    for (unsigned turn = 0; turn < turns; turn++) {
        const int    s = turn % BC_STAGES;
        const uint4 *u = (const uint4 *)sm.st[s].h + thread;
        float        sum = 0;
        mbar_wait(smem_address(&sm.full[s]), turn / BC_STAGES & 1);
        mbar_wait(smem_address(&sm.late[s]), turn / BC_STAGES & 1);
#pragma unroll 2
        for (int e = 0; e < 2 * TILE_BYTES / 16 / (32 * DOT_WARPS); e++, u += 32 * DOT_WARPS) {
            const uint4 x = u[0], y = u[2 * TILE_BYTES / 16]; // g lies behind h
            sum += low_of(x.x) * low_of(y.x) + high_of(x.x) * high_of(y.x);
            sum += low_of(x.y) * low_of(y.y) + high_of(x.y) * high_of(y.y);
            sum += low_of(x.z) * low_of(y.z) + high_of(x.z) * high_of(y.z);
            sum += low_of(x.w) * low_of(y.w) + high_of(x.w) * high_of(y.w);
        }
        const int   flags = (int)sm.rec[s][0][REC_FLAGS] | (int)sm.rec[s][1][REC_FLAGS], pair = sm.pair[s];
        const float kappa = sm.rec[s][1][REC_BEFORE] + sm.rec[s][0][REC_AFTER]; // its logarithm
        mbar_release(smem_address(&sm.empty[s]), thread % 32);
        sum = warp_sum(sum);
        if (thread % 32) continue;
        a.ends[(int64_t)pair * SSD_ENDS + thread / 32] = flags ? 0 : sum * __expf(kappa);
    }
}
static __device__ __forceinline__ float dot_in_two(uint32_t x, uint32_t x_rest, uint32_t y, uint32_t y_rest)
{
    return (low_of(x) + low_of(x_rest)) * (low_of(y) + low_of(y_rest))
           + (high_of(x) + high_of(x_rest)) * (high_of(y) + high_of(y_rest));
}
static __device__ __forceinline__ void exact_dot(bc_smem &sm, const fused_task &a)
{
    enum { REST = 2 * TILE_BYTES / 8 }; // g[1] lies behind g[0], h[1] behind h[0]
    const int      thread = (int)threadIdx.x - 256 - 32;
    const unsigned turns = (pair_blocks(a) - blockIdx.x + gridDim.x - 1) / gridDim.x * (unsigned)a.J;
    for (unsigned turn = 0; turn < turns; turn++) {
        const int    s = turn % BC_STAGES;
        const uint2 *u = (const uint2 *)exact_of(sm).h[0] + thread, *v = (const uint2 *)exact_of(sm).g[0] + thread;
        float        sum = 0;
        mbar_wait(smem_address(&sm.full[0]), turn & 1);
        mbar_wait(smem_address(&sm.full[1]), turn & 1);
#pragma unroll 1
        for (int e = 0; e < REST / (32 * DOT_WARPS); e++, u += 32 * DOT_WARPS, v += 32 * DOT_WARPS) {
            const uint2 x = u[0], x_rest = u[REST], y = v[0], y_rest = v[REST];
            sum += dot_in_two(x.x, x_rest.x, y.x, y_rest.x) + dot_in_two(x.y, x_rest.y, y.y, y_rest.y);
        }
        const int   flags = (int)sm.rec[s][0][REC_FLAGS] | (int)sm.rec[s][1][REC_FLAGS], pair = sm.pair[s];
        const float kappa = sm.rec[s][1][REC_BEFORE] + sm.rec[s][0][REC_AFTER]; // its logarithm
        mbar_release(smem_address(&sm.empty[0]), thread % 32);
        mbar_pass(smem_address(&sm.empty[1]), thread % 32);
        sum = warp_sum(sum);
        if (thread % 32) continue;
        a.ends[(int64_t)pair * SSD_ENDS + thread / 32] = flags ? 0 : sum * __expf(kappa);
    }
}

#endif

#endif
