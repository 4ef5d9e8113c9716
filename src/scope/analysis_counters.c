// SPDX-License-Identifier: Apache-2.0
/* analysis_counters.c -- see analysis.h: turns the raw metrics of a kernel into executed work, utilisation, floors,
 * class and labels. A metric that is missing gives NaN, and NaN propagates. */
#include <stdio.h>
#include <string.h>

#include "scope/analysis_parts.h"

enum { CACHE_LINE_BYTES = 64, WAVEFRONT_BYTES = 128, SECTOR_BYTES = 32, WARP = 32 };

/* ---- metrics by name ---- */

static const char *metric_of(const mba_row_counter *c) { return c->metric ? c->metric : ""; }

/* By binary search. If a metric is in two counter sets, the first set by name wins. */
double mba_counter_value(const mba_kernel_view *k, const char *metric)
{
    int64_t lo = 0, hi = k->ncounters;
    while (lo < hi) {
        const int64_t mid = lo + (hi - lo) / 2;
        if (strcmp(metric_of(&k->counter[mid]), metric) < 0) lo = mid + 1;
        else hi = mid;
    }
    return lo < k->ncounters && !strcmp(metric_of(&k->counter[lo]), metric) ? k->counter[lo].value : NAN;
}

static double sass(const mba_kernel_view *k, const char *op)
{
    char name[96];
    snprintf(name, sizeof name, "sm__sass_thread_inst_executed_op_%s_pred_on.sum", op);
    return mba_counter_value(k, name);
}

static double first_known(double x, double y) { return isnan(x) ? y : x; }

/* Sums the counters of the tensor path, one per operand type; the counters per instruction would count twice. */
static double tensor_flops(const mba_kernel_view *k)
{
    static const char prefix[] = "sm__ops_path_tensor_src_";
    const char       *last = "";
    double            sum = NAN;
    for (int64_t i = 0; i < k->ncounters; i++) {
        const char *name = metric_of(&k->counter[i]);
        // a name that repeats is the same metric in another set
        if (strncmp(name, prefix, sizeof prefix - 1) || isnan(k->counter[i].value) || !strcmp(name, last)) continue;
        sum = (isnan(sum) ? 0 : sum) + k->counter[i].value;
        last = name;
    }
    return sum;
}

int mba_stalls_of(const mba_kernel_view *k, mba_stall *out, int room)
{
    static const char before[] = "smsp__average_warps_issue_stalled_", after[] = "_per_issue_active.ratio";
    int               n = 0;
    mba_assert(room > 0);
    for (int64_t i = 0; i < k->ncounters; i++) {
        const char  *name = metric_of(&k->counter[i]), *end = strstr(name, after);
        const double v = k->counter[i].value;
        if (strncmp(name, before, sizeof before - 1) || !end || isnan(v)) continue;
        if (strstr(name, "selected")) continue; // not a stall: the warp issued, or could have
        int at = n;
        while (at > 0 && out[at - 1].warps < v) at--;
        if (at >= room) continue;
        if (n < room) n++;
        mba_debug_assert(at < n && n <= room);
        memmove(out + at + 1, out + at, (size_t)(n - 1 - at) * sizeof *out);
        name += sizeof before - 1;
        out[at] = (mba_stall){ name, (int)(end - name), v };
    }
    return n;
}

static void stalls(mba_kernel_view *k)
{
    mba_stall top[2];
    const int n = mba_stalls_of(k, top, 2);
    for (int i = 0; i < n; i++) k->counted.stall[i] = top[i].name, k->counted.stalled[i] = top[i].warps;
}

/* ---- quantities ---- */

static double block_lifetime(const mba_kernel_view *k, const mba_counted *c)
{
    const double launched = mba_counter_value(k, "sm__ctas_launched.sum"),
                 active = mba_counter_value(k, "sm__ctas_active.sum");
    return launched > 0 ? active / launched / c->clock_hz : NAN;
}

static void count_bytes(const mba_analysis *a, const mba_kernel_view *k, mba_counted *c)
{
    const double elapsed = mba_counter_value(k, "sm__cycles_elapsed.max");
    c->dram_bytes = mba_counter_value(k, "dram__bytes_read.sum") + mba_counter_value(k, "dram__bytes_write.sum");
    c->dram_bytes = first_known(c->dram_bytes, CACHE_LINE_BYTES * mba_counter_value(k, "cpu.llc_misses"));
    c->l2_bytes = first_known(mba_counter_value(k, "lts__t_bytes.sum"),
                              SECTOR_BYTES * mba_counter_value(k, "lts__t_sectors.sum"));
    c->l1_pct = mba_counter_value(k, "l1tex__data_pipe_lsu_wavefronts.avg.pct_of_peak_sustained_elapsed");
    c->l1_bytes = first_known(0.01 * c->l1_pct * elapsed * a->sms * WAVEFRONT_BYTES,
                              mba_counter_value(k, "l1tex__t_bytes.sum"));
}

