// SPDX-License-Identifier: Apache-2.0
/* validation_scores_test.c -- scores of synthetic kernels, sizes and variants, computed by hand. */
#include "study/validation_scores.h"

#include <math.h>
#include <string.h>

#include "tests/test.h"

static mba_profiled_kernel kernel(const char *op, double launches, double us, double predicted)
{
    mba_profiled_kernel c = { .launches = launches,
                              .us = us,
                              .bound_us = predicted,
                              .planned_us = predicted / 2,
                              .roofline_us = us / 2,
                              .set = MBA_POINT_HELD };
    snprintf(c.op, sizeof c.op, "%s", op);
    return c;
}

/* 3 launches of 100 us that are 10 % too long, one of 700 us that is 20 % too short. */
static void kernels_count_by_their_time(void **state)
{
    mba_profiled_kernel one[] = { kernel("ssd", 3, 100, 110), kernel("selective_scan_bwd", 1, 700, 560),
                                  kernel("matmul", 9, 1000, 1500), kernel("ssd", 1, 100, 1000) };
    mba_profiled_set    k = { one, 4 };
    (void)state;
    one[3].again = true;
    const mba_weighted_score s = mba_score_kernels(&k, MBA_SCORE_SSM, MBA_SCORE_HELD, MBA_FROM_COUNTERS);
    assert_int_equal(s.points, 2);
    assert_near(s.error, (300 * 10 + 700 * 20) / 1000.0, 1e-9);
    assert_near(s.bias, (300 * 10 - 700 * 20) / 1000.0, 1e-9);
    assert_near(s.mean, 15, 1e-9);
    assert_near(s.worst, 20, 1e-9);
    assert_near(s.roofline, 50, 1e-9);
    assert_near(mba_score_kernels(&k, MBA_SCORE_SSM, MBA_SCORE_HELD, MBA_FROM_PLANS).bias, -45 * 0.3 - 60 * 0.7, 1e-9);
    assert_int_equal(mba_score_kernels(&k, MBA_SCORE_ALL, MBA_SCORE_HELD, MBA_FROM_COUNTERS).points, 3);
    assert_true(isnan(mba_score_kernels(&k, MBA_SCORE_SSM, MBA_SCORE_FITTED, MBA_FROM_COUNTERS).error));
}

static void shares_know_sign_and_size(void **state)
{
    (void)state;
    assert_near(mba_effect_share(2, 2), 1, 1e-12);
    assert_near(mba_effect_share(2, 1), 0, 1e-12); // the model "nothing changes"
    assert_near(mba_effect_share(4, 2), 0.5, 1e-12);
    assert_near(mba_effect_share(2, 4), 0, 1e-12); // twice the effect is as far off as none
    assert_near(mba_effect_share(1.1, 1 / 1.1), -1, 1e-12);
    assert_near(mba_effect_share(0.5, 8), -3, 1e-12); // not floored
    const double         shares[] = { 0.9, NAN, -3, 0.8, 0.7 };
    const mba_effect_sum sum = mba_effect_sum_of(shares, 5);
    assert_true(sum.effects == 4);
    assert_near(sum.mean, -15, 1e-9);
    assert_near(sum.median, 75, 1e-9);
    assert_true(mba_effect_sum_of(shares + 1, 1).effects == 0 && isnan(mba_effect_sum_of(shares + 1, 1).median));
    assert_true(isnan(mba_effect_share(1.02, 1.5)) && isnan(mba_effect_share(1.1, NAN)));
}

static mba_point point(mba_point_source source, const char *subject, double ms, double predicted)
{
    mba_point p = { .source = source, .ms = ms, .predicted_ms = predicted };
    snprintf(p.subject, sizeof p.subject, "%s", subject);
    return p;
}

