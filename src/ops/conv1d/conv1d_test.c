// SPDX-License-Identifier: Apache-2.0
/* conv1d_test.c -- golden values, sequences in several calls, documents, thread counts; tests/operators_test.c checks
 * the `cases`. */
#include "tests/rig.h"

#include "ops/conv1d/conv1d.h"

static mba_tensor *param(mba_graph *g, const char *name, mba_type t)
{
    return mba_param(g, name, t, MBA_INIT_NORMAL(1), MBA_DECAY);
}

/* The values are computed in double precision, independently of this code. */
static void conv1d_has_its_golden_values(void **state)
{
    (void)state;
    mba_graph  *g = graph();
    mba_tensor *x = param(g, "x", MBA_TYPE(MBA_F32, 1, 6, 2)), *w = param(g, "w", MBA_TYPE(MBA_F32, 2, 1, 4));
    mba_tensor *b = param(g, "b", MBA_TYPE(MBA_F32, 2));
    mba_tensor *y = mba_conv1d(g, .x = x, .w = w, .bias = b, .silu = true), *dy = mba_input(g, "dy", y->type);
    rig         r = rig_create(g, 1, &y, &dy);
    rig_sines(&r, x, 1, 0.7, 0.1);
    rig_sines(&r, w, 0.6, 0.9, 0.3);
    rig_sines(&r, b, 0.2, 1, 0.5);
    rig_sines(&r, dy, 1, 0.3, 0.7);
    rig_run(&r);
    assert_golden(&r, y,
                  (double[]){ 0.0548882504, 0.1943608505, 0.1294275122, 0.0600252598, 0.4583705050, -0.2079819333,
                              0.4824071999, -0.2153496225, -0.0540143477, 0.2884926489, -0.2120677774, 0.8285398673 });
    assert_sums(&r, rig_grad(&r, x), 2.680289968844, 10.77876022595);
    assert_sums(&r, rig_grad(&r, w), 3.736022717360, 16.26393150318);
    assert_sums(&r, rig_grad(&r, b), 2.581384113600, 3.039841113154);
    rig_destroy(&r);
}

/* Compares L steps in one call with two calls of `cut` and L - cut steps: the same outputs, and the same final
 * state. */
static void pieces_equal_the_whole(int64_t L, int64_t cut, int64_t taps)
{
    const int64_t B = 2, C = 7;
    mba_graph    *g = graph();
    mba_tensor   *x = param(g, "x", MBA_TYPE(MBA_F32, B, L, C)), *w = param(g, "w", MBA_TYPE(MBA_F32, C, taps));
    mba_tensor   *first = param(g, "first", MBA_TYPE(MBA_F32, B, taps - 1, C)), *state, *end, *end2;
    mba_tensor   *whole = mba_conv1d(g, .x = x, .w = w, .initial = first, .final = &end, .silu = true);
    mba_tensor   *xl = mba_slice(g, x, 1, 0, cut), *xr = mba_slice(g, x, 1, cut, L - cut);
    mba_tensor   *left = mba_conv1d(g, .x = xl, .w = w, .initial = first, .final = &state, .silu = true);
    mba_tensor   *right = mba_conv1d(g, .x = xr, .w = w, .initial = state, .final = &end2, .silu = true);
    rig           r = rig_create(g, 5, (mba_tensor *[]){ whole, left, right, end, end2 }, NULL);
    rig_run(&r);
    for (int64_t b = 0; b < B; b++)
        for (int64_t t = 0; t < L; t++)
            for (int64_t c = 0; c < C; c++) {
                const mba_tensor *piece = t < cut ? left : right;
                const int64_t     at = t < cut ? (b * cut + t) * C + c : (b * (L - cut) + t - cut) * C + c;
                /* not the same bits on every machine: a tail may be added up without FMA */
                assert_near(rig_have(&r, piece, at), rig_have(&r, whole, (b * L + t) * C + c), 1e-6);
                assert_near(rig_want(&r, piece, at), rig_want(&r, whole, (b * L + t) * C + c), 1e-14);
            }
    for (int64_t i = 0; i < mba_elems(end); i++) {
        assert_true(rig_have(&r, end, i) == rig_have(&r, end2, i));
        assert_true(rig_want(&r, end, i) == rig_want(&r, end2, i));
    }
    rig_destroy(&r);
}

static void conv1d_in_pieces_equals_the_whole(void **state)
{
    (void)state;
    pieces_equal_the_whole(11, 5, 4);
    pieces_equal_the_whole(11, 2, 4); // a call shorter than the state
    pieces_equal_the_whole(11, 10, 4);
    pieces_equal_the_whole(2, 1, 4); // the whole sequence is shorter than the state
    pieces_equal_the_whole(150, 131, 4);
    pieces_equal_the_whole(9, 4, 8);
    pieces_equal_the_whole(9, 4, 2);
}

/* Documents, some of them padding, compared with a loop over pairs of times, without tiles. */
enum { B = 2, L = 141, C = 3, TAPS = 4 };

