// SPDX-License-Identifier: Apache-2.0
/* graphmodel_test.c -- Graph-Mamba: parameter totals of the data set presets, the reference vectors of message passing,
 * and golden networks from PyTorch (tests/golden.h). */
#include "tests/golden.h"

#include "data/graph_pack.h"
#include "data/graph_synthetic.h"
#include "models/graphmamba.h"
#include "tests/reference_fill.h"
#include "train/graph_fit.h"
#include "train/hf.h"
#include "train/session.h"

/* A collection of two graphs of two nodes. */
static mba_graph_store *two_graphs(const mba_graph_form *form, const void *node_feat, const void *edge_feat,
                                   const void *label)
{
    static const uint32_t src[] = { 0, 1 }, dst[] = { 1, 0 };
    mba_graph_store      *s;
    assert_ok(mba_graph_store_create(&s, form));
    for (int i = 0; i < 2; i++)
        assert_ok(mba_graph_store_add(s, &(mba_graph_item){ .nodes = 2,
                                                            .edges = 2,
                                                            .src = src,
                                                            .dst = dst,
                                                            .node_feat = node_feat,
                                                            .edge_feat = form->edge_width ? edge_feat : NULL,
                                                            .label = label }));
    return s;
}

static void presets_follow_the_data(void **state)
{
    (void)state;
    static const int32_t whole[] = { 4, 0, 7, 2 }, ends[] = { 3, 1, 0, 1 }, class[] = { 2, 0 },
                         below[] = { -1, 0, 0, 0 };
    static const float real[] = { 0.5f, 1, 2, 3 }, bits[] = { 0, NAN, 1 }, numbers[] = { 0.5f, 2, 7 };
    static const struct {
        mba_graph_form form;
        const void    *nodes, *edges, *label;
        const char    *words;
    } cases[] = {
        { { .node_width = 2,
            .node_type = MBA_GRAPH_I32,
            .edge_width = 2,
            .edge_type = MBA_GRAPH_I32,
            .label_width = 1,
            .label_type = MBA_GRAPH_I32,
            .classes = 3 },
          whole,
          ends,
          class,
          "; from the data: node_tables=8:3, edge_tables=4:2, outputs=3" },
        { { .node_width = 2, .node_type = MBA_GRAPH_I32, .label_width = 3, .label_type = MBA_GRAPH_F32, .classes = 2 },
          below,
          NULL,
          bits,
          "; from the data: node_reals=2, edge_reals=0, outputs=3, loss=bce" },
        { { .node_width = 2, .node_type = MBA_GRAPH_F32, .label_width = 3, .label_type = MBA_GRAPH_F32 },
          real,
          NULL,
          bits,
          "; from the data: node_reals=2, edge_reals=0, outputs=3, loss=bce" },
        { { .node_width = 2, .node_type = MBA_GRAPH_F32, .label_width = 3, .label_type = MBA_GRAPH_F32 },
          real,
          NULL,
          numbers,
          "; from the data: node_reals=2, edge_reals=0, outputs=3, loss=l1" },
        { { .node_width = 2,
            .node_type = MBA_GRAPH_F32,
            .label_width = 1,
            .label_type = MBA_GRAPH_I32,
            .classes = 3,
            .node_labels = true },
          real,
          NULL,
          class,
          "; from the data: node_reals=2, edge_reals=0, outputs=3, readout=nodes" },
    };
    char text[320];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mba_graphnet     c = *mba_graphnet_preset("graphmamba-mnist");
        mba_graph_store *s = two_graphs(&cases[i].form, cases[i].nodes, cases[i].edges, cases[i].label);
        c.follows = MBA_FOLLOWS_ALL;
        mba_graph_follow(&c, mba_graph_store_set(s));
        mba_graph_follow_words(text, sizeof text, &c);
        assert_string_equal(text, cases[i].words);
        assert_ok(mba_graphnet_complete(&c));
        assert_ok(mba_graph_fit_check(&c, &cases[i].form, "made"));
        mba_graph_store_destroy(s);
    }
}

