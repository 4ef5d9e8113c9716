/* ssd_mma.cuh -- the products of ssd on tensor cores (mma.sync): bf16 operands, fp32 sums, chunks of whole tiles of 64.
 *
 * Operands stream through shared memory in tiles of 64 columns (device/cuda/mma.cuh), a ring of three or four stages
 * filled by cp.async; what lies beyond L, P or N is zero there. Decays are made per pair in a small block at the
 * diagonal only: the rows of a warp have a pivot (the position just before them), and exp(cs_l - cs_s) is the product
 * of exp(cs_l - cs_pivot), which scales sums, and exp(cs_pivot - cs_s), which scales operands; both are at most 1.
 * Operands are scaled in registers, in fp32 precision with one rounding (`times`).
 *
 * kernel     chunk_state_fwd, chunk_scan_bwd_dstates     (2 heads of 64 p) x 128 n per block, k over the chunk
 * launch     grid B K G ceil(J/2) ceil(P/64) ceil(N/128), block 256, dynamic smem 96 KB + 8Q
 * kernel     bmm_chunk_fwd                               64 x 64 per block, tiles on and below the diagonal
 * launch     grid B K G t(t+1)/2 with t = Q/64, block 128, dynamic smem 32 KB
 * kernel     chunk_scan_fwd, chunk_scan_chunk_state_bwd_dx   64 MT rows x (2 heads of 64 p) per block
 * launch     grid B K G (Q / 64 MT) ceil(J/2) ceil(P/64), block 256, dynamic smem 3 (8 MT + 16) KB + 32Q
 * kernel     bc_chunk_scan_fwd, bc_chunk_scan_bwd_dx     the same with C B^T made there: 64 rows, PAIRS times two heads
 * launch     grid B K G (Q / 64) ceil(J / 2 PAIRS) ceil(P/64), block 256, dynamic smem 8 (6 + N/64 + Q/64) KB + 48Q
 * kernel     chunk_state_bwd_db, chunk_scan_bwd_dc       64 MT rows x 128 n per block, all heads of a group in turn
 * launch     grid B K G (Q / 64 MT) ceil(N/128), block 256, dynamic smem 4 (8.5 MT + 16) + MT KB
 * kernel     chunk_scan_bwd_dcb                          64 x 64 per block, all heads of a group in turn
 * launch     grid B K G t(t+1)/2, block 128, dynamic smem 53 KB
 * kernel     bmm_chunk_bwd                               64 rows x 128 n per block
 * launch     grid B K G t ceil(N/128), block 128, dynamic smem 72 KB
 * STAYS      (variant persistent) as many blocks as fit, each with a share of these tiles
 * takes      bf16; P, N, token distances and offsets multiples of 8, N <= 256, Q a multiple of 64 up to 512
 * resources  sm_90a, CUDA 13.0: 84 to 254 registers (the plans in ssd.c say which), no spill on sm_80, sm_90a, sm_100
 * measured   none yet
 * order      fixed: k ascends (descends in the gradient of x), heads ascend, partial sums in order */
#ifndef MBA_SSD_MMA_CUH
#define MBA_SSD_MMA_CUH

#include "device/cuda/mma.cuh"
#include "device/cuda/tile.cuh"
#include "ops/ssd/ssd_fma.cuh"

enum { TILE_BYTES = SSD_TILE * TILE_ROW_BYTES };

typedef task<bf16, float, bf16> tensor_task;

/* Where a lane stands in a fragment. */
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

/* acc (16 MT rows, 64 columns) += A (16 MT, 16) B (16, 64), B from a tile of rows k, or of rows n. */
template <int MT>
static __device__ __forceinline__ void step_columns(float (&acc)[MT][8][4], const uint32_t (&A)[MT][4],
                                                    const unsigned char *tile, int k)
{
#pragma unroll
    for (int n = 0; n < 4; n++) {
        uint32_t B[4];
        b_columns(B, tile, n * 16, k);
#pragma unroll
        for (int m = 0; m < MT; m++) {
            mma(acc[m][2 * n], A[m], B[0], B[1]);
            mma(acc[m][2 * n + 1], A[m], B[2], B[3]);
        }
    }
}
template <int MT>
static __device__ __forceinline__ void step_rows(float (&acc)[MT][8][4], const uint32_t (&A)[MT][4],
                                                 const unsigned char *tile, int k)
{
#pragma unroll
    for (int n = 0; n < 4; n++) {
        uint32_t B[4];
        b_rows(B, tile, n * 16, k);
#pragma unroll
        for (int m = 0; m < MT; m++) {
            mma(acc[m][2 * n], A[m], B[0], B[1]);
            mma(acc[m][2 * n + 1], A[m], B[2], B[3]);
        }
    }
}

/* acc (32 rows, 32 columns) += A (32, 64) B (64, 32), both from tiles whose rows run along k. */
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

/* ---- states ---- */

enum { STATE_STAGES = 3, STATE_STAGE = 4 * TILE_BYTES };

template <bool OUTPUT> static __device__ __forceinline__ void chunk_sum(const tensor_task &a, unsigned z)
{
    MBA_DYNAMIC_SMEM(smem);
    uint2    *factor = (uint2 *)(smem + STATE_STAGES * STATE_STAGE);          // (2 heads, Q / 2)
    const int nt = digit(z, a.ntiles), pt = digit(z, a.ptiles), pair = digit(z, a.pairs), g = digit(z, a.G),
              c = digit(z, a.K), b = (int)z;
    const int h0 = g * a.J + 2 * pair, heads = min(2, a.J - 2 * pair), steps = a.Q / SSD_TILE, tid = threadIdx.x;
    const int real = min(a.Q, a.L - c * a.Q), p0 = pt * 64, n0 = nt * 128;
    const int64_t                l0 = (int64_t)c * a.Q;
    const strided<const bf16>   &left = OUTPUT && a.dy.at ? a.dy : a.x, &right = OUTPUT ? a.cm : a.bm;
    const int                    left_real = OUTPUT && !a.dy.at ? 0 : real;
    auto fetch = [&](int i) {
        unsigned char *t = smem + i % STATE_STAGES * STATE_STAGE;
#pragma unroll 1
        for (int u = 0; u < 2; u++) {                  // rolled: addresses of both at once would not fit into registers
            load_tile<64, 256>(t + u * TILE_BYTES, left.row(b, l0 + i * 64, h0 + min(u, heads - 1)) + p0, left.axis[1],
                               u < heads ? left_real - i * 64 : 0, a.P - p0);
            load_tile<64, 256>(t + (2 + u) * TILE_BYTES, right.row(b, l0 + i * 64, g) + n0 + u * 64, right.axis[1],
                               real - i * 64, a.N - n0 - u * 64);
        }
    };
    for (int i = 0; i < STATE_STAGES - 1; i++) {
        if (i < steps) fetch(i);
        cp_commit();
    }
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
        if (i + STATE_STAGES - 1 < steps) fetch(i + STATE_STAGES - 1);
        cp_commit();
        const unsigned char *t = smem + i % STATE_STAGES * STATE_STAGE;
        const uint2         *f = factor + u * (a.Q / 2) + i * 32 + lane_pair();
#pragma unroll 1
        for (int k = 0; k < SSD_TILE; k += 16) {
            uint32_t A[2][4];
            for (int m = 0; m < 2; m++) a_columns(A[m], t + u * TILE_BYTES, m0 + 16 * m, k);
            scale_columns(A, f[k / 2], f[k / 2 + 4]);
            step_columns(acc, A, t + (2 + half) * TILE_BYTES, k);
        }
    }
    /* through shared memory, 4 KB for each warp, so that rows leave in pieces of 16 bytes */
    __syncthreads();
    const int      t = thread_anew(), row = (t & 31) >> 2;
    unsigned char *mine = smem + t / 32 * 4096;
