// SPDX-License-Identifier: Apache-2.0
/* ssd_fused_mma.cuh -- the chunk scans of ssd's variant `fused_mma`: the algorithm of `fused` with mma.sync, cp.async
 * and ldmatrix, for sm_80 and later. Maths, records, tiles and saved states are those of ssd_fused.cuh.
 *
 * A block has eight warps and two tiles of 64 p x 128 n: two tiles of p of one group (NT = 1), or the two tiles of n of
 * one tile of p (NT = 2, N above 128). A warp keeps 16 rows p of the state in registers, as accumulators of mma.sync,
 * and computes per chunk
 *     Y = H1 C^T + x' (C B^T)^T          H1 += x' B
 * The accumulators of H1, packed to bf16, are the left operand of the first product without any exchange; x' is loaded
 * transposed and scaled in registers. Right operands are tiles in shared memory, in a ring of one or two stages that
 * cp.async fills. The output is transposed in registers and leaves through the tile of x. With NT = 2 both halves of
 * the block compute the share of their tile of n; the first adds them up, adds C B^T and writes the output.
 *
 * A chunk of wide range gets C B^T with a decay per pair, in the memory of C, which has been read by then.
 *
 * kernel     ssd_mma_scan, ssd_mma_scan_rev   work item = (sequence, segment, pair of tiles)
 * kernel     ssd_mma_states, .._rev           the state that a part of a segment adds: the same loop without output
 * launch     grid min(items, SMs), block 256, dynamic smem stages x (57 to 89 KB) + 2 KB
 * moves      per chunk and pair of tiles: x 16 KB in, y 16 KB out, B, C and C B^T 40 KB from L2
 * takes      sm_80, bf16, P and N up to 256, rows aligned to 16 bytes (others are padded first: ssd_tiled_pad.cuh)
 * resources  see the plan (ssd_fused.c)
 * order      fixed: chunks in sequence, parts of segments in sequence */
#ifndef MBA_SSD_FUSED_MMA_CUH
#define MBA_SSD_FUSED_MMA_CUH

#include "ops/ssd/fused/ssd_fused_items.cuh"

enum { SCAN_STATES = SCAN_SAVE + 1 }; /* a further scan_what: the state of a part of a segment */
enum { MMA_THREADS = 128 * HEADS };

/* Operands of a scan under the names of scan_maps; rows and cols bound k and u. */
struct mma_operands {
    strided<const bf16> x, k, u, other;
    strided<bf16>       y;
    int                 rows, cols;
    int                 stages, state_pairs; /* stages of the ring; ssd_mma_states: pairs of tiles per block */
};

/* A stage: places of tiles, then the records. */
template <bool REV, int WHAT, int NT> struct mma_stage {
    enum { OUT = has_output(WHAT), X_TILES = NT == 2 ? 1 : 2 };
    enum { U = 0, K = 2 * NT, CB = K + (OUT ? 2 * NT : 0), X_AT = CB + OUT, OTHER = X_AT + X_TILES };
    enum { TILES = OTHER + (REV && OUT ? X_TILES : 0), RECORDS = TILES * TILE_BYTES };
    enum { BYTES = RECORDS + X_TILES * REC * 4 };
};

