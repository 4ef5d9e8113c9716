// SPDX-License-Identifier: Apache-2.0
/* advice.c -- see advice.h. Every rule is a function from the facts of a kernel to one piece of advice; the table at
 * the end lists them. Thresholds stand at the top, so that tests can try both sides. */
#include "study/advice.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "study/limiter.h"

/* Below LEAST_SAVED of a kernel's time nothing is advised. A unit that is busy for LIMITING of the time limits the
 * kernel; below it latency does. */
static const double LEAST_SAVED = 0.03, LIMITING = 0.6, LANE_SECTORS_MAX = 16, WASTE_LEAST = 0.2, CONFLICT_LEAST = 0.1,
                    OCCUPANCY_LOW = 0.5, GAP_LEAST_S = 5e-6, REREAD_LEAST = 1.2, PIPE_OF_ISSUE = 0.9;

/* A cache moves sectors; a miss in L2 takes at least two of them from DRAM. */
static const double SECTOR_BYTES = 32, DRAM_BURST_BYTES = 64;

/* What the rules read, computed once. Parts are 0 to 1; NaN: not measured. */
typedef struct facts {
    const mba_analysis    *a;
    const mba_kernel_view *k;
    double                 busy, next;                                      /* the two busiest units */
    double                 dram, l2, l1, tensor, fma, alu, xu, issue, fp64; /* utilisations */
    double                 wait_global, wait_shared, wait_barrier, wait;    /* parts of the stalled warps */
    double                 active;                                          /* part of the time that an SM has work */
    double                 above_floor;                                     /* part of the time above the floor; 1 */
} facts;

static double part(double percent) { return 0.01 * percent; }
static double known(double v) { return isnan(v) ? 0 : v; }

static bool is_stall(const mba_stall *s, const char *name)
{
    return (size_t)s->length == strlen(name) && !strncmp(s->name, name, (size_t)s->length);
}

static void read_stalls(facts *f)
{
    enum { REASONS = 24 };
    mba_stall all[REASONS];
    const int n = mba_stalls_of(f->k, all, REASONS);
    double    sum = 0, global = 0, shared = 0, barrier = 0, fixed = 0;
    mba_assert(n >= 0 && n <= REASONS);
    for (int i = 0; i < n; i++) {
        const mba_stall *s = &all[i];
        if (is_stall(s, "long_scoreboard") || is_stall(s, "lg_throttle")) global += s->warps;
        if (is_stall(s, "short_scoreboard") || is_stall(s, "mio_throttle")) shared += s->warps;
        if (is_stall(s, "barrier")) barrier += s->warps;
        if (is_stall(s, "wait")) fixed += s->warps;
        sum += s->warps;
    }
    const double of = sum > 0 ? sum : NAN;
    f->wait_global = global / of, f->wait_shared = shared / of, f->wait_barrier = barrier / of, f->wait = fixed / of;
}

static facts facts_of(const mba_analysis *a, const mba_kernel_view *k)
{
    const mba_counted *c = &k->counted;
    facts              f = { .a = a, .k = k };
    f.dram = part(c->dram_pct), f.l2 = c->l2_bytes / c->time_s / a->best.l2, f.l1 = part(c->l1_pct),
    f.tensor = part(c->tensor_pct), f.fma = part(c->fma_pct);
    f.alu = part(c->alu_pct), f.xu = part(c->xu_pct), f.issue = part(c->issue_pct);
    f.fp64 = part(mba_counter_value(k, "sm__pipe_fp64_cycles_active.avg.pct_of_peak_sustained_active"));
    const double unit[] = { f.dram, f.l1, f.tensor, f.fma, f.alu, f.xu, f.issue, f.fp64 };
    for (size_t i = 0; i < sizeof unit / sizeof *unit; i++)
        if (unit[i] > f.busy) f.next = f.busy, f.busy = unit[i];
        else if (unit[i] > f.next) f.next = unit[i];
    f.active = c->sm_cycles / mba_counter_value(k, "sm__cycles_elapsed.max");
    f.above_floor = k->from_counters || isnan(k->least_s) ? 1 : fmax(0, 1 - k->least_s / k->median_s);
    read_stalls(&f);
    return f;
}

#define EVIDENCE(tip, ...) snprintf((tip)->evidence, sizeof(tip)->evidence, __VA_ARGS__)

/* What a kernel saves if one unit's work shrinks by `less` (a part of it): the unit limits it as far as it is busy or
 * waited for. */
static double saved_by_less(double less, double busy, double waited)
{
    return less * fmin(1, fmax(known(busy), known(waited)));
}

