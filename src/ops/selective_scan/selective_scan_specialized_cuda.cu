// SPDX-License-Identifier: Apache-2.0
/* selective_scan_specialized_cuda.cu -- variant `specialized` of selective_scan (Mamba-1), forward: bf16, N = 8, 16.
 *
 *   h = 2^(dt A2) h + dt u B,   out = (C h + D u) silu(z),   dt = softplus(delta + dt_bias)
 *   u, delta, z, out (B, L, D), B, C (B, L, G, N) bf16   A_log (D, N), states (B, D, N), kept (items, rows, D, N) fp32
 *
 * kernel     scan_fwd_specialized     four state warps hold 128 states each and run the recurrence; two element warps
 *            compute step sizes, gate and store, or two compute step sizes and two gate and store (THREE_ROLES: at most
 *            3 blocks per SM). Buffers, barriers and element warps: selective_scan_specialized.cuh
 * takes      bf16, N = 8 or 16, D/G a multiple of 4, rows aligned to four values (faster: to eight); B, C: any rows
 * launch     grid (items, blocks of 512/N channels), block 192 or 256 (N = 8: 256), dynamic smem 36 KB (N = 16), 54 KB
 *            (N = 8); with segments two launches: over all segments but the last, then all but the first
 *            (specialized_part)
 * resources  sm_90a, CUDA 13.0: 79 to 80 registers, no spill  [docs]
 *            blocks per SM: 4, 3 of 256 threads
 * moves      u, delta, z, B, C in, out, y and saved states once each: bound by exponentials and instruction issue
 * floor      8 x 2048 x 4096, N = 16: one exponential per element, 331 us at 16 per clock and SM, 1.73 GHz
 * measured   H200: 264 us, 58 % of floor (memory), special 67 % busy; mamba-370m, 4 x 4096  [docs]
 * order      fixed: time ascends, segments of a sequence in order
 *
 * kernel     scan_align_bc            copies B and C whose rows do not begin at multiples of four values to dense rows
 *            in scratch, before the pass, forward or backward; a thread copies one value of each
 *
 * A lane holds four elements of a 16 x 8 accumulator of mma.sync. Rows are channels and columns states, in an order
 * that we choose (l4 = lane%4, l8 = lane/4, element e):
 *   N = 16   channel l8 of eight, state 4 l4 + e: rows 8 .. 15 are the same channels with other states
 *   N = 8    channel l8 + 8 (e/2) of sixteen, state 2 l4 + e%2
 * So all states of a channel are in one warp, each of the SM's four schedulers has one state warp of every block, and
 * the state registers are operand a of the product that computes C h (its rows are not rows of the state:
 * state_tokens). */
#include "ops/selective_scan/selective_scan_specialized.cuh"

/* ---- the recurrence ---- */

template <int N> static __device__ __forceinline__ int channel_of_lane(int e, int l8)
{
    return N == 16 ? l8 : l8 + e / 2 * 8;
}
template <int N> static __device__ __forceinline__ int state_of_lane(int e, int l4)
{
    return N == 16 ? 4 * l4 + e : 2 * l4 + e % 2;
}

template <typename S> static __device__ __forceinline__ lane_offsets state_offsets(const S &sm, int wc, int l4, int l8)
{
    const auto  &s = sm.buf[0];
    lane_offsets o;
    o.dt = smem_address_of(&s.dt[0][wc / 8][4 * l8]);
    o.x = smem_address_of(S::N == 16 ? &s.x[l4 / 2][(wc + l8) ^ 4 * (l4 / 2)] : &s.x[l4][wc + l8]);
    o.b = smem_address_of(S::N == 16 ? &s.b[l4 / 2][4 * (l8 / 2) + l8 % 2 + 2 * (l4 & 1)] : &s.b[l4][l8]);
    o.c = smem_address_of(&s.c[0][l8 * 8 + l4 * 2]);
    o.y = smem_address_of(S::N == 16 ? &s.x[l4][(wc + l8) ^ 4 * (l4 & 1)] : &s.x[l4 / 2][wc + l8 + 8 * (l4 & 1)]);
    asm volatile("" : "+r"(o.dt), "+r"(o.x), "+r"(o.b), "+r"(o.c));
    return o;
}

/* dt u and B of four tokens as operands of products with k = 4. N = 8: k is the token. N = 16: a product has two
 * tokens, each twice: even k for rows 0 .. 7, odd k for rows 8 .. 15. */
template <int N> struct four_tokens {
    float  x0[N / 8], x1[N / 8], b[N / 8];
    float4 dt[16 / N];
};

