// SPDX-License-Identifier: Apache-2.0
/* graph_feed.c -- the feed of graph models (feed.h): chooses graphs that fit the capacities of a batch, writes them and
 * the node orders of every layer into the inputs, and computes scores. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/graph_batch.h"
#include "data/graph_features.h"
#include "data/metrics.h"
#include "data/permute.h"
#include "train/feed.h"
#include "train/graph_fit.h"
#include "train/graph_source.h"

/* The addresses of a batch's arrays in the inputs of a session, valid for this program and this mirror of its
 * inputs. */
typedef struct placement {
    const mba_program *program;
    const void        *inputs; /* the mirror; NULL: the program's own memory */
    mba_graph_batch    batch;
    int32_t *(*orders)[3]; /* (layers, draws): perm, inverse, segment */
} placement;

typedef struct graph_feed {
    mba_feed              base;
    mba_graph_source      from;
    mba_graphnet          c;
    const mba_order_type *order;
    uint64_t              seed;
    bool                  shuffle;
    bool                  all;                            /* no part is held out: there is no validation */
    int64_t              *member;                         /* (size): numbers of the graphs of this part */
    int64_t              *chosen, *nchosen;               /* graphs of each staged micro-batch; room for c.graphs */
    mba_batch_graph      *item;                           /* (c.graphs) */
    const float          *node_real, *edge_real, *target; /* of the whole set, in the type that the model reads */
    const int32_t        *node_index, *edge_index, *label;
    void                 *own[6]; /* converted copies among them */
    int                   nown;
    placement             placed[2];
    int                   oldest; /* which of the two was set first */
    mba_graph_batch       batch;  /* of the placement in use, */
    int32_t *(*orders)[3];        /* which owns these */
    int64_t       draws;          /* node orders per layer */
    int32_t      *places;         /* graph_ptr, graph_of, degree, labels: arrays that are not inputs */
    uint64_t     *work;           /* scratch of mba_graph_order */
    int64_t      *key;            /* (c.nodes) for evaluation, see order_layers; else NULL */
    mba_confusion confusion;
    float        *score, *truth; /* of all graphs evaluated so far */
    int64_t       judged, room;  /* their number; the room of both arrays */
} graph_feed;

/* ---- which graphs ---- */

/* True if graph g belongs to this part. The held-out part is the collection's own, or the last part of a fixed random
 * order. */
static bool belongs(const mba_graph_set *s, int64_t g, const mba_feed_options *o)
{
    if (o->whole) return true;
    if (s->form.has_split) return s->split[g] == (o->held_out ? MBA_SPLIT_VALID : MBA_SPLIT_TRAIN);
    const int64_t place = mba_permuted(g, s->graphs, mba_stream("graphs held out"), 0);
    return (place >= (int64_t)((1 - o->validation) * (double)s->graphs)) == o->held_out;
}

static mba_status no_room(const graph_feed *f, int64_t g)
{
    const mba_graph_set *s = f->from.set;
    const mba_graph_item it = mba_graph_set_item(s, g);
    int64_t              nodes = f->c.nodes, edges = f->c.edges;
    for (int64_t i = 0; i < s->graphs; i++) {
        const mba_graph_item other = mba_graph_set_item(s, i);
        if (other.nodes > nodes) nodes = other.nodes;
        if (other.edges > edges) edges = other.edges;
    }
    return mba_fail(MBA_E_ARG,
                    "graph %lld has %lld nodes and %lld edges\n"
                    "why: a batch has room for %lld nodes and %lld edges\nfix: use --nodes %lld --edges %lld, or more",
                    (long long)g, (long long)it.nodes, (long long)it.edges, (long long)f->c.nodes,
                    (long long)f->c.edges, (long long)nodes, (long long)edges);
}

