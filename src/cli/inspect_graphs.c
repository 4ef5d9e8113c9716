// SPDX-License-Identifier: Apache-2.0
/* inspect_graphs.c -- collections of graphs, as inspect.h shows them. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/inspect.h"
#include "data/graph_pack.h"
#include "data/graph_readers.h"
#include "data/graph_synthetic.h"
#include "data/listing.h"

enum { CLASSES_MAX = 1 << 20, WHOLE_LABELS_MAX = 1000 };

/* ---- what a collection holds ---- */

static double label_at(const mba_graph_set *s, int64_t i)
{
    return s->form.label_type == MBA_GRAPH_F32   ? ((const float *)s->label)[i]
           : s->form.label_type == MBA_GRAPH_I32 ? ((const int32_t *)s->label)[i]
                                                 : ((const uint8_t *)s->label)[i];
}

/* Classes where the collection has them, and also where all labels are small whole numbers: OGB does not say. */
static mba_status tell_labels(json_t *to, const mba_graph_set *s)
{
    const int64_t   rows = s->form.node_labels ? s->nodes : s->graphs, n = rows * s->form.label_width;
    mba_value_range value = { 0 };
    bool            whole = s->form.label_width == 1;
    for (int64_t i = 0; i < n; i++) {
        const double y = label_at(s, i);
        if (isnan(y)) continue;
        mba__spread_add(&value, y);
        whole = whole && y == floor(y) && y >= 0 && y < (s->form.classes ? CLASSES_MAX : WHOLE_LABELS_MAX);
    }
    mba__fact_text(to, "labels_of", s->form.node_labels ? "nodes" : "graphs");
    mba__fact_int(to, "label_width", s->form.label_width);
    mba__fact_int(to, "labels_missing", n - value.n);
    if (!whole || !value.n) mba__fact_spread(to, "label", &value, false);
    if (!whole || !value.n) return MBA_OK;
    const int64_t known = s->form.classes <= CLASSES_MAX ? s->form.classes : 0;
    const int64_t classes = known > value.high ? known : (int64_t)value.high + 1;
    int64_t      *count = calloc((size_t)classes, sizeof *count);
    if (!count) return mba_fail(MBA_E_NOMEM, "no memory to count %" PRId64 " classes", classes);
    for (int64_t i = 0; i < n; i++)
        if (!isnan(label_at(s, i))) count[(int64_t)label_at(s, i)]++;
    mba__fact_int(to, "classes", classes);
    mba__fact_classes(to, count, classes, NULL);
    free(count);
    return MBA_OK;
}

static mba_status tell_sizes(json_t *to, const mba_graph_set *s)
{
    mba_value_range nodes = { 0 }, edges = { 0 }, degree = { 0 };
    int64_t         most = 1;
    for (int64_t g = 0; g < s->graphs; g++) {
        const mba_graph_item i = mba_graph_set_item(s, g);
        mba__spread_add(&nodes, (double)i.nodes);
        mba__spread_add(&edges, (double)i.edges);
        if (i.nodes > most) most = i.nodes;
    }
    int64_t *out = malloc((size_t)most * sizeof *out);
    if (!out) return mba_fail(MBA_E_NOMEM, "no memory for the degrees of %" PRId64 " nodes", most);
    for (int64_t g = 0; g < s->graphs; g++) {
        const mba_graph_item i = mba_graph_set_item(s, g);
        memset(out, 0, (size_t)i.nodes * sizeof *out);
        for (int64_t k = 0; k < i.edges; k++) out[i.src[k]]++;
        for (int64_t v = 0; v < i.nodes; v++) mba__spread_add(&degree, (double)out[v]);
    }
    free(out);
    mba__fact_spread(to, "nodes_per_graph", &nodes, false);
    mba__fact_spread(to, "edges_per_graph", &edges, false);
    mba__fact_spread(to, "out_degree", &degree, true);
    return MBA_OK;
}

static void tell_features(json_t *to, const mba_graph_form *f)
{
    static const char *const type[] = { "none", "f32", "i32", "u8" };
    mba__fact_int(to, "node_features", f->node_width);
    if (f->node_width) mba__fact_text(to, "node_feature_type", type[f->node_type]);
    mba__fact_int(to, "edge_features", f->edge_width);
    if (f->edge_width) mba__fact_text(to, "edge_feature_type", type[f->edge_type]);
    if (f->lap_k) mba__fact_int(to, "laplacian_features", f->lap_k);
    if (f->rwse_k) mba__fact_int(to, "random_walk_features", f->rwse_k);
}

