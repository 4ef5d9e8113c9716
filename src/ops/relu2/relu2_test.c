// SPDX-License-Identifier: Apache-2.0
/* relu2_test.c -- hand-worked values; tests/operators_test.c checks the `cases`. */
#include "tests/test.h"

#include "ops/relu2/relu2_slots.h"

static void relu2_of_hand_worked_values(void **state)
{
    (void)state;
    const double x[4] = { -2, 0, 0.5, 3 }, dy[4] = { 1, 1, 2, -1 }, y[4] = { 0, 0, 0.25, 9 }, dx[4] = { 0, 0, 2, -6 };
    double       out[4];
    mba_tensor   t = { .type = MBA_TYPE(MBA_F32, 4), .run = 4, .pitch = 4 };
    mba_node     f = { .in = { [X] = &t }, .out = { [Y] = &t } },
             b = { .in = { [DY] = &t, [XB] = &t }, .out = { [DX] = &t } };
    relu2_ref(&(mba_ref_call){ .node = &f, .in = { [X] = x }, .out = { [Y] = out } });
    for (int i = 0; i < 4; i++) assert_near(out[i], y[i], 0);
    relu2_bwd_ref(&(mba_ref_call){ .node = &b, .in = { [DY] = dy, [XB] = x }, .out = { [DX] = out } });
    for (int i = 0; i < 4; i++) assert_near(out[i], dx[i], 0);
}

MBA_TEST_MAIN(cmocka_unit_test(relu2_of_hand_worked_values))
