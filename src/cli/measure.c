// SPDX-License-Identifier: Apache-2.0
/* measure.c -- see measure.h. */
#include "cli/measure.h"

#include <stdlib.h>
#include <string.h>

#include "core/check.h"
#include "ops/cast/cast.h"
#include "ops/linear_cross_entropy/linear_cross_entropy.h"
#include "ops/matmul/matmul.h"
#include "scope/clock.h"
#include "train/feed.h"

static void keep_best(double *best, double s)
{
    if (*best <= 0 || s < *best) *best = s;
}

static mba_status wait_for(const mba_program *p) { return p->device->wait ? p->device->wait() : MBA_OK; }

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

mba_status mba_measure_run(double *best_s, double *median_s, mba_program *p, unsigned passes, const mba_step *step,
                           int repeats)
{
    mba_assert(repeats > 0);
    double    *took = malloc((size_t)repeats * sizeof *took);
    mba_status st = took ? MBA_OK : mba_fail(MBA_E_NOMEM, "no memory for %d times", repeats);
    for (int r = 0; r < repeats && st == MBA_OK; r++) {
        const double began = mba_clock_s();
        st = mba_program_repeat(p, passes, step);
        if (st == MBA_OK) st = wait_for(p);
        took[r] = mba_clock_s() - began;
    }
    if (st == MBA_OK) {
        qsort(took, (size_t)repeats, sizeof *took, ascending);
        *best_s = took[0];
        *median_s = took[repeats / 2];
    }
    free(took);
    return st;
}

/* Times how long a step occupies the host: on a GPU only until it is launched. */
static mba_status measure_host(double *best_s, mba_program *p, const mba_step *step, int repeats)
{
    *best_s = 0;
    for (int r = 0; r < repeats && p->device->wait; r++) {
        const double began = mba_clock_s();
        MBA_TRY(mba_program_repeat(p, MBA_STEP, step));
        keep_best(best_s, mba_clock_s() - began);
        MBA_TRY(wait_for(p));
    }
    return MBA_OK;
}

static bool is_product(const mba_node *n)
{
    return (n->op->kind == MBA_GEMM || n->op->kind == MBA_CONV) && n->op->cost(n).tensor_flops > 0;
}

static mba_status measure_products(double *best_s, const mba_program *p, int repeats)
{
    *best_s = 0;
    for (int r = 0; r < repeats; r++) {
        const double began = mba_clock_s();
        for (int32_t i = 0; i < p->graph->nnodes; i++)
            if (is_product(p->graph->nodes[i])) MBA_TRY(p->launch[i](&p->call[i]));
        MBA_TRY(wait_for(p));
        keep_best(best_s, mba_clock_s() - began);
    }
    return MBA_OK;
}

static const char as_products[] = "conv2d=patches,conv2d_bwd=patches";

static bool has_other_forms(const mba_program *p)
{
    for (int32_t i = 0; i < p->graph->nnodes; i++)
        if (p->graph->nodes[i]->op->kind == MBA_CONV && is_product(p->graph->nodes[i])
            && strcmp(p->plan[i]->variant, "patches"))
            return true;
    return false;
}

/* Times the matrix products of x w^T and of its gradients alone: those that the head of a language model computes in
 * blocks. The product serves as its own gradient: any numbers will do, and a gradient from the host would be gigabytes
 * to fill and to copy. */
