// SPDX-License-Identifier: Apache-2.0
/* kernel_names.h -- short names of kernels that stay different: "Kernel2<cutlass_80_tensorop_s16816gemm>", not
 * "Kernel2" thrice.
 *
 *     mba_kernel_named k[2] = { { .symbol = "_ZN7cutlass7Kernel2I4gemmEEvv" },
 *                               { .symbol = "_ZN7cutlass7Kernel2I4convEEvv" } };
 *     MBA_TRY(mba_kernel_names(k, 2));                      // k[0].name: "Kernel2<gemm>"
 *
 * A name that no other symbol shares is as mba_kernel_short has it. Of those that share one, each gets the first
 * identifier of its arguments that not all have, and where that is not enough a number made of its symbol. Code of
 * equal symbol that takes other resources (a kernel compiled twice) gets a number made of those. */
#ifndef MBA_SCOPE_KERNEL_NAMES_H
#define MBA_SCOPE_KERNEL_NAMES_H

#include <stdint.h>

#include "core/status.h"

typedef struct mba_kernel_named {
    const char *symbol;
    int32_t     code[3];   /* registers, static shared memory, local memory; zeros: not known */
    char        name[256]; /* out */
} mba_kernel_named;

MBA_MUST mba_status mba_kernel_names(mba_kernel_named *k, int64_t n);

#endif
