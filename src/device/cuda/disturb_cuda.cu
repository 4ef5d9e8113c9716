// SPDX-License-Identifier: Apache-2.0
/* disturb_cuda.cu -- see disturb.h.
 *
 * kernel     disturb_park   occupies an SM (all its shared memory) until it is released
 * kernel     disturb_body   stays on every SM and sleeps, copies, or executes chains of one instruction
 * kernel     disturb_pause  holds a stream while the host enqueues what follows
 *
 * An SM that has blocks cannot change how it divides its memory into L1 and shared memory: a kernel that needs more
 * shared memory waits until it is empty. So every resident kernel asks for the most shared memory. */
#include <set>
#include <thread>
#include <vector>

#include "device/cuda/common.cuh"
extern "C" {
#include "device/cuda/disturb.h"
#include "device/cuda/launch_hook.h"
}

enum { CHAIN = 64, DEEP = 4 }; /* dependent instructions; vectors that a copying thread has in flight */
static_assert((int)(DEEP * 32 * sizeof(float4)) == MBA_DISTURB_COPIED, "disturb.h tells what a warp has in flight");
enum { SNAPS = 65 }; /* of the progress: before the first launch, after each */
enum : size_t { COPIED = (size_t)256 << 20 };
enum : unsigned { LIFE_NS = 2000000000 };

struct disturb_flags {
    int go, started, ended; /* blocks told to end; that have started; whose life ran out before */
};

/* Trips of a block's loop, with the SM's clock and the time at their end. Differences hold modulo 2^32, which is more
 * than two seconds. */
struct __align__(16) disturb_progress { unsigned trips, cycles, ns, unused; };

__device__ __forceinline__ unsigned device_ns()
{
    unsigned now;
    asm volatile("mov.u32 %0, %%globaltimer_lo;" : "=r"(now));
    return now;
}

__device__ __forceinline__ unsigned device_sm()
{
    unsigned sm;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
    return sm;
}

/* Polls device memory, rarely, so as not to disturb the measurement. */
__global__ void disturb_park(disturb_flags *flags, unsigned *sm)
{
    volatile int *go = &flags->go;
    if (threadIdx.x == 0) {
        const unsigned began = device_ns();
        sm[blockIdx.x] = device_sm();
        atomicAdd(&flags->started, 1);
        do __nanosleep(100000);
        while (!*go && device_ns() - began < LIFE_NS);
        if (!*go) atomicAdd(&flags->ended, 1);
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

__device__ __forceinline__ void copy_once(float4 *to, const float4 *from, unsigned &at)
{
    const unsigned stride = gridDim.x * blockDim.x, last = COPIED / sizeof(float4) - 1; // a power of two less one
    float4         v[DEEP];
#pragma unroll
    for (int k = 0; k < DEEP; k++) v[k] = __ldcs(from + ((at + k * stride) & last));
#pragma unroll
    for (int k = 0; k < DEEP; k++) __stcs(to + ((at + k * stride) & last), v[k]);
    at += DEEP * stride;
}

/* Repeats `work` until the flag says so or the block's life ends; tells its progress every `look` times. */
template <class F>
__device__ __forceinline__ void until_told(disturb_flags *flags, disturb_progress *told, int look, F work)
{
    const unsigned began = device_ns();
    volatile int  *go = &flags->go;
    unsigned       trips = 0, now;
    do {
#pragma unroll 1
        for (int i = 0; i < look; i++) work();
        trips += look;
        now = device_ns();
        if (threadIdx.x == 0) __stcg((uint4 *)told + blockIdx.x, make_uint4(trips, (unsigned)clock(), now, 0));
    } while (!*go && now - began < LIFE_NS);
    if (threadIdx.x == 0 && !*go) atomicAdd(&flags->ended, 1);
}

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
enum { BODIES = 3 }; /* without spills */
#else
enum { BODIES = 4 };
#endif

/* One body for all kinds, so that all have the same registers: 32. Looks lie about 10 us apart. */
__global__ void __launch_bounds__(512, BODIES)
    disturb_body(int kind, disturb_flags *flags, unsigned *sm, disturb_progress *told, float4 *to, const float4 *from)
{
    __shared__ uint4 zeros[32];
    bool             never = false;
    if (threadIdx.x < 32) zeros[threadIdx.x] = make_uint4(0, 0, 0, 0);
    __syncthreads();
    if (threadIdx.x == 0) {
        sm[blockIdx.x] = device_sm();
        atomicAdd(&flags->started, 1);
    }
    if (kind == MBA_DISTURB_FMA || kind == MBA_DISTURB_XU) {
        float x = (float)threadIdx.x;
        if (kind == MBA_DISTURB_FMA) until_told(flags, told, 64, [&] { chain_fma(x); });
        else until_told(flags, told, 8, [&] { chain_xu(x); });
        never = x == 12345.678f;
    } else if (kind == MBA_DISTURB_MMA) {
        float c[4] = {};
        until_told(flags, told, 8, [&] { chain_mma(c); });
        never = c[0] == 1;
    } else if (kind == MBA_DISTURB_SMEM) {
        uint32_t lane = (uint32_t)__cvta_generic_to_shared(&zeros[threadIdx.x % 32]);
        until_told(flags, told, 8, [&] { chain_smem(lane); });
        never = lane == 1;
    } else if (kind == MBA_DISTURB_COPY) {
        unsigned at = blockIdx.x * blockDim.x + threadIdx.x;
        until_told(flags, told, 8, [&] { copy_once(to, from, at); });
    } else until_told(flags, told, 1, [] { __nanosleep(100000); });
    if (never) told[0].trips = 0;
}

__global__ void disturb_pause(int us)
{
    const unsigned began = device_ns();
    while (device_ns() - began < 1000u * us) __nanosleep(1000);
}

/* ---- resident blocks ---- */

struct mba_disturb {
    mba_disturb_how   how;
    cudaStream_t      park, tell;
    disturb_flags    *flags, *host; /* on the device; on the host */
    float4           *memory;       /* of COPY */
    disturb_progress *told, *snaps; /* of every block; copies on the host, SNAPS of them */
    unsigned         *sm;           /* of every block */
    cudaDeviceProp    d;
    int               regs, blocks, nsnaps;
    cudaStream_t      watched;
    mba_status        st; /* of the watch */
};

static mba_status release(mba_disturb *x)
{
    x->host->go = 1;
    CUDA_TRY(cudaMemcpyAsync(&x->flags->go, &x->host->go, sizeof(int), cudaMemcpyHostToDevice, x->tell));
    CUDA_TRY(cudaStreamSynchronize(x->tell));
    CUDA_TRY(cudaStreamSynchronize(x->park));
    return MBA_OK;
}

static void destroy(mba_disturb *x)
{
    cudaFree(x->flags);
    cudaFree(x->memory);
    cudaFree(x->told);
    cudaFree(x->sm);
    cudaFreeHost(x->host);
    cudaFreeHost(x->snaps);
    if (x->park) cudaStreamDestroy(x->park);
    if (x->tell) cudaStreamDestroy(x->tell);
    delete x;
}

template <class K> static mba_status allow_most_smem(K kernel, int dynamic)
{
    CUDA_TRY(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, dynamic));
    CUDA_TRY(
        cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout, cudaSharedmemCarveoutMaxShared));
    return MBA_OK;
}

