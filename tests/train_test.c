/* train_test.c -- training as a whole: exact, resumable, watched. */
#include "tests/test.h"

#include "core/device.h"
#include "core/file.h"
#include "data/prepare.h"
#include "data/safetensors.h"
#include "tests/scratch.h"
#include "train/checkpoint.h"
#include "train/generate.h"
#include "train/guard.h"
#include "train/train.h"
#include "train/watchdog.h"

static mba_lm small(const char *pattern)
{
    mba_lm c = { .batch = 2, .length = 33, .width = 32, .vocab = 264, .state = 8, .head_dim = 16, .chunk = 16,
                 .q_heads = 2, .kv_heads = 1, .attn_dim = 16, .mlp = 48 };
    strcpy(c.pattern, pattern);
    return c;
}

static mba_train_options options(const char *pattern, int64_t steps)
{
    return (mba_train_options){ .session = { .model.lm = small(pattern), .adamw = mba_adamw_defaults() }, .seed = 5,
                                .feed = { .data = scratch("tokens"), .validation = 0.2 }, .valid_batches = 2,
                                .schedule = { .lr = 5e-3, .lr_min = 1e-4, .warmup = 4, .steps = steps }, .guard = 8 };
}

/* Small networks for made-up images and graphs. */
static mba_train_options other(const char *preset, const char *set, mba_batch_shape shape, int64_t steps)
{
    mba_train_options o = { .session.adamw = mba_adamw_defaults(), .seed = 5, .valid_batches = 2, .guard = 8,
                            .feed = { .smoothing = 0.1, .mixup = 0.2, .cutmix = 1 },
                            .schedule = { .lr = 5e-3, .lr_min = 1e-4, .warmup = 4, .steps = steps } };
    assert_ok(mba_model_preset(&o.session.model, preset));
    assert_ok(mba_model_set(&o.session.model, set));
    assert_ok(mba_model_shape(&o.session.model, &shape));
    return o;
}

#define SMALL_VISION "dim=8,in_dim=8,depths=1:1:2:2,heads=1:1:2:4,windows=0:0:2:1,image=24"
#define SMALL_PEPTIDES "layers=2,width=16,pe_count=4,pe_width=4"
#define SMALL_CLUSTER "layers=2,width=16,pe_count=0,pe_width=0,buckets=3"

static int prepare_data(void **state)
{
    (void)state;
    mba_tokenizer *t;
    mba_prepared   made;
    scratch_make();
    if (mba_tokenizer_create(&t, "bytes") != MBA_OK) return -1;
    const mba_prepare_options o = { .out = scratch("tokens"), .synthetic_bytes = 100000, .seed = 3 };
    const mba_status          st = mba_prepare(&made, t, &o);
    mba_tokenizer_destroy(t);
    return st == MBA_OK ? 0 : -1;
}

static int remove_data(void **state)
{
    (void)state;
    scratch_remove();
    return 0;
}

static void same_file(const char *a, const char *b)
{
    char  *x, *y;
    size_t n, m;
    assert_ok(mba_file_read(&x, &n, a, 1 << 28));
    assert_ok(mba_file_read(&y, &m, b, 1 << 28));
    assert_int_equal(n, m);
    assert_memory_equal(x, y, n);
    free(x);
    free(y);
}

/* Weights, moments and trainer of two runs are the same bytes. */
static void same_run(const char *a, const char *b, const char *step)
{
    static const char *const file[] = { "model.safetensors", "optimizer.safetensors", "trainer.json" };
    for (int i = 0; i < 3; i++) {
        char x[512], y[512];
        snprintf(x, sizeof x, "%s/%s/%s/%s", scratch_dir, a, step, file[i]);
        snprintf(y, sizeof y, "%s/%s/%s/%s", scratch_dir, b, step, file[i]);
        same_file(x, y);
    }
}

static void train(mba_train_options o, int threads, const char *out, int64_t stop_after, const char *resume)
{
    o.out        = scratch(out);
    o.stop_after = stop_after;
    o.resume     = resume ? scratch(resume) : NULL;
    mba_cpu_set_threads(threads);
    assert_ok(mba_train(&o));
    mba_cpu_set_threads(0);
}

