// SPDX-License-Identifier: Apache-2.0
/* selective_scan_plans_test.c -- launch plans of the CUDA variants of selective_scan: every shape has one, and bytes
 * written. No GPU is needed. */
#include "tests/test.h"

#include "core/check.h"
#include "core/plan_work.h"
#include "ops/selective_scan/selective_scan.h"
#include "ops/selective_scan/selective_scan_slots.h"
#include "tests/machines.h"

/* ---- plans: every number of states and channels has one, with an exponential for every element ---- */

/* The plan that a run would take, of the first variant that accepts the node. */
static bool plan_of(mba_plan *p, mba_graph *g, const mba_node *n)
{
    for (const mba_variant *v = n->op->cuda; v->name; v++)
        if (mba_plan_variant(p, NULL, g->arena, n, v, &machines[1]) == MBA_OK) return true;
    return false;
}

static double exponentials(const mba_plan *p)
{
    double sum = 0;
    for (int l = 0; l < p->nlaunches; l++) sum += mba_launch_work(&p->launch[l], MBA_SFU);
    return sum;
}

static void every_shape_has_a_fast_plan(void **state)
{
    (void)state;
    static const int64_t states[] = { 1, 2, 3, 8, 16, 24, 32, 64, 100, 128, 256 }, channels[] = { 1, 7, 34, 68, 1536 };
    for (size_t i = 0; i < sizeof states / sizeof *states; i++)
        for (size_t k = 0; k < sizeof channels / sizeof *channels; k++)
            for (int half = 0; half < 2; half++) {
                const int64_t  N = states[i], D = channels[k];
                const mba_case c = { { 3, 77, D, N, 1 }, "a shape" };
                const double   elements = 3.0 * 77 * (double)(D * N);
                mba_case_graph o;
                assert_ok(mba_case_build(&o, &mba_op_selective_scan, &c,
                                         (mba_case_how){ .compute = half ? MBA_BF16 : MBA_F32 }));
                for (int32_t j = 0; j < o.g->nnodes; j++) {
                    const mba_node *n = o.g->nodes[j];
                    mba_plan        p;
                    if (n->op != &mba_op_selective_scan && n->op != &mba_op_selective_scan_bwd) continue;
                    if (!plan_of(&p, o.g, n))
                        fail_msg("no plan for %lld states, %lld channels", (long long)N, (long long)D);
                    const char *fast = half && (N == 8 || N == 16) && D % 4 == 0 ? "specialized" : "tiles";
                    assert_string_equal(p.variant, N <= CHUNKED_STATES ? "chunked" : fast);
                    assert_true(exponentials(&p) >= elements);
                }
                mba_graph_destroy(o.g);
            }
}

/* ---- plans: bytes that kernels write, at sizes that whole blocks and tiles cover ---- */

static mba_work_sums sums_of_plan(const mba_plan *p)
{
    mba_work_sums all = { 0 };
    for (int l = 0; l < p->nlaunches; l++) {
        mba_work_sums one;
        mba_launch_sums(&one, &p->launch[l]);
        for (int k = 0; k < MBA_WORK_OPERANDS; k++)
            for (int out = 0; out < 2; out++) all.operand[k][out] += one.operand[k][out];
    }
    return all;
}

/* Gradients of parameters and final states are a small share, and not planned one by one. */
static void check_stores(const mba_node *n, const mba_plan *p, int *seen)
{
    static const int fwd[] = { OUT, KEPT, YS }, bwd[] = { DU, DDELTA, DB, DC, DZ },
                     scratch[] = { CU_KEPT, CU_BC, CU_SUMS };
    const bool          back = n->op == &mba_op_selective_scan_bwd;
    const mba_work_sums s = sums_of_plan(p);
    for (int i = 0; i < (back ? 5 : 3); i++) {
        const int         k = back ? bwd[i] : fwd[i];
        const mba_tensor *t = n->out[k];
        const double      bytes = t ? (double)(mba_elems(t) * (int64_t)mba_dtype_bytes(t->type.dtype)) : 0;
        if (fabs(s.operand[MBA_ARG_OUT(k)][1] - bytes) > 1e-9 * bytes)
            fail_msg("%s=%s stores %.0f bytes of output %d, which has %.0f", n->op->name, p->variant,
                     s.operand[MBA_ARG_OUT(k)][1], k, bytes);
        *seen += t != NULL;
    }
    for (int i = 0; i < 3 && back; i++) { // what is read was written as a whole before
        const double *moved = s.operand[MBA_ARG_SCRATCH(scratch[i])], bytes = (double)p->scratch[scratch[i]].bytes;
        if (fabs(moved[1] - bytes) > 1e-9 * bytes || fabs(moved[0] - bytes) > 1e-9 * bytes)
            fail_msg("%s=%s stores %.0f and loads %.0f bytes of scratch '%s', which has %.0f", n->op->name, p->variant,
                     moved[1], moved[0], p->scratch[scratch[i]].name, bytes);
        *seen += bytes > 0;
    }
}

static void plans_store_what_kernels_write(void **state)
{
    (void)state;
    static const mba_case cases[] = { { { 4, 512, 256, 16, 1 }, "whole tiles" },
                                      { { 4, 512, 256, 16, 1, NO_Z }, "no gate" },
                                      { { 2, 64, 128, 8, 2 }, "two groups" },
                                      { { 4, 512, 256, 4, 1 }, "four states" },
                                      { { 4, 512, 256, 64, 1 }, "four groups of states" } };
    int                   seen = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int half = 0; half < 2; half++) {
            mba_case_graph o;
            assert_ok(mba_case_build(&o, &mba_op_selective_scan, &cases[i],
                                     (mba_case_how){ .compute = half ? MBA_BF16 : MBA_F32 }));
            for (int32_t k = 0; k < o.g->nnodes; k++) {
                const mba_node *n = o.g->nodes[k];
                const bool      mine = n->op == &mba_op_selective_scan || n->op == &mba_op_selective_scan_bwd;
                for (const mba_variant *v = n->op->cuda; mine && v->name; v++) {
                    mba_plan p;
                    if (mba_plan_variant(&p, NULL, o.g->arena, n, v, &machines[1]) == MBA_OK)
                        check_stores(n, &p, &seen);
                }
            }
            mba_graph_destroy(o.g);
        }
    assert_int_equal(seen, 140);
}

MBA_TEST_MAIN(cmocka_unit_test(every_shape_has_a_fast_plan), cmocka_unit_test(plans_store_what_kernels_write))
