// SPDX-License-Identifier: Apache-2.0
/* emulate_cuda.cu -- emulates other machines on the GPU in use and times a kernel on both (emulate.h here and in core):
 * fewer SMs, a smaller L2, more work per value, slower blocks.
 *
 * kernel     imitate_body<pieces, stores>   loads 16-byte vectors, computes on every fp32 value, stores them
 * kernel     imitate_touch                  reads a buffer through an access window of lines that persist in L2
 * kernel     imitate_probe                  one thread times lines of that window one by one: are they still in L2?
 * measured   see src/sim/data/imitated.tsv */
#include <algorithm>
#include <functional>
#include <vector>

#include "device/cuda/common.cuh"
extern "C" {
#include "core/device.h"
#include "device/cuda/disturb.h"
#include "device/cuda/emulate.h"
}

enum { RUNS = 9, RESERVED = 1024 }; /* RESERVED: shared memory per block of the driver */

/* Additional work of a run. */
struct extra {
    int special; /* more special functions per value */
    int spin;    /* cycles before a block begins */
};

__device__ __forceinline__ float exp2_once(float x)
{
    asm volatile("ex2.approx.ftz.f32 %0, %0;" : "+f"(x));
    return x;
}

template <int N> __device__ __forceinline__ void work_on(float (&x)[N], int rounds, int more)
{
    for (int r = 0; r < rounds; r++)
#pragma unroll
        for (int i = 0; i < N; i++) x[i] = fmaf(exp2_once(x[i]), 0.25f, -0.5f);
    for (int r = 0; r < more; r++)
#pragma unroll
        for (int i = 0; i < N; i++) x[i] = exp2_once(x[i]);
}

__device__ __forceinline__ void spin_for(int cycles)
{
    if (cycles > 0) {
        if (threadIdx.x == 0) {
            const long long began = clock64();
            while (clock64() - began < cycles) {
            }
        }
        __syncthreads();
    }
}

template <int PIECES, bool STORES>
__global__ void __launch_bounds__(512)
    imitate_body(float4 *to, const float4 *from, int64_t pieces, int passes, int rounds, extra e)
{
    const int64_t group = (int64_t)PIECES * blockDim.x, stride = group * gridDim.x;
    float         sum = 0;
    spin_for(e.spin);
    for (int p = 0; p < passes; p++)
        for (int64_t at = group * blockIdx.x + threadIdx.x; at < pieces; at += stride) {
            float x[4 * PIECES];
#pragma unroll
            for (int k = 0; k < PIECES; k++) {
                const float4 v = __ldcg(from + at + k * blockDim.x);
                x[4 * k] = v.x, x[4 * k + 1] = v.y, x[4 * k + 2] = v.z, x[4 * k + 3] = v.w;
            }
            work_on(x, rounds, e.special);
#pragma unroll
            for (int k = 0; k < PIECES; k++) {
                if (STORES) to[at + k * blockDim.x] = make_float4(x[4 * k], x[4 * k + 1], x[4 * k + 2], x[4 * k + 3]);
                else sum += x[4 * k] + x[4 * k + 1] + x[4 * k + 2] + x[4 * k + 3];
            }
        }
    if (!STORES && sum == 12345.678f) to[0].x = sum;
}

__global__ void __launch_bounds__(512) imitate_touch(const float4 *x, int64_t pieces, float4 *sink)
{
    float sum = 0;
    for (int r = 0; r < 4; r++)
        for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < pieces;
             i += (int64_t)gridDim.x * blockDim.x)
            sum += x[i].x;
    if (sum == 12345.678f) sink->x = sum;
}

enum { PROBES = 64, PROBERS = 64, LINE = 128 };

/* Memory holds zeros, which the compiler does not know: every address depends on the previous load. */
__global__ void imitate_probe(const char *x, int64_t lines, long long *cycles)
{
    int64_t         at = (int64_t)blockIdx.x * PROBES * 1009 % lines;
    const long long began = clock64();
    for (int i = 0; i < PROBES; i++) {
        int v;
        asm volatile("ld.global.cg.s32 %0, [%1];" : "=r"(v) : "l"(x + at * LINE) : "memory");
        at = (at + 1009 + v) % lines;
    }
    cycles[blockIdx.x] = clock64() - began + (at < 0);
}

/* ---- one run ---- */

typedef struct rig {
    cudaStream_t   run, park;
    cudaEvent_t    from, to;
    char          *memory; /* read; written; held in L2 */
    long long     *cycles; /* results of probes */
    cudaDeviceProp d;
} rig;

enum : size_t { PART = (size_t)256 << 20 };

typedef struct imitated_how {
    int    parked;
    double l2_kept;
    int    blocks_sm;
    extra  e;
} imitated_how;

