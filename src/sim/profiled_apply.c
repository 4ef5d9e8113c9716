// SPDX-License-Identifier: Apache-2.0
/* profiled_apply.c -- see profiled.h: turns hardware counters into a mba_sim_kernel.
 *
 * apply_counters() does it in three steps: set_order keeps the operations of the plan, or rebuilds those of a library
 * kernel; set_amounts scales work and bytes to the counters; set_waits sets the time that warps wait for each other
 * (queueing.h) and for loads. A counter that was not collected is NaN and leaves the plan's value. */
#include "sim/profiled.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "sim/queueing.h"
#include "sim/serialize.h"
#include "sim/sm.h"
#include "sim/vendor_gemm.h"

static const double SELDOM = 0.5; /* waits of the code for a load of the plan: by the fitted kernels */

/* Of the waits for loads of a warp with tensor work, the part in which the others of its block wait too: by open stores
 * of SSM kernels and by peers. */
static const double TOGETHER = 0.35;

static bool is_library(const mba_sim_kernel *k)
{
    return !strncmp(k->name, "cublas", 6) || !strncmp(k->name, "cudnn", 5);
}

/* mba_sim_kernel.mma_flops by the kernel's name, in which libraries state the architecture; sm_90 has products of warp
 * groups. */
static int64_t mma_rate_of(const mba_profiled_kernel *c)
{
    enum { OF_GROUPS = 16, OF_WARPS = 116 };
    if (!(c->n[MBA_N_TENSOR] > 0)) return 0;
    return strstr(c->kernel, "sm90_") || strstr(c->kernel, "warpgroup") ? OF_GROUPS : OF_WARPS;
}

/* Sets the work of a pipe to `wanted`, distributed over the mixes as the plan distributes it. If the plan has no work
 * for that pipe, it is distributed as tensor work or issue slots are. Plans of library GEMMs have only tensor work. */
static void set_pipe(mba_sim_kernel *k, int pipe, double wanted)
{
    mba_assert(pipe >= 0 && pipe < MBA_PIPES);
    const bool   library = !strcmp(k->name, "cublaslt_gemm");
    const int    by = k->total[pipe] > 0 && (!library || pipe == MBA_P_MMA) ? pipe
                      : k->total[MBA_P_MMA] > 0                             ? MBA_P_MMA
                                                                            : MBA_P_ISSUE;
    const double from = k->total[by];
    if (isnan(wanted) || !(from > 0)) return;
    for (int64_t i = 0; i < k->nops; i++) {
        mba_sim_op *o = &k->op[i];
        o->n[pipe] = o->work == MBA_OP_MIX ? (uint64_t)((double)o->n[by] * wanted / from + 0.5) : 0;
    }
}

/* Scales the bytes of all read or write streams to `wanted` in total. */
static void set_bytes(mba_sim_kernel *k, bool writes, double wanted)
{
    double moved = 0;
    for (int64_t s = 0; s < k->nstreams; s++)
        if (k->stream[s].writes == writes) moved += k->stream[s].moved;
    if (isnan(wanted) || !(moved > 0)) return;
    for (int64_t i = 0; i < k->nops; i++) {
        mba_sim_op *o = &k->op[i];
        if (o->stream < 0 || k->stream[o->stream].writes != writes) continue;
        const double bytes = (double)o->bytes * wanted / moved;
        o->bytes = bytes > 1 ? (uint64_t)(bytes + 0.5) : 1;
    }
    for (int64_t s = 0; s < k->nstreams; s++)
        if (k->stream[s].writes == writes) k->stream[s].unique *= wanted / moved;
}

/* Sets the hit rate of all read or write streams so that `dram` bytes reach DRAM. */
static void set_hits(mba_sim_kernel *k, bool writes, double dram)
{
    double moved = 0;
    for (int64_t s = 0; s < k->nstreams; s++)
        if (k->stream[s].writes == writes) moved += k->stream[s].moved;
    if (isnan(dram) || !(moved > 0)) return;
    mba_assert(dram >= 0);
    const double hit = dram < moved ? 1 - dram / moved : 0;
    for (int64_t s = 0; s < k->nstreams; s++)
        if (k->stream[s].writes == writes) k->stream[s].hit = (int64_t)(256 * hit + 0.5);
}

