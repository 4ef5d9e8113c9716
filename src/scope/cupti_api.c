// SPDX-License-Identifier: Apache-2.0
/* cupti_api.c -- see cupti_api.h: opens CUPTI and the driver at run time, and explains CUPTI's errors. */
#include "scope/cupti_api.h"
#include "scope/cupti_collect.h"

#include <stdbool.h>
#include <stdio.h>

#define ENTRY(f) MBA_LIBRARY_ENTRY(mba_cupti, f)
static const mba_library_name names[] = { MBA_CUPTI_FUNCTIONS(ENTRY){ NULL, 0 } };

typedef struct driver {
    __typeof__(&cuCtxGetCurrent) cuCtxGetCurrent;
    __typeof__(&cuMemGetInfo)    cuMemGetInfo;
} driver;
static const mba_library_name driver_names[] = { { "cuCtxGetCurrent", offsetof(driver, cuCtxGetCurrent) },
                                                 { "cuMemGetInfo_v2", offsetof(driver, cuMemGetInfo) },
                                                 { NULL, 0 } };

static struct {
    bool      ready, driver_ready;
    mba_cupti f;
    driver    driver;
} api;

const char *mba_cupti_file(void)
{
    static char file[32];
    if (!*file) snprintf(file, sizeof file, "libcupti.so.%d", CUDA_VERSION / 1000);
    return file;
}

mba_status mba_cupti_open(const mba_cupti **out)
{
    *out = &api.f;
    if (!api.ready) MBA_TRY(mba_library_open(mba_cupti_file(), names, &api.f));
    api.ready = true;
    return MBA_OK;
}

mba_status mba_cupti_version(int *version)
{
    const mba_cupti *c;
    uint32_t         v = 0;
    MBA_TRY(mba_cupti_open(&c));
    CUPTI_TRY(c, c->cuptiGetVersion(&v));
    *version = (int)v;
    return MBA_OK;
}

static mba_status open_driver(void)
{
    if (!api.driver_ready) MBA_TRY(mba_library_open("libcuda.so.1", driver_names, &api.driver));
    api.driver_ready = true;
    return MBA_OK;
}

void mba_cupti_memory(int64_t *free, int64_t *total)
{
    size_t     left = 0, all = 0;
    const bool known = open_driver() == MBA_OK && api.driver.cuMemGetInfo(&left, &all) == CUDA_SUCCESS && all > 0;
    *free = known ? (int64_t)left : -1;
    *total = known ? (int64_t)all : -1;
}

mba_status mba_cupti_context(CUcontext *out)
{
    *out = NULL;
    MBA_TRY(open_driver());
    if (api.driver.cuCtxGetCurrent(out) != CUDA_SUCCESS || !*out)
        return mba_fail(MBA_E_DEVICE, "there is no CUDA context to profile\nwhy: nothing has run on the GPU yet\nfix: "
                                      "this is a bug of mambascope");
    return MBA_OK;
}

mba_status mba_cupti_failed(const mba_cupti *c, CUptiResult r, const char *call)
{
    const char *text = NULL,
               *fix = "`mambascope doctor` shows what is missing; without counters leave --metric-sets out";
    char room[200];
    c->cuptiGetResultString(r, &text);
    if (r == CUPTI_ERROR_INSUFFICIENT_PRIVILEGES)
        fix = "as root: echo 'options nvidia NVreg_RestrictProfilingToAdminUsers=0' > "
              "/etc/modprobe.d/nvidia-counters.conf, then "
              "restart; or run as root";
    if (r == CUPTI_ERROR_HARDWARE_BUSY)
        fix = "another process reads the counters of this GPU (ncu, DCGM): end it, or `dcgmi profile --pause`";
    if (r == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED)
        fix = "another profiler holds this process (ncu, nsys, torch.profiler): run without it";
    if (r == CUPTI_ERROR_OUT_OF_MEMORY) {
        int64_t left, all;
        mba_cupti_memory(&left, &all);
        snprintf(room, sizeof room,
                 "%s of the GPU's %s are free and counters need some: use a smaller batch, "
                 "fewer sets at a time (--metric-sets), or none",
                 left < 0 ? "few" : mba_size_of((double)left).text, all < 0 ? "memory" : mba_size_of((double)all).text);
        fix = room;
    }
    return mba_fail(MBA_E_UNSUPPORTED, "CUPTI reports: %s\nwhy: error %d of %.160s\nfix: %s", text ? text : "?", (int)r,
                    call, fix);
}
