// SPDX-License-Identifier: Apache-2.0
/* windows.c -- converts images to windows of tokens and back; each operator is the gradient of the other: the
 * declaration. */
#include "ops/windows/windows.h"

#include "ops/add/add.h"
#include "ops/cast/cast.h"
#include "ops/windows/windows_slots.h"

static mba_status partition_shape(const mba_node *n, mba_type *out)
{
    const windows_attr *a = n->attr;
    const mba_tensor   *x = n->in[FROM];
    MBA_TRY(mba__need_rows("window_partition", x));
    MBA_NEED(x->type.rank == 4, "window_partition: %s has %lld axes\nfix: (batch, height, width, channels)", x->name,
             (long long)x->type.rank);
    MBA_NEED(a->w > 0, "window_partition: windows of side %lld", (long long)a->w);
    out[TO] = x->type;
    out[TO].rank = 3;
    out[TO].dim[0] = windows_tokens(a) / (a->w * a->w);
    out[TO].dim[1] = a->w * a->w;
    out[TO].dim[2] = mba_cols(x);
    out[TO].dim[3] = 0;
    return MBA_OK;
}

static mba_status reverse_shape(const mba_node *n, mba_type *out)
{
    const windows_attr *a = n->attr;
    const mba_tensor   *t = n->in[FROM];
    MBA_TRY(mba__need_rows("window_reverse", t));
    MBA_NEED(t->type.rank == 3 && a->w > 0 && a->w * a->w == t->type.dim[1],
             "window_reverse: %s is not (windows, side * side, channels)", t->name);
    MBA_NEED(a->B > 0 && a->H > 0 && a->W > 0 && windows_tokens(a) == mba_rows(t),
             "window_reverse: %lld images of %lld x %lld have %lld tokens in windows of side %lld, %s has %lld",
             (long long)a->B, (long long)a->H, (long long)a->W, (long long)windows_tokens(a), (long long)a->w, t->name,
             (long long)mba_rows(t));
    out[TO] = t->type;
    out[TO].rank = 4;
    out[TO].dim[0] = a->B;
    out[TO].dim[1] = a->H;
    out[TO].dim[2] = a->W;
    out[TO].dim[3] = mba_cols(t);
    return MBA_OK;
}

mba_tensor *mba_window_partition(mba_graph *g, mba_tensor *x, int64_t w)
{
    const int64_t     *d = x->type.dim;
    const windows_attr a = { .B = d[0], .H = d[1], .W = d[2], .w = w };
    if (x->type.rank == 4 && d[1] == w && d[2] == w) {
        mba_type tokens = MBA_TYPE(x->type.dtype, d[0], w * w, d[3]);
        tokens.count = x->type.count;
        return mba_reshape(g, x, tokens);
    }
    return MBA_APPEND(g, window_partition, &a, x)->out[TO];
}

mba_tensor *mba_window_reverse(mba_graph *g, mba_tensor *t, int64_t B, int64_t H, int64_t W)
{
    windows_attr a = { .B = B, .H = H, .W = W };
    for (int64_t w = 1; t->type.rank == 3 && w * w <= t->type.dim[1]; w++) a.w = w;
    if (t->type.rank == 3 && a.w * a.w == t->type.dim[1] && H == a.w && W == a.w && B == t->type.dim[0]) {
        mba_type image = MBA_TYPE(t->type.dtype, B, H, W, t->type.dim[2]);
        image.count = t->type.count;
        return mba_reshape(g, t, image);
    }
    return MBA_APPEND(g, window_reverse, &a, t)->out[TO];
}

static void partition_grad(mba_graph *g, const mba_node *n, mba_tensor *const *d)
{
    mba_grad_add(g, n->in[FROM], MBA_APPEND(g, window_reverse, n->attr, d[TO])->out[TO]);
}

static void reverse_grad(mba_graph *g, const mba_node *n, mba_tensor *const *d)
{
    mba_grad_add(g, n->in[FROM], MBA_APPEND(g, window_partition, n->attr, d[TO])->out[TO]);
}

/* dims: B, H, W, C, side, and bits. The image is divided into windows and, after a sum, put together again. */
enum { CHANNELS = 1, TWICE = 2 };

