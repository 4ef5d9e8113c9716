// SPDX-License-Identifier: Apache-2.0
/* ssd_fused_slow.cuh -- dB, dC and decay gradients of heads with a wide-range chunk, for any decay.
 *
 * ssd_bwd_bc counts such heads as zero (a pivot cannot serve them); this kernel runs before it and leaves their dB and
 * dC in slow_sums, which ssd_bwd_bc adds, and the gradient of their decays in q. Few layers of a fresh
 * model have such a head; without one the blocks read the flags and return. Steps grow in training, and then more
 * heads have one (ssd.md).
 *
 * The work item, its layout and its products are those of ssd_mma_bc (ssd_fused_mma_bc.cuh), with other factors. No
 * factor exceeds that of a step:
 *     within a chunk     dCB_ls = (dy_l . x_s) exp(cs_l - cs_s) dt_s, a decay per pair; cs in fp64, because log decays
 *                        of a chunk reach 1e4 and a difference of two must be right to 1e-6
 *     between chunks     dCB_ls = (dy_l . x_s) in_l out_s, in_l = exp(cs_l) of chunk 1, out_s = exp(a - cs_s) dt_s of
 *                        chunk 0; the same factors, times the decay across the other chunk, take rows to H1 and G1
 * dy x^T and C B^T multiply operands as they are; scaled operands and dCB are a value and a residual in bf16. Results
 * are as exact as H1 and G1.
 *
 * Gradient of the decays: what of H1 passes over the first token, then token by token what earlier ones send less what
 * they receive, both without what a token gives to itself: that is the same for source and destination, and its
 * rounding would spoil their difference, which is tiny for strong decays. What is sent and received within the pair are
 * sums over the same fp32 values. (From the end the sum would begin with what the last token gives to the final state,
 * next to which all else may vanish.)
 *
 * kernel     ssd_bwd_slow    persistent blocks; work item = (sequence, pair of chunks, group), loop over its
 *                            wide-range heads, or over some of them where the block's neighbours have none
 * launch     grid min(B K/2 G, SMs), block 256, dynamic smem 159 KB
 * moves      per pair of chunks and wide-range head: x, dy 32 KB, H1, G1 32 KB
 * resources  sm_90a, CUDA 13.0: 255 registers, no spill  [docs]
 * order      fixed: heads in ascending order, in parts that follow from the flags and the grid */
#ifndef MBA_SSD_FUSED_SLOW_CUH
#define MBA_SSD_FUSED_SLOW_CUH

#include "ops/ssd/fused/ssd_fused_mma_bc.cuh"

enum { SLOW_THREADS = 256 };

/* What a block takes. */
struct slow_share {
    int wide_heads[SSD_SLOW_TEAM]; /* wide-range heads of the team's items */
    int first, end;                /* of those of the block's item */
};

/* Of one head. It lies where ssd_mma_bc has C B^T. */
struct slow_steps {
    double     cs[PAIR], ends[4];             /* log decay since the chunk began; sums of 32 positions */
    float      dt[PAIR], in[PAIR], out[PAIR]; /* step; decay since the chunk began, 0 after a reset; step times the
                                                      decay until it ends, 0 before a reset */
    float      from_state[8];                 /* per warp: what its positions receive from H1 */
    float      received[PAIR], sent[PAIR];    /* by position; sent: to G1 alone */
    float      own_columns[2][4][FQ], low_columns[4][FQ]; /* per warp of positions: sent within a chunk, from 0 to 1 */
    unsigned   wide[SLOW_THREADS / 32];                   /* bits of wide-range heads */
    slow_share share;
    /* Per thread, because registers are short: what its rows receive from other positions of the pair; the head, and
     * how many wide-range heads came before it. */
    float2       by_row[SLOW_THREADS];
    volatile int index[SLOW_THREADS], rank[SLOW_THREADS];
};
static_assert(sizeof(slow_steps) <= 3 * TILE_BYTES, "room where C B^T lies");

/* The factor that undoes a pivot. Below e^-85 the state has decayed to nothing for every position of the pair. */
static __device__ __forceinline__ float inverse_pivot(float pivot) { return pivot < -85 ? 0 : __expf(-pivot); }

