// SPDX-License-Identifier: Apache-2.0
/* rotary_test.c -- hand-worked rotations, norms preserved, memory reused only where that is correct. attention_test.c
 * has golden values of rotary and attention together. */
#include "tests/test.h"

#include "core/program.h"
#include "ops/rotary/rotary.h"
#include "ops/rotary/rotary_slots.h"

static const double PI = 3.14159265358979323846;

/* With base 1 every pair is rotated by t radians, which is easy to work by hand. */
static void turn_of_hand_worked_values(void **state)
{
    (void)state;
    const double x[10] = { 9, 9, 9, 9, 9, 1, 2, 3, 4, 5 };
    double       y[10];
    mba_tensor   t = { .type = MBA_TYPE(MBA_F32, 1, 2, 1, 5), .run = 10, .pitch = 10 };
    rotary_attr  a = { .base = 1, .dims = 4, .first = 0, .interleaved = 0, .sign = 1 };
    mba_node     n = { .in = { [X] = &t }, .out = { [Y] = &t }, .attr = &a };
    rotary_ref(&(mba_ref_call){ .node = &n, .in = { [X] = x }, .out = { [Y] = y } });
    for (int i = 0; i < 5; i++) assert_near(y[i], 9, 0); // position 0 is not rotated
    assert_near(y[5], 1 * cos(1) - 3 * sin(1), 1e-15);   // pairs (0, 2) and (1, 3)
    assert_near(y[6], 2 * cos(1) - 4 * sin(1), 1e-15);
    assert_near(y[7], 3 * cos(1) + 1 * sin(1), 1e-15);
    assert_near(y[8], 4 * cos(1) + 2 * sin(1), 1e-15);
    assert_near(y[9], 5, 0); // does not change
    a = (rotary_attr){ .base = 1, .dims = 4, .first = 7, .interleaved = 1, .sign = -1 };
    rotary_ref(&(mba_ref_call){ .node = &n, .in = { [X] = x }, .out = { [Y] = y } });
    assert_near(y[5], 1 * cos(8) + 2 * sin(8), 1e-15); // pairs (0, 1) and (2, 3), the opposite angle
    assert_near(y[6], 2 * cos(8) - 1 * sin(8), 1e-15);
    assert_near(y[8], 4 * cos(8) - 3 * sin(8), 1e-15);
}

/* At large positions the angles must still be right: they are fp64 until cos and sin are taken. */
static void angles_stay_exact_at_large_positions(void **state)
{
    (void)state;
    enum { L = 300, FIRST = 1000000, P = 4 };
    mba_graph   *g;
    mba_program *p;
    assert_ok(mba_graph_create(&g));
    mba_tensor *x = mba_input(g, "x", MBA_TYPE(MBA_F32, 1, L, 1, P));
    mba_tensor *y = mba_result(g, "y", mba_rotary_from(g, x, FIRST, P, 10000, false));
    assert_ok(mba_program_create(&p, g, &(mba_program_options){ .machine = &(mba_machine){ .name = "host" } }));
    assert_ok(mba_program_bind(p, &mba_device_cpu));
    for (int i = 0; i < L * P; i++) ((float *)mba_program_at(p, x))[i] = i % P < 2; // the outputs are cos and sin
    assert_ok(mba_program_run(p, MBA_FORWARD, &(mba_step){ 0 }, NULL));
    const float *have = mba_program_at(p, y);
    for (int t = 0; t < L; t++)
        for (int j = 0; j < 2; j++) {
            const double angle = fmod((FIRST + t) * (j ? 0.01 : 1.0), 2 * PI);
            assert_near(have[t * P + j], cos(angle), 1e-7);
            assert_near(have[t * P + 2 + j], sin(angle), 1e-7);
        }
    mba_program_destroy(p);
    mba_graph_destroy(g);
}

/* A chain whose inputs are not used again: the plan may rotate in place, and the second rotation undoes the first. */
static void turning_in_place_and_back_is_the_identity(void **state)
{
    (void)state;
    enum { B = 2, L = 5, H = 3, P = 10 };
    for (int interleaved = 0; interleaved < 2; interleaved++) {
        mba_graph   *g;
        mba_program *p;
        rotary_attr  back = { .base = 100, .dims = 6, .first = 2, .interleaved = interleaved, .sign = -1 };
        assert_ok(mba_graph_create(&g));
        mba_tensor *x = mba_input(g, "x", MBA_TYPE(MBA_F32, B, L, H, P));
        mba_tensor *a = mba_rotary_from(g, x, 2, 6, 100, interleaved);
        mba_tensor *b = MBA_APPEND(g, rotary, &back, a)->out[Y];
        mba_tensor *y = mba_result(g, "y", mba_rotary_from(g, b, 0, 2, 1, interleaved));
        assert_ok(mba_program_create(&p, g, &(mba_program_options){ .machine = &(mba_machine){ .name = "host" } }));
        assert_ok(mba_program_bind(p, &mba_device_cpu));
        assert_ptr_equal(mba_program_at(p, a), mba_program_at(p, b)); // the rotation is in place
        for (int i = 0; i < B * L * H * P; i++) ((float *)mba_program_at(p, x))[i] = (float)sin(i);
        assert_ok(mba_program_run(p, MBA_FORWARD, &(mba_step){ 0 }, NULL));
        for (int i = 0; i < B * L * H * P; i++) // values 2.. are rotated and rotated back
            if (i % P >= 2) assert_near(((float *)mba_program_at(p, y))[i], sin(i), 4e-7);
        mba_program_destroy(p);
        mba_graph_destroy(g);
    }
}

static void what_cannot_turn_is_refused(void **state)
{
    (void)state;
    const struct {
        int64_t     dims;
        double      base;
        const char *words;
    } wrong[] = { { 3, 100, "in pairs" }, { 10, 100, "in pairs" }, { 0, 100, "in pairs" }, { 4, 0, "a base of 0" } };
    for (int i = 0; i < 4; i++) {
        mba_graph *g;
        assert_ok(mba_graph_create(&g));
        mba_rotary(g, mba_input(g, "x", MBA_TYPE(MBA_F32, 1, 2, 3, 8)), wrong[i].dims, wrong[i].base, false);
        assert_fails(mba_graph_status(g), MBA_E_SHAPE, wrong[i].words);
        mba_graph_destroy(g);
    }
}

MBA_TEST_MAIN(cmocka_unit_test(turn_of_hand_worked_values), cmocka_unit_test(angles_stay_exact_at_large_positions),
              cmocka_unit_test(turning_in_place_and_back_is_the_identity),
              cmocka_unit_test(what_cannot_turn_is_refused))
