// SPDX-License-Identifier: Apache-2.0
/* conv1d_slots.h -- what the files of conv1d share: slots by name, attributes and the declarations of variants. */
#ifndef MBA_CONV1D_SLOTS_H
#define MBA_CONV1D_SLOTS_H

#include "ops/columns.h"
#include "ops/vec_access.h"
#include "ops/rows.h"

enum { X, W, BIAS, IDS, INITIAL, DY, DFINAL }; /* in; the last two only backward */
enum { Y, FINAL };                             /* forward: out */
enum { DX, DW, DBIAS, DINITIAL };              /* backward: out */

typedef struct conv1d_attr {
    int32_t silu, final, ahead;
} conv1d_attr;

/* B sequences of L steps of C channels. An output depends on `taps` inputs: from `past` steps before it to `ahead`
 * steps after it. */
typedef struct conv1d_dims {
    int64_t B, L, C, taps, past, ahead;
} conv1d_dims;
static inline conv1d_dims conv1d_dims_of(const mba_node *n)
{
    const int64_t    *d = n->in[X]->type.dim;
    const int64_t     taps = mba_elems(n->in[W]) / d[2], ahead = ((const conv1d_attr *)n->attr)->ahead;
    const conv1d_dims all = { d[0], d[1], d[2], taps, taps - 1 - ahead, ahead };
    return all;
}

/* A work item of the CPU has TIMES steps of CHANNELS channels of one sequence. */
enum { CONV1D_TAPS_MAX = 16, CONV1D_TIMES = 128, CONV1D_CHANNELS = 512 };

/* CUDA: a block has THREADS threads of PERSISTENT channels or of one channel; ROWS_AHEAD rows are copied ahead of their
 * use. */
enum { CONV1D_THREADS = 64, CONV1D_PERSISTENT = 4, CONV1D_ROWS_AHEAD = 8, CONV1D_STEPS_MIN = 32 };

/* Partition of the work of the persistent kernels: blocks over the channels (across); parts, which take items of `seg`
 * steps in turn; items per sequence (segs) and in all. For its own number of blocks the function returns the same
 * partition again, so the launcher recomputes it from the grid of the plan. */
typedef struct conv1d_partition {
    int64_t across, parts, seg, segs, items;
} conv1d_partition;
static inline conv1d_partition conv1d_partition_of(const mba_node *n, int64_t blocks, int channels)
{
    const conv1d_dims d = conv1d_dims_of(n);
    conv1d_partition  k = { mba_ceil(d.C, CONV1D_THREADS * channels), 0, 0, 0, 0 };
    k.parts = blocks > k.across ? blocks / k.across : 1;
    k.segs = k.parts > d.B ? k.parts / d.B : 1;
    k.seg = mba_ceil(mba_ceil(d.L, k.segs), CONV1D_ROWS_AHEAD) * CONV1D_ROWS_AHEAD;
    if (k.seg < CONV1D_STEPS_MIN) k.seg = CONV1D_STEPS_MIN;
    k.segs = mba_ceil(d.L, k.seg);
    k.items = d.B * k.segs;
    if (k.parts > k.items) k.parts = k.items;
    return k;
}

/* Tiles (conv1d_tiles_cuda.cu): warps per block; rows per warp, forward. A warp has 128 channels. */
enum { CONV1D_TILE_WARPS = 4 };
#define CONV1D_TILE_ROWS(bytes) ((bytes) == 4 ? 8 : 16)

/* Blocks over the channels, and over a sequence if each of `warps` warps takes `rows` rows. */
typedef struct conv1d_tile_grid {
    int64_t across, segs;
} conv1d_tile_grid;
static inline conv1d_tile_grid conv1d_tile_grid_of(const conv1d_dims *d, int64_t warps, int64_t rows)
{
    const conv1d_tile_grid k = { mba_ceil(d->C, 32 * CONV1D_PERSISTENT), mba_ceil(d->L, warps * rows) };
    return k;
}

/* Backward: the tile of a warp is `rows` rows of one sequence. A block takes `warps` consecutive tiles, across
 * sequences. */
