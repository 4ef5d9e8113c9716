// SPDX-License-Identifier: Apache-2.0
/* words_cuda.cu -- the words that kernels are written in (src/device/cuda, *.cuh), tried one by one on whole numbers,
 * of which every sum is exact: a lane, a row or a swizzle that is not where its header says changes a number. See
 * words_test.c. */
#include <stdio.h>
#include <string.h>

#include "core/rng.h"
#include "device/cuda/async.cuh"
#include "device/cuda/hopper.cuh"
#include "device/cuda/packed.cuh"
#include "device/cuda/mma_fragments.cuh"

extern "C" {
#include "tests/words.h"
}

/* ---- memory that both sides see, and what is said of a wrong number ---- */

template <typename T> static mba_status take(T **out, int n)
{
    CUDA_TRY(cudaMallocManaged((void **)out, sizeof(T) * (size_t)n));
    memset((void *)*out, 0, sizeof(T) * (size_t)n);
    return MBA_OK;
}

static mba_status done(const char *what)
{
    CUDA_TRY(cudaGetLastError());
    const cudaError_t e = cudaDeviceSynchronize();
    return e == cudaSuccess ? MBA_OK : mba__cuda_failed(e, what);
}

static mba_status same(const char *what, int i, double have, double want)
{
    return have == want ? MBA_OK : mba_fail(MBA_E_DEVICE, "%s, number %d: %g instead of %g", what, i, have, want);
}

static mba_status near_by(const char *what, double x, double have, double want, double relative)
{
    return fabs(have - want) <= relative * fabs(want)
               ? MBA_OK
               : mba_fail(MBA_E_DEVICE, "%s of %g: %.9g instead of %.9g", what, x, have, want);
}

static mba_status needs_hopper(void)
{
    int device = 0, major = 0;
    if (cudaGetDevice(&device) != cudaSuccess
        || cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) != cudaSuccess || major != 9)
        return mba_fail(MBA_E_UNSUPPORTED, "no GPU of compute capability 9.0");
    return MBA_OK;
}

static int whole(int i) { return (i * 7 + i / 5) % 7 - 3; } // -3 .. 3, exact in every type

/* ---- vectors ---- */

template <typename T, int N> static __global__ void twice(T *to, T *masked, const T *from, int n)
{
    for (int i = (int)threadIdx.x * N; i < n; i += (int)blockDim.x * N) {
        float        v[N], w[N];
        packed<T, N> p;
        load(v, from + i);
        fetch(p, from + i, i / N % 2 == 0);
        unpack(w, p);
#pragma unroll
        for (int j = 0; j < N; j++) v[j] *= 2;
        store(to + i, v);
        store(masked + i, w);
    }
}

template <typename T, int N> static mba_status try_vectors(const char *what)
{
    enum { ALL = 256 };
    T *from, *to, *masked;
    MBA_TRY(take(&from, ALL));
    MBA_TRY(take(&to, ALL));
    MBA_TRY(take(&masked, ALL));
    for (int i = 0; i < ALL; i++) from[i] = (T)(float)whole(i);
    twice<T, N><<<1, 32>>>(to, masked, from, ALL);
    MBA_TRY(done(what));
    for (int i = 0; i < ALL; i++) {
        MBA_TRY(same(what, i, (float)to[i], 2 * whole(i)));
        MBA_TRY(same("a load that does not take place", i, (float)masked[i], i / N % 2 ? 0 : whole(i)));
    }
    cudaFree(from), cudaFree(to), cudaFree(masked);
    return MBA_OK;
}

extern "C" mba_status words_vectors(void)
{
    MBA_TRY((try_vectors<float, 1>("one fp32")));
    MBA_TRY((try_vectors<float, 2>("two fp32")));
    MBA_TRY((try_vectors<float, 4>("four fp32")));
    MBA_TRY((try_vectors<bf16, 1>("one bf16")));
    MBA_TRY((try_vectors<bf16, 2>("two bf16")));
    MBA_TRY((try_vectors<bf16, 4>("four bf16")));
    return try_vectors<bf16, 8>("eight bf16");
}

/* ---- strided views ---- */

static __global__ void places(int64_t *element, int64_t *row, strided_view<float> w, int cols, int n)
{
    for (int i = (int)threadIdx.x; i < n; i += (int)blockDim.x) {
        element[i] = w.element(i) - w.at;
        if (i % cols == 0) row[i / cols] = w.row(i / cols, cols) - w.at;
    }
}

