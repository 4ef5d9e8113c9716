// SPDX-License-Identifier: Apache-2.0
/* sm.c -- see sm.h. From top to bottom: the SM of a machine, issue of one instruction, the loop over warps, programs
 * from counters, reaction to a changed machine. */
#include "sim/sm.h"

#include <math.h>
#include <string.h>

enum { TICK = 256, PARTITIONS = 4, LANES = 32 };

/* ---- the SM of a machine ---- */

static int64_t ticks(double cycles) { return (int64_t)(TICK * cycles + 0.5); }

/* FLOPs of a product: m16n8k16 of a warp; 64 x 128 x 16 of a group, a quarter for each warp. */
static const double MMA_FLOPS = 4096, GROUP_FLOPS = 65536;

/* The numbers that tools/sass_path assumes, by the names of machine files. */
typedef struct numbers {
    double issue, fma, alu, xu, mma16, mma_sync, smem_bw, lsu, lat_alu, lat_xu, lat_smem, lat_mma;
} numbers;
static const numbers sm_90 = { 128, 128, 64, 16, 4096, 0.662, 128, 32, 4, 20, 30, 33 };

static mba_sm sm_from(const numbers *v)
{
    const double each = PARTITIONS * LANES; // a sub-partition has a quarter of the SM's lanes
    mba_sm       s = { .issue = ticks(each / v->issue),
                       .taken = ticks(LANES / v->lsu),
                       .front = ticks(128 / v->smem_bw),
                       .stretch = v->lat_alu / sm_90.lat_alu };
    s.takes[MBA_SM_FMA] = ticks(each / v->fma);
    s.takes[MBA_SM_HEAVY] = ticks(2 * each / v->fma);
    s.takes[MBA_SM_ALU] = ticks(each / v->alu);
    s.takes[MBA_SM_XU] = ticks(each / v->xu);
    s.takes[MBA_SM_MMA] = ticks(MMA_FLOPS / (v->mma16 * v->mma_sync / PARTITIONS));
    s.takes[MBA_SM_GROUP] = ticks(GROUP_FLOPS / (v->mma16 / PARTITIONS));
    s.latency[MBA_SM_XU] = ticks(v->lat_xu);
    s.latency[MBA_SM_MMA] = s.latency[MBA_SM_GROUP] = ticks(v->lat_mma);
    s.latency[MBA_SM_MEMORY] = ticks(v->lat_smem);
    return s;
}

mba_sm mba_sm_90(void) { return sm_from(&sm_90); }

mba_sm mba_sm_of(const mba_gpu *m)
{
    const double *v = m->v;
    return sm_from(&(numbers){ v[MBA_GPU_issue], v[MBA_GPU_fma], v[MBA_GPU_alu], v[MBA_GPU_xu], v[MBA_GPU_mma16],
                               v[MBA_GPU_mma_sync], v[MBA_GPU_smem_bw], v[MBA_GPU_lsu], v[MBA_GPU_lat_alu],
                               v[MBA_GPU_lat_xu], v[MBA_GPU_lat_smem], v[MBA_GPU_lat_mma] });
}

bool mba_sm_same(const mba_sm *a, const mba_sm *b) { return !memcmp(a, b, sizeof *a); }

/* ---- issue ---- */

typedef struct warp {
    int64_t at, clear[MBA_SM_BARRIERS], begins, order; /* at: when it may issue; begins: of the measured trips */
    int     pc, trips;
} warp;

typedef struct state {
    const mba_sm_code *code;
    const mba_sm      *sm;
    int64_t            sharers; /* sub-partitions that have warps */
    int64_t            issue, pipe[MBA_SM_UNITS], asked, shared;
    warp               warp[MBA_SM_WARPS];
} state;

static int64_t later(int64_t a, int64_t b) { return a > b ? a : b; }

static bool waits_for_pipe(int unit) { return unit != MBA_SM_NONE && unit != MBA_SM_MEMORY && unit != MBA_SM_GROUP; }

/* When the next instruction of warp p can issue. */
static int64_t earliest(const state *s, const warp *p)
{
    const mba_sm_inst *one = &s->code->inst[p->pc];
    int64_t            t = later(p->at, s->issue);
    if (one->waits >= 0) t = later(t, p->clear[one->waits]);
    return waits_for_pipe(one->unit) ? later(t, s->pipe[one->unit]) : t;
}

/* Compilers write 1 where the next instruction needs nothing of this one, 2 for the rate of the ALU pipe, and more for
 * the latency of a result. */
static int64_t stall_of(const mba_sm *sm, int stall)
{
    enum { OF_ALU = 2 };
    const int64_t t = stall < OF_ALU ? sm->issue : stall == OF_ALU ? sm->takes[MBA_SM_ALU] : ticks(stall * sm->stretch);
    return later(t, sm->issue);
}

