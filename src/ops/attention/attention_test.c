// SPDX-License-Identifier: Apache-2.0
/* attention_test.c -- golden values, and properties beyond agreement with the reference: causality and thread counts to
 * the bit, packed documents equal separate ones, groups equal repeated heads, no overflow. */
#include "tests/test.h"

#include "core/check.h"
#include "core/program.h"
#include "ops/add/add.h"
#include "ops/attention/attention.h"
#include "ops/attention/attention_slots.h"
#include "ops/rotary/rotary.h"
#include "tests/gpu_cases.h"

/* ---- a trial: attention over columns q | k | v of one matrix, forward and backward, in fp32 and fp64 ---- */

typedef struct trial {
    int64_t        B, L, Lk, H, Hk, P; /* Lk 0: Lk = L, and q, k, v are packed */
    bool           causal, ids;
    double         scale;
    mba_graph     *g;
    mba_program   *p;
    mba_reference *r;
    mba_tensor    *q, *k, *v, *id, *o, *lse, *seed, *x; /* x: the packed matrix, or NULL */
} trial;

static mba_tensor *columns(mba_graph *g, mba_tensor *x, int64_t from, int64_t H, int64_t P)
{
    return mba_reshape(g, mba_slice(g, x, 2, from, H * P), MBA_TYPE(MBA_F32, x->type.dim[0], x->type.dim[1], H, P));
}

static mba_tensor *leaf(mba_graph *g, const char *name, int64_t B, int64_t L, int64_t H, int64_t P)
{
    return mba_param(g, name, MBA_TYPE(MBA_F32, B, L, H, P), MBA_INIT_NORMAL(1), MBA_DECAY);
}

static trial *begin(trial *t)
{
    static const mba_machine host = { .name = "host" };
    const int64_t            B = t->B, L = t->L, H = t->H, Hk = t->Hk, P = t->P;
    assert_ok(mba_graph_create(&t->g));
    if (t->Lk) {
        t->q = leaf(t->g, "q", B, L, H, P);
        t->k = leaf(t->g, "k", B, t->Lk, Hk, P);
        t->v = leaf(t->g, "v", B, t->Lk, Hk, P);
    } else {
        t->x = mba_param(t->g, "qkv", MBA_TYPE(MBA_F32, B, L, (H + 2 * Hk) * P), MBA_INIT_NORMAL(0.5), MBA_DECAY);
        mba_tensor *both = mba_add(t->g, t->x, t->x);
        t->q = columns(t->g, both, 0, H, P);
        t->k = columns(t->g, both, H * P, Hk, P);
        t->v = columns(t->g, both, (H + Hk) * P, Hk, P);
    }
    if (t->ids) t->id = mba_index(t->g, "ids", MBA_TYPE(MBA_I32, B, L), 1000);
    t->o = mba_attention(t->g, .q = t->q, .k = t->k, .v = t->v, .ids = t->id, .causal = t->causal, .scale = t->scale);
    assert_ok(mba_graph_status(t->g));
    t->lse = mba_result(t->g, "lse", t->o->producer_node->out[LSE]);
    t->o = mba_result(t->g, "o", t->o);
    t->seed = mba_input(t->g, "seed", t->o->type);
    assert_ok(mba_backward_from(t->g, 1, &t->o, &t->seed));
    assert_ok(mba_program_create(&t->p, t->g, &(mba_program_options){ .machine = &host }));
    assert_ok(mba_program_bind(t->p, &mba_device_cpu));
    assert_ok(mba_reference_create(&t->r, t->g));
    return t;
}

static void end(trial *t)
{
    mba_reference_destroy(t->r);
    mba_program_destroy(t->p);
    mba_graph_destroy(t->g);
}

static float *at(const trial *t, const mba_tensor *x) { return mba_program_at(t->p, x); }

static mba_tensor gradient(const mba_tensor *x) /* the same view of the gradient's storage */
{
    mba_tensor g = *x;
    g.st = x->st->grad;
    return g;
}

static float *gradient_at(const trial *t, const mba_tensor *x)
{
    const mba_tensor g = gradient(x);
    return mba_program_at(t->p, &g);
}