template <typename S>
static __device__ __forceinline__ void read_tokens(four_tokens<S::N> &f, const lane_offsets &o, uint32_t index,
                                                   int four, int l4)
{
    typedef typename S::buffer buffer;
    enum { N = S::N, XROW = sizeof(buffer::x[0]), BROW = sizeof(buffer::b[0]), DT = sizeof(buffer::dt[0]) };
#pragma unroll
    for (int p = 0; p < N / 8; p++) {
        const int   t = 4 * four + 2 * p;
        const float x = *smem_pointer<const float>(o.x + index + t * XROW);
        f.x0[p] = N == 16 && (l4 & 1) ? 0 : x;
        f.x1[p] = N == 16 ? (l4 & 1 ? x : 0) : *smem_pointer<const float>(o.x + index + t * XROW + 32);
        f.b[p] = *smem_pointer<const float>(o.b + index + t * BROW);
    }
#pragma unroll
    for (int i = 0; i < 16 / N; i++)
        f.dt[i] = *smem_pointer<const float4>(o.dt + index + four * DT + i * (int)sizeof(buffer::dt[0][0]));
}

/* Processes GROUPS groups of four tokens of a buffer from group `from` on; calls `middle` after SAVE_EVERY tokens. The
 * state enters C h as operand a, element e as a[e]. So row l8 of that operand has elements 0 and 2, row l8 + 8 elements
 * 1 and 3, and the sum over a channel is that of two values of the result, both in one lane. */
template <typename S, int GROUPS, typename F>
static __device__ __forceinline__ void state_tokens(float (&h)[4], const float (&A2)[4], const lane_offsets &o,
                                                    uint32_t index, int from, int l4, F middle)
{
    typedef typename S::buffer buffer;
    enum { N = S::N, PER = N / 4, SUMS = 4 * GROUPS / PER }; /* a lane holds C h of one token in PER */
    float y[SUMS], d[4] = { 0, 0, 0, 0 };
#pragma unroll
    for (int g = 0; g < GROUPS; g++) {
        if (g == SAVE_EVERY / 4) middle();
        four_tokens<N> f;
        read_tokens<S>(f, o, index, from + g, l4);
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const int p = N == 16 ? j / 2 : 0;
            float     b[4] = { 0, 0, 0, 0 }, dt[16 / N];
#pragma unroll
            for (int i = 0; i < 16 / N; i++)
                dt[i] = j == 0 ? f.dt[i].x : j == 1 ? f.dt[i].y : j == 2 ? f.dt[i].z : f.dt[i].w;
            const bool here = N == 16 ? l4 / 2 == j % 2 : l4 == j; // all other tokens are zero
            mma_tf32_k4(b, f.x0[p], f.x1[p], here ? f.b[p] : 0);
#pragma unroll
            for (int e = 0; e < 4; e++) h[e] = fmaf(fast_exp2(dt[N == 16 ? 0 : e / 2] * A2[e]), h[e], b[e]);
            const uint32_t row = o.c + index + (4 * (from + g) + j) * (int)sizeof(buffer::c[0]);
            const float2   c = *smem_pointer<const float2>(row);
            mma_tf32_k8(d, h[0], h[1], h[2], h[3], c.x, c.y);
            if (j % PER != PER - 1) continue;
            y[(4 * g + j) / PER] = d[0] + d[3];
            d[0] = d[1] = d[2] = d[3] = 0;
        }
    }
    warp_sync();
#pragma unroll
    for (int i = 0; i < SUMS; i++) // after all reads of dt u, whose place it takes
        *smem_pointer<float>(o.y + index + (4 * from + PER * i) * (int)sizeof(buffer::x[0])) = y[i];
}

/* Saves the states of this lane's channels if `now`; k is the address of the first. */
template <int N>
static __device__ __forceinline__ void save_states(bool now, float *k, const float (&h)[4], bool second)
{
    if (N == 16) {
        write4_global(now, k, h);
    } else {
        write2_global(now, k, h[0], h[1]);
        write2_global(now && second, k + 8 * N, h[2], h[3]);
    }
}

/* The state before a segment: the final state of the first, then the others in order. The decay across a segment is
 * that of the sum of its steps. */
