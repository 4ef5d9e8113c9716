// SPDX-License-Identifier: Apache-2.0
/* gpu_store.c -- see gpu_store.h: finds the distinct kernels among the events, maps them to planned launches, and
 * writes events, counters, blocks, instructions and the rest. */
#include "scope/gpu_store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/lookup.h"
#include "core/print.h"
#include "scope/describe.h"
#include "scope/energy.h"
#include "scope/match.h"
#include "scope/nvml.h"
#include "scope/occupancy.h"

/* A distinct kernel, by plan, launch, name and geometry, in order of first appearance. */
typedef struct found {
    const mba_plan  *plan;
    int32_t          launch;
    const mba_event *first;
    bool             one_phase;
    mba_pass         phase;
} found;
typedef struct storing {
    mba_store             *s;
    const mba_program     *p;
    const mba_gpu_profile *g;
    found                 *kernel;
    int64_t                n, room;
    int32_t               *ran; /* per node: kernels in the first step of the timeline */
    int                  **is;  /* per node that ran more kernels than planned: the planned launch of
                                                    * each kernel, -1: none; else NULL */
} storing;

static const mba_node *node_of(const storing *x, int32_t node) { return node < 0 ? NULL : x->p->graph->nodes[node]; }
static const mba_plan *plan_of(const storing *x, int32_t node) { return node < 0 ? NULL : x->p->plan[node]; }

static int64_t find(const storing *x, const mba_event *e)
{
    for (int64_t i = 0; i < x->n; i++) {
        const mba_event *f = x->kernel[i].first;
        if (x->kernel[i].plan == plan_of(x, e->node) && x->kernel[i].launch == e->launch && !strcmp(f->name, e->name)
            && !memcmp(f->grid, e->grid, sizeof f->grid) && !memcmp(f->block, e->block, sizeof f->block))
            return i;
    }
    return -1;
}

static mba_status add(storing *x, const mba_event *e, int64_t *out)
{
    mba_assert(e->node < x->p->graph->nnodes);
    *out = find(x, e);
    if (*out >= 0) {
        if (e->node >= 0 && node_of(x, e->node)->pass != x->kernel[*out].phase) x->kernel[*out].one_phase = false;
        return MBA_OK;
    }
    found *more = mba_grow(x->kernel, x->n, &x->room, sizeof *more);
    if (!more) return mba_fail(MBA_E_NOMEM, "no memory for %lld kernels", (long long)x->n + 1);
    x->kernel = more;
    const mba_node *n = node_of(x, e->node);
    x->kernel[ *out = x->n++] = (found){ plan_of(x, e->node), e->launch, e, n != NULL, n ? n->pass : MBA_FORWARD };
    return MBA_OK;
}

/* ---- kernels ---- */

static const char *class_name(mba_class c)
{
    static const char *const name[] = {
        [MBA_TENSOR] = "tensor", [MBA_VECTOR] = "vector", [MBA_MIXED] = "mixed", [MBA_COPYING] = "copy"
    };
    return name[c];
}

static void describe_occupancy(mba_row_kernel *r, const mba_machine *m, const mba_event *e)
{
    const double        blocks = (double)e->grid[0] * e->grid[1] * e->grid[2];
    const int           threads = e->block[0] * e->block[1] * e->block[2];
    const mba_occupancy o = mba_occupancy_of(m, e->regs, threads, (int64_t)e->smem_static + e->smem_dynamic, blocks);
    r->blocks_per_sm = o.blocks_per_sm;
    r->limiter = o.limiter;
    r->waves = o.waves;
    r->occupancy_limit = o.percent;
}

static bool is_library(const char *planned)
{
    return !strncmp(planned, "cublaslt_", 9) || !strncmp(planned, "cudnn_", 6);
}

/* The planned launch of a kernel; -1: none. */
static int planned_place(const storing *x, const mba_event *e)
{
    mba_assert(e->node >= 0 && e->node < x->p->graph->nnodes);
    const int *is = x->is[e->node];
    if (is) return e->launch >= 0 && e->launch < x->ran[e->node] ? is[e->launch] : -1;
    return e->launch < x->p->plan[e->node]->nlaunches ? e->launch : -1;
}

