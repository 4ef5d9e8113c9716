// SPDX-License-Identifier: Apache-2.0
/* linear_cross_entropy.c -- cross entropy of logits = x w^T, which never exist as a whole: the declaration.
 *
 *   forward   loss from x (R, M), w (V, M), target (R)
 *   backward  dz = k (softmax - 1[target]),  dx (R, M) = dz w,  dw (V, M) = dz^T x, fp32, both add; and the loss again
 *
 * The backward pass needs the logits anyway, so it computes the loss, too, and a run of both passes skips the forward
 * node (mba_node_elide): three products per step, and no logits are saved. Evaluation runs the forward node. */
#include "ops/linear_cross_entropy/linear_cross_entropy.h"

#include "ops/add/add.h"
#include "ops/cast/cast.h"
#include "ops/cross_entropy/cross_entropy_plan.h"
#include "ops/cross_entropy/cross_entropy_rows.h"
#include "ops/linear_cross_entropy/linear_cross_entropy_slots.h"
#include "ops/matmul/matmul_plan.h"
#include "ops/relu2/relu2.h"

static bool even_rows(const mba_tensor *t) { return mba_dense(t) || t->run == mba_cols(t); }

static mba_status lce_shape(const mba_node *n, mba_type *out)
{
    const mba_tensor *x = n->in[X], *w = n->in[W], *t = n->in[TARGET];
    MBA_NEED(x->type.dtype == w->type.dtype && x->type.dtype != MBA_I32 && t->type.dtype == MBA_I32 && t->bound > 0,
             "linear_cross_entropy: %s and %s of one real type, and targets\nfix: make %s with mba_targets", x->name,
             w->name, t->name);
    MBA_NEED(w->type.rank == 2 && mba_cols(x) == mba_cols(w),
             "linear_cross_entropy: %s has %lld columns, %s wants %lld", x->name, (long long)mba_cols(x), w->name,
             (long long)mba_cols(w));
    MBA_NEED(mba_rows(x) == mba_elems(t), "linear_cross_entropy: %lld rows, %lld targets", (long long)mba_rows(x),
             (long long)mba_elems(t));
    MBA_NEED(t->bound <= mba_rows(w), "linear_cross_entropy: targets up to %lld, %lld logits", (long long)t->bound - 1,
             (long long)mba_rows(w));
    MBA_NEED(even_rows(x) && even_rows(w), "linear_cross_entropy: rows of %s or %s are not evenly apart", x->name,
             w->name);
    out[LOSS] = MBA_TYPE(MBA_F32, 1);
    return MBA_OK;
}

static mba_status lce_bwd_shape(const mba_node *n, mba_type *out)
{
    const lce_bwd_attr *a = n->attr;
    MBA_TRY(lce_shape(n, out));
    if (a->wants_x) out[DX] = n->in[X]->type;
    if (a->wants_w) out[DW] = n->in[W]->type;
    out[DW].dtype = a->wants_w ? MBA_F32 : MBA_NONE;
    return MBA_OK;
}

mba_tensor *mba_linear_cross_entropy(mba_graph *g, mba_tensor *x, mba_tensor *w, mba_tensor *target)
{
    return MBA_APPEND(g, linear_cross_entropy, NULL, x, w, target)->out[LOSS];
}

static void lce_grad(mba_graph *g, const mba_node *n, mba_tensor *const *d)
{
    const lce_bwd_attr a = { mba_wants(n->in[X]), mba_wants(n->in[W]) };
    mba_node *b = MBA_APPEND(g, linear_cross_entropy_bwd, &a, n->in[X], n->in[W], n->in[TARGET], d[LOSS], n->out[LOSS]);
    if (a.wants_x) mba_grad_add(g, n->in[X], b->out[DX]);
    if (a.wants_w) mba_grad_add(g, n->in[W], b->out[DW]);
    mba_node_elide(g, n, b);
}

/* One product for the loss, one per gradient. */
static mba_cost lce_cost(const mba_node *n)
{
    const double R = (double)mba_rows(n->in[X]), M = (double)mba_cols(n->in[X]), V = (double)mba_rows(n->in[W]);
    const int    gradients = (n->out[DX] != NULL) + (n->out[DW] != NULL);
    mba_cost     c = mba_cost_io(n);
    c.tensor_flops = 2 * R * M * V * (1 + gradients);
    c.vector_flops = (gradients ? 6 : 3) * R * V;
    c.special_ops = (gradients ? 2 : 1) * R * V;
    return c;
}

static mba_status lce_cpu_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    (void)m;
    const mba_tensor *x = n->in[X];
    const int64_t     rows = mba_rows(x) < LCE_ROWS ? mba_rows(x) : LCE_ROWS;
    MBA_REFUSE_IF(x->type.dtype != MBA_F32, "operands in bf16\nwhy: the CPU computes in fp32");
    mba_plan_scratch(p, "logits", sizeof(float) * (size_t)(rows * (mba_rows(n->in[W]) + LCE_PAD)));
    mba_plan_scratch(p, "losses of rows", sizeof(double) * (size_t)rows);
    return MBA_OK;
}

