// SPDX-License-Identifier: Apache-2.0
/* emulate_operators.c -- see emulate_operators.h. */
#include "cli/emulate_operators.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/check.h"
#include "core/device.h"
#include "core/file.h"
#include "core/program.h"
#include "core/version.h"
#include "study/emulated_operators.h"

enum { RUNS = 7, LAUNCHES_MAX = 64 };

/* The program of one operator, forward and backward, and the times of its launches. */
typedef struct operator_run {
    const mba_emulated_operator *is;
    mba_case_graph               of;
    mba_program                 *p;
    double                      *us; /* per node and launch: the runs of one machine */
    unsigned                     passes;
    int                          run;
    mba_status                   st;
} operator_run;

static double *times_of(const operator_run *o, int32_t node, int launch)
{
    mba_assert(launch < LAUNCHES_MAX);
    return o->us + ((int64_t)node * LAUNCHES_MAX + launch) * RUNS;
}

static bool is_ssm(const mba_node *n) { return n->op->kind == MBA_SSM; }
static bool is_timed(const operator_run *o, const mba_node *n) { return is_ssm(n) && (n->pass & o->passes); }

static void before(void *ctx, const mba_node *n, const mba_plan *plan)
{
    operator_run *o = ctx;
    (void)plan;
    if (is_ssm(n) && o->st == MBA_OK) o->st = mba_launch_times_start(o->p->device->stream);
}

