// SPDX-License-Identifier: Apache-2.0
/* graphmamba.c -- Graph-Mamba: the network and its data set presets (arXiv 2402.00789).
 *
 *   (hl, e') = GatedGCN(h, e);  hl = BN(hl);  ha = BN(h + Mamba(h in order));  s = hl + ha;  h' = BN(s + FFN(s)) */
#include "models/model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/op.h"
#include "models/model.h"
#include "ops/add/add.h"
#include "ops/batchnorm/batchnorm.h"
#include "ops/bce/bce.h"
#include "ops/bias/bias.h"
#include "ops/cast/cast.h"
#include "ops/conv1d/conv1d.h"
#include "ops/cross_entropy/cross_entropy.h"
#include "ops/dropout/dropout.h"
#include "ops/embed_sum/embed_sum.h"
#include "ops/gated_gcn/gated_gcn.h"
#include "ops/gather_rows/gather_rows.h"
#include "ops/l1/l1.h"
#include "ops/lap_encoder/lap_encoder.h"
#include "ops/matmul/matmul.h"
#include "ops/relu/relu.h"
#include "ops/residual/residual.h"
#include "ops/rownorm/rownorm.h"
#include "ops/segment_pool/segment_pool.h"
#include "ops/selective_scan/selective_scan.h"
#include "ops/weighted_cross_entropy/weighted_cross_entropy.h"

/* All parameters have weight decay. */
#define TYPED(dtype, name, init, ...) mba_param(g, (name), MBA_TYPE((dtype), __VA_ARGS__), (init), MBA_DECAY)
#define PARAM(name, init, ...)        TYPED(MBA_F32, name, init, __VA_ARGS__)
#define NAME(...)                     mba_arena_printf(g->arena, __VA_ARGS__)

/* What the layers share during construction. */
typedef struct site {
    const mba_graphnet *c;
    mba__adjacency      edges;
    mba_tensor         *graph_ptr;
} site;

static mba_type rows_of(mba_count count, int64_t rows, int64_t columns)
{
    mba_type t = MBA_TYPE(MBA_F32, rows, columns);
    t.count = count;
    return t;
}

static mba_tensor *index_input(mba_graph *g, const char *name, mba_count count, int64_t rows, int64_t columns,
                               int64_t bound)
{
    mba_type t = columns ? MBA_TYPE(MBA_I32, rows, columns) : MBA_TYPE(MBA_I32, rows);
    t.count = count;
    return mba_index(g, name, t, bound);
}

/* y = x W^T (+ b), with weights in the type of x. */
static mba_tensor *linear(mba_graph *g, mba_tensor *x, const char *name, int64_t rows, bool bias)
{
    const mba_init init = MBA_INIT_UNIFORM(1 / sqrt((double)mba_cols(x)));
    mba_tensor    *y = mba_linear(g, x, TYPED(x->type.dtype, NAME("%s.weight", name), init, rows, mba_cols(x)));
    return bias ? mba_bias(g, y, PARAM(NAME("%s.bias", name), init, rows)) : y;
}

static mba_tensor *norm(mba_graph *g, const site *s, mba_tensor *x, const char *name, bool relu)
{
    mba_tensor *w = PARAM(NAME("%s.weight", name), MBA_INIT_CONST(1), mba_cols(x)),
               *b = PARAM(NAME("%s.bias", name), MBA_INIT_CONST(0), mba_cols(x));
    return mba_batchnorm(g, .x = x, .w = w, .b = b, .name = name, .eps = 1e-5, .momentum = 0.1, .train = s->c->train,
                         .relu = relu);
}

static mba_tensor *drop(mba_graph *g, const site *s, mba_tensor *x)
{
    return s->c->train && s->c->dropout > 0 ? mba_dropout(g, x, (float)s->c->dropout) : x;
}

/* ---- the layer ---- */

