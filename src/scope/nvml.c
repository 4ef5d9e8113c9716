// SPDX-License-Identifier: Apache-2.0
/* nvml.c -- see nvml.h. Declares the few functions it uses: NVIDIA guarantees their ABI, and the header may be missing.
 */
#include "scope/nvml.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device/cuda/library.h"

typedef struct device *device;
typedef struct nvml {
    int (*init)(void);
    int (*by_index)(unsigned index, device *out);
    int (*by_bus_id)(const char *bus_id, device *out);
    int (*by_uuid)(const char *uuid, device *out);
    int (*uuid)(device d, char *out, unsigned room);
    int (*name)(device d, char *out, unsigned room);
    int (*driver)(char *out, unsigned room);
    int (*clock)(device d, int which, unsigned *mhz);
    int (*clock_max)(device d, int which, unsigned *mhz);
    int (*temperature)(device d, int sensor, unsigned *celsius);
    int (*ecc)(device d, int *current, int *pending);
    int (*persistence)(device d, int *mode);
    int (*power)(device d, unsigned *milliwatt);
    int (*power_limit)(device d, unsigned *milliwatt);
    int (*power_range)(device d, unsigned *least_mw, unsigned *most_mw);
    int (*limit_power)(device d, unsigned milliwatt);
    int (*reasons)(device d, unsigned long long *bits);
    int (*energy)(device d, unsigned long long *millijoule);
    const char *(*text)(int error);
} nvml;

static const mba_library_name names[] = { { "nvmlInit_v2", offsetof(nvml, init) },
                                          { "nvmlDeviceGetHandleByIndex_v2", offsetof(nvml, by_index) },
                                          { "nvmlDeviceGetHandleByPciBusId_v2", offsetof(nvml, by_bus_id) },
                                          { "nvmlDeviceGetHandleByUUID", offsetof(nvml, by_uuid) },
                                          { "nvmlDeviceGetUUID", offsetof(nvml, uuid) },
                                          { "nvmlDeviceGetName", offsetof(nvml, name) },
                                          { "nvmlSystemGetDriverVersion", offsetof(nvml, driver) },
                                          { "nvmlDeviceGetClockInfo", offsetof(nvml, clock) },
                                          { "nvmlDeviceGetMaxClockInfo", offsetof(nvml, clock_max) },
                                          { "nvmlDeviceGetTemperature", offsetof(nvml, temperature) },
                                          { "nvmlDeviceGetEccMode", offsetof(nvml, ecc) },
                                          { "nvmlDeviceGetPersistenceMode", offsetof(nvml, persistence) },
                                          { "nvmlDeviceGetPowerUsage", offsetof(nvml, power) },
                                          { "nvmlDeviceGetPowerManagementLimit", offsetof(nvml, power_limit) },
                                          { "nvmlDeviceGetPowerManagementLimitConstraints",
                                            offsetof(nvml, power_range) },
                                          { "nvmlDeviceSetPowerManagementLimit", offsetof(nvml, limit_power) },
                                          { "nvmlDeviceGetCurrentClocksThrottleReasons", offsetof(nvml, reasons) },
                                          { "nvmlDeviceGetTotalEnergyConsumption", offsetof(nvml, energy) },
                                          { "nvmlErrorString", offsetof(nvml, text) },
                                          { NULL, 0 } };

enum { CLOCK_SM = 1, CLOCK_MEMORY = 2, SENSOR_GPU = 0 };

static struct {
    bool ready;
    nvml f;
} lib;

static mba_status failed(int error, const char *call)
{
    return mba_fail(MBA_E_UNSUPPORTED, "NVML reports: %s\nwhy: %s\nfix: `mambascope doctor` shows what was found",
                    lib.f.text(error), call);
}

