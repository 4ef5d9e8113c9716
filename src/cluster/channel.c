// SPDX-License-Identifier: Apache-2.0
/* channel.c -- see channel.h: what ranks say to each other, and the thread that listens and watches. wire.c has the
 * sockets. */
#include "cluster/channel.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cluster/wire.h"

static const double PULSE_S = 2;   /* between two pulses of a rank */
static const double PATIENCE = 20; /* a move may take so many times longer than the longest so far */

/* A process that uses less processor time than this until the timeout does nothing. Threads of libraries that look
 * around now and then take less; to read 1 MB takes a third of a millisecond. */
static const double NOTHING_S = 0.005;

typedef struct pulse {
    int64_t step, moves;
    double  longest_s;     /* between two moves so far */
    double  cpu_s;         /* processor time of all its threads but the one that sends this */
    int32_t state, judged; /* judged: the rank has finished a step, so that longest_s means something */
} pulse;

typedef struct peer {
    int             fd;
    _Atomic bool    left; /* it said goodbye */
    char            host[MBA_WIRE_HOST];
    double          seen_s, moved_s; /* when its last message came; when it last moved */
    double          busy_s, cpu_s;   /* when it last did something, or had nothing to do; its processor time then */
    double          idle_s;          /* from then to its last pulse */
    bool            answers;         /* though it is to blame: it is told, too */
    pulse           last;
    pthread_mutex_t sending;
} peer;

struct mba_channel {
    mba_channel_options o;
    _Atomic double      timeout_s;
    char                host[MBA_WIRE_HOST];
    peer               *peer; /* rank 0: of every rank; others: peer[0] alone */
    pthread_t           thread;
    bool                runs;
    pthread_mutex_t     lock; /* of what follows */
    pthread_cond_t      news;
    uint64_t            serial; /* of the current gather_all */
    size_t              bytes;  /* that a rank gives */
    char               *all;    /* ranks x bytes, as they come */
    size_t              room;
    int                 here;       /* pieces that came */
    bool                whole;      /* others than rank 0: the result came */
    bool                over;       /* a rank has left: nothing more is gathered */
    _Atomic bool        ending;     /* goodbyes are exchanged */
    _Atomic bool        failed;     /* this rank fails by itself: nobody else is to blame */
    _Atomic bool        ends;       /* `lost` is called */
    bool                reported;   /* this rank's links have failed, and rank 0 has been told */
    mba_wire_end        report;     /* rank 0: the first such report of a rank */
    double              reported_s; /* when it came; 0: none has */
    /* What this rank does, for its pulse. */
    _Atomic int64_t step, moves;
    _Atomic int     state;
    _Atomic double  longest_s, moved_s;
    int64_t         first_step; /* that the thread saw; -1: none yet */
};

/* ---- ends ---- */

static mba_wire_end end_of(int rank, int code, const char *text)
{
    mba_wire_end e = { .rank = rank, .code = code };
    snprintf(e.text, sizeof e.text, "%s", text);
    return e;
}

static mba_status tell(peer *p, mba_wire_type type, uint64_t serial, const void *data, size_t bytes)
{
    pthread_mutex_lock(&p->sending);
    const mba_status st = p->fd < 0 ? MBA_E_IO : mba_wire_send(p->fd, type, serial, data, bytes);
    pthread_mutex_unlock(&p->sending);
    return st;
}

/* Rank 0 tells all others; then the process ends. */
static void end_run(mba_channel *c, const mba_wire_end *e, bool prints)
{
    mba_channel_end end = { .rank = e->rank, .code = e->code, .prints = prints };
    snprintf(end.text, sizeof end.text, "%s", e->text);
    for (int k = 1; c->o.rank == 0 && k < c->o.ranks; k++)
        if ((k != e->rank || c->peer[k].answers) && !c->peer[k].left)
            (void)!tell(&c->peer[k], MBA_WIRE_END, 0, e, sizeof *e);
    atomic_store(&c->ends, true);
    c->o.lost(c->o.ctx, &end);
}

