// SPDX-License-Identifier: Apache-2.0
/* ssd_fused_slow.cuh -- dB, dC and decay gradients of heads with a wide-range chunk, token by token in fp32.
 *
 * ssd_bwd_bc counts such heads as zero (a pivot cannot serve them); this kernel runs before it and leaves their dB and
 * dC in slow_db and slow_dc, which ssd_bwd_bc adds, and the gradient of their decays in q. A fresh model has no such
 * head: the blocks then read the flags and return. Steps grow in training, and some heads then have one (ssd.md).
 *
 * kernel     ssd_bwd_slow    persistent loop over (sequence, pair of chunks, group); one thread per n; heads in order
 * launch     grid min(B K/2 G, 2 SMs), block 128, dynamic smem 64 KB
 * resources  sm_90a, CUDA 13.0: 246 registers, 6144 B of shared memory, no spill  [docs]
 * order      fixed: heads in ascending order, positions in sequence */
#ifndef MBA_SSD_FUSED_SLOW_CUH
#define MBA_SSD_FUSED_SLOW_CUH

#include "ops/ssd/fused/ssd_fused_pairs.cuh"

struct slow_smem {
    float x[PAIR][FP], dy[PAIR][FP];
};
static_assert(sizeof(slow_smem) <= SSD_SLOW_SMEM, "the plan asks for less");

struct slow_steps {
    float dt[PAIR], decay[PAIR], dest[4][PAIR], src[4][PAIR], begin[4];
};

/* Element p of column n (n: thread) of a saved state; inverts the column order of ssd_fused_pairs.cuh. */
static __device__ __forceinline__ float saved_at(const uint32_t *saved, int p)
{
    const int      n = (int)threadIdx.x, w = (n >> 5) * 16 + (n >> 1 & 3) * 4 + (n >> 3 & 3);
    const uint32_t v = saved[p * (FN / 2) + w];
    return n & 1 ? high_of(v) : low_of(v);
}

/* The same; in EXACT plus its residual. */
template <bool EXACT> static __device__ __forceinline__ float kept_at(const fused_task &a, const uint32_t *saved, int p)
{
    const float value = saved_at(saved, p);
    return EXACT ? value + saved_at(saved + (int64_t)residual_offset_states(a) * (FP * FN / 2), p) : value;
}

/* The factor that undoes a pivot. Below e^-85 the state has decayed to nothing for every position of the pair. */
static __device__ __forceinline__ float inverse_pivot(float pivot) { return pivot < -85 ? 0 : __expf(-pivot); }

template <bool EXACT>
static __device__ __forceinline__ void load_column(float (&s)[FP], const fused_task &a, const uint32_t *saved,
                                                   float pivot)
{
    const float back = inverse_pivot(pivot);
#pragma unroll
    for (int p = 0; p < FP; p++) s[p] = kept_at<EXACT>(a, saved, p) * back;
}

/* Loads steps, decays, x and dy of a head's (or tile's) 128 positions into shared memory. */
template <int TILED>
static __device__ __forceinline__ void load_slow(slow_smem &m, slow_steps &s, const fused_task &a, int b, int t0,
                                                 int l0)
{
    const int     h = head_of_tile<TILED>(a, t0), p0 = tile_p<TILED>(a, t0);
    const int     l = (int)threadIdx.x;
    const int64_t t = l0 + l;
    const bool    real = t < a.L;
    const float   raw = real ? to_float(*a.dt.row(b, t, h)) + (a.bias ? a.bias[h] : 0) : 0;
    s.dt[l] = real ? clamp_dt(a, softplus_dt(raw)) : 0;
    s.decay[l] = reset_at(a, b, t) ? 0 : expf(-expf(a.A_log[h]) * s.dt[l]);
    for (int i = l; i < PAIR * FP; i += PAIR) {
        const int  r = i / FP, p = i % FP;
        const bool is = l0 + r < a.L && (!TILED || p0 + p < a.P);
        m.x[r][p] = is ? to_float(a.x.row(b, l0 + r, h)[p0 + p]) : 0;
        m.dy[r][p] = is ? to_float(a.dy.row(b, l0 + r, h)[p0 + p]) : 0;
    }
}

/* One step of the recurrence: state = keep state + value left. Returns (sum_p right keep state, sum_p right new state).
 * The first leaves out what the token gives to itself: that is the same for source and destination, and its rounding
 * would spoil their difference, which is tiny for strong decays. */
static __device__ __forceinline__ float2 slow_row(float (&s)[FP], float keep, float value, const float *left,
                                                  const float *right)
{
    float old = 0, self = 0;
#pragma unroll
    for (int p = 0; p < FP; p += 4) {
        const float4 x = *(const float4 *)(left + p), y = *(const float4 *)(right + p);
        const float  o0 = keep * s[p], o1 = keep * s[p + 1], o2 = keep * s[p + 2], o3 = keep * s[p + 3];
        old += o0 * y.x + o1 * y.y + o2 * y.z + o3 * y.w;
        self += x.x * y.x + x.y * y.y + x.z * y.z + x.w * y.w;
        s[p] = fmaf(value, x.x, o0);
        s[p + 1] = fmaf(value, x.y, o1);
        s[p + 2] = fmaf(value, x.z, o2);
        s[p + 3] = fmaf(value, x.w, o3);
    }
    return make_float2(old, fmaf(value, self, old));
}

/* One head of a pair of chunks: a forward recurrence from H1 (dC, sums by destination), a backward one from G1 (dB,
 * sums by source), then the gradient of the decays: what of H1 passes over the first token, then token by token what
 * earlier ones send less what they receive. From the end it would begin with what the last token gives to the final
 * state, next to which all else may vanish. `first`: stores dB and dC instead of adding. */
