// SPDX-License-Identifier: Apache-2.0
/* whatif_parts.h -- what the files of whatif.h share. */
#ifndef MBA_STUDY_WHATIF_PARTS_H
#define MBA_STUDY_WHATIF_PARTS_H

#include "study/simulated_step.h"
#include "study/whatif.h"

/* whatif_machines.c: the model on every machine of w, with both sets of kernels, and its operators. */
MBA_MUST mba_status mba__whatif_machines(mba_wi_model *m, const mba_whatif *w, mba_sim *sim, const mba_workload *base);

#endif