static void lose(mba_channel *c, int rank, const char *why)
{
    const peer  *p = &c->peer[rank];
    mba_wire_end e = end_of(rank, MBA_LOST_CODE, "");
    if (atomic_load(&c->failed)) return;
    char at[64] = "before its first step", met[64] = "";
    if (p->last.step >= 0) snprintf(at, sizeof at, "at step %lld", (long long)p->last.step);
    if (c->reported_s > 0) snprintf(met, sizeof met, "; the links of rank %d failed meanwhile", c->report.rank);
    snprintf(
        e.text, sizeof e.text,
        "rank %d (%s) is lost\nwhy: %s; its last message came %s%s\nfix: start the run again with --resume auto; exit "
        "code %d says that this may help",
        rank, p->host, why, at, met, MBA_LOST_CODE);
    end_run(c, &e, true);
}

bool mba_channel_fail(mba_channel *c, int code, const char *text)
{
    mba_wire_end e = end_of(c->o.rank, code, "");
    snprintf(e.text, sizeof e.text, "rank %d (%s): %s", c->o.rank, c->host, text);
    // Broken links, and `lost` when it cuts them, fail whoever uses them: the thread that watches ends the process, and
    // knows which rank is lost. The check comes first: links that were cut on purpose pass it.
    if ((c->o.check && c->o.check() != MBA_OK) || atomic_load(&c->ends))
        for (;;) pause();
    atomic_store(&c->failed, true);
    if (c->o.rank) {
        const bool told = tell(&c->peer[0], MBA_WIRE_FAILED, 0, &e, sizeof e) == MBA_OK;
        // The launcher kills the others once this process ends: rank 0 prints first.
        for (int i = 0; told && i < 200 && !atomic_load(&c->peer[0].left); i++) usleep(10000);
        return told;
    }
    for (int k = 1; k < c->o.ranks; k++) (void)!tell(&c->peer[k], MBA_WIRE_END, 0, &e, sizeof e);
    return false;
}

/* Whose links fail is rarely who failed: rank 0 notes the first report and waits for what the channel knows. */
static void take_report(mba_channel *c, int rank, const mba_wire_end *e)
{
    if (c->reported_s > 0) return;
    c->report = end_of(rank, MBA_LOST_CODE, "");
    snprintf(c->report.text, sizeof c->report.text, "%.1200s", e->text);
    c->reported_s = mba_wire_seconds();
}

/* This rank's links have failed while its main thread may wait for them: rank 0 is told, and ends all. */
static void check_links(mba_channel *c)
{
    if (!c->o.check || c->reported || atomic_load(&c->failed) || c->o.check() == MBA_OK) return;
    mba_wire_end e = end_of(c->o.rank, MBA_LOST_CODE, "");
    snprintf(e.text, sizeof e.text, "rank %d (%s) reports: %.1000s", c->o.rank, c->host, mba_message());
    c->reported = true;
    if (c->o.rank == 0) take_report(c, 0, &e);
    else (void)!tell(&c->peer[0], MBA_WIRE_REPORT, 0, &e, sizeof e); // if rank 0 is gone, this rank notices
}

/* Rank 0: a rank that failed says so, closes its connection or falls silent. If all have sent a pulse since a report,
 * none of them has. */
static void judge_report(mba_channel *c)
{
    mba_wire_end *e = &c->report;
    if (!(c->reported_s > 0) || atomic_load(&c->failed)) return;
    for (int k = 1; k < c->o.ranks; k++)
        if (!c->peer[k].left && c->peer[k].seen_s < c->reported_s + PULSE_S) return;
    const size_t n = strlen(e->text);
    c->peer[e->rank].answers = true;
    snprintf(e->text + n, sizeof e->text - n,
             "\nwhere: all ranks answer; whether a GPU, a link or this rank has failed is not known");
    end_run(c, e, true);
}

/* ---- gathering ---- */

static bool make_room(mba_channel *c, size_t bytes)
{
    const size_t need = bytes * (size_t)c->o.ranks;
    if (need > c->room) {
        char *more = realloc(c->all, need);
        if (!more) return false;
        c->all = more;
        c->room = need;
    }
    c->bytes = bytes;
    return true;
}

/* Rank 0: takes the piece of a rank; the lock is held. False: the rank is out of step with the others. */
static bool take_piece(mba_channel *c, int rank, const void *data, size_t bytes)
{
    if (!c->here && !make_room(c, bytes)) return false;
    if (bytes != c->bytes) return false;
    if (bytes) memcpy(c->all + (size_t)rank * bytes, data, bytes);
    if (++c->here == c->o.ranks) pthread_cond_broadcast(&c->news);
    return true;
}

