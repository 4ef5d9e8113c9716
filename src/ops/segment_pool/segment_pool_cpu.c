// SPDX-License-Identifier: Apache-2.0
/* segment_pool_cpu.c -- segment_pool on the CPU: graphs in parallel, the rows of each in order. */
#include "ops/segment_pool/segment_pool_slots.h"

static void mean_of(float *y, mba__rows x, int64_t from, int64_t to)
{
    memset(y, 0, sizeof(float) * (size_t)x.cols);
    for (int64_t r = from; r < to; r++) {
        const float *row = mba__row(x, r);
        for (int64_t i = 0; i < x.cols; i++) y[i] += row[i];
    }
    const float k = to > from ? 1 / (float)(to - from) : 0;
    for (int64_t i = 0; i < x.cols; i++) y[i] *= k;
}

/* Of equal maxima the first wins. NaN wins over any number, so that it stays visible. */
static void max_of(float *y, int32_t *arg, mba__rows x, int64_t from, int64_t to)
{
    for (int64_t i = 0; i < x.cols; i++) arg[i] = (int32_t)from;
    if (from < to) memcpy(y, mba__row(x, from), sizeof(float) * (size_t)x.cols);
    else memset(y, 0, sizeof(float) * (size_t)x.cols);
    for (int64_t r = from + 1; r < to; r++) {
        const float *row = mba__row(x, r);
        for (int64_t i = 0; i < x.cols; i++) {
            const bool more = row[i] > y[i] || row[i] != row[i];
            arg[i] = more ? (int32_t)r : arg[i];
            y[i] = more ? row[i] : y[i];
        }
    }
}

mba_status MBA_CPU_FN(segment_pool_fwd)(const mba_call *c)
{
    const mba_node *n = c->node;
    const mba__rows x = mba__rows_of(n->in[X], c->in[X]), y = mba__rows_of(n->out[Y], c->out[Y]);
    const int64_t   graphs = mba__valid_entries(n->out[Y], c->step);
    const int32_t  *ptr = c->in[PTR];
    int32_t        *arg = c->out[ARG];
    MBA_PARALLEL_TILES(s, graphs)
    if (arg) max_of(mba__row(y, s), arg + s * x.cols, x, ptr[s], ptr[s + 1]);
    else mean_of(mba__row(y, s), x, ptr[s], ptr[s + 1]);
    mba__zero_rows(y, graphs, mba_rows(n->out[Y]));
    return MBA_OK;
}

static void mean_back(mba__rows dx, const float *dy, int64_t from, int64_t to, bool adds)
{
    const float k = 1 / (float)(to - from);
    for (int64_t r = from; r < to; r++) {
        float *row = mba__row(dx, r);
        for (int64_t i = 0; i < dx.cols; i++) row[i] = k * dy[i] + (adds ? row[i] : 0);
    }
}

static void max_back(mba__rows dx, const float *dy, const int32_t *arg, int64_t from, int64_t to, bool adds)
{
    if (!adds) mba__zero_rows(dx, from, to);
    for (int64_t i = 0; i < dx.cols && from < to; i++) mba__row(dx, arg[i])[i] += dy[i];
}

mba_status MBA_CPU_FN(segment_pool_bwd)(const mba_call *c)
{
    const mba_node *n = c->node;
    const mba__rows dy = mba__rows_of(n->in[DY], c->in[DY]), dx = mba__rows_of(n->out[DX], c->out[DX]);
    const int64_t   graphs = mba__valid_entries(n->in[DY], c->step);
    const int32_t  *ptr = c->in[PTRB], *arg = c->in[ARGB];
    const bool      adds = mba_adds(n, DX);
    MBA_PARALLEL_TILES(s, graphs)
    if (arg) max_back(dx, mba__row(dy, s), arg + s * dy.cols, ptr[s], ptr[s + 1], adds);
    else mean_back(dx, mba__row(dy, s), ptr[s], ptr[s + 1], adds);
    if (!adds) mba__zero_rows(dx, ptr[graphs], mba_rows(n->out[DX]));
    return MBA_OK;
}
