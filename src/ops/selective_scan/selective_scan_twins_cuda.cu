/* selective_scan_twins_cuda.cu -- the scan of Mamba-1, forward: bf16, 8 or 16 states.
 *
 *   h = 2^(dt A2) h + dt u B,   out = (C h + D u) silu(z),   dt = softplus(delta + dt_bias)
 *   u, delta, z, out (B, L, D), B, C (B, L, G, N), kept (items, tiles, D, N) bf16   A_log (D, N), states (B, D, N) fp32
 *
 * kernel     scan_fwd_twins     four warps hold 128 states each and nothing else; two make step sizes, gate and store, or
 *                               two make step sizes and two gate and store (SPLIT, where there are at most 3 blocks an SM)
 * takes      bf16, N = 8 or 16, D/G a multiple of 4, rows that begin at multiples of four values (faster: of eight)
 * launch     grid (items, blocks of 512/N channels), block 192 or 256, dynamic smem 36 KB (N = 16), 54 KB (N = 8)
 * resources  sm_90a, CUDA 13.0: 78 to 80 registers, no spill; 4 blocks an SM, 3 of 256 threads
 * moves      u, delta, z, B, C in, out, y and kept states once each: bound by exponentials and instructions
 * floor      8 x 2048 x 4096, N = 16: one exponential per element, 331 us at 16 a clock and SM, 1.73 GHz
 * measured   H200: 8 x 2048 x 1536 189 us, 32 x 512 x 1536 181, 4 x 4096 x 1536 257, 8 x 2048 x 4096 472,
 *            4 x 4096 x 4096 485, 1 x 32768 x 1536 666 with its carries; a tile 0.59, 0.99, 1.45, 1.82 us with 1 to 4
 *            blocks an SM
 * order      fixed: time ascends, pieces of a sequence in order
 *
 * A lane has one 16 x 8 accumulator of mma.sync. Which channel a row and which state a column stands for is free
 * (l4 = lane%4, l8 = lane/4, element e):
 *   N = 16   channel l8 of eight, state 4 l4 + e: rows 8 .. 15 are the same channels again, with other states
 *   N = 8    channel l8 + 8 (e/2) of sixteen, state 2 l4 + e%2
 * So all states of a channel are in one warp, each of the SM's four schedulers has one heavy warp of every block, and
 * the state as it lies is an operand a of the product that sums C h (rows of it are not rows of the state: see
 * twins_tokens). */
#include "ops/selective_scan/selective_scan_cuda.cuh"

/* Barriers: one of each kind for a buffer; of DONE and EMPTY, which teams wait for in turn, one for each team too: a team
 * that is late must not find its place taken (that hung). */
enum { FULL = 1, DONE = 4, EMPTY = 10 };

/* What the tensor cores lose of C h by dropping bits of h, on average: 0.72 of 2^-11. */
#define TF32_LOSS 1.000352f

/* HALF: 64 states to a warp instead of 128, eight of each channel; each warp of a pair leaves its part of C h. */
enum style { TWINS, HALVES };

template <int N_, int CH_, int STYLE_> struct twins_smem {
    enum { N = N_, CH = CH_, STYLE = STYLE_, HALF = STYLE != TWINS, CO = CH / 8, VALUES = TILE * CO, OCTET = 36 };   /* 8 channels x 4 tokens, padded */
    enum { NP = N == 8 ? 2 : 1, ELEMENTS = VALUES / NP, SCANNERS = HALF ? 8 * CH : 128, HANDS = SCANNERS + ELEMENTS };   /* rows of a thread; threads of a role */
    enum { BUFFERS = STYLE == HALVES ? 3 : 2, RING = BUFFERS + 2, TEAMS = STYLE == HALVES ? 2 : 1 };   /* between roles; tiles on their way; see SPLIT */
    enum { BROW = HALF ? N + 8 : N, CROW = HALF ? N + 8 : 64 };
    struct buffer {
        float dt[TILE / 4][CO][OCTET];                        /* four tokens of a channel lie together */
        float x[TILE][CH + 8];                                /* dt u, and in its place C h */
        float b[TILE][BROW];
        float c[TILE][CROW];                                  /* as operand b of mma.sync, zeros and all: see put_c; HALF: as it is */
        float y[HALF ? 2 * TILE : 1][HALF ? CH + 4 : 8];      /* HALF: C h of either half of the states */
    } buf[BUFFERS];
    struct slot {                                             /* a tile as it arrives: private to who asked, but u */
        uint4 u[VALUES], delta[VALUES], z[VALUES];
        typename word<N>::type bc[64];
    } ring[RING];
    origins<bf16> at;
    /* Fours of x in odd rows lie in pairs the other way around: so eight threads write two rows to all banks. */
    static __device__ __forceinline__ int odd(int row) { return N == 16 ? row & 1 : 0; }
};

/* ---- whose turn it is: the buffer of a tile, and the barriers that belong to it ---- */

template <int WRAP> static __device__ __forceinline__ int next(int turn) { return turn == WRAP - 1 ? 0 : turn + 1; }

template <int ID> static __device__ __forceinline__ void wait_turn(int turn, int threads)
{
    asm volatile("bar.sync %0, %1;" ::"r"(ID + turn), "r"(threads) : "memory");
}

template <int ID> static __device__ __forceinline__ void arrive_turn(int turn, int threads)
{
    asm volatile("bar.arrive %0, %1;" ::"r"(ID + turn), "r"(threads) : "memory");
}

/* ---- shared addresses: known to the compiler as such, and not found anew for every tile ---- */

template <typename T> static __device__ __forceinline__ T *shared_at(uint32_t address)
{
    return (T *)__cvta_shared_to_generic(address);
}

static __device__ __forceinline__ uint32_t shared_of(const void *at) { return (uint32_t)__cvta_generic_to_shared(at); }

/* Eight values: fours lie in either order, `at` is where the first is. */
static __device__ __forceinline__ void read8(float (&v)[8], uint32_t at)
{
    const float4 a = *shared_at<const float4>(at), b = *shared_at<const float4>(at ^ 16);
    v[0] = a.x; v[1] = a.y; v[2] = a.z; v[3] = a.w; v[4] = b.x; v[5] = b.y; v[6] = b.z; v[7] = b.w;
}