static mba_status out_of_step(const mba_channel *c)
{
    return mba_fail(MBA_E_DEVICE,
                    "the ranks are out of step\nwhy: a message of rank %d has another size than its place in the "
                    "step\nfix: start all ranks with the same program and options",
                    c->o.rank);
}

static mba_status has_left(const mba_channel *c)
{
    return mba_fail(MBA_E_DEVICE,
                    "rank %d waits for a rank that has left the run\nwhy: that rank has taken all of its steps\nfix: "
                    "start all ranks with the same program and options",
                    c->o.rank);
}

static mba_status gather_at_root(mba_channel *c, void *all, const void *mine, size_t bytes)
{
    pthread_mutex_lock(&c->lock);
    bool ok = take_piece(c, 0, mine, bytes);
    while (ok && c->here < c->o.ranks && !c->over) pthread_cond_wait(&c->news, &c->lock);
    const bool     whole = c->here == c->o.ranks;
    const uint64_t serial = ++c->serial;
    const size_t   n = bytes * (size_t)c->o.ranks;
    c->here = 0; // a rank gives its next piece only after it has this result
    if (ok && whole && n) memcpy(all, c->all, n);
    pthread_mutex_unlock(&c->lock);
    if (!ok) return out_of_step(c);
    if (!whole) return has_left(c);
    for (int k = 1; k < c->o.ranks; k++)
        (void)!tell(&c->peer[k], MBA_WIRE_ALL, serial, all, n); // the watch sees who is gone
    return MBA_OK;
}

static mba_status gather_at_leaf(mba_channel *c, void *all, const void *mine, size_t bytes)
{
    (void)!tell(&c->peer[0], MBA_WIRE_PIECE, c->serial + 1, mine, bytes);
    pthread_mutex_lock(&c->lock);
    while (!c->whole && !c->over) pthread_cond_wait(&c->news, &c->lock);
    const bool ok = c->bytes == bytes * (size_t)c->o.ranks, whole = c->whole;
    c->whole = false;
    c->serial++;
    if (ok && whole && bytes) memcpy(all, c->all, c->bytes);
    pthread_mutex_unlock(&c->lock);
    return !whole ? has_left(c) : ok ? MBA_OK : out_of_step(c);
}

mba_status mba_channel_gather_all(mba_channel *c, void *all, const void *mine, size_t bytes)
{
    mba_assert(bytes <= MBA_WORLD_SMALL);
    const mba_world_state before = mba_channel_mark(c, -1, MBA_WORLD_WAITS);
    const mba_status      st = c->o.rank ? gather_at_leaf(c, all, mine, bytes) : gather_at_root(c, all, mine, bytes);
    mba_channel_mark(c, -1, before);
    return st;
}

/* ---- pulses ---- */

mba_world_state mba_channel_mark(mba_channel *c, int64_t step, mba_world_state state)
{
    const double          now = mba_wire_seconds(), took = now - atomic_load(&c->moved_s);
    const mba_world_state before = (mba_world_state)atomic_load(&c->state);
    if (before == MBA_WORLD_COMPUTES && took > atomic_load(&c->longest_s)) atomic_store(&c->longest_s, took);
    if (step >= 0) atomic_store(&c->step, step);
    atomic_store(&c->moved_s, now);
    atomic_store(&c->state, (int)state);
    atomic_fetch_add(&c->moves, 1);
    return before;
}

void mba_channel_set_timeout(mba_channel *c, double seconds)
{
    atomic_store(&c->timeout_s, seconds);
    for (int k = 0; k < (c->o.rank ? 1 : c->o.ranks); k++) {
        peer *p = &c->peer[k];
        pthread_mutex_lock(&p->sending); // the thread may close it
        if (p->fd >= 0) mba_wire_limit(p->fd, seconds);
        pthread_mutex_unlock(&p->sending);
    }
}

/* The calling thread sends pulses whatever the others do. */
static double cpu_of_others(void)
{
    struct timespec all = { 0, 0 }, own = { 0, 0 };
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &own);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &all);
    return (double)(all.tv_sec - own.tv_sec) + 1e-9 * (double)(all.tv_nsec - own.tv_nsec);
}