/* What a model does not read is told with what to do about it: by whom it was asked for. */
static void data_that_does_not_fit_is_explained(void **state)
{
    (void)state;
    enum { ALL = MBA_FOLLOWS_ALL, GIVEN = ALL & ~MBA_FOLLOWS_LOSS, BOTH = GIVEN & ~MBA_FOLLOWS_OUTPUTS };
    static const struct {
        int64_t     nodes, labels, classes;
        bool        of_nodes;
        unsigned    follows;
        mba_status  st;
        const char *words;
    } of[] = {
        { 2, 1, 3, false, ALL, MBA_OK, "" },
        { 0, 1, 3, false, ALL, MBA_E_FORMAT, "have no features" },
        { 2, 0, 3, false, ALL, MBA_E_FORMAT, "have no labels" },
        { 3, 1, 3, false, ALL, MBA_E_ARG,
          "nodes have 3 features, the model reads 2\nfix: leave node_reals and node_tables out" },
        { 3, 1, 3, false, 0, MBA_E_ARG,
          "nodes have 3 features, the model reads 2\nfix: use data of the kind it was trained on" },
        { 2, 1, 3, true, ALL, MBA_E_ARG,
          "labels belong to nodes, the model's results to graphs\nfix: leave readout out" },
        { 2, 2, 5, false, ALL, MBA_E_UNSUPPORTED, "no loss fits the labels of 'made'\nwhy: a label is 2 classes of 5" },
        { 2, 2, 5, false, GIVEN, MBA_E_ARG, "fix: leave loss out" },
        { 2, 2, 5, false, BOTH, MBA_E_ARG, "fix: leave loss and outputs out" },
        { 2, 1, 4, false, ALL & ~MBA_FOLLOWS_OUTPUTS, MBA_E_ARG, "one of at most 3 classes\nfix: leave outputs out" },
        { 2, 2, 2, false, 0, MBA_E_ARG,
          "a label is 2 times 0 or 1, loss=ce with outputs=3 takes one of at most 3 classes" }
    };
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        const mba_graph_form f = { .node_width = of[i].nodes,
                                   .node_type = MBA_GRAPH_F32,
                                   .label_width = of[i].labels,
                                   .classes = of[i].classes,
                                   .node_labels = of[i].of_nodes };
        mba_graphnet         c = {
                    .node_reals = 2, .outputs = 3, .loss = MBA_LOSS_CE, .readout = MBA_READ_MAX, .follows = of[i].follows
        };
        const mba_status st = mba_graph_fit_check(&c, &f, "made");
        if (of[i].st == MBA_OK) assert_ok(st);
        else assert_fails(st, of[i].st, of[i].words);
        assert_int_equal(mba_graph_fits(&c, &f), st == MBA_OK);
    }
}

static void presets_stay_as_they_are_on_their_own_data(void **state)
{
    (void)state;
    char text[320];
    int  seen = 0;
    for (int k = 0; k < MBA_SYNTHETICS; k++) {
        char             name[64];
        mba_graph_store *s;
        snprintf(name, sizeof name, "graphmamba-%s", mba_synthetic_name((mba_synthetic)k));
        if (!mba_graphnet_preset(name)) continue;
        mba_graphnet c = *mba_graphnet_preset(name);
        c.follows = MBA_FOLLOWS_ALL;
        assert_ok(mba_graph_synthetic(&s, (mba_synthetic)k, 1, 3));
        mba_graph_follow(&c, mba_graph_store_set(s));
        mba_graph_follow_words(text, sizeof text, &c);
        assert_string_equal(text, "");
        mba_graph_store_destroy(s);
        seen++;
    }
    assert_int_equal(seen, 9);
}

