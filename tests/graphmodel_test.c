// SPDX-License-Identifier: Apache-2.0
/* graphmodel_test.c -- Graph-Mamba: parameter totals of the data set presets, the reference vectors of message passing.
 * graph_golden_test.c has the golden networks. */
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

        mba_graphnet c = {
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
        mba_hf_slice     piece[MBA_HF_SLICES_MAX];
        const mba_tensor t = { .name = table[i].ours, .type = MBA_TYPE(MBA_F32, 4) };
        const mba_model  m = { .task = MBA_TASK_GRAPHS, .graph = *mba_graphnet_preset(table[i].preset) };
        assert_int_equal(mba_hf_slices(piece, MBA_HF_GRAPH, &m, &t), 1);
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

MBA_TEST_MAIN(cmocka_unit_test(parameter_totals_are_those_of_the_released_configurations),
              cmocka_unit_test(tables_start_each_in_its_own_range),
              cmocka_unit_test(encoders_of_nodes_have_their_released_names), cmocka_unit_test(presets_follow_the_data),
              cmocka_unit_test(data_that_does_not_fit_is_explained),
              cmocka_unit_test(presets_stay_as_they_are_on_their_own_data),
              cmocka_unit_test(message_passing_has_its_reference_vectors))
