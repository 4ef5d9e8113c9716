// SPDX-License-Identifier: Apache-2.0
/* meter.h -- mean power and clock of the GPU over a window, from the driver's energy meter and its clocks.
 *
 *     mba_meter *m;
 *     MBA_TRY(mba_meter_start(&m, d->bus_id));                // a thread reads the meter; E_UNSUPPORTED without one
 *     const double from = mba_clock_s();
 *     run_steps();
 *     mba_meter_stop(m);
 *     const double watts = mba_meter_mean_w(m, from, mba_clock_s());
 *     mba_meter_destroy(m);                                   // NULL is fine
 *
 * The meter changes about every 0.1 s. A difference of two readings is off by up to two such intervals, which over
 * 0.7 s showed 772 W on a card limited to 700 W. So a thread reads it every 2 ms and keeps the moments at which it
 * changed; the mean is taken between the first and the last change within the window. The clock is the mean of readings
 * every 10 ms. */
#ifndef MBA_SCOPE_METER_H
#define MBA_SCOPE_METER_H

#include <stdint.h>

#include "core/status.h"

/* The meter when it was first seen with this value; s by mba_clock_s. */
typedef struct mba_meter_change {
    double s, joules;
} mba_meter_change;

/* Watts between the first and the last change within [from_s, to_s]. limit_w: the card's power limit, -1 if unknown.
 * The driver holds the mean power at that limit, so a reading up to 1 % above it is the meter's error, and the result
 * is the limit. NaN: fewer than two changes, or more than 1 % above the limit. */
double mba_mean_power_w(const mba_meter_change *x, int64_t n, double from_s, double to_s, double limit_w);

typedef struct mba_meter mba_meter;
MBA_MUST mba_status      mba_meter_start(mba_meter **out, const char *gpu); /* as nvml.h names it; not copied */
void                     mba_meter_stop(mba_meter *m);                      /* ends the thread; the changes stay */
double                   mba_meter_mean_w(const mba_meter *m, double from_s, double to_s);   /* after the stop */
double                   mba_meter_mean_ghz(const mba_meter *m, double from_s, double to_s); /* NaN: not read */
double                   mba_meter_limit_w(const mba_meter *m);                              /* -1: not known */
void                     mba_meter_destroy(mba_meter *m);

#endif
