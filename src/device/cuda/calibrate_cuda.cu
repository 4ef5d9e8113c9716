// SPDX-License-Identifier: Apache-2.0
/* calibrate_cuda.cu -- microbenchmarks of the GPU in use (calibrate.h). Kernels count SM cycles themselves, so that
 * readings do not depend on the clock.
 *
 * kernel     calibrate_lanes<kind>   eight independent chains of one instruction per thread, 1024 threads per SM
 * kernel     calibrate_products      mma.sync m16n8k16, four independent accumulators per warp, eight warps per SM
 * kernel     calibrate_shared        16-byte reads of shared memory without conflicts
 * kernel     calibrate_barriers      __syncthreads of 256 threads
 * kernel     calibrate_chase         pointer chasing by one thread
 * kernel     calibrate_read/write    16 bytes per thread and iteration, past L1; by all SMs or by one
 * kernel     calibrate_empty         nothing: the cost of starting blocks
 * measured   none yet */
#include <algorithm>
#include <functional>
#include <vector>

#include "device/cuda/common.cuh"
extern "C" {
#include "core/device.h"
#include "device/cpu/ceilings.h"
#include "device/cuda/calibrate.h"
}

enum {
    RUNS = 5,
    TRIPS = 2048,
    CHAINS = 8,
    LANE_THREADS = 1024,
    WARPS_MMA = 8,
    CHASE_STEPS = 4096,
    PIECE = 16,
    STREAM_THREADS = 512,
    STREAM_BLOCKS = 2, /* blocks per SM */
    IN_FLIGHT = 4      /* loads per thread: 64 KB per SM, three times what DRAM needs */
};
enum lane_kind { LANES_FMA, LANES_ALU, LANES_XU, LANES_H2, LANES_MIXED };

template <int KIND>
__global__ void __launch_bounds__(LANE_THREADS) calibrate_lanes(long long *cycles, uint32_t *sink, int trips)
{
    uint32_t x[CHAINS];
    for (int k = 0; k < CHAINS; k++) x[k] = 0x3f800000u + threadIdx.x + k;
    __syncthreads();
    const long long began = clock64();
#pragma unroll 8
    for (int i = 0; i < trips; i++)
#pragma unroll
        for (int k = 0; k < CHAINS; k++) {
            if (KIND == LANES_FMA || (KIND == LANES_MIXED && k % 2))
                asm volatile("fma.rn.f32 %0, %0, %0, %0;" : "+r"(x[k]));
            else if (KIND == LANES_ALU || KIND == LANES_MIXED)
                asm volatile("lop3.b32 %0, %0, %1, 0x5a5a5a5a, 0x96;" : "+r"(x[k]) : "r"(i));
            else if (KIND == LANES_XU) asm volatile("ex2.approx.ftz.f32 %0, %0;" : "+r"(x[k]));
            else asm volatile("fma.rn.f16x2 %0, %0, %0, %0;" : "+r"(x[k]));
        }
    __syncthreads();
    if (threadIdx.x == 0) cycles[blockIdx.x] = clock64() - began;
    uint32_t sum = 0;
    for (int k = 0; k < CHAINS; k++) sum += x[k];
    if (sum == 12345) *sink = sum; // almost never true, which the compiler does not know
}

__global__ void __launch_bounds__(32 * WARPS_MMA) calibrate_products(long long *cycles, float *sink)
{
    float    c[4][4] = {};
    uint32_t a = threadIdx.x, b = threadIdx.x + 1;
    __syncthreads();
    const long long began = clock64();
    for (int i = 0; i < TRIPS; i++)
#pragma unroll
        for (int k = 0; k < 4; k++)
            asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%4,%5,%5}, {%5,%4}, "
                         "{%0,%1,%2,%3};"
                         : "+f"(c[k][0]), "+f"(c[k][1]), "+f"(c[k][2]), "+f"(c[k][3])
                         : "r"(a), "r"(b));
    __syncthreads();
    if (threadIdx.x == 0) cycles[blockIdx.x] = clock64() - began;
    if (c[0][0] + c[1][1] + c[2][2] + c[3][3] == -1) *sink = c[0][0];
}

