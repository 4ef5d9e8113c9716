// SPDX-License-Identifier: Apache-2.0
/* elementwise.cuh -- elementwise operators: y[i] (+)= f(a[i], b[i], ..) for any strided views, in one launch.
 *
 *     struct relu2 { __device__ float operator()(const float (&x)[1]) const { .. } };
 *     extern "C" mba_status relu2_cuda(const mba_call *c) { return mba_elementwise<1>(c, relu2()); }
 *     extern "C" mba_status relu2_bwd_cuda(const mba_call *c) { return mba_elementwise<2, MAY_ADD>(c, relu2_slope()); }
 *
 * Inputs 0 .. N-1 of the node are the operands, with the type and shape of output 0. The launcher states what else a
 * node may need: MAY_ADD if its slot adds, MAY_CAST if operands (of one type) may differ from output 0 in type. Each
 * doubles the compiled code. The plan is that of mba_plan_streaming; the grid follows from the number of elements.
 *
 * kernel     elementwise     a thread has four 16-byte vectors (two of each operand if there are several), 256 vectors
 *            apart, and issues all loads before it uses the first
 * takes      fp32, bf16; single elements if rows are not aligned; indices in views by 32-bit division
 * launch     grid ceil(elems / (256 D V)), block 256, no shared memory
 * resources  sm_90a, CUDA 13.0: 14 to 60 registers, no spill  [docs: elementwise]
 * in flight  4 TB/s for 0.7 us need 22 KB per SM of an H200; 5 blocks of 256 threads have 82 KB
 * moves      every operand once: bound by DRAM if f takes fewer than 25 instructions per bf16 value (an H200 issues 0.9
 *            T warp instructions per second; 4 TB/s are 1 T values in and 1 T out)
 * order      element by element; the output may alias an input */
#ifndef MBA_ELEMENTWISE_CUH
#define MBA_ELEMENTWISE_CUH

#include "device/cuda/packed.cuh"

enum { ELEMENTWISE_THREADS = 256 };
enum { MAY_ADD = 1, MAY_CAST = 2 };

/* A strided view with indices of type I; run is 0 if it is contiguous. */
template <typename T, typename I> struct indexed_view {
    T                            *at;
    I                             run;
    int64_t                       pitch;
    __device__ __forceinline__ T *element(I i) const
    {
        if (!run) return at + i;
        const I r = i / run;
        return at + (int64_t)r * pitch + (i - r * run);
    }
};

template <typename T, typename I> static inline indexed_view<T, I> mba__indexed_view(const mba_tensor *t, void *at)
{
    const indexed_view<T, I> p = { (T *)at, (I)(mba_dense(t) ? 0 : t->run), mba_dense(t) ? 0 : t->pitch };
    return p;
}

template <typename T, typename I, int N> struct operands {
    indexed_view<const T, I> in[N];
};

/* V: values per vector, 16 bytes or one value. D: vectors per thread. */
template <typename TIN, typename TOUT, int N, int V, int D, bool ADDS, typename I, typename F>
__global__ void __launch_bounds__(ELEMENTWISE_THREADS)
    elementwise(indexed_view<TOUT, I> y, operands<TIN, I, N> x, I elems, F f)
{
    const I         first = ((I)blockIdx.x * D * ELEMENTWISE_THREADS + threadIdx.x) * V;
    packed<TIN, V>  loaded[D][N];
    packed<TOUT, V> old[D];
#pragma unroll
    for (int d = 0; d < D; d++) { // all loads before the first is used
        const I    i = first + (I)(d * ELEMENTWISE_THREADS * V);
        const bool there = i < elems;
#pragma unroll
        for (int k = 0; k < N; k++) fetch(loaded[d][k], x.in[k].element(i), there);
        if (ADDS) fetch(old[d], (const TOUT *)y.element(i), there);
    }
#pragma unroll
    for (int d = 0; d < D; d++) {
        const I i = first + (I)(d * ELEMENTWISE_THREADS * V);
        float   in[N][V], out[V];
        if (i >= elems) return;
#pragma unroll
        for (int k = 0; k < N; k++) unpack(in[k], loaded[d][k]);
        if (ADDS) unpack(out, old[d]);
#pragma unroll
        for (int v = 0; v < V; v++) {
            float a[N];
#pragma unroll
            for (int k = 0; k < N; k++) a[k] = in[k][v];
            out[v] = f(a) + (ADDS ? out[v] : 0);
        }
        store(y.element(i), out);
    }
}

