// SPDX-License-Identifier: Apache-2.0
/* selective_scan_plan.c -- launch plans of the CUDA variants of selective_scan: which nodes they take, how the work is
 * partitioned, and the work of one block, which the simulator reads.
 *
 * A block has 16, 32 or 64 channels of an item. An item is a sequence. If sequences and channels are too few to fill
 * the GPU, it is a segment of one, which costs another pass for the states between segments. If sequences are short, it
 * is several of them, so that tiles of 16 tokens are full. */
#include <math.h>

#include "ops/selective_scan/selective_scan_plan.h"

enum { ELEMENT_THREADS = 128, SEGMENT_MIN = 8 * TILE, SEGMENTS_MAX = 64 };
enum { INT_LIMIT = 1 << 30, GRID_MAX = 65535 }; // blocks in y and z
enum { TILE_SAVES = TILE / SAVE_EVERY };        // states that the forward saves per tile

int64_t scan_channel_blocks(scan_dims d, int64_t width) { return d.G * mba_ceil(d.D / d.G, width); }

static double bytes_of(const mba_tensor *t, double values)
{
    return t ? values * (double)mba_dtype_bytes(t->type.dtype) : 0;
}

void scan_load(mba_launch *l, const mba_node *n, int k, double values)
{
    if (n->in[k]) mba_phase_move(l, MBA_LOAD, MBA_ARG_IN(k), bytes_of(n->in[k], values));
}

void scan_store(mba_launch *l, const mba_node *n, int k, double values)
{
    if (n->out[k]) mba_phase_move(l, MBA_STORE, MBA_ARG_OUT(k), bytes_of(n->out[k], values));
}

void scan_load_states(mba_launch *l, const mba_node *n, scan_dims d, int64_t width, int first, int last, double tokens)
{
    for (int k = first; k <= last; k++) {
        scan_load(l, n, k, tokens * (double)d.N);
        mba_phase_share(l, mba_ceil(d.D / d.G, width)); // blocks of a group read the same rows
    }
}

/* Groups of states, one after the other in `tiles`. */
static int64_t state_groups(scan_dims d) { return scan_padded_states(d.N) / scan_group_states(d.N); }

/* ---- which nodes the variants take: `tiles` everything within the limits of indices ---- */

static int64_t row_of(const mba_tensor *t, int64_t width) { return t->run == width ? t->pitch : width; }

/* Whether rows consist of whole, aligned vectors of four values. */
static bool vec4_aligned(const mba_tensor *t, int64_t width)
{
    return !t || (t->offset % 4 == 0 && row_of(t, width) % 4 == 0 && t->pitch % 4 == 0);
}

static bool all_vec4_aligned(const mba_node *n, int64_t D, bool back)
{
    return vec4_aligned(n->in[U], D) && vec4_aligned(n->in[DELTA], D) && vec4_aligned(n->in[Z], D)
           && (back ? vec4_aligned(n->in[DOUT], D) && vec4_aligned(n->out[DU], D) && vec4_aligned(n->out[DDELTA], D)
                          && vec4_aligned(n->out[DZ], D)
                    : vec4_aligned(n->out[OUT], D));
}

static bool bc_aligned(const mba_node *n, scan_dims d)
{
    return vec4_aligned(n->in[BM], d.G * d.N) && vec4_aligned(n->in[CM], d.G * d.N);
}

/* Whether an item may hold several sequences: no initial or final states, and one row stride over the batch. */
bool scan_can_pack(const mba_node *n, scan_dims d, bool back)
{
    if (n->in[INITIAL] || (back ? n->in[DFINAL] : n->out[FINAL])) return false;
    const bool in = scan_even_rows(n->in[U], d.D) && scan_even_rows(n->in[DELTA], d.D) && scan_even_rows(n->in[Z], d.D)
                    && scan_even_rows(n->in[IDS], 1) && scan_even_rows(n->in[BM], d.G * d.N)
                    && scan_even_rows(n->in[CM], d.G * d.N);
    if (!back) return in && scan_even_rows(n->out[OUT], d.D);
    return in && scan_even_rows(n->in[DOUT], d.D) && scan_even_rows(n->out[DU], d.D)
           && scan_even_rows(n->out[DDELTA], d.D) && scan_even_rows(n->out[DZ], d.D);
}

