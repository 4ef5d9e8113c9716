/* foreign_test.c -- what a watched process writes is what the store gets; a damaged trace is refused; counters need few passes. */
#include "scope/foreign_store.h"

#include <unistd.h>

#include "scope/metrics.h"
#include "scope/trace_file.h"
#include "tests/scratch.h"
#include "tests/test.h"

static mba_event kernel(const char *name, int64_t start, int64_t ns, int32_t blocks)
{
    return (mba_event){ .kind = MBA_EVENT_KERNEL,
                        .name = name,
                        .start_ns = start,
                        .end_ns = start + ns,
                        .grid = { blocks, 1, 1 },
                        .block = { 128, 1, 1 },
                        .cluster = { 1, 1, 1 },
                        .regs = 32,
                        .smem_static = 16,
                        .smem_dynamic = 1024,
                        .local = 8,
                        .stream = 7,
                        .correlation = 3,
                        .step = start > 6500 ? 1 : -1 };
}

static void write_trace(const char *path)
{
    mba_trace_writer w;
    assert_ok(mba_trace_create(&w, path));
    const mba_event e[] = {
        kernel("_chunk_scan_fwd_kernel", 5000, 300, 64),
        kernel("nobody_knows", 6000, 100, 1),
        kernel("_chunk_scan_fwd_kernel", 7000, 500, 64),
        kernel("_chunk_scan_fwd_kernel", 8000, 100, 32),
        { .kind = MBA_EVENT_COPY, .name = "copy HtoD", .start_ns = 4000, .end_ns = 4100, .bytes = 4096, .stream = 7 }
    };
    for (size_t i = 0; i < sizeof e / sizeof *e; i++) mba_trace_event(&w, &e[i]);
    const mba_trace_counter c = { .name = "_chunk_scan_fwd_kernel",
                                  .set = "overview",
                                  .metric = "dram__bytes_read.sum",
                                  .grid = { 64, 1, 1 },
                                  .block = { 128, 1, 1 },
                                  .smem_dynamic = 1024,
                                  .launches = 2,
                                  .value = 1234.5 };
    const mba_trace_cost cost = { .set = "overview", .passes = 1, .seconds = 0.25, .launches = 3 };
    mba_trace_counter_row(&w, &c);
    mba_trace_cost_row(&w, &cost);
    mba_trace_step(&w, "timeline", 0.5);
    mba_trace_step(&w, "attached", 0.375);
    mba_trace_note(&w, "counters", "two\nlines");
    mba_trace_end(&w, 0);
}

static void a_trace_becomes_a_store(void **state)
{
    (void)state;
    const char         *trace = scratch("foreign.trace"), *db = scratch("foreign.db");
    const mba_machine h200 = {
        .cc = 90, .sm = 132, .warp = 32, .regs_sm = 65536, .threads_sm = 2048, .smem_sm_bytes = 228 << 10
    };
    mba_rules          *rules;
    mba_store          *s;
    mba_foreign_summary sum;
    write_trace(trace);
    assert_ok(mba_rules_open(&rules, NULL));
    assert_ok(mba_store_create(&s, db));
    assert_ok(mba_foreign_store(s, trace, rules, &h200, NULL, &sum));
    assert_ok(mba_store_close(s));
    assert_int_equal(sum.events, 5);
    assert_int_equal(sum.kernels, 3);
    assert_true(sum.complete);
    assert_near(sum.classified_ns / sum.busy_ns, 0.9, 1e-9);

    mba_row_kernel  *k;
    mba_row_event   *e;
    mba_row_counter *c;
    mba_row_note    *note;
    int64_t          n;
    assert_ok(mba_store_open(&s, db));
    assert_ok(mba_load_kernel(s, &k, &n));
    assert_int_equal(n, 3);
    assert_string_equal(k[0].op, "chunk_scan_fwd");
    assert_string_equal(k[0].kind, "ssm");
    assert_string_equal(k[0].phase, "forward");
    assert_int_equal(k[0].blocks_per_sm, 16);
    assert_null(k[1].kind);
    assert_int_equal(k[2].grid_x, 32);
    assert_ok(mba_load_event(s, &e, &n));
    assert_int_equal(n, 5);
    assert_int_equal(e[0].start_ns, 1000);
    assert_int_equal(e[0].step, MBA_ABSENT);
    assert_int_equal(e[2].step, 1);
    assert_int_equal(e[2].kernel, 0);
    assert_int_equal(e[3].kernel, 2);
    assert_string_equal(e[4].what, "copy");
    assert_int_equal(e[4].start_ns, 0);
    assert_int_equal(e[4].kernel, MBA_ABSENT);
    assert_ok(mba_load_counter(s, &c, &n));
    assert_int_equal(n, 1);
    assert_int_equal(c[0].kernel, 0);
    assert_near(c[0].value, 1234.5, 0);
    mba_row_step *step;
    assert_ok(mba_load_step(s, &step, &n));
    assert_int_equal(n, 2);
    assert_string_equal(step[1].mode, "attached");
    assert_near(step[1].seconds, 0.375, 0);
    assert_ok(mba_load_note(s, &note, &n));
    assert_int_equal(n, 2);
    assert_string_equal(note[0].text, "two lines");
    assert_non_null(strstr(note[1].text, "90.00 %"));
    assert_ok(mba_store_close(s));
    mba_rules_free(rules);
}

