// SPDX-License-Identifier: Apache-2.0
/* conv2d.c -- y = bias + sum over taps and channels of w x, images with channels last: the declaration. */
#include "ops/conv2d/conv2d.h"

#include "core/device.h"
#include "ops/add/add.h"
#include "ops/cast/cast.h"
#include "ops/conv2d/conv2d_slots.h"

conv2d_dims conv2d_dims_of(const mba_node *n)
{
    const int64_t     *x = n->in[X]->type.dim, *w = n->in[W]->type.dim;
    const conv2d_attr *a = n->attr;
    return (conv2d_dims){ .B = x[0],
                          .H = x[1],
                          .W = x[2],
                          .Ci = x[3],
                          .Co = w[0],
                          .kh = w[2],
                          .kw = w[3],
                          .Ho = (x[1] + 2 * a->pad - w[2]) / a->stride + 1,
                          .Wo = (x[2] + 2 * a->pad - w[3]) / a->stride + 1,
                          .taps = w[2] * w[3],
                          .stride = a->stride,
                          .pad = a->pad };
}

static mba_status check_shapes(const mba_node *n)
{
    const mba_tensor  *x = n->in[X], *w = n->in[W], *bias = n->in[BIAS];
    const conv2d_attr *a = n->attr;
    MBA_TRY(mba__need_rows("conv2d", x));
    MBA_NEED(x->type.rank == 4, "conv2d: %s has %lld axes\nfix: (batch, height, width, channels)", x->name,
             (long long)x->type.rank);
    MBA_NEED(mba_dense(x) || x->run == mba_cols(x),
             "conv2d: the pixels of %s do not lie at one distance\n"
             "why: it is a part of an image\nfix: take a slice of channels, or copy it first",
             x->name);
    MBA_NEED(w->type.rank == 4 && mba_dense(w), "conv2d: the weight %s is not (out, in, height, width)", w->name);
    MBA_NEED(w->type.dim[1] == mba_cols(x), "conv2d: %s has %lld channels, %s takes %lld", x->name,
             (long long)mba_cols(x), w->name, (long long)w->type.dim[1]);
    MBA_NEED(!bias || (mba_dense(bias) && mba_elems(bias) == w->type.dim[0]),
             "conv2d: %lld channels out, a bias of %lld", (long long)w->type.dim[0], (long long)mba_elems(bias));
    MBA_NEED(a->stride > 0 && a->pad >= 0, "conv2d: a stride of %lld, a padding of %lld", (long long)a->stride,
             (long long)a->pad);
    for (int k = 0; k < 2; k++)
        MBA_NEED(x->type.dim[1 + k] + 2 * a->pad >= w->type.dim[2 + k],
                 "conv2d: %lld pixels, %lld taps\n"
                 "why: not one output would be left",
                 (long long)(x->type.dim[1 + k] + 2 * a->pad), (long long)w->type.dim[2 + k]);
    return MBA_OK;
}

static mba_status conv2d_shape(const mba_node *n, mba_type *out)
{
    MBA_TRY(check_shapes(n));
    const conv2d_dims d = conv2d_dims_of(n);
    out[Y] = n->in[X]->type;
    out[Y].dim[1] = d.Ho;
    out[Y].dim[2] = d.Wo;
    out[Y].dim[3] = d.Co;
    return MBA_OK;
}

static mba_status conv2d_bwd_shape(const mba_node *n, mba_type *out)
{
    if (((const conv2d_attr *)n->attr)->wants_dx) out[DX] = n->in[X]->type;
    out[DW] = n->in[W]->type;
    out[DW].dtype = MBA_F32;
    if (n->in[BIAS]) out[DBIAS] = MBA_TYPE(MBA_F32, mba_elems(n->in[BIAS]));
    return MBA_OK;
}

mba_tensor *mba_conv2d_(mba_graph *g, mba_conv2d_args a)
{
    const conv2d_attr t = { .stride = a.stride ? a.stride : 1, .pad = a.pad };
    return MBA_APPEND(g, conv2d, &t, a.x, a.w, a.bias)->out[Y];
}

