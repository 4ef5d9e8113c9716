/* engine.c -- see engine.h. The loop is at the end; above it what a team of warps can do, and the servers it asks. */
#include "sim/engine.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef int64_t tick;                             /* 1/256 of a cycle */
enum { TICKS = 256, FRACTION = 20 };              /* bits behind the point of a rate */

const char *const mba_sim_limits[MBA_LIMITS] = { "FMA",           "ALU",   "SFU",          "HALF2",         "tensor",
                                                 "shared memory", "issue", "SM read port", "SM write port", "L2",
                                                 "DRAM",          "launch" };

/* Reads and writes pass the same slices of L2: of the time that each would take alone, this much is taken from the
 * other, too. By public measurements (three loads and a store, GH200, in sim_test.c) and the fitted kernels. */
static const double L2_SHARED = 0.72;

/* ---- rates: ticks per unit, in whole 2^-20 ---- */

typedef struct rates {
    uint64_t pipe[MBA_PIPES], rd, wr, l2r, l2w, l2r_both, l2w_both, hbm, dispatch;
    uint64_t l2r_full, hbm_full; /* of the whole chip: how fast bytes of one request follow each other */
    tick     t_kernel, t_blk, t_exit, bar, dep, l2_lat, hbm_lat, async_lat, drain;
    uint64_t async_bytes;
    double   clk, active;                         /* GHz; SMs that work */
    int64_t  blocks;                              /* of the busiest SM */
} rates;

/* No slower than a unit in 2^14 cycles, so that products fit into 64 bits. */
static uint64_t per_unit(double units_per_cycle)
{
    const double x = TICKS * (double)(1 << FRACTION) / units_per_cycle + 0.5, most = 4398046511104.0;
    return x < most ? (uint64_t)x : (uint64_t)most;
}

static tick     ticks_of(double cycles) { return (tick)(cycles * TICKS + 0.5); }

static double dram_bytes(const mba_sim_kernel *k, bool writes)
{
    double sum = 0;
    for (int64_t s = 0; s < k->nstreams; s++)
        if (k->stream[s].writes == writes) sum += k->stream[s].moved * (double)(256 - k->stream[s].hit) / 256;
    return sum;
}

static double moved_bytes(const mba_sim_kernel *k, bool writes)
{
    double sum = 0;
    for (int64_t s = 0; s < k->nstreams; s++) if (k->stream[s].writes == writes) sum += k->stream[s].moved;
    return sum;
}

/* Bytes per second that a mix of reads and writes reaches: by straight lines between reads, copies and writes. */
static double dram_rate(const mba_sim_kernel *k, const mba_gpu *m)
{
    const double r = dram_bytes(k, false), w = dram_bytes(k, true), f = r + w > 0 ? w / (r + w) : 0;
    const double e = f < 0.5 ? m->v[MBA_GPU_hbm_rd] + (m->v[MBA_GPU_hbm_mix] - m->v[MBA_GPU_hbm_rd]) * 2 * f
                             : m->v[MBA_GPU_hbm_mix] + (m->v[MBA_GPU_hbm_wr] - m->v[MBA_GPU_hbm_mix]) * (2 * f - 1);
    return e * m->v[MBA_GPU_hbm] * 1e9;
}

static double mma_rate(const mba_sim_kernel *k, const mba_gpu *m)
{
    const double full = m->v[k->mma_flops % 100 == 32 ? MBA_GPU_mma32 : MBA_GPU_mma16];
    return k->mma_flops > 100 ? full * m->v[MBA_GPU_mma_sync] : full;
}

/* Tensor work lowers the clock: at once by a step, and from TENSOR_FREE of the tensor units' time on by a line. */
static double clock_of(const mba_gpu *m, double tensor_busy)
{
    static const double TENSOR_FREE = 0.6;
    const double clk = m->v[MBA_GPU_clk_tc] < m->v[MBA_GPU_clk] ? m->v[MBA_GPU_clk_tc] : m->v[MBA_GPU_clk],
                 over = tensor_busy > TENSOR_FREE ? (tensor_busy - TENSOR_FREE) / (1 - TENSOR_FREE) : 0;
    return clk + (m->v[MBA_GPU_clk_mma] - clk) * (over < 1 ? over : 1);
}