#pragma unroll
    for (int m = 0; m < 2; m++)
#pragma unroll
        for (int n = 0; n < 8; n++)
#pragma unroll
            for (int r = 0; r < 2; r++)
                *(uint32_t *)(mine + tile_at(m * 16 + 8 * r + row, n) + (t & 3) * 4) =
                    pack(acc[m][n][2 * r], acc[m][n][2 * r + 1]);
    __syncwarp();
    if (u >= heads) return;
    bf16 *to = (OUTPUT ? a.dstates : a.states) + state_at(a, b, c, h0 + u) + (int64_t)(p0 + m0) * a.N + n0 + half * 64;
    for (int i = t % 32; i < 32 * 8; i += 32) {
        const int r = i / 8, piece = i % 8;
        if (p0 + m0 + r < a.P && n0 + half * 64 + piece * 8 < a.N)
            *(uint4 *)(to + r * a.N + piece * 8) = *(const uint4 *)(mine + tile_at(r, piece));
    }
}

template <bool STAYS>
__global__ void __launch_bounds__(256, 2) chunk_state_fwd(const __grid_constant__ tensor_task a, unsigned tiles)
{
    for_tiles<STAYS>(tiles, [&](unsigned tile) { chunk_sum<false>(a, tile); });
}
template <bool STAYS>
__global__ void __launch_bounds__(256, 2) chunk_scan_bwd_dstates(const __grid_constant__ tensor_task a, unsigned tiles)
{
    for_tiles<STAYS>(tiles, [&](unsigned tile) { chunk_sum<true>(a, tile); });
}

/* ---- C B^T ---- */

