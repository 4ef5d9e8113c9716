// SPDX-License-Identifier: Apache-2.0
/* cross_entropy_rows.h -- the two loops over a row of logits on the CPU, for the losses.
 *
 *     ce_sum s = CE_SUM_NONE;
 *     ce_sum_add(&s, z, V);                             // all at once, or span by span
 *     lse = ce_lse(s);                                  // log sum exp(z)
 *     ce_gradient(dz, z, V, lse, scale, false);         // scale * softmax(z); dz may be z
 */
#ifndef MBA_CROSS_ENTROPY_ROWS_H
#define MBA_CROSS_ENTROPY_ROWS_H

#include <float.h>
#include <math.h>

#include "core/op.h"
#include "device/cpu/simd.h"

/* sum of exp(z - max) over the logits so far. max starts at the smallest finite number, not at -infinity, so that
 * masked logits (-infinity) give exp(-infinity) = 0 and never NaN. */
typedef struct ce_sum {
    double sum;
    float  max;
} ce_sum;
#define CE_SUM_NONE ((ce_sum){ .sum = 0, .max = -FLT_MAX })

enum { CE_SPAN = 2048 }; // 8 KB: the second pass over a span hits L1

MBA_SIMD vf ce_tail(const float *z, int64_t n) // n < MBA_LANES logits; the other lanes are -infinity
{
    vf v = vf_set(-INFINITY);
    for (int64_t i = 0; i < n; i++) v[i] = z[i];
    return v;
}

static inline float ce_max(const float *z, int64_t n)
{
    vf      a = vf_set(-FLT_MAX), b = a, c = a, d = a;
    int64_t i = 0;
    for (; i + 4 * MBA_LANES <= n; i += 4 * MBA_LANES) {
        a = vf_max(a, vf_load(z + i));
        b = vf_max(b, vf_load(z + i + MBA_LANES));
        c = vf_max(c, vf_load(z + i + 2 * MBA_LANES));
        d = vf_max(d, vf_load(z + i + 3 * MBA_LANES));
    }
    for (; i + MBA_LANES <= n; i += MBA_LANES) a = vf_max(a, vf_load(z + i));
    if (i < n) b = vf_max(b, ce_tail(z + i, n - i));
    return vf_max_lanes(vf_max(vf_max(a, b), vf_max(c, d)));
}

static inline float ce_exp_sum(const float *z, int64_t n, float max)
{
    const vf m = vf_set(max);
    vf       a = { 0 }, b = a, c = a, d = a;
    int64_t  i = 0;
    for (; i + 4 * MBA_LANES <= n; i += 4 * MBA_LANES) {
        a += vf_exp(vf_load(z + i) - m);
        b += vf_exp(vf_load(z + i + MBA_LANES) - m);
        c += vf_exp(vf_load(z + i + 2 * MBA_LANES) - m);
        d += vf_exp(vf_load(z + i + 3 * MBA_LANES) - m);
    }
    for (; i + MBA_LANES <= n; i += MBA_LANES) a += vf_exp(vf_load(z + i) - m);
    if (i < n) b += vf_exp(ce_tail(z + i, n - i) - m);
    return vf_sum((a + b) + (c + d));
}

/* Adds n more logits. Memory is read once: the two passes over a span both find it in the cache. */
static inline void ce_sum_add(ce_sum *s, const float *z, int64_t n)
{
    for (int64_t at = 0; at < n; at += CE_SPAN) {
        const int64_t len = at + CE_SPAN < n ? CE_SPAN : n - at;
        const float   top = ce_max(z + at, len);
        if (top > s->max) { // rescale the sum so far to the new maximum
            s->sum *= exp((double)s->max - (double)top);
            s->max = top;
        }
        s->sum += (double)ce_exp_sum(z + at, len, s->max);
    }
}

static inline float ce_lse(ce_sum s) { return (float)((double)s.max + log(s.sum)); }

/* dz = or += k exp(z - lse), in one pass; the caller subtracts k at the target. Four vectors per iteration hide the
 * latency of the exponential. */
static inline void ce_gradient(float *dz, const float *z, int64_t n, float lse, float k, bool adds)
{
    const vf l = vf_set(lse), kv = vf_set(k);
    int64_t  i = 0;
    for (; i + 4 * MBA_LANES <= n; i += 4 * MBA_LANES) {
        vf v[4];
        for (int j = 0; j < 4; j++) v[j] = kv * vf_exp(vf_load(z + i + j * MBA_LANES) - l);
        if (adds)
            for (int j = 0; j < 4; j++) v[j] += vf_load(dz + i + j * MBA_LANES);
        for (int j = 0; j < 4; j++) vf_store(dz + i + j * MBA_LANES, v[j]);
    }
    for (; i < n; i += MBA_LANES) {
        const vf v = kv * vf_exp(vf_load_n(z + i, n - i) - l);
        vf_store_n(dz + i, adds ? vf_load_n(dz + i, n - i) + v : v, n - i);
    }
}

/* Offset of target i. Targets may be columns of a wider batch. */
static inline int64_t ce_at(const mba_tensor *t, int64_t i)
{
    return i < t->run ? i : i / t->run * t->pitch + i % t->run; // dense: no division
}

/* The factor of every row's loss; 0 if no target is valid. */
static inline double ce_scale(const mba_step *step, const mba_tensor *t, const int32_t *target)
{
    int64_t valid = 0;
    for (int64_t r = 0; r < mba_elems(t); r++) valid += target[ce_at(t, r)] >= 0;
    return !valid ? 0 : step->loss_scale > 0 ? (double)step->loss_scale : 1.0 / (double)valid;
}

#endif
