// SPDX-License-Identifier: Apache-2.0
/* ssd_fused_states.cuh -- states of segments for ssd_scan: what each part of a sequence adds to the state.
 *
 * A sequence that is divided into segments (ssd_segments_of in ssd_split.c) needs the state at the start of each. For
 * each part of each segment but the last, ssd_states computes the state that the part alone would leave, and the log
 * decay across it. It runs before the scan, which adds these up (accumulate_parts in ssd_fused_group.cuh).
 *
 * kernel     ssd_states      one block per (part of a sequence, NHEADS heads of a group): h = decay h + x' B per chunk
 * roles      one consumer warpgroup per head; one producer thread fills a ring of four stages by TMA
 * launch     grid parts, block 128 (NHEADS + 1), dynamic smem 203 KB
 * moves      per chunk and four heads: x 32 KB, B 16 KB, factors 2 KB; 1024 tensor-core cycles. Four heads share B
 *            (two in ssd_scan), and while one warpgroup waits for its products others multiply
 * takes      as ssd_scan
 * resources  sm_90a, CUDA 13.0: 96 to 147 registers, no spill  [docs]
 *            with four heads, consumer warpgroups take 112 registers
 * measured   H200: ssd_states_rev 22.2 us, 79 % of floor (memory), DRAM 54 % busy; mamba2-headline, 4 x 4096  [docs]
 * order      fixed: chunks in sequence; chunks whose contribution decays below e^-88 are skipped */
#ifndef MBA_SSD_FUSED_STATES_CUH
#define MBA_SSD_FUSED_STATES_CUH

#include "ops/ssd/fused/ssd_fused_task.cuh"

template <int NHEADS> struct states_smem {
    enum { DEPTH = 4 };
    struct {
        unsigned char u[2 * TILE_BYTES], x[NHEADS][TILE_BYTES];
    } st[DEPTH]; /* tiles 1 KB aligned */
    float      rec[DEPTH][NHEADS][REC];
    uint64_t   full[DEPTH], empty[DEPTH];
    int        skip_chunks[NHEADS], cut_off[NHEADS]; /* per head: find_live_chunks() */
    tile_place place[NHEADS];                        /* TILED: the producer's */
};
static_assert(sizeof(states_smem<2 * HEADS>) + 1024 <= SSD_STATES_SMEM, "the plan asks for less");

#if MBA_HOPPER || !defined(__CUDA_ARCH__)

/* A part: `chunks` chunks from c0 on, for heads h0 + i apart. The state of head i is number first + i step.
 * chunks_to_end: chunks between the part and the end of its segment, where its state is first needed. */
struct states_part {
    int b, h0, c0, chunks, first, step, apart, chunks_to_end;
};

/* The part of this block. The last segment of a sequence (reverse: the first) has none, as nothing follows it. */
template <bool REV, int NHEADS, int TILED> static __device__ __forceinline__ states_part part_of(const fused_task &a)
{
    constexpr int NT = TILED > 1 ? TILED : 1; // heads of a block have the same tile of n
    states_part   p;
    unsigned      z = blockIdx.x;
    const int     per = (a.per_segment + a.parts - 1) / a.parts;
    const int     heads = unravel_next(z, a.H / NHEADS);
    p.h0 = heads / NT * NHEADS * NT + heads % NT;
    const int part = unravel_next(z, a.parts), seg = unravel_next(z, a.segments - 1) + (REV ? 1 : 0);
    const int begin = seg * a.per_segment;
    p.b = (int)z;
    p.c0 = begin + part * per;
    p.chunks = min(min(per, a.per_segment - part * per), a.K - p.c0);
    p.first = ((p.b * a.H + p.h0) * a.segments + seg) * a.parts + part;
    p.step = a.segments * a.parts * NT;
    p.apart = NT;
    p.chunks_to_end = REV ? p.c0 - begin : min(begin + a.per_segment, a.K) - p.c0 - p.chunks;
    return p;
}

/* Determines per head how many leading chunks of the part can be skipped, because their contribution decays below
 * LOG_DECAY_MIN before the segment ends, and whether everything before the part does (cut_off). */
template <bool REV, int NHEADS, int TILED>
static __device__ __forceinline__ void find_live_chunks(states_smem<NHEADS> &sm, const fused_task &a,
                                                        const states_part &p)
{
    const int i = (int)threadIdx.x >> 5, before = p.chunks + p.chunks_to_end;
    if (i >= NHEADS) return;
    float     sum;
    const int nearest = REV ? p.c0 - p.chunks_to_end : p.c0 + before - 1;
    const int reach = dependency_length<REV, TILED>(a, p.b, p.h0 + i * p.apart, nearest, before, sum);
    if (threadIdx.x & 31) return;
    sm.skip_chunks[i] = min(max(before - reach, 0), p.chunks);
    sm.cut_off[i] = reach <= before;
}
template <int NHEADS> static __device__ __forceinline__ int first_live_chunk(const states_smem<NHEADS> &sm)
{
    int first = sm.skip_chunks[0];
    for (int i = 1; i < NHEADS; i++) first = min(first, sm.skip_chunks[i]);
    return first;
}

