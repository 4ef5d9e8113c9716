// SPDX-License-Identifier: Apache-2.0
/* matmul.c -- C = op(A) op(B) over the last two axes, the only GEMM of the graph: the declaration. It is its own
 * gradient.
 *
 *   forward   y  (R, N) = x  (R, K) w (N, K)^T (+ bias (N))
 *   backward  dx (R, K) = dy (R, N) w           dw (N, K) = dy^T x, fp32, adds;    dbias: bias_bwd */
#include "ops/matmul/matmul.h"

#include "ops/bias/bias.h"
#include "ops/cast/cast.h"
#include "ops/matmul/matmul_plan.h"
#include "ops/matmul/matmul_slots.h"

matmul_dims matmul_dims_of(const mba_node *n)
{
    const matmul_attr *t = n->attr;
    const mba_tensor  *a = n->in[A], *b = n->in[B];
    return (matmul_dims){ .m = t->ta ? mba_cols(a) : mba_rows(a),
                          .n = t->tb ? mba_rows(b) : mba_cols(b),
                          .k = t->ta ? mba_rows(a) : mba_cols(a) };
}

/* Rows beyond the count must stay zero, but the product does not know the count: in ragged batches mba_bias adds the
 * bias. */
static mba_status bias_fits(const mba_node *n, int64_t columns)
{
    const matmul_attr *t = n->attr;
    const mba_tensor  *x = n->in[A], *b = n->in[BIAS];
    MBA_NEED(mba_elems(b) == columns, "matmul: %lld columns, bias of %lld", (long long)columns,
             (long long)mba_elems(b));
    MBA_NEED(b->type.dtype == t->out && !t->ta, "matmul: the bias has another type than the result");
    MBA_NEED(x->type.count == MBA_ALL && x->type.steps == MBA_ALL,
             "matmul: a bias in a ragged batch, where mba_bias adds it");
    return MBA_OK;
}

static mba_status matmul_shape(const mba_node *n, mba_type *out)
{
    const matmul_attr *t = n->attr;
    const matmul_dims  d = matmul_dims_of(n);
    const int64_t      kb = t->tb ? mba_cols(n->in[B]) : mba_rows(n->in[B]);
    MBA_NEED(d.k == kb, "matmul: %s gives %lld columns, %s wants %lld", n->in[A]->name, (long long)d.k, n->in[B]->name,
             (long long)kb);
    if (n->in[BIAS]) MBA_TRY(bias_fits(n, d.n));
    out[C] = MBA_TYPE(t->out, d.m, d.n);
    if (!t->ta) { // C has the leading axes of A
        out[C] = n->in[A]->type;
        out[C].dtype = t->out;
        out[C].dim[out[C].rank - 1] = d.n;
    }
    return MBA_OK;
}

static mba_tensor *matmul(mba_graph *g, mba_tensor *a, mba_tensor *b, mba_tensor *bias, matmul_attr t)
{
    return MBA_APPEND(g, matmul, &t, a, b, bias)->out[C];
}

mba_tensor *mba_linear(mba_graph *g, mba_tensor *x, mba_tensor *w)
{
    return matmul(g, x, w, NULL, (matmul_attr){ .tb = 1, .out = x->type.dtype });
}

mba_tensor *mba_linear_bias(mba_graph *g, mba_tensor *x, mba_tensor *w, mba_tensor *b)
{
    return matmul(g, x, w, b, (matmul_attr){ .tb = 1, .out = x->type.dtype });
}

mba_tensor *mba_align_rows(mba_graph *g, mba_tensor *y)
{
    return y->type.dtype == MBA_BF16 && mba_cols(y) % 8 ? mba_pad_rows(g, y, 16) : y;
}

static void matmul_grad(mba_graph *g, const mba_node *n, mba_tensor *const *d)
{
    const matmul_attr *t = n->attr;
    mba_tensor        *x = n->in[A], *w = n->in[B];
    mba_assert(!t->ta && t->tb); // the form that mba_linear makes
    if (mba_wants(x)) mba_grad_add(g, x, matmul(g, d[C], w, NULL, (matmul_attr){ .out = x->type.dtype }));
    if (mba_wants(w)) mba_grad_add(g, w, matmul(g, d[C], x, NULL, (matmul_attr){ .ta = 1, .out = MBA_F32 }));
    if (mba_wants(n->in[BIAS])) mba_grad_add(g, n->in[BIAS], mba_bias_grad(g, d[C]));
}

static mba_cost matmul_cost(const mba_node *n)
{
    const matmul_dims d = matmul_dims_of(n);
    mba_cost          c = mba_cost_io(n);
    c.tensor_flops = 2.0 * (double)d.m * (double)d.n * (double)d.k;
    c.vector_flops = n->in[BIAS] ? (double)d.m * (double)d.n : 0;
    return c;
}

bool mba__library_takes(const mba_tensor *t, mba_dtype in)
{
    const int64_t e = (int64_t)mba_dtype_bytes(t->type.dtype);
    return in != MBA_BF16 || (t->offset * e % 16 == 0 && mba_ld(t) * e % 16 == 0);
}

