// SPDX-License-Identifier: Apache-2.0
/* ssd_fused_scan.cuh -- the walks of `fused`: the state in registers, y forwards, dx backwards (ssd_fused.cuh).
 *
 * kernel     ssd_scan, ssd_scan_rev    persistent; item = (sequence, segment, two heads of a group); one producer
 *            thread, two warpgroups of 240 registers, one head each; ring of three stages of 58 KB by TMA
 * launch     grid min(items, SMs), block 384, dynamic smem 227 KB; items with a slow chunk after the others
 * moves      per chunk and two heads: x 16 KB, C, B, C B^T 40 KB (from L2), y 16 KB; tensor 2 x 640 cycles
 * takes      bf16, P 64, N 128, H/G even, rows at multiples of 16 bytes
 * resources  sm_90a, CUDA 13.0: ssd_scan 168 registers, no spill  [docs]
 *            ssd_scan_rev 168 registers, no spill  [docs]
 * measured   H200: ssd_scan 83.7 us, 92 % of floor (memory), DRAM 70 % busy; mamba2-headline, 4 x 4096  [docs]
 *            ssd_scan_rev 105 us, 90 % of floor (memory), DRAM 71 % busy; mamba2-headline, 4 x 4096  [docs]
 * kernel     ssd_scan_split, ssd_scan_rev_split    the same walks; a block takes a range of the row of all chunks
 *            (ssd_split.c), a list of pieces of items; states go from block to block where items are many, else a block
 *            makes the one it begins with again, from those chunks of the piece before its own that are not forgotten
 *            and the state that entered that piece, which the block that has it hands on before its first output
 * order      fixed: chunks in turn, states folded in order; no atomics on floats. Only a cut walk waits for another
 *            block: for a state which that one makes before all else (await() gives up after seconds) */
#ifndef MBA_SSD_FUSED_SCAN_CUH
#define MBA_SSD_FUSED_SCAN_CUH

#include "device/cuda/block_timestamps.cuh"
#include "ops/ssd/ssd_fused_group.cuh"

#if MBA_HOPPER || !defined(__CUDA_ARCH__)

/* The walk of a warpgroup: one head, item after item. EXACT: operands are two bf16 each. LATE: x of a chunk comes when
 * it is needed, not a chunk ahead, as registers are short. */
