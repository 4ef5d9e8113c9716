// SPDX-License-Identifier: Apache-2.0
/* image_loader.h -- batches of images that worker threads prepare in advance.
 *
 *     mba_image_loader *l;
 *     MBA_TRY(mba_image_loader_create(&l, &(mba_image_loader_options){
 *         .set = set, .recipe = mba_image_recipe_train(set, 224), .B = 128, .shuffle = true, .workers = 8 }));
 *     mba_position    at = { 0 };                                 // or the one of a checkpoint
 *     mba_image_batch b  = { .x = x, .targets = t };              // the caller's arrays
 *     MBA_TRY(mba_image_loader_next(l, &b, &at));                 // fills them, moves `at` on
 *     mba_image_loader_destroy(l);                                // NULL is fine
 *
 * A batch depends only on the options and the position, not on the number of workers or on earlier batches. Any
 * position may be asked for; prefetching helps if they are asked for in order. The workers fill a ring of 8-bit
 * batches. When one is asked for, they and the caller mix, normalise and erase it straight into the caller's arrays.
 *
 * An image that cannot be decoded is replaced by the next one of the set; more than sixteen in a row are an error. The
 * loader counts them and keeps the message about the last. */
#ifndef MBA_IMAGE_LOADER_H
#define MBA_IMAGE_LOADER_H

#include "data/image_recipe.h"
#include "data/loader.h"

typedef struct mba_image_loader_options {
    const mba_image_set *set; /* must outlive the loader */
    mba_image_recipe     recipe;
    int64_t              B;
    bool                 shuffle; /* a new permutation in every epoch */
    bool                 partial; /* evaluation: the last batch may have fewer images; nothing is mixed */
    uint64_t             seed;
    int                  rank, ranks; /* ranks 0 is 1 */
    int                  workers;     /* threads besides the caller's, which also works while it waits */
    int64_t              run, jump;   /* for prefetching: after `run` batches, `jump` are left out (for other ranks) */
    int                  prefetch;    /* batches in the ring, 0 is 3; without workers it is 1 */
} mba_image_loader_options;

/* size = recipe.size and K = set->classes; NULL: not filled. Rows beyond `count` are zero, and their label is -1. */
typedef struct mba_image_batch {
    float   *x;       /* (B, size, size, 3) */
    int32_t *labels;  /* (B): of the image itself, even if it is mixed with another */
    float   *targets; /* (B, K): smoothed and mixed */
    int64_t *numbers; /* (B): which images, before any is replaced */
    int64_t  count;   /* out: images in the batch, B unless `partial` */
} mba_image_batch;

typedef struct mba_image_loader mba_image_loader;

MBA_MUST mba_status mba_image_loader_create(mba_image_loader **out, const mba_image_loader_options *o);
void                mba_image_loader_destroy(mba_image_loader *l);

/* One thread at a time. On failure the position stays. */
MBA_MUST mba_status mba_image_loader_next(mba_image_loader *l, mba_image_batch *out, mba_position *at);

int64_t mba_image_loader_batches(const mba_image_loader *l); /* in an epoch */

/* Images that were replaced in the batches so far, and the message about the last ("" at first; lent). */
int64_t mba_image_loader_skipped(const mba_image_loader *l, const char **story);

#endif
