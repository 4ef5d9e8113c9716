// SPDX-License-Identifier: Apache-2.0
/* ssd_data_flops.h -- what the data leaves out of the work of `fused`, counted on the host.
 *
 *     const mba_tensor *t = mba_ssd_records(n, plan);         // NULL: nothing depends on data, or they are not kept
 *     mba_program_get(p, t, records);                         // behind a forward, before a backward
 *     double flops = mba_ssd_states_flops(n, plan, records);
 *
 * ssd_states leaves out chunks that are forgotten before anybody wants their state. A plan counts all of them; this
 * counts those that are multiplied, from the decays that the kernel reads itself. */
#ifndef MBA_OPS_SSD_SSD_DATA_FLOPS_H
#define MBA_OPS_SSD_SSD_DATA_FLOPS_H

#include "core/op.h"

const mba_tensor *mba_ssd_records(const mba_node *n, const mba_plan *p);

/* The launch of the plan whose products depend on data; -1: none. */
int mba_ssd_states_launch(const mba_plan *p);

/* Tensor FLOPs of it. */
double mba_ssd_states_flops(const mba_node *n, const mba_plan *p, const float *records);

#endif
