// SPDX-License-Identifier: Apache-2.0
/* draw.h -- random numbers for one image: a sequence of Philox draws that depends on (seed, purpose, epoch, number).
 *
 *     mba_draw d = mba_draw_start(seed, "augment", epoch, image);
 *     if (mba_draw_unit(&d) <= 0.5) flip(..);                  // (0, 1]
 *     int top = (int)mba_draw_below(&d, H - h + 1);            // 0 .. H - h
 *
 * Nothing depends on which thread draws or on draws for other images. A sequence has 2^24 counters of four words. */
#ifndef MBA_DRAW_H
#define MBA_DRAW_H

#include <math.h>

#include "core/rng.h"

typedef struct mba_draw {
    uint64_t key, hi, lo;
    uint32_t word[4];
    int      left; /* words not used yet */
} mba_draw;

static inline mba_draw mba_draw_start(uint64_t seed, const char *purpose, int64_t epoch, int64_t number)
{
    return (mba_draw){ .key = seed ^ mba_stream(purpose), .hi = (uint64_t)epoch, .lo = (uint64_t)number << 24 };
}

static inline uint32_t mba_draw_word(mba_draw *d)
{
    if (!d->left) {
        mba_philox(d->word, d->key, d->hi, d->lo++);
        d->left = 4;
    }
    return d->word[4 - d->left--];
}

static inline double mba_draw_unit(mba_draw *d) { return mba_unit(mba_draw_word(d)); }

static inline double mba_draw_between(mba_draw *d, double low, double high)
{
    return low + (high - low) * mba_draw_unit(d);
}

/* 0 .. n - 1; the bias is n / 2^32. */
static inline uint32_t mba_draw_below(mba_draw *d, uint32_t n)
{
    return (uint32_t)((uint64_t)mba_draw_word(d) * n >> 32);
}

/* True with probability p: never for 0, always for 1. */
static inline int mba_draw_chance(mba_draw *d, double p) { return mba_draw_unit(d) <= p; }

static inline double mba_draw_normal(mba_draw *d)
{
    const double r = sqrt(-2 * log(mba_draw_unit(d)));
    return r * cos(6.283185307179586 * mba_draw_unit(d));
}

#endif
