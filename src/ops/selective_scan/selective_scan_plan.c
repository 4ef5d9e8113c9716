// SPDX-License-Identifier: Apache-2.0
/* selective_scan_plan.c -- CUDA: whether a path takes a node, how its work is cut, and what one block does.
 *
 * The fast path gives a block 32 or 64 channels of an item. An item is a sequence; where sequences and channels are too
 * few to fill the machine, a piece of one (which costs another pass for the states between pieces); where sequences are
 * short, several of them, so that tiles of 16 tokens are full. */
#include <math.h>

#include "core/op.h"
#include "ops/selective_scan/selective_scan_slots.h"

enum { ELEMENT_THREADS = 128, PIECE_LEAST = 8 * TILE, PIECES_MOST = 64, INT_MOST = 1 << 30 };
enum { ORIGINS_BYTES = 160 }; // of struct origins

/* ---- what the fast path takes ---- */

static int64_t row_of(const mba_tensor *t, int64_t width) { return t->run == width ? t->pitch : width; }

/* Groups of four values of a row are whole and aligned. */
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

/* Several sequences may follow each other in one item: no states come in or go out, and rows run on. */
static bool can_pack(const mba_node *n, scan_dims d, bool back)
{
    if (n->in[INITIAL] || (back ? n->in[DFINAL] : n->out[FINAL])) return false;
    const bool in = scan_even_rows(n->in[U], d.D) && scan_even_rows(n->in[DELTA], d.D) && scan_even_rows(n->in[Z], d.D)
                    && scan_even_rows(n->in[IDS], 1) && scan_even_rows(n->in[BM], d.G * d.N)
                    && scan_even_rows(n->in[CM], d.G * d.N);
    if (!back) return in && scan_even_rows(n->out[OUT], d.D);
    return in && scan_even_rows(n->in[DOUT], d.D) && scan_even_rows(n->out[DU], d.D)
           && scan_even_rows(n->out[DDELTA], d.D) && scan_even_rows(n->out[DZ], d.D);
}

static mba_status fast_takes(const mba_node *n, const mba_machine *m, bool back)
{
    const scan_dims d = scan_dims_of(n);
    MBA_REFUSE_IF(m->cc < 80, "a device of compute capability %d", m->cc);
    MBA_REFUSE_IF(d.N != 8 && d.N != 16, "%lld states: wants 8 or 16", (long long)d.N);
    MBA_REFUSE_IF(d.D / d.G % 4, "groups of %lld channels: wants a multiple of 4", (long long)(d.D / d.G));
    MBA_REFUSE_IF(!all_vec4_aligned(n, d.D, back), "rows that do not begin at multiples of four values");
    MBA_REFUSE_IF(d.L > INT_MOST || d.D > INT_MOST / 32 || d.B > INT_MOST, "more than %d tokens or channels", INT_MOST);
    return MBA_OK;
}

/* ---- the cut ---- */

/* Packs that the forward's kept states tell of, but windows that cannot follow. */
#define PACKS_TAKEN(n, d, kept, back) \
    MBA_REFUSE_IF((kept) && (kept)->type.dim[0] < (d).B && !can_pack(n, d, back), \
                  "packed sequences in rows at uneven distances")

static int64_t channel_blocks(scan_dims d, int64_t width) { return d.G * mba_ceil(d.D / d.G, width); }

/* In tiles of one block: as many rounds as the machine needs, each as long as an item and what begins and ends it. */
static double time_of(scan_dims d, int64_t items, int64_t width, int64_t indexed_view)
{
    const scan_partition c = scan_partition_of(d, items);
    const double         rounds = (double)mba_ceil(items * channel_blocks(d, width), indexed_view);
    return rounds * (double)(c.tiles + 2) * (c.pieces > 1 ? 1.6 : 1); // 1.6: the pass for the states between pieces
}

/* `kept`: states that the forward keeps for the backward fix which sequences share tiles. */
static int64_t best_items(scan_dims d, int64_t width, int64_t indexed_view, bool packs, const mba_tensor *kept,
                          double *time)
{
    int64_t best = kept ? kept->type.dim[0] : d.B;
    if (best < d.B) {
        *time = time_of(d, best, width, indexed_view);
        return best;
    }
    packs &= !kept;
    *time = time_of(d, d.B, width, indexed_view);
    for (int64_t k = 2; k <= PIECES_MOST; k++) {
        const int64_t piece = mba_ceil(mba_ceil(d.L, k), TILE) * TILE, cut = d.B * mba_ceil(d.L, piece),
                      packed = mba_ceil(d.B, k);
        const double t = piece >= PIECE_LEAST ? time_of(d, cut, width, indexed_view) : *time;
        const double p = packs && k <= PACK_MOST && packed * k * d.L < INT_MOST
                             ? time_of(d, packed, width, indexed_view)
                             : *time;
        if (t < *time) {
            *time = t;
            best = cut;
        }
        if (p < *time) {
            *time = p;
            best = packed;
        }
    }
    return best;
}

