// SPDX-License-Identifier: Apache-2.0
/* linear_cross_entropy_cuda.cu -- blocks of rows in turn: a product computes the logits of the block in scratch, a
 * kernel computes the loss of every row and replaces the logits by their gradient, and two products use that. The loss
 * and all sums over a row are fp32 and double; logits and their gradient have the type of the operands.
 *
 *   each[r] = lse(z[r]) - z[r,y(r)],   z[r,c] <- k (exp(z[r,c] - lse(z[r])) - [c = y(r)])
 *   z (R, C) fp32 or bf16, in scratch     y (R) i32, negative: no target     each (R) fp32
 *
 * kernel     linear_cross_entropy_rows     a group of 32 or 512 threads per row; maximum and sum in one pass, the
 *            gradient in a second
 * takes      fp32, bf16, any columns below 2^30, rows at multiples of 16 bytes
 * launch     grid ceil(R / (512 / group)), block 512
 * resources  sm_90a, CUDA 13.0: 40 to 63 registers, 128 B of shared memory, no spill  [docs]
 *            two blocks per SM, whose rows (100 KB each at 50288 columns in bf16, 27 MB in all) are still in L2 when
 *            they are read again
 * moves      reads R C e + 4 R bytes, writes R C e; 2 R C exponentials: bound by DRAM
 * issue      14 instructions per logit
 * measured   H200: 214 us, 98 % of floor (memory), DRAM 82 % busy; mamba2-headline, 4 x 4096  [docs]
 * order      fixed: a thread adds its columns in ascending order, then a tree adds the threads
 *
 * If two rows fit into the shared memory of an SM (bf16 on sm_90: up to 56 thousand columns), the gradient copies the
 * whole row asynchronously and reads it there a second time: 200 KB in flight per SM, 54 registers, dynamic smem a row,
 * the same bits; 101 instead of 84 % of the copy rate in a step on the H200. Cases reach 1031 columns, one batch. */
#include "device/cuda/async.cuh"
#include "device/cuda/packed.cuh"
#include "device/cuda/gemm_simt.cuh"
#include "ops/cross_entropy/cross_entropy_rows.cuh"
extern "C" {
#include "ops/linear_cross_entropy/linear_cross_entropy_slots.h"
}

/* ---- the pass over a block of logits ---- */

/* Vectors of a row stay in their packed type, which takes half the registers of fp32. Vectors beyond the row are not
 * loaded. */
template <int N, int GROUP, typename T>
static __device__ __forceinline__ void fetch(packed<T, N> (&u)[CE_AHEAD], const T *z, int c, int cols)
{
#pragma unroll
    for (int j = 0; j < CE_AHEAD; j++)
        if (c + j * GROUP * N + N <= cols) u[j].w = ((const packed<T, N> *)(z + c + j * GROUP * N))->w;
}

/* A thread's share of the sum of a row. */
template <int N, int GROUP, typename T> static __device__ __forceinline__ ce_sum sum_row(const T *z, int cols, int lane)
{
    ce_sum s = { CE_NONE, 0 };
    for (int c = lane * N; c + N <= cols; c += CE_AHEAD * GROUP * N) {
        packed<T, N> u[CE_AHEAD];
        fetch<N, GROUP>(u, z, c, cols);
#pragma unroll
        for (int j = 0; j < CE_AHEAD; j++) {
            if (c + j * GROUP * N + N > cols) break;
            float v[N];
            unpack(v, u[j]);
            ce_take(s, v);
        }
    }
    for (int c = cols / N * N + lane; c < cols; c += GROUP) {
        const float v[1] = { to_float(z[c]) };
        ce_take(s, v);
    }
    return s;
}

/* z = k (exp(z - lse) - [column y]), a thread's share of a row. Whole vectors are read from `from`. */
template <int N, int GROUP, typename T>
static __device__ __forceinline__ void differentiate(T *z, const T *from, int cols, int lane, int y, float lse, float k)
{
    const float base = lse * CE_LOG2E;
    for (int c = lane * N; c + N <= cols; c += CE_AHEAD * GROUP * N) {
        packed<T, N> u[CE_AHEAD];
        fetch<N, GROUP>(u, from, c, cols);
#pragma unroll
        for (int j = 0; j < CE_AHEAD; j++) {
            const int at = c + j * GROUP * N;
            if (at + N > cols) break;
            float v[N];
            unpack(v, u[j]);
#pragma unroll
            for (int i = 0; i < N; i++) v[i] = k * ce_exp(v[i], base);
            if ((unsigned)(y - at) < N) // true for one vector of the row; one test per vector, not per value
#pragma unroll
                for (int i = 0; i < N; i++) v[i] -= at + i == y ? k : 0;
            store(z + at, v);
        }
    }
    for (int c = cols / N * N + lane; c < cols; c += GROUP)
        z[c] = from_float<T>(k * ce_exp(to_float(z[c]), base) - (c == y ? k : 0));
}