/* Fills x with values that differ everywhere, the same in fp32 and fp64. */
static void fill(const trial *t, const mba_tensor *x, double amplitude, double frequency, double phase)
{
    for (int64_t i = 0; i < mba_elems(x); i++) {
        const float value = (float)(amplitude * sin(frequency * (double)i + phase));
        at(t, x)[i] = value;
        mba_reference_at(t->r, x)[i] = value;
    }
}

static void set_id(const trial *t, int64_t i, int32_t id)
{
    ((int32_t *)mba_program_at(t->p, t->id))[i] = id;
    mba_reference_at(t->r, t->id)[i] = id;
}

static void fill_all(const trial *t)
{
    mba_tensor *const leaves[] = { t->q, t->k, t->v };
    if (t->x) fill(t, t->x, 0.9, 0.618034, 0.2);
    for (int i = 0; i < 3 && !t->x; i++) fill(t, leaves[i], 1.3, 0.7 + 0.11 * i, 0.1 * i);
    fill(t, t->seed, 1, 0.3, 0.7);
}

static void run(const trial *t)
{
    assert_ok(mba_program_run(t->p, MBA_FORWARD | MBA_BACKWARD, &(mba_step){ 0 }, NULL));
}

/* The bound of core/check.c for sums of `terms` terms, forward and backward, relative to the largest value. */
static double bound(double terms) { return 2 * (8 + 4 * sqrt(terms)) / 16777216; }

static void assert_agrees(const trial *t, const mba_tensor *x, double terms)
{
    const double *want = mba_reference_at(t->r, x);
    double        top = 0;
    for (int64_t i = 0; i < mba_elems(x); i++) top = fmax(top, fabs(want[i]));
    for (int64_t i = 0; i < mba_elems(x); i++) assert_near(at(t, x)[i], want[i], top * bound(terms));
}

/* ---- the claims ---- */

static void golden_rotary_and_attention(void **state)
{
    (void)state;
    static const mba_machine host = { .name = "host" };
    enum { L = 4, H = 2, P = 4 };
    const double o[2][8] = { { 0.4794255386, 0.9635581854, 0.8632093666, 0.2392493292, 0.4794255386, 0.9635581854,
                               0.8632093666, 0.2392493292 },
                             { 0.0839482004, 0.1709655042, 0.1542774272, 0.0440067331, -0.1961839981, -0.2785485982,
                               -0.1919493565, 0.0110837892 } };
    const double lse[8] = { 1.1466236963,  0.7425955277, 1.4525331439, 1.4922574162,
                            -0.9851310750, 1.0616794755, 0.8656187948, 1.6833749999 };
    const double sums[3][2] = { { -0.7565722446859, 14.50591527078 },
                                { -0.2239323704865, -0.4950946014473 },
                                { 5.356319223861, 13.81273528035 } };
    const double wave[3][2] = { { 0.7, 0.1 }, { 0.6, 0.4 }, { 0.8, 0.5 } };
    trial        t = { 0 };
    assert_ok(mba_graph_create(&t.g));
    mba_tensor *x[3] = { leaf(t.g, "q", 1, L, H, P), leaf(t.g, "k", 1, L, 1, P), leaf(t.g, "v", 1, L, 1, P) };
    t.o = mba_attention(t.g, .q = mba_rotary(t.g, x[0], 2, 10000, false), .k = mba_rotary(t.g, x[1], 2, 10000, false),
                        .v = x[2], .causal = true);
    t.lse = mba_result(t.g, "lse", t.o->producer_node->out[LSE]);
    t.o = mba_result(t.g, "o", t.o);
    t.seed = mba_input(t.g, "seed", t.o->type);
    assert_ok(mba_backward_from(t.g, 1, &t.o, &t.seed));
    assert_ok(mba_program_create(&t.p, t.g, &(mba_program_options){ .machine = &host }));
    assert_ok(mba_program_bind(t.p, &mba_device_cpu));
    assert_ok(mba_reference_create(&t.r, t.g));
    for (int i = 0; i < 3; i++) fill(&t, x[i], 1, wave[i][0], wave[i][1]);
    fill(&t, t.seed, 1, 0.3, 0.7);
    run(&t);
    for (int i = 0; i < 3; i++) // the golden values come from unrounded inputs
        for (int64_t k = 0; k < mba_elems(x[i]); k++)
            mba_reference_at(t.r, x[i])[k] = sin(wave[i][0] * (double)k + wave[i][1]);
    for (int64_t k = 0; k < mba_elems(t.seed); k++) mba_reference_at(t.r, t.seed)[k] = sin(0.3 * (double)k + 0.7);
    assert_ok(mba_reference_run(t.r, MBA_FORWARD | MBA_BACKWARD, &(mba_step){ 0 }));
    for (int i = 0; i < 8; i++) {
        assert_near(mba_reference_at(t.r, t.o)[i], o[0][i], 1e-10);
        assert_near(mba_reference_at(t.r, t.o)[24 + i], o[1][i], 1e-10);
        assert_near(mba_reference_at(t.r, t.lse)[i], lse[i], 1e-10);
    }
    for (int i = 0; i < 3; i++) {
        const mba_tensor d = gradient(x[i]);
        double           sum[2] = { 0 };
        for (int64_t k = 0; k < mba_elems(&d); k++) {
            sum[0] += mba_reference_at(t.r, &d)[k];
            sum[1] += (double)(k + 1) * mba_reference_at(t.r, &d)[k];
        }
        for (int k = 0; k < 2; k++) assert_near(sum[k], sums[i][k], 1e-11 * fmax(1, fabs(sums[i][k])));
        assert_agrees(&t, &d, L * H + P);
    }
    assert_agrees(&t, t.o, L + P);
    assert_agrees(&t, t.lse, L + P);
    end(&t);
}

