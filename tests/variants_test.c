// SPDX-License-Identifier: Apache-2.0
/* variants_test.c -- every kernel that may be chosen on a GPU is reached by a case of its operator: selftest, cuda_test
 * and compute-sanitizer go over cases, and what no case reaches nobody looks at. */
#include "tests/test.h"

#include "core/check.h"
#include "tests/machines.h"

/* They change what is there, which a case cannot say: optimizer_test runs them on a GPU. */
static const char *const updates[] = { "adamw", "lamb", "ema", "grad_norm", NULL };

static bool is_update(const mba_op *op)
{
    for (int i = 0; updates[i]; i++)
        if (!strcmp(updates[i], op->name)) return true;
    return false;
}

/* ---- which variants were planned, by number of operator and of variant ---- */

enum { OPS_MAX = 128, VARIANTS_MAX = 16 };
static bool reached[OPS_MAX][VARIANTS_MAX];

static int number_of(const mba_op *op)
{
    int i = 0;
    while (mba_ops[i] != op) i++;
    assert_true(i < OPS_MAX);
    return i;
}

static void note(const mba_program *p)
{
    for (int32_t i = 0; i < p->graph->nnodes; i++) {
        const mba_op *op = p->graph->nodes[i]->op;
        for (int v = 0; v < VARIANTS_MAX && op->cuda && op->cuda[v].name; v++)
            if (!strcmp(op->cuda[v].name, p->plan[i]->variant)) reached[number_of(op)][v] = true;
    }
}

/* As core/check.c goes: the plan by itself, then each variant of the operator and of its gradients. */
static void plan(const mba_graph *g, const mba_machine *m, const char *forced)
{
    mba_program *p = NULL;
    if (mba_program_create(&p, g, &(mba_program_options){ .cuda = true, .machine = m, .variants = forced }) != MBA_OK)
        return;
    note(p);
    mba_program_destroy(p);
}

static void plan_every_way(const mba_op *op, const mba_case *c, mba_dtype compute, const mba_machine *m)
{
    mba_case_graph o;
    const mba_op  *last = NULL;
    assert_ok(mba_case_build(&o, op, c, (mba_case_how){ .compute = compute }));
    plan(o.g, m, NULL);
    for (int32_t i = 0; i < o.g->nnodes; i++) {
        const mba_node *n = o.g->nodes[i];
        if (n->op == last || (n->op != op && (!n->serves_node || n->serves_node->op != op))) continue;
        last = n->op;
        for (const mba_variant *v = n->op->cuda; v && v->name; v++) {
            char forced[128];
            snprintf(forced, sizeof forced, "%s=%s", n->op->name, v->name);
            plan(o.g, m, forced);
        }
    }
    mba_graph_destroy(o.g);
}

/* Operators that no case can reach: updates have none, and collectives need other ranks (lanes_test, nccl_test). */
static bool has_no_cases(const mba_op *op) { return is_update(op) || op->kind == MBA_COLLECTIVE; }

static void every_variant_takes_a_case(void **state)
{
    (void)state;
    int missing = 0;
    for (size_t m = 0; m < sizeof machines / sizeof *machines; m++)
        for (int i = 0; mba_ops[i]; i++) {
            const mba_case *lists[] = { mba_ops[i]->cases, mba_ops[i]->device_cases };
            for (int k = 0; k < 2; k++)
                for (const mba_case *c = lists[k]; c && c->note; c++)
                    for (int half = 0; half < 2; half++)
                        plan_every_way(mba_ops[i], c, half ? MBA_BF16 : MBA_F32, &machines[m]);
        }
    for (int i = 0; mba_ops[i]; i++)
        for (int v = 0; mba_ops[i]->cuda && mba_ops[i]->cuda[v].name && !has_no_cases(mba_ops[i]); v++)
            if (!reached[i][v]) {
                print_error("no case reaches %s=%s\n", mba_ops[i]->name, mba_ops[i]->cuda[v].name);
                missing++;
            }
    assert_int_equal(missing, 0);
}

/* ---- sums over rows are divided alike on every GPU ---- */

/* Launches whose blocks are the parts of a sum: their number decides the order of additions (ops/columns.h, conv1d). */
static bool divides_a_sum(const char *kernel)
{
    static const char *const of[] = { "bias_bwd_sums",  "batchnorm_sums",   "batchnorm_bwd_sums", "residual_sums",
                                      "layernorm_sums", "conv2d_bias_sums", "conv1d_bwd_tiles",   "column_totals" };
    for (size_t i = 0; i < sizeof of / sizeof *of; i++)
        if (!strcmp(of[i], kernel)) return true;
    return false;
}

static int compare_sums(const mba_plan *a, const mba_plan *b)
{
    int compared = 0;
    if (strcmp(a->variant, b->variant)) return 0;
    for (int l = 0; l < a->nlaunches; l++) {
        const mba_launch *x = &a->launch[l], *y = &b->launch[l];
        if (!divides_a_sum(x->kernel)) continue;
        assert_true(!memcmp(x->grid, y->grid, sizeof x->grid) && x->block == y->block);
        compared++;
    }
    return compared;
}

static void sums_over_rows_are_divided_alike_on_every_gpu(void **state)
{
    (void)state;
    int compared = 0;
    for (int i = 0; mba_ops[i]; i++)
        for (const mba_case *c = mba_ops[i]->sizes; c && c->note; c++) {
            mba_case_graph o;
            mba_program   *p[2] = { NULL, NULL };
            assert_ok(mba_case_build(&o, mba_ops[i], c, (mba_case_how){ .compute = MBA_BF16 }));
            for (int m = 0; m < 2; m++)
                assert_ok(
                    mba_program_create(&p[m], o.g, &(mba_program_options){ .cuda = true, .machine = &machines[m] }));
            for (int32_t n = 0; n < o.g->nnodes; n++) compared += compare_sums(p[0]->plan[n], p[1]->plan[n]);
            for (int m = 0; m < 2; m++) mba_program_destroy(p[m]);
            mba_graph_destroy(o.g);
        }
    assert_true(compared > 20);
}

/* ---- whoever looks at an operator is told of every run by itself ---- */

typedef struct told {
    int    runs;
    double worst, relative;
} told;

static void listen(void *ctx, const mba_program *p, const mba_check *one)
{
    told *t = ctx;
    assert_true(p->graph->nnodes > 0);
    t->runs++;
    t->worst = fmax(t->worst, one->cpu_error);
    t->relative = fmax(t->relative, one->cpu_relative);
}

static void every_run_is_told(void **state)
{
    (void)state;
    const mba_op *relu2 = mba_op_find("relu2");
    told          t = { 0 };
    mba_check     w = { .told = listen, .ctx = &t };
    int           cases = 0;
    while (relu2->cases[cases].note) cases++;
    assert_ok(mba_check_op_on(&w, relu2, &mba_device_cpu, MBA_F32));
    assert_true(t.runs >= cases && cases > 0);
    assert_true(t.worst > 0 && t.worst <= 1);
    assert_true(t.worst >= w.cpu_error && w.cpu_error >= t.worst); // the worst of all is the worst that was told
    assert_true(t.relative >= w.cpu_relative && w.cpu_relative >= t.relative);
}

MBA_TEST_MAIN(cmocka_unit_test(sums_over_rows_are_divided_alike_on_every_gpu),
              cmocka_unit_test(every_variant_takes_a_case), cmocka_unit_test(every_run_is_told))