template <bool EXACT, bool REV, int WHAT, bool SLOW, int CUT> struct scan_consumer : consumer_warpgroup {
    using consumer_warpgroup::consumer_warpgroup;
    static constexpr bool STAGED = staged(EXACT, WHAT, REV, CUT), LATE = SLOW || EXACT;

    /* Which of the two tiles y leaves through. Cut items, forward: no register for `steps`. */
    __device__ __forceinline__ unsigned tile_no() const { return CUT && !REV ? (unsigned)left & 1 : steps & 1; }

    /* All threads of this warpgroup. Numbers of barriers are constants: else all sixteen count as used. */
    __device__ __forceinline__ void warpgroup_sync()
    {
        if (CUT ? opaque((int)threadIdx.x) >> 7 : wg) bar_sync<2, 128>();
        else bar_sync<1, 128>();
    }

    /* The next chunk: x, and its scale. */
    __device__ __forceinline__ void fetch_x(int at, int phase)
    {
        mbar_wait(smem_address(&sm.full[SLOW][at]), phase);
#pragma unroll
        for (int k = 0; k < 4; k++) ldmatrix_t_at(next[k], smem_address(sm.st[at].x[wg]) + moff + k * 16 * 128);
    }
    __device__ __forceinline__ void fetch(int at, int phase)
    {
        fetch_x(at, phase);
        fetch_scale(sm.st[at].rec[wg]);
    }
    __device__ __forceinline__ void operands(const scan_stage &t)
    {
#pragma unroll
        for (int k = 0; k < 4; k++) {
            out[k] = *((const float4 *)t.rec[wg] + 4 * t4 + k);
            ldmatrix_t_at(raw[k], smem_address(t.x[wg]) + moff + k * 16 * 128);
        }
        if (CUT || EXACT) { // no registers for them all the way
            const float2 D = sm.cut.D[threadIdx.x];
            D0 = D.x;
            D1 = D.y;
        }
    }

    /* Where this is. */
    __device__ __forceinline__ int my_b() const { return CUT ? sm.kept[wg * 4 + warp].b : it.b; }
    __device__ __forceinline__ int my_head() const { return CUT ? sm.kept[wg * 4 + warp].head : head; }
    __device__ __forceinline__ int chunk() const
    {
        return !CUT ? c : REV ? sm.kept[wg * 4 + warp].last + left : sm.kept[wg * 4 + warp].last - left;
    }
    /* Row of (sequence, head) in scratch. Made anew where it is wanted: addresses kept all the way cost registers. */
    __device__ __forceinline__ int64_t bh() const
    {
        int b = my_b();
        asm volatile("" : "+r"(b));
        return (int64_t)b * a.H + my_head();
    }
    /* Row n of the `count` that scratch has for it: 32 bits hold it (check_fused). */
    __device__ __forceinline__ int64_t row_of_head(int count, int n) const
    {
        if (!CUT) return bh() * count + n;
        return (int64_t)((unsigned)(my_b() * a.H + my_head()) * (unsigned)count + (unsigned)n);
    }

    __device__ __forceinline__ void load_passed_state()
    {
        int *there = a.handed + it.from * HEADS + wg;
        if (tid == 0) {
            await(there, 4); // a warp each
            *there = 0;      // as it was before the launch
        }
        warpgroup_sync();
        const float *from = state_no(it.from);
#pragma unroll
        for (int i = 0; i < 64; i++) h[i] = load_l2(from + i * 128);
    }
    /* Walked again: adds what entered the piece before this one, as far as it passes through, and leaves what enters
     * this one for the block that goes on. Where nothing passes, the flag is waited for all the same: somebody has to
     * clear it. */
    __device__ __forceinline__ void exchange_state()
    {
        const int thread = opaque((int)threadIdx.x), mine = thread >> 7; // nothing is kept for this
        const int from = warp_broadcast(sm.kept[thread >> 5].from), leave = warp_broadcast(sm.kept[thread >> 5].leave);
        if (from >= 0) {
            const float  owed = __expf(after), passes = __expf(sm.passes[mine]);
            int         *there = a.handed + from * HEADS + mine;
            const float *state = a.seg_state + ((int64_t)from * HEADS + mine) * FP * FN + (thread & 127);
            if ((thread & 127) == 0) {
                await(there, 4);
                *there = 0;
            }
            warpgroup_sync();
#pragma unroll
            for (int i = 0; i < 64; i++) h[i] = h[i] * owed + (passes > 0 ? passes * load_l2(state + i * 128) : 0);
            after = 0;
        }
        if (leave >= 0) publish_state(leave, __expf(after));
    }
    /* What the earlier (reverse: later) segments leave. */
    __device__ __forceinline__ void fold_segments()
    {
        const int all = a.segments * a.parts, done = REV ? (a.segments - 1 - it.seg) * a.parts : it.seg * a.parts;
        accumulate_parts(bh() * all + (REV ? all - 1 : 0), REV ? -1 : 1, done);
    }
    __device__ __forceinline__ bool ends_sequence() const
    {
        return CUT ? it.last : it.seg == (REV ? 0 : a.segments - 1);
    }
    __device__ __forceinline__ void enter_state()
    {
        const strided<const float> &from = REV ? a.dfinal : a.initial;
#pragma unroll
        for (int i = 0; i < 64; i++) h[i] = 0;
        if (CUT == STATE_PASSED && it.from >= 0) {
            load_passed_state();
            return;
        }
        const int row = fresh_row(), col = fresh_col();
        if (from.at && reaches_begin())
#pragma unroll
            for (int j = 0; j < 16; j++)
#pragma unroll
                for (int i = 0; i < 4; i++)
                    h[4 * j + i] = from.row(it.b, head, row + 8 * (i >> 1))[8 * j + col + (i & 1)];
        if (CUT == WHOLE) fold_segments();
    }
    __device__ __forceinline__ void leave_state()
    {
        const float f = __expf(after);
        if (CUT == STATE_PASSED && it.leave >= 0) publish_state(it.leave, f);
        const strided<float> &to = REV ? a.dinitial : a.final;
        if (!has_output(WHAT) || !to.at || !ends_sequence()) return;
        const bool adds = REV && a.adds[DINITIAL];
        const int  row = fresh_row(), col = fresh_col();
#pragma unroll
        for (int j = 0; j < 16; j++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                float *e = to.row(it.b, head, row + 8 * (i >> 1)) + 8 * j + col + (i & 1);
                *e = h[4 * j + i] * f + (adds ? *e : 0);
            }
    }
    /* ---- states that are kept ---- */

    /* Where the first of this piece goes. Only the first lane of a warp asks. */
    __device__ __forceinline__ void find_saved()
    {
        const int first = REV ? (it.c0 + it.chunks - it.again - 2) >> 1 : (it.c0 + it.again + 1) >> 1;
        const int thread = opaque((int)threadIdx.x);
        if ((thread & 31) == 0)
            sm.goes[thread >> 5] = (uint4 *)(REV ? a.saved_rev : a.saved)
                                   + ((bh() * (a.K / 2) + first) * 64 + warp * 16) * 16;
    }
    /* bf16, n in the order in which threads have it, so that four write 64 bytes in a row; ssd_bwd_bc undoes it. What
     * its rounding lost goes so many states later. */
    __device__ __forceinline__ void save_state(const packed_state &ha, int later = 0)
    {
        uint32_t *saved = REV ? a.saved_rev : a.saved;
        const int thread = opaque((int)threadIdx.x); // row_of and t4 of it; cut items, exact: nothing is kept for this
        const int row = CUT || EXACT ? (thread >> 5 & 3) * 16 + (thread >> 2 & 7) : row_of(0);
        const int col = CUT || EXACT ? thread & 3 : t4;
#pragma unroll
        for (int q = 0; q < 2; q++) {
            uint4 *to = (uint4 *)saved + ((row_of_head(a.K / 2, chunk() >> 1) + later) * 64 + row + 8 * q) * 16 + col;
#pragma unroll
            for (int k = 0; k < 8; k += 2)
                to[2 * k] = make_uint4(ha[k][q], ha[k][q + 2], ha[k + 1][q], ha[k + 1][q + 2]);
        }
    }
    /* Eight of a warp's sixteen rows, which lie side by side in memory: through shared memory, so that fewer stores are
     * in the way of loads. The first warp has waited in leave() until the copy before was read. */
    __device__ __forceinline__ void save_half(const packed_state &ha)
    {
        const int thread = opaque((int)threadIdx.x);
        uint4    *at = (uint4 *)sm.state[0] + (thread >> 5) * 128 + (thread >> 2 & 7) * 16 + (thread & 3);
        if ((thread & 31) == 0 && (!has_output(WHAT) || (thread & 127))) bulk_wait_read<0>();
        __syncwarp();
#pragma unroll
        for (int k = 0; k < 8; k += 2) at[2 * k] = make_uint4(ha[k][0], ha[k][2], ha[k + 1][0], ha[k + 1][2]);
        fence_async();
        __syncwarp();
        if ((thread & 31) == 0) {
            bulk_store(sm.goes[thread >> 5], smem_address(at), sizeof sm.state[0]);
            bulk_commit();
        }
        __syncwarp();
    }
    /* The other eight as they are: there is no room for them before the copy of the first ones has left. */
    __device__ __forceinline__ void save_rest(const packed_state &ha)
    {
        const int thread = opaque((int)threadIdx.x);
        uint4    *goes = sm.goes[thread >> 5], *to = goes + 128 + (thread >> 2 & 7) * 16 + (thread & 3);
#pragma unroll
        for (int k = 0; k < 8; k += 2) to[2 * k] = make_uint4(ha[k][1], ha[k][3], ha[k + 1][1], ha[k + 1][3]);
        __syncwarp();
        if ((thread & 31) == 0) sm.goes[thread >> 5] = goes + (REV ? -1024 : 1024);
        __syncwarp();
    }

    __device__ __forceinline__ void pairs_term(const fragments &x, const void *pairs)
    {
        const uint64_t d = wgmma_smem_desc(smem_address(pairs));
#pragma unroll
        for (int k = 0; k < 4; k++)
            if (REV) wgmma_n64_rs<1>(y, x[k], d + ((k * 2048) >> 4), 1);
            else wgmma_n64_rs<0>(y, x[k], d + ((k * 32) >> 4), 1);
    }
    template <bool OUT>
    __device__ __forceinline__ void products(const packed_state &ha, const fragments &x, const scan_stage &t, int keep)
    {
        wgmma_fence();
        if (OUT) {
            state_term(ha, t);
            pairs_term(x, t.cb);
            wgmma_commit();
            operands(t);
        }
        update(x, t.u, keep);
    }

    /* Exact: every operand as rounded, and what rounding lost, but for the product of two rests. */
    __device__ __forceinline__ void pairs_hi_lo(const fragments &x, const fragments &rest, const void *pairs,
                                                const void *pairs_rest)
    {
        pairs_term(x, pairs);
        pairs_term(x, pairs_rest);
        pairs_term(rest, pairs);
    }
    __device__ __forceinline__ void rest_of_state(packed_state &ha, bool output, bool saves)
    {
        if (output || saves) keep_residual(ha);
        if (saves) save_state(ha, residual_offset_states(a));
    }
    template <bool OUT>
    __device__ __forceinline__ void products_hi_lo(packed_state &ha, const fragments &x, const fragments &rest,
                                                   const scan_stage &t, int keep, bool saves)
    {
        if (OUT) {
            wgmma_fence();
            state_term(ha, t);
            pairs_hi_lo(x, rest, t.cb, pairs_rest_of(sm, s));
            wgmma_commit();
            wgmma_wait<0>(); // the rest of the state takes the same registers
        }
        rest_of_state(ha, OUT, saves);
        wgmma_fence();
        if (OUT) {
            state_term<true>(ha, t);
            wgmma_commit();
        }
        add_sources(x, t.u, keep);
        update(rest, t.u, 1);
        if (OUT) { // sooner there are no registers for them
            wgmma_wait<1>();
            operands(t);
        }
    }

    /* What the entering state gives to rows, a decay each. */
    __device__ __forceinline__ void decay_rows(const float *cs, float all)
    {
#pragma unroll
        for (int k = 0; k < 8; k++) {
            const float c0 = at(cs, 8 * k + 2 * t4), c1 = at(cs, 8 * k + 2 * t4 + 1);
            const float d0 = __expf(REV ? all - c0 : c0), d1 = __expf(REV ? all - c1 : c1);
            y[4 * k] *= d0;
            y[4 * k + 1] *= d1;
            y[4 * k + 2] *= d0;
            y[4 * k + 3] *= d1;
            in_order();
        }
    }
    __device__ __forceinline__ void slow_scale(const scan_stage &t) /* of what leaves */
    {
#pragma unroll
        for (int k = 0; k < 4; k++)
            out[k] = REV ? *((const float4 *)t.rec[wg] + 16 + 4 * t4 + k) : make_float4(1, 1, 1, 1);
    }
    __device__ __forceinline__ void slow_output(const packed_state &ha, fragments &x, const scan_stage &t, float all)
    {
        const float *cs = t.rec[wg], *dt = t.rec[wg] + 64;
        warpgroup_sync();
        decayed_pairs(t, cs);
        fence_async();
        warpgroup_sync();
        wgmma_fence();
        state_term(ha, t);
        wgmma_commit();
        wgmma_wait<0>();
        decay_rows(cs, all);
#pragma unroll
        for (int k = 0; k < 4; k++)
#pragma unroll
            for (int j = 0; j < 4; j++) {
                const int l = 16 * k + 8 * (j >> 1) + 2 * t4;
                x[k][j] = REV ? raw[k][j] : pack(low_of(raw[k][j]) * at(dt, l), high_of(raw[k][j]) * at(dt, l + 1));
                opt_barrier(x[k][j]);
                in_order();
            }
        wgmma_fence();
        pairs_term(x, own_pairs());
        wgmma_commit();
        wgmma_wait<0>();
    }
    template <bool OUT>
    __device__ __forceinline__ void slow_products(const packed_state &ha, fragments &x, const scan_stage &t, float all,
                                                  int keep)
    {
        const float *cs = t.rec[wg], *dt = t.rec[wg] + 64;
        const float  decay = __expf(all);
        operands(t);
#pragma unroll
        for (int i = 0; i < 64; i++) h[i] *= decay;
        if (OUT) slow_output(ha, x, t, all);
#pragma unroll
        for (int k = 0; k < 4; k++)
#pragma unroll
            for (int j = 0; j < 4; j++) {
                const int   l = 16 * k + 8 * (j >> 1) + 2 * t4;
                const float f0 = REV ? __expf(at(cs, l)) : at(dt, l) * __expf(all - at(cs, l));
                const float f1 = REV ? __expf(at(cs, l + 1)) : at(dt, l + 1) * __expf(all - at(cs, l + 1));
                x[k][j] = pack(low_of(raw[k][j]) * f0, high_of(raw[k][j]) * f1);
                opt_barrier(x[k][j]);
                in_order();
            }
        wgmma_fence();
        update(x, t.u, keep);
        wgmma_wait<0>();
        slow_scale(t);
    }

    /* The same, exact. x as seen from the end of the chunk (reverse: its beginning), or with its step alone. */
    template <bool TO_END>
    __device__ __forceinline__ void slow_sources(fragments &x, fragments &rest, const float *cs, const float *dt,
                                                 float all)
    {
#pragma unroll
        for (int k = 0; k < 4; k++)
#pragma unroll
            for (int j = 0; j < 4; j++) {
                const int   l = 16 * k + 8 * (j >> 1) + 2 * t4;
                const float d0 = REV ? 1 : at(dt, l), d1 = REV ? 1 : at(dt, l + 1);
                const float f0 = TO_END ? d0 * __expf(REV ? at(cs, l) : all - at(cs, l)) : d0;
                const float f1 = TO_END ? d1 * __expf(REV ? at(cs, l + 1) : all - at(cs, l + 1)) : d1;
                const uint2 w = split(low_of(raw[k][j]) * f0, high_of(raw[k][j]) * f1);
                x[k][j] = w.x;
                rest[k][j] = w.y;
                opt_barrier(x[k][j]);
                opt_barrier(rest[k][j]);
                in_order();
            }
    }
    __device__ __forceinline__ void slow_output_in_two(packed_state &ha, fragments &x, fragments &rest,
                                                       const scan_stage &t, float all, bool saves)
    {
        const float *cs = t.rec[wg], *dt = t.rec[wg] + 64;
        warpgroup_sync();
        decayed_pairs_hi_lo(t, cs);
        fence_async();
        warpgroup_sync();
        wgmma_fence();
        state_term(ha, t);
        wgmma_commit();
        wgmma_wait<0>();
        rest_of_state(ha, true, saves);
        wgmma_fence();
        state_term<true>(ha, t);
        wgmma_commit();
        wgmma_wait<0>();
        decay_rows(cs, all);
        operands(t);
        slow_sources<false>(x, rest, cs, dt, all);
        wgmma_fence();
        pairs_hi_lo(x, rest, own_pairs(), own_pairs_rest());
        wgmma_commit();
        wgmma_wait<0>();
    }
    template <bool OUT>
    __device__ __forceinline__ void slow_products_in_two(packed_state &ha, fragments &x, fragments &rest,
                                                         const scan_stage &t, float all, int keep, bool saves)
    {
        const float decay = __expf(all);
        if (OUT) slow_output_in_two(ha, x, rest, t, all, saves);
        else rest_of_state(ha, false, saves);
        operands(t);
#pragma unroll
        for (int i = 0; i < 64; i++) h[i] *= decay;
        slow_sources<true>(x, rest, t.rec[wg], t.rec[wg] + 64, all);
        wgmma_fence();
        add_sources(x, t.u, keep);
        update(rest, t.u, 1);
        wgmma_wait<0>();
        slow_scale(t);
    }

    /* ---- what leaves ---- */

    /* Reverse: x comes where dx will leave; each thread reads the bytes its warp will write. `n`: as `steps` then. */
    __device__ __forceinline__ void ask_for_x(int from, unsigned n)
    {
        const uint32_t bar = smem_address(&sm.came[wg][n & 1]);
        mbar_expect(bar, TILE_BYTES);
        tma_load3(smem_address(sm.y[wg][n & 1]), &maps.other, bar, my_head() * FP, from * FQ, my_b());
    }
    /* A whole chunk before it is wanted: as soon as dx of the chunk before this one has left that tile. */
    __device__ __forceinline__ void ask_for_next_x(bool saved)
    {
        if (tid != 0) return;
        if (saved) bulk_wait_read<1>(); // not for the state that has just been sent
        else bulk_wait_read<0>();
        ask_for_x(chunk() - 1, steps + 1);
    }
    __device__ __forceinline__ void store_sources()
    {
        if (tid < FQ)
            a.src[row_of_head(a.K, chunk()) * FQ + tid] = *source_at<!STAGED>(0, tid) + *source_at<!STAGED>(1, tid)
                                                          + *source_at<!STAGED>(2, tid) + *source_at<!STAGED>(3, tid);
    }
    __device__ __forceinline__ void store_skip_sums()
    {
        float2 dD = sm.skip[wg][tid];
#pragma unroll
        for (int d = 1; d < 4; d *= 2) {
            dD.x += __shfl_xor_sync(0xffffffffu, dD.x, d);
            dD.y += __shfl_xor_sync(0xffffffffu, dD.y, d);
        }
        const int row = fresh_row();
        float    *to = a.dD + (((int64_t)it.b * a.segments + it.seg) * a.H + head) * FP;
        if (fresh_col()) return;
        to[row] = dD.x;
        to[row + 8] = dD.y;
        for (int j = it.seg + 1; CUT && it.last && j < a.segments; j++) { // as many as items have at most
            to += (int64_t)a.H * FP;
            to[row] = to[row + 8] = 0;
        }
    }

    /* y = out Y + D x, from registers through a tile in shared memory; meanwhile the next chunk comes in. */
    __device__ __forceinline__ void leave(bool more, fragments &xn, int sn, int phn)
    {
        const uint32_t tile = smem_address(sm.y[CUT ? opaque((int)threadIdx.x) >> 7 : wg][tile_no()]);
        float          src[16];
        float2         dD = make_float2(0, 0);
        wgmma_wait<1>();
        if (!LATE && more) {
            fetch_x(sn, phn);
            if (!REV) fetch_scale(sm.st[sn].rec[wg]); // reverse: no registers for it yet
        }
#pragma unroll
        for (int k = 0; k < 4; k++)
#pragma unroll
            for (int j = 0; j < 4; j++) opt_barrier(raw[k][j]);
        if (REV) mbar_wait(smem_address(&sm.came[wg][steps & 1]), steps >> 1 & 1);
#pragma unroll
        for (int k = 0; k < 4; k++) {
            const float4   e = out[k];
            const float   *v = y + 8 * k;
            const uint32_t o[4] = { pack(v[0] * e.x + D0 * low_of(raw[k][0]), v[1] * e.y + D0 * high_of(raw[k][0])),
                                    pack(v[2] * e.x + D1 * low_of(raw[k][1]), v[3] * e.y + D1 * high_of(raw[k][1])),
                                    pack(v[4] * e.z + D0 * low_of(raw[k][2]), v[5] * e.w + D0 * high_of(raw[k][2])),
                                    pack(v[6] * e.z + D1 * low_of(raw[k][3]), v[7] * e.w + D1 * high_of(raw[k][3])) };
            if (REV) source_sums<EXACT>(src, dD, k, tile);
            stmatrix_t_at(tile + moff + k * 16 * 128, o);
        }
        if (!LATE && more) {
            if (REV) fetch_scale(sm.st[sn].rec[wg]);
            scale(xn);
        }
        if (REV) {
            keep_sources<!STAGED>(src);
            sm.skip[wg][tid].x += dD.x;
            sm.skip[wg][tid].y += dD.y;
        }
        fence_async();
        if (tid == 0) bulk_wait_read<0>(); // the other tile has left: it is free after the barrier
        warpgroup_sync();
        if (tid == 0) {
            tma_store3(&maps.y, tile, my_head() * FP, chunk() * FQ, my_b());
            bulk_commit();
        }
        if (REV) store_sources();
        steps++;
    }

    /* One chunk; false: it was the last. Silent: for the state alone, before the others. xn: x' of the next one; exact:
     * what the rounding of x' lost. */
    template <bool SILENT = false> __device__ __forceinline__ bool step(fragments &x, fragments &xn)
    {
        constexpr bool OUT = has_output(WHAT) && !SILENT;
        const bool     more = SILENT || (CUT ? left > 0 : c != last_c);
        scan_stage    &t = sm.st[s];
        const int      sn = next_stage<LATE>(s), phn = sn ? ph : ph ^ 1;
        if (LATE) {
            fetch(s, ph);
            if (EXACT) scale(x, xn);
            else scale(x);
        }
        const float4 last = *(const float4 *)(t.rec[wg] + REC_BEFORE);
        const int    flags = (int)last.z, keep = enter_chunk(last);
        packed_state ha;
#pragma unroll
        for (int k = 0; k < 8; k++)
#pragma unroll
            for (int j = 0; j < 4; j++) ha[k][j] = pack(h[8 * k + 2 * j], h[8 * k + 2 * j + 1]);
        const bool saves = !SILENT && saves_states(WHAT, REV) && (chunk() & 1) == REV;
        if (saves && !STAGED) save_state(ha);
        if (saves && STAGED) save_half(ha);
        if (saves && STAGED && !REV) save_rest(ha); // later there are no registers for its addresses
        if (EXACT) {
            if (SLOW && __any_sync(0xffffffffu, flags & IS_SLOW))
                slow_products_in_two<OUT>(ha, x, xn, t, last.w, keep, saves);
            else products_hi_lo<OUT>(ha, x, xn, t, keep, saves);
        } else {
            if (SLOW && __any_sync(0xffffffffu, flags & IS_SLOW)) slow_products<OUT>(ha, x, t, last.w, keep);
            else products<OUT>(ha, x, t, keep);
        }
        if (REV && OUT && more) ask_for_next_x(saves && STAGED);
        if (saves && STAGED && REV) save_rest(ha);
        if (OUT) {
            leave(more, xn, sn, phn);
        } else if (!LATE && more) {
            fetch(sn, phn);
            scale(xn);
        }
        wgmma_wait<0>();
        mbar_release(smem_address(&sm.empty[SLOW][s]), lane);
        s = sn;
        ph = phn;
        if (CUT) left--;
        else c += REV ? -1 : 1;
        return more;
    }

    __device__ __forceinline__ void take(int n)
    {
        it = item_no<REV, CUT>(a, r, n);
        if (CUT == STATE_RECOMPUTED) reach_back<REV>(sm, it);
        head = it.pair * HEADS + wg;
        c = REV ? it.c0 + it.chunks - 1 : it.c0;
        last_c = REV ? it.c0 : it.c0 + it.chunks - 1;
        if (!CUT) return;
        left = warp_broadcast(it.chunks - 1);
        it.from = warp_broadcast(it.from);
        it.leave = warp_broadcast(it.leave);
        it.again = warp_broadcast(it.again);
        __syncwarp();
        if (lane == 0) {
            auto &k = sm.kept[wg * 4 + warp];
            k.n = n;
            k.b = it.b;
            k.head = head;
            k.last = last_c;
            k.own = it.chunks - it.again;
            k.from = it.from;
            k.leave = it.leave;
        }
        __syncwarp();
    }
    /* Chunks that the other head alone wants; returns how many this one walks again. */
    __device__ __forceinline__ int skip_unneeded_chunks()
    {
        const int mine = min(warp_broadcast(sm.reach[opaque((int)threadIdx.x) >> 7]), it.again);
        for (int skip = it.again - mine; skip > 0; skip--) {
            mbar_wait(smem_address(SLOW ? &sm.full[SLOW][s] : &sm.quiet_full[quiet]), SLOW ? ph : quiet_ph);
            mbar_pass(smem_address(SLOW ? &sm.empty[SLOW][s] : &sm.quiet_empty[quiet]), lane);
            if (SLOW) {
                s = next_stage<SLOW>(s);
                ph ^= s == 0;
            } else {
                next_state_only();
            }
            left--;
        }
        return mine;
    }

    /* ---- chunks for the state alone, in a ring of their own ---- */

    __device__ __forceinline__ void next_state_only()
    {
        quiet = quiet + 1 == STATE_ONLY_STAGES ? 0 : quiet + 1;
        quiet_ph ^= quiet == 0;
    }
    __device__ __forceinline__ void fetch_state_only(fragments &x, int at, int phase)
    {
        mbar_wait(smem_address(&sm.quiet_full[at]), phase);
#pragma unroll
        for (int k = 0; k < 4; k++) ldmatrix_t_at(next[k], smem_address(sm.quiet[at].x[wg]) + moff + k * 16 * 128);
        fetch_scale(sm.quiet[at].rec[wg]);
        scale(x);
    }
    __device__ __forceinline__ void state_only_step(fragments &x, fragments &xn, bool more)
    {
        const state_only_stage &t = sm.quiet[quiet];
        const int               now = quiet, keep = enter_chunk(*(const float4 *)(t.rec[wg] + REC_BEFORE));
        wgmma_fence();
        update(x, t.u, keep);
        next_state_only();
        if (more) fetch_state_only(xn, quiet, quiet_ph);
        wgmma_wait<0>();
        mbar_release(smem_address(&sm.quiet_empty[now]), lane);
        left--;
    }
    __device__ __forceinline__ void recompute_state(fragments &A, fragments &B, int count)
    {
        if (count) fetch_state_only(A, quiet, quiet_ph);
        for (; count > 0; count -= 2) {
            state_only_step(A, B, true);
            state_only_step(B, A, count > 2);
        }
    }
    /* Whether the state that enters a sequence reaches this piece. */
    __device__ __forceinline__ bool reaches_begin() const
    {
        return CUT != STATE_RECOMPUTED || it.again == 0 || (REV ? it.c0 + it.chunks == a.K : it.c0 == 0);
    }
    __device__ __forceinline__ int walk(int n) /* returns n: nobody has to keep it meanwhile */
    {
        fragments A, B; // scaled x of two chunks in flight
        take(n);
        if (STAGED) find_saved();
        D0 = D1 = after = 0;
        if (has_output(WHAT) && a.skip_cols) {
            D0 = a.skip[a.skip_cols == 1 ? head : head * FP + (CUT ? fresh_row() : row_of(0))];
            D1 = a.skip[a.skip_cols == 1 ? head : head * FP + (CUT ? fresh_row() + 8 : row_of(1))];
        }
        if ((CUT || EXACT) && has_output(WHAT)) sm.cut.D[threadIdx.x] = make_float2(D0, D1);
        if (REV && has_output(WHAT)) {
            sm.skip[wg][tid] = make_float2(0, 0);
            if (tid == 0) ask_for_x(chunk() - it.again, steps);
        }
        const int again = CUT == STATE_RECOMPUTED ? skip_unneeded_chunks() : 0;
        enter_state();
        if (CUT && !REV && has_output(WHAT)) { // the tile of the piece before may be that of this one
            if (tid == 0) bulk_wait_read<0>();
            warpgroup_sync();
        }
        if (CUT == STATE_RECOMPUTED && !SLOW) recompute_state(A, B, again);
        while (CUT == STATE_RECOMPUTED && SLOW && left >= warp_broadcast(sm.kept[wg * 4 + warp].own)) step<true>(A, B);
        if (CUT == STATE_RECOMPUTED) exchange_state();
        if (!LATE) {
            fetch(s, ph);
            scale(A);
        }
        while (step(A, B) && (LATE || step(B, A))) {
        }
        if (CUT) n = sm.kept[wg * 4 + warp].n;
        asm volatile("" : "+r"(n)); // so that nothing of this is kept in registers all the way
        take(n);
        leave_state();
        if (REV && has_output(WHAT)) store_skip_sums();
        return n;
    }
};

