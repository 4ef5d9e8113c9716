// SPDX-License-Identifier: Apache-2.0
/* run_folder.h -- the folder of a run (`train --out`): finds the folder of a checkpoint and keeps the run's options.
 *
 *   options.json     { "version": 1, "command": "train", "options": { "--model": "mamba2-130m", "--lr": 0.001, .. } }:
 *                    every option of the run as it was last started; null: not set
 *   log.jsonl        one line per step (train.h)
 *   step-*           checkpoints; "options" of their trainer.json is the same object, as of the time it was saved
 *   best             the checkpoint with the lowest validation loss so far
 */
#ifndef MBA_RUN_FOLDER_H
#define MBA_RUN_FOLDER_H

#include <stddef.h>

#include <jansson.h>

#include "core/status.h"

/* Finds the run that --resume names, directly or by one of its checkpoints; "": the checkpoint lies in no run
 * folder. */
MBA_MUST mba_status mba_run_folder(char *out, size_t room, const char *resume);

MBA_MUST mba_status mba_run_options_save(const json_t *options, const char *folder);

/* The options of a run folder, and of a checkpoint; NULL: it has none. The caller calls json_decref. */
MBA_MUST mba_status mba_run_options_load(json_t **out, const char *folder);
MBA_MUST mba_status mba_checkpoint_options(json_t **out, const char *checkpoint);

/* The CPU kernels that trained a checkpoint (mba_cpu_kernels); "": a GPU trained it, or the file does not say. */
MBA_MUST mba_status mba_checkpoint_kernels(char *out, size_t room, const char *checkpoint);

#endif
