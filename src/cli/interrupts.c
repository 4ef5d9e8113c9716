// SPDX-License-Identifier: Apache-2.0
/* interrupts.c -- see interrupts.h. */
#include "cli/interrupts.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <time.h>
#include <unistd.h>

#include "core/file.h"

/* Signals this close together count as one: `timeout` signals a command and then its process group, and a suite signals
 * a part that the terminal has signalled already. */
enum { ONE_SIGNAL_MS = 1000 };

static void (*volatile told)(int number);
static volatile sig_atomic_t was_told;
static struct timespec       first;

static void say(const char *text, size_t n)
{
    const ssize_t written = write(STDERR_FILENO, text, n);
    (void)written;
}

void mba_end_by_signal(int number)
{
    mba_writers_abandon();
    signal(number, SIG_DFL);
    raise(number);
}

static bool is_another(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (now.tv_sec - first.tv_sec) * 1000 + (now.tv_nsec - first.tv_nsec) / 1000000 >= ONE_SIGNAL_MS;
}

static void on_signal(int number)
{
    static const char text[] = "\ninterrupted: saving, then ending; a second signal ends at once\n";
    const int         error = errno;
    if (was_told && is_another()) mba_end_by_signal(number);
    if (was_told) return;
    was_told = 1;
    clock_gettime(CLOCK_MONOTONIC, &first);
    say(text, sizeof text - 1);
    told(number);
    errno = error;
}

void mba_interrupts(void (*handler)(int number))
{
    struct sigaction was, act = { .sa_handler = on_signal };
    told = handler;
    sigemptyset(&act.sa_mask);
    sigaddset(&act.sa_mask, SIGINT);
    sigaddset(&act.sa_mask, SIGTERM);
    sigaddset(&act.sa_mask, SIGHUP);
    sigaction(SIGINT, &act, NULL);
    sigaction(SIGTERM, &act, NULL);
    if (sigaction(SIGHUP, NULL, &was) == 0 && was.sa_handler != SIG_IGN) sigaction(SIGHUP, &act, NULL);
}

/* ---- truncated files ---- */

static void on_bus(int number, siginfo_t *info, void *context)
{
    static const char why[] =
        "' was truncated while it was read\n  why:   another program wrote to it\n"
        "  fix:   do not change data while a run reads it; train --resume continues from the last checkpoint\n";
    const char *path = mba_mapped_path(info->si_addr);
    size_t      n = 0;
    (void)context;
    if (!path) { // not one of our files: a bug, which the default action shows
        signal(number, SIG_DFL);
        return;
    }
    while (path[n]) n++;
    say("\nerror: '", 9);
    say(path, n);
    say(why, sizeof why - 1);
    mba_writers_abandon();
    _exit(1);
}

void mba_mind_cut_files(void)
{
    struct sigaction act = { .sa_sigaction = on_bus, .sa_flags = SA_SIGINFO };
    sigaction(SIGBUS, &act, NULL);
}