template <bool EXACT, bool REV, int WHAT, bool SLOW, int CUT>
static __device__ __forceinline__ unsigned loop_items(scan_smem &sm, const fused_task &a, const scan_maps &maps,
                                                      const scan_split_table *r, unsigned steps)
{
    scan_consumer<EXACT, REV, WHAT, SLOW, CUT> w(sm, a, maps, r, steps);
    for (int n = 0; CUT ? w.warp_broadcast(has_item<CUT>(a, r, n)) : has_item<CUT>(a, r, n); n++)
        if (CUT ? w.warp_broadcast(in_this_pass<SLOW>(sm, n)) : in_this_pass<SLOW>(sm, n)) {
            const int same = w.walk(n);
            if (CUT) n = w.warp_broadcast(same);
        }
    return CUT && !REV ? 0 : w.steps;
}

/* Items in range first, then those with a slow chunk, as a rule none: each pass has a loop without the other's code. */
template <bool EXACT, bool REV, int WHAT, int CUT>
static __device__ __forceinline__ void scan_block_run(const fused_task &a, const scan_maps &maps,
                                                      const scan_split_table *cuts)
{
    MBA_DYNAMIC_SMEM(smem);
    scan_smem &sm = *(scan_smem *)(smem + ((1024 - (smem_address(smem) & 1023)) & 1023));
    if (!CUT) MBA_BLOCK_BEGINS;
    if (threadIdx.x == 0) {
        for (int i = 0; i < 2 * STAGES; i++) {
            mbar_init(smem_address(&sm.full[0][i]), 1);
            mbar_init_warps(smem_address(&sm.empty[0][i]), 4 * HEADS);
        }
        for (int i = 0; i < HEADS; i++)
            for (int j = 0; j < 2; j++) mbar_init(smem_address(&sm.came[i][j]), 1);
        for (int i = 0; CUT == STATE_RECOMPUTED && i < STATE_ONLY_STAGES; i++) {
            mbar_init(smem_address(&sm.quiet_full[i]), 1);
            mbar_init_warps(smem_address(&sm.quiet_empty[i]), 4 * HEADS);
        }
        mbar_init_done();
    }
    if (threadIdx.x < ITEM_WORDS) sm.slow[threadIdx.x] = 0;
    if (CUT == STATE_RECOMPUTED && threadIdx.x < HEADS) sm.reach[threadIdx.x] = 0;
    __syncthreads();
    if (!REV && WHAT == SCAN_OUT) wait_for_prior_grids();
    find_slow<REV, CUT>(sm, a, cuts);
    if (threadIdx.x >= 128 * HEADS) {
        warpgroup_reg_dealloc<24>();
        if (threadIdx.x != 128 * HEADS) return;
        scan_produce<EXACT, REV, WHAT, false, CUT>(sm, a, maps, cuts);
        if (*(volatile int *)&sm.any) scan_produce<EXACT, REV, WHAT, true, CUT>(sm, a, maps, cuts);
        return;
    }
    warpgroup_reg_alloc<240>();
    const unsigned steps = loop_items<EXACT, REV, WHAT, false, CUT>(sm, a, maps, cuts, 0);
    if (__any_sync(0xffffffffu, *(volatile int *)&sm.any)) { // a vote: else products below it are serialized
        bar_sync<3, 128 * HEADS>();                          // nobody reads the stage that C B^T with decays goes to
        loop_items<EXACT, REV, WHAT, true, CUT>(sm, a, maps, cuts, steps);
    }
    if ((threadIdx.x & (staged(EXACT, WHAT, REV, CUT) ? 31 : 127)) == 0) bulk_wait<0>();
    if (!CUT) MBA_BLOCK_ENDS;
}

