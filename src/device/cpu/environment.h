// SPDX-License-Identifier: Apache-2.0
/* environment.h -- checks the environment variables that select CPU code: MBA_ISA (core/device.h) and MBA_GEMM
 * (gemm.h).
 *
 *     MBA_TRY(mba_cpu_check_environment());              // MBA_GEMM=pakced: there is no such choice
 *
 * A mistyped value would silently measure something else, so unknown values are refused, and so is an instruction set
 * that this machine lacks. An empty value counts as unset. */
#ifndef MBA_ENVIRONMENT_H
#define MBA_ENVIRONMENT_H

#include "core/status.h"

MBA_MUST mba_status mba_cpu_check_environment(void);

#endif
