// SPDX-License-Identifier: Apache-2.0
/* train_state.c -- what a run keeps on disk: checkpoints with trainer.json, from which it resumes exactly, and
 * log.jsonl. train.c calls these functions; checkpoint.c writes the files of a checkpoint. */
#include "train/train_run.h"

#include <errno.h>
#include <fcntl.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/file.h"
#include "data/array.h"
#include "data/json.h"
#include "ops/ema/ema.h"
#include "train/checkpoint.h"
#include "train/run_folder.h"

enum { PATH_ROOM = 4096 };
static const int64_t STEP_MOST = INT64_C(1) << 48; // a trainer.json that says more is damaged

/* ---- trainer.json ---- */

static json_t *floats(const float *x, int n)
{
    json_t *a = json_array();
    for (int i = 0; i < n; i++) json_array_append_new(a, json_real((double)x[i]));
    return a;
}

static const char *optimizer_name(const mba__run *r) { return r->o->session.optimizer == MBA_LAMB ? "lamb" : "adamw"; }

/* Says whether the run keeps an averaged model: a run that resumed without it would lose it. */
static const char *average_word(const mba__run *r) { return r->s.averages ? "kept (--ema)" : "none"; }

/* True on the CPU, whose kernels are recorded, because others give other bits. --device records a GPU. */
static bool on_cpu(const mba__run *r)
{
    const mba_device *d = r->o->session.device;
    return !d || !strcmp(d->name, mba_device_cpu.name);
}

/* The order of the data. Runs with the same words see the same batches. */
static const char *order_words(const mba__run *r)
{
    const bool documents = r->s.model.task == MBA_TASK_TEXT && r->s.model.lm.documents;
    if (r->o->carry) return documents ? "carried by row, documents" : "carried by row";
    if (r->o->feed.in_order) return documents ? "in order, documents" : "in order";
    return documents ? "shuffled, documents" : "shuffled";
}

static json_t *trainer_json(const mba__run *r)
{
    const mba_position at = r->ahead || r->unread ? r->at : r->train->at;
    mba__json_begin();
    json_t *guard = json_pack("{s:i, s:i, s:i}", "n", r->guard.n, "skipped", r->guard.skipped, "in_a_row",
                              r->guard.in_a_row);
    json_object_set_new(guard, "norm", floats(r->guard.norm, MBA_GUARD_STEPS));
    json_object_set_new(guard, "loss", floats(r->guard.loss, MBA_GUARD_STEPS));
    json_t *t = json_pack("{s:i, s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:s, s:I, s:I, s:o}", "version", 2,
                          "optimizer", optimizer_name(r), "average", average_word(r), "order", order_words(r), "step",
                          (json_int_t)r->step.index, "units", (json_int_t)(r->units_before + r->units), "seed",
                          (json_int_t)r->o->seed, "epoch", (json_int_t)at.epoch, "index", (json_int_t)at.index, "batch",
                          mba_model_batch_words(&r->s.model).text, "micros", (json_int_t)r->slots, "data_size",
                          (json_int_t)r->train->size, "guard", guard);
    if (r->sums) json_object_set_new(t, "sum", json_string("tree"));
    if (r->best_step)
        json_object_set_new(t, "best",
                            json_pack("{s:I, s:f, s:I}", "step", (json_int_t)r->best_step, "loss", r->best_loss,
                                      "valid_batches", (json_int_t)r->o->valid_batches));
    if (r->o->options) json_object_set(t, "options", (json_t *)r->o->options);
    if (on_cpu(r)) json_object_set_new(t, "kernels", json_string(mba_cpu_kernels().text));
    json_object_set_new(t, "data", json_string(mba_feed_words(r->train).text)); // `report` shows it
    return t;
}

/* A call of all ranks. */
static mba_status save_as(mba__run *r, char path[PATH_ROOM], const char *name)
{
    if (snprintf(path, PATH_ROOM, "%s/%s", r->o->out, name) >= PATH_ROOM)
        return mba_fail(MBA_E_ARG, "the path '%s' is too long\nfix: choose a shorter --out", r->o->out);
    json_t    *trainer = trainer_json(r);
    mba_status st = mba_json_whole(trainer, "trainer.json");
    if (st == MBA_OK) st = mba_checkpoint_save(&r->s, path, trainer, &r->apart);
    json_decref(trainer);
    return st;
}

