// SPDX-License-Identifier: Apache-2.0
/* ssd_fused_group.cuh -- a consumer warpgroup of the walks of `fused`: what it holds, and what it does the same way in
 * all of them: scaling, products, folding of states, sums (ssd_fused_scan.cuh walks). */
#ifndef MBA_SSD_FUSED_GROUP_CUH
#define MBA_SSD_FUSED_GROUP_CUH

#include "ops/ssd/ssd_fused_items.cuh"

#if MBA_HOPPER || !defined(__CUDA_ARCH__)

/* A consumer warpgroup: the head it walks, its state, and what is on its way. Loads from shared memory queue behind the
 * products a warp has issued, and the compiler likes to pull their first use up between those: every load is placed by
 * hand, and pin() keeps its use below the point where it is wanted. */
struct consumer_warpgroup {
    typedef uint32_t        fragments[4][4];    /* 64 p x 64 positions: [16 positions][as A of mma.cuh] */
    typedef uint32_t        packed_state[8][4]; /* 64 p x 128 n likewise */
    scan_smem              &sm;
    const fused_task       &a;
    const scan_maps        &maps;
    const scan_split_table *r;
    int                     wg, tid, warp, lane, t4;
    uint32_t                moff;            /* my row for ldmatrix and stmatrix, transposed */
    int                     s, ph;           /* place in the ring */
    int                     quiet, quiet_ph; /* in that of chunks for the state alone */
    unsigned                steps;           /* chunks so far: which output tile, and phase of its barrier */
    scan_item               it;
    int                     head, c, last_c; /* this chunk, the last one of the item */
    int                     left;            /* cut items, instead of c: chunks of the piece after this one */
    float                   D0, D1;          /* of my rows p and p + 8 */
    float                   after;           /* log factor owed to the state */
    float                   h[64], y[32];
    float4                  out[4];    /* scale of what leaves */
    fragments               raw, next; /* x of this chunk and of the next */
    uint32_t                in[16];    /* next: scale of what enters, upper halves, lower halves */

    __device__ __forceinline__ consumer_warpgroup(scan_smem &smem, const fused_task &task, const scan_maps &m,
                                                  const scan_split_table *cuts, unsigned done)
        : sm(smem), a(task), maps(m), r(cuts)
    {
        uint32_t thread = threadIdx.x;
        opt_barrier(thread); // so that nothing is made before the other pass for this one
        wg = (int)thread >> 7;
        tid = (int)thread & 127;
        warp = tid >> 5;
        lane = tid & 31;
        t4 = lane & 3;
        moff = (uint32_t)(((lane >> 4) * 8 + (lane & 7)) * 128 + ((2 * warp + ((lane >> 3) & 1)) ^ (lane & 7)) * 16);
        s = ph = quiet = quiet_ph = 0;
        steps = done;
    }

    /* A number that all lanes share, so that the compiler knows: loops around products must depend on such alone, or
     * every lane addresses their operands and copies the addresses to where products want them. */
    static __device__ __forceinline__ int warp_broadcast(int v) { return __shfl_sync(0xffffffffu, v, 0); }

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
    /* Exact: x', and what its rounding lost. */
    __device__ __forceinline__ void scale(fragments &x, fragments &rest)
    {
        scale(x);
#pragma unroll
        for (int k = 0; k < 4; k++)
#pragma unroll
            for (int j = 0; j < 4; j++)
                rest[k][j] = times_rest(next[k][j], in[2 * k + (j >> 1)], in[8 + 2 * k + (j >> 1)], x[k][j]);
    }
    /* What the rounding of the state lost takes the place of what it left. */
    __device__ __forceinline__ void keep_residual(packed_state &ha) const
    {
#pragma unroll
        for (int k = 0; k < 8; k++)
#pragma unroll
            for (int j = 0; j < 4; j++)
                ha[k][j] = pack(h[8 * k + 2 * j] - low_of(ha[k][j]), h[8 * k + 2 * j + 1] - high_of(ha[k][j]));
    }
    /* The state under the pivot of the next chunk; returns whether the update adds to it. */
    __device__ __forceinline__ int enter_chunk(const float4 &last)
    {
        const float owed = after;
        float       factor = __expf(last.x + owed);
        after = last.y;
        if (__any_sync(0xffffffffu, last.x + owed < -80)) { // together they would underflow, the state would not
            factor = __expf(owed);
#pragma unroll
            for (int j = 0; j < 64; j++) h[j] *= factor;
            factor = __expf(last.x);
        }
#pragma unroll
        for (int j = 0; j < 64; j++) h[j] *= factor;
        return !((int)last.z & HAS_RESET);
    }
    /* ---- states outside: rows p = 16 warp + lane/4 (+ 8), columns 8 j + 2 t4 (+ 1) ---- */
    __device__ __forceinline__ int        row_of(int q) const { return 16 * warp + (lane >> 2) + 8 * q; }
    static __device__ __forceinline__ int fresh_row() /* the first of them; nobody has to keep it */
    {
        const int thread = opaque((int)threadIdx.x);
        return (thread >> 5 & 3) * 16 + (thread >> 2 & 7);
    }
    static __device__ __forceinline__ int fresh_col() { return 2 * (opaque((int)threadIdx.x) & 3); }

