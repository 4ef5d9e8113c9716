// SPDX-License-Identifier: Apache-2.0
/* train_test.c -- training as a whole: it learns, keeps and refuses checkpoints, is watched. */
#include "tests/training.h"

#include "core/device.h"
#include "core/file.h"
#include "data/safetensors.h"
#include "train/checkpoint.h"
#include "train/generate.h"
#include "train/watchdog.h"

static void a_small_model_learns(void **state)
{
    (void)state;
    mba_train_options o = options("MM", 120);
    o.session.model.lm.batch = 4;
    o.report = keep_loss;
    assert_ok(mba_train(&o));
    assert_true(last_loss < 2.2); // a uniform guess over the bytes is 5.6, their frequencies about 2.9
}

static mba_validation_result last_valid;
static double                first_losses, last_losses; // means of the first and of the last ten

static void keep_report(void *ctx, const mba_train_report *r)
{
    (void)ctx;
    if (r->step == 1) first_losses = last_losses = 0;
    if (r->step <= 10) first_losses += r->loss / 10;
    if (r->step > r->steps - 10) last_losses += r->loss / 10;
    last_valid = r->valid;
}

/* A model that stands still but for its last step: the average is what it was, the model itself is somewhere else. */
static void the_averaged_model_is_judged(void **state)
{
    (void)state;
    double loss[2];
    for (int average = 0; average < 2; average++) {
        mba_train_options o = options("M", 2);
        o.schedule = (mba_schedule){ .lr = average ? 0.1 : 0, .steps = 2 };
        o.session.ema = average ? 0.9999999 : 0;
        o.report = keep_report;
        assert_ok(mba_train(&o));
        loss[average] = last_valid.loss;
    }
    assert_near(loss[1], loss[0], 1e-4);
}

static double score(const char *name)
{
    for (int i = 0; i < last_valid.scores; i++)
        if (!strcmp(last_valid.score[i].name, name)) return last_valid.score[i].value;
    return NAN;
}

static void small_networks_for_images_and_graphs_learn(void **state)
{
    (void)state;
    mba_train_options o = other("mambavision-t",
                                "dim=16,in_dim=16,depths=1:1:1:1,heads=2:2:4:8,windows=0:0:2:1,"
                                "image=32,drop_path=0",
                                (mba_batch_shape){ .batch = 32 }, 90);
    o.schedule.lr = 2e-3;
    o.feed.mixup = o.feed.cutmix = o.feed.smoothing = 0;
    o.report = keep_report;
    o.valid_batches = 16;
    assert_ok(mba_train(&o));
    printf("    images: loss %.3f to %.3f, accuracy %.3f\n", first_losses, last_losses, score("accuracy"));
    assert_true(last_losses < first_losses - 0.3 && score("accuracy") > 0.2); // ten classes
    o = other("graphmamba-mnist", "layers=1,width=24,pe_count=0,pe_width=0", (mba_batch_shape){ .graphs = 16 }, 60);
    o.report = keep_report;
    o.valid_batches = 0;
    assert_ok(mba_train(&o));
    printf("    graphs: loss %.3f to %.3f, accuracy %.3f\n", first_losses, last_losses, score("accuracy"));
    assert_true(last_losses < first_losses - 0.3 && score("accuracy") > 0.2 && score("f1") > 0);
    o = other("graphmamba-peptides-struct", SMALL_PEPTIDES, (mba_batch_shape){ .graphs = 8 }, 40);
    o.report = keep_report;
    assert_ok(mba_train(&o));
    printf("    graphs: loss %.3f to %.3f, mean absolute error %.3f\n", first_losses, last_losses, score("mae"));
    assert_true(last_losses < first_losses && fabs(score("mae") - last_valid.loss) < 1e-5);
}

