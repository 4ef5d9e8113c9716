// SPDX-License-Identifier: Apache-2.0
/* claims_test.c -- claims that need two stores: which two may be set beside each other. verdicts_test has verdicts. */
#include <string.h>

#include "study/claims.h"
#include "tests/scratch.h"
#include "tests/test.h"

/* One SSM kernel that takes `seconds` and moves `bytes`; a block of it lives `lives` ms. */
typedef struct made {
    const char *op, *workload, *gpu, *parameters, *batch, *foreign;
    double      units, lives, found, flops, seconds, bytes; /* found: bytes of the 100 of C B^T that L2 still holds */
} made;
static const made base = { "ssd", "mamba2", "GPU A", "1000", "batch 4 x length 16", NULL, 64, 1, 90, 100, 1, 1000 };

typedef struct opened {
    mba_store    *store;
    mba_analysis *a;
} opened;

static void put_counter(mba_store *s, const char *metric, double value)
{
    assert_ok(mba_put_counter(s, &(mba_row_counter){ .metric = metric, .value = value, .launches = 1 }));
}

static void put_counters(mba_store *s, const made *m)
{
    put_counter(s, "dram__bytes_read.sum", m->bytes);
    put_counter(s, "dram__bytes_write.sum", 0);
    put_counter(s, "settled__dram_bytes_read.sum", m->bytes + m->found);
    put_counter(s, "sm__ctas_active.sum", m->lives);
    put_counter(s, "sm__ctas_launched.sum", 1);
    put_counter(s, "sm__cycles_elapsed.avg.per_second", 1000);
}

static void put_run(mba_store *s, const made *m)
{
    mba_row_node   n = mba_no_node;
    mba_row_kernel k = mba_no_kernel;
    mba_row_event  e = mba_no_event;
    n.id = 0, n.op = m->op, n.kind = "ssm", n.tensor_flops = m->flops, n.vector_flops = 0, n.special_ops = 0,
    n.read_bytes = 10, n.write_bytes = 0;
    k.id = 0, k.name = "chunk_scan_fwd", k.op = m->op, k.kind = "ssm";
    e.id = 0, e.what = "kernel", e.start_ns = 0, e.duration_ns = (int64_t)(1e9 * m->seconds), e.stream = 7, e.step = 0,
    e.kernel = 0, e.node = 0;
    assert_ok(mba_put_node(s, &n));
    assert_ok(mba_put_kernel(s, &k));
    if (m->seconds > 0) assert_ok(mba_put_event(s, &e));
    put_counters(s, m);
    k.id = 1, k.name = "bmm_chunk_fwd";
    assert_ok(mba_put_kernel(s, &k));
    assert_ok(mba_put_counter(s, &(mba_row_counter){
                                     .kernel = 1, .metric = "dram__bytes_write.sum", .value = 100, .launches = 1 }));
}

static void put_sheet(mba_store *s, const made *m)
{
    assert_ok(mba_env_put_text(s, "run.device", "given", "cuda"));
    assert_ok(mba_env_put_text(s, "run.workload", "given", "%s", m->workload));
    assert_ok(mba_env_put_text(s, "gpu.name", "read", "%s", m->gpu));
    assert_ok(mba_env_put_number(s, "run.units", "given", m->units, "tokens"));
    if (m->foreign) assert_ok(mba_env_put_text(s, "run.foreign", "given", "%s", m->foreign));
    if (m->parameters) assert_ok(mba_put_parameter(s, &(mba_row_parameter){ "parameters", m->parameters, "" }));
    if (m->batch) assert_ok(mba_put_parameter(s, &(mba_row_parameter){ "batch", m->batch, "" }));
}

static opened make(const char *name, const made *m)
{
    opened o = { NULL, NULL };
    assert_ok(mba_store_create(&o.store, scratch(name)));
    put_sheet(o.store, m);
    put_run(o.store, m);
    assert_ok(mba_store_close(o.store));
    assert_ok(mba_store_open(&o.store, scratch(name)));
    assert_ok(mba_analysis_create(&o.a, o.store));
    return o;
}

