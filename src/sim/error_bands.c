// SPDX-License-Identifier: Apache-2.0
/* error_bands.c -- see error_bands.h: bands per class, and their coverage by leave-one-family-out. */
#include "sim/error_bands.h"

#include <stdlib.h>
#include <string.h>

/* An operator and its backward operator are one family. */
static bool same_family(const char *a, const char *b)
{
    const char  *x = strstr(a, "_bwd"), *y = strstr(b, "_bwd");
    const size_t n = x ? (size_t)(x - a) : strlen(a), m = y ? (size_t)(y - b) : strlen(b);
    return n == m && !memcmp(a, b, n);
}

/* The band of a class without the family of `but` (NULL: of the whole class). `room`: n doubles. */
static mba_band band_of(const mba_prediction_residual *r, int n, mba_sim_limiter class, const char *but, double *room)
{
    int k = 0;
    for (int i = 0; i < n; i++)
        if (r[i].class == class && !(but && same_family(r[i].operator, but))) room[k++] = r[i].times;
    mba_assert(k <= n);
    return mba_band_of_residuals(room, k);
}

mba_status mba_error_bands_of(mba_error_bands *out, const mba_prediction_residual *r, int n)
{
    double *room = calloc((size_t)n + 1, sizeof *room);
    if (!room) return mba_fail(MBA_E_NOMEM, "no memory for %d residuals", n);
    *out = (mba_error_bands){ .points = n };
    for (int class = 0; class < MBA_SIM_LIMITERS; class ++)
        out->of[class].band = band_of(r, n, (mba_sim_limiter) class, NULL, room);
    for (int i = 0; i < n; i++) {
        const mba_band others = band_of(r, n, r[i].class, r[i].operator, room);
        const bool     inside = r[i].times >= others.low && r[i].times <= others.high;
        out->of[r[i].class].points++;
        out->of[r[i].class].inside += inside;
        out->inside += inside;
    }
    mba_assert(out->inside <= out->points);
    free(room);
    return MBA_OK;
}