/* Shapes too large for finite differences: full heads, several tiles in each direction, views. */
static void large_shapes_agree_with_the_reference(void **state)
{
    (void)state;
    trial shapes[] = { { .B = 2, .L = 200, .H = 6, .Hk = 2, .P = 64, .causal = true },
                       { .B = 1, .L = 97, .H = 2, .Hk = 2, .P = 80, .causal = true, .ids = true },
                       { .B = 40, .L = 49, .H = 2, .Hk = 1, .P = 33 }, // a work item is a whole group
                       { .B = 1, .L = 50, .Lk = 210, .H = 2, .Hk = 1, .P = 128 } };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        trial *t = begin(&shapes[i]);
        fill_all(t);
        for (int64_t k = 0; t->ids && k < t->B * t->L; k++) set_id(t, k, (int32_t)(k / 30));
        run(t);
        assert_ok(mba_reference_run(t->r, MBA_FORWARD | MBA_BACKWARD, &(mba_step){ 0 }));
        const double terms = (double)(t->P + t->L * t->H / t->Hk + t->Lk);
        assert_agrees(t, t->o, terms);
        assert_agrees(t, t->lse, terms);
        mba_tensor *const leaves[] = { t->x ? t->x : t->q, t->k, t->v };
        for (int k = 0; k < (t->x ? 1 : 3); k++) {
            const mba_tensor d = gradient(leaves[k]);
            assert_agrees(t, &d, terms);
        }
        end(t);
    }
}

/* If later tokens change, earlier outputs keep all their bits. */
static void earlier_outputs_do_not_see_later_tokens(void **state)
{
    (void)state;
    enum { L = 230, H = 3, P = 20, WIDTH = (H + 2) * P };
    trial       *t = begin(&(trial){ .B = 1, .L = L, .H = H, .Hk = 1, .P = P, .causal = true });
    static float before[L * H * P];
    const int    cuts[] = { 1, 63, 64, 95, 100, 229 };
    for (int i = 0; i < 6; i++) {
        fill_all(t);
        run(t);
        memcpy(before, at(t, t->o), sizeof before);
        for (int k = cuts[i] * WIDTH; k < L * WIDTH; k++) at(t, t->x)[k] = (float)cos(k) * 5;
        run(t);
        assert_memory_equal(before, at(t, t->o), sizeof(float) * (size_t)(cuts[i] * H * P));
        assert_memory_not_equal(before, at(t, t->o), sizeof before);
    }
    end(t);
}

