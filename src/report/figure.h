// SPDX-License-Identifier: Apache-2.0
/* figure.h -- the interface of a figure, and what figures share: the runs, the kernels they show, their colours.
 *
 * A figure is a constant struct of functions over the runs. page.c adds heading, switches, table and frame to every
 * figure. To add one: a constant in a fig_*.c and a line in figures.def. */
#ifndef MBA_REPORT_FIGURE_H
#define MBA_REPORT_FIGURE_H

#include "report/grid.h"
#include "report/report.h"
#include "report/svg.h"

typedef struct mba_figure {
    const char            *name, *nav, *eyebrow; /* "fig1", "Operators", "Fig. 1 · operators" */
    const char            *sub, *reading;        /* what is drawn, with units; how to read it */
    const char            *needs;                /* if has() is false: what is missing, and the command that adds it */
    bool                   across;               /* one drawing for all runs (run is -1), else one per run */
    const char *const     *views;                /* names of the views, NULL at the end; NULL: one view */
    const mba_grid_column *columns;
    bool (*has)(const mba_stores *r, int run);
    /* the result as a sentence */
    void (*heading)(mba_buf *b, const mba_stores *r, int run);
    mba_status (*numbers)(mba_grid *g, const mba_stores *r, int run);
    /* NULL: the figure is a table */
    mba_status (*draw)(mba_canvas *c, double w, const mba_stores *r, int run, int view);
    void (*legend)(mba_buf *b, const mba_stores *r, int run); /* items of all views; NULL: none */
} mba_figure;

extern const mba_figure *const mba_figures[];         /* in the order of the page, NULL at the end */
const char *mba_figure_old_name(const mba_figure *f); /* a former name, for links to the page; NULL: none */

/* ---- sections ---- */
/* The page in order: a section begins (its id and its title), a figure, or another part of the page by its name. The
 * last is empty. */
typedef struct mba_outline {
    const char       *section, *words;
    const mba_figure *figure;
    const char       *part;
    bool              rare; /* the figure is left out without data, because few stores have any */
} mba_outline;
extern const mba_outline mba_page_outline[];
/* The number of the section that has a figure or a part of this name; 0: none. `n`: characters of the name. */
int  mba_section_of(const char *name, size_t n);
void mba_section_link(mba_buf *b, const char *name, size_t n); /* "section 9", as a link */

/* ---- runs ---- */
const char *mba_run_label(const mba_stores *r, int run);
/* The simulated model of a run; -1: none. And what the page calls a model: as its run, if that is shown. */
int         mba_run_model(const mba_stores *r, int run);
const char *mba_model_label(const mba_stores *r, int model);

/* report.c: whether the earlier store (mba_stores_baseline) is of the run's workload, and its kernel of the same name,
 * operator, phase and shape; NULL: none. */
bool                   mba_has_before(const mba_stores *r, int run);
const mba_kernel_view *mba_kernel_before(const mba_stores *r, int run, const mba_kernel_view *k);
/* "mamba2.db: mamba2-headline, batch 4 x length 4096". */
mba_name mba_run_store(const mba_run *run);
/* the run is not shown itself: it is the model of a run that is shown, at another size */
bool        mba_run_is_size(const mba_stores *r, int run);
bool        mba_run_is_foreign(const mba_analysis *a); /* a program that is not ours: no graph of operators */
bool        mba_run_is_cpu(const mba_analysis *a);     /* it ran on a CPU */
const char *mba_run_device(const mba_analysis *a);     /* "NVIDIA H200", else the name of the processor; "" */
double      mba_launches_of(const mba_analysis *a);    /* of a step */

/* ---- kernels ---- */
/* Of the kernels of all shown runs, the one that would save the largest part of its step if it met its floor. */
typedef struct mba_gain {
    const mba_run         *run;
    const mba_kernel_view *kernel;
    double                 part;
} mba_gain;
const char *mba_floor_words(mba_floor f);          /* as mba_floor_name, for sentences */
mba_gain    mba_most_to_gain(const mba_stores *r); /* kernel NULL: none has a floor */
/* a stall reason for sentences ("global memory" for "long_scoreboard"); unknown reasons stay as they are */
const char *mba_stall_words(const char *reason);
const char *mba_stall_paint(const char *reason);
/* Kernels chosen for a figure; the caller frees k. */
typedef struct mba_chosen {
    const mba_kernel_view **k;
    int                     n, left_out;
    double                  left_out_s;
} mba_chosen;
typedef bool mba_want_fn(const mba_kernel_view *k);
/* Chooses at most `most` kernels that `want` accepts, the longest per step first. */
MBA_MUST mba_status mba_choose(mba_chosen *c, const mba_analysis *a, mba_want_fn *want, int most);
int  mba_marks_max(const mba_stores *r, int alone); /* marks of a figure: at most half of `alone` if many runs */
bool mba_any_kernel(const mba_analysis *a, mba_want_fn *want);
/* the name of a kernel, with its id if names repeat */
mba_name mba_kernel_label(const mba_analysis *a, const mba_kernel_view *k, int characters);
/* fig_blocks.c: what it means that registers limit occupancy, in one paragraph, for the notes of Fig. 8 */
void mba_registers_explained(mba_buf *b, const mba_stores *r, int run);
/* NaN if absent */
double mba_int_or_nan(int64_t v);

/* ---- drawings with one row per kernel ---- */
typedef struct mba_lanes {
    double left, top, rh, bottom;
    int    characters;
} mba_lanes;
mba_lanes mba_lanes_for(double w, int n, double top, double rh);
double    mba_lanes_at(const mba_lanes *rows, int i); /* the middle of row i */
void      mba_lanes_label(mba_svg *s, const mba_lanes *rows, int i, const mba_analysis *a, const mba_kernel_view *k);

/* ---- colours and words ---- */
const char *mba_kind_paint(int kind); /* "gemm", "ssm", .. of report.css */
const char *mba_kind_long(int kind);
/* Seconds of a class in a step. The head's products run inside the loss operator; here they count as GEMM. */
double      mba_class_s(const mba_analysis *a, int kind); /* "GEMM", "normalisation", .. */
bool        mba_kind_is_light(int kind);                  /* needs dark text */
const char *mba_class_paint(mba_kernel_class c);
void        mba_legend_item(mba_buf *b, const char *paint, const char *text);
void        mba_legend_view(mba_buf *b, int view, const char *paint, const char *text); /* shown with this view only */
void        mba_legend_mark(mba_buf *b, const char *mark, const char *text);            /* "●" */

#endif
