// SPDX-License-Identifier: Apache-2.0
/* ssd_split.c -- how the walks of `fused` share the chunks of all items (a sequence, two heads) where neither whole
 * items nor equal segments of them (ssd_segments_of) fill the SMs.
 *
 * All chunks lie in one row, item after item, in the order in which a walk meets them; each block takes one range of
 * it. A walk needs the state that enters, so where a range begins inside an item somebody must have made it:
 *
 *   handed   at least one item per block, each item cut once at most. A block takes its pieces from the last to the
 *            first, so the piece that another block continues comes first, and the one that continues another's comes
 *            last: by then its state is there, and no block waits for one that waits
 *   again    fewer items than blocks, two or three pieces each: a block first walks the piece before its own for the
 *            state alone, without output, at half the price. Where that one does not begin its item, the block that has
 *            it hands on the state it begins with as soon as it knows it, which is when this one is about done. Ranges
 *            are cut such that all blocks end together; no launch before the walk. Chunks go by two, as that walk does
 *
 * Costs are in hundredths of a walked chunk (H200: 1.5 us forwards, 2 to 3 with states to save and backwards). The
 * choice depends on the shape and the number of SMs alone. */
#include "ops/ssd/ssd_slots.h"

/* chunk, cut: of a walk, of one through ranges, whose registers are short; fold: of one state; state: of a chunk in a
 * block of ssd_states; launch: of ssd_states, with what its blocks do before and after their chunks; again: of a chunk
 * for its state alone. */
typedef struct prices {
    int64_t chunk, cut, begin, fold, leave, state, launch, again;
} prices;
static const prices price_of[2] = { { 100, 103, 120, 53, 60, 83, 300, 50 }, { 100, 103, 80, 35, 30, 55, 200, 40 } };

/* Chunks of a state; states of a piece; percent to gain; pieces of an item, where each state waits for the last. */
enum { STATES_LEAST = 4, SHARES_MAX = 8, GAIN = 5, CHAIN_MAX = 5 };

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

/* ---- ssd_states ---- */

int64_t ssd_state_heads(const ssd_dims *d) { return d->J % 4 || d->H % 4 ? SSD_HEADS : 2 * SSD_HEADS; }

static int64_t cost_of_states(int64_t sms, const prices *p, int64_t blocks, int64_t chunks)
{
    return p->launch + mba_ceil(blocks, sms) * chunks * p->state;
}

/* ---- whole items, or equal segments of them ---- */

static int64_t cost_of_ranges(const ssd_segments *r, int64_t sms, const prices *p)
{
    const int64_t walk = mba_ceil(r->items, r->grid) * (r->per_segment * p->chunk + p->begin);
    if (r->segments == 1) return walk;
    return walk + cost_of_states(sms, p, r->state_blocks, mba_ceil(r->per_segment, r->parts))
           + (r->segments - 1) * r->parts * p->fold;
}

ssd_segments ssd_segments_as(const ssd_dims *d, int64_t K, int64_t segments, int64_t parts, int64_t sms)
{
    ssd_segments r = { .K = K, .segments = segments, .parts = parts, .per_segment = mba_ceil(K, segments) };
    r.items = d->B * d->H / SSD_HEADS * segments;
    r.state_blocks = d->B * d->H / ssd_state_heads(d) * (segments - 1) * parts;
    r.grid = least(r.items, sms);
    if (r.grid * SSD_ITEMS_PER_BLOCK < r.items) r.grid = mba_ceil(r.items, SSD_ITEMS_PER_BLOCK);
    return r;
}

