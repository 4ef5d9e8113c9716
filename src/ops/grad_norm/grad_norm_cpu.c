// SPDX-License-Identifier: Apache-2.0
/* grad_norm_cpu.c -- grad_norm on the CPU: fixed blocks in parallel, each summed in double, then the blocks in
 * order. */
#include <math.h>

#include "ops/grad_norm/grad_norm_slots.h"

enum { LANES = 16 }; // independent sums, which the compiler vectorises

static double squares(const float *g, int64_t n)
{
    double  s[LANES] = { 0 };
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int j = 0; j < LANES; j++) s[j] += (double)g[i + j] * (double)g[i + j];
    for (int j = 0; i < n; i++, j++) s[j] += (double)g[i] * (double)g[i];
    for (int m = LANES / 2; m; m /= 2)
        for (int j = 0; j < m; j++) s[j] += s[j + m];
    return s[0];
}

/* Gathers the sums of all ranks' blocks, bucket by bucket. */
static mba_status gather(const mba_call *c, double *part, int64_t blocks, int64_t bucket)
{
    const int64_t n = bucket / GRAD_NORM_BLOCK;
    for (int64_t b = 0; b < blocks; b += n) MBA_TRY(mba_pieces_gather(c->world, part + b, sizeof *part * (size_t)n));
    return MBA_OK;
}

mba_status MBA_CPU_FN(grad_norm_fwd)(const mba_call *c)
{
    const grad_norm_attr *a = c->node->attr;
    double                sum = 0;
    for (int k = 0, scratch = 0; k < MBA_GROUPS; k++) {
        if (!c->in[k]) continue;
        const int64_t n = mba_elems(c->node->in[k]), blocks = mba_ceil(n, GRAD_NORM_BLOCK);
        const float  *g = c->in[k];
        double       *part = (double *)(void *)(c->work + c->plan->scratch[scratch++].offset);
        MBA_PARALLEL_FOR(b, blocks)
        {
            const int64_t from = b * GRAD_NORM_BLOCK, rest = n - from;
            if (grad_norm_owns(a, k, from))
                part[b] = squares(g + from, rest < GRAD_NORM_BLOCK ? rest : GRAD_NORM_BLOCK);
        }
        if (a->place.ranks > 1) MBA_TRY(gather(c, part, blocks, a->b.bucket[k]));
        for (int64_t b = 0; b < blocks; b++) sum += part[b];
    }
    float *norm = c->out[NORM];
    norm[0] = (float)sqrt(sum);
    norm[1] = grad_norm_skips(c->step, norm[0], c->in[LOSS] ? *(const float *)c->in[LOSS] : 0);
    return MBA_OK;
}