    /* Handed on: state `number` of this head. */
    __device__ __forceinline__ float *state_no(int number) const
    {
        return a.seg_state + ((int64_t)number * HEADS + wg) * FP * FN + tid;
    }
    /* Of `count` parts: how many come before those on which the state after all of them depends. */
    __device__ __forceinline__ int decayed_parts(const float *decay, int step, int count) const
    {
        float sum = 0;
        for (int n = 0; n < count; n += 32) {
            const float    run = decay_so_far(decay[(count - 1 - min(n + lane, count - 1)) * step]);
            const unsigned gone = __ballot_sync(0xffffffffu, sum + run < LOG_DECAY_MIN);
            if (gone) return max(count - n - __ffs((int)gone), 0);
            sum += __shfl_sync(0xffffffffu, run, 31);
        }
        return 0;
    }
    /* What ssd_states left of `count` parts, in order, two at a time: what costs is waiting for them. */
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
    /* To the block that continues this item. */
    __device__ __forceinline__ void publish_state(int number, float f)
    {
        const int thread = opaque((int)threadIdx.x);
        float    *to = a.seg_state + ((int64_t)number * HEADS + (thread >> 7)) * FP * FN + (thread & 127);
#pragma unroll
        for (int i = 0; i < 64; i++) to[i * 128] = h[i] * f;
        publish(a.handed + number * HEADS + (thread >> 7));
    }
    /* ---- products: Y = H1 C^T + x' (C B^T)^T, then H1 += x' B ---- */
    template <bool ADDS = false> __device__ __forceinline__ void state_term(const packed_state &ha, const scan_stage &t)
    {
        const uint64_t d = wgmma_smem_desc(smem_address(t.k));
#pragma unroll
        for (int k = 0; k < 8; k++)
            wgmma_n64_rs<0>(y, ha[k], d + (((k >> 2) * TILE_BYTES + (k & 3) * 32) >> 4), ADDS || k > 0);
    }
    __device__ __forceinline__ void add_sources(const fragments &x, const unsigned char *u, int keep)
    {
        const uint64_t d = wgmma_smem_desc(smem_address(u), TILE_BYTES);
#pragma unroll
        for (int k = 0; k < 4; k++) wgmma_n128_rs<1>(h, x[k], d + ((k * 2048) >> 4), k > 0 ? 1 : keep);
    }
    __device__ __forceinline__ void update(const fragments &x, const unsigned char *u, int keep)
    {
        add_sources(x, u, keep);
        wgmma_commit();
    }

