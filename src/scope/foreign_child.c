// SPDX-License-Identifier: Apache-2.0
/* foreign_child.c -- see foreign_child.h: signal handlers, fork and exec, waiting. */
#include "scope/foreign_child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "scope/clock.h"

enum { ONE_SIGNAL_MS = 1000 }; // `timeout` signals a command and then its process group
static const int passed[] = { SIGINT, SIGQUIT, SIGTERM, SIGHUP };
enum { PASSED = sizeof passed / sizeof *passed };

static struct {
    struct sigaction      was[PASSED];
    bool                  ours[PASSED]; // which have our handler
    volatile pid_t        child;        // 0: it has ended, or has not started
    volatile sig_atomic_t first;        // the first signal; 0: none
    int64_t               first_ns;
    void (*told)(int number);
} at;

/* Restores the original handler and raises the signal again; it is delivered when our handler returns. */
static void raise_original(int number)
{
    for (int i = 0; i < PASSED; i++)
        if (passed[i] == number) sigaction(number, &at.was[i], NULL);
    raise(number);
}

static void on_signal(int number, siginfo_t *info, void *context)
{
    const int     error = errno;
    const int64_t now = mba_clock_ns();
    const bool    another = at.first && now - at.first_ns >= ONE_SIGNAL_MS * INT64_C(1000000);
    (void)context;
    if (at.child > 0 && info->si_code != SI_KERNEL) kill(at.child, number); // the terminal signals the child itself
    if (at.child <= 0 && another) raise_original(number);
    if (!at.first) {
        at.first_ns = now;
        at.first = number;
        if (at.told) at.told(number);
    }
    errno = error;
}

/* Installs our handlers, except for a hangup that is ignored (nohup). */
static void install_handlers(void)
{
    struct sigaction act = { .sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_RESTART };
    for (int i = 0; i < PASSED; i++) sigaddset(&act.sa_mask, passed[i]);
    for (int i = 0; i < PASSED; i++) {
        sigaction(passed[i], NULL, &at.was[i]);
        at.ours[i] = passed[i] != SIGHUP || at.was[i].sa_handler != SIG_IGN;
        if (at.ours[i]) sigaction(passed[i], &act, NULL);
    }
}

void mba_child_forget(void)
{
    for (int i = 0; i < PASSED; i++)
        if (at.ours[i]) sigaction(passed[i], &at.was[i], NULL);
    memset(at.ours, 0, sizeof at.ours);
}

/* Runs in the child and never returns. exec closes the pipe `failed`; if it fails, the reason goes into the pipe. */
static void become(char *const *argv, void (*prepare)(const void *ctx), const void *ctx, const sigset_t *mask,
                   int failed)
{
    for (int i = 0; i < PASSED; i++)
        if (at.ours[i]) signal(passed[i], SIG_DFL);
    signal(SIGXFSZ, SIG_DFL); // we ignore it, but the program must not inherit that
    sigprocmask(SIG_SETMASK, mask, NULL);
    prepare(ctx);
    execvp(argv[0], argv);
    const int why = errno;
    _exit(write(failed, &why, sizeof why) == sizeof why ? 127 : 126);
}

/* Blocks signals from the fork until at.child is set, so that none is lost. */
static mba_status start(char *const *argv, void (*prepare)(const void *ctx), const void *ctx, const int ends[2])
{
    sigset_t all, mask;
    sigemptyset(&all);
    for (int i = 0; i < PASSED; i++) sigaddset(&all, passed[i]);
    sigprocmask(SIG_BLOCK, &all, &mask);
    const pid_t child = fork();
    const int   why = errno;
    if (child == 0) become(argv, prepare, ctx, &mask, ends[1]);
    at.child = child;
    sigprocmask(SIG_SETMASK, &mask, NULL);
    return child > 0 ? MBA_OK : mba_fail(MBA_E_IO, "cannot start '%s'\nwhy: %s", argv[0], strerror(why));
}

/* *why: 0, or errno of a failed exec. WNOWAIT keeps the process id valid until at.child is cleared, so that a handler
 * never signals another process. */
static mba_status wait_for(const char *name, int failed, int *status, int *why)
{
    ssize_t   n;
    siginfo_t info;
    while ((n = read(failed, why, sizeof *why)) < 0 && errno == EINTR) continue;
    if (n != sizeof *why) *why = 0;
    while (waitid(P_PID, (id_t)at.child, &info, WEXITED | WNOWAIT) < 0)
        if (errno != EINTR) return mba_fail(MBA_E_IO, "cannot wait for '%s'\nwhy: %s", name, strerror(errno));
    const pid_t child = at.child;
    at.child = 0;
    while (waitpid(child, status, 0) < 0)
        if (errno != EINTR) return mba_fail(MBA_E_IO, "cannot wait for '%s'\nwhy: %s", name, strerror(errno));
    return MBA_OK;
}

mba_status mba_child_run(char *const *argv, void (*prepare)(const void *ctx), const void *ctx, void (*told)(int number),
                         mba_child_end *end)
{
    int           ends[2], status = 0, why = 0;
    const int64_t began_ns = mba_clock_ns();
    mba_assert(argv[0] && prepare && at.child <= 0); // one program at a time
    *end = (mba_child_end){ 0 };
    if (pipe2(ends, O_CLOEXEC)) return mba_fail(MBA_E_IO, "cannot make a pipe\nwhy: %s", strerror(errno));
    at.first = 0;
    at.told = told;
    install_handlers();
    mba_status st = start(argv, prepare, ctx, ends);
    close(ends[1]);
    if (st == MBA_OK) st = wait_for(argv[0], ends[0], &status, &why);
    close(ends[0]);
    if (st == MBA_OK && why)
        st = mba_fail(MBA_E_ARG, "cannot run '%s'\nwhy: %s\nfix: mambascope profile [options] -- CMD", argv[0],
                      strerror(why));
    if (st != MBA_OK) mba_child_forget();
    end->signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    end->code = end->signal ? 128 + end->signal : WEXITSTATUS(status);
    end->told = at.first;
    end->ended_ns = mba_clock_ns();
    end->seconds = 1e-9 * (double)(end->ended_ns - began_ns);
    return st;
}

void mba_child_words(char *out, size_t room, const mba_child_end *end)
{
    if (end->signal) snprintf(out, room, "was ended by signal %d (%s)", end->signal, strsignal(end->signal));
    else snprintf(out, room, "ended with code %d", end->code);
}
