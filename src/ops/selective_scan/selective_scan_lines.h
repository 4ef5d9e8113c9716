// SPDX-License-Identifier: Apache-2.0
/* selective_scan_lines.h -- length of the arrays over time of selective_scan's CPU path; plans and loops use it. */
#ifndef MBA_SELECTIVE_SCAN_LINES_H
#define MBA_SELECTIVE_SCAN_LINES_H

#include "ops/selective_scan/selective_scan_slots.h"

/* A line, one vector of channels over a segment, is longer than 4096 bytes by SPREAD steps: lines at a power-of-two
 * stride would share a few sets of L1 and evict each other. */
enum { SPREAD = 4 };
static inline int64_t scan_line_floats(scan_dims d) { return (scan_segment(d) + SPREAD) * STRIP; }

#endif
