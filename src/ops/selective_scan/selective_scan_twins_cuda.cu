/* selective_scan_twins_cuda.cu -- the scan of Mamba-1, forward: bf16, 8 or 16 states, two tiles of states to a warp.
 *
 *   h = 2^(dt A2) h + dt u B,   out = (C h + D u) silu(z),   dt = softplus(delta + dt_bias)
 *   u, delta, z, out (B, L, D)   B, C (B, L, G, N) bf16     A_log (D, N)   states (B, D, N) fp32     kept (items, tiles, D, N) bf16
 *
 * kernel     scan_fwd_twins     two warps hold 256 states each and do nothing else; two make step sizes, gate and store
 * takes      bf16, N = 8 or 16, D/G a multiple of 4, rows that begin at multiples of four values
 * launch     grid (items, blocks of 512/N channels), block 128, dynamic smem 25 KB (N = 16), 38 KB (N = 8)
 * resources  sm_90a, CUDA 13.0: 114 registers (N = 16), 119 (N = 8), to carry 83 and 106; no spill; 4 blocks an SM
 * moves      u, delta, z, B, C in, out, y and kept states once each: bound by exponentials and instructions, not by DRAM
 * floor      8 x 2048 x 4096, N = 16: one exponential per element, 331 us at 16 a clock and SM, 1.73 GHz
 * measured   none yet
 * order      fixed: time ascends, pieces of a sequence in order
 *
 * A lane has two 16 x 8 accumulators of mma.sync. Which channel a row and which state a column stands for is free; it is chosen so
 * that what a lane reads and writes lies together (l4 = lane%4, l8 = lane/4, tile i, element e):
 *   N = 16   channels 2 l8 + e/2 of sixteen, states 4 l4 + 2 i + e%2
 *   N = 8    channels 4 l8 + 2 i + e/2 of thirty-two, states 2 l4 + e%2
 * Half the shared-memory reads per state of one tile to a warp, and no split sums of y. */
#include "ops/selective_scan/selective_scan_cuda.cuh"

enum { ELEMENTS = 64, FULL = 1, DONE = 3 };                   /* threads of the element-wise role; barriers */

template <int N> struct twins_smem {
    enum { CH = 512 / N, ROW = 24 };                          /* ROW: of b and c; four rows lie in different banks */
    struct buffer {
        float dt[TILE][CH], x[TILE][CH + 8], y[TILE][CH + 4]; /* x: dt u; y: C h */
        float b[TILE][ROW], c[TILE][ROW];                     /* b, N = 16: states 0 2 1 3 of each four */
    } buf[2];
    quad<bf16>    stash[2][2][TILE * CH / 4];                 /* u and z as read, of the two tiles under way: private slots */
    float         bias[CH], skip[CH];
    origins<bf16> at;
    int           flip;
};

/* ---- element-wise: reads ahead by one tile, finishes two tiles behind ---- */

template <int N> struct twins_role {
    enum { CQ = 128 / N, RP = ELEMENTS / CQ, NP = TILE / RP, BQ = N / 2, BP = ELEMENTS / BQ, NB = TILE / BP };
    const bf16    *u, *delta, *z, *bc;                        /* at this thread's columns */
    bf16          *out, *ys;
    const int32_t *ids;
    int            length, first, cq, row, bc_row, bc_bytes, u_bytes, delta_bytes, z_bytes, out_bytes, ys_bytes;   /* .._bytes: between rows */
    bool           mine, docs, is_c;
    int            phase[NP];                                 /* token within its sequence, of the row to be read next */
    quad<bf16>     ru[NP], rd[NP], rz[NP], rbc[NB];           /* the tile that was read */
    document       doc[NP];
};