/* A tile of 64 channels takes 2.06 us beside another on an H200, one of 32 beside two others 1.62 (measured: the
 * prototype). */
static const struct {
    int64_t width;
    double  us;
} forward_widths[] = { { 2 * TILE_CHANNELS, 2.06 }, { TILE_CHANNELS, 1.62 } };

static int forward_threads(scan_dims d, int64_t width) { return (int)(width * d.N / 4) + ELEMENT_THREADS; }

static int64_t forward_places(scan_dims d, int64_t width, const mba_machine *m)
{
    return (int64_t)m->sm * (768 / forward_threads(d, width));
}

/* ---- launches: kernels of the same name in *_cuda.cu ---- */

static double bytes_of(const mba_tensor *t, double values)
{
    return t ? values * (double)mba_dtype_bytes(t->type.dtype) : 0;
}

static void load_operand(mba_launch *l, const mba_node *n, int k, double values)
{
    if (n->in[k]) mba_phase_move(l, MBA_LOAD, MBA_ARG_IN(k), bytes_of(n->in[k], values));
}

static void store_operand(mba_launch *l, const mba_node *n, int k, double values)
{
    if (n->out[k]) mba_phase_move(l, MBA_STORE, MBA_ARG_OUT(k), bytes_of(n->out[k], values));
}

static void load_states(mba_launch *l, const mba_node *n, scan_dims d, int64_t width, int first, int last,
                        double tokens)
{
    for (int k = first; k <= last; k++) {
        load_operand(l, n, k, tokens * (double)d.N);
        mba_phase_share(l, mba_ceil(d.D / d.G, width)); // blocks of a group read the same
    }
}

/* How many parts of a piece the pass for the states between pieces takes singly: pieces alone may leave SMs idle. */
static int64_t carry_parts(scan_dims d, int64_t items, const mba_machine *m)
{
    const scan_partition c = scan_partition_of(d, items);
    const int64_t        blocks = (items - d.B) * channel_blocks(d, TILE_CHANNELS);
    int64_t              sub = 1;
    while (items > d.B && d.L % c.piece == 0 && blocks * sub < 8 * (int64_t)m->sm && c.piece % (2 * sub * TILE) == 0
           && c.piece / (2 * sub) >= PIECE_LEAST)
        sub *= 2;
    return sub;
}

static void plan_combine(mba_plan *p, scan_dims d, int64_t items, int64_t sub, bool back)
{
    enum { THREADS = 256, AHEAD = 8 }; // pieces that are asked for at once
    const int64_t pieces = scan_partition_of(d, items).pieces * sub;
    const double  trips = (double)mba_ceil(pieces, AHEAD), some = THREADS * (double)pieces / trips;
    mba_launch   *l = mba_plan_launch(p, "scan_combine", MBA_VECTOR, mba_ceil(d.B * d.D * d.N, THREADS), THREADS);
    l->regs = 60;
    mba_phase_work(l, MBA_LOOP, trips, NULL);
    mba_phase_move(l, MBA_LOAD, MBA_ARG_SCRATCH(CU_ENDS), 4 * some);
    mba_phase_work(l, MBA_SFU, some, NULL);
    mba_phase_work(l, MBA_FMA, 2 * some, NULL);
    mba_phase_work(l, MBA_ALU, 8 * some, NULL); // 64-bit places, the end of an item
    mba_phase_move(l, MBA_STORE, MBA_ARG_SCRATCH(back ? CU_STARTS_BACK : CU_STARTS), 4 * some / (double)sub);
    mba_phase_work(l, MBA_END, 0, NULL);
}

static void plan_carries(mba_plan *p, const mba_node *n, scan_dims d, int64_t items, int64_t sub, bool back)
{
    const scan_partition c = scan_partition_of(d, items);
    const double         values = 2.0 * TILE * TILE_CHANNELS, elements = values * (double)d.N;
    mba_launch          *l = mba_plan_launch(p, "scan_carry", MBA_VECTOR, items * sub, (int)(8 * d.N));
    l->grid[1] = channel_blocks(d, TILE_CHANNELS);
    l->regs = back ? 106 : 98;
    mba_phase_work(l, MBA_LOOP, (double)mba_ceil(c.tiles, 2 * sub), NULL);
    load_operand(l, n, DELTA, values);
    if (!back) load_operand(l, n, U, values);
    if (back) {
        load_operand(l, n, DOUT, values);
        load_operand(l, n, Z, values);
    }
    load_states(l, n, d, TILE_CHANNELS, back ? CM : BM, back ? CM : BM, 2.0 * TILE);
    mba_phase_work(l, MBA_BARRIER, 2, NULL);
    mba_phase_work(l, MBA_SFU, elements + values, NULL);
    mba_phase_work(l, MBA_FMA, 3 * elements + 12 * values, NULL);
    mba_phase_work(l, MBA_END, 0, NULL);
    mba_phase_move(l, MBA_STORE, MBA_ARG_SCRATCH(CU_ENDS), 4.0 * TILE_CHANNELS * (double)d.N);
    plan_combine(p, d, items, sub, back);
}

