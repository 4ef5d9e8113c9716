// SPDX-License-Identifier: Apache-2.0
/* guard.c -- see guard.h: medians of the last losses and gradient norms, and the limits that follow from them. */
#include "train/guard.h"

#include <float.h>
#include <math.h>
#include <string.h>

static float median(const float *x, int n)
{
    float s[MBA_GUARD_STEPS];
    for (int i = 0; i < n; i++) { // insertion sort: at most 32 values
        int k = i;
        for (; k > 0 && s[k - 1] > x[i]; k--) s[k] = s[k - 1];
        s[k] = x[i];
    }
    return s[n / 2];
}

/* The largest loss that is accepted: the median of the remembered losses plus `factor` times their spread (the largest
 * distance from the median, but at least a twentieth of it). */
float mba_guard_loss_max(const mba_guard *g)
{
    if (!(g->factor > 0) || g->n < MBA_GUARD_WARM) return 0;
    const int    n = g->n < MBA_GUARD_STEPS ? g->n : MBA_GUARD_STEPS;
    const double m = median(g->loss, n);
    double       spread = 0.05 * fabs(m);
    for (int i = 0; i < n; i++) {
        const double away = fabs((double)g->loss[i] - m);
        if (away > spread) spread = away;
    }
    const float most = (float)(m + g->factor * spread);
    return most > FLT_MIN ? most : FLT_MIN; // 0 would mean "no limit"
}

float mba_guard_norm_max(const mba_guard *g)
{
    if (!(g->factor > 0) || g->n < MBA_GUARD_WARM) return 0;
    return (float)g->factor * median(g->norm, g->n < MBA_GUARD_STEPS ? g->n : MBA_GUARD_STEPS);
}

bool mba_guard_skips(const mba_guard *g, double loss, double norm)
{
    const float norm_max = mba_guard_norm_max(g), loss_max = mba_guard_loss_max(g);
    return !isfinite(loss) || !isfinite(norm) || (norm_max > 0 && (float)norm > norm_max)
           || (loss_max > 0 && (float)loss > loss_max);
}

void mba_guard_note(mba_guard *g, double loss, double norm)
{
    if (mba_guard_skips(g, loss, norm)) {
        g->skipped++;
        g->in_a_row++;
        return;
    }
    g->in_a_row = 0;
    g->norm[g->n % MBA_GUARD_STEPS] = (float)norm;
    g->loss[g->n % MBA_GUARD_STEPS] = (float)loss;
    g->n++;
    if (g->n >= 2 * MBA_GUARD_STEPS) g->n -= MBA_GUARD_STEPS; // the position in the ring, and "full"
}