static void conv2d_grad(mba_graph *g, const mba_node *n, mba_tensor *const *d)
{
    conv2d_attr t = *(const conv2d_attr *)n->attr;
    t.wants_dx = mba_wants(n->in[X]); // the pixels of an image have no gradient
    const mba_node *b = MBA_APPEND(g, conv2d_bwd, &t, n->in[X], n->in[W], n->in[BIAS], d[Y]);
    if (t.wants_dx) mba_grad_add(g, n->in[X], b->out[DX]);
    mba_grad_add(g, n->in[W], b->out[DW]);
    if (n->in[BIAS]) mba_grad_add(g, n->in[BIAS], b->out[DBIAS]);
}

/* One product forward, one or two backward; the bias is one addition per output. */
static mba_cost conv2d_cost(const mba_node *n)
{
    const conv2d_dims d = conv2d_dims_of(n);
    const double      E = (double)(d.B * d.Ho * d.Wo * d.Co);
    mba_cost          c = mba_cost_io(n);
    c.tensor_flops = 2 * E * (double)(d.Ci * d.taps) * (n->in[DY] && n->out[DX] ? 2 : 1);
    c.vector_flops = n->in[BIAS] ? E : 0;
    return c;
}

static double conv2d_terms(const mba_node *n, int out)
{
    (void)out;
    return (double)(conv2d_dims_of(n).taps * conv2d_dims_of(n).Ci);
}

static double conv2d_bwd_terms(const mba_node *n, int out)
{
    const conv2d_dims d = conv2d_dims_of(n);
    return (double)(out == DX ? d.taps * d.Co : d.B * d.Ho * d.Wo);
}

/* ---- plans for the CPU ---- */

/* One slice per row of the filter; if a row has few columns, all are one slice. */
conv2d_columns conv2d_columns_of(conv2d_dims d)
{
    enum { NARROW = 128 };
    conv2d_columns k = { .slices = d.kw * d.Ci < NARROW ? 1 : d.kh };
    k.width = d.taps * d.Ci / k.slices;
    k.pitch = mba_ceil(k.width, CONV2D_COLUMNS) * CONV2D_COLUMNS;
    k.all = k.slices * k.pitch;
    return k;
}

/* The number of partial sums of dw: one per block, at most 16, and beyond two only within a few megabytes. */
int64_t conv2d_parts(conv2d_dims d)
{
    enum { PARTS_MAX = 16, PARTS_MIN = 2, PARTS_ELEMS = 2 << 20 };
    const conv2d_columns k = conv2d_columns_of(d);
    const int64_t        blocks = mba_ceil(d.B * d.Ho * d.Wo, conv2d_block(k.pitch));
    int64_t              parts = PARTS_ELEMS / (k.all * d.Co);
    if (parts < PARTS_MIN) parts = PARTS_MIN;
    if (parts > PARTS_MAX) parts = PARTS_MAX;
    return parts < blocks ? parts : blocks;
}

static size_t threads_bytes(conv2d_dims d, bool backward)
{
    return sizeof(float) * (size_t)(conv2d_thread_floats(d, backward) * mba_cpu_threads());
}

static mba_status conv2d_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    MBA_TRY(mba__plan_f32(p, n, m));
    mba_plan_scratch(p, "weights", sizeof(float) * (size_t)mba_elems(n->in[W]));
    mba_plan_scratch(p, "threads", threads_bytes(conv2d_dims_of(n), false));
    return MBA_OK;
}

static mba_status conv2d_bwd_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    const conv2d_dims d = conv2d_dims_of(n);
    MBA_TRY(mba__plan_f32(p, n, m));
    mba_plan_scratch(p, "weights", sizeof(float) * (size_t)mba_elems(n->in[W]));
    mba_plan_scratch(p, "threads", threads_bytes(d, true));
    mba_plan_scratch(p, "dw and dbias parts",
                     sizeof(float) * (size_t)(conv2d_parts(d) * (conv2d_columns_of(d).all + 1) * d.Co));
    return MBA_OK;
}

