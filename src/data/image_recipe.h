// SPDX-License-Identifier: Apache-2.0
/* image_recipe.h -- turns a sample of a set into the pixels that a model sees, one image at a time.
 *
 *     mba_image_recipe r = mba_image_recipe_train(set, 224);
 *     mba_image_maker  m = { 0 };                                        // buffers, one per thread
 *     MBA_TRY(mba_image_make(&m, bytes, &label, set, 17, &r, seed, epoch));     // (size, size, 3), 8 bits
 *     mba_image_maker_free(&m);
 *
 * The order is that of the published recipes: decode, crop and resize, flip, RandAugment; then, for a whole batch in
 * image_loader.h, mix, normalise and erase. Large JPEG files are decoded at half, a quarter or an eighth of their size
 * if the crop is then still at least as large as the result; evaluation always decodes at full size. */
#ifndef MBA_IMAGE_RECIPE_H
#define MBA_IMAGE_RECIPE_H

#include "data/image_set.h"

typedef enum mba_crop {
    MBA_CROP_NONE,   /* the whole image, made square */
    MBA_CROP_RANDOM, /* random resized crop */
    MBA_CROP_PADDED, /* adds a black border of `pad` pixels, then crops the original size at random */
    MBA_CROP_CENTRE, /* resizes the short side to size / fraction, then takes the centre */
    MBA_CROP_SQUASH, /* resizes both sides to size / fraction, then takes the centre */
} mba_crop;

typedef struct mba_image_recipe {
    int32_t          size; /* of the result, H = W */
    mba_crop         crop;
    double           fraction; /* MBA_CROP_CENTRE, MBA_CROP_SQUASH */
    int32_t          pad;      /* MBA_CROP_PADDED */
    double           flip;     /* probability */
    mba_rand_options rand;
    double           mixup, cutmix; /* alpha; 0: off */
    double           smoothing;     /* of targets */
    double           erase;         /* probability */
    mba_colours      colours;
} mba_image_recipe;

/* The usual recipe for a set. Training: photographs as for ImageNet; CIFAR padded by 4 and flipped; MNIST padded by 2;
 * shapes unchanged (a flip would change their classes). Evaluation: the centre of photographs, where fraction 0 means
 * 0.875; whole images for sets with images of one size. */
mba_image_recipe mba_image_recipe_train(const mba_image_set *s, int32_t size);
mba_image_recipe mba_image_recipe_eval(const mba_image_set *s, int32_t size, double fraction);

typedef struct mba_image_maker {
    mba_sample    sample;
    mba_image     decoded, made, spare;
    mba_resampler resampler;
    int64_t       warnings; /* about image files, so far */
} mba_image_maker;

/* Writes image `number` as (size, size, 3) bytes. A failure of the set or of the decoder concerns only this image. */
MBA_MUST mba_status mba_image_make(mba_image_maker *m, uint8_t *to, int32_t *label, const mba_image_set *s,
                                   int64_t number, const mba_image_recipe *r, uint64_t seed, int64_t epoch);
void                mba_image_maker_free(mba_image_maker *m); /* zeroed ones are fine */

#endif
