// SPDX-License-Identifier: Apache-2.0
/* selective_scan_specialized.cuh -- variant `specialized` of selective_scan, forward, bf16: what its two
 * warp-specialized kernels share. State warps do nothing but the recurrence; element warps load tiles, compute dt and
 * dt u before them, and skip, gate and store after them. Here: shared memory, barriers between the roles, and the
 * element warps' loops.
 *
 * scan_fwd_specialized      four state warps of 128 states, 512/N channels per block
 * (selective_scan_specialized_cuda.cu) scan_fwd_specialized16    HALF: four state warps of 64 states, 16 channels per
 * block, N = 16
 *                           (selective_scan_specialized16_cuda.cu) */
#ifndef MBA_SELECTIVE_SCAN_SPECIALIZED_CUH
#define MBA_SELECTIVE_SCAN_SPECIALIZED_CUH

#include "ops/selective_scan/selective_scan_cuda.cuh"

/* Barriers, one of each kind per buffer. They are named barriers; HALF has FULL and DONE as mbarriers. */
enum { FULL = 1, DONE = 3, EMPTY = 5, STEP_SUMS = 7 };

/* Corrects the mean loss of C h when tensor cores truncate h to tf32: 0.72 of 2^-11. */
#define TF32_LOSS 1.000352f

/* HALF: two warps share a channel's states, and each writes its partial sum of C h. */
template <int N_, bool HALF_> struct specialized_smem {
    enum { N = N_, HALF = HALF_, CH = HALF ? 16 : 512 / N, CO = CH / 8, VALUES = TILE * CO };
    enum { OCTET = 36 };        /* floats per 8 channels x 4 tokens, padded */
    enum { ELEMENTS = VALUES }; /* threads of a role: each has a row of 8 channels */
    enum { STATE_THREADS = 128, BARRIER_THREADS = STATE_THREADS + ELEMENTS };
    enum { BUFFERS = HALF ? 4 : 2, RING = 2 * BUFFERS }; /* buffers between roles; tiles in flight */
    enum { ELEMENT_GROUPS = HALF ? BUFFERS : 1 };        /* take tiles in turn: element_loop_per_warp() */
    enum { BROW = HALF ? N + 8 : N, CROW = HALF ? N + 8 : 64 };
    struct buffer {
        float dt[TILE / 4][CO][OCTET]; /* four tokens of a channel are contiguous */
        float x[TILE][CH + 8];         /* dt u; then C h in the same place */
        float b[TILE][BROW];
        float c[TILE][CROW];                             /* laid out as operand b (store_c); HALF: as in memory */
        float y[HALF ? 2 * TILE : 1][HALF ? CH + 4 : 8]; /* HALF: C h of each half of the states */
    } buf[BUFFERS];
    struct slot { /* a tile as loaded; all but u is private to a thread */
        uint4                  u[VALUES], delta[VALUES], z[VALUES];
        typename word<N>::type bc[64];
    } ring[RING];
    origins<bf16> at;
    uint64_t      mbarriers[2][BUFFERS]; /* HALF: barriers FULL and DONE */
    /* In odd rows of x the two vectors of four of each eight are swapped, so that eight threads write two rows without
     * bank conflicts. */
    static __device__ __forceinline__ int swapped_rows(int row) { return N == 16 ? row & 1 : 0; }
};

/* ---- 32-bit shared-memory addresses: the compiler then knows the address space and does not recompute them per tile
 * ---- */

template <typename T> static __device__ __forceinline__ T *smem_pointer(uint32_t address)
{
    return (T *)__cvta_shared_to_generic(address);
}

static __device__ __forceinline__ uint32_t smem_address_of(const void *at)
{
    return (uint32_t)__cvta_generic_to_shared(at);
}

/* ---- mbarriers: a warp arrives once, each thread waits by itself ---- */

static __device__ __forceinline__ void smem_barrier_init(uint32_t at, int arrivals)
{
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(at), "r"(arrivals) : "memory");
}

static __device__ __forceinline__ void smem_barrier_arrive(uint32_t at)
{
    __syncwarp();
    if (threadIdx.x % 32 < ARRIVALS_OF_A_WARP)
        asm volatile("{ .reg .b64 s; mbarrier.arrive.shared.b64 s, [%0]; }" ::"r"(at) : "memory");
}

