// SPDX-License-Identifier: Apache-2.0
/* ceilings.h -- measured ceilings of this machine: the rates from which floors are computed.
 *
 *     mba_ceilings c;
 *     MBA_TRY(mba_ceilings_measure(&c, 0.2));                    // seconds per rate, all threads
 *     const double floor_s = mba_ceilings_floor(&c, node->op->cost(node));
 *
 * Each rate is the best of many short runs, which a busy machine lowers less than a mean. */
#ifndef MBA_CEILINGS_H
#define MBA_CEILINGS_H

#include <stdbool.h>

#include "core/op.h"

typedef struct mba_ceilings {
    double stream_bytes; /* per second, read + written, arrays far larger than the caches */
    double fma_flops;    /* per second, fp32, independent chains in registers */
    double tensor_flops; /* per second, of tensor cores; 0: FMA lanes do that work too */
    double exp_ops;      /* per second, vf_exp over an array in L1 */
} mba_ceilings;

MBA_MUST mba_status mba_ceilings_measure(mba_ceilings *out, double seconds);

/* The floor in seconds. CPU: max(bytes / stream, FLOPs / FMA + exponentials / exp), as the same lanes do tensor and
 * vector work. With tensor cores: max(bytes / stream, tensor FLOPs / tensor, vector FLOPs / FMA, exponentials / exp),
 * as all can overlap. */
double mba_ceilings_floor(const mba_ceilings *c, mba_cost cost);

/* Whether memory decides that floor. */
bool mba_ceilings_memory_bound(const mba_ceilings *c, mba_cost cost);

/* The same rates of the GPU in use, in fp32 (tf32: with products in TF32) or bf16; an error if this build or machine
 * has none. */
MBA_MUST mba_status mba_ceilings_measure_cuda(mba_ceilings *out, mba_dtype compute, bool tf32);

/* Seconds of a copy on the GPU in use that moves `bytes`, half read and half written, with cold L2: the best of
 * `repeats` runs of several copy kernels. */
MBA_MUST mba_status mba_copy_measure_cuda(double *seconds, double bytes, int repeats);

/* Copies n floats with all threads, rounded up to whole vectors, for which both arrays must have room (MBA_COPY_ROOM).
 * way: 0 the loop of `stream_bytes`, 1 memcpy; which is faster depends on the machine and on n. */
enum { MBA_COPY_WAYS = 2, MBA_COPY_ROOM = 256 };
void mba_ceilings_copy(float *to, const float *from, int64_t n, int way);

/* ---- ceilings_cpu.c, once per instruction set: the work of one thread ---- */
typedef double mba_ceiling_fn(float *x, const float *y, int64_t n); /* returns the work done, in the unit above */
typedef struct mba_ceiling_kernels {
    mba_ceiling_fn *stream, *fma, *exp;
} mba_ceiling_kernels;
extern const mba_ceiling_kernels mba_ceiling_kernels_base, mba_ceiling_kernels_avx2, mba_ceiling_kernels_avx512;

#endif
