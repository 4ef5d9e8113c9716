/* analysis_parts.h -- what the files of the analysis share. */
#ifndef MBA_ANALYSIS_PARTS_H
#define MBA_ANALYSIS_PARTS_H

#include "scope/analysis.h"

/* Reads the timeline: launches, times, gaps, operators. analysis_events.c */
mba_status mba__analysis_events(mba_analysis *a);

/* What counters say of a kernel; then its floors, class and labels, which need the timeline too. analysis_counters.c */
void mba__analysis_counted(const mba_analysis *a, mba_kernel_view *k);
void mba__analysis_label(const mba_analysis *a, mba_kernel_view *k);

/* The least time of work, by each resource and by all. */
double mba__floors(const mba_analysis *a, const mba_work_counts *w, double by[MBA_FLOORS], mba_floor *bound);

/* The middle of n values, sorted in place; NaN of none. */
double mba__median(double *v, int64_t n);
double mba__quartile_distance(double *sorted, int64_t n);

#endif
