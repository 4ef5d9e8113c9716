// SPDX-License-Identifier: Apache-2.0
/* check.h -- proofs for any graph, small enough to read: gradients by differences, results against fp64, nothing
 * written beside outputs and scratch, the same bits again.
 *
 *     MBA_TRY(mba_check_op(&worst, &mba_op_relu2));   // every case: gradient and CPU against fp64
 *
 * Used by the tests of operators (one loop over mba_ops and their cases) and of whole models. */
#ifndef MBA_CHECK_H
#define MBA_CHECK_H

#include "core/program.h"

/* After each run of a program against the reference: its plans, and how far this one was off. */
struct mba_check;
typedef void mba_checked_fn(void *ctx, const mba_program *p, const struct mba_check *one);

typedef struct mba_check {
    double          grad_error;   /* backward against central differences, both fp64 */
    double          cpu_error;    /* the device against fp64, results and parameter gradients, in tolerances */
    double          cpu_relative; /* the same, relative to the largest value of each tensor */
    double          norm_error;   /* the same: norm of the difference over the norm, each tensor by itself */
    const char     *norm_tensor;  /* the one of norm_error */
    int             values;       /* partial derivatives looked at */
    int             stride;       /* given: only every so manyth of them; 0: all */
    int             strays;       /* nodes that wrote outside their outputs or their scratch */
    int             changed;      /* tensors of which a second run, without a pause between nodes, made other bits */
    bool            once;         /* given: no second run */
    mba_checked_fn *told;         /* given: who is told of every run; NULL: nobody */
    void           *ctx;
} mba_check;

/* The graph has its backward pass; `out` and `seed` are as in mba_backward_from. Errors are relative
 * to the largest value of each tensor (gradients: or to 1e-4 of the largest there is). */
MBA_MUST mba_status mba_check_graph(mba_check *worst, const mba_graph *g, int n, mba_tensor *const out[],
                                    mba_tensor *const seed[]);

/* Every case, every CPU variant, with and without recomputation. */
MBA_MUST mba_status mba_check_op(mba_check *worst, const mba_op *op);

/* Every case, `device_cases` too (one case), every variant of another device against fp64, with activations of type
 * `compute`; gradients by differences are left to the CPU. */
MBA_MUST mba_status mba_check_op_on(mba_check *worst, const mba_op *op, const mba_device *d, mba_dtype compute);
MBA_MUST mba_status mba_check_case_on(mba_check *worst, const mba_op *op, const mba_case *c, const mba_device *d,
                                      mba_dtype compute);

/* A case as a graph with its backward pass: every end is a result out.<k> with a gradient seed.<k>. Used by
 * the checks and by the benchmark; the caller destroys it. */
enum { MBA_ENDS_MAX = 16 };
typedef struct mba_case_graph {
    mba_graph  *g;
    mba_tensor *out[MBA_ENDS_MAX], *seed[MBA_ENDS_MAX];
    int         n;
} mba_case_graph;
typedef struct mba_case_how {
    bool      recompute;
    mba_dtype compute; /* MBA_NONE: fp32 */
    bool      alone;   /* no gradients: nothing is kept for them */
} mba_case_how;
MBA_MUST mba_status mba_case_build(mba_case_graph *out, const mba_op *op, const mba_case *c, mba_case_how how);

/* Fills inputs with reproducible values (indices below their bound, reals in -1 .. 1); parameters start as
 * mba_program_init lets them. */
void mba_fill_inputs(mba_program *p);

#endif