template <int N>
static __device__ __forceinline__ void add_previous_segments(float (&h)[4], const scan_operands<bf16> &p,
                                                             const block_work &a, const float (&A2)[4], int wc, int l4,
                                                             int l8)
{
    const int     before = (int)(a.item % p.segments);
    const int64_t row = (a.item - before) * p.D;
    int64_t       ch[4];
#pragma unroll
    for (int e = 0; e < 4; e++) ch[e] = row + min(a.channel + wc + channel_of_lane<N>(e, l8), a.channels - 1);
#pragma unroll
    for (int e = 0; e < 4; e++) h[e] = p.ends[ch[e] * N + state_of_lane<N>(e, l4)];
#pragma unroll 4
    for (int k = 1; k < before; k++) {
#pragma unroll
        for (int e = 0; e < 4; e++) {
            const int64_t at = ch[e] + (int64_t)k * p.D;
            h[e] = fmaf(fast_exp2(A2[e] * p.steps[at]), h[e], p.ends[at * N + state_of_lane<N>(e, l4)]);
        }
    }
}

/* The loop of a state warp. is_first: the first segment of a sequence, in the launch before the main pass; its final
 * state goes to p.ends. */
template <typename S>
static __device__ __forceinline__ void state_loop(const scan_operands<bf16> &p, S &sm, int warp, int lane,
                                                  bool is_first)
{
    enum { N = S::N };
    const block_work  &a = sm.at.a;
    const int          l4 = lane & 3, l8 = lane >> 2, wc = warp * (128 / N), length = a.length;
    const int          here = a.channels - a.channel, tiles = (length + TILE - 1) / TILE;
    const bool         saves = sm.at.kept && wc + l8 < here;
    float             *kept = sm.at.kept + (wc + l8) * N + state_of_lane<N>(0, l4); // advances even if nothing is saved
    const bool         second = wc + l8 + 8 < here;
    const lane_offsets o = state_offsets(sm, wc, l4, l8);
    float              A2[4], h[4];
    const float       *start = p.start.at ? p.start.sequence(a.sequence) : NULL;
#pragma unroll
    for (int e = 0; e < 4; e++) {
        const int64_t ch = a.channel + wc + channel_of_lane<N>(e, l8), n = state_of_lane<N>(e, l4);
        const bool    ok = ch < a.channels;
        A2[e] = ok ? A2_of(p.A_log.at[ch * p.A_log.row + n]) : 0;
        h[e] = start && ok ? start[ch * p.start.row + n] : 0;
    }
    if (!is_first && p.segments > 1) add_previous_segments<N>(h, p, a, A2, wc, l4, l8);
    for (int tile = 0; tile < tiles; tile++) {
        const int index = tile % S::BUFFERS;
        wait_buffer<FULL, S>(sm, tile, index, S::BARRIER_THREADS);
        const auto save = [&](bool now) {
            save_states<N>(now, kept, h, second);
            kept += p.D * N;
        };
        const bool    more = saves && tile * TILE + SAVE_EVERY < length;
        constexpr int GROUPS = N / 4; // limited by registers
#pragma unroll 1
        for (int g = 0; g < TILE / 4; g += GROUPS) {
            save(g ? more : saves);
            state_tokens<S, GROUPS>(h, A2, o, index * (uint32_t)sizeof(sm.buf[0]), g, l4, [&] { save(more); });
        }
        arrive_buffer<DONE, S>(sm, index, S::BARRIER_THREADS);
    }
    if (!is_first && (!p.final.at || a.first + a.length < p.L)) return;
    float *final = is_first ? p.ends + a.item * p.D * N : p.final.sequence(a.sequence);
#pragma unroll
    for (int e = 0; e < 4; e++) {
        const int64_t ch = a.channel + wc + channel_of_lane<N>(e, l8), n = state_of_lane<N>(e, l4);
        if (ch < a.channels) final[ch * (is_first ? N : p.final.row) + n] = h[e];
    }
}

/* ---- carry pass: the final state of a segment that starts from zero. Without C h a product serves eight channels at
 * two tokens and eight states (as in specialized16): element e of a lane is state 2 l4 + e%2 of channel l8, from e = 2
 * on of the second eight states (N = 16) or channels (N = 8) ---- */

template <typename S> static __device__ __forceinline__ lane_offsets carry_offsets(const S &sm, int wc, int l4, int l8)
{
    const auto  &s = sm.buf[0];
    lane_offsets o;
    o.dt = smem_address_of(&s.dt[0][wc / 8][4 * l8]);
    o.x = smem_address_of(&s.x[l4][wc + (l8 ^ 4 * S::swapped_rows(l4))]);
    o.b = smem_address_of(&s.b[l4][l8]);
    o.c = o.y = 0;
    asm volatile("" : "+r"(o.dt), "+r"(o.x), "+r"(o.b), "+r"(o.c));
    return o;
}

