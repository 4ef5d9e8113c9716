// SPDX-License-Identifier: Apache-2.0
/* simd_test.c -- every vector function against libm in double, over dense ranges and at the edges, with the bounds that
 * simd.h states. Compiled for the smallest instruction set of the machine. */
#include "tests/test.h"

#include "device/cpu/simd.h"

typedef vf     vector_fn(vf);
typedef double scalar_fn(double);

/* Units in the last place of a float near `want`; below 2^-126 the spacing no longer shrinks. */
static double ulp_of(double want)
{
    int e;
    frexp(want, &e);
    return ldexp(1, (e < -125 ? -125 : e) - 24);
}

/* The largest error over [from, to], in ulp. Steps of 2^-16 of the value (and of 1 near zero) with an odd
 * multiplier, so that the low bits of the arguments vary. */
static double worst_ulp(vector_fn *f, scalar_fn *want, double from, double to)
{
    double worst = 0, x = from;
    while (x <= to) {
        float arg[MBA_LANES], got[MBA_LANES];
        for (int i = 0; i < MBA_LANES; i++) {
            arg[i] = (float)fmin(x, to);
            x += fmax(fabs(x), 1e-3) * 1.00371 / 65536;
        }
        vf_store(got, f(vf_load(arg)));
        for (int i = 0; i < MBA_LANES; i++) {
            const double w = want(arg[i]), e = fabs(got[i] - w) / ulp_of(w);
            if (!(e <= worst)) worst = e; // keeps NaN
        }
    }
    return worst;
}

