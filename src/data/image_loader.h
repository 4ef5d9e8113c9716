// SPDX-License-Identifier: Apache-2.0
/* image_loader.h -- batches of images, prepared by threads ahead of their use.
 *
 *     mba_image_loader *l;
 *     MBA_TRY(mba_image_loader_create(&l, &(mba_image_loader_options){
 *         .set = set, .recipe = mba_image_recipe_train(set, 224), .B = 128, .shuffle = true, .workers = 8 }));
 *     mba_position    at = { 0 };                                 // or the one of a checkpoint
 *     mba_image_batch b  = { .x = x, .targets = t };              // the caller's arrays
 *     MBA_TRY(mba_image_loader_next(l, &b, &at));                 // fills them, moves `at` on
 *     mba_image_loader_destroy(l);                                // NULL is fine
 *
 * A batch depends on the options and the position alone: not on the number of workers, not on what came before. Any
 * position may be asked for; asking for them in order makes the prefetching worth while. The workers fill a ring of
 * 8-bit batches; when one is asked for they and the caller mix, normalise and erase it straight into the caller's
 * arrays.
 *
 * An image that cannot be decoded is left out and the next one of the set takes its place (at most sixteen in a row,
 * then it is an error). How many, and the story of the last, is kept. */
#ifndef MBA_IMAGE_LOADER_H
#define MBA_IMAGE_LOADER_H

#include "data/image_recipe.h"
#include "data/loader.h"

typedef struct mba_image_loader_options {
    const mba_image_set *set; /* must outlive the loader */
    mba_image_recipe     recipe;
    int64_t              B;
    bool                 shuffle; /* a new permutation in every epoch */
    bool                 partial; /* evaluation: the last batch may have fewer images; no mixing then */
    uint64_t             seed;
    int                  rank, ranks; /* ranks 0 is 1 */
    int                  workers;     /* threads besides the caller's, which also works while it waits */
    int                  prefetch;    /* batches in the ring, 0 is 3; without workers it is 1 */
} mba_image_loader_options;

/* With size = recipe.size and K = set->classes; NULL: not wanted. Rows beyond `count` are zero, their label is -1. */
typedef struct mba_image_batch {
    float   *x;       /* (B, size, size, 3) */
    int32_t *labels;  /* (B): of the image itself, also where it was mixed */
    float   *targets; /* (B, K): smoothed and mixed */
    int64_t *numbers; /* (B): which images, before any was left out */
    int64_t  count;   /* out: images in it, B unless `partial` */
} mba_image_batch;

typedef struct mba_image_loader mba_image_loader;

MBA_MUST mba_status mba_image_loader_create(mba_image_loader **out, const mba_image_loader_options *o);
void                mba_image_loader_destroy(mba_image_loader *l);

/* Not from two threads at once. On failure the position stays. */
MBA_MUST mba_status mba_image_loader_next(mba_image_loader *l, mba_image_batch *out, mba_position *at);

int64_t mba_image_loader_batches(const mba_image_loader *l); /* in an epoch */

/* Images left out of the batches delivered so far, and what was wrong with the last ("" at first; lent). */
int64_t mba_image_loader_skipped(const mba_image_loader *l, const char **story);

#endif