static __device__ __forceinline__ void smem_barrier_wait(uint32_t at, uint32_t phase)
{
    uint32_t done = 0;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
#define MBARRIER_TEST "mbarrier.test_wait.parity.shared.b64"
#else
#define MBARRIER_TEST "mbarrier.try_wait.parity.shared.b64"
#endif
    while (!done)
        asm volatile("{ .reg .pred p; " MBARRIER_TEST " p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                     : "=r"(done)
                     : "r"(at), "r"(phase)
                     : "memory");
}

/* ---- barriers of buffer `index`. At a named barrier all participants meet, so that state warps wait for each other;
 * with mbarriers (HALF) they do not, and may run ahead into the next buffer ---- */

template <int WRAP> static __device__ __forceinline__ int next(int index) { return index == WRAP - 1 ? 0 : index + 1; }

template <int ID, typename S> static __device__ __forceinline__ uint32_t mbarrier_of(const S &sm, int index)
{
    return smem_address_of(&sm.mbarriers[ID == DONE][0]) + 8 * index;
}

/* Waits for event ID of buffer `index` in its use for `tile`. */
template <int ID, typename S>
static __device__ __forceinline__ void wait_buffer(const S &sm, int tile, int index, int threads)
{
    if constexpr (S::HALF) smem_barrier_wait(mbarrier_of<ID>(sm, index), tile / S::BUFFERS & 1);
    else barrier_wait<ID>(index, threads);
}

template <int ID, typename S> static __device__ __forceinline__ void arrive_buffer(const S &sm, int index, int threads)
{
    if constexpr (S::HALF) smem_barrier_arrive(mbarrier_of<ID>(sm, index));
    else barrier_arrive<ID>(index, threads);
}

/* Where a lane of a state warp reads and writes in the first buffer. An asm hides them from the compiler, which would
 * otherwise recompute them for every tile: a tenth of its instructions. */
struct lane_offsets {
    uint32_t dt, x, b, c, y;
};

/* Eight values as two vectors of four in either order; `at` is the address of the first. */
static __device__ __forceinline__ void read8(float (&v)[8], uint32_t at)
{
    const float4 a = *smem_pointer<const float4>(at), b = *smem_pointer<const float4>(at ^ 16);
    v[0] = a.x;
    v[1] = a.y;
    v[2] = a.z;
    v[3] = a.w;
    v[4] = b.x;
    v[5] = b.y;
    v[6] = b.z;
    v[7] = b.w;
}

static __device__ __forceinline__ void store8(uint32_t at, const float (&v)[8])
{
    *smem_pointer<float4>(at) = make_float4(v[0], v[1], v[2], v[3]);
    *smem_pointer<float4>(at ^ 16) = make_float4(v[4], v[5], v[6], v[7]);
}

/* ---- element warps: load tiles two ahead, finish them BUFFERS behind ---- */

template <typename S> struct element_role {
    enum { CO = S::CO };
    enum { BP = S::ELEMENTS < 64 ? 2 : 1 }; /* half rows of B and C per thread */
    enum { BUFFER = sizeof(typename S::buffer), SLOT = sizeof(typename S::slot) };
    enum { ALL = S::VALUES * 16 };
    enum { DELTA_AT = ALL, Z_AT = 2 * ALL, BC_AT = 3 * ALL, BC = S::N }; /* byte offsets in a slot */
    const bf16                    *u, *delta, *z, *bc[BP];               /* at this thread's columns */
    bf16                          *out, *ys;
    const int32_t                 *ids;
    int                            length, first, octet, row, second, bc_row[BP]; /* bc_row: row stride in values */
    float                          bias[8], skip[8], steps[8];                    /* steps: sums of a carry pass */
    uint32_t                       dt_at, x_at, bc_at[BP], ring_at; /* shared: in the first buffer; in the first slot */
    bool                           full, in_range, docs, gated, whole, whole_bc, no_bc;
    int                            phase; /* token in its sequence of the row loaded next */
    document                       doc;
    __device__ __forceinline__ int token(int tile, int r) const
    {
        return full ? tile * TILE + r : min(tile * TILE + r, length - 1);
    }
};

/* Where store_c begins in a row. */
template <int N> static __device__ __forceinline__ int c_offset(int t, int from)
{
    return N == 16 ? t % 4 * 16 + from / 2 : t % 2 * 32 + from;
}

