// SPDX-License-Identifier: Apache-2.0
/* selective_scan_plans_test.c -- launch plans of the CUDA variants of selective_scan: products against the loops of the
 * kernels, and bytes written. No GPU is needed. */
#include "tests/test.h"

#include "core/check.h"
#include "core/plan_work.h"
#include "ops/selective_scan/selective_scan.h"
#include "ops/selective_scan/selective_scan_slots.h"
#include "tests/machines.h"

/* ---- plans: bf16 products of the backward pass, counted by its loops (selective_scan_bwd*_cuda.cu) ---- */

static int length_of(const scan_dims *d, const scan_partition *c, int item)
{
    const int64_t first = c->segments > 1 ? item % c->segments * c->segment : 0, sequence = item * c->pack;
    if (c->pack > 1) return (int)((d->B - sequence < c->pack ? d->B - sequence : c->pack) * d->L);
    return (int)(d->L - first < c->segment ? d->L - first : c->segment);
}

/* FLOPs of a block: N / 4 warps; per token 16 / N products of 16 x 8 sums over 8 values. `specialized`: per pair of
 * tokens, over 16 values; with 8 states none. */
static double flops_of_block(int length, int states, bool specialized)
{
    double sum = 0;
    for (int tile = (length - 1) / TILE; tile >= 0; tile--)
        for (int half = specialized ? tile * TILE + SAVE_EVERY < length : 1; half >= 0; half--)
            for (int k = SAVE_EVERY - 1; k >= 0; k--) {
                if (specialized && (k % 2 || states == 8)) continue;
                sum += states / 4 * (16 / states) * 2.0 * 16 * 8 * (specialized ? 16 : 8);
            }
    return sum;
}

static void plans_count_the_products_that_warps_issue(void **state)
{
    (void)state;
    static const mba_case cases[] = { { { 3, 49, 320, 8, 1, NO_Z }, "windows of 7 x 7" },
                                      { { 64, 196, 160, 8, 1, NO_Z }, "windows of 14 x 14" },
                                      { { 1, 12000, 192, 16, 1 }, "one long row, in segments" },
                                      { { 1, 1001, 100, 16, 1 }, "odd" },
                                      { { 2001, 7, 640, 16, 2 }, "short: packs" },
                                      { { 2, 1, 32, 8, 1 }, "a token" },
                                      { { 4, 4096, 512, 16, 1 }, "whole tiles" } };
    bool                  packs = false, pieces = false;
    int                   seen = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const int64_t  *n = cases[i].dim;
        const scan_dims d = { n[0], n[1], n[2], n[3], n[4] };
        mba_case_graph  o;
        assert_ok(mba_case_build(&o, &mba_op_selective_scan, &cases[i], (mba_case_how){ .compute = MBA_BF16 }));
        for (int32_t k = 0; k < o.g->nnodes; k++)
            for (const mba_variant *v = o.g->nodes[k]->op->cuda;
                 o.g->nodes[k]->op == &mba_op_selective_scan_bwd && v->name; v++) {
                mba_plan p;
                if (mba_plan_variant(&p, NULL, o.g->arena, o.g->nodes[k], v, &machines[1]) != MBA_OK) continue;
                for (int l = 0; l < p.nlaunches; l++) {
                    const char *kernel = p.launch[l].kernel;
                    if (strcmp(kernel, "scan_bwd_specialized") && strcmp(kernel, "scan_bwd_tiles")) continue;
                    const scan_partition c = scan_partition_of(d, p.launch[l].grid[0]);
                    double               sum = 0;
                    packs |= c.pack > 1;
                    pieces |= c.segments > 1;
                    for (int item = 0; item < c.items; item++)
                        sum += (double)p.launch[l].grid[1]
                               * flops_of_block(length_of(&d, &c, item), (int)d.N, !strcmp(v->name, "specialized"));
                    assert_near(mba_launch_work(&p.launch[l], MBA_MMA), sum, 1e-12 * sum);
                    seen++;
                }
            }
        mba_graph_destroy(o.g);
    }
    assert_true(packs && pieces);
    assert_int_equal(seen, 14);
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
                                      { { 2, 64, 128, 8, 2 }, "two groups" } };
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
    assert_int_equal(seen, 142);
}

MBA_TEST_MAIN(cmocka_unit_test(plans_count_the_products_that_warps_issue),
              cmocka_unit_test(plans_store_what_kernels_write))
