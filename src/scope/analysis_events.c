// SPDX-License-Identifier: Apache-2.0
/* analysis_events.c -- see analysis_parts.h: reads the timeline of a store four times, in bounded memory: the number of
 * steps, then sums, medians and gaps. mba_timeline_of gives the events of one step. */
#include <stdlib.h>
#include <string.h>

#include "core/lookup.h"
#include "scope/analysis_parts.h"

enum { OPS_MAX = 4096, STREAMS_MAX = 64 };

typedef struct reading {
    mba_analysis *a;
    int64_t       steps;                    /* 1 + the highest seen */
    int64_t       recorded;                 /* events of captured graphs */
    int64_t      *launches_of, *kernels_of; /* per node: launches of its plan; kernels in the whole timeline */
    bool         *more;                     /* per node: more kernels in a step than launches */
    mba_extras   *extras;
    int64_t       works[STREAMS_MAX]; /* streams that run kernels; if the table is full, every stream counts as one */
    int           nworks;
    int64_t       at, kernel;        /* medians: index among the launches of one kernel */
    int64_t       stream, step, end; /* gaps */
    double        gaps, seen;
} reading;

static mba_kernel_view *kernel_of(const mba_analysis *a, const mba_row_event *e)
{
    const int64_t k = mba_store_find(MBA_ROWS_kernel, a->nkernels ? a->kernel[0].row : NULL, a->nkernels, e->kernel);
    return k < 0 ? NULL : &a->kernel[k];
}

static const mba_row_node *node_of(const mba_analysis *a, int64_t id)
{
    const int64_t k = mba_store_find(MBA_ROWS_node, a->node, a->nnodes, id);
    return k < 0 ? NULL : &a->node[k];
}

static const mba_row_launch *launch_of(const mba_analysis *a, int64_t id)
{
    const int64_t k = mba_store_find(MBA_ROWS_launch, a->launch, a->nlaunches, id);
    return k < 0 ? NULL : &a->launch[k];
}

static int phase_of(const mba_row_event *e, const mba_row_node *n, const mba_kernel_view *k)
{
    const char *name = e->phase ? e->phase : n && n->phase ? n->phase : k ? k->row->phase : NULL;
    for (int p = 0; name && p < MBA_PHASES - 1; p++)
        if (!strcmp(name, mba_phase_name(p))) return p;
    return MBA_PHASES - 1;
}

/* An event without a step belongs to the first. */
static int64_t step_of(const mba_row_event *e) { return e->step < 0 ? 0 : e->step; }

/* If steps were found in an external program, events outside of them do not count. */
static bool is_outside(const mba_analysis *a, const mba_row_event *e)
{
    return a->steps_found && e->step == MBA_ABSENT;
}

static mba_status sound(const mba_analysis *a, const mba_row_event *e)
{
    const bool absent = e->start_ns == MBA_ABSENT || e->duration_ns == MBA_ABSENT;
    if (!absent && e->duration_ns >= 0 && e->duration_ns < INT64_MAX / 4 && e->start_ns > INT64_MIN / 4
        && e->start_ns < INT64_MAX / 4 && step_of(e) < MBA_STEPS_MAX)
        return MBA_OK;
    return mba_fail(MBA_E_FORMAT,
                    "'%s' is not a valid store\nwhy: an event has no time, a time below 0, or a step above %d\n"
                    "fix: record it again with `mambascope profile`",
                    mba_store_path(a->store), MBA_STEPS_MAX - 1);
}

/* ---- first reading: the number of steps ---- */

static bool has_kernels(const reading *r, int64_t stream)
{
    for (int i = 0; i < r->nworks; i++)
        if (r->works[i] == stream) return true;
    return r->nworks == STREAMS_MAX;
}

/* A copy on a stream without kernels, such as that of the next batch. It overlaps with kernels and is not part of the
 * step's time. */
