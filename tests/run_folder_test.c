// SPDX-License-Identifier: Apache-2.0
/* run_folder_test.c -- the folder that `train --out` names belongs to one run: what would mix two of them is refused,
 * and nothing that is there is lost by it. */
#include <fcntl.h>
#include <sys/file.h>

#include "tests/program.h"

#define TRAIN "train " SMALL " " DATA " --steps 20 --quiet"

static int lines_of(const char *path)
{
    FILE *f = fopen(path, "r");
    int   n = 0;
    assert_non_null(f);
    for (int c; (c = fgetc(f)) != EOF;) n += c == '\n';
    fclose(f);
    return n;
}

/* The log of the other run was cut to the step that was resumed, and its checkpoints mixed with the new ones. */
static void a_resumed_run_does_not_go_into_another(void **state)
{
    (void)state;
    says(run(TRAIN " --stop-after 3 --out '%s/a'", scratch_dir, scratch_dir), 0, "3 steps");
    says(run(TRAIN " --stop-after 6 --out '%s/b'", scratch_dir, scratch_dir), 0, "6 steps");
    says(run(TRAIN " --stop-after 1 --resume '%s/a' --out '%s/b'", scratch_dir, scratch_dir, scratch_dir), 2,
         "already has checkpoints of a run");
    assert_int_equal(lines_of(scratch("b/log.jsonl")), 6);
    says(run(TRAIN " --stop-after 1 --resume '%s/a' --out '%s/c'", scratch_dir, scratch_dir, scratch_dir), 0,
         "4 steps");
}

/* The next `--resume RUN` took the newest checkpoint, which was the one that had been given up. */
static void a_run_goes_on_from_its_newest_checkpoint(void **state)
{
    (void)state;
    says(run(TRAIN " --stop-after 4 --save-every 2 --out '%s/d'", scratch_dir, scratch_dir), 0, "4 steps");
    says(run(TRAIN " --stop-after 1 --resume '%s/d/step-000002' --out '%s/d'", scratch_dir, scratch_dir, scratch_dir),
         2, "step-000004' is later than step 2");
    assert_int_equal(lines_of(scratch("d/log.jsonl")), 4);
    says(run(TRAIN " --stop-after 1 --resume '%s/d/../d/step-000004' --out '%s/d'", scratch_dir, scratch_dir,
             scratch_dir),
         0, "5 steps");
    assert_int_equal(lines_of(scratch("d/log.jsonl")), 5);
}

/* All names, sizes and bytes of a folder in one number. */
static unsigned long sum_of(const char *name)
{
    char line[1024];
    snprintf(line, sizeof line,
             "cd '%s/%s' && { find . ! -name .lock | sort; find . -type f ! -name .lock | sort | xargs cat; } | cksum",
             scratch_dir, name);
    assert_int_equal(shell(line), 0);
    return strtoul(output, NULL, 10);
}

