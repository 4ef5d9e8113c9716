// SPDX-License-Identifier: Apache-2.0
/* queueing.c -- see queueing.h: service demands per instruction, one step of mean value analysis, and the exception
 * for kernels with tensor work, whose blocks run in step. */
#include "sim/queueing.h"

#include <math.h>
#include <stdbool.h>

/* Stations of the network. Up to MMA each sub-partition has its own; from SHARED on all four share that of the SM (L2,
 * DRAM: the share of the SM). ASKING: the instruction queue of loads and stores. */
enum { ISSUE, ALU, FMA, XU, MMA, SHARED, ASKING, L2, DRAM, STATIONS, PARTITIONS = 4 };

/* Mean service demand of one instruction at each station, in cycles. */
static void demands_of(double each[STATIONS], const mba_sim_kernel *k, const mba_profiled_kernel *c, const mba_gpu *m)
{
    // Half of the FMA units multiply whole numbers (vendor's documents).
    static const double LANES = 32, WAVEFRONT = 128, SECTOR = 32, HALF = 2;
    const double       *n = c->n, *v = m->v, mma = v[MBA_GPU_mma16] * (k->mma_flops > 100 ? v[MBA_GPU_mma_sync] : 1),
                 active = c->grid < v[MBA_GPU_sm] ? c->grid : v[MBA_GPU_sm],
                 // Without that counter: wavefronts of shared memory, copies included, and of stores.
        fronts = isnan(n[MBA_N_LSU_WF]) ? n[MBA_N_SHARED_WF] + n[MBA_N_L2_WR] * SECTOR / WAVEFRONT : n[MBA_N_LSU_WF],
                 longer = 1 + (double)k->partial_stores / 256, // sectors that are alone in their line
        chip = v[MBA_GPU_clk] * active;                        // cycles of an SM for a byte at a GB/s of the chip
    each[ISSUE] = n[MBA_N_INST] * LANES / v[MBA_GPU_issue];
    each[ALU] = n[MBA_N_ALU] * LANES / v[MBA_GPU_alu];
    each[FMA] = fmax(n[MBA_N_FMA], HALF * n[MBA_N_HEAVY]) * LANES / v[MBA_GPU_fma];
    each[XU] = n[MBA_N_XU] * LANES / v[MBA_GPU_xu];
    each[MMA] = n[MBA_N_TENSOR] / mma;
    each[SHARED] = fronts * WAVEFRONT / v[MBA_GPU_smem_bw];
    each[ASKING] = n[MBA_N_LSU] * LANES / v[MBA_GPU_lsu];
    each[L2] = SECTOR * (n[MBA_N_L2_RD] / v[MBA_GPU_l2_rd] + n[MBA_N_L2_WR] * longer / v[MBA_GPU_l2_wr]) * chip;
    each[DRAM] = (n[MBA_N_DRAM_RD] + n[MBA_N_DRAM_WR]) / (v[MBA_GPU_hbm] * v[MBA_GPU_hbm_mix]) * chip;
    mba_assert(n[MBA_N_INST] > 0 && active > 0);
    for (int s = 0; s < STATIONS; s++) { // a counter that was not collected adds no demand
        each[s] *= (s < SHARED ? PARTITIONS : 1) / n[MBA_N_INST];
        if (!(each[s] > 0)) each[s] = 0;
    }
}

/* One step of mean value analysis: adds a warp, w in total. It waits at each station for the mean queue of w - 1 warps.
 * Service is deterministic, so the customer in service is half done. `alone`: cycles of an instruction without other
 * warps, service included. */
static void add_warp(double wait[STATIONS], double queue[STATIONS], double used[STATIONS], const double *each, double w,
                     double alone)
{
    double all = alone;
    for (int s = 0; s < STATIONS; s++) {
        wait[s] = each[s] * (s < SHARED ? 1 : PARTITIONS) * (queue[s] - used[s] / 2);
        all += wait[s];
    }
    for (int s = 0; s < STATIONS; s++) { // no station is more than fully used
        const double least = w * each[s] * (s < SHARED ? 1 : PARTITIONS);
        if (least <= all) continue;
        wait[s] += least - all;
        all = least;
    }
    for (int s = 0; s < STATIONS; s++) {
        queue[s] = w * (each[s] + wait[s]) / all;
        used[s] = w * each[s] / all;
        mba_debug_assert(!(queue[s] < 0) && !(used[s] < 0)); // NaN where a counter is missing
    }
}

/* Cycles per instruction of kernels with tensor work. Their blocks start together and stay in step, so they meet at the
 * same units at the same time. A block that waits for loads or is starting does not compete. Roles synchronise by rings
 * and are not in step with each other. */
static double beside_others(const mba_sim_kernel *k, const mba_profiled_kernel *c, double path, double together,
                            double waiting)
{
    enum { TURNS = 8 };
    const double one = path + (k->nroles > 1 ? 0 : fmax(0, c->n[MBA_N_STEP] - c->n[MBA_N_PATH])),
                 more = c->n[MBA_N_BESIDE] * (together - 1);
    double now = one + more;
    for (int i = 0; i < TURNS; i++) now = one + more * now / (now + waiting);
    return now;
}

double mba_sim_blocks_per_sm_mean(const mba_sim_kernel *k, const mba_profiled_kernel *c, const mba_gpu *m)
{
    const double blocks = ceil(c->grid / m->v[MBA_GPU_sm]), resident = (double)mba_sim_resident(k, m);
    mba_assert(blocks > 0 && resident > 0);
    return blocks / ceil(blocks / resident); // rounds are equally full
}

double mba_sim_queueing_cycles(const mba_sim_kernel *k, const mba_profiled_kernel *c, const mba_gpu *m, double together,
                               double path, double waiting)
{
    static const double MOST = 1e6;
    const double        step = c->n[MBA_N_STEP] - c->n[MBA_N_PATH], beside = (double)k->warps / PARTITIONS;
    const bool          in_step = step > 0 && beside > 1 && c->n[MBA_N_PRODUCTS] > 0;
    const double more = in_step ? beside : 1, alone = path + (in_step ? step : 0), customers = together * beside / more;
    double       each[STATIONS], wait[STATIONS], queue[STATIONS] = { 0 }, used[STATIONS] = { 0 }, now = alone;
    if (!(c->n[MBA_N_INST] > 0)) return path;
    if (c->n[MBA_N_PRODUCTS] > 0 && c->n[MBA_N_BESIDE] >= 0) return beside_others(k, c, path, together, waiting);
    demands_of(each, k, c, m);
    for (int s = 0; s < STATIONS; s++) each[s] *= more;
    for (int64_t n = 1; (double)n < customers + 1; n++) {
        const double before = now, w = (double)n;
        add_warp(wait, queue, used, each, w, alone + waiting);
        now = alone;
        for (int s = 0; s < L2; s++) now += wait[s];
        if (w > customers) now = before + (now - before) * (customers - (w - 1));
    }
    return now < MOST ? now : MOST;
}