__global__ void __launch_bounds__(1024) calibrate_shared(long long *cycles, uint32_t *sink)
{
    __shared__ uint4 x[1024];
    x[threadIdx.x] = make_uint4(threadIdx.x, 1, 2, 3);
    __syncthreads();
    uint32_t        sum = 0;
    const unsigned  base = (unsigned)__cvta_generic_to_shared(x);
    const long long began = clock64();
#pragma unroll 2
    for (int i = 0; i < TRIPS; i += 4) {
        const unsigned at = 16 * ((threadIdx.x + 32 * i) % 1024);
#pragma unroll
        for (int k = 0; k < 4; k++) { // cheap address arithmetic: the integer units are slower
            uint32_t v[4];
            asm volatile("ld.volatile.shared.v4.u32 {%0,%1,%2,%3}, [%4];" // volatile: unused words are read too
                         : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3])
                         : "r"(base + (at ^ (16 * 32 * k))));
            sum += v[0];
        }
    }
    __syncthreads();
    if (threadIdx.x == 0) cycles[blockIdx.x] = clock64() - began;
    if (sum == 12345) *sink = sum;
}

__global__ void __launch_bounds__(256) calibrate_barriers(long long *cycles)
{
    const long long began = clock64();
    for (int i = 0; i < TRIPS; i++) __syncthreads();
    if (threadIdx.x == 0) cycles[blockIdx.x] = clock64() - began;
}

/* next[i] is the index to read next. Runs `warm` steps first, so that the timed part hits or misses L2 as its size
 * implies. */
__global__ void calibrate_chase(long long *cycles, const uint32_t *next, int warm, int steps, uint32_t *sink)
{
    uint32_t i = *sink; // continues where the last run ended
    for (int k = 0; k < warm; k++) asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(i) : "l"(next + i));
    const long long began = clock64();
    for (int k = 0; k < steps; k++) asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(i) : "l"(next + i));
    *cycles = clock64() - began;
    *sink = i;
}

/* One cycle through all elements: 127 is odd and n a power of two. Steps of 32 KB stay within a page mostly. */
__global__ void calibrate_ring(uint32_t *next, uint32_t n, uint32_t stride)
{
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) next[(size_t)i * stride] = (uint32_t)(((uint64_t)i + 127) % n) * stride;
}

__global__ void __launch_bounds__(STREAM_THREADS, STREAM_BLOCKS)
    calibrate_read(const uint4 *x, int64_t pieces, int passes, long long *cycles, uint32_t *sink)
{
    uint32_t        sum = 0;
    const int64_t   stride = (int64_t)gridDim.x * blockDim.x, first = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    const long long began = clock64();
    for (int p = 0; p < passes; p++) {
        int64_t i = first;
        for (; i + (IN_FLIGHT - 1) * stride < pieces; i += IN_FLIGHT * stride) {
            uint4 v[IN_FLIGHT];
#pragma unroll
            for (int k = 0; k < IN_FLIGHT; k++) v[k] = __ldcg(x + i + k * stride);
#pragma unroll
            for (int k = 0; k < IN_FLIGHT; k++) sum += v[k].x ^ v[k].y ^ v[k].z ^ v[k].w;
        }
        for (; i < pieces; i += stride) sum += __ldcg(x + i).x;
    }
    __syncthreads();
    if (threadIdx.x == 0) cycles[blockIdx.x] = clock64() - began;
    if (sum == 12345) *sink = sum;
}

__global__ void __launch_bounds__(STREAM_THREADS, STREAM_BLOCKS)
    calibrate_write(uint4 *x, int64_t pieces, int passes, long long *cycles)
{
    const long long began = clock64();
    for (int p = 0; p < passes; p++)
#pragma unroll 4
        for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < pieces;
             i += (int64_t)gridDim.x * blockDim.x)
            x[i] = make_uint4(p, 1, 2, 3);
    __syncthreads();
    if (threadIdx.x == 0) cycles[blockIdx.x] = clock64() - began;
}