static void after(void *ctx, const mba_node *n, const mba_plan *plan)
{
    operator_run *o = ctx;
    double        us[LAUNCHES_MAX];
    int           count = 0;
    if (!is_ssm(n) || o->st != MBA_OK) return;
    o->st = mba_launch_times_stop(us, LAUNCHES_MAX, &count);
    if (o->st == MBA_OK && count != plan->nlaunches)
        o->st = mba_fail(MBA_E_DEVICE, "%s has %d launches, its plan %d", n->op->name, count, plan->nlaunches);
    for (int k = 0; k < count && o->st == MBA_OK; k++) times_of(o, n->id, k)[o->run] = us[k];
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Sets times_of()[0] to the median of the runs beside `how`. The kernels have run before, so that no code is loaded
 * while blocks are resident. */
static mba_status time_beside(operator_run *o, const mba_disturb_how *how, mba_disturbed *taken)
{
    static const mba_step step = { .seed = 1, .lr = 1e-3f };
    const mba_hooks       h = { before, after, o };
    mba_disturb          *d = NULL;
    MBA_TRY(mba_disturb_start(&d, how));
    o->st = MBA_OK;
    mba_status st = MBA_OK;
    for (o->run = 0; o->run < RUNS && st == MBA_OK; o->run++) {
        st = mba_program_run(o->p, o->passes, &step, &h);
        if (st == MBA_OK) st = o->st;
    }
    const mba_status ended = mba_disturb_stop(d, taken);
    for (int32_t i = 0; i < o->of.g->nnodes && st == MBA_OK; i++)
        for (int k = 0; is_timed(o, o->of.g->nodes[i]) && k < o->p->plan[i]->nlaunches; k++) {
            double *t = times_of(o, i, k);
            qsort(t, RUNS, sizeof *t, by_size);
            t[0] = t[RUNS / 2];
        }
    return st == MBA_OK ? ended : st;
}

static mba_status write_rows(mba_writer *w, const operator_run *o, const mba_emulated_machine *e, const double *base_us,
                             const char *base, const char *changes)
{
    char line[640];
    for (int32_t i = 0; i < o->of.g->nnodes; i++) {
        const mba_node *n = o->of.g->nodes[i];
        for (int k = 0; is_timed(o, n) && k < o->p->plan[i]->nlaunches; k++) {
            const double us = base_us[(int64_t)i * LAUNCHES_MAX + k], now = times_of(o, i, k)[0];
            const int    bytes = snprintf(line, sizeof line, "%s\t%s\t%s\t%d\t%.63s\t%s\t%s\t%.3f\t%.3f\n", e->name,
                                          o->is->workload, n->op->name, k, o->p->plan[i]->launch[k].kernel,
                                       *base ? base : "-", *changes ? changes : "-", us, now);
            mba_assert(bytes > 0 && bytes < (int)sizeof line);
            fprintf(stderr, "%s", line); // seconds pass until the file is there
            MBA_TRY(mba_writer_put(w, line, (size_t)bytes));
        }
    }
    return MBA_OK;
}

static mba_status emulate_one(mba_writer *w, operator_run *o, const mba_emulated_machine *e, const mba_gpu *m)
{
    const mba_disturb_how how = mba_emulated_base(e);
    o->passes = mba_emulated_passes(o->is, &e->how);
    if (!o->passes) return MBA_OK;
    mba_disturbed then = { 0 }, now = { 0 };
    const int64_t all = (int64_t)o->of.g->nnodes * LAUNCHES_MAX;
    double       *us = calloc((size_t)all, sizeof *us);
    mba_status    st = us ? time_beside(o, &how, &then) : mba_fail(MBA_E_NOMEM, "no memory for times");
    for (int64_t i = 0; i < all && st == MBA_OK; i++) us[i] = o->us[i * RUNS];
    if (st == MBA_OK) st = time_beside(o, &e->how, &now);
    if (st == MBA_OK) {
        const mba_emulated_text base = mba_emulated_changes(&how, &then, m),
                                changes = mba_emulated_changes(&e->how, &now, m);
        st = write_rows(w, o, e, us, base.text, changes.text);
    }
    free(us);
    return st;
}

static mba_status open_operator(operator_run *o, const mba_emulated_operator *is, const mba_device *d)
{
    static const mba_step step = { .seed = 1, .lr = 1e-3f };
    const mba_op         *op;
    *o = (operator_run){ .is = is };
    MBA_TRY(mba_op_named(&op, is->op));
    const mba_case *like = op->sizes;
    while (like->note && strcmp(like->note, is->like)) like++;
    mba_assert(like->note);
    mba_case size = *like;
    memcpy(size.dim, is->dim, sizeof is->dim);
    MBA_TRY(mba_case_build(&o->of, op, &size, (mba_case_how){ .compute = MBA_BF16 }));
    const mba_program_options how = { .cuda = true, .machine = d->machine, .variants = is->variant };
    o->us = calloc((size_t)o->of.g->nnodes * LAUNCHES_MAX * RUNS, sizeof *o->us);
    mba_status st = o->us ? mba_program_create(&o->p, o->of.g, &how) : mba_fail(MBA_E_NOMEM, "no memory for times");
    if (st == MBA_OK) st = mba_program_bind(o->p, d);
    if (st == MBA_OK) st = mba_program_init(o->p, 1);
    if (st != MBA_OK) return st;
    mba_fill_inputs(o->p);
    for (int i = 0; i < 3 && st == MBA_OK; i++) st = mba_program_run(o->p, MBA_FORWARD | MBA_BACKWARD, &step, NULL);
    return st == MBA_OK ? mba_program_wait(o->p) : st;
}

static void close_operator(operator_run *o)
{
    free(o->us);
    mba_program_destroy(o->p);
    mba_graph_destroy(o->of.g);
}

mba_status mba_emulate_operators(const char *path)
{
    static const char head[] = "# Made by `mambascope calibrate --emulate-operators`, commit " MBA_COMMIT
                               ": machine, workload, operator, place, kernel, changes of the baseline, changes, us, us "
                               "emulated (study/emulated_operators.h).\n";
    const mba_device *d;
    mba_writer       *w = NULL;
    mba_gpu           m;
    MBA_TRY(mba_device_cuda(&d, 0));
    MBA_TRY(mba_gpu_load(&m, "h200"));
    MBA_TRY(mba_writer_create(&w, path));
    mba_status st = mba_writer_put(w, head, sizeof head - 1);
    for (const mba_emulated_operator *is = mba_emulated_operators; is->workload && st == MBA_OK; is++) {
        operator_run o;
        st = open_operator(&o, is, d);
        for (const mba_emulated_machine *e = mba_emulated_machines; e->name && st == MBA_OK; e++)
            st = emulate_one(w, &o, e, &m);
        close_operator(&o);
    }
    if (st == MBA_OK) st = mba_writer_commit(w);
    mba_writer_destroy(w);
    return st;
}