#define NVML_TRY(call) \
    do { \
        const int nvml_ = (call); \
        if (nvml_) return failed(nvml_, #call); \
    } while (0)

/* CUDA_VISIBLE_DEVICES names GPUs by number or by the start of a UUID. The numbers are the driver's where all GPUs are
 * of one kind, or with CUDA_DEVICE_ORDER=PCI_BUS_ID. */
static mba_status find_visible(device *out)
{
    const char *text = getenv("CUDA_VISIBLE_DEVICES");
    char        first[96], *end;
    snprintf(first, sizeof first, "%.*s", text ? (int)strcspn(text, ",") : 0, text ? text : "");
    const unsigned long n = strtoul(first, &end, 10);
    if (*first && *end) NVML_TRY(lib.f.by_uuid(first, out));
    else NVML_TRY(lib.f.by_index((unsigned)n, out));
    return MBA_OK;
}

static mba_status find(device *out, const char *gpu)
{
    if (!lib.ready) {
        const char *given = getenv("MBA_NVML");
        MBA_TRY(mba_library_open(given && *given ? given : "libnvidia-ml.so.1", names, &lib.f));
        NVML_TRY(lib.f.init());
        lib.ready = true;
    }
    if (!gpu) return find_visible(out);
    NVML_TRY(lib.f.by_bus_id(gpu, out));
    return MBA_OK;
}

mba_status mba_nvml_read(mba_nvml_state *s, const char *gpu)
{
    device             d;
    unsigned           v;
    int                mode, pending;
    unsigned long long bits;
    *s = (mba_nvml_state){ .sm_mhz = -1,
                           .sm_mhz_max = -1,
                           .memory_mhz = -1,
                           .memory_mhz_max = -1,
                           .temperature_c = -1,
                           .ecc = -1,
                           .persistence = -1,
                           .power_w = -1,
                           .power_limit_w = -1 };
    MBA_TRY(find(&d, gpu));
    NVML_TRY(lib.f.name(d, s->name, sizeof s->name));
    NVML_TRY(lib.f.driver(s->driver, sizeof s->driver));
    NVML_TRY(lib.f.uuid(d, s->uuid, sizeof s->uuid));
    if (!lib.f.clock(d, CLOCK_SM, &v)) s->sm_mhz = (int)v;
    if (!lib.f.clock_max(d, CLOCK_SM, &v)) s->sm_mhz_max = (int)v;
    if (!lib.f.clock(d, CLOCK_MEMORY, &v)) s->memory_mhz = (int)v;
    if (!lib.f.clock_max(d, CLOCK_MEMORY, &v)) s->memory_mhz_max = (int)v;
    if (!lib.f.temperature(d, SENSOR_GPU, &v)) s->temperature_c = (int)v;
    if (!lib.f.ecc(d, &mode, &pending)) s->ecc = mode;
    if (!lib.f.persistence(d, &mode)) s->persistence = mode;
    if (!lib.f.power(d, &v)) s->power_w = 1e-3 * v;
    if (!lib.f.power_limit(d, &v)) s->power_limit_w = 1e-3 * v;
    if (!lib.f.reasons(d, &bits)) s->throttled = (unsigned)(bits & ~1ull); // bit 0: idle
    return MBA_OK;
}

mba_status mba_nvml_energy(double *joules, const char *gpu)
{
    device             d;
    unsigned long long mj = 0;
    MBA_TRY(find(&d, gpu));
    NVML_TRY(lib.f.energy(d, &mj));
    *joules = 1e-3 * (double)mj;
    return MBA_OK;
}

mba_status mba_nvml_clock(double *ghz, const char *gpu)
{
    device   d;
    unsigned mhz = 0;
    MBA_TRY(find(&d, gpu));
    NVML_TRY(lib.f.clock(d, CLOCK_SM, &mhz));
    *ghz = 1e-3 * mhz;
    return MBA_OK;
}

mba_status mba_nvml_limit_power(double watts, const char *gpu)
{
    device   d;
    unsigned least = 0, most = 0;
    MBA_TRY(find(&d, gpu));
    const unsigned milliwatt = (unsigned)(1e3 * watts + 0.5);
    const int      known = !lib.f.power_range(d, &least, &most);
    if (known && (milliwatt < least || milliwatt > most))
        return mba_fail(MBA_E_ARG, "this GPU has no power limit of %g W\nfix: choose one from %g to %g W", watts,
                        1e-3 * least, 1e-3 * most);
    const int e = lib.f.limit_power(d, milliwatt);
    if (!e) return MBA_OK;
    return mba_fail(MBA_E_UNSUPPORTED,
                    "the power limit cannot be set to %g W\nwhy: %s\nfix: run as root, where the driver permits it, or "
                    "leave --power-limit out",
                    watts, lib.f.text(e));
}

void mba_nvml_throttle_words(char *out, int room, unsigned throttled)
{
    static const char *const word[] = {
        "idle",          "application clocks", "power limit",        "hardware slowdown",
        "sync boost",    "thermal (software)", "thermal (hardware)", "power brake",
        "display clocks"
    };
    int n = 0;
    mba_assert(room > 0);
    *out = 0;
    for (unsigned i = 1; i < sizeof word / sizeof *word && n < room; i++)
        if (throttled >> i & 1) n += snprintf(out + n, (size_t)(room - n), "%s%s", n ? ", " : "", word[i]);
}

int mba_counters_permitted(void)
{
    char  line[256];
    int   admin_only = -1;
    FILE *f = fopen("/proc/driver/nvidia/params", "r");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "RmProfilingAdminOnly: %d", &admin_only) == 1) break;
    if (f) fclose(f);
    return admin_only < 0 ? -1 : admin_only == 0 || geteuid() == 0;
}