static mba_status choose_members(graph_feed *f, const mba_feed_options *o)
{
    const mba_graph_set *s = f->from.set;
    f->member = calloc((size_t)s->graphs + 1, sizeof *f->member);
    if (!f->member) return mba_fail(MBA_E_NOMEM, "no memory for the numbers of %lld graphs", (long long)s->graphs);
    for (int64_t g = 0; g < s->graphs; g++) {
        const mba_graph_item it = mba_graph_set_item(s, g);
        if (!belongs(s, g, o)) continue;
        if (!it.nodes) {
            f->base.left_out++;
            f->base.story = "a graph without nodes";
            continue;
        }
        if (it.nodes > f->c.nodes || it.edges > f->c.edges) return no_room(f, g);
        f->member[f->base.size++] = g;
    }
    return MBA_OK;
}

/* Computes Laplacian positions and random-walk features if the collection has none, or another number than the model
 * reads. Keeps only the graphs of this part. */
static mba_status add_positions(graph_feed *f)
{
    mba_graph_source *s = &f->from;
    mba_graph_form    form = s->set->form;
    mba_graph_store  *copy = NULL;
    const bool        lap = f->c.pe_count && form.lap_k != f->c.pe_count,
               walks = f->c.rw_count && form.rwse_k != f->c.rw_count;
    if (!lap && !walks) return MBA_OK;
    form.lap_k = form.rwse_k = 0; // a model reads only one kind, which is computed below
    mba_status st = mba_graph_store_create(&copy, &form);
    for (int64_t i = 0; i < f->base.size && st == MBA_OK; i++) {
        const mba_graph_item it = mba_graph_set_item(s->set, f->member[i]);
        st = mba_graph_store_add(copy, &it);
        f->member[i] = i;
    }
    if (st == MBA_OK && lap) st = mba_graph_store_laplace(copy, f->c.pe_count);
    if (st == MBA_OK && walks) st = mba_graph_store_walks(copy, f->c.rw_count);
    if (st != MBA_OK) {
        mba_graph_store_destroy(copy);
        return st;
    }
    const char *made_up = s->made_up;
    mba_graph_source_close(s);
    *s = (mba_graph_source){ .store = copy, .set = mba_graph_store_set(copy), .made_up = made_up };
    return MBA_OK;
}

/* ---- arrays in the type that the model reads ---- */

static const void *element(const void *from, mba_graph_type type, int64_t i)
{
    return (const char *)from + i * (int64_t)mba_graph_type_bytes(type);
}

static double number_at(const void *from, mba_graph_type type, int64_t i)
{
    const void *p = element(from, type, i);
    if (type == MBA_GRAPH_F32) return (double)*(const float *)p;
    return type == MBA_GRAPH_I32 ? *(const int32_t *)p : *(const uint8_t *)p;
}

static mba_status as_type(const void **out, graph_feed *f, const void *from, mba_graph_type type, mba_graph_type wanted,
                          int64_t n)
{
    *out = from;
    if (type == wanted || !from) return MBA_OK;
    int32_t *own = malloc(sizeof *own * (size_t)(n > 0 ? n : 1));
    if (!own) return mba_fail(MBA_E_NOMEM, "no memory for %lld numbers of a collection", (long long)n);
    for (int64_t i = 0; i < n; i++) {
        const double v = number_at(from, type, i);
        if (wanted == MBA_GRAPH_F32) ((float *)(void *)own)[i] = (float)v;
        else own[i] = v == v ? (int32_t)v : -1;
    }
    f->own[f->nown++] = own;
    *out = own;
    return MBA_OK;
}

static mba_status make_views(graph_feed *f)
{
    const mba_graph_set  *s = f->from.set;
    const mba_graph_form *m = &s->form;
    const int64_t         labels = (m->node_labels ? s->nodes : s->graphs) * m->label_width;
    const void           *nodes, *edges, *label;
    MBA_TRY(as_type(&nodes, f, s->node_feat, m->node_type, f->c.node_reals ? MBA_GRAPH_F32 : MBA_GRAPH_I32,
                    s->nodes * m->node_width));
    MBA_TRY(as_type(&edges, f, s->edge_feat, m->edge_type, f->c.edge_reals ? MBA_GRAPH_F32 : MBA_GRAPH_I32,
                    s->edges * m->edge_width));
    MBA_TRY(as_type(&label, f, s->label, m->label_type, mba_is_class_loss(f->c.loss) ? MBA_GRAPH_I32 : MBA_GRAPH_F32,
                    labels));
    if (f->c.node_reals) f->node_real = nodes;
    else f->node_index = nodes;
    if (f->c.edge_reals) f->edge_real = edges;
    else if (f->c.edge_rows) f->edge_index = edges;
    if (mba_is_class_loss(f->c.loss)) f->label = label;
    else f->target = label;
    return MBA_OK;
}

