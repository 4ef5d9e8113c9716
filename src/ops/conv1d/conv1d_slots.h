// SPDX-License-Identifier: Apache-2.0
/* conv1d_slots.h -- what the files of this folder share. */
#ifndef MBA_CONV1D_SLOTS_H
#define MBA_CONV1D_SLOTS_H

#include "ops/columns.h"
#include "ops/vec_access.h"
#include "ops/rows.h"

enum { X, W, BIAS, IDS, INITIAL, DY, DFINAL }; /* in; the last two are the backward node's */
enum { Y, FINAL };                             /* forward: out */
enum { DX, DW, DBIAS, DINITIAL };              /* backward: out */

typedef struct conv1d_attr {
    int32_t silu, final, ahead;
} conv1d_attr;

/* B sequences of L steps of C channels; `taps` of them meet in one output, those `past` steps ago to those `ahead`. */
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

/* A work item of the CPU: TIMES steps of CHANNELS channels of one sequence. */
enum { CONV1D_TAPS_MAX = 16, CONV1D_TIMES = 128, CONV1D_CHANNELS = 512 };

/* CUDA. A block has THREADS threads, of PERSISTENT channels each or of one; ROWS_AHEAD rows come in ahead of their use.
 * */
enum { CONV1D_THREADS = 64, CONV1D_PERSISTENT = 4, CONV1D_ROWS_AHEAD = 8, CONV1D_STEPS_MIN = 32 };

/* Blocks side by side over the channels; parts, which take items of `seg` steps in turn; items of a sequence, and of
 * all. Given the blocks it makes, it makes the same again: the launcher learns from the plan's grid what the plan had
 * in mind. */
typedef struct conv1d_cut {
    int64_t across, parts, seg, segs, items;
} conv1d_cut;
static inline conv1d_cut conv1d_cut_of(const mba_node *n, int64_t blocks, int channels)
{
    const conv1d_dims d = conv1d_dims_of(n);
    conv1d_cut        k = { mba_ceil(d.C, CONV1D_THREADS * channels), 0, 0, 0, 0 };
    k.parts = blocks > k.across ? blocks / k.across : 1;
    k.segs = k.parts > d.B ? k.parts / d.B : 1;
    k.seg = mba_ceil(mba_ceil(d.L, k.segs), CONV1D_ROWS_AHEAD) * CONV1D_ROWS_AHEAD;
    if (k.seg < CONV1D_STEPS_MIN) k.seg = CONV1D_STEPS_MIN;
    k.segs = mba_ceil(d.L, k.seg);
    k.items = d.B * k.segs;
    if (k.parts > k.items) k.parts = k.items;
    return k;
}

/* Of the tiles (conv1d_tiles_cuda.cu): warps of a block, rows of a warp forward; 128 channels side by side. */
enum { CONV1D_TILE_WARPS = 4 };
#define CONV1D_TILE_ROWS(bytes) ((bytes) == 4 ? 8 : 16)

/* Blocks side by side over the channels, and over a sequence where each of `warps` takes `rows` rows. */
typedef struct conv1d_tile_grid {
    int64_t across, segs;
} conv1d_tile_grid;
static inline conv1d_tile_grid conv1d_tile_grid_of(const conv1d_dims *d, int64_t warps, int64_t rows)
{
    const conv1d_tile_grid k = { mba_ceil(d->C, 32 * CONV1D_PERSISTENT), mba_ceil(d->L, warps * rows) };
    return k;
}

/* Backward a warp's tile is `rows` rows of one sequence, and a block takes the next `warps` of all sequences' tiles. */
typedef struct conv1d_bwd_tile {
    int warps, rows;
} conv1d_bwd_tile;
typedef struct conv1d_bwd_grid {
    int64_t across, tiles, parts; /* blocks over the channels, tiles of a sequence, blocks over all */
} conv1d_bwd_grid;
static inline conv1d_bwd_grid conv1d_bwd_grid_of(const conv1d_dims *d, conv1d_bwd_tile t)
{
    const int64_t         tiles = mba_ceil(d->L, t.rows);
    const conv1d_bwd_grid k = { mba_ceil(d->C, 32 * CONV1D_PERSISTENT), tiles, mba_ceil(d->B * tiles, t.warps) };
    return k;
}

/* The blocks of the backward pass are the parts of the sums dw and db: rows of a warp and warps of a block decide the
 * order of additions. Both are chosen for this many resident warps, 16 on each of an H200's 132 SMs, and not for those
 * of the machine: the same bits on every GPU. */
enum { CONV1D_BWD_WARPS = 16 * 132 };

/* A warp makes W-1 steps more than rows, in eights, and begins with about six steps' time of waiting: with four taps
 * the one of 29, 37 .. 125 rows, in blocks of eight warps or four, with which CONV1D_BWD_WARPS resident warps would be
 * done first, round after round. Eight have half as many parts of dw to write and to add, and come first where a
 * sequence is longer than such a block. mamba2-1.3b, 16384 tokens: 93 rows are 3 rounds (2.96) of 102 steps; 61, and
 * blocks that did not go on into the next sequence, were 5 (4.64) of 70. */
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

/* Distances in t (B, rows, C): between rows, and between sequences; row is 0 where there is no such single number. */
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
