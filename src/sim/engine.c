// SPDX-License-Identifier: Apache-2.0
/* engine.c -- see events.h. The loop is at the end; above it what a team of warps can do, and the servers it asks. */
#include "sim/events.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- servers: first come, first served, never idle while there is work ---- */

typedef struct server {
    tick     free;
    uint64_t rest;
} server;

static tick take(server *s, tick t, uint64_t units, uint64_t rate)
{
    const tick     start = t > s->free ? t : s->free;
    const uint64_t x = units * rate + s->rest;
    s->free = start + (tick)(x >> FRACTION);
    s->rest = x & ((1u << FRACTION) - 1);
    return s->free;
}

/* A share of a server that others use too: the queue moves on at the share's rate, but who is served is served at the
 * full one. */
static tick take_share(server *s, tick t, uint64_t units, uint64_t share, uint64_t full)
{
    const tick start = t > s->free ? t : s->free;
    take(s, t, units, share);
    return start + (tick)(units * full >> FRACTION);
}

/* ---- state ---- */

typedef struct event {
    tick     t;
    uint64_t seq;
    int32_t  team;
} event;

typedef struct team {
    int32_t pc, sm, slot, role, depth, waits; /* waits: for a ring to change */
    int64_t left;                             /* pieces of a mix still to do */
    int64_t trip[MBA_SIM_LOOPS], trips[MBA_SIM_LOOPS], start[MBA_SIM_LOOPS];
    tick    loaded, copied[MBA_SIM_STAGES];
} team;

typedef struct ring {
    int64_t filled, emptied;
    tick    full[MBA_SIM_STAGES], empty[MBA_SIM_STAGES];
    tick    landed;
} ring;
typedef struct slot {
    int32_t alive, block_class;
    tick    stored;
    ring    ring[MBA_SIM_RINGS];
} slot;

enum { FLIGHT = 512 };
typedef struct sm {
    server   pipe[MBA_PIPES], rd, wr;
    tick     landed[FLIGHT]; /* asynchronous copies in flight: when they land, how large they are */
    uint64_t size[FLIGHT], in_flight;
    int      head, n;
} sm;

typedef struct engine {
    const mba_sim_kernel *k;
    rates                 r;
    server                l2r, l2w, l2, hbm, dispatch; /* l2: what reads and writes share */
    uint64_t              written;                     /* bytes that DRAM has taken, for the drain */
    sm                   *sms;
    slot                 *slots;
    team                 *teams;
    event                *heap;
    int64_t               nsm, resident, todo, started, finished, nheap, nevents;
    uint64_t              seq;
    int64_t               owed[MBA_SIM_CLASSES];
    tick                  last, mark[2]; /* end of everything; ends of the blocks that a window is measured between */
    int64_t               mark_at[2];
} engine;

/* ---- the queue: a binary heap on (time, order of asking) ---- */

static bool sooner(const event *a, const event *b) { return a->t != b->t ? a->t < b->t : a->seq < b->seq; }

static void push(engine *e, tick t, int32_t who)
{
    int64_t     i = e->nheap++;
    const event x = { t, e->seq++, who };
    for (; i > 0 && sooner(&x, &e->heap[(i - 1) / 2]); i = (i - 1) / 2) e->heap[i] = e->heap[(i - 1) / 2];
    e->heap[i] = x;
}

static event pop(engine *e)
{
    const event top = e->heap[0], x = e->heap[--e->nheap];
    int64_t     i = 0;
    for (;;) {
        int64_t c = 2 * i + 1;
        if (c >= e->nheap) break;
        if (c + 1 < e->nheap && sooner(&e->heap[c + 1], &e->heap[c])) c++;
        if (!sooner(&e->heap[c], &x)) break;
        e->heap[i] = e->heap[c];
        i = c;
    }
    e->heap[i] = x;
    return top;
}

/* ---- memory ---- */

/* Reads that meet a channel busy with writes wait for it: each of `lines` does so with probability u and then for an
 * even share of the drain; the slowest counts. The mean of that, in closed form: D (1 - (1 - (1-u)^(m+1)) / (u (m+1))).
 */