static void parameter_totals_are_those_of_the_released_configurations(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int64_t     parameters;
    } table[] = {
        { "graphmamba-voc", 497781 },           { "graphmamba-coco", 503601 },
        { "graphmamba-peptides-func", 491770 }, { "graphmamba-peptides-struct", 491867 },
        { "graphmamba-mnist", 116486 },         { "graphmamba-cifar10", 113818 },
        { "graphmamba-pattern", 335281 },       { "graphmamba-cluster", 508966 },
        { "graphmamba-malnet", 285125 },
    };
    int wrong = 0;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        mba_graph   *g;
        mba_graphnet c = *mba_graphnet_preset(table[i].name);
        int64_t      n = 0;
        assert_ok(mba_graphnet_complete(&c));
        c.train = true;
        assert_ok(mba_graph_create(&g));
        mba_tensor *loss = mba_graphnet_build(g, &c).loss;
        assert_ok(mba_graph_status(g));
        assert_ok(mba_backward(g, loss));
        for (int32_t k = 0; k < g->ntensors; k++)
            if (mba_is_param(g->tensors[k])) n += mba_elems(g->tensors[k]);
        mba_graph_destroy(g);
        printf("%s %-28s %lld, should be %lld\n", n == table[i].parameters ? "   " : "BAD", table[i].name, (long long)n,
               (long long)table[i].parameters);
        wrong += n != table[i].parameters;
    }
    assert_int_equal(wrong, 0);
}

/* The largest of n first values. */
static double largest(const float *x, int64_t n)
{
    double most = 0;
    for (int64_t i = 0; i < n; i++)
        if (fabs((double)x[i]) > most) most = fabs((double)x[i]);
    return most;
}

/* Uniform values of hundreds reach nearly to their range; normal ones of 64 beyond 1.5 in all but one of 10^4 cases. */
static void tables_start_each_in_its_own_range(void **state)
{
    (void)state;
    mba_session         s = { 0 };
    mba_session_options o = { .train = true };
    assert_ok(mba_model_preset(&o.model, "graphmamba-peptides-func"));
    assert_ok(mba_model_shape(&o.model, &(mba_batch_shape){ .graphs = 2, .nodes = 99, .edges = 99 }));
    assert_ok(mba_session_plan(&s, &o));
    assert_ok(mba_session_bind(&s, 3));
    for (int edges = 0; edges < 2; edges++) {
        const int64_t *rows = edges ? s.model.graph.edge_tables : s.model.graph.node_tables, W = edges ? 96 : 80;
        const float *x = mba_session_at(&s, edges ? "edge_encoder.embedding.weight" : "node_encoder.embedding.weight");
        for (int k = 0; k < MBA_TABLES_MAX && rows[k]; x += rows[k++] * W) {
            const double range = sqrt(6.0 / (double)(rows[k] + W)), most = largest(x, rows[k] * W);
            assert_true(most <= range && most > 0.9 * range);
        }
    }
    mba_session_end(&s);
    assert_ok(mba_model_preset(&o.model, "graphmamba-malnet"));
    assert_ok(mba_model_shape(&o.model, &(mba_batch_shape){ .graphs = 2, .nodes = 99, .edges = 99 }));
    assert_ok(mba_session_plan(&s, &o));
    assert_ok(mba_session_bind(&s, 3));
    assert_true(largest(mba_session_at(&s, "edge_encoder.embedding.weight"), 64) > 1.5);
    mba_session_end(&s);
}

/* Four of the released configurations let the encoder of positions take the features too, under names of its own. */
static void encoders_of_nodes_have_their_released_names(void **state)
{
    (void)state;
    static const struct {
        const char *preset, *ours, *stored;
    } table[] = {
        { "graphmamba-voc", "node_encoder.encoder.bias", "encoder.node_encoder.encoder1.encoder.bias" },
        { "graphmamba-voc", "node_encoder.linear_A.weight", "encoder.node_encoder.encoder2.linear_A.weight" },
        { "graphmamba-mnist", "node_encoder.encoder.weight", "encoder.node_encoder.linear_x.weight" },
        { "graphmamba-cifar10", "node_encoder.linear_A.bias", "encoder.node_encoder.linear_A.bias" },
        { "graphmamba-pattern", "node_encoder.encoder.bias", "encoder.node_encoder.linear_x.bias" },
        { "graphmamba-cluster", "node_encoder.pe_encoder.1.weight", "encoder.node_encoder.pe_encoder.1.weight" },
        { "graphmamba-malnet", "node_encoder.encoder.weight", "encoder.node_encoder.encoder.weight" },
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        mba_hf_slice     piece[MBA_PIECES_MAX];
        const mba_tensor t = { .name = table[i].ours, .type = MBA_TYPE(MBA_F32, 4) };
        const mba_model  m = { .task = MBA_TASK_GRAPHS, .graph = *mba_graphnet_preset(table[i].preset) };
        assert_int_equal(mba_hf_pieces(piece, MBA_HF_GRAPH, &m, &t), 1);
        assert_string_equal(piece[0].name, table[i].stored);
    }
}

