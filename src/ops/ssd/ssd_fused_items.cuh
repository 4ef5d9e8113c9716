// SPDX-License-Identifier: Apache-2.0
/* ssd_fused_items.cuh -- what a block of the walks of `fused` takes, in which order, and how it comes: items or pieces
 * of them, the ring in shared memory, and the thread that fills it. */
#ifndef MBA_SSD_FUSED_ITEMS_CUH
#define MBA_SSD_FUSED_ITEMS_CUH

#include "ops/ssd/ssd_fused.cuh"

/* y or dx (and states of pairs: reverse always); states of pairs alone. */
enum scan_what { SCAN_OUT, SCAN_KEEP, SCAN_SAVE };
static __device__ constexpr bool has_output(int what) { return what == SCAN_OUT || what == SCAN_KEEP; }
static __device__ constexpr bool saves_states(int what, bool rev)
{
    return rev || what == SCAN_SAVE || what == SCAN_KEEP;
}
enum { ITEM_WORDS = SSD_ITEMS_PER_BLOCK / 32 };

/* Whole items (or segments); ranges, with states that go from block to block, or that a block makes again. */
enum scan_split { WHOLE, STATE_PASSED, STATE_RECOMPUTED };

/* Whether states that are kept leave through shared memory. */
static __device__ constexpr bool staged(bool exact, int what, bool rev, int cut)
{
    return !exact && cut == WHOLE && saves_states(what, rev);
}

/* k: C (reverse B), of the state term; u: B (reverse C), of the update; x: x (reverse dy); y: y (reverse dx);
 * other: reverse x. */
struct scan_maps {
    CUtensorMap k, u, cb, x, y, other;
};

/* As ssd_split has it. */
struct scan_split_table {
    int      at[SSD_BLOCKS_MAX + 1];     /* where the range of a block begins, in the row of all chunks */
    uint16_t before[SSD_BLOCKS_MAX + 1]; /* pieces of that item before it */
};

/* A sequence or a segment of one, of two heads. Cut items: seg is how many pieces come before; the state is taken over
 * from number `from` and left under `leave`, where these are not negative; the first `again` of its chunks are walked
 * for the state alone, from there on or from the beginning, and what is left is the state behind them. */
struct scan_item {
    int b, pair, seg, c0, chunks, from, leave, last, again;
};

struct scan_stage { /* one chunk, 58 KB; every tile 1 KB aligned */
    unsigned char k[2 * TILE_BYTES], u[2 * TILE_BYTES], cb[TILE_BYTES], x[HEADS][TILE_BYTES];
    float         rec[HEADS][256];
};
/* One that is walked again, for the state alone: without output a chunk takes less time than memory answers in, so
 * more of them are on their way. */
struct state_only_stage {
    unsigned char u[2 * TILE_BYTES], x[HEADS][TILE_BYTES];
    float         rec[HEADS][256];
};
enum { STAGES = 3, SLOW_STAGES = 2, STATE_ONLY_STAGES = 5 };
struct scan_smem {
    union {
        scan_stage       st[STAGES];               /* slow items: in the last C B^T of heads with decays */
        state_only_stage quiet[STATE_ONLY_STAGES]; /* before them; whoever fills the ring waits in between */
    };
    unsigned char y[HEADS][2][TILE_BYTES]; /* on the way out; reverse: first x on its way in */
    union {
        unsigned char state[4 * HEADS][2048]; /* of a warp: half of its rows of a state, on their way out */
        struct {                              /* cut items, which have no registers for that */
            float  src[HEADS][2][4][FQ];      /* reverse: parts of four warps */
            float2 D[HEADS * 128];            /* of a thread's rows p and p + 8 */
        } cut;
    };
    float2 skip[HEADS][128];                    /* reverse: dD of a thread's rows */
    uint4 *volatile goes[4 * HEADS];            /* of a warp: where the next state does */
    uint64_t full[2][STAGES], empty[2][STAGES]; /* of the items in range, of the slow ones */
    uint64_t came[HEADS][2];
    uint64_t quiet_full[STATE_ONLY_STAGES], quiet_empty[STATE_ONLY_STAGES];
    uint32_t slow[ITEM_WORDS]; /* which items of this block hold a slow chunk */
    int      any;              /* some do */
    struct {
        volatile int n, b, head, last, own, from, leave;
    } kept[4 * HEADS];                   /* cut items, of a warp */
    volatile int   now, b, pair, c0, to; /* cut items, of the producer: it has few registers */
    volatile int   reach[HEADS];         /* chunks before the range that its state depends on */
    volatile float passes[HEADS];        /* log of what passes through all that a block walks again */
    volatile int   silent[HEADS];        /* of the producer: chunks before x of a head is wanted; .. */
    volatile int   again;                /* .. before there is output */
};
static_assert(sizeof(scan_smem) + 1024 <= SSD_SCAN_SMEM, "the plan asks for less");