/* Sets the least time of every mix: each warp executes its instructions in sequence, `cycles` per instruction. */
static void set_path(mba_sim_kernel *k, double cycles)
{
    const double busiest = k->busiest ? (double)k->busiest / 256 : 1; // warps wait for the busiest one at barriers
    for (int64_t r = 0, i = 0; i < k->nops; i++) {
        while (r + 1 < k->nroles && k->first[r + 1] <= i) r++;
        mba_sim_op *o = &k->op[i];
        if (o->work == MBA_OP_MIX && !isnan(cycles))
            o->trips = (int64_t)(cycles * busiest * (double)o->n[MBA_P_ISSUE] / 32 / (double)k->role_warps[r] + 0.5);
    }
}

/* Trips of a loop, averaged over the classes of blocks, at least 1. */
static double mean_trips(const mba_sim_kernel *k, const mba_sim_op *o)
{
    double sum = 0, blocks = 0;
    if (o->trips >= 0) return o->trips > 0 ? (double)o->trips : 1;
    for (int64_t i = 0; i < k->nclasses; i++) {
        sum += (double)k->count[i] * (double)k->trips[i][-1 - o->trips];
        blocks += (double)k->count[i];
    }
    return sum > blocks ? sum / blocks : 1;
}

/* Executions of operations of one kind in [from, to) per block, loops multiplied out; of mixes, their issue slots. */
static double sum_over(const mba_sim_kernel *k, mba_sim_work work, int64_t from, int64_t to)
{
    mba_assert(from >= 0 && to <= k->nops);
    double sum = 0, times[MBA_SIM_LOOPS + 1] = { 1 };
    int    depth = 0;
    for (int64_t i = from; i < to; i++) {
        const mba_sim_op *o = &k->op[i];
        if (o->work == MBA_OP_LOOP) times[depth + 1] = times[depth] * mean_trips(k, o), depth++;
        if (o->work == MBA_OP_END) depth--;
        if (o->work == (int32_t)work) sum += times[depth] * (work == MBA_OP_MIX ? (double)o->n[MBA_P_ISSUE] : 1);
    }
    return sum;
}

static double loads_of(const mba_sim_kernel *k) { return sum_over(k, MBA_OP_LOAD, 0, k->nops); }

static double issued_by(const mba_sim_kernel *k, int64_t role)
{
    return sum_over(k, MBA_OP_MIX, k->first[role], role + 1 < k->nroles ? k->first[role + 1] : k->nops);
}

/* Turns loads in loops into copies one trip ahead: code that waits less often than the plan loads prefetches. */
static void load_early(mba_sim_kernel *k)
{
    int depth = 0;
    for (int64_t i = 0; i < k->nops; i++)
        if (k->depth < 2 && k->op[i].work >= MBA_OP_FILL && k->op[i].work <= MBA_OP_RELEASE) return;
    for (int64_t i = 0; i < k->nops; i++) {
        mba_sim_op *o = &k->op[i];
        depth += (o->work == MBA_OP_LOOP) - (o->work == MBA_OP_END);
        if (o->work != MBA_OP_LOAD || !depth) continue;
        o->work = MBA_OP_ASYNC;
        o->ahead = 1;
        if (k->depth < 2) k->depth = 2;
    }
}

/* Makes a load wait `times` times in sequence; the fractional rest is added as cycles. */
static void wait_for(mba_sim_op *o, double times, double cycles)
{
    const double whole = times < 1 ? 1 : floor(times);
    o->parts = (int64_t)whole;
    o->trips = times > whole ? (int64_t)((times - whole) * cycles + 0.5) : 0;
}

static bool has(const mba_sim_kernel *k, mba_sim_work work)
{
    for (int64_t i = 0; i < k->nops; i++)
        if (k->op[i].work == (int32_t)work) return true;
    return false;
}

/* Distributes the waits for global loads: a warp waits `rounds` times, `cycles` each. They go into the loop that
 * lowering added, else to the loads of the plan, else, without loads, to the start of a block. `copied`: the counters
 * saw no asynchronous copies, so the plan's copies are plain loads and the first of their waits already counts. */
