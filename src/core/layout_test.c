// SPDX-License-Identifier: Apache-2.0
/* layout_test.c -- memory plans (memory_plan.c) and the order of graphs: an output lies in an input that dies, blocks
 * that live together do not overlap, and the plan needs no more memory than one worked out by hand. */
#include "ops/add/add.h"
#include "ops/matmul/matmul.h"
#include "ops/relu2/relu2.h"
#include "tests/rig.h"

enum { R = 4, C = 64, BYTES = 4 * R * C };

static mba_program *planned(const mba_graph *g)
{
    static const mba_machine host = { .name = "host" };
    mba_program             *p;
    assert_ok(mba_program_create(&p, g, &(mba_program_options){ .machine = &host }));
    return p;
}

static bool in_place(const mba_program *p, const mba_tensor *from, const mba_tensor *to)
{
    const mba_memory_plan *lay = &p->layout;
    assert_int_equal(lay->arena[from->st->id], lay->arena[to->st->id]);
    return lay->offset[from->st->id] == lay->offset[to->st->id];
}

/* b takes the memory of a. c cannot take that of b, which its node reads twice; d takes that of c. */
static void an_output_takes_the_place_of_an_input_that_dies(void **state)
{
    (void)state;
    mba_graph   *g = graph();
    mba_tensor  *x = mba_input(g, "x", MBA_TYPE(MBA_F32, R, C));
    mba_tensor  *a = mba_relu2(g, x), *b = mba_relu2(g, a), *e = mba_relu2(g, x);
    mba_tensor  *c = mba_add(g, b, b), *d = mba_add(g, c, e);
    mba_tensor  *y = mba_result(g, "y", mba_relu2(g, d));
    mba_program *p = planned(g);
    assert_true(in_place(p, a, b));
    assert_false(in_place(p, b, c));
    assert_true(in_place(p, c, d));
    assert_false(in_place(p, c, e) || in_place(p, b, e));
    const mba_memory_plan *lay = &p->layout;
    assert_int_equal(lay->first[a->st->id], 0);
    assert_int_equal(lay->last[a->st->id], 1);
    assert_int_equal(lay->first[c->st->id], 3);
    assert_int_equal(lay->last[d->st->id], 5);
    assert_int_equal(lay->live_bytes_max, 3 * BYTES); // b, c and e at the node of c
    assert_int_equal(lay->peak, 3);
    assert_int_equal(lay->arena_bytes[MBA_ACT], 3 * BYTES);
    assert_int_equal(lay->role_bytes[MBA_ACT], 5 * BYTES);
    assert_ok(mba_program_bind(p, &mba_device_cpu));
    for (int i = 0; i < R * C; i++) ((float *)mba_program_host(p, x))[i] = (float)(i % 3);
    assert_ok(mba_program_run(p, MBA_FORWARD, &(mba_step){ 0 }, NULL));
    for (int i = 0; i < R * C; i++) { // (2 x^4 + x^2)^2
        static const float want[] = { 0, 9, 36 * 36 };
        assert_true(((const float *)mba_program_host(p, y))[i] == want[i % 3]);
    }
    mba_program_destroy(p);
    mba_graph_destroy(g);
}

/* c is read later; s is only a part of its storage. */
static void what_lives_on_or_is_a_part_keeps_its_place(void **state)
{
    (void)state;
    mba_graph  *g = graph();
    mba_tensor *x = mba_input(g, "x", MBA_TYPE(MBA_F32, R, C));
    mba_tensor *c = mba_relu2(g, x), *d = mba_relu2(g, c), *e = mba_add(g, d, c);
    mba_tensor *s = mba_slice(g, e, 0, 0, R / 2), *t = mba_relu2(g, s);
    mba_result(g, "y", mba_relu2(g, t));
    mba_program *p = planned(g);
    assert_false(in_place(p, c, d));
    assert_true(in_place(p, d, e));
    assert_false(in_place(p, e, t));
    assert_int_equal(p->layout.live_bytes_max, 2 * BYTES);
    assert_int_equal(p->layout.peak, 1);
    mba_program_destroy(p);
    mba_graph_destroy(g);
}

/* An external buffer with rows of 3 in rows of 8, 5 after the start, and the same tensor made dense. */
static void a_strided_input_can_be_made_dense(void **state)
{
    (void)state;
    mba_graph  *g = graph();
    mba_tensor *t = mba_input_external(g, "x", MBA_TYPE(MBA_F32, 4, 3), 5, 3, 8, false);
    assert_true(t->offset == 5 && t->run == 3 && t->pitch == 8 && t->st->elems == 5 + 3 * 8 + 3);
    assert_false(mba_dense(t));
    mba_make_dense(t);
    assert_true(t->offset == 0 && t->run == 12 && t->pitch == 12 && mba_dense(t));
    mba_graph_destroy(g);
}

