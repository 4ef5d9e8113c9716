// SPDX-License-Identifier: Apache-2.0
/* clock.h -- the host clock of all collectors: CLOCK_MONOTONIC, in ns or seconds. */
#ifndef MBA_SCOPE_CLOCK_H
#define MBA_SCOPE_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline int64_t mba_clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static inline double mba_clock_s(void) { return 1e-9 * (double)mba_clock_ns(); }

#endif
