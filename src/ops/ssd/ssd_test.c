// SPDX-License-Identifier: Apache-2.0
/* ssd_test.c -- ssd beyond the general proofs of tests/operators_test.c: same bits, sequences in two halves, large
 * sizes on the CPU; and every CUDA variant against the reference where there is a GPU. */
#include "tests/gpu_cases.h"

#include "core/check.h"
#include "core/device.h"
#include "core/program.h"
#include "ops/ssd/ssd.h"
#include "ops/ssd/ssd_slots.h"

/* ---- the CPU path: graphs ---- */

static const mba_machine host = { .name = "host" };
static const mba_step    step = { .seed = 3 };

typedef struct job {
    mba_graph     *g;
    mba_program   *p;
    mba_reference *r;
} job;

static bool is_leaf(const mba_tensor *t)
{
    return t->st->role == MBA_INPUT
           || (t->st->role == MBA_PARAM && !t->producer_node && !t->base && mba_dense(t) && t->needs_grad);
}

/* The same values in every program that has a leaf of this name and size. */
static void fill_leaves(job *j)
{
    for (int32_t k = 0; k < j->g->ntensors; k++) {
        const mba_tensor *t = j->g->tensors[k];
        for (int64_t i = 0; is_leaf(t) && i < mba_elems(t); i++) {
            const double v = t->bound                   ? (double)(i * i % 47 / 31)
                             : t->st->role == MBA_INPUT ? (double)(float)sin(0.7 * (double)i)
                                                        : mba_init_value(t, 9, i);
            if (t->bound) ((int32_t *)mba_program_at(j->p, t))[i] = (int32_t)v;
            else ((float *)mba_program_at(j->p, t))[i] = (float)v;
            if (j->r) mba_reference_at(j->r, t)[i] = v;
        }
    }
}

/* Sets values of the leaves, then runs everything. */
static void job_run(job *j, bool with_reference)
{
    assert_ok(mba_program_create(&j->p, j->g, &(mba_program_options){ .machine = &host }));
    assert_ok(mba_program_bind(j->p, &mba_device_cpu));
    if (with_reference) assert_ok(mba_reference_create(&j->r, j->g));
    memset(j->p->memory[MBA_ACT], 0xff, j->p->layout.arena_bytes[MBA_ACT]);
    fill_leaves(j);
    assert_ok(mba_program_run(j->p, MBA_FORWARD | MBA_BACKWARD, &step, NULL));
    if (j->r) assert_ok(mba_reference_run(j->r, MBA_FORWARD | MBA_BACKWARD, &step));
}

static void job_free(job *j)
{
    mba_reference_destroy(j->r);
    mba_program_destroy(j->p);
    mba_graph_destroy(j->g);
    *j = (job){ 0 };
}

static job job_of(mba_case c)
{
    mba_case_graph o;
    assert_ok(mba_case_build(&o, &mba_op_ssd, &c, (mba_case_how){ 0 }));
    return (job){ .g = o.g };
}

static bool is_answer(const mba_tensor *t)
{
    return t->st->role == MBA_RESULT || (t->st->role == MBA_GRAD && t->producer_node && mba_dense(t));
}

static void same_bits_at_any_thread_count(void **state)
{
    (void)state;
    const mba_case cases[] = { { { 1, 70, 24, 8, 1, 16, 16, SKIP_HEAD | BIAS | RESETS | STATES }, "blocks of heads" },
                               { { 3, 45, 4, 5, 2, 7, 16, SKIP_FULL | BIAS }, "odd sizes" } };
    const int      before = mba_cpu_threads();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        job one = job_of(cases[i]);
        mba_cpu_set_threads(1);
        job_run(&one, false);
        for (int threads = 2; threads <= 3; threads++) {
            job more = job_of(cases[i]);
            int seen = 0;
            mba_cpu_set_threads(threads);
            job_run(&more, false);
            for (int32_t k = 0; k < one.g->ntensors; k++) {
                const mba_tensor *t = one.g->tensors[k];
                if (!is_answer(t)) continue;
                assert_memory_equal(mba_program_at(one.p, t), mba_program_at(more.p, more.g->tensors[k]),
                                    sizeof(float) * (size_t)mba_elems(t));
                seen++;
            }
            assert_true(seen >= 7);
            job_free(&more);
        }
        job_free(&one);
    }
    mba_cpu_set_threads(before);
}

