// SPDX-License-Identifier: Apache-2.0
/* soft_cross_entropy_slots.h -- what the files of soft_cross_entropy share. The target is fp32 (R, V), or labels i32
 * (R). */
#ifndef MBA_SOFT_CROSS_ENTROPY_SLOTS_H
#define MBA_SOFT_CROSS_ENTROPY_SLOTS_H

#include "ops/rows.h"

enum { Z, TARGET }; /* forward: in, out */
enum { LOSS, LSE };
enum { DLOSS, ZB, TARGETB, LSEB }; /* backward: in, out */
enum { DZ };

typedef struct soft_ce_attr {
    double smoothing;
} soft_ce_attr;

static inline double soft_ce_scale(const mba_step *step, int64_t valid)
{
    return !valid ? 0 : step->loss_scale > 0 ? (double)step->loss_scale : 1.0 / (double)valid;
}

void soft_cross_entropy_ref(const mba_ref_call *c);
void soft_cross_entropy_bwd_ref(const mba_ref_call *c);
MBA_CPU_DECLARE(soft_cross_entropy_fwd);
MBA_CPU_DECLARE(soft_cross_entropy_bwd);
mba_launch_fn soft_cross_entropy_cuda, soft_cross_entropy_bwd_cuda;

#endif