static bool is_beside(const reading *r, const mba_row_event *e)
{
    return e->kernel == MBA_ABSENT && e->what && !strcmp(e->what, "copy") && r->nworks && !has_kernels(r, e->stream);
}

static mba_status see_step(void *ctx, const void *row)
{
    reading             *r = ctx;
    const mba_row_event *e = row;
    const mba_row_node  *n = node_of(r->a, e->node);
    MBA_TRY(sound(r->a, e));
    if (is_outside(r->a, e)) return MBA_OK;
    if (n && e->kernel != MBA_ABSENT) r->kernels_of[n - r->a->node]++;
    if (e->kernel != MBA_ABSENT && !has_kernels(r, e->stream)) r->works[r->nworks++] = e->stream;
    if (e->graph_node != MBA_ABSENT) r->recorded++;
    if (step_of(e) >= r->steps) r->steps = step_of(e) + 1;
    return MBA_OK;
}

/* ---- second reading: sums ---- */

static mba_work_counts times(mba_work_counts w, double part)
{
    return (mba_work_counts){ part * w.tensor_flops, part * w.vector_flops, part * w.special_ops, part * w.bytes };
}

/* The least work of an event by its plan: that of the node if the plan has one launch, else that of the launch; of a
 * ragged batch, the filled part. A library may run more kernels than the plan has launches; those that match none have
 * no work (analysis_extra.c; if it cannot tell, the first kernels have it). */
static mba_work_counts least_of(const reading *r, const mba_row_event *e, const mba_row_node *n)
{
    const mba_row_launch *l = launch_of(r->a, e->launch);
    const mba_work_counts unknown = { NAN, NAN, NAN, NAN }, none = { 0, 0, 0, 0 };
    if (!n || e->kernel == MBA_ABSENT) return unknown;
    mba_debug_assert(n >= r->a->node && n - r->a->node < r->a->nnodes);
    const int64_t planned = r->launches_of[n - r->a->node];
    const double  part = isnan(n->filled) ? 1 : n->filled;
    mba__extras_find(r->extras, n - r->a->node, e->kernel, &l);
    if (!l && r->more[n - r->a->node]) return none;
    if (planned <= 1)
        return times((mba_work_counts){ n->tensor_flops, n->vector_flops, n->special_ops,
                                        n->read_bytes + n->write_bytes },
                     part);
    if (!l) return unknown;
    const double bytes = isnan(l->least_bytes) ? l->load_bytes + l->store_bytes : l->least_bytes;
    return times((mba_work_counts){ l->tensor_flops, 2 * l->fma_ops + 4 * l->half2_ops, l->special_ops, bytes }, part);
}

static void at_most(double *least, double counted)
{
    if (counted < *least) *least = counted;
}

/* Limits the planned work to the executed work. Plans count integer operations and conversions as work of the FMA
 * lanes, and work that a kernel may skip because of its data. A matrix product without tensor instructions ran on the
 * FMA lanes. Bytes stay: L2 may have served what DRAM did not. */
static mba_work_counts no_more_than_counted(mba_work_counts w, const mba_kernel_view *k)
{
    if (!k) return w;
    const mba_counted *c = &k->counted;
    if (c->tensor_flops <= 0 && w.tensor_flops > 0) w.vector_flops += w.tensor_flops;
    at_most(&w.tensor_flops, c->tensor_flops);
    at_most(&w.vector_flops, c->lane_flops);
    at_most(&w.special_ops, c->special_ops);
    return w;
}

static mba_operator_view *operator_of(reading *r, const char *op, int kind, int phase)
{
    mba_analysis *a = r->a;
    for (int i = 0; i < a->nops; i++)
        if (a->op[i]->phase == phase && a->op[i]->kind == kind && !strcmp(a->op[i]->op, op)) return a->op[i];
    if (a->nops == OPS_MAX) return a->op[OPS_MAX - 1]; // a hostile file; the last entry takes the rest
    mba_operator_view *o = calloc(1, sizeof *o + (size_t)r->steps * sizeof(double));
    if (!o) return NULL;
    o->op = op, o->kind = kind, o->phase = phase;
    a->op[a->nops++] = o;
    return o;
}