static mba_status measure_linear(double *best_s, const mba_program_options *how, const mba_device *d,
                                 const mba_node *head, const mba_step *step, int repeats)
{
    const mba_tensor *x = head->in[0], *w = head->in[1];
    mba_program      *p = NULL;
    mba_graph        *g;
    MBA_TRY(mba_graph_create(&g));
    g->compute = x->type.dtype;
    g->tf32 = head->tf32;
    mba_tensor *a = mba_case_act(g, "x", MBA_TYPE(MBA_F32, mba_rows(x), mba_cols(x)), MBA_INIT_NORMAL(1));
    mba_tensor *y = mba_linear(g, a,
                               mba_param(g, "w", MBA_TYPE(w->type.dtype, mba_rows(w), mba_cols(w)), MBA_INIT_NORMAL(1),
                                         MBA_DECAY));
    mba_status  st = mba_backward_from(g, 1, &y, (mba_tensor *[]){ y });
    if (st == MBA_OK) st = mba_program_create(&p, g, how);
    if (st == MBA_OK) st = mba_program_bind(p, d);
    if (st == MBA_OK) st = mba_program_init(p, 1);
    if (st == MBA_OK) {
        mba_fill_inputs(p);
        st = mba_program_run(p, MBA_STEP, step, NULL);
    }
    if (st == MBA_OK) st = measure_products(best_s, p, repeats);
    mba_program_destroy(p);
    mba_graph_destroy(g);
    return st;
}

/* Adds the products inside the head, which measure_products does not see: the head is not a product itself. */
static mba_status add_head(double *best_s, const mba_session *s, const mba_step *step, int repeats)
{
    const mba_program_options how = { .cuda = s->program->options.cuda, .machine = s->program->options.machine };
    for (int32_t i = 0; i < s->graph->nnodes; i++) {
        const mba_node *n = s->graph->nodes[i];
        double          head = 0;
        if (n->op != &mba_op_linear_cross_entropy_bwd) continue;
        MBA_TRY(measure_linear(&head, &how, s->device, n, step, repeats));
        *best_s += head;
    }
    return MBA_OK;
}

static mba_status products_of(double *best_s, const mba_session *s, const mba_step *step, int repeats)
{
    mba_program        *p = NULL;
    mba_program_options o = s->program->options;
    if (s->device != &mba_device_cpu || !has_other_forms(s->program))
        return measure_products(best_s, s->program, repeats);
    o.variants = as_products;
    mba_status st = mba_program_create(&p, s->graph, &o);
    if (st == MBA_OK) st = mba_program_bind(p, &mba_device_cpu);
    if (st == MBA_OK) st = mba_program_init(p, 1);
    if (st == MBA_OK) {
        mba_fill_inputs(p);
        st = mba_program_run(p, MBA_STEP, step, NULL); // operands as in a step
    }
    if (st == MBA_OK) st = measure_products(best_s, p, repeats);
    mba_program_destroy(p);
    return st;
}

mba_status mba_measure_gemms(double *best_s, const mba_session *s, const mba_step *step, int repeats)
{
    MBA_TRY(products_of(best_s, s, step, repeats));
    return add_head(best_s, s, step, repeats);
}

typedef struct clock_ctx {
    double *best, began;
    float  *sweep;
} clock_ctx;
enum { SWEEP_FLOATS = 1 << 25 }; // 128 MB: larger than the last-level caches of CPUs we measure on

static void sweep_caches(float *x) { MBA_PARALLEL_FOR(i, SWEEP_FLOATS / 16) x[16 * i] += 1; }

static void start(void *ctx, const mba_node *n, const mba_plan *plan)
{
    clock_ctx *c = ctx;
    (void)n, (void)plan;
    if (c->sweep) sweep_caches(c->sweep);
    c->began = mba_clock_s();
}

static void stop(void *ctx, const mba_node *n, const mba_plan *plan)
{
    clock_ctx *c = ctx;
    (void)plan;
    keep_best(&c->best[n->id], mba_clock_s() - c->began);
}

/* Times nodes by the clock of the device. */
static mba_status time_nodes(double *best_s, mba_program *p, unsigned passes, const mba_step *step, int repeats,
                             bool cold)
{
    double    *once = calloc((size_t)p->graph->nnodes + 1, sizeof *once);
    mba_status st = once ? mba_program_run(p, passes, step, NULL) : mba_fail(MBA_E_NOMEM, "no memory for times");
    for (int r = 0; r < repeats && st == MBA_OK; r++) {
        st = p->device->time_nodes(p, passes, once, cold);
        for (int32_t i = 0; i < p->graph->nnodes && st == MBA_OK; i++)
            if (once[i] > 0) keep_best(&best_s[i], once[i]);
    }
    free(once);
    return st;
}