/* The planned launch of a distinct kernel, or NULL. If a library ran fewer kernels than planned, positions mean
 * nothing; if it ran more, match_node has matched them. */
static const mba_launch *launch_of(const storing *x, const found *f)
{
    const mba_plan *p = f->plan;
    bool            library = false;
    const int       place = p ? planned_place(x, f->first) : -1;
    if (place < 0) return NULL;
    for (int i = 0; i < p->nlaunches; i++) library |= is_library(p->launch[i].kernel);
    const int32_t ran = x->ran[f->first->node];
    return library && ran && ran < p->nlaunches ? NULL : &p->launch[place];
}

/* Our kernels have the name in the plan, which distinguishes element-wise operators; library kernels their own. */
static void name_kernel(char *out, size_t room, const storing *x, const found *f)
{
    const mba_launch *l = launch_of(x, f);
    if (l && !is_library(l->kernel)) snprintf(out, room, "%s", l->kernel);
    else mba_kernel_short(out, room, f->first->name);
}

static mba_status put_kernel(const storing *x, int64_t id)
{
    const found     *f = &x->kernel[id];
    const mba_event *e = f->first;
    const mba_node  *n = node_of(x, e->node);
    char             name[256], shape[512];
    mba_row_kernel   r = mba_no_kernel;
    name_kernel(name, sizeof name, x, f);
    r.id = id, r.name = name, r.symbol = e->name;
    r.grid_x = e->grid[0], r.grid_y = e->grid[1], r.grid_z = e->grid[2];
    r.block_x = e->block[0], r.block_y = e->block[1], r.block_z = e->block[2];
    if (e->regs) { // from the timeline; a kernel known only from counters has none of these
        r.regs = e->regs, r.smem_static_bytes = e->smem_static, r.smem_dynamic_bytes = e->smem_dynamic,
        r.local_bytes = e->local;
        r.cluster = e->cluster[0] > 0 ? (int64_t)e->cluster[0] * e->cluster[1] * e->cluster[2] : 1;
        describe_occupancy(&r, x->p->options.machine, e);
    }
    if (n) {
        mba_node_shape(shape, sizeof shape, n);
        r.op = n->op->name, r.kind = mba_kind_name(n->op->kind), r.shape = shape;
        if (f->one_phase) r.phase = mba_pass_name(f->phase);
        if (launch_of(x, f)) r.class = class_name(launch_of(x, f)->cls);
    }
    return mba_put_kernel(x->s, &r);
}

/* ---- events ---- */

/* Matches kernels with planned launches for a node that ran more than planned, because a library added some. */
static mba_status match_node(storing *x, int32_t node)
{
    const mba_plan   *plan = x->p->plan[node];
    const mba_events *l = &x->g->events;
    mba_assert(x->ran[node] <= MBA_STARTED_MAX && plan->nlaunches < x->ran[node]);
    char        name[MBA_STARTED_MAX][256];
    mba_started s[MBA_STARTED_MAX] = { { NULL, 0 } };
    const char *planned[MBA_STARTED_MAX];
    for (int64_t i = 0; i < l->n; i++) {
        const mba_event *e = &l->event[i];
        if (e->kind != MBA_EVENT_KERNEL || e->step != 0 || e->node != node || e->launch < 0
            || e->launch >= x->ran[node])
            continue;
        mba_kernel_short(name[e->launch], sizeof name[e->launch], e->name);
        s[e->launch] = (mba_started){ name[e->launch], e->end_ns - e->start_ns };
    }
    for (int k = 0; k < plan->nlaunches; k++) planned[k] = plan->launch[k].kernel;
    if (!(x->is[node] = calloc((size_t)x->ran[node], sizeof **x->is)))
        return mba_fail(MBA_E_NOMEM, "no memory for a timeline");
    mba_match_launches(x->is[node], s, x->ran[node], planned, plan->nlaunches);
    return MBA_OK;
}