static __device__ __forceinline__ void put8(uint32_t at, const float (&v)[8])
{
    *shared_at<float4>(at)      = make_float4(v[0], v[1], v[2], v[3]);
    *shared_at<float4>(at ^ 16) = make_float4(v[4], v[5], v[6], v[7]);
}

/* ---- element-wise: asks for tiles two ahead, finishes BUFFERS behind ---- */

template <typename S> struct twins_role {
    enum { CO = S::CO, NP = S::NP, RP = TILE / NP, BP = S::ELEMENTS < 64 ? 2 : 1 };   /* BP: quarters of rows of B and C of a thread */
    enum { BUFFER = sizeof(typename S::buffer), SLOT = sizeof(typename S::slot), LOW = S::ELEMENTS * 16, ALL = S::VALUES * 16 };
    enum { DELTA_AT = ALL, Z_AT = 2 * ALL, BC_AT = 3 * ALL, BC = S::N };   /* of a slot */
    const bf16    *u, *delta, *z, *bc[BP];                    /* at this thread's columns */
    bf16          *out, *ys;
    const int32_t *ids;
    int            length, first, octet, row, second, teams, bc_row[BP];   /* bc_row: values between rows */
    float          bias[8], skip[8];
    uint32_t       dt_at, x_at, bc_at[BP], ring_at;           /* shared: in the first buffer, in the first slot */
    bool           full, mine, docs, gated, whole, whole_bc, no_bc;
    int            phase[NP];                                 /* token within its sequence, of the row read next */
    document       doc[NP];
    __device__ __forceinline__ int token(int tile, int r) const
    {
        return full ? tile * TILE + r : min(tile * TILE + r, length - 1);
    }
};

/* Where put_c begins in a row. */
template <int N> static __device__ __forceinline__ int c_place(int t, int from)
{
    return N == 16 ? t % 4 * 16 + from / 2 : t % 2 * 32 + from;
}

/* Row r of a tile, of rows `row` values apart. Where all tiles are whole, pointers go from tile to tile (of this team). */
template <typename S, typename T> static __device__ __forceinline__ T *
tile_row(const twins_role<S> &e, T *at, int tile, int r, int row)
{
    return e.full ? at : row_at(at, e.token(tile, r), 2 * row);
}

template <typename S, typename T> static __device__ __forceinline__ void go_on(const twins_role<S> &e, T *&at, int row)
{
    if (e.full) at = row_at(at, row, 2 * TILE * e.teams);
}

/* Of eight channels, from `octet` of this block on; 0 where there are none. */
template <bool PLAIN> static __device__ __forceinline__ void
read_parameters(float (&v)[8], const float *all, const part &a, int octet)
{
    const float *from = all + a.channel + octet;
    if (PLAIN && all) read8(v, (const float4 *)from);
#pragma unroll
    for (int k = 0; k < 8 && !(PLAIN && all); k++) v[k] = all && a.channel + octet + k < a.channels ? from[k] : 0;
}

/* PLAIN: what a model has: whole tiles and blocks of channels, aligned, gated, no documents. Else that is looked at. */
template <typename S, bool CARRY, bool PLAIN> static __device__ __forceinline__ twins_role<S>
twins_role_of(const scan_operands<bf16> &p, const S &sm, int et, int team, int teams)
{
    twins_role<S> e;
    e.octet  = et % e.CO;
    e.row    = et / e.CO;
    e.length = sm.at.a.length;
    e.full   = PLAIN;
    e.teams  = teams;
    e.first  = sm.at.a.first;
    e.mine   = PLAIN || sm.at.a.channel + 8 * e.octet < sm.at.a.channels;
    e.second = sm.at.a.channel + 8 * e.octet + 4 < sm.at.a.channels ? 4 : 0;
    e.whole  = PLAIN || p.eights;
    e.docs   = !PLAIN && (p.ids.at || p.pack > 1);
    e.gated  = PLAIN || p.z.at;
    const int column = e.mine ? 8 * e.octet : 0;
    const int from = PLAIN ? team * TILE : 0, own = PLAIN ? from + e.row : 0;   // see tile_row
    e.u     = sm.at.u + column + own * p.u.row;
    e.delta = sm.at.delta + column + own * p.delta.row;
    e.z     = sm.at.z ? sm.at.z + column + own * p.z.row : NULL;
    e.out   = sm.at.out ? sm.at.out + column + own * p.out.row : NULL;
    e.ys    = sm.at.ys ? sm.at.ys + column + (int64_t)own * p.D : NULL;
    e.ids   = sm.at.ids;
    e.whole_bc = PLAIN || p.eights_bc;
    e.no_bc    = S::ELEMENTS > 64 && et >= 64;
#pragma unroll
    for (int i = 0; i < e.BP; i++) {                          // half a row of B, of 32 threads, or of C
        const int  piece = i * S::ELEMENTS + et, row = piece % 32 / 2, at = et % 2 * (S::N / 2);
        const bool is_c = piece / 32;
        e.no_bc |= CARRY && is_c && e.BP == 1;
        e.bc_row[i]   = (int)(is_c ? p.C.row : p.B.row);
        e.bc[i]       = (is_c ? sm.at.C : sm.at.B) + at + (PLAIN ? (int64_t)(from + row) * e.bc_row[i] : 0);
        e.bc_at[i]    = shared_of(is_c && !e.no_bc ? S::HALF ? &sm.buf[0].c[row][at] : &sm.buf[0].c[row][c_place<S::N>(row, at)] : &sm.buf[0].b[row][at]);
    }
    read_parameters<PLAIN>(e.bias, p.bias, sm.at.a, 8 * e.octet);
    if (!CARRY) read_parameters<PLAIN>(e.skip, p.skip, sm.at.a, 8 * e.octet);
    e.dt_at   = shared_of(&sm.buf[0].dt[e.row / 4][e.octet][e.row % 4]);
    e.x_at    = shared_of(&sm.buf[0].x[e.row][8 * e.octet]) ^ 16 * S::odd(e.row);
    e.ring_at = shared_of(&sm.ring[0]) + 16 * et;
    asm volatile("" : "+r"(e.dt_at), "+r"(e.x_at), "+r"(e.bc_at[0]), "+r"(e.ring_at));
#pragma unroll
    for (int i = 0; i < e.NP; i++) e.phase[i] = (e.first + e.row + i * e.RP) % p.L;
    return e;
}

