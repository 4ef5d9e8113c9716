// SPDX-License-Identifier: Apache-2.0
/* ragged_test.c -- graphs of different sizes packed into one batch compute what each computes alone.
 *
 * Random batches hold graphs of one node, graphs without edges, directed edges, self loops and repeated edges; the
 * capacities are larger than what is in them. Everything is compared twice: in fp64 every tensor to 1e-12 of its norm
 * (or of 1e-4 of the largest gradient norm), which proves the claim; in the fp32 CPU program outputs to 1e-6 of their
 * norm and gradients to 1e-6 of the largest gradient norm, because where the terms of a small gradient cancel, their
 * rounding depends on the order of the sum.
 *
 * A batch norm in training couples all graphs of a batch: its statistics are theirs together, so a graph alone has
 * others, by definition. Whole networks are therefore compared packed against one by one with given (running)
 * statistics; with statistics of the batch they are compared where the batch is the same set of rows: at another
 * capacity, and with the nodes renumbered. That the norm itself does not see padding is in batchnorm_test.c.
 *
 * The padded form of convolution and scan is in padded_test.c. */
#include "tests/agree.h"

#include "data/graph_batch.h"
#include "models/graphmamba.h"

enum { GRAPHS = 6, NODES = 23, EDGES = 60, ROWS = GRAPHS * NODES }; /* NODES, EDGES: of one graph, at most */
enum { NODE_REALS = 3, EDGE_REALS = 2, LAP = 4, OUTPUTS = 3 };

/* ---- random graphs ---- */

typedef struct one {
    int64_t  nodes, edges;
    uint32_t src[EDGES], dst[EDGES];
    float    node_real[NODES * NODE_REALS], edge_real[EDGES * EDGE_REALS], values[LAP], vectors[NODES * LAP];
    int64_t  key[NODES];            /* of a node, whatever its number */
    double   seed[NODES * OUTPUTS]; /* gradient of its outputs; of a graph's: the first row */
} one;

static uint32_t dice(uint64_t *counter, uint32_t n)
{
    uint32_t u[4];
    mba_philox(u, 11, 0, (*counter)++);
    return u[0] % n;
}

static float real(uint64_t *counter) { return (float)dice(counter, 20001) / 10000 - 1; }

/* The kind of a graph: 0 as it comes, 1 a single node, 2 no edges, 3 a single node with a self loop. */
static void make_one(one *x, uint64_t *c, int kind, int64_t first_key)
{
    memset(x, 0, sizeof *x);
    x->nodes = kind % 2 ? 1 : 2 + dice(c, NODES - 1);
    x->edges = kind == 0 ? 1 + dice(c, EDGES) : kind == 3;
    for (int k = 0; k < x->edges; k++) {
        x->src[k] = dice(c, (uint32_t)x->nodes);
        x->dst[k] = dice(c, (uint32_t)x->nodes);
    }
    for (int i = 0; i < NODES * NODE_REALS; i++) x->node_real[i] = real(c);
    for (int i = 0; i < EDGES * EDGE_REALS; i++) x->edge_real[i] = real(c);
    for (int i = 0; i < NODES * OUTPUTS; i++) x->seed[i] = (double)real(c);
    for (int i = 0; i < NODES; i++) x->key[i] = first_key + i;
    for (int i = 0; i < LAP; i++) x->values[i] = i < x->nodes ? real(c) + 1 : NAN;
    for (int i = 0; i < NODES * LAP; i++) x->vectors[i] = i % LAP < x->nodes ? real(c) : NAN;
}

/* Batch b: its graphs, at least one of each kind that matters. */
static void make_batch(one *x, int b)
{
    uint64_t c = (uint64_t)b << 32;
    for (int g = 0; g < GRAPHS; g++) {
        const int turn = (g + b) % GRAPHS;
        make_one(&x[g], &c, turn < 4 ? turn : 0, g * NODES);
    }
}

/* ---- a network and its batch ---- */

