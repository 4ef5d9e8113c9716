// SPDX-License-Identifier: Apache-2.0
/* verdicts.c -- see parts.h: the abstract and the matrix of claims x sets of kernels. Every number of the abstract is
 * in a cell below it; study/verdict_matrix.h has the rules. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report/parts.h"

enum { COLUMNS_LEAST = 2 }; /* one column has numbers, but no verdict */

bool mba_has_matrix(const mba_stores *r)
{
    bool has[MBA_COLUMNS + 1] = { false };
    int  columns = 0;
    for (int i = 0; i < r->n; i++) has[mba_matrix_column_of(r->run[i].a)] = true;
    for (int c = 0; c < MBA_COLUMNS; c++) columns += has[c];
    return columns >= COLUMNS_LEAST;
}

mba_status mba_matrix_of_stores(mba_matrix **out, const mba_stores *r)
{
    mba_analysis *store[MBA_RUNS_MAX];
    *out = NULL;
    mba_assert(r->n >= 1 && r->n <= MBA_RUNS_MAX);
    if (!mba_has_matrix(r)) return MBA_OK;
    for (int i = 0; i < r->n; i++) store[i] = r->run[i].a;
    return mba_matrix_create(out, store, r->n);
}

/* ---- abstract ---- */

static double number_of(const mba_matrix *m, int claim, mba_matrix_column c)
{
    mba_assert(claim >= 0 && claim < MBA_CLAIMS && c < MBA_COLUMNS);
    return m->store[c] ? m->cell[claim][c].number[0] : NAN;
}

/* A sentence of the matrix begins in lower case, and ends without a full stop. */
static void sentence(mba_buf *b, const char *begin, const char *text)
{
    if (!*text) return;
    mba_buf_put(b, begin);
    mba_buf_html(b, text);
    mba_buf_put(b, ". ");
}

static void where_time_goes(mba_buf *b, const mba_matrix *m)
{
    const bool              peer = m->store[MBA_COLUMN_MAMBA_SSM] != NULL;
    const mba_matrix_column first = peer ? MBA_COLUMN_MAMBA_SSM : MBA_COLUMN_BASELINE;
    const double            many[2] = { number_of(m, 0, first), number_of(m, 1, first) },
                 fused[2] = { number_of(m, 0, MBA_COLUMN_FUSED), number_of(m, 1, MBA_COLUMN_FUSED) };
    if (isnan(many[0] + many[1] + fused[0] + fused[1])) {
        sentence(b, "Matrix products: ", m->sentence[0]);
        sentence(b, "SSM operators: ", m->sentence[1]);
        return;
    }
    mba_buf_add(b,
                "With %s <b>SSM operators take %.0f\u00a0%% and matrix products %.0f\u00a0%% of the GPU time of a "
                "Mamba-2 step</b>; fused, %.0f and %.0f\u00a0%%. ",
                peer ? "mamba_ssm's kernels" : "one kernel for each step of SSD", many[1], many[0], fused[1], fused[0]);
}

/* The two causes that the study names for slow SSM kernels, in one sentence. */
static void say_causes(mba_buf *b, const mba_matrix *m)
{
    static const char *const words[MBA_VERDICTS] = {
        [MBA_REPRODUCED] = "holds", [MBA_DEPENDS] = "depends", [MBA_REFUTED] = "does not hold"
    };
    static const struct {
        int         claim;
        const char *cause;
    } causes[] = { { 4, "short-lived blocks keep bandwidth low" }, { 6, "mixed kernels are vector-bound" } };
    bool any = false;
    for (size_t i = 0; i < sizeof causes / sizeof *causes; i++) {
        const int   claim = causes[i].claim;
        const char *verdict = words[m->suite[claim]];
        if (!verdict || !*m->sentence[claim]) continue;
        mba_buf_add(b, "%s<b>%s %s (F%d) %s</b>: ", any ? "; " : "", any ? "that" : "That", causes[i].cause, claim + 1,
                    verdict);
        mba_buf_html(b, m->sentence[claim]);
        any = true;
    }
    if (any) mba_buf_put(b, ".");
}

/* ---- matrix ---- */

static void heading(mba_buf *b, const mba_matrix *m)
{
    static const struct {
        mba_verdict verdict;
        const char *words;
    } counts[] = { { MBA_REPRODUCED, "hold" },
                   { MBA_DEPENDS, "depend" },
                   { MBA_REFUTED, "do not hold" },
                   { MBA_OPEN, "are open" },
                   { MBA_NOT_APPLICABLE, "are not applicable" } };
    bool any = false;
    mba_buf_add(b, "<h2>The %d claims of the study: ", MBA_CLAIMS);
    for (size_t k = 0; k < sizeof counts / sizeof *counts; k++) {
        int n = 0;
        for (int i = 0; i < MBA_CLAIMS; i++) n += m->suite[i] == counts[k].verdict;
        if (n) mba_buf_add(b, "%s%d %s", any ? ", " : "", n, n == 1 && k == 0 ? "holds" : counts[k].words), any = true;
    }
    mba_buf_put(b, "</h2>");
}

