// SPDX-License-Identifier: Apache-2.0
/* queueing.c -- see queueing.h. */
#include "sim/queueing.h"

#include <math.h>
#include <stdbool.h>

/* What warps of a sub-partition queue for: its scheduler and pipes, and with those of the other three the SM's shared
 * memory and its share of L2 and DRAM. */
enum { ISSUE, ALU, FMA, XU, MMA, SHARED, ASKING, L2, DRAM, STATIONS, PARTITIONS = 4 };

/* Cycles that an instruction takes of each, on average. */
static void demands_of(double each[STATIONS], const mba_sim_kernel *k, const mba_profiled_kernel *c, const mba_gpu *m)
{
    // Half of the FMA units multiply whole numbers (vendor's documents).
    static const double LANES = 32, WAVEFRONT = 128, SECTOR = 32, HALF = 2;
    const double       *n = c->n, *v = m->v, mma = v[MBA_GPU_mma16] * (k->mma_flops > 100 ? v[MBA_GPU_mma_sync] : 1),
                 active = c->grid < v[MBA_GPU_sm] ? c->grid : v[MBA_GPU_sm],
                 // Where nobody counted all of them: those of shared memory, copies among them, and what is stored.
        fronts = isnan(n[MBA_N_LSU_WF]) ? n[MBA_N_SHARED_WF] + n[MBA_N_L2_WR] * SECTOR / WAVEFRONT : n[MBA_N_LSU_WF],
                 longer = 1 + (double)k->partly / 256, // sectors that come alone of their line
        chip = v[MBA_GPU_clk] * active;                // cycles of an SM for a byte at a GB/s of the chip
    each[ISSUE] = n[MBA_N_INST] * LANES / v[MBA_GPU_issue];
    each[ALU] = n[MBA_N_ALU] * LANES / v[MBA_GPU_alu];
    each[FMA] = fmax(n[MBA_N_FMA], HALF * n[MBA_N_HEAVY]) * LANES / v[MBA_GPU_fma];
    each[XU] = n[MBA_N_XU] * LANES / v[MBA_GPU_xu];
    each[MMA] = n[MBA_N_TENSOR] / mma;
    each[SHARED] = fronts * WAVEFRONT / v[MBA_GPU_smem_bw];
    each[ASKING] = n[MBA_N_LSU] * LANES / v[MBA_GPU_lsu];
    each[L2] = SECTOR * (n[MBA_N_L2_RD] / v[MBA_GPU_l2_rd] + n[MBA_N_L2_WR] * longer / v[MBA_GPU_l2_wr]) * chip;
    each[DRAM] = (n[MBA_N_DRAM_RD] + n[MBA_N_DRAM_WR]) / (v[MBA_GPU_hbm] * v[MBA_GPU_hbm_mix]) * chip;
    for (int s = 0; s < STATIONS; s++) { // counts that nobody took: nothing
        each[s] *= (s < SHARED ? PARTITIONS : 1) / n[MBA_N_INST];
        if (!(each[s] > 0)) each[s] = 0;
    }
}

/* One more warp, w in all: how long it waits at each station, by what it finds there (mean value analysis; service
 * takes a constant time, so that who is being served is half done). `alone`: cycles of an instruction when nobody is in
 * the way, service included; pipes serve a warp at once. */
static void add_warp(double wait[STATIONS], double queue[STATIONS], double used[STATIONS], const double *each, double w,
                     double alone)
{
    double all = alone;
    for (int s = 0; s < STATIONS; s++) {
        wait[s] = each[s] * (s < SHARED ? 1 : PARTITIONS) * (queue[s] - used[s] / 2);
        all += wait[s];
    }
    for (int s = 0; s < STATIONS; s++) { // nobody serves more than all the time
        const double least = w * each[s] * (s < SHARED ? 1 : PARTITIONS);
        if (least <= all) continue;
        wait[s] += least - all;
        all = least;
    }
    for (int s = 0; s < STATIONS; s++) {
        queue[s] = w * (each[s] + wait[s]) / all;
        used[s] = w * each[s] / all;
    }
}

/* Blocks that multiply start together and keep in step: they find each other at the same units at the same time. A
 * block that waits for loads, or is starting, is in nobody's way. Roles that multiply nothing hand over by rings, and
 * are not in step with each other. */
static double beside_others(const mba_sim_kernel *k, const mba_profiled_kernel *c, double path, double together,
                            double waiting)
{
    enum { TURNS = 8 };
    const bool   apart = k->nroles > 1 && !(k->total[MBA_P_MMA] > 0);
    const double one = path + (apart ? 0 : fmax(0, c->n[MBA_N_STEP] - c->n[MBA_N_PATH])),
                 more = c->n[MBA_N_BESIDE] * (together - 1);
    double now = one + more;
    for (int i = 0; i < TURNS; i++) now = one + more * now / (now + waiting);
    return now;
}

double mba_sim_blocks_per_sm_mean(const mba_sim_kernel *k, const mba_profiled_kernel *c, const mba_gpu *m)
{
    const double blocks = ceil(c->grid / m->v[MBA_GPU_sm]), places = (double)mba_sim_resident(k, m);
    return blocks / ceil(blocks / places); // the last round is no fuller
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
    for (double w = 1; w < customers + 1; w++) {
        const double before = now;
        add_warp(wait, queue, used, each, w, alone + waiting);
        now = alone;
        for (int s = 0; s < L2; s++) now += wait[s];
        if (w > customers) now = before + (now - before) * (customers - (w - 1));
    }
    return now < MOST ? now : MOST;
}
