// SPDX-License-Identifier: Apache-2.0
/* claims_test.c -- claims that need two stores: which two may be set beside each other. verdicts_test has verdicts. */
#include <string.h>

#include "study/claims.h"
#include "tests/scratch.h"
#include "tests/test.h"

/* One SSM kernel that takes `seconds` and moves `bytes`; a block of it lives `lives` ms. */
typedef struct made {
    const char *op, *workload, *gpu, *parameters, *batch, *foreign, *variant;
    double      units, lives, found, flops, seconds, bytes; /* found: bytes of the 100 of C B^T that L2 still holds */
    double      watts;                                      /* power limit; 0: none */
} made;
static const made base = { "ssd", "mamba2", "GPU A", "1000", "batch 4 x length 16", NULL, NULL, 64, 1, 90,
                           100,   1,        1000,    0 };

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
    if (isnan(m->flops)) return; // FLOPs as executed
    put_counter(s, "sm__ops_path_tensor_src_bf16_dst_fp32.sum", m->flops);
    for (int i = 0; i < 6; i++) {
        static const char *const op[] = { "ffma", "fadd", "fmul", "hfma", "hadd", "hmul" };
        char                     name[96];
        snprintf(name, sizeof name, "sm__sass_thread_inst_executed_op_%s_pred_on.sum", op[i]);
        put_counter(s, name, 0);
    }
}

static void put_run(mba_store *s, const made *m)
{
    mba_row_node   n = mba_no_node;
    mba_row_kernel k = mba_no_kernel;
    mba_row_event  e = mba_no_event;
    n.id = 0, n.op = m->op, n.variant = m->variant, n.kind = "ssm", n.tensor_flops = m->flops, n.vector_flops = 0,
    n.special_ops = 0, n.read_bytes = 10, n.write_bytes = 0;
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
    if (m->watts > 0) assert_ok(mba_env_put_number(s, "run.power_limit", "given", m->watts, "W"));
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
    m = longer, m.watts = 400; // and at other clocks
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
    m.seconds = 0.98;                                          // as much as steps vary
    assert_int_equal(judged(5, base, m).verdict, MBA_REFUTED);
    assert_non_null(strstr(judged(5, base, m).sensitivity, "depends with any gain as a rise"));
    m.seconds = 1 / 0.995;
    assert_string_equal(judged(5, base, m).cell, "0.995");
    assert_non_null(strstr(judged(5, base, m).measured, "at 0.995 times the bandwidth"));
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
    assert_string_equal(judged(9, base, larger).cell, "≤90 → ≤49");
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
    scan.variant = "tiles";                                        // of the baseline, as base is
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
    m = scan, m.batch = "batch 1 x length 64";
    assert_int_equal(judged(10, base, m).verdict, MBA_OPEN);
    m = scan, m.watts = 400;
    assert_int_equal(judged(10, base, m).verdict, MBA_OPEN);
}

/* An optimized scan beside the baseline's matrices would say what the optimization gained. */
static void scan_and_matrices_are_of_one_set_of_kernels(void **state)
{
    (void)state;
    made scan = base, matrix = base;
    scan.op = "selective_scan", scan.workload = "mamba1", scan.flops = 50, scan.seconds = 0.5;
    scan.variant = "specialized";
    assert_int_equal(judged(10, matrix, scan).verdict, MBA_OPEN);
    assert_non_null(strstr(judged(10, matrix, scan).needs, "one set of kernels"));
    scan.variant = "tiles";
    assert_int_equal(judged(10, matrix, scan).verdict, MBA_REFUTED);
    matrix.variant = "persistent";
    assert_int_equal(judged(10, matrix, scan).verdict, MBA_OPEN);
    matrix.variant = NULL, matrix.foreign = scan.foreign = "python3";
    assert_int_equal(judged(10, matrix, scan).verdict, MBA_REFUTED);
}

/* ---- the order of stores ---- */

enum { SET_MAX = 16 };

static void same_claims(const mba_claim *x, const mba_claim *y)
{
    for (int i = 0; i < MBA_CLAIMS; i++) {
        assert_int_equal(x[i].verdict, y[i].verdict);
        assert_int_equal(x[i].here, y[i].here);
        assert_string_equal(x[i].cell, y[i].cell);
        assert_string_equal(x[i].measured, y[i].measured);
        assert_string_equal(x[i].sensitivity, y[i].sensitivity);
    }
}

