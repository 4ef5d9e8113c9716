// SPDX-License-Identifier: Apache-2.0
/* collectives.c -- reduce_scatter, all_gather, allreduce and send_recv: the declarations. Between GPUs NCCL moves the
 * bytes. */
#include "ops/collectives/collectives.h"

#include <string.h>

#include "ops/collectives/collectives_slots.h"

int64_t mba_piece_offset(mba_place p, int64_t n)
{
    int64_t offset = 0;
    for (int64_t bit = 1; bit < p.ranks; bit *= 2)
        if (p.rank & bit) offset += n / (2 * bit);
    return offset;
}

/* From the last exchange of the halving back to the first: each doubles what the rank holds. */
mba_status mba_pieces_gather(mba_world *w, void *x, size_t bytes)
{
    size_t at = (size_t)mba_piece_offset((mba_place){ w->rank, w->ranks }, (int64_t)bytes);
    size_t n = bytes / (size_t)w->ranks;
    for (int bit = w->ranks / 2; bit; bit /= 2, n *= 2) {
        const size_t theirs = w->rank & bit ? at - n : at + n;
        MBA_TRY(w->exchange(w, (char *)x + at, w->rank ^ bit, (char *)x + theirs, w->rank ^ bit, n));
        if (theirs < at) at = theirs;
    }
    return MBA_OK;
}

static const collective_attr *attr_of(const mba_node *n) { return n->attr; }

static mba_status place_shape(const mba_node *n, mba_type *out)
{
    const mba_place p = attr_of(n)->place;
    MBA_NEED(p.ranks > 0 && !(p.ranks & (p.ranks - 1)),
             "%s over %lld ranks\nwhy: halves are exchanged\nfix: a power of two", n->op->name, (long long)p.ranks);
    MBA_NEED(p.rank >= 0 && p.rank < p.ranks, "%s: there is no rank %lld of %lld", n->op->name, (long long)p.rank,
             (long long)p.ranks);
    MBA_NEED(mba_dense(n->in[X]), "%s: %s is not flat", n->op->name, n->in[X]->name);
    out[Y] = n->in[X]->type;
    return MBA_OK;
}

static mba_status pieces_shape(const mba_node *n, mba_type *out)
{
    MBA_TRY(place_shape(n, out));
    MBA_NEED(mba_elems(n->in[X]) % attr_of(n)->place.ranks == 0, "%s: %lld elements do not divide among %lld ranks",
             n->op->name, (long long)mba_elems(n->in[X]), (long long)attr_of(n)->place.ranks);
    return MBA_OK;
}

static mba_status sum_shape(const mba_node *n, mba_type *out)
{
    MBA_NEED(n->in[X]->type.dtype == MBA_F32, "%s: %s is not fp32", n->op->name, n->in[X]->name);
    return n->op == &mba_op_reduce_scatter ? pieces_shape(n, out) : place_shape(n, out);
}

static mba_status shift_shape(const mba_node *n, mba_type *out)
{
    MBA_NEED(attr_of(n)->shift == 1 || attr_of(n)->shift == -1, "send_recv: a shift of %lld\nfix: 1 or -1",
             (long long)attr_of(n)->shift);
    return place_shape(n, out);
}

static mba_tensor *append(mba_graph *g, const mba_op *op, mba_tensor *x, mba_place p, int64_t shift)
{
    return mba_append(g, op, &(collective_attr){ p, shift }, (mba_tensor *[MBA_IN_MAX]){ x })->out[Y];
}

mba_tensor *mba_reduce_scatter(mba_graph *g, mba_tensor *x, mba_place p)
{
    return append(g, &mba_op_reduce_scatter, x, p, 0);
}
mba_tensor *mba_all_gather(mba_graph *g, mba_tensor *x, mba_place p) { return append(g, &mba_op_all_gather, x, p, 0); }
mba_tensor *mba_allreduce(mba_graph *g, mba_tensor *x, mba_place p) { return append(g, &mba_op_allreduce, x, p, 0); }
mba_tensor *mba_send_recv(mba_graph *g, mba_tensor *x, mba_place p, int64_t shift)
{
    return append(g, &mba_op_send_recv, x, p, shift);
}

/* The least that any algorithm sends and adds: (R-1)/R of the bytes for each half of an allreduce. */
static mba_cost link_cost(const mba_node *n)
{
    const double R = (double)attr_of(n)->place.ranks, bytes = mba_tensor_bytes(n->in[X]), part = bytes * (R - 1) / R;
    const bool   sums = n->op == &mba_op_reduce_scatter || n->op == &mba_op_allreduce;
    mba_cost c = { .link_bytes = n->op == &mba_op_allreduce ? 2 * part : n->op == &mba_op_send_recv ? bytes : part };
    if (R == 1) c.link_bytes = 0;
    c.read_bytes = c.link_bytes + (sums ? part : 0);
    c.write_bytes = n->op == &mba_op_send_recv ? bytes : c.link_bytes;
    if (sums) c.vector_flops = part / sizeof(float);
    return c;
}

/* The exchanges of a node as its variants make them: halves with the nearest rank first, then back. */
static void plan_exchanges(mba_plan *p, const mba_node *n, bool whole)
{
    const int64_t ranks = attr_of(n)->place.ranks;
    const double  bytes = mba_tensor_bytes(n->in[X]);
    for (int64_t d = 1; d < ranks && n->op != &mba_op_all_gather; d *= 2)
        mba_plan_exchange(p, d, whole ? bytes : bytes / (double)(2 * d));
    if (n->op == &mba_op_reduce_scatter || whole) return;
    for (int64_t d = ranks / 2; d; d /= 2) mba_plan_exchange(p, d, bytes / (double)(2 * d));
}

