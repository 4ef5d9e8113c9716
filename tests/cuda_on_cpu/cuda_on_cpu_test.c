// SPDX-License-Identifier: Apache-2.0
/* cuda_on_cpu_test.c -- the CUDA kernels of sm_80 against the fp64 reference, on a machine without a GPU: block.h runs
 * them as fibers, in two orders of threads.
 *
 * MBA_TEST_OPS="ssd rmsnorm" looks at these alone, and says how long each case takes; MBA_TEST_CASE=3 at their case 3;
 * MBA_TEST_ALL=1 at cases of any size. */
#include "tests/test.h"

#include <math.h>
#include <string.h>
#include <time.h>

#include "core/check.h"
#include "ops/ssd/ssd.h"
#include "tests/cuda_on_cpu/block.h"
#include "tests/wanted.h"

/* A case with more values than this takes seconds. */
static const int64_t VALUES_MAX = 450000;

/* Between the errors of products in fp32 and in TF32, whose operands are rounded by up to 2^-11. */
static const double TF32_LEAST = 0x1p-14;

/* Of cases that differ in numbers and not in what threads do, one is enough here. */
static bool of_numbers(const mba_case *c) { return strstr(c->note, "near ") && !strstr(c->note, "near 1e-8"); }

/* The work of a library. */
static bool of_a_library(const mba_op *op) { return !strcmp(op->name, "conv2d"); }

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Values of all tensors of a case. */
static int64_t values_of(const mba_op *op, const mba_case *c)
{
    mba_case_graph o;
    int64_t        values = 0;
    assert_ok(mba_case_build(&o, op, c, (mba_case_how){ .compute = MBA_F32 }));
    for (int32_t k = 0; k < o.g->ntensors; k++)
        if (!o.g->tensors[k]->base) values += mba_elems(o.g->tensors[k]);
    mba_graph_destroy(o.g);
    return values;
}

/* A case in fp32, bf16 or TF32. */
typedef struct precision {
    const char *name;
    mba_dtype   compute;
    bool        tf32;
    double      relative; /* largest error so far */
} precision;

/* One case in one order; 1 if it is wrong. */
static int check_case(const mba_op *op, const mba_case *c, precision *in, emulated_order order)
{
    const mba_device *d;
    const double      began = seconds();
    const char *const type = in->name;
    mba_check         one = { .once = true, .tf32 = in->tf32 };
    assert_ok(mba_device_cuda(&d, 0));
    emulated_order_now = order;
    const mba_status st = mba_check_case_on(&one, op, c, d, in->compute);
    const bool       bad = st != MBA_OK || !(one.cpu_error <= 1) || one.strays;
    if (bad)
        printf("BAD %-20s %s \"%s\", %s: %.2f of its tolerance, %d strays %s\n", op->name, type, c->note,
               order == FORWARD ? "forward" : "reverse", one.cpu_error, one.strays, st == MBA_OK ? "" : mba_message());
    if (getenv("MBA_TEST_OPS"))
        printf("    %-20s %s \"%s\", order %d: %.2f of its tolerance (%.1e relative), %.2f s\n", op->name, type,
               c->note, order, one.cpu_error, one.cpu_relative, seconds() - began);
    fflush(stdout);
    if (one.cpu_relative > in->relative) in->relative = one.cpu_relative;
    return bad;
}

static void kernels_agree_with_fp64_in_both_orders(void **state)
{
    (void)state;
    int             wrong = 0, looked_at = 0, left_out = 0;
    const mba_case *c;
    for (int i = 0; mba_ops[i]; i++) {
        const mba_op *op = mba_ops[i];
        const double  began = seconds();
        precision     in[] = { { "fp32", MBA_F32, false, 0 }, { "bf16", MBA_BF16, false, 0 } },
                  tf32 = { "tf32", MBA_F32, true, 0 };
        int cases = 0;
        if (!wanted(op->name) || of_a_library(op)) continue;
        for (int k = 0; (c = case_of(op, k)); k++) {
            if (!wanted_case(k)) continue;
            if (!getenv("MBA_TEST_ALL") && (of_numbers(c) || values_of(op, c) > VALUES_MAX)) {
                if (getenv("MBA_TEST_OPS"))
                    printf("    left out: %s, %lld values\n", c->note, (long long)values_of(op, c));
                left_out++;
                continue;
            }
            for (int how = 0; how < 4; how++)
                if (!(op == &mba_op_ssd && (how >> 1 & 1) != cases % 2))
                    wrong += check_case(op, c, &in[how & 1], how & 2 ? REVERSE : FORWARD);
            if (op->tf32) wrong += check_case(op, c, &tf32, cases % 2 ? REVERSE : FORWARD);
            cases++;
        }
        if (cases) printf("    %-20s %2d cases in %.1f s\n", op->name, cases, seconds() - began);
        if (cases && op->tf32) printf("    errors in fp32 %.1e, in tf32 %.1e\n", in[0].relative, tf32.relative);
        wrong += cases && op->tf32 && !(in[0].relative < TF32_LEAST && tf32.relative > TF32_LEAST);
        fflush(stdout);
        looked_at += cases;
    }
    if (getenv("MBA_TEST_OPS")) emulated_list();
    printf("%d cases, %d wrong, %d left out\n", looked_at, wrong, left_out);
    assert_true(looked_at > 0);
    assert_int_equal(wrong, 0);
}

/* A NaN has all bits of its mantissa set on GPUs. Half a unit more, and it would be zero: a run that diverges would go
 * on with it. */
static void ssd_products_keep_nan(void **state)
{
    (void)state;
    enum { L = 70, H = 2, P = 16 };
    static const mba_case c = { { 1, L, H, P, 1, 16, 64, 0 }, "one NaN in x" };
    static float          x[L * H * P], y[L * H * P];
    const uint32_t        nan_bits = 0x7fffffffu;
    const mba_device     *d;
    assert_ok(mba_device_cuda(&d, 0));
    for (int i = 0; i < L * H * P; i++) x[i] = 1;
    memcpy(x, &nan_bits, sizeof nan_bits); // of the first token, head and column
    for (int tf32 = 0; tf32 < 2; tf32++) {
        mba_case_graph o;
        mba_program   *p;
        assert_ok(
            mba_case_build(&o, &mba_op_ssd, &c, (mba_case_how){ .compute = MBA_F32, .tf32 = tf32, .alone = true }));
        assert_ok(mba_program_create(&p, o.g, &(mba_program_options){ .cuda = true, .machine = d->machine }));
        assert_ok(mba_program_bind(p, d));
        assert_ok(mba_program_init(p, 1));
        assert_ok(mba_program_set(p, mba_graph_find(o.g, "x"), x));
        assert_ok(mba_program_run(p, MBA_FORWARD, &(mba_step){ .seed = 1 }, NULL));
        assert_ok(mba_program_get(p, o.out[0], y));
        for (int l = 0; l < L; l++)
            for (int i = 0; i < H * P; i++) assert_int_equal(isnan(y[l * H * P + i]) != 0, i == 0);
        mba_program_destroy(p);
        mba_graph_destroy(o.g);
    }
}

MBA_TEST_MAIN(cmocka_unit_test(kernels_agree_with_fp64_in_both_orders), cmocka_unit_test(ssd_products_keep_nan))
