// SPDX-License-Identifier: Apache-2.0
/* planted_kernels.cu -- a program whose kernels have one known fault each, and the same kernels without it. It is the
 * subject of `mambascope profile -- planted_kernels`: advice (src/study/advice.c) must name the fault first, and its
 * estimate is compared with the time that the mended kernel saves (tools/planted).
 *
 *     planted_kernels [STEPS]
 *
 * A step launches every pair: fault_NAME, then mended_NAME. Both compute the same values from random inputs larger
 * than L2. */
#include <cstdio>
#include <cstdlib>
#include <unistd.h>

#define CHECK(call) \
    do { \
        const cudaError_t e_ = (call); \
        if (e_ != cudaSuccess) { \
            std::fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(e_)); \
            std::exit(1); \
        } \
    } while (0)

constexpr int       THREADS = 256, WARP = 32;
constexpr long long COUNT = 1ll << 26; // floats of an array: 256 MiB

__device__ long long thread_id() { return blockIdx.x * (long long)blockDim.x + threadIdx.x; }

/* ---- uncoalesced loads: neighbouring threads read rows of a matrix ---- */
__global__ void fault_strided_loads(float *out, const float *in)
{
    const long long i = thread_id(), row = i & (COUNT / WARP - 1), column = i / (COUNT / WARP);
    out[i] = in[row * WARP + column] + 1;
}
__global__ void mended_strided_loads(float *out, const float *in)
{
    const long long i = thread_id();
    out[i] = in[i] + 1;
}

/* ---- uncoalesced loads: one field of four of a structure ---- */
__global__ void fault_one_field(float *out, const float *in)
{
    const long long i = thread_id();
    out[i] = in[4 * i] * 2;
}
__global__ void mended_one_field(float *out, const float *in)
{
    const long long i = thread_id();
    out[i] = in[i] * 2;
}

/* ---- uncoalesced stores: a transpose without a tile ---- */
constexpr int   SIDE = 8192;
__global__ void fault_transpose(float *out, const float *in)
{
    const int x = blockIdx.x * WARP + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
    out[(long long)x * SIDE + y] = in[(long long)y * SIDE + x];
}
__global__ void mended_transpose(float *out, const float *in)
{
    __shared__ float tile[WARP][WARP + 1];
    const int        x = blockIdx.x * WARP, y = blockIdx.y * WARP;
    for (int k = threadIdx.y; k < WARP; k += 8) tile[k][threadIdx.x] = in[(long long)(y + k) * SIDE + x + threadIdx.x];
    __syncthreads();
    for (int k = threadIdx.y; k < WARP; k += 8) out[(long long)(x + k) * SIDE + y + threadIdx.x] = tile[threadIdx.x][k];
}

/* ---- bank conflicts: lanes read rows of 32 floats, 16 bytes at a time; with 4 floats between rows none meet ---- */
template <int ROW, int PAD> __device__ void columns(float *out, const float *in, int turns)
{
    __shared__ float tile[WARP * (ROW + PAD)];
    const int        lane = threadIdx.x % WARP;
    for (int k = threadIdx.x; k < WARP * ROW; k += blockDim.x) tile[(k / ROW) * (ROW + PAD) + k % ROW] = in[k];
    __syncthreads();
    float sum = 0;
    for (int t = 0; t < turns; t++) {
#pragma unroll 8
        for (int c = 0; c < ROW; c++) sum += tile[lane * (ROW + PAD) + c];
    }
    out[thread_id()] = sum;
}
__global__ void fault_conflicts_8(float *out, const float *in) { columns<32, 0>(out, in, 64); }
__global__ void mended_conflicts_8(float *out, const float *in) { columns<32, 4>(out, in, 64); }
__global__ void fault_conflicts_2(float *out, const float *in) { columns<32, 8>(out, in, 64); }
__global__ void mended_conflicts_2(float *out, const float *in) { columns<32, 4>(out, in, 64); }