static mba_status match_nodes(storing *x)
{
    for (int32_t i = 0; i < x->p->graph->nnodes; i++)
        if (x->p->plan[i]->nlaunches && x->ran[i] > x->p->plan[i]->nlaunches && x->ran[i] <= MBA_STARTED_MAX)
            MBA_TRY(match_node(x, i));
    return MBA_OK;
}

static mba_status put_event(storing *x, int64_t id, const mba_event *e, int64_t origin_ns)
{
    static const char *const what[MBA_EVENT_KINDS] = { "kernel", "copy", "memset" };
    const mba_node          *n = node_of(x, e->node);
    mba_row_event            r = mba_no_event;
    r.id = id, r.what = what[e->kind], r.start_ns = e->start_ns - origin_ns, r.duration_ns = e->end_ns - e->start_ns;
    r.stream = e->stream, r.step = e->step;
    if (n) r.node = n->id, r.phase = mba_pass_name(n->pass);
    if (n && planned_place(x, e) >= 0) r.launch = mba_launch_number(x->p, n->id, planned_place(x, e));
    if (e->graph) r.graph_node = (int64_t)e->graph_node;
    if (e->kind != MBA_EVENT_KERNEL && e->bytes > 0) r.bytes = (double)e->bytes;
    if (e->kind == MBA_EVENT_KERNEL) MBA_TRY(add(x, e, &r.kernel));
    return mba_put_event(x->s, &r);
}

static mba_status put_events(storing *x)
{
    const mba_events *l = &x->g->events;
    for (int64_t i = 0; i < l->n; i++)
        if (l->event[i].kind == MBA_EVENT_KERNEL && l->event[i].step == 0 && l->event[i].node >= 0)
            x->ran[l->event[i].node]++;
    MBA_TRY(match_nodes(x));
    for (int64_t i = 0; i < l->n; i++) MBA_TRY(put_event(x, i, &l->event[i], l->event[0].start_ns));
    return MBA_OK;
}

/* ---- counters ---- */

/* The kernel of the timeline with the plan, launch and grid of a counted kernel: counters come from another run. */
static int64_t kernel_of_counters(const storing *x, const mba_gpu_kernel *k)
{
    for (int64_t i = 0; i < x->n; i++)
        if (x->kernel[i].plan == plan_of(x, k->node) && x->kernel[i].launch == k->launch
            && !memcmp(x->kernel[i].first->grid, k->grid, sizeof k->grid))
            return i;
    return -1;
}

static mba_status put_counters(const storing *x, int64_t id, const mba_gpu_kernel *k)
{
    mba_assert(id >= 0 && id < x->n && x->g->nsets <= MBA_GPU_SETS_MAX);
    for (int s = 0; s < x->g->nsets; s++)
        for (int m = 0; m < x->g->set[s]->n; m++) {
            mba_row_counter r = mba_no_counter;
            if (k->value[s][m] != k->value[s][m]) continue;
            r.kernel = id, r.metric = x->g->set[s]->metric[m], r.value = k->value[s][m],
            r.unit = mba_metric_unit(r.metric);
            r.metric_set = x->g->set[s]->name, r.launches = k->launches;
            MBA_TRY(mba_put_counter(x->s, &r));
        }
    return MBA_OK;
}

/* The data-dependent FLOPs of a kernel, to compare with its counted ones. */
static mba_status put_data(const storing *x, int64_t id, const mba_gpu_kernel *k)
{
    mba_row_counter r = mba_no_counter;
    if (k->data_flops != k->data_flops) return MBA_OK;
    r.kernel = id, r.metric = "data__tensor_flops.sum", r.value = k->data_flops, r.unit = "FLOP";
    r.metric_set = "data", r.launches = k->launches;
    return mba_put_counter(x->s, &r);
}

