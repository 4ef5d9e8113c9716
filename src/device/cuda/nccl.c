// SPDX-License-Identifier: Apache-2.0
/* nccl.c -- see nccl.h. The declarations are those of nccl.h of NCCL 2: their ABI has been the same since 2.7. */
#include "device/cuda/nccl.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "device/cuda/library.h"

enum { SUCCESS = 0, UNHANDLED_CUDA = 1, SYSTEM = 2, INVALID_USAGE = 5, REMOTE = 6, IN_PROGRESS = 7 };
enum { INT8 = 0, FLOAT32 = 7, SUM = 0 };
enum { STAGE_BYTES = 32 << 20, ABORT_MS = 2000 };

typedef struct unique_id {
    char bytes[128];
} unique_id;
typedef struct ncclComm *comm;

typedef struct functions {
    int (*version)(int *out);
    int (*id)(unique_id *out);
    int (*join)(comm *out, int ranks, unique_id id, int rank);
    int (*leave)(comm c);
    int (*abort)(comm c);
    int (*async)(comm c, int *error);
    int (*begin)(void);
    int (*end)(void);
    int (*send)(const void *x, size_t n, int type, int peer, comm c, void *stream);
    int (*receive)(void *x, size_t n, int type, int peer, comm c, void *stream);
    int (*gather)(const void *from, void *to, size_t n, int type, comm c, void *stream);
    int (*scatter)(const void *from, void *to, size_t n, int type, int op, comm c, void *stream);
    const char *(*words)(int error);
} functions;

static const mba_library_name names[] = { { "ncclGetVersion", offsetof(functions, version) },
                                          { "ncclGetUniqueId", offsetof(functions, id) },
                                          { "ncclCommInitRank", offsetof(functions, join) },
                                          { "ncclCommDestroy", offsetof(functions, leave) },
                                          { "ncclCommAbort", offsetof(functions, abort) },
                                          { "ncclCommGetAsyncError", offsetof(functions, async) },
                                          { "ncclGroupStart", offsetof(functions, begin) },
                                          { "ncclGroupEnd", offsetof(functions, end) },
                                          { "ncclSend", offsetof(functions, send) },
                                          { "ncclRecv", offsetof(functions, receive) },
                                          { "ncclAllGather", offsetof(functions, gather) },
                                          { "ncclReduceScatter", offsetof(functions, scatter) },
                                          { "ncclGetErrorString", offsetof(functions, words) },
                                          { NULL, 0 } };

static struct {
    functions         f;
    _Atomic(comm)     comm; /* NULL: none; the thread that watches ranks reads it */
    int               rank, ranks;
    char              version[32];
    const mba_device *device;
    char             *stage[2]; /* on the device: what a host sends, what it receives */
    pthread_mutex_t   lock;     /* who asks, aborts or destroys the communicator: two threads may want to at once */
    _Atomic bool      aborted;  /* it is no longer ours */
    _Atomic bool      deserted; /* a call said that a peer is gone */
} nccl = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* ---- the library ---- */

const char *mba_nccl_version(void) { return nccl.version; }

static mba_status failed(int error, const char *what)
{
    const char *fix = error == INVALID_USAGE ? "one rank a GPU, and the same options on all ranks"
                                             : "NCCL_DEBUG=WARN prints what NCCL saw";
    if (error == REMOTE) atomic_store(&nccl.deserted, true);
    return mba_fail(MBA_E_DEVICE, "NCCL %s failed to %s\nwhy: %s\nfix: %s", nccl.version, what, nccl.f.words(error),
                    fix);
}

