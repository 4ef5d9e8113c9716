// SPDX-License-Identifier: Apache-2.0
/* bands_test.c -- what stands beside every answer of the simulator: bands of operators, of kernels of a store, and of
 * the ratio of two machines, with how often one wins. */
#include "tests/program.h"

static json_t *asked(const char *question)
{
    json_error_t e;
    assert_int_equal(run("%s --json 2> /dev/null | cat > '%s'", question, scratch("answer.json")), 0);
    json_t *j = json_load_file(scratch("answer.json"), 0, &e);
    if (!j) fail_msg("not JSON: %s", e.text);
    return j;
}

static double cell(const json_t *rows, size_t i, const char *key)
{
    const json_t *v = json_object_get(json_array_get(rows, i), key);
    if (!json_is_number(v)) fail_msg("row %zu has no %s", i, key);
    return json_number_value(v);
}

/* The widest of all rows, in times of the answer. */
static double widest(const json_t *rows, const char *low, const char *answer, const char *high)
{
    double most = 0;
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const double x = cell(rows, i, answer), a = cell(rows, i, low), b = cell(rows, i, high);
        assert_true(a <= x && x <= b && isfinite(b));
        if (x > 0 && b / a > most) most = b / a;
    }
    return most;
}

/* Every operator has a band, and on a machine that nobody has calibrated it is wider. */
static void operators_have_bands(void **state)
{
    (void)state;
    json_t       *h200 = asked("simulate --machine h200"), *a100 = asked("simulate --machine a100");
    const json_t *near = json_object_get(h200, "operators"), *far = json_object_get(a100, "operators");
    const double  of_near = widest(near, "at_least_ms", "ms", "at_most_ms"),
                 of_far = widest(far, "at_least_ms", "ms", "at_most_ms");
    assert_true(json_array_size(near) > 10);
    assert_true(of_near > 1.1 && of_far > of_near);
    for (size_t i = 0; i < json_array_size(near); i++) // all are drawn, and each by itself
        assert_true(cell(near, i, "ms") == 0 || cell(near, i, "at_most_ms") > 1.05 * cell(near, i, "ms"));
    json_decref(h200);
    json_decref(a100);
    says(run("simulate --csv 2> /dev/null"), 0, "ms,at_least_ms,at_most_ms,");
    says(run("simulate"), 0, "bands of operators");
}

/* Bytes of an answer do not depend on threads. */
static void bands_have_the_same_bits_with_any_threads(void **state)
{
    (void)state;
    json_t *one = asked("simulate --threads 1"), *three = asked("simulate --threads 3");
    assert_true(json_equal(one, three));
    json_decref(one);
    json_decref(three);
    one = asked("sweep --axis xu=x0.5 --model mamba-130m --uncertainty --threads 1");
    three = asked("sweep --axis xu=x0.5 --model mamba-130m --uncertainty --threads 3");
    assert_true(json_equal(one, three));
    json_decref(one);
    json_decref(three);
}

/* On the machine that they were counted on, the spreads of its numbers are within what kernels are off. */
static void kernels_of_a_store_have_bands(void **state)
{
    (void)state;
    const char *store = "tests/data/stores/h200_mamba2.db";
    char        line[256];
    snprintf(line, sizeof line, "simulate --store %s", store);
    json_t *here = asked(line);
    snprintf(line, sizeof line, "simulate --store %s --machine a100 --set smem_block=228,smem_sm=228", store);
    json_t *there = asked(line);
    assert_int_equal(json_array_size(here), json_array_size(there));
    const double near = widest(here, "at_least_us", "us", "at_most_us"),
                 far = widest(there, "at_least_us", "us", "at_most_us");
    assert_true(near > 1.1 && far > near);
    json_decref(here);
    json_decref(there);
    says(run("simulate --store %s --machine h100", store), 0, "bands: measured over predicted time of ");
    assert_non_null(strstr(output, "with the uncertainty of this machine's numbers"));
}