/* Starts the copies of a thread's share of a row into `kept`: LCE_BATCHES batches of CE_AHEAD vectors, of which the
 * last may be empty. */
template <int N, typename T>
static __device__ __forceinline__ void issue_row_loads(T *kept, const T *z, int cols, int lane)
{
#pragma unroll
    for (int b = 0; b < LCE_BATCHES; b++) {
#pragma unroll
        for (int j = 0; j < CE_AHEAD; j++) {
            const int c = ((b * CE_AHEAD + j) * LCE_BLOCK + lane) * N;
            if (c + N <= cols) copy_async<16>(kept + c, z + c);
        }
        copy_async_commit();
    }
}

/* sum_row of what issue_row_loads copies, batch by batch as they arrive; columns after the last vector come from z. */
template <int N, typename T>
static __device__ __forceinline__ ce_sum sum_kept(const T *kept, const T *z, int cols, int lane)
{
    ce_sum s = { CE_NONE, 0 };
#pragma unroll
    for (int b = 0; b < LCE_BATCHES; b++) {
        if (b == 0) copy_async_wait<3>();
        else if (b == 1) copy_async_wait<2>();
        else if (b == 2) copy_async_wait<1>();
        else copy_async_wait<0>();
#pragma unroll
        for (int j = 0; j < CE_AHEAD; j++) {
            const int c = ((b * CE_AHEAD + j) * LCE_BLOCK + lane) * N;
            if (c + N > cols) break;
            float v[N];
            load(v, kept + c);
            ce_take(s, v);
        }
    }
    for (int c = cols / N * N + lane; c < cols; c += LCE_BLOCK) {
        const float v[1] = { to_float(z[c]) };
        ce_take(s, v);
    }
    return s;
}

/* Row r of z has the target and the loss of row first + r. Rows are processed from the last to the first: the product
 * before wrote the last rows last, and the product after begins with the first, so some rows of each are still in
 * L2. */
template <typename T, int GROUP, bool GRADIENT, bool KEPT>
__global__ void __launch_bounds__(LCE_BLOCK, 2)
    linear_cross_entropy_rows(T *z, int64_t pitch, float *each, strided_view<const int32_t> target, const float *scale,
                              int64_t first, int64_t rows, int cols)
{
    static_assert(!KEPT || (GROUP == LCE_BLOCK && LCE_BATCHES == 4), "a block a row, in four batches");
    constexpr int           N = (int)vec16<T>::N;
    extern __shared__ uint4 memory[];
    const int64_t           down = (int64_t)blockIdx.x * (LCE_BLOCK / GROUP) + threadIdx.x / GROUP, r = rows - 1 - down;
    const int               lane = threadIdx.x % GROUP;
    if (r < 0) return; // uniform per thread group
    const int y = *target.element(first + r);
    T *row = z + r * pitch, *const kept = KEPT ? (T *)memory : row;
    if (y < 0) {
        if (GRADIENT) ce_zero_row<N, GROUP>(row, cols, lane);
        if (lane == 0) each[first + r] = 0;
        return;
    }
    if constexpr (KEPT) issue_row_loads<N>(kept, (const T *)row, cols, lane);
    const float hit = to_float(row[y]); // before the barriers of the sum: after them the row is overwritten
    ce_sum      sum;
    if constexpr (KEPT) sum = sum_kept<N>((const T *)kept, (const T *)row, cols, lane);
    else sum = sum_row<N, GROUP>((const T *)row, cols, lane);
    const float lse = ce_lse<GROUP>(sum);
    if (lane == 0) each[first + r] = lse - hit;
    if (GRADIENT) differentiate<N, GROUP>(row, (const T *)kept, cols, lane, y, lse, *scale);
}

/* ---- launchers ---- */

typedef mba_status product_fn(const mba_call *c, int k, mba_cuda_gemm_args *g);

static mba_status by_library(const mba_call *c, int k, mba_cuda_gemm_args *g)
{
    (void)k;
    g->work = mba_cuda_scratch(c, LIBRARY);
    g->tf32 = c->node->tf32;
    g->stream = c->stream;
    return mba_cuda_gemm(g);
}

static mba_status by_tiles(const mba_call *c, int k, mba_cuda_gemm_args *g) { return mba_cuda_gemm_simt(c, k, g); }

/* Arguments of all blocks, and the rows first .. first + m-1 of the current one. */
struct head {
    const char                 *x, *w;
    int64_t                     R, M, V, rows, e, ldx, ldw, pitch, first, m;
    mba_dtype                   type;
    void                       *z;
    float                      *each, *scale;
    strided_view<const int32_t> target;
};