/* Two backward nodes read t: one by its first slot, one by its last. They are moved behind b, which recomputes t. The
 * forward reader stays, and so does a backward node that does not read t. */
static void readers_of_what_is_made_again_wait_for_it(void **state)
{
    (void)state;
    mba_graph  *g = graph();
    mba_tensor *x = mba_input(g, "x", MBA_TYPE(MBA_F32, R, C)), *t = mba_relu2(g, x), *y = mba_relu2(g, t);
    assert_false(mba_grad_can_defer(g, t)); // t has no backward reader
    mba_relu2(g, t);
    mba_relu2(g, y);
    mba_relu2(g, t);
    mba_tensor *again = mba_relu2(g, x);
    mba_node   *before[6], *last;
    assert_int_equal(g->nnodes, 6);
    memcpy(before, g->nodes, sizeof before);
    for (int i = 2; i < 6; i++) before[i]->pass = MBA_BACKWARD;
    last = before[4];
    last->in[MBA_IN_MAX - 1] = t;
    last->in[0] = x;
    assert_true(mba_grad_can_defer(g, t));
    assert_false(mba_grad_can_defer(g, x)); // an input is there anyway
    g->status = MBA_E_ARG;
    mba_grad_defer(g, t, again);
    assert_memory_equal(g->nodes, before, sizeof before); // a failed graph stays as it is
    g->status = MBA_OK;
    mba_grad_defer(g, t, again);
    static const int order[] = { 0, 1, 3, 5, 2, 4 };
    for (int i = 0; i < 6; i++) assert_true(g->nodes[i] == before[order[i]] && g->nodes[i]->id == i);
    assert_true(before[1]->in[0] == t && before[2]->in[0] == again && before[3]->in[0] == y && before[5]->in[0] == x);
    assert_true(last->in[0] == x && last->in[MBA_IN_MAX - 1] == again);
    mba_graph_destroy(g);
}

/* A reader cannot be deferred if a later node reads its output, or if it also reads another view of t. */
static void readers_that_are_needed_do_not_wait(void **state)
{
    (void)state;
    mba_graph  *g = graph();
    mba_tensor *x = mba_input(g, "x", MBA_TYPE(MBA_F32, R, C)), *t = mba_relu2(g, x), *dx = mba_relu2(g, t);
    mba_tensor *part = mba_slice(g, t, 0, 0, R / 2);
    g->nodes[1]->pass = MBA_BACKWARD;
    assert_true(mba_grad_can_defer(g, t));
    g->nodes[1]->in[MBA_IN_MAX - 1] = part;
    assert_false(mba_grad_can_defer(g, t));
    g->nodes[1]->in[MBA_IN_MAX - 1] = t;
    g->nodes[1]->in[0] = part;
    assert_false(mba_grad_can_defer(g, t));
    g->nodes[1]->in[MBA_IN_MAX - 1] = NULL;
    g->nodes[1]->in[0] = t;
    mba_tensor *again = mba_relu2(g, x);
    g->nodes[2]->pass = MBA_BACKWARD;
    assert_true(mba_grad_can_defer(g, t));
    for (int writes = 0; writes < 2; writes++) { // by its last slot too
        mba_tensor **slot = writes ? &g->nodes[2]->out[MBA_OUT_MAX - 1] : &g->nodes[2]->in[MBA_IN_MAX - 1];
        *slot = dx;
        assert_false(mba_grad_can_defer(g, t));
        *slot = NULL;
    }
    g->nodes[2]->in[0] = dx;
    assert_false(mba_grad_can_defer(g, t));
    mba_grad_defer(g, t, again);
    assert_true(g->nodes[1]->in[0] == t && g->nodes[1]->id == 1);
    mba_graph_destroy(g);
}

