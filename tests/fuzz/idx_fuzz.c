// SPDX-License-Identifier: Apache-2.0
/* idx_fuzz.c -- any bytes as an IDX file: what is accepted ends with the file. */
#include "fuzz.h"
#include "data/idx.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    mba_idx          x;
    const mba_status st = mba_idx_parse(&x, "fuzz", bytes, n);
    if (st != MBA_OK) {
        check_refusal(st);
        return 0;
    }
    int64_t elems = 1;
    mba_assert(x.rank >= 1 && x.rank <= MBA_IDX_RANK);
    for (int i = 0; i < x.rank; i++) elems *= x.size[i];
    const int64_t left = (int64_t)n - (x.data - bytes);
    mba_assert(elems == x.elems && (elems ? left % elems == 0 && left / elems <= 8 : left == 0));
    return 0;
}