/* For step sizes and states: u, delta, B and C of a tile. */
template <typename S, bool CARRY> static __device__ __forceinline__ void
twins_ask(twins_role<S> &e, const scan_operands<bf16> &p, S &sm, int et, int tile, int slot)
{
    const uint32_t to = e.ring_at + slot * e.SLOT;
#pragma unroll
    for (int i = 0; i < e.NP; i++) {
        const int r = e.row + i * e.RP;
        copy8(shared_at<void>(to + i * e.LOW), tile_row(e, e.u, tile, r, (int)p.u.row), e.whole, e.second);
        copy8(shared_at<void>(to + i * e.LOW + e.DELTA_AT), tile_row(e, e.delta, tile, r, (int)p.delta.row), e.whole, e.second);
    }
    go_on(e, e.u, (int)p.u.row);
    go_on(e, e.delta, (int)p.delta.row);
    if (e.no_bc) return;
#pragma unroll
    for (int i = 0; i < (CARRY ? 1 : e.BP); i++) {
        const int   piece = i * S::ELEMENTS + et;
        const bf16 *bc = tile_row(e, e.bc[i], tile, piece % 32 / 2, e.bc_row[i]);
        void       *at = shared_at<void>(to + e.BC_AT + i * S::ELEMENTS * e.BC - et * (16 - e.BC));
        if (S::N == 16) copy8(at, bc, e.whole_bc, 4);
        else            copy_async<8>(at, bc);
        go_on(e, e.bc[i], e.bc_row[i]);
    }
}

/* For the output. */
template <typename S> static __device__ __forceinline__ void
twins_ask_gate(twins_role<S> &e, const scan_operands<bf16> &p, S &sm, int et, int tile, int slot)
{
#pragma unroll
    for (int i = 0; i < e.NP && e.gated; i++) {
        const int r = e.row + i * e.RP;
        copy8(shared_at<void>(e.ring_at + slot * e.SLOT + e.Z_AT + i * e.LOW), tile_row(e, e.z, tile, r, (int)p.z.row), e.whole,
              e.second);
    }
    go_on(e, e.z, (int)p.z.row);
}

template <typename S> static __device__ __forceinline__ void
twins_documents(twins_role<S> &e, const scan_operands<bf16> &p, int tile)
{
#pragma unroll
    for (int i = 0; i < e.NP; i++) {
        const int t = e.token(tile, e.row + i * e.RP);
        e.doc[i] = read_document(e.ids, p.ids.row, t, e.phase[i] == 0 || t + e.first == 0, p.pack > 1);
        e.phase[i] += TILE % p.L;
        if (e.phase[i] >= p.L) e.phase[i] -= p.L;
    }
}

/* C of a token as columns of an operand b (k: states as they lie in the lanes of operand a), two values to a lane.
 * N = 16: columns 2 (t%4), for elements 0 and 2 of a lane, and the next, for 1 and 3.
 * N = 8: columns 4 (t%2) and the next, for elements 0 and 1; the two behind, for elements 2 and 3.
 * All others are zero and stay so. v: states from `from` on. */
template <int N> static __device__ __forceinline__ void put_c(float *at, const float *v)
{
    float4 *to = (float4 *)at;
    if (N == 16) {
        to[0] = make_float4(v[0], v[2], v[4], v[6]);
        to[2] = make_float4(v[1], v[3], v[5], v[7]);
    } else {
        to[0] = make_float4(v[0], 0, v[2], 0);
        to[2] = make_float4(v[1], 0, v[3], 0);
        to[4] = make_float4(0, v[0], 0, v[2]);
        to[6] = make_float4(0, v[1], 0, v[3]);
    }
}

static __device__ __forceinline__ void put_dt(float *to, const float (&v)[8])
{
#pragma unroll
    for (int k = 0; k < 8; k++) to[4 * k] = v[k];
}

static __device__ __forceinline__ void put_dt(float *to, float all)
{
#pragma unroll
    for (int k = 0; k < 8; k++) to[4 * k] = all;
}

/* Step sizes, dt u, B and C of a tile into its buffer. */
template <typename S, bool CARRY> static __device__ __forceinline__ void
twins_fill(const twins_role<S> &e, S &sm, int et, int tile, int turn, int slot)
{
    const uint32_t buffer = turn * e.BUFFER, from = e.ring_at + slot * e.SLOT;
    const int      left = e.length - tile * TILE;
#pragma unroll
    for (int i = 0; i < e.NP; i++) {
        const int row = e.row + i * e.RP;
        float     u[8], d[8];
        values(u, *shared_at<const uint4>(from + i * e.LOW));
        values(d, *shared_at<const uint4>(from + i * e.LOW + e.DELTA_AT));
#pragma unroll
        for (int k = 0; k < 8; k++) {
            d[k] = step_of<false>(d[k] + e.bias[k]);
            u[k] = rounded_tf32(u[k] * d[k]);
        }
        float *dt = shared_at<float>(e.dt_at + buffer + i * e.RP / 4 * (int)sizeof(sm.buf[0].dt[0]));
        const uint32_t x = e.x_at + buffer + i * e.RP * (int)sizeof(sm.buf[0].x[0]);
        put_dt(dt, d);
        put8(x, u);                                           // exceptions are written over: cheaper than choices
        if (e.docs && e.doc[i].here != e.doc[i].before) put_dt(dt, RESET_STEP);
        if (!e.full && row >= left) {
            put_dt(dt, 0.0f);
            put8(x, {});
        }
    }
    if (e.no_bc) return;
#pragma unroll
    for (int i = 0; i < (CARRY ? 1 : e.BP); i++) {
        const uint32_t at = from + e.BC_AT + i * S::ELEMENTS * e.BC - et * (16 - e.BC);
        float          v[8], *to = shared_at<float>(e.bc_at[i] + buffer);
        if (S::N == 16) values(v, *shared_at<const uint4>(at));
        else            values(*(float (*)[4])v, *shared_at<const quad<bf16>>(at));
        if (!CARRY && !S::HALF && et >= 32) {
            put_c<S::N>(to, v);
        } else {
#pragma unroll
            for (int k = 0; k < S::N / 2; k += 4) *(float4 *)(to + k) = make_float4(v[k], v[k + 1], v[k + 2], v[k + 3]);
        }
    }
}