static mba_batch_graph item_of(const graph_feed *f, int64_t g)
{
    const mba_graph_set *s = f->from.set;
    const int64_t        node = (int64_t)s->node_ptr[g], edge = (int64_t)s->edge_ptr[g], K = s->form.lap_k,
                  row = (s->form.node_labels ? node : g) * s->form.label_width;
    return (mba_batch_graph){ .nodes = (int64_t)s->node_ptr[g + 1] - node,
                              .edges = (int64_t)s->edge_ptr[g + 1] - edge,
                              .src = s->src + edge,
                              .dst = s->dst + edge,
                              .node_real = f->node_real ? f->node_real + node * s->form.node_width : NULL,
                              .node_index = f->node_index ? f->node_index + node * s->form.node_width : NULL,
                              .edge_real = f->edge_real ? f->edge_real + edge * s->form.edge_width : NULL,
                              .edge_index = f->edge_index ? f->edge_index + edge * s->form.edge_width : NULL,
                              .label = f->label ? f->label + row : NULL,
                              .target = f->target ? f->target + row : NULL,
                              .lap_values = s->lap_val ? s->lap_val + g * K : NULL,
                              .lap_vectors = s->lap_vec ? s->lap_vec + node * K : NULL,
                              .walks = s->rwse ? s->rwse + node * s->form.rwse_k : NULL };
}

/* ---- opening ---- */

static void graph_close(mba_feed *base)
{
    graph_feed *f = (graph_feed *)base;
    for (int i = 0; i < f->nown; i++) free(f->own[i]);
    mba_confusion_destroy(&f->confusion);
    mba_graph_source_close(&f->from);
    free(f->member);
    free(f->chosen);
    free(f->nchosen);
    free(f->item);
    free(f->places);
    for (int i = 0; i < 2; i++) free(f->placed[i].orders);
    free(f->work);
    free(f->key);
    free(f->score);
    free(f->truth);
    free(f);
}

static mba_status find_order(graph_feed *f)
{
    const char *usual = f->c.buckets > 1 ? "Mamba_Hybrid_Degree_Noise_Bucket" : "Mamba_Hybrid_Degree_Noise";
    const char *name = f->c.order[0] ? f->c.order : usual;
    f->order = mba_order_find(name);
    return f->order ? MBA_OK
                    : mba_fail(MBA_E_ARG,
                               "there is no node order '%s'\nfix: use a published name such "
                               "as Mamba_Hybrid_Degree_Noise",
                               name);
}

/* True if a result is one of several classes: a confusion matrix is kept instead of all results. */
static bool tells_classes(const mba_graphnet *c)
{
    return mba_is_class_loss(c->loss) || (c->loss == MBA_LOSS_WEIGHTED_BCE && c->outputs == 1);
}

static mba_status take_memory(graph_feed *f, int64_t micros, bool judges)
{
    const size_t N = (size_t)f->c.nodes, G = (size_t)f->c.graphs;
    f->chosen = calloc(G * (size_t)micros, sizeof *f->chosen);
    f->nchosen = calloc((size_t)micros, sizeof *f->nchosen);
    f->item = calloc(G, sizeof *f->item);
    f->places = calloc(G + 1 + 2 * N + (N > G ? N : G), sizeof *f->places);
    f->work = calloc(3 * N, sizeof *f->work);
    f->key = judges ? calloc(N, sizeof *f->key) : NULL;
    if (!f->chosen || !f->nchosen || !f->item || !f->places || !f->work || (judges && !f->key))
        return mba_fail(MBA_E_NOMEM, "no memory for batches of graphs");
    return tells_classes(&f->c) ? mba_confusion_create(&f->confusion, f->c.outputs > 1 ? f->c.outputs : 2) : MBA_OK;
}