/* Judges the first store with the others in every rotation, forwards and backwards. */
static void judge_in_all_orders(const opened *set, int n, int first)
{
    mba_claim     c[2][MBA_CLAIMS], again[MBA_CLAIMS];
    mba_analysis *beside[SET_MAX], a = *set[first].a;
    assert_in_range(n, 2, SET_MAX);
    for (int turn = 0; turn < 2 * n; turn++) {
        a.beside = beside, a.nbeside = 0;
        for (int i = 0; i < n; i++) {
            const int at = turn < n ? (turn + i) % n : (2 * n + turn - i) % n;
            if (at != first) beside[a.nbeside++] = set[at].a;
        }
        assert_int_equal(a.nbeside, n - 1);
        mba_claims_judge(&a, turn ? again : c[0]);
        if (turn) same_claims(again, c[0]);
        mba_claims_judge_own(&a, turn ? again : c[1]);
        if (turn) same_claims(again, c[1]);
    }
}

/* Several scans and matrices of one set at different speeds; variants that differ in nothing but the life of blocks;
 * two stores at the smallest size. */
static void made_stores_may_come_in_any_order(void **state)
{
    (void)state;
    made   m[9];
    opened set[9];
    for (int i = 0; i < 9; i++) m[i] = base;
    for (int i = 1; i < 4; i++) {
        m[i].op = "selective_scan", m[i].workload = "mamba1", m[i].variant = "tiles", m[i].flops = 50 + i;
        m[i].seconds = i == 2 ? 1.2 : 1.5;
    }
    m[4].lives = 4, m[5].lives = 7, m[5].seconds = 0.9, m[6].lives = 6, m[6].bytes = 500;
    for (int i = 7; i < 9; i++) m[i].units = 32, m[i].batch = "batch 2 x length 16", m[i].found = 90 - i;
    for (int i = 0; i < 9; i++) {
        char name[16];
        snprintf(name, sizeof name, "%d.db", i);
        set[i] = make(name, &m[i]);
    }
    for (int i = 0; i < 9; i++) judge_in_all_orders(set, 9, i);
    for (int i = 0; i < 9; i++) drop(set[i]);
}

static void the_suite_may_come_in_any_order(void **state)
{
    static const char *const names[] = {
        "mamba2",          "mamba1",           "mamba2-chunked",   "mamba2-chunked-short",   "mamba2-persistent",
        "mamba2-bc_fused", "mamba_ssm-mamba1", "mamba_ssm-mamba2", "mamba_ssm-mamba2-short", "hybrid"
    };
    enum { N = sizeof names / sizeof *names };
    opened set[N];
    (void)state;
    for (int i = 0; i < N; i++) {
        char path[96];
        snprintf(path, sizeof path, "tests/data/stores/suite/%s.db", names[i]);
        assert_ok(mba_store_open(&set[i].store, path));
        assert_ok(mba_analysis_create(&set[i].a, set[i].store));
    }
    for (int i = 0; i < N; i++) judge_in_all_orders(set, N, i);
    for (int i = 0; i < N; i++) drop(set[i]);
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
    assert_string_equal(c[4].cell, "open");
    drop(a), drop(b), drop(p);
}

/* Persistent blocks whose tiles are taken in another way differ in more than their lifetime; with all three ways there,
 * the static one decides. */
static void lifetime_alone_is_that_of_static_tiles(void **state)
{
    static const char *const more[] = { "persistent_dynamic", "persistent_prefetch" };
    (void)state;
    made      short_lived = base, still = base, other = base;
    mba_claim c[MBA_CLAIMS];
    short_lived.variant = "chunked", still.variant = "persistent";
    still.lives = 5, other.lives = 7, other.seconds = 0.5;
    for (int i = 0; i < 2; i++) {
        other.variant = more[i];
        const opened  a = make("a.db", &short_lived), b = make("b.db", &other), p = make("p.db", &still);
        mba_analysis *beside[] = { b.a, p.a };
        a.a->beside = beside, a.a->nbeside = 1;
        mba_claims_judge(a.a, c);
        assert_int_equal(c[4].verdict, MBA_OPEN);
        assert_non_null(strstr(c[4].measured, "not by lifetime alone"));
        a.a->nbeside = 2;
        mba_claims_judge(a.a, c);
        assert_int_equal(c[4].verdict, MBA_REFUTED);
        assert_near(c[4].number[1], 5, 1e-9);
        drop(a), drop(b), drop(p);
    }
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
    scan.op = "selective_scan", scan.workload = "mamba1", scan.variant = "tiles", scan.flops = NAN;
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
        cmocka_unit_test(scan_and_matrices_are_of_one_set_of_kernels),
        cmocka_unit_test(made_stores_may_come_in_any_order),
        cmocka_unit_test(the_suite_may_come_in_any_order),
        cmocka_unit_test(no_number_is_printed_that_is_none),
        cmocka_unit_test(an_intervention_is_found_among_several),
        cmocka_unit_test(lifetime_alone_is_that_of_static_tiles),
        cmocka_unit_test(a_store_without_a_timeline_is_open),
    };
    return cmocka_run_group_tests(tests, prepare, clean);
}