static mba_status open_library(void)
{
    const char *given = getenv("MBA_NCCL"), *file = given && *given ? given : "libnccl.so.2";
    int         code = 0;
    if (*nccl.version) return MBA_OK;
    const mba_status st = mba_library_open(file, names, &nccl.f);
    if (st != MBA_OK)
        return mba_where(st, "GPUs of several ranks exchange by NCCL; MBA_NCCL=/path/libnccl.so.2 names its library");
    const int e = nccl.f.version(&code);
    if (e != SUCCESS || code < MBA_NCCL_OLDEST)
        return mba_fail(MBA_E_UNSUPPORTED,
                        "%s is NCCL %d.%d.%d\nwhy: 2.18 is the oldest that this program works with\nfix: install a "
                        "newer one, or name it: MBA_NCCL=/path/libnccl.so.2",
                        file, code / 10000, code / 100 % 100, code % 100);
    snprintf(nccl.version, sizeof nccl.version, "%d.%d.%d", code / 10000, code / 100 % 100, code % 100);
    return MBA_OK;
}

/* ---- the communicator ---- */

/* The ranks of the communicator are numbered with their bits in reverse, so that all_gather leaves the pieces where
 * reduce_scatter by halves has made them. */
static int number_of(int rank)
{
    int n = 0;
    for (int bit = 1; bit < nccl.ranks; bit *= 2) n = 2 * n + (rank & bit ? 1 : 0);
    return n;
}

/* Rank 0 tells the others the id, or that it has none. */
static mba_status agree_on_id(unique_id *id, mba_world *w)
{
    struct invitation {
        unique_id id;
        int       error;
    } mine = { .error = 0 };
    if (!w || w->rank == 0) mine.error = nccl.f.id(&mine.id);
    struct invitation *all = w ? calloc((size_t)w->ranks, sizeof *all) : NULL;
    if (w && !all) return mba_fail(MBA_E_NOMEM, "no memory for messages of all ranks");
    mba_status st = w ? w->gather_all(w, all, &mine, sizeof mine) : MBA_OK;
    if (w && st == MBA_OK) mine = all[0];
    free(all);
    if (st == MBA_OK && mine.error) st = failed(mine.error, "make an id for the ranks");
    *id = mine.id;
    return st;
}

static mba_status exchange_hosts(mba_world *w, const void *send, int to, void *recv, int from, size_t bytes);

mba_status mba_nccl_open(mba_world *w, const mba_device *d)
{
    unique_id id;
    comm      c = NULL;
    mba_assert(!atomic_load(&nccl.comm));
    mba_status st = open_library();
    MBA_TRY(st);
    nccl.rank = w ? w->rank : 0;
    nccl.ranks = w ? w->ranks : 1;
    nccl.device = d;
    MBA_TRY(agree_on_id(&id, w));
    const int e = nccl.f.join(&c, nccl.ranks, id, number_of(nccl.rank));
    if (e != SUCCESS) return failed(e, "join the ranks");
    atomic_store(&nccl.comm, c);
    if (w && !w->exchange) w->exchange = exchange_hosts;
    return MBA_OK;
}

bool mba_nccl_is_open(void) { return atomic_load(&nccl.comm) != NULL; }

void mba_nccl_close(void)
{
    pthread_mutex_lock(&nccl.lock);
    comm c = atomic_load(&nccl.aborted) ? NULL : atomic_exchange(&nccl.comm, NULL);
    pthread_mutex_unlock(&nccl.lock);
    for (int k = 0; k < 2; k++) {
        if (nccl.stage[k]) nccl.device->dealloc(nccl.stage[k]);
        nccl.stage[k] = NULL;
    }
    if (c) (void)!nccl.f.leave(c);
}

mba_status mba_nccl_check(void)
{
    int error = SUCCESS;
    pthread_mutex_lock(&nccl.lock);
    comm      c = atomic_load(&nccl.aborted) ? NULL : atomic_load(&nccl.comm);
    const int e = c ? nccl.f.async(c, &error) : SUCCESS;
    pthread_mutex_unlock(&nccl.lock);
    if (e != SUCCESS) return failed(e, "say how it is");
    if (c && error == SUCCESS && atomic_load(&nccl.deserted)) error = REMOTE;
    return error == SUCCESS || error == IN_PROGRESS ? MBA_OK : failed(error, "exchange with the other ranks");
}

