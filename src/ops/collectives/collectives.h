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

/* How ranks divide the flat gradient of each group: into buckets of so many elements, 0 where it is not divided;
 * `used`: elements before the padding that makes the buckets equal. */
typedef struct mba_buckets {
    int64_t bucket[MBA_GROUPS], used[MBA_GROUPS];
} mba_buckets;

/* In place: the own piece of x becomes the sum over all ranks, the others zero. */
mba_tensor *mba_reduce_scatter(mba_graph *g, mba_tensor *x, mba_place p);

/* In place: every piece of x becomes that of the rank that holds it. */
mba_tensor *mba_all_gather(mba_graph *g, mba_tensor *x, mba_place p);

/* In place: x becomes the sum over all ranks. */
mba_tensor *mba_allreduce(mba_graph *g, mba_tensor *x, mba_place p);

/* y is the x of the rank `shift` before this one (1 or -1); zeros where there is none. */
mba_tensor *mba_send_recv(mba_graph *g, mba_tensor *x, mba_place p, int64_t shift);

/* Between the ranks that hold the parts of a sequence, in order; `p` is the place among them, and gradients go back the
 * same way. A rank goes on while what it sends is on its way, so that the next one follows it at the distance of one
 * operator, through all layers. */
void        mba_send(mba_graph *g, mba_tensor *x, mba_place p);          /* to the next part */
mba_tensor *mba_receive(mba_graph *g, mba_type type, mba_place p);       /* from the part before; the first: zeros */
mba_tensor *mba_gather_prefix(mba_graph *g, mba_tensor *x, mba_place p); /* (B, L, ..) -> (B, (rank + 1) L, ..) */

/* Where the piece of a rank begins in n elements. */
int64_t mba_piece_offset(mba_place p, int64_t n);

/* For operators and checkpoints: all_gather over `bytes` of host memory, in place. */
MBA_MUST mba_status mba_pieces_gather(mba_world *w, void *x, size_t bytes);

/* What a collective node exchanges, in order, on whatever device; returns how many exchanges. For simulations of worlds
 * that are not there. */
int mba_collective_exchanges(mba_exchange out[MBA_EXCHANGE_MAX], const mba_node *n);

extern const mba_op mba_op_reduce_scatter, mba_op_all_gather, mba_op_allreduce, mba_op_send_recv, mba_op_send,
    mba_op_receive, mba_op_gather_prefix, mba_op_gather_prefix_bwd;

#endif
