// SPDX-License-Identifier: Apache-2.0
/* doctor_gpu.h -- the part of `doctor` that looks at the GPU, its driver and what a profiler may see. */
#ifndef MBA_DOCTOR_GPU_H
#define MBA_DOCTOR_GPU_H

#include "cli/table.h"

void mba_doctor_gpu(mba_table *t); /* rows: what, found, advice */

#endif