/* C h of a tile whose states went by: skip, gate, store. `taken` is called when C h and u are no longer wanted. */
template <typename S, typename F> static __device__ __forceinline__ void
twins_finish(twins_role<S> &e, const scan_operands<bf16> &p, const S &sm, int et, int tile, int turn, int slot, int gate, F taken)
{
    const auto    &s = sm.buf[turn];
    const uint32_t from = e.ring_at + slot * e.SLOT;
    float          y[e.NP][8];
#pragma unroll
    for (int i = 0; i < e.NP; i++) {
        float u[8];
        if (S::HALF) {
            float other[8];
            read8(y[i], (const float4 *)&s.y[e.row][8 * e.octet]);
            read8(other, (const float4 *)&s.y[TILE + e.row][8 * e.octet]);
#pragma unroll
            for (int k = 0; k < 8; k++) y[i][k] += other[k];
        } else {
            read8(y[i], e.x_at + turn * e.BUFFER + i * e.RP * (uint32_t)sizeof(s.x[0]));
        }
        values(u, *shared_at<const uint4>(from + i * e.LOW));
#pragma unroll
        for (int k = 0; k < 8; k++) y[i][k] = fmaf(e.skip[k], u[k], TF32_LOSS * y[i][k]);
    }
    taken();
    if (!e.mine) return;
#pragma unroll
    for (int i = 0; i < e.NP; i++) {
        const int r = e.row + i * e.RP;
        if (!e.full && tile * TILE + r >= e.length) break;              // rows ascend
        if (e.ys) write8(tile_row(e, e.ys, tile, r, p.D), y[i], e.whole, e.second);
        if (e.gated) {
            float z[8];
            values(z, halved(*shared_at<const uint4>(e.ring_at + gate * e.SLOT + e.Z_AT + i * e.LOW)));
#pragma unroll
            for (int k = 0; k < 8; k++) y[i][k] *= fmaf(z[k], tanh_fast(z[k]), z[k]);   // z sigmoid(z)
        }
        write8(tile_row(e, e.out, tile, r, (int)p.out.row), y[i], e.whole, e.second);
    }
    go_on(e, e.out, (int)p.out.row);
    if (e.ys) go_on(e, e.ys, p.D);
}

/* All of it by the same warps. */
template <typename S, bool CARRY, bool PLAIN> static __device__ __forceinline__ void
twins_elements(const scan_operands<bf16> &p, S &sm, int et)
{
    twins_role<S> e = twins_role_of<S, CARRY, PLAIN>(p, sm, et, 0, 1);
    const int     tiles = (e.length + TILE - 1) / TILE;
    const auto    ask = [&](int tile, int slot) {
        if (tile < tiles) twins_ask<S, CARRY>(e, p, sm, et, tile, slot);
        if (tile < tiles && !CARRY) twins_ask_gate<S>(e, p, sm, et, tile, slot);
        copies_commit();
    };
    int turn = 0, slot = 0, ahead = 2;                        // ahead: the slot of the tile asked for, and of that finished
    ask(0, 0);
    ask(1, 1);
    if (e.docs) twins_documents<S>(e, p, 0);
    for (int tile = 0; tile < tiles; tile++) {
        if (S::BUFFERS == 2) { turn = tile % 2; slot = tile % 4; ahead = (tile + 2) % 4; }   // cheaper than to count
        if (tile >= S::BUFFERS) {
            wait_turn<DONE>(turn, S::HANDS);
            if (!CARRY) twins_finish<S>(e, p, sm, et, tile - S::BUFFERS, turn, ahead, ahead, [] {});
        }
        ask(tile + 2, ahead);
        copies_wait<2>();
        twins_fill<S, CARRY>(e, sm, et, tile, turn, slot);
        arrive_turn<FULL>(turn, S::HANDS);
        if (e.docs && tile + 1 < tiles) twins_documents<S>(e, p, tile + 1);
        turn  = next<S::BUFFERS>(turn);
        slot  = next<S::RING>(slot);
        ahead = next<S::RING>(ahead);
    }
    for (int tile = max(tiles - S::BUFFERS, 0); tile < tiles; tile++) {
        wait_turn<DONE>(tile % S::BUFFERS, S::HANDS);
        if (!CARRY) twins_finish<S>(e, p, sm, et, tile, tile % S::BUFFERS, tile % S::RING, tile % S::RING, [] {});
    }
}

/* SPLIT: some warps before the states, others behind them. Who finishes tells who fills when a buffer is read. TEAMS of either
 * kind take tiles in turn. */
template <typename S, bool PLAIN> static __device__ __forceinline__ void
twins_before(const scan_operands<bf16> &p, S &sm, int et, int team)
{
    enum { TEAMS = S::TEAMS };
    twins_role<S> e = twins_role_of<S, false, PLAIN>(p, sm, et, team, TEAMS);
    const int     tiles = (e.length + TILE - 1) / TILE;
    for (int tile = team; tile < 2; tile += TEAMS) {
        if (tile < tiles) twins_ask<S, false>(e, p, sm, et, tile, tile);
        copies_commit();
    }
    for (int tile = 0; e.docs && tile <= team; tile++) twins_documents<S>(e, p, tile);
    int turn = team, slot = team, ahead = team + 2;
    for (int tile = team; tile < tiles; tile += TEAMS) {
        if (tile >= S::BUFFERS) wait_turn<EMPTY>(turn + S::BUFFERS * ((team + S::BUFFERS) % TEAMS), 2 * S::ELEMENTS);
        if (tile + 2 < tiles) twins_ask<S, false>(e, p, sm, et, tile + 2, ahead);
        copies_commit();
        copies_wait<2 / TEAMS>();
        twins_fill<S, false>(e, sm, et, tile, turn, slot);
        arrive_turn<FULL>(turn, S::HANDS);
#pragma unroll
        for (int i = 1; i <= TEAMS; i++) {
            if (e.docs && tile + i < tiles) twins_documents<S>(e, p, tile + i);
            turn  = next<S::BUFFERS>(turn);
            slot  = next<S::RING>(slot);
            ahead = next<S::RING>(ahead);
        }
    }
}

