/* walk_test.c -- the page and the database, number by number: every table of every figure of committed H200 stores
 * against SQL over the rows of the store. Nothing of the analysis is used on the side of the database.
 *
 * A table of a figure has a row per kernel, per class, per run ..; a claim below names a figure, a column and the SQL
 * that gives its value, with :kernel or :a, :b, :c bound to what the row says. Every row of the page is asked; a value
 * that SQL does not have must be a dash on the page, and the other way round. */
#include <jansson.h>
#include <sqlite3.h>

#include "report/report.h"
#include "tests/page.h"
#include "tests/test.h"

static const char *const stores[] = { "h200_mamba2.db", "h200_mamba1.db", "h200_hybrid.db", "h200_vision.db",
                                      "h200_graphmamba.db", "h200_chunked.db", "h200_peer.db", NULL };
enum { STORES = sizeof stores / sizeof *stores - 1 };

/* ---- the database ---- */

#define MEAN(least) "(select avg(" least ") from e where e.kernel = id) as " least
#define BEST(name) "(select rate from s.ceiling where name = '" name "' order by how = 'measured' desc limit 1)"
#define WORK(least, executed) "case when least_b is null then ifnull(" executed ", 0) else " least " end"
/* The counters once each (in two sets, the first by name), and what a step has of every kernel. */
static const char *const views[] = {
    "create temp table c as select kernel, metric, value from (select kernel, metric, value, row_number() over"
    " (partition by kernel, metric order by ifnull(metric_set, '')) as place from s.counter) where place = 1;",
    "create index c_at on c (kernel, metric);",
    "create temp table steps as select count(distinct step) as n from s.event where step is not null;",
    /* planned: launches of the node by its plan; ran: kernels of the node that the timeline has */
    "create temp table planned as select node, count(*) as n from s.launch group by node;",
    "create temp table ran as select node, count(*) as n from s.event where kernel is not null group by node;",
    "create temp table e as select v.kernel, v.start_ns, v.duration_ns, v.what, coalesce(v.phase, n.phase, q.phase) as"
    " phase,"
    " coalesce(n.op, q.op, v.what) as op, LEAST(n.read_bytes + n.write_bytes, ifnull(l.least_bytes, l.load_bytes +"
    " l.store_bytes)) as least_b, LEAST(n.tensor_flops, l.tensor_flops) as least_t, LEAST(n.vector_flops, 2 *"
    " l.fma_ops +"
    " 4 * l.half2_ops) as least_v, LEAST(n.special_ops, l.special_ops) as least_s from s.event v"
    " left join s.node n on v.node = n.id left join s.kernel q on v.kernel = q.id left join s.launch l on v.launch ="
    " l.id"
    " left join planned p on p.node = n.id left join ran on ran.node = n.id where step is not null;",
    "create temp view sms as select number as n from s.sheet where key = 'gpu.sms';",
    "create temp table k as select id, kind, ifnull(op, '') as op,"
    " (select count(*) from e where e.kernel = id) * 1.0 / (select n from steps) as n,"
    " (select sum(duration_ns) from e where e.kernel = id) * 1.0 / (select n from steps) as ns,"
    " M('gpu__time_duration.sum') as c_ns, M('dram__bytes_read.sum') + M('dram__bytes_write.sum') as dram,"
    " M('lts__t_bytes.sum') as l2,"
    " ifnull(M('l1tex__data_pipe_lsu_wavefronts.avg.pct_of_peak_sustained_elapsed') / 100"
    "  * M('sm__cycles_elapsed.max') * (select n from sms) * 128, M('l1tex__t_bytes.sum')) as l1,"
    " (select sum(value) from c where c.kernel = id and metric glob 'sm__ops_path_tensor_src_*') as tensor,"
    " 2 * SASS('ffma') + SASS('fadd') + SASS('fmul') as fp32,"
    " 4 * SASS('hfma') + 2 * SASS('hadd') + 2 * SASS('hmul') as half,"
    " 32 * M('sm__inst_executed_pipe_xu.sum') as special,"
    " M('sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active') as tensor_pct,"
    " M('sm__pipe_fma_cycles_active.avg.pct_of_peak_sustained_active') as fma_pct,"
    " M('sm__pipe_alu_cycles_active.avg.pct_of_peak_sustained_active') as alu_pct,"
    " M('sm__inst_executed_pipe_xu.avg.pct_of_peak_sustained_active') as xu_pct,"
    " M('sm__ctas_launched.sum') as blocks,"
    " M('sm__ctas_active.sum') / M('sm__ctas_launched.sum') / M('sm__cycles_elapsed.avg.per_second') as block_s,"
    " M('sm__cycles_active.avg') as cycles, " MEAN("least_b") ", " MEAN("least_t") ", " MEAN("least_v")
    ", " MEAN("least_s")
    " from s.kernel where exists (select 1 from e where e.kernel = id);",
    /* the four floors, ns: of least work, of executed work where that is not known (programs that are not ours) */
    "create temp view f as select k.*, 1e9 * ifnull(least_b, dram) / " BEST("dram") " as by_memory,"
    " 1e9 * " WORK("least_t", "tensor") " / " BEST("tensor") " as by_tensor,"
    " 1e9 * " WORK("least_v", "fp32 + half") " / " BEST("fma") " as by_vector,"
    " 1e9 * " WORK("least_s", "special") " / " BEST("special") " as by_special from k;",
    "create temp table floors as select *, max(by_memory, by_tensor, by_vector, by_special) as floor, case"
    " max(by_memory, by_tensor, by_vector, by_special) when by_memory then 'by_memory' when by_tensor then 'by_tensor'"
    " when by_vector then 'by_vector' else 'by_special' end as bound from f;",
    "create temp view busy as select sum(duration_ns) * 1.0 / (select n from steps) as ns from e;",
    "create temp view ceil as select (select rate from s.ceiling where name = 'dram' and how = 'measured') as dram,"
    " (select rate from s.ceiling where name = 'dram' and how = 'data sheet') as sheet;",
    NULL };

