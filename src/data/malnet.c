// SPDX-License-Identifier: Apache-2.0
/* malnet.c -- the reader of MalNet call graphs, which are edge lists; see graph_readers.h. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/array.h"
#include "data/graph_features.h"
#include "data/graph_readers.h"

static const char *const classes[] = { "addisplay", "adware", "benign", "downloader", "trojan" };
enum { CLASSES = sizeof classes / sizeof *classes, PATH_BYTES = 4096 };

static mba_status no_memory(const char *name) { return mba_fail(MBA_E_NOMEM, "no memory to read '%s'", name); }

/* ---- one graph ---- */

static int compare_ids(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* Lists the nodes that an edge joins to another node, ascending: *n numbers in `id`. */
static mba_status find_nodes(uint32_t *id, int64_t *n, const mba_number_table *t, const char *name)
{
    int64_t ends = 0, kept = 0;
    for (int64_t k = 0; k < t->rows; k++) {
        const double a = t->value[2 * k], b = t->value[2 * k + 1];
        if (a < 0 || b < 0 || a > UINT32_MAX || b > UINT32_MAX)
            return mba_fail(MBA_E_FORMAT,
                            "'%s' has an impossible edge\nwhy: edge %" PRId64 ", counted from 0, goes "
                            "from %.0f to %.0f\nfix: get the file again",
                            name, k, a, b);
        if (a == b) continue;
        id[ends++] = (uint32_t)a;
        id[ends++] = (uint32_t)b;
    }
    qsort(id, (size_t)ends, sizeof *id, compare_ids);
    for (int64_t i = 0; i < ends; i++)
        if (!kept || id[i] != id[kept - 1]) id[kept++] = id[i];
    *n = kept;
    if (kept) return MBA_OK;
    return mba_fail(MBA_E_FORMAT,
                    "'%s' has no nodes\nwhy: there is no edge between two different nodes\n"
                    "fix: take the graph out of its list",
                    name);
}

static const uint32_t *find_id(const uint32_t *id, int64_t n, double node)
{
    const uint32_t key = (uint32_t)node;
    return bsearch(&key, id, (size_t)n, sizeof *id, compare_ids);
}

/* Renumbers the nodes. Self loops of removed nodes are removed; those of other nodes stay. */
static int64_t renumber(uint32_t *src, uint32_t *dst, const mba_number_table *t, const uint32_t *id, int64_t n)
{
    int64_t kept = 0;
    for (int64_t k = 0; k < t->rows; k++) {
        const uint32_t *a = find_id(id, n, t->value[2 * k]), *b = find_id(id, n, t->value[2 * k + 1]);
        if (!a || !b) continue;
        src[kept] = (uint32_t)(a - id);
        dst[kept++] = (uint32_t)(b - id);
    }
    return kept;
}

static mba_status add_table(mba_graph_store *s, const mba_number_table *t, const char *name, int label,
                            mba_graph_split split)
{
    const size_t  m = (size_t)t->rows;
    uint32_t     *id = malloc((4 * m + 1) * sizeof *id), *src = id + 2 * m, *dst = src + m;
    float        *feat = NULL;
    int64_t       n = 0;
    const int32_t y = label;
    mba_status    st = id ? find_nodes(id, &n, t, name) : no_memory(name);
    if (st == MBA_OK && !(feat = malloc((size_t)n * MBA_DEGREE_PROFILE * sizeof *feat))) st = no_memory(name);
    if (st == MBA_OK) {
        const int64_t e = renumber(src, dst, t, id, n);
        st = mba_graph_degree_profile(feat, n, e, src, dst);
        if (st == MBA_OK)
            st = mba_graph_store_add(
                s,
                &(mba_graph_item){
                    .nodes = n, .edges = e, .src = src, .dst = dst, .node_feat = feat, .label = &y, .split = split });
    }
    free(id);
    free(feat);
    return st;
}

mba_status mba__malnet_create(mba_graph_store **out)
{
    return mba_graph_store_create(out, &(mba_graph_form){ .node_width = MBA_DEGREE_PROFILE,
                                                          .node_type = MBA_GRAPH_F32,
                                                          .label_width = 1,
                                                          .label_type = MBA_GRAPH_I32,
                                                          .classes = CLASSES,
                                                          .has_split = true });
}

mba_status mba__malnet_add(mba_graph_store *s, const mba_named_text *edges, int label, mba_graph_split split)
{
    mba_number_table t;
    MBA_TRY(mba_number_table_read(&t, edges, &(mba_number_table_form){ .columns = 2, .whole = true, .comment = '#' }));
    const mba_status st = add_table(s, &t, edges->name, label, split);
    mba_number_table_free(&t);
    return st;
}

/* ---- lists ---- */

static mba_status refuse_path(const mba_named_text *list, const char *path, size_t n, const char *why)
{
    return mba_fail(MBA_E_FORMAT, "'%s' is not a list of graphs\nwhy: '%s' %s\nfix: get the list again", list->name,
                    mba_quote_bytes(path, n).text, why);
}

/* Checks that a path stays below the folder of graphs, and finds its class. */
static mba_status check_path(int *label, const mba_named_text *list, const char *path, size_t n)
{
    if (n >= PATH_BYTES / 2) return refuse_path(list, path, n, "is too long");
    if (memchr(path, 0, n) || memmem(path, n, "..", 2))
        return refuse_path(list, path, n, "is not a path below a folder");
    for (*label = 0; *label < CLASSES; ++*label) {
        const size_t m = strlen(classes[*label]);
        if (n > m && path[m] == '/' && !memcmp(path, classes[*label], m)) return MBA_OK;
    }
    return refuse_path(list, path, n, "does not begin with a class (addisplay, adware, benign, downloader, trojan)");
}

mba_status mba__malnet_next(const char **path, size_t *n, int *label, const mba_named_text *list, size_t *at)
{
    while (*at < list->bytes) {
        const char *first = list->text + *at, *stop = memchr(first, '\n', list->bytes - *at);
        size_t      m = stop ? (size_t)(stop - first) : list->bytes - *at;
        *at += m + (stop != NULL);
        while (m && (first[m - 1] == '\r' || first[m - 1] == ' ')) m--;
        if (!m) continue;
        *path = first;
        *n = m;
        return check_path(label, list, first, m);
    }
    *n = 0;
    return MBA_OK;
}

static mba_status add_file(mba_graph_store *s, const char *graphs, const char *id, size_t n, int label,
                           mba_graph_split split)
{
    char          path[PATH_BYTES];
    mba_text_file f;
    if (snprintf(path, sizeof path, "%s/%.*s.edgelist", graphs, (int)n, id) >= (int)sizeof path)
        return mba_fail(MBA_E_ARG, "the path of the graphs is too long\nfix: choose a shorter path");
    MBA_TRY(mba_text_file_open(&f, path));
    const mba_status st = mba__malnet_add(s, &f.text, label, split);
    mba_text_file_close(&f);
    return st;
}

static mba_status add_list(mba_graph_store *s, const char *graphs, const char *list, mba_graph_split split)
{
    mba_text_file f;
    size_t        at = 0, n = 1;
    MBA_TRY(mba_text_file_open(&f, list));
    mba_status st = MBA_OK;
    while (st == MBA_OK && n) {
        const char *id = NULL;
        int         label = 0;
        st = mba__malnet_next(&id, &n, &label, &f.text, &at);
        if (st == MBA_OK && n) st = add_file(s, graphs, id, n, label, split);
    }
    mba_text_file_close(&f);
    return st;
}

mba_status mba_malnet_read(mba_graph_store **out, const char *graphs, const char *const list[MBA_SPLITS])
{
    mba_graph_store *s;
    MBA_TRY(mba__malnet_create(&s));
    mba_status st = MBA_OK;
    for (int k = 0; st == MBA_OK && k < MBA_SPLITS; k++) st = add_list(s, graphs, list[k], (mba_graph_split)k);
    if (st == MBA_OK && !mba_graph_store_set(s)->graphs)
        st = mba_fail(MBA_E_FORMAT, "'%s' and the other lists name no graphs\nwhy: they are empty\nfix: get them again",
                      list[0]);
    if (st == MBA_OK) *out = s;
    else mba_graph_store_destroy(s);
    return st;
}