static void set_rounds(mba_sim_kernel *k, double rounds, double cycles, bool copied)
{
    mba_assert(cycles >= 0 || isnan(cycles));
    const double loads = loads_of(k);
    if (isnan(rounds)) return;
    const int64_t whole = rounds < 1 ? 1 : (int64_t)rounds;
    if (k->implied_trips > 1) {
        const double part = (double)k->implied_trips / (double)whole;
        for (int64_t i = 0; i < k->nops; i++) {
            mba_sim_op *o = &k->op[i];
            if (o->work == MBA_OP_LOOP) o->trips = whole;
            o->bytes = (uint64_t)((double)o->bytes * part + 0.5);
            if (o->work == MBA_OP_MIX) o->trips = (int64_t)((double)o->trips * part + 0.5);
            for (int p = 0; p < MBA_PIPES; p++) o->n[p] = (uint64_t)((double)o->n[p] * part + 0.5);
            if (o->work == MBA_OP_LOAD) wait_for(o, rounds / (double)whole, cycles);
        }
        k->implied_trips = whole;
    } else if (loads > 0) {
        const double each = rounds / loads;
        if (each < SELDOM) load_early(k);
        for (int64_t i = 0; i < k->nops; i++)
            if (k->op[i].work == MBA_OP_LOAD) wait_for(&k->op[i], each, cycles);
    } else {
        const double more = copied && has(k, MBA_OP_ASYNC) ? fmax(0, rounds - 1) : rounds;
        for (int64_t i = 0; i < k->nops; i++)
            if (k->op[i].work == MBA_OP_DELAY) k->op[i].parts += (int64_t)(more * cycles);
    }
}

/* Cycles of the longest chain of blocks, or 0 if blocks are alike. The busiest sub-partition shows by how much: it
 * executed more instructions than equal blocks would. If each block has warps in all four sub-partitions, the excess
 * belongs to one of the blocks that ran together; if blocks are smaller, to the same warp of each. The chain takes
 * `among` cycles per round of blocks; the excess runs when the others have ended, at the pace of a block `alone`. */
static int64_t longest_of(const mba_sim_kernel *k, const mba_profiled_kernel *c, const mba_gpu *m, double among,
                          double alone)
{
    enum { PARTITIONS = 4 };
    static const double ALIKE = 1.1, MOST = 1e12;
    const double        blocks = ceil(c->grid / m->v[MBA_GPU_sm]), resident = (double)mba_sim_resident(k, m),
                 beside = k->warps < PARTITIONS ? 1
                          : blocks < resident   ? blocks
                                                : resident;
    mba_assert(resident > 0 && c->grid >= 1);
    const double share = ceil(blocks * (double)k->warps / PARTITIONS) * c->n[MBA_N_INST] / c->grid / (double)k->warps;
    const double excess = c->n[MBA_N_MOST] / share;
    if (isnan(excess) || isnan(among) || excess < ALIKE) return 0;
    return (int64_t)fmin(MOST, among * ceil(blocks / resident) + alone * (excess - 1) * beside);
}

/* Adds cycles at the end of a block, when most of its warps have ended. */
static void set_tail(mba_sim_kernel *k, double cycles)
{
    if (k->nops == MBA_SIM_OPS || k->nroles != 1 || k->op[k->nops - 1].work != MBA_OP_EXIT) return;
    k->op[k->nops] = k->op[k->nops - 1];
    k->op[k->nops - 1] = (mba_sim_op){ .work = MBA_OP_DELAY, .stream = -1, .ring = -1, .parts = 1 + (int64_t)cycles };
    k->nops++;
}

/* Makes every store wait until it is in L2, as a fence does, and adds the cycles behind the fence. */
static void wait_for_stores(mba_sim_kernel *k, double cycles)
{
    for (int64_t i = 0; i < k->nops; i++)
        if (k->op[i].work == MBA_OP_STORE) k->op[i].trips = 1;
    set_tail(k, cycles);
}

/* Builds a kernel without a plan: blocks as they were launched, a loop with a copy STAGES - 1 trips ahead and a mix,
 * then a store. The amounts are weights that set_amounts replaces. */
