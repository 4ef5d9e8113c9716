// SPDX-License-Identifier: Apache-2.0
/* simulated_step_test.c -- a simulated step and its parts: shapes, grades, sums over operators, shares. */
#include "study/simulated_step.h"

#include <math.h>

#include "study/step_breakdown.h"
#include "tests/test.h"

static const mba_workload small = { .machine = "h200",
                                    .model = { .name = "mamba2-130m", .shape = { .batch = 1, .length = 64 } } };

static void a_workload_has_the_shape_it_is_given(void **state)
{
    mba_simulated r = { 0 };
    mba_workload  w = { .model = { .name = "mamba2-130m" } };
    (void)state;
    assert_ok(mba_simulated_plan(&r, &w)); // defaults: 8 x 2048 tokens on an H200
    assert_int_equal(mba_model_units(&r.session.model), 8 * 2048);
    assert_string_equal(r.gpu.name, "h200");
    mba_simulated_end(&r);
    w.model.shape = (mba_batch_shape){ .batch = 3, .length = 128 };
    assert_ok(mba_simulated_plan(&r, &w));
    assert_int_equal(mba_model_units(&r.session.model), 3 * 128);
    mba_simulated_end(&r);
    w.model.precision = "fp8";
    assert_fails(mba_simulated_plan(&r, &w), MBA_E_ARG, "fp32, tf32 or bf16");
    mba_simulated_end(&r);
}

/* TF32 has the rates of tensor cores but the bytes of fp32: between fp32 and bf16, and never below its floor. */
static void tf32_is_faster_than_fp32_and_slower_than_bf16(void **state)
{
    static const char *const precision[] = { "bf16", "tf32", "fp32" };
    mba_workload             w = { .machine = "h200", .model = { .name = "mamba2-130m", .set = "layers=2" } };
    double                   seconds[3], floor_s[3];
    mba_sim                 *sim;
    (void)state;
    assert_ok(mba_sim_create(&sim));
    for (int k = 0; k < 3; k++) {
        mba_simulated r = { 0 };
        w.model.precision = precision[k];
        assert_ok(mba_simulated_run(&r, &w, sim));
        assert_int_equal(r.session.graph->tf32, k == 1);
        seconds[k] = r.step.seconds;
        floor_s[k] = 0;
        for (int32_t i = 0; i < r.session.graph->nnodes; i++)
            if (mba_runs(r.session.graph->nodes[i], MBA_STEP))
                floor_s[k] += mba_sim_roofline(r.session.graph->nodes[i], &r.gpu);
        mba_simulated_end(&r);
    }
    for (int k = 1; k < 3; k++) assert_true(seconds[k - 1] < seconds[k] && floor_s[k - 1] < floor_s[k]);
    for (int k = 0; k < 3; k++) assert_true(floor_s[k] < seconds[k]);
    mba_sim_destroy(sim);
}

static void only_the_unchanged_h200_is_validated(void **state)
{
    mba_gpu m;
    (void)state;
    assert_ok(mba_gpu_load(&m, "h200"));
    assert_int_equal(mba_simulated_grade(&m), 'B');
    assert_ok(mba_gpu_set(&m, "hbm=x2"));
    assert_int_equal(mba_simulated_grade(&m), 'C');
    assert_ok(mba_gpu_load(&m, "h100"));
    assert_int_equal(mba_simulated_grade(&m), 'C');
}

