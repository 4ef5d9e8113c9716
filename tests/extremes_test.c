// SPDX-License-Identifier: Apache-2.0
/* extremes_test.c -- both SSM operators with steps of 1e-8 to 20 and decays from none to total (ops/extremes.h): every
 * variant against fp64, every result and gradient by its own norm, on the CPU and, where there is one, on the GPU.
 *
 * MBA_TEST_TABLE=FILE appends a line for each run: operator, case, precision, variants, worst tensor, error. */
#include "tests/test.h"

#include "core/check.h"
#include "core/device.h"
#include "ops/selective_scan/selective_scan.h"
#include "ops/ssd/ssd.h"

/* Norm of the difference over the norm. bf16: results and operands of tensor cores are rounded to 2^-9, and sums of
 * them cancel. */
static const double BOUND_FP32 = 1e-4, BOUND_BF16 = 2e-2;

typedef struct tally {
    const mba_case *c;
    const mba_op   *op;
    mba_dtype       type;
    const char     *device;
    int             runs, bad;
} tally;

static void tell(void *ctx, const mba_program *p, const mba_check *one)
{
    tally      *t = ctx;
    char        variants[96] = "";
    const bool  bad = !(one->norm_error <= (t->type == MBA_BF16 ? BOUND_BF16 : BOUND_FP32));
    const char *path = getenv("MBA_TEST_TABLE");
    for (int32_t i = 0; i < p->graph->nnodes; i++) {
        const mba_node *n = p->graph->nodes[i];
        if (n->op != t->op && !(n->serves_node && n->serves_node->op == t->op)) continue;
        snprintf(variants + strlen(variants), sizeof variants - strlen(variants), "%s%s", *variants ? "," : "",
                 p->plan[i]->variant);
    }
    t->runs++;
    t->bad += bad;
    FILE *f = path ? fopen(path, "a") : NULL;
    for (int k = 0; k < 2; k++) {
        FILE *to = k ? f : bad ? stdout : NULL;
        if (to)
            fprintf(to, "%s\t%s\t%s\t%s\t%s\t%s\t%.2e%s\n", t->op->name, t->c->note, t->device,
                    t->type == MBA_BF16 ? "bf16" : "fp32", variants, one->norm_tensor, one->norm_error,
                    bad ? "\tBAD" : "");
    }
    if (f) fclose(f);
}

static int check_cases(const mba_op *op, const mba_case *cases, const mba_device *d, mba_dtype type, int *runs)
{
    int bad = 0;
    for (const mba_case *c = cases; c && c->note; c++) {
        tally     t = { .c = c, .op = op, .type = type, .device = d->machine->cc > 0 ? "GPU" : "CPU" };
        mba_check w = { .once = true, .told = tell, .ctx = &t };
        if (!c->dim[MBA_CASE_EXTREME]) continue;
        assert_ok(mba_check_case_on(&w, op, c, d, type));
        *runs += t.runs;
        bad += t.bad;
    }
    return bad;
}

static void no_gradient_is_lost_on_the_cpu(void **state)
{
    (void)state;
    int runs = 0, bad = check_cases(&mba_op_ssd, mba_op_ssd.cases, &mba_device_cpu, MBA_F32, &runs);
    bad += check_cases(&mba_op_ssd, mba_op_ssd.device_cases, &mba_device_cpu, MBA_F32, &runs);
    bad += check_cases(&mba_op_selective_scan, mba_op_selective_scan.cases, &mba_device_cpu, MBA_F32, &runs);
    bad += check_cases(&mba_op_selective_scan, mba_op_selective_scan.device_cases, &mba_device_cpu, MBA_F32, &runs);
    assert_true(runs >= 32);
    assert_int_equal(bad, 0);
}

static void no_gradient_is_lost_on_the_gpu(void **state)
{
    (void)state;
    static const mba_dtype types[] = { MBA_F32, MBA_BF16 };
    const mba_device      *d;
    int                    runs = 0, bad = 0;
    if (mba_device_cuda(&d, 0) != MBA_OK) skip();
    for (int k = 0; k < 2; k++) {
        bad += check_cases(&mba_op_ssd, mba_op_ssd.cases, d, types[k], &runs);
        bad += check_cases(&mba_op_ssd, mba_op_ssd.device_cases, d, types[k], &runs);
        bad += check_cases(&mba_op_selective_scan, mba_op_selective_scan.cases, d, types[k], &runs);
        bad += check_cases(&mba_op_selective_scan, mba_op_selective_scan.device_cases, d, types[k], &runs);
    }
    printf("%d runs, %d beyond their bound\n", runs, bad);
    assert_true(runs >= 48);
    assert_int_equal(bad, 0);
}

MBA_TEST_MAIN(cmocka_unit_test(no_gradient_is_lost_on_the_cpu), cmocka_unit_test(no_gradient_is_lost_on_the_gpu))