/* With more threads than the plan was made for, or fewer, no thread may leave the plan's scratch. */
static void thread_count_may_change_after_planning(void **state)
{
    (void)state;
    const int before = mba_cpu_threads();
    mba_cpu_set_threads(1);
    job j = job_of((mba_case){ { 1, 70, 6, 8, 1, 16, 16, SKIP_HEAD }, "" });
    job_run(&j, false);
    const mba_tensor *y = NULL;
    for (int32_t k = 0; k < j.g->ntensors; k++)
        if (j.g->tensors[k]->st->role == MBA_RESULT) y = j.g->tensors[k];
    assert_non_null(y);
    const size_t bytes = sizeof(float) * (size_t)mba_elems(y);
    float       *once = malloc(bytes);
    assert_non_null(once);
    memcpy(once, mba_program_at(j.p, y), bytes);
    mba_cpu_set_threads(3);
    assert_ok(mba_program_run(j.p, MBA_FORWARD | MBA_BACKWARD, &step, NULL));
    assert_memory_equal(once, mba_program_at(j.p, y), bytes);
    free(once);
    job_free(&j);
    mba_cpu_set_threads(before);
}

/* The error bound of a value covers its own sum and the sums that it is made of (rule of core/check.c). */
static void assert_within_tolerance(const job *j)
{
    double units = 0;
    int    seen = 0;
    for (int32_t i = 0; i < j->g->nnodes; i++) {
        const mba_node *n = j->g->nodes[i];
        double          K = 1;
        for (int k = 0; k < MBA_OUT_MAX && n->op->terms; k++)
            if (n->out[k]) K = fmax(K, n->op->terms(n, k));
        units += 8 + 4 * sqrt(K);
    }
    for (int32_t k = 0; k < j->g->ntensors; k++) {
        const mba_tensor *t = j->g->tensors[k];
        if (!is_answer(t)) continue;
        const double *want = mba_reference_at(j->r, t);
        const float  *have = mba_program_at(j->p, t);
        double        top = 0;
        for (int64_t i = 0; i < mba_elems(t); i++) top = fmax(top, fabs(want[i]));
        for (int64_t i = 0; i < mba_elems(t); i++) assert_near(have[i], want[i], units / 16777216 * top);
        seen++;
    }
    assert_true(seen >= 6);
}

static void cpu_matches_reference_at_the_sizes_of_the_models(void **state)
{
    (void)state;
    const mba_case cases[] = {
        { { 1, 150, 2, 64, 1, 128, 256, SKIP_HEAD | BIAS }, "heads of mamba2-130m" },
        { { 2, 70, 26, 16, 1, 16, 64, SKIP_HEAD | BIAS | RESETS | STATES }, "blocks of two heads" },
        { { 4, 33, 32, 4, 8, 8, 64, SKIP_FULL | BIAS | STATES }, "several slabs, eight groups" }
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        job j = job_of(cases[i]);
        job_run(&j, true);
        assert_within_tolerance(&j);
        job_free(&j);
    }
}

/* ---- a sequence in two halves ---- */

typedef struct leaves {
    mba_tensor *x, *dt, *B, *C, *A_log, *D, *bias, *first;
} leaves;

static leaves leaves_of(mba_graph *g, int64_t B, int64_t L, int64_t H, int64_t P, int64_t G, int64_t N)
{
    const mba_init one = MBA_INIT_NORMAL(1);
    return (leaves){ .x = mba_param(g, "x", MBA_TYPE(MBA_F32, B, L, H, P), one, MBA_DECAY),
                     .dt = mba_param(g, "dt", MBA_TYPE(MBA_F32, B, L, H), one, MBA_DECAY),
                     .B = mba_param(g, "B", MBA_TYPE(MBA_F32, B, L, G, N), one, MBA_DECAY),
                     .C = mba_param(g, "C", MBA_TYPE(MBA_F32, B, L, G, N), one, MBA_DECAY),
                     .A_log = mba_param(g, "A_log", MBA_TYPE(MBA_F32, H), MBA_INIT_LOG_UNIFORM(0.2, 4), MBA_DECAY),
                     .D = mba_param(g, "D", MBA_TYPE(MBA_F32, H), one, MBA_DECAY),
                     .bias = mba_param(g, "bias", MBA_TYPE(MBA_F32, H), MBA_INIT_STEP(1e-3, 0.1), MBA_DECAY),
                     .first = mba_param(g, "first", MBA_TYPE(MBA_F32, B, H, P, N), one, MBA_DECAY) };
}

enum { SPLIT_H = 2, SPLIT_P = 16, SPLIT_N = 32, SPLIT_ROW = SPLIT_H * SPLIT_P };