__global__ void __launch_bounds__(STREAM_THREADS, STREAM_BLOCKS) calibrate_copy(uint4 *to, const uint4 *from, int64_t n)
{
    const int64_t stride = (int64_t)gridDim.x * blockDim.x;
    int64_t       i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    for (; i + (IN_FLIGHT - 1) * stride < n; i += IN_FLIGHT * stride) {
        uint4 v[IN_FLIGHT];
#pragma unroll
        for (int k = 0; k < IN_FLIGHT; k++) v[k] = __ldcg(from + i + k * stride);
#pragma unroll
        for (int k = 0; k < IN_FLIGHT; k++) to[i + k * stride] = v[k];
    }
    for (; i < n; i += stride) to[i] = from[i];
}

__global__ void calibrate_empty(void) {}

#define GRID(b) STREAM_BLOCKS *(b)->d.multiProcessorCount, STREAM_THREADS, 0, (b)->s

/* ---- readings ---- */

typedef struct bench {
    cudaStream_t   s;
    char          *memory;
    long long     *cycles; /* per block, on the device */
    uint32_t      *sink;
    cudaDeviceProp d;
    double         clk;      /* GHz, measured under load */
    double         peak_gbs; /* of DRAM, from the driver */
    mba_reading   *out;
    int           *n;
} bench;

enum : size_t { BUFFER = (size_t)2 << 30 };

static void add(const bench *b, const char *key, const char *how, std::vector<double> v)
{
    std::sort(v.begin(), v.end());
    if (*b->n < MBA_READINGS_MAX) b->out[(*b->n)++] = { key, how, v[v.size() / 2], (v.back() - v.front()) / 2 };
}

/* Cycles of the slowest block of a launch. */
static mba_status cycles_of(double *out, const bench *b, int blocks, const std::function<void()> &launch)
{
    std::vector<long long> c(blocks);
    launch();
    CUDA_TRY(cudaGetLastError());
    CUDA_TRY(cudaMemcpyAsync(c.data(), b->cycles, sizeof(long long) * blocks, cudaMemcpyDeviceToHost, b->s));
    CUDA_TRY(cudaStreamSynchronize(b->s));
    *out = (double)*std::max_element(c.begin(), c.end());
    return MBA_OK;
}

static mba_status seconds_of(double *out, const bench *b, const std::function<void()> &launch)
{
    cudaEvent_t from, to;
    float       ms = 0;
    CUDA_TRY(cudaEventCreate(&from));
    CUDA_TRY(cudaEventCreate(&to));
    CUDA_TRY(cudaEventRecord(from, b->s));
    launch();
    CUDA_TRY(cudaGetLastError());
    CUDA_TRY(cudaEventRecord(to, b->s));
    CUDA_TRY(cudaEventSynchronize(to));
    CUDA_TRY(cudaEventElapsedTime(&ms, from, to));
    cudaEventDestroy(from);
    cudaEventDestroy(to);
    *out = 1e-3 * ms;
    return MBA_OK;
}

/* RUNS readings after an uncounted one; `value` converts cycles or seconds. */
typedef mba_status measure_fn(double *out, const bench *b, int blocks, const std::function<void()> &launch);
static mba_status  timed(double *out, const bench *b, int, const std::function<void()> &launch)
{
    return seconds_of(out, b, launch);
}

static mba_status read_out(const bench *b, const char *key, const char *how, measure_fn *measure, int blocks,
                           const std::function<void()> &launch, const std::function<double(double)> &value)
{
    std::vector<double> v;
    for (int i = 0; i <= RUNS; i++) {
        double x = 0;
        MBA_TRY(measure(&x, b, blocks, launch));
        if (i) v.push_back(value(x));
    }
    add(b, key, how, v);
    return MBA_OK;
}