/* Three documents packed in one row, compared with three rows of their own. */
static void documents_are_as_if_alone(void **state)
{
    (void)state;
    enum { H = 2, P = 9, WIDTH = 4 * P, L = 70 + 1 + 110 };
    const int64_t from[4] = { 0, 70, 71, L };
    for (int causal = 0; causal < 2; causal++) {
        trial *t = begin(&(trial){ .B = 1, .L = L, .H = H, .Hk = 1, .P = P, .causal = causal, .ids = true });
        fill_all(t);
        for (int i = 0; i < 3; i++)
            for (int64_t k = from[i]; k < from[i + 1]; k++) set_id(t, k, 7 - i);
        run(t);
        for (int i = 0; i < 3; i++) {
            const int64_t n = from[i + 1] - from[i];
            trial        *alone = begin(&(trial){ .B = 1, .L = n, .H = H, .Hk = 1, .P = P, .causal = causal });
            memcpy(at(alone, alone->x), at(t, t->x) + from[i] * WIDTH, sizeof(float) * (size_t)(n * WIDTH));
            memcpy(at(alone, alone->seed), at(t, t->seed) + from[i] * H * P, sizeof(float) * (size_t)(n * H * P));
            run(alone);
            for (int64_t k = 0; k < n * H * P; k++)
                assert_near(at(t, t->o)[from[i] * H * P + k], at(alone, alone->o)[k], 2 * bound(L + P));
            for (int64_t k = 0; k < n * WIDTH; k++) // values below 2, gradients below 8
                assert_near(gradient_at(t, t->x)[from[i] * WIDTH + k], gradient_at(alone, alone->x)[k],
                            8 * bound(L * H + P));
            end(alone);
        }
        end(t);
    }
}

/* Grouped heads equal heads with repeated k and v; dk and dv are sums over the repetitions. */
static void groups_are_as_if_repeated(void **state)
{
    (void)state;
    enum { L = 101, H = 6, HK = 2, G = H / HK, P = 12 };
    trial *t = begin(&(trial){ .B = 1, .L = L, .Lk = L, .H = H, .Hk = HK, .P = P, .causal = true });
    trial *u = begin(&(trial){ .B = 1, .L = L, .Lk = L, .H = H, .Hk = H, .P = P, .causal = true });
    fill_all(t);
    fill_all(u);
    for (int64_t i = 0; i < L * H * P; i++) {
        const int64_t e = i % P, h = i / P % H, s = i / P / H, from = (s * HK + h / G) * P + e;
        at(u, u->k)[i] = at(t, t->k)[from];
        at(u, u->v)[i] = at(t, t->v)[from];
    }
    run(t);
    run(u);
    assert_memory_equal(at(t, t->o), at(u, u->o), sizeof(float) * L * H * P);
    assert_memory_equal(gradient_at(t, t->q), gradient_at(u, u->q), sizeof(float) * L * H * P);
    for (int64_t i = 0; i < L * HK * P; i++) {
        const int64_t e = i % P, h = i / P % HK, s = i / P / HK;
        double        dk = 0, dv = 0;
        for (int64_t j = 0; j < G; j++) {
            dk += gradient_at(u, u->k)[(s * H + h * G + j) * P + e];
            dv += gradient_at(u, u->v)[(s * H + h * G + j) * P + e];
        }
        assert_near(gradient_at(t, t->k)[i], dk, bound(G) * (1 + fabs(dk))); // only the sums round differently
        assert_near(gradient_at(t, t->v)[i], dv, bound(G) * (1 + fabs(dv)));
    }
    end(u);
    end(t);
}

/* Equal keys make every probability 1/Lk: the output is the mean value, and LSE is score + log Lk. */
static void equal_keys_give_the_mean_value(void **state)
{
    (void)state;
    enum { L = 5, LK = 77, P = 3 };
    trial *t = begin(&(trial){ .B = 1, .L = L, .Lk = LK, .H = 1, .Hk = 1, .P = P, .scale = 2 });
    fill_all(t);
    double mean[P] = { 0 };
    for (int i = 0; i < LK * P; i++) {
        at(t, t->k)[i] = i % P == 0;
        mean[i % P] += at(t, t->v)[i] / LK;
    }
    run(t);
    for (int i = 0; i < L * P; i++) assert_near(at(t, t->o)[i], mean[i % P], bound(LK));
    for (int i = 0; i < L; i++) assert_near(at(t, t->lse)[i], 2 * at(t, t->q)[i * P] + log(LK), 8 * bound(P));
    for (int i = 0; i < L * P; i++) assert_near(gradient_at(t, t->q)[i], 0, bound(LK)); // no query prefers any key
    end(t);
}