/* Two at once wrote their lines over each other's; and what was looked at before the lock was not the other's yet. */
static void a_second_run_at_the_same_time_is_refused(void **state)
{
    char line[1024], who[64];
    (void)state;
    says(run(TRAIN " --stop-after 2 --save-every 1 --out '%s/e'", scratch_dir, scratch_dir), 0, "2 steps");
    snprintf(line, sizeof line,
             "mkdir '%s/new'; echo >'%s/e/samples.jsonl'; echo >'%s/e/step-000002/model.safetensors'", scratch_dir,
             scratch_dir, scratch_dir);
    assert_int_equal(shell(line), 0);
    const unsigned long was = sum_of("e"), fresh = sum_of("new");
    const int           other = open(scratch("e/.lock"), O_RDWR | O_CREAT, 0666),
              another = open(scratch("new/.lock"), O_RDWR | O_CREAT, 0666);
    assert_int_equal(flock(other, LOCK_EX), 0);
    assert_int_equal(flock(another, LOCK_EX), 0);
    dprintf(other, "%ld\n", (long)getpid());
    snprintf(who, sizeof who, "why: process %ld holds the lock", (long)getpid());
    says(run(TRAIN " --resume '%s/e' --out '%s/e'", scratch_dir, scratch_dir, scratch_dir), 2, who);
    says(run("train --resume '%s/e/step-000001'", scratch_dir), 2, who);
    says(run(TRAIN " --resume auto --out '%s/e'", scratch_dir, scratch_dir), 2,
         who); // step 2 is damaged, and keeps its name
    says(run(TRAIN " --sample a --out '%s/e'", scratch_dir, scratch_dir), 2, who);
    says(run(TRAIN " --out '%s/new'", scratch_dir, scratch_dir), 2, "another mambascope is writing to");
    says(run(TRAIN " --resume '%s/e/step-000001' --stop-after 1 --out '%s/apart'", scratch_dir, scratch_dir,
             scratch_dir),
         2, who);
    assert_true(sum_of("e") == was && sum_of("new") == fresh && access(scratch("apart"), F_OK));
    says(run("train --resume '%s/e/step-000001' --dry-run", scratch_dir), 0, ""); // writes nothing
    assert_int_equal(flock(other, LOCK_SH), 0);                                   // who reads lets others read
    says(run(TRAIN " --resume '%s/e/step-000001' --stop-after 1 --out '%s/apart'", scratch_dir, scratch_dir,
             scratch_dir),
         0, "2 steps");
    says(run(TRAIN " --resume '%s/e/step-000001' --stop-after 1 --out '%s/e'", scratch_dir, scratch_dir, scratch_dir),
         2, "holds the lock");
    close(other); // as when it ends, or is killed
    close(another);
    says(run(TRAIN " --resume auto --stop-after 2 --out '%s/e'", scratch_dir, scratch_dir), 0, "3 steps");
    says(run(TRAIN " --stop-after 1 --out '%s/new'", scratch_dir, scratch_dir), 0, "1 steps");
    assert_true(access(scratch("e/.lock"), F_OK) && access(scratch("new/.lock"), F_OK));
}

/* A run that is killed lets go of its folder; one that lives does not, and is named. */
static void a_killed_run_lets_go_of_its_folder(void **state)
{
    char line[2048];
    (void)state;
    snprintf(line, sizeof line,
             "export ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0; { exec '%s' train " SMALL " " DATA
             " --steps 1000000 --quiet --out '%s/gone' >/dev/null 2>&1; } & p=$!; "
             "while [ ! -s '%s/gone/log.jsonl' ]; do sleep 0.01; done; '%s' train " SMALL " " DATA
             " --steps 2 --out '%s/gone' 2>&1; echo $p; "
             "kill -9 $p; wait $p",
             getenv("MBA_PROGRAM"), scratch_dir, scratch_dir, scratch_dir, getenv("MBA_PROGRAM"), scratch_dir,
             scratch_dir);
    assert_int_equal(shell(line), 128 + 9);
    const char *pid = strstr(output, "why: process "),
               *last = strstr(output, "--out\n"); // which the shell's number follows
    assert_true(pid && last);
    assert_int_equal(strtol(pid + 13, NULL, 10), strtol(last + 6, NULL, 10));
    says(run(TRAIN " --stop-after 2 --out '%s/gone'", scratch_dir, scratch_dir), 0, "2 steps");
    assert_int_equal(lines_of(scratch("gone/log.jsonl")), 2);
}

/* Whatever the timing, one of two trains, and the folder is as if the other had not been there. */
static void of_two_runs_started_at_once_one_trains(void **state)
{
    char line[4096];
    (void)state;
    for (int i = 0; i < 20; i++) {
        snprintf(
            line, sizeof line,
            "export ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0; rm -rf '%s/both'; for n in 1 2; do { '%s' train " SMALL
            " " DATA " --quiet --steps $n --seed $n %s --out '%s/both' "
            ">'%s/said'$n 2>&1; echo $? >'%s/code'$n; } & done; wait; cat '%s'/said?; cat '%s'/code? | sort | tr -d "
            "'\n'",
            scratch_dir, getenv("MBA_PROGRAM"), scratch_dir, i % 2 ? "--resume auto" : "", scratch_dir, scratch_dir,
            scratch_dir, scratch_dir, scratch_dir);
        assert_int_equal(shell(line), 0);
        const size_t n = strlen(output);
        const bool ended = strstr(output, "another mambascope is writing") || strstr(output, "has checkpoints of a run")
                           || strstr(output, "the run was started with");
        if (n < 2 || strcmp(output + n - 2, "02") || !ended) fail_msg("round %d: %s", i, output);
        snprintf(line, sizeof line,
                 "cd '%s/both' && LC_ALL=C ls -A | tr '\n' ' '; grep -c . log.jsonl; grep -o '\"--seed\": [0-9]*' "
                 "options.json; "
                 "grep -o '\"seed\": [0-9]*' step-*/trainer.json",
                 scratch_dir);
        assert_int_equal(shell(line), 0);
        const int seed = strstr(output, "\"--seed\": 1") ? 1 : 2;
        char      want[256];
        snprintf(
            want, sizeof want,
            "log.jsonl options.json step-%06d tokenizer.json tokenizer_config.json %d\n\"--seed\": %d\n\"seed\": %d\n",
            seed, seed, seed, seed);
        assert_string_equal(output, want);
    }
}