static const char *operator_name(const mba_row_event *e, const mba_row_node *n, const mba_kernel_view *k)
{
    if (n && n->op) return n->op;
    if (k) return k->row->op ? k->row->op : k->row->name ? k->row->name : "unknown";
    return e->what && !strcmp(e->what, "memset") ? "memset" : "copy";
}

static mba_status see_time(void *ctx, const void *row)
{
    reading              *r = ctx;
    mba_analysis         *a = r->a;
    const mba_row_event  *e = row;
    const mba_row_node   *n = node_of(a, e->node);
    mba_kernel_view      *k = kernel_of(a, e);
    const mba_work_counts least = no_more_than_counted(least_of(r, e, n), k);
    const int             kind = k ? k->kind : MBA_MEMORY, phase = phase_of(e, n, k);
    const double          s = 1e-9 * (double)e->duration_ns;
    double                by[MBA_FLOORS];
    mba_floor             bound;
    if (is_outside(a, e)) return MBA_OK;
    if (step_of(e) >= r->steps) return MBA_OK; // added since the first reading, by a profile that still runs
    mba_debug_assert(kind >= 0 && kind < MBA_BREAKDOWN_KINDS && phase >= 0 && phase < MBA_PHASES);
    const double       floor_s = mba__floors(a, &least, by, &bound);
    const bool         beside = is_beside(r, e);
    mba_operator_view *o = operator_of(r, beside ? "copy beside the step" : operator_name(e, n, k), kind, phase);
    if (!o) return mba_fail(MBA_E_NOMEM, "no memory for operators");
    o->events++;
    o->step_s[step_of(e)] += s;
    o->least_s += floor_s;
    if (beside) return MBA_OK;
    a->time_s[kind][phase] += s;
    a->launches[kind][phase]++;
    a->floor_s[kind][phase] += floor_s;
    a->busy_s += s;
    if (!k) return MBA_OK;
    k->launches++;
    k->step_s += s;
    k->least.tensor_flops += least.tensor_flops;
    k->least.vector_flops += least.vector_flops;
    k->least.special_ops += least.special_ops;
    k->least.bytes += least.bytes;
    return MBA_OK;
}

static int longest_first(const void *x, const void *y)
{
    const mba_operator_view *a = *(mba_operator_view *const *)x, *b = *(mba_operator_view *const *)y;
    return (a->median_s < b->median_s) - (a->median_s > b->median_s);
}

/* Turns sums over the timeline into values per step and per launch. */
static mba_status finish_sums(reading *r)
{
    mba_assert(r->steps >= 0 && r->steps <= MBA_STEPS_MAX);
    mba_analysis *a = r->a;
    const double  steps = r->steps > 0 ? (double)r->steps : 1;
    double       *v = calloc((size_t)r->steps + 1, sizeof *v);
    if (!v) return mba_fail(MBA_E_NOMEM, "no memory for %lld steps", (long long)r->steps);
    for (int i = 0; i < a->nops; i++) {
        memcpy(v, a->op[i]->step_s, (size_t)r->steps * sizeof *v);
        a->op[i]->median_s = mba__median(v, r->steps);
        a->op[i]->spread_s = mba__quartile_distance(v, r->steps);
        a->op[i]->per_step = (double)a->op[i]->events / steps;
        a->op[i]->least_s /= steps;
    }
    free(v);
    if (a->nops) qsort(a->op, (size_t)a->nops, sizeof *a->op, longest_first);
    for (int k = 0; k < MBA_BREAKDOWN_KINDS; k++)
        for (int p = 0; p < MBA_PHASES; p++) {
            a->time_s[k][p] /= steps;
            a->launches[k][p] /= steps;
            a->floor_s[k][p] /= steps;
        }
    a->busy_s /= steps;
    double classes_s = 0;
    for (int k = 0; k < MBA_BREAKDOWN_KINDS; k++)
        for (int p = 0; p < MBA_PHASES; p++) classes_s += a->time_s[k][p];
    mba_assert(fabs(classes_s - a->busy_s) <= 1e-6 * a->busy_s); // every event is in one class
    for (int64_t i = 0; i < a->nkernels; i++) {
        mba_kernel_view *k = &a->kernel[i];
        const double     n = k->launches > 0 ? (double)k->launches : NAN;
        k->per_step = (double)k->launches / steps;
        k->step_s /= steps;
        k->least = (mba_work_counts){ k->least.tensor_flops / n, k->least.vector_flops / n, k->least.special_ops / n,
                                      k->least.bytes / n };
        k->median_s = k->p10_s = k->p90_s = NAN;
    }
    return MBA_OK;
}

