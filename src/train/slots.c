// SPDX-License-Identifier: Apache-2.0
/* slots.c -- see slots.h. */
#include "train/slots.h"

#include <stdlib.h>
#include <string.h>

#include "ops/batchnorm/batchnorm.h"

enum { LEVELS_MOST = 16 };

/* Running means or variances of one node. */
typedef struct statistic {
    float  *at; /* on the device */
    int64_t n;
    double  keeps; /* fraction of the old ones in the new ones */
} statistic;

struct mba__slots {
    mba_session *session;
    int64_t      slots, first, micros, chain;       /* chain: q */
    float        scale;                             /* of a sum of a chain; 1: none */
    float       *part[MBA_GROUPS][LEVELS_MOST + 1]; /* sums of 2^j chains that wait for their neighbours */
    statistic   *stat;
    int64_t      stats, values; /* statistics; all their values */
    float       *running;       /* (values): as of the last step */
    float       *made;          /* (slots, values): what each slot adds to them */
};

/* ---- sums ---- */

static float *gradient_of(const mba__slots *s, int group, int64_t *elems)
{
    const mba_program *p = s->session->program;
    const mba_storage *g = s->session->graph->params[group] ? s->session->graph->params[group]->grad : NULL;
    if (!g || p->layout.first[g->id] < 0) return NULL;
    const mba_tensor whole = { .st = (mba_storage *)g };
    *elems = g->elems;
    return mba_program_counterpart(p, g, &whole);
}

/* Chain i is complete, of `chains`: a binary counter. Chains whose number ends in ones close as many branches; what is
 * left waits for its neighbour, and the next chain begins with zeros. */
static mba_status fold(mba__slots *s, int64_t i, int64_t chains)
{
    const mba_device *d = s->session->device;
    const int         ones = __builtin_ctzll(~(unsigned long long)i);
    for (int k = 0; k < MBA_GROUPS; k++) {
        int64_t n;
        float  *g = gradient_of(s, k, &n);
        if (!g) continue;
        if (s->scale != 1) MBA_TRY(d->fold(g, NULL, s->scale, n));
        for (int j = 0; j < ones; j++) MBA_TRY(d->fold(g, s->part[k][j], 1, n));
        if (i + 1 == chains) continue;
        MBA_TRY(d->copy(s->part[k][ones], g, sizeof *g * (size_t)n));
        MBA_TRY(d->copy(g, NULL, sizeof *g * (size_t)n));
    }
    return MBA_OK;
}

/* ---- running statistics ---- */

static mba_status find_statistics(mba__slots *s)
{
    const mba_graph *g = s->session->graph;
    int64_t          nodes = 0;
    for (int32_t i = 0; i < g->nnodes; i++) nodes += g->nodes[i]->op == &mba_op_batchnorm_stats;
    if (!nodes) return MBA_OK;
    if (!(s->stat = calloc((size_t)(2 * nodes), sizeof *s->stat)))
        return mba_fail(MBA_E_NOMEM, "no memory for statistics");
    for (int32_t i = 0; i < g->nnodes; i++) {
        const mba_tensor *t[2];
        if (g->nodes[i]->op != &mba_op_batchnorm_stats) continue;
        const double keeps = mba_batchnorm_running(g->nodes[i], &t[0], &t[1]);
        for (int k = 0; k < 2; k++) {
            s->stat[s->stats++] = (statistic){ mba_program_at(s->session->program, t[k]), mba_elems(t[k]), keeps };
            s->values += mba_elems(t[k]);
        }
    }
    s->running = calloc((size_t)s->values, sizeof *s->running);
    s->made = calloc((size_t)(s->slots * s->values), sizeof *s->made);
    return s->running && s->made
               ? MBA_OK
               : mba_fail(MBA_E_NOMEM, "no memory for the statistics of %lld slots", (long long)s->slots);
}

/* Between the device and the host: `to`, or else from `from`. */
static mba_status copy_statistics(mba__slots *s, float *to, const float *from)
{
    const mba_device *d = s->session->device;
    for (int64_t k = 0, at = 0; k < s->stats; at += s->stat[k++].n) {
        const size_t bytes = sizeof(float) * (size_t)s->stat[k].n;
        MBA_TRY(to ? d->get(to + at, s->stat[k].at, bytes) : d->put(s->stat[k].at, from + at, bytes));
    }
    return d->wait && s->stats ? d->wait() : MBA_OK;
}