/* The tile (l0, s0) of the products of 128 threads: 32 x 32 per warp. Uses 32 KB; its end is a barrier. */
static __device__ __forceinline__ void multiply_pairs(float (&acc)[2][4][4], const tensor_task &a, int b, int c, int g,
                                                      int l0, int s0)
{
    MBA_DYNAMIC_SMEM(smem);
    const int     real = min(a.Q, a.L - c * a.Q), steps = (a.N + 63) / 64, warp = threadIdx.x / 32;
    const int64_t first = (int64_t)c * a.Q;
    auto fetch = [&](int i) {
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

/* Two neighbours of a row of C B^T or of its gradient; zero where the source does not reach. */
static __device__ __forceinline__ uint32_t reached(const tensor_task &a, int b, int c, int l, int s, float x, float y)
{
    return pack(reaches(a, b, c, l, s) ? x : 0, reaches(a, b, c, l, s + 1) ? y : 0);
}

static __device__ __forceinline__ void pairs_tile(const tensor_task &a, unsigned z)
{
    const int tile = digit(z, a.tiles * (a.tiles + 1) / 2), g = digit(z, a.G), c = digit(z, a.K), b = (int)z;
    const int warp = threadIdx.x / 32;
    int       l0, s0;
    tile_of(tile, l0, s0);
    float acc[2][4][4] = {};
    multiply_pairs(acc, a, b, c, g, l0 * SSD_TILE, s0 * SSD_TILE);
#pragma unroll
    for (int m = 0; m < 2; m++)
#pragma unroll
        for (int n = 0; n < 4; n++)
#pragma unroll
            for (int r = 0; r < 2; r++) {
                const int l = l0 * SSD_TILE + warp / 2 * 32 + m * 16 + 8 * r + lane_row(),
                          s = s0 * SSD_TILE + warp % 2 * 32 + n * 8 + 2 * lane_pair();
                *(uint32_t *)(a.cb + pairs_at(a, b, c, g) + (int64_t)l * a.Q + s) =
                    reached(a, b, c, l, s, acc[m][n][2 * r], acc[m][n][2 * r + 1]);
            }
}

template <bool STAYS>
__global__ void __launch_bounds__(128, 6) bmm_chunk_fwd(const __grid_constant__ tensor_task a, unsigned tiles)
{
    for_tiles<STAYS>(tiles, [&](unsigned tile) { pairs_tile(a, tile); });
}

/* ---- y, and the gradient of x ---- */

enum { SCAN_STAGES = 3, SCAN_LD = 72 };                /* SCAN_LD: floats of a row of sums on its way out */

/* What chunk_scan works on: rows r0 .. of chunk c, two heads, 64 columns of p. */
struct scan_block {
    int     b, c, g, h0, heads, rt, r0, pt, real;
    int64_t l0;
};

static __device__ __forceinline__ void take_heads(scan_block &k, const tensor_task &a, int pair)
{
    k.h0    = k.g * a.J + 2 * pair;
    k.heads = min(2, a.J - 2 * pair);
}

/* Tile z, where the heads of a group are `parts`; returns which of them. */
template <int MT>
static __device__ __forceinline__ int scan_block_of(scan_block &k, const tensor_task &a, unsigned z, int parts)
{
    k.pt = digit(z, a.ptiles);
    const int part = digit(z, parts);
    k.rt = digit(z, a.xtiles);
    k.g  = digit(z, a.G);
    k.c  = digit(z, a.K);
    k.b  = (int)z;
    k.r0 = k.rt * 64 * MT;
    k.real = min(a.Q, a.L - k.c * a.Q);
    k.l0 = (int64_t)k.c * a.Q;
    return part;
}

/* Where the tiles of a stage come from: tile u of step i lies at at[u] + i * step. In shared memory, since beside the
 * sums of a warp there are no registers for it. First C (or B) and the states, then C B^T and x (or dy). */
struct scan_side {
    const bf16 *at[2];
    int64_t     ld, step;                              /* between rows, between steps */
    int         rows[2], cols, rows_drop, cols_drop;   /* what is there; how much less at the next step */
};
struct scan_sides { scan_side left, right; };
enum { MAX_CHUNK_ROWS = 512 };                         /* as the plan says: so many rows less are none at any step */

template <bool REV>
static __device__ __forceinline__ void set_states(scan_sides &s, const tensor_task &a, const scan_block &k)
{
    const strided<const bf16> &m = REV ? a.bm : a.cm;
    for (int u = 0; u < 2; u++) {
        s.left.at[u]    = m.row(k.b, k.l0 + k.r0 + 64 * u, k.g);
        s.left.rows[u]  = k.real - k.r0 - 64 * u;
        s.right.at[u] = (REV ? a.dstates : a.states) + state_at(a, k.b, k.c, k.h0 + min(u, k.heads - 1)) +
                        (int64_t)k.pt * 64 * a.N;
        s.right.rows[u] = u < k.heads ? a.P - k.pt * 64 : 0;
    }
    s.left.ld   = m.axis[1];
    s.right.ld  = a.N;
    s.left.step = s.right.step = s.left.cols_drop = s.right.cols_drop = 64;
    s.left.cols = s.right.cols = a.N;
    s.left.rows_drop = s.right.rows_drop = 0;
}

template <bool REV>
static __device__ __forceinline__ void set_sources(scan_sides &s, const tensor_task &a, const scan_block &k)
{
    const strided<const bf16> &v = REV && a.dy.at ? a.dy : a.x;
    const int                  first = REV ? (a.tiles - 1) * 64 : 0, real = REV && !a.dy.at ? 0 : k.real;
    const bf16                *cb = a.cb + pairs_at(a, k.b, k.c, k.g);
    for (int u = 0; u < 2; u++) {
        s.left.at[u]    = REV ? cb + (int64_t)first * a.Q + k.r0 + 64 * u : cb + (int64_t)(k.r0 + 64 * u) * a.Q;
        s.left.rows[u]  = 64;
        s.right.at[u]   = v.row(k.b, k.l0 + first, k.h0 + min(u, k.heads - 1)) + k.pt * 64;
        s.right.rows[u] = u < k.heads ? real - first : -MAX_CHUNK_ROWS;
    }
    s.left.ld    = a.Q;
    s.left.step  = REV ? -64 * (int64_t)a.Q : 64;
    s.right.ld   = v.axis[1];
    s.right.step = (REV ? -64 : 64) * v.axis[1];
    s.left.cols  = 64;
    s.right.cols = a.P - k.pt * 64;
    s.right.rows_drop = REV ? -64 : 64;
    s.left.rows_drop = s.left.cols_drop = s.right.cols_drop = 0;
}

static __device__ __forceinline__ void scan_load(unsigned char *tile, const scan_side &s, int tiles, int i)
{
#pragma unroll 1
    for (int u = 0; u < tiles; u++)
        load_tile<64, 256>(tile + u * TILE_BYTES, s.at[u] + i * s.step, s.ld, s.rows[u] - i * s.rows_drop,
                           s.cols - i * s.cols_drop);
}

/* cs and dt of both heads; the factors of sources for the pivot of each row of warps. */
struct scan_tables { float *cs, *step; uint2 *factor; };      /* (2, Q), (2, Q), (2, 4, Q / 2) */

template <bool REV, int MT>
static __device__ __forceinline__ void scan_factors(const tensor_task &a, const scan_block &k, const scan_tables &t)
{
    const int tid = thread_anew(), Q = a.Q;
    for (int i = tid; i < 2 * Q; i += 256) {
        const int64_t at = steps_at(a, k.b, k.h0 + min(i / Q, k.heads - 1), k.c) + i % Q;
        t.cs[i]   = a.cs[at];
        t.step[i] = a.step[at];
    }
    __syncthreads();
    for (int i = tid; i < 4 * Q; i += 256) {
        const int    u = i / (2 * Q), wr = i / (Q / 2) % 4, s = i % (Q / 2) * 2, lo = k.r0 + wr * 16 * MT;
        const float *cs = t.cs + u * Q, *step = t.step + u * Q;
        if (!REV && s < lo)
            t.factor[i] = split(__expf(cs[lo - 1] - cs[s]) * step[s], __expf(cs[lo - 1] - cs[s + 1]) * step[s + 1]);
        if (REV && s >= lo + 16 * MT)
            t.factor[i] = split(__expf(cs[s] - cs[lo + 16 * MT - 1]), __expf(cs[s + 1] - cs[lo + 16 * MT - 1]));
    }
}

/* A fragment of pairs near the diagonal, with its decays: rows l (or m) = cs_row, columns s.. of the fragment. */
template <bool REV>
static __device__ __forceinline__ void scale_pairs(uint32_t (&A)[4], const float (&row)[2], const float *cs,
                                                   const float *step)
{
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const float2 c = *(const float2 *)(cs + i / 2 * 8), d = *(const float2 *)(step + i / 2 * 8);
        const float  x = row[i % 2] - c.x, y = row[i % 2] - c.y;
        if (!REV) A[i] = pack(low_of(A[i]) * __expf(fminf(x, 0)) * d.x, high_of(A[i]) * __expf(fminf(y, 0)) * d.y);
        else      A[i] = pack(low_of(A[i]) * __expf(fminf(-x, 0)), high_of(A[i]) * __expf(fminf(-y, 0)));
    }
}

template <int MT> static __device__ __forceinline__ void scale_rows(float (&acc)[MT][8][4], const float (&f)[MT][2])
{
#pragma unroll
    for (int m = 0; m < MT; m++)
#pragma unroll
        for (int n = 0; n < 8; n++)
#pragma unroll
            for (int i = 0; i < 4; i++) acc[m][n][i] *= f[m][i / 2];
}

/* cs just before the rows lo .. of a warp, or of the last of them. */
template <bool REV, int MT> static __device__ __forceinline__ float pivot_of(const float *cs, int lo)
{
    return REV ? cs[lo + 16 * MT - 1] : lo ? cs[lo - 1] : 0;
}

/* One tile of 64 sources (or of what a source feeds), for the rows lo .. of this warp, at w0 in the tile. */
template <bool REV, int MT>
static __device__ __forceinline__ void scan_sources(float (&acc)[MT][8][4], const unsigned char *left,
                                                    const unsigned char *right, const float *cs, const float *step,
                                                    const uint2 *factor, int j, int lo, int w0)
{
    const int t = lane_pair();
#pragma unroll 1
    for (int kk = 0; kk < SSD_TILE; kk += 16) {
        const int  k = REV ? SSD_TILE - 16 - kk : kk, s = j * SSD_TILE + k;
        const bool off = REV ? s >= lo + 16 * MT : s < lo;
        if (REV ? s < lo : s >= lo + 16 * MT) continue;
        uint32_t A[MT][4];
        for (int m = 0; m < MT; m++) {
            const int at = w0 + 16 * m;
            if (REV) a_columns(A[m], left + at / 64 * TILE_BYTES, at % 64, k);
            else     a_rows(A[m], left, at, k);
        }
        if (off) {
            scale_columns(A, factor[s / 2 + t], factor[s / 2 + t + 4]);
            step_columns(acc, A, right, k);
            continue;
        }
        float row[MT][2];
        for (int m = 0; m < MT; m++)
            for (int r = 0; r < 2; r++) row[m][r] = cs[lo + 16 * m + 8 * r + lane_row()];
        if (s == (REV ? lo + 16 * MT - 16 : lo)) { // the first block at the diagonal: from the pivot to the rows
            const float pivot = pivot_of<REV, MT>(cs, lo);
            float       f[MT][2];
            for (int m = 0; m < MT; m++)
                for (int r = 0; r < 2; r++) f[m][r] = __expf(REV ? pivot - row[m][r] : row[m][r] - pivot);
            scale_rows(acc, f);
        }
        for (int m = 0; m < MT; m++) scale_pairs<REV>(A[m], row[m], cs + s + 2 * t, step + s + 2 * t);
        step_columns(acc, A, right, k);                    // blocks beyond the diagonal are zero in C B^T
    }
}

/* Sums of columns over the block, from eight per thread: thread i < 64 gets column i. `red` holds 8 x 64 floats. */
static __device__ __forceinline__ float column_sums(float *red, float (&v)[8])
{
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    float     sum = 0;
#pragma unroll
    for (int i = 0; i < 8; i++) {
        v[i] += __shfl_xor_sync(0xffffffffu, v[i], 8);
        v[i] += __shfl_xor_sync(0xffffffffu, v[i], 16);
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 8; i++)
        if (lane < 8) red[warp * 64 + lane * 8 + i] = v[i];
    __syncthreads();
    if (threadIdx.x < 64)
        for (int w = 0; w < 8; w++) sum += red[w * 64 + threadIdx.x];
    return sum;
}

/* The sums of a head leave: eight threads for a row, eight columns each. */
template <bool REV, int MT>
static __device__ __forceinline__ void scan_store(const tensor_task &a, const scan_block &k, int h, const float *sums,
                                                  float *red)
{
    const int     tid = thread_anew(), piece = tid % 8, p = k.pt * 64 + piece * 8;
    const int64_t at = steps_at(a, k.b, h, k.c);
    float         D[8] = {}, cols[8] = {};
    for (int i = 0; i < 8 && a.skip_cols && p < a.P; i++) D[i] = a.skip[a.skip_cols == 1 ? h : h * a.P + p + i];
    for (int r = tid / 8; r < 64 * MT; r += 32) {
        const int  l = k.r0 + r;
        const bool real = l < k.real && p < a.P;
        float      x[8] = {}, dy[8] = {}, o[8], dot = 0;
        if (real) load(x, a.x.row(k.b, k.l0 + l, h) + p);
        if (REV && real && a.dy.at) load(dy, a.dy.row(k.b, k.l0 + l, h) + p);
        const float step = REV ? a.step[at + l] : 1;
        float       sum[2][4];
        for (int i = 0; i < 2; i++) load(sum[i], sums + r * SCAN_LD + piece * 8 + i * 4);
#pragma unroll
        for (int i = 0; i < 8; i++) {
            o[i]     = fmaf(step, sum[i / 4][i % 4], D[i] * (REV ? dy[i] : x[i]));
            dot     += sum[i / 4][i % 4] * x[i];
            cols[i] += x[i] * dy[i];
        }
        if (REV) {
            for (int d = 1; d < 8; d *= 2) dot += __shfl_xor_sync(0xffffffffu, dot, d);
            if (piece == 0) a.dstep[(int64_t)k.pt * a.B * a.H * a.KQ + at + l] = dot;
        }
        if (!real) continue;
        bf16 *to = (REV ? a.dx : a.y).row(k.b, k.l0 + l, h) + p;
        if (REV && a.adds[DX]) {
            float old[8];
            load(old, to);
            for (int i = 0; i < 8; i++) o[i] += old[i];
        }
        store(to, o);
    }
    if (!REV || !a.skip_cols) return;
    const float   sum = column_sums(red, cols);
    const int64_t part = ((int64_t)k.b * a.K + k.c) * a.xtiles + k.rt;
    if (a.skip_cols > 1) {
        if (tid < 64 && k.pt * 64 + tid < a.P) a.dD[(part * a.H + h) * a.P + k.pt * 64 + tid] = sum;
        return;
    }
    const float all = block_sum<256>(tid < 64 ? sum : 0);
    if (tid == 0) a.dD[(part * a.ptiles + k.pt) * a.H + h] = all;
}

/* With `own` (MADE) the left operands lie there, a tile for each step: C (or B) of the rows, then C B^T. Otherwise they
 * come through the ring. */
template <bool REV, int MT, bool MADE>
static __device__ __forceinline__ void chunk_scan(const tensor_task &a, const scan_block &k, const unsigned char *own)
{
    MBA_DYNAMIC_SMEM(smem);
    enum { LEFT = MADE ? 0 : MT, STAGE = (LEFT + 2) * TILE_BYTES };
    float            *table = (float *)(smem + SCAN_STAGES * STAGE);
    const scan_tables tables = { table, table + 2 * a.Q, (uint2 *)(table + 4 * a.Q) };
    const int         states = (a.N + 63) / 64, steps = states + (REV ? a.tiles - k.r0 / 64 : k.r0 / 64 + MT);
    __shared__ scan_sides from[2];
    __shared__ scan_block mine;                        // k again, for the end: it need not stay in registers
    if (threadIdx.x == 0) set_states<REV>(from[0], a, k);
    if (threadIdx.x == 0) mine = k;
    if (threadIdx.x == 32) set_sources<REV>(from[1], a, k);
    __syncthreads();
    auto fetch = [&](int i) {
        if (i < steps) {
            unsigned char    *t = smem + i % SCAN_STAGES * STAGE;
            const scan_sides &s = from[i >= states];
            if (!MADE) scan_load(t, s.left, MT, i < states ? i : i - states);
            scan_load(t + LEFT * TILE_BYTES, s.right, 2, i < states ? i : i - states);
        }
        cp_commit();
    };
    /* 1. the first stages are on their way while the factors are made */
    for (int i = 0; i < SCAN_STAGES - 1; i++) fetch(i);
    scan_factors<REV, MT>(a, k, tables);
    __syncthreads();
    const int    warp = threadIdx.x / 32, u = warp / 4, wr = warp % 4, w0 = wr * 16 * MT, lo = k.r0 + w0;
    const float *cs = tables.cs + u * a.Q, *step = tables.step + u * a.Q;
    const uint2 *factor = tables.factor + (u * 4 + wr) * (a.Q / 2);
    float        acc[MT][8][4] = {};
    /* 2. the state, then the tiles of sources, each scaled up to the pivot of the warp */
    for (int i = 0; i < steps; i++) {
        cp_wait<SCAN_STAGES - 2>();
        __syncthreads();
        fetch(i + SCAN_STAGES - 1);
        const unsigned char *stage = smem + i % SCAN_STAGES * STAGE, *right = stage + (LEFT + u) * TILE_BYTES,
                            *left = MADE ? own + i * TILE_BYTES : stage;
        if (i < states) {
#pragma unroll 1
            for (int kk = 0; kk < SSD_TILE; kk += 16) {
                uint32_t A[MT][4];
                for (int m = 0; m < MT; m++) a_rows(A[m], left, w0 + 16 * m, kk);
                step_rows(acc, A, right, kk);
            }
            if (i < states - 1) continue;
            const int64_t at = steps_at(a, mine.b, mine.h0 + min(u, mine.heads - 1), mine.c) + lo;
            const float   pivot = pivot_of<REV, MT>(cs, lo), entering = __expf(REV ? cs[a.Q - 1] - pivot : pivot);
            float         f[MT][2];                    // zero where a reset lies between: then the decay is zero too
            for (int m = 0; m < MT; m++)
                for (int r = 0; r < 2; r++)
                    f[m][r] = (REV ? a.out : a.in)[at + 16 * m + 8 * r + lane_row()] > 0 ? entering : 0;
            scale_rows(acc, f);
            continue;
        }
        const int j = REV ? a.tiles - 1 - (i - states) : i - states;
        scan_sources<REV, MT>(acc, left, right, cs, step, factor, j, lo, w0);
    }
    /* 3. out through shared memory */
    __syncthreads();
    const int t = thread_anew(), row = (t >> 5 & 3) * 16 * MT + ((t & 31) >> 2);
    float    *sums = (float *)smem + (t >> 7) * 64 * MT * SCAN_LD;
#pragma unroll
    for (int m = 0; m < MT; m++)
#pragma unroll
        for (int n = 0; n < 8; n++)
#pragma unroll
            for (int r = 0; r < 2; r++)
                *(float2 *)(sums + (row + 16 * m + 8 * r) * SCAN_LD + n * 8 + 2 * (t & 3)) =
                    make_float2(acc[m][n][2 * r], acc[m][n][2 * r + 1]);
    __syncthreads();
    for (int i = 0; i < mine.heads; i++)
        scan_store<REV, MT>(a, mine, mine.h0 + i, (const float *)smem + i * 64 * MT * SCAN_LD, table);
}

template <bool REV, int MT> static __device__ __forceinline__ void scan_tile(const tensor_task &a, unsigned tile)
{
    scan_block k;
    take_heads(k, a, scan_block_of<MT>(k, a, tile, a.pairs));
    chunk_scan<REV, MT, false>(a, k, NULL);
}

template <bool STAYS, int MT>
__global__ void __launch_bounds__(256, 2) chunk_scan_fwd(const __grid_constant__ tensor_task a, unsigned tiles)
{
    for_tiles<STAYS>(tiles, [&](unsigned tile) { scan_tile<false, MT>(a, tile); });
}
template <bool STAYS, int MT>
__global__ void __launch_bounds__(256, 2)
    chunk_scan_chunk_state_bwd_dx(const __grid_constant__ tensor_task a, unsigned tiles)
{
    for_tiles<STAYS>(tiles, [&](unsigned tile) { scan_tile<true, MT>(a, tile); });
}

/* ---- the same with C B^T made in the block (variant bc_fused) ---- */

/* C (or B) of the 64 rows of a block, a tile per 64 of N, and behind it the tiles of C B^T of these rows in the order
 * in which the scan wants them: made two at a time, by four warps each. Its end is a barrier. */
template <bool REV>
static __device__ __forceinline__ void make_pairs(unsigned char *own, const tensor_task &a, const scan_block &k)
{
    MBA_DYNAMIC_SMEM(smem);
    const strided<const bf16> &mine = REV ? a.bm : a.cm, &other = REV ? a.cm : a.bm;
    const int slabs = (a.N + 63) / 64, count = REV ? a.tiles - k.rt : k.rt + 1, steps = (count + 1) / 2 * slabs;
    const int warp = threadIdx.x / 32, u = warp / 4, m0 = warp / 2 % 2 * 32, n0 = warp % 2 * 32;
    auto fetch = [&](int i) {
        for (int v = 0; i < steps && v < 2; v++) {
            const int n = i / slabs * 2 + v, row = (REV ? a.tiles - 1 - n : n) * 64, col = i % slabs * 64;
            if (n < count)
                load_tile<64, 256>(smem + (i % SCAN_STAGES * 2 + v) * TILE_BYTES,
                                   other.row(k.b, k.l0 + row, k.g) + col, other.axis[1], k.real - row, a.N - col);
        }
        cp_commit();
    };
    for (int i = 0; i < slabs; i++)
        load_tile<64, 256>(own + i * TILE_BYTES, mine.row(k.b, k.l0 + k.r0, k.g) + i * 64, mine.axis[1], k.real - k.r0,
                           a.N - i * 64);
    for (int i = 0; i < SCAN_STAGES - 1; i++) fetch(i);
    float acc[2][4][4] = {};
    for (int i = 0; i < steps; i++) {
        const int n = i / slabs * 2 + u, row = (REV ? a.tiles - 1 - n : n) * 64;
        cp_wait<SCAN_STAGES - 2>();
        __syncthreads();
        fetch(i + SCAN_STAGES - 1);
        if (n >= count) continue;
        const unsigned char *t = smem + (i % SCAN_STAGES * 2 + u) * TILE_BYTES, *rows = own + i % slabs * TILE_BYTES;
        product_of_rows(acc, REV ? t : rows, m0, REV ? rows : t, n0);
        if ((i + 1) % slabs) continue;
#pragma unroll
        for (int m = 0; m < 2; m++)
#pragma unroll
            for (int j = 0; j < 4; j++)
#pragma unroll
                for (int r = 0; r < 2; r++) {
                    const int l = m0 + 16 * m + 8 * r + lane_row(), s = n0 + 8 * j + 2 * lane_pair();
                    *(uint32_t *)(own + (slabs + n) * TILE_BYTES + tile_at(l, s / 8) + lane_pair() * 4) =
                        reached(a, k.b, k.c, (REV ? row : k.r0) + l, (REV ? k.r0 : row) + s, acc[m][j][2 * r],
                                acc[m][j][2 * r + 1]);
                    acc[m][j][2 * r] = acc[m][j][2 * r + 1] = 0;
                }
    }
    __syncthreads();
}

/* PAIRS times two heads share what is made. */
template <bool REV, int PAIRS> static __device__ __forceinline__ void bc_scan(const tensor_task &a)
{
    MBA_DYNAMIC_SMEM(smem);
    unsigned char *own = smem + SCAN_STAGES * 2 * TILE_BYTES + 48 * a.Q;
    scan_block     k;
    const int      part = scan_block_of<1>(k, a, blockIdx.x, (a.pairs + PAIRS - 1) / PAIRS);
    make_pairs<REV>(own, a, k);
#pragma unroll 1
    for (int pair = part * PAIRS; pair < min(a.pairs, (part + 1) * PAIRS); pair++) {
        take_heads(k, a, pair);
        chunk_scan<REV, 1, true>(a, k, own);
        __syncthreads();
    }
}

template <int PAIRS>
__global__ void __launch_bounds__(256, 2) bc_chunk_scan_fwd(const __grid_constant__ tensor_task a, unsigned)
{
    bc_scan<false, PAIRS>(a);
}
template <int PAIRS>
__global__ void __launch_bounds__(256, 2) bc_chunk_scan_bwd_dx(const __grid_constant__ tensor_task a, unsigned)
{
    bc_scan<true, PAIRS>(a);
}

/* ---- dB and dC through the states, summed over the heads of a group ---- */

enum { HEADS_STAGES = 4 };

template <bool OUTPUT, int MT> static __device__ __forceinline__ void over_heads(const tensor_task &a, unsigned z)
{
    MBA_DYNAMIC_SMEM(smem);
    enum { ROWS = 64 * MT, STAGE = (MT + 2) * TILE_BYTES + 2 * ROWS * 4 };
    float    *red = (float *)(smem + HEADS_STAGES * STAGE);                   // (2 turns, 2 halves of n, ROWS)
    const int nt = digit(z, a.ntiles), r0 = digit(z, a.rtiles) * ROWS, g = digit(z, a.G), c = digit(z, a.K), b = (int)z;
    const int real = min(a.Q, a.L - c * a.Q), n0 = nt * 128, steps = a.J * a.ptiles, tid = threadIdx.x;
    const int64_t              l0 = (int64_t)c * a.Q;
    const strided<const bf16> &left = OUTPUT && a.dy.at ? a.dy : a.x, &m = OUTPUT ? a.cm : a.bm;
    const int                  left_real = OUTPUT && !a.dy.at ? 0 : real;
    auto fetch = [&](int i) {
        unsigned char *t = smem + i % HEADS_STAGES * STAGE;
        const int      h = g * a.J + i / a.ptiles, p0 = i % a.ptiles * 64;
        const int64_t  at = steps_at(a, b, h, c) + r0;
        const bf16    *state = (OUTPUT ? a.states : a.dstates) + state_at(a, b, c, h) + (int64_t)p0 * a.N + n0;
        load_tile<ROWS, 256>(t, left.row(b, l0 + r0, h) + p0, left.axis[1], left_real - r0, a.P - p0);
        for (int u = 0; u < 2; u++)
            load_tile<64, 256>(t + (MT + u) * TILE_BYTES, state + u * 64, a.N, a.P - p0, a.N - n0 - u * 64);
        if (tid < ROWS / 2) {                          // the factors of the rows: in, or dt and out
            const int    i4 = tid % (ROWS / 4) * 4;
            const float *from = (OUTPUT ? a.in : tid < ROWS / 4 ? a.step : a.out) + at + i4;
            cp_async16(t + (MT + 2) * TILE_BYTES + tid * 16, from, true);
        }
    };
    /* the last head's sums of rows, once all warps have left theirs: thread r < ROWS adds the halves of n */
    auto leave = [&](int turn) {
        const int h = g * a.J + turn;
        if (tid < ROWS) {
            const float *from = red + turn % 2 * 2 * ROWS + tid;
            const int64_t to = (int64_t)nt * a.B * a.H * a.KQ + steps_at(a, b, h, c) + r0 + tid;
            (OUTPUT ? a.q : a.r)[to] = from[0] + from[ROWS];
        }
    };
    for (int i = 0; i < HEADS_STAGES - 1; i++) {
        if (i < steps) fetch(i);
        cp_commit();
    }
    const int warp = tid / 32, half = warp % 2, w0 = warp / 2 * 16 * MT;
    uint32_t bc[MT][8][2]; // the tile of B (or C) that the sums are multiplied with, for r (or q)
#pragma unroll
    for (int i = 0; i < MT; i++)
#pragma unroll
        for (int n = 0; n < 8; n++)
#pragma unroll
            for (int r = 0; r < 2; r++) {
                const int l = r0 + w0 + 16 * i + 8 * r + lane_row(), col = n0 + half * 64 + n * 8 + 2 * lane_pair();
                bc[i][n][r] = l < real && col < a.N ? *(const uint32_t *)(m.row(b, l0 + l, g) + col) : 0;
            }
    float acc[MT][8][4] = {}, before[MT][2] = {};
    for (int i = 0; i < steps; i++) {
        const int h = i / a.ptiles;
        cp_wait<HEADS_STAGES - 2>();
        __syncthreads();
        if (i && i % a.ptiles == 0) leave(h - 1);
        if (i + HEADS_STAGES - 1 < steps) fetch(i + HEADS_STAGES - 1);
        cp_commit();
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
            step_columns(acc, A, t + (MT + half) * TILE_BYTES, k);
        }
        if ((i + 1) % a.ptiles) continue;
#pragma unroll
        for (int j = 0; j < MT; j++)
#pragma unroll
            for (int r = 0; r < 2; r++) {              // <sum over heads so far, B>: the difference is this head's
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
    leave(a.J - 1);
    float *to = (OUTPUT ? a.dcs : a.dbs) + (((int64_t)b * a.KQ + l0 + r0 + w0) * a.G + g) * a.N + n0 + half * 64;
#pragma unroll
    for (int j = 0; j < MT; j++)
#pragma unroll
        for (int n = 0; n < 8; n++)
#pragma unroll
            for (int r = 0; r < 2; r++) {
                const int col = n * 8 + 2 * lane_pair();
                if (n0 + half * 64 + col < a.N)
                    *(float2 *)(to + (int64_t)(16 * j + 8 * r + lane_row()) * a.G * a.N + col) =
                        make_float2(acc[j][n][2 * r], acc[j][n][2 * r + 1]);
            }
}

template <bool STAYS, int MT>
__global__ void __launch_bounds__(256, 1) chunk_state_bwd_db(const __grid_constant__ tensor_task a, unsigned tiles)
{
    for_tiles<STAYS>(tiles, [&](unsigned tile) { over_heads<false, MT>(a, tile); });
}
template <bool STAYS, int MT>
__global__ void __launch_bounds__(256, 1) chunk_scan_bwd_dc(const __grid_constant__ tensor_task a, unsigned tiles)
{
    for_tiles<STAYS>(tiles, [&](unsigned tile) { over_heads<true, MT>(a, tile); });
}

/* ---- the gradient of C B^T, summed over the heads of a group ---- */

enum { DCB_STAGES = 3, DCB_STAGE = 2 * TILE_BYTES + 4 * SSD_TILE * 4 };

/* Eight numbers per lane, summed over the lanes that share lane % 4: lane g * 4 + t ends with number g. */
static __device__ __forceinline__ float fold8(const float (&v)[8])
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

/* Four numbers per lane, summed over the four lanes that share lane / 4: lane g * 4 + t ends with number t. */
static __device__ __forceinline__ float fold4(const float (&v)[4])
{
    float     a[2];
    const int lane = threadIdx.x & 31;
#pragma unroll
    for (int i = 0; i < 2; i++)
        a[i] = (lane & 2 ? v[2 + i] : v[i]) + __shfl_xor_sync(0xffffffffu, lane & 2 ? v[i] : v[2 + i], 2);
    return (lane & 1 ? a[1] : a[0]) + __shfl_xor_sync(0xffffffffu, lane & 1 ? a[0] : a[1], 1);
}

/* What this thread needs of C B^T: made here (MADE), or from memory. */
template <bool MADE>
static __device__ __forceinline__ void take_pairs(uint32_t (&cb)[2][4][2], const tensor_task &a, int b, int c, int g,
                                                  int l0, int s0)
{
    float acc[2][4][4] = {};
    if (MADE) multiply_pairs(acc, a, b, c, g, l0, s0);
    const int t = MADE ? thread_anew() : (int)threadIdx.x, l = l0 + t / 64 * 32 + (t & 31) / 4,
              s = s0 + (t & 32) + 2 * (t & 3);
#pragma unroll
    for (int m = 0; m < 2; m++)
#pragma unroll
        for (int n = 0; n < 4; n++)
#pragma unroll
            for (int r = 0; r < 2; r++)
                cb[m][n][r] = MADE ? reached(a, b, c, l + 16 * m + 8 * r, s + 8 * n, acc[m][n][2 * r],
                                             acc[m][n][2 * r + 1])
                                   : *(const uint32_t *)(a.cb + pairs_at(a, b, c, g) +
                                                         (int64_t)(l + 16 * m + 8 * r) * a.Q + s + 8 * n);
}

template <bool MADE> static __device__ __forceinline__ void dcb_tile(const tensor_task &a, unsigned z)
{
    MBA_DYNAMIC_SMEM(smem);
    float *red = (float *)(smem + DCB_STAGES * DCB_STAGE); // (2 turns, rows then columns, 2 warps, 64)
    const int tile = digit(z, a.tiles * (a.tiles + 1) / 2), g = digit(z, a.G), c = digit(z, a.K), b = (int)z;
    int       li, sj;
    tile_of(tile, li, sj);
    const int real = a.dy.at ? min(a.Q, a.L - c * a.Q) : 0, l0 = li * SSD_TILE, s0 = sj * SSD_TILE,
              steps = a.J * a.ptiles, tid = threadIdx.x;
    const int     warp = tid / 32, wm = warp / 2, wn = warp % 2, t = lane_pair();
    const int64_t first = (int64_t)c * a.Q, all = (int64_t)a.B * a.H * a.KQ;
    const strided<const bf16> &dy = a.dy.at ? a.dy : a.x;
    auto fetch = [&](int i) {
        unsigned char *to = smem + i % DCB_STAGES * DCB_STAGE;
        const int      h = g * a.J + i / a.ptiles, p0 = i % a.ptiles * 64;
        load_tile<64, 128>(to, dy.row(b, first + l0, h) + p0, dy.axis[1], real - l0, a.P - p0);
        load_tile<64, 128>(to + TILE_BYTES, a.x.row(b, first + s0, h) + p0, a.x.axis[1], real - s0, a.P - p0);
        if (tid < 48) {                                // cs of the rows, cs and dt of the columns
            const float *from = (tid < 32 ? a.cs : a.step) + steps_at(a, b, h, c) + (tid < 16 ? l0 : s0) + tid % 16 * 4;
            cp_async16(to + 2 * TILE_BYTES + tid * 16, from, true);
        }
    };
    auto leave = [&](int turn) {                       // sums of rows by threads 0 .. 63, of columns by the others
        const float  *from = red + turn % 2 * 256 + tid / 64 * 128 + tid % 64;
        const int64_t at = steps_at(a, b, g * a.J + turn, c);
        if (tid < 64) a.rowsum[sj * all + at + l0 + tid] = from[0] + from[64];
        else          a.colsum[li * all + at + s0 + tid - 64] = from[0] + from[64];
    };
    uint32_t cb[2][4][2];
    if (MADE) take_pairs<true>(cb, a, b, c, g, l0, s0);
    for (int i = 0; i < DCB_STAGES - 1; i++) {
        if (i < steps) fetch(i);
        cp_commit();
    }
    const int64_t place = pairs_at(a, b, c, g) + (int64_t)(l0 + wm * 32 + lane_row()) * a.Q + s0 + wn * 32 + 2 * t;
    if (!MADE) take_pairs<false>(cb, a, b, c, g, l0, s0);
    float total[2][4][4] = {}, acc[2][4][4] = {};
    for (int i = 0; i < steps; i++) {
        const int h = i / a.ptiles;
        cp_wait<DCB_STAGES - 2>();
        __syncthreads();
        if (i && i % a.ptiles == 0) leave(h - 1);
        if (i + DCB_STAGES - 1 < steps) fetch(i + DCB_STAGES - 1);
        cp_commit();
        const unsigned char *s = smem + i % DCB_STAGES * DCB_STAGE;
        const float *cs_l = (const float *)(s + 2 * TILE_BYTES), *cs_s = cs_l + 64 + wn * 32 + 2 * t, *step = cs_s + 64;
        if (i % a.ptiles == 0)
#pragma unroll
            for (int m = 0; m < 2; m++)
#pragma unroll
                for (int n = 0; n < 4; n++)
#pragma unroll
                    for (int e = 0; e < 4; e++) acc[m][n][e] = 0;
        product_of_rows(acc, s, wm * 32, s + TILE_BYTES, wn * 32);
        if ((i + 1) % a.ptiles) continue;
        /* d = Z exp(cs_l - cs_s) dt_s: away from the diagonal, with the first row of the tile as pivot */
        float rows[4] = {}, cols[8] = {}, row[4];
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
                    const int      i16 = m / 2, r = m % 2;
                    const float    f = li > sj ? row[m] * col : __expf(fminf(row[m] - col, 0)) * dt;
                    const float    d = acc[i16][n][2 * r + e] * f;
                    const uint32_t w = cb[i16][n][r];
                    const bool     diagonal = li == sj && wm * 32 + 8 * m + lane_row() == wn * 32 + 8 * n + 2 * t + e;
                    const float    M = diagonal ? 0 : d * (e ? high_of(w) : low_of(w));
                    total[i16][n][2 * r + e] += d;
                    rows[m]         += M;
                    cols[2 * n + e] += M;
                }
            }
        float *to = red + h % 2 * 256;
        const float by_row = fold4(rows), by_col = fold8(cols);
        to[wn * 64 + wm * 32 + 8 * t + lane_row()] = by_row;
        to[128 + wm * 64 + wn * 32 + lane_row() / 2 * 8 + 2 * t + lane_row() % 2] = by_col;
    }
    __syncthreads();
    leave(a.J - 1);
#pragma unroll
    for (int m = 0; m < 2; m++)
#pragma unroll
        for (int n = 0; n < 4; n++)
#pragma unroll
            for (int r = 0; r < 2; r++) {
                const int l = l0 + wm * 32 + 16 * m + 8 * r + lane_row(), s = s0 + wn * 32 + 8 * n + 2 * t;
                *(uint32_t *)(a.dcb + place + (int64_t)(16 * m + 8 * r) * a.Q + 8 * n) =
                    reached(a, b, c, l, s, total[m][n][2 * r], total[m][n][2 * r + 1]);
            }
}

