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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_resumed_run_does_not_go_into_another),
        cmocka_unit_test(a_run_goes_on_from_its_newest_checkpoint),
        cmocka_unit_test(a_second_run_at_the_same_time_is_refused),
        cmocka_unit_test(a_run_that_gives_up_keeps_what_it_learned),
    };
    return cmocka_run_group_tests(tests, make_data, remove_data);
}
