// SPDX-License-Identifier: Apache-2.0
/* correlate_test.c -- events of captured steps find their nodes; names, occupancy and units. */
#include "scope/correlate.h"
#include "scope/metrics.h"
#include "scope/occupancy.h"
#include "tests/test.h"

/* Node 0 launches two kernels, node 1 a set and a kernel, node 2 nothing, node 3 one kernel. */
static const mba_node_counts counts[4] = { { { 2, 0, 0 } }, { { 1, 0, 1 } }, { { 0, 0, 0 } }, { { 1, 0, 0 } } };

static void add(mba_events *l, mba_event_kind kind, const char *name, int64_t start, uint32_t correlation, bool graph)
{
    const mba_event e = { .kind = kind,
                          .name = name,
                          .start_ns = start,
                          .end_ns = start + 5,
                          .correlation = correlation,
                          .graph = graph ? 7 : 0,
                          .step = -1,
                          .node = -1,
                          .launch = -1 };
    assert_ok(mba_events_add(l, &e));
}

/* One step, its events in an order in which a profiler might give them. */
static void add_step(mba_events *l, int64_t at, uint32_t correlation)
{
    add(l, MBA_EVENT_COPY, "copy HtoD", at - 50, correlation - 1, false);
    add(l, MBA_EVENT_KERNEL, "d", at + 40, correlation, true);
    add(l, MBA_EVENT_KERNEL, "a", at, correlation, true);
    add(l, MBA_EVENT_KERNEL, "b", at + 10, correlation, true);
    add(l, MBA_EVENT_SET, "set memory", at + 20, correlation, true);
    add(l, MBA_EVENT_KERNEL, "c", at + 30, correlation, true);
    add(l, MBA_EVENT_COPY, "copy DtoH", at + 60, correlation + 1, false);
}

static const mba_event *named(const mba_events *l, const char *name, int32_t step)
{
    for (int64_t i = 0; i < l->n; i++)
        if (!strcmp(l->event[i].name, name) && l->event[i].step == step) return &l->event[i];
    fail_msg("no %s in step %d", name, step);
    return NULL;
}

static void kernels_find_the_node_that_launched_them(void **state)
{
    (void)state;
    mba_events           l = { 0 };
    mba_correlate_report r;
    add_step(&l, 2000, 20);
    add_step(&l, 1000, 10);
    assert_ok(mba_correlate_events(&l, counts, 4, &r));
    assert_int_equal(r.steps, 2);
    assert_int_equal(r.linked, 10);
    assert_int_equal(r.unlinked, 0);
    for (int32_t s = 0; s < 2; s++) {
        const struct {
            const char *name;
            int32_t     node, launch;
        } want[] = { { "a", 0, 0 }, { "b", 0, 1 }, { "set memory", 1, -1 }, { "c", 1, 0 }, { "d", 3, 0 } };
        for (int i = 0; i < 5; i++) {
            const mba_event *e = named(&l, want[i].name, s);
            assert_int_equal(e->node, want[i].node);
            assert_int_equal(e->launch, want[i].launch);
        }
        assert_int_equal(named(&l, "copy HtoD", s)->node, -1);
        assert_int_equal(named(&l, "copy HtoD", s)->start_ns, 1000 * s + 950);
        assert_int_equal(named(&l, "copy DtoH", s)->start_ns, 1000 * s + 1060);
    }
    mba_events_free(&l);
}

/* "b", of the node of "a", took its places when "a" had 2 ns to go; "c", of another node, ran beside it. */
static void what_waits_for_the_launch_before_is_not_counted(void **state)
{
    (void)state;
    mba_events           l = { 0 };
    mba_correlate_report r;
    add(&l, MBA_EVENT_KERNEL, "a", 1000, 10, true);
    add(&l, MBA_EVENT_KERNEL, "b", 1003, 10, true);
    add(&l, MBA_EVENT_SET, "set memory", 1004, 10, true);
    add(&l, MBA_EVENT_KERNEL, "c", 1006, 10, true);
    add(&l, MBA_EVENT_KERNEL, "d", 1020, 10, true);
    assert_ok(mba_correlate_events(&l, counts, 4, &r));
    assert_int_equal(r.unlinked, 0);
    const struct {
        const char *name;
        int64_t     start, end;
    } want[] = { { "a", 1000, 1005 }, { "b", 1005, 1008 }, { "c", 1006, 1011 }, { "d", 1020, 1025 } };
    for (int i = 0; i < 4; i++) {
        assert_int_equal(named(&l, want[i].name, 0)->start_ns, want[i].start);
        assert_int_equal(named(&l, want[i].name, 0)->end_ns, want[i].end);
    }
    mba_events_free(&l);
}

