// SPDX-License-Identifier: Apache-2.0
/* images.h -- what the tests of images share: the files of tests/data/images (made by tools/golden/images.py with
 * Pillow) and comparisons of pixels.
 *
 *     mba_image in = golden_image("input.rgb", 0, 61, 47);         // from byte 0 of the file; mba_image_free
 *     assert_pixels(&got, &want, 0);                               // equal to the grey level
 */
#ifndef MBA_TEST_IMAGES_H
#define MBA_TEST_IMAGES_H

#include "tests/test.h"

#include "core/file.h"
#include "data/image.h"

#define IMAGES "tests/data/images/"
enum { GOLDEN_W = 61, GOLDEN_H = 47 };

static inline char *golden_bytes(size_t *n, const char *name)
{
    char path[256], *bytes;
    snprintf(path, sizeof path, IMAGES "%s", name);
    assert_ok(mba_file_read(&bytes, n, path, 1 << 20));
    return bytes;
}

static inline mba_image golden_image(const char *name, size_t at, int32_t W, int32_t H)
{
    mba_image m = { 0 };
    size_t    n;
    char     *bytes = golden_bytes(&n, name);
    assert_ok(mba_image_reshape(&m, W, H));
    assert_true(at + (size_t)W * (size_t)H * 3 <= n);
    memcpy(m.rgb, bytes + at, (size_t)W * (size_t)H * 3);
    free(bytes);
    return m;
}

static inline int pixels_apart(const mba_image *a, const mba_image *b)
{
    int worst = 0;
    assert_int_equal(a->W, b->W);
    assert_int_equal(a->H, b->H);
    for (int64_t i = 0; i < (int64_t)a->W * a->H * 3; i++) {
        const int apart = abs(a->rgb[i] - b->rgb[i]);
        if (apart > worst) worst = apart;
    }
    return worst;
}

#define assert_pixels(got, want, levels) assert_in_range(pixels_apart((got), (want)), 0, (levels))

#endif