extern "C" mba_status words_strided_views(void)
{
    enum { N = 60, COLS = 5 };
    int64_t *element, *row;
    float   *at;
    MBA_TRY(take(&element, N));
    MBA_TRY(take(&row, N));
    MBA_TRY(take(&at, 1));
    const int64_t run[] = { COLS, 2 * COLS, 1 }, pitch[] = { 9, 13, 1 }; // columns; two rows to a run; dense
    for (int k = 0; k < 3; k++) {
        const strided_view<float> w = { at, run[k], pitch[k] };
        places<<<1, 32>>>(element, row, w, COLS, N);
        MBA_TRY(done("strided views"));
        for (int i = 0; i < N; i++)
            MBA_TRY(same("element", i, (double)element[i], (double)(i / run[k] * pitch[k] + i % run[k])));
        for (int r = 0; r < N / COLS; r++) MBA_TRY(same("row", r, (double)row[r], (double)element[r * COLS]));
    }
    cudaFree(element), cudaFree(row), cudaFree(at);
    return MBA_OK;
}

/* ---- sums and maxima ---- */

enum { THREADS = 128, SUMS = 7 };

static __global__ void sums(float *out)
{
    const float x = (float)((threadIdx.x * 37 + 11) % 101) - 50;
    float      *to = out + threadIdx.x * SUMS;
    to[0] = warp_sum(x);
    to[1] = warp_max(x);
    to[2] = block_sum<THREADS>(x);
    to[3] = block_sum<THREADS>(x + 1); // again at once
    to[4] = block_max<THREADS>(x);
    to[5] = (float)block_sum<THREADS>((double)x);
    to[6] = (float)warp_sum((double)x);
}

extern "C" mba_status words_sums(void)
{
    float *out, x[THREADS], all = 0, top = -100;
    MBA_TRY(take(&out, THREADS * SUMS));
    sums<<<1, THREADS>>>(out);
    MBA_TRY(done("sums"));
    for (int i = 0; i < THREADS; i++) {
        x[i] = (float)((i * 37 + 11) % 101) - 50;
        all += x[i];
        top = x[i] > top ? x[i] : top;
    }
    for (int i = 0; i < THREADS; i++) {
        float sum = 0, most = -100;
        for (int j = i / 32 * 32; j < i / 32 * 32 + 32; j++) sum += x[j], most = x[j] > most ? x[j] : most;
        const float want[SUMS] = { sum, most, all, all + THREADS, top, all, sum };
        for (int k = 0; k < SUMS; k++)
            MBA_TRY(same("sums of a warp and of a block", SUMS * i + k, out[SUMS * i + k], want[k]));
    }
    cudaFree(out);
    return MBA_OK;
}

/* ---- numbers, within what their comments promise ---- */

static __global__ void functions(float *out, int n)
{
    for (int i = (int)threadIdx.x; i < n; i += (int)blockDim.x) {
        const float x = ((float)i + 0.5f) / (float)n * 16 - 8;
        out[4 * i] = fast_exp2(x);
        out[4 * i + 1] = fast_reciprocal(x);
        out[4 * i + 2] = sigmoid(x);
        out[4 * i + 3] = silu(x);
    }
}

extern "C" mba_status words_numbers(void)
{
    enum { N = 4096 };
    const double ulps = 2.0 / 8388608; // two, of fp32
    float       *out;
    MBA_TRY(take(&out, 4 * N));
    functions<<<1, 256>>>(out, N);
    MBA_TRY(done("functions"));
    for (int i = 0; i < N; i++) {
        const float  x = ((float)i + 0.5f) / (float)N * 16 - 8;
        const double s = 1 / (1 + exp(-(double)x));
        MBA_TRY(near_by("fast_exp2", x, out[4 * i], exp2((double)x), ulps));
        MBA_TRY(near_by("fast_reciprocal", x, out[4 * i + 1], 1 / (double)x, ulps));
        MBA_TRY(near_by("sigmoid", x, out[4 * i + 2], s, 2e-6));
        MBA_TRY(near_by("silu", x, out[4 * i + 3], x * s, 2e-6));
    }
    cudaFree(out);
    return MBA_OK;
}

static __global__ void draws(uint32_t *out, int n)
{
    for (int i = (int)threadIdx.x; i < n; i += (int)blockDim.x) {
        uint32_t u[4];
        philox(u, 0x9e3779b97f4a7c15ull * (unsigned)i, 7 * (uint64_t)i, 0xffffffffull * (unsigned)i);
        for (int k = 0; k < 4; k++) out[4 * i + k] = u[k];
    }
}

