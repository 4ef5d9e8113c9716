/* ssd_test.c -- the golden values of specs/mamba2.md section 11, chunks against the recurrence, and what the CPU path
 * claims beyond the general proofs of tests/operators_test.c: bits, splits, real sizes. */
#include "tests/test.h"

#include "core/check.h"
#include "core/device.h"
#include "core/program.h"
#include "ops/ssd/ssd.h"
#include "ops/ssd/ssd_slots.h"
#include "tests/machines.h"

/* ---- fp64: a node made by hand ---- */

enum { SLOTS_IN = DFINAL + 1, SLOTS_OUT = DINITIAL + 1 };

typedef struct bench {                            /* one call of all four references */
    ssd_attr     attr;
    mba_tensor   tensor[SLOTS_IN + SLOTS_OUT];
    mba_node     node;
    double      *in[SLOTS_IN];
    double      *y, *final, *grad[SLOTS_OUT];
} bench;

static double *array(int64_t n)
{
    double *x = calloc((size_t)n, sizeof *x);
    assert_non_null(x);
    return x;
}

static int64_t elems(const bench *t, int slot) { return mba_elems(&t->tensor[slot]); }

static void bench_init(bench *t, const int64_t d[6], int64_t chunk, int has)      /* d: B, L, H, P, G, N */
{
    const mba_type type[SLOTS_IN] = {
        [X] = MBA_TYPE(MBA_F32, d[0], d[1], d[2], d[3]), [DT] = MBA_TYPE(MBA_F32, d[0], d[1], d[2]),
        [BM] = MBA_TYPE(MBA_F32, d[0], d[1], d[4], d[5]), [CM] = MBA_TYPE(MBA_F32, d[0], d[1], d[4], d[5]),
        [A_LOG] = MBA_TYPE(MBA_F32, d[2]), [SKIP] = MBA_TYPE(MBA_F32, d[2]), [DT_BIAS] = MBA_TYPE(MBA_F32, d[2]),
        [IDS] = MBA_TYPE(MBA_I32, d[0], d[1]), [INITIAL] = MBA_TYPE(MBA_F32, d[0], d[2], d[3], d[5]),
        [DY] = MBA_TYPE(MBA_F32, d[0], d[1], d[2], d[3]), [DFINAL] = MBA_TYPE(MBA_F32, d[0], d[2], d[3], d[5]) };
    *t = (bench){ .attr = { .chunk = chunk, .final = 1, .dt_max = (double)INFINITY } };
    for (int k = 0; k < SLOTS_IN; k++) {
        if (k == IDS && !(has & RESETS)) continue;
        const int64_t n = mba_type_elems(&type[k]);
        t->tensor[k]  = (mba_tensor){ .type = type[k], .run = n, .pitch = n };
        t->node.in[k] = &t->tensor[k];
        t->in[k]      = array(n);
    }
    t->node.attr = &t->attr;
    t->y         = array(elems(t, X));
    t->final     = array(elems(t, INITIAL));
    const int of[SLOTS_OUT] = { X, DT, BM, CM, A_LOG, SKIP, DT_BIAS, INITIAL };
    for (int k = 0; k < SLOTS_OUT; k++) t->grad[k] = array(elems(t, of[k]));
}

static void bench_free(bench *t)
{
    for (int k = 0; k < SLOTS_IN; k++) free(t->in[k]);
    for (int k = 0; k < SLOTS_OUT; k++) free(t->grad[k]);
    free(t->y);
    free(t->final);
}

static mba_ref_call call_of(bench *t, bool backward)
{
    mba_ref_call c = { .node = &t->node };
    for (int k = 0; k < SLOTS_IN; k++) c.in[k] = t->in[k];
    if (!backward) { c.out[Y] = t->y; c.out[FINAL] = t->final; }
    for (int k = 0; k < SLOTS_OUT && backward; k++) c.out[k] = t->grad[k];
    return c;
}

static void fill(double *x, int64_t n, double amp, double fr, double ph)
{
    for (int64_t k = 0; k < n; k++) x[k] = amp * sin(fr * (double)k + ph);
}

/* ---- the golden case ---- */

