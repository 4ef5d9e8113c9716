/* report_test.c -- the page of made-up stores and of a real one: complete, well-formed, honest, and equal to the
 * store. */
#include <jansson.h>
#include <sys/wait.h>

#include "core/file.h"
#include "report/figure.h"
#include "report/parts.h"
#include "tests/page.h"
#include "tests/scratch.h"
#include "tests/test.h"

/* One step of an H200, counters of set roofline. */
static const char REAL_STORE[] = "tests/data/stores/h200_graphmamba.db";
enum { PAGE_BYTES_MAX = 3000000, SCRIPT_LINES_MAX = 600 };

/* ---- made-up stores ---- */

static void put_counters(mba_store *s, int64_t kernel, double tensor)
{
    const struct { const char *metric; double value; } row[] = {
        { "gpu__time_duration.sum", 2e4 },
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
        assert_ok(mba_put_counter(s, &(mba_row_counter){ .kernel = kernel, .metric = row[i].metric,
                                                         .value = row[i].value, .metric_set = "all", .launches = 1 }));
}

static void put_node(mba_store *s, int64_t id, const char *op, const char *kind, double tensor_flops)
{
    mba_row_node n = mba_no_node;
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

static void put_kernel(mba_store *s, int64_t id, const char *name, const char *op, const char *kind)
{
    mba_row_kernel k = mba_no_kernel;
    k.id = id, k.name = name, k.symbol = name, k.op = op, k.kind = kind, k.limiter = "registers", k.regs = 128,
        k.occupancy_limit = 50, k.waves = 1.5;
    k.grid_x = 500, k.grid_y = k.grid_z = 1, k.block_x = 128, k.block_y = k.block_z = 1, k.smem_static_bytes = 0,
        k.smem_dynamic_bytes = 4096, k.local_bytes = 0;
    assert_ok(mba_put_kernel(s, &k));
}

static void put_machine(mba_store *s, const char *workload, double units)
{
    const struct { const char *name; double rate; const char *how; } rate[] = { { "dram", 4e12, "measured" },
            { "dram", 4.8e12, "data sheet" }, { "l2", 1e13, "data sheet" },
        { "tensor", 8e14, "measured" }, { "tensor", 1e15, "data sheet" }, { "fma", 6.2e13, "data sheet" },
            { "special", 4e12, "measured" } };
    for (size_t i = 0; i < sizeof rate / sizeof *rate; i++)
        assert_ok(mba_put_ceiling(s, &(mba_row_ceiling){ .name = rate[i].name, .rate = rate[i].rate, .unit = "1/s",
                                                         .how = rate[i].how }));
    assert_ok(mba_sheet_text(s, "run.device", "given", "cuda"));
    assert_ok(mba_sheet_text(s, "gpu.name", "read", "made-up GPU"));
    assert_ok(mba_sheet_text(s, "run.workload", "given", "%s", workload));
    assert_ok(mba_sheet_text(s, "run.task", "given", "text"));
    assert_ok(mba_sheet_text(s, "run.unit", "given", "tokens"));
    assert_ok(mba_sheet_number(s, "run.units", "given", units, "tokens"));
    assert_ok(mba_sheet_number(s, "gpu.sms", "read", 132, ""));
    assert_ok(mba_sheet_number(s, "gpu.l2", "read", 5e7, "byte"));
    assert_ok(mba_sheet_number(s, "train.steps", "given", 120, "step"));
    assert_ok(mba_sheet_number(s, "train.first_loss", "measured", 5.5, "nat"));
    assert_ok(mba_sheet_number(s, "train.last_loss", "measured", 0.5, "nat"));
    assert_ok(mba_put_parameter(s, &(mba_row_parameter){ .name = "layers", .value = "24", .meaning = "layers" }));
}

/* A store with everything in it: a product, an SSM kernel of both kinds of work and one of vectors, three steps.
 * Without a graph it is one of a program that is not ours. */
static const char *store_of(const char *file, const char *workload, const char *ssm_op, const char *ssm_kernel,
                            double units, bool graph)
{
    mba_store *s;
    assert_ok(mba_store_create(&s, scratch(file)));
    put_machine(s, workload, units);
    if (graph) put_node(s, 0, "matmul", "gemm", 4e9);
    if (graph) put_node(s, 1, ssm_op, "ssm", 2e9);
    put_kernel(s, 0, "nvjet", "matmul", "gemm");
    put_kernel(s, 1, ssm_kernel, ssm_op, "ssm");
    for (int64_t step = 0; step < 3; step++) {
        for (int64_t k = 0; k < 2; k++) {
            mba_row_event e = mba_no_event;
            e.id = 2 * step + k, e.what = "kernel", e.step = step, e.kernel = k, e.stream = 7,
                e.node = graph ? k : MBA_ABSENT,
                e.start_ns = 100000 * step + 30000 * k, e.duration_ns = 20000 + 1000 * step;
            assert_ok(mba_put_event(s, &e));
        }
        assert_ok(mba_put_step(s, &(mba_row_step){ .mode = "plain", .place = step, .seconds = 60e-6, .units = units }));
    }
    put_counters(s, 0, 4e9);
    put_counters(s, 1, 2e9);
    for (int64_t b = 0; b < 20; b++)
        assert_ok(mba_put_block(s, &(mba_row_block){ .kernel = 1, .event = MBA_ABSENT, .block = b, .sm = b,
                                                     .start_ns = 10 * b, .end_ns = 18000 + 100 * b,
                                                     .work_start_ns = 10 * b + 500,
                                                     .work_end_ns = 17000 + 100 * b }));
    assert_ok(mba_store_close(s));
    return file;
}

static const char *full_store(const char *file, const char *workload, const char *ssm_op, const char *ssm_kernel,
                              double units)
{
    return scratch(store_of(file, workload, ssm_op, ssm_kernel, units, true));
}

/* What a simulator might say: numbers that can be told apart. */
static const mba_whatif *made_up_whatif(void)
{
    static mba_whatif  w = { .machine = "h200", .grade = 'B', .low = 0.9, .high = 1.2, .ncurves = 10, .nsizes = 5,
                             .machines = { "h200", "h100" }, .grades = "BC", .nmachines = 2, .nmodels = 2,
                             .score = { { "held out", 126, 25.8, 60, 249, 0.98, 71 },
                                        { "fitted", 60, 12, 28, 53, 0.99, 44 } },
                             .step = { { "mamba2", 38, 36 }, { "mamba1", 47, 46 } }, .nsteps = 2 };
    static const int   values[MBA_WI_SLIDERS] = { 6, 4, 3 };
    const mba_wi_axis  axis = { "hbm", "DRAM bandwidth", 6, { 0.5, 0.75, 1, 1.5, 2, 4 } };
    for (int k = 0; k < MBA_WI_CURVES; k++) w.curve[k] = axis;
    for (int k = 0; k < MBA_WI_SIZES; k++)  w.size[k] = axis;
    for (int k = 0; k < MBA_WI_SLIDERS; k++) w.slider[k] = axis, w.slider[k].n = values[k];
    for (int m = 0; m < w.nmodels; m++) {
        mba_wi_model *x = &w.model[m];
        *x = (mba_wi_model){ .text = true, .units = 128, .measured_ms = { m ? NAN : 38, m ? NAN : 9 },
                             .base = { { { .ms = 36 }, { .ms = 8 } } }, .nops = 1 };
        snprintf(x->name, sizeof x->name, "mamba%d", m + 1);
        snprintf(x->op[0].name, sizeof x->op[0].name, "ssd");
        for (int i = 0; i < MBA_WI_GRID; i++)
            x->grid[i] = (mba_wi_step){ { { 1000 * m + i + 1, { 0.5, 0, 0.5 } }, { 100 * m + i + 0.5, { 1 } } } };
        for (int i = 0; i < MBA_WI_MACHINES; i++) x->machine_ms[i] = 36 + 4 * i, x->op[0].ms[i] = 6 + i;
        for (int k = 0; k < MBA_WI_CURVES; k++)
            for (int i = 0; i < 6; i++) x->curve_ms[MBA_WI_STEP][k][i] = 40 - 2 * i, x->curve_ms[MBA_WI_SSM][k][i] = 10 - i;
        for (int k = 0; k < MBA_WI_SIZES; k++) for (int i = 0; i < 6; i++) x->size_us[k][i] = i == 5 ? NAN : 100 + i;
    }
    return &w;
}

static char *page_of(const char *const *path, int n)
{
    mba_stores r;
    mba_buf    b = { 0 };
    assert_ok(mba_stores_open(&r, path, n));
    r.study  = n > 2;
    r.whatif = n > 2 ? made_up_whatif() : NULL;
    assert_ok(mba_report_page(&b, &r));
    assert_ok(mba_stores_close(&r));
    return b.s;                                                        // the test frees it
}

/* ---- complete ---- */

static void every_figure_shows_data_where_stores_have_it(void **state)
{
    (void)state;
    const char *file[] = { store_of("scan.db", "mamba1", "selective_scan", "scan_fwd", 128, true),
                           store_of("ssd.db", "mamba2", "ssd", "chunk_scan_fwd", 128, true),
                           store_of("long.db", "mamba2", "ssd", "chunk_scan_fwd", 512, true),
                           store_of("variant.db", "mamba2", "ssd", "ssd_fused", 128, true),
                           store_of("peer.db", "mamba2", NULL, "_chunk_scan_fwd_kernel", 128, false) };
    const char *path[5];
    for (int i = 0; i < 5; i++) path[i] = scratch(file[i]);
    mba_stores r;
    assert_ok(mba_stores_open(&r, path, 5));
    r.study  = true;
    r.whatif = made_up_whatif();
    for (int i = 0; mba_figures[i]; i++) {
        const mba_figure *f = mba_figures[i];
        mba_grid          g;
        if (!f->has(&r, f->across ? -1 : 1)) fail_msg("%s has no data", f->name);
        mba_grid_begin(&g, f->columns);
        assert_ok(f->numbers(&g, &r, f->across ? -1 : 1));
        if (g.n == 0 || g.n % (size_t)g.ncolumns) fail_msg("%s has %zu cells in %d columns", f->name, g.n, g.ncolumns);
        mba_grid_end(&g);
    }
    assert_ok(mba_stores_close(&r));
    char *page = page_of(path, 4);                                     // a peer has no plan of memory to show
    for (int i = 0; mba_figures[i]; i++) {
        char section[64];
        snprintf(section, sizeof section, "<section id=\"%s\"", mba_figures[i]->name);
        const char *at = strstr(page, section), *end = at ? strstr(at, "</section>") : NULL;
        assert_non_null(end);
        const char *frame = strstr(at, "no data yet");
        if (!strcmp(mba_figures[i]->name, "peers")) continue;
        if (frame && frame < end) fail_msg("%s says that it has no data", mba_figures[i]->name);
        if (mba_figures[i]->draw && !(strstr(at, "<svg") < end && strstr(at, "data-t=") < end)) fail_msg("%s has no "
                "marks", mba_figures[i]->name);
    }
    check_page(page);
    free(page);
}

static void the_page_of_a_real_store_is_well_formed_and_small(void **state)
{
    (void)state;
    const char *path[] = { REAL_STORE };
    char       *page = page_of(path, 1);
    int         lines = 0;
    check_page(page);
    assert_true(strlen(page) < PAGE_BYTES_MAX);
    for (const char *c = mba_report_js; *c; c++) lines += *c == '\n';
    assert_true(lines < SCRIPT_LINES_MAX);
    free(page);
}

static void the_same_stores_give_the_same_bytes(void **state)
{
    (void)state;
    const char *path[] = { REAL_STORE, full_store("same.db", "mamba2", "ssd", "chunk_scan_fwd", 128) };
    char       *a = page_of(path, 2), *b = page_of(path, 2);
    assert_string_equal(a, b);
    free(a);
    free(b);
}

/* ---- equal to the store ---- */

static double event_ms(mba_store *s, int64_t kernel_from, int64_t kernel_to)
{
    mba_row_event *e;
    int64_t        n;
    double         ns = 0;
    assert_ok(mba_load_event(s, &e, &n));
    for (int64_t i = 0; i < n; i++) if (e[i].kernel >= kernel_from
                                        && e[i].kernel < kernel_to) ns += (double)e[i].duration_ns;
    return ns / 1e6;
}

/* Column `number` of the rows of a table whose column `text` is `word`, summed. */
static double sum_where(const char *table, int text, const char *word, int number)
{
    double sum = 0;
    page_row row;
    for (const char *at = table; (at = next_row(at, &row)) != NULL;)
        if (row.n > number && (!word || !strcmp(row.cell[text], word))) sum += isnan(row.value[number]) ? 0
            : row.value[number];
    return sum;
}

/* The breakdown on the page against the rows of the database, added up without the analysis. */
static void the_breakdown_is_the_sum_of_the_events(void **state)
{
    (void)state;
    const char     *path[] = { REAL_STORE };
    char           *page = page_of(path, 1), *table = table_named(page, "fig1, all runs");
    mba_store      *s;
    mba_row_kernel *k;
    int64_t         n;
    assert_non_null(table);
    assert_ok(mba_store_open(&s, REAL_STORE));
    assert_ok(mba_load_kernel(s, &k, &n));
    assert_true(n > 50);
    for (const char *const *kind = (const char *const[]){ "gemm", "ssm", "norm", "message passing",
                                                          NULL }; *kind; kind++) {
        double ms = 0;
        for (int64_t i = 0; i < n; i++) if (k[i].kind && !strcmp(k[i].kind, *kind)) ms += event_ms(s, k[i].id,
                k[i].id + 1);
        assert_true(ms > 0);
        assert_near(sum_where(table, 1, *kind, 3), ms, 1e-6 * ms);     // the store has one step
    }
    assert_near(sum_where(table, 1, NULL, 4), 100, 0.1);
    assert_ok(mba_store_close(s));
    free(page);
}

/* The sentences of the first screen carry the numbers of the analysis, and every run has its strip. */
static void the_first_screen_says_what_the_store_says(void **state)
{
    const char   *path[] = { REAL_STORE };
    char         *page = page_of(path, 1), want[256];
    mba_store    *s;
    mba_analysis *a;
    (void)state;
    assert_ok(mba_store_open(&s, REAL_STORE));
    assert_ok(mba_analysis_create(&a, s));
    snprintf(want, sizeof want, "GEMM takes <b>%s\u00a0%%</b> of the kernel time, SSM operators <b>%s\u00a0%%</b>",
             mba_num(100 * mba_kind_s(a, MBA_GEMM) / a->busy_s).s, mba_num(100 * mba_kind_s(a, MBA_SSM) / a->busy_s).s);
    assert_non_null(strstr(page, want));
    snprintf(want, sizeof want, "run at <b>%s\u00a0%%</b> of their floor",
             mba_num(mba_bounds_of(a, MBA_ALL_KERNELS).percent_of_floor).s);
    assert_non_null(strstr(page, want));
    const char *picture = strstr(page, "id=\"overview\""), *end = picture ? strstr(picture, "</svg>") : NULL;
    snprintf(want, sizeof want, ">%s ms</text>", mba_num(1e3 * a->plain_s).s);
    assert_true(end && strstr(picture, want) < end);
    mba_analysis_destroy(a);
    assert_ok(mba_store_close(s));
    free(page);
}

/* Stores beside the ones with sections are told apart by their files; other sizes stand in Fig. 11, not in Fig. 1. */
static void runs_beside_have_names_and_places_of_their_own(void **state)
{
    const char *path[] = { full_store("mamba2.db", "mamba2", "ssd", "chunk_scan_fwd", 128),
                           full_store("mamba2-512.db", "mamba2", "ssd", "chunk_scan_fwd", 512),
                           full_store("other.db", "mamba2", "ssd", "ssd_fused", 128) };
    mba_stores  r;
    mba_buf     fig1 = { 0 }, fig11 = { 0 };
    (void)state;
    assert_ok(mba_stores_open(&r, path, 3));
    assert_string_equal(mba_run_label(&r, 0), "mamba2 (mamba2)");
    mba_stores_show(&r, 1);
    assert_string_equal(mba_run_label(&r, 0), "mamba2");
    assert_string_equal(mba_run_label(&r, 1), "mamba2-512");
    assert_string_equal(mba_run_label(&r, 2), "mamba2 (other)");
    assert_ok(mba_report_svg(&fig1, &r, "fig1", NULL));
    assert_ok(mba_report_svg(&fig11, &r, "fig11", NULL));
    assert_non_null(strstr(fig1.s, "mamba2 (other)"));
    assert_null(strstr(fig1.s, "mamba2-512"));
    int marks = 0;
    for (const char *at = fig11.s; (at = strstr(at, "<circle")) != NULL; at++) marks++;
    assert_int_equal(marks, 2);                                        // 128 and 512 units a step
    mba_buf_free(&fig1);
    mba_buf_free(&fig11);
    assert_ok(mba_stores_close(&r));
}

/* Every number that is printed reads as its exact value does; the table of kernels and the records agree with the
 * events. */
static void every_number_is_what_it_says(void **state)
{
    (void)state;
    const char *path[] = { REAL_STORE };
    char       *page = page_of(path, 1);
    int         seen = 0;
    *strstr(page, "<script") = 0;                                      // what it writes is made of records
    for (const char *at = page; (at = strstr(at, "data-v=\"")) != NULL;) {
        const double v = strtod(at += 8, NULL);
        const char  *text = strchr(at, '>') + 1;
        if (!strncmp(at, "-1\"", 3) || *at == '"') continue;          // explorer: nothing, sorts last
        while (*text == '<') text = strchr(text, '>') + 1;
        const mba_word want = mba_num(v);
        if (strncmp(text, want.s, strlen(want.s))) fail_msg("%.9g is printed as '%.12s', should be '%s'", v, text,
                                                            want.s);
        seen++;
    }
    assert_true(seen > 1000);
    free(page);
}

/* Where a key stands in the rows of the records. */
static size_t key_number(const json_t *data, const char *key)
{
    const json_t *keys = json_object_get(json_object_get(data, "kernels"), "keys");
    for (size_t i = 0; i < json_array_size(keys); i++)
        if (!strcmp(json_string_value(json_array_get(keys, i)), key)) return i;
    fail_msg("records have no '%s'", key);
    return 0;
}

static void records_of_kernels_are_the_stores(void **state)
{
    (void)state;
    const char *path[] = { REAL_STORE };
    char       *page = page_of(path, 1), *json = strstr(page, "id=\"data\">");
    mba_store  *s;
    mba_analysis *a;
    assert_non_null(json);
    *strstr(json, "</script>") = 0;
    json_t *data = json_loads(json + 10, 0, NULL), *kernels = json_object_get(json_object_get(data, "kernels"), "rows");
    assert_non_null(data);
    const size_t ms_at = key_number(data, "ms");
    assert_ok(mba_store_open(&s, REAL_STORE));
    assert_ok(mba_analysis_create(&a, s));
    assert_true(json_array_size(kernels) == (size_t)a->nkernels);
    double ms = 0;
    for (size_t i = 0; i < json_array_size(kernels); i++)
        ms += json_number_value(json_array_get(json_array_get(kernels, i), ms_at));
    assert_near(ms, event_ms(s, 0, INT64_MAX), 1e-6 * ms);
    mba_row_event *e;
    int64_t        nevents;
    assert_ok(mba_load_event(s, &e, &nevents));
    for (int64_t i = 0; i < a->nkernels; i++) {                       // each by itself, added up without the analysis
        double want = 0;
        bool   there = false;
        for (int64_t k = 0; k < nevents; k++)
            if (e[k].kernel == a->kernel[i].row->id) want += 1e-6 * (double)e[k].duration_ns;
        for (size_t k = 0; k < json_array_size(kernels) && !there; k++) {
            const double got = json_number_value(json_array_get(json_array_get(kernels, k), ms_at));
            there = fabs(got - want) < 1e-6 * want + 1e-9;
        }
        if (!there) fail_msg("no kernel of the page takes %.9g ms, as %s does", want, a->kernel[i].row->name);
    }
    const json_t *events = json_object_get(json_array_get(json_object_get(data, "events"), 0), "events");
    double        ns = 0;
    int64_t       n;
    assert_ok(mba_store_count(s, MBA_ROWS_event, &n));
    assert_true(json_array_size(events) == 5 * (size_t)n);
    for (size_t i = 1; i < json_array_size(events); i += 5) ns += json_number_value(json_array_get(events, i));
    assert_near(ns / 1e6, 1e3 * a->busy_s, 1e-6 * ns / 1e6);
    mba_analysis_destroy(a);
    assert_ok(mba_store_close(s));
    json_decref(data);
    free(page);
}

/* Of a part its own unchanged time over its own changed one: 36 / 32 ms of the step, 8 / 6 of its SSM operators. */
static void doubled_numbers_are_of_their_part(void **state)
{
    const char *path[] = { full_store("s1.db", "mamba1", "selective_scan", "scan_fwd", 128) };
    mba_stores  r;
    mba_buf     csv = { 0 };
    (void)state;
    assert_ok(mba_stores_open(&r, path, 1));
    r.whatif = made_up_whatif();
    assert_ok(mba_report_csv(&csv, &r, "doubled"));
    assert_non_null(strstr(csv.s, "mamba1,DRAM bandwidth,2,6,1.33333333,32,1.125"));
    mba_buf_free(&csv);
    assert_ok(mba_stores_close(&r));
}

/* What a slider chooses is what was simulated there: the last slider runs fastest. */
static void sliders_choose_among_what_was_simulated(void **state)
{
    (void)state;
    const char *path[] = { full_store("s1.db", "mamba1", "selective_scan", "scan_fwd", 128),
                           full_store("s2.db", "mamba2", "ssd", "chunk_scan_fwd", 128),
                           full_store("s3.db", "mamba2", "ssd", "chunk_scan_fwd", 512) };
    char       *page = page_of(path, 3), *json = strstr(page, "id=\"data\">");
    assert_non_null(json);
    *strstr(json, "</script>") = 0;
    json_t *data = json_loads(json + 10, 0, NULL), *w = json_object_get(data, "whatif");
    json_t *models = json_object_get(w, "models");
    assert_int_equal(json_array_size(json_object_get(w, "sliders")), MBA_WI_SLIDERS);
    assert_int_equal(json_array_size(models), 2);
    for (size_t m = 0; m < 2; m++) {
        const json_t *grid = json_object_get(json_array_get(models, m), "grid");
        assert_int_equal(json_array_size(grid), mba_wi_grid_size(made_up_whatif()));
        for (size_t i = 0; i < json_array_size(grid); i++)
            for (int part = 0; part < MBA_WI_PARTS; part++)
                assert_near(json_number_value(json_array_get(json_array_get(grid, i),
                                                             (size_t)part * (1 + MBA_WI_BOUNDS))),
                            made_up_whatif()->model[m].grid[i].of[part].ms, 0);
    }
    json_decref(data);
    free(page);
}

/* ---- honest ---- */

static void an_empty_store_gives_frames_and_no_verdict(void **state)
{
    (void)state;
    mba_store  *s;
    const char *path[] = { scratch("empty.db") };
    assert_ok(mba_store_create(&s, path[0]));
    assert_ok(mba_store_close(s));
    char *page = page_of(path, 1);
    check_page(page);
    assert_non_null(strstr(page, "no data yet"));
    // the tally names all four verdicts once; beyond it only "open" may stand
    for (const char *const *v = (const char *const[]){ "reproduced", "refuted", "depends", "new", NULL }; *v; v++) {
        char chip[64];
        int  n = 0;
        snprintf(chip, sizeof chip, "<span class=\"chip %s\">", *v);
        for (const char *at = page; (at = strstr(at, chip)) != NULL; at++) n++;
        assert_true(n <= (strcmp(*v, "new") ? 1 : 0));
    }
    free(page);
}

static void hostile_names_are_escaped_and_cut_between_characters(void **state)
{
    (void)state;
    char        name[400] = "<script>alert('x')</script>\"&\xff";
    const char *file = "hostile.db";
    mba_store  *s;
    while (strlen(name) < 330) strcat(name, "ö");
    assert_ok(mba_store_create(&s, scratch(file)));
    put_machine(s, "</title><b>", 128);
    put_node(s, 0, "op\"<i>", "gemm", 1e9);
    put_kernel(s, 0, name, "op\"<i>", "gemm");
    mba_row_event e = mba_no_event;
    e.what = "kernel", e.step = 0, e.kernel = 0, e.node = 0, e.stream = 0, e.start_ns = 0, e.duration_ns = 1000;
    assert_ok(mba_put_event(s, &e));
    assert_ok(mba_store_close(s));
    const char *path[] = { scratch(file) };
    char       *page = page_of(path, 1);
    check_page(page);
    assert_null(strstr(page, "<script>alert"));
    assert_null(strstr(page, "<i>"));
    free(page);
    assert_string_equal(mba_short("ööö", 2).s, "ö…");
    assert_string_equal(mba_short("abc", 3).s, "abc");
}

static void a_broken_store_among_good_ones_is_named(void **state)
{
    (void)state;
    const char *path[] = { full_store("good.db", "mamba2", "ssd", "chunk_scan_fwd", 128), scratch("broken.db") };
    mba_writer *w = NULL;
    mba_stores  r;
    assert_ok(mba_writer_create(&w, path[1]));
    assert_ok(mba_writer_put(w, "not a store", 11));
    assert_ok(mba_writer_commit(w));
    mba_writer_destroy(w);
    assert_fails(mba_stores_open(&r, path, 2), MBA_E_FORMAT, "broken.db");
    assert_int_equal(r.n, 0);
}

/* ---- single figures ---- */

static void a_figure_alone_is_one_svg_without_variables(void **state)
{
    (void)state;
    const char *path[] = { REAL_STORE };
    mba_stores  r;
    assert_ok(mba_stores_open(&r, path, 1));
    for (int i = 0; mba_figures[i]; i++) {
        const mba_figure *f = mba_figures[i];
        mba_buf           svg = { 0 }, csv = { 0 };
        const bool        has = f->has(&r, f->across ? -1 : 0);
        const mba_status  drawn = mba_report_svg(&svg, &r, f->name, NULL), told = mba_report_csv(&csv, &r, f->name);
        assert_int_equal(drawn, has && f->draw ? MBA_OK : MBA_E_ARG);
        assert_int_equal(told, has ? MBA_OK : MBA_E_ARG);
        if (drawn == MBA_OK) {
            check_tags(svg.s);
            assert_true(!strncmp(svg.s, "<svg", 4) && !strstr(svg.s, "var(") && !strstr(svg.s, "data-t"));
        }
        mba_buf_free(&svg);
        mba_buf_free(&csv);
    }
    mba_buf b = { 0 };
    assert_fails(mba_report_svg(&b, &r, "fig99", NULL), MBA_E_ARG, "no figure");
    assert_fails(mba_report_svg(&b, &r, "fig1", "upside down"), MBA_E_ARG, "'by phase'");
    assert_ok(mba_stores_close(&r));
}

/* Words must be equal, numbers near: another processor may round a coordinate to the next tenth. */
static void same_drawing(const char *name, const char *got, const char *want)
{
    while (*got || *want) {
        char        *a, *b;
        const double x = strtod(got, &a), y = strtod(want, &b);
        const bool   numbers = (isdigit((unsigned char)*got) || *got == '-') && a != got && b != want;
        if (numbers && fabs(x - y) <= 0.1001 + 1e-3 * fabs(y)) {
            got = a;
            want = b;
        } else if (numbers || *got != *want) {
            fail_msg("%s is not the golden one: '%.40s', should be '%.40s'", name, got, want);
        } else {
            got++;
            want++;
        }
    }
}

/* Every figure and table that committed stores of an H200 have data for: our Mamba-2 first, then what it is compared
 * with. `MBA_GOLDEN=write build/tests/report_test` writes them again; look at the difference before it is committed. */
static const char *const golden_stores[] = { "tests/data/stores/h200_mamba2.db", "tests/data/stores/h200_mamba1.db",
                                             "tests/data/stores/h200_chunked.db",
                                             "tests/data/stores/h200_chunked_small.db",
                                             "tests/data/stores/h200_peer.db" };

static void check_golden(const char *name, const char *ending, mba_buf *made)
{
    char        file[128], *want;
    size_t      n;
    const char *how = getenv("MBA_GOLDEN");
    snprintf(file, sizeof file, "tests/data/figures/%s.%s", name, ending);
    if (how && !strcmp(how, "write")) {
        mba_writer *w = NULL;
        assert_ok(mba_writer_create(&w, file));
        assert_ok(mba_writer_put(w, made->s, made->n));
        assert_ok(mba_writer_commit(w));
        mba_writer_destroy(w);
    }
    assert_ok(mba_file_read(&want, &n, file, 1 << 20));
    same_drawing(file, made->s, want);
    free(want);
    mba_buf_free(made);
}

static void figures_of_the_committed_stores_are_golden(void **state)
{
    mba_stores r;
    int        drawings = 0, tables = 0;
    (void)state;
    assert_ok(mba_stores_open(&r, golden_stores, sizeof golden_stores / sizeof *golden_stores));
    mba_stores_show(&r, 1);
    r.study = true;
    for (int i = 0; mba_figures[i]; i++) {
        const mba_figure *f = mba_figures[i];
        mba_buf           made = { 0 };
        if (!f->has(&r, f->across ? -1 : 0)) continue;                 // needs operands, or the simulator
        if (f->draw) assert_ok(mba_report_svg(&made, &r, f->name, NULL));
        else         assert_ok(mba_report_csv(&made, &r, f->name));
        check_golden(f->name, f->draw ? "svg" : "csv", &made);
        drawings += f->draw != NULL, tables += !f->draw;
    }
    assert_int_equal(drawings, 19);
    assert_int_equal(tables, 5);
    assert_ok(mba_stores_close(&r));
}

/* ---- the command ---- */

/* The sanitizer's search for leaks takes seconds of a process; this one, which calls the same functions, has it too. */
#define NO_LEAKS "ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0 "

static void the_command_writes_the_page_and_tells_what_is_wrong(void **state)
{
    const char *program = getenv("MBA_PROGRAM");
    char        command[2048], *page;
    size_t      bytes;
    (void)state;
    if (!program) skip();                                              // ctest names it
    const struct { const char *before, *after; int exit; } call[] = { { "--out ", "/page.html", 0 },
            { "--figure fig2 --svg > ", "/fig2.svg", 0 },
        { "--figure fig4 --csv > ", "/fig4.csv", 0 }, { "--out ", "/nowhere/page.html", 1 },
            { "--figure fig5 > ", "/fig5.svg", 2 }, { "--figure fig1 --view 'by phase' > ", "/phase.svg", 0 },
            { "--figure fig1 --view 'upside down' > ", "/view.svg", 2 }, { "--view percent > ", "/none.svg", 2 } };
    for (size_t i = 0; i < sizeof call / sizeof *call; i++) {
        snprintf(command, sizeof command, "%s'%s' report %s %s %s%s%s 2>/dev/null", i ? NO_LEAKS : "", program,
                 i || getenv("MBA_TEST_SANITIZED") ? "--no-simulation" : "--study", REAL_STORE, call[i].before,
                     scratch_dir, call[i].after);
        const int status = system(command);
        if (WEXITSTATUS(status) != call[i].exit) fail_msg("exit %d, wanted %d: %s", WEXITSTATUS(status), call[i].exit,
                                                          command);
    }
    assert_ok(mba_file_read(&page, &bytes, scratch("page.html"), PAGE_BYTES_MAX));
    check_tags(page);
    free(page);
    assert_int_equal(scratch_entries("nowhere"), -1);
}

/* One file per figure; those that compare stores come with several. */
static void export_has_the_numbers_of_every_figure(void **state)
{
    static const char *const one[] = { "fig1", "fig2", "table2", "fig4", "fig5", "fig6", "fig7", "fig8", "study",
                                         NULL };
    static const char *const more[] = { "fig10", "fig11", "fig12", "stores", "peers", NULL };
    const char *program = getenv("MBA_PROGRAM");
    char        command[2048], *csv;
    size_t      bytes, n = 0;
    (void)state;
    if (!program) skip();
    const size_t all = sizeof golden_stores / sizeof *golden_stores;
    for (int several = 0; several < 2; several++) {
        n = (size_t)snprintf(command, sizeof command, "%s'%s' export --no-simulation --figures '%s'",
                             several ? "" : NO_LEAKS, program, scratch(several ? "several" : "one"));
        for (size_t i = 0; i < (several ? all : 1); i++)
            n += (size_t)snprintf(command + n, sizeof command - n, " %s", golden_stores[i]);
        snprintf(command + n, sizeof command - n, " 2>/dev/null");
        assert_int_equal(system(command), 0);
        for (const char *const *f = several ? more : one; *f; f++) {
            char name[64];
            snprintf(name, sizeof name, "%s/%s.csv", several ? "several" : "one", *f);
            assert_ok(mba_file_read(&csv, &bytes, scratch(name), 1 << 20));
            assert_true(bytes > 40);
            free(csv);
        }
    }
}

static void numbers_have_three_digits(void **state)
{
    (void)state;
    const struct { double v; const char *text; } row[] = { { 0, "0" }, { 1, "1" }, { 12.345, "12.3" },
                                                           { 1234567, "1,234,567" }, { 999.6, "1,000" },
                                                               { 0.012345, "0.0123" }, { -4.5, "-4.5" },
        { NAN, "–" }, { 1e15, "1×10¹⁵" }, { -9.6e-8, "-9.6×10⁻⁸" }, { 1e-120, "1×10⁻¹²⁰" }, { 100, "100" } };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) assert_string_equal(mba_num(row[i].v).s, row[i].text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_figure_shows_data_where_stores_have_it),
        cmocka_unit_test(the_first_screen_says_what_the_store_says),
        cmocka_unit_test(runs_beside_have_names_and_places_of_their_own),
            cmocka_unit_test(the_page_of_a_real_store_is_well_formed_and_small),
        cmocka_unit_test(the_same_stores_give_the_same_bytes), cmocka_unit_test(the_breakdown_is_the_sum_of_the_events),
            cmocka_unit_test(every_number_is_what_it_says),
        cmocka_unit_test(records_of_kernels_are_the_stores),
            cmocka_unit_test(an_empty_store_gives_frames_and_no_verdict),
        cmocka_unit_test(sliders_choose_among_what_was_simulated),
        cmocka_unit_test(doubled_numbers_are_of_their_part),
        cmocka_unit_test(hostile_names_are_escaped_and_cut_between_characters),
            cmocka_unit_test(a_broken_store_among_good_ones_is_named),
        cmocka_unit_test(a_figure_alone_is_one_svg_without_variables), cmocka_unit_test(numbers_have_three_digits),
        cmocka_unit_test(figures_of_the_committed_stores_are_golden),
        cmocka_unit_test(the_command_writes_the_page_and_tells_what_is_wrong),
        cmocka_unit_test(export_has_the_numbers_of_every_figure),
    };
    scratch_make();
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    scratch_remove();
    return failed;
}