/* A batch that would overflow is closed early: nothing is lost, nothing comes twice, nothing grows. */
static void batches_of_graphs_are_closed_before_they_overflow(void **state)
{
    (void)state;
    mba_train_options o = other("graphmamba-peptides-func", SMALL_PEPTIDES,
                                (mba_batch_shape){ .graphs = 8, .nodes = 500, .edges = 1100 }, 1);
    mba_feed         *f;
    mba_step          step = { .seed = 1 };
    int64_t           graphs = 0, batches = 0;
    o.feed.seed = 3;
    o.feed.made = 40;
    assert_ok(mba_model_complete(&o.session.model));
    o.feed.micros = 2;
    assert_fails(mba_feed_open(&f, &o.session.model, &o.feed), MBA_E_UNSUPPORTED,
                 "graph models cannot use several micro-batches");
    o.feed.micros = 1;
    assert_ok(mba_feed_open(&f, &o.session.model, &o.feed));
    for (; f->at.epoch == 0; batches++) {
        assert_ok(mba_feed_stage(f, &step));
        assert_true(f->units >= 1 && f->units <= 8);
        graphs += f->units;
    }
    assert_int_equal(graphs, 32); // eight of ten are for training
    assert_true(batches > 4);
    mba_feed_close(f);
    o.session.model.graph.nodes = 20;
    assert_fails(mba_feed_open(&f, &o.session.model, &o.feed), MBA_E_ARG, "room for 20 nodes");
}

static void a_checkpoint_of_other_options_is_refused(void **state)
{
    (void)state;
    mba_train_options o = options("MM", 4);
    o.out = scratch("first");
    assert_ok(mba_train(&o));
    o.resume = o.out;
    o.session.model.lm.batch = 1;
    assert_fails(mba_train(&o), MBA_E_ARG, "batch");
    o = options("MM", 4);
    o.resume = scratch("first");
    o.session.optimizer = MBA_LAMB;
    assert_fails(mba_train(&o), MBA_E_ARG, "optimizer 'adamw'");
    o = options("MM", 4);
    o.resume = scratch("first");
    o.feed.in_order = !o.feed.in_order;
    assert_fails(mba_train(&o), MBA_E_ARG, "order '");
    o = options("MM", 4);
    o.resume = scratch("first");
    o.session.model.lm.documents = true;
    assert_fails(mba_train(&o), MBA_E_ARG, "documents'");
    o = options("MM", 4);
    o.resume = scratch("first");
    o.session.ema = 0.9;
    assert_fails(mba_train(&o), MBA_E_FORMAT, "ema.");
    o.resume = NULL;
    o.out = scratch("averaged");
    assert_ok(mba_train(&o));
    o.resume = o.out;
    o.session.ema = 0; // the average would be lost
    assert_fails(mba_train(&o), MBA_E_ARG, "average 'kept (--ema)', now it is 'none'");
    o = options("M", 4);
    o.resume = scratch("first");
    assert_fails(mba_train(&o), MBA_E_FORMAT, "tensors");
    o = options("MM", 4);
    o.resume = scratch("nowhere");
    assert_fails(mba_train(&o), MBA_E_IO, "no checkpoint");
}

static void only_the_newest_checkpoints_are_kept(void **state)
{
    (void)state;
    mba_train_options o = options("M", 6);
    o.out = scratch("kept");
    o.save_every = 1;
    o.keep = 2;
    assert_ok(mba_train(&o));
    assert_int_equal(scratch_entries("kept"), 5); // log.jsonl, two steps and the tokenizer (two files)
    mba_model     m;
    mba_hf_format f;
    char          path[512];
    assert_ok(mba_checkpoint_latest(path, sizeof path, scratch("kept")));
    assert_non_null(strstr(path, "step-000006"));
    assert_ok(mba_checkpoint_config(&m, &f, path));
    assert_int_equal(f, MBA_HF_MAMBA2);
}

/* nemotron_h in transformers has a head of its own whatever config.json says: it finds ours, and we know it for
 * tied. */
