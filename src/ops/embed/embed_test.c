// SPDX-License-Identifier: Apache-2.0
/* embed_test.c -- hand-worked values, refusals, cost, plans, same bits; tests/operators_test.c checks the `cases`. */
#include "tests/threads.h"

#include "core/check.h"
#include "core/plan_work.h"
#include "tests/gpu_cases.h"
#include "tests/machines.h"

#include "ops/embed/embed.h"
#include "ops/embed/embed_slots.h"

static void embed_of_hand_worked_values(void **state)
{
    (void)state;
    const double   token[3] = { 2, 0, 2 }, table[6] = { 1, 2, 3, 4, 5, 6 }, dy[6] = { 1, 10, 2, 20, 4, 40 };
    const double   want[6] = { 5, 6, 1, 2, 5, 6 }, dwant[6] = { 2, 20, 0, 0, 5, 50 };
    double         y[6], dtable[6] = { 0 };
    mba_tensor     t = { .type = MBA_TYPE(MBA_I32, 3), .run = 3, .pitch = 3 };
    mba_tensor     m = { .type = MBA_TYPE(MBA_F32, 3, 2), .run = 6, .pitch = 6 };
    embed_bwd_attr a = { .padding = -1 };
    mba_node       f = { .in = { &t, &m }, .out = { &m } }, b = { .in = { &t, &m }, .out = { &m }, .attr = &a };
    embed_ref(&(mba_ref_call){ .node = &f, .in = { token, table }, .out = { y } });
    embed_bwd_ref(&(mba_ref_call){ .node = &b, .in = { token, dy }, .out = { dtable } });
    for (int i = 0; i < 6; i++) assert_near(y[i], want[i], 0);
    for (int i = 0; i < 6; i++) assert_near(dtable[i], dwant[i], 0);
}

static mba_graph *graph_of(int64_t R, int64_t V, int64_t M, bool accumulate)
{
    mba_graph *g;
    assert_ok(mba_graph_create(&g));
    g->accumulate = accumulate;
    mba_tensor *e = mba_param(g, "table", MBA_TYPE(MBA_F32, V, M), MBA_INIT_NORMAL(1), MBA_DECAY);
    mba_tensor *y = mba_embed(g, mba_index(g, "tokens", MBA_TYPE(MBA_I32, R), V), e, MBA_F32);
    assert_ok(mba_backward_from(g, 1, &y, (mba_tensor *[]){ mba_input(g, "dy", y->type) }));
    return g;
}

static void embed_gives_the_same_bits_at_any_thread_count(void **state)
{
    (void)state;
    mba_graph *g = graph_of(1000, 21, 500, false); // every row of the table's gradient is a sum of many rows
    assert_same_bits(g, &(mba_step){ 0 });
    mba_graph_destroy(g);
}

/* With several micro-batches the gradient grows by the same amount each time, and unused rows do not change. */
static void embed_backward_adds_into_what_is_there(void **state)
{
    (void)state;
    enum { R = 5, V = 9, M = 400 };
    mba_graph   *g = graph_of(R, V, M, true);
    mba_program *p = run_once(g, &(mba_step){ 0 }, 2);
    const float *d = p->memory[MBA_GRAD];
    float        once[V * M];
    double       sum = 0;
    memcpy(once, d, sizeof once);
    assert_ok(mba_program_run(p, MBA_FORWARD | MBA_BACKWARD, &(mba_step){ .micro = 1 }, NULL));
    for (int i = 0; i < V * M; i++) {
        assert_near(d[i], 2 * once[i], 1e-6);
        sum += fabs(once[i]);
    }
    assert_true(sum > 0);
    mba_program_destroy(p);
    mba_graph_destroy(g);
}

/* Rows of the padding token are left out; all other rows keep their bits. */
static void embed_backward_leaves_padding_out(void **state)
{
    (void)state;
    enum { R = 40, V = 3, M = 5 };
    float d[2][V * M];
    for (int k = 0; k < 2; k++) {
        mba_graph *g;
        assert_ok(mba_graph_create(&g));
        mba_tensor *e = mba_param(g, "table", MBA_TYPE(MBA_F32, V, M), MBA_INIT_NORMAL(1), MBA_DECAY);
        mba_tensor *y = mba_embed_padded(g, mba_index(g, "tokens", MBA_TYPE(MBA_I32, R), V), e, MBA_F32, k ? 1 : -1);
        assert_ok(mba_backward_from(g, 1, &y, (mba_tensor *[]){ mba_input(g, "dy", y->type) }));
        mba_program *p = run_once(g, &(mba_step){ 0 }, 2);
        memcpy(d[k], p->memory[MBA_GRAD], sizeof d[k]);
        mba_program_destroy(p);
        mba_graph_destroy(g);
    }
    for (int i = 0; i < V * M; i++) assert_true(i / M == 1 ? d[0][i] != 0 && d[1][i] == 0 : d[1][i] == d[0][i]);
}