/* A, B, D and E are one GEMM; files store them separately (rows 0, H, 2H, 3H). */
static mba_tensor *message_passing(mba_graph *g, const site *s, mba_tensor *h, mba_tensor **e)
{
    const int64_t H = s->c->width;
    mba_enter(g, "local_model");
    mba_tensor             *n4 = linear(g, h, "ABDE", 4 * H, true), *c = linear(g, *e, "C", H, true);
    const mba__adjacency   *x = &s->edges;
    const mba_gated_gcn_out o = mba_gated_gcn(g, .a = mba_slice(g, n4, 1, 0, H), .b = mba_slice(g, n4, 1, H, H),
                                              .d = mba_slice(g, n4, 1, 2 * H, H), .e = mba_slice(g, n4, 1, 3 * H, H),
                                              .c = c, .src = x->src, .in_ptr = x->in_ptr, .out_ptr = x->out_ptr,
                                              .out_edge = x->out_edge);
    mba_tensor             *hl = mba_add(g, h, drop(g, s, norm(g, s, o.x, "bn_node_x", true)));
    *e = mba_add(g, *e, drop(g, s, norm(g, s, o.eh, "bn_edge_e", true)));
    mba_leave(g);
    return hl;
}

mba_tensor *mba__graphnet_messages(mba_graph *g, const mba_graphnet *c, mba__adjacency edges, mba_tensor *h,
                                   mba_tensor **e)
{
    return message_passing(g, &(site){ .c = c, .edges = edges }, h, e);
}

typedef struct mamba_weights {
    mba_tensor *in, *conv, *conv_bias, *x, *dt, *A_log, *D, *dt_bias, *out;
} mamba_weights;

static mamba_weights mamba_weights_of(mba_graph *g, const mba_graphnet *c)
{
    const int64_t   H = c->width, S = c->state, R = (H + 15) / 16, W = c->conv;
    const mba_dtype T = c->compute;
    const mba_init  tap = MBA_INIT_UNIFORM(1 / sqrt((double)W)), wide = MBA_INIT_UNIFORM(1 / sqrt((double)H));
    return (mamba_weights){
        .in = TYPED(T, "in_proj.weight", wide, 2 * H, H),
        .conv = PARAM("conv1d.weight", tap, H, 1, W),
        .conv_bias = PARAM("conv1d.bias", tap, H),
        .x = TYPED(T, "x_proj.weight", wide, R + 2 * S, H),
        .dt = TYPED(T, "dt_proj.weight", MBA_INIT_UNIFORM(1 / sqrt((double)R)), H, R),
        .A_log = PARAM("A_log", MBA_INIT_LOG_INDEX(), H, S),
        .D = PARAM("D", MBA_INIT_CONST(1), H),
        .dt_bias = PARAM("dt_proj.bias", MBA_INIT_STEP(1e-3, 0.1), H),
        .out = TYPED(T, "out_proj.weight", wide, H, H),
    };
}

typedef struct order {
    int layer, draw;
} order;

/* An input "perm.3", or "perm.3.1" if several orders are averaged. */
static mba_tensor *order_input(mba_graph *g, const mba_graphnet *c, const char *what, order o, int64_t bound)
{
    const char *name = c->draws > 1 ? NAME("%s.%d.%d", what, o.layer, o.draw) : NAME("%s.%d", what, o.layer);
    return index_input(g, name, MBA_NODES, c->nodes, 0, bound);
}

/* Reorders the nodes of every graph, applies a Mamba block that resets at each graph, and restores the order. */
static mba_tensor *mamba(mba_graph *g, const mba_graphnet *c, const mamba_weights *w, mba_tensor *h, order o)
{
    const int64_t N = c->nodes, H = c->width, S = c->state, R = (H + 15) / 16;
    mba_tensor   *perm = order_input(g, c, "perm", o, N), *inverse = order_input(g, c, "inverse", o, N);
    mba_tensor   *ids = mba_reshape(g, order_input(g, c, "segment", o, N + 1), MBA_TYPE(MBA_I32, 1, N));
    mba_enter(g, "self_attn");
    mba_type one_sequence = MBA_TYPE(MBA_F32, 1, N, 2 * H);
    one_sequence.steps = MBA_NODES;
    mba_tensor *xz = mba_reshape(g, mba_linear(g, mba_gather_rows(g, h, perm, inverse), w->in), one_sequence);
    mba_tensor *u = mba_conv1d(g, .x = mba_slice(g, xz, 2, 0, H), .w = w->conv, .bias = w->conv_bias, .silu = true,
                               .ids = ids);
    mba_tensor *q = mba_align_rows(g, mba_linear(g, u, w->x));
    mba_tensor *y = mba_selective_scan(g, .u = u, .delta = mba_linear(g, mba_slice(g, q, 2, 0, R), w->dt),
                                       .B = mba_slice(g, q, 2, R, S), .C = mba_slice(g, q, 2, R + S, S),
                                       .A_log = w->A_log, .D = w->D, .z = mba_slice(g, xz, 2, H, H),
                                       .dt_bias = w->dt_bias, .ids = ids);
    mba_tensor *out = mba_linear(g, y, w->out);
    mba_leave(g);
    return mba_gather_rows(g, mba_reshape(g, out, rows_of(MBA_NODES, N, H)), inverse, perm);
}

