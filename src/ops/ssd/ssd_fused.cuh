// SPDX-License-Identifier: Apache-2.0
/* ssd_fused.cuh -- ssd for Hopper: one walk over the chunks with the state in registers; y forwards in time, and with x
 * and dy, B and C exchanged, the gradient of x backwards. P = 64, N = 128, chunks of 64, bf16 operands, fp32 sums.
 *
 * Factored decay. In a chunk with log decays cs_l, total a, and a pivot m in the middle of their range:
 *     e_l = exp(cs_l - m)    f_s = dt_s exp(m - cs_s)    x'_s = f_s x_s    H1 = exp(m) H
 *     y_l = e_l ( H1 C_l + sum_{s<=l} (C_l . B_s) x'_s ) + D x_l        H_next = exp(a - m) ( H1 + sum_s x'_s B_s^T )
 * so C B^T is the same for all heads of a group (made once, bf16), no exponential per pair is left, and all products
 * have their left operand in registers: H1 and x' with rows p. A chunk whose decays span more than RANGE_MAX takes a
 * path with a decay per pair (`slow`). A reset is a zero in C B^T, in a copy of C for the state term (rows that the
 * state does not reach), in a copy of B for the update (rows that do not reach the end), and drops the old state there.
 * ssd_fused_prep.cuh makes C B^T and the factors, ssd_fused_items.cuh says which block walks what and feeds it,
 * ssd_fused_group.cuh and ssd_fused_scan.cuh walk, ssd_fused_bc.cuh and its neighbours make the other gradients. */
#ifndef MBA_SSD_FUSED_CUH
#define MBA_SSD_FUSED_CUH

#include "device/cuda/hopper.cuh"
#include "ops/ssd/ssd_task.cuh"

enum { FP = 64, FN = 128, FQ = 64 };       /* P, N, chunk */
enum { HEADS = 2 };                        /* of a block: one consumer warpgroup each */
enum { TILE_BYTES = FQ * TILE_ROW_BYTES }; /* 64 positions x 64 bf16 */
enum { IS_SLOW = 1, HAS_RESET = 2 };       /* flags of a chunk of a head */
static constexpr float RANGE_MAX = 140.0f; /* e^70 squared fits bf16 as it fits fp32 */
/* What all later decays together multiply by less than e to this has no part in a state: the product would not be a
 * normal number any more. */
static constexpr float LOG_DECAY_MIN = -88.0f;

/* A record of a (sequence, head, chunk), in the order in which fragments want it; position l = 16 k + 8 j + 2 t + i:
 *   word t*16 + k*4 + j*2 + i     scale of what leaves (e; reverse f), fp32
 *   word 64 + t*8 + k*2 + j       scale of what enters (f; reverse e) of the pair l, l+1: upper halves, two bf16
 *   word 96 + t*8 + k*2 + j       what the upper halves missed, two bf16
 *   words 128 ..                  log factor of the state before the chunk, after it; flags; a
 * Slow: words 0..63 cs, 64..127 dt, fp32 in the first order; words 128 and 129 zero.
 * Plain, for ssd_bwd_bc: e[64], f[64], m, a - m, flags, a. */
enum { REC = SSD_RECORD, REC_BEFORE = 128, REC_AFTER, REC_FLAGS, REC_ALL };

struct fused_task {
    int                  B, L, H, G, J, K;             /* K chunks of 64 in a sequence */
    int                  segments, per_segment, items; /* of a sequence, chunks of one, work items */
    int                  parts;                        /* of a segment, a state each (ssd_states) */
    int                  skip_cols;
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
    bf16     *cb_low;                    /* (B, K/2, G, 64, 64): odd chunks, sources one chunk earlier */
    bf16     *b_end, *c_begin;           /* with ids: (B, K 64, G, N), rows out of reach are zero */
    float    *seg_state, *seg_decay;     /* (B, H, segments, parts, 64, 128 threads); (B, .., parts) */
    int      *handed;                    /* cut items: (states, 2), the state is there */
    int       states;                    /* cut items: then seg_state is (states, heads, ..) */
    uint32_t *saved, *saved_rev;         /* (B, H, K/2, 64, N) bf16, n as fragments have it */
    float    *src;                       /* (B, H, K 64): <x', gradient of x'> */
    float    *q, *row;                   /* (B, H, K 64): what l takes from before its chunk; from it */
    float    *ends;                      /* (B, H, K/2, SSD_ENDS): ssd_fused_bc.cuh */
    float    *slow_db, *slow_dc;         /* (B, K 64, G, N): what heads beyond the range add */
    float    *dpar, *dD;                 /* (2, B K/2, H); (B segments, H, P) */
};

/* Variant `exact`: what rounding to bf16 lost lies behind the rounded numbers, as bf16 too: of C B^T so many tiles
 * later (all blocks of `cb`, and of `cb_low` behind it), of states that are kept so many states later. */
static __host__ __device__ __forceinline__ int residual_offset_pairs(const fused_task &a)
{
    return (a.cb_low ? a.B * (a.K / 2) * 3 : a.B * a.K) * a.G;
}
static __host__ __device__ __forceinline__ int residual_offset_states(const fused_task &a)
{
    return a.B * a.H * (a.K / 2);
}

/* The step of a token, before and after its limits. Small steps by a series: 1 + e^v would have lost them. */
static __device__ __forceinline__ float softplus_dt(float raw)
{
    const float e = __expf(raw);
    return raw > 20 ? raw : e < 0.015f ? e * (1 - e * (0.5f - e * (1.0f / 3))) : __logf(1 + e);
}
static __device__ __forceinline__ float limited(const fused_task &a, float step)
{
    return fminf(fmaxf(step, a.dt_min), a.dt_max);
}

#endif