/* Scores of +-40000, whose exponentials overflow: the largest dominates, and everything stays finite. */
static void large_scores_do_not_overflow(void **state)
{
    (void)state;
    enum { L = 150, P = 4 };
    for (int sign = -1; sign <= 1; sign += 2) {
        trial *t = begin(&(trial){ .B = 1, .L = L, .Lk = L, .H = 1, .Hk = 1, .P = P, .causal = true, .scale = 1 });
        fill_all(t);
        for (int i = 0; i < L; i++)
            for (int e = 0; e < P; e++) {
                at(t, t->q)[i * P + e] = e == 0 ? 200.0f : 0;
                at(t, t->k)[i * P + e] = e == 0 ? (float)(sign * (50 + i)) : 0; // scores rise or fall by 200 per key
            }
        run(t);
        for (int i = 0; i < L; i++) {
            const int winner = sign > 0 ? i : 0;
            assert_near(at(t, t->lse)[i], 200.0 * sign * (50 + winner), 0.02); // a relative error of 2^-21
            for (int e = 0; e < P; e++) assert_near(at(t, t->o)[i * P + e], at(t, t->v)[winner * P + e], 1e-6);
        }
        for (int i = 0; i < L * P; i++) {
            assert_true(isfinite(gradient_at(t, t->q)[i]) && isfinite(gradient_at(t, t->k)[i]));
            assert_true(isfinite(gradient_at(t, t->v)[i]));
        }
        end(t);
    }
}

/* Results have the same bits with 1, 2 and 3 threads, whatever number of threads the plan was made for. */
static void threads_do_not_change_bits(void **state)
{
    (void)state;
    const int     threads = mba_cpu_threads();
    const int64_t batch[] = { 2, 20 }; // work items are query heads, then whole groups
    for (int i = 0; i < 2; i++) {
        const int64_t B = batch[i], L = 120, outs = B * L * 4 * 10, grads = B * L * 8 * 10;
        float        *o = malloc(sizeof(float) * (size_t)outs), *d = malloc(sizeof(float) * (size_t)grads);
        assert_true(o && d);
        for (int planned = 1; planned <= 3; planned += 2)
            for (int running = 1; running <= 3; running++) {
                mba_cpu_set_threads(planned);
                trial *t = begin(&(trial){ .B = B, .L = L, .H = 4, .Hk = 2, .P = 10, .causal = true });
                mba_cpu_set_threads(running);
                fill_all(t);
                run(t);
                const bool first = planned == 1 && running == 1;
                if (first) memcpy(o, at(t, t->o), sizeof(float) * (size_t)outs);
                if (first) memcpy(d, gradient_at(t, t->x), sizeof(float) * (size_t)grads);
                assert_memory_equal(o, at(t, t->o), sizeof(float) * (size_t)outs);
                assert_memory_equal(d, gradient_at(t, t->x), sizeof(float) * (size_t)grads);
                end(t);
            }
        free(o);
        free(d);
    }
    mba_cpu_set_threads(threads);
}

/* Hybrid spec, section 4.3. */
static void cost_counts_the_pairs_below_the_diagonal(void **state)
{
    (void)state;
    const double B = 2, L = 9, H = 6, P = 5;
    trial       *t = begin(&(trial){ .B = 2, .L = 9, .H = 6, .Hk = 3, .P = 5, .causal = true });
    int          checked = 0;
    for (int32_t i = 0; i < t->g->nnodes; i++) {
        const mba_node *n = t->g->nodes[i];
        const bool      forward = n->op == &mba_op_attention;
        if (!forward && n->op != &mba_op_attention_bwd) continue;
        const mba_cost c = n->op->cost(n);
        assert_near(c.tensor_flops, (forward ? 2 : 5) * B * H * P * L * (L + 1), 0);
        assert_near(c.special_ops, B * H * L * (L + 1) / 2, 0);
        checked++;
    }
    assert_int_equal(checked, 2);
    end(t);
}

/* The rows of a later part of a sequence see all keys of the parts before it. */
static void queries_are_the_last_rows_of_a_causal_sequence(void **state)
{
    (void)state;
    static const mba_case cases[] = { { { 2, 3, 2, 1, 3, CAUSAL, 5 }, "fewer keys before than a tile" },
                                      { { 1, 1, 2, 2, 4, CAUSAL, 70 }, "one row" },
                                      { { 1, 67, 2, 1, 2, CAUSAL, 200 }, "over several tiles" },
                                      { { 1, 100, 1, 1, 2, CAUSAL, 101 }, "one key before" },
                                      { { 1, 96, 1, 1, 2, CAUSAL, 192 }, "whole tiles" },
                                      { { 0 }, NULL } };
    mba_op                op = mba_op_attention;
    mba_check             w = { .stride = 7 };
    op.cases = cases;
    assert_ok(mba_check_op(&w, &op));
}