static void rebuild(mba_sim_kernel *k, const mba_profiled_kernel *c)
{
    enum { STAGES = 3, BYTES_A_THREAD = 64, BYTES_LEAST = 4096 };
    mba_assert(c->grid >= 1 && c->block >= 1);
    const double in = fmax(0, fmax(32 * c->n[MBA_N_L2_RD], c->n[MBA_N_DRAM_RD])) / c->grid, // NaN counts as 0
        out = fmax(0, fmax(32 * c->n[MBA_N_L2_WR], c->n[MBA_N_DRAM_WR])) / c->grid;
    const double held = fmax(BYTES_LEAST, BYTES_A_THREAD * c->block),
                 stage = c->smem_bytes > 16384 ? c->smem_bytes / STAGES : held;
    const mba_sim_op op = { .stream = -1, .ring = -1, .parts = 1 };
    k->grid = (int64_t)c->grid;
    k->threads = (int64_t)c->block;
    k->warps = mba_ceil(k->threads, 32);
    k->nroles = 1;
    k->first[0] = 0;
    k->role_warps[0] = k->warps;
    k->nclasses = 0;
    k->tile_share = 0;
    k->implied_trips = 1;
    k->depth = STAGES;
    k->nstreams = 2;
    k->stream[0] = (mba_sim_stream){ .operand = -1 };
    k->stream[1] = (mba_sim_stream){ .operand = -1, .writes = 1 };
    for (k->nops = 0; k->nops < 7; k->nops++) k->op[k->nops] = op;
    k->op[0].work = MBA_OP_DELAY;
    k->op[1].work = MBA_OP_LOOP;
    k->op[1].trips = in > stage ? (int64_t)ceil(in / stage) : 1;
    k->op[2].work = MBA_OP_ASYNC;
    k->op[2].stream = 0;
    k->op[2].ahead = STAGES - 1;
    k->op[2].bytes = (uint64_t)(in / (double)k->op[1].trips) + 1;
    k->op[3].work = MBA_OP_MIX;
    k->op[3].n[MBA_P_ALU] = 1 << 20; // a weight
    if (c->n[MBA_N_TENSOR] > 0) k->op[3].n[MBA_P_MMA] = 1 << 20;
    k->op[4].work = MBA_OP_END;
    k->op[5].work = MBA_OP_STORE;
    k->op[5].stream = 1;
    k->op[5].bytes = (uint64_t)out + 1;
    k->op[6].work = MBA_OP_EXIT;
    if (k->mma_flops == 16) k->mma_flops = mma_rate_of(c);
}

/* Distributes the work of two roles in proportion to their warps if there is no tensor work: plans state the division
 * only roughly, and the instructions of the busiest sub-partition show equal warps. */
static void level_roles(mba_sim_kernel *k)
{
    double of[MBA_SIM_ROLES] = { 0 }, all = 0, warps = 0;
    if (k->nroles != 2 || k->total[MBA_P_MMA] > 0) return;
    for (int64_t r = 0; r < k->nroles; r++) {
        of[r] = issued_by(k, r);
        all += of[r];
        warps += (double)k->role_warps[r];
        if (!(of[r] > 0)) return;
    }
    for (int64_t r = 0, i = 0; i < k->nops; i++) {
        while (r + 1 < k->nroles && k->first[r + 1] <= i) r++;
        const double part = all * (double)k->role_warps[r] / warps / of[r];
        for (int p = 0; p < MBA_PIPES; p++) k->op[i].n[p] = (uint64_t)((double)k->op[i].n[p] * part + 0.5);
    }
}

/* L1 hit rate of global loads. */
static double in_l1(const mba_profiled_kernel *c)
{
    const double asked = c->n[MBA_N_L1_LD], passed = c->n[MBA_N_L2_RD];
    return asked > passed ? 1 - passed / asked : 0;
}

/* DRAM reads without those of code and constants. */
static double data_read(const mba_profiled_kernel *c)
{
    enum { CONSTANTS = 4096, INSTRUCTION = 16 };
    const double code = CONSTANTS + (c->n[MBA_N_CODE] > 0 ? INSTRUCTION * c->n[MBA_N_CODE] : 0);
    return c->n[MBA_N_DRAM_RD] < code ? 0 : c->n[MBA_N_DRAM_RD] - code; // NaN stays NaN
}

