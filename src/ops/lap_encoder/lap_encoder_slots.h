// SPDX-License-Identifier: Apache-2.0
/* lap_encoder_slots.h -- what the files of lap_encoder share: slots by name, attributes and the declarations of
 * variants. */
#ifndef MBA_LAP_ENCODER_SLOTS_H
#define MBA_LAP_ENCODER_SLOTS_H

#include "core/rng.h"
#include "ops/rows.h"

enum { PHI, LAM, WA, BA, WB, BB, DY }; /* in; dy only backward */
enum { Y };                            /* out: forward, backward */
enum { DWA, DBA, DWB, DBB };

typedef struct lap_encoder_attr {
    int64_t flip;
} lap_encoder_attr;

/* The hidden vectors of a few pairs are on the stack. */
enum { LAP_HIDDEN_MAX = 256, LAP_LANES_MAX = 16 };

/* Rows of weights are padded to whole vectors of any instruction set. */
static inline int64_t lap_padded(int64_t n) { return mba_ceil(n, LAP_LANES_MAX) * LAP_LANES_MAX; }

/* The sign of eigenvector k in this step: one for the whole batch. */
static inline float lap_sign(const mba_node *n, const mba_step *step, int64_t k)
{
    uint32_t u[4];
    if (!((const lap_encoder_attr *)n->attr)->flip) return 1;
    mba_philox(u, step->seed ^ n->stream, mba_step_counter(step), (uint64_t)k / 4);
    return u[k % 4] & 1 ? -1 : 1;
}

void lap_encoder_ref(const mba_ref_call *c);
void lap_encoder_bwd_ref(const mba_ref_call *c);
MBA_CPU_DECLARE(lap_encoder_fwd);
MBA_CPU_DECLARE(lap_encoder_bwd);
mba_launch_fn lap_encoder_cuda, lap_encoder_bwd_cuda;

/* CUDA: nodes per block, forward and backward (one part of the gradients); pairs per iteration of the backward pass,
 * fewer if shared memory is small; floats of shared memory; gradients per part, in the order wa, ba, wb, bb. */
enum { LAP_NODES = 32, LAP_WARPS = 8, LAP_PAIRS = 32, LAP_PAIRS_FEW = 8 };

static inline size_t lap_fwd_floats(int64_t p, int64_t K)
{
    return (size_t)(2 * p * (3 + p) + p + K + LAP_WARPS * 2 * p);
}
static inline size_t lap_bwd_floats(int64_t p, int64_t K, int pairs)
{
    return (size_t)(2 * p * 3 + p * (2 * p + 1) + p + K + pairs * (2 + (2 * p + 1) + p));
}
static inline int64_t lap_grads(int64_t p) { return 2 * p * (3 + p) + p; }

#endif
