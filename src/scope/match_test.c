// SPDX-License-Identifier: Apache-2.0
/* match_test.c -- kernels that a library starts beside those of the plan. */
#include "scope/match.h"
#include "tests/test.h"

enum { N_MAX = 8 };
static const char *const planned[] = { "filter", "cudnn", "dfilter", "sums", "totals", "cudnn" };

static void places_are(const mba_started *s, int n, const int *want)
{
    int place[N_MAX];
    mba_match_launches(place, s, n, planned, 6);
    for (int i = 0; i < n; i++)
        if (place[i] != want[i]) fail_msg("kernel %d is launch %d, wanted %d", i, place[i], want[i]);
}

static void a_kernel_in_front_is_nobodys(void **state)
{
    (void)state;
    places_are((const mba_started[]){ { "filter", 3 },
                                      { "clears", 2 },
                                      { "wgrad", 140 },
                                      { "dfilter", 2 },
                                      { "column_parts", 9 },
                                      { "totals", 2 },
                                      { "dgrad", 90 } },
               7, (const int[]){ 0, -1, 1, 2, 3, 4, 5 });
}

static void one_behind_too(void **state)
{
    (void)state;
    places_are((const mba_started[]){ { "filter", 3 },
                                      { "wgrad", 140 },
                                      { "reduce", 5 },
                                      { "dfilter", 2 },
                                      { "column_parts", 9 },
                                      { "totals", 2 },
                                      { "dgrad", 90 },
                                      { NULL, 1 } },
               8, (const int[]){ 0, 1, -1, 2, 3, 4, 5, -1 });
}

static void as_many_as_planned_are_those(void **state)
{
    (void)state;
    places_are(
        (const mba_started[]){
            { "filter", 3 }, { "wgrad", 140 }, { "dfilter", 2 }, { "a", 9 }, { "totals", 2 }, { "b", 90 } },
        6, (const int[]){ 0, 1, 2, 3, 4, 5 });
    places_are((const mba_started[]){ { "k0", 1 }, { "k1", 1 }, { "k2", 1 }, { "k3", 1 }, { "k4", 1 }, { "k5", 1 } }, 6,
               (const int[]){ 0, 1, 2, 3, 4, 5 }); // none by name: in order
}

static void of_equals_the_first_is_taken(void **state)
{
    (void)state;
    int place[2];
    mba_match_launches(place, (const mba_started[]){ { "split", 7 }, { "reduce", 7 } }, 2,
                       (const char *const[]){ "gemm" }, 1);
    assert_int_equal(place[0], 0);
    assert_int_equal(place[1], -1);
}

MBA_TEST_MAIN(cmocka_unit_test(a_kernel_in_front_is_nobodys), cmocka_unit_test(one_behind_too),
              cmocka_unit_test(as_many_as_planned_are_those), cmocka_unit_test(of_equals_the_first_is_taken))
