// SPDX-License-Identifier: Apache-2.0
/* analysis_parts.h -- what the files of the analysis share. */
#ifndef MBA_ANALYSIS_PARTS_H
#define MBA_ANALYSIS_PARTS_H

#include "scope/analysis.h"

/* Reads the timeline: launches, times, gaps, operators. analysis_events.c */
mba_status mba__analysis_events(mba_analysis *a);

/* Where a library started more kernels than a plan has launches (`more`, per node; it must outlive the answer): which
 * launch each is. NULL where no node has such. find: false, nothing is known; a NULL launch, none that was planned.
 * analysis_extra.c */
typedef struct mba_extras mba_extras;
mba_status                mba__extras_create(mba_extras **out, const mba_analysis *a, const bool *more);
bool mba__extras_find(const mba_extras *x, int64_t node, int64_t kernel, const mba_row_launch **is);
void mba__extras_destroy(mba_extras *x);

/* What counters say of a kernel; then its floors, class and labels, which need the timeline too. analysis_counters.c */
void mba__analysis_counted(const mba_analysis *a, mba_kernel_view *k);
void mba__analysis_label(const mba_analysis *a, mba_kernel_view *k);

/* The least time of work, by each resource and by all. */
double mba__floors(const mba_analysis *a, const mba_work_counts *w, double by[MBA_FLOORS], mba_floor *bound);

/* The middle of n values, sorted in place; NaN of none. */
double mba__median(double *v, int64_t n);
double mba__quartile_distance(double *sorted, int64_t n);

#endif
