// SPDX-License-Identifier: Apache-2.0
/* world.h -- the interface between a step and the other ranks of a run: bulk exchanges, small agreements.
 *
 *     MBA_TRY(w->exchange(w, mine, w->rank ^ 1, theirs, w->rank ^ 1, bytes));   // neighbours swap buffers
 *     MBA_TRY(w->gather_all(w, all, &count, sizeof count));                     // all[k]: what rank k gave
 *
 * A rank is a process with one device; a world has a power of two of them. src/cluster implements the interface by MPI
 * between processes and by memory between threads (for tests); GPUs exchange beside it (device/cuda/nccl.h). All ranks
 * make the same calls in the same order, each from one thread. A world of one has no such object: the pointer is
 * NULL. */
#ifndef MBA_WORLD_H
#define MBA_WORLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/status.h"

enum { MBA_WORLD_SMALL = 1 << 20 }; /* bytes that a rank may give to gather_all */

/* What a rank does now, for those who watch whether it still moves. */
typedef enum mba_world_state {
    MBA_WORLD_ASIDE,    /* starts, saves, prints: it may wait for a disk or a terminal as long as it likes */
    MBA_WORLD_WORKS,    /* reads, validates: as long as it likes, while its process uses the processor */
    MBA_WORLD_COMPUTES, /* takes a step: the same, and not much longer than steps before */
    MBA_WORLD_WAITS     /* for other ranks */
} mba_world_state;

typedef struct mba_world mba_world;
struct mba_world {
    int rank, ranks;
    /* Sends `bytes` to rank `to` while it receives as many from rank `from`; -1: that half does not take place. Returns
     * when both buffers are the caller's again. They must not overlap. The memory is that of the host; NULL until
     * device/cuda/nccl.h sets it, for ranks with GPUs and without MPI. */
    mba_status (*exchange)(mba_world *w, const void *send, int to, void *recv, int from, size_t bytes);
    /* Copies `bytes` for rank `to`, which takes them by `exchange`, and returns. Waits only while earlier ones fill the
     * few places for copies. NULL: this world cannot. */
    mba_status (*post)(mba_world *w, const void *send, int to, size_t bytes);
    /* Fills all (ranks x bytes) with what every rank gave, in order of ranks. A barrier with 0 bytes. */
    mba_status (*gather_all)(mba_world *w, void *all, const void *mine, size_t bytes);
    /* Notes that the rank moves; NULL: nobody watches. */
    void (*mark)(mba_world *w, int64_t step, mba_world_state state);
};

static inline void mba_world_mark(mba_world *w, int64_t step, mba_world_state state)
{
    if (w && w->mark) w->mark(w, step, state);
}

static inline mba_status mba_world_barrier(mba_world *w) { return w ? w->gather_all(w, NULL, NULL, 0) : MBA_OK; }

#endif
