// SPDX-License-Identifier: Apache-2.0
/* ssd_fused_mma.c -- plans of ssd's variant `fused_mma`: how much shared memory its kernels take, and its scans; and
 * which GPUs it and `fused` run on. What they have in common is in ssd_fused.c. */
#include "ops/ssd/fused/ssd_fused_plan.h"

/* `fused_mma`: bytes of a stage of a scan with `nt` tiles of n, as mma_stage of ssd_fused_mma.cuh has it. */
int64_t ssd_mma_stage_bytes(bool rev, bool output, int64_t nt)
{
    const int64_t x = nt > 1 ? 1 : 2, tiles = 2 * nt + (output ? 2 * nt + 1 : 0) + x * (rev && output ? 2 : 1);
    return tiles * TILE_BYTES + x * SSD_RECORD * 4;
}
/* Stages that fit into a block: one or two, or none. */
int ssd_mma_stages(int64_t rest, int64_t stage, const mba_machine *m)
{
    const int64_t n = (m->smem_block_bytes - rest) / stage;
    return n < 0 ? 0 : n > 2 ? 2 : (int)n;
}
/* Whether blocks have the shared memory that `fused_mma` needs. */
bool ssd_mma_fits(const mba_machine *m, int64_t nt, bool backward)
{
    return ssd_mma_stages(MMA_PARTIAL_BYTES, ssd_mma_stage_bytes(backward, true, nt), m)
           && (!backward || ssd_mma_stages(MMA_BC_REST, SSD_MMA_BC_STAGE, m));
}

mba_status ssd_check_machine(const mba_machine *m, bool mma, int64_t nt, bool backward)
{
    MBA_REFUSE_IF(mma && m->cc < 80, "a device of compute capability %d\nwhy: mma.sync of bf16, which sm_80 has",
                  m->cc);
    MBA_REFUSE_IF(!mma && m->cc != 90,
                  "a device of compute capability %d\nwhy: products of warpgroups, which sm_90a has", m->cc);
    MBA_REFUSE_IF(mma ? !ssd_mma_fits(m, nt, backward)
                      : m->smem_block_bytes < SSD_SCAN_SMEM || m->smem_block_bytes < SSD_BC_SMEM,
                  "blocks of %lld bytes of shared memory", (long long)m->smem_block_bytes);
    return MBA_OK;
}

/* A block of `fused_mma`: each warp waits for the copies of a chunk, multiplies and stores. */
void ssd_plan_mma_scan(const plan_builder *w, scan_launch k)
{
    const ssd_segments *r = &w->r;
    const scan_work     s = ssd_scan_work(w);
    const double        nt = (double)tiles_of_n(w), x = SSD_HEADS / nt * TILE_BYTES;
    const int64_t       stage = ssd_mma_stage_bytes(k.rev, k.output, tiles_of_n(w));
    const int           stages = ssd_mma_stages(MMA_PARTIAL_BYTES, stage, w->m);
    mba_launch         *l = mba_plan_launch(w->p, k.kernel, MBA_MIXED, s.grid, 128 * SSD_HEADS);
    l->regs = k.rev ? 244 : 214;
    l->smem_bytes = (size_t)(stages * stage + MMA_PARTIAL_BYTES);
    l->ring_depth = stages;
    l->persistent = true;
    l->tiles = r->items;
    if (s.states_read)
        mba_phase_move(l, MBA_LOAD, MBA_ARG_SCRATCH(SSD_SEGMENTS_WORK),
                       (double)s.states_read * SSD_HEADS * STATE * 4 / (double)s.grid);
    mba_phase_work(l, MBA_LOOP, (double)s.chunks / (double)s.grid, NULL);
    ssd_plan_sources(w, l, k.rev, k.rev && k.output);
    if (k.output) {
        mba_phase_move(l, MBA_ASYNC, MBA_ARG_IN(k.rev ? BM : CM), 2 * nt * TILE_BYTES * real_share_n(w));
        mba_phase_share(l, w->t.J / SSD_HEADS);
        mba_phase_move(l, MBA_ASYNC, w->pairs, (double)TILE_BYTES);
        mba_phase_share(l, w->t.J / SSD_HEADS);
    }
    mba_phase_work(l, MBA_BARRIER, 1, NULL);
    mba_phase_work(l, MBA_FMA, SSD_HEADS * (STATE + (k.output ? 2.0 * P * Q : 0)), NULL);
    mba_phase_work(l, MBA_ALU, SSD_HEADS * (k.output ? STATE / 2 + P * Q : 0.0), NULL);
    mba_phase_work(l, MBA_HALF2, SSD_HEADS * P * Q, NULL);
    if (k.output) // C B^T has 10 of its 16 blocks on and below the diagonal
        mba_phase_work(l, MBA_MMA, SSD_HEADS * 2.0 * (STATE * Q + 10.0 / 16 / nt * P * Q * Q), NULL);
    mba_phase_work(l, MBA_MMA, SSD_HEADS * 2.0 * STATE * Q, NULL);
    if (k.output) mba_phase_move(l, MBA_STORE, MBA_ARG_OUT(k.rev ? DX : Y), x * real_share_p(w));
    if (k.saves > 0)
        mba_phase_move(l, MBA_STORE, k.rev ? MBA_ARG_SCRATCH(SSD_SAVED_REV_WORK) : w->saved, SSD_HEADS * k.saves);
    mba_phase_work(l, MBA_END, 0, NULL);
}