static void a_tied_head_is_written_where_its_public_class_wants_one(void **state)
{
    (void)state;
    mba_train_options o = options("M*-", 2);
    mba_model         m;
    mba_hf_format     f;
    mba_weights      *w;
    o.out = scratch("tied");
    assert_ok(mba_train(&o));
    assert_ok(mba_weights_open(&w, scratch("tied/step-000002")));
    const mba_array *head = mba_weights_find(w, "lm_head.weight");
    const mba_array *table = mba_weights_find(w, "backbone.embeddings.weight");
    assert_non_null(head);
    assert_int_equal(head->bytes, table->bytes);
    assert_memory_equal(head->data, table->data, (size_t)head->bytes);
    mba_weights_close(w);
    assert_ok(mba_checkpoint_config(&m, &f, scratch("tied/step-000002")));
    assert_int_equal(f, MBA_HF_NEMOTRON_H);
    assert_int_equal(m.lm.untied, 0);
    o.resume = o.out;
    o.schedule.steps = 3;
    assert_ok(mba_train(&o));
}

/* The name of the directory says nothing; one that was left behind when a run was killed does not stop the next. */
static void a_run_is_resumed_whatever_it_is_called(void **state)
{
    (void)state;
    mba_train_options o = options("M", 4);
    char              newest[512];
    o.out = scratch("step-by-step");
    o.stop_after = 2;
    assert_ok(mba_train(&o));
    assert_ok(mba_mkdirs(scratch("step-by-step/step-000004")));
    assert_ok(mba_mkdirs(scratch("step-by-step/step-000004.old")));
    FILE *left = fopen(scratch("step-by-step/step-000004.old/left"), "w");
    assert_non_null(left);
    fclose(left);
    o.stop_after = 0;
    o.resume = scratch("step-by-step/step-000002");
    assert_ok(mba_train(&o));
    assert_int_equal(scratch_entries("step-by-step"), 5); // the log, the tokenizer, steps 2 and 4
    o.resume = o.out;
    o.schedule.steps = 5;
    assert_ok(mba_train(&o));
    assert_ok(mba_checkpoint_find(newest, sizeof newest, o.out));
    assert_non_null(strstr(newest, "step-000005"));
}

/* Another run in the same directory would be taken for the first, and its checkpoints for old ones. */
static void a_run_keeps_its_hands_off_another(void **state)
{
    (void)state;
    mba_train_options o = options("M", 6);
    o.out = scratch("first-run");
    o.save_every = 3;
    o.keep = 2;
    assert_ok(mba_train(&o));
    o.schedule.steps = 2;
    assert_fails(mba_train(&o), MBA_E_ARG, "already has checkpoints of a run");
    o.resume = scratch("first-run/step-000003"); // from the middle: 6 is not ours
    o.schedule.steps = 5;
    o.save_every = 1;
    assert_fails(mba_train(&o), MBA_E_ARG, "is later than step 3");
    assert_int_equal(scratch_entries("first-run"), 5); // the log, the tokenizer, steps 3 and 6
    o.out = scratch("second-run");
    assert_ok(mba_train(&o));
    assert_int_equal(scratch_entries("second-run"), 5); // the log, the tokenizer, steps 4 and 5
}

/* The CPU, with a weight that is not a number while the first micro-batch of step 2 is computed. */
static const char *hurt_weight, *hurt_operator;
static mba_status  hurt_run(mba_program *p, unsigned passes, const mba_hooks *h)
{
    float     *w = mba_program_at(p, mba_graph_find(p->graph, hurt_weight)), kept = *w;
    const bool now = p->step->index == 2 && !p->step->micro && passes & MBA_FORWARD;
    if (now) *w = NAN;
    const mba_status st = mba_device_cpu.run(p, passes, h);
    if (now) *w = kept;
    return st;
}

/* The CPU, where a signal comes while it computes step `signal_at`. */
static volatile sig_atomic_t signalled;
static int64_t               signal_at;
static mba_status            signal_run(mba_program *p, unsigned passes, const mba_hooks *h)
{
    if (passes & MBA_BACKWARD && p->step->index + 1 == signal_at) signalled = 1;
    return mba_device_cpu.run(p, passes, h);
}