template <int N> static __device__ __forceinline__ twins_role<N> twins_role_of(const scan_operands<bf16> &p, const twins_smem<N> &sm, int et)
{
    twins_role<N> e;
    e.cq  = et % e.CQ;
    e.row = et / e.CQ;
    e.mine   = sm.at.a.channel + 4 * e.cq < sm.at.a.channels;
    e.length = sm.at.a.length;
    e.first  = sm.at.a.first;
    e.docs   = p.ids.at || p.pack > 1;
    const int column = e.mine ? 4 * e.cq : 0;
    e.u     = sm.at.u + column;
    e.delta = sm.at.delta + column;
    e.z     = sm.at.z ? sm.at.z + column : NULL;
    e.out   = sm.at.out ? sm.at.out + column : NULL;
    e.ys    = sm.at.ys ? sm.at.ys + column : NULL;
    e.ids   = sm.at.ids;
    e.is_c     = et % e.BQ >= N / 4;
    e.bc       = (e.is_c ? sm.at.C : sm.at.B) + et % (N / 4) * 4;
    e.bc_row   = et / e.BQ;
    e.bc_bytes = 2 * (int)(e.is_c ? p.C.row : p.B.row);
    e.u_bytes     = 2 * (int)p.u.row;
    e.delta_bytes = 2 * (int)p.delta.row;
    e.z_bytes     = 2 * (int)p.z.row;
    e.out_bytes   = 2 * (int)p.out.row;
    e.ys_bytes    = 2 * p.D;
#pragma unroll
    for (int i = 0; i < e.NP; i++) e.phase[i] = (e.first + e.row + i * e.RP) % p.L;
    return e;
}

template <int N, bool CARRY> static __device__ __forceinline__ void twins_read(twins_role<N> &e, const scan_operands<bf16> &p, int tile)
{
#pragma unroll
    for (int i = 0; i < e.NP; i++) {
        const int t = min(tile * TILE + e.row + i * e.RP, e.length - 1);
        e.ru[i] = read4_global(row_at(e.u, t, e.u_bytes));
        e.rd[i] = read4_global(row_at(e.delta, t, e.delta_bytes));
        if (!CARRY && e.z) e.rz[i] = read4_global(row_at(e.z, t, e.z_bytes));
        if (!e.docs) continue;
        e.doc[i] = read_document(e.ids, p.ids.row, t, e.phase[i] == 0 || t + e.first == 0, p.pack > 1);
        e.phase[i] += TILE % p.L;
        if (e.phase[i] >= p.L) e.phase[i] -= p.L;
    }
    if (CARRY && e.is_c) return;
#pragma unroll
    for (int i = 0; i < e.NB; i++) {
        const int t = min(tile * TILE + e.bc_row + i * e.BP, e.length - 1);
        e.rbc[i] = read4_global(row_at(e.bc, t, e.bc_bytes));
    }
}

/* Step sizes, dt u, B and C of a tile into its buffer. */
template <int N, bool CARRY> static __device__ __forceinline__ void twins_fill(const twins_role<N> &e, twins_smem<N> &sm, int et, int tile)
{
    auto        &s = sm.buf[tile & 1];
    const int    left = e.length - tile * TILE;
    const float4 b4 = *(const float4 *)&sm.bias[e.cq * 4];
    const float  bias[4] = { b4.x, b4.y, b4.z, b4.w };
#pragma unroll
    for (int i = 0; i < e.NP; i++) {
        const int row = e.row + i * e.RP;
        float     u[4], d[4];
        values(u, e.ru[i]);
        values(d, e.rd[i]);
        if (!CARRY) {
            sm.stash[tile & 1][0][i * ELEMENTS + et] = e.ru[i];
            if (e.z) sm.stash[tile & 1][1][i * ELEMENTS + et] = e.rz[i];
        }
#pragma unroll
        for (int k = 0; k < 4; k++) {
            d[k] = step_of<false>(d[k] + bias[k]);
            u[k] = rounded_tf32(u[k] * d[k]);
        }
        float4 *dt = (float4 *)&s.dt[row][e.cq * 4], *x = (float4 *)&s.x[row][e.cq * 4];
        *dt = make_float4(d[0], d[1], d[2], d[3]);
        *x  = make_float4(u[0], u[1], u[2], u[3]);            // exceptions are written over: a store skipped costs less than four choices
        if (e.docs && e.doc[i].here != e.doc[i].before) *dt = make_float4(RESET_STEP, RESET_STEP, RESET_STEP, RESET_STEP);
        if (row >= left) *dt = *x = make_float4(0, 0, 0, 0);
    }
    if (CARRY && e.is_c) return;
#pragma unroll
    for (int i = 0; i < e.NB; i++) {
        const int row = e.bc_row + i * e.BP;
        float     v[4];
        values(v, e.rbc[i]);
        if (N == 16 && !e.is_c) {
            const float v1 = v[1];
            v[1] = v[2];
            v[2] = v1;
        }
        write4((e.is_c ? s.c[row] : s.b[row]) + et % (N / 4) * 4, v);
    }
}

