// SPDX-License-Identifier: Apache-2.0
/* train_exact_test.c -- the same run whichever way it is made: with any number of threads, in halves, looking ahead, in
 * micro-batches, with states carried from batch to batch. */
#include "tests/training.h"

#include "core/device.h"
#include "core/file.h"
#include "train/feed.h"
#include "train/generate.h"

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
    o.out = scratch(out);
    o.stop_after = stop_after;
    o.resume = resume ? scratch(resume) : NULL;
    mba_cpu_set_threads(threads);
    assert_ok(mba_train(&o));
    mba_cpu_set_threads(0);
}

/* Every family; images with all that is kept beside the weights: moments of LAMB, statistics, an averaged model. */
static mba_train_options workload(int i)
{
    static const char *const pattern[] = { "mm", "MM", "M*-M+" };
    if (i < 3) return options(pattern[i], 20);
    if (i == 4)
        return other("graphmamba-peptides-func", SMALL_PEPTIDES,
                     (mba_batch_shape){ .graphs = 6, .nodes = 700, .edges = 1500 }, 20);
    if (i == 5) return other("graphmamba-cluster", SMALL_CLUSTER, (mba_batch_shape){ .graphs = 3 }, 20);
    mba_train_options o = other("mambavision-t", SMALL_VISION, (mba_batch_shape){ .batch = 4 }, 20);
    o.session.optimizer = MBA_LAMB;
    o.session.ema = 0.9;
    o.micros = 2;
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
        char                     dir[5][16];
        static const char *const name[] = { "one", "two", "three", "again", "halves" };
        for (int k = 0; k < 5; k++) snprintf(dir[k], sizeof dir[k], "%s%d", name[k], i);
        for (int k = 0; k < 3; k++) train(workload(i), k + 1, dir[k], 0, NULL); // 1, 2 and 3 threads
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

/* The CPU as a device with memory of its own: inputs are what was in their mirror when they were sent, or else when a
 * run began, and what a run leaves there is overwritten at once, so that who reads the wrong mirror gets another
 * result. */
static int         sent;
static const void *sent_from; /* the mirror that is in `ahead`; NULL: none */

static mba_status apart_take_host(void **out, size_t bytes)
{
    *out = calloc(1, bytes);
    return *out ? MBA_OK : mba_fail(MBA_E_NOMEM, "no memory");
}

static mba_status apart_wait(void) { return MBA_OK; }

static mba_status apart_send(mba_program *p)
{
    sent += p->apart;
    memcpy(p->ahead, p->mirror[MBA_INPUT], p->layout.arena_bytes[MBA_INPUT]);
    sent_from = p->mirror[MBA_INPUT];
    return MBA_OK;
}

static mba_status apart_recall(const mba_program *p)
{
    if (sent_from == p->mirror[MBA_INPUT]) sent_from = NULL;
    return MBA_OK;
}

static mba_status apart_run(mba_program *p, unsigned passes, const mba_hooks *h)
{
    const size_t in = p->layout.arena_bytes[MBA_INPUT], out = p->layout.arena_bytes[MBA_RESULT];
    const bool   ahead = p->ahead && sent_from == p->mirror[MBA_INPUT];
    if (in && passes != MBA_UPDATE) {
        memcpy(p->memory[MBA_INPUT], ahead ? p->ahead : p->mirror[MBA_INPUT], in);
        if (ahead) memset(p->ahead, 0x7f, in), sent_from = NULL;
    }
    MBA_TRY(mba_device_cpu.run(p, passes, h));
    if (out) memcpy(p->mirror[MBA_RESULT], p->memory[MBA_RESULT], out);
    if (in) memset(p->memory[MBA_INPUT], 0x7f, in);
    return MBA_OK;
}

static mba_device device_apart(void)
{
    mba_device apart = mba_device_cpu;
    apart.alloc_host = apart_take_host;
    apart.dealloc_host = free;
    apart.wait = apart_wait;
    apart.send = apart_send;
    apart.recall = apart_recall;
    apart.run = apart_run;
    sent_from = NULL;
    return apart;
}

/* Batches that are bound while a step is under way make the same run, also in halves and with validations between. */
static void looking_ahead_changes_nothing(void **state)
{
    (void)state;
    const mba_device apart = device_apart();
    for (int n = 0; n < 5; n++) { // text, images, graphs; text and images in two micro-batches
        const int                i = (const int[]){ 1, 3, 4 }[n % 3], micros = 1 + n / 3;
        mba_train_options        o = workload(i);
        char                     dir[3][24];
        static const char *const name[] = { "ahead-plain", "ahead", "ahead-halves" };
        for (int k = 0; k < 3; k++) snprintf(dir[k], sizeof dir[k], "%s%d", name[k], n);
        o.micros = micros;
        o.valid_every = 7;
        o.save_every = 5;
        train(o, 1, dir[0], 0, NULL);
        sent = 0;
        o.session.device = &apart;
        train(o, 3 - micros, dir[1], 0, NULL);
        assert_int_equal(sent, 17 + 20 * (micros - 1)); // 19 steps have one behind them, two a validation
        same_run(dir[0], dir[1], "step-000005");
        same_run(dir[0], dir[1], "step-000020");
        if (micros > 1) continue;
        train(o, 2, dir[2], 9, NULL);
        train(o, 2, dir[2], 0, dir[2]);
        same_run(dir[0], dir[2], "step-000020");
    }
}

/* The n-th run gives a loss that is no number. */
static int        runs_until_bad;
static mba_status spoil(mba_program *p, mba_status st)
{
    float *loss = mba_program_host(p, mba_graph_find(p->graph, "loss"));
    if (st == MBA_OK && runs_until_bad-- == 0) *loss = NAN;
    return st;
}

static mba_status bad_run(mba_program *p, unsigned passes, const mba_hooks *h)
{
    return spoil(p, mba_device_cpu.run(p, passes, h));
}
static mba_status bad_apart_run(mba_program *p, unsigned passes, const mba_hooks *h)
{
    return spoil(p, apart_run(p, passes, h));
}

/* The step is left out, and the batches after it are those of a run that looks at none before its turn. */
static void a_bad_micro_batch_drops_what_was_bound_ahead(void **state)
{
    (void)state;
    mba_device plain = mba_device_cpu, apart = device_apart();
    plain.run = bad_run;
    apart.run = bad_apart_run;
    for (int bad = 3; bad < 5; bad++) { // the first and the second micro-batch of the second step
        static const char *const name[] = { "bad-plain", "bad-apart" };
        char                     dir[2][24];
        for (int k = 0; k < 2; k++) {
            mba_train_options o = options("M", 6);
            o.micros = 2;
            o.session.device = k ? &apart : &plain;
            runs_until_bad = bad;
            snprintf(dir[k], sizeof dir[k], "%s%d", name[k], bad);
            train(o, 1, dir[k], 0, NULL);
        }
        same_run(dir[0], dir[1], "step-000006");
    }
}

static int        waits_until_failure = -1;
static mba_status no_more_wait(void)
{
    return waits_until_failure-- ? apart_wait() : mba_fail(MBA_E_DEVICE, "the device is gone");
}

/* The host has an address to write to all the same, and no later run takes what was written for good. */
static void a_failure_that_the_host_waits_for_is_told(void **state)
{
    mba_session               s = { 0 };
    const mba_step            step = { .seed = 1 };
    mba_device                d = device_apart();
    const mba_session_options o = {
        .model.lm = small("M"), .adamw = mba_adamw_defaults(), .device = &d, .train = true
    };
    (void)state;
    d.wait = no_more_wait;
    assert_ok(mba_session_plan(&s, &o));
    assert_ok(mba_session_bind(&s, 1));
    assert_ok(mba_feed_example(&s, &(mba_step){ 0 }));
    assert_ok(mba_program_run(s.program, MBA_FORWARD, &step, NULL));
    waits_until_failure = 0;
    assert_non_null(mba_session_at(&s, "tokens"));
    assert_int_equal(mba_program_wait(s.program), MBA_E_DEVICE);
    assert_int_equal(mba_program_pull(s.program), MBA_E_DEVICE);
    assert_int_equal(mba_program_run(s.program, MBA_FORWARD, &step, NULL), MBA_E_DEVICE);
    assert_string_equal(mba_message(), "the device is gone");
    waits_until_failure = -1;
    mba_session_end(&s);
}

/* Inputs that are written between two runs of a row are those of the next one, though others were sent for it. */
static void what_is_written_recalls_what_was_sent_on(const mba_device *d)
{
    float loss[2];
    for (int rows = 0; rows < 2; rows++) {
        mba_session               s = { 0 };
        const mba_step            step = { .seed = 1 };
        const mba_session_options o = { .model.lm = small("M"),
                                        .adamw = mba_adamw_defaults(),
                                        .device = d,
                                        .train = true,
                                        .backward = true,
                                        .update = true };
        assert_ok(mba_session_plan(&s, &o));
        assert_ok(mba_session_bind(&s, 1));
        assert_ok(mba_feed_example(&s, &(mba_step){ 0 }));
        for (int i = 0; i < 3 * rows; i++) assert_ok(mba_program_repeat(s.program, MBA_FORWARD, &step));
        int32_t      *tokens = mba_session_at(&s, "tokens");
        const int64_t n = mba_elems(mba_graph_find(s.graph, "tokens"));
        for (int64_t i = 0; i < n; i++) tokens[i] = (int32_t)((7 * i + 3) % 200);
        assert_ok(mba_program_repeat(s.program, MBA_FORWARD, &step));
        assert_ok(mba_program_wait(s.program));
        loss[rows] = *(const float *)mba_session_at(&s, "loss");
        mba_session_end(&s);
    }
    assert_memory_equal(&loss[0], &loss[1], sizeof *loss);
    assert_true(isfinite(loss[0]));
}

static void what_is_written_recalls_what_was_sent(void **state)
{
    (void)state;
    const mba_device  apart = device_apart();
    const mba_device *gpu;
    what_is_written_recalls_what_was_sent_on(&apart);
    if (mba_device_cuda(&gpu, 0) == MBA_OK) what_is_written_recalls_what_was_sent_on(gpu);
}

/* On a GPU: the same bits whether batches are sent beside the step before or copied at the head of their own. */
static void sending_ahead_on_a_gpu_changes_nothing(void **state)
{
    (void)state;
    const mba_device *gpu;
    if (mba_device_cuda(&gpu, 0) != MBA_OK) skip();
    mba_device at_head = *gpu;
    at_head.send = NULL;
    for (int n = 0; n < 5; n++) {
        static const char *const name[] = { "gpu-at-head", "gpu-ahead" };
        char                     dir[2][24];
        for (int k = 0; k < 2; k++) {
            mba_train_options o = workload((const int[]){ 1, 3, 4 }[n % 3]);
            o.session.device = k ? gpu : &at_head;
            o.micros = 1 + n / 3;
            o.valid_every = 7;
            snprintf(dir[k], sizeof dir[k], "%s%d", name[k], n);
            train(o, 1, dir[k], 0, NULL);
        }
        same_run(dir[0], dir[1], "step-000020");
    }
}

static int        runs_left;
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
    fails.alloc_host = apart_take_host;
    fails.dealloc_host = free;
    fails.run = failing_run;
    fails.wait = failing_wait;
    for (int micros = 1; micros <= 2; micros++)
        for (int n = 0, enough = 0; !enough; n++) {
            mba_train_options o = options("M", 3);
            o.session.device = &fails;
            o.micros = micros;
            runs_left = n;
            const mba_status st = mba_train(&o);
            enough = runs_left >= 0;
            if (enough) assert_ok(st);
            else assert_fails(st, MBA_E_DEVICE, "the device has stopped");
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
static void   sum_loss(void *ctx, const mba_train_report *r)
{
    (void)ctx;
    loss_sum += r->loss;
}

/* Nothing is learned here: the pieces of every stream give together what its whole length gives at once, in each epoch.
 * Documents end at the border of a piece, and one, two and three tokens before it, which a convolution of four looks
 * back. */
static void states_go_on_where_their_row_ended(void **state)
{
    enum { B = 2, L = 8, PIECES = 5, END = 255 };
    (void)state;
    int32_t ids[B * PIECES * L + 1];
    for (int i = 0; i <= B * PIECES * L; i++) ids[i] = (i * i * 7 + i) % 253;
    static const int ends[] = { 3,         L, 2 * L - 1, 3 * L - 2, 4 * L - 3, PIECES * L + L, PIECES * L + 2 * L + 1,
                                10 * L - 2 };
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) ids[ends[i]] = END;
    assert_ok(mba_token_file_write(scratch("streams.bin"), ids, B * PIECES * L + 1, 264, NULL));
    for (int documents = 0; documents < 2; documents++)
        for (int micros = 1; micros <= PIECES; micros += PIECES - 1) {
            double whole = 0;
            for (int carry = 0; carry < 2; carry++) {
                mba_train_options o = options("mM", carry ? 2 * PIECES / micros : 1);
                o.feed = (mba_feed_options){ .data = scratch("streams.bin"),
                                             .in_order = true,
                                             .end_of_text = documents ? END + 1 : 0 };
                o.schedule = (mba_schedule){ .steps = o.schedule.steps };
                o.session.model.lm.batch = B;
                o.session.model.lm.length = carry ? L : L * PIECES;
                o.session.model.lm.documents = documents;
                o.micros = carry ? micros : 1;
                o.carry = carry;
                o.report = sum_loss;
                loss_sum = 0;
                assert_ok(mba_train(&o));
                if (!carry) whole = loss_sum;
                else assert_near(loss_sum / (double)o.schedule.steps, whole, 2e-6);
            }
        }
}

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
        o.micros = micros;
        o.feed.in_order = true;
        o.feed.validation = 0;
        o.report = keep_loss;
        assert_ok(mba_train(&o));
        loss[micros - 1] = last_loss;
    }
    assert_near(loss[0], loss[1], 2e-5); // six steps of fp32 whose sums are ordered differently
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_bits_at_any_number_of_threads_and_after_resuming),
        cmocka_unit_test(looking_ahead_changes_nothing),
        cmocka_unit_test(a_failure_that_the_host_waits_for_is_told),
        cmocka_unit_test(a_bad_micro_batch_drops_what_was_bound_ahead),
        cmocka_unit_test(what_is_written_recalls_what_was_sent),
        cmocka_unit_test(sending_ahead_on_a_gpu_changes_nothing),
        cmocka_unit_test(a_device_that_fails_ends_the_run_with_its_words),
        cmocka_unit_test(states_carried_from_batch_to_batch_resume_too),
        cmocka_unit_test(states_go_on_where_their_row_ended),
        cmocka_unit_test(models_without_a_past_carry_what_they_have),
        cmocka_unit_test(two_micro_batches_are_one_batch),
    };
    return cmocka_run_group_tests(tests, prepare_data, remove_data);
}
