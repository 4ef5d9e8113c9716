// SPDX-License-Identifier: Apache-2.0
/* off.h -- how far kernels that are known by their counts alone are predicted from what they took: the error beside the
 * answers of `simulate --store` and `--counted`.
 *
 *     mba_prediction_error *o;
 *     MBA_TRY(mba_prediction_error_of_store(&o, &stored));            // on the GPU they were counted on, if it has a machine file
 *     if (o->machine) printf("%.1f %%", o->mean);
 *     mba_prediction_error_destroy(o);
 *
 * Nothing that is predicted depends on it. */
#ifndef MBA_CLI_OFF_H
#define MBA_CLI_OFF_H

#include "study/store_kernels.h"

typedef struct mba_prediction_error {
    const char *machine; /* the machine file it was judged on; NULL: none of that GPU */
    char        worst_kernel[192];
    int         n;
    double      mean, p90, worst; /* percent, without sign */
    double      sum;              /* percent, of all launches of a step together */
    double     *percent;          /* of kernel i, with sign */
} mba_prediction_error;

/* The machine that comes with the program for a GPU's name ("NVIDIA H200": h200), or NULL. */
const char *mba_machine_for_gpu(const char *gpu);

/* Kernels of a store, on the GPU that it was counted on. */
MBA_MUST mba_status mba_prediction_error_of_store(mba_prediction_error **out, const mba_store_kernels *s);

/* Those of our kernels that no constant was fitted to (kernels.tsv), on the H200, as if nobody had read their code. */
MBA_MUST mba_status mba_prediction_error_held_out(mba_prediction_error **out);

void mba_prediction_error_destroy(mba_prediction_error *o); /* NULL is fine */

#endif
