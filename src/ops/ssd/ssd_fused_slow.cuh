// SPDX-License-Identifier: Apache-2.0
/* ssd_fused_slow.cuh -- heads with a chunk beyond the range of a pivot, which count as zero in ssd_bwd_bc: their pairs
 * token by token, in fp32.
 *
 * kernel     ssd_bwd_slow    blocks take 128 positions of a group after another, a thread per n, heads beyond the range
 *            in turn; none: leaves
 * launch     grid min(B K/2 G, 2 SMs), block 128, dynamic smem 64 KB
 * resources  sm_90a, CUDA 13.0: 246 registers, 6144 B of shared memory, no spill  [docs]
 * order      fixed: heads ascend, positions in turn */
#ifndef MBA_SSD_FUSED_SLOW_CUH
#define MBA_SSD_FUSED_SLOW_CUH

#include "ops/ssd/ssd_fused_pairs.cuh"

struct slow_smem {
    float x[PAIR][FP], dy[PAIR][FP];
};
static_assert(sizeof(slow_smem) <= SSD_SLOW_SMEM, "the plan asks for less");

struct slow_steps {
    float dt[PAIR], decay[PAIR], dest[4][PAIR], src[4][PAIR], ends[4];
};

/* Element p of column n (thread n) of a state that a walk saved. */
static __device__ __forceinline__ float saved_at(const uint32_t *saved, int p)
{
    const int      n = (int)threadIdx.x, w = (n >> 5) * 16 + (n >> 1 & 3) * 4 + (n >> 3 & 3); // backwards
    const uint32_t v = saved[p * (FN / 2) + w];
    return n & 1 ? high_of(v) : low_of(v);
}

/* Exact: with what its rounding lost. */
template <bool EXACT> static __device__ __forceinline__ float kept_at(const fused_task &a, const uint32_t *saved, int p)
{
    const float value = saved_at(saved, p);
    return EXACT ? value + saved_at(saved + (int64_t)residual_offset_states(a) * (FP * FN / 2), p) : value;
}

/* What undoes a pivot. What one below e^-85 has left is nothing that a position of the pair could see. */
static __device__ __forceinline__ float inverse_pivot(float pivot) { return pivot < -85 ? 0 : __expf(-pivot); }

template <bool EXACT>
static __device__ __forceinline__ void load_column(float (&s)[FP], const fused_task &a, const uint32_t *saved,
                                                   float pivot)
{
    const float back = inverse_pivot(pivot);
#pragma unroll
    for (int p = 0; p < FP; p++) s[p] = kept_at<EXACT>(a, saved, p) * back;
}

static __device__ __forceinline__ void load_slow(slow_smem &m, slow_steps &s, const fused_task &a, int b, int h, int l0)
{
    const int     l = (int)threadIdx.x;
    const int64_t t = l0 + l;
    const bool    real = t < a.L;
    const float   raw = real ? to_float(*a.dt.row(b, t, h)) + (a.bias ? a.bias[h] : 0) : 0;
    s.dt[l] = real ? limited(a, softplus_dt(raw)) : 0;
    s.decay[l] = reset_at(a, b, t) ? 0 : expf(-expf(a.A_log[h]) * s.dt[l]);
    for (int i = l; i < PAIR * FP; i += PAIR) {
        const int r = i / FP, p = i % FP;
        m.x[r][p] = l0 + r < a.L ? to_float(a.x.row(b, l0 + r, h)[p]) : 0;
        m.dy[r][p] = l0 + r < a.L ? to_float(a.dy.row(b, l0 + r, h)[p]) : 0;
    }
}

/* One row of a walk: state = keep state + value left. Returns sum_p right (old part) and sum_p right state: what a row
 * gives to itself is the same for a source and its destination, and left out of their sums it cannot spoil the
 * difference, which for strong decays is nearly nothing. */
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