/* A run that ends because its loss is not a number any more kept nothing since --save-every, by default nothing at
 * all. */
static void a_run_that_gives_up_keeps_what_it_learned(void **state)
{
    (void)state;
    says(run("train " SMALL " " DATA " --steps 60 --quiet --lr 100 --guard 0 --clip 0 --warmup 0 --out '%s/f'",
             scratch_dir, scratch_dir),
         1, "the state before them is saved");
    says(run("train " SMALL " " DATA " --steps 1 --quiet --resume '%s/f'", scratch_dir, scratch_dir), 0,
         "no step is left");
    const int kept = lines_of(scratch("f/log.jsonl"));
    assert_true(kept >= 8);
    assert_int_equal(run("train " SMALL " " DATA " --steps 1 --quiet --json --resume '%s/f'", scratch_dir, scratch_dir),
                     0);
    assert_true(number("step") == kept + 1); // the step at which it gave up is not in the log
}

/* A copy of the data with one token that no vocabulary has. */
static void spoil(long token)
{
    enum { HEADER_BYTES = 1024 };
    char line[2048];
    snprintf(line, sizeof line, "cd '%s' && rm -rf spoilt && cp -r tokens spoilt", scratch_dir);
    assert_int_equal(shell(line), 0);
    FILE *f = fopen(scratch("spoilt/tokens_00000.bin"), "r+b");
    assert_non_null(f);
    assert_int_equal(fseek(f, HEADER_BYTES + 2 * token, SEEK_SET), 0);
    fwrite("\377\377", 1, 2, f);
    fclose(f);
}

/* A token beyond the vocabulary, found when its batch was read, ended a run with nothing saved since --save-every.
 * Mended, the data goes on where it could not be read, to the bits of a run that never met it; with micro-batches,
 * which are read when the step begins and not during the one before, too. */
static void a_batch_that_cannot_be_read_loses_nothing(void **state)
{
    static const char *const how[] = { "", " --micro-batches 3" };
    (void)state;
    for (int i = 0; i < 2; i++) {
        says(run("train " SMALL " " DATA " --steps 20 --quiet --json --no-shuffle%s --out '%s/whole%d'", scratch_dir,
                 how[i], scratch_dir, i),
             0, "");
        const double loss = number("loss");
        spoil(i ? 2100 : 700);
        says(run("train " SMALL " --data '%s/spoilt' --steps 20 --quiet --no-shuffle%s --out '%s/cut%d'", scratch_dir,
                 how[i], scratch_dir, i),
             1, "the state before it is saved");
        assert_non_null(strstr(output, "not in a vocabulary of 264"));
        const int kept = lines_of(scratch(i ? "cut1/log.jsonl" : "cut0/log.jsonl"));
        assert_in_range(kept, 5, 15);
        says(run("train " SMALL
                 " --data '%s/spoilt' --steps 20 --quiet --no-shuffle%s --resume '%s/cut%d' --out '%s/cut%d'",
                 scratch_dir, how[i], scratch_dir, i, scratch_dir, i),
             1, "not in a vocabulary of 264");
        says(run("train " SMALL " " DATA
                 " --steps 20 --quiet --json --no-shuffle%s --resume '%s/cut%d' --out '%s/cut%d'",
                 scratch_dir, how[i], scratch_dir, i, scratch_dir, i),
             0, "");
        assert_true(number("loss") == loss);
        assert_int_equal(lines_of(scratch(i ? "cut1/log.jsonl" : "cut0/log.jsonl")), 20);
    }
}