/* The least work of an event: of its node where the plan has one launch, else of its launch; none where a library ran
 * more kernels than planned and this is not one of them. */
static const char least[] = "(case when v.kernel is null or n.id is null then null when l.id is null and p.n >= 1 and"
    " ran.n > p.n * (select n from steps) then 0 when ifnull(p.n, 0) <= 1 then %.*s else %.*s end * ifnull(n.filled,"
    " 1))";

/* M('metric'): of the kernel `id`; SASS('op'): executed by threads; LEAST(of the node, of the launch). */
static void expand(char *out, size_t room, const char *sql)
{
    size_t n = 0;
    while (*sql && n + 600 < room) {
        const bool metric = !strncmp(sql, "M('", 3), sass = !strncmp(sql, "SASS('", 6);
        if (!strncmp(sql, "LEAST(", 6)) {
            const char *of_node = sql + 6, *comma = strchr(of_node, ','), *of_launch = comma + 1;
            const char *end = strstr(of_launch, ") as ");
            n += (size_t)snprintf(out + n, room - n, least, (int)(comma - of_node), of_node, (int)(end - of_launch),
                                  of_launch);
            sql = end + 1;
            continue;
        }
        if (!metric && !sass) {
            out[n++] = *sql++;
            continue;
        }
        sql += metric ? 3 : 6;
        const int word = (int)strcspn(sql, "'");
        n += (size_t)snprintf(out + n, room - n, "(select value from c where c.kernel = id and metric = '%s%.*s%s')",
                              sass ? "sm__sass_thread_inst_executed_op_" : "", word, sql, sass ? "_pred_on.sum" : "");
        sql += word + 2;
    }
    out[n] = 0;
    if (*sql) fail_msg("too long: %.60s", sql);
}

static sqlite3 *attach_rows(const char *path)
{
    char     attach[512], *story = NULL;
    sqlite3 *db;
    assert_int_equal(sqlite3_open(":memory:", &db), SQLITE_OK);
    snprintf(attach, sizeof attach, "attach 'file:%s?immutable=1' as s;", path);
    if (sqlite3_exec(db, attach, NULL, NULL, &story)) {
        snprintf(attach, sizeof attach, "attach '%s' as s;", path);
        if (sqlite3_exec(db, attach, NULL, NULL, &story)) fail_msg("%s: %s", path, story);
    }
    return db;
}

static sqlite3 *open_rows(const char *path)
{
    static char text[32768];
    char       *story = NULL;
    sqlite3    *db = attach_rows(path);
    for (const char *const *sql = views; *sql; sql++) {
        expand(text, sizeof text, *sql);
        if (sqlite3_exec(db, text, NULL, NULL, &story)) fail_msg("%s: %s\n%s", path, story, text);
    }
    return db;
}

/* What a row of the page says of itself. */
typedef struct subject { int64_t kernel; const char *a, *b, *c; } subject;

static double ask(sqlite3 *db, const char *sql, subject at)
{
    static char   text[8192];
    sqlite3_stmt *q;
    double        v = NAN;
    expand(text, sizeof text, sql);
    if (sqlite3_prepare_v2(db, text, -1, &q, NULL)) fail_msg("%s\n%s", sqlite3_errmsg(db), text);
    const int         kernel = sqlite3_bind_parameter_index(q, ":kernel");
    const char *const name[] = { ":a", ":b", ":c" }, *const word[] = { at.a, at.b, at.c };
    if (kernel) sqlite3_bind_int64(q, kernel, at.kernel);
    for (int i = 0; i < 3; i++) {
        const int place = sqlite3_bind_parameter_index(q, name[i]);
        if (place) sqlite3_bind_text(q, place, word[i], -1, SQLITE_STATIC);
    }
    if (sqlite3_step(q) == SQLITE_ROW && sqlite3_column_type(q, 0) != SQLITE_NULL) v = sqlite3_column_double(q, 0);
    sqlite3_finalize(q);
    return v;
}

/* The kernel that a label of the page means: "name", "name #12" where names repeat, "long na…". */
static int64_t kernel_labelled(sqlite3 *db, const char *label)
{
    const char *number = strrchr(label, '#');
    if (number && number > label && number[-1] == ' ') return strtoll(number + 1, NULL, 10);
    const size_t n = strcspn(label, "\xe2");                           // the first byte of …
    char         name[256];
    snprintf(name, sizeof name, "%.*s", (int)n, label);
    const char *sql = label[n] ? "select id from s.kernel where id in (select id from k) and name glob :a || '*'"
                               : "select id from s.kernel where id in (select id from k) and name = :a";
    const double id = ask(db, sql, (subject){ .a = name });
    if (isnan(id)) fail_msg("the store has no kernel '%s'", label);
    return (int64_t)id;
}

/* ---- claims ---- */

#define K(expression) "select " expression " from k where id = :kernel"
#define F(expression) "select " expression " from floors where id = :kernel"
#define DRAM_PCT "M('dram__throughput.avg.pct_of_peak_sustained_elapsed')"
#define L1_PCT "M('l1tex__data_pipe_lsu_wavefronts.avg.pct_of_peak_sustained_elapsed')"
#define ROW(column) "select " column " from s.kernel where id = :kernel"
#define PLAIN "(select avg(seconds) from (select seconds, row_number() over (order by seconds) as i, count(*) over" \
    " () as n" \
              " from s.step where mode = 'plain') where i in ((n + 1) / 2, (n + 2) / 2))"
