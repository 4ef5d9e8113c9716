// SPDX-License-Identifier: Apache-2.0
/* ssd_fused_items.cuh -- work list, shared memory and producer thread of the scan kernels of `fused`.
 *
 * A work item is (sequence, pair of heads of one group), or one segment of it. scan_item says which chunks a block
 * processes and where its initial state comes from; scan_smem is the layout of shared memory; scan_producer() is the
 * loop of the one thread that fills the ring by TMA. The consumers that empty the ring are in ssd_fused_consumer.cuh,
 * the kernels in ssd_fused_scan.cuh, and the host code that divides the work in ssd_split.c.
 *
 * Template parameters of this file and of the consumers:
 *   REV         backward in time: x is dy, y is dx, B and C are exchanged
 *   WHAT        scan_what: which results the kernel writes
 *   WIDE_RANGE  second pass, over items with a wide-range chunk: a decay per pair of tokens, ring of two stages
 *   SPLIT       scan_split: whole items, or ranges of chunks with one of two ways to get the initial state
 *   TILED       heads of any width, in tiles (ssd_fused.cuh); only with whole items */
#ifndef MBA_SSD_FUSED_ITEMS_CUH
#define MBA_SSD_FUSED_ITEMS_CUH

#include "ops/ssd/fused/ssd_fused.cuh"

/* SCAN_OUT writes y or dx. SCAN_KEEP writes y and saves the state before every second chunk for the backward pass.
 * SCAN_SAVE saves states and writes no y (the backward pass recomputes them). The reverse scan always saves states. */
enum scan_what { SCAN_OUT, SCAN_KEEP, SCAN_SAVE };
static __device__ constexpr bool has_output(int what) { return what == SCAN_OUT || what == SCAN_KEEP; }
static __device__ constexpr bool saves_states(int what, bool rev)
{
    return rev || what == SCAN_SAVE || what == SCAN_KEEP;
}
enum { ITEM_WORDS = SSD_ITEMS_PER_BLOCK / 32 };

/* WHOLE: blocks take whole items or equal segments. The other two give each block one contiguous range of the list of
 * all chunks (scan_split_table). A range that starts inside an item needs the state there: STATE_PASSED, the previous
 * block publishes it; STATE_RECOMPUTED, the block recomputes it from the preceding range. */
enum scan_split { WHOLE, STATE_PASSED, STATE_RECOMPUTED };

/* The policy P of a scan kernel: all of the parameters above but WIDE_RANGE, of which a kernel has both. */
template <bool REV_, int WHAT_, int SPLIT_ = WHOLE, int TILED_ = 0> struct scan_policy {
    static constexpr bool REV = REV_;
    static constexpr int  WHAT = WHAT_, SPLIT = SPLIT_, TILED = TILED_;
};

/* Whether saved states are staged in shared memory (half of them; see save_state_rows_0_7). */
static __device__ constexpr bool saves_through_smem(int what, bool rev, int split_kind)
{
    return split_kind == WHOLE && saves_states(what, rev);
}

/* TILED: where a tile lies in the maps of x and y. In shared memory: whoever starts copies is short of registers. */
struct tile_place {
    volatile int p, head;
};

/* TMA tensor maps, with what they show in reverse. k: operand of the state term, C (B). u: operand of the state update,
 * B (C). x: x (dy). y: y (dx). other: unused (x). */
struct scan_maps {
    CUtensorMap k, u, cb, x, y, other;
};

/* Ranges of the split kernels, copied from ssd_split. Chunk i of item n is number n K + i of the list of all chunks. */
struct scan_split_table {
    int      at[SSD_BLOCKS_MAX + 1];     /* first chunk of a block's range */
    uint16_t before[SSD_BLOCKS_MAX + 1]; /* ranges that begin earlier in the same item */
};

/* Chunks c0 .. c0 + chunks - 1 of sequence b for heads 2 pair and 2 pair + 1. WHOLE: `seg` is the segment. Split
 * kernels: `seg` counts the ranges of this item before this one; `receive` and `publish` are numbers of states in
 * seg_state, or -1; `last` is true where the item ends here; `recomputed` counts chunks that are processed for the
 * state alone. A block with recomputed chunks publishes the state behind these, not its final one. */
struct scan_item {
    int b, pair, seg, c0, chunks, receive, publish, last, recomputed;
};