/* `share`: of the chip's L2, DRAM and dispatcher, for one server of a folded chip. */
static rates rates_of(const mba_sim_kernel *k, const mba_gpu *m, double clk, double active, double share)
{
    const double *v = m->v, per_clk = share / (clk * 1e9);
    const double lanes[MBA_PIPES] = { v[MBA_GPU_fma], v[MBA_GPU_alu],     v[MBA_GPU_xu],   v[MBA_GPU_h2],
                                      mma_rate(k, m), v[MBA_GPU_smem_bw], v[MBA_GPU_issue] };
    rates r = { .rd = per_unit(v[MBA_GPU_rd_port]),
                .wr = per_unit(v[MBA_GPU_wr_port]),
                .l2r = per_unit(v[MBA_GPU_l2_rd] * 1e9 * per_clk),
                .l2w = per_unit(v[MBA_GPU_l2_wr] * 1e9 * per_clk),
                .l2r_both = per_unit(v[MBA_GPU_l2_rd] * 1e9 * per_clk / L2_SHARED),
                .l2w_both = per_unit(v[MBA_GPU_l2_wr] * 1e9 * per_clk / L2_SHARED),
                .hbm = per_unit(dram_rate(k, m) * per_clk),
                .dispatch = per_unit(v[MBA_GPU_r_blk] * share),
                .t_kernel = ticks_of(v[MBA_GPU_t_kernel] + (double)k->fetch),
                .t_blk = ticks_of(v[MBA_GPU_t_blk] + v[MBA_GPU_t_blk_w] * (double)k->warps),
                .t_exit = ticks_of(v[MBA_GPU_t_exit]),
                .bar = ticks_of(v[MBA_GPU_bar]),
                .dep = ticks_of(v[MBA_GPU_dep]),
                .l2_lat = ticks_of(v[MBA_GPU_l2_lat]),
                .hbm_lat = ticks_of(v[MBA_GPU_hbm_lat]),
                .async_lat = ticks_of(v[MBA_GPU_async_lat]),
                .drain = ticks_of(v[MBA_GPU_hbm_drain]),
                .async_bytes = (uint64_t)(v[MBA_GPU_async_kb] * 1024),
                .clk = clk,
                .active = active };
    for (int p = 0; p < MBA_PIPES; p++) r.pipe[p] = per_unit(lanes[p]);
    r.l2r_full = per_unit(v[MBA_GPU_l2_rd] / clk);
    r.hbm_full = per_unit(dram_rate(k, m) / (clk * 1e9));
    r.blocks = (k->grid + (int64_t)active - 1) / (int64_t)active;
    return r;
}

/* ---- servers: first come, first served, never idle while there is work ---- */

typedef struct server { tick free; uint64_t rest; } server;

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

typedef struct event { tick t; uint64_t seq; int32_t team; } event;

typedef struct team {
    int32_t pc, sm, slot, role, depth, waits;     /* waits: for a ring to change */
    int64_t left;                                 /* pieces of a mix still to do */
    int64_t trip[MBA_SIM_LOOPS], trips[MBA_SIM_LOOPS], start[MBA_SIM_LOOPS];
    tick    loaded, copied[MBA_SIM_STAGES];
} team;

typedef struct ring { int64_t filled, emptied; tick full[MBA_SIM_STAGES], empty[MBA_SIM_STAGES]; tick landed; } ring;
typedef struct slot { int32_t alive, block_class; tick stored; ring ring[MBA_SIM_RINGS]; } slot;

enum { FLIGHT = 512 };
typedef struct sm {
    server   pipe[MBA_PIPES], rd, wr;
    tick landed[FLIGHT]; /* asynchronous copies in flight: when they land, how large they are */
    uint64_t size[FLIGHT], in_flight;
    int      head, n;
} sm;

typedef struct engine {
    const mba_sim_kernel *k;
    rates    r;
    server   l2r, l2w, l2, hbm, dispatch;         /* l2: what reads and writes share */
    uint64_t written;                             /* bytes that DRAM has taken, for the drain */
    sm      *sms;
    slot    *slots;
    team    *teams;
    event   *heap;
    int64_t  nsm, resident, todo, started, finished, nheap, nevents;
    uint64_t seq;
    int64_t  owed[MBA_SIM_CLASSES];
    tick last, mark[2]; /* end of everything; ends of the blocks that a window is measured between */
    int64_t  mark_at[2];
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
    for (uint64_t n = m; n; n >>= 1, base *= base) if (n & 1) rest *= base;
    return (tick)((double)e->r.drain * (1 - (1 - rest) / (u * (double)m)));
}

