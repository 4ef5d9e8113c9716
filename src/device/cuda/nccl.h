// SPDX-License-Identifier: Apache-2.0
/* nccl.h -- how the GPUs of several ranks exchange: NVIDIA's libnccl.so.2, opened when it is first needed.
 *
 *     MBA_TRY(mba_nccl_open(w, device));                              // all ranks, each with its own GPU
 *     MBA_TRY(mba_nccl_exchange(x, w->rank ^ 1, received, w->rank ^ 1, bytes, stream));
 *     MBA_TRY(mba_nccl_gather(x, bytes, stream));                     // pieces as ops/collectives.h orders them
 *     mba_nccl_close();                                               // all ranks
 *
 * A process has one GPU and one communicator, as it has one device. Calls are enqueued in order of a stream, also while
 * that is captured; all ranks make the same calls in the same order. NCCL only moves bytes: it never adds, because the
 * order in which it would add follows the topology. A world of one opens nothing unless somebody asks for it: then w is
 * NULL.
 *
 * This file needs no header of CUDA or NCCL: streams are pointers, and nccl.c declares what it calls. MBA_NCCL names
 * another library than the loader finds. */
#ifndef MBA_NCCL_H
#define MBA_NCCL_H

#include "core/device.h"
#include "core/world.h"

enum { MBA_NCCL_OLDEST = 21800 }; /* 2.18: in-place collectives of one rank, capture of send and receive */

/* Opens the library and joins the ranks; rank 0 makes the id, w->gather_all tells it. If w has no way to exchange
 * memory of hosts, it gets one here, over the GPUs. */
MBA_MUST mba_status mba_nccl_open(mba_world *w, const mba_device *d);
bool                mba_nccl_is_open(void);
void                mba_nccl_close(void); /* nothing open is fine */

/* "2.28.9", or "" before it is open. */
const char *mba_nccl_version(void);

/* Sends `bytes` to rank `to` while it receives as many from rank `from`; -1: that half does not take place. */
MBA_MUST mba_status mba_nccl_exchange(const void *send, int to, void *recv, int from, size_t bytes, void *stream);

/* In place: `bytes` in all, of which every rank holds its piece (mba_piece_offset). */
MBA_MUST mba_status mba_nccl_gather(void *x, size_t bytes, void *stream);

/* One rank: NCCL's own reduce_scatter of n floats, in place, which changes nothing. */
MBA_MUST mba_status mba_nccl_alone(void *x, size_t n, void *stream);

/* Fails with what went wrong in the background, a link or a peer, and after a call that said that a peer is gone. Any
 * thread may ask. */
MBA_MUST mba_status mba_nccl_check(void);

/* Ends kernels that wait for other ranks, within two seconds. For the thread that ends a run: nothing can be exchanged
 * afterwards. */
void mba_nccl_abort(void);

#endif
