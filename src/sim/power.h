// SPDX-License-Identifier: Apache-2.0
/* power.h -- the power of work at a clock, and the energies that explain measured powers.
 *
 *     const mba_power_rates r = mba_power_rates_of(&step, seconds);
 *     const double watts = mba_power_w(&mba_power_model_of(gpu), &r, ghz / gpu->v[MBA_GPU_clk_boost]);
 *
 * Power is p_idle, plus the energy of vector and tensor work, plus that of DRAM bytes. The first two grow with the
 * square of the voltage, which is linear in the clock: v_floor + (1 - v_floor) x at the fraction x of the boost clock.
 * A special function counts as four vector operations. Bytes of DRAM include their way through L2; what only moves
 * through shared memory and L2 has no term of its own. */
#ifndef MBA_SIM_POWER_H
#define MBA_SIM_POWER_H

#include "sim/step.h"

/* Events per second, in units of 10^12. */
typedef struct mba_power_rates {
    double vector, tensor, dram;
} mba_power_rates;
mba_power_rates mba_power_rates_of(const mba_sim_step *r, double seconds);

typedef struct mba_power_model {
    double idle_w, vector_pj, tensor_pj, dram_pj, v_floor;
} mba_power_model;
mba_power_model mba_power_model_of(const mba_gpu *m); /* the keys of the machine */
double          mba_power_w(const mba_power_model *p, const mba_power_rates *r, double x);

/* A measured power. weight: of its relative error in the fit. */
typedef struct mba_power_point {
    mba_power_rates rates;
    double          x, watts, weight;
} mba_power_point;

/* The model with the least squares of relative errors, none of its energies negative, v_floor a multiple of 0.05. */
mba_power_model mba_power_fit(const mba_power_point *p, int n);

#endif
