// SPDX-License-Identifier: Apache-2.0
/* ssd_split.c -- load balance of the scan kernels of `fused`: who processes which chunks of which work item.
 *
 * A work item is (sequence, pair of heads). There are three ways, and a cost model chooses; it depends on the shape and
 * the number of SMs alone.
 *
 *   segments          whole items, or items divided into equal segments (ssd_segments_of). ssd_states then computes the
 *                     states between segments in a launch of its own.
 *   STATE_PASSED      at least one item per block. The chunks of all items form one list, item after item, in the order
 *                     of the scan; each block takes one contiguous range. Each item is split once at most. A block
 *                     processes its items from the last to the first: first the item that the next block continues,
 *                     last the one that it continues itself. By then that state is published, and no block waits for
 *                     one that waits.
 *   STATE_RECOMPUTED  fewer items than blocks, at most five ranges per item. A block first recomputes the preceding
 *                     range for the state alone, without output, at half the cost per chunk. If that range does not
 *                     begin its item, the block that owns it publishes the state that enters it as soon as it knows it,
 *                     which is about when this block has finished recomputing. Range boundaries are even, because the
 *                     recomputation takes two chunks at a time.
 *
 * Both split ways choose ranges such that all blocks end together, and need no launch before the scan. Costs are in
 * hundredths of the time of a chunk (H200: 1.5 us forward; 2 to 3 us when states are saved, and backward). */
#include "ops/ssd/ssd_slots.h"

/* Costs: chunk, of a chunk in whole items; split_chunk, in ranges, where registers are short; item_start, of an item;
 * add_state, of loading and adding one state; publish, of publishing one; state_chunk, of a chunk in ssd_states;
 * launch, of ssd_states with the prologue and epilogue of its blocks; recompute, of a chunk for its state alone. The
 * second row is for scans that save states, and for the reverse scan. */
typedef struct costs {
    int64_t chunk, split_chunk, item_start, add_state, publish, state_chunk, launch, recompute;
} costs;
static const costs cost_table[2] = { { 100, 103, 120, 53, 60, 83, 300, 50 }, { 100, 103, 80, 35, 30, 55, 200, 40 } };

/* Fewest chunks per part of ssd_states; most parts per segment; least gain over segments, in percent; most ranges per
 * item in STATE_RECOMPUTED, where each waits for the one before. */
enum { PART_CHUNKS_MIN = 4, PARTS_MAX = 8, GAIN_MIN_PERCENT = 5, RANGES_PER_ITEM_MAX = 5 };

