// SPDX-License-Identifier: Apache-2.0
/* ssd_mma_grads.cuh -- dB, dC and the gradient of C B^T of ssd's multi-kernel variants on tensor cores, each summed
 * over the heads of a group in a block. The scheme of tiles, rings and pivots is in ssd_mma.cuh.
 *
 * The first two kernels compute the contributions through the states (dbs, dcs) and, per head, the sums r and q of
 * ssd.md. chunk_scan_bwd_dcb computes dCB and the row and column sums of M. bmm_chunk_bwd adds dCB times B or C to
 * dbs and dcs and writes dB and dC.
 *
 * kernel     chunk_state_bwd_db, chunk_scan_bwd_dc       64 MT rows x 128 n per block, all heads of a group in sequence
 * launch     grid B K G (Q / 64 MT) ceil(N/128), block 256, dynamic smem 4 (8.5 MT + 16) + MT KB
 * kernel     chunk_scan_bwd_dcb                          64 x 64 per block, all heads of a group in sequence
 * launch     grid B K G t(t+1)/2, block 128, dynamic smem 53 KB
 * kernel     bmm_chunk_bwd                               64 rows x 128 n per block
 * launch     grid B K G t ceil(N/128), block 128, dynamic smem 72 KB */
#ifndef MBA_SSD_MMA_GRADS_CUH
#define MBA_SSD_MMA_GRADS_CUH

#include "ops/ssd/baseline/ssd_mma.cuh"

/* ---- dB and dC through the states, summed over the heads of a group ---- */

enum { HEADS_STAGES = 4 };

/* What the first heads of a tile read of x (OUTPUT: dy) and states. A tile reads more in all than L2 can keep. */
template <bool OUTPUT, int MT> static __device__ __forceinline__ void prefetch_heads(const tensor_task &a, unsigned z)
{
    const int nt = unravel_next(z, a.ntiles), r0 = unravel_next(z, a.rtiles) * 64 * MT, g = unravel_next(z, a.G),
              c = unravel_next(z, a.K), b = (int)z, n0 = nt * 128, steps = min(a.J * a.ptiles, HEADS_STAGES - 1);
    const strided<const bf16> &left = OUTPUT && a.dy.at ? a.dy : a.x;
    const int                  rows = OUTPUT && !a.dy.at ? 0 : min(64 * MT, a.L - c * a.Q - r0);
    for (int i = 0; i < steps; i++) {
        const int   h = g * a.J + i / a.ptiles, p0 = i % a.ptiles * 64;
        const bf16 *state = (OUTPUT ? a.states : a.dstates) + state_at(a, b, c, h) + (int64_t)p0 * a.N + n0;
        prefetch_rows(left.row(b, (int64_t)c * a.Q + r0, h) + p0, left.axis[1], rows, min(64, a.P - p0));
        prefetch_rows(state, a.N, min(64, a.P - p0), min(128, a.N - n0));
    }
}

