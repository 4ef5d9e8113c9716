// SPDX-License-Identifier: Apache-2.0
/* sort.c -- see sort.h: qsort with a comparison of doubles. */
#include "core/sort.h"

#include <stdlib.h>

#include "core/status.h"

static int by_value(const void *x, const void *y)
{
    const double a = *(const double *)x, b = *(const double *)y;
    return (a > b) - (a < b);
}

void mba_sort(double *v, int64_t n)
{
    mba_assert(n >= 0);
    qsort(v, (size_t)n, sizeof *v, by_value);
    for (int64_t i = 1; i < n; i++) mba_debug_assert(v[i - 1] <= v[i]); // no NaN among them
}
