// SPDX-License-Identifier: Apache-2.0
/* cross_entropy_slots.h -- what the files of cross_entropy share: slots by name and the declarations of variants. */
#ifndef MBA_CROSS_ENTROPY_SLOTS_H
#define MBA_CROSS_ENTROPY_SLOTS_H

#include "core/op.h"

enum { Z, TARGET }; /* forward: in, out */
enum { LOSS, LSE };
enum { DLOSS, ZB, TARGETB, LSEB }; /* backward: in, out */
enum { DZ };

void cross_entropy_ref(const mba_ref_call *c);
void cross_entropy_bwd_ref(const mba_ref_call *c);
MBA_CPU_DECLARE(cross_entropy_fwd);
MBA_CPU_DECLARE(cross_entropy_bwd);
mba_launch_fn cross_entropy_cuda, cross_entropy_bwd_cuda;

#endif