/* CUDA: a product computes the logits of a block, a pass processes them, and backward two more products follow. */
typedef void plan_product(mba_plan *p, const mba__product *x);

/* Shared memory of the pass if it holds a row: two blocks must fit on an SM, and the batches must cover the row; else
 * 0. */
static int64_t kept_bytes(const mba_machine *m, int64_t V, int64_t e)
{
    enum { RESERVED = 2048, VECTOR_BYTES = 16, AHEAD = 4 }; // the system reserves 1024 bytes per block
    const int64_t bytes = V * e / VECTOR_BYTES * VECTOR_BYTES;
    const bool    fits = 2 * (bytes + RESERVED) <= m->smem_sm_bytes && bytes + RESERVED <= m->smem_block_bytes;
    return lce_group_threads(V) == LCE_BLOCK && fits && bytes <= LCE_BATCHES * AHEAD * LCE_BLOCK * VECTOR_BYTES ? bytes
                                                                                                                : 0;
}

/* Plans the pass over m rows of logits. Backward reads a row a second time, from shared memory or L2, and writes it. */
static void plan_pass(mba_plan *p, const mba_machine *machine, int64_t m, int64_t V, int64_t bytes, bool bwd)
{
    const int64_t smem = bwd ? kept_bytes(machine, V, bytes) : 0;
    const double  grid = (double)lce_grid(m, V), some = (double)(m * V) / grid, e = (double)bytes;
    mba_launch   *l = mba_plan_launch(p, "linear_cross_entropy_rows", MBA_VECTOR, lce_grid(m, V), LCE_BLOCK);
    l->regs = 63;
    l->smem_bytes = (size_t)smem;
    mba_phase_move(l, MBA_LOAD, MBA_ARG_SCRATCH(LOGITS), some * e);
    mba_phase_work(l, MBA_FMA, (bwd ? 3 : 1.5) * some, NULL);
    mba_phase_work(l, MBA_SFU, (bwd ? 2 : 1) * some, NULL);
    if (bwd) mba_phase_move(l, MBA_STORE, MBA_ARG_SCRATCH(LOGITS), some * e);
}

static void plan_blocks(mba_plan *p, const mba_node *n, const mba_machine *machine, plan_product *product)
{
    const mba_tensor *x = n->in[X], *w = n->in[W];
    const bool        bwd = n->op == &mba_op_linear_cross_entropy_bwd;
    const int64_t     R = mba_rows(x), M = mba_cols(x), V = mba_rows(w), rows = lce_block_rows(R, V, M);
    const double      e = (double)mba_dtype_bytes(x->type.dtype);
    const int         z = MBA_ARG_SCRATCH(LOGITS);
    mba_plan_scratch(p, "logits", mba_dtype_bytes(x->type.dtype) * (size_t)(rows * lce_pitch(V)));
    mba_plan_scratch(p, "losses of rows", sizeof(float) * (size_t)(R + 1)); // and one for the scale
    mba_plan_scratch(p, "library", MBA__LIBRARY_WORK_BYTES);
    if (bwd) ce_plan_total(p, "cross_entropy_bwd_scale", R);
    for (int64_t r = 0; r < R; r += rows) {
        const int64_t m = R - r < rows ? R - r : rows;
        product(p, &(mba__product){ m, V, M, e, e, MBA_ARG_IN(X), MBA_ARG_IN(W), z, .adds = false });
        plan_pass(p, machine, m, V, (int64_t)mba_dtype_bytes(x->type.dtype), bwd);
        if (n->out[DX])
            product(p, &(mba__product){ m, M, V, e, e, z, MBA_ARG_IN(W), MBA_ARG_OUT(DX), .adds = mba_adds(n, DX) });
        if (n->out[DW])
            product(p, &(mba__product){ V, M, m, e, 4, z, MBA_ARG_IN(X), MBA_ARG_OUT(DW),
                                        .adds = r > 0 || mba_adds(n, DW) });
    }
    ce_plan_total(p, "cross_entropy_fwd_total", R);
}

static mba_status lce_cublaslt_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    const mba_dtype type = n->in[X]->type.dtype;
    bool            takes = mba__library_takes(n->in[X], type) && mba__library_takes(n->in[W], type);
    for (int k = DX; k <= DW; k++) takes = takes && (!n->out[k] || mba__library_takes(n->out[k], type));
    MBA_TRY(ce_plan_fits(m, mba_rows(n->in[W])));
    MBA_REFUSE_IF(!takes, "rows that do not begin at multiples of 16 bytes\nwhy: the library's bf16 kernels want them");
    plan_blocks(p, n, m, mba__plan_library);
    return MBA_OK;
}

