// SPDX-License-Identifier: Apache-2.0
/* power_limit_test.c -- a watcher runs its command if the process that started it is killed, and only then. */
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

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

/* A child that starts a watcher, and then ends by `end`: 'k' kill -9, 'i' Ctrl-C, 'd' dismisses it and leaves. */
static void run_watchered(const char *path, char end)
{
    char *const argv[] = { "touch", (char *)path, NULL };
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        mba_watcher g;
        if (mba_watcher_start(&g, argv) != MBA_OK) _exit(9);
        if (end == 'd') mba_watcher_dismiss(&g);
        else raise(end == 'k' ? SIGKILL : SIGINT);
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
}

static void a_dismissed_watcher_does_nothing(void **state)
{
    (void)state;
    run_watchered(scratch("dismissed"), 'd'); // waits for the end of the watcher
    assert_int_not_equal(access(scratch("dismissed"), F_OK), 0);
    mba_watcher none = { 0 };
    mba_watcher_dismiss(&none);
}

static void without_a_driver_nothing_is_changed(void **state)
{
    mba_power_limit p;
    (void)state;
    if (mba_power_limit_set(&p, 1) == MBA_OK) fail_msg("no GPU takes a limit of 1 W");
    assert_true(p.was_w == 0 && p.watcher.process == 0);
    mba_power_limit_restore(&p);
}

static int prepare(void **state)
{
    (void)state;
    scratch_make();
    return 0;
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
        cmocka_unit_test(without_a_driver_nothing_is_changed),
    };
    return cmocka_run_group_tests(tests, prepare, clean);
}