mba_status scan_takes(const mba_node *n, const mba_machine *m)
{
    const scan_dims d = scan_dims_of(n);
    MBA_REFUSE_IF(m->cc < 80, "a device of compute capability %d", m->cc);
    MBA_REFUSE_IF(d.L > INT_LIMIT || d.D > INT_LIMIT / 64 || d.B > INT_LIMIT, "more than %d tokens or channels",
                  INT_LIMIT);
    MBA_REFUSE_IF(d.D * scan_padded_states(d.N) > INT_LIMIT || state_groups(d) > GRID_MAX,
                  "%lld channels of %lld states", (long long)d.D, (long long)d.N);
    MBA_REFUSE_IF(scan_channel_blocks(d, TILE_CHANNELS) > GRID_MAX, "%lld blocks of channels in %lld groups",
                  (long long)scan_channel_blocks(d, TILE_CHANNELS), (long long)d.G);
    return MBA_OK;
}

/* ---- partitioning ---- */

/* Time in units of a block's tile: waves of blocks, each as long as an item plus two tiles for prologue and
 * epilogue. */
static double time_of(scan_dims d, int64_t items, int64_t width, int64_t resident)
{
    const scan_partition c = scan_partition_of(d, items);
    const double         rounds = (double)mba_ceil(items * scan_channel_blocks(d, width), resident);
    return rounds * (double)(c.tiles + 2) * (c.segments > 1 ? 1.6 : 1); // 1.6: the carry pass
}

/* The number of items with the least time. kept: states that the forward saves prescribe which sequences are packed. */
int64_t scan_best_items(scan_dims d, int64_t width, int64_t resident, bool packs, const mba_tensor *kept, double *time)
{
    int64_t best = kept ? kept->type.dim[0] : d.B;
    if (best < d.B) {
        *time = time_of(d, best, width, resident);
        return best;
    }
    packs &= !kept;
    *time = time_of(d, d.B, width, resident);
    for (int64_t k = 2; k <= SEGMENTS_MAX; k++) {
        const int64_t length = mba_ceil(mba_ceil(d.L, k), TILE) * TILE, segmented = d.B * mba_ceil(d.L, length),
                      packed = mba_ceil(d.B, k);
        const double t = length >= SEGMENT_MIN ? time_of(d, segmented, width, resident) : *time;
        const double p = packs && k <= PACK_MAX && packed * k * d.L < INT_LIMIT ? time_of(d, packed, width, resident)
                                                                                : *time;
        if (t < *time) {
            *time = t;
            best = segmented;
        }
        if (p < *time) {
            *time = p;
            best = packed;
        }
    }
    return best;
}

/* Time of a tile on an H200: 2.06 us with 64 channels and two blocks per SM, 1.62 us with 32 and three. */
static const struct {
    int64_t width;
    double  us;
} forward_widths[] = { { 2 * TILE_CHANNELS, 2.06 }, { TILE_CHANNELS, 1.62 } };

static int forward_threads(scan_dims d, int64_t width)
{
    return (int)(width * scan_group_states(d.N) / 4) + ELEMENT_THREADS;
}

static int64_t forward_resident(scan_dims d, int64_t width, const mba_machine *m)
{
    return (int64_t)m->sm * (768 / forward_threads(d, width));
}

/* ---- launches: kernels of the same name in *_cuda.cu ---- */

/* Sub-segments per segment in the pass for states between segments: segments alone may leave SMs idle. */
int64_t scan_carry_parts(scan_dims d, int64_t items, const mba_machine *m)
{
    const scan_partition c = scan_partition_of(d, items);
    const int64_t        blocks = (items - d.B) * scan_channel_blocks(d, TILE_CHANNELS);
    int64_t              sub = 1;
    while (items > d.B && d.L % c.segment == 0 && blocks * sub < 8 * (int64_t)m->sm && c.segment % (2 * sub * TILE) == 0
           && c.segment / (2 * sub) >= SEGMENT_MIN)
        sub *= 2;
    return sub;
}

static void plan_combine(mba_plan *p, scan_dims d, int64_t items, int64_t sub, bool back)
{
    enum { THREADS = 256, IN_FLIGHT = 8 }; // segments loaded ahead
    const int64_t segments = scan_partition_of(d, items).segments * sub;
    const double  trips = (double)mba_ceil(segments, IN_FLIGHT), some = THREADS * (double)segments / trips;
    mba_launch   *l = mba_plan_launch(p, "scan_combine", MBA_VECTOR,
                                      mba_ceil(d.B * d.D * scan_padded_states(d.N), THREADS), THREADS);
    l->regs = 60;
    mba_phase_work(l, MBA_LOOP, trips, NULL);
    mba_phase_move(l, MBA_LOAD, MBA_ARG_SCRATCH(CU_ENDS), 4 * some);
    mba_phase_work(l, MBA_SFU, some, NULL);
    mba_phase_work(l, MBA_FMA, 2 * some, NULL);
    mba_phase_work(l, MBA_ALU, 8 * some, NULL); // 64-bit addresses, end of an item
    mba_phase_move(l, MBA_STORE, MBA_ARG_SCRATCH(back ? CU_STARTS_BACK : CU_STARTS), 4 * some / (double)sub);
    mba_phase_work(l, MBA_END, 0, NULL);
}

