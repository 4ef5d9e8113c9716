// SPDX-License-Identifier: Apache-2.0
/* ssd_data_flops.h -- FLOPs of ssd_states that depend on the data, counted on the host.
 *
 *     const mba_tensor *t = mba_ssd_records(n, plan);         // NULL: no such launch, or records are not saved
 *     mba_program_get(p, t, records);                         // after a forward pass, before a backward pass
 *     double flops = mba_ssd_states_flops(n, plan, records);
 *
 * ssd_states skips chunks whose contribution decays below e^-88 before it is needed. A plan counts all chunks; this
 * counts those that are multiplied, from the decays that the kernel reads itself. */
#ifndef MBA_OPS_SSD_SSD_DATA_FLOPS_H
#define MBA_OPS_SSD_SSD_DATA_FLOPS_H

#include "core/op.h"

const mba_tensor *mba_ssd_records(const mba_node *n, const mba_plan *p);

/* The number of the launch whose products depend on data, or -1. */
int mba_ssd_states_launch(const mba_plan *p);

/* Tensor FLOPs of that launch. */
double mba_ssd_states_flops(const mba_node *n, const mba_plan *p, const float *records);

#endif