static double l2_hits(const mba_kernel_view *k)
{
    return 100 * mba_counter_value(k, "lts__t_sectors_lookup_hit.sum") / mba_counter_value(k, "lts__t_sectors.sum");
}

void mba__analysis_counted(const mba_analysis *a, mba_kernel_view *k)
{
    mba_counted *c = &k->counted;
#define PCT_ACTIVE ".avg.pct_of_peak_sustained_active"
    c->time_s = 1e-9 * mba_counter_value(k, "gpu__time_duration.sum");
    c->clock_hz = mba_counter_value(k, "sm__cycles_elapsed.avg.per_second");
    c->sm_cycles = mba_counter_value(k, "sm__cycles_active.avg");
    count_bytes(a, k, c);
    c->tensor_flops = tensor_flops(k);
    c->fp32_flops = 2 * sass(k, "ffma") + sass(k, "fadd") + sass(k, "fmul");
    c->half_flops = 4 * sass(k, "hfma") + 2 * sass(k, "hadd") + 2 * sass(k, "hmul");
    c->lane_flops = 2 * (sass(k, "ffma") + sass(k, "fadd") + sass(k, "fmul"))
                    + 4 * (sass(k, "hfma") + sass(k, "hadd") + sass(k, "hmul"));
    c->special_ops = WARP * mba_counter_value(k, "sm__inst_executed_pipe_xu.sum");
    c->dram_pct = mba_counter_value(k, "dram__throughput.avg.pct_of_peak_sustained_elapsed");
    c->tensor_pct = mba_counter_value(k, "sm__pipe_tensor_cycles_active" PCT_ACTIVE);
    c->fma_pct = mba_counter_value(k, "sm__pipe_fma_cycles_active" PCT_ACTIVE);
    c->alu_pct = mba_counter_value(k, "sm__pipe_alu_cycles_active" PCT_ACTIVE);
    c->xu_pct = mba_counter_value(k, "sm__inst_executed_pipe_xu" PCT_ACTIVE);
    c->issue_pct = mba_counter_value(k, "smsp__issue_active" PCT_ACTIVE);
    c->occupancy_pct = mba_counter_value(k, "sm__warps_active" PCT_ACTIVE);
    c->l1_hit_pct = mba_counter_value(k, "l1tex__t_sector_hit_rate.pct");
    c->l2_hit_pct = mba_counter_value(k, "lts__t_sector_hit_rate.pct");
    if (isnan(c->l2_hit_pct)) c->l2_hit_pct = l2_hits(k);
    c->sectors_per_load = mba_counter_value(k, "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum")
                          / mba_counter_value(k, "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum");
    c->sectors_per_store = mba_counter_value(k, "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum")
                           / mba_counter_value(k, "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum");
    // An SM has 128 FMA, 64 ALU and 16 special-function lanes: 4, 2 and 1/2 warps per cycle.
    c->lane_slots = WARP * c->sm_cycles * a->sms * 0.01 * (4 * c->fma_pct + 2 * c->alu_pct + 0.5 * c->xu_pct);
    c->blocks = mba_counter_value(k, "sm__ctas_launched.sum");
    c->block_s = block_lifetime(k, c);
    stalls(k);
}

/* ---- floors ---- */

double mba__floors(const mba_analysis *a, const mba_work_counts *w, double by[MBA_FLOORS], mba_floor *bound)
{
    const mba_rates *r = &a->best;
    // A CPU has no tensor units: matrix products, vector work and special functions use the same lanes in sequence.
    const bool one_kind_of_lane = isnan(r->tensor);
    by[MBA_BY_MEMORY] = w->bytes / r->dram;
    by[MBA_BY_TENSOR] = w->tensor_flops / (one_kind_of_lane ? r->fma : r->tensor);
    by[MBA_BY_VECTOR] = w->vector_flops / r->fma;
    by[MBA_BY_SPECIAL] = w->special_ops / r->special;
    *bound = MBA_BY_MEMORY;
    for (int f = 1; f < MBA_FLOORS; f++)
        if (by[f] > by[*bound]) *bound = (mba_floor)f;
    if (!one_kind_of_lane) return by[*bound];
    const double lanes = by[MBA_BY_TENSOR] + by[MBA_BY_VECTOR] + by[MBA_BY_SPECIAL];
    if (lanes > by[MBA_BY_MEMORY] && *bound == MBA_BY_MEMORY) {
        *bound = MBA_BY_TENSOR;
        for (int f = MBA_BY_TENSOR; f < MBA_FLOORS; f++)
            if (by[f] > by[*bound]) *bound = (mba_floor)f;
    } else if (lanes <= by[MBA_BY_MEMORY]) {
        *bound = MBA_BY_MEMORY;
    }
    return lanes > by[MBA_BY_MEMORY] ? lanes : by[MBA_BY_MEMORY];
}