/* One chunk, 58 KB; every tile 1 KB aligned. The functions return what warpgroup wg reads. */
struct scan_stage {
    unsigned char                   k[2 * TILE_BYTES], u[2 * TILE_BYTES], cb[TILE_BYTES], x[HEADS][TILE_BYTES];
    float                           rec[HEADS][256];
    __device__ const unsigned char *k_of(int) const { return k; }
    __device__ const unsigned char *u_of(int) const { return u; }
    __device__ const unsigned char *x_of(int wg) const { return x[wg]; }
    __device__ const float         *rec_of(int wg) const { return rec[wg]; }
};
/* TILED = 2: one chunk of one tile of p, 81 KB. Each warpgroup has one of its two tiles of n. */
struct wide_stage {
    unsigned char                   k[HEADS][2 * TILE_BYTES], u[HEADS][2 * TILE_BYTES], cb[TILE_BYTES], x[TILE_BYTES];
    float                           rec[256];
    __device__ const unsigned char *k_of(int wg) const { return k[wg]; }
    __device__ const unsigned char *u_of(int wg) const { return u[wg]; }
    __device__ const unsigned char *x_of(int) const { return x; }
    __device__ const float         *rec_of(int) const { return rec; }
};
/* One chunk that is recomputed for the state alone. Without output a chunk takes less time than the latency of memory,
 * so this ring is deeper. */
struct state_only_stage {
    unsigned char u[2 * TILE_BYTES], x[HEADS][TILE_BYTES];
    float         rec[HEADS][256];
};
enum { STAGES = 3, WIDE_RANGE_STAGES = 2, STATE_ONLY_STAGES = 5 };
struct scan_smem {
    union {
        scan_stage       st[STAGES];                   /* the main ring; rings of two leave the last stage free */
        wide_stage       wide[WIDE_RANGE_STAGES];      /* the same for TILED = 2 */
        state_only_stage recompute[STATE_ONLY_STAGES]; /* the ring of recomputed chunks; the producer drains one ring
                                                          before it fills the other */
    };
    unsigned char y[HEADS][2][TILE_BYTES]; /* two output tiles per head; reverse: x arrives in them first. TILED = 2:
                                              y[1] is where the warpgroups exchange outputs */
    union {
        unsigned char state[4 * HEADS][2048]; /* per warp: rows 0-7 of its 16 state rows, on their way out */
        struct {                              /* split kernels, which lack registers for these */
            float  src[HEADS][2][4][FQ];      /* reverse: partial sums of the four warps */
            float2 D[HEADS * 128];            /* D of a thread's rows p and p + 8 */
        } aux;
    };
    float2 skip[HEADS][128];                    /* reverse: dD of a thread's rows p and p + 8 */
    uint4 *volatile save_to[4 * HEADS];         /* per warp: where the next saved state goes */
    uint64_t full[2][STAGES], empty[2][STAGES]; /* mbarriers of the main ring, one set per pass */
    uint64_t x_full[HEADS][2];                  /* reverse: x has arrived in an output tile */
    uint64_t recompute_full[STATE_ONLY_STAGES], recompute_empty[STATE_ONLY_STAGES];
    uint32_t wide_range[ITEM_WORDS]; /* bit n: item n of this block has a wide-range chunk */
    int      any_wide_range;         /* some bit is set */
    struct {
        volatile int n, b, head, last, own, receive, publish;
    } spilled[4 * HEADS]; /* split kernels: what a
                                                          warp would otherwise keep in registers */
    struct {
        volatile int n, b, pair, c0, chunks;
    } producer;                              /* split kernels: the same for the producer */
    volatile int   live_chunks[HEADS];       /* chunks that a head must recompute; even */
    volatile float through_log_decay[HEADS]; /* log decay across the preceding range, or -inf */
    volatile int   skip_chunks[HEADS];       /* leading recomputed chunks that a head does not need */
    volatile int   recomputed;               /* chunks of the current item without output */
    tile_place     place[2 * HEADS];         /* TILED: of the consumers' tiles, then of the producer's */
};
static_assert(sizeof(scan_smem) + 1024 <= SSD_SCAN_SMEM, "the plan asks for less");

