// SPDX-License-Identifier: Apache-2.0
/* train_words_test.c -- what `train` says about what it keeps, and what commands beside it take of a run. */
#include "tests/program.h"

#define TRAIN "train " SMALL " " DATA " --steps 4"

/* The step was 0 in --json. */
static void no_step_left_tells_the_step_that_is_reached(void **state)
{
    (void)state;
    says(run(TRAIN " --quiet --out '%s/a'", scratch_dir, scratch_dir), 0, "4 steps");
    says(run(TRAIN " --quiet --resume '%s/a'", scratch_dir, scratch_dir), 0,
         "the checkpoint has 4, --steps asks for 4");
    assert_int_equal(run(TRAIN " --quiet --json --resume '%s/a'", scratch_dir, scratch_dir), 0);
    assert_true(number("step") == 4 && number("tokens") == 0);
    assert_int_equal(run("train " SMALL " " DATA " --steps 3 --quiet --json --resume '%s/a'", scratch_dir, scratch_dir),
                     0);
    assert_true(number("step") == 4);
}

/* Options that had no effect, without a word. */
static void what_would_not_be_kept_or_done_is_told(void **state)
{
    (void)state;
    says(run(TRAIN, scratch_dir), 0, "this run stores nothing: --out DIR");
    says(run(TRAIN " --save-every 2", scratch_dir), 2, "--save-every needs an output folder");
    says(run(TRAIN " --valid-every 2", scratch_dir), 2, "--valid-every is set, but the data has no validation part");
    says(run(TRAIN " --valid-every 2 --valid-fraction 0.2", scratch_dir), 0, "step 2  loss");
    says(run(TRAIN " --lr 1e-4 --lr-min 1e-3", scratch_dir), 2,
         "--lr-min (0.001) must not be larger than --lr (0.0001)");
    says(run(TRAIN " --lr 1e-6", scratch_dir), 0, "4 steps");
    says(run(TRAIN " --cooldown 0.1", scratch_dir), 2, "--cooldown needs --schedule wsd");
    says(run(TRAIN " --schedule linear", scratch_dir), 2, "cosine, constant, wsd or wsd-sqrt");
    says(run(TRAIN " --schedule wsd --cooldown 0.5 --steps 100 --lr 1e-2", scratch_dir), 0,
         "lr 2.10e-04"); // 1/50 of 1e-2 - 1e-5
    says(run("help train"), 0, "usage: mambascope train");
    says(run("help dance"), 2, "no command 'dance'");
}

/* `train --init` and `--resume` took the folder of a run; these asked for its step-*, by way of a missing file. */
static void a_run_stands_for_its_newest_checkpoint(void **state)
{
    (void)state;
    says(run(TRAIN " --quiet --save-every 2 --out '%s/b'", scratch_dir, scratch_dir), 0, "4 steps");
    assert_int_equal(run("eval --checkpoint '%s/b/step-000004' " DATA " --json", scratch_dir, scratch_dir), 0);
    const double loss = number("loss");
    assert_int_equal(run("eval --checkpoint '%s/b' " DATA " --json", scratch_dir, scratch_dir), 0);
    assert_true(number("loss") == loss);
    assert_int_equal(run("eval --checkpoint '%s/b/step-000002' " DATA " --json", scratch_dir, scratch_dir), 0);
    assert_true(number("loss") != loss);
    says(run("generate --checkpoint '%s/b' --prompt abc --tokens 3", scratch_dir), 0, "abc");
    says(run("generate --checkpoint '%s' --prompt abc", scratch_dir), 1, "neither config.json nor a step-* folder");
    says(run("eval --checkpoint '%s/b' --ema " DATA, scratch_dir, scratch_dir), 2, "the run has no averaged weights");
}

static double of_row(int i, const char *key)
{
    json_t      *j = json_output();
    const double x = json_number_value(json_object_get(json_array_get(json_object_get(j, "data"), (size_t)i), key));
    json_decref(j);
    return x;
}

