// SPDX-License-Identifier: Apache-2.0
/* operators_test.c -- what every operator proves, in one loop over mba_ops and their cases; MBA_TEST_OPS="ssd rmsnorm"
 * looks at these alone. */
#include "tests/test.h"

#include "core/check.h"
#include "core/plan_work.h"
#include "core/program.h"
#include "tests/machines.h"
#include "tests/wanted.h"

/* fp64 backward against fourth-order central differences with h = 1e-3: truncation h^4 f'''''/30 and
 * rounding 1e-16/h leave 1e-8 of the largest derivative. */
static const double GRADIENT_BOUND = 1e-8;

static void every_operator_agrees_with_its_reference(void **state)
{
    (void)state;
    int wrong = 0, looked_at = 0;
    for (int i = 0; mba_ops[i]; i++) {
        mba_check w = { .stride = getenv("MBA_TEST_SANITIZED") ? 13 : 1 }; // release looks at all of them
        if (!mba_ops[i]->cases || !wanted(mba_ops[i]->name)) continue;
        assert_ok(mba_check_op(&w, mba_ops[i]));
        const int bad = !(w.grad_error < GRADIENT_BOUND) || !(w.cpu_error <= 1) || w.strays || w.changed;
        printf("%s %-20s %5d derivatives: backward off by %.1e, CPU by %.2f of its tolerance, %d strays, %d changed\n",
               bad ? "BAD" : "   ", mba_ops[i]->name, w.values, w.grad_error, w.cpu_error, w.strays, w.changed);
        fflush(stdout);
        wrong += bad;
        looked_at++;
    }
    assert_true(looked_at > 0);
    assert_int_equal(wrong, 0);
}

/* Outputs of `n` that are added to and that no launch of the plan reads first (of an embedding's table, the rows that
 * it touches). Vectors (gradients of weights per channel) are too small to be written down. */
static int reads_missing(const mba_node *n, const mba_plan *p)
{
    int missing = 0;
    for (int k = 0; k < MBA_OUT_MAX; k++) {
        double read = 0;
        if (!n->out[k] || !mba_adds(n, k) || n->out[k]->type.rank < 2) continue;
        for (int l = 0; l < p->nlaunches; l++) {
            mba_work_sums sum;
            mba_launch_sums(&sum, &p->launch[l]);
            read += sum.operand[MBA_ARG_OUT(k)][0];
        }
        if (read < 0.5 * mba_tensor_bytes(n->out[k])) {
            printf("BAD %s, variant %s: %s adds, %.0f of %.0f bytes read\n", n->op->name, p->variant,
                   n->op->out[k].name, read, mba_tensor_bytes(n->out[k]));
            missing++;
        }
    }
    return missing;
}

static void plans_read_what_they_add_to(void **state)
{
    (void)state;
    int wrong = 0, adding = 0;
    for (int i = 0; mba_ops[i]; i++)
        for (const mba_case *c = wanted(mba_ops[i]->name) ? mba_ops[i]->cases : NULL; c && c->note; c++) {
            mba_case_graph o;
            mba_program   *p;
            assert_ok(mba_case_build(&o, mba_ops[i], c, (mba_case_how){ .compute = MBA_BF16 }));
            const mba_program_options how = { .cuda = true, .machine = &machines[1] };
            const mba_status          st = mba_program_create(&p, o.g, &how);
            for (int32_t k = 0; st == MBA_OK && k < o.g->nnodes; k++) {
                adding += o.g->nodes[k]->adds != 0;
                wrong += reads_missing(o.g->nodes[k], p->plan[k]);
            }
            if (st == MBA_OK) mba_program_destroy(p);
            mba_graph_destroy(o.g);
        }
    printf("%d nodes add\n", adding);
    assert_true(adding > 50 || getenv("MBA_TEST_OPS"));
    assert_int_equal(wrong, 0);
}

MBA_TEST_MAIN(cmocka_unit_test(every_operator_agrees_with_its_reference), cmocka_unit_test(plans_read_what_they_add_to))
