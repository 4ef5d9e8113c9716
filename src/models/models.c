// SPDX-License-Identifier: Apache-2.0
/* models.c -- see model.h: the list of families from models.def, and one table with the functions of every task. */
#include <stdio.h>
#include <string.h>

#include "core/nearest.h"
#include "models/model.h"

#define MODEL(name) extern const mba_family mba_family_##name;
#include "models/models.def"
#undef MODEL

const mba_family *const mba_families[] = {
#define MODEL(name) &mba_family_##name,
#include "models/models.def"
#undef MODEL
    NULL,
};

/* ---- text ---- */

static mba_status text_shape(mba_model *m, const mba_batch_shape *s)
{
    if (s->batch) m->lm.batch = s->batch;
    if (s->length) m->lm.length = s->length;
    return s->image || s->graphs || s->nodes || s->edges
               ? mba_fail(MBA_E_ARG, "%s is a text model\nfix: set its batch with --batch and --length",
                          mba_model_name(m))
               : MBA_OK;
}

static mba_model_graph text_build(mba_graph *g, const mba_model *m)
{
    const mba_lm_graph o = mba_lm_build(g, &m->lm);
    return (mba_model_graph){ o.loss, o.logits };
}

static void text_outputs(mba_model *m, bool loss, bool logits)
{
    m->lm.head = !loss ? MBA_HEAD_LOGITS : logits ? MBA_HEAD_BOTH : MBA_HEAD_LOSS;
}

static void text_words(mba_model_text *t, const mba_model *m)
{
    snprintf(t->text, sizeof t->text, "batch %lld x length %lld", (long long)m->lm.batch, (long long)m->lm.length);
}

static mba_status  text_complete(mba_model *m) { return mba_lm_complete(&m->lm); }
static mba_status  text_set(mba_model *m, const char *s) { return mba_lm_set(&m->lm, s); }
static const char *text_name(const mba_model *m) { return m->lm.name; }
static int64_t     text_units(const mba_model *m) { return m->lm.batch * m->lm.length; }

static mba_model_sizes text_sizes(const mba_model *m)
{
    return (mba_model_sizes){ m->lm.width, m->lm.layers, m->lm.state, m->lm.vocab };
}

/* ---- images ---- */

static mba_status images_shape(mba_model *m, const mba_batch_shape *s)
{
    if (s->batch) m->vision.batch = s->batch;
    if (s->image) m->vision.image = s->image;
    return s->length || s->graphs || s->nodes || s->edges
               ? mba_fail(MBA_E_ARG, "%s is an image model\nfix: set its batch with --batch and --image",
                          mba_model_name(m))
               : MBA_OK;
}

static mba_model_graph images_build(mba_graph *g, const mba_model *m)
{
    const mba_vision_graph o = mba_vision_build(g, &m->vision);
    return (mba_model_graph){ o.loss, o.logits };
}

static void images_mode(mba_model *m, bool train, bool learns)
{
    m->vision.train = train;
    m->vision.soft_targets = learns;
}

static void images_outputs(mba_model *m, bool loss, bool logits)
{
    (void)loss; // always there
    m->vision.keep_logits = logits;
}

static void images_words(mba_model_text *t, const mba_model *m)
{
    snprintf(t->text, sizeof t->text, "batch %lld of %lld x %lld pixels", (long long)m->vision.batch,
             (long long)m->vision.image, (long long)m->vision.image);
}

static mba_status  images_complete(mba_model *m) { return mba_vision_complete(&m->vision); }
static mba_status  images_set(mba_model *m, const char *s) { return mba_fields_set(&m->vision, mba_vision_fields, s); }
static const char *images_name(const mba_model *m) { return m->vision.name; }
static int64_t     images_units(const mba_model *m) { return m->vision.batch; }

static mba_model_sizes images_sizes(const mba_model *m)
{
    mba_model_sizes s = { m->vision.dim, 0, m->vision.state, m->vision.classes };
    for (int i = 0; i < MBA_STAGES; i++) s.layers += m->vision.depths[i];
    return s;
}

/* ---- graphs ---- */

static mba_status graphs_shape(mba_model *m, const mba_batch_shape *s)
{
    mba_graphnet *c = &m->graph;
    if (s->batch || s->length || s->image)
        return mba_fail(MBA_E_ARG, "%s is a graph model\nfix: set its batch with --graphs, --nodes and --edges",
                        mba_model_name(m));
    if (s->graphs && c->graphs) {
        if (!s->nodes) c->nodes = (c->nodes * s->graphs + c->graphs - 1) / c->graphs;
        if (!s->edges) c->edges = (c->edges * s->graphs + c->graphs - 1) / c->graphs;
    }
    if (s->graphs) c->graphs = s->graphs;
    if (s->nodes) c->nodes = s->nodes;
    if (s->edges) c->edges = s->edges;
    return MBA_OK;
}