template <bool REV, int WHAT, int NT> struct mma_scan {
    typedef mma_stage<REV, WHAT, NT> stage;
    enum { OUT = has_output(WHAT), SAVES = WHAT != SCAN_STATES && saves_states(WHAT, REV) };
    const fused_task   &a;
    const mma_operands &o;
    unsigned char      *smem;
    float              *partial;             /* REV: (2 tiles, 4 warps, 64) partial sums of src */
    int                 wg, warp, lane, t4;  /* the tile of the block, the warp in it */
    int                 b, pair, c0, chunks; /* the chunks to process; pair of tiles */
    int                 my_head, my_p;       /* of this thread's tile: head of the operator, first p in it */
    const bf16         *from_u, *from_k, *from_cb, *from_x[2], *from_other[2]; /* what fetch() copies next */
    const float        *from_record;
    bf16               *to_y;              /* where write_output() writes next */
    int                 rows, x_cols[2];   /* rows from this thread's first on; columns of the tiles of x */
    float               h[16][4], y[8][4]; /* 16 p x 128 n; 16 p x 64 positions */
    uint32_t            x[4][4];           /* x', left operands */
    float               pending_log_decay, D[2], dD[2];

    __device__ __forceinline__ mma_scan(const fused_task &task, const mma_operands &operands, unsigned char *memory)
        : a(task), o(operands), smem(memory), partial((float *)(memory + operands.stages * stage::BYTES)),
          wg((int)threadIdx.x >> 7), warp((int)threadIdx.x >> 5 & 3), lane((int)threadIdx.x & 31),
          t4((int)threadIdx.x & 3)
    {
    }

    __device__ __forceinline__ int tile() const { return pair * HEADS + wg; }
    __device__ __forceinline__ int row(int q) const { return 16 * warp + (lane >> 2) + 8 * q; }
    /* NT = 2: x, record and output are those of the one tile of p. */
    __device__ __forceinline__ int  mine() const { return NT == 2 ? 0 : wg; }
    __device__ __forceinline__ int  width() const { return (a.P + 7) & ~7; }
    __device__ __forceinline__ bool in_head(int p, int n) const
    {
        return my_head < a.heads && my_p + p < a.P && tile_n<NT>(tile()) + n < a.N;
    }

    __device__ __forceinline__ void set_item(int sequence, int tiles, int first, int count)
    {
        b = sequence;
        pair = tiles;
        c0 = first;
        chunks = count;
        my_head = head_of_tile<NT>(a, tile());
        my_p = tile_p<NT>(a, tile());
        set_sources(REV ? c0 + chunks - 1 : c0);
        pending_log_decay = 0;
#pragma unroll
        for (int j = 0; j < 16; j++)
#pragma unroll
            for (int i = 0; i < 4; i++) h[j][i] = 0;
    }

    /* Sets the addresses of this thread's vectors of chunk c: rows r and r + 32 of every tile. fetch() advances them,
     * so that the loop over chunks multiplies nothing to find them. */
    __device__ __forceinline__ void set_sources(int c)
    {
        const int     g = pair * HEADS / a.J, l = c * FQ + ((int)threadIdx.x >> 3), col = ((int)threadIdx.x & 7) * 8;
        const int     which = stage::X_TILES == 2 && threadIdx.x >= REC / 4 ? 1 : 0; // tile whose record it copies
        const int64_t z = ((int64_t)b * a.K + c) * a.G + g;
        from_u = o.u.row(b, l, g) + col;
        from_k = o.k.row(b, l, g) + col;
        from_cb = a.cb + z * FQ * FQ + (int)threadIdx.x * 8;
#pragma unroll
        for (int i = 0; i < stage::X_TILES; i++) {
            const int head = head_of_tile<NT>(a, pair * HEADS + i), p = tile_p<NT>(a, pair * HEADS + i);
            from_x[i] = o.x.row(b, l, head) + p + col;
            from_other[i] = o.other.row(b, l, head) + p + col;
            x_cols[i] = head < a.heads ? width() - p - col : 0;
        }
        const int64_t record = (int64_t)b * a.heads + record_head<NT>(a, pair * HEADS + which);
        from_record = (REV ? a.rec_rev : a.rec) + (record * a.K + c) * REC + ((int)threadIdx.x - which * (REC / 4)) * 4;
        rows = a.L - l;
        to_y = o.y.row(b, c * FQ + (lane >> 1), my_head) + my_p + 16 * warp + 8 * (lane & 1);
    }
    /* Copies two vectors of a tile and advances to the next chunk. */
    static __device__ __forceinline__ void copy(unsigned char *to, const bf16 *from, int64_t step, int rows, bool col)
    {
        cp_async16(to, from, rows > 0 && col);
        cp_async16(to + FQ / 2 * TILE_ROW_BYTES, from + FQ / 2 * step, rows > FQ / 2 && col);
    }
    /* Starts the copies of the next chunk into stage `to`. */
    __device__ __forceinline__ void fetch(unsigned char *to)
    {
        constexpr int  AHEAD = REV ? -FQ : FQ;
        const int      real = rows + (o.rows - a.L), col = ((int)threadIdx.x & 7) * 8;
        unsigned char *at = to + tile_at((int)threadIdx.x >> 3, (int)threadIdx.x & 7);
#pragma unroll
        for (int j = 0; j < 2 * NT; j++) {
            copy(at + (stage::U + j) * TILE_BYTES, from_u + 64 * j, o.u.axis[1], real, col + 64 * j < o.cols);
            if (OUT) copy(at + (stage::K + j) * TILE_BYTES, from_k + 64 * j, o.k.axis[1], real, col + 64 * j < o.cols);
        }
        if (OUT) copy(at + stage::CB * TILE_BYTES, from_cb, FQ, FQ, true);
#pragma unroll
        for (int i = 0; i < stage::X_TILES; i++) {
            copy(at + (stage::X_AT + i) * TILE_BYTES, from_x[i], o.x.axis[1], rows, x_cols[i] > 0);
            if (REV && OUT)
                copy(at + (stage::OTHER + i) * TILE_BYTES, from_other[i], o.other.axis[1], rows, x_cols[i] > 0);
            from_x[i] += AHEAD * o.x.axis[1];
            from_other[i] += AHEAD * o.other.axis[1];
        }
        if (threadIdx.x < stage::X_TILES * REC / 4)
            cp_async16(to + stage::RECORDS + threadIdx.x * 16, from_record, true);
        from_u += AHEAD * o.u.axis[1];
        from_k += AHEAD * o.k.axis[1];
        from_cb += (REV ? -FQ * FQ : FQ * FQ) * (int64_t)a.G;
        from_record += REV ? -REC : REC;
        rows -= AHEAD;
    }

    /* Decays H to H1, the state under the pivot of a chunk; `last` is the tail of the chunk's record. */
    __device__ __forceinline__ void decay_to_pivot(const float4 &last)
    {
        float factor = __expf(last.x + pending_log_decay);
        if (last.x + pending_log_decay < -80) { // exp of the sum underflows; H does not
            factor = __expf(pending_log_decay);
#pragma unroll
            for (int j = 0; j < 16; j++)
#pragma unroll
                for (int i = 0; i < 4; i++) h[j][i] *= factor;
            factor = __expf(last.x);
        }
        pending_log_decay = last.y;
#pragma unroll
        for (int j = 0; j < 16; j++)
#pragma unroll
            for (int i = 0; i < 4; i++) h[j][i] *= factor;
    }
    /* H1 of 16 n as a left operand. */
    __device__ __forceinline__ void packed(uint32_t (&A)[4], int k) const
    {
#pragma unroll
        for (int j = 0; j < 4; j++) A[j] = pack(h[2 * k + j / 2][j % 2 * 2], h[2 * k + j / 2][j % 2 * 2 + 1]);
    }
    /* Y = H1 C^T. */
    __device__ __forceinline__ void state_term(const unsigned char *k_tiles)
    {
#pragma unroll
        for (int j = 0; j < 8; j++)
#pragma unroll
            for (int i = 0; i < 4; i++) y[j][i] = 0;
#pragma unroll
        for (int k = 0; k < 8; k++) {
            uint32_t A[4];
            packed(A, k);
#pragma unroll
            for (int j = 0; j < 4; j++) {
                uint32_t B[4];
                b_rows(B, k_tiles + (k >> 2) * TILE_BYTES, 16 * j, 16 * (k & 3));
                mma(y[2 * j], A, B[0], B[1]);
                mma(y[2 * j + 1], A, B[2], B[3]);
            }
        }
    }
    /* Saves H1 for the backward pass, in the column order of ssd_fused_pairs.cuh. */
    __device__ __forceinline__ void save_state(int c) const
    {
        uint4 *to = (uint4 *)(REV ? a.saved_rev : a.saved)
                    + ((((int64_t)b * a.H + tile()) * (a.K / 2) + (c >> 1)) * FP + row(0)) * 16 + t4;
#pragma unroll
        for (int k = 0; k < 8; k += 2) {
            uint32_t A[4], B[4];
            packed(A, k);
            packed(B, k + 1);
            to[2 * k] = make_uint4(A[0], A[2], B[0], B[2]);
            to[2 * k + 8 * 16] = make_uint4(A[1], A[3], B[1], B[3]);
        }
    }
    /* Y += x' (C B^T)^T; REV: Y += dy' C B^T. Blocks beyond the diagonal are zero. */
    __device__ __forceinline__ void cb_term(const unsigned char *cb)
    {
#pragma unroll
        for (int k = 0; k < 4; k++)
#pragma unroll
            for (int j = REV ? 0 : k; j < (REV ? k + 1 : 4); j++) {
                uint32_t B[4];
                if (REV) b_columns(B, cb, 16 * j, 16 * k);
                else b_rows(B, cb, 16 * j, 16 * k);
                mma(y[2 * j], x[k], B[0], B[1]);
                mma(y[2 * j + 1], x[k], B[2], B[3]);
            }
    }
    /* H1 += x' B. */
    __device__ __forceinline__ void update(const unsigned char *u_tiles)
    {
#pragma unroll
        for (int k = 0; k < 4; k++)
#pragma unroll
            for (int j = 0; j < 8; j++) {
                uint32_t B[4];
                b_columns(B, u_tiles + (j >> 2) * TILE_BYTES, 16 * (j & 3), 16 * k);
                mma(h[2 * j], x[k], B[0], B[1]);
                mma(h[2 * j + 1], x[k], B[2], B[3]);
            }
    }

    __device__ __forceinline__ void load_x(const unsigned char *tile_of_x)
    {
#pragma unroll
        for (int k = 0; k < 4; k++) a_columns(x[k], tile_of_x, 16 * warp, 16 * k);
    }
    /* x = x', rounded to bf16. */
    __device__ __forceinline__ void scale(const float *rec)
    {
#pragma unroll
        for (int k = 0; k < 4; k++) {
            const uint2 hi = *(const uint2 *)(rec + 64 + 8 * t4 + 2 * k),
                        lo = *(const uint2 *)(rec + 96 + 8 * t4 + 2 * k);
#pragma unroll
            for (int j = 0; j < 4; j++) x[k][j] = times(x[k][j], j < 2 ? hi.x : hi.y, j < 2 ? lo.x : lo.y);
        }
    }

    /* ---- a chunk of wide range (ssd_fused_group.cuh has the same by wgmma) ---- */

    /* Writes C B^T times exp(cs_l - cs_s) to `to`, by the 128 threads of a tile. */
    __device__ __forceinline__ void decay_cb(unsigned char *to, const unsigned char *cb, const float *cs) const
    {
#pragma unroll 1
        for (int i = (int)threadIdx.x & 127; i < FQ * FQ / 2; i += 128) {
            const int      l = i >> 5, q = i & 31, at = tile_at(l, q >> 2) + (q & 3) * 4;
            const uint32_t v = *(const uint32_t *)(cb + at);
            const float    cl = record_value(cs, l);
            *(uint32_t *)(to + at) = pack(low_of(v) * __expf(fminf(cl - record_value(cs, 2 * q), 0)),
                                          high_of(v) * __expf(fminf(cl - record_value(cs, 2 * q + 1), 0)));
        }
    }
    /* Y *= decay since the chunk began (REV: until it ends). */
    __device__ __forceinline__ void decay_rows(const float *cs, float all)
    {
#pragma unroll
        for (int j = 0; j < 8; j++) {
            const float u = record_value(cs, 8 * j + 2 * t4), v = record_value(cs, 8 * j + 2 * t4 + 1);
            const float d0 = __expf(REV ? all - u : u), d1 = __expf(REV ? all - v : v);
            y[j][0] *= d0;
            y[j][1] *= d1;
            y[j][2] *= d0;
            y[j][3] *= d1;
        }
    }
    /* x = dt x for C B^T, or with TO_END decayed until the chunk ends, for the state (REV: dy, decayed since it
     * began). */
    template <bool TO_END> __device__ __forceinline__ void scale_wide_range(const float *rec, float all)
    {
#pragma unroll
        for (int k = 0; k < 4; k++)
#pragma unroll
            for (int q = 0; q < 2; q++) {
                const int    at = t4 * 16 + k * 4 + q * 2;
                const float2 cs = *(const float2 *)(rec + at), dt = *(const float2 *)(rec + 64 + at);
                const float  f0 = (REV ? 1 : dt.x) * (TO_END ? __expf(REV ? cs.x : all - cs.x) : 1);
                const float  f1 = (REV ? 1 : dt.y) * (TO_END ? __expf(REV ? cs.y : all - cs.y) : 1);
#pragma unroll
                for (int j = 2 * q; j < 2 * q + 2; j++) x[k][j] = pack(low_of(x[k][j]) * f0, high_of(x[k][j]) * f1);
            }
    }

    /* ---- output ---- */

    /* REV: <x', gradient of x'> of this thread's rows for 16 positions, and dD; v: the gradients, e: their scale. x' is
     * rounded as in ssd_mma_bc, so that both sums cancel there. */
    __device__ __forceinline__ void source_sums(float *src, const float (&v)[8], const float4 &e,
                                                const uint32_t (&dy)[4], const unsigned char *x_tile, int k)
    {
        uint32_t s[4];
        a_columns(s, x_tile, 16 * warp, 16 * k);
#pragma unroll
        for (int j = 0; j < 4; j++) dD[j & 1] += low_of(s[j]) * low_of(dy[j]) + high_of(s[j]) * high_of(dy[j]);
        const uint2 f0 = split(e.x, e.y), f1 = split(e.z, e.w);
#pragma unroll
        for (int j = 0; j < 4; j++) s[j] = times(s[j], j < 2 ? f0.x : f1.x, j < 2 ? f0.y : f1.y);
        src[0] = low_of(s[0]) * v[0] + low_of(s[1]) * v[2];
        src[1] = high_of(s[0]) * v[1] + high_of(s[1]) * v[3];
        src[2] = low_of(s[2]) * v[4] + low_of(s[3]) * v[6];
        src[3] = high_of(s[2]) * v[5] + high_of(s[3]) * v[7];
    }
    /* One step of a reduce-scatter of 16 sums over the eight lanes that share positions: each lane keeps KEPT. */
    template <int KEPT, int BIT> __device__ __forceinline__ void reduce_scatter(float (&src)[16]) const
    {
#pragma unroll
        for (int i = 0; i < KEPT; i++) src[i] = fold(src[i], src[i + KEPT], BIT);
    }
    /* y = out Y + D x in bf16, transposed, into the tile of x, of which this warp has 32 bytes per row; then to memory,
     * a sector per row. */
    __device__ __forceinline__ void write_output(unsigned char *at, int c)
    {
        const float   *rec = (const float *)(at + stage::RECORDS) + mine() * REC;
        unsigned char *tile_of_x = at + (stage::X_AT + mine()) * TILE_BYTES;
        const bool     wide = (int)rec[REC_FLAGS] & IS_WIDE_RANGE;
        float          src[16];
        load_x(tile_of_x); // all loads before the first store: latency is the cost
        __syncwarp();
#pragma unroll
        for (int k = 0; k < 4; k++) {
            const float v[8] = { y[2 * k][0],     y[2 * k][1],     y[2 * k][2],     y[2 * k][3],
                                 y[2 * k + 1][0], y[2 * k + 1][1], y[2 * k + 1][2], y[2 * k + 1][3] };
            float4      e = *((const float4 *)rec + (REV && wide ? 16 : 0) + 4 * t4 + k);
            if (!REV && wide) e = make_float4(1, 1, 1, 1);
            if (REV) source_sums(src + 4 * k, v, e, x[k], at + (stage::OTHER + mine()) * TILE_BYTES, k);
#pragma unroll
            for (int j = 0; j < 4; j++) {
                const float    e0 = j < 2 ? e.x : e.z, e1 = j < 2 ? e.y : e.w;
                const uint32_t w = pack(v[2 * j] * e0 + D[j & 1] * low_of(x[k][j]),
                                        v[2 * j + 1] * e1 + D[j & 1] * high_of(x[k][j]));
                *(uint32_t *)(tile_of_x + tile_at(16 * k + 8 * (j >> 1) + (lane >> 2), 2 * warp + (j & 1))
                              + 4 * t4) = transpose_8x8(w);
            }
        }
        __syncwarp();
        const bool real = my_head < a.heads && my_p + 16 * warp + 8 * (lane & 1) < width();
        const int  count = real ? a.L - c * FQ - (lane >> 1) : 0;
        uint4      out[4];
#pragma unroll
        for (int i = 0; i < 4; i++)
            out[i] = *(const uint4 *)(tile_of_x + tile_at(16 * i + (lane >> 1), 2 * warp + (lane & 1)));
#pragma unroll
        for (int i = 0; i < 4; i++)
            if (16 * i < count) *(uint4 *)(to_y + 16 * i * o.y.axis[1]) = out[i];
        to_y += (REV ? -FQ : FQ) * o.y.axis[1];
        if (!REV) return;
        reduce_scatter<8, 16>(src);
        reduce_scatter<4, 8>(src);
        reduce_scatter<2, 4>(src);
        *(float2 *)(partial + (wg * 4 + warp) * FQ + 2 * lane) = make_float2(src[0], src[1]);
    }
    /* REV: stores <x', gradient of x'> of the chunk's positions, the sum over the four warps. */
    __device__ __forceinline__ void store_sources(int c) const
    {
        const int    l = (int)threadIdx.x & 127;
        const float *from = partial + wg * 4 * FQ + l;
        if (l < FQ)
            a.src[(((int64_t)b * a.H + tile()) * a.K + c) * FQ + l] = from[0] + from[FQ] + from[2 * FQ] + from[3 * FQ];
    }
    /* NT = 2: adds the second tile's share of Y to the first one's, through the memory of C. */
    __device__ __forceinline__ void add_tiles(float *through)
    {
        float *at = through + ((int)threadIdx.x & 127);
        __syncthreads(); // C has been read
#pragma unroll
        for (int i = 0; i < 32; i++)
            if (wg == 1) at[i * 128] = y[i >> 2][i & 3];
        __syncthreads();
#pragma unroll
        for (int i = 0; i < 32; i++)
            if (wg == 0) y[i >> 2][i & 3] += at[i * 128];
    }

    /* ---- the loop ---- */

    /* A reset drops the state that came before it. The asm keeps this a branch: resets are rare. */
    __device__ __forceinline__ void drop_state()
    {
        asm volatile("");
#pragma unroll
        for (int j = 0; j < 16; j++)
#pragma unroll
            for (int i = 0; i < 4; i++) h[j][i] = 0;
    }
    /* The products of a chunk of which this or the other tile has wide range. */
    __device__ __forceinline__ void wide_range_products(unsigned char *at, const float *rec, const float4 &last)
    {
        const bool     wide = (int)last.z & IS_WIDE_RANGE;
        unsigned char *cb = at + stage::CB * TILE_BYTES, *decayed = at + (stage::K + wg) * TILE_BYTES;
        const float    decay = wide ? __expf(last.w) : 1;
        if (OUT) {
            state_term(at + (stage::K + (NT == 2 ? 2 * wg : 0)) * TILE_BYTES);
            __syncthreads(); // C has been read
            if (wide) decay_cb(decayed, cb, rec);
            __syncthreads();
            if (wide) decay_rows(rec, last.w);
            if (wide) scale_wide_range<false>(rec, last.w);
            else scale(rec);
            if (NT == 1 || wg == 0) cb_term(wide ? decayed : cb);
            load_x(at + (stage::X_AT + mine()) * TILE_BYTES);
        }
        if (wide) scale_wide_range<true>(rec, last.w);
        else scale(rec);
#pragma unroll
        for (int j = 0; j < 16; j++)
#pragma unroll
            for (int i = 0; i < 4; i++) h[j][i] *= decay;
        if ((int)last.z & HAS_RESET) drop_state();
        update(at + (stage::U + (NT == 2 ? 2 * wg : 0)) * TILE_BYTES);
    }
    /* One chunk. Returns the log decay across it, -inf if a reset drops what came before. */
    __device__ __forceinline__ float process_chunk(unsigned char *at, int c)
    {
        const float *records = (const float *)(at + stage::RECORDS), *rec = records + mine() * REC;
        const float4 last = *(const float4 *)(rec + REC_BEFORE);
        const int    flags = (int)records[REC_FLAGS] | (int)records[(stage::X_TILES - 1) * REC + REC_FLAGS];
        decay_to_pivot(last);
        if (SAVES && (c & 1) == REV) save_state(c);
        load_x(at + (stage::X_AT + mine()) * TILE_BYTES);
        if (flags & IS_WIDE_RANGE) {
            wide_range_products(at, rec, last);
        } else {
            if (OUT) state_term(at + (stage::K + (NT == 2 ? 2 * wg : 0)) * TILE_BYTES);
            scale(rec);
            if (OUT && (NT == 1 || wg == 0)) cb_term(at + stage::CB * TILE_BYTES);
            if ((int)last.z & HAS_RESET) drop_state();
            update(at + (stage::U + (NT == 2 ? 2 * wg : 0)) * TILE_BYTES);
        }
        if (OUT && NT == 2) add_tiles((float *)(at + (stage::K + 2) * TILE_BYTES));
        if (OUT && (NT == 1 || wg == 0)) write_output(at, c);
        if (OUT && REV) {
            __syncthreads();
            if (NT == 1 || wg == 0) store_sources(c);
        }
        return (int)last.z & HAS_RESET ? -INFINITY : last.w;
    }
    /* All chunks; returns the log decay across them. */
    __device__ __forceinline__ float process_chunks()
    {
        const bool two = o.stages > 1;
        float      total = 0;
        __syncthreads(); // the previous item has been read
        fetch(smem);
        cp_commit();
#pragma unroll 1
        for (int i = 0; i < chunks; i++) {
            const int      c = REV ? c0 + chunks - 1 - i : c0 + i;
            unsigned char *now = smem + (two && (i & 1) ? stage::BYTES : 0);
            cp_wait<0>();
            __syncthreads(); // the copies of all threads have arrived, and the other stage has been read
            if (two && i + 1 < chunks) fetch(smem + (i & 1 ? 0 : stage::BYTES));
            cp_commit();
            const float decay = process_chunk(now, c);
            total = decay > -INFINITY ? total + decay : decay;
            if (two || i + 1 == chunks) continue;
            __syncthreads();
            fetch(smem);
            cp_commit();
        }
        return total;
    }

    /* ---- initial and final states ---- */

    /* Sets H: the operator's initial state (REV: gradient of the final one), decayed, plus earlier segments. */
    __device__ __forceinline__ void load_initial_state(int seg)
    {
        const strided<const float> &from = REV ? a.dfinal : a.initial;
        const int                   all = a.segments * a.parts, count = (REV ? a.segments - 1 - seg : seg) * a.parts;
        if (from.at)
#pragma unroll
            for (int j = 0; j < 16; j++)
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    const int p = row(i >> 1), n = 8 * j + 2 * t4 + (i & 1);
                    if (in_head(p, n)) h[j][i] = from.row(b, my_head, my_p + p)[tile_n<NT>(tile()) + n];
                }
#pragma unroll 1
        for (int k = 0; k < count; k++) {
            const int64_t at = ((int64_t)b * a.H + tile()) * all + (REV ? all - 1 - k : k);
            const float   d = __expf(a.seg_decay[at]), *state = a.seg_state + at * FP * FN + ((int)threadIdx.x & 127);
#pragma unroll
            for (int i = 0; i < 64; i++) h[i >> 2][i & 3] = h[i >> 2][i & 3] * d + state[i * 128];
        }
    }
    __device__ __forceinline__ void store_final_state() const
    {
        const strided<float> &to = REV ? a.dinitial : a.final;
        const float           f = __expf(pending_log_decay);
        const bool            adds = REV && a.adds[DINITIAL];
        if (!to.at) return;
#pragma unroll
        for (int j = 0; j < 16; j++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const int p = row(i >> 1), n = 8 * j + 2 * t4 + (i & 1);
                if (!in_head(p, n)) continue;
                float *e = to.row(b, my_head, my_p + p) + tile_n<NT>(tile()) + n;
                *e = h[j][i] * f + (adds ? *e : 0);
            }
    }
    /* Stores the state of a part of a segment and the log decay across it. */
    __device__ __forceinline__ void store_part(int seg, int part, float total) const
    {
        const int64_t at = (((int64_t)b * a.H + tile()) * a.segments + seg) * a.parts + part;
        const float   f = __expf(pending_log_decay);
        float        *to = a.seg_state + at * FP * FN + ((int)threadIdx.x & 127);
#pragma unroll
        for (int i = 0; i < 64; i++) to[i * 128] = h[i >> 2][i & 3] * f;
        if (((int)threadIdx.x & 127) == 0) a.seg_decay[at] = total;
    }
    __device__ __forceinline__ void load_skip()
    {
        for (int q = 0; q < 2; q++) {
            const int h0 = min(my_head, a.heads - 1), p = my_p + row(q);
            D[q] = !a.skip_cols ? 0 : a.skip_cols == 1 ? a.skip[h0] : p < a.P ? a.skip[h0 * a.P + p] : 0;
            dD[q] = 0;
        }
    }
    /* REV: stores this item's partial sum of dD; with NT = 2 the first tile has all of it. */
    __device__ __forceinline__ void store_skip_sums(int seg)
    {
        float *to = a.dD + (((int64_t)b * a.segments + seg) * a.H + tile()) * FP;
#pragma unroll
        for (int q = 0; q < 2; q++) {
            dD[q] += __shfl_xor_sync(0xffffffffu, dD[q], 1);
            dD[q] += __shfl_xor_sync(0xffffffffu, dD[q], 2);
            if (t4 == 0) to[row(q)] = dD[q];
        }
    }
};

