// SPDX-License-Identifier: Apache-2.0
/* ogb_csv.c -- the reader of OGB graph collections in CSV; see graph_readers.h. */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "data/graph_readers.h"

enum { COLUMNS_MAX = 4096 };

static const struct {
    const char           *name;
    mba_number_table_form form;
    bool                  optional;
} files[MBA_OGB_FILES] = {
    [MBA_OGB_NODE_COUNT] = { "raw/num-node-list.csv", { .columns = 1, .whole = true }, false },
    [MBA_OGB_EDGE_COUNT] = { "raw/num-edge-list.csv", { .columns = 1, .whole = true }, false },
    [MBA_OGB_EDGES] = { "raw/edge.csv", { .columns = 2, .whole = true, .may_be_empty = true }, false },
    [MBA_OGB_LABELS] = { "raw/graph-label.csv", { .missing = true }, false },
    [MBA_OGB_NODE_FEAT] = { "raw/node-feat.csv", { .columns = 0 }, true },
    [MBA_OGB_EDGE_FEAT] = { "raw/edge-feat.csv", { .may_be_empty = true }, true },
    [MBA_OGB_TRAIN] = { "train.csv", { .columns = 1, .whole = true, .may_be_empty = true }, true },
    [MBA_OGB_VALID] = { "valid.csv", { .columns = 1, .whole = true, .may_be_empty = true }, true },
    [MBA_OGB_TEST] = { "test.csv", { .columns = 1, .whole = true, .may_be_empty = true }, true },
};

typedef struct reader {
    const mba_named_text  *text;
    const mba_ogb_options *options;
    mba_number_table       table[MBA_OGB_FILES];
    int64_t                graphs, copies; /* copies: 2 if every edge is followed by its reverse */
    mba_graph_form         form;
    uint8_t               *split;                         // (graphs)
    uint32_t              *src, *dst;                     // (edges of one graph)
    void                  *node_feat, *edge_feat, *label; /* of one graph */
    size_t                 nodes_room, edges_room;
} reader;

static mba_status no_memory(void) { return mba_fail(MBA_E_NOMEM, "no memory to read a collection of graphs"); }

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

/* ---- tables and their sizes ---- */

static mba_status same_rows(const reader *r, int file, int64_t rows)
{
    if (r->table[file].rows == rows) return MBA_OK;
    return mba_fail(MBA_E_FORMAT,
                    "'%s' has %" PRId64 " lines instead of %" PRId64 "\n"
                    "why: it belongs to another collection, or was truncated\nfix: get the collection again",
                    r->text[file].name, r->table[file].rows, rows);
}

static mba_status read_tables(reader *r)
{
    for (int k = 0; k < MBA_OGB_FILES; k++) {
        mba_number_table_form form = files[k].form;
        if (!r->text[k].text && files[k].optional) continue;
        if (!r->text[k].text)
            return mba_fail(MBA_E_FORMAT,
                            "there is no '%s'\nwhy: an OGB collection has it\n"
                            "fix: get the collection again",
                            r->text[k].name);
        MBA_TRY(mba_number_table_read(&r->table[k], &r->text[k], &form));
        if (r->table[k].columns > COLUMNS_MAX)
            return refuse(r, k, 0, "it has %" PRId64 " columns", r->table[k].columns);
    }
    return MBA_OK;
}

/* Sums a list of counts: the numbers of nodes or edges of each graph. */
static mba_status sum_counts(int64_t *sum, const reader *r, int file, int64_t least)
{
    *sum = 0;
    for (int64_t g = 0; g < r->graphs; g++) {
        const double n = r->table[file].value[g];
        if (n < (double)least || n > INT32_MAX / 2)
            return refuse(r, file, g, "graph %" PRId64 " cannot have %.0f %s", g, n,
                          file == MBA_OGB_NODE_COUNT ? "nodes" : "edges");
        *sum += (int64_t)n;
    }
    return MBA_OK;
}

static mba_status check_sizes(reader *r)
{
    int64_t nodes, edges;
    r->graphs = r->table[MBA_OGB_NODE_COUNT].rows;
    MBA_TRY(same_rows(r, MBA_OGB_EDGE_COUNT, r->graphs));
    MBA_TRY(same_rows(r, MBA_OGB_LABELS, r->graphs));
    MBA_TRY(sum_counts(&nodes, r, MBA_OGB_NODE_COUNT, 1));
    MBA_TRY(sum_counts(&edges, r, MBA_OGB_EDGE_COUNT, 0));
    MBA_TRY(same_rows(r, MBA_OGB_EDGES, edges));
    if (r->text[MBA_OGB_NODE_FEAT].text) MBA_TRY(same_rows(r, MBA_OGB_NODE_FEAT, nodes));
    if (r->text[MBA_OGB_EDGE_FEAT].text) MBA_TRY(same_rows(r, MBA_OGB_EDGE_FEAT, edges));
    return MBA_OK;
}

static bool fits_i32(const mba_number_table *t)
{
    bool fits = t->whole;
    for (int64_t i = 0; fits && i < t->rows * t->columns; i++) fits = fabs(t->value[i]) <= INT32_MAX;
    return fits;
}

