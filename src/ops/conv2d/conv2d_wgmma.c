// SPDX-License-Identifier: Apache-2.0
/* conv2d_wgmma.c -- the plan of "wgmma": which convolutions it takes, and its launches in the order of
 * conv2d_wgmma_cuda.cu. */
#include "ops/conv2d/conv2d_wgmma.h"

#include "core/device.h"

enum { PIXELS_MOST = 1 << 30, LDMATRIX_BYTES = 512 };

static bool whole_vectors(const mba_tensor *t)
{
    return t->offset % 8 == 0 && mba_ld(t) % 8 == 0 && (mba_dense(t) || t->run == mba_cols(t));
}

static mba_status takes(const mba_node *n, const mba_machine *m)
{
    const conv2d_dims d = conv2d_dims_of(n);
    MBA_REFUSE_IF(m->cc != 90, "a device of compute capability %d: wgmma is of 9.0 alone", m->cc);
    MBA_REFUSE_IF(n->in[X]->type.dtype != MBA_BF16 || n->in[W]->type.dtype != MBA_BF16,
                  "images or weights that are not bf16\nwhy: fp32 products do not run on the tensor cores");
    MBA_REFUSE_IF(d.kh != 3 || d.kw != 3 || d.stride != 1 || d.pad != 1,
                  "%lld x %lld taps, stride %lld, padding %lld: wants 3 x 3, 1 and 1", (long long)d.kh, (long long)d.kw,
                  (long long)d.stride, (long long)d.pad);
    MBA_REFUSE_IF(d.Ci % WG_K || d.Co % WG_CHANNELS, "%lld channels to %lld: wants multiples of %d and %d",
                  (long long)d.Ci, (long long)d.Co, WG_K, WG_CHANNELS);
    MBA_REFUSE_IF(d.B * d.H * d.W > PIXELS_MOST, "more than 2^30 pixels");
    MBA_REFUSE_IF(!whole_vectors(n->in[X]) || !whole_vectors(n->out[Y]),
                  "pixels that do not begin at multiples of 16 bytes");
    MBA_REFUSE_IF(n->in[BIAS] && n->in[BIAS]->offset % 4, "a bias that does not begin at a multiple of 16 bytes");
    const conv2d_tiles t = conv2d_tiles_of(d);
    MBA_REFUSE_IF(t.rows > WG_PATCH_MOST || WG_STAGES * t.stage > m->smem_block_bytes,
                  "images so low that 512 pixels and the zeros between images are %d rows", t.rows);
    return MBA_OK;
}

/* The filter in the order of its stages, then the tiles. */
mba_status conv2d_wgmma_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    enum { PIXELS = WG_WARPS * WG_ROWS * WG_COLUMNS, LDMATRIX = 18, WARPGROUPS = 2 };
    MBA_TRY(takes(n, m));
    const conv2d_tiles t = conv2d_tiles_of(conv2d_dims_of(n));
    const double       bytes = 2 * (double)mba_elems(n->in[W]), filter = WG_FILTER * WG_VECTOR_BYTES;
    mba_plan_scratch(p, "filter", (size_t)bytes);
    mba_launch *l = mba_plan_launch(p, "conv2d_wgmma_filter", MBA_COPYING,
                                    mba_ceil(mba_elems(n->in[W]) / 8, WG_THREADS), WG_THREADS);
    l->regs = 18;
    mba_phase_move(l, MBA_LOAD, MBA_ARG_IN(W), bytes / (double)l->grid[0]);
    mba_phase_move(l, MBA_STORE, MBA_ARG_SCRATCH(CUDA_WEIGHTS), bytes / (double)l->grid[0]);
    l = mba_plan_launch(p, "conv2d_wgmma", MBA_TENSOR, t.all < m->sm ? t.all : m->sm, WG_THREADS);
    l->regs = 219;
    l->ring_depth = WG_STAGES;
    l->smem_bytes = (size_t)(WG_STAGES * t.stage);
    l->persistent = true;
    l->tiles = t.all;
    mba_phase_work(l, MBA_LOOP, (double)t.all / (double)l->grid[0], NULL);
    mba_phase_work(l, MBA_LOOP, (double)t.chunks, NULL);
    mba_phase_work(l, MBA_BARRIER, 1, NULL);
    mba_phase_move(l, MBA_ASYNC, MBA_ARG_IN(X), 2.0 * WG_K * (double)(t.rows * (t.pitch - 1)));
    mba_phase_move(l, MBA_ASYNC, MBA_ARG_SCRATCH(CUDA_WEIGHTS), filter);
    mba_phase_work(l, MBA_SMEM, WG_WARPS * LDMATRIX * LDMATRIX_BYTES + WARPGROUPS * WG_COLUMNS * filter, NULL);
    mba_phase_work(l, MBA_MMA, 2.0 * PIXELS * WG_CHANNELS * WG_TAPS * WG_K, NULL);
    mba_phase_work(l, MBA_END, 0, NULL);
    mba_phase_out(l, n, Y, mba_tensor_bytes(n->out[Y]) / (double)t.all);
    mba_phase_work(l, MBA_END, 0, NULL);
    return MBA_OK;
}