/* Who reads anything that has left L2 waits longer once. What stands for the code of kernels whose SASS is not known
 * (path_vector, path_tensor, library_start) has it within. What it is is not known: addresses alone are not it, a
 * page's first word takes some 60 cycles more than another line of it (tools/warp_costs.cu). */
static double first_far(const mba_profiled_kernel *c, const mba_gpu *m)
{
    const double far = data_read(c);
    return far > 0 ? m->v[MBA_GPU_first_miss] * far / (far + 1024 * m->v[MBA_GPU_first_miss_kb]) : 0;
}

/* Mean latency in cycles of a load that a warp waits for: it spans four lines, and one L2 miss is enough. */
static double latency_of(const mba_profiled_kernel *c, const mba_gpu *m)
{
    const double read = 32 * c->n[MBA_N_L2_RD], far = data_read(c), hit = far < read ? 1 - far / read : 0;
    return m->v[MBA_GPU_l2_lat] + (m->v[MBA_GPU_hbm_lat] - m->v[MBA_GPU_l2_lat]) * (1 - hit * hit * hit * hit);
}

/* Turns the copies of rebuild() into loads that a warp waits for, as often as its code does, if the counters saw no
 * asynchronous copies. Not for kernels with tensor work, which may copy by TMA, which is not counted; and not without
 * SASS, which says how often the code waits. */
static void load_as_it_waits(mba_sim_kernel *k, const mba_profiled_kernel *c)
{
    const double rounds = floor(c->n[MBA_N_GLOBAL_LD] * c->n[MBA_N_WAITS] / c->grid / (double)k->warps
                                * (1 - in_l1(c)));
    if (rounds < 2 || c->n[MBA_N_LDGSTS] != 0 || c->n[MBA_N_TENSOR] > 0 || !(c->n[MBA_N_CODE] > 0)) return;
    const double bytes = (double)k->op[2].bytes * (double)k->op[1].trips;
    k->op[1].trips = (int64_t)rounds;
    k->op[2].work = MBA_OP_LOAD;
    k->op[2].ahead = 0;
    k->op[2].bytes = (uint64_t)(bytes / (double)k->op[1].trips) + 1;
}

/* Gives a library GEMM the number of blocks of its launch and divides the steps among them. */
static void deal_blocks(mba_sim_kernel *k, int64_t blocks)
{
    mba_assert(blocks > 0);
    const double part = (double)k->grid / (double)blocks;
    for (int64_t i = 0; i < k->nops; i++)
        if (k->op[i].work == MBA_OP_LOOP && k->op[i].trips > 0)
            k->op[i].trips = (double)k->op[i].trips * part > 1 ? (int64_t)((double)k->op[i].trips * part + 0.5) : 1;
    k->grid = blocks;
}

/* Adds a mix behind the last load of a plan that has no arithmetic, to take the counted instructions. */
static void give_work(mba_sim_kernel *k)
{
    int64_t at = k->nops - 1;
    if (k->total[MBA_P_ISSUE] > 0 || k->total[MBA_P_MMA] > 0 || k->nops == MBA_SIM_OPS || k->nroles != 1) return;
    for (int64_t i = 0; i < k->nops; i++)
        if (k->op[i].work == MBA_OP_LOAD || k->op[i].work == MBA_OP_ASYNC) at = i + 1;
    for (int64_t i = k->nops++; i > at; i--) k->op[i] = k->op[i - 1];
    k->op[at] = (mba_sim_op){ .work = MBA_OP_MIX, .stream = -1, .ring = -1, .parts = 1 };
    mba_assert(k->nops <= MBA_SIM_OPS);
    k->op[at].n[MBA_P_ALU] = 1 << 20; // a weight: set_amounts replaces it
}