static tick drain_wait(const engine *e, tick now, uint64_t lines)
{
    if (now <= 0 || !e->written || !lines) return 0;
    const double busy = (double)e->written * (double)e->r.hbm / (double)(1 << FRACTION),
                 u = busy < (double)now ? busy / (double)now : 1;
    if (u < 1e-3) return 0;
    double         rest = 1, base = 1 - u;
    const uint64_t m = lines < 4096 ? lines + 1 : 4097;
    for (uint64_t n = m; n; n >>= 1, base *= base)
        if (n & 1) rest *= base;
    return (tick)((double)e->r.turnaround * (1 - (1 - rest) / (u * (double)m)));
}

static uint64_t missing(const mba_sim_stream *s, uint64_t bytes) { return bytes * (uint64_t)(256 - s->hit) / 256; }

/* A warp that waits for four lines waits for DRAM if one of them is there. */
static double any_far(const mba_sim_stream *s)
{
    const double hit = (double)s->hit / 256;
    return 1 - hit * hit * hit * hit;
}

/* A read walks its servers at once, as bytes stream through them; it is done when the slowest has passed the last. What
 * comes from DRAM is written into L2 first, which keeps its slices as busy as reading it there does. What is copied
 * into shared memory does not get in the way of who reads there: products read and copy 1.25 times what the pipe gives
 * (128 x 128 tiles at 97 % of the tensor rate). */
static tick read_bytes(engine *e, sm *p, tick now, const mba_sim_op *o)
{
    const mba_sim_stream *s = &e->k->stream[o->stream];
    const uint64_t        bytes = o->bytes / (uint64_t)o->parts, miss = missing(s, bytes);
    tick                  done = now;
    if (o->work == MBA_OP_LOAD) done = take(&p->pipe[MBA_P_SMEM], now, bytes, e->r.pipe[MBA_P_SMEM]);
    const tick port = take(&p->rd, now, bytes, e->r.rd),
               l2 = take_share(&e->l2r, now, bytes + miss, e->r.l2r, e->r.l2r_full),
               both = take_share(&e->l2, now, bytes + miss, e->r.l2r_both, e->r.l2r_full);
    if (port > done) done = port;
    if (l2 > done) done = l2;
    if (both > done) done = both;
    if (miss < 64) return done + e->r.l2_lat;
    const uint64_t out = miss * e->r.evicts / 256;
    const tick     hbm = take_share(&e->hbm, now, miss + out, e->r.hbm, e->r.hbm_full);
    e->written += out;
    if (hbm > done) done = hbm;
    const double far = e->k->counted ? any_far(s) : 1;
    const tick   more = e->r.hbm_lat - e->r.l2_lat + drain_wait(e, now, (miss + 127) / 128);
    return done + e->r.l2_lat + (tick)(far * (double)more);
}

/* Where too much is in flight, a copy waits for the oldest to land; 0: there is room. */
static tick room_at(engine *e, sm *p, tick now, uint64_t bytes)
{
    while (p->n && p->landed[p->head] <= now) {
        p->in_flight -= p->size[p->head];
        p->head = (p->head + 1) % FLIGHT;
        p->n--;
    }
    return p->n && (p->n == FLIGHT || p->in_flight + bytes > e->r.async_bytes) ? p->landed[p->head] : 0;
}

static tick copy_bytes(engine *e, sm *p, tick now, const mba_sim_op *o)
{
    const tick done = read_bytes(e, p, now, o) + e->r.async_lat;
    const int  at = (p->head + p->n++) % FLIGHT;
    p->landed[at] = done;
    p->size[at] = o->bytes;
    p->in_flight += o->bytes;
    return done;
}

/* Stores go on their own, and a block leaves without waiting for them; but who is far ahead of the port, of L2 or of
 * DRAM is held back. Behind the port there is more room: not all SMs store at the same time. */
static tick write_bytes(engine *e, sm *p, slot *b, tick now, const mba_sim_op *o)
{
    const uint64_t out = missing(&e->k->stream[o->stream], o->bytes) + o->bytes * e->r.evicts / 256;
    const tick     left = take(&p->wr, now, o->bytes, e->r.wr), port = left - e->r.slack_sm,
               l2 = take(&e->l2w, now, o->bytes, e->r.l2w), both = take(&e->l2, now, o->bytes, e->r.l2w_both),
               there = l2 > both ? l2 : both, last = there - e->r.slack_l2, held = port > last ? port : last,
               dram = take(&e->hbm, now, out, e->r.hbm) - e->r.slack_l2;
    e->written += out;
    if (held > now) now = held;
    if (dram > now) now = dram;
    if (now > b->stored) b->stored = now;
    if (!o->trips) return now;
    if (left > now) now = left;
    return there > now ? there : now;
}