/* Syncs the log first: after a power cut at any time, the log has the lines of all steps before a checkpoint. */
mba_status mba__run_save(mba__run *r)
{
    char path[PATH_ROOM], name[32];
    if (!r->o->out) return MBA_OK;
    mba_world_mark(r->world, -1, MBA_WORLD_ASIDE);
    if (r->log) MBA_TRY(mba_file_sync(fileno(r->log), r->o->out));
    snprintf(name, sizeof name, "step-%06lld", (long long)r->step.index);
    mba_status st = save_as(r, path, name);
    if (st != MBA_OK || !mba__run_writes(r)) return st;
    if (r->o->keep > 0) st = mba_checkpoint_prune(r->o->out, r->o->keep, r->step.index);
    if (st == MBA_OK && r->o->saved) r->o->saved(r->o->ctx, path, r->step.index, r->apart);
    return st;
}

/* `best` lies beside the step-*, which --keep-checkpoints removes. */
mba_status mba__run_save_best(mba__run *r, bool saved)
{
    char path[PATH_ROOM], step[PATH_ROOM];
    bool linked = false;
    if (!r->o->out) return MBA_OK;
    if (mba__run_writes(r) && saved
        && snprintf(step, sizeof step, "%s/step-%06lld", r->o->out, (long long)r->step.index) < PATH_ROOM
        && snprintf(path, sizeof path, "%s/best", r->o->out) < PATH_ROOM)
        linked = mba_checkpoint_link(path, step) == MBA_OK;
    if (saved) MBA_TRY(mba__run_agree_flag(r, &linked, false));
    return linked ? MBA_OK : save_as(r, path, "best");
}

mba_status mba__run_finish_save(mba__run *r)
{
    bool missing = false;
    if (!r->o->out || !r->o->resume) return MBA_OK;
    if (mba__run_writes(r) && r->o->keep > 0) MBA_TRY(mba_checkpoint_prune(r->o->out, r->o->keep, r->step.index));
    if (mba__run_writes(r) && r->best_step) MBA_TRY(mba_checkpoint_best_missing(&missing, r->o->out, r->best_step));
    missing &= r->best_step == r->step.index;
    MBA_TRY(mba__run_agree_flag(r, &missing, false));
    return missing ? mba__run_save_best(r, true) : MBA_OK;
}

static mba_status read_floats(float *x, int n, const json_t *a)
{
    if (!json_is_array(a) || json_array_size(a) != (size_t)n)
        return mba_fail(MBA_E_FORMAT, "the guard state in trainer.json is damaged\nfix: resume from an older "
                                      "checkpoint of the run");
    for (int i = 0; i < n; i++) x[i] = (float)json_number_value(json_array_get(a, (size_t)i));
    return MBA_OK;
}

/* Checks an option that must not change when a run resumes. */
static mba_status same(const json_t *t, const char *key, int64_t now)
{
    int64_t then;
    MBA_TRY(mba_json_int(t, key, now, INT64_MIN, INT64_MAX, &then));
    return then == now ? MBA_OK
                       : mba_fail(MBA_E_ARG,
                                  "the checkpoint was saved with %s %lld, now it is %lld\n"
                                  "fix: give the options of the first run",
                                  key, (long long)then, (long long)now);
}

static mba_status same_words(const json_t *t, const char *key, const char *now)
{
    const char *then;
    MBA_TRY(mba_json_text(t, key, "", &then));
    return !strcmp(then, now)
               ? MBA_OK
               : mba_fail(
                   MBA_E_ARG,
                   "the checkpoint was saved with %s '%s', now it is '%s'\nfix: give the options of the first run", key,
                   mba_quote(then).text, now);
}

/* The micro-batches of a step over all ranks, and how they are added. */
static mba_status same_slots(const mba__run *r, const json_t *t)
{
    int64_t     then;
    const char *sum;
    MBA_TRY(mba_json_int(t, "micros", r->slots, 1, INT32_MAX, &then));
    if (then != r->slots)
        return mba_fail(
            MBA_E_ARG,
            "the checkpoint was saved with %lld micro-batches a step, now it is %lld\nwhy: %lld on each of "
            "%lld rank(s)\nfix: --micro-batches %lld/ranks, or start the run with --global-batch, which any "
            "number of ranks divides",
            (long long)then, (long long)r->slots, (long long)r->micros, (long long)(r->slots / r->micros),
            (long long)then);
    MBA_TRY(mba_json_text(t, "sum", "chain", &sum));
    const char *now = r->sums ? "tree" : "chain";
    return !strcmp(sum, now) || r->slots == 1
               ? MBA_OK
               : mba_fail(MBA_E_ARG,
                          "the checkpoint was saved with --sum %s, now it is %s\nfix: --sum %s, or the same number of "
                          "ranks",
                          mba_quote(sum).text, now, mba_quote(sum).text);
}

