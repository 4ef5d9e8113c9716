/* ssd_ranges.c -- how the walks of `fused` share the chunks of all items (a sequence, two heads) among blocks.
 *
 * All chunks lie in one row, item after item, in the order in which a walk meets them; each block takes one range of
 * it. A walk needs the state that enters, so where a range begins inside an item somebody must have made it:
 *
 *   whole    ranges end where items end: nothing to hand on
 *   handed   at least one item per block, each item cut once at most. A block takes its pieces from the last to the
 *            first, so the piece that another block continues comes first, and the one that continues another's comes
 *            last: by then its state is there, and no block waits for one that waits
 *   equal    fewer items than blocks: each cut into k pieces; a launch before the walk makes what every piece but the
 *            last of an item adds to the state, and the walk folds what lies before its piece, in order
 *   even     the same with ranges of equal cost that do not care where items end
 *
 * Costs are in hundredths of a walked chunk (H200: 1.5 us forwards; backwards 5.6 us for both walks). The choice
 * depends on the shape and the number of SMs alone. */
#include "ops/ssd/ssd_slots.h"

typedef struct prices { int64_t chunk, begin, fold, leave, state_chunk, launch; } prices;
static const prices price_of[2] = { { 100, 150, 50, 40, 45, 450 }, { 100, 80, 30, 20, 30, 300 } };

enum { STATES_LEAST = 4 };                        /* chunks of a block that makes states: fewer are not worth a block */

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

static ssd_ranges begin_ranges(const ssd_dims *d, bool backward, ssd_how how)
{
    ssd_ranges r = { .K = mba_ceil(d->L, 64), .items = d->B * d->H / SSD_HEADS, .how = how, .backward = backward };
    if (backward) r.K = (r.K + 1) / 2 * 2;
    return r;
}

/* ---- what a cut costs ---- */

/* Where the part of range j begins whose state at its end somebody needs: the piece that the next range continues. */
static int64_t piece_begin(const ssd_ranges *r, int64_t j)
{
    return most(r->at[j], r->at[j + 1] / r->K * r->K);
}

/* States before a piece that continues an item, folded on entering it. */
static int64_t folds_at(const ssd_ranges *r, int64_t j)
{
    const int64_t item = r->at[j] / r->K * r->K;
    int64_t       n = 0;
    while (j-- > 0 && r->at[j + 1] > item)
        for (int64_t b = r->first[j]; b < r->pre && r->pre_at[b] < r->at[j + 1]; b++) n++;
    return n;
}

/* The dearest range. */
static int64_t cost_of_walk(const ssd_ranges *r)
{
    const prices *p = &price_of[r->backward];
    int64_t       dearest = 0;
    for (int64_t j = 0; j < r->blocks; j++) {
        const int64_t pieces = (r->at[j + 1] - 1) / r->K - r->at[j] / r->K + 1;
        int64_t       cost = (r->at[j + 1] - r->at[j]) * p->chunk + pieces * p->begin;
        if (r->at[j] % r->K)     cost += r->pre ? folds_at(r, j) * p->fold : p->fold;
        if (r->at[j + 1] % r->K) cost += r->pre ? 0 : p->leave;
        dearest = most(dearest, cost);
    }
    return dearest;
}

static int64_t cost_of(const ssd_ranges *r)
{
    const prices *p = &price_of[r->backward];
    int64_t       cost = cost_of_walk(r);
    if (r->pre) cost += p->launch + p->begin + r->pre_chunks * p->state_chunk;
    return cost;
}

/* ---- the launch that makes states ---- */

/* Cuts what needs states into blocks of `per` chunks; 0: a block per piece. */
static void share_states(ssd_ranges *r, int64_t per)
{
    int64_t left = 0, chunks = 0;
    r->pre = r->pre_chunks = 0;
    for (int64_t j = 0; j < r->blocks; j++) {
        const int64_t end = r->at[j + 1];
        int64_t       from = end % r->K ? piece_begin(r, j) : end;
        if (!per) left = 0;
        for (bool begun = false; from < end; begun = true) {
            if (!left) {
                r->pre_at[r->pre] = (int32_t)from;
                r->piece[r->pre++] = (uint16_t)j;
                left = per ? per : end - from;
                chunks = 0;
            }
            if (!begun) r->first[j] = (uint16_t)(r->pre - 1);
            const int64_t take = least(left, end - from);
            from += take;
            left -= take;
            chunks += take;
            r->pre_chunks = most(r->pre_chunks, chunks);
        }
    }
    r->pre_at[r->pre] = (int32_t)(r->items * r->K);
}