/* The forward pass of an item; `states`: for the backward, without the output. */
static void plan_forward(mba_plan *p, const mba_node *n, scan_dims d, int64_t items, int64_t width, bool states)
{
    const scan_partition c = scan_partition_of(d, items);
    const double e = (double)mba_dtype_bytes(n->in[U]->type.dtype), values = (double)(TILE * width), N = (double)d.N;
    if (c.pieces > 1) plan_carries(p, n, d, items, 1, false);
    mba_launch *l = mba_plan_launch(p, "scan_fwd_tiles", MBA_MIXED, items, forward_threads(d, width));
    l->grid[1] = channel_blocks(d, width);
    l->regs = 80;
    l->smem_bytes = (size_t)(8 * TILE * (width + width + 8 + 2 * (d.N + 8) + d.N / 8 * (width + 4))
                             + 64 * width * (int64_t)e + 8 * width + ORIGINS_BYTES);
    l->ring_depth = 2;
    mba_phase_work(l, MBA_LOOP, (double)c.tiles, NULL);
    mba_phase_work(l, MBA_RING_WAIT, 0, NULL);
    mba_phase_work(l, MBA_SMEM, values * N * 8.6, NULL); // as counted on the H200
    mba_phase_work(l, MBA_SFU, values * N, NULL);
    mba_phase_work(l, MBA_FMA, values * N * 4, NULL);
    if (states) mba_phase_move(l, MBA_STORE, MBA_ARG_SCRATCH(CU_KEPT), (double)width * N * e);
    else store_operand(l, n, KEPT, (double)(TILE / KEEP * width) * N);
    mba_phase_work(l, MBA_END, 0, NULL);
    mba_launch_role(l, ELEMENT_THREADS / 32);
    mba_phase_work(l, MBA_LOOP, (double)c.tiles, NULL);
    load_operand(l, n, U, values);
    load_operand(l, n, DELTA, values);
    load_operand(l, n, Z, values);
    load_states(l, n, d, width, BM, CM, TILE);
    mba_phase_work(l, MBA_SFU, values * (n->in[Z] && !states ? 2 : 1), NULL);
    mba_phase_work(l, MBA_FMA, values * 16, NULL);
    mba_phase_work(l, MBA_RING_FILL, 0, NULL);
    if (!states) {
        store_operand(l, n, OUT, values);
        store_operand(l, n, YS, values);
    } else if (n->out[DZ]) mba_phase_move(l, MBA_STORE, MBA_ARG_SCRATCH(CU_YS), values * e);
    mba_phase_work(l, MBA_END, 0, NULL);
}

static void scratch_of_pieces(mba_plan *p, scan_dims d, int64_t items, int64_t sub, bool back)
{
    const size_t state = items > d.B ? sizeof(float) * (size_t)(items * d.D * d.N) : 0;
    mba_plan_scratch(p, "states before pieces", state);
    mba_plan_scratch(p, "states of pieces", state * (size_t)sub);
    mba_plan_scratch(p, "steps of pieces", state * (size_t)sub / (size_t)d.N);
    mba_plan_scratch(p, "adjoints behind pieces", back ? state : 0);
}

mba_status selective_scan_tiles_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    const scan_dims d = scan_dims_of(n);
    MBA_TRY(fast_takes(n, m, false));
    PACKS_TAKEN(n, d, n->out[KEPT], false);
    int64_t items = 0, width = 0;
    double  best = 0;
    for (int i = 0; i < 2; i++) {
        double        t;
        const int64_t w = forward_widths[i].width,
                      k = best_items(d, w, forward_places(d, w, m), can_pack(n, d, false), n->out[KEPT], &t);
        t *= forward_widths[i].us;
        if (!width || t < best) {
            best = t;
            items = k;
            width = w;
        }
    }
    scratch_of_pieces(p, d, items, 1, false);
    plan_forward(p, n, d, items, width, false);
    return MBA_OK;
}

/* ---- twins ---- */

enum { SPECIALIZED_STATES = 512, SPECIALIZED16_CHANNELS = 16 }; // of a token and block; of a block of halves
enum { SPECIALIZED16_LEAST = 256 };                             // tokens of a sequence; below nothing was measured