mba_status mba__slots_restore(mba__slots *s) { return copy_statistics(s, NULL, s->running); }

/* Where the statistics of a slot are: pieces of ranks lie as all_gather leaves them. */
static float *made_by(const mba__slots *s, int64_t slot)
{
    const mba_place p = { slot / s->micros, s->slots / s->micros };
    return s->made + (mba_piece_offset(p, s->slots) + slot % s->micros) * s->values;
}

mba_status mba__slots_finish(mba__slots *s, int64_t good)
{
    mba_world *w = s->session->world;
    if (!s->values) return MBA_OK;
    if (w) MBA_TRY(mba_pieces_gather(w, s->made, sizeof(float) * (size_t)(s->slots * s->values)));
    for (int64_t slot = 0; slot < good; slot++) {
        const float *made = made_by(s, slot);
        for (int64_t k = 0, at = 0; k < s->stats; at += s->stat[k++].n)
            for (int64_t i = at; i < at + s->stat[k].n; i++)
                s->running[i] = (float)(s->stat[k].keeps * (double)s->running[i] + (double)made[i]);
    }
    return mba__slots_restore(s);
}

/* ---- one slot ---- */

/* Statistics that start at zero are what the slot adds to them. */
mba_status mba__slots_begin(mba__slots *s, int64_t micro)
{
    const mba_device *d = s->session->device;
    if (micro == 0) MBA_TRY(copy_statistics(s, s->running, NULL));
    for (int64_t k = 0; k < s->stats; k++) MBA_TRY(d->copy(s->stat[k].at, NULL, sizeof(float) * (size_t)s->stat[k].n));
    return MBA_OK;
}

mba_status mba__slots_end(mba__slots *s, int64_t micro)
{
    if (s->values) MBA_TRY(copy_statistics(s, made_by(s, s->first + micro), NULL));
    return (micro + 1) % s->chain ? MBA_OK : fold(s, micro / s->chain, s->micros / s->chain);
}

static mba_status take_parts(mba__slots *s)
{
    const int64_t chains = s->micros / s->chain;
    int           levels = 0;
    while (INT64_C(1) << levels < chains) levels++;
    mba_assert(levels <= LEVELS_MOST && INT64_C(1) << levels == chains);
    for (int k = 0; k < MBA_GROUPS; k++) {
        int64_t n;
        if (!gradient_of(s, k, &n)) continue;
        for (int j = 0; j < levels; j++)
            if (s->session->device->alloc((void **)&s->part[k][j], sizeof(float) * (size_t)n) != MBA_OK)
                return mba_fail(MBA_E_NOMEM,
                                "no memory for the partial sums of %lld slots\nfix: more ranks, or fewer slots",
                                (long long)s->slots);
    }
    return MBA_OK;
}

mba_status mba__slots_create(mba__slots **out, mba_session *session, int64_t slots, int64_t first, int64_t micros,
                             bool means)
{
    mba__slots *s = calloc(1, sizeof *s);
    if (!s) return mba_fail(MBA_E_NOMEM, "no memory for %lld slots", (long long)slots);
    *s = (mba__slots){
        .session = session, .slots = slots, .first = first, .micros = micros, .chain = slots, .scale = 1
    };
    while (s->chain % 2 == 0) s->chain /= 2;
    mba_assert(micros % s->chain == 0); // a power of two of ranks
    if (means) s->scale = (float)(1.0 / (double)slots);
    mba_status st = take_parts(s);
    if (st == MBA_OK) st = find_statistics(s);
    if (st == MBA_OK) *out = s;
    else mba__slots_destroy(s);
    return st;
}

void mba__slots_destroy(mba__slots *s)
{
    if (!s) return;
    for (int k = 0; k < MBA_GROUPS; k++)
        for (int j = 0; j <= LEVELS_MOST; j++)
            if (s->part[k][j]) s->session->device->dealloc(s->part[k][j]);
    free(s->stat);
    free(s->running);
    free(s->made);
    free(s);
}