/* A ring of two stages leaves the third free. It holds C B^T with decays applied, one tile per head (WIDE_RANGE). */
static_assert(sizeof(scan_stage) >= HEADS * TILE_BYTES, "room for them");
/* TILED = 2: behind the two stages lies C B^T with decays applied, one tile. */
static_assert(2 * sizeof(wide_stage) + TILE_BYTES <= STAGES * sizeof(scan_stage), "room for it");
static_assert(sizeof(wide_stage) % 1024 == 0, "tiles begin at multiples of 1 KB");
template <int TILED> static __device__ __forceinline__ auto &stage_of(scan_smem &sm, int s)
{
    if constexpr (TILED == 2) return sm.wide[s];
    else return sm.st[s];
}
template <bool TWO> static __device__ __forceinline__ int next_stage(int s)
{
    return s + 1 == (TWO ? WIDE_RANGE_STAGES : STAGES) ? 0 : s + 1;
}

/* ---- the work list ---- */

static __device__ __forceinline__ int block_item_index(int n) { return (int)(blockIdx.x + n * gridDim.x); }

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

/* Returns v and hides from the compiler that it is v. Values derived from it are then computed where they are used
 * instead of being kept in registers throughout the chunk loop. */
static __device__ __forceinline__ int opaque(int v)
{
    asm volatile("" : "+r"(v));
    return v;
}

/* The part of an item between numbers `begin` and `end` of the list of all chunks. */
static __device__ __forceinline__ scan_item range_of_item(const fused_task &a, int item, int begin, int end, bool rev)
{
    const int K = opaque(a.K), each = opaque(a.H / HEADS), from = begin - item * K, to = end - item * K;
    scan_item i = {};
    i.pair = item % each;
    i.b = item / each;
    i.c0 = rev ? K - to : from;
    i.chunks = to - from;
    i.receive = i.publish = -1;
    i.last = to == K;
    return i;
}

/* Item n of this block's range, last item first. The item that another block continues thus comes before the one whose
 * state this block waits for, so no block waits for a block that waits. */
template <bool REV, int SPLIT>
static __device__ __forceinline__ scan_item split_item(const fused_task &a, const scan_split_table &r, int n)
{
    const int k = (int)blockIdx.x, K = opaque(a.K);
    const int begin = r.at[k], end = r.at[k + 1], item = (end - 1) / K - n;
    scan_item i = range_of_item(a, item, max(begin, item * K), min(end, (item + 1) * K), REV);
    if (begin > item * K) {
        i.seg = r.before[k];
        i.receive = k - 1;
    }
    if (SPLIT == STATE_PASSED && !i.last) i.publish = k;
    if (SPLIT == STATE_RECOMPUTED && begin > item * K) {
        const int since = r.at[k - 1];
        i.recomputed = begin - max(since, item * K);
        if (since <= item * K) i.receive = -1;
        if (!i.last) i.publish = k;
    }
    return i;
}
static __device__ __forceinline__ int split_items(const fused_task &a, const scan_split_table &r)
{
    const int k = opaque((int)blockIdx.x), K = opaque(a.K);
    return (r.at[k + 1] - 1) / K - r.at[k] / K + 1;
}

/* Item n of this block, and whether there is one. */
template <bool REV, int SPLIT>
static __device__ __forceinline__ scan_item block_item(const fused_task &a, const scan_split_table *r, int n)
{
    return SPLIT ? split_item<REV, SPLIT>(a, *r, n) : item_of(a, block_item_index(n));
}
template <int SPLIT>
static __device__ __forceinline__ bool has_item(const fused_task &a, const scan_split_table *r, int n)
{
    return SPLIT ? n < split_items(a, *r) : block_item_index(n) < a.items;
}

#if MBA_HOPPER || !defined(__CUDA_ARCH__)

template <int TILED = 0>
static __device__ __forceinline__ int64_t record_index(const fused_task &a, int b, int h, int c)
{
    return (((int64_t)b * record_heads<TILED>(a) + record_head<TILED>(a, h)) * a.K + c) * REC;
}
/* The same with 32-bit arithmetic for the row number; check_fused() in ssd_fused.c bounds it. */
static __device__ __forceinline__ int64_t record_index_u32(const fused_task &a, int b, int h, int c)
{
    return (int64_t)((unsigned)(b * a.H + h) * (unsigned)a.K + (unsigned)c) * REC;
}

/* Counts on how many of the `count` chunks before a boundary the state there depends; `first` is the nearest one. Going
 * back in time, the count ends with the chunk in which the summed log decay falls below LOG_DECAY_MIN; a reset adds
 * -inf. If the sum stays above, returns count + 1 and the sum in `sum`: what lies farther back counts too. One warp
 * calls it. */