/* Blocks for each piece, or an equal share for all of them: that makes more states to fold. */
static void make_states(ssd_ranges *r)
{
    int64_t all = 0;
    for (int64_t j = 0; j < r->blocks; j++) all += r->at[j + 1] % r->K ? r->at[j + 1] - piece_begin(r, j) : 0;
    share_states(r, 0);
    const int64_t by_piece = cost_of(r);
    share_states(r, most(mba_ceil(all, r->blocks), STATES_LEAST));
    if (by_piece <= cost_of(r)) share_states(r, 0);
}

/* ---- cuts ---- */

static void cut_equally(ssd_ranges *r, int64_t blocks)      /* whole: blocks at most items; equal: a multiple */
{
    r->blocks = blocks;
    for (int64_t j = 0; j <= blocks; j++)
        r->at[j] = (int32_t)(blocks > r->items ? j * r->items * r->K / blocks : j * r->items / blocks * r->K);
}

/* Ranges that cost `limit` at most, as long as they can be; false: more than `blocks`. */
static bool cut_within(ssd_ranges *r, int64_t limit, int64_t blocks)
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
    r->at[r->blocks] = (int32_t)end;
    return true;
}

static void cut_evenly(ssd_ranges *r, int64_t blocks)
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

static bool ranges_within_items(const ssd_ranges *r)        /* a range inside an item, cut at both of its ends */
{
    for (int64_t j = 0; j < r->blocks; j++)
        if (r->at[j] % r->K && r->at[j + 1] % r->K && r->at[j] / r->K == r->at[j + 1] / r->K) return true;
    return false;
}

static void count_pieces(ssd_ranges *r)
{
    r->pieces = r->segments = r->folds = 0;
    for (int64_t j = 0; j < r->blocks; j++) {
        const int64_t item = r->at[j] / r->K;
        int64_t       begun = j;                       // the range in which this item begins
        while (r->at[begun] > item * r->K) begun--;
        r->pieces  += (r->at[j + 1] - 1) / r->K - item + 1;
        r->segments = most(r->segments, j - begun + 1);
        if (begun < j) r->folds += r->pre ? folds_at(r, j) : 1;
    }
}

ssd_ranges ssd_ranges_as(const ssd_dims *d, ssd_how how, int64_t blocks, bool backward)
{
    ssd_ranges r = begin_ranges(d, backward, how);
    if (how == SSD_WHOLE || how == SSD_EQUAL) cut_equally(&r, blocks);
    else                                      cut_evenly(&r, blocks);
    if (how == SSD_EQUAL || how == SSD_EVEN) make_states(&r);
    count_pieces(&r);
    return r;
}

static void consider(ssd_ranges *best, const ssd_dims *d, ssd_how how, int64_t blocks)
{
    const ssd_ranges r = ssd_ranges_as(d, how, blocks, best->backward);
    if (how == SSD_HANDED && ranges_within_items(&r)) return;
    if (how == SSD_EVEN && r.blocks % r.items == 0) return;        // the plan would read as `equal`
    if (r.pieces > r.items && cost_of(&r) < cost_of(best)) *best = r;
}

ssd_ranges ssd_ranges_of(const ssd_dims *d, int64_t sms, bool backward)
{
    enum { MANY = 64, K_MOST = 32 };                   // items of a block beyond which cutting one gains nothing
    const int64_t items = d->B * d->H / SSD_HEADS, blocks = least(sms, SSD_BLOCKS_MAX);
    ssd_ranges    best = ssd_ranges_as(d, SSD_WHOLE, least(items, blocks), backward);
    if (best.K == 1) return best;
    if (items >= blocks) {
        if (items < MANY * blocks && items % blocks) consider(&best, d, SSD_HANDED, blocks);
        return best;
    }
    for (int64_t k = 2; k <= K_MOST && k <= best.K && items * k <= blocks; k++) consider(&best, d, SSD_EQUAL, items * k);
    if (blocks % items && items * best.K >= 2 * blocks) consider(&best, d, SSD_EVEN, blocks);
    return best;
}

/* The plan's launches say which cut it is: whole pieces are items; only states have a launch of their own. */
ssd_how ssd_how_of(int64_t items, int64_t pieces, int64_t blocks, bool states)
{
    if (pieces == items) return SSD_WHOLE;
    if (!states)         return SSD_HANDED;
    return blocks % items ? SSD_EVEN : SSD_EQUAL;
}
