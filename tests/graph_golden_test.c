// SPDX-License-Identifier: Apache-2.0
/* graph_golden_test.c -- Graph-Mamba networks against the golden vectors of tests/golden_graph: loss, logits,
 * gradients. */
#include "tests/golden.h"

#include "data/graph_pack.h"
#include "models/graphmamba.h"
#include "tests/reference_fill.h"
#include "train/session.h"

/* ---- names of the golden files ---- */

/* What follows `start` in a name; NULL where it does not start so. */
static const char *after(const char *name, const char *start)
{
    return strncmp(name, start, strlen(start)) ? NULL : name + strlen(start);
}

static golden_pieces one(const char *start, const char *rest)
{
    golden_pieces p = { .n = 1 };
    snprintf(p.name[0], GOLDEN_NAME, "%s%s", start, rest);
    return p;
}

static golden_pieces tables(const char *start, int n, const char *rest)
{
    golden_pieces p = { .n = n };
    for (int i = 0; i < n; i++) snprintf(p.name[i], GOLDEN_NAME, "%s.%d%s", start, i, rest);
    return p;
}

static golden_pieces head_layer(const mba_graphnet *c, const char *number)
{
    char       start[GOLDEN_NAME];
    char      *rest;
    const long i = strtol(number, &rest, 10);
    if (i < c->head_layers - 1) snprintf(start, sizeof start, "post_mp.layer_post_mp.model.0.Layer_%ld.layer.model", i);
    else snprintf(start, sizeof start, "post_mp.layer_post_mp.model.%d.model", c->head_layers > 1);
    return one(start, rest);
}

static golden_pieces released_names(const golden *o, const char *name)
{
    const mba_graphnet *c = o->model;
    const char         *rest, *nodes = strstr(name, ".ABDE.");
    golden_pieces       p = { .n = 4 };
    if ((rest = after(name, "node_encoder.embedding")))
        return tables("encoder.node_encoder.encoder1.atom_embedding_list", 9, rest);
    if ((rest = after(name, "node_encoder.encoder")))
        return one(c->pe_width ? "encoder.node_encoder.encoder1.encoder" : "encoder.node_encoder.encoder", rest);
    if ((rest = after(name, "node_encoder."))) return one("encoder.node_encoder.encoder2.", rest);
    if ((rest = after(name, "node_encoder_bn"))) return one("encoder.node_encoder_bn.bn", rest);
    if ((rest = after(name, "edge_encoder.embedding")))
        return c->edge_rows ? tables("encoder.edge_encoder.bond_embedding_list", 3, rest)
                            : one("encoder.edge_encoder.encoder", rest);
    if ((rest = after(name, "edge_encoder."))) return one("encoder.edge_encoder.", rest);
    if ((rest = after(name, "pre_mp.0.linear"))) return one("pre_mp.Layer_0.layer.model", rest);
    if ((rest = after(name, "pre_mp.0.bn"))) return one("pre_mp.Layer_0.post_layer.0", rest);
    if ((rest = after(name, "post_mp."))) return head_layer(c, rest);
    if (!nodes) return golden_same_name(o, name);
    for (int i = 0; i < 4; i++)
        snprintf(p.name[i], GOLDEN_NAME, "%.*s.%c.%s", (int)(nodes - name), name, "ABDE"[i], nodes + strlen(".ABDE."));
    return p;
}

/* ---- golden networks ---- */

static const int64_t atom_rows[] = { 119, 5, 12, 12, 10, 6, 6, 2, 2 }, bond_rows[] = { 5, 6, 2 };

