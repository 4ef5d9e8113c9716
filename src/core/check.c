// SPDX-License-Identifier: Apache-2.0
/* check.c -- see check.h. Each check compares a run of a program with one run of the fp64 reference from the same
 * inputs. */
#include "core/check.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "core/rng.h"

static const mba_step step = { .index = 2, .seed = 11 };

/* Keeps the larger error. NaN, once found, stays. */
static void worst(double *w, double e)
{
    if (isnan(e) || e > *w) *w = e;
}

/* The value of an input in a check: its example; else an index below its bound, or a real in -1 .. 1. */
static double input_value(const mba_tensor *t, int64_t i)
{
    uint32_t u[4];
    if (t->example) return t->example[i];
    mba_philox(u, mba_stream(t->name), 1, (uint64_t)i);
    return t->bound ? (double)(u[0] % (uint32_t)t->bound) : (float)(2 * mba_unit(u[0]) - 1);
}

static bool is_input(const mba_tensor *t) { return t->st->role == MBA_INPUT && !t->base && !t->producer_node; }

void mba_fill_inputs(mba_program *p)
{
    for (int32_t k = 0; k < p->graph->ntensors; k++) {
        const mba_tensor *t = p->graph->tensors[k];
        // Views get the values of the whole tensor; unused inputs have no memory.
        if (!is_input(t) || p->layout.first[t->st->id] < 0) continue;
        void *x = mba_program_host(p, t);
        MBA_PARALLEL_FOR(i, mba_elems(t))
        {
            if (t->type.dtype == MBA_I32) ((int32_t *)x)[i] = (int32_t)input_value(t, i);
            else if (t->type.dtype == MBA_BF16) ((uint16_t *)x)[i] = mba_to_bf16((float)input_value(t, i));
            else ((float *)x)[i] = (float)input_value(t, i);
        }
    }
}

/* One run of the reference, with which all variants of a graph are compared. */
typedef struct proof {
    mba_reference *r;
    bool           ran;
} proof;

/* Sets inputs, parameters and states of the program, and the same values in the reference unless it has run. If
 * activations are bf16, all reals are bf16 values: the device's error then contains no rounding of inputs. */
static mba_status begin(const proof *of, mba_program *p, bool states_only)
{
    mba_status st = MBA_OK;
    for (int32_t k = 0; k < p->graph->ntensors && st == MBA_OK; k++) {
        const mba_tensor *t = p->graph->tensors[k];
        const bool        state = mba_is_state(t) && p->layout.first[t->st->id] >= 0, index = t->type.dtype == MBA_I32;
        if (!state && (states_only || (!mba_is_param(t) && !is_input(t)))) continue;
        const int64_t n = mba_elems(t);
        double       *want = of->ran ? NULL : mba_reference_at(of->r, t);
        float        *x = calloc((size_t)n, sizeof *x);
        if (!x) return mba_fail(MBA_E_NOMEM, "no memory for %s", t->name);
        MBA_PARALLEL_FOR(i, n)
        {
            double v = is_input(t) ? input_value(t, i) : mba_init_value(t, 5, i);
            if (p->graph->compute == MBA_BF16 && !index) v = mba_from_bf16(mba_to_bf16((float)v));
            if (index) ((int32_t *)x)[i] = (int32_t)v;
            else x[i] = (float)v;
            if (want) want[i] = index ? (double)(int32_t)v : (double)x[i];
        }
        for (int q = 0; q < MBA_GROUPS && want && t->st->role == MBA_PARAM; q++) { // its compute copies, too
            mba_storage *copy = p->graph->copies[q];
            mba_tensor   beside = *t;
            beside.st = copy;
            if (copy && copy->master == t->st) memcpy(mba_reference_at(of->r, &beside), want, sizeof *want * (size_t)n);
        }
        st = mba_program_set(p, t, x);
        free(x);
    }
    return st;
}

