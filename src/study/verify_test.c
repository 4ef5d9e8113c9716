// SPDX-License-Identifier: Apache-2.0
/* verify_test.c -- plans against counters: two launches that share their items, and an L2 that delays writes. */
#include "study/verify.h"

#include "tests/scratch.h"
#include "tests/test.h"

enum { L2 = 100 };

static mba_store *store;

static void put_launch(int64_t id, int64_t node, int64_t place, const char *kernel, double tensor, double loads,
                       double stores)
{
    mba_row_launch l = mba_no_launch;
    l.id = id, l.node = node, l.place = place, l.kernel = kernel, l.tensor_flops = tensor, l.load_bytes = loads,
    l.store_bytes = stores, l.least_bytes = loads + stores;
    assert_ok(mba_put_launch(store, &l));
}

static void put_kernel(int64_t id, int64_t node, int64_t launch, double tensor, double reads, double writes)
{
    const struct {
        const char *metric;
        double      value;
    } counter[] = { { "sm__ops_path_tensor_src_bf16_dst_fp32.sum", tensor },
                    { "sm__ops_path_tensor_src_fp8.sum", 0 },
                    { "dram__bytes_read.sum", reads },
                    { "dram__bytes_write.sum", writes } };
    mba_row_kernel k = mba_no_kernel;
    mba_row_event  e = mba_no_event;
    k.id = id, k.name = "k";
    assert_ok(mba_put_kernel(store, &k));
    e.id = id, e.what = "kernel", e.kernel = id, e.node = node, e.launch = launch, e.step = 0, e.start_ns = 100 * id,
    e.duration_ns = 50;
    assert_ok(mba_put_event(store, &e));
    for (size_t i = 0; i < sizeof counter / sizeof *counter; i++)
        assert_ok(mba_put_counter(store, &(mba_row_counter){ .kernel = id,
                                                             .metric = counter[i].metric,
                                                             .value = counter[i].value,
                                                             .metric_set = "roofline",
                                                             .launches = 1 }));
}

static void put_node(int64_t id, double reads, double writes)
{
    mba_row_node n = mba_no_node;
    n.id = id, n.op = "op", n.kind = "ssm", n.phase = "forward", n.read_bytes = reads, n.write_bytes = writes;
    assert_ok(mba_put_node(store, &n));
}

static mba_verification *verified(const char *name, mba_analysis **a, int64_t n)
{
    mba_verification *v;
    int64_t           have;
    assert_ok(mba_store_close(store));
    assert_ok(mba_store_open(&store, scratch(name)));
    assert_ok(mba_analysis_create(a, store));
    assert_ok(mba_verify(&v, &have, *a));
    assert_int_equal(have, n);
    return v;
}

static void begin(const char *name)
{
    assert_ok(mba_store_create(&store, scratch(name)));
    assert_ok(mba_env_put_text(store, "run.device", "given", "cuda"));
    assert_ok(mba_env_put_number(store, "gpu.l2", "given", L2, "byte"));
}

static void end(mba_analysis *a, mba_verification *v)
{
    free(v);
    mba_analysis_destroy(a);
    assert_ok(mba_store_close(store));
}

/* Variant `fma` of ssd multiplies in TF32. Without a counter of that its zero is no result, with one it is. */
static void products_that_no_counter_has_are_not_judged(void **state)
{
    (void)state;
    static const struct {
        const char   *kernel;
        double        tf32; /* NaN: not collected */
        mba_agreement tensor;
    } of[] = { { "chunk_scan_fwd_fma", NAN, MBA_NOT_JUDGED },
               { "chunk_scan_fwd_fma", 64, MBA_AGREES },
               { "chunk_scan_fwd_fma", 63, MBA_DIFFERS },
               { "chunk_scan_fwd", NAN, MBA_DIFFERS },
               { "_fma_more", NAN, MBA_DIFFERS } };
    enum { N = sizeof of / sizeof *of };
    mba_analysis *a;
    begin("tf32.db");
    for (int i = 0; i < N; i++) {
        put_node(i, 10, 10);
        put_launch(i, i, 0, of[i].kernel, 64, 1, 1);
        put_kernel(i, i, i, 0, 1, 1);
        if (isnan(of[i].tf32)) continue;
        const mba_row_counter c = { .kernel = i,
                                    .metric = "sm__ops_path_tensor_src_tf32_dst_fp32.sum",
                                    .value = of[i].tf32,
                                    .metric_set = "roofline",
                                    .launches = 1 };
        assert_ok(mba_put_counter(store, &c));
    }
    mba_verification *v = verified("tf32.db", &a, N);
    for (int i = 0; i < N; i++) assert_int_equal(v[i].tensor, of[i].tensor);
    assert_true(isnan(v[0].tensor_measured));
    end(a, v);
}

