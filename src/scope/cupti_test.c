/* cupti_test.c -- every metric of every set exists and takes the passes we say, asked of CUPTI for a GH100: no GPU needed. */
#include "scope/metrics.h"
#include "tests/test.h"

#ifdef MBA_WITH_CUPTI
#include "scope/cupti_collect.h"

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
    if (mba_cupti_version(&version) != MBA_OK) return 77;                // this machine has the headers alone
    const struct CMUnitTest tests[] = { cmocka_unit_test(sets_take_the_passes_they_claim),
                                        cmocka_unit_test(groups_are_read_in_one_pass),
                                        cmocka_unit_test(no_room_for_a_group_is_an_error),
                                        cmocka_unit_test(an_unknown_metric_is_named),
                                        cmocka_unit_test(no_context_is_an_error) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#else
int main(void) { return 77; }
#endif
