// SPDX-License-Identifier: Apache-2.0
/* embed_sum.c -- y[r, :] = sum_f table[index[r, f], :], and its gradient: the declaration. */
#include "ops/embed_sum/embed_sum.h"

#include "ops/add/add.h"
#include "ops/embed_sum/embed_sum_slots.h"

static mba_status embed_sum_shape(const mba_node *n, mba_type *out)
{
    const mba_tensor *t = n->in[INDEX], *e = n->in[TABLE];
    MBA_NEED(t->type.dtype == MBA_I32 && t->bound > 0 && !t->may_ignore && t->type.rank == 2 && mba_dense(t),
             "embed_sum: %s is not a dense index (N, F)\nfix: make it with mba_index", t->name);
    MBA_TRY(mba__need_rows("embed_sum", e));
    MBA_NEED(e->type.rank == 2 && t->bound <= mba_rows(e), "embed_sum: %s has values up to %lld, %s has %lld rows",
             t->name, (long long)t->bound - 1, e->name, (long long)mba_rows(e));
    out[Y] = e->type;
    out[Y].count = t->type.count;
    out[Y].dim[0] = mba_rows(t);
    return MBA_OK;
}

static mba_status embed_sum_bwd_shape(const mba_node *n, mba_type *out)
{
    MBA_TRY(mba__need_rows("embed_sum", n->in[DY]));
    out[DTABLE] = ((const embed_sum_bwd_attr *)n->attr)->table;
    out[DTABLE].dtype = MBA_F32;
    return MBA_OK;
}

mba_tensor *mba_embed_sum(mba_graph *g, mba_tensor *index, mba_tensor *table)
{
    return MBA_APPEND(g, embed_sum, NULL, index, table)->out[Y];
}

static void embed_sum_grad(mba_graph *g, const mba_node *n, mba_tensor *const *d)
{
    const embed_sum_bwd_attr a = { n->in[TABLE]->type };
    mba_grad_add(g, n->in[TABLE], MBA_APPEND(g, embed_sum_bwd, &a, n->in[INDEX], d[Y])->out[DTABLE]);
}

static mba_cost embed_sum_cost(const mba_node *n)
{
    mba_cost          c = mba_cost_io(n);
    const mba_tensor *rows = n->op == &mba_op_embed_sum ? n->out[Y] : n->in[DY];
    c.vector_flops = (double)mba_cols(n->in[INDEX]) * (double)mba_elems(rows);
    return c;
}

static double embed_sum_terms(const mba_node *n, int out)
{
    (void)out;
    return n->op == &mba_op_embed_sum ? (double)mba_cols(n->in[INDEX]) : (double)mba_elems(n->in[INDEXB]);
}

static mba_status embed_sum_bwd_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    MBA_TRY(mba__plan_f32(p, n, m));
    mba_plan_scratch(p, "table parts", EMBED_SUM_PARTS * sizeof(float) * (size_t)mba_elems(n->out[DTABLE]));
    return MBA_OK;
}

static mba_status embed_sum_vec16_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    MBA_REFUSE_IF(m->cc < 80, "a device of compute capability %d", m->cc);
    mba_plan_stream(p, n, "embed_sum_fwd_vec16",
                    mba_ceil(mba_elems(n->out[Y]),
                             256 * mba__columns_at_once((const mba_tensor *[]){ n->in[TABLE], n->out[Y] }, 2)),
                    256, 40);
    return MBA_OK;
}

/* The expected number of columns of the busiest warp, if each of F columns of indices belongs to a random one of
 * `warps` warps (rows mostly share their value in a column). Nine columns of Peptides: 2.81 (2.82 counted in synthetic
 * batches), its three: 1.36 (1.00 counted). It is the sum over m of the probability that some warp has more than m;
 * ways[f] counts the assignments of f columns to the warps so far with at most m each. */
static double columns_of_busiest(int64_t F, int64_t warps)
{
    enum { MOST = 32 };
    double sum = 0, all = 1;
    if (F > MOST) return (double)F / (double)MOST * columns_of_busiest(MOST, warps);
    for (int64_t f = 0; f < F; f++) all *= (double)warps;
    for (int64_t m = 0; m < F; m++) {
        double ways[MOST + 1] = { 1 };
        for (int64_t w = 0; w < warps; w++)
            for (int64_t f = F; f > 0; f--) {
                double choices = 1; // binomial coefficient (f, j)
                for (int64_t j = 1; j <= m && j <= f; j++) {
                    choices *= (double)(f - j + 1) / (double)j;
                    ways[f] += choices * ways[f - j];
                }
            }
        sum += 1 - ways[F] / all;
    }
    return sum;
}

/* Instructions of the busiest warp relative to the mean. Each of eight warps owns an eighth of the table rows. In the
 * compiled code 31 instructions add an entry, 11 of all warps together inspect it, and a row of dy takes 38. */
static double busiest_warp(int64_t F, int64_t table_rows)
{
    const double own = 31, others = 11 + 38 / (double)F, warps = 8;
    const double share = columns_of_busiest(F, table_rows < 8 ? table_rows : 8) / (double)F;
    return (others + own * warps * share) / (others + own);
}

