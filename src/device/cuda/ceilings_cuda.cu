// SPDX-License-Identifier: Apache-2.0
/* ceilings_cuda.cu -- measures the ceilings of the GPU in use: copy, FMA, exponentials, tensor cores; and the time of
 * copies of a given size.
 *
 * kernel     ceiling_copy     16 bytes per thread and iteration over 1 GB: far more than L2
 * kernel     ceiling_pieces   1 to 8 pieces of 16 bytes a thread, all asked for before the first is stored; as many
 *            blocks as that takes:
 *                             copies of megabytes, of which launch, ramp and tail are a good part
 * kernel     ceiling_fma      eight independent chains per thread
 * kernel     ceiling_exp      ex2.approx, eight independent chains per thread
 * The tensor rate is that of cuBLASLt for an 8192^3 product of random values (constants draw less power and run
 * faster). */
#include "device/cuda/gemm.h"
#include "device/cuda/common.cuh"
extern "C" {
#include "core/device.h"
#include "device/cpu/ceilings.h"
}

enum { COPY_BYTES = 1 << 30, BLOCKS_SM = 16, TRIPS = 4096, CHAINS = 8, SIDE = 8192, REPEATS = 8 };

__global__ void __launch_bounds__(256) ceiling_copy(uint4 *to, const uint4 *from, int64_t n)
{
    const int64_t stride = (int64_t)gridDim.x * 256;
    for (int64_t i = (int64_t)blockIdx.x * 256 + threadIdx.x; i < n; i += stride) to[i] = from[i];
}

template <int D, bool ONCE>
__global__ void __launch_bounds__(1024) ceiling_pieces(uint4 *to, const uint4 *from, int64_t n)
{
    const int64_t first = (int64_t)blockIdx.x * D * blockDim.x + threadIdx.x;
    uint4         loaded[D];
#pragma unroll
    for (int d = 0; d < D; d++) {
        const int64_t i = first + d * blockDim.x;
        if (i < n) loaded[d] = ONCE ? __ldcs(from + i) : from[i];
    }
#pragma unroll
    for (int d = 0; d < D; d++) {
        const int64_t i = first + d * blockDim.x;
        if (i < n && ONCE) __stcs(to + i, loaded[d]);
        else if (i < n) to[i] = loaded[d];
    }
}

template <int D, bool ONCE>
static void copy_pieces(uint4 *to, const uint4 *from, int64_t n, int threads, cudaStream_t s)
{
    ceiling_pieces<D, ONCE><<<(unsigned)mba_ceil(n, D * threads), threads, 0, s>>>(to, from, n);
}

enum { COPY_WAYS = 8 };

/* Which is the fastest depends on how much there is; one that is slower costs the yardstick nothing: the best
 * counts. */
static mba_status copy_once(void *to, const void *from, size_t bytes, int way, int sms, cudaStream_t s)
{
    const int64_t      n = (int64_t)(bytes / 16);
    uint4 *const       y = (uint4 *)to;
    const uint4 *const x = (const uint4 *)from;
    switch (way) {
    case 0: copy_pieces<1, false>(y, x, n, 1024, s); break;
    case 1: copy_pieces<2, false>(y, x, n, 512, s); break;
    case 2: copy_pieces<4, false>(y, x, n, 256, s); break;
    case 3: copy_pieces<4, true>(y, x, n, 256, s); break;
    case 4: copy_pieces<4, false>(y, x, n, 512, s); break;
    case 5: copy_pieces<8, false>(y, x, n, 128, s); break;
    case 6: ceiling_copy<<<sms * BLOCKS_SM / 2, 256, 0, s>>>(y, x, n); break;
    default: CUDA_TRY(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, s)); break;
    }
    CUDA_TRY(cudaGetLastError());
    return MBA_OK;
}

__global__ void __launch_bounds__(256) ceiling_fma(float *out)
{
    float x[CHAINS];
    for (int k = 0; k < CHAINS; k++) x[k] = threadIdx.x + k;
    for (int i = 0; i < TRIPS; i++)
#pragma unroll
        for (int k = 0; k < CHAINS; k++) x[k] = fmaf(x[k], 0.999f, 0.5f);
    float sum = 0;
    for (int k = 0; k < CHAINS; k++) sum += x[k];
    if (sum == -1) *out = sum; // never true, which the compiler does not know
}

