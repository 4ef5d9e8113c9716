// SPDX-License-Identifier: Apache-2.0
/* report_stores.h -- stores for tests of the report: a real one, made-up ones with everything in them, and pages of
 * them.
 *
 *     const char *path[] = { REAL_STORE, full_store("a.db", "mamba2", "ssd", "chunk_scan_fwd", 128) };
 *     char       *page = page_of(path, 2);                // the test frees it
 */
#ifndef MBA_REPORT_STORES_H
#define MBA_REPORT_STORES_H

#include "report/parts.h"
#include "tests/scratch.h"
#include "tests/test.h"

/* One step of an H200, counters of set roofline. */
static const char REAL_STORE[] = "tests/data/stores/h200_graphmamba.db";
enum { PAGE_BYTES_MAX = 3000000 };

/* ---- made-up stores ---- */

static inline void put_counters(mba_store *s, int64_t kernel, double tensor)
{
    const struct {
        const char *metric;
        double      value;
    } row[] = { { "gpu__time_duration.sum", 2e4 },
                { "dram__bytes_read.sum", 3e7 },
                { "dram__bytes_write.sum", 1e7 },
                { "dram__throughput.avg.pct_of_peak_sustained_elapsed", 41 },
                { "lts__t_bytes.sum", 9e7 },
                { "l1tex__t_bytes.sum", 2e8 },
                { "sm__ops_path_tensor_src_bf16_dst_fp32.sum", tensor },
                { "sm__sass_thread_inst_executed_op_ffma_pred_on.sum", 5e8 },
                { "sm__sass_thread_inst_executed_op_fadd_pred_on.sum", 1e8 },
                { "sm__sass_thread_inst_executed_op_fmul_pred_on.sum", 1e8 },
                { "sm__sass_thread_inst_executed_op_hfma_pred_on.sum", 0 },
                { "sm__sass_thread_inst_executed_op_hadd_pred_on.sum", 0 },
                { "sm__sass_thread_inst_executed_op_hmul_pred_on.sum", 0 },
                { "sm__inst_executed_pipe_xu.sum", 1e6 },
                { "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active", 20 },
                { "sm__pipe_fma_cycles_active.avg.pct_of_peak_sustained_active", 30 },
                { "sm__pipe_alu_cycles_active.avg.pct_of_peak_sustained_active", 25 },
                { "sm__inst_executed_pipe_xu.avg.pct_of_peak_sustained_active", 12 },
                { "sm__cycles_active.avg", 3e4 },
                { "sm__cycles_elapsed.max", 3.2e4 },
                { "sm__cycles_elapsed.avg.per_second", 1.6e9 },
                { "sm__ctas_active.sum", 4e6 },
                { "sm__ctas_launched.sum", 500 },
                { "sm__warps_active.avg.pct_of_peak_sustained_active", 33 },
                { "smsp__issue_active.avg.pct_of_peak_sustained_active", 44 },
                { "l1tex__t_sector_hit_rate.pct", 7 },
                { "lts__t_sector_hit_rate.pct", 62 },
                { "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum", 1600 },
                { "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum", 100 },
                { "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio", 3 },
                { "smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio", 1.5 },
                { "smsp__average_warps_issue_stalled_drain_per_issue_active.ratio", 0.5 } };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        assert_ok(mba_put_counter(s, &(mba_row_counter){ .kernel = kernel,
                                                         .metric = row[i].metric,
                                                         .value = row[i].value,
                                                         .metric_set = "all",
                                                         .launches = 1 }));
}

/* The variant that a kernel of SSD belongs to. */
static inline const char *variant_of(const char *kernel)
{
    const char *persistent = strstr(kernel, "persistent");
    return persistent ? persistent : strstr(kernel, "chunk") ? "chunked" : "fused";
}

static inline void put_node(mba_store *s, int64_t id, const char *op, const char *kind, double tensor_flops,
                            const char *variant)
{
    mba_row_node n = mba_no_node;
    n.variant = variant;
    n.id = id, n.op = op, n.kind = kind, n.phase = id ? "backward" : "forward", n.scope = "layers.0.mixer";
    n.tensor_flops = tensor_flops, n.vector_flops = 1e8, n.special_ops = 1e6, n.read_bytes = 2e7, n.write_bytes = 1e7;
    assert_ok(mba_put_node(s, &n));
    for (int output = 0; output < 2; output++) {
        mba_row_operand o = mba_no_operand;
        o.node = id, o.slot = output ? "y" : "x", o.output = output, o.tensor = id + output, o.storage = id + output,
        o.role = "activations", o.bytes = 1e7;
        assert_ok(mba_put_operand(s, &o));
    }
}

