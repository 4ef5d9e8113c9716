// SPDX-License-Identifier: Apache-2.0
/* selective_scan_specialized16_cuda.cu -- variant `specialized` of selective_scan (Mamba-1), forward, in blocks of 16
 * channels: bf16, 16 states, for shapes whose 32-channel blocks leave SMs idle. The maths and the other kernel are in
 * selective_scan_specialized_cuda.cu; buffers, barriers and element warps in selective_scan_specialized.cuh (HALF).
 *
 * kernel     scan_fwd_specialized16    four state warps hold 64 states each; four element warps take tiles in turn and
 *            process each from its step sizes to its output
 * takes      as scan_fwd_specialized, N = 16, whole sequences
 * launch     grid (sequences, blocks of 16 channels), block 256, dynamic smem 53 KB
 * resources  sm_90a, CUDA 13.0: 78 to 80 registers, no spill  [docs]
 *            blocks per SM: 3
 * moves      u, delta, z, B, C in, out, y and saved states once each: bound by exponentials and instruction issue
 * floor      as scan_fwd_specialized
 * measured   H200: 1184 us, 54 % of floor (special), L1/shared 72 % busy; mamba-1.4b, 1 x 32768  [docs]
 * order      fixed: time ascends */
#include "ops/selective_scan/selective_scan_specialized.cuh"

typedef specialized_smem<16, true> smem16;

static __device__ __forceinline__ lane_offsets state_offsets16(const smem16 &sm, int wc, int ns, int l4, int l8)
{
    const auto  &s = sm.buf[0];
    lane_offsets o;
    o.dt = smem_address_of(&s.dt[0][wc / 8][4 * l8]);
    o.x = smem_address_of(&s.x[l4][(wc + l8) ^ 4 * (l4 & 1)]);
    o.b = smem_address_of(&s.b[l4][8 * ns + l8]);
    o.c = smem_address_of(&s.c[l8][8 * ns + 2 * l4]);
    o.y = smem_address_of(&s.y[TILE * ns + 2 * l4][wc + l8]);
    asm volatile("" : "+r"(o.dt), "+r"(o.x), "+r"(o.b), "+r"(o.c));
    return o;
}

/* Operands of four tokens, and C of eight. */
struct half_tokens {
    float4 dt;
    float2 c;
    float  x, b;
};

static __device__ __forceinline__ void read_tokens(half_tokens &f, const lane_offsets &o, uint32_t index, int four)
{
    typedef smem16::buffer buffer;
    f.dt = *smem_pointer<const float4>(o.dt + index + four * (int)sizeof(buffer::dt[0]));
    f.x = *smem_pointer<const float>(o.x + index + four * 4 * (int)sizeof(buffer::x[0]));
    f.b = *smem_pointer<const float>(o.b + index + four * 4 * (int)sizeof(buffer::b[0]));
    if (four % 2 == 0) f.c = *smem_pointer<const float2>(o.c + index + four * 4 * (int)sizeof(buffer::c[0]));
}

/* Processes a tile. Rows of a product are eight channels at one token and the same channels at the next; columns are
 * eight states. So dt u B and C h of two tokens are one product each, operand a has the token as k, and C of eight
 * tokens is one operand b, of which each pair of tokens uses two columns. first: operands of the first four tokens.
 * Calls `ahead` before the last four. */
template <typename F, typename G>
static __device__ __forceinline__ void state_tokens16(float (&h)[2], float (&y)[TILE / 8][2], const half_tokens &first,
                                                      const float (&A2)[2], const lane_offsets &o, uint32_t index,
                                                      int l4, F keep, G ahead)
{
    half_tokens f = first;
#pragma unroll
    for (int four = 0; four < TILE / 4; four++) {
        if (four) read_tokens(f, o, index, four);
        if (four == TILE / 4 - 1) ahead();
        if (four % 2 == 0) keep(four);
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const float d0 = i ? f.dt.z : f.dt.x, d1 = i ? f.dt.w : f.dt.y;
            float       r[4] = { 0, 0, 0, 0 }, d[4] = { 0, 0, 0, 0 }, n[4];
            mma_tf32_k4(r, l4 == 2 * i ? f.x : 0, l4 == 2 * i + 1 ? f.x : 0, f.b);
            n[0] = fmaf(fast_exp2(d0 * A2[0]), h[0], r[0]);
            n[2] = fmaf(fast_exp2(d0 * A2[1]), h[1], r[1]);
            n[1] = fmaf(fast_exp2(d1 * A2[0]), n[0], r[2]);
            n[3] = fmaf(fast_exp2(d1 * A2[1]), n[2], r[3]);
            h[0] = n[1];
            h[1] = n[3];
            mma_tf32_k8(d, n[0], n[1], n[2], n[3], f.c.x, f.c.y);
            if (l4 == four % 2 * 2 + i) {
                y[four / 2][0] = d[0];
                y[four / 2][1] = d[3];
            }
        }
    }
}

