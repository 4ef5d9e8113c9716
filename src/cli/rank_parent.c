// SPDX-License-Identifier: Apache-2.0
/* rank_parent.c -- see rank_parent.h. */
#include "cli/rank_parent.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cluster/channel.h"

static const int passed_on[] = { SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2 };

static volatile pid_t        child;
static volatile sig_atomic_t passed; /* the last signal that was passed on */

static void pass_on(int number)
{
    const int e = errno;
    passed = number;
    kill(child, number);
    errno = e;
}

/* Waits until the rank has ended, and ends as it did. */
static void wait_and_exit(int rank)
{
    int status = 0;
    prctl(PR_SET_NAME, "mambascope-wait");
    for (size_t i = 0; i < sizeof passed_on / sizeof *passed_on; i++)
        sigaction(passed_on[i], &(struct sigaction){ .sa_handler = pass_on, .sa_flags = SA_RESTART }, NULL);
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    if (WIFEXITED(status)) _exit(WEXITSTATUS(status));
    if (WTERMSIG(status) == passed) _exit(128 + passed); // somebody wants it to end
    dprintf(STDERR_FILENO, "rank %d was ended by signal %d (%s)\n", rank, WTERMSIG(status),
            strsignal(WTERMSIG(status)));
    _exit(MBA_LOST_CODE);
}

mba_status mba_rank_fork(int rank)
{
    const pid_t parent = getpid();
    fflush(NULL);
    child = fork();
    if (child < 0)
        return mba_fail(MBA_E_NOMEM, "no process for a rank\nwhy: %s\nfix: start fewer ranks on this host",
                        strerror(errno));
    if (child > 0) {
        setpgid(child, child);
        wait_and_exit(rank);
    }
    setpgid(0, 0); // signals to the group of the parent come once, from the parent
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(MBA_LOST_CODE); // it has ended already
    return MBA_OK;
}
