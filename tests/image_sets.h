// SPDX-License-Identifier: Apache-2.0
/* image_sets.h -- what the tests of image sets share.
 *
 *     mba_image_set *s;
 *     assert_ok(opened(&s, scratch_dir, false));                                 // true: its held-out part
 *     left_out(s, 1, "image 1' cannot be decoded", (const int32_t[]){ 0, 2, 2, 3 });
 */
#ifndef MBA_TEST_IMAGE_SETS_H
#define MBA_TEST_IMAGE_SETS_H

#include "data/image_loader.h"
#include "data/image_set.h"
#include "tests/images.h"
#include "tests/scratch.h"

static inline mba_status opened(mba_image_set **s, const char *path, bool validation)
{
    return mba_image_set_open(s, &(mba_image_set_options){ .path = path, .validation = validation });
}

/* An image of a shard that cannot be decoded, and a record of CIFAR with a label that does not exist: left out with
 * a count and a name, the next one in its place, and the epoch goes on. */
static inline void left_out(const mba_image_set *s, int64_t skipped, const char *words, const int32_t *want)
{
    enum { SIZE = 8, B = 2 };
    float             x[B * SIZE * SIZE * 3];
    int32_t           labels[B];
    mba_position      at = { 0 };
    mba_image_loader *l;
    const char       *story;
    mba_image_batch   b = { .x = x, .labels = labels };
    assert_ok(mba_image_loader_create(&l, &(mba_image_loader_options){
                                              .set = s, .recipe = mba_image_recipe_eval(s, SIZE, 0), .B = B }));
    for (int64_t k = 0; k < mba_image_loader_batches(l); k++) {
        assert_ok(mba_image_loader_next(l, &b, &at));
        for (int i = 0; i < B; i++) assert_int_equal(labels[i], want[k * B + i]);
    }
    assert_true(at.epoch == 1 && at.index == 0);
    assert_int_equal(mba_image_loader_skipped(l, &story), skipped);
    assert_non_null(strstr(story, words));
    mba_image_loader_destroy(l);
}

#endif
