// SPDX-License-Identifier: Apache-2.0
/* blocks.c -- see blocks.h: reads the records of blocks twice (sums, then percentiles in order of lifetime), and
 * follows operands through a step for reuse. */
#include "scope/blocks.h"

#include <stdlib.h>
#include <string.h>

typedef struct reading {
    const mba_analysis *a;
    mba_blocks_view    *view;
    int64_t            *seen;
    double             *pro, *epi;
} reading;

static int64_t kernel_index(const mba_analysis *a, int64_t id)
{
    return mba_store_find(MBA_ROWS_kernel, a->nkernels ? a->kernel[0].row : NULL, a->nkernels, id);
}

static bool sound(const mba_row_block *b) { return b->start_ns != MBA_ABSENT && b->end_ns >= b->start_ns; }

static mba_status count_block(void *ctx, const void *row)
{
    reading             *r = ctx;
    const mba_row_block *b = row;
    const int64_t        k = kernel_index(r->a, b->kernel);
    if (k < 0 || !sound(b)) return MBA_OK;
    mba_blocks_view *v = &r->view[k];
    const double     life = 1e-9 * ((double)b->end_ns - (double)b->start_ns);
    v->blocks++;
    v->mean_s += life;
    r->pro[k] += b->work_start_ns == MBA_ABSENT ? NAN : 1e-9 * ((double)b->work_start_ns - (double)b->start_ns);
    r->epi[k] += b->work_end_ns == MBA_ABSENT ? NAN : 1e-9 * ((double)b->end_ns - (double)b->work_end_ns);
    return MBA_OK;
}

/* Called in order of lifetime: takes the median and the 95th percentile as they pass. */
static mba_status place_block(void *ctx, const void *row)
{
    reading             *r = ctx;
    const mba_row_block *b = row;
    const int64_t        k = kernel_index(r->a, b->kernel);
    if (k < 0 || !sound(b)) return MBA_OK;
    mba_blocks_view *v = &r->view[k];
    const int64_t    i = r->seen[k]++;
    const double     life = 1e-9 * ((double)b->end_ns - (double)b->start_ns);
    if (i == (v->blocks - 1) / 2) v->median_s = life;
    if (i == v->blocks / 2 && v->blocks % 2 == 0) v->median_s = 0.5 * (v->median_s + life);
    if (i == (int64_t)(0.95 * (double)(v->blocks - 1))) v->p95_s = life;
    return MBA_OK;
}

mba_status mba_blocks_of(const mba_analysis *a, mba_blocks_view **out, int64_t *n)
{
    const size_t room = (size_t)a->nkernels + 1;
    reading      r = { .a = a,
                       .view = calloc(room, sizeof *r.view),
                       .seen = calloc(room, sizeof *r.seen),
                       .pro = calloc(room, sizeof *r.pro),
                       .epi = calloc(room, sizeof *r.epi) };
    *n = 0;
    mba_status st = r.view && r.seen && r.pro && r.epi
                        ? MBA_OK
                        : mba_fail(MBA_E_NOMEM, "no memory for blocks of %zu kernels", room);
    if (st == MBA_OK) st = mba_store_each(a->store, MBA_ROWS_block, NULL, count_block, &r);
    if (st == MBA_OK) st = mba_store_each(a->store, MBA_ROWS_block, "end_ns - start_ns", place_block, &r);
    for (int64_t k = 0; st == MBA_OK && k < a->nkernels; k++) {
        mba_blocks_view v = r.view[k];
        if (!v.blocks) continue;
        v.kernel = k;
        v.prologue = r.pro[k] / v.mean_s;
        v.epilogue = r.epi[k] / v.mean_s;
        v.mean_s /= (double)v.blocks;
        r.view[(*n)++] = v;
    }
    free(r.seen);
    free(r.pro);
    free(r.epi);
    if (st == MBA_OK) *out = r.view;
    else free(r.view);
    return st;
}

/* ---- reuse ---- */

enum { STORAGES_MAX = 1 << 20, PAIRS_MAX = 4096 };
typedef struct touch {
    const char *op;
    double      at;
} touch; /* last operator; bytes touched in total by then */

static void add_pair(mba_reuse *pair, int64_t *n, const char *from, const char *to, double bytes, bool reach)
{
    int64_t i = 0;
    mba_debug_assert(*n >= 0 && *n <= PAIRS_MAX);
    while (i < *n && (strcmp(pair[i].from, from) || strcmp(pair[i].to, to))) i++;
    if (i == PAIRS_MAX) return; // a hostile file
    if (i == *n) pair[(*n)++] = (mba_reuse){ .from = from, .to = to };
    pair[i].reads++;
    pair[i].bytes += bytes;
    if (reach) pair[i].reach_bytes += bytes;
}

static int most_bytes(const void *x, const void *y)
{
    const mba_reuse *a = x, *b = y;
    return (a->bytes < b->bytes) - (a->bytes > b->bytes);
}

static const char *op_of(const mba_analysis *a, int64_t node)
{
    const int64_t i = mba_store_find(MBA_ROWS_node, a->node, a->nnodes, node);
    return i < 0 ? NULL : a->node[i].op ? a->node[i].op : "?";
}

/* Follows the operands of a step in order and counts each read by the last operator that touched its storage. */
static void follow(const mba_analysis *a, const mba_row_operand *o, int64_t rows, double cache_bytes, touch *last,
                   mba_reuse *pair, int64_t *n)
{
    double at = 0;
    for (int64_t i = 0; i < rows; i++) {
        const char *op = op_of(a, o[i].node);
        if (o[i].storage < 0 || o[i].storage >= STORAGES_MAX || !op || !(o[i].bytes >= 0)) continue;
        touch *t = &last[o[i].storage];
        if (!o[i].output && t->op) add_pair(pair, n, t->op, op, o[i].bytes, at - t->at + o[i].bytes <= cache_bytes);
        at += o[i].bytes;
        *t = (touch){ op, at };
    }
}

mba_status mba_reuse_of(const mba_analysis *a, double cache_bytes, mba_reuse **out, int64_t *n)
{
    mba_row_operand *o;
    int64_t          rows;
    *n = 0;
    MBA_TRY(mba_load_operand(a->store, &o, &rows));
    int64_t storages = 0;
    for (int64_t i = 0; i < rows; i++)
        if (o[i].storage >= storages && o[i].storage < STORAGES_MAX) storages = o[i].storage + 1;
    touch     *last = calloc((size_t)storages + 1, sizeof *last);
    mba_reuse *pair = calloc(PAIRS_MAX + 1, sizeof *pair);
    if (!last || !pair) {
        free(last);
        free(pair);
        return mba_fail(MBA_E_NOMEM, "no memory to follow %lld operands", (long long)rows);
    }
    follow(a, o, rows, cache_bytes, last, pair, n);
    free(last);
    if (*n) qsort(pair, (size_t)*n, sizeof *pair, most_bytes);
    *out = pair;
    return MBA_OK;
}