static mba_status read_lanes(const bench *b)
{
    const int    sms = b->d.multiProcessorCount;
    const double lanes = (double)LANE_THREADS * TRIPS * CHAINS;
    auto         rate = [=](double c) { return lanes / c; };
    MBA_TRY(read_out(
        b, "fma", "fma.rn.f32, 8 chains", cycles_of, sms,
        [=] { calibrate_lanes<LANES_FMA><<<sms, LANE_THREADS, 0, b->s>>>(b->cycles, b->sink, TRIPS); }, rate));
    MBA_TRY(read_out(
        b, "alu", "lop3, 8 chains", cycles_of, sms,
        [=] { calibrate_lanes<LANES_ALU><<<sms, LANE_THREADS, 0, b->s>>>(b->cycles, b->sink, TRIPS); }, rate));
    MBA_TRY(read_out(
        b, "xu", "ex2.approx, 8 chains", cycles_of, sms,
        [=] { calibrate_lanes<LANES_XU><<<sms, LANE_THREADS, 0, b->s>>>(b->cycles, b->sink, TRIPS); }, rate));
    MBA_TRY(read_out(
        b, "half2", "fma.f16x2, 8 chains; two operations a lane", cycles_of, sms,
        [=] { calibrate_lanes<LANES_H2><<<sms, LANE_THREADS, 0, b->s>>>(b->cycles, b->sink, TRIPS); },
        [=](double c) { return 2 * lanes / c; }));
    MBA_TRY(read_out(
        b, "issue", "fma and lop3 in turn", cycles_of, sms,
        [=] { calibrate_lanes<LANES_MIXED><<<sms, LANE_THREADS, 0, b->s>>>(b->cycles, b->sink, TRIPS); }, rate));
    MBA_TRY(read_out(
        b, "smem_bw", "16-byte reads without conflicts", cycles_of, sms,
        [=] { calibrate_shared<<<sms, 1024, 0, b->s>>>(b->cycles, b->sink); },
        [=](double c) { return 1024.0 * 16 * TRIPS / c; }));
    return read_out(
        b, "barrier", "__syncthreads of 256 threads", cycles_of, sms,
        [=] { calibrate_barriers<<<sms, 256, 0, b->s>>>(b->cycles); }, [=](double c) { return c / TRIPS; });
}

static double mma_peak(int cc)
{
    return cc >= 100 ? 8192 : cc >= 90 ? 4096 : 2048;
} // FLOPs per clock and SM, from documents

static mba_status read_products(const bench *b)
{
    const int    sms = b->d.multiProcessorCount;
    const double peak = mma_peak(10 * b->d.major + b->d.minor);
    mba_ceilings c;
    MBA_TRY(read_out(
        b, "mma_sync", "mma.sync m16n8k16 bf16 against the documented peak", cycles_of, sms,
        [=] { calibrate_products<<<sms, 32 * WARPS_MMA, 0, b->s>>>(b->cycles, (float *)b->sink); },
        [=](double x) {
            const double r = 4096.0 * WARPS_MMA * TRIPS * 4 / x / peak;
            return r < 1 ? r : 1;
        }));
    MBA_TRY(mba_ceilings_measure_cuda(&c, MBA_BF16, false));
    add(b, "clk_mma", "cuBLASLt, 8192 cubed, random numbers, 97 % of its waves full",
        { c.tensor_flops / (0.97 * peak * sms) / 1e9 });
    MBA_TRY(mba_ceilings_measure_cuda(&c, MBA_F32, false));
    add(b, "mma32", "cuBLASLt, 8192 cubed, fp32 without TF32", { c.tensor_flops / (b->clk * 1e9 * sms) });
    return MBA_OK;
}

static mba_status read_latency(const bench *b, const char *key, const char *how, uint32_t nodes)
{
    enum { STRIDE = 64 }; // 256 bytes: a new line per step
    uint32_t *next = (uint32_t *)b->memory;
    CUDA_TRY(cudaMemsetAsync(b->sink, 0, sizeof *b->sink, b->s));
    calibrate_ring<<<(nodes + 255) / 256, 256, 0, b->s>>>(next, nodes, STRIDE);
    const int warm = nodes <= CHASE_STEPS * 8 ? (int)nodes : 0;
    return read_out(
        b, key, how, cycles_of, 1,
        [=] { calibrate_chase<<<1, 1, 0, b->s>>>(b->cycles, next, warm, CHASE_STEPS, b->sink); },
        [](double c) { return c / CHASE_STEPS; });
}

/* Bytes that all threads have in flight; footprints are multiples of it, so that no remainder is read one by one. */
static int64_t round_bytes(const bench *b)
{
    return (int64_t)STREAM_BLOCKS * b->d.multiProcessorCount * STREAM_THREADS * IN_FLIGHT * PIECE;
}

