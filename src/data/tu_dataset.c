// SPDX-License-Identifier: Apache-2.0
/* tu_dataset.c -- the reader of the text format of TUDataset; see graph_readers.h.
 *
 * Node numbers run through the whole collection, graph after graph, so edges sorted by target are also sorted by
 * graph. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "data/graph_features.h"
#include "data/graph_readers.h"
#include "data/listing.h"

enum { ONE_HOT_MAX = 4096 };
#define FEATURES_MAX ((int64_t)1 << 30) /* values of one kind: 4 GiB */

static const struct {
    const char *ending;
    bool        whole;
    int64_t     columns;
} files[MBA_TU_FILES] = {
    [MBA_TU_EDGES] = { "A", true, 2 },
    [MBA_TU_INDICATOR] = { "graph_indicator", true, 1 },
    [MBA_TU_GRAPH_LABELS] = { "graph_labels", true, 1 },
    [MBA_TU_GRAPH_ATTRIBUTES] = { "graph_attributes", false, 0 },
    [MBA_TU_NODE_LABELS] = { "node_labels", true, 0 },
    [MBA_TU_NODE_ATTRIBUTES] = { "node_attributes", false, 0 },
    [MBA_TU_EDGE_LABELS] = { "edge_labels", true, 0 },
    [MBA_TU_EDGE_ATTRIBUTES] = { "edge_attributes", false, 0 },
};

/* An edge that is kept: target and source as a sort key, and its line. */
typedef struct edge {
    uint64_t key;
    int64_t  line;
} edge;

typedef struct reader {
    const mba_named_text *text;
    mba_number_table      table[MBA_TU_FILES];
    int64_t               nodes, lines, graphs, edges;
    int64_t              *first;     // (graphs + 1): the first node of each graph
    edge                 *edge;      // (edges): sorted, without loops and duplicates
    float                *node_feat; // (nodes, node_width)
    float                *edge_feat; // (edges, edge_width): in the order of `edge`
    void                 *label;     // (graphs, label_width)
    uint32_t             *src, *dst; // (edges)
    mba_graph_form        form;
} reader;

__attribute__((format(printf, 4, 5))) static mba_status refuse(const reader *r, int file, int64_t row, const char *why,
                                                               ...)
{
    char    detail[160];
    va_list args;
    va_start(args, why);
    vsnprintf(detail, sizeof detail, why, args);
    va_end(args);
    return mba_fail(MBA_E_FORMAT,
                    "'%s', line %" PRId64 ", is wrong\nwhy: %s\n"
                    "fix: get the collection again",
                    r->text[file].name, row + 1, detail);
}

static mba_status no_memory(void) { return mba_fail(MBA_E_NOMEM, "no memory to read a collection of graphs"); }

/* ---- tables and their sizes ---- */

static mba_status same_rows(const reader *r, int file, int64_t rows)
{
    if (!r->table[file].value || r->table[file].rows == rows) return MBA_OK;
    return mba_fail(MBA_E_FORMAT,
                    "'%s' has %" PRId64 " lines instead of %" PRId64 "\n"
                    "why: it belongs to another collection, or was truncated\nfix: get the collection again",
                    r->text[file].name, r->table[file].rows, rows);
}

