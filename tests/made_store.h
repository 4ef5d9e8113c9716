// SPDX-License-Identifier: Apache-2.0
/* made_store.h -- for tests: the store of two steps on a made-up GPU, whose every number can be worked out on paper.
 *
 *     begin("times.db", true, 3);                             // with counters; the mixed SSM kernel takes 3 s
 *     ..                                                      // `store` and its analysis, `view`
 *     end(); */
#ifndef MBA_TESTS_MADE_STORE_H
#define MBA_TESTS_MADE_STORE_H

#include "scope/analysis.h"
#include "tests/scratch.h"
#include "tests/test.h"

/* 10 SMs; 1000 byte/s of DRAM measured (2000 on the data sheet), 16000 tensor FLOP/s, 1000 vector FLOP/s, 100
 * special/s. */
static void put_machine(mba_store *s)
{
    const struct {
        const char *name;
        double      rate;
        const char *how;
    } rate[] = { { "dram", 1000, "measured" },
                 { "dram", 2000, "data sheet" },
                 { "tensor", 16000, "measured" },
                 { "fma", 1000, "measured" },
                 { "special", 100, "measured" } };
    for (size_t i = 0; i < sizeof rate / sizeof *rate; i++)
        assert_ok(mba_put_ceiling(
            s, &(mba_row_ceiling){ .name = rate[i].name, .rate = rate[i].rate, .unit = "1/s", .how = rate[i].how }));
    assert_ok(mba_env_put_text(s, "run.device", "given", "cuda"));
    assert_ok(mba_env_put_text(s, "run.workload", "given", "made-up"));
    assert_ok(mba_env_put_number(s, "gpu.sms", "read", 10, ""));
    assert_ok(mba_env_put_number(s, "gpu.l2", "read", 500, "byte"));
    assert_ok(mba_env_put_number(s, "run.units", "given", 64, "tokens"));
}

static void put_node(mba_store *s, int64_t id, const char *op, const char *kind, const char *phase, mba_work_counts w)
{
    mba_row_node n = mba_no_node;
    n.id = id, n.op = op, n.kind = kind, n.phase = phase;
    n.tensor_flops = w.tensor_flops, n.vector_flops = w.vector_flops, n.special_ops = w.special_ops,
    n.read_bytes = w.bytes, n.write_bytes = 0;
    assert_ok(mba_put_node(s, &n));
}

static void put_kernel(mba_store *s, int64_t id, const char *name, const char *kind)
{
    mba_row_kernel k = mba_no_kernel;
    k.id = id, k.name = name, k.op = name, k.kind = kind, k.limiter = "registers", k.regs = 128;
    assert_ok(mba_put_kernel(s, &k));
}

static void put_event(mba_store *s, int64_t step, int64_t kernel, int64_t node, double start_s, double duration_s)
{
    mba_row_event e = mba_no_event;
    e.what = "kernel", e.step = step, e.kernel = kernel, e.node = node, e.stream = 7;
    e.start_ns = (int64_t)llround(1e9 * start_s), e.duration_ns = (int64_t)llround(1e9 * duration_s);
    assert_ok(mba_put_event(s, &e));
}

static void put_counter(mba_store *s, int64_t kernel, const char *metric, double value)
{
    assert_ok(mba_put_counter(
        s,
        &(mba_row_counter){ .kernel = kernel, .metric = metric, .value = value, .metric_set = "test", .launches = 1 }));
}

enum { GEMM, SCAN, CUMSUM, STRANGE, BMM };

/* Two steps of: a product (4 s, forward), a mixed SSM kernel (3 s and 5 s, backward), a vector-only SSM kernel (1 s,
 * twice), a tensor-only SSM kernel (1 s), and one that no rule knows (1 s). A gap of 2 s before the second. */
