// SPDX-License-Identifier: Apache-2.0
/* analysis_extra.c -- see analysis_parts.h: maps kernels to planned launches where a library ran more kernels than the
 * plan has (match.h). New stores contain this mapping; in stores of older versions an event has only its position among
 * the kernels of its node, and this file corrects it. */
#include <stdlib.h>
#include <string.h>

#include "core/lookup.h"
#include "scope/analysis_parts.h"
#include "scope/match.h"

typedef struct entry {
    int64_t               kernel;
    const mba_row_launch *is;
} entry;

struct mba_extras {
    const mba_analysis *a;
    const bool         *more;          /* per node: more kernels than launches */
    int64_t            *first, *count; /* per node: its entries */
    entry              *at;
    int64_t             n, room;
    int64_t             node; /* index of the current node, and its kernels so far */
    int                 nstarted;
    bool                again; /* its first kernel has repeated: small stores merge equal nodes */
    int64_t             kernel[MBA_STARTED_MAX];
    mba_started         now[MBA_STARTED_MAX];
};

static int64_t number_of(const mba_analysis *a, int64_t id)
{
    return mba_store_find(MBA_ROWS_node, a->node, a->nnodes, id);
}

/* Launches of a node are neighbours, in order. */
static void find_launches(const mba_analysis *a, int64_t node, const mba_row_launch **first, const mba_row_launch **end)
{
    mba_assert(node >= 0 && node < a->nnodes);
    const mba_row_launch *l = a->launch, *all = a->launch + a->nlaunches;
    while (l < all && l->node != a->node[node].id) l++;
    *first = l;
    while (l < all && l->node == a->node[node].id) l++;
    *end = l;
}

/* Matches the kernels of the current node with its planned launches and keeps the result. */
static mba_status finish_node(mba_extras *x)
{
    const char           *planned[MBA_STARTED_MAX];
    const mba_row_launch *first, *end;
    int                   place[MBA_STARTED_MAX];
    if (!x->nstarted || x->nstarted == MBA_STARTED_MAX) return MBA_OK; // none, or too many to match
    for (int i = 0; i < x->nstarted; i++)
        for (int j = 0; j < i; j++)
            if (x->kernel[i] == x->kernel[j]) return MBA_OK;
    find_launches(x->a, x->node, &first, &end);
    if (x->nstarted < end - first) return MBA_OK;
    mba_assert(end - first <= MBA_STARTED_MAX);
    for (int i = 0; i < end - first; i++) planned[i] = first[i].kernel;
    mba_match_launches(place, x->now, x->nstarted, planned, (int)(end - first));
    x->first[x->node] = x->n;
    x->count[x->node] = x->nstarted;
    for (int i = 0; i < x->nstarted; i++) {
        entry *more = mba_grow(x->at, x->n, &x->room, sizeof *more);
        if (!more) return mba_fail(MBA_E_NOMEM, "no memory for kernels of libraries");
        x->at = more;
        x->at[x->n++] = (entry){ x->kernel[i], place[i] < 0 ? NULL : &first[place[i]] };
    }
    return MBA_OK;
}

/* Collects the kernels of each node from events sorted by node, step and time; the first step stands for all. */
static mba_status see_started(void *ctx, const void *row)
{
    mba_extras          *x = ctx;
    const mba_row_event *e = row;
    const int64_t        node = number_of(x->a, e->node);
    if (node < 0 || !x->more[node] || e->kernel == MBA_ABSENT || e->step > 0) return MBA_OK;
    if (node != x->node) {
        MBA_TRY(finish_node(x));
        x->node = node;
        x->nstarted = 0;
        x->again = false;
    }
    x->again |= x->nstarted && e->kernel == x->kernel[0];
    if (x->again) return MBA_OK;
    const int64_t k = mba_store_find(MBA_ROWS_kernel, x->a->nkernels ? x->a->kernel[0].row : NULL, x->a->nkernels,
                                     e->kernel);
    if (x->nstarted == MBA_STARTED_MAX) return MBA_OK;
    x->kernel[x->nstarted] = e->kernel;
    x->now[x->nstarted++] = (mba_started){ k < 0 ? NULL : x->a->kernel[k].row->name, e->duration_ns };
    return MBA_OK;
}

mba_status mba__extras_create(mba_extras **out, const mba_analysis *a, const bool *more)
{
    bool any = false;
    *out = NULL;
    for (int64_t i = 0; i < a->nnodes; i++) any |= more[i];
    if (!any) return MBA_OK;
    mba_extras *x = calloc(1, sizeof *x);
    if (!x) return mba_fail(MBA_E_NOMEM, "no memory for kernels of libraries");
    *x = (mba_extras){ .a = a,
                       .more = more,
                       .node = -1,
                       .first = calloc((size_t)a->nnodes + 1, sizeof *x->first),
                       .count = calloc((size_t)a->nnodes + 1, sizeof *x->count) };
    mba_status st = x->first && x->count ? MBA_OK : mba_fail(MBA_E_NOMEM, "no memory for kernels of libraries");
    if (st == MBA_OK) st = mba_store_each(a->store, MBA_ROWS_event, "node, step, start_ns", see_started, x);
    if (st == MBA_OK) st = finish_node(x);
    if (st == MBA_OK) *out = x;
    else mba__extras_destroy(x);
    return st;
}

bool mba__extras_find(const mba_extras *x, int64_t node, int64_t kernel, const mba_row_launch **is)
{
    mba_debug_assert(!x || (node >= 0 && node < x->a->nnodes));
    for (int64_t i = 0; x && i < x->count[node]; i++)
        if (x->at[x->first[node] + i].kernel == kernel) {
            *is = x->at[x->first[node] + i].is;
            return true;
        }
    return false;
}

void mba__extras_destroy(mba_extras *x)
{
    if (!x) return;
    free(x->first);
    free(x->count);
    free(x->at);
    free(x);
}
