// SPDX-License-Identifier: Apache-2.0
/* power_loops.cu -- power and clock of fixed mixes of work, for the energies of the machine files (docs/simulator.md).
 *
 *     nvcc -O3 -arch=sm_90a tools/power_loops.cu -lcublas -ldl -o power_loops && ./power_loops > loops.tsv
 *
 * Each loop keeps one unit busy for two seconds, with a block on each SM that leaves room for the thread that reads the
 * clock. Power is the difference of the driver's energy counter between two of
 * its changes, the clock is cycles over time as a spinning thread of one SM reads both. A row has the mean power, both
 * clocks (device, driver), and the events per second of every class that the power model knows. The card's settings
 * stay as they are. No part of the product. */
#include <cublas_v2.h>
#include <cuda_bf16.h>
#include <dlfcn.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define CHECK(x) \
    do { \
        const int e_ = (int)(x); \
        if (e_) { \
            fprintf(stderr, "%s: error %d\n", #x, e_); \
            exit(1); \
        } \
    } while (0)

enum { FMA, ALU, XU, MMA, SMEM, L2, DRAM, CLASSES };
static const char *const classes[CLASSES] = { "fma", "alu", "xu", "mma", "smem", "l2", "dram" };
enum { THREADS = 1024, TRIPS = 4096 };

/* ---- the driver's meter ---- */

typedef void *device_t;
static int (*nvml_energy)(device_t, unsigned long long *);
static int (*nvml_clock)(device_t, int, unsigned *);
static int (*nvml_limit)(device_t, unsigned *);
static device_t gpu;

static void open_meter()
{
    void *lib = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    if (!lib) CHECK(1);
    CHECK(((int (*)())dlsym(lib, "nvmlInit_v2"))());
    CHECK(((int (*)(unsigned, device_t *))dlsym(lib, "nvmlDeviceGetHandleByIndex_v2"))(0, &gpu));
    nvml_energy = (int (*)(device_t, unsigned long long *))dlsym(lib, "nvmlDeviceGetTotalEnergyConsumption");
    nvml_clock = (int (*)(device_t, int, unsigned *))dlsym(lib, "nvmlDeviceGetClockInfo");
    nvml_limit = (int (*)(device_t, unsigned *))dlsym(lib, "nvmlDeviceGetEnforcedPowerLimit");
}

static double now_s() { return 1e-9 * (double)std::chrono::steady_clock::now().time_since_epoch().count(); }

/* ---- loops ---- */

__global__ void __launch_bounds__(THREADS) loop_fma(float *sink, int trips)
{
    float x[8];
    for (int i = 0; i < 8; i++) x[i] = 1.0f + (float)(threadIdx.x * 8 + i) * 1.3e-3f;
    for (int t = 0; t < trips; t++)
#pragma unroll
        for (int i = 0; i < 64; i++) asm volatile("fma.rn.f32 %0,%0,%1,%2;" : "+f"(x[i % 8]) : "f"(0.999f), "f"(1e-3f));
    float sum = 0;
    for (int i = 0; i < 8; i++) sum += x[i];
    if (sum == 12345.678f) *sink = sum;
}

__global__ void __launch_bounds__(THREADS) loop_alu(float *sink, int trips)
{
    uint32_t x[8];
    for (int i = 0; i < 8; i++) x[i] = 2654435761u * (threadIdx.x * 8 + i + 1);
    for (int t = 0; t < trips; t++)
#pragma unroll
        for (int i = 0; i < 64; i++)
            asm volatile("lop3.b32 %0,%0,%1,%2,0x96;" : "+r"(x[i % 8]) : "r"(x[(i + 1) % 8]), "r"(x[(i + 3) % 8]));
    uint32_t sum = 0;
    for (int i = 0; i < 8; i++) sum += x[i];
    if (sum == 12345678u) *sink = 1;
}

__global__ void __launch_bounds__(THREADS) loop_xu(float *sink, int trips)
{
    float x[8];
    for (int i = 0; i < 8; i++) x[i] = 1e-3f * (float)(threadIdx.x * 8 + i);
    for (int t = 0; t < trips; t++)
#pragma unroll
        for (int i = 0; i < 16; i++) asm volatile("sin.approx.ftz.f32 %0,%0;" : "+f"(x[i % 8]));
    float sum = 0;
    for (int i = 0; i < 8; i++) sum += x[i];
    if (sum == 12345.678f) *sink = sum;
}

__global__ void __launch_bounds__(THREADS) loop_smem(float *sink, int trips)
{
    __shared__ float4 tile[2048];
    for (int i = threadIdx.x; i < 2048; i += THREADS) tile[i] = make_float4(i * 0.37f, i * 1.7f, i * 2.9f, i * 0.11f);
    __syncthreads();
    const uint32_t at = (uint32_t)__cvta_generic_to_shared(&tile[threadIdx.x]);
    uint32_t       x[4], sum = 0;
    for (int t = 0; t < trips; t++)
#pragma unroll
        for (int i = 0; i < 16; i++) {
            asm volatile("ld.volatile.shared.v4.u32 {%0,%1,%2,%3},[%4];"
                         : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                         : "r"(at + (i % 2) * 16384));
            sum ^= x[0];
        }
    if (sum == 12345678u) *sink = 1;
}

__global__ void __launch_bounds__(512) loop_mma(float *sink, int trips)
{
    float    c[4][4] = {};
    uint32_t a[4], b[4][2];
    for (int i = 0; i < 4; i++) a[i] = 0x3f803f80u ^ (2654435761u * (threadIdx.x * 4 + i + 1) & 0x807f807fu);
    for (int i = 0; i < 8; i++) b[i / 2][i % 2] = 0x3f803f80u ^ (40503u * 65537u * (threadIdx.x + i + 1) & 0x807f807fu);
    for (int t = 0; t < trips; t++)
#pragma unroll
        for (int i = 0; i < 16; i++)
            asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,"
                         "%1,%2,%3};"
                         : "+f"(c[i % 4][0]), "+f"(c[i % 4][1]), "+f"(c[i % 4][2]), "+f"(c[i % 4][3])
                         : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[i % 4][0]), "r"(b[i % 4][1]));
    float sum = 0;
    for (int i = 0; i < 16; i++) sum += c[i / 4][i % 4];
    if (sum == 12345.678f) *sink = sum;
}