/* h + Mamba(h); with several draws the mean over their orders. */
static mba_tensor *global_branch(mba_graph *g, const site *s, mba_tensor *h, int layer)
{
    mba_enter(g, "self_attn");
    const mamba_weights w = mamba_weights_of(g, s->c);
    mba_leave(g);
    mba_tensor *sum = mamba(g, s->c, &w, h, (order){ layer, 0 });
    if (s->c->draws <= 1) return mba_add(g, h, drop(g, s, sum));
    for (int d = 1; d < s->c->draws; d++) sum = mba_add(g, sum, mamba(g, s->c, &w, h, (order){ layer, d }));
    const mba_fill_attr share = { 1.0 / (double)s->c->draws, MBA_TYPE(MBA_F32, 1) };
    return mba_residual(g, .x = h, .v = sum, .rows = s->c->nodes, .factor = MBA_APPEND(g, fill, &share, NULL)->out[0]);
}

static mba_tensor *layer(mba_graph *g, const site *s, mba_tensor *h, mba_tensor **e, int l)
{
    mba_enter(g, "layers.%d", l);
    mba_tensor *sum = norm(g, s, message_passing(g, s, h, e), "norm1_local", false);
    if (!s->c->no_scan) {
        mba_tensor *ha = norm(g, s, global_branch(g, s, h, l), "norm1_attn", false);
        sum = mba_add(g, sum, ha);
    }
    mba_tensor *f = drop(g, s, mba_relu(g, linear(g, sum, "ff_linear1", 2 * s->c->width, true)));
    f = drop(g, s, linear(g, f, "ff_linear2", s->c->width, true));
    h = norm(g, s, mba_add(g, sum, f), "norm2", false);
    mba_leave(g);
    return h;
}

/* ---- encoders ---- */

#define TABLES MBA_INIT_UNIFORM(1) // mba_graphnet_start gives each table its own range
static double table_range(int64_t rows, int64_t width) { return sqrt(6.0 / (double)(rows + width)); }

static mba_tensor *features(mba_graph *g, const char *what, mba_count count, int64_t rows, int64_t reals,
                            int64_t table_rows, int64_t columns, int64_t width, mba_init init)
{
    if (reals) return linear(g, mba_input(g, NAME("%s_x", what), rows_of(count, rows, reals)), "encoder", width, true);
    return mba_embed_sum(g, index_input(g, NAME("%s_i", what), count, rows, columns, table_rows),
                         PARAM("embedding.weight", init, table_rows, width));
}

static mba_status start_tables(mba_program *p, const char *name, const int64_t *rows, uint64_t seed)
{
    const mba_tensor *t = mba_graph_find(p->graph, name);
    if (!t || !rows[0]) return MBA_OK;
    const int64_t width = mba_cols(t);
    float        *x = malloc(sizeof *x * (size_t)mba_elems(t)), *at = x;
    if (!x) return mba_fail(MBA_E_NOMEM, "no memory for the first values of %s", name);
    for (int k = 0; k < MBA_TABLES_MAX && rows[k]; k++)
        for (int64_t i = 0; i < rows[k] * width; i++, at++)
            *at = (float)(table_range(rows[k], width) * mba_init_value(t, seed, at - x));
    const mba_status st = mba_program_set(p, t, x);
    free(x);
    return st;
}

mba_status mba_graphnet_start(mba_program *p, const mba_graphnet *c, uint64_t seed)
{
    MBA_TRY(start_tables(p, "node_encoder.embedding.weight", c->node_tables, seed));
    return start_tables(p, "edge_encoder.embedding.weight", c->edge_tables, seed);
}

