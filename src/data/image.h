/* image.h -- 8-bit RGB images, and JPEG files in and out.
 *
 *     mba_jpeg *j;
 *     MBA_TRY(mba_jpeg_open(&j, "n01440764_18.JPEG", bytes, n));        // reads the header
 *     mba_image image = { 0 };
 *     mba_status st = mba_jpeg_read(j, &image, 1, INT32_MAX);           // all rows, full size
 *     mba_jpeg_close(j);
 *     mba_image_free(&image);
 *
 * An image keeps its memory when it is filled again with a smaller one, so a loop over files soon allocates nothing.
 * JPEG is what libjpeg-turbo reads: baseline and progressive, any sampling, grey (made RGB), Adobe CMYK and YCCK.
 * Orientation tags are ignored, as everywhere in training. PNG is refused with its name. */
#ifndef MBA_IMAGE_H
#define MBA_IMAGE_H

#include <stddef.h>
#include <stdint.h>

#include "core/status.h"

typedef struct mba_image {
    uint8_t *rgb;                        /* (H, W, 3), rows without padding; lent to nobody */
    int32_t  W, H;
    size_t   room;                       /* bytes behind `rgb` */
} mba_image;

/* Makes room for W x H pixels, whose values are undefined. A failure (no memory, or more than 100 million pixels)
 * leaves the image as it was. */
MBA_MUST mba_status mba_image_reshape(mba_image *m, int32_t W, int32_t H);
void                mba_image_free(mba_image *m);              /* zeroed ones are fine */

typedef struct mba_jpeg mba_jpeg;

/* What the header says. `warnings` counts what libjpeg found odd but could read (damaged metadata, stray bytes). */
typedef struct mba_jpeg_about {
    int32_t W, H, components;
    int64_t warnings;
} mba_jpeg_about;

/* `bytes` must outlive the decoder; `name` too, it is for messages. MBA_E_FORMAT for what is no JPEG or damaged,
 * MBA_E_UNSUPPORTED for PNG and for JPEGs of 2 components or 12 bits. More than 100 million pixels, or more than
 * 1024 of them per byte, is damage: a small file must not make a large allocation. */
MBA_MUST mba_status mba_jpeg_open(mba_jpeg **out, const char *name, const void *bytes, size_t n);
mba_jpeg_about      mba_jpeg_look(const mba_jpeg *j);
void                mba_jpeg_close(mba_jpeg *j);               /* NULL is fine */

/* Decodes once, at 1/scale of the size (1, 2, 4 or 8; the inverse transform itself makes the smaller image, which is
 * several times faster), from the top down to `rows` rows of the small image, or all where there are fewer. The image
 * is ceil(W/scale) wide. A file that ends before its pixels do is an error. */
MBA_MUST mba_status mba_jpeg_read(mba_jpeg *j, mba_image *out, int scale, int32_t rows);

/* Header and all pixels in one call. */
MBA_MUST mba_status mba_jpeg_decode(mba_image *out, const char *name, const void *bytes, size_t n);

/* Baseline, 4:2:0. The caller frees *out. */
MBA_MUST mba_status mba_jpeg_encode(uint8_t **out, size_t *bytes, const mba_image *m, int quality);

#endif
