// SPDX-License-Identifier: Apache-2.0
/* gpu_store.h -- a profile of the GPU into the store: tables kernel, event, counter, step, collection, energy, note.
 *
 * Node, operand and launch are there already (describe.h). `units` are the tokens, images or graphs of a step. No
 * CUDA. */
#ifndef MBA_SCOPE_GPU_STORE_H
#define MBA_SCOPE_GPU_STORE_H

#include "scope/gpu_profile.h"
#include "scope/store.h"

MBA_MUST mba_status mba_gpu_store(mba_store *s, const mba_program *p, const mba_gpu_profile *g, double units);

#endif