static mba_status specialized_takes(const mba_node *n, const mba_machine *m, bool back)
{
    const scan_dims d = scan_dims_of(n);
    MBA_TRY(fast_takes(n, m, back));
    MBA_REFUSE_IF(n->in[U]->type.dtype != MBA_BF16, "fp32 activations: wants bf16");
    MBA_REFUSE_IF(!vec4_aligned(n->in[BM], d.G * d.N) || !vec4_aligned(n->in[CM], d.G * d.N),
                  "B or C that does not begin at multiples of four values");
    for (int k = 0; k < MBA_IN_MAX + MBA_OUT_MAX; k++) {
        const mba_tensor *t = k < MBA_IN_MAX ? n->in[k] : n->out[k - MBA_IN_MAX];
        MBA_REFUSE_IF(t && t->pitch > INT_MOST / 2 && !mba_dense(t), "rows %lld values apart", (long long)t->pitch);
    }
    return MBA_OK;
}

/* How long blocks take for a tile where so many are together on an SM, in us of an H200, and the pass that finds what
 * pieces leave behind, as a part of that. Measured with 16 states: forward 1 to 4 together, backward 2 and 3, and
 * the passes; the others reckoned. Packs take PACK_COST longer: documents are looked at. `leads`: first pieces are done
 * in the pass before (forward); `more`: us for what begins and ends two more launches. */
#define PACK_COST 1.08
typedef struct pace {
    int64_t together;
    double  us[7], carry, more;
    bool    leads;
} pace;
static const pace forward_pace = { 4, { 0, 0.562, 0.96, 1.43, 1.80 }, 0.88, 5, true };
static const pace specialized16_pace = { 3, { 0, 0.34, 0.512, 0.76 }, 0, 0, false }; // blocks of 16 channels
static const pace backward_pace = { 3, { 0, 2.2, 2.9, 4.4 }, 0.27, 0, false };
static const pace backward_pace_8 = { 6, { 0, 2, 2.7, 3.4, 4.3, 5.2, 6.1 }, 0.27, 0, false };

/* What a machine takes for a tile of each of `blocks`: rounds of as many as go together, and a last one of the rest. */
static double rounds_of(int64_t blocks, int64_t sm, const pace *p)
{
    const int64_t each = mba_ceil(blocks, sm);
    return (double)(each / p->together) * p->us[p->together] + p->us[each % p->together];
}

/* Of the pass over `items` in blocks of `width` channels, with what pieces cost before it. */
static double specialized_us(scan_dims d, int64_t items, int64_t width, const mba_machine *m, const pace *at)
{
    const int64_t blocks = channel_blocks(d, width);
    const int64_t before = items > d.B ? (items - d.B) * blocks : 0; // the last piece leaves nothing
    const double  main = rounds_of(before && at->leads ? before : items * blocks, m->sm, at);
    const double  leads = at->leads && before ? (double)d.B / (double)(items - d.B) : 0; // of the pass before
    const double  carry = before ? (leads + (1 - leads) * at->carry) * rounds_of(before, m->sm, at) : 0;
    return (main + carry) * (double)(scan_partition_of(d, items).tiles + 2) * (items < d.B ? PACK_COST : 1)
           + (before ? at->more : 0);
}

/* The items that take least time. */
static int64_t specialized_items(scan_dims d, int64_t width, const mba_machine *m, const pace *at,
                                 const mba_tensor *kept, bool packs)
{
    int64_t    best = kept ? kept->type.dim[0] : d.B;
    double     least = INFINITY;
    const bool fixed = best < d.B; // what the forward kept is kept of packs
    for (int64_t k = 1; k <= PIECES_MOST && !fixed; k++) {
        const int64_t piece = mba_ceil(mba_ceil(d.L, k), TILE) * TILE, cut = d.B * mba_ceil(d.L, piece);
        const int64_t packed = mba_ceil(d.B, k);
        const bool    pieces = k == 1 || piece >= PIECE_LEAST;
        packs &= !kept && k <= PACK_MOST && packed * k * d.L <= INT_MOST;
        for (int pack = 0; pack < 2; pack++) {
            if (!(pack ? packs : pieces)) continue;
            const int64_t items = pack ? packed : cut;
            const double  t = specialized_us(d, items, width, m, at);
            if (t < least) {
                least = t;
                best = items;
            }
        }
    }
    return best;
}

/* What a launch of the forward is. Where sequences are cut, CARRY_PASS does their first pieces and finds what the
 * others leave behind, but the last; SPECIALIZED_PASS then does those behind the first. */
enum forward_role { SPECIALIZED_PASS, SPECIALIZED16_PASS, CARRY_PASS };

static int64_t launched(scan_dims d, int64_t items) { return items > d.B ? items - d.B : items; }

