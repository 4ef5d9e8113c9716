// SPDX-License-Identifier: Apache-2.0
/* walk_claims.h -- what walk_test.c asks of every row of every table: a figure, a column, and the SQL of its value. */
#ifndef MBA_TEST_WALK_CLAIMS_H
#define MBA_TEST_WALK_CLAIMS_H

#define K(expression) "select " expression " from k where id = :kernel"
#define F(expression) "select " expression " from floors where id = :kernel"
#define DRAM_PCT      "M('dram__throughput.avg.pct_of_peak_sustained_elapsed')"
#define L1_PCT        "M('l1tex__data_pipe_lsu_wavefronts.avg.pct_of_peak_sustained_elapsed')"
#define ROW(column)   "select " column " from s.kernel where id = :kernel"
/* The median time of a step. */
#define STEP(mode) \
    "(select avg(seconds) from (select seconds, row_number() over (order by seconds) as i, count(*) over" \
    " () as n" \
    " from s.step where mode = '" mode "') where i in ((n + 1) / 2, (n + 2) / 2))"
#define PLAIN STEP("plain")
#define MEDIAN_NS \
    "(select avg(duration_ns) from (select duration_ns, row_number() over (order by duration_ns) as i," \
    " count(*) over () as n from e where e.kernel = :kernel) where i in ((n + 1) / 2, (n + 2) / 2))"
#define SLOTS           "(32 * cycles * (select n from sms) * 0.01 * (4 * fma_pct + 2 * alu_pct + 0.5 * xu_pct))"
#define SHEET(name)     "select number from s.sheet where key = '" name "'"
#define PARAMETER(name) "select cast(value as real) from s.parameter where name = '" name "'"
#define ENERGY(what)    "select " what " from s.energy order by rowid limit 1"
/* :a is a kernel group of the page: all, ssm, gemm. */
#define GROUP "(:a = 'all' or kind = :a)"
/* :b is which FLOPs: tensor, vector, both. */
#define FLOPS "sum(n * case :b when 'tensor' then tensor when 'vector' then fp32 + half else tensor + fp32 + half end)"
/* Kernels and copies of a step by phase; what is not in the graph has none. */
#define PHASED \
    "(select ifnull(k.kind, 'memory') as kind, e.op, ifnull(e.phase, '-') as phase, 1.0 / (select n" \
    " from steps) as n," \
    " e.duration_ns * 1.0 / (select n from steps) as ns from e left join k on e.kernel = k.id)"
/* Events of the operator :a in phase :b of class :c, with copies beside the step; the step in the middle, drawn. */
#define OF_OPERATOR \
    " from e0 e left join k on e.kernel = k.id where case when beside then 'copy beside the step' else e.op end = :a" \
    " and ifnull(e.phase, '-') = :b and ifnull(k.kind, 'memory') = :c"
#define SHOWN     "(select * from e0 where step = (select n / 2 from steps))"
#define IN_PHASE  "ifnull(phase, 'not known') = :a"
#define SSM_FLOOR "select 100 * sum(n * floor) / sum(ns) from floors where kind = 'ssm'"
/* A kernel without least work (what a library runs beside the planned one) counts as memory's. */
#define PART(by) "100 * sum(case when bound = '" by "' then ns else 0 end) / sum(ns)"
/* Fig. 4 ends with rows of means, :a, of a group, :c. */
#define RATE \
    "(case :a when 'mean over launches' then (select sum(n * dram / c_ns) / sum(n) from k where :c =" \
    " 'all' or kind = :c)" \
    " when 'time-weighted mean' then (select sum(n * dram) / sum(n * c_ns) from k where :c = 'all' or" \
    " kind = :c)" \
    " else (select dram / c_ns from k where id = :kernel) end)"
/* A matrix product: of class gemm, or a library's product of the head, which is in the class of the loss. */
#define PRODUCT \
    "(kind = 'gemm' or kind = 'embedding/loss' and (name like '%nvjet%' or name like '%splitKreduce%' or" \
    " name like '%gemm%'))"
#define MIXED "(tensor > 0 and fma_pct >= 0.5 * tensor_pct)"

/* a, b: columns of the page that are :a and :b (a "kernel": :kernel); :c is the column "class". */
typedef struct claim {
    const char *figure, *a, *b, *column, *sql;
} claim;

