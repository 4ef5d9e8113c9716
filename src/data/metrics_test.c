// SPDX-License-Identifier: Apache-2.0
/* metrics_test.c -- metrics worked by hand, and on 400 rows against NumPy (tools/golden/graph_features.py). */
#include "tests/test.h"

#include "data/metrics.h"
#include "data/npy.h"

#define DATA "tests/data/graphs/"

static void counted_by_hand(void **state)
{
    (void)state;
    mba_confusion c;
    assert_fails(mba_confusion_create(&c, 20000), MBA_E_ARG, "at most 16384");
    assert_ok(mba_confusion_create(&c, 5));
    assert_true(isnan(mba_accuracy(&c)));
    // Class 0: three, two found. Class 1: one, not found. Class 2: two, both found. Class 3: only said. Class 4: never.
    mba_confusion_add(&c, (int32_t[]){ 0, 0, 1, 3 }, (int32_t[]){ 0, 0, 0, 1 }, 4);
    mba_confusion_add(&c, (int32_t[]){ 2, 2, 4 }, (int32_t[]){ 2, 2, -1 }, 3);
    assert_near(mba_accuracy(&c), 4.0 / 6, 1e-15);
    assert_near(mba_macro_f1(&c), (4.0 / 5 + 0 + 1 + 0) / 4, 1e-15);
    assert_near(mba_sbm_accuracy(&c), (2.0 / 3 + 0 + 1 + 0) / 4, 1e-15);
    mba_confusion_destroy(&c);
}

static void ranked_by_hand(void **state)
{
    (void)state;
    const float   score[] = { 1, 3, 2, 2, 2, 1, NAN, 0, 0, 5, NAN, 4 };
    const int32_t truth[] = { 2, 1, 0, 0 };
    int32_t       best[4];
    mba_argmax(best, score, 4, 3);
    assert_true(best[0] == 1 && best[1] == 0 && best[2] == 1 && best[3] == 0);
    assert_int_equal(mba_top_k(score, truth, 4, 3, 1), 0); // equal scores rank by number, a NaN is above
    assert_int_equal(mba_top_k(score, truth, 4, 3, 2), 3);
    assert_int_equal(mba_top_k(score, (int32_t[]){ 1, -1, 2, 2 }, 4, 3, 1), 1);
}

static void precision_by_hand(void **state)
{
    (void)state;
    double ap;
    // By falling score: 1 0 1 0: precisions 1 and 2/3 at recalls 1/2 and 1.
    assert_ok(mba_average_precision(&ap, (float[]){ 0.1f, 0.4f, 0.35f, 0.8f }, (float[]){ 0, 0, 1, 1 }, 4, 1));
    assert_near(ap, 0.5 * 1 + 0.5 * 2 / 3, 1e-15);
    // All scores equal: one threshold, the precision is the share of positives.
    assert_ok(mba_average_precision(&ap, (float[]){ 1, 1, 1, 1 }, (float[]){ 1, 0, 0, 1 }, 4, 1));
    assert_near(ap, 0.5, 1e-15);
    // Two tasks: the second has no positive and does not count; a missing row neither.
    assert_ok(mba_average_precision(&ap, (float[]){ 3, 0, 2, 0, 1, 0 }, (float[]){ NAN, 0, 0, 0, 1, NAN }, 3, 2));
    assert_near(ap, 0.5, 1e-15);
    assert_ok(mba_average_precision(&ap, (float[]){ 3 }, (float[]){ 0 }, 1, 1));
    assert_true(isnan(ap));
    assert_near(mba_mean_absolute_error((float[]){ 1, 2, 3 }, (float[]){ 2, NAN, 1 }, 3), 1.5, 1e-15);
}

static void *load(const char *path, bool whole, int64_t *rows)
{
    mba_npy *f;
    assert_ok(mba_npy_open(&f, path));
    const mba_array *a = mba_npy_array(f);
    float           *x = malloc((size_t)a->elems * sizeof *x);
    assert_ok(mba_array_read_f32(a, x, a->elems));
    if (whole) memcpy(x, a->data, (size_t)a->bytes); // int32 as it lies
    *rows = a->shape[0];
    mba_npy_close(f);
    return x;
}

static void numbers_agree_with_numpy(void **state)
{
    (void)state;
    int64_t  rows;
    float   *score = load(DATA "metric_scores.npy", false, &rows), *multi = load(DATA "metric_multi.npy", false, &rows);
    float   *label = load(DATA "metric_labels.npy", false, &rows);
    int32_t *truth = load(DATA "metric_truth.npy", true, &rows), best[400];
    double   want[6], ap;
    mba_npy *f;
    assert_ok(mba_npy_open(&f, DATA "metric_values.npy"));
    assert_ok(mba_array_read_f64(mba_npy_array(f), want, 6));
    mba_npy_close(f);
    mba_confusion c;
    assert_ok(mba_confusion_create(&c, 7));
    mba_argmax(best, score, 400, 7);
    mba_confusion_add(&c, best, truth, 250); // in two batches
    mba_confusion_add(&c, best + 250, truth + 250, 150);
    assert_near(mba_accuracy(&c), want[0], 1e-14);
    assert_near((double)mba_top_k(score, truth, 400, 7, 1) / 400, want[0], 1e-14);
    assert_near(mba_macro_f1(&c), want[1], 1e-14);
    assert_near(mba_sbm_accuracy(&c), want[2], 1e-14);
    assert_near((double)mba_top_k(score, truth, 400, 7, 5) / 400, want[3], 1e-14);
    assert_ok(mba_average_precision(&ap, multi, label, 400, 5));
    assert_near(ap, want[4], 1e-13);
    assert_near(mba_mean_absolute_error(multi, label, 400 * 5), want[5], 1e-13);
    mba_confusion_destroy(&c);
    free(score);
    free(multi);
    free(label);
    free(truth);
}

MBA_TEST_MAIN(cmocka_unit_test(counted_by_hand), cmocka_unit_test(ranked_by_hand), cmocka_unit_test(precision_by_hand),
              cmocka_unit_test(numbers_agree_with_numpy))
