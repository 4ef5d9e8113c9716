// SPDX-License-Identifier: Apache-2.0
/* node_ranges_test.c -- every distinct kernel is in a stretch, once; neighbours share one. */
#include "scope/node_ranges.h"

#include "tests/test.h"

enum { LAYERS = 48, NODES = 6, KERNELS = 8 };

/* embed, then layers of six nodes of which the third launches two kernels, then a loss. */
static int64_t make_step(int64_t *kernel, int32_t *node)
{
    int64_t n = 0;
    int32_t at = 0;
    kernel[n] = 100, node[n++] = at++;
    for (int l = 0; l < LAYERS; l++)
        for (int i = 0; i < NODES; i++, at++) {
            kernel[n] = i, node[n++] = at;
            if (i == 2) kernel[n] = 50, node[n++] = at;
        }
    kernel[n] = 101, node[n++] = at;
    return n;
}

static void second_launches_are_wanted(void **state)
{
    (void)state;
    static int64_t  kernel[LAYERS * KERNELS];
    static int32_t  node[LAYERS * KERNELS];
    static bool     wanted[LAYERS * KERNELS];
    const int64_t   n = make_step(kernel, node);
    mba_node_range *s;
    int             ns;
    mba_wanted_nodes(wanted, kernel, node, n);
    for (int32_t i = 0; i < 2 + LAYERS * NODES; i++) // embed, the second layer, the loss
        assert_int_equal(wanted[i], i == 0 || (i > NODES && i <= 2 * NODES) || i == 1 + LAYERS * NODES);
    assert_ok(mba_node_ranges_of(&s, &ns, wanted, 2 + LAYERS * NODES));
    assert_int_equal(ns, 2); // embed is near enough
    assert_true(s[0].first == 0 && s[0].last == 2 * NODES);
    assert_true(s[1].first == 1 + LAYERS * NODES && s[1].last == s[1].first);
    for (int32_t i = 0; i < 2 + LAYERS * NODES; i++)
        assert_int_equal(mba_in_node_range(s, ns, i), i <= 2 * NODES || i == 1 + LAYERS * NODES);
    free(s);
}

static void a_gap_is_bridged_up_to_its_limit(void **state)
{
    (void)state;
    bool            wanted[2 * MBA_NODE_RANGE_GAP + 4] = { true };
    mba_node_range *s;
    int             n;
    wanted[MBA_NODE_RANGE_GAP] = wanted[2 * MBA_NODE_RANGE_GAP + 1] = true;
    assert_ok(mba_node_ranges_of(&s, &n, wanted, 2 * MBA_NODE_RANGE_GAP + 4));
    assert_int_equal(n, 2);
    assert_int_equal(s[0].last, MBA_NODE_RANGE_GAP);
    assert_int_equal(s[1].first, 2 * MBA_NODE_RANGE_GAP + 1);
    free(s);
}

static void launches_of_nobody_are_left_out(void **state)
{
    (void)state;
    const int64_t kernel[] = { 1, 2 };
    const int32_t node[] = { -1, 0 };
    bool          wanted[2] = { false };
    mba_wanted_nodes(wanted, kernel, node, 2);
    assert_true(wanted[0] && !wanted[1]);
}

MBA_TEST_MAIN(cmocka_unit_test(second_launches_are_wanted), cmocka_unit_test(a_gap_is_bridged_up_to_its_limit),
              cmocka_unit_test(launches_of_nobody_are_left_out))
