// SPDX-License-Identifier: Apache-2.0
/* describe_test.c -- the rows of a plan agree with what the plan was made from. */
#include <unistd.h>

#include "ops/add/add.h"
#include "scope/describe.h"
#include "scope/perf.h"
#include "tests/scratch.h"
#include "tests/test.h"

static const mba_machine gpu = { .name = "a GPU",
                                 .cc = 90,
                                 .sm = 132,
                                 .warp = 32,
                                 .regs_sm = 65536,
                                 .threads_sm = 2048,
                                 .smem_block_bytes = 232448,
                                 .smem_sm_bytes = 233472,
                                 .l2_bytes = 50 << 20,
                                 .clock_ghz = 1.8,
                                 .dram_gbs = 4800,
                                 .memory_bytes = (int64_t)140 << 30 };

/* A small Mamba-2 planned for a GPU that need not be here. */
static void plan_for_gpu(mba_session *s)
{
    static const mba_device absent = { .name = "cuda", .machine = &gpu };
    mba_session_options     o = {
            .backward = true, .update = true, .adamw = mba_adamw_defaults(), .device = &absent, .compute = MBA_BF16
    };
    assert_ok(mba_model_preset(&o.model, "mamba2-130m"));
    assert_ok(mba_model_set(&o.model, "layers=2,vocab=1024"));
    assert_ok(mba_model_shape(&o.model, &(mba_batch_shape){ .batch = 2, .length = 512 }));
    assert_ok(mba_session_plan(s, &o));
}

static void launches_hold_the_work_of_their_plans(void **state)
{
    mba_session     s = { 0 };
    mba_store      *store;
    mba_row_launch *l;
    mba_row_node   *node;
    int64_t         n, nodes;
    (void)state;
    plan_for_gpu(&s);
    assert_ok(mba_store_create(&store, scratch("plan.db")));
    assert_ok(mba_describe_program(store, s.program));
    assert_ok(mba_store_close(store));
    assert_ok(mba_store_open(&store, scratch("plan.db")));
    assert_ok(mba_load_launch(store, &l, &n));
    assert_ok(mba_load_node(store, &node, &nodes));
    assert_int_equal(nodes, s.graph->nnodes);
    assert_true(n >= nodes);
    for (int64_t i = 0; i < n; i++) {
        const mba_node *of = s.graph->nodes[l[i].node];
        assert_int_equal(l[i].id, mba_launch_number(s.program, of->id, (int)l[i].place));
        assert_true(l[i].least_bytes <= l[i].load_bytes + l[i].store_bytes + 1);
        assert_true(l[i].least_bytes >= 0 && l[i].tensor_flops >= 0 && l[i].grid_x >= 1);
    }
    for (int64_t i = 0; i < nodes; i++) {
        const mba_node *of = s.graph->nodes[i];
        const mba_cost  c = of->op->cost(of);
        assert_string_equal(node[i].op, of->op->name);
        assert_true(node[i].filled == 1);
        assert_true(node[i].tensor_flops == c.tensor_flops && node[i].vector_flops == c.vector_flops);
        assert_true(node[i].read_bytes == c.read_bytes && node[i].write_bytes == c.write_bytes);
    }
    assert_ok(mba_store_close(store));
    mba_session_end(&s);
}

/* Every input and output, in the order of the slots. */
static void shapes_name_all_operands(void **state)
{
    (void)state;
    char       text[256], little[12];
    mba_graph *g;
    assert_ok(mba_graph_create(&g));
    mba_tensor *a = mba_input(g, "a", MBA_TYPE(MBA_F32, 2, 3)), *b = mba_input(g, "b", MBA_TYPE(MBA_F32, 2, 3));
    mba_add(g, a, b);
    mba_node_shape(text, sizeof text, g->nodes[0]);
    assert_string_equal(text, "a f32 2x3, b f32 2x3 -> y f32 2x3");
    mba_node_shape(little, sizeof little, g->nodes[0]);
    assert_memory_equal(little, text, sizeof little - 1);
    mba_graph_destroy(g);
}

/* A launch by hand: 3 blocks of which each loads 100 bytes of a 200-byte input four times and stores 50 of a
 * 150-byte output, with two classes of blocks. */