template <typename S>
static __device__ __forceinline__ void carry_tokens(float (&h)[4], const float (&A2)[4], const lane_offsets &o,
                                                    uint32_t index, int l4)
{
    typedef typename S::buffer buffer;
    enum { XROW = sizeof(buffer::x[0]), BROW = sizeof(buffer::b[0]), DT = sizeof(buffer::dt[0]), OCTET = DT / S::CO };
#pragma unroll
    for (int four = 0; four < TILE / 4; four++) {
        float4 dt[2];
        float  x[2], b[2];
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const int channels = S::N == 8 ? i : 0, states = S::N == 16 ? i : 0;
            dt[i] = *smem_pointer<const float4>(o.dt + index + four * DT + channels * OCTET);
            x[i] = *smem_pointer<const float>(o.x + index + 4 * four * XROW + channels * 32);
            b[i] = *smem_pointer<const float>(o.b + index + 4 * four * BROW + states * 32);
        }
#pragma unroll
        for (int j = 0; j < 2; j++) {
#pragma unroll
            for (int i = 0; i < 2; i++) {
                const float d0 = j ? dt[i].z : dt[i].x, d1 = j ? dt[i].w : dt[i].y;
                float       r[4] = { 0, 0, 0, 0 }, *g = h + 2 * i;
                mma_tf32_k4(r, l4 == 2 * j ? x[i] : 0, l4 == 2 * j + 1 ? x[i] : 0, b[i]);
#pragma unroll
                for (int e = 0; e < 2; e++) {
                    g[e] = fmaf(fast_exp2(d0 * A2[2 * i + e]), g[e], r[e]);
                    g[e] = fmaf(fast_exp2(d1 * A2[2 * i + e]), g[e], r[2 + e]);
                }
            }
        }
    }
}

template <typename S>
static __device__ __forceinline__ void carry_states(const scan_operands<bf16> &p, S &sm, int warp, int lane)
{
    enum { N = S::N };
    const block_work  &a = sm.at.a;
    const int          l4 = lane & 3, l8 = lane >> 2, wc = warp * (128 / N), tiles = (a.length + TILE - 1) / TILE;
    const lane_offsets o = carry_offsets(sm, wc, l4, l8);
    const auto         channel = [&](int e) { return a.channel + wc + l8 + (N == 8 ? e / 2 * 8 : 0); };
    const auto         state = [&](int e) { return 2 * l4 + e % 2 + (N == 16 ? e / 2 * 8 : 0); };
    float              A2[4], h[4] = { 0, 0, 0, 0 };
#pragma unroll
    for (int e = 0; e < 4; e++)
        A2[e] = channel(e) < a.channels ? A2_of(p.A_log.at[channel(e) * p.A_log.row + state(e)]) : 0;
#pragma unroll 1
    for (int tile = 0; tile < tiles; tile++) {
        const int index = tile % S::BUFFERS;
        wait_buffer<FULL, S>(sm, tile, index, S::BARRIER_THREADS);
        carry_tokens<S>(h, A2, o, index * (uint32_t)sizeof(sm.buf[0]), l4);
        arrive_buffer<DONE, S>(sm, index, S::BARRIER_THREADS);
    }
#pragma unroll
    for (int e = 0; e < 4; e++)
        if (channel(e) < a.channels) p.ends[(a.item * p.D + channel(e)) * N + state(e)] = h[e];
}

#if defined(__CUDA_ARCH__) && (__CUDA_ARCH__ < 900 || __CUDA_ARCH__ >= 1000) /* there 80 registers are too few */
#define BLOCKS_PER_SM 3
#else
#define BLOCKS_PER_SM 4
#endif

/* The work of a block: all items, or all segments but one of each sequence. The carry launch leaves out the last, which
 * no segment continues; the main pass leaves out the first, which the carry launch has done. */
template <bool CARRY>
static __device__ __forceinline__ block_work specialized_part(const scan_operands<bf16> &p, int width)
{
    const uint32_t i = blockIdx.y * gridDim.x + blockIdx.x, each = (uint32_t)p.segments - 1;
    uint32_t       item = i / gridDim.y;
    if (CARRY || each) item += item / each + !CARRY;
    return block_work_at(p, width, item, (int)(i % gridDim.y));
}

/* CARRY: the launch before the main pass: the first segment of every sequence, and the final states of the others. */
template <int N, bool CARRY, bool THREE_ROLES, bool REGULAR>
__global__ void __launch_bounds__(THREE_ROLES || N == 8 ? 256 : 192, BLOCKS_PER_SM - (THREE_ROLES || N == 8))
    scan_fwd_specialized(const __grid_constant__ scan_operands<bf16> p)
{
    extern __shared__ __align__(128) char smem[];
    typedef specialized_smem<N, false>    S;
    S                                    &sm = *(S *)smem;
    const block_work                      a = specialized_part<CARRY>(p, S::CH);
    if (CARRY && a.first > 0)
        scan_block<S, true, false, REGULAR>(p, sm, a, [&](int warp, int lane) { carry_states(p, sm, warp, lane); });
    else
        scan_block<S, false, THREE_ROLES, REGULAR>(p, sm, a,
                                                   [&](int warp, int lane) { state_loop(p, sm, warp, lane, CARRY); });
}

