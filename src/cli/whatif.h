// SPDX-License-Identifier: Apache-2.0
/* whatif.h -- makes what a report shows of the simulator: some hundred simulated steps, a few seconds. */
#ifndef MBA_CLI_WHATIF_H
#define MBA_CLI_WHATIF_H

#include "report/report.h"

/* Of the models of the stores that ran on a GPU, at their sizes, on the machine they ran on; where none did, of the
 * five workloads at full size on an H200. `out` is the caller's. */
/* Rates of L2 and L1 that a run did not measure, of the file of its machine, for the roofline; no simulation. */
MBA_MUST mba_status mba_machine_rates(mba_stores *r);

MBA_MUST mba_status mba_whatif_make(mba_whatif *out, const mba_stores *r);

/* What gives most: elasticity of the step of a model to the axis of a curve, percent per percent; and which axis. */
double mba_whatif_gain(const mba_whatif *w, const mba_wi_model *m, int *axis);

#endif