/* Tokens from .. from + count - 1 of a sequence, as results of the program. */
static mba_tensor *part_of_sequence(mba_graph *g, const leaves *l, int64_t from, int64_t count, mba_tensor **state)
{
    mba_tensor *y = mba_ssd(g, .x = mba_slice(g, l->x, 1, from, count), .dt = mba_slice(g, l->dt, 1, from, count),
                            .B = mba_slice(g, l->B, 1, from, count), .C = mba_slice(g, l->C, 1, from, count),
                            .A_log = l->A_log, .D = l->D, .dt_bias = l->bias, .initial = *state, .final = state);
    return mba_result(g, "y", y);
}

static void run_forward(job *j)
{
    assert_ok(mba_program_create(&j->p, j->g, &(mba_program_options){ .machine = &host }));
    assert_ok(mba_program_bind(j->p, &mba_device_cpu));
    fill_leaves(j);
    assert_ok(mba_program_run(j->p, MBA_FORWARD, &step, NULL));
}

static double largest(const float *x, int64_t n)
{
    float top = 0;
    for (int64_t i = 0; i < n; i++)
        if (fabsf(x[i]) > top) top = fabsf(x[i]);
    return (double)top;
}

static void split_equals_whole(int64_t B, int64_t L, int64_t at)
{
    job         a = { 0 }, b = { 0 };
    mba_tensor *last[2], *y, *half[2];
    assert_ok(mba_graph_create(&a.g));
    assert_ok(mba_graph_create(&b.g));
    leaves l = leaves_of(a.g, B, L, SPLIT_H, SPLIT_P, 1, SPLIT_N);
    last[0] = l.first;
    y = part_of_sequence(a.g, &l, 0, L, &last[0]);
    l = leaves_of(b.g, B, L, SPLIT_H, SPLIT_P, 1, SPLIT_N);
    last[1] = l.first;
    half[0] = part_of_sequence(b.g, &l, 0, at, &last[1]);
    half[1] = part_of_sequence(b.g, &l, at, L - at, &last[1]);
    mba_result(a.g, "last", last[0]);
    mba_result(b.g, "last", last[1]);
    run_forward(&a);
    run_forward(&b);

    const float *whole = mba_program_at(a.p, y);
    const float *end[] = { mba_program_at(a.p, last[0]), mba_program_at(b.p, last[1]) };
    const double rounding = 2 * (8 + 4 * sqrt(mba_op_ssd.terms(y->producer_node, Y))) / 16777216; // of two nodes
    const double top = largest(whole, mba_elems(y)), end_top = largest(end[0], mba_elems(last[0]));
    for (int64_t t = 0; t < B * L; t++) {
        const int    i = t % L >= at;
        const float *row = mba_program_at(b.p, half[i]), *want = whole + t * SPLIT_ROW;
        row += (t / L * (i ? L - at : at) + t % L - (i ? at : 0)) * SPLIT_ROW;
        if (at % SSD_CHUNK == 0) assert_memory_equal(row, want, sizeof(float) * SPLIT_ROW);
        for (int64_t k = 0; k < SPLIT_ROW; k++) assert_near(row[k], want[k], rounding * top);
    }
    for (int64_t k = 0; k < mba_elems(last[0]); k++) assert_near(end[0][k], end[1][k], rounding * end_top);
    job_free(&a);
    job_free(&b);
}

static void a_sequence_in_two_halves_equals_the_whole(void **state)
{
    (void)state;
    split_equals_whole(1, 2 * SSD_CHUNK + 9, SSD_CHUNK); // split at a chunk of the CPU: the same bits
    split_equals_whole(2, 2 * SSD_CHUNK + 9, SSD_CHUNK); // the slices are strided views
    split_equals_whole(2, 77, 31);
}

static void refuses_what_does_not_fit(void **state)
{
    (void)state;
    mba_graph *g;
    assert_ok(mba_graph_create(&g));
    const leaves l = leaves_of(g, 1, 4, 3, 2, 2, 2);
    mba_ssd(g, .x = l.x, .dt = l.dt, .B = l.B, .C = l.C, .A_log = l.A_log);
    assert_fails(mba_graph_status(g), MBA_E_SHAPE, "3 heads do not share 2 groups");
    mba_graph_destroy(g);
    assert_ok(mba_graph_create(&g));
    const leaves m = leaves_of(g, 1, 4, 2, 2, 1, 2);
    mba_ssd(g, .x = m.x, .dt = m.dt, .B = m.B, .C = m.C, .A_log = m.A_log, .dt_min = 2, .dt_max = 1);
    assert_fails(mba_graph_status(g), MBA_E_SHAPE, "the step is to lie in 2 .. 1");
    mba_graph_destroy(g);
}