static mba_status read_text(mba_trace_reader *r, const char *text)
{
    FILE *f = fmemopen((void *)(uintptr_t)text, strlen(text), "r");
    const mba_status st = mba_trace_read(r, "text", f);
    fclose(f);
    return st;
}

static mba_status count(void *ctx, const mba_event *e)
{
    (void)e;
    ++*(int *)ctx;
    return MBA_OK;
}

#define HEAD "mambascope-trace 2\nname 0 k\n"
#define LINE "kernel 0 -1 1 2 7 0 3 0 0 1 1 1 32 1 1 0 0 0 16 0 0 0\n"

/* Three factors of a block or a cluster that no GPU has would not fit into their product. */
static void blocks_that_cannot_be_are_refused(void **state)
{
    static const char *const lines[] = {
        "kernel 0 -1 1 2 0 0 0 0 0 1 1 1 2147483647 2147483647 2147483647 1 1 1 32 0 0 0\n",
        "kernel 0 -1 1 2 0 0 0 0 0 1 1 1 32 1 1 2147483647 2147483647 2147483647 32 0 0 0\n",
        "counter 0 1 1 1 1025 1 1 0 1 overview gpu__time_duration.sum 1\n" };
    (void)state;
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        const char      *path = scratch("hostile.trace");
        mba_trace_reader r = { .event = NULL };
        FILE            *f = fopen(path, "w+");
        assert_non_null(f);
        fprintf(f, "mambascope-trace 2\nname 0 k\n%s", lines[i]);
        rewind(f);
        assert_fails(mba_trace_read(&r, path, f), MBA_E_FORMAT, "line 3");
        fclose(f);
    }
}

static void a_killed_process_leaves_what_it_wrote(void **state)
{
    (void)state;
    int              n = 0;
    mba_trace_reader r = { .ctx = &n, .event = count };
    assert_ok(read_text(&r, HEAD LINE LINE "kernel 0 -1 1 2 7"));
    assert_int_equal(n, 2);
    assert_false(r.complete);
    assert_ok(read_text(&r, HEAD LINE "end 3\n"));
    assert_true(r.complete);
    assert_int_equal(r.dropped, 3);
}

static void a_damaged_trace_is_refused(void **state)
{
    (void)state;
    const char *const bad[][2] = { { "mambascope-trace 1\n", "line 1" },
                                   { HEAD "kernel 1 -1 1 2 7 0 3 0 0 1 1 1 32 1 1 0 0 0 16 0 0 0\n", "line 3" },
                                   { HEAD "kernel 0 -1 2 1 7 0 3 0 0 1 1 1 32 1 1 0 0 0 16 0 0 0\n", "line 3" },
                                   { HEAD "kernel 0 1 2\n", "line 3" },
                                   { HEAD "name 2 x\n", "line 3" },
                                   { HEAD "what\n", "line 3" },
                                   { HEAD "end 0\n" LINE, "follows the end" },
                                   { HEAD "counter 0 1 1 1 1 1 1 0 0 s m 1\n", "line 3" },
                                   { HEAD "memory 1 2\n", "line 3" },
                                   { HEAD "alive -1 2\n", "line 3" },
                                   { HEAD "cost s 1 -1 0\n", "line 3" },
                                   { HEAD "end 99999999999999999999\n", "line 3" } };
    mba_trace_reader r = { 0 };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_fails(read_text(&r, bad[i][0]), MBA_E_FORMAT, bad[i][1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(a_trace_becomes_a_store),
                                        cmocka_unit_test(blocks_that_cannot_be_are_refused),
                                        cmocka_unit_test(a_killed_process_leaves_what_it_wrote),
                                        cmocka_unit_test(a_damaged_trace_is_refused) };
    scratch_make();
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    scratch_remove();
    return failed;
}