/* Blocks per SM: on sm_80 a third one would cost a spilled register. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
enum { DCB_BLOCKS_MADE = 2 };
#else
enum { DCB_BLOCKS_MADE = 3 };
#endif

template <bool STAYS, bool MADE>
__global__ void __launch_bounds__(128, MADE ? (int)DCB_BLOCKS_MADE : 3)
    chunk_scan_bwd_dcb(const __grid_constant__ tensor_task a, unsigned tiles)
{
    for_tiles<STAYS>(tiles, [&](unsigned tile) { dcb_tile<MADE>(a, tile); });
}

/* ---- dB and dC ---- */

enum { BMM_STAGES = 3, BMM_STAGE = 3 * TILE_BYTES };

template <bool OUTPUT> static __device__ __forceinline__ void pairs_bwd(const tensor_task &a, unsigned z)
{
    MBA_DYNAMIC_SMEM(smem);
    const int nt = digit(z, a.ntiles), ri = digit(z, a.tiles), g = digit(z, a.G), c = digit(z, a.K), b = (int)z;
    const int real = min(a.Q, a.L - c * a.Q), n0 = nt * 128, steps = OUTPUT ? ri + 1 : a.tiles - ri;
    const int warp = threadIdx.x / 32, m0 = warp / 2 * 32, half = warp % 2;
    const int64_t              l0 = (int64_t)c * a.Q;
    const strided<const bf16> &v = OUTPUT ? a.bm : a.cm;
    const bf16                *dcb = a.dcb + pairs_at(a, b, c, g);
    auto fetch = [&](int i) {
        unsigned char *t = smem + i % BMM_STAGES * BMM_STAGE;
        const int      j = OUTPUT ? i : ri + i;
        load_tile<64, 128>(t, dcb + (int64_t)(OUTPUT ? ri : j) * 64 * a.Q + (OUTPUT ? j : ri) * 64, a.Q, 64, 64);
        for (int u = 0; u < 2; u++)
            load_tile<64, 128>(t + (1 + u) * TILE_BYTES, v.row(b, l0 + j * 64, g) + n0 + u * 64, v.axis[1],
                               real - j * 64, a.N - n0 - u * 64);
    };
    for (int i = 0; i < BMM_STAGES - 1; i++) {
        if (i < steps) fetch(i);
        cp_commit();
    }
    float acc[2][8][4] = {};
    for (int i = 0; i < steps; i++) {
        cp_wait<BMM_STAGES - 2>();
        __syncthreads();
        if (i + BMM_STAGES - 1 < steps) fetch(i + BMM_STAGES - 1);
        cp_commit();
        const unsigned char *t = smem + i % BMM_STAGES * BMM_STAGE;
#pragma unroll
        for (int k = 0; k < SSD_TILE; k += 16) {
            uint32_t A[2][4];
            for (int m = 0; m < 2; m++)
                if (OUTPUT) a_rows(A[m], t, m0 + 16 * m, k);
                else        a_columns(A[m], t, m0 + 16 * m, k);
            step_columns(acc, A, t + (1 + half) * TILE_BYTES, k);
        }
    }
    const float *states = OUTPUT ? a.dcs : a.dbs;
#pragma unroll
    for (int m = 0; m < 2; m++)
#pragma unroll
        for (int n = 0; n < 8; n++)
#pragma unroll
            for (int r = 0; r < 2; r++) {
                const int l = ri * 64 + m0 + 16 * m + 8 * r + lane_row(),
                          col = n0 + half * 64 + n * 8 + 2 * lane_pair();
                if (l >= real || col >= a.N) continue;
                const float2 s = *(const float2 *)(states + (((int64_t)b * a.KQ + l0 + l) * a.G + g) * a.N + col);
                uint32_t    *to = (uint32_t *)((OUTPUT ? a.dcm : a.dbm).row(b, l0 + l, g) + col);
                const uint32_t old = a.adds[OUTPUT ? DCM : DBM] ? *to : 0;
                *to = pack(acc[m][n][2 * r] + s.x + low_of(old), acc[m][n][2 * r + 1] + s.y + high_of(old));
            }
}

template <bool STAYS, bool OUTPUT>
__global__ void __launch_bounds__(128) bmm_chunk_bwd(const __grid_constant__ tensor_task a, unsigned tiles)
{
    for_tiles<STAYS>(tiles, [&](unsigned tile) { pairs_bwd<OUTPUT>(a, tile); });
}

#endif