/* Bytes per second of reading the same bytes repeatedly: many passes minus few, which cancels the start of a launch
 * (about 5 us between two events, as long as four passes over 8 MB). */
static mba_status reread(double *gbs, const bench *b, int64_t bytes)
{
    enum { FEW = 4, MANY = 20, TRIES = 3 };
    double least[2] = { 1, 1 };
    for (int i = 0; i < 2 * TRIES; i++) {
        double t = 1;
        MBA_TRY(seconds_of(&t, b, [=] {
            calibrate_read<<<GRID(b)>>>((const uint4 *)b->memory, bytes / PIECE, i % 2 ? MANY : FEW, b->cycles,
                                        b->sink);
        }));
        least[i % 2] = std::min(least[i % 2], t);
    }
    *gbs = (MANY - FEW) * (double)bytes / std::max(least[1] - least[0], 1e-9) / 1e9;
    return MBA_OK;
}

static mba_status read_l2_rate(const bench *b)
{
    std::vector<double> v(RUNS);
    for (double &x : v) MBA_TRY(reread(&x, b, 2 * round_bytes(b)));
    add(b, "l2_rd", "17 MB read 20 times by all SMs, less 4 times", v);
    return MBA_OK;
}

static mba_status read_cache(const bench *b)
{
    enum { PASSES = 16 };
    const int64_t chip = 2 * round_bytes(b), one = (int64_t)1 << 20;
    uint4        *x = (uint4 *)b->memory;
    auto          gbs = [=](double s) { return PASSES * (double)chip / s / 1e9; };
    auto          port = [=](double c) { return PASSES * (double)one / c; };
    MBA_TRY(read_latency(b, "l2_lat", "pointer chase through 2 MB", 8192));
    MBA_TRY(read_latency(b, "hbm_lat", "pointer chase through 2 GB", (uint32_t)(BUFFER / 256)));
    MBA_TRY(read_l2_rate(b));
    MBA_TRY(read_out(
        b, "l2_wr", "17 MB written 16 times by all SMs", timed, 0,
        [=] { calibrate_write<<<GRID(b)>>>(x, chip / PIECE, PASSES, b->cycles); }, gbs));
    MBA_TRY(read_out(
        b, "sm_l2_read", "1 MB read 16 times by one SM", cycles_of, 1,
        [=] { calibrate_read<<<1, STREAM_THREADS, 0, b->s>>>(x, one / PIECE, PASSES, b->cycles, b->sink); }, port));
    return read_out(
        b, "sm_l2_write", "1 MB written 16 times by one SM", cycles_of, 1,
        [=] { calibrate_write<<<1, STREAM_THREADS, 0, b->s>>>(x, one / PIECE, PASSES, b->cycles); }, port);
}

/* The footprint at which half of the reads hit: there the time per byte is midway between that of L2 and of DRAM. */
static mba_status read_half_point(const bench *b, double l2_gbs, double dram_gbs)
{
    const double half = 2 / (1 / l2_gbs + 1 / dram_gbs);
    double       last_mb = 0, last = l2_gbs;
    for (int64_t rounds = 1; rounds * round_bytes(b) <= 512000000; rounds++) {
        double       gbs = 0;
        const double mb = 1e-6 * (double)(rounds * round_bytes(b));
        MBA_TRY(reread(&gbs, b, rounds * round_bytes(b)));
        if (gbs < half) {
            const double at = last_mb + (mb - last_mb) * (last - half) / std::max(last - gbs, 1e-9);
            add(b, "l2_half_reuse", "footprint at which half of the reads hit", { at, last_mb, mb });
            return MBA_OK;
        }
        last_mb = mb;
        last = gbs;
    }
    return mba_fail(MBA_E_DEVICE, "no footprint up to 512 MB leaves L2\nwhy: the readings are not those of a "
                                  "cache\nfix: is another program using the GPU?");
}