static void loops_and_classes_multiply(void **state)
{
    (void)state;
    mba_graph *g;
    mba_arena *arena;
    mba_store *store;
    assert_ok(mba_graph_create(&g));
    assert_ok(mba_arena_create(&arena, 1 << 20));
    mba_tensor *x = mba_input(g, "x", MBA_TYPE(MBA_F32, 50));
    mba_node   *n = MBA_APPEND(g, accumulate, NULL, x);
    mba_plan    plan = { .variant = "by hand", .arena = arena };
    mba_launch *l = mba_plan_launch(&plan, "made_up", MBA_MIXED, 3, 32);
    l->blocks[l->nblocks++] = (mba_blocks){ 1, { 4 } };
    l->blocks[l->nblocks++] = (mba_blocks){ 2, { 10 } };
    mba_phase_work(l, MBA_LOOP, MBA_TRIPS(0), NULL);
    mba_phase_move(l, MBA_LOAD, MBA_ARG_IN(0), 100);
    mba_phase_work(l, MBA_LOOP, 2, NULL);
    mba_phase_work(l, MBA_MMA, 7, NULL);
    mba_phase_work(l, MBA_END, 0, NULL);
    mba_phase_work(l, MBA_END, 0, NULL);
    mba_phase_move(l, MBA_STORE, MBA_ARG_OUT(0), 50);
    const mba_plan *plans[] = { &plan };
    mba_program     p = { .graph = g, .plan = plans };
    assert_int_equal(g->nnodes, 1);
    assert_ok(mba_store_create(&store, scratch("hand.db")));
    assert_ok(mba_describe_program(store, &p));
    assert_ok(mba_store_close(store));
    assert_ok(mba_store_open(&store, scratch("hand.db")));
    mba_row_launch *row;
    int64_t         rows;
    assert_ok(mba_load_launch(store, &row, &rows));
    assert_int_equal(rows, 1);
    assert_near(row->load_bytes, 100 * (1 * 4 + 2 * 10), 1e-9);
    assert_near(row->tensor_flops, 2 * 7 * (1 * 4 + 2 * 10), 1e-9);
    assert_near(row->store_bytes, 150, 1e-9);
    const double out = mba_tensor_bytes(n->out[0]);
    assert_near(row->least_bytes, 200 + (out < 150 ? out : 150), 1e-9);
    assert_ok(mba_store_close(store));
    mba_arena_destroy(arena);
    mba_graph_destroy(g);
}

/* 4 MB of scratch written; a small launch; then 3 MB of it read, by blocks that go together in pairs. */
static void what_the_launch_before_touched_is_recent(void **state)
{
    (void)state;
    mba_graph *g;
    mba_arena *arena;
    mba_store *store;
    assert_ok(mba_graph_create(&g));
    assert_ok(mba_arena_create(&arena, 1 << 20));
    MBA_APPEND(g, accumulate, NULL, mba_input(g, "x", MBA_TYPE(MBA_F32, 50)));
    mba_plan plan = { .variant = "by hand", .arena = arena };
    assert_int_equal(mba_plan_scratch(&plan, "states", 4000000), 0);
    mba_phase_move(mba_plan_launch(&plan, "makes", MBA_MIXED, 4, 32), MBA_STORE, MBA_ARG_SCRATCH(0), 1e6);
    mba_phase_move(mba_plan_launch(&plan, "small", MBA_MIXED, 1, 32), MBA_LOAD, MBA_ARG_IN(0), 200);
    mba_launch *l = mba_plan_launch(&plan, "reads", MBA_MIXED, 2, 32);
    mba_phase_move(l, MBA_LOAD, MBA_ARG_SCRATCH(0), 3e6);
    mba_phase_share(l, 2);
    const mba_plan *plans[] = { &plan };
    mba_program     p = { .graph = g, .plan = plans };
    mba_row_launch *row;
    int64_t         rows;
    assert_ok(mba_store_create(&store, scratch("recent.db")));
    assert_ok(mba_describe_program(store, &p));
    assert_ok(mba_store_close(store));
    assert_ok(mba_store_open(&store, scratch("recent.db")));
    assert_ok(mba_load_launch(store, &row, &rows));
    assert_int_equal(rows, 3);
    assert_near(row[0].recent_bytes, 0, 0);
    assert_near(row[1].recent_bytes, 0, 0);
    assert_near(row[2].load_bytes, 6e6, 0);
    assert_near(row[2].least_bytes, 3e6, 0);
    assert_near(row[2].recent_bytes, 3e6, 0);
    assert_ok(mba_store_close(store));
    mba_arena_destroy(arena);
    mba_graph_destroy(g);
}

/* Where the kernel lets nobody count, it says why; where it does, what is counted is told from what is not. */
static void counters_of_the_processor_are_there_or_explained(void **state)
{
    (void)state;
    mba_perf   p;
    char       why[256] = "", fix[256] = "";
    double     value[MBA_PERF_COUNTERS];
    const bool opened = mba_perf_open(&p, why, sizeof why, fix, sizeof fix);
    int        has = 0;
    for (int k = 0; k < MBA_PERF_COUNTERS; k++) has += p.has[k];
    assert_true(p.threads >= 1 && opened == (has > 0));
    if (!opened) {
        assert_non_null(strstr(why, "perf_event_open: "));
        assert_null(strstr(why, strerror(0))); // an error of the kernel's
        assert_true(*fix != 0);
    }
    mba_perf_read(&p, value);
    for (int k = 0; k < MBA_PERF_COUNTERS; k++) assert_true(p.has[k] ? value[k] >= 0 : value[k] == 0);
    mba_perf_close(&p);
    assert_int_equal(p.threads, 0);
}

static int prepare(void **state)
{
    (void)state;
    scratch_make();
    return 0;
}
static int clean(void **state)
{
    (void)state;
    scratch_remove();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(launches_hold_the_work_of_their_plans),
                                        cmocka_unit_test(shapes_name_all_operands),
                                        cmocka_unit_test(loops_and_classes_multiply),
                                        cmocka_unit_test(what_the_launch_before_touched_is_recent),
                                        cmocka_unit_test(counters_of_the_processor_are_there_or_explained) };
    return cmocka_run_group_tests(tests, prepare, clean);
}
