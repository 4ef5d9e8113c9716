// SPDX-License-Identifier: Apache-2.0
/* embed.c -- y[r, :] = table[token[r], :], and its gradient, which adds rows of dy to rows of the table: the
 * declaration. */
#include "ops/embed/embed.h"

#include <math.h>

#include "ops/embed/embed_slots.h"
#include "ops/relu2/relu2.h"

static mba_status embed_shape(const mba_node *n, mba_type *out)
{
    const mba_tensor *t = n->in[TOKEN], *e = n->in[TABLE];
    MBA_NEED(t->type.dtype == MBA_I32 && t->bound > 0, "embed: %s is not an index\nfix: make it with mba_index",
             t->name);
    MBA_NEED(!t->may_ignore, "embed: %s may hold negative values\nwhy: they have no row\nfix: make it with mba_index",
             t->name);
    MBA_NEED(t->type.rank < MBA_RANK_MAX && e->type.rank == 2, "embed: a table (V, M) and tokens of rank 1 to %d",
             MBA_RANK_MAX - 1);
    MBA_NEED(t->bound <= e->type.dim[0], "embed: %s has values up to %lld, %s has %lld rows", t->name,
             (long long)t->bound - 1, e->name, (long long)e->type.dim[0]);
    MBA_NEED(mba_dense(e) || e->run == mba_cols(e), "embed: the rows of %s are split into runs", e->name);
    out[Y] = t->type;
    out[Y].dtype = ((const embed_attr *)n->attr)->out;
    out[Y].dim[out[Y].rank++] = mba_cols(e);
    return MBA_OK;
}

static mba_status embed_bwd_shape(const mba_node *n, mba_type *out)
{
    MBA_NEED(n->in[DY]->run % mba_cols(n->in[DY]) == 0, "embed: the rows of %s are split into runs", n->in[DY]->name);
    out[DTABLE] = ((const embed_bwd_attr *)n->attr)->table;
    out[DTABLE].dtype = MBA_F32;
    return MBA_OK;
}

mba_tensor *mba_embed_padded(mba_graph *g, mba_tensor *tokens, mba_tensor *table, mba_dtype out, int64_t padding)
{
    const embed_attr a = { .padding = padding < 0 ? -1 : padding, .out = out };
    return MBA_APPEND(g, embed, &a, tokens, table)->out[Y];
}

mba_tensor *mba_embed(mba_graph *g, mba_tensor *tokens, mba_tensor *table, mba_dtype out)
{
    return mba_embed_padded(g, tokens, table, out, -1);
}

static void embed_grad(mba_graph *g, const mba_node *n, mba_tensor *const *d)
{
    const embed_bwd_attr a = { ((const embed_attr *)n->attr)->padding, n->in[TABLE]->type };
    mba_grad_add(g, n->in[TABLE], MBA_APPEND(g, embed_bwd, &a, n->in[TOKEN], d[Y])->out[DTABLE]);
}

/* Counts the rows that are used, not the whole table. */
static mba_cost embed_cost(const mba_node *n)
{
    const double values = (double)mba_elems(n->out[Y]);
    return (mba_cost){ .read_bytes = mba_tensor_bytes(n->in[TOKEN])
                                     + values * (double)mba_dtype_bytes(n->in[TABLE]->type.dtype),
                       .write_bytes = mba_tensor_bytes(n->out[Y]) };
}

/* Adding reads and writes the rows of the tokens, at most R and at most V; storing writes the whole table. */
static mba_cost embed_bwd_cost(const mba_node *n)
{
    const mba_tensor *dy = n->in[DY], *dt = n->out[DTABLE];
    const double      rows = (double)mba_rows(dy), V = (double)mba_rows(dt), M = (double)mba_cols(dt);
    const double      touched = mba_adds(n, DTABLE) ? 4 * M * (rows < V ? rows : V) : 0;
    return (mba_cost){ .read_bytes = mba_tensor_bytes(n->in[TOKENB]) + mba_tensor_bytes(dy) + touched,
                       .write_bytes = mba_adds(n, DTABLE) ? touched : mba_tensor_bytes(dt),
                       .vector_flops = rows * M };
}