/* ---- the heads of a block ----
 *
 * Few work items have wide-range heads, and some have several, so blocks form teams: one whose own item has none helps
 * another of its team. A team has every n-th item, because neighbours in a sequence are often alike. */

/* Whether head or tile i of an item is wide-range; false beyond the group. No load waits for a condition. */
template <int TILED>
static __device__ __forceinline__ bool is_wide_range_head(const fused_task &a, const pair_block &k, int i)
{
    const int heads = group_heads<TILED>(a), h = tile_of_group<TILED>(a, k.g, min(i, heads - 1));
    return is_wide_range_pair<TILED>(a, k.b, h, k.c2) & (i < heads);
}
/* Counts the wide-range heads of items first + i step, i < count; a warp counts those of two items. */
template <int TILED>
static __device__ __forceinline__ void count_heads(slow_share &to, const fused_task &a, unsigned first, unsigned step,
                                                   int count)
{
    static_assert(SSD_SLOW_TEAM == 2 * SLOW_THREADS / 32, "two items per warp");
    const int        lane = (int)threadIdx.x & 31, i1 = (int)threadIdx.x >> 5, i2 = i1 + SLOW_THREADS / 32;
    const pair_block one = pair_block_of(a, first + step * (unsigned)min(i1, count - 1));
    const pair_block two = pair_block_of(a, first + step * (unsigned)min(i2, count - 1));
    int              n1 = 0, n2 = 0;
    for (int i = 0; i < group_heads<TILED>(a); i += 32) {
        const bool w1 = is_wide_range_head<TILED>(a, one, i + lane), w2 = is_wide_range_head<TILED>(a, two, i + lane);
        n1 += __popc(__ballot_sync(0xffffffffu, w1));
        n2 += __popc(__ballot_sync(0xffffffffu, w2));
    }
    __syncthreads(); // what lies there has been read
    if (lane == 0) to.wide_heads[i1] = i1 < count ? n1 : 0;
    if (lane == 0) to.wide_heads[i2] = i2 < count ? n2 : 0;
    __syncthreads();
}
/* Heads per block: as few as the blocks of a team suffice for. Lane i has n heads of item i. */
static __device__ __forceinline__ int heads_per_block(int n, int total, int blocks)
{
    int each = (total + blocks - 1) / blocks;
    while (__reduce_add_sync(0xffffffffu, (n + each - 1) / each) > blocks) each++;
    return each;
}
/* Chooses what the block whose own item is z takes: the first heads of that, or others of an item of its team. Says who
 * helps with item z. Returns whether there is something to take; then a barrier must follow. */
template <int TILED>
static __device__ __forceinline__ bool take_share(const fused_task &a, pair_block &at, slow_share &share, unsigned z)
{
    const unsigned teams = (gridDim.x + SSD_SLOW_TEAM - 1) / SSD_SLOW_TEAM, team = blockIdx.x % teams;
    const unsigned round = z - blockIdx.x, items = (unsigned)(a.B * (a.K / 2) * pair_groups<TILED>(a));
    const int      count = (int)((min(gridDim.x, items - round) - team + teams - 1) / teams);
    const int      mine = (int)(blockIdx.x / teams), lane = (int)threadIdx.x & 31;
    count_heads<TILED>(share, a, round + team, teams, count);
    const int n = lane < SSD_SLOW_TEAM ? share.wide_heads[lane] : 0, total = __reduce_add_sync(0xffffffffu, n);
    if (!total) {
        if (threadIdx.x == 0) a.slow_helpers[z] = make_int2(0, 0);
        return false;
    }
    const int each = heads_per_block(n, total, count), parts = n ? (n + each - 1) / each - 1 : 0; // without the first
    int       end = parts;                                                                        // summed over items
#pragma unroll
    for (int d = 1; d < SSD_SLOW_TEAM; d *= 2) {
        const int v = __shfl_up_sync(0xffffffffu, end, d);
        if (lane >= d) end += v;
    }
    const unsigned idle = __ballot_sync(0xffffffffu, n == 0 && lane < count);
    const int      helper = __popc(idle & ((1u << lane) - 1)); // of those that are idle
    const int      my_end = __shfl_sync(0xffffffffu, end, mine), my_parts = __shfl_sync(0xffffffffu, parts, mine);
    const bool     helps_me = (idle >> lane & 1) && helper >= my_end - my_parts && helper < my_end;
    const unsigned helpers = __ballot_sync(0xffffffffu, helps_me);
    if (threadIdx.x == 0) a.slow_helpers[z] = make_int2((int)(round + team), (int)(teams << 16 | helpers));
    const bool works = !(idle >> mine & 1);
    const int  part = works ? 0 : __shfl_sync(0xffffffffu, helper, mine) - (end - parts) + 1; // of lane's item
    const bool chosen = works ? lane == mine : part >= 1 && part <= parts;
    if (threadIdx.x < 32 && chosen) {
        at = pair_block_of(a, round + team + teams * (unsigned)lane);
        share.first = part * each;
        share.end = min(part * each + each, n);
    }
    return __any_sync(0xffffffffu, chosen);
}

