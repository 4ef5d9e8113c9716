// SPDX-License-Identifier: Apache-2.0
/* graph_fit.c -- see graph_fit.h: compares a model's features, labels and readout with those of a collection, says what
 * does not fit, and adapts a preset. */
#include "train/graph_fit.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { TABLE_ROWS_MAX = 1 << 16, WHY = 200 };

/* ---- tests ---- */

static bool is_plain(const mba_graphnet *c) { return !c->edge_reals && !c->edge_rows && !c->edge_tables[0]; }
static bool is_bce(mba_graph_loss l) { return l == MBA_LOSS_BCE || l == MBA_LOSS_WEIGHTED_BCE; }

static int64_t columns(const int64_t tables[MBA_TABLES_MAX], int64_t otherwise)
{
    int64_t n = 0;
    while (n < MBA_TABLES_MAX && tables[n]) n++;
    return n ? n : otherwise;
}

static int64_t node_columns(const mba_graphnet *c) { return columns(c->node_tables, c->node_columns); }
static int64_t edge_columns(const mba_graphnet *c) { return columns(c->edge_tables, c->edge_columns); }

static bool nodes_fit(const mba_graphnet *c, const mba_graph_form *f)
{
    return c->node_reals ? f->node_width == c->node_reals
                         : f->node_width == node_columns(c) && f->node_type != MBA_GRAPH_F32;
}

static bool edges_fit(const mba_graphnet *c, const mba_graph_form *f)
{
    return is_plain(c)
           || (c->edge_reals ? f->edge_width == c->edge_reals
                             : f->edge_width == edge_columns(c) && f->edge_type != MBA_GRAPH_F32);
}

static bool labels_fit(const mba_graphnet *c, const mba_graph_form *f)
{
    if (mba_is_class_loss(c->loss)) return f->label_width == 1 && f->classes >= 2 && f->classes <= c->outputs;
    return f->label_width == c->outputs && f->classes <= (is_bce(c->loss) ? 2 : 0);
}

static bool readout_fits(const mba_graphnet *c, const mba_graph_form *f)
{
    return f->node_labels == (c->readout == MBA_READ_NODES);
}

bool mba_graph_fits(const mba_graphnet *c, const mba_graph_form *f)
{
    return nodes_fit(c, f) && edges_fit(c, f) && readout_fits(c, f) && labels_fit(c, f);
}

/* ---- messages ---- */

static const char *word_of(const char *field, int number)
{
    for (const mba_field *f = mba_graphnet_fields; f->name; f++)
        if (!strcmp(f->name, field)) return f->words[number];
    return "";
}

/* Writes: "nodes have 3 real features, the model reads 3, numbers of table rows" */
static void tell_features(char why[WHY], const char *what, int64_t width, mba_graph_type type, int64_t reals,
                          int64_t tables)
{
    const bool same = width == (reals ? reals : tables);
    snprintf(why, WHY, "%s have %lld%s features, the model reads %lld%s", what, (long long)width,
             same && type == MBA_GRAPH_F32 ? " real" : "", (long long)(reals ? reals : tables),
             same ? ", numbers of table rows" : "");
}

static void tell_labels(char why[WHY], const mba_graphnet *c, const mba_graph_form *f)
{
    char labels[64], wanted[64];
    if (f->classes && f->label_width == 1)
        snprintf(labels, sizeof labels, "one of %lld classes", (long long)f->classes);
    else
        snprintf(labels, sizeof labels, "%lld %s", (long long)f->label_width,
                 f->classes == 2 ? "times 0 or 1"
                 : f->classes    ? "classes"
                                 : "numbers");
    snprintf(wanted, sizeof wanted, "%s%lld %s", mba_is_class_loss(c->loss) ? "one of at most " : "",
             (long long)c->outputs,
             mba_is_class_loss(c->loss) ? "classes"
             : is_bce(c->loss)          ? "times 0 or 1"
                                        : "numbers");
    snprintf(why, WHY, "a label is %s, loss=%s with outputs=%lld takes %s", labels, word_of("loss", (int)c->loss),
             (long long)c->outputs, wanted);
}

/* `given` names the fields that do not fit. If the model follows no data, it comes from a checkpoint. */
static mba_status tell(const mba_graphnet *c, const char *name, const char *why, const char *given)
{
    if (!c->follows)
        return mba_fail(MBA_E_ARG,
                        "'%s' does not fit the model\nwhy: %s\nfix: use data of the kind it was "
                        "trained on, or a new model: --model graphmamba-mnist --data %s",
                        name, why, name);
    return mba_fail(MBA_E_ARG,
                    "'%s' does not fit the model\nwhy: %s\nfix: leave %s out of --set; it follows from the data", name,
                    why, given);
}