static void what_does_not_fit_is_refused(void **state)
{
    (void)state;
    const struct {
        int64_t     L, Lk, H, Hk, P;
        bool        causal;
        const char *words;
    } wrong[] = { { 5, 4, 2, 2, 3, true, "the last rows of one sequence" },
                  { 4, 4, 3, 2, 3, true, "evenly" },
                  { 4, 4, 2, 2, 4, true, "differ in type" } };
    mba_graph *g;
    for (int i = 0; i < 3; i++) {
        assert_ok(mba_graph_create(&g));
        mba_tensor *k = leaf(g, "k", 1, wrong[i].Lk, wrong[i].Hk, 3);
        mba_attention(g, .q = leaf(g, "q", 1, wrong[i].L, wrong[i].H, wrong[i].P), .k = k,
                      .v = leaf(g, "v", 1, wrong[i].Lk, wrong[i].Hk, 3), .causal = wrong[i].causal);
        assert_fails(mba_graph_status(g), MBA_E_SHAPE, wrong[i].words);
        mba_graph_destroy(g);
    }
    assert_ok(mba_graph_create(&g)); // keys may be the values, but then there is no gradient
    mba_tensor *x = leaf(g, "x", 1, 4, 2, 3), *y = mba_attention(g, .q = leaf(g, "q", 1, 4, 2, 3), .k = x, .v = x);
    mba_tensor *seed = mba_input(g, "seed", y->type);
    assert_ok(mba_graph_status(g));
    assert_fails(mba_backward_from(g, 1, &y, &seed), MBA_E_SHAPE, "share memory");
    mba_graph_destroy(g);
}

/* All other widths of the tensor-core kernels, with every variant that takes them: ends of rows and of blocks,
 * documents, gradients that add. Also a head that only the plain variant takes. */
static void every_width_agrees_with_fp64_on_the_gpu(void **state)
{
    (void)state;
    static const mba_case cases[] = { { { 1, 150, 2, 1, 64, CAUSAL | WITH_IDS },
                                        "two key tiles and a half, documents" },
                                      { { 2, 70, 2, 2, 40, 0 }, "windows of an image" },
                                      { { 1, 100, 1, 1, 96, CAUSAL }, "96" },
                                      { { 1, 90, 2, 1, 128, WITH_IDS }, "128, documents without order" },
                                      { { 1, 70, 1, 1, 24, 0, 200 }, "more keys than queries" },
                                      { { 1, 130, 1, 1, 64, 0, 333 }, "64: more keys than queries" },
                                      { { 1, 333, 1, 1, 64, 0, 130 }, "64: more queries than keys" },
                                      { { 1, 270, 2, 2, 96, CAUSAL | PACKED | TWICE }, "96: gradients added" },
                                      { { 3, 49, 2, 2, 32, PACKED | TWICE }, "windows of 7 x 7, gradients added" },
                                      { { 1, 200, 2, 2, 48, WITH_IDS }, "short rows with documents" },
                                      { { 1, 40, 1, 1, 200, CAUSAL }, "only the plain path" },
                                      { { 3, 129, 64, 64, 128, CAUSAL }, "heads in several turns" },
                                      { { 0 }, NULL } };
    assert_right_on_the_gpu(&mba_op_attention, cases);
}

MBA_TEST_MAIN(cmocka_unit_test(golden_rotary_and_attention), cmocka_unit_test(large_shapes_agree_with_the_reference),
              cmocka_unit_test(earlier_outputs_do_not_see_later_tokens), cmocka_unit_test(documents_are_as_if_alone),
              cmocka_unit_test(groups_are_as_if_repeated), cmocka_unit_test(equal_keys_give_the_mean_value),
              cmocka_unit_test(large_scores_do_not_overflow), cmocka_unit_test(threads_do_not_change_bits),
              cmocka_unit_test(cost_counts_the_pairs_below_the_diagonal),
              cmocka_unit_test(every_width_agrees_with_fp64_on_the_gpu),
              cmocka_unit_test(queries_are_the_last_rows_of_a_causal_sequence),
              cmocka_unit_test(what_does_not_fit_is_refused))
