// SPDX-License-Identifier: Apache-2.0
/* ema.h -- exponential moving average of the model: e = decay e + (1 - decay) p after every update.
 *
 *     mba_lamb_all(g, &o);
 *     mba_ema_all(g, 0.9998);                          // after the optimizer
 *     ..
 *     mba_program_init(p, seed);                       // or parameters read from a file
 *     mba_ema_start(p);                                // copies the model into the average; not after a resume
 *
 * Appends one node per parameter group, and one per running statistic of a batch norm (averaged too). The averages are
 * states of role MBA_STATE: "ema.decay" and "ema.no_decay", which have the layout of the parameters
 * (mba_program_counterpart), and "ema.<name>" for a running statistic. Call it outside of every scope. */
#ifndef MBA_EMA_H
#define MBA_EMA_H

#include "core/program.h"

void                mba_ema_all(mba_graph *g, double decay);
MBA_MUST mba_status mba_ema_start(mba_program *p); /* copies the model into the average */

extern const mba_op mba_op_ema;

#endif