template <bool REV, int TILED = 0>
static __device__ __forceinline__ int dependency_length(const fused_task &a, int b, int head, int first, int count,
                                                        float &sum)
{
    enum { IN_FLIGHT = 4 }; // loads per lane at a time: latency is the cost
    const float *rec = REV ? a.rec_rev : a.rec;
    sum = 0;
    for (int n = (int)threadIdx.x & 31; n - ((int)threadIdx.x & 31) < count; n += 32 * IN_FLIGHT) {
        float decay[IN_FLIGHT];
#pragma unroll
        for (int j = 0; j < IN_FLIGHT; j++) {
            const int    c = min(n + 32 * j, count - 1);
            const float *r = rec + record_index<TILED>(a, b, head, REV ? first + c : first - c);
            decay[j] = n + 32 * j >= count ? 0 : (int)r[REC_FLAGS] & HAS_RESET ? -INFINITY : r[REC_ALL];
        }
#pragma unroll
        for (int j = 0; j < IN_FLIGHT; j++) {
            const float    run = warp_prefix_sum(decay[j]);
            const unsigned gone = __ballot_sync(0xffffffffu, sum + run < LOG_DECAY_MIN);
            if (gone) return (n & ~31) + 32 * j + __ffs((int)gone);
            sum += __shfl_sync(0xffffffffu, run, 31);
        }
    }
    return count + 1;
}

/* Extends an item by its recomputed chunks. Forward they lie before it, in reverse behind it. */
template <bool REV> static __device__ __forceinline__ void prepend_recomputed(const scan_smem &sm, scan_item &i)
{
    const int reach = max(sm.live_chunks[0], sm.live_chunks[1]);
    i.recomputed = i.recomputed ? reach : 0; // select, not branch: see warp_broadcast()
    i.chunks += i.recomputed;
    if (!REV) i.c0 -= i.recomputed;
}

/* Marks this block's items that have a wide-range chunk. In split kernels all ranges of an item must run in the same
 * pass, because blocks that wait for each other in different passes could deadlock: there the whole item is searched.
 * STATE_RECOMPUTED: warps 0 and 1 also determine how many chunks each head recomputes. All threads call it. */
template <bool REV, int SPLIT, int TILED>
static __device__ __forceinline__ void find_wide_range_items(scan_smem &sm, const fused_task &a,
                                                             const scan_split_table *r)
{
    const float *rec = REV ? a.rec_rev : a.rec;
    bool         any_wide_range = false;
    for (int n = 0; has_item<SPLIT>(a, r, n); n++) {
        scan_item i = block_item<REV, SPLIT>(a, r, n);
        if (SPLIT == STATE_RECOMPUTED && i.recomputed) {
            const int head = (int)threadIdx.x / 32;
            if (head < HEADS) {
                float     sum;
                const int nearest = REV ? i.c0 + i.chunks : i.c0 - 1;
                const int reach = dependency_length<REV>(a, i.b, i.pair * HEADS + head, nearest, i.recomputed, sum);
                if (threadIdx.x % 32 == 0) {
                    sm.live_chunks[head] = min((reach + 1) / 2 * 2, i.recomputed); // recompute_state() takes two
                    sm.through_log_decay[head] = reach > i.recomputed ? sum : -INFINITY;
                }
            }
        }
        if (SPLIT) i.c0 = 0, i.chunks = a.K;
        const int first = (int)(SPLIT == STATE_RECOMPUTED ? (threadIdx.x + blockDim.x - 32 * HEADS) % blockDim.x
                                                          : threadIdx.x); // begins with threads that idle above
        for (int e = first; e < HEADS * i.chunks; e += (int)blockDim.x) {
            const int h = i.pair * HEADS + e / i.chunks, c = i.c0 + e % i.chunks;
            if ((int)rec[record_index<TILED>(a, i.b, h, c) + REC_FLAGS] & IS_WIDE_RANGE) {
                atomicOr(&sm.wide_range[n >> 5], 1u << (n & 31));
                any_wide_range = true;
            }
        }
    }
    any_wide_range = __syncthreads_or(any_wide_range);
    sm.any_wide_range = any_wide_range; // in shared memory, because registers are short
    __syncthreads();
}

