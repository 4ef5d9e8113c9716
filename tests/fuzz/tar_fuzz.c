// SPDX-License-Identifier: Apache-2.0
/* tar_fuzz.c -- any bytes as a tar archive and as a WebDataset shard: members lie inside, in order. */
#include "fuzz.h"
#include "data/image_set.h"
#include "data/tar.h"

static void walk(const uint8_t *bytes, size_t n)
{
    mba_tar        t = mba_tar_start("fuzz", bytes, n);
    mba_tar_member m;
    size_t         before = 0;
    for (;;) {
        const mba_status st = mba_tar_next(&t, &m);
        if (st != MBA_OK) {
            check_refusal(st);
            return;
        }
        if (!m.data) return;
        const size_t at = (size_t)(m.data - bytes);
        mba_assert(at >= before + 512 && at <= n && m.bytes <= n - at && strlen(m.name) < sizeof m.name);
        before = at;
    }
}

static void open_shard(const uint8_t *bytes, size_t n)
{
    mba_image_set   *s;
    mba_sample       p = { 0 };
    const mba_status st = mba_image_shards_open_bytes(&s, "fuzz", bytes, n);
    if (st != MBA_OK) {
        check_refusal(st);
        return;
    }
    mba_assert(s->count > 0);
    for (int64_t i = 0; i < s->count; i++) {
        mba_assert(mba_image_set_read(s, i, &p) == MBA_OK && p.label >= 0 && p.label < s->classes);
        const uint8_t *first = p.encoded;
        mba_assert(first >= bytes && first + p.encoded_bytes <= bytes + n);
    }
    mba_sample_free(&p);
    mba_image_set_close(s);
}

/* Gives every record that looks like a header its right checksum, so that the fuzzer gets behind that check. */
static void seal(uint8_t *bytes, size_t n)
{
    for (size_t at = 0; at + 512 <= n; at += 512) {
        uint8_t *h = bytes + at;
        unsigned sum = 0;
        if (memcmp(h + 257, "ustar", 5)) continue;
        memset(h + 148, ' ', 8);
        for (int i = 0; i < 512; i++) sum += h[i];
        for (int i = 5; i >= 0; i--, sum >>= 3) h[148 + i] = (uint8_t)('0' + (sum & 7));
        h[154] = 0;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    uint8_t *copy = malloc(n + !n);
    mba_assert(copy);
    if (n) memcpy(copy, bytes, n);
    walk(bytes, n);
    seal(copy, n);
    walk(copy, n);
    open_shard(copy, n);
    free(copy);
    return 0;
}
