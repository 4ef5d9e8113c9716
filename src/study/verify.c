// SPDX-License-Identifier: Apache-2.0
/* verify.c -- see verify.h. */
#include "study/verify.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double BYTES_WITHIN = 0.05, LAG_OF_L2 = 0.5, KEPT_OF_L2 = 0.5;

/* Which node and which launch of its plan a kernel ran for, by its first event. Indices are places in the arrays of the
 * analysis: identifiers come from the file and may be anything. */
typedef struct origins {
    const mba_analysis *a;
    int64_t            *node, *launch;
} origins;

static mba_status see(void *ctx, const void *row)
{
    origins             *o = ctx;
    const mba_row_event *e = row;
    const int64_t        k = mba_store_find(MBA_ROWS_kernel, o->a->kernel[0].row, o->a->nkernels, e->kernel);
    if (k < 0 || o->node[k] >= 0 || e->node == MBA_ABSENT) return MBA_OK;
    o->node[k] = e->node;
    o->launch[k] = e->launch;
    return MBA_OK;
}

static mba_status find_origins(origins *o, const mba_analysis *a)
{
    const size_t n = (size_t)a->nkernels + 1;
    *o = (origins){ a, malloc(n * sizeof *o->node), malloc(n * sizeof *o->launch) };
    if (!o->node || !o->launch) return mba_fail(MBA_E_NOMEM, "no memory for %zu kernels", n);
    for (size_t i = 0; i < n; i++) o->node[i] = o->launch[i] = -1;
    return a->nkernels ? mba_store_each(a->store, MBA_ROWS_event, NULL, see, o) : MBA_OK;
}

static const mba_row_node *node_at(const mba_analysis *a, int64_t id)
{
    const int64_t i = mba_store_find(MBA_ROWS_node, a->node, a->nnodes, id);
    return i < 0 ? NULL : &a->node[i];
}

static const mba_row_launch *launch_at(const mba_analysis *a, int64_t id)
{
    const int64_t i = mba_store_find(MBA_ROWS_launch, a->launch, a->nlaunches, id);
    return i < 0 ? NULL : &a->launch[i];
}

static int64_t launches_of(const mba_analysis *a, int64_t node)
{
    int64_t n = 0;
    for (int64_t i = 0; i < a->nlaunches; i++) n += a->launch[i].node == node;
    return n;
}

/* Tensor FLOPs that the launches of a node issue, over its least work: padded tiles, masked halves, recomputed
 * products. */
static double padding_of(const mba_analysis *a, const mba_row_node *node)
{
    double sum = 0;
    for (int64_t i = 0; i < a->nlaunches; i++)
        if (a->launch[i].node == node->id) sum += a->launch[i].tensor_flops;
    return node->tensor_flops > 0 && sum > 0 ? sum / node->tensor_flops : NAN;
}

static const char *kernel_of(const mba_row_launch *l) { return l && l->kernel ? l->kernel : ""; }

/* Whether the work of the kernel depends on the decays in the data; a store may have its amount (gpu_data.c). */
static bool forgets(const char *kernel)
{
    return !strncmp(kernel, "ssd_states", 10) || (!strncmp(kernel, "ssd_scan", 8) && strstr(kernel, "_split"));
}

/* Whether all products of the kernel depend on the data, so that its plan has none: those of wide-range heads. */
static bool only_data_knows(const char *kernel)
{
    return !strcmp(kernel, "ssd_bwd_slow") || !strcmp(kernel, "ssd_tiled_slow");
}

/* Whether no counter has the products of the kernel: those of `fma` are TF32, which the metrics collected leave out. */
static bool is_uncounted(const mba_kernel_view *k, const char *kernel)
{
    const char *end = strstr(kernel, "_fma");
    return end && !end[4] && isnan(mba_counter_value(k, "sm__ops_path_tensor_src_tf32_dst_fp32.sum"));
}

/* Counts are whole numbers; a mean over several launches is whole up to rounding. */
static mba_agreement judge_count(double measured, double expected)
{
    if (isnan(measured) || isnan(expected) || (measured == 0 && expected == 0)) return MBA_NOT_JUDGED;
    return fabs(measured - expected) < 0.5 ? MBA_AGREES : MBA_DIFFERS;
}

