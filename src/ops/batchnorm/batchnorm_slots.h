// SPDX-License-Identifier: Apache-2.0
/* batchnorm_slots.h -- what the files of batchnorm share. There are three operators: the statistics (training only),
 * the norm for given statistics, and the gradient of both. */
#ifndef MBA_BATCHNORM_SLOTS_H
#define MBA_BATCHNORM_SLOTS_H

#include "ops/columns.h"
#include "ops/rows.h"

enum { SX, RMEAN, RVAR }; /* statistics: in, out */
enum { SMEAN, SVAR, RMEANO, RVARO };
enum { X, W, B, MEAN, VAR }; /* forward: in, out */
enum { Y };
enum { DY, XB, WB, BB, MEANB, VARB }; /* backward: in, out */
enum { DX, DW, DB };

typedef struct batchnorm_stats_attr {
    double momentum;
} batchnorm_stats_attr;
typedef struct batchnorm_attr {
    double  eps;
    int64_t train, relu;
} batchnorm_attr;

/* CUDA: the number of parts into which sums over rows are divided. The kernel after a sum counts its blocks in these
 * parts, because it first reads the rows that the sum left in L2 (batchnorm_cuda.cu). So its grid depends on the sum,
 * not on the machine. */
enum { BATCHNORM_SUM_PARTS = MBA__COLUMN_PARTS };

/* CUDA: columns per thread. The vectors of the channels (w, b, mean, ...) are read with the same width. */
static inline int batchnorm_columns(const mba_node *n, const mba_tensor *a, const mba_tensor *b, const mba_tensor *c)
{
    const mba_tensor *const t[] = { a, b, c };
    for (int k = 0; k < MBA_IN_MAX; k++)
        if (n->in[k] && n->in[k]->type.rank == 1 && n->in[k]->offset % 4) return 1;
    return mba__columns_at_once(t, 3);
}

void batchnorm_stats_ref(const mba_ref_call *c);
void batchnorm_ref(const mba_ref_call *c);
void batchnorm_bwd_ref(const mba_ref_call *c);
MBA_CPU_DECLARE(batchnorm_stats);
MBA_CPU_DECLARE(batchnorm_fwd);
MBA_CPU_DECLARE(batchnorm_bwd);
mba_launch_fn batchnorm_stats_cuda, batchnorm_cuda, batchnorm_bwd_cuda;

#endif
