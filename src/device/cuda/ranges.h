// SPDX-License-Identifier: Apache-2.0
/* ranges.h -- what the host is doing, for tools that watch from outside (Nsight, `mambascope profile --range step --
 * ..`): NVTX ranges of this thread, one for a run and inside it one for each node that is launched by itself.
 *
 *     mba__range_begin("%s %s", n->scope, n->op->name);
 *     ..
 *     mba__range_end();
 *
 * Where nobody watches, begin and end are a look at a pointer each. */
#ifndef MBA_CUDA_RANGES_H
#define MBA_CUDA_RANGES_H

void mba__range_begin(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void mba__range_end(void);

#endif
