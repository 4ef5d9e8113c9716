/* ssd_cuts.c -- how the walks of `fused` share the chunks of all items (a sequence, two heads) where neither whole items
 * nor equal segments of them (ssd_ranges_of) fill the SMs.
 *
 * All chunks lie in one row, item after item, in the order in which a walk meets them; each block takes one range of
 * it. A walk needs the state that enters, so where a range begins inside an item somebody must have made it:
 *
 *   handed   at least one item per block, each item cut once at most. A block takes its pieces from the last to the
 *            first, so the piece that another block continues comes first, and the one that continues another's comes
 *            last: by then its state is there, and no block waits for one that waits
 *   even     fewer items than blocks: a launch before the walk makes what every piece but the last of an item adds to
 *            the state, and the walk folds what lies before its piece, in order
 *
 * Costs are in hundredths of a walked chunk (H200: 1.5 us forwards, 2 to 4 with states to save and backwards). The choice depends on the shape and
 * the number of SMs alone. */
#include <string.h>

#include "ops/ssd/ssd_slots.h"

/* state_chunk: of the launch that makes states with all SMs at work; apart: with those alone that have a segment to make
 * one of (29 us for 32 chunks on 64 SMs, where a walk of 32 chunks on 128 took 58). */
typedef struct prices { int64_t chunk, begin, fold, leave, state_chunk, apart, launch; } prices;
static const prices price_of[2] = { { 100, 220, 60, 60, 48, 60, 350 }, { 100, 120, 30, 30, 28, 38, 250 } };

enum { STATES_LEAST = 4, GAIN = 12 };              /* chunks of a block that makes states; percent that a cut must gain */

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

/* What whole items or equal segments of them cost. */
int64_t ssd_cost_uncut(const ssd_dims *d, int64_t sms, bool backward)
{
    const prices    *p = &price_of[backward];
    const ssd_ranges r = ssd_ranges_of(d, sms, backward);
    const int64_t    waves = mba_ceil(r.items, r.grid), walk = waves * (r.per_segment * p->chunk + 150);
    if (r.segments == 1) return walk;
    return walk + p->launch + waves * r.per_segment * p->apart + r.segments * p->fold;
}

/* ---- what a cut costs ---- */

/* Where the part of range j begins whose state at its end somebody needs: the piece that the next range continues. */
static int64_t piece_begin(const ssd_cuts *r, int64_t j)
{
    return most(r->at[j], r->at[j + 1] / r->K * r->K);
}

static int64_t cost_of(const ssd_cuts *r)
{
    const prices *p = &price_of[r->backward];
    int64_t       dearest = 0;
    for (int64_t j = 0; j < r->blocks; j++) {
        const int64_t pieces = (r->at[j + 1] - 1) / r->K - r->at[j] / r->K + 1;
        int64_t       cost = (r->at[j + 1] - r->at[j]) * p->chunk + pieces * p->begin;
        if (r->at[j] % r->K)     cost += r->pre ? (r->fold_to[j] - r->fold_from[j]) * p->fold : p->fold;
        if (r->at[j + 1] % r->K) cost += r->pre ? 0 : p->leave;
        dearest = most(dearest, cost);
    }
    return dearest + (r->pre ? p->launch + p->begin + r->pre_chunks * p->state_chunk : 0);
}

/* ---- the launch that makes states ---- */

/* Cuts what needs states into blocks of `per` chunks; 0: a block per piece. A block's share of a piece is a part. */
static void share_states(ssd_cuts *r, int64_t per)
{
    int64_t left = 0, chunks = 0;
    r->pre = r->parts = r->pre_chunks = 0;
    memset(r->part_at, 0, sizeof r->part_at);
    memset(r->part_end, 0, sizeof r->part_end);
    for (int64_t j = 0; j < r->blocks; j++) {
        const int64_t end = r->at[j + 1];
        int64_t       from = end % r->K ? piece_begin(r, j) : end;
        if (from == r->at[j + 1] / r->K * r->K) r->fold_from[j + 1] = (uint16_t)r->parts;      // the item begins here
        else                                    r->fold_from[j + 1] = r->fold_from[j];
        if (!per) left = 0;
        while (from < end) {
            if (!left) {
                r->part[r->pre++] = (uint16_t)r->parts;
                left   = per ? per : end - from;
                chunks = 0;
            }
            const int64_t take = least(left, end - from);
            r->part_at[r->parts]    = (int32_t)from;
            r->part_end[r->parts++] = (int32_t)(from + take);
            from   += take;
            left   -= take;
            chunks += take;
            r->pre_chunks = most(r->pre_chunks, chunks);
        }
        r->fold_to[j + 1] = (uint16_t)r->parts;
    }
    for (int64_t b = r->pre; b <= SSD_BLOCKS_MAX; b++) r->part[b] = (uint16_t)r->parts;
}

