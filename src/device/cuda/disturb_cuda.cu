// SPDX-License-Identifier: Apache-2.0
/* disturb_cuda.cu -- see disturb.h.
 *
 * kernel     disturb_park   occupies an SM (all its shared memory) until it is released
 * kernel     disturb_body   stays on every SM and sleeps, copies, or executes chains of one instruction
 * kernel     disturb_pause  holds a stream while the host enqueues what follows */
#include <algorithm>
#include <thread>
#include <vector>

#include "device/cuda/common.cuh"
extern "C" {
#include "device/cuda/disturb.h"
#include "device/cuda/launch_hook.h"
}

enum {
    CHAIN = 64,
    LOOK = 64,
    DEEP = 4
}; /* dependent instructions; chains between two looks at the flag; vectors that a
                                             copying thread has in flight */
enum : size_t { COPIED = (size_t)256 << 20 };
static const unsigned long long LIFE_NS = 2000000000ull;

__device__ __forceinline__ unsigned long long device_ns()
{
    unsigned long long now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
}

/* Polls device memory, rarely, so as not to disturb the measurement. */
__global__ void disturb_park(volatile int *go, int *started)
{
    if (threadIdx.x == 0) {
        const unsigned long long began = device_ns();
        atomicAdd(started, 1);
        do __nanosleep(100000);
        while (!*go && device_ns() - began < LIFE_NS);
    }
}

__device__ __forceinline__ void chain_fma(float &x)
{
#pragma unroll
    for (int i = 0; i < CHAIN; i++) asm volatile("fma.rn.f32 %0,%0,%1,%1;" : "+f"(x) : "f"(0.5f));
}

__device__ __forceinline__ void chain_xu(float &x)
{
#pragma unroll
    for (int i = 0; i < CHAIN; i++) asm volatile("ex2.approx.ftz.f32 %0,%0;" : "+f"(x));
}

__device__ __forceinline__ void chain_mma(float (&c)[4])
{
#pragma unroll
    for (int i = 0; i < CHAIN; i++)
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3},{%4,%4,%4,%4},{%4,%4},{%0,%1,"
                     "%2,%3};"
                     : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                     : "r"(0));
}

/* Shared memory holds zeros, which the compiler does not know: every address depends on the previous load. */
__device__ __forceinline__ void chain_smem(uint32_t &at)
{
#pragma unroll
    for (int i = 0; i < CHAIN; i++) {
        uint32_t x;
        asm volatile("{ .reg .b32 y, z, w; ld.volatile.shared.v4.u32 {%0,y,z,w},[%1]; }" : "=r"(x) : "r"(at));
        at += x;
    }
}

__device__ __forceinline__ void copy_once(float4 *to, const float4 *from, int64_t &at, int64_t vectors)
{
    float4        v[DEEP];
    const int64_t stride = (int64_t)gridDim.x * blockDim.x;
#pragma unroll
    for (int k = 0; k < DEEP; k++) v[k] = __ldcs(from + (at + k * stride) % vectors);
#pragma unroll
    for (int k = 0; k < DEEP; k++) __stcs(to + (at + k * stride) % vectors, v[k]);
    at = (at + DEEP * stride) % vectors;
}

struct disturb_counts {
    long long trips, cycles, ns;
};

/* Repeats `work` until the flag says so or the block's life ends. Returns how often. */
template <class F>
__device__ __forceinline__ long long until_told(volatile int *go, unsigned long long began, int look, F work)
{
    long long trips = 0;
    do {
#pragma unroll 1
        for (int i = 0; i < look; i++) work();
        trips += look;
    } while (!*go && device_ns() - began < LIFE_NS);
    return trips;
}