static mba_tensor *positions(mba_graph *g, const mba_graphnet *c)
{
    const int64_t  p = c->pe_width;
    const mba_init a = MBA_INIT_UNIFORM(1 / sqrt(2.0)), b = MBA_INIT_UNIFORM(1 / sqrt(2.0 * (double)p));
    return mba_lap_encoder(g, .phi = mba_input(g, "phi", rows_of(MBA_NODES, c->nodes, c->pe_count)),
                           .lam = mba_input(g, "lam", rows_of(MBA_NODES, c->nodes, c->pe_count)),
                           .flip = c->train && !c->given_signs, .wa = PARAM("linear_A.weight", a, 2 * p, 2),
                           .ba = PARAM("linear_A.bias", a, 2 * p), .wb = PARAM("pe_encoder.1.weight", b, p, 2 * p),
                           .bb = PARAM("pe_encoder.1.bias", b, p));
}

/* RWSE: return probabilities, normalised over the batch, through a linear map. */
static mba_tensor *walks(mba_graph *g, const site *s)
{
    mba_tensor *x = mba_input(g, "walks", rows_of(MBA_NODES, s->c->nodes, s->c->rw_count));
    return linear(g, norm(g, s, x, "raw_norm", false), "pe_encoder", s->c->pe_width, true);
}

static mba_tensor *encode_nodes(mba_graph *g, const site *s)
{
    const mba_graphnet *c = s->c;
    mba_enter(g, "node_encoder");
    mba_tensor *h = features(g, "node", MBA_NODES, c->nodes, c->node_reals, c->node_rows, c->node_columns,
                             c->width - c->pe_width, TABLES);
    if (c->pe_width) h = mba_concat(g, h, c->rw_count ? walks(g, s) : positions(g, c));
    mba_leave(g);
    return mba_cast(g, h, c->compute);
}

static mba_tensor *encode_edges(mba_graph *g, const site *s)
{
    const mba_graphnet *c = s->c;
    mba_enter(g, "edge_encoder");
    // One vector for all edges is a table of one row, but is initialised as a vector, as in the released code.
    const bool  plain = !c->edge_reals && !c->edge_rows;
    mba_tensor *e = features(g, "edge", MBA_EDGES, c->edges, c->edge_reals, plain ? 1 : c->edge_rows,
                             plain ? 1 : c->edge_columns, c->width, plain ? MBA_INIT_NORMAL(1) : TABLES);
    mba_leave(g);
    return mba_cast(g, e, c->compute);
}

/* ---- head and loss ---- */

static mba_tensor *head(mba_graph *g, const site *s, mba_tensor *h)
{
    const mba_graphnet *c = s->c;
    if (c->readout != MBA_READ_NODES)
        h = mba_segment_pool(g, h, s->graph_ptr, c->readout == MBA_READ_MAX ? MBA_POOL_MAX : MBA_POOL_MEAN);
    mba_enter(g, "post_mp");
    for (int64_t i = 0; i + 1 < c->head_layers; i++)
        h = mba_rownorm(g, mba_relu(g, linear(g, h, NAME("%d", (int)i), c->width, true)));
    h = linear(g, mba_cast(g, h, MBA_F32), NAME("%d", (int)(c->head_layers - 1)), c->outputs, true);
    mba_leave(g);
    return h;
}

static mba_tensor *loss_of(mba_graph *g, const mba_graphnet *c, mba_tensor *y)
{
    const bool      nodes = c->readout == MBA_READ_NODES;
    const int64_t   rows = nodes ? c->nodes : c->graphs;
    const mba_count count = nodes ? MBA_NODES : MBA_GRAPHS;
    if (c->loss == MBA_LOSS_WEIGHTED_CE || c->loss == MBA_LOSS_CE) {
        mba_type t = MBA_TYPE(MBA_I32, rows);
        t.count = count;
        mba_tensor *labels = mba_targets(g, "labels", t, c->outputs);
        return c->loss == MBA_LOSS_CE ? mba_cross_entropy(g, y, labels) : mba_weighted_cross_entropy(g, y, labels);
    }
    mba_tensor *targets = mba_input(g, "targets", rows_of(count, rows, c->outputs));
    return c->loss == MBA_LOSS_L1 ? mba_l1(g, y, targets) : mba_bce(g, y, targets, c->loss == MBA_LOSS_WEIGHTED_BCE);
}