__global__ void __launch_bounds__(256) ceiling_exp(float *out)
{
    float x[CHAINS];
    for (int k = 0; k < CHAINS; k++) x[k] = -0.01f * threadIdx.x - 0.1f * k;
    for (int i = 0; i < TRIPS; i++)
#pragma unroll
        for (int k = 0; k < CHAINS; k++) asm volatile("ex2.approx.ftz.f32 %0, %0;" : "+f"(x[k]));
    float sum = 0;
    for (int k = 0; k < CHAINS; k++) sum += x[k];
    if (sum == -1) *out = sum;
}

__global__ void __launch_bounds__(256) ceiling_random(uint32_t *x, int64_t n, bool half)
{
    const int64_t i = (int64_t)blockIdx.x * 256 + threadIdx.x;
    uint32_t      u[4];
    if (i >= n) return;
    philox(u, 7, 1, (uint64_t)i);
    const float    a = (float)u[0] / 4294967296.0f - 0.5f, b = (float)u[1] / 4294967296.0f - 0.5f;
    const uint32_t lo = __bfloat16_as_ushort(__float2bfloat16_rn(a)), hi = __bfloat16_as_ushort(__float2bfloat16_rn(b));
    x[i] = half ? hi << 16 | lo : __float_as_uint(a);
}

/* Seconds of one call: the best of several, between two events. */
template <typename F> static mba_status best_of(double *seconds, cudaStream_t stream, F call)
{
    cudaEvent_t a, b;
    CUDA_TRY(cudaEventCreate(&a));
    CUDA_TRY(cudaEventCreate(&b));
    *seconds = 1e30;
    for (int r = 0; r < REPEATS; r++) {
        float ms = 0;
        CUDA_TRY(cudaEventRecord(a, stream));
        MBA_TRY(call());
        CUDA_TRY(cudaEventRecord(b, stream));
        CUDA_TRY(cudaEventSynchronize(b));
        CUDA_TRY(cudaEventElapsedTime(&ms, a, b));
        if (1e-3 * ms < *seconds) *seconds = 1e-3 * ms;
    }
    cudaEventDestroy(a);
    cudaEventDestroy(b);
    return MBA_OK;
}

static mba_status launched(void)
{
    CUDA_TRY(cudaGetLastError());
    return MBA_OK;
}

static mba_status measure(mba_ceilings *out, mba_dtype compute, bool tf32, int sms, cudaStream_t s, char *x, char *y,
                          char *z, char *work)
{
    double        t = 0;
    const int     blocks = sms * BLOCKS_SM;
    const int64_t lanes = (int64_t)blocks * 256 * TRIPS * CHAINS;
    ceiling_random<<<COPY_BYTES / 1024, 256, 0, s>>>((uint32_t *)x, COPY_BYTES / 4, compute == MBA_BF16);
    ceiling_random<<<COPY_BYTES / 1024, 256, 0, s>>>((uint32_t *)y, COPY_BYTES / 4, compute == MBA_BF16);
    MBA_TRY(best_of(&t, s, [=] {
        ceiling_copy<<<blocks, 256, 0, s>>>((uint4 *)z, (const uint4 *)x, COPY_BYTES / 16);
        return launched();
    }));
    out->stream_bytes = 2.0 * COPY_BYTES / t;
    MBA_TRY(best_of(&t, s, [=] {
        ceiling_fma<<<blocks, 256, 0, s>>>((float *)z);
        return launched();
    }));
    out->fma_flops = 2.0 * lanes / t;
    MBA_TRY(best_of(&t, s, [=] {
        ceiling_exp<<<blocks, 256, 0, s>>>((float *)z);
        return launched();
    }));
    out->exp_ops = lanes / t;
    mba_cuda_gemm_args g = {};
    g.m = g.n = g.k = g.lda = g.ldb = g.ldc = SIDE;
    g.tb = true;
    g.a = x;
    g.b = y;
    g.c = z;
    g.work = work;
    g.in = g.out = compute;
    g.tf32 = tf32;
    g.stream = s;
    MBA_TRY(best_of(&t, s, [=] { return mba_cuda_gemm(&g); }));
    out->tensor_flops = 2.0 * SIDE * SIDE * (double)SIDE / t;
    return MBA_OK;
}

