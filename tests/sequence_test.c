// SPDX-License-Identifier: Apache-2.0
/* sequence_test.c -- sequences in parts on several ranks (a world in a box): loss and gradients of every mixer are
 * those of one rank, in fp32 and, far closer, in fp64; what a part needs of memory; whole runs; what is refused.
 * tests/ranks_test.c does it by mpirun. */
#include "tests/training.h"

#include "cluster/box.h"
#include "core/device.h"

enum { RANKS_MOST = 4, TENSORS_MOST = 256 };

/* The loss and the gradients of one rank. */
typedef struct result {
    double  loss;
    int     n;
    double *grad[TENSORS_MOST]; /* parameter by parameter, in the order of the graph */
    int64_t elems[TENSORS_MOST];
    char    name[TENSORS_MOST][96];
} result;

typedef struct trial {
    mba_lm  model;
    bool    exact; /* fp64 */
    bool    recompute;
    result *by; /* (ranks) */
} trial;

static mba_lm model_of(const char *pattern, int64_t length)
{
    mba_lm c = small(pattern);
    c.length = length;
    return c;
}

/* Token t of row b, on any rank; the targets are the tokens after it, some of them left out. */
static int32_t token(int64_t b, int64_t t) { return (int32_t)((t * t + 7 * t + 31 * b) % 264); }
static int32_t target(int64_t b, int64_t t) { return (t + b) % 11 == 3 ? -1 : token(b, t + 1); }

static double valid_targets(const mba_lm *c)
{
    double n = 0;
    for (int64_t i = 0; i < c->batch * c->length; i++) n += target(i / c->length, i % c->length) >= 0;
    return n;
}

static void take_gradients(result *r, const mba_session *s, mba_reference *ref)
{
    for (int32_t i = 0; i < s->graph->ntensors; i++) {
        const mba_tensor  *t = s->graph->tensors[i];
        const mba_storage *g = t->st->grad;
        if (!mba_is_param(t)) continue;
        assert_true(r->n < TENSORS_MOST && g);
        double    *x = r->grad[r->n] = calloc((size_t)mba_elems(t), sizeof *x);
        mba_tensor flat = *t;
        flat.st = (mba_storage *)g;
        for (int64_t k = 0; k < mba_elems(t); k++)
            x[k] = ref ? mba_reference_at(ref, &flat)[k]
                       : (double)((const float *)mba_program_counterpart(s->program, g, t))[k];
        r->elems[r->n] = mba_elems(t);
        snprintf(r->name[r->n++], sizeof *r->name, "%s", t->name);
    }
}

static mba_status run_exactly(result *r, mba_session *s, mba_world *w, const mba_step *step)
{
    mba_reference *ref = NULL;
    MBA_TRY(mba_reference_create(&ref, s->graph));
    mba_reference_join(ref, w);
    for (int32_t i = 0; i < s->graph->ntensors; i++) {
        const mba_tensor *t = s->graph->tensors[i];
        const bool        index = t->st->role == MBA_INPUT && !t->base && !t->producer_node;
        for (int64_t k = 0; (index || mba_is_param(t)) && k < mba_elems(t); k++)
            mba_reference_at(ref, t)[k] = index ? ((const int32_t *)mba_program_at(s->program, t))[k]
                                                : (double)((const float *)mba_program_at(s->program, t))[k];
    }
    const mba_status st = mba_reference_run(ref, MBA_FORWARD | MBA_BACKWARD, step);
    if (st == MBA_OK) r->loss = *mba_reference_at(ref, s->io.loss);
    if (st == MBA_OK) take_gradients(r, s, ref);
    mba_reference_destroy(ref);
    return st;
}