/* ---- message passing alone ---- */

enum { N = 5, H = 3, E = 8 };

typedef struct messages {
    rig         r;
    mba_tensor *h, *e, *out[2], *seed[2], *node_w, *node_b, *edge_w, *edge_b;
} messages;

/* The edges (0,1) (1,0) (1,2) (2,1) (3,2) (2,3) (3,4) (0,3) of the vectors by target: row k is edge given[k]. */
static const int     given[E] = { 1, 0, 3, 2, 4, 5, 7, 6 };
static const int32_t edge_from[E] = { 1, 0, 2, 1, 3, 2, 0, 3 }, by_target[N + 1] = { 0, 1, 3, 5, 7, 8 };
static const int32_t by_source[N + 1] = { 0, 2, 4, 6, 8, 8 }, out_edges[E] = { 1, 6, 0, 3, 2, 5, 4, 7 };

static mba_tensor *index_of(mba_graph *g, const char *name, int64_t rows, int64_t bound)
{
    return mba_index(g, name, MBA_TYPE(MBA_I32, rows), bound);
}

static messages make_messages(void)
{
    messages           m;
    mba_graph         *g = graph();
    const mba_graphnet c = { .width = H, .train = true };
    m.h = mba_param(g, "h", MBA_TYPE(MBA_F32, N, H), MBA_INIT_CONST(0), MBA_DECAY);
    m.e = mba_param(g, "e", MBA_TYPE(MBA_F32, E, H), MBA_INIT_CONST(0), MBA_DECAY);
    const mba__adjacency x = { index_of(g, "src", E, N), index_of(g, "in", N + 1, E + 1),
                               index_of(g, "out", N + 1, E + 1), index_of(g, "out_edge", E, E) };
    m.out[1] = m.e;
    m.out[0] = mba__graphnet_messages(g, &c, x, m.h, &m.out[1]);
    m.seed[0] = mba_input(g, "Gh", m.h->type);
    m.seed[1] = mba_input(g, "Ge", m.e->type);
    m.r = rig_create(g, 2, m.out, m.seed);
    for (int k = 0; k < E; k++) rig_set(&m.r, x.src, k, edge_from[k]), rig_set(&m.r, x.out_edge, k, out_edges[k]);
    for (int k = 0; k <= N; k++) rig_set(&m.r, x.in_ptr, k, by_target[k]), rig_set(&m.r, x.out_ptr, k, by_source[k]);
    m.node_w = mba_graph_find(g, "local_model.ABDE.weight");
    m.node_b = mba_graph_find(g, "local_model.ABDE.bias");
    m.edge_w = mba_graph_find(g, "local_model.C.weight");
    m.edge_b = mba_graph_find(g, "local_model.C.bias");
    return m;
}

/* Rows of edges come in the order of the vectors. */
static void fill_edges(messages *m, const mba_tensor *t, uint32_t *counter)
{
    double v[E * H];
    for (int i = 0; i < E * H; i++) v[i] = reference_next(counter);
    for (int i = 0; i < E * H; i++) rig_set(&m->r, t, i, v[given[i / H] * H + i % H]);
}

