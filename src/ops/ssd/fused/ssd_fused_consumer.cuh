// SPDX-License-Identifier: Apache-2.0
/* ssd_fused_consumer.cuh -- the chunk loop of a consumer warpgroup of ssd_scan and ssd_scan_rev (ssd_fused_scan.cuh).
 *
 * process_item() handles one work item for one head: it gets the initial state, calls process_chunk() for each chunk
 * and stores the final state. process_chunk() decays H to the chunk's pivot, computes y = H C^T + x' (C B^T)^T and
 * H += x' B by wgmma, scales and stores y, and meanwhile loads x of the next chunk. Initial states come from the
 * operator's input and ssd_states (WHOLE), from the previous block (STATE_PASSED), or from recomputed chunks and the
 * previous block (STATE_RECOMPUTED). The registers and basic operations are in ssd_fused_group.cuh, those of TILED
 * kernels in ssd_fused_tiles.cuh; the producer that
 * fills the ring, shared memory and the template parameters are in ssd_fused_items.cuh. */
#ifndef MBA_SSD_FUSED_CONSUMER_CUH
#define MBA_SSD_FUSED_CONSUMER_CUH

#include <type_traits>

#include "ops/ssd/fused/ssd_fused_tiles.cuh"

#if MBA_HOPPER || !defined(__CUDA_ARCH__)

/* STAGED_SAVE: saved states go through shared memory. WIDE_RANGE: x of a chunk is loaded when it is needed instead of
 * one chunk ahead, because registers are short. */