static void golden_init(bench *t)
{
    bench_init(t, (const int64_t[]){ 1, 10, 2, 2, 1, 3 }, 4, 0);
    fill(t->in[X], 40, 1, .7, .1);        fill(t->in[DT], 20, .8, .5, .3);     fill(t->in[A_LOG], 2, .5, 1.1, .6);
    fill(t->in[BM], 30, 1, .6, .4);       fill(t->in[CM], 30, 1, .8, .5);      fill(t->in[SKIP], 2, .5, 1, 1);
    fill(t->in[DT_BIAS], 2, .4, 1, 2);    fill(t->in[INITIAL], 12, .3, .9, .2);
    fill(t->in[DY], 40, 1, .3, .7);       fill(t->in[DFINAL], 12, .5, .4, .9);
}

static void assert_sums(const double *x, int64_t n, double sum, double weighted)
{
    double s = 0, w = 0;
    for (int64_t k = 0; k < n; k++) { s += x[k]; w += (double)(k + 1) * x[k]; }
    assert_near(s, sum, 1e-11 * fmax(1, fabs(sum)));
    assert_near(w, weighted, 1e-11 * fmax(1, fabs(weighted)));
}

static void assert_golden_outputs(const bench *t)
{
    const double y[] = { 0.3664681196, 1.5851072223, 2.4512782237, 1.9633600295, 0.1541134116, -0.4884664294,
                         -0.9130292557, -0.8949996082 };
    const double tail[] = { 0.2693432188, 1.4815886419, 1.3495026338, 1.0991340551 };
    const double last[] = { -0.2478645188, -0.1724087197, -0.0367257388, -0.8201739046, -0.7773127357, -0.4629137659,
                            -0.7009188984, -0.6242196688, -0.3294625825, -0.4937173013, -0.4892182216, -0.3138211759 };
    for (int i = 0; i < 8; i++)  assert_near(t->y[i], y[i], 1e-10);
    for (int i = 0; i < 4; i++)  assert_near(t->y[36 + i], tail[i], 1e-10);
    for (int i = 0; i < 12; i++) assert_near(t->final[i], last[i], 1e-10);
}

static void assert_golden_gradients(const bench *t)
{
    assert_sums(t->grad[DX],       40, -0.05494335104425, -332.2162876405);
    assert_sums(t->grad[DDT],      20, 3.139925309713, 16.03877028381);
    assert_sums(t->grad[DA_LOG],   2,  1.619409218976, 2.179654474424);
    assert_sums(t->grad[DBM],      30, 13.50579791441, 204.2531831111);
    assert_sums(t->grad[DCM],      30, 16.40638127064, 209.2037878834);
    assert_sums(t->grad[DSKIP],    2,  1.400457928676, 2.418983872819);
    assert_sums(t->grad[DDT_BIAS], 2,  3.139925309713, 6.637437377607);
    assert_sums(t->grad[DINITIAL], 12, 1.539980843331, 10.35731640384);
}

static void recurrence_gives_the_golden_values(void **state)
{
    (void)state;
    bench t;
    golden_init(&t);
    mba_ref_call f = call_of(&t, false), b = call_of(&t, true);
    ssd_ref(&f);
    ssd_bwd_ref(&b);
    assert_golden_outputs(&t);
    assert_golden_gradients(&t);
    bench_free(&t);
}

static void chunks_give_the_golden_values(void **state)
{
    (void)state;
    bench t;
    golden_init(&t);
    mba_ref_call f = call_of(&t, false), b = call_of(&t, true);
    ssd_chunked_ref(&f);
    ssd_bwd_chunked_ref(&b);
    assert_golden_outputs(&t);
    assert_golden_gradients(&t);
    ssd_parts p = ssd_parts_of(&f);
    assert_sums(p.dt, 24, 18.49021729055, 199.6125216655);
    assert_sums(p.cs, 24, -72.08165376575, -888.1966882919);
    assert_sums(p.S,  36, 1.254006959909, -52.65271360160);
    assert_sums(p.H,  36, 7.675529818051, 218.3575414426);
    assert_sums(p.CB, 48, 0.4457935122383, 28.47010455860);
    ssd_parts_free(&p);
    bench_free(&t);
}

/* ---- chunks against the recurrence ---- */