/* Views and joins at the bounds of a tensor, and just behind them; the graph says why and goes on to say it. */
static void views_are_made_up_to_the_bounds_of_a_tensor(void **state)
{
    (void)state;
    static const struct {
        int         axis;
        int64_t     from, count;
        const char *why; // NULL: it is made
    } rows[] = {
        { 0, 0, R, NULL },   { 1, 0, C, NULL },        { 1, C - 1, 1, NULL },   { 1, -1, 2, "-1..1 of axis 1" },
        { 1, 0, 0, "0..0" }, { 1, 0, C + 1, "0..65" }, { 0, R - 1, 2, "3..5" }, { 0, R, 1, "4..5 of axis 0" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        mba_graph        *g = graph();
        mba_tensor       *x = mba_input(g, "x", MBA_TYPE(MBA_F32, R, C));
        const mba_tensor *v = mba_slice(g, x, rows[i].axis, rows[i].from, rows[i].count);
        if (rows[i].why) assert_fails(mba_graph_status(g), MBA_E_SHAPE, rows[i].why);
        else {
            assert_ok(mba_graph_status(g));
            assert_int_equal(v->type.dim[rows[i].axis], rows[i].count);
            assert_int_equal(v->offset, rows[i].from * (rows[i].axis ? 1 : C));
            assert_int_equal(mba_elems(v), rows[i].count * (rows[i].axis ? R : C));
        }
        mba_graph_destroy(g);
    }
    for (int i = 0; i < 4; i++) {
        mba_graph  *g = graph();
        mba_tensor *x = mba_input(g, "x", MBA_TYPE(MBA_F32, R, C)), *z = mba_input(g, "z", MBA_TYPE(MBA_F32, R + 1, C));
        mba_tensor *a = mba_relu2(g, x), *b = mba_relu2(g, i == 2 ? z : x);
        if (i == 0) mba_reshape(g, x, MBA_TYPE(MBA_F32, C, R + 1));
        else if (i == 1) mba_concat(g, x, b); // an input cannot move
        else if (i == 2) mba_concat(g, a, b); // not as many rows
        else assert_int_equal(mba_concat(g, a, b)->type.dim[1], 2 * C);
        if (i == 3) assert_ok(mba_graph_status(g));
        else
            assert_fails(mba_graph_status(g), MBA_E_SHAPE, i ? "cannot concatenate" : "changes the number of elements");
        assert_true(i == 3 || mba_slice(g, x, 0, 0, 1) == g->poison);
        mba_graph_destroy(g);
    }
}

/* The gradient of w through a product whose five columns are used as two slices. Its rows lie apart (`multiple` above
 * 1), or w has zero rows behind its own (`rows` above 5). */
static void gradient_of_slices(float dw[5 * 6], int64_t multiple, int64_t rows)
{
    mba_graph  *g = graph();
    mba_tensor *x = mba_input(g, "x", MBA_TYPE(MBA_F32, R, 6));
    mba_tensor *w = mba_param_padded(g, "w", MBA_TYPE(MBA_F32, 5, 6), MBA_INIT_NORMAL(1), MBA_DECAY, rows);
    mba_tensor *next = mba_param(g, "next", MBA_TYPE(MBA_F32, 6), MBA_INIT_CONST(1), MBA_DECAY);
    mba_tensor *y = mba_pad_rows(g, mba_linear(g, x, w), multiple);
    mba_tensor *out[] = { mba_relu2(g, mba_slice(g, y, 1, 0, 2)), mba_relu2(g, mba_slice(g, y, 1, 2, 3)) };
    mba_tensor *seed[] = { mba_input(g, "d0", out[0]->type), mba_input(g, "d1", out[1]->type) };
    rig         r = rig_create(g, 2, out, seed);
    assert_int_equal(mba_cols(y), rows);
    assert_int_equal(mba_ld(y), mba_ceil(rows, multiple) * multiple);
    assert_int_equal(mba_elems(mba_graph_find(g, "w")), 5 * 6);
    assert_true(next->offset >= mba_elems(w) && mba_is_param(next));
    rig_sines(&r, x, 1, 0.7, 0.1);
    for (int k = 0; k < 2; k++) rig_sines(&r, seed[k], 1, 0.3, k);
    rig_run(&r);
    for (int32_t i = 0; i < g->nnodes && rows == 5; i++) assert_string_not_equal(g->nodes[i]->op->name, "fill");
    assert_ok(mba_program_get(r.p, rig_grad(&r, mba_graph_find(g, "w")), dw));
    const float *all = mba_program_at(r.p, rig_grad(&r, w));
    for (int64_t i = 5 * 6; i < mba_elems(w); i++) assert_true(all[i] == 0); // gradients of zero rows
    rig_destroy(&r);
}

/* Rows that lie apart: the same values and gradients to the bit, and no node that clears the gaps. Zero rows of a
 * parameter: the same, and their own gradient is zero. */
static void padded_rows_change_no_value(void **state)
{
    float dense[5 * 6], apart[5 * 6], zeros[5 * 6];
    (void)state;
    gradient_of_slices(dense, 1, 5);
    gradient_of_slices(apart, 8, 5);
    gradient_of_slices(zeros, 1, 8);
    assert_memory_equal(dense, apart, sizeof dense);
    assert_memory_equal(dense, zeros, sizeof dense);
    assert_true(dense[0] != 0);
}

MBA_TEST_MAIN(cmocka_unit_test(an_output_takes_the_place_of_an_input_that_dies),
              cmocka_unit_test(what_lives_on_or_is_a_part_keeps_its_place),
              cmocka_unit_test(a_strided_input_can_be_made_dense),
              cmocka_unit_test(readers_of_what_is_made_again_wait_for_it),
              cmocka_unit_test(readers_that_are_needed_do_not_wait),
              cmocka_unit_test(views_are_made_up_to_the_bounds_of_a_tensor),
              cmocka_unit_test(padded_rows_change_no_value))
