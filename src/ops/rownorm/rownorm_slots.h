// SPDX-License-Identifier: Apache-2.0
/* rownorm_slots.h -- what the files of rownorm share: slots by name and the declarations of variants. */
#ifndef MBA_ROWNORM_SLOTS_H
#define MBA_ROWNORM_SLOTS_H

#include "ops/rows.h"

enum { X };               /* forward: in, out */
enum { Y, LENGTH };       /* LENGTH: max(||x||, 1e-12) per row */
enum { DY, YB, LENGTHB }; /* backward: in, out */
enum { DX };

#define ROWNORM_FLOOR 1e-12

void rownorm_ref(const mba_ref_call *c);
void rownorm_bwd_ref(const mba_ref_call *c);
MBA_CPU_DECLARE(rownorm_fwd);
MBA_CPU_DECLARE(rownorm_bwd);
mba_launch_fn rownorm_cuda, rownorm_bwd_cuda;

/* CUDA: threads that share a row, in blocks of 256. */
static inline int rownorm_group_threads(int64_t cols) { return cols > 1024 ? 256 : 32; }

#endif
