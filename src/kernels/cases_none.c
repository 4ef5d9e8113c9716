// SPDX-License-Identifier: Apache-2.0
/* cases_none.c -- stubs that the shared library links instead of operators which only test cases use (op.h): it runs no
 * cases, and needs no BLAS. */
#include "ops/add/add.h"
#include "ops/cast/cast.h"
#include "ops/matmul/matmul.h"

mba_tensor *mba_case_act(mba_graph *g, const char *name, mba_type type, mba_init init)
{
    (void)name, (void)type, (void)init;
    mba_assert(!"a case in the shared library");
    return g->poison;
}

mba_tensor *mba_linear(mba_graph *g, mba_tensor *x, mba_tensor *w)
{
    (void)x, (void)w;
    mba_assert(!"a case in the shared library");
    return g->poison;
}

mba_tensor *mba_add(mba_graph *g, mba_tensor *a, mba_tensor *b)
{
    (void)a, (void)b;
    mba_assert(!"a case in the shared library");
    return g->poison;
}
