/* map_rows.cuh -- operators that make IN values of a place into OUT values of the same place, any windows, one launch.
 *
 *     struct gate { template <int V> __device__ void operator()(float (&out)[1][V], const float (&in)[2][V],
 *                                                                int64_t row, int64_t col) const { .. } };
 *     extern "C" mba_status gate_cuda(const mba_call *c) { return mba_map_rows<2, 1>(c, gate()); }
 *
 * Inputs 0 .. IN-1 and outputs 0 .. OUT-1 of the node have the type and the rows of output 0. The plan is mba__map_plan
 * (ops/pieces.h).
 *
 * kernel     map_rows     a thread takes two pieces of 16 bytes of every operand, 256 pieces apart
 * takes      fp32, bf16; single elements where rows are odd
 * launch     grid ceil(elems / (512 V)), block 256, no shared memory
 * resources  sm_90: 60 registers or fewer, swiglu_bwd in bf16 74; no spill
 * moves      every operand once: bound by DRAM
 * measured   none yet
 * order      element by element; outputs may lie in inputs, and a later output may add to an earlier one */
#ifndef MBA_OPS_MAP_ROWS_CUH
#define MBA_OPS_MAP_ROWS_CUH

#include "device/cuda/packed.cuh"
extern "C" {
#include "ops/pieces.h"
}

template <typename T, int IN, int OUT> struct map_operands { window<const T> in[IN]; window<T> out[OUT]; uint32_t adds; };

/* I holds the number of a piece. */
template <typename T, int IN, int OUT, int V, typename I, typename F>
__global__ void __launch_bounds__(MBA__MAP_THREADS) map_rows(map_operands<T, IN, OUT> o, I pieces, I per_row, F f)
{
    constexpr int D = MBA__MAP_DEPTH;
    const int64_t cols = (int64_t)per_row * V;
    int64_t       row[D], col[D];
    packed<T, V>  seen[D][IN];
#pragma unroll
    for (int d = 0; d < D; d++) {
        const I j = ((I)blockIdx.x * D + d) * MBA__MAP_THREADS + threadIdx.x, r = j / per_row;
        row[d] = j < pieces ? (int64_t)r : -1;
        col[d] = (int64_t)(j - r * per_row) * V;
    }
#pragma unroll
    for (int d = 0; d < D; d++)                   // all loads before the first is used
#pragma unroll
        for (int k = 0; k < IN; k++) fetch(seen[d][k], o.in[k].row(row[d] < 0 ? 0 : row[d], cols) + col[d], row[d] >= 0);
#pragma unroll
    for (int d = 0; d < D; d++) {
        if (row[d] < 0) continue;
        float in[IN][V], out[OUT][V];
#pragma unroll
        for (int k = 0; k < IN; k++) unpack(in[k], seen[d][k]);
        f(out, in, row[d], col[d]);
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

template <typename T, int IN, int OUT, int V, typename F> static mba_status mba__map_rows(const mba_call *c, F f)
{
    const mba_node          *n = c->node;
    const int64_t            per_row = mba_cols(n->out[0]) / V, pieces = mba_rows(n->out[0]) * per_row;
    map_operands<T, IN, OUT> o;
    for (int k = 0; k < IN; k++)  o.in[k]  = mba_window<const T>(n->in[k], c->in[k]);
    for (int k = 0; k < OUT; k++) o.out[k] = mba_window<T>(n->out[k], c->out[k]);
    o.adds = n->adds;
    if (pieces < INT64_C(1) << 31) {
        auto *kernel = map_rows<T, IN, OUT, V, uint32_t, F>;
        MBA_KERNEL(c, 0, kernel, o, (uint32_t)pieces, (uint32_t)per_row, f);
    } else {
        auto *kernel = map_rows<T, IN, OUT, V, uint64_t, F>;
        MBA_KERNEL(c, 0, kernel, o, (uint64_t)pieces, (uint64_t)per_row, f);
    }
    return MBA_OK;
}

template <int IN, int OUT, typename F> static mba_status mba_map_rows(const mba_call *c, F f)
{
    const bool whole = mba__map_width(c->node) > 1;
    MBA_WITH_DTYPE(c->node->out[0]->type.dtype, T,
        return whole ? mba__map_rows<T, IN, OUT, 16 / sizeof(T)>(c, f) : mba__map_rows<T, IN, OUT, 1>(c, f));
}

#endif
