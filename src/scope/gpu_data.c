// SPDX-License-Identifier: Apache-2.0
/* gpu_data.c -- computes data-dependent work of our kernels on the host, from the data that they read.
 *
 * A plan knows only shapes. It counts all work that a kernel may skip, and none that only some data needs. What the
 * kernel should issue is computed here, so that hardware counters can be compared exactly. The learning rate is 0, so
 * every pass over the step has the same data. */
#include <math.h>
#include <stdlib.h>

#include "ops/ssd/ssd.h"
#include "ops/ssd/fused/ssd_data_flops.h"
#include "scope/gpu_profile.h"

typedef struct reading {
    mba_gpu_profile *g;
    mba_program     *p;
    float           *records;
    size_t           room;
    mba_status       st;
} reading;

static mba_status take(reading *x, const mba_node *n, const mba_plan *plan, const mba_tensor *t)
{
    const size_t bytes = (size_t)mba_tensor_bytes(t);
    mba_assert(bytes > 0);
    if (bytes > x->room) {
        free(x->records);
        x->room = 0;
        if (!(x->records = malloc(bytes)))
            return mba_fail(MBA_E_NOMEM, "no memory for %s of records", mba_size_of((double)bytes).text);
        x->room = bytes;
    }
    MBA_TRY(x->p->device->wait());
    MBA_TRY(mba_program_get(x->p, t, x->records));
    mba_ssd_data  data[MBA_SSD_DATA_MAX];
    const int     count = mba_ssd_data_flops(data, n, plan, x->records);
    mba_gpu_data *more = realloc(x->g->data, (size_t)(x->g->ndata + count) * sizeof *more);
    if (!more) return mba_fail(MBA_E_NOMEM, "no memory for what data decides");
    x->g->data = more;
    for (int i = 0; i < count; i++) more[x->g->ndata++] = (mba_gpu_data){ n->id, data[i].launch, data[i].tensor_flops };
    return MBA_OK;
}

/* The records exist after the forward node and before the backward node. */
static void before(void *ctx, const mba_node *n, const mba_plan *plan)
{
    reading          *x = ctx;
    const mba_tensor *t = n->op == &mba_op_ssd_bwd ? mba_ssd_records(n, plan) : NULL;
    if (x->st == MBA_OK && t) x->st = take(x, n, plan, t);
}

static void after(void *ctx, const mba_node *n, const mba_plan *plan)
{
    reading          *x = ctx;
    const mba_tensor *t = n->op == &mba_op_ssd ? mba_ssd_records(n, plan) : NULL;
    if (x->st == MBA_OK && t) x->st = take(x, n, plan, t);
}

mba_status mba_gpu_look_at_data(mba_gpu_profile *g, mba_program *p, const mba_step *step)
{
    reading         x = { .g = g, .p = p };
    const mba_hooks h = { before, after, &x };
    bool            any = false;
    for (int32_t i = 0; i < p->graph->nnodes && !any; i++)
        any = mba_ssd_records(p->graph->nodes[i], p->plan[i]) != NULL;
    if (!any) return MBA_OK;
    mba_status st = mba_program_run(p, MBA_STEP, step, &h);
    if (st == MBA_OK) st = p->device->wait();
    free(x.records);
    return st == MBA_OK ? x.st : st;
}

double mba_gpu_data_flops(const mba_gpu_profile *g, int32_t node, int32_t launch)
{
    for (int64_t i = 0; i < g->ndata; i++)
        if (g->data[i].node == node && g->data[i].launch == launch) return g->data[i].tensor_flops;
    return NAN;
}