/* Whether this pass processes item n: the first pass takes items without wide-range chunks, the second the others. */
template <bool WIDE_RANGE> static __device__ __forceinline__ bool in_this_pass(const scan_smem &sm, int n)
{
    return (bool)(sm.wide_range[n >> 5] >> (n & 31) & 1) == WIDE_RANGE;
}

/* ---- the producer ---- */

template <int TILED> static __device__ __forceinline__ void set_place(tile_place &place, const fused_task &a, int t)
{
    place.p = tile_p<TILED>(a, t);
    place.head = head_of_tile<TILED>(a, t);
}
/* Loads the 64 positions of x (or dy) from l on: of head t, or of the tile at `place`. */
template <int TILED>
static __device__ __forceinline__ void load_x_tile(uint32_t to, const CUtensorMap *map, uint32_t bar,
                                                   const tile_place &place, int t, int l, int b)
{
    if (TILED) tma_load4(to, map, bar, place.p, place.head, l, b);
    else tma_load3(to, map, bar, t * FP, l, b);
}
/* Record of chunk c of head t, or of the tile at `place`. */
template <int TILED>
static __device__ __forceinline__ int64_t record_index_at(const fused_task &a, const tile_place &place, int b, int t,
                                                          int c)
{
    if (!TILED) return record_index(a, b, t, c);
    return (int64_t)((unsigned)(b * a.heads + min(place.head, a.heads - 1)) * (unsigned)a.K + (unsigned)c) * REC;
}
/* Loads 64 columns of B or C of a group from column n on. */
template <int TILED>
static __device__ __forceinline__ void load_n_tile(uint32_t to, const CUtensorMap *map, uint32_t bar, int g, int n,
                                                   int l, int b)
{
    if (TILED) tma_load4(to, map, bar, n, g, l, b);
    else tma_load3(to, map, bar, g * FN + n, l, b);
}
/* Prefetches x of the reverse scan into L2. Shared memory has room for x of one chunk ahead only (load_next_x_async);
 * the ring runs further ahead. */
template <int TILED>
static __device__ __forceinline__ void prefetch_l2_x(const CUtensorMap &map, const scan_smem &sm, int b, int pair,
                                                     int c)
{
#pragma unroll 1
    for (int h = 0; h < (TILED == 2 ? 1 : HEADS); h++) {
        if (TILED) tma_prefetch4(&map, sm.place[HEADS + h].p, sm.place[HEADS + h].head, c * FQ, b);
        else tma_prefetch3(&map, (pair * HEADS + h) * FP, c * FQ, b);
    }
}

/* Starts the copies of chunk c for the state alone, into a stage of the main ring (WIDE_RANGE pass). Chunk i of the
 * item is loaded only for heads that do not skip it. */