static int64_t min_i64(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t max_i64(int64_t a, int64_t b) { return a > b ? a : b; }

/* ---- ssd_states ---- */

/* Heads of a block share B, so they have the same tile of n. */
int64_t ssd_state_heads(const ssd_dims *d)
{
    const int64_t J = d->NT ? d->J / d->NT : d->J;
    return J % (2 * SSD_HEADS) ? SSD_HEADS : 2 * SSD_HEADS;
}

static int64_t cost_of_states(int64_t sms, const costs *p, int64_t blocks, int64_t chunks)
{
    return p->launch + mba_ceil(blocks, sms) * chunks * p->state_chunk;
}

/* ---- whole items, or equal segments of them ---- */

static int64_t cost_of_segments(const ssd_segments *r, int64_t sms, const costs *p)
{
    const int64_t walk = mba_ceil(r->items, r->grid) * (r->per_segment * p->chunk + p->item_start);
    if (r->segments == 1) return walk;
    return walk + cost_of_states(sms, p, r->state_blocks, mba_ceil(r->per_segment, r->parts))
           + (r->segments - 1) * r->parts * p->add_state;
}

ssd_segments ssd_segments_as(const ssd_dims *d, int64_t K, int64_t segments, int64_t parts, int64_t sms)
{
    ssd_segments r = { .K = K, .segments = segments, .parts = parts, .per_segment = mba_ceil(K, segments) };
    r.items = d->B * d->H / SSD_HEADS * segments;
    r.state_blocks = d->B * d->H / ssd_state_heads(d) * (segments - 1) * parts;
    r.grid = min_i64(r.items, sms);
    if (r.grid * SSD_ITEMS_PER_BLOCK < r.items) r.grid = mba_ceil(r.items, SSD_ITEMS_PER_BLOCK);
    return r;
}

/* The cheapest division into segments. Every segment and every part has at least one chunk. */
ssd_segments ssd_segments_of(const ssd_dims *d, int64_t sms, bool backward)
{
    enum { SEGMENTS_MAX = 32 };
    const costs *p = &cost_table[backward];
    int64_t      K = mba_ceil(d->L, 64);
    if (backward) K = (K + 1) / 2 * 2;
    ssd_segments best = ssd_segments_as(d, K, 1, 1, sms);
    for (int64_t s = 2; s <= SEGMENTS_MAX && K / s >= PART_CHUNKS_MIN; s++)
        for (int64_t n = 1; n <= PARTS_MAX; n++) {
            const ssd_segments r = ssd_segments_as(d, K, s, n, sms);
            if (mba_ceil(K, r.per_segment) != s || mba_ceil(r.per_segment, mba_ceil(r.per_segment, n)) != n) continue;
            if (n > 1 && r.per_segment / n < PART_CHUNKS_MIN) break;
            if (cost_of_segments(&r, sms, p) < cost_of_segments(&best, sms, p)) best = r;
        }
    return best;
}

/* ---- cost of a split; range j begins at chunk `at` of the list ---- */

/* Chunks of its item that lie before the range; those of them that the range's block recomputes. */
static int64_t chunks_before(const ssd_split *r, int64_t at) { return at % r->K; }
static int64_t chunks_recomputed(const ssd_split *r, int64_t j, int64_t at)
{
    const int64_t before = chunks_before(r, at);
    return before ? min_i64(before, at - r->at[j - 1]) : 0;
}
/* Whether range j needs a state that the previous block publishes. */
static bool receives_state(const ssd_split *r, int64_t j, int64_t at)
{
    const int64_t before = chunks_before(r, at);
    return before && (r->how == SSD_STATE_PASSED || chunks_recomputed(r, j, at) < before);
}
/* Cost of the state that range j begins with. */
static int64_t initial_state_cost(const ssd_split *r, const costs *p, int64_t j, int64_t at)
{
    return (r->how == SSD_STATE_RECOMPUTED ? chunks_recomputed(r, j, at) * p->recompute : 0)
           + (receives_state(r, j, at) ? p->add_state : 0);
}
/* How long range j then waits for a state that the previous block knows at time `state_known`. */
static int64_t wait_cost(const ssd_split *r, const costs *p, int64_t j, int64_t at, int64_t state_known)
{
    if (r->how == SSD_STATE_PASSED || !receives_state(r, j, at)) return 0;
    return max_i64(state_known + p->publish + p->add_state - p->item_start - initial_state_cost(r, p, j, at), 0);
}
/* Whether the block of range [from, to) publishes a state. */
static bool publishes_state(const ssd_split *r, int64_t from, int64_t to)
{
    return chunks_before(r, to) && (r->how == SSD_STATE_PASSED || (chunks_before(r, from) && from / r->K == to / r->K));
}

/* Time at which the last block ends. STATE_RECOMPUTED: a block knows its state no sooner than its predecessor. */
static int64_t cost_of_split(const ssd_split *r)
{
    const costs *p = &cost_table[r->backward];
    int64_t      longest = 0, state_known = 0;
    for (int64_t j = 0; j < r->blocks; j++) {
        const int64_t from = r->at[j], to = r->at[j + 1], first = min_i64(r->K - chunks_before(r, from), to - from);
        const int64_t subranges = (to - 1) / r->K - from / r->K + 1;
        const int64_t others = (to - from - first) * p->split_chunk + (subranges - 1) * p->item_start; // come first
        const int64_t wait = wait_cost(r, p, j, from, state_known);
        state_known = p->item_start + initial_state_cost(r, p, j, from) + max_i64(others, wait);
        longest = max_i64(longest,
                          state_known + first * p->split_chunk + (publishes_state(r, from, to) ? p->publish : 0));
    }
    return longest;
}

/* ---- choice of ranges ---- */

/* Makes each range as long as a cost of `limit` allows. Returns false if that needs more than `blocks` ranges. */
static bool split_within(ssd_split *r, int64_t limit, int64_t blocks)
{
    const costs  *p = &cost_table[r->backward];
    const int64_t end = r->items * r->K;
    int64_t       at = 0, state_known = 0;
    for (r->blocks = 0; at < end; r->blocks++) {
        const int64_t from = at, enter = initial_state_cost(r, p, r->blocks, at);
        int64_t       wait = wait_cost(r, p, r->blocks, at, state_known), left = limit - enter - wait;
        if (r->blocks == blocks) return false;
        r->at[r->blocks] = (int32_t)at;
        state_known = p->item_start + enter + wait;
        while (at < end) {
            const int64_t rest = r->K - at % r->K;
            left -= p->item_start;
            if (left < rest * p->split_chunk) break;
            left -= rest * p->split_chunk - wait; // the wait overlaps with the next item
            at += rest;
            wait = 0;
        }
        if (at < end && (r->how == SSD_STATE_PASSED || (at == from && at % r->K))) left -= p->publish;
        if (at < end && left >= p->split_chunk) at += left / p->split_chunk;
        if (r->how == SSD_STATE_RECOMPUTED) at -= at % r->K % 2;
        if (at == from) return false;
    }
    for (int64_t j = r->blocks; j <= SSD_BLOCKS_MAX; j++) r->at[j] = (int32_t)end;
    return true;
}

/* Finds the smallest limit by bisection. */
static void split_evenly(ssd_split *r, int64_t blocks)
{
    int64_t low = 0, high = 1; // low is too small, high suffices
    while (!split_within(r, high, blocks)) low = high, high *= 2;
    while (high - low > 1) {
        const int64_t middle = (low + high) / 2;
        if (split_within(r, middle, blocks)) high = middle;
        else low = middle;
    }
    (void)split_within(r, high, blocks);
}

static void count_subranges(ssd_split *r)
{
    r->subranges = r->segments = r->state_slots = r->recomputed = r->received = 0;
    for (int64_t j = 0; j < r->blocks; j++) {
        const int64_t item = r->at[j] / r->K;
        int64_t       begun = j; // the range in which this item begins
        while (r->at[begun] > item * r->K) begun--;
        r->before[j] = (uint16_t)(j - begun);
        r->subranges += (r->at[j + 1] - 1) / r->K - item + 1;
        r->segments = max_i64(r->segments, j - begun + 1);
        r->received += receives_state(r, j, r->at[j]);
        if (r->how == SSD_STATE_RECOMPUTED) r->recomputed += chunks_recomputed(r, j, r->at[j]);
    }
    if (r->received) r->state_slots = r->blocks;
}

ssd_split ssd_split_as(const ssd_dims *d, ssd_split_kind how, int64_t blocks, bool backward)
{
    ssd_split r = { .K = mba_ceil(d->L, 64), .items = d->B * d->H / SSD_HEADS, .how = how, .backward = backward };
    if (backward) r.K = (r.K + 1) / 2 * 2;
    split_evenly(&r, blocks);
    count_subranges(&r);
    return r;
}

/* Whether no block waits for a block that waits: STATE_PASSED must not have a range inside one item. */
static bool has_no_wait_chain(const ssd_split *r)
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
    const int64_t   items = d->B * d->H / SSD_HEADS, max_blocks = min_i64(sms, SSD_BLOCKS_MAX), K = mba_ceil(d->L, 64);
    if (items % max_blocks == 0 || items >= SSD_LIST_MAX * max_blocks || items * K < 2 * max_blocks) return none;
    /* The launcher calls ssd_split_as with the number of blocks in the plan: repeat until that gives the same
     * ranges. */
    const ssd_split_kind how = items < max_blocks ? SSD_STATE_RECOMPUTED : SSD_STATE_PASSED;
    ssd_split            r = ssd_split_as(d, how, max_blocks, backward);
    for (int64_t before = max_blocks; r.blocks < before;) {
        before = r.blocks;
        r = ssd_split_as(d, how, before, backward);
    }
    if (!has_no_wait_chain(&r) || r.subranges == r.items) return none;
    if (how == SSD_STATE_RECOMPUTED && r.segments > RANGES_PER_ITEM_MAX) return none;
    const ssd_segments whole = ssd_segments_of(d, sms, backward);
    if (how == SSD_STATE_RECOMPUTED && whole.segments == 1) return none; // measured: whole items are then faster
    const int64_t cost = cost_of_segments(&whole, sms, &cost_table[backward]);
    return cost_of_split(&r) * 100 < cost * (100 - GAIN_MIN_PERCENT) ? r : none;
}
