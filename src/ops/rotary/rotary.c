// SPDX-License-Identifier: Apache-2.0
/* rotary.c -- rotary position embedding: the declaration. The gradient is the same operator with the opposite angle.
 *
 *   (a, b) -> (a cos - b sin, b cos + a sin),   angle = t base^(-2j/dims),   x, y (B, L, H, P) */
#include "ops/rotary/rotary.h"

#include "ops/add/add.h"
#include "ops/cast/cast.h"
#include "ops/rotary/rotary_slots.h"

static mba_status rotary_shape(const mba_node *n, mba_type *out)
{
    const rotary_attr *a = n->attr;
    const mba_tensor  *x = n->in[X];
    mba_heads          h;
    MBA_NEED(x->type.dtype == MBA_F32 || x->type.dtype == MBA_BF16, "rotary: %s holds no real numbers", x->name);
    MBA_NEED(x->type.rank == 4, "rotary: %s has %d axes\nwhy: it wants heads (B, L, H, P)", x->name, (int)x->type.rank);
    MBA_NEED(mba_heads_of(&h, x), "rotary: the heads of the strided view %s do not lie at even strides", x->name);
    MBA_NEED(a->dims > 0 && a->dims % 2 == 0 && a->dims <= h.P,
             "rotary: %lld of %lld values cannot turn\n"
             "why: they turn in pairs inside a head",
             (long long)a->dims, (long long)h.P);
    MBA_NEED(a->base > 0, "rotary: a base of %g", a->base);
    out[Y] = x->type;
    return MBA_OK;
}

mba_tensor *mba_rotary_from(mba_graph *g, mba_tensor *x, int64_t first, int64_t dims, double base, bool interleaved)
{
    const rotary_attr a = { .base = base, .dims = dims, .first = first, .interleaved = interleaved, .sign = 1 };
    return MBA_APPEND(g, rotary, &a, x)->out[Y];
}

mba_tensor *mba_rotary(mba_graph *g, mba_tensor *x, int64_t dims, double base, bool interleaved)
{
    return mba_rotary_from(g, x, 0, dims, base, interleaved);
}

static void rotary_grad(mba_graph *g, const mba_node *n, mba_tensor *const *d)
{
    rotary_attr back = *(const rotary_attr *)n->attr;
    back.sign = -back.sign;
    mba_grad_add(g, n->in[X], MBA_APPEND(g, rotary, &back, d[Y])->out[Y]);
}

/* Angles are the same for every sequence and head: two functions per position and pair. */
static mba_cost rotary_cost(const mba_node *n)
{
    const rotary_attr *a = n->attr;
    const double       turning = (double)(mba_elems(n->in[X]) / mba_cols(n->in[X]) * a->dims);
    mba_cost           c = mba_cost_io(n);
    c.vector_flops = 3 * turning;
    c.special_ops = (double)(n->in[X]->type.dim[1] * a->dims);
    return c;
}

static mba_status rotary_cpu_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    const rotary_attr *a = n->attr;
    (void)m;
    MBA_REFUSE_IF(n->in[X]->type.dtype != MBA_F32, "heads that are not fp32");
    mba_plan_scratch(p, "cos and sin", sizeof(float) * (size_t)(n->in[X]->type.dim[1] * a->dims));
    return MBA_OK;
}

static mba_status rotary_cuda_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    const rotary_attr *a = n->attr;
    const int64_t      W = rotary_width(n), L = n->in[X]->type.dim[1], P = n->in[X]->type.dim[3];
    const int64_t      units = mba_elems(n->in[X]) / P * (a->dims / 2 / W + (P - a->dims) / W);
    const int64_t      blocks = mba_ceil(units, ROTARY_THREADS);
    mba_heads          h;
    MBA_REFUSE_IF(m->cc < 80, "a device of compute capability %d", m->cc);
    MBA_REFUSE_IF(!mba_heads_of(&h, n->out[Y]), "heads of %s that do not lie at even strides", n->out[Y]->name);
    const int scratch = mba_plan_scratch(p, "cos and sin", sizeof(float) * (size_t)(L * a->dims));

    mba_launch *l = mba_plan_launch(p, "rotary_table", MBA_VECTOR, mba_ceil(L * a->dims / 2, ROTARY_THREADS),
                                    ROTARY_THREADS);
    l->regs = 30;
    mba_phase_work(l, MBA_ALU, 400.0 * ROTARY_THREADS, NULL); // fp64 pow and sincospi: an estimate
    mba_phase_move(l, MBA_STORE, MBA_ARG_SCRATCH(scratch), 8.0 * ROTARY_THREADS);

    l = mba_plan_launch(p, "rotary_apply", MBA_VECTOR, blocks, ROTARY_THREADS);
    l->regs = 40;
    mba_phase_move(l, MBA_LOAD, MBA_ARG_SCRATCH(scratch), 4.0 * (double)(L * a->dims) / (double)blocks);
    mba_phase_move(l, MBA_LOAD, MBA_ARG_IN(X), mba_tensor_bytes(n->in[X]) / (double)blocks);
    mba_phase_work(l, MBA_FMA, 4.0 * (double)(W * ROTARY_THREADS), NULL);
    mba_phase_out(l, n, Y, mba_tensor_bytes(n->out[Y]) / (double)blocks);
    return MBA_OK;
}