/* One body for all kinds, so that all have the same registers. */
__global__ void __launch_bounds__(512)
    disturb_body(int kind, volatile int *go, int *started, disturb_counts *counts, float4 *to, const float4 *from)
{
    __shared__ uint4         zeros[32];
    const unsigned long long began = device_ns();
    const long long          cycles = clock64();
    long long                trips = 0;
    bool                     never = false;
    if (threadIdx.x < 32) zeros[threadIdx.x] = make_uint4(0, 0, 0, 0);
    __syncthreads();
    if (threadIdx.x == 0) atomicAdd(started, 1);
    if (kind == MBA_DISTURB_FMA || kind == MBA_DISTURB_XU) {
        float      x = (float)threadIdx.x;
        const bool fma = kind == MBA_DISTURB_FMA;
        trips = fma ? until_told(go, began, LOOK, [&] { chain_fma(x); })
                    : until_told(go, began, LOOK, [&] { chain_xu(x); });
        never = x == 12345.678f;
    } else if (kind == MBA_DISTURB_MMA) {
        float c[4] = {};
        trips = until_told(go, began, LOOK, [&] { chain_mma(c); });
        never = c[0] == 1;
    } else if (kind == MBA_DISTURB_SMEM) {
        uint32_t lane = (uint32_t)__cvta_generic_to_shared(&zeros[threadIdx.x % 32]);
        trips = until_told(go, began, LOOK, [&] { chain_smem(lane); });
        never = lane == 1;
    } else if (kind == MBA_DISTURB_COPY) {
        int64_t at = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
        trips = until_told(go, began, LOOK, [&] { copy_once(to, from, at, (int64_t)(COPIED / sizeof *to)); });
    } else trips = until_told(go, began, 1, [] { __nanosleep(100000); });
    if (threadIdx.x == 0) counts[blockIdx.x] = { trips, clock64() - cycles, (long long)(device_ns() - began) };
    if (never) counts[0].trips = 0;
}

__global__ void disturb_pause(int us)
{
    const unsigned long long began = device_ns();
    while (device_ns() - began < 1000ull * us) __nanosleep(1000);
}

/* ---- resident blocks ---- */

struct mba_disturb {
    mba_disturb_how how;
    cudaStream_t    park, tell;
    int            *flags, *host; /* go, started: on the device; on the host */
    float4         *memory;       /* of COPY */
    disturb_counts *counts;
    cudaDeviceProp  d;
    int             regs, blocks;
};

static mba_status release(mba_disturb *x)
{
    x->host[0] = 1;
    CUDA_TRY(cudaMemcpyAsync(x->flags, x->host, sizeof(int), cudaMemcpyHostToDevice, x->tell));
    CUDA_TRY(cudaStreamSynchronize(x->tell));
    CUDA_TRY(cudaStreamSynchronize(x->park));
    return MBA_OK;
}

static void destroy(mba_disturb *x)
{
    cudaFree(x->flags);
    cudaFree(x->memory);
    cudaFree(x->counts);
    cudaFreeHost(x->host);
    if (x->park) cudaStreamDestroy(x->park);
    if (x->tell) cudaStreamDestroy(x->tell);
    delete x;
}

static mba_status prepare(mba_disturb *x)
{
    cudaFuncAttributes a;
    CUDA_TRY(cudaGetDeviceProperties(&x->d, 0));
    CUDA_TRY(cudaStreamCreateWithFlags(&x->park, cudaStreamNonBlocking));
    CUDA_TRY(cudaStreamCreateWithFlags(&x->tell, cudaStreamNonBlocking));
    CUDA_TRY(cudaHostAlloc(&x->host, 2 * sizeof(int), cudaHostAllocDefault));
    CUDA_TRY(cudaMalloc(&x->flags, 2 * sizeof(int)));
    CUDA_TRY(cudaMalloc(&x->counts, (size_t)x->d.multiProcessorCount * sizeof *x->counts));
    if (x->how.kind == MBA_DISTURB_COPY) CUDA_TRY(cudaMalloc(&x->memory, 2 * COPIED));
    CUDA_TRY(cudaMemset(x->flags, 0, 2 * sizeof(int)));
    CUDA_TRY(cudaFuncGetAttributes(&a, disturb_body));
    x->regs = a.numRegs;
    const int most = (int)x->d.sharedMemPerBlockOptin;
    CUDA_TRY(cudaFuncSetAttribute(disturb_park, cudaFuncAttributeMaxDynamicSharedMemorySize, most));
    CUDA_TRY(
        cudaFuncSetAttribute(disturb_body, cudaFuncAttributeMaxDynamicSharedMemorySize, most - (int)a.sharedSizeBytes));
    return MBA_OK;
}

