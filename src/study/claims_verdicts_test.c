// SPDX-License-Identifier: Apache-2.0
/* claims_verdicts_test.c -- every claim that one store answers can be reproduced and can be refuted: made-up stores on
 * both sides of each threshold. claims_test.c has the claims that compare stores. */
#include "study/claims.h"
#include "tests/made_kernels.h"

static mba_claim judged(int claim, const made_kernel *k)
{
    mba_claim c[MBA_CLAIMS];
    made_run  run = { .file = "made.db" };
    memcpy(run.k, k, sizeof run.k);
    const made_store m = made_open(&run);
    mba_claims_judge(m.a, c);
    made_close(m);
    return c[claim - 1];
}

#define SSD  MADE_SSD
#define GEMM MADE_GEMM
#define HEAD(...) \
    { \
        .name = "nvjet_head", .op = "linear_cross_entropy_bwd", .kind = "embedding/loss", __VA_ARGS__ \
    }
#define LOSS(...) \
    { \
        .name = "cross_entropy_rows", .op = "cross_entropy", .kind = "embedding/loss", __VA_ARGS__ \
    }
#define CONV(...) \
    { \
        .name = "xmma_fprop_implicit_gemm", .op = "conv2d", .kind = "conv", __VA_ARGS__ \
    }

static void f1_counts_every_matrix_product(void **state)
{
    (void)state;
    const struct {
        made_kernel m[MADE_MAX];
        double      gemm;
        mba_verdict here;
    } table[] = {
        { { GEMM(.s = 6), SSD(.s = 4) }, 60, MBA_REPRODUCED },
        { { GEMM(.s = 4), SSD(.s = 6) }, 40, MBA_REFUTED },
        { { GEMM(.s = 4), SSD(.s = 5), HEAD(.s = 2) }, 600 / 11.0, MBA_REPRODUCED }, // the head turns it
        { { GEMM(.s = 4), SSD(.s = 5), LOSS(.s = 2) }, 400 / 11.0, MBA_REFUTED },
        { { GEMM(.s = 4), SSD(.s = 5), CONV(.s = 2, .tensor = 1) }, 400 / 11.0, MBA_DEPENDS }, // 6 with convolutions
        { { GEMM(.s = 4), SSD(.s = 5), CONV(.s = 2) }, 400 / 11.0, MBA_REFUTED },
        { { GEMM(.s = 8), SSD(.s = 2) }, 80, MBA_DEPENDS }, // the largest, but not "up to 60 %"
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        const mba_claim c = judged(1, table[i].m);
        assert_near(c.number[0], table[i].gemm, 1e-9);
        assert_int_equal(c.here, table[i].here);
        assert_int_equal(c.verdict, MBA_NUMBER); // one model decides nothing about "up to"
    }
    assert_non_null(strstr(judged(1, table[2].m).sensitivity, "refuted with the head counted as loss"));
}

static void f2_is_two_sided(void **state)
{
    (void)state;
    const double      ssm[] = { 25.1, 25, 20, 15, 14.9 };
    const mba_verdict here[] = { MBA_REFUTED, MBA_REPRODUCED, MBA_REPRODUCED, MBA_REPRODUCED, MBA_DEPENDS };
    for (int i = 0; i < 5; i++) {
        const mba_claim c = judged(2, (made_kernel[MADE_MAX]){ GEMM(.s = 100 - ssm[i]), SSD(.s = ssm[i]) });
        assert_near(c.number[0], ssm[i], 1e-6);
        assert_int_equal(c.here, here[i]);
        assert_int_equal(c.verdict, MBA_NUMBER);
    }
}

/* Memory is the floor of 100 bytes (0.1 s), not of 100 bytes with 3200 tensor FLOPs (0.2 s). */
static void f3_needs_busy_dram_and_the_highest_floor(void **state)
{
    (void)state;
    const struct {
        double      dram, tensor;
        mba_verdict here;
    } table[] = {
        { 60, 0, MBA_REPRODUCED }, { 59, 0, MBA_DEPENDS }, { 60, 3200, MBA_DEPENDS }, { 59, 3200, MBA_REFUTED }
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        const made_kernel m[MADE_MAX] = { SSD(.s = 1, .bytes = 100, .dram = table[i].dram, .tensor = table[i].tensor) };
        const mba_claim   c = judged(3, m);
        assert_int_equal(c.here, table[i].here);
        assert_int_equal(c.verdict, MBA_NUMBER);
    }
    // Few vector FLOPs per byte alone, as every model has, decide nothing.
    const made_kernel m[MADE_MAX] = { GEMM(.s = 1, .bytes = 100, .dram = 10, .tensor = 16000, .ffma = 1) };
    const mba_claim   c = judged(3, m);
    assert_int_equal(c.here, MBA_REFUTED);
    assert_string_equal(c.cell, "0 / 0");
}

