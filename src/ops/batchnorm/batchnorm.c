// SPDX-License-Identifier: Apache-2.0
/* batchnorm.c -- statistics over rows, y = (x - mean) rstd w + b per channel, and the gradient: the declarations.
 *
 * The statistics are a separate node, because a step may recompute y but must update the running statistics once. */
#include "ops/batchnorm/batchnorm.h"

#include "ops/add/add.h"
#include "ops/cast/cast.h"
#include "ops/batchnorm/batchnorm_slots.h"

static mba_status stats_shape(const mba_node *n, mba_type *out)
{
    const mba_tensor *x = n->in[SX];
    const double      momentum = ((const batchnorm_stats_attr *)n->attr)->momentum;
    MBA_TRY(mba__need_rows("batchnorm", x));
    MBA_NEED(momentum >= 0 && momentum <= 1, "batchnorm: a momentum of %g\nfix: 0 <= momentum <= 1", momentum);
    for (int k = RMEAN; k <= RVAR; k++)
        MBA_NEED(mba_dense(n->in[k]) && mba_elems(n->in[k]) == mba_cols(x), "batchnorm: rows of %lld, %s of %lld",
                 (long long)mba_cols(x), n->op->in[k].name, (long long)mba_elems(n->in[k]));
    out[SMEAN] = out[SVAR] = out[RMEANO] = out[RVARO] = MBA_TYPE(MBA_F32, mba_cols(x));
    return MBA_OK;
}

static mba_status batchnorm_shape(const mba_node *n, mba_type *out)
{
    const mba_tensor *x = n->in[X];
    const double      eps = ((const batchnorm_attr *)n->attr)->eps;
    MBA_TRY(mba__need_rows("batchnorm", x));
    MBA_NEED(eps > 0, "batchnorm: an eps of %g\nwhy: a channel that is constant would be divided by 0", eps);
    for (int k = W; k <= VAR; k++)
        MBA_NEED(mba_dense(n->in[k]) && mba_elems(n->in[k]) == mba_cols(x), "batchnorm: rows of %lld, %s of %lld",
                 (long long)mba_cols(x), n->op->in[k].name, (long long)mba_elems(n->in[k]));
    out[Y] = x->type;
    return MBA_OK;
}

static mba_status batchnorm_bwd_shape(const mba_node *n, mba_type *out)
{
    out[DX] = n->in[XB]->type;
    out[DW] = out[DB] = MBA_TYPE(MBA_F32, mba_cols(n->in[XB]));
    return MBA_OK;
}

/* Appends the nodes for given running statistics. */
static mba_tensor *norm(mba_graph *g, mba_batchnorm_args a, mba_tensor *mean, mba_tensor *var)
{
    if (a.train) {
        const mba_node *s = MBA_APPEND(g, batchnorm_stats, &(batchnorm_stats_attr){ a.momentum }, a.x, mean, var);
        mean = s->out[SMEAN];
        var = s->out[SVAR];
    }
    return MBA_APPEND(g, batchnorm, &((batchnorm_attr){ a.eps, a.train, a.relu }), a.x, a.w, a.b, mean, var)->out[Y];
}

mba_tensor *mba_batchnorm_(mba_graph *g, mba_batchnorm_args a)
{
    const mba_type type = MBA_TYPE(MBA_F32, mba_cols(a.x));
    mba_assert(a.name);
    const char *mean = mba_arena_printf(g->arena, "%s.running_mean", a.name);
    const char *var = mba_arena_printf(g->arena, "%s.running_var", a.name);
    return norm(g, a, mba_state_from(g, mean, type, MBA_INIT_CONST(0)),
                mba_state_from(g, var, type, MBA_INIT_CONST(1)));
}

double mba_batchnorm_running(const mba_node *n, const mba_tensor **mean, const mba_tensor **var)
{
    mba_assert(n->op == &mba_op_batchnorm_stats);
    *mean = n->in[RMEAN];
    *var = n->in[RVAR];
    return 1 - ((const batchnorm_stats_attr *)n->attr)->momentum;
}

static void batchnorm_grad(mba_graph *g, const mba_node *n, mba_tensor *const *d)
{
    const mba_node *b = MBA_APPEND(g, batchnorm_bwd, n->attr, d[Y], n->in[X], n->in[W], n->in[B], n->in[MEAN],
                                   n->in[VAR]);
    mba_grad_add(g, n->in[X], b->out[DX]);
    mba_grad_add(g, n->in[W], b->out[DW]);
    mba_grad_add(g, n->in[B], b->out[DB]);
}

