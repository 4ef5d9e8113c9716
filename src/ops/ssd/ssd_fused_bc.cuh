// SPDX-License-Identifier: Apache-2.0
/* ssd_fused_bc.cuh -- the backward pass of `fused` after its walks: gradients of B and C summed over heads in
 * registers, of decays without further products, of steps and of parameters.
 *
 * A block of ssd_bwd_bc owns 128 positions (chunks 0 and 1 of a pair) and takes the heads of a group in turn. It needs
 * the state entering the pair (H1, by ssd_scan) and the adjoint leaving it (G1, by ssd_scan_rev), bf16 under pivots.
 * With dy'_l = e_l dy_l, x'_s = f_s x_s, kappa = exp(m1 + a0 - m0) (the decay between the pivots, at most 1):
 *     dC_0 += dy'_0 H1          dC_1 += (kappa dy'_1) H1        dB_0 += (kappa x'_0) G1      dB_1 += x'_1 G1
 *     dCB_00 += dy'_0 x'_0^T    dCB_11 += dy'_1 x'_1^T          dCB_10 += (kappa dy'_1) x'_0^T
 * and once at the end dC += mask(dCB) B, dB += mask(dCB)^T C. Warpgroup i owns the rows of chunk i. Shared memory and
 * what fills it are in ssd_fused_bc_feed.cuh, rows of tiles as operands and sums in ssd_fused_bc_rows.cuh.
 *
 * Gradient of the decay: q_l = <C_l, what dC_l gained from H1>, row_l and low_l = <CB_l, what dCB_l gained> in the
 * block of its own chunk and in block 10, out_s = <B_s, what dB_s gained> are, per head, differences of products with
 * the running sums. With src_s = <x'_s, gradient of x'_s> from ssd_scan_rev
 *     chunk 0:  ddA_i = kappa <H1, G1> + sum_{l of 1} q_l + sum_{l>=i} q_l + sum_{s<i} (src_s - row_s)
 *     chunk 1:  ddA_i = kappa <H1, G1> + sum_{s of 0} out_s + sum_{l>=i} (q_l + low_l) + sum_{s<i} (src_s - row_s)
 * Sources and rows of a chunk meet the same bf16 operands, so what should cancel does. (In one formula over both chunks
 * src would meet block 10, which is rounded differently: dA_log was off by 3 to 4 times as much.)
 *
 * Exact (EXACT): every scaled operand and every state is two bf16; dy and x are multiplied as they came for dCB, and
 * scaled behind the product in fp32; row and low are summed there, with C B^T as two bf16. Nothing that one place has
 * is rounded differently in another by more than 1e-5, so all of what should cancel does.
 *
 * A head with a chunk beyond the range of a pivot counts as zero in ssd_bwd_bc; ssd_bwd_slow does its pairs token by
 * token in fp32.
 *
 * kernel     ssd_bwd_bc      persistent; one producer thread, two warps for <H1, G1>, two warpgroups of 240 registers;
 *            a ring of two stages that goes on from block to block; x and G1 of a stage come before dy and H1
 * launch     grid min(B K/2 G, SMs), block 384, dynamic smem 227 KB
 * moves      per pair and head: x, dy 32 KB, H1, G1 32 KB; tensor 2 x 1024 cycles
 * resources  sm_90a, CUDA 13.0: 168 registers, no spill  [docs]
 * measured   H200: 205 us, 54 % of floor (memory), DRAM 52 % busy; mamba2-headline, 4 x 4096  [docs]
 * order      fixed: heads ascend */
#ifndef MBA_SSD_FUSED_BC_CUH
#define MBA_SSD_FUSED_BC_CUH

#include "ops/ssd/ssd_fused_bc_feed.cuh"
#include "ops/ssd/ssd_fused_bc_rows.cuh"

#if MBA_HOPPER || !defined(__CUDA_ARCH__)

