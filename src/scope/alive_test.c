// SPDX-License-Identifier: Apache-2.0
/* alive_test.c -- what is alive in a step whose operands can be counted on fingers; and the events of one step. */
#include "scope/memory.h"
#include "tests/scratch.h"
#include "tests/test.h"

static void put_operand(mba_store *s, int64_t node, int64_t storage, const char *role, double bytes)
{
    mba_row_operand o = mba_no_operand;
    o.node = node, o.storage = storage, o.tensor = storage, o.role = role, o.bytes = bytes, o.output = 0, o.slot = "x";
    assert_ok(mba_put_operand(s, &o));
}

/* Three nodes. A weight of 5 is read by the last only; activations: 10 for nodes 0 and 1, 20 (a window of 4 first) for
 * 1 and 2, 7 for 2. */
static void begin(mba_store **s, mba_analysis **a)
{
    assert_ok(mba_store_create(s, scratch("memory.db")));
    for (int64_t i = 0; i < 3; i++) {
        mba_row_node n = mba_no_node;
        n.id = 10 + i, n.op = "add", n.kind = "element-wise", n.phase = i < 2 ? "forward" : "backward",
        n.scope = "layers.0";
        assert_ok(mba_put_node(*s, &n));
    }
    put_operand(*s, 10, 0, "activations", 10);
    put_operand(*s, 11, 0, "activations", 10);
    put_operand(*s, 11, 1, "activations", 4);
    put_operand(*s, 12, 1, "activations", 20);
    put_operand(*s, 12, 2, "activation gradients", 7);
    put_operand(*s, 12, 3, "parameters", 5);
    assert_ok(mba_put_parameter(*s, &(mba_row_parameter){ .name = "plan_bytes", .value = "64", .meaning = "" }));
    for (int64_t i = 0; i < 4; i++) { // steps 0 and 1, the second written backwards
        mba_row_event e = mba_no_event;
        e.id = i, e.what = "node", e.step = i / 2, e.node = 10 + 2 * (i % 2), e.stream = 0, e.duration_ns = 5,
        e.start_ns = i < 2 ? 100 * i : 1000 - 100 * i;
        assert_ok(mba_put_event(*s, &e));
    }
    assert_ok(mba_store_close(*s));
    assert_ok(mba_store_open(s, scratch("memory.db")));
    assert_ok(mba_analysis_create(a, *s));
}

static void activations_live_from_first_to_last_use(void **state)
{
    mba_store    *s;
    mba_analysis *a;
    mba_memory   *m;
    (void)state;
    begin(&s, &a);
    assert_ok(mba_memory_of(a, &m));
    assert_int_equal(m->nnodes, 3);
    assert_near(m->alive_bytes[0], 5 + 10, 0);
    assert_near(m->alive_bytes[1], 5 + 10 + 20, 0);
    assert_near(m->alive_bytes[2], 5 + 20 + 7, 0);
    assert_near(m->peak_bytes, 35, 0);
    assert_int_equal(m->peak, 1);
    assert_near(m->kept_bytes, 5, 0);
    assert_near(m->planned_bytes, 64, 0);
    assert_int_equal(m->nroles, 3);
    mba_memory_destroy(m);
    mba_analysis_destroy(a);
    assert_ok(mba_store_close(s));
}

static void a_step_has_its_events_in_order(void **state)
{
    mba_store          *s;
    mba_analysis       *a;
    mba_timeline_event *m;
    int64_t             n;
    (void)state;
    begin(&s, &a);
    assert_ok(mba_timeline_of(a, 1, &m, &n));
    assert_int_equal(n, 2);
    assert_near(m[0].start_s, 0, 0);
    assert_near(m[1].start_s, 100e-9, 1e-15);
    assert_int_equal(m[0].phase, 1); // node 12 ran first
    assert_int_equal(m[1].phase, 0);
    assert_string_equal(m[0].scope, "layers.0");
    assert_near(m[0].duration_s, 5e-9, 1e-18);
    free(m);
    assert_ok(mba_timeline_of(a, 7, &m, &n));
    assert_int_equal(n, 0);
    free(m);
    mba_analysis_destroy(a);
    assert_ok(mba_store_close(s));
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(activations_live_from_first_to_last_use),
                                        cmocka_unit_test(a_step_has_its_events_in_order) };
    scratch_make();
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    scratch_remove();
    return failed;
}