static mba_status graph_open(mba_feed **out, const mba_model *m, const mba_feed_options *o)
{
    if (o->micros > 1 && !o->means)
        return mba_fail(MBA_E_UNSUPPORTED, "graph models cannot use several micro-batches\nwhy: class weights "
                                           "and batch statistics belong to one batch\nfix: use larger --graphs, "
                                           "--nodes and --edges, or --sum tree, which "
                                           "takes the mean over micro-batches");
    graph_feed *f = calloc(1, sizeof *f);
    if (!f) return mba_fail(MBA_E_NOMEM, "no memory for a feed");
    f->c = m->graph;
    f->seed = o->seed;
    f->shuffle = !o->in_order && !o->held_out && !o->whole;
    mba_status st = find_order(f);
    if (st == MBA_OK) st = mba_graph_source_open(&f->from, &f->c, o);
    if (st == MBA_OK) f->all = !f->from.set->form.has_split && !(o->validation > 0);
    if (st == MBA_OK) st = choose_members(f, o);
    const bool empty = st == MBA_OK && !f->base.size;
    if (empty && !o->held_out)
        st = mba_fail(MBA_E_FORMAT,
                      "'%s' has no graph to train on\nfix: give --data a "
                      "collection that has a training part",
                      o->data ? o->data : "");
    if (st == MBA_OK && !empty) st = add_positions(f);
    if (st == MBA_OK && !empty) st = make_views(f);
    if (st == MBA_OK && !empty) st = take_memory(f, o->micros > 0 ? o->micros : 1, o->held_out || o->whole);
    if (st == MBA_OK && !empty) *out = &f->base;
    else graph_close(&f->base);
    return st;
}

/* Adapts a preset to the data. Opening the feed checks that it fits. */
static mba_status follow(mba_model *m, const mba_feed_options *o)
{
    mba_graph_source s = { 0 };
    const mba_status st = mba_graph_source_read(&s, &m->graph, o);
    if (st == MBA_OK) mba_graph_follow(&m->graph, s.set);
    mba_graph_source_close(&s);
    return st;
}

/* With `whole`, sets the capacities to the whole collection; else adapts a preset. */
static mba_status graph_fit(mba_model *m, const mba_feed_options *o)
{
    mba_graph_source s = { 0 };
    mba_model        whole = *m;
    if (!o->whole) return o->data && m->graph.follows ? follow(m, o) : MBA_OK;
    MBA_TRY(mba_model_complete(&whole));
    const mba_status st = mba_graph_source_open(&s, &whole.graph, o);
    if (st == MBA_OK) {
        m->graph.graphs = s.set->graphs > 0 ? s.set->graphs : 1;
        m->graph.nodes = s.set->nodes > 0 ? s.set->nodes : 1;
        m->graph.edges = s.set->edges > 0 ? s.set->edges : 1;
    }
    mba_graph_source_close(&s);
    return st;
}

/* ---- batches ---- */

/* Chooses the graphs of the next micro-batch and returns their number; `chosen` NULL: of another rank. */
static mba_status choose(graph_feed *f, int64_t *chosen, int64_t *n)
{
    mba_feed *base = &f->base;
    int64_t   nodes = 0, edges = 0;
    *n = 0;
    if (base->at.index >= base->size)
        return mba_fail(MBA_E_ARG, "there is no graph %lld in this data\nfix: resume with the data of the checkpoint",
                        (long long)base->at.index);
    for (; *n < f->c.graphs && base->at.index < base->size; base->at.index++) {
        const uint64_t        key = f->seed ^ mba_stream("graphs"), epoch = (uint64_t)base->at.epoch;
        const int64_t         i = base->at.index, place = f->shuffle ? mba_permuted(i, base->size, key, epoch) : i;
        const mba_batch_graph it = item_of(f, f->member[place]);
        if (nodes + it.nodes > f->c.nodes || edges + it.edges > f->c.edges) break; // begins the next batch
        nodes += it.nodes;
        edges += it.edges;
        if (chosen) chosen[*n] = f->member[place];
        ++*n;
    }
    if (base->at.index == base->size) base->at = (mba_position){ .epoch = base->at.epoch + 1 };
    return MBA_OK;
}

