// SPDX-License-Identifier: Apache-2.0
/* gemm_cpu.c -- one matrix product on one thread, compiled once per instruction set: op(A) op(B) by packed strips and
 * panels.
 *
 *   for each block of B (at most DEPTH_MAX x COLUMNS_MAX): pack it into panels of WIDTH columns, which stay in L2
 *     for each strip of A (ROWS rows): pack it; it stays in L1 while it is multiplied by all panels
 *       sum ROWS x WIDTH values of C in registers
 *
 * The order of a sum depends on k alone. */
#include "device/cpu/gemm.h"
#include "core/op.h"
#include "device/cpu/simd.h"

/* 24 accumulators, 2 vectors of B and the factors of A fill 32 registers; with 16 registers there are 12
 * accumulators. */
#if defined __AVX512F__ || defined __ARM_NEON
enum { ROWS = 12, VECTORS = 2 };
#else
enum { ROWS = 4, VECTORS = 3 };
#endif
enum { WIDTH = VECTORS * MBA_LANES, DEPTH_MAX = 384, COLUMNS_MAX = 512, FOUR = 4, AHEAD = 64 };
#define UNROLLED _Pragma("GCC unroll 16")

static _Thread_local float strips[FOUR * ROWS * DEPTH_MAX] __attribute__((aligned(64)));
static _Thread_local float panels[DEPTH_MAX * (COLUMNS_MAX + WIDTH)] __attribute__((aligned(64)));

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* The size of the parts if n is divided into the fewest nearly equal parts of at most `most`. */
static int64_t piece_of(int64_t n, int64_t most)
{
    const int64_t pieces = (n + most - 1) / most;
    return pieces ? (n + pieces - 1) / pieces : 0;
}

/* ---- packing ---- */

/* to[k][i] = x[i][k], i < width; rows of x from `count` on are zeros. width is a multiple of 4. */
MBA_SIMD void pack_across(float *to, int width, const float *x, int64_t ld, int64_t count, int64_t depth)
{
    for (int64_t i = 0; i < width; i += 4) {
        int64_t k = 0;
        for (; i + 4 <= count && k + 4 <= depth; k += 4) {
            v4 y[4];
            UNROLLED for (int r = 0; r < 4; r++) y[r] = v4_load(x + (i + r) * ld + k);
            v4_transpose(y);
            UNROLLED for (int r = 0; r < 4; r++) v4_store(to + (k + r) * width + i, y[r]);
        }
        for (; k < depth; k++)
            for (int64_t r = i; r < i + 4; r++) to[k * width + r] = r < count ? x[r * ld + k] : 0;
    }
}

/* to[k][i] = x[k][i], i < width; columns of x from `count` on are zeros. */
MBA_SIMD void pack_along(float *to, int width, const float *x, int64_t ld, int64_t count, int64_t depth)
{
    if (count == width) {
        for (int64_t k = 0; k < depth; k++)
            UNROLLED for (int i = 0; i < width; i += 4) v4_store(to + k * width + i, v4_load(x + k * ld + i));
        return;
    }
    for (int64_t k = 0; k < depth; k++)
        for (int64_t i = 0; i < width; i++) to[k * width + i] = i < count ? x[k * ld + i] : 0;
}

/* The same for four full adjacent panels, one after the other, so that x is read by whole cache lines. */
MBA_SIMD void pack_four_along(float *to, int width, const float *x, int64_t ld, int64_t depth)
{
    for (int64_t k = 0; k < depth; k++, x += ld, to += width)
        UNROLLED for (int p = 0; p < FOUR; p++) UNROLLED for (int i = 0; i < width; i += 4)
            v4_store(to + p * depth * width + i, v4_load(x + p * width + i));
}

/* ---- the tile ---- */

/* NEON multiplies by one lane of a register, so factors are loaded as vectors; x86 broadcasts from memory. */
#ifdef __ARM_NEON
#define FACTOR(i) f[(i) / MBA_LANES][(i) % MBA_LANES]
#else
#define FACTOR(i) a[i]
#endif

MBA_SIMD void tile_of(int rows, float *c, int64_t ldc, const float *a, const float *b, int64_t depth, float alpha,
                      bool adds)
{
    vf sum[ROWS][VECTORS];
    UNROLLED for (int i = 0; i < rows; i++) UNROLLED for (int j = 0; j < VECTORS; j++) sum[i][j] = vf_set(0);
    _Pragma("GCC unroll 4") for (int64_t k = 0; k < depth; k++, a += rows, b += WIDTH)
    {
        vf y[VECTORS];
        __builtin_prefetch(b + AHEAD * WIDTH);
        UNROLLED for (int j = 0; j < VECTORS; j++) y[j] = vf_load(b + j * MBA_LANES);
#ifdef __ARM_NEON
        vf f[ROWS / MBA_LANES];
        UNROLLED for (int i = 0; i < rows; i += MBA_LANES) f[i / MBA_LANES] = vf_load(a + i);
#endif
        UNROLLED for (int i = 0; i < rows; i++) UNROLLED for (int j = 0; j < VECTORS; j++)
            sum[i][j] += FACTOR(i) * y[j];
    }
    if (alpha != 1)
        UNROLLED for (int i = 0; i < rows; i++) UNROLLED for (int j = 0; j < VECTORS; j++) sum[i][j] *= alpha;
    if (adds)
        UNROLLED for (int i = 0; i < rows; i++) UNROLLED for (int j = 0; j < VECTORS; j++)
            sum[i][j] += vf_load(c + i * ldc + j * MBA_LANES);
    UNROLLED for (int i = 0; i < rows; i++) UNROLLED for (int j = 0; j < VECTORS; j++)
        vf_store(c + i * ldc + j * MBA_LANES, sum[i][j]);
}

