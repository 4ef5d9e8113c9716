// SPDX-License-Identifier: Apache-2.0
/* collectives_sequence.c -- send, receive and gather_prefix, between ranks that hold neighbouring parts of a sequence:
 * the declarations. Variants exist for the CPU only.
 *
 * A scan starts from the state that the rank before it sends. Sends are posted, so a rank goes on to the next layer
 * while the next rank scans this one: rank c runs c scans behind rank 0 through all layers, and a pass of n layers
 * costs C - 1 scans more, not n (C - 1). The other way, a gather of every rank's (decay, state) pair and a local
 * combine, lets all ranks start at once, but needs the state before the scan that uses it: a second pass over the
 * states in every layer, about a third of SSD, n / 3 scans in all. It would be faster only for more than n / 3
 * ranks. */
#include "ops/collectives/collectives.h"
#include "ops/collectives/collectives_slots.h"

static const sequence_attr *attr_of(const mba_node *n) { return n->attr; }

static mba_status place_fits(const mba_node *n)
{
    const mba_place p = attr_of(n)->place;
    MBA_NEED(p.rank >= 0 && p.rank < p.ranks, "%s: there is no rank %lld of %lld", n->op->name, (long long)p.rank,
             (long long)p.ranks);
    MBA_NEED(!n->in[X] || n->in[X]->type.dtype == MBA_F32, "%s: %s is not fp32", n->op->name, n->in[X]->name);
    return MBA_OK;
}

/* ---- send, receive ---- */

static mba_status send_shape(const mba_node *n, mba_type *out)
{
    (void)out;
    MBA_TRY(place_fits(n));
    MBA_NEED(mba_dense(n->in[X]), "send: %s is not flat", n->in[X]->name);
    return MBA_OK;
}

static mba_status receive_shape(const mba_node *n, mba_type *out)
{
    MBA_TRY(place_fits(n));
    MBA_NEED(attr_of(n)->type.dtype == MBA_F32, "receive: only fp32 is passed on");
    out[Y] = attr_of(n)->type;
    return MBA_OK;
}

void mba_send(mba_graph *g, mba_tensor *x, mba_place p)
{
    MBA_APPEND(g, send, (&(sequence_attr){ .place = p, .shift = 1, .type = x->type }), x);
}

mba_tensor *mba_receive(mba_graph *g, mba_type type, mba_place p)
{
    mba_tensor *y = MBA_APPEND(g, receive, (&(sequence_attr){ .place = p, .shift = 1, .type = type }), NULL)->out[Y];
    y->needs_grad = true; // the rank that sent it needs it
    return y;
}

/* What one rank sends, the next receives; gradients go the other way. */
static sequence_attr opposite(const mba_node *n)
{
    sequence_attr a = *attr_of(n);
    a.shift = -a.shift;
    return a;
}

static void send_grad(mba_graph *g, const mba_node *n, mba_tensor *const *d)
{
    const sequence_attr a = opposite(n);
    (void)d; // there are no outputs: the gradient is on the rank that received x
    mba_grad_add(g, n->in[X], MBA_APPEND(g, receive, &a, NULL)->out[Y]);
}

static void receive_grad(mba_graph *g, const mba_node *n, mba_tensor *const *d)
{
    const sequence_attr a = opposite(n);
    MBA_APPEND(g, send, &a, d[Y]);
}

static mba_cost send_cost(const mba_node *n)
{
    const sequence_attr *a = attr_of(n);
    const bool           sends = sequence_peer(a, a->shift) >= 0;
    mba_cost             c = { .read_bytes = sends ? mba_tensor_bytes(n->in[X]) : 0 };
    c.link_bytes = c.read_bytes;
    return c;
}

static mba_cost receive_cost(const mba_node *n) { return (mba_cost){ .write_bytes = mba_tensor_bytes(n->out[Y]) }; }

/* What one rank sends and the other receives: one exchange, counted where it is sent. */
static mba_status send_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    const sequence_attr *a = attr_of(n);
    (void)m;
    if (sequence_peer(a, a->shift) >= 0) mba_plan_exchange(p, 1, mba_tensor_bytes(n->in[X]));
    return MBA_OK;
}

static mba_status receive_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    (void)p, (void)n, (void)m;
    return MBA_OK;
}

/* ---- gather_prefix ---- */

static mba_status gather_shape(const mba_node *n, mba_type *out)
{
    MBA_TRY(place_fits(n));
    MBA_NEED(n->in[X]->type.rank >= 2, "gather_prefix: %s has no rows", n->in[X]->name);
    out[Y] = n->in[X]->type;
    out[Y].dim[1] *= attr_of(n)->place.rank + 1;
    return MBA_OK;
}

