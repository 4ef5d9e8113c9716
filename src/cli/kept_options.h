// SPDX-License-Identifier: Apache-2.0
/* kept_options.h -- the options of a run as its folder and its checkpoints keep them, and what --resume makes of them.
 *
 *     { "--model": "mamba2-130m", "--batch": 8, "--lr": 0.001, "--data": "shards", "--image": null, .. }
 *
 * One key per option of the command's table that is not MBA_RUN_APART; null: not set. The table says what a resumed run
 * does with each (options.h), so an option that is added there is kept without another word. */
#ifndef MBA_KEPT_OPTIONS_H
#define MBA_KEPT_OPTIONS_H

#include <jansson.h>

#include "cli/options.h"

/* The values that the table points at, the caller's to json_decref. `before`: those of the run that is resumed, from
 * which options that are only noted are taken where they are not given anew; or NULL. */
MBA_MUST mba_status mba_kept_options_write(json_t **out, const mba_option *table, const json_t *before);

/* Options that are not in argv get their values of `last`. Where a value, given or not, is not that of `checkpoint`, it
 * is MBA_E_ARG or a line "--lr 0.001 -> 0.0005" in the list `changes`, as the table says. Texts are lent from
 * `last`. */
MBA_MUST mba_status mba_kept_options_resume(const mba_usage *u, int argc, char **argv, const json_t *last,
                                            const json_t *checkpoint, json_t *changes);

#endif