static mba_status put_settled(const storing *x, const mba_gpu_isolated *b)
{
    const struct {
        const char *metric;
        double      value;
    } of[] = { { "settled__dram_bytes_read.sum", b->read }, { "settled__dram_bytes_write.sum", b->written } };
    mba_row_counter r = mba_no_counter;
    for (int64_t i = 0; i < x->n && r.kernel == MBA_ABSENT; i++)
        if (x->kernel[i].plan == plan_of(x, b->node) && x->kernel[i].launch == b->launch
            && !memcmp(x->kernel[i].first->grid, b->grid, sizeof b->grid))
            r.kernel = i;
    if (r.kernel == MBA_ABSENT) return MBA_OK; // not in the timeline
    for (int k = 0; k < 2; k++) {
        r.metric = of[k].metric, r.value = of[k].value, r.unit = "byte", r.metric_set = "settled", r.launches = 1;
        MBA_TRY(mba_put_counter(x->s, &r));
    }
    return MBA_OK;
}

/* A kernel that is not in the timeline gets an event of its own in `made`, which lives until the end. */
static mba_status put_all_counters(storing *x, mba_event *made)
{
    for (int64_t i = 0; i < x->g->nkernels; i++) {
        const mba_gpu_kernel *k = &x->g->kernel[i];
        int64_t               id = kernel_of_counters(x, k);
        if (id < 0) {
            made[i] = (mba_event){ .name = k->name, .node = k->node, .launch = k->launch, .step = -1 };
            memcpy(made[i].grid, k->grid, sizeof k->grid);
            memcpy(made[i].block, k->block, sizeof k->block);
            MBA_TRY(add(x, &made[i], &id));
        }
        MBA_TRY(put_counters(x, id, k));
        MBA_TRY(put_data(x, id, k));
    }
    return MBA_OK;
}

/* ---- blocks and instructions ---- */

static mba_status put_blocks(const storing *x)
{
    for (int64_t i = 0; i < x->g->nblocks; i++) {
        const mba_gpu_block *b = &x->g->block[i];
        mba_row_block        r = mba_no_block;
        for (int64_t k = 0; k < x->n && r.kernel == MBA_ABSENT; k++)
            if (x->kernel[k].plan == plan_of(x, b->node) && x->kernel[k].launch == b->launch) r.kernel = k;
        r.block = b->block, r.sm = b->sm, r.start_ns = b->start_ns, r.end_ns = b->end_ns;
        MBA_TRY(mba_put_block(x->s, &r));
    }
    return MBA_OK;
}

static mba_status put_instructions(const storing *x)
{
    for (int64_t i = 0; i < x->g->ninstructions; i++) {
        const mba_gpu_instruction *from = &x->g->instruction[i];
        mba_row_instruction        r = mba_no_instruction;
        for (int64_t k = 0; k < x->n && r.kernel == MBA_ABSENT; k++)
            if (x->kernel[k].plan == plan_of(x, from->node) && !strcmp(x->kernel[k].first->name, from->symbol))
                r.kernel = k;
        r.pc = from->pc, r.metric = from->metric, r.value = from->value;
        if (*from->file) r.file = from->file, r.line = from->line;
        MBA_TRY(mba_put_instruction(x->s, &r));
    }
    return MBA_OK;
}

/* ---- the rest ---- */

static mba_status put_steps(mba_store *s, const char *mode, const double *seconds, int n, double units)
{
    for (int i = 0; i < n; i++) {
        const mba_row_step r = { .mode = mode, .place = i, .seconds = seconds[i], .units = units };
        MBA_TRY(mba_put_step(s, &r));
    }
    return MBA_OK;
}

static mba_status put_costs(mba_store *s, const mba_gpu_profile *g)
{
    mba_assert(g->ncosts <= (int)(sizeof g->cost / sizeof *g->cost));
    for (int i = 0; i < g->ncosts; i++) {
        mba_row_collection r = mba_no_collection;
        r.mode = g->cost[i].mode, r.metric_set = g->cost[i].set, r.passes = g->cost[i].passes,
        r.seconds = g->cost[i].seconds;
        r.kernels = g->cost[i].kernels, r.dropped = g->cost[i].dropped;
        MBA_TRY(mba_put_collection(s, &r));
    }
    return MBA_OK;
}

