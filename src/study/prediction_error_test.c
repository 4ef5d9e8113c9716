// SPDX-License-Identifier: Apache-2.0
/* prediction_error_test.c -- errors of synthetic measurements. Each error is known, because the time is computed from
 * the prediction. */
#include "study/prediction_error.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/engine.h"
#include "tests/test.h"

enum { KERNELS = 3 };

/* Three kernels of the built-in set, with the time that the simulator gives them on `machine`. */
static void three_kernels(mba_store_kernels *s, const char *machine)
{
    mba_profiled_set *d;
    mba_gpu           m;
    assert_ok(mba_gpu_load(&m, machine));
    assert_ok(mba_profiled_load(&d, NULL));
    *s = (mba_store_kernels){ .kernels = { calloc(KERNELS, sizeof(mba_profiled_kernel)), 0 } };
    for (int i = 0; i < d->n && s->kernels.n < KERNELS; i++) {
        mba_sim_kernel k;
        mba_sim_result r;
        if (!mba_profiled_complete(&d->one[i])) continue;
        mba_profiled_kernel *c = &s->kernels.one[s->kernels.n];
        *c = d->one[i];
        c->program = NULL; // it belongs to the built-in set
        mba_profiled_drop_sass(c);
        assert_ok(mba_profiled_lower(&k, c, &m));
        assert_ok(mba_sim_run(&r, &k, &m, MBA_SIM_ONE_SM));
        c->us = 1e6 * r.seconds;
        c->launches = ++s->kernels.n;
    }
    assert_int_equal(s->kernels.n, KERNELS);
    mba_profiled_destroy(d);
}

static void errors_are_predicted_over_measured_time(void **state)
{
    static const double   slower[KERNELS] = { 1, 2, 0.5 }, percent[KERNELS] = { 0, -50, 100 };
    mba_store_kernels     s;
    mba_prediction_error *e;
    double                predicted = 0, measured = 0;
    (void)state;
    three_kernels(&s, "h200");
    snprintf(s.gpu, sizeof s.gpu, "NVIDIA H200");
    for (int i = 0; i < KERNELS; i++) {
        mba_profiled_kernel *c = &s.kernels.one[i];
        predicted += c->launches * c->us;
        c->us *= slower[i];
        measured += c->launches * c->us;
    }
    assert_ok(mba_prediction_error_of_store(&e, &s));
    assert_string_equal(e->machine, "h200");
    assert_int_equal(e->n, KERNELS);
    for (int i = 0; i < KERNELS; i++) assert_near(e->percent[i], percent[i], 1e-9);
    assert_near(e->mean, 50, 1e-9);
    assert_near(e->p90, 100, 1e-9);
    assert_near(e->worst, 100, 1e-9);
    assert_string_equal(e->worst_kernel, s.kernels.one[2].kernel);
    assert_near(e->sum, 100 * (predicted / measured - 1), 1e-9);
    mba_prediction_error_destroy(e);
    mba_store_kernels_free(&s);
}

static void a_gpu_without_a_machine_file_has_no_error(void **state)
{
    mba_store_kernels     s;
    mba_prediction_error *e;
    (void)state;
    three_kernels(&s, "h200");
    snprintf(s.gpu, sizeof s.gpu, "NVIDIA GH200 480GB");
    assert_ok(mba_prediction_error_of_store(&e, &s));
    assert_null(e->machine);
    assert_int_equal(e->n, 0);
    for (int i = 0; i < KERNELS; i++) assert_true(isnan(e->percent[i]));
    mba_prediction_error_destroy(e);
    mba_store_kernels_free(&s);
}

static void a_gpu_is_found_by_its_name(void **state)
{
    (void)state;
    assert_string_equal(mba_machine_for_gpu("NVIDIA H200"), "h200");
    assert_string_equal(mba_machine_for_gpu("NVIDIA A100-SXM4-80GB"), "a100");
    assert_string_equal(mba_machine_for_gpu("NVIDIA A100-PCIE-40GB"), "a100-pcie-40gb");
    assert_string_equal(mba_machine_for_gpu("NVIDIA H100 PCIe"), "h100-pcie");
    assert_string_equal(mba_machine_for_gpu("NVIDIA H100 80GB HBM3"), "h100");
    assert_string_equal(mba_machine_for_gpu("AMD Instinct MI300X"), "mi300x");
    assert_null(mba_machine_for_gpu("NVIDIA GH200 480GB"));
    assert_null(mba_machine_for_gpu("NVIDIA H2000"));
    assert_null(mba_machine_for_gpu(""));
}

static void held_out_kernels_have_an_error(void **state)
{
    mba_prediction_error *e;
    (void)state;
    assert_ok(mba_prediction_error_held_out(&e));
    printf("%d held-out kernels by counters alone: mean %.1f %%, 90th percentile %.1f, worst %.1f\n", e->n, e->mean,
           e->p90, e->worst);
    assert_true(e->n > 20 && e->mean > 0 && e->mean <= e->p90 && e->p90 <= e->worst);
    mba_prediction_error_destroy(e);
}

MBA_TEST_MAIN(cmocka_unit_test(errors_are_predicted_over_measured_time),
              cmocka_unit_test(a_gpu_without_a_machine_file_has_no_error), cmocka_unit_test(a_gpu_is_found_by_its_name),
              cmocka_unit_test(held_out_kernels_have_an_error))
