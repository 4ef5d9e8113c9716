// SPDX-License-Identifier: Apache-2.0
/* interrupts_test.c -- the program is told to end, or nobody listens to it any more: what was done is kept, what was
 * half done is not. */
#include "tests/test.h"

#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/interrupts.h"
#include "tests/scratch.h"

#define TRAIN \
    "mambascope train --model mamba2-130m --set width=32,layers=2,vocab=264,state=8,head_dim=16,chunk=16 " \
    "--batch 2 --length 32 --quiet"
#define BEGUN "until [ -s run/log.jsonl ]; do sleep 0.02; done; "

/* Runs a script in the scratch directory, where `mambascope` is the program, and returns its exit code. */
static int run(const char *script)
{
    char line[4096];
    snprintf(line, sizeof line, "mambascope() { exec '%s' \"$@\"; }; cd '%s' && rm -rf run && { %s; } >talk 2>&1",
             getenv("MBA_PROGRAM"), scratch_dir, script);
    const int status = system(line);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void closed_terminal_saves_the_run(void **state)
{
    (void)state;
    assert_int_equal(run(TRAIN " --steps 100000000 --out run & p=$!; " BEGUN "kill -HUP $p; wait $p && "
                               "test -f run/step-*/trainer.json"),
                     0);
}

static void nohup_goes_on(void **state)
{
    (void)state;
    assert_int_equal(run("trap '' HUP; " TRAIN " --steps 400 --out run & p=$!; " BEGUN "kill -HUP $p; "
                         "wait $p && test -d run/step-000400"),
                     0);
}

static void nobody_reads_and_the_run_goes_on(void **state)
{
    (void)state;
    assert_int_equal(
        run("(mambascope train --model mamba2-130m --set width=32,layers=2,vocab=264,state=8,head_dim=16 "
            "--batch 2 --length 32 --steps 300 --valid-every 10 --valid-fraction 0.1 --out run 2>&1) | head -n 1; "
            "k=0; until [ -d run/step-000300 ] || [ $k = 120 ]; do sleep 0.5; k=$((k + 1)); done; "
            "test -d run/step-000300"),
        0);
}

static void prepared_data_is_whole_or_not_there(void **state)
{
    (void)state;
    assert_int_equal(run("mkdir run; mambascope data prepare --out run/shards --synthetic 4G & p=$!; "
                         "until ls run | grep -q partial; do sleep 0.02; done; kill -HUP $p; wait $p; "
                         "test $? = 1 && test -z \"$(ls run)\""),
                     0);
}

static void heard(int number) { (void)number; }

/* A step that never ends hears the first signal and does nothing about it. Two at once are one (`timeout` sends
 * two). */
static void a_second_signal_ends_at_once(void **state)
{
    int         status = 0;
    const pid_t child = fork();
    (void)state;
    if (!child) {
        mba_interrupts(heard);
        alarm(60);
        for (;;) pause();
    }
    usleep(200000);
    kill(child, SIGTERM);
    usleep(200000);
    kill(child, SIGTERM);
    usleep(1200000);
    assert_int_equal(waitpid(child, &status, WNOHANG), 0);
    kill(child, SIGINT);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT);
}

static int begin(void **state)
{
    (void)state;
    scratch_make();
    return 0;
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
        cmocka_unit_test(a_second_signal_ends_at_once),
        cmocka_unit_test(closed_terminal_saves_the_run),
        cmocka_unit_test(nohup_goes_on),
        cmocka_unit_test(nobody_reads_and_the_run_goes_on),
        cmocka_unit_test(prepared_data_is_whole_or_not_there),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
