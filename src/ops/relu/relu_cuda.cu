// SPDX-License-Identifier: Apache-2.0
/* relu_cuda.cu -- kernel `elementwise` of device/cuda/elementwise.cuh: each operand is read or written once. */
#include "device/cuda/elementwise.cuh"
extern "C" {
#include "ops/relu/relu_slots.h"
}

struct positive {
    __device__ float operator()(const float (&a)[1]) const { return fmaxf(a[X], 0.0f); }
};
struct passed {
    __device__ float operator()(const float (&a)[2]) const { return a[YB] > 0 ? a[DY] : 0.0f; }
};

extern "C" mba_status relu_cuda(const mba_call *c) { return mba_elementwise<1>(c, positive()); }
extern "C" mba_status relu_bwd_cuda(const mba_call *c) { return mba_elementwise<2, MAY_ADD>(c, passed()); }
