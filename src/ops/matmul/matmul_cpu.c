// SPDX-License-Identifier: Apache-2.0
/* matmul_cpu.c -- matmul on the CPU: one single-threaded product per tile (device/cpu/gemm.h). In a ragged batch only
 * the valid rows are multiplied: the other rows of a result are zeros, and sums over rows leave them out. */
#include "device/cpu/gemm.h"
#include "ops/matmul/matmul_slots.h"
#include "ops/rows.h"

static void add_to_rows(mba__rows y, int64_t rows, const float *bias)
{
    MBA_PARALLEL_FOR(r, rows)
    {
        float *at = mba__row(y, r);
        MBA_SIMD_LOOP
        for (int64_t i = 0; i < y.cols; i++) at[i] += bias[i];
    }
}

mba_status MBA_CPU_FN(matmul_fwd)(const mba_call *c)
{
    MBA_TRY(mba_gemm_ready());
    const mba_node    *n = c->node;
    const matmul_attr *t = n->attr;
    const matmul_dims  d = matmul_dims_of(n);
    const int64_t      real = mba__valid_rows(n->in[A], c->step);
    mba_gemm(&(mba_gemm_args){ .m = t->ta ? d.m : real,
                               .n = d.n,
                               .k = t->ta ? real : d.k,
                               .ta = t->ta,
                               .tb = t->tb,
                               .adds = mba_adds(n, C),
                               .a = c->in[A],
                               .lda = mba_ld(n->in[A]),
                               .b = c->in[B],
                               .ldb = mba_ld(n->in[B]),
                               .c = c->out[C],
                               .ldc = mba_ld(n->out[C]) });
    if (n->in[BIAS]) add_to_rows(mba__rows_of(n->out[C], c->out[C]), real, c->in[BIAS]);
    if (!t->ta && !mba_adds(n, C)) mba__zero_rows(mba__rows_of(n->out[C], c->out[C]), real, d.m);
    return MBA_OK;
}
