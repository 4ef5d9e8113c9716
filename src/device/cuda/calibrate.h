/* calibrate.h -- microbenchmarks of the GPU in use: the numbers of a machine file that can be read directly.
 *
 *     mba_reading r[MBA_READINGS_MAX];  int n;
 *     MBA_TRY(mba_calibrate_cuda(r, &n));                 // r[i].key as in sim/machine_keys.def, value in its unit
 *
 * Every reading is repeated; the value is the median, the spread half of what lies between the extremes. About a
 * minute. */
#ifndef MBA_CALIBRATE_H
#define MBA_CALIBRATE_H

#include "core/status.h"

enum { MBA_READINGS_MAX = 48 };
typedef struct mba_reading { const char *key, *how; double value, spread; } mba_reading;

MBA_MUST mba_status mba_calibrate_cuda(mba_reading *out, int *n);

#endif
