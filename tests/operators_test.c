/* operators_test.c -- what every operator proves, in one loop over mba_ops and their cases. */
#include "tests/test.h"

#include "core/check.h"

/* fp64 backward against fourth-order central differences with h = 1e-3: truncation h^4 f'''''/30 and
 * rounding 1e-16/h leave 1e-8 of the largest derivative. */
static const double GRADIENT_BOUND = 1e-8;

static void every_operator_agrees_with_its_reference(void **state)
{
    (void)state;
    int wrong = 0;
    for (int i = 0; mba_ops[i]; i++) {
        mba_check w = { .stride = getenv("MBA_TEST_SANITIZED") ? 13 : 1 };       // release looks at all of them
        if (!mba_ops[i]->cases) continue;
        assert_ok(mba_check_op(&w, mba_ops[i]));
        const int bad = !(w.grad_error < GRADIENT_BOUND) || !(w.cpu_error <= 1) || w.strays;
        printf("%s %-20s %5d derivatives: backward off by %.1e, CPU by %.2f of its tolerance, %d strays\n",
               bad ? "BAD" : "   ", mba_ops[i]->name, w.values, w.grad_error, w.cpu_error, w.strays);
        wrong += bad;
    }
    assert_int_equal(wrong, 0);
}

MBA_TEST_MAIN(cmocka_unit_test(every_operator_agrees_with_its_reference))
