// SPDX-License-Identifier: Apache-2.0
/* analysis_test.c -- the analysis of a small store whose every number can be worked out on paper (made_store.h): its
 * timeline, its counters, its blocks. */
#include "scope/blocks.h"
#include "scope/doubts.h"
#include "scope/energy.h"
#include "tests/made_store.h"

/* ---- the timeline ---- */

static void times_are_those_of_a_step(void **state)
{
    (void)state;
    begin("times.db", false, 3);
    assert_int_equal(view->steps, 2);
    assert_near(view->busy_s, 12, 1e-9); // 4 + (3 and 5) + 1 + 1 + 1 + 1
    assert_near(view->idle_s, 2, 1e-9);
    assert_near(view->plain_s, 17, 1e-12);
    assert_near(view->timeline_s, 18, 1e-12);
    assert_near(view->time_s[MBA_GEMM][0], 4, 1e-9);
    assert_near(view->time_s[MBA_SSM][0], 3, 1e-9);
    assert_near(view->time_s[MBA_SSM][1], 4, 1e-9);
    assert_near(view->launches[MBA_SSM][0], 3, 1e-12);
    assert_near(view->time_s[MBA_OTHER][MBA_PHASES - 1], 1, 1e-9);
    const mba_kernel_view *k = &view->kernel[SCAN];
    assert_near(k->median_s, 4, 1e-9); // of 3 and 5
    assert_near(k->p10_s, 3, 1e-9);
    assert_near(k->p90_s, 5, 1e-9);
    assert_near(k->gap_s, 2, 1e-9);
    assert_near(view->kernel[CUMSUM].per_step, 2, 1e-12);
    assert_near(view->kernel[CUMSUM].gap_s, 0, 1e-9);
    assert_near(view->op[0]->median_s, 4, 1e-9); // the longest first
    for (int i = 0; i < view->nops; i++)
        if (!strcmp(view->op[i]->op, "ssd")) assert_near(view->op[i]->spread_s, 2, 1e-9);
    end();
}

/* The batch of the next step comes on a stream of its own while this one works; a copy on the stream of the kernels is
 * part of the step. */
static void a_copy_beside_the_step_is_no_part_of_its_time(void **state)
{
    (void)state;
    assert_ok(mba_store_create(&store, scratch("beside.db")));
    put_kernel(store, GEMM, "nvjet", "gemm");
    put_event(store, 0, GEMM, MBA_ABSENT, 1, 4);
    for (int64_t stream = 7; stream < 9; stream++) {
        mba_row_event e = mba_no_event;
        e.what = "copy", e.step = 0, e.stream = stream, e.start_ns = stream == 7 ? 0 : 1500000000,
        e.duration_ns = 1000000000;
        assert_ok(mba_put_event(store, &e));
    }
    assert_ok(mba_store_close(store));
    assert_ok(mba_store_open(&store, scratch("beside.db")));
    assert_ok(mba_analysis_create(&view, store));
    assert_near(view->busy_s, 5, 1e-9);
    assert_near(view->time_s[MBA_MEMORY][MBA_PHASES - 1], 1, 1e-9);
    int seen = 0;
    for (int i = 0; i < view->nops; i++) seen += !strcmp(view->op[i]->op, "copy beside the step");
    assert_int_equal(seen, 1);
    end();
}

/* ---- doubts ---- */

