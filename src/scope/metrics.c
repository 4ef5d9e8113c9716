// SPDX-License-Identifier: Apache-2.0
/* metrics.c -- see metrics.h: the counter sets. docs/scope.md says which metrics cost passes; adding a metric to a set
 * can double its time. */
#include "scope/metrics.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define SASS(op)   "sm__sass_thread_inst_executed_op_" op "_pred_on.sum"
#define STALL(why) "smsp__average_warps_issue_stalled_" why "_per_issue_active.ratio"
#define BUSY(pipe) "sm__pipe_" pipe "_cycles_active.avg.pct_of_peak_sustained_active"

#define TIME_AND_DRAM \
    "gpu__time_duration.sum", "sm__cycles_elapsed.max", "sm__cycles_elapsed.avg.per_second", "dram__bytes_read.sum", \
        "dram__bytes_write.sum", "dram__throughput.avg.pct_of_peak_sustained_elapsed"

static const char *const overview[] = { TIME_AND_DRAM,
                                        "sm__cycles_active.avg",
                                        "lts__t_bytes.sum",
                                        "l1tex__t_bytes.sum",
                                        "l1tex__t_sector_hit_rate.pct",
                                        BUSY("tensor"),
                                        "sm__warps_active.avg.pct_of_peak_sustained_active",
                                        "smsp__issue_active.avg.pct_of_peak_sustained_active",
                                        "smsp__inst_executed.sum" };

/* Vector FLOPs: 2 ffma + fadd + fmul, and for pairs of halves 4 hfma + 2 hadd + 2 hmul. */
static const char *const roofline[] = { TIME_AND_DRAM,
                                        "sm__ops_path_tensor_src_bf16_dst_fp32.sum",
                                        "sm__ops_path_tensor_src_fp8.sum",
                                        "lts__t_bytes.sum",
                                        "l1tex__t_bytes.sum",
                                        SASS("ffma"),
                                        SASS("fadd"),
                                        SASS("fmul"),
                                        SASS("hfma"),
                                        SASS("hadd"),
                                        SASS("hmul"),
                                        SASS("dfma"),
                                        SASS("dadd"),
                                        SASS("dmul") };

/* The hit rate of L2 is computed as hits over sectors. As one metric it takes two passes, which external programs
 * cannot replay. */
static const char *const cache[] = { "l1tex__t_sector_hit_rate.pct",
                                     "lts__t_sectors_lookup_hit.sum",
                                     "lts__t_sectors.sum",
                                     "lts__t_sectors_op_read.sum",
                                     "lts__t_sectors_op_write.sum",
                                     "l1tex__t_sectors.sum",
                                     "dram__bytes_read.sum",
                                     "dram__bytes_write.sum",
                                     "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum",
                                     "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum" };

/* Sectors per request: 4 if a warp reads 128 contiguous bytes with 4-byte lanes, 32 if every lane needs a sector. */
static const char *const access_pattern[] = { "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
                                              "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
                                              "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
                                              "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum",
                                              "l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum",
                                              "l1tex__t_sectors_pipe_lsu_mem_local_op_st.sum",
                                              "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.pct",
                                              "smsp__sass_average_data_bytes_per_sector_mem_global_op_st.pct" };

static const char *const pipes[] = { BUSY("tensor"),
                                     BUSY("fma"),
                                     BUSY("alu"),
                                     BUSY("fp64"),
                                     "sm__inst_executed_pipe_xu.avg.pct_of_peak_sustained_active",
                                     "sm__inst_executed_pipe_lsu.avg.pct_of_peak_sustained_active",
                                     "l1tex__data_pipe_lsu_wavefronts.avg.pct_of_peak_sustained_elapsed",
                                     "sm__inst_executed_pipe_xu.sum",
                                     "sm__inst_executed_pipe_uniform.sum",
                                     "sm__inst_executed_pipe_tma.sum" };

static const char *const stalls[] = { STALL("long_scoreboard"),
                                      STALL("short_scoreboard"),
                                      STALL("barrier"),
                                      STALL("math_pipe_throttle"),
                                      STALL("mio_throttle"),
                                      STALL("lg_throttle"),
                                      STALL("wait"),
                                      STALL("not_selected"),
                                      STALL("selected"),
                                      STALL("gmma"),
                                      STALL("no_instruction"),
                                      STALL("dispatch_stall") };

/* A block's mean lifetime is ctas_active / ctas_launched, in cycles. */
static const char *const occupancy[] = { "gpu__time_duration.sum",
                                         "sm__cycles_active.avg",
                                         "sm__cycles_elapsed.max",
                                         "sm__cycles_elapsed.avg.per_second",
                                         "sm__warps_active.avg.pct_of_peak_sustained_active",
                                         "smsp__issue_active.avg.pct_of_peak_sustained_active",
                                         "smsp__warps_eligible.avg.per_cycle_active",
                                         "sm__ctas_launched.sum",
                                         "sm__ctas_active.sum",
                                         "sm__warps_launched.sum",
                                         "tpc__average_cta_latency.ratio" };

