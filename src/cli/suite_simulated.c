// SPDX-License-Identifier: Apache-2.0
/* suite_simulated.c -- see suite_simulated.h. */
#include "cli/suite_simulated.h"

#include <math.h>
#include <stdio.h>

#include "cli/simulated.h"
#include "cli/table.h"
#include "cli/validated.h"
#include "core/print.h"

static const mba_column columns[] = { { "machine", "machine", NULL },       { "model", "model", NULL },
                                      { "batch", "batch", NULL },           { "step_ms", "step, ms", "%.1f" },
                                      { "units_per_s", "per s", "%.0f" },   { "gemm", "GEMM, %", "%.0f" },
                                      { "ssm", "SSM, %", "%.0f" },          { "norm", "norms, %", "%.0f" },
                                      { "dram_gbs", "DRAM, GB/s", "%.0f" }, { "tensor", "tensor, %", "%.0f" },
                                      { "vector", "vector, %", "%.0f" },    { 0 } };

static void row(mba_table *t, const mba_simulated *r)
{
    double kind[MBA_KINDS] = { 0 }, tensor = 0, vector = 0;
    for (int32_t i = 0; i < r->session.graph->nnodes; i++) {
        const mba_sim_node *n = &r->step.node[i];
        double              busiest = n->busy[MBA_P_FMA];
        if (n->busy[MBA_P_ALU] > busiest) busiest = n->busy[MBA_P_ALU];
        if (n->busy[MBA_P_XU] > busiest) busiest = n->busy[MBA_P_XU];
        kind[r->session.graph->nodes[i]->op->kind] += n->seconds;
        tensor += n->busy[MBA_P_MMA] * n->kernels_s;
        vector += busiest * n->kernels_s;
    }
    mba_table_text(t, "%s", r->gpu.name);
    mba_table_text(t, "%s", mba_model_name(&r->session.model));
    mba_table_text(t, "%s", mba_model_batch_words(&r->session.model).text);
    mba_table_number(t, 1e3 * r->step.seconds);
    mba_table_number(t, r->units / r->step.seconds);
    mba_table_number(t, 100 * kind[MBA_GEMM] / r->step.seconds);
    mba_table_number(t, 100 * kind[MBA_SSM] / r->step.seconds);
    mba_table_number(t, 100 * kind[MBA_NORM] / r->step.seconds);
    mba_table_number(t, (r->step.dram_read + r->step.dram_write) / r->step.seconds / 1e9);
    mba_table_number(t, 100 * tensor / r->step.seconds);
    mba_table_number(t, 100 * vector / r->step.seconds);
}

static mba_status fill(mba_table *t, mba_sim *sim, const char *machine)
{
    mba_status st = MBA_OK;
    for (const mba_model_options *m = mba_full_size; m->name && st == MBA_OK; m++) {
        mba_simulated r = { 0 };
        st = mba_simulated_run(&r, &(mba_workload){ .machine = machine, .model = *m }, sim);
        if (st == MBA_OK) row(t, &r);
        mba_simulated_end(&r);
    }
    return st;
}

static mba_status print_error(void)
{
    mba_measured *d;
    double        worst = 0;
    MBA_TRY(mba_validation_points(&d, NULL, "h200", NULL));
    const mba_error_stats held = mba_measured_score(d, MBA_POINT_HELD);
    for (int i = 0; i < d->n; i++) {
        const double off = d->point[i].source == MBA_POINT_TOTAL ? 100 * (d->point[i].predicted_ms / d->point[i].ms - 1)
                                                                 : 0;
        if (fabs(off) > fabs(worst)) worst = off;
    }
    printf("error against the H200, %d points held out: mean %.0f %%, 90th percentile %.0f %%; worst whole step "
           "%+.0f %%. H100: not validated.\n",
           held.points, held.mape, held.p90, worst);
    mba_measured_destroy(d);
    return MBA_OK;
}

mba_status mba_suite_simulated(void)
{
    mba_table *t = NULL;
    mba_sim   *sim = NULL;
    MBA_TRY(mba_table_create(&t, columns));
    mba_status st = mba_sim_create(&sim);
    if (st == MBA_OK) st = fill(t, sim, "h200");
    if (st == MBA_OK) st = fill(t, sim, "h100");
    if (st == MBA_OK) {
        puts("\nSIMULATED: a training step at full size, bf16 with fp32 master weights, one CUDA graph");
        st = mba_table_print(t, stdout, MBA_TABLE_TEXT);
        if (st == MBA_OK) st = print_error();
    }
    mba_sim_destroy(sim);
    mba_table_destroy(t);
    return st;
}
