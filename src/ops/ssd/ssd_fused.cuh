/* ssd_fused.cuh -- ssd for Hopper: one walk over the chunks with the state in registers; y forwards in time, and with x
 * and dy, B and C exchanged, the gradient of x backwards. P = 64, N = 128, chunks of 64, bf16 operands, fp32 sums.
 *
 * Factored decay. In a chunk with log decays cs_l, total a, and a pivot m in the middle of their range:
 *     e_l = exp(cs_l - m)    f_s = dt_s exp(m - cs_s)    x'_s = f_s x_s    H1 = exp(m) H
 *     y_l = e_l ( H1 C_l + sum_{s<=l} (C_l . B_s) x'_s ) + D x_l        H_next = exp(a - m) ( H1 + sum_s x'_s B_s^T )
 * so C B^T is the same for all heads of a group (made once, bf16), no exponential per pair is left, and all products
 * have their left operand in registers: H1 and x' with rows p. A chunk whose decays span more than RANGE_MAX takes a
 * path with a decay per pair (`slow`). A reset is a zero in C B^T, in a copy of C for the state term (rows that the
 * state does not reach), in a copy of B for the update (rows that do not reach the end), and drops the old state there.
 *
 * kernel     ssd_prep        block = one chunk: C B^T of a group, or the records of 32 heads
 * launch     grid chunks B (G + ceil(H/32)), block 256
 * moves      reads B, C, dt once; writes 8 KB per chunk and group, 528 bytes per chunk and head (backward thrice that)
 * resources  sm_90a, CUDA 13.0: 64 registers, 35 KB of shared memory
 * kernel     ssd_scan, ssd_scan_rev    persistent; item = (sequence, segment, two heads of a group); one producer
 *            thread, two warpgroups of 240 registers, one head each; ring of three stages of 58 KB by TMA
 * launch     grid min(items, SMs), block 384, dynamic smem 217 KB; items with a slow chunk after the others
 * moves      per chunk and two heads: x 16 KB, C, B, C B^T 40 KB (from L2), y 16 KB; tensor 2 x 640 cycles
 * takes      bf16, P 64, N 128, H/G even, rows at multiples of 16 bytes
 * resources  sm_90a, CUDA 13.0: 168 registers, no spill
 * measured   the prototype of these kernels: ssd.md
 * kernel     ssd_scan_cut, ssd_scan_rev_cut    the same walks; a block takes a range of the row of all chunks
 *            (ssd_cuts.c), a list of pieces of items; states go from block to block where items are many
 * order      fixed: chunks in turn, states folded in order; no atomics on floats. Only a cut walk waits for another
 *            block: for a state which that one makes before all else (await() gives up after seconds) */
#ifndef MBA_SSD_FUSED_CUH
#define MBA_SSD_FUSED_CUH

#include "device/cuda/hopper.cuh"
#include "ops/ssd/ssd_task.cuh"

enum { FP = 64, FN = 128, FQ = 64 };                   /* P, N, chunk */
enum { HEADS = 2 };                                    /* of a block: one consumer warpgroup each */
enum { TILE_BYTES = FQ * TILE_ROW_BYTES };             /* 64 positions x 64 bf16 */
enum { IS_SLOW = 1, HAS_RESET = 2 };                   /* flags of a chunk of a head */
static constexpr float RANGE_MAX = 140.0f;             /* e^70 squared fits bf16 as it fits fp32 */

/* A record of a (sequence, head, chunk), in the order in which fragments want it; position l = 16 k + 8 j + 2 t + i:
 *   word t*16 + k*4 + j*2 + i     scale of what leaves (e; reverse f), fp32
 *   word 64 + t*8 + k*2 + j       scale of what enters (f; reverse e) of the pair l, l+1: upper halves, two bf16
 *   word 96 + t*8 + k*2 + j       what the upper halves missed, two bf16
 *   words 128 ..                  log factor of the state before the chunk, after it; flags; a
 * Slow: words 0..63 cs, 64..127 dt, fp32 in the first order; words 128 and 129 zero.
 * Plain, for ssd_bwd_bc: e[64], f[64], m, a - m, flags, a. */
enum { REC = SSD_RECORD, REC_BEFORE = 128, REC_AFTER, REC_FLAGS, REC_ALL };

struct fused_task {
    int   B, L, H, G, J, K;                            /* K chunks of 64 in a sequence */
    int   segments, per_segment, items;                /* of a sequence, chunks of one, work items */
    int   skip_cols;
    float dt_min, dt_max;
    bool  adds[DINITIAL + 1];
    strided<const bf16>  x, dt, bm, cm, dy;
    strided<bf16>        ddt, dbm, dcm;
    strided<const int>   ids;
    strided<const float> initial, dfinal;              /* rows (b, h, p) */
    strided<float>       final, dinitial;
    const float *A_log, *skip, *bias;
    float       *dA_log, *dskip, *dbias;
    /* scratch */
    float    *rec, *rec_rev, *rec_plain;               /* (B, H, K, REC) */
    bf16     *cb;                                      /* (B, K, G, 64, 64) */
    bf16     *cb_low;                                  /* (B, K/2, G, 64, 64): odd chunks, sources one chunk earlier */
    bf16     *b_end, *c_begin;                         /* with ids: (B, K 64, G, N), rows out of reach are zero */
    float    *seg_state, *seg_decay;                   /* (B, H, segments, 64, 128 threads); (B, H, segments) */
    int      *handed;                                  /* cut items: (states, 2), the state is there */
    int       states;                                  /* cut items: then seg_state is (states, 2 heads, ..) */
    uint32_t *saved, *saved_rev;                       /* (B, H, K/2, 64, N) bf16, n as fragments have it */
    float    *src;                                     /* (B, H, K 64): <x', gradient of x'> */
    float    *q, *row;                                 /* (B, H, K 64): what l takes from before its chunk; from it */
    float    *ends;                                    /* (B, H, K/2, SSD_ENDS): ssd_fused_bc.cuh */
    float    *slow_db, *slow_dc;                       /* (B, K 64, G, N): what heads beyond the range add */
    float    *dpar, *dD;                               /* (2, B K/2, H); (B segments, H, P) */
};

/* The step of a token, before and after its limits. Small steps by a series: 1 + e^v would have lost them. */
static __device__ __forceinline__ float soft_step(float raw)
{
    const float e = __expf(raw);
    return raw > 20 ? raw : e < 0.015f ? e * (1 - e * (0.5f - e * (1.0f / 3))) : __logf(1 + e);
}
static __device__ __forceinline__ float limited(const fused_task &a, float step)
{
    return fminf(fmaxf(step, a.dt_min), a.dt_max);
}

/* ---- preparation ---- */

static __device__ __forceinline__ bool reset_at(const fused_task &a, int b, int64_t l)
{
    return a.ids.at && l > 0 && l < a.L && *a.ids.row(b, l, 0) != *a.ids.row(b, l - 1, 0);
}

/* How many resets lie at or before each position of a chunk; by one warp. Others see it after a barrier. */
static __device__ __forceinline__ void count_resets(int (&count)[FQ], const fused_task &a, int b, int c)
{
    if (threadIdx.x >= 32) return;
    const int      lane = threadIdx.x & 31, l = c * FQ + lane;
    const unsigned low = __ballot_sync(0xffffffffu, reset_at(a, b, l));
    const unsigned high = __ballot_sync(0xffffffffu, reset_at(a, b, l + 32));
    const unsigned mine = 0xffffffffu >> (31 - lane);
    count[lane]      = __popc(low & mine);
    count[lane + 32] = __popc(low) + __popc(high & mine);
}