    /* A decay per pair: right for any decay. Loads stay where they stand: all at once would not fit into registers. */
    static __device__ __forceinline__ void  in_order() { asm volatile("" ::: "memory"); }
    static __device__ __forceinline__ float at(const float *v, int l) /* position l of a record */
    {
        return v[((l >> 1) & 3) * 16 + (l >> 4) * 4 + ((l >> 3) & 1) * 2 + (l & 1)];
    }
    __device__ __forceinline__ unsigned char *own_pairs()
    {
        return (unsigned char *)&sm.st[SLOW_STAGES] + wg * TILE_BYTES;
    }
    __device__ __forceinline__ unsigned char *own_pairs_rest() { return own_pairs() + HEADS * TILE_BYTES; }
    __device__ __forceinline__ void           decayed_pairs(const scan_stage &t, const float *cs)
    {
        for (int i = tid; i < FQ * FQ / 2; i += 128) {
            const int      l = i >> 5, q = i & 31, place = tile_at(l, q >> 2) + (q & 3) * 4;
            const uint32_t v = *(const uint32_t *)(t.cb + place);
            const float    cl = at(cs, l);
            *(uint32_t *)(own_pairs() + place) = pack(low_of(v) * __expf(fminf(cl - at(cs, 2 * q), 0)),
                                                      high_of(v) * __expf(fminf(cl - at(cs, 2 * q + 1), 0)));
        }
    }
    /* Exact: the same as two bf16. */
    __device__ __forceinline__ void decayed_pairs_hi_lo(const scan_stage &t, const float *cs)
    {
        const unsigned char *rest = pairs_rest_of(sm, s);
        for (int i = tid; i < FQ * FQ / 2; i += 128) {
            const int      l = i >> 5, q = i & 31, place = tile_at(l, q >> 2) + (q & 3) * 4;
            const uint32_t v = *(const uint32_t *)(t.cb + place), r = *(const uint32_t *)(rest + place);
            const float    cl = at(cs, l);
            const uint2    w = split((low_of(v) + low_of(r)) * __expf(fminf(cl - at(cs, 2 * q), 0)),
                                     (high_of(v) + high_of(r)) * __expf(fminf(cl - at(cs, 2 * q + 1), 0)));
            *(uint32_t *)(own_pairs() + place) = w.x;
            *(uint32_t *)(own_pairs_rest() + place) = w.y;
        }
    }
    /* <x', gradient of x'> of four positions, and dD. x' as rows of pairs meet it: rounded, or (exact) not. */
    template <bool EXACT>
    __device__ __forceinline__ void source_sums(float (&src)[16], float2 &dD, int k, uint32_t tile)
    {
        uint32_t     x[4];
        const float *v = y + 8 * k;
        ldmatrix_t_at(x, tile + moff + k * 16 * 128);
        if (EXACT) {
            src[4 * k] = (low_of(x[0]) * v[0] + low_of(x[1]) * v[2]) * out[k].x;
            src[4 * k + 1] = (high_of(x[0]) * v[1] + high_of(x[1]) * v[3]) * out[k].y;
            src[4 * k + 2] = (low_of(x[2]) * v[4] + low_of(x[3]) * v[6]) * out[k].z;
            src[4 * k + 3] = (high_of(x[2]) * v[5] + high_of(x[3]) * v[7]) * out[k].w;
        } else {
            const uint2    f0 = split(out[k].x, out[k].y), f1 = split(out[k].z, out[k].w);
            const uint32_t s0 = times(x[0], f0.x, f0.y), s1 = times(x[1], f0.x, f0.y), s2 = times(x[2], f1.x, f1.y),
                           s3 = times(x[3], f1.x, f1.y);
            src[4 * k] = low_of(s0) * v[0] + low_of(s1) * v[2];
            src[4 * k + 1] = high_of(s0) * v[1] + high_of(s1) * v[3];
            src[4 * k + 2] = low_of(s2) * v[4] + low_of(s3) * v[6];
            src[4 * k + 3] = high_of(s2) * v[5] + high_of(s3) * v[7];
        }
        dD.x += low_of(x[0]) * low_of(raw[k][0]) + high_of(x[0]) * high_of(raw[k][0]) + low_of(x[2]) * low_of(raw[k][2])
                + high_of(x[2]) * high_of(raw[k][2]);
        dD.y += low_of(x[1]) * low_of(raw[k][1]) + high_of(x[1]) * high_of(raw[k][1]) + low_of(x[3]) * low_of(raw[k][3])
                + high_of(x[3]) * high_of(raw[k][3]);
    }
    /* Sixteen sums over the eight lanes that share positions: each step halves what a lane is left with. */
    template <int KEPT, int BIT> __device__ __forceinline__ void halve(float (&src)[16])
    {
        const bool upper = lane & BIT;
#pragma unroll
        for (int i = 0; i < KEPT; i++) {
            const float give = upper ? src[i] : src[i + KEPT], mine = upper ? src[i + KEPT] : src[i];
            src[i] = mine + __shfl_xor_sync(0xffffffffu, give, BIT);
        }
    }
    /* Of a warp, position l: in the tile that dy came in. The columns that a warp had of it nobody else reads: eight
     * numbers in each row whose columns lie in order (tile_at). */
    template <bool CUT> __device__ __forceinline__ float *source_at(int of, int l)
    {
        if (CUT) return &sm.cut.src[wg][steps & 1][of][l];
        return (float *)(sm.st[s].x[wg] + (l >> 3) * 8 * TILE_ROW_BYTES + of * 32) + (l & 7);
    }
    template <bool CUT> __device__ __forceinline__ void keep_sources(float (&src)[16])
    {
        halve<8, 16>(src);
        halve<4, 8>(src);
        halve<2, 4>(src);
        *(float2 *)source_at<CUT>(warp, 2 * lane) = make_float2(src[0], src[1]);
    }
};

#endif

#endif