#define MEDIAN_NS "(select avg(duration_ns) from (select duration_ns, row_number() over (order by duration_ns) as i," \
                  " count(*) over () as n from e where e.kernel = :kernel) where i in ((n + 1) / 2, (n + 2) / 2))"
#define SLOTS "(32 * cycles * (select n from sms) * 0.01 * (4 * fma_pct + 2 * alu_pct + 0.5 * xu_pct))"
#define SHEET(name) "select number from s.sheet where key = '" name "'"
#define PARAMETER(name) "select cast(value as real) from s.parameter where name = '" name "'"
/* :a is a kernel group of the page: all, ssm, gemm. */
#define GROUP "(:a = 'all' or kind = :a)"
/* :b is which FLOPs: tensor, vector, both. */
#define FLOPS "sum(n * case :b when 'tensor' then tensor when 'vector' then fp32 + half else tensor + fp32 + half end)"
/* Kernels and copies of a step by phase; what is not in the graph has none. */
#define PHASED "(select ifnull(k.kind, 'memory') as kind, e.op, ifnull(e.phase, '-') as phase, 1.0 / (select n" \
    " from steps) as n," \
               " e.duration_ns * 1.0 / (select n from steps) as ns from e left join k on e.kernel = k.id)"
#define IN_PHASE "ifnull(phase, 'not known') = :a"
#define SSM_FLOOR "select 100 * sum(n * floor) / sum(ns) from floors where kind = 'ssm'"
/* A kernel without least work (what a library runs beside the planned one) counts as memory's. */
#define PART(by) "100 * sum(case when bound = '" by "' then ns else 0 end) / sum(ns)"
/* Fig. 4 ends with rows of means, :a, of a group, :c. */
#define RATE "(case :a when 'mean over launches' then (select sum(n * dram / c_ns) / sum(n) from k where :c =" \
    " 'all' or kind = :c)" \
             " when 'time-weighted mean' then (select sum(n * dram) / sum(n * c_ns) from k where :c = 'all' or" \
             " kind = :c)" \
             " else (select dram / c_ns from k where id = :kernel) end)"
#define MIXED "(tensor > 0 and fma_pct >= 0.5 * tensor_pct)"

/* a, b: columns of the page that are :a and :b (a "kernel": :kernel); :c is the column "class". */
typedef struct claim { const char *figure, *a, *b, *column, *sql; } claim;

