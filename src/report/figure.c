// SPDX-License-Identifier: Apache-2.0
/* figure.c -- see figure.h: the list of figures, and what they share: runs, the choice of kernels, rows, colours. */
#include "report/figure.h"

#include <stdlib.h>
#include <string.h>

#include "study/step_limits.h"
#include "study/verdict_matrix.h"

#define FIGURE(name) extern const mba_figure mba_figure_##name;
#include "report/figures.def"
#undef FIGURE

const mba_figure *const mba_figures[] = {
#define FIGURE(name) &mba_figure_##name,
#include "report/figures.def"
#undef FIGURE
    NULL,
};

const mba_outline mba_page_outline[] = {
#define SECTION(id, title) { .section = id, .words = title },
#define FIGURE(name)       { .figure = &mba_figure_##name },
#define PART(name)         { .part = #name },
#define RARE(name)         { .figure = &mba_figure_##name, .rare = true },
#include "report/figures.def"
#undef FIGURE
    { 0 },
};

static const char *name_in(const mba_outline *o) { return o->figure ? o->figure->name : o->part ? o->part : ""; }

int mba_section_of(const char *name, size_t n)
{
    int number = 1; // the answer
    for (const mba_outline *o = mba_page_outline; o->section || o->figure || o->part; o++) {
        number += o->section != NULL;
        if (strlen(name_in(o)) == n && !strncmp(name_in(o), name, n)) return number;
    }
    return 0;
}

void mba_section_link(mba_buf *b, const char *name, size_t n)
{
    const int number = mba_section_of(name, n);
    mba_assert(number > 1);
    mba_buf_add(b, "<a href=\"#%.*s\">section\u00a0%d</a>", (int)n, name, number);
}

static const struct {
    const char *old, *now;
} aliases[] = {
#define FIGURE(name)
#define FIGURE_ALIAS(old, now) { old, now },
#include "report/figures.def"
#undef FIGURE_ALIAS
#undef FIGURE
};

const char *mba_report_figure_now(const char *name)
{
    for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++)
        if (!strcmp(aliases[i].old, name)) return aliases[i].now;
    return name;
}

const char *mba_figure_old_name(const mba_figure *f)
{
    for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++)
        if (!strcmp(aliases[i].now, f->name)) return aliases[i].old;
    return NULL;
}

/* ---- runs ---- */

const char *mba_run_label(const mba_stores *r, int run)
{
    mba_assert(run >= 0 && run < r->n);
    return r->run[run].label;
}

/* Models are simulated with our default kernels: runs of other programs and of the multi-kernel baseline have none. */
int mba_run_model(const mba_stores *r, int run)
{
    mba_assert(run >= 0 && run < r->n);
    const mba_analysis *a = r->run[run].a;
    if (mba_run_is_foreign(a) || mba_matrix_column_of(a) == MBA_COLUMN_BASELINE) return -1;
    for (int m = 0; r->whatif && m < r->whatif->nmodels; m++)
        if (!strcmp(r->whatif->model[m].name, a->workload)) return m;
    return -1;
}

const char *mba_model_label(const mba_stores *r, int model)
{
    mba_assert(r->whatif && model >= 0 && model < r->whatif->nmodels);
    for (int i = 0; i < r->shown; i++)
        if (mba_run_model(r, i) == model) return mba_run_label(r, i);
    return r->whatif->model[model].name;
}

mba_name mba_run_store(const mba_run *run)
{
    mba_name    w;
    const char *path = mba_store_path(run->store), *slash = strrchr(path, '/');
    snprintf(w.s, sizeof w.s, "%.100s: %.90s%s%.90s", mba_short(slash ? slash + 1 : path, 60).s,
             mba_short(run->a->workload, 40).s, *run->a->batch ? ", " : "", mba_short(run->a->batch, 40).s);
    return w;
}

bool mba_run_is_foreign(const mba_analysis *a) { return a->nnodes == 0; }