/* Row r of a tile, at a row stride of `row` values. With whole tiles the pointer itself advances from tile to tile. */
template <typename S, typename T>
static __device__ __forceinline__ T *tile_row(const element_role<S> &e, T *at, int tile, int r, int row)
{
    return e.full ? at : row_at(at, e.token(tile, r), 2 * row);
}

template <typename S, typename T>
static __device__ __forceinline__ void advance_pointer(const element_role<S> &e, T *&at, int row)
{
    if (e.full) at = row_at(at, row, 2 * TILE * S::ELEMENT_GROUPS);
}

/* Parameters of eight channels from channel `octet` of this block on; 0 out of range. */
template <bool REGULAR>
static __device__ __forceinline__ void read_parameters(float (&v)[8], const float *all, const block_work &a, int octet)
{
    const float *from = all + a.channel + octet;
    if (REGULAR && all) read8(v, (const float4 *)from);
#pragma unroll
    for (int k = 0; k < 8 && !(REGULAR && all); k++) v[k] = all && a.channel + octet + k < a.channels ? from[k] : 0;
}

/* REGULAR: the case of ordinary models, without checks: whole tiles and blocks of channels, aligned, gated, no
 * documents. */
template <typename S, bool CARRY, bool REGULAR>
static __device__ __forceinline__ element_role<S> element_role_of(const scan_operands<bf16> &p, const S &sm, int et,
                                                                  int group)
{
    element_role<S> e;
    e.octet = et % e.CO;
    e.row = et / e.CO;
    e.length = sm.at.a.length;
    e.full = REGULAR;
    e.first = sm.at.a.first;
    e.in_range = REGULAR || sm.at.a.channel + 8 * e.octet < sm.at.a.channels;
    e.second = sm.at.a.channel + 8 * e.octet + 4 < sm.at.a.channels ? 4 : 0;
    e.whole = REGULAR || p.aligned8;
    e.docs = !REGULAR && (p.ids.at || p.pack > 1);
    e.gated = REGULAR || p.z.at;
    const int column = e.in_range ? 8 * e.octet : 0;
    const int from = REGULAR ? group * TILE : 0, own = REGULAR ? from + e.row : 0; // see tile_row()
    e.u = sm.at.u + column + own * p.u.row;
    e.delta = sm.at.delta + column + own * p.delta.row;
    e.z = sm.at.z ? sm.at.z + column + own * p.z.row : NULL;
    e.out = sm.at.out ? sm.at.out + column + own * p.out.row : NULL;
    e.ys = sm.at.ys ? sm.at.ys + column + (int64_t)own * p.D : NULL;
    e.ids = sm.at.ids;
    e.whole_bc = REGULAR || p.aligned8_bc;
    e.no_bc = et >= (CARRY ? 32 : 64);
#pragma unroll
    for (int i = 0; i < e.BP; i++) { // half a row of B (first 32 threads) or of C
        const int  half_row = i * S::ELEMENTS + et, row = half_row % 32 / 2, at = et % 2 * (S::N / 2);
        const bool is_c = half_row / 32;
        e.bc_row[i] = (int)(is_c ? p.C.row : p.B.row);
        e.bc[i] = (is_c ? sm.at.C : sm.at.B) + at + (REGULAR ? (int64_t)(from + row) * e.bc_row[i] : 0);
        e.bc_at[i] = smem_address_of(is_c ? &sm.buf[0].c[row][S::HALF ? at : c_offset<S::N>(row, at)]
                                          : &sm.buf[0].b[row][at]);
    }
    read_parameters<REGULAR>(e.bias, p.bias, sm.at.a, 8 * e.octet);
    if (!CARRY) read_parameters<REGULAR>(e.skip, p.skip, sm.at.a, 8 * e.octet);
#pragma unroll
    for (int k = 0; CARRY && k < 8; k++) e.steps[k] = 0;
    e.dt_at = smem_address_of(&sm.buf[0].dt[e.row / 4][e.octet][e.row % 4]);
    e.x_at = smem_address_of(&sm.buf[0].x[e.row][8 * e.octet]) ^ 16 * S::swapped_rows(e.row);
    e.ring_at = smem_address_of(&sm.ring[0]) + 16 * et;
    asm volatile("" : "+r"(e.dt_at), "+r"(e.x_at), "+r"(e.bc_at[0]), "+r"(e.ring_at));
    e.phase = (e.first + e.row) % p.L;
    return e;
}