static void drop(opened o)
{
    mba_analysis_destroy(o.a);
    assert_ok(mba_store_close(o.store));
}

static mba_claim judged(int claim, made x, made y)
{
    mba_claim    c[MBA_CLAIMS];
    const opened a = make("x.db", &x), b = make("y.db", &y);
    a.a->beside = &b.a;
    a.a->nbeside = 1;
    mba_claims_judge(a.a, c);
    drop(a);
    drop(b);
    return c[claim - 1];
}

/* Blocks live longer in a longer sequence too, and on a slower GPU: neither is the intervention. */
static void an_intervention_changes_nothing_else(void **state)
{
    made longer = base, m;
    (void)state;
    longer.lives = 2, longer.seconds = 0.5;
    assert_int_equal(judged(5, base, longer).verdict, MBA_REPRODUCED);
    assert_int_equal(judged(5, longer, base).verdict, MBA_REPRODUCED);
    m = longer, m.units = 128;
    assert_int_equal(judged(5, base, m).verdict, MBA_OPEN);
    m = longer, m.batch = "batch 1 x length 64";
    assert_int_equal(judged(5, base, m).verdict, MBA_OPEN);
    m = longer, m.gpu = "GPU B";
    assert_int_equal(judged(5, base, m).verdict, MBA_OPEN);
    m = longer, m.parameters = "500"; // two layers of four
    assert_int_equal(judged(5, base, m).verdict, MBA_OPEN);
    m = longer, m.workload = "mamba1";
    assert_int_equal(judged(5, base, m).verdict, MBA_OPEN);
    m = longer, m.parameters = m.batch = NULL, m.foreign = "python3"; // another program: its kernels are others
    assert_int_equal(judged(5, base, m).verdict, MBA_OPEN);
}

/* The study says that short lives are the cause of low bandwidth. A variant that moves half of the bytes may be fast
 * for that; one that moves the same bytes no faster, with blocks that live twice as long, refutes it. */
static void a_cause_is_shown_by_lifetime_alone(void **state)
{
    made m = base;
    (void)state;
    m.lives = 2;
    assert_int_equal(judged(5, base, m).verdict, MBA_REFUTED);
    m.seconds = 1.03;
    assert_int_equal(judged(5, base, m).verdict, MBA_REFUTED);
    m.seconds = 0.97;
    assert_int_equal(judged(5, base, m).verdict, MBA_DEPENDS); // a rise, but not by a tenth
    m.seconds = 0.9;
    assert_int_equal(judged(5, base, m).verdict, MBA_REPRODUCED);
    m.seconds = 0.25, m.bytes = 500; // twice the bandwidth
    assert_int_equal(judged(5, base, m).verdict, MBA_OPEN);
    assert_non_null(strstr(judged(5, base, m).measured, "0.50 times the bytes: not by lifetime alone"));
    assert_non_null(strstr(judged(5, base, m).needs, "lifetime alone"));
}

static void reuse_is_followed_in_one_program(void **state)
{
    made larger = base, m;
    (void)state;
    larger.units = 1024, larger.batch = "batch 64 x length 16", larger.found = 49;
    assert_int_equal(judged(9, base, larger).verdict, MBA_REPRODUCED);
    assert_string_equal(judged(9, base, larger).cell, "90 → 49");
    m = larger, m.found = 50;
    assert_int_equal(judged(9, base, m).verdict, MBA_DEPENDS); // less, but half of it is still there
    m.found = 90;
    assert_int_equal(judged(9, base, m).verdict, MBA_REFUTED); // reuse does not stop
    m = base, m.found = 40;
    assert_int_equal(judged(9, m, larger).verdict, MBA_REFUTED); // there is none to begin with
    m = larger, m.foreign = "python3";
    assert_int_equal(judged(9, base, m).verdict, MBA_OPEN);
    m = larger, m.gpu = "GPU B";
    assert_int_equal(judged(9, base, m).verdict, MBA_OPEN);
}

