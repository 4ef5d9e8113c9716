// SPDX-License-Identifier: Apache-2.0
/* match.h -- maps the kernels of a node to the launches of its plan if a library ran more kernels than planned.
 *
 *     mba_match_launches(place, started, n, planned, m);                 // place[i]: index in planned; -1: none
 *
 * Positions alone are wrong as soon as a library inserts a kernel of its own (cuDNN clears a workspace before most
 * filter gradients): a kernel of 2 us would get the work of a convolution. Our kernels are matched by name. Between two
 * of them, the planned launches are assigned to the longest of the other kernels. */
#ifndef MBA_SCOPE_MATCH_H
#define MBA_SCOPE_MATCH_H

#include <stdint.h>

enum { MBA_STARTED_MAX = 64 };
typedef struct mba_started {
    const char *name;
    int64_t     duration_ns;
} mba_started;

/* n <= MBA_STARTED_MAX; a name may be NULL, which matches none. */
void mba_match_launches(int *place, const mba_started *s, int n, const char *const *planned, int m);

#endif