static void rotary_build(mba_graph *g, const mba_case *c)
{
    const int64_t B = c->dim[0], L = c->dim[1], H = c->dim[2], P = c->dim[3], dims = c->dim[4], first = c->dim[6];
    const bool    interleaved = c->dim[5], views = c->dim[7];
    if (!views) {
        mba_tensor *x = mba_case_act(g, "x", MBA_TYPE(MBA_F32, B, L, H, P), MBA_INIT_NORMAL(1));
        mba_rotary_from(g, x, first, dims, 100, interleaved);
        return;
    }
    /* Columns in the middle of a wider matrix, rotated twice: the second gradient adds. */
    const int64_t gap = P % 8 ? 3 : 8;
    mba_tensor   *x = mba_case_act(g, "x", MBA_TYPE(MBA_F32, B, L, 2 * gap + H * P), MBA_INIT_NORMAL(1));
    mba_tensor   *w = mba_slice(g, mba_add(g, x, x), 2, gap, H * P);
    w = mba_reshape(g, w, MBA_TYPE(MBA_F32, B, L, H, P));
    mba_tensor *a = mba_rotary_from(g, w, first, dims, 100, interleaved);
    mba_tensor *b = mba_rotary_from(g, w, first + 3, dims, 10, interleaved);
    mba_tensor *j = mba_concat(g, a, b); // heads side by side: pitch 2P
    mba_add(g, j, j);
}

const mba_op mba_op_rotary = {
    .name = "rotary",
    .doc = "pairs of every head turn with their position",
    .kind = MBA_ATTENTION,
    .in = { [X] = MBA_SLOT("x") },
    .out = { [Y] = MBA_SLOT("y", .adds = true, .cheap = true, .reuse = MBA_FROM(X)) },
    .attr_bytes = sizeof(rotary_attr),
    .shape = rotary_shape,
    .grad = rotary_grad,
    .cost = rotary_cost,
    .ref = rotary_ref,
    .cpu = (const mba_variant[]){ { "table", rotary_cpu_plan, MBA_CPU(rotary_fwd) }, { 0 } },
    .cuda = (const mba_variant[]){ { "table", rotary_cuda_plan, MBA_CUDA(rotary_cuda) }, { 0 } },
    .build = rotary_build,
    .cases = (const mba_case[]){ { { 2, 5, 3, 8, 8 }, "all values turn" },
                                 { { 1, 7, 2, 7, 4 }, "a part of an odd head" },
                                 { { 1, 4, 2, 6, 6, 1 }, "interleaved pairs" },
                                 { { 1, 1, 1, 2, 2, 0, 9 }, "one row, not the first" },
                                 { { 1, 70, 1, 4, 4, 0, 1000 }, "angles over several spans of the table" },
                                 { { 2, 3, 2, 5, 4, 0, 1, 1 }, "views, used twice" },
                                 { { 2, 3, 2, 32, 16, 0, 1, 1 }, "views in whole vectors, a half passes through" },
                                 { { 2, 3, 2, 5, 4, 1, 1, 1 }, "views, interleaved" },
                                 { { 0 }, NULL } },
    .sizes = (const mba_case[]){ { { 1, 4096, 12, 64, 64 }, "transformer-130m, 4096 tokens" },
                                 { { 8, 2048, 16, 128, 128 }, "transformer-1b, 16384 tokens" },
                                 { { 0 }, NULL } },
};