static mba_status graph_stage(mba_feed *base, mba_step *step)
{
    graph_feed *f = (graph_feed *)base;
    base->units = 0;
    for (int64_t slot = 0; slot < base->slots; slot++) {
        const int64_t m = slot - base->first;
        const bool    mine = m >= 0 && m < base->micros;
        int64_t       n;
        MBA_TRY(choose(f, mine ? f->chosen + m * f->c.graphs : NULL, &n));
        if (!mine) continue;
        f->nchosen[m] = n;
        base->units += n;
    }
    step->loss_scale = 0; // the loss is the mean over the batch
    return MBA_OK;
}

/* The address of an input by its own name, whatever its scope in the model; NULL: the model has no such input. */
static void *input(const mba_session *s, const char *name)
{
    const size_t n = strlen(name);
    for (int32_t i = 0; i < s->graph->ntensors; i++) {
        const mba_tensor *t = s->graph->tensors[i];
        const size_t      k = t->st->role == MBA_INPUT && !t->base ? strlen(t->name) : 0;
        if (k < n || strcmp(t->name + k - n, name)) continue;
        if (k == n || t->name[k - n - 1] == '.') return mba_program_host(s->program, t);
    }
    return NULL;
}

static void place_arrays(graph_feed *f, const mba_session *s)
{
    const int64_t N = f->c.nodes, G = f->c.graphs;
    f->batch = (mba_graph_batch){ .graph_ptr = input(s, "graph_ptr"),
                                  .graph_of = f->places + G + 1,
                                  .degree = f->places + G + 1 + N,
                                  .in_ptr = input(s, "in_ptr"),
                                  .out_ptr = input(s, "out_ptr"),
                                  .src = input(s, "src"),
                                  .out_edge = input(s, "out_edge"),
                                  .node_real = input(s, "node_x"),
                                  .edge_real = input(s, "edge_x"),
                                  .node_index = f->c.node_reals ? NULL : input(s, "node_i"),
                                  .edge_index = f->c.edge_rows ? input(s, "edge_i") : NULL,
                                  .label = input(s, "labels"),
                                  .target = input(s, "targets"),
                                  .lap_phi = input(s, "phi"),
                                  .lap_lam = input(s, "lam"),
                                  .walks = input(s, "walks") };
    if (!f->batch.graph_ptr) f->batch.graph_ptr = f->places;
    if (!f->c.edge_reals && !f->c.edge_rows) memset(input(s, "edge_i"), 0, sizeof(int32_t) * (size_t)f->c.edges);
}

/* The input for node order `draw` of a layer: perm.3, or perm.3.1 in a network that averages several. */
static int32_t *order_input(const mba_session *s, const char *what, int64_t layer, int64_t draw)
{
    char name[48];
    snprintf(name, sizeof name, "%s.%d.%d", what, (int)layer, (int)draw);
    int32_t *at = input(s, name);
    snprintf(name, sizeof name, "%s.%d", what, (int)layer);
    return at || draw ? at : input(s, name);
}

static mba_status place_orders(graph_feed *f, const mba_session *s)
{
    static const char *const what[] = { "perm", "inverse", "segment" };
    f->draws = 0;
    while (!f->c.no_scan && f->draws < 256 && order_input(s, "perm", 0, f->draws)) f->draws++;
    f->orders = calloc((size_t)(f->c.layers * f->draws) + 1, sizeof *f->orders);
    if (!f->orders) return mba_fail(MBA_E_NOMEM, "no memory for the orders of %lld layers", (long long)f->c.layers);
    for (int64_t i = 0; i < f->c.layers * f->draws; i++)
        for (int k = 0; k < 3; k++) f->orders[i][k] = order_input(s, what[k], i / f->draws, i % f->draws);
    return MBA_OK;
}