void mba__plan_tiles(mba_plan *p, const mba__product *x)
{
    enum { T = 32 };
    mba_launch *l = mba_plan_launch(p, "matmul_tiles", MBA_VECTOR, mba_ceil(x->n, T), T * 8);
    l->grid[1] = mba_ceil(x->m, T);
    l->regs = 48;
    mba_phase_work(l, MBA_LOOP, (double)mba_ceil(x->k, T), NULL);
    mba_phase_move(l, MBA_LOAD, x->a, T * T * x->in_bytes);
    mba_phase_move(l, MBA_LOAD, x->b, T * T * x->in_bytes);
    mba_phase_work(l, MBA_BARRIER, 1, NULL);
    mba_phase_work(l, MBA_FMA, (double)T * T * T, NULL);
    mba_phase_work(l, MBA_END, 0, NULL);
    if (x->bias) mba_phase_move(l, MBA_LOAD, x->bias, T * x->out_bytes);
    if (x->adds) mba_phase_move(l, MBA_LOAD, x->c, T * T * x->out_bytes);
    mba_phase_move(l, MBA_STORE, x->c, T * T * x->out_bytes);
}

void mba__plan_library(mba_plan *p, const mba__product *x)
{
    enum { T = 128, TK = 64, STAGES = 4 };
    mba_launch *l = mba_plan_launch(p, "cublaslt_gemm", MBA_TENSOR, mba_ceil(x->m, T) * mba_ceil(x->n, T), 384);
    l->smem_bytes = (size_t)(STAGES * 2 * T * TK * x->in_bytes);
    l->regs = 168;
    l->ring_depth = STAGES;
    mba_phase_work(l, MBA_LOOP, (double)mba_ceil(x->k, TK), NULL);
    mba_phase_work(l, MBA_RING_WAIT, 0, NULL);
    mba_phase_work(l, MBA_MMA, 2.0 * T * T * TK, NULL);
    mba_phase_work(l, MBA_END, 0, NULL);
    if (x->bias) mba_phase_move(l, MBA_LOAD, x->bias, T * x->out_bytes);
    if (x->adds) mba_phase_move(l, MBA_LOAD, x->c, (double)T * T * x->out_bytes);
    mba_phase_move(l, MBA_STORE, x->c, (double)T * T * x->out_bytes);
    mba_launch_role(l, 4); // the producer warps
    mba_phase_work(l, MBA_LOOP, (double)mba_ceil(x->k, TK), NULL);
    mba_phase_work(l, MBA_RING_FILL, 0, NULL);
    mba_phase_move(l, MBA_ASYNC, x->a, T * TK * x->in_bytes);
    mba_phase_move(l, MBA_ASYNC, x->b, T * TK * x->in_bytes);
    mba_phase_work(l, MBA_END, 0, NULL);
}

static mba__product product_of(const mba_node *n)
{
    const matmul_dims d = matmul_dims_of(n);
    return (mba__product){ .m = d.m,
                           .n = d.n,
                           .k = d.k,
                           .in_bytes = (double)mba_dtype_bytes(n->in[A]->type.dtype),
                           .out_bytes = (double)mba_dtype_bytes(n->out[C]->type.dtype),
                           .a = MBA_ARG_IN(A),
                           .b = MBA_ARG_IN(B),
                           .c = MBA_ARG_OUT(C),
                           .adds = mba_adds(n, C),
                           .bias = n->in[BIAS] ? MBA_ARG_IN(BIAS) : 0 };
}

static mba_status matmul_tiles_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    const mba__product x = product_of(n);
    MBA_REFUSE_IF(m->cc < 80, "a device of compute capability %d", m->cc);
    mba__plan_tiles(p, &x);
    return MBA_OK;
}

static mba_status matmul_cublaslt_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    const mba_dtype    in = n->in[A]->type.dtype;
    const mba__product x = product_of(n);
    MBA_REFUSE_IF(m->cc < 80, "a device of compute capability %d", m->cc);
    MBA_REFUSE_IF(!mba__library_takes(n->in[A], in) || !mba__library_takes(n->in[B], in)
                      || !mba__library_takes(n->out[C], in),
                  "rows that do not begin at multiples of 16 bytes\nwhy: the library's bf16 kernels want them");
    mba_plan_scratch(p, "library", MBA__LIBRARY_WORK_BYTES);
    mba__plan_library(p, &x);
    return MBA_OK;
}

/* The library's kernels for rows without alignment: lanes load 4 bytes each through registers, and warps multiply tile
 * by tile without a ring. Few tiles are split along k. */