#define assert_ulp(f, want, from, to, bound) \
    do { \
        const double worst_ = worst_ulp(f, want, from, to); \
        if (!(worst_ <= (bound))) print_error("%s on %g .. %g: %.2f ulp\n", #f, (double)(from), (double)(to), worst_); \
        assert_true(worst_ <= (bound)); \
    } while (0)

static float at(vector_fn *f, float x) { return f(vf_set(x))[MBA_LANES - 1]; }

static vf wrap_exp(vf x) { return vf_exp(x); }
static vf wrap_exp2_neg(vf x) { return vf_exp2_neg(x); }
static vf wrap_log1p_unit(vf x) { return vf_log1p_unit(x); }
static vf wrap_sigmoid(vf x) { return vf_sigmoid(x); }
static vf wrap_softplus(vf x) { return vf_softplus(x); }
static vf wrap_softplus2(vf x)
{
    vf s;
    return vf_softplus_and_slope(x, &s);
}
static vf wrap_softplus_slope(vf x)
{
    vf s;
    vf_softplus_and_slope(x, &s);
    return s;
}
static vf wrap_silu(vf x) { return vf_silu(x); }
static vf wrap_sqrt(vf x) { return vf_sqrt(x); }
static vf wrap_rcp(vf x) { return vf_rcp(x); }

static double sigmoid(double t) { return 1 / (1 + exp(-t)); }
static double softplus(double t) { return t > 20 ? t : log1p(exp(t)); }
static double silu(double t) { return t / (1 + exp(-t)); }
static double rcp(double x) { return 1 / x; }

static void exponentials_keep_their_bounds(void **state)
{
    (void)state;
    assert_ulp(wrap_exp, exp, -86.98, 88.72, 3);
    assert_ulp(wrap_exp, exp, -1, 1, 3);
    assert_ulp(wrap_exp2_neg, exp2, -125.49, 0, 3);
    assert_true(at(wrap_exp, 0) == 1 && at(wrap_exp2_neg, 0) == 1 && at(wrap_exp2_neg, -3) == 0.125f);
    assert_true(at(wrap_exp, -INFINITY) == 0 && at(wrap_exp, -1e30f) == 0 && at(wrap_exp, -87) == 0);
    assert_true(at(wrap_exp, INFINITY) == INFINITY && at(wrap_exp, 1e30f) == INFINITY);
    assert_true(at(wrap_exp, 88.73f) == INFINITY);
    assert_true(at(wrap_exp2_neg, -INFINITY) == 0 && at(wrap_exp2_neg, -1e30f) == 0);
    assert_true(isnan(at(wrap_exp, NAN)) && isnan(at(wrap_exp2_neg, NAN)));
}

static void the_logarithm_keeps_its_bound(void **state)
{
    (void)state;
    assert_ulp(wrap_log1p_unit, log1p, 0, 1, 1.6);
    assert_ulp(wrap_log1p_unit, log1p, 1e-30, 1e-3, 1.6);
}

static void activations_keep_their_bounds(void **state)
{
    (void)state;
    assert_ulp(wrap_sigmoid, sigmoid, -86.9, 100, 4);
    assert_ulp(wrap_softplus, softplus, -86.9, 100, 3.5);
    assert_ulp(wrap_softplus2, softplus, -86.9, 100, 3.5);
    assert_ulp(wrap_softplus_slope, sigmoid, -86.9, 100, 4);
    assert_ulp(wrap_silu, silu, -86.9, 100, 4.5);
    assert_true(at(wrap_sigmoid, -INFINITY) == 0 && at(wrap_sigmoid, INFINITY) == 1 && isnan(at(wrap_sigmoid, NAN)));
    assert_true(at(wrap_softplus, -INFINITY) == 0 && at(wrap_softplus, INFINITY) == INFINITY);
    assert_true(at(wrap_softplus, 20.000002f) == 20.000002f && at(wrap_softplus, 1e30f) == 1e30f);
    assert_true(isnan(at(wrap_softplus_slope, NAN)) && at(wrap_softplus_slope, -INFINITY) == 0);
    assert_true(at(wrap_softplus_slope, INFINITY) == 1 && at(wrap_softplus_slope, 21) == 1);
    assert_true(isnan(at(wrap_softplus, NAN)) && at(wrap_silu, -1e30f) == 0 && at(wrap_silu, 1e30f) == 1e30f);
    for (double t = -120; t < 120; t += 0.00137) {
        vf           slope;
        const float  x = (float)t, value = vf_silu_and_slope(vf_set(x), &slope)[0];
        const double s = sigmoid(x);
        assert_near(slope[0], s * (1 + x * (1 - s)), 4 * 0x1p-24);
        assert_near(value, silu(x), 4.5 * ulp_of(silu(x)) + 1e-32);
    }
}

static void normal_distribution_keeps_its_bounds(void **state)
{
    (void)state;
    for (double t = -13; t < 13; t += 0.000137) {
        vf           density;
        const float  x = (float)t, p = vf_normal_cdf(vf_set(x), &density)[0];
        const double want = 0.5 * erfc(-x * sqrt(0.5)), slope = exp(-0.5 * x * x) / sqrt(2 * M_PI);
        assert_near(p, want, (8 + x * x) * ulp_of(want));
        assert_near(density[0], slope, (8 + x * x) * ulp_of(slope));
    }
    vf none;
    assert_true(vf_normal_cdf(vf_set(INFINITY), &none)[0] == 1 && none[0] == 0);
    assert_true(vf_normal_cdf(vf_set(-INFINITY), &none)[0] == 0 && none[0] == 0);
    assert_true(isnan(vf_normal_cdf(vf_set(NAN), &none)[0]) && isnan(none[0]));
}

static void roots_and_reciprocals_keep_their_bounds(void **state)
{
    (void)state;
    assert_ulp(wrap_sqrt, sqrt, 0, 1e30, 0.5);
    assert_ulp(wrap_rcp, rcp, 1e-30, 1e30, 0.5);
    assert_true(isnan(at(wrap_sqrt, -1)) && at(wrap_rcp, 0) == INFINITY);
}

static void small_words_do_what_they_say(void **state)
{
    (void)state;
    float  a[MBA_LANES];
    double sum = 0;
    for (int i = 0; i < MBA_LANES; i++) sum += a[i] = (float)(i % 3 ? i + 1 : -i - 1);
    const vf x = vf_load(a), zero = vf_set(0);
    assert_near(vf_sum(x), sum, 0); // integers: no rounding
    const v4     four = vf_sum4(x, x + 1, x * 2, vf_abs(x));
    const double sums[4] = { sum, sum + MBA_LANES, 2 * sum, MBA_LANES * (MBA_LANES + 1) / 2.0 };
    for (int i = 0; i < 4; i++) assert_near(four[i], sums[i], 0);
    assert_near(vf_max_lanes(x), MBA_LANES % 3 == 1 ? MBA_LANES - 1 : MBA_LANES, 0);
    for (int i = 0; i < MBA_LANES; i++) {
        assert_near(vf_abs(x)[i], i + 1, 0);
        assert_near(vf_max(zero, x)[i], fmax(a[i], 0), 0);
        assert_near(vf_min(zero, x)[i], fmin(a[i], 0), 0);
        assert_near(vf_select(x < zero, vf_set(7), x)[i], a[i] < 0 ? 7 : a[i], 0);
        assert_near(vf_fma(x, x, vf_set(1))[i], a[i] * a[i] + 1, 0);
    }
    assert_true(isnan(vf_max(zero, vf_set(NAN))[0]) && isnan(vf_min(zero, vf_set(NAN))[0]));
    assert_true(signbit(vf_set(-0.0f)[0]));
    const vi same = vi_load((const int32_t *)a) + vi_set(0);
    assert_memory_equal(&same, a, sizeof a);
}

/* Blocks of exactly n floats, so that the address sanitizer detects an access beyond them. */
static void tails_touch_nothing_behind(void **state)
{
    (void)state;
    for (int64_t n = 0; n <= MBA_LANES + 1; n++) {
        const int64_t m = n < MBA_LANES ? n : MBA_LANES;
        float        *p = malloc(sizeof *p * (size_t)(n + 1)), *q = malloc(sizeof *p * (size_t)(n + 1));
        for (int64_t i = 0; i <= n; i++) {
            p[i] = (float)i + 1;
            q[i] = -5;
        }
        const vf v = vf_load_n(p, n);
        for (int64_t i = 0; i < MBA_LANES; i++) assert_near(v[i], i < m ? p[i] : 0, 0);
        vf_store_n(q, v, n);
        for (int64_t i = 0; i <= n; i++) assert_near(q[i], i < m ? p[i] : -5, 0);
        float *tight = malloc(sizeof *p * (size_t)(n ? n : 1));
        vf_store_n(tight, v, n);
        for (int64_t i = 0; i < m; i++) assert_near(vf_load_n(tight, n)[i], p[i], 0);
        free(p);
        free(q);
        free(tight);
    }
}

static void squares_are_turned(void **state)
{
    float from[5 * 4 + 1], to[4 * 4 + 1]; // one float off any alignment, rows of five
    v4    x[4];
    (void)state;
    for (int i = 0; i < 21; i++) from[i] = (float)i;
    for (int r = 0; r < 4; r++) x[r] = v4_load(from + 1 + 5 * r);
    v4_transpose(x);
    for (int r = 0; r < 4; r++) v4_store(to + 1 + 4 * r, x[r]);
    for (int r = 0; r < 4; r++)
        for (int k = 0; k < 4; k++) assert_near(to[1 + 4 * r + k], 1 + 5 * k + r, 0);
}

MBA_TEST_MAIN(cmocka_unit_test(exponentials_keep_their_bounds), cmocka_unit_test(the_logarithm_keeps_its_bound),
              cmocka_unit_test(activations_keep_their_bounds), cmocka_unit_test(normal_distribution_keeps_its_bounds),
              cmocka_unit_test(roots_and_reciprocals_keep_their_bounds), cmocka_unit_test(small_words_do_what_they_say),
              cmocka_unit_test(tails_touch_nothing_behind), cmocka_unit_test(squares_are_turned))
