// SPDX-License-Identifier: Apache-2.0
/* rank_merge_test.c -- two ranks whose waits, transfers and exposed communication are worked out by hand; clocks of
 * ranks; stores that cannot be merged. */
#include "tests/scratch.h"
#include "tests/test.h"

#include "cluster/box.h"
#include "scope/rank_merge.h"
#include "scope/ranks.h"

static void put_graph(mba_store *s, const char *first)
{
    const char *const op[] = { first, "reduce_scatter" }, *const kind[] = { "gemm", "collective" };
    for (int64_t i = 0; i < 2; i++) {
        mba_row_node n = mba_no_node;
        n.id = i, n.op = op[i], n.kind = kind[i], n.shape = "f32 8";
        assert_ok(mba_put_node(s, &n));
    }
    mba_row_operand o = mba_no_operand;
    o.node = 1, o.output = 0, o.bytes = 8000;
    assert_ok(mba_put_operand(s, &o));
}

static void put_event(mba_store *s, int64_t rank, int64_t node, int64_t start, int64_t duration)
{
    assert_ok(mba_put_rank_event(s, &(mba_row_rank_event){
                                        .rank = rank, .node = node, .start_ns = start, .duration_ns = duration }));
}

/* Rank 0 computes from 0 to 1000 and is in the collective from 800 to 2000, rank 1 from 0 to 1500 and from 1500 to
 * 2000: the last starts at 1500. */
static void waits_transfers_and_overlap_are_as_worked_out(void **state)
{
    mba_store *s;
    mba_ranks *r;
    (void)state;
    assert_ok(mba_store_create(&s, scratch("two.db")));
    put_graph(s, "matmul");
    for (int64_t k = 0; k < 2; k++) assert_ok(mba_put_rank(s, &(mba_row_rank){ .id = k, .host = "here" }));
    put_event(s, 0, 0, 0, 1000), put_event(s, 0, 1, 800, 1200);
    put_event(s, 1, 0, 0, 1500), put_event(s, 1, 1, 1500, 500);
    assert_ok(mba_store_close(s));
    assert_ok(mba_store_open(&s, scratch("two.db")));
    assert_ok(mba_ranks_read(&r, s));
    assert_non_null(r);
    assert_true(r->ranks == 2 && r->steps == 1 && r->ncollectives == 1 && r->arrivals == 1);
    assert_true(fabs(r->rank[0].wait_s - 700e-9) < 1e-15 && r->rank[1].wait_s == 0);
    assert_true(fabs(r->rank[0].exposed_s - 1000e-9) < 1e-15 && fabs(r->rank[0].comm_s - 1200e-9) < 1e-15);
    assert_true(fabs(r->rank[1].exposed_s - 500e-9) < 1e-15 && fabs(r->rank[1].step_s - 2000e-9) < 1e-15);
    assert_true(r->straggler == 1 && r->rank[1].last == 1 && r->residual_s == 0);
    assert_true(fabs(r->skew_s - 700e-9) < 1e-15 && fabs(r->collective[0].transfer_s - 500e-9) < 1e-15);
    assert_true(fabs(r->collective[0].bus_gbs - 8) < 1e-9); // half of 8000 bytes in 500 ns
    mba_ranks_free(r);
    assert_ok(mba_store_close(s));
}

static void what_a_rank_did_not_record_is_absent(void **state)
{
    mba_store *s;
    mba_ranks *r;
    (void)state;
    assert_ok(mba_store_create(&s, scratch("half.db")));
    put_graph(s, "matmul");
    for (int64_t k = 0; k < 2; k++) assert_ok(mba_put_rank(s, &(mba_row_rank){ .id = k, .host = "here" }));
    put_event(s, 0, 0, 0, 1000), put_event(s, 0, 1, 800, 1200);
    put_event(s, 1, 0, 0, 1500);
    assert_ok(mba_store_close(s));
    assert_ok(mba_store_open(&s, scratch("half.db")));
    assert_ok(mba_ranks_read(&r, s));
    assert_true(r->arrivals == 0 && isnan(r->skew_s) && isnan(r->rank[0].wait_s) && isnan(r->rank[1].wait_s));
    const mba_collective_view *c = &r->collective[0];
    assert_true(isnan(c->skew_s) && isnan(c->wait_s) && isnan(c->transfer_s) && isnan(c->bus_gbs));
    mba_ranks_free(r);
    assert_ok(mba_store_close(s));
}

