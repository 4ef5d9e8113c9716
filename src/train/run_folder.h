// SPDX-License-Identifier: Apache-2.0
/* run_folder.h -- the folder of a run (`train --out`): which one a checkpoint lies in, and the options of the run.
 *
 *   options.json     { "version": 1, "command": "train", "options": { "--model": "mamba2-130m", "--lr": 0.001, .. } }:
 *                    every option of the run as it was last started; null: not set
 *   log.jsonl        a line per step (train.h)
 *   step-*           checkpoints; "options" of their trainer.json is the same object, as they were when it was saved
 *   best             the checkpoint with the least validation loss so far
 */
#ifndef MBA_RUN_FOLDER_H
#define MBA_RUN_FOLDER_H

#include <stddef.h>

#include <jansson.h>

#include "core/status.h"

/* The run that --resume names, itself or by one of its checkpoints; "": a checkpoint that lies in no run's folder. */
MBA_MUST mba_status mba_run_folder(char *out, size_t room, const char *resume);

MBA_MUST mba_status mba_run_options_save(const json_t *options, const char *folder);

/* Of a run's folder, and of a checkpoint; NULL where a version that kept none has made it. The caller's to
 * json_decref. */
MBA_MUST mba_status mba_run_options_load(json_t **out, const char *folder);
MBA_MUST mba_status mba_checkpoint_options(json_t **out, const char *checkpoint);

/* The kernels of the CPU that trained a checkpoint (mba_cpu_kernels); "": a GPU, or a version that did not say. */
MBA_MUST mba_status mba_checkpoint_kernels(char *out, size_t room, const char *checkpoint);

#endif
