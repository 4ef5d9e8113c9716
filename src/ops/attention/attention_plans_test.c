// SPDX-License-Identifier: Apache-2.0
/* attention_plans_test.c -- work in the plans of the CUDA variants, and the order in which blocks take heads. Needs no
 * GPU. */
#include "tests/test.h"

#include "core/check.h"
#include "core/plan_work.h"
#include "ops/attention/attention.h"
#include "ops/attention/attention_slots.h"
#include "tests/machines.h"

/* ---- plans: the products that warps issue, counted with the loops of the kernels (attention_*cuda.cu) ---- */

/* A kernel as compiled: rows per block and per warp (or warpgroup), columns per tile and per step. */
typedef struct loops {
    int  rows, together, tile, step, products;
    bool keys;
} loops;

static bool sees_nothing(const mba_case *c, const loops *k, int row, int column)
{
    const int  columns = (int)(k->keys || !c->dim[6] ? c->dim[1] : c->dim[6]);
    const bool causal = c->dim[5] & CAUSAL;
    return column >= columns || (causal && (k->keys ? row > column + k->step - 1 : column > row + k->together - 1));
}

/* Scores that a head computes, summed over its blocks. */
static double scores_of_head(const mba_case *c, const loops *k)
{
    const int L = (int)c->dim[1], Lk = c->dim[6] ? (int)c->dim[6] : L, rows = k->keys ? Lk : L,
              columns = k->keys ? L : Lk;
    double sum = 0;
    for (int first = 0; first < rows; first += k->rows)
        for (int row = first; row < first + k->rows; row += k->together)
            for (int tile = 0; tile < columns; tile += k->tile)
                for (int at = tile; at < tile + k->tile; at += k->step)
                    if (row < rows && !sees_nothing(c, k, row, at)) sum += k->together * k->step;
    return sum;
}

static double flops_of(const mba_case *c, const loops *k, int PP)
{
    return (double)(c->dim[0] * c->dim[2]) * 2 * k->products * scores_of_head(c, k)
           * PP; // key blocks take the heads of a group in turn
}

static double expected_flops(const mba_case *c, const mba_plan *p, int launch)
{
    const int P = (int)c->dim[4],
              PP = P <= 32   ? 32
                   : P <= 48 ? 48
                   : P <= 64 ? 64
                   : P <= 96 ? 96
                             : 128,
              L = (int)c->dim[1];
    const bool keys = launch == 1, back = !strncmp(p->launch[0].kernel, "attention_bwd", 13);
    const int  products = !back ? 2 : keys ? 4 : 3;
    if (!strcmp(p->variant, "wgmma"))
        return flops_of(c, &(loops){ keys && P == 64 ? 192 : 128, 64, 64, 64, products, keys }, PP);
    if (!strcmp(p->variant, "one_tile"))
        return flops_of(c, &(loops){ 32, 32, 16, 16, 3, false }, PP)
               + flops_of(c, &(loops){ 32, 32, 16, 16, 4, true }, PP);
    if (!back)
        return flops_of(c, &(loops){ L < 128 ? (L + 31) / 32 * 32 : 128, 32, 64, PP <= 96 ? 32 : 16, 2, false }, PP);
    return flops_of(c,
                    &(loops){ PP <= 64 ? 128 : 64, PP <= 64 ? 32 : 16, 64, keys && PP == 64 ? 16 : 32, products, keys },
                    PP);
}

static void plans_count_the_products_that_warps_issue(void **state)
{
    (void)state;
    static const mba_case cases[] = { { { 3, 196, 8, 8, 40, PACKED }, "windows of 14 x 14" },
                                      { { 3, 49, 4, 4, 40, PACKED }, "windows of 7 x 7" },
                                      { { 2, 1, 1, 1, 8, CAUSAL }, "one row" },
                                      { { 1, 97, 2, 2, 64, CAUSAL }, "a row beyond a warp" },
                                      { { 1, 513, 4, 2, 64, CAUSAL }, "a row beyond a block" },
                                      { { 2, 333, 4, 1, 128, CAUSAL }, "128, groups" },
                                      { { 1, 300, 2, 2, 96, 0, 77 }, "fewer keys" },
                                      { { 1, 130, 2, 2, 64, 0, 333 }, "more keys" },
                                      { { 1, 2047, 2, 1, 64, CAUSAL }, "long" },
                                      { { 2, 255, 3, 3, 32, CAUSAL }, "short, causal" } };
    int                   launches = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mba_case_graph o;
        assert_ok(mba_case_build(&o, &mba_op_attention, &cases[i], (mba_case_how){ .compute = MBA_BF16 }));
        for (int32_t k = 0; k < o.g->nnodes; k++) {
            const mba_node *n = o.g->nodes[k];
            if (n->op != &mba_op_attention && n->op != &mba_op_attention_bwd) continue;
            for (const mba_variant *v = n->op->cuda; v->name; v++) {
                mba_plan p;
                if (!strcmp(v->name, "plain") || !strcmp(v->name, "cudnn")
                    || mba_plan_variant(&p, NULL, o.g->arena, n, v, &machines[1]) != MBA_OK)
                    continue;
                for (int l = 0; l < p.nlaunches; l++, launches++)
                    assert_near(mba_launch_work(&p.launch[l], MBA_MMA) / expected_flops(&cases[i], &p, l), 1, 1e-12);
            }
        }
        mba_graph_destroy(o.g);
    }
    assert_int_equal(launches, 47);
}