bool mba_run_is_cpu(const mba_analysis *a) { return !strcmp(a->device, "cpu"); }

const char *mba_run_device(const mba_analysis *a)
{
    const char *gpu = mba_env_find(a, "gpu.name"), *cpu = mba_env_find(a, "cpu.name");
    const bool  on_cpu = mba_run_is_cpu(a);
    return gpu && !on_cpu ? gpu : cpu && on_cpu ? cpu : a->device;
}

double mba_launches_of(const mba_analysis *a)
{
    double n = 0;
    for (int k = 0; k < MBA_BREAKDOWN_KINDS; k++)
        for (int p = 0; p < MBA_PHASES; p++) n += a->launches[k][p];
    return n;
}

/* ---- kernels ---- */

const char *mba_floor_words(mba_floor f) { return f == MBA_BY_SPECIAL ? "special functions" : mba_floor_name(f); }

mba_gain mba_most_to_gain(const mba_stores *r)
{
    mba_gain most = { NULL, NULL, 0 };
    for (int i = 0; i < r->shown; i++) {
        const mba_distance d = mba_farthest_from_floor(r->run[i].a);
        if (d.part > most.part) most = (mba_gain){ &r->run[i], d.kernel, d.part };
    }
    return most;
}

static int longest_first(const void *x, const void *y)
{
    const mba_kernel_view *a = *(const mba_kernel_view *const *)x, *b = *(const mba_kernel_view *const *)y;
    if (a->step_s != b->step_s) return a->step_s < b->step_s ? 1 : -1;
    return a->row->id < b->row->id ? -1 : 1;
}

mba_status mba_choose(mba_chosen *c, const mba_analysis *a, mba_want_fn *want, int most)
{
    *c = (mba_chosen){ .k = calloc((size_t)a->nkernels + 1, sizeof *c->k) };
    if (!c->k) return mba_fail(MBA_E_NOMEM, "no memory for %lld kernels", (long long)a->nkernels);
    for (int64_t i = 0; i < a->nkernels; i++)
        if (a->kernel[i].launches > 0 && want(&a->kernel[i])) c->k[c->n++] = &a->kernel[i];
    if (c->n) qsort(c->k, (size_t)c->n, sizeof *c->k, longest_first);
    for (; c->n > most; c->left_out++) c->left_out_s += c->k[--c->n]->step_s;
    mba_assert(c->n <= most && c->n + c->left_out <= a->nkernels);
    return MBA_OK;
}

int mba_marks_max(const mba_stores *r, int alone)
{
    enum { SUITE = 16 }; // the page of a whole suite stays below 3 MB
    mba_assert(alone > 2);
    return r->shown <= 3 ? alone : r->n <= SUITE ? alone / 2 : 9 * alone / 20;
}

bool mba_any_kernel(const mba_analysis *a, mba_want_fn *want)
{
    for (int64_t i = 0; i < a->nkernels; i++)
        if (a->kernel[i].launches > 0 && want(&a->kernel[i])) return true;
    return false;
}

/* True if another kernel has this name, or one that is the same after it is cut. */
static bool name_repeats(const mba_analysis *a, const mba_kernel_view *k, int characters)
{
    const char *name = k->row->name ? k->row->name : "?";
    for (int64_t i = 0; i < a->nkernels; i++) {
        const mba_kernel_view *o = &a->kernel[i];
        if (o == k || o->launches <= 0 || !o->row->name) continue;
        if (strncmp(o->row->name, name, (size_t)characters - 1)) continue;
        if (!strcmp(mba_short(o->row->name, characters).s, mba_short(name, characters).s)) return true;
    }
    return false;
}

mba_name mba_kernel_label(const mba_analysis *a, const mba_kernel_view *k, int characters)
{
    mba_name    w;
    char        number[32] = "";
    const char *name = k->row->name ? k->row->name : "?";
    if (name_repeats(a, k, characters)) snprintf(number, sizeof number, " #%lld", (long long)k->row->id);
    snprintf(w.s, sizeof w.s, "%.200s%s", mba_short(name, characters - (int)strlen(number)).s, number);
    return w;
}