/* ---- plans for CUDA: launches in the order of conv2d_cuda.cu ---- */

/* The first four are the same for both directions and both variants, so that launchers can use them by name. */
static void cuda_scratch(mba_plan *p, const mba_node *n, size_t library_bytes)
{
    const conv2d_dims d = conv2d_dims_of(n);
    const size_t      e = mba_dtype_bytes(n->in[X]->type.dtype);
    const size_t      filter = e * (size_t)(d.Co * d.taps * conv2d_padded(n));
    mba_plan_scratch(p, "filter", filter);
    mba_plan_scratch(p, "pixels",
                     library_bytes && conv2d_padded(n) != d.Ci ? e * (size_t)(d.B * d.H * d.W * conv2d_padded(n)) : 0);
    mba_plan_scratch(p, "library", library_bytes);
    mba_plan_scratch(p, "gradient of the filter", n->in[DY] ? filter : 0);
}

static void plan_bias_sums(mba_plan *p, const mba_node *n)
{
    if (n->in[BIAS]) mba__plan_column_sums(p, n, "conv2d_bias_sums", n->in[DY], 1, conv2d_bias_columns(n), 1u << DY);
}

static bool whole_vectors(const mba_tensor *t)
{
    return !t || (t->offset % 8 == 0 && mba_ld(t) % 8 == 0 && mba_cols(t) % 8 == 0);
}

/* Bytes of an operand: an input, an output or one of the scratch buffers above. */
static double bytes_of(const mba_plan *p, const mba_node *n, int operand)
{
    if (operand >= MBA_ARG_SCRATCH(0)) return (double)p->scratch[operand - MBA_ARG_SCRATCH(0)].bytes;
    return mba_tensor_bytes(operand < MBA_IN_MAX ? n->in[operand] : n->out[operand - MBA_IN_MAX]);
}

/* A launch in which `threads` threads move all of `from` to `to`, with `quotients` 64-bit divisions each to find the
 * indices. The operations of a division are those that the compiler emits if 32 bits suffice, counted on an H200
 * (conv2d_pixels has one: 22 ALU, 19 FMA, 3 special of 68 instructions). */
typedef struct moving {
    const char *kernel;
    int64_t     threads;
    int         quotients, from, to;
    double      adds;
} moving;

static mba_launch *plan_moving(mba_plan *p, const mba_node *n, moving x)
{
    enum { THREADS = 256, ALU_QUOTIENT = 14, FMA_QUOTIENT = 16, SFU_QUOTIENT = 3, ALU_MORE = 8, FMA_MORE = 3 };
    static const char mix[] = "64-bit quotients";
    mba_launch       *l = mba_plan_launch(p, x.kernel, MBA_VECTOR, mba_ceil(x.threads, THREADS), THREADS);
    const double      grid = (double)l->grid[0], q = x.quotients;
    l->regs = 32;
    mba_phase_work(l, MBA_ALU, THREADS * (q * ALU_QUOTIENT + ALU_MORE), mix);
    mba_phase_work(l, MBA_FMA, THREADS * (q * FMA_QUOTIENT + FMA_MORE + x.adds), mix);
    mba_phase_work(l, MBA_SFU, THREADS * q * SFU_QUOTIENT, mix);
    mba_phase_move(l, MBA_LOAD, x.from, bytes_of(p, n, x.from) / grid);
    mba_phase_move(l, MBA_STORE, x.to, bytes_of(p, n, x.to) / grid);
    return l;
}

static bool pads(const mba_node *n) { return conv2d_padded(n) != mba_cols(n->in[X]); }