/* The last stage of a ring of two: C B^T with decays of slow items, a tile a head; exact: what the rounding of these
 * lost, and what that of C B^T lost, a tile for each of the two stages. */
static_assert(sizeof(scan_stage) >= (2 * HEADS + SLOW_STAGES) * TILE_BYTES, "room for them");
static __device__ __forceinline__ unsigned char *pairs_rest_of(scan_smem &sm, int s)
{
    return (unsigned char *)&sm.st[SLOW_STAGES] + (2 * HEADS + s) * TILE_BYTES;
}
template <bool TWO> static __device__ __forceinline__ int next_stage(int s)
{
    return s + 1 == (TWO ? SLOW_STAGES : STAGES) ? 0 : s + 1;
}

static __device__ __forceinline__ int item_at(int n) { return (int)(blockIdx.x + n * gridDim.x); } /* of this block */

static __device__ __forceinline__ scan_item item_of(const fused_task &a, int item)
{
    unsigned  z = (unsigned)item;
    scan_item i = {};
    i.pair = unravel_next(z, a.H / HEADS);
    i.seg = unravel_next(z, a.segments);
    i.b = (int)z;
    i.c0 = i.seg * a.per_segment;
    i.chunks = min(a.per_segment, a.K - i.c0);
    return i;
}

/* A number that the compiler takes for another each time: so that nothing made of it is kept in registers all the way
 * through a walk. */
static __device__ __forceinline__ int opaque(int v)
{
    asm volatile("" : "+r"(v));
    return v;
}

/* A piece of an item, from `begin` to `end` in the row. */
static __device__ __forceinline__ scan_item cut_piece(const fused_task &a, int item, int begin, int end, bool rev)
{
    const int K = opaque(a.K), each = opaque(a.H / HEADS), from = begin - item * K, to = end - item * K;
    scan_item i = {};
    i.pair = item % each;
    i.b = item / each;
    i.c0 = rev ? K - to : from;
    i.chunks = to - from;
    i.from = i.leave = -1;
    i.last = to == K;
    return i;
}

/* Piece n of this block, from the last to the first: what another block continues comes before what continues
 * another's. */
template <bool REV, int CUT>
static __device__ __forceinline__ scan_item cut_item(const fused_task &a, const scan_split_table &r, int n)
{
    const int k = (int)blockIdx.x, K = opaque(a.K);
    const int begin = r.at[k], end = r.at[k + 1], item = (end - 1) / K - n;
    scan_item i = cut_piece(a, item, max(begin, item * K), min(end, (item + 1) * K), REV);
    if (begin > item * K) {
        i.seg = r.before[k];
        i.from = k - 1;
    }
    if (CUT == STATE_PASSED && !i.last) i.leave = k;
    if (CUT == STATE_RECOMPUTED && begin > item * K) {
        const int since = r.at[k - 1];
        i.again = begin - max(since, item * K);
        if (since <= item * K) i.from = -1;
        if (!i.last) i.leave = k;
    }
    return i;
}
static __device__ __forceinline__ int cut_items(const fused_task &a, const scan_split_table &r)
{
    const int k = opaque((int)blockIdx.x), K = opaque(a.K);
    return (r.at[k + 1] - 1) / K - r.at[k] / K + 1;
}

