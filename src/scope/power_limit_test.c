// SPDX-License-Identifier: Apache-2.0
/* power_limit_test.c -- a watcher runs its command if the process that started it is killed, and only then; the limit
 * of the GPU that was named comes back however the process ends. NVML (tests/fake_nvml.c) and nvidia-smi are the
 * test's own. */
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "scope/nvml.h"
#include "scope/power_limit.h"
#include "tests/scratch.h"
#include "tests/test.h"

static bool appears(const char *path, double within_s)
{
    for (double s = 0; s < within_s; s += 0.01) {
        if (!access(path, F_OK)) return true;
        nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
    }
    return false;
}

/* Leaves a process behind that lives on, with all that it inherits. */
static void start_another(void)
{
    if (fork()) return;
    for (int i = 0; i < 3; i++) close(i); // ctest waits for their end
    execlp("sleep", "sleep", "20", (char *)NULL);
    _exit(9);
}

/* A child that starts a watcher, and then ends by `end`: 'k' kill -9, 'i' Ctrl-C to its whole group, 'o' kill -9 while
 * another process of it goes on, 'd' dismisses it and leaves. */
static void run_watchered(const char *path, char end)
{
    char *const argv[] = { "touch", (char *)path, NULL };
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        mba_watcher g;
        setpgid(0, 0);
        if (mba_watcher_start(&g, argv, -1) != MBA_OK) _exit(9);
        if (end == 'o') start_another();
        if (end == 'd') mba_watcher_dismiss(&g);
        else if (end == 'i') kill(0, SIGINT);
        else raise(SIGKILL);
        _exit(0);
    }
    assert_int_equal(waitpid(child, NULL, 0), child);
}

static void a_killed_process_is_cleaned_up_after(void **state)
{
    (void)state;
    run_watchered(scratch("killed"), 'k');
    assert_true(appears(scratch("killed"), 10));
    run_watchered(scratch("interrupted"), 'i');
    assert_true(appears(scratch("interrupted"), 10));
    run_watchered(scratch("survived"), 'o');
    assert_true(appears(scratch("survived"), 10));
}

static void a_dismissed_watcher_does_nothing(void **state)
{
    (void)state;
    run_watchered(scratch("dismissed"), 'd'); // waits for the end of the watcher
    assert_int_not_equal(access(scratch("dismissed"), F_OK), 0);
    mba_watcher none = { 0 };
    mba_watcher_dismiss(&none);
}

static void a_watcher_that_was_killed_is_dismissed(void **state)
{
    (void)state;
    char *const argv[] = { "touch", (char *)scratch("gone"), NULL };
    mba_watcher g;
    assert_ok(mba_watcher_start(&g, argv, -1));
    assert_int_equal(kill(g.process, SIGKILL), 0);
    nanosleep(&(struct timespec){ .tv_nsec = 50000000 }, NULL);
    mba_watcher_dismiss(&g); // no SIGPIPE
    assert_int_equal(g.process, 0);
}

static void without_a_driver_nothing_is_changed(void **state)
{
    mba_power_limit p;
    char           *library = strdup(getenv("MBA_NVML"));
    (void)state;
    setenv("MBA_NVML", "/nowhere/libnvidia-ml.so.1", 1);
    if (mba_power_limit_set(&p, 1, NULL) == MBA_OK) fail_msg("no GPU takes a limit of 1 W");
    assert_true(p.was_w == 0 && p.watcher.process == 0);
    mba_power_limit_restore(&p);
    setenv("MBA_NVML", library, 1);
    free(library);
}

/* ---- the limits of GPUs ---- */

static const char *const BUS[] = { "0000:00:00.0", "0000:01:00.0", "0000:02:00.0" };

static double limit_of(int gpu)
{
    mba_nvml_state s;
    assert_ok(mba_nvml_read(&s, BUS[gpu]));
    return s.power_limit_w;
}

static void only_the_named_gpu_is_limited(void **state)
{
    (void)state;
    for (int gpu = 0; gpu < 3; gpu++) {
        mba_power_limit p;
        assert_ok(mba_power_limit_set(&p, 400, BUS[gpu]));
        for (int k = 0; k < 3; k++) assert_near(limit_of(k), k == gpu ? 400 : 700, 1e-9);
        mba_power_limit_restore(&p);
        for (int k = 0; k < 3; k++) assert_near(limit_of(k), 700, 1e-9);
    }
    assert_int_not_equal(access(scratch("smi"), F_OK), 0);
}