static mba_cost stats_cost(const mba_node *n)
{
    mba_cost c = mba_cost_io(n);
    c.vector_flops = 4.0 * (double)mba_elems(n->in[SX]);
    return c;
}

static mba_cost batchnorm_cost(const mba_node *n)
{
    mba_cost c = mba_cost_io(n);
    c.vector_flops = 3.0 * (double)mba_elems(n->in[X]);
    return c;
}

/* In training x and dy are read twice: the sums over all rows must be complete first. */
static mba_cost batchnorm_bwd_cost(const mba_node *n)
{
    mba_cost c = mba_cost_io(n);
    if (((const batchnorm_attr *)n->attr)->train) c.read_bytes += 2 * mba_tensor_bytes(n->in[XB]);
    c.vector_flops = 9.0 * (double)mba_elems(n->in[XB]);
    return c;
}

static double stats_terms(const mba_node *n, int out)
{
    (void)out;
    return (double)mba_rows(n->in[SX]);
}
static double batchnorm_bwd_terms(const mba_node *n, int out)
{
    (void)out;
    return (double)mba_rows(n->in[XB]);
}

static mba_status stats_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    MBA_TRY(mba__plan_f32(p, n, m));
    const size_t bytes = sizeof(float) * (size_t)(mba__parts(mba_rows(n->in[SX])) * mba_cols(n->in[SX]));
    mba_plan_scratch(p, "means of parts", bytes);
    mba_plan_scratch(p, "squares of parts", bytes);
    return MBA_OK;
}

static mba_status batchnorm_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    MBA_TRY(mba__plan_f32(p, n, m));
    mba_plan_scratch(p, "factors", sizeof(float) * (size_t)mba_cols(n->in[X]));
    return MBA_OK;
}

static mba_status batchnorm_bwd_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    MBA_TRY(mba__plan_f32(p, n, m));
    const size_t row = sizeof(float) * (size_t)mba_cols(n->in[XB]), parts = (size_t)mba__parts(mba_rows(n->in[XB]));
    mba_plan_scratch(p, "dw parts", parts * row);
    mba_plan_scratch(p, "db parts", parts * row);
    mba_plan_scratch(p, "factors", 3 * row);
    return MBA_OK;
}

/* Plans the work of a thread before its first row: it loads four vectors of its V columns, and computes a square root
 * and factors. With few rows this is most of the work. The counts are from an H200 (24000 x 96: 20 special operations
 * per thread of 8 columns, and 120 operations of each other kind beyond those of the rows). */
static void plan_channels(mba_launch *l, const mba_node *n, int V)
{
    enum { FMA_EACH = 15, ALU_EACH = 15 };
    static const char mix[] = "batchnorm channels";
    const double      columns = (double)(l->block * V);
    for (int k = 0; k < MBA_IN_MAX; k++)
        if (n->in[k] && mba_rows(n->in[k]) == 1)
            mba_phase_move(l, MBA_LOAD, MBA_ARG_IN(k), mba_tensor_bytes(n->in[k]) / (double)l->grid[1]);
    mba_phase_work(l, MBA_FMA, FMA_EACH * columns, mix);
    mba_phase_work(l, MBA_ALU, ALU_EACH * columns, mix);
    mba_phase_work(l, MBA_SFU, 2.5 * columns, mix);
}

/* CUDA: threads own columns and loop over the rows, so that values of a column stay in registers. */
static void columns_launch(mba_plan *p, const mba_node *n, const mba_tensor *x, const char *kernel, int V, int rounds,
                           int regs)
{
    enum { THREADS = 256 };
    const int64_t blocks = rounds * BATCHNORM_SUM_PARTS; // few blocks: each thread loads the values of its columns once
    const int64_t owners = mba_ceil(mba_cols(x), V), across = mba_ceil(owners, THREADS),
                  at_once = owners < THREADS ? THREADS / owners : 1;
    int64_t down = mba_ceil(mba_rows(x), at_once);
    if (down > mba_ceil(blocks, across)) down = mba_ceil(blocks, across);
    mba_launch    *l = mba_plan_launch(p, kernel, MBA_VECTOR, down, THREADS);
    const mba_cost c = n->op->cost(n);
    l->grid[1] = across;
    l->regs = regs; // of bf16, from ptxas for sm_90
    const double all = (double)(down * across), trips = (double)mba_ceil(mba_ceil(mba_rows(x), down), 4 * at_once);
    plan_channels(l, n, V);
    mba_phase_work(l, MBA_LOOP, trips, NULL);
    for (int k = 0; k < 2; k++) // forward x, backward dy and x
        if (mba_rows(n->in[k]) == mba_rows(x) && mba_cols(n->in[k]) == mba_cols(x))
            mba_phase_move(l, MBA_LOAD, MBA_ARG_IN(k), mba_tensor_bytes(n->in[k]) / all / trips);
    mba_phase_work(l, MBA_FMA, c.vector_flops / 2 / all / trips, NULL);
    mba_phase_out(l, n, 0, mba_tensor_bytes(n->out[0]) / all / trips);
    mba_phase_work(l, MBA_END, 0, NULL);
}