/* Of several --data, the last was taken and the others ignored. */
static void several_sets_of_data_are_judged_in_one_call(void **state)
{
    (void)state;
    double loss[2], targets[2];
    says(run("data prepare --out '%s/less' --synthetic 20K", scratch_dir), 0, "");
    says(run(TRAIN " --quiet --out '%s/q'", scratch_dir, scratch_dir), 0, "4 steps");
    for (int i = 0; i < 2; i++) {
        assert_int_equal(run("eval --checkpoint '%s/q' --data '%s/%s' --json", scratch_dir, scratch_dir,
                             i ? "less" : "tokens"),
                         0);
        loss[i] = number("loss");
        targets[i] = number("targets");
        assert_near(number("perplexity"), exp(loss[i]), 1e-6);
    }
    assert_true(loss[0] != loss[1] && targets[0] != targets[1]);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(run("eval --checkpoint '%s/q' " DATA " %s '%s/less' --json", scratch_dir, scratch_dir,
                             i ? "--data" : "", scratch_dir),
                         0);
        for (int k = 0; k < 2; k++) assert_true(of_row(k, "loss") == loss[k] && of_row(k, "targets") == targets[k]);
        const double all = (loss[0] * targets[0] + loss[1] * targets[1]) / (targets[0] + targets[1]);
        assert_near(number("loss"), all, 1e-10);
        assert_near(number("perplexity"), exp(all), 1e-7);
        assert_true(number("targets") == targets[0] + targets[1]);
    }
    says(run("eval --checkpoint '%s/q' " DATA " '%s/less' --csv", scratch_dir, scratch_dir, scratch_dir), 0,
         "data,targets,loss,perplexity\n");
    assert_non_null(strstr(output, "\nall,"));
    says(run("eval --checkpoint '%s/q' " DATA " '%s/less'", scratch_dir, scratch_dir, scratch_dir), 0, "\nall ");
    says(run("eval --checkpoint '%s/q' " DATA " '%s/none'", scratch_dir, scratch_dir, scratch_dir), 1,
         "evaluating on '");
}

/* What stood on standard input was ignored, and "In the beginning" continued. */
static void a_prompt_comes_from_standard_input(void **state)
{
    (void)state;
    char line[2048], *first;
    says(run(TRAIN " --quiet --out '%s/p'", scratch_dir, scratch_dir), 0, "4 steps");
    says(run("generate --checkpoint '%s/p' --prompt 'And God' --tokens 12 --top-p 0.9", scratch_dir), 0, "And God");
    assert_non_null(first = strdup(output));
    for (int i = 0; i < 3; i++) {
        static const char *const how[] = { "", " --prompt -", "" };
        snprintf(line, sizeof line, "%s 'And God' | '%s' generate --checkpoint '%s/p' --tokens 12 --top-p 0.9%s 2>&1",
                 i == 2 ? "printf" : "echo", getenv("MBA_PROGRAM"), scratch_dir, how[i]);
        says(shell(line), 0, "And God");
        assert_string_equal(output, first); // with and without a line break at its end
    }
    free(first);
    says(run("generate --checkpoint '%s/p' --prompt abc --tokens 4 </dev/null", scratch_dir), 0, "abc");
    says(run("generate --checkpoint '%s/p' --tokens 4 </dev/null", scratch_dir), 2, "the prompt is empty");
    says(run("generate --checkpoint '%s/p' --prompt - </dev/null", scratch_dir), 2, "the prompt is empty");
    says(run("generate --checkpoint '%s/p' --prompt - <'%s'", scratch_dir, scratch_dir), 1, "cannot read the prompt");
    says(run("generate --checkpoint '%s/p' --prompt a --top-p 2", scratch_dir), 2,
         "--top-p must be a number from 1e-09 to 1, not 2");
    says(run("generate --checkpoint '%s/p' --prompt abc --tokens 20 --temperature 0", scratch_dir), 0, "abc");
    assert_non_null(first = strdup(output));
    says(run("generate --checkpoint '%s/p' --prompt abc --tokens 20 --top-p 1e-6", scratch_dir), 0, "abc");
    assert_string_equal(output, first); // a nucleus of one
    free(first);
}

/* One message for a wrong name and a wrong value, with an advice about lists. */
static void a_field_that_cannot_be_set_says_why(void **state)
{
    static const struct {
        const char *set, *why;
    } cases[] = {
        { "nosuch=1", "this model has no field 'nosuch'" },
        { "width", "it has no =" },
        { "vocab=10000000000", "from 2 to 16777216" },
        { "width=1e3", "a whole number" },
        { "eps=nan", "above 0" },
        { "dt_min=-1", "not below 0" },
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        says(run("train --model mamba2-130m --set %s --dry-run", cases[i].set), 2, cases[i].why);
    says(run("train --model mambavision-t --set depths=1-2 --dry-run"), 2, "whole numbers with colons");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_step_left_tells_the_step_that_is_reached),
        cmocka_unit_test(what_would_not_be_kept_or_done_is_told),
        cmocka_unit_test(a_run_stands_for_its_newest_checkpoint),
        cmocka_unit_test(several_sets_of_data_are_judged_in_one_call),
        cmocka_unit_test(a_prompt_comes_from_standard_input),
        cmocka_unit_test(a_field_that_cannot_be_set_says_why),
    };
    return cmocka_run_group_tests(tests, make_data, remove_data);
}