/* The loop of the producer thread. */
template <bool REV, int NHEADS, int TILED>
static __device__ __forceinline__ void states_producer(states_smem<NHEADS> &sm, const fused_task &a,
                                                       const scan_maps &maps, const states_part &p)
{
    const float *rec = REV ? a.rec_rev : a.rec;
    const int    g = p.h0 / a.J;
    int          s = 0, ph = 1; // waiting on a fresh `empty` barrier returns at once
    for (int h = 0; TILED && h < NHEADS; h++) set_place<TILED>(sm.place[h], a, p.h0 + h * p.apart);
    for (int i = first_live_chunk(sm); i < p.chunks; i++) {
        const int      c = REV ? p.c0 + p.chunks - 1 - i : p.c0 + i;
        const uint32_t bar = smem_address(&sm.full[s]);
        mbar_wait(smem_address(&sm.empty[s]), ph);
        int wanted = 0;
        for (int h = 0; h < NHEADS; h++) wanted += i >= sm.skip_chunks[h];
        mbar_expect(bar, 2 * TILE_BYTES + wanted * (TILE_BYTES + REC * 4));
        for (int h = 0; h < NHEADS; h++) {
            if (i < sm.skip_chunks[h]) continue;
            const int head = p.h0 + h * p.apart;
            load_x_tile<TILED>(smem_address(sm.st[s].x[h]), &maps.x, bar, sm.place[h], head, c * FQ, p.b);
            bulk_load(smem_address(sm.rec[s][h]), rec + record_index_at<TILED>(a, sm.place[h], p.b, head, c), REC * 4,
                      bar);
        }
        for (int j = 0; j < 2; j++)
            load_n_tile<TILED>(smem_address(sm.st[s].u) + j * TILE_BYTES, &maps.u, bar, g, tile_n<TILED>(p.h0) + 64 * j,
                               c * FQ, p.b);
        if (++s == states_smem<NHEADS>::DEPTH) s = 0, ph ^= 1;
    }
}

/* x' of a wide-range chunk: scaled by dt and the decay until the chunk ends (reverse: dy by the decay since it began),
 * as scale_to_end() does. */
template <bool REV>
static __device__ __forceinline__ void scale_wide_range(uint32_t (&x)[4][4], const float *rec, float all)
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
static __device__ __forceinline__ void scale_factored(uint32_t (&x)[4][4], const float *rec)
{
    const uint4 *scales = (const uint4 *)(rec + 64) + 2 * (threadIdx.x & 3);
#pragma unroll
    for (int k = 0; k < 4; k += 2) {
        const uint4 hi = scales[k >> 1], lo = scales[8 + (k >> 1)];
        x[k][0] = times(x[k][0], hi.x, lo.x);
        x[k][1] = times(x[k][1], hi.x, lo.x);
        x[k][2] = times(x[k][2], hi.y, lo.y);
        x[k][3] = times(x[k][3], hi.y, lo.y);
        x[k + 1][0] = times(x[k + 1][0], hi.z, lo.z);
        x[k + 1][1] = times(x[k + 1][1], hi.z, lo.z);
        x[k + 1][2] = times(x[k + 1][2], hi.w, lo.w);
        x[k + 1][3] = times(x[k + 1][3], hi.w, lo.w);
    }
}

