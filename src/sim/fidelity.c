// SPDX-License-Identifier: Apache-2.0
/* fidelity.c -- see engine.h: runs a kernel at the fidelity that the caller asks for. It computes the bounds (rates.c),
 * then simulates one SM or all of them (engine.c), and extrapolates where it simulates only a part of the launch. */
#include "sim/engine.h"

#include <math.h>
#include <string.h>

#include "sim/events.h"

/* With one SM: rounds of resident blocks that are simulated before the rest is extrapolated. */
static int64_t rounds_of(const mba_sim_kernel *k, int64_t resident)
{
    enum { ROUNDS = 9, BLOCKS_LEAST = 18 };
    int64_t n = mba_ceil(BLOCKS_LEAST, resident);
    if (n < ROUNDS) n = ROUNDS;
    if (n < mba_ceil(3 * k->nclasses, resident)) n = mba_ceil(3 * k->nclasses, resident);
    return n;
}

/* One SM with its share of L2 and DRAM. A launch with many more blocks than `rounds_of` rounds is cut there; the rest
 * takes the time per block between two marks. */
static mba_status run_one_sm(tick *end, int64_t *events, const mba_sim_kernel *k, const rates *r, int64_t resident)
{
    const int64_t  rounds = rounds_of(k, resident), most = rounds * resident;
    const bool     cut = r->blocks > most + most / 4;
    mba_sim_extent x = { .sms = 1,
                         .resident = resident < r->blocks ? resident : r->blocks,
                         .blocks = cut ? most : r->blocks };
    mba_sim_ends   e;
    rates          each = *r;
    if (cut) each.early = each.late = 256;
    x.mark_at[0] = cut ? rounds / 3 * resident : 0; // blocks end in bunches, so whole rounds lie between the marks
    x.mark_at[1] = cut ? (rounds - 1) * resident : 0;
    MBA_TRY(mba_sim_events(&e, k, &each, &x));
    mba_assert(!cut || (x.mark_at[1] > x.mark_at[0] && e.mark[1] >= e.mark[0]));
    *end = e.last;
    if (cut) *end += (r->blocks - most) * (e.mark[1] - e.mark[0]) / (x.mark_at[1] - x.mark_at[0]);
    *events += e.events;
    return MBA_OK;
}

static mba_status run_all_sms(tick *end, int64_t *events, const mba_sim_kernel *k, const rates *r, int64_t resident)
{
    const mba_sim_extent x = { .sms = (int64_t)r->active,
                               .resident = resident < r->blocks ? resident : r->blocks,
                               .blocks = k->grid };
    mba_sim_ends         e;
    rates                each = *r;
    each.early = each.late = 256;
    MBA_TRY(mba_sim_events(&e, k, &each, &x));
    *end = e.last;
    *events += e.events;
    return MBA_OK;
}

/* Trips of the outermost loops if they are the same in all roles and blocks, else 0. */
static int64_t trips_of_all(const mba_sim_kernel *k)
{
    int64_t trips = 0, depth = 0;
    for (int64_t i = 0; i < k->nops; i++) {
        const mba_sim_op *o = &k->op[i];
        depth -= o->work == MBA_OP_END;
        if (o->work == MBA_OP_LOOP && depth++ == 0) {
            if (o->trips < 0 || (trips && o->trips != trips)) return 0;
            trips = o->trips;
        }
    }
    return trips;
}

static void set_trips(mba_sim_kernel *k, int64_t trips)
{
    mba_assert(trips > 0);
    for (int64_t i = 0, depth = 0; i < k->nops; i++) {
        depth -= k->op[i].work == MBA_OP_END;
        if (k->op[i].work == MBA_OP_LOOP && depth++ == 0) k->op[i].trips = trips;
    }
}

/* Library GEMMs are one long loop and cause nine tenths of a step's events. Two short runs of the loop, SHORT and LONG
 * trips, give the time per trip from which the rest is extrapolated. */
static mba_status run_fast(tick *end, int64_t *events, mba_sim_kernel *k, const rates *r, int64_t resident)
{
    enum { SHORT = 128, LONG = 384 };
    const int64_t trips = trips_of_all(k);
    tick          part[2];
    if (trips <= 2 * LONG) return run_one_sm(end, events, k, r, resident);
    for (int i = 0; i < 2; i++) {
        set_trips(k, i ? LONG : SHORT);
        MBA_TRY(run_one_sm(&part[i], events, k, r, resident));
    }
    set_trips(k, trips);
    *end = part[1] + (trips - LONG) * (part[1] - part[0]) / (LONG - SHORT);
    return MBA_OK;
}