/* Converts the filter, and padded pixels for the stem, to the layout of the library. */
static void plan_layouts(mba_plan *p, const mba_node *n)
{
    const conv2d_dims d = conv2d_dims_of(n);
    const int64_t     wide = conv2d_padded(n);
    plan_moving(p, n,
                (moving){ "conv2d_filter", d.Co * d.taps * wide, 2, MBA_ARG_IN(W), MBA_ARG_SCRATCH(CUDA_WEIGHTS), 0 });
    if (pads(n))
        plan_moving(p, n,
                    (moving){ "conv2d_pixels", conv2d_pixel_vectors(n), 1, MBA_ARG_IN(X), MBA_ARG_SCRATCH(CUDA_PIXELS),
                              0 });
}

/* A kernel of the library, as an implicit product of (rows, depth) and (depth, columns): tiles of 128 x 128, a ring of
 * four stages. If there are fewer tiles than SMs, the depth is divided among several blocks. */
typedef struct product {
    int64_t rows, columns, depth;
    int     a, b, to;
    bool    adds;
} product;

static void plan_product(mba_plan *p, const mba_node *n, const product *x, const mba_machine *m)
{
    enum { T = 128, TK = 64, STAGES = 4, THREADS = 256 };
    const double  e = (double)mba_dtype_bytes(n->in[X]->type.dtype);
    const int64_t tiles = mba_ceil(x->rows, T) * mba_ceil(x->columns, T), steps = mba_ceil(x->depth, TK);
    const int64_t most = m->sm / tiles > 1 ? m->sm / tiles : 1, parts = most < steps ? most : steps;
    mba_launch   *l = mba_plan_launch(p, "cudnn_conv2d", MBA_TENSOR, tiles * parts, THREADS);
    l->regs = 168;
    l->ring_depth = STAGES;
    l->smem_bytes = 0;
    mba_phase_work(l, MBA_LOOP, (double)steps / (double)parts, NULL);
    mba_phase_move(l, MBA_ASYNC, x->a, T * TK * e);
    mba_phase_move(l, MBA_ASYNC, x->b, T * TK * e);
    mba_phase_work(l, MBA_MMA, 2.0 * T * T * TK, NULL);
    mba_phase_work(l, MBA_END, 0, NULL);
    if (x->adds) mba_phase_move(l, MBA_LOAD, x->to, bytes_of(p, n, x->to) / (double)l->grid[0]);
    mba_phase_move(l, MBA_STORE, x->to, bytes_of(p, n, x->to) / (double)l->grid[0]);
}

static mba_status takes_library(const mba_node *n, const mba_machine *m)
{
    const conv2d_dims d = conv2d_dims_of(n);
    const mba_tensor *y = n->in[DY] ? n->in[DY] : n->out[Y];
    const bool        half = n->in[X]->type.dtype == MBA_BF16, stem = d.Ci % 8 && !(n->in[DY] && n->out[DX]);
    MBA_REFUSE_IF(m->cc < 80, "a device of compute capability %d", m->cc);
    MBA_REFUSE_IF(n->in[W]->type.dtype != n->in[X]->type.dtype, "weights of another type than the image");
    MBA_REFUSE_IF(!mba_dense(n->in[X]) || !mba_dense(y) || (n->in[DY] && n->out[DX] && !mba_dense(n->out[DX])),
                  "a part of the channels\n"
                  "why: the library's kernels take whole images");
    MBA_REFUSE_IF(half && !whole_vectors(y), "%lld channels out\nwhy: the library wants whole vectors of 8 in bf16",
                  (long long)d.Co);
    MBA_REFUSE_IF(half && !stem && (!whole_vectors(n->in[X]) || (n->in[DY] && !whole_vectors(n->out[DX]))),
                  "%lld channels in\nwhy: the library wants whole vectors of 8 in bf16", (long long)d.Ci);
    return MBA_OK;
}

enum { DNN_WORK_BYTES = 256 << 20 }; /* as in device/cuda/dnn.h */

