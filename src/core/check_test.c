// SPDX-License-Identifier: Apache-2.0
/* check_test.c -- check.h finds a wrong value, a write outside the output, and bits that change between runs, each in
 * an operator written for this test. */
#include "core/check.h"
#include "core/program.h"
#include "tests/starve.h"
#include "tests/test.h"

static enum { RIGHT, WRONG_VALUE, STRAY, CHANGING } fault;

/* y = 2 x on dense rows. */
static mba_status twice(const mba_call *c)
{
    static int    run;
    const int64_t n = mba_elems(c->node->in[0]);
    const float  *x = c->in[0];
    float        *y = c->out[0];
    for (int64_t i = 0; i < n; i++) y[i] = 2 * x[i];
    if (fault == WRONG_VALUE) y[n - 1] *= 1.001f;
    if (fault == STRAY) y[-1] = 0;
    if (fault == CHANGING) y[0] *= 1 + (float)(run++ % 4) * 0x1p-23f; // within any tolerance
    return MBA_OK;
}

static void twice_ref(const mba_ref_call *c)
{
    for (int64_t i = 0, n = mba_elems(c->node->in[0]); i < n; i++) c->out[0][i] = 2 * c->in[0][i];
}

static mba_status twice_shape(const mba_node *n, mba_type *out)
{
    out[0] = n->in[0]->type;
    return MBA_OK;
}

static mba_op op_twice; // its gradient is itself

static void twice_grad(mba_graph *g, const mba_node *n, mba_tensor *const *d)
{
    mba_grad_add(g, n->in[0], mba_append(g, &op_twice, NULL, (mba_tensor *[MBA_IN_MAX]){ d[0] })->out[0]);
}

static mba_cost twice_cost(const mba_node *n) { return mba_cost_io(n); }

static void twice_build(mba_graph *g, const mba_case *c)
{
    mba_tensor *x = mba_param(g, "x", MBA_TYPE(MBA_F32, c->dim[0], c->dim[1]), MBA_INIT_NORMAL(1), MBA_DECAY);
    mba_append(g, &op_twice, NULL, (mba_tensor *[MBA_IN_MAX]){ x });
}

static mba_op op_twice = {
    .name = "twice",
    .doc = "y = 2 x",
    .kind = MBA_ELEMENTWISE,
    .in = { MBA_SLOT("x") },
    .out = { MBA_SLOT("y") },
    .shape = twice_shape,
    .grad = twice_grad,
    .cost = twice_cost,
    .ref = twice_ref,
    .cpu = (const mba_variant[]){ { "loop", NULL, { twice, twice, twice } }, { 0 } },
    .build = twice_build,
    .cases = (const mba_case[]){ { { 5, 16 }, "one piece" }, { { 0 }, NULL } },
};

static mba_check checked(int with)
{
    mba_check w = { 0 };
    fault = with;
    assert_ok(mba_check_op(&w, &op_twice));
    return w;
}

static void each_fault_is_found_by_its_check(void **state)
{
    (void)state;
    const mba_check right = checked(RIGHT), value = checked(WRONG_VALUE), stray = checked(STRAY),
                    changing = checked(CHANGING);
    assert_true(right.cpu_error <= 1 && !right.strays && !right.changed && right.values > 0 && right.grad_error < 1e-8);
    assert_true(value.cpu_error > 1);
    assert_true(!value.strays && !value.changed);
    assert_true(stray.strays > 0);
    assert_true(changing.changed > 0);
    assert_true(changing.cpu_error <= 1);
}

#if MBA_STARVE
static const char *starved; // the operator whose reference runs

static mba_status run_reference(void)
{
    mba_case_graph c = { 0 };
    mba_reference *r = NULL;
    const mba_op  *op = mba_op_find(starved);
    mba_status     st = mba_case_build(&c, op, &op->cases[0], (mba_case_how){ 0 });
    if (st == MBA_OK) st = mba_reference_create(&r, c.g);
    if (st == MBA_OK) st = mba_reference_run(r, MBA_FORWARD | MBA_BACKWARD, &(mba_step){ .lr = 1 });
    mba_reference_destroy(r);
    mba_graph_destroy(c.g);
    return st;
}

static void nothing(void) {}

/* For operators whose reference needs scratch, and one that does not. */
static void a_reference_without_memory_is_an_error(void **state)
{
    static const char *const ops[] = { "attention", "selective_scan", "ssd", "rmsnorm" };
    (void)state;
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        starved = ops[i];
        starve(run_reference, nothing, NULL);
    }
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_fault_is_found_by_its_check),
#if MBA_STARVE
        cmocka_unit_test(a_reference_without_memory_is_an_error),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