/* Looks up the names of inputs once per session and mirror (a session may have two mirrors), not once per step. */
static mba_status place(graph_feed *f, const mba_session *s)
{
    const void *inputs = s->program->mirror[MBA_INPUT];
    placement  *p = NULL;
    for (int i = 0; i < 2; i++)
        if (f->placed[i].program == s->program && f->placed[i].inputs == inputs) p = &f->placed[i];
    if (!p) {
        p = &f->placed[f->oldest];
        f->oldest ^= 1;
        free(p->orders);
        *p = (placement){ 0 };
        place_arrays(f, s);
        MBA_TRY(place_orders(f, s));
        *p = (placement){ s->program, inputs, f->batch, f->orders };
    }
    f->batch = p->batch;
    f->orders = p->orders;
    return MBA_OK;
}

/* Computes the node orders. In training, every row of every step has its own random numbers. In evaluation they depend
 * only on the number of a node in its graph, so that results do not depend on the other graphs of a batch or its
 * capacity. */
static void order_layers(graph_feed *f, const mba_step *step)
{
    const mba_graph_batch *b = &f->batch;
    for (int64_t v = 0; f->key && v < b->nodes; v++) f->key[v] = v - b->graph_ptr[b->graph_of[v]];
    for (int64_t i = 0; i < f->c.layers * f->draws; i++)
        mba_graph_order(f->orders[i][0], f->orders[i][1], f->orders[i][2],
                        &(mba_graph_order_args){ .type = f->order,
                                                 .batch = &f->batch,
                                                 .capacity = f->c.nodes,
                                                 .key = f->key,
                                                 .seed = step->seed,
                                                 .counter = f->key ? 0 : mba_step_counter(step),
                                                 .layer = i / f->draws,
                                                 .draw = i % f->draws,
                                                 .work = f->work });
}

static int64_t count_targets(const graph_feed *f)
{
    const mba_graph_batch *b = &f->batch;
    const int64_t          rows = f->c.readout == MBA_READ_NODES ? b->nodes : b->graphs;
    int64_t                n = 0;
    for (int64_t i = 0; b->label && i < rows; i++) n += b->label[i] >= 0;
    for (int64_t i = 0; b->target && i < rows * f->c.outputs; i++) n += b->target[i] == b->target[i];
    return n;
}

static mba_status graph_bind(mba_feed *base, mba_session *s, int64_t micro, mba_step *step)
{
    graph_feed           *f = (graph_feed *)base;
    const bool            classes = mba_is_class_loss(f->c.loss);
    const mba_graph_shape shape = { .nodes = f->c.nodes,
                                    .edges = f->c.edges,
                                    .graphs = f->c.graphs,
                                    .node_reals = f->c.node_reals,
                                    .node_fields = f->c.node_columns,
                                    .node_rows = f->c.node_tables,
                                    .edge_reals = f->c.edge_reals,
                                    .edge_fields = f->c.edge_columns,
                                    .edge_rows = f->c.edge_tables,
                                    .classes = classes ? f->c.outputs : 0,
                                    .targets = classes ? 0 : f->c.outputs,
                                    .node_labels = f->c.readout == MBA_READ_NODES,
                                    .lap = f->c.pe_count,
                                    .walks = f->c.rw_count };
    MBA_TRY(place(f, s));
    for (int64_t i = 0; i < f->nchosen[micro]; i++) f->item[i] = item_of(f, f->chosen[micro * f->c.graphs + i]);
    MBA_TRY(mba_graph_batch_fill(&f->batch, &shape, f->item, f->nchosen[micro]));
    order_layers(f, step);
    step->count[MBA_NODES] = (int32_t)f->batch.nodes;
    step->count[MBA_EDGES] = (int32_t)f->batch.edges;
    step->count[MBA_GRAPHS] = (int32_t)f->batch.graphs;
    base->targets = count_targets(f);
    return MBA_OK;
}

/* ---- scores ---- */