double mba_int_or_nan(int64_t v) { return v == MBA_ABSENT ? NAN : (double)v; }

/* ---- rows ---- */

mba_lanes mba_lanes_for(double w, int n, double top, double rh)
{
    const bool narrow = w <= MBA_NARROW;
    mba_assert(n >= 0 && rh > 0);
    return (mba_lanes){ narrow ? 128 : 236, top, rh, top + rh * n, narrow ? 18 : 31 };
}

double mba_lanes_at(const mba_lanes *rows, int i) { return rows->top + rows->rh * (i + 0.5); }

void mba_lanes_label(mba_svg *s, const mba_lanes *rows, int i, const mba_analysis *a, const mba_kernel_view *k)
{
    mba_svg_text(s, rows->left - 8, mba_lanes_at(rows, i) + 4, "mono", 'e', "%s",
                 mba_kernel_label(a, k, rows->characters).s);
}

/* ---- colours and words ---- */

typedef struct kind_words {
    const char *paint, *text;
    bool        light;
} kind_words;
static const kind_words kinds[MBA_BREAKDOWN_KINDS] = {
    [MBA_GEMM] = { "gemm", "GEMM", false },          [MBA_SSM] = { "ssm", "SSM", true },
    [MBA_CONV] = { "conv", "convolution", true },    [MBA_ATTENTION] = { "attn", "attention", true },
    [MBA_NORM] = { "norm", "normalisation", true },  [MBA_ELEMENTWISE] = { "elt", "element-wise", true },
    [MBA_REDUCTION] = { "red", "reduction", false }, [MBA_MESSAGE] = { "msg", "message passing", false },
    [MBA_MEMORY] = { "mem", "memory, cast", false }, [MBA_EMBED_LOSS] = { "emb", "embedding, loss", true },
    [MBA_OPTIMIZER] = { "opt", "optimizer", false }, [MBA_COLLECTIVE] = { "col", "collective", true },
    [MBA_OTHER] = { "oth", "other", true },
};

static const kind_words *words_of(int kind)
{
    mba_assert(kind >= 0 && kind < MBA_BREAKDOWN_KINDS);
    return &kinds[kind];
}

const char *mba_kind_paint(int kind) { return words_of(kind)->paint; }
const char *mba_kind_long(int kind) { return words_of(kind)->text; }
bool        mba_kind_is_light(int kind) { return words_of(kind)->light; }

double mba_class_s(const mba_analysis *a, int kind)
{
    const double head = mba_products_s(a) - mba_kind_s(a, MBA_GEMM);
    return mba_kind_s(a, kind) + (kind == MBA_GEMM ? head : kind == MBA_EMBED_LOSS ? -head : 0);
}

const char *mba_class_paint(mba_kernel_class c)
{
    mba_assert(c <= MBA_CLASS_COPY);
    return (const char *const[]){ [MBA_CLASS_UNKNOWN] = "mem",
                                  [MBA_CLASS_TENSOR] = "tensor",
                                  [MBA_CLASS_VECTOR] = "vector",
                                  [MBA_CLASS_MIXED] = "mixed",
                                  [MBA_CLASS_COPY] = "mem" }[c];
}

void mba_legend_item(mba_buf *b, const char *paint, const char *text)
{
    mba_buf_add(b, "<li><i style=\"background:var(--%s)\"></i>%s</li>", paint, text);
}

void mba_legend_view(mba_buf *b, int view, const char *paint, const char *text)
{
    mba_buf_add(b, "<li data-view=\"%d\"%s><i style=\"background:var(--%s)\"></i>%s</li>", view, view ? " hidden" : "",
                paint, text);
}

void mba_legend_mark(mba_buf *b, const char *mark, const char *text)
{
    mba_buf_add(b, "<li><b>%s</b> %s</li>", mark, text);
}
