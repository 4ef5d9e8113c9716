// SPDX-License-Identifier: Apache-2.0
/* emulate.h -- measures on the GPU in use the emulations of other machines that core/emulate.h lists.
 *
 *     MBA_TRY(mba_emulate_cuda(told, file));              // calls told for every emulation, in order; a few seconds
 */
#ifndef MBA_DEVICE_CUDA_EMULATE_H
#define MBA_DEVICE_CUDA_EMULATE_H

#include "core/emulate.h"
#include "core/status.h"

enum { MBA_IMITATED_BLOCK_CYCLES = 350 }; /* base of the factor of `block_start`, as in the machine files */

/* us on this GPU and on the emulated one; failed: why it failed, or NULL. */
typedef void mba_emulated_fn(void *of, const mba_emulation *w, double us, double imitated_us, const char *failed);

MBA_MUST mba_status mba_emulate_cuda(mba_emulated_fn *told, void *of);

#endif
