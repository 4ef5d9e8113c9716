// SPDX-License-Identifier: Apache-2.0
/* ssd_fused_bc_chunk.cuh -- a consumer warpgroup of ssd_bwd_bc: dB and dC of a chunk, summed over heads.
 *
 * run() loops over work items: setup (B, C and C B^T of the pair), a loop over heads, then the products with dCB and
 * the stores. Per head it multiplies x' by G1 and dy' by H1, adds dy' x'^T to dCB, and takes from the running sums the
 * decay sums q, row and `ends`. The maths is in ssd_fused_bc.cuh; operands and row sums of a warp are in
 * ssd_fused_bc_rows.cuh, shared memory and the producer in ssd_fused_bc_feed.cuh. */
#ifndef MBA_SSD_FUSED_BC_CHUNK_CUH
#define MBA_SSD_FUSED_BC_CHUNK_CUH

#include "ops/ssd/fused/ssd_fused_bc_feed.cuh"
#include "ops/ssd/fused/ssd_fused_bc_rows.cuh"

#if MBA_HOPPER || !defined(__CUDA_ARCH__)

/* A consumer warpgroup: the rows of chunk I of the pair. DOCS: with resets, some rows do not reach the ends of the
 * pair. */
template <int I, bool DOCS, int TILED> struct bc_chunk : bc_rows {
    bc_smem          &sm;
    const fused_task &a;
    float             dC[64], dB[64], own[32], low[32]; /* dCB: own is the diagonal block, low block 10 (I = 1) */

    __device__ __forceinline__ bc_chunk(bc_smem &smem, const fused_task &task) : sm(smem), a(task) {}

    static __device__ __forceinline__ void       warpgroup_sync() { bar_sync<2 + I, 128>(); }
    __device__ __forceinline__ const pair_block &current() const { return sm.current[I].at; }
    __device__ __forceinline__ int token(int q) const { return current().c2 * PAIR + I * FQ + row + 8 * q; }

    /* ---- setup of a work item: what all its heads share ---- */

    /* Loads a 16-byte vector of a row of B or C. Accumulator j = 4 v + c of a thread (columns in the order of saved
     * states) is values 2 c and 2 c + 1 of vector 4 v + t4 of the row. So a thread needs four vectors per row, and four
     * lanes read 64 contiguous bytes. */
    __device__ __forceinline__ uint4 load_vector(const strided<const bf16> &m, int q, int vector_index) const
    {
        const int n = group_n<TILED>(current().g) + 8 * (4 * vector_index + t4);
        if (token(q) >= a.L || (TILED && n >= a.N)) return make_uint4(0, 0, 0, 0);
        return *(const uint4 *)(m.row(current().b, token(q), group_of<TILED>(current().g)) + n);
    }
    /* Starts the loads of C B^T, blocks 00, 10 and 11. It belongs to the first tile of the state; for others the maps
     * supply zeros (z < 0), so that sums with it count once. */
    __device__ __forceinline__ void load_cb_async(const bc_maps &maps)
    {
        const uint32_t bar = smem_address(&sm.cb_full);
        const int      g = group_of<TILED>(current().g), none = group_n<TILED>(current().g) ? INT_MIN / 2 : 0;
        const int      z = (current().b * (a.K / 2) + current().c2) * a.G + g + none;
        const int      first = (current().b * a.K + 2 * current().c2) * a.G + g + none;
        mbar_expect(bar, 3 * TILE_BYTES);
        tma_load3(smem_address(sm.m[0]), &maps.cb, bar, 0, 0, first);
        tma_load3(smem_address(sm.m[1]), &maps.low, bar, 0, 0, z);
        tma_load3(smem_address(sm.m[2]), &maps.cb, bar, 0, 0, first + a.G);
    }
    /* Begins work item number `block`, the n-th of this block: issues all loads, then stores B and C and clears
     * sums. */
    __device__ __forceinline__ void begin(unsigned block, unsigned n, const bc_maps &maps)
    {
        uint4 c[4][2], b[4][2];
        recompute_lane_indices();
        const int2 helpers = a.slow_helpers[block];
        if (tid == 0) {
            sm.current[I].at = pair_block_of(a, block);
            sm.current[I].block = block;
            sm.current[I].n = n;
            sm.current[I].slow = 0;
        }
        bar_sync<1, 256>(); // both warpgroups are done with the previous item
        if (I == 1 && tid == 0) load_cb_async(maps);
#pragma unroll
        for (int e = 0; e < 8; e++) {
            c[e >> 1][e & 1] = load_vector(a.cm, e & 1, e >> 1);
            b[e >> 1][e & 1] = load_vector(a.bm, e & 1, e >> 1);
        }
        if (DOCS && I == 0) {
            count_resets(sm.resets[0], a, current().b, 2 * current().c2);
            count_resets(sm.resets[1], a, current().b, 2 * current().c2 + 1);
        }
        store_rows_permuted(sm.c[I], c);
        store_rows_permuted(sm.b[I], b);
        __syncwarp();
        fence_async(); // last_products() reads them by wgmma
        add_slow_helpers(a, helpers, block);
        sm.previous[I * 128 + tid] = make_float4(0, 0, 0, 0);
        sm.previous_end[I * 128 + tid] = 0;
        if (DOCS) bar_sync<1, 256>();
#pragma unroll
        for (int i = 0; i < 64; i++) dC[i] = dB[i] = 0;
#pragma unroll
        for (int i = 0; i < 32; i++) own[i] = low[i] = 0;
    }

    /* ---- one head ---- */

    __device__ __forceinline__ pair_factors<I, DOCS> factors(int s) const { return { sm.rec[s], sm.resets }; }

    /* Replaces x by x' in shared memory (each warp its own rows), and sets f = x scaled to the end of the pair. */
    __device__ __forceinline__ void scale_x(fragments &f, int s)
    {
        const uint32_t tile = smem_address(sm.st[s].x[I]);
        if (DOCS || I == 0) scaled(f, sm.st[s].x[I], factors(s).f_to_end(row), factors(s).f_to_end(row + 8));
        if (DOCS) asm volatile("" : "+r"(s)::"memory"); // reload: no register holds what the first scale used
        if (DOCS) recompute_lane_indices();
        const float s0 = factors(s).f(row), s1 = factors(s).f(row + 8);
        const uint2 u0 = split(s0, s0), u1 = split(s1, s1);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            uint32_t v[4], x[4];
            ldmatrix_at(v, tile + tile_offset(i));
            scale(x, v, u0, u1);
            stmatrix_at(tile + tile_offset(i), x);
#pragma unroll
            for (int j = 0; j < 4 && !DOCS && I == 1; j++) f[i][j] = x[j];
        }
        opt_barrier_all(f);
        fence_async();
        mbar_release(smem_address(&sm.scaled[I][s]), lane);
    }
    __device__ __forceinline__ void wait_x(int chunk, int s, uint32_t phase)
    {
        mbar_wait(smem_address(&sm.scaled[chunk][s]), phase);
    }

    __device__ __forceinline__ void wait_dy(int s, uint32_t phase) { mbar_wait(smem_address(&sm.full_late[s]), phase); }

    /* The products of chunk 1. Registers hold one operand only, so it works by halves: while one half of f is
     * multiplied, the other is overwritten with the next operand. Loads queue behind the wgmma that a warp has issued,
     * so each load stands before the products that it need not wait for. */
    __device__ __forceinline__ void products_by_halves(int s, uint32_t phase)
    {
        const bc_stage &t = sm.st[s];
        fragments       f;
        half_rows       v;
        scale_x(f, s);
        wgmma_fence();
        by_state(dB, f, t.g, 0, 2);
        wgmma_commit();
        const float k0 = factors(s).e_from_begin(row), k1 = factors(s).e_from_begin(row + 8);
        wait_dy(s, phase);
        load_half(v, t.dy[1], 0);
        wgmma_fence();
        by_state(dB, f, t.g, 2, 4);
        wgmma_commit();
        wait_x(0, s, phase);
#pragma unroll
        for (int half = 0; half < 2; half++) {
            wgmma_wait<1>();
            scale_half(f, v, k0, k1, half);
            load_half(v, t.dy[1], half ^ 1);
            wgmma_fence();
            by_state(dC, f, t.h, 2 * half, 2 * half + 2);
            by_rows(low, f, t.x[0], 2 * half, 2 * half + 2);
            wgmma_commit();
        }
        const float e0 = factors(s).e(row), e1 = factors(s).e(row + 8);
        wait_x(1, s, phase);
#pragma unroll
        for (int half = 0; half < 2; half++) {
            wgmma_wait<1>();
            scale_half(f, v, e0, e1, half);
            if (!half) load_half(v, t.dy[1], 1);
            wgmma_fence();
            by_rows(own, f, t.x[1], 2 * half, 2 * half + 2);
            wgmma_commit();
        }
        wgmma_wait<0>();
    }

    /* The products of chunk 0, which has registers for two operands: dy is scaled while the first product runs, and the
     * others follow without a wait. */
    __device__ __forceinline__ void products_at_once(int s, uint32_t phase)
    {
        const bc_stage &t = sm.st[s];
        fragments       f, d;
        half_rows       v[2];
        scale_x(f, s);
        wgmma_fence();
        by_state(dB, f, t.g, 0, 2);
        wait_dy(s, phase);
        load_half(v[0], t.dy[0], 0);
        load_half(v[1], t.dy[0], 1);
        wgmma_fence();
        by_state(dB, f, t.g, 2, 4);
        wgmma_commit();
        const float e0 = factors(s).e(row), e1 = factors(s).e(row + 8);
        scale_half(d, v[0], e0, e1, 0);
        scale_half(d, v[1], e0, e1, 1);
        wait_x(0, s, phase);
        wgmma_fence();
        by_state(dC, d, t.h);
        by_rows(own, d, t.x[0]);
        finish_products();
    }
    /* The products with resets: each has an operand of its own, so they run one after the other. */
    __device__ __forceinline__ void products_in_turn(int s, uint32_t phase)
    {
        const bc_stage &t = sm.st[s];
        const int       r = row, r8 = row + 8;
        fragments       f;
        scale_x(f, s);
        wgmma_fence();
        by_state(dB, f, t.g);
        finish_products();
        wait_dy(s, phase);
        scaled(f, t.dy[I], factors(s).e_from_begin(r), factors(s).e_from_begin(r8));
        wait_x(0, s, phase);
        wgmma_fence();
        by_state(dC, f, t.h);
        finish_products();
        if (I == 1) {
            scaled(f, t.dy[1], factors(s).e_kappa(r), factors(s).e_kappa(r8));
            wgmma_fence();
            by_rows(low, f, t.x[0]);
            finish_products();
        }
        scaled(f, t.dy[I], factors(s).e(r), factors(s).e(r8));
        phase = warp_broadcast(sm.iteration[I * 128 + tid]) / BC_STAGES & 1;
        if (I == 1) wait_x(1, s, phase);
        wgmma_fence();
        by_rows(own, f, t.x[I]);
        finish_products();
    }
    /* All products of a head. The warpgroups synchronize only on x' of chunk 0, which both use. */
    __device__ __forceinline__ void products(int s, uint32_t phase)
    {
        if (DOCS) products_in_turn(s, phase);
        else if (I) products_by_halves(s, phase);
        else products_at_once(s, phase);
    }

    /* The decay sums of a head. signed_pair: number of (sequence, head, pair of chunks), or its complement if the head
     * is wide-range. */
    __device__ __forceinline__ void add_decay_sums(int signed_pair)
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
        const decay_sums s = decay_sums_of(sm.previous[I * 128 + tid], sm.previous_end[I * 128 + tid], q, r, end);
        if (t4) return;
        const bool slow = signed_pair < 0;
        store_decay_sums<I>(a, s, slow ? ~signed_pair : signed_pair, slow, row, warp, lane);
    }

    /* The loop over the heads of a work item. `iteration` counts heads over all items of this block: ring and phase. */
    __device__ __forceinline__ void heads(unsigned iteration)
    {
#pragma unroll 1
        for (; iteration < warp_broadcast((sm.current[I].n + 1) * (unsigned)group_heads<TILED>(a)); iteration++) {
            recompute_lane_indices();
            const int      s = iteration % BC_STAGES;
            const uint32_t phase = iteration / BC_STAGES & 1;
            if (DOCS) sm.iteration[I * 128 + tid] = iteration;
            mbar_wait(smem_address(&sm.full[s]), phase);
            products(s, phase);
            const int pair = factors(s).is_wide_range() ? ~sm.pair[s] : sm.pair[s]; // sign: saves a register
            if (pair < 0 && tid == 0) sm.current[I].slow = 1;
            mbar_release(smem_address(&sm.empty[s]), lane);
            if (TILED) recompute_lane_indices();
            add_decay_sums(pair);
            if (DOCS) iteration = warp_broadcast(sm.iteration[I * 128 + tid]);
        }
    }

    /* ---- after all heads: dC += mask(dCB) B, dB += mask(dCB)^T C ---- */

    /* Bit e: accumulator e of a block of dCB counts (source before position, no reset between). It has no divergent
     * branch: after one, the compiler would compute wgmma descriptors per lane and run out of registers. */
    __device__ __forceinline__ uint32_t mask_bits(bool below) const
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
    __device__ __forceinline__ void multiply_dcb(const fragments &p0, const fragments &p1)
    {
        const uint64_t b0 = wgmma_smem_desc(smem_address(sm.b[0]), TILE_BYTES);
        const uint64_t c0 = wgmma_smem_desc(smem_address(sm.c[0]), TILE_BYTES);
        const uint64_t b1 = wgmma_smem_desc(smem_address(sm.b[1]), TILE_BYTES);
        const uint64_t c1 = wgmma_smem_desc(smem_address(sm.c[1]), TILE_BYTES);
        const uint64_t own_m = wgmma_smem_desc(smem_address(sm.m[2 * I]));
        const uint64_t low_m = wgmma_smem_desc(smem_address(sm.m[1]));
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
        recompute_lane_indices();
        split_dcb(p0, own, mask_bits(false));
        if (I == 1) split_dcb(p1, low, DOCS ? mask_bits(true) : 0xffffffffu);
#pragma unroll
        for (int half = 0; half < 2; half++) {
            if (half) bar_sync<1, 256>(); // both have read the high halves
            store_dcb(sm.m[2 * I], p0[half]);
            if (I == 1) store_dcb(sm.m[1], p1[half]);
            fence_async();
            bar_sync<1, 256>();
            multiply_dcb(p0[half], p1[half]);
        }
    }
    __device__ __forceinline__ void run(const bc_maps &maps)
    {
        unsigned block = blockIdx.x, n = 0;
#pragma unroll 1
        do { // what outlives an iteration is in shared memory
            begin(block, n, maps);
            mbar_wait(smem_address(&sm.cb_full), n & 1);
            heads(n * (unsigned)group_heads<TILED>(a));
            last_products();
            store_rows_of_group<TILED>(a, current(), I * FQ + row, t4, dC, dB, sm.current[I].slow, sm.current[I].block);
            block = warp_broadcast(sm.current[I].block) + gridDim.x;
            n = warp_broadcast(sm.current[I].n) + 1;
            warpgroup_sync(); // sm.current is read and may change
        } while (block < warp_broadcast(*(volatile unsigned *)&sm.blocks));
    }
};

#endif

#endif
