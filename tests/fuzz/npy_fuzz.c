// SPDX-License-Identifier: Apache-2.0
/* npy_fuzz.c -- any bytes as a .npy file. */
#include "fuzz.h"
#include "data/npy.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    mba_npy   *f;
    mba_status st = mba_npy_open_bytes(&f, "fuzz", bytes, n);
    if (st != MBA_OK) {
        check_refusal(st);
        return 0;
    }
    const mba_array *a = mba_npy_array(f);
    mba_assert((const uint8_t *)a->data + a->bytes == bytes + n);
    read_array(a);
    mba_npy_close(f);
    return 0;
}