static void plan_specialized(mba_plan *p, const mba_node *n, scan_dims d, int64_t items, enum forward_role role,
                             bool split)
{
    const scan_partition c = scan_partition_of(d, items);
    const bool           carry = role == CARRY_PASS, half = role == SPECIALIZED16_PASS;
    const int64_t        width = half ? SPECIALIZED16_CHANNELS : SPECIALIZED_STATES / d.N, buffers = half ? 4 : 2;
    const double         values = (double)(TILE * width), elements = values * (double)d.N;
    const double whole = carry ? (double)d.B / (double)launched(d, items) : 1; // so much of it is the pass itself
    mba_launch  *l = mba_plan_launch(p, half ? "scan_fwd_specialized16" : "scan_fwd_specialized", MBA_MIXED,
                                     launched(d, items), half || split ? 256 : 192);
    l->grid[1] = channel_blocks(d, width);
    l->regs = 80;
    l->smem_bytes = (size_t)(buffers * 4 * TILE
                                 * (9 * width / 8 + width + 8 + (half ? 2 * (d.N + 8) + 2 * (width + 4) : d.N + 64))
                             + 2 * buffers * (6 * TILE * width + 64 * d.N) + ORIGINS_BYTES + 48 * buffers);
    l->ring_depth = (int)buffers;
    if (c.pieces > 1 && !carry)
        mba_phase_move(l, MBA_LOAD, MBA_ARG_SCRATCH(CU_ENDS), 2.0 * (double)(c.pieces * width * d.N)); // on average
    mba_phase_work(l, MBA_LOOP, (double)c.tiles, NULL);
    mba_phase_work(l, MBA_RING_WAIT, 0, NULL);
    mba_phase_work(l, MBA_SMEM, elements * 3, NULL);
    mba_phase_work(l, MBA_SFU, elements, NULL);
    mba_phase_work(l, MBA_FMA, elements * (2.5 + whole), NULL);
    store_operand(l, n, KEPT, whole * (double)(TILE / KEEP * width * d.N));
    mba_phase_work(l, MBA_END, 0, NULL);
    if (carry) mba_phase_move(l, MBA_STORE, MBA_ARG_SCRATCH(CU_ENDS), 4.0 * (double)(width * d.N));
    mba_launch_role(l, half || split ? 4 : 2);
    mba_phase_work(l, MBA_LOOP, (double)c.tiles, NULL);
    load_operand(l, n, U, values);
    load_operand(l, n, DELTA, values);
    load_operand(l, n, Z, whole * values);
    load_states(l, n, d, width, BM, BM, TILE);
    load_states(l, n, d, width, CM, CM, whole * TILE);
    mba_phase_work(l, MBA_SFU, values * (n->in[Z] ? 1 + whole : 1), NULL);
    mba_phase_work(l, MBA_FMA, values * (14 + 18 * whole), NULL);
    mba_phase_work(l, MBA_RING_FILL, 0, NULL);
    store_operand(l, n, OUT, whole * values);
    store_operand(l, n, YS, whole * values);
    mba_phase_work(l, MBA_END, 0, NULL);
}

/* Three roles to a block (measured at 1 and 3 blocks on an SM: 8 and 2 % less time) do not go four together. */
static bool splits(scan_dims d, int64_t items, const mba_machine *m)
{
    return d.N == 16 && launched(d, items) * channel_blocks(d, SPECIALIZED_STATES / d.N) <= 3 * (int64_t)m->sm;
}

/* Blocks of 16 channels, whole sequences: where those of 32 would leave SMs idle or sequences would be cut. */
static bool takes_specialized16(scan_dims d, int64_t items, const mba_machine *m)
{
    return d.N == 16 && items >= d.B && d.L >= SPECIALIZED16_LEAST
           && specialized_us(d, d.B, SPECIALIZED16_CHANNELS, m, &specialized16_pace)
                  < 0.98 * specialized_us(d, items, SPECIALIZED_STATES / d.N, m, &forward_pace);
}

mba_status selective_scan_specialized_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    const scan_dims d = scan_dims_of(n);
    MBA_TRY(specialized_takes(n, m, false));
    PACKS_TAKEN(n, d, n->out[KEPT], false);
    const int64_t width = SPECIALIZED_STATES / d.N;
    const int64_t items = specialized_items(d, width, m, &forward_pace, n->out[KEPT], can_pack(n, d, false));
    if (takes_specialized16(d, items, m)) {
        plan_specialized(p, n, d, d.B, SPECIALIZED16_PASS, true);
        return MBA_OK;
    }
    if (items > d.B) {
        const size_t state = sizeof(float) * (size_t)(items * d.D);
        mba_plan_scratch(p, "no states before pieces", 0); // each block finds its own
        mba_plan_scratch(p, "states of pieces", state * (size_t)d.N);
        mba_plan_scratch(p, "steps of pieces", state);
        plan_specialized(p, n, d, items, CARRY_PASS, false);
    }
    plan_specialized(p, n, d, items, SPECIALIZED_PASS, splits(d, items, m));
    return MBA_OK;
}

/* ---- backward ---- */

/* How many stretches of `tokens` all items have: the last of a sequence, or of a batch, may be shorter than the
 * others. */
