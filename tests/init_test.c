// SPDX-License-Identifier: Apache-2.0
/* init_test.c -- `train --init`: a new run that begins with the weights of a checkpoint. */
#include <stdbool.h>

#include "core/file.h"
#include "tests/scratch.h"
#include "tests/shell.h"

#define SIZES "width=32,layers=2,vocab=264,state=8,head_dim=16,chunk=16"
#define BATCH "--batch 2 --length 32 --data tokens --quiet"
#define OTHER "--batch 3 --length 16 --data tokens --quiet --seed 9 --optimizer lamb --steps 4"

/* Runs `mambascope ARGS` in the scratch directory and returns its exit code. */
static int run(const char *args)
{
    char line[2048];
    snprintf(line, sizeof line, "cd '%s' && '%s' %s 2>&1", scratch_dir, getenv("MBA_PROGRAM"), args);
    return shell(line);
}

static bool same_files(const char *a, const char *b)
{
    mba_map x, y;
    assert_ok(mba_file_map(&x, scratch(a)));
    assert_ok(mba_file_map(&y, scratch(b)));
    const bool same = x.bytes == y.bytes && !memcmp(x.data, y.data, x.bytes);
    mba_file_unmap(&x);
    mba_file_unmap(&y);
    return same;
}

/* A step at rate 0 leaves the weights as they came, and the average of them with them. */
static void weights_are_those_of_the_checkpoint(void **state)
{
    (void)state;
    says(run("train --init first " BATCH " --steps 1 --lr 0 --ema 0.5 --out second"), 0, "1 steps");
    assert_true(same_files("first/step-000004/model.safetensors", "second/step-000001/model.safetensors"));
    assert_true(same_files("first/step-000004/config.json", "second/step-000001/config.json"));
    says(run("eval --checkpoint second/step-000001 --data tokens --json"), 0, "\"loss\"");
    char once[sizeof output];
    memcpy(once, output, sizeof once);
    says(run("eval --checkpoint second/step-000001 --data tokens --json --ema"), 0, "\"loss\"");
    assert_string_equal(output, once);
}

/* It is a run of its own: seed, batch and optimizer are its own, and it can be resumed. */
static void a_new_run_begins(void **state)
{
    (void)state;
    says(run("train --init first/step-000004 " OTHER " --stop-after 2 --out third"), 0, "2 steps");
    says(run("train --resume third " OTHER " --out third"), 0, "4 steps");
    assert_false(same_files("first/step-000004/model.safetensors", "third/step-000004/model.safetensors"));
}

static void what_does_not_fit_is_told(void **state)
{
    (void)state;
    says(run("train --init first --resume first " BATCH), 2, "--resume and --init");
    says(run("train --init nowhere " BATCH), 1, "no checkpoint in 'nowhere'");
    says(run("train --init nowhere/deep " BATCH), 1, "fix: hf download nowhere/deep --local-dir deep,");
    says(run("generate --checkpoint state-spaces/mamba2-130m"), 1,
         "hf download state-spaces/mamba2-130m --local-dir mamba2-130m,");
    says(run("train --init first/nowhere " BATCH), 1,
         "fix: give the folder of a run or of a checkpoint"); // first is here
    says(run("train --init first --model mamba2-130m --set width=64,layers=2,vocab=264,state=8,head_dim=16 " BATCH), 1,
         "but the model needs");
    says(run("train --init first --model graphmamba-mnist --graphs 2 --quiet --steps 1"), 2,
         "is a model of text, not of graphs");
}

static int begin(void **state)
{
    (void)state;
    scratch_make();
    return run("data prepare --out tokens --synthetic 20K")
           || run("train --model mamba2-130m --set " SIZES " " BATCH " --steps 4 --out first");
}

static int end(void **state)
{
    (void)state;
    scratch_remove();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_are_those_of_the_checkpoint),
        cmocka_unit_test(a_new_run_begins),
        cmocka_unit_test(what_does_not_fit_is_told),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