/* Every family; images with all that is kept beside the weights: moments of LAMB, statistics, an averaged model. */
static mba_train_options workload(int i)
{
    static const char *const pattern[] = { "mm", "MM", "M*-M+" };
    if (i < 3) return options(pattern[i], 20);
    if (i == 4) return other("graphmamba-peptides-func", SMALL_PEPTIDES,
                             (mba_batch_shape){ .graphs = 6, .nodes = 700, .edges = 1500 }, 20);
    if (i == 5) return other("graphmamba-cluster", SMALL_CLUSTER, (mba_batch_shape){ .graphs = 3 }, 20);
    mba_train_options o = other("mambavision-t", SMALL_VISION, (mba_batch_shape){ .batch = 4 }, 20);
    o.session.optimizer = MBA_LAMB;
    o.session.ema       = 0.9;
    o.micros            = 2;
    return o;
}

/* What a run that was killed after its checkpoint leaves in the log: a step more, and a piece of a line. */
static void log_more(const char *run)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s/log.jsonl", scratch_dir, run);
    FILE *f = fopen(path, "a");
    assert_non_null(f);
    assert_true(fputs("{\"step\": 11, \"loss\": 7}\n{\"step\": 12, \"lo", f) >= 0);
    assert_int_equal(fclose(f), 0);
}

/* The same steps with the same numbers, but for the time they took. */
static void same_log(const char *a, const char *b)
{
    FILE *f[2];
    char  line[2][1024];
    for (int i = 0; i < 2; i++) {
        snprintf(line[i], sizeof line[i], "%s/%s/log.jsonl", scratch_dir, i ? b : a);
        assert_non_null(f[i] = fopen(line[i], "r"));
    }
    int steps = 0;
    for (; fgets(line[0], sizeof line[0], f[0]); steps++) {
        assert_non_null(fgets(line[1], sizeof line[1], f[1]));
        for (int i = 0; i < 2; i++) {
            char *time = strstr(line[i], ", \"seconds\"");
            assert_non_null(time);
            *time = 0;
        }
        assert_string_equal(line[0], line[1]);
    }
    assert_int_equal(steps, 20);
    assert_null(fgets(line[1], sizeof line[1], f[1]));
    for (int i = 0; i < 2; i++) fclose(f[i]);
}

static void same_bits_at_any_number_of_threads_and_after_resuming(void **state)
{
    (void)state;
    for (int i = 0; i < 6; i++) {
        char dir[5][16];
        static const char *const name[] = { "one", "two", "three", "again", "halves" };
        for (int k = 0; k < 5; k++) snprintf(dir[k], sizeof dir[k], "%s%d", name[k], i);
        for (int k = 0; k < 3; k++) train(workload(i), k + 1, dir[k], 0, NULL);    // 1, 2 and 3 threads
        train(workload(i), 2, dir[3], 0, NULL);
        train(workload(i), 2, dir[4], 10, NULL);
        log_more(dir[4]);
        train(workload(i), 1, dir[4], 0, dir[4]);
        for (int k = 1; k < 5; k++) {
            same_run(dir[0], dir[k], "step-000020");
            same_log(dir[0], dir[k]);
        }
    }
}

/* The CPU as a device with memory of its own: inputs are what was in their mirror when a run began, and what a run
 * leaves there is overwritten at once, so that who reads the wrong mirror gets another result. */
static int sent;

static mba_status apart_take_host(void **out, size_t bytes)
{
    *out = calloc(1, bytes);
    return *out ? MBA_OK : mba_fail(MBA_E_NOMEM, "no memory");
}

static mba_status apart_wait(void) { return MBA_OK; }

static mba_status apart_send(mba_program *p)
{
    sent += p->apart;
    return MBA_OK;
}

static mba_status apart_run(mba_program *p, unsigned passes, const mba_hooks *h)
{
    const size_t in = p->layout.arena_bytes[MBA_INPUT], out = p->layout.arena_bytes[MBA_RESULT];
    if (in) memcpy(p->memory[MBA_INPUT], p->mirror[MBA_INPUT], in);
    MBA_TRY(mba_device_cpu.run(p, passes, h));
    if (out) memcpy(p->mirror[MBA_RESULT], p->memory[MBA_RESULT], out);
    if (in) memset(p->memory[MBA_INPUT], 0x7f, in);
    return MBA_OK;
}