template <typename S, bool PLAIN> static __device__ __forceinline__ void
twins_behind(const scan_operands<bf16> &p, S &sm, int et, int team)
{
    enum { TEAMS = S::TEAMS };
    twins_role<S> e = twins_role_of<S, false, PLAIN>(p, sm, et, team, TEAMS);
    const int           tiles = (e.length + TILE - 1) / TILE;
    for (int tile = team; tile < 2; tile += TEAMS) {
        if (tile < tiles) twins_ask_gate<S>(e, p, sm, et, tile, tile);
        copies_commit();
    }
    int turn = team, slot = team;                             // z: a team must not write where another still reads, so four
    for (int tile = team; tile < tiles; tile += TEAMS) {
        if (tile + 2 < tiles) twins_ask_gate<S>(e, p, sm, et, tile + 2, (tile + 2) % 4);
        copies_commit();
        copies_wait<2 / TEAMS>();
        wait_turn<DONE>(turn + S::BUFFERS * team, S::HANDS);
        twins_finish<S>(e, p, sm, et, tile, turn, slot, tile % 4, [&] { if (tile + S::BUFFERS < tiles) arrive_turn<EMPTY>(turn + S::BUFFERS * team, 2 * S::ELEMENTS); });
#pragma unroll
        for (int i = 0; i < TEAMS; i++) {
            turn = next<S::BUFFERS>(turn);
            slot = next<S::RING>(slot);
        }
    }
}

/* ---- the recurrence ---- */

template <int N> static __device__ __forceinline__ int
twin_channel(int e, int l8) { return N == 16 ? l8 : l8 + e / 2 * 8; }
template <int N> static __device__ __forceinline__ int
twin_state(int e, int l4)   { return N == 16 ? 4 * l4 + e : 2 * l4 + e % 2; }

/* Where a lane reads and writes in a buffer, as shared addresses. Kept from the compiler, which would find them
 * anew for every tile: a tenth of its instructions. */
struct lane_offsets { uint32_t dt, x, b, c, y; };

template <typename S> static __device__ __forceinline__ lane_offsets lane_offsets_of(const S &sm, int wc, int ns, int l4, int l8)
{
    const auto  &s = sm.buf[0];
    lane_offsets o;
    o.dt = shared_of(&s.dt[0][wc / 8][4 * l8]);
    if (S::HALF) {
        o.x = shared_of(&s.x[l4][(wc + l8) ^ 4 * (l4 & 1)]);
        o.b = shared_of(&s.b[l4][8 * ns + l8]);
        o.c = shared_of(&s.c[l8][8 * ns + 2 * l4]);
        o.y = shared_of(&s.y[TILE * ns + 2 * l4][wc + l8]);
    } else {
        o.x = shared_of(S::N == 16 ? &s.x[l4 / 2][(wc + l8) ^ 4 * (l4 / 2)] : &s.x[l4][wc + l8]);
        o.b = shared_of(S::N == 16 ? &s.b[l4 / 2][4 * (l8 / 2) + l8 % 2 + 2 * (l4 & 1)] : &s.b[l4][l8]);
        o.c = shared_of(&s.c[0][l8 * 8 + l4 * 2]);
        o.y = shared_of(S::N == 16 ? &s.x[l4][(wc + l8) ^ 4 * (l4 & 1)] : &s.x[l4 / 2][wc + l8 + 8 * (l4 & 1)]);
    }
    asm volatile("" : "+r"(o.dt), "+r"(o.x), "+r"(o.b), "+r"(o.c));
    return o;
}

/* dt u and B of four tokens as operands of products with four k. N = 8: k is the token. N = 16: a product has two
 * tokens, each twice: k even for rows 0 .. 7, odd for the others. */
template <int N> struct four_tokens { float x0[N / 8], x1[N / 8], b[N / 8]; float4 dt[16 / N]; };

template <typename S> static __device__ __forceinline__ void
read_tokens(four_tokens<S::N> &f, const lane_offsets &o, uint32_t turn, int four, int l4)
{
    typedef typename S::buffer buffer;
    enum { N = S::N, XROW = sizeof(buffer::x[0]), BROW = sizeof(buffer::b[0]), DT = sizeof(buffer::dt[0]) };
#pragma unroll
    for (int p = 0; p < N / 8; p++) {
        const int   t = 4 * four + 2 * p;
        const float x = *shared_at<const float>(o.x + turn + t * XROW);
        f.x0[p] = N == 16 && (l4 & 1) ? 0 : x;
        f.x1[p] = N == 16 ? (l4 & 1 ? x : 0) : *shared_at<const float>(o.x + turn + t * XROW + 32);
        f.b[p]  = *shared_at<const float>(o.b + turn + t * BROW);
    }
#pragma unroll
    for (int i = 0; i < 16 / N; i++)
        f.dt[i] = *shared_at<const float4>(o.dt + turn + four * DT + i * (int)sizeof(buffer::dt[0][0]));
}

/* Tokens of one buffer, from group `from` of four on; `middle` is called after KEEP of them. The state enters C h as
 * operand a, element e as a[e]: so row l8 of that operand has elements 0 and 2, row l8 + 8 elements 1 and 3, and the sum
 * over a channel is that of two entries of the result, both of one lane. */
