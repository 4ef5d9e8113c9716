// SPDX-License-Identifier: Apache-2.0
/* made_kernels.h -- for tests of claims: stores of made-up runs, given by what the counters of their kernels say.
 *
 *     const made_run run = { .file = "a.db", .k = { MADE_SSD(.s = 1, .dram = 80), MADE_GEMM(.s = 2) } };
 *     const made_store m = made_open(&run);                   // an H200 in small: see the ceilings below
 *     made_close(m); */
#ifndef MBA_TESTS_MADE_KERNELS_H
#define MBA_TESTS_MADE_KERNELS_H

#include <unistd.h>

#include "scope/analysis.h"
#include "tests/scratch.h"
#include "tests/test.h"

/* A kernel that runs once in a step. Work and bytes are both the least and the counted ones. */
typedef struct made_kernel {
    const char *name, *op, *kind, *limiter;
    double      s, bytes, tensor, ffma;                            /* ffma: instructions, 2 FLOPs each */
    double      dram, l1, issue, xu, tensor_pct, fma, alu, l1_hit; /* % */
} made_kernel;
enum { MADE_MAX = 4 };

typedef struct made_run {
    const char *file, *workload, *unit, *foreign, *variant;
    double      units, watts; /* watts: a power limit; 0: none */
    made_kernel k[MADE_MAX];
    void (*more)(mba_store *s); /* puts further rows; NULL: none */
} made_run;

typedef struct made_store {
    mba_store    *store;
    mba_analysis *a;
} made_store;

#define MADE_SSD(...) \
    { \
        .name = "chunk_scan_fwd", .op = "ssd", .kind = "ssm", __VA_ARGS__ \
    }
#define MADE_SCAN(...) \
    { \
        .name = "scan_fwd", .op = "selective_scan", .kind = "ssm", __VA_ARGS__ \
    }
#define MADE_GEMM(...) \
    { \
        .name = "nvjet", .op = "matmul", .kind = "gemm", __VA_ARGS__ \
    }
#define MADE_ATTENTION(...) \
    { \
        .name = "attention_fwd", .op = "attention", .kind = "attention", __VA_ARGS__ \
    }

static void made_counter(mba_store *s, int64_t kernel, const char *metric, double value)
{
    assert_ok(mba_put_counter(
        s,
        &(mba_row_counter){ .kernel = kernel, .metric = metric, .value = value, .metric_set = "test", .launches = 1 }));
}

static void made_counted(mba_store *s, int64_t id, const made_kernel *m)
{
    static const char *const zero[] = { "fadd", "fmul", "hfma", "hadd", "hmul" };
    const struct {
        const char *metric;
        double      value;
    } row[] = {
        { "gpu__time_duration.sum", 1e9 * m->s },
        { "dram__bytes_read.sum", m->bytes },
        { "dram__bytes_write.sum", 0 },
        { "dram__throughput.avg.pct_of_peak_sustained_elapsed", m->dram },
        { "l1tex__data_pipe_lsu_wavefronts.avg.pct_of_peak_sustained_elapsed", m->l1 },
        { "smsp__issue_active.avg.pct_of_peak_sustained_active", m->issue },
        { "sm__inst_executed_pipe_xu.avg.pct_of_peak_sustained_active", m->xu },
        { "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active", m->tensor_pct },
        { "sm__pipe_fma_cycles_active.avg.pct_of_peak_sustained_active", m->fma },
        { "sm__pipe_alu_cycles_active.avg.pct_of_peak_sustained_active", m->alu },
        { "l1tex__t_sector_hit_rate.pct", m->l1_hit },
        { "sm__ops_path_tensor_src_bf16_dst_fp32.sum", m->tensor },
        { "sm__sass_thread_inst_executed_op_ffma_pred_on.sum", m->ffma },
        { "sm__cycles_active.avg", 1 },
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) made_counter(s, id, row[i].metric, row[i].value);
    for (size_t i = 0; i < sizeof zero / sizeof *zero; i++) {
        char name[96];
        snprintf(name, sizeof name, "sm__sass_thread_inst_executed_op_%s_pred_on.sum", zero[i]);
        made_counter(s, id, name, 0);
    }
}

