// SPDX-License-Identifier: Apache-2.0
/* samples.h -- `train --sample TEXT`: continues a text at every checkpoint and stores the result in the run, for
 * `report`.
 *
 *     RUN/samples.jsonl    {"step": 500, "prompt": "In the beginning", "text": " was the .."}, a line per checkpoint
 */
#ifndef MBA_CLI_SAMPLES_H
#define MBA_CLI_SAMPLES_H

#include <stdint.h>

#include "core/status.h"

/* Continues `prompt` with the checkpoint's model and appends the line. The random numbers are the same at every step,
 * so that only the model differs between lines. */
MBA_MUST mba_status mba_sample_keep(const char *run, const char *checkpoint, int64_t step, const char *prompt,
                                    uint64_t seed);

/* Removes the lines of an old run in the folder. */
void mba_samples_forget(const char *run);

#endif