static mba_status sum_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    const int64_t ranks = attr_of(n)->place.ranks, elems = mba_elems(n->in[X]);
    const bool    whole = n->op == &mba_op_allreduce && allreduce_whole(elems, ranks);
    (void)m;
    if (ranks > 1) mba_plan_scratch(p, "received", sizeof(float) * (size_t)(whole ? elems : elems / 2));
    plan_exchanges(p, n, whole);
    return MBA_OK;
}

static mba_status gather_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    (void)m;
    plan_exchanges(p, n, false);
    return MBA_OK;
}

static mba_status shift_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    (void)m;
    if (attr_of(n)->place.ranks > 1) mba_plan_exchange(p, 1, mba_tensor_bytes(n->in[X]));
    return MBA_OK;
}

/* CUDA: after each exchange one launch adds what was received. */
static mba_status sum_cuda_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    const int64_t ranks = attr_of(n)->place.ranks, elems = mba_elems(n->in[X]);
    const bool    whole = n->op == &mba_op_allreduce && allreduce_whole(elems, ranks);
    MBA_TRY(sum_plan(p, n, m));
    for (int64_t bit = 1, count = elems; bit < ranks; bit *= 2) {
        if (!whole) count /= 2;
        const int64_t grid = mba_ceil(count, COLLECTIVE_VALUES);
        const double  bytes = sizeof(float) * (double)count / (double)grid;
        mba_launch   *l = mba_plan_launch(p, "collective_add", MBA_VECTOR, grid, COLLECTIVE_BLOCK);
        l->regs = 32;
        mba_phase_move(l, MBA_LOAD, MBA_ARG_IN(X), bytes);
        mba_phase_move(l, MBA_LOAD, MBA_ARG_SCRATCH(0), bytes);
        mba_phase_work(l, MBA_FMA, (double)count / (double)grid, NULL);
        mba_phase_move(l, MBA_STORE, MBA_ARG_OUT(Y), bytes);
    }
    return MBA_OK;
}

static int64_t one_more(const mba_node *n) { return mba_elems(n->in[X]); }

int mba_collective_exchanges(mba_exchange out[MBA_EXCHANGE_MAX], const mba_node *n)
{
    mba_plan p = { 0 };
    mba_assert(n->op->kind == MBA_COLLECTIVE && n->op->cpu[0].plan);
    const mba_status st = n->op->cpu[0].plan(&p, n, NULL); // of the variant that every device has
    mba_assert(st == MBA_OK);
    memcpy(out, p.exchange, sizeof p.exchange);
    return p.nexchanges;
}

static const char end_of_step[] = "the end of a step";

const mba_op mba_op_reduce_scatter = {
    .name = "reduce_scatter",
    .doc = "the own piece becomes the sum over all ranks",
    .kind = MBA_COLLECTIVE,
    .no_grad = end_of_step,
    .in = { [X] = MBA_SLOT("x") },
    .out = { [Y] = MBA_SLOT("y", .update = MBA_FROM(X)) },
    .attr_bytes = sizeof(collective_attr),
    .shape = sum_shape,
    .cost = link_cost,
    .ref = reduce_scatter_ref,
    .ref_space = one_more,
    .cpu = (const mba_variant[]){ { "halving", sum_plan, MBA_CPU(reduce_scatter) }, { 0 } },
    .cuda = (const mba_variant[]){ { "nccl", sum_cuda_plan, MBA_CUDA(reduce_scatter_cuda) }, { 0 } },
};

const mba_op mba_op_all_gather = {
    .name = "all_gather",
    .doc = "every piece becomes that of the rank that holds it",
    .kind = MBA_COLLECTIVE,
    .no_grad = end_of_step,
    .in = { [X] = MBA_SLOT("x") },
    .out = { [Y] = MBA_SLOT("y", .update = MBA_FROM(X)) },
    .attr_bytes = sizeof(collective_attr),
    .shape = pieces_shape,
    .cost = link_cost,
    .ref = all_gather_ref,
    .ref_space = one_more,
    .cpu = (const mba_variant[]){ { "doubling", gather_plan, MBA_CPU(all_gather) }, { 0 } },
    .cuda = (const mba_variant[]){ { "nccl", gather_plan, MBA_CUDA(all_gather_cuda) }, { 0 } },
};

const mba_op mba_op_allreduce = {
    .name = "allreduce",
    .doc = "the sum over all ranks",
    .kind = MBA_COLLECTIVE,
    .no_grad = end_of_step,
    .in = { [X] = MBA_SLOT("x") },
    .out = { [Y] = MBA_SLOT("y", .update = MBA_FROM(X)) },
    .attr_bytes = sizeof(collective_attr),
    .shape = sum_shape,
    .cost = link_cost,
    .ref = allreduce_ref,
    .ref_space = one_more,
    .cpu = (const mba_variant[]){ { "halving", sum_plan, MBA_CPU(allreduce) }, { 0 } },
    .cuda = (const mba_variant[]){ { "nccl", sum_cuda_plan, MBA_CUDA(allreduce_cuda) }, { 0 } },
};

const mba_op mba_op_send_recv = {
    .name = "send_recv",
    .doc = "y is the x of the neighbouring rank, or zeros",
    .kind = MBA_COLLECTIVE,
    .no_grad = "no model differentiates it",
    .in = { [X] = MBA_SLOT("x") },
    .out = { [Y] = MBA_SLOT("y") },
    .attr_bytes = sizeof(collective_attr),
    .shape = shift_shape,
    .cost = link_cost,
    .ref = send_recv_ref,
    .cpu = (const mba_variant[]){ { "shift", shift_plan, MBA_CPU(send_recv) }, { 0 } },
    .cuda = (const mba_variant[]){ { "nccl", shift_plan, MBA_CUDA(send_recv_cuda) }, { 0 } },
};
