// SPDX-License-Identifier: Apache-2.0
/* selective_scan_lines.h -- the arrays over time of the CPU path: its plans size them, its loops walk them. */
#ifndef MBA_SELECTIVE_SCAN_LINES_H
#define MBA_SELECTIVE_SCAN_LINES_H

#include "ops/selective_scan/selective_scan_slots.h"

/* A line, one vector of channels through a segment, is 4096 bytes and some steps: lines at a power of two from each
 * other would share a few sets of L1 and push each other out. */
enum { SPREAD = 4 };
static inline int64_t scan_line_floats(scan_dims d) { return (scan_segment(d) + SPREAD) * STRIP; } /* of a strip */

#endif
