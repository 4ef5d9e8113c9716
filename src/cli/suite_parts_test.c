// SPDX-License-Identifier: Apache-2.0
/* suite_parts_test.c -- which parts a suite has, and what becomes of those that need what this machine lacks. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/suite.h"
#include "tests/scratch.h"
#include "tests/test.h"

static mba_suite_part part[MBA_SUITE_PARTS_MAX];

static int plan(const char *scale, const char *device)
{
    mba_suite_options o = { .scale = scale, .device = device };
    mba_suite_defaults(&o);
    return mba_suite_plan(part, &o);
}

static int of_group(int n, const char *group)
{
    int found = 0;
    for (int i = 0; i < n; i++) found += group ? part[i].group && !strcmp(part[i].group, group) : !part[i].group;
    return found;
}

static const mba_suite_part *named(int n, const char *name)
{
    for (int i = 0; i < n; i++)
        if (!strcmp(part[i].name, name)) return &part[i];
    fail_msg("there is no part %s", name);
    return NULL;
}

/* Small suites have the five workloads; more of them is for --full on a GPU. */
static void small_suites_stay_small(void **state)
{
    static const char *const scale[] = { "tiny", "quick", "full", "tiny", "quick" };
    (void)state;
    for (int i = 0; i < 5; i++) {
        const int n = plan(scale[i], i < 3 ? "cpu" : "cuda:0");
        assert_int_equal(n, 5);
        assert_int_equal(of_group(n, NULL), 5);
    }
}

static void a_full_suite_has_what_the_questions_need(void **state)
{
    const int n = plan("full", "cuda");
    (void)state;
    assert_int_equal(of_group(n, NULL), 5);
    assert_int_equal(of_group(n, "baseline"), 3);
    assert_int_equal(of_group(n, "persistent"), 3);
    assert_int_equal(of_group(n, "bc_fused"), 1);
    assert_int_equal(of_group(n, "mamba_ssm"), 3);
    assert_string_equal(named(n, "mamba2-persistent")->model.variants, "ssd=persistent,ssd_bwd=persistent");
    assert_string_equal(named(n, "mamba2-persistent-dynamic")->model.variants,
                        "ssd=persistent_dynamic,ssd_bwd=persistent_dynamic");
    assert_string_equal(named(n, "mamba2-persistent-prefetch")->model.variants,
                        "ssd=persistent_prefetch,ssd_bwd=persistent_prefetch");
    double all_s = 0;
    for (int i = 0; i < n; i++) {
        all_s += part[i].expect_s;
        assert_true(part[i].expect_s > 0 && strlen(part[i].name) > 0);
        assert_int_equal(part[i].steps_only, part[i].group && !strcmp(part[i].group, "sizes"));
        for (int j = 0; j < i; j++) assert_string_not_equal(part[i].name, part[j].name);
    }
    assert_true(all_s < 460); // 40 s of it for two more ways to take tiles
}

/* N1: every language model at lengths up to 131,072 tokens, as many tokens a step in other sequences. */
static void every_language_model_has_long_sequences(void **state)
{
    static const char *const workload[] = { "mamba1", "mamba2", "hybrid" };
    const int                n = plan("full", "cuda");
    (void)state;
    for (int w = 0; w < 3; w++) {
        int longest = 0, as_many = 0, lengths = 0;
        for (int i = 0; i < n; i++) {
            const mba_batch_shape *s = &part[i].model.shape;
            if (!part[i].steps_only || strcmp(part[i].workload, workload[w])) continue;
            lengths++;
            longest += s->length == 131072;
            as_many += s->length < 131072 && s->batch * s->length == 131072;
        }
        assert_int_equal(longest, 1);
        assert_true(as_many >= 2 && lengths >= 5);
    }
}

static void words_say_what_was_measured(void **state)
{
    char      text[1024];
    const int n = plan("full", "cuda:1");
    (void)state;
    mba_suite_part_words(text, sizeof text, named(n, "mamba2-130m-1x131072"));
    assert_string_equal(text,
                        "profile --model mamba2-130m --batch 1 --length 131072 --device cuda --steps 3 --steps-only");
    mba_suite_part_words(text, sizeof text, named(n, "mamba_ssm-mamba2-short"));
    assert_string_equal(text,
                        "profile --workload mamba2-headline --units 1024 --range step --sets overview,cache --launches "
                        "800 -- python3 tools/peers/train_nvtx.py --model mamba2-headline --batch 1 --length 1024 "
                        "--layers 4 --steps 40");
    mba_suite_part_words(text, sizeof text, named(n, "mamba2-chunked"));
    assert_string_equal(text,
                        "profile --model mamba2-headline --batch 4 --length 4096 --op ssd=chunked,ssd_bwd=chunked "
                        "--device cuda --steps 5 --blocks 512");
}

/* A Python that answers and exits as told. */
static void make_python(const char *answer, int code)
{
    FILE *f = fopen(scratch("python"), "w");
    assert_non_null(f);
    fprintf(f, "#!/bin/sh\necho %s\nexit %d\n", answer, code);
    fclose(f);
    assert_int_equal(chmod(scratch("python"), 0755), 0);
    setenv("PYTHON", scratch("python"), 1);
}

static void a_part_that_cannot_run_says_why(void **state)
{
    char                  why[200];
    const int             n = plan("full", "cuda");
    const mba_suite_part *peer = named(n, "mamba_ssm-mamba2");
    (void)state;
    make_python("Python does not find mamba_ssm", 1);
    assert_true(mba_suite_part_possible(named(n, "mamba2"), why, sizeof why)); // asks no Python
    assert_false(mba_suite_part_possible(peer, why, sizeof why));
    assert_string_equal(why, "Python does not find mamba_ssm");
    make_python("", 0);
    assert_true(mba_suite_part_possible(peer, why, sizeof why));
    setenv("PYTHON", scratch("no-python"), 1);
    assert_false(mba_suite_part_possible(peer, why, sizeof why));
    assert_true(*why);
    unsetenv("PYTHON");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_suites_stay_small),
        cmocka_unit_test(a_full_suite_has_what_the_questions_need),
        cmocka_unit_test(every_language_model_has_long_sequences),
        cmocka_unit_test(words_say_what_was_measured),
        cmocka_unit_test(a_part_that_cannot_run_says_why),
    };
    scratch_make();
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    scratch_remove();
    return failed;
}
