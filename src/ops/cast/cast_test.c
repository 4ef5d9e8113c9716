// SPDX-License-Identifier: Apache-2.0
/* cast_test.c -- bf16 is fp32 rounded to the nearest, ties to even. */
#include "tests/test.h"

#include <math.h>

#include "ops/cast/cast_slots.h"

static void bf16_rounds_to_nearest_even(void **state)
{
    (void)state;
    assert_near(mba_from_bf16(mba_to_bf16(1 + 1.0f / 256)), 1, 0);             // half way, down to even
    assert_near(mba_from_bf16(mba_to_bf16(1 + 3.0f / 256)), 1 + 4.0 / 256, 0); // half way, up to even
    assert_near(mba_from_bf16(mba_to_bf16(1 + 1.1f / 256)), 1 + 2.0 / 256, 0);
    assert_near(mba_from_bf16(mba_to_bf16(-3.0e38f)), -3.0e38, 1e36);
    assert_true(isinf(mba_from_bf16(mba_to_bf16(3.4e38f))));
    assert_true(isnan(mba_from_bf16(mba_to_bf16(NAN))));
    for (uint32_t h = 0; h < 0x7f80; h++) assert_int_equal(mba_to_bf16(mba_from_bf16((uint16_t)h)), h);
}

static void a_window_is_cast_both_ways(void **state)
{
    (void)state;
    float      x[6] = { 1, 2.5f, -3, 4, 5.25f, 0.1f }, back[4];
    uint16_t   half[4];
    cast_attr  down = { MBA_BF16 }, up = { MBA_F32 };
    mba_tensor a = { .type = MBA_TYPE(MBA_F32, 2, 2), .run = 2, .pitch = 3 },
               b = { .type = MBA_TYPE(MBA_BF16, 2, 2), .run = 4, .pitch = 4 },
               c = { .type = MBA_TYPE(MBA_F32, 2, 2), .run = 4, .pitch = 4 };
    mba_node to = { .in = { [X] = &a }, .out = { [Y] = &b }, .attr = &down },
             from = { .in = { [X] = &b }, .out = { [Y] = &c }, .attr = &up };
    assert_ok(cast_fwd_base(&(mba_call){ .node = &to, .in = { [X] = x }, .out = { [Y] = half } }));
    assert_ok(cast_fwd_base(&(mba_call){ .node = &from, .in = { [X] = half }, .out = { [Y] = back } }));
    const float want[4] = { 1, 2.5f, 4, 5.25f };
    for (int i = 0; i < 4; i++) assert_near(back[i], want[i], 0);
}

MBA_TEST_MAIN(cmocka_unit_test(bf16_rounds_to_nearest_even), cmocka_unit_test(a_window_is_cast_both_ways))