static mba_status keep_scores(graph_feed *f, const float *logits, int64_t n)
{
    if (f->judged + n > f->room) {
        const int64_t room = 2 * (f->judged + n);
        float        *score = realloc(f->score, sizeof *score * (size_t)room);
        if (score) f->score = score;
        float *truth = score ? realloc(f->truth, sizeof *truth * (size_t)room) : NULL;
        if (!truth) return mba_fail(MBA_E_NOMEM, "no memory for %lld predictions", (long long)room);
        f->truth = truth;
        f->room = room;
    }
    memcpy(f->score + f->judged, logits, sizeof *logits * (size_t)n);
    memcpy(f->truth + f->judged, f->batch.target, sizeof *logits * (size_t)n);
    f->judged += n;
    return MBA_OK;
}

static mba_status graph_score(mba_feed *base, const mba_session *s)
{
    graph_feed   *f = (graph_feed *)base;
    const float  *logits = mba_session_at(s, "logits");
    const int64_t rows = f->c.readout == MBA_READ_NODES ? f->batch.nodes : f->batch.graphs;
    int32_t      *guess = f->places + f->c.graphs + 1 + 2 * f->c.nodes, *truth = (int32_t *)f->work;
    if (!tells_classes(&f->c)) return keep_scores(f, logits, rows * f->c.outputs);
    if (mba_is_class_loss(f->c.loss)) {
        mba_argmax(guess, logits, rows, f->c.outputs);
        mba_confusion_add(&f->confusion, guess, f->batch.label, rows);
    } else {
        for (int64_t i = 0; i < rows; i++) {
            guess[i] = logits[i] > 0; // a probability above one half
            truth[i] = f->batch.target[i] == f->batch.target[i] ? f->batch.target[i] > 0.5f : -1;
        }
        mba_confusion_add(&f->confusion, guess, truth, rows);
    }
    return MBA_OK;
}

static mba_status graph_scores(mba_feed *base, mba_task_score out[MBA_SCORES_MAX], int *n)
{
    graph_feed   *f = (graph_feed *)base;
    const int64_t judged = f->judged;
    f->judged = 0;
    *n = 1;
    if (f->confusion.count) {
        out[0] = (mba_task_score){ "accuracy", mba_accuracy(&f->confusion) };
        out[1] = (mba_task_score){ "f1", mba_macro_f1(&f->confusion) };
        out[2] = (mba_task_score){ "sbm_accuracy", mba_sbm_accuracy(&f->confusion) };
        *n = 3;
        const int64_t cells = f->confusion.classes * f->confusion.classes;
        memset(f->confusion.count, 0, sizeof *f->confusion.count * (size_t)cells);
        return MBA_OK;
    }
    if (f->c.loss == MBA_LOSS_L1) {
        out[0] = (mba_task_score){ "mae", mba_mean_absolute_error(f->score, f->truth, judged) };
        return MBA_OK;
    }
    out[0].name = "ap";
    return mba_average_precision(&out[0].value, f->score, f->truth, judged / f->c.outputs, f->c.outputs);
}

static void graph_describe(const mba_feed *base, char *text, size_t room)
{
    const graph_feed    *f = (const graph_feed *)base;
    const mba_graph_set *s = f->from.set;
    const char          *made_up = f->from.made_up;
    char                 followed[240];
    mba_graph_follow_words(followed, sizeof followed, &f->c);
    snprintf(text, room, "%lld graphs, %.1f nodes and %.1f edges on average%s%s%s%s%s", (long long)base->size,
             (double)s->nodes / (double)s->graphs, (double)s->edges / (double)s->graphs, made_up ? " (SYNTHETIC " : "",
             made_up ? made_up : "", made_up ? ")" : "", followed,
             f->all ? "; no validation part (--valid-fraction 0.1 holds out a tenth)" : "");
}

const mba_feed_type mba_graph_feed = {
    .fit = graph_fit,
    .open = graph_open,
    .stage = graph_stage,
    .bind = graph_bind,
    .score = graph_score,
    .scores = graph_scores,
    .describe = graph_describe,
    .close = graph_close,
};