/* What nvidia-smi was called with. */
static void assert_called(const char *words)
{
    char  line[200] = "";
    FILE *f;
    assert_true(appears(scratch("smi"), 10));
    for (int i = 0; i < 100 && !strchr(line, '\n'); i++) { // it may still be writing
        assert_non_null(f = fopen(scratch("smi"), "r"));
        if (!fgets(line, sizeof line, f)) *line = 0;
        fclose(f);
        nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
    }
    line[strcspn(line, "\n")] = 0;
    assert_string_equal(line, words);
    unlink(scratch("smi"));
}

static void a_limit_that_is_refused_changes_nothing(void **state)
{
    mba_power_limit p;
    (void)state;
    assert_fails(mba_power_limit_set(&p, 100, BUS[1]), MBA_E_ARG, "choose one from 200 to 700 W");
    assert_true(p.was_w == 0);
    assert_int_not_equal(access(scratch("smi"), F_OK), 0);
    assert_ok(mba_power_limit_set(&p, 300, BUS[1])); // the lock is free
    mba_power_limit_restore(&p);
}

/* The process that sets it is killed, or the driver refuses it its old limit. */
static int leave_it(const char *how)
{
    mba_power_limit p;
    if (!strcmp(how, "refuse")) setenv("FAKE_NVML_REFUSES", "2", 1);
    if (mba_power_limit_set(&p, 450, BUS[2]) != MBA_OK) return 1;
    if (!strcmp(how, "kill")) raise(SIGKILL);
    mba_power_limit_restore(&p);
    return access(scratch("smi"), F_OK) ? 2 : 0; // it has been called by now
}

static void a_limit_comes_back_by_nvidia_smi(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        const pid_t child = fork();
        int         status;
        if (child == 0) _exit(leave_it(i ? "refuse" : "kill"));
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(i ? WIFEXITED(status) && !WEXITSTATUS(status) : WIFSIGNALED(status));
        assert_called("-i GPU-2 -pl 700");
        unlink(scratch("limits"));
    }
}

/* A second process would take the first one's limit for the GPU's own. */
static void two_processes_do_not_limit_one_gpu(void **state)
{
    mba_power_limit p, q;
    int             status;
    (void)state;
    assert_ok(mba_power_limit_set(&p, 400, BUS[0]));
    const pid_t child = fork();
    if (child == 0) {
        const mba_status st = mba_power_limit_set(&q, 500, BUS[0]);
        if (st != MBA_E_UNSUPPORTED || !strstr(mba_message(), "another process limits the power of number 0")) _exit(1);
        if (mba_power_limit_set(&q, 500, BUS[1]) != MBA_OK) _exit(2); // another GPU
        mba_power_limit_restore(&q);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    mba_power_limit_restore(&p);
    assert_ok(mba_power_limit_set(&p, 400, BUS[0]));
    mba_power_limit_restore(&p);
}

/* An nvidia-smi that notes its arguments. */
static int prepare(void **state)
{
    char script[600], path[4096];
    (void)state;
    scratch_make();
    const int n = snprintf(script, sizeof script, "#!/bin/sh\necho \"$@\" >'%s'\n", scratch("smi"));
    scratch_put(scratch("nvidia-smi"), script, (size_t)n);
    snprintf(path, sizeof path, "%s:%s", scratch_dir, getenv("PATH"));
    setenv("FAKE_NVML_LIMITS", scratch("limits"), 1);
    return chmod(scratch("nvidia-smi"), 0700) || setenv("PATH", path, 1);
}
static int clean(void **state)
{
    (void)state;
    scratch_remove();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_killed_process_is_cleaned_up_after),
        cmocka_unit_test(a_dismissed_watcher_does_nothing),
        cmocka_unit_test(a_watcher_that_was_killed_is_dismissed),
        cmocka_unit_test(without_a_driver_nothing_is_changed),
        cmocka_unit_test(only_the_named_gpu_is_limited),
        cmocka_unit_test(a_limit_that_is_refused_changes_nothing),
        cmocka_unit_test(a_limit_comes_back_by_nvidia_smi),
        cmocka_unit_test(two_processes_do_not_limit_one_gpu),
    };
    if (!getenv("MBA_NVML")) {
        print_message("skipped: MBA_NVML does not name the library of this test\n");
        return 77;
    }
    return cmocka_run_group_tests(tests, prepare, clean);
}
