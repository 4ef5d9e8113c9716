// SPDX-License-Identifier: Apache-2.0
/* windows_test.c -- the index map compared with a loop over windows, and back; tests/operators_test.c checks the
 * `cases`. */
#include "tests/rig.h"

#include "ops/windows/windows.h"

static mba_tensor *param(mba_graph *g, const char *name, mba_type t)
{
    return mba_param(g, name, t, MBA_INIT_NORMAL(1), MBA_DECAY);
}

/* Visits windows by image, row of windows and column, and tokens line by line within a window. The next position is
 * always the next token, so no division is needed. */
static void visits_windows_in_order(int64_t B, int64_t H, int64_t W, int64_t C, int64_t side)
{
    mba_graph  *g = graph();
    mba_tensor *x = param(g, "x", MBA_TYPE(MBA_F32, B, H, W, C)), *t = mba_window_partition(g, x, side);
    mba_tensor *back = mba_window_reverse(g, t, B, H, W), *dback = mba_input(g, "dback", back->type);
    mba_tensor *dt = mba_input(g, "dt", t->type);
    rig         r = rig_create(g, 2, (mba_tensor *[]){ back, t }, (mba_tensor *[]){ dback, dt });
    rig_sines(&r, dback, 1, 0.3, 0.7);
    rig_run(&r);
    int64_t k = 0;
    for (int64_t b = 0; b < B; b++)
        for (int64_t y0 = 0; y0 < H; y0 += side)
            for (int64_t x0 = 0; x0 < W; x0 += side)
                for (int64_t y = y0; y < y0 + side; y++)
                    for (int64_t xx = x0; xx < x0 + side; xx++)
                        for (int64_t c = 0; c < C; c++, k++) {
                            const bool   real = y < H && xx < W;
                            const double want = real ? rig_want(&r, x, ((b * H + y) * W + xx) * C + c) : 0;
                            assert_true(rig_want(&r, t, k) == want);
                            assert_true(rig_have(&r, t, k) == (float)want);
                        }
    assert_int_equal(k, mba_elems(t));
    for (int64_t i = 0; i < mba_elems(x); i++) {
        assert_true(rig_have(&r, back, i) == rig_have(&r, x, i));
        assert_true(rig_have(&r, rig_grad(&r, x), i) == rig_have(&r, dback, i));
    }
    assert_same_bits(&r);
    rig_destroy(&r);
}

static void windows_are_visited_line_by_line(void **state)
{
    (void)state;
    visits_windows_in_order(2, 6, 4, 3, 2);
    visits_windows_in_order(2, 5, 7, 3, 3);
    visits_windows_in_order(1, 3, 9, 2, 4);
    visits_windows_in_order(3, 1, 1, 5, 7);
    visits_windows_in_order(1, 28, 21, 4, 14);
}

static void one_window_is_a_reshape(void **state)
{
    (void)state;
    mba_graph  *g = graph();
    mba_tensor *x = param(g, "x", MBA_TYPE(MBA_F32, 2, 7, 7, 5)), *t = mba_window_partition(g, x, 7);
    mba_tensor *back = mba_window_reverse(g, t, 2, 7, 7);
    assert_ok(mba_graph_status(g));
    assert_int_equal(g->nnodes, 0);
    assert_true(mba_type_equal(&t->type, &MBA_TYPE(MBA_F32, 2, 49, 5)) && mba_type_equal(&back->type, &x->type));
    mba_window_partition(g, x, 4);
    assert_int_equal(g->nnodes, 1);
    mba_graph_destroy(g);
}

static void windows_refuse_what_does_not_fit(void **state)
{
    (void)state;
    mba_graph *g = graph();
    mba_window_reverse(g, mba_input(g, "t", MBA_TYPE(MBA_F32, 4, 5, 3)), 1, 4, 4);
    assert_fails(mba_graph_status(g), MBA_E_SHAPE, "t is not (windows, side * side, channels)");
    mba_graph_destroy(g);
    g = graph();
    mba_window_reverse(g, mba_input(g, "t", MBA_TYPE(MBA_F32, 4, 4, 3)), 1, 4, 5);
    assert_fails(mba_graph_status(g), MBA_E_SHAPE, "1 images of 4 x 5 have 24 tokens in windows of side 2, t has 16");
    mba_graph_destroy(g);
    g = graph();
    mba_window_partition(g, mba_input(g, "x", MBA_TYPE(MBA_F32, 1, 4, 5, 3)), 0);
    assert_fails(mba_graph_status(g), MBA_E_SHAPE, "windows of side 0");
    mba_graph_destroy(g);
}

MBA_TEST_MAIN(cmocka_unit_test(windows_are_visited_line_by_line), cmocka_unit_test(one_window_is_a_reshape),
              cmocka_unit_test(windows_refuse_what_does_not_fit))
