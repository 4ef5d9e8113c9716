// SPDX-License-Identifier: Apache-2.0
/* selective_scan_slots.h -- what the files of selective_scan share: slots, sizes, partitioning of the work, scratch,
 * and the declarations of variants. The operator's declaration is selective_scan.c, the maths selective_scan.md. */
#ifndef MBA_SELECTIVE_SCAN_SLOTS_H
#define MBA_SELECTIVE_SCAN_SLOTS_H

#include "core/op.h"

/* Inputs of both passes. Output k of the backward pass is the gradient of input k, for k < IDS. */
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
} scan_attr; /* the final state is an output */
typedef struct scan_bwd_attr {
    uint32_t wants;
} scan_bwd_attr; /* bit k: computes the gradient of input k */

typedef struct scan_dims {
    int64_t B, L, D, N, G;
} scan_dims;
scan_dims scan_dims_of(const mba_node *n);

/* Partitioning on the CPU; it depends on the shape alone (selective_scan.md). */
enum {
    STRIP = 64,     /* most channels per work item */
    STRIP_MIN = 16, /* fewest: a cache line of u, delta, z */
    ITEMS_MIN = 32, /* strips are narrowed until there are so many items, for machines with many cores */
    GROUP = 4,      /* states that are processed together, in registers */
    SEGMENT = 256,  /* steps between states that the forward saves, from which the backward restarts */
};
static inline int64_t scan_strip(scan_dims d) /* channels per work item */
{
    int64_t n = STRIP;
    while (n > STRIP_MIN && d.B * d.G * mba_ceil(d.D / d.G, n) < ITEMS_MIN) n /= 2;
    return n;
}
static inline int64_t scan_strips(scan_dims d) { return mba_ceil(d.D / d.G, scan_strip(d)); } /* per group */
static inline int64_t scan_groups(scan_dims d) { return mba_ceil(d.N, GROUP); }
static inline int64_t scan_segments(scan_dims d) { return mba_ceil(d.L, SEGMENT); }
static inline int64_t scan_segment(scan_dims d) { return d.L < SEGMENT ? d.L : SEGMENT; }

/* Scratch of the CPU plans, in this order: buffers of each thread, partial sums of dB and dC, partial sums over
 * time. */
enum { SCRATCH_THREADS, SCRATCH_BC, SCRATCH_SUMS };
size_t selective_scan_fwd_thread_floats(scan_dims d);
size_t selective_scan_bwd_thread_floats(scan_dims d);

/* ---- CUDA: partitioning. Plan and launcher call the same function with the plan's grid, so that they agree ---- */

enum {
    TILE = 16,              /* tokens per tile */
    SAVE_EVERY = TILE / 2,  /* tokens between states that the forward saves for the backward */
    TILE_CHANNELS = 32,     /* channels per block; in the forward of `tiles` this or twice as many */
    CHUNKED_WARPS = 8,      /* most warps per block of `chunked`, each with SAVE_EVERY tokens */
    CHUNKED_WARPS_BACK = 4, /* in the backward */
    CHUNKED_STATES = 4,     /* most states of `chunked` */
    PACK_MAX = 16,          /* most short sequences that one item holds */
    PACKS_MIN = 512,        /* fewest blocks of 32 channels that packing may leave */
};

/* The CUDA kernels process states in groups of 4, 8 or 16; scratch has room for whole groups. */
static inline int64_t scan_group_states(int64_t N) { return N <= 4 ? 4 : N <= 8 ? 8 : 16; }
static inline int64_t scan_padded_states(int64_t N) { return mba_ceil(N, scan_group_states(N)) * scan_group_states(N); }

/* The items of a launch. An item is a sequence, a pack of `pack` whole sequences (their states start from zero), or one
 * of `segments` segments of a sequence, of `segment` tokens (the last may be shorter). */
typedef struct scan_partition {
    int64_t items, pack, segments, segment, tiles;
} scan_partition;

static inline scan_partition scan_partition_of(scan_dims d, int64_t items)
{
    scan_partition c = { items, 1, 1, d.L, 0 };
    if (items < d.B) c.pack = mba_ceil(d.B, items);
    if (items > d.B) {
        c.segments = items / d.B;
        c.segment = mba_ceil(mba_ceil(d.L, c.segments), TILE) * TILE;
    }
    c.tiles = mba_ceil(c.pack * c.segment, TILE);
    return c;
}

/* What the forward saves for the backward with bf16 activations (CUDA only): KEPT (items, rows, D, N) fp32, the state
 * before every SAVE_EVERY tokens, with 1 to 4 states (`chunked`), or 8 or 16 and groups of a multiple of 4 channels
 * (`specialized`); for `specialized` also YS, y before the gate. An item is a sequence, or a pack of short ones so that
 * tiles are full. The shape alone decides, and both passes follow it. */
bool scan_even_rows(const mba_tensor *t, int64_t width); /* one row stride over the whole batch */

/* Scratch of the CUDA plans, in this order; unused ones have no bytes. STARTS, ENDS: initial and final state per item;
 * STEPS: sum of its step sizes. KEPT: states before each tile. YS: y before the gate. PARTIAL: sums over the groups of
 * states so far, of y, then of q and r. BC: dB, dC per block of channels. SUMS: dA, dD, ddt_bias per item. ALIGNED: B,
 * then C, as `specialized` needs them. States are padded to whole groups. */
enum { CU_STARTS, CU_ENDS, CU_STEPS, CU_STARTS_BACK, CU_PARTIAL, CU_KEPT, CU_YS, CU_BC, CU_SUMS, CU_ALIGNED };

/* Options of a case (dim[5]). WINDOWS: operands are strided views; B and C begin at column dim[6] of a matrix, or 3. */
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
mba_plan_fn   selective_scan_chunked_plan, selective_scan_bwd_chunked_plan;
mba_launch_fn selective_scan_chunked_cuda, selective_scan_bwd_chunked_cuda;
mba_plan_fn   selective_scan_tiles_plan, selective_scan_bwd_tiles_plan;
mba_launch_fn selective_scan_tiles_cuda, selective_scan_bwd_tiles_cuda;

#endif