typedef struct net {
    rig          r;
    mba_graphnet c;
    mba_tensor  *logits, *seed;
    float        junk;
} net; /* in the unused rows */

typedef struct room {
    int64_t nodes, edges, graphs;
} room;

/* Running statistics as after some training: any, but the same for the same name. */
static void set_statistics(rig *r)
{
    for (int32_t k = 0; k < r->g->ntensors; k++) {
        const mba_tensor *t = r->g->tensors[k];
        const bool        var = mba_is_state(t) && strstr(t->name, "running_var");
        if (!mba_is_state(t)) continue;
        for (int64_t i = 0; i < mba_elems(t); i++) {
            uint32_t u[4];
            mba_philox(u, mba_stream(t->name), 0, (uint64_t)i);
            rig_set(r, t, i, var ? 0.5 + mba_unit(u[0]) : 0.4 * mba_unit(u[0]) - 0.2);
        }
    }
}

static net make_net(room size, mba_readout readout, bool train)
{
    net        n = { .c = { .nodes = size.nodes,
                            .edges = size.edges,
                            .graphs = size.graphs,
                            .layers = 2,
                            .width = 20,
                            .node_reals = NODE_REALS,
                            .edge_reals = EDGE_REALS,
                            .pe_count = LAP,
                            .pe_width = 5,
                            .head_layers = 2,
                            .outputs = OUTPUTS,
                            .readout = readout,
                            .loss = MBA_LOSS_CE,
                            .train = train,
                            .given_signs = true } };
    mba_graph *g = graph();
    assert_ok(mba_graphnet_complete(&n.c));
    n.logits = mba_graphnet_build(g, &n.c).logits;
    assert_ok(mba_graph_status(g));
    n.seed = mba_input(g, "seed", n.logits->type);
    n.r = rig_create(g, 1, &n.logits, &n.seed);
    set_statistics(&n.r);
    return n;
}

/* An input by the last part of its name. */
static mba_tensor *input(const net *n, const char *name)
{
    for (int32_t k = 0; k < n->r.g->ntensors; k++) {
        mba_tensor  *t = n->r.g->tensors[k];
        const size_t m = strlen(t->name), l = strlen(name);
        if (t->st->role != MBA_INPUT || t->base || m < l || strcmp(t->name + m - l, name)) continue;
        if (m == l || t->name[m - l - 1] == '.') return t;
    }
    print_error("the graph has no input %s\n", name);
    fail();
    return NULL;
}

static void put_indices(net *n, const char *name, const int32_t *x)
{
    const mba_tensor *t = input(n, name);
    for (int64_t i = 0; i < mba_elems(t); i++) rig_set(&n->r, t, i, x[i]);
}

static void put_reals(net *n, const char *name, const float *x)
{
    const mba_tensor *t = input(n, name);
    for (int64_t i = 0; i < mba_elems(t); i++) rig_set(&n->r, t, i, (double)x[i]);
}

static void *room_for(int64_t n, size_t bytes)
{
    void *p = calloc((size_t)n + 1, bytes);
    assert_non_null(p);
    return p;
}

static mba_graph_batch batch_of(const mba_graphnet *c)
{
    return (mba_graph_batch){ .graph_ptr = room_for(c->graphs, 4),
                              .graph_of = room_for(c->nodes, 4),
                              .degree = room_for(c->nodes, 4),
                              .in_ptr = room_for(c->nodes, 4),
                              .out_ptr = room_for(c->nodes, 4),
                              .src = room_for(c->edges, 4),
                              .out_edge = room_for(c->edges, 4),
                              .node_real = room_for(c->nodes * NODE_REALS, 4),
                              .edge_real = room_for(c->edges * EDGE_REALS, 4),
                              .lap_phi = room_for(c->nodes * LAP, 4),
                              .lap_lam = room_for(c->nodes * LAP, 4) };
}