typedef struct conv1d_bwd_tile {
    int warps, rows;
} conv1d_bwd_tile;
typedef struct conv1d_bwd_grid {
    int64_t across, tiles, parts; /* blocks over the channels, tiles per sequence, blocks over all tiles */
} conv1d_bwd_grid;
static inline conv1d_bwd_grid conv1d_bwd_grid_of(const conv1d_dims *d, conv1d_bwd_tile t)
{
    const int64_t         tiles = mba_ceil(d->L, t.rows);
    const conv1d_bwd_grid k = { mba_ceil(d->C, 32 * CONV1D_PERSISTENT), tiles, mba_ceil(d->B * tiles, t.warps) };
    return k;
}

/* The blocks of the backward pass produce the partial sums of dw and dbias, so rows per warp and warps per block decide
 * the order of additions. Both are chosen for this number of resident warps (16 on each of the 132 SMs of an H200), not
 * for those of the machine, so that every GPU gives the same bits. */
enum { CONV1D_BWD_WARPS = 16 * 132 };

/* Chooses the tile of the backward pass. A warp processes W-1 steps more than it has rows, in eights, and starts with a
 * latency of about six steps. With four taps the candidates are 29, 37 .. 125 rows in blocks of eight or four warps;
 * the one with which CONV1D_BWD_WARPS resident warps finish first, wave by wave, wins. Eight warps write half as many
 * partial sums of dw, so they are preferred where a sequence is longer than such a block. Example: mamba2-1.3b, 16384
 * tokens: 93 rows make 3 waves (2.96) of 102 steps; 61 rows in blocks that end with a sequence would make 5 (4.64) of
 * 70. */
static inline conv1d_bwd_tile conv1d_bwd_tile_of(const mba_node *n)
{
    enum { WARPS = CONV1D_BWD_WARPS, BEGIN = 6, LEAST = 4, MOST = 16, LONG = 256 };
    const conv1d_dims d = conv1d_dims_of(n);
    conv1d_bwd_tile   best = { 0, 0 };
    int64_t           least = INT64_MAX;
    for (int warps = d.L < LONG ? CONV1D_TILE_WARPS : 2 * CONV1D_TILE_WARPS; warps >= CONV1D_TILE_WARPS; warps /= 2)
        for (int eights = LEAST; eights <= MOST; eights++) {
            const int             steps = eights * CONV1D_ROWS_AHEAD, rows = steps - ((int)d.taps - 1);
            const conv1d_bwd_tile t = { warps, rows };
            const conv1d_bwd_grid k = conv1d_bwd_grid_of(&d, t);
            const int64_t         time = mba_ceil(k.parts * k.across, WARPS / warps) * (steps + BEGIN);
            if (time >= least) continue;
            least = time;
            best = t;
        }
    return best;
}

/* Strides of t (B, rows, C) between rows and between sequences; row is 0 if there is no single stride. */
typedef struct conv1d_steps {
    int64_t sequence;
    int     row;
} conv1d_steps;
static inline conv1d_steps conv1d_steps_of(const mba_tensor *t)
{
    const int64_t rows = t->type.dim[1], C = t->type.dim[2];
    conv1d_steps  s = { 0, 0 };
    if (mba_dense(t)) {
        s.row = (int)C;
        s.sequence = rows * C;
    } else if (t->run == C) {
        s.row = (int)t->pitch;
        s.sequence = rows * t->pitch;
    } else if (t->run == rows * C) {
        s.row = (int)C;
        s.sequence = t->pitch;
    }
    return s;
}

void conv1d_ref(const mba_ref_call *c);
void conv1d_bwd_ref(const mba_ref_call *c);
MBA_CPU_DECLARE(conv1d_fwd);
MBA_CPU_DECLARE(conv1d_bwd);
mba_launch_fn conv1d_tiles_cuda, conv1d_cuda, conv1d_any_cuda;
mba_launch_fn conv1d_bwd_tiles_cuda, conv1d_bwd_cuda, conv1d_bwd_any_cuda;

#endif
