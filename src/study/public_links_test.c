// SPDX-License-Identifier: Apache-2.0
/* public_links_test.c -- the formulas of collectives, and what simulate adds up, against published bus bandwidths;
 * cluster files that are refused. */
#include "tests/test.h"

#include "study/public_links.h"

static void formulas_are_within_ten_percent_of_published_bandwidths(void **state)
{
    mba_public_link l[MBA_PUBLIC_LINKS_MAX];
    int             n;
    (void)state;
    assert_ok(mba_public_links_read(l, &n, "the built-in table", mba_public_links_text));
    int held_out = 0;
    for (int i = 0; i < n; i++) held_out += !l[i].gives;
    assert_true(n >= 20 && held_out >= 15);
    for (int i = 0; i < n; i++) {
        const double error = l[i].predicted / l[i].published - 1;
        if (!(fabs(error) <= 0.10))
            printf("%s, %lld GPUs, %.0f bytes: %.1f for %.1f GB/s\n", l[i].source, (long long)l[i].ranks, l[i].bytes,
                   l[i].predicted, l[i].published);
        assert_true(fabs(error) <= 0.10);
    }
}

/* What `simulate --gpus` adds up, where a published number says something about it (public_links.h). */
static void our_exchanges_are_within_ten_percent_of_published_bandwidths(void **state)
{
    mba_public_link l[MBA_PUBLIC_LINKS_MAX];
    int             n, inside = 0, between = 0;
    (void)state;
    assert_ok(mba_public_links_read(l, &n, "the built-in table", mba_public_links_text));
    for (int i = 0; i < n; i++) {
        const double error = l[i].simulated / l[i].published - 1;
        assert_true(isnan(l[i].simulated) || l[i].how == MBA_NCCL_RING);
        if (isnan(l[i].simulated)) continue;
        if (!(fabs(error) <= 0.10))
            printf("%s, %lld GPUs, %.0f bytes: %.1f for %.1f GB/s\n", l[i].source, (long long)l[i].ranks, l[i].bytes,
                   l[i].simulated, l[i].published);
        assert_true(fabs(error) <= 0.10);
        *(l[i].ranks <= 8 ? &inside : &between) += 1;
    }
    assert_true(inside >= 5 && between >= 4);
}

static void exchanges_take_the_link_of_their_distance(void **state)
{
    mba_links          c;
    const mba_exchange e[] = { { 4, 37e9 }, { 8, 4.7e9 } };
    (void)state;
    assert_ok(mba_links_load(&c, "ib400"));
    const mba_link_time t = mba_links_exchanges(&c, e, 2);
    assert_true(fabs(t.node_s - 37 / (450 * 0.82)) < 1e-9);
    assert_true(fabs(t.net_s - 4.7 / (50 * 0.94)) < 1e-9);
    assert_true(fabs(t.latency_s - 1e-6 * (8.4 + 3.4 + 14)) < 1e-12);
    assert_true(t.node_bytes == 37e9 && t.net_bytes == 4.7e9);
    assert_true(mba_links_exchanges(&c, e, 0).seconds == 0);
}

static void ranks_of_a_node_share_its_cores(void **state)
{
    mba_links c;
    (void)state;
    assert_ok(mba_links_load(&c, "ib400"));
    assert_true(mba_links_sharing(&c, 4096) == 1);
    c.v[MBA_LINK_gpus_node] = 4, c.v[MBA_LINK_cores_node] = 2, c.v[MBA_LINK_contention] = 0.1;
    assert_true(mba_links_sharing(&c, 1) == 1);
    assert_true(fabs(mba_links_sharing(&c, 2) - 1.1) < 1e-12);
    assert_true(fabs(mba_links_sharing(&c, 4) - 2.2) < 1e-12);
    assert_true(fabs(mba_links_sharing(&c, 64) - 2.2) < 1e-12);
}

/* Means of the largest of n normal draws: tables of order statistics give 0.564, 1.424 and 2.508 for 2, 8 and 100. */
static void the_slowest_rank_is_as_far_behind_as_order_statistics_say(void **state)
{
    (void)state;
    assert_true(mba_normal_largest(1) == 0);
    assert_true(fabs(mba_normal_largest(2) - 0.564) < 0.03);
    assert_true(fabs(mba_normal_largest(8) - 1.424) < 0.02);
    assert_true(fabs(mba_normal_largest(100) - 2.508) < 0.02);
}

static void damaged_cluster_files_are_refused(void **state)
{
    mba_links c;
    (void)state;
    static const char *const bad[] = { "gpus_node = 8 GPUs\n",
                                       "gpus_node = 8 GB/s\n",
                                       "speed = 8 GB/s\n",
                                       "gpus_node 8\n",
                                       "gpus_node = 0 GPUs\n",
                                       "node_eff = 2 ratio\n",
                                       "gpus_node = 8 GPUs\ngpus_node = 8 GPUs\n",
                                       "gpus_node = 8 GPUs more\n" };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(mba_links_parse(&c, "a file", bad[i]), MBA_E_FORMAT);
        assert_non_null(strstr(mba_message(), "\nfix: "));
    }
    assert_int_equal(mba_links_load(&c, "ib40"), MBA_E_ARG);
    assert_non_null(strstr(mba_message(), "ib400"));
}

MBA_TEST_MAIN(cmocka_unit_test(formulas_are_within_ten_percent_of_published_bandwidths),
              cmocka_unit_test(our_exchanges_are_within_ten_percent_of_published_bandwidths),
              cmocka_unit_test(exchanges_take_the_link_of_their_distance),
              cmocka_unit_test(ranks_of_a_node_share_its_cores),
              cmocka_unit_test(the_slowest_rank_is_as_far_behind_as_order_statistics_say),
              cmocka_unit_test(damaged_cluster_files_are_refused))