static void free_batch(mba_graph_batch *b)
{
    void *all[] = { b->graph_ptr, b->graph_of,  b->degree,    b->in_ptr,  b->out_ptr, b->src,
                    b->out_edge,  b->node_real, b->edge_real, b->lap_phi, b->lap_lam };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
}

static void put_orders(net *n, const mba_graph_batch *b, const int64_t *key)
{
    const int64_t N = n->c.nodes;
    int32_t      *perm = room_for(N, 4), *inverse = room_for(N, 4), *segment = room_for(N, 4);
    uint64_t     *work = room_for(3 * N, 8);
    for (int l = 0; l < n->c.layers; l++) {
        char name[3][24];
        mba_graph_order(perm, inverse, segment,
                        &(mba_graph_order_args){ .type = mba_order_find(l ? "Mamba_Hybrid_Degree_Noise"
                                                                          : "Mamba_Hybrid_Degree_Noise_Bucket"),
                                                 .batch = b,
                                                 .capacity = N,
                                                 .key = key,
                                                 .seed = 3,
                                                 .counter = 1,
                                                 .layer = l,
                                                 .work = work });
        snprintf(name[0], sizeof name[0], "perm.%d", l);
        snprintf(name[1], sizeof name[1], "inverse.%d", l);
        snprintf(name[2], sizeof name[2], "segment.%d", l);
        put_indices(n, name[0], perm);
        put_indices(n, name[1], inverse);
        put_indices(n, name[2], segment);
    }
    free(perm);
    free(inverse);
    free(segment);
    free(work);
}

static void put_seeds(net *n, const one *x, int count)
{
    int64_t at = 0;
    for (int g = 0; g < count; g++) {
        const int64_t rows = n->c.readout == MBA_READ_NODES ? x[g].nodes : 1;
        for (int64_t i = 0; i < rows * OUTPUTS; i++) rig_set(&n->r, n->seed, at++, x[g].seed[i]);
    }
}

/* Features of rows that are not there, which nobody may look at. */
static void put_junk(mba_graph_batch *b, const mba_graphnet *c, float junk)
{
    for (int64_t i = b->nodes * NODE_REALS; i < c->nodes * NODE_REALS; i++) b->node_real[i] = junk;
    for (int64_t i = b->edges * EDGE_REALS; i < c->edges * EDGE_REALS; i++) b->edge_real[i] = junk;
    for (int64_t i = b->nodes * LAP; i < c->nodes * LAP; i++) b->lap_phi[i] = b->lap_lam[i] = junk;
}

/* Nobody has a label: the loss has no part in this, gradients start at the logits. */
static void put_no_labels(net *n)
{
    const mba_tensor *t = input(n, "labels");
    for (int64_t i = 0; i < mba_elems(t); i++) rig_set(&n->r, t, i, -1);
}

/* These graphs through the network, forward and backward, with the counts of the step. */
static void run(net *n, const one *x, int count)
{
    mba_batch_graph item[GRAPHS];
    int64_t         key[ROWS], keys = 0;
    mba_graph_batch b = batch_of(&n->c);
    for (int g = 0; g < count; g++) {
        item[g] = (mba_batch_graph){ .nodes = x[g].nodes,
                                     .edges = x[g].edges,
                                     .src = x[g].src,
                                     .dst = x[g].dst,
                                     .node_real = x[g].node_real,
                                     .edge_real = x[g].edge_real,
                                     .lap_values = x[g].values,
                                     .lap_vectors = x[g].vectors };
        for (int64_t v = 0; v < x[g].nodes; v++) key[keys++] = x[g].key[v];
    }
    const mba_graph_shape shape = { .nodes = n->c.nodes,
                                    .edges = n->c.edges,
                                    .graphs = n->c.graphs,
                                    .node_reals = NODE_REALS,
                                    .edge_reals = EDGE_REALS,
                                    .lap = LAP };
    assert_ok(mba_graph_batch_fill(&b, &shape, item, count));
    put_junk(&b, &n->c, n->junk);
    put_indices(n, "src", b.src);
    put_indices(n, "in_ptr", b.in_ptr);
    put_indices(n, "out_ptr", b.out_ptr);
    put_indices(n, "out_edge", b.out_edge);
    if (n->c.readout != MBA_READ_NODES) put_indices(n, "graph_ptr", b.graph_ptr);
    put_reals(n, "node_x", b.node_real);
    put_reals(n, "edge_x", b.edge_real);
    put_reals(n, "phi", b.lap_phi);
    put_reals(n, "lam", b.lap_lam);
    put_orders(n, &b, key);
    put_seeds(n, x, count);
    put_no_labels(n);
    n->r.step.count[MBA_NODES] = (int32_t)b.nodes;
    n->r.step.count[MBA_EDGES] = (int32_t)b.edges;
    n->r.step.count[MBA_GRAPHS] = (int32_t)b.graphs;
    rig_run(&n->r);
    free_batch(&b);
}