/* A consumer warpgroup: the rows of chunk I of the pair. DOCS: resets keep some rows from the ends of the pair. */
template <bool EXACT, int I, bool DOCS> struct bc_chunk : bc_rows {
    bc_smem          &sm;
    const fused_task &a;
    float             dC[64], dB[64], own[32], low[32]; /* own: diagonal block of dCB; low: block 10 (I = 1) */

    __device__ __forceinline__ bc_chunk(bc_smem &smem, const fused_task &task) : sm(smem), a(task) {}

    static __device__ __forceinline__ void       warpgroup_sync() { bar_sync<2 + I, 128>(); }
    __device__ __forceinline__ const pair_block &where() const { return sm.where[I].at; }
    __device__ __forceinline__ int               token(int q) const { return where().c2 * PAIR + I * FQ + row + 8 * q; }

    /* ---- what all heads share ---- */

    /* Rows of B, C and their gradients in memory. A thread's numbers 4 j .. of a row of sums (word 4 j + t4, see
     * above), with j = 4 piece + c, are numbers 2 c and 2 c + 1 of the 16-byte piece 4 piece + t4 of the row: four of
     * these are all it has of a row, and four lanes take 64 bytes side by side. */
    __device__ __forceinline__ uint4 piece_of(const strided<const bf16> &m, int q, int piece_at) const
    {
        if (token(q) >= a.L) return make_uint4(0, 0, 0, 0);
        return *(const uint4 *)(m.row(where().b, token(q), where().g) + 8 * (4 * piece_at + t4));
    }
    __device__ __forceinline__ void ask_for_pairs(const bc_maps &maps)
    {
        const uint32_t bar = smem_address(&sm.pairs);
        const int      z = (where().b * (a.K / 2) + where().c2) * a.G + where().g;
        const int      first = (where().b * a.K + 2 * where().c2) * a.G + where().g;
        mbar_expect(bar, (EXACT ? 6 : 3) * TILE_BYTES);
        tma_load3(smem_address(sm.m[0]), &maps.cb, bar, 0, 0, first);
        tma_load3(smem_address(sm.m[1]), &maps.low, bar, 0, 0, z);
        tma_load3(smem_address(sm.m[2]), &maps.cb, bar, 0, 0, first + a.G);
        if (!EXACT) return;
        const int rest = residual_offset_pairs(a);
        tma_load3(smem_address(exact_of(sm).m[0]), &maps.cb, bar, 0, 0, first + rest);
        tma_load3(smem_address(exact_of(sm).m[1]), &maps.low, bar, 0, 0, z + rest);
        tma_load3(smem_address(exact_of(sm).m[2]), &maps.cb, bar, 0, 0, first + a.G + rest);
    }
    /* A block's 128 positions of a group. Everything is asked for before anything is waited for. */
    __device__ __forceinline__ void begin(unsigned block, unsigned n, const bc_maps &maps)
    {
        uint4 c[4][2], b[4][2];
        find_place();
        if (tid == 0) {
            sm.where[I].at = pair_block_of(a, block);
            sm.where[I].block = block;
            sm.where[I].n = n;
            sm.where[I].slow = 0;
        }
        bar_sync<1, 256>(); // both are done with the block before
        if (I == 1 && tid == 0) ask_for_pairs(maps);
#pragma unroll
        for (int e = 0; e < 8; e++) {
            c[e >> 1][e & 1] = piece_of(a.cm, e & 1, e >> 1);
            b[e >> 1][e & 1] = piece_of(a.bm, e & 1, e >> 1);
        }
        if (DOCS && I == 0) {
            count_resets(sm.resets[0], a, where().b, 2 * where().c2);
            count_resets(sm.resets[1], a, where().b, 2 * where().c2 + 1);
        }
        put_rows_of(sm.c[I], c);
        put_rows_of(sm.b[I], b);
        __syncwarp();
        fence_async(); // products at the end read them
        sm.had[I * 128 + tid] = make_float4(0, 0, 0, 0);
        sm.had_end[I * 128 + tid] = 0;
        if (DOCS) bar_sync<1, 256>();
#pragma unroll
        for (int i = 0; i < 64; i++) dC[i] = dB[i] = 0;
#pragma unroll
        for (int i = 0; i < 32; i++) own[i] = low[i] = 0;
    }

    /* ---- a head ---- */

    /* Scales of a row, read where they are wanted: registers are short. A head beyond the range counts as zero. Where
     * there are no resets a flag can say nothing else, and need not become an integer first: products wait for this. */
    __device__ __forceinline__ bool is_slow(int s) const
    {
        if (!DOCS && !EXACT) return sm.rec[s][0][REC_FLAGS] + sm.rec[s][1][REC_FLAGS] > 0;
        return ((int)sm.rec[s][0][REC_FLAGS] | (int)sm.rec[s][1][REC_FLAGS]) & IS_SLOW;
    }
    __device__ __forceinline__ float e_of(int s, int r) const { return is_slow(s) ? 0 : sm.rec[s][I][r]; }
    __device__ __forceinline__ float f_of(int s, int r) const { return is_slow(s) ? 0 : sm.rec[s][I][FQ + r]; }
    /* The same times kappa, in an order in which nothing underflows on the way: kappa alone may. */
    __device__ __forceinline__ float e_kappa(int s, int r) const
    {
        return e_of(s, r) * __expf(sm.rec[s][1][REC_BEFORE]) * __expf(sm.rec[s][0][REC_AFTER]);
    }
    __device__ __forceinline__ float f_kappa(int s, int r) const
    {
        return f_of(s, r) * __expf(sm.rec[s][0][REC_AFTER]) * __expf(sm.rec[s][1][REC_BEFORE]);
    }
    /* As seen from the end of the pair, from its beginning; 0 where a reset lies between. */
    __device__ __forceinline__ float f_to_end(int s, int r) const
    {
        if (DOCS && (sm.resets[I][r] != sm.resets[I][FQ - 1] || (I == 0 && sm.resets[1][FQ - 1]))) return 0;
        return I ? f_of(s, r) : f_kappa(s, r);
    }
    __device__ __forceinline__ float e_from_begin(int s, int r) const
    {
        if (DOCS && (sm.resets[I][r] || (I == 1 && sm.resets[0][FQ - 1]))) return 0;
        return I ? e_kappa(s, r) : e_of(s, r);
    }

    /* x' takes the place of x: a warp's rows are its own. f = x as seen from the end of the pair. */
    __device__ __forceinline__ void scale_x(fragments &f, int s)
    {
        const uint32_t tile = smem_address(sm.st[s].x[I]);
        if (DOCS || I == 0) scaled(f, sm.st[s].x[I], f_to_end(s, row), f_to_end(s, row + 8));
        if (DOCS) asm volatile("" : "+r"(s)::"memory"); // what was read for one scale is read again for the next
        if (DOCS) find_place();
        const float s0 = f_of(s, row), s1 = f_of(s, row + 8);
        const uint2 u0 = split(s0, s0), u1 = split(s1, s1);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            uint32_t v[4], x[4];
            ldmatrix_at(v, tile + piece(i));
            scale(x, v, u0, u1);
            stmatrix_at(tile + piece(i), x);
#pragma unroll
            for (int j = 0; j < 4 && !DOCS && I == 1; j++) f[i][j] = x[j];
        }
        pin_all(f);
        fence_async();
        mbar_release(smem_address(&sm.scaled[I][s]), lane);
    }
    __device__ __forceinline__ void wait_x(int chunk, int s, uint32_t phase)
    {
        mbar_wait(smem_address(&sm.scaled[chunk][s]), phase);
    }

    /* dy and H1 are there. */
    __device__ __forceinline__ void wait_late(int s, uint32_t phase) { mbar_wait(smem_address(&sm.late[s]), phase); }

    /* Chunk 1 has no registers for a second operand, so it goes by halves: while one half of f is multiplied, the other
     * becomes what is multiplied next. Loads queue behind the products that a warp has issued, hence each stands before
     * those that it need not wait for. */
    __device__ __forceinline__ void products_by_halves(int s, uint32_t phase)
    {
        const bc_stage &t = sm.st[s];
        fragments       f;
        half_rows       v;
        scale_x(f, s);
        wgmma_fence();
        by_state(dB, f, t.g, 0, 2);
        wgmma_commit();
        const float k0 = e_from_begin(s, row), k1 = e_from_begin(s, row + 8);
        wait_late(s, phase);
        fetch_half(v, t.dy[1], 0);
        wgmma_fence();
        by_state(dB, f, t.g, 2, 4);
        wgmma_commit();
        wait_x(0, s, phase);
#pragma unroll
        for (int half = 0; half < 2; half++) {
            wgmma_wait<1>();
            scale_half(f, v, k0, k1, half);
            fetch_half(v, t.dy[1], half ^ 1);
            wgmma_fence();
            by_state(dC, f, t.h, 2 * half, 2 * half + 2);
            by_rows(low, f, t.x[0], 2 * half, 2 * half + 2);
            wgmma_commit();
        }
        const float e0 = e_of(s, row), e1 = e_of(s, row + 8);
        wait_x(1, s, phase);
#pragma unroll
        for (int half = 0; half < 2; half++) {
            wgmma_wait<1>();
            scale_half(f, v, e0, e1, half);
            if (!half) fetch_half(v, t.dy[1], 1);
            wgmma_fence();
            by_rows(own, f, t.x[1], 2 * half, 2 * half + 2);
            wgmma_commit();
        }
        wgmma_wait<0>();
    }

    /* Chunk 0 has the registers: dy is scaled under the first product, and all others follow at once. */
    __device__ __forceinline__ void products_at_once(int s, uint32_t phase)
    {
        const bc_stage &t = sm.st[s];
        fragments       f, d;
        half_rows       v[2];
        scale_x(f, s);
        wgmma_fence();
        by_state(dB, f, t.g, 0, 2);
        wait_late(s, phase);
        fetch_half(v[0], t.dy[0], 0);
        fetch_half(v[1], t.dy[0], 1);
        wgmma_fence();
        by_state(dB, f, t.g, 2, 4);
        wgmma_commit();
        const float e0 = e_of(s, row), e1 = e_of(s, row + 8);
        scale_half(d, v[0], e0, e1, 0);
        scale_half(d, v[1], e0, e1, 1);
        wait_x(0, s, phase);
        wgmma_fence();
        by_state(dC, d, t.h);
        by_rows(own, d, t.x[0]);
        finish_products();
    }
    /* With resets, operands differ from product to product, and nothing fits beside them. */
    __device__ __forceinline__ void products_in_turn(int s, uint32_t phase)
    {
        const bc_stage &t = sm.st[s];
        const int       r = row, r8 = row + 8;
        fragments       f;
        scale_x(f, s);
        wgmma_fence();
        by_state(dB, f, t.g);
        finish_products();
        wait_late(s, phase);
        scaled(f, t.dy[I], e_from_begin(s, r), e_from_begin(s, r8));
        wait_x(0, s, phase);
        wgmma_fence();
        by_state(dC, f, t.h);
        finish_products();
        if (I == 1) {
            scaled(f, t.dy[1], e_kappa(s, r), e_kappa(s, r8));
            wgmma_fence();
            by_rows(low, f, t.x[0]);
            finish_products();
        }
        scaled(f, t.dy[I], e_of(s, r), e_of(s, r8));
        phase = warp_broadcast(sm.turn[I * 128 + tid]) / BC_STAGES & 1;
        if (I == 1) wait_x(1, s, phase);
        wgmma_fence();
        by_rows(own, f, t.x[I]);
        finish_products();
    }
    /* The warpgroups meet at x' of chunk 0 alone, which both multiply with. */
    __device__ __forceinline__ void products(int s, uint32_t phase)
    {
        if (DOCS) products_in_turn(s, phase);
        else if (I) products_by_halves(s, phase);
        else products_at_once(s, phase);
    }

    __device__ __forceinline__ void decay_sums(int pair_or_slow)
    {
        float2       q = rows_dot(dC, sm.c[I]), end = q;
        const float2 r = lower_dot(own, sm.m[2 * I]);
        if (I == 0) {
            end = rows_dot(dB, sm.b[0]);
        } else {
            const float2 below = rows_dot(low, sm.m[1]);
            q.x += below.x;
            q.y += below.y;
        }
        const float4 had = sm.had[I * 128 + tid];
        const float  q0 = over_columns(q.x - had.x), q1 = over_columns(q.y - had.y);
        const float  r0 = over_columns(r.x - had.z), r1 = over_columns(r.y - had.w);
        const float  all = warp_sum(end.x + end.y - sm.had_end[I * 128 + tid]);
        sm.had[I * 128 + tid] = make_float4(q.x, q.y, r.x, r.y);
        sm.had_end[I * 128 + tid] = end.x + end.y;
        if (t4) return;
        const bool    slow = pair_or_slow < 0;
        const int     pair = slow ? ~pair_or_slow : pair_or_slow;
        const int64_t at = (2 * (int64_t)pair + I) * FQ + row;
        if (lane == 0) a.ends[(int64_t)pair * SSD_ENDS + (I ? END_Q : END_OUT) + warp] = all;
        a.row[at] = r0;
        a.row[at + 8] = r1;
        if (slow) return; // ssd_bwd_slow has left the gradient itself there
        a.q[at] = q0;
        a.q[at + 8] = q1;
    }

    __device__ __forceinline__ void heads(unsigned turn)
    {
#pragma unroll 1
        for (; turn < warp_broadcast((sm.where[I].n + 1) * (unsigned)a.J); turn++) {
            find_place();
            const int      s = turn % BC_STAGES;
            const uint32_t phase = turn / BC_STAGES & 1;
            if (DOCS) sm.turn[I * 128 + tid] = turn;
            mbar_wait(smem_address(&sm.full[s]), phase);
            products(s, phase);
            const int pair = is_slow(s) ? ~sm.pair[s] : sm.pair[s]; // one register
            if (pair < 0 && tid == 0) sm.where[I].slow = 1;
            mbar_release(smem_address(&sm.empty[s]), lane);
            decay_sums(pair);
            if (DOCS) turn = warp_broadcast(sm.turn[I * 128 + tid]);
        }
    }

    /* ---- a head, exact ---- */

    /* sums += (rows of a tile, scaled) (a state), but for the product of what both roundings lost. */
    __device__ __forceinline__ void add_in_two(float (&sums)[64], const unsigned char                *tile,
                                               const unsigned char (&state)[2][2 * TILE_BYTES], float s0, float s1)
    {
        fragments f;
        scaled<false>(f, tile, s0, s1);
        wgmma_fence();
        by_state(sums, f, state[0]);
        by_state(sums, f, state[1]);
        finish_products();
        scaled<true>(f, tile, s0, s1);
        wgmma_fence();
        by_state(sums, f, state[0]);
        finish_products();
    }
    /* False, which the compiler cannot know: it makes nothing ready beyond a branch that would cost registers here. */
    static __device__ __forceinline__ bool opaque_false()
    {
        uint32_t thread = threadIdx.x;
        opt_barrier(thread);
        return !__any_sync(0xffffffffu, thread < 256);
    }
    /* Scaled behind the product, in fp32: sums += e f (dy . x), and by row C B^T f (dy . x), which e still has to
     * scale. Above the diagonal e f may overflow, where C B^T is zero and f (dy . x) finite. */
    __device__ __forceinline__ void add_pairs(float (&sums)[32], float2 &by_row, const float (&dot)[16], const float *f,
                                              float e0, float e1, int block, int half) const
    {
#pragma unroll
        for (int i = 2 * half; i < 2 * half + 2; i++) {
            uint32_t v[4], w[4];
            if (I == 1 && opaque_false()) continue;
            ldmatrix_at(v, smem_address(sm.m[block]) + piece(i));
            ldmatrix_at(w, smem_address(exact_of(sm).m[block]) + piece(i));
#pragma unroll
            for (int j = 0; j < 2; j++) {
                const float *d = dot + 8 * (i & 1) + 4 * j;
                float       *to = sums + 8 * i + 4 * j;
                const float2 u = *(const float2 *)(f + 16 * i + 8 * j + 2 * t4);
                const float  t0 = d[0] * u.x, t1 = d[1] * u.y, t2 = d[2] * u.x, t3 = d[3] * u.y;
                to[0] = fmaf(e0, t0, to[0]);
                to[1] = fmaf(e0, t1, to[1]);
                to[2] = fmaf(e1, t2, to[2]);
                to[3] = fmaf(e1, t3, to[3]);
                by_row.x += (low_of(v[2 * j]) + low_of(w[2 * j])) * t0 + (high_of(v[2 * j]) + high_of(w[2 * j])) * t1;
                by_row.y += (low_of(v[2 * j + 1]) + low_of(w[2 * j + 1])) * t2
                            + (high_of(v[2 * j + 1]) + high_of(w[2 * j + 1])) * t3;
            }
        }
    }
    /* Pairs with half of the sources at a time, as registers are short; returns my sums by row. LOW: block 10. */
    template <bool LOW> __device__ __forceinline__ float2 all_pairs(int s)
    {
        const float e0 = LOW ? e_kappa(s, row) : e_of(s, row), e1 = LOW ? e_kappa(s, row + 8) : e_of(s, row + 8);
        float2      by_row = make_float2(0, 0);
#pragma unroll
        for (int half = 0; half < 2; half++) {
            float dot[16];
            wgmma_fence();
            multiply_rows(dot, exact_of(sm).dy[I], exact_of(sm).x[LOW ? 0 : I], half);
            finish_products();
            find_place();
            add_pairs(LOW ? low : own, by_row, dot, sm.rec[s][LOW ? 0 : I] + FQ, e0, e1, LOW ? 1 : 2 * I, half);
        }
        return make_float2(e0 * by_row.x, e1 * by_row.y);
    }
    /* Where the numbers of my first row go. */
    __device__ __forceinline__ int64_t place_of(int pair) const { return (2 * (int64_t)pair + I) * FQ + row; }

    /* dCB of a head. Row leaves at once; low belongs to q, which comes later: beside what q had. */
    __device__ __forceinline__ void pairs_hi_lo(int s)
    {
        const float2 r = all_pairs<false>(s);
        const float  r0 = over_columns(r.x), r1 = over_columns(r.y);
        if (t4 == 0) {
            const int64_t at = place_of(sm.pair[s]);
            a.row[at] = r0;
            a.row[at + 8] = r1;
        }
        if (I == 0) return;
        const float2 below = all_pairs<true>(s);
        sm.had[128 + tid].z = below.x;
        sm.had[128 + tid].w = below.y;
    }
    __device__ __forceinline__ void decay_sums_in_two(int pair_or_slow)
    {
        const float2 q = rows_dot(dC, sm.c[I]), end = I ? q : rows_dot(dB, sm.b[0]);
        const float4 had = sm.had[I * 128 + tid];
        const float  q0 = over_columns(q.x - had.x + had.z), q1 = over_columns(q.y - had.y + had.w);
        const float  all = warp_sum(end.x + end.y - sm.had_end[I * 128 + tid]);
        sm.had[I * 128 + tid] = make_float4(q.x, q.y, 0, 0);
        sm.had_end[I * 128 + tid] = end.x + end.y;
        const bool slow = pair_or_slow < 0;
        const int  pair = slow ? ~pair_or_slow : pair_or_slow;
        if (lane == 0) a.ends[(int64_t)pair * SSD_ENDS + (I ? END_Q : END_OUT) + warp] = all;
        if (t4 || slow) return;
        const int64_t at = place_of(pair);
        a.q[at] = q0;
        a.q[at + 8] = q1;
    }
    /* One head lies in shared memory at a time: what is behind us of it makes room for the next one. */
    __device__ __forceinline__ void heads_hi_lo(unsigned turn)
    {
        exact_stage &t = exact_of(sm);
#pragma unroll 1
        for (; turn < warp_broadcast((sm.where[I].n + 1) * (unsigned)a.J); turn++) {
            find_place();
            int s = turn & 1; // of records; and the phase of both parts
            sm.turn[I * 128 + tid] = turn;
            mbar_wait(smem_address(&sm.full[0]), s);
            add_in_two(dB, t.x[I], t.g, f_to_end(s, row), f_to_end(s, row + 8));
            mbar_wait(smem_address(&sm.full[1]), s);
            pairs_hi_lo(s);
            find_place();
            mbar_release(smem_address(&sm.empty[0]), lane);
            add_in_two(dC, t.dy[I], t.h, e_from_begin(s, row), e_from_begin(s, row + 8));
            const int pair = is_slow(s) ? ~sm.pair[s] : sm.pair[s];
            if (pair < 0 && tid == 0) sm.where[I].slow = 1;
            mbar_release(smem_address(&sm.empty[1]), lane);
            decay_sums_in_two(pair);
            turn = warp_broadcast(sm.turn[I * 128 + tid]);
        }
    }

    /* ---- the end: dC += mask(dCB) B, dB += mask(dCB)^T C ---- */

    /* Which of my 32 numbers of a block of dCB count: bit e of number e. Without a branch on what lanes differ in: the
     * products behind it would take the places of their operands lane by lane, and registers would not do. */
    __device__ __forceinline__ uint32_t reach(bool below) const
    {
        const int(&from)[FQ] = sm.resets[below ? 0 : I], (&here)[FQ] = sm.resets[I];
        uint32_t bits = 0;
#pragma unroll 1
        for (int e = 0; e < 32; e++) {
            const int  l = row + 8 * (e >> 1 & 1), s = 8 * (e >> 2) + 2 * t4 + (e & 1);
            const bool ok = below ? !DOCS || ((here[l] == 0) & (from[s] == from[FQ - 1]))
                                  : (s <= l) & (!DOCS || from[s] == here[l]);
            bits |= (uint32_t)ok << e;
        }
        return bits;
    }
    __device__ __forceinline__ void multiply_pairs(const fragments &p0, const fragments &p1)
    {
        const uint64_t b0 = wgmma_smem_desc(smem_address(sm.b[0]), TILE_BYTES),
                       c0 = wgmma_smem_desc(smem_address(sm.c[0]), TILE_BYTES);
        const uint64_t b1 = wgmma_smem_desc(smem_address(sm.b[1]), TILE_BYTES),
                       c1 = wgmma_smem_desc(smem_address(sm.c[1]), TILE_BYTES);
        const uint64_t own_m = wgmma_smem_desc(smem_address(sm.m[2 * I])),
                       low_m = wgmma_smem_desc(smem_address(sm.m[1]));
        wgmma_fence();
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int at = (i * 2048) >> 4;
            wgmma_n128_rs<1>(dC, p0[i], (I ? b1 : b0) + at, 1);
            if (I == 1) wgmma_n128_rs<1>(dC, p1[i], b0 + at, 1);
            wgmma_n128_ss<1, 1>(dB, own_m + at, (I ? c1 : c0) + at, 1);
            if (I == 0) wgmma_n128_ss<1, 1>(dB, low_m + at, c1 + at, 1);
        }
        finish_products();
    }
    __device__ __forceinline__ void last_products()
    {
        fragments p0[2], p1[2];
        find_place();
        halve_pairs(p0, own, reach(false));
        if (I == 1) halve_pairs(p1, low, DOCS ? reach(true) : 0xffffffffu);
#pragma unroll
        for (int half = 0; half < 2; half++) {
            if (half) bar_sync<1, 256>(); // both have multiplied with the upper halves
            put_pairs(sm.m[2 * I], p0[half]);
            if (I == 1) put_pairs(sm.m[1], p1[half]);
            fence_async();
            bar_sync<1, 256>();
            multiply_pairs(p0[half], p1[half]);
        }
    }
    /* A piece of my row q: what ssd_bwd_slow has for it, what is there, and what the sums have. */
    __device__ __forceinline__ void put(bf16 *to, const float (&sums)[64], const float *slow, bool adds, int q, int k)
    {
        const uint4 old = adds ? *(const uint4 *)to : make_uint4(0, 0, 0, 0);
        uint32_t    v[4];
#pragma unroll
        for (int c = 0; c < 4; c++) {
            const float *d = sums + 4 * (4 * k + c) + 2 * q;
            const float2 s = slow ? *(const float2 *)(slow + 2 * c) : make_float2(0, 0);
            v[c] = pack(d[0] + s.x + low_of(word_of(old, c)), d[1] + s.y + high_of(word_of(old, c)));
        }
        *(uint4 *)to = make_uint4(v[0], v[1], v[2], v[3]);
    }
    __device__ __forceinline__ void store()
    {
        const bool slow = sm.where[I].slow;
#pragma unroll
        for (int q = 0; q < 2; q++) {
            if (token(q) >= a.L) continue;
            const int64_t at = (((int64_t)where().b * a.K * FQ + token(q)) * a.G + where().g) * FN + 8 * t4;
            bf16         *dc = a.dcm.row(where().b, token(q), where().g) + 8 * t4;
            bf16         *db = a.dbm.row(where().b, token(q), where().g) + 8 * t4;
#pragma unroll
            for (int k = 0; k < 4; k++) {
                put(dc + 32 * k, dC, slow ? a.slow_dc + at + 32 * k : NULL, a.adds[DCM], q, k);
                put(db + 32 * k, dB, slow ? a.slow_db + at + 32 * k : NULL, a.adds[DBM], q, k);
            }
        }
    }
    __device__ __forceinline__ void run(const bc_maps &maps)
    {
        unsigned block = blockIdx.x, n = 0;
#pragma unroll 1
        do { // what lives all the way lives in shared memory
            begin(block, n, maps);
            mbar_wait(smem_address(&sm.pairs), n & 1);
            if (EXACT) heads_hi_lo(n * (unsigned)a.J);
            else heads(n * (unsigned)a.J);
            last_products();
            store();
            block = warp_broadcast(sm.where[I].block) + gridDim.x;
            n = warp_broadcast(sm.where[I].n) + 1;
            warpgroup_sync(); // where() is read, and may change
        } while (block < warp_broadcast(*(volatile unsigned *)&sm.blocks));
    }
};

