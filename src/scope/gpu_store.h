// SPDX-License-Identifier: Apache-2.0
/* gpu_store.h -- writes a GPU profile into a store: tables kernel, event, counter, step, collection, energy, note.
 *
 * Tables node, operand and launch exist already (describe.h). `units`: tokens, images or graphs of a step. No CUDA. */
#ifndef MBA_SCOPE_GPU_STORE_H
#define MBA_SCOPE_GPU_STORE_H

#include "scope/gpu_profile.h"
#include "scope/store.h"

MBA_MUST mba_status mba_gpu_store(mba_store *s, const mba_program *p, const mba_gpu_profile *g, double units);

#endif
