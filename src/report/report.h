// SPDX-License-Identifier: Apache-2.0
/* report.h -- the report: one self-contained HTML page from one or more stores, with every figure they have data for.
 *
 *     mba_stores runs;
 *     MBA_TRY(mba_stores_open(&runs, paths, n));                  // the first is the main one
 *     MBA_TRY(mba_report_write(&runs, "report.html"));
 *     MBA_TRY(mba_stores_close(&runs));
 *
 * All numbers come from scope/analysis.h; nothing here measures. The same stores give the same bytes. */
#ifndef MBA_REPORT_H
#define MBA_REPORT_H

#include <stdio.h>

#include "report/buf.h"
#include "scope/analysis.h"
#include "scope/energy.h"
#include "study/claims.h"
#include "study/whatif.h"

enum { MBA_RUNS_MAX = MBA_BESIDE_MAX + 1 };
typedef struct mba_run {
    mba_store    *store;
    mba_analysis *a;
    char          label[384];                   /* as the matrix of verdicts calls it; else by its workload or file */
    int64_t       operands, parameters, blocks; /* number of rows in these tables */
    double        l2_bytes_s, l1_bytes_s;       /* by the machine file, if the run did not measure them; NaN */
    mba_energy    energy;
    mba_analysis *beside[MBA_BESIDE_MAX];
} mba_run;
typedef struct mba_stores {
    mba_run           run[MBA_RUNS_MAX];
    int               n, shown;      /* the first `shown` have sections of their own; all take part in comparisons */
    char              left_out[256]; /* stores that could not be read; "" */
    bool              study;         /* add the numbers of the study */
    const mba_whatif *whatif;        /* results of the simulator, owned by the caller; NULL: none */
    mba_store        *before_store;
    mba_analysis     *before; /* of an earlier store: drawn behind runs of the same workload; NULL: none */
} mba_stores;

/* Opens and analyses stores; each analysis refers to the others, for claims that need more than one. Nothing stays open
 * on failure. */
MBA_MUST mba_status mba_stores_open(mba_stores *r, const char *const *path, int n);
MBA_MUST mba_status mba_stores_close(mba_stores *r);
/* Opens an earlier store, whose kernels are drawn behind those of runs of its workload. MBA_E_ARG if there is none. It
 * is closed with the others. */
MBA_MUST mba_status mba_stores_baseline(mba_stores *r, const char *path);
bool                mba_run_is_empty(const mba_run *run);      /* nothing was measured */
void                mba_stores_show(mba_stores *r, int shown); /* how many get sections of their own; 0: all */

MBA_MUST mba_status mba_report_page(mba_buf *out, const mba_stores *r);
MBA_MUST mba_status mba_report_write(const mba_stores *r, const char *path); /* atomic */

/* One figure as SVG in light colours, for papers. A figure of one run shows the first store. view: its name in the
 * switch; NULL: the first. */
MBA_MUST mba_status mba_report_svg(mba_buf *out, const mba_stores *r, const char *figure, const char *view);
/* The numbers of a figure as CSV. A figure of one run has the rows of all runs, with a first column `run`. */
MBA_MUST mba_status mba_report_csv(mba_buf *out, const mba_stores *r, const char *figure);
const char         *mba_report_figure_name(int i); /* NULL after the last */
/* The present name of a figure that is given by a former one; other names stay as they are. */
const char *mba_report_figure_now(const char *name);
const char *mba_report_figure_title(int i); /* "Fig. 1 · operator breakdown" */

/* {"runs": [{"name", "store", "device", "step_ms", .., "claims": [..]}]} */
MBA_MUST mba_status mba_report_summary(mba_buf *out, const mba_stores *r);

#endif
