// SPDX-License-Identifier: Apache-2.0
/* validate_scores.h -- the first tables of `mambascope validate`: SSM kernels weighted by time, steps at every measured
 * size, variants of SSD, each beside models that know nothing. */
#ifndef MBA_CLI_VALIDATE_SCORES_H
#define MBA_CLI_VALIDATE_SCORES_H

#include "cli/table.h"
#include "study/validation_scores.h"

/* Prints kernels by the time they take: text, or the member "weighted" of a JSON object. */
MBA_MUST mba_status mba_print_weighted(const mba_profiled_set *k, mba_table_form form);

/* Prints steps and SSM operators at every measured size and the variants of SSD: text, or the members "sizes",
 * "ssm_sizes" and "variants" of a JSON object. `base`: the predicted steps of measured.tsv. */
MBA_MUST mba_status mba_print_sizes(const mba_measured *base, const mba_measured *sizes, mba_table_form form);

/* Prints the scores of the sealed sets: text, or the member "sealed" of a JSON object. */
MBA_MUST mba_status mba_print_sealed(mba_table_form form);

/* Simulates published measurements and prints their ratios between GPUs. */
MBA_MUST mba_status mba_print_public(mba_table_form form);
MBA_MUST mba_status mba_print_public_links(mba_table_form form); /* bus bandwidths of collectives */

/* Prints the kernels of SSM operators on machines that resident kernels emulate (study/emulated_operators.h): measured
 * ones, or the predictions of all that are planned. */
MBA_MUST mba_status mba_print_emulated(const char *machine, bool planned, mba_table_form form);

#endif