/* Capacities: what the batch needs, or more. */
static mba_graphnet read_config(const golden *o, const mba_graph_set *s, bool room)
{
    json_t      *j;
    const char  *nodes, *edges, *loss;
    mba_graphnet c = { .nodes = s->nodes + (room ? 70 : 0),
                       .edges = s->edges + (room ? 131 : 0),
                       .graphs = s->graphs + (room ? 3 : 0),
                       .keep_logits = true };
    assert_ok(mba_json_load(&j, golden_path(o, "config.json"), NULL));
    assert_ok(mba_json_int(j, "hidden", 0, 1, 1000, &c.width));
    assert_ok(mba_json_int(j, "layers", 0, 1, 1000, &c.layers));
    assert_ok(mba_json_int(j, "lap_k", 0, 0, 1000, &c.pe_count));
    assert_ok(mba_json_int(j, "rw_k", 0, 0, 1000, &c.rw_count));
    assert_ok(mba_json_int(j, "lap_width", 0, 0, 1000, &c.pe_width));
    assert_ok(mba_json_int(j, "pre_layers", 0, 0, 10, &c.pre_layers));
    assert_ok(mba_json_int(j, "head_layers", 0, 1, 10, &c.head_layers));
    assert_ok(mba_json_int(j, "outputs", 0, 1, 1000, &c.outputs));
    assert_ok(mba_json_text(j, "node_encoder", "", &nodes));
    assert_ok(mba_json_text(j, "edge_encoder", "", &edges));
    assert_ok(mba_json_text(j, "loss", "", &loss));
    if (!strcmp(nodes, "atom+lap")) c.node_columns = s->form.node_width;
    else c.node_reals = s->form.node_width;
    if (!strcmp(edges, "bond")) c.edge_columns = s->form.edge_width;
    else c.edge_reals = s->form.edge_width;
    for (int64_t i = 0; i < c.node_columns; i++) c.node_rows += atom_rows[i];
    for (int64_t i = 0; i < c.edge_columns; i++) c.edge_rows += bond_rows[i];
    const char *pooling = json_string_value(json_object_get(j, "pooling")); // null: a task of nodes
    c.readout = !pooling ? MBA_READ_NODES : !strcmp(pooling, "max") ? MBA_READ_MAX : MBA_READ_MEAN;
    c.loss = !strcmp(loss, "bce") ? MBA_LOSS_BCE : !strcmp(loss, "cross_entropy") ? MBA_LOSS_CE : MBA_LOSS_WEIGHTED_CE;
    json_decref(j);
    return c;
}

/* An input by the last part of its name. */
static void *input(const golden *o, const char *name)
{
    for (int32_t k = 0; k < o->g->ntensors; k++) {
        const mba_tensor *t = o->g->tensors[k];
        const size_t      m = strlen(t->name), n = strlen(name);
        if (t->st->role != MBA_INPUT || t->base || m < n || strcmp(t->name + m - n, name)) continue;
        if (m == n || t->name[m - n - 1] == '.') return mba_program_host(o->p, t);
    }
    print_error("the graph has no input %s\n", name);
    fail();
    return NULL;
}

/* Of a row: the edge it holds, the graph it lies in. Nodes are as stored, edges by target. */
typedef struct rows {
    int64_t edge[400], graph[200];
} rows;

/* Edges by target, stable, and by source; what lies beyond the real rows reads as empty. */
static void put_edges(const golden *o, const mba_graphnet *c, const mba_graph_set *s, rows *r)
{
    int32_t *src = input(o, "src"), *out_edge = input(o, "out_edge");
    int32_t *in_ptr = input(o, "in_ptr"), *out_ptr = input(o, "out_ptr");
    int64_t  n = 0, m = 0;
    assert_true(s->edges <= 400 && s->nodes <= 200);
    for (int64_t g = 0; g < s->graphs; g++)
        for (int64_t v = (int64_t)s->node_ptr[g]; v < (int64_t)s->node_ptr[g + 1]; v++) {
            r->graph[v] = g;
            in_ptr[v] = (int32_t)n;
            for (uint64_t k = s->edge_ptr[g]; k < s->edge_ptr[g + 1]; k++)
                if (s->dst[k] + s->node_ptr[g] == (uint64_t)v) {
                    r->edge[n] = (int64_t)k;
                    src[n++] = (int32_t)(s->src[k] + s->node_ptr[g]);
                }
        }
    for (int64_t v = 0; v < s->nodes; v++) {
        out_ptr[v] = (int32_t)m;
        for (int64_t k = 0; k < n; k++)
            if (src[k] == v) out_edge[m++] = (int32_t)k;
    }
    for (int64_t v = s->nodes; v <= c->nodes; v++) in_ptr[v] = out_ptr[v] = (int32_t)n;
    assert_int_equal(n, s->edges);
    assert_int_equal(m, s->edges);
}