mba_status mba_measure_nodes(double *best_s, mba_program *p, unsigned passes, const mba_step *step, int repeats,
                             bool cold)
{
    if (p->device->time_nodes) return time_nodes(best_s, p, passes, step, repeats, cold);
    clock_ctx       c = { .best = best_s, .sweep = cold ? calloc(SWEEP_FLOATS, sizeof(float)) : NULL };
    const mba_hooks h = { start, stop, &c };
    mba_status      st = MBA_OK;
    for (int r = 0; r < repeats && st == MBA_OK; r++) st = mba_program_run(p, passes, step, &h);
    free(c.sweep);
    return st;
}

mba_status mba_measure_copy(double *best_s, const mba_device *d, double bytes, int repeats)
{
    *best_s = 0;
    if (d != &mba_device_cpu) return mba_copy_measure_cuda(best_s, bytes, repeats);
    const int64_t n = (int64_t)(bytes / 8) + 1, room = n + MBA_COPY_ROOM;
    float        *x = malloc(sizeof(float) * (size_t)room), *y = malloc(sizeof(float) * (size_t)room);
    float        *sweep = calloc(SWEEP_FLOATS, sizeof(float));
    mba_status    st = x && y && sweep ? MBA_OK
                                       : mba_fail(MBA_E_NOMEM, "no memory for a copy of %s", mba_size_of(bytes).text);
    if (st == MBA_OK) MBA_PARALLEL_FOR(i, room) x[i] = y[i] = 1; // each thread touches the pages that it will copy
    for (int r = 0; r < MBA_COPY_WAYS * repeats && st == MBA_OK; r++) {
        sweep_caches(sweep);
        const double began = mba_clock_s();
        mba_ceilings_copy(y, x, n, r % MBA_COPY_WAYS);
        keep_best(best_s, mba_clock_s() - began);
    }
    free(x);
    free(y);
    free(sweep);
    return st;
}

mba_status mba_measure_step(mba_step_times *out, mba_session *s, const mba_ceilings *c, int repeats)
{
    mba_step step = { .seed = 1, .lr = 1e-4f };
    *out = (mba_step_times){ .node_s = calloc((size_t)s->graph->nnodes, sizeof(double)),
                             .node_floor_s = calloc((size_t)s->graph->nnodes, sizeof(double)) };
    if (!out->node_s || !out->node_floor_s)
        return mba_fail(MBA_E_NOMEM, "no memory for the times of %d nodes", s->graph->nnodes);
    MBA_TRY(mba_feed_example(s, &step));
    out->units = (double)(s->model.task == MBA_TASK_GRAPHS ? step.count[MBA_GRAPHS] : mba_model_units(&s->model));
    // warm-up: pages, caches, threads, capture
    MBA_TRY(mba_measure_run(&out->step_s, &out->median_s, s->program, MBA_STEP, &step, 3));
    MBA_TRY(mba_measure_run(&out->step_s, &out->median_s, s->program, MBA_STEP, &step, repeats));
    MBA_TRY(measure_host(&out->host_s, s->program, &step, repeats));
    if (!s->program->device->wait) out->host_s = out->step_s;
    MBA_TRY(mba_measure_gemms(&out->gemm_s, s, &step, repeats));
    MBA_TRY(mba_measure_nodes(out->node_s, s->program, MBA_STEP, &step, repeats, false));
    for (int32_t i = 0; i < s->graph->nnodes; i++) {
        const mba_node *n = s->graph->nodes[i];
        out->nodes_s += out->node_s[i];
        if (!mba_runs(n, MBA_STEP)) continue;
        out->node_floor_s[i] = mba_ceilings_floor(c, n->op->cost(n)) * mba_valid_fraction(n, &step);
        out->floor_s += out->node_floor_s[i];
    }
    return MBA_OK;
}
