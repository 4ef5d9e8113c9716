// SPDX-License-Identifier: Apache-2.0
/* node_ranges.c -- see node_ranges.h: ranges of nodes to profile, and the launch of each kernel to read. */
#include "scope/node_ranges.h"

#include <stdlib.h>

mba_status mba_node_ranges_of(mba_node_range **out, int *n, const bool *wanted, int32_t nodes)
{
    *n = 0;
    if (!(*out = calloc((size_t)nodes + 1, sizeof **out)))
        return mba_fail(MBA_E_NOMEM, "no memory for %d nodes", (int)nodes);
    for (int32_t i = 0; i < nodes; i++) {
        mba_node_range *last = *n ? &(*out)[*n - 1] : NULL;
        if (!wanted[i]) continue;
        if (last && i - last->last <= MBA_NODE_RANGE_GAP) last->last = i;
        else (*out)[(*n)++] = (mba_node_range){ i, i };
    }
    mba_assert(*n <= nodes);
    return MBA_OK;
}

bool mba_in_node_range(const mba_node_range *s, int n, int32_t node)
{
    for (int i = 0; i < n; i++)
        if (s[i].first <= node && node <= s[i].last) return true;
    return false;
}

void mba_wanted_nodes(bool *wanted, const int64_t *kernel, const int32_t *node, int64_t launches)
{
    for (int64_t i = 0; i < launches; i++) {
        int64_t before = 0, after = 0;
        for (int64_t k = 0; k < launches && before < 2; k++) {
            if (k == i || kernel[k] != kernel[i]) continue;
            if (k < i) before++;
            else after++;
        }
        if (node[i] >= 0 && (before == 1 || (before == 0 && after == 0))) wanted[node[i]] = true;
    }
}
