// SPDX-License-Identifier: Apache-2.0
/* samples.h -- `train --sample TEXT`: what the model of a checkpoint writes, kept with the run for `report`.
 *
 *     RUN/samples.jsonl    {"step": 500, "prompt": "In the beginning", "text": " was the .."}, a line per checkpoint
 */
#ifndef MBA_CLI_SAMPLES_H
#define MBA_CLI_SAMPLES_H

#include <stdint.h>

#include "core/status.h"

/* Continues `prompt` by the checkpoint and appends the line. The same numbers are drawn at every step, so that only the
 * model differs from line to line. */
MBA_MUST mba_status mba_sample_keep(const char *run, const char *checkpoint, int64_t step, const char *prompt,
                                    uint64_t seed);

/* A new run in the folder begins without the lines of an old one. */
void mba_samples_forget(const char *run);

#endif
