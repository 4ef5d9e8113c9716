// SPDX-License-Identifier: Apache-2.0
/* step_power_test.c -- measured steps are predicted without their workload, the machine file has the fit of all, and a
 * power limit acts as it must. */
#include "study/step_power.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

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
    assert_true(score.clock >= 8 && score.energy >= 7 && score.unlimited == 2);
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
        if (limit >= 400) // below, the card at rest takes more in the longer time than the work saves
            assert_true(now.watts * now.seconds <= 1.0001 * before.watts * before.seconds);
        before = now;
    }
    const mba_step_power rest = mba_step_power_at(c, &d.all, 50); // less than the card draws at rest
    assert_true(rest.watts > 50 && rest.ghz > 0);
}

static double seconds_with(mba_sim *sim, const char *changes, bool alone)
{
    static const mba_model_options limited = { .name = "mamba2-130m", .shape = { .batch = 8, .length = 2048 } },
                                   light = { .name = "mamba2-130m", .shape = { .batch = 1, .length = 64 } };
    const mba_workload w = { .machine = "h200", .changes = changes, .model = alone ? light : limited };
    mba_simulated      r = { 0 };
    assert_ok(mba_simulated_run(&r, &w, sim));
    const double s = r.step.seconds;
    mba_simulated_end(&r);
    return s;
}

/* The machine's key acts on a step that draws its limit, in the right direction, and on no other step. */
static void the_limit_of_a_machine_sets_its_clocks(void **state)
{
    static const char *const limits[] = { "power_limit=1e5",   "power_limit=800",  "power_limit=700",
                                          "power_limit=x0.85", "power_limit=x0.7", "power_limit=350" };
    mba_sim                 *sim;
    double                   before = 0;
    (void)state;
    assert_ok(mba_sim_create(&sim));
    const double own = seconds_with(sim, NULL, false), idle = seconds_with(sim, NULL, true);
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        const double now = seconds_with(sim, limits[i], false);
        assert_true(now >= before * 0.9999); // never faster with less
        if (i == 2) assert_near(now, own, 0);
        before = now;
    }
    assert_true(before > 1.2 * own && seconds_with(sim, "power_limit=1e5", false) < 0.99 * own);
    assert_true(seconds_with(sim, "e_dram=x1.5,e_vector=x1.5,e_tensor=x1.5", false) > 1.01 * own);
    assert_near(seconds_with(sim, "power_limit=x2", true), idle, 0);
    assert_near(seconds_with(sim, "power_limit=x0.9", true), idle, 0); // it draws far less
    mba_sim_destroy(sim);
}

static const mba_workload work = { .model = { .name = "mamba2-130m", .shape = { .batch = 8, .length = 2048 } } };

/* The clocks of a card are those of the machine that it includes if it is that machine, and else follow from power. */
static void power_sets_the_clocks_of_a_card(void **state)
{
    static const struct {
        const char *text;
        int         slower; /* than an H200; -1: faster */
    } cards[] = { { "include = h200\npower_limit = 700 W\n", 0 },
                  { "include = h200\npower_limit = 500 W\n", 1 },
                  { "include = h200\npower_limit = 700 W\nclk_boost = 1.5 GHz\n", 1 },
                  { "include = h200\npower_limit = 700 W\nmma16 = 2048 flop/clk\nfma = 64 lanes/clk\n", -1 } };
    mba_gpu  h200, m;
    mba_sim *sim;
    (void)state;
    assert_ok(mba_sim_create(&sim));
    assert_ok(mba_gpu_load(&h200, "h200"));
    for (size_t i = 0; i < sizeof cards / sizeof *cards; i++) {
        assert_ok(mba_gpu_parse(&m, "card.ini", cards[i].text, strlen(cards[i].text)));
        assert_true(m.card && !h200.card);
        assert_ok(mba_power_clocks(&m, &work, sim));
        for (int k = 0; k < MBA_GPU_CLOCKS; k++) {
            const double is = m.v[mba_gpu_clocks[k]], was = h200.v[mba_gpu_clocks[k]];
            if (cards[i].slower == 0) assert_near(is, was, 1e-12);
            assert_true(is <= m.v[MBA_GPU_clk_boost] && cards[i].slower * (was - is) >= 0);
        }
    }
    mba_sim_destroy(sim);
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
        cmocka_unit_test(the_limit_of_a_machine_sets_its_clocks),
        cmocka_unit_test(power_sets_the_clocks_of_a_card),
        cmocka_unit_test(bad_rows_are_refused),
    };
    return cmocka_run_group_tests(tests, predict_all, NULL);
}