typedef bf16 wide_rows[FQ][FN + 8];

/* 64 rows of B or C of a group; beyond L zero. First asked for, then put: a load under a condition, or one whose value
 * is stored at once, would be waited for before the next. */
static __device__ __forceinline__ void fetch_rows(uint4 (&v)[4], const strided<const bf16> &from, const fused_task &a,
                                                  int b, int g, int l0)
{
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const int e = (int)threadIdx.x + 256 * i, l = min(l0 + (e >> 4), a.L - 1);
        v[i] = *(const uint4 *)(from.row(b, l, g) + (e & 15) * 8);
    }
}
static __device__ __forceinline__ void put_rows(wide_rows &to, const uint4 (&v)[4], const fused_task &a, int l0)
{
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const int e = (int)threadIdx.x + 256 * i, r = e >> 4;
        *(uint4 *)&to[r][(e & 15) * 8] = l0 + r < a.L ? v[i] : make_uint4(0, 0, 0, 0);
    }
}

/* C B^T, 16 x 32 per warp: rows r0 + lane/4 (+ 8), columns n0 + 8 j + 2 (lane % 4). */
static __device__ __forceinline__ void rows_product(float (&acc)[4][4], const wide_rows &left, const wide_rows &right,
                                                    int r0, int n0)
{
    const int g = (threadIdx.x & 31) >> 2, t = threadIdx.x & 3;
#pragma unroll
    for (int k = 0; k < FN; k += 16) {
        const uint32_t A[4] = { *(const uint32_t *)&left[r0 + g][k + 2 * t],
                                *(const uint32_t *)&left[r0 + g + 8][k + 2 * t],
                                *(const uint32_t *)&left[r0 + g][k + 2 * t + 8],
                                *(const uint32_t *)&left[r0 + g + 8][k + 2 * t + 8] };
#pragma unroll
        for (int j = 0; j < 4; j++)
            mma(acc[j], A, *(const uint32_t *)&right[n0 + 8 * j + g][k + 2 * t],
                *(const uint32_t *)&right[n0 + 8 * j + g][k + 2 * t + 8]);
    }
}

/* Stores what reaches: `low` is the block of sources one chunk earlier. */
template <bool LOW>
static __device__ __forceinline__ void store_pairs(bf16 *to, const float (&acc)[4][4], int r0, int n0,
                                                   const int (&here)[FQ], const int (&before)[FQ])
{
    const int g = (threadIdx.x & 31) >> 2, t = threadIdx.x & 3;
#pragma unroll
    for (int j = 0; j < 4; j++)
#pragma unroll
        for (int q = 0; q < 2; q++) {
            const int l = r0 + g + 8 * q, s = n0 + 8 * j + 2 * t;
            bool      one, two;
            if (LOW) {
                one = here[l] == 0 && before[s] == before[FQ - 1];
                two = here[l] == 0 && before[s + 1] == before[FQ - 1];
            } else {
                one = s <= l && here[s] == here[l];
                two = s + 1 <= l && here[s + 1] == here[l];
            }
            ((uint32_t *)to)[(l * FQ + s) / 2] = pack(one ? acc[j][2 * q] : 0, two ? acc[j][2 * q + 1] : 0);
        }
}

/* The copies of C and B for states: rows beyond a reset, or before the last one, are zero. */
static __device__ __forceinline__ void store_reach(const fused_task &a, const wide_rows &cm, const wide_rows &bm,
                                                   const int (&resets)[FQ], int b, int c, int g)
{
    for (int e = (int)threadIdx.x; e < FQ * 16; e += 256) {
        const int     r = e >> 4, piece = (e & 15) * 8;
        const int64_t at = (((int64_t)b * a.K * FQ + (int64_t)c * FQ + r) * a.G + g) * FN + piece;
        const uint4   zero = make_uint4(0, 0, 0, 0);
        *(uint4 *)(a.c_begin + at) = resets[r] == 0 ? *(const uint4 *)&cm[r][piece] : zero;
        *(uint4 *)(a.b_end + at)   = resets[r] == resets[FQ - 1] ? *(const uint4 *)&bm[r][piece] : zero;
    }
}

static __device__ __forceinline__ void prepare_pairs(const fused_task &a, wide_rows &cm, wide_rows &bm,
                                                     int (&here)[FQ], int (&before)[FQ], int b, int c, int g)
{
    const int warp = (int)threadIdx.x >> 5, r0 = 16 * (warp & 3), n0 = 32 * (warp >> 2);
    uint4     rows[4], others[4];
    fetch_rows(rows, a.cm, a, b, g, c * FQ);
    fetch_rows(others, a.bm, a, b, g, c * FQ);
    put_rows(cm, rows, a, c * FQ);
    put_rows(bm, others, a, c * FQ);
    count_resets(here, a, b, c);
    __syncthreads();
    float acc[4][4] = {};
    rows_product(acc, cm, bm, r0, n0);
    store_pairs<false>(a.cb + (((int64_t)b * a.K + c) * a.G + g) * FQ * FQ, acc, r0, n0, here, here);
    if (a.c_begin) store_reach(a, cm, bm, here, b, c, g);
    if (!a.cb_low || !(c & 1)) return;
    fetch_rows(rows, a.bm, a, b, g, (c - 1) * FQ);
    __syncthreads();
    put_rows(bm, rows, a, (c - 1) * FQ);
    count_resets(before, a, b, c - 1);
    __syncthreads();
    float low[4][4] = {};
    rows_product(low, cm, bm, r0, n0);
    store_pairs<true>(a.cb_low + (((int64_t)b * (a.K / 2) + c / 2) * a.G + g) * FQ * FQ, low, r0, n0, here, before);
}

/* What a lane knows of a chunk of a head: positions 2 lane and 2 lane + 1. */
struct lane_steps { float2 dt, cs, e, f; float m, all, flags; };

static __device__ __forceinline__ void write_walk(float *r, const lane_steps &s, bool rev)
{
    const int    lane = threadIdx.x & 31, k = lane >> 3, j = (lane >> 2) & 1, t = lane & 3;
    const int    out = t * 16 + k * 4 + j * 2, in = t * 8 + k * 2 + j;
    const bool   slow = (int)s.flags & IS_SLOW;
    const float2 enters = rev ? s.e : s.f;
    if (slow) {
        *(float2 *)(r + out)      = s.cs;
        *(float2 *)(r + 64 + out) = s.dt;
    } else {
        const uint2 w = split(enters.x, enters.y);
        *(float2 *)(r + out)      = rev ? s.f : s.e;
        ((uint32_t *)r)[64 + in]  = w.x;
        ((uint32_t *)r)[96 + in]  = w.y;
    }
    if (lane) return;
    const float before = rev ? s.all - s.m : s.m, after = rev ? s.m : s.all - s.m;
    *(float4 *)(r + REC_BEFORE) = make_float4(slow ? 0 : before, slow ? 0 : after, s.flags, s.all);
}

static __device__ __forceinline__ void write_plain(float *r, const lane_steps &s)
{
    const int lane = threadIdx.x & 31;
    ((float2 *)r)[lane]      = s.e;
    ((float2 *)r)[32 + lane] = s.f;
    if (lane == 0) *(float4 *)(r + REC_BEFORE) = make_float4(s.m, s.all - s.m, s.flags, s.all);
}

