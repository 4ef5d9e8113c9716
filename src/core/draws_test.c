/* draws_test.c -- random numbers in blocks are those that the library makes one by one, bit for bit. */
#include "core/draws.h"

#include <string.h>

#include "tests/test.h"

enum { N = 1 << 20 };
static float x[N];

typedef void   many_fn(float *x, int64_t from, int64_t n, double a, uint64_t key);
typedef double one_fn(double a, uint64_t key, int64_t i);

/* Far from the beginning too, in blocks that are not whole, at scales of weights and at 1. */
static void compare(many_fn *many, one_fn *one)
{
    static const struct { int64_t from, n; double a; uint64_t key; } of[] = {
        { 0, N, 0.02, 77 }, { 123456789012, N / 4 + 3, 1, 0x123456789abcdefu }, { 5, 1, 1e-3, 3 },
        { 255, 258, 0.1, 9 } };
    for (size_t c = 0; c < sizeof of / sizeof *of; c++) {
        many(x, of[c].from, of[c].n, of[c].a, of[c].key);
        for (int64_t i = 0; i < of[c].n; i++) {
            const float want = (float)one(of[c].a, of[c].key, of[c].from + i);
            if (memcmp(&x[i], &want, sizeof want))
                fail_msg("case %zu, number %lld: %.9g instead of %.9g", c, (long long)i, (double)x[i], (double)want);
        }
    }
}

static void normals_are_the_librarys(void **state)
{
    (void)state;
    compare(mba_normals, mba_normal);
}

static void uniforms_are_those_made_one_by_one(void **state)
{
    (void)state;
    compare(mba_uniforms, mba_uniform);
}

static void zero_has_no_scale(void **state)
{
    (void)state;
    mba_normals(x, 0, 300, 0, 1);
    for (int i = 0; i < 300; i++) assert_true(x[i] == 0);
}

MBA_TEST_MAIN(cmocka_unit_test(normals_are_the_librarys), cmocka_unit_test(uniforms_are_those_made_one_by_one),
              cmocka_unit_test(zero_has_no_scale))
