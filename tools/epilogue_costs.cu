// SPDX-License-Identifier: Apache-2.0
/* epilogue_costs.cu -- what a product of cuBLASLt costs more when it ends with something: a bias, a bias and GELU with
 * what its gradient needs, and the gradient of a bias beside that of the weights. Shapes are those of mambavision-t,
 * 128 images. Random data, caches swept before each run, median of 10; the library's first candidate and the best of
 * eight. A dash: the library has no such kernel.
 *
 *     nvcc -arch=sm_90 -O2 -o epilogue_costs tools/epilogue_costs.cu -lcublasLt && ./epilogue_costs
 *
 * What it said on the H200 stands in src/ops/matmul/matmul.md. */
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cublasLt.h>
#include <cuda_bf16.h>
#include <vector>

#define NEED(call) \
    do { \
        const int e_ = (int)(call); \
        if (e_) { \
            printf("%s: error %d\n", #call, e_); \
            exit(1); \
        } \
    } while (0)

enum { CANDIDATES = 8, RUNS = 12, UNCOUNTED = 2 };
static const size_t WORK = 32 << 20, SWEEP = 256 << 20;

/* y (rows, n) = x (rows, k) w (n, k)^T in bf16, or its dw (n, k) = dy (rows, n)^T x in fp32. */
struct layer {
    const char *name;
    int64_t     rows, n, k;
    int         calls;
};
struct ending {
    cublasLtEpilogue_t what;
    cudaDataType_t     type;
    bool               weights;
};

static const layer layers[] = { { "stage 2 fc1", 25088, 1280, 320, 8 }, { "stage 2 fc2", 25088, 320, 1280, 8 },
                                { "stage 2 qkv", 25088, 960, 320, 4 },  { "stage 2 proj", 25088, 320, 320, 4 },
                                { "stage 3 fc1", 6272, 2560, 640, 4 },  { "stage 3 fc2", 6272, 640, 2560, 4 },
                                { "stage 3 qkv", 6272, 1920, 640, 2 },  { "stage 3 proj", 6272, 640, 640, 2 } };

static struct {
    cublasLtHandle_t lt;
    cudaStream_t     stream;
    void            *work, *sweep, *a, *b, *c, *bias, *aux;
    cudaEvent_t      began, ended;
} s;

__global__ void fill(__nv_bfloat16 *p, size_t n, float range)
{
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x) {
        unsigned h = (unsigned)i * 2654435761u;
        h = (h ^ h >> 15) * 2246822519u;
        p[i] = __float2bfloat16(range * ((float)((h ^ h >> 13) & 0xffff) / 32768.f - 1));
    }
}

static void *filled(size_t n, float range)
{
    void *p;
    NEED(cudaMalloc(&p, 2 * n));
    fill<<<1024, 256>>>((__nv_bfloat16 *)p, n, range);
    return p;
}

template <typename T> static void set(cublasLtMatmulDesc_t op, cublasLtMatmulDescAttributes_t which, T value)
{
    NEED(cublasLtMatmulDescSetAttribute(op, which, &value, sizeof value));
}