static mba_status conv2d_cudnn_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    const conv2d_dims d = conv2d_dims_of(n);
    MBA_TRY(takes_library(n, m));
    cuda_scratch(p, n, DNN_WORK_BYTES);
    plan_layouts(p, n);
    plan_product(p, n,
                 &(product){ d.B * d.Ho * d.Wo, d.Co, d.taps * conv2d_padded(n),
                             pads(n) ? MBA_ARG_SCRATCH(CUDA_PIXELS) : MBA_ARG_IN(X), MBA_ARG_SCRATCH(CUDA_WEIGHTS),
                             MBA_ARG_OUT(Y), false },
                 m);
    if (!n->in[BIAS]) return MBA_OK;
    const int wide = conv2d_bias_columns(n);
    plan_moving(p, n,
                (moving){ "conv2d_bias", mba_ceil(mba_elems(n->out[Y]), wide), 1, MBA_ARG_OUT(Y), MBA_ARG_OUT(Y),
                          wide }); // the bias stays in L1
    return MBA_OK;
}

/* With a stride, a pixel of dx depends on fewer taps: its products are 1 / stride^2 of those without. */
static mba_status conv2d_bwd_cudnn_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    const conv2d_dims d = conv2d_dims_of(n);
    MBA_TRY(takes_library(n, m));
    cuda_scratch(p, n, DNN_WORK_BYTES);
    plan_layouts(p, n);
    plan_product(p, n,
                 &(product){ d.Co, d.taps * conv2d_padded(n), d.B * d.Ho * d.Wo, MBA_ARG_IN(DY),
                             pads(n) ? MBA_ARG_SCRATCH(CUDA_PIXELS) : MBA_ARG_IN(X), MBA_ARG_SCRATCH(CUDA_DWEIGHTS),
                             false },
                 m);
    mba_launch *l = plan_moving(p, n,
                                (moving){ "conv2d_dfilter", mba_elems(n->in[W]), 2, MBA_ARG_SCRATCH(CUDA_DWEIGHTS),
                                          MBA_ARG_OUT(DW), 0 });
    if (mba_adds(n, DW))
        mba_phase_move(l, MBA_LOAD, MBA_ARG_OUT(DW), bytes_of(p, n, MBA_ARG_OUT(DW)) / (double)l->grid[0]);
    plan_bias_sums(p, n);
    if (n->out[DX])
        plan_product(p, n,
                     &(product){ d.B * d.H * d.W, d.Ci, mba_ceil(d.taps * d.Co, d.stride * d.stride), MBA_ARG_IN(DY),
                                 MBA_ARG_SCRATCH(CUDA_WEIGHTS), MBA_ARG_OUT(DX), mba_adds(n, DX) },
                     m);
    return MBA_OK;
}

/* One product in plain loops: an output per thread, or for dw per block. */
static void plan_loops(mba_plan *p, const mba_node *n, const char *kernel, int64_t grid, int out)
{
    const conv2d_dims d = conv2d_dims_of(n);
    mba_launch       *l = mba_plan_launch(p, kernel, MBA_VECTOR, grid, 256);
    l->regs = 48; // estimate
    for (int k = X; k <= DY; k++)
        if (n->in[k]) mba_phase_move(l, MBA_LOAD, MBA_ARG_IN(k), mba_tensor_bytes(n->in[k]) / (double)grid);
    mba_phase_work(l, MBA_FMA, (double)(d.B * d.Ho * d.Wo * d.Co) * (double)(d.Ci * d.taps) / (double)grid, NULL);
    mba_phase_out(l, n, out, mba_tensor_bytes(n->out[out]) / (double)grid);
}

static mba_status conv2d_direct_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    MBA_REFUSE_IF(m->cc < 80, "a device of compute capability %d", m->cc);
    MBA_REFUSE_IF(n->in[W]->type.dtype != n->in[X]->type.dtype, "weights of another type than the image");
    cuda_scratch(p, n, 0);
    if (!n->in[DY]) {
        plan_loops(p, n, "conv2d_direct", mba_ceil(mba_elems(n->out[Y]), 256), Y);
        return MBA_OK;
    }
    plan_loops(p, n, "conv2d_direct_dw", mba_elems(n->in[W]), DW);
    plan_bias_sums(p, n);
    if (n->out[DX]) plan_loops(p, n, "conv2d_direct_dx", mba_ceil(mba_elems(n->out[DX]), 256), DX);
    return MBA_OK;
}