static const claim claims[] = {
    { "fig1", "class", "phase", "time_ms", "select sum(ns) / 1e6 from " PHASED " where kind = :a and phase = :b" },
    { "fig1", "class", "phase", "launches", "select sum(n) from " PHASED " where kind = :a and phase = :b" },
    { "fig1", "class", "phase", "percent_of_busy",
      "select 100 * sum(ns) / (select ns from busy) from " PHASED " where kind = :a and phase = :b" },
    { "operators", "operator", "phase", "launches", "select sum(n) from " PHASED " where op = :a and phase = :b and"
      " kind = :c" },
    { "operators", "operator", "phase", "time_ms",
      "select sum(ns) / 1e6 from " PHASED " where op = :a and phase = :b and kind = :c" },
    { "timeline", "phase", NULL, "events", "select count(*) from e where :a = 'the step' or " IN_PHASE },
    { "timeline", "phase", NULL, "busy_us", "select sum(duration_ns) / 1e3 from e where :a = 'the step' or " IN_PHASE },
    { "timeline", "phase", NULL, "from_us",
      "select (min(start_ns) - (select min(start_ns) from e)) / 1e3 from e where :a = 'the step' or " IN_PHASE },
    { "timeline", "phase", NULL, "to_us",
      "select (max(start_ns + duration_ns) - (select min(start_ns) from e)) / 1e3 from e where :a = 'the step'"
      " or " IN_PHASE },
    { "intensity", "kernels", "flops", "least", "select sum(n * case :b when 'tensor' then least_t when 'vector' then"
      " least_v"
      " else least_t + least_v end) / sum(n * least_b) from k where " GROUP },
    { "intensity", "kernels", "flops", "per_dram_byte", "select " FLOPS " / sum(n * dram) from k where " GROUP },
    { "intensity", "kernels", "flops", "per_l2_byte", "select " FLOPS " / sum(n * l2) from k where " GROUP },
    { "intensity", "kernels", "flops", "per_l1_byte", "select " FLOPS " / sum(n * l1) from k where " GROUP },
    { "fig2", "kernel", NULL, "time_us", K("c_ns / 1e3") },
    { "fig2", "kernel", NULL, "tensor_gflop", K("tensor / 1e9") },
    { "fig2", "kernel", NULL, "vector_gflop", K("(fp32 + half) / 1e9") },
    { "fig2", "kernel", NULL, "gflop_s", K("(tensor + fp32 + half) / c_ns") },
    { "fig2", "kernel", NULL, "flop_per_dram_byte", K("(tensor + fp32 + half) / dram") },
    { "fig2", "kernel", NULL, "flop_per_l2_byte", K("(tensor + fp32 + half) / l2") },
    { "fig2", "kernel", NULL, "flop_per_l1_byte", K("(tensor + fp32 + half) / nullif(l1, 0)") },
    { "table2", "kernel", NULL, "step_ms", K("ns / 1e6") },
    { "table2", "kernel", NULL, "tensor_gflop", K("tensor / 1e9") },
    { "table2", "kernel", NULL, "fp32_gflop", K("fp32 / 1e9") },
    { "table2", "kernel", NULL, "half_gflop", K("half / 1e9") },
    { "table2", "kernel", NULL, "special_gop", K("special / 1e9") },
    { "table2", "kernel", NULL, "tensor_pct", K("tensor_pct") },
    { "table2", "kernel", NULL, "fma_pct", K("fma_pct") },
    { "table2", "kernel", NULL, "alu_pct", K("alu_pct") },
    { "table2", "kernel", NULL, "xu_pct", K("xu_pct") },
    { "fig3", "kernel", NULL, "l1_hit_pct", K("M('l1tex__t_sector_hit_rate.pct')") },
    { "fig3", "kernel", NULL, "l2_hit_pct", K("100 * M('lts__t_sectors_lookup_hit.sum') / M('lts__t_sectors.sum')") },
    { "fig3", "kernel", NULL, "dram_mb", K("dram / 1e6") },
    { "fig3", "kernel", NULL, "l2_mb", K("l2 / 1e6") },
    { "fig3", "kernel", NULL, "l1_mb", K("l1 / 1e6") },
    { "fig4", "kernel", NULL, "dram_mb", K("dram / 1e6") },
    { "fig4", "kernel", NULL, "time_us", K("c_ns / 1e3") },
    { "fig4", "kernel", NULL, "gb_s", "select " RATE },
    { "fig4", "kernel", NULL, "percent_measured", "select 1e11 * " RATE " / (select dram from ceil)" },
    { "fig4", "kernel", NULL, "percent_data_sheet", "select 1e11 * " RATE " / (select sheet from ceil)" },
    { "fig4", "kernel", NULL, "percent_h100", "select 100 * " RATE " / 3350" },
    { "fig4", "kernel", NULL, "launches", K("n") },
    { "skyline", "kernel", NULL, "step_us", K("n * c_ns / 1e3") },
    { "skyline", "kernel", NULL, "gb_s", K("dram / c_ns") },
    { "skyline", "kernel", NULL, "step_mb", K("n * dram / 1e6") },
    { "fig5", "kernel", NULL, "mean_us", K("1e6 * block_s") },
    { "fig5", "kernel", NULL, "blocks", K("blocks") },
    { "fig5", "kernel", NULL, "waves", ROW("waves") },
    { "fig5", "kernel", NULL, "blocks_per_sm", K("blocks * block_s / (c_ns * 1e-9) / (select n from sms)") },
    { "fig5", "kernel", NULL, "dram_kib_per_block", K("dram / blocks / 1024") },
    { "fig5", "kernel", NULL, "dram_kib_per_sm_us", K("dram / c_ns * 1e3 / (select n from sms) / 1024") },
    { "fig6", "kernel", NULL, "ratio_a", K("nullif(tensor, 0) / nullif(fp32 + half, 0)") },
    { "fig6", "kernel", NULL, "ratio_b", K("nullif(tensor, 0) / nullif(2 * " SLOTS ", 0)") },
    { "fig6", "kernel", NULL, "ratio_special", K("tensor / nullif(special, 0)") },
    { "floors", "kernel", NULL, "time_us", "select " MEDIAN_NS " / 1e3" },
    { "floors", "kernel", NULL, "memory_us", F("by_memory / 1e3") },
    { "floors", "kernel", NULL, "tensor_us", F("by_tensor / 1e3") },
    { "floors", "kernel", NULL, "vector_us", F("by_vector / 1e3") },
    { "floors", "kernel", NULL, "special_us", F("by_special / 1e3") },
    { "floors", "kernel", NULL, "percent_of_floor", F("100 * floor / " MEDIAN_NS) },
    { "floors", "kernel", NULL, "busiest_pct", K("max(ifnull(" DRAM_PCT ", 0), ifnull(" L1_PCT ", 0),"
      " ifnull(tensor_pct, 0),"
      " ifnull(fma_pct, 0), ifnull(alu_pct, 0), ifnull(xu_pct, 0))") },
    { "fig2", "kernel", NULL, "percent_of_floor", F("100 * floor / " MEDIAN_NS) },
    { "fig3", "kernel", NULL, "least_mb", K("least_b / 1e6") },
    { "fig8", "kernel", NULL, "occupancy_pct", K("M('sm__warps_active.avg.pct_of_peak_sustained_active')") },
    { "fig8", "kernel", NULL, "occupancy_limit_pct", ROW("occupancy_limit") },
    { "fig8", "kernel", NULL, "registers", ROW("regs") },
    { "fig8", "kernel", NULL, "shared_kib", ROW("(smem_static_bytes + smem_dynamic_bytes) / 1024.0") },
    { "fig8", "kernel", NULL, "local_bytes", ROW("local_bytes") },
    { "fig8", "kernel", NULL, "threads", ROW("block_x * block_y * block_z") },
    { "fig8", "kernel", NULL, "waves", ROW("waves") },
    { "fig8", "kernel", NULL, "issue_pct", K("M('smsp__issue_active.avg.pct_of_peak_sustained_active')") },
    { "fig8", "kernel", NULL, "stalled", "select max(value) from c where kernel = :kernel and metric glob"
      " 'smsp__average_warps_issue_stalled_*_per_issue_active.ratio' and metric not glob '*selected*'" },
    { "fig9", "kernel", NULL, "load_requests", K("M('l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum')") },
    { "fig9", "kernel", NULL, "store_requests", K("M('l1tex__t_requests_pipe_lsu_mem_global_op_st.sum')") },
    { "fig9", "kernel", NULL, "l1_per_l2_byte", K("l1 / nullif(l2, 0)") },
    { "fig9", "kernel", NULL, "l2_per_dram_byte", K("l2 / nullif(dram, 0)") },
    { "fig9", "kernel", NULL, "sectors_per_load", K("M('l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum')"
      " / nullif(M('l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum'), 0)") },
    { "fig9", "kernel", NULL, "sectors_per_store", K("M('l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum')"
      " / nullif(M('l1tex__t_requests_pipe_lsu_mem_global_op_st.sum'), 0)") },
    { "fig7", "kernels", "reading", "percent", "select case :b when 'mixed: FMA pipe busier than tensor pipe' then"
      " 100 * sum(case when fma_pct > tensor_pct then ns else 0 end) / sum(ns)"
      " when 'mixed: busiest vector pipe above tensor pipe' then"
      " 100 * sum(case when max(fma_pct, alu_pct, xu_pct) > tensor_pct then ns else 0 end) / sum(ns) else -1 end"
      " from k where " GROUP " and " MIXED },
    { "fig7", "kernels", "reading", "percent", "select case :b when 'floor by memory' then " PART("by_memory")
      " when 'floor by tensor' then " PART("by_tensor") " when 'floor by vector' then " PART("by_vector")
      " when 'floor by special functions' then " PART("by_special") " else -1 end from floors where floor is not null"
      " and " GROUP },
    { "stores", "run", NULL, "step_ms", "select 1e3 * " PLAIN },
    { "stores", "run", NULL, "units_per_s", "select (" SHEET("run.units") ") / " PLAIN },
    { "stores", "run", NULL, "busy_ms", "select ns / 1e6 from busy" },
    { "stores", "run", NULL, "launches", "select count(*) * 1.0 / (select n from steps) from e" },
    { "stores", "run", NULL, "gemm_ms", "select sum(ns) / 1e6 from k where kind = 'gemm'" },
    { "stores", "run", NULL, "ssm_ms", "select sum(ns) / 1e6 from k where kind = 'ssm'" },
    { "stores", "run", NULL, "step_us_per_unit", "select 1e6 * " PLAIN " / (" SHEET("run.units") ")" },
    { "fig12", "run", NULL, "step_us_per_unit", "select 1e6 * " PLAIN " / (" SHEET("run.units") ")" },
    { "fig12", "run", NULL, "ssm_us_per_unit", "select sum(ns) / 1e3 / (" SHEET("run.units") ") from k where kind ="
      " 'ssm'" },
    { "fig12", "run", NULL, "ssm_percent_of_floor", SSM_FLOOR },
    { "fig12", "run", NULL, "ssm_gb_s", "select sum(n * dram) / sum(n * c_ns) from k where kind = 'ssm'" },
    { "fig12", "run", NULL, "ssm_mb", "select sum(n * dram) / 1e6 from k where kind = 'ssm'" },
    { "fig12", "run", NULL, "ssm_l2_mb", "select sum(n * l2) / 1e6 from k where kind = 'ssm'" },
    { "fig12", "run", NULL, "ssm_block_us", "select 1e6 * sum(ns * block_s) / sum(ns) from k where kind = 'ssm'" },
    { "table1", "run", NULL, "parameters_m", "select (" PARAMETER("parameters") ") / 1e6" },
    { "table1", "run", NULL, "units", SHEET("run.units") },
    { "table1", "run", NULL, "plan_gb", "select (" PARAMETER("plan_bytes") ") / 1e9" },
    { "training", "run", NULL, "steps", SHEET("train.steps") },
    { "training", "run", NULL, "units", SHEET("train.units") },
    { "training", "run", NULL, "first_loss", SHEET("train.first_loss") },
    { "training", "run", NULL, "last_loss", SHEET("train.last_loss") },
    { "training", "run", NULL, "valid_loss", SHEET("train.valid_loss") },
    { "training", "run", NULL, "units_per_s", SHEET("train.units_per_s") },
    { "study", "what", NULL, "here", "select case :a when 'GEMM, of the step' then"
      " 100 * (select sum(ns) from k where kind = 'gemm') / (select ns from busy)"
      " when 'SSM operators, of the step' then 100 * (select sum(ns) from k where kind = 'ssm') / (select ns from busy)"
      " when 'vector FLOP per DRAM byte' then (select sum(n * (fp32 + half)) / sum(n * dram) from k)"
      " when 'all FLOP per DRAM byte' then (select sum(n * (tensor + fp32 + half)) / sum(n * dram) from k)"
      " when 'mean over launches' then (select sum(n * dram / c_ns) / sum(n) from k where kind = 'ssm')"
      " when 'the same, weighted by time' then (select 1e11 * sum(n * dram) / sum(n * c_ns) / (select sheet from ceil)"
      " from k where kind = 'ssm') else -1 end" },
};
enum { CLAIMS = sizeof claims / sizeof *claims };

