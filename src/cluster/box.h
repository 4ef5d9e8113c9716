// SPDX-License-Identifier: Apache-2.0
/* box.h -- a world in a box: ranks as threads of one process, which exchange by memory. For tests.
 *
 *     static mba_status live(mba_world *w, void *ctx) { ..; return w->gather_all(w, all, &mine, sizeof mine); }
 *     ..
 *     MBA_TRY(mba_box_run(4, live, ctx));              // waits for all; fails as the first rank that failed
 */
#ifndef MBA_BOX_H
#define MBA_BOX_H

#include "core/world.h"

MBA_MUST mba_status mba_box_run(int ranks, mba_status (*live)(mba_world *w, void *ctx), void *ctx);

#endif
