// SPDX-License-Identifier: Apache-2.0
/* figures_test.c -- numbers of single figures, of stores so small that they can be worked out on paper. */
#include <string.h>

#include "report/report.h"
#include "tests/scratch.h"
#include "tests/test.h"

static void put_event(mba_store *s, int64_t id, const char *phase, int64_t start_ns, int64_t duration_ns)
{
    mba_row_event e = mba_no_event;
    e.id = id, e.what = "kernel", e.stream = 7, e.step = 0, e.kernel = 0, e.node = 0, e.phase = phase,
    e.start_ns = start_ns, e.duration_ns = duration_ns;
    assert_ok(mba_put_event(s, &e));
}

/* One SSM kernel of 100 least bytes; 2000 bytes of DRAM, where they are counted, in 1 us. */
static mba_store *make(const char *name, const char *batch, double units, bool counted)
{
    mba_store     *s;
    mba_row_node   n = mba_no_node;
    mba_row_kernel k = mba_no_kernel;
    assert_ok(mba_store_create(&s, scratch(name)));
    assert_ok(mba_env_put_text(s, "run.device", "given", "cuda"));
    assert_ok(mba_env_put_text(s, "run.workload", "given", "made-up"));
    assert_ok(mba_env_put_number(s, "run.units", "given", units, "tokens"));
    assert_ok(mba_put_parameter(s, &(mba_row_parameter){ "batch", batch, "" }));
    n.id = 0, n.op = "ssd", n.kind = "ssm", n.tensor_flops = 0, n.vector_flops = 1, n.special_ops = 0,
    n.read_bytes = 100, n.write_bytes = 0;
    k.id = 0, k.name = "ssd_scan", k.op = "ssd", k.kind = "ssm";
    assert_ok(mba_put_node(s, &n));
    assert_ok(mba_put_kernel(s, &k));
    const struct {
        const char *metric;
        double      value;
    } of[] = { { "gpu__time_duration.sum", 1000 }, { "dram__bytes_read.sum", 2000 }, { "dram__bytes_write.sum", 0 } };
    for (int i = 0; counted && i < 3; i++)
        assert_ok(mba_put_counter(s, &(mba_row_counter){ .kernel = 0, .metric = of[i].metric, .value = of[i].value }));
    return s;
}

static mba_buf csv_of(const char *figure, int n)
{
    const char *path[2];
    char        name[2][512];
    mba_stores  r;
    mba_buf     b = { 0 };
    for (int i = 0; i < n; i++) {
        snprintf(name[i], sizeof name[i], "%s", scratch(i ? "b.db" : "a.db"));
        path[i] = name[i];
    }
    assert_ok(mba_stores_open(&r, path, n));
    assert_ok(mba_report_csv(&b, &r, figure));
    assert_ok(mba_stores_close(&r));
    return b;
}

static void has_line(const mba_buf *b, const char *line)
{
    if (!strstr(b->s, line)) fail_msg("no '%s' in:\n%s", line, b->s);
}

/* Four kernels of 1 us: the second begins 0.4 us before the first ends, the third 0.5 us behind the second. */
static void idle_is_what_nobody_fills(void **state)
{
    (void)state;
    mba_store *s = make("a.db", "batch 1 x length 4", 4, false);
    put_event(s, 0, "forward", 0, 1000);
    put_event(s, 1, "forward", 600, 1000);
    put_event(s, 2, "backward", 2100, 1000);
    put_event(s, 3, "no phase", 3100, 1000);
    assert_ok(mba_store_close(s));
    mba_buf b = csv_of("timeline", 1);
    has_line(&b, ",the step,4,0,4.1,4,0.5,12.195122\n");
    has_line(&b, ",forward,2,0,1.6,2,0,0\n");
    has_line(&b, ",not known,1,3.1,4.1,1,,\n");
    mba_buf_free(&b);
}

/* The least bytes over the time are not what DRAM moved. */
static void bandwidths_beside_each_other_are_counted(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        mba_store *s = make(i ? "b.db" : "a.db", i ? "batch 1 x length 8" : "batch 1 x length 4", i ? 8 : 4, i == 0);
        put_event(s, 0, "forward", 0, 1000);
        assert_ok(mba_store_close(s));
    }
    mba_buf b = csv_of("fig11", 2);
    has_line(&b, ",4,,0.25,,2,0.002\n");
    has_line(&b, ",8,,0.125,,,\n");
    mba_buf_free(&b);
}

