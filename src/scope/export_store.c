// SPDX-License-Identifier: Apache-2.0
/* export_store.c -- see export.h: makes a smaller store from a large one, for tests: fewer steps, equal nodes merged,
 * detail tables left out.
 *
 * The layers of a model are alike. Nodes with the same operator, phase, variant, shape and work are replaced by the
 * first of them, with its launches; the events of all layers stay and refer to it. A metric that several counter sets
 * have is kept once, from the first set by name, as the analysis reads it; the set and the unit, which is in the name,
 * are left out. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/file.h"
#include "scope/export.h"

typedef struct copying {
    mba_store            *to;
    mba_store_rows        table;
    int64_t               steps;
    const mba_row_node   *node;
    int64_t               nnodes;
    const mba_row_launch *launch;
    int64_t               nlaunches;
    int64_t              *first_node, *first_launch; /* per row: index of the row that replaces it; -1: none */
    int64_t               kernel;                    /* kernel and metric of the last counter that was kept */
    char                  metric[256];
} copying;

static bool same_text(const char *a, const char *b) { return !a == !b && (!a || !strcmp(a, b)); }
static bool same_number(double a, double b) { return a == b || (a != a && b != b); }

static bool alike(const mba_row_node *a, const mba_row_node *b)
{
    return same_text(a->op, b->op) && same_text(a->phase, b->phase) && same_text(a->variant, b->variant)
           && same_text(a->shape, b->shape) && same_number(a->tensor_flops, b->tensor_flops)
           && same_number(a->read_bytes, b->read_bytes) && same_number(a->write_bytes, b->write_bytes)
           && same_number(a->filled, b->filled);
}

static int64_t node_at(const copying *c, int64_t id) { return mba_store_find(MBA_ROWS_node, c->node, c->nnodes, id); }

/* The launch that replaces this one: the same launch of the node that replaces its node. */
static int64_t representative_launch(const copying *c, const mba_row_launch *l)
{
    const int64_t at = node_at(c, l->node);
    if (at < 0) return -1;
    for (int64_t i = 0; i < c->nlaunches; i++)
        if (c->launch[i].node == c->node[c->first_node[at]].id && c->launch[i].place == l->place) return i;
    return -1;
}

static mba_status find_representatives(copying *c, mba_store *from)
{
    mba_row_node   *n;
    mba_row_launch *l;
    MBA_TRY(mba_load_node(from, &n, &c->nnodes));
    MBA_TRY(mba_load_launch(from, &l, &c->nlaunches));
    c->node = n;
    c->launch = l;
    c->first_node = calloc((size_t)c->nnodes + 1, sizeof *c->first_node);
    c->first_launch = calloc((size_t)c->nlaunches + 1, sizeof *c->first_launch);
    if (!c->first_node || !c->first_launch) return mba_fail(MBA_E_NOMEM, "no memory for a smaller store");
    for (int64_t i = 0; i < c->nnodes; i++) {
        int64_t k = 0;
        while (k < i && !(c->first_node[k] == k && alike(&n[k], &n[i]))) k++;
        mba_assert(k <= i);
        c->first_node[i] = k;
    }
    for (int64_t i = 0; i < c->nlaunches; i++) c->first_launch[i] = representative_launch(c, &l[i]);
    return MBA_OK;
}

/* ---- rows ---- */

static int64_t representative_node(const copying *c, int64_t id)
{
    const int64_t at = id == MBA_ABSENT ? -1 : node_at(c, id);
    return at < 0 ? id : c->node[c->first_node[at]].id;
}

static mba_status copy_node(const copying *c, mba_row_node n)
{
    const int64_t at = node_at(c, n.id);
    if (at < 0 || c->first_node[at] != at) return MBA_OK;
    n.serves = representative_node(c, n.serves);
    return mba_store_put(c->to, MBA_ROWS_node, &n);
}

static mba_status copy_launch(const copying *c, const mba_row_launch *l)
{
    const int64_t at = mba_store_find(MBA_ROWS_launch, c->launch, c->nlaunches, l->id);
    return at < 0 || c->first_launch[at] != at ? MBA_OK : mba_store_put(c->to, MBA_ROWS_launch, l);
}

static mba_status copy_event(const copying *c, mba_row_event e)
{
    if (e.step >= c->steps) return MBA_OK;
    e.node = representative_node(c, e.node);
    if (e.launch != MBA_ABSENT) {
        const int64_t at = mba_store_find(MBA_ROWS_launch, c->launch, c->nlaunches, e.launch);
        const int64_t first = at < 0 ? -1 : c->first_launch[at];
        e.launch = first < 0 ? MBA_ABSENT : c->launch[first].id;
    }
    e.phase = NULL; // its node or kernel has it
    return mba_store_put(c->to, MBA_ROWS_event, &e);
}