template <typename S, int GROUPS, bool CARRY, typename F> static __device__ __forceinline__ void
twins_tokens(float (&h)[4], float (&steps)[16 / S::N], const float (&A2)[4], const lane_offsets &o, uint32_t turn, int from,
             int l4, F middle)
{
    typedef typename S::buffer buffer;
    enum { N = S::N, PER = N / 4, SUMS = 4 * GROUPS / PER };  /* a lane has C h of one token in PER */
    float y[SUMS], d[4] = { 0, 0, 0, 0 };
#pragma unroll
    for (int g = 0; g < GROUPS; g++) {
        if (g == KEEP / 4) middle();
        four_tokens<N> f;
        read_tokens<S>(f, o, turn, from + g, l4);
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const int p = N == 16 ? j / 2 : 0;
            float     b[4] = { 0, 0, 0, 0 }, dt[16 / N];
#pragma unroll
            for (int i = 0; i < 16 / N; i++) {
                dt[i] = j == 0 ? f.dt[i].x : j == 1 ? f.dt[i].y : j == 2 ? f.dt[i].z : f.dt[i].w;
                if (CARRY) steps[i] += dt[i];
            }
            const bool here = N == 16 ? l4 / 2 == j % 2 : l4 == j;        // all other tokens are zero
            mma_tf32_k4(b, f.x0[p], f.x1[p], here ? f.b[p] : 0);
#pragma unroll
            for (int e = 0; e < 4; e++) h[e] = fmaf(exp2_fast(dt[N == 16 ? 0 : e / 2] * A2[e]), h[e], b[e]);
            if (CARRY) continue;
            const float2 c = *shared_at<const float2>(o.c + turn + (4 * (from + g) + j) * (int)sizeof(buffer::c[0]));
            mma_tf32_k8(d, h[0], h[1], h[2], h[3], c.x, c.y);
            if (j % PER != PER - 1) continue;
            y[(4 * g + j) / PER] = d[0] + d[3];
            d[0] = d[1] = d[2] = d[3] = 0;
        }
    }
#pragma unroll
    for (int i = 0; i < SUMS && !CARRY; i++)                  // behind all reads of dt u: no load waits for them
        *shared_at<float>(o.y + turn + (4 * from + PER * i) * (int)sizeof(buffer::x[0])) = y[i];
}

/* The states of this lane's channels if `now`; k is where the first lies. */
template <int N> static __device__ __forceinline__ void twins_keep(bool now, bf16 *k, const float (&h)[4], bool second)
{
    if (N == 16) {
        write4_global(now, k, h);
    } else if (now) {
        *(uint32_t *)k = pack_bf16(h[0], h[1]);
        if (second) *(uint32_t *)(k + 8 * N) = pack_bf16(h[2], h[3]);
    }
}

template <typename S, bool CARRY> static __device__ __forceinline__ void
twins_states(const scan_operands<bf16> &p, S &sm, int warp, int lane)
{
    enum { N = S::N };
    const part &a = sm.at.a;
    const int  l4 = lane & 3, l8 = lane >> 2, wc = warp * (128 / N), length = a.length;
    const int  here = a.channels - a.channel, tiles = (length + TILE - 1) / TILE;
    const bool keeps = !CARRY && sm.at.kept && wc + l8 < here;
    bf16      *kept = sm.at.kept + (wc + l8) * N + twin_state<N>(0, l4);   // goes on where nothing is kept
    const bool second = wc + l8 + 8 < here;
    const lane_offsets o = lane_offsets_of(sm, wc, 0, l4, l8);
    float A2[4], h[4], steps[16 / N] = {};
    const float *start = !CARRY && p.start.at ? p.start.sequence(a.item) : NULL;
#pragma unroll
    for (int e = 0; e < 4; e++) {
        const int64_t ch = a.channel + wc + twin_channel<N>(e, l8), n = twin_state<N>(e, l4);
        const bool    ok = ch < a.channels;
        A2[e] = ok ? A2_of(p.A_log.at[ch * p.A_log.row + n]) : 0;
        h[e]  = start && ok ? start[ch * p.start.row + n] : 0;
    }
    for (int tile = 0; tile < tiles; tile++) {
        const int turn = tile % S::BUFFERS;
        wait_turn<FULL>(turn, S::HANDS);
        const auto keep = [&](bool now) {
            if (!CARRY) twins_keep<N>(now, kept, h, second);
            kept += p.D * N;
        };
        const bool more = keeps && tile * TILE + KEEP < length;
        constexpr int GROUPS = N / 4;                         // as many as registers allow to look ahead over
#pragma unroll 1
        for (int g = 0; g < TILE / 4; g += GROUPS) {
            keep(g ? more : keeps);
            twins_tokens<S, GROUPS, CARRY>(h, steps, A2, o, turn * (uint32_t)sizeof(sm.buf[0]), g, l4, [&] { keep(more); });
        }
        arrive_turn<DONE>(turn, S::HANDS);
    }
    if (!CARRY && (!p.final.at || a.first + a.length < p.L)) return;
    float *final = CARRY ? p.ends + a.item * p.D * N : p.final.sequence(a.sequence);
#pragma unroll
    for (int e = 0; e < 4; e++) {
        const int64_t ch = a.channel + wc + twin_channel<N>(e, l8), n = twin_state<N>(e, l4);
        if (ch >= a.channels) continue;
        final[ch * (CARRY ? N : p.final.row) + n] = h[e];
        if (CARRY && l4 == 0 && e % (N / 4) == 0) p.steps[a.item * p.D + ch] = steps[e / (N / 4)];
    }
}

/* Operands of four tokens, and of C of eight. */
struct half_tokens { float4 dt; float2 c; float x, b; };

template <typename S, bool CARRY> static __device__ __forceinline__ void
read_tokens(half_tokens &f, const lane_offsets &o, uint32_t turn, int four)
{
    typedef typename S::buffer buffer;
    f.dt = *shared_at<const float4>(o.dt + turn + four * (int)sizeof(buffer::dt[0]));
    f.x  = *shared_at<const float>(o.x + turn + four * 4 * (int)sizeof(buffer::x[0]));
    f.b  = *shared_at<const float>(o.b + turn + four * 4 * (int)sizeof(buffer::b[0]));
    if (!CARRY && four % 2 == 0) f.c = *shared_at<const float2>(o.c + turn + four * 4 * (int)sizeof(buffer::c[0]));
}