/* raw: of positions 2 lane, 2 lane + 1; real: how many positions of the chunk there are. */
static __device__ __forceinline__ lane_steps steps_of(const fused_task &a, float2 raw, float decay, int real)
{
    const int  lane = threadIdx.x & 31;
    lane_steps s;
    s.dt.x = 2 * lane < real ? limited(a, soft_step(raw.x)) : 0;
    s.dt.y = 2 * lane + 1 < real ? limited(a, soft_step(raw.y)) : 0;
    s.cs.x = s.dt.x * decay;
    s.cs.y = s.cs.x + s.dt.y * decay;
    float run = s.cs.y;
#pragma unroll
    for (int d = 1; d < 32; d *= 2) {
        const float v = __shfl_up_sync(0xffffffffu, run, d);
        if (lane >= d) run += v;
    }
    const float before = run - s.cs.y;
    s.cs.x += before;
    s.cs.y += before;
    const float first = __shfl_sync(0xffffffffu, s.cs.x, 0);
    s.all = __shfl_sync(0xffffffffu, s.cs.y, 31);
    s.m   = 0.5f * (first + s.all);
    s.e   = make_float2(__expf(s.cs.x - s.m), __expf(s.cs.y - s.m));
    s.f   = make_float2(s.dt.x * __expf(s.m - s.cs.x), s.dt.y * __expf(s.m - s.cs.y));
    s.flags = first - s.all > RANGE_MAX ? IS_SLOW : 0;
    return s;
}

/* 32 heads: raw steps come in by rows, leave by columns. */
static __device__ __forceinline__ void prepare_steps(const fused_task &a, float (&raw)[FQ][33], int b, int c, int part,
                                                     bool reset)
{
    const int h0 = part * 32, heads = min(32, a.H - h0), warp = (int)threadIdx.x >> 5, lane = threadIdx.x & 31;
    const int real = min(FQ, a.L - c * FQ);
    bf16      v[8];
#pragma unroll
    for (int i = 0; i < 8; i++)                        // all asked for before any is stored, as fetch_rows
        v[i] = *a.dt.row(b, min(c * FQ + warp + 8 * i, a.L - 1), h0 + min(lane, heads - 1));
#pragma unroll
    for (int i = 0; i < 8; i++) {
        const int r = warp + 8 * i;
        raw[r][lane] = r < real && lane < heads ? to_float(v[i]) : 0;
    }
    __syncthreads();
#pragma unroll 1
    for (int i = warp; i < heads; i += 8) {
        const int     h = h0 + i;
        const float   bias = a.bias ? a.bias[h] : 0;
        const int64_t at = (((int64_t)b * a.H + h) * a.K + c) * REC;
        lane_steps    s = steps_of(a, make_float2(raw[2 * lane][i] + bias, raw[2 * lane + 1][i] + bias),
                                   -expf(a.A_log[h]), real);
        s.flags += reset ? HAS_RESET : 0;
        write_walk(a.rec + at, s, false);
        if (!a.rec_rev) continue;
        write_walk(a.rec_rev + at, s, true);
        write_plain(a.rec_plain + at, s);
    }
}

static __global__ void __launch_bounds__(256) ssd_prep(const __grid_constant__ fused_task a)
{
    __shared__ __align__(16) wide_rows cm, bm;
    __shared__ int here[FQ], before[FQ];
    unsigned  z = blockIdx.x;
    const int c = digit(z, a.K), b = digit(z, a.B), what = (int)z;
    if (a.handed && blockIdx.x == 0)
        for (int i = (int)threadIdx.x; i < a.states * HEADS; i += 256) a.handed[i] = 0;
    if (what < a.G) {
        prepare_pairs(a, cm, bm, here, before, b, c, what);
    } else {
        bool reset = false;
        if (a.ids.at) {
            count_resets(here, a, b, c);
            __syncthreads();
            reset = here[FQ - 1] > 0;
        }
        prepare_steps(a, *(float (*)[FQ][33])cm, b, c, what - a.G, reset);
    }
}

/* ---- the walk ---- */

/* y or dx (and states of pairs: reverse always); what a segment adds to the state; states of pairs alone. */
enum scan_what { SCAN_OUT, SCAN_KEEP, SCAN_LOCAL, SCAN_SAVE };
static __device__ constexpr bool has_output(int what) { return what == SCAN_OUT || what == SCAN_KEEP; }
static __device__ constexpr bool saves_states(int what, bool rev)
{
    return rev || what == SCAN_SAVE || what == SCAN_KEEP;
}
enum { ITEM_WORDS = SSD_ITEMS_PER_BLOCK / 32 };

/* k: C (reverse B), of the state term; u: B (reverse C), of the update; x: x (reverse dy); y: y (reverse dx);
 * other: reverse x. */
struct scan_maps { CUtensorMap k, u, cb, x, y, other; };

/* As ssd_cuts has it. */
struct scan_cuts {
    int      hands;                                    /* states go from block to block; else a launch makes them */
    int      at[SSD_BLOCKS_MAX + 1];                   /* where the range of a block begins, in the row of all chunks */
    int      part_at[SSD_PARTS_MAX], part_end[SSD_PARTS_MAX];       /* pieces whose states a launch makes */
    uint16_t part[SSD_BLOCKS_MAX + 1];                 /* the first one of a block of that launch */
    uint16_t fold_from[SSD_BLOCKS_MAX + 1], fold_to[SSD_BLOCKS_MAX + 1];     /* the states that a range begins with */
    uint16_t before[SSD_BLOCKS_MAX + 1];               /* pieces of that item before it */
};

/* A sequence or a segment of one, of two heads. Cut items: seg is how many pieces come before; the state is folded (or
 * taken over) from the numbers in [from, to), and left under `leave` if that is not negative. */
struct scan_item { int b, pair, seg, c0, chunks, from, to, leave, last; };

struct scan_stage {                                    /* one chunk, 58 KB; every tile 1 KB aligned */
    unsigned char k[2 * TILE_BYTES], u[2 * TILE_BYTES], cb[TILE_BYTES], x[HEADS][TILE_BYTES];
    float         rec[HEADS][256];
};
enum { STAGES = 3, SLOW_STAGES = 2 };
struct scan_smem {
    scan_stage    st[STAGES];                          /* slow items: in the last C B^T of heads with decays */
    unsigned char y[HEADS][2][TILE_BYTES];             /* on the way out; reverse: first x on its way in */
    float         src[HEADS][2][4][FQ];                /* reverse: parts of four warps */
    float2        skip[HEADS][128];                    /* reverse: dD of a thread's rows */
    uint64_t      full[2][STAGES], empty[2][STAGES];   /* of the items in range, of the slow ones */
    uint64_t      came[HEADS][2];
    uint32_t      slow[ITEM_WORDS];                    /* which items of this block hold a slow chunk */
    int           any;                                 /* some do */
    struct { volatile int n, b, head, last; } kept[4 * HEADS];     /* cut items, of a warp: registers are short there */
    float2        D[HEADS * 128];                      /* cut items: of a thread's rows p and p + 8 */
    volatile int  now, b, pair, c0, to;                /* cut items, of the producer: it has few registers */
};
static_assert(sizeof(scan_smem) + 1024 <= SSD_SCAN_SMEM, "the plan asks for less");
static_assert(sizeof(scan_stage) >= HEADS * TILE_BYTES, "room for C B^T of slow items");
template <bool SLOW> static __device__ __forceinline__ int next_stage(int s)
{
    return s + 1 == (SLOW ? SLOW_STAGES : STAGES) ? 0 : s + 1;
}

static __device__ __forceinline__ int item_at(int n) { return (int)(blockIdx.x + n * gridDim.x); }   /* of this block */

static __device__ __forceinline__ scan_item item_of(const fused_task &a, int item)
{
    unsigned  z = (unsigned)item;
    scan_item i = {};
    i.pair   = digit(z, a.H / HEADS);
    i.seg    = digit(z, a.segments);
    i.b      = (int)z;
    i.c0     = i.seg * a.per_segment;
    i.chunks = min(a.per_segment, a.K - i.c0);
    return i;
}

