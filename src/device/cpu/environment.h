// SPDX-License-Identifier: Apache-2.0
/* environment.h -- the environment variables that choose code for the CPU: MBA_ISA (core/device.h) and MBA_GEMM
 * (gemm.h).
 *
 *     MBA_TRY(mba_cpu_check_environment());              // MBA_GEMM=pakced: there is no such choice
 *
 * Who mistypes one measures something else than he thinks, so a value that no code reads is refused, and so is
 * an instruction set that this machine has not. Empty is not set. */
#ifndef MBA_ENVIRONMENT_H
#define MBA_ENVIRONMENT_H

#include "core/status.h"

MBA_MUST mba_status mba_cpu_check_environment(void);

#endif
