// SPDX-License-Identifier: Apache-2.0
/* selective_scan_plan.h -- what the launch plans of selective_scan's CUDA variants share: loads and stores of operands
 * in a plan, limits, and the last two launches of the backward pass. selective_scan_plan.c has `specialized` and
 * `tiles`, selective_scan_channels_plan.c has `channels`. */
#ifndef MBA_SELECTIVE_SCAN_PLAN_H
#define MBA_SELECTIVE_SCAN_PLAN_H

#include "core/op.h"
#include "ops/selective_scan/selective_scan_slots.h"

enum { INT_LIMIT = 1 << 30, GRID_MAX = 65535 }; // blocks in y and z

static inline int64_t channel_blocks(scan_dims d, int64_t width) { return d.G * mba_ceil(d.D / d.G, width); }

static inline double bytes_of(const mba_tensor *t, double values)
{
    return t ? values * (double)mba_dtype_bytes(t->type.dtype) : 0;
}

static inline void load_operand(mba_launch *l, const mba_node *n, int k, double values)
{
    if (n->in[k]) mba_phase_move(l, MBA_LOAD, MBA_ARG_IN(k), bytes_of(n->in[k], values));
}

static inline void store_operand(mba_launch *l, const mba_node *n, int k, double values)
{
    if (n->out[k]) mba_phase_move(l, MBA_STORE, MBA_ARG_OUT(k), bytes_of(n->out[k], values));
}

static inline void load_states(mba_launch *l, const mba_node *n, scan_dims d, int64_t width, int first, int last,
                               double tokens)
{
    for (int k = first; k <= last; k++) {
        load_operand(l, n, k, tokens * (double)d.N);
        mba_phase_share(l, mba_ceil(d.D / d.G, width)); // blocks of a group read the same rows
    }
}

/* Refuses what no variant takes: the limits of indices. */
mba_status scan_takes(const mba_node *n, const mba_machine *m);

/* Scratch of the sums over blocks of channels and over items, and scan_sums_bc and scan_sums_items, which add them. */
void scan_scratch_sums(mba_plan *p, scan_dims d, int64_t items);
void scan_plan_sums(mba_plan *p, const mba_node *n, scan_dims d, int64_t items);

#endif