/* y of a tile whose states went by: skip, gate, store. */
template <int N> static __device__ __forceinline__ void twins_finish(const twins_role<N> &e, const twins_smem<N> &sm, int et, int tile)
{
    const auto  &s = sm.buf[tile & 1];
    const float4 k = *(const float4 *)&sm.skip[e.cq * 4];
    if (!e.mine) return;
#pragma unroll
    for (int i = 0; i < e.NP; i++) {
        const int    row = e.row + i * e.RP, t = tile * TILE + row;
        const float4 y4 = *(const float4 *)&s.y[row][e.cq * 4];
        float        u[4], y[4];
        if (t >= e.length) break;                             // rows ascend
        values(u, sm.stash[tile & 1][0][i * ELEMENTS + et]);
        y[0] = fmaf(k.x, u[0], y4.x);
        y[1] = fmaf(k.y, u[1], y4.y);
        y[2] = fmaf(k.z, u[2], y4.z);
        y[3] = fmaf(k.w, u[3], y4.w);
        if (e.ys) write4_global(row_at(e.ys, t, e.ys_bytes), y);
        if (e.z) {
            float z[4];
            values(z, sm.stash[tile & 1][1][i * ELEMENTS + et]);
#pragma unroll
            for (int j = 0; j < 4; j++) y[j] *= z[j] * gate_sigmoid<false>(z[j]);
        }
        write4_global(row_at(e.out, t, e.out_bytes), y);
    }
}

template <int N, bool CARRY> static __device__ __forceinline__ void twins_elements(const scan_operands<bf16> &p, twins_smem<N> &sm, int et)
{
    twins_role<N> e = twins_role_of<N>(p, sm, et);
    const int     tiles = (e.length + TILE - 1) / TILE;
    twins_read<N, CARRY>(e, p, 0);
    for (int tile = 0; tile < tiles; tile++) {
        if (tile >= 2) {
            barrier_wait<DONE>(tile, 128);
            if (!CARRY) twins_finish<N>(e, sm, et, tile - 2);
        }
        twins_fill<N, CARRY>(e, sm, et, tile);
        barrier_arrive<FULL>(tile, 128);
        if (tile + 1 < tiles) twins_read<N, CARRY>(e, p, tile + 1);
    }
    for (int tile = max(tiles - 2, 0); tile < tiles; tile++) {
        barrier_wait<DONE>(tile, 128);
        if (!CARRY) twins_finish<N>(e, sm, et, tile);
    }
}

/* ---- the recurrence ---- */

template <int N> static __device__ __forceinline__ int twin_channel(int i, int e, int l8) { return N == 16 ? 2 * l8 + e / 2 : 4 * l8 + 2 * i + e / 2; }
template <int N> static __device__ __forceinline__ int twin_state(int i, int e, int l4) { return N == 16 ? 4 * l4 + 2 * i + e % 2 : 2 * l4 + e % 2; }

/* A value per channel: v[i][0] for the rows lane/4 of tile i, v[i][1] for the rows + 8. */
template <int N> static __device__ __forceinline__ void twin_rows(float (&v)[2][2], const float *row, int l8)
{
    if (N == 16) {
        const float2 w = *(const float2 *)(row + 2 * l8);
        v[0][0] = v[1][0] = w.x;
        v[0][1] = v[1][1] = w.y;
    } else {
        const float4 w = *(const float4 *)(row + 4 * l8);
        v[0][0] = w.x; v[0][1] = w.y; v[1][0] = w.z; v[1][1] = w.w;
    }
}

/* B of token `row` as columns lane/4 of both tiles. */
template <int N> static __device__ __forceinline__ float2 twin_columns(const float *row, int l8)
{
    return N == 16 ? *(const float2 *)(row + 2 * l8) : make_float2(row[l8], row[l8]);
}

/* C h of one token: y[i][0], y[i][1] for rows lane/4 and + 8; N = 16: both tiles belong to one channel, y[0] is their sum. */
template <int N> static __device__ __forceinline__ void twin_outputs(float (&y)[2][2], const float (&h)[2][4], const float *c, int l4)
{
    if (N == 16) {
        const float4 C = *(const float4 *)(c + 4 * l4);
#pragma unroll
        for (int e = 0; e < 2; e++)
            y[0][e] = fmaf(C.w, h[1][2 * e + 1], fmaf(C.z, h[1][2 * e], fmaf(C.y, h[0][2 * e + 1], C.x * h[0][2 * e])));
    } else {
        const float2 C = *(const float2 *)(c + 2 * l4);
#pragma unroll
        for (int k = 0; k < 4; k++) y[k / 2][k % 2] = fmaf(C.y, h[k / 2][k % 2 * 2 + 1], C.x * h[k / 2][k % 2 * 2]);
    }
}

