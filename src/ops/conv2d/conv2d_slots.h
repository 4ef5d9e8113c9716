// SPDX-License-Identifier: Apache-2.0
/* conv2d_slots.h -- what the files of conv2d share: slots by name, attributes, scratch and the declarations of
 * variants. */
#ifndef MBA_CONV2D_SLOTS_H
#define MBA_CONV2D_SLOTS_H

#include "ops/columns.h"
#include "ops/rows.h"

enum { X, W, BIAS, DY };                                  /* in; the last only backward */
enum { Y };                                               /* forward: out */
enum { DX, DW, DBIAS };                                   /* backward: out */
enum { SCRATCH_WEIGHTS, SCRATCH_THREADS, SCRATCH_PARTS }; /* scratch of "patches" */
enum { SCRATCH_IN = 1, SCRATCH_OUT, SCRATCH_DBIAS };      /* scratch of "winograd", after the weights */

typedef struct conv2d_attr {
    int64_t stride, pad, wants_dx;
} conv2d_attr; /* wants_dx: used by the backward node */

/* B images of H x W pixels of Ci channels become Ho x Wo pixels of Co channels; taps = kh kw. */
typedef struct conv2d_dims {
    int64_t B, H, W, Ci, Ho, Wo, Co, kh, kw, taps, stride, pad;
} conv2d_dims;
conv2d_dims conv2d_dims_of(const mba_node *n);

/* Every product is divided into blocks of positions, with one im2col matrix and one GEMM each. The matrix has at most
 * CONV2D_ELEMS elements, so that it is still in the inner caches when the GEMM packs it; conv2d.md explains the
 * sizes. */
enum {
    CONV2D_ELEMS = 128 * 1024,
    CONV2D_BLOCK_MIN = 64,
    CONV2D_BLOCK_MAX = 512,
    CONV2D_BLOCK_UNIT = 16,
    CONV2D_COLUMNS = 4
};
static inline int64_t conv2d_block(int64_t K)
{
    const int64_t fits = CONV2D_ELEMS / K / CONV2D_BLOCK_UNIT * CONV2D_BLOCK_UNIT;
    return fits < CONV2D_BLOCK_MIN ? CONV2D_BLOCK_MIN : fits > CONV2D_BLOCK_MAX ? CONV2D_BLOCK_MAX : fits;
}

/* Floats that one thread needs: a matrix of patches, whose rows may be padded, and backward the rows of dx of a
 * block. */
static inline int64_t conv2d_thread_floats(conv2d_dims d, bool backward)
{
    const int64_t K = d.taps * (backward && d.Co > d.Ci ? d.Co : d.Ci) + CONV2D_COLUMNS, least = CONV2D_BLOCK_MIN * K;
    return (least > CONV2D_ELEMS ? least : CONV2D_ELEMS) + (backward ? CONV2D_BLOCK_MAX * d.Ci : 0);
}

/* dw is computed in slices of its columns (i, j, ci), and each slice from parts of the positions, added in order. The
 * columns of a slice are padded with zeros to a multiple of CONV2D_COLUMNS, because OpenBLAS is slow at odd widths (27
 * for a stem). */
typedef struct conv2d_columns {
    int64_t slices, width, pitch, all;
} conv2d_columns;
conv2d_columns conv2d_columns_of(conv2d_dims d);
int64_t        conv2d_parts(conv2d_dims d);

/* CUDA: scratch of the plans; CUDA_PARTS (partial sums of dbias) only if there is a bias. */
enum { CUDA_WEIGHTS, CUDA_PIXELS, CUDA_LIBRARY, CUDA_DWEIGHTS, CUDA_PARTS };

/* Input channels as the library requires them: a multiple of 8 in bf16. */
static inline int64_t conv2d_padded(const mba_node *n)
{
    const int64_t Ci = mba_cols(n->in[X]);
    return n->in[X]->type.dtype == MBA_BF16 ? mba_ceil(Ci, 8) * 8 : Ci;
}

/* 16-byte vectors of the padded pixels. */
static inline int64_t conv2d_pixel_vectors(const mba_node *n)
{
    return mba_rows(n->in[X]) * conv2d_padded(n) * (int64_t)mba_dtype_bytes(n->in[X]->type.dtype) / 16;
}

/* CUDA: values per thread where the bias is added and where its gradient is summed. */
static inline int conv2d_bias_columns(const mba_node *n)
{
    const mba_tensor *const t[] = { n->in[DY] ? n->in[DY] : n->out[Y] };
    return mba__columns_at_once(t, 1);
}
/* "winograd": tiles of CONV2D_TILE^2 outputs with CONV2D_POINTS points each; a chunk holds up to CONV2D_CHUNK tiles.
 * dbias is summed in parts of CONV2D_PART positions. conv2d.md explains the sizes. */
enum { CONV2D_TILE = 4, CONV2D_POINTS = 36, CONV2D_CHUNK = 256, CONV2D_PART = 512, CONV2D_CHANNELS_MIN = 16 };
static inline int64_t conv2d_chunk(int64_t tiles) { return mba_ceil(tiles, mba_ceil(tiles, CONV2D_CHUNK)); }

void conv2d_ref(const mba_ref_call *c);
void conv2d_bwd_ref(const mba_ref_call *c);
MBA_CPU_DECLARE(conv2d_fwd);
MBA_CPU_DECLARE(conv2d_bwd);
mba_launch_fn conv2d_cuda, conv2d_bwd_cuda, conv2d_direct_cuda, conv2d_direct_bwd_cuda, conv2d_wgmma_cuda;
mba_plan_fn   conv2d_wgmma_plan; /* conv2d_wgmma.c */
MBA_CPU_DECLARE(conv2d_winograd_fwd);
MBA_CPU_DECLARE(conv2d_winograd_bwd);

#endif
