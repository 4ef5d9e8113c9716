// SPDX-License-Identifier: Apache-2.0
/* gather_rows_test.c -- a permutation and its inverse, counts, refusals; tests/operators_test.c checks the `cases`. */
#include "tests/rig.h"

#include "ops/gather_rows/gather_rows.h"

enum { R = 70, REAL = 61, C = 19 };

/* Valid rows are permuted and restored; the others stay in place, although the index vectors are invalid there. */
static void gather_rows_goes_there_and_back_for_real_rows_only(void **state)
{
    (void)state;
    mba_graph *g = graph();
    mba_type   nodes = MBA_TYPE(MBA_F32, R, C);
    nodes.count = MBA_NODES;
    mba_tensor *x = mba_param(g, "x", nodes, MBA_INIT_NORMAL(1), MBA_DECAY);
    mba_tensor *p = mba_index(g, "p", MBA_TYPE(MBA_I32, R), R), *q = mba_index(g, "q", MBA_TYPE(MBA_I32, R), R);
    mba_tensor *y = mba_gather_rows(g, x, p, q), *z = mba_gather_rows(g, y, q, p);
    assert_int_equal(y->type.count, MBA_NODES);
    mba_tensor *out[] = { y, z }, *seed[] = { mba_input(g, "dy", y->type), mba_input(g, "dz", z->type) };
    rig         r = rig_create(g, 2, out, seed);
    r.step.count[MBA_NODES] = REAL;
    for (int i = 0; i < R; i++) {
        rig_set(&r, p, i, i < REAL ? (i * 8 + 5) % REAL : 3);
        rig_set(&r, q, i < REAL ? (i * 8 + 5) % REAL : i, i < REAL ? i : 0);
    }
    rig_sines(&r, seed[0], 1, 0.3, 0.2);
    rig_sines(&r, seed[1], 1, 0.7, 0.1);
    rig_run(&r);
    for (int i = 0; i < R; i++)
        for (int c = 0; c < C; c++) {
            const int from = i < REAL ? (i * 8 + 5) % REAL : i;
            assert_near(rig_have(&r, y, i * C + c), rig_have(&r, x, from * C + c), 0);
            assert_near(rig_have(&r, z, i * C + c), rig_have(&r, x, i * C + c), 0);
            assert_near(rig_have(&r, rig_grad(&r, x), from * C + c),
                        rig_have(&r, seed[0], i * C + c) + rig_have(&r, seed[1], from * C + c), 1e-6);
        }
    assert_close(&r);
    assert_same_bits(&r);
    rig_destroy(&r);
}

static void gather_rows_refuses_an_index_of_another_length(void **state)
{
    (void)state;
    mba_graph  *g = graph();
    mba_tensor *x = mba_input(g, "x", MBA_TYPE(MBA_F32, 4, 2)), *i = mba_index(g, "i", MBA_TYPE(MBA_I32, 4), 4);
    mba_gather_rows(g, x, i, mba_index(g, "short", MBA_TYPE(MBA_I32, 3), 4));
    assert_fails(mba_graph_status(g), MBA_E_SHAPE, "short has 3 values");
    mba_graph_destroy(g);
}

MBA_TEST_MAIN(cmocka_unit_test(gather_rows_goes_there_and_back_for_real_rows_only),
              cmocka_unit_test(gather_rows_refuses_an_index_of_another_length))