static cublasLtMatmulDesc_t describe(const layer &l, const ending &e)
{
    cublasLtMatmulDesc_t op;
    NEED(cublasLtMatmulDescCreate(&op, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    set(op, CUBLASLT_MATMUL_DESC_TRANSA, e.weights ? CUBLAS_OP_N : CUBLAS_OP_T);
    set(op, CUBLASLT_MATMUL_DESC_TRANSB, e.weights ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(op, CUBLASLT_MATMUL_DESC_EPILOGUE, e.what);
    if (e.what == CUBLASLT_EPILOGUE_DEFAULT) return op;
    set(op, CUBLASLT_MATMUL_DESC_BIAS_POINTER, s.bias);
    set(op, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, e.type);
    if (e.what != CUBLASLT_EPILOGUE_GELU_AUX_BIAS) return op;
    set(op, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, s.aux);
    set(op, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, l.n);
    return op;
}

/* In the library's order, columns first: its A is our w or x, its B our x or dy. */
static void lay_out(cublasLtMatrixLayout_t (&m)[3], const layer &l, bool weights)
{
    NEED(cublasLtMatrixLayoutCreate(&m[0], CUDA_R_16BF, l.k, weights ? l.rows : l.n, l.k));
    NEED(cublasLtMatrixLayoutCreate(&m[1], CUDA_R_16BF, weights ? l.n : l.k, l.rows, weights ? l.n : l.k));
    NEED(cublasLtMatrixLayoutCreate(&m[2], weights ? CUDA_R_32F : CUDA_R_16BF, weights ? l.k : l.n,
                                    weights ? l.n : l.rows, weights ? l.k : l.n));
}

/* Microseconds; 0 where the library refuses. */
static double time_of(cublasLtMatmulDesc_t op, cublasLtMatrixLayout_t (&m)[3], const cublasLtMatmulAlgo_t *algo)
{
    const float        one = 1, none = 0;
    std::vector<float> times;
    for (int r = 0; r < RUNS; r++) {
        float ms = 0;
        cudaMemsetAsync(s.sweep, r, SWEEP, s.stream);
        cudaEventRecord(s.began, s.stream);
        if (cublasLtMatmul(s.lt, op, &one, s.b, m[0], s.a, m[1], &none, s.c, m[2], s.c, m[2], algo, s.work, WORK,
                           s.stream))
            return 0;
        cudaEventRecord(s.ended, s.stream);
        NEED(cudaEventSynchronize(s.ended));
        cudaEventElapsedTime(&ms, s.began, s.ended);
        if (r >= UNCOUNTED) times.push_back(1e3f * ms);
    }
    std::sort(times.begin(), times.end());
    return times[times.size() / 2];
}

static void print_one(const layer &l, const ending &e)
{
    cublasLtMatmulHeuristicResult_t found[CANDIDATES];
    cublasLtMatmulPreference_t      wish;
    cublasLtMatrixLayout_t          m[3];
    cublasLtMatmulDesc_t            op = describe(l, e);
    int                             n = 0;
    double                          first = 0, best = 0;
    lay_out(m, l, e.weights);
    NEED(cublasLtMatmulPreferenceCreate(&wish));
    NEED(cublasLtMatmulPreferenceSetAttribute(wish, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &WORK, sizeof WORK));
    if (cublasLtMatmulAlgoGetHeuristic(s.lt, op, m[0], m[1], m[2], m[2], wish, CANDIDATES, found, &n)) n = 0;
    for (int i = 0; i < n; i++) {
        const double us = time_of(op, m, &found[i].algo);
        if (i == 0) first = us;
        if (us > 0 && (best <= 0 || us < best)) best = us;
    }
    if (best > 0) printf("  %6.1f %6.1f", first, best);
    else printf("  %6s %6s", "-", "-");
}

int main(void)
{
    static const ending endings[] = {
        { CUBLASLT_EPILOGUE_DEFAULT, CUDA_R_16BF, false }, { CUBLASLT_EPILOGUE_BIAS, CUDA_R_16BF, false },
        { CUBLASLT_EPILOGUE_BIAS, CUDA_R_32F, false },     { CUBLASLT_EPILOGUE_GELU_AUX_BIAS, CUDA_R_16BF, false },
        { CUBLASLT_EPILOGUE_DEFAULT, CUDA_R_32F, true },   { CUBLASLT_EPILOGUE_BGRADB, CUDA_R_32F, true }
    };
    const size_t most = (size_t)25088 * 1280;
    NEED(cublasLtCreate(&s.lt));
    NEED(cudaStreamCreate(&s.stream));
    NEED(cudaEventCreate(&s.began));
    NEED(cudaEventCreate(&s.ended));
    NEED(cudaMalloc(&s.work, WORK));
    NEED(cudaMalloc(&s.sweep, SWEEP));
    s.a = filled(most, 1), s.b = filled(most, .1f), s.c = filled(2 * most, 1), s.bias = filled(1 << 16, .1f),
    s.aux = filled(most, 1);
    NEED(cudaDeviceSynchronize());
    printf("us: the first candidate, the best of %d\n%-13s %5s  %13s  %13s  %13s  %13s  %13s  %13s\n", CANDIDATES, "",
           "calls", "y", "y, bias bf16", "y, bias fp32", "gelu aux bias", "dw", "dw, dbias");
    for (const layer &l : layers) {
        printf("%-13s %5d", l.name, l.calls);
        for (const ending &e : endings) print_one(l, e);
        printf("\n");
    }
    return 0;
}
