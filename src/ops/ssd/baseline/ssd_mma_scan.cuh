// SPDX-License-Identifier: Apache-2.0
/* ssd_mma_scan.cuh -- y and dx of ssd's multi-kernel variants on tensor cores; in `bc_fused` with C B^T computed in the
 * block. The scheme of tiles, rings and pivots is in ssd_mma.cuh.
 *
 * A block computes rows of one chunk for two heads: the product of C with the entering state, scaled to the pivot of
 * each warp, plus C B^T times x, tile by tile in the direction of the diagonal. REV computes dx with B, the gradient of
 * states, transposed C B^T and dy. x and dy are read again for D x (REV: D dy, and sums of dD).
 *
 * kernel     chunk_scan_fwd, chunk_scan_chunk_state_bwd_dx   64 MT rows x (2 heads of 64 p) per block
 * launch     grid B K G (Q / 64 MT) ceil(J/2) ceil(P/64), block 256, dynamic smem 3 (8 MT + 16) KB + 32Q
 * kernel     bc_chunk_scan_fwd, bc_chunk_scan_bwd_dx     the same with C B^T inside: 64 rows, PAIRS pairs of heads
 * launch     grid B K G (Q / 64) ceil(J / 2 PAIRS) ceil(P/64), block 256, dynamic smem 8 (6 + N/64 + Q/64) KB + 48Q */
#ifndef MBA_SSD_MMA_SCAN_CUH
#define MBA_SSD_MMA_SCAN_CUH

#include "ops/ssd/baseline/ssd_mma.cuh"

enum { SCAN_STAGES = 3, SCAN_LD = 72 }; /* SCAN_LD: floats per row of the staged output */

/* The output tile of a block: rows r0 .. of chunk c, two heads, 64 columns p. */
struct scan_block {
    int     b, c, g, h0, heads, rt, r0, pt, real;
    int64_t l0;
};

static __device__ __forceinline__ void set_heads(scan_block &k, const tensor_task &a, int pair)
{
    k.h0 = k.g * a.J + 2 * pair;
    k.heads = min(2, a.J - 2 * pair);
}

/* Sets all but the heads from tile number z; the heads of a group are divided into `parts`. Returns the part. */
template <int MT>
static __device__ __forceinline__ int scan_block_of(scan_block &k, const tensor_task &a, unsigned z, int parts)
{
    k.pt = unravel_next(z, a.ptiles);
    const int part = unravel_next(z, parts);
    k.rt = unravel_next(z, a.xtiles);
    k.g = unravel_next(z, a.G);
    k.c = unravel_next(z, a.K);
    k.b = (int)z;
    k.r0 = k.rt * 64 * MT;
    k.real = min(a.Q, a.L - k.c * a.Q);
    k.l0 = (int64_t)k.c * a.Q;
    return part;
}

/* Source of the tiles of a stage: tile u of step i is at at[u] + i * step. It is kept in shared memory, because
 * registers are short. First come C (REV: B) and the states, then C B^T and x (REV: dy). */
struct tile_source {
    const bf16 *at[2];
    int64_t     ld, step;                            /* strides: between rows, between steps */
    int         rows[2], cols, rows_drop, cols_drop; /* valid rows and columns; decrease per step */
};
struct tile_sources {
    tile_source left, right;
};
enum { MAX_CHUNK_ROWS = 512 }; /* limit of the plan; minus this, no row is valid at any step */

template <bool REV>
static __device__ __forceinline__ void set_states(tile_sources &s, const tensor_task &a, const scan_block &k)
{
    const strided<const bf16> &m = REV ? a.bm : a.cm;
    for (int u = 0; u < 2; u++) {
        s.left.at[u] = m.row(k.b, k.l0 + k.r0 + 64 * u, k.g);
        s.left.rows[u] = k.real - k.r0 - 64 * u;
        s.right.at[u] = (REV ? a.dstates : a.states) + state_at(a, k.b, k.c, k.h0 + min(u, k.heads - 1))
                        + (int64_t)k.pt * 64 * a.N;
        s.right.rows[u] = u < k.heads ? a.P - k.pt * 64 : 0;
    }
    s.left.ld = m.axis[1];
    s.right.ld = a.N;
    s.left.step = s.right.step = s.left.cols_drop = s.right.cols_drop = 64;
    s.left.cols = s.right.cols = a.N;
    s.left.rows_drop = s.right.rows_drop = 0;
}