/* ---- third reading: medians; fourth reading: gaps ---- */

static mba_status see_duration(void *ctx, const void *row)
{
    reading             *r = ctx;
    const mba_row_event *e = row;
    mba_kernel_view     *k = kernel_of(r->a, e);
    if (!k || is_outside(r->a, e)) return MBA_OK;
    if (r->kernel != e->kernel) r->kernel = e->kernel, r->at = 0;
    const double  s = 1e-9 * (double)e->duration_ns;
    const int64_t n = k->launches, i = r->at++;
    if (i == (n - 1) / 10) k->p10_s = s;
    if (i == (n - 1) / 2) k->median_s = s;
    if (i == n / 2 && n % 2 == 0) k->median_s = 0.5 * (k->median_s + s);
    if (i == (n - 1) - (n - 1) / 10) k->p90_s = s;
    return MBA_OK;
}

/* The gap without the cost of tracing, which delays the next kernel. That cost is known only for kernels of a graph. */
static double gap_of(const mba_analysis *a, const mba_row_event *e, double seen_s)
{
    const double cost_s = e->graph_node == MBA_ABSENT || isnan(a->record_cost_s) ? 0 : a->record_cost_s;
    return seen_s > cost_s ? seen_s - cost_s : 0;
}

static mba_status see_gap(void *ctx, const void *row)
{
    reading             *r = ctx;
    const mba_row_event *e = row;
    mba_kernel_view     *k = kernel_of(r->a, e);
    const bool           follows = r->stream == e->stream && r->step == step_of(e) && r->end != MBA_ABSENT;
    const int64_t        end = e->start_ns + e->duration_ns;
    if (is_outside(r->a, e)) return MBA_OK;
    if (follows && e->start_ns > r->end) {
        const double seen = 1e-9 * (double)(e->start_ns - r->end), s = gap_of(r->a, e, seen);
        r->seen += seen;
        r->gaps += s;
        if (k) k->gap_s += s / (double)k->launches;
    }
    r->end = follows && r->end > end ? r->end : end;
    r->stream = e->stream;
    r->step = step_of(e);
    return MBA_OK;
}

/* Discards the cost of a record if it is not significant: it is the difference of two passes divided by the number of
 * records, and in long steps the clocks of two passes differ by more than that. */
static void doubt_cost(mba_analysis *a, const reading *r)
{
    a->records = r->steps > 0 ? (double)r->recorded / (double)r->steps : NAN;
    const double all_s = a->record_cost_s * a->records;
    if (!(all_s > 2 * a->plain_spread_s)) a->record_cost_s = NAN;
}