static void tell_split(json_t *to, const mba_graph_set *s)
{
    static const char *const name[MBA_SPLITS] = { "train", "valid", "test" };
    int64_t                  n[MBA_SPLITS] = { 0 };
    json_t                  *o = json_object();
    for (int64_t g = 0; g < s->graphs; g++) n[s->split[g]]++;
    for (int k = 0; k < MBA_SPLITS; k++) mba__fact_int(o, name[k], n[k]);
    json_object_set_new(to, "split", o);
}

static mba_status tell_graphs(mba_report *r, const mba_graph_set *s, bool labelled)
{
    json_t *to = r->facts;
    mba__fact_int(to, "graphs", s->graphs);
    mba__fact_int(to, "nodes", s->nodes);
    mba__fact_int(to, "edges", s->edges);
    json_object_set_new(to, "undirected", json_boolean(s->undirected));
    tell_features(to, &s->form);
    if (s->split && labelled) tell_split(to, s);
    MBA_TRY(tell_sizes(to, s));
    return labelled && s->label ? tell_labels(to, s) : MBA_OK;
}

static mba_status tell_store(mba_report *r, mba_graph_store *s, bool labelled)
{
    const mba_status st = tell_graphs(r, mba_graph_store_set(s), labelled);
    mba_graph_store_destroy(s);
    return st;
}

bool mba__inspect_graph_file(mba_status *st, mba_report *r, const mba_map *m)
{
    mba_graph_pack *p = NULL;
    if (m->bytes < 8 || memcmp(m->data, "GRAPHPK1", 8)) return false;
    *st = mba_graph_pack_open(&p, r->path);
    mba__fact_format(r, "graphpk", "graphs in one file (GRAPHPK1)");
    if (*st == MBA_OK) *st = tell_graphs(r, mba_graph_pack_set(p), true);
    mba_graph_pack_close(p);
    return true;
}

mba_status mba__inspect_edge_list(mba_report *r, const mba_map *m)
{
    (void)m;
    mba_graph_store *s = NULL;
    mba_text_file    f = { 0 };
    MBA_TRY(mba_text_file_open(&f, r->path));
    mba_status st = mba__malnet_create(&s);
    if (st == MBA_OK) st = mba__malnet_add(s, &f.text, 0, MBA_SPLIT_TRAIN);
    mba__fact_format(r, "edge-list", "one graph as an edge list (MalNet)");
    if (st == MBA_OK) st = tell_graphs(r, mba_graph_store_set(s), false);
    mba_graph_store_destroy(s);
    mba_text_file_close(&f);
    return st;
}

/* ---- folders of graphs ---- */

static bool is_edgelist(const char *name) { return mba_ends_with(name, ".edgelist"); }

/* True: the folder has a name that is wanted. */
static bool has_one(const char *folder, bool (*wanted)(const char *name))
{
    mba_listing l = { 0 };
    const bool  ok = mba_listing_read(&l, folder, wanted) == MBA_OK && l.n;
    mba_listing_free(&l);
    return ok;
}

static mba_status inspect_tu(mba_report *r)
{
    mba_graph_store *s = NULL;
    MBA_TRY(mba_tu_dataset_read(&s, r->path));
    mba__fact_format(r, "tu-dataset", "a TUDataset in text files");
    return tell_store(r, s, true);
}

/* Labels as they are, edges once, and the first split scheme there is. */
static mba_status inspect_ogb(mba_report *r)
{
    mba_graph_store *s = NULL;
    mba_listing      l = { 0 };
    char             path[MBA_PATH];
    if (snprintf(path, sizeof path, "%s/split", r->path) < MBA_PATH && mba_is_folder(path))
        MBA_TRY(mba_listing_read(&l, path, NULL));
    const mba_ogb_options o = { .scheme = l.n ? l.name[0] : NULL, .directed = true };
    mba_status            st = mba_ogb_csv_read(&s, r->path, &o);
    mba__fact_format(r, "ogb-csv", "an OGB collection in CSV files, every edge as listed");
    if (l.n) mba__fact_text(r->facts, "split_scheme", l.name[0]);
    mba_listing_free(&l);
    return st == MBA_OK ? tell_store(r, s, true) : st;
}

/* Calls `use` for every <class>/<family>/<file> below the folder, in order. */
typedef mba_status on_graph(mba_graph_store *s, const char *path, const char *id);

