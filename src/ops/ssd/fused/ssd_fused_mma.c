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