mba_graphnet_graph mba_graphnet_build(mba_graph *g, const mba_graphnet *c)
{
    const int64_t N = c->nodes, E = c->edges;
    site          s = { .c = c,
                        .edges = { .src = index_input(g, "src", MBA_EDGES, E, 0, N),
                                   .out_edge = index_input(g, "out_edge", MBA_EDGES, E, 0, E),
                                   .in_ptr = index_input(g, "in_ptr", MBA_ALL, N + 1, 0, E + 1),
                                   .out_ptr = index_input(g, "out_ptr", MBA_ALL, N + 1, 0, E + 1) } };
    if (c->readout != MBA_READ_NODES) s.graph_ptr = index_input(g, "graph_ptr", MBA_ALL, c->graphs + 1, 0, N + 1);
    mba_tensor *h = encode_nodes(g, &s), *e = encode_edges(g, &s);
    if (c->pre_layers) {
        h = norm(g, &s, h, "node_encoder_bn", false);
        for (int64_t i = 0; i < c->pre_layers; i++) {
            mba_enter(g, "pre_mp.%d", (int)i);
            h = mba_rownorm(g, norm(g, &s, linear(g, h, "linear", c->width, false), "bn", true));
            mba_leave(g);
        }
    }
    for (int64_t l = 0; l < c->layers; l++) h = layer(g, &s, h, &e, (int)l);
    mba_graphnet_graph o = { .logits = head(g, &s, h) };
    o.loss = loss_of(g, c, o.logits);
    if (c->keep_logits) mba_result(g, "logits", o.logits);
    mba_result(g, "loss", o.loss);
    return o;
}

/* ---- presets ---- */

// clang-format off
#define ATOMS { 119, 5, 12, 12, 10, 6, 6, 2, 2 } // the OGB features of atoms
#define BONDS { 5, 6, 2 }                        // and of bonds

/* Per preset: network and positional encoding; features and head; readout, loss and capacities of a batch. */
static const mba_graphnet presets[] = {
    { .name = "graphmamba-voc", .layers = 4, .width = 96, .pe_count = 10, .pe_width = 16,
      .node_reals = 14, .edge_reals = 2, .head_layers = 3, .outputs = 21,
      .graphs = 32, .nodes = 16000, .edges = 92000, .buckets = 3 },
    { .name = "graphmamba-coco", .layers = 4, .width = 96, .pe_count = 10, .pe_width = 16,
      .node_reals = 14, .edge_reals = 2, .head_layers = 3, .outputs = 81,
      .graphs = 32, .nodes = 16000, .edges = 92000, .buckets = 3 },
    { .name = "graphmamba-peptides-func", .layers = 4, .width = 96, .pe_count = 10, .pe_width = 16,
      .node_tables = ATOMS, .edge_tables = BONDS, .head_layers = 1, .outputs = 10,
      .readout = MBA_READ_MEAN, .loss = MBA_LOSS_BCE, .graphs = 128, .nodes = 24000, .edges = 49000 },
    { .name = "graphmamba-peptides-struct", .layers = 4, .width = 96, .pe_count = 10, .pe_width = 16,
      .node_tables = ATOMS, .edge_tables = BONDS, .head_layers = 1, .outputs = 11,
      .readout = MBA_READ_MEAN, .loss = MBA_LOSS_L1, .graphs = 128, .nodes = 24000, .edges = 49000 },
    { .name = "graphmamba-mnist", .layers = 3, .width = 52, .pe_count = 8, .pe_width = 8, .pe_alone = true,
      .node_reals = 3, .edge_reals = 1, .head_layers = 3, .outputs = 10,
      .readout = MBA_READ_MEAN, .loss = MBA_LOSS_CE, .graphs = 16, .nodes = 1200, .edges = 9600 },
    { .name = "graphmamba-cifar10", .layers = 3, .width = 52, .pe_count = 8, .pe_width = 8, .pe_alone = true,
      .node_reals = 5, .edge_reals = 1, .head_layers = 2, .outputs = 10,
      .readout = MBA_READ_MEAN, .loss = MBA_LOSS_CE, .graphs = 16, .nodes = 2400, .edges = 19200 },
    { .name = "graphmamba-pattern", .layers = 6, .width = 64, .pe_count = 16, .pe_width = 16, .pe_alone = true,
      .node_reals = 3, .head_layers = 3, .outputs = 1,
      .loss = MBA_LOSS_WEIGHTED_BCE, .graphs = 32, .nodes = 6000, .edges = 400000 },
    { .name = "graphmamba-cluster", .layers = 16, .width = 48, .pe_count = 10, .pe_width = 16, .pe_alone = true,
      .node_reals = 7, .head_layers = 3, .outputs = 6, .dropout = 0.1,
      .graphs = 16, .nodes = 3100, .edges = 160000 },
    { .name = "graphmamba-malnet", .layers = 5, .width = 64, .pre_layers = 1,
      .node_reals = 5, .head_layers = 3, .outputs = 5,
      .readout = MBA_READ_MAX, .loss = MBA_LOSS_CE, .graphs = 16, .nodes = 80000, .edges = 165000, .buckets = 3 },
    { .name = NULL },
};
// clang-format on

