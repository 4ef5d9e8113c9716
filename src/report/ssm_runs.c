// SPDX-License-Identifier: Apache-2.0
/* ssm_runs.c -- see ssm_runs.h. */
#include "report/ssm_runs.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* A GPU whose power is limited for a run is another machine. */
static bool same_machine(const mba_analysis *a, const mba_analysis *b)
{
    const double x = mba_env_value(a, "run.power_limit"), y = mba_env_value(b, "run.power_limit");
    return !strcmp(mba_run_device(a), mba_run_device(b)) && (x == y || (isnan(x) && isnan(y)));
}

bool mba_same_model(const mba_run *a, const mba_run *b)
{
    return *a->a->workload && !strcmp(a->a->workload, b->a->workload) && same_machine(a->a, b->a)
           && !strcmp(a->a->parameters, b->a->parameters);
}

bool mba_same_size(const mba_run *a, const mba_run *b)
{
    return a->a->units == b->a->units && !strcmp(a->a->batch, b->a->batch);
}

static bool is_ssm(const mba_row_node *n) { return n->op && n->variant && n->kind && !strcmp(n->kind, "ssm"); }

mba_name mba_variants_of(const mba_analysis *a)
{
    mba_name    w = { "" };
    const char *seen[8];
    int         n = 0;
    for (int64_t i = 0; i < a->nnodes && n < 8; i++) {
        const mba_row_node *k = &a->node[i];
        bool                known = !is_ssm(k);
        for (int j = 0; j < n && !known; j++) known = !strcmp(seen[j], k->op);
        if (known) continue;
        const size_t used = strlen(w.s);
        snprintf(w.s + used, sizeof w.s - used, "%s%s %s", n ? ", " : "", k->op, k->variant);
        seen[n++] = k->op;
    }
    return w;
}

bool mba_has_variant(const mba_analysis *a, const char *prefix)
{
    mba_assert(prefix && *prefix);
    for (int64_t i = 0; i < a->nnodes; i++)
        if (is_ssm(&a->node[i]) && !strncmp(a->node[i].variant, prefix, strlen(prefix))) return true;
    return false;
}

mba_ssm_sums mba_ssm_of(const mba_analysis *a)
{
    mba_ssm_sums t = { 0 };
    for (int64_t i = 0; i < a->nkernels; i++) {
        const mba_kernel_view *k = &a->kernel[i];
        if (k->launches <= 0 || !mba_in_group(k, MBA_SSM_KERNELS)) continue;
        t.s += k->step_s;
        t.counted_s += k->per_step * k->counted.time_s;
        t.least_flops += k->per_step * (k->least.tensor_flops + k->least.vector_flops);
        t.bytes += k->per_step * k->counted.dram_bytes;
        t.l2_bytes += k->per_step * k->counted.l2_bytes;
        t.block_s += k->step_s * k->counted.block_s;
    }
    t.block_s /= t.s;
    mba_assert(t.s >= 0);
    return t;
}

double mba_ssm_gb_s(const mba_analysis *a)
{
    const mba_bandwidth w = mba_bandwidth_of(a, MBA_SSM_KERNELS);
    return w.least ? NAN : w.weighted / 1e9;
}
