// SPDX-License-Identifier: Apache-2.0
/* scaling.c -- see scaling.h. */
#include "study/scaling.h"

#include <math.h>
#include <stdlib.h>

#include "ops/collectives/collectives.h"

/* A sum of gradients on the communication lane. */
typedef struct transfer {
    double ready_s, seconds; /* when its gradients are stored, counted from the start of the step; how long it takes */
} transfer;

static bool is_sum(const mba_node *n) { return n->op == &mba_op_reduce_scatter || n->op == &mba_op_allreduce; }

static double bytes_of(const mba_node *n)
{
    const mba_cost c = n->op->cost(n);
    return c.read_bytes + c.write_bytes;
}

static void add_time(mba_link_time *to, mba_link_time t)
{
    to->node_s += t.node_s, to->net_s += t.net_s, to->latency_s += t.latency_s, to->seconds += t.seconds;
    to->node_bytes += t.node_bytes, to->net_bytes += t.net_bytes;
}

/* The time after which no node of one rank's step stores gradients of this part of group k. */
static double stored_at(const mba_scaling_input *in, int k, int64_t from, int64_t to)
{
    const mba_graph   *g = in->one->graph;
    const mba_storage *grad = g->params[k] ? g->params[k]->grad : NULL;
    double             now = 0, last = 0;
    for (int32_t i = 0; i < g->nnodes; i++) {
        const mba_node *n = g->nodes[i];
        if (!mba_runs(n, MBA_STEP) || n->pass == MBA_UPDATE) continue;
        now += in->node_s[i];
        for (int o = 0; o < MBA_OUT_MAX; o++)
            if (n->out[o] && n->out[o]->st == grad && n->out[o]->offset < to
                && n->out[o]->offset + mba_elems(n->out[o]) > from)
                last = now;
    }
    return last;
}

static int group_of(const mba_graph *g, const mba_storage *grad)
{
    int k = 0;
    while (k < MBA_GROUPS && !(g->params[k] && g->params[k]->grad == grad)) k++;
    return k;
}

/* Seconds of the same operator per compulsory byte in the step of one rank. */
static double seconds_per_byte(const mba_scaling_input *in, const mba_op *op)
{
    double s = 0, bytes = 0;
    for (int32_t i = 0; i < in->one->graph->nnodes; i++) {
        const mba_node *n = in->one->graph->nodes[i];
        if (n->op != op || n->pass != MBA_UPDATE) continue;
        s += in->node_s[i];
        bytes += bytes_of(n);
    }
    return bytes > 0 ? s / bytes : 0;
}

/* The sum of squares of all shards is gathered: the least bytes, in as many exchanges as a gather has. */
static mba_link_time gather_norm(const mba_scaling_input *in, const mba_node *n, int64_t ranks)
{
    mba_exchange e[MBA_EXCHANGE_MAX];
    int          exchanges = 0;
    const double bytes = n->op->cost(n).link_bytes * (double)ranks / (double)(ranks - 1);
    for (int64_t d = ranks / 2; d; d /= 2) e[exchanges++] = (mba_exchange){ d, bytes / (double)(2 * d) };
    return mba_links_exchanges(in->links, e, exchanges);
}

static int earlier(const void *a, const void *b)
{
    const transfer *x = a, *y = b;
    return (x->ready_s > y->ready_s) - (x->ready_s < y->ready_s);
}

/* Runs the sums in the order in which they become ready; returns the end of the last. */
static double run_sums(transfer *t, int64_t n, bool overlap, double compute_s)
{
    double lane = 0;
    if (n) qsort(t, (size_t)n, sizeof *t, earlier);
    for (int64_t i = 0; i < n; i++) {
        const double ready = overlap ? t[i].ready_s : compute_s;
        lane = (ready > lane ? ready : lane) + t[i].seconds;
    }
    return lane;
}

/* Updates and gathers of a rank, node by node: a gather waits for the update before it and the gather before it. */
typedef struct update {
    double compute_s, lane_s; /* ends of what has been issued so far, counted from the start of the update */
} update;

static void take_update_node(mba_scaling_point *p, update *u, const mba_scaling_input *in, const mba_node *n,
                             double sharing)
{
    if (n->op->kind == MBA_COLLECTIVE) {
        mba_exchange        e[MBA_EXCHANGE_MAX];
        const mba_link_time t = mba_links_exchanges(in->links, e, mba_collective_exchanges(e, n));
        add_time(&p->gathers, t);
        p->gathered_bytes += mba_tensor_bytes(n->in[0]);
        u->lane_s = (u->compute_s > u->lane_s ? u->compute_s : u->lane_s) + sharing * t.seconds;
        if (!in->overlap) u->compute_s = u->lane_s;
        return;
    }
    if (n->op->cost(n).link_bytes > 0) { // all ranks need the norm before they go on
        const mba_link_time t = gather_norm(in, n, p->ranks);
        add_time(&p->gathers, t);
        u->compute_s += sharing * t.seconds;
    }
    const double s = sharing * bytes_of(n) * seconds_per_byte(in, n->op);
    p->update_s += s;
    u->compute_s += s;
}