static int64_t stretches_of(scan_dims d, scan_partition c, int64_t tokens)
{
    if (c.pieces > 1)
        return d.B * ((c.pieces - 1) * mba_ceil(c.piece, tokens) + mba_ceil(d.L - (c.pieces - 1) * c.piece, tokens));
    const int64_t rest = d.B - (c.items - 1) * c.pack;
    return (c.items - 1) * mba_ceil(c.pack * d.L, tokens) + mba_ceil(rest * d.L, tokens);
}

/* FLOPs of a tile's sums on bf16 tensor cores, a mean over all items: 2^16 for eight tokens of a block. Twins leave out
 * half a tile behind the end, and add up 8 states without them; products of tf32 are not in it. */
static double sums_of_tile(scan_dims d, scan_partition c, bool twins)
{
    if (twins && d.N == 8) return 0;
    const double halves = twins ? (double)stretches_of(d, c, KEEP) : 2 * (double)stretches_of(d, c, TILE);
    return 65536 * halves / (double)(c.items * c.tiles);
}

/* `specialized`: from what the forward kept. */
static void plan_backward(mba_plan *p, const mba_node *n, scan_dims d, int64_t items, bool twins)
{
    const scan_partition c = scan_partition_of(d, items);
    const int64_t        e = (int64_t)mba_dtype_bytes(n->in[U]->type.dtype), CH = TILE_CHANNELS, N = d.N;
    const double         values = (double)(TILE * CH), elements = values * (double)N;
    mba_launch          *l = mba_plan_launch(p, twins ? "scan_bwd_specialized" : "scan_bwd_tiles", MBA_MIXED, items,
                                             (int)(8 * N));
    l->grid[1] = channel_blocks(d, CH);
    l->regs = twins ? (N == 16 ? 160 : 168) : (N == 16 ? 162 : 164);
    l->smem_bytes = (size_t)(4 * (TILE * (CH + 2 * (CH + 8) + 2 * (N + 8) + 2 * (CH + 4)) + N / 4 * TILE * (2 * N + 4))
                             + 3 * 128 * 16 + 8 * CH + (6 * 128 + 8 * N) * 4 * e + 128 * 8 + 2 * 8 * N * 16
                             + ORIGINS_BYTES);
    mba_phase_work(l, MBA_LOOP, (double)c.tiles, NULL);
    static const int streams[] = { U, DELTA, Z, DOUT };
    for (int i = 0; i < 4; i++) load_operand(l, n, streams[i], values);
    load_states(l, n, d, CH, BM, CM, TILE);
    if (twins) {
        l->smem_bytes += (size_t)(2048 + (N == 8 ? 8 * TILE * 16 : 0)); // two kept states; wider rows of x, dy
        load_operand(l, n, YS_IN, values);
        load_operand(l, n, KEPT_IN, (double)(TILE / KEEP * CH * N));
    } else {
        if (n->out[DZ]) mba_phase_move(l, MBA_LOAD, MBA_ARG_SCRATCH(CU_YS), values * (double)e);
        mba_phase_move(l, MBA_LOAD, MBA_ARG_SCRATCH(CU_KEPT), (double)(CH * N * e));
    }
    mba_phase_work(l, MBA_BARRIER, 2, NULL);
    mba_phase_work(l, MBA_SFU, (twins ? 1 : 1.5) * elements + 3 * values, NULL); // tiles make half of the states twice
    mba_phase_work(l, MBA_FMA, (twins ? 12 : 14) * elements + 30 * values, NULL);
    if (e == 2) mba_phase_work(l, MBA_MMA, sums_of_tile(d, c, twins), NULL);
    mba_phase_work(l, MBA_SMEM, 8 * elements, NULL);
    store_operand(l, n, DU, values);
    store_operand(l, n, DDELTA, values);
    store_operand(l, n, DZ, values);
    mba_phase_move(l, MBA_STORE, MBA_ARG_SCRATCH(CU_BC), (double)(TILE * 2 * N * 4));
    mba_phase_work(l, MBA_END, 0, NULL);
    mba_phase_move(l, MBA_STORE, MBA_ARG_SCRATCH(CU_SUMS), (double)(CH * (N + 2) * 4));
}

/* The second stage of the sums, of both paths. */
static void plan_sums(mba_plan *p, const mba_node *n, scan_dims d, int64_t items, int64_t width)
{
    const int64_t each = d.N % 4 ? 1 : 4, blocks = mba_ceil(d.D / d.G, width), values = d.B * d.L * d.G * 2 * d.N;
    mba_launch   *l = mba_plan_launch(p, "scan_sums_bc", MBA_VECTOR, mba_ceil(values, 256 * each), 256);
    l->regs = 40;
    mba_phase_move(l, MBA_LOAD, MBA_ARG_SCRATCH(CU_BC), 256.0 * 4 * (double)(each * blocks));
    mba_phase_work(l, MBA_FMA, 256.0 * (double)(each * blocks), NULL);
    store_operand(l, n, DB, 128.0 * (double)each);
    store_operand(l, n, DC, 128.0 * (double)each);
    l = mba_plan_launch(p, "scan_sums_items", MBA_VECTOR, mba_ceil(d.D * (d.N + 2), 32), 512);
    l->regs = 32;
    mba_phase_move(l, MBA_LOAD, MBA_ARG_SCRATCH(CU_SUMS), 128.0 * (double)items);
    mba_phase_work(l, MBA_FMA, 32.0 * (double)items, NULL);
    mba_phase_work(l, MBA_BARRIER, 1, NULL);
    store_operand(l, n, DA_LOG, 32);
}