static pulse own_pulse(mba_channel *c)
{
    const int64_t step = atomic_load(&c->step);
    if (c->first_step < 0) c->first_step = step;
    return (pulse){ .step = step,
                    .moves = atomic_load(&c->moves),
                    .longest_s = atomic_load(&c->longest_s),
                    .cpu_s = cpu_of_others(),
                    .state = atomic_load(&c->state),
                    .judged = c->first_step >= 0 && step > c->first_step };
}

static void note_pulse(peer *p, const pulse *now)
{
    const double t = mba_wire_seconds();
    const bool   moved = now->moves != p->last.moves;
    const bool   works = now->state == MBA_WORLD_WORKS || now->state == MBA_WORLD_COMPUTES;
    if (moved || now->state == MBA_WORLD_ASIDE || now->state == MBA_WORLD_WORKS) p->moved_s = t;
    if (moved || !works || now->cpu_s - p->cpu_s > NOTHING_S) p->busy_s = t, p->cpu_s = now->cpu_s;
    p->idle_s = t - p->busy_s;
    p->last = *now;
}

/* The rank answers: it is told, and need not guess from a closed connection. */
static void lose_stuck(mba_channel *c, int rank, const char *why)
{
    c->peer[rank].answers = true;
    lose(c, rank, why);
}

/* Rank 0: finds a rank that has work and whose process does nothing. No step need have ended before: a long first step
 * uses the processor, while one that waits for a disk, or for a lock that nobody gives back, does not. */
static void judge_idle(mba_channel *c)
{
    char why[256];
    for (int k = 0; k < c->o.ranks; k++) {
        const peer *p = &c->peer[k];
        if (p->left || p->idle_s <= atomic_load(&c->timeout_s)) continue;
        snprintf(why, sizeof why, "it answers, but has done nothing for %.0f s while it had to %s (--timeout)",
                 p->idle_s, p->last.state == MBA_WORLD_WORKS ? "read or validate" : "take a step");
        lose_stuck(c, k, why);
    }
}

/* Rank 0: finds a rank that computes and does not move. If all of them wait, no one is behind: the network between
 * them does not deliver. */
static void judge_moves(mba_channel *c)
{
    double limit = atomic_load(&c->timeout_s), now = mba_wire_seconds();
    int    waiting = 0;
    char   why[256];
    for (int k = 0; k < c->o.ranks; k++)
        if (PATIENCE * c->peer[k].last.longest_s > limit) limit = PATIENCE * c->peer[k].last.longest_s;
    for (int k = 0; k < c->o.ranks; k++) {
        const peer *p = &c->peer[k];
        if (!p->last.judged || p->left || now - p->moved_s < limit) continue;
        snprintf(why, sizeof why, "it answers, but has computed for %.0f s without moving", now - p->moved_s);
        if (p->last.state == MBA_WORLD_COMPUTES) lose_stuck(c, k, why);
        waiting += p->last.state == MBA_WORLD_WAITS;
    }
    if (waiting < c->o.ranks || atomic_load(&c->failed)) return;
    const mba_wire_end e = end_of(-1, MBA_LOST_CODE,
                                  "all ranks wait for each other\nwhy: the network between them does not deliver\n"
                                  "fix: start the run again with --resume auto");
    end_run(c, &e, true);
}

typedef struct reason {
    char text[96];
} reason;

static reason no_sign(mba_channel *c)
{
    reason r;
    snprintf(r.text, sizeof r.text, "no sign of life for %.0f s (--timeout)", atomic_load(&c->timeout_s));
    return r;
}

static void beat(mba_channel *c)
{
    const pulse  mine = own_pulse(c);
    const double now = mba_wire_seconds(), timeout = atomic_load(&c->timeout_s);
    if (c->o.rank) {
        (void)!tell(&c->peer[0], MBA_WIRE_PULSE, 0, &mine, sizeof mine);
        if (now - c->peer[0].seen_s > timeout && !c->ending) lose(c, 0, no_sign(c).text);
        return;
    }
    note_pulse(&c->peer[0], &mine);
    c->peer[0].seen_s = now;
    for (int k = 1; k < c->o.ranks; k++) {
        peer *p = &c->peer[k];
        if (p->left) continue;
        if (now - p->seen_s > timeout) lose(c, k, no_sign(c).text);
        (void)!tell(p, MBA_WIRE_PULSE, 0, &mine, sizeof mine);
    }
    judge_report(c);
    judge_idle(c);
    judge_moves(c);
}