const mba_graphnet *mba_graphnet_preset(const char *name)
{
    for (const mba_graphnet *c = presets; c->name; c++)
        if (!strcmp(c->name, name)) return c;
    return NULL;
}

const mba_family mba_family_graphmamba = {
    .name = "graphmamba",
    .doc = "graphs: gated message passing beside a Mamba block over all nodes",
    .task = MBA_TASK_GRAPHS,
    .graph = presets,
};

static const char *const readouts[] = { "nodes", "mean", "max", NULL };
static const char *const losses[] = { "weighted_ce", "ce", "bce", "weighted_bce", "l1", NULL };

// clang-format off
#define FIELD(name, kind, ...) { #name, MBA_FIELD_##kind, offsetof(mba_graphnet, name), __VA_ARGS__ }
// clang-format on
const mba_field mba_graphnet_fields[] = {
    FIELD(layers, INT, .meaning = "layers"),
    FIELD(width, INT, .meaning = "channels of nodes and edges, H"),
    FIELD(state, INT, .standard = 16, .least = 1, .meaning = "state size of the scan, N"),
    FIELD(conv, INT, .standard = 4, .least = 1, .meaning = "width of the causal convolution"),
    FIELD(node_reals, INT, .meaning = "real features of a node; 0: node_tables"),
    FIELD(node_tables, LIST, .count = MBA_TABLES_MAX,
          .meaning = "rows of the embedding table of each whole feature of a node"),
    FIELD(edge_reals, INT, .meaning = "real features of an edge; 0: edge_tables, or one vector for all"),
    FIELD(edge_tables, LIST, .count = MBA_TABLES_MAX,
          .meaning = "rows of the embedding table of each whole feature of an edge"),
    FIELD(pe_count, INT, .meaning = "Laplacian eigenvectors per node; 0: none"),
    FIELD(rw_count, INT, .meaning = "instead of them: steps of a random walk (RWSE); 0: none"),
    FIELD(pe_width, INT, .meaning = "channels they become"),
    FIELD(pe_alone, BOOL, .meaning = "1: weights named as those of a LapPE encoder by itself"),
    FIELD(pre_layers, INT, .meaning = "layers in front of the message passing"),
    FIELD(head_layers, INT, .meaning = "layers of the head"),
    FIELD(outputs, INT, .meaning = "results per node or graph"),
    FIELD(readout, WORD, .words = readouts, .meaning = "nodes, or graphs by their mean or max"),
    FIELD(loss, WORD, .words = losses, .meaning = "weighted_ce, ce, bce, weighted_bce or l1"),
    FIELD(dropout, REAL, .meaning = "chance of a value to be dropped"),
    FIELD(buckets, INT, .meaning = "buckets of the node order; 0: none"),
    FIELD(order, TEXT, .count = MBA_ORDER_NAME_MAX,
          .meaning = "node order by its published name (\"\": Mamba_Hybrid_Degree_Noise[_Bucket])"),
    FIELD(no_scan, BOOL, .meaning = "1: without the Mamba branch"),
    { 0 },
};
#undef FIELD

/* Counts the rows and columns of tables that are stacked in one matrix. */
static void stack(int64_t *rows, int64_t *columns, const int64_t *tables)
{
    if (!tables[0]) return;
    *rows = *columns = 0;
    for (int i = 0; i < MBA_TABLES_MAX && tables[i]; i++, (*columns)++) *rows += tables[i];
}