static void take_sum(mba_scaling_point *p, transfer *t, const mba_scaling_input *in, const mba_session *rank,
                     const mba_node *n, double sharing)
{
    mba_exchange        e[MBA_EXCHANGE_MAX];
    const mba_tensor   *x = n->in[0];
    const mba_link_time link = mba_links_exchanges(in->links, e, mba_collective_exchanges(e, n));
    const double        adding = n->op->cost(n).vector_flops * 3 * sizeof(float) / in->add_bps;
    add_time(&p->sums, link);
    p->summed_bytes += mba_tensor_bytes(x);
    p->adding_s += sharing * adding;
    *t = (transfer){ .ready_s = sharing
                                * stored_at(in, group_of(rank->graph, x->st), x->offset, x->offset + mba_elems(x)),
                     .seconds = sharing * (link.seconds + adding) };
}

static void run_rank(mba_scaling_point *p, const mba_scaling_input *in, const mba_session *rank, transfer *t)
{
    const double sharing = mba_links_sharing(in->links, p->ranks);
    double       nodes_s = 0, passes_s = 0;
    update       u = { 0 };
    for (int32_t i = 0; i < in->one->graph->nnodes; i++) {
        if (!mba_runs(in->one->graph->nodes[i], MBA_STEP)) continue;
        nodes_s += in->node_s[i];
        if (in->one->graph->nodes[i]->pass != MBA_UPDATE) passes_s += in->node_s[i];
    }
    for (int32_t i = 0; i < rank->graph->nnodes; i++) {
        const mba_node *n = rank->graph->nodes[i];
        if (n->pass != MBA_UPDATE) continue;
        if (is_sum(n)) take_sum(p, &t[p->buckets++], in, rank, n, sharing);
        else take_update_node(p, &u, in, n, sharing);
    }
    double busy = 0;
    for (int64_t i = 0; i < p->buckets; i++) busy += t[i].seconds;
    const double taken = in->overlap && in->sms > 0 ? in->links->v[MBA_LINK_comm_sms] / in->sms : 0;
    const double alone = sharing * passes_s;
    p->compute_s = alone + taken * (busy < alone ? busy : alone);
    const double sums_end = run_sums(t, p->buckets, in->overlap, p->compute_s);
    const double begun = sums_end > p->compute_s ? sums_end : p->compute_s;
    const double ended = begun + (u.lane_s > u.compute_s ? u.lane_s : u.compute_s);
    p->comm_s = busy + sharing * p->gathers.seconds;
    p->exposed_s = ended - p->compute_s - p->update_s;
    p->skew_s = in->links->v[MBA_LINK_skew] * mba_normal_largest(p->ranks) * p->compute_s;
    p->step_s = ended + p->skew_s + sharing * (in->step_s - nodes_s);
    mba_assert(p->exposed_s > -1e-9 && p->exposed_s < p->comm_s + 1e-9);
    p->exposed_s = fmin(fmax(p->exposed_s, 0), p->comm_s); // differences of sums
}

mba_status mba_scaling_at(mba_scaling_point *out, const mba_scaling_input *in, int64_t ranks)
{
    mba_session         rank = { 0 };
    mba_session_options so = in->rank;
    mba_assert(in->add_bps > 0);
    *out = (mba_scaling_point){ .ranks = ranks, .step_s = in->step_s, .efficiency = 1 };
    if (ranks < 1 || ranks & (ranks - 1))
        return mba_fail(MBA_E_ARG,
                        "%lld ranks\nwhy: gradients are added in a binary tree over ranks\nfix: a power of two",
                        (long long)ranks);
    if (ranks > (int64_t)in->links->v[MBA_LINK_gpus_node] && !(in->links->v[MBA_LINK_nics_node] > 0))
        return mba_fail(MBA_E_ARG, "%lld ranks on the one node of %s, which has %.0f\nfix: fewer, or another --cluster",
                        (long long)ranks, in->links->name, in->links->v[MBA_LINK_gpus_node]);
    so.place = (mba_place){ 0, ranks };
    so.accumulate = ranks > 1; // as `train` does
    mba_status st = mba_session_outline(&rank, &so);
    transfer  *t = st == MBA_OK ? calloc((size_t)rank.graph->nnodes + 1, sizeof *t) : NULL;
    if (st == MBA_OK && !t) st = mba_fail(MBA_E_NOMEM, "no memory for the collectives of a rank");
    if (st == MBA_OK && ranks > 1) {
        run_rank(out, in, &rank, t);
        out->efficiency = in->step_s / out->step_s;
    }
    free(t);
    mba_session_end(&rank);
    return st;
}
