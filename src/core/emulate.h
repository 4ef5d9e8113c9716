// SPDX-License-Identifier: Apache-2.0
/* emulate.h -- machines that can be imitated on the GPU in the box: kernels whose work is known, and what is changed.
 * device/cuda/emulate_cuda.cu measures them, sim/emulate.c predicts them.
 *
 * The kernels are loops: each thread loads pieces of 16 bytes, applies 2^x and multiply-adds to every number, and
 * stores them. Special functions are made slower by doing more of them, SMs are parked by blocks that hold all shared
 * memory, L2 is shrunk by lines that stay, registers are capped by shared memory that lets no more blocks in, and
 * blocks start later by spinning. */
#ifndef MBA_CORE_EMULATE_H
#define MBA_CORE_EMULATE_H

#include <stdbool.h>
#include <stdint.h>

typedef struct mba_emulated_kernel {
    const char *name;
    int64_t     bytes, passes;      /* read, so often; > 1: blocks stay and read it again */
    int         threads, blocks_sm; /* blocks on an SM, made so by shared memory */
    int         pieces;             /* of 16 bytes a thread has in flight */
    int         special, fma;       /* of every fp32 number */
    bool        stores;
} mba_emulated_kernel;

/* `axis` is a number of the machine file, `factor` what it is multiplied by: sm, xu, l2, rf, block_start. */
typedef struct mba_emulation {
    const char *kernel, *axis;
    double      factor;
} mba_emulation;

extern const mba_emulated_kernel mba_emulated_kernels[]; /* the last has no name */
extern const mba_emulation       mba_emulations[];       /* the last has no kernel */
const mba_emulated_kernel       *mba_emulated_kernel_find(const char *name);

#endif