/* Both passes on this rank's part of every sequence. */
static mba_status live(mba_world *w, void *ctx)
{
    trial              *t = ctx;
    const mba_place     part = { w ? w->rank : 0, w ? w->ranks : 1 };
    result             *r = &t->by[part.rank];
    mba_session         s = { 0 };
    mba_session_options so = { .model.lm = t->model, .backward = true, .world = w };
    const int64_t       n = t->model.length / part.ranks;
    so.model.lm.sequence = part;
    so.recompute = t->recompute ? MBA_RECOMPUTE_ON : MBA_RECOMPUTE_OFF;
    mba_cpu_set_threads(1);
    mba_status st = mba_session_plan(&s, &so);
    if (st == MBA_OK) st = mba_session_bind(&s, 7);
    if (st == MBA_OK) {
        int32_t       *tokens = mba_session_at(&s, "tokens"), *targets = mba_session_at(&s, "targets");
        const mba_step step = { .seed = 7, .loss_scale = (float)(1 / valid_targets(&t->model)) };
        for (int64_t i = 0; i < t->model.batch * n; i++) {
            tokens[i] = token(i / n, part.rank * n + i % n);
            targets[i] = target(i / n, part.rank * n + i % n);
        }
        if (t->exact) st = run_exactly(r, &s, w, &step);
        else st = mba_program_run(s.program, MBA_FORWARD | MBA_BACKWARD, &step, NULL);
        if (st == MBA_OK && !t->exact) {
            r->loss = (double)*(const float *)mba_session_at(&s, "loss");
            take_gradients(r, &s, NULL);
        }
    }
    mba_session_end(&s);
    return st;
}

static void free_result(result *r)
{
    for (int i = 0; i < r->n; i++) free(r->grad[i]);
}

/* Adds the parts in the order of ranks and compares the sum with what one rank has: |a - b| / |b| of the loss and of
 * every gradient. Returns the largest. */
static double compare(result *parts, int ranks, const result *one)
{
    double worst = 0, loss = 0;
    for (int r = 0; r < ranks; r++) loss += parts[r].loss;
    worst = fabs(loss - one->loss) / fabs(one->loss);
    for (int i = 0; i < one->n; i++) {
        double off = 0, all = 0;
        for (int64_t k = 0; k < one->elems[i]; k++) {
            double sum = 0;
            for (int r = 0; r < ranks; r++) {
                assert_int_equal(parts[r].elems[i], one->elems[i]);
                sum += parts[r].grad[i][k];
            }
            off += pow(sum - one->grad[i][k], 2);
            all += pow(one->grad[i][k], 2);
        }
        assert_true(all > 0);
        if (sqrt(off / all) > worst) worst = sqrt(off / all);
        if (getenv("MBA_TEST_TELL")) print_message("  %-50s %.2e\n", one->name[i], sqrt(off / all));
    }
    return worst;
}

static double distance(const mba_lm *c, int ranks, bool exact, bool recompute)
{
    result *one = calloc(1, sizeof *one), *parts = calloc((size_t)ranks, sizeof *parts);
    trial   t = { .model = *c, .exact = exact, .by = one };
    assert_ok(live(NULL, &t));
    t.by = parts;
    t.recompute = recompute;
    assert_ok(mba_box_run(ranks, live, &t));
    const double worst = compare(parts, ranks, one);
    for (int r = 0; r < ranks; r++) free_result(&parts[r]);
    free_result(one);
    free(parts);
    free(one);
    return worst;
}

/* Mamba-1, Mamba-2, both with attention and MLPs, the Transformer. */
static const char *const patterns[] = { "mm", "MM", "M*-M+", "m+*+", "*-*-" };
enum { PATTERNS = sizeof patterns / sizeof *patterns };

static mba_lm positioned(const char *pattern, int64_t length)
{
    mba_lm c = model_of(pattern, length);
    if (!strchr(pattern, '*')) return c;
    c.rotary = 8;
    c.attn_conv = 4;
    return c;
}

/* In fp64 the parts differ from the whole by rounding alone: nothing is left out at the borders. */
static void parts_are_the_whole_in_fp64(void **state)
{
    (void)state;
    for (int i = 0; i < PATTERNS; i++)
        for (int ranks = 2; ranks <= RANKS_MOST; ranks *= 2) {
            const mba_lm c = positioned(patterns[i], 16);
            const double off = distance(&c, ranks, true, false);
            if (off > 1e-12) print_error("%s on %d ranks: %g\n", patterns[i], ranks, off);
            assert_true(off <= 1e-12);
        }
}

/* Parts longer than the tiles and chunks of the kernels, and parts shorter than the window of the convolution. */
static void parts_are_the_whole_in_fp32(void **state)
{
    (void)state;
    static const int64_t lengths[] = { 8, 192, 1024 };
    for (int i = 0; i < PATTERNS; i++)
        for (int k = 0; k < 3; k++)
            for (int ranks = 2; ranks <= RANKS_MOST; ranks *= 2) {
                const mba_lm c = positioned(patterns[i], lengths[k]);
                const double off = distance(&c, ranks, false, k == 1);
                if (getenv("MBA_TEST_TELL"))
                    print_message("%-6s %5lld tokens on %d ranks: %.2e\n", patterns[i], (long long)lengths[k], ranks,
                                  off);
                assert_true(off <= 2e-6);
            }
}