static int32_t document(int64_t b, int64_t t)
{
    uint32_t u[4];
    mba_philox(u, 9, (uint64_t)b, (uint64_t)t / 5); // changes about every five steps, also inside a tile
    return (int32_t)(u[0] % 4) - 1;
}

static void conv1d_drops_taps_of_other_documents(void **state)
{
    (void)state;
    mba_graph    *g = graph();
    mba_tensor   *x = param(g, "x", MBA_TYPE(MBA_F32, B, L, C)), *w = param(g, "w", MBA_TYPE(MBA_F32, C, TAPS));
    mba_tensor   *first = param(g, "first", MBA_TYPE(MBA_F32, B, TAPS - 1, C));
    mba_tensor   *ids = mba_targets(g, "ids", MBA_TYPE(MBA_I32, B, L), 3);
    mba_tensor   *y = mba_conv1d(g, .x = x, .w = w, .ids = ids, .initial = first), *dy = mba_input(g, "dy", y->type);
    rig           r = rig_create(g, 1, &y, &dy);
    static double want[B * L * C], dx[B * L * C], dfirst[B * (TAPS - 1) * C], dw[C * TAPS];
    for (int64_t i = 0; i < B * L; i++) rig_set(&r, ids, i, document(i / L, i % L));
    rig_sines(&r, dy, 1, 0.3, 0.7);
    for (int64_t b = 0; b < B; b++)
        for (int64_t t = 0; t < L; t++)
            for (int64_t k = 0; k < TAPS; k++) {
                const int64_t s = t - (TAPS - 1) + k;
                if (document(b, t) < 0 || document(b, s < 0 ? 0 : s) != document(b, t)) continue;
                for (int64_t c = 0; c < C; c++) {
                    const int64_t to = (b * L + t) * C + c;
                    const int64_t from = (s < 0 ? b * (TAPS - 1) + s + TAPS - 1 : b * L + s) * C + c;
                    const double  in = rig_want(&r, s < 0 ? first : x, from), d = rig_want(&r, dy, to);
                    want[to] += in * rig_want(&r, w, c * TAPS + k);
                    *(s < 0 ? &dfirst[from] : &dx[from]) += d * rig_want(&r, w, c * TAPS + k);
                    dw[c * TAPS + k] += d * in;
                }
            }
    rig_run(&r);
    const struct {
        const mba_tensor *t;
        const double     *v;
    } all[] = { { y, want }, { rig_grad(&r, x), dx }, { rig_grad(&r, first), dfirst }, { rig_grad(&r, w), dw } };
    for (int k = 0; k < 4; k++)
        for (int64_t i = 0; i < mba_elems(all[k].t); i++) {
            assert_near(rig_want(&r, all[k].t, i), all[k].v[i], 1e-12);
            assert_near(rig_have(&r, all[k].t, i), all[k].v[i], 1e-5);
        }
    rig_destroy(&r);
}

/* Values of tools/golden/convolutions.py: MambaVision's convolution, with one of three taps ahead. */
static void conv1d_with_a_tap_ahead_has_the_values_of_pytorch(void **state)
{
    (void)state;
    mba_graph  *g = graph();
    mba_tensor *x = param(g, "x", MBA_TYPE(MBA_F32, 2, 5, 2)), *w = param(g, "w", MBA_TYPE(MBA_F32, 2, 1, 3));
    mba_tensor *y = mba_conv1d(g, .x = x, .w = w, .ahead = 1, .silu = true), *dy = mba_input(g, "dy", y->type);
    rig         r = rig_create(g, 1, &y, &dy);
    rig_sines(&r, x, 1, 0.7, 0.1);
    rig_sines(&r, w, 0.6, 0.9, 0.3);
    rig_sines(&r, dy, 1, 0.3, 0.7);
    rig_run(&r);
    assert_golden(&r, y, (double[]){ 0.3659891953, -0.2450613961, 0.4672684475,  -0.0041823496, -0.0752257677,
                                     0.5729370380, -0.2414190747, 0.1649656634,  -0.1808799311, -0.0604714872,
                                     0.5703277567, -0.2000959537, 0.1978371105,  0.3442974505,  -0.2144137204,
                                     0.4845877079, -0.2001806758, -0.1273969457, -0.0450882362, -0.1449976845 });
    assert_sums(&r, rig_grad(&r, x), 0.6581510957207, 1.563006597127);
    assert_sums(&r, rig_grad(&r, w), 1.369744817397, 5.215234507146);
    rig_destroy(&r);
}

/* A convolution with taps ahead equals a causal one over a sequence with `ahead` more steps of zeros, shifted by
 * `ahead` steps. */