#endif

template <int WHAT>
static __global__ void __launch_bounds__(128 * (HEADS + 1), 1)
    ssd_scan(const __grid_constant__ fused_task a, const __grid_constant__ scan_maps maps)
{
#if MBA_HOPPER
    scan_block_run<false, false, WHAT, WHOLE>(a, maps, nullptr);
#endif
}

template <int WHAT>
static __global__ void __launch_bounds__(128 * (HEADS + 1), 1)
    ssd_scan_rev(const __grid_constant__ fused_task a, const __grid_constant__ scan_maps maps)
{
#if MBA_HOPPER
    scan_block_run<false, true, WHAT, WHOLE>(a, maps, nullptr);
#endif
}

template <int WHAT, int CUT>
static __global__ void __launch_bounds__(128 * (HEADS + 1), 1)
    ssd_scan_split(const __grid_constant__ fused_task a, const __grid_constant__ scan_maps maps,
                   const __grid_constant__ scan_split_table cuts)
{
#if MBA_HOPPER
    scan_block_run<false, false, WHAT, CUT>(a, maps, &cuts);
#endif
}

template <int WHAT, int CUT>
static __global__ void __launch_bounds__(128 * (HEADS + 1), 1)
    ssd_scan_rev_split(const __grid_constant__ fused_task a, const __grid_constant__ scan_maps maps,
                       const __grid_constant__ scan_split_table cuts)
{
#if MBA_HOPPER
    scan_block_run<false, true, WHAT, CUT>(a, maps, &cuts);
#endif
}

#endif