/* Before it stores its results, a block prefetches what tile *next begins with, unless that is NULL. */
template <bool OUTPUT, int MT>
static __device__ __forceinline__ void sum_over_heads(const tensor_task &a, unsigned z, const unsigned *next)
{
    MBA_DYNAMIC_SMEM(smem);
    enum { ROWS = 64 * MT, STAGE = (MT + 2) * TILE_BYTES + 2 * ROWS * 4 };
    float    *red = (float *)(smem + HEADS_STAGES * STAGE); // (2 heads, 2 halves of n, ROWS)
    const int nt = unravel_next(z, a.ntiles), r0 = unravel_next(z, a.rtiles) * ROWS, g = unravel_next(z, a.G),
              c = unravel_next(z, a.K), b = (int)z;
    const int                  real = min(a.Q, a.L - c * a.Q), n0 = nt * 128, steps = a.J * a.ptiles, tid = threadIdx.x;
    const int64_t              l0 = (int64_t)c * a.Q;
    const strided<const bf16> &left = OUTPUT && a.dy.at ? a.dy : a.x, &m = OUTPUT ? a.cm : a.bm;
    const int                  left_real = OUTPUT && !a.dy.at ? 0 : real;
    auto                       fetch = [&](int i) {
        unsigned char *t = smem + i % HEADS_STAGES * STAGE;
        const int      h = g * a.J + i / a.ptiles, p0 = i % a.ptiles * 64;
        const int64_t  at = steps_at(a, b, h, c) + r0;
        const bf16    *state = (OUTPUT ? a.states : a.dstates) + state_at(a, b, c, h) + (int64_t)p0 * a.N + n0;
        load_tile<ROWS, 256>(t, left.row(b, l0 + r0, h) + p0, left.axis[1], left_real - r0, a.P - p0);
        for (int u = 0; u < 2; u++)
            load_tile<64, 256>(t + (MT + u) * TILE_BYTES, state + u * 64, a.N, a.P - p0, a.N - n0 - u * 64);
        if (tid < ROWS / 2) { // factors of the rows: in, or dt and out
            const int    i4 = tid % (ROWS / 4) * 4;
            const float *from = (OUTPUT ? a.in : tid < ROWS / 4 ? a.step : a.out) + at + i4;
            cp_async16(t + (MT + 2) * TILE_BYTES + tid * 16, from, true);
        }
    };
    /* stores the row sums of head `done`, after all warps have written theirs: thread r < ROWS adds the halves of n */
    auto store_sums = [&](int done) {
        const int h = g * a.J + done;
        if (tid < ROWS) {
            const float  *from = red + done % 2 * 2 * ROWS + tid;
            const int64_t to = (int64_t)nt * a.B * a.H * a.KQ + steps_at(a, b, h, c) + r0 + tid;
            (OUTPUT ? a.q : a.r)[to] = from[0] + from[ROWS];
        }
    };
    start_ring<HEADS_STAGES>(steps, fetch);
    const int warp = tid / 32, half = warp % 2, w0 = warp / 2 * 16 * MT;
    uint32_t  bc[MT][8][2]; // the tile of B (OUTPUT: C) for the dot products r (q)
    for_fragments<MT, 8>([&](int i, int n, int r) {
        const int l = r0 + w0 + 16 * i + 8 * r + lane_row(), col = n0 + half * 64 + n * 8 + 2 * lane_pair();
        bc[i][n][r] = l < real && col < a.N ? *(const uint32_t *)(m.row(b, l0 + l, g) + col) : 0;
    });
    float acc[MT][8][4] = {}, before[MT][2] = {};
    for (int i = 0; i < steps; i++) {
        const int h = i / a.ptiles;
        cp_wait<HEADS_STAGES - 2>();
        __syncthreads();
        if (i && i % a.ptiles == 0) store_sums(h - 1);
        advance_ring<HEADS_STAGES>(i, steps, fetch);
        const unsigned char *t = smem + i % HEADS_STAGES * STAGE;
        const float         *f = (const float *)(t + (MT + 2) * TILE_BYTES) + w0 + lane_row();
        uint2                scale[MT][2];
        for (int j = 0; j < MT; j++)
            for (int r = 0; r < 2; r++) {
                const float v = OUTPUT ? f[16 * j + 8 * r] : f[16 * j + 8 * r] * f[ROWS + 16 * j + 8 * r];
                scale[j][r] = split(v, v);
            }
#pragma unroll
        for (int k = 0; k < SSD_TILE; k += 16) {
            uint32_t A[MT][4];
            for (int j = 0; j < MT; j++) {
                a_rows(A[j], t, w0 + 16 * j, k);
#pragma unroll
                for (int e = 0; e < 4; e++) A[j][e] = times(A[j][e], scale[j][e % 2].x, scale[j][e % 2].y);
            }
            multiply_step(acc, A, t + (MT + half) * TILE_BYTES, k);
        }
        if ((i + 1) % a.ptiles) continue;
#pragma unroll
        for (int j = 0; j < MT; j++)
#pragma unroll
            for (int r = 0; r < 2; r++) { // <sum over heads so far, B> minus its previous value
                float dot = 0;
#pragma unroll
                for (int n = 0; n < 8; n++)
                    dot = fmaf(acc[j][n][2 * r], low_of(bc[j][n][r]),
                               fmaf(acc[j][n][2 * r + 1], high_of(bc[j][n][r]), dot));
                dot += __shfl_xor_sync(0xffffffffu, dot, 1);
                dot += __shfl_xor_sync(0xffffffffu, dot, 2);
                if (lane_pair() == 0)
                    red[(h % 2 * 2 + half) * ROWS + w0 + 16 * j + 8 * r + lane_row()] = dot - before[j][r];
                before[j][r] = dot;
            }
    }
    __syncthreads();
    store_sums(a.J - 1);
    if (next) prefetch_heads<OUTPUT, MT>(a, *next);
    float *to = (OUTPUT ? a.dcs : a.dbs) + (((int64_t)b * a.KQ + l0 + r0 + w0) * a.G + g) * a.N + n0 + half * 64;
    for_fragments<MT, 8>([&](int j, int n, int r) {
        const int col = n * 8 + 2 * lane_pair();
        if (n0 + half * 64 + col >= a.N) return;
        float *at = to + (int64_t)(16 * j + 8 * r + lane_row()) * a.G * a.N + col;
        *(float2 *)at = make_float2(acc[j][n][2 * r], acc[j][n][2 * r + 1]);
    });
}

