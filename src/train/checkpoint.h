// SPDX-License-Identifier: Apache-2.0
/* checkpoint.h -- a trained model on disk: a directory as they are published, and what resuming needs beside it.
 *
 *     mba_model m;  mba_hf_format f;
 *     MBA_TRY(mba_checkpoint_config(&m, &f, dir));                 // config.json
 *     MBA_TRY(mba_checkpoint_load(session, f, dir));               // weights, statistics into a bound session
 *     MBA_TRY(mba_checkpoint_save(session, dir, trainer));         // all of it, or nothing
 *
 *   config.json               the model, in its public format where there is one (hf.h)
 *   model.safetensors         weights and running statistics, fp32
 *   tokenizer.json ..         of text: the tokenizer, as Hugging Face keeps it (data/tokenizer_files.h), where it is
 *   known
 *   optimizer.safetensors     m.<parameter>, v.<parameter>, fp32; ema.<name>: the averaged model; carried states
 *   trainer.json              step, data position, guard: everything else an exact resume needs; "options": those of
 *   the run
 *   checksums.json            of all the others (checksums.h)
 *
 * A directory appears under its name only when it is complete. */
#ifndef MBA_CHECKPOINT_H
#define MBA_CHECKPOINT_H

#include <jansson.h>

#include "data/weights.h"
#include "train/hf.h"
#include "train/session.h"

MBA_MUST mba_status mba_checkpoint_config(mba_model *m, mba_hf_format *format, const char *directory);

/* What the user should know of its config.json (hf.h). */
MBA_MUST mba_status mba_checkpoint_notes(mba_hf_notes *out, const char *directory);

/* Every parameter and statistic is found and has its shape, and nothing in the file is left over; else an error. */
MBA_MUST mba_status mba_checkpoint_load(mba_session *s, mba_hf_format format, const char *directory);

/* The same for a network of images that learns other classes: its head keeps the values it has. */
MBA_MUST mba_status mba_checkpoint_load_features(mba_session *s, mba_hf_format format, const char *directory);

/* The averaged model of a run with --ema, instead of the last one. */
MBA_MUST mba_status mba_checkpoint_load_average(mba_session *s, const char *directory);

/* Moments, averages, and trainer.json (the caller's to json_decref). */
MBA_MUST mba_status mba_checkpoint_load_trainer(mba_session *s, const char *directory, json_t **trainer);

/* trainer NULL: only the model. An older directory of the same name is replaced. */
MBA_MUST mba_status mba_checkpoint_save(const mba_session *s, const char *directory, const json_t *trainer);

/* A second name for the files of a checkpoint, in a directory of their own: they stay when the first goes. An older
 * directory of that name is replaced. Fails where the file system has no links. */
MBA_MUST mba_status mba_checkpoint_link(const char *directory, const char *from);

/* The gradients of a session, under the names, shapes and in the pieces in which the weights are stored. */
MBA_MUST mba_status mba_checkpoint_save_grads(const mba_session *s, mba_hf_format format, const char *directory,
                                              const char *path);

/* Removes all but the `keep` newest directories step-* of a run up to step `newest`. Later ones, which somebody put
 * there, are left alone. */
MBA_MUST mba_status mba_checkpoint_prune(const char *run_directory, int64_t keep, int64_t newest);

/* The newest complete step-* of a run, into `out`; an error if there is none. */
MBA_MUST mba_status mba_checkpoint_latest(char *out, size_t room, const char *run_directory);

/* What --resume names, into `out`: `path` where it is a checkpoint, else the newest of the run. */
MBA_MUST mba_status mba_checkpoint_find(char *out, size_t room, const char *path);

/* Whether the files of a checkpoint are all there, can be read and are those that were saved (checksums.h).
 * MBA_E_FORMAT: it is damaged, and mba_message says where; another status says nothing about it. */
MBA_MUST mba_status mba_checkpoint_check(const char *directory);

/* The checksums alone, where there are any; the message names the newest sound checkpoint beside it that is older.
 * `resumes`: the optimizer's too. */
MBA_MUST mba_status mba_checkpoint_verify(const char *directory, bool resumes);

/* For --resume with a run: its newest step-* that is sound, into `out`; "": none. Newer ones that are damaged are
 * renamed to step-*.broken: they would be taken for the newest. `broken` has a line of each, as far as it has room; "":
 * none. */
MBA_MUST mba_status mba_checkpoint_newest_sound(char *out, size_t room, char *broken, size_t broken_room,
                                                const char *run_directory);

/* For a run that goes on and has the least validation loss so far at this step: whether its directory `best` is not of
 * this step, though step-* of it is there. A run that was killed while it replaced `best` has left the older one as
 * best.old, which gets its name back, or goes where the new one stands. */
MBA_MUST mba_status mba_checkpoint_best_missing(bool *missing, const char *run_directory, int64_t step);

/* An error where the directory has a step-* already: a new run there would be mistaken for the old one. */
MBA_MUST mba_status mba_checkpoint_require_empty(const char *run_directory);

/* A run that goes on from the checkpoint `from`, which has `step` steps, may save there: MBA_E_ARG where the directory
 * has checkpoints of another run, or later ones, which the next resume would take instead. */
MBA_MUST mba_status mba_checkpoint_require_successor(const char *run_directory, const char *from, int64_t step);

#endif