/* ---- what a team does ---- */

static int64_t trips_of(const engine *e, const team *t, const mba_sim_op *o)
{
    return o->trips >= 0 ? o->trips : e->k->trips[e->slots[t->slot].block_class][-1 - o->trips];
}

/* n ticks of latency as ticks of a warp's path: `issue_gap` stands for the latency of an addition. In two parts, which
 * cannot overflow before the sum itself does. */
static uint64_t in_gaps(const rates *r, uint64_t n)
{
    const uint64_t gap = (uint64_t)r->issue_gap, lat = (uint64_t)r->lat_alu;
    return n / lat * gap + n % lat * gap / lat;
}

/* One warp executes one instruction after the other: additions, special functions, shared memory and products wait for
 * their latencies (lat_alu .. lat_mma), of which several are ready at a time (issue_gap). */
static tick path_of(const engine *e, const mba_sim_op *o)
{
    const rates *r = &e->r;
    if (e->k->counted) { // a path read in the code, or profiled_issue for each instruction
        const double all = (double)o->n[MBA_P_ISSUE] / 32, special = (double)o->n[MBA_P_XU] / 32,
                     shared = (double)o->n[MBA_P_SMEM] / 512,
                     products = e->k->mma_flops > 100 ? (double)o->n[MBA_P_MMA] / 4096 : 0;
        return o->trips ? 0
                        : (tick)((r->profiled_issue * all + r->profiled_xu * special + r->profiled_smem * shared
                                  + r->profiled_mma * products)
                                 * TICKS);
    }
    const uint64_t *n = o->n, plain = (n[MBA_P_FMA] + n[MBA_P_ALU] + n[MBA_P_H2]) / 32, special = n[MBA_P_XU] / 32,
                   shared = n[MBA_P_SMEM] / 512, products = e->k->mma_flops > 100 ? n[MBA_P_MMA] / 4096 : 0;
    return (tick)in_gaps(r, (uint64_t)r->lat_alu * plain + (uint64_t)r->lat_xu * special
                                + (uint64_t)r->lat_smem * shared + (uint64_t)r->lat_mma * products);
}

/* All pipes work at once; a team of few warps reaches only some of the sub-partitions, and one warp waits for itself.
 */
static tick mix_piece(engine *e, const team *t, tick now, const mba_sim_op *o)
{
    sm            *p = &e->sms[t->sm];
    const uint64_t warps = (uint64_t)e->k->role_warps[t->role], parts = (uint64_t)o->parts,
                   spread = warps < 4 ? warps : 4;
    const tick mean = path_of(e, o) / (tick)(parts * warps);
    tick       done =
        now + (e->k->busiest ? (tick)((double)mean * (double)e->k->busiest / 256) : mean); // whom the others wait for
    const tick path = now + o->trips * TICKS / o->parts;
    if (path > done) done = path;
    for (int i = 0; i < MBA_PIPES; i++) {
        const uint64_t n = (o->n[i] + parts - 1) / parts;
        if (!n) continue;
        const tick free = take(&p->pipe[i], now, n, e->r.pipe[i]),
                   alone = now + (tick)((n * e->r.pipe[i] >> FRACTION) * 4 / spread);
        if (free > done) done = free;
        if (alone > done) done = alone;
    }
    return done;
}

/* The first trip copies for those it is ahead of, too. Returns 0, or when to go on; `left` counts what is done. */
static tick issue_copies(engine *e, team *t, tick now, const mba_sim_op *o)
{
    const int64_t i = t->depth ? t->trip[t->depth - 1] : 0, n = t->depth ? t->trips[t->depth - 1] : 1;
    sm           *p = &e->sms[t->sm];
    for (int64_t j = (i ? i + o->ahead : 0) + t->left; j <= i + o->ahead && j < n; j++, t->left++) {
        const tick wait = room_at(e, p, now, o->bytes);
        if (wait) return wait;
        const tick done = copy_bytes(e, p, now, o);
        if (done > t->copied[j % MBA_SIM_STAGES]) t->copied[j % MBA_SIM_STAGES] = done;
    }
    t->left = 0;
    return 0;
}

/* When what the team works with next is there. */
static tick data_ready(const team *t, tick now)
{
    const tick copied = t->depth ? t->copied[t->trip[t->depth - 1] % MBA_SIM_STAGES] : t->copied[0];
    if (t->loaded > now) now = t->loaded;
    return copied > now ? copied : now;
}

