// SPDX-License-Identifier: Apache-2.0
/* energy.c -- see energy.h. */
#include "scope/energy.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

bool mba_energy_counts(const mba_row_energy *e)
{
    const bool sampled = e->source && !strcmp(e->source, MBA_ENERGY_SAMPLED);
    return e->steps > 0 && e->joules > 0 && e->seconds >= (sampled ? MBA_ENERGY_SAMPLED_S_MIN : MBA_ENERGY_S_MIN);
}

static void judge(mba_energy *out, const mba_row_energy *e)
{
    const double watts = e->joules / e->seconds;
    out->window_s = e->seconds;
    out->mode = e->mode;
    if (!mba_energy_counts(e)) {
        snprintf(out->why, sizeof out->why, "not reported, the meter needs %g s but ran for %.2f s",
                 e->source && !strcmp(e->source, MBA_ENERGY_SAMPLED) ? MBA_ENERGY_SAMPLED_S_MIN : MBA_ENERGY_S_MIN,
                 e->seconds);
        return;
    }
    if (watts > out->limit_w) {
        snprintf(out->why, sizeof out->why, "not reported, the meter shows more than the card's limit of %g W",
                 out->limit_w);
        return;
    }
    *out->why = 0;
    out->watts = watts;
    out->step_j = e->joules / (double)e->steps;
    if (e->units > 0) out->unit_j = e->joules / e->units, out->units_per_j = e->units / e->joules;
}

mba_status mba_energy_of(mba_energy *out, const mba_analysis *a)
{
    mba_row_energy *e;
    int64_t         n;
    *out = (mba_energy){ NAN, NAN, NAN, NAN, NAN, mba_env_value(a, "gpu.power_limit"), NULL, "not measured" };
    if (out->limit_w <= 0) out->limit_w = NAN;
    MBA_TRY(mba_load_energy(a->store, &e, &n));
    for (int64_t i = 0; i < n && isnan(out->step_j); i++) judge(out, &e[i]);
    mba_assert(isnan(out->watts) || !(out->watts > out->limit_w));
    return MBA_OK;
}

/* The time that the step's energy is divided by: kernels and the gaps between them. */
static double whole_s(const mba_analysis *a) { return a->busy_s + (a->idle_s > 0 ? a->idle_s : 0); }

double mba_energy_kind_j(const mba_energy *e, const mba_analysis *a, int kind)
{
    return a->steps && whole_s(a) > 0 ? e->step_j * mba_kind_s(a, kind) / whole_s(a) : NAN;
}

double mba_energy_gaps_j(const mba_energy *e, const mba_analysis *a)
{
    return a->steps && whole_s(a) > 0 ? e->step_j * (a->idle_s > 0 ? a->idle_s : 0) / whole_s(a) : NAN;
}