static void plan_unaligned(mba_plan *p, const mba__product *x, const mba_machine *m)
{
    enum { T = 128, TK = 32, STEPS_LEAST = 8 };
    const int64_t tiles = mba_ceil(x->m, T) * mba_ceil(x->n, T), steps = mba_ceil(x->k, TK);
    int64_t       parts = 1;
    while (2 * parts * tiles <= m->sm && steps >= 2 * parts * STEPS_LEAST) parts *= 2;
    mba_launch *l = mba_plan_launch(p, "cublaslt_gemm_unaligned", MBA_TENSOR, tiles * parts, 256);
    l->smem_bytes = (size_t)(2 * T * TK * x->in_bytes);
    l->regs = 128;
    mba_phase_work(l, MBA_LOOP, (double)mba_ceil(steps, parts), NULL);
    mba_phase_move(l, MBA_LOAD, x->a, T * TK * x->in_bytes);
    mba_phase_move(l, MBA_LOAD, x->b, T * TK * x->in_bytes);
    mba_phase_work(l, MBA_ALU, 2.0 * T * TK * x->in_bytes, NULL); // an address, a load and a store per 4 bytes
    mba_phase_work(l, MBA_BARRIER, 2, NULL);
    mba_phase_work(l, MBA_MMA, 2.0 * T * T * TK, NULL);
    mba_phase_work(l, MBA_END, 0, NULL);
    if (x->bias) mba_phase_move(l, MBA_LOAD, x->bias, T * x->out_bytes);
    if (x->adds) mba_phase_move(l, MBA_LOAD, x->c, (double)T * T * x->out_bytes);
    mba_phase_move(l, MBA_STORE, x->c, (double)T * T * x->out_bytes);
}

/* Rows without alignment: the library has kernels for most of them; the launcher uses tiles for the rest. */
static mba_status matmul_unaligned_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    const mba__product x = product_of(n);
    MBA_REFUSE_IF(m->cc < 80, "a device of compute capability %d", m->cc);
    mba_plan_scratch(p, "library", MBA__LIBRARY_WORK_BYTES);
    plan_unaligned(p, &x, m);
    return MBA_OK;
}

static double matmul_terms(const mba_node *n, int out)
{
    (void)out;
    return (double)matmul_dims_of(n).k + (n->in[BIAS] ? 1 : 0);
}

static void matmul_build(mba_graph *g, const mba_case *c)
{
    mba_tensor *x = mba_case_act(g, "x", MBA_TYPE(MBA_F32, c->dim[0], c->dim[2]), MBA_INIT_NORMAL(1));
    mba_tensor *w = mba_param(g, "w", MBA_TYPE(g->compute, c->dim[1], c->dim[2]), MBA_INIT_NORMAL(1), MBA_DECAY);
    if (c->dim[3])
        mba_linear_bias(g, x, w, mba_param(g, "b", MBA_TYPE(g->compute, c->dim[1]), MBA_INIT_NORMAL(1), MBA_NO_DECAY));
    else mba_linear(g, x, w);
}

const mba_op mba_op_matmul = {
    .name = "matmul",
    .doc = "C = op(A) op(B) (+ bias)",
    .kind = MBA_GEMM,
    .tf32 = 1,
    .in = { [A] = MBA_SLOT("a"), [B] = MBA_SLOT("b"), [BIAS] = MBA_SLOT("bias", .optional = true) },
    .out = { [C] = MBA_SLOT("c", .adds = true) },
    .attr_bytes = sizeof(matmul_attr),
    .shape = matmul_shape,
    .grad = matmul_grad,
    .cost = matmul_cost,
    .ref = matmul_ref,
    .cpu = (const mba_variant[]){ { "tiles", NULL, MBA_CPU(matmul_fwd) }, { 0 } },
    .cuda = (const mba_variant[]){ { "cublaslt", matmul_cublaslt_plan, MBA_CUDA(matmul_cuda) },
                                   { "unsplit", matmul_cublaslt_plan,
                                     MBA_CUDA(matmul_unsplit_cuda) }, // never splits a product in two
                                   { "unaligned", matmul_unaligned_plan, MBA_CUDA(matmul_unaligned_cuda) },
                                   { "tiles", matmul_tiles_plan, MBA_CUDA(matmul_tiles_cuda) },
                                   { 0 } },
    .build = matmul_build,
    .terms = matmul_terms,
    .cases = (const mba_case[]){ { { 5, 3, 7 }, "nothing is a multiple of anything" },
                                 { { 40, 24, 16 }, "multiples of 16 bytes" },
                                 { { 34, 36, 20 }, "multiples of 8 bytes" },
                                 { { 5, 3, 7, 1 }, "a bias, and nothing a multiple" },
                                 { { 40, 24, 16, 1 }, "a bias, multiples of 16 bytes" },
                                 { { 70, 40, 24, 1 }, "a bias, several tiles" },
                                 { { 0 }, NULL } },
    .sizes = (const mba_case[]){ { { 1024, 3352, 768 }, "in_proj of mamba2-130m, 1024 tokens" },
                                 { { 1024, 80, 1536 }, "x_proj of mamba-130m" },
                                 { { 25088, 1280, 320, 1 }, "fc1 of mambavision-t, stage 2, batch 128" },
                                 { { 25088, 320, 1280, 1 }, "its fc2" },
                                 { { 0 }, NULL } },
};