/* Batches that are bound while a step is under way make the same run, also in halves and with validations between. */
static void looking_ahead_changes_nothing(void **state)
{
    (void)state;
    mba_device apart = mba_device_cpu;
    apart.take_host = apart_take_host;
    apart.give_host = free;
    apart.wait = apart_wait;
    apart.send = apart_send;
    apart.run  = apart_run;
    for (int i = 1; i < 5; i += i == 1 ? 2 : 1) {                // text, images, graphs
        mba_train_options o = workload(i);
        char              dir[3][24];
        static const char *const name[] = { "ahead-plain", "ahead", "ahead-halves" };
        for (int k = 0; k < 3; k++) snprintf(dir[k], sizeof dir[k], "%s%d", name[k], i);
        o.micros      = 1;
        o.valid_every = 7;
        o.save_every  = 5;
        train(o, 2, dir[0], 0, NULL);
        sent = 0;
        o.session.device = &apart;
        train(o, 2, dir[1], 0, NULL);
        assert_int_equal(sent, 17);                              // 19 steps have one behind them, two a validation
        same_run(dir[0], dir[1], "step-000005");
        same_run(dir[0], dir[1], "step-000020");
        train(o, 2, dir[2], 9, NULL);
        train(o, 2, dir[2], 0, dir[2]);
        same_run(dir[0], dir[2], "step-000020");
    }
}

static int runs_left;
static mba_status failing_run(mba_program *p, unsigned passes, const mba_hooks *h)
{
    runs_left--;
    return apart_run(p, passes, h);
}

static mba_status failing_wait(void)
{
    return runs_left >= 0 ? MBA_OK : mba_fail(MBA_E_DEVICE, "the device has stopped");
}

/* A device that works by itself tells a failure when it is waited for, from then on: whichever run it was. */
static void a_device_that_fails_ends_the_run_with_its_words(void **state)
{
    (void)state;
    mba_device fails = mba_device_cpu;
    fails.take_host = apart_take_host;
    fails.give_host = free;
    fails.run  = failing_run;
    fails.wait = failing_wait;
    for (int micros = 1; micros <= 2; micros++)
        for (int n = 0, enough = 0; !enough; n++) {
            mba_train_options o = options("M", 3);
            o.session.device = &fails;
            o.micros         = micros;
            runs_left        = n;
            const mba_status st = mba_train(&o);
            enough = runs_left >= 0;
            if (enough) assert_ok(st);
            else        assert_fails(st, MBA_E_DEVICE, "the device has stopped");
        }
}

static void states_carried_from_batch_to_batch_resume_too(void **state)
{
    (void)state;
    for (int half = 0; half < 2; half++) {
        mba_train_options o = options("mM", 8);
        o.carry = true;
        o.feed.validation = 0;
        o.out = scratch(half ? "carried-halves" : "carried");
        o.stop_after = half ? 4 : 0;
        assert_ok(mba_train(&o));
        if (!half) continue;
        o.stop_after = 0;
        o.resume = o.out;
        assert_ok(mba_train(&o));
    }
    same_run("carried", "carried-halves", "step-000008");
}

static double loss_sum;
static void sum_loss(void *ctx, const mba_train_report *r) { (void)ctx; loss_sum += r->loss; }

/* Nothing is learned here: the pieces of every stream give together what its whole length gives at once, in each epoch.
 * Documents end at the border of a piece, and one, two and three tokens before it, which a convolution of four looks back. */
static void states_go_on_where_their_row_ended(void **state)
{
    enum { B = 2, L = 8, PIECES = 5, END = 255 };
    (void)state;
    int32_t ids[B * PIECES * L + 1];
    for (int i = 0; i <= B * PIECES * L; i++) ids[i] = (i * i * 7 + i) % 253;
    static const int ends[] = { 3, L, 2 * L - 1, 3 * L - 2, 4 * L - 3, PIECES * L + L, PIECES * L + 2 * L + 1, 10 * L - 2 };
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) ids[ends[i]] = END;
    assert_ok(mba_token_file_write(scratch("streams.bin"), ids, B * PIECES * L + 1, 264, NULL));
    for (int documents = 0; documents < 2; documents++)
        for (int micros = 1; micros <= PIECES; micros += PIECES - 1) {
            double whole = 0;
            for (int carry = 0; carry < 2; carry++) {
                mba_train_options o = options("mM", carry ? 2 * PIECES / micros : 1);
                o.feed     = (mba_feed_options){ .data = scratch("streams.bin"), .in_order = true,
                                                 .end_of_text = documents ? END + 1 : 0 };
                o.schedule = (mba_schedule){ .steps = o.schedule.steps };
                o.session.model.lm.batch     = B;
                o.session.model.lm.length    = carry ? L : L * PIECES;
                o.session.model.lm.documents = documents;
                o.micros   = carry ? micros : 1;
                o.carry    = carry;
                o.report   = sum_loss;
                loss_sum   = 0;
                assert_ok(mba_train(&o));
                if (!carry) whole = loss_sum;
                else        assert_near(loss_sum / (double)o.schedule.steps, whole, 2e-6);
            }
        }
}