static mba_status read_all(reading *r)
{
    mba_analysis *a = r->a;
    MBA_TRY(mba_store_each(a->store, MBA_ROWS_event, NULL, see_step, r));
    for (int64_t i = 0; i < a->nlaunches; i++) {
        const mba_row_node *n = node_of(a, a->launch[i].node);
        if (n) r->launches_of[n - a->node]++;
    }
    a->steps = r->steps;
    for (int64_t i = 0; i < a->nnodes; i++)
        r->more[i] = r->launches_of[i] >= 1 && r->kernels_of[i] > r->steps * r->launches_of[i];
    MBA_TRY(mba__extras_create(&r->extras, a, r->more));
    doubt_cost(a, r);
    MBA_TRY(mba_store_each(a->store, MBA_ROWS_event, NULL, see_time, r));
    MBA_TRY(finish_sums(r));
    MBA_TRY(mba_store_each(a->store, MBA_ROWS_event, "kernel, duration_ns", see_duration, r));
    MBA_TRY(mba_store_each(a->store, MBA_ROWS_event, "stream, start_ns", see_gap, r));
    a->idle_s = r->steps > 0 ? r->gaps / (double)r->steps : NAN;
    a->idle_seen_s = r->steps > 0 ? r->seen / (double)r->steps : NAN;
    return MBA_OK;
}

mba_status mba__analysis_events(mba_analysis *a)
{
    reading r = { .a = a, .kernel = MBA_ABSENT, .end = MBA_ABSENT };
    r.launches_of = calloc((size_t)a->nnodes + 1, sizeof *r.launches_of);
    r.kernels_of = calloc((size_t)a->nnodes + 1, sizeof *r.kernels_of);
    r.more = calloc((size_t)a->nnodes + 1, sizeof *r.more);
    a->op = calloc(OPS_MAX, sizeof *a->op);
    const bool       ready = r.launches_of && r.kernels_of && r.more && a->op;
    const mba_status st = ready ? read_all(&r) : mba_fail(MBA_E_NOMEM, "no memory for the timeline");
    mba__extras_destroy(r.extras);
    free(r.launches_of);
    free(r.kernels_of);
    free(r.more);
    return st;
}

/* ---- one step ---- */

typedef struct moments {
    const mba_analysis *a;
    int64_t             step, n, room;
    bool                every_node;
    mba_timeline_event *all;
} moments;

static mba_status see_moment(void *ctx, const void *row)
{
    moments             *m = ctx;
    const mba_row_event *e = row;
    if (is_outside(m->a, e) || step_of(e) != m->step) return MBA_OK;
    mba_timeline_event *all = mba_grow(m->all, m->n, &m->room, sizeof *all);
    if (!all) return mba_fail(MBA_E_NOMEM, "no memory for %lld events", (long long)m->n + 1);
    m->all = all;
    const mba_row_node    *n = node_of(m->a, e->node);
    const mba_kernel_view *k = kernel_of(m->a, e);
    // Names must outlive the row: they point into the node, the kernel or a constant.
    m->all[m->n++] = (mba_timeline_event){ 1e-9 * (double)e->start_ns,
                                           1e-9 * (double)e->duration_ns,
                                           k ? k - m->a->kernel : -1,
                                           e->stream,
                                           k ? k->kind : (int)MBA_MEMORY,
                                           phase_of(e, n, k),
                                           k && k->row->name ? k->row->name : operator_name(e, n, k),
                                           n ? n->scope : NULL,
                                           n && m->every_node ? n->layer : MBA_ABSENT };
    return MBA_OK;
}

mba_status mba_timeline_of(const mba_analysis *a, int64_t step, mba_timeline_event **out, int64_t *n)
{
    // A store that export made small has one node for all that are alike: their layers are lost.
    const bool       every_node = a->nnodes && a->node[a->nnodes - 1].id == a->nnodes - 1;
    moments          m = { .a = a, .step = step, .every_node = every_node };
    const mba_status st = mba_store_each(a->store, MBA_ROWS_event, "start_ns", see_moment, &m);
    if (st != MBA_OK) {
        free(m.all);
        return st;
    }
    for (int64_t i = m.n; i-- > 0;) m.all[i].start_s -= m.all[0].start_s;
    *out = m.all;
    *n = m.n;
    return MBA_OK;
}