extern "C" mba_status words_random(void)
{
    enum { N = 100 };
    uint32_t *out;
    MBA_TRY(take(&out, 4 * N));
    draws<<<1, 32>>>(out, N);
    MBA_TRY(done("philox"));
    for (int i = 0; i < N; i++) {
        uint32_t u[4];
        mba_philox(u, 0x9e3779b97f4a7c15ull * (unsigned)i, 7 * (uint64_t)i, 0xffffffffull * (unsigned)i);
        for (int k = 0; k < 4; k++) MBA_TRY(same("philox", 4 * i + k, out[4 * i + k], u[k]));
    }
    cudaFree(out);
    return MBA_OK;
}

/* ---- asynchronous copies ---- */

static __global__ void copied(float *out, const float *from)
{
    __shared__ __align__(16) float slot[4][32 * 4];
    const int                      t = (int)threadIdx.x;
    copy_async<16>(&slot[0][4 * t], from + 4 * t);
    copy_async_commit();
    copy_async<8>(&slot[1][4 * t], from + 4 * t);
    copy_async<4>(&slot[1][4 * t + 2], from + 4 * t + 2);
    copy_async_or_zero<4>(&slot[1][4 * t + 3], from + 4 * t + 3, t % 2);
    copy_async_or_zero<16>(&slot[2][4 * t], from + 4 * t, t % 3 == 0);
    copy_async_commit();
    copy_async_wait<1>(); // the first batch is there, whatever became of the second
    for (int j = 0; j < 4; j++) out[4 * t + j] = slot[0][4 * t + j];
    copy_async_wait<0>();
    for (int k = 1; k < 3; k++)
        for (int j = 0; j < 4; j++) out[128 * k + 4 * t + j] = slot[k][4 * t + j];
    copy_async<16, THROUGH_L1>(&slot[3][4 * t], from + 4 * t);
    copy_async_commit();
    copy_async_wait<0>();
    for (int j = 0; j < 4; j++) out[128 * 3 + 4 * t + j] = slot[3][4 * t + j];
}

extern "C" mba_status words_copies(void)
{
    enum { N = 128 };
    float *out, *from;
    MBA_TRY(take(&out, 4 * N));
    MBA_TRY(take(&from, N));
    for (int i = 0; i < N; i++) from[i] = (float)(i + 1);
    copied<<<1, 32>>>(out, from);
    MBA_TRY(done("copies"));
    for (int i = 0; i < N; i++) {
        const float x = (float)(i + 1);
        MBA_TRY(same("a batch of copies", i, out[i], x));
        MBA_TRY(same("copies of 8 and 4 bytes", i, out[N + i], i % 4 == 3 && i / 4 % 2 == 0 ? 0 : x));
        MBA_TRY(same("copies or zeros", i, out[2 * N + i], i / 4 % 3 ? 0 : x));
        MBA_TRY(same("copies of mma_fragments.cuh", i, out[3 * N + i], x));
    }
    cudaFree(out), cudaFree(from);
    return MBA_OK;
}

/* ---- tiles of mma.cuh: C (16, 16) of A (64, 64) and B, either way round, ends filled with zeros ---- */

enum { SIDE = 64, M0 = 16, N0 = 32 };

template <bool A_TURNED, bool B_TURNED>
static __global__ void tile_product(float *out, const bf16 *a, const bf16 *b, int rows, int cols)
{
    __shared__ __align__(1024) unsigned char ta[SIDE * TILE_ROW_BYTES], tb[SIDE * TILE_ROW_BYTES];
    float                                    c[2][4] = { { 0, 0, 0, 0 }, { 0, 0, 0, 0 } };
    load_tile<SIDE, 32>(ta, a, SIDE, rows, cols);
    load_tile<SIDE, 32>(tb, b, SIDE, SIDE, SIDE);
    cp_commit();
    cp_wait<0>();
    __syncthreads();
    for (int k = 0; k < SIDE; k += 16) {
        uint32_t fa[4], fb[4];
        if (A_TURNED) a_columns(fa, ta, M0, k);
        else a_rows(fa, ta, M0, k);
        if (B_TURNED) b_columns(fb, tb, N0, k);
        else b_rows(fb, tb, N0, k);
        mma(c[0], fa, fb[0], fb[1]);
        mma(c[1], fa, fb[2], fb[3]);
    }
    const int g = (int)threadIdx.x / 4, t = (int)threadIdx.x % 4;
    for (int n = 0; n < 2; n++)
        for (int i = 0; i < 4; i++) out[(g + i / 2 * 8) * 16 + 8 * n + 2 * t + i % 2] = c[n][i];
}