/* ---- the page ---- */

static char *page_of(const char *const *path, int n)
{
    mba_stores r;
    mba_buf    b = { 0 };
    assert_ok(mba_stores_open(&r, path, n));
    r.study = true;
    assert_ok(mba_report_page(&b, &r));
    assert_ok(mba_stores_close(&r));
    return b.s;                                                        // the test frees it
}

/* A table of the page: where its rows begin, and the names of its columns; false: the page has none of that figure. */
typedef struct sheet { char columns[512]; const char *rows; } sheet;

static bool find_table(sheet *t, const char *page, const char *figure)
{
    char caption[64];
    snprintf(caption, sizeof caption, "<caption>%s, ", figure);
    const char *at = strstr(page, caption), *head = at;
    if (!at) return false;
    static const char key[] = "data-csv=\"";
    while (head > page && strncmp(head, key, sizeof key - 1)) head--;
    head += sizeof key - 1;
    snprintf(t->columns, sizeof t->columns, "%.*s", (int)strcspn(head, "\""), head);
    t->rows = strstr(at, "<tbody>");
    return true;
}

static int column_named(const sheet *t, const char *name)
{
    int n = 0;
    for (const char *at = t->columns; *at; n++) {
        const size_t length = strcspn(at, ",");
        if (strlen(name) == length && !strncmp(at, name, length)) return n;
        at += length + (at[length] == ',');
    }
    return -1;
}

