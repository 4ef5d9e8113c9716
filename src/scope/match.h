// SPDX-License-Identifier: Apache-2.0
/* match.h -- which launch of its plan each kernel of a node is, where a library started more kernels than were planned.
 *
 *     mba_match_launches(place, started, n, planned, m);                 // place[i]: of planned, -1: none of them
 *
 * By their places kernels are those of the plan until a library puts one of its own in front (cuDNN clears a workspace
 * before most gradients of filters): then a kernel of 2 us has the work of a convolution. Our kernels are known by
 * their names; between two of them the longest of the others, as many as were planned there, are those. */
#ifndef MBA_SCOPE_MATCH_H
#define MBA_SCOPE_MATCH_H

#include <stdint.h>

enum { MBA_STARTED_MAX = 64 };
typedef struct mba_started {
    const char *name;
    int64_t     duration_ns;
} mba_started;

/* n <= MBA_STARTED_MAX; names may be NULL: of nobody. */
void mba_match_launches(int *place, const mba_started *s, int n, const char *const *planned, int m);

#endif
