// SPDX-License-Identifier: Apache-2.0
/* match.c -- see match.h: matches by name first, then distributes the planned launches in between by duration. */
#include "scope/match.h"

#include <stdbool.h>
#include <string.h>

#include "core/status.h"

static bool same(const char *a, const char *b) { return a && b && !strcmp(a, b); }

/* Assigns launches [l, end) to kernels [from, to), which match none by name. If there are more kernels than launches,
 * the shortest ones get none. */
static void share_out(int *place, const mba_started *s, int from, int to, int l, int end)
{
    bool left[MBA_STARTED_MAX] = { false };
    mba_assert(from >= 0 && to <= MBA_STARTED_MAX && l <= end);
    for (int others = to - from; others > end - l && end > l; others--) {
        int shortest = -1;
        for (int i = from; i < to; i++)
            if (!left[i] && (shortest < 0 || s[i].duration_ns <= s[shortest].duration_ns)) shortest = i;
        left[shortest] = true;
    }
    for (int i = from; i < to; i++)
        if (!left[i] && l < end) place[i] = l++;
}

void mba_match_launches(int *place, const mba_started *s, int n, const char *const *planned, int m)
{
    int from = 0, open = 0;
    mba_assert(n >= 0 && n <= MBA_STARTED_MAX && m >= 0);
    for (int i = 0; i < n; i++) place[i] = -1;
    for (int l = 0; l < m; l++) {
        int i = from;
        while (i < n && !same(s[i].name, planned[l])) i++;
        if (i == n) continue;
        share_out(place, s, from, i, open, l);
        place[i] = l;
        from = i + 1;
        open = l + 1;
    }
    share_out(place, s, from, n, open, m);
    for (int i = 0; i < n; i++) // repeated names: small stores merge equal nodes into one row
        for (int l = 0; l < m && place[i] < 0; l++)
            if (same(s[i].name, planned[l])) place[i] = l;
}
