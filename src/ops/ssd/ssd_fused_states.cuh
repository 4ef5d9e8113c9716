// SPDX-License-Identifier: Apache-2.0
/* ssd_fused_states.cuh -- what a part of a sequence adds to the state, for walks that begin inside one (ssd_split.c).
 *
 * kernel     ssd_states      block = one part of a sequence, WIDE heads of a group; one producer thread, a warpgroup
 *            per head: h = decay h + x' B, chunk after chunk, as a walk does it (ssd_fused_scan.cuh), and nothing else
 * launch     grid parts, block 128 (WIDE + 1), dynamic smem 203 KB
 * moves      per chunk and four heads: x 32 KB, B 16 KB, factors 2 KB; tensor 1024 cycles. In a walk, two heads share B
 *            and wait for each other's products; here four do, and others multiply meanwhile
 * takes      as ssd_scan
 * resources  sm_90a, CUDA 13.0: 96 to 147 registers, no spill  [docs]
 *            warpgroups with a head take 112 registers
 * measured   H200: ssd_states_rev 22.3 us, 78 % of floor (memory), DRAM 55 % busy; mamba2-headline, 4 x 4096  [docs]
 * order      fixed: chunks in turn; which of them the state depends on follows from their decays */
#ifndef MBA_SSD_FUSED_STATES_CUH
#define MBA_SSD_FUSED_STATES_CUH

#include "ops/ssd/ssd_fused_items.cuh"

template <int WIDE> struct states_smem {
    enum { STAGES_HERE = 4 };
    struct {
        unsigned char u[2 * TILE_BYTES], x[WIDE][TILE_BYTES];
    } st[STAGES_HERE]; /* tiles 1 KB aligned */
    float          rec[STAGES_HERE][WIDE][REC];
    uint64_t       full[STAGES_HERE], empty[STAGES_HERE];
    int            silent[WIDE], decayed_parts[WIDE]; /* of a head: find_reach */
    volatile int   number[WIDE];                      /* exact, of a head: which state it is; registers are short */
    volatile float total[4 * WIDE];                   /* of a warp: decay so far, which its first lane alone has */
};
static_assert(sizeof(states_smem<2 * HEADS>) + 1024 <= SSD_STATES_SMEM, "the plan asks for less");

#if MBA_HOPPER || !defined(__CUDA_ARCH__)

/* A part: chunks of a sequence for heads from h0 on; the state of head i is number first + i step. `beyond`: chunks
 * between the part and the end of its segment, the first place where somebody wants it. */
struct states_part {
    int b, h0, c0, chunks, first, step, beyond;
};

/* Nobody wants what the last segment (reverse: the first) adds. */
template <bool REV, int WIDE> static __device__ __forceinline__ states_part part_of(const fused_task &a)
{
    states_part p;
    unsigned    z = blockIdx.x;
    const int   per = (a.per_segment + a.parts - 1) / a.parts;
    p.h0 = unravel_next(z, a.H / WIDE) * WIDE;
    const int part = unravel_next(z, a.parts), seg = unravel_next(z, a.segments - 1) + (REV ? 1 : 0),
              begin = seg * a.per_segment;
    p.b = (int)z;
    p.c0 = begin + part * per;
    p.chunks = min(min(per, a.per_segment - part * per), a.K - p.c0);
    p.first = ((p.b * a.H + p.h0) * a.segments + seg) * a.parts + part;
    p.step = a.segments * a.parts;
    p.beyond = REV ? p.c0 - begin : min(begin + a.per_segment, a.K) - p.c0 - p.chunks;
    return p;
}

/* How many chunks of the part pass before a head's state depends on one: all of them, if what they add is forgotten
 * before somebody wants it. Whether all that is before is forgotten. */
