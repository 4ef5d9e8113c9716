// SPDX-License-Identifier: Apache-2.0
/* ema_cuda.cu -- kernel `elementwise` of device/cuda/elementwise.cuh. The form e + (1 - decay) (p - e) has a rounding
 * error relative to the change, and none where p equals e. */
#include "device/cuda/elementwise.cuh"
extern "C" {
#include "ops/ema/ema_slots.h"
}

struct average {
    float            k;
    __device__ float operator()(const float (&x)[2]) const { return x[E] + k * (x[P] - x[E]); }
};

extern "C" mba_status ema_cuda(const mba_call *c)
{
    const average f = { (float)(1 - ((const ema_attr *)c->node->attr)->decay) };
    return mba_elementwise<2>(c, f);
}
