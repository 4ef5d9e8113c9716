// SPDX-License-Identifier: Apache-2.0
/* simd.h -- portable vectors for the *_cpu.c files: one type, a few operations, and vector maths.
 *
 *     for (int64_t i = 0; i < n; i += MBA_LANES) {          // y = silu(x), any n
 *         const int64_t m = n - i;                          // vf_load_n and vf_store_n touch at most m floats
 *         vf_store_n(y + i, vf_silu(vf_load_n(x + i, m)), m);
 *     }
 *
 * A vf has MBA_LANES floats: 4 (NEON, SSE2), 8 (AVX2) or 16 (AVX-512), by the flags of the file. The operators of C
 * work on it (+ - * / < ==). A comparison gives a vi, all ones where it holds, for vf_select. `a * b + c` becomes one
 * instruction if the machine has it (-ffp-contract=fast).
 *
 * The maths is branch-free and rounds the same way in every lane, so a result does not depend on its lane. `ulp` below
 * are units in the last place of the float result over the given range; simd_test.c checks every bound for the smallest
 * instruction set. NaN in gives NaN out, unless stated otherwise. */
#ifndef MBA_SIMD_H
#define MBA_SIMD_H

#include <stdint.h>

#if defined __AVX512F__
#define MBA_LANES 16
#include <immintrin.h>
#elif defined __AVX2__
#define MBA_LANES 8
#include <immintrin.h>
#elif defined __SSE2__
#define MBA_LANES 4
#include <emmintrin.h>
#else
#define MBA_LANES 4
#ifdef __ARM_NEON
#include <arm_neon.h>
#endif
#endif

typedef float    vf __attribute__((vector_size(4 * MBA_LANES)));
typedef int32_t  vi __attribute__((vector_size(4 * MBA_LANES)));
typedef uint32_t vu __attribute__((vector_size(4 * MBA_LANES)));

#define MBA_SIMD static inline __attribute__((always_inline))

/* ---- memory: any alignment ----
 * Loads use a type of small alignment instead of memcpy: with memcpy, gcc 12 moves accumulators in an array of vectors
 * through integer registers, which halves the speed of a tile. */
typedef float mba__vf_loose __attribute__((vector_size(4 * MBA_LANES), aligned(4), may_alias));
MBA_SIMD vf   vf_load(const float *p) { return (vf) * (const mba__vf_loose *)p; }
MBA_SIMD void vf_store(float *p, vf v) { *(mba__vf_loose *)p = (mba__vf_loose)v; }
MBA_SIMD vi   vi_load(const int32_t *p)
{
    vi v;
    __builtin_memcpy(&v, p, sizeof v);
    return v;
}

/* The first n floats (n may exceed the lanes, or be 0); accesses nothing beyond them. Missing lanes are 0. */
MBA_SIMD vf vf_load_n(const float *p, int64_t n)
{
    if (n >= MBA_LANES) return vf_load(p);
    vf v = { 0 };
    for (int64_t i = 0; i < n; i++) v[i] = p[i];
    return v;
}

MBA_SIMD void vf_store_n(float *p, vf v, int64_t n)
{
    if (n >= MBA_LANES) {
        vf_store(p, v);
        return;
    }
    for (int64_t i = 0; i < n; i++) p[i] = v[i];
}

/* ---- four floats, for any number of lanes: 4 x 4 blocks of a matrix, sums of four vectors ---- */
typedef float v4 __attribute__((vector_size(16)));
typedef float mba__v4_loose __attribute__((vector_size(16), aligned(4), may_alias));
MBA_SIMD v4   v4_load(const float *p) { return (v4) * (const mba__v4_loose *)p; }
MBA_SIMD void v4_store(float *p, v4 v) { *(mba__v4_loose *)p = (mba__v4_loose)v; }