static __device__ __forceinline__ void store_sums16(const lane_offsets &o, uint32_t index,
                                                    const float (&y)[TILE / 8][2])
{
    typedef smem16::buffer buffer;
#pragma unroll
    for (int g = 0; g < TILE / 8; g++) {
        float *to = smem_pointer<float>(o.y + index + 8 * g * (uint32_t)sizeof(buffer::y[0]));
        to[0] = y[g][0];
        to[sizeof(buffer::y[0]) / sizeof(float)] = y[g][1];
    }
}

/* The loop of a state warp. The first operands of a tile are loaded before the previous tile is done. */
static __device__ __forceinline__ void state_loop16(const scan_operands<bf16> &p, smem16 &sm, int warp, int lane)
{
    typedef smem16 S;
    enum { N = S::N, BUFFER = sizeof(S::buffer) };
    const block_work  &a = sm.at.a;
    const int          l4 = lane & 3, l8 = lane >> 2, wc = warp % S::CO * 8, ns = warp / S::CO, length = a.length;
    const int          ch = a.channel + wc + l8, n = 8 * ns + 2 * l4, tiles = (length + TILE - 1) / TILE;
    const bool         ok = ch < a.channels, keeps = sm.at.kept && ok;
    float             *kept = sm.at.kept + (wc + l8) * N + n; // advances even if nothing is saved
    const lane_offsets o = state_offsets16(sm, wc, ns, l4, l8);
    float              A2[2], h[2] = { 0, 0 }, y[TILE / 8][2];
#pragma unroll
    for (int e = 0; e < 2; e++) {
        A2[e] = ok ? A2_of(p.A_log.at[ch * p.A_log.row + n + e]) : 0;
        if (p.start.at && ok) h[e] = p.start.sequence(a.item)[ch * p.start.row + n + e];
    }
    half_tokens f;
    int         index = 0, tile = 0;
    wait_buffer<FULL, S>(sm, 0, index, S::BARRIER_THREADS);
    read_tokens(f, o, 0, 0);
    const auto one = [&](auto ahead) {
        const bool more = keeps && tile * TILE + SAVE_EVERY < length;
        state_tokens16(
            h, y, f, A2, o, index * (uint32_t)BUFFER, l4,
            [&](int four) {
                write2_global(four ? more : keeps, kept, h[0], h[1]);
                kept += p.D * N;
            },
            ahead);
        store_sums16(o, index * (uint32_t)BUFFER, y);
        arrive_buffer<DONE, S>(sm, index, S::BARRIER_THREADS);
    };
#pragma unroll 1
    for (; tile < tiles - 1; tile++) {
        const int then = next<S::BUFFERS>(index);
        one([&] { // operands of the next tile, to hide their latency
            wait_buffer<FULL, S>(sm, tile + 1, then, S::BARRIER_THREADS);
            read_tokens(f, o, then * (uint32_t)BUFFER, 0);
        });
        index = then;
    }
    one([] {});
    if (!p.final.at || a.first + a.length < p.L) return;
    const int who = thread_id_reread(), state = who / 32 / S::CO * 8 + who % 4 * 2; // saves registers
    const int at = a.channel + who / 32 % S::CO * 8 + who % 32 / 4;
    if (at >= a.channels) return;
    float *final = p.final.sequence(a.sequence) + at * p.final.row + state;
    final[0] = h[0];
    final[1] = h[1];
}

template <bool REGULAR>
__global__ void __launch_bounds__(256, 3) scan_fwd_specialized16(const __grid_constant__ scan_operands<bf16> p)
{
    extern __shared__ __align__(128) char smem[];
    smem16                               &sm = *(smem16 *)smem;
    scan_block<smem16, false, false, REGULAR>(p, sm, block_work_of(p, smem16::CH),
                                              [&](int warp, int lane) { state_loop16(p, sm, warp, lane); });
}

mba_status scan_specialized16(const mba_call *c, int k, scan_operands<bf16> p)
{
    mba_assert(sizeof(smem16) <= c->plan->launch[k].smem_bytes);
    p.blocks = (int)mba_ceil(p.Dg, smem16::CH);
    auto *kernel = has_regular_shape(p, smem16::CH) ? scan_fwd_specialized16<true> : scan_fwd_specialized16<false>;
    MBA_KERNEL(c, k, kernel, p);
    return MBA_OK;
}
