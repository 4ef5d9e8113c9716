// SPDX-License-Identifier: Apache-2.0
/* png_fuzz.c -- any bytes as a PNG file, whole and its first rows, as they are and with right checksums: pixels or a
 * refusal, never an exit. */
#include "fuzz.h"
#include "data/image.h"

static void decode(const uint8_t *bytes, size_t n, int32_t rows)
{
    static mba_image m;
    mba_image_file  *f;
    mba_status       st = mba_image_open(&f, "fuzz", bytes, n);
    if (st != MBA_OK) {
        check_refusal(st);
        return;
    }
    const mba_image_about a = mba_image_look(f);
    mba_assert(a.W > 0 && a.H > 0 && (size_t)a.W * (size_t)a.H <= (n + 1) * (a.scales ? 1024 : 8 * 1032));
    st = mba_image_read(f, &m, 1, rows);
    if (st != MBA_OK) {
        check_refusal(st);
    } else {
        unsigned sum = 0; /* the last row is there */
        mba_assert(m.W == a.W && m.H == (rows < a.H ? rows : a.H));
        for (int32_t x = 0; x < 3 * m.W; x++) sum += m.rgb[((size_t)m.H - 1) * (size_t)m.W * 3 + (size_t)x];
        mba_assert(sum <= 255u * 3 * (unsigned)m.W);
    }
    mba_image_close(f);
}

static uint32_t crc_of(const uint8_t *p, size_t n)
{
    uint32_t crc = 0xffffffffu;
    for (size_t i = 0; i < n; i++) {
        crc ^= p[i];
        for (int k = 0; k < 8; k++) crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
    }
    return ~crc;
}

/* Gives every chunk its right checksum, so that the fuzzer gets behind that check. */
static void seal(uint8_t *bytes, size_t n)
{
    for (size_t at = 8; at + 12 <= n;) {
        const uint8_t *p = bytes + at;
        const size_t   size = (size_t)p[0] << 24 | (size_t)p[1] << 16 | (size_t)p[2] << 8 | p[3];
        if (size > n - at - 12) return;
        const uint32_t crc = crc_of(p + 4, size + 4);
        for (int i = 0; i < 4; i++) bytes[at + 8 + size + (size_t)i] = (uint8_t)(crc >> (24 - 8 * i));
        at += size + 12;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    uint8_t *copy = malloc(n + !n);
    mba_assert(copy);
    if (n) memcpy(copy, bytes, n);
    decode(bytes, n, INT32_MAX);
    seal(copy, n);
    decode(copy, n, INT32_MAX);
    decode(copy, n, 1 + (int32_t)(n % 7));
    free(copy);
    return 0;
}