/* The number of this block's own work item; in shared memory, because registers are short. Each thread has its own. */
static __device__ __forceinline__ volatile unsigned &slow_block(mma_bc_smem &sm)
{
    return ((volatile unsigned *)sm.previous_end)[thread_id_reread()];
}

/* The rows of chunk I of the pair. */
template <int TILED, int I> struct slow_rows : mma_bc<TILED, true, I> {
    typedef mma_bc<TILED, true, I> base;
    using base::a;
    using base::dB;
    using base::dC;
    using base::lane;
    using base::low;
    using base::own;
    using base::row;
    using base::sm;
    using base::t4;
    using base::warp;

    __device__ __forceinline__ slow_rows(const fused_task &task, unsigned char *memory) : base(task, memory) {}
    __device__ __forceinline__ slow_steps &steps() const { return *(slow_steps *)sm.m; }

    /* ---- what all heads of a work item share ---- */

    __device__ __forceinline__ void begin()
    {
        __syncthreads(); // sm.at is there
        this->reread_lane();
        this->store_permuted(sm.c[I], a.cm);
        this->store_permuted(sm.b[I], a.bm);
        count_resets(sm.resets[0], a, sm.at.b, 2 * sm.at.c2);
        count_resets(sm.resets[1], a, sm.at.b, 2 * sm.at.c2 + 1);
        sm.previous[threadIdx.x] = make_float4(0, 0, 0, 0);
#pragma unroll
        for (int i = 0; i < 64; i++) dC[i >> 2][i & 3] = dB[i >> 2][i & 3] = 0;
#pragma unroll
        for (int i = 0; i < 32; i++) own[i >> 2][i & 3] = low[i >> 2][i & 3] = 0;
    }

    /* ---- one head ---- */

    /* Steps and decays of the 128 positions, a thread each. All threads call it. */
    __device__ __forceinline__ void set_steps(int i)
    {
        const int     h = head_of_tile<TILED>(a, tile_of_group<TILED>(a, sm.at.g, i)), l = (int)threadIdx.x;
        const int64_t t = sm.at.c2 * PAIR + l;
        const bool    mine = l < PAIR, real = mine && t < a.L;
        const float   raw = real ? to_float(*a.dt.row(sm.at.b, t, h)) + (a.bias ? a.bias[h] : 0) : 0;
        const float   dt = real ? clamp_dt(a, softplus_dt(raw)) : 0;
        double        cs = -expf(a.A_log[h]) * dt;
        cs = warp_prefix_sum(cs);
        if (mine && (l & 31) == 31) steps().ends[l >> 5] = cs;
        __syncthreads();
        if (mine) {
            const int    c = l >> 6, r = l & 63;
            const double all = steps().ends[2 * c] + steps().ends[2 * c + 1];
            if (l & 32) cs += steps().ends[2 * c];
            steps().cs[l] = cs;
            steps().dt[l] = dt;
            steps().in[l] = sm.resets[c][r] ? 0 : __expf((float)cs);
            steps().out[l] = sm.resets[c][r] != sm.resets[c][FQ - 1] ? 0 : dt * __expf((float)(all - cs));
        }
        cp_wait<0>();
        __syncthreads(); // the copies of all threads and the steps are there
    }
    __device__ __forceinline__ bool  has_reset(int c) const { return sm.resets[c][FQ - 1] != 0; }
    __device__ __forceinline__ float all(int c) const { return (float)(steps().ends[2 * c] + steps().ends[2 * c + 1]); }
    /* Pivots of the saved states: logarithms of what H1 and G1 have been multiplied by. */
    __device__ __forceinline__ float pivot(int c, int place) const
    {
        return (int)sm.st[0].rec[c][REC_FLAGS] & IS_WIDE_RANGE ? 0 : sm.st[0].rec[c][place];
    }
    /* Decay from H1 to the beginning of this chunk, and from its end to G1. */
    __device__ __forceinline__ float from_state() const
    {
        const float in = pivot(0, REC_BEFORE);
        if (I == 0) return inverse_pivot(in);
        return has_reset(0) ? 0 : __expf(all(0) - in);
    }
    __device__ __forceinline__ float to_state() const
    {
        const float out = pivot(1, REC_AFTER);
        if (I == 1) return inverse_pivot(out);
        return has_reset(1) ? 0 : __expf(all(1) - out);
    }

    /* sums += (16 rows of a tile, scaled by s0 and s1) (a state), the former as value and residual. */
    __device__ __forceinline__ void add_state_product(float (&sums)[16][4], const unsigned char *tile,
                                                      const unsigned char *state, float s0, float s1)
    {
#pragma unroll 1
        for (int k = 0; k < 4; k++) {
            uint32_t A[4], rest[4];
            this->reread_lane();
            this->left_rows(A, tile, 16 * warp(), 16 * k);
#pragma unroll
            for (int j = 0; j < 4; j++) {
                const float f = j & 1 ? s1 : s0;
                const uint2 w = split(low_of(A[j]) * f, high_of(A[j]) * f);
                A[j] = w.x;
                rest[j] = w.y;
            }
#pragma unroll
            for (int j = 0; j < 8; j++) {
                uint32_t B[4];
                this->right_columns(B, state + (j >> 2) * TILE_BYTES, 16 * (j & 3), 16 * k);
                mma(sums[2 * j], A, B[0], B[1]);
                mma(sums[2 * j + 1], A, B[2], B[3]);
                mma(sums[2 * j], rest, B[0], B[1]);
                mma(sums[2 * j + 1], rest, B[2], B[3]);
            }
        }
    }
    /* acc (16 x 16) = (rows 16 warp .. of `left`) (rows 16 j .. of `right`)^T, TILES tiles of 64 columns each. */
    template <int TILES>
    __device__ __forceinline__ void multiply_rows(float (&acc)[2][4], const unsigned char *left,
                                                  const unsigned char *right, int j) const
    {
#if MBA_HOPPER
        constexpr int AT_ONCE = TILED == 2 ? 1 : 2; // steps whose operands have registers
#else
        constexpr int AT_ONCE = 1;
#endif
#pragma unroll
        for (int i = 0; i < 8; i++) acc[i >> 2][i & 3] = 0;
#pragma unroll(AT_ONCE)
        for (int k = 0; k < 4 * TILES; k++) {
            uint32_t A[4], B[4];
            this->left_rows(A, left + (k >> 2) * TILE_BYTES, 16 * warp(), 16 * (k & 3));
            this->right_rows(B, right + (k >> 2) * TILE_BYTES, 16 * j, 16 * (k & 3));
            mma(acc[0], A, B[0], B[1]);
            mma(acc[1], A, B[2], B[3]);
        }
    }
    /* The factor of position l of this chunk and source p: of the same chunk, or of chunk 0 (LOW). */
    template <bool LOW> __device__ __forceinline__ float factor(int l, int p) const
    {
        if (LOW) return steps().in[FQ + l] * steps().out[p];
        const float decay = __expf((float)(steps().cs[I * FQ + l] - steps().cs[I * FQ + p])) * steps().dt[I * FQ + p];
        return p <= l && sm.resets[I][p] == sm.resets[I][l] ? decay : 0;
    }
    /* Adds one head's dCB of 16 sources from 16 j on, and to by_row what this warp's positions receive from them.
     * Writes what each source sends to these positions. */
    template <bool LOW> __device__ __forceinline__ void add_dcb(float (&sums)[8][4], float *columns, int j)
    {
        float  dot[2][4], cb[2][4], sent[4] = { 0, 0, 0, 0 };
        float2 by_row = make_float2(0, 0);
        this->reread_lane();
        multiply_rows<1>(dot, sm.st[0].dy[I], sm.st[0].x[LOW ? 0 : I], j);
#pragma unroll
        for (int e = 0; e < 8; e++) {
            float &v = dot[e >> 2][e & 3];
            v *= factor<LOW>(row() + 8 * (e >> 1 & 1), 16 * j + 8 * (e >> 2) + 2 * t4() + (e & 1));
            sums[2 * j + (e >> 2)][e & 3] += v;
        }
        multiply_rows<2>(cb, sm.c[I], sm.b[LOW ? 0 : I], j);
#pragma unroll
        for (int e = 0; e < 8; e++) {
            const bool  self = !LOW && 16 * j + 8 * (e >> 2) + 2 * t4() + (e & 1) == row() + 8 * (e >> 1 & 1);
            const float m = self ? 0 : dot[e >> 2][e & 3] * cb[e >> 2][e & 3];
            if (e & 2) by_row.y += m;
            else by_row.x += m;
            sent[2 * (e >> 2) + (e & 1)] += m;
        }
        const float2 before = steps().by_row[threadIdx.x];
        steps().by_row[threadIdx.x] = make_float2(before.x + by_row.x, before.y + by_row.y);
#pragma unroll
        for (int e = 0; e < 4; e++) {
            for (int d = 4; d < 32; d *= 2) sent[e] += __shfl_xor_sync(0xffffffffu, sent[e], d);
            if (lane() < 4) columns[16 * j + 8 * (e >> 1) + 2 * t4() + (e & 1)] = sent[e];
        }
    }
    __device__ __forceinline__ void add_all_dcb()
    {
        steps().by_row[threadIdx.x] = make_float2(0, 0);
#pragma unroll
        for (int j = 0; j < 4; j++) {
            if (j > warp()) break;
            add_dcb<false>(own, steps().own_columns[I][warp()], j);
        }
#pragma unroll
        for (int j = 0; j < 4 && I == 1; j++) add_dcb<true>(low, steps().low_columns[warp()], j);
    }
    /* Leaves what this warp's positions receive and send. The sums over states are increments of running sums. */
    __device__ __forceinline__ void add_token_sums()
    {
        const float2 by_row = steps().by_row[threadIdx.x];
        const float2 q = this->template rows_dot<16>(dC, sm.c[I]), out = this->template rows_dot<16>(dB, sm.b[I]);
        const float4 previous = sm.previous[threadIdx.x];
        const float  q0 = sum_over_lanes_of_row(q.x - previous.x);
        const float  q1 = sum_over_lanes_of_row(q.y - previous.y);
        const float  r0 = sum_over_lanes_of_row(by_row.x), r1 = sum_over_lanes_of_row(by_row.y);
        const float  out0 = sum_over_lanes_of_row(out.x - previous.z);
        const float  out1 = sum_over_lanes_of_row(out.y - previous.w);
        this->reread_lane();
        const float total = warp_sum(t4() ? 0 : q0 + q1);
        sm.previous[threadIdx.x] = make_float4(q.x, q.y, out.x, out.y);
        if (lane() == 0) steps().from_state[threadIdx.x >> 5] = total;
        if (t4()) return;
        steps().received[I * FQ + row()] = q0 + r0;
        steps().received[I * FQ + row() + 8] = q1 + r1;
        steps().sent[I * FQ + row()] = out0;
        steps().sent[I * FQ + row() + 8] = out1;
    }
    /* The gradient of the decays, a position per thread. All threads call it. */
    __device__ __forceinline__ void store_decay_gradient(int i)
    {
        const int l = (int)threadIdx.x, c = l >> 6 & 1, r = l & 63;
        double    sum = 0;
        __syncthreads();
        if (l < PAIR) {
            for (int w = r >> 4; w < 4; w++) sum += steps().own_columns[c][w][r];
            for (int w = 0; w < 4 && c == 0; w++) sum += steps().low_columns[w][r];
            sum += steps().sent[l] - steps().received[l];
        }
        const double mine = sum;
        sum = warp_prefix_sum(sum);
        const bool  none = has_reset(0) || has_reset(1);
        const float kappa = none ? 0 : __expf(all(0) - pivot(0, REC_BEFORE) + all(1) - pivot(1, REC_AFTER));
        __syncthreads(); // all() has been read: `ends` takes other sums
        if (l < PAIR && (l & 31) == 31) steps().ends[l >> 5] = sum;
        __syncthreads();
        if (l >= PAIR) return;
        sum -= mine;
        for (int w = 0; w < 8; w++) sum += steps().from_state[w] + kappa * sm.dots[w];
        for (int w = 0; w < l >> 5; w++) sum += steps().ends[w];
        const int64_t z = (int64_t)sm.at.b * a.H + tile_of_group<TILED>(a, sm.at.g, i);
        a.q[z * a.K * FQ + sm.at.c2 * PAIR + l] = (float)sum; // the gradient itself; ssd_finish checks the flag
    }
    __device__ __forceinline__ void head(int i)
    {
        __syncthreads(); // the previous head has been read
        this->fetch(sm.st[0], i);
        cp_commit();
        set_steps(i);
        this->reread_lane();
        this->state_dot(sm.st[0]);
        const float to = to_state();
        add_state_product(dB, sm.st[0].x[I], sm.st[0].g, steps().out[I * FQ + row()] * to,
                          steps().out[I * FQ + row() + 8] * to);
        this->reread_lane();
        const float from = from_state();
        add_state_product(dC, sm.st[0].dy[I], sm.st[0].h, steps().in[I * FQ + row()] * from,
                          steps().in[I * FQ + row() + 8] * from);
        this->reread_lane();
        add_all_dcb();
        this->reread_lane();
        asm volatile("" ::: "memory"); // no load of the sums is hoisted: registers are short
        add_token_sums();
        store_decay_gradient(steps().index[threadIdx.x]);
    }

    /* ---- a work item ---- */

    /* The heads that the block takes, in order; 256 flags are read at a time. */
    __device__ __forceinline__ void heads()
    {
        steps().rank[threadIdx.x] = 0;
#pragma unroll 1
        for (int i = 0; i < group_heads<TILED>(a); i = steps().index[threadIdx.x] + 1) {
            steps().index[threadIdx.x] = i;
            if (i % SLOW_THREADS == 0) {
                const unsigned bits = __ballot_sync(0xffffffffu,
                                                    is_wide_range_head<TILED>(a, sm.at, i + thread_id_reread()));
                __syncthreads(); // `wide` has been read
                if ((threadIdx.x & 31) == 0) steps().wide[threadIdx.x >> 5] = bits;
                __syncthreads();
            }
            if (!(steps().wide[i / 32 % (SLOW_THREADS / 32)] >> (i & 31) & 1)) continue;
            const int rank = steps().rank[threadIdx.x];
            steps().rank[threadIdx.x] = rank + 1;
            if (rank >= steps().share.first && rank < steps().share.end) head(i);
        }
    }
    __device__ __forceinline__ void store() const
    {
        float4 *to = (float4 *)a.slow_sums + (int64_t)slow_block(sm) * (SLOW_VALUES / 4) + threadIdx.x;
#pragma unroll
        for (int e = 0; e < 16; e++) {
            to[SLOW_THREADS * e] = make_float4(dC[e][0], dC[e][1], dC[e][2], dC[e][3]);
            to[SLOW_THREADS * (16 + e)] = make_float4(dB[e][0], dB[e][1], dB[e][2], dB[e][3]);
        }
    }
    __device__ __forceinline__ void run()
    {
        begin();
        heads();
        this->last_products();
        store();
    }
};

/* Both halves of the block pass the same barriers, each in its own code. */
template <int TILED = 0> static __device__ __forceinline__ void slow_block_run(const fused_task &a)
{
    MBA_DYNAMIC_SMEM(smem);
    mma_bc_smem &sm = *(mma_bc_smem *)smem;
    slow_block(sm) = blockIdx.x;
#pragma unroll 1
    for (; slow_block(sm) < (unsigned)(a.B * (a.K / 2) * pair_groups<TILED>(a));
         slow_block(sm) = slow_block(sm) + gridDim.x) {
        if (!take_share<TILED>(a, sm.at, ((slow_steps *)sm.m)->share, slow_block(sm))) continue;
        if (threadIdx.x < 128) slow_rows<TILED, 0>(a, smem).run();
        else slow_rows<TILED, 1>(a, smem).run();
    }
}

/* Launches ssd_tiled_slow, the next kernel of the call (ssd_tiled_slow_cuda.cu). */
struct fused_call;
mba_status launch_tiled_slow(fused_call &f, int tiled);

#endif