/* Element (r, c) of the tile of A: zero beyond its ends. */
static double of_tile(int r, int c, int rows, int cols) { return r < rows && c < cols ? whole(SIDE * r + c) : 0; }

template <bool A_TURNED, bool B_TURNED>
static mba_status try_tiles(float *out, const bf16 *a, const bf16 *b, int rows, int cols)
{
    tile_product<A_TURNED, B_TURNED><<<1, 32>>>(out, a, b, rows, cols);
    MBA_TRY(done("products of tiles"));
    for (int m = 0; m < 16; m++)
        for (int n = 0; n < 16; n++) {
            double want = 0;
            for (int k = 0; k < SIDE; k++) {
                const double x = A_TURNED ? of_tile(k, M0 + m, rows, cols) : of_tile(M0 + m, k, rows, cols);
                want += x * (B_TURNED ? whole(SIDE * k + N0 + n + 5) : whole(SIDE * (N0 + n) + k + 5));
            }
            MBA_TRY(same(A_TURNED   ? B_TURNED ? "a_columns, b_columns" : "a_columns, b_rows"
                         : B_TURNED ? "a_rows, b_columns"
                                    : "a_rows, b_rows",
                         16 * m + n, out[16 * m + n], want));
        }
    return MBA_OK;
}

extern "C" mba_status words_tiles(void)
{
    float *out;
    bf16  *a, *b;
    MBA_TRY(take(&out, 256));
    MBA_TRY(take(&a, SIDE * SIDE));
    MBA_TRY(take(&b, SIDE * SIDE));
    for (int i = 0; i < SIDE * SIDE; i++) a[i] = (bf16)(float)whole(i), b[i] = (bf16)(float)whole(i + 5);
    for (int ragged = 0; ragged < 2; ragged++) {
        const int rows = ragged ? 27 : SIDE, cols = ragged ? 40 : SIDE;
        MBA_TRY((try_tiles<false, false>(out, a, b, rows, cols)));
        MBA_TRY((try_tiles<false, true>(out, a, b, rows, cols)));
        MBA_TRY((try_tiles<true, false>(out, a, b, rows, cols)));
        MBA_TRY((try_tiles<true, true>(out, a, b, rows, cols)));
    }
    cudaFree(out), cudaFree(a), cudaFree(b);
    return MBA_OK;
}

/* ---- fragments of mma_fragments.cuh: A (16, K) and B (K, 8) of whole numbers, lanes filled as the header says ---- */

static __device__ float of_a(int r, int c) { return (float)((r * 5 + c * 3) % 7 - 3); }
static __device__ float of_b(int r, int c) { return (float)((r * 2 + c * 5) % 5 - 2); }

enum { KINDS = 4, TURNED = KINDS * 128, FOLDED = TURNED + 64, FRAGMENTS = FOLDED + 32 };

static __global__ void fragments(float *out)
{
    const int g = (int)threadIdx.x / 4, t = (int)threadIdx.x % 4;
    float     c[KINDS][4] = { { 0, 0, 0, 0 }, { 0, 0, 0, 0 }, { 0, 0, 0, 0 }, { 0, 0, 0, 0 } };
    mma_tf32_k4(c[0], of_a(g, t), of_a(g + 8, t), of_b(t, g));
    mma_tf32_k8(c[1], of_a(g, t), of_a(g + 8, t), of_a(g, t + 4), of_a(g + 8, t + 4), of_b(t, g), of_b(t + 4, g));
    uint32_t a[4], b[2];
    for (int i = 0; i < 4; i++) {
        const int row = g + i % 2 * 8, col = 2 * t + i / 2 * 8;
        a[i] = pack_bf16(of_a(row, col), of_a(row, col + 1));
    }
    for (int i = 0; i < 2; i++) b[i] = pack_bf16(of_b(2 * t + 8 * i, g), of_b(2 * t + 8 * i + 1, g));
    mma_bf16_k8(c[2], a[0], a[1], b[0]);
    mma_bf16_k16(c[3], a, b[0], b[1]);
    for (int k = 0; k < KINDS; k++)
        for (int i = 0; i < 4; i++) out[128 * k + (g + i / 2 * 8) * 8 + 2 * t + i % 2] = c[k][i];
    const uint32_t turned = transpose_8x8(pack_bf16(of_a(g, 2 * t), of_a(g, 2 * t + 1)));
    out[TURNED + 8 * g + 2 * t] = low_of(turned);
    out[TURNED + 8 * g + 2 * t + 1] = high_of(turned);
    out[FOLDED + threadIdx.x] = fold((float)threadIdx.x, 100 + (float)threadIdx.x, 4);
}

