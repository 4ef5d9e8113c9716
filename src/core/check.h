// SPDX-License-Identifier: Apache-2.0
/* check.h -- correctness checks for any graph: gradients against finite differences, results against the fp64
 * reference, no writes outside outputs and scratch, the same bits in a second run.
 *
 *     MBA_TRY(mba_check_op(&worst, &mba_op_relu2));   // every case: gradient and CPU against fp64
 *
 * The tests of operators (one loop over mba_ops and their cases), `selftest` and the tests of whole models use it. */
#ifndef MBA_CHECK_H
#define MBA_CHECK_H

#include "core/program.h"

/* Called after each comparison of a program with the reference: its plans, and the errors of this comparison. */
struct mba_check;
typedef void mba_checked_fn(void *ctx, const mba_program *p, const struct mba_check *one);

typedef struct mba_check {
    double          grad_error;   /* backward pass against central differences, both fp64 */
    double          cpu_error;    /* device against fp64, results and parameter gradients; 1: the tolerance */
    double          cpu_relative; /* the same, relative to the largest value of each tensor */
    double          norm_error;   /* the same: norm of the difference over the norm, for each tensor */
    const char     *norm_tensor;  /* the tensor with norm_error */
    int             values;       /* partial derivatives that were compared */
    int             stride;       /* option: compares every stride-th derivative; 0: all */
    int             strays;       /* nodes that wrote outside their outputs or their scratch */
    int             changed;      /* tensors with other bits in a second run, which does not pause between nodes */
    bool            once;         /* option: no second run */
    bool            tf32;         /* option, on a GPU: products of fp32 operands in TF32 (mba_graph.tf32) */
    mba_checked_fn *told;         /* option: called after every comparison; NULL: nothing is */
    void           *ctx;          /* handed to `told` */
} mba_check;

/* Checks a graph that has its backward pass; `out` and `seed` are those of mba_backward_from. Errors are relative to
 * the largest value of each tensor, for gradients at least to 1e-4 of the largest gradient. Errors keep their maximum
 * and counts add up, so zero `worst` once and call it for many graphs. */
MBA_MUST mba_status mba_check_graph(mba_check *worst, const mba_graph *g, int n, mba_tensor *const out[],
                                    mba_tensor *const seed[]);

/* Checks every case and every CPU variant, with and without recomputation. */
MBA_MUST mba_status mba_check_op(mba_check *worst, const mba_op *op);

/* Checks every variant of another device against fp64, with activations of type `compute`: on every case,
 * `device_cases` too, or on one case. It takes no finite differences: the CPU check does. */
MBA_MUST mba_status mba_check_op_on(mba_check *worst, const mba_op *op, const mba_device *d, mba_dtype compute);
MBA_MUST mba_status mba_check_case_on(mba_check *worst, const mba_op *op, const mba_case *c, const mba_device *d,
                                      mba_dtype compute);

/* A case as a graph with its backward pass. Each output that no node reads is the result out.<k>, with the gradient
 * seed.<k>. The checks and the benchmark use it; the caller destroys the graph. */
enum { MBA_ENDS_MAX = 16 };
typedef struct mba_case_graph {
    mba_graph  *g;
    mba_tensor *out[MBA_ENDS_MAX], *seed[MBA_ENDS_MAX];
    int         n;
} mba_case_graph;
typedef struct mba_case_how {
    bool      recompute;
    mba_dtype compute; /* MBA_NONE: fp32 */
    bool      tf32;    /* as in mba_graph */
    bool      alone;   /* no backward pass: nothing is saved for it */
} mba_case_how;
MBA_MUST mba_status mba_case_build(mba_case_graph *out, const mba_op *op, const mba_case *c, mba_case_how how);

/* Fills inputs with reproducible values: indices below their bound, reals in -1 .. 1. Parameters stay as they are. */
void mba_fill_inputs(mba_program *p);

#endif