static mba_status each_graph(mba_graph_store *s, const char *root, const char *below, int depth, on_graph *use)
{
    char        path[MBA_PATH], name[MBA_PATH];
    mba_listing l = { 0 };
    if (snprintf(path, sizeof path, "%s/%s", root, below) >= MBA_PATH) return mba_fail(MBA_E_ARG, "a path is too long");
    mba_status st = mba_listing_read(&l, path, depth == 2 ? is_edgelist : NULL);
    for (int64_t i = 0; st == MBA_OK && i < l.n; i++) {
        const int n = snprintf(name, sizeof name, "%s%s%s", below, *below ? "/" : "", l.name[i]);
        if (n >= MBA_PATH || snprintf(path, sizeof path, "%s/%s", root, name) >= MBA_PATH)
            st = mba_fail(MBA_E_ARG, "a path is too long");
        else if (depth == 2) st = use(s, path, name);
        else if (mba_is_folder(path)) st = each_graph(s, root, name, depth + 1, use);
    }
    mba_listing_free(&l);
    return st;
}

static mba_status add_graph(mba_graph_store *s, const char *path, const char *id)
{
    mba_text_file        f = { 0 };
    const mba_named_text list = { path, id, strlen(id) };
    const char          *first;
    size_t               at = 0, n;
    int                  label;
    MBA_TRY(mba__malnet_next(&first, &n, &label, &list, &at));
    MBA_TRY(mba_text_file_open(&f, path));
    const mba_status st = mba__malnet_add(s, &f.text, label, MBA_SPLIT_TRAIN);
    mba_text_file_close(&f);
    return st;
}

/* The folder of classes: this one, or where the archive unpacks to; NULL: this is no MalNet. */
static const char *malnet_root(char path[MBA_PATH], const char *folder)
{
    static const char *const below[] = { "", "/malnet-graphs-tiny", "/raw/malnet-graphs-tiny" };
    static const char *const classes[] = { "addisplay", "adware", "benign", "downloader", "trojan" };
    for (size_t i = 0; i < sizeof below / sizeof *below; i++)
        for (size_t c = 0; c < sizeof classes / sizeof *classes; c++) {
            mba_listing families = { 0 };
            bool        found = false;
            const int   n = snprintf(path, MBA_PATH, "%s%s/%s", folder, below[i], classes[c]);
            if (n >= MBA_PATH || !mba_is_folder(path) || mba_listing_read(&families, path, NULL) != MBA_OK) continue;
            for (int64_t k = 0; k < families.n && !found; k++)
                found = snprintf(path + n, (size_t)(MBA_PATH - n), "/%s", families.name[k]) < MBA_PATH - n
                        && mba_is_folder(path) && has_one(path, is_edgelist);
            mba_listing_free(&families);
            path[n - (int)strlen(classes[c]) - 1] = 0;
            if (found) return path;
        }
    return NULL;
}

static mba_status inspect_malnet(mba_report *r, const char *root)
{
    mba_graph_store *s = NULL;
    MBA_TRY(mba__malnet_create(&s));
    mba_status st = each_graph(s, root, "", 0, add_graph);
    mba__fact_format(r, "malnet", "MalNet call graphs as edge lists");
    if (st == MBA_OK) st = tell_graphs(r, mba_graph_store_set(s), true);
    mba_graph_store_destroy(s);
    return st;
}

bool mba__inspect_made_graphs(mba_status *st, mba_report *r)
{
    enum { MADE = 500 }; // as many as tell their sizes and degrees well
    mba_graph_store *s = NULL;
    mba_synthetic    kind;
    if (!mba_synthetic_parse(&kind, r->path)) return false;
    *st = mba_graph_synthetic(&s, kind, 1, MADE);
    mba__fact_format(r, "synthetic-graphs", "the first 500 graphs of a generated collection, SYNTHETIC");
    if (*st == MBA_OK) *st = tell_store(r, s, true);
    return true;
}

bool mba__inspect_graph_folder(mba_status *st, mba_report *r)
{
    char        path[MBA_PATH];
    const char *root;
    const bool  ogb = (snprintf(path, MBA_PATH, "%s/raw/num-node-list.csv", r->path) < MBA_PATH && mba_is_file(path))
                     || (snprintf(path, MBA_PATH, "%s/raw/num-node-list.csv.gz", r->path) < MBA_PATH
                         && mba_is_file(path));
    if (mba_is_tu_dataset(r->path)) *st = inspect_tu(r);
    else if (ogb) *st = inspect_ogb(r);
    else if ((root = malnet_root(path, r->path)) != NULL) *st = inspect_malnet(r, root);
    else if (mba_is_pyg(r->path)) *st = mba_pyg_refuse(r->path);
    else return false;
    return true;
}
