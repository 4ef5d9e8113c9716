// SPDX-License-Identifier: Apache-2.0
/* weighted_cross_entropy_slots.h -- what the files of weighted_cross_entropy share: slots by name, scratch and the
 * declarations of variants. */
#ifndef MBA_WEIGHTED_CROSS_ENTROPY_SLOTS_H
#define MBA_WEIGHTED_CROSS_ENTROPY_SLOTS_H

#include "ops/rows.h"

enum { Z, TARGET };                         /* forward: in, out */
enum { LOSS, LSE, WEIGHT };                 /* WEIGHT: w_c / sum_i w_t(i), per class */
enum { DLOSS, ZB, TARGETB, LSEB, WEIGHTB }; /* backward: in, out */
enum { DZ };
enum { EACH, COUNTS }; /* CUDA: scratch */

void weighted_cross_entropy_ref(const mba_ref_call *c);
void weighted_cross_entropy_bwd_ref(const mba_ref_call *c);
MBA_CPU_DECLARE(weighted_cross_entropy_fwd);
MBA_CPU_DECLARE(weighted_cross_entropy_bwd);
mba_launch_fn weighted_cross_entropy_cuda, weighted_cross_entropy_bwd_cuda;

#endif