/* A store of eleven unwatched steps of 10 s, the last two longer, on a GPU whose clocks were as said. */
static void begin_doubts(const char *name, double longer_s, double mhz, const char *reason)
{
    assert_ok(mba_store_create(&store, scratch(name)));
    for (int i = 0; i < 11; i++)
        assert_ok(
            mba_put_step(store, &(mba_row_step){ .mode = "plain", .seconds = i < 9 ? 10 : 10 + longer_s, .units = 1 }));
    assert_ok(mba_env_put_number(store, "gpu.clock_max", "read", 2000, "MHz"));
    assert_ok(mba_env_put_number(store, "clock.plain", "read", mhz, "MHz"));
    assert_ok(mba_env_put_number(store, "clock.graph", "read", 2000, "MHz"));
    assert_ok(mba_env_put_text(store, "throttled.plain", "read", "%s", reason));
    assert_ok(mba_put_energy(
        store,
        &(mba_row_energy){ .mode = "plain", .steps = 2, .units = 2, .seconds = 4.99, .joules = 1, .source = "-" }));
    assert_ok(mba_store_close(store));
    assert_ok(mba_store_open(&store, scratch(name)));
    assert_ok(mba_analysis_create(&view, store));
}

static void a_store_says_what_is_doubtful(void **state)
{
    (void)state;
    mba_doubt d[MBA_DOUBTS_MAX];
    begin_doubts("sure.db", 0.9, 2000, "no"); // 9 % are no doubt
    assert_int_equal(mba_doubts_of(d, view), 0);
    assert_near(mba_clocks_of(view).mean, 2000, 1e-9);
    end();
    begin_doubts("spread.db", 1.1, 2000, "no");
    assert_int_equal(mba_doubts_of(d, view), 1);
    assert_non_null(strstr(d[0].text, "step times spread by 11 %: 1e+04 to 1.11e+04 ms"));
    end();
    begin_doubts("clocks.db", 0, 1500, "power limit");
    assert_int_equal(mba_doubts_of(d, view), 1);
    assert_non_null(strstr(d[0].text, "the GPU ran at 1500 to 2000 of 2000 MHz (power limit)"));
    assert_near(mba_clocks_of(view).mean, 1750, 1e-9);
    end();
    begin_doubts("both.db", 5, 1800, "no"); // a tenth below, though no reason was given
    assert_int_equal(mba_doubts_of(d, view), 2);
    assert_non_null(strstr(d[0].text, "1800 to 2000 of 2000 MHz;"));
    end();
}

/* Two of three stores have one warning each way: a line of each kind, with the range of those that have it. */
static void warnings_of_a_kind_are_one_line(void **state)
{
    (void)state;
    static const struct {
        const char *name, *reason;
        double      longer_s, mhz;
    } made[] = { { "x.db", "power limit", 2, 1500 }, { "y.db", "no", 0, 2000 }, { "z.db", "thermal", 3, 1800 } };
    mba_store    *of[3];
    mba_analysis *a[3];
    mba_doubt     d[MBA_DOUBTS_MAX];
    for (int i = 0; i < 3; i++) {
        begin_doubts(made[i].name, made[i].longer_s, made[i].mhz, made[i].reason);
        of[i] = store, a[i] = view;
    }
    assert_int_equal(mba_doubts_together(d, a, 3), 2);
    assert_int_equal(d[0].stores, 2);
    assert_string_equal(d[0].text, "clocks were throttled in 2 of 3 runs: the GPU ran at 1500 to 2000 of 2000 MHz "
                                   "(power limit, thermal); at other clocks the same kernels take other times");
    assert_string_equal(d[1].text, "step times spread by 20 to 30 % in 2 of 3 runs");
    assert_int_equal(mba_doubts_together(d, a + 1, 2), 2);
    assert_int_equal(d[1].stores, 1);
    assert_int_equal(d[1].first, 1);
    assert_non_null(strstr(d[1].text, "step times spread by 30 %: "));
    assert_int_equal(mba_doubts_together(d, a + 1, 1), 0);
    for (int i = 0; i < 3; i++) {
        store = of[i], view = a[i];
        end();
    }
}

/* A mean over less than 5 s of a meter that moves in tenths of a second is none. */
static void energy_of_a_short_window_does_not_count(void **state)
{
    (void)state;
    mba_row_energy *e;
    int64_t         n;
    begin_doubts("energy.db", 0, 2000, "no");
    assert_ok(mba_load_energy(store, &e, &n));
    assert_int_equal(n, 1);
    assert_false(mba_energy_counts(&e[0]));
    e[0].seconds = 5;
    assert_true(mba_energy_counts(&e[0]));
    end();
}

