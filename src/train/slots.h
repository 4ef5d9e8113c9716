// SPDX-License-Identifier: Apache-2.0
/* slots.h -- the micro-batches of a step over all ranks, its slots, and sums over them whose order depends on their
 * number alone.
 *
 *     for (int64_t m = 0; m < micros; m++) {                             // those of this rank
 *         MBA_TRY(mba__slots_begin(s, m));
 *         MBA_TRY(mba_program_run(p, MBA_FORWARD | MBA_BACKWARD, &step, NULL));
 *         MBA_TRY(mba__slots_end(s, m));
 *     }
 *     MBA_TRY(mba__slots_finish(s, good));                               // then the update
 *
 * S = q 2^k slots, q odd: gradients of q neighbouring slots are added one after the other, as micro-batches of one rank
 * are; the 2^k sums in a balanced binary tree. A power of two of ranks divides the tree at whole branches, so that each
 * rank adds its own branch here and reduce_scatter (or allreduce) the branches of all ranks: the same bits at any
 * number of ranks. Running statistics of batchnorm are those of the slots in their order.
 *
 * The sums are made by the device, in the memory of the gradients. */
#ifndef MBA_SLOTS_H
#define MBA_SLOTS_H

#include "train/session.h"

typedef struct mba__slots mba__slots;

/* `micros` slots from `first` on are this rank's. `means`: the gradient is the mean over slots, not the sum. */
MBA_MUST mba_status mba__slots_create(mba__slots **out, mba_session *s, int64_t slots, int64_t first, int64_t micros,
                                      bool means);
void                mba__slots_destroy(mba__slots *s); /* NULL is fine */

MBA_MUST mba_status mba__slots_begin(mba__slots *s, int64_t micro);
MBA_MUST mba_status mba__slots_end(mba__slots *s, int64_t micro);

/* Applies the running statistics of the first `good` slots of all ranks: those before a loss that is not finite. */
MBA_MUST mba_status mba__slots_finish(mba__slots *s, int64_t good);

/* Sets the running statistics back to those of the last finish, after a pass that does not count. */
MBA_MUST mba_status mba__slots_restore(mba__slots *s);

#endif