static mba_status embed_cpu_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    (void)p, (void)m;
    MBA_REFUSE_IF(n->in[TABLE]->type.dtype != MBA_F32 || n->out[Y]->type.dtype != MBA_F32,
                  "a table or an output in bf16\nwhy: the CPU computes in fp32");
    return MBA_OK;
}

static mba_status embed_bwd_cpu_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    (void)p, (void)m;
    MBA_REFUSE_IF(n->in[DY]->type.dtype != MBA_F32, "a gradient in bf16\nwhy: the CPU computes in fp32");
    return MBA_OK;
}

static mba_status embed_cuda_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    MBA_REFUSE_IF(m->cc < 80, "a device of compute capability %d", m->cc);
    const int64_t  blocks = mba_ceil(mba_elems(n->out[Y]), (int64_t)EMBED_THREADS * EMBED_DEPTH * embed_width(n));
    mba_launch    *l = mba_plan_launch(p, "embed_fwd_rows", MBA_VECTOR, blocks, EMBED_THREADS);
    const mba_cost c = embed_cost(n);
    l->regs = 32;
    mba_phase_move(l, MBA_LOAD, MBA_ARG_IN(TOKEN), mba_tensor_bytes(n->in[TOKEN]) / (double)blocks);
    mba_phase_move(l, MBA_LOAD, MBA_ARG_IN(TABLE), (c.read_bytes - mba_tensor_bytes(n->in[TOKEN])) / (double)blocks);
    mba_phase_move(l, MBA_STORE, MBA_ARG_OUT(Y), c.write_bytes / (double)blocks);
    return MBA_OK;
}

/* CUDA, backward: sort the rows by token, sum chunks of the sorted order, then join the sums that cross chunk
 * borders. */
typedef struct backward {
    int64_t R, V, M, ranges, chunks, clearing, threads,
        across; /* clearing: blocks of embed_bwd_sum that only write zeros */
    double met; /* expected number of table rows that tokens use */
    bool   adds;
} backward;

static backward backward_of(const mba_node *n, const mba_machine *m)
{
    const mba_tensor *dy = n->in[DY], *dt = n->out[DTABLE];
    backward          b = { .R = mba_rows(dy), .V = mba_rows(dt), .M = mba_cols(dy), .adds = mba_adds(n, DTABLE) };
    const int64_t     vectors = b.M / embed_bwd_width(n);
    b.threads = vectors < 256 ? mba_ceil(vectors, 32) * 32 : 256;
    b.across = mba_ceil(vectors, b.threads);
    b.chunks = mba_ceil(b.R, EMBED_CHUNK);
    b.clearing = b.adds ? 0 : mba_ceil(b.V, EMBED_CLEAR);
    b.ranges = mba_ceil(b.V, EMBED_SPAN_MAX) > m->sm ? mba_ceil(b.V, EMBED_SPAN_MAX) : m->sm;
    if (b.ranges > b.V) b.ranges = b.V;
    /* For uniformly distributed tokens; many of them share a row. */
    b.met = b.V > 1 ? -(double)b.V * expm1((double)b.R * log1p(-1.0 / (double)b.V)) : 1;
    return b;
}

static void plan_sort(mba_plan *p, const mba_node *n, const backward *b)
{
    const bool  once = mba_dense(n->in[TOKENB]) && b->R <= 16 * EMBED_SORT_THREADS; // the tokens stay in registers
    mba_launch *l = mba_plan_launch(p, "embed_bwd_sort", MBA_VECTOR, b->ranges, EMBED_SORT_THREADS);
    l->smem_bytes = 8 * EMBED_KEPT + 4 * (size_t)((EMBED_SORT_THREADS / 32 + 1) * mba_ceil(b->V, b->ranges));
    l->regs = 48;
    mba_phase_move(l, MBA_LOAD, MBA_ARG_IN(TOKENB), (once ? 4.0 : 8.0) * (double)b->R);
    mba_phase_work(l, MBA_ALU, 12.0 * (double)b->R, NULL);
    mba_phase_work(l, MBA_BARRIER, 5, NULL);
    mba_phase_move(l, MBA_STORE, MBA_ARG_SCRATCH(EMBED_ORDER), 8.0 * (double)b->R / (double)b->ranges);
}