static void wake_others(engine *e, const team *t, tick now)
{
    const int32_t first = t->slot * (int32_t)e->k->nroles;
    for (int32_t i = first; i < first + (int32_t)e->k->nroles; i++)
        if (e->teams[i].waits) {
            e->teams[i].waits = 0;
            push(e, now, i);
        }
}

/* False: the team waits until the ring changes. */
static bool ring_step(engine *e, team *t, tick *now, const mba_sim_op *o)
{
    ring         *g = &e->slots[t->slot].ring[o->ring];
    const int64_t depth = e->k->depth;
    switch (o->work) {
    case MBA_OP_FILL:
        if (g->filled - g->emptied >= depth) return false;
        if (g->empty[g->filled % depth] > *now) *now = g->empty[g->filled % depth];
        g->landed = *now;
        return true;
    case MBA_OP_COMMIT: {
        tick full = data_ready(t, *now);
        if (g->landed > full) full = g->landed;
        g->full[g->filled++ % depth] = full;
        wake_others(e, t, *now);
        return true;
    }
    case MBA_OP_WAIT:
        if (g->filled <= g->emptied) return false;
        if (g->full[g->emptied % depth] > *now) *now = g->full[g->emptied % depth];
        return true;
    default:
        g->empty[g->emptied++ % depth] = *now;
        wake_others(e, t, *now);
        return true;
    }
}

static void start_block(engine *e, int32_t where, tick now);

static void leave(engine *e, team *t, tick now)
{
    slot *b = &e->slots[t->slot];
    if (b->stored > now) now = b->stored;
    b->stored = now;
    if (--b->alive) return;
    now += e->r.block_exit;
    e->finished++;
    if (now > e->last) e->last = now;
    for (int i = 0; i < 2; i++)
        if (e->finished == e->mark_at[i]) e->mark[i] = now;
    start_block(e, t->slot, now);
}

static bool uses_data(int32_t work)
{
    return work == MBA_OP_MIX || work == MBA_OP_STORE || work == MBA_OP_BARRIER || work == MBA_OP_DELAY
           || work == MBA_OP_EXIT;
}

/* Works until it has to wait: nobody may ask a server about a time that is not yet. Pieces of a mix are given back so
 * that others come in between. */
static void work(engine *e, int32_t who, tick now)
{
    team *t = &e->teams[who];
    for (;; t->pc++) {
        const mba_sim_op *o = &e->k->op[t->pc];
        const tick        ready = uses_data(o->work) ? data_ready(t, now) : now;
        if (ready > now) {
            push(e, ready, who);
            return;
        }
        switch (o->work) {
        case MBA_OP_MIX:
            if (!t->left) t->left = o->parts;
            now = mix_piece(e, t, now, o);
            if (--t->left > 0) {
                push(e, now, who);
                return;
            }
            t->pc++;
            push(e, now, who);
            return;
        case MBA_OP_LOAD: {
            if (!t->left) t->left = o->parts; // one after the other, where a warp waits for each
            const tick done = read_bytes(e, &e->sms[t->sm], now, o) + (t->left > 1 ? 0 : o->trips * TICKS);
            if (done > t->loaded) t->loaded = done;
            if (--t->left > 0) {
                push(e, done, who);
                return;
            }
            break;
        }
        case MBA_OP_ASYNC: {
            const tick wait = issue_copies(e, t, now, o);
            if (wait) {
                push(e, wait, who);
                return;
            }
            break;
        }
        case MBA_OP_STORE: now = write_bytes(e, &e->sms[t->sm], &e->slots[t->slot], now, o); break;
        case MBA_OP_BARRIER: now += o->parts * e->r.barrier; break;
        case MBA_OP_DELAY: now += o->parts * TICKS; break;
        case MBA_OP_LOOP:
            t->trips[t->depth] = trips_of(e, t, o);
            t->trip[t->depth] = 0;
            t->start[t->depth++] = t->pc;
            if (t->trips[t->depth - 1] > 0) break;
            for (int inner = 1; inner;) { // a loop without trips: to its end
                t->pc++;
                inner += (e->k->op[t->pc].work == MBA_OP_LOOP) - (e->k->op[t->pc].work == MBA_OP_END);
            }
            t->depth--;
            break;
        case MBA_OP_END:
            if (++t->trip[t->depth - 1] < t->trips[t->depth - 1]) t->pc = (int32_t)t->start[t->depth - 1];
            else t->depth--;
            break;
        case MBA_OP_EXIT: leave(e, t, now); return;
        default:
            if (!ring_step(e, t, &now, o)) {
                t->waits = 1;
                return;
            }
        }
        if (e->nheap && e->heap[0].t < now) {
            t->pc++;
            push(e, now, who);
            return;
        } // somebody is earlier
    }
}

