// SPDX-License-Identifier: Apache-2.0
/* public_links.c -- see public_links.h. */
#include "study/public_links.h"

#include <string.h>

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
    const bool known = !strcmp(p->collective, "allreduce") || !strcmp(p->collective, "all_gather")
                       || !strcmp(p->collective, "reduce_scatter");
    return known && p->how < MBA_NCCL_ALGORITHMS && p->ranks > 1 && p->bytes > 0 && p->published > 0;
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
    }
    return MBA_OK;
}