template <bool PERSISTENT, int MT>
__global__ void __launch_bounds__(256, 1) chunk_state_bwd_db(const __grid_constant__ tensor_task a, unsigned tiles)
{
    for_tiles<PERSISTENT>(a, tiles,
                          [&](unsigned tile, const unsigned *next) { sum_over_heads<false, MT>(a, tile, next); });
}
template <bool PERSISTENT, int MT>
__global__ void __launch_bounds__(256, 1) chunk_scan_bwd_dc(const __grid_constant__ tensor_task a, unsigned tiles)
{
    for_tiles<PERSISTENT>(a, tiles,
                          [&](unsigned tile, const unsigned *next) { sum_over_heads<true, MT>(a, tile, next); });
}

/* ---- the gradient of C B^T, summed over the heads of a group ---- */

enum { DCB_STAGES = 3, DCB_STAGE = 2 * TILE_BYTES + 4 * SSD_TILE * 4 };

/* Reduce-scatter of eight values over the lanes with equal lane % 4: lane g * 4 + t gets the sum of value g. */
static __device__ __forceinline__ float reduce_scatter8(const float (&v)[8])
{
    float     a[4], b[2];
    const int lane = threadIdx.x & 31;
#pragma unroll
    for (int i = 0; i < 4; i++)
        a[i] = (lane & 16 ? v[4 + i] : v[i]) + __shfl_xor_sync(0xffffffffu, lane & 16 ? v[i] : v[4 + i], 16);
#pragma unroll
    for (int i = 0; i < 2; i++)
        b[i] = (lane & 8 ? a[2 + i] : a[i]) + __shfl_xor_sync(0xffffffffu, lane & 8 ? a[i] : a[2 + i], 8);
    return (lane & 4 ? b[1] : b[0]) + __shfl_xor_sync(0xffffffffu, lane & 4 ? b[0] : b[1], 4);
}

/* Reduce-scatter of four values over the lanes with equal lane / 4: lane g * 4 + t gets the sum of value t. */
static __device__ __forceinline__ float reduce_scatter4(const float (&v)[4])
{
    float     a[2];
    const int lane = threadIdx.x & 31;
#pragma unroll
    for (int i = 0; i < 2; i++)
        a[i] = (lane & 2 ? v[2 + i] : v[i]) + __shfl_xor_sync(0xffffffffu, lane & 2 ? v[i] : v[2 + i], 2);
    return (lane & 1 ? a[1] : a[0]) + __shfl_xor_sync(0xffffffffu, lane & 1 ? a[0] : a[1], 1);
}

/* This thread's elements of C B^T in fp32: computed here (CB_INSIDE), or value plus residual from memory. The sums of M
 * need this precision: the rounding of C B^T to bf16 would dominate their error. */
