// SPDX-License-Identifier: Apache-2.0
/* ceilings_test.c -- floors computed by hand, and which rate bounds them. */
#include "tests/test.h"

#include "device/cpu/ceilings.h"

static const mba_ceilings lanes = { .stream_bytes = 10, .fma_flops = 100, .exp_ops = 50 },
                          units = { .stream_bytes = 10, .fma_flops = 100, .tensor_flops = 1000, .exp_ops = 50 };

/* With tensor cores all parts overlap, and products have their own rate: 2000 FLOPs take 2 s, not 20, so that 100
 * bytes, which take 10 s, bound them. Without, vector lanes do everything in sequence. */
static void a_floor_is_bound_by_its_longest_part(void **state)
{
    const mba_cost products = { .read_bytes = 60, .write_bytes = 40, .tensor_flops = 2000 };
    mba_cost       vectors = { .read_bytes = 100, .vector_flops = 900, .special_ops = 200 };
    (void)state;
    assert_near(mba_ceilings_floor(&units, products), 10, 1e-12);
    assert_true(mba_ceilings_memory_bound(&units, products));
    assert_near(mba_ceilings_floor(&lanes, products), 20, 1e-12);
    assert_false(mba_ceilings_memory_bound(&lanes, products));
    assert_true(mba_ceilings_memory_bound(&units, vectors));  // 10 s, beside 9 and 4
    assert_false(mba_ceilings_memory_bound(&lanes, vectors)); // 9 and 4 are 13
    vectors.vector_flops = 1100;
    assert_false(mba_ceilings_memory_bound(&units, vectors));
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(a_floor_is_bound_by_its_longest_part) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
