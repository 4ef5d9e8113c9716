// SPDX-License-Identifier: Apache-2.0
/* training_report_test.c -- what becomes of a training run's folder: it is read with the damage that ends of runs
 * leave, drawn as a page, compared, and exported for TensorBoard. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/file.h"
#include "report/training.h"
#include "scope/tensorboard.h"
#include "tests/page.h"
#include "tests/program.h"

/* ---- folders ---- */

static const char *folder(const char *name)
{
    static char path[4][600];
    static int  turn;
    char       *p = path[turn++ % 4];
    snprintf(p, sizeof path[0], "%s/%s", scratch_dir, name);
    return p;
}

/* A file of a run's folder, which is made. */
static void put_in(const char *run, const char *file, const char *text)
{
    char path[700];
    assert_ok(mba_mkdirs(folder(run)));
    snprintf(path, sizeof path, "%s/%s", folder(run), file);
    put(path, text);
}

#define LINE(step, tokens, loss, seconds, more) \
    "{\"step\": " #step ", \"tokens\": " #tokens ", \"loss\": " #loss ", \"grad_norm\": 1.5, \"lr\": 0.001, " \
    "\"seconds\": " #seconds ", \"tokens_per_s\": 64" more ", \"skipped\": false}\n"

/* `n` steps that learn: every tenth is validated, `bad` is skipped. */
static void put_run(const char *run, int n, double start, int bad)
{
    char  *text = NULL;
    size_t bytes = 0;
    FILE  *f = open_memstream(&text, &bytes);
    for (int i = 1; i <= n; i++) {
        fprintf(f, "{\"step\": %d, \"tokens\": %d, ", i, 64 * i);
        if (i == bad) fputs("\"loss\": null, \"grad_norm\": null", f);
        else fprintf(f, "\"loss\": %.6f, \"grad_norm\": %.6f", start / (1 + 0.02 * i) + 0.1 * sin(i), 1 + 0.3 * cos(i));
        fprintf(f, ", \"lr\": %.6f, \"seconds\": %.3f, \"tokens_per_s\": %.1f", 0.001 * (n - i + 1) / n, 0.5 * i,
                128 + 8 * sin(i));
        if (i % 10 == 0) fprintf(f, ", \"valid_loss\": %.6f", start / (1 + 0.02 * i) + 0.05);
        fprintf(f, ", \"skipped\": %s}\n", i == bad ? "true" : "false");
    }
    fclose(f);
    put_in(run, "log.jsonl", text);
    free(text);
}

/* ---- reading ---- */

static void a_log_is_read_with_the_clock_of_all_sessions(void **state)
{
    mba_training *t;
    (void)state;
    put_in("read", "log.jsonl",
           LINE(1, 32, 5.5, 0.5, "")
               LINE(2, 64, 5.25, 1.0,
                    ", \"valid_loss\": 5.125, \"valid_accuracy\": 0.5") "{\"step\": 3, \"tokens\": 96, \"loss\": 5, "
                                                                        "\"grad_norm\": 2, \"lr\": 0.0005, "
                                                                        "\"seconds\": 0.25, \"tokens_per_s\": 64, "
                                                                        "\"skipped\": false, \"changed\": [\"--lr "
                                                                        "0.001 -> 0.0005\"]}\n");
    put_in("read", "options.json",
           "{\"version\": 1, \"command\": \"train\", \"options\": {\"--model\": \"mamba2-130m\", \"--lr\": 0.0005, "
           "\"--image\": null, \"--data\": null}}");
    assert_ok(mba_training_read(&t, folder("read")));
    assert_int_equal(t->n, 3);
    assert_string_equal(t->unit, "tokens");
    assert_string_equal(t->label, "read");
    assert_true(t->step[1].valid_loss == 5.125 && isnan(t->step[0].valid_loss));
    assert_string_equal(t->score[0], "accuracy");
    assert_true(t->nscores == 1 && t->step[1].score[0] == 0.5);
    assert_true(t->sessions == 2 && t->step[2].seconds == 1.25); // the second session's clock begins at 0
    assert_string_equal(mba_training_fact_of(t, "--lr"), "0.0005");
    assert_null(mba_training_fact_of(t, "--image"));
    assert_true(t->synthetic); // no --data: made up
    assert_true(t->nnotes == 1 && strstr(t->note[0], "--lr 0.001 -> 0.0005"));
    assert_true(!t->half && !t->damaged);
    mba_training_free(t);
}

