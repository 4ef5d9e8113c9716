/* check.c -- see check.h. */
#include "core/check.h"

#include <math.h>
#include <string.h>
#include "core/rng.h"

static const mba_machine host = { .name = "host" };
static const mba_step    step = { .index = 2, .seed = 11 };

static void worst(double *w, double e) { if (isnan(e) || e > *w) *w = e; }     // NaN stays

static bool is_param(const mba_tensor *t)
{
    return t->st->role == MBA_PARAM && t->needs_grad && !t->maker && mba_dense(t);
}

/* What an input holds in a test: indices cycle below their bound, reals are spread over -1 .. 1. */
static double input_value(const mba_tensor *t, int64_t i)
{
    uint32_t u[4];
    mba_philox(u, mba_stream(t->name), 1, (uint64_t)i);
    return t->bound ? (double)(u[0] % (uint32_t)t->bound) : (float)(2 * mba_unit(u[0]) - 1);
}

static void set_inputs(mba_reference *r, mba_program *p)
{
    for (int32_t k = 0; k < p->graph->ntensors; k++) {
        const mba_tensor *t = p->graph->tensors[k];
        if (!is_param(t) && (t->st->role != MBA_INPUT || t->of)) continue;        // windows see what they are cut from
        for (int64_t i = 0; i < mba_elems(t); i++) {
            const double v = is_param(t) ? mba_init_value(t, 5, i) : input_value(t, i);
            mba_reference_at(r, t)[i] = v;
            if (t->type.dtype == MBA_I32) ((int32_t *)mba_program_at(p, t))[i] = (int32_t)v;
            else                          ((float *)mba_program_at(p, t))[i] = (float)v;
        }
    }
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

/* Fourth-order central differences of every parameter element, against what backward left. */
static void check_gradient(mba_check *w, mba_reference *r, const mba_tensor *t, int n,
                           mba_tensor *const out[], mba_tensor *const seed[])
{
    const double  h = 1e-3;
    mba_tensor    g = *t;                         // the same window of the gradient
    g.st = t->st->grad;
    double *x = mba_reference_at(r, t), *dx = mba_reference_at(r, &g), top = 1e-6;
    for (int64_t i = 0; i < mba_elems(t); i++) top = fmax(top, fabs(dx[i]));
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

static void compare(mba_check *w, mba_reference *r, const mba_program *p, const mba_tensor *t)
{
    const double *want = mba_reference_at(r, t);
    const float  *have = mba_program_at(p, t);
    double top = 1e-6;
    for (int64_t i = 0; i < mba_elems(t); i++) top = fmax(top, fabs(want[i]));
    top *= tolerance_of(p->graph);
    for (int64_t i = 0; i < mba_elems(t); i++) worst(&w->cpu_error, fabs(have[i] - want[i]) / top);
}

mba_status mba_check_graph(mba_check *w, const mba_graph *g, int n, mba_tensor *const out[], mba_tensor *const seed[])
{
    mba_program   *p = NULL;
    mba_reference *r = NULL;
    mba_status st = mba_program_create(&p, g, &(mba_program_options){ .machine = &host });
    if (st == MBA_OK) st = mba_program_bind(p, &mba_device_cpu);
    if (st == MBA_OK) st = mba_reference_create(&r, g);
    if (st == MBA_OK) set_inputs(r, p);
    if (st == MBA_OK) memset(p->memory[MBA_ACT], 0xff, p->layout.arena_bytes[MBA_ACT]);   // NaN for early readers
    if (st == MBA_OK) st = mba_program_run(p, MBA_FORWARD | MBA_BACKWARD, &step, NULL);
    if (st == MBA_OK) {
        mba_reference_run(r, MBA_FORWARD | MBA_BACKWARD, &step);
        for (int32_t k = 0; k < g->ntensors; k++) {
            mba_tensor t = *g->tensors[k];
            if (t.st->role == MBA_RESULT) compare(w, r, p, &t);
            if (!is_param(&t)) continue;
            t.st = t.st->grad;                    // the whole of it, whichever windows wrote it
            compare(w, r, p, &t);
        }
        for (int32_t k = 0; k < g->ntensors; k++)
            if (is_param(g->tensors[k])) check_gradient(w, r, g->tensors[k], n, out, seed);
    }
    mba_reference_destroy(r);
    mba_program_destroy(p);
    return st;
}

static mba_status check_case(mba_check *w, const mba_op *op, const mba_case *c, bool recompute)
{
    mba_graph  *g;
    mba_tensor *out[16], *seed[16];
    int         n = 0;
    MBA_TRY(mba_graph_create(&g));
    g->recompute = recompute;
    op->build(g, c);
    for (int32_t i = 0; i < g->nnodes; i++)
        for (int k = 0; k < MBA_OUT_MAX; k++) {                        // every end gets a random gradient
            mba_tensor *t = g->nodes[i]->out[k];
            bool used = !t || !t->needs_grad || !mba_dense(t);
            for (int32_t j = i + 1; !used && j < g->nnodes; j++)
                for (int m = 0; m < MBA_IN_MAX; m++) used |= g->nodes[j]->in[m] && g->nodes[j]->in[m]->st == t->st;
            if (used) continue;
            mba_assert(n < 16);
            mba_result(g, mba_arena_printf(g->arena, "out.%d", n), t);
            seed[n]  = mba_input(g, mba_arena_printf(g->arena, "seed.%d", n), t->type);
            out[n++] = t;
        }
    mba_status st = mba_graph_status(g);
    if (st == MBA_OK) st = mba_backward_from(g, n, out, seed);
    if (st == MBA_OK) st = mba_check_graph(w, g, n, out, seed);
    mba_graph_destroy(g);
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
