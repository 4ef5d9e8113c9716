/* check.h -- three proofs for any graph, small enough to read.
 *
 *     MBA_TRY(mba_check_op(&mba_op_relu2, &worst));   // every case: gradient and CPU against fp64
 *
 * Used by the tests of operators (one loop over mba_ops and their cases) and of whole models. */
#ifndef MBA_CHECK_H
#define MBA_CHECK_H

#include "core/program.h"

typedef struct mba_check {
    double grad_error;               /* backward against central differences, both fp64 */
    double cpu_error;                /* fp32 CPU against fp64, results and parameter gradients, in tolerances */
    int    values;                   /* partial derivatives looked at */
} mba_check;

/* The graph has its backward pass; `out` and `seed` are as in mba_backward_from. Errors are relative
 * to the largest value of each tensor. */
MBA_MUST mba_status mba_check_graph(mba_check *worst, const mba_graph *g, int n, mba_tensor *const out[],
                                    mba_tensor *const seed[]);
MBA_MUST mba_status mba_check_op(mba_check *worst, const mba_op *op);

#endif
