// SPDX-License-Identifier: Apache-2.0
/* collectives_slots.h -- what the files of the collectives share: slots by name, attributes, the declarations of
 * variants. */
#ifndef MBA_COLLECTIVES_SLOTS_H
#define MBA_COLLECTIVES_SLOTS_H

#include "core/op.h"
#include "ops/collectives/collectives.h"

enum { X };
enum { Y };

typedef struct collective_attr {
    mba_place place;
    int64_t   shift; /* of send_recv */
} collective_attr;

/* Of send, receive and gather_prefix, whose place is that among the ranks of one sequence. */
typedef struct sequence_attr {
    mba_place place;
    int64_t   shift; /* 1: x goes to the next part; -1: to the one before, as gradients do */
    mba_type  type;  /* of what one part sends */
} sequence_attr;

/* The part `shift` further on; -1: there is none. */
static inline int64_t sequence_peer(const sequence_attr *a, int64_t shift)
{
    const int64_t part = a->place.rank + shift;
    return part >= 0 && part < a->place.ranks ? part : -1;
}

/* An allreduce of fewer elements, or of a length that the ranks do not divide, exchanges whole vectors: fewer messages,
 * the same order of sums. */
enum { ALLREDUCE_WHOLE = 16384 };
static inline bool allreduce_whole(int64_t n, int64_t ranks) { return n <= ALLREDUCE_WHOLE || n % ranks; }

/* CUDA: threads of a block of the kernel that adds, and the values that it takes. */
enum { COLLECTIVE_BLOCK = 256, COLLECTIVE_VALUES = 4096 };

void reduce_scatter_ref(const mba_ref_call *c);
void all_gather_ref(const mba_ref_call *c);
void allreduce_ref(const mba_ref_call *c);
void send_recv_ref(const mba_ref_call *c);
void send_ref(const mba_ref_call *c);
void receive_ref(const mba_ref_call *c);
void gather_prefix_ref(const mba_ref_call *c);
void gather_prefix_bwd_ref(const mba_ref_call *c);
MBA_CPU_DECLARE(reduce_scatter);
MBA_CPU_DECLARE(all_gather);
MBA_CPU_DECLARE(allreduce);
MBA_CPU_DECLARE(send_recv);
MBA_CPU_DECLARE(send_fwd);
MBA_CPU_DECLARE(receive_fwd);
MBA_CPU_DECLARE(gather_prefix);
MBA_CPU_DECLARE(gather_prefix_bwd);
mba_launch_fn reduce_scatter_cuda, all_gather_cuda, allreduce_cuda, send_recv_cuda;

#endif
