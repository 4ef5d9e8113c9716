// SPDX-License-Identifier: Apache-2.0
/* swiglu_cuda.cu -- kernel `map_rows` of ops/map_rows.cuh: each operand is read or written once.
 *
 *   y = value silu(gate)      dvalue = dy silu(gate)      dgate = dy value silu'(gate) */
#include "ops/map_rows.cuh"
extern "C" {
#include "ops/swiglu/swiglu_slots.h"
}

struct swiglu_gate {
    template <int V> __device__ void operator()(float (&out)[1][V], const float (&in)[2][V], int64_t, int64_t) const
    {
#pragma unroll
        for (int v = 0; v < V; v++) out[Y][v] = in[VALUE][v] * silu(in[GATE][v]);
    }
};

struct swiglu_slope {
    template <int V> __device__ void operator()(float (&out)[2][V], const float (&in)[3][V], int64_t, int64_t) const
    {
#pragma unroll
        for (int v = 0; v < V; v++) {
            const float t = in[GATE][v], s = sigmoid(t);
            out[DVALUE][v] = in[DY][v] * t * s;
            out[DGATE][v] = in[DY][v] * in[VALUE][v] * s * fmaf(t, 1 - s, 1.0f);
        }
    }
};

extern "C" mba_status swiglu_cuda(const mba_call *c) { return mba_map_rows<2, 1>(c, swiglu_gate()); }
extern "C" mba_status swiglu_bwd_cuda(const mba_call *c) { return mba_map_rows<3, 2>(c, swiglu_slope()); }