template <bool EXACT, bool REV, int WIDE>
static __device__ __forceinline__ void find_reach(states_smem<WIDE> &sm, const fused_task &a, const states_part &p)
{
    const int i = (int)threadIdx.x >> 5, before = p.chunks + p.beyond;
    if (i >= WIDE) return;
    float     sum;
    const int reach = dependency_length<REV>(a, p.b, p.h0 + i, REV ? p.c0 - p.beyond : p.c0 + before - 1, before, sum);
    if (threadIdx.x & 31) return;
    sm.silent[i] = min(max(before - reach, 0), p.chunks);
    sm.decayed_parts[i] = reach <= before;
    if (EXACT) sm.number[i] = p.first + i * p.step; // 32 bits hold it (check_fused)
}
template <int WIDE> static __device__ __forceinline__ int first_of(const states_smem<WIDE> &sm)
{
    int first = sm.silent[0];
    for (int i = 1; i < WIDE; i++) first = min(first, sm.silent[i]);
    return first;
}

/* One thread. */
template <bool REV, int WIDE>
static __device__ __forceinline__ void states_produce(states_smem<WIDE> &sm, const fused_task &a, const scan_maps &maps,
                                                      const states_part &p)
{
    const float *rec = REV ? a.rec_rev : a.rec;
    const int    g = p.h0 / a.J;
    int          s = 0, ph = 1; // the first pass over the ring finds it empty
    for (int i = first_of(sm); i < p.chunks; i++) {
        const int      c = REV ? p.c0 + p.chunks - 1 - i : p.c0 + i;
        const uint32_t bar = smem_address(&sm.full[s]);
        mbar_wait(smem_address(&sm.empty[s]), ph);
        int wanted = 0;
        for (int h = 0; h < WIDE; h++) wanted += i >= sm.silent[h];
        mbar_expect(bar, 2 * TILE_BYTES + wanted * (TILE_BYTES + REC * 4));
        for (int h = 0; h < WIDE; h++) {
            if (i < sm.silent[h]) continue;
            tma_load3(smem_address(sm.st[s].x[h]), &maps.x, bar, (p.h0 + h) * FP, c * FQ, p.b);
            bulk_load(smem_address(sm.rec[s][h]), rec + record_at(a, p.b, p.h0 + h, c), REC * 4, bar);
        }
        for (int j = 0; j < 2; j++)
            tma_load3(smem_address(sm.st[s].u) + j * TILE_BYTES, &maps.u, bar, g * FN + 64 * j, c * FQ, p.b);
        if (++s == states_smem<WIDE>::STAGES_HERE) s = 0, ph ^= 1;
    }
}

/* x' of a chunk beyond the range of a pivot: scaled to the end (reverse: the beginning) of the chunk, as
 * scan_consumer. */
template <bool REV> static __device__ __forceinline__ void scale_slow(uint32_t (&x)[4][4], const float *rec, float all)
{
    const int t4 = threadIdx.x & 3;
#pragma unroll
    for (int k = 0; k < 4; k++)
#pragma unroll
        for (int q = 0; q < 2; q++) {
            const int    at = t4 * 16 + k * 4 + q * 2; // position 16 k + 8 q + 2 t4 in the order of records
            const float2 cs = *(const float2 *)(rec + at), dt = *(const float2 *)(rec + 64 + at);
            const float  f0 = REV ? __expf(cs.x) : dt.x * __expf(all - cs.x);
            const float  f1 = REV ? __expf(cs.y) : dt.y * __expf(all - cs.y);
#pragma unroll
            for (int j = 2 * q; j < 2 * q + 2; j++) x[k][j] = pack(low_of(x[k][j]) * f0, high_of(x[k][j]) * f1);
        }
}
static __device__ __forceinline__ void scale_fast(uint32_t (&x)[4][4], const float *rec)
{
    const uint4 *scales = (const uint4 *)(rec + 64) + 2 * (threadIdx.x & 3);
#pragma unroll
    for (int k = 0; k < 4; k += 2) {
        const uint4 up = scales[k >> 1], low = scales[8 + (k >> 1)];
        x[k][0] = times(x[k][0], up.x, low.x);
        x[k][1] = times(x[k][1], up.x, low.x);
        x[k][2] = times(x[k][2], up.y, low.y);
        x[k][3] = times(x[k][3], up.y, low.y);
        x[k + 1][0] = times(x[k + 1][0], up.z, low.z);
        x[k + 1][1] = times(x[k + 1][1], up.z, low.z);
        x[k + 1][2] = times(x[k + 1][2], up.w, low.w);
        x[k + 1][3] = times(x[k + 1][3], up.w, low.w);
    }
}