MBA_SIMD void v4_transpose(v4 x[4]) /* rows become columns */
{
    const v4 a = __builtin_shufflevector(x[0], x[1], 0, 4, 1, 5), b = __builtin_shufflevector(x[0], x[1], 2, 6, 3, 7);
    const v4 c = __builtin_shufflevector(x[2], x[3], 0, 4, 1, 5), d = __builtin_shufflevector(x[2], x[3], 2, 6, 3, 7);
    x[0] = __builtin_shufflevector(a, c, 0, 1, 4, 5);
    x[1] = __builtin_shufflevector(a, c, 2, 3, 6, 7);
    x[2] = __builtin_shufflevector(b, d, 0, 1, 4, 5);
    x[3] = __builtin_shufflevector(b, d, 2, 3, 6, 7);
}

/* ---- basic operations ---- */
MBA_SIMD vf vf_set(float x) { return x - (vf){ 0 }; } /* broadcast; -0 stays -0 */
MBA_SIMD vi vi_set(int32_t x) { return x + (vi){ 0 }; }
MBA_SIMD vf vf_fma(vf a, vf b, vf c) { return a * b + c; }
MBA_SIMD vf vf_abs(vf x) { return (vf)((vi)x & vi_set(INT32_MAX)); }
MBA_SIMD vf vf_select(vi m, vf a, vf b) { return (vf)((m & (vi)a) | (~m & (vi)b)); } /* m ? a : b */

/* A NaN in x is kept; a NaN in the bound need not be. */
MBA_SIMD vf vf_max(vf bound, vf x)
{
#if defined __AVX512F__
    return (vf)_mm512_max_ps((__m512)bound, (__m512)x);
#elif defined __AVX2__
    return (vf)_mm256_max_ps((__m256)bound, (__m256)x);
#elif defined __SSE2__
    return (vf)_mm_max_ps((__m128)bound, (__m128)x);
#elif defined __ARM_NEON
    return (vf)vmaxq_f32((float32x4_t)bound, (float32x4_t)x);
#else
    return vf_select(bound > x, bound, x);
#endif
}

MBA_SIMD vf vf_min(vf bound, vf x)
{
#if defined __AVX512F__
    return (vf)_mm512_min_ps((__m512)bound, (__m512)x);
#elif defined __AVX2__
    return (vf)_mm256_min_ps((__m256)bound, (__m256)x);
#elif defined __SSE2__
    return (vf)_mm_min_ps((__m128)bound, (__m128)x);
#elif defined __ARM_NEON
    return (vf)vminq_f32((float32x4_t)bound, (float32x4_t)x);
#else
    return vf_select(bound < x, bound, x);
#endif
}

MBA_SIMD vf vf_sqrt(vf x) /* rounded correctly */
{
#if defined __AVX512F__
    return (vf)_mm512_sqrt_ps((__m512)x);
#elif defined __AVX2__
    return (vf)_mm256_sqrt_ps((__m256)x);
#elif defined __SSE2__
    return (vf)_mm_sqrt_ps((__m128)x);
#elif defined __ARM_NEON
    return (vf)vsqrtq_f32((float32x4_t)x);
#else
    for (int i = 0; i < MBA_LANES; i++) x[i] = __builtin_sqrtf(x[i]);
    return x;
#endif
}

MBA_SIMD vf vf_rcp(vf x) { return 1.0f / x; } /* rounded correctly: a true division */

/* Sum and maximum of the lanes, neighbours first, always in this order. */
MBA_SIMD float vf_sum(vf x)
{
#ifdef __ARM_NEON
    return vaddvq_f32((float32x4_t)x);
#else
    float s[MBA_LANES];
    __builtin_memcpy(s, &x, sizeof x);
    for (int n = MBA_LANES / 2; n; n /= 2)
        for (int i = 0; i < n; i++) s[i] = s[2 * i] + s[2 * i + 1];
    return s[0];
#endif
}

