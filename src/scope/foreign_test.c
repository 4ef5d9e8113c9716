// SPDX-License-Identifier: Apache-2.0
/* foreign_test.c -- what a watched process writes is what the store gets; a damaged trace is refused; counters need few
 * passes. */
#include "scope/foreign_store.h"

#include <unistd.h>

#include "scope/analysis.h"
#include "scope/kernel_names.h"
#include "scope/metrics.h"
#include "scope/trace_file.h"
#include "study/claims.h"
#include "tests/refused_rows.h"
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
    const mba_trace_cost    cost = { .set = "overview", .passes = 1, .seconds = 0.25, .launches = 3 };
    mba_trace_counter_row(&w, &c);
    mba_trace_cost_row(&w, &cost);
    mba_trace_step(&w, "timeline", 0.5, 2000000000);
    mba_trace_step(&w, "attached", 0.375, 2500000000);
    mba_trace_note(&w, "counters", "two\nlines fix: one more");
    mba_trace_end(&w, 0);
}

static void a_trace_becomes_a_store(void **state)
{
    (void)state;
    const char       *trace = scratch("foreign.trace"), *db = scratch("foreign.db");
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
    assert_int_equal(sum.attached.steps, 1);
    assert_near(sum.attached.from_s, 2.125, 1e-9);
    assert_near(sum.attached.to_s, 2.5, 1e-9);

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
    assert_string_equal(note[0].text, "two lines fix: one more");
    assert_string_equal(note[0].fix, "one more");
    assert_non_null(strstr(note[1].text, "90.00 %"));
    assert_ok(mba_store_close(s));
    mba_rules_free(rules);
}

static mba_status read_text(mba_trace_reader *r, const char *text)
{
    FILE            *f = fmemopen((void *)(uintptr_t)text, strlen(text), "r");
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
        "counter 0 1 1 1 1025 1 1 0 1 overview gpu__time_duration.sum 1\n"
    };
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
                                   { HEAD "alive -1 2 1\n", "line 3" },
                                   { HEAD "cost s 1 -1 0\n", "line 3" },
                                   { HEAD "end 99999999999999999999\n", "line 3" } };
    mba_trace_reader  r = { 0 };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_fails(read_text(&r, bad[i][0]), MBA_E_FORMAT, bad[i][1]);
}

/* Of a line that is none, nothing is taken. */
static void the_last_sign_of_life_is_kept(void **state)
{
    (void)state;
    mba_trace_reader r = { .alive_ns = 3 };
    assert_ok(read_text(&r, HEAD "alive 50 60 1\n"));
    assert_true(r.alive_ns == 50 && r.alive_device_ns == 60 && !r.recorded);
    assert_ok(read_text(&r, HEAD "alive 50 60 1\nalive 70 80 0\n"));
    assert_true(r.alive_ns == 70 && r.alive_device_ns == 80 && r.recorded);
    static const char *const bad[] = { "alive 90 99 2\n", "alive 90 -1 1\n", "alive 90\n", "alive\n" };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char text[96];
        snprintf(text, sizeof text, HEAD "alive 70 80 0\n%s", bad[i]);
        assert_fails(read_text(&r, text), MBA_E_FORMAT, "line 4");
        assert_true(r.alive_ns == 70 && r.alive_device_ns == 80 && r.recorded);
    }
}

/* ---- steps that nobody marked ---- */

enum { MADE_MAX = 4096 };
static struct {
    mba_repeated l[MADE_MAX];
    int64_t      n, at_ns;
} made;

static void launch(int32_t symbol, bool updates, int64_t wait_ns)
{
    made.at_ns += wait_ns;
    made.l[made.n] = (mba_repeated){ made.at_ns, made.at_ns + 100, symbol, (uint32_t)made.n + 10, updates };
    made.at_ns += 100;
    made.n++;
}

/* A step of a model with six layers: 2 + 6 x 3 + 1 + 6 x 4 launches, and 3 of the optimizer. */
enum { STEP = 48 };
static void train_step(bool with_optimizer)
{
    launch(1, false, 5);
    launch(2, false, 1);
    for (int i = 0; i < 18; i++) launch(10 + i % 3, false, 1);
    launch(3, false, 1);
    for (int i = 0; i < 24; i++) launch(20 + i % 4, false, 1);
    for (int i = 0; i < 3; i++) launch(with_optimizer ? 30 + i : 40 + i, with_optimizer, 1);
}

