// SPDX-License-Identifier: Apache-2.0
/* analysis_parts.h -- functions that the files of the analysis (analysis_*.c) share. */
#ifndef MBA_ANALYSIS_PARTS_H
#define MBA_ANALYSIS_PARTS_H

#include "scope/analysis.h"

/* Reads the timeline: launches, times, gaps, operators. analysis_events.c */
mba_status mba__analysis_events(mba_analysis *a);

/* Maps kernels to planned launches for nodes where a library ran more kernels than the plan has launches (`more`, per
 * node; it must outlive the result). create: NULL if there is no such node. find: false if the kernel cannot be mapped;
 * a NULL launch if it is none of the planned ones. analysis_extra.c */
typedef struct mba_extras mba_extras;
mba_status                mba__extras_create(mba_extras **out, const mba_analysis *a, const bool *more);
bool mba__extras_find(const mba_extras *x, int64_t node, int64_t kernel, const mba_row_launch **is);
void mba__extras_destroy(mba_extras *x);

/* Quantities of a kernel from its counters; then its floors, class and labels, which also need the timeline.
 * analysis_counters.c */
void mba__analysis_counted(const mba_analysis *a, mba_kernel_view *k);
void mba__analysis_label(const mba_analysis *a, mba_kernel_view *k);

/* The floor of some work in seconds: by each resource, and as a whole. */
double mba__floors(const mba_analysis *a, const mba_work_counts *w, double by[MBA_FLOORS], mba_floor *bound);

/* The median of n values, which are sorted in place; NaN if there are none. */
double mba__median(double *v, int64_t n);
/* The interquartile range of values that are sorted. */
double mba__quartile_distance(double *sorted, int64_t n);

#endif