/* Blocks that sum a chunk, then blocks that write zeros; no block waits for another. */
static void plan_sums(mba_plan *p, const mba_node *n, const backward *b)
{
    const double chunks = (double)(b->chunks * b->across), row = 4 * (double)b->M;
    mba_launch  *l = mba_plan_launch(p, "embed_bwd_sum", MBA_VECTOR, (b->chunks + b->clearing) * b->across,
                                     (int)b->threads);
    l->regs = 64;
    if (b->clearing) {
        l->blocks[l->nblocks++] = (mba_blocks){ b->chunks * b->across, { 1, 0 } };
        l->blocks[l->nblocks++] = (mba_blocks){ b->clearing * b->across, { 0, 1 } };
        mba_phase_work(l, MBA_LOOP, MBA_TRIPS(0), NULL);
    }
    mba_phase_move(l, MBA_LOAD, MBA_ARG_SCRATCH(EMBED_ORDER), 8.0 * EMBED_CHUNK);
    mba_phase_move(l, MBA_LOAD, MBA_ARG_IN(DY), mba_tensor_bytes(n->in[DY]) / chunks);
    if (b->adds) mba_phase_move(l, MBA_LOAD, MBA_ARG_OUT(DTABLE), b->met * row / chunks);
    mba_phase_move(l, MBA_STORE, MBA_ARG_OUT(DTABLE), b->met * row / chunks);
    if (!b->clearing) return;
    mba_phase_work(l, MBA_END, 0, NULL);
    mba_phase_work(l, MBA_LOOP, MBA_TRIPS(1), NULL);
    mba_phase_move(l, MBA_LOAD, MBA_ARG_SCRATCH(EMBED_MET), EMBED_CLEAR);
    mba_phase_move(l, MBA_STORE, MBA_ARG_OUT(DTABLE),
                   ((double)b->V - b->met) * row / (double)(b->clearing * b->across));
    mba_phase_work(l, MBA_END, 0, NULL);
}

static void plan_join(mba_plan *p, const backward *b)
{
    mba_launch *l = mba_plan_launch(p, "embed_bwd_join", MBA_VECTOR, b->chunks, (int)b->threads);
    l->grid[1] = b->across;
    l->regs = 32;
    mba_phase_move(l, MBA_LOAD, MBA_ARG_SCRATCH(EMBED_HEAD), 8.0 * (double)b->M / (double)b->across);
    mba_phase_move(l, MBA_STORE, MBA_ARG_OUT(DTABLE), 4.0 * (double)b->M / (double)b->across);
}

static mba_status embed_bwd_cuda_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    const backward b = backward_of(n, m);
    MBA_REFUSE_IF(m->cc < 80, "a device of compute capability %d", m->cc);
    MBA_REFUSE_IF(b.R >= INT32_MAX - EMBED_SORT_THREADS || b.V > INT32_MAX - EMBED_SPAN_MAX
                      || (b.chunks + b.clearing) * b.across > INT32_MAX,
                  "%lld rows of a table of %lld", (long long)b.R, (long long)b.V);
    mba_plan_scratch(p, "order", 4 * (size_t)b.R);
    mba_plan_scratch(p, "sorted tokens", 4 * (size_t)b.R);
    mba_plan_scratch(p, "rows of a range", 8 * (size_t)b.R);
    mba_plan_scratch(p, "heads of runs", 4 * (size_t)(b.chunks * b.M));
    mba_plan_scratch(p, "tails of runs", 4 * (size_t)(b.chunks * b.M));
    mba_plan_scratch(p, "values met", (size_t)mba_ceil(b.V, EMBED_CLEAR) * EMBED_CLEAR);
    plan_sort(p, n, &b);
    plan_sums(p, n, &b);
    plan_join(p, &b);
    return MBA_OK;
}

/* A row of the table's gradient may be the sum of all rows of dy. */
static double embed_bwd_terms(const mba_node *n, int out)
{
    (void)out;
    return (double)mba_rows(n->in[DY]);
}

/* dims: rows, tokens, columns, additional columns in views, 1 + the padding token (no case has one, because finite
 * differences would not agree), 1: the table is fp32 for any activation type, as in models that look up in their fp32
 * masters. */