template <bool REV>
static __device__ __forceinline__ void load_state_only_chunk(scan_smem &sm, const fused_task &a, const scan_maps &maps,
                                                             scan_stage &t, uint32_t bar, int c, int i)
{
    const int  b = sm.producer.b, pair = sm.producer.pair, g = pair * HEADS / a.J;
    const bool first = i >= sm.skip_chunks[0], second = i >= sm.skip_chunks[1];
    mbar_expect(bar, 2 * TILE_BYTES + ((int)first + (int)second) * (TILE_BYTES + REC * 4));
    for (int h = 0; h < HEADS; h++) {
        const int head = pair * HEADS + h;
        if (!(h ? second : first)) continue;
        tma_load3(smem_address(t.x[h]), &maps.x, bar, head * FP, c * FQ, b);
        bulk_load(smem_address(t.rec[h]), (REV ? a.rec_rev : a.rec) + record_index_u32(a, b, head, c), REC * 4, bar);
    }
    for (int j = 0; j < 2; j++) tma_load3(smem_address(t.u) + j * TILE_BYTES, &maps.u, bar, g * FN + 64 * j, c * FQ, b);
}
/* TILED = 2: starts all copies of chunk c into stage s. `pair` is a tile of p. */
template <bool REV, int WHAT, bool WIDE_RANGE>
static __device__ __forceinline__ void load_wide_chunk(scan_smem &sm, const fused_task &a, const scan_maps &maps, int s,
                                                       int b, int pair, int c)
{
    const int      g = pair * HEADS / a.J, l = c * FQ;
    const uint32_t bar = smem_address(&sm.full[WIDE_RANGE][s]);
    wide_stage    &t = sm.wide[s];
    mbar_expect(bar, (has_output(WHAT) ? 10 : 5) * TILE_BYTES + REC * 4);
    load_x_tile<2>(smem_address(t.x), &maps.x, bar, sm.place[HEADS], 0, l, b);
    bulk_load(smem_address(t.rec), (REV ? a.rec_rev : a.rec) + record_index_at<2>(a, sm.place[HEADS], b, 0, c), REC * 4,
              bar);
    for (int j = 0; has_output(WHAT) && j < 4; j++)
        load_n_tile<2>(smem_address(t.k) + j * TILE_BYTES, &maps.k, bar, g, 64 * j, l, b);
    if (has_output(WHAT)) tma_load3(smem_address(t.cb), &maps.cb, bar, 0, 0, (b * a.K + c) * a.G + g);
    for (int j = 0; j < 4; j++) load_n_tile<2>(smem_address(t.u) + j * TILE_BYTES, &maps.u, bar, g, 64 * j, l, b);
    if (REV && has_output(WHAT)) prefetch_l2_x<2>(maps.other, sm, b, pair, c);
}
/* Starts all copies of chunk c into stage s of the main ring. */
template <typename P, bool WIDE_RANGE>
static __device__ __forceinline__ void load_chunk(scan_smem &sm, const fused_task &a, const scan_maps &maps, int s,
                                                  int b, int pair, int c)
{
    const float   *rec = P::REV ? a.rec_rev : a.rec;
    const int      g = pair * HEADS / a.J;
    const uint32_t bar = smem_address(&sm.full[WIDE_RANGE][s]);
    scan_stage    &t = sm.st[s];
    mbar_expect(bar, (has_output(P::WHAT) ? 5 : 2) * TILE_BYTES + HEADS * (TILE_BYTES + REC * 4));
    for (int h = 0; h < HEADS; h++) {
        const int head = pair * HEADS + h;
        load_x_tile<P::TILED>(smem_address(t.x[h]), &maps.x, bar, sm.place[HEADS + h], head, c * FQ, b);
        const int64_t record = P::SPLIT ? record_index_u32(a, b, head, c)
                                        : record_index_at<P::TILED>(a, sm.place[HEADS + h], b, head, c);
        bulk_load(smem_address(t.rec[h]), rec + record, REC * 4, bar);
    }
    if (has_output(P::WHAT)) {
        for (int j = 0; j < 2; j++)
            load_n_tile<P::TILED>(smem_address(t.k) + j * TILE_BYTES, &maps.k, bar, g, 64 * j, c * FQ, b);
        tma_load3(smem_address(t.cb), &maps.cb, bar, 0, 0, (b * a.K + c) * a.G + g);
    }
    for (int j = 0; j < 2; j++)
        load_n_tile<P::TILED>(smem_address(t.u) + j * TILE_BYTES, &maps.u, bar, g, 64 * j, c * FQ, b);
    if (P::REV && has_output(P::WHAT)) prefetch_l2_x<P::TILED>(maps.other, sm, b, pair, c);
}

/* Loads all recomputed chunks through their own ring, at most once per block. The main ring shares its memory, so this
 * waits until the main ring is empty, and leaves its own ring empty. The consumers need less time per chunk here than
 * in the main loop; everything that is the same for all chunks is computed before the loop, so that one producer thread
 * keeps up. */
template <bool REV>
static __device__ __forceinline__ void load_recomputed_chunks(scan_smem &sm, const fused_task &a, const scan_maps &maps,
                                                              int s, int ph)
{
    for (int i = 0; i < STAGES; i++) {
        mbar_wait(smem_address(&sm.empty[0][s]), ph);
        s = next_stage<false>(s);
        ph ^= s == 0;
    }
    const float *rec = REV ? a.rec_rev : a.rec;
    const int    b = sm.producer.b, col = sm.producer.pair * HEADS * FP;
    const int    group = sm.producer.pair * HEADS / a.J * FN, count = sm.recomputed;
    const int    later = sm.skip_chunks[0] - sm.skip_chunks[1]; // one is zero: some head needs each of these chunks
    int          c = REV ? sm.producer.c0 + sm.producer.chunks - 1 : sm.producer.c0, q = 0, p = 1;
    unsigned     record = (unsigned)(b * a.H + sm.producer.pair * HEADS) * (unsigned)a.K + (unsigned)c;
    for (int i = 0; i < count; i++) {
        state_only_stage &t = sm.recompute[q];
        const uint32_t    bar = smem_address(&sm.recompute_full[q]);
        const bool        first = i >= later, second = i >= -later;
        mbar_wait(smem_address(&sm.recompute_empty[q]), p);
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
        mbar_wait(smem_address(&sm.recompute_empty[q]), p);
        if (++q == STATE_ONLY_STAGES) q = 0, p ^= 1;
    }
}