static void partition_build(mba_graph *g, const mba_case *c)
{
    const int64_t *d = c->dim;
    const mba_type type = MBA_TYPE(MBA_F32, d[0], d[1], d[2], d[5] & CHANNELS ? d[3] + 3 : d[3]);
    mba_tensor    *x = mba_case_act(g, "x", type, MBA_INIT_NORMAL(1));
    if (d[5] & CHANNELS) x = mba_slice(g, mba_add(g, x, x), 3, 2, d[3]);
    mba_tensor *t = mba_window_partition(g, x, d[4]);
    if (d[5] & TWICE) {
        mba_tensor *j = mba_concat(g, t, mba_window_partition(g, x, d[4]));
        mba_add(g, j, j);
    }
}

/* The tokens themselves are the parameter: padding must get a gradient of exactly 0. */
static void reverse_build(mba_graph *g, const mba_case *c)
{
    const int64_t *d = c->dim, w = d[4];
    const int64_t  M = d[0] * mba_ceil(d[1], w) * mba_ceil(d[2], w), C = d[5] & CHANNELS ? d[3] + 3 : d[3];
    mba_tensor    *t = mba_case_act(g, "t", MBA_TYPE(MBA_F32, M, w * w, C), MBA_INIT_NORMAL(1));
    if (d[5] & CHANNELS) t = mba_slice(g, mba_add(g, t, t), 2, 2, d[3]);
    mba_tensor *x = mba_window_reverse(g, t, d[0], d[1], d[2]);
    if (d[5] & TWICE) {
        mba_tensor *j = mba_concat(g, x, mba_window_reverse(g, t, d[0], d[1], d[2]));
        mba_add(g, j, j);
    }
}

static const mba_case cases[] = { { { 2, 4, 6, 3, 2 }, "windows that fit" },
                                  { { 2, 5, 7, 3, 3 }, "padding at the bottom and at the right" },
                                  { { 1, 2, 5, 2, 4 }, "a window higher than the image" },
                                  { { 2, 3, 4, 2, 1 }, "windows of one pixel" },
                                  { { 2, 5, 3, 3, 2, CHANNELS | TWICE }, "channels in and out, added to" },
                                  { { 0 }, NULL } };

static const mba_case sizes[] = { { { 8, 28, 28, 320, 14 }, "mambavision-t stage 2 at 448 px, batch 8" },
                                  { { 128, 28, 28, 320, 14 }, "mambavision-t stage 2 at 448 px, batch 128" },
                                  { { 0 }, NULL } };

const mba_op mba_op_window_partition = {
    .name = "window_partition",
    .doc = "an image as windows of tokens, zeros at its edges",
    .kind = MBA_MEMORY,
    .in = { [FROM] = MBA_SLOT("image") },
    .out = { [TO] = MBA_SLOT("tokens", .adds = true, .cheap = true) },
    .attr_bytes = sizeof(windows_attr),
    .shape = partition_shape,
    .grad = partition_grad,
    .cost = mba_cost_io,
    .ref = window_partition_ref,
    .cpu = (const mba_variant[]){ { "rows", mba__plan_f32, MBA_CPU(window_partition) }, { 0 } },
    .cuda = (const mba_variant[]){ { "stream", mba_plan_streaming, MBA_CUDA(window_partition_cuda) }, { 0 } },
    .build = partition_build,
    .cases = cases,
    .sizes = sizes,
};

const mba_op mba_op_window_reverse = {
    .name = "window_reverse",
    .doc = "windows of tokens as an image, cropped",
    .kind = MBA_MEMORY,
    .in = { [FROM] = MBA_SLOT("tokens") },
    .out = { [TO] = MBA_SLOT("image", .adds = true, .cheap = true) },
    .attr_bytes = sizeof(windows_attr),
    .shape = reverse_shape,
    .grad = reverse_grad,
    .cost = mba_cost_io,
    .ref = window_reverse_ref,
    .cpu = (const mba_variant[]){ { "rows", mba__plan_f32, MBA_CPU(window_reverse) }, { 0 } },
    .cuda = (const mba_variant[]){ { "stream", mba_plan_streaming, MBA_CUDA(window_reverse_cuda) }, { 0 } },
    .build = reverse_build,
    .cases = cases,
    .sizes = sizes,
};
