// SPDX-License-Identifier: Apache-2.0
/* permute.h -- a random permutation that is computed, not stored.
 *
 *     int64_t number = mba_permuted(i, n, seed ^ mba_stream("loader"), epoch);     // i, number in [0, n)
 *
 * For fixed n, key and epoch, different i give different results. */
#ifndef MBA_PERMUTE_H
#define MBA_PERMUTE_H

#include <stdint.h>

#include "core/rng.h"

/* A Feistel network over the next power of four, with Philox as its round function, repeated until the result is below
 * n. The range is at most four times n, so it takes at most four repetitions on average. */
static inline int64_t mba_permuted(int64_t i, int64_t n, uint64_t key, uint64_t epoch)
{
    int half = 1;
    while (half < 31 && (INT64_C(1) << 2 * half) < n) half++;
    const uint64_t mask = (UINT64_C(1) << half) - 1;
    uint64_t       x = (uint64_t)i;
    do {
        uint64_t left = x >> half, right = x & mask;
        for (uint64_t round = 0; round < 6; round++) {
            uint32_t u[4];
            mba_philox(u, key, epoch, round << 32 | right);
            const uint64_t swap = left ^ (u[0] & mask);
            left = right;
            right = swap;
        }
        x = left << half | right;
    } while (x >= (uint64_t)n);
    return (int64_t)x;
}

#endif
