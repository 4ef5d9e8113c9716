// SPDX-License-Identifier: Apache-2.0
/* ssd_tile.h -- the matrix product of ssd's CPU path: small, dense, in cache, with the decay folded in.
 *
 *   C (m, n) = beta_i C0_ij + sum_k A_ki B_kj        rows of B, C and C0 are whole vectors
 *
 * A tile of ROWS x VECS vectors stays in registers over all of k. A is stored with k as the outer axis, so that the
 * ROWS values of a step are contiguous. Operands are not packed: a chunk fits into the caches. */
#ifndef MBA_SSD_TILE_H
#define MBA_SSD_TILE_H

#include <stdbool.h>
#include <stddef.h>

#include "device/cpu/simd.h"

/* Independent accumulators hide the latency of the multiply-add: 16 where there are 32 registers (with more, GCC spills
 * on Arm), 8 where there are 16. ROWS divides the chunk and the usual sizes. */
#if defined __AVX512F__
enum { ROWS = 8, VECS = 2 };
#elif defined __aarch64__
enum { ROWS = 4, VECS = 4 };
#else
enum { ROWS = 4, VECS = 2 };
#endif

typedef enum side { ALL, BELOW, ABOVE } side;

typedef struct operand {
    const float *p;
    int64_t      ld;
} operand;

typedef struct result {
    float  *p;
    int64_t ld;
} result;

typedef struct product {
    int64_t      size[3]; /* m, n, k; n: a multiple of MBA_LANES */
    operand      a, b;    /* (k, m), three values after a row are readable; (k, n) */
    result       c;       /* (m, n), as c0 */
    const float *c0, *beta;
    int64_t      beta_step; /* c0 NULL: adds nothing; beta_step 0: one beta for all rows */
    side         a_part;    /* BELOW: A_ki is 0 for k > i; ABOVE: for k < i */
    side         c_part;    /* BELOW: C_ij is needed for j <= i only; ABOVE: for j >= i */
} product;

#ifdef __aarch64__
MBA_SIMD vf lane(vf x, int i) /* compiles into the multiplication that uses it */
{
    switch (i) {
    case 0: return __builtin_shufflevector(x, x, 0, 0, 0, 0);
    case 1: return __builtin_shufflevector(x, x, 1, 1, 1, 1);
    case 2: return __builtin_shufflevector(x, x, 2, 2, 2, 2);
    default: return __builtin_shufflevector(x, x, 3, 3, 3, 3);
    }
}
#endif

MBA_SIMD void tile_step(vf acc[ROWS][VECS], const float *a, const float *b, int rows, int vecs)
{
    vf row[VECS];
    for (int v = 0; v < vecs; v++) row[v] = vf_load(b + v * MBA_LANES);
#ifdef __aarch64__
    const vf four = vf_load(a); // one load for ROWS values
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < vecs; v++) acc[r][v] += lane(four, r) * row[v];
#else
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < vecs; v++) acc[r][v] += a[r] * row[v];
#endif
}

/* Computes the tile of `rows` x `vecs` at (i, j). Callers pass constants, so that the loops unroll. */
MBA_SIMD void tile(const product *p, int64_t i, int64_t j, const int rows, const int vecs)
{
    const int64_t lda = p->a.ld, ldb = p->b.ld, ldc = p->c.ld, K = p->size[2];
    const int64_t first = p->a_part == ABOVE ? i : 0, end = p->a_part == BELOW && i + rows < K ? i + rows : K;
    const float  *a = p->a.p + first * lda + i, *b = p->b.p + first * ldb + j;
    vf            acc[ROWS][VECS];
    for (int r = 0; r < rows; r++) {
        const float *c0 = p->c0 ? p->c0 + (i + r) * ldc + j : NULL;
        for (int v = 0; v < vecs; v++)
            acc[r][v] = c0 ? p->beta[(i + r) * p->beta_step] * vf_load(c0 + v * MBA_LANES) : vf_set(0);
    }
    for (int64_t k = first; k < end; k++, a += lda, b += ldb) tile_step(acc, a, b, rows, vecs);
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < vecs; v++) vf_store(p->c.p + (i + r) * ldc + j + v * MBA_LANES, acc[r][v]);
}

static void tiles_wide(const product *p, int64_t j, int64_t i, int64_t end)
{
    for (; i + ROWS <= end; i += ROWS) tile(p, i, j, ROWS, VECS);
    for (; i < end; i++) tile(p, i, j, 1, VECS);
}

static void tiles_narrow(const product *p, int64_t j, int64_t i, int64_t end)
{
    for (; i + ROWS <= end; i += ROWS) tile(p, i, j, ROWS, 1);
    for (; i < end; i++) tile(p, i, j, 1, 1);
}

/* Columns are the outer loop, so that VECS vectors of every row of B stay in L1 while A is read. */
static void multiply(const product *p)
{
    const int64_t m = p->size[0], n = p->size[1];
    for (int64_t j = 0, width; j < n; j += width) {
        const bool wide = n - j >= VECS * MBA_LANES;
        width = (wide ? VECS : 1) * MBA_LANES;
        const int64_t first = p->c_part == BELOW ? j / ROWS * ROWS : 0;
        const int64_t end = p->c_part == ABOVE && j + width < m ? j + width : m;
        (wide ? tiles_wide : tiles_narrow)(p, j, first, end);
    }
}

/* y (n, m) = x (m, n)^T, in squares of four: both are readable and writable up to multiples of four. */
static void transpose(float *y, int64_t ldy, const float *x, int64_t ldx, int64_t m, int64_t n)
{
    for (int64_t i = 0; i < m; i += 4)
        for (int64_t j = 0; j < n; j += 4) {
            v4 square[4];
            for (int k = 0; k < 4; k++) square[k] = v4_load(x + (i + k) * ldx + j);
            v4_transpose(square);
            for (int k = 0; k < 4; k++) v4_store(y + (j + k) * ldy + i, square[k]);
        }
}

#endif