static void damage_is_left_out_and_told(void **state)
{
    mba_training *t;
    (void)state;
    put_in("hurt", "log.jsonl",
           LINE(1, 32, 5.5, 0.5, "") "{\"step\": 2, \"tok\n" LINE(3, 96, 5, 1.5, "")
               LINE(3, 96, 5, 1.5, "") "\n" LINE(4, 128, 4.5, 2, "") "{\"step\": 5, \"tokens\": 160, \"loss\": 4.");
    assert_ok(mba_training_read(&t, folder("hurt")));
    assert_int_equal(t->n, 3);
    assert_true(t->half);
    assert_true(t->damaged == 3 && t->damaged_line == 2); // no JSON, a step twice, an empty line
    mba_training_free(t);
    says(run("report '%s/hurt' --out '%s/hurt.html'", scratch_dir, scratch_dir), 0, "is incomplete and is left out");
    says(run("report '%s/hurt' --out -", scratch_dir), 0, "The last line of the log is incomplete");
    // a whole last line without its end is a step
    put_in("whole", "log.jsonl", "{\"step\": 1, \"loss\": 2, \"tokens_per_s\": 1, \"tokens\": 1}");
    assert_ok(mba_training_read(&t, folder("whole")));
    assert_true(t->n == 1 && !t->half);
    mba_training_free(t);
}

static void what_is_no_run_is_refused(void **state)
{
    (void)state;
    put_in("empty", "log.jsonl", "");
    put_in("other", "log.jsonl", "hello\nworld\n");
    put_in("nothing", "x", "");
    put_run("good", 20, 5, 0);
    put_in("images", "log.jsonl", "{\"step\": 1, \"images\": 8, \"loss\": 2, \"images_per_s\": 4}\n");
    says(run("report '%s/empty'", scratch_dir), 1, "has no step");
    says(run("report '%s/other'", scratch_dir), 1, "none of its 2 lines");
    says(run("report '%s/nothing'", scratch_dir), 1, "it has no log.jsonl");
    says(run("report '%s/good' tests/data/stores/v1.db", scratch_dir), 2,
         "is a training run, 'tests/data/stores/v1.db' is not");
    says(run("report '%s/good' '%s/images'", scratch_dir, scratch_dir), 2, "trains on tokens");
    says(run("report '%s/good' --study", scratch_dir), 2, "--study is for stores");
    says(run("export '%s/good' --csv '%s/x'", scratch_dir, scratch_dir), 2, "is a folder, not a store");
}

static void smoothing_is_corrected_for_its_start(void **state)
{
    const double v[] = { 4, NAN, 2, 2 };
    double       s[4];
    (void)state;
    mba_training_smooth(s, v, 4, 2); // keeps half: 4, 4, (1/4*4 + 1/2*2) / (3/4), ..
    assert_true(s[0] == 4 && s[1] == 4);
    assert_true(fabs(s[2] - 8. / 3) < 1e-12 && fabs(s[3] - 16. / 7) < 1e-12);
}

/* ---- the page ---- */

static char *page_of(const char *const *path, int n)
{
    mba_trainings r;
    mba_buf       b = { 0 };
    assert_ok(mba_trainings_open(&r, path, n));
    assert_ok(mba_training_page(&b, &r));
    mba_trainings_close(&r);
    return b.s;
}