/* Sets the order of work: that of the plan, or of a library kernel by its name and launch geometry. */
static mba_status set_order(mba_sim_kernel *k, const mba_profiled_kernel *c, const mba_gpu *m)
{
    mba_vendor_gemm_tile tile;
    k->regs = (int64_t)c->regs;
    k->smem_bytes = (int64_t)c->smem_bytes;
    if (is_library(k)) {
        if (mba_vendor_gemm_tile_of(&tile, c)) mba_vendor_gemm_lower(k, c, &tile, m);
        else if (strncmp(c->kernel, "nvjet", 5)) rebuild(k, c);
        else deal_blocks(k, (int64_t)c->grid);
        MBA_TRY(mba_sim_finish(k, m));
    }
    give_work(k);
    MBA_TRY(mba_sim_finish(k, m));
    level_roles(k);
    return mba_sim_finish(k, m);
}

/* The share, 0 to 1, of written sectors that are written only in part, at the ends of runs of bytes. With a plan: bytes
 * that it stores against sectors counted, half a sector missing each. Else: sectors per store request beyond the 16
 * that 32 lanes of 16 bytes fill. Not for kernels with tensor work, which may store by TMA without a request. */
static double partly_written(const mba_sim_kernel *k, const mba_profiled_kernel *c, bool planned)
{
    enum { SECTOR = 32, FULL = 16, LANES = 32 };
    const double sectors = c->n[MBA_N_L2_WR], each = sectors / c->n[MBA_N_GLOBAL_ST];
    double       stored = 0;
    for (int64_t s = 0; s < k->nstreams; s++)
        if (k->stream[s].writes) stored += k->stream[s].moved;
    const double missing = 2 * (1 - stored / (SECTOR * sectors)), beyond = (each - FULL) / (LANES - FULL);
    const bool   vector = !(c->n[MBA_N_TENSOR] > 0) && !(c->n[MBA_N_PRODUCTS] > 0);
    const double part = planned && !is_library(k) ? missing : vector ? beyond : 0;
    return sectors > 0 && part > 0 ? fmin(1, part) : 0;
}

/* How much: of every pipe, of L2, and what leaves it. */
static void set_amounts(mba_sim_kernel *k, const mba_profiled_kernel *c, const mba_gpu *m, bool planned)
{
    enum { LANES = 32, WAVEFRONT = 128, SECTOR = 32, HALF = 2 };
    const double *n = c->n, added = n[MBA_N_L2_SUM] > 0 ? m->v[MBA_GPU_l2_reduce] * SECTOR * n[MBA_N_L2_SUM] : 0,
                 stored = SECTOR * n[MBA_N_L2_WR] + added;
    set_pipe(k, MBA_P_ALU, LANES * n[MBA_N_ALU]);
    set_pipe(k, MBA_P_XU, LANES * n[MBA_N_XU]);
    set_pipe(k, MBA_P_FMA, LANES * fmax(n[MBA_N_FMA], HALF * n[MBA_N_HEAVY]));
    if (!isnan(n[MBA_N_FMA])) set_pipe(k, MBA_P_H2, 0);      // packed half operations are counted in the FMA pipe
    set_pipe(k, MBA_P_SMEM, WAVEFRONT * n[MBA_N_SHARED_WF]); // includes the reads of tensor cores
    set_pipe(k, MBA_P_ISSUE, LANES * n[MBA_N_INST]);
    if (n[MBA_N_TENSOR] > 0) set_pipe(k, MBA_P_MMA, n[MBA_N_TENSOR]); // last: others go by it
    k->partial_stores = 0;
    if (stored > 0) // sums in L2 are no parts of sectors: their cost has its own constant
        k->partial_stores = (int64_t)(256 * m->v[MBA_GPU_l2_alone] * partly_written(k, c, planned) * SECTOR
                                          * n[MBA_N_L2_WR] / stored
                                      + 0.5);
    set_bytes(k, false, fmax(SECTOR * n[MBA_N_L2_RD], data_read(c)));
    set_bytes(k, true, stored);
    k->wavefronts = (int64_t)fmax(0, fmax(n[MBA_N_LSU_WF], n[MBA_N_SHARED_WF])); // NaN counts as 0
    k->requests = (int64_t)fmax(0, n[MBA_N_LSU]);
    k->evicts = n[MBA_N_DRAM_WR] > stored ? (int64_t)(n[MBA_N_DRAM_WR] - stored) : 0;
}

