// SPDX-License-Identifier: Apache-2.0
/* parts.h -- the parts of the page that are not figures; page.c puts them in order. Each appends HTML, or JSON for the
 * script. */
#ifndef MBA_REPORT_PARTS_H
#define MBA_REPORT_PARTS_H

#include "report/figure.h"

/* overview.c: the first screen; the top line, the title, and (below the five answers) the picture of all runs with what
 * was found in them. */
void mba_part_top(mba_buf *b, const mba_stores *r);
void mba_part_title(mba_buf *b, const mba_stores *r);
void mba_part_overview(mba_canvas *c, const mba_stores *r);
/* vector-bound percent of the time of mixed SSM kernels, by the rule with the highest value; NaN */
double mba_percent_vector(const mba_analysis *a);

/* findings.c: the five answers, the other cards, and the eleven claims with their verdicts. */
void mba_part_answers(mba_canvas *c, const mba_stores *r);
void mba_part_findings(mba_canvas *c, const mba_stores *r);
void mba_part_claims(mba_buf *b, const mba_stores *r);

/* explorer.c: every kernel in one table with sorting, filters and cards; their records for the script. */
MBA_MUST mba_status mba_part_explorer(mba_buf *b, const mba_stores *r);
MBA_MUST mba_status mba_part_kernels_json(mba_buf *b, const mba_stores *r);

/* fig_whatif.c: what the sliders choose among, and operators on every machine; null where w is NULL. */
void mba_part_whatif_json(mba_buf *b, const mba_whatif *w);

/* method.c: conventions, environment, ceilings, profiler overhead, missing measurements. */
MBA_MUST mba_status mba_part_method(mba_buf *b, const mba_stores *r);

/* page.c: a switch between runs, where there are several; opens and closes what belongs to one run. */
void mba_run_switch(mba_buf *b, const mba_stores *r);
void mba_run_open(mba_buf *b, const mba_stores *r, int run);
void mba_run_end(mba_buf *b);

/* page.c, report.c: what pages of stores and of training runs share. The document up to <div class="page">; the tips of
 * a canvas as JSON; the section of raw data, the script and the end. */
void                mba_page_begin(mba_buf *b, const char *title);
void                mba_page_tips(mba_canvas *c);
void                mba_page_raw(mba_buf *b);
void                mba_page_end(mba_buf *b);
MBA_MUST mba_status mba_page_save(const mba_buf *page, const char *path);
/* One drawing as a file of its own, with the rules it needs; curves: those of curves.h, too. */
void mba_drawing_alone(mba_buf *out, const mba_canvas *c, bool curves);
/* Which of the views has this name; NULL: the first. */
MBA_MUST mba_status mba_view_named(int *out, const char *figure, const char *const *views, const char *name);

extern const char mba_report_css[], mba_report_js[]; /* report.css and report.js, from the build */
extern const char mba_report_js_sha256[];            /* in base64 */

#endif