/* The same model twice, at another size or computed otherwise, on two GPUs: no line, no ladder and no peer. */
static void gpus_are_not_mixed(void **state)
{
    static const char *const figures[] = { "fig11", "fig12" };
    (void)state;
    for (int same = 0; same < 2; same++)
        for (int f = 0; f < 2; f++) {
            const char *path[2];
            char        name[2][512];
            mba_stores  r;
            mba_buf     b = { 0 };
            for (int i = 0; i < 2; i++) {
                mba_store *s = make(i ? "b.db" : "a.db", i && !f ? "batch 1 x length 8" : "batch 1 x length 4",
                                    i && !f ? 8 : 4, false);
                assert_ok(mba_env_put_text(s, "gpu.name", "read", "%s", i && !same ? "GPU B" : "GPU A"));
                put_event(s, 0, "forward", 0, 1000);
                assert_ok(mba_store_close(s));
                snprintf(name[i], sizeof name[i], "%s", scratch(i ? "b.db" : "a.db"));
                path[i] = name[i];
            }
            assert_ok(mba_stores_open(&r, path, 2));
            assert_int_equal(mba_report_csv(&b, &r, figures[f]), same ? MBA_OK : MBA_E_ARG);
            assert_ok(mba_stores_close(&r));
            mba_buf_free(&b);
        }
}

/* Of a program that is not ours: one kernel that moved 2000 bytes in 1 us, at 1e10 bytes a second; a step took 5 us
 * with our library in it, of which the kernel is one. */
static void make_foreign(bool doubtful)
{
    mba_store     *s;
    mba_row_kernel k = mba_no_kernel;
    assert_ok(mba_store_create(&s, scratch("a.db")));
    assert_ok(mba_env_put_text(s, "run.device", "given", "cuda"));
    assert_ok(mba_env_put_text(s, "run.workload", "given", "made-up"));
    assert_ok(
        mba_put_ceiling(s, &(mba_row_ceiling){ .name = "dram", .rate = 1e10, .unit = "byte/s", .how = "measured" }));
    assert_ok(
        mba_put_ceiling(s, &(mba_row_ceiling){ .name = "tensor", .rate = 1, .unit = "FLOP/s", .how = "measured" }));
    assert_ok(mba_put_step(s, &(mba_row_step){ .mode = "attached", .place = 0, .seconds = 5e-6, .units = NAN }));
    k.id = 0, k.name = "their_scan", k.op = "their_scan", k.kind = "ssm";
    assert_ok(mba_put_kernel(s, &k));
    assert_ok(mba_put_counter(s, &(mba_row_counter){ .kernel = 0, .metric = "dram__bytes_read.sum", .value = 2000 }));
    assert_ok(mba_put_counter(s, &(mba_row_counter){ .kernel = 0, .metric = "dram__bytes_write.sum", .value = 0 }));
    put_event(s, 0, "forward", 0, 1000);
    if (doubtful) { // of fewer layers, in a second step that takes longer
        assert_ok(
            mba_env_put_text(s, "run.command", "given", "mambascope profile -- python3 train.py --layers 4 --batch 8"));
        assert_ok(mba_put_step(s, &(mba_row_step){ .mode = "attached", .place = 1, .seconds = 6e-6, .units = NAN }));
    }
    assert_ok(mba_store_close(s));
}

/* What a program executed is not the least there is to do, and its kernels are not its step. */
static void a_foreign_program_has_no_least_work_and_no_step_without_profiler(void **state)
{
    mba_stores  r;
    mba_buf     b = { 0 };
    const char *path = scratch("a.db");
    (void)state;
    make_foreign(false);
    assert_ok(mba_stores_open(&r, &path, 1));
    assert_near(mba_bounds_of(r.run[0].a, MBA_ALL_KERNELS).percent_of_floor, 20, 1e-9);
    assert_true(isnan(mba_percent_of_least(r.run[0].a, MBA_ALL_KERNELS)));
    assert_true(isnan(r.run[0].a->plain_spread_s));
    assert_ok(mba_report_page(&b, &r));
    has_line(&b, "The executed work (the least work is unknown) at the ceilings");
    has_line(&b, "<b>0.005 ms</b> with our library attached and nothing recorded");
    assert_null(strstr(b.s, "of their floor, the time for the least work at the measured ceilings"));
    const char *overview = strstr(b.s, "id=\"overview\""), *end = strstr(overview, "Times of a step");
    const char *kernels = strstr(overview, ">0.001 ms<"); // of kernels, where the step belongs
    assert_true(end && (!kernels || kernels > end));
    mba_buf_free(&b);
    assert_ok(mba_report_summary(&b, &r));
    has_line(&b, "\"percent_of_floor\": null");
    mba_buf_free(&b);
    assert_ok(mba_stores_close(&r));
}