static uint64_t missing(const mba_sim_stream *s, uint64_t bytes) { return bytes * (uint64_t)(256 - s->hit) / 256; }

/* A warp that waits for four lines waits for DRAM if one of them is there. */
static tick latency_of(const engine *e, const mba_sim_stream *s)
{
    const double hit = (double)s->hit / 256, all = hit * hit * hit * hit;
    return e->r.l2_lat + (tick)((double)(e->r.hbm_lat - e->r.l2_lat) * (1 - all));
}

/* A read walks its servers at once, as bytes stream through them; it is done when the slowest has passed the last. */
static tick read_bytes(engine *e, sm *p, tick now, const mba_sim_op *o)
{
    const mba_sim_stream *s = &e->k->stream[o->stream];
    const uint64_t        bytes = o->bytes / (uint64_t)o->parts, miss = missing(s, bytes);
    tick done = take(&p->pipe[MBA_P_SMEM], now, bytes, e->r.pipe[MBA_P_SMEM]);
    const tick port = take(&p->rd, now, bytes, e->r.rd),
               l2 = take_share(&e->l2r, now, bytes, e->r.l2r, e->r.l2r_full),
               both = take_share(&e->l2, now, bytes, e->r.l2r_both, e->r.l2r_full);
    if (port > done) done = port;
    if (l2 > done) done = l2;
    if (both > done) done = both;
    if (miss < 64) return done + e->r.l2_lat;
    const tick hbm = take_share(&e->hbm, now, miss, e->r.hbm, e->r.hbm_full);
    if (hbm > done) done = hbm;
    return done + (e->k->counted ? latency_of(e, s) : e->r.hbm_lat) + drain_wait(e, now, (miss + 127) / 128);
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
    p->landed[at]  = done;
    p->size[at]    = o->bytes;
    p->in_flight  += o->bytes;
    return done;
}

/* Stores go on their own, and a block leaves without waiting for them; but who is far ahead of the port, of L2 or of
 * DRAM is held back. */
static tick write_bytes(engine *e, sm *p, slot *b, tick now, const mba_sim_op *o)
{
    enum { PORT_SLACK_CYCLES = 512, DRAM_SLACK_CYCLES = 2000 };
    const uint64_t out = missing(&e->k->stream[o->stream], o->bytes);
    const tick port = take(&p->wr, now, o->bytes, e->r.wr), l2 = take(&e->l2w, now, o->bytes, e->r.l2w),
               both = take(&e->l2, now, o->bytes, e->r.l2w_both);
    const tick last = port > l2 ? port : l2, held = (last > both ? last : both) - (tick)PORT_SLACK_CYCLES * TICKS,
               dram = take(&e->hbm, now, out, e->r.hbm) - (tick)DRAM_SLACK_CYCLES * TICKS;
    e->written += out;
    if (held > now) now = held;
    if (dram > now) now = dram;
    if (now > b->stored) b->stored = now;
    return now;
}

/* ---- what a team does ---- */

static int64_t trips_of(const engine *e, const team *t, const mba_sim_op *o)
{
    return o->trips >= 0 ? o->trips : e->k->trips[e->slots[t->slot].block_class][-1 - o->trips];
}

/* One warp after the other instruction: in units of `dep`, which is that of additions (4 cycles of latency, two
 * instructions ready at a time); special functions, shared memory and products take 20, 30 and 33 cycles. */
static tick path_of(const engine *e, const mba_sim_op *o)
{
    if (e->k->counted) {                          // a path was read in the code, or (libraries) half a cycle each
        const double all = (double)o->n[MBA_P_ISSUE] / 32, special = (double)o->n[MBA_P_XU] / 32,
                     shared = (double)o->n[MBA_P_SMEM] / 512,
                     products = e->k->mma_flops > 100 ? (double)o->n[MBA_P_MMA] / 4096 : 0;
        return o->trips ? 0 : (tick)((0.5 * all + 10 * special + 3 * shared + 16 * products) * TICKS);
    }
    const uint64_t *n = o->n, plain = (n[MBA_P_FMA] + n[MBA_P_ALU] + n[MBA_P_H2]) / 32, special = n[MBA_P_XU] / 32,
                   shared = n[MBA_P_SMEM] / 512, products = e->k->mma_flops > 100 ? n[MBA_P_MMA] / 4096 : 0;
    return (tick)((4 * plain + 20 * special + 30 * shared + 33 * products) * (uint64_t)e->r.dep / 4);
}

