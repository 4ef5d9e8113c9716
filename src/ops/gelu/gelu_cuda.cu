/* gelu_cuda.cu -- kernel `elementwise` of device/cuda/elementwise.cuh: each operand moves once. */
#include "device/cuda/elementwise.cuh"
extern "C" {
#include "ops/gelu/gelu_slots.h"
}

static __device__ __forceinline__ float inner_tanh(float x)
{
    return tanhf((float)GELU_ROOT * fmaf((float)GELU_CUBE * x * x, x, x));
}

/* erfcf keeps the relative error of the left tail, where 1 + erf would cancel. */
struct exact { __device__ float operator()(const float (&a)[1]) const { return 0.5f * a[X] * erfcf(-a[X] * 0.70710678f); } };
struct by_tanh { __device__ float operator()(const float (&a)[1]) const { return 0.5f * a[X] * (1 + inner_tanh(a[X])); } };

struct exact_slope {
    __device__ float operator()(const float (&a)[2]) const
    {
        const float x = a[XB];
        return a[DY] * (0.5f * erfcf(-x * 0.70710678f) + x * expf(-0.5f * x * x) * (float)(GELU_ROOT / 2));
    }
};

struct tanh_slope {
    __device__ float operator()(const float (&a)[2]) const
    {
        const float x = a[XB], t = inner_tanh(x);
        return a[DY] * (0.5f * (1 + t) + 0.5f * x * (1 - t * t) * (float)GELU_ROOT * (1 + 3 * (float)GELU_CUBE * x * x));
    }
};

static bool tanh_form(const mba_call *c) { return ((const gelu_attr *)c->node->attr)->tanh_form; }

extern "C" mba_status gelu_cuda(const mba_call *c)
{
    return tanh_form(c) ? mba_elementwise<1>(c, by_tanh()) : mba_elementwise<1>(c, exact());
}

extern "C" mba_status gelu_bwd_cuda(const mba_call *c)
{
    return tanh_form(c) ? mba_elementwise<2>(c, tanh_slope()) : mba_elementwise<2>(c, exact_slope());
}