static head head_of(const mba_call *c)
{
    const mba_node *n = c->node;
    head            h = {};
    h.x = (const char *)c->in[X];
    h.ldx = mba_ld(n->in[X]);
    h.w = (const char *)c->in[W];
    h.ldw = mba_ld(n->in[W]);
    h.R = mba_rows(n->in[X]);
    h.M = mba_cols(n->in[X]);
    h.V = mba_rows(n->in[W]);
    h.type = n->in[X]->type.dtype;
    h.e = (int64_t)mba_dtype_bytes(h.type);
    h.rows = lce_block_rows(h.R, h.V, h.M);
    h.pitch = lce_pitch(h.V);
    h.z = mba_cuda_scratch(c, LOGITS);
    h.each = (float *)mba_cuda_scratch(c, ROWS);
    h.scale = h.each + h.R;
    h.target = mba_strided_view<const int32_t>(n->in[TARGET], c->in[TARGET]);
    return h;
}

/* z = x w^T */
static mba_status logits(const mba_call *c, int k, const head *h, product_fn *product)
{
    mba_cuda_gemm_args g = {};
    g.m = h->m;
    g.n = h->V;
    g.k = h->M;
    g.tb = true;
    g.in = g.out = h->type;
    g.a = h->x + h->first * h->ldx * h->e;
    g.lda = h->ldx;
    g.b = h->w;
    g.ldb = h->ldw;
    g.c = h->z;
    g.ldc = h->pitch;
    return product(c, k, &g);
}

/* dx (the block's rows) = dz w */
static mba_status make_dx(const mba_call *c, int k, const head *h, product_fn *product)
{
    const mba_tensor  *dx = c->node->out[DX];
    mba_cuda_gemm_args g = {};
    g.m = h->m;
    g.n = h->M;
    g.k = h->V;
    g.in = g.out = h->type;
    g.adds = mba_adds(c->node, DX);
    g.a = h->z;
    g.lda = h->pitch;
    g.b = h->w;
    g.ldb = h->ldw;
    g.c = (char *)c->out[DX] + h->first * mba_ld(dx) * h->e;
    g.ldc = mba_ld(dx);
    return product(c, k, &g);
}

/* dw = dz^T x, summed over the blocks */
static mba_status add_dw(const mba_call *c, int k, const head *h, product_fn *product)
{
    mba_cuda_gemm_args g = {};
    g.m = h->V;
    g.n = h->M;
    g.k = h->m;
    g.ta = true;
    g.in = h->type;
    g.out = MBA_F32;
    g.adds = h->first > 0 || mba_adds(c->node, DW);
    g.a = h->z;
    g.lda = h->pitch;
    g.b = h->x + h->first * h->ldx * h->e;
    g.ldb = h->ldx;
    g.c = c->out[DW];
    g.ldc = mba_ld(c->node->out[DW]);
    return product(c, k, &g);
}

template <int GROUP, bool GRADIENT, bool KEPT> static mba_status pass(const mba_call *c, int k, const head *h)
{
    MBA_WITH_DTYPE(h->type, T, auto *kernel = linear_cross_entropy_rows<T, GROUP, GRADIENT, KEPT>;
                   MBA_KERNEL(c, k, kernel, (T *)h->z, h->pitch, h->each, h->target, h->scale, h->first, h->m,
                              (int)h->V));
    return MBA_OK;
}

static mba_status pass(const mba_call *c, int k, const head *h, bool gradient)
{
    if (c->plan->launch[k].smem_bytes) return pass<LCE_BLOCK, true, true>(c, k, h);
    if (lce_group_threads(h->V) == LCE_BLOCK)
        return gradient ? pass<LCE_BLOCK, true, false>(c, k, h) : pass<LCE_BLOCK, false, false>(c, k, h);
    return gradient ? pass<32, true, false>(c, k, h) : pass<32, false, false>(c, k, h);
}

/* Both directions; launches have the order of the plan. */
static mba_status blocks(const mba_call *c, product_fn *product)
{
    const mba_node *n = c->node;
    const bool      bwd = n->in[DLOSS] != NULL;
    head            h = head_of(c);
    int             k = 0;
    if (bwd)
        MBA_KERNEL(c, k, cross_entropy_bwd_scale, h.scale, (const float *)c->in[DLOSS], h.target, mba_all(h.R),
                   c->step);
    k += bwd;
    for (; h.first < h.R; h.first += h.rows) {
        h.m = h.R - h.first < h.rows ? h.R - h.first : h.rows;
        MBA_TRY(logits(c, k++, &h, product));
        MBA_TRY(pass(c, k++, &h, bwd));
        if (n->out[DX]) MBA_TRY(make_dx(c, k++, &h, product));
        if (n->out[DW]) MBA_TRY(add_dw(c, k++, &h, product));
    }
    MBA_KERNEL(c, k, cross_entropy_fwd_total, (float *)c->out[LOSS], h.each, h.target, NULL, mba_all(h.R), c->step);
    return MBA_OK;
}

extern "C" mba_status lce_cuda(const mba_call *c) { return blocks(c, by_library); }
extern "C" mba_status lce_tiles_cuda(const mba_call *c) { return blocks(c, by_tiles); }
