// SPDX-License-Identifier: Apache-2.0
/* dropout_cuda.cu -- kernel `map_rows` of ops/map_rows.cuh. The random numbers are those of the CPU: element i takes
 * word i % 4 of counter i / 4, for any strided view. */
#include "ops/map_rows.cuh"
extern "C" {
#include "ops/dropout/dropout_slots.h"
}

/* u[k] for a k that is not a constant, without an array in local memory. */
static __device__ __forceinline__ uint32_t pick(const uint32_t (&u)[4], int k)
{
    const uint32_t lo = k & 1 ? u[1] : u[0], hi = k & 1 ? u[3] : u[2];
    return k & 2 ? hi : lo;
}

struct drop {
    const mba_step *step; // in device memory
    uint64_t        stream;
    int64_t         cols;
    uint32_t        below;
    float           scale;
    template <int V>
    __device__ void operator()(float (&out)[1][V], const float (&in)[1][V], int64_t row, int64_t col) const
    {
        const uint64_t key = step->seed ^ stream, first = (uint64_t)(row * cols + col);
        const uint64_t hi = mba_step_counter(step);
        uint32_t       u[4];
#pragma unroll
        for (int v = 0; v < V; v++) {
            if (v % 4 == 0) philox(u, key, hi, (first + v) / 4);
            const uint32_t word = V > 1 ? u[v % 4] : pick(u, (int)(first % 4));
            out[Y][v] = word < below ? 0 : in[X][v] * scale;
        }
    }
};

extern "C" mba_status dropout_cuda(const mba_call *c)
{
    const double p = (double)((const dropout_attr *)c->node->attr)->p;
    const drop   f = { c->step, c->node->stream, mba_cols(c->node->out[Y]), (uint32_t)(p * 4294967296.0),
                       (float)(1 / (1 - p)) };
    return mba_map_rows<1, 1>(c, f);
}