/* The sums of four vectors as one vector: cheaper than four sums. */
MBA_SIMD v4 vf_sum4(vf a, vf b, vf c, vf d)
{
#if defined __AVX2__
#ifdef __AVX512F__
    const __m512d x[4] = { (__m512d)a, (__m512d)b, (__m512d)c, (__m512d)d };
    __m256        h[4];
    for (int i = 0; i < 4; i++) h[i] = (__m256)_mm512_castpd512_pd256(x[i]) + (__m256)_mm512_extractf64x4_pd(x[i], 1);
#else
    const __m256 h[4] = { (__m256)a, (__m256)b, (__m256)c, (__m256)d };
#endif
    const __m256 s = _mm256_hadd_ps(_mm256_hadd_ps(h[0], h[1]), _mm256_hadd_ps(h[2], h[3]));
    return (v4)_mm256_castps256_ps128(s) + (v4)_mm256_extractf128_ps(s, 1);
#elif defined __ARM_NEON
    return (v4)vpaddq_f32(vpaddq_f32((float32x4_t)a, (float32x4_t)b), vpaddq_f32((float32x4_t)c, (float32x4_t)d));
#else
    return (v4){ vf_sum(a), vf_sum(b), vf_sum(c), vf_sum(d) };
#endif
}

MBA_SIMD float vf_max_lanes(vf x)
{
    float m = x[0];
    for (int i = 1; i < MBA_LANES; i++) m = x[i] > m ? x[i] : m;
    return m;
}

/* ---- exponentials ----
 * x = n ln 2 + r with n the nearest integer. n is in the low bits of x log2 e + 1.5 * 2^23, where addition rounds to
 * integers. 2 exp(r) is a polynomial, 2^(n-1) an exponent shifted into place; the factor 2 makes the last product
 * overflow to infinity exactly where exp does. */
#define MBA__ROUND 0x1.8000fcp23f /* 1.5 * 2^23 + 126: its low bits are the bias, less one */

MBA_SIMD vf mba__exp2_half(vf t) /* 2^(n-1), from n + MBA__ROUND; 0 for n = -126 */ { return (vf)((vu)t << 23); }

/* c[0] + c[1] r + .. + c[5] r^5 in pairs: a shorter dependency chain than Horner's rule and, on NEON (whose
 * multiply-add overwrites its addend), half the register copies. */
MBA_SIMD vf mba__poly5(vf r, float c0, float c1, float c2, float c3, float c4, float c5)
{
    const vf rr = r * r;
    return rr * (rr * (r * c5 + c4) + (r * c3 + c2)) + (r * c1 + c0);
}

/* e^x, any x: 3 ulp; 0 below -86.98 (results under 2^-125.5), infinity above 88.72. */
MBA_SIMD vf vf_exp(vf x)
{
    x = vf_min(vf_set(89.0f), vf_max(vf_set(-87.3f), x));
    const vf t = x * 0x1.715476p0f + MBA__ROUND, n = t - MBA__ROUND;
    const vf r = (x - n * 0x1.62ep-1f) - n * 0x1.0bfbe8p-15f; // n times the first is exact
    return mba__exp2_half(t)
           * mba__poly5(r, 2.0f, 2.0f, 0x1.fffdfcp-1f, 0x1.5557acp-2f, 0x1.572a1ap-4f, 0x1.1063f4p-6f);
}

/* 2^x for x <= 0 (no check from 128 on): 3 ulp; 0 from -125.5 down. If many exponentials share a factor, multiply that
 * factor by log2 e once: exp(d a) = exp2(d (a log2 e)). */
MBA_SIMD vf vf_exp2_neg(vf x)
{
    x = vf_max(vf_set(-126.0f), x);
    const vf t = x + MBA__ROUND, r = x - (t - MBA__ROUND);
    return mba__exp2_half(t)
           * mba__poly5(r, 2.0f, 0x1.62e42ap0f, 0x1.ebf9c2p-2f, 0x1.c6b6dcp-4f, 0x1.3ce8bep-6f, 0x1.5bd88p-9f);
}

/* ---- the logarithm behind softplus ---- */