/* ---- memory ---- */

static int64_t activation_bytes(const mba_lm *c, mba_place part)
{
    mba_session         s = { 0 };
    mba_session_options so = { .model.lm = *c, .backward = true, .recompute = MBA_RECOMPUTE_OFF };
    so.model.lm.sequence = part;
    so.memory_bytes = INT64_MAX;
    assert_ok(mba_session_plan(&s, &so));
    const int64_t bytes = (int64_t)mba_program_bytes(s.program) - 8 * mba_session_parameters(&s); // and gradients
    mba_session_end(&s);
    return bytes;
}

/* What passes between ranks: the inputs of a convolution and a state for each layer, with gradients, and scratch that
 * does not depend on the length. */
static void a_part_needs_a_quarter_of_the_memory(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        const mba_lm  c = model_of(patterns[i], 131072);
        const int64_t whole = activation_bytes(&c, (mba_place){ 0, 1 }), halos = 1 << 20;
        for (int r = 0; r < 4; r++) assert_true(activation_bytes(&c, (mba_place){ r, 4 }) <= whole / 4 + halos);
    }
}

/* ---- whole runs ---- */

typedef struct training {
    mba_train_options o;
    int               parts;
    double            loss, valid, norm;
    int64_t           units;
} training;

static void keep(void *ctx, const mba_train_report *r)
{
    training *t = ctx;
    t->loss = r->loss;
    t->norm = r->grad_norm;
    t->valid = r->valid.loss;
    t->units = r->units;
}

static mba_status learn(mba_world *w, void *ctx)
{
    training         *t = ctx;
    mba_train_options o = t->o;
    if (w->ranks > 1) o.world = w;
    o.micros = 4 / (w->ranks / t->parts);
    o.tree = true;
    if (t->parts > 1) o.session.model.lm.sequence = (mba_place){ w->rank % t->parts, t->parts };
    if (w->rank == 0) o.report = keep, o.ctx = t;
    mba_cpu_set_threads(1);
    return mba_train(&o);
}

static void runs_learn_the_same(void **state)
{
    (void)state;
    static const struct {
        int ranks, parts;
    } how[] = { { 2, 2 }, { 4, 4 }, { 4, 2 } };
    for (int i = 0; i < 3; i++) {
        training one = { .o = options(patterns[i], 10), .parts = 1 };
        one.o.session.model.lm.length = 32;
        assert_ok(mba_box_run(1, learn, &one));
        for (int k = 0; k < 3; k++) {
            training some = { .o = one.o, .parts = how[k].parts };
            assert_ok(mba_box_run(how[k].ranks, learn, &some));
            if (getenv("MBA_TEST_TELL"))
                print_message("%-6s %d x %d: loss %.2e, norm %.2e, validation %.2e\n", patterns[i], how[k].ranks,
                              how[k].parts, some.loss / one.loss - 1, some.norm / one.norm - 1,
                              some.valid / one.valid - 1);
            assert_true(fabs(some.loss / one.loss - 1) < 1e-5 && fabs(some.norm / one.norm - 1) < 1e-4);
            assert_true(fabs(some.valid / one.valid - 1) < 1e-5);
            assert_int_equal(some.units, one.units);
        }
    }
}

static void what_does_not_fit_is_refused(void **state)
{
    (void)state;
    mba_lm c = model_of("M", 33);
    c.sequence = (mba_place){ 0, 2 };
    assert_fails(mba_lm_complete(&c), MBA_E_ARG, "33 tokens do not divide among 2 ranks");
    c.length = 32;
    assert_ok(mba_lm_complete(&c));
    c.documents = true;
    assert_fails(mba_lm_complete(&c), MBA_E_UNSUPPORTED, "--sequence-ranks with --documents");
    c.documents = false;
    c.carry = true;
    assert_fails(mba_lm_complete(&c), MBA_E_UNSUPPORTED, "--sequence-ranks with --carry");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_are_the_whole_in_fp64),          cmocka_unit_test(parts_are_the_whole_in_fp32),
        cmocka_unit_test(a_part_needs_a_quarter_of_the_memory), cmocka_unit_test(runs_learn_the_same),
        cmocka_unit_test(what_does_not_fit_is_refused),
    };
    return cmocka_run_group_tests(tests, prepare_data, remove_data);
}