mba_status mba_graph_fit_check(const mba_graphnet *c, const mba_graph_form *f, const char *name)
{
    char       why[WHY];
    const bool loss = !(c->follows & MBA_FOLLOWS_LOSS), outputs = !(c->follows & MBA_FOLLOWS_OUTPUTS);
    if (!f->node_width)
        return mba_fail(MBA_E_FORMAT,
                        "the nodes of '%s' have no features\nwhy: a model needs at least "
                        "one\nfix: give the folder of its text files, where nodes get their degrees, or add "
                        "features (x)",
                        name);
    if (!f->label_width)
        return mba_fail(MBA_E_FORMAT, "the graphs of '%s' have no labels\nfix: convert them with y, or name other data",
                        name);
    if (!nodes_fit(c, f)) {
        tell_features(why, "nodes", f->node_width, f->node_type, c->node_reals, node_columns(c));
        return tell(c, name, why, "node_reals and node_tables");
    }
    if (!edges_fit(c, f)) {
        tell_features(why, "edges", f->edge_width, f->edge_type, c->edge_reals, edge_columns(c));
        return tell(c, name, why, "edge_reals and edge_tables");
    }
    if (!readout_fits(c, f)) {
        snprintf(why, sizeof why, "labels belong to %s, the model's results to %s", f->node_labels ? "nodes" : "graphs",
                 f->node_labels ? "graphs" : "nodes");
        return tell(c, name, why, "readout");
    }
    if (labels_fit(c, f)) return MBA_OK;
    tell_labels(why, c, f);
    if (c->follows && !loss && !outputs)
        return mba_fail(MBA_E_UNSUPPORTED,
                        "no loss fits the labels of '%s'\nwhy: a label is %lld classes of "
                        "%lld\nfix: use one class, several of 0 or 1, or numbers",
                        name, (long long)f->label_width, (long long)f->classes);
    return tell(c, name, why, loss && outputs ? "loss and outputs" : loss ? "loss" : "outputs");
}

/* ---- following the data ---- */

static double value_at(const void *from, mba_graph_type type, int64_t i)
{
    if (type == MBA_GRAPH_F32) return (double)((const float *)from)[i];
    return type == MBA_GRAPH_I32 ? (double)((const int32_t *)from)[i] : (double)((const uint8_t *)from)[i];
}

/* Finds the number of table rows for every column of integer features; false: they cannot be row numbers. */
static bool find_tables(int64_t tables[MBA_TABLES_MAX], const void *from, mba_graph_type type, int64_t rows,
                        int64_t width)
{
    int64_t found[MBA_TABLES_MAX] = { 0 };
    if (type == MBA_GRAPH_F32 || !width || width > MBA_TABLES_MAX) return false;
    for (int64_t i = 0; i < rows * width; i++) {
        const double v = value_at(from, type, i);
        if (v < 0 || v >= TABLE_ROWS_MAX) return false;
        if (v >= (double)found[i % width]) found[i % width] = (int64_t)v + 1;
    }
    for (int64_t k = 0; k < width; k++) found[k] = found[k] > 0 ? found[k] : 1;
    memcpy(tables, found, sizeof found);
    return true;
}

/* Sets the features of nodes or edges: a number of reals, or tables. Tables that are large enough stay as they are. */
static void follow_features(int64_t *reals, int64_t tables[MBA_TABLES_MAX], bool fits, const void *from,
                            mba_graph_type type, int64_t rows, int64_t width)
{
    int64_t    found[MBA_TABLES_MAX] = { 0 };
    const bool whole = find_tables(found, from, type, rows, width);
    if (fits && *reals) return;
    for (int i = 0; whole && fits && i < MBA_TABLES_MAX; i++) fits = found[i] <= tables[i];
    if (fits && whole) return;
    *reals = whole ? 0 : width;
    memcpy(tables, found, sizeof found);
}

static bool labels_are_bits(const mba_graph_set *s)
{
    const int64_t n = (s->form.node_labels ? s->nodes : s->graphs) * s->form.label_width;
    for (int64_t i = 0; i < n; i++) {
        const double y = value_at(s->label, s->form.label_type, i);
        if (!isnan(y) && y != 0 && y != 1) return false;
    }
    return true;
}