template <bool CB_INSIDE>
static __device__ __forceinline__ void load_cb(float (&cb)[2][4][4], const tensor_task &a, int b, int c, int g, int l0,
                                               int s0)
{
    float acc[2][4][4] = {};
    if (CB_INSIDE) multiply_cb(acc, a, b, c, g, l0, s0);
    const int t = CB_INSIDE ? thread_id_reread() : (int)threadIdx.x, l = l0 + t / 64 * 32 + (t & 31) / 4,
              s = s0 + (t & 32) + 2 * (t & 3);
    for_fragments<2, 4>([&](int m, int n, int r) {
        const int l2 = l + 16 * m + 8 * r, s2 = s + 8 * n;
        if (CB_INSIDE) {
            for (int e = 0; e < 2; e++) cb[m][n][2 * r + e] = reaches(a, b, c, l2, s2 + e) ? acc[m][n][2 * r + e] : 0;
        } else {
            const int64_t  at = cb_index(a, b, c, g) + (int64_t)l2 * a.Q + s2;
            const uint32_t up = *(const uint32_t *)(a.cb + at), low = *(const uint32_t *)(a.cb_low + at);
            cb[m][n][2 * r] = low_of(up) + low_of(low);
            cb[m][n][2 * r + 1] = high_of(up) + high_of(low);
        }
    });
}