static mba_status prepare(mba_disturb *x)
{
    cudaFuncAttributes a;
    CUDA_TRY(cudaGetDeviceProperties(&x->d, 0));
    const size_t progress = (size_t)x->d.multiProcessorCount * sizeof *x->told;
    CUDA_TRY(cudaStreamCreateWithFlags(&x->park, cudaStreamNonBlocking));
    CUDA_TRY(cudaStreamCreateWithFlags(&x->tell, cudaStreamNonBlocking));
    CUDA_TRY(cudaHostAlloc(&x->host, sizeof *x->host, cudaHostAllocDefault));
    CUDA_TRY(cudaHostAlloc(&x->snaps, SNAPS * progress, cudaHostAllocDefault));
    CUDA_TRY(cudaMalloc(&x->flags, sizeof *x->flags));
    CUDA_TRY(cudaMalloc(&x->told, progress));
    CUDA_TRY(cudaMalloc(&x->sm, (size_t)x->d.multiProcessorCount * sizeof *x->sm));
    if (x->how.kind == MBA_DISTURB_COPY) CUDA_TRY(cudaMalloc(&x->memory, 2 * COPIED));
    CUDA_TRY(cudaMemset(x->flags, 0, sizeof *x->flags));
    CUDA_TRY(cudaMemset(x->told, 0, progress));
    CUDA_TRY(cudaFuncGetAttributes(&a, disturb_body));
    x->regs = a.numRegs;
    const int most = (int)x->d.sharedMemPerBlockOptin;
    MBA_TRY(allow_most_smem(disturb_park, most));
    return allow_most_smem(disturb_body, most - (int)a.sharedSizeBytes);
}