/* ---- the thread ---- */

static void take_result(mba_channel *c, char **data, size_t bytes)
{
    pthread_mutex_lock(&c->lock);
    free(c->all);
    c->all = *data;
    c->bytes = bytes;
    c->whole = true;
    *data = NULL;
    pthread_cond_broadcast(&c->news);
    pthread_mutex_unlock(&c->lock);
}

static void obey(mba_channel *c, int rank, const mba_wire_head *h, char **data)
{
    peer *p = &c->peer[rank];
    bool  fits = true;
    p->seen_s = mba_wire_seconds();
    switch ((mba_wire_type)h->type) {
    case MBA_WIRE_PULSE:
        if (h->bytes == sizeof(pulse)) note_pulse(p, (const pulse *)(const void *)*data);
        break;
    case MBA_WIRE_PIECE:
        pthread_mutex_lock(&c->lock);
        fits = take_piece(c, rank, *data, h->bytes);
        pthread_mutex_unlock(&c->lock);
        if (!fits) lose(c, rank, "it is out of step with the others");
        break;
    case MBA_WIRE_ALL: take_result(c, data, h->bytes); break;
    case MBA_WIRE_REPORT:
        if (h->bytes == sizeof(mba_wire_end)) take_report(c, rank, (const mba_wire_end *)(const void *)*data);
        break;
    case MBA_WIRE_FAILED:
    case MBA_WIRE_END:
        if (h->bytes == sizeof(mba_wire_end) && !atomic_load(&c->failed))
            end_run(c, (const mba_wire_end *)(const void *)*data, c->o.rank == 0);
        break;
    case MBA_WIRE_BYE: p->left = true; break;
    default: break;
    }
}

/* Reads one message of a rank. A connection that closed after a goodbye is fine. */
static void hear(mba_channel *c, int rank)
{
    peer            *p = &c->peer[rank];
    mba_wire_head    h;
    char            *data = NULL;
    const mba_status st = mba_wire_receive(p->fd, &h, &data);
    if (st == MBA_OK) {
        obey(c, rank, &h, &data);
    } else {
        const bool fine = p->left || c->ending;
        pthread_mutex_lock(&p->sending);
        close(p->fd);
        p->fd = -1;
        pthread_mutex_unlock(&p->sending);
        if (!fine && st == MBA_E_DEVICE) lose(c, rank, no_sign(c).text);
        if (!fine) lose(c, rank, "its connection closed: it was killed, or it crashed");
        p->left = true;
        pthread_mutex_lock(&c->lock);
        c->over = true;
        pthread_cond_broadcast(&c->news);
        pthread_mutex_unlock(&c->lock);
    }
    free(data);
}

static void *watch(void *arg)
{
    mba_channel   *c = arg;
    const int      peers = c->o.rank ? 1 : c->o.ranks;
    struct pollfd *fd = calloc((size_t)peers, sizeof *fd);
    double         next = 0;
    while (fd) {
        int open = 0;
        for (int k = 0; k < peers; k++) {
            fd[k] = (struct pollfd){ .fd = c->peer[k].fd, .events = POLLIN };
            open += c->peer[k].fd >= 0;
        }
        if (!open) break; // all have left
        (void)!poll(fd, (nfds_t)peers, 200);
        for (int k = 0; k < peers; k++)
            if (fd[k].fd >= 0 && fd[k].revents) hear(c, k);
        if (mba_wire_seconds() < next) continue;
        next = mba_wire_seconds() + PULSE_S;
        if (!c->ending) check_links(c);
        if (!c->ending) beat(c);
    }
    free(fd);
    return NULL;
}

/* ---- opening and closing ---- */

static mba_status start(mba_channel *c)
{
    const double now = mba_wire_seconds();
    for (int k = 0; k < (c->o.rank ? 1 : c->o.ranks); k++) {
        c->peer[k].seen_s = c->peer[k].moved_s = c->peer[k].busy_s = now;
        c->peer[k].last.step = -1;
        if (c->peer[k].fd >= 0) mba_wire_limit(c->peer[k].fd, c->timeout_s);
    }
    c->runs = !pthread_create(&c->thread, NULL, watch, c);
    return c->runs ? MBA_OK : mba_fail(MBA_E_NOMEM, "no thread to watch the other ranks");
}