/* The cheapest. Every segment and every part of one has chunks. */
ssd_segments ssd_segments_of(const ssd_dims *d, int64_t sms, bool backward)
{
    enum { MOST = 32 };
    const prices *p = &price_of[backward];
    int64_t       K = mba_ceil(d->L, 64);
    if (backward) K = (K + 1) / 2 * 2;
    ssd_segments best = ssd_segments_as(d, K, 1, 1, sms);
    for (int64_t s = 2; s <= MOST && K / s >= STATES_LEAST; s++)
        for (int64_t n = 1; n <= SHARES_MAX; n++) {
            const ssd_segments r = ssd_segments_as(d, K, s, n, sms);
            if (mba_ceil(K, r.per_segment) != s || mba_ceil(r.per_segment, mba_ceil(r.per_segment, n)) != n) continue;
            if (n > 1 && r.per_segment / n < STATES_LEAST) break;
            if (cost_of_ranges(&r, sms, p) < cost_of_ranges(&best, sms, p)) best = r;
        }
    return best;
}

/* ---- what a cut costs ---- */

/* Chunks of its item that lie before range j, `at` the first of it; those it walks again. */
static int64_t chunks_before(const ssd_split *r, int64_t at) { return at % r->K; }
static int64_t chunks_again(const ssd_split *r, int64_t j, int64_t at)
{
    const int64_t before = chunks_before(r, at);
    return before ? least(before, at - r->at[j - 1]) : 0;
}
/* Whether range j begins with a state of the block before. */
static bool takes(const ssd_split *r, int64_t j, int64_t at)
{
    const int64_t before = chunks_before(r, at);
    return before && (r->how == SSD_STATE_PASSED || chunks_again(r, j, at) < before);
}
/* Of the state that range j begins with. */
static int64_t entering(const ssd_split *r, const prices *p, int64_t j, int64_t at)
{
    return (r->how == SSD_STATE_RECOMPUTED ? chunks_again(r, j, at) * p->again : 0) + (takes(r, j, at) ? p->fold : 0);
}
/* How long range j then waits for a state that the block before has after `known`, if it has begun with that. */
static int64_t waiting(const ssd_split *r, const prices *p, int64_t j, int64_t at, int64_t column_regs)
{
    if (r->how == SSD_STATE_PASSED || !takes(r, j, at)) return 0;
    return most(column_regs + p->leave + p->fold - p->begin - entering(r, p, j, at), 0);
}
/* Whether the block of a range from one to the other hands a state on. */
static bool leaves(const ssd_split *r, int64_t from, int64_t to)
{
    return chunks_before(r, to) && (r->how == SSD_STATE_PASSED || (chunks_before(r, from) && from / r->K == to / r->K));
}

/* Of the block that ends last. Walked again: a block has its state no sooner than the one it takes it from. */
static int64_t cost_of(const ssd_split *r)
{
    const prices *p = &price_of[r->backward];
    int64_t       dearest = 0, column_regs = 0;
    for (int64_t j = 0; j < r->blocks; j++) {
        const int64_t from = r->at[j], to = r->at[j + 1], first = least(r->K - chunks_before(r, from), to - from);
        const int64_t pieces = (to - 1) / r->K - from / r->K + 1;
        const int64_t others = (to - from - first) * p->cut + (pieces - 1) * p->begin; // which come first
        column_regs = p->begin + entering(r, p, j, from) + most(others, waiting(r, p, j, from, column_regs));
        dearest = most(dearest, column_regs + first * p->cut + (leaves(r, from, to) ? p->leave : 0));
    }
    return dearest;
}

/* ---- cuts ---- */

/* Ranges that cost `limit` at most, as long as they can be; false: more than `blocks`. */
static bool cut_within(ssd_split *r, int64_t limit, int64_t blocks)
{
    const prices *p = &price_of[r->backward];
    const int64_t end = r->items * r->K;
    int64_t       at = 0, column_regs = 0;
    for (r->blocks = 0; at < end; r->blocks++) {
        const int64_t from = at, enter = entering(r, p, r->blocks, at);
        int64_t       wait = waiting(r, p, r->blocks, at, column_regs), left = limit - enter - wait;
        if (r->blocks == blocks) return false;
        r->at[r->blocks] = (int32_t)at;
        column_regs = p->begin + enter + wait;
        while (at < end) {
            const int64_t rest = r->K - at % r->K;
            left -= p->begin;
            if (left < rest * p->cut) break;
            left -= rest * p->cut - wait; // the next piece is walked meanwhile
            at += rest;
            wait = 0;
        }
        if (at < end && (r->how == SSD_STATE_PASSED || (at == from && at % r->K))) left -= p->leave;
        if (at < end && left >= p->cut) at += left / p->cut;
        if (r->how == SSD_STATE_RECOMPUTED) at -= at % r->K % 2;
        if (at == from) return false;
    }
    for (int64_t j = r->blocks; j <= SSD_BLOCKS_MAX; j++) r->at[j] = (int32_t)end;
    return true;
}