static void a_page_compares_runs(void **state)
{
    (void)state;
    put_run("base", 200, 5, 50);
    put_run("wide", 150, 3.6, 0);
    put_in("base", "options.json",
           "{\"options\": {\"--model\": \"mamba2-130m\", \"--lr\": 0.001, \"--data\": \"shards\"}}");
    put_in("wide", "options.json",
           "{\"options\": {\"--model\": \"mamba2-130m\", \"--lr\": 0.002, \"--data\": \"shards\"}}");
    put_in("wide", "samples.jsonl",
           "{\"step\": 100, \"prompt\": \"In\", \"text\": \" the <b>beginning\"}\n{\"step\": 1");
    char *html = page_of((const char *const[]){ folder("base"), folder("wide") }, 2);
    char *again = page_of((const char *const[]){ folder("base"), folder("wide") }, 2);
    check_page(html);
    assert_string_equal(html, again); // the same bytes
    assert_non_null(strstr(html, "base and wide, compared"));
    assert_non_null(strstr(html, "wide reaches the lowest validation loss, 0.9500"));
    assert_non_null(strstr(html, "at step 150, 0.1000 below base"));
    assert_non_null(strstr(html, "1 option differs"));
    assert_non_null(strstr(html, "<td>--lr</td><td>0.001</td><td>0.002</td>"));
    assert_null(strstr(html, "<td>--data</td><td>shards</td><td>shards</td></tr>\n<tr><td>--lr"));
    assert_non_null(strstr(html, "1 step was skipped"));
    assert_non_null(strstr(html, " the &lt;b&gt;beginning"));
    free(again);
    free(html);
}

static void hostile_folders_stay_text(void **state)
{
    (void)state;
    put_in("<img class=x>", "log.jsonl",
           "{\"step\": 1, \"loss\": 1, \"\\\"><script>_per_s\": 1, \"valid_<i>\": 1, \"valid_loss\": "
           "1e300}\n{\"note\": \"<script>\"}\n");
    put_in("<img class=x>", "options.json", "{\"options\": {\"--<b>\": \"</td><script>\"}}");
    char *html = page_of((const char *const[]){ folder("<img class=x>") }, 1);
    check_page(html);
    assert_null(strstr(html, "<img class=x>"));
    assert_null(strstr(html, "<script>_per"));
    free(html);
}

static int rows_of(const char *text)
{
    int n = 0;
    for (; *text; text++) n += *text == '\n';
    return n;
}

static char *file_of(const char *name)
{
    char  *text;
    size_t n;
    assert_ok(mba_file_read(&text, &n, folder(name), 1 << 20));
    return text;
}

/* Without "seconds" and the rate, which no two runs share. */
static void assert_same_losses(const char *a, const char *b)
{
    for (;; a++, b++) {
        a = strstr(a, "\"loss\"");
        b = strstr(b, "\"loss\"");
        assert_true((a == NULL) == (b == NULL));
        if (!a) return;
        assert_memory_equal(a, b, strcspn(a, "}") < 40 ? strcspn(a, "}") : strcspn(a, ","));
    }
}

/* A sample is another pair of eyes: the run takes the same steps with and without it. */
static void samples_are_kept_with_checkpoints(void **state)
{
    (void)state;
    assert_int_equal(run("data prepare --out '%s/tokens' --synthetic 100K", scratch_dir), 0);
    says(run("train " SMALL " " DATA " --steps 6 --save-every 2 --sample 'In the' --quiet --out '%s/said'", scratch_dir,
             scratch_dir),
         0, "6 steps");
    says(run("train " SMALL " " DATA " --steps 6 --save-every 2 --quiet --out '%s/mute'", scratch_dir, scratch_dir), 0,
         "6 steps");
    char *said = file_of("said/log.jsonl"), *mute = file_of("mute/log.jsonl"), *samples = file_of("said/samples.jsonl");
    assert_same_losses(said, mute);
    assert_int_equal(rows_of(samples), 3);
    assert_memory_equal(samples, "{\"step\": 2, \"prompt\": \"In the\", \"text\": \"", 41);
    free(said);
    free(mute);
    free(samples);
    char *html = page_of((const char *const[]){ folder("said") }, 1);
    check_page(html);
    assert_non_null(strstr(html, "What the model writes, up to step 6"));
    assert_non_null(strstr(html, "SYNTHETIC data"));
    free(html);
    says(run("train " SMALL " " DATA " --steps 6 --sample 'In the'", scratch_dir), 2,
         "--sample needs an output folder");
    says(run("train " VISION " --batch 2 --steps 6 --sample 'In the' --out '%s/seen'", scratch_dir), 2,
         "--sample needs a text model");
}

