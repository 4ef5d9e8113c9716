// SPDX-License-Identifier: Apache-2.0
/* box_train_test.c -- training on several ranks, as threads of a box: the same bytes as one rank with the same slots,
 * for every family; resumed on fewer ranks; and ends on which all ranks agree. tests/ranks_test.c does the same by
 * mpirun. */
#include "tests/training.h"

#include "cluster/box.h"
#include "core/file.h"

enum { SLOTS = 8, RANKS_MOST = 8 };

static void same_file(const char *a, const char *b, const char *step, const char *file)
{
    char   path[512], *x, *y;
    size_t n, m;
    snprintf(path, sizeof path, "%s/%s/%s/%s", scratch_dir, a, step, file);
    assert_ok(mba_file_read(&x, &n, path, 1 << 28));
    snprintf(path, sizeof path, "%s/%s/%s/%s", scratch_dir, b, step, file);
    assert_ok(mba_file_read(&y, &m, path, 1 << 28));
    assert_int_equal(n, m);
    assert_memory_equal(x, y, n);
    free(x);
    free(y);
}

static void same_run(const char *a, const char *b, const char *step)
{
    same_file(a, b, step, "model.safetensors");
    same_file(a, b, step, "optimizer.safetensors");
    same_file(a, b, step, "trainer.json");
}

typedef struct trial {
    mba_train_options     o;
    int64_t               slots;
    int                   stopped_rank; /* -1: none; it is interrupted at the third step */
    volatile sig_atomic_t stop[RANKS_MOST];
    int64_t               steps; /* that rank 0 reported */
} trial;

static void count(void *ctx, const mba_train_report *r)
{
    trial *t = ctx;
    t->steps = r->step;
    if (t->stopped_rank >= 0 && r->step == 3) t->stop[t->stopped_rank] = 1;
}

static mba_status live(mba_world *w, void *ctx)
{
    trial            *t = ctx;
    mba_train_options o = t->o;
    o.world = w->ranks > 1 ? w : NULL;
    o.tree = true;
    o.micros = t->slots / w->ranks;
    o.stop = &t->stop[w->rank];
    o.report = count;
    o.ctx = t;
    mba_cpu_set_threads(1);
    return mba_train(&o);
}

/* Trains on so many ranks; returns the steps of rank 0. */
static int64_t train(mba_train_options o, int64_t slots, int ranks, const char *out, const char *resume)
{
    trial t = { .o = o, .slots = slots, .stopped_rank = -1 };
    t.o.out = scratch(out);
    t.o.resume = resume ? scratch(resume) : NULL;
    assert_ok(mba_box_run(ranks, live, &t));
    return t.steps;
}

static mba_train_options workload(int i)
{
    static const char *const pattern[] = { "mm", "MM", "M*-M+" };
    if (i < 3) return options(pattern[i], 20);
    if (i == 3)
        return other("graphmamba-peptides-func", SMALL_PEPTIDES,
                     (mba_batch_shape){ .graphs = 4, .nodes = 700, .edges = 1500 }, 20);
    mba_train_options o = other("mambavision-t", SMALL_VISION, (mba_batch_shape){ .batch = 4 }, 20);
    if (i == 5) {
        o.session.optimizer = MBA_LAMB;
        o.session.ema = 0.9;
    }
    return o;
}

static void every_family_has_the_same_bytes_on_any_number_of_ranks(void **state)
{
    (void)state;
    for (int i = 0; i < 6; i++) {
        char one[32], many[32];
        snprintf(one, sizeof one, "w%d-1", i);
        train(workload(i), SLOTS, 1, one, NULL);
        for (int ranks = 2; ranks <= RANKS_MOST; ranks *= 2) {
            snprintf(many, sizeof many, "w%d-%d", i, ranks);
            assert_int_equal(train(workload(i), SLOTS, ranks, many, NULL), 20);
            same_run(one, many, "step-000020");
        }
    }
}

/* Twelve slots: four chains of three. A model of several buckets, the last of which is padded. */
static void chains_and_buckets_do_not_matter(void **state)
{
    (void)state;
    mba_train_options o = options("MM", 6);
    o.session.model.lm.width = 128;
    train(o, 12, 1, "b1", NULL);
    o.session.bucket_bytes = 1;
    train(o, 12, 2, "b2", NULL);
    same_run("b1", "b2", "step-000006");
    o.session.bucket_bytes = 4 * 16384 * sizeof(float);
    train(o, 12, 4, "b4", NULL);
    same_run("b1", "b4", "step-000006");
}

/* An odd number of slots is one chain: micro-batches, added one after the other. */
static void one_chain_has_the_bytes_of_micro_batches(void **state)
{
    (void)state;
    for (int64_t slots = 3; slots <= 5; slots += 2) {
        mba_train_options o = options("MM", 6);
        char              chain[16], tree[16];
        snprintf(chain, sizeof chain, "c%d", (int)slots);
        snprintf(tree, sizeof tree, "t%d", (int)slots);
        train(o, slots, 1, tree, NULL);
        o.micros = slots;
        o.out = scratch(chain);
        assert_ok(mba_train(&o));
        same_file(chain, tree, "step-000006", "model.safetensors");
        same_file(chain, tree, "step-000006", "optimizer.safetensors");
    }
}