static void unescape(char *text)
{
    static const char *const from[] = { "&amp;", "&lt;", "&gt;", "&quot;" };
    for (size_t i = 0; i < 4; i++)
        for (char *at; (at = strstr(text, from[i])) != NULL;) {
            *at = "&<>\""[i];
            memmove(at + 1, at + strlen(from[i]), strlen(at + strlen(from[i])) + 1);
        }
}

/* ---- one against the other ---- */

static subject subject_of(sqlite3 *db, const claim *c, const sheet *t, page_row *row)
{
    const int a = column_named(t, c->a), b = c->b ? column_named(t, c->b) : -1, kind = column_named(t, "class");
    if (a < 0 || (c->b && b < 0)) fail_msg("%s has no column %s or %s", c->figure, c->a, c->b ? c->b : "-");
    for (int i = 0; i < row->n; i++) unescape(row->cell[i]);
    const bool kernel = !strcmp(c->a, "kernel") && !strstr(row->cell[a], "mean");
    return (subject){ .kernel = kernel ? kernel_labelled(db, row->cell[a]) : -1, .a = row->cell[a],
                      .b = b < 0 ? "" : row->cell[b], .c = kind < 0 ? "" : row->cell[kind] };
}

/* How many rows were asked. */
static int check_claim(sqlite3 *db, const char *store, const char *page, const claim *c)
{
    sheet    t;
    page_row row;
    int      rows = 0;
    if (!find_table(&t, page, c->figure)) return 0;
    const int column = column_named(&t, c->column), work = column_named(&t, "work");
    const int bytes = column_named(&t, "bytes_are");
    if (column < 0) fail_msg("%s has no column %s", c->figure, c->column);
    for (const char *at = t.rows; (at = next_row(at, &row)) != NULL && row.n > column;) {
        const subject who = subject_of(db, c, &t, &row);
        if (work >= 0 && !strcmp(row.cell[work], "least")) continue;           // of the graph, not of counters
        if (bytes >= 0 && strcmp(row.cell[bytes], "counted")) continue;
        const double want = ask(db, c->sql, who), got = row.value[column];
        if (want == -1) continue;                                              // a row the claim does not speak of
        if (isnan(want) != isnan(got) || fabs(got - want) > 1e-6 * fabs(want) + 1e-12)
            fail_msg("%s, %s of '%s' '%s': %.9g on the page, %.9g in the database", store, c->column, row.cell[0],
                     row.n > 1 ? row.cell[1] : "", got, want);
        rows++;
    }
    return rows;
}

static char    *pages[STORES];                     /* of one store each */
static sqlite3 *rows_of[STORES];

static int begin(void **state)
{
    (void)state;
    for (int i = 0; i < STORES; i++) {
        char        path[128];
        const char *one[] = { path };
        snprintf(path, sizeof path, "tests/data/stores/%s", stores[i]);
        pages[i]   = page_of(one, 1);
        rows_of[i] = open_rows(path);
    }
    return 0;
}

static int end(void **state)
{
    (void)state;
    for (int i = 0; i < STORES; i++) free(pages[i]), sqlite3_close(rows_of[i]);
    return 0;
}

/* All rows of all tables with the page of one store; a figure that compares stores is walked below. */
static void every_table_of_every_figure_is_the_database(void **state)
{
    int asked[CLAIMS] = { 0 }, all = 0;
    (void)state;
    for (int i = 0; i < STORES; i++)
        for (int c = 0; c < CLAIMS; c++) asked[c] += check_claim(rows_of[i], stores[i], pages[i], &claims[c]);
    for (int c = 0; c < CLAIMS; c++) {
        const bool compares = !strcmp(claims[c].figure, "stores") || !strcmp(claims[c].figure, "fig12");
        if (!asked[c] && !compares) fail_msg("no page has a number of %s, %s", claims[c].figure, claims[c].column);
        all += asked[c];
    }
    print_message("%d numbers of %d columns\n", all, CLAIMS);
    assert_true(all > 5000);
}

static void same(const char *what, const char *where, double got, double want)
{
    if (isnan(want) != isnan(got) || fabs(got - want) > 1e-6 * fabs(want) + 1e-12)
        fail_msg("%s of %s: %.9g on the page, %.9g in the database", what, where, got, want);
}

/* The large numbers of the cards above everything else; where a card has none ("–"), neither has the database. */
static void findings_are_the_database(void **state)
{
    static const struct { const char *card, *sql; } card[] = {
        { "<b>F1</b>", "select 100 * sum(ns) / (select ns from busy) from k where kind = 'gemm'" },
        { "<b>F2</b>", "select 100 * sum(ns) / (select ns from busy) from k where kind = 'ssm'" },
        { "<b>F3</b>", "select " PART("by_memory") " from floors where floor is not null" },
        { "<b>F4</b>", "select 1e11 * sum(n * dram / c_ns) / sum(n) / (select sheet from ceil) from k where kind ="
          " 'ssm'" },
    };
    int seen = 0;
    (void)state;
    for (int i = 0; i < STORES; i++)
        for (size_t c = 0; c < sizeof card / sizeof *card; c++) {
            const char  *at = strstr(pages[i], card[c].card), *big = at ? strstr(at, "class=\"big\"") : NULL;
            const char  *value = big ? strstr(big, "data-v=\"") : NULL;
            const double want = ask(rows_of[i], card[c].sql, (subject){ 0 });
            if (!value || value - big > 40 || isnan(want)) continue;
            same(card[c].card, stores[i], strtod(value + 8, NULL), want);
            seen++;
        }
    assert_true(seen > 20);
}

/* ---- several stores on one page ---- */

static char label[STORES][384];