static double on_host(bool a, int r, int c) { return a ? (r * 5 + c * 3) % 7 - 3 : (r * 2 + c * 5) % 5 - 2; }

extern "C" mba_status words_fragments(void)
{
    static const int         depth[KINDS] = { 4, 8, 8, 16 };
    static const char *const name[KINDS] = { "mma_tf32_k4", "mma_tf32_k8", "mma_bf16_k8", "mma_bf16_k16" };
    float                   *out;
    MBA_TRY(take(&out, FRAGMENTS));
    fragments<<<1, 32>>>(out);
    MBA_TRY(done("fragments"));
    for (int k = 0; k < KINDS; k++)
        for (int i = 0; i < 128; i++) {
            double want = 0;
            for (int j = 0; j < depth[k]; j++) want += on_host(true, i / 8, j) * on_host(false, j, i % 8);
            MBA_TRY(same(name[k], i, out[128 * k + i], want));
        }
    for (int i = 0; i < 64; i++) MBA_TRY(same("transpose_8x8", i, out[TURNED + i], on_host(true, i % 8, i / 8)));
    for (int i = 0; i < 32; i++) {
        const int low = i & ~4, high = i | 4;
        MBA_TRY(same("fold", i, out[FOLDED + i], i & 4 ? 200 + low + high : low + high));
    }
    cudaFree(out);
    return MBA_OK;
}

/* ---- what sm_90a adds: tiles by TMA, products of a warpgroup, states from block to block ---- */

enum { TILE_BYTES = 8192, SMEM_BYTES = 2 * TILE_BYTES + 16 };
enum { BOTH_ROWS, B_COLUMNS, A_COLUMNS, A_REGISTERS, WAYS };

template <int WAY>
static __global__ void __launch_bounds__(128)
    warpgroup_product(float *out, const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b)
{
#if MBA_HOPPER
    MBA_DYNAMIC_SMEM(bytes);
    const uint32_t a = smem_address(bytes), b = a + TILE_BYTES, bar = b + TILE_BYTES;
    const int      warp = (int)threadIdx.x / 32, g = (int)threadIdx.x % 32 / 4, t = (int)threadIdx.x % 4;
    float          d[32];
    uint32_t       fa[4][4];
#pragma unroll
    for (int i = 0; i < 32; i++) d[i] = 0;
    if (threadIdx.x == 0) {
        mbar_init(bar, 1);
        mbar_init_done();
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        mbar_expect(bar, 2 * TILE_BYTES);
        tma_load3(a, &map_a, bar, 0, 0, 0);
        tma_load3(b, &map_b, bar, 0, 0, 0);
    }
    mbar_wait(bar, 0);
#pragma unroll
    for (int k = 0; k < 4; k++)
        if (WAY == A_REGISTERS) a_rows(fa[k], bytes, 16 * warp, 16 * k);
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < 4; k++) {
        if constexpr (WAY == BOTH_ROWS)
            wgmma_n64_ss<0, 0>(d, wgmma_smem_desc(a + 32 * k), wgmma_smem_desc(b + 32 * k), 1);
        if constexpr (WAY == B_COLUMNS)
            wgmma_n64_ss<0, 1>(d, wgmma_smem_desc(a + 32 * k), wgmma_smem_desc(b + 2048 * k), 1);
        if constexpr (WAY == A_COLUMNS)
            wgmma_n64_ss<1, 0>(d, wgmma_smem_desc(a + 2048 * k), wgmma_smem_desc(b + 32 * k), 1);
        if constexpr (WAY == A_REGISTERS) wgmma_n64_rs<0>(d, fa[k], wgmma_smem_desc(b + 32 * k), 1);
    }
    wgmma_commit();
    wgmma_wait<0>();
#pragma unroll
    for (int j = 0; j < 8; j++)
        for (int i = 0; i < 4; i++) out[(16 * warp + g + i / 2 * 8) * SIDE + 8 * j + 2 * t + i % 2] = d[4 * j + i];
#endif
}