static void a_step_with_other_counts_is_not_linked(void **state)
{
    (void)state;
    mba_events           l = { 0 };
    mba_correlate_report r;
    add_step(&l, 1000, 10);
    add_step(&l, 2000, 20);
    add(&l, MBA_EVENT_KERNEL, "stranger", 2015, 20, true);
    assert_ok(mba_correlate_events(&l, counts, 4, &r));
    assert_int_equal(r.linked, 6); // the first step, and the set of the second
    assert_int_equal(r.unlinked, 5);
    assert_int_equal(r.expected[MBA_EVENT_KERNEL], 4);
    assert_int_equal(r.got[MBA_EVENT_KERNEL], 5);
    assert_int_equal(named(&l, "a", 0)->node, 0);
    assert_int_equal(named(&l, "a", 1)->node, -1);
    assert_int_equal(named(&l, "set memory", 1)->node, 1);
    mba_events_free(&l);
}

static void nothing_is_linked_without_events(void **state)
{
    (void)state;
    mba_events           l = { 0 };
    mba_correlate_report r;
    assert_ok(mba_correlate_events(&l, counts, 4, &r));
    assert_int_equal(r.steps, 0);
    mba_events_free(&l);
}

static void names_are_kept_once(void **state)
{
    (void)state;
    mba_events l = { 0 };
    char       name[16];
    for (int i = 0; i < 3000; i++) {
        snprintf(name, sizeof name, "k%d", i % 1000);
        assert_int_equal(mba_events_name(&l, name), i % 1000);
    }
    assert_int_equal(l.nnames, 1000);
    mba_events_free(&l);
}

static void short_names_are_the_last_identifier(void **state)
{
    (void)state;
    const char *const pair[][2] = {
        { "_Z15rmsnorm_fwd_rowIfLi4EEvPT_PKS1_", "rmsnorm_fwd_row" },
        { "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11FillFunctorIfEEEEviT0_T1_",
          "vectorized_elementwise_kernel" },
        { "_ZL4copyPf", "copy" },
        { "nvjet_sm90_tst_320x128", "nvjet_sm90_tst_320x128" },
        { "_chunk_scan_fwd_kernel", "_chunk_scan_fwd_kernel" },
        { "_Z99short", "_Z99short" },
        { "_Z", "_Z" },
        { "", "" },
        { "_Z99999999999999999999x", "_Z99999999999999999999x" }
    };
    for (size_t i = 0; i < sizeof pair / sizeof *pair; i++) {
        char out[64];
        mba_kernel_short(out, sizeof out, pair[i][0]);
        assert_string_equal(out, pair[i][1]);
    }
    char tight[5];
    mba_kernel_short(tight, sizeof tight, "_Z15rmsnorm_fwd_rowv");
    assert_string_equal(tight, "rmsn");
}

/* Blocks that fit and waves as Nsight Compute gives them on an H200 (peers, section G). */
static void occupancy_is_that_of_nsight(void **state)
{
    (void)state;
    const mba_machine h200 = {
        .cc = 90, .sm = 132, .warp = 32, .regs_sm = 65536, .threads_sm = 2048, .smem_sm_bytes = 228 << 10
    };
    const struct {
        int    regs, threads, smem_kb;
        double blocks, percent, waves;
    } want[] = {
        { 128, 128, 49, 4096, 25, 7.8 },      // chunk_state_fwd
        { 187, 256, 144, 128, 12.5, 0.97 },   // bmm_chunk_fwd
        { 138, 64, 35, 32768, 18.75, 41.4 },  // chunk_scan_fwd
        { 246, 128, 72, 512, 12.5, 1.94 },    // chunk_scan_bwd_dc
        { 96, 128, 36, 4096, 31.25, 6.2 },    // chunk_scan_bwd_dcb
        { 118, 128, 28, 16384, 25, 31.0 },    // chunk_scan_bwd_ddacs_stable
        { 168, 128, 34, 16384, 18.75, 41.4 }, // selective_scan_bwd
        { 32, 256, 0, 16384, 100, 15.5 },     // layer_norm_fwd
    };
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        const mba_occupancy o = mba_occupancy_of(&h200, want[i].regs, want[i].threads, want[i].smem_kb * 1000,
                                                 want[i].blocks);
        assert_near(o.percent, want[i].percent, 0.01);
        assert_near(o.waves, want[i].waves, 0.06);
    }
    const mba_occupancy full = mba_occupancy_of(&h200, 16, 1024, 0, 1e6); // 2048 threads are two blocks
    assert_string_equal(full.limiter, "threads");
    assert_true(full.blocks_per_sm == 2 && full.percent == 100);
    assert_int_equal(mba_occupancy_of(&h200, 16, 1000, 0, 1e6).blocks_per_sm, 2); // 32 warps each, the last not whole
    assert_string_equal(mba_occupancy_of(&h200, 246, 128, 72 << 10, 512).limiter, "registers");
    assert_string_equal(mba_occupancy_of(&h200, 32, 128, 100 << 10, 5120).limiter, "shared memory");
    assert_string_equal(mba_occupancy_of(&h200, 32, 256, 0, 100).limiter, "grid");
    assert_string_equal(mba_occupancy_of(&h200, 16, 32, 0, 1e6).limiter, "blocks");
}