template <bool EXACT, int TILED>
static __device__ __forceinline__ void slow_head(slow_smem &m, slow_steps &s, const fused_task &a, const pair_block &k,
                                                 int h, bool first)
{
    const int       n = (int)threadIdx.x, warp = n / 32, l0 = k.c2 * PAIR;
    const int       G = pair_groups<TILED>(a), g = group_of<TILED>(k.g), col = group_n<TILED>(k.g) + n;
    const int64_t   bh = (int64_t)k.b * a.H + h, at = ((int64_t)k.b * a.K * FQ + l0) * G * FN + k.g * FN + n;
    const float    *r0 = plain_record<TILED>(a, k.b, h, 2 * k.c2), *r1 = plain_record<TILED>(a, k.b, h, 2 * k.c2 + 1);
    const uint32_t *H1 = a.saved + (bh * (a.K / 2) + k.c2) * (FP * FN / 2);
    const uint32_t *G1 = a.saved_rev + (bh * (a.K / 2) + k.c2) * (FP * FN / 2);
    const float     in = (int)r0[REC_FLAGS] & IS_WIDE_RANGE ? 0 : r0[REC_BEFORE];
    const float     out = (int)r1[REC_FLAGS] & IS_WIDE_RANGE ? 0 : r1[REC_AFTER];
    float           state[FP];
    __syncthreads(); // the previous head has been read
    load_slow<TILED>(m, s, a, k.b, h, l0);
    __syncthreads();
    load_column<EXACT>(state, a, H1, in);
#pragma unroll 1
    for (int l = 0; l < PAIR; l++) {
        const bool   real = l0 + l < a.L && (!TILED || col < a.N);
        const float  bv = real ? to_float(a.bm.row(k.b, l0 + l, g)[col]) : 0;
        const float  cv = real ? to_float(a.cm.row(k.b, l0 + l, g)[col]) : 0;
        const float2 dc = slow_row(state, s.decay[l], s.dt[l] * bv, m.x[l], m.dy[l]);
        const float  dest = warp_sum(dc.x * cv);
        float       *to = a.slow_dc + at + (int64_t)l * G * FN;
        *to = first ? dc.y : *to + dc.y;
        if (n % 32 == 0) s.dest[warp][l] = dest;
    }
    load_column<EXACT>(state, a, G1, out);
    float keep = 1;
#pragma unroll 1
    for (int l = PAIR - 1; l >= 0; l--) {
        const bool   real = l0 + l < a.L && (!TILED || col < a.N);
        const float  bv = real ? to_float(a.bm.row(k.b, l0 + l, g)[col]) : 0;
        const float  cv = real ? to_float(a.cm.row(k.b, l0 + l, g)[col]) : 0;
        const float2 db = slow_row(state, keep, cv, m.dy[l], m.x[l]);
        const float  src = warp_sum(s.dt[l] * db.x * bv);
        float       *to = a.slow_db + at + (int64_t)l * G * FN;
        *to = s.dt[l] * db.y + (first ? 0 : *to);
        keep = s.decay[l];
        if (n % 32 == 0) s.src[warp][l] = src;
    }
    const float back = inverse_pivot(in) * s.decay[0];
    float       begin = 0;
#pragma unroll
    for (int p = 0; p < FP; p++) begin += state[p] * (kept_at<EXACT>(a, H1, p) * back);
    begin = warp_sum(begin);
    if (n % 32 == 0) s.begin[warp] = begin;
    __syncthreads();
    float ddA = s.begin[0] + s.begin[1] + s.begin[2] + s.begin[3];
    for (int l = 0; l < n; l++)
        for (int w = 0; w < 4; w++) ddA += s.src[w][l] - s.dest[w][l];
    a.q[bh * a.K * FQ + l0 + n] = ddA; // the gradient itself; ssd_finish checks the flag
}

/* Whether any head of this block's pairs is wide-range. */
template <int TILED> static __device__ __forceinline__ bool any_wide_range_pair(const fused_task &a)
{
    const int pairs = a.B * (a.K / 2) * pair_groups<TILED>(a), heads = group_heads<TILED>(a),
              mine = (pairs - (int)blockIdx.x + (int)gridDim.x - 1) / (int)gridDim.x;
    bool any = false;
#pragma unroll 4
    for (int i = (int)threadIdx.x; i < mine * heads; i += PAIR) {
        const pair_block k = pair_block_of(a, blockIdx.x + (unsigned)(i / heads) * gridDim.x);
        any |= is_wide_range_pair<TILED>(a, k.b, tile_of_group<TILED>(a, k.g, i % heads), k.c2);
    }
    return __syncthreads_or(any);
}

template <bool EXACT, int TILED = 0> static __device__ __forceinline__ void slow_block_run(const fused_task &a)
{
    MBA_DYNAMIC_SMEM(smem);
    __shared__ slow_steps s;
    if (!any_wide_range_pair<TILED>(a)) return;
    for (unsigned z = blockIdx.x; z < (unsigned)(a.B * (a.K / 2) * pair_groups<TILED>(a)); z += gridDim.x) {
        const pair_block k = pair_block_of(a, z);
        bool             first = true;
        for (int i = 0; i < group_heads<TILED>(a); i++) {
            const int h = tile_of_group<TILED>(a, k.g, i);
            if (!is_wide_range_pair<TILED>(a, k.b, h, k.c2)) continue;
            slow_head<EXACT, TILED>(*(slow_smem *)smem, s, a, k, h, first);
            first = false;
        }
    }
}

#endif