/* The loop of a consumer warpgroup: computes the state of its head over the part, and writes it with its log decay. */
template <bool REV, int NHEADS>
static __device__ __forceinline__ void states_loop(states_smem<NHEADS> &sm, const fused_task &a, const states_part &p)
{
    const int      wg = (int)threadIdx.x >> 7, tid = (int)threadIdx.x & 127, warp = tid >> 5, lane = tid & 31;
    const uint32_t matrix_offset = (uint32_t)(((lane >> 4) * 8 + (lane & 7)) * 128
                                              + ((2 * warp + ((lane >> 3) & 1)) ^ (lane & 7)) * 16);
    const int      skip_chunks = __shfl_sync(0xffffffffu, sm.skip_chunks[wg], 0);
    const int64_t  state_index = p.first + (int64_t)wg * p.step;
    float          h[64], pending_log_decay = 0, total = 0;
    int            s = 0, ph = 0;
    for (int i = first_live_chunk(sm); i < skip_chunks; i++) { // chunks that only other heads need
        mbar_wait(smem_address(&sm.full[s]), ph);
        mbar_pass(smem_address(&sm.empty[s]), lane);
        if (++s == states_smem<NHEADS>::DEPTH) s = 0, ph ^= 1;
    }
    if (skip_chunks == p.chunks) {
        if (tid == 0) a.seg_decay[state_index] = -INFINITY;
        return;
    }
#pragma unroll
    for (int i = 0; i < 64; i++) h[i] = 0;
#pragma unroll 1
    for (int left = p.chunks - skip_chunks; left > 0; left--) {
        const float *rec = sm.rec[s][wg];
        uint32_t     x[4][4];
        mbar_wait(smem_address(&sm.full[s]), ph);
#pragma unroll
        for (int k = 0; k < 4; k++) ldmatrix_t_at(x[k], smem_address(sm.st[s].x[wg]) + matrix_offset + k * 16 * 128);
        const float4 last = *(const float4 *)(rec + REC_BEFORE);
        const int    flags = (int)last.z, keep = !(flags & HAS_RESET);
        const bool   wide_range = __any_sync(0xffffffffu, flags & IS_WIDE_RANGE);
        float        factor = __expf(last.x + pending_log_decay);
        total = keep ? total + last.w : -INFINITY;
        if (__any_sync(0xffffffffu, last.x + pending_log_decay < -80)) { // exp of the sum underflows; h does not
            factor = __expf(pending_log_decay);
#pragma unroll
            for (int j = 0; j < 64; j++) h[j] *= factor;
            factor = __expf(last.x);
        }
        if (wide_range) {
            factor *= __expf(last.w);
            scale_wide_range<REV>(x, rec, last.w);
        } else {
            scale_factored(x, rec);
        }
        pending_log_decay = last.y;
#pragma unroll
        for (int j = 0; j < 64; j++) h[j] *= factor;
        const uint64_t d = wgmma_smem_desc(smem_address(sm.st[s].u), TILE_BYTES);
        wgmma_fence();
#pragma unroll
        for (int k = 0; k < 4; k++) wgmma_n128_rs<1>(h, x[k], d + ((k * 2048) >> 4), k > 0 ? 1 : keep);
        wgmma_commit();
        wgmma_wait<0>();
        mbar_release(smem_address(&sm.empty[s]), lane);
        if (++s == states_smem<NHEADS>::DEPTH) s = 0, ph ^= 1;
    }
    const float f = __expf(pending_log_decay);
    float      *to = a.seg_state + state_index * FP * FN + tid;
#pragma unroll
    for (int i = 0; i < 64; i++) to[i * 128] = h[i] * f;
    if (tid == 0) a.seg_decay[state_index] = sm.cut_off[wg] ? -INFINITY : total;
}

/* One block: initialises barriers, finds the chunks that count and assigns roles. */
template <bool REV, int NHEADS, int TILED>
static __device__ __forceinline__ void states_block_run(const fused_task &a, const scan_maps &maps)
{
    MBA_DYNAMIC_SMEM(smem);
    states_smem<NHEADS> &sm = *(states_smem<NHEADS> *)(smem + ((1024 - (smem_address(smem) & 1023)) & 1023));
    const states_part    p = part_of<REV, NHEADS, TILED>(a);
    if (threadIdx.x == 0) {
        for (int i = 0; i < states_smem<NHEADS>::DEPTH; i++) {
            mbar_init(smem_address(&sm.full[i]), 1);
            mbar_init_warps(smem_address(&sm.empty[i]), 4 * NHEADS);
        }
        mbar_init_done();
    }
    find_live_chunks<REV, NHEADS, TILED>(sm, a, p);
    __syncthreads();
    if (threadIdx.x < 128 * NHEADS) {
        if (NHEADS > HEADS) warpgroup_reg_alloc<112>();
        states_loop<REV, NHEADS>(sm, a, p);
    } else {
        if (NHEADS > HEADS) warpgroup_reg_dealloc<24>();
        if (threadIdx.x == 128 * NHEADS) states_producer<REV, NHEADS, TILED>(sm, a, maps, p);
    }
}

#endif

template <bool REV, int NHEADS>
static __global__ void __launch_bounds__(128 * (NHEADS + 1), 1)
    ssd_states(const __grid_constant__ fused_task a, const __grid_constant__ scan_maps maps)
{
#if MBA_HOPPER
    states_block_run<REV, NHEADS, 0>(a, maps);
#endif
}

/* Launches ssd_states where the plan has it. */
template <bool REV> static mba_status launch_states(fused_call &f, const scan_maps &m)
{
    const ssd_dims d = ssd_dims_of(f.c->node);
    if (!launches_states(f.s)) return MBA_OK;
    if (ssd_state_heads(&d) > HEADS) MBA_KERNEL(f.c, f.k++, (ssd_states<REV, 2 * HEADS>), f.a, m);
    else MBA_KERNEL(f.c, f.k++, (ssd_states<REV, HEADS>), f.a, m);
    return MBA_OK;
}

#endif
