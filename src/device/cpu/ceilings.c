/* ceilings.c -- see ceilings.h. */
#include "device/cpu/ceilings.h"

#include <omp.h>
#include <stdlib.h>
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
    const mba_ceiling_kernels *const all[] = { &mba_ceiling_kernels_base, &mba_ceiling_kernels_avx2, &mba_ceiling_kernels_avx512 };
    return all[mba_cpu_isa()];
#else
    return &mba_ceiling_kernels_base;
#endif
}

/* All threads at once, each on its own piece; the work of all over the time of the slowest. */
static double once(mba_ceiling_fn *fn, float *x, const float *y, int64_t n, int64_t stride, int repeats)
{
    double       done = 0;
    const double began = seconds();
#pragma omp parallel reduction(+ : done)
    {
        const int64_t at = stride * omp_get_thread_num();
        for (int r = 0; r < repeats; r++) done += fn(x + at, y + at, n);
    }
    return done / (seconds() - began);
}

static double best(mba_ceiling_fn *fn, float *x, const float *y, int64_t n, int64_t stride, int repeats, double time_s)
{
    double rate = 0;
    for (const double end = seconds() + time_s; seconds() < end;) {
        const double r = once(fn, x, y, n, stride, repeats);
        if (r > rate) rate = r;
    }
    return rate;
}

mba_ceilings mba_ceilings_measure(double time_s)
{
    const int                  threads = mba_cpu_threads();
    const int64_t              piece   = STREAM_FLOATS / threads;
    const mba_ceiling_kernels *k       = kernels();
    float *x = malloc(sizeof(float) * STREAM_FLOATS), *y = malloc(sizeof(float) * STREAM_FLOATS);
    mba_assert(x && y);
    MBA_PARALLEL_FOR(i, STREAM_FLOATS) {
        x[i] = 0;
        y[i] = (float)(i % 1009) * 1e-3f - 0.5f;
    }
    const mba_ceilings c = { .stream_bytes = best(k->stream, x, y, piece, piece, 1, time_s),
                             .fma_flops    = best(k->fma, x, y, FMA_TRIPS, piece, 1, time_s),
                             .exp_ops      = best(k->exp, x, y, SMALL_FLOATS, piece, EXP_TRIPS, time_s) };
    free(x);
    free(y);
    return c;
}

double mba_ceilings_floor(const mba_ceilings *c, mba_cost cost)
{
    const double memory  = (cost.read_bytes + cost.write_bytes) / c->stream_bytes;
    const double compute = (cost.tensor_flops + cost.vector_flops) / c->fma_flops + cost.special_ops / c->exp_ops;
    return memory > compute ? memory : compute;
}