/* What a kernel does, without times and rates: the input of the simulator (docs/simulator.md). */
#define INST(pipe) "smsp__inst_executed_pipe_" pipe ".sum"
#define OP(op)     "smsp__inst_executed_op_" op ".sum"
static const char *const signature[] = { "smsp__inst_executed.sum",
                                         "smsp__inst_executed.max",
                                         INST("alu"),
                                         INST("fma"),
                                         INST("fmaheavy"),
                                         INST("lsu"),
                                         INST("xu"),
                                         INST("cbu"),
                                         INST("adu"),
                                         INST("uniform"),
                                         OP("shared_ld"),
                                         OP("shared_st"),
                                         OP("global_ld"),
                                         OP("global_st"),
                                         OP("ldsm"),
                                         OP("ldgsts"),
                                         "sm__ops_path_tensor_src_bf16_dst_fp32.sum",
                                         "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum",
                                         "l1tex__data_pipe_lsu_wavefronts.sum",
                                         "lts__t_sectors_srcunit_tex_op_read.sum",
                                         "lts__t_sectors_srcunit_tex_op_write.sum",
                                         "dram__bytes_read.sum",
                                         "dram__bytes_write.sum" };

// clang-format off
#define SET(name, about, passes, list) { name, about, passes, list, (int)(sizeof list / sizeof *list) }
// clang-format on
const mba_metric_set mba_metric_sets[] = {
    SET("overview", "time, clock, bytes of DRAM, L2 and L1, tensor pipe, occupancy, issue", 1, overview),
    SET("roofline", "tensor and vector FLOPs, bytes of DRAM, L2 and L1", 2, roofline),
    SET("cache", "hit rates, sectors, bank conflicts of shared memory", 2, cache),
    SET("pipes", "how busy every pipe and the L1/shared data path is", 3, pipes),
    SET("stalls", "why warps wait", 6, stalls),
    SET("occupancy", "warps, blocks and their mean lifetime", 1, occupancy),
    SET("access", "sectors per request, unused bytes and spills of global loads and stores", 5, access_pattern),
    SET("signature", "instructions by pipe, shared memory, sectors, bytes: no time and no rate", 5, signature),
    { NULL, NULL, 0, NULL, 0 },
};

const mba_metric_set *mba_metric_set_find(const char *name)
{
    for (const mba_metric_set *s = mba_metric_sets; s->name; s++)
        if (!strcmp(s->name, name)) return s;
    return NULL;
}

static mba_status unknown_set(const char *name)
{
    char known[256] = "";
    for (const mba_metric_set *s = mba_metric_sets; s->name; s++) {
        const size_t n = strlen(known);
        snprintf(known + n, sizeof known - n, "%s%s", n ? ", " : "", s->name);
    }
    return mba_fail(MBA_E_ARG, "there is no counter set '%.60s'\nfix: choose from %s; '' for none", name, known);
}

mba_status mba_metric_sets_choose(const mba_metric_set **out, int *n, int most, const char *names)
{
    char text[256];
    mba_assert(most > 0);
    *n = 0;
    for (const mba_metric_set *s = mba_metric_sets; !names && s->name && *n < most; s++) out[(*n)++] = s;
    if (!names) return MBA_OK;
    snprintf(text, sizeof text, "%s", names);
    for (char *save = NULL, *name = strtok_r(text, ",", &save); name; name = strtok_r(NULL, ",", &save)) {
        const mba_metric_set *s = mba_metric_set_find(name);
        if (!s) return unknown_set(name);
        mba_assert(s->n <= MBA_METRICS_MAX);
        if (*n < most) out[(*n)++] = s;
    }
    return MBA_OK;
}

static int ends(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);
    return n >= m && !strcmp(text + n - m, end);
}

const char *mba_metric_unit(const char *m)
{
    static const struct {
        const char *part, *unit;
    } by_part[] = { { "gpu__time_duration", "ns" },
                    { "ops_path_tensor", "FLOP" },
                    { "_bytes", "byte" },
                    { "sectors", "sector" },
                    { "requests", "request" },
                    { "wavefronts", "wavefront" },
                    { "bank_conflicts", "conflict" },
                    { "thread_inst", "thread inst" },
                    { "inst_", "inst" },
                    { "ctas_launched", "block" },
                    { "warps_launched", "warp" },
                    { "ctas_active", "cycle" },
                    { "cycles", "cycle" },
                    { "latency", "cycle" } };
    if (ends(m, ".pct") || strstr(m, ".pct_of_")) return "%";
    if (strstr(m, "cycles") && ends(m, ".per_second")) return "Hz";
    if (ends(m, ".ratio") && !strstr(m, "latency")) return "1";
    for (size_t i = 0; i < sizeof by_part / sizeof *by_part; i++)
        if (strstr(m, by_part[i].part)) return by_part[i].unit;
    return "1";
}
