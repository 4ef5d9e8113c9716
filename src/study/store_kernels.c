// SPDX-License-Identifier: Apache-2.0
/* store_kernels.c -- see store_kernels.h. Metrics and factors: sim/counters.def. */
#include "study/store_kernels.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- counts ---- */

/* sim/counters.def says which metrics give which count. */
typedef struct source {
    mba_profiled_metric what;
    const char         *metric;
    double              factor;
} source;
static const source sources[] = {
#define COUNT(what, metric, seen) { MBA_N_##what, metric, 1 / (double)(seen) },
#define HELP(name, metric)
#define SEEN_ALL(seen)
#define ADDED(least, share)
#include "sim/counters.def"
#undef COUNT
#undef HELP
};
enum { SOURCES = sizeof sources / sizeof *sources };

/* Metrics from which counts are computed. */
enum {
#define COUNT(what, metric, seen)
#define HELP(name, metric) name,
#include "sim/counters.def"
#undef HELP
    HELPS
};
static const char *const helps[HELPS] = {
#define HELP(name, metric) metric,
#include "sim/counters.def"
#undef HELP
#undef SEEN_ALL
#undef ADDED
};
#define HELP(name, metric)
#define SEEN_ALL(seen)      static const double seen_all = seen;
#define ADDED(least, share) static const double added_least = least, added_share = share;
#include "sim/counters.def"

typedef struct counters {
    const mba_row_counter *row;
    int64_t                n;
    double                 sms;
} counters;
typedef struct found {
    double source[SOURCES], help[HELPS];
} found;

/* A store of another program may hold any value: one outside these bounds counts as not measured. */
static double sane(double v) { return v >= 0 && v <= 1e15 ? v : NAN; }

static void find(found *f, const counters *all, int64_t kernel)
{
    for (int i = 0; i < SOURCES; i++) f->source[i] = NAN;
    for (int i = 0; i < HELPS; i++) f->help[i] = NAN;
    for (int64_t r = 0; r < all->n; r++) {
        const mba_row_counter *c = &all->row[r];
        if (c->kernel != kernel || !c->metric) continue;
        for (int i = 0; i < SOURCES; i++)
            if (!strcmp(c->metric, sources[i].metric)) f->source[i] = sane(c->value);
        for (int i = 0; i < HELPS; i++)
            if (!strcmp(c->metric, helps[i])) f->help[i] = sane(c->value);
    }
}

static double sums_of(const double *help)
{
    const double rest = help[L2_ALL] - help[L2_READ] - help[L2_WRITE];
    return isnan(rest) ? NAN : rest > fmax(added_least, added_share * help[L2_ALL]) ? rest / seen_all : 0;
}

static void unless_counted(double *count, double estimate)
{
    if (isnan(*count)) *count = estimate;
}

/* Stores without the set `signature` have utilisations in percent, which are counts if multiplied by cycles, and bytes.
 * A load of a warp moves 512 bytes, 16 for each lane. L2 reads and writes in the ratio in which DRAM does. Copies by
 * TMA, which pass L1 uncounted, are those of libraries, whose L2 traffic is left to their plan. */
static void estimate(mba_profiled_kernel *c, const double *help, double sms)
{
    enum { TENSOR_FLOPS = 4096, LOAD_BYTES = 512, SECTOR = 32 };
    const double cycles = help[CYCLES] * 4 * sms / 100, dram = c->n[MBA_N_DRAM_RD] + c->n[MBA_N_DRAM_WR],
                 through = fmin(help[L2_BYTES] / seen_all, help[L1_BYTES]) / SECTOR,
                 reads = dram > 0 ? c->n[MBA_N_DRAM_RD] / dram : 1;
    unless_counted(&c->n[MBA_N_INST], help[ISSUE_BUSY] * cycles);
    unless_counted(&c->n[MBA_N_FMA], help[FMA_BUSY] * cycles);
    unless_counted(&c->n[MBA_N_ALU], help[ALU_BUSY] * cycles / 2);
    unless_counted(&c->n[MBA_N_TENSOR], help[TENSOR_BUSY] / 100 * help[CYCLES] * sms * TENSOR_FLOPS);
    unless_counted(&c->n[MBA_N_GLOBAL_LD], reads * help[L1_BYTES] / LOAD_BYTES);
    unless_counted(&c->n[MBA_N_L2_RD], reads * through);
    unless_counted(&c->n[MBA_N_L2_WR], (1 - reads) * through);
}

