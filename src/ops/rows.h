// SPDX-License-Identifier: Apache-2.0
/* rows.h -- row-wise operators on the CPU: addresses of the rows of a view, and sums over rows whose order depends on
 * the shape alone.
 *
 *     const mba__rows x = mba__rows_of(n->in[X], c->in[X]);
 *     MBA_PARALLEL_FOR(r, mba_rows(n->in[X])) use(mba__row(x, r), mba_cols(n->in[X]));
 *
 * A row is contiguous along the last axis. The view may be columns of a wider matrix, and several rows may share a run
 * (the heads of a (B, L, H, P) view), but a row never straddles two runs. */
#ifndef MBA_OPS_ROWS_H
#define MBA_OPS_ROWS_H

#include <string.h>

#include "core/op.h"

typedef struct mba__rows {
    float  *at;
    int64_t cols, run, pitch;
} mba__rows;

/* For an absent tensor all rows are NULL. */
static inline mba__rows mba__rows_of(const mba_tensor *t, void *at)
{
    mba__rows v = { NULL, 0, 0, 0 };
    if (!t) return v;
    v.at = (float *)at;
    v.cols = mba_cols(t);
    v.run = mba_dense(t) ? v.cols : t->run;
    v.pitch = mba_dense(t) ? v.cols : t->pitch;
    return v;
}

static inline float *mba__row(mba__rows v, int64_t r)
{
    if (!v.at) return NULL;
    if (v.run == v.cols) return v.at + r * v.pitch;
    const int64_t i = r * v.cols;
    return v.at + i / v.run * v.pitch + i % v.run;
}

/* Valid entries of axis 0 in a ragged batch; they come first. */
static inline int64_t mba__valid_entries(const mba_tensor *t, const mba_step *step)
{
    const int64_t real = mba_step_rows(step, t->type.count, t->type.dim[0]);
    mba_assert(real <= t->type.dim[0]);
    return real;
}

/* The same, in rows of the last axis. */
static inline int64_t mba__valid_rows(const mba_tensor *t, const mba_step *step)
{
    if (t->type.steps != MBA_ALL) {
        mba_assert(t->type.dim[0] == 1);
        return mba_step_rows(step, t->type.steps, t->type.dim[1]) * (mba_rows(t) / t->type.dim[1]);
    }
    return t->type.rank > 1 ? mba__valid_entries(t, step) * (mba_rows(t) / t->type.dim[0]) : 1;
}

/* Writes zeros into rows from .. to-1. */
static inline void mba__zero_rows(mba__rows v, int64_t from, int64_t to)
{
    for (int64_t r = from; r < to; r++) memset(mba__row(v, r), 0, sizeof(float) * (size_t)v.cols);
}

/* For `shape`: checks that t has rows in the sense above and a floating-point type. Messages begin with `op`. */
MBA_MUST mba_status mba__need_rows(const char *op, const mba_tensor *t);

/* The plan of a CPU kernel without scratch: refuses everything but fp32 (and i32 indices). */
mba_plan_fn mba__plan_f32;

/* Rows are divided into parts of this many. The gradient of a weight is summed per part, then over the parts. */
enum { MBA__PART_ROWS = 64 };
static inline int64_t mba__parts(int64_t rows) { return mba_ceil(rows, MBA__PART_ROWS); }
static inline int64_t mba__part_end(int64_t p, int64_t rows)
{
    return (p + 1) * MBA__PART_ROWS < rows ? (p + 1) * MBA__PART_ROWS : rows;
}

/* sum[i] (+)= part 0 [i] + part 1 [i] + .., in this order. */
static inline void mba__sum_parts(float *sum, const float *part, int64_t parts, int64_t n, bool adds)
{
    enum { BLOCK = 256 };
    MBA_PARALLEL_FOR(b, mba_ceil(n, BLOCK))
    {
        const int64_t from = b * BLOCK, count = n - from < BLOCK ? n - from : BLOCK;
        float         acc[BLOCK] = { 0 };
        for (int64_t p = 0; p < parts; p++)
            for (int64_t i = 0; i < count; i++) acc[i] += part[p * n + from + i];
        for (int64_t i = 0; i < count; i++) sum[from + i] = acc[i] + (adds ? sum[from + i] : 0);
    }
}

/* Divides element-wise work into spans, each contiguous in every operand: rows, or 4096 elements if all are dense.
 *
 *     const mba__spans w = mba__spans_of(n);
 *     MBA_PARALLEL_FOR(p, w.n) use(mba__span_at(n->in[X], c->in[X], w, p), mba__span_elems(w, p));
 */
typedef struct mba__spans {
    int64_t n, size, elems;
} mba__spans;

static inline mba__spans mba__spans_of(const mba_node *n)
{
    int64_t size = 4096;
    for (int k = 0; k < MBA_IN_MAX + MBA_OUT_MAX; k++) {
        const mba_tensor *t = k < MBA_IN_MAX ? n->in[k] : n->out[k - MBA_IN_MAX];
        if (t && !mba_dense(t)) size = mba_cols(t);
    }
    return (mba__spans){ mba_ceil(mba_elems(n->out[0]), size), size, mba_elems(n->out[0]) };
}

static inline float *mba__span_at(const mba_tensor *t, void *at, mba__spans w, int64_t p)
{
    const int64_t i = p * w.size;
    return (float *)at + (mba_dense(t) ? i : i / t->run * t->pitch + i % t->run);
}

static inline int64_t mba__span_elems(mba__spans w, int64_t p)
{
    return (p + 1) * w.size < w.elems ? w.size : w.elems - p * w.size;
}

static inline void *mba__scratch(const mba_call *c, int k) { return c->work + c->plan->scratch[k].offset; }

#endif