/* ---- low occupancy: shared memory that is not needed, in a kernel that waits for gathered values ---- */
__device__ void gather(float *out, const float *in, int hops)
{
    const unsigned mask = (unsigned)COUNT / WARP - 1, lane = threadIdx.x % WARP;
    unsigned       at = (unsigned)(thread_id() / WARP) * 2654435761u & mask; // a line of 32 floats per warp
    float          sum = 0;
    for (int k = 0; k < hops; k++) {
        const float v = in[at * WARP + lane];
        sum += v;
        at = (at * 1664525u + 1013904223u + (v > 2)) & mask; // values are below 1: the next address waits for v
    }
    out[thread_id()] = sum;
}
__global__ void fault_shared_occupancy(float *out, const float *in) { gather(out, in, 32); }
__global__ void mended_shared_occupancy(float *out, const float *in) { gather(out, in, 32); }
__global__ void fault_block_occupancy(float *out, const float *in) { gather(out, in, 32); }
__global__ void mended_block_occupancy(float *out, const float *in) { gather(out, in, 32); }

/* ---- small grid and tail: rows of arithmetic, in grids of other sizes ---- */
__device__ void rows_of_work(float *out, const float *in, long long rows, int turns)
{
    for (long long r = blockIdx.x; r < rows; r += gridDim.x) {
        float v = in[r * THREADS + threadIdx.x];
        for (int k = 0; k < turns; k++) v = v * 0.999f + 0.001f;
        out[r * THREADS + threadIdx.x] = v;
    }
}
__global__ void fault_small_grid(float *out, const float *in, long long rows) { rows_of_work(out, in, rows, 64); }
__global__ void mended_small_grid(float *out, const float *in, long long rows) { rows_of_work(out, in, rows, 64); }
__global__ void fault_last_wave(float *out, const float *in, long long rows) { rows_of_work(out, in, rows, 20000); }
__global__ void mended_last_wave(float *out, const float *in, long long rows) { rows_of_work(out, in, rows, 1250); }
/* The last 32 blocks take 30 times as long; mended, all take the mean. */
__global__ void fault_unequal_blocks(float *out, const float *in)
{
    rows_of_work(out, in, gridDim.x, blockIdx.x > gridDim.x - 33 ? 60000 : 2000);
}
__global__ void mended_unequal_blocks(float *out, const float *in)
{
    rows_of_work(out, in, gridDim.x, 2000 + 58000 * 32 / (int)gridDim.x);
}

/* ---- spills: an array that is indexed by data; too few registers ---- */
template <bool BY_DATA> __device__ void histogram(float *out, const float *in)
{
    float           bin[16] = {};
    const long long i = thread_id();
    for (int k = 0; k < 64; k++) {
        const int b = (int)(in[(i + k * (COUNT / 64)) & (COUNT - 1)] * 16);
        if (BY_DATA) bin[b & 15] += 1;
        else {
#pragma unroll
            for (int c = 0; c < 16; c++) bin[c] += b == c ? 1 : 0;
        }
    }
    float sum = 0;
#pragma unroll
    for (int c = 0; c < 16; c++) sum += bin[c] * (float)c;
    out[i] = sum;
}
__global__ void fault_indexed_array(float *out, const float *in) { histogram<true>(out, in); }
__global__ void mended_indexed_array(float *out, const float *in) { histogram<false>(out, in); }

template <int VALUES> __device__ void many_values(float *out, const float *in, int turns)
{
    float           v[VALUES];
    const long long i = thread_id();
#pragma unroll
    for (int k = 0; k < VALUES; k++) v[k] = in[(i + k * 4096ll) & (COUNT - 1)];
    for (int t = 0; t < turns; t++) {
#pragma unroll
        for (int k = 0; k < VALUES; k++) v[k] = v[k] * 0.5f + v[(k + 7) % VALUES];
    }
    float sum = 0;
#pragma unroll
    for (int k = 0; k < VALUES; k++) sum += v[k];
    out[i] = sum;
}
__global__ void __launch_bounds__(THREADS, 8) fault_few_registers(float *out, const float *in)
{
    many_values<64>(out, in, 50);
}
__global__ void __launch_bounds__(THREADS) mended_few_registers(float *out, const float *in)
{
    many_values<64>(out, in, 50);
}

