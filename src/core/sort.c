// SPDX-License-Identifier: Apache-2.0
/* sort.c -- see sort.h. */
#include "core/sort.h"

#include <stdlib.h>

static int by_value(const void *x, const void *y)
{
    const double a = *(const double *)x, b = *(const double *)y;
    return (a > b) - (a < b);
}

void mba_sort(double *v, int64_t n) { qsort(v, (size_t)n, sizeof *v, by_value); }
