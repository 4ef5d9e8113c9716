// SPDX-License-Identifier: Apache-2.0
/* ssd_mma.cuh -- tensor-core kernels (mma.sync) of ssd's multi-kernel variants: chunk states and C B^T. bf16 operands,
 * fp32 accumulators, chunks of whole tiles of 64. ssd_mma_scan.cuh has y and dx, ssd_mma_grads.cuh dB, dC and dCB.
 *
 * Operands pass through shared memory in tiles of 64 columns (device/cuda/mma.cuh), in a ring of two to four stages
 * that cp.async fills; elements beyond L, P or N are zero. A decay per pair of tokens is computed only in a small block
 * at the diagonal. Elsewhere the rows of a warp share a pivot (the position just before them): exp(cs_l - cs_s) is the
 * product of exp(cs_l - cs_pivot), which scales accumulators, and exp(cs_pivot - cs_s), which scales operands. Both are
 * at most 1. Operands are scaled in registers, with fp32 factors and one rounding (`times`).
 *
 * kernel     chunk_state_fwd, chunk_scan_bwd_dstates     (2 heads of 64 p) x 128 n per block, k over the chunk
 * launch     grid B K G ceil(J/2) ceil(P/64) ceil(N/128), block 256, dynamic smem 96 KB + 8Q
 * kernel     bmm_chunk_fwd                               64 x 64 per block, tiles on and below the diagonal
 * launch     grid B K G t(t+1)/2 with t = Q/64, block 128, dynamic smem 32 KB
 * PERSISTENT (variants persistent*) as many blocks as fit, each loops over tiles
 * takes      bf16; P, N, token distances and offsets multiples of 8, N <= 256, Q a multiple of 64 up to 512
 * resources  sm_90a, CUDA 13.0: chunk_state_fwd 126 registers, 1024 B of shared memory, no spill  [docs]
 *            chunk_scan_bwd_dstates 128 registers, 1024 B of shared memory, no spill  [docs]
 *            bmm_chunk_fwd 80 registers, 1024 B of shared memory, no spill  [docs]
 *            no spill on sm_80 and sm_100 either
 * measured   H200: chunk_state_fwd 54.6 us, 62 % of floor (memory), DRAM 62 % busy; mamba2-headline, 4 x 4096  [docs]
 *            chunk_scan_bwd_dstates 54.8 us, 62 % of floor (memory), DRAM 61 % busy; mamba2-headline, 4 x 4096  [docs]
 *            bmm_chunk_fwd 107 us, 36 % of floor (memory), L1/shared 34 % busy; mamba2-headline, 4 x 4096  [docs]
 * order      fixed: k ascends (descends in the gradient of x), heads ascend, partial sums in order */
#ifndef MBA_SSD_MMA_CUH
#define MBA_SSD_MMA_CUH

#include "device/cuda/mma.cuh"
#include "device/cuda/mma_fragments.cuh"
#include "ops/ssd/baseline/ssd_fma.cuh"

enum { TILE_BYTES = SSD_TILE * TILE_ROW_BYTES };

typedef task<bf16, float, bf16> tensor_task;

/* A lane's row (0-7) and column pair (0-3) in a fragment. */
static __device__ __forceinline__ int lane_row() { return (threadIdx.x & 31) >> 2; }
static __device__ __forceinline__ int lane_pair() { return threadIdx.x & 3; }

template <int MT> static __device__ __forceinline__ void scale_columns(uint32_t (&A)[MT][4], uint2 f, uint2 f8)
{
#pragma unroll
    for (int m = 0; m < MT; m++) {
        A[m][0] = times(A[m][0], f.x, f.y);
        A[m][1] = times(A[m][1], f.x, f.y);
        A[m][2] = times(A[m][2], f8.x, f8.y);
        A[m][3] = times(A[m][3], f8.x, f8.y);
    }
}

/* Calls f(m, n, r) for the accumulators [m][n][2 r] and [2 r + 1] of a lane: row 16 m + 8 r + lane_row(), columns
 * 8 n + 2 lane_pair() and the next. */
template <int MT, int NT, typename F> static __device__ __forceinline__ void for_fragments(const F &f)
{
#pragma unroll
    for (int m = 0; m < MT; m++)
#pragma unroll
        for (int n = 0; n < NT; n++)
#pragma unroll
            for (int r = 0; r < 2; r++) f(m, n, r);
}

