// SPDX-License-Identifier: Apache-2.0
/* gemm.c -- fp32 matrix products on the CPU: tiles over threads, our kernels or OpenBLAS per tile (gemm.h). The choice
 * of tile sizes is explained in ops/matmul/matmul.md. */
#include "device/cpu/gemm.h"

#include <cblas.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#ifdef __aarch64__
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

#include "core/device.h"
#include "core/op.h"
#include "core/scan.h"

/* A tile is large enough that packing its operands costs little, and small enough that a layer has several tiles per
 * core. If a product has fewer than TILES_MIN tiles, they are halved, down to a side of SIDE_MIN. Sides are multiples
 * of the inner kernels' register tiles. */
enum { TILE_M = 256, TILE_N = 1024, TILES_MIN = 8, SIDE_MIN = 64, SIDE_UNIT = 16 };

/* A product of one small tile can still be long: then k is split into parts, and their sums are added in order. */
enum { PIECES_MAX = 8, PIECE_MIN = 1024, PIECE_ELEMS = 4 * SIDE_MIN * SIDE_MIN };

/* Whether to use OpenBLAS. Measured (matmul.md): our kernels are faster on Arm; x86-64 is not measured and uses
 * OpenBLAS. MBA_GEMM=packed or openblas overrides. */
static bool wants_blas(void)
{
    const char *want = getenv("MBA_GEMM");
#ifdef __aarch64__
    return want && !strcmp(want, "openblas");
#else
    return !want || strcmp(want, "packed") != 0;
#endif
}

static void gemm_blas(const mba_gemm_args *g)
{
    mba_assert(g->m <= INT32_MAX && g->n <= INT32_MAX && g->k <= INT32_MAX);
    mba_assert(g->lda <= INT32_MAX && g->ldb <= INT32_MAX && g->ldc <= INT32_MAX);
    cblas_sgemm(CblasRowMajor, g->ta ? CblasTrans : CblasNoTrans, g->tb ? CblasTrans : CblasNoTrans, (int)g->m,
                (int)g->n, (int)g->k, g->alpha == 0 ? 1 : g->alpha, g->a, (int)g->lda, g->b, (int)g->ldb,
                g->adds ? 1 : 0, g->c, (int)g->ldc);
}

static mba_gemm_fn *chosen;

static void choose(void)
{
#ifdef __x86_64__
    mba_gemm_fn *const packed[] = { mba_gemm_packed_base, mba_gemm_packed_avx2, mba_gemm_packed_avx512 };
#else
    mba_gemm_fn *const packed[] = { mba_gemm_packed_base };
#endif
    chosen = wants_blas() ? gemm_blas : packed[mba_cpu_isa()];
    openblas_set_num_threads(1); // it must not start its own threads: matmul.md
}

void mba_gemm_serial(const mba_gemm_args *g)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, choose);
    chosen(g);
}

/* The most that OpenBLAS allocates per multiplying thread (its BUFFER_SIZE and a page), measured: 128 MiB on x86-64, 32
 * on Arm in 0.3.21. It is a build constant that no function returns, and too small a reserve would hang. */
enum { PAGE_BYTES_MAX = 1 << 16 };
#define BLAS_BUFFER_BYTES (((size_t)128 << 20) + PAGE_BYTES_MAX)

static bool has_room(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return false;
    munmap(p, bytes);
    return true;
}

/* The size of this process's address space; 0 if unknown. */
static size_t address_space(void)
{
    char        line[128] = "";
    const char *at = line;
    int64_t     pages = 0;
    FILE       *f = fopen("/proc/self/statm", "r");
    if (!f) return 0;
    if (!fgets(line, sizeof line, f) || !mba_scan_int(&at, &pages)) pages = 0;
    fclose(f);
    return (size_t)pages * (size_t)sysconf(_SC_PAGESIZE);
}

/* The buffer size of this OpenBLAS: the growth of the address space at its first product, or 0. The caller has made
 * sure that the largest fits. The size is a power of two and perhaps a page, so rounding removes what other threads map
 * meanwhile. The product is not small, because small ones may need no buffer. */
static size_t measured_buffer(void)
{
    enum { N = 128 };
    float        x[N * N] = { 0 }, y[N * N];
    const size_t before = address_space();
    mba_gemm_serial(&(mba_gemm_args){ .m = N, .n = N, .k = N, .a = x, .lda = N, .b = x, .ldb = N, .c = y, .ldc = N });
    const size_t after = address_space();
    if (!before || after < before + (1 << 20)) return 0;
    size_t power = 1 << 20;
    while (power + PAGE_BYTES_MAX < after - before) power *= 2;
    return power + PAGE_BYTES_MAX;
}

/* If there is no room for the largest buffer, there may be room for that of this OpenBLAS. */
static mba_status ask_for_buffers(void)
{
    const size_t threads = (size_t)mba_cpu_threads();
    size_t       each = BLAS_BUFFER_BYTES;
    if (has_room(threads * each)) return MBA_OK;
    const int    why = errno;
    const size_t measured = threads > 1 && has_room(each) ? measured_buffer() : 0;
    if (measured && has_room((threads - 1) * measured)) return MBA_OK; // the first thread has its buffer
    if (measured) each = measured;
    return mba_fail(MBA_E_NOMEM,
                    "no memory for the buffers of OpenBLAS: %s for each thread, threads: %zu\nwhy: %s\n"
                    "fix: raise the limit (ulimit -v), use fewer --threads, or set MBA_GEMM=packed, whose products "
                    "need no buffers and may differ in the last bits",
                    mba_size_of((double)each).text, threads, strerror(why));
}