/* ---- comparing ---- */

static double norm_of(const double *x, int64_t n)
{
    double s = 0;
    for (int64_t i = 0; i < n; i++) s += x[i] * x[i];
    return sqrt(s);
}

/* Parameter gradients of a run, one behind the other (also of a storage's gaps, which are zero), added to `sum`. */
static int64_t add_gradients(double *sum, net *n, int which)
{
    int64_t at = 0;
    for (int32_t k = 0; k < n->r.g->ntensors; k++) {
        const mba_tensor *t = n->r.g->tensors[k];
        if (!mba_is_param(t)) continue;
        const mba_tensor *d = rig_grad(&n->r, t);
        for (int64_t i = 0; i < mba_elems(t); i++) sum[at++] += value(&n->r, d, i, which);
    }
    return at;
}

static void compare_gradients(worst *w, net *n, const double *a, const double *b, int which)
{
    for (int pass = 0; pass < 2; pass++) { // the largest first
        int64_t at = 0;
        for (int32_t k = 0; k < n->r.g->ntensors; k++) {
            const mba_tensor *t = n->r.g->tensors[k];
            if (!mba_is_param(t)) continue;
            if (pass) compare(w, a + at, b + at, mba_elems(t), which);
            else w->largest[which] = fmax(w->largest[which], norm_of(b + at, mba_elems(t)));
            at += mba_elems(t);
        }
    }
}

enum { WEIGHTS_MAX = 20000 };

typedef struct outcome {
    double  logits[2][ROWS * OUTPUTS], grads[2][WEIGHTS_MAX];
    int64_t rows;
} outcome;

static outcome *outcome_create(void) { return room_for(1, sizeof(outcome)); }

/* Adds a run: its rows of logits behind those that are there, its gradients to the sum. */
static void gather(outcome *o, net *n, int64_t rows)
{
    for (int which = 0; which < 2; which++) {
        for (int64_t i = 0; i < rows * OUTPUTS; i++)
            o->logits[which][o->rows * OUTPUTS + i] = value(&n->r, n->logits, i, which);
        assert_true(add_gradients(o->grads[which], n, which) <= WEIGHTS_MAX);
    }
    o->rows += rows;
}

static worst difference(net *n, const outcome *a, const outcome *b)
{
    worst w = { 0 };
    assert_int_equal(a->rows, b->rows);
    for (int which = 0; which < 2; which++) {
        compare(&w, a->logits[which], b->logits[which], a->rows * OUTPUTS, which);
        compare_gradients(&w, n, a->grads[which], b->grads[which], which);
    }
    return w;
}

static int64_t rows_of(const net *n, const one *x, int count)
{
    int64_t nodes = 0;
    for (int g = 0; g < count; g++) nodes += x[g].nodes;
    return n->c.readout == MBA_READ_NODES ? nodes : count;
}

/* ---- packed = one at a time ---- */

