// SPDX-License-Identifier: Apache-2.0
/* reference_fill.h -- the fill rule of the reference vectors of MambaVision's mixer and of GatedGCN: a
 * counter from 1, one step per element, hashed to -1 .. 1.
 *
 *     uint32_t counter = 1;
 *     reference_fill(&r, x, &counter);                    // x a parameter or input of a rig (rig.h), dense */
#ifndef MBA_REFERENCE_FILL_H
#define MBA_REFERENCE_FILL_H

#include "tests/rig.h"

static inline double reference_next(uint32_t *counter)
{
    uint32_t a = (*counter)++ * 0x9E3779B9u;
    a ^= a >> 16;
    a *= 0x85EBCA6Bu;
    a ^= a >> 13;
    a *= 0xC2B2AE35u;
    a ^= a >> 16;
    return a / 2147483648.0 - 1;
}

/* Elements first .. first + n - 1. */
static inline void reference_fill_part(rig *r, const mba_tensor *t, int64_t first, int64_t n, uint32_t *counter)
{
    assert_non_null(t);
    for (int64_t k = 0; k < n; k++) rig_set(r, t, first + k, reference_next(counter));
}

static inline void reference_fill(rig *r, const mba_tensor *t, uint32_t *counter)
{
    assert_non_null(t);
    reference_fill_part(r, t, 0, mba_elems(t), counter);
}

/* Elements from `first` on have these values; printed with nine digits. fp32 keeps six of them at values around 1. */
static inline void assert_reference(rig *r, const mba_tensor *t, int64_t first, int n, const double *want)
{
    for (int i = 0; i < n; i++) {
        assert_near(rig_want(r, t, first + i), want[i], 6e-10);
        assert_near(rig_have(r, t, first + i), want[i], 4e-6);
    }
}

/* The sum of all elements, and of their squares where that is given (> 0). */
static inline void assert_reference_sums(rig *r, const mba_tensor *t, double sum, double squares)
{
    double want[2] = { 0 }, have[2] = { 0 };
    for (int64_t i = 0; i < mba_elems(t); i++) {
        want[0] += rig_want(r, t, i);
        want[1] += pow(rig_want(r, t, i), 2);
        have[0] += (double)rig_have(r, t, i);
        have[1] += pow((double)rig_have(r, t, i), 2);
    }
    assert_near(want[0], sum, 6e-10);
    assert_near(have[0], sum, 4e-5);
    if (squares > 0) assert_near(want[1], squares, 6e-10);
    if (squares > 0) assert_near(have[1], squares, 4e-5);
}

#endif
