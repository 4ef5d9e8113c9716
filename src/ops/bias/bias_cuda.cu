/* bias_cuda.cu -- forward: kernel `map_rows` of ops/map_rows.cuh. Backward: column sums of device/cuda/columns.cuh.
 *
 *   y[r,c] = x[r,c] + b[c]      db[c] = sum_r dy[r,c] */
#include "device/cuda/columns_once.cuh"
#include "ops/map_rows.cuh"
extern "C" {
#include "ops/bias/bias_slots.h"
}

struct plus_bias {
    const float *b;                               // (C)
    template <int V> __device__ void operator()(float (&out)[1][V], const float (&in)[1][V], int64_t, int64_t col) const
    {
        load_weights(out[Y], b + col);
#pragma unroll
        for (int v = 0; v < V; v++) out[Y][v] += in[X][v];
    }
};

extern "C" mba_status bias_cuda(const mba_call *c) { return mba_map_rows<1, 1>(c, plus_bias{ (const float *)c->in[BIAS] }); }

template <typename T> struct bias_bwd_sums {
    enum { AT_ONCE = 8 };
    window<const T> dy;
    int64_t         cols;
    template <int V> struct known {};
    template <int V> using seen = packed<T, V>;
    template <int V> __device__ void know(known<V> &, int64_t) const {}
    template <int V> __device__ void look(packed<T, V> &s, int64_t r, int64_t c, bool there) const
    {
        fetch(s, mba_column_row<V>(dy, r, cols) + c, there);
    }
    template <int V> __device__ void add(float (&sum)[1][V], const packed<T, V> &s, const known<V> &) const
    {
        float d[V];
        unpack(d, s);
#pragma unroll
        for (int v = 0; v < V; v++) sum[0][v] += d[v];
    }
};

struct keep_bias_total {
    float *db;
    bool   adds;
    __device__ void operator()(int64_t i, const float (&total)[1], const mba_step *) const { db[i] = total[0] + (adds ? db[i] : 0); }
};

template <bool ONCE> static mba_status bias_bwd(const mba_call *c)
{
    const mba_tensor *dy = c->node->in[DY];
    const keep_bias_total  use = { (float *)c->out[DBIAS], mba_adds(c->node, DBIAS) };
    float            *part = (float *)mba_cuda_scratch(c, 0);
    const bool        wide = mba__columns_at_once(&dy, 1) > 1;
    MBA_WITH_DTYPE(dy->type.dtype, T,
        const bias_bwd_sums<T> f = { mba_window<const T>(dy, c->in[DY]), mba_cols(dy) };
        if (ONCE) return wide ? mba_column_sums_once<1, 16 / sizeof(T)>(c, 0, dy, f, use, part) : mba_column_sums_once<1, 1>(c, 0, dy, f, use, part);
        else      return wide ? mba_column_sums<1, 16 / sizeof(T)>(c, 0, dy, f, use, part) : mba_column_sums<1, 1>(c, 0, dy, f, use, part));
}

extern "C" mba_status bias_bwd_cuda(const mba_call *c)      { return bias_bwd<false>(c); }
extern "C" mba_status bias_bwd_once_cuda(const mba_call *c) { return bias_bwd<true>(c); }
