// SPDX-License-Identifier: Apache-2.0
/* image_ops.h -- operations on an image between decoder and model: resize, crop, RandAugment, mix, normalise, erase.
 *
 *     mba_resampler r = { 0 };                                          // weights and a buffer, one per thread
 *     mba_box       box = mba_random_crop(&d, in.W, in.H);              // 8 % to 100 % of the area
 *     MBA_TRY(mba_image_resize(&r, &out, &in, box, 224, 224, MBA_BICUBIC));
 *     if (mba_draw_chance(&d, 0.5)) mba_image_flip(&out);
 *     MBA_TRY(mba_rand_augment(&out, &spare, &d, &(mba_rand_options){ 2, .magnitude = 9, .deviation = 0.5 }));
 *     mba_normalise(x, out.rgb, 224 * 224, &mba_colours_imagenet);      // fp32, (H, W, 3)
 *     mba_erase(x, 224, 224, &d);
 *     mba_resampler_free(&r);
 *
 * Functions are single-threaded and have no shared state: callers process several images in parallel. Random choices
 * depend only on the draws of the image (draw.h). Where the text says so, results equal those of the usual 8-bit
 * tools. */
#ifndef MBA_IMAGE_OPS_H
#define MBA_IMAGE_OPS_H

#include "data/draw.h"
#include "data/image.h"

/* ---- resizing ---- */

typedef enum mba_filter { MBA_BILINEAR, MBA_BICUBIC } mba_filter; /* bicubic with a = -0.5 */

/* A part of an image in pixels; fractions occur if the decoder has already scaled the image down. */
typedef struct mba_box {
    double x, y, W, H;
} mba_box;

typedef struct mba_resampler {
    int32_t  *weight; /* fixed point, 22 fractional bits */
    int32_t  *first, *count;
    int32_t  *sum; /* one row of sums */
    size_t    weights_room, spans_room, sums_room;
    mba_image wide; /* after the horizontal pass */
} mba_resampler;

/* The common antialiased resampler: separable, horizontal first, each pass rounded to 8 bits; for smaller results the
 * filter is wider. Pixels outside the box have no weight. The box lies inside the image and is not empty. Same bytes as
 * Pillow for boxes of whole pixels. */
MBA_MUST mba_status mba_image_resize(mba_resampler *r, mba_image *out, const mba_image *in, mba_box box, int32_t W,
                                     int32_t H, mba_filter filter);
void                mba_resampler_free(mba_resampler *r); /* zeroed ones are fine */

/* ---- crops ---- */

/* Random resized crop: area 0.08 .. 1 of the image, aspect ratio 3/4 .. 4/3, ten tries, else the largest central part
 * of such a ratio. Whole pixels. */
mba_box mba_random_crop(mba_draw *d, int32_t W, int32_t H);

/* For evaluation: a resize of the short side to S = floor(size / fraction), then a centre crop of size x size. W, H are
 * the sizes of the whole resized image, left, top the offsets of the crop. */
typedef struct mba_centre {
    int32_t W, H, left, top;
} mba_centre;
mba_centre mba_centre_crop(int32_t W, int32_t H, int32_t size, double fraction);

/* out = size x size pixels of `in` from (left, top); pixels outside the image are black. */
MBA_MUST mba_status mba_image_cut(mba_image *out, const mba_image *in, int32_t left, int32_t top, int32_t size);

void mba_image_flip(mba_image *m); /* horizontally */

/* ---- colours and shapes ---- */

// clang-format off
#define MBA_RAND_LIST(X) \
    X(auto_contrast) X(equalise) X(invert) X(rotate) X(posterise) X(solarise) X(solarise_add) X(colour) \
    X(contrast) X(brightness) X(sharpness) X(shear_x) X(shear_y) X(translate_x) X(translate_y)
// clang-format on

typedef enum mba_rand_op {
#define X(name) MBA_RAND_##name,
    MBA_RAND_LIST(X)
#undef X
        MBA_RAND_OPS
} mba_rand_op;

typedef struct mba_rand_options {
    int    operations;           /* per image, drawn with replacement; each is applied with probability 1/2 */
    double magnitude, deviation; /* m ~ N(magnitude, deviation) within 0 .. 10 */
} mba_rand_options;

/* Applies one operation with u = m/10 in 0 .. 1; `sign` is -1 or 1 for those with two directions. `spare` is
 * scratch. */
MBA_MUST mba_status mba_rand_apply(mba_image *m, mba_image *spare, mba_rand_op op, double u, int sign,
                                   mba_filter filter);
MBA_MUST mba_status mba_rand_augment(mba_image *m, mba_image *spare, mba_draw *d, const mba_rand_options *o);
const char         *mba_rand_name(mba_rand_op op);

/* ---- pairs of images ---- */

/* How a batch is mixed: image b with image B-1-b, with the same parameters for all. */
typedef struct mba_mix {
    enum { MBA_MIX_NONE, MBA_MIX_UP, MBA_MIX_CUT } kind;
    double  lam;            /* weight of the image itself; for MBA_MIX_CUT from the clipped box */
    int32_t x0, y0, x1, y1; /* the partner's rectangle, MBA_MIX_CUT */
} mba_mix;

/* alpha 0 switches a kind off; if both are on, each is chosen with probability 1/2. */
mba_mix mba_mix_draw(mba_draw *d, double mixup_alpha, double cutmix_alpha, int32_t W, int32_t H);
double  mba_draw_beta(mba_draw *d, double alpha); /* Beta(alpha, alpha) */

/* to = the image mixed with its partner, each W x H x 3 bytes; `to` may be `image`. */
void mba_mix_images(uint8_t *to, const uint8_t *image, const uint8_t *partner, const mba_mix *m, int32_t W, int32_t H);

/* t (K) = lam * smooth(label) + (1 - lam) * smooth(partner_label): 1 - eps + eps/K for the label, eps/K elsewhere. */
void mba_mix_targets(float *t, int32_t label, int32_t partner_label, double lam, int64_t K, double eps);

/* ---- numbers for the model ---- */

typedef struct mba_colours {
    float mean[3], deviation[3];
} mba_colours; /* of values / 255 */

extern const mba_colours mba_colours_imagenet;

/* x = (v / 255 - mean) / deviation, (pixels, 3). */
void mba_normalise(float *x, const uint8_t *rgb, int64_t pixels, const mba_colours *c);

/* Random erasing: fills a rectangle of 2 % to 1/3 of the image, aspect ratio 0.3 .. 1/0.3, with noise N(0, 1), if one
 * of ten tries fits. The caller decides whether it happens. */
void mba_erase(float *x, int32_t W, int32_t H, mba_draw *d);

#endif