static void assert_same(const double *x, const double *y, int64_t n, double tolerance)
{
    double top = 0;
    for (int64_t i = 0; i < n; i++) top = fmax(top, fabs(y[i]));
    assert_true(top > 0);
    for (int64_t i = 0; i < n; i++) assert_near(x[i], y[i], tolerance * top);
}

static void compare_with_chunks_of(int64_t chunk, int has)
{
    bench a, b;
    const int64_t d[6] = { 2, 300, 4, 3, 2, 5 };              // 300 leaves a ragged end for every chunk
    bench_init(&a, d, chunk, has);
    bench_init(&b, d, chunk, has);
    for (int k = 0; k < SLOTS_IN; k++)
        for (int64_t i = 0; a.in[k] && i < elems(&a, k); i++)
            a.in[k][i] = b.in[k][i] = k == IDS ? (double)(i * i % 47 / 31) : sin(1.3 * (double)i + k + (double)(i % 7));
    mba_ref_call f = call_of(&a, false), g = call_of(&b, false), df = call_of(&a, true), dg = call_of(&b, true);
    ssd_ref(&f);          ssd_bwd_ref(&df);
    ssd_chunked_ref(&g);  ssd_bwd_chunked_ref(&dg);
    assert_same(b.y, a.y, elems(&a, X), 1e-10);
    assert_same(b.final, a.final, elems(&a, INITIAL), 1e-10);
    const int of[SLOTS_OUT] = { X, DT, BM, CM, A_LOG, SKIP, DT_BIAS, INITIAL };
    for (int k = 0; k < SLOTS_OUT; k++) assert_same(b.grad[k], a.grad[k], elems(&a, of[k]), 1e-10);
    bench_free(&a);
    bench_free(&b);
}

static void chunks_equal_the_recurrence(void **state)
{
    (void)state;
    const int64_t chunk[] = { 1, 16, 64, 256, 300, 512 };
    for (size_t i = 0; i < sizeof chunk / sizeof *chunk; i++) {
        compare_with_chunks_of(chunk[i], 0);
        compare_with_chunks_of(chunk[i], RESETS);
    }
}

/* ---- the CPU path: graphs ---- */

static const mba_machine host = { .name = "host" };
static const mba_step    step = { .seed = 3 };

typedef struct job { mba_graph *g; mba_program *p; mba_reference *r; } job;

static bool is_leaf(const mba_tensor *t)
{
    return t->st->role == MBA_INPUT
        || (t->st->role == MBA_PARAM && !t->maker && !t->of && mba_dense(t) && t->needs_grad);
}

/* The same values in every program that has a leaf of this name and size. */
static void fill_leaves(job *j)
{
    for (int32_t k = 0; k < j->g->ntensors; k++) {
        const mba_tensor *t = j->g->tensors[k];
        for (int64_t i = 0; is_leaf(t) && i < mba_elems(t); i++) {
            const double v = t->bound                   ? (double)(i * i % 47 / 31)
                           : t->st->role == MBA_INPUT ? (double)(float)sin(0.7 * (double)i) : mba_init_value(t, 9, i);
            if (t->bound) ((int32_t *)mba_program_at(j->p, t))[i] = (int32_t)v;
            else          ((float *)mba_program_at(j->p, t))[i] = (float)v;
            if (j->r) mba_reference_at(j->r, t)[i] = v;
        }
    }
}

/* Ends of the graph get a gradient, leaves their values, then everything runs. */
static void job_run(job *j, bool with_reference)
{
    mba_graph  *g = j->g;
    mba_tensor *out[4], *seed[4];
    int         n = 0;
    for (int32_t i = 0; i < g->nnodes; i++)
        for (int k = 0; k <= FINAL; k++) {
            mba_tensor *t = g->nodes[i]->op == &mba_op_ssd ? g->nodes[i]->out[k] : NULL;
            bool used = !t;
            for (int32_t m = i + 1; !used && m < g->nnodes; m++)
                for (int s = 0; s < MBA_IN_MAX; s++) used |= g->nodes[m]->in[s] && g->nodes[m]->in[s]->st == t->st;
            if (used) continue;
            out[n]    = mba_result(g, mba_arena_printf(g->arena, "out.%d", n), t);
            seed[n]   = mba_input(g, mba_arena_printf(g->arena, "seed.%d", n), t->type);
            n++;
        }
    assert_ok(mba_backward_from(g, n, out, seed));
    assert_ok(mba_program_create(&j->p, g, &(mba_program_options){ .machine = &host }));
    assert_ok(mba_program_bind(j->p, &mba_device_cpu));
    if (with_reference) assert_ok(mba_reference_create(&j->r, g));
    memset(j->p->memory[MBA_ACT], 0xff, j->p->layout.arena_bytes[MBA_ACT]);
    fill_leaves(j);
    assert_ok(mba_program_run(j->p, MBA_FORWARD | MBA_BACKWARD, &step, NULL));
    if (j->r) mba_reference_run(j->r, MBA_FORWARD | MBA_BACKWARD, &step);
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
    job j = { 0 };
    assert_ok(mba_graph_create(&j.g));
    mba_op_ssd.build(j.g, &c);
    assert_ok(mba_graph_status(j.g));
    return j;
}