static void *abort_now(void *c)
{
    (void)!nccl.f.abort(c);
    atomic_store(&nccl.comm, NULL);
    return NULL;
}

void mba_nccl_abort(void)
{
    const struct timespec nap = { 0, 1000000 };
    pthread_t             t;
    pthread_mutex_lock(&nccl.lock);
    comm c = atomic_load(&nccl.comm);
    if (c && atomic_exchange(&nccl.aborted, true)) c = NULL; // another thread aborts it
    pthread_mutex_unlock(&nccl.lock);
    if (!c) return;
    if (pthread_create(&t, NULL, abort_now, c)) return;
    pthread_detach(t);
    for (int i = 0; i < ABORT_MS && atomic_load(&nccl.comm); i++) nanosleep(&nap, NULL); // a stuck GPU ends nothing
}

/* ---- what ranks exchange ---- */

static mba_status ready(comm *c)
{
    *c = atomic_load(&nccl.aborted) ? NULL : atomic_load(&nccl.comm);
    return *c ? MBA_OK : mba_fail(MBA_E_DEVICE, "this rank cannot exchange\nwhy: its communicator of NCCL is not open");
}

mba_status mba_nccl_exchange(const void *send, int to, void *recv, int from, size_t bytes, void *stream)
{
    comm c;
    MBA_TRY(ready(&c));
    int e = nccl.f.begin();
    if (e == SUCCESS && to >= 0) e = nccl.f.send(send, bytes, INT8, number_of(to), c, stream);
    if (e == SUCCESS && from >= 0) e = nccl.f.receive(recv, bytes, INT8, number_of(from), c, stream);
    const int ended = nccl.f.end(); // also after a failure, which it returns again
    if (e == SUCCESS) e = ended;
    return e == SUCCESS ? MBA_OK : failed(e, "exchange data between ranks");
}

mba_status mba_nccl_gather(void *x, size_t bytes, void *stream)
{
    comm c;
    MBA_TRY(ready(&c));
    const size_t piece = bytes / (size_t)nccl.ranks; // not before: a closed communicator has none
    mba_assert(piece * (size_t)nccl.ranks == bytes);
    const int e = nccl.f.gather((char *)x + piece * (size_t)number_of(nccl.rank), x, piece, INT8, c, stream);
    return e == SUCCESS ? MBA_OK : failed(e, "gather the pieces of all ranks");
}

mba_status mba_nccl_alone(void *x, size_t n, void *stream)
{
    comm c;
    MBA_TRY(ready(&c));
    mba_assert(nccl.ranks == 1);
    const int e = nccl.f.scatter(x, x, n, FLOAT32, SUM, c, stream);
    return e == SUCCESS ? MBA_OK : failed(e, "scatter a sum of one rank");
}

/* For checkpoints of ranks without MPI: memory of the hosts, part by part through the GPUs. */
static mba_status exchange_hosts(mba_world *w, const void *send, int to, void *recv, int from, size_t bytes)
{
    const mba_device *d = nccl.device;
    (void)w;
    for (int k = 0; k < 2; k++)
        if (!nccl.stage[k]) MBA_TRY(d->alloc((void **)&nccl.stage[k], STAGE_BYTES));
    for (size_t at = 0; at < bytes; at += STAGE_BYTES) {
        const size_t n = bytes - at < STAGE_BYTES ? bytes - at : STAGE_BYTES;
        if (to >= 0) MBA_TRY(d->put(nccl.stage[0], (const char *)send + at, n));
        MBA_TRY(mba_nccl_exchange(nccl.stage[0], to, nccl.stage[1], from, n, d->stream));
        if (from >= 0) MBA_TRY(d->get((char *)recv + at, nccl.stage[1], n));
        else if (d->wait) MBA_TRY(d->wait()); // the sender's buffer is its own again
    }
    return MBA_OK;
}