/* HALF: rows of a product are eight channels at one token and the same at the next, columns are eight states. So b and C h
 * of two tokens are one product each, operand a has the token as k, and C of eight tokens is one operand b: each pair of
 * tokens takes its two columns of the product. f: the first four tokens. */
template <typename S, bool CARRY, typename F, typename G> static __device__ __forceinline__ void
halves_tokens(float (&h)[2], float (&y)[TILE / 8][2], float &steps, half_tokens &next, const float (&A2)[2], const lane_offsets &o,
              uint32_t turn, int l4, F keep, G ahead)
{
    half_tokens f = next;
#pragma unroll
    for (int four = 0; four < TILE / 4; four++) {
        if (four) read_tokens<S, CARRY>(f, o, turn, four);
        if (four == TILE / 4 - 1) ahead();
        if (four % 2 == 0) keep(four);
        if (CARRY) steps += (f.dt.x + f.dt.y) + (f.dt.z + f.dt.w);
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const float d0 = i ? f.dt.z : f.dt.x, d1 = i ? f.dt.w : f.dt.y;
            float       r[4] = { 0, 0, 0, 0 }, d[4] = { 0, 0, 0, 0 }, n[4];
            mma_tf32_k4(r, l4 == 2 * i ? f.x : 0, l4 == 2 * i + 1 ? f.x : 0, f.b);
            n[0] = fmaf(exp2_fast(d0 * A2[0]), h[0], r[0]);
            n[2] = fmaf(exp2_fast(d0 * A2[1]), h[1], r[1]);
            n[1] = fmaf(exp2_fast(d1 * A2[0]), n[0], r[2]);
            n[3] = fmaf(exp2_fast(d1 * A2[1]), n[2], r[3]);
            h[0] = n[1];
            h[1] = n[3];
            if (CARRY) continue;
            mma_tf32_k8(d, n[0], n[1], n[2], n[3], f.c.x, f.c.y);
            if (l4 == four % 2 * 2 + i) { y[four / 2][0] = d[0]; y[four / 2][1] = d[3]; }
        }
    }
}

template <typename S> static __device__ __forceinline__ void
put_sums(const lane_offsets &o, uint32_t turn, const float (&y)[TILE / 8][2])
{
    typedef typename S::buffer buffer;
#pragma unroll
    for (int g = 0; g < TILE / 8; g++) {
        float *to = shared_at<float>(o.y + turn + 8 * g * (uint32_t)sizeof(buffer::y[0]));
        to[0] = y[g][0];
        to[sizeof(buffer::y[0]) / sizeof(float)] = y[g][1];
    }
}

/* The first operands of a tile are asked for before the last is done. */
template <typename S, bool CARRY> static __device__ __forceinline__ void
halves_states(const scan_operands<bf16> &p, S &sm, int warp, int lane)
{
    enum { N = S::N, BUFFER = sizeof(typename S::buffer), TEAMS = CARRY ? 1 : S::TEAMS };
    const part &a = sm.at.a;
    const int  l4 = lane & 3, l8 = lane >> 2, wc = warp % S::CO * 8, ns = warp / S::CO, length = a.length;
    const int  ch = a.channel + wc + l8, n = 8 * ns + 2 * l4, tiles = (length + TILE - 1) / TILE;
    const bool ok = ch < a.channels, keeps = !CARRY && sm.at.kept && ok;
    bf16      *kept = sm.at.kept + (wc + l8) * N + n;         // goes on where nothing is kept
    const lane_offsets o = lane_offsets_of(sm, wc, ns, l4, l8);
    float A2[2], h[2] = { 0, 0 }, y[TILE / 8][2], steps = 0;
#pragma unroll
    for (int e = 0; e < 2; e++) {
        A2[e] = ok ? A2_of(p.A_log.at[ch * p.A_log.row + n + e]) : 0;
        if (!CARRY && p.start.at && ok) h[e] = p.start.sequence(a.item)[ch * p.start.row + n + e];
    }
    half_tokens f;
    int         turn = 0, tile = 0;
    wait_turn<FULL>(turn, S::HANDS);
    read_tokens<S, CARRY>(f, o, 0, 0);
    const auto one = [&](auto ahead) {
        const bool more = keeps && tile * TILE + KEEP < length;
        halves_tokens<S, CARRY>(h, y, steps, f, A2, o, turn * (uint32_t)BUFFER, l4, [&](int four) {
            if (!CARRY) write2_global(four ? more : keeps, kept, h[0], h[1]);
            kept += p.D * N;
        }, ahead);
        if (!CARRY) put_sums<S>(o, turn * (uint32_t)BUFFER, y);
        arrive_turn<DONE>(turn + S::BUFFERS * (tile % TEAMS), S::HANDS);
    };
#pragma unroll 1
    for (; tile < tiles - 1; tile++) {
        const int then = next<S::BUFFERS>(turn);
        one([&] {                                             // operands of the next tile: their way is long
            wait_turn<FULL>(then, S::HANDS);
            read_tokens<S, CARRY>(f, o, then * (uint32_t)BUFFER, 0);
        });
        turn = then;
    }
    one([] {});
    if (!CARRY && (!p.final.at || a.first + a.length < p.L)) return;
    const int who = thread_anew(), at = a.channel + who / 32 % S::CO * 8 + who % 32 / 4, state = who / 32 / S::CO * 8 + who % 4 * 2;
    if (at >= a.channels) return;
    float *final = (CARRY ? p.ends + a.item * p.D * N : p.final.sequence(a.sequence)) + at * (CARRY ? N : p.final.row) + state;
    final[0] = h[0];
    final[1] = h[1];
    if (CARRY && state == 0) p.steps[a.item * p.D + at] = steps;
}

