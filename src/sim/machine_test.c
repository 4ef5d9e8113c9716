/* machine_test.c -- machine files: those that come with the program load, what is wrong is refused with a reason. */
#include "tests/test.h"

#include "sim/machine.h"
#include "tests/scratch.h"

static void expect_refusal(const char *text, const char *word)
{
    mba_gpu m;
    assert_int_equal(mba_gpu_parse(&m, "bad.ini", text, strlen(text)), MBA_E_FORMAT);
    if (!strstr(mba_message(), word)) fail_msg("'%s' is not in: %s", word, mba_message());
    assert_non_null(strstr(mba_message(), "\nfix: "));
}

static void built_in_machines_load(void **state)
{
    (void)state;
    int n = 0;
    for (; mba_gpu_name(n); n++) {
        mba_gpu m;
        assert_ok(mba_gpu_load(&m, mba_gpu_name(n)));
        assert_true(m.v[MBA_GPU_hbm] > 100 && m.v[MBA_GPU_sm] >= 80 && m.v[MBA_GPU_hbm_mix] <= 1);
    }
    assert_int_equal(n, 6);
}

static void bad_machine_files_are_refused_with_a_reason(void **state)
{
    (void)state;
    mba_gpu m;
    expect_refusal("include = h200\nhmb = 5000 GB/s\n", "unknown key 'hmb'");
    expect_refusal("include = h200\nhbm = 5000\n", "without its unit");
    expect_refusal("include = h200\nhbm = 5000 TB/s\n", "without its unit");
    expect_refusal("include = h200\nhbm = -5 GB/s\n", "not negative");
    expect_refusal("include = h200\nhbm = nan GB/s\n", "no number");
    expect_refusal("include = h200\nhbm = 1 GB/s\nhbm = 2 GB/s\n", "twice");
    expect_refusal("include = h200\nhbm = 1 GB/s +- x\n", "no number behind +-");
    expect_refusal("include = h200\nl2_s = 6.3 ratio\n", "multiples of 0.5");
    expect_refusal("hbm = 1 GB/s\ninclude = h200\n", "behind other keys");
    expect_refusal("include = h900\n", "no machine 'h900'");
    expect_refusal("hbm = 5000 GB/s\n", "has no cc");
    expect_refusal("", "has no cc");
    expect_refusal("include = h200\nhbm 5000 GB/s\n", "no = behind");
    assert_int_equal(mba_gpu_load(&m, "h900"), MBA_E_ARG);
    assert_ok(mba_gpu_load(&m, "h200"));
    assert_int_equal(mba_gpu_set(&m, "hbm=x-1"), MBA_E_ARG);
    assert_int_equal(mba_gpu_set(&m, "hbm=5TB"), MBA_E_ARG);
    assert_int_equal(mba_gpu_set(&m, "hbm"), MBA_E_ARG);
    assert_ok(mba_gpu_set(&m, "hbm=x2,xu=32lanes/clk"));
    assert_true(m.v[MBA_GPU_hbm] == 9600 && m.v[MBA_GPU_xu] == 32 && m.changed);
}

/* A machine file of one line that includes another. */
static void write_including(const char *path, const char *other)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fprintf(f, "include = %s\n", other) > 0);
    assert_int_equal(fclose(f), 0);
}

static void a_machine_that_includes_itself_is_refused(void **state)
{
    (void)state;
    mba_gpu m;
    scratch_make();
    const char *a = scratch("a.ini"), *b = scratch("b.ini");
    write_including(a, b);
    write_including(b, a);
    assert_int_equal(mba_gpu_load(&m, a), MBA_E_FORMAT);
    assert_non_null(strstr(mba_message(), "includes itself"));
    scratch_remove();
}

MBA_TEST_MAIN(cmocka_unit_test(built_in_machines_load),
              cmocka_unit_test(bad_machine_files_are_refused_with_a_reason),
              cmocka_unit_test(a_machine_that_includes_itself_is_refused))