/* Reads `pieces` vectors past L1, `passes` times; with `to`, writes them there. */
__global__ void __launch_bounds__(THREADS) loop_memory(float4 *to, const float4 *from, int64_t pieces, int passes)
{
    float sum = 0;
    for (int p = 0; p < passes; p++)
        for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < pieces; i += 4ll * gridDim.x * THREADS) {
            float4 v[4];
#pragma unroll
            for (int k = 0; k < 4; k++) {
                const int64_t at = i + (int64_t)k * gridDim.x * THREADS;
                v[k] = at < pieces ? __ldcg(from + at) : make_float4(0, 0, 0, 0);
            }
#pragma unroll
            for (int k = 0; k < 4; k++) {
                const int64_t at = i + (int64_t)k * gridDim.x * THREADS;
                if (to && at < pieces) to[at] = v[k];
                sum += v[k].x + v[k].y;
            }
        }
    if (sum == 12345.678f) const_cast<float4 *>(from)[0].x = sum;
}

__global__ void wait_us(int us)
{
    unsigned long long began, now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(began));
    do {
        __nanosleep(2000);
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    } while (now < began + 1000ull * us);
}

/* One thread beside the loop: cycles and nanoseconds from its start until it is told to end. */
__global__ void read_clock(volatile int *end, long long *out)
{
    unsigned long long began, now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(began));
    const long long cycles = clock64();
    do {
        __nanosleep(100000);
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    } while (!*end && now < began + 4000000000ull);
    out[0] = clock64() - cycles;
    out[1] = (long long)(now - began);
}

__global__ void fill_random(uint16_t *x, int64_t n)
{
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += (int64_t)gridDim.x * blockDim.x) {
        uint64_t h = (uint64_t)i * 0x9e3779b97f4a7c15u;
        h ^= h >> 29, h *= 0xbf58476d1ce4e5b9u, h ^= h >> 32;
        const float v = ((float)(h & 0xffffff) / 8388608.0f - 1) * 2;
        x[i] = __bfloat16_as_ushort(__float2bfloat16(v));
    }
}