/* The states of this lane's channels; k is where they lie. */
template <int N> static __device__ __forceinline__ void twins_keep(bf16 *k, const float (&h)[2][4])
{
#pragma unroll
    for (int q = 0; q < (N == 16 ? 2 : 4); q++) {
        if (N == 16) *(uint2 *)(k + q * 16) = make_uint2(pack_bf16(h[0][2 * q], h[0][2 * q + 1]), pack_bf16(h[1][2 * q], h[1][2 * q + 1]));
        else         *(uint32_t *)(k + q * 8) = pack_bf16(h[q / 2][q % 2 * 2], h[q / 2][q % 2 * 2 + 1]);
    }
}

/* Sixteen tokens of one buffer. */
template <int N, bool CARRY> static __device__ __forceinline__ void
twins_tile_states(float (&h)[2][4], float (&steps)[2][2], const float (&A2)[2][4], const float (&pick)[8], typename twins_smem<N>::buffer &s,
                  int wc, int l4, int l8)
{
#pragma unroll 1
    for (int g = 0; g < 2; g++) {                             // not unrolled: sixteen tokens ahead do not fit the registers
        float d[2][4] = {}, y[4][2][2];
#pragma unroll
        for (int q = 0; q < 2; q++) {
            const int    r4 = g * 8 + q * 4;
            const float2 b = twin_columns<N>(s.b[r4 + l4], l8);
            float        x[2][2];
            twin_rows<N>(x, &s.x[r4 + l4][wc], l8);
#pragma unroll
            for (int j = 0; j < 4; j++) {
                float dt[2][2];
                twin_rows<N>(dt, &s.dt[r4 + j][wc], l8);
#pragma unroll
                for (int i = 0; i < 2; i++) {
#pragma unroll
                    for (int e = 0; e < 4; e++) h[i][e] *= exp2_fast(dt[i][e / 2] * A2[i][e]);
                    mma_tf32_k4(h[i], x[i][0], x[i][1], l4 == j ? (i ? b.y : b.x) : 0);    // k is the token: all but this one are zero
                    if (CARRY && (N == 8 || i == 0)) { steps[i][0] += dt[i][0]; steps[i][1] += dt[i][1]; }
                }
                if (CARRY) continue;
                twin_outputs<N>(y[j], h, s.c[r4 + j], l4);
                if (j % 2 == 0) continue;
#pragma unroll
                for (int i = 0; i < 16 / N; i++)              // sums over the four lanes of a row; column of d is the token
                    mma_tf32_k8(d[i], y[j - 1][i][0], y[j - 1][i][1], y[j][i][0], y[j][i][1], pick[q * 4 + j - 1], pick[q * 4 + j]);
            }
        }
#pragma unroll
        for (int t = 0; t < 2 && !CARRY; t++) {
            float *to = &s.y[g * 8 + l4 * 2 + t][wc];
            if (N == 16) *(float2 *)(to + 2 * l8) = make_float2(d[0][t], d[0][2 + t]);
            else         *(float4 *)(to + 4 * l8) = make_float4(d[0][t], d[0][2 + t], d[1][t], d[1][2 + t]);
        }
    }
}

