// SPDX-License-Identifier: Apache-2.0
/* public_links.c -- see public_links.h. */
#include "study/public_links.h"

#include <math.h>
#include <string.h>

#include "ops/collectives/collectives.h"
#include "sim/tsv.h"

static bool take_row(mba_public_link *p, const mba_tsv_row *r)
{
    const char *at = r->at;
    char        how[16];
    double      ranks;
    *p = (mba_public_link){ .how = MBA_NCCL_ALGORITHMS };
    if (!mba_tsv_cell(&at, r->end, p->source, sizeof p->source)
        || !mba_tsv_cell(&at, r->end, p->cluster, sizeof p->cluster)
        || !mba_tsv_cell(&at, r->end, p->collective, sizeof p->collective)
        || !mba_tsv_cell(&at, r->end, how, sizeof how) || !mba_tsv_number(&at, r->end, 1 << 20, &ranks)
        || !mba_tsv_number(&at, r->end, 1e15, &p->bytes) || !mba_tsv_number(&at, r->end, 1e6, &p->published)
        || !mba_tsv_cell(&at, r->end, p->remark, sizeof p->remark) || at != r->end)
        return false;
    for (int k = 0; k < MBA_NCCL_ALGORITHMS; k++)
        if (!strcmp(mba_nccl_algorithms[k], how)) p->how = (mba_nccl_algorithm)k;
    p->ranks = (int64_t)ranks;
    p->gives = strstr(p->remark, "gives ") != NULL;
    const bool known = !strcmp(p->collective, "allreduce") || !strcmp(p->collective, "all_gather")
                       || !strcmp(p->collective, "reduce_scatter");
    return known && p->how < MBA_NCCL_ALGORITHMS && p->ranks > 1 && p->bytes > 0 && p->published > 0;
}

/* The time of the collective as study/scaling.c times it. */
static mba_status time_exchanges(mba_link_time *out, const mba_links *c, const mba_public_link *p)
{
    mba_graph      *g;
    mba_exchange    e[MBA_EXCHANGE_MAX];
    const mba_place place = { 0, p->ranks };
    MBA_TRY(mba_graph_create(&g));
    mba_tensor *x = mba_state(g, "x", MBA_STATE, MBA_TYPE(MBA_F32, (int64_t)p->bytes / (int64_t)sizeof(float)));
    if (!strcmp(p->collective, "allreduce")) mba_allreduce(g, x, place);
    else if (!strcmp(p->collective, "all_gather")) mba_all_gather(g, x, place);
    else mba_reduce_scatter(g, x, place);
    const mba_status st = mba_graph_status(g);
    if (st == MBA_OK) *out = mba_links_exchanges(c, e, mba_collective_exchanges(e, g->nodes[g->nnodes - 1]));
    mba_graph_destroy(g);
    return st;
}

static mba_status simulate(mba_public_link *p, const mba_links *c)
{
    const double  R = (double)p->ranks, gpus = c->v[MBA_LINK_gpus_node];
    const double  moved = (strcmp(p->collective, "allreduce") ? 1 : 2) * (R - 1) / R * p->bytes;
    const bool    inside = R <= gpus;
    mba_link_time t;
    p->simulated = NAN;
    if (p->how != MBA_NCCL_RING || (p->ranks & (p->ranks - 1)) || (!inside && p->bytes < 1 << 30)) return MBA_OK;
    MBA_TRY(time_exchanges(&t, c, p));
    p->simulated = 1e-9 * (inside ? moved / t.seconds : gpus * t.net_bytes / t.net_s);
    return MBA_OK;
}

mba_status mba_public_links_read(mba_public_link out[MBA_PUBLIC_LINKS_MAX], int *n, const char *where, const char *text)
{
    mba_tsv rows = { text, text + strlen(text), 0 };
    *n = 0;
    for (mba_tsv_row r; mba_tsv_next(&rows, &r); ++*n) {
        mba_links links;
        if (*n == MBA_PUBLIC_LINKS_MAX || !take_row(&out[*n], &r))
            return mba_fail(MBA_E_FORMAT,
                            "%s, line %d: this is not a published bandwidth\nwhy: a row has source, cluster, "
                            "collective, algorithm, GPUs, bytes, GB/s and remark, and a table at most %d rows\n"
                            "fix: correct the row",
                            where, r.line, MBA_PUBLIC_LINKS_MAX);
        MBA_TRY(mba_links_load(&links, out[*n].cluster));
        const bool allreduce = !strcmp(out[*n].collective, "allreduce");
        out[*n].predicted = mba_nccl_bus_bandwidth(&links, out[*n].how, allreduce, out[*n].ranks, out[*n].bytes);
        MBA_TRY(simulate(&out[*n], &links));
    }
    return MBA_OK;
}
