// SPDX-License-Identifier: Apache-2.0
/* image.c -- see image.h: memory of images, and the choice of the decoder for a file. */
#include "data/image_codec.h"

#include <stdlib.h>
#include <string.h>

/* ---- images ---- */

mba_status mba_image_reshape(mba_image *m, int32_t W, int32_t H)
{
    mba_assert(W >= 0 && H >= 0);
    if ((int64_t)W * H > MBA_PIXELS_MAX)
        return mba_fail(MBA_E_UNSUPPORTED,
                        "an image of %d x %d pixels is too large\nwhy: at most %d are "
                        "supported\nfix: scale it down, or leave it out",
                        W, H, MBA_PIXELS_MAX);
    const size_t need = (size_t)W * (size_t)H * 3;
    if (need > m->room) {
        uint8_t *rgb = malloc(need); // not realloc: the old pixels are not needed
        if (!rgb) return mba_fail(MBA_E_NOMEM, "no memory for an image of %d x %d pixels", W, H);
        free(m->rgb);
        m->rgb = rgb;
        m->room = need;
    }
    m->W = W;
    m->H = H;
    return MBA_OK;
}

void mba_image_free(mba_image *m)
{
    free(m->rgb);
    *m = (mba_image){ 0 };
}

/* ---- files ---- */

mba_status mba__image_damaged(const char *name, const char *why)
{
    return mba_fail(MBA_E_FORMAT, "'%s' cannot be decoded\nwhy: %s\nfix: fetch it again, or leave it out", name, why);
}

mba_status mba__image_too_large(const char *name, uint32_t W, uint32_t H, size_t bytes)
{
    return mba_fail(MBA_E_FORMAT,
                    "'%s' cannot be decoded\nwhy: its header says %u x %u pixels, in %zu bytes\n"
                    "fix: fetch it again, or leave it out",
                    name, W, H, bytes);
}

mba_status mba__image_unsupported(const char *name, const char *why)
{
    return mba_fail(MBA_E_UNSUPPORTED,
                    "'%s' cannot be decoded\nwhy: %s\nfix: convert it to PNG, or to JPEG with 8 bits per sample", name,
                    why);
}

/* A format by its first bytes. */
typedef struct signature {
    const char *first;
    size_t      bytes, at;
    mba_status (*open)(mba_image_file **out, const char *name, const void *bytes, size_t n);
    const char *why; /* why it cannot be opened; NULL: it can */
} signature;

static bool begins(const signature *s, const char *bytes, size_t n)
{
    return n >= s->at + s->bytes && !memcmp(bytes + s->at, s->first, s->bytes);
}

mba_status mba_image_open(mba_image_file **out, const char *name, const void *bytes, size_t n)
{
    static const signature known[] = {
        { "\xff\xd8", 2, 0, mba__jpeg_open, NULL },   { "\x89PNG", 4, 0, mba__png_open, NULL },
        { "WEBP", 4, 8, NULL, "it is a WebP file" },  { "GIF8", 4, 0, NULL, "it is a GIF file" },
        { "II*\0", 4, 0, NULL, "it is a TIFF file" }, { "MM\0*", 4, 0, NULL, "it is a TIFF file" },
        { "BM", 2, 0, NULL, "it is a BMP file" },
    };
    if (!n) return mba__image_damaged(name, "it is empty");
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (!begins(&known[i], bytes, n)) continue;
        return known[i].open ? known[i].open(out, name, bytes, n) : mba__image_unsupported(name, known[i].why);
    }
    return mba__image_damaged(name, "it begins neither as a JPEG nor as a PNG file");
}

mba_image_about mba_image_look(const mba_image_file *f) { return f->about; }

void mba_image_close(mba_image_file *f)
{
    if (f) f->codec->close(f);
}

mba_status mba_image_read(mba_image_file *f, mba_image *out, int scale, int32_t rows)
{
    mba_assert(scale == 1 || (f->about.scales && (scale == 2 || scale == 4 || scale == 8)));
    mba_assert(rows > 0 && !f->started);
    f->started = true;
    return f->codec->read(f, out, scale, rows);
}

mba_status mba_image_decode(mba_image *out, const char *name, const void *bytes, size_t n)
{
    mba_image_file *f = NULL;
    MBA_TRY(mba_image_open(&f, name, bytes, n));
    mba_status st = mba_image_read(f, out, 1, INT32_MAX);
    mba_image_close(f);
    return st;
}