/* 10 SMs; a copy moves 1000 byte/s of the data sheet's 1250; 16000 tensor FLOP/s, 1000 vector FLOP/s, 100 special/s. */
static void made_machine(mba_store *s, const made_run *r)
{
    const struct {
        const char *name;
        double      rate;
        const char *how;
    } rate[] = { { "dram", 1000, "measured" },
                 { "dram", 1250, "data sheet" },
                 { "tensor", 16000, "measured" },
                 { "fma", 1000, "measured" },
                 { "special", 100, "measured" } };
    for (size_t i = 0; i < sizeof rate / sizeof *rate; i++)
        assert_ok(mba_put_ceiling(
            s, &(mba_row_ceiling){ .name = rate[i].name, .rate = rate[i].rate, .unit = "1/s", .how = rate[i].how }));
    assert_ok(mba_env_put_text(s, "run.device", "given", "cuda"));
    assert_ok(mba_env_put_text(s, "gpu.name", "read", "GPU A"));
    assert_ok(mba_env_put_text(s, "run.workload", "given", "%s", r->workload ? r->workload : "made-up"));
    assert_ok(mba_env_put_text(s, "run.unit", "given", "%s", r->unit ? r->unit : "tokens"));
    if (r->watts > 0) assert_ok(mba_env_put_number(s, "run.power_limit", "given", r->watts, "W"));
    if (r->foreign) assert_ok(mba_env_put_text(s, "run.foreign", "given", "%s", r->foreign));
    assert_ok(mba_env_put_number(s, "gpu.sms", "read", 10, ""));
    assert_ok(mba_env_put_number(s, "run.units", "given", r->units > 0 ? r->units : 64, "tokens"));
}

static void made_put(mba_store *s, const made_run *r, int64_t id, double at)
{
    const made_kernel *m = &r->k[id];
    mba_row_node       n = mba_no_node;
    mba_row_kernel     k = mba_no_kernel;
    mba_row_event      e = mba_no_event;
    assert_true(m->s > 0);
    n.id = id, n.op = m->op, n.kind = m->kind, n.phase = "forward", n.variant = r->variant;
    n.tensor_flops = m->tensor, n.vector_flops = 2 * m->ffma, n.special_ops = 0, n.read_bytes = m->bytes,
    n.write_bytes = 0;
    k.id = id, k.name = m->name, k.symbol = m->name, k.op = m->op, k.kind = m->kind, k.limiter = m->limiter;
    e.what = "kernel", e.step = 0, e.kernel = id, e.node = id, e.stream = 7;
    e.start_ns = (int64_t)llround(1e9 * at), e.duration_ns = (int64_t)llround(1e9 * m->s);
    assert_ok(mba_put_node(s, &n));
    assert_ok(mba_put_kernel(s, &k));
    assert_ok(mba_put_event(s, &e));
    made_counted(s, id, m);
}

static made_store made_open(const made_run *r)
{
    const char *path = scratch(r->file ? r->file : "made.db");
    made_store  m = { NULL, NULL };
    double      at = 0;
    unlink(path);
    assert_ok(mba_store_create(&m.store, path));
    made_machine(m.store, r);
    for (int64_t i = 0; i < MADE_MAX && r->k[i].name; i++) {
        made_put(m.store, r, i, at);
        at += r->k[i].s;
    }
    if (r->more) r->more(m.store);
    assert_ok(mba_store_close(m.store));
    assert_ok(mba_store_open(&m.store, path));
    assert_ok(mba_analysis_create(&m.a, m.store));
    return m;
}

static void made_close(made_store m)
{
    mba_analysis_destroy(m.a);
    assert_ok(mba_store_close(m.store));
}

#endif