/* ---- the timeline, again ---- */

/* Three events of a graph with gaps of 2 s and 0.5 s, and one beside it; a record costs 0.75 s; plain steps differ by
 * `spread_s`. */
static void begin_records(const char *name, double spread_s)
{
    const struct {
        double  start, duration;
        int64_t node;
    } event[] = { { 0, 1, 1 }, { 3, 1, 2 }, { 4.5, 1, 3 }, { 6, 1, MBA_ABSENT } };
    assert_ok(mba_store_create(&store, scratch(name)));
    put_kernel(store, GEMM, "nvjet", "gemm");
    for (size_t i = 0; i < sizeof event / sizeof *event; i++) {
        mba_row_event e = mba_no_event;
        e.what = "kernel", e.kernel = GEMM, e.step = 0, e.stream = 7, e.graph_node = event[i].node;
        e.start_ns = (int64_t)llround(1e9 * event[i].start), e.duration_ns = (int64_t)llround(1e9 * event[i].duration);
        assert_ok(mba_put_event(store, &e));
    }
    assert_ok(mba_env_put_number(store, "timeline.record_cost", "measured", 0.75e9, "ns"));
    assert_ok(mba_put_step(store, &(mba_row_step){ .mode = "graph", .seconds = 6.5, .units = 1 }));
    assert_ok(mba_put_step(store, &(mba_row_step){ .mode = "record", .seconds = 6.25, .units = 1 }));
    for (int i = 0; i < 5; i++)
        assert_ok(mba_put_step(store, &(mba_row_step){ .mode = "plain", .seconds = 6 + i * spread_s / 2, .units = 1 }));
    assert_ok(mba_store_close(store));
    assert_ok(mba_store_open(&store, scratch(name)));
    assert_ok(mba_analysis_create(&view, store));
}

/* Of the gaps in the graph 1.25 s and nothing are left; the event beside it keeps its 0.5 s. Where plain steps differ
 * by more than half of what the records cost together, the cost is not known and gaps are as seen. */
static void gaps_are_less_what_records_cost(void **state)
{
    (void)state;
    begin_records("records.db", 1);
    assert_near(view->record_cost_s, 0.75, 1e-12);
    assert_near(view->idle_seen_s, 3, 1e-9);
    assert_near(view->idle_s, 1.75, 1e-9);
    assert_near(view->kernel[0].gap_s, 1.75 / 4, 1e-9);
    assert_near(view->whole_s, 6.5, 0);
    assert_near(view->record_s, 6.25, 0);
    end();
    begin_records("noise.db", 1.25);
    assert_true(isnan(view->record_cost_s));
    assert_near(view->idle_s, 3, 1e-9);
    end();
}

static void floors_are_the_largest_of_four(void **state)
{
    (void)state;
    begin("floors.db", false, 3);
    const mba_kernel_view *g = &view->kernel[GEMM], *c = &view->kernel[CUMSUM], *x = &view->kernel[STRANGE];
    assert_near(g->floor_s[MBA_BY_MEMORY], 1.5, 1e-12);
    assert_near(g->floor_s[MBA_BY_TENSOR], 2, 1e-12);
    assert_near(g->floor_s[MBA_BY_VECTOR], 0.1, 1e-12);
    assert_near(g->least_s, 2, 1e-12);
    assert_int_equal(g->bound, MBA_BY_TENSOR);
    assert_near(c->least_s, 0.3, 1e-12);
    assert_int_equal(c->bound, MBA_BY_MEMORY);
    assert_true(isnan(x->least_s)); // nobody knows what it must do
    assert_near(view->floor_s[MBA_GEMM][0], 2, 1e-9);
    const mba_bounds b = mba_bounds_of(view, MBA_SSM_KERNELS);
    assert_near(b.time_s, 7, 1e-9);
    // scan: 1.2 s of memory, 1 s of vector; cumsum
    assert_near(b.share[MBA_BY_MEMORY], 6.0 / 7, 1e-9);
    assert_near(b.share[MBA_BY_TENSOR], 1.0 / 7, 1e-9); // bmm: 0.5 s of tensor
    assert_near(b.percent_of_floor, 100 * (1.2 + 2 * 0.3 + 0.5) / 7, 1e-9);
    end();
}

