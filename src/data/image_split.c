// SPDX-License-Identifier: Apache-2.0
/* image_split.c -- mba_image_set_split of image_set.h: a part of a set, as a set.
 *
 * The held-out images depend only on the set and the fraction, as with graphs, not on the seed of a run: `eval` uses
 * images that no run with the same fraction has trained on. */
#include "data/image_set.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "data/permute.h"

enum { WHOLE = 1000000000 }; /* fractions are counted in billionths, the same on all machines */

typedef struct image_split {
    mba_image_set  set;
    mba_image_kind kind; /* the whole set's, with its name */
    mba_image_set *whole;
    int64_t       *number; /* (count) in the whole set */
} image_split;

static mba_status split_read(const mba_image_set *s, int64_t number, mba_sample *out)
{
    const image_split *f = (const image_split *)s;
    return mba_image_set_read(f->whole, f->number[number], out);
}

static void split_close(mba_image_set *s)
{
    image_split *f = (image_split *)s;
    mba_image_set_close(f->whole);
    free(f->number);
    free(f);
}

static int32_t split_label(const mba_image_set *s, int64_t number)
{
    const image_split *f = (const image_split *)s;
    return mba_image_set_label(f->whole, f->number[number]);
}

static const char *split_class(const mba_image_set *s, int32_t label)
{
    return mba_image_set_class(((const image_split *)s)->whole, label);
}

/* How many of the first n images, ordered by class, are held out. */
static int64_t held_before(int64_t n, int64_t billionths) { return (n * billionths + WHOLE / 2) / WHOLE; }

/* Counts of one class. */
typedef struct tally {
    int64_t images, held; /* held: images with a lower position in a random order are held out */
    int64_t seen;
} tally;

/* The class of an image. An invalid label counts as class 0 here; reading the image reports the damage. */
static int32_t class_of(const mba_image_set *s, int64_t number)
{
    const int32_t label = mba_image_set_label(s, number);
    return label < s->classes ? label : 0;
}

static void count_classes(tally *class, const mba_image_set *s, int64_t billionths)
{
    int64_t before = 0;
    for (int64_t i = 0; i < s->count; i++) class[class_of(s, i)].images++;
    for (int64_t c = 0; c < s->classes; c++) {
        const int64_t n = class[c].images;
        class[c].held = held_before(before + n, billionths) - held_before(before, billionths);
        if (class[c].held == n && n) class[c].held = n - 1;
        before += n;
    }
}

static void choose(image_split *f, tally *class, bool held_out)
{
    for (int64_t i = 0; i < f->whole->count; i++) {
        tally        *c = &class[class_of(f->whole, i)];
        const int64_t place = mba_permuted(c->seen++, c->images, mba_stream("images held out"), 0);
        if ((place < c->held) == held_out) f->number[f->set.count++] = i;
    }
}

static mba_status split(image_split *f, double part, bool held_out)
{
    tally *class = calloc((size_t)f->whole->classes, sizeof *class);
    f->number = malloc(sizeof *f->number * (size_t)f->whole->count);
    mba_status st = class && f->number
                        ? MBA_OK
                        : mba_fail(MBA_E_NOMEM, "no memory for the numbers of %" PRId64 " images", f->whole->count);
    if (st == MBA_OK) {
        count_classes(class, f->whole, (int64_t)llround(part * WHOLE));
        choose(f, class, held_out);
    }
    free(class);
    if (st == MBA_OK && !f->set.count)
        st = mba_fail(MBA_E_ARG,
                      "%g of %" PRId64 " images is none\nwhy: every class keeps at least one for training\n"
                      "fix: use a larger --valid-fraction, or more images",
                      part, f->whole->count);
    return st;
}

mba_status mba_image_set_split(mba_image_set **set, double part, bool held_out)
{
    mba_image_set *whole = *set;
    image_split   *f = calloc(1, sizeof *f);
    mba_assert(part > 0 && part < 1);
    *set = NULL;
    if (!f) {
        mba_image_set_close(whole);
        return mba_fail(MBA_E_NOMEM, "no memory for a part of a set of images");
    }
    f->set = *whole;
    f->set.kind = &f->kind;
    f->set.count = 0;
    f->kind = (mba_image_kind){ whole->kind->name, split_read, split_close, split_label, split_class };
    f->whole = whole;
    const mba_status st = split(f, part, held_out);
    if (st == MBA_OK) *set = &f->set;
    else split_close(&f->set);
    return st;
}
