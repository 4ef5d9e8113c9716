// SPDX-License-Identifier: Apache-2.0
/* random_fill_cpu.c -- see random_fill.h: fills blocks of random numbers, compiled once for each instruction set. Plain
 * loops that compilers vectorise. The bits of the result do not depend on how: a number whose rounding is doubtful is
 * marked, and the C library computes it. */
#include "core/random_fill.h"

#include "core/op.h"
#include "core/rng.h"

/* Error bound relative to a sqrt(-2 log u): far above the errors of the polynomials (1e-13) and of the C library. */
static const double ERROR = 1e-12;
static const double LN2 = 0.693147180559945309417, TWO_PI = 6.283185307179586476925;

/* The logarithm of k / 2^32, k = 1 .. 2^32: 2 atanh((m - 1) / (m + 1)) for a mantissa m around 1, plus its exponent. */
static inline double log_of(double u)
{
    union {
        double   d;
        uint64_t b;
    } x = { u };
    const uint64_t high = (x.b + 0x95f6400000000u) >> 52; // puts the mantissa into sqrt(1/2) .. sqrt(2)
    x.b -= (high - 1023) << 52;
    const double t = (x.d - 1) / (x.d + 1), s = t * t;
    double       p = 1.0 / 17;
    p = p * s + 1.0 / 15;
    p = p * s + 1.0 / 13;
    p = p * s + 1.0 / 11;
    p = p * s + 1.0 / 9;
    p = p * s + 1.0 / 7;
    p = p * s + 1.0 / 5;
    p = p * s + 1.0 / 3;
    p = p * s + 1.0;
    return 2 * t * p + LN2 * ((double)(int32_t)high - 1023);
}

/* cos(2 pi v), v in 0 .. 1, as a sine series around 1/4 or 3/4. */
static inline double cos_of(double v)
{
    const double far = v > 0.5 ? 1 - v : v, q = TWO_PI * (0.25 - far), s = q * q;
    double       p = -8.2206352466243297e-18; // 1 / 19!, with the signs of the series
    p = p * s + 2.8114572543455206e-15;
    p = p * s - 7.6471637318198164e-13;
    p = p * s + 1.6059043836821613e-10;
    p = p * s - 2.5052108385441720e-08;
    p = p * s + 2.7557319223985893e-06;
    p = p * s - 1.9841269841269841e-04;
    p = p * s + 8.3333333333333332e-03;
    p = p * s - 1.6666666666666666e-01;
    return q + q * s * p;
}

mba_normals_fn MBA_CPU_FN(mba_normals_block);
void           MBA_CPU_FN(mba_normals_block)(float *x, uint8_t *unsure, int64_t from, int n, double a, uint64_t key)
{
    double u[MBA_RANDOM_BLOCK], v[MBA_RANDOM_BLOCK];
    mba_assert(n >= 0 && n <= MBA_RANDOM_BLOCK);
    for (int i = 0; i < n; i++) {
        uint32_t w[4];
        mba_philox(w, key, 0, (uint64_t)(from + i));
        u[i] = mba_unit(w[0]);
        v[i] = mba_unit(w[1]);
    }
    for (int i = 0; i < n; i++) {
        const double scale = a * __builtin_sqrt(-2 * log_of(u[i])), r = scale * cos_of(v[i]), e = scale * ERROR;
        const float  low = (float)(r - e), high = (float)(r + e);
        x[i] = low;
        unsure[i] = low != high;
    }
}

mba_uniforms_fn MBA_CPU_FN(mba_uniforms_block);
void            MBA_CPU_FN(mba_uniforms_block)(float *x, int64_t from, int n, double a, uint64_t key)
{
    for (int i = 0; i < n; i++) {
        uint32_t w[4];
        mba_philox(w, key, 0, (uint64_t)(from + i));
        x[i] = (float)(a * (2 * mba_unit(w[0]) - 1)); // every step but the product with a is exact
    }
}
