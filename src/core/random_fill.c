// SPDX-License-Identifier: Apache-2.0
/* random_fill.c -- see random_fill.h: single numbers by the C library, arrays by blocks of the chosen instruction
 * set. */
#include "core/random_fill.h"

#include <math.h>

#include "core/device.h"
#include "core/op.h"
#include "core/rng.h"

double mba_uniform(double a, uint64_t key, int64_t i)
{
    uint32_t u[4];
    mba_philox(u, key, 0, (uint64_t)i);
    return (float)(a * (2 * mba_unit(u[0]) - 1));
}

double mba_normal(double a, uint64_t key, int64_t i)
{
    uint32_t u[4];
    mba_philox(u, key, 0, (uint64_t)i);
    return (float)(a * sqrt(-2 * log(mba_unit(u[0]))) * cos(6.283185307179586 * mba_unit(u[1])));
}

/* The implementations of random_fill_cpu.c, by instruction set: see mba_cpu_isa. */
typedef struct blocks {
    mba_uniforms_fn *uniforms;
    mba_normals_fn  *normals;
} blocks;
#ifdef __x86_64__
mba_uniforms_fn     mba_uniforms_block_base, mba_uniforms_block_avx2, mba_uniforms_block_avx512;
mba_normals_fn      mba_normals_block_base, mba_normals_block_avx2, mba_normals_block_avx512;
static const blocks of_isa[] = { { mba_uniforms_block_base, mba_normals_block_base },
                                 { mba_uniforms_block_avx2, mba_normals_block_avx2 },
                                 { mba_uniforms_block_avx512, mba_normals_block_avx512 } };
#else
mba_uniforms_fn     mba_uniforms_block_base;
mba_normals_fn      mba_normals_block_base;
static const blocks of_isa[] = { { mba_uniforms_block_base, mba_normals_block_base } };
#endif

static const blocks *blocks_here(void)
{
    const int isa = mba_cpu_isa();
    mba_assert(isa >= 0 && isa < (int)(sizeof of_isa / sizeof *of_isa));
    return &of_isa[isa];
}

static int64_t blocks_of(int64_t n) { return (n + MBA_RANDOM_BLOCK - 1) / MBA_RANDOM_BLOCK; }
static int     left_of(int64_t n, int64_t at) { return (int)(n - at < MBA_RANDOM_BLOCK ? n - at : MBA_RANDOM_BLOCK); }

void mba_uniforms(float *x, int64_t from, int64_t n, double a, uint64_t key)
{
    mba_uniforms_fn *const fn = blocks_here()->uniforms;
    mba_assert(from >= 0 && n >= 0);
    MBA_PARALLEL_FOR(b, blocks_of(n))
    {
        const int64_t at = b * MBA_RANDOM_BLOCK;
        fn(x + at, from + at, left_of(n, at), a, key);
    }
}

void mba_normals(float *x, int64_t from, int64_t n, double a, uint64_t key)
{
    mba_normals_fn *const fn = blocks_here()->normals;
    mba_assert(from >= 0 && n >= 0);
    MBA_PARALLEL_FOR(b, blocks_of(n))
    {
        uint8_t       unsure[MBA_RANDOM_BLOCK];
        const int64_t at = b * MBA_RANDOM_BLOCK;
        const int     m = left_of(n, at);
        fn(x + at, unsure, from + at, m, a, key);
        for (int i = 0; i < m; i++)
            if (unsure[i]) x[at + i] = (float)mba_normal(a, key, from + at + i);
    }
}