/* Two files of two runs have the same bytes. */
static void same_file(const char *a, const char *b)
{
    char line[2048];
    snprintf(line, sizeof line, "cmp '%s/%s' '%s/%s'", scratch_dir, a, scratch_dir, b);
    if (shell(line)) fail_msg("%s", output);
}

/* Options that are none of the defaults; a resumed run took the defaults of what was not typed again. */
#define OWN \
    "--lr 3e-3 --lr-min 1e-4 --warmup 3 --weight-decay 0.03 --beta1 0.8 --beta2 0.9 --clip 0.7 --seed 5 " \
    "--micro-batches 2 --no-shuffle"

static void an_interrupted_run_goes_on_with_its_folder_alone(void **state)
{
    char line[2048];
    (void)state;
    says(run("train " SMALL " " DATA " --valid-fraction 0.1 " OWN " --steps 300 --quiet --out '%s/unbroken'",
             scratch_dir, scratch_dir),
         0, "300 steps");
    snprintf(line, sizeof line,
             "rm -rf '%s/broken'; { exec '%s' train " SMALL " " DATA " --valid-fraction 0.1 " OWN
             " --steps 300 --quiet --out '%s/broken' 2>&1; } & "
             "p=$!; while [ ! -s '%s/broken/log.jsonl' ]; do sleep 0.01; done; kill -INT $p; wait $p",
             scratch_dir, getenv("MBA_PROGRAM"), scratch_dir, scratch_dir, scratch_dir);
    for (int i = 0; i < 10 && (!i || !strstr(output, "interrupted, saved")); i++)
        assert_int_equal(shell(line), 0); // until it comes in time
    assert_non_null(strstr(output, "interrupted, saved"));
    assert_true(lines_of(scratch("broken/log.jsonl")) < 300);
    says(run("train --quiet --resume '%s/broken'", scratch_dir), 0, "300 steps");
    same_file("unbroken/step-000300/model.safetensors", "broken/step-000300/model.safetensors");
    same_file("unbroken/step-000300/optimizer.safetensors", "broken/step-000300/optimizer.safetensors");
    assert_int_equal(lines_of(scratch("broken/log.jsonl")), 300);
}

/* Of images and graphs, what the data and the preset decided is kept as well. */
static void runs_of_images_and_graphs_know_themselves_too(void **state)
{
    static const char *const how[] = { VISION " --batch 4 --ema 0.9 --optimizer lamb --mixup 0.3 --valid-batches 1",
                                       GRAPH " --synthetic 40 --valid-batches 1" };
    (void)state;
    for (int i = 0; i < 2; i++) {
        says(run("train %s --steps 4 --quiet --out '%s/one%d'", how[i], scratch_dir, i), 0, "4 steps");
        says(run("train %s --steps 4 --quiet --stop-after 2 --out '%s/two%d'", how[i], scratch_dir, i), 0, "2 steps");
        says(run("train --quiet --resume '%s/two%d'", scratch_dir, i), 0, "4 steps");
        for (int k = 0; k < 2; k++) {
            char a[64], b[64];
            snprintf(a, sizeof a, "one%d/step-000004/%s.safetensors", i, k ? "optimizer" : "model");
            snprintf(b, sizeof b, "two%d/step-000004/%s.safetensors", i, k ? "optimizer" : "model");
            same_file(a, b);
        }
    }
}

static void another_option_is_refused_or_named(void **state)
{
    (void)state;
    says(run(TRAIN " " OWN " --stop-after 3 --out '%s/g'", scratch_dir, scratch_dir), 0, "3 steps");
    says(run("train --resume '%s/g' --weight-decay 0", scratch_dir), 2,
         "--weight-decay is 0, but the run was started with 0.03");
    says(run("train --resume '%s/g' --carry", scratch_dir), 2, "--carry is on, but the run was started with off");
    says(run("train --resume '%s/g' --model mamba-130m", scratch_dir), 2,
         "--model is mamba-130m, but the run was started with mamba2-130m");
    assert_int_equal(lines_of(scratch("g/log.jsonl")), 3);
    says(run("train " SMALL " " DATA " --steps 20 " OWN " --stop-after 1 --resume '%s/g'", scratch_dir, scratch_dir), 0,
         "4 steps"); // the same again
    assert_null(strstr(output, "changed"));
    says(run("train --resume '%s/g' --steps 25 --lr 5e-4 --stop-after 1", scratch_dir), 0,
         "changed: --steps 20 -> 25\nchanged: --lr 0.003 -> 0.0005");
    char line[2048];
    snprintf(line, sizeof line, "grep -n changed '%s/g/log.jsonl'", scratch_dir);
    says(shell(line), 0, "5:{\"step\": 5");
    assert_non_null(strstr(output, "\"changed\": [\"--steps 20 -> 25\", \"--lr 0.003 -> 0.0005\"]"));
    says(run("train --resume '%s/g' --quiet", scratch_dir), 0, "25 steps"); // the new ones are kept
    assert_int_equal(lines_of(scratch("g/log.jsonl")), 25);
}