static void issue(state *s, warp *p, int64_t now)
{
    const mba_sm_inst *one = &s->code->inst[p->pc];
    int64_t            done = now;
    mba_debug_assert(one->unit < MBA_SM_UNITS && now >= p->at);
    s->issue = now + s->sm->issue;
    if (one->unit == MBA_SM_MEMORY) {
        const int64_t begins = later(now, s->asked);
        s->asked = begins + s->sharers * s->sm->taken;
        s->shared = later(begins, s->shared) + s->sharers * s->sm->front * one->fronts / 16;
        done = s->shared;
    } else if (one->unit != MBA_SM_NONE) {
        const int64_t begins = later(now, s->pipe[one->unit]);
        s->pipe[one->unit] = begins + s->sm->takes[one->unit];
        done = one->unit == MBA_SM_GROUP ? s->pipe[one->unit] : begins;
    }
    if (one->sets >= 0) p->clear[one->sets] = done + s->sm->latency[one->unit];
    p->at = now + stall_of(s->sm, one->stall);
}

/* ---- warps ---- */

enum { WARM = 1, MEASURED = 2 };

/* The warp that can issue first; of several the one that has waited longest. NULL: all are done. */
static warp *next_warp(state *s, int warps, int64_t *when)
{
    warp *best = NULL;
    for (warp *p = s->warp; p < s->warp + warps; p++) {
        if (p->trips == WARM + MEASURED) continue;
        const int64_t t = earliest(s, p);
        if (best && (t > *when || (t == *when && p->order >= best->order))) continue;
        best = p;
        *when = t;
    }
    return best;
}

double mba_sm_cycles(const mba_sm_code *code, const mba_sm *sm, int warps, int blocks)
{
    mba_assert(code->n > 0 && code->n <= MBA_SM_CODE && warps > 0 && blocks > 0);
    const int every = warps * blocks, mine = (every + PARTITIONS - 1) / PARTITIONS,
              all = mine < MBA_SM_WARPS ? mine : MBA_SM_WARPS;
    state   s = { .code = code, .sm = sm, .sharers = every < PARTITIONS ? every : PARTITIONS };
    int64_t order = 0, when = 0, sum = 0;
    for (warp *p; (p = next_warp(&s, all, &when));) {
        issue(&s, p, when);
        p->order = ++order;
        if (++p->pc < code->n) continue;
        p->pc = 0;
        if (++p->trips == WARM) p->begins = p->at;
        if (p->trips == WARM + MEASURED) sum += p->at - p->begins;
    }
    mba_assert(sum > 0);
    return (double)sum / all / MEASURED / code->n / TICK;
}

/* ---- programs from counters ---- */

typedef struct share {
    mba_sm_unit unit;
    double      of; /* an instruction of the kernel */
} share;

/* NaN and negative numbers count as 0. */
static double counted(double n) { return n > 0 ? n : 0; }

static void shares_of(share out[MBA_SM_UNITS], const mba_profiled_kernel *c)
{
    const double *n = c->n, heavy = fmin(counted(n[MBA_N_HEAVY]), counted(n[MBA_N_FMA])),
                 groups = strstr(c->kernel, "sm90_") || c->n[MBA_N_PRODUCTS] > 0 ? 0 : 1;
    const double of[MBA_SM_UNITS] = { [MBA_SM_FMA] = counted(n[MBA_N_FMA]) - heavy,
                                      [MBA_SM_HEAVY] = heavy,
                                      [MBA_SM_ALU] = counted(n[MBA_N_ALU]),
                                      [MBA_SM_XU] = counted(n[MBA_N_XU]),
                                      [MBA_SM_MMA] = (1 - groups) * counted(n[MBA_N_TENSOR]) / MMA_FLOPS,
                                      [MBA_SM_GROUP] = groups * counted(n[MBA_N_TENSOR]) / GROUP_FLOPS,
                                      [MBA_SM_MEMORY] = counted(n[MBA_N_LSU]) };
    for (int u = 0; u < MBA_SM_UNITS; u++) out[u] = (share){ (mba_sm_unit)u, of[u] / n[MBA_N_INST] };
}

/* A fixed sequence of numbers from 0 to 1 (the golden ratio), so that units come in irregular order. */
static double spread(int i)
{
    const double x = 0.6180339887498949 * (i + 1);
    return x - floor(x);
}

/* Deals the slots to units in their shares; what is left takes an issue slot only. */
static void mix(mba_sm_code *out, const share *shares, int fronts)
{
    out->n = MBA_SM_CODE;
    for (int i = 0; i < out->n; i++) {
        double x = spread(i);
        int    unit = MBA_SM_NONE;
        for (int u = MBA_SM_NONE + 1; u < MBA_SM_UNITS && unit == MBA_SM_NONE; u++) {
            if (x < shares[u].of) unit = u;
            x -= shares[u].of;
        }
        out->inst[i] = (mba_sm_inst){ (uint8_t)unit, 1, -1, -1, unit == MBA_SM_MEMORY ? fronts : 0 };
    }
}

/* Lets the result of every instruction with a latency be waited for `distance` slots later; 0: never. */
static void depend(mba_sm_code *code, int distance)
{
    for (int i = 0; i < code->n; i++) code->inst[i].sets = code->inst[i].waits = -1;
    for (int i = 0, n = 0; i < code->n && distance; i++) {
        mba_sm_inst *one = &code->inst[i], *user = &code->inst[(i + distance) % code->n];
        if (one->unit < MBA_SM_XU || user->waits >= 0) continue;
        one->sets = user->waits = (int8_t)(n++ % MBA_SM_BARRIERS);
    }
}