static mba_status wait_for_start(mba_disturb *x)
{
    for (int i = 0; i < 1000; i++) {
        CUDA_TRY(cudaMemcpyAsync(x->host, x->flags, 2 * sizeof(int), cudaMemcpyDeviceToHost, x->tell));
        CUDA_TRY(cudaStreamSynchronize(x->tell));
        if (x->host[1] == x->blocks) return MBA_OK;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return mba_fail(MBA_E_DEVICE, "only %d of %d resident blocks started", x->host[1], x->blocks);
}

/* The GPU is idle, so blocks go to different SMs. */
static mba_status launch_resident(mba_disturb *x)
{
    const mba_disturb_how *h = &x->how;
    CUDA_TRY(cudaDeviceSynchronize());
    x->blocks = h->kind == MBA_DISTURB_PARK ? h->sms : x->d.multiProcessorCount;
    if (h->kind == MBA_DISTURB_PARK)
        disturb_park<<<x->blocks, 32, x->d.sharedMemPerBlockOptin, x->park>>>(x->flags, x->flags + 1);
    else
        disturb_body<<<x->blocks, 32 * h->warps, (size_t)h->smem_kb * 1024, x->park>>>(
            h->kind, x->flags, x->flags + 1, x->counts, x->memory, x->memory + COPIED / sizeof *x->memory);
    CUDA_TRY(cudaGetLastError());
    return wait_for_start(x);
}

extern "C" mba_status mba_disturb_start(mba_disturb **out, const mba_disturb_how *how)
{
    mba_assert(how->kind < MBA_DISTURB_KINDS && how->warps <= 16);
    mba_disturb *x = new mba_disturb();
    x->how = *how;
    *out = NULL;
    mba_status st = how->kind == MBA_DISTURB_NOTHING ? MBA_OK : prepare(x);
    if (st == MBA_OK && how->kind != MBA_DISTURB_NOTHING) st = launch_resident(x);
    if (st == MBA_OK) *out = x;
    else {
        if (x->blocks && release(x) != MBA_OK) st = MBA_E_DEVICE;
        destroy(x);
    }
    return st;
}

/* Units of a chain's instruction, per warp. */
static double units_of(mba_disturb_kind kind)
{
    return kind == MBA_DISTURB_MMA ? 4096 : kind == MBA_DISTURB_SMEM ? 512 : 32;
}

static mba_status count_taken(const mba_disturb *x, mba_disturbed *taken)
{
    const bool                  copies = x->how.kind == MBA_DISTURB_COPY;
    std::vector<disturb_counts> all((size_t)x->blocks);
    double                      trips = 0, cycles = 0, ns = 0;
    CUDA_TRY(cudaMemcpy(all.data(), x->counts, all.size() * sizeof all[0], cudaMemcpyDeviceToHost));
    for (const disturb_counts &c : all) trips += c.trips, cycles += c.cycles, ns = std::max(ns, (double)c.ns);
    const double chains = trips * x->how.warps / cycles;
    taken->regs = 32.0 * x->how.warps * x->regs;
    if (x->how.kind == MBA_DISTURB_SLEEP) return MBA_OK;
    taken->issue = 32 * (copies ? 4 * DEEP : CHAIN) * chains;
    taken->rate = copies ? 2.0 * DEEP * 16 * 32 * x->how.warps * trips / (1e-9 * ns)
                         : units_of(x->how.kind) * CHAIN * chains;
    return MBA_OK;
}

extern "C" mba_status mba_disturb_stop(mba_disturb *x, mba_disturbed *taken)
{
    mba_status st = MBA_OK;
    if (!x) return MBA_OK;
    if (taken) *taken = {};
    if (x->how.kind != MBA_DISTURB_NOTHING) st = release(x);
    if (st == MBA_OK && taken && x->how.kind >= MBA_DISTURB_SLEEP) st = count_taken(x, taken);
    destroy(x);
    return st;
}

/* ---- times of launches ---- */

static struct {
    std::vector<cudaEvent_t> event;
    size_t                   n;
    cudaStream_t             stream;
    mba_status               st;
} times;

static void record(void *)
{
    cudaEvent_t e = NULL;
    if (times.st != MBA_OK) return;
    if (times.n == times.event.size() && cudaEventCreate(&e) == cudaSuccess) times.event.push_back(e);
    if (times.n == times.event.size() || cudaEventRecord(times.event[times.n], times.stream) != cudaSuccess)
        times.st = mba_fail(MBA_E_DEVICE, "cannot time the launches of a node");
    else times.n++;
}

extern "C" mba_status mba_launch_times_start(void *stream)
{
    times.n = 0;
    times.st = MBA_OK;
    times.stream = (cudaStream_t)stream;
    disturb_pause<<<1, 1, 0, times.stream>>>(200);
    CUDA_TRY(cudaGetLastError());
    record(NULL);
    mba_cuda_on_launch(record, NULL);
    return times.st;
}

extern "C" mba_status mba_launch_times_stop(double *us, int room, int *n)
{
    mba_cuda_on_launch(NULL, NULL);
    *n = 0;
    MBA_TRY(times.st);
    CUDA_TRY(cudaStreamSynchronize(times.stream));
    for (size_t i = 1; i < times.n && *n < room; i++) {
        float ms = 0;
        CUDA_TRY(cudaEventElapsedTime(&ms, times.event[i - 1], times.event[i]));
        us[(*n)++] = 1e3 * ms;
    }
    return MBA_OK;
}