/* ---- memory ---- */

static double sectors(const facts *f, const char *space_and_op)
{
    char metric[80];
    snprintf(metric, sizeof metric, "l1tex__t_sectors_pipe_lsu_mem_%s.sum", space_and_op);
    return mba_counter_value(f->k, metric);
}

/* The part of all sectors, of global and local memory, that an access has. */
static double share_of(const facts *f, double some)
{
    const double all = known(sectors(f, "global_op_ld")) + known(sectors(f, "global_op_st"))
                       + known(sectors(f, "local_op_ld")) + known(sectors(f, "local_op_st"));
    return all > 0 ? some / all : 0;
}

/* The part of the fetched bytes that no thread uses. Without the counter of used bytes, only more sectors than any
 * aligned access of up to 16 bytes per lane needs are known to be wasted. Asynchronous copies count as sectors without
 * bytes: less than one byte per sector says that most accesses are such copies. */
static double wasted(const facts *f, const char *used, double per_request)
{
    const double pct = mba_counter_value(f->k, used);
    if (pct >= 100 / SECTOR_BYTES) return fmax(0, 1 - part(pct));
    return per_request > LANE_SECTORS_MAX ? 1 - LANE_SECTORS_MAX / per_request : NAN;
}

/* The sectors among `touched` that a coalesced kernel does not touch. It touches every byte of its operands once, so
 * that many sectors are not in excess, whatever the counter says of those that asynchronous copies touch. */
static double excess_sectors(const facts *f, double touched, double less)
{
    const double global = known(sectors(f, "global_op_ld")) + known(sectors(f, "global_op_st"));
    const double least = f->k->from_counters || isnan(f->k->least.bytes) ? 0 : f->k->least.bytes / SECTOR_BYTES;
    return fmax(0, fmin(less * touched, global - least));
}

/* What a kernel saves without `excess` sectors: at the level of memory where they cost most, their part of what that
 * level moves, as far as it is busy; or their part of what warps wait for. Sectors that L1 or L2 has cost nothing
 * further down, and DRAM that moves the least bytes moves none in excess. */
static double saved_by_fewer_sectors(const facts *f, double excess)
{
    const mba_counted *c = &f->k->counted;
    const double       of_all = fmin(1, share_of(f, excess)), missed = excess * (1 - part(known(c->l1_hit_pct)));
    const double       waves = f->l1 * mba_counter_value(f->k, "sm__cycles_elapsed.max") * f->a->sms;
    const double       own = waves - known(mba_counter_value(f->k, "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum"));
    const double       all = of_all > 0 ? excess / of_all : 0;
    double             dram = fmin(of_all, DRAM_BURST_BYTES * missed / c->dram_bytes);
    if (!f->k->from_counters && !isnan(f->k->least.bytes))
        dram = fmin(dram, fmax(0, 1 - f->k->least.bytes / c->dram_bytes));
    const double l2 = fmin(of_all, SECTOR_BYTES * missed / c->l2_bytes),
                 l1 = waves > 0 ? of_all * fmin(1, fmin(all, own) / waves) : 0;
    return fmax(fmax(known(dram * f->dram), known(l2) * fmin(1, known(f->l2))),
                fmax(known(l1 * f->l1), of_all * known(f->wait_global)));
}

static bool uncoalesced_loads(const facts *f, mba_advice *tip)
{
    const double less = wasted(f, "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.pct",
                               f->k->counted.sectors_per_load),
                 touched = known(sectors(f, "global_op_ld")), excess = excess_sectors(f, touched, less);
    if (!(excess > WASTE_LEAST * touched)) return false;
    tip->remedy = "let neighbouring threads read neighbouring addresses, or stage tiles in shared memory";
    tip->kernel_saved = saved_by_fewer_sectors(f, excess);
    EVIDENCE(tip, "%.0f %% of the bytes that loads fetch are not used (%.1f sectors per request)",
             100 * excess / touched, f->k->counted.sectors_per_load);
    return true;
}

static bool uncoalesced_stores(const facts *f, mba_advice *tip)
{
    const double less = wasted(f, "smsp__sass_average_data_bytes_per_sector_mem_global_op_st.pct",
                               f->k->counted.sectors_per_store),
                 touched = known(sectors(f, "global_op_st")), excess = excess_sectors(f, touched, less);
    if (!(excess > WASTE_LEAST * touched)) return false;
    tip->remedy = "let neighbouring threads write neighbouring addresses, or stage tiles in shared memory";
    tip->kernel_saved = saved_by_fewer_sectors(f, excess);
    EVIDENCE(tip, "%.0f %% of the bytes that stores touch are not written (%.1f sectors per request)",
             100 * excess / touched, f->k->counted.sectors_per_store);
    return true;
}