static mba_status wait_for_start(mba_disturb *x)
{
    for (int i = 0; i < 1000; i++) {
        CUDA_TRY(cudaMemcpyAsync(x->host, x->flags, sizeof *x->host, cudaMemcpyDeviceToHost, x->tell));
        CUDA_TRY(cudaStreamSynchronize(x->tell));
        if (x->host->started == x->blocks) return MBA_OK;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return mba_fail(MBA_E_DEVICE, "only %d of %d resident blocks started", x->host->started, x->blocks);
}

/* The GPU is idle, so blocks go to different SMs. */
static mba_status launch_resident(mba_disturb *x)
{
    const mba_disturb_how *h = &x->how;
    CUDA_TRY(cudaDeviceSynchronize());
    x->blocks = h->kind == MBA_DISTURB_PARK ? h->sms : x->d.multiProcessorCount;
    if (h->kind == MBA_DISTURB_PARK)
        disturb_park<<<x->blocks, 32, x->d.sharedMemPerBlockOptin, x->park>>>(x->flags, x->sm);
    else
        disturb_body<<<x->blocks, 32 * h->warps, (size_t)h->smem_kb * 1024, x->park>>>(
            h->kind, x->flags, x->sm, x->told, x->memory, x->memory + COPIED / sizeof *x->memory);
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

static mba_status read_fate(const mba_disturb *x, mba_disturb_fate *fate)
{
    std::vector<unsigned> sm((size_t)x->blocks);
    disturb_flags         flags;
    CUDA_TRY(cudaMemcpy(sm.data(), x->sm, sm.size() * sizeof sm[0], cudaMemcpyDeviceToHost));
    CUDA_TRY(cudaMemcpy(&flags, x->flags, sizeof flags, cudaMemcpyDeviceToHost));
    *fate = { x->blocks, (int)std::set<unsigned>(sm.begin(), sm.end()).size(), flags.ended };
    return MBA_OK;
}

extern "C" mba_status mba_disturb_stop(mba_disturb *x, mba_disturb_fate *fate)
{
    mba_status st = MBA_OK;
    if (fate) *fate = {};
    if (!x) return MBA_OK;
    if (x->how.kind != MBA_DISTURB_NOTHING) st = release(x);
    if (st == MBA_OK && fate && x->how.kind != MBA_DISTURB_NOTHING) st = read_fate(x, fate);
    destroy(x);
    return st;
}

/* ---- progress beside launches ---- */

static void snap(void *ctx)
{
    mba_disturb *x = (mba_disturb *)ctx;
    if (x->st != MBA_OK) return;
    if (x->nsnaps == SNAPS) x->st = mba_fail(MBA_E_DEVICE, "a node has more than %d launches", SNAPS - 1);
    else if (cudaMemcpyAsync(x->snaps + x->nsnaps * x->blocks, x->told, x->blocks * sizeof *x->told,
                             cudaMemcpyDeviceToHost, x->watched)
             != cudaSuccess)
        x->st = mba_fail(MBA_E_DEVICE, "cannot read the progress of resident blocks");
    else x->nsnaps++;
}

extern "C" mba_status mba_disturb_watch_start(mba_disturb *x, void *stream)
{
    mba_assert(x->how.kind >= MBA_DISTURB_SLEEP);
    x->nsnaps = 0;
    x->st = MBA_OK;
    x->watched = (cudaStream_t)stream;
    disturb_pause<<<1, 1, 0, x->watched>>>(200);
    CUDA_TRY(cudaGetLastError());
    snap(x);
    mba_cuda_on_launch(snap, x);
    return x->st;
}

/* Units of a chain's instruction, per warp. */
static double units_of(mba_disturb_kind kind)
{
    return kind == MBA_DISTURB_MMA ? 4096 : kind == MBA_DISTURB_SMEM ? 512 : 32;
}

/* What blocks took between two looks at their progress. */
static mba_disturbed taken_between(const mba_disturb *x, const disturb_progress *from, const disturb_progress *to)
{
    const bool    copies = x->how.kind == MBA_DISTURB_COPY, sleeps = x->how.kind == MBA_DISTURB_SLEEP;
    mba_disturbed t = { .rate = 0, .issue = 0, .regs = 32.0 * x->how.warps * x->regs, .trips = 0, .busy = 0 };
    double        cycles = 0, trips_per_ns = 0;
    for (int i = 0; i < x->blocks; i++) {
        const unsigned trips = to[i].trips - from[i].trips;
        if (!trips || !from[i].trips) continue;
        t.busy++;
        t.trips += trips;
        cycles += to[i].cycles - from[i].cycles;
        trips_per_ns += (double)trips / (to[i].ns - from[i].ns);
    }
    if (!t.busy || sleeps) return t;
    const double chains = t.trips * x->how.warps / cycles;
    t.issue = 32 * (copies ? 4 * DEEP : CHAIN) * chains;
    t.rate = copies ? 2.0 * DEEP * 16 * 32 * x->how.warps * 1e9 * trips_per_ns : units_of(x->how.kind) * CHAIN * chains;
    return t;
}

extern "C" mba_status mba_disturb_watch_stop(mba_disturb *x, mba_disturbed *taken, int room, int *n)
{
    mba_cuda_on_launch(NULL, NULL);
    *n = 0;
    MBA_TRY(x->st);
    CUDA_TRY(cudaStreamSynchronize(x->watched));
    for (int i = 1; i < x->nsnaps && *n < room; i++)
        taken[(*n)++] = taken_between(x, x->snaps + (i - 1) * x->blocks, x->snaps + i * x->blocks);
    return MBA_OK;
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
