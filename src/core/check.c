/* check.c -- see check.h. */
#include "core/check.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include "core/rng.h"

static const mba_machine host = { .name = "host" };
static const mba_step    step = { .index = 2, .seed = 11 };

static void worst(double *w, double e) { if (isnan(e) || e > *w) *w = e; }     // NaN stays

/* What an input holds in a test: its example, or indices below their bound and reals in -1 .. 1. */
static double input_value(const mba_tensor *t, int64_t i)
{
    uint32_t u[4];
    if (t->example) return t->example[i];
    mba_philox(u, mba_stream(t->name), 1, (uint64_t)i);
    return t->bound ? (double)(u[0] % (uint32_t)t->bound) : (float)(2 * mba_unit(u[0]) - 1);
}

static bool is_input(const mba_tensor *t) { return t->st->role == MBA_INPUT && !t->of && !t->maker; }

void mba_fill_inputs(mba_program *p)
{
    for (int32_t k = 0; k < p->graph->ntensors; k++) {
        const mba_tensor *t = p->graph->tensors[k];
        if (!is_input(t)) continue;               // windows see what they are cut from
        void *x = mba_program_at(p, t);
        for (int64_t i = 0; i < mba_elems(t); i++)
            if (t->type.dtype == MBA_I32) ((int32_t *)x)[i] = (int32_t)input_value(t, i);
            else                          ((float *)x)[i] = (float)input_value(t, i);
    }
}

/* The reference starts from the same numbers. */
static void copy_inputs(mba_reference *r, const mba_program *p)
{
    for (int32_t k = 0; k < p->graph->ntensors; k++) {
        const mba_tensor *t = p->graph->tensors[k];
        const bool state = mba_is_state(t) && p->layout.first[t->st->id] >= 0;
        if (!mba_is_param(t) && !is_input(t) && !state) continue;
        const void *x = mba_program_at(p, t);
        for (int64_t i = 0; i < mba_elems(t); i++)
            mba_reference_at(r, t)[i] = t->type.dtype == MBA_I32 ? ((const int32_t *)x)[i] : (double)((const float *)x)[i];
    }
}

/* ---- guards: bytes around every output and scratch, written before a node and looked at after it ---- */

enum { GUARD_BYTES = MBA_ALIGN_BYTES, GUARD = 0xa5 };
typedef struct guards { const mba_program *p; int strays; } guards;

static bool guard_at(char *block, size_t bytes, bool write)
{
    bool kept = true;
    bytes = (bytes + MBA_ALIGN_BYTES - 1) / MBA_ALIGN_BYTES * MBA_ALIGN_BYTES;
    for (int i = 0; i < GUARD_BYTES; i++) {
        unsigned char *before = (unsigned char *)block - GUARD_BYTES + i, *behind = (unsigned char *)block + bytes + i;
        if (write) *before = *behind = GUARD;
        else       kept &= *before == GUARD && *behind == GUARD;
    }
    return kept;
}

static bool guard_node(const mba_program *p, const mba_node *n, bool write)
{
    bool kept = true;
    for (int k = 0; k < MBA_OUT_MAX; k++) {
        if (!n->out[k]) continue;
        const mba_storage *st = n->out[k]->st;
        const mba_tensor   whole = { .type = MBA_TYPE(st->dtype, st->elems), .st = (mba_storage *)st };
        kept &= guard_at(mba_program_at(p, &whole), (size_t)st->elems * mba_dtype_bytes(st->dtype), write);
    }
    const mba_call *c = &p->call[n->id];
    if (c->work) kept &= guard_at(c->work, c->plan->work_bytes, write);
    return kept;
}

static void guard_write(void *ctx, const mba_node *n, const mba_plan *plan)
{
    (void)plan;
    guard_node(((guards *)ctx)->p, n, true);
}

static void guard_look(void *ctx, const mba_node *n, const mba_plan *plan)
{
    (void)plan;
    ((guards *)ctx)->strays += !guard_node(((guards *)ctx)->p, n, false);
}

static double objective(mba_reference *r, int n, mba_tensor *const out[], mba_tensor *const seed[])
{
    double s = 0;
    mba_reference_run(r, MBA_FORWARD, &step);
    for (int k = 0; k < n; k++)
        for (int64_t i = 0; i < mba_elems(out[k]); i++)
            s += mba_reference_at(r, out[k])[i] * (seed[k] ? mba_reference_at(r, seed[k])[i] : 1);
    return s;
}