static void count(mba_profiled_kernel *c, const counters *all, int64_t kernel)
{
    found f;
    find(&f, all, kernel);
    for (int k = 0; k < MBA_N_KINDS; k++) c->n[k] = NAN;
    for (int i = 0; i < SOURCES; i++)
        if (isnan(c->n[sources[i].what])) c->n[sources[i].what] = f.source[i] * sources[i].factor;
    c->n[MBA_N_L2_SUM] = sums_of(f.help);
    estimate(c, f.help, all->sms);
}

/* ---- kernels ---- */

static double bounded(int64_t v, int64_t least) { return fmin(v == MBA_ABSENT || v < least ? least : v, 0x1p31); }

static void launched(mba_profiled_kernel *c, const mba_row_kernel *k)
{
    snprintf(c->kernel, sizeof c->kernel, "%s", k->name ? k->name : k->symbol ? k->symbol : "?");
    snprintf(c->op, sizeof c->op, "%s", k->op && *k->op ? k->op : "-");
    c->grid = fmin(bounded(k->grid_x, 1) * bounded(k->grid_y, 1) * bounded(k->grid_z, 1), 0x1p41);
    c->block = fmin(bounded(k->block_x, 1) * bounded(k->block_y, 1) * bounded(k->block_z, 1), 0x1p31);
    c->cluster = bounded(k->cluster, 1);
    c->regs = bounded(k->regs, 0);
    c->smem_bytes = bounded(k->smem_static_bytes, 0) + bounded(k->smem_dynamic_bytes, 0);
}

typedef struct times {
    const mba_row_kernel *kernel;
    int64_t n, *launches, steps, step, at, seen; /* at, seen: kernel of the last event, its events so far */
    double *us;
    bool    found; /* the store has steps: events without a step are left out */
} times;

static int64_t place_of(const times *t, const mba_row_event *e)
{
    if (e->kernel == MBA_ABSENT || e->duration_ns == MBA_ABSENT || (t->found && e->step == MBA_ABSENT)) return -1;
    return mba_store_find(MBA_ROWS_kernel, t->kernel, t->n, e->kernel);
}

static mba_status see_step(void *ctx, const void *row)
{
    times               *t = ctx;
    const mba_row_event *e = row;
    const int64_t        at = place_of(t, e);
    if (t->found && e->step == MBA_ABSENT) return MBA_OK;
    if (t->steps == 0 || e->step != t->step) t->steps++;
    t->step = e->step;
    if (at >= 0) t->launches[at]++;
    return MBA_OK;
}

/* Events come sorted by kernel, then by duration: the one in the middle of a kernel is its median. */
static mba_status see_time(void *ctx, const void *row)
{
    times               *t = ctx;
    const mba_row_event *e = row;
    const int64_t        at = place_of(t, e);
    if (at < 0) return MBA_OK;
    t->seen = at == t->at ? t->seen + 1 : 0;
    t->at = at;
    if (t->seen == t->launches[at] / 2) t->us[at] = 1e-3 * (double)e->duration_ns;
    return MBA_OK;
}

static int longest_first(const void *x, const void *y)
{
    const mba_profiled_kernel *a = x, *b = y;
    const double               s = a->launches * a->us, t = b->launches * b->us;
    return s < t ? 1 : -(s > t);
}

/* Plans and code of our own kernels are known, as they were when the built-in set was measured. */
static mba_status find_known(mba_profiled_set *kernels)
{
    mba_profiled_set *known;
    MBA_TRY(mba_profiled_load(&known, NULL));
    for (int i = 0; i < kernels->n; i++) mba_profiled_resemble(&kernels->one[i], known);
    mba_profiled_destroy(known);
    return MBA_OK;
}