static void metrics_have_units(void **state)
{
    (void)state;
    const char *const pair[][2] = { { "gpu__time_duration.sum", "ns" },
                                    { "dram__bytes_read.sum", "byte" },
                                    { "sm__cycles_elapsed.avg.per_second", "Hz" },
                                    { "l1tex__t_sector_hit_rate.pct", "%" },
                                    { "sm__ops_path_tensor_src_bf16_dst_fp32.sum", "FLOP" },
                                    { "sm__ctas_active.sum", "cycle" },
                                    { "tpc__average_cta_latency.ratio", "cycle" },
                                    { "smsp__average_warps_issue_stalled_wait_per_issue_active.ratio", "1" },
                                    { "sm__sass_thread_inst_executed_op_ffma_pred_on.sum", "thread inst" },
                                    { "smsp__inst_executed.sum", "inst" } };
    for (size_t i = 0; i < sizeof pair / sizeof *pair; i++)
        assert_string_equal(mba_metric_unit(pair[i][0]), pair[i][1]);
    assert_null(mba_metric_set_find("everything"));
    for (const mba_metric_set *s = mba_metric_sets; s->name; s++) assert_true(s->n <= MBA_METRICS_MAX);
}

/* The driver runs a large set as a kernel of its own. */
static void a_set_that_runs_as_a_kernel_is_a_set(void **state)
{
    (void)state;
    mba_events           l = { 0 };
    mba_correlate_report r;
    add(&l, MBA_EVENT_KERNEL, "a", 0, 10, true);
    add(&l, MBA_EVENT_KERNEL, "b", 10, 10, true);
    add(&l, MBA_EVENT_KERNEL, "memset32", 20, 10, true);
    add(&l, MBA_EVENT_KERNEL, "c", 30, 10, true);
    add(&l, MBA_EVENT_KERNEL, "d", 40, 10, true);
    assert_ok(mba_correlate_events(&l, counts, 4, &r));
    assert_int_equal(r.unlinked, 0);
    assert_int_equal(named(&l, "memset32", 0)->kind, MBA_EVENT_SET);
    assert_int_equal(named(&l, "memset32", 0)->node, 1);
    assert_int_equal(named(&l, "c", 0)->node, 1);
    assert_int_equal(named(&l, "c", 0)->launch, 0);
    mba_events_free(&l);
}

/* Sets were captured for each product, and one at the beginning ran for all of them (device/cuda/counters.h). */
static void one_set_for_many_belongs_to_no_node(void **state)
{
    (void)state;
    static const mba_node_counts products[2] = { { { 1, 0, 1 } }, { { 1, 0, 1 } } };
    mba_events                   l = { 0 };
    mba_correlate_report         r;
    add(&l, MBA_EVENT_SET, "set memory", 0, 10, true);
    add(&l, MBA_EVENT_KERNEL, "a", 10, 10, true);
    add(&l, MBA_EVENT_KERNEL, "b", 20, 10, true);
    assert_ok(mba_correlate_events(&l, products, 2, &r));
    assert_int_equal(r.unlinked, 0);
    assert_int_equal(named(&l, "set memory", 0)->node, -1);
    assert_int_equal(named(&l, "a", 0)->node, 0);
    assert_int_equal(named(&l, "b", 0)->node, 1);
    mba_events_free(&l);
}

MBA_TEST_MAIN(cmocka_unit_test(what_waits_for_the_launch_before_is_not_counted),
              cmocka_unit_test(kernels_find_the_node_that_launched_them),
              cmocka_unit_test(a_set_that_runs_as_a_kernel_is_a_set),
              cmocka_unit_test(one_set_for_many_belongs_to_no_node),
              cmocka_unit_test(a_step_with_other_counts_is_not_linked),
              cmocka_unit_test(nothing_is_linked_without_events), cmocka_unit_test(names_are_kept_once),
              cmocka_unit_test(short_names_are_the_last_identifier), cmocka_unit_test(occupancy_is_that_of_nsight),
              cmocka_unit_test(metrics_have_units))
