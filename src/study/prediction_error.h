// SPDX-License-Identifier: Apache-2.0
/* prediction_error.h -- errors of the simulator for kernels that it knows by their counters alone, as `simulate
 * --store` and `--counted` print them.
 *
 *     mba_prediction_error *e;
 *     MBA_TRY(mba_prediction_error_of_store(&e, &kernels));      // simulated on the GPU they were profiled on
 *     if (e->machine) printf("%.1f %%", e->mean);
 *     mba_prediction_error_destroy(e);
 *
 * No prediction depends on these errors. */
#ifndef MBA_STUDY_PREDICTION_ERROR_H
#define MBA_STUDY_PREDICTION_ERROR_H

#include "study/store_kernels.h"

typedef struct mba_prediction_error {
    const char *machine; /* the machine file that was simulated; NULL: that GPU has none */
    char        worst_kernel[192];
    int         n;
    double      mean, p90, worst; /* percent, absolute */
    double      sum;              /* percent, signed, of all launches of a step together */
    double     *percent;          /* signed, of kernel i; NaN without a machine file */
} mba_prediction_error;

/* The built-in machine file for a GPU's name ("NVIDIA H200": h200), or NULL. The name must contain the machine as a
 * whole word: a GH200 has other memory than an H200. */
const char *mba_machine_for_gpu(const char *gpu);

/* Kernels of a store, on the GPU that was profiled. */
MBA_MUST mba_status mba_prediction_error_of_store(mba_prediction_error **out, const mba_store_kernels *s);

/* Our held-out kernels (sim/data/kernels), without their SASS, on the H200. */
MBA_MUST mba_status mba_prediction_error_held_out(mba_prediction_error **out);

void mba_prediction_error_destroy(mba_prediction_error *o); /* NULL is fine */

#endif
