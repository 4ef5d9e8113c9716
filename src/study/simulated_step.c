// SPDX-License-Identifier: Apache-2.0
/* simulated_step.c -- see simulated_step.h. */
#include "study/simulated_step.h"

#include <stdlib.h>
#include <string.h>

#include "scope/clock.h"
#include "study/known_code.h"
#include "study/step_power.h"

const mba_model_options mba_full_size[] = {
    { .name = "mamba-130m", .shape = { .batch = 8, .length = 2048 } },
    { .name = "mamba2-130m", .shape = { .batch = 8, .length = 2048 } },
    { .name = "hybrid-130m", .shape = { .batch = 8, .length = 2048 } },
    { .name = "mambavision-t", .shape = { .batch = 128 } },
    { .name = "graphmamba-peptides-func", .shape = { .graphs = 128 } },
    { 0 },
};

static mba_status options_of(mba_session_options *so, const mba_model_options *m)
{
    MBA_TRY(mba_model_preset(&so->model, m->name));
    MBA_TRY(mba_model_set(&so->model, m->set));
    mba_batch_shape shape = m->shape;
    if (so->model.task == MBA_TASK_TEXT && !shape.batch) shape.batch = 8;
    if (so->model.task == MBA_TASK_TEXT && !shape.length) shape.length = 2048;
    MBA_TRY(mba_model_shape(&so->model, &shape));
    MBA_TRY(mba_precision_apply(m->precision, true, so));
    mba_model complete = so->model;
    return mba_model_complete(&complete);
}

static void put_machine(mba_simulated *r, const mba_gpu *m)
{
    *r = (mba_simulated){ .gpu = *m };
    r->machine = mba_gpu_for_plans(&r->gpu);
    r->device = (mba_device){ .name = "simulated", .machine = &r->machine };
}

mba_status mba_simulated_machine(mba_simulated *r, const char *machine, const char *changes)
{
    mba_gpu m;
    *r = (mba_simulated){ 0 };
    MBA_TRY(mba_gpu_load(&m, machine));
    MBA_TRY(mba_gpu_set(&m, changes));
    put_machine(r, &m);
    return MBA_OK;
}

mba_status mba_simulated_options(mba_session_options *so, const mba_simulated *r, const mba_workload *w)
{
    mba_model_options run = { .recompute = w->model.recompute,
                              .variants = w->model.variants,
                              .threads = w->model.threads };
    *so = (mba_session_options){ .backward = true, .update = true, .adamw = mba_adamw_defaults() };
    MBA_TRY(mba_run_options_apply(&run, so));
    MBA_TRY(options_of(so, &w->model));
    so->device = &r->device;
    so->memory_bytes = INT64_MAX; // plan without a limit; the caller reports whether it fits
    return MBA_OK;
}

static mba_status plan(mba_simulated *r, const mba_workload *w)
{
    mba_session_options so;
    MBA_TRY(mba_simulated_options(&so, r, w));
    return mba_session_plan(&r->session, &so);
}

mba_status mba_simulated_plan(mba_simulated *r, const mba_workload *w)
{
    MBA_TRY(mba_simulated_machine(r, w->machine ? w->machine : "h200", w->changes));
    return plan(r, w);
}

mba_status mba_simulated_plan_on(mba_simulated *r, const mba_workload *w, const mba_gpu *m)
{
    put_machine(r, m);
    return plan(r, w);
}

static mba_sim_how how_of(const mba_workload *w, const mba_gpu *m)
{
    if (w->code) mba_known_code_on(w->code, m);
    return (mba_sim_how){ .passes = MBA_STEP,
                          .stream = w->stream,
                          .persistent = w->persistent,
                          .ring = w->ring,
                          .keep = w->keep,
                          .before_launch = w->code ? mba_known_code_apply : NULL,
                          .of = w->code };
}

mba_status mba_simulated_step(mba_simulated *r, const mba_workload *w, mba_sim *sim)
{
    const mba_sim_how how = how_of(w, &r->gpu);
    r->units = (double)mba_model_units(&r->session.model);
    return mba_sim_program(&r->step, sim, r->session.program, &r->gpu, &how);
}

mba_status mba_simulated_run(mba_simulated *r, const mba_workload *w, mba_sim *sim)
{
    const double began = mba_clock_s();
    MBA_TRY(mba_simulated_plan(r, w));
    MBA_TRY(mba_power_clocks(&r->gpu, w, sim));
    MBA_TRY(mba_simulated_step(r, w, sim));
    r->seconds_taken = mba_clock_s() - began;
    return MBA_OK;
}

/* Writes the seconds of the step, then of every part. */
static void add_parts(double *seconds, const mba_sim_step *step, int32_t nodes, const int *part, int parts)
{
    seconds[0] = step->seconds;
    for (int k = 0; k < parts; k++) seconds[1 + k] = 0;
    for (int32_t i = 0; parts && i < nodes; i++) seconds[1 + part[i]] += step->node[i].seconds;
}

mba_status mba_simulated_draws(double *times, const mba_simulated *r, const mba_workload *w, mba_sim *sim,
                               const int *part, int parts)
{
    mba_sim_how how = how_of(w, &r->gpu);
    double *seconds = calloc((size_t)parts + 1, sizeof *seconds), *undrawn = calloc((size_t)parts + 1, sizeof *undrawn);
    mba_status st = seconds && undrawn ? MBA_OK : mba_fail(MBA_E_NOMEM, "no memory for %d parts of a step", parts);
    how.fidelity = MBA_SIM_FAST;
    how.load = r->step.load;
    for (int i = -1; i < MBA_GPU_SAMPLES && st == MBA_OK; i++) {
        mba_gpu      drawn = r->gpu;
        mba_sim_step step;
        if (i >= 0) mba_gpu_sample(&drawn, &r->gpu, i);
        if (w->code) mba_known_code_on(w->code, &drawn);
        st = mba_sim_program(&step, sim, r->session.program, &drawn, &how);
        if (st != MBA_OK) break;
        add_parts(i < 0 ? undrawn : seconds, &step, r->session.graph->nnodes, part, parts);
        for (int k = 0; k <= parts && i >= 0; k++)
            times[k * MBA_GPU_SAMPLES + i] = undrawn[k] > 0 ? seconds[k] / undrawn[k] : 1;
        mba_sim_step_free(&step);
    }
    free(seconds);
    free(undrawn);
    return st;
}

void mba_simulated_end(mba_simulated *r)
{
    mba_sim_step_free(&r->step);
    mba_session_end(&r->session);
    *r = (mba_simulated){ 0 };
}

char mba_simulated_grade(const mba_gpu *m)
{
    return m->built_in && !m->changed && !strcmp(m->name, "h200") ? 'B' : 'C';
}