/* ln(1 + x) for 0 <= x <= 1 only: 1.6 ulp, without division. */
MBA_SIMD vf vf_log1p_unit(vf x)
{
    const vf xx = x * x, x4 = xx * xx;
    const vf low = xx * (x * -0x1.3a43ep-3f + 0x1.934b6ep-3f) + (x * -0x1.ff23e8p-3f + 0x1.554ddp-2f);
    const vf high = xx * (x * -0x1.af5e2p-9f + 0x1.49211cp-6f) + (x * -0x1.d6b75ep-5f + 0x1.b4b094p-4f);
    return xx * (x * (x4 * high + low) - 0x1.ffffd2p-2f) + x;
}

/* ---- activations ---- */

/* 1 / (1 + e^-t), any t: 4 ulp; 0 below -88.72. */
MBA_SIMD vf vf_sigmoid(vf t) { return 1.0f / (1.0f + vf_exp(-t)); }

/* ln(1 + e^t), and t itself above 20: 3.5 ulp; 0 below -86.98. */
MBA_SIMD vf mba__softplus_from(vf t, vf e) /* e = exp(-|t|) */
{
    return vf_select(t > 20.0f, t, vf_max(vf_set(0), t) + vf_log1p_unit(e));
}

MBA_SIMD vf vf_softplus(vf t) { return mba__softplus_from(t, vf_exp(-vf_abs(t))); }

/* softplus, and its derivative, the sigmoid (4 ulp), from the same exponential; both are 0 below -86.98. */
MBA_SIMD vf vf_softplus_and_slope(vf t, vf *slope)
{
    const vf e = vf_exp(-vf_abs(t));
    *slope = vf_select(t < 0.0f, e, vf_set(1)) / (1.0f + e);
    return mba__softplus_from(t, e);
}

/* t sigmoid(t), finite t: 4.5 ulp; -0 below -88.72. */
MBA_SIMD vf vf_silu(vf t) { return t * vf_sigmoid(t); }

/* silu, and its derivative sigma (1 + t (1 - sigma)), which has a zero at -1.278: within 4 * 2^-24. 1 - sigma is
 * computed as sigma e^-t, which is accurate for large t. */
MBA_SIMD vf vf_silu_and_slope(vf t, vf *slope)
{
    const vf e = vf_exp(vf_min(vf_set(80.0f), -t)), s = 1.0f / (1.0f + e);
    *slope = s + s * s * (t * e);
    return t * s;
}

/* ---- the normal distribution ---- */

/* exp(a^2) erfc(a) = t P(t) with t = 1 / (1 + 0.3 a), for 0 <= a <= 9.5 (beyond, exp(-a^2) is 0): 2e-8. */
MBA_SIMD vf mba__erfcx(vf t)
{
    const vf tt = t * t, t4 = tt * tt;
    const vf low = tt * (t * 0x1.b72a8ap-3f + 0x1.301784p-3f) + (t * 0x1.5d93bep-3f + 0x1.5a8016p-3f);
    const vf high = tt * (t * 0x1.f0bd3ep-2f - 0x1.05bf9ap-1f) + (t * 0x1.17c13cp-1f - 0x1.7f8446p-4f);
    return t * (t4 * (t4 * -0x1.0914c8p-3f + high) + low);
}

/* The normal distribution function (1 + erf(x / sqrt 2)) / 2 and its density exp(-x^2/2) / sqrt(2 pi): 8 + x^2 ulp
 * each, also far below zero, where 1 + erf would lose all digits; 0 below -13.1. */
MBA_SIMD vf vf_normal_cdf(vf x, vf *density)
{
    const vf a = vf_abs(x), e = vf_exp(x * x * -0.5f);
    const vf q = 0.5f * e * mba__erfcx(1.0f / (1.0f + 0x1.b27248p-3f * a)); // 0.3 / sqrt 2
    *density = e * 0x1.988454p-2f;
    return vf_select(x < 0.0f, q, 1.0f - q);
}

#endif
