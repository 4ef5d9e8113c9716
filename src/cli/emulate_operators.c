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
    double                      *us;    /* per node and launch: the runs of one machine */
    mba_disturbed               *taken; /* per node and launch: by resident blocks, in a run of its own */
    unsigned                     passes, dropped;
    int                          run;
    mba_disturb                 *watched; /* NULL: launches are timed */
    mba_status                   st;
} operator_run;

static double *times_of(const operator_run *o, int32_t node, int launch)
{
    mba_assert(launch < LAUNCHES_MAX);
    return o->us + ((int64_t)node * LAUNCHES_MAX + launch) * RUNS;
}

static mba_disturbed *taken_of(const operator_run *o, int32_t node, int launch)
{
    mba_assert(launch < LAUNCHES_MAX);
    return o->taken + (int64_t)node * LAUNCHES_MAX + launch;
}

static bool is_ssm(const mba_node *n) { return n->op->kind == MBA_SSM; }
static bool is_timed(const operator_run *o, const mba_node *n) { return is_ssm(n) && (n->pass & o->passes); }

static void before(void *ctx, const mba_node *n, const mba_plan *plan)
{
    operator_run *o = ctx;
    (void)plan;
    if (!is_ssm(n) || o->st != MBA_OK) return;
    o->st = o->watched ? mba_disturb_watch_start(o->watched, o->p->device->stream)
                       : mba_launch_times_start(o->p->device->stream);
}