static mba_repeats repeats(void)
{
    mba_repeats r;
    assert_ok(mba_repeats_find(&r, made.l, made.n));
    return r;
}

/* Set-up and the first steps are other, the last is cut; with an optimizer every fourth is followed by a log. Layers
 * are no steps, nor are four steps and a log. */
static void a_loop_is_found_in_what_surrounds_it(void **state)
{
    (void)state;
    for (int with_optimizer = 0; with_optimizer < 2; with_optimizer++) {
        made.n = made.at_ns = 0;
        for (int i = 0; i < 100; i++) launch(50 + i % 7, false, 0);
        for (int k = 0; k < 2; k++) {
            for (int i = 0; i < 30; i++) launch(60 + i, false, 0);
            train_step(with_optimizer);
            launch(90 + k, false, 0);
        }
        const int64_t first = made.n;
        for (int k = 0; k < 20; k++) {
            train_step(with_optimizer);
            if (with_optimizer && k % 4 == 3) launch(70, false, 3), launch(71, false, 1);
        }
        for (int i = 0; i < 17; i++) launch(made.l[first + i].symbol, false, 1);
        mba_repeats r = repeats();
        assert_int_equal(r.length, STEP);
        assert_int_equal(r.n, 22); // the two of the beginning are the same in themselves
        assert_int_equal(r.first[2], first);
        assert_int_equal(r.first[5], first + 3 * STEP);
        assert_int_equal(r.first[6], first + 4 * STEP + 2 * with_optimizer);
        assert_true(r.of_time > 0.8 && r.of_time < 0.9);
        mba_repeats_free(&r);
    }
}

static void what_does_not_repeat_is_no_loop(void **state)
{
    uint32_t dice = 7;
    (void)state;
    made.n = made.at_ns = 0;
    for (int i = 0; i < 2000; i++) {
        dice = dice * 1664525u + 1013904223u;
        launch((int32_t)(dice >> 24), false, 1);
    }
    mba_repeats r = repeats();
    assert_int_equal(r.n, 0);
    made.n = 0;
    for (int k = 0; k < 2; k++) train_step(true); // two are a repetition, no loop
    r = repeats();
    assert_int_equal(r.n, 0);
    for (int64_t n = 0; n < 6; n++) {
        made.n = n;
        r = repeats();
        mba_repeats_free(&r);
    }
    made.n = 0;
    for (int i = 0; i < 50; i++) launch(1, false, 1);
    r = repeats();
    assert_int_equal(r.n, 50); // one kernel again and again: a launch is a step
    assert_int_equal(r.length, 1);
    mba_repeats_free(&r);
}

/* Kernels of one call, a graph, are not cut in two. */
static void a_step_begins_with_a_call(void **state)
{
    (void)state;
    made.n = made.at_ns = 0;
    for (int k = 0; k < 5; k++) {
        train_step(false);
        for (int64_t i = k * STEP; i < made.n; i++) made.l[i].correlation = (uint32_t)k + 1;
        for (int64_t i = k * STEP + 5; i < made.n; i++) made.l[i].start_ns += 50 * (i == k * STEP + 5);
    }
    mba_repeats r = repeats();
    assert_int_equal(r.n, 5);
    assert_int_equal(r.first[1], STEP);
    mba_repeats_free(&r);
}

/* ---- names ---- */

