// SPDX-License-Identifier: Apache-2.0
/* image_codec.h -- the interface between image.c and its decoders, image_jpeg.c and image_png.c. */
#ifndef MBA_IMAGE_CODEC_H
#define MBA_IMAGE_CODEC_H

#include "data/image.h"

enum { MBA_PIXELS_MAX = 100000000 };

typedef struct mba_image_codec {
    mba_status (*read)(mba_image_file *f, mba_image *out, int scale, int32_t rows);
    void (*close)(mba_image_file *f);
} mba_image_codec;

/* The first member of every decoder. */
struct mba_image_file {
    const mba_image_codec *codec;
    const char            *name;
    size_t                 bytes;
    mba_image_about        about;
    bool                   started;
};

MBA_MUST mba_status mba__jpeg_open(mba_image_file **out, const char *name, const void *bytes, size_t n);
MBA_MUST mba_status mba__png_open(mba_image_file **out, const char *name, const void *bytes, size_t n);

/* Fails with MBA_E_FORMAT: the file is damaged. */
MBA_MUST mba_status mba__image_damaged(const char *name, const char *why);
/* The same, for a header that promises more pixels than the file can hold. */
MBA_MUST mba_status mba__image_too_large(const char *name, uint32_t W, uint32_t H, size_t bytes);
MBA_MUST mba_status mba__image_unsupported(const char *name, const char *why);

#endif