/* Cuts mixes into parts of about PART_CYCLES, so that processes interleave; at most PARTS_MOST, to limit the events. */
static void cut_mixes(mba_sim_kernel *k, const rates *r)
{
    enum { PART_CYCLES = 192, PARTS_MOST = 4 };
    for (int64_t i = 0; i < k->nops; i++) {
        mba_sim_op *o = &k->op[i];
        if (o->work != MBA_OP_MIX) continue;
        o->parts = 1;
        for (int p = 0; p < MBA_PIPES; p++) {
            const int64_t parts = (int64_t)((o->n[p] * r->pipe[p] >> FRACTION) / (PART_CYCLES * TICKS)) + 1;
            if (parts > o->parts) o->parts = parts < PARTS_MOST ? parts : PARTS_MOST;
        }
    }
}

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
        if (most[g] > first) {
            second = first;
            first = most[g];
        } else if (most[g] > second) second = most[g];
    }
    return second;
}

/* Predicts at one clock, in GHz: bounds, then events. */
static mba_status run_at(mba_sim_result *out, mba_sim_kernel *k, const mba_gpu *m, mba_sim_fidelity fidelity,
                         double clk)
{
    const double active = (double)k->grid < m->v[MBA_GPU_sm] ? (double)k->grid : m->v[MBA_GPU_sm];
    const bool   whole = fidelity == MBA_SIM_ALL_SMS;
    tick         end = 0;
    mba_assert(clk > 0);
    mba_sim_find_bounds(out, k, m, clk);
    out->seconds = out->bound[out->limit];
    if (fidelity == MBA_SIM_BOUNDS) return MBA_OK;
    const rates r = mba_sim_rates_of(k, m, clk, active, whole ? 1 : (double)out->blocks / (double)k->grid);
    cut_mixes(k, &r);
    if (whole) MBA_TRY(run_all_sms(&end, &out->events, k, &r, out->resident));
    else if (fidelity == MBA_SIM_FAST) MBA_TRY(run_fast(&end, &out->events, k, &r, out->resident));
    else MBA_TRY(run_one_sm(&end, &out->events, k, &r, out->resident));
    mba_assert(end >= 0);
    out->seconds = (double)end / TICKS / (clk * 1e9);
    // Rounds are extrapolated, and some bounds (wavefronts, requests) have no server.
    if (out->seconds < out->bound[out->limit]) out->seconds = out->bound[out->limit];
    if (k->counted && strncmp(k->name, "cu", 2)) out->seconds += m->v[MBA_GPU_interference] * second_bound(out);
    return MBA_OK;
}

/* Tensor work lowers the clock, by how busy the tensor units are. Only a run tells that, so kernels with tensor work
 * run again at the clock that the previous pass implies. */
mba_status mba_sim_run(mba_sim_result *out, const mba_sim_kernel *kernel, const mba_gpu *m, mba_sim_fidelity fidelity)
{
    mba_sim_kernel k = *kernel;
    const double   active = (double)k.grid < m->v[MBA_GPU_sm] ? (double)k.grid : m->v[MBA_GPU_sm];
    const bool     tensor = k.uses_tensor || (k.total[MBA_P_MMA] > 0 && k.mma_flops % 100 != 32);
    const int      passes = !tensor ? 0 : fidelity == MBA_SIM_BOUNDS || fidelity == MBA_SIM_FAST ? 1 : 2;
    double         clk = m->v[MBA_GPU_clk];
    mba_assert(k.grid > 0 && k.nops > 0);
    for (int64_t s = 0; s < k.nstreams; s++) mba_assert(k.stream[s].hit >= 0 && k.stream[s].hit <= 256);
    *out = (mba_sim_result){ .resident = mba_sim_resident(&k, m),
                             .blocks = (k.grid + (int64_t)active - 1) / (int64_t)active };
    if (!out->resident)
        return mba_fail(
            MBA_E_UNSUPPORTED,
            "no block of %s fits on an SM of %s\nwhy: mba_sim_finish did not check the kernel for this machine\n"
            "fix: call mba_sim_finish first",
            k.name, m->name);
    out->waves = mba_ceil(out->blocks, out->resident);
    MBA_TRY(run_at(out, &k, m, tensor ? MBA_SIM_BOUNDS : fidelity, clk));
    for (int i = 0; i < passes; i++) {
        const double busy = out->bound[MBA_P_MMA] / out->seconds;
        clk = mba_sim_clock_of(m, k.mma_flops > 100 ? busy * m->v[MBA_GPU_mma_sync] : busy, out->seconds,
                               (double)k.load / 256);
        MBA_TRY(run_at(out, &k, m, fidelity, clk));
    }
    mba_assert(isfinite(out->seconds) && out->seconds >= 0);
    out->cycles = out->seconds * clk * 1e9;
    for (int p = 0; p < MBA_PIPES; p++) out->busy[p] = out->seconds > 0 ? out->bound[p] / out->seconds : 0;
    return MBA_OK;
}