/* ---- one row ---- */

static int            sms;
static cudaStream_t   run, beside;
static char          *memory;
static float         *sink;
static volatile int  *flag;
static long long     *clocks;
static cublasHandle_t blas;
enum : size_t { GB = (size_t)1 << 30 };

/* Enqueues about a millisecond of work, and returns its events. */
struct work {
    double of[CLASSES];
};
typedef work enqueue_fn(int sms_used, int pause_us);

static work fma_work(int n, int)
{
    loop_fma<<<n, THREADS, 0, run>>>(sink, TRIPS);
    return { { 1.0 * n * THREADS * TRIPS * 64 } };
}
static work alu_work(int n, int)
{
    loop_alu<<<n, THREADS, 0, run>>>(sink, TRIPS);
    work w = {};
    w.of[ALU] = 1.0 * n * THREADS * TRIPS * 64;
    return w;
}
static work xu_work(int n, int)
{
    loop_xu<<<n, THREADS, 0, run>>>(sink, TRIPS);
    work w = {};
    w.of[XU] = 1.0 * n * THREADS * TRIPS * 16;
    w.of[FMA] = w.of[XU]; // sin.approx multiplies its argument first
    return w;
}
static work smem_work(int n, int)
{
    loop_smem<<<n, THREADS, 0, run>>>(sink, TRIPS);
    work w = {};
    w.of[SMEM] = 1.0 * n * THREADS * TRIPS * 16 * 16;
    w.of[ALU] = w.of[SMEM] / 16;
    return w;
}
static work mma_work(int n, int)
{
    loop_mma<<<n, 512, 0, run>>>(sink, TRIPS);
    work w = {};
    w.of[MMA] = 1.0 * n * 16 * TRIPS * 16 * 4096;
    return w;
}
static work memory_work(size_t bytes, int passes, bool copies, bool far)
{
    const int grid = sms;
    loop_memory<<<grid, THREADS, 0, run>>>(copies ? (float4 *)(memory + 4 * GB) : NULL, (const float4 *)memory,
                                           (int64_t)(bytes / 16), passes);
    work w = {};
    w.of[L2] = (double)bytes * passes * (copies ? 2 : 1);
    w.of[DRAM] = far ? w.of[L2] : 0;
    return w;
}
static work l2_work(int, int) { return memory_work((size_t)16 << 20, 256, false, false); }
static work read_work(int, int) { return memory_work(4 * GB, 1, false, true); }
static work copy_work(int, int) { return memory_work(2 * GB, 1, true, true); }
static work rest_work(int, int pause)
{
    wait_us<<<1, 1, 0, run>>>(pause);
    return {};
}

