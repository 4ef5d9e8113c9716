// SPDX-License-Identifier: Apache-2.0
/* calibrate.h -- microbenchmarks of the GPU in use: the values of a machine file that can be measured directly.
 *
 *     mba_reading r[MBA_READINGS_MAX];  int n;
 *     MBA_TRY(mba_calibrate_cuda(r, &n, told, NULL));                 // r[i].key as in sim/machine_keys.def, value in
 *     its unit
 *
 * Every reading is repeated; the value is the median, the spread half the range. All of it takes less than a minute. A
 * microbenchmark that fails leaves its keys out; `told` is called after every part. */
#ifndef MBA_CALIBRATE_H
#define MBA_CALIBRATE_H

#include "core/status.h"

enum { MBA_READINGS_MAX = 48 };
typedef struct mba_reading {
    const char *key, *how;
    double      value, spread;
} mba_reading;

/* Called when a part is done, with the number of its readings; failed: why it failed, or NULL. */
typedef void mba_calibrate_fn(void *of, const char *part, int readings, const char *failed);

MBA_MUST mba_status mba_calibrate_cuda(mba_reading *out, int *n, mba_calibrate_fn *told, void *of);

#endif
