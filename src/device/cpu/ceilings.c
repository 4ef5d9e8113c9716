// SPDX-License-Identifier: Apache-2.0
/* ceilings.c -- measures the ceilings of the CPU and computes floors from them (ceilings.h). */
#include "device/cpu/ceilings.h"

#include <omp.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/device.h"

enum { STREAM_FLOATS = 1 << 24, SMALL_FLOATS = 2048, FMA_TRIPS = 1 << 14, EXP_TRIPS = 64 };

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static const mba_ceiling_kernels *kernels(void)
{
#ifdef __x86_64__
    const mba_ceiling_kernels *const all[] = { &mba_ceiling_kernels_base, &mba_ceiling_kernels_avx2,
                                               &mba_ceiling_kernels_avx512 };
    return all[mba_cpu_isa()];
#else
    return &mba_ceiling_kernels_base;
#endif
}

/* Rate of all threads together, each on its own part: total work over the time of the slowest. Memory is shared, so
 * only simultaneous work counts. */
static double together(mba_ceiling_fn *fn, float *x, const float *y, int64_t n, double time_s)
{
    double best = 0;
    for (const double end = seconds() + time_s; seconds() < end;) {
        double       done = 0;
        const double began = seconds();
#pragma omp parallel reduction(+ : done)
        done += fn(x + n * omp_get_thread_num(), y + n * omp_get_thread_num(), n);
        const double rate = done / (seconds() - began);
        if (rate > best) best = rate;
    }
    return best;
}

/* Sum of the best rates of the single threads: cores do not share what is measured here, and another process that takes
 * a core for a moment then spoils one sample, not all. */
static double apart(mba_ceiling_fn *fn, float *x, const float *y, int64_t n, int64_t stride, int repeats, double time_s)
{
    double sum = 0;
#pragma omp parallel reduction(+ : sum)
    {
        const int64_t at = stride * omp_get_thread_num();
        double        best = 0;
        for (const double end = seconds() + time_s; seconds() < end;) {
            double       done = 0;
            const double began = seconds();
            for (int r = 0; r < repeats; r++) done += fn(x + at, y + at, n);
            const double rate = done / (seconds() - began);
            if (rate > best) best = rate;
        }
        sum += best;
    }
    return sum;
}

mba_status mba_ceilings_measure(mba_ceilings *out, double time_s)
{
    const int                  threads = mba_cpu_threads();
    const int64_t              piece = STREAM_FLOATS / threads;
    const mba_ceiling_kernels *k = kernels();
    float                     *x = malloc(sizeof(float) * STREAM_FLOATS), *y = malloc(sizeof(float) * STREAM_FLOATS);
    if (!x || !y) {
        free(x);
        free(y);
        return mba_fail(MBA_E_NOMEM, "no memory to measure the ceilings of this machine\nfix: free %zu MB",
                        2 * sizeof(float) * STREAM_FLOATS >> 20);
    }
    MBA_PARALLEL_FOR(i, STREAM_FLOATS)
    {
        x[i] = 0;
        y[i] = (float)(i % 1009) * 1e-3f - 0.5f;
    }
    *out = (mba_ceilings){ .stream_bytes = together(k->stream, x, y, piece, time_s),
                           .fma_flops = apart(k->fma, x, y, FMA_TRIPS, piece, 1, time_s),
                           .exp_ops = apart(k->exp, x, y, SMALL_FLOATS, piece, EXP_TRIPS, time_s) };
    free(x);
    free(y);
    return MBA_OK;
}

void mba_ceilings_copy(float *to, const float *from, int64_t n, int way)
{
    const int64_t whole = (n + MBA_COPY_ROOM - 1) / MBA_COPY_ROOM;
#pragma omp parallel
    {
        const int64_t threads = omp_get_num_threads(), me = omp_get_thread_num();
        const int64_t first = whole * me / threads * MBA_COPY_ROOM, end = whole * (me + 1) / threads * MBA_COPY_ROOM;
        if (way == 0) kernels()->stream(to + first, from + first, end - first);
        else memcpy(to + first, from + first, sizeof(float) * (size_t)(end - first));
    }
}

double mba_ceilings_floor(const mba_ceilings *c, mba_cost cost)
{
    const double memory = (cost.read_bytes + cost.write_bytes) / c->stream_bytes;
    if (c->tensor_flops > 0) {
        const double part[] = { memory, cost.tensor_flops / c->tensor_flops, cost.vector_flops / c->fma_flops,
                                cost.special_ops / c->exp_ops };
        double       most = 0;
        for (int i = 0; i < 4; i++)
            if (part[i] > most) most = part[i];
        return most;
    }
    const double compute = (cost.tensor_flops + cost.vector_flops) / c->fma_flops + cost.special_ops / c->exp_ops;
    return memory > compute ? memory : compute;
}

bool mba_ceilings_memory_bound(const mba_ceilings *c, mba_cost cost)
{
    return mba_ceilings_floor(c, cost) * c->stream_bytes <= (cost.read_bytes + cost.write_bytes) * 1.0001;
}