template <bool EXACT, bool DOCS>
static __device__ __forceinline__ void bc_block_run(const fused_task &a, const bc_maps &maps)
{
    MBA_DYNAMIC_SMEM(smem);
    bc_smem  &sm = *(bc_smem *)(smem + ((1024 - (smem_address(smem) & 1023)) & 1023));
    const int wg = (int)bc_rows::warp_broadcast(threadIdx.x >> 7);
    if (threadIdx.x == 0) {
        for (int i = 0; i < BC_STAGES; i++) {
            mbar_init(smem_address(&sm.full[i]), 1);
            mbar_init(smem_address(&sm.late[i]), 1);
            mbar_init_warps(smem_address(&sm.empty[i]), 8 + DOT_WARPS);
            for (int c = 0; c < 2; c++) mbar_init_warps(smem_address(&sm.scaled[c][i]), 4);
        }
        mbar_init(smem_address(&sm.pairs), 1);
        mbar_init_done();
        sm.blocks = pair_blocks(a);
    }
    __syncthreads();
    if (wg == 2) {
        warpgroup_reg_dealloc<24>();
        const int  thread = (int)threadIdx.x - 256;
        const bool dots = thread >= 32 && thread < 32 + 32 * DOT_WARPS;
        if (EXACT) {
            if (thread == 0) exact_produce(sm, a, maps);
            else if (dots) exact_dot(sm, a);
        } else {
            if (thread == 0) bc_produce(sm, a, maps);
            else if (dots) bc_dot(sm, a);
        }
        return;
    }
    warpgroup_reg_alloc<240>();
    if (wg == 0) {
        bc_chunk<EXACT, 0, DOCS> rows(sm, a);
        rows.run(maps);
    } else {
        bc_chunk<EXACT, 1, DOCS> rows(sm, a);
        rows.run(maps);
    }
}

#endif

template <bool DOCS>
static __global__ void __launch_bounds__(384, 1)
    ssd_bwd_bc(const __grid_constant__ fused_task a, const __grid_constant__ bc_maps maps)
{
#if MBA_HOPPER
    bc_block_run<false, DOCS>(a, maps);
#endif
}

#endif
