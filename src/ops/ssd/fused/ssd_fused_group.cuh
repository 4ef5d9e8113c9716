// SPDX-License-Identifier: Apache-2.0
/* ssd_fused_group.cuh -- a consumer warpgroup of the scan kernels of `fused`: its registers and basic operations.
 *
 * The warpgroup computes one head. Thread t holds 64 values of the state H (64 p x 128 n) and 32 of the output (64 p x
 * 64 positions), both as wgmma accumulators; the left operands H1 and x' are A fragments in registers, the right
 * operands B, C and C B^T are tiles of the ring in shared memory. The operations: scaling x to x', decaying H to the
 * pivot of a chunk, the three products, decays per pair for wide-range chunks, sums for the gradient of dt, and the
 * ring of chunks that are recomputed for the state alone. ssd_fused_consumer.cuh puts them in order. */
#ifndef MBA_SSD_FUSED_GROUP_CUH
#define MBA_SSD_FUSED_GROUP_CUH

#include "ops/ssd/fused/ssd_fused_items.cuh"

#if MBA_HOPPER || !defined(__CUDA_ARCH__)

/* Loads from shared memory queue behind the wgmma that a warp has issued, and the compiler tends to hoist the first use
 * of a loaded value in between. Every load is therefore placed by hand, and opt_barrier() keeps its use below. */
struct consumer_warpgroup {
    typedef uint32_t        fragments[4][4];    /* 64 p x 64 positions, A operands: [16 positions][registers] */
    typedef uint32_t        packed_state[8][4]; /* 64 p x 128 n likewise: [16 n][registers] */
    scan_smem              &sm;
    const fused_task       &a;
    const scan_maps        &maps;
    const scan_split_table *r;                         /* split kernels: the ranges */
    int                     wg, tid, warp, lane, t4;   /* t4: lane % 4 */
    uint32_t                matrix_offset;             /* this lane's row for transposed ldmatrix and stmatrix */
    int                     s, ph;                     /* stage and phase of the main ring */
    int                     recompute_s, recompute_ph; /* of the ring of recomputed chunks */
    unsigned                chunks_done;               /* bit 0: output tile; bit 1: phase of its barrier x_full */
    scan_item               it;
    int                     head, c, last_c;   /* head; current chunk and last chunk of the item */
    int                     chunks_left;       /* split kernels, instead of c: chunks after the current one */
    int                     half;              /* TILED = 2: wg, warp-uniform; its tile of n and half of the output */
    float                   D0, D1;            /* D of this thread's rows p and p + 8 */
    float                   pending_log_decay; /* log factor that the state in h still lacks */
    float                   h[64], y[32];      /* accumulators: the state, the output */
    float4                  out[4];            /* scale of the output: e (reverse: f) */
    fragments               raw, next;         /* x as loaded: of this chunk, of the next */
    uint32_t                in[16];            /* scale of `next`: f (reverse: e); 8 words high, 8 low halves */

    __device__ __forceinline__ consumer_warpgroup(scan_smem &smem, const fused_task &task, const scan_maps &m,
                                                  const scan_split_table *ranges, unsigned done)
        : sm(smem), a(task), maps(m), r(ranges)
    {
        uint32_t thread = threadIdx.x;
        opt_barrier(thread); // computed anew in the second pass: no register spans both
        wg = (int)thread >> 7;
        tid = (int)thread & 127;
        warp = tid >> 5;
        lane = tid & 31;
        t4 = lane & 3;
        matrix_offset = (uint32_t)(((lane >> 4) * 8 + (lane & 7)) * 128
                                   + ((2 * warp + ((lane >> 3) & 1)) ^ (lane & 7)) * 16);
        s = ph = recompute_s = recompute_ph = 0;
        chunks_done = done;
    }

