// SPDX-License-Identifier: Apache-2.0
/* selective_scan_plan.h -- what the launch plans of all CUDA variants of selective_scan share (selective_scan_plan.c):
 * limits, items, the passes between segments, the second stage of sums. */
#ifndef MBA_SELECTIVE_SCAN_PLAN_H
#define MBA_SELECTIVE_SCAN_PLAN_H

#include "core/op.h"
#include "ops/selective_scan/selective_scan_slots.h"

enum { ORIGINS_BYTES = 176 }; // size of struct origins

/* Bytes that a block moves; nothing for an absent operand. scan_load_states: rows of B and C, which blocks share. */
void scan_load(mba_launch *l, const mba_node *n, int k, double values);
void scan_store(mba_launch *l, const mba_node *n, int k, double values);
void scan_load_states(mba_launch *l, const mba_node *n, scan_dims d, int64_t width, int first, int last, double tokens);

/* Whether the shape is within the limits of indices; whether an item may hold several sequences. */
mba_status scan_takes(const mba_node *n, const mba_machine *m);
bool       scan_can_pack(const mba_node *n, scan_dims d, bool back);
#define REFUSE_PACKS(n, d, kept, back) \
    MBA_REFUSE_IF((kept) && (kept)->type.dim[0] < (d).B && !scan_can_pack(n, d, back), \
                  "packed sequences in rows of uneven strides")

/* The number of items with the least time, with `resident` blocks at a time. kept: saved states that prescribe which
 * sequences are packed. */
int64_t scan_channel_blocks(scan_dims d, int64_t width);
int64_t scan_best_items(scan_dims d, int64_t width, int64_t resident, bool packs, const mba_tensor *kept, double *time);

/* The passes between segments, in `sub` parts each, and their scratch; `sums` values per token for groups of states. */
int64_t scan_carry_parts(scan_dims d, int64_t items, const mba_machine *m);
void    scan_plan_carries(mba_plan *p, const mba_node *n, scan_dims d, int64_t items, int64_t sub, bool back);
void    scan_scratch_segments(mba_plan *p, scan_dims d, int64_t items, int64_t sub, bool back, int sums);

/* Scratch of partial sums, and the launches that add them; states: in a row of dB and of dC. */
void scan_scratch_sums(mba_plan *p, scan_dims d, int64_t items, int64_t states);
void scan_plan_sums(mba_plan *p, const mba_node *n, scan_dims d, int64_t items, int64_t states);

#endif