/* A change outlives a kill before the next checkpoint: the folder has it, and it is named again. */
static void a_change_is_not_lost_with_a_killed_run(void **state)
{
    char line[2048];
    (void)state;
    says(run(TRAIN " --stop-after 3 --out '%s/h'", scratch_dir, scratch_dir), 0, "3 steps");
    snprintf(line, sizeof line, "cp -r '%s/h' '%s/h2'", scratch_dir, scratch_dir);
    assert_int_equal(shell(line), 0);
    says(run("train --resume '%s/h' --quiet --lr 2e-3 --stop-after 1", scratch_dir), 0, "4 steps");
    snprintf(line, sizeof line, "rm -r '%s/h/step-000004'", scratch_dir); // as if it had not been reached
    assert_int_equal(shell(line), 0);
    says(run("train --resume '%s/h' --stop-after 1", scratch_dir), 0, "changed: --lr 0.001 -> 0.002");
    says(run("train --resume '%s/h2/step-000003' --stop-after 1", scratch_dir), 0,
         "4 steps"); // a copied run, by its checkpoint
    assert_null(strstr(output, "changed"));
    assert_int_equal(lines_of(scratch("h2/log.jsonl")), 4);
}

static void other_data_is_gone_through_from_its_beginning(void **state)
{
    (void)state;
    says(run("data prepare --out '%s/less' --synthetic 100K", scratch_dir), 0, "");
    says(run(TRAIN " --stop-after 3 --out '%s/i'", scratch_dir, scratch_dir), 0, "3 steps");
    says(run("train --resume '%s/i' --data '%s/less' --stop-after 2", scratch_dir, scratch_dir), 0, "5 steps");
    assert_non_null(strstr(output, "changed: --data"));
    says(run("train --resume '%s/i' --quiet --stop-after 2", scratch_dir), 0, "7 steps");
}

static void resume_auto_goes_on_or_begins(void **state)
{
    char line[2048];
    (void)state;
    says(run(TRAIN " --resume auto", scratch_dir), 2, "--resume auto needs an output folder");
    says(run(TRAIN " --resume auto --stop-after 3 --out '%s/j'", scratch_dir, scratch_dir), 0, "3 steps");
    says(run(TRAIN " --resume auto --stop-after 3 --out '%s/j'", scratch_dir, scratch_dir), 0, "6 steps");
    snprintf(line, sizeof line, "echo >'%s/j/step-000006/model.safetensors'", scratch_dir);
    assert_int_equal(shell(line), 0);
    says(run("train --resume auto --stop-after 2 --out '%s/j'", scratch_dir), 0, "renamed step-*.broken");
    assert_non_null(strstr(output, "5 steps"));
    assert_int_equal(lines_of(scratch("j/log.jsonl")), 5);
    for (int i = 3; i <= 6; i += 3) { // one line in a script that is started again
        char want[32];
        snprintf(want, sizeof want, "%d steps", i);
        says(run("train --init '%s/j' --batch 3 --length 16 " DATA
                 " --steps 9 --quiet --resume auto --stop-after 3 --out '%s/tuned'",
                 scratch_dir, scratch_dir, scratch_dir),
             0, want);
    }
    says(run("train --init '%s/j' --resume '%s/tuned'", scratch_dir, scratch_dir), 2, "--resume and --init");
    json_t *o = json_load_file(scratch("tuned/options.json"), 0, NULL);
    assert_non_null(strstr(json_string_value(json_object_get(json_object_get(o, "options"), "--init")), "/j"));
    json_decref(o);
}