/* The part of C of a strip: its valid rows and columns, and how results are added. */
typedef struct target {
    float  *c;
    int64_t ldc, rows, cols, depth;
    float   alpha;
    bool    adds;
} target;

MBA_SIMD void tiles_of(int rows, const float *strip, const target *t)
{
    const float *b = panels;
    for (int64_t j = 0; j < t->cols; j += WIDTH, b += WIDTH * t->depth) {
        float        *c = t->c + j;
        const int64_t width = least(WIDTH, t->cols - j);
        if (width == WIDTH && t->rows == rows) {
            tile_of(rows, c, t->ldc, strip, b, t->depth, t->alpha, t->adds);
            continue;
        }
        float part[ROWS * WIDTH];
        tile_of(rows, part, WIDTH, strip, b, t->depth, t->alpha, false);
        for (int64_t r = 0; r < t->rows; r++)
            for (int64_t i = 0; i < width; i++)
                c[r * t->ldc + i] = part[r * WIDTH + i] + (t->adds ? c[r * t->ldc + i] : 0);
    }
}

/* The last strip: fewer rows. */
MBA_SIMD void strip_of(int rows, const mba_gemm_args *g, int64_t i, int64_t k, const target *t)
{
    if (g->ta) pack_along(strips, rows, g->a + k * g->lda + i, g->lda, t->rows, t->depth);
    else pack_across(strips, rows, g->a + i * g->lda + k, g->lda, t->rows, t->depth);
    tiles_of(rows, strips, t);
}

/* `count` full strips, at most FOUR. */
static void strips_of(const mba_gemm_args *g, int64_t i, int64_t k, int64_t count, target t)
{
    if (g->ta && count == FOUR) pack_four_along(strips, ROWS, g->a + k * g->lda + i, g->lda, t.depth);
    for (int64_t r = 0; r < count; r++, t.c += ROWS * t.ldc) {
        float *strip = strips + r * ROWS * t.depth;
        if (!g->ta) pack_across(strip, ROWS, g->a + (i + r * ROWS) * g->lda + k, g->lda, ROWS, t.depth);
        else if (count != FOUR) pack_along(strip, ROWS, g->a + k * g->lda + i + r * ROWS, g->lda, ROWS, t.depth);
        tiles_of(ROWS, strip, &t);
    }
}

static void pack_block(const mba_gemm_args *g, int64_t j, int64_t cols, int64_t k, int64_t depth)
{
    int64_t p = 0;
    for (; !g->tb && p + FOUR * WIDTH <= cols; p += FOUR * WIDTH)
        pack_four_along(panels + p * depth, WIDTH, g->b + k * g->ldb + j + p, g->ldb, depth);
    for (; p < cols; p += WIDTH) {
        float        *to = panels + p * depth;
        const int64_t count = least(WIDTH, cols - p);
        if (g->tb) pack_across(to, WIDTH, g->b + (j + p) * g->ldb + k, g->ldb, count, depth);
        else pack_along(to, WIDTH, g->b + k * g->ldb + j + p, g->ldb, count, depth);
    }
}

static void block_of(const mba_gemm_args *g, int64_t j, int64_t cols, int64_t k, int64_t depth)
{
    pack_block(g, j, cols, k, depth);
    target        t = { .ldc = g->ldc,
                        .cols = cols,
                        .depth = depth,
                        .rows = ROWS,
                        .alpha = g->alpha == 0 ? 1 : g->alpha,
                        .adds = g->adds || k > 0 };
    const int64_t full = g->m / ROWS;
    for (int64_t i = 0; i < full; i += FOUR) {
        t.c = g->c + i * ROWS * g->ldc + j;
        strips_of(g, i * ROWS, k, least(FOUR, full - i), t);
    }
    t.c = g->c + full * ROWS * g->ldc + j;
    t.rows = g->m - full * ROWS;
    if (t.rows > 8) strip_of(ROWS, g, full * ROWS, k, &t);
    else if (t.rows > 4) strip_of(ROWS < 8 ? ROWS : 8, g, full * ROWS, k, &t);
    else if (t.rows > 0) strip_of(4, g, full * ROWS, k, &t);
}

void MBA_CPU_FN(mba_gemm_packed)(const mba_gemm_args *g)
{
    const int64_t depth = piece_of(g->k, DEPTH_MAX), cols = piece_of(g->n, COLUMNS_MAX);
    const int64_t whole = (cols + WIDTH - 1) / WIDTH * WIDTH; // padded to whole panels
    for (int64_t j = 0; j < g->n; j += whole)
        for (int64_t k = 0; k < g->k; k += depth) block_of(g, j, least(whole, g->n - j), k, least(depth, g->k - k));
}