static mba_status gather_bwd_shape(const mba_node *n, mba_type *out)
{
    MBA_TRY(place_fits(n));
    MBA_NEED(mba_dense(n->in[X]), "gather_prefix_bwd: %s is not flat", n->in[X]->name);
    out[Y] = attr_of(n)->type;
    return MBA_OK;
}

mba_tensor *mba_gather_prefix(mba_graph *g, mba_tensor *x, mba_place p)
{
    return MBA_APPEND(g, gather_prefix, (&(sequence_attr){ .place = p, .shift = 1, .type = x->type }), x)->out[Y];
}

static void gather_grad(mba_graph *g, const mba_node *n, mba_tensor *const *d)
{
    mba_grad_add(g, n->in[X], MBA_APPEND(g, gather_prefix_bwd, n->attr, d[Y])->out[Y]);
}

/* The own rows go to every later rank; gradients of all earlier rows to the ranks that own them. */
static mba_cost gather_cost(const mba_node *n)
{
    const mba_place p = attr_of(n)->place;
    const bool      bwd = n->op == &mba_op_gather_prefix_bwd;
    const double    later = (double)(p.ranks - 1 - p.rank), part = mba_tensor_bytes(bwd ? n->out[Y] : n->in[X]);
    mba_cost        c = mba_cost_io(n);
    c.link_bytes = part * (bwd ? (double)p.rank : later);
    if (bwd) c.vector_flops = part / sizeof(float) * later;
    return c;
}

static mba_status gather_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    const mba_tensor *part = n->op == &mba_op_gather_prefix_bwd ? n->out[Y] : n->in[X];
    (void)m;
    mba_plan_scratch(p, "own part", (size_t)mba_tensor_bytes(part));
    mba_plan_scratch(p, "part of another rank", (size_t)mba_tensor_bytes(part));
    const mba_place at = attr_of(n)->place;
    const int64_t   peers = n->op == &mba_op_gather_prefix_bwd ? at.rank : at.ranks - 1 - at.rank;
    for (int64_t d = 1; d <= peers && d <= MBA_EXCHANGE_MAX; d++) mba_plan_exchange(p, d, mba_tensor_bytes(part));
    return MBA_OK;
}

static int64_t one_part(const mba_node *n)
{
    return mba_elems(n->op == &mba_op_gather_prefix_bwd ? n->out[Y] : n->in[X]);
}

const mba_op mba_op_send = {
    .name = "send",
    .doc = "x goes to the next rank of the sequence",
    .kind = MBA_COLLECTIVE,
    .remote = true,
    .in = { [X] = MBA_SLOT("x") },
    .attr_bytes = sizeof(sequence_attr),
    .shape = send_shape,
    .grad = send_grad,
    .cost = send_cost,
    .ref = send_ref,
    .cpu = (const mba_variant[]){ { "post", send_plan, MBA_CPU(send_fwd) }, { 0 } },
};

const mba_op mba_op_receive = {
    .name = "receive",
    .doc = "y is what the rank before sends, or zeros",
    .kind = MBA_COLLECTIVE,
    .out = { [Y] = MBA_SLOT("y") },
    .attr_bytes = sizeof(sequence_attr),
    .shape = receive_shape,
    .grad = receive_grad,
    .cost = receive_cost,
    .ref = receive_ref,
    .cpu = (const mba_variant[]){ { "wait", receive_plan, MBA_CPU(receive_fwd) }, { 0 } },
};

const mba_op mba_op_gather_prefix = {
    .name = "gather_prefix",
    .doc = "rows of all ranks before this one and its own",
    .kind = MBA_COLLECTIVE,
    .in = { [X] = MBA_SLOT("x") },
    .out = { [Y] = MBA_SLOT("y") },
    .attr_bytes = sizeof(sequence_attr),
    .shape = gather_shape,
    .grad = gather_grad,
    .cost = gather_cost,
    .ref = gather_prefix_ref,
    .ref_space = one_part,
    .cpu = (const mba_variant[]){ { "direct", gather_plan, MBA_CPU(gather_prefix) }, { 0 } },
};

const mba_op mba_op_gather_prefix_bwd = {
    .name = "gather_prefix_bwd",
    .doc = "gradient of gather_prefix: sums over ranks",
    .kind = MBA_COLLECTIVE,
    .no_grad = "a gradient",
    .in = { [X] = MBA_SLOT("dy") },
    .out = { [Y] = MBA_SLOT("dx", .adds = true) },
    .attr_bytes = sizeof(sequence_attr),
    .shape = gather_bwd_shape,
    .cost = gather_cost,
    .ref = gather_prefix_bwd_ref,
    .ref_space = one_part,
    .cpu = (const mba_variant[]){ { "direct", gather_plan, MBA_CPU(gather_prefix_bwd) }, { 0 } },
};