/* All pipes work at once; a team of few warps reaches only some of the sub-partitions, and one warp waits for itself.
 */
static tick mix_piece(engine *e, const team *t, tick now, const mba_sim_op *o)
{
    sm            *p = &e->sms[t->sm];
    const uint64_t warps = (uint64_t)e->k->role_warps[t->role], parts = (uint64_t)o->parts,
                   spread = warps < 4 ? warps : 4;
    tick done = now + path_of(e, o) / (tick)(parts * warps);
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
    now += e->r.t_exit;
    e->finished++;
    if (now > e->last) e->last = now;
    for (int i = 0; i < 2; i++) if (e->finished == e->mark_at[i]) e->mark[i] = now;
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
        const tick ready = uses_data(o->work) ? data_ready(t, now) : now;
        if (ready > now) { push(e, ready, who); return; }
        switch (o->work) {
        case MBA_OP_MIX:
            if (!t->left) t->left = o->parts;
            now = mix_piece(e, t, now, o);
            if (--t->left > 0) { push(e, now, who); return; }
            t->pc++;
            push(e, now, who);
            return;
        case MBA_OP_LOAD: {
            if (!t->left) t->left = o->parts;                  // one after the other, where a warp waits for each
            const tick done = read_bytes(e, &e->sms[t->sm], now, o);
            if (done > t->loaded) t->loaded = done;
            if (--t->left > 0) { push(e, done, who); return; }
            break;
        }
        case MBA_OP_ASYNC: {
            const tick wait = issue_copies(e, t, now, o);
            if (wait) { push(e, wait, who); return; }
            break;
        }
        case MBA_OP_STORE:   now = write_bytes(e, &e->sms[t->sm], &e->slots[t->slot], now, o); break;
        case MBA_OP_BARRIER: now += o->parts * e->r.bar; break;
        case MBA_OP_DELAY:   now += o->parts * TICKS; break;
        case MBA_OP_LOOP:
            t->trips[t->depth] = trips_of(e, t, o);
            t->trip[t->depth]  = 0;
            t->start[t->depth++] = t->pc;
            if (t->trips[t->depth - 1] > 0) break;
            for (int inner = 1; inner; ) {                     // a loop without trips: to its end
                t->pc++;
                inner += (e->k->op[t->pc].work == MBA_OP_LOOP) - (e->k->op[t->pc].work == MBA_OP_END);
            }
            t->depth--;
            break;
        case MBA_OP_END:
            if (++t->trip[t->depth - 1] < t->trips[t->depth - 1]) t->pc = (int32_t)t->start[t->depth - 1];
            else t->depth--;
            break;
        case MBA_OP_EXIT:    leave(e, t, now); return;
        default:
            if (!ring_step(e, t, &now, o)) { t->waits = 1; return; }
        }
        if (e->nheap && e->heap[0].t < now) { t->pc++; push(e, now, who); return; }   // somebody is earlier
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
    now = take_share(&e->dispatch, now, 1, e->r.dispatch, 0) + e->r.t_blk;
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
    e->sms   = calloc((size_t)e->nsm, sizeof *e->sms);
    e->slots = calloc(places, sizeof *e->slots);
    e->teams = calloc(teams, sizeof *e->teams);
    e->heap  = calloc(2 * teams + 2, sizeof *e->heap);
    mba_status st = e->sms && e->slots && e->teams && e->heap
                        ? MBA_OK
                        : mba_fail(MBA_E_NOMEM, "no memory to simulate %s", e->k->name);
    for (int64_t c = 0, all = 0; c < e->k->nclasses; c++) {    // the longest comes first: the last to end decides
        all += e->k->count[c];
        if (c + 1 < e->k->nclasses) continue;
        int64_t longest = 0;
        for (int64_t d = 1; d <= c; d++) if (e->k->trips[d][0] > e->k->trips[longest][0]) longest = d;
        e->owed[longest] += all;
    }
    if (st == MBA_OK)
        for (int64_t i = 0; i < e->resident; i++)              // the first blocks go round the SMs
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
        const tick end = e->r.t_kernel + e->r.t_blk + e->k->longest * TICKS + e->r.t_exit;
        if (end > e->last) e->last = end;
    }
    const tick ends[] = { e->hbm.free, e->l2.free, e->l2r.free, e->l2w.free }; // writes are charged to who writes
    for (int i = 0; i < 4; i++) if (ends[i] > e->last) e->last = ends[i];
    for (int64_t i = 0; st == MBA_OK && i < e->nsm; i++) if (e->sms[i].wr.free > e->last) e->last = e->sms[i].wr.free;
    free(e->sms);
    free(e->slots);
    free(e->teams);
    free(e->heap);
    return st;
}

