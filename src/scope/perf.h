// SPDX-License-Identifier: Apache-2.0
/* perf.h -- hardware counters of the CPU, summed over all OpenMP threads, by perf_event.
 *
 *     mba_perf p;
 *     char     why[256], fix[256];
 *     if (!mba_perf_open(&p, why, sizeof why, fix, sizeof fix)) ..tell..
 *     mba_perf_read(&p, before);  work();  mba_perf_read(&p, after);
 *     mba_perf_close(&p);
 *
 * Counts user space only, which needs no privilege if kernel.perf_event_paranoid is 2 or less. */
#ifndef MBA_PERF_H
#define MBA_PERF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MBA_PERF_COUNTERS = 4, MBA_PERF_THREADS_MAX = 256 };
typedef struct mba_perf_counter {
    const char *name, *unit;
    uint64_t    config;
} mba_perf_counter;
/* cpu.cycles, cpu.instructions, cpu.llc_.. */
extern const mba_perf_counter mba_perf_counters[MBA_PERF_COUNTERS];

typedef struct mba_perf {
    int  threads, fd[MBA_PERF_THREADS_MAX][MBA_PERF_COUNTERS];
    bool has[MBA_PERF_COUNTERS];
} mba_perf;

/* False: the kernel refuses; `why` and `fix` say why, and the line that enables it. A counter that this processor does
 * not have is skipped (`has`). */
bool mba_perf_open(mba_perf *p, char *why, size_t why_room, char *fix, size_t fix_room);
void mba_perf_read(const mba_perf *p, double value[MBA_PERF_COUNTERS]); /* sums over the threads, since open */
void mba_perf_close(mba_perf *p);

#endif
