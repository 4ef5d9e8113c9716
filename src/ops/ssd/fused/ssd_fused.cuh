// SPDX-License-Identifier: Apache-2.0
/* ssd_fused.cuh -- ssd, variant `fused`, for Hopper: the maths, the record of a chunk and the arguments of all kernels.
 *
 * One scan over the chunks with the state in registers computes y forward in time and, with x and dy, B and C
 * exchanged, dx backward in time. P = 64, N = 128, chunks of 64 tokens, bf16 operands, fp32 accumulators. Other P and N
 * are tiles of these (ssd_tiled.cuh).
 *
 * Factored decay. In a chunk with log decays cs_l, total a, and a pivot m in the middle of their range:
 *     e_l = exp(cs_l - m)    f_s = dt_s exp(m - cs_s)    x'_s = f_s x_s    H1 = exp(m) H
 *     y_l = e_l ( H1 C_l + sum_{s<=l} (C_l . B_s) x'_s ) + D x_l        H_next = exp(a - m) ( H1 + sum_s x'_s B_s^T )
 * Hence C B^T is the same for all heads of a group (computed once, bf16), no exponential per pair of tokens remains,
 * and the left operands of all products, H1 and x' with rows p, stay in registers. A wide-range chunk, whose log decays
 * span more than RANGE_MAX, has a decay per pair instead. A reset is a zero in C B^T, in a copy of C for the state term
 * (rows that the state does not reach) and in a copy of B for the update (rows that do not reach the end of the chunk),
 * and drops the old state.
 *
 * Forward:  ssd_prep (ssd_fused_prep.cuh: C B^T, factors); ssd_states where sequences are segmented
 *           (ssd_fused_states.cuh); ssd_scan (ssd_fused_scan.cuh; chunk loop ssd_fused_consumer.cuh, warpgroup
 *           ssd_fused_group.cuh, work list and producer ssd_fused_items.cuh).
 * Backward: the forward's states, saved or recomputed; ssd_scan_rev (dx), ssd_bwd_slow (ssd_fused_slow.cuh), ssd_bwd_bc
 *           (ssd_fused_bc.cuh: dB, dC), ssd_finish and ssd_sums (ssd_fused_sums.cuh: ddt, parameters).
 * Launchers: ssd_fused_cuda.cu and ssd_tiled.cuh, arguments: ssd_fused_task.cuh, plans: ssd_fused.c and ssd_split.c. */
#ifndef MBA_SSD_FUSED_CUH
#define MBA_SSD_FUSED_CUH

#include "device/cuda/hopper.cuh"
#include "ops/ssd/ssd_task.cuh"

enum { FP = 64, FN = 128, FQ = 64 };       /* P, N, chunk */
enum { HEADS = 2 };                        /* heads per block: one consumer warpgroup each */
enum { TILE_BYTES = FQ * TILE_ROW_BYTES }; /* 64 positions x 64 bf16 */
enum { IS_WIDE_RANGE = 1, HAS_RESET = 2 }; /* flags of a (chunk, head) */
static constexpr float RANGE_MAX = 140.0f; /* the pivot bounds e and f / dt by e^70, which bf16 holds */
/* A contribution to the state that later decays multiply by less than e^-88 is dropped: that factor is denormal. */
static constexpr float LOG_DECAY_MIN = -88.0f;

/* The record of a (sequence, head, chunk): 132 words in the order of the fragments; position l = 16 k + 8 j + 2 t + i:
 *   word t*16 + k*4 + j*2 + i     scale of the output (e; reverse f), fp32
 *   word 64 + t*8 + k*2 + j       scale of x (f; reverse e) for positions l and l + 1, rounded to bf16
 *   word 96 + t*8 + k*2 + j       the residuals of these two roundings, bf16
 *   words 128 ..                  log factor of the state before the chunk (m; reverse a - m), after it (a - m; reverse
 *                                 m); flags; a
 * Wide-range chunk: words 0..63 cs, 64..127 dt, fp32 in the first order; words 128 and 129 zero.
 * The plain record, for ssd_bwd_bc: e[64], f[64], m, a - m, flags, a. */
enum { REC = SSD_RECORD, REC_BEFORE = 128, REC_AFTER, REC_FLAGS, REC_ALL };
/* The value of position l, fp32 in the first order. */
static __device__ __forceinline__ float record_value(const float *v, int l)
{
    return v[((l >> 1) & 3) * 16 + (l >> 4) * 4 + ((l >> 3) & 1) * 2 + (l & 1)];
}