static void choose(int64_t *width, mba_graph_type *type, const mba_number_table *t)
{
    *width = t->columns;
    *type = !t->columns ? MBA_GRAPH_NONE : fits_i32(t) ? MBA_GRAPH_I32 : MBA_GRAPH_F32;
}

/* The number of classes; 0: the labels are not classes. */
static int64_t classes_by_value(const mba_number_table *t)
{
    double most = 0;
    for (int64_t i = 0; i < t->rows * t->columns; i++) {
        const double y = t->value[i];
        if (isnan(y) && t->columns > 1) continue;
        if (!(y >= 0 && y < MBA_OGB_CLASSES_MAX) || y != floor(y)) return 0;
        if (y > most) most = y;
    }
    if (t->columns > 1) return most <= 1 ? 2 : 0;
    return most < 1 ? 2 : (int64_t)most + 1;
}

static void choose_form(reader *r)
{
    mba_graph_form *f = &r->form;
    const int64_t   asked = r->options->classes;
    const int64_t   classes = asked == MBA_OGB_BY_VALUE ? classes_by_value(&r->table[MBA_OGB_LABELS]) : asked;
    choose(&f->node_width, &f->node_type, &r->table[MBA_OGB_NODE_FEAT]);
    choose(&f->edge_width, &f->edge_type, &r->table[MBA_OGB_EDGE_FEAT]);
    choose(&f->label_width, &f->label_type, &r->table[MBA_OGB_LABELS]);
    if (!classes || f->label_width > 1) f->label_type = MBA_GRAPH_F32;
    f->classes = classes;
    f->has_split = r->split != NULL;
    r->copies = r->options->directed ? 1 : 2;
}

/* ---- splits ---- */

static mba_status read_split(reader *r)
{
    enum { NOWHERE = 255 };
    if (!r->text[MBA_OGB_TRAIN].text && !r->text[MBA_OGB_VALID].text && !r->text[MBA_OGB_TEST].text) return MBA_OK;
    r->split = malloc((size_t)r->graphs);
    if (!r->split) return no_memory();
    memset(r->split, NOWHERE, (size_t)r->graphs);
    for (int k = 0; k < MBA_SPLITS; k++) {
        const int               file = MBA_OGB_TRAIN + k;
        const mba_number_table *t = &r->table[file];
        for (int64_t i = 0; i < t->rows; i++) {
            const double g = t->value[i];
            if (g < 0 || g >= (double)r->graphs)
                return refuse(r, file, i, "there is no graph %.0f of %" PRId64 ", counted from 0", g, r->graphs);
            if (r->split[(int64_t)g] != NOWHERE) return refuse(r, file, i, "graph %.0f is in the split twice", g);
            r->split[(int64_t)g] = (uint8_t)k;
        }
    }
    for (int64_t g = 0; g < r->graphs; g++)
        if (r->split[g] == NOWHERE)
            return refuse(r, MBA_OGB_TRAIN, 0, "graph %" PRId64 " is in no part of the split", g);
    return MBA_OK;
}

/* ---- one graph at a time ---- */

/* Copies rows, each `copies` times, and converts them to the type. */
static void copy_rows(void *to, const mba_number_table *t, mba_graph_type type, int64_t first, int64_t rows,
                      int64_t copies)
{
    for (int64_t i = 0; i < rows * copies; i++)
        for (int64_t c = 0; c < t->columns; c++) {
            const double x = t->value[(first + i / copies) * t->columns + c];
            if (type == MBA_GRAPH_I32) ((int32_t *)to)[i * t->columns + c] = (int32_t)x;
            else ((float *)to)[i * t->columns + c] = (float)x;
        }
}

static mba_status widen(void **p, size_t room, int64_t width)
{
    if (!width) return MBA_OK;
    void *wider = realloc(*p, room * (size_t)width * 4);
    if (!wider) return no_memory();
    *p = wider;
    return MBA_OK;
}

static mba_status reserve(reader *r, size_t nodes, size_t edges)
{
    if (nodes > r->nodes_room) {
        MBA_TRY(widen(&r->node_feat, nodes, r->form.node_width));
        r->nodes_room = nodes;
    }
    if (edges > r->edges_room) {
        void      *src = r->src, *dst = r->dst;
        mba_status st = widen(&src, edges, 1);
        r->src = src;
        if (st == MBA_OK) st = widen(&dst, edges, 1);
        r->dst = dst;
        MBA_TRY(st);
        MBA_TRY(widen(&r->edge_feat, edges, r->form.edge_width));
        r->edges_room = edges;
    }
    return MBA_OK;
}

static mba_status copy_edges(reader *r, int64_t first, int64_t edges, int64_t nodes)
{
    const mba_number_table *t = &r->table[MBA_OGB_EDGES];
    for (int64_t k = 0; k < edges; k++) {
        const double a = t->value[2 * (first + k)], b = t->value[2 * (first + k) + 1];
        if (a < 0 || b < 0 || a >= (double)nodes || b >= (double)nodes)
            return refuse(r, MBA_OGB_EDGES, first + k,
                          "the edge %.0f -> %.0f goes to a node that is not there; its "
                          "graph has %" PRId64 ", counted from 0",
                          a, b, nodes);
        for (int64_t c = 0; c < r->copies; c++) {
            r->src[k * r->copies + c] = (uint32_t)(c ? b : a);
            r->dst[k * r->copies + c] = (uint32_t)(c ? a : b);
        }
    }
    return MBA_OK;
}