/* Node 0: a pair whose sum is right; node 1: one that lacks a FLOP; node 2: other names, so nothing is shared. */
static void launches_that_share_items_are_judged_by_their_sum(void **state)
{
    (void)state;
    static const char *const name[3][2] = { { "walk", "walk" }, { "walk", "walk" }, { "walk", "other" } };
    static const double      measured[3][2] = { { 3, 61 }, { 3, 60 }, { 3, 61 } };
    mba_analysis            *a;
    begin("shared.db");
    for (int64_t i = 0; i < 3; i++) {
        put_node(i, 10, 10);
        put_launch(2 * i, i, 0, name[i][0], 0, 1, 1);
        put_launch(2 * i + 1, i, 1, name[i][1], 64, 1, 1);
        put_kernel(2 * i, i, 2 * i, measured[i][0], 1, 1);
        put_kernel(2 * i + 1, i, 2 * i + 1, measured[i][1], 1, 1);
    }
    mba_verification *v = verified("shared.db", &a, 6);
    for (int i = 0; i < 6; i++) {
        assert_int_equal(v[i].shared, i < 4);
        assert_int_equal(v[i].tensor, i < 2 ? MBA_AGREES : MBA_DIFFERS);
        assert_int_equal(v[i].bytes, MBA_NOT_JUDGED); // two bytes are less than twice the L2
    }
    assert_near(v[2].tensor_ratio, 63.0 / 64, 1e-12);
    assert_true(isinf(v[4].tensor_ratio));
    end(a, v);
}

/* 500 bytes read, 300 written. Half of the L2 is 50. */
static void writes_may_lag_by_half_the_cache(void **state)
{
    (void)state;
    static const struct {
        double        reads, writes;
        mba_agreement want;
    } of[] = { { 500, 300, MBA_AGREES }, { 480, 320, MBA_AGREES },  { 500, 276, MBA_AGREES }, { 470, 276, MBA_DIFFERS },
               { 480, 251, MBA_LAGS },   { 480, 249, MBA_DIFFERS }, { 520, 349, MBA_LAGS },   { 520, 351, MBA_DIFFERS },
               { 300, 500, MBA_AGREES }, { 540, 310, MBA_DIFFERS } };
    enum { N = sizeof of / sizeof *of };
    mba_analysis *a;
    begin("lags.db");
    for (int64_t i = 0; i < N; i++) {
        put_node(i, 500, 300);
        put_launch(i, i, 0, "stream", 0, 500, 300);
        put_kernel(i, i, i, 0, of[i].reads, of[i].writes);
    }
    mba_verification *v = verified("lags.db", &a, N);
    for (int i = 0; i < N; i++)
        if (v[i].bytes != of[i].want) fail_msg("case %d: %d instead of %d", i, v[i].bytes, of[i].want);
    end(a, v);
}

/* 500 bytes read of which the launch before has touched `recent`, loads in all; 300 written. */
static void reads_may_be_in_the_cache_or_come_again(void **state)
{
    (void)state;
    static const struct {
        double        recent, loads, reads, writes;
        mba_agreement want;
    } of[] = { { 0, 500, 440, 300, MBA_DIFFERS },   { 30, 500, 448, 300, MBA_KEPT },
               { 30, 500, 446, 300, MBA_DIFFERS },  { 400, 500, 428, 300, MBA_KEPT },
               { 400, 500, 427, 300, MBA_DIFFERS }, { 30, 500, 448, 249, MBA_DIFFERS },
               { 0, 600, 590, 300, MBA_AGAIN },     { 0, 600, 601, 300, MBA_DIFFERS },
               { 0, 600, 590, 355, MBA_DIFFERS },   { 30, 500, 490, 300, MBA_AGREES } };
    enum { N = sizeof of / sizeof *of };
    mba_analysis *a;
    begin("reads.db");
    for (int64_t i = 0; i < N; i++) {
        mba_row_launch l = mba_no_launch;
        put_node(i, 500, 300);
        l.id = l.node = i, l.place = 0, l.kernel = "stream", l.tensor_flops = 0, l.load_bytes = of[i].loads,
        l.store_bytes = 300, l.least_bytes = 800, l.recent_bytes = of[i].recent;
        assert_ok(mba_put_launch(store, &l));
        put_kernel(i, i, i, 0, of[i].reads, of[i].writes);
    }
    mba_verification *v = verified("reads.db", &a, N);
    double            writes = 0;
    for (int i = 0; i < N; i++) {
        if (v[i].bytes != of[i].want) fail_msg("case %d: %d instead of %d", i, v[i].bytes, of[i].want);
        writes += of[i].writes;
    }
    assert_near(mba_verified_writes(a), writes / (300 * N), 1e-12);
    end(a, v);
}

