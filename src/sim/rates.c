// SPDX-License-Identifier: Apache-2.0
/* rates.c -- see rates.h: converts the numbers of a machine file to the integer rates of the engine. */
#include "sim/rates.h"

#include <math.h>

const char *const mba_sim_limits[MBA_LIMITS] = { "FMA",           "ALU",   "SFU",          "HALF2",         "tensor",
                                                 "shared memory", "issue", "SM read port", "SM write port", "L2",
                                                 "DRAM",          "launch" };

/* No slower than a unit in 2^14 cycles, so that products fit into 64 bits. */
static uint64_t per_unit(double units_per_cycle)
{
    const double x = TICKS * (double)(1 << FRACTION) / units_per_cycle + 0.5, most = 4398046511104.0;
    return x < most ? (uint64_t)x : (uint64_t)most;
}

static tick ticks_of(double cycles) { return (tick)(cycles * TICKS + 0.5); }

static double dram_bytes(const mba_sim_kernel *k, bool writes)
{
    double sum = 0;
    for (int64_t s = 0; s < k->nstreams; s++)
        if (k->stream[s].writes == writes) sum += k->stream[s].moved * (double)(256 - k->stream[s].hit) / 256;
    return sum + (writes ? (double)k->evicts : 0);
}

static double moved_bytes(const mba_sim_kernel *k, bool writes)
{
    double sum = 0;
    for (int64_t s = 0; s < k->nstreams; s++)
        if (k->stream[s].writes == writes) sum += k->stream[s].moved;
    return sum;
}

/* DRAM bytes per second of a mix of reads and writes: linear between pure reads, a copy and pure writes. */
static double dram_rate(const mba_sim_kernel *k, const mba_gpu *m)
{
    const double r = dram_bytes(k, false), w = dram_bytes(k, true), f = r + w > 0 ? w / (r + w) : 0;
    const double e = f < 0.5 ? m->v[MBA_GPU_hbm_rd] + (m->v[MBA_GPU_hbm_mix] - m->v[MBA_GPU_hbm_rd]) * 2 * f
                             : m->v[MBA_GPU_hbm_mix] + (m->v[MBA_GPU_hbm_wr] - m->v[MBA_GPU_hbm_mix]) * (2 * f - 1);
    return e * m->v[MBA_GPU_hbm] * 1e9;
}

double mba_sim_product_rate(int64_t bits, const mba_gpu *m)
{
    return bits == 32 ? m->v[MBA_GPU_mma32] : bits == 19 ? m->v[MBA_GPU_mma16] / 2 : m->v[MBA_GPU_mma16];
}

static double mma_rate(const mba_sim_kernel *k, const mba_gpu *m)
{
    const double full = mba_sim_product_rate(k->mma_flops % 100, m);
    return k->mma_flops > 100 ? full * m->v[MBA_GPU_mma_sync] : full;
}

/* Tensor work lowers the clock by a line. Where it fills more than `power_busy` of a long kernel, power lowers it too,
 * as far as the step is full of tensor work: power is counted over milliseconds. */
double mba_sim_clock_of(const mba_gpu *m, double tensor_busy, double seconds, double load)
{
    const double *v = m->v, none = v[MBA_GPU_power_load_none], all = v[MBA_GPU_power_load_full],
                 free = v[MBA_GPU_power_busy],
                 clk = v[MBA_GPU_clk_tc] < v[MBA_GPU_clk] ? v[MBA_GPU_clk_tc] : v[MBA_GPU_clk],
                 busy = tensor_busy < 1 ? tensor_busy : 1,
                 least = v[MBA_GPU_clk_busy] < clk ? v[MBA_GPU_clk_busy] : clk,
                 over = busy > free ? (busy - free) / (1 - free) : 0, x = seconds * 1e6 / v[MBA_GPU_t_power],
                 xx = x * x, lasts = xx * xx / (1 + xx * xx),
                 fall = least > v[MBA_GPU_clk_mma] ? least - v[MBA_GPU_clk_mma] : 0,
                 part = load > 0 && load < all ? (load - none) / (all - none) : 1,
                 full = part < 0   ? 0
                        : part < 1 ? part
                                   : 1;
    return clk + (least - clk) * busy - fall * over * lasts * full;
}