/* Checks every field: first against the range of any network, then against this kind of network. */
static mba_status check_fields(const mba_graphnet *c)
{
    for (const mba_field *f = mba_graphnet_fields; f->name; f++) {
        const int64_t *v = mba_field_at(c, f);
        for (int i = 0; (f->kind == MBA_FIELD_INT || f->kind == MBA_FIELD_LIST) && i < (f->count ? f->count : 1); i++)
            if (v[i] < 0 || v[i] > MBA_FIELD_MOST)
                return mba_fail(MBA_E_ARG, "%s = %lld is not possible\nwhy: %s\nfix: choose a number from 0 to %d",
                                f->name, (long long)v[i], f->meaning, MBA_FIELD_MOST);
    }
    if (!(c->dropout >= 0 && c->dropout < 1))
        return mba_fail(MBA_E_ARG, "dropout must be at least 0 and below 1, not %g", c->dropout);
    return MBA_OK;
}

static mba_status check_ranges(const mba_graphnet *c)
{
    const struct {
        const char *name;
        int64_t     value, least, most;
    } range[] = {
        { "layers", c->layers, 1, 256 },
        { "width", c->width, 1, 1 << 16 },
        { "pre_layers", c->pre_layers, 0, 256 },
        { "head_layers", c->head_layers, 1, 256 },
        { "outputs", c->outputs, 1, MBA_FIELD_MOST },
        { "pe_width", c->pe_width, 0, c->width - 1 },
    };
    for (size_t i = 0; i < sizeof range / sizeof *range; i++)
        if (range[i].value < range[i].least || range[i].value > range[i].most)
            return mba_fail(
                MBA_E_ARG,
                "%s = %lld is not possible\nfix: choose a number from %lld to %lld; mambascope list fields explains it",
                range[i].name, (long long)range[i].value, (long long)range[i].least, (long long)range[i].most);
    return MBA_OK;
}

static mba_status check_batch(const mba_graphnet *c)
{
    const bool large = c->nodes >= INT32_MAX || c->edges >= INT32_MAX || c->graphs > 1 << 22;
    if (!large && c->nodes >= 1 && c->edges >= 1 && c->graphs >= 1) return MBA_OK;
    return mba_fail(MBA_E_ARG,
                    "a batch of at most %lld nodes, %lld edges, %lld graphs is not possible\nwhy: "
                    "%s\nfix: choose %s --nodes, --edges, --graphs",
                    (long long)c->nodes, (long long)c->edges, (long long)c->graphs,
                    large ? "counts of nodes and edges have 31 bits, counts of graphs 22" : "each is at least 1",
                    large ? "smaller" : "larger");
}

mba_status mba_graphnet_complete(mba_graphnet *c)
{
    MBA_TRY(check_fields(c));
    if (c->node_reals) memset(c->node_tables, 0, sizeof c->node_tables);
    if (c->edge_reals) memset(c->edge_tables, 0, sizeof c->edge_tables);
    if (c->pe_count && c->rw_count)
        return mba_fail(MBA_E_ARG,
                        "eigenvectors (pe_count = %lld) and random walks (rw_count = %lld) cannot be "
                        "combined\nwhy: nodes have one of them besides their features\nfix: --set pe_count=0, "
                        "or --set rw_count=0",
                        (long long)c->pe_count, (long long)c->rw_count);
    if (!(c->pe_count + c->rw_count) || !c->pe_width) // one without the other has no effect
        c->pe_count = c->rw_count = c->pe_width = 0;
    stack(&c->node_rows, &c->node_columns, c->node_tables);
    stack(&c->edge_rows, &c->edge_columns, c->edge_tables);
    if (!c->compute) c->compute = MBA_F32;
    if (!c->state) c->state = 16;
    if (!c->conv) c->conv = 4;
    MBA_TRY(check_ranges(c));
    MBA_TRY(check_batch(c));
    if (c->train && c->draws > 1)
        return mba_fail(
            MBA_E_ARG,
            "training cannot use %lld node orders at once\nwhy: only evaluation averages over them\nfix: --set draws=1",
            (long long)c->draws);
    if (!c->node_reals && (!c->node_rows || !c->node_columns))
        return mba_fail(MBA_E_ARG, "nodes have no features\nfix: --set node_reals=.., or node_tables=.. with "
                                   "the rows of each table");
    return MBA_OK;
}