/* False for metrics that neither the analysis nor advice (src/study/advice.c) reads. */
static bool is_read(const char *metric)
{
    static const char *const unread[] = { "op_dfma",
                                          "op_dadd",
                                          "op_dmul",
                                          "pipe_uniform",
                                          "pipe_tma",
                                          "warps_eligible",
                                          "warps_launched",
                                          "sectors_op_",
                                          "average_cta_latency",
                                          "l1tex__t_sectors.sum",
                                          "smsp__inst_executed.sum",
                                          "pipe_lsu.avg" };
    for (size_t i = 0; metric && i < sizeof unread / sizeof *unread; i++)
        if (strstr(metric, unread[i])) return false;
    return true;
}

static mba_status copy_counter(copying *c, mba_row_counter r)
{
    const bool stall = r.metric && strstr(r.metric, "issue_stalled_");
    if (r.metric_set && !strcmp(r.metric_set, "signature")) return MBA_OK; // only for the simulator
    if ((stall && !(r.value > 0)) || !is_read(r.metric)) return MBA_OK;    // parts of all stalls stay as they are
    if (c->kernel == r.kernel && r.metric && !strcmp(c->metric, r.metric)) return MBA_OK;
    c->kernel = r.kernel;
    snprintf(c->metric, sizeof c->metric, "%s", r.metric ? r.metric : "");
    r.unit = r.metric_set = NULL;
    return mba_store_put(c->to, MBA_ROWS_counter, &r);
}

/* Removes the folders of the machine from the command line. */
static mba_status copy_sheet(const copying *c, mba_row_sheet r)
{
    char   text[4096];
    size_t n = 0;
    if (!r.key || strcmp(r.key, "run.command") || !r.text) return mba_store_put(c->to, MBA_ROWS_sheet, &r);
    for (const char *word = r.text; *word && n + 1 < sizeof text;) {
        const size_t length = strcspn(word, " ");
        const char  *from = word;
        for (size_t i = 0; *word == '/' && i < length; i++)
            if (word[i] == '/') from = word + i + 1;
        for (; from < word + length && n + 2 < sizeof text; from++) text[n++] = *from;
        word += length;
        if (*word) text[n++] = *word++;
    }
    text[n] = 0;
    r.text = text;
    return mba_store_put(c->to, MBA_ROWS_sheet, &r);
}

/* Truncates the symbol: names of templates have kilobytes. */
static mba_status copy_kernel(const copying *c, mba_row_kernel k)
{
    char text[64];
    snprintf(text, sizeof text, "%s", k.symbol ? k.symbol : "");
    if (k.symbol) k.symbol = text;
    return mba_store_put(c->to, MBA_ROWS_kernel, &k);
}

static mba_status copy_row(void *ctx, const void *row)
{
    copying *c = ctx;
    switch (c->table) {
    case MBA_ROWS_sheet: return copy_sheet(c, *(const mba_row_sheet *)row);
    case MBA_ROWS_node: return copy_node(c, *(const mba_row_node *)row);
    case MBA_ROWS_kernel: return copy_kernel(c, *(const mba_row_kernel *)row);
    case MBA_ROWS_launch: return copy_launch(c, row);
    case MBA_ROWS_event: return copy_event(c, *(const mba_row_event *)row);
    case MBA_ROWS_counter: return copy_counter(c, *(const mba_row_counter *)row);
    default: return mba_store_put(c->to, c->table, row);
    }
}

static mba_status copy_all(copying *c, mba_store *from)
{
    MBA_TRY(find_representatives(c, from));
    for (int t = 0; t < MBA_ROWS_COUNT; t++) {
        c->table = (mba_store_rows)t;
        const char *order = t == MBA_ROWS_counter ? "kernel, metric, metric_set" : NULL;
        if (t != MBA_ROWS_operand && t != MBA_ROWS_block && t != MBA_ROWS_instruction)
            MBA_TRY(mba_store_each(from, c->table, order, copy_row, c));
    }
    return MBA_OK;
}

/* Compares the files themselves: names may differ (./run.db, a link). */
static bool is_same_file(const char *a, const char *b)
{
    struct stat x, y;
    return !stat(a, &x) && !stat(b, &y) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

mba_status mba_export_store(mba_store *from, const char *path, int64_t steps)
{
    copying c = { .steps = steps, .kernel = MBA_ABSENT };
    if (is_same_file(path, mba_store_path(from)))
        return mba_fail(MBA_E_ARG, "'%s' cannot be its own copy\nfix: name another file", path);
    char fresh[4096]; // renamed when complete, so no reader sees a partial store
    if (snprintf(fresh, sizeof fresh, "%s.unfinished", path) >= (int)sizeof fresh)
        return mba_fail(MBA_E_ARG, "the name of the store is too long\nfix: choose a shorter --store");
    MBA_TRY(mba_store_may_replace(path));
    MBA_TRY(mba_store_create(&c.to, fresh));
    mba_status       st = copy_all(&c, from);
    const mba_status closed = mba_store_close(c.to);
    free(c.first_node);
    free(c.first_launch);
    if (st == MBA_OK) st = closed;
    if (st == MBA_OK && rename(fresh, path))
        st = mba_fail(MBA_E_IO, "cannot rename the store to '%s'\nwhy: %s\nfix: choose another --store", path,
                      strerror(errno));
    if (st == MBA_OK) return mba_name_sync(path);
    unlink(fresh);
    return st;
}