static const claim claims[] = {
    { "fig1", "class", "phase", "time_ms", "select sum(ns) / 1e6 from " PHASED " where kind = :a and phase = :b" },
    { "fig1", "class", "phase", "launches", "select sum(n) from " PHASED " where kind = :a and phase = :b" },
    { "fig1", "class", "phase", "percent_of_busy",
      "select 100 * sum(ns) / (select ns from busy) from " PHASED " where kind = :a and phase = :b" },
    { "operators", "operator", "phase", "launches", "select count(*) * 1.0 / (select n from steps)" OF_OPERATOR },
    { "operators", "operator", "phase", "time_ms",
      "select avg(ns) / 1e6 from (select ns, row_number() over (order by ns) as i, count(*) over () as n from (select"
      " sum(e.duration_ns) as ns" OF_OPERATOR " group by e.step)) where i in ((n + 1) / 2, (n + 2) / 2)" },
    { "timeline", "phase", NULL, "events", "select count(*) from " SHOWN " where :a = 'the step' or " IN_PHASE },
    { "timeline", "phase", NULL, "busy_us",
      "select sum(duration_ns) / 1e3 from " SHOWN " where :a = 'the step' or " IN_PHASE },
    { "timeline", "phase", NULL, "from_us",
      "select (min(start_ns) - (select min(start_ns) from " SHOWN ")) / 1e3 from " SHOWN
      " where :a = 'the step' or " IN_PHASE },
    { "timeline", "phase", NULL, "to_us",
      "select (max(start_ns + duration_ns) - (select min(start_ns) from " SHOWN ")) / 1e3 from " SHOWN
      " where :a = 'the step' or " IN_PHASE },
    { "intensity", "kernels", "flops", "least",
      "select sum(n * case :b when 'tensor' then least_t when 'vector' then"
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
    { "bandwidth_time", "kernel", NULL, "step_us", K("n * c_ns / 1e3") },
    { "bandwidth_time", "kernel", NULL, "gb_s", K("dram / c_ns") },
    { "bandwidth_time", "kernel", NULL, "step_mb", K("n * dram / 1e6") },
    { "fig5", "kernel", NULL, "mean_us", K("1e6 * block_s") },
    { "fig5", "kernel", NULL, "blocks", K("blocks") },
    { "fig5", "kernel", NULL, "waves", ROW("waves") },
    { "fig5", "kernel", NULL, "blocks_per_sm", K("blocks * block_s / (c_ns * 1e-9) / (select n from sms)") },
    { "fig5", "kernel", NULL, "dram_kib_per_block", K("dram / blocks / 1024") },
    { "fig5", "kernel", NULL, "dram_kib_per_sm_us", K("dram / c_ns * 1e3 / (select n from sms) / 1024") },
    { "fig6", "kernel", NULL, "ratio_a", K("nullif(tensor, 0) / nullif(fp32 + half, 0)") },
    { "fig6", "kernel", NULL, "ratio_b", K("nullif(tensor, 0) / nullif(2 * " SLOTS ", 0)") },
    { "fig6", "kernel", NULL, "ratio_special", K("tensor / nullif(special, 0)") },
    { "roofline_time", "kernel", NULL, "time_us", "select " MEDIAN_NS " / 1e3" },
    { "roofline_time", "kernel", NULL, "memory_us", F("by_memory / 1e3") },
    { "roofline_time", "kernel", NULL, "tensor_us", F("by_tensor / 1e3") },
    { "roofline_time", "kernel", NULL, "vector_us", F("by_vector / 1e3") },
    { "roofline_time", "kernel", NULL, "special_us", F("by_special / 1e3") },
    { "roofline_time", "kernel", NULL, "percent_of_floor", F("100 * floor / " MEDIAN_NS) },
    { "roofline_time", "kernel", NULL, "busiest_pct",
      K("max(ifnull(" DRAM_PCT ", 0), ifnull(" L1_PCT ", 0),"
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
    { "fig8", "kernel", NULL, "stalled",
      "select max(value) from c where kernel = :kernel and metric glob"
      " 'smsp__average_warps_issue_stalled_*_per_issue_active.ratio' and metric not glob '*selected*'" },
    { "fig9", "kernel", NULL, "load_requests", K("M('l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum')") },
    { "fig9", "kernel", NULL, "store_requests", K("M('l1tex__t_requests_pipe_lsu_mem_global_op_st.sum')") },
    { "fig9", "kernel", NULL, "l1_per_l2_byte", K("l1 / nullif(l2, 0)") },
    { "fig9", "kernel", NULL, "l2_per_dram_byte", K("l2 / nullif(dram, 0)") },
    { "fig9", "kernel", NULL, "sectors_per_load",
      K("M('l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum')"
        " / nullif(M('l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum'), 0)") },
    { "fig9", "kernel", NULL, "sectors_per_store",
      K("M('l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum')"
        " / nullif(M('l1tex__t_requests_pipe_lsu_mem_global_op_st.sum'), 0)") },
    { "fig7", "kernels", "reading", "percent",
      "select case :b when 'mixed: FMA pipe busier than tensor pipe' then"
      " 100 * sum(case when fma_pct > tensor_pct then ns else 0 end) / sum(ns)"
      " when 'mixed: busiest vector pipe above tensor pipe' then"
      " 100 * sum(case when max(fma_pct, alu_pct, xu_pct) > tensor_pct then ns else 0 end) / sum(ns) else -1 end"
      " from k where " GROUP " and " MIXED },
    { "fig7", "kernels", "reading", "percent",
      "select case :b when 'floor set by memory' then " PART("by_memory") " when 'floor set by tensor' then " PART(
          "by_tensor") " when 'floor set by vector' then " PART("by_vector") " when 'floor set by special functions' "
                                                                             "then " PART(
                                                                                 "by_special") " else -1 end from "
                                                                                               "floors where "
                                                                                               "floor is not null"
                                                                                               " and " GROUP },
    { "stores", "run", NULL, "step_ms", "select 1e3 * " PLAIN },
    { "stores", "run", NULL, "units_per_s", "select (" SHEET("run.units") ") / " PLAIN },
    { "stores", "run", NULL, "busy_ms", "select ns / 1e6 from busy" },
    { "stores", "run", NULL, "launches", "select count(*) * 1.0 / (select n from steps) from e" },
    { "stores", "run", NULL, "gemm_ms", "select sum(ns) / 1e6 from k where " PRODUCT },
    { "stores", "run", NULL, "ssm_ms", "select sum(ns) / 1e6 from k where kind = 'ssm'" },
    { "stores", "run", NULL, "step_us_per_unit", "select 1e6 * " PLAIN " / (" SHEET("run.units") ")" },
    { "fig12", "run", NULL, "step_us_per_unit", "select 1e6 * " PLAIN " / (" SHEET("run.units") ")" },
    { "fig12", "run", NULL, "ssm_us_per_unit",
      "select sum(ns) / 1e3 / (" SHEET("run.units") ") from k where kind ="
                                                    " 'ssm'" },
    { "fig12", "run", NULL, "ssm_percent_of_floor", SSM_FLOOR },
    { "fig12", "run", NULL, "ssm_gb_s", "select sum(n * dram) / sum(n * c_ns) from k where kind = 'ssm'" },
    { "fig12", "run", NULL, "ssm_mb", "select sum(n * dram) / 1e6 from k where kind = 'ssm'" },
    { "fig12", "run", NULL, "ssm_l2_mb", "select sum(n * l2) / 1e6 from k where kind = 'ssm'" },
    { "fig12", "run", NULL, "ssm_block_us", "select 1e6 * sum(ns * block_s) / sum(ns) from k where kind = 'ssm'" },
    { "persistent", "run", NULL, "forward_ms",
      "select sum(e.duration_ns) / 1e6 / (select n from steps) from e join k on e.kernel = k.id where k.kind = 'ssm' "
      "and e.phase = 'forward'" },
    { "persistent", "run", NULL, "backward_ms",
      "select sum(e.duration_ns) / 1e6 / (select n from steps) from e join k on e.kernel = k.id where k.kind = 'ssm' "
      "and e.phase = 'backward'" },
    { "persistent", "run", NULL, "dram_gb", "select sum(n * dram) / 1e9 from k where kind = 'ssm'" },
    { "persistent", "run", NULL, "counted_ms", "select sum(n * c_ns) / 1e6 from k where kind = 'ssm'" },
    { "persistent", "run", NULL, "step_ms", "select 1e3 * " PLAIN },
    { "persistent", "run", NULL, "ssm_ms", "select sum(ns) / 1e6 from k where kind = 'ssm'" },
    { "persistent", "run", NULL, "block_us", "select 1e6 * sum(ns * block_s) / sum(ns) from k where kind = 'ssm'" },
    { "persistent", "run", NULL, "dram_gb_s", "select sum(n * dram) / sum(n * c_ns) from k where kind = 'ssm'" },
    { "fusion", "run", NULL, "forward_ms",
      "select sum(e.duration_ns) / 1e6 / (select n from steps) from e join k on e.kernel = k.id where k.kind = 'ssm' "
      "and e.phase = 'forward'" },
    { "fusion", "run", NULL, "backward_ms",
      "select sum(e.duration_ns) / 1e6 / (select n from steps) from e join k on e.kernel = k.id where k.kind = 'ssm' "
      "and e.phase = 'backward'" },
    { "fusion", "run", NULL, "dram_gb", "select sum(n * dram) / 1e9 from k where kind = 'ssm'" },
    { "fusion", "run", NULL, "step_ms", "select 1e3 * " PLAIN },
    { "fusion", "run", NULL, "ssm_ms", "select sum(ns) / 1e6 from k where kind = 'ssm'" },
    { "fusion", "run", NULL, "launches", "select sum(n) from k where kind = 'ssm'" },
    { "fusion", "run", NULL, "l2_gb", "select sum(n * l2) / 1e9 from k where kind = 'ssm'" },
    { "energy", "run", NULL, "step_j", ENERGY("joules / steps") },
    { "energy", "run", NULL, "unit_mj", ENERGY("1e3 * joules / units") },
    { "energy", "run", NULL, "units_per_j", ENERGY("units / joules") },
    { "energy", "run", NULL, "watts", ENERGY("joules / seconds") },
    { "energy", "run", NULL, "window_s", ENERGY("seconds") },
    { "table1", "run", NULL, "parameters_m", "select (" PARAMETER("parameters") ") / 1e6" },
    { "table1", "run", NULL, "units", SHEET("run.units") },
    { "table1", "run", NULL, "plan_gb", "select (" PARAMETER("plan_bytes") ") / 1e9" },
    { "training", "run", NULL, "steps", SHEET("train.steps") },
    { "training", "run", NULL, "units", SHEET("train.units") },
    { "training", "run", NULL, "first_loss", SHEET("train.first_loss") },
    { "training", "run", NULL, "last_loss", SHEET("train.last_loss") },
    { "training", "run", NULL, "valid_loss", SHEET("train.valid_loss") },
    { "training", "run", NULL, "units_per_s", SHEET("train.units_per_s") },
    { "study", "what", NULL, "here",
      "select case :a when 'GEMM, of the step' then"
      " 100 * (select sum(ns) from k where " PRODUCT ") / (select ns from busy)"
      " when 'SSM operators, of the step' then 100 * (select sum(ns) from k where kind = 'ssm') / (select ns from busy)"
      " when 'vector FLOP per DRAM byte' then (select sum(n * (fp32 + half)) / sum(n * dram) from k)"
      " when 'all FLOP per DRAM byte' then (select sum(n * (tensor + fp32 + half)) / sum(n * dram) from k)"
      " when 'mean over launches' then (select sum(n * dram / c_ns) / sum(n) from k where kind = 'ssm')"
      " when 'the same, weighted by time' then (select 1e11 * sum(n * dram) / sum(n * c_ns) / (select sheet from ceil)"
      " from k where kind = 'ssm') else -1 end" },
};
enum { CLAIMS = sizeof claims / sizeof *claims };

/* Records of kernels, which make the cards of the explorer and the JSON that is saved. */
static const struct {
    const char *key, *sql;
} fields[] = {
    { "n", K("n") },
    { "ms", K("ns / 1e6") },
    { "us", "select " MEDIAN_NS " / 1e3" },
    { "us_c", K("c_ns / 1e3") },
    { "floor", F("floor / 1e3") },
    { "least_b", K("least_b") },
    { "least_tf", K("least_t") },
    { "least_vf", K("least_v") },
    { "least_sf", K("least_s") },
    { "dram", K("dram") },
    { "l2", K("l2") },
    { "l1", K("l1") },
    { "tf", K("tensor") },
    { "vf", K("fp32 + half") },
    { "sf", K("special") },
    { "life", K("1e6 * block_s") },
    { "regs", ROW("regs") },
    { "waves", ROW("waves") },
    { "occ_max", ROW("occupancy_limit") },
    { "local", ROW("local_bytes") },
    { "threads", ROW("block_x * block_y * block_z") },
    { "smem", ROW("smem_static_bytes + smem_dynamic_bytes") },
    { "occ", K("M('sm__warps_active.avg.pct_of_peak_sustained_active')") },
    { "l1_hit", K("M('l1tex__t_sector_hit_rate.pct')") },
    { "l2_hit", K("100 * M('lts__t_sectors_lookup_hit.sum') / M('lts__t_sectors.sum')") },
    { "ghz", K("M('sm__cycles_elapsed.avg.per_second') / 1e9") },
};

#endif