static mba_status add_graphs(mba_graph_store *s, reader *r)
{
    const mba_graph_form *f = &r->form;
    int64_t               node = 0, edge = 0;
    MBA_TRY(widen(&r->label, 1, f->label_width));
    for (int64_t g = 0; g < r->graphs; g++) {
        const int64_t n = (int64_t)r->table[MBA_OGB_NODE_COUNT].value[g];
        const int64_t e = (int64_t)r->table[MBA_OGB_EDGE_COUNT].value[g];
        MBA_TRY(reserve(r, (size_t)n, (size_t)(e * r->copies)));
        MBA_TRY(copy_edges(r, edge, e, n));
        if (f->node_width) copy_rows(r->node_feat, &r->table[MBA_OGB_NODE_FEAT], f->node_type, node, n, 1);
        if (f->edge_width) copy_rows(r->edge_feat, &r->table[MBA_OGB_EDGE_FEAT], f->edge_type, edge, e, r->copies);
        copy_rows(r->label, &r->table[MBA_OGB_LABELS], f->label_type, g, 1, 1);
        MBA_TRY(mba_graph_store_add(s, &(mba_graph_item){ .nodes = n,
                                                          .edges = e * r->copies,
                                                          .src = r->src,
                                                          .dst = r->dst,
                                                          .node_feat = r->node_feat,
                                                          .edge_feat = r->edge_feat,
                                                          .label = r->label,
                                                          .split = r->split ? (mba_graph_split)r->split[g]
                                                                            : MBA_SPLIT_TRAIN }));
        node += n;
        edge += e;
    }
    return MBA_OK;
}

static mba_status read_collection(mba_graph_store **s, reader *r)
{
    MBA_TRY(read_tables(r));
    MBA_TRY(check_sizes(r));
    MBA_TRY(read_split(r));
    choose_form(r);
    MBA_TRY(mba_graph_store_create(s, &r->form));
    return add_graphs(*s, r);
}

mba_status mba__ogb_from_texts(mba_graph_store **out, const mba_named_text text[MBA_OGB_FILES],
                               const mba_ogb_options *options)
{
    mba_graph_store *s = NULL;
    reader           r = { .text = text, .options = options };
    const mba_status st = read_collection(&s, &r);
    for (int k = 0; k < MBA_OGB_FILES; k++) mba_number_table_free(&r.table[k]);
    free(r.split);
    free(r.src);
    free(r.dst);
    free(r.node_feat);
    free(r.edge_feat);
    free(r.label);
    if (st == MBA_OK) *out = s;
    else mba_graph_store_destroy(s);
    return st;
}

/* ---- files ---- */

/* The path of a file: the plain one if it exists, else the compressed one; *there: one of them exists. */
static mba_status find_file(char *path, size_t room, bool *there, const char *folder, const char *scheme, int file)
{
    const bool split = file >= MBA_OGB_TRAIN;
    *there = false;
    if (split && !scheme) return MBA_OK;
    const int n = snprintf(path, room, "%s/%s%s%s%s", folder, split ? "split/" : "", split ? scheme : "",
                           split ? "/" : "", files[file].name);
    if (n < 0 || (size_t)n + 4 > room)
        return mba_fail(MBA_E_ARG, "the path of the collection is too long\nfix: choose a shorter path");
    *there = access(path, F_OK) == 0;
    if (*there) return MBA_OK;
    memcpy(path + n, ".gz", 4);
    *there = access(path, F_OK) == 0;
    if (!*there) path[n] = 0;
    return MBA_OK;
}

mba_status mba_ogb_csv_read(mba_graph_store **out, const char *folder, const mba_ogb_options *options)
{
    enum { PATH_BYTES = 4096 };
    mba_text_file  file[MBA_OGB_FILES] = { 0 };
    mba_named_text text[MBA_OGB_FILES] = { 0 };
    char          *path = calloc(MBA_OGB_FILES, PATH_BYTES);
    mba_status     st = path ? MBA_OK : no_memory();
    for (int k = 0; st == MBA_OK && k < MBA_OGB_FILES; k++) {
        char *p = path + k * PATH_BYTES;
        bool  there;
        st = find_file(p, PATH_BYTES, &there, folder, options->scheme, k);
        // A requested split must exist: opening the missing file reports it.
        if (st == MBA_OK && (there || (!files[k].optional || (k >= MBA_OGB_TRAIN && options->scheme))))
            st = mba_text_file_open(&file[k], p);
        text[k] = file[k].text;
        text[k].name = p;
    }
    if (st == MBA_OK) st = mba__ogb_from_texts(out, text, options);
    for (int k = 0; k < MBA_OGB_FILES; k++) mba_text_file_close(&file[k]);
    free(path);
    return st;
}
