// SPDX-License-Identifier: Apache-2.0
/* jpeg_fuzz.c -- any bytes as a JPEG file (png_fuzz.c has the other format), in full and at a half, quarter or eighth:
 * pixels or a refusal, never an exit. */
#include "fuzz.h"
#include "data/image.h"

static void decode(const uint8_t *bytes, size_t n, int scale)
{
    static mba_image m;
    mba_image_file  *j;
    mba_status       st = mba_image_open(&j, "fuzz", bytes, n);
    if (st != MBA_OK) {
        check_refusal(st);
        return;
    }
    const mba_image_about a = mba_image_look(j);
    const int32_t         rows = scale == 1 ? INT32_MAX : 1 + a.H / 3;
    if (!a.scales) {
        mba_image_close(j);
        return;
    }
    mba_assert(a.W > 0 && a.H > 0 && (size_t)a.W * (size_t)a.H <= (n + 1) * 1024);
    st = mba_image_read(j, &m, scale, rows);
    if (st != MBA_OK) {
        check_refusal(st);
    } else {
        unsigned sum = 0; /* the last row is there */
        mba_assert(m.W == (a.W + scale - 1) / scale && m.H > 0);
        for (int32_t x = 0; x < 3 * m.W; x++) sum += m.rgb[((size_t)m.H - 1) * (size_t)m.W * 3 + (size_t)x];
        mba_assert(sum <= 255u * 3 * (unsigned)m.W);
    }
    mba_image_close(j);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    decode(bytes, n, 1);
    decode(bytes, n, 2 << n % 3);
    return 0;
}