/* ---- bounds ---- */

static void find_bounds(mba_sim_result *out, const mba_sim_kernel *k, const mba_gpu *m, double clk)
{
    const double *v = m->v, active = (double)k->grid < v[MBA_GPU_sm] ? (double)k->grid : v[MBA_GPU_sm], hz = clk * 1e9;
    const double lanes[MBA_PIPES] = { v[MBA_GPU_fma], v[MBA_GPU_alu],     v[MBA_GPU_xu],   v[MBA_GPU_h2],
                                      mma_rate(k, m), v[MBA_GPU_smem_bw], v[MBA_GPU_issue] };
    out->dram_read  = dram_bytes(k, false);
    out->dram_write = dram_bytes(k, true);
    out->l2_read    = moved_bytes(k, false);
    out->l2_write   = moved_bytes(k, true);
    for (int p = 0; p < MBA_PIPES; p++) out->bound[p] = k->total[p] / (lanes[p] * active * hz);
    out->bound[MBA_P_SMEM] += out->l2_read / (v[MBA_GPU_smem_bw] * active * hz); // what is loaded passes through L1
    out->bound[MBA_LIMIT_RD]  = out->l2_read / (v[MBA_GPU_rd_port] * active * hz);
    out->bound[MBA_LIMIT_WR]  = out->l2_write / (v[MBA_GPU_wr_port] * active * hz);
    const double read = out->l2_read / (v[MBA_GPU_l2_rd] * 1e9), write = out->l2_write / (v[MBA_GPU_l2_wr] * 1e9);
    out->bound[MBA_LIMIT_L2] = fmax(L2_SHARED * (read + write), fmax(read, write));
    out->bound[MBA_LIMIT_HBM] =
        out->dram_read > 0 || out->dram_write > 0 ? (out->dram_read + out->dram_write) / dram_rate(k, m) : 0;
    const double rounds = ceil((double)out->blocks / (double)out->resident);
    out->bound[MBA_LIMIT_LAUNCH] =
        rounds * (v[MBA_GPU_t_blk] + v[MBA_GPU_t_blk_w] * (double)k->warps + v[MBA_GPU_t_exit]) / hz;
    out->limit = 0;
    for (int i = 1; i < MBA_LIMITS; i++) if (out->bound[i] > out->bound[out->limit]) out->limit = i;
}

/* ---- tiers ---- */

/* Of a folded chip: rounds of resident blocks that are simulated one by one. */
static int64_t rounds_of(const mba_sim_kernel *k, int64_t resident)
{
    enum { ROUNDS = 9, BLOCKS_LEAST = 18 };
    int64_t n = mba_ceil(BLOCKS_LEAST, resident);
    if (n < ROUNDS) n = ROUNDS;
    if (n < mba_ceil(3 * k->nclasses, resident)) n = mba_ceil(3 * k->nclasses, resident);
    return n;
}

static mba_status run_folded(tick *end, int64_t *events, const mba_sim_kernel *k, const rates *r, int64_t resident)
{
    const int64_t rounds = rounds_of(k, resident), most = rounds * resident;
    engine e = { .k = k, .r = *r, .nsm = 1, .resident = resident < r->blocks ? resident : r->blocks };
    const bool cut = r->blocks > most + most / 4;
    e.todo       = cut ? most : r->blocks;
    e.mark_at[0] = cut ? rounds / 3 * resident : 0; // blocks end in bunches: whole rounds lie between the marks
    e.mark_at[1] = cut ? (rounds - 1) * resident : 0;
    MBA_TRY(simulate(&e));
    *end = e.last;
    if (cut) *end += (r->blocks - most) * (e.mark[1] - e.mark[0]) / (e.mark_at[1] - e.mark_at[0]);
    *events += e.nevents;
    return MBA_OK;
}

static mba_status run_whole(tick *end, int64_t *events, const mba_sim_kernel *k, const rates *r, int64_t resident)
{
    engine e = { .k = k,
                 .r = *r,
                 .nsm = (int64_t)r->active,
                 .resident = resident < r->blocks ? resident : r->blocks,
                 .todo = k->grid };
    MBA_TRY(simulate(&e));
    *end = e.last;
    *events += e.nevents;
    return MBA_OK;
}