/* A node with one launch, for which the library ran two kernels; and one with two launches. */
static void every_kernel_has_its_part_of_the_least_work(void **state)
{
    (void)state;
    assert_ok(mba_store_create(&store, scratch("parts.db")));
    put_machine(store);
    put_node(store, 0, "matmul", "gemm", "forward", (mba_work_counts){ 32000, 0, 0, 1500 });
    put_node(store, 1, "ssd", "ssm", "forward", (mba_work_counts){ 8000, 1000, 50, 1200 });
    put_kernel(store, 0, "split", "gemm");
    put_kernel(store, 1, "reduce", "gemm");
    put_kernel(store, 2, "state", "ssm");
    put_kernel(store, 3, "scan", "ssm");
    for (int64_t i = 0; i < 3; i++) {
        mba_row_launch l = mba_no_launch;
        l.id = i, l.node = i > 0, l.place = i == 2;
        l.tensor_flops = 1600 * (double)i, l.fma_ops = 50, l.half2_ops = 0, l.special_ops = 0, l.load_bytes = 9000,
        l.store_bytes = 9000, l.least_bytes = 700;
        assert_ok(mba_put_launch(store, &l));
    }
    for (int64_t i = 0; i < 4; i++) {
        mba_row_event e = mba_no_event;
        e.what = "kernel", e.step = 0, e.kernel = i, e.node = i > 1, e.start_ns = i, e.duration_ns = 1, e.stream = 0;
        e.launch = (int64_t[]){ 0, MBA_ABSENT, 1, 2 }[i];
        assert_ok(mba_put_event(store, &e));
    }
    assert_ok(mba_store_close(store));
    assert_ok(mba_store_open(&store, scratch("parts.db")));
    assert_ok(mba_analysis_create(&view, store));
    assert_near(view->kernel[0].least.tensor_flops, 32000, 1e-9);
    assert_near(view->kernel[1].least.tensor_flops, 0, 0);
    assert_near(view->kernel[1].least.bytes, 0, 0);
    assert_near(view->kernel[2].least.tensor_flops, 1600, 1e-9);
    assert_near(view->kernel[3].least.tensor_flops, 3200, 1e-9);
    assert_near(view->kernel[3].least.vector_flops, 100, 1e-9);
    assert_near(view->kernel[3].least.bytes, 700, 1e-9);
    end();
}

/* ---- counters ---- */

static void quantities_follow_from_metrics(void **state)
{
    (void)state;
    begin("counters.db", true, 3);
    const mba_counted *c = &view->kernel[SCAN].counted;
    assert_near(c->dram_bytes, 2000, 1e-9);
    assert_near(c->l2_bytes, 4000, 1e-9);
    assert_near(c->tensor_flops, 8000, 1e-9);
    assert_near(c->fp32_flops, 2 * 1000 + 400, 1e-9);
    assert_near(c->lane_slots, 32 * 50 * 10 * (0.30 * 4 + 0.40 * 2 + 0.04 * 0.5), 1e-6);
    assert_near(c->block_s, 6000.0 / 20 / 100, 1e-12);
    // not_selected is no stall
    assert_true(!strncmp(c->stall[0], "barrier", 7) && !strncmp(c->stall[1], "long_scoreboard", 15));
    assert_near(view->kernel[SCAN].ratio_a, 8000.0 / 2400, 1e-12);
    assert_true(isnan(view->kernel[CUMSUM].ratio_a));
    const mba_kernel_view *x = &view->kernel[STRANGE];
    // least is not known: executed work instead
    assert_true(x->from_counters);
    assert_near(x->least_s, 0.2, 1e-12);
    end();
}