template <bool CB_INSIDE> static __device__ __forceinline__ void dcb_tile(const tensor_task &a, unsigned z)
{
    MBA_DYNAMIC_SMEM(smem);
    float    *red = (float *)(smem + DCB_STAGES * DCB_STAGE); // (2 heads, rows then columns, 2 warps, 64)
    const int tile = unravel_next(z, a.tiles * (a.tiles + 1) / 2), g = unravel_next(z, a.G), c = unravel_next(z, a.K),
              b = (int)z;
    int li, sj;
    tile_of(tile, li, sj);
    const int real = a.dy.at ? min(a.Q, a.L - c * a.Q) : 0, l0 = li * SSD_TILE, s0 = sj * SSD_TILE,
              steps = a.J * a.ptiles, tid = threadIdx.x;
    const int                  warp = tid / 32, wm = warp / 2, wn = warp % 2, t = lane_pair();
    const int64_t              first = (int64_t)c * a.Q, all = (int64_t)a.B * a.H * a.KQ;
    const strided<const bf16> &dy = a.dy.at ? a.dy : a.x;
    auto                       fetch = [&](int i) {
        unsigned char *to = smem + i % DCB_STAGES * DCB_STAGE;
        const int      h = g * a.J + i / a.ptiles, p0 = i % a.ptiles * 64;
        load_tile<64, 128>(to, dy.row(b, first + l0, h) + p0, dy.axis[1], real - l0, a.P - p0);
        load_tile<64, 128>(to + TILE_BYTES, a.x.row(b, first + s0, h) + p0, a.x.axis[1], real - s0, a.P - p0);
        if (tid < 48) { // cs of the rows, cs and dt of the columns
            const float *from = (tid < 32 ? a.cs : a.step) + steps_at(a, b, h, c) + (tid < 16 ? l0 : s0) + tid % 16 * 4;
            cp_async16(to + 2 * TILE_BYTES + tid * 16, from, true);
        }
    };
    auto store_sums = [&](int done) { // of head `done`: rows by threads 0 .. 63, columns by the others
        const float  *from = red + done % 2 * 256 + tid / 64 * 128 + tid % 64;
        const int64_t at = steps_at(a, b, g * a.J + done, c);
        if (tid < 64) a.rowsum[sj * all + at + l0 + tid] = from[0] + from[64];
        else a.colsum[li * all + at + s0 + tid - 64] = from[0] + from[64];
    };
    float cb[2][4][4];
    if (CB_INSIDE) load_cb<true>(cb, a, b, c, g, l0, s0);
    start_ring<DCB_STAGES>(steps, fetch);
    const int64_t place = cb_index(a, b, c, g) + (int64_t)(l0 + wm * 32 + lane_row()) * a.Q + s0 + wn * 32 + 2 * t;
    if (!CB_INSIDE) load_cb<false>(cb, a, b, c, g, l0, s0);
    float total[2][4][4] = {}, acc[2][4][4] = {};
    for (int i = 0; i < steps; i++) {
        const int h = i / a.ptiles;
        cp_wait<DCB_STAGES - 2>();
        __syncthreads();
        if (i && i % a.ptiles == 0) store_sums(h - 1);
        advance_ring<DCB_STAGES>(i, steps, fetch);
        const unsigned char *s = smem + i % DCB_STAGES * DCB_STAGE;
        const float *cs_l = (const float *)(s + 2 * TILE_BYTES), *cs_s = cs_l + 64 + wn * 32 + 2 * t, *step = cs_s + 64;
        if (i % a.ptiles == 0)
            for_fragments<2, 4>([&](int m, int n, int r) { acc[m][n][2 * r] = acc[m][n][2 * r + 1] = 0; });
        product_of_rows(acc, s, wm * 32, s + TILE_BYTES, wn * 32);
        if ((i + 1) % a.ptiles) continue;
        /* d = (dy . x) exp(cs_l - cs_s) dt_s; off the diagonal with the first row of the tile as pivot */
        float       rows[4] = {}, cols[8] = {}, row[4];
        const float pivot = cs_l[0];
#pragma unroll
        for (int m = 0; m < 4; m++) {
            row[m] = cs_l[wm * 32 + 8 * m + lane_row()];
            if (li > sj) row[m] = __expf(row[m] - pivot);
        }
#pragma unroll
        for (int n = 0; n < 4; n++)
#pragma unroll
            for (int e = 0; e < 2; e++) {
                const float cs = cs_s[8 * n + e], dt = step[8 * n + e], col = li > sj ? __expf(pivot - cs) * dt : cs;
#pragma unroll
                for (int m = 0; m < 4; m++) {
                    const int   i16 = m / 2, k = m % 2 * 2 + e;
                    const float f = li > sj ? row[m] * col : __expf(fminf(row[m] - col, 0)) * dt;
                    const float d = acc[i16][n][k] * f;
                    const bool  diagonal = m == n && li == sj && wm == wn && lane_row() == 2 * t + e;
                    const float M = diagonal ? 0 : d * cb[i16][n][k];
                    if (diagonal) // what a token gives to itself has no decay
                        a.dstep[steps_at(a, b, g * a.J + h, c) + l0 + wm * 32 + 8 * m + lane_row()] = acc[i16][n][k]
                                                                                                      * cb[i16][n][k];
                    total[i16][n][k] += d;
                    rows[m] += M;
                    cols[2 * n + e] += M;
                }
            }
        float      *to = red + h % 2 * 256;
        const float by_row = reduce_scatter4(rows), by_col = reduce_scatter8(cols);
        to[wn * 64 + wm * 32 + 8 * t + lane_row()] = by_row;
        to[128 + wm * 64 + wn * 32 + lane_row() / 2 * 8 + 2 * t + lane_row() % 2] = by_col;
    }
    __syncthreads();
    store_sums(a.J - 1);
    for_fragments<2, 4>([&](int m, int n, int r) {
        const int l = l0 + wm * 32 + 16 * m + 8 * r + lane_row(), s = s0 + wn * 32 + 8 * n + 2 * t;
        *(uint32_t *)(a.dcb + place + (int64_t)(16 * m + 8 * r) * a.Q
                      + 8 * n) = mask_pair(a, b, c, l, s, total[m][n][2 * r], total[m][n][2 * r + 1]);
    });
}