/* A number that the compiler takes for another each time: so that nothing made of it is kept in registers all the way
 * through a walk. */
static __device__ __forceinline__ int anew(int v)
{
    asm volatile("" : "+r"(v));
    return v;
}

/* A piece of an item, from `begin` to `end` in the row. */
static __device__ __forceinline__ scan_item cut_piece(const fused_task &a, int item, int begin, int end, bool rev)
{
    const int K = anew(a.K), pairs = anew(a.H / HEADS), from = begin - item * K, to = end - item * K;
    scan_item i = {};
    i.pair   = item % pairs;
    i.b      = item / pairs;
    i.c0     = rev ? K - to : from;
    i.chunks = to - from;
    i.leave  = -1;
    i.last   = to == K;
    return i;
}

/* Piece n of this block, from the last to the first: what another block continues comes before what continues
 * another's. */
template <bool REV, int WHAT>
static __device__ __forceinline__ scan_item cut_item(const fused_task &a, const scan_cuts &r, int n)
{
    const int k = anew((int)blockIdx.x), K = anew(a.K);
    if (WHAT == SCAN_LOCAL) {
        const int state = r.part[k] + n, begin = r.part_at[state];
        scan_item i = cut_piece(a, begin / K, begin, r.part_end[state], REV);
        i.leave = state;
        return i;
    }
    const int begin = r.at[k], end = r.at[k + 1], item = (end - 1) / K - n;
    scan_item i = cut_piece(a, item, max(begin, item * K), min(end, (item + 1) * K), REV);
    if (begin > item * K) {
        i.seg  = r.before[k];
        i.from = r.hands ? k - 1 : r.fold_from[k];
        i.to   = r.hands ? k : r.fold_to[k];
    }
    if (r.hands && !i.last) i.leave = k;
    return i;
}
template <int WHAT> static __device__ __forceinline__ int cut_items(const fused_task &a, const scan_cuts &r)
{
    const int k = anew((int)blockIdx.x), K = anew(a.K);
    return WHAT == SCAN_LOCAL ? r.part[k + 1] - r.part[k] : (r.at[k + 1] - 1) / K - r.at[k] / K + 1;
}

/* Item n of this block; whether there is one. */
template <bool REV, int WHAT, bool CUT>
static __device__ __forceinline__ scan_item item_no(const fused_task &a, const scan_cuts *r, int n)
{
    return CUT ? cut_item<REV, WHAT>(a, *r, n) : item_of(a, item_at(n));
}
template <int WHAT, bool CUT>
static __device__ __forceinline__ bool has_item(const fused_task &a, const scan_cuts *r, int n)
{
    return CUT ? n < cut_items<WHAT>(a, *r) : item_at(n) < a.items;
}

#if MBA_HOPPER || !defined(__CUDA_ARCH__)

static __device__ __forceinline__ int64_t record_at(const fused_task &a, int b, int h, int c)
{
    return (((int64_t)b * a.H + h) * a.K + c) * REC;
}
/* The same; 32 bits hold the rows (check_fused). */
static __device__ __forceinline__ int64_t record_no(const fused_task &a, int b, int h, int c)
{
    return (int64_t)((unsigned)(b * a.H + h) * (unsigned)a.K + (unsigned)c) * REC;
}

/* Pieces that hand states on within a launch must be of one kind, else blocks could wait for each other: there the
 * whole item counts. */
template <bool REV, int WHAT, bool CUT>
static __device__ __forceinline__ void find_slow(scan_smem &sm, const fused_task &a, const scan_cuts *r)
{
    const float *rec = REV ? a.rec_rev : a.rec;
    bool         any = false;
    for (int n = 0; has_item<WHAT, CUT>(a, r, n); n++) {
        scan_item i = item_no<REV, WHAT, CUT>(a, r, n);
        if (CUT && r->hands) i.c0 = 0, i.chunks = a.K;
        for (int e = (int)threadIdx.x; e < HEADS * i.chunks; e += (int)blockDim.x) {
            const int h = i.pair * HEADS + e / i.chunks, c = i.c0 + e % i.chunks;
            if ((int)rec[record_at(a, i.b, h, c) + REC_FLAGS] & IS_SLOW) {
                atomicOr(&sm.slow[n >> 5], 1u << (n & 31));
                any = true;
            }
        }
    }
    any = __syncthreads_or(any);
    sm.any = any;                                      // kept in a register, it would be one too many
    __syncthreads();
}

/* Whether a pass walks item n of its block: first those in range, then those with a slow chunk. Nobody wants what the
 * last segment (reverse: the first) adds. */
template <bool REV, int WHAT, bool SLOW, bool CUT>
static __device__ __forceinline__ bool walks(const scan_smem &sm, const fused_task &a, int n)
{
    if (!CUT && WHAT == SCAN_LOCAL && item_of(a, item_at(n)).seg == (REV ? 0 : a.segments - 1)) return false;
    return (bool)(sm.slow[n >> 5] >> (n & 31) & 1) == SLOW;
}

/* The copies of chunk c into stage s. */
template <bool REV, int WHAT, bool SLOW, bool CUT>
static __device__ __forceinline__ void feed(scan_smem &sm, const fused_task &a, const scan_maps &maps, int s, int b,
                                            int pair, int c)
{
    const float   *rec = REV ? a.rec_rev : a.rec;
    const int      g = pair * HEADS / a.J;
    const uint32_t bar = smem_address(&sm.full[SLOW][s]);
    scan_stage    &t = sm.st[s];
    mbar_expect(bar, (has_output(WHAT) ? 5 : 2) * TILE_BYTES + HEADS * (TILE_BYTES + REC * 4));
    for (int h = 0; h < HEADS; h++) {
        const int head = pair * HEADS + h;
        tma_load3(smem_address(t.x[h]), &maps.x, bar, head * FP, c * FQ, b);
        bulk_load(smem_address(t.rec[h]), rec + (CUT ? record_no(a, b, head, c) : record_at(a, b, head, c)), REC * 4, bar);
    }
    if (has_output(WHAT)) {
        for (int j = 0; j < 2; j++)
            tma_load3(smem_address(t.k) + j * TILE_BYTES, &maps.k, bar, g * FN + 64 * j, c * FQ, b);
        tma_load3(smem_address(t.cb), &maps.cb, bar, 0, 0, (b * a.K + c) * a.G + g);
    }
    for (int j = 0; j < 2; j++)
        tma_load3(smem_address(t.u) + j * TILE_BYTES, &maps.u, bar, g * FN + 64 * j, c * FQ, b);
}

/* One thread feeds the ring; at the end it waits until all of it is read. Cut items: what it works on is in shared
 * memory, as it has few registers. */