static void classes_are_proved_by_counters(void **state)
{
    (void)state;
    begin("classes.db", true, 3);
    assert_int_equal(view->kernel[SCAN].cls, MBA_CLASS_MIXED);
    assert_int_equal(view->kernel[CUMSUM].cls, MBA_CLASS_VECTOR); // 1 % of tensor pipe, no tensor FLOP
    assert_int_equal(view->kernel[BMM].cls, MBA_CLASS_TENSOR);
    for (int k = 0; k < 5; k++) assert_true(view->kernel[k].cls_counted);
    assert_string_equal(view->kernel[SCAN].busiest, "ALU");
    assert_string_equal(view->kernel[GEMM].busiest, "tensor");
    end();
    begin("planned.db", false, 3);
    assert_false(view->kernel[SCAN].cls_counted);
    // by least work: 16 x 1000 against 8000
    assert_int_equal(view->kernel[SCAN].cls, MBA_CLASS_MIXED);
    assert_int_equal(view->kernel[BMM].cls, MBA_CLASS_TENSOR);
    end();
}

static void intensity_depends_on_the_convention(void **state)
{
    (void)state;
    begin("intensity.db", true, 3);
    const mba_intensity in = mba_intensity_of(view, MBA_SSM_KERNELS); // scan, 2 cumsum, bmm
    const double        bytes = 2000 + 2 * 600 + 200, tensor = 8000 + 8000, vector = 2400 + 2 * 12 + 8;
    assert_near(in.executed[0][0], tensor / bytes, 1e-9);
    assert_near(in.executed[1][0], vector / bytes, 1e-9);
    assert_near(in.executed[2][0], (tensor + vector) / bytes, 1e-9);
    assert_near(in.executed[2][1], (tensor + vector) / (2 * bytes), 1e-9);
    assert_true(isnan(in.executed[0][2])); // L1 was not counted
    assert_near(in.least[0], 16000.0 / (1200 + 600 + 100), 1e-9);
    assert_near(in.least[1], 1020.0 / 1900, 1e-9);
    end();
}

static void both_means_of_bandwidth(void **state)
{
    (void)state;
    begin("bandwidth.db", true, 3);
    mba_bandwidth w = mba_bandwidth_of(view, MBA_SSM_KERNELS);
    assert_false(w.least);
    assert_near(w.mean, (500 + 600 + 600 + 200) / 4.0, 1e-9);
    assert_near(w.weighted, (2000 + 600 + 600 + 200) / (4 + 1 + 1 + 1.0), 1e-9);
    assert_near(w.of_time, 1, 1e-12);
    end();
    begin("least.db", false, 3);
    w = mba_bandwidth_of(view, MBA_SSM_KERNELS);
    assert_true(w.least);
    assert_near(w.weighted, (1200 + 300 + 300 + 100) / 7.0, 1e-9);
    end();
}

static void vector_bound_by_every_reading(void **state)
{
    (void)state;
    begin("vector.db", true, 3);
    const mba_vector_bound v = mba_vector_bound_of(view, MBA_SSM_KERNELS);
    assert_near(v.mixed_s, 4, 1e-9);
    assert_near(v.floor_a, 1, 1e-12); // 2.4 s of vector, 0.5 s of tensor
    assert_near(v.floor_b, 1, 1e-12);
    assert_near(v.pipe_fma, 1, 1e-12); // 30 % against 20 %
    assert_near(v.pipe_any, 1, 1e-12);
    end();
}

/* ---- blocks and reuse ---- */