/* Pieces of mixes: short enough that teams interleave, few enough to be quick. */
static void cut_mixes(mba_sim_kernel *k, const rates *r)
{
    enum { PIECE_CYCLES = 192, PIECES_MOST = 4 };
    for (int64_t i = 0; i < k->nops; i++) {
        mba_sim_op *o = &k->op[i];
        if (o->work != MBA_OP_MIX) continue;
        o->parts = 1;
        for (int p = 0; p < MBA_PIPES; p++) {
            const int64_t parts = (int64_t)((o->n[p] * r->pipe[p] >> FRACTION) / (PIECE_CYCLES * TICKS)) + 1;
            if (parts > o->parts) o->parts = parts < PIECES_MOST ? parts : PIECES_MOST;
        }
    }
}

/* Of what the second busiest part of an SM or of memory would take alone, this much is not hidden behind the busiest.
 * Chosen by the fitted kernels of bench/results/h200. */
static const double INTERFERENCE = 0.12;

/* Of vector units, shared memory, tensor units and memory: what the second busiest would take alone. */
static double second_bound(const mba_sim_result *r)
{
    enum { VECTOR, SHARED, TENSOR, MEMORY, GROUPS };
    double most[GROUPS] = { 0 }, first = 0, second = 0;
    for (int i = 0; i < MBA_LIMIT_LAUNCH; i++) {
        const int g = i == MBA_P_SMEM ? SHARED : i == MBA_P_MMA ? TENSOR : i < MBA_PIPES ? VECTOR : MEMORY;
        if (r->bound[i] > most[g]) most[g] = r->bound[i];
    }
    for (int g = 0; g < GROUPS; g++) {
        if (most[g] > first) { second = first; first = most[g]; }
        else if (most[g] > second) second = most[g];
    }
    return second;
}

mba_status mba_sim_run(mba_sim_result *out, const mba_sim_kernel *kernel, const mba_gpu *m, mba_sim_tier tier)
{
    mba_sim_kernel k = *kernel;
    const double   active = (double)k.grid < m->v[MBA_GPU_sm] ? (double)k.grid : m->v[MBA_GPU_sm];
    *out = (mba_sim_result){ .resident = mba_sim_resident(&k, m),
                             .blocks = (k.grid + (int64_t)active - 1) / (int64_t)active };
    if (!out->resident)
        return mba_fail(MBA_E_UNSUPPORTED,
                        "%s does not fit on an SM of %s\nwhy: mba_sim_finish was not asked\nfix: ask it", k.name,
                        m->name);
    out->waves = mba_ceil(out->blocks, out->resident);
    double clk = m->v[MBA_GPU_clk];
    find_bounds(out, &k, m, clk);
    if (k.products || (k.total[MBA_P_MMA] > 0 && k.mma_flops % 100 == 16)) { // how busy it would be at the full clock
        clk = clock_of(m, out->bound[MBA_P_MMA] / out->bound[out->limit]
                              * (k.mma_flops > 100 ? m->v[MBA_GPU_mma_sync] : 1));
        find_bounds(out, &k, m, clk);
    }
    out->seconds = out->bound[out->limit];
    if (tier != MBA_SIM_BOUNDS) {
        const bool   whole = tier == MBA_SIM_WHOLE;
        const double share = whole ? 1 : (double)out->blocks / (double)k.grid;
        const rates  r = rates_of(&k, m, clk, active, share);
        tick         end = 0;
        cut_mixes(&k, &r);
        if (whole) MBA_TRY(run_whole(&end, &out->events, &k, &r, out->resident));
        else       MBA_TRY(run_folded(&end, &out->events, &k, &r, out->resident));
        out->seconds = (double)end / TICKS / (clk * 1e9);
        if (!whole && out->seconds < out->bound[out->limit])
            out->seconds = out->bound[out->limit]; // rounds were extrapolated
    }
    if (tier != MBA_SIM_BOUNDS && k.counted && strncmp(k.name, "cu", 2)) {
        out->seconds += INTERFERENCE * second_bound(out);
    }
    out->cycles = out->seconds * clk * 1e9;
    for (int p = 0; p < MBA_PIPES; p++) out->busy[p] = out->seconds > 0 ? out->bound[p] / out->seconds : 0;
    return MBA_OK;
}
