// SPDX-License-Identifier: Apache-2.0
/* ema.h -- the averaged model: e = decay e + (1 - decay) p after every update.
 *
 *     mba_lamb_all(g, &o);
 *     mba_ema_all(g, 0.9998);                          // behind the optimizer
 *     ..
 *     mba_program_init(p, seed);                       // or parameters read from a file
 *     mba_ema_start(p);                                // the average starts as the model; not when it is resumed
 *
 * One node per parameter group, and one per running statistic of a batch norm (averaged too). The averages are states
 * of role MBA_STATE: "ema.decay" and "ema.no_decay", which lie parallel to the parameters (mba_program_counterpart),
 * and "ema.<name>" of a running statistic. Call it outside of every scope. */
#ifndef MBA_EMA_H
#define MBA_EMA_H

#include "core/program.h"

void                mba_ema_all(mba_graph *g, double decay);
MBA_MUST mba_status mba_ema_start(mba_program *p); /* copies */

extern const mba_op mba_op_ema;

#endif