/* Sets the times: of instructions among the other warps, of waits for loads, of the start of the launch and of the end
 * of blocks. Kernels that take most of the shared memory start as late as those of libraries, which all do. */
static void set_waits(mba_sim_kernel *k, const mba_profiled_kernel *c, const mba_gpu *m)
{
    const double *n = c->n, warps = c->grid * ceil(c->block / 32), each = n[MBA_N_INST] / warps,
                 all = n[MBA_N_GLOBAL_LD] * n[MBA_N_WAITS] / warps,
                 waits = n[MBA_N_PRODUCTS] > 0 ? TOGETHER * all : all, near = in_l1(c), rounds = waits * (1 - near),
                 waiting = rounds > 0 ? rounds * latency_of(c, m) / each : 0,
                 alone = n[MBA_N_PATH] + near * waits * m->v[MBA_GPU_l1_lat] / each,
                 start = m->v[MBA_GPU_block_start] + m->v[MBA_GPU_block_start_warp] * (double)k->warps
                         + m->v[MBA_GPU_block_exit],
                 once = rounds > 0 && rounds < 1 ? (1 - rounds) * latency_of(c, m) / each : 0,
                 away = waiting + once
                        + (c->grid > (double)mba_sim_resident(k, m) * m->v[MBA_GPU_sm] ? start / each : 0),
                 // A warp that waits for the busiest one at a barrier does not compete for units.
        working = mba_sim_blocks_per_sm_mean(k, c, m) / (k->busiest ? (double)k->busiest / 256 : 1),
                 path = isnan(n[MBA_N_PATH]) ? NAN : mba_sim_queueing_cycles(k, c, m, working, alone, away),
                 lone = isnan(path) ? m->v[MBA_GPU_path_vector] : mba_sim_queueing_cycles(k, c, m, 1, alone, waiting),
                 tail = n[MBA_N_TAIL] + n[MBA_N_TAIL_WAITS] * latency_of(c, m),
                 moved = 32 * (fmax(0, n[MBA_N_L2_RD]) + fmax(0, n[MBA_N_L2_WR])); // NaN counts as 0
    set_path(k, path);
    for (int64_t i = 0; i < k->nops; i++) // what stands for code that plans do not count is counted now
        if (k->op[i].work == MBA_OP_DELAY) k->op[i].parts = is_library(k) ? (int64_t)m->v[MBA_GPU_library_start] : 1;
    set_rounds(k, rounds, latency_of(c, m), n[MBA_N_LDGSTS] == 0);
    k->fetch = mba_sim_fetch(c->grid, n[MBA_N_CODE] < each ? n[MBA_N_CODE] : each, moved, data_read(c), m);
    if (n[MBA_N_CODE] > 0) k->fetch += (int64_t)first_far(c, m);
    if (!is_library(k) && 2 * c->smem_bytes > 1024 * m->v[MBA_GPU_smem_sm])
        k->fetch += (int64_t)m->v[MBA_GPU_library_start];
    k->longest = longest_of(k, c, m, each * ((isnan(path) ? m->v[MBA_GPU_path_vector] : path) + waiting),
                            each * (lone + waiting));
    if (n[MBA_N_BEHIND] > 0) wait_for_stores(k, n[MBA_N_BEHIND]);
    else if (n[MBA_N_TAIL] > 0) // no more than a warp can have done of what its block was counted to do
        set_tail(k, m->v[MBA_GPU_tail_taken] * fmin(each * (double)k->warps, tail));
}

static void apply_counters(mba_sim_kernel *k, const mba_profiled_kernel *counters, const mba_gpu *m, bool planned)
{
    const mba_sim_kernel was = *k;
    mba_profiled_kernel  here = *counters, *c = &here;
    mba_status           st = set_order(k, c, m);
    if (st == MBA_OK) {
        const double blocks = fmin(ceil(c->grid / m->v[MBA_GPU_sm]), (double)mba_sim_resident(k, m));
        mba_sm_react(c, m, (int)k->warps, (int)blocks);
        set_amounts(k, c, m, planned);
        set_waits(k, c, m);
        k->counted = 1;
        k->uses_tensor = c->n[MBA_N_TENSOR] > 0 || c->n[MBA_N_PRODUCTS] > 0;
        st = mba_sim_finish(k, m);
    }
    if (st != MBA_OK) { // counters that no kernel of this machine can have: keep the plan
        *k = was;
        return;
    }
    set_hits(k, false, data_read(c));
    mba_assert(k->evicts >= 0);
    set_hits(k, true, c->n[MBA_N_DRAM_WR] - (double)k->evicts);
}