/* Local memory: spilled registers, and arrays that are indexed by data. */
static bool spills(const facts *f, mba_advice *tip)
{
    const double less = share_of(f, sectors(f, "local_op_ld") + sectors(f, "local_op_st"));
    if (!(less > CONFLICT_LEAST)) return false;
    tip->remedy = "let a thread use more registers (__launch_bounds__), keep fewer values alive, index arrays with "
                  "constants";
    tip->kernel_saved = saved_by_less(less, fmax(known(f->dram), known(f->l1)), f->wait_global);
    EVIDENCE(tip, "%.0f %% of the sectors that loads and stores touch are local memory", 100 * less);
    return true;
}

static bool rereads(const facts *f, mba_advice *tip)
{
    const double times = f->k->counted.dram_bytes / f->k->least.bytes;
    if (!(times > REREAD_LEAST) || !(f->dram > LIMITING)) return false;
    tip->remedy = "keep the operands in shared memory or registers, or order blocks so that L2 still has them";
    tip->kernel_saved = saved_by_less(1 - 1 / times, f->dram, 0);
    EVIDENCE(tip, "DRAM moves %.1f times the bytes of the operands", times);
    return true;
}

static bool few_bytes_left(const facts *f, mba_advice *tip)
{
    if (!(f->dram > LIMITING) || f->dram < f->busy) return false;
    tip->remedy = "only fewer bytes help: fuse with a neighbour, or store a smaller type";
    tip->kernel_saved = 1 - f->next / f->dram;
    EVIDENCE(tip, "DRAM is busy for %.0f %% of the time, the next unit for %.0f %%", 100 * f->dram, 100 * f->next);
    return true;
}

static bool bank_conflicts(const facts *f, mba_advice *tip)
{
    const double conflicts = mba_counter_value(f->k, "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum"),
                 waves = mba_counter_value(f->k, "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum"),
                 less = conflicts / waves;
    if (!(less > CONFLICT_LEAST)) return false;
    tip->remedy = "pad or swizzle the rows of shared memory";
    tip->kernel_saved = saved_by_less(fmin(less, 1), f->l1, f->wait_shared);
    EVIDENCE(tip, "%.0f %% of the wavefronts of shared memory are bank conflicts", 100 * less);
    return true;
}

/* ---- the launch ---- */

static double blocks_of(const mba_row_kernel *r)
{
    return r->grid_x == MBA_ABSENT ? NAN : (double)r->grid_x * (double)r->grid_y * (double)r->grid_z;
}

static bool small_grid(const facts *f, mba_advice *tip)
{
    const double blocks = blocks_of(f->k->row);
    if (!(blocks < f->a->sms)) return false;
    tip->remedy = "use more, smaller blocks, or split the sum over blocks";
    tip->kernel_saved = 1 - blocks / f->a->sms;
    EVIDENCE(tip, "%.0f blocks use %.0f of %.0f SMs", blocks, blocks, f->a->sms);
    return true;
}

/* Blocks that do not fill the last wave, and blocks that take unequally long. */
static bool tail(const facts *f, mba_advice *tip)
{
    const double waves = f->k->row->waves, idle = 1 - f->active;
    if (!(waves > 1) || !(idle > LEAST_SAVED) || blocks_of(f->k->row) < f->a->sms) return false;
    const double last = 1 - waves / ceil(waves);
    tip->remedy = "choose a grid of whole waves, a persistent loop over tiles, or smaller blocks";
    tip->kernel_saved = idle;
    EVIDENCE(tip, "SMs are idle for %.0f %% of the time: %.2f waves, a last wave that is %s", 100 * idle, waves,
             last > 0.01 ? "not full" : "full, of blocks that take unequally long");
    return true;
}

static bool low_occupancy(const facts *f, mba_advice *tip)
{
    const double occupancy = part(f->k->counted.occupancy_pct), limit = part(f->k->row->occupancy_limit);
    if (!(occupancy < OCCUPANCY_LOW) || !(limit < OCCUPANCY_LOW) || !(f->busy < LIMITING) || !(f->k->row->waves >= 1))
        return false;
    const char *known_by = mba_occupancy_limiter(f->a, f->k), *by = known_by ? known_by : "?";
    if (strstr(by, "grid")) return false; // no block waits for room
    tip->remedy = !strcmp(by, "registers and shared memory")
                      ? "use fewer registers and less shared memory: with one of them alone no further block fits"
                  : !strcmp(by, "registers")
                      ? "let threads use fewer registers (__launch_bounds__), or more work per thread"
                  : strstr(by, "shared") ? "use less shared memory per block, or more warps per block"
                                         : "use larger blocks: their number per SM is limited";
    tip->kernel_saved = fmin(1 - occupancy, 1 - f->busy) * fmax(known(f->wait_global), known(f->wait_shared));
    EVIDENCE(tip, "occupancy is %.0f %%, limited to %.0f %% by %s, and no unit is busy for more than %.0f %%",
             100 * occupancy, 100 * limit, by, 100 * f->busy);
    return true;
}