/* CARRY: what a piece of a long sequence leaves behind when it starts from zero, and the sum of its steps. */
template <typename S, bool CARRY, bool SPLIT, bool PLAIN> static __device__ __forceinline__ void
scan_block(const scan_operands<bf16> &p, S &sm)
{
    enum { TEAMS = S::TEAMS, THREADS = SPLIT ? S::SCANNERS + 2 * TEAMS * S::ELEMENTS : S::HANDS };
    const part a = part_of(p, S::CH);
    if (CARRY && a.item % p.pieces >= p.pieces - p.sub) return;   // nobody goes on from it
    find_origins(sm.at, p, a, (int)threadIdx.x);
    enum { FOURS = TILE * S::CROW / 4 };
    for (int c = threadIdx.x; !S::HALF && c < S::BUFFERS * FOURS; c += THREADS)
        ((float4 *)sm.buf[c / FOURS].c)[c % FOURS] = make_float4(0, 0, 0, 0);
    __syncthreads();
    const int warp = (int)(threadIdx.x / 32), et = (int)threadIdx.x - S::SCANNERS;
    if (warp < S::SCANNERS / 32) {
        if constexpr (S::HALF) halves_states<S, CARRY>(p, sm, warp, threadIdx.x % 32);
        else                   twins_states<S, CARRY>(p, sm, warp, threadIdx.x % 32);
    } else if (!SPLIT) {
        twins_elements<S, CARRY, PLAIN>(p, sm, et);
    } else {
        const int team = et / S::ELEMENTS % TEAMS, member = et % S::ELEMENTS;
        if (et < TEAMS * S::ELEMENTS) twins_before<S, PLAIN>(p, sm, member, team);
        else                          twins_behind<S, PLAIN>(p, sm, member, team);
    }
}

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1000           /* where 80 registers are three too few */
#define TOGETHER 3
#else
#define TOGETHER 4
#endif

template <int N, bool CARRY, bool SPLIT, bool PLAIN> __global__ void
__launch_bounds__(SPLIT ? 256 : 192, TOGETHER - SPLIT) scan_fwd_twins(const __grid_constant__ scan_operands<bf16> p)
{
    extern __shared__ __align__(128) char smem[];
    typedef twins_smem<N, 512 / N, TWINS> S;
    scan_block<S, CARRY, SPLIT, PLAIN>(p, *(S *)smem);
}

template <int CH, bool CARRY, bool PLAIN> __global__ void
__launch_bounds__(CARRY ? 10 * CH : 16 * CH, CARRY ? 64 / CH : 48 / CH) scan_fwd_halves(const __grid_constant__ scan_operands<bf16> p)
{
    extern __shared__ __align__(128) char smem[];
    typedef twins_smem<16, CH, HALVES> S;
    scan_block<S, CARRY, !CARRY, PLAIN>(p, *(S *)smem);
}

/* ---- launcher ---- */

typedef void pass_kernel(const scan_operands<bf16>);

template <bool PLAIN> static pass_kernel *twins_of(int64_t N, bool carry, bool split)
{
    if (N == 8) return carry ? scan_fwd_twins<8, true, false, false> : scan_fwd_twins<8, false, false, false>;
    return carry ? scan_fwd_twins<16, true, false, PLAIN>
         : split ? scan_fwd_twins<16, false, true, PLAIN> : scan_fwd_twins<16, false, false, PLAIN>;
}

template <bool PLAIN> static pass_kernel *halves_of(int width, bool carry)
{
    if (carry) return scan_fwd_halves<16, true, PLAIN>;
    return width == 16 ? scan_fwd_halves<16, false, PLAIN> : width == 32 ? scan_fwd_halves<32, false, PLAIN> : scan_fwd_halves<48, false, PLAIN>;
}

/* Launch k: the pass itself, or what pieces leave behind. */
static mba_status launch_pass(const mba_call *c, int k, scan_operands<bf16> p, bool carry)
{
    const mba_launch *l = &c->plan->launch[k];
    const bool half = strcmp(l->kernel, "scan_fwd_halves") == 0, split = l->block > 192;
    const int  width = half ? l->block / (carry ? 10 : 16) : 512 / p.N;
    const bool plain = p.L % TILE == 0 && p.Dg % width == 0 && p.eights && p.eights_bc && p.z.at && !p.ids.at && p.pack == 1
                    && (uintptr_t)p.bias % 16 == 0 && (uintptr_t)p.skip % 16 == 0;
    const size_t bytes = !half ? (p.N == 8 ? sizeof(twins_smem<8, 64, TWINS>) : sizeof(twins_smem<16, 32, TWINS>))
                       : width == 16 ? sizeof(twins_smem<16, 16, HALVES>) : width == 32 ? sizeof(twins_smem<16, 32, HALVES>) : sizeof(twins_smem<16, 48, HALVES>);
    mba_assert(bytes <= l->smem_bytes);
    p.blocks = (int)mba_ceil(p.Dg, width);
    auto *kernel = half ? (plain ? halves_of<true>(width, carry) : halves_of<false>(width, carry))
                        : (plain ? twins_of<true>(p.N, carry, split) : twins_of<false>(p.N, carry, split));
    MBA_KERNEL(c, k, kernel, p);
    return MBA_OK;
}

extern "C" mba_status selective_scan_twins_cuda(const mba_call *c)
{
    const mba_node *n = c->node;
    const scan_dims d = scan_dims_of(n);
    const int       main = c->plan->nlaunches - 1;
    scan_operands<bf16> p = scan_operands_of<bf16>(c, c->plan->launch[main].grid[0], 512 / d.N);
    p.out   = lines_of<bf16>(n->out[OUT], c->out[OUT], d.L, d.D);
    p.final = lines_of<float>(n->out[FINAL], c->out[FINAL], d.D, d.N);
    keep_for_backward(&p, n->out[KEPT], c->out[KEPT]);
    p.ys    = (bf16 *)c->out[YS];
    p.eights    = eights_of(p);
    p.eights_bc = in_eights(p.B) && in_eights(p.C);
    if (p.pieces > 1) {
        p.ends  = (float *)mba_cuda_scratch(c, CU_ENDS);
        p.steps = (float *)mba_cuda_scratch(c, CU_STEPS);
        scan_operands<bf16> fine = p;
        fine.sub = (int)(c->plan->launch[0].grid[0] / p.items);
        fine.pieces *= fine.sub;
        fine.piece /= fine.sub;
        MBA_TRY(launch_pass(c, 0, fine, true));
        MBA_TRY(scan_starts(c, 1, &p, false, fine.sub));
    }
    return launch_pass(c, main, p, false);
}