/* dB and dC of each block of channels, and what each item adds to the parameters. */
static void scratch_of_sums(mba_plan *p, scan_dims d, int64_t items, int64_t width)
{
    mba_plan_scratch(p, "dB, dC", sizeof(float) * (size_t)(channel_blocks(d, width) * d.B * d.L * 2 * d.N));
    mba_plan_scratch(p, "sums", sizeof(float) * (size_t)(items * d.D * (d.N + 2)));
}

mba_status selective_scan_bwd_tiles_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    const scan_dims d = scan_dims_of(n);
    MBA_TRY(fast_takes(n, m, true));
    double        time, wide;
    const int64_t items = best_items(d, TILE_CHANNELS, (int64_t)m->sm * (384 / (8 * d.N)), can_pack(n, d, true), NULL,
                                     &time);
    const scan_partition c = scan_partition_of(d, items);
    const int64_t        sub = carry_parts(d, items, m);
    const size_t         e = mba_dtype_bytes(n->in[U]->type.dtype);
    time = forward_widths[1].us * time_of(d, items, TILE_CHANNELS, forward_places(d, TILE_CHANNELS, m));
    wide = forward_widths[0].us * time_of(d, items, 2 * TILE_CHANNELS, forward_places(d, 2 * TILE_CHANNELS, m));
    scratch_of_pieces(p, d, items, sub, true);
    mba_plan_scratch(p, "kept states", e * (size_t)(items * c.tiles * d.D * d.N));
    mba_plan_scratch(p, "y", n->out[DZ] ? e * (size_t)(d.B * d.L * d.D) : 0);
    scratch_of_sums(p, d, items, TILE_CHANNELS);
    plan_forward(p, n, d, items, wide < time ? 2 * TILE_CHANNELS : TILE_CHANNELS, true);
    if (c.pieces > 1) plan_carries(p, n, d, items, sub, true);
    plan_backward(p, n, d, items, false);
    plan_sums(p, n, d, items, TILE_CHANNELS);
    return MBA_OK;
}

mba_status selective_scan_bwd_specialized_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    const scan_dims d = scan_dims_of(n);
    MBA_TRY(specialized_takes(n, m, true));
    MBA_REFUSE_IF(!n->in[KEPT_IN] || (n->out[DZ] && !n->in[YS_IN]), "a forward pass that kept no states");
    PACKS_TAKEN(n, d, n->in[KEPT_IN], true);
    const int64_t items = specialized_items(d, TILE_CHANNELS, m, d.N == 16 ? &backward_pace : &backward_pace_8,
                                            n->in[KEPT_IN], false);
    const int64_t sub = carry_parts(d, items, m);
    scratch_of_pieces(p, d, items, sub, true);
    mba_plan_scratch(p, "no states", 0);
    mba_plan_scratch(p, "no y", 0);
    scratch_of_sums(p, d, items, TILE_CHANNELS);
    if (items > d.B) plan_carries(p, n, d, items, sub, true);
    plan_backward(p, n, d, items, true);
    plan_sums(p, n, d, items, TILE_CHANNELS);
    return MBA_OK;
}

/* ---- plain: anything ---- */

/* Of one block: a sequence of 32 channels. */
static double plain_values(scan_dims d) { return (double)(d.L * PLAIN_CHANNELS); }

/* Bytes of states that the backward starts its chunks from. */
static double plain_kept(scan_dims d) { return 4.0 * (double)(mba_ceil(d.L, PLAIN_CHUNK) * PLAIN_CHANNELS * d.N); }

static mba_launch *begin_lane(mba_plan *p, const mba_node *n, scan_dims d, const char *kernel, int regs)
{
    mba_launch *l = mba_plan_launch(p, kernel, MBA_VECTOR, d.B, PLAIN_CHANNELS);
    l->grid[1] = channel_blocks(d, PLAIN_CHANNELS);
    l->regs = regs;
    load_operand(l, n, U, plain_values(d));
    load_operand(l, n, DELTA, plain_values(d));
    load_states(l, n, d, PLAIN_CHANNELS, BM, CM, (double)d.L);
    return l;
}