static bool launch_gap(const facts *f, mba_advice *tip)
{
    const double gap = f->k->gap_s - known(f->a->record_cost_s);
    if (!(gap > GAP_LEAST_S) || !(gap > 0.25 * f->k->median_s)) return false;
    tip->remedy = "launch ahead of time: CUDA graphs, fewer host synchronisations, input copies on a second stream";
    tip->kernel_saved = gap / (gap + f->k->median_s);
    EVIDENCE(tip, "the GPU is idle for %.1f us before each launch of %.1f us", 1e6 * gap, 1e6 * f->k->median_s);
    return true;
}

/* ---- the unit ---- */

/* A pipe limits the kernel if no unit is busier but the issue slots, by a little: its instructions take those too. */
static bool limited_by(const facts *f, mba_advice *tip, double unit, const char *name)
{
    const double other[] = { f->dram, f->l1, f->tensor, f->fma, f->alu, f->xu, f->fp64 };
    double       next = 0;
    if (!(unit > LIMITING) || unit < PIPE_OF_ISSUE * f->busy) return false;
    for (size_t i = 0; i < sizeof other / sizeof *other; i++)
        if (other[i] > unit) return false;
        else if (other[i] < unit && other[i] > next) next = other[i];
    tip->kernel_saved = 1 - next / unit;
    EVIDENCE(tip, "%s are busy for %.0f %% of the time, the next unit for %.0f %%", name, 100 * unit, 100 * next);
    return true;
}

/* Conversions between double and float run on the special function units, and keep them busier than the FP64 pipes. */
static bool double_precision(const facts *f, mba_advice *tip)
{
    tip->remedy = "compute in fp32: look for constants without f and for double functions";
    if (limited_by(f, tip, f->fp64, "FP64 pipes")) return true;
    return f->fp64 > 0.05 && limited_by(f, tip, f->xu, "special function units, which convert doubles,");
}

static bool special_functions(const facts *f, mba_advice *tip)
{
    tip->remedy = "compute part of the exponentials by polynomials on FMA pipes, or avoid divisions and conversions";
    return limited_by(f, tip, f->xu, "special function units");
}

static bool integer_work(const facts *f, mba_advice *tip)
{
    tip->remedy = "take divisions and address arithmetic out of the loop; use 32-bit indices and powers of two";
    return limited_by(f, tip, f->alu, "ALU pipes");
}

static bool products_on_lanes(const facts *f, mba_advice *tip)
{
    tip->remedy = "if these are matrix products, compute them on tensor cores (bf16, or TF32 three times)";
    return !(f->tensor > 0.05) && limited_by(f, tip, f->fma, "FMA pipes");
}

static bool issue_slots(const facts *f, mba_advice *tip)
{
    tip->remedy = "use fewer instructions: wider loads, packed half types, more results per thread";
    if (!(f->issue > LIMITING) || f->issue < f->busy) return false;
    tip->kernel_saved = 1 - f->next / f->issue;
    EVIDENCE(tip, "issue slots are busy for %.0f %% of the time, the next unit for %.0f %%", 100 * f->issue,
             100 * f->next);
    return true;
}

/* The same instructions on wider data still take issue slots, which bound the gain. */
static bool shared_path(const facts *f, mba_advice *tip)
{
    tip->remedy = "keep more values in registers, or use wider accesses to shared memory";
    if (!limited_by(f, tip, f->l1, "L1/shared data paths")) return false;
    if (1 - f->issue / f->l1 < tip->kernel_saved) {
        tip->kernel_saved = fmax(0, 1 - f->issue / f->l1);
        EVIDENCE(tip, "L1/shared data paths are busy for %.0f %% of the time, issue slots for %.0f %%", 100 * f->l1,
                 100 * f->issue);
    }
    const size_t said = strlen(tip->evidence);
    if (isnan(mba_counter_value(f->k, "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum")))
        snprintf(tip->evidence + said, sizeof tip->evidence - said, "; bank conflicts were not counted");
    return true;
}

