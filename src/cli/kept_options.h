// SPDX-License-Identifier: Apache-2.0
/* kept_options.h -- the options of a run, as its folder and its checkpoints store them, and how --resume uses them.
 *
 *     { "--model": "mamba2-130m", "--batch": 8, "--lr": 0.001, "--data": "shards", "--carry": false, .. }
 *
 * One key per option of the command's table that is not MBA_RUN_APART; null: not set. The table says what a resumed run
 * does with each option (options.h), so that a new option is stored automatically. Former names (aliases) are read
 * too. */
#ifndef MBA_KEPT_OPTIONS_H
#define MBA_KEPT_OPTIONS_H

#include <jansson.h>

#include "cli/options.h"

/* The values that the table points at; the caller calls json_decref. `before`: the options of the resumed run, or NULL;
 * from them come options that are only noted and not given again. */
MBA_MUST mba_status mba_kept_options_write(json_t **out, const mba_option *table, const json_t *before);

/* Options that are not in argv get their values from `last`. If a value differs from that of `checkpoint`, the table
 * decides: MBA_E_ARG, or a line "--lr 0.001 -> 0.0005" in the list `changes`. Texts belong to `last`. */
MBA_MUST mba_status mba_kept_options_resume(const mba_usage *u, int argc, char **argv, const json_t *last,
                                            const json_t *checkpoint, json_t *changes);

#endif