static void put_settled(int64_t kernel, double reads, double writes)
{
    const struct {
        const char *metric;
        double      value;
    } of[] = { { "settled__dram_bytes_read.sum", reads }, { "settled__dram_bytes_write.sum", writes } };
    for (int i = 0; i < 2; i++)
        assert_ok(mba_put_counter(store, &(mba_row_counter){ .kernel = kernel,
                                                             .metric = of[i].metric,
                                                             .value = of[i].value,
                                                             .metric_set = "settled",
                                                             .launches = 1 }));
}

/* 500 bytes read, 600 loaded, 300 written; in a step 40 of these lag. With a cold L2 nothing may lag. */
static void between_sweeps_nothing_lags(void **state)
{
    (void)state;
    static const struct {
        double        reads, writes;
        mba_agreement want;
    } of[] = { { 500, 300, MBA_AGREES },  { 470, 310, MBA_AGREES }, { 500, 251, MBA_DIFFERS },
               { 450, 300, MBA_DIFFERS }, { 590, 300, MBA_AGAIN },  { 601, 300, MBA_DIFFERS },
               { 590, 350, MBA_DIFFERS } };
    enum { N = sizeof of / sizeof *of };
    mba_analysis *a;
    begin("settled.db");
    for (int64_t i = 0; i <= N; i++) {
        mba_row_launch l = mba_no_launch;
        put_node(i, 500, 300);
        l.id = l.node = i, l.place = 0, l.kernel = "stream", l.tensor_flops = 0, l.load_bytes = 600,
        l.store_bytes = 300, l.least_bytes = 800;
        assert_ok(mba_put_launch(store, &l));
        put_kernel(i, i, i, 0, 500, 255);
        if (i < N) put_settled(i, of[i].reads, of[i].writes);
    }
    mba_verification *v = verified("settled.db", &a, N + 1);
    for (int i = 0; i < N; i++) {
        if (v[i].settled != of[i].want) fail_msg("case %d: %d instead of %d", i, v[i].settled, of[i].want);
        assert_near(v[i].settled_bytes, of[i].reads + of[i].writes, 0);
        assert_int_equal(v[i].bytes, MBA_LAGS);
    }
    assert_int_equal(v[N].settled, MBA_NOT_JUDGED); // a store of an earlier version
    assert_true(isnan(v[N].settled_ratio));
    end(a, v);
}

/* Kernels that skip decayed chunks may do less work than planned, never more; no other kernel may. */
static void states_that_are_forgotten_may_be_left_out(void **state)
{
    (void)state;
    static const struct {
        const char   *kernel;
        double        measured;
        mba_agreement want;
    } of[] = { { "ssd_states", 64, MBA_AGREES },
               { "ssd_states_rev", 40, MBA_AT_MOST },
               { "ssd_states", 65, MBA_DIFFERS },
               { "ssd_scan", 40, MBA_DIFFERS },
               { "ssd_scan_rev_split", 40, MBA_AT_MOST } };
    enum { N = sizeof of / sizeof *of };
    mba_analysis *a;
    begin("forgets.db");
    for (int64_t i = 0; i < N; i++) {
        put_node(i, 10, 10);
        put_launch(i, i, 0, of[i].kernel, 64, 1, 1);
        put_kernel(i, i, i, of[i].measured, 1, 1);
    }
    mba_verification *v = verified("forgets.db", &a, N);
    for (int i = 0; i < N; i++) assert_int_equal(v[i].tensor, of[i].want);
    end(a, v);
}

static void put_data(int64_t kernel, double flops)
{
    assert_ok(mba_put_counter(store, &(mba_row_counter){ .kernel = kernel,
                                                         .metric = "data__tensor_flops.sum",
                                                         .value = flops,
                                                         .metric_set = "data",
                                                         .launches = 1 }));
}