/* In the folder of a run, by the shell. */
static void damage(const char *run, const char *how)
{
    char line[2048];
    snprintf(line, sizeof line, "cd '%s' && rm -rf '%s' && cp -r sums '%s' && cd '%s' && %s", scratch_dir, run, run,
             run, how);
    if (shell(line)) fail_msg("%s: %s", how, output);
}

/* Flips a bit, zeroes a page or the end. */
#define FLIP(file) "printf '\\377' | dd of=" file " bs=1 seek=$(($(stat -c %s " file ") - 13)) conv=notrunc 2>&1"
#define ZERO(file) "dd if=/dev/zero of=" file " bs=4096 seek=1 count=1 conv=notrunc 2>&1"

static const struct {
    const char *how, *file, *story;
} damages[] = {
    { FLIP("step-000006/model.safetensors"), "model.safetensors", "checksums.json says" },
    { FLIP("step-000006/optimizer.safetensors"), "optimizer.safetensors", "checksums.json says" },
    { ZERO("step-000006/model.safetensors"), "model.safetensors", "checksums.json says" },
    { "cp step-000004/model.safetensors step-000006/", "model.safetensors", "checksums.json says" },
    { "cp step-000004/optimizer.safetensors step-000006/", "optimizer.safetensors", "checksums.json says" },
    { "sed -i 's/\"lr\"/\"lR\"/;s/\"epoch\": 0/\"epoch\": 1/' step-000006/trainer.json", "trainer.json",
      "checksums.json says" },
    { "sed -i s/e/E/ step-000006/tokenizer_config.json", "tokenizer_config.json", "checksums.json says" },
    { "rm step-000006/optimizer.safetensors", "optimizer.safetensors", "is missing" },
    { "sed -i 's/\"value\": \"./&x/' step-000006/checksums.json", "config.json", "checksums.json says" },
    { "truncate -s 100 step-000006/checksums.json", "checksums.json", "" },
    { "rm -r step-000006 && cp -r step-000004 step-000006", "step-000006",
      "is the checkpoint of step 4, but its name says 6" },
};

/* A flipped bit, a zeroed page or the weights of another step were resumed from in silence. */
static void damage_is_seen_and_the_newest_sound_checkpoint_taken(void **state)
{
    (void)state;
    says(run(TRAIN " --stop-after 6 --save-every 2 --out '%s/sums'", scratch_dir, scratch_dir), 0, "6 steps");
    for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
        damage("hurt", damages[i].how);
        const int failed = run("train --quiet --resume '%s/hurt' --stop-after 1", scratch_dir);
        says(failed, 0, "5 steps");
        assert_non_null(strstr(output, damages[i].file));
        assert_non_null(strstr(output, damages[i].story));
        assert_non_null(strstr(output, "renamed step-*.broken"));
        assert_non_null(strstr(output, "hurt/step-000004'"));
        assert_int_equal(access(scratch("hurt/step-000006.broken"), F_OK), 0);
        assert_int_equal(lines_of(scratch("hurt/log.jsonl")), 5);
    }
    damage("hurt", FLIP("step-000006/model.safetensors") " && " ZERO("step-000004/model.safetensors"));
    says(run("train --quiet --resume auto --stop-after 1 --out '%s/hurt'", scratch_dir), 0, "3 steps");
    assert_non_null(strstr(output, "step-000006/model.safetensors' is damaged"));
    assert_non_null(strstr(output, "step-000004/model.safetensors' is damaged"));
    damage("hurt", "for s in 2 4 6; do rm step-00000$s/config.json; done");
    says(run("train --quiet --resume '%s/hurt' --stop-after 1", scratch_dir), 1, "every checkpoint of '");
}