/* Restores the best loss, unless the validation has changed: losses over other batches cannot be compared. */
static mba_status restore_best(mba__run *r, const json_t *best)
{
    int64_t batches;
    if (!best || r->o->other_data) return MBA_OK;
    MBA_TRY(mba_json_int(best, "valid_batches", 0, 0, INT64_MAX, &batches));
    if (batches != r->o->valid_batches) return MBA_OK;
    MBA_TRY(mba_json_int(best, "step", 0, 0, STEP_MOST, &r->best_step));
    return mba_json_real(best, "loss", 0, -DBL_MAX, DBL_MAX, &r->best_loss);
}

static mba_status restore_trainer(mba__run *r, const json_t *t)
{
    int64_t n, skipped, in_a_row, size;
    MBA_TRY(same(t, "version", 2));
    MBA_TRY(same(t, "seed", (int64_t)r->o->seed));
    MBA_TRY(same_words(t, "batch", mba_model_batch_words(&r->s.model).text));
    MBA_TRY(same_words(t, "optimizer", optimizer_name(r)));
    if (mba_json_get(t, "average")) MBA_TRY(same_words(t, "average", average_word(r))); // older files lack "average",
    if (mba_json_get(t, "order")) MBA_TRY(same_words(t, "order", order_words(r)));      // "order" and "units"
    MBA_TRY(same_slots(r, t));
    MBA_TRY(mba_json_int(t, "data_size", r->train->size, 0, INT64_MAX, &size));
    if (!r->o->other_data) MBA_TRY(same(t, "data_size", r->train->size));
    MBA_TRY(mba_json_int(t, "step", 0, 0, STEP_MOST, &r->step.index));
    MBA_TRY(mba_json_int(t, "units", 0, 0, INT64_MAX, &r->units_before));
    MBA_TRY(mba_json_int(t, "epoch", 0, 0, STEP_MOST, &r->train->at.epoch));
    MBA_TRY(mba_json_int(t, "index", 0, 0, STEP_MOST, &r->train->at.index));
    if (size != r->train->size) r->train->at = (mba_position){ .epoch = r->train->at.epoch + 1 };
    MBA_TRY(restore_best(r, mba_json_get(t, "best")));
    const json_t *guard = mba_json_get(t, "guard");
    MBA_TRY(mba_json_int(guard, "n", 0, 0, 2 * MBA_GUARD_STEPS, &n));
    MBA_TRY(mba_json_int(guard, "skipped", 0, 0, INT32_MAX, &skipped));
    MBA_TRY(mba_json_int(guard, "in_a_row", 0, 0, INT32_MAX, &in_a_row));
    r->guard.n = (int32_t)n;
    r->guard.skipped = (int32_t)skipped;
    r->guard.in_a_row = (int32_t)in_a_row;
    MBA_TRY(read_floats(r->guard.norm, MBA_GUARD_STEPS, mba_json_get(guard, "norm")));
    return read_floats(r->guard.loss, MBA_GUARD_STEPS, mba_json_get(guard, "loss"));
}

/* ---- restoring ---- */

/* Loads the weights of a checkpoint, or of the newest of a run; `path` receives which. */
static mba_status load_weights(mba__run *r, char path[PATH_ROOM], const char *from)
{
    mba_model     m;
    mba_hf_format format;
    MBA_TRY(mba_checkpoint_find(path, PATH_ROOM, from));
    MBA_TRY(mba_checkpoint_config(&m, &format, path));
    if (m.task != r->s.model.task)
        return mba_fail(MBA_E_ARG,
                        "'%s' is a model of %s, not of %s\nfix: leave --model out to continue with "
                        "its own model",
                        path, mba_task_name(m.task), mba_task_name(r->s.model.task));
    MBA_TRY(mba_model_complete(&m));
    const bool other = r->o->init && m.task == MBA_TASK_IMAGES && m.vision.classes != r->s.model.vision.classes;
    return other ? mba_checkpoint_load_features(&r->s, format, path) : mba_checkpoint_load(&r->s, format, path);
}

mba_status mba__run_restore(mba__run *r)
{
    char    path[PATH_ROOM];
    json_t *trainer = NULL;
    if (r->o->init) {
        MBA_TRY(load_weights(r, path, r->o->init));
        return r->s.averages ? mba_ema_start(r->s.program) : MBA_OK;
    }
    if (!r->o->resume) return MBA_OK;
    MBA_TRY(load_weights(r, path, r->o->resume));
    mba_status st = mba_checkpoint_load_trainer(&r->s, path, &trainer);
    if (st == MBA_OK) st = restore_trainer(r, trainer);
    json_decref(trainer);
    if (st == MBA_OK && r->o->out) st = mba_checkpoint_require_successor(r->o->out, path, r->step.index);
    return st == MBA_OK ? st : mba_where(st, "resuming from '%s'", path);
}