/* The store of a column; "" if it is not among the runs. */
static mba_name store_of(const mba_stores *r, const mba_analysis *a)
{
    for (int i = 0; i < r->n; i++)
        if (r->run[i].a == a) return mba_run_store(&r->run[i]);
    return (mba_name){ "" };
}

static void cell(mba_canvas *c, const mba_claim *k, const char *column, const char *store)
{
    mba_buf *b = &c->out;
    if (!k->id) {
        mba_buf_put(b, "<td class=\"none\"><span>–</span></td>");
        return;
    }
    const char *verdict = mba_verdict_name(k->here);
    const int   tip = mba_tip(c, "%s, %s: %s here|%s|Rule: %s%s%s|Store %s", k->id, column, verdict,
                            *k->measured ? k->measured : k->needs, k->rule, *k->sensitivity ? "|" : "", k->sensitivity,
                              store);
    mba_buf_add(b, "<td class=\"%s\" data-m=\"%s\"><button type=\"button\" data-t=\"%d\" aria-label=\"%s, %s: %s, ",
                verdict, column, tip, k->id, column, verdict);
    mba_buf_html(b, k->cell);
    mba_buf_put(b, "\"><span>");
    mba_buf_html(b, k->cell);
    mba_buf_put(b, "</span></button></td>");
}

static void row(mba_canvas *c, const mba_stores *r, const mba_matrix *m, int i)
{
    mba_buf         *b = &c->out;
    const mba_claim *any = NULL;
    for (int k = 0; k < MBA_COLUMNS && !any; k++)
        if (m->cell[i][k].id) any = &m->cell[i][k];
    if (!any) return;
    mba_buf_add(b, "<tr><th scope=\"row\"><div><a href=\"#rule-%s\">%s</a><span>", any->id, any->id);
    mba_buf_html(b, any->claim);
    mba_buf_put(b, "<small>");
    mba_buf_html(b, any->unit);
    mba_buf_put(b, "</small></span></div></th>");
    for (int k = 0; k < MBA_COLUMNS; k++)
        if (m->store[k])
            cell(c, &m->cell[i][k], mba_matrix_column_title((mba_matrix_column)k), store_of(r, m->store[k]).s);
    const char *verdict = mba_verdict_name(m->suite[i]);
    mba_buf_add(b, "<td class=\"suite\"><span class=\"chip %s\">%s</span> <span>", verdict, verdict);
    mba_buf_html(b, *m->sentence[i] ? m->sentence[i] : any->needs);
    mba_buf_put(b, "</span></td></tr>\n");
}

/* What stands in brackets has a line of its own; "MambaVision" may break before its second capital, "mamba_ssm" behind
 * its underscore. */
static void column_heading(mba_buf *b, const char *title, const char *store)
{
    mba_buf_put(b, "<th scope=\"col\" title=\"");
    mba_buf_html(b, store);
    mba_buf_put(b, "\">");
    for (const char *at = title; *at; at++) {
        const bool capital = *at >= 'A' && *at <= 'Z' && at > title && at[-1] >= 'a' && at[-1] <= 'z';
        mba_buf_add(b, "%s%c%s", *at == '(' ? "<br>" : capital ? "<wbr>" : "", *at, *at == '_' ? "<wbr>" : "");
    }
    mba_buf_put(b, "</th>");
}

void mba_part_verdicts(mba_canvas *c, const mba_stores *r, const mba_matrix *m)
{
    mba_buf *b = &c->out;
    mba_buf_put(b, "<article id=\"verdicts\" aria-label=\"verdicts\"><p class=\"abstract\">");
    where_time_goes(b, m);
    mba_part_limits(b, r, m);
    say_causes(b, m);
    mba_buf_put(b, "</p>");
    heading(b, m);
    mba_buf_put(b, "<table class=\"matrix\"><caption class=\"small\">A mark says what holds in that column; the last "
                   "column is the verdict over all of them. Point at a cell, or tab to it, for its evidence, rule "
                   "and store; F1 to F11 lead to the rules. mamba_ssm: the kernels of that package; multi-kernel: "
                   "ours, one kernel for each step of SSD as there; fused: ours, our default, as in all other "
                   "columns.</caption><thead><tr><th scope=\"col\">The study says</th>");
    for (int k = 0; k < MBA_COLUMNS; k++)
        if (m->store[k]) column_heading(b, mba_matrix_column_title((mba_matrix_column)k), store_of(r, m->store[k]).s);
    mba_buf_put(b, "<th scope=\"col\">Over these stores</th></tr></thead><tbody>");
    for (int i = 0; i < MBA_CLAIMS; i++) row(c, r, m, i);
    mba_buf_put(b, "</tbody></table></article>\n");
}
