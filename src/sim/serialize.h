// SPDX-License-Identifier: Apache-2.0
/* serialize.h -- a lowered kernel as one line of numbers. Rows of measured kernels keep the kernel that the plan gave
 * when it was measured, so that later changes of the plans leave their predictions alone.
 *
 *     char text[MBA_SIM_KERNEL_TEXT_BYTES];
 *     mba_sim_kernel_write(text, sizeof text, &kernel);
 *     MBA_TRY(mba_sim_kernel_parse(&kernel, text, gpu));          // MBA_E_FORMAT for numbers that no plan can have
 */
#ifndef MBA_SIM_SERIALIZE_H
#define MBA_SIM_SERIALIZE_H

#include "sim/kernel.h"

enum { MBA_SIM_KERNEL_TEXT_BYTES = 1 << 15 };

/* False: it does not fit, or its name contains a space. */
bool                mba_sim_kernel_write(char *text, size_t space, const mba_sim_kernel *k);
MBA_MUST mba_status mba_sim_kernel_parse(mba_sim_kernel *k, const char *text, const mba_gpu *m);

#endif
