// SPDX-License-Identifier: Apache-2.0
/* validation_statistics.c -- see validation.h. */
#include <math.h>
#include <string.h>

#include "study/validation.h"

double mba_error_percent(double predicted, double measured)
{
    return predicted > 0 && measured > 0 ? 100 * (predicted / measured - 1) : NAN;
}

double mba_step_ms_from_counters(const mba_profiled_set *k, const mba_point *p)
{
    for (int i = 0; i < k->n; i++)
        if (!strcmp(k->one[i].workload, p->subject) && k->one[i].step_ms > 0) return k->one[i].step_ms + p->inputs_ms;
    return 0;
}

double mba_step_dram_bytes(const mba_profiled_set *k, const char *workload)
{
    double sum = 0;
    for (int i = 0; i < k->n; i++) {
        const mba_profiled_kernel *c = &k->one[i];
        const double               bytes = c->n[MBA_N_DRAM_RD] + c->n[MBA_N_DRAM_WR];
        if (!strcmp(c->workload, workload) && bytes > 0) sum += c->launches * bytes;
    }
    return sum;
}

const mba_profiled_kernel *mba_worst_kernel(const mba_profiled_set *k)
{
    const mba_profiled_kernel *worst = NULL;
    for (int i = 0; i < k->n; i++) {
        const mba_profiled_kernel *c = &k->one[i];
        if (c->set != MBA_POINT_HELD || c->again || !(c->bound_us > 0)) continue;
        if (!worst || fabs(c->bound_us / c->us - 1) > fabs(worst->bound_us / worst->us - 1)) worst = c;
    }
    return worst;
}

double mba_worst_step_percent(const mba_measured *d)
{
    double worst = 0;
    for (int i = 0; i < d->n; i++) {
        if (d->point[i].source != MBA_POINT_TOTAL) continue;
        const double percent = 100 * (d->point[i].predicted_ms / d->point[i].ms - 1);
        if (fabs(percent) > fabs(worst)) worst = percent;
    }
    return worst;
}

/* ---- emulated machines ---- */

typedef enum change { SHORTER = -1, SAME, LONGER } change;

static change change_of(double times) { return times > 1.01 ? LONGER : times < 0.99 ? SHORTER : SAME; }

static void count_sign(mba_emulation_agreement *a, double measured, double predicted)
{
    const change was = change_of(measured), said = change_of(predicted);
    if (was == said) return;
    a->opposite += was * said < 0;
    a->missed += said == SAME;
    a->invented += was == SAME;
}

mba_status mba_emulation_compare(mba_emulation_agreement *out, const mba_emulated_set *d, const mba_gpu *m)
{
    *out = (mba_emulation_agreement){ 0 };
    for (int i = 0; i < d->n; i++) {
        const double measured = d->one[i].slower;
        double      *predicted = &out->predicted[i];
        MBA_TRY(mba_emulation_simulate(predicted, &d->one[i].what, m));
        count_sign(out, measured, *predicted);
        out->near += measured <= 2.1;
        out->within += measured <= 2.1 && fabs(*predicted / measured - 1) <= 0.1;
    }
    return MBA_OK;
}
