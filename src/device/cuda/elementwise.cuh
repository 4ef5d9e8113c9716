/* elementwise.cuh -- operators that work element by element: y[i] (+)= f(a[i], b[i], ..), any windows, one launch.
 *
 *     struct relu2 { __device__ float operator()(const float (&x)[1]) const { .. } };
 *     extern "C" mba_status relu2_cuda(const mba_call *c) { return mba_elementwise<1>(c, relu2{}); }
 *
 * Inputs 0 .. N-1 of the node are the operands, all with the type and shape of output 0 (types may differ between
 * float and bf16 only through TIN). Each thread takes 16 bytes; the plan is mba_plan_streaming's, whose grid is ignored
 * but for the block: the grid follows from the elements. */
#ifndef MBA_ELEMENTWISE_CUH
#define MBA_ELEMENTWISE_CUH

#include "device/cuda/vocab.cuh"

template <typename T, int N> struct operands { window<const T> in[N]; };

/* V values of a row per thread: 16 bytes, or one value where rows are odd. */
template <typename TIN, typename TOUT, int N, int V, bool ADDS, typename F>
__global__ void __launch_bounds__(256) elementwise(window<TOUT> y, operands<TIN, N> x, int64_t elems, F f)
{
    const int64_t i = ((int64_t)blockIdx.x * 256 + threadIdx.x) * V;
    if (i >= elems) return;
    float in[N][V], out[V];
#pragma unroll
    for (int k = 0; k < N; k++) load(in[k], x.in[k].element(i));
    if (ADDS) load(out, y.element(i));
#pragma unroll
    for (int v = 0; v < V; v++) {
        float a[N];
#pragma unroll
        for (int k = 0; k < N; k++) a[k] = in[k][v];
        out[v] = f(a) + (ADDS ? out[v] : 0);
    }
    store(y.element(i), out);
}

template <typename TIN, typename TOUT, int N, int V, typename F> static mba_status mba__elementwise(const mba_call *c, F f)
{
    const mba_node   *n = c->node;
    operands<TIN, N>  x;
    const int64_t     elems = mba_elems(n->out[0]);
    const unsigned    grid = (unsigned)mba_ceil(elems, 256 * V);
    for (int k = 0; k < N; k++) x.in[k] = mba_window<const TIN>(n->in[k], c->in[k]);
    const window<TOUT> y = mba_window<TOUT>(n->out[0], c->out[0]);
    if (mba_adds(n, 0)) elementwise<TIN, TOUT, N, V, true><<<grid, 256, 0, mba_cuda_stream(c)>>>(y, x, elems, f);
    else                elementwise<TIN, TOUT, N, V, false><<<grid, 256, 0, mba_cuda_stream(c)>>>(y, x, elems, f);
    return mba__cuda_launched(c, 0);
}

template <typename TIN, typename TOUT, int N, typename F> static mba_status mba__elementwise_any(const mba_call *c, F f)
{
    constexpr int V = 16 / (sizeof(TIN) > sizeof(TOUT) ? sizeof(TIN) : sizeof(TOUT));
    bool fits = mba_pieces_fit(c->node->out[0], c->out[0], V);
    for (int k = 0; k < N; k++) fits = fits && mba_pieces_fit(c->node->in[k], c->in[k], V);
    return fits ? mba__elementwise<TIN, TOUT, N, V>(c, f) : mba__elementwise<TIN, TOUT, N, 1>(c, f);
}

template <int N, typename F> static mba_status mba_elementwise(const mba_call *c, F f)
{
    const mba_dtype in = N > 0 ? c->node->in[0]->type.dtype : c->node->out[0]->type.dtype, out = c->node->out[0]->type.dtype;
    MBA_WITH_DTYPE(in, TIN, MBA_WITH_DTYPE(out, TOUT, return mba__elementwise_any<TIN, TOUT, N>(c, f)));
}

#endif