static void fill_messages(messages *m)
{
    static const int part[5] = { 0, 1, -1, 2, 3 }; // A, B, C, D, E: rows of ABDE, or C
    uint32_t         counter = 1;
    reference_fill(&m->r, m->h, &counter);
    fill_edges(m, m->e, &counter);
    for (int k = 0; k < 5; k++) {
        const int at = part[k];
        reference_fill_part(&m->r, at < 0 ? m->edge_w : m->node_w, at < 0 ? 0 : at * H * H, H * H, &counter);
        reference_fill_part(&m->r, at < 0 ? m->edge_b : m->node_b, at < 0 ? 0 : at * H, H, &counter);
    }
    reference_fill(&m->r, m->seed[0], &counter);
    fill_edges(m, m->seed[1], &counter);
}

/* The first row of a weight's gradient and its sum. */
static void check_weight(messages *m, const mba_tensor *w, int at, const double want[3], double should)
{
    const mba_tensor *d = rig_grad(&m->r, w);
    double            sum[2] = { 0 };
    assert_reference(&m->r, d, at * H * H, H, want);
    for (int i = at * H * H; i < (at + 1) * H * H; i++) {
        sum[0] += rig_want(&m->r, d, i);
        sum[1] += (double)rig_have(&m->r, d, i);
    }
    assert_near(sum[0], should, 6e-10);
    assert_near(sum[1], should, 2e-5);
}

static void message_passing_has_its_reference_vectors(void **state)
{
    (void)state;
    messages m = make_messages();
    fill_messages(&m);
    rig_run(&m.r);
    assert_reference(&m.r, m.out[0], 0, H, (double[]){ 0.244566777, 0.113868400, -0.788437152 });
    assert_reference(&m.r, m.out[0], 4 * H, H, (double[]){ -0.666704439, 1.902181891, 0.196049030 });
    assert_reference_sums(&m.r, m.out[0], 2.740504563, 7.749066951);
    assert_reference(&m.r, m.out[1], H, H, (double[]){ 1.985559702, -0.047149112, -0.991839349 }); // edge 0 is row 1
    assert_reference_sums(&m.r, m.out[1], 11.380021771, 26.183888875);
    assert_reference(&m.r, rig_grad(&m.r, m.h), 0, H, (double[]){ -0.125678475, -0.436389590, -1.324151296 });
    assert_reference_sums(&m.r, rig_grad(&m.r, m.h), 3.590813717, 18.088220213);
    assert_reference(&m.r, rig_grad(&m.r, m.e), H, H, (double[]){ 0.147807655, -0.328377854, 0.827971129 });
    assert_reference_sums(&m.r, rig_grad(&m.r, m.e), -1.461272191, 23.242413560);
    check_weight(&m, m.node_w, 0, (double[]){ -1.371932457, -0.160925922, 1.536710566 }, 0.978608335);
    check_weight(&m, m.node_w, 1, (double[]){ 0.619068203, 0.991844551, -2.608544598 }, 1.536634944);
    check_weight(&m, m.edge_w, 0, (double[]){ -0.682668725, -0.369083175, -0.819191107 }, -3.599120959);
    check_weight(&m, m.node_w, 2, (double[]){ -0.761416537, 0.196662015, 1.108181178 }, 0.085685653);
    check_weight(&m, m.node_w, 3, (double[]){ 0.418711570, 1.457453625, -1.083173945 }, -1.711776953);
    rig_destroy(&m.r);
}

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
        if (t->st->role != MBA_INPUT || t->of || m < n || strcmp(t->name + m - n, name)) continue;
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

MBA_TEST_MAIN(cmocka_unit_test(parameter_totals_are_those_of_the_released_configurations),
              cmocka_unit_test(tables_start_each_in_its_own_range),
              cmocka_unit_test(encoders_of_nodes_have_their_released_names), cmocka_unit_test(presets_follow_the_data),
              cmocka_unit_test(data_that_does_not_fit_is_explained),
              cmocka_unit_test(presets_stay_as_they_are_on_their_own_data),
              cmocka_unit_test(message_passing_has_its_reference_vectors),
              cmocka_unit_test(a_golden_network_for_nodes_agrees),
              cmocka_unit_test(a_golden_network_for_molecules_agrees),
              cmocka_unit_test(a_golden_network_for_call_graphs_agrees),
              cmocka_unit_test(a_golden_network_with_random_walks_agrees))