static mba_status stats_cuda_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    MBA_REFUSE_IF(m->cc < 80, "a device of compute capability %d", m->cc);
    mba__plan_column_sums(p, n, "batchnorm_sums", n->in[SX], 2, batchnorm_columns(n, n->in[SX], NULL, NULL), 1u << SX);
    return MBA_OK;
}

static mba_status batchnorm_cuda_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    MBA_REFUSE_IF(m->cc < 80, "a device of compute capability %d", m->cc);
    columns_launch(p, n, n->in[X], "batchnorm_rows", batchnorm_columns(n, n->in[X], n->out[Y], NULL), 3, 69);
    return MBA_OK;
}

static mba_status batchnorm_bwd_cuda_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    const int V = batchnorm_columns(n, n->in[XB], n->in[DY], n->out[DX]);
    MBA_REFUSE_IF(m->cc < 80, "a device of compute capability %d", m->cc);
    mba__plan_column_sums(p, n, "batchnorm_bwd_sums", n->in[XB], 2, V, 1u << DY | 1u << XB);
    columns_launch(p, n, n->in[XB], "batchnorm_dx", V, 4, 96);
    mba_plan_scratch(p, "totals", 2 * sizeof(float) * (size_t)mba_cols(n->in[XB]));
    return MBA_OK;
}

/* dims: R, C, train, relu, how: 0 alone, 1 columns of a view used twice, 2 after a sum with no other use. */
static void batchnorm_build(mba_graph *g, const mba_case *c)
{
    const int64_t      R = c->dim[0], C = c->dim[1], how = c->dim[4], wide = how == 1 ? C + 3 : C;
    const mba_type     row = MBA_TYPE(MBA_F32, C);
    mba_tensor        *x = mba_case_act(g, "x", MBA_TYPE(MBA_F32, R, wide), MBA_INIT_NORMAL(1));
    mba_tensor        *mean = mba_state_from(g, "mean", row, MBA_INIT_NORMAL(0.8));
    mba_tensor        *var = mba_state_from(g, "var", row, MBA_INIT_CONST(0.4));
    mba_batchnorm_args a = { .x = x,
                             .eps = 1e-5,
                             .momentum = 0.1,
                             .train = c->dim[2],
                             .relu = c->dim[3],
                             .w = mba_param(g, "w", row, MBA_INIT_NORMAL(1), MBA_NO_DECAY),
                             .b = mba_param(g, "b", row, MBA_INIT_NORMAL(1), MBA_NO_DECAY) };
    if (how) a.x = mba_add(g, x, x);
    if (how != 1) {
        norm(g, a, mean, var);
        return;
    }
    a.x = mba_slice(g, a.x, 1, 2, C);
    mba_tensor *one = norm(g, a, mean, var);
    a.eps = 1e-2;
    mba_tensor *j = mba_concat(g, one, norm(g, a, mean, var));
    mba_add(g, j, j);
}

static const mba_case sizes[] = { { { 12544, 80, 1, 0 }, "MambaVision-T, 4 images: 56 x 56" },
                                  { { 50176, 32, 1, 1 }, "a stem with ReLU: 112 x 112" },
                                  { { 401408, 80, 1, 0 }, "MambaVision-T, 128 images: 56 x 56" },
                                  { { 100352, 160, 1, 0 }, "MambaVision-T, 128 images: 28 x 28" },
                                  { { 1605632, 32, 1, 1 }, "a stem with ReLU, 128 images" },
                                  { { 4096, 96, 1, 0 }, "GraphMamba: nodes" },
                                  { { 0 }, NULL } };