static mba_model_graph graphs_build(mba_graph *g, const mba_model *m)
{
    const mba_graphnet_graph o = mba_graphnet_build(g, &m->graph);
    return (mba_model_graph){ o.loss, o.logits };
}

static mba_status graphs_start(mba_program *p, const mba_model *m, uint64_t seed)
{
    return mba_graphnet_start(p, &m->graph, seed);
}

static void graphs_mode(mba_model *m, bool train, bool learns)
{
    (void)learns;
    m->graph.train = train;
    m->graph.draws = train || (m->graph.order[0] && !strstr(m->graph.order, "Hybrid")) ? 1 : 5; // as published
}

static void graphs_outputs(mba_model *m, bool loss, bool logits)
{
    (void)loss;
    m->graph.keep_logits = logits;
}

static void graphs_words(mba_model_text *t, const mba_model *m)
{
    snprintf(t->text, sizeof t->text, "at most %lld graphs, %lld nodes, %lld edges", (long long)m->graph.graphs,
             (long long)m->graph.nodes, (long long)m->graph.edges);
}

/* True if "NAME=VALUE,.." assigns to this field. */
static bool assigns(const char *assignments, const char *field)
{
    const size_t n = strlen(field);
    for (const char *p = assignments; p && *p; p += strcspn(p, ","), p += *p == ',')
        if (!strncmp(p, field, n) && p[n] == '=') return true;
    return false;
}

/* Fields that --set names do not follow the data. */
static mba_status graphs_set(mba_model *m, const char *s)
{
    static const struct {
        const char *field;
        unsigned    what;
    } given[] = {
        { "node_reals", MBA_FOLLOWS_NODES },  { "node_tables", MBA_FOLLOWS_NODES }, { "edge_reals", MBA_FOLLOWS_EDGES },
        { "edge_tables", MBA_FOLLOWS_EDGES }, { "outputs", MBA_FOLLOWS_OUTPUTS },   { "loss", MBA_FOLLOWS_LOSS },
        { "readout", MBA_FOLLOWS_READOUT },
    };
    for (size_t i = 0; i < sizeof given / sizeof *given; i++)
        if (assigns(s, given[i].field)) m->graph.follows &= ~given[i].what;
    if (assigns(s, "node_tables")) m->graph.node_reals = 0; // else real features would hide the tables
    if (assigns(s, "edge_tables")) m->graph.edge_reals = 0;
    return mba_fields_set(&m->graph, mba_graphnet_fields, s);
}

static mba_status  graphs_complete(mba_model *m) { return mba_graphnet_complete(&m->graph); }
static const char *graphs_name(const mba_model *m) { return m->graph.name; }
static int64_t     graphs_units(const mba_model *m) { return m->graph.graphs; }

static mba_model_sizes graphs_sizes(const mba_model *m)
{
    return (mba_model_sizes){ m->graph.width, m->graph.layers, m->graph.state, m->graph.outputs };
}

/* ---- the table ---- */

static const struct task {
    const char      *name, *unit, *loss_unit;
    bool             has_modes;
    const mba_field *fields;
    const char *(*model_name)(const mba_model *m);
    mba_status (*complete)(mba_model *m);
    mba_status (*set)(mba_model *m, const char *assignments);
    mba_status (*shape)(mba_model *m, const mba_batch_shape *s);
    mba_model_graph (*build)(mba_graph *g, const mba_model *m);
    mba_status (*start)(mba_program *p, const mba_model *m, uint64_t seed); /* NULL: nothing to do */
    void (*mode)(mba_model *m, bool train, bool learns);                    /* NULL: only one mode */
    void (*outputs)(mba_model *m, bool loss, bool logits);
    int64_t (*units)(const mba_model *m);
    void (*words)(mba_model_text *t, const mba_model *m);
    mba_model_sizes (*sizes)(const mba_model *m);
} tasks[MBA_TASKS] = {
    [MBA_TASK_TEXT] = { "text", "tokens", "nats/token", false, mba_lm_fields, text_name, text_complete, text_set,
                        text_shape, text_build, NULL, NULL, text_outputs, text_units, text_words, text_sizes },
    [MBA_TASK_IMAGES] = { "images", "images", "nats/image", true, mba_vision_fields, images_name, images_complete,
                          images_set, images_shape, images_build, NULL, images_mode, images_outputs, images_units,
                          images_words, images_sizes },
    [MBA_TASK_GRAPHS] = { "graphs", "graphs", "per target", true, mba_graphnet_fields, graphs_name, graphs_complete,
                          graphs_set, graphs_shape, graphs_build, graphs_start, graphs_mode, graphs_outputs,
                          graphs_units, graphs_words, graphs_sizes },
};