static void put_run(mba_store *s, double scan_s)
{
    put_node(s, 0, "matmul", "gemm", "forward", (mba_work_counts){ 32000, 100, 0, 1500 });
    put_node(s, 1, "ssd", "ssm", "backward", (mba_work_counts){ 8000, 1000, 50, 1200 });
    put_node(s, 2, "cumsum", "ssm", "forward", (mba_work_counts){ 0, 10, 20, 300 });
    put_node(s, 4, "bmm", "ssm", "forward", (mba_work_counts){ 8000, 0, 0, 100 });
    put_kernel(s, GEMM, "nvjet", "gemm");
    put_kernel(s, SCAN, "chunk_scan_fwd", "ssm");
    put_kernel(s, CUMSUM, "chunk_cumsum_fwd", "ssm");
    put_kernel(s, STRANGE, "mystery", NULL);
    put_kernel(s, BMM, "bmm_chunk_fwd", "ssm");
    for (int step = 0; step < 2; step++) {
        const double at = 100 * step, scan = scan_s + 2 * step;
        put_event(s, step, GEMM, 0, at, 4);
        put_event(s, step, SCAN, 1, at + 6, scan);
        put_event(s, step, CUMSUM, 2, at + 6 + scan, 1);
        put_event(s, step, CUMSUM, 2, at + 7 + scan, 1);
        put_event(s, step, BMM, 4, at + 8 + scan, 1);
        put_event(s, step, STRANGE, MBA_ABSENT, at + 9 + scan, 1);
        assert_ok(
            mba_put_step(s, &(mba_row_step){ .mode = "plain", .place = step, .seconds = 16 + 2 * step, .units = 64 }));
        assert_ok(mba_put_step(s, &(mba_row_step){
                                      .mode = "timeline", .place = step, .seconds = 17 + 2 * step, .units = 64 }));
    }
}

static void put_counters(mba_store *s)
{
    const struct {
        int64_t kernel;
        double  read, write, tensor, ffma, fadd, tensor_pct, fma_pct, alu_pct, l1, s;
    } row[] = {
        { GEMM, 1500, 500, 33000, 10, 0, 90, 10, 5, 0, 4 }, { SCAN, 1600, 400, 8000, 1000, 400, 20, 30, 40, 6, 4 },
        { CUMSUM, 600, 0, 0, 5, 2, 1, 15, 29, 2, 1 },       { STRANGE, 100, 100, 0, 1, 0, 0, 5, 5, 50, 1 },
        { BMM, 200, 0, 8000, 4, 0, 60, 6, 6, 0, 1 },
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        const int64_t k = row[i].kernel;
        put_counter(s, k, "gpu__time_duration.sum", 1e9 * row[i].s);
        put_counter(s, k, "dram__bytes_read.sum", row[i].read);
        put_counter(s, k, "dram__bytes_write.sum", row[i].write);
        put_counter(s, k, "dram__throughput.avg.pct_of_peak_sustained_elapsed",
                    (row[i].read + row[i].write) / row[i].s / 20);
        put_counter(s, k, "lts__t_bytes.sum", 2 * (row[i].read + row[i].write));
        put_counter(s, k, "sm__ops_path_tensor_src_bf16_dst_fp32.sum", row[i].tensor);
        put_counter(s, k, "sm__sass_thread_inst_executed_op_ffma_pred_on.sum", row[i].ffma);
        put_counter(s, k, "sm__sass_thread_inst_executed_op_fadd_pred_on.sum", row[i].fadd);
        for (const char *const *op = (const char *const[]){ "fmul", "hfma", "hadd", "hmul", NULL }; *op; op++) {
            char name[96];
            snprintf(name, sizeof name, "sm__sass_thread_inst_executed_op_%s_pred_on.sum", *op);
            put_counter(s, k, name, 0);
        }
        put_counter(s, k, "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active", row[i].tensor_pct);
        put_counter(s, k, "sm__pipe_fma_cycles_active.avg.pct_of_peak_sustained_active", row[i].fma_pct);
        put_counter(s, k, "sm__pipe_alu_cycles_active.avg.pct_of_peak_sustained_active", row[i].alu_pct);
        put_counter(s, k, "sm__inst_executed_pipe_xu.avg.pct_of_peak_sustained_active", 4);
        put_counter(s, k, "l1tex__t_sector_hit_rate.pct", row[i].l1);
        put_counter(s, k, "sm__cycles_active.avg", 50);
        put_counter(s, k, "sm__ctas_active.sum", 6000);
        put_counter(s, k, "sm__ctas_launched.sum", 20);
        put_counter(s, k, "sm__cycles_elapsed.avg.per_second", 100);
        put_counter(s, k, "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio", 3);
        put_counter(s, k, "smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio", 5);
        put_counter(s, k, "smsp__average_warps_issue_stalled_not_selected_per_issue_active.ratio", 9);
    }
}

static mba_store    *store;
static mba_analysis *view;

static void begin(const char *name, bool counters, double scan_s)
{
    assert_ok(mba_store_create(&store, scratch(name)));
    put_machine(store);
    put_run(store, scan_s);
    if (counters) put_counters(store);
    assert_ok(mba_store_close(store));
    assert_ok(mba_store_open(&store, scratch(name)));
    assert_ok(mba_analysis_create(&view, store));
}

static void end(void)
{
    mba_analysis_destroy(view);
    assert_ok(mba_store_close(store));
}

#endif