static mba_status embed_sum_bwd_cuda_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    const int64_t M = mba_cols(n->in[DY]), V = mba_rows(n->out[DTABLE]), R = mba_rows(n->in[DY]),
                  F = mba_cols(n->in[INDEXB]);
    const int64_t parts = embed_sum_parts(R, V * M), rows = embed_sum_table_rows(V);
    MBA_REFUSE_IF(m->cc < 80, "a device of compute capability %d", m->cc);
    MBA_REFUSE_IF(F > 1 << 20, "%lld indices in a row\nwhy: a thread counts them in 32 bits", (long long)F);
    mba_plan_scratch(p, "table parts", sizeof(float) * (size_t)(parts * V * M));
    mba_launch *l = mba_plan_launch(p, "embed_sum_bwd_parts", MBA_VECTOR, parts, 256);
    l->grid[1] = mba_ceil(M, EMBED_SUM_COLS);
    l->grid[2] = mba_ceil(V, rows);
    l->smem_bytes = sizeof(float) * (size_t)(rows * EMBED_SUM_COLS);
    l->regs = 48;
    l->busiest = busiest_warp(F, rows);
    mba_phase_move(l, MBA_LOAD, MBA_ARG_IN(DY),
                   (double)(R * EMBED_SUM_COLS) * (double)mba_dtype_bytes(n->in[DY]->type.dtype) / (double)parts);
    mba_phase_move(l, MBA_LOAD, MBA_ARG_IN(INDEXB), 4.0 * (double)(R * F) / (double)parts);
    /* One warp adds an entry: it finds the row by a division and adds 32 columns. All eight warps inspect all entries,
     * 32 at a time. Counted on an H200 per entry: 14 ALU, 9 FMA, 1.5 special. */
    const double entries = (double)(R * F) / (double)(parts * l->grid[2]);
    mba_phase_move(l, MBA_SMEM, -1, 12.0 * entries * EMBED_SUM_COLS);
    mba_phase_work(l, MBA_ALU, 32 * 14 * entries, "embed_sum_bwd");
    mba_phase_work(l, MBA_FMA, 32 * 9 * entries, "embed_sum_bwd");
    mba_phase_work(l, MBA_SFU, 32 * 1.5 * entries, "embed_sum_bwd");
    mba_phase_move(l, MBA_STORE, MBA_ARG_SCRATCH(0), 4.0 * (double)(rows * EMBED_SUM_COLS));
    mba_launch *t = mba_plan_launch(p, "column_totals", MBA_VECTOR, mba_ceil(V * M, 32), 512);
    t->regs = 24;
    mba_phase_move(t, MBA_LOAD, MBA_ARG_SCRATCH(0), 4.0 * 32 * (double)parts);
    mba_phase_out(t, n, DTABLE, 4.0 * 32);
    return MBA_OK;
}

/* dims: R, F, rows of the table, M, views. */
static void embed_sum_build(mba_graph *g, const mba_case *c)
{
    const int64_t V = c->dim[2], M = c->dim[3];
    mba_tensor   *t = mba_param(g, "table", MBA_TYPE(g->compute, V, M + c->dim[4]), MBA_INIT_NORMAL(1), MBA_DECAY);
    mba_tensor   *i = mba_index(g, "index", MBA_TYPE(MBA_I32, c->dim[0], c->dim[1]), V);
    if (!c->dim[4]) {
        mba_embed_sum(g, i, t);
        return;
    }
    mba_tensor *a = mba_embed_sum(g, i, mba_slice(g, t, 1, 0, M)),
               *b = mba_embed_sum(g, i, mba_slice(g, t, 1, c->dim[4], M));
    mba_tensor *j = mba_concat(g, a, b);
    mba_add(g, j, j);
}

const mba_op mba_op_embed_sum = {
    .name = "embed_sum",
    .doc = "sums of rows of a table",
    .kind = MBA_EMBED_LOSS,
    .in = { [INDEX] = MBA_SLOT("index"), [TABLE] = MBA_SLOT("table") },
    .out = { [Y] = MBA_SLOT("y") },
    .shape = embed_sum_shape,
    .grad = embed_sum_grad,
    .cost = embed_sum_cost,
    .ref = embed_sum_ref,
    .terms = embed_sum_terms,
    .cpu = (const mba_variant[]){ { "rows", mba__plan_f32, MBA_CPU(embed_sum_fwd) }, { 0 } },
    .cuda = (const mba_variant[]){ { "vec16", embed_sum_vec16_plan, MBA_CUDA(embed_sum_cuda) }, { 0 } },
    .build = embed_sum_build,
    .cases = (const mba_case[]){ { { 9, 3, 6, 5 }, "rows of the table repeat" },
                                 { { 3, 1, 4, 19 }, "one table" },
                                 { { 150, 2, 7, 40 }, "two parts of rows, two blocks of columns, vectors of 16 bytes" },
                                 { { 40, 3, 530, 3 }, "two blocks of the table" },
                                 { { 5, 2, 4, 4, 2 }, "views: overlapping columns of one table, joined" },
                                 { { 0 }, NULL } },
    .sizes = (const mba_case[]){ { { 19320, 9, 174, 80 }, "Peptides atoms, 128 graphs" }, { { 0 }, NULL } },
};

const mba_op mba_op_embed_sum_bwd = {
    .name = "embed_sum_bwd",
    .doc = "adds rows into the table's gradient",
    .kind = MBA_EMBED_LOSS,
    .no_grad = "a gradient",
    .in = { [INDEXB] = MBA_SLOT("index"), [DY] = MBA_SLOT("dy") },
    .out = { [DTABLE] = MBA_SLOT("dtable", .adds = true) },
    .attr_bytes = sizeof(embed_sum_bwd_attr),
    .shape = embed_sum_bwd_shape,
    .cost = embed_sum_cost,
    .ref = embed_sum_bwd_ref,
    .terms = embed_sum_terms,
    .cpu = (const mba_variant[]){ { "parts", embed_sum_bwd_plan, MBA_CPU(embed_sum_bwd) }, { 0 } },
    .cuda = (const mba_variant[]){ { "parts", embed_sum_bwd_cuda_plan, MBA_CUDA(embed_sum_bwd_cuda) }, { 0 } },
};
