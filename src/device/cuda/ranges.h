// SPDX-License-Identifier: Apache-2.0
/* ranges.h -- NVTX ranges of this thread for external tools (Nsight, `mambascope profile --range step -- ..`): one per
 * run, and inside it one per node that is launched by itself.
 *
 *     mba__range_begin("%s %s", n->scope, n->op->name);
 *     ..
 *     mba__range_end();
 *
 * Without a tool, begin and end each cost the test of a pointer. */
#ifndef MBA_CUDA_RANGES_H
#define MBA_CUDA_RANGES_H

void mba__range_begin(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void mba__range_end(void);

#endif
