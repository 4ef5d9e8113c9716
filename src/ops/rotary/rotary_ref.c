// SPDX-License-Identifier: Apache-2.0
/* rotary_ref.c -- the reference of rotary: fp64, dense arrays, plain loops. */
#include <math.h>

#include "ops/rotary/rotary_slots.h"

void rotary_ref(const mba_ref_call *c)
{
    const rotary_attr *a = c->node->attr;
    const int64_t     *d = c->node->in[X]->type.dim, L = d[1], H = d[2], P = d[3], half = a->dims / 2;
    for (int64_t i = 0; i < d[0] * L * H; i++) {
        const double *x = c->in[X] + i * P, t = (double)(a->first + i / H % L);
        double       *y = c->out[Y] + i * P;
        for (int64_t k = a->dims; k < P; k++) y[k] = x[k];
        for (int64_t j = 0; j < half; j++) {
            const double  angle = a->sign * t * pow(a->base, -2.0 * (double)j / (double)a->dims);
            const int64_t p = a->interleaved ? 2 * j : j, q = a->interleaved ? 2 * j + 1 : j + half;
            y[p] = x[p] * cos(angle) - x[q] * sin(angle);
            y[q] = x[q] * cos(angle) + x[p] * sin(angle);
        }
    }
}