static mba_status read_tables(reader *r)
{
    for (int k = 0; k < MBA_TU_FILES; k++) {
        const bool needed = k == MBA_TU_EDGES || k == MBA_TU_INDICATOR;
        if (!r->text[k].text && !needed) continue;
        if (!r->text[k].text)
            return mba_fail(MBA_E_FORMAT,
                            "there is no '%s'\nwhy: a TUDataset folder has it\n"
                            "fix: get the collection again",
                            r->text[k].name);
        MBA_TRY(
            mba_number_table_read(&r->table[k], &r->text[k],
                                  &(mba_number_table_form){ .columns = files[k].columns,
                                                            .whole = files[k].whole,
                                                            .may_be_empty = k == MBA_TU_EDGES || k == MBA_TU_EDGE_LABELS
                                                                            || k == MBA_TU_EDGE_ATTRIBUTES }));
    }
    const int target = r->table[MBA_TU_GRAPH_ATTRIBUTES].value ? MBA_TU_GRAPH_ATTRIBUTES : MBA_TU_GRAPH_LABELS;
    if (!r->table[target].value)
        return mba_fail(MBA_E_FORMAT,
                        "there is no '%s'\nwhy: a collection needs labels or attributes of its graphs\n"
                        "fix: get the collection again",
                        r->text[MBA_TU_GRAPH_LABELS].name);
    r->graphs = r->table[target].rows;
    r->nodes = r->table[MBA_TU_INDICATOR].rows;
    r->lines = r->table[MBA_TU_EDGES].rows;
    if (r->nodes > INT32_MAX || r->lines > INT32_MAX)
        return mba_fail(MBA_E_UNSUPPORTED, "'%s' is too large\nwhy: 2^31 nodes or edges are too many\nfix: split it",
                        r->text[MBA_TU_INDICATOR].name);
    MBA_TRY(same_rows(r, MBA_TU_GRAPH_LABELS, r->graphs));
    MBA_TRY(same_rows(r, MBA_TU_NODE_LABELS, r->nodes));
    MBA_TRY(same_rows(r, MBA_TU_NODE_ATTRIBUTES, r->nodes));
    MBA_TRY(same_rows(r, MBA_TU_EDGE_LABELS, r->lines));
    return same_rows(r, MBA_TU_EDGE_ATTRIBUTES, r->lines);
}

/* ---- graphs and edges ---- */

static mba_status find_graphs(reader *r)
{
    const double *id = r->table[MBA_TU_INDICATOR].value;
    int64_t       g = 0;
    r->first = calloc((size_t)r->graphs + 1, sizeof *r->first);
    if (!r->first) return no_memory();
    for (int64_t v = 0; v < r->nodes; v++) {
        const int64_t next = (int64_t)id[v];
        if (next < 1 || next > r->graphs)
            return refuse(r, MBA_TU_INDICATOR, v,
                          "the node belongs to graph %" PRId64 ", but there are labels for %" PRId64, next, r->graphs);
        if (next < g)
            return refuse(r, MBA_TU_INDICATOR, v, "the graph number goes down from %" PRId64 " to %" PRId64, g, next);
        if (next > g + 1) return refuse(r, MBA_TU_INDICATOR, v, "graph %" PRId64 " has no nodes", g + 1);
        g = next;
        r->first[g] = v + 1;
    }
    if (g < r->graphs) return refuse(r, MBA_TU_INDICATOR, r->nodes - 1, "graph %" PRId64 " has no nodes", g + 1);
    return MBA_OK;
}

static int compare_edges(const void *a, const void *b)
{
    const edge *x = a, *y = b;
    return x->key != y->key ? (x->key < y->key ? -1 : 1) : (x->line > y->line) - (x->line < y->line);
}

static mba_status find_edges(reader *r)
{
    const double *ab = r->table[MBA_TU_EDGES].value, *id = r->table[MBA_TU_INDICATOR].value;
    const double  n = (double)r->nodes;
    int64_t       kept = 0;
    r->edge = malloc(((size_t)r->lines + 1) * sizeof *r->edge);
    if (!r->edge) return no_memory();
    for (int64_t k = 0; k < r->lines; k++) {
        const double a = ab[2 * k], b = ab[2 * k + 1];
        if (a < 1 || b < 1 || a > n || b > n)
            return refuse(r, MBA_TU_EDGES, k,
                          "the edge %.0f -> %.0f goes to a node that is not there; there are %" PRId64, a, b, r->nodes);
        if (id[(int64_t)a - 1] != id[(int64_t)b - 1])
            return refuse(r, MBA_TU_EDGES, k, "the edge %.0f -> %.0f goes from one graph to another", a, b);
        if (a != b) r->edge[kept++] = (edge){ (uint64_t)(b - 1) << 32 | (uint64_t)(a - 1), k };
    }
    qsort(r->edge, (size_t)kept, sizeof *r->edge, compare_edges);
    for (int64_t k = 0; k < kept; k++)
        if (!r->edges || r->edge[k].key != r->edge[r->edges - 1].key) r->edge[r->edges++] = r->edge[k];
    return MBA_OK;
}