void scan_plan_carries(mba_plan *p, const mba_node *n, scan_dims d, int64_t items, int64_t sub, bool back)
{
    const scan_partition c = scan_partition_of(d, items);
    const int64_t        N = scan_group_states(d.N);
    const double         values = 2.0 * TILE * TILE_CHANNELS, elements = values * (double)N;
    mba_launch          *l = mba_plan_launch(p, "scan_carry", MBA_VECTOR, items * sub, (int)(8 * N));
    l->grid[1] = scan_channel_blocks(d, TILE_CHANNELS);
    l->grid[2] = state_groups(d);
    l->regs = back ? 106 : 98;
    mba_phase_work(l, MBA_LOOP, (double)mba_ceil(c.tiles, 2 * sub), NULL);
    scan_load(l, n, DELTA, values);
    if (!back) scan_load(l, n, U, values);
    if (back) {
        scan_load(l, n, DOUT, values);
        scan_load(l, n, Z, values);
    }
    scan_load_states(l, n, d, TILE_CHANNELS, back ? CM : BM, back ? CM : BM, 2.0 * TILE / (double)state_groups(d));
    mba_phase_work(l, MBA_BARRIER, 2, NULL);
    mba_phase_work(l, MBA_SFU, elements + values, NULL);
    mba_phase_work(l, MBA_FMA, 3 * elements + 12 * values, NULL);
    mba_phase_work(l, MBA_END, 0, NULL);
    mba_phase_move(l, MBA_STORE, MBA_ARG_SCRATCH(CU_ENDS), 4.0 * (double)(TILE_CHANNELS * N));
    plan_combine(p, d, items, sub, back);
}

/* Sums over the groups of states so far, in scratch: all groups but the first load them, all but the last store them.
 * Mean of a group. */
static void plan_partial(mba_launch *l, scan_dims d, double values)
{
    const double bytes = 4 * values * (double)(state_groups(d) - 1) / (double)state_groups(d);
    if (bytes == 0) return;
    mba_phase_move(l, MBA_LOAD, MBA_ARG_SCRATCH(CU_PARTIAL), bytes);
    mba_phase_move(l, MBA_STORE, MBA_ARG_SCRATCH(CU_PARTIAL), bytes);
}

/* The forward pass of `tiles`. states: for the backward pass, without output. */
static void plan_forward(mba_plan *p, const mba_node *n, scan_dims d, int64_t items, int64_t width, bool states)
{
    const scan_partition c = scan_partition_of(d, items);
    const int64_t        N = scan_group_states(d.N);
    const double groups = (double)state_groups(d), values = (double)(TILE * width), elements = values * (double)N;
    const double e = (double)mba_dtype_bytes(n->in[U]->type.dtype);
    if (c.segments > 1) scan_plan_carries(p, n, d, items, 1, false);
    mba_launch *l = mba_plan_launch(p, "scan_fwd_tiles", MBA_MIXED, items, forward_threads(d, width));
    l->grid[1] = scan_channel_blocks(d, width);
    l->regs = 80;
    l->smem_bytes = (size_t)(8 * TILE * (width + width + 8 + 2 * (N + 8) + (N == 16 ? 2 : 1) * (width + 4))
                             + 64 * width * (int64_t)e + 8 * width + ORIGINS_BYTES);
    l->ring_depth = 2;
    mba_phase_work(l, MBA_LOOP, groups * (double)c.tiles, NULL);
    mba_phase_work(l, MBA_RING_WAIT, 0, NULL);
    mba_phase_work(l, MBA_SMEM, elements * 8.6, NULL); // counted on an H200
    mba_phase_work(l, MBA_SFU, elements, NULL);
    mba_phase_work(l, MBA_FMA, elements * 4, NULL);
    if (states) mba_phase_move(l, MBA_STORE, MBA_ARG_SCRATCH(CU_KEPT), 4.0 * (double)(width * N));
    else scan_store(l, n, KEPT, (double)(TILE_SAVES * width * d.N) / groups);
    mba_phase_work(l, MBA_END, 0, NULL);
    mba_launch_role(l, ELEMENT_THREADS / 32);
    mba_phase_work(l, MBA_LOOP, groups * (double)c.tiles, NULL);
    scan_load(l, n, U, values);
    scan_load(l, n, DELTA, values);
    scan_load(l, n, Z, values / groups);
    scan_load_states(l, n, d, width, BM, CM, TILE / groups);
    mba_phase_work(l, MBA_SFU, values * (n->in[Z] && !states ? 2 : 1), NULL);
    mba_phase_work(l, MBA_FMA, values * 16, NULL);
    mba_phase_work(l, MBA_RING_FILL, 0, NULL);
    if (!states || n->out[DZ]) plan_partial(l, d, values);
    if (!states) {
        scan_store(l, n, OUT, values / groups);
        scan_store(l, n, YS, values / groups);
    } else if (n->out[DZ]) mba_phase_move(l, MBA_STORE, MBA_ARG_SCRATCH(CU_YS), values * e / groups);
    mba_phase_work(l, MBA_END, 0, NULL);
}