static void other_sizes_are_compared_with_the_same_time_per_unit(void **state)
{
    mba_point      a[] = { point(MBA_POINT_TOTAL, "mamba2-130m --batch 4 --length 1000", 40, 40) };
    mba_point      b[] = { point(MBA_POINT_TOTAL, "mamba2-130m --batch 2 --length 500", 20, 10),
                           point(MBA_POINT_TOTAL, "mamba2-130m --batch 2 --length 500 --op ssd=chunked", 20, 10),
                           point(MBA_POINT_SSM, "mamba2-130m --batch 2 --length 500", 5, 5) };
    mba_size_score s[MBA_SIZES_MAX];
    (void)state;
    assert_int_equal(mba_score_sizes(s, MBA_POINT_TOTAL, &(mba_measured){ a, 1 }, &(mba_measured){ b, 3 }), 3);
    assert_true(isnan(s[0].unchanged_ms) && isnan(s[2].unchanged_ms)); // the step itself; no step of that variant
    assert_near(s[1].unchanged_ms, 10, 1e-9);
    assert_true(s[1].inside && s[1].band.low == 0); // fewer than nine others: anything
    assert_int_equal(mba_score_sizes(s, MBA_POINT_SSM, &(mba_measured){ a, 1 }, &(mba_measured){ b, 3 }), 1);
}

static void variants_are_ratios_of_both_passes(void **state)
{
    mba_point         p[] = { point(MBA_POINT_LAYER, "m --batch 1 --op ssd=chunked,ssd_bwd=chunked", 1, 2),
                              point(MBA_POINT_LAYER, "m --batch 1 --op ssd=chunked,ssd_bwd=chunked", 3, 2),
                              point(MBA_POINT_LAYER, "m --batch 1 --op ssd=fused,ssd_bwd=fused", 2, 1),
                              point(MBA_POINT_LAYER, "m --batch 1 --op ssd=fused2,ssd_bwd=fused2", 6, 8) };
    mba_variant_score v[MBA_VARIANTS_MAX];
    (void)state;
    assert_int_equal(mba_score_variants(v, &(mba_measured){ p, 4 }), 3);
    assert_string_equal(v[1].variant, "fused");
    assert_near(v[0].measured_ms, 4, 1e-12);
    assert_near(v[1].measured, 0.5, 1e-12);
    assert_near(v[1].predicted, 0.25, 1e-12);
    assert_near(v[2].measured, 1.5, 1e-12);
}

static void the_history_of_sealed_sets_parses(void **state)
{
    mba_sealed_score s[MBA_SEALED_MAX];
    (void)state;
    assert_true(mba_sealed_history(s, mba_sealed_text) >= 0);
    assert_int_equal(mba_sealed_history(s, "# x\none\t10\t4.5\t-1\t-9.5\t8\t11\t-3\ntwo\t1\t2\t2\t2\t1\t-\t-\n"), 2);
    assert_near(s[0].worst, -9.5, 0);
    assert_true(isnan(s[1].ssm_error));
    assert_int_equal(mba_sealed_history(s, "one\t10\t4.5\n"), -1);
    assert_int_equal(mba_sealed_history(s, "one\t10\t4.5\t-1\tx\t8\t11\t-3\n"), -1);
}

/* The committed sizes and layers: what docs/simulator.md speaks of. */
static void every_measured_size_is_predicted(void **state)
{
    mba_measured     *d;
    mba_variant_score v[MBA_VARIANTS_MAX];
    int               steps = 0, sums = 0;
    (void)state;
    assert_ok(mba_validation_sizes(&d, "h200", NULL));
    for (int i = 0; i < d->n; i++) {
        const mba_point *p = &d->point[i];
        assert_true(p->predicted_ms > 0.3 * p->ms && p->predicted_ms < 3 * p->ms && p->roofline_ms > 0);
        steps += p->source == MBA_POINT_TOTAL;
        sums += p->source == MBA_POINT_SSM;
    }
    assert_true(steps == 39 && sums == 9);
    assert_int_equal(mba_score_variants(v, d), 12);
    mba_measured_destroy(d);
}

MBA_TEST_MAIN(cmocka_unit_test(kernels_count_by_their_time), cmocka_unit_test(shares_know_sign_and_size),
              cmocka_unit_test(other_sizes_are_compared_with_the_same_time_per_unit),
              cmocka_unit_test(variants_are_ratios_of_both_passes), cmocka_unit_test(the_history_of_sealed_sets_parses),
              cmocka_unit_test(every_measured_size_is_predicted))