/* L2 looks up one line per request, so sectors that are stored alone take longer than those of a full line. */
static double l2_write_rate(const mba_sim_kernel *k, const mba_gpu *m)
{
    return m->v[MBA_GPU_l2_wr] * 1e9 / (1 + (double)k->partial_stores / 256);
}

rates mba_sim_rates_of(const mba_sim_kernel *k, const mba_gpu *m, double clk, double active, double share)
{
    mba_assert(clk > 0 && active >= 1 && share > 0 && share <= 1);
    const double *v = m->v, per_clk = share / (clk * 1e9);
    const double  lanes[MBA_PIPES] = { v[MBA_GPU_fma], v[MBA_GPU_alu],     v[MBA_GPU_xu],   v[MBA_GPU_half2],
                                       mma_rate(k, m), v[MBA_GPU_smem_bw], v[MBA_GPU_issue] };

    rates r = { .rd = per_unit(v[MBA_GPU_sm_l2_read]),
                .wr = per_unit(v[MBA_GPU_sm_l2_write]),
                .l2r = per_unit(v[MBA_GPU_l2_rd] * 1e9 * per_clk),
                .l2w = per_unit(l2_write_rate(k, m) * per_clk),
                .l2r_both = per_unit(v[MBA_GPU_l2_rd] * 1e9 * per_clk / v[MBA_GPU_l2_shared]),
                .l2w_both = per_unit(l2_write_rate(k, m) * per_clk / v[MBA_GPU_l2_shared]),
                .hbm = per_unit(dram_rate(k, m) * per_clk),
                .dispatch = per_unit(v[MBA_GPU_block_rate] * share),
                .t_kernel = ticks_of(v[MBA_GPU_t_kernel] + (double)k->fetch),
                .block_start = ticks_of(v[MBA_GPU_block_start] + v[MBA_GPU_block_start_warp] * (double)k->warps),
                .block_exit = ticks_of(v[MBA_GPU_block_exit]),
                .barrier = ticks_of(v[MBA_GPU_barrier]),
                .issue_gap = ticks_of(v[MBA_GPU_issue_gap]),
                .l2_lat = ticks_of(v[MBA_GPU_l2_lat]),
                .hbm_lat = ticks_of(v[MBA_GPU_hbm_lat]),
                .async_lat = ticks_of(v[MBA_GPU_async_lat]),
                .turnaround = ticks_of(v[MBA_GPU_hbm_turnaround]),
                .slack_sm = ticks_of(v[MBA_GPU_store_slack_sm]),
                .slack_l2 = ticks_of(v[MBA_GPU_store_slack_l2]),
                .lat_alu = ticks_of(v[MBA_GPU_lat_alu]),
                .lat_xu = ticks_of(v[MBA_GPU_lat_xu]),
                .lat_smem = ticks_of(v[MBA_GPU_lat_smem]),
                .lat_mma = ticks_of(v[MBA_GPU_lat_mma]),
                .profiled_issue = v[MBA_GPU_profiled_issue],
                .profiled_xu = v[MBA_GPU_profiled_xu],
                .profiled_smem = v[MBA_GPU_profiled_smem],
                .profiled_mma = v[MBA_GPU_profiled_mma],
                .async_bytes = (uint64_t)(v[MBA_GPU_async_kb] * 1024),
                .clk = clk,
                .active = active };
    for (int p = 0; p < MBA_PIPES; p++) r.pipe[p] = per_unit(lanes[p]);
    const double taken = dram_bytes(k, false) + moved_bytes(k, true);
    r.evicts = k->evicts > 0 && taken > 0 ? (uint64_t)(256 * (double)k->evicts / taken + 0.5) : 0;
    r.l2r_full = per_unit(v[MBA_GPU_l2_rd] / clk);
    r.hbm_full = per_unit(dram_rate(k, m) / (clk * 1e9));
    r.blocks = (k->grid + (int64_t)active - 1) / (int64_t)active;
    mba_assert(r.blocks > 0 && r.blocks * (int64_t)active >= k->grid);
    // The share is that of an SM that always has equally many beside it.
    const double evenly = (double)k->grid / (double)r.blocks,
                 late = (double)(k->grid - (r.blocks - 1) * (int64_t)active);
    r.early = (uint64_t)(256 * active / evenly + 0.5);
    r.late = (uint64_t)(256 * late / evenly + 0.5);
    return r;
}