static inline void put_kernel(mba_store *s, int64_t id, const char *name, const char *op, const char *kind)
{
    mba_row_kernel k = mba_no_kernel;
    k.id = id, k.name = name, k.symbol = name, k.op = op, k.kind = kind, k.limiter = "registers", k.regs = 128,
    k.occupancy_limit = 50, k.waves = 1.5;
    k.grid_x = 500, k.grid_y = k.grid_z = 1, k.block_x = 128, k.block_y = k.block_z = 1, k.smem_static_bytes = 0,
    k.smem_dynamic_bytes = 4096, k.local_bytes = 0;
    assert_ok(mba_put_kernel(s, &k));
}

static inline void put_machine(mba_store *s, const char *workload, double units)
{
    const struct {
        const char *name;
        double      rate;
        const char *how;
    } rate[] = { { "dram", 4e12, "measured" },   { "dram", 4.8e12, "data sheet" }, { "l2", 1e13, "data sheet" },
                 { "tensor", 8e14, "measured" }, { "tensor", 1e15, "data sheet" }, { "fma", 6.2e13, "data sheet" },
                 { "special", 4e12, "measured" } };
    for (size_t i = 0; i < sizeof rate / sizeof *rate; i++)
        assert_ok(mba_put_ceiling(
            s, &(mba_row_ceiling){ .name = rate[i].name, .rate = rate[i].rate, .unit = "1/s", .how = rate[i].how }));
    assert_ok(mba_env_put_text(s, "run.device", "given", "cuda"));
    assert_ok(mba_env_put_text(s, "gpu.name", "read", "made-up GPU"));
    assert_ok(mba_env_put_text(s, "run.workload", "given", "%s", workload));
    assert_ok(mba_env_put_text(s, "run.task", "given", "text"));
    assert_ok(mba_env_put_text(s, "run.unit", "given", "tokens"));
    assert_ok(mba_env_put_number(s, "run.units", "given", units, "tokens"));
    assert_ok(mba_env_put_number(s, "gpu.sms", "read", 132, ""));
    assert_ok(mba_env_put_number(s, "gpu.l2", "read", 5e7, "byte"));
    assert_ok(mba_env_put_number(s, "train.steps", "given", 120, "step"));
    assert_ok(mba_env_put_number(s, "train.first_loss", "measured", 5.5, "nat"));
    assert_ok(mba_env_put_number(s, "train.last_loss", "measured", 0.5, "nat"));
    assert_ok(mba_put_parameter(s, &(mba_row_parameter){ .name = "layers", .value = "24", .meaning = "layers" }));
}

/* A store with everything in it: a product, an SSM kernel of both kinds of work and one of vectors, three steps.
 * Without a graph it is one of a program that is not ours. */
static inline const char *store_of(const char *file, const char *workload, const char *ssm_op, const char *ssm_kernel,
                                   double units, bool graph)
{
    mba_store *s;
    assert_ok(mba_store_create(&s, scratch(file)));
    put_machine(s, workload, units);
    if (graph) put_node(s, 0, "matmul", "gemm", 4e9, NULL);
    if (graph) put_node(s, 1, ssm_op, "ssm", 2e9, variant_of(ssm_kernel));
    put_kernel(s, 0, "nvjet", "matmul", "gemm");
    put_kernel(s, 1, ssm_kernel, ssm_op, "ssm");
    for (int64_t step = 0; step < 3; step++) {
        for (int64_t k = 0; k < 2; k++) {
            mba_row_event e = mba_no_event;
            e.id = 2 * step + k, e.what = "kernel", e.step = step, e.kernel = k, e.stream = 7,
            e.node = graph ? k : MBA_ABSENT, e.start_ns = 100000 * step + 30000 * k,
            e.duration_ns = 20000 + 1000 * step;
            assert_ok(mba_put_event(s, &e));
        }
        assert_ok(mba_put_step(s, &(mba_row_step){ .mode = "plain", .place = step, .seconds = 60e-6, .units = units }));
    }
    put_counters(s, 0, 4e9);
    put_counters(s, 1, 2e9);
    assert_ok(mba_put_energy(s, &(mba_row_energy){ .mode = "plain",
                                                   .steps = 100,
                                                   .units = 100 * units,
                                                   .seconds = 6,
                                                   .joules = 600,
                                                   .source = "nvmlDeviceGetTotalEnergyConsumption" }));
    for (int64_t b = 0; b < 20; b++)
        assert_ok(mba_put_block(s, &(mba_row_block){ .kernel = 1,
                                                     .event = MBA_ABSENT,
                                                     .block = b,
                                                     .sm = b,
                                                     .start_ns = 10 * b,
                                                     .end_ns = 18000 + 100 * b,
                                                     .work_start_ns = 10 * b + 500,
                                                     .work_end_ns = 17000 + 100 * b }));
    for (int64_t k = 0; k < 2 && graph; k++) { // rank 1 starts later
        assert_ok(mba_put_rank(s, &(mba_row_rank){ .id = k, .host = "made-up host", .plain_s = 1e-3 }));
        assert_ok(mba_put_rank_event(s, &(mba_row_rank_event){ .rank = k, .start_ns = 500 * k, .duration_ns = 9000 }));
    }
    assert_ok(mba_store_close(s));
    return file;
}

