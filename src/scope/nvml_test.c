// SPDX-License-Identifier: Apache-2.0
/* nvml_test.c -- which GPU is asked: that of a bus id, or the first that CUDA sees. The library is the test's own
 * (tests/fake_nvml.c). */
#include <math.h>
#include <stdlib.h>
#include <time.h>

#include "scope/clock.h"
#include "scope/meter.h"
#include "scope/nvml.h"
#include "tests/test.h"

static void a_bus_id_names_the_gpu(void **state)
{
    (void)state;
    static const char *const id[] = { "0000:00:00.0", "0000:01:00.0", "00000000:02:00.0" };
    setenv("CUDA_VISIBLE_DEVICES", "0", 1); // does not matter
    for (int k = 0; k < 3; k++) {
        mba_nvml_state s;
        double         joules, ghz;
        char           name[24];
        snprintf(name, sizeof name, "number %d", k);
        assert_ok(mba_nvml_read(&s, id[k]));
        assert_string_equal(s.name, name);
        assert_int_equal(s.sm_mhz, 1000 + k);
        assert_ok(mba_nvml_energy(&joules, id[k]));
        assert_near(joules, 1000 * (k + 1), 1e-9);
        assert_ok(mba_nvml_clock(&ghz, id[k]));
        assert_near(ghz, 1 + 1e-3 * k, 1e-9);
    }
    unsetenv("CUDA_VISIBLE_DEVICES");
}

static void an_unknown_bus_id_is_refused(void **state)
{
    mba_nvml_state s;
    (void)state;
    assert_fails(mba_nvml_read(&s, "0000:07:00.0"), MBA_E_UNSUPPORTED, "NVML reports: not found");
    assert_int_equal(s.sm_mhz, -1);
}

static void without_a_bus_id_it_is_the_first_that_cuda_sees(void **state)
{
    (void)state;
    static const struct {
        const char *visible;
        int         mhz;
    } row[] = { { NULL, 1000 },  { "", 1000 },      { "0", 1000 },          { "2", 1002 },
                { "1,0", 1001 }, { "GPU-2", 1002 }, { "GPU-1,GPU-0", 1001 } };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        mba_nvml_state s;
        if (row[i].visible) setenv("CUDA_VISIBLE_DEVICES", row[i].visible, 1);
        else unsetenv("CUDA_VISIBLE_DEVICES");
        assert_ok(mba_nvml_read(&s, NULL));
        assert_int_equal(s.sm_mhz, row[i].mhz);
    }
    mba_nvml_state s;
    setenv("CUDA_VISIBLE_DEVICES", "9", 1);
    assert_fails(mba_nvml_read(&s, NULL), MBA_E_UNSUPPORTED, "not found");
    unsetenv("CUDA_VISIBLE_DEVICES");
}

static void the_meter_reads_the_named_gpu(void **state)
{
    mba_meter *m;
    (void)state;
    assert_ok(mba_meter_start(&m, "0000:02:00.0"));
    const double from = mba_clock_s();
    nanosleep(&(struct timespec){ .tv_nsec = 200000000 }, NULL);
    mba_meter_stop(m);
    assert_near(mba_meter_mean_ghz(m, from, mba_clock_s()), 1.002, 1e-9);
    assert_near(mba_meter_limit_w(m), 700, 1e-9);
    mba_meter_destroy(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_bus_id_names_the_gpu),
        cmocka_unit_test(an_unknown_bus_id_is_refused),
        cmocka_unit_test(without_a_bus_id_it_is_the_first_that_cuda_sees),
        cmocka_unit_test(the_meter_reads_the_named_gpu),
    };
    if (!getenv("MBA_NVML")) {
        print_message("skipped: MBA_NVML does not name the library of this test\n");
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