static void f4_is_little_bandwidth_though_memory_bound(void **state)
{
    (void)state;
    const struct {
        double      bytes, tensor;
        mba_verdict verdict;
    } table[] = {
        { 600, 0, MBA_REPRODUCED },  // 48 % of the data sheet, 60 % of a copy
        { 649, 0, MBA_REPRODUCED },  //
        { 651, 0, MBA_DEPENDS },     // above 65 % of a copy, below 65 % of the data sheet
        { 900, 0, MBA_REFUTED },     // 72 and 90 %
        { 300, 0, MBA_REFUTED },     // 24 and 30 %: not a matter of bandwidth
        { 400, 0, MBA_DEPENDS },     // 32 and 40 %
        { 600, 16000, MBA_REFUTED }, // tensor units are its floor
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        const made_kernel m[MADE_MAX] = { SSD(.s = 1, .bytes = table[i].bytes, .tensor = table[i].tensor) };
        assert_int_equal(judged(4, m).verdict, table[i].verdict);
    }
    // The mean over launches and the mean by time differ: 600 and 800 byte/s.
    const mba_claim c = judged(4, (made_kernel[MADE_MAX]){ SSD(.s = 3, .bytes = 2700), SSD(.s = 1, .bytes = 300) });
    assert_near(c.number[0], 48, 1e-9);
    assert_near(c.number[1], 60, 1e-9);
    assert_int_equal(c.verdict, MBA_DEPENDS);
}

#define TENSOR SSD(.s = 1, .tensor = 100, .tensor_pct = 40, .fma = 1)
#define MIXED  SSD(.s = 1, .tensor = 100, .ffma = 10, .tensor_pct = 10, .fma = 40)
#define VECTOR SSD(.s = 1, .ffma = 10, .fma = 40)

static void f6_counts_classes(void **state)
{
    (void)state;
    assert_int_equal(judged(6, (made_kernel[MADE_MAX]){ TENSOR, MIXED, VECTOR }).verdict, MBA_REPRODUCED);
    assert_int_equal(judged(6, (made_kernel[MADE_MAX]){ MIXED, VECTOR, VECTOR }).verdict, MBA_DEPENDS);
    assert_int_equal(judged(6, (made_kernel[MADE_MAX]){ VECTOR, VECTOR }).verdict, MBA_REFUTED);
    assert_string_equal(judged(6, (made_kernel[MADE_MAX]){ TENSOR, MIXED, VECTOR }).cell, "1·1·1");
}

/* The hardware has 16 tensor FLOPs per vector FLOP. */
static void f7_is_judged_at_the_ratio_of_the_hardware(void **state)
{
    (void)state;
    const made_kernel vector[MADE_MAX] = { SSD(.s = 1, .tensor = 100, .ffma = 10, .tensor_pct = 10, .fma = 40) };
    const made_kernel neither[MADE_MAX] = { SSD(.s = 1, .tensor = 1e6, .ffma = 1, .tensor_pct = 40, .fma = 30) };
    const made_kernel slots[MADE_MAX] = { SSD(.s = 1, .tensor = 1000, .ffma = 31, .tensor_pct = 40, .fma = 30) };
    assert_int_equal(judged(7, vector).verdict, MBA_REPRODUCED);
    assert_int_equal(judged(7, neither).verdict, MBA_REFUTED);
    const mba_claim c = judged(7, slots);
    assert_int_equal(c.verdict, MBA_DEPENDS);
    assert_near(c.number[0], 0, 0); // 16.1 : 1
    assert_near(c.number[1], 100, 0);
    made_kernel turned = slots[0];
    turned.ffma = 32; // 15.6 : 1
    assert_near(judged(7, (made_kernel[MADE_MAX]){ turned }).number[0], 100, 0);
    made_kernel scan = vector[0];
    scan.op = "selective_scan", scan.name = "scan_fwd";
    assert_int_equal(judged(7, (made_kernel[MADE_MAX]){ scan }).verdict, MBA_NOT_APPLICABLE);
}

