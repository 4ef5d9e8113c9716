// SPDX-License-Identifier: Apache-2.0
/* image.h -- 8-bit RGB images, and JPEG and PNG files as such.
 *
 *     mba_image_file *f;
 *     MBA_TRY(mba_image_open(&f, "n01440764_18.JPEG", bytes, n));       // reads the header
 *     mba_image image = { 0 };
 *     mba_status st = mba_image_read(f, &image, 1, INT32_MAX);          // all rows, full size
 *     mba_image_close(f);
 *     mba_image_free(&image);
 *
 * An image keeps its memory when it is filled again with a smaller one, so a loop over files soon allocates nothing.
 * The first bytes tell the format, not the name. JPEG is what libjpeg-turbo reads: baseline and progressive, any
 * sampling, grey (made RGB), Adobe CMYK and YCCK. PNG is all of it: 1 to 16 bits, grey, palette, interlaced. Pixels of
 * a PNG are those of Pillow's convert("RGB"): alpha is dropped, not blended; of 16 bits the high byte is kept, but
 * 16-bit grey without alpha is cut off at 255. Orientation tags and colour profiles are ignored, as everywhere in
 * training. */
#ifndef MBA_IMAGE_H
#define MBA_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/status.h"

typedef struct mba_image {
    uint8_t *rgb; /* (H, W, 3), rows without padding; lent to nobody */
    int32_t  W, H;
    size_t   room; /* bytes behind `rgb` */
} mba_image;

/* Makes room for W x H pixels, whose values are undefined. A failure (no memory, or more than 100 million pixels)
 * leaves the image as it was. */
MBA_MUST mba_status mba_image_reshape(mba_image *m, int32_t W, int32_t H);
void                mba_image_free(mba_image *m); /* zeroed ones are fine */

typedef struct mba_image_file mba_image_file;

/* What the header says. */
typedef struct mba_image_about {
    const char *format;                 /* "JPEG" or "PNG" */
    int32_t     W, H, components, bits; /* components: 1 grey or palette, 2 grey and alpha, 3, 4 */
    bool        scales;                 /* it can be read at 1/2, 1/4 and 1/8 of its size */
    int64_t     warnings;               /* what was odd but could be read: damaged metadata, stray bytes */
} mba_image_about;

/* `bytes` must outlive the file; `name` too, it is for messages. MBA_E_FORMAT for what is damaged or no image,
 * MBA_E_UNSUPPORTED for other formats and for JPEGs of 2 components or 12 bits. More than 100 million pixels is damage,
 * and so are more than the bytes can hold (JPEG: 1024 pixels a byte; PNG: 1032 bytes of pixels a byte): a small file
 * must not make a large allocation. */
MBA_MUST mba_status mba_image_open(mba_image_file **out, const char *name, const void *bytes, size_t n);
mba_image_about     mba_image_look(const mba_image_file *f);
void                mba_image_close(mba_image_file *f); /* NULL is fine */

/* Decodes once, at 1/scale of the size (1, or where it scales 2, 4 or 8; the inverse transform itself makes the smaller
 * image, which is several times faster), from the top down to `rows` rows of the small image, or all where there are
 * fewer. The image is ceil(W/scale) wide. A file that ends before its pixels do is an error. */
MBA_MUST mba_status mba_image_read(mba_image_file *f, mba_image *out, int scale, int32_t rows);

/* Header and all pixels in one call. */
MBA_MUST mba_status mba_image_decode(mba_image *out, const char *name, const void *bytes, size_t n);

/* JPEG: baseline, 4:2:0. PNG: 8 bits, libpng's usual filters and compression. The caller frees *out. */
MBA_MUST mba_status mba_jpeg_encode(uint8_t **out, size_t *bytes, const mba_image *m, int quality);
MBA_MUST mba_status mba_png_encode(uint8_t **out, size_t *bytes, const mba_image *m);

#endif