static void a_store_of_one_rank_has_no_ranks(void **state)
{
    mba_store *s;
    mba_ranks *r;
    (void)state;
    assert_ok(mba_store_create(&s, scratch("one.db")));
    put_graph(s, "matmul");
    assert_ok(mba_store_close(s));
    assert_ok(mba_store_open(&s, scratch("one.db")));
    assert_ok(mba_ranks_read(&r, s));
    assert_null(r);
    assert_ok(mba_store_close(s));
}

static void an_event_of_a_rank_that_is_not_there_is_refused(void **state)
{
    mba_store *s;
    mba_ranks *r;
    (void)state;
    assert_ok(mba_store_create(&s, scratch("bad.db")));
    put_graph(s, "matmul");
    for (int64_t k = 0; k < 2; k++) assert_ok(mba_put_rank(s, &(mba_row_rank){ .id = k, .host = "here" }));
    put_event(s, 2, 0, 0, 1000);
    assert_ok(mba_store_close(s));
    assert_ok(mba_store_open(&s, scratch("bad.db")));
    assert_int_equal(mba_ranks_read(&r, s), MBA_E_FORMAT);
    assert_null(r);
    assert_ok(mba_store_close(s));
}

/* Threads of one process have one clock: the offset is within half a round trip of 0. */
static mba_status compare(mba_world *w, void *ctx)
{
    mba_rank_clocks c;
    (void)ctx;
    MBA_TRY(mba_rank_clocks_compare(&c, w));
    for (int k = 1; k < w->ranks && w->rank == 0; k++) {
        assert_true(c.round_trip_ns[k] > 0 && 2 * llabs(c.offset_ns[k]) <= c.round_trip_ns[k] + 2);
        assert_true(*c.host[k]);
    }
    mba_rank_clocks_free(&c);
    return MBA_OK;
}

static void clocks_of_one_host_agree(void **state)
{
    (void)state;
    assert_ok(mba_box_run(4, compare, NULL));
}

static void stores_of_other_graphs_do_not_merge(void **state)
{
    int64_t               zero[2] = { 0 };
    char                  host[2][MBA_RANK_HOST] = { "a", "b" }, path[512];
    const mba_rank_clocks clocks = { zero, zero, host };
    mba_store            *s, *other;
    (void)state;
    assert_ok(mba_store_create(&s, scratch("into.db")));
    put_graph(s, "matmul");
    assert_int_equal(mba_rank_merge(s, 2, scratch("into.db"), &clocks, &clocks), MBA_E_IO); // there is no second
    assert_non_null(strstr(mba_message(), "fix: --out on a file system that all ranks share"));
    assert_ok(mba_store_close(s));
    assert_ok(mba_store_create(&s, scratch("into.db")));
    put_graph(s, "matmul");
    assert_true(mba_rank_store_path(path, sizeof path, scratch("into.db"), 1));
    assert_non_null(strstr(path, "into.rank-0001.db"));
    assert_ok(mba_store_create(&other, path));
    put_graph(other, "conv1d");
    assert_ok(mba_store_close(other));
    assert_int_equal(mba_rank_merge(s, 2, scratch("into.db"), &clocks, &clocks), MBA_E_ARG);
    assert_non_null(strstr(mba_message(), "operator 0 is conv1d, not matmul"));
    assert_ok(mba_store_close(s));
}

static int prepare(void **state)
{
    (void)state;
    return scratch_make() == NULL;
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
        cmocka_unit_test(waits_transfers_and_overlap_are_as_worked_out),
        cmocka_unit_test(what_a_rank_did_not_record_is_absent),
        cmocka_unit_test(a_store_of_one_rank_has_no_ranks),
        cmocka_unit_test(an_event_of_a_rank_that_is_not_there_is_refused),
        cmocka_unit_test(clocks_of_one_host_agree),
        cmocka_unit_test(stores_of_other_graphs_do_not_merge),
    };
    return cmocka_run_group_tests(tests, prepare, clean);
}