static void after(void *ctx, const mba_node *n, const mba_plan *plan)
{
    operator_run *o = ctx;
    double        us[LAUNCHES_MAX];
    int           count = 0;
    if (!is_ssm(n) || o->st != MBA_OK) return;
    o->st = o->watched ? mba_disturb_watch_stop(o->watched, taken_of(o, n->id, 0), LAUNCHES_MAX, &count)
                       : mba_launch_times_stop(us, LAUNCHES_MAX, &count);
    if (o->st == MBA_OK && count != plan->nlaunches)
        o->st = mba_fail(MBA_E_DEVICE, "%s has %d launches, its plan %d", n->op->name, count, plan->nlaunches);
    for (int k = 0; k < count && o->st == MBA_OK && !o->watched; k++) times_of(o, n->id, k)[o->run] = us[k];
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static mba_status run_once(operator_run *o)
{
    static const mba_step step = { .seed = 1, .lr = 1e-3f };
    const mba_hooks       h = { before, after, o };
    o->st = MBA_OK;
    const mba_status st = mba_program_run(o->p, o->passes, &step, &h);
    return st == MBA_OK ? o->st : st;
}

/* Sets times_of()[0] to the median of the runs beside `how`, and what it took. The kernels have run before, so that no
 * code is loaded while blocks are resident. */
static mba_status time_beside(operator_run *o, const mba_disturb_how *how, mba_disturb_fate *fate)
{
    mba_disturb *d = NULL;
    MBA_TRY(mba_disturb_start(&d, how));
    mba_status st = MBA_OK;
    for (o->run = 0; o->run < RUNS && st == MBA_OK; o->run++) st = run_once(o);
    o->watched = how->kind >= MBA_DISTURB_SLEEP ? d : NULL;
    if (o->watched && st == MBA_OK) st = run_once(o);
    o->watched = NULL;
    const mba_status ended = mba_disturb_stop(d, fate);
    for (int32_t i = 0; i < o->of.g->nnodes && st == MBA_OK; i++)
        for (int k = 0; is_timed(o, o->of.g->nodes[i]) && k < o->p->plan[i]->nlaunches; k++) {
            double *t = times_of(o, i, k);
            qsort(t, RUNS, sizeof *t, by_size);
            t[0] = t[RUNS / 2];
        }
    return st == MBA_OK ? ended : st;
}

/* One machine beside one operator: what was measured of every launch on it and on its baseline. */
typedef struct comparison {
    const mba_emulated_machine *e;
    mba_disturb_how             base;
    mba_disturb_fate            fate, base_fate;
    double                     *base_us; /* per node and launch */
    mba_disturbed              *base_taken;
} comparison;

static mba_status write_row(mba_writer *w, const operator_run *o, const mba_emulated_row *r)
{
    char      line[720];
    const int bytes = snprintf(line, sizeof line, "%s\t%s\t%s\t%d\t%.63s\t%s\t%s\t%.3f\t%.3f\t%s\n", r->machine,
                               o->is->workload, r->op, r->place, r->kernel, *r->base ? r->base : "-",
                               *r->changes ? r->changes : "-", r->us, r->emulated_us, *r->note ? r->note : "-");
    mba_assert(bytes > 0 && bytes < (int)sizeof line);
    fprintf(stderr, "%s", line); // seconds pass until the file is there
    return mba_writer_put(w, line, (size_t)bytes);
}

static mba_emulated_row row_of(const operator_run *o, const mba_emulated_machine *e, int32_t node, int launch)
{
    mba_emulated_row r = { .place = launch };
    snprintf(r.machine, sizeof r.machine, "%s", e->name);
    snprintf(r.op, sizeof r.op, "%s", o->of.g->nodes[node]->op->name);
    snprintf(r.kernel, sizeof r.kernel, "%.63s", o->p->plan[node]->launch[launch].kernel);
    return r;
}

static mba_status write_rows(mba_writer *w, const operator_run *o, const comparison *c, const mba_gpu *m)
{
    for (int32_t i = 0; i < o->of.g->nnodes; i++)
        for (int k = 0; is_timed(o, o->of.g->nodes[i]) && k < o->p->plan[i]->nlaunches; k++) {
            const mba_disturbed *now = taken_of(o, i, k), *then = &c->base_taken[(int64_t)i * LAUNCHES_MAX + k];
            mba_emulated_row     r = row_of(o, c->e, i, k);
            r.us = c->base_us[(int64_t)i * LAUNCHES_MAX + k];
            r.emulated_us = times_of(o, i, k)[0];
            snprintf(r.base, sizeof r.base, "%s", mba_emulated_changes(&c->base, then, m).text);
            snprintf(r.changes, sizeof r.changes, "%s", mba_emulated_changes(&c->e->how, now, m).text);
            const char *wrong = mba_emulated_fault(&c->base, then, &c->base_fate, m);
            if (!wrong) wrong = mba_emulated_fault(&c->e->how, now, &c->fate, m);
            snprintf(r.note, sizeof r.note, "%s", wrong ? wrong : "");
            MBA_TRY(write_row(w, o, &r));
        }
    return MBA_OK;
}

/* A pass runs beside resident blocks if they leave room for every launch in it; the others' launches get rows that say
 * why they have no times. */
static mba_status drop_passes(mba_writer *w, operator_run *o, const mba_emulated_machine *e, const mba_gpu *m)
{
    for (unsigned pass = MBA_FORWARD; pass <= MBA_BACKWARD; pass <<= 1) {
        char note[sizeof((mba_emulated_row *)0)->note] = "";
        o->passes = pass;
        for (int32_t i = 0; i < o->of.g->nnodes; i++)
            for (int k = 0; is_timed(o, o->of.g->nodes[i]) && k < o->p->plan[i]->nlaunches && !*note; k++) {
                const mba_launch         *l = &o->p->plan[i]->launch[k];
                const mba_emulated_block  b = { l->block, l->regs, (double)l->smem_bytes };
                const mba_emulated_reason none = mba_emulated_no_room(&e->how, &b, l->kernel, m);
                snprintf(note, sizeof note, "%s", none.text);
            }
        for (int32_t i = 0; i < o->of.g->nnodes && *note; i++)
            for (int k = 0; is_timed(o, o->of.g->nodes[i]) && k < o->p->plan[i]->nlaunches; k++) {
                mba_emulated_row r = row_of(o, e, i, k);
                snprintf(r.note, sizeof r.note, "%s", note);
                MBA_TRY(write_row(w, o, &r));
            }
        if (*note) o->dropped |= pass;
    }
    return MBA_OK;
}

static mba_status emulate_one(mba_writer *w, operator_run *o, const mba_emulated_machine *e, const mba_gpu *m)
{
    const int64_t all = (int64_t)o->of.g->nnodes * LAUNCHES_MAX;
    comparison    c = { .e = e, .base = mba_emulated_base(e) };
    o->dropped = 0;
    MBA_TRY(drop_passes(w, o, e, m));
    o->passes = (MBA_FORWARD | MBA_BACKWARD) & ~o->dropped;
    if (!o->passes) return MBA_OK;
    c.base_us = calloc((size_t)all, sizeof *c.base_us);
    c.base_taken = calloc((size_t)all, sizeof *c.base_taken);
    mba_status st = c.base_us && c.base_taken ? time_beside(o, &c.base, &c.base_fate)
                                              : mba_fail(MBA_E_NOMEM, "no memory for times");
    for (int64_t i = 0; i < all && st == MBA_OK; i++) {
        c.base_us[i] = o->us[i * RUNS];
        c.base_taken[i] = o->taken[i];
    }
    if (st == MBA_OK) st = time_beside(o, &e->how, &c.fate);
    if (st == MBA_OK) st = write_rows(w, o, &c, m);
    free(c.base_us);
    free(c.base_taken);
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
    o->taken = calloc((size_t)o->of.g->nnodes * LAUNCHES_MAX, sizeof *o->taken);
    mba_status st = o->us && o->taken ? mba_program_create(&o->p, o->of.g, &how)
                                      : mba_fail(MBA_E_NOMEM, "no memory for times");
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
    free(o->taken);
    mba_program_destroy(o->p);
    mba_graph_destroy(o->of.g);
}

mba_status mba_emulate_operators(const char *path)
{
    static const char head[] = "# Made by `mambascope calibrate --emulate-operators`, commit " MBA_COMMIT
                               ": machine, workload, operator, place, kernel, changes of the baseline, changes, us, us "
                               "emulated, note (study/emulated_operators.h).\n";
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
