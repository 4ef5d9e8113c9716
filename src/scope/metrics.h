// SPDX-License-Identifier: Apache-2.0
/* metrics.h -- the counter sets, in Nsight's metric names, and the unit of a metric.
 *
 *     const mba_metric_set *s = mba_metric_set_find("roofline");      // NULL: no such set
 *     for (int i = 0; i < s->n; i++) printf("%s in %s\n", s->metric[i], mba_metric_unit(s->metric[i]));
 *
 * Plain C. Pass counts are those of a GH100; a test compares them with CUPTI, which needs no GPU for that. */
#ifndef MBA_SCOPE_METRICS_H
#define MBA_SCOPE_METRICS_H

#include "core/status.h"

enum { MBA_METRICS_MAX = 32 }; /* per set */

typedef struct mba_metric_set {
    const char        *name, *about;
    int                passes; /* on a GH100: number of groups that one pass reads */
    const char *const *metric;
    int                n;
} mba_metric_set;

extern const mba_metric_set mba_metric_sets[]; /* ends with an entry without a name */
const mba_metric_set       *mba_metric_set_find(const char *name);

/* "overview,roofline" -> sets, at most `most` of them; NULL: all, "": none. An unknown name is an error. */
MBA_MUST mba_status mba_metric_sets_choose(const mba_metric_set **out, int *n, int most, const char *names);

/* "ns", "byte", "%", "Hz", "cycle", "FLOP", "sector", "inst", .. "1" for a plain ratio. */
const char *mba_metric_unit(const char *metric);

#endif