template <int N, bool CARRY> static __device__ __forceinline__ void twins_states(const scan_operands<bf16> &p, twins_smem<N> &sm, int warp, int lane)
{
    const part &a = sm.at.a;                                  // read again where it is asked: registers are short in the loop
    const int  l4 = lane & 3, l8 = lane >> 2, wc = warp * (256 / N), tiles = (a.length + TILE - 1) / TILE;
    const int  mine = wc + twin_channel<N>(0, 0, l8);         // channels of a lane are all there or none: groups are whole fours
    bf16      *kept = CARRY || !sm.at.kept || a.channel + mine >= a.channels ? NULL : sm.at.kept + mine * N + twin_state<N>(0, 0, l4);
    float A2[2][4], h[2][4], pick[8], steps[2][2] = {};
    const float *start = !CARRY && p.start.at ? p.start.sequence(a.item) : NULL;
#pragma unroll
    for (int k = 0; k < 8; k++) {
        const int     i = k / 4, e = k % 4;
        const int64_t ch = a.channel + wc + twin_channel<N>(i, e, l8), n = twin_state<N>(i, e, l4);
        const bool    ok = ch < a.channels;
        A2[i][e] = ok ? A2_of(p.A_log.at[ch * p.A_log.row + n]) : 0;
        h[i][e]  = start && ok ? start[ch * p.start.row + n] : 0;
        pick[k]  = l8 == k ? 1.0f : 0.0f;
    }
    for (int tile = 0; tile < tiles; tile++) {
        barrier_wait<FULL>(tile, 128);
        if (!CARRY && kept) {
            twins_keep<N>(kept, h);
            kept += (int64_t)p.D * N;
        }
        twins_tile_states<N, CARRY>(h, steps, A2, pick, sm.buf[tile & 1], wc, l4, l8);
        barrier_arrive<DONE>(tile, 128);
    }
    if (!CARRY && (!p.final.at || a.first + a.length < p.L)) return;
    float *final = CARRY ? p.ends + a.item * p.D * N : p.final.sequence(a.sequence);
#pragma unroll
    for (int k = 0; k < 8; k++) {
        const int     i = k / 4, e = k % 4;
        const int64_t ch = a.channel + wc + twin_channel<N>(i, e, l8), n = twin_state<N>(i, e, l4);
        if (ch >= a.channels) continue;
        final[ch * (CARRY ? N : p.final.row) + n] = h[i][e];
        if (CARRY && l4 == 0 && e % 2 == 0 && (N == 8 || i == 0)) p.steps[a.item * p.D + ch] = steps[i][e / 2];
    }
}

/* CARRY: what a piece of a long sequence leaves behind when it starts from zero, and the sum of its steps; nothing else. */
template <int N, bool CARRY> __global__ void __launch_bounds__(128, 4) scan_fwd_twins(const __grid_constant__ scan_operands<bf16> p)
{
    extern __shared__ __align__(16) char smem[];
    twins_smem<N> &sm = *(twins_smem<N> *)smem;
    const part a = part_of(p, twins_smem<N>::CH);
    if (CARRY && a.item % p.pieces == p.pieces - 1) return;   // nobody goes on from it
    if (threadIdx.x == 0) {
        find_origins(sm.at, p, a);
        /* Schedulers take every fourth warp: neighbours on an SM give their two heavy warps to different ones. Speed only. */
        unsigned slot;
        asm volatile("mov.u32 %0, %%warpid;" : "=r"(slot));
        sm.flip = slot / 4 % 2 * 2;
    }
    for (int c = threadIdx.x; c < twins_smem<N>::CH; c += 128) {
        const bool in = a.channel + c < a.channels;
        sm.bias[c] = in && p.bias ? p.bias[a.channel + c] : 0;
        sm.skip[c] = in && p.skip ? p.skip[a.channel + c] : 0;
    }
    __syncthreads();
    const int warp = (int)(threadIdx.x / 32) ^ sm.flip, lane = threadIdx.x % 32;
    if (warp < 2) twins_states<N, CARRY>(p, sm, warp, lane);
    else          twins_elements<N, CARRY>(p, sm, (warp - 2) * 32 + lane);
}

/* ---- launcher ---- */

extern "C" mba_status selective_scan_twins_cuda(const mba_call *c)
{
    const mba_node *n = c->node;
    const scan_dims d = scan_dims_of(n);
    const int       main = c->plan->nlaunches - 1;
    scan_operands<bf16> p = scan_operands_of<bf16>(c, c->plan->launch[main].grid[0], 512 / d.N);
    mba_assert((d.N == 16 ? sizeof(twins_smem<16>) : sizeof(twins_smem<8>)) <= c->plan->launch[main].smem_bytes);
    p.out   = lines_of<bf16>(n->out[OUT], c->out[OUT], d.L, d.D);
    p.final = lines_of<float>(n->out[FINAL], c->out[FINAL], d.D, d.N);
    p.kept  = (bf16 *)c->out[KEPT];
    p.ys    = (bf16 *)c->out[YS];
    if (p.pieces > 1) {
        p.ends  = (float *)mba_cuda_scratch(c, CU_ENDS);
        p.steps = (float *)mba_cuda_scratch(c, CU_STEPS);
        auto *carry = d.N == 16 ? scan_fwd_twins<16, true> : scan_fwd_twins<8, true>;
        MBA_KERNEL(c, 0, carry, p);
        MBA_TRY(scan_starts(c, 1, &p, false));
    }
    auto *kernel = d.N == 16 ? scan_fwd_twins<16, false> : scan_fwd_twins<8, false>;
    MBA_KERNEL(c, main, kernel, p);
    return MBA_OK;
}
