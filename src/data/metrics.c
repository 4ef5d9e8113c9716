// SPDX-License-Identifier: Apache-2.0
/* metrics.c -- see metrics.h: confusion matrices, rankings, average precision, absolute error. */
#include "data/metrics.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

/* ---- classes ---- */

mba_status mba_confusion_create(mba_confusion *out, int64_t classes)
{
    enum { CLASSES_MAX = 1 << 14 }; // the matrix has their square
    mba_assert(classes > 0);
    if (classes > CLASSES_MAX)
        return mba_fail(MBA_E_ARG,
                        "%" PRId64 " classes are too many to be counted\nwhy: the table has one "
                        "entry per pair of classes\nfix: use at most %d: --set outputs=..",
                        classes, CLASSES_MAX);
    out->classes = classes;
    out->count = calloc((size_t)(classes * classes), sizeof *out->count);
    return out->count ? MBA_OK : mba_fail(MBA_E_NOMEM, "no memory to count %" PRId64 " classes", classes);
}

void mba_confusion_destroy(mba_confusion *c)
{
    free(c->count);
    *c = (mba_confusion){ 0 };
}

void mba_confusion_add(mba_confusion *c, const int32_t *predicted, const int32_t *truth, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        if (truth[i] < 0) continue;
        mba_assert(truth[i] < c->classes && predicted[i] >= 0 && predicted[i] < c->classes);
        c->count[truth[i] * c->classes + predicted[i]]++;
    }
}

/* One class: how often it is the truth, how often it is predicted, how often both. */
typedef struct tally {
    double meant, said, right;
} tally;

static tally tally_of(const mba_confusion *c, int64_t k)
{
    tally t = { .right = (double)c->count[k * c->classes + k] };
    for (int64_t j = 0; j < c->classes; j++) {
        t.meant += (double)c->count[k * c->classes + j];
        t.said += (double)c->count[j * c->classes + k];
    }
    return t;
}

double mba_accuracy(const mba_confusion *c)
{
    double right = 0, all = 0;
    for (int64_t k = 0; k < c->classes; k++) {
        const tally t = tally_of(c, k);
        right += t.right;
        all += t.meant;
    }
    return right / all;
}

double mba_macro_f1(const mba_confusion *c)
{
    double sum = 0, classes = 0;
    for (int64_t k = 0; k < c->classes; k++) {
        const tally t = tally_of(c, k);
        if (t.meant + t.said == 0) continue;
        sum += 2 * t.right / (t.meant + t.said);
        classes++;
    }
    return sum / classes;
}

double mba_sbm_accuracy(const mba_confusion *c)
{
    double sum = 0, classes = 0;
    for (int64_t k = 0; k < c->classes; k++) {
        const tally t = tally_of(c, k);
        if (t.meant + t.said == 0) continue;
        if (t.meant > 0) sum += t.right / t.meant;
        classes++;
    }
    return sum / classes;
}

void mba_argmax(int32_t *out, const float *score, int64_t rows, int64_t classes)
{
    for (int64_t r = 0; r < rows; r++) {
        const float *s = score + r * classes;
        int64_t      best = 0;
        for (int64_t c = 1; c < classes; c++)
            if (s[c] > s[best] || (isnan(s[best]) && !isnan(s[c]))) best = c;
        out[r] = (int32_t)best;
    }
}

int64_t mba_top_k(const float *score, const int32_t *truth, int64_t rows, int64_t classes, int64_t k)
{
    int64_t right = 0;
    for (int64_t r = 0; r < rows; r++) {
        const float  *s = score + r * classes;
        const int64_t y = truth[r];
        int64_t       above = 0;
        if (y < 0) continue;
        mba_assert(y < classes);
        for (int64_t c = 0; c < classes; c++) above += c != y && !(s[c] < s[y]) && (s[c] != s[y] || c < y);
        right += above < k;
    }
    return right;
}

/* ---- average precision ---- */

typedef struct scored {
    float score;
    bool  positive;
} scored;

static int compare_falling(const void *a, const void *b)
{
    const scored *x = a, *y = b;
    return (x->score < y->score) - (x->score > y->score);
}

/* The average precision of n sorted entries, p of them positive. */
static double precision_of(const scored *s, int64_t n, int64_t p)
{
    double  sum = 0;
    int64_t found = 0, before = 0;
    for (int64_t i = 0; i < n; i++) {
        found += s[i].positive;
        if (i + 1 < n && s[i + 1].score == s[i].score) continue; // not a threshold yet
        sum += (double)(found - before) / (double)p * ((double)found / (double)(i + 1));
        before = found;
    }
    return sum;
}

mba_status mba_average_precision(double *out, const float *score, const float *truth, int64_t rows, int64_t tasks)
{
    scored *s = malloc(((size_t)rows + 1) * sizeof *s);
    double  sum = 0, counted = 0;
    if (!s) return mba_fail(MBA_E_NOMEM, "no memory to sort %" PRId64 " scores", rows);
    for (int64_t t = 0; t < tasks; t++) {
        int64_t n = 0, positives = 0;
        for (int64_t r = 0; r < rows; r++) {
            const float x = score[r * tasks + t], y = truth[r * tasks + t];
            if (isnan(y)) continue;
            s[n++] = (scored){ isnan(x) ? -INFINITY : x, y > 0.5f };
            positives += y > 0.5f;
        }
        if (!positives) continue;
        qsort(s, (size_t)n, sizeof *s, compare_falling);
        sum += precision_of(s, n, positives);
        counted++;
    }
    free(s);
    *out = sum / counted;
    return MBA_OK;
}

/* ---- regression ---- */

double mba_mean_absolute_error(const float *score, const float *truth, int64_t n)
{
    double sum = 0, counted = 0;
    for (int64_t i = 0; i < n; i++) {
        if (isnan(truth[i])) continue;
        sum += fabs((double)score[i] - (double)truth[i]);
        counted++;
    }
    return sum / counted;
}
