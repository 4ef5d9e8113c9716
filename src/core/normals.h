/* normals.h -- many normal numbers at a time: those of mba_init_value, bit for bit, several times as fast.
 *
 *     mba_normals(x, from, n, a, key);           // x[i] = (float)(a sqrt(-2 log u) cos(2 pi v)), i = from .. from + n
 *
 * Short polynomials in vector registers give the result to 1e-12 of its scale. Where rounding that to a float cannot
 * depend on the error (all but one in ten thousand) it is the float; else the library's functions decide. */
#ifndef MBA_NORMALS_H
#define MBA_NORMALS_H

#include <stdint.h>

void mba_normals(float *x, int64_t from, int64_t n, double a, uint64_t key);

/* How it is done: a block of at most MBA_NORMALS numbers; unsure[i] is set where the library must decide. */
enum { MBA_NORMALS = 256 };
typedef void mba_normals_fn(float *x, uint8_t *unsure, int64_t from, int n, double a, uint64_t key);

/* One number, by the library. */
double mba_normal(double a, uint64_t key, int64_t i);

#endif