static double last_loss;
static void keep_loss(void *ctx, const mba_train_report *r) { (void)ctx; last_loss = r->loss; }

/* A convolution of one tap looks at no token before its own: it has nothing to carry. */
static void models_without_a_past_carry_what_they_have(void **state)
{
    (void)state;
    mba_train_options o = options("mM", 3);
    int32_t           ids[6] = { 1, 2 };
    o.session.model.lm.conv = 1;
    o.carry = true;
    o.feed.validation = 0;
    o.out = scratch("one-tap");
    assert_ok(mba_train(&o));
    const mba_generate_options how = { .checkpoint = scratch("one-tap/step-000003"), .temperature = 1 };
    assert_ok(mba_generate(ids, 2, 6, &how));
}

static void two_micro_batches_are_one_batch(void **state)
{
    (void)state;
    double loss[2];
    for (int micros = 1; micros <= 2; micros++) {
        mba_train_options o = options("Mm", 6);
        o.session.model.lm.batch = 4 / micros;
        o.micros   = micros;
        o.feed.in_order = true;
        o.feed.validation = 0;
        o.report   = keep_loss;
        assert_ok(mba_train(&o));
        loss[micros - 1] = last_loss;
    }
    assert_near(loss[0], loss[1], 2e-5);          // six steps of fp32 whose sums are ordered differently
}

static void a_small_model_learns(void **state)
{
    (void)state;
    mba_train_options o = options("MM", 120);
    o.session.model.lm.batch = 4;
    o.report = keep_loss;
    assert_ok(mba_train(&o));
    assert_true(last_loss < 2.2);                 // a uniform guess over the bytes is 5.6, their frequencies about 2.9
}

static mba_judgement last_valid;
static double        first_losses, last_losses;   // means of the first and of the last ten

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
    mba_train_options o = other("mambavision-t", "dim=16,in_dim=16,depths=1:1:1:1,heads=2:2:4:8,windows=0:0:2:1,"
                                "image=32,drop_path=0", (mba_batch_shape){ .batch = 32 }, 90);
    o.schedule.lr = 2e-3;
    o.feed.mixup = o.feed.cutmix = o.feed.smoothing = 0;
    o.report = keep_report;
    o.valid_batches = 16;
    assert_ok(mba_train(&o));
    printf("    images: loss %.3f to %.3f, accuracy %.3f\n", first_losses, last_losses, score("accuracy"));
    assert_true(last_losses < first_losses - 0.3 && score("accuracy") > 0.2);       // ten classes
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
    mba_feed *f;
    mba_step  step = { .seed = 1 };
    int64_t   graphs = 0, batches = 0;
    o.feed.seed = 3;
    o.feed.made = 40;
    assert_ok(mba_model_complete(&o.session.model));
    assert_ok(mba_feed_open(&f, &o.session.model, &o.feed));
    for (; f->at.epoch == 0; batches++) {
        assert_ok(mba_feed_stage(f, &step));
        assert_true(f->units >= 1 && f->units <= 8);
        graphs += f->units;
    }
    assert_int_equal(graphs, 32);                                                   // eight of ten are for training
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
    o.session.ema = 0;                            // the average would be lost
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
    assert_int_equal(scratch_entries("kept"), 3);                                  // log.jsonl and two steps
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
    assert_int_equal(scratch_entries("step-by-step"), 3);                          // the log, steps 2 and 4
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
    assert_fails(mba_train(&o), MBA_E_ARG, "has checkpoints of a run already");
    o.resume = scratch("first-run/step-000003");                                   // from the middle: 6 is not ours
    o.schedule.steps = 5;
    o.save_every = 1;
    assert_ok(mba_train(&o));
    assert_int_equal(scratch_entries("first-run"), 4);                             // the log, steps 4, 5 and 6
    char own[512];
    assert_ok(mba_checkpoint_find(own, sizeof own, scratch("first-run/step-000005")));
    assert_string_equal(own, scratch("first-run/step-000005"));
}

/* The CPU, with a weight that is not a number while the first micro-batch of step 2 is computed. */
static const char *hurt_weight, *hurt_operator;
static mba_status hurt_run(mba_program *p, unsigned passes, const mba_hooks *h)
{
    float     *w = mba_program_at(p, mba_graph_find(p->graph, hurt_weight)), kept = *w;
    const bool now = p->step->index == 2 && !p->step->micro && passes & MBA_FORWARD;
    if (now) *w = NAN;
    const mba_status st = mba_device_cpu.run(p, passes, h);
    if (now) *w = kept;
    return st;
}