const mba_op mba_op_batchnorm_stats = {
    .name = "batchnorm_stats",
    .doc = "mean and variance over rows; moves the running ones",
    .kind = MBA_REDUCTION,
    .no_grad = "it is part of that of batchnorm",
    .in = { [SX] = MBA_SLOT("x"), [RMEAN] = MBA_SLOT("running_mean"), [RVAR] = MBA_SLOT("running_var") },
    .out = { [SMEAN] = MBA_SLOT("mean", .saved = true),
             [SVAR] = MBA_SLOT("var", .saved = true),
             [RMEANO] = MBA_SLOT("running_mean", .update = MBA_FROM(RMEAN)),
             [RVARO] = MBA_SLOT("running_var", .update = MBA_FROM(RVAR)) },
    .attr_bytes = sizeof(batchnorm_stats_attr),
    .shape = stats_shape,
    .cost = stats_cost,
    .ref = batchnorm_stats_ref,
    .terms = stats_terms,
    .cpu = (const mba_variant[]){ { "parts", stats_plan, MBA_CPU(batchnorm_stats) }, { 0 } },
    .cuda = (const mba_variant[]){ { "columns", stats_cuda_plan, MBA_CUDA(batchnorm_stats_cuda) }, { 0 } },
    .build = batchnorm_build,
    .sizes = sizes,
};

const mba_op mba_op_batchnorm = {
    .name = "batchnorm",
    .doc = "y = (x - mean) rstd w + b, per channel",
    .kind = MBA_NORM,
    .in = { [X] = MBA_SLOT("x"),
            [W] = MBA_SLOT("weight"),
            [B] = MBA_SLOT("shift"),
            [MEAN] = MBA_SLOT("mean"),
            [VAR] = MBA_SLOT("var") },
    .out = { [Y] = MBA_SLOT("y", .cheap = true, .reuse = MBA_FROM(X)) },
    .attr_bytes = sizeof(batchnorm_attr),
    .shape = batchnorm_shape,
    .grad = batchnorm_grad,
    .cost = batchnorm_cost,
    .ref = batchnorm_ref,
    .cpu = (const mba_variant[]){ { "rows", batchnorm_plan, MBA_CPU(batchnorm_fwd) }, { 0 } },
    .cuda = (const mba_variant[]){ { "columns", batchnorm_cuda_plan, MBA_CUDA(batchnorm_cuda) }, { 0 } },
    .build = batchnorm_build,
    .cases = (const mba_case[]){ { { 6, 8, 1, 0 }, "training" },
                                 { { 6, 8, 0, 0 }, "evaluation" },
                                 { { 130, 7, 1, 0 }, "more rows than one part takes" },
                                 { { 6, 6, 1, 1 }, "training, with ReLU" },
                                 { { 6, 6, 0, 1 }, "evaluation, with ReLU" },
                                 { { 7, 6, 1, 0, 1 }, "columns of a view used twice: dx adds" },
                                 { { 5, 33, 1, 0, 2 }, "the input dies here" },
                                 { { 0 }, NULL } },
    .sizes = sizes,
};

const mba_op mba_op_batchnorm_bwd = {
    .name = "batchnorm_bwd",
    .doc = "gradients of batchnorm",
    .kind = MBA_NORM,
    .no_grad = "a gradient",
    .in = { [DY] = MBA_SLOT("dy"),
            [XB] = MBA_SLOT("x"),
            [WB] = MBA_SLOT("w"),
            [BB] = MBA_SLOT("b"),
            [MEANB] = MBA_SLOT("mean"),
            [VARB] = MBA_SLOT("var") },
    .out = { [DX] = MBA_SLOT("dx", .adds = true, .reuse = MBA_FROM(DY)),
             [DW] = MBA_SLOT("dw", .adds = true),
             [DB] = MBA_SLOT("db", .adds = true) },
    .attr_bytes = sizeof(batchnorm_attr),
    .shape = batchnorm_bwd_shape,
    .cost = batchnorm_bwd_cost,
    .ref = batchnorm_bwd_ref,
    .terms = batchnorm_bwd_terms,
    .cpu = (const mba_variant[]){ { "parts", batchnorm_bwd_plan, MBA_CPU(batchnorm_bwd) }, { 0 } },
    .cuda = (const mba_variant[]){ { "columns", batchnorm_bwd_cuda_plan, MBA_CUDA(batchnorm_bwd_cuda) }, { 0 } },
};