static mba_status put_clocks(mba_store *s, const mba_gpu_profile *g)
{
    char key[64], words[160];
    for (int i = 0; i < g->nclocks; i++) {
        const mba_gpu_clock *c = &g->clock[i];
        snprintf(key, sizeof key, "clock.%s", c->when);
        if (c->sm_mhz >= 0) MBA_TRY(mba_env_put_number(s, key, "read", c->sm_mhz, "MHz"));
        snprintf(key, sizeof key, "power.%s", c->when);
        if (c->power_w >= 0) MBA_TRY(mba_env_put_number(s, key, "read", c->power_w, "W"));
        snprintf(key, sizeof key, "throttled.%s", c->when);
        mba_nvml_throttle_words(words, sizeof words, c->throttled);
        MBA_TRY(mba_env_put_text(s, key, "read", "%s", *words ? words : "no"));
    }
    return MBA_OK;
}

static mba_status put_rest(mba_store *s, const mba_gpu_profile *g, double units)
{
    MBA_TRY(put_steps(s, "plain", g->plain_s, g->nplain, units));
    MBA_TRY(put_steps(s, "graph", g->whole_s, g->nwhole, units));
    MBA_TRY(put_steps(s, "record", g->record_s, g->nrecords, units));
    MBA_TRY(put_steps(s, "queued", g->queued_s, g->nqueued, units));
    MBA_TRY(put_steps(s, "timeline", g->timeline_s, g->ntimeline, units));
    if (g->record_cost_s == g->record_cost_s)
        MBA_TRY(mba_env_put_number(s, "timeline.record_cost", "measured", 1e9 * g->record_cost_s, "ns"));
    MBA_TRY(put_steps(s, "counters", g->pass_s, g->nsets, units));
    MBA_TRY(put_costs(s, g));
    MBA_TRY(put_clocks(s, g));
    if (g->energy_j == g->energy_j) {
        const mba_row_energy r = { .mode = "plain",
                                   .steps = g->energy_steps,
                                   .units = units * g->energy_steps,
                                   .seconds = g->energy_s,
                                   .joules = g->energy_j,
                                   .source = MBA_ENERGY_SAMPLED };
        MBA_TRY(mba_put_energy(s, &r));
    }
    for (int i = 0; i < g->nnotes; i++) MBA_TRY(mba_note_missing(s, g->note[i].topic, g->note[i].text, g->note[i].fix));
    return MBA_OK;
}

mba_status mba_gpu_store(mba_store *s, const mba_program *p, const mba_gpu_profile *g, double units)
{
    storing    x = { .s = s,
                     .p = p,
                     .g = g,
                     .ran = calloc((size_t)p->graph->nnodes + 1, sizeof *x.ran),
                     .is = calloc((size_t)p->graph->nnodes + 1, sizeof *x.is) };
    mba_event *made = calloc((size_t)g->nkernels + 1, sizeof *made);
    mba_status st = made && x.ran && x.is ? put_events(&x) : mba_fail(MBA_E_NOMEM, "no memory to store kernels");
    if (st == MBA_OK) st = put_all_counters(&x, made);
    for (int64_t i = 0; i < g->nsettled && st == MBA_OK; i++) st = put_settled(&x, &g->settled[i]);
    for (int64_t i = 0; i < x.n && st == MBA_OK; i++) st = put_kernel(&x, i);
    if (st == MBA_OK) st = put_blocks(&x);
    if (st == MBA_OK) st = put_instructions(&x);
    if (st == MBA_OK) st = put_rest(s, g, units);
    free(x.kernel);
    for (int32_t i = 0; x.is && i < p->graph->nnodes; i++) free(x.is[i]);
    free(x.is);
    free(x.ran);
    free(made);
    return st;
}
