// SPDX-License-Identifier: Apache-2.0
/* image.h -- 8-bit RGB images, and decoders and encoders for JPEG and PNG.
 *
 *     mba_image_file *f;
 *     MBA_TRY(mba_image_open(&f, "n01440764_18.JPEG", bytes, n));       // reads the header
 *     mba_image image = { 0 };
 *     mba_status st = mba_image_read(f, &image, 1, INT32_MAX);          // all rows, full size
 *     mba_image_close(f);
 *     mba_image_free(&image);
 *
 * An image keeps its memory when a smaller one is read into it, so a loop over files soon allocates nothing.
 * The first bytes determine the format, not the name. JPEG: whatever libjpeg-turbo reads: baseline and progressive, any
 * sampling, grey (converted to RGB), Adobe CMYK and YCCK. PNG: all of it: 1 to 16 bits, grey, palette, interlaced. PNG
 * pixels equal those of Pillow's convert("RGB"): alpha is dropped, not blended; of 16 bits the high byte is kept, but
 * 16-bit grey without alpha is clipped at 255. Orientation tags and colour profiles are ignored, as is usual in
 * training. */
#ifndef MBA_IMAGE_H
#define MBA_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/status.h"

typedef struct mba_image {
    uint8_t *rgb; /* (H, W, 3), rows without padding; owned */
    int32_t  W, H;
    size_t   room; /* bytes allocated at `rgb` */
} mba_image;

/* Gives the image W x H pixels, whose values are undefined. A failure (no memory, or more than 100 million pixels)
 * leaves the image unchanged. */
MBA_MUST mba_status mba_image_reshape(mba_image *m, int32_t W, int32_t H);
void                mba_image_free(mba_image *m); /* zeroed ones are fine */

typedef struct mba_image_file mba_image_file;

/* What the header of a file says. */
typedef struct mba_image_about {
    const char *format;                 /* "JPEG" or "PNG" */
    int32_t     W, H, components, bits; /* components: 1 grey or palette, 2 grey and alpha, 3, 4 */
    bool        scales;                 /* it can be decoded at 1/2, 1/4 and 1/8 of its size */
    int64_t     warnings;               /* defects that do not prevent reading: damaged metadata, stray bytes */
} mba_image_about;

/* `bytes` and `name` (for messages) must outlive the file. MBA_E_FORMAT for damaged files and files that are no images,
 * MBA_E_UNSUPPORTED for other formats and for JPEGs of 2 components or 12 bits. More than 100 million pixels count as
 * damage, and so do more pixels than the bytes can hold (JPEG: 1024 pixels per byte; PNG: 1032 bytes of pixels per
 * byte): a small file must not cause a large allocation. */
MBA_MUST mba_status mba_image_open(mba_image_file **out, const char *name, const void *bytes, size_t n);
mba_image_about     mba_image_look(const mba_image_file *f);
void                mba_image_close(mba_image_file *f); /* NULL is fine */

/* Decodes once, at 1/scale of the size: scale is 1, or 2, 4 or 8 if the file `scales`. The inverse transform itself
 * produces the smaller image, which is several times faster. Reads at most `rows` rows of the small image from the top.
 * The image is ceil(W/scale) wide. A file that ends before its pixels do is an error. */
MBA_MUST mba_status mba_image_read(mba_image_file *f, mba_image *out, int scale, int32_t rows);

/* Reads header and all pixels in one call. */
MBA_MUST mba_status mba_image_decode(mba_image *out, const char *name, const void *bytes, size_t n);

/* JPEG: baseline, 4:2:0. PNG: 8 bits, libpng's default filters and compression. The caller frees *out. */
MBA_MUST mba_status mba_jpeg_encode(uint8_t **out, size_t *bytes, const mba_image *m, int quality);
MBA_MUST mba_status mba_png_encode(uint8_t **out, size_t *bytes, const mba_image *m);

#endif