/* ---- class ---- */

static mba_kernel_class class_named(const char *name)
{
    for (int c = MBA_CLASS_TENSOR; name && c <= MBA_CLASS_COPY; c++)
        if (!strcmp(name, mba_kernel_class_name((mba_kernel_class)c))) return (mba_kernel_class)c;
    return MBA_CLASS_UNKNOWN;
}

/* Every GEMM has an epilogue, so "tensor only" needs a threshold. A kernel is mixed if its FMA pipe is at least half as
 * busy as its tensor pipe; without those counters, if its vector FLOPs would take a tenth of the tensor time at 16 : 1.
 */
static const double BUSY_SHARE = 0.5, WORK_SHARE = 0.1, HARDWARE_RATIO = 16;

static mba_kernel_class class_of(double tensor, double vector, double tensor_pct, double fma_pct)
{
    if (!(tensor > 0)) return MBA_CLASS_VECTOR;
    if (!isnan(tensor_pct) && !isnan(fma_pct))
        return fma_pct >= BUSY_SHARE * tensor_pct ? MBA_CLASS_MIXED : MBA_CLASS_TENSOR;
    return HARDWARE_RATIO * vector >= WORK_SHARE * tensor ? MBA_CLASS_MIXED : MBA_CLASS_TENSOR;
}

static void classify(mba_kernel_view *k)
{
    const mba_counted *c = &k->counted;
    const double       vector = c->fp32_flops + c->half_flops;
    k->cls = class_named(k->row->class);
    k->cls_counted = !isnan(c->tensor_flops) && (!isnan(vector) || !isnan(c->fma_pct));
    if (k->cls_counted) k->cls = class_of(c->tensor_flops, vector, c->tensor_pct, c->fma_pct);
    else if (k->cls == MBA_CLASS_UNKNOWN && !isnan(k->least.tensor_flops)) {
        const bool computes = k->least.tensor_flops + k->least.vector_flops + k->least.special_ops > 0;
        k->cls = computes ? class_of(k->least.tensor_flops, k->least.vector_flops, NAN, NAN) : MBA_CLASS_COPY;
    }
}

/* ---- labels ---- */

static void find_busiest(mba_kernel_view *k, const mba_analysis *a)
{
    const mba_counted *c = &k->counted;
    const double       l2 = 100 * c->l2_bytes / c->time_s / a->best.l2;
    const struct {
        const char *unit;
        double      pct;
    } units[] = { { "DRAM", c->dram_pct },     { "L2", l2 },          { "L1/shared", c->l1_pct },
                  { "tensor", c->tensor_pct }, { "FMA", c->fma_pct }, { "ALU", c->alu_pct },
                  { "special", c->xu_pct } };
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (!isnan(units[i].pct) && (!k->busiest || units[i].pct > k->busiest_pct))
            k->busiest = units[i].unit, k->busiest_pct = units[i].pct;
    if (!k->busiest) k->busiest_pct = NAN;
}

void mba__analysis_label(const mba_analysis *a, mba_kernel_view *k)
{
    const mba_counted *c = &k->counted;
    mba_work_counts    w = k->least;
    k->from_counters = isnan(w.bytes) && !isnan(c->dram_bytes);
    if (k->from_counters)
        w = (mba_work_counts){ c->tensor_flops, c->fp32_flops + c->half_flops, c->special_ops, c->dram_bytes };
    if (k->from_counters) { // a resource without a counter sets no floor
        if (isnan(w.tensor_flops)) w.tensor_flops = 0;
        if (isnan(w.vector_flops)) w.vector_flops = 0;
        if (isnan(w.special_ops)) w.special_ops = 0;
    }
    k->least_s = mba__floors(a, &w, k->floor_s, &k->bound);
    mba_assert(k->bound < MBA_FLOORS);
    classify(k);
    find_busiest(k, a);
    const double vector = c->fp32_flops + c->half_flops;
    k->ratio_a = c->tensor_flops > 0 && vector > 0 ? c->tensor_flops / vector : NAN;
    k->ratio_b = c->tensor_flops > 0 && c->lane_slots > 0 ? c->tensor_flops / (2 * c->lane_slots) : NAN;
}
