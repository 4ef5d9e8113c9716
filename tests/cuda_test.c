// SPDX-License-Identifier: Apache-2.0
/* cuda_test.c -- every operator on the GPU against fp64, with fp32 (and TF32) and with bf16 activations; and, without a
 * GPU, that every operator has a plan for the machines we compile for.
 *
 * MBA_TEST_OPS="ssd rmsnorm" looks at these alone, and says how long each case takes; MBA_TEST_CASE=3 at their case 3
 * alone, and is skipped where none has so many: a sanitizer takes minutes for some, and a process for each goes beside
 * the others. With MBA_TEST_ONCE nothing runs a second time to see whether its bits repeat. */
#include "tests/test.h"

#include <time.h>

#include "core/check.h"
#include "tests/machines.h"
#include "tests/wanted.h"

/* Every operator of the graph of a case has a kernel in this build. */
static bool complete(const mba_op *op, const mba_case *c, mba_dtype compute, const mba_device *d, const char **lacks)
{
    mba_case_graph o;
    mba_program   *p = NULL;
    *lacks = "a plan";
    if (mba_case_build(&o, op, c, (mba_case_how){ .compute = compute }) != MBA_OK) return false;
    bool ok = mba_program_create(&p, o.g, &(mba_program_options){ .cuda = true, .machine = d->machine }) == MBA_OK;
    for (int32_t i = 0; ok && i < o.g->nnodes; i++)
        if (!p->launch[i]) {
            *lacks = o.g->nodes[i]->op->name;
            ok = false;
        }
    if (p) mba_program_destroy(p);
    mba_graph_destroy(o.g);
    return ok;
}

static bool any_case(const mba_op *op)
{
    int k = 0;
    while (case_of(op, k) && !wanted_case(k)) k++;
    return case_of(op, k);
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int check(const mba_op *op, const mba_device *d, mba_dtype compute, bool tf32, int *absent)
{
    mba_check       w = { 0 };
    const char     *lacks, *type = compute == MBA_BF16 ? "bf16" : tf32 ? "tf32" : "fp32";
    int             bad = 0;
    const mba_case *c;
    for (int k = 0; (c = case_of(op, k)); k++) {
        mba_check    one = { .once = getenv("MBA_TEST_ONCE"), .tf32 = tf32 };
        const double began = seconds();
        if (!wanted_case(k)) continue;
        if (!complete(op, c, compute, d, &lacks)) {
            printf("ABSENT %-24s %s \"%s\": %s\n%s\n", op->name, type, c->note, lacks,
                   strcmp(lacks, "a plan") ? "" : mba_message());
            ++*absent;
            continue;
        }
        const mba_status st = mba_check_case_on(&one, op, c, d, compute);
        if (st != MBA_OK || !(one.cpu_error <= 1) || one.strays || one.changed) {
            printf("BAD    %-24s %s \"%s\": %.2f of its tolerance (%.1e relative), %d strays, %d changed %s\n",
                   op->name, type, c->note, one.cpu_error, one.cpu_relative, one.strays, one.changed,
                   st == MBA_OK ? "" : mba_message());
            bad++;
        }
        if (st == MBA_E_DEVICE) exit(1); // a broken context would blame everyone
        if (getenv("MBA_TEST_OPS"))
            printf("       %s %s, case %d, \"%s\": %.1f s\n", op->name, type, k, c->note, seconds() - began);
        fflush(stdout);
        if (!(one.cpu_error <= w.cpu_error)) w = one;
    }
    printf("%s %-24s %s off by %.2f of its tolerance, %.1e relative\n", bad ? "BAD   " : "      ", op->name, type,
           w.cpu_error, w.cpu_relative);
    return bad;
}

static void every_operator_agrees_with_fp64_on_the_gpu(void **state)
{
    (void)state;
    const mba_device *d;
    int               wrong = 0, absent = 0, looked_at = 0;
    if (mba_device_cuda(&d, 0) != MBA_OK) skip();
    for (int i = 0; mba_ops[i]; i++) {
        if (!mba_ops[i]->cases || !wanted(mba_ops[i]->name) || !any_case(mba_ops[i])) continue;
        wrong += check(mba_ops[i], d, MBA_F32, false, &absent);
        wrong += check(mba_ops[i], d, MBA_BF16, false, &absent);
        if (mba_ops[i]->tf32) wrong += check(mba_ops[i], d, MBA_F32, true, &absent);
        looked_at++;
    }
    if (!looked_at && getenv("MBA_TEST_CASE")) skip();
    assert_true(looked_at > 0); // a name without cases is no proof
    printf("%d cases wrong, %d without a kernel\n", wrong, absent);
    assert_int_equal(wrong, 0);
    assert_int_equal(absent, 0);
}

static void every_operator_has_a_plan_for_every_architecture(void **state)
{
    (void)state;
    int             without = 0;
    const mba_case *c;
    for (size_t m = 0; m < sizeof machines / sizeof *machines; m++)
        for (int i = 0; mba_ops[i]; i++)
            for (int k = 0; (c = case_of(mba_ops[i], k)); k++)
                for (int half = 0; half < 2; half++) {
                    mba_case_graph o;
                    mba_program   *p = NULL;
                    assert_ok(
                        mba_case_build(&o, mba_ops[i], c, (mba_case_how){ .compute = half ? MBA_BF16 : MBA_F32 }));
                    if (mba_program_create(&p, o.g, &(mba_program_options){ .cuda = true, .machine = &machines[m] })
                        == MBA_OK)
                        mba_program_destroy(p);
                    else if (without++ < 20) printf("%s: %s\n", machines[m].name, mba_message());
                    mba_graph_destroy(o.g);
                }
    printf("%d cases have no plan\n", without);
    assert_int_equal(without, 0);
}

MBA_TEST_MAIN(cmocka_unit_test(every_operator_has_a_plan_for_every_architecture),
              cmocka_unit_test(every_operator_agrees_with_fp64_on_the_gpu))
