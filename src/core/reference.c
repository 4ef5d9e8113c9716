// SPDX-License-Identifier: Apache-2.0
/* reference.c -- runs any graph in fp64 by each operator's reference, against which all fast paths are checked. Every
 * storage has its own memory and every node sees dense arrays: nothing is shared, skipped or aliased. */
#include <stdlib.h>
#include <string.h>
#include "core/program.h"

struct mba_reference {
    const mba_graph *g;
    double         **memory;
    mba_world       *world;
};

/* The offset of row r of a tensor in its storage. A row has t->run elements; rows are t->pitch apart. */
static int64_t row_at(const mba_tensor *t, int64_t r) { return t->offset + r * t->pitch; }

static mba_status no_memory(void) { return mba_fail(MBA_E_NOMEM, "no memory for a reference run"); }

mba_status mba_reference_create(mba_reference **out, const mba_graph *g)
{
    mba_reference *r = calloc(1, sizeof *r);
    if (r) *r = (mba_reference){ .g = g, .memory = calloc((size_t)g->nstorages, sizeof(double *)) };
    bool ok = r && r->memory;
    for (int32_t s = 0; ok && s < g->nstorages; s++)
        ok = (r->memory[s] = calloc((size_t)g->storages[s]->elems, sizeof(double))) != NULL;
    if (!ok) {
        mba_reference_destroy(r);
        return no_memory();
    }
    *out = r;
    return MBA_OK;
}

void mba_reference_join(mba_reference *r, mba_world *w) { r->world = w; }

void mba_reference_destroy(mba_reference *r)
{
    for (int32_t s = 0; r && r->memory && s < r->g->nstorages; s++) free(r->memory[s]);
    if (r) free(r->memory);
    free(r);
}

double *mba_reference_at(mba_reference *r, const mba_tensor *t)
{
    mba_assert(mba_dense(t));
    mba_assert(t->offset >= 0 && t->offset + mba_elems(t) <= t->st->elems);
    return r->memory[t->st->id] + t->offset;
}

static mba_status dense_copy(double **out, const mba_reference *r, const mba_tensor *t)
{
    const int64_t n = mba_elems(t);
    double       *x = *out = malloc(sizeof(double) * (size_t)n);
    if (!x) return no_memory();
    mba_assert(row_at(t, n / t->run - 1) + t->run <= t->st->elems);
    for (int64_t i = 0; i < n; i += t->run)
        memcpy(x + i, r->memory[t->st->id] + row_at(t, i / t->run), sizeof(double) * (size_t)t->run);
    return MBA_OK;
}

/* Copies the inputs of a node to dense arrays and allocates its outputs and scratch. */
static mba_status take(mba_ref_call *c, double *in[MBA_IN_MAX], const mba_reference *r)
{
    const mba_node *n = c->node;
    const int64_t   space = n->op->ref_space ? n->op->ref_space(n) : 0;
    mba_status      st = MBA_OK;
    for (int k = 0; k < MBA_IN_MAX && st == MBA_OK; k++) {
        if (n->in[k]) st = dense_copy(&in[k], r, n->in[k]);
        c->in[k] = in[k];
    }
    for (int k = 0; k < MBA_OUT_MAX && st == MBA_OK; k++)
        if (n->out[k] && !(c->out[k] = calloc((size_t)mba_elems(n->out[k]), sizeof(double)))) st = no_memory();
    if (st == MBA_OK && space && !(c->space = malloc(sizeof(double) * (size_t)space))) st = no_memory();
    return st;
}

static void store(mba_reference *r, const mba_ref_call *c)
{
    for (int k = 0; k < MBA_OUT_MAX; k++) {
        const mba_tensor *t = c->node->out[k];
        const bool        adds = t && mba_adds(c->node, k);
        for (int64_t i = 0, elems = t ? mba_elems(t) : 0; i < elems; i += t->run) {
            double *y = r->memory[t->st->id] + row_at(t, i / t->run);
            for (int64_t j = 0; j < t->run; j++) y[j] = c->out[k][i + j] + (adds ? y[j] : 0);
        }
    }
}

static mba_status run_node(mba_reference *r, const mba_node *n, const mba_step *step)
{
    mba_assert(n->op->ref);
    mba_ref_call     c = { .node = n, .step = step, .world = r->world };
    double          *in[MBA_IN_MAX] = { 0 };
    const mba_status st = take(&c, in, r);
    if (st == MBA_OK) {
        n->op->ref(&c);
        store(r, &c);
    }
    for (int k = 0; k < MBA_OUT_MAX; k++) free(c.out[k]);
    for (int k = 0; k < MBA_IN_MAX; k++) free(in[k]);
    free(c.space);
    return st;
}

mba_status mba_reference_run(mba_reference *r, unsigned passes, const mba_step *step)
{
    for (int32_t i = 0; i < r->g->nnodes; i++)
        if (r->g->nodes[i]->pass & passes) MBA_TRY(run_node(r, r->g->nodes[i], step));
    return MBA_OK;
}
