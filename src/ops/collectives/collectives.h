// SPDX-License-Identifier: Apache-2.0
/* collectives.h -- operators that exchange with the other ranks of a run.
 *
 *     mba_tensor *sum = mba_reduce_scatter(g, flat_gradient, (mba_place){ rank, ranks });
 *     mba_tensor *mine = mba_slice(g, sum, 0, mba_piece_offset(place, n), n / ranks);      // the other pieces are zero
 *     mba_all_gather(g, flat_parameters, place);                                           // in: own piece; out: all
 *
 * Sums have one order whatever the number of ranks: ((0+1)+(2+3))+... over neighbours. Rank r holds the piece with the
 * bits of r in reverse: halves are exchanged with the nearest rank first, so that the largest messages go the shortest
 * way. The number of ranks is a power of two and divides the length. */
#ifndef MBA_COLLECTIVES_H
#define MBA_COLLECTIVES_H

#include "core/graph.h"
#include "core/world.h"

typedef struct mba_place { /* of a rank in a world, which need not be there to plan */
    int64_t rank, ranks;
} mba_place;

/* In place: the own piece of x becomes the sum over all ranks, the others zero. */
mba_tensor *mba_reduce_scatter(mba_graph *g, mba_tensor *x, mba_place p);

/* In place: every piece of x becomes that of the rank that holds it. */
mba_tensor *mba_all_gather(mba_graph *g, mba_tensor *x, mba_place p);

/* In place: x becomes the sum over all ranks. */
mba_tensor *mba_allreduce(mba_graph *g, mba_tensor *x, mba_place p);

/* y is the x of the rank `shift` before this one (1 or -1); zeros where there is none. */
mba_tensor *mba_send_recv(mba_graph *g, mba_tensor *x, mba_place p, int64_t shift);

/* Where the piece of a rank begins in n elements. */
int64_t mba_piece_offset(mba_place p, int64_t n);

/* For operators and checkpoints: all_gather over `bytes` of host memory, in place. */
MBA_MUST mba_status mba_pieces_gather(mba_world *w, void *x, size_t bytes);

/* What a collective node exchanges, in order, on whatever device; returns how many exchanges. For simulations of worlds
 * that are not there. */
int mba_collective_exchanges(mba_exchange out[MBA_EXCHANGE_MAX], const mba_node *n);

extern const mba_op mba_op_reduce_scatter, mba_op_all_gather, mba_op_allreduce, mba_op_send_recv;

#endif