static void a_resumed_run_says_its_samples_anew(void **state)
{
    mba_training *t;
    (void)state;
    put_run("twice", 20, 5, 0);
    put_in("twice", "samples.jsonl",
           "{\"step\": 5, \"text\": \"a\"}\n{\"step\": 10, \"text\": \"b\"}\n{\"step\": 10, \"text\": \"c\"}\n"
           "{\"step\": 20, \"text\": \"d\"}\n{\"step\": 15, \"text\": \"e\"}\n");
    assert_ok(mba_training_read(&t, folder("twice")));
    assert_int_equal(t->nsamples, 3);
    assert_string_equal(t->sample[1].text, "c");
    assert_string_equal(t->sample[2].text, "e");
    mba_training_free(t);
}

static void figures_of_runs_come_alone(void **state)
{
    (void)state;
    put_run("base", 200, 5, 50);
    put_run("wide", 150, 4, 0);
    says(run("report '%s/base' '%s/wide' --figure loss --csv", scratch_dir, scratch_dir), 0,
         "run,step,units,seconds,loss,smoothed,valid_loss\n");
    assert_int_equal(rows_of(output), 1 + 200 + 150); // every step
    says(run("report '%s/base' '%s/wide' --figure loss --view 'second half'", scratch_dir, scratch_dir), 0, "<svg ");
    assert_null(strstr(output, "var(--"));
    says(run("report '%s/base' --figure runs --csv", scratch_dir), 0, "best validation loss,1.05");
    says(run("report '%s/base' --figure fig1 --csv", scratch_dir), 2, "training runs have no figure 'fig1'");
    says(run("report '%s/base' --figure runs", scratch_dir), 2, "is a table");
    says(run("report --list"), 0, "lr           Learning rate (training runs)");
}

/* ---- TensorBoard ---- */