/* Scratch of segments, and of sums over groups of states, `sums` values per token and channel. */
void scan_scratch_segments(mba_plan *p, scan_dims d, int64_t items, int64_t sub, bool back, int sums)
{
    const size_t steps = items > d.B ? sizeof(float) * (size_t)(items * d.D) : 0,
                 state = steps * (size_t)scan_padded_states(d.N);
    mba_plan_scratch(p, "states before pieces", state);
    mba_plan_scratch(p, "states of pieces", state * (size_t)sub);
    mba_plan_scratch(p, "steps of pieces", steps * (size_t)sub);
    mba_plan_scratch(p, "adjoints behind pieces", back ? state : 0);
    mba_plan_scratch(p, "sums over states", state_groups(d) > 1 ? sizeof(float) * (size_t)(sums * d.B * d.L * d.D) : 0);
}

mba_status selective_scan_tiles_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    const scan_dims d = scan_dims_of(n);
    MBA_TRY(scan_takes(n, m));
    REFUSE_PACKS(n, d, n->out[KEPT], false);
    int64_t items = 0, width = 0;
    double  best = 0;
    for (int i = 0; i < 2; i++) {
        double        t;
        const int64_t w = forward_widths[i].width, k = scan_best_items(d, w, forward_resident(d, w, m),
                                                                       scan_can_pack(n, d, false), n->out[KEPT], &t);
        t *= forward_widths[i].us;
        if (!width || t < best) {
            best = t;
            items = k;
            width = w;
        }
    }
    scan_scratch_segments(p, d, items, 1, false, 1);
    plan_forward(p, n, d, items, width, false);
    return MBA_OK;
}

/* ---- specialized ---- */

enum { SPECIALIZED_STATES = 512, SPECIALIZED16_CHANNELS = 16 }; // states per token and block; channels
enum { SPECIALIZED16_MIN = 256 };                               // shortest sequence that was measured

static mba_status specialized_takes(const mba_node *n, const mba_machine *m, bool back)
{
    const scan_dims d = scan_dims_of(n);
    MBA_TRY(scan_takes(n, m));
    MBA_REFUSE_IF(d.N != 8 && d.N != 16, "%lld states: wants 8 or 16", (long long)d.N);
    MBA_REFUSE_IF(d.D / d.G % 4, "groups of %lld channels: wants a multiple of 4", (long long)(d.D / d.G));
    MBA_REFUSE_IF(!all_vec4_aligned(n, d.D, back), "rows that do not begin at multiples of four values");
    MBA_REFUSE_IF(n->in[U]->type.dtype != MBA_BF16, "fp32 activations: wants bf16");
    MBA_REFUSE_IF(!bc_aligned(n, d) && d.B * d.L * d.G * d.N > INT_LIMIT, "more than %d values of B, not aligned",
                  INT_LIMIT);
    for (int k = 0; k < MBA_IN_MAX + MBA_OUT_MAX; k++) {
        const mba_tensor *t = k < MBA_IN_MAX ? n->in[k] : n->out[k - MBA_IN_MAX];
        MBA_REFUSE_IF(t && t->pitch > INT_LIMIT / 2 && !mba_dense(t), "rows %lld values apart", (long long)t->pitch);
    }
    return MBA_OK;
}

/* B and C whose rows do not begin at multiples of four values are copied to dense ones first. Call it after the scratch
 * of the pass and before its launches. */