static mba_status refuse_winograd(const mba_node *n)
{
    const conv2d_dims d = conv2d_dims_of(n);
    MBA_REFUSE_IF(d.kh != 3 || d.kw != 3 || d.stride != 1, "%lld x %lld taps, stride %lld: wants 3 x 3 and 1",
                  (long long)d.kh, (long long)d.kw, (long long)d.stride);
    MBA_REFUSE_IF(d.Ci < CONV2D_CHANNELS_MIN || d.Co < CONV2D_CHANNELS_MIN,
                  "%lld channels to %lld: with so few, spreading costs more than it saves", (long long)d.Ci,
                  (long long)d.Co);
    return MBA_OK;
}

/* Scratch for a chunk of transformed tiles, in and out; it suffices for the tiles of y and, backward, of dx. */
static void plan_winograd(mba_plan *p, const mba_node *n, int64_t tiles)
{
    const conv2d_dims d = conv2d_dims_of(n);
    const size_t      points = sizeof(float) * CONV2D_POINTS;
    mba_plan_scratch(p, "weights", points * (size_t)(d.Ci * d.Co));
    mba_plan_scratch(p, "points in", points * (size_t)(conv2d_chunk(tiles) * d.Ci));
    mba_plan_scratch(p, "points out", points * (size_t)(conv2d_chunk(tiles) * d.Co));
}

static int64_t tiles_of(int64_t images, int64_t height, int64_t width)
{
    return images * mba_ceil(height, CONV2D_TILE) * mba_ceil(width, CONV2D_TILE);
}

static mba_status conv2d_winograd_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    const conv2d_dims d = conv2d_dims_of(n);
    MBA_TRY(mba__plan_f32(p, n, m));
    MBA_TRY(refuse_winograd(n));
    plan_winograd(p, n, tiles_of(d.B, d.Ho, d.Wo));
    return MBA_OK;
}

static mba_status conv2d_winograd_bwd_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    const conv2d_dims d = conv2d_dims_of(n);
    const int64_t     y = tiles_of(d.B, d.Ho, d.Wo), x = tiles_of(d.B, d.H, d.W);
    MBA_TRY(mba__plan_f32(p, n, m));
    MBA_TRY(refuse_winograd(n));
    plan_winograd(p, n, conv2d_chunk(x) > conv2d_chunk(y) ? x : y);
    mba_plan_scratch(p, "dbias parts", sizeof(float) * (size_t)(mba_ceil(d.B * d.Ho * d.Wo, CONV2D_PART) * d.Co));
    return MBA_OK;
}

/* ---- cases: B, H, W, Ci, Co, kh * 16 + kw, stride * 16 + pad, and bits ---- */

enum { WITH_BIAS = 1, CHANNELS = 2, TWICE = 4, PIXELS = 8, VECTORS = 16 };
#define KERNEL(kh, kw)     ((kh)*16 + (kw))
#define STEPS(stride, pad) ((stride)*16 + (pad))

static void conv2d_build(mba_graph *g, const mba_case *c)
{
    const int64_t  *d = c->dim, B = d[0], H = d[1], wide = d[2], Ci = d[3], Co = d[4], how = d[7];
    const mba_init  random = MBA_INIT_NORMAL(1);
    const mba_type  type = MBA_TYPE(MBA_F32, B, H, wide, how & CHANNELS ? Ci + 3 : how & VECTORS ? Ci + 24 : Ci);
    mba_tensor     *x = how & PIXELS ? mba_cast(g, mba_input(g, "x", type), g->compute)
                                     : mba_case_act(g, "x", type, random);
    mba_conv2d_args a = { .x = x, .stride = d[6] / 16, .pad = d[6] % 16 };
    a.w = mba_param(g, "w", MBA_TYPE(g->compute, Co, Ci, d[5] / 16, d[5] % 16), random, MBA_DECAY);
    if (how & WITH_BIAS) a.bias = mba_param(g, "bias", MBA_TYPE(MBA_F32, Co), random, MBA_NO_DECAY);
    if (how & CHANNELS) a.x = mba_slice(g, mba_add(g, x, x), 3, 2, Ci);
    if (how & VECTORS) a.x = mba_slice(g, mba_add(g, x, x), 3, 8, Ci); // begins at a multiple of 16 bytes
    mba_tensor *y = mba_conv2d_(g, a);
    if (!(how & TWICE)) return;
    mba_tensor *j = mba_concat(g, y, mba_conv2d_(g, a));
    mba_add(g, j, j);
}

