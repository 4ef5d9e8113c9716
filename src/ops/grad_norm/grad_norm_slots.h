/* grad_norm_slots.h -- what the files of this folder share. The inputs are the flat gradients, one per group. */
#ifndef MBA_GRAD_NORM_SLOTS_H
#define MBA_GRAD_NORM_SLOTS_H

#include "core/op.h"

enum { NORM };
enum { GRAD_NORM_BLOCK = 16384 };                 /* values per partial sum, 64 KB: fixed, so the sums are */

void grad_norm_ref(const mba_ref_call *c);
MBA_CPU_DECLARE(grad_norm_fwd);
mba_launch_fn grad_norm_cuda;

#endif