/* Asserts that every tile of every head belongs to exactly one block, that heads of a turn come before those of the
 * next, and that the tiles of a turn are in order. */
static void assert_places_are_a_whole(int tiles, int heads, int together)
{
    unsigned char *visits = calloc((size_t)(tiles * heads), 1);
    int            turn = 0, tile = 0;
    assert_non_null(visits);
    for (int i = 0; i < tiles * heads; i++) {
        const attention_place at = attention_place_of(i, tiles, heads, together);
        assert_in_range(at.tile, 0, tiles - 1);
        assert_in_range(at.head, 0, heads - 1);
        assert_int_equal(visits[at.tile * heads + at.head]++, 0);
        assert_true(at.head / together > turn || (at.head / together == turn && at.tile >= tile));
        turn = at.head / together;
        tile = at.tile;
    }
    free(visits);
}

static void blocks_take_heads_in_turns_that_fit_l2(void **state)
{
    (void)state;
    for (int tiles = 1; tiles <= 7; tiles += 3)
        for (int heads = 1; heads <= 13; heads++)
            for (int together = 1; together <= heads; together++) assert_places_are_a_whole(tiles, heads, together);
    const attention_dims hybrid = { .B = 4, .L = 4096, .Lk = 4096, .H = 16, .Hk = 8, .P = 64, .group = 2 },
                         small = { .B = 2, .L = 128, .Lk = 128, .H = 4, .Hk = 4, .P = 64, .group = 1 },
                         odd = { .B = 3, .L = 9000, .Lk = 9000, .H = 9, .Hk = 3, .P = 128, .group = 3 };
    assert_int_equal(attention_together(&hybrid, 2, false), 16); // 8 of 34 MB of keys and values fit
    assert_int_equal(attention_together(&hybrid, 2, true), 11);  // 23 of 67 MB of queries and gradients fit
    assert_int_equal(attention_together(&small, 2, false), 8);   // all heads at once
    assert_int_equal(attention_together(&odd, 2, false) % 3, 0); // heads of a group share keys
}

/* ---- the library ---- */

/* Counts the nodes of a case that `cudnn` takes; *p is the plan of the last one. */
static int library_takes(const mba_case *c, const mba_op *op, mba_plan *p)
{
    mba_case_graph     o;
    int                taken = 0;
    const mba_variant *v = op->cuda;
    assert_ok(mba_case_build(&o, &mba_op_attention, c, (mba_case_how){ .compute = MBA_BF16 }));
    while (strcmp(v->name, "cudnn")) v++;
    for (int32_t k = 0; k < o.g->nnodes; k++)
        if (o.g->nodes[k]->op == op)
            taken += mba_plan_variant(p, NULL, o.g->arena, o.g->nodes[k], v, &machines[1]) == MBA_OK;
    mba_graph_destroy(o.g);
    return taken;
}

static void the_library_takes_what_it_can_and_says_the_room_it_wants(void **state)
{
    (void)state;
    const mba_case plain = { { 2, 300, 4, 2, 64, CAUSAL | PACKED }, "groups" },
                   documents = { { 1, 300, 4, 2, 64, CAUSAL | WITH_IDS }, "documents" },
                   odd = { { 1, 300, 2, 2, 60, CAUSAL }, "60 values" },
                   twice = { { 1, 300, 2, 2, 64, PACKED | TWICE }, "added" };
    mba_plan p;
    assert_int_equal(library_takes(&plain, &mba_op_attention, &p), 1);
    assert_int_equal(library_takes(&plain, &mba_op_attention_bwd, &p), 1);
    assert_int_equal(p.nscratch, 2);
    assert_int_equal(p.scratch[ATT_DNN_SUMS].bytes, 4 * 2 * 4 * 300);
    assert_true(p.scratch[ATT_DNN_WORK].bytes
                >= 2u * 2 * 4 * 300 * 300 + 2u * 2 * 2 * 4 * 300 * 64); // scores; dk and dv of all query heads
    assert_int_equal(library_takes(&documents, &mba_op_attention, &p), 0);
    assert_non_null(strstr(mba_message(), "documents"));
    assert_int_equal(library_takes(&odd, &mba_op_attention, &p), 0);
    assert_int_equal(library_takes(&twice, &mba_op_attention, &p), 2);
    assert_int_equal(library_takes(&twice, &mba_op_attention_bwd, &p), 1); // the second gradient is added to the first
    assert_non_null(strstr(mba_message(), "added to"));
}

static void the_library_refuses_scores_that_fill_the_memory(void **state)
{
    (void)state;
    const mba_case most = { { 1, 16384, 4, 4, 64, CAUSAL }, "2.1 GB of scores" },
                   more = { { 1, 16384, 8, 8, 64, CAUSAL }, "4.3 GB" };
    mba_plan p;
    assert_int_equal(library_takes(&most, &mba_op_attention_bwd, &p), 1);
    assert_int_equal(library_takes(&more, &mba_op_attention, &p), 1);
    assert_int_equal(library_takes(&more, &mba_op_attention_bwd, &p), 0);
    assert_non_null(strstr(mba_message(), "4.3 GB; at most 4"));
}

MBA_TEST_MAIN(cmocka_unit_test(the_library_takes_what_it_can_and_says_the_room_it_wants),
              cmocka_unit_test(the_library_refuses_scores_that_fill_the_memory),
              cmocka_unit_test(plans_count_the_products_that_warps_issue),
              cmocka_unit_test(blocks_take_heads_in_turns_that_fit_l2))
