// SPDX-License-Identifier: Apache-2.0
/* join.c -- see join.h. */
#include "cluster/join.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "cluster/mpi_functions.h"
#include "cluster/rendezvous.h"
#include "core/file.h"
#include "cluster/wire.h"
#include "core/version.h"

enum { PATH_ROOM = 4096 };
static const char LIBRARY[] = "libmambascope_mpi.so";

typedef struct functions {
    __typeof__(&mba_mpi_join)      join;
    __typeof__(&mba_mpi_broadcast) broadcast;
    __typeof__(&mba_mpi_exchange)  exchange;
    __typeof__(&mba_mpi_post)      post;
    __typeof__(&mba_mpi_flush)     flush;
    __typeof__(&mba_mpi_leave)     leave;
    __typeof__(&mba_mpi_words)     words;
} functions;

typedef struct cluster {
    mba_world    base;
    functions    mpi;
    mba_channel *channel;
    double       began_s;
} cluster;

/* ---- the plug-in ---- */

static bool find_library(char out[PATH_ROOM]) { return mba_library_find(out, PATH_ROOM, MBA_LIBRARY_FROM, LIBRARY); }

bool mba_cluster_has_mpi(void)
{
    char path[PATH_ROOM];
    return find_library(path);
}

static mba_status open_mpi(functions *f, const mba_launcher *l)
{
    static const char *const name[] = { "mba_mpi_join",  "mba_mpi_broadcast", "mba_mpi_exchange", "mba_mpi_post",
                                        "mba_mpi_flush", "mba_mpi_leave",     "mba_mpi_words" };
    char                     path[PATH_ROOM];
    void                    *at[sizeof name / sizeof *name];
    if (!find_library(path))
        return mba_fail(MBA_E_UNSUPPORTED,
                        "%s started %d ranks, but this program has no MPI\nwhy: %s is not beside it; it is built where "
                        "mpi.h is installed\nfix: install libopenmpi-dev and build again, or start one process",
                        l->launcher, l->ranks, LIBRARY);
    void *library = dlopen(path, RTLD_NOW | RTLD_GLOBAL); // components of Open MPI look for its symbols
    if (!library)
        return mba_fail(MBA_E_UNSUPPORTED, "cannot open %s\nwhy: %s\nfix: install the MPI that it was built with", path,
                        dlerror());
    for (size_t i = 0; i < sizeof name / sizeof *name; i++)
        if (!(at[i] = dlsym(library, name[i])))
            return mba_fail(MBA_E_UNSUPPORTED, "%s has no %s\nwhy: it is of another version of this program", path,
                            name[i]);
    memcpy(f, at, sizeof *f);
    return MBA_OK;
}

static mba_status mpi_failed(const cluster *c, int error, const char *what)
{
    char words[256];
    c->mpi.words(error, words, sizeof words);
    return mba_fail(MBA_E_DEVICE, "MPI failed to %s\nwhy: %s", what, words);
}

static mba_status start_mpi(cluster *c, const mba_launcher *l)
{
    char library[128] = "";
    int  rank, ranks;
    if (!l->mpi)
        return mba_fail(MBA_E_UNSUPPORTED,
                        "%s started %d ranks, but ranks on the CPU exchange by MPI\nwhy: %s starts none\nfix: mpirun "
                        "-np %d mambascope .., or --device cuda, or unset RANK and WORLD_SIZE",
                        l->launcher, l->ranks, l->launcher, l->ranks);
    MBA_TRY(open_mpi(&c->mpi, l));
    const int e = c->mpi.join(&rank, &ranks, library, sizeof library);
    if (e) return mpi_failed(c, e, "start");
    if (rank == l->rank && ranks == l->ranks) return MBA_OK;
    return mba_fail(MBA_E_ARG,
                    "%s says rank %d of %d, but MPI says rank %d of %d\nwhy: this program is built with %s; the "
                    "launcher belongs to another MPI, or srun has no PMIx\nfix: start with the mpirun of %s, or srun "
                    "--mpi=pmix",
                    l->launcher, l->rank, l->ranks, rank, ranks, library, library);
}

/* ---- the world ---- */

