// SPDX-License-Identifier: Apache-2.0
/* gemm_test.c -- the tiled product against a loop in double: all transpositions, adding, scaling, odd sizes, long sums
 * of small results; nothing is written outside C; the same bits at any number of threads. */
#include "tests/test.h"

#include "core/device.h"
#include "core/rng.h"
#include "device/cpu/gemm.h"

static float *numbers(int64_t n, uint64_t key)
{
    float *x = malloc(sizeof(float) * (size_t)n);
    assert_non_null(x);
    for (int64_t i = 0; i < n; i++) {
        uint32_t u[4];
        mba_philox(u, key, 0, (uint64_t)i);
        x[i] = (float)(2 * mba_unit(u[0]) - 1);
    }
    return x;
}

/* Matrices whose pitch exceeds their rows; the gaps between rows of C must stay unchanged. */
typedef struct product {
    mba_gemm_args g;
    float        *a, *b, *c;
    int64_t       a_elems, b_elems, c_elems;
} product;

static product make(int64_t m, int64_t n, int64_t k, int how)
{
    product p = { .g = { .m = m,
                         .n = n,
                         .k = k,
                         .ta = how & 1,
                         .tb = how >> 1 & 1,
                         .adds = how >> 2 & 1,
                         .alpha = how >> 3 & 1 ? -0.75f : 0 } };
    p.g.lda = (p.g.ta ? m : k) + 3;
    p.g.ldb = (p.g.tb ? k : n) + 1;
    p.g.ldc = n + 5;
    p.a_elems = (p.g.ta ? k : m) * p.g.lda;
    p.b_elems = (p.g.tb ? n : k) * p.g.ldb;
    p.c_elems = m * p.g.ldc;
    p.g.a = p.a = numbers(p.a_elems, 1);
    p.g.b = p.b = numbers(p.b_elems, 2);
    p.g.c = p.c = numbers(p.c_elems, 3);
    return p;
}

static void destroy(product p)
{
    free(p.a);
    free(p.b);
    free(p.c);
}

/* Tolerance: 4 sqrt(K) roundings of a sum of K terms, of the size such a sum has, and those of the result. */
static void check_element(const product *p, const float *before, int64_t i, int64_t j)
{
    const mba_gemm_args *g = &p->g;
    const double         alpha = g->alpha == 0 ? 1 : (double)g->alpha;
    double               sum = 0, squares = 0;
    for (int64_t k = 0; k < g->k; k++) {
        const double ab = (double)g->a[g->ta ? k * g->lda + i : i * g->lda + k]
                          * (double)g->b[g->tb ? j * g->ldb + k : k * g->ldb + j];
        sum += ab;
        squares += ab * ab;
    }
    const double old = g->adds ? before[i * g->ldc + j] : 0;
    const double size = fmax(fabs(sum), sqrt(squares)) + fabs(old);
    assert_near(p->c[i * g->ldc + j], alpha * sum + old, (8 + 4 * sqrt((double)g->k)) * size / 16777216);
}

/* Checks every element of small results, and of large ones a grid that covers all tiles and their edges. */
static void check(int64_t m, int64_t n, int64_t k, int how)
{
    product p = make(m, n, k, how);
    float  *before = malloc(sizeof(float) * (size_t)p.c_elems);
    assert_non_null(before);
    memcpy(before, p.c, sizeof(float) * (size_t)p.c_elems);
    mba_gemm(&p.g);
    const bool    large = m * n * k > 2000000;
    const int64_t si = large ? 7 : 1, sj = large ? 11 : 1;
    for (int64_t i = 0; i < m; i += si)
        for (int64_t j = 0; j < n; j += sj) check_element(&p, before, i, j);
    check_element(&p, before, m - 1, n - 1);
    for (int64_t i = 0; i < m; i++)
        assert_memory_equal(p.c + i * p.g.ldc + n, before + i * p.g.ldc + n, 5 * sizeof(float));
    free(before);
    destroy(p);
}

static void gemm_agrees_with_a_loop_in_double(void **state)
{
    (void)state;
    static const int64_t size[][3] = {
        { 1, 1, 1 },    { 1, 37, 5 },   { 41, 1, 5 },     { 1, 1, 5000 }, { 3, 5, 1 },     { 17, 33, 65 },
        { 1, 3001, 7 }, { 2047, 1, 3 }, { 127, 127, 40 }, { 129, 63, 9 }, { 80, 401, 33 },
    };
    for (size_t s = 0; s < sizeof size / sizeof *size; s++)
        for (int how = 0; how < 16; how++) check(size[s][0], size[s][1], size[s][2], how);
}

static void gemm_of_many_tiles_agrees_with_a_loop_in_double(void **state)
{
    (void)state;
    for (int how = 0; how < 16; how++) {
        check(515, 1093, 19, how); // several tiles both ways, the last ones smaller
        check(300, 130, 23, how);  // few tiles: they are halved
    }
}

/* A small C with a long k: parts of k, the last one shorter or empty. */
static void gemm_of_long_sums_agrees_with_a_loop_in_double(void **state)
{
    (void)state;
    for (int how = 0; how < 16; how++) {
        check(20, 31, 2048, how);
        check(5, 9, 8191, how);
        check(3, 2, 8200, how);
        check(127, 127, 3001, how);
    }
}

static void gemm_gives_the_same_bits_at_any_thread_count(void **state)
{
    (void)state;
    static const int64_t size[][3] = { { 515, 1093, 201 }, { 1024, 80, 300 }, { 80, 1536, 100 }, { 64, 64, 9001 } };
    for (size_t s = 0; s < sizeof size / sizeof *size; s++)
        for (int how = 0; how < 8; how++) {
            product one = make(size[s][0], size[s][1], size[s][2], how);
            mba_cpu_set_threads(1);
            mba_gemm(&one.g);
            for (int threads = 2; threads <= 3; threads++) {
                product p = make(size[s][0], size[s][1], size[s][2], how);
                mba_cpu_set_threads(threads);
                mba_gemm(&p.g);
                assert_memory_equal(p.c, one.c, sizeof(float) * (size_t)p.c_elems);
                destroy(p);
            }
            mba_cpu_set_threads(0);
            destroy(one);
        }
}

MBA_TEST_MAIN(cmocka_unit_test(gemm_agrees_with_a_loop_in_double),
              cmocka_unit_test(gemm_of_many_tiles_agrees_with_a_loop_in_double),
              cmocka_unit_test(gemm_of_long_sums_agrees_with_a_loop_in_double),
              cmocka_unit_test(gemm_gives_the_same_bits_at_any_thread_count))