/* The loop of the producer thread: for each item of this pass, fills a stage whenever the consumers have released one.
 * The first pass ends when the ring is drained, because the second uses the same memory with other barriers. Split and
 * TILED kernels keep the item in shared memory: the producer has 24 registers. */
template <typename P, bool WIDE_RANGE>
static __device__ __forceinline__ void scan_producer(scan_smem &sm, const fused_task &a, const scan_maps &maps,
                                                     const scan_split_table *r)
{
    constexpr bool KEEPS_NOTHING = P::SPLIT || P::TILED;
    int            s = 0, ph = 1; // phase 1: waiting on a fresh `empty` barrier returns at once
    for (int n = 0; has_item<P::SPLIT>(a, r, n); n++) {
        if (in_this_pass<WIDE_RANGE>(sm, n)) {
            scan_item it = block_item<P::REV, P::SPLIT>(a, r, n);
            if (P::SPLIT == STATE_RECOMPUTED) {
                prepend_recomputed<P::REV>(sm, it);
                sm.recomputed = it.recomputed;
                for (int h = 0; h < HEADS; h++)
                    sm.skip_chunks[h] = it.recomputed ? it.recomputed - sm.live_chunks[h] : 0;
            }
            for (int h = 0; P::TILED && h < HEADS; h++)
                set_place<P::TILED>(sm.place[HEADS + h], a, it.pair * HEADS + h);
            if (KEEPS_NOTHING) {
                sm.producer.b = it.b;
                sm.producer.pair = it.pair;
                sm.producer.chunks = it.chunks;
                sm.producer.c0 = it.c0;
                sm.producer.n = n;
            }
            if (P::SPLIT == STATE_RECOMPUTED && !WIDE_RANGE && sm.recomputed)
                load_recomputed_chunks<P::REV>(sm, a, maps, s, ph);
            for (int i = P::SPLIT == STATE_RECOMPUTED && !WIDE_RANGE ? sm.recomputed : 0;
                 i < (KEEPS_NOTHING ? sm.producer.chunks : it.chunks); i++) {
                const int chunks = KEEPS_NOTHING ? sm.producer.chunks : it.chunks;
                const int c0 = KEEPS_NOTHING ? sm.producer.c0 : it.c0;
                mbar_wait(smem_address(&sm.empty[WIDE_RANGE][s]), ph);
                if (P::SPLIT == STATE_RECOMPUTED && WIDE_RANGE && i < sm.recomputed)
                    load_state_only_chunk<P::REV>(sm, a, maps, sm.st[s], smem_address(&sm.full[WIDE_RANGE][s]),
                                                  P::REV ? c0 + chunks - 1 - i : c0 + i, i);
                else if constexpr (P::TILED == 2)
                    load_wide_chunk<P::REV, P::WHAT, WIDE_RANGE>(sm, a, maps, s, sm.producer.b, sm.producer.pair,
                                                                 P::REV ? c0 + chunks - 1 - i : c0 + i);
                else
                    load_chunk<P, WIDE_RANGE>(sm, a, maps, s, KEEPS_NOTHING ? sm.producer.b : it.b,
                                              KEEPS_NOTHING ? sm.producer.pair : it.pair,
                                              P::REV ? c0 + chunks - 1 - i : c0 + i);
                s = next_stage<(WIDE_RANGE || P::TILED == 2)>(s);
                ph ^= s == 0;
            }
            if (KEEPS_NOTHING) n = sm.producer.n;
        }
    }
    for (int i = 0; !WIDE_RANGE && i < (P::TILED == 2 ? WIDE_RANGE_STAGES : STAGES); i++) {
        mbar_wait(smem_address(&sm.empty[WIDE_RANGE][s]), ph);
        s = next_stage<(WIDE_RANGE || P::TILED == 2)>(s);
        ph ^= s == 0;
    }
}

#endif

#endif