const mba_op mba_op_conv2d = {
    .name = "conv2d",
    .doc = "convolution of images, channels last",
    .kind = MBA_CONV,
    .tf32 = 1,
    .in = { [X] = MBA_SLOT("x"), [W] = MBA_SLOT("w"), [BIAS] = MBA_SLOT("bias", .optional = true) },
    .out = { [Y] = MBA_SLOT("y") },
    .attr_bytes = sizeof(conv2d_attr),
    .shape = conv2d_shape,
    .grad = conv2d_grad,
    .cost = conv2d_cost,
    .ref = conv2d_ref,
    .terms = conv2d_terms,
    .cpu = (const mba_variant[]){ { "winograd", conv2d_winograd_plan, MBA_CPU(conv2d_winograd_fwd) },
                                  { "patches", conv2d_plan, MBA_CPU(conv2d_fwd) },
                                  { 0 } },
    .cuda = (const mba_variant[]){ { "wgmma", conv2d_wgmma_plan, MBA_CUDA(conv2d_wgmma_cuda) },
                                   { "cudnn", conv2d_cudnn_plan, MBA_CUDA(conv2d_cuda) },
                                   { "direct", conv2d_direct_plan, MBA_CUDA(conv2d_direct_cuda) },
                                   { 0 } },
    .build = conv2d_build,
    .cases =
        (const mba_case[]){
            { { 2, 4, 5, 3, 2, KERNEL(3, 3), STEPS(1, 1), WITH_BIAS }, "the conv block" },
            { { 1, 6, 4, 2, 3, KERNEL(3, 3), STEPS(2, 1), 0 }, "downsampling, even sides" },
            { { 2, 5, 7, 2, 3, KERNEL(3, 3), STEPS(2, 1), WITH_BIAS }, "downsampling, odd sides" },
            { { 1, 3, 4, 5, 3, KERNEL(1, 1), STEPS(1, 0), 0 }, "one tap" },
            { { 1, 5, 4, 2, 3, KERNEL(1, 1), STEPS(2, 0), 0 }, "one tap, strided: pixels that nobody sees" },
            { { 1, 1, 1, 3, 2, KERNEL(3, 3), STEPS(1, 1), 0 }, "one pixel" },
            { { 1, 5, 8, 2, 2, KERNEL(2, 4), STEPS(3, 2), WITH_BIAS }, "stride 3, sides of a kernel that differ" },
            { { 1, 7, 6, 2, 1, KERNEL(5, 3), STEPS(1, 0), 0 }, "no padding" },
            { { 1, 4, 4, 3, 2, KERNEL(3, 3), STEPS(2, 1), CHANNELS | TWICE | WITH_BIAS },
              "channels in and out, added to" },
            { { 1, 3, 4, 3, 2, KERNEL(3, 3), STEPS(1, 1), CHANNELS | TWICE }, "the same, without a stride" },
            { { 2, 7, 5, 3, 4, KERNEL(3, 3), STEPS(2, 1), PIXELS }, "the stem: x wants no gradient" },
            { { 1, 4, 3, 8, 8, KERNEL(3, 3), STEPS(1, 1), WITH_BIAS }, "channels in whole vectors of 16 bytes" },
            { { 2, 4, 5, 3, 8, KERNEL(3, 3), STEPS(2, 1), PIXELS }, "a stem with whole vectors out" },
            { { 1, 5, 9, 16, 17, KERNEL(3, 3), STEPS(1, 1), WITH_BIAS }, "tiles: sides that 4 does not divide" },
            { { 2, 4, 4, 18, 16, KERNEL(3, 3), STEPS(1, 0), 0 }, "tiles: no padding, x larger than y" },
            { { 1, 3, 5, 16, 19, KERNEL(3, 3), STEPS(1, 2), CHANNELS | TWICE | WITH_BIAS },
              "tiles: channels, added to" },
            { { 0 }, NULL } },
    .device_cases =
        (const mba_case[]){
            { { 3, 7, 5, 16, 80, KERNEL(3, 3), STEPS(1, 1), WITH_BIAS }, "wgmma: a tile across small odd images" },
            { { 2, 9, 19, 48, 80, KERNEL(3, 3), STEPS(1, 1), VECTORS | TWICE | WITH_BIAS },
              "wgmma: strips of 4 columns, channels in and out, added to" },
            { { 1, 13, 23, 80, 160, KERNEL(3, 3), STEPS(1, 1), 0 }, "wgmma: strips of 12 columns, the last narrower" },
            { { 3, 45, 14, 16, 80, KERNEL(3, 3), STEPS(1, 1), WITH_BIAS }, "wgmma: tiles below each other, batch 3" },
            { { 1, 2, 536, 16, 160, KERNEL(3, 3), STEPS(1, 1), WITH_BIAS }, "wgmma: more tiles than SMs" },
            { { 1, 21, 28, 160, 80, KERNEL(3, 3), STEPS(1, 1), WITH_BIAS }, "wgmma: as stage 1, fewer pixels" },
            { { 0 }, NULL } },
    .sizes =
        (const mba_case[]){
            { { 8, 56, 56, 80, 80, KERNEL(3, 3), STEPS(1, 1), WITH_BIAS }, "mambavision-t stage 0, batch 8" },
            { { 8, 28, 28, 160, 160, KERNEL(3, 3), STEPS(1, 1), WITH_BIAS }, "mambavision-t stage 1, batch 8" },
            { { 8, 224, 224, 3, 32, KERNEL(3, 3), STEPS(2, 1), PIXELS }, "mambavision-t stem 1, batch 8" },
            { { 8, 28, 28, 160, 320, KERNEL(3, 3), STEPS(2, 1) }, "mambavision-t downsample 1, batch 8" },
            { { 0 }, NULL } },
};