static bool is_answer(const mba_tensor *t)
{
    return t->st->role == MBA_RESULT || (t->st->role == MBA_GRAD && t->maker && mba_dense(t));
}

static void same_bits_at_any_thread_count(void **state)
{
    (void)state;
    const mba_case cases[] = { { { 1, 70, 24, 8, 1, 16, 16, SKIP_HEAD | BIAS | RESETS | STATES }, "blocks of heads" },
                               { { 3, 45,  4, 5, 2,  7, 16, SKIP_FULL | BIAS }, "odd sizes" } };
    const int before = mba_cpu_threads();
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

/* More threads than the plan was made for, and fewer, must not leave its scratch. */
static void thread_count_may_change_after_planning(void **state)
{
    (void)state;
    const int before = mba_cpu_threads();
    mba_cpu_set_threads(1);
    job j = job_of((mba_case){ { 1, 70, 6, 8, 1, 16, 16, SKIP_HEAD }, "" });
    job_run(&j, false);
    const mba_tensor *y = NULL;
    for (int32_t k = 0; k < j.g->ntensors; k++) if (j.g->tensors[k]->st->role == MBA_RESULT) y = j.g->tensors[k];
    assert_non_null(y);
    const size_t bytes = sizeof(float) * (size_t)mba_elems(y);
    float       *once  = malloc(bytes);
    assert_non_null(once);
    memcpy(once, mba_program_at(j.p, y), bytes);
    mba_cpu_set_threads(3);
    assert_ok(mba_program_run(j.p, MBA_FORWARD | MBA_BACKWARD, &step, NULL));
    assert_memory_equal(once, mba_program_at(j.p, y), bytes);
    free(once);
    job_free(&j);
    mba_cpu_set_threads(before);
}

/* A value is off by at most what its own sum and those it is made of may cost: the rule of core/check.c. */
static void assert_within_tolerance(const job *j)
{
    double units = 0;
    int    seen  = 0;
    for (int32_t i = 0; i < j->g->nnodes; i++) {
        const mba_node *n = j->g->nodes[i];
        double          K = 1;
        for (int k = 0; k < MBA_OUT_MAX && n->op->terms; k++) if (n->out[k]) K = fmax(K, n->op->terms(n, k));
        units += 8 + 4 * sqrt(K);
    }
    for (int32_t k = 0; k < j->g->ntensors; k++) {
        const mba_tensor *t = j->g->tensors[k];
        if (!is_answer(t)) continue;
        const double *want = mba_reference_at(j->r, t);
        const float  *have = mba_program_at(j->p, t);
        double        top  = 0;
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
        { { 1, 150,  2, 64, 1, 128, 256, SKIP_HEAD | BIAS }, "heads of mamba2-130m" },
        { { 2,  70, 26, 16, 1,  16,  64, SKIP_HEAD | BIAS | RESETS | STATES }, "blocks of two heads" },
        { { 4,  33, 32,  4, 8,   8,  64, SKIP_FULL | BIAS | STATES }, "several slabs, eight groups" } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        job j = job_of(cases[i]);
        job_run(&j, true);
        assert_within_tolerance(&j);
        job_free(&j);
    }
}

/* ---- a sequence in two halves ---- */

typedef struct leaves { mba_tensor *x, *dt, *B, *C, *A_log, *D, *bias, *first; } leaves;

static leaves leaves_of(mba_graph *g, int64_t B, int64_t L, int64_t H, int64_t P, int64_t G, int64_t N)
{
    const mba_init one = MBA_INIT_NORMAL(1);
    return (leaves){
        .x  = mba_param(g, "x",  MBA_TYPE(MBA_F32, B, L, H, P), one, MBA_DECAY),
        .dt = mba_param(g, "dt", MBA_TYPE(MBA_F32, B, L, H), one, MBA_DECAY),
        .B  = mba_param(g, "B",  MBA_TYPE(MBA_F32, B, L, G, N), one, MBA_DECAY),
        .C  = mba_param(g, "C",  MBA_TYPE(MBA_F32, B, L, G, N), one, MBA_DECAY),
        .A_log = mba_param(g, "A_log", MBA_TYPE(MBA_F32, H), MBA_INIT_LOG_UNIFORM(0.2, 4), MBA_DECAY),
        .D     = mba_param(g, "D", MBA_TYPE(MBA_F32, H), one, MBA_DECAY),
        .bias  = mba_param(g, "bias", MBA_TYPE(MBA_F32, H), MBA_INIT_STEP(1e-3, 0.1), MBA_DECAY),
        .first = mba_param(g, "first", MBA_TYPE(MBA_F32, B, H, P, N), one, MBA_DECAY) };
}

enum { SPLIT_H = 2, SPLIT_P = 16, SPLIT_N = 32, SPLIT_ROW = SPLIT_H * SPLIT_P };

/* The tokens from .. from + count of a sequence, as results of the program. */
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
    for (int64_t i = 0; i < n; i++) if (fabsf(x[i]) > top) top = fabsf(x[i]);
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
    const double rounding = 2 * (8 + 4 * sqrt(mba_op_ssd.terms(y->maker, Y))) / 16777216;     // of two nodes
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
    split_equals_whole(1, 2 * SSD_CHUNK + 9, SSD_CHUNK);      // at the end of a chunk of the CPU: the same bits
    split_equals_whole(2, 2 * SSD_CHUNK + 9, SSD_CHUNK);      // the slices are windows
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

/* Launches of the same kernels: `persistent` has the tiles of `chunked` in fewer blocks, `bc_fused` one launch less and
 * no C B^T among its scratch. */
static void steps_of_the_ladder_differ_from_chunked_in_one_thing(void **state)
{
    (void)state;
    static const mba_case peer = { { 4, 4096, 64, 64, 1, 128, 256, SKIP_HEAD | BIAS | MODEL }, "mamba2-1.3b" };
    enum { WAYS = 3 };                            // chunked, persistent, bc_fused follow `fused` in the list
    mba_case_graph o;
    assert_ok(mba_case_build(&o, &mba_op_ssd, &peer, (mba_case_how){ .compute = MBA_BF16 }));
    for (size_t m = 0; m < sizeof machines / sizeof *machines; m++)
        for (int32_t i = 0; i < o.g->nnodes; i++) {
            const mba_node *n = o.g->nodes[i];
            mba_plan        plan[WAYS];
            if (n->op != &mba_op_ssd && n->op != &mba_op_ssd_bwd) continue;
            for (int k = 0; k < WAYS; k++)
                assert_ok(mba_plan_variant(&plan[k], NULL, o.g->arena, n, &n->op->cuda[1 + k], &machines[m]));
            assert_string_equal(plan[1].variant, "persistent");
            assert_int_equal(plan[1].nlaunches, plan[0].nlaunches);
            assert_int_equal(plan[2].nlaunches, plan[0].nlaunches - 1);
            assert_int_equal(plan[2].scratch[SSD_CB_WORK].bytes, 0);
            for (int k = 0; k < plan[1].nlaunches; k++) {
                const mba_launch *all = &plan[0].launch[k], *few = &plan[1].launch[k];
                assert_string_equal(few->kernel, all->kernel);
                assert_int_equal(few->tiles, all->grid[0]);
                assert_true(few->persistent && few->grid[0] <= few->tiles && few->grid[0] > 0);
                assert_true(few->grid[0] == few->tiles || few->grid[0] % machines[m].sm == 0);
            }
        }
    mba_graph_destroy(o.g);
}

/* Whether the backward of a case begins by making again what the forward has had. */
static bool remakes(const mba_case *c, mba_case_how how, const char *variants)
{
    mba_case_graph o;
    mba_program   *p;
    bool           prepares = false, keeps = false;
    assert_ok(mba_case_build(&o, &mba_op_ssd, c, how));
    assert_ok(mba_program_create(&p, o.g, &(mba_program_options){ .cuda = true, .machine = &machines[1],
                                                                  .variants = variants }));
    for (int32_t i = 0; i < o.g->nnodes; i++) {
        const mba_node *n = o.g->nodes[i];
        if (n->op == &mba_op_ssd)     keeps = n->out[KEPT_STATES] != NULL;
        if (n->op == &mba_op_ssd_bwd) prepares = !strcmp(p->plan[i]->launch[0].kernel, "ssd_prep");
        if (n->op == &mba_op_ssd_bwd) assert_string_equal(p->plan[i]->variant, "fused");
    }
    assert_int_equal(keeps, !how.recompute);
    mba_program_destroy(p);
    mba_graph_destroy(o.g);
    return prepares;
}

static void backward_takes_what_its_own_forward_kept(void **state)
{
    (void)state;
    const mba_case c = { { 2, 200, 4, 64, 2, 128, 64, SKIP_HEAD | BIAS | RESETS }, "fused" };
    assert_false(remakes(&c, (mba_case_how){ .compute = MBA_BF16 }, NULL));
    assert_true(remakes(&c, (mba_case_how){ .compute = MBA_BF16 }, "ssd=chunked"));        // which writes none of it
    assert_true(remakes(&c, (mba_case_how){ .compute = MBA_BF16, .recompute = true }, NULL));
}

/* What the small cases of the operator do not reach: several tiles of P and N, of rows and of sources. */
static void cuda_matches_reference_at_the_sizes_of_the_models(void **state)
{
    (void)state;
    const mba_case cases[] = {
        { { 2, 700,  4,  64, 1, 128, 256, SKIP_HEAD | BIAS }, "mamba2-130m's heads, ragged" },
        { { 1, 600,  3,  64, 1, 128, 128, SKIP_HEAD | BIAS | RESETS | STATES }, "an odd head, documents, states" },
        { { 1, 300,  8,  64, 8, 128, 256, SKIP_HEAD | BIAS | WINDOWS }, "mamba2-headline's groups" },
        { { 1, 200,  3,  32, 1,  16,  64, SKIP_FULL | BIAS | STATES }, "small heads and states" },
        { { 2, 190,  2, 128, 2, 256,  64, SKIP_FULL | LIMITS | STATES }, "large heads and states" },
        { { 1, 500,  3,  40, 1,  72, 192, SKIP_HEAD | BIAS }, "tiles that are not full" },
        { { 1, 150,  9,  16, 1,  32, 128, SKIP_HEAD | BIAS | RESETS | STATES }, "four pairs of heads and an odd one" },
        { { 1,  64, 2, 64, 1, 128,  64, SKIP_HEAD | BIAS }, "fused: one chunk" },
        { { 2, 100, 4, 64, 2, 128,  64, SKIP_FULL | BIAS | WINDOWS }, "fused: a ragged chunk, groups, windows" },
        { { 1, 128, 2, 64, 1, 128, 128, SKIP_HEAD | LIMITS }, "fused: two chunks, limits of the step at work" },
        { { 3, 300, 4, 64, 1, 128,  64, BIAS }, "fused: five chunks, no D" },
        { { 2, 200, 6, 64, 1, 128,  64, SKIP_HEAD | BIAS | STRONG }, "fused: decays beyond the range of a pivot" },
        { { 1, 1100, 2, 64, 1, 128, 256, SKIP_HEAD | BIAS | WINDOWS }, "fused: segments of a sequence" },
        { { 1, 1100, 4, 64, 1, 128, 256, SKIP_HEAD | BIAS | STRONG | STATES },
            "fused: segments, states, strong decays" },
        { { 2, 190, 2, 64, 1, 128,  64, SKIP_HEAD | BIAS | STATES }, "fused: initial and final states" },
        { { 2, 200, 4, 64, 2, 128,  64, SKIP_HEAD | BIAS | RESETS | STATES }, "fused: a reset at every other token" },
        { { 2, 4500, 4, 64, 2, 128, 256, SKIP_HEAD | BIAS }, "fused: more pairs of chunks than SMs" } };
    const mba_device *d;
    int               bad = 0;
    if (mba_device_cuda(&d, 0) != MBA_OK) skip();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int half = 0; half < 2; half++) {
            mba_check w = { 0 };
            assert_ok(mba_check_case_on(&w, &mba_op_ssd, &cases[i], d, half ? MBA_BF16 : MBA_F32));
            const bool wrong = !(w.cpu_error <= 1) || w.strays;
            bad += wrong;
            printf("%s %s, %s: %.2f of its tolerance (%.1e relative), %d strays\n", wrong ? "BAD" : "   ",
                   cases[i].note, half ? "bf16" : "fp32", w.cpu_error, w.cpu_relative, w.strays);
        }
    assert_int_equal(bad, 0);
}

