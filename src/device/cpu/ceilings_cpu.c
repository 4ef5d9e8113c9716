// SPDX-License-Identifier: Apache-2.0
/* ceilings_cpu.c -- the three loops behind the CPU ceilings (copy, FMA, exp), compiled once per instruction set. */
#include "device/cpu/ceilings.h"
#include "device/cpu/simd.h"

/* The asm constraint of a vector register. */
#ifdef __aarch64__
#define MBA_VECTOR_REGISTER "+w"
#else
#define MBA_VECTOR_REGISTER "+x"
#endif

static double stream(float *x, const float *y, int64_t n)
{
    for (int64_t i = 0; i + 4 * MBA_LANES <= n; i += 4 * MBA_LANES)
        for (int64_t k = 0; k < 4 * MBA_LANES; k += MBA_LANES) vf_store(x + i + k, vf_load(y + i + k));
    return 8.0 * (double)n;
}

/* Enough independent chains to hide the latency of all pipes: 4 pipes x 5 cycles. */
static double fused(float *x, const float *y, int64_t n)
{
    enum { CHAINS = 20 };
    vf       acc[CHAINS];
    vf       a = vf_load(y);
    const vf b = vf_load(y + MBA_LANES);
    for (int k = 0; k < CHAINS; k++) acc[k] = vf_set((float)k);
    for (int64_t i = 0; i < n; i++) {
        __asm__("" : MBA_VECTOR_REGISTER(a)); // keeps the product in the loop
#pragma GCC unroll 20
        for (int k = 0; k < CHAINS; k++) acc[k] = vf_fma(a, b, acc[k]);
    }
    vf sum = acc[0];
    for (int k = 1; k < CHAINS; k++) sum += acc[k];
    vf_store(x, sum);
    return 2.0 * CHAINS * MBA_LANES * (double)n;
}

/* Four vectors at a time, loaded before the first is stored: the fastest of several forms. */
static double exponentials(float *x, const float *y, int64_t n)
{
    for (int64_t i = 0; i + 4 * MBA_LANES <= n; i += 4 * MBA_LANES) {
        const vf a = vf_load(y + i), b = vf_load(y + i + MBA_LANES), c = vf_load(y + i + 2 * MBA_LANES),
                 d = vf_load(y + i + 3 * MBA_LANES);
        const vf p = vf_exp(a), q = vf_exp(b), r = vf_exp(c), s = vf_exp(d);
        vf_store(x + i, p);
        vf_store(x + i + MBA_LANES, q);
        vf_store(x + i + 2 * MBA_LANES, r);
        vf_store(x + i + 3 * MBA_LANES, s);
    }
    return (double)n;
}

#define CEILINGS MBA_CPU_FN(mba_ceiling_kernels)
const mba_ceiling_kernels CEILINGS = { stream, fused, exponentials };