/* ---- the log ---- */

/* Cuts the log of a resumed run to that of an uninterrupted one: removes steps after the checkpoint, which are taken
 * again, and an incomplete line. */
static mba_status rewind_log(const char *path, int64_t step)
{
    mba_map map;
    size_t  keep = 0;
    if (access(path, F_OK)) return MBA_OK;
    MBA_TRY(mba_file_map(&map, path));
    for (const char *line = map.data, *all = line; keep < map.bytes; line = all + keep) {
        static const char first[] = "{\"step\": ";
        const char       *end = memchr(line, '\n', map.bytes - keep);
        if (!end || strncmp(line, first, sizeof first - 1) || strtoll(line + sizeof first - 1, NULL, 10) > step) break;
        keep += (size_t)(end + 1 - line);
    }
    const bool whole = keep == map.bytes;
    mba_file_unmap(&map);
    return whole || !truncate(path, (off_t)keep)
               ? MBA_OK
               : mba_fail(MBA_E_IO, "cannot truncate '%s'\nwhy: %s\nfix: make it writable", path, strerror(errno));
}

mba_status mba__run_open_log(mba__run *r)
{
    char path[PATH_ROOM];
    if (!r->o->out || !mba__run_writes(r)) return MBA_OK;
    MBA_TRY(mba_mkdirs(r->o->out));
    snprintf(path, sizeof path, "%s/log.jsonl", r->o->out);
    const int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    r->log = fd < 0 ? NULL : fdopen(fd, "a");
    if (!r->log) {
        if (fd >= 0) close(fd);
        return mba_fail(MBA_E_IO, "cannot write '%s'\nwhy: the folder is not writable, or the disk is full", path);
    }
    if (r->o->options) MBA_TRY(mba_run_options_save(r->o->options, r->o->out));
    MBA_TRY(mba_tokenizer_files_write(&r->tokenizer, r->o->out));
    if (r->o->resume) return rewind_log(path, r->step.index);
    return !ftruncate(fd, 0) ? MBA_OK
                             : mba_fail(MBA_E_IO, "cannot empty '%s'\nwhy: %s\nfix: remove it", path, strerror(errno));
}

static void log_number(FILE *f, const char *key, double v)
{
    if (isfinite(v)) fprintf(f, ", \"%s\": %.9g", key, v);
    else fprintf(f, ", \"%s\": null", key);
}

void mba__run_report(mba__run *r, mba_train_report *p)
{
    p->steps = r->o->schedule.steps;
    p->units = r->units;
    p->start_s = r->start_s;
    p->start_units = r->start_units;
    p->unit = mba_task_unit(r->s.model.task);
    p->left_out = r->world ? r->all_left_out : r->train->left_out;
    p->story = r->train->story;
    p->best_step = r->best_step;
    p->best_loss = r->best_loss;
    if (r->log) {
        char rate[32];
        snprintf(rate, sizeof rate, "%s_per_s", p->unit);
        fprintf(r->log, "{\"step\": %lld, \"%s\": %lld", (long long)p->step, p->unit,
                (long long)(r->units_before + p->units));
        log_number(r->log, "loss", p->loss);
        log_number(r->log, "grad_norm", p->grad_norm);
        log_number(r->log, "lr", p->lr);
        log_number(r->log, "seconds", p->run_s);
        log_number(r->log, rate, p->units_per_s);
        if (p->valid.units) log_number(r->log, "valid_loss", p->valid.loss);
        for (int i = 0; i < p->valid.scores; i++) {
            char key[48];
            snprintf(key, sizeof key, "valid_%s", p->valid.score[i].name);
            log_number(r->log, key, p->valid.score[i].value);
        }
        if (p->best) fputs(", \"best\": true", r->log);
        fprintf(r->log, ", \"skipped\": %s", p->skipped ? "true" : "false");
        if (p->step == r->began_at + 1 && json_array_size(r->o->changes)) {
            fputs(", \"changed\": ", r->log);
            json_dumpf(r->o->changes, r->log, JSON_ENSURE_ASCII);
        }
        fputs("}\n", r->log);
        fflush(r->log); // a killed run leaves complete lines
    }
    if (r->o->report && mba__run_writes(r)) r->o->report(r->o->ctx, p);
}
mba_status mba__run_check_log(const mba__run *r)
{
    return !r->log || !ferror(r->log)
               ? MBA_OK
               : mba_fail(MBA_E_IO, "cannot write the log in '%s'\nwhy: the disk may be full", r->o->out);
}