static mba_status launch(const rig *g, const mba_emulated_kernel *k, const imitated_how &h)
{
    const int64_t pieces = k->bytes / 16, trip = (int64_t)k->threads * k->vectors;
    const int     sms = g->d.multiProcessorCount - h.parked;
    const int     grid = (int)(k->passes > 1 ? (int64_t)h.blocks_sm * sms : pieces / trip);
    const int     share = (int)g->d.sharedMemPerMultiprocessor / h.blocks_sm - 2 * RESERVED;
    const int     smem = std::max(share / 1024 * 1024, (int)RESERVED);
    float4       *to = (float4 *)(g->memory + PART);
    const float4 *from = (const float4 *)g->memory;
    void (*body)(float4 *, const float4 *, int64_t, int, int, extra) = k->vectors == 2 && k->stores
                                                                           ? imitate_body<2, true>
                                                                       : k->vectors == 4 && !k->stores
                                                                           ? imitate_body<4, false>
                                                                           : NULL;
    if (!body) return mba_fail(MBA_E_UNSUPPORTED, "no body for the kernel %s", k->name);
    CUDA_TRY(cudaFuncSetAttribute(body, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)g->d.sharedMemPerBlockOptin));
    CUDA_TRY(cudaFuncSetAttribute(body, cudaFuncAttributePreferredSharedMemoryCarveout, 100));
    body<<<grid, k->threads, smem, g->run>>>(to, from, pieces, (int)k->passes, k->special, h.e);
    CUDA_TRY(cudaGetLastError());
    return MBA_OK;
}

static mba_status timed(double *us, const rig *g, const mba_emulated_kernel *k, const imitated_how &h)
{
    std::vector<double> v;
    for (int i = 0; i < RUNS + 2; i++) {
        float ms = 0;
        CUDA_TRY(cudaEventRecord(g->from, g->run));
        MBA_TRY(launch(g, k, h));
        CUDA_TRY(cudaEventRecord(g->to, g->run));
        CUDA_TRY(cudaEventSynchronize(g->to));
        CUDA_TRY(cudaEventElapsedTime(&ms, g->from, g->to));
        if (i >= 2) v.push_back(1e3 * ms);
    }
    std::sort(v.begin(), v.end());
    *us = v[v.size() / 2];
    return MBA_OK;
}

/* Times a run with parked blocks. The kernel has run before, so that no code is loaded meanwhile. */
static mba_status timed_parked(double *us, const rig *g, const mba_emulated_kernel *k, const imitated_how &h)
{
    mba_disturb          *parked = NULL;
    const mba_disturb_how how = { MBA_DISTURB_PARK, h.parked, 0, 0 };
    MBA_TRY(mba_disturb_start(&parked, &how));
    const mba_status st = timed(us, g, k, h), ended = mba_disturb_stop(parked, NULL);
    return st == MBA_OK ? ended : st;
}

/* Mean latency of lines of the window, in cycles. */
static mba_status probe(double *cycles, const rig *g, size_t strided_view)
{
    long long of[PROBERS], sum = 0;
    imitate_probe<<<PROBERS, 1, 0, g->park>>>(g->memory + 2 * PART, (int64_t)(strided_view / LINE), g->cycles);
    CUDA_TRY(cudaGetLastError());
    CUDA_TRY(cudaMemcpyAsync(of, g->cycles, sizeof of, cudaMemcpyDeviceToHost, g->park));
    CUDA_TRY(cudaStreamSynchronize(g->park));
    for (long long c : of) sum += c;
    *cycles = (double)sum / (PROBERS * PROBES);
    return MBA_OK;
}

/* Share of the window that is still in L2, interpolated between lines just read and lines evicted. */
static mba_status window_stays(double *share, const rig *g, size_t strided_view)
{
    double now = 0, near_by = 0, far_off = 0;
    MBA_TRY(probe(&now, g, strided_view));
    MBA_TRY(probe(&near_by, g, strided_view));
    CUDA_TRY(cudaCtxResetPersistingL2Cache());
    CUDA_TRY(cudaMemsetAsync(g->memory + PART, 0, PART, g->park));
    MBA_TRY(probe(&far_off, g, strided_view));
    const double part = far_off > near_by ? (far_off - now) / (far_off - near_by) : 0;
    *share = std::min(std::max(part, 0.0), 1.0);
    return MBA_OK;
}