/* ---- the wrong unit ---- */
__global__ void fault_doubles(float *out, const float *in)
{
    float v = in[thread_id()];
    for (int k = 0; k < 64; k++) v = (float)(v * 0.999 + 0.001);
    out[thread_id()] = v;
}
__global__ void mended_doubles(float *out, const float *in)
{
    float v = in[thread_id()];
    for (int k = 0; k < 64; k++) v = v * 0.999f + 0.001f;
    out[thread_id()] = v;
}
__global__ void fault_exponentials(float *out, const float *in)
{
    float v = in[thread_id()], sum = 0;
#pragma unroll 8
    for (int k = 0; k < 128; k++) {
        float e;
        asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(e) : "f"(v * ((float)k * 0.01f)));
        sum += e;
    }
    out[thread_id()] = sum;
}
__global__ void mended_exponentials(float *out, const float *in) // a sum of powers: one exponential, then products
{
    const float base = exp2f(in[thread_id()] * 0.01f);
    float       power = 1, sum = 0;
    for (int k = 0; k < 128; k++) sum += power, power *= base;
    out[thread_id()] = sum;
}
__global__ void fault_divisions(int *out, const float *in, unsigned by)
{
    unsigned v = __float_as_uint(in[thread_id()]), sum = 0;
    for (int k = 0; k < 64; k++) sum += (v + k) / by + (v + k) % by;
    out[thread_id()] = (int)sum;
}
__global__ void mended_divisions(int *out, const float *in, unsigned shift)
{
    unsigned v = __float_as_uint(in[thread_id()]), sum = 0;
    for (int k = 0; k < 64; k++) sum += ((v + k) >> shift) + ((v + k) & ((1u << shift) - 1));
    out[thread_id()] = (int)sum;
}

/* ---- latency: one load in flight; a barrier per sum of two ---- */
__global__ void fault_one_load(float *out, const float *in, long long each)
{
    const long long first = thread_id(), threads = gridDim.x * (long long)blockDim.x;
    float           sum = 0;
#pragma unroll 1
    for (long long k = 0; k < each; k++) {
        const float v = in[first + k * threads];
        sum = v > 2 ? 0 : sum + v;
        if (sum > 1e30f) break; // the next load waits for this one
    }
    out[first] = sum;
}
__global__ void mended_one_load(float *out, const float *in, long long each)
{
    const long long first = thread_id(), threads = gridDim.x * (long long)blockDim.x;
    float           sum = 0;
#pragma unroll 16
    for (long long k = 0; k < each; k++) sum += in[first + k * threads];
    out[first] = sum;
}
__global__ void fault_barriers(float *out, const float *in)
{
    __shared__ float part[1024];
    float            sum = 0;
    for (int turn = 0; turn < 8; turn++) {
        part[threadIdx.x] = in[(thread_id() + turn * (COUNT / 8)) & (COUNT - 1)];
        __syncthreads();
        for (int n = 512; n > 0; n /= 2) {
            if (threadIdx.x < n) part[threadIdx.x] += part[threadIdx.x + n];
            __syncthreads();
        }
        sum += part[0];
        __syncthreads();
    }
    if (threadIdx.x == 0) out[blockIdx.x] = sum;
}
__global__ void mended_barriers(float *out, const float *in)
{
    __shared__ float part[WARP];
    float            sum = 0;
    for (int turn = 0; turn < 8; turn++) sum += in[(thread_id() + turn * (COUNT / 8)) & (COUNT - 1)];
    for (int n = WARP / 2; n > 0; n /= 2) sum += __shfl_xor_sync(~0u, sum, n);
    if (threadIdx.x % WARP == 0) part[threadIdx.x / WARP] = sum;
    __syncthreads();
    if (threadIdx.x >= WARP) return;
    sum = part[threadIdx.x];
    for (int n = WARP / 2; n > 0; n /= 2) sum += __shfl_xor_sync(~0u, sum, n);
    if (threadIdx.x == 0) out[blockIdx.x] = sum;
}

/* ---- the host is late ---- */
__global__ void fault_late_host(float *out, const float *in) { out[thread_id()] = in[thread_id()] + 3; }
__global__ void mended_late_host(float *out, const float *in) { out[thread_id()] = in[thread_id()] + 3; }

