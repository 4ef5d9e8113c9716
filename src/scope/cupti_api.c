/* cupti_api.c -- see cupti_api.h. */
#include "scope/cupti_api.h"
#include "scope/cupti_collect.h"

#include <stdbool.h>
#include <stdio.h>

#define ENTRY(f) MBA_LIBRARY_ENTRY(mba_cupti, f)
static const mba_library_name names[] = { MBA_CUPTI_FUNCTIONS(ENTRY) { NULL, 0 } };

typedef struct driver { __typeof__(&cuCtxGetCurrent) cuCtxGetCurrent; } driver;
static const mba_library_name driver_names[] = { { "cuCtxGetCurrent", offsetof(driver, cuCtxGetCurrent) },
                                                 { NULL, 0 } };

static struct { bool ready, driver_ready; mba_cupti f; driver driver; } api;

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

mba_status mba_cupti_context(CUcontext *out)
{
    *out = NULL;
    if (!api.driver_ready) MBA_TRY(mba_library_open("libcuda.so.1", driver_names, &api.driver));
    api.driver_ready = true;
    if (api.driver.cuCtxGetCurrent(out) != CUDA_SUCCESS || !*out)
        return mba_fail(MBA_E_DEVICE,
                        "no CUDA context to profile\nwhy: nothing has run on the GPU yet\nfix: a bug of ours");
    return MBA_OK;
}

mba_status mba_cupti_failed(const mba_cupti *c, CUptiResult r, const char *call)
{
    const char *text = NULL, *fix = "`mambascope doctor` says what is missing; without counters leave --sets out";
    c->cuptiGetResultString(r, &text);
    if (r == CUPTI_ERROR_INSUFFICIENT_PRIVILEGES)
        fix = "as root: echo 'options nvidia NVreg_RestrictProfilingToAdminUsers=0' > "
              "/etc/modprobe.d/nvidia-counters.conf, then "
              "restart; or run as root";
    if (r == CUPTI_ERROR_HARDWARE_BUSY)
        fix = "another process reads the counters of this GPU (ncu, DCGM): end it, or `dcgmi profile --pause`";
    if (r == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED)
        fix = "another profiler holds this process (ncu, nsys, torch.profiler): run without it";
    return mba_fail(MBA_E_UNSUPPORTED, "CUPTI reports: %s\nwhy: error %d of %.160s\nfix: %s", text ? text : "?", (int)r,
                    call, fix);
}