static void scan_and_matrices_are_of_like_size(void **state)
{
    made scan = base, m;
    (void)state;
    scan.op = "selective_scan", scan.workload = "mamba1", scan.flops = 50, scan.parameters = "1200";
    assert_int_equal(judged(10, base, scan).verdict, MBA_REFUTED); // more FLOPs in the same time
    m = scan, m.seconds = 1.5;
    assert_int_equal(judged(10, base, m).verdict, MBA_REPRODUCED);
    assert_int_equal(judged(10, m, base).verdict, MBA_REPRODUCED); // whichever is judged
    m.flops = 200;
    assert_int_equal(judged(10, base, m).verdict, MBA_DEPENDS); // faster with fewer FLOPs: nothing is traded
    m = scan, m.seconds = 1.5, m.units = 128;
    assert_int_equal(judged(10, base, m).verdict, MBA_OPEN);
    m = scan, m.parameters = "2000";
    assert_int_equal(judged(10, base, m).verdict, MBA_OPEN);
    assert_non_null(strstr(judged(10, base, m).needs, "equal sizes"));
    m = scan, m.gpu = "GPU B";
    assert_int_equal(judged(10, base, m).verdict, MBA_OPEN);
    m = scan, m.foreign = "python3";
    assert_int_equal(judged(10, base, m).verdict, MBA_OPEN);
}

/* The store that is judged need not be one of the pair that decides. */
static void an_intervention_is_found_among_several(void **state)
{
    (void)state;
    made      short_lived = base, persistent = base, fused = base;
    mba_claim c[MBA_CLAIMS];
    persistent.lives = 7, fused.lives = 6, fused.bytes = 500, fused.seconds = 0.4;
    const opened  a = make("a.db", &fused), b = make("b.db", &short_lived), p = make("p.db", &persistent);
    mba_analysis *beside[] = { b.a, p.a };
    a.a->beside = beside, a.a->nbeside = 2;
    mba_claims_judge(a.a, c);
    assert_int_equal(c[4].verdict, MBA_REFUTED);
    assert_near(c[4].number[1], 7, 1e-9);
    mba_claims_judge_own(a.a, c); // no pair with the fused kernels isolates the lifetime
    assert_int_equal(c[4].verdict, MBA_OPEN);
    assert_string_equal(c[4].cell, "n/a");
    drop(a), drop(b), drop(p);
}

/* A store of step times alone is open, whatever the stores beside it would say of each other. */
static void a_store_without_a_timeline_is_open(void **state)
{
    (void)state;
    made      untimed = base, scan = base;
    mba_claim c[MBA_CLAIMS];
    untimed.seconds = 0, scan.op = "selective_scan", scan.workload = "mamba1", scan.flops = 50, scan.seconds = 1.5;
    const opened  a = make("a.db", &untimed), b = make("b.db", &base), p = make("p.db", &scan);
    mba_analysis *beside[] = { b.a, p.a };
    a.a->beside = beside, a.a->nbeside = 2;
    mba_claims_judge(a.a, c);
    assert_int_equal(c[9].verdict, MBA_OPEN);
    assert_string_equal(c[9].needs, "a timeline");
    drop(a), drop(b), drop(p);
}

/* What nobody counted is not a number, and is not printed as one. */
static void no_number_is_printed_that_is_none(void **state)
{
    made scan = base;
    (void)state;
    scan.op = "selective_scan", scan.workload = "mamba1", scan.flops = NAN;
    const mba_claim c = judged(10, base, scan);
    assert_int_equal(c.verdict, MBA_OPEN);
    assert_null(strstr(c.measured, "nan"));
    assert_non_null(strstr(c.measured, "matrices"));
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
        cmocka_unit_test(an_intervention_changes_nothing_else),
        cmocka_unit_test(a_cause_is_shown_by_lifetime_alone),
        cmocka_unit_test(reuse_is_followed_in_one_program),
        cmocka_unit_test(scan_and_matrices_are_of_like_size),
        cmocka_unit_test(no_number_is_printed_that_is_none),
        cmocka_unit_test(an_intervention_is_found_among_several),
        cmocka_unit_test(a_store_without_a_timeline_is_open),
    };
    return cmocka_run_group_tests(tests, prepare, clean);
}