/* Two parts cover all nodes: in every sample, the ratio of the step lies between the ratios of the parts. */
static void parts_of_a_step_are_drawn_with_it(void **state)
{
    static double times[3 * MBA_GPU_SAMPLES];
    mba_simulated r = { 0 };
    mba_sim      *sim;
    int           part[4096];
    (void)state;
    assert_ok(mba_sim_create(&sim));
    assert_ok(mba_simulated_run(&r, &small, sim));
    assert_true(r.session.graph->nnodes < 4096);
    for (int32_t i = 0; i < r.session.graph->nnodes; i++) part[i] = i % 2;
    assert_ok(mba_simulated_draws(times, &r, &small, sim, part, 2));
    for (int i = 0; i < MBA_GPU_SAMPLES; i++) {
        const double low = fmin(times[MBA_GPU_SAMPLES + i], times[2 * MBA_GPU_SAMPLES + i]),
                     high = fmax(times[MBA_GPU_SAMPLES + i], times[2 * MBA_GPU_SAMPLES + i]);
        assert_true(times[i] > 0.5 && times[i] < 2);
        assert_true(times[i] > low - 0.1 && times[i] < high + 0.1); // inputs and gaps belong to no part
    }
    mba_simulated_end(&r);
    mba_sim_destroy(sim);
}

static void operators_add_up_to_the_nodes(void **state)
{
    mba_simulated      r = { 0 };
    mba_step_operators o;
    mba_sim           *sim;
    double             nodes_s = 0, sum_s = 0, kinds = 0;
    int                nodes = 0;
    (void)state;
    assert_ok(mba_sim_create(&sim));
    assert_ok(mba_simulated_run(&r, &small, sim));
    assert_ok(mba_step_operators_find(&o, &r, &small, sim));
    for (int32_t i = 0; i < r.session.graph->nnodes; i++) nodes_s += r.step.node[i].seconds;
    for (int k = 0; k < o.n; k++) {
        sum_s += o.one[k].sum.seconds;
        nodes += o.one[k].nodes;
        assert_true(k == 0 || o.one[k].sum.seconds <= o.one[k - 1].sum.seconds);
        assert_true(o.one[k].band.low <= 1 && o.one[k].band.high >= 1 && o.one[k].longest_s <= o.one[k].sum.seconds);
    }
    assert_int_equal(nodes, r.session.graph->nnodes);
    assert_near(sum_s, nodes_s, 1e-12);
    assert_true(o.both.low <= o.spread.low && o.both.low <= o.validated.low && o.both.high >= o.spread.high);
    const mba_step_shares s = mba_step_shares_of(&r);
    for (int k = 0; k < MBA_KINDS; k++) kinds += s.kind[k];
    assert_near(kinds, 100 * nodes_s / r.step.seconds, 1e-9);
    assert_true(s.kind[MBA_GEMM] > 0 && s.kind[MBA_SSM] > 0 && s.tensor > 0 && s.tensor < 100 && s.vector < 100);
    mba_step_operators_free(&o);
    mba_simulated_end(&r);
    mba_sim_destroy(sim);
}

/* On a machine with one uncertain number, that number alone determines the deviation of the step. */
static void the_spread_of_one_number_is_the_spread_of_the_step(void **state)
{
    mba_simulated      r = { 0 };
    mba_step_deviation d;
    mba_sim           *sim;
    (void)state;
    assert_ok(mba_sim_create(&sim));
    assert_ok(mba_simulated_run(&r, &small, sim));
    for (int k = 0; k < MBA_GPU_KEYS; k++) r.gpu.sigma[k] = 0;
    assert_ok(mba_step_deviation_find(&d, &r, &small, sim));
    assert_true(d.percent == 0);
    r.gpu.sigma[MBA_GPU_hbm] = 0.1 * r.gpu.v[MBA_GPU_hbm];
    assert_ok(mba_step_deviation_find(&d, &r, &small, sim));
    assert_int_equal(d.key, MBA_GPU_hbm);
    assert_true(d.percent > 0 && d.percent < 10.1 && d.percent == d.most_percent);
    mba_simulated_end(&r);
    mba_sim_destroy(sim);
}

MBA_TEST_MAIN(cmocka_unit_test(a_workload_has_the_shape_it_is_given),
              cmocka_unit_test(tf32_is_faster_than_fp32_and_slower_than_bf16),
              cmocka_unit_test(only_the_unchanged_h200_is_validated),
              cmocka_unit_test(parts_of_a_step_are_drawn_with_it), cmocka_unit_test(operators_add_up_to_the_nodes),
              cmocka_unit_test(the_spread_of_one_number_is_the_spread_of_the_step))
