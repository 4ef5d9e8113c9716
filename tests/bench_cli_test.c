// SPDX-License-Identifier: Apache-2.0
/* bench_cli_test.c -- `bench` and `selftest` as a person meets them: what would not be measured, or proved, is
 * refused. */
#include "tests/program.h"

#define TINY "--model mamba2-130m --set width=16,layers=1,vocab=64,state=8,head_dim=8,chunk=8 --batch 1 --length 8"

/* `bench op ssd --batch 4` would time other sizes than those asked for, and say nothing. */
static void bench_ignores_nothing(void **state)
{
    (void)state;
    says(run("bench op ssd --batch 4 --length 4096"), 2, "bench op does not use a size");
    says(run("bench op --model mamba-130m"), 2, "bench step --model NAME");
    says(run("bench ceilings --model nosuch"), 2, "bench ceilings does not use --model");
    says(run("bench decode --op ssd=fused"), 2, "bench decode does not use --op");
    says(run("bench step " TINY " --memory-copies"), 2, "bench step does not use --memory-copies");
    says(run("bench step " TINY " --hold 5"), 2, "bench step does not use --hold");
    says(run("bench nosuch --batch 4"), 2, "bench what?");
    says(run("bench step --repeats 1 " TINY), 0, "mamba2-130m");
}

static void an_operator_without_sizes_is_told(void **state)
{
    (void)state;
    says(run("bench op add"), 2, "add has no size worth timing by itself");
}

/* All operators take minutes. Who reads the first row has it when it is measured, and the rest is not waited for. */
static void rows_of_operators_come_as_they_are_measured(void **state)
{
    (void)state;
    says(shell("timeout 300 \"$MBA_PROGRAM\" bench op --repeats 1 --csv | head -n 2"), 0, "\nmatmul,");
    says(shell("timeout 300 \"$MBA_PROGRAM\" bench op --repeats 1 | head -n 2"), 0, "\nmatmul ");
}

/* An empty table looks like a proof. */
static void what_selftest_has_no_cases_of_is_told(void **state)
{
    (void)state;
    says(run("selftest adamw"), 2, "adamw has no cases of its own");
    says(run("selftest relu2 relu2_bwd"), 2, "checked with the operator whose gradient it is");
    says(run("selftest relu2"), 0, "relu2");
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
    const struct CMUnitTest tests[] = { cmocka_unit_test(bench_ignores_nothing),
                                        cmocka_unit_test(rows_of_operators_come_as_they_are_measured),
                                        cmocka_unit_test(an_operator_without_sizes_is_told),
                                        cmocka_unit_test(what_selftest_has_no_cases_of_is_told) };
    return cmocka_run_group_tests(tests, prepare, clean);
}