template <typename TIN, typename TOUT, typename I, int N, int MAY, int V, typename F>
static mba_status mba__elementwise(const mba_call *c, F f)
{
    constexpr int               D = N == 1 ? 4 : 2;
    constexpr bool              ADD = MAY & MAY_ADD;
    const mba_node             *n = c->node;
    operands<TIN, I, N>         x;
    const int64_t               elems = mba_elems(n->out[0]);
    const unsigned              grid = (unsigned)mba_ceil(elems, ELEMENTWISE_THREADS * D * V);
    const indexed_view<TOUT, I> y = mba__indexed_view<TOUT, I>(n->out[0], c->out[0]);
    for (int k = 0; k < N; k++) x.in[k] = mba__indexed_view<const TIN, I>(n->in[k], c->in[k]);
    auto *const kernel = mba_adds(n, 0) ? elementwise<TIN, TOUT, N, V, D, ADD, I, F>
                                        : elementwise<TIN, TOUT, N, V, D, false, I, F>;
    kernel<<<grid, ELEMENTWISE_THREADS, 0, mba_cuda_stream(c)>>>(y, x, (I)elems, f);
    return mba__cuda_launch_check(c, 0);
}

/* 32-bit indices if they suffice, with room for the vectors of one more block. */
template <typename TIN, typename TOUT, int N, int MAY, int V, typename F>
static mba_status mba__elementwise_far(const mba_call *c, F f)
{
    return mba_elems(c->node->out[0]) < INT64_C(1) << 31 ? mba__elementwise<TIN, TOUT, uint32_t, N, MAY, V>(c, f)
                                                         : mba__elementwise<TIN, TOUT, uint64_t, N, MAY, V>(c, f);
}

template <typename TIN, typename TOUT, int N, int MAY, typename F>
static mba_status mba__elementwise_any(const mba_call *c, F f)
{
    constexpr int V = 16 / (sizeof(TIN) > sizeof(TOUT) ? sizeof(TIN) : sizeof(TOUT));
    bool          fits = mba_vec_aligned(c->node->out[0], c->out[0], V);
    for (int k = 0; k < N; k++) fits = fits && mba_vec_aligned(c->node->in[k], c->in[k], V);
    return fits ? mba__elementwise_far<TIN, TOUT, N, MAY, V>(c, f) : mba__elementwise_far<TIN, TOUT, N, MAY, 1>(c, f);
}

template <int N, int MAY = 0, typename F> static mba_status mba_elementwise(const mba_call *c, F f)
{
    const mba_node *n = c->node;
    const mba_dtype out = n->out[0]->type.dtype;
    bool            casts = false;
    for (int k = 0; k < N; k++) casts |= n->in[k]->type.dtype != out;
    if ((mba_adds(n, 0) && !(MAY & MAY_ADD)) || (casts && !(MAY & MAY_CAST)))
        return mba_fail(MBA_E_UNSUPPORTED, "%s has no kernel that %s\nfix: %s where it is launched", n->op->name,
                        casts ? "changes types" : "adds", casts ? "MAY_CAST" : "MAY_ADD");
    if constexpr (MAY & MAY_CAST)
        MBA_WITH_DTYPE(n->in[0]->type.dtype, TIN,
                       MBA_WITH_DTYPE(out, TOUT, return mba__elementwise_any<TIN, TOUT, N, MAY>(c, f)));
    else MBA_WITH_DTYPE(out, T, return mba__elementwise_any<T, T, N, MAY>(c, f));
}

#endif
