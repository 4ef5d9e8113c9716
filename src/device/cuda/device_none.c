// SPDX-License-Identifier: Apache-2.0
/* device_none.c -- linked instead of the CUDA device in a build without CUDA: every function returns an error. */
#include "core/device.h"
#include "device/cpu/ceilings.h"
#include "device/cuda/calibrate.h"
#include "device/cuda/disturb.h"
#include "device/cuda/emulate.h"
#include "device/cuda/gemm_candidates.h"

mba_status mba_device_cuda(const mba_device **out, int ordinal)
{
    *out = NULL;
    return mba_fail(MBA_E_UNSUPPORTED,
                    "cannot use CUDA device %d\nwhy: this program was built without CUDA\n"
                    "fix: leave --device out to run on the CPU",
                    ordinal);
}

int mba_cuda_count(void) { return 0; }

mba_status mba_ceilings_measure_cuda(mba_ceilings *out, mba_dtype compute, bool tf32)
{
    (void)out, (void)compute, (void)tf32;
    return mba_fail(MBA_E_UNSUPPORTED, "cannot measure a GPU\nwhy: this program was built without CUDA");
}

mba_status mba_copy_measure_cuda(double *seconds, double bytes, int repeats)
{
    (void)seconds, (void)bytes, (void)repeats;
    return mba_fail(MBA_E_UNSUPPORTED, "cannot measure a GPU\nwhy: this program was built without CUDA");
}

static mba_status without_cuda(void)
{
    return mba_fail(MBA_E_UNSUPPORTED, "cannot use a GPU\nwhy: this library was built without CUDA");
}

mba_status mba_cuda_current(mba_machine *out, char *name, size_t room, int *ordinal)
{
    (void)out, (void)name, (void)room, (void)ordinal;
    return without_cuda();
}

mba_status mba_cuda_use(int ordinal, int *before)
{
    (void)ordinal, (void)before;
    return without_cuda();
}

mba_status mba_calibrate_cuda(mba_reading *out, int *n, mba_calibrate_fn *told, void *of)
{
    (void)out, (void)told, (void)of;
    *n = 0;
    return mba_fail(MBA_E_UNSUPPORTED, "cannot calibrate a GPU\nwhy: this program was built without CUDA\n"
                                       "fix: use a machine file: mambascope simulate --machine h200");
}

mba_status mba_emulate_cuda(mba_emulated_fn *told, void *of)
{
    (void)told, (void)of;
    return mba_fail(MBA_E_UNSUPPORTED, "cannot emulate machines\nwhy: this program was built without CUDA\nfix: "
                                       "mambascope validate --counterfactual - uses measurements of another GPU");
}

mba_status mba_disturb_start(mba_disturb **out, const mba_disturb_how *how)
{
    (void)how;
    *out = NULL;
    return without_cuda();
}

mba_status mba_disturb_stop(mba_disturb *d, mba_disturb_fate *fate)
{
    (void)d, (void)fate;
    return without_cuda();
}

mba_status mba_disturb_watch_start(mba_disturb *d, void *stream)
{
    (void)d, (void)stream;
    return without_cuda();
}

mba_status mba_disturb_watch_stop(mba_disturb *d, mba_disturbed *taken, int room, int *n)
{
    (void)d, (void)taken, (void)room;
    *n = 0;
    return without_cuda();
}

mba_status mba_launch_times_start(void *stream)
{
    (void)stream;
    return without_cuda();
}

mba_status mba_launch_times_stop(double *us, int room, int *n)
{
    (void)us, (void)room;
    *n = 0;
    return without_cuda();
}

mba_status mba_cuda_gemm_candidates(int most, int repeats, double hold_s, mba_cuda_gemm_candidate_fn *fn, void *ctx)
{
    (void)most, (void)repeats, (void)hold_s, (void)fn, (void)ctx;
    return without_cuda();
}