static void plan_align(mba_plan *p, const mba_node *n, scan_dims d)
{
    enum { THREADS = 256 };
    const int64_t values = d.B * d.L * d.G * d.N;
    if (bc_aligned(n, d)) return;
    while (p->nscratch < CU_ALIGNED) mba_plan_scratch(p, "unused", 0);
    mba_plan_scratch(p, "aligned B, C", 4 * (size_t)values);
    mba_launch *l = mba_plan_launch(p, "scan_align_bc", MBA_COPYING, mba_ceil(values, THREADS), THREADS);
    l->regs = 24;
    mba_phase_move(l, MBA_LOAD, MBA_ARG_IN(BM), 2.0 * THREADS);
    mba_phase_move(l, MBA_LOAD, MBA_ARG_IN(CM), 2.0 * THREADS);
    mba_phase_work(l, MBA_ALU, 40.0 * THREADS, NULL); // rows and sequences by division
    mba_phase_move(l, MBA_STORE, MBA_ARG_SCRATCH(CU_ALIGNED), 4.0 * THREADS);
}

/* Time of a tile in us on an H200: us[k] with k blocks per SM; carry: the carry pass as a share of that; more: us for
 * two more launches; first_segments: the carry launch does these (forward). Measured with 16 states: forward with 1
 * to 4 blocks, backward with 2 and 3, and the carry passes; the others are estimates. Packs take PACK_COST longer,
 * because they check for documents. */
#define PACK_COST 1.08
typedef struct tile_time {
    int64_t blocks_per_sm;
    double  us[7], carry, more;
    bool    first_segments;
} tile_time;
static const tile_time forward_time = { 4, { 0, 0.562, 0.96, 1.43, 1.80 }, 0.88, 5, true };
static const tile_time forward_time_8 = { 3, { 0, 0.6, 1, 1.5 }, 0.88, 5, true };
static const tile_time specialized16_time = { 3, { 0, 0.34, 0.512, 0.76 }, 0, 0, false };
static const tile_time backward_time = { 3, { 0, 2.2, 2.9, 4.4 }, 0.27, 0, false };
static const tile_time backward_time_8 = { 6, { 0, 2, 2.7, 3.4, 4.3, 5.2, 6.1 }, 0.27, 0, false };

/* Time for one tile of each of `blocks` blocks: full waves, and a last one with fewer blocks per SM. */
static double wave_time(int64_t blocks, int64_t sm, const tile_time *p)
{
    const int64_t each = mba_ceil(blocks, sm), full = each / p->blocks_per_sm;
    return (double)full * p->us[p->blocks_per_sm] + p->us[each % p->blocks_per_sm];
}

/* Time of the pass over `items` in blocks of `width` channels, with the carry pass. */
static double specialized_us(scan_dims d, int64_t items, int64_t width, const mba_machine *m, const tile_time *at)
{
    const int64_t blocks = scan_channel_blocks(d, width);
    const int64_t before = items > d.B ? (items - d.B) * blocks : 0; // the last segment needs none
    const double  main = wave_time(before && at->first_segments ? before : items * blocks, m->sm, at);
    const double  first_segments = at->first_segments && before ? (double)d.B / (double)(items - d.B) : 0;
    const double  carry = before ? (first_segments + (1 - first_segments) * at->carry) * wave_time(before, m->sm, at)
                                 : 0;
    return (main + carry) * (double)(scan_partition_of(d, items).tiles + 2) * (items < d.B ? PACK_COST : 1)
           + (before ? at->more : 0);
}

/* The number of items with the least time. */
static int64_t specialized_items(scan_dims d, int64_t width, const mba_machine *m, const tile_time *at,
                                 const mba_tensor *kept, bool packs)
{
    int64_t    best = kept ? kept->type.dim[0] : d.B;
    double     shortest = INFINITY;
    const bool fixed = best < d.B; // the saved states prescribe packs
    for (int64_t k = 1; k <= SEGMENTS_MAX && !fixed; k++) {
        const int64_t length = mba_ceil(mba_ceil(d.L, k), TILE) * TILE, segmented = d.B * mba_ceil(d.L, length);
        const int64_t packed = mba_ceil(d.B, k);
        const bool    segments = k == 1 || length >= SEGMENT_MIN;
        packs &= !kept && k <= PACK_MAX && packed * k * d.L <= INT_LIMIT;
        for (int pack = 0; pack < 2; pack++) {
            if (!(pack ? packs : segments)) continue;
            const int64_t items = pack ? packed : segmented;
            const double  t = specialized_us(d, items, width, m, at);
            if (t < shortest) {
                shortest = t;
                best = items;
            }
        }
    }
    return best;
}

/* Kinds of forward launches. With segments, CARRY_PASS processes the first segments and computes the final states of
 * the others but the last; SPECIALIZED_PASS then processes all but the first. */
enum forward_role { SPECIALIZED_PASS, SPECIALIZED16_PASS, CARRY_PASS };

static int64_t launched(scan_dims d, int64_t items) { return items > d.B ? items - d.B : items; }