/* Computes the ends of the kept edges as node numbers within their graph. */
static mba_status number_ends(reader *r)
{
    r->src = malloc(((size_t)r->edges + 1) * sizeof *r->src);
    r->dst = malloc(((size_t)r->edges + 1) * sizeof *r->dst);
    if (!r->src || !r->dst) return no_memory();
    for (int64_t g = 0, k = 0; g < r->graphs; g++)
        for (; k < r->edges && (int64_t)(r->edge[k].key >> 32) < r->first[g + 1]; k++) {
            r->src[k] = (uint32_t)((r->edge[k].key & UINT32_MAX) - (uint64_t)r->first[g]);
            r->dst[k] = (uint32_t)((r->edge[k].key >> 32) - (uint64_t)r->first[g]);
        }
    return MBA_OK;
}

/* ---- features ---- */

typedef struct one_hot {
    double  low;
    int64_t width, at;
} one_hot;

/* Measures the one-hot width of each column of labels: the number of values from its smallest to its largest. */
static mba_status measure_labels(one_hot **out, int64_t *width, const reader *r, int file)
{
    const mba_number_table *t = &r->table[file];
    *out = calloc((size_t)t->columns + 1, sizeof **out);
    if (!*out) return no_memory();
    for (int64_t c = 0; c < t->columns; c++) {
        double low = t->value[c], high = low;
        for (int64_t i = 0; i < t->rows; i++) {
            const double x = t->value[i * t->columns + c];
            if (x < low) low = x;
            if (x > high) high = x;
        }
        if (high - low >= ONE_HOT_MAX || *width + (int64_t)(high - low) + 1 > ONE_HOT_MAX)
            return mba_fail(MBA_E_UNSUPPORTED,
                            "the labels in '%s' have too many values\n"
                            "why: they make more than %d one-hot features\nfix: use another collection",
                            r->text[file].name, ONE_HOT_MAX);
        (*out)[c] = (one_hot){ low, (int64_t)(high - low) + 1, *width };
        *width += (*out)[c].width;
    }
    return MBA_OK;
}

static void fill_row(float *to, const mba_number_table *attributes, const mba_number_table *labels, const one_hot *hot,
                     int64_t row)
{
    for (int64_t c = 0; c < attributes->columns; c++) to[c] = (float)attributes->value[row * attributes->columns + c];
    for (int64_t c = 0; c < labels->columns; c++)
        to[hot[c].at + (int64_t)(labels->value[row * labels->columns + c] - hot[c].low)] = 1;
}

/* Builds features: attributes, then one-hot labels, of nodes (in order) or of edges (in the order of r->edge). */
static mba_status make_features(float **out, int64_t *width, mba_graph_type *type, reader *r, bool of_edges)
{
    const int     a = of_edges ? MBA_TU_EDGE_ATTRIBUTES : MBA_TU_NODE_ATTRIBUTES;
    const int     b = of_edges ? MBA_TU_EDGE_LABELS : MBA_TU_NODE_LABELS;
    const int64_t rows = of_edges ? r->edges : r->nodes;
    one_hot      *hot = NULL;
    *width = r->table[a].columns;
    mba_status st = *width <= ONE_HOT_MAX ? MBA_OK : refuse(r, a, 0, "it has %" PRId64 " attributes", *width);
    if (st == MBA_OK && r->table[b].rows) st = measure_labels(&hot, width, r, b);
    if (st == MBA_OK && *width && rows > FEATURES_MAX / *width)
        st = mba_fail(MBA_E_UNSUPPORTED,
                      "the features of '%s' are too large\nwhy: %" PRId64 " rows of %" PRId64 "\n"
                      "fix: use a smaller collection",
                      r->text[b].name, rows, *width);
    if (st == MBA_OK && *width) {
        *type = MBA_GRAPH_F32;
        *out = calloc((size_t)(rows * *width) + 1, sizeof **out);
        if (!*out) st = no_memory();
        for (int64_t i = 0; st == MBA_OK && i < rows; i++)
            fill_row(*out + i * *width, &r->table[a], &r->table[b], hot, of_edges ? r->edge[i].line : i);
    }
    free(hot);
    return st;
}