/* Starts the loads of u, delta, B and C of a tile. */
template <typename S, bool CARRY>
static __device__ __forceinline__ void element_load(element_role<S> &e, const scan_operands<bf16> &p, S &sm, int et,
                                                    int tile, int slot)
{
    const uint32_t to = e.ring_at + slot * e.SLOT;
    copy8(smem_pointer<void>(to), tile_row(e, e.u, tile, e.row, (int)p.u.row), e.whole, e.second);
    copy8(smem_pointer<void>(to + e.DELTA_AT), tile_row(e, e.delta, tile, e.row, (int)p.delta.row), e.whole, e.second);
    advance_pointer(e, e.u, (int)p.u.row);
    advance_pointer(e, e.delta, (int)p.delta.row);
    if (e.no_bc) return;
#pragma unroll
    for (int i = 0; i < e.BP; i++) {
        const int   half_row = i * S::ELEMENTS + et;
        const bf16 *bc = tile_row(e, e.bc[i], tile, half_row % 32 / 2, e.bc_row[i]);
        void       *at = smem_pointer<void>(to + e.BC_AT + i * S::ELEMENTS * e.BC - et * (16 - e.BC));
        if (S::N == 16) copy8(at, bc, e.whole_bc, 4);
        else copy_async<8>(at, bc);
        advance_pointer(e, e.bc[i], e.bc_row[i]);
    }
}

/* Starts the load of z. */
template <typename S>
static __device__ __forceinline__ void element_load_gate(element_role<S> &e, const scan_operands<bf16> &p, S &sm,
                                                         int et, int tile, int slot)
{
    if (e.gated)
        copy8(smem_pointer<void>(e.ring_at + slot * e.SLOT + e.Z_AT), tile_row(e, e.z, tile, e.row, (int)p.z.row),
              e.whole, e.second);
    advance_pointer(e, e.z, (int)p.z.row);
}

template <typename S>
static __device__ __forceinline__ void element_documents(element_role<S> &e, const scan_operands<bf16> &p, int tile)
{
    const int t = e.token(tile, e.row);
    e.doc = read_document(e.ids, p.ids.row, t, e.phase == 0 || t + e.first == 0, p.pack > 1);
    e.phase += TILE % p.L;
    if (e.phase >= p.L) e.phase -= p.L;
}

/* Stores C of a token as columns of an operand b (k: states in the order of operand a), two values per lane.
 * N = 16: columns 2 (t%4), for elements 0 and 2 of a lane, and the next, for elements 1 and 3.
 * N = 8: columns 4 (t%2) and the next, for elements 0 and 1; the two after them, for elements 2 and 3.
 * All other columns are zero and stay zero. v: states from `from` on. */
template <int N> static __device__ __forceinline__ void store_c(float *at, const float *v)
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

static __device__ __forceinline__ void store_dt(float *to, const float (&v)[8])
{
#pragma unroll
    for (int k = 0; k < 8; k++) to[4 * k] = v[k];
}

static __device__ __forceinline__ void store_dt(float *to, float all)
{
#pragma unroll
    for (int k = 0; k < 8; k++) to[4 * k] = all;
}

/* Computes step sizes and dt u of a tile and stores them with B and C to its buffer. */
template <typename S, bool CARRY>
static __device__ __forceinline__ void element_fill(element_role<S> &e, S &sm, int et, int tile, int index, int slot)
{
    const uint32_t buffer = index * e.BUFFER, from = e.ring_at + slot * e.SLOT;
    const int      left = e.length - tile * TILE;
    float          u[8], d[8];
    values(u, *smem_pointer<const uint4>(from));
    values(d, *smem_pointer<const uint4>(from + e.DELTA_AT));
#pragma unroll
    for (int k = 0; k < 8; k++) {
        d[k] = step_of<false>(d[k] + e.bias[k]);
        u[k] = rounded_tf32(u[k] * d[k]);
        if (CARRY) e.steps[k] += e.full || e.row < left ? d[k] : 0;
    }
    float *const   dt = smem_pointer<float>(e.dt_at + buffer);
    const uint32_t x = e.x_at + buffer;
    store_dt(dt, d);
    store8(x, u); // exceptions overwrite: cheaper than selects
    if (e.docs && e.doc.here != e.doc.before) {
        store_dt(dt, RESET_STEP);
#pragma unroll
        for (int k = 0; CARRY && k < 8; k++) e.steps[k] += e.row < left ? RESET_STEP : 0;
    }
    if (!e.full && e.row >= left) {
        store_dt(dt, 0.0f);
        store8(x, {});
    }
    if (e.no_bc) return;
#pragma unroll
    for (int i = 0; i < e.BP; i++) {
        const uint32_t at = from + e.BC_AT + i * S::ELEMENTS * e.BC - et * (16 - e.BC);
        float          v[8], *to = smem_pointer<float>(e.bc_at[i] + buffer);
        if (S::N == 16) values(v, *smem_pointer<const uint4>(at));
        else values(*(float(*)[4])v, *smem_pointer<const quad<bf16>>(at));
        if (!CARRY && !S::HALF && et >= 32) {
            store_c<S::N>(to, v);
        } else {
#pragma unroll
            for (int k = 0; k < S::N / 2; k += 4) *(float4 *)(to + k) = make_float4(v[k], v[k + 1], v[k + 2], v[k + 3]);
        }
    }
}