static void a_run_continues_on_fewer_ranks(void **state)
{
    (void)state;
    for (int i = 1; i < 6; i += 2) {
        char              whole[16], parts[16];
        mba_train_options o = workload(i);
        o.save_every = 4;
        o.valid_every = i == 1 ? 3 : 0;
        snprintf(whole, sizeof whole, "r%d", i);
        snprintf(parts, sizeof parts, "p%d", i);
        train(o, SLOTS, 1, whole, NULL);
        o.stop_after = 7;
        assert_int_equal(train(o, SLOTS, 4, parts, NULL), 7);
        assert_int_equal(train(o, SLOTS, 2, parts, parts), 14);
        assert_int_equal(train(o, SLOTS, 1, parts, parts), 20);
        same_run(whole, parts, "step-000020");
        if (i == 1) same_run(whole, parts, "best");
    }
}

static void another_number_of_slots_is_refused(void **state)
{
    (void)state;
    train(options("M", 3), 4, 2, "s4", NULL);
    trial t = { .o = options("M", 6), .slots = 8, .stopped_rank = -1 };
    t.o.out = t.o.resume = scratch("s4");
    assert_fails(mba_box_run(2, live, &t), MBA_E_ARG, "saved with 4 micro-batches a step, now it is 8");
    mba_train_options o = t.o;
    o.micros = 4;
    assert_fails(mba_train(&o), MBA_E_ARG, "saved with --sum tree, now it is chain");
}

/* Whichever rank the signal reaches: all save after the same step, and the run can be continued. */
static void an_interrupted_rank_stops_all_at_one_step(void **state)
{
    (void)state;
    train(options("MM", 20), SLOTS, 1, "calm", NULL);
    for (int rank = 0; rank < 4; rank++) {
        char out[16];
        snprintf(out, sizeof out, "i%d", rank);
        trial t = { .o = options("MM", 20), .slots = SLOTS, .stopped_rank = rank };
        t.o.out = scratch(out);
        assert_ok(mba_box_run(4, live, &t));
        assert_true(t.steps >= 4 && t.steps <= 5); // the flag is seen when the next step is staged
        assert_true(t.stop[0] && t.stop[1] && t.stop[2] && t.stop[3]);
        train(options("MM", 20), SLOTS, 2, out, out);
        same_run("calm", out, "step-000020");
    }
}

/* Losses that are not finite skip the step on all ranks; eight in a row end the run, with what was learned before. */
static void ranks_give_up_together(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= 4; ranks *= 2) {
        char  out[16];
        trial t = { .o = options("MM", 60), .slots = SLOTS, .stopped_rank = -1 };
        snprintf(out, sizeof out, "n%d", ranks);
        t.o.out = scratch(out);
        t.o.schedule = (mba_schedule){ .lr = 1e30, .lr_min = 1e30, .steps = 60, .kind = MBA_LR_CONSTANT };
        assert_fails(mba_box_run(ranks, live, &t), MBA_E_DEVICE, "8 steps in a row were skipped");
    }
    same_run("n1", "n2", "step-000009");
    same_run("n1", "n4", "step-000009");
}

/* A token that the model does not know, in the batch of one rank: all end before that step and save. */
static void a_batch_that_cannot_be_read_ends_all(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= 4; ranks *= 2) {
        char  out[16];
        trial t = { .o = options("MM", 60), .slots = 4, .stopped_rank = -1 };
        snprintf(out, sizeof out, "u%d", ranks);
        t.o.out = scratch(out);
        t.o.feed.data = scratch("bad.bin");
        t.o.feed.validation = 0;
        t.o.feed.in_order = true;
        uint16_t x[40 * 33 * 2];
        for (size_t i = 0; i < sizeof x / sizeof *x; i++) x[i] = (uint16_t)(i % 250);
        x[5 * 4 * 66 + 100] = 999; // step 5, slot 1
        scratch_put(t.o.feed.data, x, sizeof x);
        mba_status st = mba_box_run(ranks, live, &t);
        if (st == MBA_OK || !strstr(mba_message(), "the state before it is saved")) print_error("%s\n", mba_message());
        assert_true(st != MBA_OK && strstr(mba_message(), "the state before it is saved"));
        assert_int_equal(t.steps, 5);
    }
    same_run("u1", "u2", "step-000005");
    same_run("u1", "u4", "step-000005");
}

static void states_are_not_carried_between_ranks(void **state)
{
    (void)state;
    trial t = { .o = options("MM", 2), .slots = 2, .stopped_rank = -1 };
    t.o.carry = true;
    assert_fails(mba_box_run(2, live, &t), MBA_E_UNSUPPORTED, "--carry with several ranks");
}

static mba_status differ(mba_world *w, void *ctx)
{
    mba_train_options o = options(w->rank ? "MM" : "MMM", 2);
    (void)ctx;
    o.world = w;
    o.feed.data = NULL;
    return mba_train(&o);
}

static void ranks_with_different_models_are_refused(void **state)
{
    (void)state;
    assert_fails(mba_box_run(2, differ, NULL), MBA_E_ARG, "rank 1 has another run than rank 0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_family_has_the_same_bytes_on_any_number_of_ranks),
        cmocka_unit_test(chains_and_buckets_do_not_matter),
        cmocka_unit_test(one_chain_has_the_bytes_of_micro_batches),
        cmocka_unit_test(a_run_continues_on_fewer_ranks),
        cmocka_unit_test(another_number_of_slots_is_refused),
        cmocka_unit_test(an_interrupted_rank_stops_all_at_one_step),
        cmocka_unit_test(ranks_give_up_together),
        cmocka_unit_test(a_batch_that_cannot_be_read_ends_all),
        cmocka_unit_test(states_are_not_carried_between_ranks),
        cmocka_unit_test(ranks_with_different_models_are_refused),
    };
    return cmocka_run_group_tests(tests, prepare_data, remove_data);
}