/* Gives nodes without labels and attributes (IMDB, COLLAB, REDDIT) the local degree profile, as for MalNet. */
static mba_status make_profiles(reader *r)
{
    int64_t k = 0;
    r->form.node_width = MBA_DEGREE_PROFILE;
    r->form.node_type = MBA_GRAPH_F32;
    r->node_feat = calloc((size_t)(r->nodes * MBA_DEGREE_PROFILE), sizeof *r->node_feat);
    if (!r->node_feat) return no_memory();
    for (int64_t g = 0; g < r->graphs; g++) {
        const int64_t begin = r->first[g], end = r->first[g + 1], first = k;
        while (k < r->edges && (int64_t)(r->edge[k].key >> 32) < end) k++;
        MBA_TRY(mba_graph_degree_profile(r->node_feat + begin * MBA_DEGREE_PROFILE, end - begin, k - first,
                                         r->src + first, r->dst + first));
    }
    return MBA_OK;
}

static int compare_numbers(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Maps the distinct classes in ascending order to 0, 1, .. */
static mba_status make_classes(reader *r)
{
    const double *y = r->table[MBA_TU_GRAPH_LABELS].value;
    double       *sorted = malloc((size_t)r->graphs * sizeof *sorted);
    int32_t      *label = malloc((size_t)r->graphs * sizeof *label);
    r->label = label;
    if (!sorted || !label) {
        free(sorted);
        return no_memory();
    }
    memcpy(sorted, y, (size_t)r->graphs * sizeof *sorted);
    qsort(sorted, (size_t)r->graphs, sizeof *sorted, compare_numbers);
    int64_t classes = 0;
    for (int64_t g = 0; g < r->graphs; g++)
        if (!g || sorted[g] != sorted[classes - 1]) sorted[classes++] = sorted[g];
    for (int64_t g = 0; g < r->graphs; g++) {
        const double *at = bsearch(&y[g], sorted, (size_t)classes, sizeof *sorted, compare_numbers);
        label[g] = (int32_t)(at - sorted);
    }
    free(sorted);
    r->form.label_width = 1;
    r->form.label_type = MBA_GRAPH_I32;
    r->form.classes = classes;
    return MBA_OK;
}

static mba_status make_targets(reader *r)
{
    const mba_number_table *t = &r->table[MBA_TU_GRAPH_ATTRIBUTES];
    if (!t->value) return make_classes(r);
    float *label = malloc((size_t)(t->rows * t->columns) * sizeof *label);
    r->label = label;
    if (!label) return no_memory();
    for (int64_t i = 0; i < t->rows * t->columns; i++) label[i] = (float)t->value[i];
    r->form.label_width = t->columns;
    r->form.label_type = MBA_GRAPH_F32;
    return MBA_OK;
}

/* ---- building the store ---- */

static const float *row_of(const float *base, int64_t row, int64_t width) { return base ? base + row * width : NULL; }

static mba_status add_graphs(mba_graph_store *s, reader *r)
{
    int64_t k = 0;
    for (int64_t g = 0; g < r->graphs; g++) {
        const int64_t begin = r->first[g], end = r->first[g + 1], first = k;
        while (k < r->edges && (int64_t)(r->edge[k].key >> 32) < end) k++;
        MBA_TRY(
            mba_graph_store_add(s, &(mba_graph_item){ .nodes = end - begin,
                                                      .edges = k - first,
                                                      .src = r->src + first,
                                                      .dst = r->dst + first,
                                                      .node_feat = row_of(r->node_feat, begin, r->form.node_width),
                                                      .edge_feat = row_of(r->edge_feat, first, r->form.edge_width),
                                                      .label = (const char *)r->label + 4 * g * r->form.label_width }));
    }
    return MBA_OK;
}

static mba_status read_collection(mba_graph_store **s, reader *r)
{
    MBA_TRY(read_tables(r));
    MBA_TRY(find_graphs(r));
    MBA_TRY(find_edges(r));
    MBA_TRY(number_ends(r));
    MBA_TRY(make_features(&r->node_feat, &r->form.node_width, &r->form.node_type, r, false));
    if (!r->form.node_width) MBA_TRY(make_profiles(r));
    MBA_TRY(make_features(&r->edge_feat, &r->form.edge_width, &r->form.edge_type, r, true));
    MBA_TRY(make_targets(r));
    MBA_TRY(mba_graph_store_create(s, &r->form));
    return add_graphs(*s, r);
}

mba_status mba__tu_from_texts(mba_graph_store **out, const mba_named_text text[MBA_TU_FILES])
{
    mba_graph_store *s = NULL;
    reader           r = { .text = text };
    const mba_status st = read_collection(&s, &r);
    for (int k = 0; k < MBA_TU_FILES; k++) mba_number_table_free(&r.table[k]);
    free(r.first);
    free(r.edge);
    free(r.node_feat);
    free(r.edge_feat);
    free(r.label);
    free(r.src);
    free(r.dst);
    if (st == MBA_OK) *out = s;
    else mba_graph_store_destroy(s);
    return st;
}

/* ---- files ---- */

enum { PATH_BYTES = 4096 };
static const char indicator[] = "_graph_indicator.txt";

static bool is_indicator(const char *name)
{
    return strlen(name) >= sizeof indicator && mba_ends_with(name, indicator);
}

/* The last part of a path, without trailing slashes. */
static const char *name_of(const char *folder, int *n)
{
    size_t end = strlen(folder);
    while (end > 1 && folder[end - 1] == '/') end--;
    size_t begin = end;
    while (begin && folder[begin - 1] != '/') begin--;
    *n = (int)(end - begin);
    return folder + begin;
}

/* Finds the beginning FOLDER/DS of the file paths: DS is the name of the folder, or the only collection in it, as in
 * the raw/ of PyTorch Geometric. False: none, or several and none of that name. */
static bool find_collection(char start[PATH_BYTES], const char *folder)
{
    static const char *const below[] = { "", "/raw" };
    int                      n;
    const char              *name = name_of(folder, &n);
    if (snprintf(start, PATH_BYTES, "%s/%.*s%s", folder, n, name, indicator) < PATH_BYTES && mba_is_file(start)) {
        start[strlen(start) - (sizeof indicator - 1)] = 0;
        return true;
    }
    for (int i = 0; i < 2; i++) {
        char        inner[PATH_BYTES];
        mba_listing l = { 0 };
        bool        found = snprintf(inner, sizeof inner, "%s%s", folder, below[i]) < PATH_BYTES && mba_is_folder(inner)
                     && mba_listing_read(&l, inner, is_indicator) == MBA_OK && l.n == 1;
        if (found) {
            const int used = (int)(strlen(l.name[0]) - (sizeof indicator - 1));
            found = snprintf(start, PATH_BYTES, "%s/%.*s", inner, used, l.name[0]) < PATH_BYTES;
        }
        mba_listing_free(&l);
        if (found) return true;
    }
    return false;
}

bool mba_is_tu_dataset(const char *folder)
{
    char start[PATH_BYTES];
    return find_collection(start, folder);
}

mba_status mba_tu_dataset_read(mba_graph_store **out, const char *folder)
{
    mba_text_file  file[MBA_TU_FILES] = { 0 };
    mba_named_text text[MBA_TU_FILES];
    int            n;
    const char    *name = name_of(folder, &n);
    char           start[PATH_BYTES], *path = malloc(MBA_TU_FILES * PATH_BYTES);
    mba_status     st = path ? MBA_OK : no_memory();
    if (!find_collection(start, folder)) snprintf(start, sizeof start, "%s/%.*s", folder, n, name);
    for (int k = 0; st == MBA_OK && k < MBA_TU_FILES; k++) {
        char *p = path + k * PATH_BYTES;
        if (snprintf(p, PATH_BYTES, "%s_%s.txt", start, files[k].ending) >= PATH_BYTES)
            st = mba_fail(MBA_E_ARG, "the path of the collection is too long\nfix: choose a shorter path");
        else if (access(p, F_OK) == 0 || k == MBA_TU_EDGES || k == MBA_TU_INDICATOR)
            st = mba_text_file_open(&file[k], p);
        text[k] = file[k].text;
        text[k].name = p;
    }
    if (st == MBA_OK) st = mba__tu_from_texts(out, text);
    for (int k = 0; k < MBA_TU_FILES; k++) mba_text_file_close(&file[k]);
    free(path);
    return st;
}