/* A ring of STAGES stages, filled by cp.async. start_ring: all but one. advance_ring: the one that step i - 1 used,
 * after all warps are done with it. */
template <int STAGES, typename F> static __device__ __forceinline__ void start_ring(int steps, const F &fetch)
{
    for (int i = 0; i < STAGES - 1; i++) {
        if (i < steps) fetch(i);
        cp_commit();
    }
}
template <int STAGES, typename F> static __device__ __forceinline__ void advance_ring(int i, int steps, const F &fetch)
{
    if (i + STAGES - 1 < steps) fetch(i + STAGES - 1);
    cp_commit();
}

/* acc (16 MT rows, 64 columns) += A (16 MT, 16) B (16, 64). The rows of B's tile are k; N_ROWS: n. */
template <bool N_ROWS = false, int MT>
static __device__ __forceinline__ void multiply_step(float (&acc)[MT][8][4], const uint32_t (&A)[MT][4],
                                                     const unsigned char *tile, int k)
{
#pragma unroll
    for (int n = 0; n < 4; n++) {
        uint32_t B[4];
        if (N_ROWS) b_rows(B, tile, n * 16, k);
        else b_columns(B, tile, n * 16, k);
#pragma unroll
        for (int m = 0; m < MT; m++) {
            mma(acc[m][2 * n], A[m], B[0], B[1]);
            mma(acc[m][2 * n + 1], A[m], B[2], B[3]);
        }
    }
}

/* acc (32 rows, 32 columns) += A (32, 64) B (64, 32), both from tiles with contiguous k. */
static __device__ __forceinline__ void product_of_rows(float (&acc)[2][4][4], const unsigned char *left, int m,
                                                       const unsigned char *right, int n)
{
#pragma unroll
    for (int k = 0; k < SSD_TILE; k += 16) {
        uint32_t A[2][4], B[2][4];
        for (int i = 0; i < 2; i++) a_rows(A[i], left, m + 16 * i, k);
        for (int j = 0; j < 2; j++) b_rows(B[j], right, n + 16 * j, k);
#pragma unroll
        for (int i = 0; i < 2; i++)
#pragma unroll
            for (int j = 0; j < 4; j++) mma(acc[i][j], A[i], B[j / 2][j % 2 * 2], B[j / 2][j % 2 * 2 + 1]);
    }
}

/* ---- persistent blocks that prefetch into L2 ---- */

/* Rows of `cols` columns from `from` on, one instruction per 128 bytes. */
static __device__ __forceinline__ void prefetch_rows(const bf16 *from, int64_t ld, int rows, int cols)
{
    for (int col = 0; col < cols; col += 64)
        for (int r = (int)threadIdx.x; r < rows; r += (int)blockDim.x)
            asm volatile("prefetch.global.L2 [%0];" ::"l"(from + r * ld + col));
}

/* ---- chunk states: sum over a chunk of (dt out x) B^T; OUTPUT: gradient of states, sum of (in dy) C^T ---- */

enum { STATE_STAGES = 3, STATE_STAGE = 4 * TILE_BYTES };

/* What chunk_sum() reads of x and B (OUTPUT: dy and C). */
template <bool OUTPUT> static __device__ __forceinline__ void prefetch_sum(const tensor_task &a, unsigned z)
{
    const int nt = unravel_next(z, a.ntiles), pt = unravel_next(z, a.ptiles), pair = unravel_next(z, a.pairs),
              g = unravel_next(z, a.G), c = unravel_next(z, a.K), b = (int)z, p0 = pt * 64, n0 = nt * 128;
    const int                  h0 = g * a.J + 2 * pair, heads = min(2, a.J - 2 * pair), real = min(a.Q, a.L - c * a.Q);
    const int64_t              l0 = (int64_t)c * a.Q;
    const strided<const bf16> &left = OUTPUT && a.dy.at ? a.dy : a.x, &right = OUTPUT ? a.cm : a.bm;
    for (int u = 0; u < heads && (!OUTPUT || a.dy.at); u++)
        prefetch_rows(left.row(b, l0, h0 + u) + p0, left.axis[1], real, min(64, a.P - p0));
    prefetch_rows(right.row(b, l0, g) + n0, right.axis[1], real, min(128, a.N - n0));
}