/* Finishes a tile after the state warps: adds D u, gates and stores. Calls `released` once C h and u have been read. */
template <typename S, typename F>
static __device__ __forceinline__ void element_finish(element_role<S> &e, const scan_operands<bf16> &p, const S &sm,
                                                      int et, int tile, int index, int slot, int gate, F released)
{
    const auto    &s = sm.buf[index];
    const uint32_t from = e.ring_at + slot * e.SLOT;
    float          y[8], u[8];
    if (S::HALF) {
        float other[8];
        read8(y, (const float4 *)&s.y[e.row][8 * e.octet]);
        read8(other, (const float4 *)&s.y[TILE + e.row][8 * e.octet]);
#pragma unroll
        for (int k = 0; k < 8; k++) y[k] += other[k];
    } else {
        read8(y, e.x_at + index * e.BUFFER);
    }
    values(u, *smem_pointer<const uint4>(from));
#pragma unroll
    for (int k = 0; k < 8; k++) y[k] = fmaf(e.skip[k], u[k], TF32_LOSS * y[k]);
    released();
    if (!e.in_range || (!e.full && tile * TILE + e.row >= e.length)) return; // `full`: no row is beyond the end
    if (e.ys) write8(tile_row(e, e.ys, tile, e.row, p.D), y, e.whole, e.second);
    if (e.gated) {
        float z[8];
        values(z, halve(*smem_pointer<const uint4>(e.ring_at + gate * e.SLOT + e.Z_AT)));
#pragma unroll
        for (int k = 0; k < 8; k++) y[k] *= fmaf(z[k], tanh_fast(z[k]), z[k]); // z sigmoid(z)
    }
    write8(tile_row(e, e.out, tile, e.row, (int)p.out.row), y, e.whole, e.second);
    advance_pointer(e, e.out, (int)p.out.row);
    if (e.ys) advance_pointer(e, e.ys, p.D);
}

/* Sums the step sizes of a carry pass over its rows, in order; uses the first buffer, which is free by then. */
template <typename S>
static __device__ __forceinline__ void element_steps(const element_role<S> &e, const scan_operands<bf16> &p, S &sm,
                                                     int et)
{
    store8((float4 *)&sm.buf[0].x[e.row][8 * e.octet], e.steps);
    barrier_wait<STEP_SUMS>(0, S::ELEMENTS);
    float steps = 0;
    for (int r = 0; r < TILE; r++) steps += sm.buf[0].x[r][et % S::CH];
    const block_work &a = sm.at.a;
    if (et < S::CH && a.channel + et < a.channels) p.steps[a.item * p.D + a.channel + et] = steps;
}