static void cut_evenly(ssd_split *r, int64_t blocks)
{
    int64_t low = 0, high = 1; // low: too little, high: enough
    while (!cut_within(r, high, blocks)) low = high, high *= 2;
    while (high - low > 1) {
        const int64_t middle = (low + high) / 2;
        if (cut_within(r, middle, blocks)) high = middle;
        else low = middle;
    }
    (void)cut_within(r, high, blocks);
}

static void count_pieces(ssd_split *r)
{
    r->pieces = r->segments = r->handed = r->again = r->taken = 0;
    for (int64_t j = 0; j < r->blocks; j++) {
        const int64_t item = r->at[j] / r->K;
        int64_t       begun = j; // the range in which this item begins
        while (r->at[begun] > item * r->K) begun--;
        r->before[j] = (uint16_t)(j - begun);
        r->pieces += (r->at[j + 1] - 1) / r->K - item + 1;
        r->segments = most(r->segments, j - begun + 1);
        r->taken += takes(r, j, r->at[j]);
        if (r->how == SSD_STATE_RECOMPUTED) r->again += chunks_again(r, j, r->at[j]);
    }
    if (r->taken) r->handed = r->blocks;
}

ssd_split ssd_split_as(const ssd_dims *d, ssd_split_kind how, int64_t blocks, bool backward)
{
    ssd_split r = { .K = mba_ceil(d->L, 64), .items = d->B * d->H / SSD_HEADS, .how = how, .backward = backward };
    if (backward) r.K = (r.K + 1) / 2 * 2;
    cut_evenly(&r, blocks);
    count_pieces(&r);
    return r;
}

/* What a launch can do: ranges of a list of pieces, and no chain of blocks that wait. */
static bool possible(const ssd_split *r)
{
    for (int64_t j = 0; j < r->blocks; j++) {
        const bool begins = r->at[j] % r->K, ends = r->at[j + 1] % r->K;
        if (r->how == SSD_STATE_PASSED && begins && ends && r->at[j] / r->K == r->at[j + 1] / r->K) return false;
    }
    return true;
}

ssd_split ssd_split_of(const ssd_dims *d, int64_t sms, bool backward)
{
    const ssd_split none = { .how = SSD_UNSPLIT };
    const int64_t   items = d->B * d->H / SSD_HEADS, most_blocks = least(sms, SSD_BLOCKS_MAX), K = mba_ceil(d->L, 64);
    if (items % most_blocks == 0 || items >= SSD_LIST_MAX * most_blocks || items * K < 2 * most_blocks) return none;
    /* A plan says how many blocks there are, not how many there might have been: both must lead to the same cut. */
    const ssd_split_kind how = items < most_blocks ? SSD_STATE_RECOMPUTED : SSD_STATE_PASSED;
    ssd_split            r = ssd_split_as(d, how, most_blocks, backward);
    for (int64_t before = most_blocks; r.blocks < before;) {
        before = r.blocks;
        r = ssd_split_as(d, how, before, backward);
    }
    if (!possible(&r) || r.pieces == r.items || (how == SSD_STATE_RECOMPUTED && r.segments > CHAIN_MAX)) return none;
    const ssd_segments uncut = ssd_segments_of(d, sms, backward);
    if (how == SSD_STATE_RECOMPUTED && uncut.segments == 1) return none; // whole items in step: cut, they lost (ssd.md)
    return cost_of(&r) * 100 < cost_of_ranges(&uncut, sms, &price_of[backward]) * (100 - GAIN) ? r : none;
}
