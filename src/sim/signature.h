// SPDX-License-Identifier: Apache-2.0
/* signature.h -- kernels of other programs, known only by a few counters: launch geometry, bytes and operations, never
 * a time or a rate. The coarsest of the three inputs of the simulator (plans, profiled.h, this).
 *
 *     mba_signatures s;
 *     MBA_TRY(mba_signatures_load(&s, "src/sim/data/peers_signatures.tsv"));
 *     MBA_TRY(mba_signature_kernel(&kernel, &s.one[0], &gpu));     // then mba_sim_run
 *     mba_signatures_free(&s);
 *
 * The rest is assumed: loads and work alternate in equal trips of 32 bytes per thread; blocks with more than 16 KB of
 * shared memory copy two trips ahead; a third of the DRAM bytes are written. Predictions are graded C. */
#ifndef MBA_SIM_SIGNATURE_H
#define MBA_SIM_SIGNATURE_H

#include "sim/kernel.h"

typedef struct mba_signature {
    char   name[64];
    double grid, threads, regs, smem_kb, dram_mb, l2_hit, tensor, fma, alu, xu,
        l1_gb; /* of the launch; work in giga-operations */
} mba_signature;

typedef struct mba_signatures {
    mba_signature *one;
    int            n;
} mba_signatures;

MBA_MUST mba_status mba_signatures_parse(mba_signatures *out, const char *where, const char *text, size_t bytes);
MBA_MUST mba_status mba_signatures_load(mba_signatures *out, const char *path);
void                mba_signatures_free(mba_signatures *s);
MBA_MUST mba_status mba_signature_kernel(mba_sim_kernel *out, const mba_signature *s, const mba_gpu *m);

#endif
