// SPDX-License-Identifier: Apache-2.0
/* cuda_large_test.c -- tensors of more than 2^31 elements on the GPU, forward and backward, against the same rows in a
 * small graph on the CPU. Rows are independent of each other and their tokens repeat, so a table row's gradient is that
 * of one use of it times the number of uses. */
#include "tests/test.h"

#include "core/device.h"
#include "core/program.h"
#include "ops/embed/embed.h"
#include "ops/relu2/relu2.h"
#include "ops/rmsnorm/rmsnorm.h"

enum { VOCAB = 64, WIDTH = 2048, ROWS = 1050624, TAIL = VOCAB }; // ROWS x WIDTH = 2^31 + 4194304

typedef struct chain {
    mba_graph   *g;
    mba_program *p;
    mba_tensor  *tokens, *table, *tail;
} chain;

static chain build(int64_t rows, const mba_device *d)
{
    chain c;
    assert_ok(mba_graph_create(&c.g));
    c.tokens = mba_index(c.g, "tokens", MBA_TYPE(MBA_I32, rows), VOCAB);
    c.table = mba_param(c.g, "table", MBA_TYPE(MBA_F32, VOCAB, WIDTH), MBA_INIT_NORMAL(1), MBA_DECAY);
    mba_tensor *w = mba_param(c.g, "w", MBA_TYPE(MBA_F32, WIDTH), MBA_INIT_NORMAL(1), MBA_NO_DECAY);
    mba_tensor *x = mba_rmsnorm(c.g, mba_embed(c.g, c.tokens, c.table, MBA_F32), w, 1e-5f);
    mba_tensor *y = mba_relu2(c.g, x);
    c.tail = mba_relu2(c.g, mba_slice(c.g, x, 0, rows - TAIL, TAIL));
    mba_result(c.g, "tail", c.tail);
    assert_ok(mba_backward_from(c.g, 1, &y, (mba_tensor *[]){ NULL }));
    assert_ok(
        mba_program_create(&c.p, c.g, &(mba_program_options){ .cuda = d->machine->cc > 0, .machine = d->machine }));
    return c;
}

static int32_t token_of(int64_t row) { return (int32_t)((row * 37 + row / 1000) % VOCAB); }

static void run(chain *c, const mba_device *d, int64_t rows, int64_t first)
{
    assert_ok(mba_program_bind(c->p, d));
    assert_ok(mba_program_init(c->p, 3));
    int32_t *t = mba_program_host(c->p, c->tokens);
    for (int64_t i = 0; i < rows; i++) t[i] = rows == VOCAB && first < 0 ? (int32_t)i : token_of(first + i);
    assert_ok(mba_program_run(c->p, MBA_FORWARD | MBA_BACKWARD, &(mba_step){ 0 }, NULL));
    if (d->wait) assert_ok(d->wait());
}

static void end(chain *c)
{
    mba_program_destroy(c->p);
    mba_graph_destroy(c->g);
}

static void compare_tail(const chain *large, const mba_device *cpu)
{
    chain small = build(TAIL, cpu);
    run(&small, cpu, TAIL, ROWS - TAIL);
    const float *a = mba_program_host(large->p, large->tail), *b = mba_program_host(small.p, small.tail);
    for (int64_t i = 0; i < (int64_t)TAIL * WIDTH; i++) assert_near(a[i], b[i], 1e-5 * (1 + fabs((double)b[i])));
    end(&small);
}

static void compare_gradient(const chain *large, const mba_device *cpu)
{
    static int64_t uses[VOCAB];
    chain          once = build(VOCAB, cpu);
    for (int64_t i = 0; i < ROWS; i++) uses[token_of(i)]++;
    run(&once, cpu, VOCAB, -1); // every token once
    assert_ok(mba_program_pull(large->p));
    const mba_tensor *ga = mba_flat_grads(large->g, MBA_DECAY), *gb = mba_flat_grads(once.g, MBA_DECAY);
    const float      *a = mba_program_host(large->p, ga), *b = mba_program_host(once.p, gb);
    for (int64_t i = 0; i < (int64_t)VOCAB * WIDTH; i++) {
        const double n = (double)uses[i / WIDTH], want = (double)b[i] * n;
        assert_near(a[i], want, n * (0x1p-24 * fabs(want) + 1e-6)); // a sum of n equal terms in fp32
    }
    end(&once);
}

static void more_than_two_billion_elements(void **state)
{
    (void)state;
    const mba_device *d;
    if (mba_device_cuda(&d, 0) != MBA_OK) skip();
    chain large = build(ROWS, d);
    if (mba_program_bytes(large.p) > d->left()) {
        printf("needs %.1f GB, the GPU has %.1f GB left\n", (double)mba_program_bytes(large.p) / 1e9,
               (double)d->left() / 1e9);
        end(&large);
        skip();
    }
    run(&large, d, ROWS, 0);
    compare_tail(&large, &mba_device_cpu);
    compare_gradient(&large, &mba_device_cpu);
    end(&large);
}

/* The same comparison at a size the CPU can hold: it is the arithmetic of this test that is tested. */
static void the_comparison_holds_for_one_pass_of_the_cpu(void **state)
{
    (void)state;
    chain a = build(VOCAB, &mba_device_cpu), b = build(VOCAB, &mba_device_cpu);
    run(&a, &mba_device_cpu, VOCAB, -1);
    run(&b, &mba_device_cpu, VOCAB, 0);
    const float *x = mba_program_host(a.p, a.tail), *y = mba_program_host(b.p, b.tail);
    for (int64_t i = 0; i < VOCAB; i++)
        for (int64_t j = 0; j < WIDTH; j++) assert_near(y[i * WIDTH + j], x[token_of(i) * WIDTH + j], 0);
    end(&a);
    end(&b);
}

MBA_TEST_MAIN(cmocka_unit_test(more_than_two_billion_elements),
              cmocka_unit_test(the_comparison_holds_for_one_pass_of_the_cpu))