static void plan_specialized(mba_plan *p, const mba_node *n, scan_dims d, int64_t items, enum forward_role role,
                             bool three_roles)
{
    const scan_partition c = scan_partition_of(d, items);
    const bool           carry = role == CARRY_PASS, half = role == SPECIALIZED16_PASS;
    const bool           four_warps = half || three_roles || d.N == 8; // of elements; otherwise two
    const int64_t        width = half ? SPECIALIZED16_CHANNELS : SPECIALIZED_STATES / d.N, buffers = half ? 4 : 2;
    const double         values = (double)(TILE * width), elements = values * (double)d.N;
    const double         whole = carry ? (double)d.B / (double)launched(d, items) : 1; // share that runs the full pass
    mba_launch          *l = mba_plan_launch(p, half ? "scan_fwd_specialized16" : "scan_fwd_specialized", MBA_MIXED,
                                             launched(d, items), four_warps ? 256 : 192);
    l->grid[1] = scan_channel_blocks(d, width);
    l->regs = 80;
    l->smem_bytes = (size_t)(buffers * 4 * TILE
                                 * (9 * width / 8 + width + 8 + (half ? 2 * (d.N + 8) + 2 * (width + 4) : d.N + 64))
                             + 2 * buffers * (6 * TILE * width + 64 * d.N) + ORIGINS_BYTES + 48 * buffers);
    l->ring_depth = (int)buffers;
    if (c.segments > 1 && !carry)
        mba_phase_move(l, MBA_LOAD, MBA_ARG_SCRATCH(CU_ENDS), 2.0 * (double)(c.segments * width * d.N)); // mean
    mba_phase_work(l, MBA_LOOP, (double)c.tiles, NULL);
    mba_phase_work(l, MBA_RING_WAIT, 0, NULL);
    mba_phase_work(l, MBA_SMEM, elements * 3, NULL);
    mba_phase_work(l, MBA_SFU, elements, NULL);
    mba_phase_work(l, MBA_FMA, elements * (2.5 + whole), NULL);
    scan_store(l, n, KEPT, whole * (double)(TILE_SAVES * width * d.N));
    mba_phase_work(l, MBA_END, 0, NULL);
    if (carry) mba_phase_move(l, MBA_STORE, MBA_ARG_SCRATCH(CU_ENDS), 4.0 * (double)(width * d.N));
    mba_launch_role(l, four_warps ? 4 : 2);
    mba_phase_work(l, MBA_LOOP, (double)c.tiles, NULL);
    scan_load(l, n, U, values);
    scan_load(l, n, DELTA, values);
    scan_load(l, n, Z, whole * values);
    scan_load_states(l, n, d, width, BM, BM, TILE);
    scan_load_states(l, n, d, width, CM, CM, whole * TILE);
    mba_phase_work(l, MBA_SFU, values * (n->in[Z] ? 1 + whole : 1), NULL);
    mba_phase_work(l, MBA_FMA, values * (14 + 18 * whole), NULL);
    mba_phase_work(l, MBA_RING_FILL, 0, NULL);
    scan_store(l, n, OUT, whole * values);
    scan_store(l, n, YS, whole * values);
    mba_phase_work(l, MBA_END, 0, NULL);
}

/* Three roles per block take 8 and 2 % less time with 1 and 3 blocks per SM (measured); four such blocks do not fit. */
static bool takes_three_roles(scan_dims d, int64_t items, const mba_machine *m)
{
    return d.N == 16 && launched(d, items) * scan_channel_blocks(d, SPECIALIZED_STATES / d.N) <= 3 * (int64_t)m->sm;
}

/* Blocks of 16 channels with whole sequences, where 32 channels would leave SMs idle or need segments. */
static bool takes_specialized16(scan_dims d, int64_t items, const mba_machine *m)
{
    return d.N == 16 && items >= d.B && d.L >= SPECIALIZED16_MIN
           && specialized_us(d, d.B, SPECIALIZED16_CHANNELS, m, &specialized16_time)
                  < 0.98 * specialized_us(d, items, SPECIALIZED_STATES / d.N, m, &forward_time);
}