static mba_status read_memory(const bench *b)
{
    const int64_t bytes = BUFFER / 2;
    const double  peak_gbs = b->peak_gbs;
    uint4        *x = (uint4 *)b->memory, *y = (uint4 *)(b->memory + bytes);
    auto          ratio = [=](double moved) {
        return [=](double s) {
            const double r = moved / s / 1e9 / peak_gbs;
            return r < 1 ? r : 1;
        };
    };
    MBA_TRY(read_out(
        b, "hbm_rd", "1 GB read", timed, 0,
        [=] { calibrate_read<<<GRID(b)>>>(x, bytes / PIECE, 1, b->cycles, b->sink); }, ratio((double)bytes)));
    MBA_TRY(read_out(
        b, "hbm_wr", "1 GB written", timed, 0, [=] { calibrate_write<<<GRID(b)>>>(x, bytes / PIECE, 1, b->cycles); },
        ratio((double)bytes)));
    return read_out(
        b, "hbm_mix", "1 GB copied", timed, 0, [=] { calibrate_copy<<<GRID(b)>>>(y, x, bytes / PIECE); },
        ratio(2.0 * bytes));
}

/* Shared memory limits an SM to one block at a time: the time from one block to the next is start, warps and exit. */
static mba_status read_blocks(const bench *b)
{
    enum { BLOCKS_SM = 512 };
    const int    sms = b->d.multiProcessorCount, hold = (int)b->d.sharedMemPerBlockOptin;
    const double hz = b->clk * 1e9;
    double       t[2][RUNS], x = 0;
    CUDA_TRY(cudaFuncSetAttribute(calibrate_empty, cudaFuncAttributeMaxDynamicSharedMemorySize, hold));
    for (int w = 0; w < 2; w++)
        for (int i = 0; i < RUNS; i++) {
            MBA_TRY(seconds_of(&x, b, [=] { calibrate_empty<<<sms * BLOCKS_SM, w ? 1024 : 32, hold, b->s>>>(); }));
            t[w][i] = x * hz / BLOCKS_SM;
        }
    std::vector<double> warp, all;
    const double        exit_cycles = 75; // not separable from the start; as in the machine files
    for (int i = 1; i < RUNS; i++) {
        const double each = std::max((t[1][i] - t[0][i]) / 31, 0.0);
        warp.push_back(each);
        all.push_back(std::max(t[0][i] - each - exit_cycles, 0.0));
    }
    add(b, "block_start_warp", "empty blocks of 1 and 32 warps, one on an SM", warp);
    add(b, "block_start", "the same, less 75 cycles of exit", all);
    return read_out(
        b, "block_rate", "a million empty blocks of one warp", timed, 0,
        [=] { calibrate_empty<<<1 << 20, 32, 0, b->s>>>(); }, [=](double s) { return (1 << 20) / (s * hz); });
}

static mba_status read_gaps(const bench *b)
{
    enum { KERNELS = 1000 };
    cudaGraph_t     graph = NULL;
    cudaGraphExec_t exec = NULL;
    const double    own_us = 0.25; // start and exit of an empty block
    auto            each = [=](double s) { return std::max(1e6 * s / KERNELS - own_us, 0.0); };
    auto            many = [=] {
        for (int i = 0; i < KERNELS; i++) calibrate_empty<<<1, 32, 0, b->s>>>();
    };
    MBA_TRY(read_out(b, "gap_stream", "a thousand empty kernels, launched one by one", timed, 0, many, each));
    CUDA_TRY(cudaStreamBeginCapture(b->s, cudaStreamCaptureModeThreadLocal));
    many();
    CUDA_TRY(cudaStreamEndCapture(b->s, &graph));
    CUDA_TRY(cudaGraphInstantiate(&exec, graph, 0));
    const mba_status st = read_out(
        b, "gap_graph", "a thousand empty kernels of a captured graph", timed, 0, [=] { cudaGraphLaunch(exec, b->s); },
        each);
    cudaGraphExecDestroy(exec);
    cudaGraphDestroy(graph);
    return st;
}

static double value_of(const bench *b, const char *key)
{
    for (int i = 0; i < *b->n; i++)
        if (!strcmp(b->out[i].key, key)) return b->out[i].value;
    return 0;
}