/* One that is named is taken or refused, with the sound one beside it; what is not read is not looked at. */
static void damage_is_seen_by_all_who_read_a_checkpoint(void **state)
{
    static const char *const how[] = { "train " DATA " --quiet --steps 1 --batch 2 --length 32 --init '%s/hurt%s'",
                                       "eval " DATA " --batch 2 --length 32 --checkpoint '%s/hurt%s'",
                                       "generate --tokens 2 --prompt '%s' --checkpoint '%s/hurt%s'",
                                       "train " DATA " --quiet --stop-after 1 --resume '%s/hurt%s'" };
    char                     line[2048];
    (void)state;
    damage("hurt", FLIP("step-000006/model.safetensors") " && cp -r step-000006 best");
    says(run("train --resume '%s/hurt' --dry-run", scratch_dir), 0, ""); // renames nothing
    assert_int_equal(access(scratch("hurt/step-000006"), F_OK), 0);
    for (int i = 0; i < 4; i++) {
        snprintf(line, sizeof line, how[i], scratch_dir, scratch_dir, "/step-000006/");
        says(run("%s", line), 1, "step-000006//model.safetensors' is damaged: its xxh64 is ");
        assert_non_null(strstr(output, "hurt/step-000004', the newest older checkpoint without damage"));
        snprintf(line, sizeof line, how[i], scratch_dir, scratch_dir, "/best");
        says(run("%s", line), 1, "best/model.safetensors' is damaged");
    }
    damage("hurt", FLIP("step-000006/optimizer.safetensors"));
    for (int i = 0; i < 3; i++) {
        snprintf(line, sizeof line, how[i], scratch_dir, scratch_dir, "");
        says(run("%s", line), 0, "");
    }
    damage("hurt", FLIP("step-000006/model.safetensors") " && rm step-000006/checksums.json"); // of an older version
    says(run("train --resume '%s/hurt' --stop-after 1", scratch_dir), 0, "7 steps");
    assert_null(strstr(output, "checksums"));
}

static void other_kernels_of_the_cpu_are_told(void **state)
{
    char line[4096];
    (void)state;
    snprintf(line, sizeof line, "MBA_GEMM=openblas '%s' " TRAIN " --stop-after 2 --out '%s/cpu' 2>&1",
             getenv("MBA_PROGRAM"), scratch_dir, scratch_dir);
    says(shell(line), 0, "2 steps");
    for (int i = 0; i < 2; i++) {
        snprintf(line, sizeof line, "MBA_GEMM=%s '%s' train --resume '%s/cpu' --stop-after 1 2>&1",
                 i ? "packed" : "openblas", getenv("MBA_PROGRAM"), scratch_dir);
        assert_int_equal(shell(line), 0);
        assert_int_equal(strstr(output, "changed: CPU kernels ") != NULL, i);
    }
    assert_non_null(strstr(output, ", packed\n"));
    snprintf(line, sizeof line, "grep '\"step\": 4' '%s/cpu/log.jsonl'", scratch_dir);
    says(shell(line), 0, "\"changed\": [\"CPU kernels ");
}

/* The step of the log's last line with `"best": true`, and that lines are so exactly where the loss is a new least. */
static long best_of_log(const char *path)
{
    char   line[1024];
    double least = INFINITY;
    long   best = 0;
    FILE  *f = fopen(path, "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
        const char  *valid = strstr(line, "\"valid_loss\": ");
        const double loss = valid ? strtod(valid + 14, NULL) : INFINITY;
        assert_true((strstr(line, "\"best\": true") != NULL) == (loss < least));
        if (loss < least) {
            least = loss;
            best = strtol(line + 9, NULL, 10);
        }
    }
    fclose(f);
    return best;
}

/* The rate grows until the loss does: the best is in the middle, and --keep-checkpoints 1 leaves only the last
 * step-*. */
static void the_best_checkpoint_is_kept(void **state)
{
    (void)state;
    says(run("train " SMALL " " DATA " --valid-fraction 0.1 --steps 24 --valid-every 2 --lr 1 --guard 0 --warmup 24 "
             "--save-every 4 --keep-checkpoints 1 --out '%s/l'",
             scratch_dir, scratch_dir),
         0, "the best so far: saved as best");
    const long best = best_of_log(scratch("l/log.jsonl"));
    assert_in_range(best, 2, 22);
    assert_int_equal(scratch_entries("l"), 6); // log, options, tokenizer (two files), step-000024, best
    json_t *t = json_load_file(scratch("l/best/trainer.json"), 0, NULL);
    assert_int_equal(json_integer_value(json_object_get(t, "step")), best);
    json_decref(t);
    says(run("eval --checkpoint '%s/l/best' " DATA " --valid-fraction 0.1 --batch 2 --length 32", scratch_dir,
             scratch_dir),
         0, "loss");
    /* cut in two after the best: the rest does not take its place, and log and best are those of the whole run */
    says(run("train " SMALL " " DATA " --valid-fraction 0.1 --steps 24 --valid-every 2 --lr 1 --guard 0 --warmup 24 "
             "--save-every 4 --keep-checkpoints 1 --stop-after 22 "
             "--out '%s/m' --quiet",
             scratch_dir, scratch_dir),
         0, "22 steps");
    says(run("train --resume '%s/m' --quiet --json", scratch_dir), 0, "");
    assert_true(number("best_step") == (double)best);
    assert_int_equal(best_of_log(scratch("m/log.jsonl")), best);
    same_file("l/best/model.safetensors", "m/best/model.safetensors");
    same_file("l/step-000024/model.safetensors", "m/step-000024/model.safetensors");
}

