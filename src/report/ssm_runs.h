// SPDX-License-Identifier: Apache-2.0
/* ssm_runs.h -- what the figures that compare runs share: which runs may be compared, and sums over their SSM
 * kernels. */
#ifndef MBA_REPORT_SSM_RUNS_H
#define MBA_REPORT_SSM_RUNS_H

#include "report/figure.h"

/* The same workload and number of parameters (a preset with fewer layers is another model) on the same machine. */
bool mba_same_model(const mba_run *a, const mba_run *b);
bool mba_same_size(const mba_run *a, const mba_run *b);

/* The variants of the SSM operators of a run: "ssd fused, ssd_bwd fused". */
mba_name mba_variants_of(const mba_analysis *a);
/* Whether an SSM operator has a variant whose name begins so. */
bool mba_has_variant(const mba_analysis *a, const char *prefix);

/* Sums over the SSM kernels of a step, and the mean lifetime of their blocks, weighted by time. s is their time on the
 * timeline, counted_s that of the runs that counted the bytes. What counters give is NaN if one of them has none. */
typedef struct mba_ssm_sums {
    double s, counted_s, least_flops, bytes, l2_bytes, block_s;
} mba_ssm_sums;
mba_ssm_sums mba_ssm_of(const mba_analysis *a);

/* DRAM bytes over the time of the counter runs. NaN unless bytes were counted: least bytes over time are only a bound
 * and cannot be compared. */
double mba_ssm_gb_s(const mba_analysis *a);

#endif
