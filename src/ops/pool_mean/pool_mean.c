// SPDX-License-Identifier: Apache-2.0
/* pool_mean.c -- y[b,c] = mean of x[b,..,c], dx = dy / positions: the declaration. */
#include "ops/pool_mean/pool_mean.h"

#include "ops/add/add.h"
#include "ops/cast/cast.h"
#include "ops/pool_mean/pool_mean_slots.h"

static mba_status pool_mean_shape(const mba_node *n, mba_type *out)
{
    const mba_tensor *x = n->in[X];
    MBA_TRY(mba__need_rows("pool_mean", x));
    MBA_NEED(x->type.rank >= 3, "pool_mean: %s has %lld axes\nfix: (batch, height, width, channels)", x->name,
             (long long)x->type.rank);
    out[Y] = MBA_TYPE(x->type.dtype, x->type.dim[0], mba_cols(x));
    out[Y].count = x->type.count;
    return MBA_OK;
}

static mba_status pool_mean_bwd_shape(const mba_node *n, mba_type *out)
{
    out[DX] = ((const pool_mean_attr *)n->attr)->image;
    return MBA_OK;
}

mba_tensor *mba_pool_mean(mba_graph *g, mba_tensor *x) { return MBA_APPEND(g, pool_mean, NULL, x)->out[Y]; }

static void pool_mean_grad(mba_graph *g, const mba_node *n, mba_tensor *const *d)
{
    const pool_mean_attr a = { n->in[X]->type };
    mba_grad_add(g, n->in[X], MBA_APPEND(g, pool_mean_bwd, &a, d[Y])->out[DX]);
}

static mba_cost pool_mean_cost(const mba_node *n)
{
    mba_cost c = mba_cost_io(n);
    c.vector_flops = (double)mba_elems(n->in[X]); // additions forward, one scaling per value of dy backward
    return c;
}

static double pool_mean_terms(const mba_node *n, int out)
{
    const int64_t each = mba_rows(n->in[X]) / n->in[X]->type.dim[0];
    (void)out;
    return (double)each;
}

static mba_status pool_mean_images_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    const mba_tensor *x = n->in[X];
    MBA_REFUSE_IF(m->cc < 80, "a device of compute capability %d", m->cc);
    mba_plan_stream(p, n, "pool_mean_fwd_images",
                    x->type.dim[0] * pool_mean_tiles(mba_cols(x), pool_mean_at_once(x, n->out[Y])), 256, 36);
    return MBA_OK;
}

static mba_status pool_mean_bwd_vec16_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    const mba_tensor *dx = n->out[DX];
    MBA_REFUSE_IF(m->cc < 80, "a device of compute capability %d", m->cc);
    mba_plan_stream(p, n, "pool_mean_bwd_vec16", mba_ceil(mba_elems(dx), 256 * pool_mean_at_once(dx, n->in[DY])), 256,
                    34);
    return MBA_OK;
}

/* dims: B, H, W, C; with a fifth, x is a view of channels that is used twice. */
static void pool_mean_build(mba_graph *g, const mba_case *c)
{
    const int64_t *d = c->dim;
    mba_tensor    *x = mba_case_act(g, "x", MBA_TYPE(MBA_F32, d[0], d[1], d[2], d[3] + d[4]), MBA_INIT_NORMAL(1));
    if (!d[4]) {
        mba_pool_mean(g, x);
        return;
    }
    x = mba_slice(g, mba_add(g, x, x), 3, 1, d[3]);
    mba_tensor *j = mba_concat(g, mba_pool_mean(g, x), mba_pool_mean(g, x));
    mba_add(g, j, j);
}

const mba_op mba_op_pool_mean = {
    .name = "pool_mean",
    .doc = "the mean over positions",
    .kind = MBA_REDUCTION,
    .in = { [X] = MBA_SLOT("x") },
    .out = { [Y] = MBA_SLOT("y") },
    .shape = pool_mean_shape,
    .grad = pool_mean_grad,
    .cost = pool_mean_cost,
    .ref = pool_mean_ref,
    .terms = pool_mean_terms,
    .cpu = (const mba_variant[]){ { "channels", mba__plan_f32, MBA_CPU(pool_mean_fwd) }, { 0 } },
    .cuda = (const mba_variant[]){ { "images", pool_mean_images_plan, MBA_CUDA(pool_mean_cuda) }, { 0 } },
    .build = pool_mean_build,
    .cases = (const mba_case[]){ { { 3, 2, 5, 7 }, "nothing is a multiple of anything" },
                                 { { 1, 2, 1, 1027 }, "more channels than one item takes" },
                                 { { 2, 1, 1, 4 }, "one position" },
                                 { { 2, 3, 3, 264 }, "vectors of 16 bytes, more than a warp has" },
                                 { { 2, 1, 3, 8, 8 }, "channels in and out, of which one begins in a vector" },
                                 { { 2, 3, 2, 5, 3 }, "channels in and out, added to" },
                                 { { 0 }, NULL } },
    .sizes = (const mba_case[]){ { { 128, 7, 7, 640 }, "mambavision-t, batch 128" }, { { 0 }, NULL } },
};

const mba_op mba_op_pool_mean_bwd = {
    .name = "pool_mean_bwd",
    .doc = "dx = dy / positions",
    .kind = MBA_REDUCTION,
    .no_grad = "a gradient",
    .in = { [DY] = MBA_SLOT("dy") },
    .out = { [DX] = MBA_SLOT("dx", .adds = true) },
    .attr_bytes = sizeof(pool_mean_attr),
    .shape = pool_mean_bwd_shape,
    .cost = pool_mean_cost,
    .ref = pool_mean_bwd_ref,
    .cpu = (const mba_variant[]){ { "rows", mba__plan_f32, MBA_CPU(pool_mean_bwd) }, { 0 } },
    .cuda = (const mba_variant[]){ { "vec16", pool_mean_bwd_vec16_plan, MBA_CUDA(pool_mean_bwd_cuda) }, { 0 } },
};