/* Features are real, or numbers of table rows that count through all tables. */
static void put_features(const golden *o, const char *what, const void *from, const int64_t *row, int64_t n,
                         int64_t width, const int64_t *tables_rows)
{
    char name[16];
    snprintf(name, sizeof name, "%s_%c", what, tables_rows ? 'i' : 'x');
    void *to = input(o, name);
    for (int64_t i = 0; i < n * width; i++) {
        const int64_t at = (row ? row[i / width] : i / width) * width + i % width;
        if (!tables_rows) {
            ((float *)to)[i] = ((const float *)from)[at];
            continue;
        }
        ((int32_t *)to)[i] = ((const int32_t *)from)[at];
        for (int64_t k = 0; k < i % width; k++) ((int32_t *)to)[i] += (int32_t)tables_rows[k];
    }
}

static void put_positions(const golden *o, const mba_graphnet *c, const mba_graph_set *s, const rows *r)
{
    const int64_t K = c->pe_count;
    double       *sign = c->train ? golden_array(o, "lap_signs.npy", K) : NULL;
    float        *phi = input(o, "phi"), *lam = input(o, "lam");
    assert_int_equal(s->form.lap_k, K);
    for (int64_t i = 0; i < s->nodes * K; i++) {
        phi[i] = s->lap_vec[i] * (sign ? (float)sign[i % K] : 1);
        lam[i] = s->lap_val[r->graph[i / K] * K + i % K];
    }
    free(sign);
}

static void put_labels(const golden *o, const mba_graphnet *c, const mba_graph_set *s)
{
    const int64_t real = s->form.node_labels ? s->nodes : s->graphs, all = s->form.node_labels ? c->nodes : c->graphs;
    if (c->loss == MBA_LOSS_BCE) {
        float *to = input(o, "targets");
        for (int64_t i = 0; i < all * c->outputs; i++)
            to[i] = i < real * c->outputs ? ((const float *)s->label)[i] : NAN;
    } else {
        int32_t *to = input(o, "labels");
        for (int64_t i = 0; i < all; i++) to[i] = i < real ? ((const int32_t *)s->label)[i] : -1;
    }
}

/* The order of a layer (and draw); rows beyond the nodes stay where they are, in a segment of their own. */
static void put_order(const golden *o, const mba_graphnet *c, const char *suffix, const double *perm,
                      const double *segment, int64_t n)
{
    static const char *const what[] = { "perm", "inverse", "segment" };
    char                     name[3][32];
    for (int k = 0; k < 3; k++) snprintf(name[k], sizeof name[k], "%s.%s", what[k], suffix);
    int32_t *p = input(o, name[0]), *q = input(o, name[1]), *ids = input(o, name[2]);
    for (int64_t r = 0; r < c->nodes; r++) {
        p[r] = r < n ? (int32_t)perm[r] : (int32_t)r;
        q[p[r]] = (int32_t)r;
        ids[r] = r < n ? (int32_t)segment[r] : (int32_t)segment[n - 1] + 1;
    }
}

static void put_orders(const golden *o, const mba_graphnet *c, int64_t n)
{
    const int64_t draws = c->train ? 1 : c->draws;
    double       *perm = golden_array(o, c->train ? "perm.npy" : "perm_eval.npy", c->layers * draws * n);
    double       *segment = golden_array(o, c->train ? "segment.npy" : "segment_eval.npy", c->layers * draws * n);
    for (int64_t i = 0; i < c->layers * draws; i++) {
        char suffix[16];
        if (c->train) snprintf(suffix, sizeof suffix, "%d", (int)i);
        else snprintf(suffix, sizeof suffix, "%d.%d", (int)(i / draws), (int)(i % draws));
        put_order(o, c, suffix, perm + i * n, segment + i * n, n);
    }
    free(perm);
    free(segment);
}

