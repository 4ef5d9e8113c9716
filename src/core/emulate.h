// SPDX-License-Identifier: Apache-2.0
/* emulate.h -- changed machines that a real GPU can emulate: kernels of known work, and what is changed for each.
 * device/cuda/emulate_cuda.cu measures them, sim/emulate.c predicts them, so the simulator is tested on changes.
 *
 * The kernels are loops: each thread loads 16-byte vectors, applies 2^x and multiply-adds to every number, and
 * stores them. Five changes are emulated. Special functions get slower: the kernel executes more of them. SMs vanish:
 * blocks that hold all shared memory park there. L2 shrinks: persistent lines occupy a part. Registers shrink: shared
 * memory limits the resident blocks. Blocks start later: they spin first. */
#ifndef MBA_CORE_EMULATE_H
#define MBA_CORE_EMULATE_H

#include <stdbool.h>
#include <stdint.h>

typedef struct mba_emulated_kernel {
    const char *name;
    int64_t     bytes, passes;      /* bytes read, and how often; > 1: persistent blocks read them again */
    int         threads, blocks_sm; /* per block; resident blocks of an SM, limited by shared memory */
    int         vectors;            /* 16-byte vectors that a thread has in flight */
    int         special, fma;       /* special functions and multiply-adds for every fp32 number */
    bool        stores;             /* writes the numbers back */
} mba_emulated_kernel;

/* `axis` is a key of the machine file (sm, xu, l2, rf, block_start); `factor` multiplies its value. */
typedef struct mba_emulation {
    const char *kernel, *axis;
    double      factor;
} mba_emulation;

extern const mba_emulated_kernel mba_emulated_kernels[]; /* the last has no name */
extern const mba_emulation       mba_emulations[];       /* the last has no kernel */
const mba_emulated_kernel       *mba_emulated_kernel_find(const char *name);

#endif