template <bool EXACT>
static __device__ __forceinline__ void slow_head(slow_smem &m, slow_steps &s, const fused_task &a, const pair_block &k,
                                                 int h, bool first)
{
    const int       n = (int)threadIdx.x, warp = n / 32, l0 = k.c2 * PAIR;
    const int64_t   bh = (int64_t)k.b * a.H + h, at = ((int64_t)k.b * a.K * FQ + l0) * a.G * FN + k.g * FN + n;
    const float    *r0 = plain_record(a, k.b, h, 2 * k.c2), *r1 = plain_record(a, k.b, h, 2 * k.c2 + 1);
    const uint32_t *H1 = a.saved + (bh * (a.K / 2) + k.c2) * (FP * FN / 2);
    const uint32_t *G1 = a.saved_rev + (bh * (a.K / 2) + k.c2) * (FP * FN / 2);
    const float     out = (int)r1[REC_FLAGS] & IS_SLOW ? 0 : r1[REC_AFTER];
    float           state[FP];
    __syncthreads(); // the head before has read everything
    load_slow(m, s, a, k.b, h, l0);
    __syncthreads();
    load_column<EXACT>(state, a, H1, (int)r0[REC_FLAGS] & IS_SLOW ? 0 : r0[REC_BEFORE]);
#pragma unroll 1
    for (int l = 0; l < PAIR; l++) {
        const bool   real = l0 + l < a.L;
        const float  bv = real ? to_float(a.bm.row(k.b, l0 + l, k.g)[n]) : 0;
        const float  cv = real ? to_float(a.cm.row(k.b, l0 + l, k.g)[n]) : 0;
        const float2 dc = slow_row(state, s.decay[l], s.dt[l] * bv, m.x[l], m.dy[l]);
        const float  dest = warp_sum(dc.x * cv);
        float       *to = a.slow_dc + at + (int64_t)l * a.G * FN;
        *to = first ? dc.y : *to + dc.y;
        if (n % 32 == 0) s.dest[warp][l] = dest;
    }
    float ends = 0;
#pragma unroll
    for (int p = 0; p < FP; p++) ends += state[p] * (kept_at<EXACT>(a, G1, p) * inverse_pivot(out));
    ends = warp_sum(ends);
    if (n % 32 == 0) s.ends[warp] = ends;
    load_column<EXACT>(state, a, G1, out);
    float keep = 1;
#pragma unroll 1
    for (int l = PAIR - 1; l >= 0; l--) {
        const bool   real = l0 + l < a.L;
        const float  bv = real ? to_float(a.bm.row(k.b, l0 + l, k.g)[n]) : 0;
        const float  cv = real ? to_float(a.cm.row(k.b, l0 + l, k.g)[n]) : 0;
        const float2 db = slow_row(state, keep, cv, m.dy[l], m.x[l]);
        const float  src = warp_sum(s.dt[l] * db.x * bv);
        float       *to = a.slow_db + at + (int64_t)l * a.G * FN;
        *to = s.dt[l] * db.y + (first ? 0 : *to);
        keep = s.decay[l];
        if (n % 32 == 0) s.src[warp][l] = src;
    }
    __syncthreads();
    float ddA = s.ends[0] + s.ends[1] + s.ends[2] + s.ends[3];
    for (int l = PAIR - 1; l >= n; l--)
        for (int w = 0; w < 4; w++) ddA += s.dest[w][l] - s.src[w][l];
    a.q[bh * a.K * FQ + l0 + n] = ddA; // as it is; ssd_finish knows
}

/* Flags of all heads of this block's pairs at once: as a rule none is set, and looking is all there is to do. */
static __device__ __forceinline__ bool any_slow(const fused_task &a)
{
    const int pairs = a.B * (a.K / 2) * a.G, mine = (pairs - (int)blockIdx.x + (int)gridDim.x - 1) / (int)gridDim.x;
    bool      any = false;
#pragma unroll 4
    for (int i = (int)threadIdx.x; i < mine * a.J; i += PAIR) {
        const pair_block k = pair_block_of(a, blockIdx.x + (unsigned)(i / a.J) * gridDim.x);
        any |= slow_pair(a, k.b, k.g * a.J + i % a.J, k.c2);
    }
    return __syncthreads_or(any);
}

template <bool EXACT> static __device__ __forceinline__ void slow_block_run(const fused_task &a)
{
    MBA_DYNAMIC_SMEM(smem);
    __shared__ slow_steps s;
    if (!any_slow(a)) return;
    for (unsigned z = blockIdx.x; z < (unsigned)(a.B * (a.K / 2) * a.G); z += gridDim.x) {
        const pair_block k = pair_block_of(a, z);
        bool             first = true;
        for (int h = k.g * a.J; h < (k.g + 1) * a.J; h++) {
            if (!slow_pair(a, k.b, h, k.c2)) continue;
            slow_head<EXACT>(*(slow_smem *)smem, s, a, k, h, first);
            first = false;
        }
    }
}

#endif