static void step(float *out, const float *in, int sms)
{
    const int all = (int)(COUNT / THREADS), quarter = all / 4;
    const int rows = 64 * sms;
    fault_strided_loads<<<all, THREADS>>>(out, in);
    mended_strided_loads<<<all, THREADS>>>(out, in);
    fault_one_field<<<quarter, THREADS>>>(out, in);
    mended_one_field<<<quarter, THREADS>>>(out, in);
    fault_transpose<<<dim3(SIDE / WARP, SIDE / 8), dim3(WARP, 8)>>>(out, in);
    mended_transpose<<<dim3(SIDE / WARP, SIDE / WARP), dim3(WARP, 8)>>>(out, in);
    fault_conflicts_8<<<16 * sms, THREADS>>>(out, in);
    mended_conflicts_8<<<16 * sms, THREADS>>>(out, in);
    fault_conflicts_2<<<16 * sms, THREADS>>>(out, in);
    mended_conflicts_2<<<16 * sms, THREADS>>>(out, in);
    fault_shared_occupancy<<<64 * sms, THREADS, 100 << 10>>>(out, in);
    mended_shared_occupancy<<<64 * sms, THREADS>>>(out, in);
    fault_block_occupancy<<<256 * sms, WARP, 14 << 10>>>(out, in);
    mended_block_occupancy<<<32 * sms, THREADS>>>(out, in);
    fault_small_grid<<<sms / 8, THREADS>>>(out, in, rows);
    mended_small_grid<<<16 * sms, THREADS>>>(out, in, rows);
    fault_last_wave<<<8 * sms + 1, THREADS>>>(out, in, 8 * sms + 1);
    mended_last_wave<<<8 * sms, THREADS>>>(out, in, 16 * (8 * sms + 1));
    fault_unequal_blocks<<<32 * sms, THREADS>>>(out, in);
    mended_unequal_blocks<<<32 * sms, THREADS>>>(out, in);
    fault_indexed_array<<<all / 16, THREADS>>>(out, in);
    mended_indexed_array<<<all / 16, THREADS>>>(out, in);
    fault_few_registers<<<16 * sms, THREADS>>>(out, in);
    mended_few_registers<<<16 * sms, THREADS>>>(out, in);
    fault_doubles<<<all / 4, THREADS>>>(out, in);
    mended_doubles<<<all / 4, THREADS>>>(out, in);
    fault_exponentials<<<all / 4, THREADS>>>(out, in);
    mended_exponentials<<<all / 4, THREADS>>>(out, in);
    fault_divisions<<<all / 4, THREADS>>>((int *)out, in, 1u << (sms % 7 + 3));
    mended_divisions<<<all / 4, THREADS>>>((int *)out, in, (unsigned)(sms % 7 + 3));
    fault_one_load<<<sms, THREADS>>>(out, in, 1024);
    mended_one_load<<<sms, THREADS>>>(out, in, 1024);
    CHECK(cudaDeviceSynchronize());
    usleep(400);
    fault_late_host<<<all / 64, THREADS>>>(out, in);
    mended_late_host<<<all / 64, THREADS>>>(out, in);
    fault_barriers<<<all / 64, 1024>>>(out, in);
    mended_barriers<<<all / 64, 1024>>>(out, in);
    CHECK(cudaDeviceSynchronize());
    usleep(3000); // the longest pause: where a step ends
    CHECK(cudaGetLastError());
}

int main(int argc, char **argv)
{
    const int      steps = argc > 1 ? std::atoi(argv[1]) : 40;
    float         *in, *out, *host = (float *)std::malloc(COUNT * sizeof *host);
    cudaDeviceProp p;
    unsigned       x = 1;
    if (!host || cudaGetDeviceProperties(&p, 0) != cudaSuccess) return std::fprintf(stderr, "no GPU\n"), 1;
    for (long long i = 0; i < COUNT; i++) x = x * 1664525u + 1013904223u, host[i] = (float)(x >> 8) / (1 << 24);
    CHECK(cudaMalloc(&in, COUNT * sizeof *in));
    CHECK(cudaMalloc(&out, COUNT * sizeof *out));
    CHECK(cudaMemcpy(in, host, COUNT * sizeof *in, cudaMemcpyHostToDevice));
    CHECK(cudaFuncSetAttribute(fault_shared_occupancy, cudaFuncAttributeMaxDynamicSharedMemorySize, 100 << 10));
    for (int s = 0; s < steps; s++) step(out, in, p.multiProcessorCount);
    CHECK(cudaDeviceSynchronize());
    std::printf("%d steps\n", steps);
    return 0;
}
