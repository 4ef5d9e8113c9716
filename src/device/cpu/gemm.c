/* gemm.c -- see gemm.h. */
#include "device/cpu/gemm.h"

#include <cblas.h>
#include <pthread.h>

#include "core/op.h"

/* A tile is large enough that packing its operands costs little beside the product, and small enough
 * that a layer gives every core of a workstation several. */
enum { TILE_M = 512, TILE_N = 512 };

/* OpenBLAS must not start threads of its own: see matmul.md. */
static void one_thread(void) { openblas_set_num_threads(1); }

void mba_gemm_serial(const mba_gemm_args *g)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, one_thread);
    mba_assert(g->m <= INT32_MAX && g->n <= INT32_MAX && g->k <= INT32_MAX);
    cblas_sgemm(CblasRowMajor, g->ta ? CblasTrans : CblasNoTrans, g->tb ? CblasTrans : CblasNoTrans, (int)g->m, (int)g->n,
                (int)g->k, g->alpha == 0 ? 1 : g->alpha, g->a, (int)g->lda, g->b, (int)g->ldb, g->adds ? 1 : 0, g->c,
                (int)g->ldc);
}

void mba_gemm(const mba_gemm_args *g)
{
    const int64_t rows = mba_ceil(g->m, TILE_M), cols = mba_ceil(g->n, TILE_N);
    MBA_PARALLEL_TILES(t, rows * cols) {
        const int64_t i = t / cols * TILE_M, j = t % cols * TILE_N;
        mba_gemm_args tile = *g;
        tile.m = i + TILE_M < g->m ? TILE_M : g->m - i;
        tile.n = j + TILE_N < g->n ? TILE_N : g->n - j;
        tile.a += g->ta ? i : i * g->lda;
        tile.b += g->tb ? j * g->ldb : j;
        tile.c += i * g->ldc + j;
        mba_gemm_serial(&tile);
    }
}
