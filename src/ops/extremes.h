// SPDX-License-Identifier: Apache-2.0
/* extremes.h -- steps and decays at the limits of what occurs in training, for the cases of both SSM operators.
 *
 * A step is softplus(dt + dt_bias). dt_bias is `raw`, and dt has standard deviation `spread`. A lies in -A_high ..
 * -A_low. tests/extremes_test.c compares each gradient relative to its own norm, so that errors of small gradients do
 * not hide behind large ones. */
#ifndef MBA_EXTREMES_H
#define MBA_EXTREMES_H

#include "core/graph.h"

typedef struct mba_extreme {
    const char *what;
    double      raw, spread, A_low, A_high;
} mba_extreme;

// clang-format off
#define MBA_EXTREMES(X) \
    X(TINY_STEPS,     "steps near 1e-8",                                      -18.4,  0.5, 1,    16) \
    X(SMALL_STEPS,    "steps near 1e-6",                                      -13.8,  0.5, 1,    16) \
    X(ALL_STEPS,      "steps of 1e-8 to 20",                                  -6,     6,   0.2,  2) \
    X(NEAR_FORGOTTEN, "steps near 8: a token keeps e^-8 to e^-16",            8,      0.3, 1,    2) \
    X(LARGE_STEPS,    "steps near 24",                                        24,     0.5, 0.02, 0.5) \
    X(LONG_MEMORY,    "A near -1e-4",                                         -3,     1,   1e-4, 2e-4) \
    X(STRONG_A,       "A near -1e4, steps near 1e-4",                         -9.2,   0.5, 1e4,  1.1e4) \
    X(FORGOTTEN_ALL,  "A near -1e4, steps near 8: nothing is kept",           8,      0.3, 1e4,  1.1e4)
// clang-format on

enum {
    MBA_ORDINARY, /* none of these */
#define X(name, what, raw, spread, low, high) MBA_##name,
    MBA_EXTREMES(X)
#undef X
        MBA_EXTREMES_END
};

static inline mba_extreme mba_extreme_of(int64_t k)
{
    static const mba_extreme all[] = { { 0 },
#define X(name, what, raw, spread, low, high) { what, raw, spread, low, high },
                                       MBA_EXTREMES(X)
#undef X
    };
    return all[k];
}

#endif