mba_status selective_scan_specialized_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    const scan_dims d = scan_dims_of(n);
    MBA_TRY(specialized_takes(n, m, false));
    REFUSE_PACKS(n, d, n->out[KEPT], false);
    const int64_t width = SPECIALIZED_STATES / d.N;
    const int64_t items = specialized_items(d, width, m, d.N == 16 ? &forward_time : &forward_time_8, n->out[KEPT],
                                            scan_can_pack(n, d, false));
    const bool    half = takes_specialized16(d, items, m), segments = items > d.B && !half;
    const size_t  state = segments ? sizeof(float) * (size_t)(items * d.D) : 0;
    if (segments) {
        mba_plan_scratch(p, "no states before pieces", 0); // each block computes its own
        mba_plan_scratch(p, "states of pieces", state * (size_t)d.N);
        mba_plan_scratch(p, "steps of pieces", state);
    }
    plan_align(p, n, d);
    if (segments) plan_specialized(p, n, d, items, CARRY_PASS, false);
    if (half) plan_specialized(p, n, d, d.B, SPECIALIZED16_PASS, true);
    else plan_specialized(p, n, d, items, SPECIALIZED_PASS, takes_three_roles(d, items, m));
    return MBA_OK;
}

/* ---- backward ---- */

/* Bytes of shared memory of both kernels. from_saved: `specialized`, with saved states of two tiles and operands in
 * two parts. */
static size_t backward_smem(int64_t N, int64_t e, bool from_saved)
{
    const int64_t CH = TILE_CHANNELS, SLOTS = TILE * CH / 4, row = CH + (from_saved && N == 8 ? 16 : 8);
    int64_t       bytes =
        4 * TILE * (CH + 2 * row * (from_saved && N == 16 ? 2 : 1) + 2 * (N + 8) + 2 * (CH + 4) + N / 4 * (2 * N + 4));
    bytes += 3 * SLOTS * 16 + 8 * CH + (6 * SLOTS + 8 * N) * 4 * e + SLOTS * 8 + ORIGINS_BYTES;
    if (!from_saved) return (size_t)(bytes + 2 * 8 * N * 16);
    return (size_t)(bytes + 5 * 8 * N * 16);
}

/* from_saved: `specialized`, from the states that the forward saved. */
static void plan_backward(mba_plan *p, const mba_node *n, scan_dims d, int64_t items, bool from_saved)
{
    const scan_partition c = scan_partition_of(d, items);
    const int64_t        e = (int64_t)mba_dtype_bytes(n->in[U]->type.dtype), CH = TILE_CHANNELS;
    const int64_t        N = scan_group_states(d.N);
    const double         groups = (double)state_groups(d), values = (double)(TILE * CH), elements = values * (double)N;
    mba_launch *l = mba_plan_launch(p, from_saved ? "scan_bwd_specialized" : "scan_bwd_tiles", MBA_MIXED, items,
                                    (int)(8 * N));
    l->grid[1] = scan_channel_blocks(d, CH);
    l->regs = from_saved ? (N == 16 ? 161 : 167) : 168;
    l->smem_bytes = backward_smem(N, e, from_saved);
    mba_phase_work(l, MBA_LOOP, groups * (double)c.tiles, NULL);
    static const int streams[] = { U, DELTA, Z, DOUT };
    for (int i = 0; i < 4; i++) scan_load(l, n, streams[i], values);
    scan_load_states(l, n, d, CH, BM, CM, TILE / groups);
    if (from_saved) {
        scan_load(l, n, YS_IN, values);
        scan_load(l, n, KEPT_IN, (double)(TILE_SAVES * CH * N));
    } else {
        if (n->out[DZ]) mba_phase_move(l, MBA_LOAD, MBA_ARG_SCRATCH(CU_YS), values * (double)e / groups);
        mba_phase_move(l, MBA_LOAD, MBA_ARG_SCRATCH(CU_KEPT), (double)(CH * N * 4));
    }
    mba_phase_work(l, MBA_BARRIER, 2, NULL);
    mba_phase_work(l, MBA_SFU, (from_saved ? 1 : 1.5) * elements + 4 * values, NULL); // `tiles`: half of them twice
    mba_phase_work(l, MBA_FMA, (from_saved ? 12 : 18) * elements + 30 * values, NULL);
    mba_phase_work(l, MBA_SMEM, 8 * elements, NULL);
    plan_partial(l, d, 2 * values);
    scan_store(l, n, DU, values / groups);
    scan_store(l, n, DDELTA, values / groups);
    scan_store(l, n, DZ, values / groups);
    mba_phase_move(l, MBA_STORE, MBA_ARG_SCRATCH(CU_BC), (double)(TILE * 2 * N * 4));
    mba_phase_work(l, MBA_END, 0, NULL);
    mba_phase_move(l, MBA_STORE, MBA_ARG_SCRATCH(CU_SUMS), (double)(CH * (d.N + 2) * 4));
}