static void kernels_of_equal_names_are_told_apart(void **state)
{
    mba_kernel_named k[] = {
        { .symbol = "_ZN7cutlass7Kernel2I36cutlass_80_tensorop_s1688gemm_128x64EEvNT_6ParamsE", .code = { 1, 0, 0 } },
        { .symbol = "_ZN7cutlass7Kernel2I37cutlass_80_tensorop_s16816gemm_256x64EEvNT_6ParamsE", .code = { 1, 0, 0 } },
        { .symbol = "_ZN2at6native18elementwise_kernelILi128ELi4EZNS0_22gpu_kernel_impl_nocastINS0_"
                    "11FillFunctorIfEEEEvvEUliE_EEviT1_",
          .code = { 1, 0, 0 } },
        { .symbol = "_ZN2at6native18elementwise_kernelILi128ELi4EZNS0_22gpu_kernel_impl_nocastINS0_"
                    "11AddsFunctorIfEEEEvvEUliE_EEviT1_",
          .code = { 1, 0, 0 } },
        { .symbol = "_Z6reduceILi128EEvPf", .code = { 1, 0, 0 } },
        { .symbol = "_Z6reduceILi256EEvPf", .code = { 1, 0, 0 } },
        { .symbol = "_scan_kernel", .code = { 64, 0, 0 } },
        { .symbol = "_scan_kernel", .code = { 128, 0, 0 } },
        { .symbol = "_Z5alonei", .code = { 1, 0, 0 } }
    };
    enum { N = sizeof k / sizeof *k };
    (void)state;
    assert_ok(mba_kernel_names(k, N));
    assert_string_equal(k[0].name, "Kernel2<cutlass_80_tensorop_s1688gemm_128x64>");
    assert_string_equal(k[1].name, "Kernel2<cutlass_80_tensorop_s16816gemm_256x64>");
    assert_string_equal(k[2].name, "elementwise_kernel<FillFunctor>");
    assert_string_equal(k[3].name, "elementwise_kernel<AddsFunctor>");
    assert_int_equal(strncmp(k[4].name, "reduce#", 7), 0);
    assert_int_equal(strncmp(k[7].name, "_scan_kernel#", 13), 0);
    assert_string_equal(k[8].name, "alone");
    for (int i = 0; i < N; i++)
        for (int j = 0; j < i; j++) assert_string_not_equal(k[i].name, k[j].name);
}

/* ---- a process that was killed ---- */

static void store_of(const char *trace, const mba_child_end *end, mba_foreign_summary *sum)
{
    mba_rules *rules;
    mba_store *s;
    assert_ok(mba_rules_open(&rules, NULL));
    assert_ok(mba_store_create(&s, scratch("killed.db")));
    assert_ok(mba_env_put_text(s, "run.device", "read", "cuda"));
    assert_ok(mba_foreign_store(s, trace, rules, NULL, end, sum));
    assert_ok(mba_store_close(s));
    mba_rules_free(rules);
}

/* Ten steps of 1 ms, two kernels each, of which one has a name of two; killed 2 ms later by the clock of the host. */
static void write_killed(const char *path, int64_t loops, bool recorded)
{
    static const char *const names[] = { "_Z6reduceILi128EEvPf", "_Z6reduceILi256EEvPf" };
    mba_trace_writer         w;
    assert_ok(mba_trace_create(&w, path));
    for (int64_t i = 0; i < 2 * loops; i++) {
        mba_event e = kernel(names[i % 2], 1000000 + i * 500000, 500000, loops > 2 ? 8 : 8 + (int32_t)i);
        e.step = -1, e.correlation = (uint32_t)i + 1;
        mba_trace_event(&w, &e);
    }
    mba_trace_memory_row(&w, &(mba_trace_memory){ 80000000000, 3000000000, 150000000000 });
    mba_trace_alive(&w, 5000000, 1000000 + loops * 1000000, !recorded);
    fclose(w.f); // killed: there is no end
    mba_events_free(&w.names);
}

static void has_note(const char *topic, const char *words)
{
    mba_store    *s;
    mba_row_note *note;
    int64_t       n;
    bool          found = false;
    assert_ok(mba_store_open(&s, scratch("killed.db")));
    assert_ok(mba_load_note(s, &note, &n));
    for (int64_t i = 0; i < n; i++) found |= !strcmp(note[i].topic, topic) && strstr(note[i].text, words);
    if (!found)
        for (int64_t i = 0; i < n; i++) print_error("%s: %s\n", note[i].topic, note[i].text);
    assert_true(found);
    assert_ok(mba_store_close(s));
}