template <bool REV, int WHAT, bool SLOW, bool CUT>
static __device__ __forceinline__ void scan_produce(scan_smem &sm, const fused_task &a, const scan_maps &maps,
                                                    const scan_cuts *r)
{
    int s = 0, ph = 1;                                 // the first pass over the ring finds it empty
    for (int n = 0; has_item<WHAT, CUT>(a, r, n); n++) {
        if (walks<REV, WHAT, SLOW, CUT>(sm, a, n)) {
            const scan_item it = item_no<REV, WHAT, CUT>(a, r, n);
            if (CUT) {
                sm.b    = it.b;
                sm.pair = it.pair;
                sm.to   = it.chunks;
                sm.c0   = it.c0;
                sm.now  = n;
            }
            for (int i = 0; i < (CUT ? sm.to : it.chunks); i++) {
                const int chunks = CUT ? sm.to : it.chunks, c0 = CUT ? sm.c0 : it.c0;
                mbar_wait(smem_address(&sm.empty[SLOW][s]), ph);
                feed<REV, WHAT, SLOW, CUT>(sm, a, maps, s, CUT ? sm.b : it.b, CUT ? sm.pair : it.pair,
                                           REV ? c0 + chunks - 1 - i : c0 + i);
                s = next_stage<SLOW>(s);
                ph ^= s == 0;
            }
            if (CUT) n = sm.now;
        }
    }
    for (int i = 0; !SLOW && i < STAGES; i++) {
        mbar_wait(smem_address(&sm.empty[SLOW][s]), ph);
        s = next_stage<SLOW>(s);
        ph ^= s == 0;
    }
}

/* A consumer warpgroup: the head it walks, its state, and what is on its way. Loads from shared memory queue behind the
 * products a warp has issued, and the compiler likes to pull their first use up between those: every load is placed by
 * hand, and pin() keeps its use below the point where it is wanted. */