static inline const char *full_store(const char *file, const char *workload, const char *ssm_op, const char *ssm_kernel,
                                     double units)
{
    return scratch(store_of(file, workload, ssm_op, ssm_kernel, units, true));
}

/* What a simulator might say: numbers that can be told apart. */
static inline const mba_whatif *made_up_whatif(void)
{
    static mba_whatif w = { .machine = "h200",
                            .grade = 'B',
                            .low = 0.9,
                            .high = 1.2,
                            .ncurves = 10,
                            .nsizes = 5,
                            .machines = { "h200", "h100" },
                            .grades = "BC",
                            .nmachines = 2,
                            .nmodels = 2,
                            .score = { { "held out", 126, 25.8, 60, 249, 0.98, 71 },
                                       { "fitted", 60, 12, 28, 53, 0.99, 44 },
                                       { "what-ifs", 20, 3.5, 8, 9.8, NAN, NAN } },
                            .effects = 92,
                            .effects_right = 88,
                            .effects_share = 51,
                            .ratio = { .machine = "h200", .tensor = 16, .vector = 16, .n = 3 },
                            .step = { { "mamba2", 38, 36 }, { "mamba1", 47, 46 } },
                            .nsteps = 2 };
    static const int  values[MBA_WI_SLIDERS] = { 6, 4, 3 };
    const mba_wi_axis axis = { "hbm", "DRAM bandwidth", 6, { 0.5, 0.75, 1, 1.5, 2, 4 } };
    for (int k = 0; k < MBA_WI_CURVES; k++) w.curve[k] = axis;
    for (int k = 0; k < MBA_WI_SIZES; k++) w.size[k] = axis;
    for (int k = 0; k < MBA_WI_SLIDERS; k++) w.slider[k] = axis, w.slider[k].n = values[k];
    for (int m = 0; m < w.nmodels; m++) {
        mba_wi_model *x = &w.model[m];
        *x = (mba_wi_model){ .text = true,
                             .units = 128,
                             .measured_ms = { m ? NAN : 38, m ? NAN : 9 },
                             .base = { { { .ms = 36 }, { .ms = 8 } } },
                             .nops = 1 };
        snprintf(x->name, sizeof x->name, "mamba%d", m + 1);
        snprintf(x->op[0].name, sizeof x->op[0].name, "ssd");
        for (int i = 0; i < MBA_WI_GRID; i++)
            x->grid[i] = (mba_wi_step){ { { 1000 * m + i + 1, { 0.5, 0, 0.5 } }, { 100 * m + i + 0.5, { 1 } } } };
        for (int i = 0; i < MBA_WI_MACHINES; i++) {
            x->machine[MBA_WI_AS_IT_IS][i] = (mba_wi_on){ 36 + 4 * i, 30 + 4 * i, 44 + 4 * i };
            x->machine[MBA_WI_EQUAL][i] = (mba_wi_on){ 46 + 8 * i, 40 + 8 * i, 60 + 8 * i };
            x->op[0].ms[i] = 6 + i;
        }
        if (m) snprintf(x->equal, sizeof x->equal, "ssd=chunked");
        for (int k = 0; k < MBA_WI_CURVES; k++)
            for (int i = 0; i < 6; i++)
                x->curve_ms[MBA_WI_STEP][k][i] = 40 - 2 * i, x->curve_ms[MBA_WI_SSM][k][i] = 10 - i;
        for (int k = 0; k < MBA_WI_SIZES; k++)
            for (int i = 0; i < 6; i++) x->size_us[k][i] = i == 5 ? NAN : 100 + i;
    }
    for (int i = 0; i < w.ratio.n; i++) {
        mba_ratio_row *row = &w.ratio.row[i];
        *row = (mba_ratio_row){ .model = "mamba2", .kernels = "ours", .base_ms = 10 };
        snprintf(row->op, sizeof row->op, "%s", (const char *const[]){ "ssd", "ssd_bwd", "" }[i]);
        for (int e = 0; e < MBA_EQUALS; e++)
            for (int t = 0; t < MBA_RATIO_TENSOR; t++)
                for (int s = 0; s < MBA_RATIO_SPECIAL; s++) row->ms[e][t][s] = 10 + abs(t - i - e) + 0.1 * s;
    }
    return &w;
}

static inline char *page_of(const char *const *path, int n)
{
    mba_stores r;
    mba_buf    b = { 0 };
    assert_ok(mba_stores_open(&r, path, n));
    r.study = n > 2;
    r.whatif = n > 2 ? made_up_whatif() : NULL;
    assert_ok(mba_report_page(&b, &r));
    assert_ok(mba_stores_close(&r));
    return b.s; // the test frees it
}

#endif
