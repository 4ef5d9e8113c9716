// SPDX-License-Identifier: Apache-2.0
/* rotary_cpu.c -- rotary on the CPU: a table of cos and sin per position, then rows in parallel.
 *
 * Angles are fp64. Within SPAN positions they advance by a rotation in fp64 instead of two function calls: this costs
 * an error of SPAN * 2^-53 and is forty times cheaper. */
#include <math.h>
#include <string.h>

#include "ops/heads.h"
#include "ops/rotary/rotary_slots.h"

enum { SPAN = 64 };

/* Fills positions from .. from+count-1 of pair j: cos at table[t][j], sin at table[t][half + j]. */
static void fill_pair(float *table, const rotary_attr *a, int64_t j, int64_t from, int64_t count)
{
    const int64_t half = a->dims / 2;
    const double  step = a->sign * pow(a->base, -2.0 * (double)j / (double)a->dims);
    const double  start = step * (double)(a->first + from), cs = cos(step), sn = sin(step);
    double        c = cos(start), s = sin(start);
    for (int64_t t = from; t < from + count; t++) {
        table[t * a->dims + j] = (float)c;
        table[t * a->dims + half + j] = (float)s;
        const double next = c * cs - s * sn;
        s = s * cs + c * sn;
        c = next;
    }
}

/* Rotates one head. y may be x itself: a pair is read before it is written, and pairs do not overlap. */
#define TURN(P_OF, Q_OF, STORE) \
    _Pragma("omp simd") for (int64_t j = 0; j < half; j++) \
    { \
        const float      u = x[P_OF], v = x[Q_OF]; \
        y[P_OF] STORE u *cs[j] - v *sn[j]; \
        y[Q_OF] STORE v *cs[j] + u *sn[j]; \
    }
static void rotate_pairs(float *y, const float *x, const float *cs, int64_t half, bool interleaved, bool adds)
{
    const float *sn = cs + half;
    if (interleaved && adds) {
        TURN(2 * j, 2 *j + 1, +=)
    } else if (interleaved) {
        TURN(2 * j, 2 *j + 1, =)
    } else if (adds) {
        TURN(j, j + half, +=)
    } else {
        TURN(j, j + half, =)
    }
}

static void pass_through(float *y, const float *x, int64_t n, bool adds)
{
    if (adds) {
        _Pragma("omp simd") for (int64_t k = 0; k < n; k++) y[k] += x[k];
    } else if (y != x) memcpy(y, x, sizeof(float) * (size_t)n);
}

mba_status MBA_CPU_FN(rotary_fwd)(const mba_call *c)
{
    const rotary_attr *a = c->node->attr;
    float             *table = (float *)(c->work + c->plan->scratch[ROTARY_TABLE].offset);
    const bool         adds = mba_adds(c->node, Y);
    const int64_t      half = a->dims / 2;
    mba_heads          x, y;
    mba_assert(mba_heads_of(&x, c->node->in[X]) && mba_heads_of(&y, c->node->out[Y]));
    MBA_PARALLEL_FOR(i, mba_ceil(x.L, SPAN) * half)
    {
        const int64_t from = i / half * SPAN;
        fill_pair(table, a, i % half, from, from + SPAN < x.L ? SPAN : x.L - from);
    }
    MBA_PARALLEL_FOR(i, x.B * x.L)
    {
        const int64_t b = i / x.L, l = i % x.L;
        for (int64_t h = 0; h < x.H; h++) {
            const float *xs = (const float *)c->in[X] + b * x.batch + l * x.row + h * x.head;
            float       *ys = (float *)c->out[Y] + b * y.batch + l * y.row + h * y.head;
            rotate_pairs(ys, xs, table + l * a->dims, half, a->interleaved, adds);
            pass_through(ys + a->dims, xs + a->dims, x.P - a->dims, adds);
        }
    }
    return MBA_OK;
}
