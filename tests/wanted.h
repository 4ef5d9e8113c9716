// SPDX-License-Identifier: Apache-2.0
/* wanted.h -- tests that loop over all operators: MBA_TEST_OPS="ssd rmsnorm" leaves these alone of them. */
#ifndef MBA_TESTS_WANTED_H
#define MBA_TESTS_WANTED_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static inline bool wanted(const char *op)
{
    const char *list = getenv("MBA_TEST_OPS");
    const char *at = list ? strstr(list, op) : op;
    for (; list && at; at = strstr(at + 1, op))
        if ((at == list || at[-1] == ' ') && (at[strlen(op)] == ' ' || !at[strlen(op)])) return true;
    return !list;
}

#endif