/* Item n of this block; whether there is one. */
template <bool REV, int CUT>
static __device__ __forceinline__ scan_item item_no(const fused_task &a, const scan_split_table *r, int n)
{
    return CUT ? cut_item<REV, CUT>(a, *r, n) : item_of(a, item_at(n));
}
template <int CUT>
static __device__ __forceinline__ bool has_item(const fused_task &a, const scan_split_table *r, int n)
{
    return CUT ? n < cut_items(a, *r) : item_at(n) < a.items;
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

/* Of log decays, this lane's and those of the lanes before it; by one warp. */
static __device__ __forceinline__ float decay_so_far(float decay)
{
    const int lane = threadIdx.x & 31;
#pragma unroll
    for (int d = 1; d < 32; d *= 2) {
        const float v = __shfl_up_sync(0xffffffffu, decay, d);
        if (lane >= d) decay += v;
    }
    return decay;
}

/* How far back the state at a boundary reaches: on how many of `count` chunks it depends, the nearest of which is
 * `first`, or on more (then count + 1, and `sum` is the log of what passes through all of them); by one warp. */
template <bool REV>
static __device__ __forceinline__ int dependency_length(const fused_task &a, int b, int head, int first, int count,
                                                        float &sum)
{
    enum { AT_ONCE = 4 }; // what costs is waiting for them
    const float *rec = REV ? a.rec_rev : a.rec;
    sum = 0;
    for (int n = (int)threadIdx.x & 31; n - ((int)threadIdx.x & 31) < count; n += 32 * AT_ONCE) {
        float decay[AT_ONCE];
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++) {
            const int    c = min(n + 32 * j, count - 1);
            const float *r = rec + record_at(a, b, head, REV ? first + c : first - c);
            decay[j] = n + 32 * j >= count ? 0 : (int)r[REC_FLAGS] & HAS_RESET ? -INFINITY : r[REC_ALL];
        }
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++) {
            const float    run = decay_so_far(decay[j]);
            const unsigned gone = __ballot_sync(0xffffffffu, sum + run < LOG_DECAY_MIN);
            if (gone) return (n & ~31) + 32 * j + __ffs((int)gone);
            sum += __shfl_sync(0xffffffffu, run, 31);
        }
    }
    return count + 1;
}

/* The piece with what it walks again. Forwards these chunks lie before it, backwards behind. */
template <bool REV> static __device__ __forceinline__ void reach_back(const scan_smem &sm, scan_item &i)
{
    const int reach = max(sm.reach[0], sm.reach[1]);
    i.again = i.again ? reach : 0; // no branch: products below one would be addressed lane by lane
    i.chunks += i.again;
    if (!REV) i.c0 -= i.again;
}

/* Pieces that hand states on within a launch must be of one kind, else blocks could wait for each other: there the
 * whole item counts. */
template <bool REV, int CUT>
static __device__ __forceinline__ void find_slow(scan_smem &sm, const fused_task &a, const scan_split_table *r)
{
    const float *rec = REV ? a.rec_rev : a.rec;
    bool         any = false;
    for (int n = 0; has_item<CUT>(a, r, n); n++) {
        scan_item i = item_no<REV, CUT>(a, r, n);
        if (CUT == STATE_RECOMPUTED && i.again) {
            const int head = (int)threadIdx.x / 32;
            if (head < HEADS) {
                float     sum;
                const int nearest = REV ? i.c0 + i.chunks : i.c0 - 1;
                const int reach = dependency_length<REV>(a, i.b, i.pair * HEADS + head, nearest, i.again, sum);
                if (threadIdx.x % 32 == 0) {
                    sm.reach[head] = min((reach + 1) / 2 * 2, i.again); // they go by two
                    sm.passes[head] = reach > i.again ? sum : -INFINITY;
                }
            }
        }
        if (CUT) i.c0 = 0, i.chunks = a.K;
        const int first = (int)(CUT == STATE_RECOMPUTED ? (threadIdx.x + blockDim.x - 32 * HEADS) % blockDim.x
                                                        : threadIdx.x);
        for (int e = first; e < HEADS * i.chunks; e += (int)blockDim.x) { // others than those who look back
            const int h = i.pair * HEADS + e / i.chunks, c = i.c0 + e % i.chunks;
            if ((int)rec[record_at(a, i.b, h, c) + REC_FLAGS] & IS_SLOW) {
                atomicOr(&sm.slow[n >> 5], 1u << (n & 31));
                any = true;
            }
        }
    }
    any = __syncthreads_or(any);
    sm.any = any; // kept in a register, it would be one too many
    __syncthreads();
}

/* Whether a pass walks item n of its block: first those in range, then those with a slow chunk. */
template <bool SLOW> static __device__ __forceinline__ bool in_this_pass(const scan_smem &sm, int n)
{
    return (bool)(sm.slow[n >> 5] >> (n & 31) & 1) == SLOW;
}

