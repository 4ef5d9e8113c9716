// SPDX-License-Identifier: Apache-2.0
/* engine.c -- the discrete-event simulation of one kernel: see events.h.
 *
 * A *process* is the set of warps that play one role of one resident block. It executes the operations of its role
 * (mba_sim_op) and requests service from FIFO servers: the pipes and ports of its SM, L2, DRAM, the block dispatcher.
 * The event queue resumes processes in order of simulated time. From top to bottom: servers, state, queue, memory,
 * operations of a process, start of blocks, the event loop. */
#include "sim/events.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- servers: FIFO and work-conserving ---- */

typedef struct server {
    tick     free;
    uint64_t rest;
} server; /* end of the last service; fraction of a tick kept */

/* Queues `units` of service at time t and returns when it ends. `rate` is in ticks per unit, scaled by 2^FRACTION. */
static tick take(server *s, tick t, uint64_t units, uint64_t rate)
{
    mba_debug_assert(t >= 0 && s->rest < 1u << FRACTION);
    const tick     start = t > s->free ? t : s->free;
    const uint64_t x = units * rate + s->rest;
    s->free = start + (tick)(x >> FRACTION);
    s->rest = x & ((1u << FRACTION) - 1);
    return s->free;
}

/* As take, for an SM that owns a share of a server of the whole chip: the queue advances at the rate of the share, but
 * one request is served at the full rate. */
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
    int32_t  process;
} event;

typedef struct process {
    int32_t pc, sm, slot, role, depth, waits; /* depth: of loops; waits: 1 while blocked on a ring */
    int64_t left;                             /* parts of the current operation still to do */
    int64_t trip[MBA_SIM_LOOPS], trips[MBA_SIM_LOOPS], start[MBA_SIM_LOOPS];
    tick    loaded, copied[MBA_SIM_STAGES]; /* when loads, and the copies of each stage, have arrived */
} process;

/* A ring of shared-memory stages between a producer and a consumer role of a block. */
typedef struct ring {
    int64_t filled, emptied;
    tick    full[MBA_SIM_STAGES], empty[MBA_SIM_STAGES];
    tick    landed;
} ring;
typedef struct slot {
    int32_t  alive, block_class;
    uint64_t weight; /* of 256: of its bytes in L2 and DRAM */
    tick     stored;
    ring     ring[MBA_SIM_RINGS];
} slot; /* a resident block */

enum { FLIGHT = 512 }; /* asynchronous copies that an SM can have outstanding */
typedef struct sm {
    server   pipe[MBA_PIPES], rd, wr;
    tick     landed[FLIGHT]; /* a circular buffer of copies in flight: when they arrive, how large they are */
    uint64_t size[FLIGHT], in_flight;
    int      head, n;
} sm;

typedef struct engine {
    const mba_sim_kernel *k;
    rates                 r;
    int64_t               working; /* processes of the kernel; behind them are the warps of a copy beside it */
    server                l2r, l2w, l2, hbm, dispatch; /* l2: the part of L2 that reads and writes share */
    uint64_t              written;                     /* bytes written to DRAM so far, for drain_wait */
    sm                   *sms;
    slot                 *slots;
    process              *processes;
    event                *heap;
    int64_t               heap_space;
    tick                  now; /* time of the current event */
    int64_t               nsm, resident, todo, started, finished, nheap, nevents;
    uint64_t              seq;
    int64_t               owed[MBA_SIM_CLASSES]; /* credit of each class of blocks: next_class */
    tick                  last, mark[2];         /* end of the kernel; when mark_at[i] blocks had ended */
    int64_t               mark_at[2];
} engine;

/* ---- the event queue: a binary heap on (time, order of insertion) ---- */

static bool sooner(const event *a, const event *b) { return a->t != b->t ? a->t < b->t : a->seq < b->seq; }

static void push(engine *e, tick t, int32_t who)
{
    int64_t     i = e->nheap++;
    const event x = { t, e->seq++, who };
    mba_debug_assert(i < e->heap_space);
    mba_debug_assert(t >= e->now); // no event lies in the past
    for (; i > 0 && sooner(&x, &e->heap[(i - 1) / 2]); i = (i - 1) / 2) e->heap[i] = e->heap[(i - 1) / 2];
    e->heap[i] = x;
}