/* Blocks per SM: on sm_80 a third block would spill a register. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
enum { DCB_BLOCKS_CB_INSIDE = 2 };
#else
enum { DCB_BLOCKS_CB_INSIDE = 3 };
#endif

template <bool PERSISTENT, bool CB_INSIDE>
__global__ void __launch_bounds__(128, CB_INSIDE ? (int)DCB_BLOCKS_CB_INSIDE : 3)
    chunk_scan_bwd_dcb(const __grid_constant__ tensor_task a, unsigned tiles)
{
    for_tiles<PERSISTENT>(a, tiles, [&](unsigned tile, const unsigned *) { dcb_tile<CB_INSIDE>(a, tile); });
}

/* ---- dB and dC: contributions through the states, plus dCB^T C and dCB B ---- */

enum { BMM_STAGES = 3, BMM_STAGE = 3 * TILE_BYTES };

template <bool OUTPUT> static __device__ __forceinline__ void cb_bwd(const tensor_task &a, unsigned z)
{
    MBA_DYNAMIC_SMEM(smem);
    const int nt = unravel_next(z, a.ntiles), ri = unravel_next(z, a.tiles), g = unravel_next(z, a.G),
              c = unravel_next(z, a.K), b = (int)z;
    const int                  real = min(a.Q, a.L - c * a.Q), n0 = nt * 128, steps = OUTPUT ? ri + 1 : a.tiles - ri;
    const int                  warp = threadIdx.x / 32, m0 = warp / 2 * 32, half = warp % 2;
    const int64_t              l0 = (int64_t)c * a.Q;
    const strided<const bf16> &v = OUTPUT ? a.bm : a.cm;
    const bf16                *dcb = a.dcb + cb_index(a, b, c, g);
    auto                       fetch = [&](int i) {
        unsigned char *t = smem + i % BMM_STAGES * BMM_STAGE;
        const int      j = OUTPUT ? i : ri + i;
        load_tile<64, 128>(t, dcb + (int64_t)(OUTPUT ? ri : j) * 64 * a.Q + (OUTPUT ? j : ri) * 64, a.Q, 64, 64);
        for (int u = 0; u < 2; u++)
            load_tile<64, 128>(t + (1 + u) * TILE_BYTES, v.row(b, l0 + j * 64, g) + n0 + u * 64, v.axis[1],
                               real - j * 64, a.N - n0 - u * 64);
    };
    start_ring<BMM_STAGES>(steps, fetch);
    float acc[2][8][4] = {};
    for (int i = 0; i < steps; i++) {
        cp_wait<BMM_STAGES - 2>();
        __syncthreads();
        advance_ring<BMM_STAGES>(i, steps, fetch);
        const unsigned char *t = smem + i % BMM_STAGES * BMM_STAGE;
#pragma unroll
        for (int k = 0; k < SSD_TILE; k += 16) {
            uint32_t A[2][4];
            for (int m = 0; m < 2; m++)
                if (OUTPUT) a_rows(A[m], t, m0 + 16 * m, k);
                else a_columns(A[m], t, m0 + 16 * m, k);
            multiply_step(acc, A, t + (1 + half) * TILE_BYTES, k);
        }
    }
    const float *states = OUTPUT ? a.dcs : a.dbs;
    for_fragments<2, 8>([&](int m, int n, int r) {
        const int l = ri * 64 + m0 + 16 * m + 8 * r + lane_row(), col = n0 + half * 64 + n * 8 + 2 * lane_pair();
        if (l >= real || col >= a.N) return;
        const float2   s = *(const float2 *)(states + (((int64_t)b * a.KQ + l0 + l) * a.G + g) * a.N + col);
        uint32_t      *to = (uint32_t *)((OUTPUT ? a.dcm : a.dbm).row(b, l0 + l, g) + col);
        const uint32_t old = a.adds[OUTPUT ? DCM : DBM] ? *to : 0;
        *to = pack(acc[m][n][2 * r] + s.x + low_of(old), acc[m][n][2 * r + 1] + s.y + high_of(old));
    });
}

template <bool PERSISTENT, bool OUTPUT>
__global__ void __launch_bounds__(128) bmm_chunk_bwd(const __grid_constant__ tensor_task a, unsigned tiles)
{
    for_tiles<PERSISTENT>(a, tiles, [&](unsigned tile, const unsigned *) { cb_bwd<OUTPUT>(a, tile); });
}

#endif