/* Stalls as in compiled code. Of 19 kernels of ours, 48 % of the instructions have a stall of 1, 21 % of 2 and 31 %
 * wait for a latency: `wait` cycles on average, as whole numbers. */
static void stall(mba_sm_code *code, double wait)
{
    enum { LEAST = 3, MOST = 250 };
    static const double OF_ONE = 0.48, OF_TWO = 0.69;
    double              want = 0;
    for (int i = 0; i < code->n; i++) {
        const double x = spread(code->n + 7 * i);
        want += x < OF_TWO ? 0 : wait;
        const double whole = floor(want < LEAST ? LEAST : want > MOST ? MOST : want);
        code->inst[i].stall = (uint8_t)(x < OF_ONE ? 1 : x < OF_TWO ? 2 : whole);
        if (x >= OF_TWO) want -= whole;
    }
}

/* A program that takes `path` cycles per instruction on sm_90 beside as many warps. */
static bool code_that_takes(mba_sm_code *out, const mba_profiled_kernel *c, double path, int warps, int blocks)
{
    enum { TURNS = 10 };
    static const int distances[] = { 6, 12, 24, 48, 0 };
    const double     requests = counted(c->n[MBA_N_LSU]),
                 seen = fmax(counted(c->n[MBA_N_LSU_WF]), counted(c->n[MBA_N_SHARED_WF]));
    const mba_sm home = mba_sm_90();
    share        shares[MBA_SM_UNITS];
    if (!(c->n[MBA_N_INST] > 0) || !(path > 0)) return false;
    shares_of(shares, c);
    mix(out, shares, (int)(16 * fmin(16, requests > 0 ? fmax(1, seen / requests) : 1)));
    stall(out, 0);
    for (size_t d = 0; d < sizeof distances / sizeof *distances; d++) { // the nearest uses that are not too slow
        depend(out, distances[d]);
        if (mba_sm_cycles(out, &home, warps, blocks) <= path) break;
    }
    double low = 0, high = 8 * path;
    for (int i = 0; i < TURNS; i++) {
        const double mean = (low + high) / 2;
        stall(out, mean);
        if (mba_sm_cycles(out, &home, warps, blocks) < path) low = mean;
        else high = mean;
    }
    stall(out, low);
    return true;
}

bool mba_sm_code_of(mba_sm_code *out, const mba_profiled_kernel *c)
{
    return code_that_takes(out, c, c->n[MBA_N_PATH], 1, 1);
}

/* ---- reaction ---- */

static bool none_longer(const mba_sm *a, const mba_sm *b)
{
    bool none = a->issue <= b->issue && a->taken <= b->taken && a->front <= b->front && a->stretch <= b->stretch;
    for (int u = 0; u < MBA_SM_UNITS; u++) none &= a->takes[u] <= b->takes[u] && a->latency[u] <= b->latency[u];
    return none;
}

/* What `cycles` that were read for warps of sm_90 become on another SM. */
static double react(const mba_profiled_kernel *c, const mba_sm *here, double cycles, int warps, int blocks)
{
    const mba_sm home = mba_sm_90();
    mba_sm_code  code;
    if (!code_that_takes(&code, c, cycles, warps, blocks)) return cycles;
    const double now = mba_sm_cycles(&code, here, warps, blocks) / mba_sm_cycles(&code, &home, warps, blocks);
    // Which warp is first may change with any number; of the program that is no property of the kernel.
    return cycles * (none_longer(here, &home) ? fmin(now, 1) : none_longer(&home, here) ? fmax(now, 1) : now);
}

void mba_sm_react(mba_profiled_kernel *c, const mba_gpu *m, int warps, int blocks)
{
    const mba_sm home = mba_sm_90(), here = mba_sm_of(m);
    if (mba_sm_same(&home, &here) || !(c->n[MBA_N_PATH] > 0)) return;
    const double path = react(c, &here, c->n[MBA_N_PATH], 1, 1);
    c->n[MBA_N_TAIL] *= path / c->n[MBA_N_PATH];
    c->n[MBA_N_PATH] = path;
    if (!(c->n[MBA_N_STEP] > 0)) return;
    const int    several = blocks > 1 ? blocks : 2;
    const double step = react(c, &here, c->n[MBA_N_STEP], warps, 1),
                 all = react(c, &here, c->n[MBA_N_STEP] + (several - 1) * c->n[MBA_N_BESIDE], warps, several);
    c->n[MBA_N_STEP] = fmax(c->n[MBA_N_PATH], step);
    c->n[MBA_N_BESIDE] = isnan(all) ? NAN : fmax(0, all - c->n[MBA_N_STEP]) / (several - 1); // NaN: not read
    mba_assert(!(c->n[MBA_N_PATH] < 0) && !(c->n[MBA_N_BESIDE] < 0));
}
