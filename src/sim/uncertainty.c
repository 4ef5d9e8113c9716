// SPDX-License-Identifier: Apache-2.0
/* uncertainty.c -- see uncertainty.h: Latin hypercube samples of a machine, and bands from samples and residuals. */
#include "sim/uncertainty.h"

#include <math.h>
#include <string.h>

#include "core/rng.h"
#include "core/sort.h"

/* Midpoints of the upper 32 of 64 equally likely parts of a normal distribution. A table, so that the bits do not
 * depend on a maths library. */
static const double upper[MBA_GPU_SAMPLES / 2] = { 0.019584, 0.058783, 0.098072, 0.137513, 0.177170, 0.217107, 0.257394,
                                                   0.298102, 0.339312, 0.381105, 0.423576, 0.466825, 0.510966, 0.556126,
                                                   0.602449, 0.650104, 0.699283, 0.750215, 0.803173, 0.858484, 0.916557,
                                                   0.977898, 1.043158, 1.113194, 1.189164, 1.272699, 1.366204, 1.473468,
                                                   1.601009, 1.761670, 1.987428, 2.417559 };

static double normal_part(int i)
{
    return i < MBA_GPU_SAMPLES / 2 ? -upper[MBA_GPU_SAMPLES / 2 - 1 - i] : upper[i - MBA_GPU_SAMPLES / 2];
}

/* The part of the distribution that key `k` has in sample `draw`: each key has a random permutation of its own. */
static int part_of(int k, int draw)
{
    const uint64_t stream = mba_stream(mba_gpu_key_seed(k));
    int            order[MBA_GPU_SAMPLES] = { 0 };
    for (int i = 0; i < MBA_GPU_SAMPLES; i++) {
        uint32_t u[4];
        mba_philox(u, stream, 0, (uint64_t)i);
        const int j = (int)(u[0] % (uint32_t)(i + 1));
        order[i] = order[j];
        order[j] = i;
    }
    return order[draw];
}

void mba_gpu_sample(mba_gpu *out, const mba_gpu *m, int draw)
{
    mba_assert(draw >= 0 && draw < MBA_GPU_SAMPLES);
    *out = *m;
    for (int k = 0; k < MBA_GPU_KEYS; k++) {
        const mba_gpu_key_info *key = &mba_gpu_keys[k];
        if (!(m->sigma[k] > 0)) continue;
        const double v = m->v[k] + normal_part(part_of(k, draw)) * m->sigma[k];
        const double step = !strcmp(key->unit, "count") ? 1
                            : k == MBA_GPU_l2_slope     ? 0.5
                                                        : 0, // what a file must have
            near = step > 0 ? step * floor(v / step + 0.5) : v;
        out->v[k] = near < key->least ? key->least : near > key->most ? key->most : near;
    }
}

mba_band mba_band_of_samples(double *times)
{
    enum { OUTSIDE = 6 }; // on either side of 64: 81 % are inside
    mba_sort(times, MBA_GPU_SAMPLES);
    const mba_band b = { times[OUTSIDE], times[MBA_GPU_SAMPLES - 1 - OUTSIDE] };
    return (mba_band){ b.low < 1 ? b.low : 1, b.high > 1 ? b.high : 1 };
}

mba_ratio mba_ratio_of_samples(double ratio, const double *a_times, const double *b_times)
{
    static const double TIE = 0.001;
    double              times[MBA_GPU_SAMPLES];
    mba_ratio           r = { .above = 0 };
    for (int i = 0; i < MBA_GPU_SAMPLES; i++) {
        times[i] = a_times[i] / b_times[i];
        const double x = ratio * times[i];
        r.above += (x > 1 + TIE ? 1.0 : x < 1 - TIE ? 0.0 : 0.5) / MBA_GPU_SAMPLES;
    }
    r.band = mba_band_of_samples(times);
    return r;
}

mba_band mba_band_of_residuals(double *times, int n)
{
    mba_assert(n >= 0);
    const int low = (n + 1) / 10, high = n + 1 - low;
    mba_sort(times, n);
    return (mba_band){ low ? times[low - 1] : 0, high <= n ? times[high - 1] : INFINITY };
}

mba_band mba_band_combine(mba_band a, mba_band b)
{
    const double al = a.low < 1 ? log(a.low) : 0, bl = b.low < 1 ? log(b.low) : 0, // 1 lies inside
        ah = a.high > 1 ? log(a.high) : 0, bh = b.high > 1 ? log(b.high) : 0;
    return (mba_band){ exp(-sqrt(al * al + bl * bl)), exp(sqrt(ah * ah + bh * bh)) };
}