/* ---- guards: bytes around every output and scratch, written before a node and checked after it ---- */

enum { GUARD_BYTES = MBA_ALIGN_BYTES, GUARD = 0xa5 };
typedef struct guards {
    const mba_program *p;
    int                strays;
} guards;

static bool guard_at(const mba_device *d, char *block, size_t bytes, bool write)
{
    bytes = (bytes + MBA_ALIGN_BYTES - 1) / MBA_ALIGN_BYTES * MBA_ALIGN_BYTES;
    bool kept = true;
    for (int side = 0; side < 2; side++) {
        char         *at = side ? block + bytes : block - GUARD_BYTES;
        unsigned char want[GUARD_BYTES], have[GUARD_BYTES];
        memset(want, GUARD, sizeof want);
        if (write) kept &= d->put(at, want, sizeof want) == MBA_OK;
        else kept &= d->get(have, at, sizeof have) == MBA_OK && !memcmp(have, want, sizeof want);
    }
    return kept;
}

static bool guard_node(const mba_program *p, const mba_node *n, bool write)
{
    bool kept = true;
    for (int k = 0; k < MBA_OUT_MAX; k++) {
        if (!mba_program_at(p, n->out[k])) continue;
        const mba_storage *st = n->out[k]->st;
        const mba_tensor   whole = { .type = MBA_TYPE(st->dtype, st->elems), .st = (mba_storage *)st };
        kept &= guard_at(p->device, mba_program_at(p, &whole), (size_t)st->elems * mba_dtype_bytes(st->dtype), write);
    }
    const mba_call *c = &p->call[n->id];
    if (c->work) kept &= guard_at(p->device, c->work, c->plan->work_bytes, write);
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

/* Runs the forward pass and sums outputs times seeds, whose derivatives the backward pass computes. *size is the sum of
 * absolute values of the terms, to which the rounding of *sum is proportional. */
static mba_status objective(double *sum, double *size, mba_reference *r, int n, mba_tensor *const out[],
                            mba_tensor *const seed[])
{
    *sum = *size = 0;
    MBA_TRY(mba_reference_run(r, MBA_FORWARD, &step));
    for (int k = 0; k < n; k++) {
        const double *value = mba_reference_at(r, out[k]), *weight = seed[k] ? mba_reference_at(r, seed[k]) : NULL;
        for (int64_t i = 0, elems = mba_elems(out[k]); i < elems; i++) {
            const double term = value[i] * (weight ? weight[i] : 1);
            *sum += term;
            *size += fabs(term);
        }
    }
    return MBA_OK;
}

/* The largest absolute derivative of a parameter. */
static double largest(mba_reference *r, const mba_tensor *t)
{
    double     top = 0;
    mba_tensor g = *t;
    g.st = t->st->grad;
    const double *dx = mba_reference_at(r, &g);
    for (int64_t i = 0, n = mba_elems(t); i < n; i++) top = fmax(top, fabs(dx[i]));
    return top;
}

/* The largest derivative of all parameters. Derivatives below 1e-4 of it drown in the rounding of the objective, so
 * their errors are relative to that scale. */
static double largest_derivative(mba_reference *r, const mba_graph *g)
{
    double most = 1e-2;
    for (int32_t k = 0; k < g->ntensors; k++)
        if (mba_is_param(g->tensors[k]) && g->tensors[k]->st->grad) most = fmax(most, largest(r, g->tensors[k]));
    return most;
}

/* The scale of a parameter, from which the step of differences follows: its root mean square, at most 1. Larger values
 * are logarithms and raw steps, which stand in exponents. */
static double size_of(mba_reference *r, const mba_tensor *t)
{
    double        s = 0;
    const double *x = mba_reference_at(r, t);
    for (int64_t i = 0; i < mba_elems(t); i++) s += x[i] * x[i];
    return s > 0 ? fmin(sqrt(s / (double)mba_elems(t)), 1) : 1;
}

/* Compares fourth-order central differences of every parameter element (with `stride`, of some) with the gradient. A
 * difference that the objective's own rounding explains is no error: tiny derivatives consist of nothing else. */
static mba_status check_gradient(mba_check *w, mba_reference *r, const mba_tensor *t, double least, int n,
                                 mba_tensor *const out[], mba_tensor *const seed[])
{
    const double h = 1e-3 * size_of(r, t);
    mba_assert(t->st->grad);
    mba_tensor g = *t; // the same view of the gradient
    g.st = t->st->grad;
    double      *x = mba_reference_at(r, t), *dx = mba_reference_at(r, &g);
    const double top = fmax(least, largest(r, t));
    for (int64_t i = 0; i<mba_elems(t); i += w->stride> 1 ? w->stride : 1) {
        const double at = x[i];
        double       f[4], size;
        for (int k = 0; k < 4; k++) {
            x[i] = at + h * (k < 2 ? k - 2 : k - 1);
            MBA_TRY(objective(&f[k], &size, r, n, out, seed));
        }
        x[i] = at;
        const double off = fabs((f[0] - 8 * f[1] + 8 * f[2] - f[3]) / (12 * h) - dx[i]);
        const double rounding = DBL_EPSILON * size / h;
        worst(&w->grad_error, off <= rounding ? 0 : off / top);
        w->values++;
    }
    return MBA_OK;
}

static bool touches_bf16(const mba_node *n)
{
    bool any = false;
    for (int k = 0; k < MBA_IN_MAX; k++) any |= n->in[k] && n->in[k]->type.dtype == MBA_BF16;
    for (int k = 0; k < MBA_OUT_MAX; k++) any |= n->out[k] && n->out[k]->type.dtype == MBA_BF16;
    return any;
}

/* The tolerance of fp32 results, relative to the largest value of a tensor. Every node rounds its result and
 * the functions in it (8 units in the last place); a sum of K terms adds 4 sqrt(K) units. Nodes add up along the graph.
 * A node with bf16 operands rounds its result and the operands of tensor cores to bf16: 4 units of bf16. One whose fp32
 * operands are multiplied in TF32: 4 units (2^-11) of that for each of its products in sequence (ssd: C B^T, then its
 * product with x), two per operand, which libraries may truncate. */
static double tolerance_of(const mba_graph *g)
{
    double units = 0, halves = 0, tf32 = 0;
    for (int32_t i = 0; i < g->nnodes; i++) {
        const mba_node *n = g->nodes[i];
        double          K = 1;
        for (int k = 0; k < MBA_OUT_MAX && n->op->terms; k++)
            if (n->out[k]) K = fmax(K, n->op->terms(n, k));
        units += 8 + 4 * sqrt(K);
        halves += touches_bf16(n) ? 4 : 0;
        tf32 += n->tf32 ? 4 * n->op->tf32 : 0;
    }
    return units / 16777216 + halves / 512 + tf32 / 2048;
}

/* Copies a tensor from the device; the caller frees it. */
static mba_status fetch(float **out, const mba_program *p, const mba_tensor *t)
{
    *out = malloc(sizeof **out * (size_t)mba_elems(t));
    if (!*out) return mba_fail(MBA_E_NOMEM, "no memory for %s", t->name);
    return mba_program_get(p, t, *out);
}

/* Smaller norms belong to gradients that vanish: fp32 cannot hold their squares. */
static const double NO_NORM = 1e-18;

static void compare_norms(mba_check *w, const mba_tensor *t, const double *want, const float *have)
{
    double diff = 0, norm = 0;
    for (int64_t i = 0; i < mba_elems(t); i++) {
        diff += (have[i] - want[i]) * (have[i] - want[i]);
        norm += want[i] * want[i];
    }
    const double error = sqrt(diff) / fmax(sqrt(norm), NO_NORM);
    if (error <= w->norm_error) return;
    w->norm_error = error; // NaN too
    w->norm_tensor = t->name;
}

static void compare(mba_check *w, mba_reference *r, const mba_program *p, const mba_tensor *t, double least,
                    const float *have)
{
    const double *want = mba_reference_at(r, t), tolerance = tolerance_of(p->graph);
    const int64_t n = mba_elems(t);
    double        top = least;
    for (int64_t i = 0; i < n; i++) top = fmax(top, fabs(want[i]));
    for (int64_t i = 0; i < n; i++) {
        const double error = fabs(have[i] - want[i]) / top;
        worst(&w->cpu_relative, error);
        worst(&w->cpu_error, error / tolerance);
    }
    compare_norms(w, t, want, have);
}

/* Fills an arena from a buffer that fits into a cache: the scratch of a convolution is 256 MB. */
static mba_status fill(const mba_program *p, mba_role role, int byte)
{
    const size_t bytes = p->layout.arena_bytes[role], part = 1 << 20;
    char        *buffer = malloc(part), *to = p->memory[role];
    mba_status   st = buffer ? MBA_OK : mba_fail(MBA_E_NOMEM, "no memory for a check");
    if (buffer) memset(buffer, byte, part);
    for (size_t at = 0; at < bytes && st == MBA_OK; at += part)
        st = p->device->put(to + at, buffer, bytes - at < part ? bytes - at : part);
    free(buffer);
    return st;
}

/* Fills activations with NaN, which shows in the results if a node reads what is not written yet. */
static mba_status spoil(const mba_program *p) { return fill(p, MBA_ACT, 0xff); }

/* True for tensors that are compared: results, and the whole gradient of every parameter. *as is the tensor to
 * compare. */
static bool judged(const mba_tensor *made, mba_tensor *as)
{
    *as = *made;
    if (made->st->role == MBA_RESULT && !made->base) return true;
    if (mba_is_param(made)) as->st = made->st->grad;
    return mba_is_param(made) && as->st;
}

/* Runs the program with guards and compares it with the reference. first[k] receives the values of each compared
 * tensor. */
static mba_status check_device(mba_check *w, mba_reference *r, mba_program *p, float **first)
{
    const mba_graph *g = p->graph;
    guards           guard = { p, 0 };
    const mba_hooks  h = { guard_write, guard_look, &guard };
    MBA_TRY(spoil(p));
    MBA_TRY(mba_program_run(p, MBA_FORWARD | MBA_BACKWARD, &step, &h));
    w->strays += guard.strays;
    const double most = largest_derivative(r, g);
    mba_tensor   t;
    for (int32_t k = 0; k < g->ntensors; k++) {
        if (!judged(g->tensors[k], &t)) continue;
        const bool gradient = mba_is_param(g->tensors[k]);
        // A gradient that is zero because its terms cancel has the errors of the terms.
        const bool cancels = gradient && largest(r, g->tensors[k]) <= 1e-10 * most;
        MBA_TRY(fetch(&first[k], p, &t));
        compare(w, r, p, &t, !gradient ? 1e-6 : cancels ? most : 1e-4 * most, first[k]);
    }
    return MBA_OK;
}

/* Runs again from the same values, without hooks as in a training step, over what the first run left in memory. Counts
 * tensors whose bits differ. */
static mba_status check_repeats(mba_check *w, const proof *of, mba_program *p, float *const *first)
{
    mba_tensor t;
    MBA_TRY(begin(of, p, true));
    MBA_TRY(fill(p, MBA_GRAD, 0)); // as the optimizer leaves it
    MBA_TRY(mba_program_run(p, MBA_FORWARD | MBA_BACKWARD, &step, NULL));
    for (int32_t k = 0; k < p->graph->ntensors; k++) {
        float *second = NULL;
        if (!judged(p->graph->tensors[k], &t)) continue;
        const mba_status st = fetch(&second, p, &t);
        w->changed += st == MBA_OK && memcmp(first[k], second, sizeof *second * (size_t)mba_elems(&t));
        free(second);
        MBA_TRY(st);
    }
    return MBA_OK;
}

/* Checks a program whose inputs are set: one run, and a second unless `once`. */
static mba_status check_runs(mba_check *w, const proof *of, mba_program *p, bool once)
{
    float    **first = calloc((size_t)p->graph->ntensors + 1, sizeof *first);
    mba_status st = first ? check_device(w, of->r, p, first) : mba_fail(MBA_E_NOMEM, "no memory for a check");
    if (st == MBA_OK && !once) st = check_repeats(w, of, p, first);
    for (int32_t k = 0; first && k < p->graph->ntensors; k++) free(first[k]);
    free(first);
    return st;
}

static mba_status check_variant(mba_check *w, proof *of, const mba_graph *g, const mba_device *d, const char *variants)
{
    mba_program              *p = NULL;
    const mba_program_options how = {
        .cuda = d->machine->cc > 0, .machine = d->machine, .variants = variants, .guard_bytes = GUARD_BYTES
    };
    mba_status st = mba_program_create(&p, g, &how);
    if (st == MBA_OK) st = mba_program_bind(p, d);
    if (st == MBA_OK) st = begin(of, p, false);
    mba_check one = { 0 };
    if (st == MBA_OK && !of->ran) st = mba_reference_run(of->r, MBA_FORWARD | MBA_BACKWARD, &step);
    of->ran |= st == MBA_OK;
    if (st == MBA_OK) st = check_runs(&one, of, p, w->once);
    if (st == MBA_OK && w->told) w->told(w->ctx, p, &one);
    worst(&w->cpu_error, one.cpu_error);
    worst(&w->cpu_relative, one.cpu_relative);
    if (!(one.norm_error <= w->norm_error)) w->norm_error = one.norm_error, w->norm_tensor = one.norm_tensor;
    w->strays += one.strays;
    w->changed += one.changed;
    mba_program_destroy(p);
    return st;
}

mba_status mba_check_graph(mba_check *w, const mba_graph *g, int n, mba_tensor *const out[], mba_tensor *const seed[])
{
    proof      of = { 0 };
    mba_status st = mba_reference_create(&of.r, g);
    if (st == MBA_OK) st = check_variant(w, &of, g, &mba_device_cpu, NULL);
    const double least = st == MBA_OK ? 1e-4 * largest_derivative(of.r, g) : 0;
    for (int32_t k = 0; k < g->ntensors && st == MBA_OK; k++)
        if (mba_is_param(g->tensors[k])) st = check_gradient(w, of.r, g->tensors[k], least, n, out, seed);
    mba_reference_destroy(of.r);
    return st;
}

/* True for an end of the graph: an output that needs a gradient and that no node reads. */
static bool is_end(const mba_graph *g, int32_t i, const mba_tensor *t)
{
    bool used = !t || !t->needs_grad || !mba_dense(t);
    for (int32_t j = i + 1; !used && j < g->nnodes; j++)
        for (int m = 0; m < MBA_IN_MAX; m++) used |= g->nodes[j]->in[m] && g->nodes[j]->in[m]->st == t->st;
    return !used;
}

mba_status mba_case_build(mba_case_graph *o, const mba_op *op, const mba_case *c, mba_case_how how)
{
    *o = (mba_case_graph){ 0 };
    MBA_TRY(mba_graph_create(&o->g));
    mba_graph *g = o->g;
    g->recompute = how.recompute;
    if (how.compute != MBA_NONE) g->compute = how.compute;
    g->tf32 = how.tf32;
    op->build(g, c);
    for (int32_t i = 0, nodes = g->nnodes; i < nodes; i++)
        for (int k = 0; k < MBA_OUT_MAX; k++) {
            mba_tensor *t = g->nodes[i]->out[k];
            if (!is_end(g, i, t)) continue;
            mba_assert(o->n < MBA_ENDS_MAX);
            mba_result(g, mba_arena_printf(g->arena, "out.%d", o->n), t);
            o->seed[o->n] = mba_input(g, mba_arena_printf(g->arena, "seed.%d", o->n), t->type);
            o->out[o->n++] = t;
        }
    mba_status st = mba_graph_status(g);
    if (st == MBA_OK && !how.alone) st = mba_backward_from(g, o->n, o->out, o->seed);
    if (st != MBA_OK) {
        mba_graph_destroy(g);
        o->g = NULL;
    }
    return st == MBA_OK ? st : mba_where(st, "%s, case \"%s\"", op->name, c->note);
}

/* Checks every variant of one operator but the first, with the same reference. */
static mba_status check_variants(mba_check *w, proof *of, const mba_op *op, const mba_graph *g, const mba_device *d)
{
    const mba_variant *all = d->machine->cc > 0 ? op->cuda : op->cpu;
    mba_status         st = MBA_OK;
    for (const mba_variant *v = all ? all + 1 : NULL; v && st == MBA_OK && v[-1].name && v->name; v++) {
        char forced[128];
        snprintf(forced, sizeof forced, "%s=%s", op->name, v->name);
        st = check_variant(w, of, g, d, forced);
        if (st == MBA_E_UNSUPPORTED) st = MBA_OK; // a variant may refuse the shape
    }
    return st;
}

/* Checks the variants of the operator and of its backward operators, each once. */
static mba_status check_all_variants(mba_check *w, proof *of, const mba_op *op, const mba_graph *g, const mba_device *d)
{
    mba_status    st = check_variants(w, of, op, g, d);
    const mba_op *last = NULL;
    for (int32_t i = 0; i < g->nnodes && st == MBA_OK; i++) {
        const mba_node *n = g->nodes[i];
        if (n->pass != MBA_BACKWARD || !n->serves_node || n->serves_node->op != op || n->op == op || n->op == last)
            continue;
        if (n->op->kind != op->kind) continue;
        st = check_variants(w, of, last = n->op, g, d);
    }
    return st;
}

static mba_status check_case(mba_check *w, const mba_op *op, const mba_case *c, bool recompute)
{
    mba_case_graph o;
    proof          of = { 0 };
    MBA_TRY(mba_case_build(&o, op, c, (mba_case_how){ .recompute = recompute }));
    mba_status st = mba_check_graph(w, o.g, o.n, o.out, o.seed);
    if (st == MBA_OK) st = mba_reference_create(&of.r, o.g);
    if (st == MBA_OK) st = check_all_variants(w, &of, op, o.g, &mba_device_cpu);
    mba_reference_destroy(of.r);
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

mba_status mba_check_case_on(mba_check *w, const mba_op *op, const mba_case *c, const mba_device *d, mba_dtype compute)
{
    mba_case_graph o;
    proof          of = { 0 };
    MBA_TRY(mba_case_build(&o, op, c, (mba_case_how){ .compute = compute, .tf32 = w->tf32 }));
    mba_status st = mba_reference_create(&of.r, o.g);
    if (st == MBA_OK) st = check_variant(w, &of, o.g, d, NULL);
    if (st == MBA_OK) st = check_all_variants(w, &of, op, o.g, d);
    mba_reference_destroy(of.r);
    mba_graph_destroy(o.g);
    return st == MBA_OK ? st : mba_where(st, "%s, case \"%s\"", op->name, c->note);
}

mba_status mba_check_op_on(mba_check *w, const mba_op *op, const mba_device *d, mba_dtype compute)
{
    for (const mba_case *c = op->cases; c && c->note; c++) MBA_TRY(mba_check_case_on(w, op, c, d, compute));
    for (const mba_case *c = op->device_cases; c && c->note; c++) MBA_TRY(mba_check_case_on(w, op, c, d, compute));
    return MBA_OK;
}