/* Arguments of every kernel of `fused`. */
struct fused_task {
    int                  B, L, H, G, J, K;             /* J heads per group, K chunks of 64 per sequence */
    int                  segments, per_segment, items; /* segments per sequence, chunks per segment, work items */
    int                  parts;                        /* parts per segment; ssd_states computes one state for each */
    int                  skip_cols;                    /* columns of D: 0, 1 or P */
    float                dt_min, dt_max;
    bool                 adds[DINITIAL + 1];
    strided<const bf16>  x, dt, bm, cm, dy;
    strided<bf16>        ddt, dbm, dcm;
    strided<const int>   ids;
    strided<const float> initial, dfinal; /* rows (b, h, p) */
    strided<float>       final, dinitial;
    const float         *A_log, *skip, *bias;
    float               *dA_log, *dskip, *dbias;
    /* scratch */
    float    *rec, *rec_rev, *rec_plain; /* (B, H, K, REC) */
    bf16     *cb;                        /* (B, K, G, 64, 64) */
    bf16     *cb_low;                    /* (B, K/2, G, 64, 64): C of odd chunks, B of the chunk before */
    bf16     *b_end, *c_begin;           /* with ids: (B, K 64, G, N), B and C masked by resets */
    float    *seg_state, *seg_decay;     /* (B, H, segments, parts, 64, 128 threads); (B, .., parts) */
    int      *state_ready;               /* split kernels: (states, 2), warps that have published */
    int       states;                    /* split kernels: seg_state is (states, 2 heads, ..) */
    uint32_t *saved, *saved_rev;         /* (B, H, K/2, 64, N) bf16, columns in register order */
    float    *src;                       /* (B, H, K 64): <x', gradient of x'> */
    float    *q, *row;                   /* (B, H, K 64): sums of ssd_bwd_bc over states, over C B^T */
    float    *ends;                      /* (B, H, K/2, SSD_ENDS): ssd_fused_bc.cuh */
    float    *slow_sums;                 /* (B K/2 G, SLOW_VALUES): dC, dB of wide-range heads (ssd_fused_pairs.cuh) */
    int2     *slow_helpers;              /* (B K/2 G): where else they are */
    float    *dpar, *dD;                 /* (2, B K/2, heads); (B segments, H, 64) */
    /* TILED kernels: heads of the operator, their width, the width of the state, tiles per head; tiles of p in a group,
     * without those beyond the heads. Other kernels have one tile per head. */
    int  heads, P, N, tiles, group_tiles;
    bool tiled;
};

/* TILED kernels (ssd_tiled_cuda.cu) take heads of any width. They work on tiles of 64 p x 128 n as if each was a head
 * of its own: H counts tiles, J those of a group. Columns beyond P and N are zeros, which the tensor maps supply (axes
 * (P, heads, L, B)); an odd number of tiles in a group is rounded up, and the last tile lies beyond the heads. Records
 * belong to heads. TILED = 0: a head is a tile. */
template <int TILED> static __device__ __forceinline__ int head_of_tile(const fused_task &a, int t)
{
    return TILED ? t / a.tiles : t;
}
/* First p of a tile in its head. */
template <int TILED> static __device__ __forceinline__ int tile_p(const fused_task &a, int t)
{
    return TILED ? t % a.tiles / (TILED > 1 ? TILED : 1) * FP : 0;
}
/* First n of a tile: the tiles of n are innermost. */
template <int TILED> static __device__ __forceinline__ int tile_n(int t)
{
    return TILED > 1 ? t % (TILED > 1 ? TILED : 1) * FN : 0;
}
/* A tile's row in the records and in the parameters: that of its head; a tile beyond the heads has the last one's. */
template <int TILED> static __device__ __forceinline__ int record_head(const fused_task &a, int t)
{
    return TILED ? min(t / a.tiles, a.heads - 1) : t;
}
template <int TILED> static __device__ __forceinline__ int record_heads(const fused_task &a)
{
    return TILED ? a.heads : a.H;
}

/* The step of a token before its limits. Small steps come from a series, because 1 + e^raw would round them away. */
static __device__ __forceinline__ float softplus_dt(float raw)
{
    const float e = __expf(raw);
    return raw > 20 ? raw : e < 0.015f ? e * (1 - e * (0.5f - e * (1.0f / 3))) : __logf(1 + e);
}
static __device__ __forceinline__ float clamp_dt(const fused_task &a, float step)
{
    return fminf(fmaxf(step, a.dt_min), a.dt_max);
}

#endif
