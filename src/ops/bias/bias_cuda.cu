// SPDX-License-Identifier: Apache-2.0
/* bias_cuda.cu -- forward: kernel `map_rows` of ops/map_rows.cuh. Backward: column sums of device/cuda/columns.cuh.
 *
 *   y[r,c] = x[r,c] + b[c]      db[c] = sum_r dy[r,c] */
#include "device/cuda/columns.cuh"
#include "ops/map_rows.cuh"
extern "C" {
#include "ops/bias/bias_slots.h"
}

struct plus_bias {
    const float                     *b; // (C)
    template <int V> __device__ void operator()(float (&out)[1][V], const float (&in)[1][V], int64_t, int64_t col) const
    {
        load_weights(out[Y], b + col);
#pragma unroll
        for (int v = 0; v < V; v++) out[Y][v] += in[X][v];
    }
};

extern "C" mba_status bias_cuda(const mba_call *c)
{
    return mba_map_rows<1, 1>(c, plus_bias{ (const float *)c->in[BIAS] });
}

extern "C" mba_status bias_bwd_cuda(const mba_call *c)
{
    const mba_tensor *dy = c->node->in[DY];
    const keep_total  use = { (float *)c->out[DBIAS], mba_adds(c->node, DBIAS) };
    float            *part = (float *)mba_cuda_scratch(c, 0);
    const bool        wide = mba__columns_at_once(&dy, 1) > 1;
    MBA_WITH_DTYPE(dy->type.dtype, T, const own_sums<T> f = { mba_strided_view<const T>(dy, c->in[DY]), mba_cols(dy) };
                   return wide ? mba_column_sums<1, 16 / sizeof(T)>(c, 0, dy, f, use, part)
                               : mba_column_sums<1, 1>(c, 0, dy, f, use, part));
}