template <bool OUTPUT> static __device__ __forceinline__ void chunk_sum(const tensor_task &a, unsigned z)
{
    MBA_DYNAMIC_SMEM(smem);
    uint2    *factor = (uint2 *)(smem + STATE_STAGES * STATE_STAGE); // (2 heads, Q / 2)
    const int nt = unravel_next(z, a.ntiles), pt = unravel_next(z, a.ptiles), pair = unravel_next(z, a.pairs),
              g = unravel_next(z, a.G), c = unravel_next(z, a.K), b = (int)z;
    const int     h0 = g * a.J + 2 * pair, heads = min(2, a.J - 2 * pair), steps = a.Q / SSD_TILE, tid = threadIdx.x;
    const int     real = min(a.Q, a.L - c * a.Q), p0 = pt * 64, n0 = nt * 128;
    const int64_t l0 = (int64_t)c * a.Q;
    const strided<const bf16> &left = OUTPUT && a.dy.at ? a.dy : a.x, &right = OUTPUT ? a.cm : a.bm;
    const int                  left_real = OUTPUT && !a.dy.at ? 0 : real;
    auto                       fetch = [&](int i) {
        unsigned char *t = smem + i % STATE_STAGES * STATE_STAGE;
#pragma unroll 1
        for (int u = 0; u < 2; u++) { // not unrolled: addresses of both need too many registers
            load_tile<64, 256>(t + u * TILE_BYTES, left.row(b, l0 + i * 64, h0 + min(u, heads - 1)) + p0, left.axis[1],
                               u < heads ? left_real - i * 64 : 0, a.P - p0);
            load_tile<64, 256>(t + (2 + u) * TILE_BYTES, right.row(b, l0 + i * 64, g) + n0 + u * 64, right.axis[1],
                               real - i * 64, a.N - n0 - u * 64);
        }
    };
    start_ring<STATE_STAGES>(steps, fetch);
    for (int i = tid; i < a.Q; i += 256) {
        const int     u = i / (a.Q / 2), l = i % (a.Q / 2) * 2;
        const int64_t at = steps_at(a, b, h0 + min(u, heads - 1), c) + l;
        factor[i] = OUTPUT ? split(a.in[at], a.in[at + 1])
                           : split(a.step[at] * a.out[at], a.step[at + 1] * a.out[at + 1]);
    }
    const int warp = tid / 32, u = warp / 4, m0 = warp / 2 % 2 * 32, half = warp % 2;
    float     acc[2][8][4] = {};
    for (int i = 0; i < steps; i++) {
        cp_wait<STATE_STAGES - 2>();
        __syncthreads();
        advance_ring<STATE_STAGES>(i, steps, fetch);
        const unsigned char *t = smem + i % STATE_STAGES * STATE_STAGE;
        const uint2         *f = factor + u * (a.Q / 2) + i * 32 + lane_pair();
#pragma unroll 1
        for (int k = 0; k < SSD_TILE; k += 16) {
            uint32_t A[2][4];
            for (int m = 0; m < 2; m++) a_columns(A[m], t + u * TILE_BYTES, m0 + 16 * m, k);
            scale_columns(A, f[k / 2], f[k / 2 + 4]);
            multiply_step(acc, A, t + (2 + half) * TILE_BYTES, k);
        }
    }
    /* store through shared memory, 4 KB per warp, so that rows are written in 16-byte vectors */
    __syncthreads();
    const int      t = thread_id_reread(), row = (t & 31) >> 2;
    unsigned char *mine = smem + t / 32 * 4096;
    for_fragments<2, 8>([&](int m, int n, int r) {
        const uint32_t two = pack(acc[m][n][2 * r], acc[m][n][2 * r + 1]);
        *(uint32_t *)(mine + tile_at(m * 16 + 8 * r + row, n) + (t & 3) * 4) = two;
    });
    __syncwarp();
    if (u >= heads) return;
    bf16 *to = (OUTPUT ? a.dstates : a.states) + state_at(a, b, c, h0 + u) + (int64_t)(p0 + m0) * a.N + n0 + half * 64;
    for (int i = t % 32; i < 32 * 8; i += 32) {
        const int r = i / 8, vector = i % 8;
        if (p0 + m0 + r < a.P && n0 + half * 64 + vector * 8 < a.N)
            *(uint4 *)(to + r * a.N + vector * 8) = *(const uint4 *)(mine + tile_at(r, vector));
    }
}