const char      *mba_task_name(mba_task t) { return tasks[t].name; }
const char      *mba_task_unit(mba_task t) { return tasks[t].unit; }
const char      *mba_task_loss_unit(mba_task t) { return tasks[t].loss_unit; }
bool             mba_task_has_modes(mba_task t) { return tasks[t].has_modes; }
const mba_field *mba_task_fields(mba_task t) { return tasks[t].fields; }

mba_status      mba_model_complete(mba_model *m) { return tasks[m->task].complete(m); }
mba_status      mba_model_set(mba_model *m, const char *assignments) { return tasks[m->task].set(m, assignments); }
mba_status      mba_model_shape(mba_model *m, const mba_batch_shape *s) { return tasks[m->task].shape(m, s); }
mba_model_graph mba_model_build(mba_graph *g, const mba_model *m) { return tasks[m->task].build(g, m); }
void            mba_model_outputs(mba_model *m, bool loss, bool logits) { tasks[m->task].outputs(m, loss, logits); }
int64_t         mba_model_units(const mba_model *m) { return tasks[m->task].units(m); }
mba_model_sizes mba_model_sizes_of(const mba_model *m) { return tasks[m->task].sizes(m); }

mba_status mba_model_start(mba_program *p, const mba_model *m, uint64_t seed)
{
    return tasks[m->task].start ? tasks[m->task].start(p, m, seed) : MBA_OK;
}

void mba_model_mode(mba_model *m, bool train, bool learns)
{
    if (tasks[m->task].mode) tasks[m->task].mode(m, train, learns);
}

void mba_model_disable_stochastic(mba_model *m)
{
    if (m->task == MBA_TASK_IMAGES) m->vision.drop_path = 0;
    if (m->task != MBA_TASK_GRAPHS) return;
    m->graph.dropout = 0;
    m->graph.given_signs = true;
}

void mba_model_compute(mba_model *m, mba_dtype dtype)
{
    if (m->task == MBA_TASK_TEXT) m->lm.compute = dtype;
    if (m->task == MBA_TASK_IMAGES) m->vision.compute = dtype;
    if (m->task == MBA_TASK_GRAPHS) m->graph.compute = dtype;
}

const char *mba_model_name(const mba_model *m)
{
    const char *name = tasks[m->task].model_name(m);
    return name ? name : "given";
}

mba_model_text mba_model_batch_words(const mba_model *m)
{
    mba_model_text t;
    tasks[m->task].words(&t, m);
    return t;
}

/* ---- presets ---- */

bool mba_family_preset(mba_model *out, const mba_family *f, int i)
{
    *out = (mba_model){ .task = f->task };
    switch (f->task) {
    case MBA_TASK_TEXT: out->lm = f->lm[i]; return out->lm.name != NULL;
    case MBA_TASK_IMAGES: out->vision = f->vision[i]; return out->vision.name != NULL;
    default:
        out->graph = f->graph[i];
        out->graph.follows = MBA_FOLLOWS_ALL;
        return out->graph.name != NULL;
    }
}

mba_status mba_model_preset(mba_model *out, const char *name)
{
    for (int k = 0; mba_families[k]; k++)
        for (int i = 0; mba_family_preset(out, mba_families[k], i); i++)
            if (!strcmp(mba_model_name(out), name)) return MBA_OK;
    mba_nearest near = mba_nearest_to(name, strlen(name));
    for (int k = 0; mba_families[k]; k++)
        for (int i = 0; mba_family_preset(out, mba_families[k], i); i++)
            mba_nearest_try(&near, mba_model_name(out), NULL);
    return mba_fail(MBA_E_ARG, "there is no model named '%s'\nfix: %smambascope list models names them", name,
                    mba_did_you_mean(&near).text);
}

const mba_lm_mixer *mba_lm_mixer_of(char symbol)
{
    for (int k = 0; mba_families[k]; k++)
        for (const mba_lm_mixer *m = mba_families[k]->mixers; m && m->symbol; m++)
            if (m->symbol == symbol) return m;
    return NULL;
}

const mba_lm *mba_lm_preset(const char *name)
{
    for (int k = 0; mba_families[k]; k++)
        for (const mba_lm *c = mba_families[k]->lm; c && c->name; c++)
            if (!strcmp(c->name, name)) return c;
    return NULL;
}
