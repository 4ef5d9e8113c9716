// SPDX-License-Identifier: Apache-2.0
/* emulate_operators.h -- times the kernels of SSM operators on the GPU in use and on machines with less of one unit,
 * which resident kernels emulate (device/cuda/disturb.h).
 *
 *     MBA_TRY(mba_emulate_operators("there.tsv"));        // a few seconds; `validate --counterfactual` reads it
 */
#ifndef MBA_CLI_EMULATE_OPERATORS_H
#define MBA_CLI_EMULATE_OPERATORS_H

#include "core/status.h"

/* Writes a row per kernel and machine: study/emulated_operators.h has the columns. */
MBA_MUST mba_status mba_emulate_operators(const char *path);

#endif
