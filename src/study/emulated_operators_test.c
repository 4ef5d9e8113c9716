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
    assert_true(s.right >= s.effects - 4 && s.share > 55 && s.median > 64); // as documented
    assert_true(s.near >= 105 && s.near > s.null_near);
    assert_true(mba_emulated_rows_score(r, "tensor").share
                > 60); // by the clock: most of these kernels have no products
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

/* An SM has 65536 registers, 2048 threads and 228 KB of shared memory. */
static void kernels_that_fill_an_sm_have_no_room(void **state)
{
    static const mba_disturb_how sleep4 = { .kind = MBA_DISTURB_SLEEP, .warps = 4 },
                                 big = { .kind = MBA_DISTURB_SLEEP, .warps = 1, .smem_kb = 64 },
                                 park = { .kind = MBA_DISTURB_PARK, .sms = 33 };
    static const mba_emulated_block db = { 256, 254, 137216 }, dx = { 256, 120, 111616 }, states = { 640, 96, 207872 },
                                    full = { 1024, 56, 0 };
    mba_gpu m;
    (void)state;
    assert_ok(mba_gpu_load(&m, "h200"));
    assert_string_equal(mba_emulated_no_room(&sleep4, &db, "db", &m).text, "no room: registers beside db");
    assert_string_equal(mba_emulated_no_room(&sleep4, &dx, "dx", &m).text, "");
    assert_string_equal(mba_emulated_no_room(&big, &dx, "dx", &m).text, "");
    assert_string_equal(mba_emulated_no_room(&sleep4, &states, "states", &m).text, ""); // the last 4096 registers
    assert_string_equal(mba_emulated_no_room(&big, &states, "states", &m).text, "no room: shared memory beside states");
    assert_string_equal(mba_emulated_no_room(&park, &db, "db", &m).text, "");
    assert_string_equal(mba_emulated_no_room(&sleep4, &full, "full", &m).text, "");
    m.v[MBA_GPU_warps_max] = 32;
    assert_string_equal(mba_emulated_no_room(&sleep4, &full, "full", &m).text, "no room: threads beside full");
}

static void rows_beside_nothing_do_not_count(void **state)
{
    static const mba_disturb_how xu = { .kind = MBA_DISTURB_XU, .warps = 4 }, none = { .kind = MBA_DISTURB_NOTHING },
                                 park = { .kind = MBA_DISTURB_PARK, .sms = 33 };
    static const mba_disturbed    works = { .rate = 1, .trips = 9, .busy = 132 }, stuck = { .busy = 131 };
    static const mba_disturb_fate whole = { 132, 132, 0 }, ended = { 132, 132, 1 }, shared = { 132, 131, 0 },
                                  parked = { 33, 33, 0 };
    static const char text[] = "SMs\tw\tssd\t0\tk\t-\tsm=x0.5\t10\t20\t-\nSMs\tw\tssd\t0\tk\t-\tsm=x0.5\t10\t20\tbad\n";
    mba_emulated_rows *r = NULL;
    mba_gpu            m;
    (void)state;
    assert_ok(mba_gpu_load(&m, "h200"));
    assert_null(mba_emulated_fault(&xu, &works, &whole, &m));
    assert_null(mba_emulated_fault(&none, &works, &(mba_disturb_fate){ 0 }, &m));
    assert_null(mba_emulated_fault(&park, &works, &parked, &m));
    assert_non_null(mba_emulated_fault(&xu, &stuck, &whole, &m));
    assert_non_null(mba_emulated_fault(&xu, &works, &ended, &m));
    assert_non_null(mba_emulated_fault(&xu, &works, &shared, &m));
    assert_non_null(mba_emulated_fault(&xu, &works, &parked, &m));
    assert_ok(mba_emulated_rows_parse(&r, "test", text, sizeof text - 1));
    assert_near(r->row[0].measured, 2, 1e-12);
    assert_true(isnan(r->row[1].measured));
    mba_emulated_rows_destroy(r);
}

static void bad_rows_are_refused(void **state)
{
    static const char  bad[] = "SMs\tw\tssd\t0\tk\t-\tsm=x0.5\t10\t20\n";
    mba_emulated_rows *r = NULL;
    (void)state;
    assert_int_equal(mba_emulated_rows_parse(&r, "test", bad, sizeof bad - 1), MBA_E_FORMAT);
}

MBA_TEST_MAIN(cmocka_unit_test(measured_rows_are_predicted), cmocka_unit_test(planned_machines_are_slower),
              cmocka_unit_test(changes_name_what_is_taken), cmocka_unit_test(kernels_that_fill_an_sm_have_no_room),
              cmocka_unit_test(rows_beside_nothing_do_not_count), cmocka_unit_test(bad_rows_are_refused))