/* ---- how the walks of `fused` are cut ---- */

static void check_cuts(const ssd_cuts *r, int64_t sms)
{
    int64_t again = 0;
    assert_in_range(r->blocks, 1, sms);
    assert_int_equal(r->at[0], 0);
    assert_int_equal(r->at[r->blocks], r->items * r->K);
    assert_int_equal(r->handed, r->how == SSD_HANDED ? r->blocks : 0);
    assert_true((r->how == SSD_AGAIN) == (r->blocks > r->items));      // by this a launcher knows
    for (int64_t j = 0; j < r->blocks; j++) {
        const int64_t before = r->at[j] % r->K;
        assert_true(r->at[j] < r->at[j + 1]);
        if (!before) continue;
        assert_true(r->at[j - r->before[j]] <= r->at[j] - before);
        if (r->how == SSD_HANDED) assert_int_equal(r->before[j], 1);   // the block before begins the item: no chain
        else                      assert_int_equal(before % 2, 0);     // what is walked again goes by two
        again += before;
    }
    assert_int_equal(r->again, r->how == SSD_AGAIN ? again : 0);
}

static void cuts_cover_every_chunk_once(void **state)
{
    (void)state;
    const int64_t batch[] = { 1, 2, 3, 4, 8, 300 }, heads[] = { 2, 4, 24, 32, 64, 80, 128 };
    const int64_t length[] = { 1, 64, 65, 300, 512, 1100, 2048, 4096, 32768, 131072 };
    const int64_t sms[] = { 1, 2, 3, 7, 114, 132, 400 };
    int           seen[3] = { 0 };
    for (int i = 0; i < 6 * 10 * 7 * 7 * 2; i++) {
        const bool     backward = i / 420 % 2;
        const int64_t  n = sms[i / 840 % 7];
        const int64_t  H = heads[i / 60 % 7];
        const ssd_dims d = { .B = batch[i % 6], .L = length[i / 6 % 10], .H = H, .P = 64, .N = 128, .G = 1, .J = H };
        const ssd_cuts r = ssd_cuts_of(&d, n, backward);
        seen[r.how]++;
        if (r.how == SSD_UNCUT) continue;
        check_cuts(&r, n);
        const ssd_cuts again = ssd_cuts_as(&d, r.how, r.blocks, backward);
        assert_memory_equal(&again, &r, sizeof r);     // what a launcher makes of the plan
    }
    for (int k = 0; k < 3; k++) assert_true(seen[k] > 0);
}

MBA_TEST_MAIN(cmocka_unit_test(recurrence_gives_the_golden_values), cmocka_unit_test(chunks_give_the_golden_values),
              cmocka_unit_test(chunks_equal_the_recurrence), cmocka_unit_test(same_bits_at_any_thread_count),
              cmocka_unit_test(thread_count_may_change_after_planning),
              cmocka_unit_test(cpu_matches_reference_at_the_sizes_of_the_models),
              cmocka_unit_test(steps_of_the_ladder_differ_from_chunked_in_one_thing),
              cmocka_unit_test(cuda_matches_reference_at_the_sizes_of_the_models),
              cmocka_unit_test(cuts_cover_every_chunk_once),
              cmocka_unit_test(a_sequence_in_two_halves_equals_the_whole), cmocka_unit_test(refuses_what_does_not_fit),
              cmocka_unit_test(backward_takes_what_its_own_forward_kept))