/* A block for each piece, or an equal share for all blocks: that makes more states to fold. */
static void make_states(ssd_cuts *r)
{
    int64_t all = 0;
    for (int64_t j = 0; j < r->blocks; j++) all += r->at[j + 1] % r->K ? r->at[j + 1] - piece_begin(r, j) : 0;
    share_states(r, 0);
    const int64_t by_piece = cost_of(r);
    share_states(r, most(mba_ceil(all, r->blocks), STATES_LEAST));
    if (by_piece <= cost_of(r)) share_states(r, 0);
}

/* ---- cuts ---- */

/* Ranges that cost `limit` at most, as long as they can be; false: more than `blocks`. */
static bool cut_within(ssd_cuts *r, int64_t limit, int64_t blocks)
{
    const prices *p = &price_of[r->backward];
    const int64_t end = r->items * r->K;
    int64_t       at = 0, before = 0;                  // before: pieces of this item so far
    for (r->blocks = 0; at < end; r->blocks++) {
        int64_t left = limit, from = at;
        if (r->blocks == blocks) return false;
        r->at[r->blocks] = (int32_t)at;
        if (at % r->K) left -= r->how == SSD_HANDED ? p->fold : p->fold * before * 3 / 2;
        for (; at < end; before = 0) {
            const int64_t rest = r->K - at % r->K;
            left -= p->begin;
            if (left < rest * p->chunk) break;
            left -= rest * p->chunk;
            at   += rest;
        }
        if (at < end && r->how == SSD_HANDED) left -= p->leave;
        if (at < end && left >= p->chunk) at += left / p->chunk;
        if (at == from) return false;
        before = at % r->K ? before + 1 : 0;
    }
    for (int64_t j = r->blocks; j <= SSD_BLOCKS_MAX; j++) r->at[j] = (int32_t)end;
    return true;
}

static void cut_evenly(ssd_cuts *r, int64_t blocks)
{
    int64_t low = 0, high = 1;                         // low: too little, high: enough
    while (!cut_within(r, high, blocks)) low = high, high *= 2;
    while (high - low > 1) {
        const int64_t middle = (low + high) / 2;
        if (cut_within(r, middle, blocks)) high = middle;
        else                               low = middle;
    }
    (void)cut_within(r, high, blocks);
}

static void count_pieces(ssd_cuts *r)
{
    r->pieces = r->segments = r->folds = 0;
    for (int64_t j = 0; j < r->blocks; j++) {
        const int64_t item = r->at[j] / r->K;
        int64_t       begun = j;                       // the range in which this item begins
        while (r->at[begun] > item * r->K) begun--;
        r->before[j] = (uint16_t)(j - begun);
        r->pieces   += (r->at[j + 1] - 1) / r->K - item + 1;
        r->segments  = most(r->segments, j - begun + 1);
        if (begun < j) r->folds += r->pre ? r->fold_to[j] - r->fold_from[j] : 1;
    }
    r->states = r->pre ? r->parts : r->blocks;
}

ssd_cuts ssd_cuts_as(const ssd_dims *d, ssd_how how, int64_t blocks, bool backward)
{
    ssd_cuts r = { .K = mba_ceil(d->L, 64), .items = d->B * d->H / SSD_HEADS, .how = how, .backward = backward };
    if (backward) r.K = (r.K + 1) / 2 * 2;
    cut_evenly(&r, blocks);
    if (how == SSD_EVEN) make_states(&r);
    count_pieces(&r);
    return r;
}

/* What a launch can do: ranges of a list of pieces, and no chain of blocks that wait. */
static bool possible(const ssd_cuts *r)
{
    for (int64_t j = 0; j < r->blocks; j++) {
        const bool begins = r->at[j] % r->K, ends = r->at[j + 1] % r->K;
        if (r->how == SSD_HANDED && begins && ends && r->at[j] / r->K == r->at[j + 1] / r->K) return false;
    }
    return true;
}

ssd_cuts ssd_cuts_of(const ssd_dims *d, int64_t sms, bool backward)
{
    const ssd_cuts none = { .how = SSD_UNCUT };
    const int64_t  items = d->B * d->H / SSD_HEADS, blocks = least(sms, SSD_BLOCKS_MAX), K = mba_ceil(d->L, 64);
    if (items % blocks == 0 || items >= SSD_LIST_MAX * blocks || items * K < 2 * blocks) return none;
    /* A plan says how many blocks there are, not how many there might have been: both must lead to the same cut. */
    const ssd_how how = items < blocks ? SSD_EVEN : SSD_HANDED;
    ssd_cuts      r = ssd_cuts_as(d, how, blocks, backward);
    for (int64_t before = blocks; r.blocks < before;) {
        before = r.blocks;
        r      = ssd_cuts_as(d, how, before, backward);
    }
    if (!possible(&r) || r.pieces == items) return none;
    return cost_of(&r) * 100 < ssd_cost_uncut(d, sms, backward) * (100 - GAIN) ? r : none;
}