/* If the store has the work counted from the data, the kernel must match it exactly. */
static void what_data_decides_is_exact_where_it_was_counted(void **state)
{
    (void)state;
    static const struct {
        double        data, measured;
        mba_agreement want;
    } of[] = { { 40, 40, MBA_AGREES }, { 40, 39, MBA_DIFFERS }, { 40, 64, MBA_DIFFERS }, { 64, 64, MBA_AGREES } };
    enum { N = sizeof of / sizeof *of };
    mba_analysis *a;
    begin("data.db");
    for (int64_t i = 0; i < N; i++) {
        put_node(i, 10, 10);
        put_launch(i, i, 0, "ssd_states", 64, 1, 1);
        put_kernel(i, i, i, of[i].measured, 1, 1);
        put_data(i, of[i].data);
    }
    mba_verification *v = verified("data.db", &a, N);
    for (int i = 0; i < N; i++) {
        assert_int_equal(v[i].tensor, of[i].want);
        assert_near(v[i].tensor_expected, of[i].data, 0);
        assert_true(v[i].by_data);
    }
    end(a, v);
}

/* The plan of ssd_bwd_slow has no products: what the data decides is not known without a count from the data. */
static void products_of_wide_range_heads_are_judged_by_the_data(void **state)
{
    (void)state;
    static const struct {
        const char   *kernel;
        double        data, measured;
        mba_agreement want;
    } of[] = { { "ssd_bwd_slow", NAN, 40, MBA_NOT_JUDGED },   { "ssd_bwd_slow", NAN, 0, MBA_NOT_JUDGED },
               { "ssd_tiled_slow", NAN, 40, MBA_NOT_JUDGED }, { "ssd_bwd_slow", 40, 40, MBA_AGREES },
               { "ssd_tiled_slow", 40, 39, MBA_DIFFERS },     { "ssd_bwd_slow", 0, 40, MBA_DIFFERS },
               { "ssd_finish", NAN, 40, MBA_DIFFERS } };
    enum { N = sizeof of / sizeof *of };
    mba_analysis *a;
    begin("slow.db");
    for (int64_t i = 0; i < N; i++) {
        put_node(i, 10, 10);
        put_launch(i, i, 0, of[i].kernel, 0, 1, 1);
        put_kernel(i, i, i, of[i].measured, 1, 1);
        if (!isnan(of[i].data)) put_data(i, of[i].data);
    }
    mba_verification *v = verified("slow.db", &a, N);
    for (int i = 0; i < N; i++) assert_int_equal(v[i].tensor, of[i].want);
    end(a, v);
}

/* Each of two launches of an operator is expected to move the bytes of its own plan. */
static void launches_of_one_operator_have_their_own_bytes(void **state)
{
    (void)state;
    mba_analysis *a;
    begin("two.db");
    put_node(0, 9999, 9999);
    put_launch(0, 0, 0, "first", 0, 500, 300);
    put_launch(1, 0, 1, "second", 0, 300, 20);
    put_kernel(0, 0, 0, 0, 500, 310);
    put_kernel(1, 0, 1, 0, 500, 310);
    mba_verification *v = verified("two.db", &a, 2);
    assert_int_equal(v[0].bytes, MBA_AGREES);
    assert_int_equal(v[1].bytes, MBA_DIFFERS);
    assert_near(v[1].bytes_expected, 320, 0);
    assert_near(mba_verified_writes(a), (310 + 310) / (300.0 + 20), 1e-12);
    end(a, v);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(launches_that_share_items_are_judged_by_their_sum),
                                        cmocka_unit_test(products_that_no_counter_has_are_not_judged),
                                        cmocka_unit_test(writes_may_lag_by_half_the_cache),
                                        cmocka_unit_test(reads_may_be_in_the_cache_or_come_again),
                                        cmocka_unit_test(between_sweeps_nothing_lags),
                                        cmocka_unit_test(states_that_are_forgotten_may_be_left_out),
                                        cmocka_unit_test(what_data_decides_is_exact_where_it_was_counted),
                                        cmocka_unit_test(products_of_wide_range_heads_are_judged_by_the_data),
                                        cmocka_unit_test(launches_of_one_operator_have_their_own_bytes) };
    scratch_make();
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    scratch_remove();
    return failed;
}
