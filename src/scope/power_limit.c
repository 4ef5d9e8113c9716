// SPDX-License-Identifier: Apache-2.0
/* power_limit.c -- see power_limit.h. */
#include "scope/power_limit.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "scope/nvml.h"

static const char DISMISSED = 'd';

/* In the child of a process with threads: calls that are safe there, and no memory. Files of the parent are closed, or
 * its locks would outlive it. */
static void wait_and_run(int from, char *const argv[])
{
    enum { FILES = 1024 };
    char    said = 0;
    ssize_t n;
    setsid(); // Ctrl-C of the terminal is not for this process
    for (int i = 3; i < FILES; i++)
        if (i != from) close(i);
    while ((n = read(from, &said, 1)) < 0 && errno == EINTR) {
    }
    if (n == 1 && said == DISMISSED) _exit(0);
    execvp(argv[0], argv);
    _exit(127);
}

mba_status mba_watcher_start(mba_watcher *out, char *const argv[])
{
    int end[2];
    mba_assert(argv && argv[0]);
    *out = (mba_watcher){ 0 };
    if (pipe(end)) return mba_fail(MBA_E_IO, "cannot make a pipe\nwhy: %s", strerror(errno));
    const pid_t process = fork();
    if (process == 0) {
        close(end[1]);
        wait_and_run(end[0], argv);
    }
    close(end[0]);
    if (process < 0) {
        const int why = errno;
        close(end[1]);
        return mba_fail(MBA_E_IO, "cannot start a process that runs `%s` if this one is killed\nwhy: %s", argv[0],
                        strerror(why));
    }
    *out = (mba_watcher){ process, end[1] };
    return MBA_OK;
}

void mba_watcher_dismiss(mba_watcher *g)
{
    if (!g->process) return;
    while (write(g->open, &DISMISSED, 1) < 0 && errno == EINTR) {
    }
    close(g->open);
    while (waitpid(g->process, NULL, 0) < 0 && errno == EINTR) {
    }
    *g = (mba_watcher){ 0 };
}

mba_status mba_power_limit_set(mba_power_limit *out, double watts)
{
    mba_nvml_state now;
    char           back[32];
    char *const    argv[] = { "nvidia-smi", "-i", "0", "-pl", back, NULL };
    mba_assert(watts > 0);
    *out = (mba_power_limit){ 0 };
    MBA_TRY(mba_nvml_read(&now, 0));
    if (now.power_limit_w <= 0)
        return mba_fail(MBA_E_UNSUPPORTED,
                        "the driver does not tell the power limit\nwhy: %s has none to be read\n"
                        "fix: leave --power-limit out",
                        now.name);
    snprintf(back, sizeof back, "%.0f", now.power_limit_w);
    MBA_TRY(mba_watcher_start(&out->watcher, argv));
    const mba_status st = mba_nvml_limit_power(watts);
    if (st == MBA_OK) out->was_w = now.power_limit_w;
    else mba_watcher_dismiss(&out->watcher);
    return st;
}

/* If the driver refuses, the watcher is left to try it by nvidia-smi. */
void mba_power_limit_restore(mba_power_limit *p)
{
    if (!p->was_w) return;
    mba_assert(p->was_w > 0 && p->watcher.process > 0);
    if (mba_nvml_limit_power(p->was_w) == MBA_OK) mba_watcher_dismiss(&p->watcher);
    else close(p->watcher.open);
    *p = (mba_power_limit){ 0 };
}