/* Classes of blocks come in even turns. */
static int32_t next_class(engine *e)
{
    int32_t best = 0;
    int64_t all = 0;
    for (int64_t c = 0; c < e->k->nclasses; c++) {
        e->owed[c] += e->k->count[c];
        all += e->k->count[c];
        if (e->owed[c] > e->owed[best]) best = (int32_t)c;
    }
    e->owed[best] -= all;
    return best;
}

static void start_block(engine *e, int32_t where, tick now)
{
    slot *b = &e->slots[where];
    if (e->started == e->todo) return;
    e->started++;
    now = take_share(&e->dispatch, now, 1, e->r.dispatch, 0) + e->r.block_start;
    *b = (slot){ .alive = (int32_t)e->k->nroles, .block_class = e->k->nclasses ? next_class(e) : 0 };
    for (int32_t r = 0; r < (int32_t)e->k->nroles; r++) {
        const int32_t who = where * (int32_t)e->k->nroles + r;
        e->teams[who] =
            (team){ .pc = (int32_t)e->k->first[r], .sm = where / (int32_t)e->resident, .slot = where, .role = r };
        push(e, now, who);
    }
}

static mba_status simulate(engine *e)
{
    const size_t places = (size_t)(e->nsm * e->resident), teams = places * (size_t)e->k->nroles;
    e->sms = calloc((size_t)e->nsm, sizeof *e->sms);
    e->slots = calloc(places, sizeof *e->slots);
    e->teams = calloc(teams, sizeof *e->teams);
    e->heap = calloc(2 * teams + 2, sizeof *e->heap);
    mba_status st = e->sms && e->slots && e->teams && e->heap
                        ? MBA_OK
                        : mba_fail(MBA_E_NOMEM, "no memory to simulate %s", e->k->name);
    for (int64_t c = 0, all = 0; c < e->k->nclasses; c++) { // the longest comes first: the last to end decides
        all += e->k->count[c];
        if (c + 1 < e->k->nclasses) continue;
        int64_t longest = 0;
        for (int64_t d = 1; d <= c; d++)
            if (e->k->trips[d][0] > e->k->trips[longest][0]) longest = d;
        e->owed[longest] += all;
    }
    if (st == MBA_OK)
        for (int64_t i = 0; i < e->resident; i++) // the first blocks go round the SMs
            for (int64_t s = 0; s < e->nsm; s++) start_block(e, (int32_t)(s * e->resident + i), e->r.t_kernel);
    while (st == MBA_OK && e->nheap) {
        const event x = pop(e);
        e->nevents++;
        work(e, x.team, x.t);
    }
    if (st == MBA_OK && e->finished < e->todo)
        st = mba_fail(
            MBA_E_UNSUPPORTED,
            "the simulator cannot run %s\nwhy: its roles wait for each other for ever\nfix: mend the rings of its plan",
            e->k->name);
    if (e->k->longest) {
        const tick end = e->r.t_kernel + e->r.block_start + e->k->longest * TICKS + e->r.block_exit;
        if (end > e->last) e->last = end;
    }
    const tick ends[] = { e->hbm.free, e->l2.free, e->l2r.free, e->l2w.free }; // writes are charged to who writes
    for (int i = 0; i < 4; i++)
        if (ends[i] > e->last) e->last = ends[i];
    for (int64_t i = 0; st == MBA_OK && i < e->nsm; i++)
        if (e->sms[i].wr.free > e->last) e->last = e->sms[i].wr.free;
    free(e->sms);
    free(e->slots);
    free(e->teams);
    free(e->heap);
    return st;
}

mba_status mba_sim_events(mba_sim_ends *out, const mba_sim_kernel *k, const rates *r, const mba_sim_extent *x)
{
    engine e = { .k = k,
                 .r = *r,
                 .nsm = x->sms,
                 .resident = x->resident,
                 .todo = x->blocks,
                 .mark_at = { x->mark_at[0], x->mark_at[1] } };
    MBA_TRY(simulate(&e));
    *out = (mba_sim_ends){ e.last, { e.mark[0], e.mark[1] }, e.nevents };
    return MBA_OK;
}