template <bool PERSISTENT>
__global__ void __launch_bounds__(256, 2) chunk_state_fwd(const __grid_constant__ tensor_task a, unsigned tiles)
{
    for_tiles<PERSISTENT>(a, tiles, [&](unsigned tile, const unsigned *next) {
        if (next) prefetch_sum<false>(a, *next);
        chunk_sum<false>(a, tile);
    });
}
template <bool PERSISTENT>
__global__ void __launch_bounds__(256, 2) chunk_scan_bwd_dstates(const __grid_constant__ tensor_task a, unsigned tiles)
{
    for_tiles<PERSISTENT>(a, tiles, [&](unsigned tile, const unsigned *next) {
        if (next) prefetch_sum<true>(a, *next);
        chunk_sum<true>(a, tile);
    });
}

/* ---- C B^T ---- */

/* acc = C B^T of the tile at (l0, s0), by 128 threads, 32 x 32 per warp. Uses 32 KB; ends with a barrier. */
static __device__ __forceinline__ void multiply_cb(float (&acc)[2][4][4], const tensor_task &a, int b, int c, int g,
                                                   int l0, int s0)
{
    MBA_DYNAMIC_SMEM(smem);
    const int     real = min(a.Q, a.L - c * a.Q), steps = (a.N + 63) / 64, warp = threadIdx.x / 32;
    const int64_t first = (int64_t)c * a.Q;
    auto          fetch = [&](int i) {
        unsigned char *t = smem + i % 2 * 2 * TILE_BYTES;
        load_tile<64, 128>(t, a.cm.row(b, first + l0, g) + i * 64, a.cm.axis[1], real - l0, a.N - i * 64);
        load_tile<64, 128>(t + TILE_BYTES, a.bm.row(b, first + s0, g) + i * 64, a.bm.axis[1], real - s0, a.N - i * 64);
    };
    fetch(0);
    cp_commit();
    for (int i = 0; i < steps; i++) {
        if (i + 1 < steps) fetch(i + 1);
        cp_commit();
        cp_wait<1>();
        __syncthreads();
        const unsigned char *t = smem + i % 2 * 2 * TILE_BYTES;
        product_of_rows(acc, t, warp / 2 * 32, t + TILE_BYTES, warp % 2 * 32);
        __syncthreads();
    }
}

/* Packs two neighbours of a row of C B^T or of its gradient; zero where the source does not reach the position. */
static __device__ __forceinline__ uint32_t mask_pair(const tensor_task &a, int b, int c, int l, int s, float x, float y)
{
    return pack(reaches(a, b, c, l, s) ? x : 0, reaches(a, b, c, l, s + 1) ? y : 0);
}

static __device__ __forceinline__ void cb_tile(const tensor_task &a, unsigned z)
{
    const int tile = unravel_next(z, a.tiles * (a.tiles + 1) / 2), g = unravel_next(z, a.G), c = unravel_next(z, a.K),
              b = (int)z;
    const int warp = threadIdx.x / 32;
    int       l0, s0;
    tile_of(tile, l0, s0);
    float acc[2][4][4] = {};
    multiply_cb(acc, a, b, c, g, l0 * SSD_TILE, s0 * SSD_TILE);
    for_fragments<2, 4>([&](int m, int n, int r) {
        const int      l = l0 * SSD_TILE + warp / 2 * 32 + m * 16 + 8 * r + lane_row();
        const int      s = s0 * SSD_TILE + warp % 2 * 32 + n * 8 + 2 * lane_pair();
        const int64_t  at = cb_index(a, b, c, g) + (int64_t)l * a.Q + s;
        const float    x = acc[m][n][2 * r], y = acc[m][n][2 * r + 1];
        const uint32_t w = mask_pair(a, b, c, l, s, x, y);
        *(uint32_t *)(a.cb + at) = w;
        if (a.cb_low) *(uint32_t *)(a.cb_low + at) = mask_pair(a, b, c, l, s, x - low_of(w), y - high_of(w));
    });
}

template <bool PERSISTENT>
__global__ void __launch_bounds__(128, 6) bmm_chunk_fwd(const __grid_constant__ tensor_task a, unsigned tiles)
{
    for_tiles<PERSISTENT>(a, tiles, [&](unsigned tile, const unsigned *) { cb_tile(a, tile); });
}

#endif
