/* run_folder_test.c -- the folder that `train --out` names belongs to one run: what would mix two of them is refused, and
 * nothing that is there is lost by it. */
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
         "has checkpoints of a run already");
    assert_int_equal(lines_of(scratch("b/log.jsonl")), 6);
    says(run(TRAIN " --stop-after 1 --resume '%s/a' --out '%s/c'", scratch_dir, scratch_dir, scratch_dir), 0, "4 steps");
}

/* The next `--resume RUN` took the newest checkpoint, which was the one that had been given up. */
static void a_run_goes_on_from_its_newest_checkpoint(void **state)
{
    (void)state;
    says(run(TRAIN " --stop-after 4 --save-every 2 --out '%s/d'", scratch_dir, scratch_dir), 0, "4 steps");
    says(run(TRAIN " --stop-after 1 --resume '%s/d/step-000002' --out '%s/d'", scratch_dir, scratch_dir, scratch_dir), 2,
         "step-000004' is later than step 2");
    assert_int_equal(lines_of(scratch("d/log.jsonl")), 4);
    says(run(TRAIN " --stop-after 1 --resume '%s/d/../d/step-000004' --out '%s/d'", scratch_dir, scratch_dir, scratch_dir),
         0, "5 steps");
    assert_int_equal(lines_of(scratch("d/log.jsonl")), 5);
}

/* Two at once wrote their lines over each other's. */
static void a_second_run_at_the_same_time_is_refused(void **state)
{
    (void)state;
    says(run(TRAIN " --stop-after 2 --out '%s/e'", scratch_dir, scratch_dir), 0, "2 steps");
    const int other = open(scratch("e/log.jsonl"), O_WRONLY);
    assert_int_equal(flock(other, LOCK_EX), 0);
    says(run(TRAIN " --resume '%s/e' --out '%s/e'", scratch_dir, scratch_dir, scratch_dir), 2, "another run is going on");
    assert_int_equal(lines_of(scratch("e/log.jsonl")), 2);
    close(other);                                                    // as when it ends, or is killed
    says(run(TRAIN " --resume '%s/e' --stop-after 1 --out '%s/e'", scratch_dir, scratch_dir, scratch_dir), 0, "3 steps");
}

/* A run that ends because its loss is not a number any more kept nothing since --save-every, by default nothing at all. */
static void a_run_that_gives_up_keeps_what_it_learned(void **state)
{
    (void)state;
    says(run("train " SMALL " " DATA " --steps 60 --quiet --lr 100 --guard 0 --clip 0 --warmup 0 --out '%s/f'", scratch_dir,
             scratch_dir), 1, "what was learned before them is saved");
    says(run("train " SMALL " " DATA " --steps 1 --quiet --resume '%s/f'", scratch_dir, scratch_dir), 0, "no step left");
    const int kept = lines_of(scratch("f/log.jsonl"));
    assert_true(kept >= 8);
    assert_int_equal(run("train " SMALL " " DATA " --steps 1 --quiet --json --resume '%s/f'", scratch_dir, scratch_dir), 0);
    assert_true(number("step") == kept + 1);                 // the step at which it gave up is not in the log
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

/* A token beyond the vocabulary, found when its batch was read, ended a run with nothing saved since --save-every. Mended, the
 * data goes on where it could not be read, to the bits of a run that never met it; with micro-batches, which are read when
 * the step begins and not during the one before, too. */
static void a_batch_that_cannot_be_read_loses_nothing(void **state)
{
    static const char *const how[] = { "", " --micros 3" };
    (void)state;
    for (int i = 0; i < 2; i++) {
        says(run("train " SMALL " " DATA " --steps 20 --quiet --json --in-order%s --out '%s/whole%d'", scratch_dir, how[i], scratch_dir, i), 0, "");
        const double loss = number("loss");
        spoil(i ? 2100 : 700);
        says(run("train " SMALL " --data '%s/spoilt' --steps 20 --quiet --in-order%s --out '%s/cut%d'", scratch_dir, how[i], scratch_dir, i), 1,
             "what was learned before it is saved");
        assert_non_null(strstr(output, "not in a vocabulary of 264"));
        const int kept = lines_of(scratch(i ? "cut1/log.jsonl" : "cut0/log.jsonl"));
        assert_in_range(kept, 5, 15);
        says(run("train " SMALL " --data '%s/spoilt' --steps 20 --quiet --in-order%s --resume '%s/cut%d' --out '%s/cut%d'", scratch_dir, how[i],
                 scratch_dir, i, scratch_dir, i), 1, "not in a vocabulary of 264");
        says(run("train " SMALL " " DATA " --steps 20 --quiet --json --in-order%s --resume '%s/cut%d' --out '%s/cut%d'", scratch_dir, how[i],
                 scratch_dir, i, scratch_dir, i), 0, "");
        assert_true(number("loss") == loss);
        assert_int_equal(lines_of(scratch(i ? "cut1/log.jsonl" : "cut0/log.jsonl")), 20);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_resumed_run_does_not_go_into_another),
        cmocka_unit_test(a_run_goes_on_from_its_newest_checkpoint),
        cmocka_unit_test(a_second_run_at_the_same_time_is_refused),
        cmocka_unit_test(a_run_that_gives_up_keeps_what_it_learned),
        cmocka_unit_test(a_batch_that_cannot_be_read_loses_nothing),
    };
    return cmocka_run_group_tests(tests, make_data, remove_data);
}