template <bool REV>
static __device__ __forceinline__ void set_sources(tile_sources &s, const tensor_task &a, const scan_block &k)
{
    const strided<const bf16> &v = REV && a.dy.at ? a.dy : a.x;
    const int                  first = REV ? (a.tiles - 1) * 64 : 0, real = REV && !a.dy.at ? 0 : k.real;
    const bf16                *cb = a.cb + cb_index(a, k.b, k.c, k.g);
    for (int u = 0; u < 2; u++) {
        s.left.at[u] = REV ? cb + (int64_t)first * a.Q + k.r0 + 64 * u : cb + (int64_t)(k.r0 + 64 * u) * a.Q;
        s.left.rows[u] = 64;
        s.right.at[u] = v.row(k.b, k.l0 + first, k.h0 + min(u, k.heads - 1)) + k.pt * 64;
        s.right.rows[u] = u < k.heads ? real - first : -MAX_CHUNK_ROWS;
    }
    s.left.ld = a.Q;
    s.left.step = REV ? -64 * (int64_t)a.Q : 64;
    s.right.ld = v.axis[1];
    s.right.step = (REV ? -64 : 64) * v.axis[1];
    s.left.cols = 64;
    s.right.cols = a.P - k.pt * 64;
    s.right.rows_drop = REV ? -64 : 64;
    s.left.rows_drop = s.left.cols_drop = s.right.cols_drop = 0;
}

static __device__ __forceinline__ void scan_load(unsigned char *tile, const tile_source &s, int tiles, int i)
{
#pragma unroll 1
    for (int u = 0; u < tiles; u++)
        load_tile<64, 256>(tile + u * TILE_BYTES, s.at[u] + i * s.step, s.ld, s.rows[u] - i * s.rows_drop,
                           s.cols - i * s.cols_drop);
}

/* cs and dt of both heads, and the factors of sources relative to the pivot of each row of warps. */
struct scan_tables {
    float *cs, *step;
    uint2 *factor;
}; /* (2, Q), (2, Q), (2, 4, Q / 2) */

template <bool REV, int MT>
static __device__ __forceinline__ void scan_factors(const tensor_task &a, const scan_block &k, const scan_tables &t)
{
    const int tid = thread_id_reread(), Q = a.Q;
    for (int i = tid; i < 2 * Q; i += 256) {
        const int64_t at = steps_at(a, k.b, k.h0 + min(i / Q, k.heads - 1), k.c) + i % Q;
        t.cs[i] = a.cs[at];
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

/* Applies a decay per pair to a fragment of C B^T at the diagonal. row: cs of its rows; cs, step: of its columns. */
template <bool REV>
static __device__ __forceinline__ void scale_pairs(uint32_t (&A)[4], const float (&row)[2], const float *cs,
                                                   const float *step)
{
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const float2 c = *(const float2 *)(cs + i / 2 * 8), d = *(const float2 *)(step + i / 2 * 8);
        const float  x = row[i % 2] - c.x, y = row[i % 2] - c.y;
        if (!REV) A[i] = pack(low_of(A[i]) * __expf(fminf(x, 0)) * d.x, high_of(A[i]) * __expf(fminf(y, 0)) * d.y);
        else A[i] = pack(low_of(A[i]) * __expf(fminf(-x, 0)), high_of(A[i]) * __expf(fminf(-y, 0)));
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

/* The pivot of a warp's rows lo ..: cs just before them (REV: of the last of them). */
template <bool REV, int MT> static __device__ __forceinline__ float pivot_of(const float *cs, int lo)
{
    return REV ? cs[lo + 16 * MT - 1] : lo ? cs[lo - 1] : 0;
}

/* Adds one tile of 64 sources (REV: destinations) to the rows lo .. of this warp, which are rows w0 .. of the block. */
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
            else a_rows(A[m], left, at, k);
        }
        if (off) {
            scale_columns(A, factor[s / 2 + t], factor[s / 2 + t + 4]);
            multiply_step(acc, A, right, k);
            continue;
        }
        float row[MT][2];
        for (int m = 0; m < MT; m++)
            for (int r = 0; r < 2; r++) row[m][r] = cs[lo + 16 * m + 8 * r + lane_row()];
        if (s == (REV ? lo + 16 * MT - 16 : lo)) { // first block at the diagonal: rescale from pivot to rows
            const float pivot = pivot_of<REV, MT>(cs, lo);
            float       f[MT][2];
            for (int m = 0; m < MT; m++)
                for (int r = 0; r < 2; r++) f[m][r] = __expf(REV ? pivot - row[m][r] : row[m][r] - pivot);
            scale_rows(acc, f);
        }
        for (int m = 0; m < MT; m++) scale_pairs<REV>(A[m], row[m], cs + s + 2 * t, step + s + 2 * t);
        multiply_step(acc, A, right, k); // C B^T is zero beyond the diagonal
    }
}