/* The largest derivative of a parameter. */
static double largest(mba_reference *r, const mba_tensor *t)
{
    double     top = 0;
    mba_tensor g = *t;
    g.st = t->st->grad;
    for (int64_t i = 0; i < mba_elems(t); i++) top = fmax(top, fabs(mba_reference_at(r, &g)[i]));
    return top;
}

/* Derivatives below 1e-4 of the largest of all drown in the rounding of what they are part of: they are judged on
 * that scale. */
static double largest_derivative(mba_reference *r, const mba_graph *g)
{
    double most = 1e-2;
    for (int32_t k = 0; k < g->ntensors; k++)
        if (mba_is_param(g->tensors[k]) && g->tensors[k]->st->grad) most = fmax(most, largest(r, g->tensors[k]));
    return most;
}

/* Root mean square: the scale on which a parameter's values lie, and steps are measured. */
static double size_of(mba_reference *r, const mba_tensor *t)
{
    double s = 0;
    for (int64_t i = 0; i < mba_elems(t); i++) s += pow(mba_reference_at(r, t)[i], 2);
    return s > 0 ? sqrt(s / (double)mba_elems(t)) : 1;
}

/* Fourth-order central differences of every parameter element, against what backward left. */
static void check_gradient(mba_check *w, mba_reference *r, const mba_tensor *t, double least, int n,
                           mba_tensor *const out[], mba_tensor *const seed[])
{
    const double  h = 1e-3 * size_of(r, t);
    mba_tensor    g = *t;                         // the same window of the gradient
    g.st = t->st->grad;
    double *x = mba_reference_at(r, t), *dx = mba_reference_at(r, &g);
    const double top = fmax(least, largest(r, t));
    for (int64_t i = 0; i < mba_elems(t); i++) {
        const double at = x[i];
        double       f[4];
        for (int k = 0; k < 4; k++) {
            x[i] = at + h * (k < 2 ? k - 2 : k - 1);
            f[k] = objective(r, n, out, seed);
        }
        x[i] = at;
        worst(&w->grad_error, fabs((f[0] - 8 * f[1] + 8 * f[2] - f[3]) / (12 * h) - dx[i]) / top);
        w->values++;
    }
}

/* What fp32 may be off by, relative to the largest value of a tensor: every node rounds its result and
 * the functions in it (8 units), and a sum of K terms costs 4 sqrt(K) more; nodes add up along the graph. */
static double tolerance_of(const mba_graph *g)
{
    double units = 0;
    for (int32_t i = 0; i < g->nnodes; i++) {
        const mba_node *n = g->nodes[i];
        double          K = 1;
        for (int k = 0; k < MBA_OUT_MAX && n->op->terms; k++)
            if (n->out[k]) K = fmax(K, n->op->terms(n, k));
        units += 8 + 4 * sqrt(K);
    }
    return units / 16777216;
}

static void compare(mba_check *w, mba_reference *r, const mba_program *p, const mba_tensor *t, double least)
{
    const double *want = mba_reference_at(r, t);
    const float  *have = mba_program_at(p, t);
    double top = least;
    for (int64_t i = 0; i < mba_elems(t); i++) top = fmax(top, fabs(want[i]));
    const double tolerance = tolerance_of(p->graph);
    for (int64_t i = 0; i < mba_elems(t); i++) {
        const double error = fabs(have[i] - want[i]) / top;
        worst(&w->cpu_relative, error);
        worst(&w->cpu_error, error / tolerance);
    }
}

/* The CPU against the reference: results, and the whole gradient of every parameter, whichever windows wrote it. */
static mba_status check_cpu(mba_check *w, mba_reference *r, mba_program *p)
{
    const mba_graph *g = p->graph;
    guards           guard = { p, 0 };
    const mba_hooks  h = { guard_write, guard_look, &guard };
    if (p->memory[MBA_ACT]) memset(p->memory[MBA_ACT], 0xff, p->layout.arena_bytes[MBA_ACT]);    // NaN for early readers
    MBA_TRY(mba_program_run(p, MBA_FORWARD | MBA_BACKWARD, &step, &h));
    w->strays += guard.strays;
    const double most = largest_derivative(r, g);
    for (int32_t k = 0; k < g->ntensors; k++) {
        mba_tensor t = *g->tensors[k];
        if (t.st->role == MBA_RESULT && !t.of) compare(w, r, p, &t, 1e-6);
        if (!mba_is_param(&t) || !t.st->grad) continue;
        t.st = t.st->grad;
        /* a gradient that is zero because its terms cancel is as good as the terms */
        compare(w, r, p, &t, largest(r, g->tensors[k]) > 1e-10 * most ? 1e-4 * most : most);
    }
    return MBA_OK;
}