static int skipped_steps;
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
    for (int i = 0; i < 4; i++) {                 // states that a convolution spoils would spoil all that follow
        const bool        carry = i / 2;
        mba_train_options o = options("M", 6);
        mba_device        hurt = mba_device_cpu;
        hurt_weight   = carry ? "backbone.layers.0.mixer.conv1d.weight" : "backbone.norm_f.weight";
        hurt_operator = carry ? "conv1d in " : "add_rmsnorm in ";
        hurt.run = hurt_run;
        o.session.device = &hurt;
        o.carry  = carry;
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
    mba_session s = { 0 };
    mba_finding f;
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
    assert_ok(mba_checkpoint_save(&s, scratch("sound"), NULL));
    ((float *)mba_session_at(&s, "backbone.embeddings.weight"))[40] = NAN;           // of token 1
    assert_ok(mba_checkpoint_save(&s, scratch("unsound"), NULL));
    mba_session_end(&s);
    assert_ok(mba_generate(ids, 3, 8, &(mba_generate_options){ .checkpoint = scratch("sound"), .temperature = 1 }));
    assert_fails(mba_generate(ids, 3, 8, &(mba_generate_options){ .checkpoint = scratch("unsound"), .temperature = 1 }),
                 MBA_E_FORMAT, "not a number");
}

static void the_guard_skips_what_is_out_of_line(void **state)
{
    (void)state;
    mba_guard g = { .factor = 8 };
    assert_true(mba_guard_skips(&g, NAN, 1));
    assert_true(mba_guard_skips(&g, 1, INFINITY));
    assert_false(mba_guard_skips(&g, 1, 1e9));                                     // it has seen nothing yet
    for (int i = 0; i < 100; i++) mba_guard_note(&g, 3 - 0.01 * i, 1 + 0.1 * (i % 3));
    assert_false(mba_guard_skips(&g, 2.1, 5));
    assert_true(mba_guard_skips(&g, 2.1, 50));
    assert_true(mba_guard_skips(&g, 9, 1));
    const int before = g.n;
    mba_guard_note(&g, 9, 1);
    assert_int_equal(g.n, before);
    assert_int_equal(g.skipped, 1);
    assert_int_equal(g.in_a_row, 1);
}

static void the_learning_rate_warms_up_and_falls(void **state)
{
    (void)state;
    const mba_schedule s = { .lr = 1, .lr_min = 0.1, .warmup = 10, .steps = 110 };
    assert_near(mba_schedule_lr(&s, 0), 0.1, 1e-12);
    assert_near(mba_schedule_lr(&s, 9), 1, 1e-12);
    assert_near(mba_schedule_lr(&s, 10), 1, 1e-12);
    assert_near(mba_schedule_lr(&s, 60), 0.55, 1e-12);
    assert_near(mba_schedule_lr(&s, 110), 0.1, 1e-12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_bits_at_any_number_of_threads_and_after_resuming),
        cmocka_unit_test(looking_ahead_changes_nothing),
        cmocka_unit_test(a_device_that_fails_ends_the_run_with_its_words),
        cmocka_unit_test(states_carried_from_batch_to_batch_resume_too),
        cmocka_unit_test(states_go_on_where_their_row_ended),
        cmocka_unit_test(models_without_a_past_carry_what_they_have),
        cmocka_unit_test(the_averaged_model_is_judged),
        cmocka_unit_test(two_micro_batches_are_one_batch), cmocka_unit_test(small_networks_for_images_and_graphs_learn),
        cmocka_unit_test(batches_of_graphs_are_closed_before_they_overflow), cmocka_unit_test(a_small_model_learns),
        cmocka_unit_test(a_checkpoint_of_other_options_is_refused),
        cmocka_unit_test(only_the_newest_checkpoints_are_kept),
        cmocka_unit_test(a_tied_head_is_written_where_its_public_class_wants_one),
        cmocka_unit_test(a_run_is_resumed_whatever_it_is_called),
        cmocka_unit_test(a_run_keeps_its_hands_off_another),
        cmocka_unit_test(a_step_that_is_not_finite_is_skipped_and_forgotten),
        cmocka_unit_test(the_watchdog_names_the_first_bad_operator),
        cmocka_unit_test(weights_that_are_no_numbers_generate_nothing),
        cmocka_unit_test(the_guard_skips_what_is_out_of_line), cmocka_unit_test(the_learning_rate_warms_up_and_falls),
    };
    return cmocka_run_group_tests(tests, prepare_data, remove_data);
}
