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

/* Sums over the SSM kernels of a step, and the mean lifetime of their blocks, weighted by time. Bytes and lifetime are
 * NaN if one of them was not counted. */
typedef struct mba_ssm_sums {
    double s, least_flops, bytes, l2_bytes, block_s;
} mba_ssm_sums;
mba_ssm_sums mba_ssm_of(const mba_analysis *a);

/* Time-weighted DRAM bandwidth. NaN unless bytes were counted: least bytes over time are only a bound and cannot be
 * compared. */
double mba_ssm_gb_s(const mba_analysis *a);

#endif