enum { BATCHES = 5 };
static const room        wide = { ROWS + 17, GRAPHS *EDGES + 9, GRAPHS + 2 };
static const char *const readout_name[] = { "nodes", "mean", "max" };

static worst packed_against_alone(const one *x, mba_readout readout)
{
    outcome *packed = outcome_create(), *alone = outcome_create();
    net      all = make_net(wide, readout, false);
    run(&all, x, GRAPHS);
    gather(packed, &all, rows_of(&all, x, GRAPHS));
    for (int g = 0; g < GRAPHS; g++) { // no more room than the graph needs
        net n = make_net((room){ x[g].nodes, x[g].edges ? x[g].edges : 1, 1 }, readout, false);
        run(&n, x + g, 1);
        gather(alone, &n, rows_of(&n, x + g, 1));
        rig_destroy(&n.r);
    }
    const worst w = difference(&all, packed, alone);
    rig_destroy(&all.r);
    free(packed);
    free(alone);
    return w;
}

static void packed_graphs_are_what_each_is_alone(void **state)
{
    (void)state;
    for (int readout = MBA_READ_NODES; readout <= MBA_READ_MAX; readout++) {
        worst w = { 0 };
        for (int b = 0; b < BATCHES; b++) {
            one x[GRAPHS];
            make_batch(x, b);
            judge(&w, packed_against_alone(x, (mba_readout)readout));
        }
        assert_equal_to_rounding(readout_name[readout], w);
    }
}

/* ---- the same batch in other rows ---- */

static outcome *outcome_of(net *n, const one *x)
{
    outcome *o = outcome_create();
    run(n, x, GRAPHS);
    gather(o, n, rows_of(n, x, GRAPHS));
    return o;
}

static void capacity_and_what_is_in_it_do_not_matter_to_training(void **state)
{
    (void)state;
    worst w = { 0 };
    for (int b = 0; b < BATCHES; b++) {
        one  x[GRAPHS];
        room tight = { 0, 0, GRAPHS };
        make_batch(x, b);
        for (int g = 0; g < GRAPHS; g++) tight.nodes += x[g].nodes, tight.edges += x[g].edges;
        net n = make_net(wide, MBA_READ_MEAN, true), m = make_net(tight, MBA_READ_MEAN, true);
        n.junk = 1000;
        outcome *p = outcome_of(&n, x), *q = outcome_of(&m, x);
        judge(&w, difference(&n, p, q));
        rig_destroy(&n.r);
        rig_destroy(&m.r);
        free(p);
        free(q);
    }
    assert_equal_to_rounding("another capacity, statistics of the batch", w);
}

/* Node v of x becomes node to[v]; its features, position, key and the gradient of its output go with it, and the edges
 * are stored in another order. */
static void renumber(one *y, const one *x, int64_t *to, uint64_t *c)
{
    int64_t edge[EDGES];
    *y = *x;
    for (int64_t v = 0; v < x->nodes; v++) to[v] = v;
    for (int64_t k = 0; k < x->edges; k++) edge[k] = k;
    for (int64_t v = x->nodes - 1; v > 0; v--) {
        const int64_t u = dice(c, (uint32_t)v + 1), t = to[v];
        to[v] = to[u];
        to[u] = t;
    }
    for (int64_t k = x->edges - 1; k > 0; k--) {
        const int64_t j = dice(c, (uint32_t)k + 1), t = edge[k];
        edge[k] = edge[j];
        edge[j] = t;
    }
    for (int64_t v = 0; v < x->nodes; v++) {
        for (int i = 0; i < NODE_REALS; i++) y->node_real[to[v] * NODE_REALS + i] = x->node_real[v * NODE_REALS + i];
        for (int i = 0; i < LAP; i++) y->vectors[to[v] * LAP + i] = x->vectors[v * LAP + i];
        for (int i = 0; i < OUTPUTS; i++) y->seed[to[v] * OUTPUTS + i] = x->seed[v * OUTPUTS + i];
        y->key[to[v]] = x->key[v];
    }
    for (int64_t k = 0; k < x->edges; k++) {
        y->src[edge[k]] = (uint32_t)to[x->src[k]];
        y->dst[edge[k]] = (uint32_t)to[x->dst[k]];
        for (int i = 0; i < EDGE_REALS; i++) y->edge_real[edge[k] * EDGE_REALS + i] = x->edge_real[k * EDGE_REALS + i];
    }
}