static void embed_build(mba_graph *g, const mba_case *c)
{
    const int64_t   R = c->dim[0], V = c->dim[1], M = c->dim[2], extra = c->dim[3];
    const mba_dtype type = c->dim[5] ? MBA_F32 : g->compute;
    mba_tensor     *e = mba_param(g, "table", MBA_TYPE(type, V, M + extra), MBA_INIT_NORMAL(1), MBA_DECAY);
    if (!extra) {
        mba_embed_padded(g, mba_index(g, "tokens", MBA_TYPE(MBA_I32, R), V), e, MBA_F32, c->dim[4] - 1);
        return;
    }
    /* Tokens, tables and outputs as views: one batch read twice, two column ranges of one table, concatenated
     * outputs. */
    mba_tensor *t = mba_index(g, "tokens", MBA_TYPE(MBA_I32, 2, R + 1), V);
    mba_tensor *a = mba_embed(g, mba_slice(g, t, 1, 0, R), mba_slice(g, e, 1, 0, M), g->compute);
    mba_tensor *b = mba_embed(g, mba_slice(g, t, 1, 1, R), mba_slice(g, e, 1, extra, M), g->compute);
    mba_relu2(g, mba_concat(g, a, b));
}

const mba_op mba_op_embed = {
    .name = "embed",
    .doc = "rows of a table",
    .kind = MBA_EMBED_LOSS,
    .in = { [TOKEN] = MBA_SLOT("token"), [TABLE] = MBA_SLOT("table") },
    .out = { [Y] = MBA_SLOT("y") },
    .attr_bytes = sizeof(embed_attr),
    .shape = embed_shape,
    .grad = embed_grad,
    .cost = embed_cost,
    .ref = embed_ref,
    .cpu = (const mba_variant[]){ { "rows", embed_cpu_plan, MBA_CPU(embed_fwd) }, { 0 } },
    .cuda = (const mba_variant[]){ { "rows", embed_cuda_plan, MBA_CUDA(embed_cuda) }, { 0 } },
    .build = embed_build,
    .cases = (const mba_case[]){ { { 9, 4, 5 }, "tokens repeat" },
                                 { { 5, 3, 387 }, "two blocks of columns, nothing divides" },
                                 { { 5, 6, 7, 3 }, "views: overlapping columns of one table, joined" },
                                 { { 70, 3, 12 }, "whole vectors; runs longer than a chunk" },
                                 { { 40, 600, 4 }, "several ranges of the vocabulary" },
                                 { { 7000, 2, 4 }, "more tokens of a range than its block keeps" },
                                 { { 17000, 3, 4 }, "more tokens than a block has in registers" },
                                 { { 5, 6, 8, 4 }, "views in whole vectors" },
                                 { { 5000, 3, 8, 4 }, "more tokens in views than a block has in registers" },
                                 { { 1, 9, 1 }, "one token; most of the table's gradient is zero" },
                                 { { 70, 3, 12, 0, 0, 1 }, "an fp32 table" },
                                 { { 0 }, NULL } },
    .sizes = (const mba_case[]){ { { 4096, 50288, 768 }, "130m, 4096 tokens" },
                                 { { 16384, 50288, 768 }, "130m, 16384 tokens" },
                                 { { 16384, 50288, 2048 }, "1.3b, 16384 tokens" },
                                 { { 16384, 50288, 768, 0, 0, 1 }, "130m, 16384 tokens, the fp32 master" },
                                 { { 16384, 50288, 2048, 0, 0, 1 }, "1.3b, 16384 tokens, the fp32 master" },
                                 { { 0 }, NULL } },
};

const mba_op mba_op_embed_bwd = {
    .name = "embed_bwd",
    .doc = "adds rows into the table's gradient",
    .kind = MBA_EMBED_LOSS,
    .no_grad = "a gradient",
    .in = { [TOKENB] = MBA_SLOT("token"), [DY] = MBA_SLOT("dy") },
    .out = { [DTABLE] = MBA_SLOT("dtable", .adds = true) },
    .attr_bytes = sizeof(embed_bwd_attr),
    .shape = embed_bwd_shape,
    .cost = embed_bwd_cost,
    .ref = embed_bwd_ref,
    .cpu = (const mba_variant[]){ { "columns", embed_bwd_cpu_plan, MBA_CPU(embed_bwd) }, { 0 } },
    .cuda = (const mba_variant[]){ { "sorted", embed_bwd_cuda_plan, MBA_CUDA(embed_bwd_cuda) }, { 0 } },
    .terms = embed_bwd_terms,
};
