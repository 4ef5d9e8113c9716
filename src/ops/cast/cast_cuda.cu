// SPDX-License-Identifier: Apache-2.0
/* cast_cuda.cu -- kernel `elementwise` of device/cuda/elementwise.cuh: reads and writes each element once. */
#include "device/cuda/elementwise.cuh"
extern "C" {
#include "ops/cast/cast_slots.h"
}

struct same {
    __device__ float operator()(const float (&x)[1]) const { return x[0]; }
};

extern "C" mba_status cast_cuda(const mba_call *c) { return mba_elementwise<1, MAY_ADD | MAY_CAST>(c, same()); }