template <bool REV, int WHAT, int NT>
static __device__ __forceinline__ void mma_scan_run(const fused_task &a, const mma_operands &o)
{
    MBA_DYNAMIC_SMEM(smem);
    mma_scan<REV, WHAT, NT> w(a, o, smem);
    for (int n = 0; block_item_index(n) < a.items; n++) {
        const scan_item it = item_of(a, block_item_index(n));
        w.set_item(it.b, it.pair, it.c0, it.chunks);
        w.load_skip();
        w.load_initial_state(it.seg);
        w.process_chunks();
        if (w.OUT && it.seg == (REV ? 0 : a.segments - 1)) w.store_final_state();
        if (w.OUT && REV) w.store_skip_sums(it.seg);
    }
}

/* A block of ssd_mma_states: a part of a segment for `state_pairs` pairs of tiles. The last segment of a sequence (REV:
 * the first) has none, as nothing follows it. */
template <bool REV, int NT>
static __device__ __forceinline__ void mma_states_run(const fused_task &a, const mma_operands &o)
{
    MBA_DYNAMIC_SMEM(smem);
    mma_scan<REV, SCAN_STATES, NT> w(a, o, smem);
    unsigned                       z = blockIdx.x;
    const int                      per = (a.per_segment + a.parts - 1) / a.parts;
    const int pairs = unravel_next(z, a.H / HEADS / o.state_pairs), part = unravel_next(z, a.parts),
              seg = unravel_next(z, a.segments - 1) + (REV ? 1 : 0), b = (int)z, c0 = seg * a.per_segment + part * per;
    for (int i = 0; i < o.state_pairs; i++) {
        w.set_item(b, pairs * o.state_pairs + i, c0, min(min(per, a.per_segment - part * per), a.K - c0));
        w.store_part(seg, part, w.process_chunks());
    }
}

#endif