static mba_status exchange(mba_world *w, const void *send, int to, void *recv, int from, size_t bytes)
{
    cluster              *c = (cluster *)w;
    const mba_world_state before = mba_channel_mark(c->channel, -1, MBA_WORLD_WAITS);
    const int             e = c->mpi.exchange(send, to, recv, from, bytes);
    mba_channel_mark(c->channel, -1, before);
    return e ? mpi_failed(c, e, "exchange data between ranks") : MBA_OK;
}

static mba_status post(mba_world *w, const void *send, int to, size_t bytes)
{
    cluster              *c = (cluster *)w;
    const mba_world_state before = mba_channel_mark(c->channel, -1, MBA_WORLD_WAITS);
    const int             e = c->mpi.post(send, to, bytes);
    mba_channel_mark(c->channel, -1, before);
    return e ? mpi_failed(c, e, "send data to another rank") : MBA_OK;
}

static mba_status gather_all(mba_world *w, void *all, const void *mine, size_t bytes)
{
    cluster              *c = (cluster *)w;
    const mba_world_state before = mba_channel_mark(c->channel, -1, MBA_WORLD_WAITS);
    const int             e = c->mpi.flush ? c->mpi.flush() : 0; // while a rank waits here, MPI moves nothing
    mba_channel_mark(c->channel, -1, before);
    return e ? mpi_failed(c, e, "send data to another rank") : mba_channel_gather_all(c->channel, all, mine, bytes);
}

static void mark(mba_world *w, int64_t step, mba_world_state state)
{
    mba_channel_mark(((cluster *)w)->channel, step, state);
}

/* What rank 0 tells the others by MPI, so that they find its channel. */
typedef struct invitation {
    unsigned char secret[MBA_SECRET_BYTES];
    char          contacts[MBA_CONTACTS_MAX];
} invitation;

/* Seconds until all ranks must have started: large worlds take longer. */
static double start_limit(int ranks) { return 25 + (double)ranks / 64; }

/* The channel's limit ends before that of the whole start, so that rank 0 names the rank that did not come. Whoever
 * misses another ends with the exit code of a lost rank. */
static mba_status open_channel(cluster *c, int listener, const char *contacts, const unsigned char *secret,
                               const mba_cluster_options *o)
{
    const double     left = c->began_s + start_limit(c->base.ranks) - (c->base.rank ? 0 : 1) - mba_wire_seconds();
    const mba_status st = mba_channel_open(&c->channel, &(mba_channel_options){ .rank = c->base.rank,
                                                                                .ranks = c->base.ranks,
                                                                                .listener = listener,
                                                                                .contacts = contacts,
                                                                                .version = MBA_VERSION " " MBA_COMMIT,
                                                                                .secret = secret,
                                                                                .start_s = left > 0.1 ? left : 0.1,
                                                                                .lost = o->lost,
                                                                                .ctx = o->ctx,
                                                                                .check = o->check });
    if (st != MBA_E_DEVICE) return st;
    mba_channel_end end = { .rank = -1, .code = MBA_LOST_CODE, .prints = true };
    snprintf(end.text, sizeof end.text, "%s", mba_message());
    o->lost(o->ctx, &end);
    return st;
}

/* Ranks without MPI: rank 0 listens where the others look for it. */
static mba_status meet(cluster *c, const mba_launcher *l, const mba_cluster_options *o)
{
    mba_rendezvous at;
    char           contacts[MBA_CONTACTS_MAX];
    int            listener = -1;
    MBA_TRY(mba_rendezvous_find(&at, l, getenv));
    if (l->rank == 0) MBA_TRY(mba_channel_listen(&listener, contacts, at.port));
    snprintf(contacts, sizeof contacts, "%d %s", at.port, at.address);
    c->base.exchange = NULL;
    c->base.post = NULL; // sequences in parts are for CPUs
    return open_channel(c, listener, contacts, at.secret, o);
}

static mba_status invite(cluster *c, const mba_cluster_options *o)
{
    invitation in = { .contacts = "" };
    int        listener = -1;
    mba_status st = c->base.rank == 0 ? mba_channel_listen(&listener, in.contacts, 0) : MBA_OK;
    if (getrandom(in.secret, sizeof in.secret, 0) != (ssize_t)sizeof in.secret)
        st = mba_fail(MBA_E_IO, "this system has no random numbers for a secret");
    const int e = c->mpi.broadcast(&in, (int)sizeof in); // also after a failure: the others wait for it
    if (st != MBA_OK) return st;
    if (e) return mpi_failed(c, e, "tell the ranks where rank 0 is");
    return open_channel(c, listener, in.contacts, in.secret, o);
}