/* Column sums over the block from eight values per thread; thread i < 64 gets column i. `red` holds 8 x 64 floats. */
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

/* Stores the output of a head: eight threads per row, eight columns each. REV: also partial sums of dD. */
template <bool REV, int MT>
static __device__ __forceinline__ void scan_store(const tensor_task &a, const scan_block &k, int h, const float *sums,
                                                  float *red)
{
    const int     tid = thread_id_reread(), vector = tid % 8, p = k.pt * 64 + vector * 8;
    const int64_t at = steps_at(a, k.b, h, k.c);
    float         D[8] = {}, cols[8] = {};
    for (int i = 0; i < 8 && a.skip_cols && p < a.P; i++) D[i] = a.skip[a.skip_cols == 1 ? h : h * a.P + p + i];
    for (int r = tid / 8; r < 64 * MT; r += 32) {
        const int  l = k.r0 + r;
        const bool real = l < k.real && p < a.P;
        float      x[8] = {}, dy[8] = {}, o[8];
        if (real) load(x, a.x.row(k.b, k.l0 + l, h) + p);
        if (REV && real && a.dy.at) load(dy, a.dy.row(k.b, k.l0 + l, h) + p);
        const float step = REV ? a.step[at + l] : 1;
        float       sum[2][4];
        for (int i = 0; i < 2; i++) load(sum[i], sums + r * SCAN_LD + vector * 8 + i * 4);
#pragma unroll
        for (int i = 0; i < 8; i++) {
            o[i] = fmaf(step, sum[i / 4][i % 4], D[i] * (REV ? dy[i] : x[i]));
            cols[i] += x[i] * dy[i];
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

/* One output tile. With CB_INSIDE, left_tiles holds the left operands in shared memory, one tile per step: C (REV: B)
 * of the rows, then C B^T. Otherwise they come through the ring. */
template <bool REV, int MT, bool CB_INSIDE>
static __device__ __forceinline__ void chunk_scan(const tensor_task &a, const scan_block &k,
                                                  const unsigned char *left_tiles)
{
    MBA_DYNAMIC_SMEM(smem);
    enum { LEFT = CB_INSIDE ? 0 : MT, STAGE = (LEFT + 2) * TILE_BYTES };
    float                  *table = (float *)(smem + SCAN_STAGES * STAGE);
    const scan_tables       tables = { table, table + 2 * a.Q, (uint2 *)(table + 4 * a.Q) };
    const int               states = (a.N + 63) / 64, steps = states + (REV ? a.tiles - k.r0 / 64 : k.r0 / 64 + MT);
    __shared__ tile_sources from[2];
    __shared__ scan_block   mine; // copy of k for the end: saves registers
    if (threadIdx.x == 0) set_states<REV>(from[0], a, k);
    if (threadIdx.x == 0) mine = k;
    if (threadIdx.x == 32) set_sources<REV>(from[1], a, k);
    __syncthreads();
    auto fetch = [&](int i) {
        if (i < steps) {
            unsigned char      *t = smem + i % SCAN_STAGES * STAGE;
            const tile_sources &s = from[i >= states];
            if (!CB_INSIDE) scan_load(t, s.left, MT, i < states ? i : i - states);
            scan_load(t + LEFT * TILE_BYTES, s.right, 2, i < states ? i : i - states);
        }
        cp_commit();
    };
    /* 1. start the first stages, compute the factors meanwhile */
    for (int i = 0; i < SCAN_STAGES - 1; i++) fetch(i);
    scan_factors<REV, MT>(a, k, tables);
    __syncthreads();
    const int    warp = threadIdx.x / 32, u = warp / 4, wr = warp % 4, w0 = wr * 16 * MT, lo = k.r0 + w0;
    const float *cs = tables.cs + u * a.Q, *step = tables.step + u * a.Q;
    const uint2 *factor = tables.factor + (u * 4 + wr) * (a.Q / 2);
    float        acc[MT][8][4] = {};
    /* 2. multiply: the state, then the tiles of sources, each scaled to the pivot of the warp */
    for (int i = 0; i < steps; i++) {
        cp_wait<SCAN_STAGES - 2>();
        __syncthreads();
        fetch(i + SCAN_STAGES - 1);
        const unsigned char *stage = smem + i % SCAN_STAGES * STAGE, *right = stage + (LEFT + u) * TILE_BYTES,
                            *left = CB_INSIDE ? left_tiles + i * TILE_BYTES : stage;
        if (i < states) {
#pragma unroll 1
            for (int kk = 0; kk < SSD_TILE; kk += 16) {
                uint32_t A[MT][4];
                for (int m = 0; m < MT; m++) a_rows(A[m], left, w0 + 16 * m, kk);
                multiply_step<true>(acc, A, right, kk);
            }
            if (i < states - 1) continue;
            const int64_t at = steps_at(a, mine.b, mine.h0 + min(u, mine.heads - 1), mine.c) + lo;
            const float   pivot = pivot_of<REV, MT>(cs, lo), entering = __expf(REV ? cs[a.Q - 1] - pivot : pivot);
            float         f[MT][2]; // zero where a reset cuts the state off
            for (int m = 0; m < MT; m++)
                for (int r = 0; r < 2; r++)
                    f[m][r] = (REV ? a.out : a.in)[at + 16 * m + 8 * r + lane_row()] > 0 ? entering : 0;
            scale_rows(acc, f);
            continue;
        }
        const int j = REV ? a.tiles - 1 - (i - states) : i - states;
        scan_sources<REV, MT>(acc, left, right, cs, step, factor, j, lo, w0);
    }
    /* 3. store through shared memory */
    __syncthreads();
    const int t = thread_id_reread(), row = (t >> 5 & 3) * 16 * MT + ((t & 31) >> 2);
    float    *sums = (float *)smem + (t >> 7) * 64 * MT * SCAN_LD;
    for_fragments<MT, 8>([&](int m, int n, int r) {
        float *to = sums + (row + 16 * m + 8 * r) * SCAN_LD + n * 8 + 2 * (t & 3);
        *(float2 *)to = make_float2(acc[m][n][2 * r], acc[m][n][2 * r + 1]);
    });
    __syncthreads();
    for (int i = 0; i < mine.heads; i++)
        scan_store<REV, MT>(a, mine, mine.h0 + i, (const float *)smem + i * 64 * MT * SCAN_LD, table);
}

template <bool REV, int MT> static __device__ __forceinline__ void scan_tile(const tensor_task &a, unsigned tile)
{
    scan_block k;
    set_heads(k, a, scan_block_of<MT>(k, a, tile, a.pairs));
    chunk_scan<REV, MT, false>(a, k, NULL);
}

/* What a tile reads of C, the entering state, C B^T and x (REV: B, dstates, C B^T, dy and x). */
template <bool REV, int MT> static __device__ __forceinline__ void prefetch_scan(const tensor_task &a, unsigned tile)
{
    scan_block k;
    set_heads(k, a, scan_block_of<MT>(k, a, tile, a.pairs));
    const strided<const bf16> &m = REV ? a.bm : a.cm;
    const bf16                *cb = a.cb + cb_index(a, k.b, k.c, k.g) + (int64_t)k.r0 * a.Q;
    const int rows = min(64 * MT, k.real - k.r0), end = k.r0 + 64 * MT, cols = min(64, a.P - k.pt * 64);
    prefetch_rows(m.row(k.b, k.l0 + k.r0, k.g), m.axis[1], rows, a.N);
    prefetch_rows(REV ? cb + k.r0 : cb, a.Q, REV ? a.Q - k.r0 : 64 * MT, REV ? 64 * MT : end);
    for (int h = k.h0; h < k.h0 + k.heads; h++) {
        const int64_t at = state_at(a, k.b, k.c, h) + (int64_t)k.pt * 64 * a.N;
        prefetch_rows((REV ? a.dstates : a.states) + at, a.N, cols, a.N);
        prefetch_rows(a.x.row(k.b, k.l0 + (REV ? k.r0 : 0), h) + k.pt * 64, a.x.axis[1], REV ? rows : min(end, k.real),
                      cols);
        if (REV && a.dy.at) prefetch_rows(a.dy.row(k.b, k.l0 + k.r0, h) + k.pt * 64, a.dy.axis[1], k.real - k.r0, cols);
    }
}

template <bool PERSISTENT, int MT>
__global__ void __launch_bounds__(256, 2) chunk_scan_fwd(const __grid_constant__ tensor_task a, unsigned tiles)
{
    for_tiles<PERSISTENT>(a, tiles, [&](unsigned tile, const unsigned *next) {
        if (next) prefetch_scan<false, MT>(a, *next);
        scan_tile<false, MT>(a, tile);
    });
}
template <bool PERSISTENT, int MT>
__global__ void __launch_bounds__(256, 2)
    chunk_scan_chunk_state_bwd_dx(const __grid_constant__ tensor_task a, unsigned tiles)
{
    for_tiles<PERSISTENT>(a, tiles, [&](unsigned tile, const unsigned *next) {
        if (next) prefetch_scan<true, MT>(a, *next);
        scan_tile<true, MT>(a, tile);
    });
}

/* ---- variant `bc_fused`: C B^T is computed in the block ---- */

/* Fills left_tiles: C (REV: B) of the block's 64 rows, one tile per 64 columns of N, then the tiles of C B^T of these
 * rows in the order of the scan, two at a time by four warps each. Ends with a barrier. */
template <bool REV>
static __device__ __forceinline__ void compute_cb(unsigned char *left_tiles, const tensor_task &a, const scan_block &k)
{
    MBA_DYNAMIC_SMEM(smem);
    const strided<const bf16> &mine = REV ? a.bm : a.cm, &other = REV ? a.cm : a.bm;
    const int slabs = (a.N + 63) / 64, count = REV ? a.tiles - k.rt : k.rt + 1, steps = (count + 1) / 2 * slabs;
    const int warp = threadIdx.x / 32, u = warp / 4, m0 = warp / 2 % 2 * 32, n0 = warp % 2 * 32;
    auto      fetch = [&](int i) {
        for (int v = 0; i < steps && v < 2; v++) {
            const int n = i / slabs * 2 + v, row = (REV ? a.tiles - 1 - n : n) * 64, col = i % slabs * 64;
            if (n < count)
                load_tile<64, 256>(smem + (i % SCAN_STAGES * 2 + v) * TILE_BYTES, other.row(k.b, k.l0 + row, k.g) + col,
                                   other.axis[1], k.real - row, a.N - col);
        }
        cp_commit();
    };
    for (int i = 0; i < slabs; i++)
        load_tile<64, 256>(left_tiles + i * TILE_BYTES, mine.row(k.b, k.l0 + k.r0, k.g) + i * 64, mine.axis[1],
                           k.real - k.r0, a.N - i * 64);
    for (int i = 0; i < SCAN_STAGES - 1; i++) fetch(i);
    float acc[2][4][4] = {};
    for (int i = 0; i < steps; i++) {
        const int n = i / slabs * 2 + u, row = (REV ? a.tiles - 1 - n : n) * 64;
        cp_wait<SCAN_STAGES - 2>();
        __syncthreads();
        fetch(i + SCAN_STAGES - 1);
        if (n >= count) continue;
        const unsigned char *t = smem + (i % SCAN_STAGES * 2 + u) * TILE_BYTES,
                            *rows = left_tiles + i % slabs * TILE_BYTES;
        product_of_rows(acc, REV ? t : rows, m0, REV ? rows : t, n0);
        if ((i + 1) % slabs) continue;
        for_fragments<2, 4>([&](int m, int j, int r) {
            const int      l = m0 + 16 * m + 8 * r + lane_row(), s = n0 + 8 * j + 2 * lane_pair();
            const uint32_t two = mask_pair(a, k.b, k.c, (REV ? row : k.r0) + l, (REV ? k.r0 : row) + s,
                                           acc[m][j][2 * r], acc[m][j][2 * r + 1]);
            *(uint32_t *)(left_tiles + (slabs + n) * TILE_BYTES + tile_at(l, s / 8) + lane_pair() * 4) = two;
            acc[m][j][2 * r] = acc[m][j][2 * r + 1] = 0;
        });
    }
    __syncthreads();
}

/* PAIRS pairs of heads share one C B^T. */
template <bool REV, int PAIRS> static __device__ __forceinline__ void bc_scan(const tensor_task &a)
{
    MBA_DYNAMIC_SMEM(smem);
    unsigned char *left_tiles = smem + SCAN_STAGES * 2 * TILE_BYTES + 48 * a.Q;
    scan_block     k;
    const int      part = scan_block_of<1>(k, a, blockIdx.x, (a.pairs + PAIRS - 1) / PAIRS);
    compute_cb<REV>(left_tiles, a, k);
#pragma unroll 1
    for (int pair = part * PAIRS; pair < min(a.pairs, (part + 1) * PAIRS); pair++) {
        set_heads(k, a, pair);
        chunk_scan<REV, 1, true>(a, k, left_tiles);
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

#endif
