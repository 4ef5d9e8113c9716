// SPDX-License-Identifier: Apache-2.0
/* kernel_names.h -- short but distinct names of kernels: "Kernel2<cutlass_80_tensorop_s16816gemm>" instead of three
 * times "Kernel2".
 *
 *     mba_kernel_named k[2] = { { .symbol = "_ZN7cutlass7Kernel2I4gemmEEvv" },
 *                               { .symbol = "_ZN7cutlass7Kernel2I4convEEvv" } };
 *     MBA_TRY(mba_kernel_names(k, 2));                      // k[0].name: "Kernel2<gemm>"
 *
 * A name that no other symbol shares is that of mba_kernel_short. Symbols that share a name get the first identifier of
 * their arguments that not all have and, if that is not enough, a hash of the symbol. Code of the same symbol with
 * other resources (a kernel compiled twice) gets a hash of those. */
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