/* ---- latency: no unit is busy ---- */

static bool barriers(const facts *f, mba_advice *tip)
{
    const double limit = fmax(fmax(known(f->dram), known(f->tensor)), fmax(known(f->issue), known(f->fma)));
    if (!(f->wait_barrier > 0.25) || limit > LIMITING) return false;
    tip->remedy = "use fewer barriers: double buffers, warp-level exchange, or smaller blocks";
    tip->kernel_saved = f->wait_barrier * (1 - known(f->issue));
    EVIDENCE(tip, "%.0f %% of the stalled warps wait at a barrier", 100 * f->wait_barrier);
    return true;
}

static bool exposed_latency(const facts *f, mba_advice *tip)
{
    if (!(f->busy < LIMITING) || !(f->wait_global > 0.25)) return false;
    tip->remedy = "have more loads in flight: unroll, prefetch (cp.async, TMA), wider loads";
    tip->kernel_saved = f->wait_global * (1 - f->busy);
    EVIDENCE(tip, "%.0f %% of the stalled warps wait for global memory, and no unit is busy for more than %.0f %%",
             100 * f->wait_global, 100 * f->busy);
    return true;
}

static bool dependent_work(const facts *f, mba_advice *tip)
{
    const double waited = known(f->wait) + known(f->wait_shared);
    if (!(f->busy < LIMITING) || !(waited > 0.25)) return false;
    tip->remedy = "compute several independent results per thread, so that instructions do not wait for each other";
    tip->kernel_saved = fmin(1, waited) * (1 - f->busy);
    EVIDENCE(tip, "%.0f %% of the stalled warps wait for their last instruction", 100 * waited);
    return true;
}

/* ---- all of them ---- */

/* Causes first, then what is only said if no cause explains it. */
static const struct {
    const char *cause;
    bool (*applies)(const facts *f, mba_advice *tip);
    bool symptom;
} rules[] = {
    { "uncoalesced loads", uncoalesced_loads, false },
    { "uncoalesced stores", uncoalesced_stores, false },
    { "spills", spills, false },
    { "bank conflicts", bank_conflicts, false },
    { "small grid", small_grid, false },
    { "tail", tail, false },
    { "idle before launch", launch_gap, false },
    { "double precision", double_precision, false },
    { "rereads", rereads, false },
    { "barriers", barriers, false },
    { "low occupancy", low_occupancy, false },
    { "special functions", special_functions, true },
    { "integer work", integer_work, true },
    { "vector work", products_on_lanes, true },
    { "DRAM bandwidth", few_bytes_left, true },
    { "shared memory bandwidth", shared_path, true },
    { "issue slots", issue_slots, true },
    { "exposed latency", exposed_latency, true },
    { "dependent instructions", dependent_work, true },
};
enum { RULES = sizeof rules / sizeof *rules };

/* Keeps the list sorted by what the step saves; equal ones stay in the order of the rules. */
static int insert(mba_advice *list, int n, const mba_advice *tip)
{
    int at = n;
    while (at > 0 && list[at - 1].step_saved < tip->step_saved) list[at] = list[at - 1], at--;
    list[at] = *tip;
    return n + 1;
}

int mba_advice_of(const mba_analysis *a, const mba_kernel_view *k, mba_advice out[MBA_ADVICE_MAX])
{
    mba_advice   all[RULES];
    int          n = 0;
    bool         explained = false;
    const facts  f = facts_of(a, k);
    const double step_s = a->busy_s + known(a->idle_s), share = step_s > 0 ? k->step_s / step_s : NAN;
    for (int i = 0; i < RULES; i++) {
        mba_advice tip = { .cause = rules[i].cause };
        if ((rules[i].symptom && explained) || !rules[i].applies(&f, &tip)) continue;
        const bool gap = rules[i].applies == launch_gap;
        if (!gap) tip.kernel_saved = fmin(tip.kernel_saved, f.above_floor);
        if (!(tip.kernel_saved >= LEAST_SAVED)) continue;
        mba_assert(tip.kernel_saved <= 1 && tip.remedy && *tip.evidence);
        // A gap is beside the kernel's time: the part of both, of a step that has both.
        tip.step_saved = gap ? k->per_step * (k->gap_s - known(a->record_cost_s)) / step_s : tip.kernel_saved * share;
        explained |= tip.kernel_saved > 0.1;
        n = insert(all, n, &tip);
    }
    if (n > MBA_ADVICE_MAX) n = MBA_ADVICE_MAX;
    memcpy(out, all, (size_t)n * sizeof *all);
    return n;
}