/* ---- launcher ---- */

template <bool REGULAR> static auto *specialized_of(int64_t N, bool carry, bool three_roles)
{
    if (N == 8)
        return carry ? scan_fwd_specialized<8, true, false, REGULAR> : scan_fwd_specialized<8, false, false, REGULAR>;
    return carry         ? scan_fwd_specialized<16, true, false, REGULAR>
           : three_roles ? scan_fwd_specialized<16, false, true, REGULAR>
                         : scan_fwd_specialized<16, false, false, REGULAR>;
}

/* Launch k: the main pass, or the carry pass. */
static mba_status launch_specialized(const mba_call *c, int k, const scan_operands<bf16> &p, bool carry)
{
    const mba_launch *l = &c->plan->launch[k];
    mba_assert((p.N == 16 ? sizeof(specialized_smem<16, false>) : sizeof(specialized_smem<8, false>)) <= l->smem_bytes);
    const bool three_roles = l->block > 192, plain = has_regular_shape(p, 512 / p.N);
    auto      *kernel = plain ? specialized_of<true>(p.N, carry, three_roles)
                              : specialized_of<false>(p.N, carry, three_roles);
    MBA_KERNEL(c, k, kernel, p);
    return MBA_OK;
}

/* A thread copies one value of B and one of C. */
__global__ void __launch_bounds__(256) scan_align_bc(bf16 *to, sequence_view<const bf16> B, sequence_view<const bf16> C,
                                                     uint32_t L, uint32_t width, uint32_t values)
{
    const uint32_t i = blockIdx.x * 256 + threadIdx.x, row = i / width;
    if (i >= values) return;
    to[i] = B.sequence(row / L)[row % L * B.row + i % width];
    to[values + i] = C.sequence(row / L)[row % L * C.row + i % width];
}

mba_status scan_aligned_bc(const mba_call *c, int *k, scan_operands<bf16> *p)
{
    if (strcmp(c->plan->launch[0].kernel, "scan_align_bc")) return MBA_OK;
    const int64_t width = p->G * p->N, values = p->tokens * width;
    bf16 *const   to = (bf16 *)mba_cuda_scratch(c, CU_ALIGNED);
    MBA_KERNEL(c, (*k)++, scan_align_bc, to, p->B, p->C, (uint32_t)p->L, (uint32_t)width, (uint32_t)values);
    p->B = dense_view((const bf16 *)to, p->L, width);
    p->C = dense_view((const bf16 *)to + values, p->L, width);
    p->aligned4_bc = true;
    return MBA_OK;
}

extern "C" mba_status selective_scan_specialized_cuda(const mba_call *c)
{
    const mba_node     *n = c->node;
    const scan_dims     d = scan_dims_of(n);
    const int           main = c->plan->nlaunches - 1;
    const bool          carry = main > 0 && !strcmp(c->plan->launch[main - 1].kernel, "scan_fwd_specialized");
    scan_operands<bf16> p = scan_operands_of<bf16>(c, c->plan->launch[main].grid[0] + (carry ? d.B : 0), 512 / d.N);
    int                 k = 0;
    MBA_TRY(scan_aligned_bc(c, &k, &p));
    p.out = sequence_view_of<bf16>(n->out[OUT], c->out[OUT], d.L, d.D);
    p.final = sequence_view_of<float>(n->out[FINAL], c->out[FINAL], d.D, d.N);
    set_saved_states(&p, n->out[KEPT], c->out[KEPT]);
    p.ys = (bf16 *)c->out[YS];
    p.aligned8 = all_vec_aligned<8>(p);
    p.aligned8_bc = vec_aligned<8>(p.B) && vec_aligned<8>(p.C);
    if (!strcmp(c->plan->launch[main].kernel, "scan_fwd_specialized16")) return scan_specialized16(c, main, p);
    if (p.segments > 1) {
        p.ends = (float *)mba_cuda_scratch(c, CU_ENDS);
        p.steps = (float *)mba_cuda_scratch(c, CU_STEPS);
        MBA_TRY(launch_specialized(c, k, p, true));
    }
    return launch_specialized(c, main, p, false);
}
