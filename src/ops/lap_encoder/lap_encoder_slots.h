/* lap_encoder_slots.h -- what the files of this folder share. */
#ifndef MBA_LAP_ENCODER_SLOTS_H
#define MBA_LAP_ENCODER_SLOTS_H

#include "core/rng.h"
#include "ops/rows.h"

enum { PHI, LAM, WA, BA, WB, BB, DY };            /* in; dy only backward */
enum { Y };                                       /* out: forward, backward */
enum { DWA, DBA, DWB, DBB };

typedef struct lap_encoder_attr { int64_t flip; } lap_encoder_attr;

/* The hidden vectors of a few pairs live on the stack. */
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

#endif