static void renumbered_nodes_permute_the_outputs_and_nothing_else(void **state)
{
    (void)state;
    worst w = { 0 };
    for (int b = 0; b < BATCHES; b++) {
        one      x[GRAPHS], y[GRAPHS];
        int64_t  to[GRAPHS][NODES], moved = 0, at = 0;
        uint64_t c = (uint64_t)(100 + b) << 32;
        make_batch(x, b);
        for (int g = 0; g < GRAPHS; g++) renumber(&y[g], &x[g], to[g], &c);
        net      n = make_net(wide, MBA_READ_NODES, true), m = make_net(wide, MBA_READ_NODES, true);
        outcome *p = outcome_of(&n, x), *q = outcome_of(&m, y), *back = outcome_create();
        *back = *q;
        for (int g = 0; g < GRAPHS; g++, at += x[g - 1].nodes)
            for (int64_t v = 0; v < x[g].nodes; v++)
                for (int which = 0; which < 2; which++) {
                    moved += to[g][v] != v;
                    memcpy(back->logits[which] + (at + v) * OUTPUTS, q->logits[which] + (at + to[g][v]) * OUTPUTS,
                           sizeof(double) * OUTPUTS);
                }
        assert_true(moved > 0);
        judge(&w, difference(&n, back, p));
        rig_destroy(&n.r);
        rig_destroy(&m.r);
        free(p);
        free(q);
        free(back);
    }
    assert_equal_to_rounding("renumbered, statistics of the batch", w);
}

/* ---- no edges at all ---- */

static void a_batch_without_edges_trains(void **state)
{
    (void)state;
    one x[GRAPHS];
    make_batch(x, 1);
    for (int g = 0; g < GRAPHS; g++) x[g].edges = 0;
    net      n = make_net(wide, MBA_READ_MAX, true), m = make_net((room){ wide.nodes, 1, GRAPHS }, MBA_READ_MAX, true);
    outcome *p = outcome_of(&n, x), *q = outcome_of(&m, x);
    rig     *r = &n.r;
    int      norms = 0, silent = 0;
    assert_equal_to_rounding("no edges, room for many or for one", difference(&n, p, q));
    for (int32_t k = 0; k < r->g->ntensors; k++) {
        const mba_tensor *t = r->g->tensors[k];
        if (mba_is_state(t) && strstr(t->name, "bn_edge_e.running_var")) {
            uint32_t u[4];
            mba_philox(u, mba_stream(t->name), 0, 0);
            assert_near(rig_have(r, t, 0), 0.5 + mba_unit(u[0]), 1e-7); // as it was
            norms++;
        }
        if (!mba_is_param(t) || !(strstr(t->name, "edge_encoder") || strstr(t->name, "local_model.C"))) continue;
        for (int64_t i = 0; i < mba_elems(t); i++) assert_near(rig_have(r, rig_grad(r, t), i), 0, 0);
        silent++;
    }
    assert_int_equal(norms, 2);
    assert_int_equal(silent, 2 + 2 * 2);
    rig_destroy(&n.r);
    rig_destroy(&m.r);
    free(p);
    free(q);
}

MBA_TEST_MAIN(cmocka_unit_test(packed_graphs_are_what_each_is_alone),
              cmocka_unit_test(capacity_and_what_is_in_it_do_not_matter_to_training),
              cmocka_unit_test(renumbered_nodes_permute_the_outputs_and_nothing_else),
              cmocka_unit_test(a_batch_without_edges_trains))
