// SPDX-License-Identifier: Apache-2.0
/* map_rows.cuh -- element-wise operators: IN values at a position give OUT values at the same position. Operands may be
 * any strided views; one launch.
 *
 *     struct gate { template <int V> __device__ void operator()(float (&out)[1][V], const float (&in)[2][V],
 *                                                                int64_t row, int64_t col) const { .. } };
 *     extern "C" mba_status gate_cuda(const mba_call *c) { return mba_map_rows<2, 1>(c, gate()); }
 *
 * Inputs 0 .. IN-1 and outputs 0 .. OUT-1 of the node have the type and the rows of output 0. The plan is mba__map_plan
 * (ops/vec_access.h).
 *
 * kernel     map_rows     a thread takes two vectors of 16 bytes of every operand, 256 vectors apart
 * takes      fp32, bf16; single elements where rows are not aligned
 * launch     grid ceil(elems / (512 V)), block 256, no shared memory
 * resources  sm_90a, CUDA 13.0: 20 to 61 registers, no spill  [docs]
 * moves      every operand once: bound by DRAM
 * measured   H200: swiglu 52 us, 110 % of the copy rate; hybrid-b-370m, 16384 tokens  [docs: op swiglu swiglu_bwd]
 *            swiglu_bwd 89 us, 108 % of the copy rate; hybrid-b-370m, 16384 tokens  [docs]
 * order      element by element; outputs may share memory with inputs, and a later output may add to an earlier one */
#ifndef MBA_OPS_MAP_ROWS_CUH
#define MBA_OPS_MAP_ROWS_CUH

#include "device/cuda/packed.cuh"
extern "C" {
#include "ops/vec_access.h"
}

/* A strided view whose runs hold whole rows (mba__map_plan checks this). I is the type of vector indices: 32-bit where
 * it suffices, which avoids 64-bit divisions. */
template <typename T, typename I> struct map_view {
    T                            *at;
    I                             rows; // per run
    int64_t                       pitch;
    __device__ __forceinline__ T *row(I r, int64_t cols) const
    {
        if (rows == 1) return at + (int64_t)r * pitch;
        const I run = r / rows;
        return at + (int64_t)run * pitch + (int64_t)(r - run * rows) * cols;
    }
};

template <typename T, typename I, int IN, int OUT> struct map_operands {
    map_view<const T, I> in[IN];
    map_view<T, I>       out[OUT];
    uint32_t             adds;
};

/* I holds the index of a vector. */
template <typename T, int IN, int OUT, int V, typename I, typename F>
__global__ void __launch_bounds__(MBA__MAP_THREADS, sizeof(I) == 8 ? 1 : 2)
    map_rows(map_operands<T, I, IN, OUT> o, I vectors, I per_row, F f)
{
    constexpr int D = MBA__MAP_DEPTH;
    const int64_t cols = (int64_t)per_row * V;
    I             row[D];
    int64_t       col[D];
    bool          there[D];
    packed<T, V>  row_regs[D][IN];
#pragma unroll
    for (int d = 0; d < D; d++) {
        const I j = ((I)blockIdx.x * D + d) * MBA__MAP_THREADS + threadIdx.x;
        there[d] = j < vectors;
        row[d] = there[d] ? j / per_row : 0;
        col[d] = there[d] ? (int64_t)(j - row[d] * per_row) * V : 0;
    }
#pragma unroll
    for (int d = 0; d < D; d++) // issue all loads before the first is used
#pragma unroll
        for (int k = 0; k < IN; k++) fetch(row_regs[d][k], o.in[k].row(row[d], cols) + col[d], there[d]);
#pragma unroll
    for (int d = 0; d < D; d++) {
        if (!there[d]) continue;
        float in[IN][V], out[OUT][V];
#pragma unroll
        for (int k = 0; k < IN; k++) unpack(in[k], row_regs[d][k]);
        f(out, in, (int64_t)row[d], col[d]);
#pragma unroll
        for (int k = 0; k < OUT; k++) {
            T *to = o.out[k].row(row[d], cols) + col[d];
            if (o.adds >> k & 1) {
                float old[V];
                load(old, to);
#pragma unroll
                for (int v = 0; v < V; v++) out[k][v] += old[v];
            }
            store(to, out[k]);
        }
    }
}

template <typename T, typename I> static map_view<T, I> mba__map_view(const mba_tensor *t, void *at)
{
    const strided_view<T> w = mba_strided_view<T>(t, at);
    const map_view<T, I>  m = { w.at, (I)(w.run / mba_cols(t)), w.pitch };
    return m;
}

template <typename T, typename I, int IN, int OUT, int V, typename F>
static mba_status mba__map_rows(const mba_call *c, F f, int64_t vectors, int64_t per_row)
{
    const mba_node             *n = c->node;
    map_operands<T, I, IN, OUT> o;
    for (int k = 0; k < IN; k++) o.in[k] = mba__map_view<const T, I>(n->in[k], c->in[k]);
    for (int k = 0; k < OUT; k++) o.out[k] = mba__map_view<T, I>(n->out[k], c->out[k]);
    o.adds = n->adds;
    auto *kernel = map_rows<T, IN, OUT, V, I, F>;
    MBA_KERNEL(c, 0, kernel, o, (I)vectors, (I)per_row, f);
    return MBA_OK;
}

template <typename T, int IN, int OUT, int V, typename F> static mba_status mba__map_vectors(const mba_call *c, F f)
{
    const int64_t per_row = mba_cols(c->node->out[0]) / V, vectors = mba_rows(c->node->out[0]) * per_row;
    return vectors < INT64_C(1) << 31 ? mba__map_rows<T, uint32_t, IN, OUT, V>(c, f, vectors, per_row)
                                      : mba__map_rows<T, uint64_t, IN, OUT, V>(c, f, vectors, per_row);
}

template <int IN, int OUT, typename F> static mba_status mba_map_rows(const mba_call *c, F f)
{
    const bool whole = mba__map_width(c->node) > 1;
    MBA_WITH_DTYPE(c->node->out[0]->type.dtype, T,
                   return whole ? mba__map_vectors<T, IN, OUT, 16 / sizeof(T)>(c, f)
                                : mba__map_vectors<T, IN, OUT, 1>(c, f));
}

#endif