/* scan_sums_bc and scan_sums_items: the second stage of sums, for all variants. */
void scan_plan_sums(mba_plan *p, const mba_node *n, scan_dims d, int64_t items, int64_t states)
{
    const int64_t values = (states % 4 ? 1 : 4) * 256; // per block, half of dB and half of dC
    const int64_t blocks = mba_ceil(d.D / d.G, TILE_CHANNELS);
    const double  real = (double)values / 2 * (double)d.N / (double)states;
    mba_launch *l = mba_plan_launch(p, "scan_sums_bc", MBA_VECTOR, mba_ceil(d.B * d.L * d.G * 2 * states, values), 256);
    l->regs = 40;
    mba_phase_move(l, MBA_LOAD, MBA_ARG_SCRATCH(CU_BC), 4.0 * (double)(values * blocks));
    mba_phase_work(l, MBA_FMA, (double)(values * blocks), NULL);
    scan_store(l, n, DB, real);
    scan_store(l, n, DC, real);
    l = mba_plan_launch(p, "scan_sums_items", MBA_VECTOR, mba_ceil(d.D * (d.N + 2), 32), 512);
    l->regs = 32;
    mba_phase_move(l, MBA_LOAD, MBA_ARG_SCRATCH(CU_SUMS), 128.0 * (double)items);
    mba_phase_work(l, MBA_FMA, 32.0 * (double)items, NULL);
    mba_phase_work(l, MBA_BARRIER, 1, NULL);
    scan_store(l, n, DA_LOG, 32);
}

/* Scratch: dB and dC per block of channels, and parameter gradients per item. */
void scan_scratch_sums(mba_plan *p, scan_dims d, int64_t items, int64_t states)
{
    const int64_t rows = scan_channel_blocks(d, TILE_CHANNELS) * d.B * d.L;
    mba_plan_scratch(p, "dB, dC", sizeof(float) * (size_t)(rows * 2 * states));
    mba_plan_scratch(p, "sums", sizeof(float) * (size_t)(items * d.D * (d.N + 2)));
}

mba_status selective_scan_bwd_tiles_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    const scan_dims d = scan_dims_of(n);
    MBA_TRY(scan_takes(n, m));
    double        time, wide;
    const int64_t each = 384 / (8 * scan_group_states(d.N)), resident = m->sm * (each < 8 ? each : 8); // shared memory
    const int64_t items = scan_best_items(d, TILE_CHANNELS, resident, scan_can_pack(n, d, true), NULL, &time);
    const scan_partition c = scan_partition_of(d, items);
    const int64_t        sub = scan_carry_parts(d, items, m);
    const size_t         e = mba_dtype_bytes(n->in[U]->type.dtype);
    time = forward_widths[1].us * time_of(d, items, TILE_CHANNELS, forward_resident(d, TILE_CHANNELS, m));
    wide = forward_widths[0].us * time_of(d, items, 2 * TILE_CHANNELS, forward_resident(d, 2 * TILE_CHANNELS, m));
    scan_scratch_segments(p, d, items, sub, true, 2);
    mba_plan_scratch(p, "kept states", sizeof(float) * (size_t)(items * c.tiles * d.D * scan_padded_states(d.N)));
    mba_plan_scratch(p, "y", n->out[DZ] ? e * (size_t)(d.B * d.L * d.D) : 0);
    scan_scratch_sums(p, d, items, scan_padded_states(d.N));
    plan_forward(p, n, d, items, wide < time ? 2 * TILE_CHANNELS : TILE_CHANNELS, true);
    if (c.segments > 1) scan_plan_carries(p, n, d, items, sub, true);
    plan_backward(p, n, d, items, false);
    scan_plan_sums(p, n, d, items, scan_padded_states(d.N));
    return MBA_OK;
}

mba_status selective_scan_bwd_specialized_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    const scan_dims d = scan_dims_of(n);
    MBA_TRY(specialized_takes(n, m, true));
    MBA_REFUSE_IF(!n->in[KEPT_IN] || (n->out[DZ] && !n->in[YS_IN]), "a forward pass that kept no states");
    REFUSE_PACKS(n, d, n->in[KEPT_IN], true);
    const int64_t items = specialized_items(d, TILE_CHANNELS, m, d.N == 16 ? &backward_time : &backward_time_8,
                                            n->in[KEPT_IN], false);
    const int64_t sub = scan_carry_parts(d, items, m);
    scan_scratch_segments(p, d, items, sub, true, 0);
    mba_plan_scratch(p, "no states", 0);
    mba_plan_scratch(p, "no y", 0);
    scan_scratch_sums(p, d, items, scan_padded_states(d.N));
    plan_align(p, n, d);
    if (items > d.B) scan_plan_carries(p, n, d, items, sub, true);
    plan_backward(p, n, d, items, true);
    scan_plan_sums(p, n, d, items, scan_padded_states(d.N));
    return MBA_OK;
}