static mba_status lce_tiles_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    MBA_TRY(ce_plan_fits(m, mba_rows(n->in[W])));
    plan_blocks(p, n, m, mba__plan_tiles);
    return MBA_OK;
}

static double lce_terms(const mba_node *n, int out)
{
    const double R = (double)mba_rows(n->in[X]), M = (double)mba_cols(n->in[X]), V = (double)mba_rows(n->in[W]);
    return out == LOSS ? M + V : out == DX ? V : R;
}

static void lce_build(mba_graph *g, const mba_case *c)
{
    const int64_t R = c->dim[0], M = c->dim[1], V = c->dim[2], extra = c->dim[3];
    mba_tensor   *w = mba_param(g, "w", MBA_TYPE(g->compute, V, M + extra), MBA_INIT_NORMAL(1), MBA_DECAY);
    mba_tensor   *x = mba_case_act(g, "x", MBA_TYPE(MBA_F32, R, M + extra), MBA_INIT_NORMAL(1));
    if (!extra) {
        mba_linear_cross_entropy(g, x, w, mba_targets(g, "t", MBA_TYPE(MBA_I32, R), V));
        return;
    }
    /* Columns of both, from a tensor that is used twice: views, and gradients that add. */
    mba_tensor *h = mba_relu2(g, x), *t = mba_targets(g, "t", MBA_TYPE(MBA_I32, R, 2), V);
    mba_tensor *loss[2];
    for (int k = 0; k < 2; k++)
        loss[k] = mba_linear_cross_entropy(g, mba_slice(g, h, 1, k ? extra : 0, M),
                                           mba_slice(g, w, 1, k ? 0 : extra, M), mba_slice(g, t, 1, k, 1));
    mba_add(g, loss[0], loss[1]);
}

const mba_op mba_op_linear_cross_entropy = {
    .name = "linear_cross_entropy",
    .doc = "cross entropy of x w^T, without the logits",
    .kind = MBA_EMBED_LOSS,
    .tf32 = 1,
    .in = { [X] = MBA_SLOT("x"), [W] = MBA_SLOT("w"), [TARGET] = MBA_SLOT("target") },
    .out = { [LOSS] = MBA_SLOT("loss") },
    .shape = lce_shape,
    .grad = lce_grad,
    .cost = lce_cost,
    .ref = lce_ref,
    .cpu = (const mba_variant[]){ { "rows", lce_cpu_plan, MBA_CPU(lce) }, { 0 } },
    .cuda = (const mba_variant[]){ { "cublaslt", lce_cublaslt_plan, MBA_CUDA(lce_cuda) },
                                   { "tiles", lce_tiles_plan, MBA_CUDA(lce_tiles_cuda) },
                                   { 0 } },
    .build = lce_build,
    .terms = lce_terms,
    .cases = (const mba_case[]){ { { 5, 7, 11 }, "nothing is a multiple of anything" },
                                 { { 1, 1, 3 }, "one row, one column" },
                                 { { 12, 16, 43 }, "rows of 16 bytes, an odd vocabulary" },
                                 { { 3, 1, 1031 }, "rows of logits for a whole block" },
                                 { { 10, 16, 24, 8 }, "views of 16 bytes, used twice: the gradients add" },
                                 { { 4, 5, 9, 2 }, "views that overlap, used twice: the gradients add" },
                                 { { 0 }, NULL } },
    .sizes = (const mba_case[]){ { { 512, 768, 50288 }, "130m, 512 tokens" }, { { 0 }, NULL } },
};

const mba_op mba_op_linear_cross_entropy_bwd = {
    .name = "linear_cross_entropy_bwd",
    .doc = "both gradients from logits made block by block, and the loss",
    .kind = MBA_EMBED_LOSS,
    .tf32 = 1,
    .no_grad = "a gradient",
    .in = { [X] = MBA_SLOT("x"),
            [W] = MBA_SLOT("w"),
            [TARGET] = MBA_SLOT("target"),
            [DLOSS] = MBA_SLOT("dloss"),
            [LOSSB] = MBA_SLOT("loss") },
    .out = { [LOSS] = MBA_SLOT("loss", .update = MBA_FROM(LOSSB)),
             [DX] = MBA_SLOT("dx", .adds = true),
             [DW] = MBA_SLOT("dw", .adds = true) },
    .attr_bytes = sizeof(lce_bwd_attr),
    .shape = lce_bwd_shape,
    .cost = lce_cost,
    .ref = lce_ref,
    .cpu = (const mba_variant[]){ { "rows", lce_cpu_plan, MBA_CPU(lce) }, { 0 } },
    .cuda = (const mba_variant[]){ { "cublaslt", lce_cublaslt_plan, MBA_CUDA(lce_cuda) },
                                   { "tiles", lce_tiles_plan, MBA_CUDA(lce_tiles_cuda) },
                                   { 0 } },
    .terms = lce_terms,
};
