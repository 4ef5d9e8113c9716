// SPDX-License-Identifier: Apache-2.0
/* kills.h -- kill -9 at random moments of training, saving and profiling. Part of crash_test.c. */
#ifndef MBA_CRASH_KILLS_H
#define MBA_CRASH_KILLS_H

#include "tests/dice.h"

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Kills the program after so many seconds; false: it has ended before, and well. */
static bool kill_after(const char *args, double seconds)
{
    char line[4096];
    int  status;
    snprintf(line, sizeof line, "cd '%s' && export ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0 && exec '%s' %s",
             scratch_dir, getenv("MBA_PROGRAM"), args);
    const pid_t pid = start_second(line);
    usleep((useconds_t)(1e6 * seconds));
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFSIGNALED(status)) return true;
    if (code_of(status)) {
        snprintf(line, sizeof line, "cat '%s/said2'", scratch_dir);
        shell(line);
        fail_msg("mambascope %s: exit %d: %s", args, code_of(status), output);
    }
    return false;
}

/* The folder of a run without what a clock says. */
static void settle_run(const char *name)
{
    char line[1024];
    snprintf(line, sizeof line,
             "cd '%s' && sed -i -E 's/\"(seconds|tokens_per_s)\": [^,]*/\"\\1\": 0/g' run/log.jsonl && rm -rf %s && mv "
             "run %s",
             scratch_dir, name, name);
    assert_int_equal(shell(line), 0);
}

/* A run that is killed up to five times, and ends as one that was left alone. */
static void kill_runs(const char *what, const char *args, int wanted)
{
    enum { IN_A_ROW = 5 };
    char line[1024];
    int  killed = 0, chains = 0, lost = 0;
    kill_after(args, 60e-3); // the first start reads the program from the disk
    snprintf(line, sizeof line, "rm -rf '%s/run'", scratch_dir);
    assert_int_equal(shell(line), 0);
    snprintf(line, sizeof line, "cd '%s' && '%s' %s >/dev/null 2>&1", scratch_dir, getenv("MBA_PROGRAM"), args);
    const double start = now_s();
    assert_int_equal(shell(line), 0);
    const double all_s = now_s() - start;
    settle_run("alone");
    while (killed < wanted) {
        for (int i = 0; i < IN_A_ROW && killed < wanted; i++) {
            if (!kill_after(args, all_s * (double)dice(1100) / 1000)) break;
            killed++;
        }
        assert_int_equal(shell(line), 0);
        settle_run("killed");
        char differs[1024];
        snprintf(differs, sizeof differs, "cd '%s' && diff -r alone killed 2>&1", scratch_dir);
        if (shell(differs) && lost++ < 3) print_error("%s, chain %d: %s\n", what, chains, output);
        chains++;
    }
    print_message("kill -9, %s: %d kills, %d chains, %d lost\n", what, killed, chains, lost);
    assert_int_equal(lost, 0);
}

#define LONG_RUN \
    "train " MODEL " --data tokens --valid-fraction 0.2 --steps 300 --valid-every 50 --valid-batches 2 --quiet " \
    "--resume auto --out run"

static void a_killed_run_ends_as_one_left_alone(void **state)
{
    (void)state;
    dice_state = 88172645463325252u;
    kill_runs("training", LONG_RUN " --save-every 40", is_long ? 70 : 4);
    kill_runs("saving", LONG_RUN " --save-every 5 --keep-checkpoints 1", is_long ? 70 : 4);
}

/* The old store stays or the new one is whole; the next profile makes a new one. */
static void a_killed_profile_costs_no_store(void **state)
{
    const int wanted = is_long ? 60 : 2;
    int       killed = 0, old = 0, fresh = 0, none = 0, lost = 0;
    (void)state;
    const double began = now_s();
    assert_int_equal(run(MEASURE("1") "'%s/kept.db'", scratch_dir), 0);
    const double all_s = now_s() - began;
    char        *before = store_words(scratch("kept.db"));
    while (killed < wanted) {
        const bool replaces = killed % 3 != 0;
        char       line[1024];
        snprintf(line, sizeof line, "cd '%s' && rm -f run.db* .run.db*; if [ %d = 1 ]; then cp kept.db run.db; fi",
                 scratch_dir, replaces);
        assert_int_equal(shell(line), 0);
        if (!kill_after(MEASURE("2") "run.db", all_s * (double)dice(1100) / 1000)) continue;
        killed++;
        char *words = access(scratch("run.db"), F_OK) ? NULL : store_words(scratch("run.db"));
        none += !words && access(scratch("run.db"), F_OK) && !replaces;
        old += words && replaces && !strcmp(words, before);
        fresh += words && (!replaces || strcmp(words, before));
        lost += !words && (replaces || access(scratch("run.db"), F_OK) == 0);
        sqlite3_free(words);
    }
    put(scratch("run.db"), ""); // and what a power cut may leave of one that had not been finished
    put(scratch("run.db.unfinished"), "no store");
    put(scratch("run.db.unfinished-journal"), "no journal");
    says(run(MEASURE("2") "'%s/run.db'", scratch_dir), 0, "wrote");
    sqlite3_free(before);
    print_message("kill -9, profiling: %d kills: %d old stores, %d new or begun, %d before the first, %d lost\n",
                  killed, old, fresh, none, lost);
    assert_int_equal(lost, 0);
}

#endif
