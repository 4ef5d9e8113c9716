// SPDX-License-Identifier: Apache-2.0
/* token_file_fuzz.c -- any bytes as a token file: what is accepted can be read to the last token. */
#include "fuzz.h"
#include "data/token_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    mba_token_file *f;
    mba_status      st = mba_token_file_open_bytes(&f, "fuzz", bytes, n);
    if (st != MBA_OK) {
        check_refusal(st);
        return 0;
    }
    const int64_t count = mba_token_file_count(f);
    mba_assert(count > 0 && count * mba_token_file_bytes_per_token(f) <= (int64_t)n);
    int32_t *ids = malloc((size_t)count * sizeof *ids);
    mba_assert(ids);
    for (int64_t vocab = 3; vocab <= INT32_MAX; vocab = vocab * 50 + 1) {
        st = mba_token_file_read(f, ids, 0, count, vocab);
        if (st != MBA_OK) check_refusal(st);
        for (int64_t i = 0; st == MBA_OK && i < count; i++) mba_assert(ids[i] >= 0 && ids[i] < vocab);
    }
    free(ids);
    mba_token_file_close(f);
    return 0;
}
