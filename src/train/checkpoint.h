// SPDX-License-Identifier: Apache-2.0
/* checkpoint.h -- saves and loads a trained model: a directory in a published format, with what resuming needs beside
 * it.
 *
 *     mba_model m;  mba_hf_format f;
 *     MBA_TRY(mba_checkpoint_config(&m, &f, dir));                 // config.json
 *     MBA_TRY(mba_checkpoint_load(session, f, dir));               // weights and statistics into a bound session
 *     MBA_TRY(mba_checkpoint_save(session, dir, trainer, NULL));   // all of it, or nothing
 *
 *   config.json               the model, in its public format if there is one (hf.h)
 *   model.safetensors         weights and running statistics, fp32
 *   tokenizer.json ..         of text: the tokenizer in the format of Hugging Face (data/tokenizer_files.h), if known
 *   optimizer.safetensors     m.<parameter>, v.<parameter>, fp32; ema.<name>: the averaged model; carried states
 *   trainer.json              step, data position, guard: what else an exact resume needs; "options": those of the run
 *   checksums.json            checksums of all the others (checksums.h)
 *
 * A directory appears under its name only when it is complete. */
#ifndef MBA_CHECKPOINT_H
#define MBA_CHECKPOINT_H

#include <jansson.h>

#include "data/weights.h"
#include "train/hf.h"
#include "train/session.h"

MBA_MUST mba_status mba_checkpoint_config(mba_model *m, mba_hf_format *format, const char *directory);

/* Notes for the user about its config.json (hf.h). */
MBA_MUST mba_status mba_checkpoint_notes(mba_hf_notes *out, const char *directory);

/* Fails unless every parameter and statistic is in the file with its shape, and nothing else is. */
MBA_MUST mba_status mba_checkpoint_load(mba_session *s, mba_hf_format format, const char *directory);

/* The same for an image model that learns other classes: its head keeps its current values. */
MBA_MUST mba_status mba_checkpoint_load_features(mba_session *s, mba_hf_format format, const char *directory);

/* Loads the averaged model of a run with --ema instead of the last one. */
MBA_MUST mba_status mba_checkpoint_load_average(mba_session *s, const char *directory);

/* Loads moments, averages, and trainer.json, for which the caller calls json_decref. */
MBA_MUST mba_status mba_checkpoint_load_trainer(mba_session *s, const char *directory, json_t **trainer);

/* Saves everything; only the model if `trainer` is NULL. Replaces an older directory of the same name. Of several ranks
 * all must call it, and all write (checkpoint_ranks.h); *apart, which one rank leaves alone and may be NULL for it,
 * says whether they do not share the directory. */
MBA_MUST mba_status mba_checkpoint_save(const mba_session *s, const char *directory, const json_t *trainer,
                                        bool *apart);

/* Creates a directory with hard links to the files of a checkpoint, which stay when the first directory is removed.
 * Replaces an older directory of that name. Fails if the file system has no links. */
MBA_MUST mba_status mba_checkpoint_link(const char *directory, const char *from);

/* Saves the gradients of a session with the names, shapes and slices of the stored weights. */
MBA_MUST mba_status mba_checkpoint_save_grads(const mba_session *s, mba_hf_format format, const char *directory,
                                              const char *path);

/* Removes all but the `keep` newest directories step-* of a run up to step `newest`. Later ones are not from this run
 * and stay. */
MBA_MUST mba_status mba_checkpoint_prune(const char *run_directory, int64_t keep, int64_t newest);

/* Finds the newest complete step-* of a run; fails if there is none. */
MBA_MUST mba_status mba_checkpoint_latest(char *out, size_t room, const char *run_directory);

/* Finds the checkpoint that --resume names: `path` itself, or the newest checkpoint of that run. */
MBA_MUST mba_status mba_checkpoint_find(char *out, size_t room, const char *path);

/* Checks that all files of a checkpoint exist, can be read and are those that were saved (checksums.h). MBA_E_FORMAT
 * means that it is damaged, and mba_message says where; other failures say nothing about the checkpoint. */
MBA_MUST mba_status mba_checkpoint_check(const char *directory);

/* Checks only the checksums, if there are any; with `resumes` also those of the optimizer. The message of a failure
 * names the newest older checkpoint beside it that is sound. */
MBA_MUST mba_status mba_checkpoint_verify(const char *directory, bool resumes);

/* For --resume with a run: finds its newest sound step-*; "": none. Renames newer, damaged ones to step-*.broken, so
 * that nobody takes them for the newest. `broken` receives one line for each, as far as there is room; "": none. */
MBA_MUST mba_status mba_checkpoint_newest_sound(char *out, size_t room, char *broken, size_t broken_room,
                                                const char *run_directory);

/* For a resumed run whose lowest validation loss is at `step`: *missing is true if its directory `best` is not of that
 * step although its step-* exists. If a run was killed while it replaced `best`, the older one remains as best.old: it
 * gets its name back, or is removed if the new one is complete. */
MBA_MUST mba_status mba_checkpoint_best_missing(bool *missing, const char *run_directory, int64_t step);

/* Fails if the directory already has a step-*: it would be taken for one of the new run. */
MBA_MUST mba_status mba_checkpoint_require_empty(const char *run_directory);

/* Fails with MBA_E_ARG unless a run that resumes from the checkpoint `from`, which has `step` steps, may save into the
 * directory: it must not have checkpoints of another run, nor later ones, which the next resume would take. */
MBA_MUST mba_status mba_checkpoint_require_successor(const char *run_directory, const char *from, int64_t step);

#endif