static char *page_of_all(void)
{
    static char paths[STORES][128];
    const char *path[STORES];
    mba_stores  r;
    mba_buf     b = { 0 };
    for (int i = 0; i < STORES; i++) {
        snprintf(paths[i], sizeof paths[i], "tests/data/stores/%s", stores[i]);
        path[i] = paths[i];
    }
    assert_ok(mba_stores_open(&r, path, STORES));
    for (int i = 0; i < STORES; i++) snprintf(label[i], sizeof label[i], "%s", r.run[i].label);
    assert_ok(mba_report_page(&b, &r));
    assert_ok(mba_stores_close(&r));
    return b.s;
}

static int run_labelled(const char *text)
{
    for (int i = 0; i < STORES; i++) if (!strcmp(label[i], text)) return i;
    fail_msg("no store is called '%s'", text);
    return 0;
}

/* Fig. 10: a column of Mamba-1, one of Mamba-2. */
static int check_pair(const char *page, sqlite3 *scan, sqlite3 *matrix)
{
    static const char *const sql[] = {
        "select 1e6 * " PLAIN " / (" SHEET("run.units") ")",
        "select sum(ns) / 1e3 / (" SHEET("run.units") ") from k where kind = 'ssm'",
        "select 100 * sum(ns) / (select ns from busy) from k where kind = 'ssm'",
        "select sum(n * (least_t + least_v)) / 1e6 / (" SHEET("run.units") ") from k where kind = 'ssm'", SSM_FLOOR,
        "select sum(n * dram) / sum(n * c_ns) from k where kind = 'ssm'" };
    sheet    t;
    page_row row;
    int      n = 0;
    assert_true(find_table(&t, page, "fig10"));
    for (const char *at = t.rows; (at = next_row(at, &row)) != NULL && row.n == 4; n++) {
        assert_true(n < 6);
        same(row.cell[0], "Mamba-1", row.value[2], ask(scan, sql[n], (subject){ 0 }));
        same(row.cell[0], "Mamba-2", row.value[3], ask(matrix, sql[n], (subject){ 0 }));
    }
    return n;
}

/* Peers: the classes of our Mamba-2 beside those of the program that is not ours. */
static int check_peers(const char *page, sqlite3 *ours, sqlite3 *theirs)
{
    static const char *const kinds[][2] = { { "GEMM", "gemm" }, { "SSM", "ssm" }, { "convolution", "conv" },
        { "normalisation", "norm" }, { "element-wise", "element-wise" }, { "reduction", "reduction" },
        { "message passing", "message passing" }, { "optimizer", "optimizer" } };
    static const char ms[] = "select sum(ns) / 1e6 from k where kind = :a", launches[] = "select ifnull(sum(n), 0)"
        " from k where kind = :a";
    sheet    t;
    page_row row;
    int      n = 0;
    assert_true(find_table(&t, page, "peers"));
    for (const char *at = t.rows; (at = next_row(at, &row)) != NULL && row.n == 7;)
        for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
            if (strcmp(row.cell[0], kinds[i][0])) continue;
            const subject who = { .a = kinds[i][1] };
            same("ours_ms", row.cell[0], row.value[2], ask(ours, ms, who));
            same("peer_ms", row.cell[0], row.value[3], ask(theirs, ms, who));
            same("ours_launches", row.cell[0], row.value[5], ask(ours, launches, who));
            same("peer_launches", row.cell[0], row.value[6], ask(theirs, launches, who));
            n++;
        }
    return n;
}

static void figures_that_compare_stores_are_the_databases(void **state)
{
    char *page = page_of_all();
    int   rows = 0;
    (void)state;
    for (int c = 0; c < CLAIMS; c++) {
        sheet    t;
        page_row row;
        if (strcmp(claims[c].a, "run") || !find_table(&t, page, claims[c].figure)) continue;
        const int column = column_named(&t, claims[c].column);
        for (const char *at = t.rows; (at = next_row(at, &row)) != NULL && row.n > column; rows++) {
            unescape(row.cell[0]);
            const double want = ask(rows_of[run_labelled(row.cell[0])], claims[c].sql, (subject){ 0 });
            same(claims[c].column, row.cell[0], row.value[column], want);
        }
    }
    assert_true(rows > 100);
    assert_int_equal(check_pair(page, rows_of[1], rows_of[0]), 6);
    assert_true(check_peers(page, rows_of[0], rows_of[6]) >= 7);
    free(page);
}

/* ---- records of kernels, which make the cards of the explorer and the JSON that is saved ---- */

static const struct { const char *key, *sql; } fields[] = {
    { "n", K("n") }, { "ms", K("ns / 1e6") }, { "us", "select " MEDIAN_NS " / 1e3" }, { "us_c", K("c_ns / 1e3") },
    { "floor", F("floor / 1e3") }, { "least_b", K("least_b") }, { "least_tf", K("least_t") },
    { "least_vf", K("least_v") },
    { "least_sf", K("least_s") }, { "dram", K("dram") }, { "l2", K("l2") }, { "l1", K("l1") }, { "tf", K("tensor") },
    { "vf", K("fp32 + half") }, { "sf", K("special") }, { "life", K("1e6 * block_s") }, { "regs", ROW("regs") },
    { "waves", ROW("waves") }, { "occ_max", ROW("occupancy_limit") }, { "local", ROW("local_bytes") },
    { "threads", ROW("block_x * block_y * block_z") }, { "smem", ROW("smem_static_bytes + smem_dynamic_bytes") },
    { "occ", K("M('sm__warps_active.avg.pct_of_peak_sustained_active')") },
    { "l1_hit", K("M('l1tex__t_sector_hit_rate.pct')") },
    { "l2_hit", K("100 * M('lts__t_sectors_lookup_hit.sum') / M('lts__t_sectors.sum')") },
    { "ghz", K("M('sm__cycles_elapsed.avg.per_second') / 1e9") },
};