static mba_status gather(mba_store_kernels *out, mba_store *s, times *t, counters *all)
{
    MBA_TRY(mba_store_each(s, MBA_ROWS_event, "step", see_step, t));
    MBA_TRY(mba_store_each(s, MBA_ROWS_event, "kernel, duration_ns", see_time, t));
    for (int64_t i = 0; i < t->n; i++) {
        mba_profiled_kernel *c = &out->kernels.one[out->kernels.n];
        launched(c, &t->kernel[i]);
        count(c, all, t->kernel[i].id);
        c->us = t->us[i];
        if (!(c->us > 0)) continue; // has counters, but no launch in the recorded steps
        c->launches = (double)t->launches[i] / (double)t->steps;
        if (mba_profiled_complete(c)) out->kernels.n++;
        else out->without++, out->without_us += c->launches * c->us;
    }
    qsort(out->kernels.one, (size_t)out->kernels.n, sizeof *out->kernels.one, longest_first);
    if (out->kernels.n) return find_known(&out->kernels);
    return mba_fail(MBA_E_FORMAT,
                    "%s has no kernel with counters\nwhy: kernels without launch plans need "
                    "counters of instructions, loads and bytes\nfix: mambascope profile with the sets roofline, cache "
                    "and signature, on "
                    "a GPU that allows counters (mambascope doctor)",
                    mba_store_path(s));
}

static mba_status load(mba_store_kernels *out, mba_store *s)
{
    mba_row_kernel  *kernel;
    mba_row_counter *counter;
    mba_row_sheet   *sheet;
    int64_t          nkernels, ncounters, nsheet;
    MBA_TRY(mba_load_kernel(s, &kernel, &nkernels));
    MBA_TRY(mba_load_counter(s, &counter, &ncounters));
    MBA_TRY(mba_load_sheet(s, &sheet, &nsheet));
    counters all = { counter, ncounters, NAN };
    bool     steps_found = false;
    for (int64_t i = 0; i < nsheet; i++) {
        if (sheet[i].key && !strcmp(sheet[i].key, "gpu.sms")) all.sms = sheet[i].number;
        if (sheet[i].key && !strcmp(sheet[i].key, "run.loop") && sheet[i].text)
            steps_found = !strcmp(sheet[i].text, "found");
        if (sheet[i].key && !strcmp(sheet[i].key, "gpu.name") && sheet[i].text)
            snprintf(out->gpu, sizeof out->gpu, "%s", sheet[i].text);
    }
    const size_t room = (size_t)nkernels + 1;
    times        t = { .kernel = kernel,
                       .n = nkernels,
                       .at = -1,
                       .found = steps_found,
                       .us = calloc(room, sizeof *t.us),
                       .launches = calloc(room, sizeof *t.launches) };
    out->kernels.one = calloc(room, sizeof *out->kernels.one);
    const bool there = t.us && t.launches && out->kernels.one;
    mba_status st = there ? gather(out, s, &t, &all) : mba_fail(MBA_E_NOMEM, "no memory for the kernels of a store");
    free(t.us);
    free(t.launches);
    return st;
}

mba_status mba_store_kernels_read(mba_store_kernels *out, mba_store *s)
{
    *out = (mba_store_kernels){ .gpu = "GPU" };
    const mba_status st = load(out, s);
    if (st != MBA_OK) mba_store_kernels_free(out);
    return st;
}

mba_status mba_store_kernels_load(mba_store_kernels *out, const char *path)
{
    mba_store *s;
    *out = (mba_store_kernels){ 0 };
    MBA_TRY(mba_store_open(&s, path));
    const mba_status st = mba_store_kernels_read(out, s), closed = mba_store_close(s);
    if (closed != MBA_OK) mba_store_kernels_free(out);
    return st != MBA_OK ? st : closed;
}

void mba_store_kernels_free(mba_store_kernels *s)
{
    for (int i = 0; i < s->kernels.n; i++) free(s->kernels.one[i].program);
    free(s->kernels.one);
    s->kernels = (mba_profiled_set){ 0 };
}