/* The CPU, counting what it is asked for. */
static int        whole_steps, gradients_only, updates_only;
static mba_status counting_run(mba_program *p, unsigned passes, const mba_hooks *h)
{
    whole_steps += passes == MBA_STEP;
    gradients_only += passes == (MBA_FORWARD | MBA_BACKWARD);
    updates_only += passes == MBA_UPDATE;
    return mba_device_cpu.run(p, passes, h);
}

/* However many micro-batches a step has, it has one update; trainer.json says how the data was gone through. */
static void a_step_is_updated_once(void **state)
{
    (void)state;
    static const char *const order[] = { "shuffled", "in order", "carried by row" };
    for (int i = 0; i < 6; i++) {
        mba_device        d = mba_device_cpu;
        mba_train_options o = options("M", 3);
        char              name[64], want[64];
        json_t           *trainer;
        snprintf(name, sizeof name, "order-%d", i);
        d.run = counting_run, o.session.device = &d, whole_steps = gradients_only = updates_only = 0;
        o.micros = 1 + i % 3, o.feed.validation = 0, o.out = scratch(name);
        o.feed.in_order = i % 3 == 1, o.carry = i % 3 == 2, o.session.model.lm.documents = i / 3;
        assert_ok(mba_train(&o));
        assert_int_equal(whole_steps, o.micros == 1 ? 3 : 0);
        assert_int_equal(gradients_only, o.micros == 1 ? 0 : 3 * o.micros);
        assert_int_equal(updates_only, o.micros == 1 ? 0 : 3);
        snprintf(want, sizeof want, "%s%s", order[i % 3], i / 3 ? ", documents" : "");
        strcat(name, "/step-000003/trainer.json");
        assert_non_null(trainer = json_load_file(scratch(name), 0, NULL));
        assert_string_equal(json_string_value(json_object_get(trainer, "order")), want);
        json_decref(trainer);
    }
}

/* The lines of a log without what a clock has said. */
static json_t *log_of(const char *run)
{
    char    path[512], line[2048];
    json_t *all = json_array();
    snprintf(path, sizeof path, "%s/log.jsonl", scratch(run));
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
        json_t *o = json_loads(line, 0, NULL);
        assert_non_null(o);
        assert_int_equal(json_object_del(o, "seconds"), 0);
        assert_int_equal(json_object_del(o, "tokens_per_s"), 0);
        json_array_append_new(all, o);
    }
    fclose(f);
    return all;
}

/* A signal in a step with validation due, the last one included, cost that validation: the log had none of it, ever. */
static void a_signal_costs_no_validation(void **state)
{
    (void)state;
    for (signal_at = 3; signal_at <= 8; signal_at++) { // 3: never; every third is due, and the last
        mba_train_options o = options("M", 8);
        mba_device        device = mba_device_cpu;
        char              name[32];
        snprintf(name, sizeof name, "signal-%d", (int)signal_at);
        if (signal_at > 3) device.run = signal_run;
        signalled = 0;
        o.session.device = &device;
        o.stop = &signalled;
        o.out = scratch(name);
        o.valid_every = 3;
        assert_ok(mba_train(&o));
        o.resume = o.out;
        if (signalled) {
            signalled = 0;
            o.session.device = &mba_device_cpu;
            o.out = o.resume = scratch(name);
            assert_ok(mba_train(&o));
        }
        json_t *whole = log_of("signal-3"), *cut = log_of(name);
        assert_int_equal(json_array_size(whole), 8);
        assert_non_null(json_object_get(json_array_get(whole, 5), "valid_loss"));
        assert_non_null(json_object_get(json_array_get(whole, 7), "valid_loss"));
        assert_true(json_equal(whole, cut));
        json_decref(whole);
        json_decref(cut);
    }
}

static int  skipped_steps;
static void count_skipped(void *ctx, const mba_train_report *r)
{
    (void)ctx;
    skipped_steps += r->skipped;
    if (r->skipped) assert_non_null(strstr(r->note, hurt_operator));
}

