// SPDX-License-Identifier: Apache-2.0
/* accumulate_cuda.cu -- kernel `elementwise` of device/cuda/elementwise.cuh: a copy, or a sum in place. */
#include "device/cuda/elementwise.cuh"
extern "C" {
#include "ops/accumulate/accumulate_slots.h"
}

struct same {
    __device__ float operator()(const float (&x)[1]) const { return x[0]; }
};

extern "C" mba_status accumulate_cuda(const mba_call *c) { return mba_elementwise<1, MAY_ADD>(c, same()); }