static mba_status read_driver(bench *b)
{
    const int sms = b->d.multiProcessorCount;
    int       memory_khz = 0;
    double    c = 0, s = 1;
    CUDA_TRY(cudaDeviceGetAttribute(&memory_khz, cudaDevAttrMemoryClockRate, 0));
    const double peak = 2.0 * memory_khz * 1e3 * b->d.memoryBusWidth / 8 * 1e-9;
    for (int i = 0; i < 50; i++) { // the clock rises under load; the last reading counts
        const auto spin = [=] {
            calibrate_lanes<LANES_FMA><<<sms, LANE_THREADS, 0, b->s>>>(b->cycles, b->sink, 100 * TRIPS);
        };
        MBA_TRY(seconds_of(&s, b, spin));
        MBA_TRY(cycles_of(&c, b, sms, spin));
    }
    b->clk = c / s / 1e9;
    add(b, "clk", "cycles of a spinning kernel over seconds", { b->clk });
    add(b, "cc", "driver", { 10.0 * b->d.major + b->d.minor });
    add(b, "sm", "driver", { (double)sms });
    add(b, "hbm", "driver: memory clock times bus width", { peak });
    add(b, "l2", "driver", { b->d.l2CacheSize / 1e6 });
    add(b, "memory", "driver", { b->d.totalGlobalMem / 1e9 });
    add(b, "smem_block", "driver", { b->d.sharedMemPerBlockOptin / 1024.0 });
    add(b, "smem_sm", "driver", { b->d.sharedMemPerMultiprocessor / 1024.0 });
    add(b, "rf", "driver", { b->d.regsPerMultiprocessor / 256.0 });
    add(b, "warps_max", "driver", { b->d.maxThreadsPerMultiProcessor / 32.0 });
    b->peak_gbs = peak;
    return MBA_OK;
}

static mba_status read_footprints(const bench *b)
{
    if (!(value_of(b, "l2_rd") > 0 && value_of(b, "hbm_rd") > 0))
        return mba_fail(MBA_E_DEVICE, "no half point without the rates of L2 and DRAM\nwhy: they could not be read\n"
                                      "fix: see the notes above");
    return read_half_point(b, value_of(b, "l2_rd"), value_of(b, "hbm_rd") * b->peak_gbs);
}

/* Runs all parts. A part that fails is reported and left out; the others still run unless the context is lost. */
static mba_status read_parts(bench *b, mba_calibrate_fn *told, void *of)
{
    static const struct {
        const char *what;
        mba_status (*read)(const bench *b);
    } parts[] = { { "latencies and L2", read_cache },
                  { "DRAM", read_memory },
                  { "pipes and shared memory", read_lanes },
                  { "products", read_products },
                  { "footprints", read_footprints },
                  { "blocks", read_blocks },
                  { "gaps", read_gaps } };
    for (const auto &part : parts) {
        const int        had = *b->n;
        const mba_status st = part.read(b);
        told(of, part.what, *b->n - had, st == MBA_OK ? NULL : mba_message());
        cudaGetLastError(); // clears a launch error; a lost context stays
        if (cudaStreamSynchronize(b->s) != cudaSuccess) return st == MBA_OK ? MBA_E_DEVICE : st;
    }
    return MBA_OK;
}

extern "C" mba_status mba_calibrate_cuda(mba_reading *out, int *n, mba_calibrate_fn *told, void *of)
{
    const mba_device *d;
    bench             b = {};
    *n = 0;
    MBA_TRY(mba_device_cuda(&d, 0));
    b.s = (cudaStream_t)d->stream;
    b.out = out;
    b.n = n;
    CUDA_TRY(cudaGetDeviceProperties(&b.d, 0));
    CUDA_TRY(cudaMalloc(&b.memory, BUFFER + 4096 * sizeof(long long) + 256));
    b.cycles = (long long *)(b.memory + BUFFER);
    b.sink = (uint32_t *)(b.cycles + 4096);
    CUDA_TRY(cudaMemset(b.memory, 1, BUFFER));
    mba_status st = read_driver(&b);
    if (st == MBA_OK) st = read_parts(&b, told, of);
    cudaFree(b.memory);
    return st;
}