/* ---- the start ---- */

/* A thread that ends this rank if the others do not come: until all have opened the channel, nobody else would
 * notice. */
typedef struct patience {
    int          rank;
    double       seconds;
    _Atomic bool joined;
    void (*lost)(void *, const mba_channel_end *);
    void     *ctx;
    pthread_t thread;
    bool      runs;
} patience;

static void *wait_for_start(void *arg)
{
    patience       *p = arg;
    const double    until = mba_wire_seconds() + p->seconds + (p->rank ? 1 : 0);        // rank 0 speaks first
    mba_channel_end end = { .rank = -1, .code = MBA_LOST_CODE, .prints = p->rank < 2 }; // rank 0 may be the one
    while (!atomic_load(&p->joined)) {
        usleep(10000);
        if (mba_wire_seconds() < until) continue;
        snprintf(end.text, sizeof end.text,
                 "not all ranks have started after %.0f s\nwhy: one of them is stopped, or its host does not answer\n"
                 "fix: start the run again with --resume auto; exit code %d says that this may help",
                 p->seconds, MBA_LOST_CODE);
        p->lost(p->ctx, &end);
    }
    return NULL;
}

static void begin_patience(patience *p, const mba_launcher *l, void (*lost)(void *, const mba_channel_end *), void *ctx)
{
    *p = (patience){ .rank = l->rank, .seconds = start_limit(l->ranks), .lost = lost, .ctx = ctx };
    p->runs = !pthread_create(&p->thread, NULL, wait_for_start, p); // without it, the start has no limit
}

static void end_patience(patience *p)
{
    atomic_store(&p->joined, true);
    if (p->runs) pthread_join(p->thread, NULL);
}

mba_status mba_cluster_join(mba_world **out, const mba_launcher *l, const mba_cluster_options *o)
{
    mba_assert(l->ranks > 1);
    if (l->ranks & (l->ranks - 1))
        return mba_fail(
            MBA_E_UNSUPPORTED,
            "%s started %d ranks\nwhy: gradients are added in a binary tree over ranks, which gives the same "
            "bits for any number of them that is a power of two\nfix: start %d",
            l->launcher, l->ranks, 1 << (31 - __builtin_clz((unsigned)l->ranks)));
    cluster *c = calloc(1, sizeof *c);
    if (!c) return mba_fail(MBA_E_NOMEM, "no memory to join the other ranks");
    c->began_s = mba_wire_seconds();
    c->base = (mba_world){
        .rank = l->rank, .ranks = l->ranks, .exchange = exchange, .post = post, .gather_all = gather_all, .mark = mark
    };
    mba_status st;
    patience   start;
    begin_patience(&start, l, o->lost, o->ctx);
    if (o->gpus && mba_rendezvous_wanted(l, mba_cluster_has_mpi(), getenv)) {
        st = meet(c, l, o);
    } else {
        st = start_mpi(c, l);
        if (st == MBA_OK) st = invite(c, o);
    }
    end_patience(&start);
    if (st == MBA_OK) *out = &c->base;
    else free(c);
    return st;
}

void mba_cluster_leave(mba_world *w)
{
    if (!w) return;
    cluster *c = (cluster *)w;
    mba_channel_close(c->channel);
    if (c->mpi.leave) c->mpi.leave();
    free(c);
}

void mba_cluster_set_timeout(mba_world *w, double seconds)
{
    mba_channel_set_timeout(((cluster *)w)->channel, seconds);
}

bool mba_cluster_fail(mba_world *w, int code, const char *text)
{
    return mba_channel_fail(((cluster *)w)->channel, code, text);
}

mba_rank_words mba_cluster_rank(const mba_world *w)
{
    mba_rank_words r;
    snprintf(r.text, sizeof r.text, "rank %d (%s)", w->rank, mba_channel_host(((const cluster *)w)->channel));
    return r;
}
