// SPDX-License-Identifier: Apache-2.0
/* safetensors_fuzz.c -- any bytes as a safetensors file. */
#include "fuzz.h"
#include "data/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    mba_safetensors *f;
    mba_status       st = mba_safetensors_open_bytes(&f, "fuzz", bytes, n);
    if (st != MBA_OK) {
        check_refusal(st);
        return 0;
    }
    int64_t total = 0;
    for (int64_t i = 0; i < mba_safetensors_count(f); i++) {
        const mba_array *a = mba_safetensors_at(f, i);
        mba_assert(mba_safetensors_find(f, a->name) == a);
        mba_assert((const uint8_t *)a->data >= bytes + 8 && (const uint8_t *)a->data + a->bytes <= bytes + n);
        read_array(a);
        total += a->bytes;
    }
    uint64_t header;
    memcpy(&header, bytes, 8);
    mba_assert(8 + header + (uint64_t)total == n); // every byte belongs to somebody
    mba_safetensors_meta(f, "format");
    mba_safetensors_close(f);
    return 0;
}
