// SPDX-License-Identifier: Apache-2.0
/* wanted.h -- tests that loop over all operators and their cases: MBA_TEST_OPS="ssd rmsnorm" leaves these operators
 * alone, MBA_TEST_CASE=3 their case 3. */
#ifndef MBA_TESTS_WANTED_H
#define MBA_TESTS_WANTED_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/op.h"

static inline bool wanted(const char *op)
{
    const char *list = getenv("MBA_TEST_OPS");
    const char *at = list ? strstr(list, op) : op;
    for (; list && at; at = strstr(at + 1, op))
        if ((at == list || at[-1] == ' ') && (at[strlen(op)] == ' ' || !at[strlen(op)])) return true;
    return !list;
}

static inline bool wanted_case(int k) { return !getenv("MBA_TEST_CASE") || atoi(getenv("MBA_TEST_CASE")) == k; }

/* Case k of an operator, those for GPUs behind the others; NULL: there is none. */
static inline const mba_case *case_of(const mba_op *op, int k)
{
    const mba_case *lists[] = { op->cases, op->device_cases };
    for (int i = 0; i < 2; i++)
        for (const mba_case *c = lists[i]; c && c->note; c++)
            if (!k--) return c;
    return NULL;
}

#endif
