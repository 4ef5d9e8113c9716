// SPDX-License-Identifier: Apache-2.0
/* random_fill.h -- fills arrays with random numbers: the same bits as mba_init_value, several times as fast.
 *
 *     mba_uniforms(x, from, n, a, key);          // x[i] = (float)(a (2 u - 1)), i = from .. from + n
 *     mba_normals(x, from, n, a, key);           // x[i] = (float)(a sqrt(-2 log u) cos(2 pi v))
 *
 * u and v are words of Philox at counter i. A uniform number is rounded once before its conversion to float, so every
 * instruction set gives the same bits. Normal numbers come from short polynomials in vector registers, with an error of
 * 1e-12 of their scale. Where that error cannot change the float (all but one in ten thousand) the float stands;
 * otherwise the C library's functions compute it again. */
#ifndef MBA_CORE_RANDOM_FILL_H
#define MBA_CORE_RANDOM_FILL_H

#include <stdint.h>

void mba_uniforms(float *x, int64_t from, int64_t n, double a, uint64_t key);
void mba_normals(float *x, int64_t from, int64_t n, double a, uint64_t key);

/* One implementation per instruction set. It fills a block of at most MBA_RANDOM_BLOCK numbers and sets unsure[i] where
 * the C library must compute the number. */
enum { MBA_RANDOM_BLOCK = 256 };
typedef void mba_uniforms_fn(float *x, int64_t from, int n, double a, uint64_t key);
typedef void mba_normals_fn(float *x, uint8_t *unsure, int64_t from, int n, double a, uint64_t key);

/* One number at a time, by the C library's functions. */
double mba_uniform(double a, uint64_t key, int64_t i);
double mba_normal(double a, uint64_t key, int64_t i);

#endif