/* What the small cases do not cover: several tiles of P and N, of rows and of sources. */
static void cuda_matches_reference_at_the_sizes_of_the_models(void **state)
{
    (void)state;
    const mba_case cases[] = {
        { { 2, 700, 4, 64, 1, 128, 256, SKIP_HEAD | BIAS }, "mamba2-130m's heads, ragged" },
        { { 1, 600, 3, 64, 1, 128, 128, SKIP_HEAD | BIAS | RESETS | STATES }, "an odd head, documents, states" },
        { { 1, 300, 8, 64, 8, 128, 256, SKIP_HEAD | BIAS | WINDOWS }, "mamba2-headline's groups" },
        { { 1, 200, 3, 32, 1, 16, 64, SKIP_FULL | BIAS | STATES }, "small heads and states" },
        { { 2, 190, 2, 128, 2, 256, 64, SKIP_FULL | LIMITS | STATES }, "large heads and states" },
        { { 1, 500, 3, 40, 1, 72, 192, SKIP_HEAD | BIAS }, "tiles that are not full" },
        { { 1, 150, 9, 16, 1, 32, 128, SKIP_HEAD | BIAS | RESETS | STATES }, "four pairs of heads and an odd one" },
        { { 1, 64, 2, 64, 1, 128, 64, SKIP_HEAD | BIAS }, "fused: one chunk" },
        { { 2, 100, 4, 64, 2, 128, 64, SKIP_FULL | BIAS | WINDOWS }, "fused: a ragged chunk, groups, views" },
        { { 1, 128, 2, 64, 1, 128, 128, SKIP_HEAD | LIMITS }, "fused: two chunks, limits of the step at work" },
        { { 3, 300, 4, 64, 1, 128, 64, BIAS }, "fused: five chunks, no D" },
        { { 2, 200, 6, 64, 1, 128, 64, SKIP_HEAD | BIAS | STRONG }, "fused: wide-range chunks" },
        { { 1, 1100, 2, 64, 1, 128, 256, SKIP_HEAD | BIAS | WINDOWS }, "fused: segments of a sequence" },
        { { 1, 1100, 4, 64, 1, 128, 256, SKIP_HEAD | BIAS | STRONG | STATES },
          "fused: segments, states, strong decays" },
        { { 2, 190, 2, 64, 1, 128, 64, SKIP_HEAD | BIAS | STATES }, "fused: initial and final states" },
        { { 2, 200, 4, 64, 2, 128, 64, SKIP_HEAD | BIAS | RESETS | STATES }, "fused: a reset at every other token" },
        { { 2, 1000, 18, 64, 1, 128, 256, SKIP_FULL | BIAS | STATES }, "fused: split items, states recomputed" },
        { { 2, 1000, 18, 64, 1, 128, 256, SKIP_HEAD | BIAS | RESETS | STATES },
          "fused: states recomputed across resets" },
        { { 2, 1000, 18, 64, 1, 128, 256, SKIP_HEAD | BIAS | STRONG }, "fused: states recomputed, wide-range chunks" },
        { { 2, 4500, 4, 64, 2, 128, 256, SKIP_HEAD | BIAS }, "fused: more pairs of chunks than SMs" },
        { { 1, 300, 4, 64, 2, 64, 256, SKIP_HEAD | BIAS }, "heads of zamba2" },
        { { 1, 300, 4, 128, 1, 64, 256, SKIP_HEAD | BIAS }, "heads of plamo2" },
        { { 1, 300, 8, 80, 4, 128, 128, SKIP_HEAD | BIAS }, "heads of nemotron-nano" },
        { { 1, 300, 4, 32, 1, 128, 256, SKIP_HEAD | BIAS }, "heads of granite-4.0-h-350m" },
        { { 1, 300, 4, 64, 1, 256, 256, SKIP_HEAD | BIAS }, "heads of falcon-h1-1.5b" },
        { { 2, 700, 4, 128, 2, 256, 256, SKIP_HEAD | BIAS }, "heads of falcon-h1-34b" },
        { { 1, 2100, 25, 64, 1, 128, 256, SKIP_HEAD | BIAS | RESETS | STATES }, "25 heads in segments, resets" },
        { { 0 }, NULL }
    };
    assert_right_on_the_gpu(&mba_op_ssd, cases);
}

MBA_TEST_MAIN(cmocka_unit_test(same_bits_at_any_thread_count), cmocka_unit_test(thread_count_may_change_after_planning),
              cmocka_unit_test(cpu_matches_reference_at_the_sizes_of_the_models),
              cmocka_unit_test(cuda_matches_reference_at_the_sizes_of_the_models),
              cmocka_unit_test(a_sequence_in_two_halves_equals_the_whole), cmocka_unit_test(refuses_what_does_not_fit))