/* x that dx meets has room for one chunk ahead in shared memory: it is brought into L2 with the ring. */
static __device__ __forceinline__ void prefetch_l2_x(const CUtensorMap &map, int b, int pair, int c)
{
#pragma unroll 1
    for (int h = 0; h < HEADS; h++) tma_prefetch3(&map, (pair * HEADS + h) * FP, c * FQ, b);
}

/* The copies of chunk c into a stage, slow items: walked again, for the state alone, of heads that want it. */
template <bool REV>
static __device__ __forceinline__ void feed_state(scan_smem &sm, const fused_task &a, const scan_maps &maps,
                                                  scan_stage &t, uint32_t bar, int c, int i)
{
    const int  b = sm.b, pair = sm.pair, g = pair * HEADS / a.J;
    const bool first = i >= sm.silent[0], second = i >= sm.silent[1];
    mbar_expect(bar, 2 * TILE_BYTES + ((int)first + (int)second) * (TILE_BYTES + REC * 4));
    for (int h = 0; h < HEADS; h++) {
        const int head = pair * HEADS + h;
        if (!(h ? second : first)) continue;
        tma_load3(smem_address(t.x[h]), &maps.x, bar, head * FP, c * FQ, b);
        bulk_load(smem_address(t.rec[h]), (REV ? a.rec_rev : a.rec) + record_no(a, b, head, c), REC * 4, bar);
    }
    for (int j = 0; j < 2; j++) tma_load3(smem_address(t.u) + j * TILE_BYTES, &maps.u, bar, g * FN + 64 * j, c * FQ, b);
}
template <bool EXACT, bool REV, int WHAT, bool SLOW, int CUT>
static __device__ __forceinline__ void feed(scan_smem &sm, const fused_task &a, const scan_maps &maps, int s, int b,
                                            int pair, int c)
{
    const float   *rec = REV ? a.rec_rev : a.rec;
    const int      g = pair * HEADS / a.J;
    const uint32_t bar = smem_address(&sm.full[SLOW][s]);
    scan_stage    &t = sm.st[s];
    mbar_expect(bar, (!has_output(WHAT) ? 2 : EXACT ? 6 : 5) * TILE_BYTES + HEADS * (TILE_BYTES + REC * 4));
    for (int h = 0; h < HEADS; h++) {
        const int head = pair * HEADS + h;
        tma_load3(smem_address(t.x[h]), &maps.x, bar, head * FP, c * FQ, b);
        const int64_t record = CUT ? record_no(a, b, head, c) : record_at(a, b, head, c);
        bulk_load(smem_address(t.rec[h]), rec + record, REC * 4, bar);
    }
    if (has_output(WHAT)) {
        for (int j = 0; j < 2; j++)
            tma_load3(smem_address(t.k) + j * TILE_BYTES, &maps.k, bar, g * FN + 64 * j, c * FQ, b);
        tma_load3(smem_address(t.cb), &maps.cb, bar, 0, 0, (b * a.K + c) * a.G + g);
        if (EXACT)
            tma_load3(smem_address(pairs_rest_of(sm, s)), &maps.cb, bar, 0, 0,
                      (b * a.K + c) * a.G + g + residual_offset_pairs(a));
    }
    for (int j = 0; j < 2; j++) tma_load3(smem_address(t.u) + j * TILE_BYTES, &maps.u, bar, g * FN + 64 * j, c * FQ, b);
    if (REV && has_output(WHAT)) prefetch_l2_x(maps.other, b, pair, c);
}

/* All chunks that are walked again: once in a block. The other ring is empty before, this one after. They are short,
 * and one thread asks for them: what it does for one must take less time than the others need for it, so what is the
 * same for all of them is made before the loop. */
