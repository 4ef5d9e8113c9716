// SPDX-License-Identifier: Apache-2.0
/* perf.c -- see perf.h: opens, reads and closes four perf_event counters per thread. */
#include "scope/perf.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <omp.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/status.h"

const mba_perf_counter mba_perf_counters[MBA_PERF_COUNTERS] = {
    { "cpu.cycles", "cycle", PERF_COUNT_HW_CPU_CYCLES },
    { "cpu.instructions", "inst", PERF_COUNT_HW_INSTRUCTIONS },
    { "cpu.llc_references", "access", PERF_COUNT_HW_CACHE_REFERENCES },
    { "cpu.llc_misses", "line", PERF_COUNT_HW_CACHE_MISSES },
};

/* Opens a counter of the calling thread, counting from now. The enabled and running times are read along, because the
 * kernel may multiplex counters. */
static int open_counter(uint64_t config)
{
    struct perf_event_attr a = { .type = PERF_TYPE_HARDWARE,
                                 .size = sizeof a,
                                 .config = config,
                                 .exclude_kernel = 1,
                                 .exclude_hv = 1,
                                 .read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING };
    return (int)syscall(SYS_perf_event_open, &a, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

static void explain(int error, char *why, size_t why_room, char *fix, size_t fix_room)
{
    int   paranoid = -100;
    FILE *f = fopen("/proc/sys/kernel/perf_event_paranoid", "r");
    if (f && fscanf(f, "%d", &paranoid) != 1) paranoid = -100;
    if (f) fclose(f);
    snprintf(why, why_room, "perf_event_open: %s (kernel.perf_event_paranoid is %d)", strerror(error), paranoid);
    if (error == ENOENT || error == ENODEV || error == EOPNOTSUPP)
        snprintf(fix, fix_room,
                 "the processor's counters are not visible here: run on bare metal, or give the virtual machine a "
                 "PMU (-cpu host,pmu=on)");
    else if (paranoid > 2) snprintf(fix, fix_room, "sudo sysctl kernel.perf_event_paranoid=2");
    else snprintf(fix, fix_room, "in a container: docker run --cap-add PERFMON --security-opt seccomp=unconfined ..");
}

bool mba_perf_open(mba_perf *p, char *why, size_t why_room, char *fix, size_t fix_room)
{
    int first_error = 0, opened = 0;
    *p = (mba_perf){ .threads = omp_get_max_threads() < MBA_PERF_THREADS_MAX ? omp_get_max_threads()
                                                                             : MBA_PERF_THREADS_MAX };
    for (int k = 0; k < MBA_PERF_COUNTERS; k++) p->has[k] = true;
#pragma omp parallel num_threads(p->threads) reduction(+ : opened)
    for (int k = 0; k < MBA_PERF_COUNTERS; k++) {
        const int t = omp_get_thread_num();
        p->fd[t][k] = open_counter(mba_perf_counters[k].config);
        opened += p->fd[t][k] >= 0;
        if (p->fd[t][k] < 0) {
            const int error = errno;
#pragma omp critical
            {
                if (!first_error) first_error = error;
                p->has[k] = false;
            }
        }
    }
    if (opened > 0) return true;
    explain(first_error, why, why_room, fix, fix_room);
    return false;
}

void mba_perf_read(const mba_perf *p, double value[MBA_PERF_COUNTERS])
{
    struct {
        uint64_t value, enabled, running;
    } r;
    mba_assert(p->threads > 0 && p->threads <= MBA_PERF_THREADS_MAX);
    for (int k = 0; k < MBA_PERF_COUNTERS; k++) {
        value[k] = 0;
        for (int t = 0; t < p->threads && p->has[k]; t++)
            if (read(p->fd[t][k], &r, sizeof r) == (ssize_t)sizeof r && r.running)
                value[k] += (double)r.value * ((double)r.enabled / (double)r.running);
    }
}

void mba_perf_close(mba_perf *p)
{
    for (int t = 0; t < p->threads; t++)
        for (int k = 0; k < MBA_PERF_COUNTERS; k++)
            if (p->fd[t][k] >= 0) close(p->fd[t][k]);
    p->threads = 0;
}