/* Nothing tells steps apart and nothing is an SSM: no step is spoken of, and no claim about SSM is judged. */
static void a_program_without_loop_and_ssm_is_called_so(void **state)
{
    mba_store     *s;
    mba_stores     r;
    mba_buf        b = { 0 };
    mba_row_kernel k = mba_no_kernel;
    const char    *path = scratch("a.db");
    (void)state;
    assert_ok(mba_store_create(&s, path));
    assert_ok(mba_env_put_text(s, "run.device", "given", "cuda"));
    assert_ok(mba_env_put_text(s, "run.loop", "found", "whole program"));
    assert_ok(mba_env_put_text(s, "run.ended", "read", "was ended by signal 9 (Killed)"));
    assert_ok(mba_env_put_number(s, "run.exit_code", "read", 137, ""));
    assert_ok(mba_env_put_number(s, "run.missing", "measured", 0.25, "s"));
    k.id = 0, k.name = "their_gemm", k.op = "gemm", k.kind = "gemm";
    assert_ok(mba_put_kernel(s, &k));
    put_event(s, 0, "forward", 0, 1000);
    assert_ok(mba_store_close(s));
    assert_ok(mba_stores_open(&r, &path, 1));
    assert_ok(mba_report_page(&b, &r));
    has_line(&b, "\u00b7 the whole program<");
    has_line(&b, "whole program: no loop was found in it");
    has_line(&b, "interrupted: the program was ended by signal 9 (Killed); its last 0.250 s are missing");
    has_line(&b, "The whole program is ");
    has_line(&b, "Measured: the whole run of an external program");
    has_line(&b, "Not applicable: the run has no SSM kernels.");
    has_line(&b, " of the kernel time; there are no SSM kernels.");
    assert_null(strstr(b.s, "step profiled"));
    mba_buf_free(&b);
    assert_ok(mba_stores_close(&r));
}

/* A banner on top and a line under every figure; a peer of fewer layers is called so; values that share memory may be
 * more than the plan. */
static void a_page_says_what_to_doubt(void **state)
{
    mba_stores  r;
    mba_store  *s;
    mba_buf     b = { 0 };
    const char *path[2];
    char        name[2][512];
    (void)state;
    make_foreign(true);
    assert_ok(mba_store_create(&s, scratch("b.db")));
    mba_row_node n = mba_no_node;
    n.id = 0, n.op = "add", n.kind = "element-wise", n.phase = "forward";
    assert_ok(mba_put_node(s, &n));
    mba_row_operand o = mba_no_operand;
    o.node = 0, o.storage = 0, o.tensor = 0, o.role = "activations", o.bytes = 40e9, o.output = 0, o.slot = "x";
    assert_ok(mba_put_operand(s, &o));
    assert_ok(
        mba_put_parameter(s, &(mba_row_parameter){ .name = "plan_bytes", .value = "39000000000", .meaning = "" }));
    assert_ok(mba_env_put_text(s, "run.workload", "given", "other"));
    assert_ok(mba_env_put_text(s, "throttled.plain", "read", "thermal (software)"));
    put_event(s, 0, "forward", 0, 1000);
    assert_ok(mba_store_close(s));
    for (int i = 0; i < 2; i++)
        snprintf(name[i], sizeof name[i], "%s", scratch(i ? "b.db" : "a.db")), path[i] = name[i];
    assert_ok(mba_stores_open(&r, path, 2));
    assert_string_equal(r.run[0].label, "made-up, 4 layers");
    assert_ok(mba_report_page(&b, &r));
    has_line(&b, "<p>made-up, 4 layers: step times spread by 18 %: 0.005 to 0.006 ms");
    has_line(&b,
             "id=\"doubts\"><p>other: clocks were throttled: the GPU ran below its highest clock (thermal (software))");
    has_line(&b, "<br><a href=\"#doubts\">with steps that spread</a>");
    mba_buf summary = { 0 };
    assert_ok(mba_report_summary(&summary, &r));
    has_line(&summary, "\"doubts\": [\"step times spread by 18 %");
    mba_buf_free(&summary);
    has_line(&b, "A step needs 39 GB; tensors of 40 GB are live at its peak, at add: some share memory");
    mba_buf_free(&b);
    assert_ok(mba_stores_close(&r));
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
    const struct CMUnitTest tests[] = { cmocka_unit_test(idle_is_what_nobody_fills),
                                        cmocka_unit_test(bandwidths_beside_each_other_are_counted),
                                        cmocka_unit_test(gpus_are_not_mixed),
                                        cmocka_unit_test(a_page_says_what_to_doubt),
                                        cmocka_unit_test(a_program_without_loop_and_ssm_is_called_so),
                                        cmocka_unit_test(
                                            a_foreign_program_has_no_least_work_and_no_step_without_profiler) };
    return cmocka_run_group_tests(tests, prepare, clean);
}