static void what_is_missing_of_a_killed_process_is_counted(void **state)
{
    const mba_child_end killed = { .code = 137, .signal = 9, .ended_ns = 7000000 };
    mba_foreign_summary sum;
    mba_analysis       *a;
    mba_store          *s;
    (void)state;
    write_killed(scratch("killed.trace"), 10, false);
    store_of(scratch("killed.trace"), &killed, &sum);
    assert_int_equal(sum.events, 20);
    assert_int_equal(sum.loop.n, 10);
    has_note("trace", "20 events of 0.010 s are stored, its last 0.002 s are missing: at most about 4 events");
    has_note("memory", "for 80.00 GB, 3.00 GB of 150.00 GB were free");
    has_note("steps", "10 steps were detected, not marked: the same 2 launches");
    assert_ok(mba_store_open(&s, scratch("killed.db")));
    assert_ok(mba_analysis_create(&a, s));
    assert_int_equal(a->steps, 10);
    assert_near(a->timeline_s, 1e-3, 1e-9);
    assert_near(a->busy_s, 1e-3, 1e-9);
    assert_string_equal(mba_step_word(a), "step");
    assert_int_equal(a->nkernels, 2);
    assert_string_not_equal(a->kernel[0].row->name, a->kernel[1].row->name);
    mba_claim c[MBA_CLAIMS];
    mba_claims_judge(a, c);
    for (int i = 0; i < MBA_CLAIMS; i++) {
        const bool of_any = !strcmp(c[i].id, "F1") || !strcmp(c[i].id, "F3");
        assert_int_equal(c[i].verdict == MBA_NOT_APPLICABLE, !of_any);
        if (!of_any) assert_string_equal(c[i].measured, "the run has no SSM kernels");
    }
    mba_analysis_destroy(a);
    assert_ok(mba_store_close(s));
    write_killed(scratch("counted.trace"), 10, true);
    store_of(scratch("counted.trace"), &killed, &sum);
    has_note("trace", "its timeline is complete");
}

static void a_program_without_a_loop_is_a_whole(void **state)
{
    mba_foreign_summary sum;
    mba_analysis       *a;
    mba_store          *s;
    (void)state;
    write_killed(scratch("whole.trace"), 2, false);
    store_of(scratch("whole.trace"), NULL, &sum);
    assert_int_equal(sum.loop.n, 0);
    has_note("steps", "whole program");
    assert_ok(mba_store_open(&s, scratch("killed.db")));
    assert_ok(mba_analysis_create(&a, s));
    assert_string_equal(mba_step_word(a), "whole program");
    assert_near(a->busy_s, 2e-3, 1e-9);
    mba_analysis_destroy(a);
    assert_ok(mba_store_close(s));
}

/* Whichever row finds no place, the store is not called whole. */
static void a_row_without_a_place_is_an_error(void **state)
{
    (void)state;
    static const mba_machine h200 = {
        .cc = 90, .sm = 132, .warp = 32, .regs_sm = 65536, .threads_sm = 2048, .smem_sm_bytes = 228 << 10
    };
    static const mba_child_end killed = { .code = 137, .signal = 9, .ended_ns = 7000000 };
    mba_rules                 *rules;
    mba_store                 *s;
    write_trace(scratch("told.trace"));
    write_killed(scratch("cut.trace"), 3, false);
    assert_ok(mba_rules_open(&rules, NULL));
    assert_ok(mba_store_create(&s, scratch("refuses.db")));
    for (int i = 0; i < 2; i++) {
        int64_t rows = 0;
        for (bool refused = true; refused; rows += refused) {
            mba_foreign_summary sum;
            refuse_row(s, rows);
            const mba_status st = mba_foreign_store(s, scratch(i ? "cut.trace" : "told.trace"), rules, &h200,
                                                    i ? &killed : NULL, &sum);
            refused = row_was_refused(s);
            if ((st != MBA_OK) != refused)
                fail_msg("row %lld: %s", (long long)rows, refused ? "not told" : mba_message());
        }
        assert_true(rows > 12);
    }
    assert_ok(mba_store_close(s));
    mba_rules_free(rules);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(a_trace_becomes_a_store),
                                        cmocka_unit_test(blocks_that_cannot_be_are_refused),
                                        cmocka_unit_test(a_killed_process_leaves_what_it_wrote),
                                        cmocka_unit_test(a_loop_is_found_in_what_surrounds_it),
                                        cmocka_unit_test(what_does_not_repeat_is_no_loop),
                                        cmocka_unit_test(a_step_begins_with_a_call),
                                        cmocka_unit_test(kernels_of_equal_names_are_told_apart),
                                        cmocka_unit_test(what_is_missing_of_a_killed_process_is_counted),
                                        cmocka_unit_test(a_program_without_a_loop_is_a_whole),
                                        cmocka_unit_test(a_damaged_trace_is_refused),
                                        cmocka_unit_test(the_last_sign_of_life_is_kept),
                                        cmocka_unit_test(a_row_without_a_place_is_an_error) };
    scratch_make();
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    scratch_remove();
    return failed;
}
