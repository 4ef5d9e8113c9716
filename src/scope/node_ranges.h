// SPDX-License-Identifier: Apache-2.0
/* node_ranges.h -- the ranges of nodes that counters read: every distinct kernel once, in few ranges (gpu_counters.c).
 *
 *     mba_node_range *s;  int n;
 *     MBA_TRY(mba_node_ranges_of(&s, &n, wanted, nodes));         // wanted: per node
 *     // nodes s[0].first .. s[0].last, then s[1].first .. s[1].last
 *     free(s);
 *
 * Nodes near each other share a range, because starting and stopping costs more than a few kernels. Plain C. */
#ifndef MBA_SCOPE_NODE_RANGES_H
#define MBA_SCOPE_NODE_RANGES_H

#include <stdbool.h>
#include <stdint.h>

#include "core/status.h"

enum { MBA_NODE_RANGE_GAP = 8 }; /* largest distance of wanted nodes within a range */

typedef struct mba_node_range {
    int32_t first, last;
} mba_node_range; /* nodes, inclusive */

MBA_MUST mba_status mba_node_ranges_of(mba_node_range **out, int *n, const bool *wanted, int32_t nodes);

/* True if the node is in one of the ranges. */
bool mba_in_node_range(const mba_node_range *s, int n, int32_t node);

/* Marks in `wanted` the nodes to read: for each distinct kernel that of its second launch, because the first follows
 * nodes outside of the layers; or of its only launch. kernel, node: of every launch. */
void mba_wanted_nodes(bool *wanted, const int64_t *kernel, const int32_t *node, int64_t launches);

#endif
