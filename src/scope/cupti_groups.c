// SPDX-License-Identifier: Apache-2.0
/* cupti_groups.c -- groups metrics that one pass reads together (cupti_collect.h): first fit, with the number of passes
 * from CUPTI's host interface, which needs no GPU. */
#include "scope/cupti_collect.h"

static mba_status fits(bool *out, const mba_counter_group *g, const char *chip, const char *metric)
{
    const char *all[MBA_METRICS_MAX];
    int         passes = 0;
    mba_assert(g->n < MBA_METRICS_MAX);
    for (int i = 0; i < g->n; i++) all[i] = g->metric[i];
    all[g->n] = metric;
    MBA_TRY(mba_counters_count_passes(&passes, chip, all, g->n + 1));
    *out = passes == 1;
    return MBA_OK;
}

static void join(mba_counter_group *g, const mba_metric_set *s, int place)
{
    mba_assert(g->n < MBA_METRICS_MAX && place < s->n);
    g->set = s;
    g->place[g->n] = place;
    g->metric[g->n] = s->metric[place];
    g->n++;
}

mba_status mba_counters_group(mba_counter_group *out, int *n, int most, const char *chip, const mba_metric_set *s)
{
    const int begin = *n;
    for (int i = 0; i < s->n; i++) {
        int  passes = 0, at = begin;
        bool found = false;
        MBA_TRY(mba_counters_count_passes(&passes, chip, &s->metric[i], 1));
        for (; at < *n && !found && passes == 1; at += !found)
            if (out[at].passes == 1) MBA_TRY(fits(&found, &out[at], chip, s->metric[i]));
        if (!found) {
            if (*n == most)
                return mba_fail(MBA_E_UNSUPPORTED, "there are more than %d groups of counters\nfix: collect fewer sets",
                                most);
            at = (*n)++;
            out[at] = (mba_counter_group){ .passes = passes };
        }
        join(&out[at], s, i);
    }
    return MBA_OK;
}
