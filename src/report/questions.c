// SPDX-License-Identifier: Apache-2.0
/* questions.c -- see parts.h: the questions that the study leaves open, and the figure that answers each. */
#include "report/questions.h"

#include <string.h>

#include "report/parts.h"

typedef struct question {
    const char *id, *words, *figure;
    void (*sure)(mba_buf *b, const mba_stores *r);
} question;
static const question questions[] = {
    { "Q1", "Do persistent thread blocks help?", "persistent", mba_persistent_sure },
    { "Q2", "Which tensor : vector : special ratio is best?", "ratio", mba_ratio_sure },
    { "Q3", "What does fusing kernels give?", "fusion", mba_fusion_sure },
    { "N1", "How do size and length matter?", "fig11", mba_sizes_sure },
    { "N2", "And on other GPUs?", "machines", mba_machines_sure },
};
enum { QUESTIONS = sizeof questions / sizeof *questions };

static const question *question_of(const mba_figure *f)
{
    for (int i = 0; i < QUESTIONS; i++)
        if (!strcmp(questions[i].figure, f->name)) return &questions[i];
    return NULL;
}

static const mba_figure *figure_of(const question *q)
{
    for (int i = 0; mba_figures[i]; i++)
        if (!strcmp(mba_figures[i]->name, q->figure)) return mba_figures[i];
    return NULL;
}

void mba_question_open(mba_buf *b, const mba_figure *f)
{
    const question *q = question_of(f);
    if (q) mba_buf_add(b, "<p class=\"ask\"><b>%s</b> %s</p>", q->id, q->words);
}

void mba_question_sure(mba_buf *b, const mba_figure *f, const mba_stores *r)
{
    const question *q = question_of(f);
    if (!q) return;
    mba_buf_put(b, "<p class=\"sure\"><b>How sure.</b> ");
    q->sure(b, r);
    mba_buf_put(b, ".</p>");
}

/* The questions are about GPUs: pages of CPU runs do not ask them on the first screen. */
void mba_part_questions(mba_buf *b, const mba_stores *r)
{
    bool gpu = false;
    int  answered = 0;
    for (int i = 0; i < r->n; i++) gpu |= !mba_run_is_cpu(r->run[i].a);
    for (int i = 0; i < QUESTIONS; i++) answered += figure_of(&questions[i])->has(r, -1);
    if (!answered || !gpu) return;
    mba_buf_put(
        b, "<article id=\"questions\" aria-label=\"open questions\"><h2>Questions that the study leaves open</h2>");
    for (int i = 0; i < QUESTIONS; i++) {
        const question   *q = &questions[i];
        const mba_figure *f = figure_of(q);
        mba_assert(f && f->across);
        mba_buf_add(b, "<a class=\"q\" href=\"#%s\"><b>%s</b><span class=\"qt\">%s</span><span class=\"qa\">",
                    q->figure, q->id, q->words);
        if (f->has(r, -1)) f->heading(b, r, -1);
        else mba_buf_put(b, "No data yet: it needs "), mba_buf_html(b, f->needs);
        mba_buf_put(b, ".</span><small>");
        if (f->has(r, -1)) q->sure(b, r);
        mba_buf_put(b, "</small></a>");
    }
    mba_buf_put(b, "</article>\n");
}