/* Two roles: the same element warps fill and finish buffers. */
template <typename S, bool CARRY, bool REGULAR>
static __device__ __forceinline__ void element_loop(const scan_operands<bf16> &p, S &sm, int et)
{
    element_role<S> e = element_role_of<S, CARRY, REGULAR>(p, sm, et, 0);
    const int       tiles = (e.length + TILE - 1) / TILE;
    const auto      load = [&](int tile, int slot) {
        if (tile < tiles) element_load<S, CARRY>(e, p, sm, et, tile, slot);
        if (tile < tiles && !CARRY) element_load_gate<S>(e, p, sm, et, tile, slot);
        copy_async_commit();
    };
    load(0, 0);
    load(1, 1);
    if (e.docs) element_documents<S>(e, p, 0);
    for (int tile = 0; tile < tiles; tile++) {
        const int index = tile % 2, slot = tile % 4, ahead = (tile + 2) % 4; // ahead: also of the tile finished
        if (tile >= S::BUFFERS) {
            wait_buffer<DONE, S>(sm, tile, index, S::BARRIER_THREADS);
            if (!CARRY) element_finish<S>(e, p, sm, et, tile - S::BUFFERS, index, ahead, ahead, [] {});
        }
        load(tile + 2, ahead);
        copy_async_wait<2>();
        element_fill<S, CARRY>(e, sm, et, tile, index, slot);
        arrive_buffer<FULL, S>(sm, index, S::BARRIER_THREADS);
        if (e.docs && tile + 1 < tiles) element_documents<S>(e, p, tile + 1);
    }
    for (int tile = max(tiles - S::BUFFERS, 0); tile < tiles; tile++) {
        wait_buffer<DONE, S>(sm, tile, tile % S::BUFFERS, S::BARRIER_THREADS);
        if (!CARRY) element_finish<S>(e, p, sm, et, tile, tile % S::BUFFERS, tile % S::RING, tile % S::RING, [] {});
    }
    if (CARRY) element_steps<S>(e, p, sm, et);
}

/* THREE_ROLES: some element warps fill buffers, others finish them and signal EMPTY when a buffer has been read. */
template <typename S, bool REGULAR>
static __device__ __forceinline__ void element_loop_fill(const scan_operands<bf16> &p, S &sm, int et)
{
    element_role<S> e = element_role_of<S, false, REGULAR>(p, sm, et, 0);
    const int       tiles = (e.length + TILE - 1) / TILE;
    for (int tile = 0; tile < 2; tile++) {
        if (tile < tiles) element_load<S, false>(e, p, sm, et, tile, tile);
        copy_async_commit();
    }
    if (e.docs) element_documents<S>(e, p, 0);
    int index = 0, slot = 0, ahead = 2;
    for (int tile = 0; tile < tiles; tile++) {
        if (tile >= S::BUFFERS) wait_buffer<EMPTY, S>(sm, tile, index, 2 * S::ELEMENTS);
        if (tile + 2 < tiles) element_load<S, false>(e, p, sm, et, tile + 2, ahead);
        copy_async_commit();
        copy_async_wait<2>();
        element_fill<S, false>(e, sm, et, tile, index, slot);
        arrive_buffer<FULL, S>(sm, index, S::BARRIER_THREADS);
        if (e.docs && tile + 1 < tiles) element_documents<S>(e, p, tile + 1);
        index = next<S::BUFFERS>(index);
        slot = next<S::RING>(slot);
        ahead = next<S::RING>(ahead);
    }
}

template <typename S, bool REGULAR>
static __device__ __forceinline__ void element_loop_store(const scan_operands<bf16> &p, S &sm, int et)
{
    element_role<S> e = element_role_of<S, false, REGULAR>(p, sm, et, 0);
    const int       tiles = (e.length + TILE - 1) / TILE;
    for (int tile = 0; tile < 2; tile++) {
        if (tile < tiles) element_load_gate<S>(e, p, sm, et, tile, tile);
        copy_async_commit();
    }
    int index = 0, slot = 0;
    for (int tile = 0; tile < tiles; tile++) {
        if (tile + 2 < tiles) element_load_gate<S>(e, p, sm, et, tile + 2, (tile + 2) % 4);
        copy_async_commit();
        copy_async_wait<2>();
        wait_buffer<DONE, S>(sm, tile, index, S::BARRIER_THREADS);
        element_finish<S>(e, p, sm, et, tile, index, slot, slot, [&] {
            if (tile + S::BUFFERS < tiles) arrive_buffer<EMPTY, S>(sm, index, 2 * S::ELEMENTS);
        });
        index = next<S::BUFFERS>(index);
        slot = next<S::RING>(slot);
    }
}

/* HALF: every element warp owns a buffer and two slots of the ring and processes a tile from its step sizes to its
 * output. So no other warp needs to know when a buffer is empty. */
