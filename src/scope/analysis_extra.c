/* analysis_extra.c -- which launch of its plan a kernel is, where a library started more kernels than were planned.
 *
 * A store has the place of a kernel among those of its node. That is the place in the plan until a library puts one of its own
 * in front (cuDNN clears a workspace before most gradients of filters): then a kernel of 2 us had the work of a convolution. Our
 * kernels are known by their names; between two of them the longest of the others are what was planned there. */
#include <stdlib.h>
#include <string.h>

#include "core/lookup.h"
#include "scope/analysis_parts.h"

enum { STARTED_MAX = 64 };
typedef struct started { int64_t kernel, duration_ns; const char *name; const mba_row_launch *is; bool taken; } started;
typedef struct entry { int64_t kernel; const mba_row_launch *is; } entry;

struct mba_extras {
    const mba_analysis *a;
    const bool         *more;                      /* per node: more kernels than launches */
    int64_t            *first, *count;             /* per node: its entries */
    entry              *at;
    int64_t             n, room;
    int64_t             node, nstarted;            /* the node under way, by number */
    bool                again;                     /* its first kernel has come once more: small stores have one node for equal ones */
    started             now[STARTED_MAX];
};

static int64_t number_of(const mba_analysis *a, int64_t id)
{
    return mba_store_find(MBA_ROWS_node, a->node, a->nnodes, id);
}

/* Of kernels from .. to, those that launches l .. end (none of ours by name) are: as many as there are, the longest. */
static void share_out(mba_extras *x, int64_t from, int64_t to, const mba_row_launch *l, const mba_row_launch *end)
{
    for (int64_t left = end - l; left > 0 && left < to - from;) {          // too many: the shortest is nobody's
        int64_t shortest = -1, others = 0;
        for (int64_t i = from; i < to; i++) {
            if (x->now[i].taken) continue;
            others++;
            if (shortest < 0 || x->now[i].duration_ns <= x->now[shortest].duration_ns) shortest = i;
        }
        if (others <= left) break;
        x->now[shortest].taken = true;
    }
    for (int64_t i = from; i < to; i++) if (!x->now[i].taken && l < end) x->now[i].is = l++;
}

/* Launches of a node lie side by side, in the order of their places. */
static void find_launches(const mba_analysis *a, int64_t node, const mba_row_launch **first, const mba_row_launch **end)
{
    const mba_row_launch *l = a->launch, *all = a->launch + a->nlaunches;
    while (l < all && l->node != a->node[node].id) l++;
    *first = l;
    while (l < all && l->node == a->node[node].id) l++;
    *end = l;
}

static bool same_name(const started *s, const mba_row_launch *l) { return s->name && l->kernel && !strcmp(s->name, l->kernel); }

static mba_status finish_node(mba_extras *x)
{
    const mba_row_launch *begin, *l, *end, *open;
    int64_t               from = 0;
    if (!x->nstarted || x->nstarted == STARTED_MAX) return MBA_OK;         // none, or too many to tell
    for (int64_t i = 0; i < x->nstarted; i++)
        for (int64_t j = 0; j < i; j++) if (x->now[i].kernel == x->now[j].kernel) return MBA_OK;
    find_launches(x->a, x->node, &begin, &end);
    if (x->nstarted < end - begin) return MBA_OK;
    for (l = open = begin; l < end; l++) {
        int64_t i = from;
        while (i < x->nstarted && !same_name(&x->now[i], l)) i++;
        if (i == x->nstarted) continue;
        share_out(x, from, i, open, l);
        x->now[i].is = l;
        from = i + 1;
        open = l + 1;
    }
    share_out(x, from, x->nstarted, open, end);
    for (int64_t i = 0; i < x->nstarted; i++)              // ours once more, in another shape: equal nodes have one row
        for (l = begin; l < end && !x->now[i].is; l++) if (same_name(&x->now[i], l)) x->now[i].is = l;
    x->first[x->node] = x->n;
    x->count[x->node] = x->nstarted;
    for (int64_t i = 0; i < x->nstarted; i++) {
        entry *more = mba_grow(x->at, x->n, &x->room, sizeof *more);
        if (!more) return mba_fail(MBA_E_NOMEM, "no memory for kernels of libraries");
        x->at = more;
        x->at[x->n++] = (entry){ x->now[i].kernel, x->now[i].is };
    }
    return MBA_OK;
}

/* Events come by node, step and time; the first step says it for all. */
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
    x->again |= x->nstarted && e->kernel == x->now[0].kernel;
    if (x->again) return MBA_OK;
    const int64_t k = mba_store_find(MBA_ROWS_kernel, x->a->nkernels ? x->a->kernel[0].row : NULL, x->a->nkernels, e->kernel);
    if (x->nstarted < STARTED_MAX)
        x->now[x->nstarted++] = (started){ e->kernel, e->duration_ns, k < 0 ? NULL : x->a->kernel[k].row->name, NULL, false };
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
    *x = (mba_extras){ .a = a, .more = more, .node = -1, .first = calloc((size_t)a->nnodes + 1, sizeof *x->first),
                       .count = calloc((size_t)a->nnodes + 1, sizeof *x->count) };
    mba_status st = x->first && x->count ? MBA_OK : mba_fail(MBA_E_NOMEM, "no memory for kernels of libraries");
    if (st == MBA_OK) st = mba_store_each(a->store, MBA_ROWS_event, "node, step, start_ns", see_started, x);
    if (st == MBA_OK) st = finish_node(x);
    if (st == MBA_OK) *out = x;
    else              mba__extras_destroy(x);
    return st;
}

bool mba__extras_find(const mba_extras *x, int64_t node, int64_t kernel, const mba_row_launch **is)
{
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