/* `states`: for the backward, without the output. */
static void plan_lane(mba_plan *p, const mba_node *n, scan_dims d, bool states)
{
    const double values = plain_values(d), elements = values * (double)d.N;
    mba_launch  *l = begin_lane(p, n, d, "scan_fwd_lane", 80);
    mba_phase_move(l, MBA_LOAD, MBA_ARG_SCRATCH(CU_SPACE), elements * 8);
    mba_phase_work(l, MBA_SFU, elements, NULL);
    mba_phase_work(l, MBA_FMA, elements * 4, NULL);
    mba_phase_move(l, MBA_STORE, MBA_ARG_SCRATCH(CU_SPACE), elements * 4);
    if (states) {
        mba_phase_move(l, MBA_STORE, MBA_ARG_SCRATCH(CU_KEPT), plain_kept(d));
        return;
    }
    load_operand(l, n, Z, values);
    if (n->out[KEPT]) store_operand(l, n, KEPT, (double)mba_elems(n->out[KEPT]) / (double)(l->grid[0] * l->grid[1]));
    store_operand(l, n, YS, values);
    store_operand(l, n, OUT, values);
}

static void plan_bwd_lane(mba_plan *p, const mba_node *n, scan_dims d)
{
    const double values = plain_values(d), elements = values * (double)d.N;
    mba_launch  *l = begin_lane(p, n, d, "scan_bwd_lane", 128);
    load_operand(l, n, Z, values);
    load_operand(l, n, DOUT, values);
    mba_phase_move(l, MBA_LOAD, MBA_ARG_SCRATCH(CU_KEPT), plain_kept(d));
    mba_phase_move(l, MBA_LOAD, MBA_ARG_SCRATCH(CU_SPACE), elements * 24);
    mba_phase_work(l, MBA_SFU, elements * 2, NULL);
    mba_phase_work(l, MBA_FMA, elements * 20, NULL);
    mba_phase_move(l, MBA_STORE, MBA_ARG_SCRATCH(CU_SPACE), elements * 12);
    store_operand(l, n, DU, values);
    store_operand(l, n, DDELTA, values);
    store_operand(l, n, DZ, values);
    mba_phase_move(l, MBA_STORE, MBA_ARG_SCRATCH(CU_BC), (double)(d.L * 2 * d.N * 4));
    mba_phase_move(l, MBA_STORE, MBA_ARG_SCRATCH(CU_SUMS), (double)(PLAIN_CHANNELS * (d.N + 2) * 4));
}

static mba_status plain_takes(scan_dims d, const mba_machine *m, bool back)
{
    enum { SUMS_BYTES = 16 * 33 * 4 }; // scan_sums_items; nothing else of it has shared memory
    MBA_REFUSE_IF(m->cc < 80, "a device of compute capability %d", m->cc);
    MBA_REFUSE_IF(d.L > INT_MOST || d.D > INT_MOST / 32 || d.B > INT_MOST || d.N > INT_MOST,
                  "more than %d tokens or channels", INT_MOST);
    MBA_REFUSE_IF(channel_blocks(d, PLAIN_CHANNELS) > 65535, "%lld groups", (long long)d.G);
    MBA_REFUSE_IF(back && SUMS_BYTES > m->smem_block_bytes,
                  "gradients of a scan\nwhy: a block needs %d bytes of shared memory, the machine has %lld", SUMS_BYTES,
                  (long long)m->smem_block_bytes);
    return MBA_OK;
}

/* Scratch as CU_* counts it; `arrays`: of N values per lane. */
static void scratch_of_lane(mba_plan *p, scan_dims d, int64_t arrays, bool back)
{
    scratch_of_pieces(p, d, d.B, 1, false);
    mba_plan_scratch(p, "kept states",
                     back ? sizeof(float) * (size_t)(d.B * mba_ceil(d.L, PLAIN_CHUNK) * d.D * d.N) : 0);
    mba_plan_scratch(p, "y", 0);
    if (back) scratch_of_sums(p, d, d.B, PLAIN_CHANNELS);
    else
        for (int k = 0; k < 2; k++) mba_plan_scratch(p, "no sums", 0);
    mba_plan_scratch(p, "states",
                     sizeof(float) * (size_t)(d.B * channel_blocks(d, PLAIN_CHANNELS) * arrays * d.N * PLAIN_CHANNELS));
}

mba_status selective_scan_lane_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    const scan_dims d = scan_dims_of(n);
    MBA_TRY(plain_takes(d, m, false));
    scratch_of_lane(p, d, 2, false);
    plan_lane(p, n, d, false);
    return MBA_OK;
}

mba_status selective_scan_bwd_lane_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    const scan_dims d = scan_dims_of(n);
    MBA_TRY(plain_takes(d, m, true));
    scratch_of_lane(p, d, PLAIN_CHUNK + 4, true);
    plan_lane(p, n, d, true);
    plan_bwd_lane(p, n, d);
    plan_sums(p, n, d, d.B, PLAIN_CHANNELS);
    return MBA_OK;
}
