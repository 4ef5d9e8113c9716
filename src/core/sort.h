// SPDX-License-Identifier: Apache-2.0
/* sort.h -- sorts an array of numbers, for medians, percentiles and error bands.
 *
 *     mba_sort(v, n);                                         // ascending: the smallest is v[0]
 *
 * NaN has no place in an order: the caller leaves it out. */
#ifndef MBA_CORE_SORT_H
#define MBA_CORE_SORT_H

#include <stdint.h>

void mba_sort(double *v, int64_t n);

#endif
