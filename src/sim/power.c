// SPDX-License-Identifier: Apache-2.0
/* power.c -- see power.h. */
#include "sim/power.h"

#include <math.h>

mba_power_rates mba_power_rates_of(const mba_sim_step *r, double seconds)
{
    const double *w = r->work, per_s = 1e-12 / seconds;
    mba_assert(seconds > 0);
    return (mba_power_rates){ .vector = per_s * (w[MBA_P_FMA] + w[MBA_P_ALU] + w[MBA_P_H2] + 4 * w[MBA_P_XU]),
                              .tensor = per_s * w[MBA_P_MMA],
                              .dram = per_s * (r->dram_read + r->dram_write) };
}

mba_power_model mba_power_model_of(const mba_gpu *m)
{
    const double *v = m->v;
    return (mba_power_model){ v[MBA_GPU_p_idle], v[MBA_GPU_e_vector], v[MBA_GPU_e_tensor], v[MBA_GPU_e_dram],
                              v[MBA_GPU_v_floor] };
}

static double volts_squared(double v_floor, double x)
{
    const double v = v_floor + (1 - v_floor) * x;
    return v * v;
}

double mba_power_w(const mba_power_model *p, const mba_power_rates *r, double x)
{
    mba_assert(x > 0);
    return p->idle_w + volts_squared(p->v_floor, x) * (p->vector_pj * r->vector + p->tensor_pj * r->tensor)
           + p->dram_pj * r->dram;
}

/* ---- least squares ---- */

enum { TERMS = 4, ROUNDS = 400 };

/* Coefficients of idle, vector, tensor and DRAM in the relative power of a point. */
static void terms_of(double out[TERMS], const mba_power_point *p, double v_floor)
{
    const double v = volts_squared(v_floor, p->x), w = p->weight / p->watts;
    out[0] = w;
    out[1] = w * v * p->rates.vector;
    out[2] = w * v * p->rates.tensor;
    out[3] = w * p->rates.dram;
}

/* Minimises one coordinate after the other, none below 0: the problem is convex, so this ends at the minimum. Returns
 * the sum of squares. */
static double fit_at(double x[TERMS], const mba_power_point *p, int n, double v_floor)
{
    double gram[TERMS][TERMS] = { { 0 } }, right[TERMS] = { 0 }, sum = 0, a[TERMS];
    for (int k = 0; k < n; k++) {
        terms_of(a, &p[k], v_floor);
        for (int i = 0; i < TERMS; i++) {
            right[i] += a[i] * p[k].weight;
            for (int j = 0; j < TERMS; j++) gram[i][j] += a[i] * a[j];
        }
    }
    for (int i = 0; i < TERMS; i++) x[i] = 0;
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < TERMS; i++) {
            double g = right[i];
            for (int j = 0; j < TERMS; j++) g -= j == i ? 0 : gram[i][j] * x[j];
            x[i] = gram[i][i] > 0 && g > 0 ? g / gram[i][i] : 0;
        }
    for (int k = 0; k < n; k++) {
        double e = -p[k].weight;
        terms_of(a, &p[k], v_floor);
        for (int i = 0; i < TERMS; i++) e += a[i] * x[i];
        sum += e * e;
    }
    return sum;
}

mba_power_model mba_power_fit(const mba_power_point *p, int n)
{
    mba_power_model best = { 0 };
    double          least = INFINITY;
    mba_assert(n > 0);
    for (int i = 0; i < 19; i++) {
        double       x[TERMS];
        const double v_floor = 0.05 * i, sum = fit_at(x, p, n, v_floor);
        if (sum >= least) continue;
        least = sum;
        best = (mba_power_model){ x[0], x[1], x[2], x[3], v_floor };
    }
    return best;
}