template <int WAY> static mba_status try_warpgroup(float *out, const CUtensorMap *map_a, const CUtensorMap *map_b)
{
    static const char *const name[WAYS] = { "wgmma, rows and rows", "wgmma, B by columns", "wgmma, A by columns",
                                            "wgmma, A in registers" };
    memset(out, 0, sizeof(float) * SIDE * SIDE);
    warpgroup_product<WAY><<<1, 128, SMEM_BYTES>>>(out, *map_a, *map_b);
    MBA_TRY(done(name[WAY]));
    for (int i = 0; i < SIDE * SIDE; i++) {
        const int m = i / SIDE, n = i % SIDE;
        double    want = 0;
        for (int k = 0; k < SIDE; k++)
            want += whole(WAY == A_COLUMNS ? SIDE * k + m : SIDE * m + k)
                    * whole((WAY == B_COLUMNS ? SIDE * k + n : SIDE * n + k) + 5);
        MBA_TRY(same(name[WAY], i, out[i], want));
    }
    return MBA_OK;
}

extern "C" mba_status words_warpgroups(void)
{
    const int64_t dim[3] = { SIDE, SIDE, 1 }, step[2] = { SIDE, SIDE * SIDE };
    CUtensorMap   map_a, map_b;
    float        *out;
    bf16         *a, *b;
    MBA_TRY(needs_hopper());
    MBA_TRY(take(&out, SIDE * SIDE));
    MBA_TRY(take(&a, SIDE * SIDE));
    MBA_TRY(take(&b, SIDE * SIDE));
    for (int i = 0; i < SIDE * SIDE; i++) a[i] = (bf16)(float)whole(i), b[i] = (bf16)(float)whole(i + 5);
    MBA_TRY(mba_tensor_map_make(&map_a, a, dim, step));
    MBA_TRY(mba_tensor_map_make(&map_b, b, dim, step));
    MBA_TRY(try_warpgroup<BOTH_ROWS>(out, &map_a, &map_b));
    MBA_TRY(try_warpgroup<B_COLUMNS>(out, &map_a, &map_b));
    MBA_TRY(try_warpgroup<A_COLUMNS>(out, &map_a, &map_b));
    MBA_TRY(try_warpgroup<A_REGISTERS>(out, &map_a, &map_b));
    cudaFree(out), cudaFree(a), cudaFree(b);
    return MBA_OK;
}

static __global__ void hand_on(float *out, float *state, int *flag)
{
#if MBA_HOPPER
    if (blockIdx.x == 1) {
        state[threadIdx.x] = (float)threadIdx.x + 1;
        publish(flag); // each of four warps
        return;
    }
    if (threadIdx.x == 0) await(flag, 4);
    __syncthreads();
    out[threadIdx.x] = load_l2(state + threadIdx.x);
#endif
}

extern "C" mba_status words_handing(void)
{
    float *out, *state;
    int   *flag;
    MBA_TRY(needs_hopper());
    CUDA_TRY(cudaMalloc((void **)&state, sizeof(float) * THREADS));
    CUDA_TRY(cudaMalloc((void **)&flag, sizeof *flag));
    MBA_TRY(take(&out, THREADS));
    for (int run = 0; run < 100; run++) {
        CUDA_TRY(cudaMemset(flag, 0, sizeof *flag));
        CUDA_TRY(cudaMemset(state, 0, sizeof(float) * THREADS));
        hand_on<<<2, THREADS>>>(out, state, flag);
        MBA_TRY(done("handing on"));
        for (int i = 0; i < THREADS; i++) MBA_TRY(same("a state from another block", i, out[i], i + 1));
    }
    cudaFree(out), cudaFree(state), cudaFree(flag);
    return MBA_OK;
}

static __global__ void wait_in_vain(const int *flag)
{
#if MBA_HOPPER
    if (threadIdx.x == 0) await(flag, 1);
#endif
}

extern "C" mba_status words_waiting(void)
{
    int *flag;
    MBA_TRY(needs_hopper());
    CUDA_TRY(cudaMalloc((void **)&flag, sizeof *flag));
    CUDA_TRY(cudaMemset(flag, 0, sizeof *flag));
    wait_in_vain<<<1, 32>>>(flag);
    CUDA_TRY(cudaGetLastError());
    return cudaDeviceSynchronize() == cudaSuccess
               ? mba_fail(MBA_E_DEVICE, "a block that waits in vain ended as if all were well")
               : MBA_OK;
}
