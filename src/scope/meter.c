// SPDX-License-Identifier: Apache-2.0
/* meter.c -- see meter.h. */
#include "scope/meter.h"

#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "core/lookup.h"
#include "scope/clock.h"
#include "scope/nvml.h"

enum { READ_NS = 2000000, CLOCK_EVERY = 5 }; // between two readings; readings of the meter per one of the clock
static const double ABOVE_LIMIT = 1.01;      // readings up to here are the meter's error

typedef struct clock_reading {
    double s, ghz;
} clock_reading;

struct mba_meter {
    mba_meter_change *change;
    int64_t           n, room;
    clock_reading    *clock;
    int64_t           nclocks, clock_room;
    double            limit_w;
    const char       *gpu;
    atomic_bool       ends;
    pthread_t         reader;
    bool              reads; // the thread is not joined yet
};

double mba_mean_power_w(const mba_meter_change *x, int64_t n, double from_s, double to_s, double limit_w)
{
    const mba_meter_change *first = NULL, *last = NULL;
    for (int64_t i = 0; i < n; i++) {
        if (x[i].s < from_s || x[i].s > to_s) continue;
        if (!first) first = &x[i];
        last = &x[i];
    }
    if (!first || last == first) return NAN;
    const double w = (last->joules - first->joules) / (last->s - first->s);
    if (!(limit_w > 0) || w <= limit_w) return w;
    return w <= ABOVE_LIMIT * limit_w ? limit_w : NAN;
}

static void read_clock(mba_meter *m)
{
    double ghz;
    if (mba_nvml_clock(&ghz, m->gpu) != MBA_OK) return;
    clock_reading *more = mba_grow(m->clock, m->nclocks, &m->clock_room, sizeof *more);
    if (more) m->clock = more, m->clock[m->nclocks++] = (clock_reading){ mba_clock_s(), ghz };
}

/* Without memory for another change the reader goes on and only the window gets shorter. The value at the start is no
 * change: nobody saw when it was reached. */
static void *read_on(void *ctx)
{
    mba_meter *m = ctx;
    double     joules = NAN, before = NAN;
    for (int64_t i = 0; !atomic_load(&m->ends); i++) {
        if (i % CLOCK_EVERY == 0) read_clock(m);
        if (mba_nvml_energy(&joules, m->gpu) == MBA_OK && joules != before) {
            mba_meter_change *more = isnan(before) ? NULL : mba_grow(m->change, m->n, &m->room, sizeof *more);
            if (more) m->change = more, m->change[m->n++] = (mba_meter_change){ mba_clock_s(), joules };
            before = joules;
        }
        nanosleep(&(struct timespec){ .tv_nsec = READ_NS }, NULL);
    }
    return NULL;
}

/* Signals are for the thread that waits for the program. */
mba_status mba_meter_start(mba_meter **out, const char *gpu)
{
    mba_nvml_state state;
    double         joules;
    sigset_t       all, mask;
    *out = NULL;
    MBA_TRY(mba_nvml_energy(&joules, gpu)); // opens the library here, so that the thread only reads
    mba_meter *m = calloc(1, sizeof *m);
    if (!m) return mba_fail(MBA_E_NOMEM, "no memory for the energy meter");
    m->gpu = gpu;
    m->limit_w = mba_nvml_read(&state, gpu) == MBA_OK ? state.power_limit_w : -1;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &mask);
    m->reads = pthread_create(&m->reader, NULL, read_on, m) == 0;
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
    if (!m->reads) {
        free(m);
        return mba_fail(MBA_E_NOMEM, "cannot start the thread that reads the energy meter");
    }
    *out = m;
    return MBA_OK;
}

void mba_meter_stop(mba_meter *m)
{
    if (!m || !m->reads) return;
    atomic_store(&m->ends, true);
    pthread_join(m->reader, NULL);
    m->reads = false;
}

double mba_meter_mean_w(const mba_meter *m, double from_s, double to_s)
{
    mba_assert(!m->reads && from_s <= to_s);
    return mba_mean_power_w(m->change, m->n, from_s, to_s, m->limit_w);
}

double mba_meter_mean_ghz(const mba_meter *m, double from_s, double to_s)
{
    double  sum = 0;
    int64_t n = 0;
    mba_assert(!m->reads && from_s <= to_s);
    for (int64_t i = 0; i < m->nclocks; i++)
        if (m->clock[i].s >= from_s && m->clock[i].s <= to_s) sum += m->clock[i].ghz, n++;
    return n ? sum / (double)n : NAN;
}

double mba_meter_limit_w(const mba_meter *m) { return m->limit_w; }

void mba_meter_destroy(mba_meter *m)
{
    if (!m) return;
    mba_meter_stop(m);
    free(m->change);
    free(m->clock);
    free(m);
}