static uint32_t word_at(const unsigned char *p)
{
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* CRC-32C of RFC 3720, B.4, and of "123456789"; the mask of 0 is its constant. */
static void crc32c_is_that_of_the_standard(void **state)
{
    unsigned char bytes[32];
    (void)state;
    assert_true(mba_crc32c("123456789", 9) == 0xe3069283u);
    memset(bytes, 0, sizeof bytes);
    assert_true(mba_crc32c(bytes, 32) == 0x8a9136aau);
    memset(bytes, 255, sizeof bytes);
    assert_true(mba_crc32c(bytes, 32) == 0x62a8ab43u);
    for (int i = 0; i < 32; i++) bytes[i] = (unsigned char)i;
    assert_true(mba_crc32c(bytes, 32) == 0x46dd794eu);
    assert_true(mba_crc32c("", 0) == 0 && mba_crc32c_masked("", 0) == 0xa282ead8u);
}

/* The file byte by byte, by the formats of TFRecord and protobuf; the length 24 and its checksum begin every events
 * file of TensorFlow. */
static void events_have_the_bytes_of_the_format(void **state)
{
    static const unsigned char head[] = { 24, 0, 0, 0, 0, 0, 0, 0, 0xa3, 0x7f, 0x4b, 0x22, 0x09 };
    // step 300 is the varint ac 02; loss 1.5 is 3fc00000, little-endian
    static const unsigned char step[] = { 0x10, 0xac, 0x02, 0x2a };
    static const unsigned char loss[] = { 0x0a, 0x11, 0x0a, 0x0a, 'l',  'o', 's', 's',  '/', 't',
                                          'r',  'a',  'i',  'n',  0x15, 0,   0,   0xc0, 0x3f };
    mba_training              *t;
    char                       path[4096], *file;
    size_t                     n;
    (void)state;
    put_in("board", "log.jsonl",
           "{\"step\": 300, \"tokens\": 64, \"loss\": 1.5, \"grad_norm\": null, \"lr\": 0.5, \"tokens_per_s\": 8, "
           "\"skipped\": false}\n");
    assert_ok(mba_training_read(&t, folder("board")));
    assert_ok(mba_tensorboard_write(path, sizeof path, t, folder("events")));
    assert_ok(mba_file_read(&file, &n, path, 1 << 20));
    const unsigned char *at = (const unsigned char *)file;
    assert_memory_equal(at, head, sizeof head);
    assert_memory_equal(at + 12 + 9,
                        "\x1a\x0d"
                        "brain.Event:2",
                        15);
    assert_true(word_at(at + 12 + 24) == mba_crc32c_masked(at + 12, 24));
    const unsigned char *second = at + 12 + 24 + 4;
    const size_t         bytes = word_at(second);
    assert_true(word_at(second + 8) == mba_crc32c_masked(second, 8));
    assert_int_equal(n, 12 + 24 + 4 + 12 + bytes + 4); // and nothing behind it
    assert_true(word_at(second + 12 + bytes) == mba_crc32c_masked(second + 12, bytes));
    assert_true(second[12] == 0x09); // wall time, a double
    assert_memory_equal(second + 12 + 9, step, sizeof step);
    assert_non_null(memmem(second + 12, bytes, loss, sizeof loss));
    assert_non_null(memmem(second + 12, bytes, "speed/tokens_per_s\x15\0\0\0\x41", 23));
    assert_null(memmem(second + 12, bytes, "gradient_norm", 13)); // it was no number
    free(file);
    mba_training_free(t);
}

static void runs_are_exported_into_folders_of_their_own(void **state)
{
    (void)state;
    put_run("base", 20, 5, 0);
    put_run("wide", 15, 4, 0);
    says(run("export '%s/base' '%s/wide' --tensorboard '%s/boards'", scratch_dir, scratch_dir, scratch_dir), 0,
         "wide (15 steps)");
    says(run("export '%s/base' --tensorboard '%s/boards/base'", scratch_dir, scratch_dir), 0,
         "base (20 steps)"); // once more
    says(run("export '%s/base' --tensorboard '%s/boards/wide'", scratch_dir, scratch_dir), 2,
         "has events of another run");
    says(run("export tests/data/stores/v1.db --tensorboard '%s/boards'", scratch_dir), 1, "is not a training run");
    says(run("export '%s/base' --tensorboard '%s/b' --json -", scratch_dir, scratch_dir), 2, "with another form");
}

static int begin(void **state)
{
    (void)state;
    scratch_make();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_log_is_read_with_the_clock_of_all_sessions),
        cmocka_unit_test(damage_is_left_out_and_told),
        cmocka_unit_test(what_is_no_run_is_refused),
        cmocka_unit_test(smoothing_is_corrected_for_its_start),
        cmocka_unit_test(a_page_compares_runs),
        cmocka_unit_test(hostile_folders_stay_text),
        cmocka_unit_test(samples_are_kept_with_checkpoints),
        cmocka_unit_test(a_resumed_run_says_its_samples_anew),
        cmocka_unit_test(figures_of_runs_come_alone),
        cmocka_unit_test(crc32c_is_that_of_the_standard),
        cmocka_unit_test(events_have_the_bytes_of_the_format),
        cmocka_unit_test(runs_are_exported_into_folders_of_their_own),
    };
    return cmocka_run_group_tests(tests, begin, remove_data);
}
