// SPDX-License-Identifier: Apache-2.0
/* power_limit.c -- see power_limit.h. */
#include "scope/power_limit.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "scope/nvml.h"

static const char READY = 'r', DISMISSED = 'd';

/* ---- the watcher ---- */

/* Files of the parent would stay open, and locks in force. */
static void close_others(int a, int b)
{
    enum { MOST = 65536 };
    struct rlimit files;
    const int     most = getrlimit(RLIMIT_NOFILE, &files) || files.rlim_cur > MOST ? MOST : (int)files.rlim_cur;
    for (int i = 3; i < most; i++)
        if (i != a && i != b) close(i);
}

/* In the child of a process with threads: calls that are safe there, and no memory. No signal has been delivered since
 * the fork; in a session of its own none of the terminal is any more. */
static void wait_and_run(int parent, char *const argv[], int keep, const sigset_t *mask)
{
    const int stopping[] = { SIGINT, SIGTERM, SIGHUP, SIGPIPE };
    char      said = 0;
    ssize_t   n;
    setsid();
    for (size_t i = 0; i < sizeof stopping / sizeof *stopping; i++) signal(stopping[i], SIG_IGN);
    sigprocmask(SIG_SETMASK, mask, NULL);
    close_others(parent, keep);
    send(parent, &READY, 1, MSG_NOSIGNAL);
    while ((n = recv(parent, &said, 1, 0)) < 0 && errno == EINTR) {
    }
    if (n == 1 && said == DISMISSED) _exit(0);
    if (keep >= 0) fcntl(keep, F_SETFD, 0); // the command holds it too
    execvp(argv[0], argv);
    _exit(127);
}

static mba_status no_watcher(const char *command, int why)
{
    return mba_fail(MBA_E_IO, "cannot start a process that runs `%s` if this one is killed\nwhy: %s", command,
                    strerror(why));
}

static void await(pid_t process)
{
    while (waitpid(process, NULL, 0) < 0 && errno == EINTR) {
    }
}

mba_status mba_watcher_start(mba_watcher *out, char *const argv[], int keep)
{
    int      end[2];
    sigset_t all, mask;
    char     said = 0;
    ssize_t  n;
    mba_assert(argv && argv[0]);
    *out = (mba_watcher){ 0 };
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, end)) return no_watcher(argv[0], errno);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &mask);
    const pid_t process = fork();
    if (process == 0) wait_and_run(end[1], argv, keep, &mask);
    const int why = errno;
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
    close(end[1]);
    while (process > 0 && (n = recv(end[0], &said, 1, 0)) < 0 && errno == EINTR) {
    }
    if (process > 0 && said == READY) {
        *out = (mba_watcher){ process, end[0] };
        return MBA_OK;
    }
    close(end[0]);
    if (process < 0) return no_watcher(argv[0], why);
    await(process);
    return no_watcher(argv[0], ECHILD);
}

/* Ends the connection, after which the watcher runs its command unless it was dismissed. */
static void leave(mba_watcher *g)
{
    close(g->open);
    await(g->process);
    *g = (mba_watcher){ 0 };
}

void mba_watcher_dismiss(mba_watcher *g)
{
    if (!g->process) return;
    while (send(g->open, &DISMISSED, 1, MSG_NOSIGNAL) < 0 && errno == EINTR) {
    }
    leave(g);
}

/* ---- the limit ---- */

/* The descriptor is inherited by the watcher, so the lock ends with the last process that could change the limit. */
static mba_status lock_gpu(int *out, const mba_nvml_state *s)
{
    char path[160];
    snprintf(path, sizeof path, "/tmp/mambascope-power-%.96s.lock", s->uuid);
    *out = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (*out < 0) return mba_fail(MBA_E_IO, "cannot open the lock '%s'\nwhy: %s", path, strerror(errno));
    if (!flock(*out, LOCK_EX | LOCK_NB)) return MBA_OK;
    close(*out);
    return mba_fail(MBA_E_UNSUPPORTED,
                    "another process limits the power of %s now\nwhy: it holds %s\nfix: wait until it has ended",
                    s->name, path);
}

static mba_status limit_locked(mba_power_limit *p, const mba_nvml_state *now, double watts)
{
    char        back[32], uuid[sizeof now->uuid];
    char *const argv[] = { "nvidia-smi", "-i", uuid, "-pl", back, NULL };
    snprintf(back, sizeof back, "%.10g", now->power_limit_w);
    memcpy(uuid, now->uuid, sizeof uuid);
    MBA_TRY(mba_watcher_start(&p->watcher, argv, p->lock));
    const mba_status st = mba_nvml_limit_power(watts, p->gpu);
    if (st == MBA_OK) p->was_w = now->power_limit_w;
    else mba_watcher_dismiss(&p->watcher);
    return st;
}

mba_status mba_power_limit_set(mba_power_limit *out, double watts, const char *gpu)
{
    mba_nvml_state now;
    mba_assert(watts > 0);
    *out = (mba_power_limit){ 0 };
    MBA_TRY(mba_nvml_read(&now, gpu));
    if (now.power_limit_w <= 0)
        return mba_fail(MBA_E_UNSUPPORTED,
                        "the driver does not tell the power limit\nwhy: %s has none to be read\n"
                        "fix: leave --power-limit out",
                        now.name);
    mba_power_limit p = { .gpu = gpu };
    MBA_TRY(lock_gpu(&p.lock, &now));
    mba_status st = mba_nvml_read(&now, gpu); // before the lock, it may have been another one's
    if (st == MBA_OK) st = limit_locked(&p, &now, watts);
    if (st == MBA_OK) *out = p;
    else close(p.lock);
    return st;
}

/* If the driver refuses, the watcher tries it by nvidia-smi. */
void mba_power_limit_restore(mba_power_limit *p)
{
    if (!p->was_w) return;
    mba_assert(p->was_w > 0 && p->watcher.process > 0);
    if (mba_nvml_limit_power(p->was_w, p->gpu) == MBA_OK) mba_watcher_dismiss(&p->watcher);
    else leave(&p->watcher);
    close(p->lock);
    *p = (mba_power_limit){ 0 };
}
