// SPDX-License-Identifier: Apache-2.0
/* ssd_data_flops.c -- see ssd_data_flops.h. Sums of decays are computed as in the kernel (dependency_length in
 * ssd_fused_items.cuh), in fp32 and in its order, so that a decay at the limit falls on the same side. */
#include "ops/ssd/fused/ssd_data_flops.h"

#include <math.h>
#include <string.h>

#include "ops/ssd/ssd.h"
#include "ops/ssd/ssd_slots.h"

enum { FLAGS = 130, ALL = 131, IS_WIDE_RANGE = 1, HAS_RESET = 2 }; /* words and flags of a record (ssd_fused.cuh) */
enum { LANES = 32, P = 64, N = 128, STATE = P * N, Q = 64 };
static const float LOG_DECAY_MIN = -88.0f;

/* The numbers of the launches, or -1. */
static int states_launch(const mba_plan *p)
{
    int at = -1, n = 0;
    if (strcmp(p->variant, "fused")) return -1;
    for (int k = 0; k < p->nlaunches; k++)
        if (!strncmp(p->launch[k].kernel, "ssd_states", 10)) at = k, n++;
    return n == 1 ? at : -1; // a backward that recomputes states has two, and its own records
}

static int slow_launch(const mba_plan *p)
{
    for (int k = 0; k < p->nlaunches; k++)
        if (!strcmp(p->launch[k].kernel, "ssd_bwd_slow") || !strcmp(p->launch[k].kernel, "ssd_tiled_slow")) return k;
    return -1;
}

const mba_tensor *mba_ssd_records(const mba_node *n, const mba_plan *p)
{
    if (n->op == &mba_op_ssd) return states_launch(p) < 0 ? NULL : n->out[KEPT_RECORDS];
    return n->op == &mba_op_ssd_bwd && slow_launch(p) >= 0 && ssd_has_saved(p, n) ? n->in[RECORDS_IN] : NULL;
}

/* The division into segments, derived from the plan as in work_split_of (ssd_fused_task.cuh). */
static ssd_segments segments_of(const ssd_dims *d, const mba_plan *p)
{
    const int64_t     pairs = d->B * d->H / SSD_HEADS, K = (mba_ceil(d->L, Q) + 1) / 2 * 2;
    const mba_launch *scan = NULL, *states = &p->launch[states_launch(p)];
    for (int k = 0; k < p->nlaunches; k++)
        if (!strncmp(p->launch[k].kernel, "ssd_scan", 8)) scan = &p->launch[k];
    mba_assert(scan);
    const int64_t segments = scan->tiles / pairs, wide = ssd_state_heads(d) / SSD_HEADS;
    return ssd_segments_as(d, K, segments, states->grid[0] * wide / (pairs * (segments - 1)), scan->grid[0]);
}

/* Inclusive prefix sum over lanes, in the order of the kernel's shuffles. */
static void prefix_sum_lanes(float run[LANES])
{
    for (int d = 1; d < LANES; d *= 2)
        for (int lane = LANES - 1; lane >= d; lane--) run[lane] += run[lane - d];
}

/* Counts on how many of `count` chunks a state depends; `first` is the nearest, the others follow by `step`. Returns
 * count + 1 if it depends on what lies before them too. */
static int64_t dependency_length(const float *records, int64_t first, int64_t step, int64_t count)
{
    float sum = 0;
    for (int64_t n = 0; n < count; n += LANES) {
        float run[LANES];
        for (int64_t lane = 0; lane < LANES; lane++) {
            const int64_t c = n + lane;
            const float  *r = records + (first + step * (c < count ? c : count - 1)) * SSD_RECORD;
            run[lane] = c >= count ? 0 : (int)r[FLAGS] & HAS_RESET ? -INFINITY : r[ALL];
        }
        prefix_sum_lanes(run);
        for (int lane = 0; lane < LANES; lane++)
            if (sum + run[lane] < LOG_DECAY_MIN) return n + lane + 1;
        sum += run[LANES - 1];
    }
    return count + 1;
}

/* Chunks of a part, for one head, that ssd_states multiplies. */
static int64_t chunks_multiplied(const float *records, const ssd_segments *r, int64_t seg, int64_t part, bool rev)
{
    const int64_t per = mba_ceil(r->per_segment, r->parts), begin = seg * r->per_segment, c0 = begin + part * per;
    const int64_t own = r->per_segment - part * per < per ? r->per_segment - part * per : per;
    const int64_t chunks = own < r->K - c0 ? own : r->K - c0, end = begin + r->per_segment;
    const int64_t to_end = rev ? c0 - begin : (end < r->K ? end : r->K) - c0 - chunks, before = chunks + to_end;
    const int64_t reach = dependency_length(records, rev ? c0 - to_end : c0 + before - 1, rev ? 1 : -1, before);
    const int64_t left = before - reach > 0 ? before - reach : 0;
    return chunks - (left < chunks ? left : chunks);
}