template <typename S, bool REGULAR>
static __device__ __forceinline__ void element_loop_per_warp(const scan_operands<bf16> &p, S &sm, int et, int own)
{
    enum { ELEMENT_GROUPS = S::ELEMENT_GROUPS };
    element_role<S> e = element_role_of<S, false, REGULAR>(p, sm, et, own);
    const int       tiles = (e.length + TILE - 1) / TILE;
    const auto      load = [&](int tile, int slot) {
        if (tile < tiles) element_load<S, false>(e, p, sm, et, tile, slot);
        if (tile < tiles) element_load_gate<S>(e, p, sm, et, tile, slot);
        copy_async_commit();
    };
    for (int tile = 0; e.docs && tile <= own; tile++) element_documents<S>(e, p, tile);
    int slot = 2 * own;
    load(own, slot);
    for (int tile = own; tile < tiles; tile += ELEMENT_GROUPS) {
        load(tile + ELEMENT_GROUPS, slot ^ 1);
        copy_async_wait<1>();
        element_fill<S, false>(e, sm, et, tile, own, slot);
        arrive_buffer<FULL, S>(sm, own, S::BARRIER_THREADS);
        for (int i = 1; e.docs && i <= ELEMENT_GROUPS; i++)
            if (tile + i < tiles) element_documents<S>(e, p, tile + i);
        wait_buffer<DONE, S>(sm, tile, own, S::BARRIER_THREADS);
        element_finish<S>(e, p, sm, et, tile, own, slot, slot, [] {});
        slot ^= 1;
    }
}

/* ---- a block: its first warps run states(warp, lane), the others an element loop ---- */

/* CARRY: computes the final state of a segment that starts from zero, and the sum of its steps. (The first segment of a
 * sequence runs as in the main pass, in the same launch: nothing precedes it.) */
template <typename S, bool CARRY, bool THREE_ROLES, bool REGULAR, typename F>
static __device__ __forceinline__ void scan_block(const scan_operands<bf16> &p, S &sm, const block_work &a, F states)
{
    enum {
        THREADS = S::STATE_THREADS + (THREE_ROLES ? 2 : S::ELEMENT_GROUPS) * S::ELEMENTS,
        FOURS = TILE * S::CROW / 4
    };
    const int thread = (int)threadIdx.x;
    find_origins(sm.at, p, a, thread);
    for (int c = thread; !S::HALF && c < S::BUFFERS * FOURS; c += THREADS)
        ((float4 *)sm.buf[c / FOURS].c)[c % FOURS] = make_float4(0, 0, 0, 0);
    if (S::HALF && thread < 2 * S::BUFFERS) // FULL: one warp arrives; DONE: all state warps
        smem_barrier_init(mbarrier_of<FULL>(sm, thread),
                          (thread < S::BUFFERS ? 1 : S::STATE_THREADS / 32) * ARRIVALS_OF_A_WARP);
    if (thread == 0) {
        barrier_begin<FULL>(S::BARRIER_THREADS);
        barrier_begin<DONE>(S::BARRIER_THREADS);
        barrier_begin<EMPTY>(2 * S::ELEMENTS);
        barrier_begin<STEP_SUMS>(S::ELEMENTS);
    }
    __syncthreads();
    const int warp = (int)(threadIdx.x / 32), et = (int)threadIdx.x - S::STATE_THREADS;
    if (warp < S::STATE_THREADS / 32) states(warp, (int)threadIdx.x % 32);
    else if constexpr (S::HALF) element_loop_per_warp<S, REGULAR>(p, sm, et % 32, et / 32);
    else if constexpr (!THREE_ROLES) element_loop<S, CARRY, REGULAR>(p, sm, et);
    else if (et < S::ELEMENTS) element_loop_fill<S, REGULAR>(p, sm, et);
    else element_loop_store<S, REGULAR>(p, sm, et - S::ELEMENTS);
}

/* Whether REGULAR holds, for blocks of `width` channels. */
static inline bool has_regular_shape(const scan_operands<bf16> &p, int width)
{
    return p.L % TILE == 0 && p.Dg % width == 0 && p.aligned8 && p.aligned8_bc && p.z.at && !p.ids.at && p.pack == 1
           && (uintptr_t)p.bias % 16 == 0 && (uintptr_t)p.skip % 16 == 0;
}

/* Launches scan_fwd_specialized16 as launch k of the plan. */
mba_status scan_specialized16(const mba_call *c, int k, scan_operands<bf16> p);

#endif