/* Looking for the operator runs a micro-batch once more, which must not be left in the gradients. */
static void a_step_that_is_not_finite_is_skipped_and_forgotten(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) { // states that a convolution spoils would spoil all that follow
        const bool        carry = i / 2;
        mba_train_options o = options("M", 6);
        mba_device        hurt = mba_device_cpu;
        hurt_weight = carry ? "backbone.layers.0.mixer.conv1d.weight" : "backbone.norm_f.weight";
        hurt_operator = carry ? "conv1d in " : "add_rmsnorm in ";
        hurt.run = hurt_run;
        o.session.device = &hurt;
        o.carry = carry;
        o.micros = 1 + i % 2;
        o.report = count_skipped;
        skipped_steps = 0;
        assert_ok(mba_train(&o));
        assert_int_equal(skipped_steps, 1);
    }
}

static void the_watchdog_names_the_first_bad_operator(void **state)
{
    (void)state;
    mba_session    s = { 0 };
    mba_finding    f;
    const mba_step step = { .seed = 1 };
    assert_ok(mba_session_plan(&s, &(mba_session_options){ .model.lm = small("MM"), .backward = true }));
    assert_ok(mba_session_bind(&s, 1));
    assert_ok(mba_watchdog(&f, &s, MBA_FORWARD | MBA_BACKWARD, &step));
    assert_null(f.node);
    ((float *)mba_session_at(&s, "backbone.layers.1.mixer.conv1d.weight"))[3] = NAN;
    assert_ok(mba_watchdog(&f, &s, MBA_FORWARD | MBA_BACKWARD, &step));
    assert_non_null(f.node);
    assert_string_equal(f.node->op->name, "conv1d");
    assert_string_equal(f.node->scope, "backbone/layers.1/mixer");
    mba_session_end(&s);
}

static void weights_that_are_no_numbers_generate_nothing(void **state)
{
    (void)state;
    mba_session s = { 0 };
    int32_t     ids[8] = { 1, 2, 3 };
    assert_ok(mba_session_plan(&s, &(mba_session_options){ .model.lm = small("M") }));
    assert_ok(mba_session_bind(&s, 1));
    assert_ok(mba_checkpoint_save(&s, scratch("sound"), NULL, NULL));
    ((float *)mba_session_at(&s, "backbone.embeddings.weight"))[40] = NAN; // of token 1
    assert_ok(mba_checkpoint_save(&s, scratch("unsound"), NULL, NULL));
    mba_session_end(&s);
    assert_ok(mba_generate(ids, 3, 8, &(mba_generate_options){ .checkpoint = scratch("sound"), .temperature = 1 }));
    assert_fails(mba_generate(ids, 3, 8, &(mba_generate_options){ .checkpoint = scratch("unsound"), .temperature = 1 }),
                 MBA_E_FORMAT, "are not finite");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_small_model_learns),
        cmocka_unit_test(the_averaged_model_is_judged),
        cmocka_unit_test(small_networks_for_images_and_graphs_learn),
        cmocka_unit_test(batches_of_graphs_are_closed_before_they_overflow),
        cmocka_unit_test(a_checkpoint_of_other_options_is_refused),
        cmocka_unit_test(only_the_newest_checkpoints_are_kept),
        cmocka_unit_test(a_tied_head_is_written_where_its_public_class_wants_one),
        cmocka_unit_test(a_run_is_resumed_whatever_it_is_called),
        cmocka_unit_test(a_run_keeps_its_hands_off_another),
        cmocka_unit_test(a_step_that_is_not_finite_is_skipped_and_forgotten),
        cmocka_unit_test(a_step_is_updated_once),
        cmocka_unit_test(a_signal_costs_no_validation),
        cmocka_unit_test(the_watchdog_names_the_first_bad_operator),
        cmocka_unit_test(weights_that_are_no_numbers_generate_nothing),
    };
    return cmocka_run_group_tests(tests, prepare_data, remove_data);
}
