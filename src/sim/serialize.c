// SPDX-License-Identifier: Apache-2.0
/* serialize.c -- see serialize.h. Name, then numbers in a fixed order: kernel, roles, classes, streams, operations. */
#include "sim/serialize.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct text_end {
    char  *at;
    size_t left;
    bool   fits;
} text_end;

static void put(text_end *t, double number)
{
    const int n = snprintf(t->at, t->left, " %.10g", number);
    if (n < 0 || (size_t)n >= t->left) {
        t->fits = false;
        return;
    }
    t->at += n;
    t->left -= (size_t)n;
}

bool mba_sim_kernel_write(char *text, size_t space, const mba_sim_kernel *k)
{
    const double head[] = { (double)k->grid,       (double)k->threads, (double)k->warps,     (double)k->regs,
                            (double)k->smem_bytes, (double)k->nroles,  (double)k->nops,      (double)k->nclasses,
                            (double)k->nstreams,   (double)k->depth,   (double)k->mma_flops, (double)k->implied_trips,
                            (double)k->resets,     (double)k->fetch,   (double)k->evicts,    k->tile_share };
    mba_assert(k->nops <= MBA_SIM_OPS && k->nstreams <= MBA_SIM_STREAMS && k->nclasses <= MBA_SIM_CLASSES);
    const int n = snprintf(text, space, "%s", k->name);
    text_end  t = { text + n, space - (size_t)n, n > 0 && (size_t)n < space };
    if (!t.fits || strchr(k->name, ' ')) return false;
    for (size_t i = 0; i < sizeof head / sizeof *head; i++) put(&t, head[i]);
    for (int64_t i = 0; i < k->nroles; i++) put(&t, (double)k->first[i]), put(&t, (double)k->role_warps[i]);
    for (int64_t i = 0; i < k->nclasses; i++)
        put(&t, (double)k->count[i]), put(&t, (double)k->trips[i][0]), put(&t, (double)k->trips[i][1]);
    for (int64_t i = 0; i < k->nstreams; i++)
        put(&t, k->stream[i].writes), put(&t, k->stream[i].unique), put(&t, (double)k->stream[i].hit);
    for (int64_t i = 0; i < k->nops; i++) {
        const mba_sim_op *o = &k->op[i];
        put(&t, o->work), put(&t, o->stream), put(&t, o->ring), put(&t, o->ahead), put(&t, (double)o->trips);
        put(&t, (double)o->parts), put(&t, (double)o->bytes);
        for (int p = 0; p < MBA_PIPES; p++) put(&t, (double)o->n[p]);
    }
    if (k->busiest) put(&t, (double)k->busiest); // last, and only where a plan says so
    return t.fits;
}

/* The next number; sets `bad` if there is none within [least, most]. */
static double take(const char **at, double least, double most, bool *bad)
{
    char *end;

    const double x = strtod(*at, &end);
    if (end == *at || !isfinite(x) || x < least || x > most) *bad = true;
    *at = end;
    return *bad ? least : x;
}

static void take_op(mba_sim_op *o, const char **at, int64_t streams, bool *bad)
{
    enum { MOST_STAGES = MBA_SIM_STAGES - 1 };
    static const double MOST = 1e15;
    o->work = (int32_t)take(at, MBA_OP_MIX, MBA_OP_EXIT, bad);
    o->stream = (int32_t)take(at, -1, (double)streams - 1, bad);
    o->ring = (int32_t)take(at, -1, MBA_SIM_RINGS - 1, bad);
    o->ahead = (int32_t)take(at, 0, MOST_STAGES, bad);
    o->trips = (int64_t)take(at, -2, MOST, bad);
    o->parts = (int64_t)take(at, 1, MOST, bad);
    o->bytes = (uint64_t)take(at, 0, MOST, bad);
    for (int p = 0; p < MBA_PIPES; p++) o->n[p] = (uint64_t)take(at, 0, MOST, bad);
    const bool moves = o->work == MBA_OP_LOAD || o->work == MBA_OP_ASYNC || o->work == MBA_OP_STORE;
    if (moves != (o->stream >= 0)) *bad = true;
}

mba_status mba_sim_kernel_parse(mba_sim_kernel *k, const char *text, const mba_gpu *m)
{
    static const double MOST = 1e12;
    const size_t        name = strcspn(text, " ");
    const char         *at = text + name;
    bool                bad = name == 0 || name >= sizeof k->name;
    memset(k, 0, sizeof *k);
    if (!bad) memcpy(k->name, text, name);
    k->grid = (int64_t)take(&at, 1, MOST, &bad);
    k->threads = (int64_t)take(&at, 1, 1024, &bad);
    k->warps = (int64_t)take(&at, 1, 32, &bad);
    k->regs = (int64_t)take(&at, 0, 1024, &bad);
    k->smem_bytes = (int64_t)take(&at, 0, 1 << 24, &bad);
    k->nroles = (int64_t)take(&at, 1, MBA_SIM_ROLES, &bad);
    k->nops = (int64_t)take(&at, 1, MBA_SIM_OPS, &bad);
    k->nclasses = (int64_t)take(&at, 0, MBA_SIM_CLASSES, &bad);
    k->nstreams = (int64_t)take(&at, 0, MBA_SIM_STREAMS, &bad);
    k->depth = (int64_t)take(&at, 0, MBA_SIM_STAGES, &bad);
    k->mma_flops = (int64_t)take(&at, 0, 200, &bad);
    k->implied_trips = (int64_t)take(&at, 0, MOST, &bad);
    k->resets = (int64_t)take(&at, 0, 1, &bad);
    k->fetch = (int64_t)take(&at, 0, MOST, &bad);
    k->evicts = (int64_t)take(&at, 0, MOST, &bad);
    k->tile_share = take(&at, 0, 1, &bad);
    for (int64_t i = 0; i < k->nroles && !bad; i++) {
        k->first[i] = (int64_t)take(&at, i ? (double)k->first[i - 1] + 1 : 0, (double)k->nops - 1, &bad);
        k->role_warps[i] = (int64_t)take(&at, 1, 32, &bad);
    }
    for (int64_t i = 0; i < k->nclasses && !bad; i++) {
        k->count[i] = (int64_t)take(&at, 0, MOST, &bad);
        for (int t = 0; t < 2; t++) k->trips[i][t] = (int64_t)take(&at, 0, MOST, &bad);
    }
    for (int64_t i = 0; i < k->nstreams && !bad; i++) {
        k->stream[i].operand = -1;
        k->stream[i].writes = (int32_t)take(&at, 0, 1, &bad);
        k->stream[i].unique = take(&at, 0, 1e18, &bad);
        k->stream[i].hit = (int64_t)take(&at, 0, 256, &bad);
    }
    for (int64_t i = 0; i < k->nops && !bad; i++) take_op(&k->op[i], &at, k->nstreams, &bad);
    if (!bad && *at) k->busiest = (int64_t)take(&at, 257, 256 * 32, &bad);
    if (bad || *at)
        return mba_fail(MBA_E_FORMAT,
                        "no kernel: %.40s..\nwhy: numbers are missing or beyond what a plan can say\n"
                        "fix: make it with mambascope validate --serialize",
                        text);
    return mba_sim_finish(k, m);
}
