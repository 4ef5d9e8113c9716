// SPDX-License-Identifier: Apache-2.0
/* ssd_fused_plan.h -- what the plans of `fused` (ssd_fused.c) and `fused_mma` (ssd_fused_mma.c) share. */
#ifndef MBA_SSD_FUSED_PLAN_H
#define MBA_SSD_FUSED_PLAN_H

#include "core/device.h"
#include "ops/ssd/ssd_slots.h"

enum { P = 64, N = 128, Q = 64, STATE = P * N, TILE_BYTES = Q * 128, SCAN_THREADS = 384, STAGES = 3 };

/* What the functions below read. */
typedef struct plan_builder {
    mba_plan          *p;
    ssd_dims           d, t; /* the shape, and the same in tiles */
    ssd_segments       r;
    ssd_split          split;               /* used instead of r where split.how is set */
    int64_t            chunks;              /* chunks of all sequences */
    bool               ids, backward, kept; /* kept: saves for the backward pass, or finds it saved */
    bool               mma, tiled;
    ssd_padding        pad;
    const mba_machine *m;
    int                records_back, pairs, saved; /* operands: records for backward, C B^T, states */
} plan_builder;

static inline int64_t tiles_of_n(const plan_builder *w) { return mba_ceil(w->d.N, N); }
/* Bytes per byte of a tile of x, or of B or C, that lie inside the operand: what lies beyond is not moved. */
static inline double real_share_p(const plan_builder *w)
{
    return (double)(w->d.H * w->d.P) / (double)(w->t.H / tiles_of_n(w) * P);
}
static inline double real_share_n(const plan_builder *w) { return (double)w->d.N / (double)(tiles_of_n(w) * N); }

/* ---- `fused_mma` ---- */

enum { MMA_PARTIAL_BYTES = SSD_HEADS * 4 * Q * 4, MMA_BC_REST = SSD_MMA_BC_SMEM - SSD_MMA_BC_STAGE };

int64_t    ssd_mma_stage_bytes(bool rev, bool output, int64_t nt);
int        ssd_mma_stages(int64_t rest, int64_t stage, const mba_machine *m);
bool       ssd_mma_fits(const mba_machine *m, int64_t nt, bool backward);
mba_status ssd_check_machine(const mba_machine *m, bool mma, int64_t nt, bool backward);

#endif
