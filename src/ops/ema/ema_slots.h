// SPDX-License-Identifier: Apache-2.0
/* ema_slots.h -- what the files of ema share: slots by name, attributes and the declarations of variants. */
#ifndef MBA_EMA_SLOTS_H
#define MBA_EMA_SLOTS_H

#include "core/op.h"

enum { P, E };
enum { EO };
typedef struct ema_attr {
    double decay;
} ema_attr;

void ema_ref(const mba_ref_call *c);
MBA_CPU_DECLARE(ema_fwd);
mba_launch_fn ema_cuda;

#endif