template <bool REV, int WHAT, bool SLOW, bool CUT> struct scan_walk {
    typedef uint32_t fragments[4][4];                  /* 64 p x 64 positions: [16 positions][as A of mma.cuh] */
    typedef uint32_t packed_state[8][4];               /* 64 p x 128 n likewise */
    scan_smem        &sm;
    const fused_task &a;
    const scan_maps  &maps;
    const scan_cuts  *r;
    int       wg, tid, warp, lane, t4;
    uint32_t  moff;                                    /* my row for ldmatrix and stmatrix, transposed */
    int       s, ph;                                   /* place in the ring */
    unsigned  steps;                                   /* chunks so far: which output tile, and phase of its barrier */
    scan_item it;
    int       head, c, last_c;                         /* this chunk, the last one of the item */
    int       left;                                    /* cut items, instead of c: chunks of the piece after this one */
    float     D0, D1;                                  /* of my rows p and p + 8 */
    float     after, total;                            /* log factor owed to the state; log decay of the segment */
    float     h[64], y[32];
    float4    out[4];                                  /* scale of what leaves */
    fragments raw, next;                               /* x of this chunk and of the next */
    uint32_t  in[16];                                  /* next: scale of what enters, upper halves, lower halves */

    __device__ __forceinline__ scan_walk(scan_smem &smem, const fused_task &task, const scan_maps &m,
                                         const scan_cuts *cuts, unsigned done)
        : sm(smem), a(task), maps(m), r(cuts)
    {
        uint32_t thread = threadIdx.x;
        pin(thread);                                   // so that nothing is made before the other pass for this one
        wg   = (int)thread >> 7;
        tid  = (int)thread & 127;
        warp = tid >> 5;
        lane = tid & 31;
        t4   = lane & 3;
        moff = (uint32_t)(((lane >> 4) * 8 + (lane & 7)) * 128 + ((2 * warp + ((lane >> 3) & 1)) ^ (lane & 7)) * 16);
        s = ph = 0;
        steps = done;
    }

    /* Which of the two tiles y leaves through. Cut items, forward: no register for `steps`. */
    __device__ __forceinline__ unsigned tile_no() const { return CUT && !REV ? (unsigned)left & 1 : steps & 1; }

    /* All threads of this warpgroup. Numbers of barriers are constants: else all sixteen count as used. */
    __device__ __forceinline__ void together()
    {
        if (CUT ? anew((int)threadIdx.x) >> 7 : wg) bar_sync<2, 128>();
        else    bar_sync<1, 128>();
    }

    /* The next chunk: x, and its scale. */
    __device__ __forceinline__ void fetch_x(int at, int phase)
    {
        mbar_wait(smem_address(&sm.full[SLOW][at]), phase);
#pragma unroll
        for (int k = 0; k < 4; k++) ldmatrix_t_at(next[k], smem_address(sm.st[at].x[wg]) + moff + k * 16 * 128);
    }
    __device__ __forceinline__ void fetch_scale(int at)
    {
        const uint4 *scales = (const uint4 *)(sm.st[at].rec[wg] + 64) + 2 * t4;
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const uint4 v = scales[(j >> 1) * 8 + (j & 1)];
            in[4 * j] = v.x;
            in[4 * j + 1] = v.y;
            in[4 * j + 2] = v.z;
            in[4 * j + 3] = v.w;
        }
    }
    __device__ __forceinline__ void fetch(int at, int phase)
    {
        fetch_x(at, phase);
        fetch_scale(at);
    }
    __device__ __forceinline__ void scale(fragments &x)
    {
#pragma unroll
        for (int k = 0; k < 4; k++)
#pragma unroll
            for (int j = 0; j < 4; j++) {
                pin(next[k][j]);
                x[k][j] = times(next[k][j], in[2 * k + (j >> 1)], in[8 + 2 * k + (j >> 1)]);
            }
    }
    __device__ __forceinline__ void operands(const scan_stage &t)
    {
#pragma unroll
        for (int k = 0; k < 4; k++) {
            out[k] = *((const float4 *)t.rec[wg] + 4 * t4 + k);
            ldmatrix_t_at(raw[k], smem_address(t.x[wg]) + moff + k * 16 * 128);
        }
        if (CUT) {
            const float2 D = sm.D[threadIdx.x];
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

    /* ---- states outside: rows p = 16 warp + lane/4 (+ 8), columns 8 j + 2 t4 (+ 1) ---- */
    __device__ __forceinline__ int row_of(int q) const { return 16 * warp + (lane >> 2) + 8 * q; }

    /* Cut items: state `number` of this head. */
    __device__ __forceinline__ float *state_no(int number) const
    {
        return a.seg_state + ((int64_t)number * HEADS + wg) * FP * FN + tid;
    }
    __device__ __forceinline__ void take_over()
    {
        int *there = a.handed + it.from * HEADS + wg;
        if (tid == 0) {
            await(there);
            *there = 0;                                // as it was before the launch
        }
        together();
        const float *from = state_no(it.from);
#pragma unroll
        for (int i = 0; i < 64; i++) h[i] = load_fresh(from + i * 128);
    }
    __device__ __forceinline__ void fold_pieces()
    {
        for (int j = it.from; j < it.to; j++) {
            const float  d = __expf(a.seg_decay[j * HEADS + wg]);
            const float *from = state_no(j);
#pragma unroll
            for (int i = 0; i < 64; i++) h[i] = h[i] * d + from[i * 128];
        }
    }
    /* What the earlier (reverse: later) segments leave. */
    __device__ __forceinline__ void fold_segments()
    {
        for (int j = REV ? a.segments - 1 : 0; REV ? j > it.seg : j < it.seg; j += REV ? -1 : 1) {
            const float  d = __expf(a.seg_decay[bh() * a.segments + j]);
            const float *from_segment = a.seg_state + (bh() * a.segments + j) * 64 * 128 + tid;
#pragma unroll
            for (int i = 0; i < 64; i++) h[i] = h[i] * d + from_segment[i * 128];
        }
    }
    __device__ __forceinline__ void leave_piece(float f)
    {
        float *to = state_no(it.leave);
#pragma unroll
        for (int i = 0; i < 64; i++) to[i * 128] = h[i] * f;
        if (WHAT == SCAN_LOCAL) {
            if (tid == 0) a.seg_decay[it.leave * HEADS + wg] = total;
        } else {
            together();
            if (tid == 0) publish(a.handed + it.leave * HEADS + wg);
        }
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
        if (WHAT == SCAN_LOCAL) return;
        if (CUT && a.handed && it.from < it.to) {
            take_over();
            return;
        }
        if (from.at)
#pragma unroll
            for (int j = 0; j < 16; j++)
#pragma unroll
                for (int i = 0; i < 4; i++)
                    h[4 * j + i] = from.row(it.b, head, row_of(i >> 1))[8 * j + 2 * t4 + (i & 1)];
        if (CUT) fold_pieces();
        else     fold_segments();
    }
    __device__ __forceinline__ void leave_state()
    {
        const float f = __expf(after);
        if (CUT && it.leave >= 0) leave_piece(f);
        if (!CUT && WHAT == SCAN_LOCAL) {
            float *to = a.seg_state + (bh() * a.segments + it.seg) * 64 * 128 + tid;
#pragma unroll
            for (int i = 0; i < 64; i++) to[i * 128] = h[i] * f;
            if (tid == 0) a.seg_decay[bh() * a.segments + it.seg] = total;
        }
        const strided<float> &to = REV ? a.dinitial : a.final;
        if (!has_output(WHAT) || !to.at || !ends_sequence()) return;
        const bool adds = REV && a.adds[DINITIAL];
#pragma unroll
        for (int j = 0; j < 16; j++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                float *e = to.row(it.b, head, row_of(i >> 1)) + 8 * j + 2 * t4 + (i & 1);
                *e = h[4 * j + i] * f + (adds ? *e : 0);
            }
    }
    /* bf16, n in the order in which threads have it, so that four write 64 bytes in a row; ssd_bwd_bc undoes it. */
    __device__ __forceinline__ void save_state(const packed_state &ha)
    {
        uint32_t *saved = REV ? a.saved_rev : a.saved;
        const int thread = anew((int)threadIdx.x);     // row_of and t4 of it; cut items: nothing is kept for this
        const int row = CUT ? (thread >> 5 & 3) * 16 + (thread >> 2 & 7) : row_of(0), col = CUT ? thread & 3 : t4;
#pragma unroll
        for (int q = 0; q < 2; q++) {
            uint4 *to = (uint4 *)saved + (row_of_head(a.K / 2, chunk() >> 1) * 64 + row + 8 * q) * 16 + col;
#pragma unroll
            for (int k = 0; k < 8; k += 2)
                to[2 * k] = make_uint4(ha[k][q], ha[k][q + 2], ha[k + 1][q], ha[k + 1][q + 2]);
        }
    }

    /* ---- products: Y = H1 C^T + x' (C B^T)^T, then H1 += x' B ---- */
    __device__ __forceinline__ void state_term(const packed_state &ha, const scan_stage &t)
    {
        const uint64_t d = mdesc(smem_address(t.k));
#pragma unroll
        for (int k = 0; k < 8; k++) wgmma_n64_rs<0>(y, ha[k], d + (((k >> 2) * TILE_BYTES + (k & 3) * 32) >> 4), k > 0);
    }
    __device__ __forceinline__ void pairs_term(const fragments &x, const void *pairs)
    {
        const uint64_t d = mdesc(smem_address(pairs));
#pragma unroll
        for (int k = 0; k < 4; k++)
            if (REV) wgmma_n64_rs<1>(y, x[k], d + ((k * 2048) >> 4), 1);
            else     wgmma_n64_rs<0>(y, x[k], d + ((k * 32) >> 4), 1);
    }
    __device__ __forceinline__ void update(const fragments &x, const scan_stage &t, int keep)
    {
        const uint64_t d = mdesc(smem_address(t.u), TILE_BYTES);
#pragma unroll
        for (int k = 0; k < 4; k++) wgmma_n128_rs<1>(h, x[k], d + ((k * 2048) >> 4), k > 0 ? 1 : keep);
        wgmma_commit();
    }

    __device__ __forceinline__ void products(const packed_state &ha, const fragments &x, const scan_stage &t, int keep)
    {
        wgmma_fence();
        if (has_output(WHAT)) {
            state_term(ha, t);
            pairs_term(x, t.cb);
            wgmma_commit();
            operands(t);
        }
        update(x, t, keep);
    }

    /* A decay per pair: right for any decay. Loads stay where they stand: all at once would not fit into registers. */
    static __device__ __forceinline__ void in_order() { asm volatile("" ::: "memory"); }
    static __device__ __forceinline__ float at(const float *v, int l)      /* position l of a record */
    {
        return v[((l >> 1) & 3) * 16 + (l >> 4) * 4 + ((l >> 3) & 1) * 2 + (l & 1)];
    }
    __device__ __forceinline__ unsigned char *own_pairs()
    {
        return (unsigned char *)&sm.st[SLOW_STAGES] + wg * TILE_BYTES;
    }
    __device__ __forceinline__ void decayed_pairs(const scan_stage &t, const float *cs)
    {
        for (int i = tid; i < FQ * FQ / 2; i += 128) {
            const int      l = i >> 5, q = i & 31, place = tile_at(l, q >> 2) + (q & 3) * 4;
            const uint32_t v = *(const uint32_t *)(t.cb + place);
            const float    cl = at(cs, l);
            *(uint32_t *)(own_pairs() + place) = pack(low_of(v) * __expf(fminf(cl - at(cs, 2 * q), 0)),
                                                       high_of(v) * __expf(fminf(cl - at(cs, 2 * q + 1), 0)));
        }
    }
    __device__ __forceinline__ void slow_output(const packed_state &ha, fragments &x, const scan_stage &t, float all)
    {
        const float *cs = t.rec[wg], *dt = t.rec[wg] + 64;
        together();
        decayed_pairs(t, cs);
        fence_async();
        together();
        wgmma_fence();
        state_term(ha, t);
        wgmma_commit();
        wgmma_wait<0>();
#pragma unroll
        for (int k = 0; k < 8; k++) {
            const float c0 = at(cs, 8 * k + 2 * t4), c1 = at(cs, 8 * k + 2 * t4 + 1);
            const float d0 = __expf(REV ? all - c0 : c0), d1 = __expf(REV ? all - c1 : c1);
            y[4 * k]     *= d0;
            y[4 * k + 1] *= d1;
            y[4 * k + 2] *= d0;
            y[4 * k + 3] *= d1;
            in_order();
        }
#pragma unroll
        for (int k = 0; k < 4; k++)
#pragma unroll
            for (int j = 0; j < 4; j++) {
                const int l = 16 * k + 8 * (j >> 1) + 2 * t4;
                x[k][j] = REV ? raw[k][j] : pack(low_of(raw[k][j]) * at(dt, l), high_of(raw[k][j]) * at(dt, l + 1));
                pin(x[k][j]);
                in_order();
            }
        wgmma_fence();
        pairs_term(x, own_pairs());
        wgmma_commit();
        wgmma_wait<0>();
    }
    __device__ __forceinline__ void slow_products(const packed_state &ha, fragments &x, const scan_stage &t, float all,
                                                  int keep)
    {
        const float *cs = t.rec[wg], *dt = t.rec[wg] + 64;
        const float  decay = __expf(all);
        operands(t);
#pragma unroll
        for (int i = 0; i < 64; i++) h[i] *= decay;
        if (has_output(WHAT)) slow_output(ha, x, t, all);
#pragma unroll
        for (int k = 0; k < 4; k++)
#pragma unroll
            for (int j = 0; j < 4; j++) {
                const int   l = 16 * k + 8 * (j >> 1) + 2 * t4;
                const float f0 = REV ? __expf(at(cs, l)) : at(dt, l) * __expf(all - at(cs, l));
                const float f1 = REV ? __expf(at(cs, l + 1)) : at(dt, l + 1) * __expf(all - at(cs, l + 1));
                x[k][j] = pack(low_of(raw[k][j]) * f0, high_of(raw[k][j]) * f1);
                pin(x[k][j]);
                in_order();
            }
        wgmma_fence();
        update(x, t, keep);
        wgmma_wait<0>();
#pragma unroll
        for (int k = 0; k < 4; k++)
            out[k] = REV ? *((const float4 *)t.rec[wg] + 16 + 4 * t4 + k) : make_float4(1, 1, 1, 1);
    }

    /* ---- what leaves ---- */

    /* Reverse: x comes where dx will leave; each thread reads the bytes its warp will write. */
    __device__ __forceinline__ void ask_for_x(int from)
    {
        const uint32_t bar = smem_address(&sm.came[wg][steps & 1]);
        mbar_expect(bar, TILE_BYTES);
        tma_load3(smem_address(sm.y[wg][steps & 1]), &maps.other, bar, my_head() * FP, from * FQ, my_b());
    }
    /* <x', gradient of x'> of four positions, and dD. */
    __device__ __forceinline__ void source_sums(float (&src)[16], float2 &dD, int k, uint32_t tile)
    {
        uint32_t     x[4];
        const float *v = y + 8 * k;
        ldmatrix_t_at(x, tile + moff + k * 16 * 128);
        const uint2    f0 = split(out[k].x, out[k].y), f1 = split(out[k].z, out[k].w);
        const uint32_t s0 = times(x[0], f0.x, f0.y), s1 = times(x[1], f0.x, f0.y), s2 = times(x[2], f1.x, f1.y),
                       s3 = times(x[3], f1.x, f1.y);
        src[4 * k]     = low_of(s0) * v[0] + low_of(s1) * v[2];
        src[4 * k + 1] = high_of(s0) * v[1] + high_of(s1) * v[3];
        src[4 * k + 2] = low_of(s2) * v[4] + low_of(s3) * v[6];
        src[4 * k + 3] = high_of(s2) * v[5] + high_of(s3) * v[7];
        dD.x += low_of(x[0]) * low_of(raw[k][0]) + high_of(x[0]) * high_of(raw[k][0])
             + low_of(x[2]) * low_of(raw[k][2]) + high_of(x[2]) * high_of(raw[k][2]);
        dD.y += low_of(x[1]) * low_of(raw[k][1]) + high_of(x[1]) * high_of(raw[k][1])
             + low_of(x[3]) * low_of(raw[k][3]) + high_of(x[3]) * high_of(raw[k][3]);
    }
    /* Sixteen sums over the eight lanes that share positions: each step halves what a lane is left with. */
    template <int KEPT, int BIT> __device__ __forceinline__ void halve(float (&src)[16])
    {
        const bool upper = lane & BIT;
#pragma unroll
        for (int i = 0; i < KEPT; i++) {
            const float give = upper ? src[i] : src[i + KEPT], mine = upper ? src[i + KEPT] : src[i];
            src[i] = mine + __shfl_xor_sync(0xffffffffu, give, BIT);
        }
    }
    __device__ __forceinline__ void keep_sources(float (&src)[16])
    {
        halve<8, 16>(src);
        halve<4, 8>(src);
        halve<2, 4>(src);
        const int k = (lane >> 4) * 2 + (lane >> 3 & 1), j = lane >> 2 & 1;
        *(float2 *)&sm.src[wg][steps & 1][warp][16 * k + 8 * j + 2 * t4] = make_float2(src[0], src[1]);
    }
    __device__ __forceinline__ void store_sources()
    {
        const float (&part)[4][FQ] = sm.src[wg][steps & 1];
        if (tid < FQ) a.src[row_of_head(a.K, chunk()) * FQ + tid] = part[0][tid] + part[1][tid] + part[2][tid] + part[3][tid];
    }
    __device__ __forceinline__ void store_skip_sums()
    {
        float2 dD = sm.skip[wg][tid];
#pragma unroll
        for (int d = 1; d < 4; d *= 2) {
            dD.x += __shfl_xor_sync(0xffffffffu, dD.x, d);
            dD.y += __shfl_xor_sync(0xffffffffu, dD.y, d);
        }
        float *to = a.dD + (((int64_t)it.b * a.segments + it.seg) * a.H + head) * FP;
        if (t4) return;
        to[row_of(0)] = dD.x;
        to[row_of(1)] = dD.y;
        for (int j = it.seg + 1; CUT && it.last && j < a.segments; j++) {       // as many as items have at most
            to += (int64_t)a.H * FP;
            to[row_of(0)] = to[row_of(1)] = 0;
        }
    }

    /* y = out Y + D x, from registers through a tile in shared memory; meanwhile the next chunk comes in. */
    __device__ __forceinline__ void leave(bool more, fragments &xn, int sn, int phn)
    {
        const uint32_t tile = smem_address(sm.y[CUT ? anew((int)threadIdx.x) >> 7 : wg][tile_no()]);
        float          src[16];
        float2         dD = make_float2(0, 0);
        wgmma_wait<1>();
        if (!SLOW && more) {
            fetch_x(sn, phn);
            if (!REV) fetch_scale(sn);                 // reverse: no registers for it yet
        }
#pragma unroll
        for (int k = 0; k < 4; k++)
#pragma unroll
            for (int j = 0; j < 4; j++) pin(raw[k][j]);
        if (REV) mbar_wait(smem_address(&sm.came[wg][steps & 1]), steps >> 1 & 1);
#pragma unroll
        for (int k = 0; k < 4; k++) {
            const float4 e = out[k];
            const float *v = y + 8 * k;
            const uint32_t o[4] = { pack(v[0] * e.x + D0 * low_of(raw[k][0]), v[1] * e.y + D0 * high_of(raw[k][0])),
                                    pack(v[2] * e.x + D1 * low_of(raw[k][1]), v[3] * e.y + D1 * high_of(raw[k][1])),
                                    pack(v[4] * e.z + D0 * low_of(raw[k][2]), v[5] * e.w + D0 * high_of(raw[k][2])),
                                    pack(v[6] * e.z + D1 * low_of(raw[k][3]), v[7] * e.w + D1 * high_of(raw[k][3])) };
            if (REV) source_sums(src, dD, k, tile);
            stmatrix_t_at(tile + moff + k * 16 * 128, o);
        }
        if (!SLOW && more) {
            if (REV) fetch_scale(sn);
            scale(xn);
        }
        if (REV) {
            keep_sources(src);
            sm.skip[wg][tid].x += dD.x;
            sm.skip[wg][tid].y += dD.y;
        }
        fence_async();
        if (tid == 0) bulk_wait_read<0>();             // the other tile has left: it is free after the barrier
        together();
        if (tid == 0) {
            tma_store3(&maps.y, tile, my_head() * FP, chunk() * FQ, my_b());
            bulk_commit();
        }
        if (REV) store_sources();
        steps++;
        if (REV && more && tid == 0) ask_for_x(chunk() - 1);
    }

    /* One chunk; false: it was the last. */
    __device__ __forceinline__ bool step(fragments &x, fragments &xn)
    {
        const bool   more = CUT ? left > 0 : c != last_c;
        scan_stage  &t = sm.st[s];
        const int    sn = next_stage<SLOW>(s), phn = sn ? ph : ph ^ 1;
        if (SLOW) {                                    // registers are short: x comes when it is needed
            fetch(s, ph);
            scale(x);
        }
        const float4 last = *(const float4 *)(t.rec[wg] + REC_BEFORE);
        const float  owed = after;
        float        factor = __expf(last.x + owed);
        const int    flags = (int)last.z, keep = !(flags & HAS_RESET);
        after = last.y;
        total = keep ? total + last.w : -INFINITY;
        if (__any_sync(0xffffffffu, last.x + owed < -80)) {      // together they would underflow, the state would not
            factor = __expf(owed);
#pragma unroll
            for (int j = 0; j < 64; j++) h[j] *= factor;
            factor = __expf(last.x);
        }
#pragma unroll
        for (int j = 0; j < 64; j++) h[j] *= factor;
        packed_state ha;
        if (WHAT != SCAN_LOCAL) {
#pragma unroll
            for (int k = 0; k < 8; k++)
#pragma unroll
                for (int j = 0; j < 4; j++) ha[k][j] = pack(h[8 * k + 2 * j], h[8 * k + 2 * j + 1]);
            if (saves_states(WHAT, REV) && (chunk() & 1) == REV) save_state(ha);
        }
        if (SLOW && __any_sync(0xffffffffu, flags & IS_SLOW)) slow_products(ha, x, t, last.w, keep);
        else                                                  products(ha, x, t, keep);
        if (has_output(WHAT)) {
            leave(more, xn, sn, phn);
        } else if (!SLOW && more) {
            fetch(sn, phn);
            scale(xn);
        }
        wgmma_wait<0>();
        if (lane == 0) mbar_arrive(smem_address(&sm.empty[SLOW][s]));
        s  = sn;
        ph = phn;
        if (CUT) left--;
        else     c += REV ? -1 : 1;
        return more;
    }

    __device__ __forceinline__ void take(int n)
    {
        it   = item_no<REV, WHAT, CUT>(a, r, n);
        head = it.pair * HEADS + wg;
        c      = REV ? it.c0 + it.chunks - 1 : it.c0;
        last_c = REV ? it.c0 : it.c0 + it.chunks - 1;
        if (!CUT) return;
        left = it.chunks - 1;
        __syncwarp();
        if (lane == 0) {
            auto &k = sm.kept[wg * 4 + warp];
            k.n    = n;
            k.b    = it.b;
            k.head = head;
            k.last = last_c;
        }
        __syncwarp();
    }
    __device__ __forceinline__ int walk(int n)         /* returns n: nobody has to keep it meanwhile */
    {
        fragments A, B;                                // scaled x of two chunks in flight
        take(n);
        D0 = D1 = after = total = 0;
        if (has_output(WHAT) && a.skip_cols) {
            D0 = a.skip[a.skip_cols == 1 ? head : head * FP + row_of(0)];
            D1 = a.skip[a.skip_cols == 1 ? head : head * FP + row_of(1)];
        }
        if (CUT && has_output(WHAT)) sm.D[threadIdx.x] = make_float2(D0, D1);
        if (REV && has_output(WHAT)) {
            sm.skip[wg][tid] = make_float2(0, 0);
            if (tid == 0) ask_for_x(chunk());
        }
        enter_state();
        if (CUT && !REV && has_output(WHAT)) {         // the tile of the piece before may be that of this one
            if (tid == 0) bulk_wait_read<0>();
            together();
        }
        if (!SLOW) {
            fetch(s, ph);
            scale(A);
        }
        while (step(A, B) && (SLOW || step(B, A))) { }
        if (CUT) n = sm.kept[wg * 4 + warp].n;
        asm volatile("" : "+r"(n));                    // so that nothing of this is kept in registers all the way
        take(n);
        leave_state();
        if (REV && has_output(WHAT)) store_skip_sums();
        return n;
    }
};

template <bool REV, int WHAT, bool SLOW, bool CUT>
static __device__ __forceinline__ unsigned walk_items(scan_smem &sm, const fused_task &a, const scan_maps &maps,
                                                      const scan_cuts *r, unsigned steps)
{
    scan_walk<REV, WHAT, SLOW, CUT> w(sm, a, maps, r, steps);
    for (int n = 0; has_item<WHAT, CUT>(a, r, n); n++)
        if (walks<REV, WHAT, SLOW, CUT>(sm, a, n)) {
            const int same = w.walk(n);
            if (CUT) n = same;
        }
    return CUT && !REV ? 0 : w.steps;
}

/* Items in range first, then those with a slow chunk, as a rule none: each pass has a loop without the other's code. */
template <bool REV, int WHAT, bool CUT>
static __device__ __forceinline__ void scan_block_run(const fused_task &a, const scan_maps &maps, const scan_cuts *cuts)
{
    MBA_DYNAMIC_SMEM(smem);
    scan_smem &sm = *(scan_smem *)(smem + ((1024 - (smem_address(smem) & 1023)) & 1023));
    if (threadIdx.x == 0) {
        for (int i = 0; i < 2 * STAGES; i++) {
            mbar_init(smem_address(&sm.full[0][i]), 1);
            mbar_init(smem_address(&sm.empty[0][i]), 4 * HEADS);
        }
        for (int i = 0; i < HEADS; i++)
            for (int j = 0; j < 2; j++) mbar_init(smem_address(&sm.came[i][j]), 1);
        mbar_init_done();
    }
    if (threadIdx.x < ITEM_WORDS) sm.slow[threadIdx.x] = 0;
    __syncthreads();
    find_slow<REV, WHAT, CUT>(sm, a, cuts);
    if (threadIdx.x >= 128 * HEADS) {
        regs_give<24>();
        if (threadIdx.x != 128 * HEADS) return;
        scan_produce<REV, WHAT, false, CUT>(sm, a, maps, cuts);
        if (*(volatile int *)&sm.any) scan_produce<REV, WHAT, true, CUT>(sm, a, maps, cuts);
        return;
    }
    regs_take<240>();
    const unsigned steps = walk_items<REV, WHAT, false, CUT>(sm, a, maps, cuts, 0);
    if (__any_sync(0xffffffffu, *(volatile int *)&sm.any)) {       // a vote: else products below it are serialized
        bar_sync<3, 128 * HEADS>();                    // nobody reads the stage that C B^T with decays goes to
        walk_items<REV, WHAT, true, CUT>(sm, a, maps, cuts, steps);
    }
    if (has_output(WHAT) && (threadIdx.x & 127) == 0) bulk_wait<0>();
}

#endif

template <int WHAT>
static __global__ void __launch_bounds__(128 * (HEADS + 1), 1)
ssd_scan(const __grid_constant__ fused_task a, const __grid_constant__ scan_maps maps)
{
#if MBA_HOPPER
    scan_block_run<false, WHAT, false>(a, maps, nullptr);
#endif
}

template <int WHAT>
static __global__ void __launch_bounds__(128 * (HEADS + 1), 1)
ssd_scan_rev(const __grid_constant__ fused_task a, const __grid_constant__ scan_maps maps)
{
#if MBA_HOPPER
    scan_block_run<true, WHAT, false>(a, maps, nullptr);
#endif
}

template <int WHAT>
static __global__ void __launch_bounds__(128 * (HEADS + 1), 1)
ssd_scan_cut(const __grid_constant__ fused_task a, const __grid_constant__ scan_maps maps,
             const __grid_constant__ scan_cuts cuts)
{
#if MBA_HOPPER
    scan_block_run<false, WHAT, true>(a, maps, &cuts);
#endif
}

template <int WHAT>
static __global__ void __launch_bounds__(128 * (HEADS + 1), 1)
ssd_scan_rev_cut(const __grid_constant__ fused_task a, const __grid_constant__ scan_maps maps,
                 const __grid_constant__ scan_cuts cuts)
{
#if MBA_HOPPER
    scan_block_run<true, WHAT, true>(a, maps, &cuts);
#endif
}

#endif
