// SPDX-License-Identifier: Apache-2.0
/* known_code.h -- launch plans with what is known of a kernel's code: the instructions, wavefronts and sectors of
 * another launch of the same kernel, counted on the H200, and the stalls and dependences of its SASS.
 *
 *     mba_known_code *c;
 *     MBA_TRY(mba_known_code_load(&c));
 *     mba_workload w = { .machine = "h200", .model = { .name = "mamba2-130m" }, .code = c };
 *     MBA_TRY(mba_simulated_run(&r, &w, sim));
 *     mba_known_code_free(c);
 *
 * A plan says how much a launch does, code says what that takes. The plan of the counted launch is known, too: counts
 * are scaled by the ratio of the two plans, pipe by pipe. No measured time enters. Kernels that were never counted,
 * kernels of libraries and launches of fewer warps than the GPU has schedulers keep their plan. */
#ifndef MBA_STUDY_KNOWN_CODE_H
#define MBA_STUDY_KNOWN_CODE_H

#include "sim/profiled.h"
#include "study/simulated_step.h"

/* Reads the built-in counted kernels. Plans of counted launches are made when a kernel first asks for them. */
MBA_MUST mba_status mba_known_code_load(mba_known_code **out);
void                mba_known_code_free(mba_known_code *c); /* NULL is fine */

/* Launches that were counted in this workload teach nothing from now on, for validation; NULL: all do. */
void mba_known_code_leave_out(mba_known_code *c, const char *workload);

/* The machine of the launches that follow. */
void mba_known_code_on(mba_known_code *c, const mba_gpu *m);

/* mba_sim_how.before_launch: `of` is the mba_known_code. A launch whose code is known is `counted` afterwards. */
void mba_known_code_apply(void *of, const mba_program *p, int32_t node, int launch, mba_sim_kernel *k);

#endif
