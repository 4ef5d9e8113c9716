/* ceilings.h -- what this machine can do at best, measured: the rates that floors are made of.
 *
 *     const mba_ceilings c = mba_ceilings_measure(0.2);          // seconds per rate, all threads
 *     const double floor_s = mba_ceilings_floor(&c, mba_op_cost(node));
 *
 * Each rate is the best of many short runs, so a busy machine lowers it less than it lowers a mean. */
#ifndef MBA_CEILINGS_H
#define MBA_CEILINGS_H

#include "core/op.h"

typedef struct mba_ceilings {
    double stream_bytes;               /* per second, read + written, arrays far larger than the caches */
    double fma_flops;                  /* per second, fp32, independent chains in registers */
    double exp_ops;                    /* per second, vf_exp over an array in L1 */
} mba_ceilings;

mba_ceilings mba_ceilings_measure(double seconds);

/* max(bytes / stream, FLOPs / FMA + exponentials / exp): the CPU has one kind of lane for tensor and vector work. */
double mba_ceilings_floor(const mba_ceilings *c, mba_cost cost);

/* ---- made once per instruction set, in ceilings_cpu.c: one thread's share of work ---- */
typedef double mba_ceiling_fn(float *x, const float *y, int64_t n);     /* returns what it did, in the unit above */
typedef struct mba_ceiling_kernels { mba_ceiling_fn *stream, *fma, *exp; } mba_ceiling_kernels;
extern const mba_ceiling_kernels mba_ceiling_kernels_base, mba_ceiling_kernels_avx2, mba_ceiling_kernels_avx512;

#endif
