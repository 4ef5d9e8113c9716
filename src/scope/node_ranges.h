// SPDX-License-Identifier: Apache-2.0
/* node_ranges.h -- which part of a step is read by counters: every distinct kernel once, in as few pieces as can be.
 *
 *     mba_node_range *s;  int n;
 *     MBA_TRY(mba_node_ranges_of(&s, &n, wanted, nodes));         // wanted: per node
 *     // nodes s[0].first .. s[0].last, then s[1].first .. s[1].last
 *     free(s);
 *
 * Nodes that lie near each other share a stretch: starting and stopping costs more than a few kernels. Plain C. */
#ifndef MBA_SCOPE_NODE_RANGES_H
#define MBA_SCOPE_NODE_RANGES_H

#include <stdbool.h>
#include <stdint.h>

#include "core/status.h"

enum { MBA_NODE_RANGE_GAP = 8 }; /* nodes that nobody wants, and that are read all the same */

typedef struct mba_node_range {
    int32_t first, last;
} mba_node_range; /* nodes, both in it */

MBA_MUST mba_status mba_node_ranges_of(mba_node_range **out, int *n, const bool *wanted, int32_t nodes);

/* Is the node in one of them? */
bool mba_in_node_range(const mba_node_range *s, int n, int32_t node);

/* Which launch of each distinct kernel is read: the second, since the first follows what stands outside of the layers;
 * the only one where there is no second. kernel: of every launch; node: of every launch; marks nodes in `wanted`. */
void mba_wanted_nodes(bool *wanted, const int64_t *kernel, const int32_t *node, int64_t launches);

#endif