static mba_status check_variant(mba_check *w, mba_reference *r, const mba_graph *g, const char *variants)
{
    mba_program *p  = NULL;
    mba_status   st = mba_program_create(&p, g, &(mba_program_options){ .machine = &host, .variants = variants,
                                                                        .guard_bytes = GUARD_BYTES });
    if (st == MBA_OK) st = mba_program_bind(p, &mba_device_cpu);
    if (st == MBA_OK) {
        mba_program_init(p, 5);
        mba_fill_inputs(p);
        copy_inputs(r, p);
        mba_reference_run(r, MBA_FORWARD | MBA_BACKWARD, &step);
        st = check_cpu(w, r, p);
    }
    mba_program_destroy(p);
    return st;
}

mba_status mba_check_graph(mba_check *w, const mba_graph *g, int n, mba_tensor *const out[], mba_tensor *const seed[])
{
    mba_reference *r = NULL;
    mba_status st = mba_reference_create(&r, g);
    if (st == MBA_OK) st = check_variant(w, r, g, NULL);
    const double least = st == MBA_OK ? 1e-4 * largest_derivative(r, g) : 0;
    for (int32_t k = 0; k < g->ntensors && st == MBA_OK; k++)
        if (mba_is_param(g->tensors[k])) check_gradient(w, r, g->tensors[k], least, n, out, seed);
    mba_reference_destroy(r);
    return st;
}

/* An end: an output that wants a gradient and that no other node reads. */
static bool is_end(const mba_graph *g, int32_t i, const mba_tensor *t)
{
    bool used = !t || !t->needs_grad || !mba_dense(t);
    for (int32_t j = i + 1; !used && j < g->nnodes; j++)
        for (int m = 0; m < MBA_IN_MAX; m++) used |= g->nodes[j]->in[m] && g->nodes[j]->in[m]->st == t->st;
    return !used;
}

mba_status mba_case_build(mba_case_graph *o, const mba_op *op, const mba_case *c, bool recompute)
{
    *o = (mba_case_graph){ 0 };
    MBA_TRY(mba_graph_create(&o->g));
    mba_graph *g = o->g;
    g->recompute = recompute;
    op->build(g, c);
    for (int32_t i = 0, nodes = g->nnodes; i < nodes; i++)
        for (int k = 0; k < MBA_OUT_MAX; k++) {
            mba_tensor *t = g->nodes[i]->out[k];
            if (!is_end(g, i, t)) continue;
            mba_assert(o->n < MBA_ENDS_MAX);
            mba_result(g, mba_arena_printf(g->arena, "out.%d", o->n), t);
            o->seed[o->n]  = mba_input(g, mba_arena_printf(g->arena, "seed.%d", o->n), t->type);
            o->out[o->n++] = t;
        }
    mba_status st = mba_graph_status(g);
    if (st == MBA_OK) st = mba_backward_from(g, o->n, o->out, o->seed);
    if (st != MBA_OK) {
        mba_graph_destroy(g);
        o->g = NULL;
    }
    return st == MBA_OK ? st : mba_where(st, "%s, case \"%s\"", op->name, c->note);
}

/* Every further CPU variant of the operator and of its backward, against the same reference. */
static mba_status check_variants(mba_check *w, const mba_op *op, const mba_graph *g)
{
    mba_reference *r = NULL;
    mba_status     st = mba_reference_create(&r, g);
    for (const mba_variant *v = op->cpu ? op->cpu + 1 : NULL; v && st == MBA_OK && v[-1].name && v->name; v++) {
        char forced[128];
        snprintf(forced, sizeof forced, "%s=%s", op->name, v->name);
        st = check_variant(w, r, g, forced);
        if (st == MBA_E_UNSUPPORTED) st = MBA_OK;              // a variant may refuse a shape
    }
    mba_reference_destroy(r);
    return st;
}

static mba_status check_case(mba_check *w, const mba_op *op, const mba_case *c, bool recompute)
{
    mba_case_graph o;
    MBA_TRY(mba_case_build(&o, op, c, recompute));
    mba_status st = mba_check_graph(w, o.g, o.n, o.out, o.seed);
    if (st == MBA_OK) st = check_variants(w, op, o.g);
    mba_graph_destroy(o.g);
    return st == MBA_OK ? st : mba_where(st, "%s, case \"%s\"", op->name, c->note);
}

mba_status mba_check_op(mba_check *w, const mba_op *op)
{
    for (const mba_case *c = op->cases; c && c->note; c++) {
        MBA_TRY(check_case(w, op, c, false));
        MBA_TRY(check_case(w, op, c, true));
    }
    return MBA_OK;
}
