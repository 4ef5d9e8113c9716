// SPDX-License-Identifier: Apache-2.0
/* sort.h -- numbers in order: what medians, percentiles and bands are read from.
 *
 *     mba_sort(v, n);                                         // the smallest is v[0] */
#ifndef MBA_CORE_SORT_H
#define MBA_CORE_SORT_H

#include <stdint.h>

void mba_sort(double *v, int64_t n);

#endif