static mba_agreement judge(double ratio, double within)
{
    return isnan(ratio) ? MBA_NOT_JUDGED : fabs(ratio - 1) <= within ? MBA_AGREES : MBA_DIFFERS;
}

/* The bytes that must move: the operands of the node if it is one launch, else those of the launch plan. */
static void expect_bytes(mba_verification *v, bool alone)
{
    if (alone) {
        v->bytes_expected = v->node->read_bytes + v->node->write_bytes;
        v->write_expected = v->node->write_bytes;
    } else if (v->ours) {
        v->bytes_expected = v->launch->least_bytes;
        v->write_expected = fmin(v->launch->store_bytes, v->launch->least_bytes);
    }
}

static mba_agreement judge_bytes(const mba_verification *v, double l2_bytes)
{
    if (!(v->bytes_expected > 2 * l2_bytes)) return MBA_NOT_JUDGED;
    const mba_agreement g = judge(v->bytes_ratio, BYTES_WITHIN);
    if (g != MBA_DIFFERS) return g;
    const double least = v->bytes_expected - v->write_expected, read = v->bytes_measured - v->write_measured;
    const double kept = fmin(v->recent, KEPT_OF_L2 * l2_bytes);
    if (fabs(v->write_measured - v->write_expected) > LAG_OF_L2 * l2_bytes) return MBA_DIFFERS;
    if (fabs(read - least) <= BYTES_WITHIN * least) return MBA_LAGS;
    if (read < least) return read >= (1 - BYTES_WITHIN) * (least - kept) ? MBA_KEPT : MBA_DIFFERS;
    return read <= v->loads ? MBA_AGAIN : MBA_DIFFERS;
}

/* With a cold L2 no operand is in the cache beforehand, and lines that stay dirty are counted. */
static void judge_settled(mba_verification *v, double l2_bytes)
{
    const double read = mba_counter_value(v->kernel, "settled__dram_bytes_read.sum"),
                 written = mba_counter_value(v->kernel, "settled__dram_bytes_write.sum");
    v->settled_bytes = read + written;
    v->settled_ratio = v->bytes_expected > 0 ? v->settled_bytes / v->bytes_expected : NAN;
    if (!(v->bytes_expected > 2 * l2_bytes)) return;
    v->settled = judge(v->settled_ratio, BYTES_WITHIN);
    if (v->settled == MBA_DIFFERS && read > v->bytes_expected - v->write_expected && read <= v->loads
        && fabs(written - v->write_expected) <= BYTES_WITHIN * v->bytes_expected)
        v->settled = MBA_AGAIN;
}

static double ratio_of(double measured, double expected)
{
    return expected > 0 ? measured / expected : !isnan(expected) && measured > 0 ? INFINITY : NAN;
}

/* A library may run more kernels than its plan has launches; then a kernel of the library stands in the place of
 * ours. */
static bool is_library(const char *symbol)
{
    static const char *const part[] = { "cudnn", "cublas", "nvjet", "cutlass", "splitK", "xmma" };
    for (size_t i = 0; symbol && i < sizeof part / sizeof *part; i++)
        if (strstr(symbol, part[i])) return true;
    return false;
}

