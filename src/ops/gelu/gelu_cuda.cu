// SPDX-License-Identifier: Apache-2.0
/* gelu_cuda.cu -- kernel `elementwise` of device/cuda/elementwise.cuh: each operand is read or written once. */
#include "device/cuda/elementwise.cuh"
extern "C" {
#include "ops/gelu/gelu_slots.h"
}

/* Phi(-a) for a >= 0: 2 to the power of a polynomial, which decreases without bound beyond 8. The error relative to Phi
 * is within 5e-7 for a < 2 and 4e-6 up to 6, mostly from rounding the exponent; a Phi(-a) is within 4e-8. It takes one
 * special function and 12 multiplications; erfcf takes 40 instructions, with which the 32 M values of MambaVision-T's
 * MLPs would compute for 50 us and move for 32. */
static __device__ __forceinline__ float left_of(float a)
{
    const float c[13] = { -1.000000000e+00f, -1.151105046e+00f, -4.592164457e-01f, -5.244499072e-02f, 6.932015996e-03f,
                          3.667180499e-05f,  -3.152857535e-04f, 9.522285836e-05f,  -1.680180321e-05f, 1.945075383e-06f,
                          -1.452785341e-07f, 6.359921922e-09f,  -1.239927050e-10f };
    float       q = c[12];
#pragma unroll
    for (int k = 11; k >= 0; k--) q = fmaf(q, a, c[k]);
    return fast_exp2(q);
}

/* Phi(x) = 1 - Phi(-x): both forms use |x|, so nothing cancels for negative x. */
struct exact {
    __device__ float operator()(const float (&x)[1]) const
    {
        const float a = fminf(fabsf(x[X]), 12.0f); // Phi(-12) is 2e-33; infinity times zero would be NaN
        return fmaf(-a, left_of(a), fmaxf(x[X], 0.0f));
    }
};

struct exact_slope {
    __device__ float operator()(const float (&g)[2]) const
    {
        const float x = g[XB], a = fabsf(x), density = (float)(GELU_ROOT / 2) * fast_exp2(-0.72134752f * x * x);
        const float left = fmaf(-a, density, left_of(a));
        return g[DY] * (x < 0 ? left : 1 - left);
    }
};

/* (1 + tanh u) / 2 is the sigmoid of 2 u: s = 1 / (1 + e), and 1 - s = e s without cancellation. */
static __device__ __forceinline__ float away_of(float x)
{
    return fast_exp2(fminf(-2 * 1.44269504f * (float)GELU_ROOT * fmaf((float)GELU_CUBE * x * x, x, x), 120.0f));
}

struct by_tanh {
    __device__ float operator()(const float (&x)[1]) const { return x[X] * fast_reciprocal(1 + away_of(x[X])); }
};

struct tanh_slope {
    __device__ float operator()(const float (&g)[2]) const
    {
        const float x = g[XB], e = away_of(x), s = fast_reciprocal(1 + e);
        const float inner = 2 * (float)GELU_ROOT * fmaf(3 * (float)GELU_CUBE * x, x, 1.0f);
        return g[DY] * s * fmaf(x * (e * s), inner, 1.0f);
    }
};

static bool tanh_form(const mba_call *c) { return ((const gelu_attr *)c->node->attr)->tanh_form; }

extern "C" mba_status gelu_cuda(const mba_call *c)
{
    return tanh_form(c) ? mba_elementwise<1>(c, by_tanh()) : mba_elementwise<1>(c, exact());
}

extern "C" mba_status gelu_bwd_cuda(const mba_call *c)
{
    return tanh_form(c) ? mba_elementwise<2, MAY_ADD>(c, tanh_slope()) : mba_elementwise<2, MAY_ADD>(c, exact_slope());
}
