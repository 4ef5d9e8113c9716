// SPDX-License-Identifier: Apache-2.0
/* emulated_operators_test.c -- predictions for machines that resident kernels emulate, and their scores. */
#include "study/emulated_operators.h"

#include <math.h>
#include <string.h>

#include "tests/test.h"

static void measured_rows_are_predicted(void **state)
{
    mba_emulated_rows *r = NULL;
    (void)state;
    assert_ok(mba_emulated_rows_load(&r, NULL));
    assert_ok(mba_emulated_rows_predict(r, "h200"));
    const mba_effects_score s = mba_emulated_rows_score(r, NULL);
    assert_true(s.rows >= 24 && s.effects >= 24);
    assert_true(s.right >= s.effects - 2 && s.share > 65); // as documented
    assert_true(s.near > s.null_near);
    assert_int_equal(mba_emulated_rows_score(r, "no such machine").rows, 0);
    mba_emulated_rows_destroy(r);
}

/* Less of anything is never faster. */
static void planned_machines_are_slower(void **state)
{
    mba_emulated_rows *r = NULL;
    (void)state;
    assert_ok(mba_emulated_rows_planned(&r));
    assert_ok(mba_emulated_rows_predict(r, "h200"));
    assert_true(r->n >= 24);
    for (int64_t i = 0; i < r->n; i++) {
        assert_true(isnan(r->row[i].measured));
        if (!(r->row[i].predicted > 0.98))
            fail_msg("%s, %s: %g", r->row[i].machine, r->row[i].kernel, r->row[i].predicted);
    }
    mba_emulated_rows_destroy(r);
}

static void changes_name_what_is_taken(void **state)
{
    mba_gpu m;
    (void)state;
    assert_ok(mba_gpu_load(&m, "h200"));
    const mba_disturbed   half = { .rate = 8, .issue = 8, .regs = 4096 };
    const mba_disturb_how xu = { .kind = MBA_DISTURB_XU, .warps = 4 }, park = { .kind = MBA_DISTURB_PARK, .sms = 33 },
                          none = { .kind = MBA_DISTURB_NOTHING };
    const mba_emulated_text t = mba_emulated_changes(&xu, &half, &m);
    assert_non_null(strstr(t.text, "xu=x0.5"));
    assert_non_null(strstr(t.text, "rf=x0.9375"));
    assert_string_equal(mba_emulated_changes(&park, &half, &m).text, "sm=x0.75");
    assert_string_equal(mba_emulated_changes(&none, &half, &m).text, "");
    assert_ok(mba_gpu_set(&m, t.text));
}

static void bad_rows_are_refused(void **state)
{
    static const char  bad[] = "SMs\tw\tssd\t0\tk\t-\tsm=x0.5\t10\n";
    mba_emulated_rows *r = NULL;
    (void)state;
    assert_int_equal(mba_emulated_rows_parse(&r, "test", bad, sizeof bad - 1), MBA_E_FORMAT);
}

MBA_TEST_MAIN(cmocka_unit_test(measured_rows_are_predicted), cmocka_unit_test(planned_machines_are_slower),
              cmocka_unit_test(changes_name_what_is_taken), cmocka_unit_test(bad_rows_are_refused))