mba_status mba_gemm_ready(void)
{
    static atomic_bool ready;
    if (atomic_load(&ready) || !wants_blas()) return MBA_OK;
    MBA_TRY(ask_for_buffers());
    atomic_store(&ready, true);
    return MBA_OK;
}

static int64_t side(int64_t length, int64_t pieces)
{
    return mba_ceil(mba_ceil(length, pieces), SIDE_UNIT) * SIDE_UNIT;
}

typedef struct tiling {
    int64_t m, n, rows, cols;
} tiling; // sides of a tile; numbers of tiles

static tiling tiling_of(int64_t m, int64_t n)
{
    int64_t rows = mba_ceil(m, TILE_M), cols = mba_ceil(n, TILE_N);
    while (rows * cols < TILES_MIN) {
        const int64_t tm = side(m, rows), tn = side(n, cols);
        if (tm < 2 * SIDE_MIN && tn < 2 * SIDE_MIN) break;
        if (tm > tn) rows *= 2;
        else cols *= 2;
    }
    const tiling t = { .m = side(m, rows), .n = side(n, cols) };
    return (tiling){ t.m, t.n, mba_ceil(m, t.m), mba_ceil(n, t.n) };
}

/* Computes rows i .. i + m - 1 and columns j .. j + n - 1 of C over terms from .. from + k - 1 of the sum. */
static mba_gemm_args part_of(const mba_gemm_args *g, int64_t i, int64_t m, int64_t j, int64_t n, int64_t from,
                             int64_t k)
{
    mba_gemm_args p = *g;
    p.m = i + m < g->m ? m : g->m - i;
    p.n = j + n < g->n ? n : g->n - j;
    p.k = from + k < g->k ? k : g->k - from;
    p.a += g->ta ? from * g->lda + i : i * g->lda + from;
    p.b += g->tb ? j * g->ldb + from : from * g->ldb + j;
    p.c += i * g->ldc + j;
    return p;
}

static void gemm_in_pieces(const mba_gemm_args *g, int64_t pieces)
{
    float         sum[PIECES_MAX][PIECE_ELEMS];
    const int64_t k = side(g->k, pieces);
    mba_assert(pieces <= PIECES_MAX && g->m * g->n <= PIECE_ELEMS);
    pieces = mba_ceil(g->k, k); // rounding up may leave the last part empty
    MBA_PARALLEL_TILES(p, pieces)
    {
        mba_gemm_args piece = part_of(g, 0, g->m, 0, g->n, p * k, k);
        piece.c = sum[p];
        piece.ldc = g->n;
        piece.adds = false;
        mba_gemm_serial(&piece);
    }
    for (int64_t i = 0; i < g->m; i++)
        for (int64_t j = 0; j < g->n; j++) {
            float s = g->adds ? g->c[i * g->ldc + j] : 0;
            for (int64_t p = 0; p < pieces; p++) s += sum[p][i * g->n + j];
            g->c[i * g->ldc + j] = s;
        }
}

static void clear(const mba_gemm_args *g)
{
    for (int64_t i = 0; i < g->m; i++) memset(g->c + i * g->ldc, 0, sizeof(float) * (size_t)g->n);
}

void mba_gemm(const mba_gemm_args *g)
{
    if (!g->k && !g->adds) clear(g);
    if (!g->m || !g->n || !g->k) return; // an empty batch
    const tiling  t = tiling_of(g->m, g->n);
    const int64_t pieces = g->k / PIECE_MIN < PIECES_MAX ? g->k / PIECE_MIN : PIECES_MAX;
    if (t.rows * t.cols == 1 && pieces > 1) {
        gemm_in_pieces(g, pieces);
    } else if (t.rows * t.cols == 1) {
        mba_gemm_serial(g);
    } else {
        MBA_PARALLEL_TILES(i, t.rows * t.cols)
        {
            const mba_gemm_args tile = part_of(g, i / t.cols * t.m, t.m, i % t.cols * t.n, t.n, 0, g->k);
            mba_gemm_serial(&tile);
        }
    }
}

/* The better core type for a Neoverse V1 whose SVE is hidden, as in virtual machines: the kernels of ThunderX2 reach 65
 * GFLOP/s per core there, those that OpenBLAS 0.3.21 selects 59 (1024 x 3352 x 768 and others). */
static bool choose_core(void)
{
#ifdef __aarch64__
    const char *name = openblas_get_corename();
    const bool  sve = getauxval(AT_HWCAP) & HWCAP_SVE;
    if (!wants_blas() || getenv("OPENBLAS_CORETYPE") || sve) return false;
    if (strcmp(name, "armv8") && strcmp(name, "neoversev1")) return false;
    return setenv("OPENBLAS_CORETYPE", "THUNDERX2T99", 1) == 0;
#else
    return false;
#endif
}

void mba_gemm_choose_kernels(char **argv)
{
    if (choose_core()) execv("/proc/self/exe", argv);
}

mba_kernels_words mba_cpu_kernels(void)
{
    mba_kernels_words k;
    const bool        blas = wants_blas();
    snprintf(k.text, sizeof k.text, "%.20s, %s%.40s", mba_cpu_isa_name(), blas ? "OpenBLAS " : "packed",
             blas ? openblas_get_corename() : "");
    return k;
}