static mba_status connect_all(mba_channel *c)
{
    const mba_channel_options *o = &c->o;
    mba_wire_hello             me = { .rank = o->rank, .ranks = o->ranks, .pid = (int32_t)getpid() };
    const double               until = mba_wire_seconds() + (o->start_s > 0 ? o->start_s : 60);
    memcpy(me.secret, o->secret, sizeof me.secret);
    memcpy(me.host, c->host, sizeof me.host);
    snprintf(me.version, sizeof me.version, "%s", o->version ? o->version : "");
    if (o->rank) return mba_wire_join(&c->peer[0].fd, c->peer[0].host, o->contacts, &me, until);
    memcpy(c->peer[0].host, c->host, sizeof c->host);
    int *fd = malloc(sizeof *fd * (size_t)o->ranks);
    char(*host)[MBA_WIRE_HOST] = calloc((size_t)o->ranks, sizeof *host);
    mba_status st = fd && host ? MBA_OK : mba_fail(MBA_E_NOMEM, "no memory for %d ranks", o->ranks);
    for (int k = 0; k < o->ranks && fd; k++) fd[k] = -1;
    if (st == MBA_OK) st = mba_wire_accept_all(fd, host, o->listener, &me, until);
    for (int k = 1; k < o->ranks && fd && host; k++) {
        c->peer[k].fd = fd[k];
        memcpy(c->peer[k].host, host[k], sizeof *host);
    }
    free(fd);
    free(host);
    return st;
}

mba_status mba_channel_open(mba_channel **out, const mba_channel_options *o)
{
    mba_assert(o->ranks > 1 && o->rank >= 0 && o->rank < o->ranks && o->lost && o->secret);
    const int    peers = o->rank ? 1 : o->ranks;
    mba_channel *c = calloc(1, sizeof *c);
    if (c) c->peer = calloc((size_t)peers, sizeof *c->peer);
    if (!c || !c->peer) {
        free(c);
        return mba_fail(MBA_E_NOMEM, "no memory for a channel of %d ranks", o->ranks);
    }
    c->o = *o;
    c->first_step = -1;
    atomic_store(&c->step, -1);
    atomic_store(&c->timeout_s, o->timeout_s > 0 ? o->timeout_s : 20);
    mba_wire_host(c->host);
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->news, NULL);
    for (int k = 0; k < peers; k++) {
        c->peer[k].fd = -1;
        pthread_mutex_init(&c->peer[k].sending, NULL);
    }
    mba_status st = connect_all(c);
    if (o->rank == 0) close(o->listener);
    if (st == MBA_OK) st = start(c);
    if (st == MBA_OK) *out = c;
    else mba_channel_close(c);
    return st;
}

/* All ranks say goodbye; then connections may close. A rank that fails by itself does not wait for the others. */
void mba_channel_close(mba_channel *c)
{
    if (!c) return;
    const int peers = c->o.rank ? 1 : c->o.ranks;
    if (c->runs && !atomic_load(&c->failed)) {
        // A rank is watched until all are here: one that dies before its goodbye would be waited for without end.
        (void)!mba_channel_gather_all(c, NULL, NULL, 0);
        for (int k = c->o.rank ? 0 : 1; k < peers; k++) (void)!tell(&c->peer[k], MBA_WIRE_BYE, 0, NULL, 0);
    }
    c->ending = true;
    for (int k = 0; k < peers; k++) {
        pthread_mutex_lock(&c->peer[k].sending); // the thread may close it
        if (c->peer[k].fd >= 0) mba_wire_hang_up(c->peer[k].fd);
        pthread_mutex_unlock(&c->peer[k].sending);
    }
    if (c->runs) pthread_join(c->thread, NULL);
    for (int k = 0; k < peers; k++) {
        if (c->peer[k].fd >= 0) close(c->peer[k].fd);
        pthread_mutex_destroy(&c->peer[k].sending);
    }
    pthread_cond_destroy(&c->news);
    pthread_mutex_destroy(&c->lock);
    free(c->all);
    free(c->peer);
    free(c);
}

const char *mba_channel_host(const mba_channel *c) { return c->host; }