/* ---- bounds ---- */

void mba_sim_find_bounds(mba_sim_result *out, const mba_sim_kernel *k, const mba_gpu *m, double clk)
{
    const double *v = m->v, active = (double)k->grid < v[MBA_GPU_sm] ? (double)k->grid : v[MBA_GPU_sm], hz = clk * 1e9;
    const double  lanes[MBA_PIPES] = { v[MBA_GPU_fma], v[MBA_GPU_alu],     v[MBA_GPU_xu],   v[MBA_GPU_half2],
                                       mma_rate(k, m), v[MBA_GPU_smem_bw], v[MBA_GPU_issue] };
    out->dram_read = dram_bytes(k, false);
    out->dram_write = dram_bytes(k, true);
    out->l2_read = moved_bytes(k, false);
    out->l2_write = moved_bytes(k, true);
    for (int p = 0; p < MBA_PIPES; p++) out->bound[p] = k->total[p] / (lanes[p] * active * hz);
    for (int p = 0; p < MBA_PIPES; p++) out->work[p] = k->total[p];
    if (k->mma_flops % 100 == 32) { // fp32 products without TF32 run on the FMA units, two FLOPs in a lane
        out->work[MBA_P_FMA] += k->total[MBA_P_MMA] / 2;
        out->work[MBA_P_MMA] = 0;
    }
    bool copies = false;
    for (int64_t i = 0; i < k->nops; i++) copies |= k->op[i].work == MBA_OP_ASYNC;
    if (!copies) out->bound[MBA_P_SMEM] += out->l2_read / (v[MBA_GPU_smem_bw] * active * hz); // loads pass L1
    // Counted kernels: stores, exchanges and conflicts pass the same pipe, one wavefront of 128 bytes at a time.
    const double passes = 128 * (double)k->wavefronts / (v[MBA_GPU_smem_bw] * active * hz),
                 asks = 32 * (double)k->requests / (v[MBA_GPU_lsu] * active * hz);
    out->bound[MBA_P_SMEM] = fmax(out->bound[MBA_P_SMEM], fmax(passes, asks));
    out->bound[MBA_LIMIT_RD] = out->l2_read / (v[MBA_GPU_sm_l2_read] * active * hz);
    out->bound[MBA_LIMIT_WR] = out->l2_write / (v[MBA_GPU_sm_l2_write] * active * hz);
    // What comes from DRAM is written into L2 before it is read there.
    const double read = (out->l2_read + out->dram_read) / (v[MBA_GPU_l2_rd] * 1e9),
                 write = out->l2_write / l2_write_rate(k, m);
    out->bound[MBA_LIMIT_L2] = fmax(v[MBA_GPU_l2_shared] * (read + write), fmax(read, write));
    out->bound[MBA_LIMIT_HBM] = out->dram_read > 0 || out->dram_write > 0
                                    ? (out->dram_read + out->dram_write) / dram_rate(k, m)
                                    : 0;
    mba_assert(out->blocks > 0 && out->resident > 0);
    const double rounds = ceil((double)out->blocks / (double)out->resident);
    out->bound[MBA_LIMIT_LAUNCH] =
        rounds * (v[MBA_GPU_block_start] + v[MBA_GPU_block_start_warp] * (double)k->warps + v[MBA_GPU_block_exit]) / hz;
    out->limit = 0;
    for (int i = 1; i < MBA_LIMITS; i++)
        if (out->bound[i] > out->bound[out->limit]) out->limit = i;
}
