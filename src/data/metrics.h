// SPDX-License-Identifier: Apache-2.0
/* metrics.h -- measures of predictions over all batches of a split: accuracy, F1, average precision, absolute error.
 *
 *     mba_confusion c;
 *     MBA_TRY(mba_confusion_create(&c, classes));
 *     mba_confusion_add(&c, predicted, truth, n);            // once per batch
 *     printf("%g %g %g\n", mba_accuracy(&c), mba_macro_f1(&c), mba_sbm_accuracy(&c));
 *     mba_confusion_destroy(&c);                             // a zeroed one is fine
 *
 * Results are fractions of 1, not percent. Without any prediction they are NaN. */
#ifndef MBA_METRICS_H
#define MBA_METRICS_H

#include <stdint.h>

#include "core/status.h"

/* count[truth * classes + predicted] */
typedef struct mba_confusion {
    int64_t classes, *count;
} mba_confusion;

MBA_MUST mba_status mba_confusion_create(mba_confusion *out, int64_t classes);
void                mba_confusion_destroy(mba_confusion *c);
/* Ignores negative truths; all other values are below `classes`. */
void mba_confusion_add(mba_confusion *c, const int32_t *predicted, const int32_t *truth, int64_t n);

double mba_accuracy(const mba_confusion *c);
/* The mean of 2TP / (2TP + FP + FN) over the classes that occur in truth or prediction. */
double mba_macro_f1(const mba_confusion *c);
/* The mean recall over these classes; a class that is only predicted counts as 0. */
double mba_sbm_accuracy(const mba_confusion *c);

/* The class with the highest score of each row, the first among equals; NaN is lower than all. */
void mba_argmax(int32_t *out, const float *score, int64_t rows, int64_t classes);
/* Counts rows whose truth is among the k highest scores. Equal scores rank by class number; a NaN of another class
 * ranks above the truth, a NaN of the truth below all. A negative truth never counts. */
int64_t mba_top_k(const float *score, const int32_t *truth, int64_t rows, int64_t classes, int64_t k);

/* Mean over the tasks (columns) of the average precision sum_k (R_k - R_{k-1}) P_k at the distinct scores, descending.
 * truth (rows, tasks) is 1, 0, or NaN if missing. Tasks without a positive are left out; if none remains, the result is
 * NaN. A score of NaN counts as the lowest. */
MBA_MUST mba_status mba_average_precision(double *out, const float *score, const float *truth, int64_t rows,
                                          int64_t tasks);

/* Mean |score - truth| over the entries that are not missing (NaN). */
double mba_mean_absolute_error(const float *score, const float *truth, int64_t n);

#endif
