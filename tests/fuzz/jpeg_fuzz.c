/* jpeg_fuzz.c -- any bytes as a JPEG file, in full and at a half, quarter or eighth: pixels or a refusal, never an
 * exit. */
#include "fuzz.h"
#include "data/image.h"

static void decode(const uint8_t *bytes, size_t n, int scale)
{
    static mba_image m;
    mba_jpeg        *j;
    mba_status       st = mba_jpeg_open(&j, "fuzz", bytes, n);
    if (st != MBA_OK) {
        check_refusal(st);
        return;
    }
    const mba_jpeg_about a    = mba_jpeg_look(j);
    const int32_t        rows = scale == 1 ? INT32_MAX : 1 + a.H / 3;
    mba_assert(a.W > 0 && a.H > 0 && (size_t)a.W * (size_t)a.H <= (n + 1) * 1024);
    st = mba_jpeg_read(j, &m, scale, rows);
    if (st != MBA_OK) {
        check_refusal(st);
    } else {
        unsigned sum = 0;                                         /* the last row is there */
        mba_assert(m.W == (a.W + scale - 1) / scale && m.H > 0);
        for (int32_t x = 0; x < 3 * m.W; x++) sum += m.rgb[((size_t)m.H - 1) * (size_t)m.W * 3 + (size_t)x];
        mba_assert(sum <= 255u * 3 * (unsigned)m.W);
    }
    mba_jpeg_close(j);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    decode(bytes, n, 1);
    decode(bytes, n, 2 << n % 3);
    return 0;
}
