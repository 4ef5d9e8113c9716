// SPDX-License-Identifier: Apache-2.0
/* serialize.h -- a lowered kernel as one line of numbers: what a plan said when it was measured, for a time when the
 * tree has other kernels.
 *
 *     char text[MBA_SIM_KERNEL_TEXT_BYTES];
 *     mba_sim_kernel_write(text, sizeof text, &kernel);
 *     MBA_TRY(mba_sim_kernel_parse(&kernel, text, gpu));          // refuses what no plan could have been
 */
#ifndef MBA_SIM_SERIALIZE_H
#define MBA_SIM_SERIALIZE_H

#include "sim/kernel.h"

enum { MBA_SIM_KERNEL_TEXT_BYTES = 1 << 15 };

/* False: it does not fit. */
bool                mba_sim_kernel_write(char *text, size_t space, const mba_sim_kernel *k);
MBA_MUST mba_status mba_sim_kernel_parse(mba_sim_kernel *k, const char *text, const mba_gpu *m);

#endif