/* Exact: what these lose when they round, of positions 16 k .. */
template <bool REV> static __device__ __forceinline__ void rest_slow(uint32_t (&x)[4], const float *rec, int k)
{
#pragma unroll
    for (int q = 0; q < 2; q++) {
        const int    at = (threadIdx.x & 3) * 16 + k * 4 + q * 2;
        const float2 cs = *(const float2 *)(rec + at), dt = *(const float2 *)(rec + 64 + at);
        const float  f0 = REV ? __expf(cs.x) : dt.x * __expf(rec[REC_ALL] - cs.x);
        const float  f1 = REV ? __expf(cs.y) : dt.y * __expf(rec[REC_ALL] - cs.y);
#pragma unroll
        for (int j = 2 * q; j < 2 * q + 2; j++) x[j] = split(low_of(x[j]) * f0, high_of(x[j]) * f1).y;
    }
}
static __device__ __forceinline__ void rest_fast(uint32_t (&x)[4], const float *rec, int k)
{
    const uint2 *scales = (const uint2 *)(rec + 64) + 4 * (threadIdx.x & 3), up = scales[k], low = scales[16 + k];
#pragma unroll
    for (int j = 0; j < 4; j++) {
        const uint32_t u = j < 2 ? up.x : up.y, v = j < 2 ? low.x : low.y;
        x[j] = times_rest(x[j], u, v, times(x[j], u, v));
    }
}

