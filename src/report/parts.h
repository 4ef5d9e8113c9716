// SPDX-License-Identifier: Apache-2.0
/* parts.h -- the parts of the report page that are not figures; page.c puts them in order. Each appends HTML, or JSON
 * for the script. */
#ifndef MBA_REPORT_PARTS_H
#define MBA_REPORT_PARTS_H

#include "report/figure.h"
#include "study/verdict_matrix.h"

/* overview.c: the top line, the title, and (below the five answers) the picture of all runs with the findings. */
void mba_part_top(mba_buf *b, const mba_stores *r);
void mba_part_title(mba_buf *b, const mba_stores *r);
void mba_part_lead(mba_buf *b, const mba_stores *r); /* what was measured */
void mba_part_overview(mba_canvas *c, const mba_stores *r);
/* vector-bound share of mixed SSM kernels in percent, by the counting rule that gives most; NaN */
double mba_percent_vector(const mba_analysis *a);

/* verdicts.c: the claims over all stores. No matrix (*out NULL) where they have fewer than two of its columns. */
bool                mba_has_matrix(const mba_stores *r);
MBA_MUST mba_status mba_matrix_of_stores(mba_matrix **out, const mba_stores *r);
void                mba_part_verdicts(mba_canvas *c, const mba_stores *r, const mba_matrix *m);

/* first_screen.c: what limits each run, the kernel to fix, the hardware that helps; nothing without GPU counters. */
void mba_part_cards(mba_buf *b, const mba_stores *r, const mba_matrix *m);
void mba_part_limits(mba_buf *b, const mba_stores *r, const mba_matrix *m); /* the same in a sentence */

/* questions.c: the open questions of the study. On the first screen, each with its answer and how sure it is; in a
 * section, the question above the heading of the figure that answers it, and how sure that is below it. Nothing for
 * other figures. */
void mba_part_questions(mba_buf *b, const mba_stores *r);
void mba_question_open(mba_buf *b, const mba_figure *f);
void mba_question_sure(mba_buf *b, const mba_figure *f, const mba_stores *r);

/* findings.c: the five answers, the other cards, and the eleven claims with their verdicts. */
void                mba_part_answers(mba_canvas *c, const mba_stores *r);
void                mba_part_findings(mba_canvas *c, const mba_stores *r);
MBA_MUST mba_status mba_part_claims(mba_buf *b, const mba_stores *r);

/* explorer.c: one table of kernels that sorts and filters, and their records for the script. */
MBA_MUST mba_status mba_part_explorer(mba_buf *b, const mba_stores *r);
MBA_MUST mba_status mba_part_kernels_json(mba_buf *b, const mba_stores *r);

/* whatif_json.c: what the sliders choose among, and operators on every machine; null without the simulator. */
void mba_part_whatif_json(mba_buf *b, const mba_stores *r);

/* fig_timeline.c: the events of a step, for the script that zooms into them. */
MBA_MUST mba_status mba_timeline_json(mba_buf *b, const mba_analysis *a);

/* method.c: conventions, ceilings, the cost of profiling, notes, environment. */
MBA_MUST mba_status mba_part_method(mba_buf *b, const mba_stores *r);

/* page.c: a switch between runs if there are several; opens and closes the part of one run. */
void mba_run_switch(mba_buf *b, const mba_stores *r);
void mba_run_open(mba_buf *b, const mba_stores *r, int run);
void mba_run_end(mba_buf *b);

/* page.c, report.c: shared with the training page. The document up to <div class="page">; the tips of a canvas as JSON;
 * the section of raw data; the script and the end. */
void                mba_page_begin(mba_buf *b, const char *title);
void                mba_page_tips(mba_canvas *c);
void                mba_page_raw(mba_buf *b);
void                mba_page_end(mba_buf *b);
MBA_MUST mba_status mba_page_save(const mba_buf *page, const char *path);
/* One drawing as a standalone SVG with its style rules; curves: those of curves.h too. */
void mba_drawing_alone(mba_buf *out, const mba_canvas *c, bool curves);
/* The index of the view with this name; NULL: the first. */
MBA_MUST mba_status mba_view_named(int *out, const char *figure, const char *const *views, const char *name);

extern const char mba_report_css[], mba_report_js[]; /* report.css and report.js, from the build */
extern const char mba_report_js_sha256[];            /* in base64 */

#endif