static void follow_loss(mba_graphnet *c, const mba_graph_set *s)
{
    const mba_graph_form *f = &s->form;
    const bool class = f->label_width == 1 && f->classes >= 2;
    if (class && (mba_is_class_loss(c->loss) || labels_fit(c, f)) && c->loss != MBA_LOSS_L1) return;
    if (!class && labels_fit(c, f)) return;
    if (class) c->loss = c->follows & MBA_FOLLOWS_OUTPUTS || c->outputs > 1 ? MBA_LOSS_CE : MBA_LOSS_BCE;
    else if (f->classes == 2 || (!f->classes && f->label_width > 1 && labels_are_bits(s)))
        c->loss = is_bce(c->loss) ? c->loss : MBA_LOSS_BCE;
    else if (!f->classes) c->loss = MBA_LOSS_L1;
}

void mba_graph_follow(mba_graphnet *c, const mba_graph_set *s)
{
    const mba_graph_form *f = &s->form;
    if (c->follows & MBA_FOLLOWS_NODES && f->node_width)
        follow_features(&c->node_reals, c->node_tables, nodes_fit(c, f), s->node_feat, f->node_type, s->nodes,
                        f->node_width);
    if (c->follows & MBA_FOLLOWS_EDGES)
        follow_features(&c->edge_reals, c->edge_tables, edges_fit(c, f) && is_plain(c) == !f->edge_width, s->edge_feat,
                        f->edge_type, s->edges, f->edge_width);
    if (c->follows & MBA_FOLLOWS_READOUT && !readout_fits(c, f))
        c->readout = f->node_labels ? MBA_READ_NODES : MBA_READ_MEAN;
    if (!f->label_width) return;
    if (c->follows & MBA_FOLLOWS_LOSS) follow_loss(c, s);
    if (c->follows & MBA_FOLLOWS_OUTPUTS)
        c->outputs = mba_is_class_loss(c->loss) && f->classes ? f->classes : f->label_width;
}

/* ---- description ---- */

static size_t add(char *text, size_t room, size_t used, const char *name, const char *value)
{
    const int n = snprintf(text + used, room - used, "%s%s=%s", used ? ", " : "; from the data: ", name, value);
    return n < 0 || used + (size_t)n >= room ? used : used + (size_t)n;
}

static size_t add_features(char *text, size_t room, size_t used, const char *of, int64_t reals, const int64_t *tables)
{
    char name[32], value[128] = "0";
    int  n = 0;
    snprintf(name, sizeof name, "%s_%s", of, tables[0] && !reals ? "tables" : "reals");
    if (reals || !tables[0]) snprintf(value, sizeof value, "%lld", (long long)reals);
    else
        for (int i = 0; i < MBA_TABLES_MAX && tables[i] && n < (int)sizeof value - 12; i++)
            n += snprintf(value + n, sizeof value - (size_t)n, "%s%lld", i ? ":" : "", (long long)tables[i]);
    return add(text, room, used, name, value);
}

void mba_graph_follow_words(char *text, size_t room, const mba_graphnet *c)
{
    const mba_graphnet *p = c->follows && c->name ? mba_graphnet_preset(c->name) : NULL;
    char                number[24];
    size_t              used = 0;
    *text = 0;
    if (!p) return;
    if (c->follows & MBA_FOLLOWS_NODES
        && (c->node_reals != p->node_reals || memcmp(c->node_tables, p->node_tables, sizeof p->node_tables)))
        used = add_features(text, room, used, "node", c->node_reals, c->node_tables);
    if (c->follows & MBA_FOLLOWS_EDGES
        && (c->edge_reals != p->edge_reals || memcmp(c->edge_tables, p->edge_tables, sizeof p->edge_tables)))
        used = add_features(text, room, used, "edge", c->edge_reals, c->edge_tables);
    snprintf(number, sizeof number, "%lld", (long long)c->outputs);
    if (c->follows & MBA_FOLLOWS_OUTPUTS && c->outputs != p->outputs) used = add(text, room, used, "outputs", number);
    if (c->follows & MBA_FOLLOWS_LOSS && c->loss != p->loss)
        used = add(text, room, used, "loss", word_of("loss", (int)c->loss));
    if (c->follows & MBA_FOLLOWS_READOUT && c->readout != p->readout)
        add(text, room, used, "readout", word_of("readout", (int)c->readout));
}