extern "C" mba_status mba_ceilings_measure_cuda(mba_ceilings *out, mba_dtype compute, bool tf32)
{
    const mba_device *d;
    char             *p = NULL;
    MBA_TRY(mba_device_cuda(&d, 0));
    CUDA_TRY(cudaMalloc(&p, 3 * (size_t)COPY_BYTES + MBA_CUDA_GEMM_WORK_BYTES));
    const mba_status st = measure(out, compute, tf32, d->machine->sm, (cudaStream_t)d->stream, p, p + COPY_BYTES,
                                  p + 2 * (size_t)COPY_BYTES, p + 3 * (size_t)COPY_BYTES);
    cudaFree(p);
    return st;
}

/* Buffers and events of a timed copy: x and y, one after the other, and the buffer that evicts L2. */
struct copying {
    char        *x, *y, *sweep;
    size_t       bytes;
    int          sms;
    cudaEvent_t  event[2];
    cudaStream_t stream;
};

/* Captures a copy as nodes are timed (device.c): in a graph, after evicting L2, between two events. */
static mba_status capture_copy(cudaGraphExec_t *exec, const copying &c, int way)
{
    cudaGraph_t graph = NULL;
    CUDA_TRY(cudaStreamBeginCapture(c.stream, cudaStreamCaptureModeThreadLocal));
    mba__cuda_flush_l2(c.sweep, MBA__FLUSH_BYTES, c.stream);
    cudaEventRecordWithFlags(c.event[0], c.stream, cudaEventRecordExternal);
    mba_status st = copy_once(c.y, c.x, c.bytes, way, c.sms, c.stream);
    cudaEventRecordWithFlags(c.event[1], c.stream, cudaEventRecordExternal);
    cudaError_t e = cudaStreamEndCapture(c.stream, &graph);
    if (st == MBA_OK && e == cudaSuccess) e = cudaGraphInstantiate(exec, graph, 0);
    if (graph) cudaGraphDestroy(graph);
    return st != MBA_OK || e == cudaSuccess ? st : mba__cuda_failed(e, "capturing a copy");
}

static mba_status time_way(double *seconds, const copying &c, int way, int repeats)
{
    cudaGraphExec_t exec = NULL;
    MBA_TRY(copy_once(c.y, c.x, c.bytes, way, c.sms, c.stream)); // the code is loaded
    mba_status st = capture_copy(&exec, c, way);
    for (int r = 0; r < repeats && st == MBA_OK; r++) {
        float       ms = 0;
        cudaError_t e = cudaGraphLaunch(exec, c.stream);
        if (e == cudaSuccess) e = cudaStreamSynchronize(c.stream);
        if (e == cudaSuccess) e = cudaEventElapsedTime(&ms, c.event[0], c.event[1]);
        if (e != cudaSuccess) st = mba__cuda_failed(e, "a timed copy");
        if (ms > 0 && (*seconds <= 0 || 1e-3 * ms < *seconds)) *seconds = 1e-3 * ms;
    }
    if (exec) cudaGraphExecDestroy(exec);
    return st;
}

extern "C" mba_status mba_copy_measure_cuda(double *seconds, double bytes, int repeats)
{
    enum { APART = 4096 };
    const mba_device *d;
    const size_t      half = bytes < 32 ? 16 : (size_t)(bytes / 32) * 16, room = (half + APART - 1) / APART * APART;
    copying           c = {};
    MBA_TRY(mba_device_cuda(&d, 0));
    CUDA_TRY(cudaMalloc(&c.x, 2 * room + MBA__FLUSH_BYTES));
    c.y = c.x + room;
    c.sweep = c.y + room;
    c.bytes = half;
    c.sms = d->machine->sm;
    c.stream = (cudaStream_t)d->stream;
    cudaMemsetAsync(c.x, 0, 2 * room + MBA__FLUSH_BYTES, c.stream);
    ceiling_random<<<(unsigned)mba_ceil((int64_t)half / 4, 256), 256, 0, c.stream>>>((uint32_t *)c.x, (int64_t)half / 4,
                                                                                     false);
    for (int i = 0; i < 2; i++) cudaEventCreate(&c.event[i]);
    *seconds = 0;
    mba_status st = MBA_OK;
    for (int way = 0; way < COPY_WAYS && st == MBA_OK; way++) st = time_way(seconds, c, way, repeats);
    for (int i = 0; i < 2; i++) cudaEventDestroy(c.event[i]);
    cudaFree(c.x);
    return st;
}