static mba_verification verify(const mba_analysis *a, const mba_kernel_view *k, const origins *o)
{
    mba_verification v = { .kernel = k,
                           .tensor_expected = NAN,
                           .tensor_ratio = NAN,
                           .bytes_expected = NAN,
                           .bytes_ratio = NAN,
                           .write_expected = NAN,
                           .padding = NAN,
                           .settled_bytes = NAN,
                           .settled_ratio = NAN };
    v.node = node_at(a, o->node[k - a->kernel]);
    v.launch = launch_at(a, o->launch[k - a->kernel]);
    v.ours = v.launch && strncmp(kernel_of(v.launch), "cublaslt_", 9) && strncmp(kernel_of(v.launch), "cudnn_", 6)
             && !is_library(k->row->symbol);
    v.tensor_measured = is_uncounted(k, kernel_of(v.launch)) ? NAN : k->counted.tensor_flops;
    v.bytes_measured = k->counted.dram_bytes;
    v.write_measured = mba_counter_value(k, "dram__bytes_write.sum");
    if (!v.node || !v.launch) return v;
    const bool   alone = launches_of(a, v.node->id) == 1;
    const double data = mba_counter_value(k, "data__tensor_flops.sum");
    v.by_data = v.ours && !isnan(data);
    if (v.by_data) v.tensor_expected = data;
    else if (v.ours && !only_data_knows(kernel_of(v.launch))) v.tensor_expected = v.launch->tensor_flops;
    else if (!v.ours && alone) v.tensor_expected = v.node->tensor_flops;
    expect_bytes(&v, alone);
    v.loads = v.launch->load_bytes;
    v.recent = isnan(v.launch->recent_bytes) ? 0 : v.launch->recent_bytes;
    v.tensor_ratio = ratio_of(v.tensor_measured, v.tensor_expected);
    v.bytes_ratio = v.bytes_expected > 0 ? v.bytes_measured / v.bytes_expected : NAN;
    if (v.ours) v.padding = padding_of(a, v.node);
    if (v.ours) v.tensor = judge_count(v.tensor_measured, v.tensor_expected);
    if (v.tensor == MBA_DIFFERS && !v.by_data && forgets(kernel_of(v.launch)) && v.tensor_measured < v.tensor_expected)
        v.tensor = MBA_AT_MOST;
    const bool full = isnan(v.node->filled) || v.node->filled >= 1; // a ragged batch fills only a part of its rows
    if (v.ours && full) v.bytes = judge_bytes(&v, a->l2_bytes);
    if (v.ours && full) judge_settled(&v, a->l2_bytes);
    return v;
}

static bool shares(const mba_verification *v, const mba_verification *w)
{
    return v->ours && w->ours && v->node == w->node && (double)w->launch->place == (double)v->launch->place + 1
           && !strcmp(kernel_of(v->launch), kernel_of(w->launch)) && v->launch->tensor_flops == 0
           && w->launch->tensor_flops > 0;
}

/* The data decides how two launches share their items; the plan counts all of them under the second. */
static void judge_shared(mba_verification *v, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++) {
            if (!shares(&v[i], &v[j])) continue;
            const double measured = v[i].tensor_measured + v[j].tensor_measured;
            v[i].shared = v[j].shared = true;
            v[i].tensor_ratio = v[j].tensor_ratio = ratio_of(measured, v[j].tensor_expected);
            v[i].tensor = v[j].tensor = judge_count(measured, v[j].tensor_expected);
        }
}

double mba_verified_writes(const mba_analysis *a)
{
    double measured = 0, expected = 0;
    if (a->nnodes == 0 || a->node[a->nnodes - 1].id != a->nnodes - 1)
        return NAN; // a reduced store (`export --store`) lacks nodes
    for (int64_t i = 0; i < a->nkernels; i++)
        if (a->kernel[i].per_step > 0)
            measured += a->kernel[i].per_step * mba_counter_value(&a->kernel[i], "dram__bytes_write.sum");
    for (int64_t i = 0; i < a->nnodes; i++) {
        const int64_t n = launches_of(a, a->node[i].id);
        const double  filled = isnan(a->node[i].filled) ? 1 : a->node[i].filled;
        if (n == 1) expected += filled * a->node[i].write_bytes;
        for (int64_t k = 0; n > 1 && k < a->nlaunches; k++)
            if (a->launch[k].node == a->node[i].id)
                expected += filled * fmin(a->launch[k].store_bytes, a->launch[k].least_bytes);
    }
    return expected > 0 ? measured / expected : NAN;
}

mba_status mba_verify(mba_verification **out, int64_t *n, const mba_analysis *a)
{
    origins o;
    *n = 0;
    *out = NULL;
    mba_status st = find_origins(&o, a);
    if (st == MBA_OK && !(*out = calloc((size_t)a->nkernels + 1, sizeof **out)))
        st = mba_fail(MBA_E_NOMEM, "no memory for a verification");
    for (int64_t i = 0; i < a->nkernels && st == MBA_OK; i++)
        if (!isnan(a->kernel[i].counted.tensor_flops) || !isnan(a->kernel[i].counted.dram_bytes))
            (*out)[(*n)++] = verify(a, &a->kernel[i], &o);
    if (st == MBA_OK) judge_shared(*out, *n);
    free(o.node);
    free(o.launch);
    return st;
}
