/* measure.c -- see measure.h. */
#include "cli/measure.h"

#include <stdlib.h>
#include <string.h>

#include "cli/progress.h"

static void keep_best(double *best, double s) { if (*best <= 0 || s < *best) *best = s; }

mba_status mba_measure_run(double *best_s, mba_program *p, unsigned passes, const mba_step *step, int repeats)
{
    *best_s = 0;
    for (int r = 0; r < repeats; r++) {
        const double began = mba_seconds();
        MBA_TRY(mba_program_run(p, passes, step, NULL));
        keep_best(best_s, mba_seconds() - began);
    }
    return MBA_OK;
}

mba_status mba_measure_kind(double *best_s, mba_program *p, mba_kind kind, int repeats)
{
    *best_s = 0;
    for (int r = 0; r < repeats; r++) {
        const double began = mba_seconds();
        for (int32_t i = 0; i < p->graph->nnodes; i++)
            if (p->graph->nodes[i]->op->kind == kind) MBA_TRY(p->launch[i](&p->call[i]));
        keep_best(best_s, mba_seconds() - began);
    }
    return MBA_OK;
}

typedef struct clock_ctx { double *best, began; float *sweep; } clock_ctx;
enum { SWEEP_FLOATS = 1 << 25 };                   // 128 MB: larger than any last-level cache we met

static void start(void *ctx, const mba_node *n, const mba_plan *plan)
{
    clock_ctx *c = ctx;
    (void)n, (void)plan;
    if (c->sweep) MBA_PARALLEL_FOR(i, SWEEP_FLOATS / 16) c->sweep[16 * i] += 1;
    c->began = mba_seconds();
}

static void stop(void *ctx, const mba_node *n, const mba_plan *plan)
{
    clock_ctx *c = ctx;
    (void)plan;
    keep_best(&c->best[n->id], mba_seconds() - c->began);
}

mba_status mba_measure_nodes(double *best_s, mba_program *p, unsigned passes, const mba_step *step, int repeats, bool cold)
{
    clock_ctx       c = { .best = best_s, .sweep = cold ? calloc(SWEEP_FLOATS, sizeof(float)) : NULL };
    const mba_hooks h = { start, stop, &c };
    mba_status      st = MBA_OK;
    for (int r = 0; r < repeats && st == MBA_OK; r++) st = mba_program_run(p, passes, step, &h);
    free(c.sweep);
    return st;
}