static void put_batch(const golden *o, const mba_graphnet *c, const mba_graph_set *s)
{
    rows r;
    put_edges(o, c, s, &r);
    put_features(o, "node", s->node_feat, NULL, s->nodes, s->form.node_width, c->node_columns ? atom_rows : NULL);
    if (s->form.edge_width) // else row 0 of a table of one, as the input starts
        put_features(o, "edge", s->edge_feat, r.edge, s->edges, s->form.edge_width, c->edge_columns ? bond_rows : NULL);
    if (c->pe_count) put_positions(o, c, s, &r);
    if (c->rw_count) memcpy(input(o, "walks"), s->rwse, sizeof(float) * (size_t)(s->nodes * c->rw_count));
    if (c->readout != MBA_READ_NODES)
        for (int64_t g = 0; g <= c->graphs; g++)
            ((int32_t *)input(o, "graph_ptr"))[g] = (int32_t)s->node_ptr[g < s->graphs ? g : s->graphs];
    put_labels(o, c, s);
    put_orders(o, c, s->nodes);
}

typedef struct how {
    bool train, room, recompute;
} how;

static void check(const char *dir, how h)
{
    golden          o = { .dir = dir, .pieces = released_names };
    mba_graph_pack *pack;
    golden_open(&o);
    assert_ok(mba_graph_pack_open(&pack, golden_path(&o, "batch.graphpk")));
    const mba_graph_set *s = mba_graph_pack_set(pack);
    mba_graphnet         c = read_config(&o, s, h.room);
    mba_step             step = { .seed = 1 };
    step.count[MBA_NODES] = (int32_t)s->nodes;
    step.count[MBA_EDGES] = (int32_t)s->edges;
    step.count[MBA_GRAPHS] = (int32_t)s->graphs;
    c.train = c.given_signs = h.train;
    c.draws = h.train ? 1 : 5;
    o.model = &c;
    o.g->recompute = h.recompute;
    assert_ok(mba_graphnet_complete(&c));
    mba_tensor *loss = mba_graphnet_build(o.g, &c).loss;
    golden_bind(&o, h.train ? loss : NULL);
    put_batch(&o, &c, s);
    assert_ok(mba_program_run(o.p, h.train ? MBA_FORWARD | MBA_BACKWARD : MBA_FORWARD, &step, NULL));
    golden_outputs(&o, h.train ? "logits.npy" : "logits_eval.npy", h.train);
    if (h.train) golden_gradients(&o);
    if (h.train) golden_statistics(&o, 10 * (int)c.layers);
    mba_graph_pack_close(pack);
    golden_close(&o);
}

static void check_all(const char *dir)
{
    check(dir, (how){ .train = true });
    check(dir, (how){ .train = true, .room = true });
    check(dir, (how){ .train = true, .room = true, .recompute = true });
    check(dir, (how){ .room = true });
}

static void a_golden_network_for_nodes_agrees(void **state)
{
    (void)state;
    check_all("tests/golden_graph/voc_like");
}

static void a_golden_network_for_molecules_agrees(void **state)
{
    (void)state;
    check_all("tests/golden_graph/peptides_like");
}

static void a_golden_network_for_call_graphs_agrees(void **state)
{
    (void)state;
    check_all("tests/golden_graph/malnet_like");
}

static void a_golden_network_with_random_walks_agrees(void **state)
{
    (void)state;
    check_all("tests/golden_graph/walks_like");
}

MBA_TEST_MAIN(cmocka_unit_test(a_golden_network_for_nodes_agrees),
              cmocka_unit_test(a_golden_network_for_molecules_agrees),
              cmocka_unit_test(a_golden_network_for_call_graphs_agrees),
              cmocka_unit_test(a_golden_network_with_random_walks_agrees))
