// SPDX-License-Identifier: Apache-2.0
/* ssd_data_flops.c -- see ssd_data_flops.h. Sums of decays are computed as in the kernel (dependency_length in
 * ssd_fused_items.cuh), in fp32 and in its order, so that a decay at the limit falls on the same side. */
#include "ops/ssd/fused/ssd_data_flops.h"

#include <math.h>
#include <string.h>

#include "ops/ssd/ssd.h"
#include "ops/ssd/ssd_slots.h"

enum { FLAGS = 130, ALL = 131, HAS_RESET = 2 }; /* words and flag of a record (ssd_fused.cuh) */
enum { LANES = 32, STATE = 64 * 128, Q = 64 };
static const float LOG_DECAY_MIN = -88.0f;

int mba_ssd_states_launch(const mba_plan *p)
{
    int at = -1, n = 0;
    for (int k = 0; k < p->nlaunches; k++)
        if (!strncmp(p->launch[k].kernel, "ssd_states", 10)) at = k, n++;
    return n == 1 ? at : -1; // a backward that recomputes states has two, and its own records
}

const mba_tensor *mba_ssd_records(const mba_node *n, const mba_plan *p)
{
    if (strcmp(p->variant, "fused") || mba_ssd_states_launch(p) < 0) return NULL;
    if (n->op == &mba_op_ssd) return n->out[KEPT_RECORDS];
    return n->op == &mba_op_ssd_bwd && ssd_has_saved(p, n) ? n->in[RECORDS_IN] : NULL;
}

/* The division into segments, derived from the plan as in work_split_of (ssd_fused_task.cuh). */
static ssd_segments segments_of(const ssd_dims *d, const mba_plan *p)
{
    const int64_t     pairs = d->B * d->H / SSD_HEADS, K = (mba_ceil(d->L, Q) + 1) / 2 * 2;
    const mba_launch *scan = NULL, *states = &p->launch[mba_ssd_states_launch(p)];
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

double mba_ssd_states_flops(const mba_node *n, const mba_plan *p, const float *records)
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
