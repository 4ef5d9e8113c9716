// SPDX-License-Identifier: Apache-2.0
/* relu2_cuda.cu -- kernel `elementwise` of device/cuda/elementwise.cuh: each operand is read or written once. */
#include "device/cuda/elementwise.cuh"
extern "C" {
#include "ops/relu2/relu2_slots.h"
}

struct relu2 {
    __device__ float operator()(const float (&x)[1]) const
    {
        const float p = fmaxf(x[0], 0.0f);
        return p * p;
    }
};

struct relu2_slope {
    __device__ float operator()(const float (&a)[2]) const { return 2 * fmaxf(a[XB], 0.0f) * a[DY]; }
};

extern "C" mba_status relu2_cuda(const mba_call *c) { return mba_elementwise<1>(c, relu2()); }
extern "C" mba_status relu2_bwd_cuda(const mba_call *c) { return mba_elementwise<2, MAY_ADD>(c, relu2_slope()); }
