// SPDX-License-Identifier: Apache-2.0
/* profile_prediction.c -- see profile_prediction.h. */
#include "study/profile_prediction.h"

#include "study/simulated_step.h"
#include "study/validation.h"

/* For the unchanged H200 the errors of its kernels include the spreads of its numbers. */
mba_status mba_profile_sum_begin(mba_profile_sum *s, const mba_gpu *m)
{
    *s = (mba_profile_sum){ .draws = mba_simulated_grade(m) != 'B' };
    return mba_validation_foreign(&s->kernels, &s->steps);
}

static mba_status draw(double times[MBA_GPU_SAMPLES], const mba_profiled_kernel *c, const mba_gpu *m)
{
    double undrawn = 0;
    for (int i = -1; i < MBA_GPU_SAMPLES; i++) {
        mba_gpu        drawn = *m;
        mba_sim_kernel k;
        mba_sim_result r;
        if (i >= 0) mba_gpu_sample(&drawn, m, i);
        MBA_TRY(mba_profiled_lower(&k, c, &drawn));
        MBA_TRY(mba_sim_run(&r, &k, &drawn, MBA_SIM_FAST));
        if (i < 0) undrawn = r.seconds;
        else times[i] = r.seconds / undrawn;
    }
    return MBA_OK;
}

mba_status mba_profile_predict(mba_profile_prediction *out, mba_profile_sum *s, const mba_profiled_kernel *c,
                               const mba_gpu *m)
{
    double                times[MBA_GPU_SAMPLES];
    const mba_sim_result *r = &out->result;
    MBA_TRY(mba_profiled_lower(&out->kernel, c, m));
    MBA_TRY(mba_sim_run(&out->result, &out->kernel, m, MBA_SIM_ONE_SM));
    const double us = 1e6 * r->seconds;
    for (int i = 0; i < MBA_GPU_SAMPLES; i++) times[i] = 1;
    if (s->draws) MBA_TRY(draw(times, c, m));
    for (int i = 0; i < MBA_GPU_SAMPLES; i++) s->drawn_us[i] += c->launches * us * times[i];
    out->band = mba_band_combine(s->kernels.of[mba_sim_limiter_of(r->limit, 1e6 * r->bound[r->limit], us)].band,
                                 mba_band_of_samples(times));
    s->us += c->launches * us;
    s->measured_us += c->launches * c->us;
    return MBA_OK;
}

mba_band mba_profile_sum_band(const mba_profile_sum *s)
{
    double times[MBA_GPU_SAMPLES];
    for (int i = 0; i < MBA_GPU_SAMPLES; i++) times[i] = s->drawn_us[i] / s->us;
    return s->draws ? mba_band_combine(s->steps, mba_band_of_samples(times)) : s->steps;
}