/* A warpgroup: the state of its head. */
template <bool EXACT, bool REV, int WIDE>
static __device__ __forceinline__ void states_loop(states_smem<WIDE> &sm, const fused_task &a, const states_part &p)
{
    const int      wg = (int)threadIdx.x >> 7, tid = (int)threadIdx.x & 127, warp = tid >> 5, lane = tid & 31;
    const uint32_t moff = (uint32_t)(((lane >> 4) * 8 + (lane & 7)) * 128
                                     + ((2 * warp + ((lane >> 3) & 1)) ^ (lane & 7)) * 16);
    const int      silent = __shfl_sync(0xffffffffu, sm.silent[wg], 0);
    int64_t        number = p.first + (int64_t)wg * p.step;
    float          h[64], after = 0, total = 0;
    int            s = 0, ph = 0;
    for (int i = first_of(sm); i < silent; i++) { // what other heads alone want
        mbar_wait(smem_address(&sm.full[s]), ph);
        mbar_pass(smem_address(&sm.empty[s]), lane);
        if (++s == states_smem<WIDE>::STAGES_HERE) s = 0, ph ^= 1;
    }
    if (silent == p.chunks) {
        if (tid == 0) a.seg_decay[number] = -INFINITY;
        return;
    }
    if (EXACT && lane == 0) sm.total[threadIdx.x >> 5] = 0;
#pragma unroll
    for (int i = 0; i < 64; i++) h[i] = 0;
#pragma unroll 1
    for (int left = p.chunks - silent; left > 0; left--) {
        const float *rec = sm.rec[s][wg];
        uint32_t     x[4][4];
        mbar_wait(smem_address(&sm.full[s]), ph);
#pragma unroll
        for (int k = 0; k < 4; k++) ldmatrix_t_at(x[k], smem_address(sm.st[s].x[wg]) + moff + k * 16 * 128);
        const float4 last = *(const float4 *)(rec + REC_BEFORE);
        const int    flags = (int)last.z, keep = !(flags & HAS_RESET);
        const bool   slow = __any_sync(0xffffffffu, flags & IS_SLOW);
        float        factor = __expf(last.x + after);
        if constexpr (!EXACT) total = keep ? total + last.w : -INFINITY;
        else if (lane == 0) sm.total[threadIdx.x >> 5] = keep ? sm.total[threadIdx.x >> 5] + last.w : -INFINITY;
        if (__any_sync(0xffffffffu, last.x + after < -80)) { // together they would underflow, the state would not
            factor = __expf(after);
#pragma unroll
            for (int j = 0; j < 64; j++) h[j] *= factor;
            factor = __expf(last.x);
        }
        if (slow) {
            factor *= __expf(last.w);
            scale_slow<REV>(x, rec, last.w);
        } else {
            scale_fast(x, rec);
        }
        after = last.y;
#pragma unroll
        for (int j = 0; j < 64; j++) h[j] *= factor;
        const uint64_t d = wgmma_smem_desc(smem_address(sm.st[s].u), TILE_BYTES);
        wgmma_fence();
#pragma unroll
        for (int k = 0; k < 4; k++) wgmma_n128_rs<1>(h, x[k], d + ((k * 2048) >> 4), k > 0 ? 1 : keep);
        wgmma_commit();
        wgmma_wait<0>();
        if constexpr (EXACT)
#pragma unroll
            for (int k = 0; k < 4; k++) { // one at a time, as registers are short
                ldmatrix_t_at(x[k], smem_address(sm.st[s].x[wg]) + moff + k * 16 * 128);
                if (__any_sync(0xffffffffu, (int)rec[REC_FLAGS] & IS_SLOW)) rest_slow<REV>(x[k], rec, k);
                else rest_fast(x[k], rec, k);
                wgmma_fence();
                wgmma_n128_rs<1>(h, x[k], d + ((k * 2048) >> 4), 1);
                wgmma_commit();
                wgmma_wait<0>();
            }
        mbar_release(smem_address(&sm.empty[s]), lane);
        if (++s == states_smem<WIDE>::STAGES_HERE) s = 0, ph ^= 1;
    }
    if constexpr (EXACT) { // behind the last arrival, so lane 0 has written them
        number = sm.number[wg];
        total = sm.total[threadIdx.x >> 5];
    }
    const float f = __expf(after);
    float      *to = a.seg_state + number * FP * FN + tid;
#pragma unroll
    for (int i = 0; i < 64; i++) to[i * 128] = h[i] * f;
    if (tid == 0) a.seg_decay[number] = sm.decayed_parts[wg] ? -INFINITY : total;
}

#endif

template <bool REV, int WIDE, bool EXACT = false>
static __global__ void __launch_bounds__(128 * (WIDE + 1), 1)
    ssd_states(const __grid_constant__ fused_task a, const __grid_constant__ scan_maps maps)
{
#if MBA_HOPPER
    MBA_DYNAMIC_SMEM(smem);
    states_smem<WIDE> &sm = *(states_smem<WIDE> *)(smem + ((1024 - (smem_address(smem) & 1023)) & 1023));
    const states_part  p = part_of<REV, WIDE>(a);
    if (threadIdx.x == 0) {
        for (int i = 0; i < states_smem<WIDE>::STAGES_HERE; i++) {
            mbar_init(smem_address(&sm.full[i]), 1);
            mbar_init_warps(smem_address(&sm.empty[i]), 4 * WIDE);
        }
        mbar_init_done();
    }
    find_reach<EXACT, REV, WIDE>(sm, a, p);
    __syncthreads();
    if (threadIdx.x < 128 * WIDE) {
        if (WIDE > HEADS) warpgroup_reg_alloc<112>();
        states_loop<EXACT, REV, WIDE>(sm, a, p);
    } else {
        if (WIDE > HEADS) warpgroup_reg_dealloc<24>();
        if (threadIdx.x == 128 * WIDE) states_produce<REV, WIDE>(sm, a, maps, p);
    }
#endif
}

#endif