static event pop(engine *e)
{
    mba_debug_assert(e->nheap > 0);
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

/* The rate of a server of the chip for a block. The last block of the busiest SM shares it with fewer SMs. */
static uint64_t weighed(uint64_t rate, const slot *b) { return rate * b->weight / 256; }

/* A read that meets a DRAM channel busy with writes waits for the channel to drain. Each of m `lines` meets one with
 * probability u, the share of time in which DRAM writes, and then waits a time uniform in [0, D]. The slowest line
 * counts. Its mean in closed form: D (1 - (1 - (1-u)^(m+1)) / (u (m+1))). */
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

/* Probability that a warp waits for DRAM: it loads four lines, and one miss is enough. */
static double any_far(const mba_sim_stream *s)
{
    const double hit = (double)s->hit / 256;
    return 1 - hit * hit * hit * hit;
}

/* A read occupies all its servers at once, because bytes stream through them; it ends when the slowest has served the
 * last byte. Bytes from DRAM are written into L2 before they are read there, so L2 serves them twice. Only loads occupy
 * the shared-memory pipe. Asynchronous copies do not: GEMM kernels read and copy 1.25 times what that pipe gives
 * (128 x 128 tiles at 97 % of the tensor rate). */
static tick read_bytes(engine *e, sm *p, const slot *b, tick now, const mba_sim_op *o)
{
    const mba_sim_stream *s = &e->k->stream[o->stream];
    const uint64_t        bytes = o->bytes / (uint64_t)o->parts, miss = missing(s, bytes);
    tick                  done = now;
    if (o->work == MBA_OP_LOAD) done = take(&p->pipe[MBA_P_SMEM], now, bytes, e->r.pipe[MBA_P_SMEM]);
    const tick port = take(&p->rd, now, bytes, e->r.rd),
               l2 = take_share(&e->l2r, now, bytes + miss, weighed(e->r.l2r, b), e->r.l2r_full),
               both = take_share(&e->l2, now, bytes + miss, weighed(e->r.l2r_both, b), e->r.l2r_full);
    if (port > done) done = port;
    if (l2 > done) done = l2;
    if (both > done) done = both;
    if (miss < 64) return done + e->r.l2_lat;
    const uint64_t out = miss * e->r.evicts / 256;
    const tick     hbm = take_share(&e->hbm, now, miss + out, weighed(e->r.hbm, b), e->r.hbm_full);
    e->written += out;
    if (hbm > done) done = hbm;
    const double far = e->k->counted ? any_far(s) : 1;
    const tick   more = e->r.hbm_lat - e->r.l2_lat + drain_wait(e, now, (miss + 127) / 128);
    return done + e->r.l2_lat + (tick)(far * (double)more);
}

/* When there is room for a copy of `bytes`: 0 for now, else when the oldest copy in flight arrives. */
static tick room_at(engine *e, sm *p, tick now, uint64_t bytes)
{
    while (p->n && p->landed[p->head] <= now) {
        p->in_flight -= p->size[p->head];
        p->head = (p->head + 1) % FLIGHT;
        p->n--;
    }
    return p->n && (p->n == FLIGHT || p->in_flight + bytes > e->r.async_bytes) ? p->landed[p->head] : 0;
}

static tick copy_bytes(engine *e, sm *p, const slot *b, tick now, const mba_sim_op *o)
{
    const tick done = read_bytes(e, p, b, now, o) + e->r.async_lat;
    mba_debug_assert(p->n < FLIGHT); // room_at made room
    const int at = (p->head + p->n++) % FLIGHT;
    p->landed[at] = done;
    p->size[at] = o->bytes;
    p->in_flight += o->bytes;
    return done;
}

/* Stores are asynchronous: a block exits without waiting for them. But a process that is more than a slack ahead of the
 * write port, L2 or DRAM stalls. The slack of L2 and DRAM is larger than that of the port, because SMs do not all store
 * at the same time. A store with `trips` waits until its bytes are in L2, as a memory fence does. */
static tick write_bytes(engine *e, sm *p, slot *b, tick now, const mba_sim_op *o)
{
    const uint64_t out = missing(&e->k->stream[o->stream], o->bytes) + o->bytes * e->r.evicts / 256;
    const tick     left = take(&p->wr, now, o->bytes, e->r.wr), port = left - e->r.slack_sm,
               l2 = take(&e->l2w, now, o->bytes, weighed(e->r.l2w, b)),
               both = take(&e->l2, now, o->bytes, weighed(e->r.l2w_both, b)), there = l2 > both ? l2 : both,
               last = there - e->r.slack_l2, held = port > last ? port : last,
               dram = take(&e->hbm, now, out, weighed(e->r.hbm, b)) - e->r.slack_l2;
    e->written += out;
    if (held > now) now = held;
    if (dram > now) now = dram;
    if (now > b->stored) b->stored = now;
    if (!o->trips) return now;
    if (left > now) now = left;
    return there > now ? there : now;
}

/* ---- operations of a process ---- */

static int64_t trips_of(const engine *e, const process *t, const mba_sim_op *o)
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

/* Products of a warp: mma.sync of m16n8k16, or in TF32 of m16n8k8. */
static uint64_t products_of(const mba_sim_kernel *k, const mba_sim_op *o)
{
    return k->mma_flops < 100 ? 0 : o->n[MBA_P_MMA] / (k->mma_flops == 119 ? 2048 : 4096);
}

/* One warp executes one instruction after the other: additions, special functions, shared memory and products wait for
 * their latencies (lat_alu .. lat_mma), of which several are ready at a time (issue_gap). */
static tick path_of(const engine *e, const mba_sim_op *o)
{
    const rates *r = &e->r;
    if (e->k->counted) { // a path read in the code, or profiled_issue for each instruction
        const double all = (double)o->n[MBA_P_ISSUE] / 32, special = (double)o->n[MBA_P_XU] / 32,
                     shared = (double)o->n[MBA_P_SMEM] / 512,
                     products = e->k->mma_flops > 100 ? (double)o->n[MBA_P_MMA] / 4096 : 0; // counted: no TF32
        return o->trips ? 0
                        : (tick)((r->profiled_issue * all + r->profiled_xu * special + r->profiled_smem * shared
                                  + r->profiled_mma * products)
                                 * TICKS);
    }
    const uint64_t *n = o->n, plain = (n[MBA_P_FMA] + n[MBA_P_ALU] + n[MBA_P_H2]) / 32, special = n[MBA_P_XU] / 32,
                   shared = n[MBA_P_SMEM] / 512, products = products_of(e->k, o);
    return (tick)in_gaps(r, (uint64_t)r->lat_alu * plain + (uint64_t)r->lat_xu * special
                                + (uint64_t)r->lat_smem * shared + (uint64_t)r->lat_mma * products);
}

/* Executes one part of a mix. All pipes work in parallel. A process of fewer than four warps reaches only that many
 * sub-partitions. The dependent instructions of a warp are a lower bound. */
static tick mix_part(engine *e, const process *t, tick now, const mba_sim_op *o)
{
    sm            *p = &e->sms[t->sm];
    const uint64_t warps = (uint64_t)e->k->role_warps[t->role], parts = (uint64_t)o->parts,
                   spread = warps < 4 ? warps : 4;
    const tick mean = path_of(e, o) / (tick)(parts * warps);
    // At a barrier all warps wait for the busiest one.
    tick       done = now + (e->k->busiest ? (tick)((double)mean * (double)e->k->busiest / 256) : mean);
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

/* Issues the copies of a trip, `ahead` trips early; the first trip also issues those of the trips in between. Returns
 * 0, or when to try again for lack of room; `left` counts the copies already issued. */
static tick issue_copies(engine *e, process *t, tick now, const mba_sim_op *o)
{
    const int64_t i = t->depth ? t->trip[t->depth - 1] : 0, n = t->depth ? t->trips[t->depth - 1] : 1;
    sm           *p = &e->sms[t->sm];
    for (int64_t j = (i ? i + o->ahead : 0) + t->left; j <= i + o->ahead && j < n; j++, t->left++) {
        const tick wait = room_at(e, p, now, o->bytes);
        if (wait) return wait;
        const tick done = copy_bytes(e, p, &e->slots[t->slot], now, o);
        if (done > t->copied[j % MBA_SIM_STAGES]) t->copied[j % MBA_SIM_STAGES] = done;
    }
    t->left = 0;
    return 0;
}

/* When the loads and copies that the current trip uses have arrived. */
static tick data_ready(const process *t, tick now)
{
    const tick copied = t->depth ? t->copied[t->trip[t->depth - 1] % MBA_SIM_STAGES] : t->copied[0];
    if (t->loaded > now) now = t->loaded;
    return copied > now ? copied : now;
}

/* Resumes the processes of the block that are blocked on a ring: they test their ring again. */
static void wake_others(engine *e, const process *t, tick now)
{
    const int32_t first = t->slot * (int32_t)e->k->nroles;
    for (int32_t i = first; i < first + (int32_t)e->k->nroles; i++)
        if (e->processes[i].waits) {
            e->processes[i].waits = 0;
            push(e, now, i);
        }
}

/* Executes one ring operation. Returns false if the process must wait until the ring changes. */
static bool ring_step(engine *e, process *t, tick *now, const mba_sim_op *o)
{
    mba_debug_assert(o->ring >= 0 && o->ring < MBA_SIM_RINGS);
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

/* Ends a process. The last one of a block frees its slot, where the next block starts. */
static void leave(engine *e, process *t, tick now)
{
    slot *b = &e->slots[t->slot];
    mba_debug_assert(b->alive > 0 && t->depth == 0);
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

/* Enters a loop, or skips its body if it has no trips. */
static void open_loop(engine *e, process *t, const mba_sim_op *o)
{
    mba_debug_assert(t->depth < MBA_SIM_LOOPS);
    t->trips[t->depth] = trips_of(e, t, o);
    t->trip[t->depth] = 0;
    t->start[t->depth++] = t->pc;
    if (t->trips[t->depth - 1] > 0) return;
    for (int inner = 1; inner;) {
        t->pc++;
        inner += (e->k->op[t->pc].work == MBA_OP_LOOP) - (e->k->op[t->pc].work == MBA_OP_END);
    }
    t->depth--;
}

/* A warp of the copy beside the kernel reads, waits for all of it, writes it, and begins again until the kernel
 * ends. */
static void copy_beside(engine *e, int32_t who, tick now)
{
    process       *t = &e->processes[who];
    const uint64_t bytes = (uint64_t)e->k->copied;
    if (e->finished == e->todo) return;
    t->waits = !t->waits; // 1: for what it reads
    if (t->waits) {
        const tick l2 = take_share(&e->l2r, now, 2 * bytes, e->r.l2r, e->r.l2r_full),
                   both = take_share(&e->l2, now, 2 * bytes, e->r.l2r_both, e->r.l2r_full),
                   hbm = take_share(&e->hbm, now, bytes, e->r.hbm, e->r.hbm_full), done = l2 > both ? l2 : both;
        push(e, (hbm > done ? hbm : done) + e->r.hbm_lat + drain_wait(e, now, (bytes + 127) / 128), who);
        return;
    }
    const tick l2 = take(&e->l2w, now, bytes, e->r.l2w), both = take(&e->l2, now, bytes, e->r.l2w_both),
               hbm = take(&e->hbm, now, bytes, e->r.hbm), done = l2 > both ? l2 : both,
               held = (hbm > done ? hbm : done) - e->r.slack_l2;
    e->written += bytes;
    push(e, held > now ? held : now, who);
}

/* Runs a process until it must wait or until an earlier event is pending. Never query a server later than the current
 * event: servers are FIFO in simulated time. Each part of a mix is an event, so that processes interleave. */
static void work(engine *e, int32_t who, tick now)
{
    process *t = &e->processes[who];
    for (;; t->pc++) {
        mba_debug_assert(t->pc >= 0 && t->pc < e->k->nops);
        const mba_sim_op *o = &e->k->op[t->pc];
        const tick        ready = uses_data(o->work) ? data_ready(t, now) : now;
        if (ready > now) {
            push(e, ready, who);
            return;
        }
        switch (o->work) {
        case MBA_OP_MIX:
            if (!t->left) t->left = o->parts;
            now = mix_part(e, t, now, o);
            if (--t->left > 0) {
                push(e, now, who);
                return;
            }
            t->pc++;
            push(e, now, who);
            return;
        case MBA_OP_LOAD: {
            if (!t->left) t->left = o->parts; // parts are loads in sequence: a warp waits for each
            const tick done = read_bytes(e, &e->sms[t->sm], &e->slots[t->slot], now, o)
                              + (t->left > 1 ? 0 : o->trips * TICKS);
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
        case MBA_OP_LOOP: open_loop(e, t, o); break;
        case MBA_OP_END:
            mba_debug_assert(t->depth > 0);
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
        } // another event is earlier
    }
}

/* Chooses the class of the next block so that classes interleave in proportion to their counts. */
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
    mba_debug_assert(e->started <= e->todo && b->alive == 0);
    if (e->started == e->todo) return;
    e->started++;
    now = take_share(&e->dispatch, now, 1, e->r.dispatch, 0) + e->r.block_start;
    *b = (slot){ .alive = (int32_t)e->k->nroles,
                 .block_class = e->k->nclasses ? next_class(e) : 0,
                 .weight = e->started < e->todo ? e->r.early : e->r.late };
    for (int32_t r = 0; r < (int32_t)e->k->nroles; r++) {
        const int32_t who = where * (int32_t)e->k->nroles + r;
        e->processes[who] =
            (process){ .pc = (int32_t)e->k->first[r], .sm = where / (int32_t)e->resident, .slot = where, .role = r };
        push(e, now, who);
    }
}

static mba_status allocate(engine *e)
{
    e->working = e->nsm * e->resident * e->k->nroles;
    const size_t slots = (size_t)(e->nsm * e->resident), processes = (size_t)(e->working + e->nsm * e->k->copiers);
    e->sms = calloc((size_t)e->nsm, sizeof *e->sms);
    e->slots = calloc(slots, sizeof *e->slots);
    e->processes = calloc(processes, sizeof *e->processes);
    e->heap_space = (int64_t)(2 * processes + 2);
    e->heap = calloc((size_t)e->heap_space, sizeof *e->heap);
    return e->sms && e->slots && e->processes && e->heap
               ? MBA_OK
               : mba_fail(MBA_E_NOMEM, "no memory to simulate %s", e->k->name);
}

/* Processes events in order of time until none is left. */
static mba_status run_events(engine *e)
{
    while (e->nheap) {
        const event x = pop(e);
        mba_assert(x.t >= e->now); // simulated time never runs backwards
        e->now = x.t;
        e->nevents++;
        if (x.process < e->working) work(e, x.process, x.t);
        else copy_beside(e, x.process, x.t);
    }
    mba_assert(e->finished <= e->started && e->started <= e->todo);
    return e->finished == e->todo
               ? MBA_OK
               : mba_fail(MBA_E_UNSUPPORTED,
                          "the simulator cannot run %s\nwhy: its warp roles wait for each other: a deadlock\n"
                          "fix: correct the rings in its launch plan",
                          e->k->name);
}

static mba_status simulate(engine *e)
{
    mba_status st = allocate(e);
    for (int64_t c = 0, all = 0; c < e->k->nclasses; c++) { // the longest class starts first, lest it end last
        all += e->k->count[c];
        if (c + 1 < e->k->nclasses) continue;
        int64_t longest = 0;
        for (int64_t d = 1; d <= c; d++)
            if (e->k->trips[d][0] > e->k->trips[longest][0]) longest = d;
        e->owed[longest] += all;
    }
    if (st == MBA_OK)
        for (int64_t i = 0; i < e->resident; i++) // the first blocks are dealt round-robin to the SMs
            for (int64_t s = 0; s < e->nsm; s++) start_block(e, (int32_t)(s * e->resident + i), e->r.t_kernel);
    for (int64_t i = 0; st == MBA_OK && i < e->nsm * e->k->copiers; i++) push(e, 0, (int32_t)(e->working + i));
    if (st == MBA_OK) st = run_events(e);
    if (e->k->longest) {
        const tick end = e->r.t_kernel + e->r.block_start + e->k->longest * TICKS + e->r.block_exit;
        if (end > e->last) e->last = end;
    }
    // The kernel ends when its last store has been served: writes are charged to the kernel that issues them.
    const tick ends[] = { e->hbm.free, e->l2.free, e->l2r.free, e->l2w.free };
    for (int i = 0; i < 4; i++)
        if (ends[i] > e->last) e->last = ends[i];
    for (int64_t i = 0; st == MBA_OK && i < e->nsm; i++)
        if (e->sms[i].wr.free > e->last) e->last = e->sms[i].wr.free;
    free(e->sms);
    free(e->slots);
    free(e->processes);
    free(e->heap);
    return st;
}

mba_status mba_sim_events(mba_sim_ends *out, const mba_sim_kernel *k, const rates *r, const mba_sim_extent *x)
{
    mba_assert(x->sms > 0 && x->resident > 0 && x->blocks > 0);
    mba_assert(k->nroles > 0 && k->nroles <= MBA_SIM_ROLES && k->nops > 0 && k->nops <= MBA_SIM_OPS);
    mba_assert(k->depth > 0 && k->depth <= MBA_SIM_STAGES);
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