void mba_profiled_apply(mba_sim_kernel *k, const mba_profiled_kernel *c, const mba_gpu *m)
{
    apply_counters(k, c, m, true);
}

bool mba_profiled_complete(const mba_profiled_kernel *c)
{
    return c->n[MBA_N_INST] > 0 && c->n[MBA_N_GLOBAL_LD] >= 0 && c->n[MBA_N_DRAM_RD] >= 0;
}

void mba_profiled_drop_sass(mba_profiled_kernel *c)
{
    for (int k = MBA_N_CODE; k < MBA_N_KINDS; k++) c->n[k] = NAN;
}

/* The plan of another launch of the kernel, with the blocks and trips of this one. */
static mba_status lower_like(mba_sim_kernel *k, const mba_profiled_kernel *c, const mba_gpu *m)
{
    MBA_TRY(mba_sim_kernel_parse(k, c->program, m));
    k->grid = (int64_t)fmax(1, (double)k->grid * c->like_blocks + 0.5);
    for (int64_t i = 0; i < k->nclasses; i++) {
        k->count[i] = (int64_t)fmax(1, (double)k->count[i] * c->like_blocks + 0.5);
        for (int t = 0; t < 2; t++) k->trips[i][t] = (int64_t)((double)k->trips[i][t] * c->like_trips + 0.5);
    }
    for (int64_t i = 0, depth = 0; i < k->nops; i++) {
        mba_sim_op *o = &k->op[i];
        depth -= o->work == MBA_OP_END;
        if (o->work == MBA_OP_LOOP && depth++ == 0 && o->trips > 0)
            o->trips = (int64_t)fmax(1, (double)o->trips * c->like_trips + 0.5);
    }
    if (k->implied_trips > 1) k->implied_trips = (int64_t)fmax(1, (double)k->implied_trips * c->like_trips + 0.5);
    MBA_TRY(mba_sim_finish(k, m));
    apply_counters(k, c, m, true);
    return MBA_OK;
}

mba_status mba_profiled_lower(mba_sim_kernel *k, const mba_profiled_kernel *c, const mba_gpu *m)
{
    mba_profiled_kernel all = *c;
    if (!mba_profiled_complete(c))
        return mba_fail(MBA_E_UNSUPPORTED,
                        "%.63s cannot be simulated from its counters\nwhy: its instructions, loads or DRAM bytes "
                        "were not counted\nfix: mambascope profile with --metric-sets roofline,cache,signature",
                        c->kernel);
    if (c->like_trips > 0 && lower_like(k, c, m) == MBA_OK && k->counted) return MBA_OK;
    memset(k, 0, sizeof *k);
    snprintf(k->name, sizeof k->name, "%.63s", c->kernel);
    k->mma_flops = mma_rate_of(c);
    k->regs = (int64_t)c->regs;
    k->smem_bytes = (int64_t)c->smem_bytes;
    const bool products = c->n[MBA_N_TENSOR] > 0;
    if (isnan(all.n[MBA_N_PATH])) all.n[MBA_N_PATH] = m->v[products ? MBA_GPU_path_tensor : MBA_GPU_path_vector];
    if (isnan(all.n[MBA_N_WAITS])) all.n[MBA_N_WAITS] = m->v[products ? MBA_GPU_waits_tensor : MBA_GPU_waits_vector];
    if (isnan(all.n[MBA_N_ALU])) all.n[MBA_N_ALU] = 0; // issued all the same
    rebuild(k, &all);
    load_as_it_waits(k, &all);
    MBA_TRY(mba_sim_finish(k, m));
    apply_counters(k, &all, m, false);
    return MBA_OK;
}
