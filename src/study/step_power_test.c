// SPDX-License-Identifier: Apache-2.0
/* step_power_test.c -- measured steps are predicted without their workload, the machine file has the fit of all, and a
 * power limit acts as it must. */
#include "study/step_power.h"

#include <math.h>
#include <stdlib.h>

#include "study/validation.h"
#include "tests/test.h"

static mba_power_set d;

static int predict_all(void **state)
{
    (void)state;
    assert_ok(mba_power_set_parse(&d, "test", mba_power_text));
    assert_ok(mba_power_set_predict(&d, "h200"));
    return 0;
}

/* What `validate` printed when the model was made: a change that is worse is looked at. */
static void predictions_are_as_near_as_documented(void **state)
{
    (void)state;
    for (int i = 0; i < d.steps; i++) {
        const mba_power_step *s = &d.step[i];
        assert_true(s->predicted.ghz <= s->curve.boost_ghz && s->predicted.watts <= 1.0001 * s->curve.limit_w);
        assert_true(fabs(mba_error_percent(s->predicted.ghz, s->ghz)) < 5);
    }
    const mba_power_score score = mba_power_score_of(&d);
    assert_true(d.steps == 18 && score.workloads == 9);
    assert_true(score.clock >= 8 && score.energy >= 4 && score.unlimited == 3 && score.power >= 2);
}

static void the_machine_file_has_the_fit(void **state)
{
    mba_gpu m;
    (void)state;
    assert_ok(mba_gpu_load(&m, "h200"));
    const mba_power_model p = mba_power_model_of(&m);
    assert_near(p.idle_w, d.all.idle_w, 2);
    assert_near(p.vector_pj, d.all.vector_pj, 0.3);
    assert_near(p.tensor_pj, d.all.tensor_pj, 0.02);
    assert_near(p.dram_pj, d.all.dram_pj, 2);
    assert_near(p.v_floor, d.all.v_floor, 0.01);
}

static void a_lower_limit_is_slower_and_saves_energy_first(void **state)
{
    const mba_power_curve *c = &d.step[2].curve;
    mba_step_power         before = mba_step_power_at(c, &d.all, 1e5);
    (void)state;
    assert_near(before.ghz, c->boost_ghz, 1e-9); // nothing limits it
    for (double limit = 900; limit >= 300; limit -= 100) {
        const mba_step_power now = mba_step_power_at(c, &d.all, limit);
        assert_true(now.ghz <= before.ghz && now.seconds >= before.seconds && now.watts <= limit * 1.0001);
        assert_true(now.watts * now.seconds <= 1.0001 * before.watts * before.seconds);
        before = now;
    }
    const mba_step_power rest = mba_step_power_at(c, &d.all, 50); // less than the card draws at rest
    assert_true(rest.watts > 50 && rest.ghz > 0);
}

static void bad_rows_are_refused(void **state)
{
    static const char *const bad[] = { "loop\tx\t100\t1\t2\n", "step\tmamba2-130m\t10\t600\n", "walk\tx\t1\t1\t1\n",
                                       "loop\tx\t0\t1\t1\t1\n", "step\tmamba2-130m\t10\t600\tfast\n" };
    mba_power_set           *x = calloc(1, sizeof *x);
    (void)state;
    assert_non_null(x);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(mba_power_set_parse(x, "test", bad[i]), MBA_E_FORMAT);
    free(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(predictions_are_as_near_as_documented),
        cmocka_unit_test(the_machine_file_has_the_fit),
        cmocka_unit_test(a_lower_limit_is_slower_and_saves_energy_first),
        cmocka_unit_test(bad_rows_are_refused),
    };
    return cmocka_run_group_tests(tests, predict_all, NULL);
}