static void lifetimes_come_from_records(void **state)
{
    mba_blocks_view *b;
    int64_t          n;
    (void)state;
    assert_ok(mba_store_create(&store, scratch("blocks.db")));
    put_machine(store);
    put_run(store, 3);
    // 1 .. 100 us, the first and last tenth around the work
    for (int i = 0; i < 100; i++)
        assert_ok(mba_put_block(store, &(mba_row_block){ .kernel = SCAN,
                                                         .event = MBA_ABSENT,
                                                         .block = i,
                                                         .sm = i % 10,
                                                         .start_ns = 500,
                                                         .end_ns = 500 + 1000 * (i + 1),
                                                         .work_start_ns = 500 + 100 * (i + 1),
                                                         .work_end_ns = 500 + 800 * (i + 1) }));
    assert_ok(mba_store_close(store));
    assert_ok(mba_store_open(&store, scratch("blocks.db")));
    assert_ok(mba_analysis_create(&view, store));
    assert_ok(mba_blocks_of(view, &b, &n));
    assert_int_equal(n, 1);
    assert_int_equal(b[0].kernel, SCAN);
    assert_int_equal(b[0].blocks, 100);
    assert_near(b[0].mean_s, 50.5e-6, 1e-12);
    assert_near(b[0].median_s, 50.5e-6, 1e-12);
    assert_near(b[0].p95_s, 95e-6, 1e-12);
    assert_near(b[0].prologue, 0.1, 1e-9);
    assert_near(b[0].epilogue, 0.2, 1e-9);
    free(b);
    end();
}

static void put_operand(int64_t node, int64_t output, int64_t storage, double bytes)
{
    mba_row_operand o = mba_no_operand;
    o.node = node, o.output = output, o.storage = storage, o.bytes = bytes;
    assert_ok(mba_put_operand(store, &o));
}

/* The cache has 500 bytes. */
static void a_read_is_within_reach_while_the_cache_holds_it(void **state)
{
    mba_reuse *r;
    int64_t    n;
    (void)state;
    assert_ok(mba_store_create(&store, scratch("reuse.db")));
    put_machine(store);
    put_run(store, 3);
    put_operand(0, 1, 1, 200); // the product writes 1,
    put_operand(1, 0, 1, 200); // read at once: 200 bytes within 500
    put_operand(1, 1, 2, 400);
    put_operand(2, 0, 1, 200); // 400 touched since: 600 do not fit
    assert_ok(mba_store_close(store));
    assert_ok(mba_store_open(&store, scratch("reuse.db")));
    assert_ok(mba_analysis_create(&view, store));
    assert_ok(mba_reuse_of(view, view->l2_bytes, &r, &n));
    assert_int_equal(n, 2);
    for (int i = 0; i < 2; i++) {
        const bool near = !strcmp(r[i].from, "matmul");
        assert_string_equal(r[i].to, near ? "ssd" : "cumsum");
        assert_near(r[i].reach_bytes, near ? 200 : 0, 1e-12);
    }
    free(r);
    end();
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
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times_are_those_of_a_step),
        cmocka_unit_test(a_copy_beside_the_step_is_no_part_of_its_time),
        cmocka_unit_test(a_store_says_what_is_doubtful),
        cmocka_unit_test(warnings_of_a_kind_are_one_line),
        cmocka_unit_test(energy_of_a_short_window_does_not_count),
        cmocka_unit_test(gaps_are_less_what_records_cost),
        cmocka_unit_test(floors_are_the_largest_of_four),
        cmocka_unit_test(every_kernel_has_its_part_of_the_least_work),
        cmocka_unit_test(quantities_follow_from_metrics),
        cmocka_unit_test(classes_are_proved_by_counters),
        cmocka_unit_test(intensity_depends_on_the_convention),
        cmocka_unit_test(both_means_of_bandwidth),
        cmocka_unit_test(vector_bound_by_every_reading),
        cmocka_unit_test(lifetimes_come_from_records),
        cmocka_unit_test(a_read_is_within_reach_while_the_cache_holds_it),
    };
    return cmocka_run_group_tests(tests, prepare, clean);
}
