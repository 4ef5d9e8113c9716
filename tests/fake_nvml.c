// SPDX-License-Identifier: Apache-2.0
/* fake_nvml.c -- a libnvidia-ml.so.1 of three GPUs for tests. GPU k has the bus id 0000:0K:00.0 and the UUID GPU-k, has
 * used 1000 (k + 1) J and 1000 J more at each reading, runs at 1000 + k MHz. Its power limit, 700 W at first, is a line
 * of the file FAKE_NVML_LIMITS, which outlives the process; FAKE_NVML_REFUSES is the number of the setting of a limit
 * that is refused. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GPUS = 3 };
typedef struct gpu {
    int                k;
    unsigned long long mj;
} gpu;
static gpu gpus[GPUS] = { { 0, 1000000 }, { 1, 2000000 }, { 2, 3000000 } };

#define PUBLIC __attribute__((visibility("default")))
enum { OK = 0, NOT_FOUND = 6, NOT_SUPPORTED = 3, NO_PERMISSION = 4 };

PUBLIC int nvmlInit_v2(void) { return OK; }

PUBLIC int nvmlDeviceGetHandleByIndex_v2(unsigned k, gpu **out)
{
    if (k >= GPUS) return NOT_FOUND;
    *out = &gpus[k];
    return OK;
}

PUBLIC int nvmlDeviceGetHandleByPciBusId_v2(const char *id, gpu **out)
{
    unsigned domain, bus;
    return sscanf(id, "%x:%x:00.0", &domain, &bus) == 2 && !domain ? nvmlDeviceGetHandleByIndex_v2(bus, out)
                                                                   : NOT_FOUND;
}

PUBLIC int nvmlDeviceGetHandleByUUID(const char *id, gpu **out)
{
    unsigned k;
    return sscanf(id, "GPU-%u", &k) == 1 ? nvmlDeviceGetHandleByIndex_v2(k, out) : NOT_FOUND;
}

PUBLIC int nvmlDeviceGetUUID(const gpu *d, char *out, unsigned room)
{
    snprintf(out, room, "GPU-%d", d->k);
    return OK;
}

PUBLIC int nvmlDeviceGetName(const gpu *d, char *out, unsigned room)
{
    snprintf(out, room, "number %d", d->k);
    return OK;
}

PUBLIC int nvmlSystemGetDriverVersion(char *out, unsigned room)
{
    snprintf(out, room, "1.0");
    return OK;
}

PUBLIC int nvmlDeviceGetClockInfo(const gpu *d, int which, unsigned *mhz)
{
    (void)which;
    *mhz = 1000 + (unsigned)d->k;
    return OK;
}

PUBLIC int nvmlDeviceGetMaxClockInfo(const gpu *d, int which, unsigned *mhz)
{
    (void)d, (void)which;
    *mhz = 2000;
    return OK;
}

static int number(unsigned *out)
{
    *out = 40;
    return OK;
}

PUBLIC int nvmlDeviceGetTemperature(const gpu *d, int sensor, unsigned *out)
{
    (void)d, (void)sensor;
    return number(out);
}

PUBLIC int nvmlDeviceGetEccMode(const gpu *d, int *current, int *pending)
{
    (void)d;
    *current = *pending = 1;
    return OK;
}

PUBLIC int nvmlDeviceGetPersistenceMode(const gpu *d, int *mode)
{
    (void)d;
    *mode = 1;
    return OK;
}

PUBLIC int nvmlDeviceGetPowerUsage(const gpu *d, unsigned *out)
{
    (void)d;
    return number(out);
}

static void read_limits(unsigned mw[GPUS])
{
    const char *path = getenv("FAKE_NVML_LIMITS");
    FILE       *f = path ? fopen(path, "r") : NULL;
    for (int k = 0; k < GPUS; k++)
        if (!f || fscanf(f, "%u", &mw[k]) != 1) mw[k] = 700000;
    if (f) fclose(f);
}

PUBLIC int nvmlDeviceGetPowerManagementLimit(const gpu *d, unsigned *out)
{
    unsigned mw[GPUS];
    read_limits(mw);
    *out = mw[d->k];
    return OK;
}

PUBLIC int nvmlDeviceGetPowerManagementLimitConstraints(const gpu *d, unsigned *least, unsigned *most)
{
    (void)d;
    *least = 200000;
    *most = 700000;
    return OK;
}

PUBLIC int nvmlDeviceSetPowerManagementLimit(const gpu *d, unsigned limit)
{
    static int  calls;
    unsigned    mw[GPUS];
    const char *refused = getenv("FAKE_NVML_REFUSES");
    if (refused && atoi(refused) == ++calls) return NO_PERMISSION;
    read_limits(mw);
    mw[d->k] = limit;
    FILE *f = fopen(getenv("FAKE_NVML_LIMITS"), "w");
    if (!f) abort();
    for (int k = 0; k < GPUS; k++) fprintf(f, "%u\n", mw[k]);
    fclose(f);
    return OK;
}

PUBLIC int nvmlDeviceGetCurrentClocksThrottleReasons(const gpu *d, unsigned long long *bits)
{
    (void)d;
    *bits = 0;
    return OK;
}

PUBLIC int nvmlDeviceGetTotalEnergyConsumption(gpu *d, unsigned long long *mj)
{
    *mj = d->mj;
    d->mj += 1000000;
    return OK;
}

PUBLIC const char *nvmlErrorString(int error) { return error == NOT_FOUND ? "not found" : "no permission"; }