/* Points are compared draw by draw: what both machines share cancels. */
static void a_ratio_is_surer_than_its_parts(void **state)
{
    (void)state;
    json_t *r = asked("sweep --axis hbm=x0.5:x1:x2 --model mamba2-130m --uncertainty");
    assert_int_equal(json_array_size(r), 3);
    assert_true(cell(r, 0, "faster_percent") == 0 && cell(r, 0, "speedup_high") < 1);
    assert_true(cell(r, 1, "faster_percent") == 50); // the same machine: a tie in every draw
    assert_true(cell(r, 1, "speedup_low") == 1 && cell(r, 1, "speedup_high") == 1);
    assert_true(cell(r, 2, "faster_percent") == 100 && cell(r, 2, "speedup_low") > 1);
    for (size_t i = 0; i < 3; i++) {
        assert_true(cell(r, i, "speedup_low") <= cell(r, i, "speedup")
                    && cell(r, i, "speedup") <= cell(r, i, "speedup_high"));
        assert_true(cell(r, i, "speedup_high") / cell(r, i, "speedup_low")
                    < cell(r, i, "high_ms") / cell(r, i, "low_ms"));
    }
    json_decref(r);
    r = asked("sweep --axis hbm=x2 --model mamba2-130m"); // nothing was drawn there, nothing is said
    assert_null(json_object_get(json_array_get(r, 0), "speedup_low"));
    json_decref(r);
    says(run("sweep --axis hbm=x2 --model mamba2-130m --uncertainty --csv 2> /dev/null"), 0,
         "speedup,speedup_low,speedup_high,faster_percent,");
}

/* A machine that is too small for a kernel leaves as many cells empty as the others fill. */
static void absent_points_keep_the_columns(void **state)
{
    (void)state;
    json_t *r = asked("sweep --axis smem_sm=16:228 --model mamba2-130m --uncertainty");
    assert_int_equal(json_array_size(r), 2);
    assert_true(json_is_null(json_object_get(json_array_get(r, 0), "speedup_low")));
    assert_string_equal(json_string_value(json_object_get(json_array_get(r, 0), "grade")), "-");
    assert_true(cell(r, 1, "faster_percent") >= 0);
    json_decref(r);
}

/* `validate` says how well bands hold, each tried on what has no part in it. */
static void validate_counts_what_lies_in_the_bands(void **state)
{
    (void)state;
    static const char *const kinds[] = { "operator_coverage", "foreign_coverage" };
    json_t                  *v = asked("validate");
    for (int i = 0; i < 2; i++) {
        const json_t *of = json_object_get(v, kinds[i]), *classes = json_object_get(of, "classes");
        const double  inside = json_number_value(json_object_get(of, "left_out"));
        double        points = 0, sum = 0;
        assert_int_equal(json_array_size(classes), 4);
        for (size_t c = 0; c < 4; c++) {
            points += cell(classes, c, "points");
            sum += cell(classes, c, "points") * cell(classes, c, "inside");
            assert_true(cell(classes, c, "low") <= cell(classes, c, "high"));
        }
        assert_true(points > 100 && fabs(sum / points - inside) < 0.1);
        assert_true(inside > 65 && inside < 95); // 80 asked; the operators have 72, too little
    }
    json_decref(v);
}

static int prepare(void **state)
{
    (void)state;
    scratch_make();
    return 0;
}
static int clean(void **state)
{
    (void)state;
    scratch_remove();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operators_have_bands),           cmocka_unit_test(bands_have_the_same_bits_with_any_threads),
        cmocka_unit_test(kernels_of_a_store_have_bands),  cmocka_unit_test(a_ratio_is_surer_than_its_parts),
        cmocka_unit_test(absent_points_keep_the_columns), cmocka_unit_test(validate_counts_what_lies_in_the_bands)
    };
    return cmocka_run_group_tests(tests, prepare, clean);
}