    /* Broadcasts lane 0's value to the warp. The compiler must know that loop bounds and branches around wgmma are
     * warp-uniform: otherwise it computes operand descriptors per lane and moves each to a uniform register (R2UR). */
    static __device__ __forceinline__ int warp_broadcast(int v) { return __shfl_sync(0xffffffffu, v, 0); }

    /* ---- scaling: x' = f x (reverse: e dy), H1 = exp(m) H ---- */

    /* Loads the factors of `next` from a record (layout: ssd_fused.cuh). */
    __device__ __forceinline__ void fetch_scale(const float *rec)
    {
        const uint4 *scales = (const uint4 *)(rec + 64) + 2 * t4;
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const uint4 v = scales[(j >> 1) * 8 + (j & 1)];
            in[4 * j] = v.x;
            in[4 * j + 1] = v.y;
            in[4 * j + 2] = v.z;
            in[4 * j + 3] = v.w;
        }
    }
    /* x = x' of `next`, rounded to bf16. */
    __device__ __forceinline__ void scale(fragments &x)
    {
#pragma unroll
        for (int k = 0; k < 4; k++)
#pragma unroll
            for (int j = 0; j < 4; j++) {
                opt_barrier(next[k][j]);
                x[k][j] = times(next[k][j], in[2 * k + (j >> 1)], in[8 + 2 * k + (j >> 1)]);
            }
    }
    /* Decays H to H1, the state under the pivot of a chunk; `last` is the tail of the chunk's record. What the previous
     * chunk left pending is applied at the same time. Returns 0 if a reset drops the old state: the update then
     * overwrites H instead of adding to it. */
    __device__ __forceinline__ int decay_to_pivot(const float4 &last)
    {
        const float pending = pending_log_decay;
        float       factor = __expf(last.x + pending);
        pending_log_decay = last.y;
        if (__any_sync(0xffffffffu, last.x + pending < -80)) { // exp of the sum underflows; H does not
            factor = __expf(pending);
#pragma unroll
            for (int j = 0; j < 64; j++) h[j] *= factor;
            factor = __expf(last.x);
        }
#pragma unroll
        for (int j = 0; j < 64; j++) h[j] *= factor;
        return !((int)last.z & HAS_RESET);
    }

    /* ---- states in global memory: rows p = 16 warp + lane/4 (+ 8), columns n = 8 j + 2 t4 (+ 1) ---- */

    __device__ __forceinline__ int row_of(int q) const { return 16 * warp + (lane >> 2) + 8 * q; }
    /* The same row and column, computed anew at every call (opaque), so that they occupy no registers in between. */
    static __device__ __forceinline__ int opaque_row()
    {
        const int thread = opaque((int)threadIdx.x);
        return (thread >> 5 & 3) * 16 + (thread >> 2 & 7);
    }
    static __device__ __forceinline__ int opaque_col() { return 2 * (opaque((int)threadIdx.x) & 3); }

    /* This thread's first value of published state `number`; the others follow at a distance of 128. */
    __device__ __forceinline__ float *state_address(int number) const
    {
        return a.seg_state + ((int64_t)number * HEADS + wg) * FP * FN + tid;
    }
    /* Returns how many of `count` parts can be skipped, because the decays after them reach LOG_DECAY_MIN.
     * decay[i step] is the log decay across part i. */
    __device__ __forceinline__ int decayed_parts(const float *decay, int step, int count) const
    {
        float sum = 0;
        for (int n = 0; n < count; n += 32) {
            const float    run = warp_prefix_sum(decay[(count - 1 - min(n + lane, count - 1)) * step]);
            const unsigned gone = __ballot_sync(0xffffffffu, sum + run < LOG_DECAY_MIN);
            if (gone) return max(count - n - __ffs((int)gone), 0);
            sum += __shfl_sync(0xffffffffu, run, 31);
        }
        return 0;
    }
    /* Adds the contributions of `count` parts, which ssd_states computed, to H, in order. Two parts are in flight at a
     * time, because load latency is the cost. */
    __device__ __forceinline__ void accumulate_parts(int64_t first, int step, int count)
    {
        const int skip = decayed_parts(a.seg_decay + first, step, count);
        count -= skip;
        first += (int64_t)skip * step;
        const float *decay = a.seg_decay + first, *from = a.seg_state + first * FP * FN + tid;
        for (; count > 1; count -= 2) {
            const float *then = from + (int64_t)step * FP * FN;
            const float  d0 = __expf(decay[0]), d1 = __expf(decay[step]);
            float        s0[64], s1[64];
#pragma unroll
            for (int i = 0; i < 64; i++) s0[i] = from[i * 128];
#pragma unroll
            for (int i = 0; i < 64; i++) s1[i] = then[i * 128];
#pragma unroll
            for (int i = 0; i < 64; i++) h[i] = (h[i] * d0 + s0[i]) * d1 + s1[i];
            decay += 2 * step;
            from += 2 * (int64_t)step * FP * FN;
        }
        if (count <= 0) return;
        const float d = __expf(decay[0]);
#pragma unroll
        for (int i = 0; i < 64; i++) h[i] = h[i] * d + from[i * 128];
    }
    /* Writes H times f as state `number` and raises its flag, for the block that continues this item. */
    __device__ __forceinline__ void publish_state(int number, float f)
    {
        const int thread = opaque((int)threadIdx.x);
        float    *to = a.seg_state + ((int64_t)number * HEADS + (thread >> 7)) * FP * FN + (thread & 127);
#pragma unroll
        for (int i = 0; i < 64; i++) to[i * 128] = h[i] * f;
        publish(a.state_ready + number * HEADS + (thread >> 7));
    }
    /* Saves rows 0-7 of the warp's 16 rows: staged in shared memory, then one asynchronous bulk store, so that fewer
     * stores compete with loads. Thread 0 of the warpgroup has already waited in store_output() until the previous
     * copy had read the staging buffer. */
    template <bool HAS_OUTPUT> __device__ __forceinline__ void save_state_rows_0_7(const packed_state &h_bf16)
    {
        const int thread = opaque((int)threadIdx.x);
        uint4    *at = (uint4 *)sm.state[0] + (thread >> 5) * 128 + (thread >> 2 & 7) * 16 + (thread & 3);
        if ((thread & 31) == 0 && (!HAS_OUTPUT || (thread & 127))) bulk_wait_read<0>();
        __syncwarp();
#pragma unroll
        for (int k = 0; k < 8; k += 2)
            at[2 * k] = make_uint4(h_bf16[k][0], h_bf16[k][2], h_bf16[k + 1][0], h_bf16[k + 1][2]);
        fence_async();
        __syncwarp();
        if ((thread & 31) == 0) {
            bulk_store(sm.save_to[thread >> 5], smem_address(at), sizeof sm.state[0]);
            bulk_commit();
        }
        __syncwarp();
    }
    /* Saves rows 8-15 with plain stores, because the staging buffer is still busy, and advances the address. */
    template <bool REV> __device__ __forceinline__ void save_state_rows_8_15(const packed_state &h_bf16)
    {
        const int thread = opaque((int)threadIdx.x);
        uint4    *save_to = sm.save_to[thread >> 5], *to = save_to + 128 + (thread >> 2 & 7) * 16 + (thread & 3);
#pragma unroll
        for (int k = 0; k < 8; k += 2)
            to[2 * k] = make_uint4(h_bf16[k][1], h_bf16[k][3], h_bf16[k + 1][1], h_bf16[k + 1][3]);
        __syncwarp();
        if ((thread & 31) == 0) sm.save_to[thread >> 5] = save_to + (REV ? -1024 : 1024);
        __syncwarp();
    }

    /* ---- products: Y = H1 C^T + x' (C B^T)^T, then H1 += x' B ---- */

    /* Y = H1 C^T. */
    template <class STAGE> __device__ __forceinline__ void state_term(const packed_state &h_bf16, const STAGE &t)
    {
        const uint64_t d = wgmma_smem_desc(smem_address(t.k_of(half)));
#pragma unroll
        for (int k = 0; k < 8; k++)
            wgmma_n64_rs<0>(y, h_bf16[k], d + (((k >> 2) * TILE_BYTES + (k & 3) * 32) >> 4), k > 0);
    }
    /* H = keep H + x' B. */
    __device__ __forceinline__ void update(const fragments &x, const unsigned char *u, int keep)
    {
        const uint64_t d = wgmma_smem_desc(smem_address(u), TILE_BYTES);
#pragma unroll
        for (int k = 0; k < 4; k++) wgmma_n128_rs<1>(h, x[k], d + ((k * 2048) >> 4), k > 0 ? 1 : keep);
        wgmma_commit();
    }

    /* Y += x' (C B^T)^T; reverse: Y += dy' C B^T. */
    template <bool REV> __device__ __forceinline__ void cb_term(const fragments &x, const void *cb)
    {
        const uint64_t d = wgmma_smem_desc(smem_address(cb));
#pragma unroll
        for (int k = 0; k < 4; k++)
            if (REV) wgmma_n64_rs<1>(y, x[k], d + ((k * 2048) >> 4), 1);
            else wgmma_n64_rs<0>(y, x[k], d + ((k * 32) >> 4), 1);
    }
    /* ---- wide-range chunks: a decay per pair of tokens, correct for any decay ---- */

    /* Keeps loads in place: hoisted all together they would not fit into registers. */
    static __device__ __forceinline__ void compiler_fence() { asm volatile("" ::: "memory"); }
    template <int TILED = 0> __device__ __forceinline__ unsigned char *decayed_cb()
    {
        if (TILED == 2) return (unsigned char *)&sm.wide[WIDE_RANGE_STAGES]; // both warpgroups have the same head
        return (unsigned char *)&sm.st[WIDE_RANGE_STAGES] + wg * TILE_BYTES;
    }
    /* Writes C B^T times exp(cs_l - cs_s) to this head's tile. */
    template <int TILED, class STAGE> __device__ __forceinline__ void decay_cb(const STAGE &t, const float *cs)
    {
        constexpr int THREADS = TILED == 2 ? 256 : 128;
        for (int i = TILED == 2 ? (int)threadIdx.x : tid; i < FQ * FQ / 2; i += THREADS) {
            const int      l = i >> 5, q = i & 31, place = tile_at(l, q >> 2) + (q & 3) * 4;
            const uint32_t v = *(const uint32_t *)(t.cb + place);
            const float    cl = record_value(cs, l);
            const uint32_t w = pack(low_of(v) * __expf(fminf(cl - record_value(cs, 2 * q), 0)),
                                    high_of(v) * __expf(fminf(cl - record_value(cs, 2 * q + 1), 0)));
            *(uint32_t *)(decayed_cb<TILED>() + place) = w;
        }
    }
    /* Scales the state term of each position by its decay since the chunk began (reverse: until it ends). */
    template <bool REV> __device__ __forceinline__ void decay_rows(const float *cs, float all)
    {
#pragma unroll
        for (int k = 0; k < 8; k++) {
            const float c0 = record_value(cs, 8 * k + 2 * t4), c1 = record_value(cs, 8 * k + 2 * t4 + 1);
            const float d0 = __expf(REV ? all - c0 : c0), d1 = __expf(REV ? all - c1 : c1);
            y[4 * k] *= d0;
            y[4 * k + 1] *= d1;
            y[4 * k + 2] *= d0;
            y[4 * k + 3] *= d1;
            compiler_fence();
        }
    }
    /* Sets the scale of the output: all factors but dt (reverse) are already in. */
    template <bool REV, class STAGE> __device__ __forceinline__ void wide_range_scale(const STAGE &t)
    {
#pragma unroll
        for (int k = 0; k < 4; k++)
            out[k] = REV ? *((const float4 *)t.rec_of(wg) + 16 + 4 * t4 + k) : make_float4(1, 1, 1, 1);
    }
    /* x = dt x for the C B^T term; reverse: dy as it is. */
    template <bool REV> __device__ __forceinline__ void scale_by_dt(fragments &x, const float *dt)
    {
#pragma unroll
        for (int k = 0; k < 4; k++)
#pragma unroll
            for (int j = 0; j < 4; j++) {
                const int l = 16 * k + 8 * (j >> 1) + 2 * t4;
                x[k][j] = REV ? raw[k][j]
                              : pack(low_of(raw[k][j]) * record_value(dt, l),
                                     high_of(raw[k][j]) * record_value(dt, l + 1));
                opt_barrier(x[k][j]);
                compiler_fence();
            }
    }
    /* x = dt x decayed until the chunk ends, for the state update; reverse: dy decayed since the chunk began. */
    template <bool REV>
    __device__ __forceinline__ void scale_to_end(fragments &x, const float *cs, const float *dt, float all)
    {
#pragma unroll
        for (int k = 0; k < 4; k++)
#pragma unroll
            for (int j = 0; j < 4; j++) {
                const int   l = 16 * k + 8 * (j >> 1) + 2 * t4;
                const float f0 = REV ? __expf(record_value(cs, l))
                                     : record_value(dt, l) * __expf(all - record_value(cs, l));
                const float f1 = REV ? __expf(record_value(cs, l + 1))
                                     : record_value(dt, l + 1) * __expf(all - record_value(cs, l + 1));
                x[k][j] = pack(low_of(raw[k][j]) * f0, high_of(raw[k][j]) * f1);
                opt_barrier(x[k][j]);
                compiler_fence();
            }
    }
    /* ---- reverse: sums for the gradients of dt and D ---- */

    /* Products <x'_s, gradient of x'_s> of this thread's rows for four positions, and dD. v: gradients; dy: as loaded;
     * at: x. x' is rounded to bf16 as in ssd_bwd_bc, so that both sums cancel there. */
    static __device__ __forceinline__ void source_sums(float *src, float2 &dD, const float *v, const float4 &out,
                                                       const uint32_t (&dy)[4], uint32_t at)
    {
        uint32_t x[4];
        ldmatrix_t_at(x, at);
        const uint2    f0 = split(out.x, out.y), f1 = split(out.z, out.w);
        const uint32_t s0 = times(x[0], f0.x, f0.y), s1 = times(x[1], f0.x, f0.y), s2 = times(x[2], f1.x, f1.y),
                       s3 = times(x[3], f1.x, f1.y);
        src[0] = low_of(s0) * v[0] + low_of(s1) * v[2];
        src[1] = high_of(s0) * v[1] + high_of(s1) * v[3];
        src[2] = low_of(s2) * v[4] + low_of(s3) * v[6];
        src[3] = high_of(s2) * v[5] + high_of(s3) * v[7];
        dD.x += low_of(x[0]) * low_of(dy[0]) + high_of(x[0]) * high_of(dy[0]) + low_of(x[2]) * low_of(dy[2])
                + high_of(x[2]) * high_of(dy[2]);
        dD.y += low_of(x[1]) * low_of(dy[1]) + high_of(x[1]) * high_of(dy[1]) + low_of(x[3]) * low_of(dy[3])
                + high_of(x[3]) * high_of(dy[3]);
    }
    /* One step of a reduce-scatter of 16 sums over the eight lanes that share positions: each lane keeps KEPT sums. */
    template <int KEPT, int BIT> __device__ __forceinline__ void reduce_scatter(float (&src)[16])
    {
        const bool upper = lane & BIT;
#pragma unroll
        for (int i = 0; i < KEPT; i++) {
            const float give = upper ? src[i] : src[i + KEPT], mine = upper ? src[i + KEPT] : src[i];
            src[i] = mine + __shfl_xor_sync(0xffffffffu, give, BIT);
        }
    }
    /* Where warp `of` puts its partial sum of position l. By default the tile of dy is reused: no other warp reads this
     * warp's 32 bytes of its rows, and in every eighth row the swizzle leaves the columns in order (tile_at). */
    template <bool SPLIT, int TILED = 0> __device__ __forceinline__ float *source_partial(int of, int l)
    {
        if (SPLIT) return &sm.aux.src[wg][chunks_done & 1][of][l];
        return (float *)(stage_of<TILED>(sm, s).x_of(wg) + (l >> 3) * 8 * TILE_ROW_BYTES + of * 32) + (l & 7);
    }
    template <bool SPLIT> __device__ __forceinline__ void reduce_sources(float (&src)[16])
    {
        reduce_scatter<8, 16>(src);
        reduce_scatter<4, 8>(src);
        reduce_scatter<2, 4>(src);
        *(float2 *)source_partial<SPLIT>(warp, 2 * lane) = make_float2(src[0], src[1]);
    }

    /* Reverse: stores this item's partial sum of dD. */
    template <int SPLIT> __device__ __forceinline__ void store_skip_sums()
    {
        float2 dD = sm.skip[wg][tid];
#pragma unroll
        for (int d = 1; d < 4; d *= 2) {
            dD.x += __shfl_xor_sync(0xffffffffu, dD.x, d);
            dD.y += __shfl_xor_sync(0xffffffffu, dD.y, d);
        }
        const int row = opaque_row();
        float    *to = a.dD + (((int64_t)it.b * a.segments + it.seg) * a.H + head) * FP;
        if (opaque_col()) return;
        to[row] = dD.x;
        to[row + 8] = dD.y;
        for (int j = it.seg + 1; SPLIT && it.last && j < a.segments; j++) { // this item has fewer ranges than others
            to += (int64_t)a.H * FP;
            to[row] = to[row + 8] = 0;
        }
    }

    /* ---- recomputed chunks: H only, no output, in a ring of their own ---- */

    __device__ __forceinline__ void next_state_only_stage()
    {
        recompute_s = recompute_s + 1 == STATE_ONLY_STAGES ? 0 : recompute_s + 1;
        recompute_ph ^= recompute_s == 0;
    }
    __device__ __forceinline__ void load_state_only_x(fragments &x, int at, int phase)
    {
        mbar_wait(smem_address(&sm.recompute_full[at]), phase);
#pragma unroll
        for (int k = 0; k < 4; k++)
            ldmatrix_t_at(next[k], smem_address(sm.recompute[at].x[wg]) + matrix_offset + k * 16 * 128);
        fetch_scale(sm.recompute[at].rec[wg]);
        scale(x);
    }
    /* H = decayed H + x' B for one chunk, while x of the next is loaded and scaled. */
    __device__ __forceinline__ void process_state_only_chunk(fragments &x, fragments &x_next, bool more)
    {
        const state_only_stage &t = sm.recompute[recompute_s];
        const int               now = recompute_s, keep = decay_to_pivot(*(const float4 *)(t.rec[wg] + REC_BEFORE));
        wgmma_fence();
        update(x, t.u, keep);
        next_state_only_stage();
        if (more) load_state_only_x(x_next, recompute_s, recompute_ph);
        wgmma_wait<0>();
        mbar_release(smem_address(&sm.recompute_empty[now]), lane);
        chunks_left--;
    }
    /* Recomputes H over `count` chunks, an even number. */
    __device__ __forceinline__ void recompute_state(fragments &A, fragments &B, int count)
    {
        if (count) load_state_only_x(A, recompute_s, recompute_ph);
        for (; count > 0; count -= 2) {
            process_state_only_chunk(A, B, true);
            process_state_only_chunk(B, A, count > 2);
        }
    }
};

#endif

#endif
