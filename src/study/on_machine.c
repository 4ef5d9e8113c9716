// SPDX-License-Identifier: Apache-2.0
/* on_machine.c -- see on_machine.h. */
#include "study/on_machine.h"

#include "study/validation.h"

static double plan_gb(const mba_session *s) { return (double)mba_program_bytes(s->program) / 1e9; }

static mba_status plan_with(mba_session *s, const mba_session_options *so, mba_recompute recompute,
                            int64_t memory_bytes)
{
    mba_session_options o = *so;
    o.recompute = recompute;
    o.memory_bytes = memory_bytes;
    mba_session_end(s);
    return mba_session_plan(s, &o);
}

/* Plans with all activations saved. If that exceeds the limit, plans for the limit; if that fails too, makes the
 * smallest plan. */
static mba_status plan_there(mba_on_machine *m, const mba_session_options *so)
{
    mba_session  *s = &m->sim.session;
    const int64_t limit = so->memory_bytes > 0 ? so->memory_bytes
                                               : (int64_t)(0.9 * (double)m->sim.machine.memory_bytes);
    MBA_TRY(plan_with(s, so, so->recompute, INT64_MAX));
    m->whole_gb = plan_gb(s);
    m->machine_gb = (double)m->sim.machine.memory_bytes / 1e9;
    m->limit_gb = (double)limit / 1e9;
    mba_status st = plan_with(s, so, so->recompute, m->whole_gb > m->limit_gb ? limit : so->memory_bytes);
    m->fits = st == MBA_OK && plan_gb(s) <= m->machine_gb;
    if (st == MBA_E_NOMEM)
        st = plan_with(s, so, so->recompute == MBA_RECOMPUTE_AUTO ? MBA_RECOMPUTE_ON : so->recompute, INT64_MAX);
    if (st == MBA_OK) m->plan_gb = plan_gb(s);
    return st;
}

/* An update is its micro-batches one after another, then the optimizer. */
static mba_status simulate_step(mba_on_machine *m, mba_sim *sim)
{
    mba_sim_step part;
    double       times[MBA_GPU_SAMPLES];
    mba_band     validated;
    MBA_TRY(mba_simulated_step(&m->sim, &(mba_workload){ 0 }, sim));
    m->seconds = m->sim.step.seconds;
    if (m->micros > 1) {
        MBA_TRY(mba_sim_program(&part, sim, m->sim.session.program, &m->sim.gpu,
                                &(mba_sim_how){ .passes = MBA_FORWARD | MBA_BACKWARD }));
        m->seconds += (double)(m->micros - 1) * part.seconds;
        mba_sim_step_free(&part);
    }
    MBA_TRY(mba_simulated_draws(times, &m->sim, &(mba_workload){ 0 }, sim, NULL, 0));
    MBA_TRY(mba_validation_bands(&validated, NULL, sim, NULL));
    m->band = mba_band_combine(mba_band_of_samples(times), validated);
    return MBA_OK;
}

mba_status mba_on_machine_plan(mba_on_machine *m, const char *machine, const mba_session_options *so, int64_t micros)
{
    mba_session_options o = *so;
    mba_sim            *sim = NULL;
    *m = (mba_on_machine){ .micros = micros > 0 ? micros : 1 };
    MBA_TRY(mba_simulated_machine(&m->sim, machine, NULL));
    o.device = &m->sim.device;
    MBA_TRY(plan_there(m, &o));
    if (!m->fits) return MBA_OK;
    mba_status st = mba_sim_create(&sim);
    if (st == MBA_OK) st = simulate_step(m, sim);
    mba_sim_destroy(sim);
    return st;
}

void mba_on_machine_end(mba_on_machine *m)
{
    mba_simulated_end(&m->sim);
    *m = (mba_on_machine){ 0 };
}
