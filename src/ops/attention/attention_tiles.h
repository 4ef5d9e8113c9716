// SPDX-License-Identifier: Apache-2.0
/* attention_tiles.h -- the two register tiles of attention on the CPU, for both directions.
 *
 * Rows along which vectors run are packed in panels: PANEL rows side by side, [e][PANEL], so that one load takes LANES
 * rows at one e. Rows on the other side are packed in strips: [e][STRIP]. Packed rows are padded with zeros, so tiles
 * are always full and no product has a remainder.
 *
 *   outer_tile   C (STRIP, PANEL)  += sum_k a[k][0..STRIP) b[k][0..PANEL)        both operands by k
 *   inner_tile   C (STRIP, 2 vectors) += sum_k a[0..STRIP)[k] b[k][0..2 vectors) a by rows */
#ifndef MBA_ATTENTION_TILES_H
#define MBA_ATTENTION_TILES_H

#include <string.h>

#include "device/cpu/simd.h"
#include "ops/attention/attention_slots.h"
#include "ops/heads.h"

/* A tile has 24 accumulators of the 32 registers of NEON and AVX-512, 12 of the 16 of AVX2 and SSE2. */
#if defined __ARM_NEON || defined __AVX512F__
#define STRIP 8
#else
#define STRIP 4
#endif
#define LANES    MBA_LANES
#define VECTORS  3
#define PANEL    (VECTORS * LANES)
#define UNROLLED _Pragma("GCC unroll 16")

_Static_assert(ATT_STRIP % STRIP == 0 && ATT_PANEL % PANEL == 0 && ATT_HEAD % STRIP == 0 && ATT_HEAD % (2 * LANES) == 0,
               "packed arrays hold whole tiles on every instruction set");
_Static_assert(ATT_QUERIES % ATT_PANEL == 0 && ATT_BWD_KEYS % ATT_PANEL == 0 && ATT_KEYS % ATT_STRIP == 0
                   && ATT_BWD_QUERIES % ATT_STRIP == 0,
               "blocks hold whole panels and strips");

/* NEON can multiply by one lane of a register, so factors are loaded as vectors; x86 broadcasts from memory. */
#ifdef __ARM_NEON
#define FACTORS_OF(a, i)            vf_load((a) + (i))
#define FACTOR(f, a, i)             (f)[(i) / LANES][(i) % LANES]
#define INNER_FACTOR(f, a, i, k, l) (f)[i][l]
enum { STEP = LANES };
#else
#define FACTORS_OF(a, i)            vf_set(0) /* not used */
#define FACTOR(f, a, i)             ((void)(f), (a)[i])
#define INNER_FACTOR(f, a, i, k, l) ((void)(f), (a)[(i)*PANEL + (k) + (l)])
enum { STEP = 1 };
#endif

MBA_SIMD void outer_tile(float *c, const float *a, int64_t lda, const float *b, int64_t depth, bool adds)
{
    vf sum[STRIP][VECTORS];
    UNROLLED for (int i = 0; i < STRIP; i++) UNROLLED for (int j = 0; j < VECTORS; j++)
        sum[i][j] = adds ? vf_load(c + i * PANEL + j * LANES) : vf_set(0);
    for (int64_t k = 0; k < depth; k++, a += lda, b += PANEL) {
        vf y[VECTORS], f[STRIP];
        UNROLLED for (int j = 0; j < VECTORS; j++) y[j] = vf_load(b + j * LANES);
        UNROLLED for (int i = 0; i < STRIP; i += STEP) f[i / STEP] = FACTORS_OF(a, i);
        UNROLLED for (int i = 0; i < STRIP; i++) UNROLLED for (int j = 0; j < VECTORS; j++)
            sum[i][j] += FACTOR(f, a, i) * y[j];
    }
    UNROLLED for (int i = 0; i < STRIP; i++) UNROLLED for (int j = 0; j < VECTORS; j++)
        vf_store(c + i * PANEL + j * LANES, sum[i][j]);
}

/* a consists of panels that are `panel` apart; rows of b are ldb apart. */
MBA_SIMD void inner_tile(float *c, int64_t ldc, const float *a, int64_t panel, int64_t panels, const float *b,
                         int64_t ldb)
{
    vf sum[STRIP][2];
    UNROLLED for (int i = 0; i < STRIP; i++) UNROLLED for (int j = 0; j < 2; j++)
        sum[i][j] = vf_load(c + i * ldc + j * LANES);
    for (int64_t p = 0; p < panels; p++, a += panel)
        for (int64_t k = 0; k < PANEL; k += STEP) {
            vf f[STRIP];
            UNROLLED for (int i = 0; i < STRIP; i++) f[i] = FACTORS_OF(a, i * PANEL + k);
            UNROLLED for (int l = 0; l < STEP; l++, b += ldb)
            {
                const vf y[2] = { vf_load(b), vf_load(b + LANES) };
                UNROLLED for (int i = 0; i < STRIP; i++) UNROLLED for (int j = 0; j < 2; j++)
                    sum[i][j] += INNER_FACTOR(f, a, i, k, l) * y[j];
            }
        }
    UNROLLED for (int i = 0; i < STRIP; i++) UNROLLED for (int j = 0; j < 2; j++)
        vf_store(c + i * ldc + j * LANES, sum[i][j]);
}

/* ---- packing: transposition in blocks of 4 x 4 ---- */

/* out[e][i] = scale x[i][e] for `width` rows, a multiple of 4, of P values; rows from `count` on are zeros. */
static inline void pack_columns(float *out, int64_t width, const float *x, int64_t row, int64_t count, int64_t P,
                                float scale)
{
    for (int64_t i = 0; i < width; i += 4) {
        int64_t e = 0;
        for (; i + 4 <= count && e + 4 <= P; e += 4) {
            v4 y[4];
            UNROLLED for (int k = 0; k < 4; k++) y[k] = v4_load(x + (i + k) * row + e) * scale;
            v4_transpose(y);
            UNROLLED for (int k = 0; k < 4; k++) v4_store(out + (e + k) * width + i, y[k]);
        }
        for (; e < P; e++)
            for (int64_t k = i; k < i + 4; k++) out[e * width + k] = k < count ? scale * x[k * row + e] : 0;
    }
}

/* The inverse: x[i][e] = share[i] panel[e][i]. */
static inline void unpack_columns(float *x, int64_t row, const float *panel, int64_t width, const float *share,
                                  int64_t count, int64_t P)
{
    for (int64_t i = 0; i < count; i += 4) {
        int64_t e = 0;
        for (; i + 4 <= count && e + 4 <= P; e += 4) {
            const v4 scale = v4_load(share + i);
            v4       y[4];
            UNROLLED for (int k = 0; k < 4; k++) y[k] = v4_load(panel + (e + k) * width + i) * scale;
            v4_transpose(y);
            UNROLLED for (int k = 0; k < 4; k++) v4_store(x + (i + k) * row + e, y[k]);
        }
        for (; e < P; e++)
            for (int64_t k = i; k < count && k < i + 4; k++) x[k * row + e] = share[k] * panel[e * width + k];
    }
}

/* The smallest and the largest id. Blocks whose ranges do not overlap have no pair of one document. */
static inline void id_range(int32_t *low, int32_t *high, const int32_t *ids, int64_t n)
{
    *low = *high = ids[0];
    for (int64_t i = 1; i < n; i++) {
        *low = ids[i] < *low ? ids[i] : *low;
        *high = ids[i] > *high ? ids[i] : *high;
    }
}

#endif
