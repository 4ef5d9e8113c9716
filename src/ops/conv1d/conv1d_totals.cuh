// SPDX-License-Identifier: Apache-2.0
/* conv1d_totals.cuh -- computes dw and dbias from the partial sums that the backward kernels leave in scratch. */
#ifndef MBA_CONV1D_TOTALS_CUH
#define MBA_CONV1D_TOTALS_CUH

#include "device/cuda/columns.cuh"
extern "C" {
#include "ops/conv1d/conv1d_slots.h"
}

struct hand_out {
    float          *dw, *dbias; // (C, W), (C) or NULL
    int64_t         C, taps;
    bool            dw_adds, dbias_adds;
    __device__ void operator()(int64_t i, const float (&total)[1], const mba_step *) const
    {
        const int64_t k = i / C, c = i - k * C;
        if (k < taps) dw[c * taps + k] = total[0] + (dw_adds ? dw[c * taps + k] : 0);
        else if (dbias) dbias[c] = total[0] + (dbias_adds ? dbias[c] : 0);
    }
};

/* Launch 1 of the plan adds up the partial sums (parts, W + 1, C), dbias last. */
static mba_status sum_weights(const mba_call *c, int64_t parts)
{
    const mba_node   *n = c->node;
    const conv1d_dims d = conv1d_dims_of(n);
    const hand_out    use = {
           (float *)c->out[DW], (float *)c->out[DBIAS], d.C, d.taps, mba_adds(n, DW), mba_adds(n, DBIAS)
    };
    return mba_column_totals<1>(c, 1, (const float *)mba_cuda_scratch(c, 0), (d.taps + 1) * d.C, parts, use);
}

#endif
