// SPDX-License-Identifier: Apache-2.0
/* suite_simulated.h -- how the suite ends where no GPU was measured: the full-size workloads on simulated ones. */
#ifndef MBA_SUITE_SIMULATED_H
#define MBA_SUITE_SIMULATED_H

#include "core/status.h"

/* Prints a table per machine (H200, H100), labelled as simulated, with the error that `validate` finds. */
MBA_MUST mba_status mba_suite_simulated(void);

#endif