static void ahead_equals_causal_later(int64_t length, int64_t taps, int64_t ahead)
{
    mba_graph  *g = graph();
    mba_tensor *x = param(g, "x", MBA_TYPE(MBA_F32, 1, length, C)), *w = param(g, "w", MBA_TYPE(MBA_F32, C, taps));
    mba_tensor *padded = param(g, "padded", MBA_TYPE(MBA_F32, 1, length + ahead, C));
    mba_tensor *y = mba_conv1d(g, .x = x, .w = w, .ahead = ahead, .silu = true);
    mba_tensor *late = mba_conv1d(g, .x = padded, .w = w, .silu = true);
    mba_tensor *out[] = { y, late }, *seed[] = { mba_input(g, "dy", y->type), mba_input(g, "dlate", late->type) };
    rig         r = rig_create(g, 2, out, seed);
    for (int64_t i = 0; i < (length + ahead) * C; i++) {
        rig_set(&r, padded, i, i < length * C ? rig_want(&r, x, i) : 0);
        rig_set(&r, seed[1], i, i < ahead * C ? 0 : sin(0.3 * (double)(i - ahead * C) + 0.7));
    }
    rig_sines(&r, seed[0], 1, 0.3, 0.7);
    rig_run(&r);
    for (int64_t i = 0; i < length * C; i++) {
        assert_near(rig_have(&r, y, i), rig_have(&r, late, i + ahead * C),
                    1e-6); // vectors start at other elements, so last bits may differ
        assert_near(rig_want(&r, y, i), rig_want(&r, late, i + ahead * C), 1e-14);
        assert_near(rig_have(&r, rig_grad(&r, x), i), rig_want(&r, rig_grad(&r, padded), i), 1e-5);
        assert_near(rig_want(&r, rig_grad(&r, x), i), rig_want(&r, rig_grad(&r, padded), i), 1e-13);
    }
    rig_destroy(&r);
}

static void conv1d_ahead_is_a_causal_one_later(void **state)
{
    (void)state;
    ahead_equals_causal_later(9, 3, 1);
    ahead_equals_causal_later(1, 3, 1);
    ahead_equals_causal_later(150, 3, 1);
    ahead_equals_causal_later(300, 3, 2);
    ahead_equals_causal_later(141, 4, 1);
    ahead_equals_causal_later(150, 16, 15);
    ahead_equals_causal_later(7, 12, 9);
}

static void conv1d_takes_many_channels_at_any_thread_count(void **state)
{
    (void)state;
    for (int taps = 2; taps <= 6; taps++) {
        mba_graph  *g = graph();
        mba_tensor *x = param(g, "x", MBA_TYPE(MBA_F32, 2, 270, 1043));
        mba_tensor *w = param(g, "w", MBA_TYPE(MBA_F32, 1043, 1, taps)), *b = param(g, "b", MBA_TYPE(MBA_F32, 1043));
        assert_large_case(g, mba_conv1d(g, .x = x, .w = w, .bias = b, .silu = true, .ahead = taps % 2));
    }
}

static void conv1d_refuses_what_does_not_fit(void **state)
{
    (void)state;
    mba_tensor *final;
    mba_graph  *g = graph();
    mba_tensor *x = mba_input(g, "x", MBA_TYPE(MBA_F32, 2, 3, 4));
    mba_conv1d(g, .x = x, .w = mba_input(g, "w", MBA_TYPE(MBA_F32, 4, 1)), .final = &final);
    assert_fails(mba_graph_status(g), MBA_E_SHAPE, "one tap leaves no state");
    mba_graph_destroy(g);
    g = graph();
    x = mba_input(g, "x", MBA_TYPE(MBA_F32, 2, 3, 4));
    mba_conv1d(g, .x = x, .w = mba_input(g, "w", MBA_TYPE(MBA_F32, 3, 3)));
    assert_fails(mba_graph_status(g), MBA_E_SHAPE, "4 channels, a weight of 9");
    mba_graph_destroy(g);
    for (int k = 0; k < 4; k++) { // too many taps ahead; taps ahead with states or documents
        g = graph();
        mba_conv1d_args a = { .x = mba_input(g, "x", MBA_TYPE(MBA_F32, 2, 3, 4)), .ahead = k ? 1 : 3 };
        a.w = mba_input(g, "w", MBA_TYPE(MBA_F32, 4, 3));
        if (k == 1) a.ids = mba_index(g, "ids", MBA_TYPE(MBA_I32, 2, 3), 2);
        if (k == 2) a.initial = mba_input(g, "initial", MBA_TYPE(MBA_F32, 2, 2, 4));
        if (k == 3) a.final = &final;
        mba_conv1d_(g, a);
        assert_fails(mba_graph_status(g), MBA_E_SHAPE, k ? "look ahead of a sequence" : "3 taps, 3 of them ahead");
        mba_graph_destroy(g);
    }
}

MBA_TEST_MAIN(cmocka_unit_test(conv1d_has_its_golden_values), cmocka_unit_test(conv1d_in_pieces_equals_the_whole),
              cmocka_unit_test(conv1d_drops_taps_of_other_documents),
              cmocka_unit_test(conv1d_with_a_tap_ahead_has_the_values_of_pytorch),
              cmocka_unit_test(conv1d_ahead_is_a_causal_one_later),
              cmocka_unit_test(conv1d_takes_many_channels_at_any_thread_count),
              cmocka_unit_test(conv1d_refuses_what_does_not_fit))