/* Lines of a window persist in L2; the rest of L2 is the emulated one. left: the rest, by the lines that did stay. */
static mba_status timed_small_l2(double *us, double *left, const rig *g, const mba_emulated_kernel *k,
                                 const imitated_how &h)
{
    double       stays = 0;
    const size_t want = (size_t)(h.l2_kept * g->d.l2CacheSize),
                 kept = std::min(want, (size_t)g->d.persistingL2CacheMaxSize);
    if (kept < want)
        return mba_fail(MBA_E_UNSUPPORTED, "at most %d bytes may persist in L2", g->d.persistingL2CacheMaxSize);
    cudaStreamAttrValue strided_view = {};
    CUDA_TRY(cudaDeviceSetLimit(cudaLimitPersistingL2CacheSize, kept));
    strided_view.accessPolicyWindow = { g->memory + 2 * PART, kept, 1.0f, cudaAccessPropertyPersisting,
                                        cudaAccessPropertyStreaming };
    CUDA_TRY(cudaStreamSetAttribute(g->park, cudaStreamAttributeAccessPolicyWindow, &strided_view));
    imitate_touch<<<2 * g->d.multiProcessorCount, 512, 0, g->park>>>((const float4 *)(g->memory + 2 * PART),
                                                                     (int64_t)(kept / 16), (float4 *)g->memory);
    CUDA_TRY(cudaGetLastError());
    CUDA_TRY(cudaStreamSynchronize(g->park));
    mba_status st = timed(us, g, k, h);
    if (st == MBA_OK) st = window_stays(&stays, g, kept);
    *left = 1 - stays * (double)kept / (double)g->d.l2CacheSize;
    strided_view.accessPolicyWindow.num_bytes = 0;
    CUDA_TRY(cudaStreamSetAttribute(g->park, cudaStreamAttributeAccessPolicyWindow, &strided_view));
    CUDA_TRY(cudaCtxResetPersistingL2Cache());
    CUDA_TRY(cudaDeviceSetLimit(cudaLimitPersistingL2CacheSize, 0));
    return st;
}

/* Replaces the factor by the one that was reached, where that can be measured. */
static mba_status measure_one(double *base, double *imitated, const rig *g, mba_emulation *w)
{
    const mba_emulated_kernel *k = mba_emulated_kernel_find(w->kernel);
    const int                  sms = g->d.multiProcessorCount;
    imitated_how               h = { 0, 0, k->blocks_sm, { 0, 0 } };
    MBA_TRY(timed(base, g, k, h));
    if (!strcmp(w->axis, "sm")) {
        h.parked = (int)lround(sms * (1 - w->factor));
        return timed_parked(imitated, g, k, h);
    }
    if (!strcmp(w->axis, "l2")) {
        h.l2_kept = 1 - w->factor;
        return timed_small_l2(imitated, &w->factor, g, k, h);
    }
    if (!strcmp(w->axis, "xu")) h.e.special = (int)lround(k->special * (1 / w->factor - 1));
    else if (!strcmp(w->axis, "rf")) h.blocks_sm = std::max((int)(k->blocks_sm * w->factor), 1);
    else if (!strcmp(w->axis, "block_start")) h.e.spin = (int)lround(MBA_IMITATED_BLOCK_CYCLES * (w->factor - 1));
    else return mba_fail(MBA_E_UNSUPPORTED, "nobody knows how to imitate another %s", w->axis);
    return timed(imitated, g, k, h);
}

static mba_status prepare(rig *g)
{
    CUDA_TRY(cudaGetDeviceProperties(&g->d, 0));
    CUDA_TRY(cudaStreamCreateWithFlags(&g->run, cudaStreamNonBlocking));
    CUDA_TRY(cudaStreamCreateWithFlags(&g->park, cudaStreamNonBlocking));
    CUDA_TRY(cudaEventCreate(&g->from));
    CUDA_TRY(cudaEventCreate(&g->to));
    CUDA_TRY(cudaMalloc(&g->memory, 3 * PART));
    CUDA_TRY(cudaMalloc(&g->cycles, PROBERS * sizeof *g->cycles));
    CUDA_TRY(cudaMemset(g->memory, 0, 3 * PART));
    CUDA_TRY(cudaDeviceSynchronize());
    return MBA_OK;
}

extern "C" mba_status mba_emulate_cuda(mba_emulated_fn *told, void *of)
{
    const mba_device *d;
    rig               g = {};
    MBA_TRY(mba_device_cuda(&d, 0));
    mba_status st = prepare(&g);
    for (int i = 0; st == MBA_OK && mba_emulations[i].kernel; i++) {
        double           base = 0, imitated = 0;
        mba_emulation    what = mba_emulations[i];
        const mba_status one = measure_one(&base, &imitated, &g, &what);
        told(of, &what, base, imitated, one == MBA_OK ? NULL : mba_message());
        cudaGetLastError(); // clears a launch error; a lost context stays
        if (cudaDeviceSynchronize() != cudaSuccess) st = one == MBA_OK ? MBA_E_DEVICE : one;
    }
    cudaFree(g.memory);
    cudaFree(g.cycles);
    if (g.run) cudaStreamDestroy(g.run);
    if (g.park) cudaStreamDestroy(g.park);
    if (g.from) cudaEventDestroy(g.from);
    if (g.to) cudaEventDestroy(g.to);
    return st;
}