static double states_flops(const mba_node *n, const mba_plan *p, const float *records)
{
    const ssd_dims     d = ssd_dims_of(n);
    const ssd_segments r = segments_of(&d, p);
    const bool         rev = n->op == &mba_op_ssd_bwd;
    double             sum = 0;
    for (int64_t head = 0; head < d.B * d.H; head++)
        for (int64_t seg = rev; seg < r.segments - !rev; seg++) // the last (reverse: first) has none
            for (int64_t part = 0; part < r.parts; part++)
                sum += (double)chunks_multiplied(records + head * r.K * SSD_RECORD, &r, seg, part, rev);
    return sum * 2.0 * STATE * Q;
}

/* Whether ssd_bwd_slow takes a head of pair c2, by its own copy of the records: the second half
 * (ssd_fused_pairs.cuh). */
static bool is_wide_range_pair(const float *records, const ssd_dims *d, int64_t K, int64_t b, int64_t h, int64_t c2)
{
    const float *r = records + (((d->B + b) * d->H + h) * K + 2 * c2) * SSD_RECORD;
    return ((int)r[FLAGS] | (int)r[SSD_RECORD + FLAGS]) & IS_WIDE_RANGE;
}

/* Tiles of wide-range heads of work item z: pairs of chunks innermost, then sequences, tiles of N, groups. */
static int64_t wide_range_tiles(const float *records, const ssd_dims *d, int64_t K, int64_t z)
{
    const int64_t c2 = z % (K / 2), b = z / (K / 2) % d->B, g = z / (K / 2) / d->B / mba_ceil(d->N, N);
    int64_t       heads = 0;
    for (int64_t h = g * d->J; h < (g + 1) * d->J; h++) heads += is_wide_range_pair(records, d, K, b, h, c2);
    return heads * mba_ceil(d->P, P);
}

/* Blocks that take tiles of a team's items, which have n: as take_share() in ssd_fused_slow.cuh. */
static int64_t blocks_with_tiles(const int64_t *n, int64_t items)
{
    for (int64_t each = 1;; each++) {
        int64_t blocks = 0;
        for (int64_t i = 0; i < items; i++) blocks += mba_ceil(n[i], each);
        if (blocks <= items) return blocks;
    }
}

/* Per wide-range head and pair of chunks, and tile of either: four products with states, by value and residual; dy x^T
 * and C B^T in 10 blocks of 16 x 16 of either chunk and 16 blocks between them. Per block that takes some of an item:
 * dC and dB from dCB, by value and residual. */
static double slow_flops(const mba_node *n, const float *records, int64_t grid)
{
    const double head = 2.0 * (4 * 2 * STATE * Q + (10 + 16 + 10) * 16 * 16 * (P + N)), last = 2.0 * 2 * 6 * Q * Q * N;
    const ssd_dims d = ssd_dims_of(n);
    const int64_t  K = n->in[RECORDS_IN]->type.dim[2], items = d.B * (K / 2) * d.G * mba_ceil(d.N, N);
    const int64_t  teams = mba_ceil(grid, SSD_SLOW_TEAM);
    double         sum = 0;
    for (int64_t round = 0; round < items; round += grid)
        for (int64_t team = 0; team < teams; team++) {
            int64_t tiles[SSD_SLOW_TEAM], count = 0;
            for (int64_t i = team; i < grid && round + i < items; i += teams) {
                tiles[count] = wide_range_tiles(records, &d, K, round + i);
                sum += (double)tiles[count++] * head;
            }
            sum += (double)blocks_with_tiles(tiles, count) * last;
        }
    return sum;
}

int mba_ssd_data_flops(mba_ssd_data out[MBA_SSD_DATA_MAX], const mba_node *n, const mba_plan *p, const float *records)
{
    const int states = states_launch(p), slow = slow_launch(p);
    int       count = 0;
    if (states >= 0) out[count++] = (mba_ssd_data){ states, states_flops(n, p, records) };
    if (slow >= 0) out[count++] = (mba_ssd_data){ slow, slow_flops(n, records, p->launch[slow].grid[0]) };
    return count;
}
