/* normals.c -- see normals.h. */
#include "core/normals.h"

#include <math.h>

#include "core/device.h"
#include "core/op.h"
#include "core/rng.h"

double mba_normal(double a, uint64_t key, int64_t i)
{
    uint32_t u[4];
    mba_philox(u, key, 0, (uint64_t)i);
    return (float)(a * sqrt(-2 * log(mba_unit(u[0]))) * cos(6.283185307179586 * mba_unit(u[1])));
}

#ifdef __x86_64__
mba_normals_fn mba_normals_block_base, mba_normals_block_avx2, mba_normals_block_avx512;
static mba_normals_fn *const block[] = { mba_normals_block_base, mba_normals_block_avx2, mba_normals_block_avx512 };
#else
mba_normals_fn mba_normals_block_base;
static mba_normals_fn *const block[] = { mba_normals_block_base };
#endif

void mba_normals(float *x, int64_t from, int64_t n, double a, uint64_t key)
{
    mba_normals_fn *const fn = block[mba_cpu_isa()];
    MBA_PARALLEL_FOR(b, (n + MBA_NORMALS - 1) / MBA_NORMALS) {
        uint8_t       unsure[MBA_NORMALS];
        const int64_t at = b * MBA_NORMALS;
        const int     m = (int)(n - at < MBA_NORMALS ? n - at : MBA_NORMALS);
        fn(x + at, unsure, from + at, m, a, key);
        for (int i = 0; i < m; i++) if (unsure[i]) x[at + i] = (float)mba_normal(a, key, from + at + i);
    }
}