static void embed_backward_leaves_padding_out_on_the_gpu(void **state)
{
    static const mba_case cases[] = { { { 70, 3, 12, 0, 2 }, "runs of a padding token longer than a chunk" },
                                      { { 40, 600, 5, 0, 8 }, "ranges of the vocabulary" },
                                      { { 0 }, NULL } };
    (void)state;
    assert_right_on_the_gpu(&mba_op_embed, cases);
}

/* Many blocks that write zeros after those that sum; the `cases` have few. */
static void embed_backward_zeroes_large_tables_on_the_gpu(void **state)
{
    static const mba_case cases[] = { { { 300, 20001, 256 }, "most rows are met by no token" },
                                      { { 20000, 20001, 1028 }, "two blocks of columns" },
                                      { { 0 }, NULL } };
    (void)state;
    assert_right_on_the_gpu(&mba_op_embed, cases);
}

/* If the gradient is stored, sums and zeros cover the whole table; if it is added to, no block writes zeros. */
static void embed_backward_plans_write_the_table_once(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof machines / sizeof *machines; i++)
        for (int adds = 0; adds < 2; adds++) {
            const double V = 50288, M = 768;
            mba_graph   *g = graph_of(16384, (int64_t)V, (int64_t)M, adds);
            mba_program *p;
            assert_ok(mba_program_create(&p, g, &(mba_program_options){ .cuda = true, .machine = &machines[i] }));
            const mba_launch *l = &p->plan[g->nnodes - 1]->launch[1];
            mba_work_sums     sums;
            mba_launch_sums(&sums, l);
            if (adds) assert_true(sums.operand[MBA_ARG_OUT(DTABLE)][1] < 4 * 16384 * M);
            else assert_near(sums.operand[MBA_ARG_OUT(DTABLE)][1], 4 * V * M, 16);
            assert_int_equal(l->grid[0], 16384 / EMBED_CHUNK + (adds ? 0 : 50288 / EMBED_CLEAR));
            mba_program_destroy(p);
            mba_graph_destroy(g);
        }
}

static void embed_cost_counts_the_rows_it_touches(void **state)
{
    (void)state;
    mba_graph     *one = graph_of(10, 1000, 8, false), *many = graph_of(10, 1000, 8, true);
    const mba_cost f = mba_op_embed.cost(one->nodes[0]);
    assert_near(f.read_bytes, 10 * 4 + 10 * 8 * 4, 0);
    assert_near(f.write_bytes, 10 * 8 * 4, 0);
    const mba_cost stores = mba_op_embed_bwd.cost(one->nodes[one->nnodes - 1]),
                   adds = mba_op_embed_bwd.cost(many->nodes[many->nnodes - 1]);
    assert_near(stores.write_bytes, 1000 * 8 * 4, 0); // zeros are written too
    assert_near(adds.write_bytes, 10 * 8 * 4, 0);
    assert_near(adds.read_bytes, 10 * 4 + 2 * 10 * 8 * 4, 0);
    mba_graph_destroy(one);
    mba_graph_destroy(many);
}

static void embed_refuses_values_without_a_row(void **state)
{
    (void)state;
    for (int k = 0; k < 2; k++) {
        mba_graph *g;
        assert_ok(mba_graph_create(&g));
        mba_tensor *e = mba_param(g, "table", MBA_TYPE(MBA_F32, 4, 2), MBA_INIT_NORMAL(1), MBA_DECAY);
        mba_embed(g, k ? mba_targets(g, "t", MBA_TYPE(MBA_I32, 3), 4) : mba_index(g, "t", MBA_TYPE(MBA_I32, 3), 5), e,
                  MBA_F32);
        assert_fails(mba_graph_status(g), MBA_E_SHAPE, k ? "negative" : "has 4 rows");
        mba_graph_destroy(g);
    }
}

MBA_TEST_MAIN(cmocka_unit_test(embed_of_hand_worked_values),
              cmocka_unit_test(embed_gives_the_same_bits_at_any_thread_count),
              cmocka_unit_test(embed_backward_adds_into_what_is_there),
              cmocka_unit_test(embed_backward_leaves_padding_out),
              cmocka_unit_test(embed_backward_leaves_padding_out_on_the_gpu),
              cmocka_unit_test(embed_backward_zeroes_large_tables_on_the_gpu),
              cmocka_unit_test(embed_backward_plans_write_the_table_once),
              cmocka_unit_test(embed_cost_counts_the_rows_it_touches),
              cmocka_unit_test(embed_refuses_values_without_a_row))