/* A square bf16 product of random numbers; its tiles pass shared memory and L2: 128 x 256 tiles, 64 deep. */
static work gemm_work(int, int pause)
{
    const int   n = 8192;
    const float one = 1, zero = 0;
    char       *a = memory, *b = memory + GB, *c = memory + 2 * GB;
    CHECK(cublasGemmEx(blas, CUBLAS_OP_T, CUBLAS_OP_N, n, n, n, &one, a, CUDA_R_16BF, n, b, CUDA_R_16BF, n, &zero, c,
                       CUDA_R_16BF, n, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
    if (pause) wait_us<<<1, 1, 0, run>>>(pause);
    const double m = n;
    work         w = {};
    w.of[MMA] = 2 * m * m * m;
    w.of[L2] = 2 * m * m * m * (1.0 / 128 + 1.0 / 256);
    w.of[SMEM] = 2 * w.of[L2];
    w.of[DRAM] = 2 * 3 * m * m * 1.5;
    return w;
}

/* Runs `what` for two seconds and prints its row: the first half second does not count. */
static void measure(const char *name, enqueue_fn *what, int n, int pause)
{
    enum { AHEAD = 64 };
    std::vector<cudaEvent_t> done(AHEAD);
    for (auto &e : done) CHECK(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
    double             began = now_s(), first_s = 0, last_s = 0, first_j = 0, last_j = 0, mhz = 0;
    int                reads = 0;
    long long          i = 0, counted = 0;
    unsigned long long before = 0, mj = 0;
    unsigned           clock = 0;
    double             read_s = 0;
    work               one = {};
    cudaEvent_t        from, to;
    CHECK(cudaEventCreate(&from));
    CHECK(cudaEventCreate(&to));
    *flag = 0;
    bool told = false;
    for (double t = 0; t < 2.0; t = now_s() - began) {
        if (what) {
            if (i >= AHEAD) CHECK(cudaEventSynchronize(done[i % AHEAD]));
            one = what(n, pause);
            CHECK(cudaGetLastError());
            CHECK(cudaEventRecord(done[i++ % AHEAD], run));
        } else usleep(2000);
        if (t < 0.5) continue;
        if (!told) {
            read_clock<<<1, 1, 0, beside>>>(flag, clocks);
            CHECK(cudaEventRecord(from, run));
            told = true, counted = i;
        }
        if (t - read_s < 0.02) continue; // a reading may take milliseconds
        read_s = t;
        CHECK(nvml_energy(gpu, &mj));
        if (mj != before && before) {
            if (!first_s) first_s = now_s(), first_j = 1e-3 * mj;
            last_s = now_s(), last_j = 1e-3 * mj;
            CHECK(nvml_clock(gpu, 1, &clock));
            mhz += clock, reads++;
        }
        before = mj;
    }
    CHECK(cudaEventRecord(to, run));
    *flag = 1;
    CHECK(cudaDeviceSynchronize());
    float ms = 0;
    CHECK(cudaEventElapsedTime(&ms, from, to));
    printf("%s\t%.1f\t%.4f\t%.4f", name, (last_j - first_j) / (last_s - first_s), (double)clocks[0] / clocks[1],
           1e-3 * mhz / reads);
    for (int k = 0; k < CLASSES; k++) printf("\t%.5g", what ? one.of[k] * (double)(i - counted) / (1e-3 * ms) : 0.0);
    printf("\n");
    fflush(stdout);
}

int main()
{
    cudaDeviceProp d;
    unsigned       limit = 0;
    open_meter();
    CHECK(cudaGetDeviceProperties(&d, 0));
    sms = d.multiProcessorCount;
    CHECK(cudaStreamCreateWithFlags(&run, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&beside, cudaStreamNonBlocking));
    CHECK(cudaMalloc(&memory, 8 * GB));
    CHECK(cudaMalloc(&sink, 4));
    CHECK(cudaHostAlloc((void **)&flag, 4, cudaHostAllocMapped));
    CHECK(cudaHostAlloc(&clocks, 16, cudaHostAllocMapped));
    CHECK(cublasCreate(&blas));
    CHECK(cublasSetStream(blas, run));
    fill_random<<<1024, 256>>>((uint16_t *)memory, 4 * GB);
    CHECK(cudaDeviceSynchronize());
    CHECK(nvml_limit(gpu, &limit));
    printf(
        "# Made by tools/power_loops.cu on %s, limit %.0f W: loop, W, GHz on the device, GHz by the driver, events/s "
        "of",
        d.name, 1e-3 * limit);
    for (int k = 0; k < CLASSES; k++) printf(" %s", classes[k]);
    printf(" (lane operations, FLOPs, bytes)\n");
    measure("rest", rest_work, 0, 1000);
    measure("fma", fma_work, sms, 0);
    measure("fma-half", fma_work, sms / 2, 0);
    measure("alu", alu_work, sms, 0);
    measure("xu", xu_work, sms, 0);
    measure("smem", smem_work, sms, 0);
    measure("mma", mma_work, sms, 0);
    measure("l2", l2_work, 0, 0);
    measure("read", read_work, 0, 0);
    measure("copy", copy_work, 0, 0);
    measure("gemm-quarter", gemm_work, 0, 4200);
    measure("gemm-half", gemm_work, 0, 1400);
    measure("gemm-most", gemm_work, 0, 450);
    measure("gemm", gemm_work, 0, 0);
    return 0;
}
