// SPDX-License-Identifier: Apache-2.0
/* cupti_test.c -- every metric of every set exists and takes the passes we say, asked of CUPTI for a GH100: no GPU
 * needed. */
#include "scope/metrics.h"
#include "tests/test.h"

#ifdef MBA_WITH_CUPTI
#include "scope/cupti_collect.h"
#include "scope/gpu_profile.h"
#include "tests/scratch.h"

static int version;

static void sets_take_the_passes_they_claim(void **state)
{
    (void)state;
    for (const mba_metric_set *s = mba_metric_sets; s->name; s++) {
        mba_counter_group group[16];
        int               n = 0;
        assert_ok(mba_counters_group(group, &n, 16, "GH100", s));
        if (n != s->passes) fail_msg("%s takes %d passes, metrics.c says %d", s->name, n, s->passes);
    }
}

/* Every metric of a set once, and one pass for each group: foreign programs cannot be run again. */
static void groups_are_read_in_one_pass(void **state)
{
    (void)state;
    for (const mba_metric_set *s = mba_metric_sets; s->name; s++) {
        mba_counter_group group[16];
        int               n = 0, seen[MBA_METRICS_MAX] = { 0 };
        assert_ok(mba_counters_group(group, &n, 16, "GH100", s));
        for (int g = 0; g < n; g++) {
            int passes = 0;
            assert_ok(mba_counters_count_passes(&passes, "GH100", group[g].metric, group[g].n));
            if (passes != 1) fail_msg("group %d of %s takes %d passes", g, s->name, passes);
            for (int i = 0; i < group[g].n; i++) {
                seen[group[g].place[i]]++;
                assert_string_equal(group[g].metric[i], s->metric[group[g].place[i]]);
            }
        }
        for (int i = 0; i < s->n; i++) assert_int_equal(seen[i], 1);
    }
}

static void no_room_for_a_group_is_an_error(void **state)
{
    (void)state;
    mba_counter_group group[1];
    int               n = 0;
    assert_fails(mba_counters_group(group, &n, 1, "GH100", mba_metric_set_find("stalls")), MBA_E_UNSUPPORTED,
                 "more than 1 groups");
}

static void an_unknown_metric_is_named(void **state)
{
    (void)state;
    const char *const names[] = { "gpu__time_duration.sum", "sm__no_such_thing.sum" };
    int               passes;
    assert_fails(mba_counters_count_passes(&passes, "GH100", names, 2), MBA_E_UNSUPPORTED, "'sm__no_such_thing.sum'");
}

/* What the process that samples leaves: lines in, instructions out; words that are no such line are refused. */
static void samples_are_read(void **state)
{
    (void)state;
    mba_gpu_profile g = { 0 };
    const char     *path = scratch("x.samples");
    FILE           *f = fopen(path, "w");
    assert_non_null(f);
    fputs("at 7 1808 214 96 smsp__pcsamp_warps_issue_stalled_barrier _Z4walkPf dir/a b.cuh\n"
          "at 7 16 0 3 smsp__pcsamp_warps_issue_stalled_wait _Z4walkPf -\nsamples 99 0 0\n",
          f);
    fclose(f);
    assert_ok(mba_gpu_samples_read(&g, path));
    assert_int_equal(g.ninstructions, 2);
    assert_true(g.instruction[0].node == 7 && g.instruction[0].pc == 1808 && g.instruction[0].line == 214);
    assert_near(g.instruction[0].value, 96, 0);
    assert_string_equal(g.instruction[0].file, "dir/a b.cuh");
    assert_string_equal(g.instruction[1].file, "");
    assert_string_equal(g.instruction[1].metric, "smsp__pcsamp_warps_issue_stalled_wait");
    f = fopen(path, "w");
    fputs("samples 99 0 99\n", f);
    fclose(f);
    assert_fails(mba_gpu_samples_read(&g, path), MBA_E_DEVICE, "no samples of our code");
    f = fopen(path, "w");
    fputs("at 7 16 0 3 smsp__pcsamp_warps_issue_stalled_wait _Z4walkPf -\nfailed CUPTI reports: full fix: less\n"
          "samples 9 0 0\n",
          f);
    fclose(f);
    assert_ok(mba_gpu_samples_read(&g, path));
    assert_int_equal(g.nnotes, 1);
    assert_string_equal(g.note[0].text, "CUPTI reports: full");
    assert_string_equal(g.note[0].fix, "less");
    f = fopen(path, "w");
    fputs("at seven\n", f);
    fclose(f);
    assert_fails(mba_gpu_samples_read(&g, path), MBA_E_FORMAT, "not a line of samples");
    mba_events_free(&g.names);
    free(g.instruction);
}

/* Without a context there is nothing to profile: an error in words, not a crash. */
static void no_context_is_an_error(void **state)
{
    (void)state;
    mba_counters     *s;
    const char *const name = "gpu__time_duration.sum";
    assert_true(mba_counters_open(&s, &name, 1, 1) != MBA_OK);
    assert_null(s);
}

int main(void)
{
    if (mba_cupti_version(&version) != MBA_OK) return 77; // this machine has the headers alone
    const struct CMUnitTest tests[] = { cmocka_unit_test(sets_take_the_passes_they_claim),
                                        cmocka_unit_test(groups_are_read_in_one_pass),
                                        cmocka_unit_test(no_room_for_a_group_is_an_error),
                                        cmocka_unit_test(an_unknown_metric_is_named),
                                        cmocka_unit_test(samples_are_read),
                                        cmocka_unit_test(no_context_is_an_error) };
    scratch_make();
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    scratch_remove();
    return failed;
}
#else
int main(void) { return 77; }
#endif
