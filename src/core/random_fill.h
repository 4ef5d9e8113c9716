// SPDX-License-Identifier: Apache-2.0
/* random_fill.h -- many random numbers at a time: those of mba_init_value, bit for bit, several times as fast.
 *
 *     mba_uniforms(x, from, n, a, key);          // x[i] = (float)(a (2 u - 1)), i = from .. from + n
 *     mba_normals(x, from, n, a, key);           // x[i] = (float)(a sqrt(-2 log u) cos(2 pi v))
 *
 * u and v are words of Philox at counter i. Uniform numbers have one rounding before the last, so they are the same
 * however they are made. Normal ones come from short polynomials in vector registers, to 1e-12 of their scale. Where
 * rounding that to a float cannot depend on the error (all but one in ten thousand) it is the float; else the library's
 * functions decide. */
#ifndef MBA_CORE_RANDOM_FILL_H
#define MBA_CORE_RANDOM_FILL_H

#include <stdint.h>

void mba_uniforms(float *x, int64_t from, int64_t n, double a, uint64_t key);
void mba_normals(float *x, int64_t from, int64_t n, double a, uint64_t key);

/* How it is done: a block of at most MBA_RANDOM_BLOCK numbers; unsure[i] is set where the library must decide. */
enum { MBA_RANDOM_BLOCK = 256 };
typedef void mba_uniforms_fn(float *x, int64_t from, int n, double a, uint64_t key);
typedef void mba_normals_fn(float *x, uint8_t *unsure, int64_t from, int n, double a, uint64_t key);

/* One number at a time; the C library's functions make a normal one. */
double mba_uniform(double a, uint64_t key, int64_t i);
double mba_normal(double a, uint64_t key, int64_t i);

#endif
