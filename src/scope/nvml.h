// SPDX-License-Identifier: Apache-2.0
/* nvml.h -- the state of a GPU by the driver, without CUDA: versions, clocks, ECC, power, energy.
 *
 *     mba_nvml_state s;
 *     if (mba_nvml_read(&s, d->bus_id) == MBA_OK) printf("%s, driver %s, %d MHz\n", s.name, s.driver, s.sm_mhz);
 *     MBA_TRY(mba_nvml_energy(&joules, d->bus_id));           // a counter that only grows; E_UNSUPPORTED without one
 *
 * A GPU is named by its bus id, because the driver counts GPUs in another order than CUDA, and hidden ones too. NULL:
 * the first in CUDA_VISIBLE_DEVICES, or of all.
 *
 * libnvidia-ml.so.1 comes with the driver and is opened at the first call; MBA_NVML names another library. No toolkit
 * is needed to build this. Fields that a GPU does not have are -1. */
#ifndef MBA_SCOPE_NVML_H
#define MBA_SCOPE_NVML_H

#include "core/status.h"

typedef struct mba_nvml_state {
    char     name[96], driver[96], uuid[96];
    int      sm_mhz, sm_mhz_max, memory_mhz, memory_mhz_max, temperature_c, ecc, persistence;
    double   power_w, power_limit_w;
    unsigned throttled; /* bits of the throttle reasons; 0: not throttled */
} mba_nvml_state;

MBA_MUST mba_status mba_nvml_read(mba_nvml_state *out, const char *gpu);
MBA_MUST mba_status mba_nvml_energy(double *joules, const char *gpu);
MBA_MUST mba_status mba_nvml_clock(double *ghz, const char *gpu); /* of the SMs, now */
/* Stays after this process: see power_limit.h. */
MBA_MUST mba_status mba_nvml_limit_power(double watts, const char *gpu);

/* "power limit, thermal" */
void mba_nvml_throttle_words(char *out, int room, unsigned throttled);

/* Whether this user may read hardware counters: 1 yes, 0 no (root only), -1 not known (no driver). */
int mba_counters_permitted(void);

#endif