template <bool REV>
static __device__ __forceinline__ void feed_state_only(scan_smem &sm, const fused_task &a, const scan_maps &maps, int s,
                                                       int ph)
{
    for (int i = 0; i < STAGES; i++) {
        mbar_wait(smem_address(&sm.empty[0][s]), ph);
        s = next_stage<false>(s);
        ph ^= s == 0;
    }
    const float *rec = REV ? a.rec_rev : a.rec;
    const int    b = sm.b, col = sm.pair * HEADS * FP, group = sm.pair * HEADS / a.J * FN, count = sm.again;
    const int    later = sm.silent[0] - sm.silent[1]; // one of them is zero: some head wants each of these chunks
    int          c = REV ? sm.c0 + sm.to - 1 : sm.c0, q = 0, p = 1;
    unsigned     record = (unsigned)(b * a.H + sm.pair * HEADS) * (unsigned)a.K + (unsigned)c;
    for (int i = 0; i < count; i++) {
        state_only_stage &t = sm.quiet[q];
        const uint32_t    bar = smem_address(&sm.quiet_full[q]);
        const bool        first = i >= later, second = i >= -later;
        mbar_wait(smem_address(&sm.quiet_empty[q]), p);
        mbar_expect(bar, 2 * TILE_BYTES + (first && second ? 2 : 1) * (TILE_BYTES + REC * 4));
        tma_load3(smem_address(t.u), &maps.u, bar, group, c * FQ, b);
        tma_load3(smem_address(t.u) + TILE_BYTES, &maps.u, bar, group + 64, c * FQ, b);
        if (first) {
            tma_load3(smem_address(t.x[0]), &maps.x, bar, col, c * FQ, b);
            bulk_load(smem_address(t.rec[0]), rec + (int64_t)record * REC, REC * 4, bar);
        }
        if (second) {
            tma_load3(smem_address(t.x[1]), &maps.x, bar, col + FP, c * FQ, b);
            bulk_load(smem_address(t.rec[1]), rec + (int64_t)(record + (unsigned)a.K) * REC, REC * 4, bar);
        }
        c += REV ? -1 : 1;
        record += REV ? -1u : 1u;
        if (++q == STATE_ONLY_STAGES) q = 0, p ^= 1;
    }
    for (int i = 0; i < STATE_ONLY_STAGES; i++) {
        mbar_wait(smem_address(&sm.quiet_empty[q]), p);
        if (++q == STATE_ONLY_STAGES) q = 0, p ^= 1;
    }
}

/* One thread feeds the ring; at the end it waits until all of it is read. Cut items: what it works on is in shared
 * memory, as it has few registers. */
template <bool EXACT, bool REV, int WHAT, bool SLOW, int CUT>
static __device__ __forceinline__ void scan_produce(scan_smem &sm, const fused_task &a, const scan_maps &maps,
                                                    const scan_split_table *r)
{
    int s = 0, ph = 1; // the first pass over the ring finds it empty
    for (int n = 0; has_item<CUT>(a, r, n); n++) {
        if (in_this_pass<SLOW>(sm, n)) {
            scan_item it = item_no<REV, CUT>(a, r, n);
            if (CUT == STATE_RECOMPUTED) {
                reach_back<REV>(sm, it);
                sm.again = it.again;
                for (int h = 0; h < HEADS; h++) sm.silent[h] = it.again ? it.again - sm.reach[h] : 0;
            }
            if (CUT) {
                sm.b = it.b;
                sm.pair = it.pair;
                sm.to = it.chunks;
                sm.c0 = it.c0;
                sm.now = n;
            }
            if (CUT == STATE_RECOMPUTED && !SLOW && sm.again) feed_state_only<REV>(sm, a, maps, s, ph);
            for (int i = CUT == STATE_RECOMPUTED && !SLOW ? sm.again : 0; i < (CUT ? sm.to : it.chunks); i++) {
                const int chunks = CUT ? sm.to : it.chunks, c0 = CUT ? sm.c0 : it.c0;
                mbar_wait(smem_address(&sm.empty[SLOW][s]), ph);
                if (CUT == STATE_RECOMPUTED && SLOW && i < sm.again)
                    feed_state<REV>(sm, a, maps, sm.st[s], smem_address(&sm.full[SLOW][s]),
                                    REV ? c0 + chunks - 1 - i : c0 + i, i);
                else
                    feed<EXACT, REV, WHAT, SLOW, CUT>(sm, a, maps, s, CUT ? sm.b : it.b, CUT ? sm.pair : it.pair,
                                                      REV ? c0 + chunks - 1 - i : c0 + i);
                s = next_stage < SLOW || EXACT > (s);
                ph ^= s == 0;
            }
            if (CUT) n = sm.now;
        }
    }
    for (int i = 0; !SLOW && i < (EXACT ? SLOW_STAGES : STAGES); i++) {
        mbar_wait(smem_address(&sm.empty[SLOW][s]), ph);
        s = next_stage < SLOW || EXACT > (s);
        ph ^= s == 0;
    }
}

#endif

#endif
