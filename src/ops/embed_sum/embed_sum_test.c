// SPDX-License-Identifier: Apache-2.0
/* embed_sum_test.c -- compared with F times embed and add, counts, same bits, refusals, the busiest warp of the
 * gradient's plan. */
#include "tests/rig.h"

#include "ops/add/add.h"
#include "ops/embed/embed.h"
#include "ops/embed_sum/embed_sum.h"

enum { R = 300, REAL = 257, F = 3, M = 21, V = 13 };
static const int first[F + 1] = { 0, 5, 11, V };

static void embed_sum_is_a_sum_of_embeddings(void **state)
{
    (void)state;
    mba_graph *g = graph();
    mba_type   nodes = MBA_TYPE(MBA_I32, R, F);
    nodes.count = MBA_NODES;
    mba_tensor *table = mba_param(g, "table", MBA_TYPE(MBA_F32, V, M), MBA_INIT_NORMAL(1), MBA_DECAY);
    mba_tensor *other = mba_param(g, "other", MBA_TYPE(MBA_F32, V, M), MBA_INIT_NORMAL(1), MBA_DECAY);
    mba_tensor *index = mba_index(g, "index", nodes, V), *z = NULL;
    mba_tensor *y = mba_embed_sum(g, index, table);
    assert_int_equal(y->type.count, MBA_NODES);
    for (int f = 0; f < F; f++) {
        mba_tensor *one = mba_embed(g, mba_slice(g, index, 1, f, 1), other, MBA_F32);
        z = z ? mba_add(g, z, one) : one;
    }
    mba_tensor *out[] = { y, z }, *seed[] = { mba_input(g, "dy", y->type), mba_input(g, "dz", z->type) };
    rig         r = rig_create(g, 2, out, seed);
    r.step.count[MBA_NODES] = REAL;
    for (int i = 0; i < V * M; i++) rig_set(&r, other, i, rig_have(&r, table, i));
    for (int i = 0; i < R * F; i++) rig_set(&r, index, i, first[i % F] + i * i % (first[i % F + 1] - first[i % F]));
    for (int i = 0; i < R * M; i++) {
        rig_set(&r, seed[0], i, i < REAL * M ? sin(0.3 * i) : NAN);
        rig_set(&r, seed[1], i, i < REAL * M ? sin(0.3 * i) : 0);
    }
    rig_run(&r);
    for (int i = 0; i < R * M; i++) assert_near(rig_want(&r, y, i), i < REAL * M ? rig_want(&r, z, i) : 0, 1e-12);
    for (int i = 0; i < V * M; i++)
        assert_near(rig_want(&r, rig_grad(&r, table), i), rig_want(&r, rig_grad(&r, other), i), 1e-10);
    assert_close(&r);
    assert_same_bits(&r);
    rig_destroy(&r);
}

static void embed_sum_refuses_values_without_a_row(void **state)
{
    (void)state;
    mba_graph  *g = graph();
    mba_tensor *t = mba_param(g, "table", MBA_TYPE(MBA_F32, 4, 2), MBA_INIT_NORMAL(1), MBA_DECAY);
    mba_embed_sum(g, mba_index(g, "i", MBA_TYPE(MBA_I32, 3, 2), 5), t);
    assert_fails(mba_graph_status(g), MBA_E_SHAPE, "has 4 rows");
    mba_graph_destroy(g);
}

/* A table of one row belongs to one warp. Three columns fall into different warps with probability 8 * 7 * 6 / 8^3; the
 * busiest warp has 1.359 of them on average. The nine of Peptides: 2.81. */
static void embed_sum_bwd_waits_for_one_warp(void **state)
{
    (void)state;
    static const struct {
        int64_t columns, rows;
        double  most;
    } of[] = { { 1, 1, 1 }, { 3, 13, 1.359375 }, { 9, 174, 2.8061 }, { 5, 1, 5 } };
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        mba_graph      *g = graph();
        mba_tensor     *t = mba_param(g, "table", MBA_TYPE(MBA_F32, of[i].rows, 8), MBA_INIT_NORMAL(1), MBA_DECAY);
        mba_tensor     *y = mba_embed_sum(g, mba_index(g, "i", MBA_TYPE(MBA_I32, 64, of[i].columns), of[i].rows), t);
        mba_tensor     *out[] = { y }, *seed[] = { mba_input(g, "dy", y->type) };
        rig             r = rig_create(g, 1, out, seed);
        mba_plan        p = { .arena = g->arena };
        const mba_node *n = NULL;
        for (int32_t k = 0; k < g->nnodes; k++)
            if (g->nodes[k]->op == &mba_op_embed_sum_bwd) n = g->nodes[k];
        assert_ok(mba_op_embed_sum_bwd.cuda[0].plan(&p, n, &(mba_machine){ .cc = 90, .sm = 132 }));
        const double others = 11 + 38.0 / (double)of[i].columns, share = of[i].most / (double)of[i].columns;
        assert_near(p.launch[0].busiest, (others + 31 * 8 * share) / (others + 31), 1e-3);
        rig_destroy(&r);
    }
}

MBA_TEST_MAIN(cmocka_unit_test(embed_sum_bwd_waits_for_one_warp), cmocka_unit_test(embed_sum_is_a_sum_of_embeddings),
              cmocka_unit_test(embed_sum_refuses_values_without_a_row))