const mba_op mba_op_conv2d_bwd = {
    .name = "conv2d_bwd",
    .doc = "gradients of conv2d",
    .kind = MBA_CONV,
    .tf32 = 1,
    .no_grad = "a gradient",
    .in = { [X] = MBA_SLOT("x"),
            [W] = MBA_SLOT("w"),
            [BIAS] = MBA_SLOT("bias", .optional = true),
            [DY] = MBA_SLOT("dy") },
    .out = { [DX] = MBA_SLOT("dx", .adds = true),
             [DW] = MBA_SLOT("dw", .adds = true),
             [DBIAS] = MBA_SLOT("dbias", .adds = true) },
    .attr_bytes = sizeof(conv2d_attr),
    .shape = conv2d_bwd_shape,
    .cost = conv2d_cost,
    .ref = conv2d_bwd_ref,
    .terms = conv2d_bwd_terms,
    .cpu = (const mba_variant[]){ { "winograd", conv2d_winograd_bwd_plan, MBA_CPU(conv2d_winograd_bwd) },
                                  { "patches", conv2d_bwd_plan, MBA_CPU(conv2d_bwd) },
                                  { 0 } },
    .cuda = (const mba_variant[]){ { "cudnn", conv2d_bwd_cudnn_plan, MBA_CUDA(conv2d_bwd_cuda) },
                                   { "direct", conv2d_direct_plan, MBA_CUDA(conv2d_direct_bwd_cuda) },
                                   { 0 } },
};