static void f8_is_the_hit_rate_of_vector_kernels(void **state)
{
    (void)state;
    const double      hit[] = { 4.9, 5, 19.9, 20 };
    const mba_verdict verdict[] = { MBA_REPRODUCED, MBA_DEPENDS, MBA_DEPENDS, MBA_REFUTED };
    for (int i = 0; i < 4; i++) {
        const made_kernel m[MADE_MAX] = { SSD(.s = 1, .ffma = 1, .fma = 1, .l1_hit = hit[i]), MIXED };
        assert_int_equal(judged(8, m).verdict, verdict[i]);
    }
}

/* A unit that is the busiest with 59 % limits nothing. L1 and shared memory are not global memory. */
static void f11_is_dram_that_is_busy(void **state)
{
    (void)state;
    const struct {
        made_kernel m[MADE_MAX];
        mba_verdict verdict;
        const char *says;
    } table[] = {
        { { SSD(.s = 1, .dram = 60, .l1 = 50) }, MBA_REPRODUCED, "DRAM 100 %" },
        { { SSD(.s = 1, .dram = 59, .l1 = 50) }, MBA_REFUTED, "DRAM 0 %, latency 100 %" },
        { { SSD(.s = 1, .dram = 60, .l1 = 61) }, MBA_REFUTED, "L1/shared 100 %" },
        { { SSD(.s = 1, .dram = 60, .issue = 61) }, MBA_REFUTED, "issue slots 100 %" },
        { { SSD(.s = 1, .dram = 60, .xu = 61) }, MBA_REFUTED, "special functions 100 %" },
        { { SSD(.s = 4, .dram = 60), SSD(.s = 6, .dram = 10) }, MBA_DEPENDS, "DRAM 40 %, latency 60 %" },
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        const mba_claim c = judged(11, table[i].m);
        assert_int_equal(c.verdict, table[i].verdict);
        assert_non_null(strstr(c.measured, table[i].says));
    }
    // Registers limit occupancy, and latency limits the kernel: the rule decides, and the claim says so.
    const mba_claim c = judged(11, (made_kernel[MADE_MAX]){ SSD(.s = 1, .dram = 59, .limiter = "registers") });
    assert_int_equal(c.verdict, MBA_REFUTED);
    assert_non_null(strstr(c.sensitivity, "reproduced with latency where registers alone limit occupancy"));
}

static void every_claim_says_its_rule(void **state)
{
    mba_claim        c[MBA_CLAIMS];
    const made_run   run = { .k = { GEMM(.s = 1), TENSOR, MIXED, VECTOR } };
    const made_store m = made_open(&run);
    (void)state;
    mba_claims_judge(m.a, c);
    for (int i = 0; i < MBA_CLAIMS; i++) {
        assert_true(*c[i].claim && *c[i].target && *c[i].rule && *c[i].refuted_by && *c[i].unit && *c[i].cell);
        assert_true(c[i].here != MBA_NUMBER);
        assert_true(strlen(c[i].measured) + 1 < sizeof c[i].measured);
    }
    made_close(m);
}

static int prepare(void **state)
{
    (void)state;
    scratch_make();
    return 0;
}
static int clean(void **state)
{
    (void)state;
    scratch_remove();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(f1_counts_every_matrix_product),
        cmocka_unit_test(f2_is_two_sided),
        cmocka_unit_test(f3_needs_busy_dram_and_the_highest_floor),
        cmocka_unit_test(f4_is_little_bandwidth_though_memory_bound),
        cmocka_unit_test(f6_counts_classes),
        cmocka_unit_test(f7_is_judged_at_the_ratio_of_the_hardware),
        cmocka_unit_test(f8_is_the_hit_rate_of_vector_kernels),
        cmocka_unit_test(f11_is_dram_that_is_busy),
        cmocka_unit_test(every_claim_says_its_rule),
    };
    return cmocka_run_group_tests(tests, prepare, clean);
}
