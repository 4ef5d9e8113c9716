// SPDX-License-Identifier: Apache-2.0
/* selective_scan_slots.h -- what the files of this folder share: slots, sizes, and who implements them. */
#ifndef MBA_SELECTIVE_SCAN_SLOTS_H
#define MBA_SELECTIVE_SCAN_SLOTS_H

#include "core/op.h"

/* Inputs of both directions. Output k of the backward is the gradient of input k, for k < IDS. */
enum { U, DELTA, A_LOG, BM, CM, SKIP, Z, DT_BIAS, INITIAL, IDS, DOUT, DFINAL, KEPT_IN, YS_IN, STARTS_IN };
enum { OUT, FINAL, KEPT, YS, STARTS };
enum { GRADS = IDS };
enum {
    DU = U,
    DDELTA = DELTA,
    DA_LOG = A_LOG,
    DB = BM,
    DC = CM,
    DSKIP = SKIP,
    DZ = Z,
    DDT_BIAS = DT_BIAS,
    DINITIAL = INITIAL
};

typedef struct scan_attr {
    int32_t final;
} scan_attr; /* forward: the final state is an output */
typedef struct scan_bwd_attr {
    uint32_t wants;
} scan_bwd_attr; /* backward: bit k, the gradient of input k */

typedef struct scan_dims {
    int64_t B, L, D, N, G;
} scan_dims;
scan_dims scan_dims_of(const mba_node *n);

/* How the CPU cuts the work; fixed by the shape. See selective_scan.md. */
enum {
    STRIP = 64,        /* channels of a work item at the most, */
    LEAST_STRIP = 16,  /* and at the least: a cache line of u, delta, z */
    ENOUGH_ITEMS = 32, /* strips are cut narrower until there are so many, for machines of many cores */
    GROUP = 4,         /* states that go through time together, in registers */
    SEGMENT = 256,     /* steps between two states that the forward keeps, from which the backward starts */
};
static inline int64_t scan_strip(scan_dims d) /* channels of a work item */
{
    int64_t n = STRIP;
    while (n > LEAST_STRIP && d.B * d.G * mba_ceil(d.D / d.G, n) < ENOUGH_ITEMS) n /= 2;
    return n;
}
static inline int64_t scan_strips(scan_dims d) { return mba_ceil(d.D / d.G, scan_strip(d)); } /* in a group */
static inline int64_t scan_groups(scan_dims d) { return mba_ceil(d.N, GROUP); }
static inline int64_t scan_segments(scan_dims d) { return mba_ceil(d.L, SEGMENT); }
static inline int64_t scan_segment(scan_dims d) { return d.L < SEGMENT ? d.L : SEGMENT; } /* the longest */

/* Scratch of the plans, in this order: space for each thread, partial sums of dB and dC, partial sums over time. */
enum { SCRATCH_THREADS, SCRATCH_BC, SCRATCH_SUMS };
size_t selective_scan_fwd_thread_floats(scan_dims d);
size_t selective_scan_bwd_thread_floats(scan_dims d);

/* ---- CUDA: how the work is cut. Plan and launcher agree by calling the same function on the plan's grid ---- */

enum {
    TILE = 16,           /* tokens a block of the fast path stages at a time */
    KEEP = TILE / 2,     /* tokens between two states that the forward keeps for the backward */
    TILE_CHANNELS = 32,  /* channels of a block: of the forward this or twice as many */
    PLAIN_CHANNELS = 32, /* of the plain path: a warp, one channel a lane */
    PLAIN_CHUNK = 8,     /* tokens between two states the plain backward keeps */
    PACK_MOST = 16,      /* short sequences that follow each other in one block */
    PACKS_LEAST = 512,   /* blocks of 32 channels that must remain where the forward packs for the backward too */
};

/* What one block goes through: `pack` whole sequences (their states start from zero), or one of the `pieces` of a
 * sequence, `piece` tokens long but for the last. */
typedef struct scan_partition {
    int64_t items, pack, pieces, piece, tiles;
} scan_partition;

static inline scan_partition scan_partition_of(scan_dims d, int64_t items)
{
    scan_partition c = { items, 1, 1, d.L, 0 };
    if (items < d.B) c.pack = mba_ceil(d.B, items);
    if (items > d.B) {
        c.pieces = items / d.B;
        c.piece = mba_ceil(mba_ceil(d.L, c.pieces), TILE) * TILE;
    }
    c.tiles = mba_ceil(c.pack * c.piece, TILE);
    return c;
}

/* What the forward keeps for a backward where activations are bf16 and states 8 or 16 (no CPU variant sees those): KEPT
 * (items, rows, D, N), the state before every KEEP tokens, and YS, y before the gate. An item is a sequence, or a pack
 * of short ones so that tiles are full: the shape alone decides, both directions go by it. */
bool scan_even_rows(const mba_tensor *t, int64_t width); /* rows lie at one distance over the whole batch */

/* Scratch of the CUDA plans, in this order; what a plan does not need has no bytes. STARTS, ENDS: a state per item,
 * STEPS: the sum of its step sizes. KEPT: states before each tile (chunk). YS: before the gate. BC: dB, dC of each
 * block of channels. SUMS: dA, dD, ddt_bias of each item. SPACE: of the plain path, per block. */
enum { CU_STARTS, CU_ENDS, CU_STEPS, CU_STARTS_BACK, CU_KEPT, CU_YS, CU_BC, CU_SUMS, CU_SPACE };

/* What differs between cases (dim[5]): tests make their own. WINDOWS: B and C begin at column dim[6] of a matrix, or
 * 3. */
enum {
    NO_Z = 1,
    NO_SKIP = 2,
    NO_BIAS = 4,
    WITH_IDS = 8,
    WITH_INITIAL = 16,
    WITH_FINAL = 32,
    WINDOWS = 64,
    RANK3 = 128
};

void    selective_scan_ref(const mba_ref_call *c);
void    selective_scan_bwd_ref(const mba_ref_call *c);
int64_t selective_scan_ref_space(const mba_node *n);
MBA_CPU_DECLARE(selective_scan_fwd);
MBA_CPU_DECLARE(selective_scan_bwd);
mba_plan_fn   selective_scan_specialized_plan, selective_scan_bwd_specialized_plan;
mba_launch_fn selective_scan_specialized_cuda, selective_scan_bwd_specialized_cuda;
mba_plan_fn   selective_scan_tiles_plan, selective_scan_bwd_tiles_plan, selective_scan_lane_plan,
    selective_scan_bwd_lane_plan;
mba_launch_fn selective_scan_tiles_cuda, selective_scan_bwd_tiles_cuda, selective_scan_lane_cuda,
    selective_scan_bwd_lane_cuda;

#endif