static void records_of_kernels_are_the_database(void **state)
{
    int asked = 0;
    (void)state;
    for (int i = 0; i < STORES; i++) {
        sqlite3    *db = rows_of[i];
        const char *json = strstr(pages[i], "id=\"data\">") + 10;
        json_t     *data = json_loadb(json, (size_t)(strstr(json, "</script>") - json), 0, NULL);
        json_t     *kernels = json_object_get(data, "kernels"), *row, *key;
        json_t *keys = json_object_get(kernels, "keys"), *rows = json_object_get(kernels, "rows");
        size_t  r, k, name = 0;
        json_array_foreach(keys, k, key) if (!strcmp(json_string_value(key), "name")) name = k;
        json_array_foreach(rows, r, row) {
            const char   *called = json_string_value(json_array_get(row, name));
            const int64_t kernel = kernel_labelled(db, called);
            json_array_foreach(keys, k, key) for (size_t f = 0; f < sizeof fields / sizeof *fields; f++) {
                if (strcmp(json_string_value(key), fields[f].key)) continue;
                const json_t *v = json_array_get(row, k);
                same(fields[f].key, called, json_is_null(v) ? NAN : json_number_value(v),
                     ask(db, fields[f].sql, (subject){ .kernel = kernel }));
                asked++;
            }
        }
        json_decref(data);
    }
    print_message("%d numbers of records\n", asked);
    assert_true(asked > 5000);
}

/* ---- tooltips: a label, words, a number as people read it ---- */

static const struct { const char *words, *sql; } tips[] = {
    { " · L1|", K("M('l1tex__t_sector_hit_rate.pct')") },
    { " · L2|", K("100 * M('lts__t_sectors_lookup_hit.sum') / M('lts__t_sectors.sum')") },
    { "|mean lifetime ", K("1e6 * block_s") },
    { "|occupancy ", K("M('sm__warps_active.avg.pct_of_peak_sustained_active')") },
    { "|possible occupancy ", ROW("occupancy_limit") },
    { " · measured|", "select " MEDIAN_NS " / 1e3" },
    { "|memory floor ", F("by_memory / 1e3") },
    { "|tensor floor ", F("by_tensor / 1e3") },
    { "|vector floor ", F("by_vector / 1e3") },
    { "|special-function floor ", F("by_special / 1e3") },
    { " · rule (a), arithmetic|", K("tensor / (fp32 + half)") },
    { " · rule (b), issue slots × 2|", K("tensor / (2 * " SLOTS ")") },
    { " · tensor : special functions|", K("tensor / special") },
    { "|operands ", K("least_b / 1e6") },
    { " · loads|", K("M('l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum')"
                     " / M('l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum')") },
    { " · stores|", K("M('l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum')"
                      " / M('l1tex__t_requests_pipe_lsu_mem_global_op_st.sum')") },
};
enum { TIPS = sizeof tips / sizeof *tips };

/* 1 where the tip is of this kind, and right. A rate of the roofline stands behind " · L1|" too: it is in FLOP/s. */
static int check_tip(sqlite3 *db, const char *store, const char *tip, int kind)
{
    const char *at = strstr(tip, tips[kind].words);
    char        called[256];
    if (!at || strstr(tip, "FLOP/byte") || strstr(tip, "records|")) return 0;
    snprintf(called, sizeof called, "%.*s", (int)(at - tip), tip);
    const subject  who = { .kernel = kernel_labelled(db, called) };
    const mba_word want = mba_num(ask(db, tips[kind].sql, who));
    const char    *said = at + strlen(tips[kind].words);
    if (strncmp(said, want.s, strlen(want.s)) || said[strlen(want.s)] != ' ')
        fail_msg("%s: '%s', the database has %s", store, tip, want.s);
    return 1;
}

static void tooltips_say_what_the_database_has(void **state)
{
    int seen[TIPS] = { 0 }, all = 0;
    (void)state;
    for (int i = 0; i < STORES; i++) {
        const char *json = strstr(pages[i], "id=\"data\">") + 10;
        json_t     *data = json_loadb(json, (size_t)(strstr(json, "</script>") - json), 0, NULL), *tip;
        size_t      t;
        json_array_foreach(json_object_get(data, "tips"), t, tip)
            for (int k = 0; k < TIPS; k++) seen[k] += check_tip(rows_of[i], stores[i], json_string_value(tip), k);
        json_decref(data);
    }
    for (int k = 0; k < TIPS; k++) {
        if (!seen[k]) fail_msg("no tooltip has '%s'", tips[k].words);
        all += seen[k];
    }
    print_message("%d numbers of tooltips\n", all);
}

/* ---- operands: the one store that has them is of the first version ---- */

static void the_memory_plan_is_the_operands(void **state)
{
    static const claim of[] = {
        { "memory", "role", NULL, "mb", "select ifnull((select sum(b) / 1e6 from (select max(bytes) as b, min(role) as"
          " role from"
          " s.operand group by storage) where role = :a), -1)" },
        { "memory", "role", NULL, "storages", "select ifnull((select count(distinct storage) from s.operand where role"
          " = :a"
          " having count(*) > 0), -1)" },
    };
    const char *path[] = { "tests/data/stores/v1.db" };
    char       *page = page_of(path, 1);
    sqlite3    *db = attach_rows(path[0]);
    (void)state;
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) assert_true(check_claim(db, path[0], page, &of[i]) >= 3);
    sqlite3_close(db);
    free(page);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(every_table_of_every_figure_is_the_database),
                                        cmocka_unit_test(findings_are_the_database),
                                        cmocka_unit_test(figures_that_compare_stores_are_the_databases),
                                        cmocka_unit_test(records_of_kernels_are_the_database),
                                        cmocka_unit_test(tooltips_say_what_the_database_has),
                                        cmocka_unit_test(the_memory_plan_is_the_operands) };
    return cmocka_run_group_tests(tests, begin, end);
}