/* Checkpoints of versions that kept no options go on as they did. */
static void a_checkpoint_without_options_still_goes_on(void **state)
{
    char line[2048];
    (void)state;
    says(run(TRAIN " --stop-after 3 --out '%s/k'", scratch_dir, scratch_dir), 0, "3 steps");
    json_t *t = json_load_file(scratch("k/step-000003/trainer.json"), 0, NULL);
    assert_non_null(t);
    assert_int_equal(json_object_del(t, "options"), 0);
    assert_int_equal(json_dump_file(t, scratch("k/step-000003/trainer.json"), 0), 0);
    json_decref(t);
    assert_int_equal(remove(scratch("k/step-000003/checksums.json")), 0); // nor did they have these
    says(run("train " SMALL " " DATA " --steps 20 --stop-after 1 --resume '%s/k' --out '%s/k'", scratch_dir,
             scratch_dir, scratch_dir),
         0, "does not hold the options of its run");
    assert_non_null(strstr(output, "4 steps"));
    snprintf(line, sizeof line,
             "cd '%s/k/step-000004' && rm checksums.json && sed -i 's/\"--weight-decay\"/\"--decay\"/' trainer.json",
             scratch_dir);
    assert_int_equal(shell(line), 0); // as former versions call it
    says(run("train --resume '%s/k/step-000004' --weight-decay 0.7", scratch_dir), 2,
         "--weight-decay is 0.7, but the run was started with 0.1");
    says(run("train --resume '%s/k/step-000004' --dry-run", scratch_dir), 0, "step arena");
    snprintf(line, sizeof line, "sed -i 's/\"--decay\"/\"--rot\"/' '%s/k/step-000004/trainer.json'", scratch_dir);
    assert_int_equal(shell(line), 0);
    says(run("train --resume '%s/k/step-000004'", scratch_dir), 1, "an option --rot, which this program does not know");
    snprintf(line, sizeof line,
             "sed -i 's/\"--rot\": [0-9.]*/\"--weight-decay\": true/' '%s/k/step-000004/trainer.json'", scratch_dir);
    assert_int_equal(shell(line), 0);
    says(run("train --resume '%s/k/step-000004'", scratch_dir), 1, "a damaged value of --weight-decay");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_resumed_run_does_not_go_into_another),
        cmocka_unit_test(a_run_goes_on_from_its_newest_checkpoint),
        cmocka_unit_test(a_second_run_at_the_same_time_is_refused),
        cmocka_unit_test(a_killed_run_lets_go_of_its_folder),
        cmocka_unit_test(of_two_runs_started_at_once_one_trains),
        cmocka_unit_test(a_run_that_gives_up_keeps_what_it_learned),
        cmocka_unit_test(a_batch_that_cannot_be_read_loses_nothing),
        cmocka_unit_test(an_interrupted_run_goes_on_with_its_folder_alone),
        cmocka_unit_test(runs_of_images_and_graphs_know_themselves_too),
        cmocka_unit_test(another_option_is_refused_or_named),
        cmocka_unit_test(a_change_is_not_lost_with_a_killed_run),
        cmocka_unit_test(other_data_is_gone_through_from_its_beginning),
        cmocka_unit_test(resume_auto_goes_on_or_begins),
        cmocka_unit_test(the_best_checkpoint_is_kept),
        cmocka_unit_test(a_checkpoint_without_options_still_goes_on),
        cmocka_unit_test(damage_is_seen_and_the_newest_sound_checkpoint_taken),
        cmocka_unit_test(damage_is_seen_by_all_who_read_a_checkpoint),
        cmocka_unit_test(other_kernels_of_the_cpu_are_told),
    };
    return cmocka_run_group_tests(tests, make_data, remove_data);
}
