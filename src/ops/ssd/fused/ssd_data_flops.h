// SPDX-License-Identifier: Apache-2.0
/* ssd_data_flops.h -- FLOPs of ssd that depend on the data, counted on the host.
 *
 *     const mba_tensor *t = mba_ssd_records(n, plan);         // NULL: no such launch, or records are not saved
 *     mba_program_get(p, t, records);                         // after a forward pass, before a backward pass
 *     mba_ssd_data data[MBA_SSD_DATA_MAX];
 *     int count = mba_ssd_data_flops(data, n, plan, records);
 *
 * ssd_states skips chunks whose contribution decays below e^-88 before it is needed; a plan counts all chunks.
 * ssd_bwd_slow multiplies wide-range heads only; a plan counts none. This counts what is multiplied, from the decays
 * and flags that the kernels read themselves. */
#ifndef MBA_OPS_SSD_SSD_DATA_FLOPS_H
#define MBA_OPS_SSD_SSD_DATA_FLOPS_H

#include "core/op.h"

/* A launch whose products depend on data: its number in the plan, and its tensor FLOPs. */
enum { MBA_SSD_DATA_MAX = 2 };
typedef struct mba_ssd_data {
    int    launch;
    double tensor_flops;
} mba_ssd_data;

const mba_tensor *mba_ssd_records(const mba_node *n, const mba_plan *p);

/* Returns how many such launches there are. */
int mba_ssd_data_flops(mba_ssd_data out[MBA_SSD_DATA_MAX], const mba_node *n, const mba_plan *p, const float *records);

#endif