template <typename P, bool WIDE_RANGE> struct scan_consumer : tiled_warpgroup {
    using tiled_warpgroup::tiled_warpgroup;
    static constexpr bool REV = P::REV;
    static constexpr int  WHAT = P::WHAT, SPLIT = P::SPLIT, TILED = P::TILED;
    static constexpr bool STAGED_SAVE = saves_through_smem(WHAT, REV, SPLIT);
    static constexpr bool WIDE = TILED == 2; /* one tile of p in both warpgroups, a tile of n each */
    typedef typename std::conditional<WIDE, wide_stage, scan_stage>::type stage;

    /* Index of the output tile of this chunk. Forward split kernels have no register for chunks_done. */
    __device__ __forceinline__ unsigned output_tile() const
    {
        return SPLIT && !REV ? (unsigned)chunks_left & 1 : chunks_done & 1;
    }

    /* Synchronizes the 128 threads of this warpgroup. The barrier number must be a constant: otherwise the block
     * reserves all sixteen. */
    __device__ __forceinline__ void warpgroup_sync()
    {
        if (SPLIT ? opaque((int)threadIdx.x) >> 7 : wg) bar_sync<2, 128>();
        else bar_sync<1, 128>();
    }

    /* Synchronizes all that read and write one head: the warpgroup, or both. */
    __device__ __forceinline__ void head_sync()
    {
        if (WIDE) bar_sync<3, 128 * HEADS>();
        else warpgroup_sync();
    }
    /* Whether this thread starts the copies of a head's x and output. */
    __device__ __forceinline__ bool copies() const { return tid == 0 && (!WIDE || wg == 0); }

    /* Waits for a stage and loads x of its chunk into `next`; fetch() also loads the factors. */
    __device__ __forceinline__ void fetch_x(int at, int phase)
    {
        mbar_wait(smem_address(&sm.full[WIDE_RANGE][at]), phase);
#pragma unroll
        for (int k = 0; k < 4; k++)
            ldmatrix_t_at(next[k], smem_address(stage_of<TILED>(sm, at).x_of(wg)) + matrix_offset + k * 16 * 128);
    }
    __device__ __forceinline__ void fetch(int at, int phase)
    {
        fetch_x(at, phase);
        fetch_scale(stage_of<TILED>(sm, at).rec_of(wg));
    }
    /* Loads what the output y = out Y + D x needs: its scale and x of this chunk. */
    __device__ __forceinline__ void load_output_operands(const stage &t)
    {
        const int first = WIDE && !WIDE_RANGE ? 2 * half : 0; // WIDE: of this warpgroup's half alone
#pragma unroll
        for (int k = 0; k < (WIDE && !WIDE_RANGE ? 2 : 4); k++) {
            out[k] = *((const float4 *)t.rec_of(wg) + 4 * t4 + first + k);
            ldmatrix_t_at(raw[k], smem_address(t.x_of(wg)) + matrix_offset + (first + k) * 16 * 128);
        }
        if (SPLIT) { // D is reloaded per chunk, because registers are short
            const float2 D = sm.aux.D[threadIdx.x];
            D0 = D.x;
            D1 = D.y;
        }
    }

    /* ---- position: split and TILED kernels keep it in shared memory ---- */
    __device__ __forceinline__ int my_b() const { return SPLIT || TILED ? sm.spilled[wg * 4 + warp].b : it.b; }
    __device__ __forceinline__ int my_head() const { return SPLIT || TILED ? sm.spilled[wg * 4 + warp].head : head; }
    __device__ __forceinline__ int chunk() const
    {
        return !SPLIT ? c
               : REV  ? sm.spilled[wg * 4 + warp].last + chunks_left
                      : sm.spilled[wg * 4 + warp].last - chunks_left;
    }
    /* Row of (sequence, head) in scratch. The asm makes the compiler recompute it at each use, as a kept address costs
     * registers. */
    __device__ __forceinline__ int64_t bh() const
    {
        int b = my_b();
        asm volatile("" : "+r"(b));
        return (int64_t)b * a.H + my_head();
    }
    /* Row n of the `count` rows per (sequence, head); check_fused() bounds it to 32 bits. */
    __device__ __forceinline__ int64_t row_of_head(int count, int n) const
    {
        if (!SPLIT) return bh() * count + n;
        return (int64_t)((unsigned)(my_b() * a.H + my_head()) * (unsigned)count + (unsigned)n);
    }

    /* ---- initial and final states ---- */

    /* STATE_PASSED: waits until the four warps of the previous block have published H, and loads it. Clears the flag,
     * because flags must be zero between launches. */
    __device__ __forceinline__ void receive_state()
    {
        int *ready = a.state_ready + it.receive * HEADS + wg;
        if (tid == 0) {
            await(ready, 4);
            *ready = 0;
        }
        warpgroup_sync();
        const float *from = state_address(it.receive);
#pragma unroll
        for (int i = 0; i < 64; i++) h[i] = load_l2(from + i * 128);
    }
    /* STATE_RECOMPUTED: completes the initial state after recompute_state():
     *     H = H exp(pending) + exp(through) H_prev
     * H_prev is the state that entered the preceding range, published by the block that owns it; `through` is the log
     * decay across that range. Then publishes H for the next block, before this block produces output. The flag is
     * awaited and cleared even where nothing of H_prev survives, because flags must be zero between launches. */
    __device__ __forceinline__ void add_predecessor_state()
    {
        const int thread = opaque((int)threadIdx.x), mine = thread >> 7; // opaque: keeps no registers for this
        const int from = warp_broadcast(sm.spilled[thread >> 5].receive);
        const int number = warp_broadcast(sm.spilled[thread >> 5].publish);
        if (from >= 0) {
            const float  pending = __expf(pending_log_decay), through = __expf(sm.through_log_decay[mine]);
            int         *ready = a.state_ready + from * HEADS + mine;
            const float *state = a.seg_state + ((int64_t)from * HEADS + mine) * FP * FN + (thread & 127);
            if ((thread & 127) == 0) {
                await(ready, 4);
                *ready = 0;
            }
            warpgroup_sync();
#pragma unroll
            for (int i = 0; i < 64; i++) h[i] = h[i] * pending + (through > 0 ? through * load_l2(state + i * 128) : 0);
            pending_log_decay = 0;
        }
        if (number >= 0) publish_state(number, __expf(pending_log_decay));
    }
    /* WHOLE: adds what ssd_states computed for the earlier segments of the sequence (reverse: the later ones). */
    __device__ __forceinline__ void add_segment_states()
    {
        const int all = a.segments * a.parts, done = REV ? (a.segments - 1 - it.seg) * a.parts : it.seg * a.parts;
        accumulate_parts(bh() * all + (REV ? all - 1 : 0), REV ? -1 : 1, done);
    }
    __device__ __forceinline__ bool ends_sequence() const
    {
        return SPLIT ? it.last : it.seg == (REV ? 0 : a.segments - 1);
    }
    /* Sets H: a published state, or the operator's initial state (reverse: gradient of the final state) or zero, plus
     * earlier segments. */
    __device__ __forceinline__ void load_initial_state()
    {
        const strided<const float> &from = REV ? a.dfinal : a.initial;
#pragma unroll
        for (int i = 0; i < 64; i++) h[i] = 0;
        if (SPLIT == STATE_PASSED && it.receive >= 0) {
            receive_state();
            return;
        }
        const int row = opaque_row(), col = opaque_col();
        if (from.at && starts_from_initial_state())
#pragma unroll
            for (int j = 0; j < 16; j++)
#pragma unroll
                for (int i = 0; i < 4; i++)
                    if (in_head<TILED>(row + 8 * (i >> 1), 8 * j + col + (i & 1)))
                        h[4 * j + i] = state_row<TILED>(from, row + 8 * (i >> 1))[8 * j + col + (i & 1)];
        if (SPLIT == WHOLE) add_segment_states();
    }
    /* Publishes H for the next block (STATE_PASSED), and stores it as the operator's final state where a sequence ends
     * (reverse: as the gradient of the initial state). */
    __device__ __forceinline__ void store_final_state()
    {
        const float f = __expf(pending_log_decay);
        if (SPLIT == STATE_PASSED && it.publish >= 0) publish_state(it.publish, f);
        const strided<float> &to = REV ? a.dinitial : a.final;
        if (!has_output(WHAT) || !to.at || !ends_sequence()) return;
        const bool adds = REV && a.adds[DINITIAL];
        const int  row = opaque_row(), col = opaque_col();
#pragma unroll
        for (int j = 0; j < 16; j++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                if (!in_head<TILED>(row + 8 * (i >> 1), 8 * j + col + (i & 1))) continue;
                float *e = state_row<TILED>(to, row + 8 * (i >> 1)) + 8 * j + col + (i & 1);
                *e = h[4 * j + i] * f + (adds ? *e : 0);
            }
    }
    /* ---- states saved for the backward pass: H before every second chunk, bf16 ---- */

    /* STAGED_SAVE: address of the first state that this warp saves. Lane 0 keeps it in shared memory. */
    __device__ __forceinline__ void init_save_address()
    {
        const int first = REV ? (it.c0 + it.chunks - it.recomputed - 2) >> 1 : (it.c0 + it.recomputed + 1) >> 1;
        const int thread = opaque((int)threadIdx.x);
        if ((thread & 31) == 0)
            sm.save_to[thread >> 5] = (uint4 *)(REV ? a.saved_rev : a.saved)
                                      + ((bh() * (a.K / 2) + first) * 64 + warp * 16) * 16;
    }
    /* Saves the warp's 16 rows with plain stores. The column order is that of the registers, so four lanes write 64
     * contiguous bytes; ssd_bwd_bc undoes it. */
    __device__ __forceinline__ void save_state(const packed_state &h_bf16)
    {
        uint32_t *saved = REV ? a.saved_rev : a.saved;
        const int thread = opaque((int)threadIdx.x); // SPLIT: recomputed, because registers are short
        const int row = SPLIT ? (thread >> 5 & 3) * 16 + (thread >> 2 & 7) : row_of(0);
        const int col = SPLIT ? thread & 3 : t4;
#pragma unroll
        for (int q = 0; q < 2; q++) {
            uint4 *to = (uint4 *)saved + (row_of_head(a.K / 2, chunk() >> 1) * 64 + row + 8 * q) * 16 + col;
#pragma unroll
            for (int k = 0; k < 8; k += 2)
                to[2 * k] = make_uint4(h_bf16[k][q], h_bf16[k][q + 2], h_bf16[k + 1][q], h_bf16[k + 1][q + 2]);
        }
    }

    /* ---- products of a chunk; OUT: with output ---- */

    /* Issues the output products as one wgmma group and the state update as a second; waits for neither. */
    template <bool OUT>
    __device__ __forceinline__ void products(const packed_state &h_bf16, const fragments &x, const stage &t, int keep)
    {
        wgmma_fence();
        if (OUT) {
            state_term(h_bf16, t);
            if (WIDE) cb_term_of_half<REV>(x, t.cb);
            else cb_term<REV>(x, t.cb);
            wgmma_commit();
            load_output_operands(t);
        }
        update(x, t.u_of(half), keep);
    }

    /* ---- products of a wide-range chunk: C B^T gets a decay per pair, x and H1 none from a pivot ---- */

    /* Y = decays (H C^T) + (dt x) (decayed C B^T)^T; `all` is the log decay across the chunk. */
    __device__ __forceinline__ void wide_range_output(const packed_state &h_bf16, fragments &x, const stage &t,
                                                      float all)
    {
        const float *cs = t.rec_of(wg), *dt = t.rec_of(wg) + 64;
        head_sync();
        decay_cb<TILED>(t, cs);
        fence_async();
        head_sync();
        wgmma_fence();
        state_term(h_bf16, t);
        wgmma_commit();
        wgmma_wait<0>();
        decay_rows<REV>(cs, all);
        scale_by_dt<REV>(x, dt);
        wgmma_fence();
        if (WIDE) cb_term_of_half<REV>(x, decayed_cb<TILED>());
        else cb_term<REV>(x, decayed_cb());
        wgmma_commit();
        wgmma_wait<0>();
    }
    /* The output, then H = exp(all) H + sum_s exp(all - cs_s) dt_s x_s B_s^T (reverse: exp(cs_l) dy_l C_l^T). */
    template <bool OUT>
    __device__ __forceinline__ void wide_range_products(const packed_state &h_bf16, fragments &x, const stage &t,
                                                        float all, int keep)
    {
        const float *cs = t.rec_of(wg), *dt = t.rec_of(wg) + 64;
        const float  decay = __expf(all);
        load_output_operands(t);
#pragma unroll
        for (int i = 0; i < 64; i++) h[i] *= decay;
        if (OUT) wide_range_output(h_bf16, x, t, all);
        scale_to_end<REV>(x, cs, dt, all);
        wgmma_fence();
        update(x, t.u_of(half), keep);
        wgmma_wait<0>();
        wide_range_scale<REV>(t);
    }

    /* ---- output ---- */

    /* Reverse: starts the load of x of chunk `from` into the tile that dx leaves through. Each warp reads the bytes
     * that it overwrites later. `n` is chunks_done of that chunk. */
    __device__ __forceinline__ void load_x_async(int from, unsigned n)
    {
        const int      at = WIDE ? 0 : wg;
        const uint32_t bar = smem_address(&sm.x_full[at][n & 1]);
        mbar_expect(bar, TILE_BYTES);
        load_x_tile<TILED>(smem_address(sm.y[at][n & 1]), &maps.other, bar, sm.place[wg], my_head(), from * FQ, my_b());
    }
    /* Reverse: starts the load of x of the next chunk, as soon as dx of the previous one has left that tile. */
    __device__ __forceinline__ void load_next_x_async(bool saved)
    {
        if (!copies()) return;
        if (saved) bulk_wait_read<1>(); // leaves the state that was just sent in flight
        else bulk_wait_read<0>();
        load_x_async(chunk() - 1, chunks_done + 1);
    }
    /* Reverse: stores <x', gradient of x'> of the chunk's positions, the sum over the four warps. */
    __device__ __forceinline__ void store_sources()
    {
        if (WIDE) store_half_of_sources(my_b(), my_head(), chunk());
        else if (tid < FQ)
            a.src[row_of_head(a.K, chunk()) * FQ + tid] = *source_partial<!STAGED_SAVE>(0, tid)
                                                          + *source_partial<!STAGED_SAVE>(1, tid)
                                                          + *source_partial<!STAGED_SAVE>(2, tid)
                                                          + *source_partial<!STAGED_SAVE>(3, tid);
    }
    /* y = out Y + D x, through a tile in shared memory and a TMA store. Meanwhile loads and scales x of the next chunk.
     * Waits for the output products only; the state update may still run. */
    __device__ __forceinline__ void store_output(bool more, fragments &x_next, int s_next, int ph_next)
    {
        const uint32_t tile = smem_address(sm.y[WIDE ? 0 : SPLIT ? opaque((int)threadIdx.x) >> 7 : wg][output_tile()]);
        float          src[16];
        float2         dD = make_float2(0, 0);
        wgmma_wait<1>();
        if (!WIDE_RANGE && more) {
            fetch_x(s_next, ph_next);
            if (!REV) fetch_scale(stage_of<TILED>(sm, s_next).rec_of(wg)); // reverse: later, as registers are short
        }
#pragma unroll
        for (int k = 0; k < 4; k++)
#pragma unroll
            for (int j = 0; j < 4; j++) opt_barrier(raw[k][j]);
        if (WIDE) {
            write_half_of_output<REV, WIDE_RANGE>(tile, src, dD);
        } else {
            if (REV) mbar_wait(smem_address(&sm.x_full[wg][chunks_done & 1]), chunks_done >> 1 & 1);
#pragma unroll
            for (int k = 0; k < 4; k++)
                write_output<REV>(tile + matrix_offset + k * 16 * 128, src + 4 * k, dD, y + 8 * k, k);
        }
        if (!WIDE_RANGE && more) {
            if (REV) fetch_scale(stage_of<TILED>(sm, s_next).rec_of(wg));
            scale(x_next);
        }
        if (REV) {
            if (WIDE) reduce_half_of_sources(src);
            else reduce_sources<!STAGED_SAVE>(src);
            sm.skip[wg][tid].x += dD.x;
            sm.skip[wg][tid].y += dD.y;
        }
        fence_async();
        if (tid == 0) bulk_wait_read<0>(); // the other tile has been read: free after the barrier
        head_sync();
        if (copies()) {
            if (TILED) tma_store4(&maps.y, tile, sm.place[wg].p, sm.place[wg].head, chunk() * FQ, my_b());
            else tma_store3(&maps.y, tile, my_head() * FP, chunk() * FQ, my_b());
            bulk_commit();
        }
        if (REV) store_sources();
        chunks_done++;
    }

    /* ---- the loops ---- */

    /* Processes one chunk and returns false after the last one.
     *   1. decay H to this chunk's pivot; convert it to bf16 as the left operand
     *   2. save H if the backward pass needs it (every second chunk)
     *   3. issue wgmma: output = H1 C^T + x' (C B^T)^T, then H1 += x' B
     *   4. scale the output, add D x, store it by TMA; load and scale x' of the next chunk meanwhile
     *   5. wait for the products and release the ring stage to the producer
     * STATE_ONLY skips the output. x and x_next hold x' of two chunks, and callers alternate them. */
    template <bool STATE_ONLY = false> __device__ __forceinline__ bool process_chunk(fragments &x, fragments &x_next)
    {
        constexpr bool OUT = has_output(WHAT) && !STATE_ONLY;
        const bool     more = STATE_ONLY || (SPLIT ? chunks_left > 0 : c != last_c);
        stage         &t = stage_of<TILED>(sm, s);
        const int      s_next = next_stage<(WIDE_RANGE || WIDE)>(s), ph_next = s_next ? ph : ph ^ 1;
        if (WIDE_RANGE) {
            fetch(s, ph);
            scale(x);
        }
        const float4 last = *(const float4 *)(t.rec_of(wg) + REC_BEFORE);
        const int    flags = (int)last.z, keep = decay_to_pivot(last);
        packed_state h_bf16;
#pragma unroll
        for (int k = 0; k < 8; k++)
#pragma unroll
            for (int j = 0; j < 4; j++) h_bf16[k][j] = pack(h[8 * k + 2 * j], h[8 * k + 2 * j + 1]);
        const bool saves = !STATE_ONLY && saves_states(WHAT, REV) && (chunk() & 1) == REV;
        if (saves && !STAGED_SAVE) save_state(h_bf16);
        if (saves && STAGED_SAVE) save_state_rows_0_7<has_output(WHAT)>(h_bf16);
        if (saves && STAGED_SAVE && !REV) save_state_rows_8_15<REV>(h_bf16); // now: later registers are short
        if (WIDE_RANGE && __any_sync(0xffffffffu, flags & IS_WIDE_RANGE))
            wide_range_products<OUT>(h_bf16, x, t, last.w, keep);
        else products<OUT>(h_bf16, x, t, keep);
        if (REV && OUT && more) load_next_x_async(saves && STAGED_SAVE);
        if (saves && STAGED_SAVE && REV) save_state_rows_8_15<REV>(h_bf16);
        if (OUT) {
            store_output(more, x_next, s_next, ph_next);
        } else if (!WIDE_RANGE && more) {
            fetch(s_next, ph_next);
            scale(x_next);
        }
        wgmma_wait<0>();
        mbar_release(smem_address(&sm.empty[WIDE_RANGE][s]), lane);
        s = s_next;
        ph = ph_next;
        if (SPLIT) chunks_left--;
        else c += REV ? -1 : 1;
        return more;
    }

    /* Finds item n. Split kernels make its fields warp-uniform and keep the rest in shared memory. process_item() calls
     * it a second time after the chunk loop, so that the loop keeps none of it in registers. */
    __device__ __forceinline__ void begin_item(int n)
    {
        it = block_item<REV, SPLIT>(a, r, n);
        if (SPLIT == STATE_RECOMPUTED) prepend_recomputed<REV>(sm, it);
        head = it.pair * HEADS + wg;
        c = REV ? it.c0 + it.chunks - 1 : it.c0;
        last_c = REV ? it.c0 : it.c0 + it.chunks - 1;
        if (TILED) spill_tile<TILED>();
        if (!SPLIT) return;
        chunks_left = warp_broadcast(it.chunks - 1);
        it.receive = warp_broadcast(it.receive);
        it.publish = warp_broadcast(it.publish);
        it.recomputed = warp_broadcast(it.recomputed);
        __syncwarp();
        if (lane == 0) {
            auto &k = sm.spilled[wg * 4 + warp];
            k.n = n;
            k.b = it.b;
            k.head = head;
            k.last = last_c;
            k.own = it.chunks - it.recomputed;
            k.receive = it.receive;
            k.publish = it.publish;
        }
        __syncwarp();
    }
    /* STATE_RECOMPUTED: releases the recomputed chunks that only the other head needs, unread. Returns how many chunks
     * this head recomputes. */
    __device__ __forceinline__ int skip_unneeded_chunks()
    {
        const int mine = min(warp_broadcast(sm.live_chunks[opaque((int)threadIdx.x) >> 7]), it.recomputed);
        for (int skip = it.recomputed - mine; skip > 0; skip--) {
            mbar_wait(smem_address(WIDE_RANGE ? &sm.full[WIDE_RANGE][s] : &sm.recompute_full[recompute_s]),
                      WIDE_RANGE ? ph : recompute_ph);
            mbar_pass(smem_address(WIDE_RANGE ? &sm.empty[WIDE_RANGE][s] : &sm.recompute_empty[recompute_s]), lane);
            if (WIDE_RANGE) {
                s = next_stage<WIDE_RANGE>(s);
                ph ^= s == 0;
            } else {
                next_state_only_stage();
            }
            chunks_left--;
        }
        return mine;
    }

    /* Whether the operator's initial state takes part. Recomputed chunks that begin inside the sequence exclude it. */
    __device__ __forceinline__ bool starts_from_initial_state() const
    {
        return SPLIT != STATE_RECOMPUTED || it.recomputed == 0 || (REV ? it.c0 + it.chunks == a.K : it.c0 == 0);
    }
    /* Processes item n: initial state, recomputed chunks, chunks with output, final state. Returns n, reloaded, so that
     * no register holds it meanwhile. */
    __device__ __forceinline__ int process_item(int n)
    {
        fragments A, B; // x' of two chunks in flight
        half = WIDE ? warp_broadcast(wg) : 0;
        begin_item(n);
        if (STAGED_SAVE) init_save_address();
        D0 = D1 = pending_log_decay = 0;
        if (TILED && has_output(WHAT) && a.skip_cols) {
            D0 = skip_of_row<TILED>(opaque_row());
            D1 = skip_of_row<TILED>(opaque_row() + 8);
        } else if (has_output(WHAT) && a.skip_cols) {
            D0 = a.skip[a.skip_cols == 1 ? head : head * FP + (SPLIT ? opaque_row() : row_of(0))];
            D1 = a.skip[a.skip_cols == 1 ? head : head * FP + (SPLIT ? opaque_row() + 8 : row_of(1))];
        }
        if (SPLIT && has_output(WHAT)) sm.aux.D[threadIdx.x] = make_float2(D0, D1);
        if (REV && has_output(WHAT)) {
            sm.skip[wg][tid] = make_float2(0, 0);
            if (copies()) load_x_async(chunk() - it.recomputed, chunks_done);
        }
        const int recomputed = SPLIT == STATE_RECOMPUTED ? skip_unneeded_chunks() : 0;
        load_initial_state();
        if (SPLIT && !REV && has_output(WHAT)) { // the previous item's last output may still be in this tile
            if (tid == 0) bulk_wait_read<0>();
            warpgroup_sync();
        }
        if (SPLIT == STATE_RECOMPUTED && !WIDE_RANGE) recompute_state(A, B, recomputed);
        while (SPLIT == STATE_RECOMPUTED && WIDE_RANGE && chunks_left >= warp_broadcast(sm.spilled[wg * 4 + warp].own))
            process_chunk<true>(A, B);
        if (SPLIT == STATE_RECOMPUTED) add_predecessor_state();
        if (!WIDE_RANGE) {
            fetch(s, ph);
            scale(A);
        }
        while (process_chunk(A, B) && (WIDE_RANGE || process_chunk(B, A))) {
        }
        if (SPLIT) n = sm.spilled[wg * 4 + warp].n;
        asm volatile("" : "+r"(n)); // the compiler must not keep item data across the loop
        begin_item(n);
        store_final_state();
        if (REV && has_output(WHAT)) store_skip_sums<SPLIT>();
        return n;
    }
};

#endif

#endif
