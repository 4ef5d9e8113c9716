// SPDX-License-Identifier: Apache-2.0
/* matmul_ref.c -- the reference of matmul: fp64, three loops. */
#include "ops/matmul/matmul_slots.h"

void matmul_ref(const mba_ref_call *c)
{
    const matmul_attr *t = c->node->attr;
    const matmul_dims  d = matmul_dims_of(c->node);
    for (int64_t i = 0; i < d.m; i++)
        for (int64_t j = 0; j < d.n; j++) {
            c->out[C][i * d.n + j] += c->in[BIAS] ? c->in[BIAS][j] : 0;
            for (int64_t k = 0; k < d.k; k++)
                c->out[C][i * d.n + j] += c->in[A][t->ta ? k * d.m + i : i * d.k + k]
                                          * c->in[B][t->tb ? j * d.k + k : k * d.n + j];
        }
}
